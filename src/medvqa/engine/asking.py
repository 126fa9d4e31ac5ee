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
    """Replaces a model that could not be created: every prompt ends in an error with `reason`."""

    name: str
    reason: str
    capabilities: frozenset[str] = frozenset(NEEDS.values())

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Return an error for every prompt."""
        return [AnswerError(self.reason)] * len(prompts)


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch without answers; `memory`: out of memory, so a smaller batch may fit."""

    why: str
    memory: bool = False


def attempt(
    model: Model | Backend, batch: Sequence[Prompt], secrets: Collection[str] = ()
) -> list[Answer | AnswerError] | Failure:
    """Return one answer or error per prompt, in order; answers without `seconds` get their share of the wall time.

    Any exception of the model becomes a Failure, so that the other items of a run are not lost. The failure is recorded
    with every item, and the exit code is 1. An invalid answer costs only its own item. `secrets` are
    removed from all texts.
    """
    start = time.perf_counter()
    try:
        replies = list(model.generate(batch))
    except MedVQAError as error:
        return Failure(_line(error, secrets))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - see the docstring
        line = f"{type(error).__name__}: {answers.line_of(error)}"
        if not type(model).__module__.startswith("medvqa."):
            line = usercode.described(error, f"model '{_name(model)}'", function=type(model).generate)
        return Failure(answers.redacted(line, secrets), memory=_out_of_memory(error))
    if len(replies) != len(batch):
        return Failure(f"model '{_name(model)}' gave {len(replies)} answers to {len(batch)} prompts")
    share, name = (time.perf_counter() - start) / len(batch), _name(model)
    return [_admitted(reply, prompt, share, name, secrets) for reply, prompt in zip(replies, batch, strict=True)]


def _name(model: Model | Backend) -> str:
    return model.title if isinstance(model, Backend) else model.name


def _out_of_memory(error: BaseException) -> bool:
    # torch has its own class; compare names instead of importing torch.
    return any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for kind in type(error).__mro__)


def _line(error: BaseException, secrets: Collection[str]) -> str:
    return answers.redacted(answers.line_of(error), secrets)


def _admitted(
    reply: object, prompt: Prompt, share: float, model: str, secrets: Collection[str]
) -> Answer | AnswerError:
    """Check the model's reply to one prompt; every answer of a run passes through here."""
    if isinstance(reply, AnswerError):
        return AnswerError(_line(reply, secrets))
    if not isinstance(reply, Answer):
        return AnswerError(f"model '{model}' gave a {type(reply).__name__} instead of an Answer")
    try:
        answer = answers.checked(reply)
    except Exception as error:  # noqa: BLE001 - attributes of a user's class may raise anything
        why = answers.line_of(error) if isinstance(error, AnswerError) else f"{type(error).__name__}: {error}"
        return AnswerError(answers.redacted(f"model '{model}' gave an answer that cannot be kept: {why}", secrets))
    if (misfit := answers.misfit(answer, prompt)) is not None:
        return AnswerError(answers.redacted(misfit, secrets))
    answer = answers.without_secrets(answer, secrets)
    return replace(answer, seconds=share) if answer.seconds is None else answer


def ask(model: Model | Backend, batch: Sequence[Prompt], secrets: Collection[str] = ()) -> list[Answer | AnswerError]:
    """Ask one batch directly, without a stream; return one answer or error per prompt, in order."""
    outcome = attempt(model, batch, secrets)
    return [AnswerError(outcome.why)] * len(batch) if isinstance(outcome, Failure) else outcome
