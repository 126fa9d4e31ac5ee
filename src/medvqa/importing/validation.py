"""The validation report of a table: its mistakes, its balance, duplicates, text alone, groups and power."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medvqa.importing import across, alike, balance, cases, pictures, power, textonly
from medvqa.importing.alike import Alike
from medvqa.importing.balance import Balance
from medvqa.importing.cases import TableCase
from medvqa.importing.mistakes import Mistake
from medvqa.importing.pictures import TablePictures
from medvqa.importing.power import Groups, Power
from medvqa.importing.roles import Guess, RoleColumns
from medvqa.importing.settings import FileSettings, guessed
from medvqa.importing.sheet import Sheet
from medvqa.importing.textonly import TextBaseline
from medvqa.items import DataError
from medvqa.tables import people
from medvqa.tables.progress import Progress


@dataclass(frozen=True, slots=True)
class Validation:
    """The report of one table. `name` and `unit` begin the lines of its mistakes; `private` names columns not read.

    `grouped_by`: the private column whose names tell patients apart, "" for none.
    """

    name: str
    unit: str
    questions: int
    columns: tuple[tuple[str, str], ...]
    settings: FileSettings
    mistakes: tuple[Mistake, ...] = ()
    balance: Balance = field(default_factory=Balance)
    pictures: TablePictures = field(default_factory=TablePictures)
    alike: Alike = field(default_factory=Alike)
    baselines: tuple[TextBaseline, ...] = ()
    groups: Groups | None = None
    power: Power | None = None
    private: tuple[str, ...] = ()
    grouped_by: str = ""
    holding_answer: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()

    @property
    def refused(self) -> int:
        """The number of mistakes that must be corrected."""
        return sum(mistake.refused for mistake in self.mistakes)


def validate(
    sheet: Sheet,
    guess: Guess,
    folder: Path,
    *,
    settings: FileSettings | None = None,
    progress: Progress | None = None,
    load: Callable[[], object] | None = None,
) -> Validation:
    """Return the report of a table whose columns have roles.

    `folder` holds the images, `settings` are those of the benchmark file (default: guessed). `progress` is called
    after each image. `load` reads the benchmark as a run would; its error is a mistake that the checks here did
    not find. It is called only if they found none that is refused.
    """
    columns = guess.columns
    chosen = guessed(sheet, columns, FileSettings()) if settings is None else settings
    listed, mistakes = cases.cases_of(sheet, columns, chosen)
    names = {role: _name(sheet, columns, role) for role in ("id", "question", "answer", "pair", "patient", "case")}
    names |= {"cluster": _name(sheet, columns, "cluster"), "image": _image_name(sheet, columns)}
    found, of_images = pictures.checked(listed, folder, names["image"], chosen, progress)
    sliced = across.slices(listed, [sheet.columns[place] for place in columns.slices])
    mistakes = [*sheet.mistakes, *mistakes, *of_images, *across.checked(listed, names), *sliced]
    mistakes += _named(sheet, columns, listed, names)
    if load is not None and not any(mistake.refused for mistake in mistakes):
        try:
            load()
        except DataError as error:
            mistakes.append(Mistake("refused", None, "", str(error), "correct it"))
    numbers = power.grouped(listed)
    groups = power.groups_of(listed, numbers)
    read = columns.read
    return Validation(
        name=sheet.name,
        unit=sheet.unit,
        questions=len(listed),
        columns=_roles(sheet, columns),
        settings=chosen,
        mistakes=tuple(mistakes),
        balance=balance.balance_of(listed),
        pictures=found,
        alike=alike.alike(listed),
        baselines=tuple(textonly.baselines(listed, numbers)),
        groups=groups,
        power=power.power_of(groups),
        private=tuple(sheet.shown(place) for place in columns.private),
        grouped_by=next((sheet.shown(p) for p in columns.private if p == columns.one.get("patient")), ""),
        holding_answer=tuple(sheet.shown(place) for place in guess.holding_answer),
        not_read=tuple(
            sheet.shown(place)
            for place, name in enumerate(sheet.columns)
            if name and place not in read and place not in columns.private and place not in guess.holding_answer
        ),
    )


def people_of(sheet: Sheet, columns: RoleColumns) -> people.Names:
    """Return the names of people in the private columns of a table and in that of its patients."""
    places = {*columns.private, *([columns.one["patient"]] if "patient" in columns.one else [])}
    return people.Names.of(text for place in places for cell in sheet.values(place) for text in people.texts_of(cell))


def _named(
    sheet: Sheet, columns: RoleColumns, listed: Sequence[TableCase], names: Mapping[str, str]
) -> Iterator[Mistake]:
    first = [next(iter(columns.options.values()), columns.one.get("options")), next(iter(columns.tags), None)]
    options, tags = ("" if place is None else sheet.columns[place] for place in first)
    return across.named(listed, names, people_of(sheet, columns), options, tags)


def _name(sheet: Sheet, columns: RoleColumns, role: str) -> str:
    return sheet.columns[columns.one[role]] if role in columns.one else ""


def _image_name(sheet: Sheet, columns: RoleColumns) -> str:
    return sheet.columns[columns.images[0]] if columns.images else ""


def _roles(sheet: Sheet, columns: RoleColumns) -> tuple[tuple[str, str], ...]:
    """The role of each column that is read, in the order of the table."""
    roles: dict[int, str] = {place: role for role, place in columns.one.items()}
    for role, places in (("image", columns.images), ("tag", columns.tags), ("slice", columns.slices)):
        for place in places:
            roles.setdefault(place, role)
    return tuple((sheet.shown(place), roles[place]) for place in sorted(roles) if place not in columns.private)
