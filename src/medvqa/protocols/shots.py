"""Choose and write solved examples (few-shot), so that no example gives the answer to its question away.

An example is never connected to the question: not the question itself, its pair, a question of its cluster, one that
shares an image (name or bytes), a patient or a case with it, also through other questions.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import Any

from medvqa.items import CHOICE_KINDS, DataError, Image, Item, Prompt, Shot, Technique, UsageError
from medvqa.protocols.ablation import common_names
from medvqa.protocols.prompts import Template
from medvqa.tags.selection import components

SOURCES = frozenset({"patient", "case", "cluster", "subject", "study", "article"})
"""Names of fields in `Item.extra` that identify a person or a case; letter case, `_`, `-` and a final "id" do not
count."""

OUTLINED = frozenset({"mask_level", "contour_level"})
"""The granularities at which GMAI-MMBench probably shows the same cases: its Table 7 counts as many of both. The
pictures have different bytes, and no field joins them."""

OWN_POOL = "leave-group-out"
"""The name of a benchmark's own pool in signatures."""

IMAGE_NAME = "image of a solved example"
"""The name of a private pool's image in messages."""


@dataclass(frozen=True, slots=True)
class Form:
    """A pool's own prompts for one technique, in place of the benchmark's: of the examples and of the question.

    `answer` is the answer of an example, with the fields {letter} and {text}. `ends` follow the answers in raw prompts,
    in the order of the examples; the last one is repeated.
    """

    template: Template
    answer: str
    ends: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """The questions that examples are chosen from.

    `fixed`: they are shown in their order; otherwise each question gets its own draw. `public`: anybody may have them.
    `forms`: the pool's own prompts by technique, {} for the benchmark's. `obtain` tells where to get missing images.
    """

    name: str
    items: tuple[Item, ...]
    fixed: bool = False
    public: bool = False
    forms: Mapping[Technique, Form] = field(default_factory=dict)
    obtain: str = ""

    def prompt(self, item: Item, technique: Technique) -> Prompt:
        """Return the prompt of a question by the pool's own form (UsageError if it has none for the technique)."""
        if technique not in self.forms:
            raise UsageError(
                f"--shot-pool={self.name}: it has no prompt for technique '{technique}', only for "
                f"{', '.join(self.forms)}"
            )
        return self.forms[technique].template.prompt(item, technique)


class Chooser:
    """Chooses the solved examples of a benchmark's questions from a pool.

    The choice for a question depends on the pool, the benchmark and the question alone: not on selection, order or
    process. `dimension` is the lexicon dimension whose first value the examples should share with the question.
    """

    def __init__(self, pool: Pool, items: Sequence[Item], dimension: str | None = None) -> None:
        """`items` are all questions of the benchmark; `pool.items` may be the same ones (leave-group-out)."""
        self.pool = pool
        self.places = {node(item): place for place, item in enumerate(pool.items)}
        self._dimension = dimension
        keyed = tuple(item for item in pool.items if item.answers)
        self._groups = groups([*items, *pool.items])
        self._outlined: defaultdict[str, list[Item]] = defaultdict(list)
        for item in pool.items:
            if OUTLINED.intersection(item.tags.get("granularity", ())):
                self._outlined[self._groups[node(item)]].append(item)
        rings: defaultdict[Hashable, list[Item]] = defaultdict(list)
        for item in keyed:
            rings[item.kind].append(item)
            rings[item.kind, self._value(item)].append(item)
        self._rings = {name: _Ring(members, fixed=pool.fixed) for name, members in rings.items()}

    def candidates(self, item: Item) -> Iterator[Item]:
        """Yield the examples for a question, best first; never one that is connected to it.

        They are of the question's kind. A fixed pool keeps its order. Otherwise, examples of different groups come
        first, and among these the ones with the question's value in `dimension`.
        """
        own = self._groups[node(item)]
        near = [] if self.pool.fixed else [(item.kind, self._value(item))]
        rings = [self._rings[name] for name in (*near, item.kind) if name in self._rings]
        seen, used, again = set[tuple[str, str]](), {own}, list[Item]()
        for candidate in chain.from_iterable(ring.after(item) for ring in rings):
            name, group = node(candidate), self._groups[node(candidate)]
            if name in seen or group == own:
                continue
            seen.add(name)
            if any(_may_be_twins(item, other) for other in self._outlined.get(group, ())):
                continue
            if group in used and not self.pool.fixed:
                again.append(candidate)
            else:
                used.add(group)
                yield candidate
        yield from again

    def choose(self, item: Item, count: int) -> tuple[Item, ...]:
        """Return `count` examples for a question, in order; fewer if the pool has no more."""
        return tuple(candidate for candidate, _ in zip(self.candidates(item), range(count), strict=False))

    def exchanged(self, item: Item, count: int) -> tuple[Item, ...]:
        """Return the examples as `choose`, each with the images of the next one; for --ablate=shuffle.

        The last one gets the images of the candidate that comes after, or else of the first example. UsageError if an
        example would keep the images of its own group.
        """
        chosen = self.choose(item, count)
        places = [place for place, example in enumerate(chosen) if example.images]
        if not places:
            return chosen
        names = set(map(node, chosen))
        others = (example for example in self.candidates(item) if example.images and node(example) not in names)
        donors = [*(chosen[place] for place in places[1:]), next(others, chosen[places[0]])]
        exchanged = list(chosen)
        for place, donor in zip(places, donors, strict=True):
            if self._groups[node(donor)] == self._groups[node(chosen[place])]:
                raise UsageError(
                    f"--ablate=shuffle: the pool {self.pool.name} has no unrelated image for a solved example. Try "
                    "--ablate=blank, or a larger pool"
                )
            exchanged[place] = replace(chosen[place], images=donor.images)
        return tuple(exchanged)

    def _value(self, item: Item) -> str:
        """The first value of the dimension, "" without one."""
        return next(iter(item.tags.get(self._dimension, ())), "") if self._dimension else ""


class _Ring:
    """Questions in the order of their digests, as a circle that each question enters at its own place."""

    def __init__(self, items: Iterable[Item], *, fixed: bool) -> None:
        self._fixed = fixed
        self._items = list(items) if fixed else sorted(items, key=_place)
        self._places = [] if fixed else list(map(_place, self._items))

    def after(self, item: Item) -> Iterator[Item]:
        """Yield all questions once, beginning after the place of `item`; in their order if they are fixed."""
        start = 0 if self._fixed else bisect(self._places, _place(item))
        yield from self._items[start:]
        yield from self._items[:start]


def node(item: Item) -> tuple[str, str]:
    """The key of a question among questions of several benchmarks."""
    return item.benchmark, item.id


def _place(item: Item) -> bytes:
    return blake2b("\0".join(node(item)).encode(errors="surrogatepass")).digest()


def groups(items: Sequence[Item]) -> dict[tuple[str, str], str]:
    """Return the group of each question, by `node`: connected questions have one group.

    Questions are connected by a pair, a cluster, an image (name or bytes), a patient or case in `extra`, or, if they
    have no images, by the same text. Names count across benchmarks, because splits of one data set share them.
    """
    images = _image_links(image for item in items for image in item.images)
    joined = components([_own(item), *links(item, images)] for item in items)
    return {node(item): joined[_own(item)] for item in items}


def _may_be_twins(item: Item, other: Item) -> bool:
    """Whether two questions may show one case, once as a mask and once as a contour (see `OUTLINED`).

    Task and modality are the same then, and the right answer of `other` is an option of `item`.
    """
    levels = {*item.tags.get("granularity", ()), *other.tags.get("granularity", ())}
    if levels != OUTLINED or any(item.tags.get(name) != other.tags.get(name) for name in ("task", "modality")):
        return False
    return not {other.options.get(letter) for letter in other.answers}.isdisjoint(item.options.values())


def _own(item: Item) -> str:
    return "\0".join(("item", *node(item)))


def links(item: Item, images: Mapping[Image, Sequence[str]]) -> Iterator[str]:
    """Yield the texts that a question shares with connected ones; `images`: those of each image."""
    if item.pair_id is not None:
        yield f"pair\0{item.pair_id}"
    if item.cluster_id is not None:
        yield f"cluster\0{item.cluster_id}"
    for image in item.images:
        yield from images[image]
    if not item.images:
        yield f"text\0{' '.join(item.question.casefold().split())}"
    for fields in (item.extra, *(value for value in item.extra.values() if isinstance(value, Mapping))):
        for name, value in fields.items():
            if (source := source_of(name)) in SOURCES:
                yield from (f"{source}\0{text}" for text in _texts(value))


def source_of(name: object) -> str:
    """Return the name of a field without letter case, `_`, `-` and a final "id", as in SOURCES."""
    return re.sub(r"[\W_]+", "", str(name).casefold()).removesuffix("id")


def _texts(value: Any) -> Iterator[str]:
    """The ids in a field of a data set: texts or numbers, alone or in a list."""
    for part in value if isinstance(value, list | tuple) else [value]:
        if isinstance(part, float) and part.is_integer():
            yield str(int(part))
        elif isinstance(part, str | int | float) and not isinstance(part, bool) and str(part).strip():
            yield str(part).strip()


def _image_links(images: Iterable[Image]) -> dict[Image, tuple[str, ...]]:
    """Return the texts that each image shares with the same picture: its name, and one for its content."""
    distinct = set(images)
    contents = common_names(distinct)
    if any(image.digest for image in distinct):
        # Some data sets have digests, others have files: compare their bytes.
        for image in distinct:
            if contents[image] == image.file and image.is_there:
                try:
                    contents[image] = image.sha256()
                except DataError:
                    # The question about this image ends in an error.
                    continue
    return {image: (f"image\0{image.file}", f"image\0{contents[image]}") for image in distinct}


# Prompts


def reference(item: Item, technique: Technique) -> str:
    """Return the answer of a solved example as a model should write it: letters, or a text.

    Several letters are joined by commas. With PS and FF, which show no letters, the answer is the option's text.
    """
    if item.kind not in CHOICE_KINDS:
        return item.answers[0]
    if technique in ("ps", "ff"):
        return ", ".join(item.options[letter] for letter in item.answers)
    return ",".join(item.answers)


def solved(
    examples: Iterable[Item], technique: Technique, ask: Callable[[Item, Technique], Prompt]
) -> tuple[Shot, ...]:
    """Return examples as shots; `ask` makes the prompt of a question."""
    prompts = ((example, ask(example, technique)) for example in examples)
    return tuple(Shot(prompt.text, reference(example, technique), prompt.images) for example, prompt in prompts)


def formed(examples: Iterable[tuple[int, Item]], technique: Technique, form: Form) -> tuple[Shot, ...]:
    """Return examples, with their places in the pool from 0, as shots by the pool's own form."""
    return tuple(
        Shot(
            form.template.prompt(example, technique).text,
            form.answer.format(letter=",".join(example.answers), text=reference(example, "ps")),
            example.images,
            form.ends[min(place, len(form.ends) - 1)],
        )
        for place, example in examples
    )


def anonymous(shots: Iterable[Shot]) -> tuple[Shot, ...]:
    """Return shots whose images have no names, so that no error names a file of a private pool."""
    return tuple(
        replace(shot, images=tuple(replace(image.pinned(), name=IMAGE_NAME) for image in shot.images)) for shot in shots
    )
