"""Opinions of experts about questions -> the questions of a new version of a benchmark, and the list of its changes.

An expert wants a question to stay as it is, to be corrected, or to be removed; with `keep_from`, a lower rating removes
it. If reviewers want different things, the question needs a final decision, which then counts alone. Of a confusing
pair, both questions go (MediConfusion, section 2.3: one expert, ratings from 1 to 10, and a pair stays only if both
problems have 5 or more).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medvqa.items import DataError, Item, replace
from medvqa.readings.reading_file import Opinion

COLUMNS = ("id", "what", "before", "after", "reason", "reviewers", "final")
"""Columns of the list of changes."""
REMOVED = "removed"
RULE = (
    "Reviewers who want a question differently (as it is, with a correction, with another one, removed) leave it to a "
    "final decision, which counts alone."
)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a question: `what` is "question", "option B", "answer" or "removed".

    `reviewers` and `final` are codes of people; `final` is "" if no final decision was needed.
    """

    item: str
    what: str
    before: str
    after: str
    reason: str
    reviewers: str
    final: str

    @property
    def row(self) -> tuple[str, ...]:
        """The cells under COLUMNS."""
        return self.item, self.what, self.before, self.after, self.reason, self.reviewers, self.final


@dataclass(frozen=True, slots=True)
class RevisedQuestions:
    """The questions that stay, corrected, and the changes, in the order of the questions."""

    items: tuple[Item, ...]
    changes: tuple[Change, ...]

    @property
    def removed(self) -> int:
        """The number of questions that go."""
        return sum(change.what == REMOVED for change in self.changes)

    @property
    def changed(self) -> int:
        """The number of questions that stay with a correction."""
        return len({change.item for change in self.changes if change.what != REMOVED})


def wanted(item: Item, opinion: Opinion, keep_from: int | None = None) -> Item | None:
    """Return a question as an expert wants it, None if it is to be removed.

    DataError, which names the question, for a correction that does not fit it, and for a missing rating.
    """
    where = f"question {item.id}, opinion of {opinion.reader}"
    if opinion.decision == "reject":
        return None
    if keep_from is not None and opinion.rating is None and not opinion.final:
        raise DataError(f"{where}: no rating, and questions stay from {keep_from} on")
    if keep_from is not None and opinion.rating is not None and opinion.rating < keep_from:
        return None
    if opinion.decision == "accept":
        return item
    options, letters = opinion.options or {}, ", ".join(item.options) or "none"
    question = item.question if opinion.question is None else opinion.question.strip()
    answers = item.answers if opinion.answers is None else tuple(filter(None, map(str.strip, opinion.answers)))
    if item.options:
        for letter in (*options, *answers):
            if letter not in item.options:
                raise DataError(f"{where}: no option '{letter}'; there are: {letters}")
        answers = tuple(letter for letter in item.options if letter in answers)
    elif options:
        raise DataError(f"{where}: options are corrected, and the question has none")
    corrected = {letter: options.get(letter, text).strip() for letter, text in item.options.items()}
    for name, text in (("the question", question), *((f"option {letter}", text) for letter, text in corrected.items())):
        if not text.strip():
            raise DataError(f"{where}: {name} is blank")
    if opinion.answers is not None and not answers:
        raise DataError(f"{where}: the key is empty")
    changed = replace(item, question=question, options=corrected if options else item.options, answers=answers)
    if changed == item:
        raise DataError(f"{where}: the decision is 'correct', and nothing is corrected")
    return changed


def undecided(items: Iterable[Item], opinions: Sequence[Opinion], keep_from: int | None = None) -> dict[str, str]:
    """Return the ids of the questions that need a final decision, each with the reason."""
    by_item, reasons = _by_item(opinions), dict[str, str]()
    for item in items:
        try:
            wishes = [wanted(item, opinion, keep_from) for opinion in _decisive(by_item.get(item.id, ()))]
        except DataError as error:
            reasons[item.id] = str(error)
        else:
            if any(wish != wishes[0] for wish in wishes):
                reasons[item.id] = "its reviewers want it differently"
    return reasons


def revised(items: Sequence[Item], opinions: Sequence[Opinion], keep_from: int | None = None) -> RevisedQuestions:
    """Return the questions of the new version; those without an opinion stay. UsageError as for `undecided`."""
    by_item = _by_item(opinions)
    kept = dict[str, Item]()
    for item in items:
        decisive = _decisive(by_item.get(item.id, ()))
        if (wish := wanted(item, decisive[0], keep_from) if decisive else item) is not None:
            kept[item.id] = wish
    gone = {item.pair_id: item.id for item in items if item.pair_id is not None and item.id not in kept}
    changes: list[Change] = []
    for item in items:
        said = by_item.get(item.id, ())
        if item.id not in kept:
            changes.append(_change(item, REMOVED, item.question, "", said, _low(said, keep_from)))
        elif item.pair_id in gone:
            del kept[item.id]
            reason = f"the other question of its pair, {gone[item.pair_id]}, is removed"
            changes.append(_change(item, REMOVED, item.question, "", (), reason))
        else:
            now = kept[item.id]
            texts = [("question", item.question, now.question)]
            texts += [(f"option {letter}", text, now.options[letter]) for letter, text in item.options.items()]
            texts.append(("answer", " | ".join(item.answers), " | ".join(now.answers)))
            changes += [_change(item, what, was, text, said) for what, was, text in texts if was != text]
    return RevisedQuestions(tuple(kept.values()), tuple(changes))


def said(opinions: Sequence[Opinion]) -> tuple[str, ...]:
    """Return the opinions about one question for an adjudicator, with numbers in place of codes."""
    return tuple(f"Reviewer {number}: {_said(opinion)}" for number, opinion in enumerate(opinions, 1))


def _said(opinion: Opinion) -> str:
    parts = [opinion.decision if opinion.rating is None else f"{opinion.decision}, {opinion.rating} of 10"]
    parts += [] if opinion.question is None else [f"Question: {opinion.question}"]
    parts += [f"Option {letter}: {text}" for letter, text in (opinion.options or {}).items()]
    parts += [] if opinion.answers is None else [f"Key: {', '.join(opinion.answers)}"]
    return ". ".join([*parts, *([f"Reason: {opinion.reason}"] if opinion.reason else [])])


def _by_item(opinions: Iterable[Opinion]) -> Mapping[str, Sequence[Opinion]]:
    by_item: dict[str, list[Opinion]] = {}
    for opinion in opinions:
        by_item.setdefault(opinion.item, []).append(opinion)
    return by_item


def _decisive(opinions: Sequence[Opinion]) -> Sequence[Opinion]:
    """The opinions that count: the final decisions, else all."""
    return [opinion for opinion in opinions if opinion.final] or opinions


def _low(opinions: Sequence[Opinion], keep_from: int | None) -> str:
    """Say that ratings are too low, "" if the decision alone removes the question."""
    decisive = _decisive(opinions)
    ratings = [str(opinion.rating) for opinion in decisive if opinion.decision != "reject"]
    return f"rated {', '.join(ratings)} of 10; questions stay from {keep_from} on" if ratings else ""


def _change(item: Item, what: str, was: str, now: str, opinions: Sequence[Opinion], reason: str = "") -> Change:
    reasons = dict.fromkeys(filter(None, (reason, *(opinion.reason for opinion in _decisive(opinions)))))
    reviewers, final = (
        ", ".join(sorted({opinion.reader for opinion in opinions if opinion.final is last})) for last in (False, True)
    )
    return Change(item.id, what, was, now, "; ".join(reasons), reviewers, final)
