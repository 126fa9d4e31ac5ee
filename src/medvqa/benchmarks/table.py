"""`medvqa.table`: a benchmark from a spreadsheet and a folder of images.

A table is a CSV, TSV, XLSX, JSON or JSON lines file with a row for each question. The name of a column gives its role
(`ROLES`); docs/own-questions.md has an example of each.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from medvqa.benchmarks import own
from medvqa.data import lexicon, selection, tables, workbooks
from medvqa.data.image_files import image_file
from medvqa.items import CHOICE_KINDS, KINDS, Benchmark, DataError, Image, Item, Kind, usual

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
_LETTERS = re.compile(r"[A-Y](?:[\s,;|/+&]*[A-Y])*|[A-Ya-y](?:[\s,;|/+&]+[A-Ya-y])*")
_NUMBERED_IMAGE = re.compile(r"images? ?\d+")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|data:")
_SHOWN = 60
_RENAME = "Rename one of them, or write columns={{'{0}': 'COLUMN'}} in medvqa.table"


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

    `path` is a CSV, TSV, XLSX, JSON or JSON lines file; `images` the folder that its image cells are relative to
    (default: the folder of the table). A path that is not absolute starts at the folder of the file that calls this,
    such as a conftest.py; in a script, a console or a notebook at the working folder. `name` is the benchmark's in
    `--benchmark=NAME` (default: the name of the file). `prompt` is a text with the fields {question} and {options},
    in place of the default prompts. `tags` names columns to select and to report by. `columns` maps a role, or the
    letter of an option, to a column that is called otherwise: {"question": "Frage"}. `window` holds the raw values
    that are shown as black and as white, for images of more than 8 bits without a window of their own. `public` says
    that anybody may have the data, so that they may be sent to another machine without --allow-upload.
    `allow_burned_in` shows DICOM files whose header says that annotation is burnt into the pixels.

    Errors in the data are DataErrors that name file, row and column; they are raised when the benchmark is read.
    """
    caller = sys._getframe(1).f_globals
    is_module = caller.get("__name__") != "__main__" and caller.get("__file__")
    folder = Path(caller["__file__"]).parent if is_module else Path()
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
    stem = re.sub(r"[\W_]+", "-", file.stem.casefold()).strip("-")
    return Benchmark(
        name=name or stem or "table",
        title=title,
        items=source.items,
        prompt=prompt or usual,
        dimensions=tuple(lexicon.slug(tag) for tag in source.tags),
        public=public,
    )


def _absolute(folder: Path, path: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(Path(folder, os.path.expanduser(path))))


@dataclass(frozen=True)
class Source:
    """The files of a table's questions, and the roles of its columns; see `table`."""

    file: Path
    shown: str
    images: Path | None = None
    tags: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    window: tuple[float, float] | None = None
    allow_burned_in: bool = False
    where: str = ""

    def items(self, data: Path) -> Iterator[Item]:
        """Yield the questions in the order of the table; `data` is ignored.

        Questions that share an image, a patient, a case or a cluster have one `cluster_id`. DataError, which names
        file, row and column, for an invalid table.
        """
        if _URL.match(self.shown):
            raise DataError(f"{_clipped(self.shown)}: a table is a file; download it, and give its path")
        yield from self.items_of(tables.read(self.file, name=self.shown, fold=True, key="id"))

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
                raise row.error(f"id '{item.id}' is also that of {read[item.id][2]}", columns_of[header].id)
            read[item.id] = item, links, row.where
            if item.pair_id is not None:
                pairs.setdefault(item.pair_id, []).append(row.where)
        for pair, places in pairs.items():
            if len(places) != 2:
                counted = f"{len(places)} question{'s' * (len(places) > 1)}"
                raise DataError(f"{places[-1]}: pair '{pair}' has {counted}; a pair has 2")
        clusters = selection.components(links for _, links, _ in read.values() if links)
        for item, links, _ in read.values():
            yield replace(item, cluster_id=clusters[links[0]] if links else None)

    # Columns

    def _columns(self, header: Sequence[str]) -> TableColumns:
        """Assign columns to roles (DataError)."""
        named = {column.strip().lower(): role for role, column in self.columns.items()}
        all_roles = (*ROLES, *LETTERS)
        for column, role in named.items():
            if role.lower() not in ROLES and role not in LETTERS:
                raise self._error(f"columns={{'{role}': ...}}: no such role; there are: {', '.join(all_roles)}")
            if column not in header:
                raise self._missing(f"columns={{'{role}': '{column}'}}", header, "Write one of these")
        free: dict[str, str] = {}
        for column in header:
            plain = re.sub(r"[\s_-]+", " ", column).strip()
            if column not in named:
                if plain in free:
                    raise self._error(f"columns '{free[plain]}' and '{column}' have the same name; rename one of them")
                free[plain] = column
        roles = {role.lower(): column for column, role in named.items()}
        for role, others in ROLES.items():
            if role not in roles and (column := self._found(role, others, free)):
                roles[role] = column
        for role in ("question", "answer"):
            if role not in roles:
                raise self._missing(role, header, _RENAME.format(role))
        images = [column for plain, column in free.items() if _NUMBERED_IMAGE.fullmatch(plain)]
        if "image" in roles:
            images.insert(0, roles["image"])
        elif self.images is not None and not images:
            raise self._missing(
                "image", header, "Rename one of them, write columns={'image': 'COLUMN'}, or drop images="
            )
        return TableColumns(
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
        )

    def _found(self, role: str, others: Sequence[str], free: Mapping[str, str]) -> str:
        """The column of a role, "" for none; DataError if several could be it."""
        if role in free:
            return free[role]
        columns = [free[name] for name in others if name in free]
        if len(columns) > 1:
            shown = " and ".join(f"'{column}'" for column in columns)
            raise self._error(
                f"columns {shown} could both be the {role}; write columns={{'{role}': '{columns[0]}'}} in medvqa.table"
            )
        return columns[0] if columns else ""

    def _options(self, roles: Mapping[str, str], free: Mapping[str, str]) -> dict[str, str]:
        """The columns of the options by letter (DataError if a letter is left out)."""
        by_letter = {letter: roles[letter.lower()] for letter in LETTERS if letter.lower() in roles}
        for letter in LETTERS:
            low = letter.lower()
            named = [free[name] for name in (low, f"option {low}", f"choice {low}") if name in free]
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
            if tag.strip().lower() not in header:
                raise self._missing(tag, header, "Name one of them in tags=(...)")
            if tags.get(lexicon.slug(tag), tag.strip().lower()) != tag.strip().lower():
                raise self._error(f"tags '{tags[lexicon.slug(tag)]}' and '{tag}' are both called {lexicon.slug(tag)}")
            tags[lexicon.slug(tag)] = tag.strip().lower()
        return tags

    def _missing(self, wanted: str, header: Sequence[str], advice: str) -> DataError:
        names = ", ".join(header)
        return self._error(f"no column '{_clipped(wanted)}'; there are: {names[:500]}. {advice}")

    def _error(self, message: str) -> DataError:
        return DataError(f"{self.where}{message}")

    # Rows

    def _item(self, row: tables.TableRow, columns: TableColumns) -> tuple[Item, list[str]]:
        """The question of a row, and the texts that it shares with others of its cluster (DataError)."""
        for column in columns.used:
            if isinstance(row.values.get(column), workbooks.Formula):
                raise row.error("a formula; write its value in its place", column)
        question = row.text(columns.question)
        if not question.strip():
            raise row.error("the question is empty", columns.question)
        options = _options(row, columns)
        stated = _kind(row, columns, options)
        answers = _letters(row, columns, options) if options else _texts(row, columns.answer)
        if stated == "single_choice" and len(answers) > 1:
            raise row.error(f"{len(answers)} right options, and the kind is single_choice", columns.answer)
        if stated == "judgment" and (others := [text for text in answers if not own.is_judgment(text)]):
            raise row.error(f"'{_clipped(others[0])}' is no judgment: write yes or no", columns.answer)
        several = "multiple_response" if len(answers) > 1 else "single_choice"
        images = self._images(row, columns)
        shared = {role: text for role, column in columns.links.items() if (text := row.text(column).strip())}
        item = Item(
            id=row.identifier(columns.id) if columns.id else str(row.number),
            benchmark="",
            kind=stated or (several if options else "short_answer"),  # type: ignore[arg-type]
            question=question,
            options=options,
            answers=answers,
            images=images,
            tags={
                name: values for name, column in columns.tags.items() if (values := lexicon.slugs(_texts(row, column)))
            },
            pair_id=(row.text(columns.pair).strip() or None) if columns.pair else None,
            extra=shared,
        )
        return item, [*(f"image {image.file}" for image in images), *(f"{r} {v}" for r, v in shared.items())]

    def _images(self, row: tables.TableRow, columns: TableColumns) -> tuple[Image, ...]:
        folder = self.images or self.file.parent
        images = []
        for column in columns.images:
            for file in _texts(row, column):
                where = f"{row.where}, column '{column}'"
                if _URL.match(file):
                    raise DataError(f"{where}: '{_clipped(file)}' is a URL; download the image, and write its path")
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
    """The column of each role; "" for none. `options`, `links` and `tags`: by letter, role and dimension."""

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

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        named = (self.question, self.answer, self.id, self.kind, self.pair, self.listed)
        by_name = (self.options, self.links, self.tags)
        return [*named, *self.images, *(column for columns in by_name for column in columns.values())]


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


def _options(row: tables.TableRow, columns: TableColumns) -> dict[str, str]:
    """The options of a row by letter; {} for an open question (DataError)."""
    if columns.listed:
        options = _listed(row, columns.listed)
        column = columns.listed
    else:
        options = {letter: row.text(column).strip() for letter, column in columns.options.items()}
        options = {letter: text for letter, text in options.items() if text}
        column = columns.options.get("A", "")
    if len(options) == 1:
        raise row.error("one option alone; a question has none, or at least 2", column)
    return options


def _listed(row: tables.TableRow, column: str) -> dict[str, str]:
    """Options that are in one cell: a JSON list, or an object with letters as keys."""
    value: Any = row.values.get(column)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, list | dict):
            raise row.error(
                'options in one cell are a JSON list such as ["liver", "spleen"]; or have a column for each: A, B, C',
                column,
            )
    if isinstance(value, list):
        if len(value) > len(LETTERS):
            raise row.error(f"{len(value)} options; a question has at most {len(LETTERS)}, A to Y", column)
        value = dict(zip(LETTERS, value, strict=False))
    if not value:
        return {}
    if not isinstance(value, dict):
        raise row.error(f"no options: {_clipped(str(value))}", column)
    if unknown := [letter for letter in value if str(letter).upper() not in LETTERS]:
        raise row.error(f"option '{_clipped(str(unknown[0]))}'; options are called A to Y", column)
    options = {letter.upper(): _text(row, column, text).strip() for letter, text in value.items()}
    return {letter: options[letter] for letter in sorted(options) if options[letter]}


def _kind(row: tables.TableRow, columns: TableColumns, options: Mapping[str, str]) -> Kind | None:
    """The kind that a row names, None for none (DataError if there is no such kind, or it does not fit)."""
    written = row.text(columns.kind).strip() if columns.kind else ""
    if not written:
        return None
    kind = next((kind for kind in KINDS if kind == lexicon.slug(written)), None)
    if kind is None:
        raise row.error(f"no kind '{_clipped(written)}'; there are: {', '.join(KINDS)}", columns.kind)
    if bool(options) != (kind in CHOICE_KINDS):
        raise row.error(f"a {kind} question has {'' if kind in CHOICE_KINDS else 'no '}options", columns.kind)
    return kind


def _letters(row: tables.TableRow, columns: TableColumns, options: Mapping[str, str]) -> tuple[str, ...]:
    """The letters of the right options, written as letters or as one option's text (DataError)."""
    value = row.values.get(columns.answer)
    cells = _texts(row, columns.answer) if isinstance(value, list) else (row.text(columns.answer).strip(),)
    letters: set[str] = set()
    for cell in filter(None, cells):
        by_letter = set(re.sub("[^A-Y]", "", cell.upper())) if _LETTERS.fullmatch(cell) else set()
        by_letter = by_letter if by_letter <= options.keys() else set()
        by_text = {letter for letter, text in options.items() if text.casefold() == cell.casefold()}
        shown = _clipped(cell)
        if by_letter and by_text and by_letter != by_text:
            raise row.error(f"'{shown}' is a letter, and the text of option {min(by_text)}: rename it", columns.answer)
        if not by_letter and len(by_text) > 1:
            raise row.error(f"'{shown}' is the text of options {', '.join(sorted(by_text))}", columns.answer)
        if not (by_letter or by_text):
            raise row.error(f"'{shown}' is none of its options {', '.join(options)}", columns.answer)
        letters |= by_letter or by_text
    return tuple(letter for letter in options if letter in letters)


def _clipped(text: str) -> str:
    """The start of a text from a table, for a message."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
