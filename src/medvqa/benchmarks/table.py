"""`medvqa.table`: a benchmark from a spreadsheet and a folder of images.

A table is a CSV, TSV, XLSX, JSON, JSON lines or Parquet file with a row for each question. The name of a column gives
its role (`ROLES`); docs/own-questions.md has an example of each. `benchmarks.table_files` declares one in TOML.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType, MethodType
from typing import Any, NamedTuple

import msgspec

from medvqa import tables
from medvqa.benchmarks import languages, own
from medvqa.items import CHOICE_KINDS, KINDS, Benchmark, DataError, Image, Item, Kind, are_withheld, of_data, usual
from medvqa.tables import delimited, workbooks
from medvqa.tables.image_files import image_file
from medvqa.tags import lexicon, selection

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
}
"""The roles of columns, and other names for them. Letter case, _ and - do not count."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXY"
"""Options are called A to Y: for a judge that reads answers, Z is none of them."""

MAX_IMAGES = 100
"""Images of one question."""

SEPARATOR = "|"
"""Between several images, tags or accepted answers in one cell."""

# Small letters stand apart: "bad" is a word.
LETTERS_CELL = re.compile(r"[A-Y](?:[\s,;|/+&、]*[A-Y])*|[A-Ya-y](?:[\s,;|/+&、]+[A-Ya-y])*")
NUMBERS_CELL = re.compile(r"\d{1,3}(?:[\s,;|/+&、]+\d{1,3})*")
_PREFIXED = re.compile(r"\(?([A-Ya-y])\s*[.):、]\s*(\S.*)", re.S)
_DECIMAL = re.compile(r"[+-]?\d{1,15}(?:[.,]\d{1,15})?")
_NUMBERED_IMAGE = re.compile(r"images? ?\d+")
_NUMBERED_PICTURE = re.compile(r"(?:images?|bild|图像|图片|圖像|圖片) ?\d+")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|data:")
_SHOWN = 60
_NAMES = frozenset(
    name
    for names in (ROLES, languages.COLUMNS)
    for role, others in names.items()
    for name in (role, role.replace(" ", "_"), *others)
)
"""The usual names of columns in lower case."""


def table(
    path: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
    *,
    name: str = "",
    prompt: str = "",
    tags: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    window: tuple[float, float] | None = None,
    title: str = "",
    public: bool = False,
    allow_burned_in: bool = False,
) -> Benchmark:
    """Return a benchmark whose questions are the rows of a table; nothing is read before it is needed.

    `path` is a CSV, TSV, XLSX, JSON, JSON lines or Parquet file; `images` the folder that its image cells are relative
    to (default: the folder of the table). A path that is not absolute starts at the folder of the file that calls this,
    such as a conftest.py; in a script, a console or a notebook at the working folder. `name` is the benchmark's in
    `--benchmark=NAME` (default: the name of the file). `prompt` is a text with the fields {question} and {options},
    in place of the default prompts. `tags` names columns to select and to report by. `columns` maps a role, or the
    letter of an option, to a column that is called otherwise: {"question": "Frage"}. `window` holds the raw values
    that are shown as black and as white, for images of more than 8 bits without a window of their own. `public` says
    that anybody may have the data, so that they may be sent to another machine without --allow-upload.
    `allow_burned_in` shows DICOM files whose header says that annotation is burnt into the pixels.

    Errors in the data are DataErrors that name file, row and column; they are raised when the benchmark is read.
    """
    folder = folder_of(sys._getframe(1))
    file = _absolute(folder, path)
    source = Source(
        file=file,
        shown=str(path),
        images=_absolute(folder, images) if images is not None else None,
        tags=(tags,) if isinstance(tags, str) else tuple(tags),
        columns=dict(columns or {}),
        window=window,
        allow_burned_in=allow_burned_in,
    )
    return Benchmark(
        name=name or name_of(file),
        title=title,
        items=source.items,
        prompt=prompt or usual,
        dimensions=tuple(lexicon.slug(tag) for tag in source.tags),
        public=public,
    )


def source_of(benchmark: Benchmark) -> Source | None:
    """Return the table of a benchmark that was made of one, None for any other."""
    source = benchmark.items.__self__ if isinstance(benchmark.items, MethodType) else None
    return source if isinstance(source, Source) else None


def folder_of(caller: FrameType) -> Path:
    """Return the folder where relative paths of a call start: that of a module, else the working folder."""
    names = caller.f_globals
    is_module = names.get("__name__") != "__main__" and names.get("__file__")
    return Path(names["__file__"]).parent if is_module else Path()


def name_of(file: Path) -> str:
    """Return the default name of a benchmark: that of its file, without ending, in lower case."""
    return re.sub(r"[\W_]+", "-", file.stem.casefold()).strip("-") or "table"


def _absolute(folder: Path, path: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(Path(folder, os.path.expanduser(path))))


@dataclass(frozen=True)
class Slice:
    """A dimension that was fixed before the run: the texts of a column, or with `labels` the ranges of its numbers.

    `cuts` rise; a number that equals a cut is in the range above it. There is one label more than cuts.
    """

    name: str
    column: str
    cuts: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """The files of a table's questions, and the roles of its columns; see `table`.

    `declared` is the name of the TOML file that declares the benchmark, "" for `medvqa.table`. Only a declared source
    has the fields that follow it (`table_files.TableFile`), knows German and Chinese names of columns and kinds, and
    strips letters before the texts of options. `words` are those for yes and no, and `comma` says that numbers have a
    decimal comma.
    """

    file: Path
    shown: str
    images: Path | None = None
    tags: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    window: tuple[float, float] | None = None
    allow_burned_in: bool = False
    where: str = ""
    declared: str = ""
    pictures: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    separator: str = ""
    numbers_from: int | None = None
    kind: Kind | None = None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: own.YES_OR_NO)
    comma: bool = False
    encoding: str = ""
    delimiter: str = ""
    sheet: str = ""

    def items(self, data: Path) -> Iterator[Item]:
        """Yield the questions in the order of the table; `data` is ignored.

        Questions that share an image, a patient, a case or a cluster have one `cluster_id`. DataError, which names
        file, row and column, for an invalid table.
        """
        if _URL.match(self.shown):
            raise DataError(f"{_clipped(self.shown)}: a table is a file; download it, and give its path")
        yield from self.items_of(self._read())

    def rows(self) -> dict[str, str]:
        """Return the row of each question by its id, such as "row 17"; fewer if the table cannot be read."""
        places: dict[str, str] = {}
        column_of: dict[tuple[str, ...], str] = {}
        with suppress(DataError):
            for number, row in enumerate(self._read(), 1):
                header = tuple(row.values)
                if header not in column_of:
                    column_of[header] = self._columns(header).id
                if not _is_blank(row):
                    name = row.identifier(column_of[header]) if column_of[header] else str(row.number)
                    places[name] = f"{row.unit} {row.number}" if isinstance(row.number, int) else f"record {number}"
        return places

    def _read(self) -> Iterator[tables.TableRow]:
        return tables.read(
            self.file,
            name=self.shown,
            fold=True,
            key="id",
            digests=True,
            encoding=self.encoding,
            delimiter=self.delimiter or (delimited.SIGNS if self.declared else ""),
            sheet=self.sheet,
        )

    def items_of(self, rows: Iterable[tables.TableRow]) -> Iterator[Item]:
        """Yield the questions of rows, whose columns have names in lower case; see `items`."""
        read: dict[str, tuple[Item, list[str], str]] = {}
        pairs: dict[str, list[str]] = {}
        columns_of: dict[tuple[str, ...], TableColumns] = {}
        for row in rows:
            header = tuple(row.values)
            if header not in columns_of:
                # Rows of JSON may have other columns than the first.
                where = f"{row.where}: " if columns_of else f"{self.shown}: "
                columns_of[header] = replace(self, where=where)._columns(header)
            if _is_blank(row):
                continue
            item, links = self._item(row, columns_of[header])
            if item.id in read:
                raise row.error(f"id {_cell(item.id)} is also that of {read[item.id][2]}", columns_of[header].id)
            read[item.id] = item, links, row.where
            if item.pair_id is not None:
                pairs.setdefault(item.pair_id, []).append(row.where)
        for pair, places in pairs.items():
            if len(places) != 2:
                counted = f"{len(places)} question{'s' * (len(places) > 1)}"
                raise DataError(f"{places[-1]}: pair {_cell(pair)} has {counted}; a pair has 2")
        clusters = selection.components(links for _, links, _ in read.values() if links)
        for item, links, _ in read.values():
            yield replace(item, cluster_id=clusters[links[0]] if links else None)

    # Columns

    def _columns(self, header: Sequence[str]) -> TableColumns:
        """Assign columns to roles (DataError)."""
        named: dict[str, str] = {}
        all_roles = (*ROLES, *LETTERS)
        for role, written in self.columns.items():
            if role.lower() not in ROLES and role not in LETTERS:
                raise self._error(f"columns={{'{role}': ...}}: no such role; there are: {', '.join(all_roles)}")
            if not written.strip():
                continue
            if (column := _column(written, header)) is None:
                if self.declared:
                    raise self._missing(written, header, f"Write one of these for {role} in {self.declared}")
                low = written.strip().lower()
                raise self._missing(f"columns={{'{role}': '{low}'}}", header, "Write one of these")
            if self.declared and named.get(column, role) != role:
                raise self._error(f"{named[column]} and {role} are both the column '{column}'; name another for one")
            named[column] = role
        free: dict[str, str] = {}
        for column in header:
            plain = re.sub(r"[\s_-]+", " ", column).strip()
            if column not in named:
                if plain in free:
                    raise self._error(f"columns '{free[plain]}' and '{column}' have the same name; rename one of them")
                free[plain] = column
        if self.declared:
            for plain, column in list(free.items()):
                free.setdefault(folded(plain), column)
        roles = {role.lower(): column for column, role in named.items()}
        # An empty name says that no column has the role.
        without = {role.lower() for role, written in self.columns.items() if not written.strip()}
        for role, others in ROLES.items():
            abroad = languages.COLUMNS.get(role, ()) if self.declared else ()
            if role in roles or role in without:
                continue
            if column := self._found(role, (*others, *abroad), free):
                roles[role] = column
        for role in ("question", "answer"):
            if role not in roles:
                raise self._missing(role, header, f"Rename one of them, or {self._advice(role)}")
        numbered = _NUMBERED_PICTURE if self.declared else _NUMBERED_IMAGE
        images = list(dict.fromkeys(column for plain, column in free.items() if numbered.fullmatch(plain)))
        images = [] if "image" in without else images
        for written in self.pictures:
            if (column := _column(written, header)) is None:
                raise self._missing(written, header, f"Write one of these for image in {self.declared}")
            images.append(column)
        if "image" in roles:
            images.insert(0, roles["image"])
        elif self.images is not None and not images and "image" not in without:
            raise self._missing("image", header, f"Rename one of them, {self._advice('image')}, or drop images")
        columns = TableColumns(
            question=roles["question"],
            answer=roles["answer"],
            id=roles.get("id", ""),
            kind=roles.get("kind", ""),
            pair=roles.get("pair", ""),
            images=tuple(images),
            listed=roles.get("options", ""),
            options=self._options(roles, free),
            links={role: roles[role] for role in ("patient", "case", "cluster") if role in roles},
            tags=self._tags(header),
            slices=tuple((self._sliced(piece, header), piece) for piece in self.slices),
        )
        if self.declared:
            self._check_shown(columns)
        return columns

    def _check_shown(self, columns: TableColumns) -> None:
        """DataError for a slice or tag of patients or cases: tags stand in every result."""
        shown = {**columns.tags, **{piece.name: column for column, piece in columns.slices}}
        for dimension, column in shown.items():
            if role := next((role for role, of_role in columns.links.items() if of_role == column), None):
                raise self._error(
                    f"'{dimension}' shows the column '{column}', which names the {role}: results would hold it. Leave "
                    f"it out of {self.declared}"
                )

    def _sliced(self, piece: Slice, header: Sequence[str]) -> str:
        """The column of a slice (DataError)."""
        if (column := _column(piece.column, header)) is None:
            raise self._missing(piece.column, header, f"Name one of them in [slices] of {self.declared}")
        return column

    def _advice(self, role: str) -> str:
        """The text to write for a column that has another name."""
        if self.declared:
            return f'write {role} = "COLUMN" into [columns] of {self.declared}'
        return f"write columns={{'{role}': 'COLUMN'}} in medvqa.table"

    def _found(self, role: str, others: Sequence[str], free: Mapping[str, str]) -> str:
        """The column of a role, "" for none; DataError if several could be it."""
        if role in free:
            return free[role]
        columns = list(dict.fromkeys(free[name] for name in others if name in free))
        if len(columns) > 1:
            shown = " and ".join(f"'{column}'" for column in columns)
            advice = self._advice(role).replace("COLUMN", columns[0])
            raise self._error(f"columns {shown} could both be the {role}; {advice}")
        return columns[0] if columns else ""

    def _options(self, roles: Mapping[str, str], free: Mapping[str, str]) -> dict[str, str]:
        """The columns of the options by letter (DataError if a letter is left out)."""
        by_letter = {letter: roles[letter.lower()] for letter in LETTERS if letter.lower() in roles}
        # A file that lists the options has no others: a column "x" is none.
        is_listed = self.declared and {"A", "B"} <= by_letter.keys()
        for letter in "" if is_listed else LETTERS:
            low = letter.lower()
            abroad = [name.format(low) for name in languages.OPTION_COLUMNS] if self.declared else []
            names = (low, f"option {low}", f"choice {low}", *abroad)
            named = list(dict.fromkeys(free[name] for name in names if name in free))
            if len(named) > 1:
                raise self._error(
                    f"columns '{named[0]}' and '{named[1]}' could both be option {letter}; drop one of them"
                )
            if named:
                by_letter.setdefault(letter, named[0])
        if "A" not in by_letter:
            return {}
        letters = "".join(sorted(by_letter))
        if letters != LETTERS[: len(letters)]:
            gap = next(letter for letter in LETTERS if letter not in letters)
            raise self._error(
                f"columns {', '.join(letters)} are options, and there is no column {gap}; rename what is no option"
            )
        if "options" in roles:
            raise self._error(
                f"options are in '{roles['options']}' and in columns {', '.join(letters)}; drop one of them"
            )
        return {letter: by_letter[letter] for letter in letters}

    def _tags(self, header: Sequence[str]) -> dict[str, str]:
        """The columns of tags by dimension."""
        tags = dict[str, str]()
        for tag in self.tags:
            if (column := _column(tag, header)) is None:
                where = f"tags of {self.declared}" if self.declared else "tags=(...)"
                raise self._missing(tag, header, f"Name one of them in {where}")
            if tags.get(lexicon.slug(tag), column) != column:
                raise self._error(f"tags '{tags[lexicon.slug(tag)]}' and '{tag}' are both called {lexicon.slug(tag)}")
            tags[lexicon.slug(tag)] = column
        return tags

    def _missing(self, wanted: str, header: Sequence[str], advice: str) -> DataError:
        names = ", ".join(header)[:500]
        if are_withheld() and not any(name in _NAMES for name in header):
            # The first row may be one of questions.
            names = f"{len(header)}, none of a usual name: has the first row the names of the columns?"
        return self._error(f"no column '{_clipped(wanted)}'; there are: {names}. {advice}")

    def _error(self, message: str) -> DataError:
        return DataError(f"{self.where}{message}")

    # Rows

    def _item(self, row: tables.TableRow, columns: TableColumns) -> tuple[Item, list[str]]:
        """The question of a row, and the texts that it shares with others of its cluster (DataError)."""
        for column in columns.used:
            if isinstance(row.values.get(column), workbooks.Formula):
                raise row.error("a formula; write its value in its place", column)
        if self.declared:
            # Files of a Mac may hold letters and their dots apart; models and scoring read them together.
            row = msgspec.structs.replace(row, values={name: _composed(value) for name, value in row.values.items()})
        question = row.text(columns.question)
        if not question.strip():
            raise row.error("the question is empty", columns.question)
        written = _options(row, columns, self.separator)
        options = unprefixed(written) if self.declared else written
        stated = self._kind(row, columns, options)
        answers = self._letters(row, columns, options, written) if options else _texts(row, columns.answer)
        if stated == "single_choice" and len(answers) > 1:
            raise row.error(f"{len(answers)} right options, and the kind is single_choice", columns.answer)
        if stated == "judgment" and (others := [text for text in answers if not own.is_judgment(text, self.words)]):
            more = ", or declare words = { yes = [...], no = [...] }" if self.declared else ""
            raise row.error(f"{_cell(others[0])} is no judgment: write yes or no{more}", columns.answer)
        several = "multiple_response" if len(answers) > 1 else "single_choice"
        images = self._images(row, columns)
        shared = {role: text for role, column in columns.links.items() if (text := row.text(column).strip())}
        if are_withheld() and (patient := shared.get("patient")) and not any(map(str.isdigit, patient)):
            # A name, in any spelling. Results get a number in its place (`records.private.Pseudonyms`).
            shared["patient"] = person(patient)
        item = Item(
            id=row.identifier(columns.id) if columns.id else str(row.number),
            benchmark="",
            kind=stated or (several if options else "short_answer"),  # type: ignore[arg-type]
            question=question,
            options=options,
            answers=answers,
            images=images,
            tags={name: values for name, values in self._values(row, columns) if values},
            pair_id=(row.text(columns.pair).strip() or None) if columns.pair else None,
            extra=shared,
        )
        shown = [f"image {image.digest or image.file}" for image in images]
        return item, [*shown, *(f"{role} {value}" for role, value in shared.items())]

    def _values(self, row: tables.TableRow, columns: TableColumns) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the tags of a row by dimension (DataError for a slice of numbers whose cell holds another text)."""
        for name, column in columns.tags.items():
            yield name, lexicon.slugs(_texts(row, column))
        for column, piece in columns.slices:
            if not piece.labels:
                yield piece.name, lexicon.slugs(_texts(row, column))
            elif (number := self._number(row, column)) is not None:
                yield piece.name, (lexicon.slug(piece.labels[bisect_right(piece.cuts, number)]),)

    def _number(self, row: tables.TableRow, column: str) -> float | None:
        """The number in a cell, None if it is blank (DataError)."""
        value = row.values.get(column)
        if isinstance(value, int | float) and not isinstance(value, bool):
            # Data frames write NaN for a blank cell.
            return None if math.isnan(value) else float(value)
        text = folded(row.text(column)).replace("−", "-")
        if not text:
            return None
        sign = "," if self.comma else "."
        if not _DECIMAL.fullmatch(text) or (sign not in text and re.search("[.,]", text)):
            raise row.error(
                f"{_cell(text)} is no number with a decimal {'comma' if self.comma else 'point'}; correct it, or "
                "leave the cell empty",
                column,
            )
        return float(text.replace(",", "."))

    def _kind(self, row: tables.TableRow, columns: TableColumns, options: Mapping[str, str]) -> Kind | None:
        """The kind that a row or the declaration names, None for none.

        DataError if there is no such kind, or if it does not fit.
        """
        written = row.text(columns.kind).strip() if columns.kind else ""
        slug = lexicon.slug(written) if written else self.kind
        if slug is None:
            return None
        kind = next((kind for kind in KINDS if kind == slug), languages.KINDS.get(slug) if self.declared else None)
        if kind is None:
            raise row.error(f"no kind {_cell(written)}; there are: {', '.join(KINDS)}", columns.kind)
        if bool(options) != (kind in CHOICE_KINDS):
            raise row.error(f"a {kind} question has {'' if kind in CHOICE_KINDS else 'no '}options", columns.kind)
        return kind

    def _letters(
        self, row: tables.TableRow, columns: TableColumns, options: Mapping[str, str], written: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The letters of the right options, written as letters, as numbers or as one option's text (DataError).

        `written`: the options as in the table, perhaps with their letters.
        """
        value = row.values.get(columns.answer)
        cells = _texts(row, columns.answer) if isinstance(value, list) else (row.text(columns.answer).strip(),)
        letters: set[str] = set()
        for cell in filter(None, cells):
            shown = _cell(cell)
            if self.numbers_from is not None:
                letters |= self._numbered(row, columns, list(options), cell)
                continue
            # Full-width letters and commas are those of Chinese keyboards.
            plain = unicodedata.normalize("NFKC", cell)
            by_letter = set(re.sub("[^A-Y]", "", plain.upper())) if LETTERS_CELL.fullmatch(plain) else set()
            by_letter = by_letter if by_letter <= options.keys() else set()
            by_text = called(cell, options) or called(cell, written)
            if not (by_letter or by_text) and self.declared:
                by_text = labelled(cell, options)
            if by_letter and by_text and by_letter != by_text:
                raise row.error(
                    f"{shown} is a letter, and the text of option {min(by_text)}: rename it", columns.answer
                )
            if not by_letter and len(by_text) > 1:
                raise row.error(f"{shown} is the text of options {', '.join(sorted(by_text))}", columns.answer)
            if not (by_letter or by_text):
                raise row.error(f"{shown} is none of its options {', '.join(options)}", columns.answer)
            letters |= by_letter or by_text
        return tuple(letter for letter in options if letter in letters)

    def _numbered(self, row: tables.TableRow, columns: TableColumns, letters: Sequence[str], cell: str) -> set[str]:
        """The letters of options that a cell names by their numbers (DataError)."""
        plain = unicodedata.normalize("NFKC", cell)
        first = self.numbers_from or 0
        numbers = [int(text) - first for text in re.findall(r"\d+", plain)] if NUMBERS_CELL.fullmatch(plain) else [-1]
        if any(not 0 <= number < len(letters) for number in numbers):
            raise row.error(
                f"{_cell(cell)} is no number of an option, {first} to {first + len(letters) - 1} "
                f"(numbers_from in {self.declared})",
                columns.answer,
            )
        return {letters[number] for number in numbers}

    def _images(self, row: tables.TableRow, columns: TableColumns) -> tuple[Image, ...]:
        folder = self.images or self.file.parent
        images: list[Image] = []
        for column in columns.images:
            if held := _held(row.values.get(column)):
                allow = self.allow_burned_in
                images += (replace(image, window=self.window, allow_burned_in=allow) for image in held)
                continue
            for file in _texts(row, column):
                where = f"{row.where}, column '{column}'"
                if _URL.match(file):
                    raise DataError(f"{where}: {_cell(file)} is a URL; download the image, and write its path")
                images.append(
                    image_file(
                        file,
                        folder=folder,
                        root=folder,
                        where=where,
                        window=self.window,
                        named=f"{folder}",
                        allow_burned_in=self.allow_burned_in,
                    )
                )
        if len(images) > MAX_IMAGES:
            raise row.error(f"{len(images)} images; a question has at most {MAX_IMAGES}")
        return tuple(dict.fromkeys(images))


class TableColumns(NamedTuple):
    """The column of each role; "" for none. `options`, `links` and `tags`: by letter, role and dimension.

    `slices` are columns of slices.
    """

    question: str
    answer: str
    id: str
    kind: str
    pair: str
    images: tuple[str, ...]
    listed: str
    options: Mapping[str, str]
    links: Mapping[str, str]
    tags: Mapping[str, str]
    slices: tuple[tuple[str, Slice], ...] = ()

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        named = (self.question, self.answer, self.id, self.kind, self.pair, self.listed)
        by_name = (self.options, self.links, self.tags)
        of_slices = (column for column, _ in self.slices)
        return [*named, *self.images, *(column for columns in by_name for column in columns.values()), *of_slices]


def folded(text: str) -> str:
    """Return a text without differences of case, width and Unicode form, and without white space around it."""
    # Folding case can undo the normal form: hence twice.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def person(name: str) -> str:
    """Return a name for comparison: neither case, width, umlauts, signs nor the order of its words count."""
    plain = folded(name).replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")
    return " ".join(sorted(re.findall(r"\w+", plain))) or plain


def _column(written: str, header: Sequence[str]) -> str | None:
    """The column of a header that is meant by a name, None for none."""
    low = written.strip().lower()
    if low in header:
        return low
    alike = [column for column in header if folded(column) == folded(written)]
    return alike[0] if len(alike) == 1 else None


def _composed(value: Any) -> Any:
    """A value of a cell with its texts in Unicode's composed form (NFC)."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_composed(part) for part in value]
    return {name: _composed(part) for name, part in value.items()} if isinstance(value, dict) else value


def _held(value: object) -> tuple[Image, ...]:
    """The images that a cell of a Parquet file holds."""
    values = value if isinstance(value, list) else [value]
    return tuple(value for value in values if isinstance(value, Image))


def called(cell: str, options: Mapping[str, str]) -> set[str]:
    """The letters of the options that have this text; in another case, width or Unicode form, if none has it."""
    exact = {letter for letter, text in options.items() if text.casefold() == cell.casefold()}
    return exact or {letter for letter, text in options.items() if folded(text) == folded(cell)}


def labelled(cell: str, options: Mapping[str, str]) -> set[str]:
    """The letter of an option that is written with its text, as in "B) spleen"; none if they disagree."""
    match = _PREFIXED.fullmatch(unicodedata.normalize("NFKC", cell))
    letter = match[1].upper() if match else ""
    return {letter} if match and letter in options and folded(options[letter]) == folded(match[2]) else set()


def unprefixed(options: Mapping[str, str]) -> dict[str, str]:
    """Strip the letters before the texts of options ("A) liver"), if each option has its own."""
    matches = {
        letter: _PREFIXED.fullmatch(text.replace("：", ":").replace("）", ")")) for letter, text in options.items()
    }
    if all(match and match[1].upper() == letter for letter, match in matches.items()):
        return {letter: match[2] for letter, match in matches.items() if match}
    return dict(options)


def _is_blank(row: tables.TableRow) -> bool:
    """Whether all cells are blank, as in the rows that spreadsheets write below a table."""
    return not any(value.strip() if isinstance(value, str) else value is not None for value in row.values.values())


def _texts(row: tables.TableRow, column: str) -> tuple[str, ...]:
    """The texts of a cell: the elements of a JSON list, else parts between SEPARATOR; blank ones are left out."""
    value = row.values.get(column)
    if isinstance(value, list):
        parts = [_text(row, column, part) for part in value]
    else:
        parts = row.text(column).split(SEPARATOR)
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _text(row: tables.TableRow, column: str, value: object) -> str:
    """A value within a cell as text (DataError)."""
    return tables.TableRow(row.file, row.unit, row.number, row.line, {column: value}).text(column)


def _options(row: tables.TableRow, columns: TableColumns, separator: str = "") -> dict[str, str]:
    """The options of a row by letter; {} for an open question (DataError)."""
    if columns.listed:
        options = _listed(row, columns.listed, separator)
        column = columns.listed
    else:
        options = {letter: row.text(column).strip() for letter, column in columns.options.items()}
        options = {letter: text for letter, text in options.items() if text}
        column = columns.options.get("A", "")
    if len(options) == 1:
        raise row.error("one option alone; a question has none, or at least 2", column)
    return options


def options_in_cell(value: Any, separator: str = "") -> Any:
    """Return the options of one cell unpacked: a text becomes a list or an object, other values are kept.

    A text is split at the separator, or else read as JSON. ValueError if it is then no list or object. Blank texts are
    kept.
    """
    if not isinstance(value, str):
        return value
    if separator:
        return [part for part in value.split(separator) if part.strip()]
    if not value.strip():
        return value
    try:
        unpacked = json.loads(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(unpacked, list | dict):
        raise ValueError("neither a list nor an object")
    return unpacked


def _listed(row: tables.TableRow, column: str, separator: str = "") -> dict[str, str]:
    """Options that are in one cell: a JSON list, an object with letters as keys, or texts between separators."""
    try:
        value = options_in_cell(row.values.get(column), separator)
    except ValueError:
        raise row.error(
            'options in one cell are a JSON list such as ["liver", "spleen"]; or have a column for each: A, B, C',
            column,
        ) from None
    if isinstance(value, list):
        if len(value) > len(LETTERS):
            raise row.error(f"{len(value)} options; a question has at most {len(LETTERS)}, A to Y", column)
        value = dict(zip(LETTERS, value, strict=False))
    if not value or isinstance(value, str):
        return {}
    if not isinstance(value, dict):
        raise row.error(f"no options: {of_data(_clipped(str(value)))}", column)
    if unknown := [letter for letter in value if str(letter).upper() not in LETTERS]:
        raise row.error(f"option {_cell(str(unknown[0]))}; options are called A to Y", column)
    options = {letter.upper(): _text(row, column, text).strip() for letter, text in value.items()}
    return {letter: options[letter] for letter in sorted(options) if options[letter]}


def _cell(text: str) -> str:
    """A text from a table in quotes, for a message."""
    return of_data(f"'{_clipped(text)}'")


def _clipped(text: str) -> str:
    """The start of a text from a table, for a message."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
