"""Ask a model one batch: one answer or error for each prompt."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from medvqa import answers, usercode
from medvqa.backend import Backend
from medvqa.items import Answer, AnswerError, MedVQAError, Model, Prompt
from medvqa.protocols.techniques import NEEDS


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
        line = f"{type(error).__name__}: {answers.line_of(error)}"
        if not type(model).__module__.startswith("medvqa."):
            line = usercode.described(error, f"model '{_name(model)}'", function=type(model).generate)
        return Failure(answers.redacted(line, secrets), memory=_out_of_memory(error))
    if len(given) != len(batch):
        return Failure(f"model '{_name(model)}' gave {len(given)} answers to {len(batch)} prompts")
    share, name = (time.perf_counter() - start) / len(batch), _name(model)
    return [_admitted(each, prompt, share, name, secrets) for each, prompt in zip(given, batch, strict=True)]


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
