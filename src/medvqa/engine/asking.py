"""One batch asked, one item scored."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from medvqa import answers, judging, scoring
from medvqa.backend import Backend
from medvqa.engine.rules import scorer
from medvqa.items import (
    CHOICE_KINDS,
    OPTION_TECHNIQUES,
    Answer,
    AnswerError,
    Benchmark,
    Extraction,
    Item,
    MedVQAError,
    Model,
    Prompt,
    Result,
    Score,
    Technique,
)
from medvqa.protocols import prompts

NEEDS: Mapping[Technique, str] = {
    "mc": "generate",
    "gd": "option_logprobs",
    "ps": "option_likelihood",
    "ff": "generate",
}
"""The capability that a model must have for a technique."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Stands in for a model that could not be made: every prompt ends in the error that says why."""

    name: str
    reason: str
    capabilities: frozenset[str] = frozenset(NEEDS.values())

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """No answers."""
        return [AnswerError(self.reason)] * len(prompts)


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch that got no answers; `memory` tells that it was too large, so that a smaller one may fit."""

    why: str
    memory: bool = False


def attempt(
    model: Model | Backend, batch: Sequence[Prompt], secrets: Collection[str] = ()
) -> list[Answer | AnswerError] | Failure:
    """One answer or error for each prompt, in order; the batch's wall time is shared out where the model gave none.

    Whatever a model raises becomes a Failure, since the other items of a run must not be lost with it; it
    is recorded with each item and the exit code is 1. An answer that cannot be kept costs its own item alone. None of
    the `secrets` is in what is returned.
    """
    start = time.perf_counter()
    try:
        given = list(model.generate(batch))
    except MedVQAError as error:
        return Failure(_line(error, secrets))
    except Exception as error:  # noqa: BLE001 - see the docstring
        line = answers.redacted(f"{type(error).__name__}: {answers.line_of(error)}", secrets)
        return Failure(line, memory=_out_of_memory(error))
    if len(given) != len(batch):
        return Failure(f"model '{_name(model)}' gave {len(given)} answers to {len(batch)} prompts")
    share = (time.perf_counter() - start) / len(batch)
    return [_admitted(each, prompt, share, _name(model), secrets) for each, prompt in zip(given, batch, strict=True)]


def _name(model: Model | Backend) -> str:
    return model.title if isinstance(model, Backend) else model.name


def _out_of_memory(error: Exception) -> bool:
    # torch has its own class, and is not imported to be asked for it.
    return any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for kind in type(error).__mro__)


def _line(error: BaseException, secrets: Collection[str]) -> str:
    return answers.redacted(answers.line_of(error), secrets)


def _admitted(
    given: object, prompt: Prompt, share: float, model: str, secrets: Collection[str]
) -> Answer | AnswerError:
    """What a model gave to one prompt as it may be stored: the only way by which an answer enters a run."""
    if isinstance(given, AnswerError):
        return AnswerError(_line(given, secrets))
    if not isinstance(given, Answer):
        return AnswerError(f"model '{model}' gave a {type(given).__name__} in the place of an Answer")
    try:
        answer = answers.checked(given)
    except Exception as error:  # noqa: BLE001 - a class of a stranger's may raise anything when it is read
        why = answers.line_of(error) if isinstance(error, AnswerError) else f"{type(error).__name__}: {error}"
        return AnswerError(answers.redacted(f"model '{model}' gave an answer that cannot be kept: {why}", secrets))
    if (misfit := answers.misfit(answer, prompt)) is not None:
        return AnswerError(answers.redacted(misfit, secrets))
    answer = answers.without_secrets(answer, secrets)
    return replace(answer, seconds=share) if answer.seconds is None else answer


def ask(model: Model | Backend, batch: Sequence[Prompt], secrets: Collection[str] = ()) -> list[Answer | AnswerError]:
    """Ask once, here and now: one answer or error for each prompt, in order."""
    said = attempt(model, batch, secrets)
    return [AnswerError(said.why)] * len(batch) if isinstance(said, Failure) else said


def by_rule(
    item: Item, technique: Technique, answer: Answer, *, benchmark: Benchmark, extraction: Extraction = "sound"
) -> Score:
    """The score of an answer in words without a judge.

    One that was given freely to a question with options says none of them by name: it is left to a judge.
    """
    if technique == "ff" and item.kind in CHOICE_KINDS:
        return Score(None, "unscored", (), "a judge has to compare it with each option")
    return scorer(benchmark, extraction)(item, answer)


def result(
    item: Item,
    prompt: Prompt,
    answer: Answer | AnswerError,
    *,
    benchmark: Benchmark,
    run: str,
    extraction: Extraction = "sound",
    digest: str = "",
    score: Score | None = None,
) -> Result:
    """Score one answer; one that could not be had, or whose log-probabilities are none, is the outcome `error`.

    `digest` is the prompt's, "" where it was not computed yet; `score` is that of the answer where it is known.
    """
    digest = digest or prompts.digest(prompt)
    rule = scorer(benchmark, extraction)
    try:
        if isinstance(answer, AnswerError):
            raise answer
        if prompt.technique in OPTION_TECHNIQUES:
            scored = scoring.score_likeliest(item, answer, prompt.options, prompt.technique, rule)
        else:
            scored = score or by_rule(item, prompt.technique, answer, benchmark=benchmark, extraction=extraction)
    except AnswerError as error:
        failed = Score(None, "error", why=str(error))
        return Result(run, item, digest, None, failed, prompt.technique, sample=prompt.sample)
    return Result(run, item, digest, answer, scored, prompt.technique, sample=prompt.sample)


def led_by(result: Result, *, benchmark: Benchmark, settings: judging.Settings) -> Result:
    """The result of a free answer that a judge compared with the options, by the lead of `settings`.

    The replies that were recorded are read again; an error, and a result of any other kind, stays as it is.
    """
    judgement = result.judgement
    if result.answer is None or judgement is None or judgement.task != "closeness":
        return result
    score = by_rule(result.item, result.technique, result.answer, benchmark=benchmark)
    case = judging.case_of(benchmark, result.item, result.technique, result.answer, score, settings)
    if case is None or not case.prompts:
        return result
    # Of two replies the second was asked for because the first could not be read.
    readings = [judging.read(case, 0, reply) for reply in reversed(judgement.replies)]
    readable = [reading for reading in readings if isinstance(reading, judging.Reading)]
    return replace(result, score=judging.score(case, result.item, readable[:1], settings)) if readable else result


def rescored(
    result: Result, *, benchmark: Benchmark, extraction: Extraction, settings: judging.Settings | None = None
) -> Result:
    """The result by another rule of reading answers.

    An error stays one, and so does an option that was likeliest, and what a judge said.
    """
    if result.answer is None or result.judgement is not None or result.technique in OPTION_TECHNIQUES:
        return result
    score = by_rule(result.item, result.technique, result.answer, benchmark=benchmark, extraction=extraction)
    if settings is not None:
        case = judging.case_of(benchmark, result.item, result.technique, result.answer, score, settings)
        if case is not None and not case.prompts:
            score = judging.score(case, result.item, (), settings)
    return replace(result, score=score)
