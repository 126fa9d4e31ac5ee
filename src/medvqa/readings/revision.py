"""Opinions of experts about questions -> the questions of a new version of a benchmark, and the list of its changes.

An expert wants a question to stay as it is, to be corrected, or to be removed; with `keep_from`, a lower rating removes
it. If reviewers want different things, the question needs a final decision, which then counts alone, whatever its
rating. Of a confusing pair, both questions go (MediConfusion, section 2.3: one expert, ratings from 1 to 10, and a pair
stays only if both problems have 5 or more).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from medvqa.items import DataError, Item, replace
from medvqa.readings.reading_file import Opinion

REMOVED = "removed"
RULE = (
    "Reviewers who want a question differently (as it is, with a correction, with another one, removed) leave it to a "
    "final decision, which counts alone. Of a pair, both questions stay, or neither. Questions without an opinion stay."
)


class Change(NamedTuple):
    """One change of a question: `what` is "question", "option B", "answer" or "removed".

    `reviewers` and `final` are codes of people, "" for none.
    """

    id: str
    what: str
    before: str
    after: str
    reason: str
    reviewers: str
    final: str


def wanted(item: Item, opinion: Opinion, keep_from: int | None = None) -> Item | None:
    """Return a question as an expert wants it, None if it is to be removed; an option without text goes.

    DataError, which names the question, for a missing rating or correction. Whether a correction makes a question is
    left to the reader of tables.
    """
    where = f"question {item.id}, opinion of {opinion.reader}"
    if opinion.decision == "reject":
        return None
    if keep_from is not None and not opinion.final:
        if opinion.rating is None:
            raise DataError(f"{where}: no rating, and questions stay from {keep_from} on")
        if opinion.rating < keep_from:
            return None
    if opinion.decision == "accept":
        return item
    options, answers = dict(item.options), item.answers
    if opinion.options is not None:
        if unknown := sorted(opinion.options.keys() - options.keys()):
            raise DataError(f"{where}: no option '{unknown[0]}'; there are: {', '.join(options) or 'none'}")
        texts = {letter: text.strip() for letter, text in {**options, **opinion.options}.items()}
        options = {letter: text for letter, text in texts.items() if text}
    if opinion.answers is not None:
        answers = tuple(filter(None, (text.strip() for text in opinion.answers)))
        answers = tuple(sorted(set(answers))) if options else answers
    question = item.question if opinion.question is None else opinion.question.strip()
    changed = replace(item, question=question, options=options, answers=answers)
    if opinion.answers is not None and not answers:
        raise DataError(f"{where}: the decision is 'correct', and the key is empty")
    if changed == item:
        raise DataError(f"{where}: the decision is 'correct', and nothing is corrected")
    return changed


def undecided(items: Iterable[Item], opinions: Iterable[Opinion], keep_from: int | None = None) -> list[str]:
    """Return the ids of the questions that need a final decision; DataError as for `wanted`."""
    by_item = _by_item(opinions)
    wishes = {
        item.id: [wanted(item, opinion, keep_from) for opinion in _decisive(by_item.get(item.id, ()))] for item in items
    }
    return [id for id, own in wishes.items() if any(wish != own[0] for wish in own)]


def revised(
    items: Sequence[Item], opinions: Iterable[Opinion], keep_from: int | None = None
) -> tuple[list[Item], list[Change]]:
    """Return the questions of the new version, if none is undecided, and the changes; no opinion means no change."""
    by_item, kept = _by_item(opinions), dict[str, Item]()
    for item in items:
        decisive = _decisive(by_item.get(item.id, ()))
        if (wish := wanted(item, decisive[0], keep_from) if decisive else item) is not None:
            kept[item.id] = wish
    gone = {item.pair_id: item.id for item in items if item.pair_id is not None and item.id not in kept}
    changes: list[Change] = []
    for item in items:
        about = by_item.get(item.id, ())
        if item.id not in kept:
            changes.append(_change(item, REMOVED, item.question, "", about, _ratings(about)))
        elif item.pair_id in gone:
            del kept[item.id]
            reason = f"the other question of its pair, {gone[item.pair_id]}, is removed"
            changes.append(_change(item, REMOVED, item.question, "", (), reason))
        else:
            was, now = _texts(item), _texts(kept[item.id])
            names = [name for name in {**was, **now} if was.get(name, "") != now.get(name, "")]
            changes += [_change(item, name, was.get(name, ""), now.get(name, ""), about) for name in names]
    _check_pairs({item.id: item for item in items}, kept.values())
    return list(kept.values()), changes


def _check_pairs(before: Mapping[str, Item], kept: Iterable[Item]) -> None:
    """DataError for a pair whose questions were one and now differ, or whose keys differed and now are one."""
    firsts = dict[str, Item]()
    # Whether a question is empty is left to the reader of tables.
    for now in (item for item in kept if item.question.strip()):
        first = firsts.setdefault(now.pair_id, now) if now.pair_id is not None else now
        was, was_first = before[now.id], before[first.id]
        if now.question != first.question and was.question == was_first.question:
            raise DataError(f"pair {now.pair_id}: correct the question in both, {first.id} and {now.id}")
        if first is not now and now.answers == first.answers and was.answers != was_first.answers:
            raise DataError(f"pair {now.pair_id}: {first.id} and {now.id} would have the same key")


def said(opinions: Sequence[Opinion]) -> tuple[str, ...]:
    """Return the opinions about one question for an adjudicator, with numbers in place of codes."""
    lines = []
    for number, opinion in enumerate(opinions, 1):
        parts = [opinion.decision if opinion.rating is None else f"{opinion.decision}, {opinion.rating} of 10"]
        parts += [] if opinion.question is None else [f"Question: {opinion.question}"]
        parts += [f"Option {letter}: {text}" for letter, text in (opinion.options or {}).items()]
        parts += [] if opinion.answers is None else [f"Key: {', '.join(opinion.answers)}"]
        parts += [f"Reason: {opinion.reason}"] if opinion.reason else []
        lines.append(f"Reviewer {number}: {'. '.join(parts)}")
    return tuple(lines)


def _texts(item: Item) -> dict[str, str]:
    options = {f"option {letter}": text for letter, text in item.options.items()}
    return {"question": item.question, **options, "answer": " | ".join(item.answers)}


def _by_item(opinions: Iterable[Opinion]) -> Mapping[str, Sequence[Opinion]]:
    by_item: dict[str, list[Opinion]] = {}
    for opinion in opinions:
        by_item.setdefault(opinion.item, []).append(opinion)
    return by_item


def _decisive(opinions: Sequence[Opinion]) -> Sequence[Opinion]:
    """The opinions that count: the final decisions, else all."""
    return [opinion for opinion in opinions if opinion.final] or opinions


def _ratings(opinions: Sequence[Opinion]) -> str:
    """Name the ratings of those who did not reject the question: they are too low."""
    low = [str(opinion.rating) for opinion in _decisive(opinions) if opinion.decision != "reject"]
    return f"rated {', '.join(low)} of 10" if low else ""


def _change(item: Item, what: str, was: str, now: str, opinions: Sequence[Opinion], reason: str = "") -> Change:
    reasons = dict.fromkeys(filter(None, (reason, *(opinion.reason for opinion in _decisive(opinions)))))
    reviewers, final = (sorted({each.reader for each in opinions if each.final is last}) for last in (False, True))
    return Change(item.id, what, was, now, "; ".join(reasons), ", ".join(reviewers), ", ".join(final))
