"""Match the questions of two runs by content, not by id alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medvqa import metrics, records
from medvqa.comparing.sides import Side
from medvqa.data import selection
from medvqa.items import SCORED_OUTCOMES, Item, QuestionKey, Result

Samples = Sequence[Result]
"""The results of one question: one, or one for each sample."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The questions of one benchmark and technique that two runs have, sorted by the key of the first.

    `first`, `second`: their results, question by question; the second's results get the items of the first, so tags
    and pairs are equal. Groups of both runs are joined (`_in_common_groups`). `alone_*`: keys of questions that only
    one run has.
    """

    first: tuple[Samples, ...]
    second: tuple[Samples, ...]
    alone_first: tuple[QuestionKey, ...]
    alone_second: tuple[QuestionKey, ...]


def by_question(results: Iterable[Result], benchmark: str, technique: str) -> dict[QuestionKey, list[Result]]:
    """The results of one benchmark and technique by question (`QuestionKey.question`), in input order."""
    questions: dict[QuestionKey, list[Result]] = {}
    for result in results:
        if result.item.benchmark == benchmark and result.technique == technique:
            questions.setdefault(result.key.question, []).append(result)
    return questions


def content(item: Item) -> tuple[Any, ...]:
    """The content that identifies a question: the fields of `records.data_digest` without the id."""
    return (
        item.kind,
        item.question,
        tuple(item.options.items()),
        item.answers,
        tuple(_picture(item, place) for place in range(len(item.images))),
    )


def _picture(item: Item, place: int) -> tuple[str, ...]:
    """The identity of an image. One without name and digest is like no other."""
    image = item.images[place]
    if not records.is_pseudonym(image):
        return (image.digest or image.name,)
    return (image.key,) if image.digest else (item.benchmark, item.id, str(place))


def _same_images(one: Item, other: Item) -> bool:
    """Whether two questions of one key may show the same images.

    Of data that are not declared public, earlier versions recorded names and no digests, and a run that looks at no
    image records neither: nothing contradicts then.
    """
    if len(one.images) != len(other.images):
        return False
    for place, (image, image2) in enumerate(zip(one.images, other.images, strict=True)):
        unknown = not (image.digest and image2.digest)
        if unknown and (records.is_pseudonym(image) or records.is_pseudonym(image2)):
            continue
        if _picture(one, place) != _picture(other, place):
            return False
    return True


def match(first: Mapping[QuestionKey, Samples], second: Mapping[QuestionKey, Samples]) -> Matched:
    """Match questions by content (`partners`)."""
    partner = partners(first, second)
    keys = sorted(partner)
    items = _in_common_groups([(first[key][0].item, second[partner[key]][0].item) for key in keys])
    return Matched(
        tuple(_about(item, first[key]) for key, item in zip(keys, items, strict=True)),
        tuple(_about(item, second[partner[key]]) for key, item in zip(keys, items, strict=True)),
        tuple(sorted(first.keys() - partner.keys())),
        tuple(sorted(second.keys() - set(partner.values()))),
    )


def partners(
    first: Mapping[QuestionKey, Samples], second: Mapping[QuestionKey, Samples]
) -> dict[QuestionKey, QuestionKey]:
    """Map questions of the first run to questions of the second with the same content.

    Questions with equal keys are matched first, then the rest in the order of their keys.
    """
    partner = {key: key for key in sorted(first.keys() & second.keys()) if _same(first[key], second[key])}
    taken = set(partner.values())
    left: dict[tuple[Any, ...], list[QuestionKey]] = {}
    for key in sorted(second.keys() - taken, reverse=True):
        left.setdefault(content(second[key][0].item), []).append(key)
    if left:
        for key in sorted(first.keys() - partner.keys()):
            if others := left.get(content(first[key][0].item)):
                partner[key] = others.pop()
    return partner


def _about(item: Item, samples: Samples) -> list[Result]:
    return [replace(result, item=item) for result in samples]


def _in_common_groups(pairs: Sequence[tuple[Item, Item]]) -> list[Item]:
    """The first item of each pair, in the connected components of both runs' groups.

    A group that both runs have keeps its name in the first.
    """

    def names(number: int) -> list[str]:
        first, second = (item.cluster_id for item in pairs[number])
        return [f"{i} {name}" for i, name in enumerate((first, second)) if name is not None]

    joined = selection.components(filter(None, map(names, range(len(pairs)))))
    groups = [joined[own_names[0]].partition(" ")[2] if (own_names := names(n)) else None for n in range(len(pairs))]
    return [replace(item, cluster_id=group) for (item, _), group in zip(pairs, groups, strict=True)]


def _same(first: Samples, second: Samples) -> bool:
    one, other = first[0].item, second[0].item
    return content(one)[:-1] == content(other)[:-1] and _same_images(one, other)


def unanswered(samples: Samples, others: Samples) -> bool:
    """Whether an item has no answer, or has no score while the other run has one."""
    if any(result.score.outcome == "error" for result in samples):
        return True
    return not scored(samples) and scored(others)


def scored(samples: Samples) -> bool:
    """Whether at least one sample has a score."""
    return any(result.score.outcome in SCORED_OUTCOMES for result in samples)


def same_responses(first: Side, second: Side, samples: Samples, others: Samples) -> bool:
    """Whether all responses to an item, their scores, and their truncation are the same in both runs."""
    return [_response(first, result) for result in samples] == [_response(second, result) for result in others]


def _response(side: Side, result: Result) -> tuple[Any, ...] | None:
    if result.answer is None:
        return None
    return side.said(result), result.score.outcome, result.score.value, metrics.is_complete(result) is False
