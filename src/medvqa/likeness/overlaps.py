"""The overlap of a benchmark and a training set: items whose images or questions the training set has."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from medvqa.image import TextCell
from medvqa.items import DataError, Image, Item
from medvqa.likeness.near import packed, within
from medvqa.likeness.pictures import NEAR, TURNS, Fingerprint, is_named_image
from medvqa.likeness.questions import QuestionIndex
from medvqa.likeness.remembered import fingerprints
from medvqa.likeness.training import TrainingRow, TrainingSet
from medvqa.tables.progress import Progress

Level = Literal["image and question", "image", "look-alike", "question of no image"]
LEVELS: Mapping[Level, str] = {
    "image and question": "its image, and its question in a row that names this image",
    "image": "its image, by bytes or pixels, with any question or none",
    "look-alike": "an image that looks like its own",
    "question of no image": "its question; the item has no image",
}
"""Kinds of overlap, the strongest evidence first. Each is left out of a score together with those before it."""

MOST = 5
"""Training images and rows that are listed for an item; the others are counted."""
MATCHED = 10_000
"""Training images that an image is compared with further, if more are like it: copies of one picture, mostly."""
LEAST_STEM = 8
"""Characters of a file's name without ending that a cell may give in its place: a shorter one may be any number."""

Match = Literal["bytes", "pixels", "look-alike"]
_RANK: Mapping[Match, int] = {"bytes": 0, "pixels": 1, "look-alike": 2}


@dataclass(frozen=True, slots=True)
class ImageMatch:
    """An image of the training set that is like one of an item.

    `bits` is the distance of the perceptual hashes, 0 if bytes or pixels are equal; `turn` the orientation of TURNS.
    """

    kind: Match
    bits: int
    turn: str
    place: int

    @property
    def order(self) -> tuple[int, int, int]:
        """The closest match comes first."""
        return _RANK[self.kind], self.bits, self.place


@dataclass(frozen=True, slots=True)
class QuestionMatch:
    """A row of the training set with the question of an item; `distance` as for `QuestionIndex.matches`."""

    where: str
    distance: float
    equal: bool


@dataclass(frozen=True, slots=True)
class Overlap:
    """An item that the training set has in part; `level` is None for the question alone of an item with images.

    `image` is the name of the item's image, `trained` that of the training set's, "" without one. `images` counts all
    like images (up to MATCHED), `rows` all rows with the question. `joined`: the row of `question` names `trained`.
    """

    item: str
    level: Level | None
    image: str = ""
    match: ImageMatch | None = None
    trained: str = ""
    images: int = 0
    question: QuestionMatch | None = None
    rows: int = 0
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Overlaps:
    """The overlap of a benchmark's items with a training set.

    `found` has up to MOST entries for an item, the closest first. `levels` has the strongest level of each item.
    `alone` are the items with images of which only the question was found, which is no leak. `lacking` names the items
    with an image that could not be compared, by reason; `plain` counts images that are compared exactly alone.
    """

    items: tuple[str, ...]
    images: int
    found: tuple[Overlap, ...]
    levels: Mapping[str, Level]
    alone: frozenset[str]
    lacking: Mapping[str, str]
    plain: int

    def at(self, level: Level) -> frozenset[str]:
        """The items of exactly this level."""
        return frozenset(item for item, own in self.levels.items() if own == level)

    def up_to(self, level: Level) -> frozenset[str]:
        """The items of this level, or of stronger evidence."""
        order = list(LEVELS)
        return frozenset(item for item, own in self.levels.items() if order.index(own) <= order.index(level))


@dataclass(slots=True)
class Trained:
    """A training set as it was read: its images with their fingerprints, and the parts that could not be read.

    `unreadable` maps the names of files to the reasons; `rows` counts the rows that were compared.
    """

    files: TrainingSet
    images: list[Image]
    prints: list[Fingerprint]
    unreadable: dict[str, str]
    rows: int = 0
    texts: int = 0


def read(files: TrainingSet, *, progress: Progress | None = None) -> Trained:
    """Hash the images of a training set: files, and those within its tables."""
    unreadable: dict[str, str] = {}
    images = list(files.pictures())
    for table in files.tables:
        # Only these have images in their cells.
        if table.lower().endswith((".parquet", ".tsv")):
            try:
                for row in files.rows(table):
                    images += row.images
            except DataError as error:
                unreadable[table] = str(error)
    prints = fingerprints(images, files.folder, progress=progress)
    kept = []
    for number, (image, print_) in enumerate(zip(images, prints, strict=True)):
        # The bytes of any file count: it may be an image that only the benchmark can show.
        if print_.content:
            kept.append(number)
        if not print_.pixels and (not print_.content or isinstance(image.cell, TextCell) or is_named_image(image.name)):
            unreadable[image.name] = print_.why
    return Trained(files, [images[i] for i in kept], [prints[i] for i in kept], unreadable)


def find(
    items: Sequence[Item],
    trained: Trained,
    folder: Path,
    *,
    near: int = NEAR,
    turned: bool = False,
    progress: Progress | None = None,
) -> Overlaps:
    """Return the overlap of items with a training set.

    `folder` names the cache of the items' images. `near` is the most bits between images that look alike. `turned`
    also compares images that were turned by quarters or mirrored.
    """
    images = list(dict.fromkeys(image for item in items for image in item.images))
    prints = dict(zip(images, fingerprints(images, folder, turned=turned, progress=progress), strict=True))
    matches = _image_matches(prints, trained.prints, near, turned)
    index = QuestionIndex(item.question for item in items)
    asked = _ask(index, trained, {match.place for found in matches.values() for match in found})
    found: list[Overlap] = []
    levels: dict[str, Level] = {}
    alone = set()
    for item, question in zip(items, index.of, strict=True):
        own = list(_overlaps(item, question, matches, asked, trained.images))
        found += own
        if strongest := [overlap.level for overlap in own if overlap.level is not None]:
            levels[item.id] = min(strongest, key=list(LEVELS).index)
        elif own:
            alone.add(item.id)
    return Overlaps(
        tuple(item.id for item in items),
        len(images),
        tuple(found),
        levels,
        frozenset(alone),
        _lacking(items, prints),
        sum(bool(print_.pixels) and not print_.looks for print_ in prints.values()),
    )


def _lacking(items: Iterable[Item], prints: Mapping[Image, Fingerprint]) -> dict[str, str]:
    """The first reason why an image of an item could not be compared, by item."""
    reasons: dict[str, str] = {}
    for item in items:
        for image in item.images:
            print_ = prints[image]
            if not print_.content or (print_.why and not print_.pixels):
                reasons.setdefault(item.id, print_.why)
    return reasons


def _image_matches(
    prints: Mapping[Image, Fingerprint], trained: Sequence[Fingerprint], near: int, turned: bool
) -> dict[Image, tuple[ImageMatch, ...]]:
    """The training images that are like each image."""
    by_content, by_pixels, by_look = (_places(trained, kind) for kind in ("content", "pixels", "look"))
    wanted: dict[str, list[tuple[Image, str]]] = {}
    for image, print_ in prints.items():
        for look, turn in zip(print_.looks if turned else print_.looks[:1], TURNS, strict=False):
            wanted.setdefault(look, []).append((image, turn))
    looks, known = list(wanted), list(by_look)
    pairs = within(packed(looks), packed(known), near)
    alike: dict[Image, list[tuple[int, str, str]]] = {}
    for one, other, bits in zip(pairs.one.tolist(), pairs.other.tolist(), pairs.bits.tolist(), strict=True):
        for image, turn in wanted[looks[one]]:
            alike.setdefault(image, []).append((bits, turn, known[other]))
    found = {}
    for image, print_ in prints.items():
        exact = [("bytes", place) for place in by_content.get(print_.content, ())]
        exact += [("pixels", place) for place in by_pixels.get(print_.pixels, ())]
        best: dict[int, ImageMatch] = {}
        for kind, place in exact[:MATCHED]:
            best.setdefault(place, ImageMatch(kind, 0, "", place))  # type: ignore[arg-type]
        for bits, turn, look in sorted(alike.get(image, ())):
            for place in by_look[look][: max(MATCHED - len(best), 0)]:
                best.setdefault(place, ImageMatch("look-alike", bits, turn, place))
        if best:
            found[image] = tuple(sorted(best.values(), key=lambda match: match.order))
    return found


def _places(prints: Sequence[Fingerprint], kind: Literal["content", "pixels", "look"]) -> dict[str, list[int]]:
    """The places of the fingerprints by their hash of one kind."""
    places: dict[str, list[int]] = {}
    for place, print_ in enumerate(prints):
        value = (print_.looks[0] if print_.looks else "") if kind == "look" else getattr(print_, kind)
        if value:
            places.setdefault(value, []).append(place)
    return places


@dataclass(slots=True)
class _QuestionRows:
    """The rows of a training set with a question: by question, and by question and training image."""

    rows: dict[int, list[QuestionMatch]] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    joined: dict[tuple[int, int], QuestionMatch] = field(default_factory=dict)


def _ask(index: QuestionIndex, trained: Trained, matched: set[int]) -> _QuestionRows:
    """Look for the questions in all tables; `matched` are the places of training images that are like some image."""
    asked = _QuestionRows()
    namer = _Namer(trained, matched)
    trained.rows = trained.texts = 0
    for table in trained.files.tables if len(index) else ():
        try:
            for row in trained.files.rows(table):
                trained.rows += 1
                trained.texts += len(row.texts)
                _look_up(row, table, index, namer, asked)
        except DataError as error:
            trained.unreadable[table] = str(error)
    return asked


def _look_up(row: TrainingRow, table: str, index: QuestionIndex, namer: _Namer, asked: _QuestionRows) -> None:
    """Add the questions that a row holds."""
    hits: dict[int, QuestionMatch] = {}
    for text in row.texts:
        for question, distance in index.matches(text):
            known = hits.get(question)
            if known is None or distance < known.distance or not known.equal:
                equal = distance == 0 and index.is_equal(text, question)
                if known is None or (equal, -distance) > (known.equal, -known.distance):
                    hits[question] = QuestionMatch(row.where, distance, equal)
    if not hits:
        return
    named = namer.named(row, table)
    for question, match in hits.items():
        asked.counts[question] += 1
        rows = asked.rows.setdefault(question, [])
        if len(rows) < MOST or (match.equal and not rows[-1].equal):
            rows[MOST - 1 :] = [match]
            rows.sort(key=lambda each: (not each.equal, each.distance))
        for place in named:
            known = asked.joined.get((question, place))
            if known is None or (match.equal, -match.distance) > (known.equal, -known.distance):
                asked.joined[question, place] = match


class _Namer:
    """Finds the training images that a row names or holds, among those that matter."""

    def __init__(self, trained: Trained, matched: set[int]) -> None:
        self._held = {trained.images[place]: place for place in matched if trained.images[place].cell is not None}
        files = set(trained.files.images)
        self._path = {trained.images[place].name: place for place in matched if trained.images[place].name in files}
        self._by_base: dict[str, list[str]] = {}
        wanted = {posixpath.basename(name) for name in self._path}
        for name in files:
            if (base := posixpath.basename(name)) in wanted:
                self._by_base.setdefault(base, []).append(name)
        stems: dict[str, list[str]] = {}
        for base in self._by_base:
            stems.setdefault(posixpath.splitext(base)[0], []).append(base)
        self._by_stem = {stem: bases[0] for stem, bases in stems.items() if len(bases) == 1 and len(stem) >= LEAST_STEM}

    def named(self, row: TrainingRow, table: str) -> set[int]:
        """Return the places of the images of a row."""
        places = {self._held[image] for image in row.images if image in self._held}
        for text in row.texts:
            if (name := self._file(text.strip(), posixpath.dirname(table))) is not None and name in self._path:
                places.add(self._path[name])
        return places

    def _file(self, cell: str, folder: str) -> str | None:
        """The one file that a cell names: relative to its table, or by the end of its path."""
        path = posixpath.normpath(cell.replace("\\", "/")) if 0 < len(cell) <= 4096 else ""
        base = posixpath.basename(path)
        names = self._by_base.get(self._by_stem.get(base, base))
        if names is None:
            return None
        if base in self._by_stem:
            path = posixpath.join(posixpath.dirname(path), self._by_stem[base])
        if (beside := posixpath.normpath(posixpath.join(folder, path))) in names:
            return beside
        parts = [part for part in path.split("/") if part not in ("", "..")]
        ends = [name for name in names if _same_end(name.split("/"), parts)]
        return ends[0] if len(ends) == 1 else None


def _same_end(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the shorter path is the end of the longer one."""
    shorter = min(len(one), len(other))
    return list(one[-shorter:]) == list(other[-shorter:])


def _overlaps(
    item: Item,
    question: int,
    matches: Mapping[Image, Sequence[ImageMatch]],
    asked: _QuestionRows,
    images: Sequence[Image],
) -> Iterator[Overlap]:
    """The overlaps of one item, the closest first."""
    rows = asked.rows.get(question, [])
    count = asked.counts[question]
    own: list[Overlap] = []
    for image in item.images:
        found = matches.get(image, ())
        for match in found:
            joined = asked.joined.get((question, match.place))
            level: Level = "look-alike" if match.kind == "look-alike" else "image"
            if joined is not None:
                level = "image and question"
            row = joined or (rows[0] if rows else None)
            trained = images[match.place].name
            own.append(Overlap(item.id, level, image.name, match, trained, len(found), row, count, joined is not None))
    own.sort(key=lambda overlap: (list(LEVELS).index(overlap.level or "image"), overlap.match and overlap.match.order))
    yield from own[:MOST]
    if not own and rows:
        level_of = None if item.images else "question of no image"
        yield Overlap(item.id, level_of, question=rows[0], rows=count)  # type: ignore[arg-type]
