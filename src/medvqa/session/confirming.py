"""Check that stored answers come from the current model: by its identity, or by asking some questions again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from medvqa.backend import Backend, said
from medvqa.items import Answer, AnswerError, Query, QuestionKey, Result

ASKED_AGAIN = 20
"""Questions of a session to ask again if nothing else identifies the model of the stored answers."""

Ask = Callable[[Sequence[Query]], Sequence[tuple[Answer | AnswerError, Result]]]
"""Ask questions again, and score the answers."""


class Confirming:
    """Checks the model of the stored answers that one process of a session used.

    The sample is ASKED_AGAIN of the selected questions, chosen by their keys. A process repeats as many of its stored
    questions as it had in the sample. So the number does not depend on how a run is spread. If all answers were stored,
    the questions do not either.
    """

    def __init__(self) -> None:
        """Start without stored answers or a selection."""
        self.reused = 0
        self._served_by: set[str] = set()
        self._wanted: set[QuestionKey] = set()
        self._share = 0
        self._sample: list[tuple[bytes, Query, Result]] = []

    def choose(self, keys: Iterable[QuestionKey]) -> None:
        """Choose the sample from the keys of the selected questions."""
        self._wanted = set(sorted(set(keys), key=_place)[:ASKED_AGAIN])

    def note(self, query: Query, result: Result, *, reused: bool) -> None:
        """Count a question with its answer; `reused`: the answer was stored."""
        self._share += query.key in self._wanted
        if not reused:
            return
        self.reused += 1
        if result.answer is not None:
            self._served_by.add(result.answer.served_by)
        self._sample.append((_place(query.key), query, result))
        if len(self._sample) > 4 * ASKED_AGAIN:
            self._shorten(ASKED_AGAIN)

    def _shorten(self, number: int) -> None:
        self._sample = sorted(self._sample, key=lambda answered: answered[0])[:number]

    def confirm(self, model: Backend, ask: Ask, refused: str | None) -> dict[str, Any]:
        """Return the entry of the stored answers in run.json; `refused`: why nothing may be asked again.

        Keys: `how` their model is known, or the `problem`; the numbers of questions `asked_again`, and of those that
        scored the `same`.
        """
        checked: dict[str, Any] = {"reused": self.reused}
        if (identification := model.facts.identified) is not None:
            return {**checked, "how": identification}
        if refused is not None:
            return {**checked, "problem": refused}
        # A model that says nothing about it is taken to repeat its answers.
        if said(model, "draws") and model.draws():
            return {
                **checked,
                "problem": "its answers are drawn (its temperature is not 0), so that asking shows nothing",
            }
        self._shorten(max(1, self._share) if self._wanted else ASKED_AGAIN)
        return {**checked, **self._compared(ask)}

    def _compared(self, ask: Ask) -> dict[str, Any]:
        """Ask the sample again; compare names and scores. An equal name proves nothing: weights may change."""
        again = ask([query for _, query, _ in self._sample])
        if failed := [str(answer) for answer, _ in again if isinstance(answer, AnswerError)]:
            return {"problem": f"a question that was asked again has no answer: {failed[0]}"}
        same = sum(_score(now) == _score(was) for (_, now), (_, _, was) in zip(again, self._sample, strict=True))
        counts = {"asked_again": len(again), "same": same}
        now = _names(answer.served_by for answer, _ in again if isinstance(answer, Answer))
        before = _names(self._served_by)
        if now and before and not now & before:
            problem = f"the server says that {', '.join(sorted(now))} answers, and {', '.join(sorted(before))} did"
            return {"problem": problem, **counts}
        if same < len(again):
            return {"problem": "questions that were asked again scored otherwise", **counts}
        return {"how": "questions that were asked again and scored the same", **counts}


def _names(served_by: Iterable[str]) -> set[str]:
    """Return the model names that servers gave, without the fingerprints of their configurations."""
    return {name.partition(" ")[0] for name in served_by} - {""}


def _place(key: QuestionKey) -> bytes:
    return hashlib.sha256(repr(tuple(key)).encode()).digest()


def _score(result: Result) -> tuple[object, ...]:
    return result.score.outcome, result.score.value
