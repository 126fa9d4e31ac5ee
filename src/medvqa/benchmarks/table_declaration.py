"""The declaration of a user's own table: keys of a TOML file, or arguments of `medvqa.table`."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import msgspec

from medvqa import printing, scoring
from medvqa.benchmarks import languages
from medvqa.benchmarks.recorded import Revision
from medvqa.items import KINDS, Kind
from medvqa.protocols.prompts import FIELDS_HELP, wrong_field
from medvqa.scoring.closed import YES_OR_NO
from medvqa.tables import encodings
from medvqa.tags import lexicon
from medvqa.tags.own_tags import RESERVED

ENDING = ".toml"
"""A name of a benchmark that ends so is a file."""

MAX_VERSION = 40
"""Characters of the name of a version."""
MAX_CUTS = 50
"""Ranges of one slice, less one."""

ROLES: Mapping[str, tuple[str, ...]] = {
    "question": ("query", "question text"),
    "answer": ("answers", "correct", "correct answer", "correct option", "gold", "reference", "reference answer"),
    "image": ("images", "image path", "image file", "image name", "file", "file name", "filename", "picture"),
    "id": ("index", "question id", "qid"),
    "options": ("choices",),
    "kind": ("question type",),
    "pair": ("pair id",),
    "patient": ("patient id",),
    "case": ("case id",),
    "cluster": ("cluster id",),
    "box": ("box xywh", "bbox xywh"),
}
"""The roles of columns, and English names for them. Letter case, _ and - do not count."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXY"
"""Options are called A to Y: for a judge that reads answers, Z is none of them."""


class Slice(NamedTuple):
    """A dimension that was fixed before the run: the texts of a column, or with `labels` the ranges of its numbers.

    `cuts` rise; a number that equals a cut is in the range above it. There is one label more than cuts.
    """

    name: str
    column: str
    cuts: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()


class NumberRanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of numbers whose ranges are the values of a slice.

    `cuts` rise; a number that equals a cut is in the range above it. `labels` name the ranges, one more than cuts.
    """

    column: str
    cuts: list[float]
    labels: list[str] = []


class JudgmentWords(msgspec.Struct, frozen=True, omit_defaults=True):
    """Further words for yes and no in answers to judgments."""

    yes: list[str] = []
    no: list[str] = []


class TableDeclaration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table and its columns. Only `file` is required.

    `file` is the table, `images` the folder of its images; both are relative to the folder of the TOML file. `name` is
    the benchmark's (default: the file's). `sheet` is that of an XLSX file (default: the first). `options` is a column
    with a list, or a column for each option in the order A, B, C; `separator` stands between options in one cell.
    `numbers_from`: answers are the numbers of options, counted from 0 or 1. `columns` maps roles of `ROLES`, or
    letters of options, to columns; for `image` also to several. `tags` are columns by which questions are selected.
    `slices` maps names to columns, and `crossings` are joined names such as "modality+age": fixed before the run, and
    recorded with it. `kind` is the kind of questions in rows that name none. `allow_burned_in` is as for
    `medvqa.table`. `words` are further words for yes and no. `version` names a version of the questions, and `revision`
    says which other one experts made it of.
    """

    file: str = ""
    name: str = ""
    title: str = ""
    language: str = ""
    licence: str = ""
    public: bool = False
    images: str = ""
    encoding: str = ""
    delimiter: str = ""
    sheet: str = ""
    options: str | list[str] = ""
    separator: str = ""
    numbers_from: int | None = None
    kind: str = ""
    window: list[float] | None = None
    allow_burned_in: bool = False
    prompt: str = ""
    tags: list[str] = []
    crossings: list[str] = []
    columns: dict[str, str | list[str]] = {}
    slices: dict[str, str | NumberRanges] = {}
    words: JudgmentWords | None = None
    version: str = ""
    revision: Revision | None = None

    @property
    def roles(self) -> dict[str, str]:
        """The column of each role or letter; of several columns of images, the first."""
        columns = {role: column if isinstance(column, str) else column[0] for role, column in self.columns.items()}
        if isinstance(self.options, list):
            return columns | dict(zip(LETTERS, self.options, strict=False))
        return columns | {"options": self.options} if self.options else columns

    @property
    def more_images(self) -> list[str]:
        """The columns of images after the first."""
        images = self.columns.get("image", "")
        return images[1:] if isinstance(images, list) else []

    @property
    def pieces(self) -> tuple[Slice, ...]:
        """The slices, with the labels of their ranges."""
        return tuple(
            Slice(name, piece)
            if isinstance(piece, str)
            else Slice(name, piece.column, tuple(piece.cuts), tuple(labels_of(piece)))
            for name, piece in self.slices.items()
        )

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of slices, crossings and tags."""
        return tuple(dict.fromkeys((*self.slices, *self.crossings, *map(lexicon.slug, self.tags))))

    @property
    def default_kind(self) -> Kind | None:
        """The kind of questions in rows that name none."""
        return next((kind for kind in KINDS if kind == self.kind), None)

    @property
    def shown_values(self) -> tuple[float, float] | None:
        """The raw values that are shown as black and as white."""
        return (self.window[0], self.window[1]) if self.window is not None else None

    @property
    def all_words(self) -> Mapping[str, tuple[str, ...]]:
        """The words for yes and no."""
        return words_of(self.language, self.words)


def labels_of(ranges: NumberRanges) -> list[str]:
    """Return the names of the ranges of a slice: its labels, else "under 18", "18 to under 65", "65 and over"."""
    if ranges.labels:
        return list(ranges.labels)
    cuts = [f"{cut:.10g}".replace("-", "minus ") for cut in ranges.cuts]
    between = [f"{low} to under {high}" for low, high in pairwise(cuts)]
    return [f"under {cuts[0]}", *between, f"{cuts[-1]} and over"]


def words_of(language: str, more: JudgmentWords | None = None) -> Mapping[str, tuple[str, ...]]:
    """Return the words for yes and no in a language, and those that are declared."""
    known = languages.WORDS.get(language.partition("-")[0], YES_OR_NO)
    if more is None:
        return known
    return {"yes": (*known["yes"], *more.yes), "no": (*known["no"], *more.no)}


def role_of(column: str) -> str:
    """Return the role that a column of this name has, "" for none."""
    roles = ((role, (*others, *languages.COLUMNS.get(role, ()))) for role, others in ROLES.items())
    return next((role for role, names in roles if column.casefold() in names), "")


# Wrong values


def wrong_keys(declaration: TableDeclaration) -> Iterator[tuple[str, str]]:
    """Yield the keys with a wrong value, and the reasons."""
    for key, why, is_wrong in _checks(declaration):
        if is_wrong:
            yield key, why
    options, known = declaration.options, (*ROLES, *LETTERS)
    for role, column in declaration.columns.items():
        if role not in known:
            yield f"columns.{role}", f"no such role; there are: {', '.join(known)}"
        if isinstance(column, list) and role != "image":
            yield f"columns.{role}", "one column is expected; only images have several"
        if isinstance(column, list) and not column:
            yield f"columns.{role}", "a list of columns is empty"
        if options and (role == "options" or role in LETTERS):
            yield f"columns.{role}", "the key 'options' names them already"
    yield from _wrong_slices(declaration)
    if declaration.words is not None:
        yield from _wrong_words(declaration.words, declaration.language)
    if declaration.prompt and (wrong := wrong_field(declaration.prompt)) is not None:
        yield "prompt", f"it {wrong[1]}. {FIELDS_HELP}"


def _checks(declaration: TableDeclaration) -> Iterator[tuple[str, str, object]]:
    """Yield key, reason, and whether the value of the key is wrong."""
    yield "file", 'write the path of the table, such as file = "fragen.xlsx"', not declaration.file.strip()
    for key, path in (("file", declaration.file), ("images", declaration.images)):
        yield key, "a path has no NUL character", "\0" in path
    yield "name", f"a name cannot end in {ENDING}, as files do", declaration.name.lower().endswith(ENDING)
    yield "name", "a name has no comma, since --benchmark=NAME,NAME names several", "," in declaration.name
    version = declaration.version
    yield "version", "a short text is expected, such as 2", len(version) > MAX_VERSION or not version.isprintable()
    code, shown = declaration.language, printing.line(declaration.language)[:40]
    is_wrong = code and not re.fullmatch("[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", code)
    yield "language", f"'{shown}' is no language code, such as de, zh or en", is_wrong
    known, shown = ", ".join(encodings.KNOWN), printing.line(declaration.encoding)[:40]
    is_wrong = declaration.encoding and declaration.encoding not in encodings.KNOWN
    yield "encoding", f"'{shown}' is not known; there are: {known}", is_wrong
    sign = declaration.delimiter
    is_wrong = sign and (len(sign) != 1 or sign.isalnum() or sign in "\r\n\"'\0")
    yield "delimiter", 'one sign between cells is expected, such as ";" or "\\t"', is_wrong
    yield "kind", f"there are: {', '.join(KINDS)}", declaration.kind and declaration.kind not in KINDS
    window = declaration.window
    is_wrong = window is not None and (
        len(window) != 2 or window[0] == window[1] or not all(map(math.isfinite, window))
    )
    yield "window", "two different numbers are expected: the raw values shown as black and as white", is_wrong
    yield "numbers_from", "options are counted from 0 or from 1", declaration.numbers_from not in (None, 0, 1)
    options = declaration.options
    is_wrong = isinstance(options, list) and not 2 <= len(options) <= len(LETTERS)
    yield "options", f"a list names the column of each option, 2 to {len(LETTERS)}", is_wrong
    is_wrong = declaration.separator and not isinstance(options, str)
    yield "separator", "it belongs to options in one cell", is_wrong


def _wrong_slices(declaration: TableDeclaration) -> Iterator[tuple[str, str]]:
    """The same of slices, tags and crossings."""
    for name, piece in declaration.slices.items():
        if not _is_dimension(name):
            yield f"slices.{name}", _NAME
        if isinstance(piece, NumberRanges):
            yield from _wrong_ranges(f"slices.{name}", piece)
    names = {lexicon.slug(tag) for tag in declaration.tags}
    for tag in declaration.tags:
        if not _is_dimension(lexicon.slug(tag)):
            yield "tags", f"'{printing.line(tag)[:60]}': {_NAME}"
    if both := names & declaration.slices.keys():
        yield "tags", f"'{min(both)}' is a slice already"
    known = {*names, *declaration.slices, "kind"}
    for crossing in declaration.crossings:
        parts = crossing.split(lexicon.CROSSED)
        shown = printing.line(crossing)[:60]
        if len(parts) < 2 or len(set(parts)) < len(parts):
            yield "crossings", f"'{shown}': write it as modality+age"
        if unknown := [part for part in parts if part not in known]:
            yield "crossings", f"'{shown}': no slice '{printing.line(unknown[0])[:60]}'"


_NAME = "a slice is named by small letters, digits and _, as in modality; not id, kind, benchmark or a word of Python"


def _is_dimension(name: str) -> bool:
    reserved = name in RESERVED or keyword.iskeyword(name)
    return name == lexicon.slug(name) and name.isidentifier() and not reserved


def _wrong_ranges(key: str, ranges: NumberRanges) -> Iterator[tuple[str, str]]:
    cuts = ranges.cuts
    if not 1 <= len(cuts) <= MAX_CUTS or not all(map(math.isfinite, cuts)) or cuts != sorted(set(cuts)):
        yield f"{key}.cuts", f"1 to {MAX_CUTS} rising numbers are expected, such as [18, 65]"
    elif ranges.labels and len(ranges.labels) != len(cuts) + 1:
        yield f"{key}.labels", f"{len(cuts)} cuts make {len(cuts) + 1} ranges, so as many labels"
    elif len({lexicon.slug(label) for label in labels_of(ranges)}) <= len(cuts):
        yield f"{key}.labels", "two labels are alike; case and punctuation do not count"


def _wrong_words(words: JudgmentWords, language: str) -> Iterator[tuple[str, str]]:
    known = words_of(language)
    for side, listed, other, others in (("yes", words.yes, "no", words.no), ("no", words.no, "yes", words.yes)):
        taken = {scoring.normalise(word) for word in (other, *known[other], *others)}
        for word in listed:
            shown = printing.line(word)[:60]
            if not scoring.normalise(word):
                yield f"words.{side}", f"'{shown}' holds no word"
            if scoring.normalise(word) in taken:
                yield f"words.{side}", f"'{shown}' means {other}, too"
