"""Asks a model and scores what it says: item -> Prompt -> Answer -> Score -> Result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from medvqa import prompts
from medvqa.items import (
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
    UsageError,
)

NEEDS: Mapping[Technique, str] = {"mc": "generate"}
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


def ask(model: Model, batch: Sequence[Prompt]) -> list[Answer | AnswerError]:
    """One answer or error for each prompt, in order; the batch's wall time is shared out where the model gave none.

    Whatever a model raises becomes the error of its prompts, since the other items of a run must not be
    lost with it; it is recorded with each item and the exit code is 1.
    """
    start = time.perf_counter()
    try:
        answers = list(model.generate(batch))
    except MedVQAError as error:
        return [AnswerError(str(error))] * len(batch)
    except Exception as error:  # noqa: BLE001 - see the docstring
        return [AnswerError(f"{type(error).__name__}: {error}")] * len(batch)
    if len(answers) != len(batch):
        return [AnswerError(f"model '{model.name}' gave {len(answers)} answers to {len(batch)} prompts")] * len(batch)
    share = (time.perf_counter() - start) / len(batch)
    return [
        replace(answer, seconds=share) if isinstance(answer, Answer) and answer.seconds is None else answer
        for answer in answers
    ]


def scorer(benchmark: Benchmark, extraction: Extraction) -> Callable[[Item, Answer], Score]:
    """The benchmark's own scoring, or its owners' published rule; UsageError where they published none."""
    if extraction == "sound":
        return benchmark.score
    if benchmark.official is None:
        raise UsageError(f"benchmark '{benchmark.name}' has no published rule: leave --extraction=official out")
    return benchmark.official


def evaluate(
    item: Item,
    *,
    benchmark: Benchmark,
    model: Model,
    run: str,
    technique: Technique = "mc",
    extraction: Extraction = "sound",
) -> Result:
    """Ask one question and score the answer; an answer that could not be had is the outcome `error`."""
    try:
        prompt = benchmark.prompt(item, technique)
    except MedVQAError as error:
        return Result(run, item, "", None, Score(None, "error", why=str(error)), technique)
    (answer,) = ask(model, [prompt])
    if isinstance(answer, AnswerError):
        score = Score(None, "error", why=str(answer))
        return Result(run, item, prompts.digest(prompt), None, score, technique)
    score = scorer(benchmark, extraction)(item, answer)
    return Result(run, item, prompts.digest(prompt), answer, score, technique)
