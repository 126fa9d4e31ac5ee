"""Match the questions of runs by content, not by id alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medvqa import metrics
from medvqa.comparing.sides import Side
from medvqa.items import SCORED_OUTCOMES, Image, Item, QuestionKey, Result
from medvqa.records import private
from medvqa.records.run_folder import texts_of
from medvqa.tags import selection

Samples = Sequence[Result]
"""The results of one question: one, or one for each sample."""


def by_question(results: Iterable[Result]) -> dict[QuestionKey, list[Result]]:
    """The results by question (`QuestionKey.question`), in input order."""
    questions: dict[QuestionKey, list[Result]] = {}
    for result in results:
        questions.setdefault(result.key.question, []).append(result)
    return questions


def content(item: Item) -> tuple[Any, ...]:
    """The content that identifies a question: the fields of `run_folder.data_digest` without the id."""
    return *texts_of(item), tuple(_picture(item, place) for place in range(len(item.images)))


def _picture(item: Item, place: int) -> tuple[str, ...]:
    """The identity of an image. One without name and digest is like no other."""
    image = item.images[place]
    if not private.is_pseudonym(image):
        return (image.digest or image.name,)
    return (image.key,) if image.digest else (item.benchmark, item.id, str(place))


def _same_images(one: Item, other: Item) -> bool:
    """Whether two questions of one key may show the same images.

    Of data that are not declared public, earlier versions recorded names and no digests, and a run that looks at no
    image records neither: nothing contradicts then.
    """

    def unknown(*images: Image) -> bool:
        return not all(image.digest for image in images) and any(map(private.is_pseudonym, images))

    return len(one.images) == len(other.images) and all(
        unknown(*images) or _picture(one, place) == _picture(other, place)
        for place, images in enumerate(zip(one.images, other.images, strict=True))
    )


def partners(
    first: Mapping[QuestionKey, Samples], second: Mapping[QuestionKey, Samples]
) -> dict[QuestionKey, QuestionKey]:
    """Map questions of the first run to questions of the second with the same content.

    Questions with equal keys are matched first, then the rest in the order of their keys.
    """
    partner = {
        key: key
        for key in sorted(first.keys() & second.keys())
        if same_question(first[key][0].item, second[key][0].item)
    }
    taken = set(partner.values())
    left: dict[tuple[Any, ...], list[QuestionKey]] = {}
    for key in sorted(second.keys() - taken, reverse=True):
        left.setdefault(content(second[key][0].item), []).append(key)
    if left:
        for key in sorted(first.keys() - partner.keys()):
            if others := left.get(content(first[key][0].item)):
                partner[key] = others.pop()
    return partner


def _about(item: Item, samples: Samples) -> Samples:
    if all(result.item is item for result in samples):
        return samples
    return [replace(result, item=item) for result in samples]


def _in_common_groups(owners: Sequence[Sequence[Item | None]]) -> list[Item]:
    """The first item of each question, in the connected components of all runs' groups.

    `owners`: the item of a question in each run, None where a run lacks it. A group that several runs have keeps its
    name in the first.
    """
    firsts = [next(item for item in items if item is not None) for items in owners]
    if all(
        item is None or item.cluster_id == first.cluster_id
        for items, first in zip(owners, firsts, strict=True)
        for item in items
    ):
        return firsts

    def names(items: Sequence[Item | None]) -> list[str]:
        return [f"{i} {item.cluster_id}" for i, item in enumerate(items) if item and item.cluster_id is not None]

    joined = selection.components(filter(None, map(names, owners)))
    groups = [joined[own[0]].partition(" ")[2] if (own := names(items)) else None for items in owners]
    return [replace(item, cluster_id=group) for item, group in zip(firsts, groups, strict=True)]


def same_question(one: Item, other: Item) -> bool:
    """Whether two questions of one key have the same content, as far as both runs recorded it."""
    # Equal options may have another order.
    equal = one == other and [*one.options] == [*other.options]
    return equal or (texts_of(one) == texts_of(other) and _same_images(one, other))


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


def align(runs: Sequence[Mapping[QuestionKey, Samples]], names: Sequence[str]) -> list[dict[QuestionKey, Samples]]:
    """Match the questions of several runs: with those of the first, then with those that other runs have beside it.

    Equal keys are equal questions then. Results get the item of the first run that has the question, with the groups of
    all runs joined. If a question has the key of another one, its key gets the name of its run; so does its item if
    several runs have it. `names`: of the runs.
    """
    first = runs[0]
    beside: dict[QuestionKey, Samples] = {}
    origins = [{key: key for key in first}]  # aligned key -> key in the run
    for run, name in zip(runs[1:], names[1:], strict=True):
        origin = partners(first, run)
        if len(origin) < len(run):
            origin |= partners(beside, _without(run, origin.values()))
            for key in sorted(_without(run, origin.values())):
                free = key
                while free in first or free in beside or free in origin:
                    free = free._replace(item=f"{free.item} in {name}")
                origin[free] = key
                beside[free] = run[key]
        origins.append(origin)
    owners: dict[QuestionKey, list[Item | None]] = {}
    for place, (run, origin) in enumerate(zip(runs, origins, strict=True)):
        for key, own in origin.items():
            owners.setdefault(key, [None] * len(runs))[place] = run[own][0].item
    items = dict(zip(owners, _in_common_groups(list(owners.values())), strict=True))
    for key in beside:
        if items[key].id != key.item and sum(key in origin for origin in origins) > 1:
            items[key] = replace(items[key], id=key.item)
    return [
        {key: _about(items[key], run[origin[key]]) for key in sorted(origin)}
        for run, origin in zip(runs, origins, strict=True)
    ]


def _without(run: Mapping[QuestionKey, Samples], keys: Collection[QuestionKey]) -> dict[QuestionKey, Samples]:
    left_out = set(keys)
    return {key: samples for key, samples in run.items() if key not in left_out}
