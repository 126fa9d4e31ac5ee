"""Rows of a user's own table -> items, with every problem of each row.

A table is a CSV, TSV, XLSX, JSON, JSON lines or Parquet file with a row for each question. Its declaration
(`table_declaration`) and the names of its columns give the roles of columns (`table_columns`). A run raises the first
problem that is refused, `medvqa import` collects all (`tables.problems`).
"""

from __future__ import annotations

import datetime
import json
import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from medvqa import tables
from medvqa.benchmarks import languages, own
from medvqa.benchmarks.table_columns import TableColumns, columns_of
from medvqa.benchmarks.table_declaration import LETTERS, TableDeclaration, wrong_keys
from medvqa.image import inside
from medvqa.items import CHOICE_KINDS, KINDS, DataError, Image, Item, Kind, are_withheld, of_data
from medvqa.medical import views
from medvqa.perturbing import Box, regions
from medvqa.printing import clipped, folded
from medvqa.tables import delimited, limits, people, workbooks
from medvqa.tables.image_files import IMAGE_FILE, image_file
from medvqa.tables.problems import Problems, RowNumber, TableProblem, quoted, row_list
from medvqa.tags import lexicon, selection

SEPARATOR = "|"
"""Between several images, tags or accepted answers in one cell."""

PLACEHOLDERS = frozenset(
    {
        *("todo", "to do", "tbd", "tba", "n/a", "na", "n.a.", "k.a.", "?", "??", "???", "-", "--", "---", "xxx", "nan"),
        *("null", "#n/a", "fixme", "leer", "offen", "folgt", "fehlt", "待定", "待补", "缺失", "未填"),
    }
)
"""Cells that stand for a value which is still missing."""
UNFINISHED = PLACEHOLDERS - {"n/a", "na", "n.a.", "-", "--", "---", "?", "offen", "null"}
"""Those that are no option of a real question."""

# Small letters stand apart: "bad" is a word.
LETTERS_CELL = re.compile(r"[A-Y](?:[\s,;|/+&、]*[A-Y])*|[A-Ya-y](?:[\s,;|/+&、]+[A-Ya-y])*")
NUMBERS_CELL = re.compile(r"\d{1,3}(?:[\s,;|/+&、]+\d{1,3})*")
_PREFIXED = re.compile(r"\(?([A-Ya-y])\s*[.):、]\s*(\S.*)", re.S)
_PREFIX = re.compile(r"\(?([A-Ya-y])\s?[.):：、]\s?(?=\S)")
_DECIMAL = re.compile(r"[+-]?\d{1,15}(?:[.,]\d{1,15})?")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|data:", re.I)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class TableQuestion(NamedTuple):
    """A row and its item, as far as it can be read; `links` are texts that it shares with others of its group."""

    row: tables.TableRow
    item: Item
    links: tuple[str, ...]

    @property
    def number(self) -> RowNumber:
        """The row as messages count it."""
        return self.row.place[1]

    def warning(self, kind: str, column: str, what: str, do: str) -> TableProblem:
        """Return a warning about the question."""
        return self.row.problem(kind, column, what, do, refused=False)


@dataclass(frozen=True)
class Source:
    """The table of a declaration: its file and the folder of its images, and the name of the table in messages.

    `toml` is the name of the file that declares it, "" for `medvqa.table`.
    """

    declaration: TableDeclaration
    file: Path
    shown: str
    images: Path | None = None
    toml: str = ""

    @property
    def folder(self) -> Path:
        """The folder to which the paths of images are relative."""
        return self.images or self.file.parent

    def items(self, data: Path) -> Iterator[Item]:
        """Yield the questions in the order of the table; `data` is ignored.

        Questions that share an image, a patient, a case or a cluster have one `cluster_id`. DataError, which names
        file, row and column, for an invalid table.
        """
        if _URL.match(self.shown):
            raise DataError(f"{clipped(self.shown)}: a table is a file; download it, and give its path")
        for key, why in wrong_keys(self.declaration):
            raise DataError(f"{self.shown}: {key}: {why}")
        yield from self.items_of(self.read(Problems(self.shown)))

    def items_of(self, rows: Sequence[tables.TableRow]) -> Iterator[Item]:
        """Yield the questions of rows; see `items`."""
        questions = self.questions(rows, Problems(self.shown))
        clusters = selection.components(links for _, _, links in questions if links)
        for _, item, links in questions:
            yield replace(item, cluster_id=clusters[links[0]] if links else None)

    def rows(self) -> dict[str, str]:
        """Return the row of each question by its id, such as "row 17"; fewer if the table cannot be read."""
        places: dict[str, str] = {}
        with suppress(DataError):
            problems = Problems(self.shown)
            rows = self.read(problems)
            column = self.columns(rows, problems).id
            for number, row in enumerate(rows, 1):
                name = _composed(row.identifier(column)) if column else str(row.number)
                places[name] = f"{row.unit} {row.number}" if isinstance(row.number, int) else f"record {number}"
        return places

    def read(self, problems: Problems) -> list[tables.TableRow]:
        """Return the rows that are not blank."""
        return read(
            self.file,
            problems,
            encoding=self.declaration.encoding,
            delimiter=self.declaration.delimiter,
            sheet=self.declaration.sheet,
        )

    def questions(self, rows: Sequence[tables.TableRow], problems: Problems) -> list[TableQuestion]:
        """Return the questions of rows, each with its own problems, and those that ids and pairs show together."""
        columns = self.columns(rows, problems)
        table = _Table(self, columns, columns.used, problems, self.declaration.all_words)
        questions: list[TableQuestion] = []
        by_id: dict[str, TableQuestion] = {}
        pairs: dict[str, list[TableQuestion]] = {}
        for row in rows:
            question = _RowReader(table, row).question()
            questions.append(question)
            if (first := by_id.setdefault(question.item.id, question)) is not question and question.item.id:
                what, do = f"the id of {_place_of(first.row)}", "write an id that no other row has"
                problems.add(row.problem("duplicate_id", columns.id, what, do))
            if question.item.pair_id is not None:
                pairs.setdefault(question.item.pair_id, []).append(question)
        for pair in pairs.values():
            if len(pair) != 2:
                numbers = [each.number for each in pair]
                where = f" ({pair[0].row.place[0]}s {row_list(numbers)})" if len(pair) > 1 else ""
                what = f"a pair of {len(pair)} question{'s' * (len(pair) > 1)}{where}"
                do = "a pair has 2: correct the name of the pair"
                problems.add(pair[0].row.problem("pair_size", columns.pair, what, do))
        return questions

    def columns(self, rows: Sequence[tables.TableRow], problems: Problems) -> TableColumns:
        """Return the column of each role; rows of JSON may have different ones (DataError)."""
        header = tuple(dict.fromkeys(column for row in rows for column in row.values))
        with_images = self.images is not None
        return columns_of(self.declaration, header, problems, toml=self.toml, with_images=with_images)


def read(
    file: Path, problems: Problems, *, encoding: str = "", delimiter: str = "", sheet: str = ""
) -> list[tables.TableRow]:
    """Return the rows of a user's own table that are not blank; DataError if there is none."""
    rows = tables.read(
        file,
        name=problems.file,
        key="id",
        largest=limits.MAX_DOCUMENT,
        digests=True,
        encoding=encoding,
        delimiter=delimiter or delimited.SIGNS,
        sheet=sheet,
        problems=problems,
    )
    kept = [row for row in rows if not all(map(tables.is_blank, row.values.values()))]
    if not kept:
        refused = [problem.text(problems.file) for problem in problems.found if problem.refused]
        raise DataError(refused[0] if refused else f"{problems.file}: no rows")
    if len({column for row in kept for column in row.values}) > limits.MAX_COLUMNS:
        raise limits.above(problems.file, limits.MAX_COLUMNS, "columns")
    return kept


def _person(name: str) -> str:
    """Return a name for comparison: neither case, width, umlauts, signs nor the order of its words count."""
    plain = folded(name).replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")
    return " ".join(sorted(re.findall(r"\w+", plain))) or plain


def _is_placeholder(text: str, role: str) -> bool:
    """Return whether a cell stands for a missing value: in an option, N/A and ? may be meant."""
    return " ".join(text.split()).casefold() in (UNFINISHED if role == "option" else PLACEHOLDERS)


def shown_file(file: str) -> str:
    """Return a path for messages; without it if it may hold a person's name or birth date, or if it is withheld."""
    doubt = people.suspected(file)
    return f"a path that may hold {doubt}" if doubt else quoted(file)


def parts_of(value: object) -> Sequence[Any]:
    """Return the parts of a cell of JSON or Parquet, or the cell itself."""
    return value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else [value]


@dataclass(frozen=True, slots=True)
class _Table:
    """What all rows of a table have in common; `used` and `words` are made once, and not for each row."""

    source: Source
    columns: TableColumns
    used: tuple[str, ...]
    problems: Problems
    words: Mapping[str, tuple[str, ...]]

    @property
    def declaration(self) -> TableDeclaration:
        return self.source.declaration


@dataclass(slots=True)
class _RowReader:
    """Read one row, and report its problems; a column in `bad` has one, and is not read again."""

    table: _Table
    row: tables.TableRow
    bad: set[str] = field(default_factory=set)

    def question(self) -> TableQuestion:
        """Return the question of the row."""
        for column in self.table.used:
            self._check(column)
        columns = self.table.columns
        question = self._text(columns.question)
        if columns.question not in self.bad:
            if not question.strip():
                self._add("empty_question", columns.question, "the question is empty", "write it, or delete the row")
            elif _is_placeholder(question, "question"):
                self._placeholder(columns.question, question)
        written, place = self._options()
        options = _unprefixed(written)
        self._compare(options, place)
        if options == written and self.table.problems.collects:
            self._prefixed(options)
        stated = self._kind(options)
        answers = self._answers(options, written, stated)
        images = self._images()
        several = "multiple_response" if len(answers) > 1 else "single_choice"
        if len(options) == 1 and not self._lost_options():
            do = "write at least two, or none for an open question"
            self._add("one_option", place, "one option alone", do)
        shared = {role: text for role, column in columns.links.items() if (text := self._text(column).strip())}
        if are_withheld() and (patient := shared.get("patient")) and not any(map(str.isdigit, patient)):
            # A name, in any spelling. Results get a number in its place (`records.private.Pseudonyms`).
            shared["patient"] = _person(patient)
        item = Item(
            id=self._id(),
            kind=stated or (several if options else "short_answer"),  # type: ignore[arg-type]
            question=question,
            options=options,
            answers=answers,
            images=images,
            tags={name: values for name, values in self._tags() if values},
            pair_id=self._text(columns.pair).strip() or None,
            extra=shared | self._boxes(),
        )
        shown = [f"image {image.digest or image.file}" for image in images]
        return TableQuestion(self.row, item, (*shown, *(f"{role} {value}" for role, value in shared.items())))

    # Cells

    def _add(self, kind: str, column: str, what: str, do: str, *, refused: bool = True) -> None:
        self.table.problems.add(self.row.problem(kind, column, what, do, refused=refused))

    def _placeholder(self, column: str, text: str, *, refused: bool = True) -> None:
        what = f"{quoted(text)} stands for a missing value"
        self._add("placeholder", column, what, "write the value, or delete the row", refused=refused)

    def _check(self, column: str) -> None:
        """Report a cell that holds no value: a formula, an error, a date or a part of merged cells."""
        whole = self.row.values.get(column)
        if whole is None or (type(whole) is str and "#" not in whole):
            return
        for value in parts_of(whole)[: limits.MAX_IMAGES]:
            if isinstance(value, workbooks.Formula):
                self._unread("formula", column, "a formula", "copy the column and paste it as values")
            elif workbooks.is_error(value):
                error = value.strip().upper()
                shown = error if error in workbooks.ERRORS else of_data(clipped(error))
                self._unread("error_cell", column, f"the spreadsheet's error {shown}", "write its value in its place")
            elif isinstance(value, datetime.date | datetime.time | datetime.timedelta):
                what = "a date: a spreadsheet may have made it from text such as 1-2"
                self._unread("date", column, what, "format the column as text, and type the value again")
            elif isinstance(value, workbooks.MergedCell):
                what = f"merged cells {value.area}: only the first holds a value"
                self._unread("merged", column, what, "unmerge them, and fill in every cell")

    def _unread(self, kind: str, column: str, what: str, do: str) -> None:
        self._add(kind, column, what, do)
        self.bad.add(column)

    def _value(self, column: str) -> Any:
        """The value of a cell, None if it is blank or bad; texts are composed (NFC)."""
        value = None if column in self.bad else self.row.values.get(column)
        # Data frames write NaN for a blank cell.
        return None if isinstance(value, float) and math.isnan(value) else _composed(value)

    def _text(self, column: str) -> str:
        return self._as_text(self._value(column), column) if column else ""

    def _as_text(self, value: Any, column: str) -> str:
        """A cell, or a part of one, as text; a value that is neither text nor number is a problem once."""
        text = tables.text_of(value)
        if text is None and column not in self.bad:
            what = f"a value of type {type(value).__name__}, which is no text"
            self._unread("no_text", column, what, "write a text or a number")
        return text or ""

    def _parts(self, column: str) -> tuple[str, ...]:
        """The texts of a cell: the elements of a JSON list, else parts between SEPARATOR; blank ones are left out."""
        value = self._value(column)
        if isinstance(value, list):
            parts = [self._as_text(part, column) for part in value]
        else:
            parts = self._as_text(value, column).split(SEPARATOR)
        return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))

    def _id(self) -> str:
        column = self.table.columns.id
        if not column:
            return str(self.row.number)
        name = tables.whole(self._text(column).strip())
        if not name and column not in self.bad:
            self._add("missing_id", column, "no id", "write one, or name no column of ids to number the rows")
        return name

    # Options

    def _options(self) -> tuple[dict[str, str], str]:
        """The options of a row by letter, and the column of the first."""
        columns = self.table.columns
        if columns.listed:
            first, options = columns.listed, self._listed(columns.listed)
        else:
            first = columns.options.get("A", "")
            options = {letter: self._text(column).strip() for letter, column in columns.options.items()}
        filled = {letter: text for letter, text in options.items() if text}
        last = max(filled, default="")
        blank = [letter for letter in options if letter < last and not options[letter]]
        if blank and not any(columns.options.get(letter) in self.bad for letter in blank):
            what, do = f"option {blank[0]} is blank, and option {last} is not", "fill it in, or move the others up"
            self._add("option_gap", columns.options.get(blank[0], first), what, do, refused=False)
        for letter, text in filled.items():
            if _is_placeholder(text, "option"):
                self._placeholder(columns.options.get(letter, first), text, refused=False)
        return filled, first

    def _compare(self, options: Mapping[str, str], first: str) -> None:
        """Report options of equal texts."""
        same: dict[str, list[str]] = {}
        for letter, text in options.items():
            same.setdefault(" ".join(text.casefold().split()), []).append(letter)
        for letters in same.values():
            if len(letters) > 1:
                what, column = (
                    f"options {' and '.join(letters)} are equal",
                    self.table.columns.options.get(letters[1], first),
                )
                self._add("equal_options", column, what, "write another text for one of them")

    def _prefixed(self, options: Mapping[str, str]) -> None:
        """Report options whose text begins with their letter; it is stripped only if all of them do."""
        for letter, text in options.items():
            if (match := _PREFIX.match(text)) and match[1].upper() == letter:
                column = self.table.columns.options.get(letter, self.table.columns.listed)
                what = f"the text of option {letter} begins with its letter, unlike that of other options"
                self._add("option_prefix", column, what, "delete the letter and the sign after it", refused=False)

    def _listed(self, column: str) -> dict[str, str]:
        """Options that are in one cell: a JSON list, an object with letters as keys, or texts between separators."""
        try:
            value = _options_in_cell(self._value(column), self.table.declaration.separator)
        except ValueError:
            do = 'write ["liver", "spleen"], set separator to the sign between them, or have a column for each: A, B, C'
            self._unread("options_list", column, "options in one cell are a JSON list", do)
            return {}
        if isinstance(value, list):
            if len(value) > len(LETTERS):
                what = f"{len(value)} options; a question has at most {len(LETTERS)}, A to Y"
                self._unread("too_many_options", column, what, "write fewer")
                return {}
            value = dict(zip(LETTERS, value, strict=False))
        if value is None or isinstance(value, str):
            return {}
        if not isinstance(value, dict):
            what = f"{quoted(str(value))} is no list of options"
            self._unread("options_list", column, what, "write a JSON list")
            return {}
        if unknown := [key for key in value if str(key).upper() not in LETTERS or len(str(key)) != 1]:
            what = f"option {quoted(str(unknown[0]))}; options are called A to Y"
            self._add("options_list", column, what, "rename it")
        texts = {
            str(key).upper(): self._as_text(text, column).strip() for key, text in value.items() if key not in unknown
        }
        return {letter: texts[letter] for letter in sorted(texts)}

    def _kind(self, options: Mapping[str, str]) -> Kind | None:
        """The kind that a row or the declaration names, None for none."""
        column = self.table.columns.kind
        written = self._text(column).strip()
        slug = lexicon.slug(written)
        named = next((kind for kind in KINDS if kind == slug), languages.KINDS.get(slug))
        kind = named if written else self.table.declaration.default_kind
        if kind is None and not written:
            return None
        if kind is None:
            what, do = f"no kind {quoted(written)}", f"write one of {', '.join(KINDS)}, or name no column of kinds"
            self._add("unknown_kind", column, what, do)
        elif bool(options) != (kind in CHOICE_KINDS) and not self._lost_options():
            what = f"a {kind} question {'needs' if kind in CHOICE_KINDS else 'has no'} options"
            do = "write them" if kind in CHOICE_KINDS else "delete them, or write single_choice"
            self._add("kind_options", column, what, do)
        return kind

    def _lost_options(self) -> bool:
        """Whether columns of options have a problem of their own."""
        columns = self.table.columns
        return not self.bad.isdisjoint((columns.listed, *columns.options.values()))

    # Answers

    def _answers(self, options: Mapping[str, str], written: Mapping[str, str], kind: str | None) -> tuple[str, ...]:
        column = self.table.columns.answer
        if column in self.bad:
            return ()
        is_list = isinstance(self._value(column), list)
        cells = self._parts(column) if is_list or not options else (self._text(column).strip(),)
        cells = tuple(filter(None, cells))
        if column not in self.row.values:
            what = "no answer, which other rows have"
            self._add("no_answer", column, what, "write it, or null if the key is withheld")
        elif not cells and column not in self.bad:
            what, do = "no answer: the key is withheld, and the question is not scored", "write the answer"
            self._add("no_answer", column, what, do, refused=False)
        if column in self.bad or not cells or (self._lost_options() and not options):
            return ()
        if not options:
            return self._open_answers(cells, kind)
        letters: set[str] = set()
        for cell in cells:
            if self.table.declaration.numbers_from is not None:
                letters |= self._numbered(list(options), cell)
            else:
                letters |= self._lettered(options, written, cell)
        if kind == "single_choice" and len(letters) > 1:
            what = f"{len(letters)} right options, and the kind is single_choice"
            self._add("several_right", column, what, "write one letter, or the kind multiple_response")
        return tuple(letter for letter in options if letter in letters)

    def _open_answers(self, cells: tuple[str, ...], kind: str | None) -> tuple[str, ...]:
        """The accepted answers to an open question."""
        column, words = self.table.columns.answer, self.table.words
        for text in cells:
            if _is_placeholder(text, "answer"):
                self._placeholder(column, text)
            elif kind == "judgment" and not own.is_judgment(text, words):
                do = "write yes or no, or declare words = { yes = [...], no = [...] }"
                self._add("no_judgment", column, f"{quoted(text)} is neither yes nor no", do)
        if kind is None and self.table.problems.collects:
            columns = self.table.columns
            if all(own.is_judgment(text, words) for text in cells):
                what = "the answer is yes or no, and no kind says so: only a judge scores it"
                self._add("no_kind", column, what, "write judgment into a column kind", refused=False)
            elif all(len(text) == 1 and text in LETTERS for text in cells):
                do = "write them" if columns.options or columns.listed else "name their columns as A, B and so on"
                what = "the answer is a letter, and there are no options: the letter counts as a text"
                self._add("letter_alone", column, what, do, refused=False)
        return cells

    def _lettered(self, options: Mapping[str, str], written: Mapping[str, str], cell: str) -> set[str]:
        """The letters that a cell names, as letters or as the text of an option; `written` may have their letters."""
        column, shown, there = self.table.columns.answer, quoted(cell), ", ".join(options)
        # Full-width letters and commas are those of Chinese keyboards.
        plain = unicodedata.normalize("NFKC", cell)
        by_letter = set(re.sub("[^A-Y]", "", plain.upper())) if LETTERS_CELL.fullmatch(plain) else set[str]()
        by_letter = by_letter if by_letter <= options.keys() else set()
        by_text = _called(cell, options) or _called(cell, written)
        if not (by_letter or by_text):
            by_text = _labelled(cell, options)
        if by_letter and by_text and by_letter != by_text:
            what = f"{shown} is a letter, and the text of option {min(by_text)}"
            self._add("letter_and_text", column, what, "write the letter, and another text for that option")
        elif not by_letter and len(by_text) > 1:
            what = f"{shown} is the text of options {' and '.join(sorted(by_text))}"
            self._add("two_options_match", column, what, "write the letter of the right one")
        elif not (by_letter or by_text):
            do = f"write one of {there}, or the text of an option"
            if (prefix := _PREFIX.match(cell)) and prefix[1].upper() in options:
                do = f"write {prefix[1].upper()}"
            elif cell.isascii() and cell.isdecimal() and len(cell) < 4 and 1 <= int(cell) <= len(options):
                do = f"write a letter, or set numbers_from=1 if {int(cell)} stands for {list(options)[int(cell) - 1]}"
            self._no_option(cell, f"is none of its options {there}", do)
        return by_letter or by_text

    def _no_option(self, cell: str, what: str, do: str) -> None:
        if _is_placeholder(cell, "answer"):
            self._placeholder(self.table.columns.answer, cell)
        else:
            self._add("no_option", self.table.columns.answer, f"{quoted(cell)} {what}", do)

    def _numbered(self, letters: Sequence[str], cell: str) -> set[str]:
        """The letters of options that a cell names by their numbers."""
        plain, first = unicodedata.normalize("NFKC", cell), self.table.declaration.numbers_from or 0
        numbers = [int(text) - first for text in re.findall(r"\d+", plain)] if NUMBERS_CELL.fullmatch(plain) else [-1]
        if any(not 0 <= number < len(letters) for number in numbers):
            what = f"is no number of its options, {first} to {first + len(letters) - 1}"
            self._no_option(cell, what, f"write one of these numbers (numbers_from is {first})")
            return set()
        return {letters[number] for number in numbers}

    # Tags

    def _tags(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the tags of a row by dimension."""
        for name, column in self.table.columns.tags.items():
            yield name, lexicon.slugs(self._parts(column))
        for column, piece in self.table.columns.slices:
            if not piece.labels:
                yield piece.name, lexicon.slugs(self._parts(column))
            elif (number := self._number(column)) is not None:
                yield piece.name, (lexicon.slug(piece.labels[bisect_right(piece.cuts, number)]),)

    def _number(self, column: str) -> float | None:
        """The number in a cell, None if it is blank or none."""
        value = self._value(column)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        text = folded(self._as_text(value, column)).replace("−", "-")
        if not text:
            return None
        has_comma = self.table.declaration.language.partition("-")[0] in languages.DECIMAL_COMMA
        sign = "," if has_comma else "."
        if not _DECIMAL.fullmatch(text) or (sign not in text and re.search("[.,]", text)):
            what = f"{quoted(text)} is no number with a decimal {'comma' if has_comma else 'point'}"
            self._add("no_number", column, what, "correct it, or leave the cell empty")
            return None
        return float(text.replace(",", "."))

    # Images

    def _images(self) -> tuple[Image, ...]:
        declaration = self.table.declaration
        window, allow = declaration.shown_values, declaration.allow_burned_in
        images: list[Image] = []
        count = 0
        for column in self.table.columns.images:
            value = self._value(column)
            if held := [part for part in parts_of(value) if isinstance(part, Image)]:
                images += (replace(image, window=window, allow_burned_in=allow) for image in held)
                count += len(held)
                continue
            files = self._parts(column)
            count += len(files)
            images += filter(None, (self._image(file, column) for file in files if count <= limits.MAX_IMAGES))
        if count > limits.MAX_IMAGES:
            what = f"{count} images; a question has at most {limits.MAX_IMAGES}"
            self._add("too_many_images", self.table.columns.images[0], what, "name fewer")
            return ()
        return tuple(dict.fromkeys(images))

    def _image(self, file: str, column: str) -> Image | None:
        """The reference to an image file, None if its path is wrong."""
        source = self.table.source
        folder = source.folder
        if _is_placeholder(file, "image"):
            self._placeholder(column, file)
        elif (wrong := _wrong_path(file)) is not None:
            self._wrong_image(file, column, *wrong)
        else:
            window, allow = source.declaration.shown_values, source.declaration.allow_burned_in
            try:
                return image_file(file, folder=folder, root=folder, where="", window=window, allow_burned_in=allow)
            except DataError as error:
                self._wrong_image(file, column, *_refused_image(file, folder, error))
        return None

    def _boxes(self) -> dict[str, list[Box]]:
        """The field of `Item.extra` with the regions of a row in its first image; {} for none."""
        column = self.table.columns.box
        value = self._value(column) if column else None
        if value is None or (isinstance(value, str) and not value.strip()):
            return {}
        try:
            return {regions.FIELD: list(regions.parsed(value) if isinstance(value, str) else regions.checked(value))}
        except ValueError as error:
            self._add("wrong_box", column, str(error), "write it as 40,30,100,80, or leave the cell empty")
            return {}

    def _wrong_image(self, file: str, column: str, kind: str, what: str, do: str) -> None:
        self._add(kind, column, f"{shown_file(file)} {what}", do)


def _wrong_path(file: str) -> tuple[str, str, str] | None:
    """The kind of mistake in a path, what it is and what to do; None if it is a relative path of one file."""
    if _URL.match(file):
        return "image_url", "is a URL", "download the image, and write its path"
    if file.startswith("/") or _DRIVE.match(file):
        do = "write it relative to the folder of the images (images, or --images=DIR)"
        return "image_absolute", "is an absolute path", do
    if "\\" in file:
        return "image_backslash", "has a backslash", "write / between folders"
    if "\0" in file:
        return "image_path", "has a zero byte", "write the path again"
    names = re.split(r"[,;\n]", file)
    if len(names) > 1 and all(IMAGE_FILE.search(name.strip()) for name in names):
        return "image_separator", f"is {len(names)} paths in a cell", f"write {SEPARATOR} between them"
    return None


def _refused_image(file: str, folder: Path, error: DataError) -> tuple[str, str, str]:
    """The same for a path that leaves the folder, or ends in a wrong view."""
    try:
        inside(folder, views.split(file)[0], where="")
    except (DataError, ValueError):
        do = "copy the file into the folder of the images, or name its folder (images, or --images=DIR)"
        return "image_leaves", "leaves the folder", do
    problem = str(error).removeprefix(": ").removeprefix(f"image {of_data(file)}: ")
    # The text of the error may repeat the path.
    what = "has a wrong view" if people.suspected(file) or are_withheld() else f"has a wrong view: {problem}"
    return "image_view", what, "correct the text after ?"


def _place_of(row: tables.TableRow) -> str:
    """Return the unit and the number of a row, such as "row 17"."""
    unit, number = row.place
    return f"{unit} {number}"


def _composed(value: Any) -> Any:
    """A value of a cell with its texts in Unicode's composed form (NFC): files of a Mac may hold dots apart."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_composed(part) for part in value]
    return {name: _composed(part) for name, part in value.items()} if isinstance(value, dict) else value


def _called(cell: str, options: Mapping[str, str]) -> set[str]:
    """The letters of the options that have this text; in another case, width or Unicode form, if none has it."""
    exact = {letter for letter, text in options.items() if text.casefold() == cell.casefold()}
    return exact or {letter for letter, text in options.items() if folded(text) == folded(cell)}


def _labelled(cell: str, options: Mapping[str, str]) -> set[str]:
    """The letter of an option that is written with its text, as in "B) spleen"; none if they disagree."""
    match = _PREFIXED.fullmatch(unicodedata.normalize("NFKC", cell))
    letter = match[1].upper() if match else ""
    return {letter} if match and letter in options and folded(options[letter]) == folded(match[2]) else set()


def _unprefixed(options: Mapping[str, str]) -> dict[str, str]:
    """Strip the letters before the texts of options ("A) liver"), if each option has its own."""
    matches = {
        letter: _PREFIXED.fullmatch(text.replace("：", ":").replace("）", ")")) for letter, text in options.items()
    }
    if all(match and match[1].upper() == letter for letter, match in matches.items()):
        return {letter: match[2] for letter, match in matches.items() if match}
    return dict(options)


def _options_in_cell(value: Any, separator: str = "") -> Any:
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
