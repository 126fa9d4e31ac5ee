"""The validation report of a table: its mistakes, its balance, duplicates, text alone, groups and power."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from medvqa.benchmarks import own
from medvqa.benchmarks.table import Source
from medvqa.benchmarks.table_declaration import LETTERS, ROLES, TableDeclaration
from medvqa.importing import balance, cell_warnings, pictures, power, similar_questions, table_warnings, textonly
from medvqa.importing.balance import Balance
from medvqa.importing.pictures import TablePictures
from medvqa.importing.power import Groups, Power
from medvqa.importing.roles import Guess, RoleColumns
from medvqa.importing.sheet import Sheet
from medvqa.importing.similar_questions import SimilarQuestions
from medvqa.importing.textonly import TextBaseline
from medvqa.items import DataError, Item
from medvqa.printing import clipped
from medvqa.tables import people
from medvqa.tables.problems import TableProblem
from medvqa.tables.progress import Progress
from medvqa.tags import lexicon


@dataclass(frozen=True, slots=True)
class Validation:
    """The report of one table. `name` and `unit` begin the lines of its problems; `private` names columns not read.

    `grouped_by`: the private column whose names tell patients apart, "" for none.
    """

    name: str
    unit: str
    questions: int
    columns: tuple[tuple[str, str], ...]
    settings: TableDeclaration
    problems: tuple[TableProblem, ...] = ()
    balance: Balance = field(default_factory=Balance)
    pictures: TablePictures = field(default_factory=TablePictures)
    alike: SimilarQuestions = field(default_factory=SimilarQuestions)
    baselines: tuple[TextBaseline, ...] = ()
    groups: Groups | None = None
    power: Power | None = None
    private: tuple[str, ...] = ()
    grouped_by: str = ""
    holding_answer: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()

    @property
    def refused(self) -> int:
        """The number of problems that must be corrected."""
        return sum(problem.refused for problem in self.problems)


def validate(
    sheet: Sheet,
    guess: Guess,
    source: Source,
    *,
    progress: Progress | None = None,
    load: Callable[[], object] | None = None,
) -> Validation:
    """Return the report of a table whose columns have roles.

    `source` is the table as the benchmark file declares it. `progress` is called after each image. `load` reads the
    benchmark as a run would; its error is a problem that the checks here did not find. It is called only if they
    found none that is refused.
    """
    columns, declaration, problems = guess.columns, source.declaration, sheet.problems
    try:
        cases = source.questions(sheet.rows, problems)
    except DataError as error:
        cases = []
        problems.add(TableProblem("refused", None, "", str(error).removeprefix(f"{source.shown}: "), ""))
    roles = _roles(sheet, columns)
    for row in sheet.rows:
        for column, role in roles.items():
            for problem in cell_warnings.warnings(row, column, "option" if role in LETTERS else role):
                problems.add(problem)
    names = dict.fromkeys(ROLES, "") | {role: column for column, role in reversed(roles.items())}
    images = [sheet.columns[place] for place in columns.images]
    found, of_images = pictures.checked(cases, source.folder, names["image"], progress)
    slices = {piece.name: piece.column for piece in declaration.pieces}
    options, tags = names.get("A") or names["options"], names.get("tag", "")
    for problem in (
        *of_images,
        *table_warnings.checked(cases, names, images),
        *table_warnings.slices(cases, slices),
        *table_warnings.named(cases, names, people_of(sheet, columns), options, tags),
    ):
        problems.add(problem)
    if load is not None and not any(problem.refused for problem in problems.found):
        try:
            load()
        except DataError as error:
            problems.add(TableProblem("refused", None, "", str(error), "correct it"))
    items = [_sided(case.item, declaration.all_words) for case in cases]
    numbers = power.grouped(cases)
    groups = power.groups_of(cases, numbers)
    unread = {*columns.read, *columns.private, *guess.holding_answer}
    return Validation(
        name=sheet.name,
        unit=sheet.unit,
        questions=len(cases),
        columns=tuple((clipped(column), role) for column, role in roles.items()),
        settings=declaration,
        problems=tuple(problems.found),
        balance=balance.balance_of(items, {lexicon.slug(tag): tag for tag in declaration.tags} | slices),
        pictures=found,
        alike=similar_questions.similar(cases),
        baselines=tuple(textonly.baselines(items, numbers)),
        groups=groups,
        power=power.power_of(groups),
        private=tuple(sheet.shown(place) for place in columns.private),
        grouped_by=next((sheet.shown(p) for p in columns.private if p == columns.one.get("patient")), ""),
        holding_answer=tuple(sheet.shown(place) for place in guess.holding_answer),
        not_read=tuple(sheet.shown(place) for place, name in enumerate(sheet.columns) if name and place not in unread),
    )


def _sided(item: Item, words: Mapping[str, tuple[str, ...]]) -> Item:
    """A judgment with yes or no as its answers."""
    if item.kind != "judgment":
        return item
    return replace(item, answers=tuple(dict.fromkeys(filter(None, (own.side(text, words) for text in item.answers)))))


def people_of(sheet: Sheet, columns: RoleColumns) -> people.Names:
    """Return the names of people in the private columns of a table and in that of its patients."""
    places = {*columns.private, *([columns.one["patient"]] if "patient" in columns.one else [])}
    return people.Names.of(text for place in places for cell in sheet.values(place) for text in people.texts_of(cell))


def _roles(sheet: Sheet, columns: RoleColumns) -> dict[str, str]:
    """The role of each column that is read, in the order of the table."""
    roles: dict[int, str] = {place: role for role, place in columns.one.items()}
    for role, places in (("image", columns.images), ("tag", columns.tags), ("slice", columns.slices)):
        for place in places:
            roles.setdefault(place, role)
    return {sheet.columns[place]: roles[place] for place in sorted(roles) if place not in columns.private}
