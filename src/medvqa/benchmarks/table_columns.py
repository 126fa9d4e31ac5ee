"""Columns of a user's own table -> roles, by their names and by a declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from medvqa.benchmarks import languages
from medvqa.benchmarks.table_declaration import LETTERS, ROLES, Slice, TableDeclaration
from medvqa.items import DataError, are_withheld
from medvqa.printing import clipped, folded
from medvqa.tables.problems import HEADER, Problems, TableProblem
from medvqa.tags import lexicon

_NUMBERED_IMAGE = re.compile(r"(?:images?|bild|图像|图片|圖像|圖片) ?\d+")
_NAMES = frozenset(
    name
    for names in (ROLES, languages.COLUMNS)
    for role, others in names.items()
    for name in (role, role.replace(" ", "_"), *others)
)
"""The usual names of columns in lower case."""


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
    box: str = ""
    slices: tuple[tuple[str, Slice], ...] = ()

    @property
    def used(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        named = (self.question, self.answer, self.id, self.kind, self.pair, self.listed, self.box)
        by_name = (column for columns in (self.options, self.links, self.tags) for column in columns.values())
        listed = (*named, *self.images, *by_name, *(column for column, _ in self.slices))
        return tuple(filter(None, dict.fromkeys(listed)))


def columns_of(
    declaration: TableDeclaration, header: Sequence[str], problems: Problems, *, toml: str, with_images: bool
) -> TableColumns:
    """Return the columns of each role (DataError if they cannot be told).

    `toml` names the file that declares the table in advice, "" for `medvqa.table`; `with_images`: a folder of images is
    named, so a column of images is needed.
    """
    return _NamedColumns(declaration, header, problems, toml).columns(with_images=with_images)


class _NamedColumns:
    """The names of a table's columns, to be assigned to roles."""

    def __init__(self, declaration: TableDeclaration, header: Sequence[str], problems: Problems, toml: str) -> None:
        self._declaration = declaration
        self._header = header
        self._problems = problems
        self._toml = toml

    def columns(self, *, with_images: bool) -> TableColumns:
        roles = self._declared()
        free = self._free(roles)
        # An empty name says that no column has the role.
        without = {role for role, written in self._declaration.roles.items() if not written.strip()}
        for role, others in ROLES.items():
            if role not in roles and role not in without:
                column = self._found(role, (*others, *languages.COLUMNS.get(role, ())), free)
                roles |= {role: column} if column else {}
        for role in ("question", "answer"):
            if role not in roles:
                raise self._missing(role, f"Rename one of them, or {self._advice(role)}")
        images = list(dict.fromkeys(column for plain, column in free.items() if _NUMBERED_IMAGE.fullmatch(plain)))
        images = [] if "image" in without else images
        images += [self._column(written, "image") for written in self._declaration.more_images]
        if "image" in roles:
            images.insert(0, roles["image"])
        elif with_images and not images and "image" not in without:
            raise self._missing("image", f"Rename one of them, {self._advice('image')}, or drop images")
        options = self._options(roles, free)
        columns = TableColumns(
            question=roles["question"],
            answer=roles["answer"],
            id=roles.get("id", ""),
            kind=roles.get("kind", ""),
            pair=roles.get("pair", ""),
            images=tuple(images),
            listed="" if options else roles.get("options", ""),
            options=options,
            links={role: roles[role] for role in ("patient", "case", "cluster") if role in roles},
            tags=self._tags(),
            box=roles.get("box", ""),
            slices=tuple((self._column(piece.column), piece) for piece in self._declaration.pieces),
        )
        self._check_shown(columns)
        return columns

    def _declared(self) -> dict[str, str]:
        """The columns of declared roles and letters (DataError)."""
        role_of: dict[str, str] = {}
        for role, written in self._declaration.roles.items():
            if not written.strip():
                continue
            column = self._column(written, role)
            if role_of.get(column, role) != role:
                raise self._error(f"{role_of[column]} and {role} are both the column '{column}'; name another for one")
            role_of[column] = role
        return {role: column for column, role in role_of.items()}

    def _free(self, roles: Mapping[str, str]) -> dict[str, str]:
        """The columns without a declared role by their names in lower case, with blanks for _ and -."""
        free: dict[str, str] = {}
        for column in self._header:
            plain = re.sub(r"[\s_-]+", " ", column.lower()).strip()
            if column in roles.values():
                continue
            if plain in free:
                what = f"columns '{clipped(free[plain])}' and '{clipped(column)}' have the same name"
                self._problems.add(TableProblem("duplicate_column", None, "", what, "rename one of them", unit=HEADER))
            free.setdefault(plain, column)
        for plain, column in list(free.items()):
            free.setdefault(folded(plain), column)
        return free

    def _column(self, written: str, role: str = "") -> str:
        """The column that is meant by a name (DataError)."""
        low, header = written.strip().lower(), self._header
        if written in header:
            return written
        alike = [column for column in header if column.strip().lower() == low]
        alike = alike[:1] or [column for column in header if folded(column) == folded(written)]
        if len(alike) != 1:
            raise self._missing(written, f"Write one of these{f' for {role}' if role else ''} in {self._door}")
        return alike[0]

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
        """The columns of the options by letter."""
        by_letter = {letter: roles[letter] for letter in LETTERS if letter in roles}
        # A declaration that lists the options has no others, and one that names two of them no column "x".
        are_named = {"A", "B"} <= by_letter.keys()
        for letter in "" if isinstance(self._declaration.options, list) else LETTERS:
            low = letter.lower()
            abroad = [name.format(low) for name in languages.OPTION_COLUMNS]
            names = (low, f"option {low}", f"choice {low}", *abroad)
            named = list(dict.fromkeys(free[name] for name in names if name in free))
            if len(named) > 1:
                raise self._error(
                    f"columns '{named[0]}' and '{named[1]}' could both be option {letter}; drop one of them"
                )
            if named:
                by_letter.setdefault(letter, named[0])
            elif are_named and letter not in by_letter:
                break
        if "A" not in by_letter:
            return {}
        letters = "".join(sorted(by_letter))
        if letters != LETTERS[: len(letters)]:
            gap = next(letter for letter in LETTERS if letter not in letters)
            what = f"columns {', '.join(letters)} are options, and there is no column {gap}"
            self._problems.add(TableProblem("option_gap", None, "", what, "rename what is no option", unit=HEADER))
        if "options" in roles:
            what = f"options are in '{roles['options']}' and in columns {', '.join(letters)}"
            self._problems.add(TableProblem("two_options", None, "", what, "drop one of them", unit=HEADER))
        return {letter: by_letter[letter] for letter in letters}

    def _tags(self) -> dict[str, str]:
        """The columns of tags by dimension (DataError)."""
        tags = dict[str, str]()
        for tag in self._declaration.tags:
            column, name = self._column(tag, "tags"), lexicon.slug(tag)
            if tags.setdefault(name, column) != column:
                raise self._error(f"tags '{tags[name]}' and '{tag}' are both called {name}")
        return tags

    def _check_shown(self, columns: TableColumns) -> None:
        """DataError for a slice or tag of patients or cases: tags stand in every result."""
        shown = {**columns.tags, **{piece.name: column for column, piece in columns.slices}}
        for dimension, column in shown.items():
            if role := next((role for role, of_role in columns.links.items() if of_role == column), None):
                raise self._error(
                    f"'{dimension}' shows the column '{column}', which names the {role}: results would hold it. Leave "
                    f"it out of {self._door}"
                )

    @property
    def _door(self) -> str:
        return self._toml or "medvqa.table"

    def _advice(self, role: str) -> str:
        """The text to write for a column that has another name."""
        if self._toml:
            return f'write {role} = "COLUMN" into [columns] of {self._toml}'
        return f"write columns={{'{role}': 'COLUMN'}} in medvqa.table"

    def _missing(self, wanted: str, advice: str) -> DataError:
        names = ", ".join(self._header)[:500]
        if are_withheld() and not any(name.strip().lower() in _NAMES for name in self._header):
            # The first row may be one of questions.
            names = f"{len(self._header)}, none of a usual name: has the first row the names of the columns?"
        return self._error(f"no column '{clipped(wanted)}'; there are: {names}. {advice}")

    def _error(self, message: str) -> DataError:
        return DataError(f"{self._problems.file}: {message}")
