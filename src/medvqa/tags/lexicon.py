"""The benchmarks' vocabularies, the tags that items carry, and the exact selection of items by them.

A tag is a slug: lower case, words joined by underscores. The vocabularies are data files beside this module;
a value outside of them is kept with a warning, never dropped.
"""

from __future__ import annotations

import io
import json
import keyword
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from itertools import product, starmap
from typing import Any

from medvqa.items import DataWarning, Item, UsageError, are_withheld
from medvqa.printing import folded

NAMED = 10
"""Maximum unknown values in a warning; a data set in another spelling has thousands."""

CROSSED = "+"
"""Joins dimensions that are crossed ("ability+question_type"), and their values ("lesion_recognition+judgment")."""

UNWRAPPED = 10_000
"""Columns of a rendered tree: more than its longest line, so that expressions stay whole and can be copied."""


@lru_cache(maxsize=16384)
def slug(name: str) -> str:
    """Return the tag of a name: `Fundus Photography` -> `fundus_photography`, `N/A` -> `n_a`.

    Letter case, width and punctuation do not count. A name without a letter or digit, such as GMAI-MMBench's
    nameless department, is `none`. The slug of a slug is itself, and it holds no quotes, spaces or backslashes.
    """
    return re.sub(r"[\W_]+", "_", folded(name)).strip("_") or "none"


def slugs(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the tags of one name, several or none, each once; blank names have none."""
    listed = [names] if isinstance(names, str) else names or ()
    return tuple(dict.fromkeys(slug(name) for name in listed if name.strip()))


@dataclass(frozen=True)
class Dimension:
    """One dimension of a lexicon.

    `values` maps a slug to the name as the benchmark prints it, in the benchmark's order; {} if any value
    is allowed. `abbreviations` holds the papers' short names by slug. `broader` maps a value of a hierarchy to
    all values that contain it, outermost first: `upper_eyelid` -> head, face, periorbital_area. A name in
    several places (`flexor_side`) gets the values that these places share.
    """

    name: str
    values: Mapping[str, str]
    abbreviations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    broader: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def tag(self, name: str) -> str:
        """Return the tag of a data set's cell: its slug, or the value that it abbreviates (`N/A` -> `none`)."""
        tag = slug(name)
        if tag in self.values:
            return tag
        return next((value for value, short in self.abbreviations.items() if tag in map(slug, short)), tag)

    def with_broader(self, tags: Iterable[str]) -> tuple[str, ...]:
        """Return the tags with all tags that contain them, so that `head` selects an item on the forehead."""
        return tuple(dict.fromkeys(name for tag in tags for name in (*self.broader.get(tag, ()), tag)))


@dataclass(frozen=True)
class Lexicon:
    """The vocabulary of one benchmark.

    `trees` maps nested dimensions, such as (task, modality, label), to the branches that occur: one tuple of
    slugs for each leaf.
    """

    name: str
    dimensions: Mapping[str, Dimension]
    trees: Mapping[tuple[str, ...], frozenset[tuple[str, ...]]]


@dataclass(frozen=True)
class Branch:
    """A value with the number of items below it, and the `-m` expression that selects exactly these."""

    dimension: str
    value: str
    items: int
    expression: str
    branches: tuple[Branch, ...] = ()


class TagValues(frozenset[str]):
    """An item's values in one dimension, equal to every string that names one of them.

    pytest compares the keyword arguments of a mark with `==`, so this makes `-m "lexicon(modality='ct')"`
    match an item that has several modalities, and `'CT'` and `'ct'` the same.
    """

    __slots__ = ()

    def __new__(cls, values: Iterable[str] = ()) -> TagValues:
        """Take names or slugs."""
        return super().__new__(cls, map(slug, values))

    def __eq__(self, other: object) -> bool:
        """Return whether the values contain a string, or equal another set."""
        return slug(other) in self if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        """Return the opposite of `__eq__`, which the set's own would not call."""
        return not self == other

    __hash__ = frozenset.__hash__

    def __repr__(self) -> str:
        """Return `'ct' | 'mri'`, sorted."""
        return " | ".join(map(repr, sorted(self))) or "nothing"


def gmai_mmbench() -> Lexicon:
    """GMAI-MMBench: task, department, granularity, modality and label (paper, Appendix C; its lexical tree).

    Two of the 717 labels differ by a hyphen alone (high-grade dysplasia) and share a slug.
    """
    return _load("gmai_mmbench")


def medlesionvqa() -> Lexicon:
    """MedLesionVQA: ability, attribute, body_region, lesion, disease and more (paper, Tables 3 to 7)."""
    return _load("medlesionvqa")


def mediconfusion() -> Lexicon:
    """MediConfusion: the nine categories (paper, Figure 4)."""
    return _load("mediconfusion")


@cache
def lexicons() -> tuple[Lexicon, ...]:
    """Return all three; no two share a dimension."""
    return gmai_mmbench(), mediconfusion(), medlesionvqa()


def uncrossed(dimension: str, value: str) -> dict[str, str]:
    """Return the value of each of the dimensions that are crossed; of one dimension, its value."""
    parts, values = dimension.split(CROSSED), value.split(CROSSED)
    return dict(zip(parts, values, strict=True)) if len(parts) == len(values) > 1 else {dimension: value}


def values_of(item: Item, dimension: str) -> tuple[str, ...]:
    """Return an item's values in a dimension, its kind, or its combinations of values in crossed dimensions."""
    own = {"kind": (item.kind,), **item.tags}
    if dimension in own or CROSSED not in dimension:
        return tuple(dict.fromkeys(own.get(dimension, ())))
    parts = (own.get(part, ()) for part in dimension.split(CROSSED))
    return tuple(dict.fromkeys(CROSSED.join(values) for values in product(*parts)))


def display(dimension: str, value: str) -> str:
    """Return the name of a tag as the benchmark prints it; the tag itself if no lexicon has it.

    Of crossed dimensions, the names of the values are joined: `Lesion Recognition + judgment`.
    """
    if len(uncrossed(dimension, value)) > 1:
        return f" {CROSSED} ".join(starmap(display, uncrossed(dimension, value).items()))
    vocabulary = _dimensions().get(dimension)
    return vocabulary.values.get(value, value) if vocabulary else value


def with_broader(dimension: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return values of a dimension with all that contain them, as `Dimension.with_broader`."""
    vocabulary = _dimensions().get(dimension)
    return vocabulary.with_broader(values) if vocabulary else tuple(values)


def abbreviations(dimension: str, value: str) -> tuple[str, ...]:
    """Return the papers' short names of a tag: ("DD",) for the task disease_diagnosis; mostly ()."""
    vocabulary = _dimensions().get(dimension)
    return vocabulary.abbreviations.get(value, ()) if vocabulary else ()


def mark_values(tags: Mapping[str, tuple[str, ...]]) -> dict[str, TagValues]:
    """Return the keyword arguments of an item's `lexicon` mark: its tags and their abbreviations."""
    return {dimension: _mark_value(dimension, values) for dimension, values in tags.items()}


def expression(tags: Mapping[str, str]) -> str:
    """Return the `-m` expression that selects the items with all of these tags: `lexicon(task='bone', modality='ct')`.

    Raises UsageError for a dimension whose name pytest cannot read there.
    """
    for dimension in tags:
        if not dimension.isidentifier() or keyword.iskeyword(dimension):
            raise UsageError(f"dimension {dimension!r} cannot be selected with -m: name it by letters, digits and _")
    return f"lexicon({', '.join(f'{dimension}={slug(value)!r}' for dimension, value in tags.items())})"


def unknown_values(items: Iterable[Item], lexicon: Lexicon) -> dict[str, set[str]]:
    """Return the tags that a lexicon does not list, by dimension; open dimensions are left out."""
    present: defaultdict[str, set[str]] = defaultdict(set)
    for item in items:
        for dimension, values in item.tags.items():
            present[dimension].update(values)
    closed = {name: dimension.values for name, dimension in lexicon.dimensions.items() if dimension.values}
    return {name: unknown for name, listed in closed.items() if (unknown := present[name] - listed.keys())}


def warn_unknown(items: Iterable[Item], lexicon: Lexicon) -> None:
    """Issue one DataWarning for each dimension with values that the lexicon does not list."""
    for dimension, unknown in unknown_values(items, lexicon).items():
        names = ", ".join(sorted(unknown)[:NAMED]) + (
            f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
        )
        names = f"{len(unknown):,} values" if are_withheld() else names
        warnings.warn(
            f"{dimension}: not in the lexicon of {lexicon.name}, kept as they are: {names}", DataWarning, stacklevel=2
        )


def branches(items: Iterable[Item], path: Sequence[str], known: Iterable[tuple[str, ...]] = ()) -> tuple[Branch, ...]:
    """Count the items along nested dimensions such as ("task", "modality", "label"), sorted by name.

    An item with several values in a dimension counts under each, so that branches may add up to more than the
    items; one without a value ends there. Branches in `known` appear also without items.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for branch in known:
        counts.update({branch[:depth]: 0 for depth in range(1, len(path) + 1)})
    for item in items:
        reached: list[tuple[str, ...]] = [()]
        for dimension in path:
            reached = [(*branch, value) for branch in reached for value in dict.fromkeys(item.tags.get(dimension, ()))]
            counts.update(reached)

    below: defaultdict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for branch in counts:
        below[branch[:-1]].append(branch)

    def grow(stem: tuple[str, ...]) -> tuple[Branch, ...]:
        dimension = path[len(stem)] if len(stem) < len(path) else ""
        return tuple(
            Branch(
                dimension,
                branch[-1],
                counts[branch],
                expression(dict(zip(path, branch, strict=False))),
                grow(branch),
            )
            for branch in sorted(below[stem], key=lambda branch: (display(dimension, branch[-1]).casefold(), branch))
        )

    return grow(())


def render(
    items: Sequence[Item], *, dimensions: Sequence[str] | None = None, depth: int | None = None, empty: bool = False
) -> str:
    """Draw the tree of the items' tags: names, abbreviations, number of items, and the `-m` expression.

    `dimensions` restricts the tree to these (default: all that the items have), `depth` its levels, where task
    opens into modality and label. `empty` adds the values of the lexicons that no item has. Lines are never
    wrapped or cut, so that an expression can be copied. Raises UsageError for a dimension that does not exist.
    """
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    present = {dimension for item in items for dimension in item.tags}
    shown = [name for name in _dimensions() if empty or name in present] + sorted(present - _dimensions().keys())
    for name in dimensions or ():
        if not present.issuperset(name.split(CROSSED)) and name not in shown:
            raise UsageError(f"no item has the dimension {name!r}; there are: {', '.join(shown) or 'none'}")
    trees = {path[0]: (path, leaves) for lexicon in lexicons() for path, leaves in lexicon.trees.items()}

    def add(tree: Tree, children: tuple[Branch, ...]) -> None:
        for child in children:
            short = "".join(f" ({name})" for name in abbreviations(child.dimension, child.value))
            line = f"{display(child.dimension, child.value)}{short}  {child.items:,}  {child.expression}"
            add(tree.add(Text(line)), child.branches)

    text = io.StringIO()
    console = Console(file=text, force_terminal=False, width=UNWRAPPED)
    for name in dimensions or shown:
        flat = frozenset((value,) for value in _dimensions()[name].values) if name in _dimensions() else frozenset()
        path, leaves = trees.get(name, (tuple(name.split(CROSSED)), flat))
        tree = Tree(Text(name))
        add(tree, branches(items, path[:depth], leaves if empty else ()))
        console.print(tree)
    return text.getvalue()


@cache
def _dimensions() -> dict[str, Dimension]:
    return {name: dimension for lexicon in lexicons() for name, dimension in lexicon.dimensions.items()}


@cache
def _mark_value(dimension: str, values: tuple[str, ...]) -> TagValues:
    return TagValues([*values, *(short for value in values for short in abbreviations(dimension, value))])


@cache
def _load(name: str) -> Lexicon:
    """Read tags/lexica/NAME.json.

    `dimensions` lists the names of values in display order, without those in `trees` and `hierarchies`. Trees nest
    along the dimensions of their key, hierarchies within one dimension.
    """
    data = json.loads(resources.files("medvqa").joinpath("tags", "lexica", f"{name}.json").read_text("utf-8"))
    values = {dimension: {slug(value): value for value in listed} for dimension, listed in data["dimensions"].items()}

    trees = {}
    for key, nested in data.get("trees", {}).items():
        path = tuple(key.split("/"))
        leaves = [branch for branch in _branches(nested) if len(branch) == len(path)]
        for level, dimension in enumerate(path):
            for branch in leaves:
                values[dimension].setdefault(slug(branch[level]), branch[level])
        trees[path] = frozenset(tuple(map(slug, branch)) for branch in leaves)

    places: defaultdict[str, defaultdict[str, list[tuple[str, ...]]]] = defaultdict(lambda: defaultdict(list))
    for dimension, nested in data.get("hierarchies", {}).items():
        for branch in _branches(nested):
            values[dimension].setdefault(slug(branch[-1]), branch[-1])
            places[dimension][slug(branch[-1])].append(tuple(map(slug, branch[:-1])))

    return Lexicon(
        data["name"],
        {
            dimension: Dimension(
                dimension,
                names,
                {slug(value): (short,) for value, short in data.get("abbreviations", {}).get(dimension, {}).items()},
                {
                    value: tuple(wider for wider in paths[0] if all(wider in other for other in paths))
                    for value, paths in places[dimension].items()
                },
            )
            for dimension, names in values.items()
        },
        trees,
    )


def _branches(nested: Any, stem: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every branch of nested objects (or lists at their ends) from the root, inner ones too."""
    for name in nested:
        yield (*stem, name)
        if isinstance(nested, dict):
            yield from _branches(nested[name], (*stem, name))
