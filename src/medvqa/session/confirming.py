"""Whether stored answers are of the model that answers now: by what it is, or by asking some questions anew."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from medvqa.backend import Backend, says
from medvqa.items import Answer, AnswerError, Query, QuestionKey, Result

ASKED_AGAIN = 20
"""Questions of a session that are asked anew where nothing else shows which model the stored answers are of."""

Ask = Callable[[Sequence[Query]], Sequence[tuple[Answer | AnswerError, Result]]]
"""Ask questions anew, and score what is answered."""


class Confirming:
    """The stored answers that a process of a session used, and the model that they should be of.

    The sample are ASKED_AGAIN of the questions that the session selected, chosen by their keys. A process asks as many
    of its stored ones anew as it had of the sample: the number, and if all were stored the questions, are the same
    however a run is spread.
    """

    def __init__(self) -> None:
        """Nothing was used yet, and it is not known what was selected."""
        self.reused = 0
        self._served_by: set[str] = set()
        self._wanted: set[bytes] = set()
        self._share = 0
        self._sample: list[tuple[bytes, Query, Result]] = []

    def choose(self, keys: Iterable[QuestionKey]) -> None:
        """Choose the sample from what the session selected."""
        self._wanted = set(sorted({_place(key) for key in keys})[:ASKED_AGAIN])

    def note(self, query: Query, result: Result, *, reused: bool) -> None:
        """A question has its answer, which `reused` says was stored."""
        place = _place(query.key)
        self._share += place in self._wanted
        if not reused:
            return
        self.reused += 1
        if result.answer is not None:
            self._served_by.add(result.answer.served_by)
        self._sample.append((place, query, result))
        if len(self._sample) > 4 * ASKED_AGAIN:
            self._shorten(ASKED_AGAIN)

    def _shorten(self, number: int) -> None:
        self._sample = sorted(self._sample, key=lambda each: each[0])[:number]

    def confirm(self, model: Backend, ask: Ask, refused: str | None) -> dict[str, Any]:
        """What is known of the stored answers, for run.json; `refused` says why nothing may be asked anew.

        `how` their model is known, or what the `problem` is; how many questions were `asked_again`, and how many of
        them scored the `same`.
        """
        checked: dict[str, Any] = {"reused": self.reused}
        if (known := model.identified()) is not None:
            return {**checked, "how": known}
        if refused is not None:
            return {**checked, "problem": refused}
        if _draws(model):
            return {
                **checked,
                "problem": "its answers are drawn (its temperature is not 0), so that asking shows nothing",
            }
        self._shorten(max(1, self._share) if self._wanted else ASKED_AGAIN)
        return {**checked, **self._compared(ask)}

    def _compared(self, ask: Ask) -> dict[str, Any]:
        """Ask some questions, and compare names and scores. A name that stayed shows nothing: weights may change."""
        again = ask([query for _, query, _ in self._sample])
        if failed := [str(answer) for answer, _ in again if isinstance(answer, AnswerError)]:
            return {"problem": f"a question that was asked again has no answer: {failed[0]}"}
        same = sum(_score(now) == _score(was) for (_, now), (_, _, was) in zip(again, self._sample, strict=True))
        counts = {"asked_again": len(again), "same": same}
        now = _names(answer.served_by for answer, _ in again if isinstance(answer, Answer))
        before = _names(self._served_by)
        if now and before and not now & before:
            said = f"the server says that {', '.join(sorted(now))} answers, and {', '.join(sorted(before))} did"
            return {"problem": said, **counts}
        if same < len(again):
            return {"problem": "questions that were asked again scored otherwise", **counts}
        return {"how": "questions that were asked again and scored the same", **counts}


def _names(served_by: Iterable[str]) -> set[str]:
    """The names by which servers call what answers, without the fingerprints of their configurations."""
    return {name.partition(" ")[0] for name in served_by} - {""}


def _place(key: QuestionKey) -> bytes:
    return hashlib.sha256(repr(tuple(key)).encode()).digest()


def _score(result: Result) -> tuple[object, ...]:
    return result.score.outcome, result.score.value


def _draws(model: Backend) -> bool:
    """Whether a model says that it samples its answers; False if it says nothing."""
    while type(model).wraps and not says(type(model), "draws"):
        model = model.inner
    return says(type(model), "draws") and model.draws()
