"""Rows -> cases, with every mistake of every row.

The rules are those of `benchmarks.table`, which stops at the first mistake. `validation` asks it at the end whether it
agrees.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medvqa import scoring, tables
from medvqa.benchmarks import languages, own, table
from medvqa.benchmarks.table import LETTERS, MAX_IMAGES, SEPARATOR
from medvqa.importing import cells
from medvqa.importing.mistakes import Mistake, RowNumber, quoted
from medvqa.importing.roles import IMAGE_FILE, RoleColumns
from medvqa.importing.settings import FileSettings
from medvqa.importing.sheet import Sheet, SheetRow, is_blank
from medvqa.items import CHOICE_KINDS, KINDS, Image
from medvqa.tables import people
from medvqa.tags import lexicon

_PREFIX = re.compile(r"\(?([A-Ya-y])\s?[.):：、]\s?(?=\S)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|data:", re.I)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")


@dataclass(frozen=True, slots=True)
class TableCase:
    """One question as far as it can be read.

    `answers` holds letters if there are options, "yes" or "no" of a judgment, else texts. `files` are paths as written,
    `images` those of Parquet cells; `named` tells whether a cell names any, also a wrong one. `links` has patient, case
    and cluster, which no message may hold.
    """

    row: RowNumber
    question: str
    options: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    kind: str = ""
    files: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    named: bool = False
    id: str = ""
    pair: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def cases_of(sheet: Sheet, columns: RoleColumns, settings: FileSettings) -> tuple[list[TableCase], list[Mistake]]:
    """Return the cases of a table and the mistakes of its cells; private columns are not read."""
    mistakes: list[Mistake] = []
    roles = {
        **dict.fromkeys(columns.tags, "tag"),
        **dict.fromkeys(columns.slices, "tag"),
        **dict.fromkeys(columns.images, "image"),
        **{place: "option" if role in LETTERS else role for role, place in columns.one.items()},
    }
    roles = {place: role for place, role in roles.items() if place not in columns.private}
    _of_areas(sheet, roles, mistakes)
    if (letters := "".join(columns.options)) and letters != LETTERS[: len(letters)]:
        gap = next(letter for letter in LETTERS if letter not in letters)
        what = f"columns {', '.join(letters)} are options, and there is no column {gap}"
        mistakes.append(Mistake("option_gap", None, "", what, f"rename them, or type --set {gap}=COLUMN"))
    if letters and "options" in columns.one:
        what = f"the options are in this column and in columns {', '.join(letters)}"
        do = "type --set options= to read the letters' columns"
        mistakes.append(Mistake("two_options", None, sheet.columns[columns.one["options"]], what, do))
    reader = _RowReader(sheet, columns, settings, mistakes)
    cases = []
    for row in sheet.rows:
        bad: set[int] = set()
        for place, role in roles.items():
            found = list(_of_cell(row, place, sheet, role))
            mistakes += found
            # A formula or an error is one mistake, and its text no other one.
            if any(mistake.kind in ("formula", "error_cell") or mistake.refused for mistake in found):
                bad.add(place)
        cases.append(reader.case(row, bad))
    return cases, mistakes


def _of_cell(row: SheetRow, place: int, sheet: Sheet, role: str) -> Iterator[Mistake]:
    value = row.cells[place]
    printed = role not in ("patient", "case", "cluster", "id", "pair")
    values = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else [value]
    for one in values[:MAX_IMAGES]:
        if not isinstance(one, Image):
            yield from cells.checked(one, row.number, sheet.columns[place], role=role, printed=printed)


def _of_areas(sheet: Sheet, roles: Mapping[int, str], mistakes: list[Mistake]) -> None:
    """Add merged cells of columns that are read: only the first of them holds the value."""
    from openpyxl.utils import get_column_letter

    for top, bottom, left, right in sheet.merged:
        if any(left <= place <= right for place in roles):
            area = f"{get_column_letter(left + 1)}{top}:{get_column_letter(right + 1)}{bottom}"
            what = f"merged cells {area}: only the first holds a value"
            column = sheet.columns[left] if left < len(sheet.columns) else ""
            mistakes.append(Mistake("merged", max(top, 2), column, what, "unmerge them, and fill in every cell"))


class _RowReader:
    """Read rows one by one, adding mistakes to a list."""

    def __init__(self, sheet: Sheet, columns: RoleColumns, settings: FileSettings, mistakes: list[Mistake]) -> None:
        self._sheet = sheet
        self._columns = columns
        self._settings = settings
        self._mistakes = mistakes
        self._words = languages.WORDS.get(settings.language.partition("-")[0], own.YES_OR_NO)
        self._written: Mapping[str, str] = {}
        self._row: RowNumber = 0
        self._bad: set[int] = set()
        self._people: dict[str, str] = {}

    def case(self, row: SheetRow, bad: set[int]) -> TableCase:
        """Return the case of a row; columns in `bad` have mistakes of their own and are not read."""
        self._row, self._bad = row.number, bad
        one = self._columns.one
        question = self._text(row, one.get("question"))
        if "question" in one and one["question"] not in bad:
            if not question.strip():
                self._add("empty_question", one["question"], "the question is empty", "write it, or delete the row")
            elif cells.is_placeholder(question, "question"):
                self._placeholder(one["question"], question)
        self._written, place = self._options(row)
        options = table.unprefixed(self._written)
        if options == self._written:
            self._prefixed(options)
        kind = self._kind(row, options)
        answers = self._answers(row, options, kind)
        files, images = self._images(row)
        ident = tables.whole(self._text(row, one.get("id")).strip())
        if "id" in one and one["id"] not in bad and not ident:
            self._add("missing_id", one["id"], "no id", "write one, or type --set id= to number the rows")
        if options and place is not None and len(options) == 1:
            what = "one option alone"
            self._add("one_option", place, what, "write at least two, or none for an open question")
        return TableCase(
            row=row.number,
            question=question.strip(),
            options=options,
            answers=answers,
            kind=kind or _default_kind(options, answers),
            files=files,
            images=images,
            named=any(not is_blank(row.cells[place]) for place in self._columns.images),
            id=ident,
            pair=self._text(row, one.get("pair")).strip(),
            links={
                role: text for role in ("patient", "case", "cluster") if role in one and (text := self._link(row, role))
            },
            tags={
                self._sheet.shown(place): values
                for place in dict.fromkeys((*self._columns.tags, *self._columns.slices))
                if (values := lexicon.slugs(self._parts(row, place)))
            },
        )

    def _link(self, row: SheetRow, role: str) -> str:
        """The patient, case or cluster of a row; a patient's name is replaced by a number."""
        place = self._columns.one[role]
        if place not in self._columns.private:
            return self._text(row, place).strip()
        text = (tables.text_of(row.cells[place]) or "").strip()
        return self._people.setdefault(table.person(text), f"name {len(self._people) + 1}") if text else ""

    def _add(self, kind: str, place: int | None, what: str, do: str, *, refused: bool = True) -> None:
        column = "" if place is None else self._sheet.columns[place]
        self._mistakes.append(Mistake(kind, self._row, column, what, do, refused))

    def _placeholder(self, place: int, text: str, *, refused: bool = True) -> None:
        what = f"{quoted(text)} stands for a missing value"
        self._add("placeholder", place, what, "write the value, or delete the row", refused=refused)

    def _text(self, row: SheetRow, place: int | None) -> str:
        if place is None or place in self._bad or place in self._columns.private:
            return ""
        return self._written_text(row.cells[place], place)

    def _written_text(self, value: Any, place: int) -> str:
        """A cell, or a part of one, as text; adds a mistake once for a value that is neither text nor number."""
        text = tables.text_of(value)
        if text is None and place not in self._bad:
            what = f"a value of type {type(value).__name__}, which is no text"
            self._add("no_text", place, what, "write a text or a number")
            self._bad.add(place)
        return text or ""

    def _parts(self, row: SheetRow, place: int) -> tuple[str, ...]:
        value = row.cells[place]
        if place in self._bad:
            return ()
        parts = (
            [self._written_text(part, place) for part in value]
            if isinstance(value, list)
            else self._text(row, place).split(SEPARATOR)
        )
        return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))

    # Options

    def _options(self, row: SheetRow) -> tuple[dict[str, str], int | None]:
        """The options of a row by letter, and the column of the first."""
        by_letter = self._columns.options
        if by_letter:
            options = {letter: self._text(row, place).strip() for letter, place in by_letter.items()}
            first = next(iter(by_letter.values()))
        elif (place := self._columns.one.get("options")) is not None and place not in self._bad:
            options, first = self._listed(row.cells[place], place), place
        else:
            return {}, None
        filled = {letter: text for letter, text in options.items() if text}
        last = max(filled, default="")
        blank = [letter for letter in options if letter < last and not options[letter]]
        if blank and not any(by_letter.get(letter) in self._bad for letter in blank):
            what, do = f"option {blank[0]} is blank, and option {last} is not", "fill it in, or move the others up"
            self._add("option_gap", by_letter.get(blank[0], first), what, do, refused=False)
        same: dict[str, list[str]] = {}
        for letter, text in filled.items():
            same.setdefault(" ".join(text.casefold().split()), []).append(letter)
        for letters in same.values():
            if len(letters) > 1:
                what = f"options {' and '.join(letters)} are equal"
                self._add("equal_options", by_letter.get(letters[1], first), what, "write another text for one of them")
        for letter, text in filled.items():
            if cells.is_placeholder(text, "option"):
                self._placeholder(by_letter.get(letter, first), text, refused=False)
        return filled, first

    def _prefixed(self, options: Mapping[str, str]) -> None:
        """Add options whose text begins with their letter; the benchmark strips it only if all of them do."""
        for letter, text in options.items():
            if (match := _PREFIX.match(text)) and match[1].upper() == letter:
                place = self._columns.options.get(letter, self._columns.one.get("options"))
                what = f"the text of option {letter} begins with its letter, unlike that of other options"
                self._add("option_prefix", place, what, "delete the letter and the sign after it", refused=False)

    def _listed(self, value: Any, place: int) -> dict[str, str]:
        """Options in one cell: a JSON list or object, or texts between separators."""
        try:
            value = table.options_in_cell(value, self._settings.separator)
        except ValueError:
            what = "options in one cell are no JSON list"
            do = 'write ["liver", "spleen"], or type --set separator=SIGN for the sign between them'
            self._add("options_list", place, what, do)
            self._bad.add(place)
            return {}
        if isinstance(value, list):
            if len(value) > len(LETTERS):
                what = f"{len(value)} options; a question has at most {len(LETTERS)}, A to Y"
                self._add("too_many_options", place, what, "write fewer")
            value = dict(zip(LETTERS, value, strict=False))
        if value is None or isinstance(value, str):
            return {}
        if not isinstance(value, dict):
            self._add("options_list", place, f"{quoted(str(value))} is no list of options", "write a JSON list")
            self._bad.add(place)
            return {}
        if unknown := [key for key in value if str(key).upper() not in LETTERS or len(str(key)) != 1]:
            what = f"option {quoted(str(unknown[0]))}; options are called A to Y"
            self._add("options_list", place, what, "rename it")
        texts = {
            str(key).upper(): self._written_text(text, place).strip()
            for key, text in value.items()
            if key not in unknown
        }
        return {letter: texts[letter] for letter in sorted(texts)}

    def _kind(self, row: SheetRow, options: Mapping[str, str]) -> str:
        place = self._columns.one.get("kind")
        written = self._text(row, place).strip()
        slug = lexicon.slug(written) if written else self._settings.kind
        if not slug:
            return ""
        kind = slug if slug in KINDS else languages.KINDS.get(slug, "")
        if not kind:
            do = f"write one of {', '.join(KINDS)}, or type --set kind="
            self._add("unknown_kind", place, f"no kind {quoted(written)}", do)
        elif bool(options) != (kind in CHOICE_KINDS):
            what = f"a {kind} question {'needs' if kind in CHOICE_KINDS else 'has no'} options"
            do = "write them" if kind in CHOICE_KINDS else "delete them, or write single_choice"
            self._add("kind_options", place, what, do)
        return kind

    # Answers

    def _answers(self, row: SheetRow, options: Mapping[str, str], kind: str) -> tuple[str, ...]:
        place = self._columns.one.get("answer")
        if place is None or place in self._bad:
            return ()
        parts = self._parts(row, place) if not options or isinstance(row.cells[place], list) else ()
        written = parts or tuple(filter(None, (self._text(row, place).strip(),)))
        if not written:
            what, do = "no answer: the key is withheld, and the question is not scored", "write the answer"
            self._add("no_answer", place, what, do, refused=False)
            return ()
        if not options:
            for text in written:
                if cells.is_placeholder(text, "answer"):
                    self._placeholder(place, text)
            judged = [self._judged(text) for text in written]
            if kind == "judgment":
                for text, value in zip(written, judged, strict=True):
                    if not value and not cells.is_placeholder(text, "answer"):
                        self._add("no_judgment", place, f"{quoted(text)} is neither yes nor no", "write yes or no")
                return tuple(dict.fromkeys(filter(None, judged)))
            if not kind and all(judged):
                what = "the answer is yes or no, and no kind says so: only a judge scores it"
                self._add("no_kind", place, what, "write judgment into a column kind", refused=False)
            elif not kind and all(len(text) == 1 and text in LETTERS for text in written):
                named = self._columns.options or "options" in self._columns.one
                do = "write them" if named else "name their columns by --set A=COLUMN --set B=COLUMN and so on"
                what = "the answer is a letter, and there are no options: the letter counts as a text"
                self._add("letter_alone", place, what, do, refused=False)
            return written
        if place in self._bad or (self._columns.one.get("options") in self._bad):
            return ()
        letters: set[str] = set()
        for text in written:
            is_number = self._settings.numbers_from is not None
            letters |= (self._numbers if is_number else self._letters)(text, options, place)
        if kind == "single_choice" and len(letters) > 1:
            what = f"{len(letters)} right options, and the kind is single_choice"
            self._add("several_right", place, what, "write one letter, or the kind multiple_response")
        return tuple(letter for letter in options if letter in letters)

    def _judged(self, text: str) -> str:
        """Return "yes" or "no" for a judgment in the language of the table, "" for another text."""
        plain = scoring.normalise(text)
        return next(
            (side for side, words in self._words.items() if plain in map(scoring.normalise, (side, *words))), ""
        )

    def _numbers(self, text: str, options: Mapping[str, str], place: int) -> set[str]:
        """The letters of the options that a cell names by their numbers."""
        first, plain = self._settings.numbers_from or 0, unicodedata.normalize("NFKC", text)
        numbers = (
            [int(number) - first for number in re.findall(r"\d+", plain)]
            if table.NUMBERS_CELL.fullmatch(plain)
            else [-1]
        )
        if any(not 0 <= number < len(options) for number in numbers):
            if cells.is_placeholder(text, "answer"):
                self._placeholder(place, text)
            else:
                last = first + len(options) - 1
                what = f"{quoted(text)} is no number of its options, {first} to {last}"
                self._add("no_option", place, what, "write one of these numbers")
            return set()
        return {list(options)[number] for number in numbers}

    def _letters(self, text: str, options: Mapping[str, str], place: int) -> set[str]:
        """The letters that a cell names, as letters or as the text of an option."""
        plain = unicodedata.normalize("NFKC", text)
        named = set(re.sub("[^A-Y]", "", plain.upper())) if table.LETTERS_CELL.fullmatch(plain) else set[str]()
        by_letter = named if named <= options.keys() else set[str]()
        by_text = table.called(text, options) or table.called(text, self._written)
        if not (by_letter or by_text):
            by_text = table.labelled(text, options)
        shown, there = quoted(text), ", ".join(options)
        if by_letter and by_text and by_letter != by_text:
            what = f"{shown} is a letter, and the text of option {min(by_text)}"
            self._add("letter_and_text", place, what, "write the letter, and another text for that option")
        elif not by_letter and len(by_text) > 1:
            what = f"{shown} is the text of options {' and '.join(sorted(by_text))}"
            self._add("two_options_match", place, what, "write the letter of the right one")
        elif not (by_letter or by_text):
            if cells.is_placeholder(text, "answer"):
                self._placeholder(place, text)
                return set()
            do = f"write one of {there}, or the text of an option"
            if (prefix := _PREFIX.match(text)) and prefix[1].upper() in options:
                do = f"write {prefix[1].upper()}"
            elif text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= len(options):
                meant = list(options)[int(text) - 1]
                do = f"write a letter, or type --set numbers_from=1 if {int(text)} stands for {meant}"
            self._add("no_option", place, f"{shown} is none of its options {there}", do)
        return by_letter or by_text

    # Images

    def _images(self, row: SheetRow) -> tuple[tuple[str, ...], tuple[Image, ...]]:
        files: list[str] = []
        images: list[Image] = []
        for place in self._columns.images:
            value = row.cells[place]
            listed = value if isinstance(value, list) else [value]
            if stored := [one for one in listed if isinstance(one, Image)]:
                images += stored
                continue
            if place in self._bad or is_blank(value):
                continue
            for file in self._parts(row, place):
                if cells.is_placeholder(file, "image"):
                    self._placeholder(place, file)
                elif self._is_path(file, place):
                    files.append(file)
        if (count := len(files) + len(images)) > MAX_IMAGES:
            what = f"{count} images; a question has at most {MAX_IMAGES}"
            self._add("too_many_images", self._columns.images[0], what, "name fewer")
            return (), ()
        return tuple(dict.fromkeys(files)), tuple(images)

    def _is_path(self, file: str, place: int) -> bool:
        """Whether a text is a relative path of one file; adds a mistake if not."""
        shown = shown_file(file)
        if _URL.match(file):
            self._add("image_url", place, f"{shown} is a URL", "download the image, and write its path")
        elif file.startswith("/") or _DRIVE.match(file):
            do = "write it relative to the folder of the images (--images=DIR)"
            self._add("image_absolute", place, f"{shown} is an absolute path", do)
        elif "\\" in file:
            self._add("image_backslash", place, f"{shown} has a backslash", "write / between folders")
        elif "\0" in file:
            self._add("image_path", place, "a zero byte in the path", "write the path again")
        elif len(names := re.split(r"[,;\n]", file)) > 1 and all(IMAGE_FILE.search(name.strip()) for name in names):
            self._add("image_separator", place, f"{len(names)} paths in a cell", f"write {SEPARATOR} between them")
        else:
            return True
        return False


def shown_file(file: str) -> str:
    """Return a path for messages; without it if it may hold a person's name or birth date, or if it is withheld."""
    doubt = people.suspected(file)
    return f"a path that may hold {doubt}" if doubt else quoted(file)


def _default_kind(options: Mapping[str, str], answers: Sequence[str]) -> str:
    if not options:
        return "short_answer"
    return "multiple_response" if len(answers) > 1 else "single_choice"
