"""Ask one batch: one answer or error for each prompt."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from medvqa import answers, usercode
from medvqa.backend import Backend
from medvqa.items import OPTION_TECHNIQUES, Answer, AnswerError, BatchLost, MedVQAError, Model, Prompt, Turn, replace
from medvqa.protocols.protocol import NEEDS
from medvqa.scoring import cut_off


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
    """A batch without answers.

    `memory`: out of memory, so a smaller batch may fit. `lost`: the process that computed it was lost, so that the
    prompts are asked again; `suspect` is as in `BatchLost`.
    """

    why: str
    memory: bool = False
    lost: bool = False
    suspect: bool = False


Outcome = list[Answer | AnswerError] | Failure
"""One answer or error per prompt of a batch, in order, or why there is none."""
T = TypeVar("T")


def attempt(model: Model | Backend, batch: Sequence[Prompt], secrets: Collection[str] = ()) -> Outcome:
    """Return one answer or error per prompt, in order; answers without `seconds` get their share of the wall time.

    Any exception of the model becomes a Failure, so that the other items of a run are not lost. The failure is recorded
    with every item, and the exit code is 1. An invalid answer costs only its own item. `secrets` are
    removed from all texts. Prompts with further turns (`Prompt.then`) get these after each reply.
    """
    rest = computed(model, batch, secrets)
    return rest if isinstance(rest, Failure) else rest()


def computed(
    model: Model | Backend, batch: Sequence[Prompt], secrets: Collection[str] = ()
) -> Callable[[], Outcome] | Failure:
    """Run the device's part of a batch, and return a function that does the rest and returns what `attempt` does.

    The next turn of a conversation needs the text of the one before, so conversations leave nothing to the function.
    """
    rest = _turn_computed(model, batch, secrets)
    if isinstance(rest, Failure) or not [prompt for prompt in batch if prompt.then] or _is_recorded(model):
        return rest
    replies = rest()
    outcome = replies if isinstance(replies, Failure) else _continued(model, batch, replies, secrets)
    return outcome if isinstance(outcome, Failure) else lambda: outcome


def _is_recorded(model: Model | Backend) -> bool:
    """Whether the answers are recorded: then they are those of the last turn."""
    return isinstance(model, Backend) and model.facts.recorded


def _continued(
    model: Model | Backend, batch: Sequence[Prompt], replies: Sequence[Answer | AnswerError], secrets: Collection[str]
) -> Outcome:
    """Send the further turns (`Prompt.then`) of a batch, one turn of all conversations at a time.

    An error or a refusal that the server reports ends its conversation. A reply that was cut off does not: the next
    turn asks for the answer all the same, which is marked by `Answer.cut`.
    """
    ends: list[Answer | AnswerError] = list(replies)
    conversations = {place: prompt for place, prompt in enumerate(batch) if prompt.then}
    while conversations:
        following: dict[int, Prompt] = {}
        for place, prompt in conversations.items():
            reply = ends[place]
            if isinstance(reply, Answer) and reply.finish != "refusal":
                turns = (*prompt.turns, Turn(prompt.text, reply.text))
                following[place] = replace(prompt, text=prompt.then[0], turns=turns, then=prompt.then[1:])
        if not following:
            break
        rest = _turn_computed(model, list(following.values()), secrets)
        outcome = rest if isinstance(rest, Failure) else rest()
        if isinstance(outcome, Failure):
            return outcome
        for place, reply in zip(following, outcome, strict=True):
            ends[place] = _joined(ends[place], reply, turn=len(following[place].turns) + 1)
        conversations = {place: prompt for place, prompt in following.items() if prompt.then}
    return ends


def _joined(before: Answer | AnswerError, reply: Answer | AnswerError, turn: int) -> Answer | AnswerError:
    """Return the answer of a conversation: the last reply with the earlier ones, and the sums of usage and seconds."""
    if isinstance(before, AnswerError):
        return before
    if isinstance(reply, AnswerError):
        return AnswerError(f"turn {turn}: {reply}")
    usage = Counter(before.usage or {})
    usage.update(reply.usage or {})
    return replace(
        reply,
        seconds=(before.seconds or 0.0) + (reply.seconds or 0.0),
        usage=None if before.usage is None and reply.usage is None else dict(usage),
        thoughts=answers.shortened("\n\n".join(filter(None, (before.thoughts, reply.thoughts)))),
        earlier=(*before.earlier, before.text),
        cut=before.cut or reply.cut or cut_off(before),
    )


def _turn_computed(
    model: Model | Backend, batch: Sequence[Prompt], secrets: Collection[str]
) -> Callable[[], Outcome] | Failure:
    """Run the device's part of the present turn; the returned function returns one reply per prompt."""
    if any(prompt.turns or prompt.then for prompt in batch) and not _converses(model):
        return Failure(
            f"model '{_name(model)}' takes one turn alone, and the question has several; a backend that sends "
            "Prompt.turns before the text declares converses = True"
        )
    start = time.perf_counter()
    rest = _guarded(model, lambda: _started(model, batch), secrets)
    if isinstance(rest, Failure):
        return rest
    return partial(_replies, model, batch, rest, time.perf_counter() - start, secrets)


def _started(model: Model | Backend, batch: Sequence[Prompt]) -> Callable[[], Sequence[Answer | AnswerError]]:
    if isinstance(model, Backend):
        return model.compute(batch)
    replies = model.generate(batch)
    return lambda: replies


def _replies(
    model: Model | Backend,
    batch: Sequence[Prompt],
    rest: Callable[[], Sequence[Answer | AnswerError]],
    seconds: float,
    secrets: Collection[str],
) -> Outcome:
    """Return one reply per prompt, by the function that `compute` returned after so many seconds."""
    start = time.perf_counter()
    replies = _guarded(model, lambda: list(rest()), secrets)
    if isinstance(replies, Failure):
        return replies
    if len(replies) != len(batch):
        return Failure(f"model '{_name(model)}' gave {len(replies)} answers to {len(batch)} prompts")
    share, name = (seconds + time.perf_counter() - start) / len(batch), _name(model)
    recorded = _is_recorded(model)
    return [
        _admitted(reply, prompt, share, name, secrets, recorded=recorded)
        for reply, prompt in zip(replies, batch, strict=True)
    ]


def _guarded(model: Model | Backend, call: Callable[[], T], secrets: Collection[str]) -> T | Failure:
    """Return what a call of the model returns, or the Failure for what it raises."""
    try:
        return call()
    except BatchLost as error:
        return Failure(_line(error, secrets), lost=True, suspect=error.suspect)
    except MedVQAError as error:
        return Failure(_line(error, secrets))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a model may raise anything
        line = f"{type(error).__name__}: {answers.line_of(error)}"
        if not type(model).__module__.startswith("medvqa."):
            line = usercode.described(error, f"model '{_name(model)}'", function=type(model).generate)
        return Failure(answers.redacted(line, secrets), memory=_out_of_memory(error))


def _converses(model: Model | Backend) -> bool:
    return isinstance(model, Unavailable) or (
        isinstance(model, Backend) and (model.facts.converses or model.facts.recorded)
    )


def _name(model: Model | Backend) -> str:
    return model.facts.title if isinstance(model, Backend) else model.name


def _out_of_memory(error: BaseException) -> bool:
    # torch has its own class; compare names instead of importing torch.
    return any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for kind in type(error).__mro__)


def _line(error: BaseException, secrets: Collection[str]) -> str:
    return answers.redacted(answers.line_of(error), secrets)


def _admitted(
    reply: object, prompt: Prompt, share: float, model: str, secrets: Collection[str], *, recorded: bool
) -> Answer | AnswerError:
    """Check the model's reply to one prompt; every answer of a run passes through here.

    Thoughts are parted from the text, unless the answer is `recorded`: it stays as it is.
    """
    if isinstance(reply, AnswerError):
        return AnswerError(_line(reply, secrets))
    if not isinstance(reply, Answer):
        return AnswerError(f"model '{model}' gave a {type(reply).__name__} instead of an Answer")
    try:
        answer = answers.checked(reply)
        if not recorded and prompt.technique not in OPTION_TECHNIQUES:
            answer = answers.without_thoughts(answer)
    except Exception as error:  # noqa: BLE001 - attributes of a user's class may raise anything
        why = answers.line_of(error) if isinstance(error, AnswerError) else f"{type(error).__name__}: {error}"
        return AnswerError(answers.redacted(f"model '{model}' gave an answer that cannot be kept: {why}", secrets))
    if (misfit := answers.misfit(answer, prompt)) is not None:
        return AnswerError(answers.redacted(misfit, secrets))
    answer = answers.without_secrets(answer, secrets)
    # The time of people is theirs, and not that of looking their answers up.
    return replace(answer, seconds=share) if answer.seconds is None and answer.noted is None else answer


def ask(model: Model | Backend, batch: Sequence[Prompt], secrets: Collection[str] = ()) -> list[Answer | AnswerError]:
    """Ask one batch directly, without a stream; return one answer or error per prompt, in order."""
    outcome = attempt(model, batch, secrets)
    return [AnswerError(outcome.why)] * len(batch) if isinstance(outcome, Failure) else outcome
