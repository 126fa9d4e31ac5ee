"""Run a grid of settings, one run folder for each combination, in this process; runs use each other's answers.

Runs follow one another: `door.conduct` asks each one. A finished run is not asked again, and an unfinished one goes on,
so a sweep that was killed continues where it ended.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from medvqa import comparing, decode, files, report
from medvqa.commands.redrawing import compared_page
from medvqa.items import MedVQAError, UsageError
from medvqa.records import configuration, coverage, private, recall, run_folder, run_record
from medvqa.records.run_record import RUN
from medvqa.report import Report, comparison, grid, robustness
from medvqa.report.grid import GridRow, State
from medvqa.session import answer_sources, selecting
from medvqa.session.about import about
from medvqa.session.delivery import used
from medvqa.session.display import Display
from medvqa.session.door import conduct
from medvqa.session.options import OLD_NAMES, OPTIONS, SELECT, Option, Options, WrongValueError
from medvqa.session.plan import Plan
from medvqa.session.project import Project
from medvqa.session.resolving import resolve
from medvqa.session.run import INTERRUPTED
from medvqa.session.sharding import AUTO
from medvqa.tags.expressions import Expression

NAMED = {**OPTIONS, SELECT.name: SELECT}
"""Options of `medvqa run`."""
OWN = {
    "run": "a sweep names its runs after their settings",
    "fresh": "a sweep that goes on reuses its stored answers; give it another name",
    "max-cost": "write max-cost at the top of the file: it holds for all runs together",
}
"""Options that a sweep sets itself, and the reasons."""
NEUTRAL: Mapping[str, Any] = {"samples": 1, "shots": 0, "rotate": 0}
"""Values that mean the same as leaving the option out; so do "" and false, for every option."""
PLAIN = frozenset({"model", "benchmark", "technique", "prompt", "ablate", "perturb", "reasoning"})
"""Options whose value alone tells them in a run's name."""
SEVERITY = (0, 5, 11, 10, 1, 4, INTERRUPTED)
"""Exit codes of runs, the worst last."""
MAX_CELLS = 10_000
MAX_SUM = 1e12
_LONGEST = 119
"""Characters of a run's name."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """One combination: its settings in words, "" where an option is left out, and the options of its run."""

    run: str
    settings: Mapping[str, str]
    options: Mapping[str, Any]

    @property
    def command(self) -> str:
        """The command that does this run alone."""
        words = ["medvqa", "run"]
        for name, value in {**self.options, "run": self.run}.items():
            values = value if isinstance(value, list) else [value]
            words += [f"--{name}" if one is True else f"--{name}={_say(one)}" for one in values]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A grid: its cells in order, the base that gains are measured against, and the most that all runs may cost."""

    name: str
    settings: tuple[str, ...]
    cells: tuple[GridCell, ...]
    base: Mapping[str, str]
    max_cost: float | None = None

    def neighbours(self) -> Iterator[tuple[GridCell, GridCell, str]]:
        """Yield each cell with the cell that differs in one setting, which has the base's value; and that setting."""
        by_settings = {tuple(cell.settings.values()): cell for cell in self.cells}
        for cell in self.cells:
            for name in self.settings:
                if cell.settings[name] != self.base[name]:
                    other = by_settings.get(tuple({**cell.settings, name: self.base[name]}.values()))
                    if other is not None:
                        yield cell, other, name


class _SweepTables(msgspec.Struct, rename="kebab"):
    """The content of a file. Keys of its tables are options of `medvqa run`."""

    name: str = ""
    max_cost: float | None = None
    options: dict[str, Any] = {}
    grid: dict[str, Any] = {}
    base: dict[str, Any] = {}
    include: list[dict[str, Any]] = []
    exclude: list[dict[str, Any]] = []


@dataclass(frozen=True, slots=True)
class _GridFile:
    """A TOML file of a sweep, for messages with lines."""

    path: Path
    text: str

    def error(self, table: str, key: str, message: str, number: int = 0) -> UsageError:
        """Return the error about a key of a table; `number`: which of several tables of this name."""
        where = decode.at_line(self.text, (table, number, key) if table else (key,))
        name = f"[{table}] {key}" if table and key else f"[{table}]" if table else key
        return UsageError(f"{self.path}{where}: {name}: {message}")


def read(path: Path) -> Sweep:
    """Read the file of a sweep; UsageError names the file, the line and the key."""
    written = decode.read(path, str(path))
    content = decode.decode_bytes(written, _SweepTables, str(path))
    file = _GridFile(path, decode.text_of(written, str(path)))
    name = content.name or re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.")
    run_folder.check_name(name, f"{path}: name")
    if content.max_cost is not None and not 0 < content.max_cost <= MAX_SUM:
        raise file.error("", "max-cost", "a sum above 0 is expected")
    common = {key: value for key, value in _options(file, "options", content.options).items() if value is not None}
    grid = _grid(file, content.grid, common)
    included = [_options(file, "include", table, number) for number, table in enumerate(content.include)]
    excluded = [_options(file, "exclude", table, number) for number, table in enumerate(content.exclude)]
    settings = tuple(dict.fromkeys([*grid, *(name for cell in included for name in cell)]))
    if not settings:
        raise file.error("", "grid", 'no option has a list of values, such as model = ["phantom-vlm", "random"]')
    for number, cell in enumerate(included):
        for key in cell:
            if key in common:
                raise file.error("include", key, "it is in [options] already, for all runs", number)
    first = {name: grid[name][0] if name in grid else None for name in settings}
    base = {**first, **_options(file, "base", content.base)}
    for key, value in base.items():
        if key not in settings or (key in grid and value not in grid[key]):
            raise file.error("base", key, f"{_say(value) or 'the default'} is no value of the grid")
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    chosen = [{**dict.fromkeys(settings), **combination} for combination in combinations]
    for number, pattern in enumerate(excluded):
        matching = [cell for cell in chosen if all(cell.get(key) == value for key, value in pattern.items())]
        if not matching or not pattern:
            raise file.error("exclude", next(iter(pattern), ""), "no combination of the grid matches", number)
        chosen = [cell for cell in chosen if cell not in matching]
    for number, cell in enumerate(included):
        whole = {**base, **cell}
        if whole in chosen:
            raise file.error("include", next(iter(cell), ""), "this combination is in the grid already", number)
        chosen.append(whole)
    if not chosen:
        raise file.error("exclude", "", "no combination is left")
    return Sweep(
        name,
        settings,
        tuple(_cells(name, common, chosen)),
        {key: _say(value) for key, value in base.items()},
        content.max_cost,
    )


def conduct_all(
    sweep: Sweep,
    project: Project,
    display: Display,
    *,
    on_done: Callable[[int, GridRow, float], None] = lambda number, done, cost: None,
) -> list[GridRow]:
    """Ask each run in order, and return how each ended. A run that cannot be done leaves its reason.

    `on_done` gets the number of each
    ended run, and the cost of all so far. Ctrl-C and signals end the run that is asked; later ones stay not asked.
    """
    costs = {cell.run: _cost(project.reports, cell) for cell in sweep.cells}
    ended = list[GridRow]()
    interrupted = False
    for number, cell in enumerate(sweep.cells, 1):
        spent = sum(costs.values())
        if interrupted:
            why = "the sweep was interrupted"
            done = GridRow(cell.run, cell.settings, "not asked", INTERRUPTED, why, cost=costs[cell.run])
        else:
            display.say(f"[{number}/{len(sweep.cells)}] {cell.run}")
            done, interrupted = _conduct(sweep, cell, spent, project, display)
        costs[cell.run] = max(done.cost, costs[cell.run])
        ended.append(done)
        on_done(number, done, sum(costs.values()))
    return ended


def write(sweep: Sweep, rows: Sequence[GridRow], project: Project) -> list[str]:
    """Write the tables of a sweep and the page that compares the base with its neighbours; return lines about them.

    They lie in the folder of the sweep's name beside the runs (UsageError).
    """
    folder, by_name = project.reports / sweep.name, {row.run: row for row in rows}
    answered = {row.run for row in rows if row.report is not None}
    pairs = [(by_name[cell.run], by_name[other.run], name) for cell, other, name in sweep.neighbours()]
    sides = {name: comparing.load(project.reports / name) for name in sorted(answered)}
    registry = project.registry.with_runs(project.reports / name for name in sorted(answered))
    gains = grid.gains(pairs, sides, registry.benchmarks)
    about = sweep.name, sweep.settings, sweep.base, rows, gains
    robust = comparing.robustness(
        [sides[cell.run] for cell in sweep.cells if cell.run in answered], registry.benchmarks
    )
    sections = [*grid.sections(*about), *comparison.robust(robust)]
    with files.writing(str(folder)):
        private.make_private(folder)
        run_folder.write_json(folder / "sweep.json", {**grid.as_json(*about), **robustness.as_json(robust)})
        for name, text in (
            ("sweep.md", comparison.as_markdown(sections)),
            ("sweep.csv", grid.as_csv(sweep.settings, rows)),
            ("gains.csv", grid.gains_as_csv(gains)),
            *([("robustness.csv", robustness.as_csv(robust))] if robust else []),
        ):
            files.replace(folder / name, text.encode())
    lines = [comparison.text(sections)]
    base = next((cell.run for cell in sweep.cells if cell.settings == sweep.base), None)
    near = [cell.run for cell, other, _ in sweep.neighbours() if other.run == base and cell.run in answered]
    # Changed runs of another model stand beside the clean run of that model.
    near += [row.run for found in robust if found.clean in near for row in found.changes if row.run in answered]
    near = list(dict.fromkeys(near))
    if base in answered and near:
        runs = [project.reports / name for name in (base, *near)]
        # The notes name runs that are not comparable already.
        lines += compared_page(runs, folder / "index.html", registry)[-1:]
    return [*lines, f"sweep: {folder}"]


def check(sweep: Sweep, project: Project) -> dict[str, str]:
    """Return the reasons, by run, of cells whose options cannot be used; reads no data."""
    reasons = {}
    for cell in sweep.cells:
        try:
            resolve(_of_cell(project, cell)).check_model_named()
        except MedVQAError as error:
            reasons[cell.run] = str(error)
    return reasons


def exit_code(ended: Iterable[GridRow]) -> int:
    """The worst exit code of the runs."""
    return max((done.code for done in ended), key=SEVERITY.index, default=0)


def _conduct(
    sweep: Sweep,
    cell: GridCell,
    spent: float,
    project: Project,
    display: Display,
) -> tuple[GridRow, bool]:
    """Ask one run; return how it ended, and whether the sweep was interrupted."""
    select, max_cost = cell.options.get("select"), sweep.max_cost
    row = partial(GridRow, cell.run, cell.settings)
    try:
        project = _of_cell(project, cell)
        options, plan = project.options, resolve(project)
        if (stored := _finished(plan, cell.run, select)) is not None:
            code = 0 if stored.gate is None else stored.gate.verdict.exit_code
            return row("finished", code, "", stored, _cost(project.reports, cell)), False
        if max_cost is not None and _costs(plan):
            if spent >= max_cost:
                why = f"the runs have cost {spent:.4g}: max-cost = {max_cost:g} is reached"
                return row("not asked", INTERRUPTED, why, cost=_cost(project.reports, cell)), False
            options = replace(options, max_cost=max_cost - spent)
        # Cells often ask one model the same question.
        beside = [str(project.reports / other.run) for other in sweep.cells if other is not cell]
        options = replace(
            options, answers=(*options.answers, *filter(lambda run: answer_sources.is_run(Path(run)), beside))
        )
        end = conduct(replace(project, options=options), display, select=select)
    except KeyboardInterrupt:
        return row("not asked", INTERRUPTED, "interrupted before anything was asked"), True
    except MedVQAError as error:
        return row("failed", 4, str(error), cost=_cost(project.reports, cell)), False
    why = end.stopped or end.problem or ("" if end.questions or end.asked else "no question was selected")
    state: State = "finished" if end.report is not None and not (end.incomplete or why) else "unfinished"
    return row(state, end.exit_code, why, end.report, _cost(project.reports, cell)), end.interrupted


def _costs(plan: Plan) -> bool:
    """Whether a model of the run may cost something: it has prices, or is not on this machine."""
    models = [plan.model, *([] if plan.judge is None else [plan.judge.chosen])]
    return any(model.backend.priced or model.backend.sends_to is not None for model in models)


def _finished(plan: Plan, run: str, select: str | None) -> Report | None:
    """Return the report of a run that has a result for each selected question; None if it must be asked.

    MedVQAError for data that cannot be used.
    """
    folder = plan.project.reports / run
    if not (folder / RUN).is_file():
        return None
    before = run_record.read_run(folder)
    if configuration.why_not_continued(before, about(plan)) or plan.reads_anew(before):
        return None  # `conduct` names the differences.
    stored = run_folder.read(folder)
    answered = {result.key for result in stored.results if result.score.outcome != "error"}
    selected = selecting.select(plan, None if select is None else Expression.parse(select))
    wanted = {query.key for query in selected.queries}
    if not (wanted and wanted <= answered and coverage.coverage(folder, before, stored).finished):
        return None
    return report.build(folder, plan.registry.benchmarks, stored)


def _cost(reports: Path, cell: GridCell) -> float:
    """The price of all answers of a run, those of killed sessions included; 0 without prices."""
    folder = reports / cell.run
    if not (folder / RUN).is_file():
        return 0.0
    try:
        run = run_record.read_run(folder)
    except MedVQAError:
        return 0.0
    cost = run.usage.get("cost", 0.0) + run.judge_usage.get("cost", 0.0)
    killed = {session.session for session in run.sessions if session.killed and session.session}
    if not killed:
        return cost
    usage = Counter[str]()
    for _, stored in recall.asked(folder, killed):
        usage.update(used(stored))
    return cost + float(usage["cost"])


def _of_cell(project: Project, cell: GridCell) -> Project:
    """Return the project with the options of a cell (UsageError)."""
    if cell.options.get("shard") == AUTO:
        raise UsageError('shard = "auto": runs of a sweep are named after their settings; write shard = "I/N"')
    return replace(project, options=Options.of({**cell.options, "run": cell.run}, project.cwd))


# The file


def _options(file: _GridFile, table: str, values: Mapping[str, Any], number: int = 0) -> dict[str, Any]:
    """The options of a table, each with one value as argparse gives it; None if it means the default."""
    options = dict[str, Any]()
    for key, value in values.items():
        row = _row(file, table, key, number, options)
        options[row.name] = _value(file, table, key, row, value, number)
    return options


def _grid(file: _GridFile, table: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, list[Any]]:
    grid = dict[str, list[Any]]()
    for key, values in table.items():
        row = _row(file, "grid", key, 0, grid)
        if not isinstance(values, list):
            raise file.error("grid", key, "a list is expected; an option of all runs belongs to [options]")
        if not values:
            raise file.error("grid", key, "the list is empty")
        if row.name in common:
            raise file.error("grid", key, "it is in [options] already, for all runs")
        several = (one for value in values for one in _levels(row, value))
        grid[row.name] = [_value(file, "grid", key, row, value) for value in several]
        if len({repr(value) for value in grid[row.name]}) < len(grid[row.name]):
            raise file.error("grid", key, "a value is there twice")
    if (cells := prod(map(len, grid.values()))) > MAX_CELLS:
        raise file.error("grid", "", f"{cells:,} combinations; at most {MAX_CELLS:,}")
    return grid


def _levels(row: Option, value: Any) -> list[Any]:
    """The values that a value of the grid stands for: perturb = "gaussian_noise:1-5" is five."""
    levels = re.fullmatch(r"(.+:)([1-9])-([1-9])", value) if row.name == "perturb" and isinstance(value, str) else None
    if levels is None or levels[2] > levels[3]:
        return [value]
    return [f"{levels[1]}{k}" for k in range(int(levels[2]), int(levels[3]) + 1)]


def _row(file: _GridFile, table: str, key: str, number: int, taken: Container[str]) -> Option:
    """Return the row of an option that is not `taken` (UsageError)."""
    name = OLD_NAMES.get(key.replace("_", "-"), key.replace("_", "-"))
    if name not in NAMED:
        raise file.error(table, key, f"medvqa run has no such option{decode.did_you_mean(name, NAMED)}", number)
    if name in OWN:
        raise file.error(table, key, OWN[name], number)
    if name in taken:
        raise file.error(table, key, f"{name} is there twice", number)
    return NAMED[name]


def _value(file: _GridFile, table: str, key: str, row: Option, value: Any, number: int = 0) -> Any:
    """One value of an option, as argparse gives it; None if it means the default."""
    if value == "" or value is False or (row.name in NEUTRAL and value == NEUTRAL[row.name] and value is not True):
        return None
    if value == []:
        raise file.error(table, key, "the list is empty", number)
    try:
        return row.given(value)
    except WrongValueError as error:
        raise file.error(table, key, f"{error.expected.lower()} is expected, not {error.value!r:.60}", number) from None


def _say(value: Any) -> str:
    """A value in words; "" for the default."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ",".join(map(_say, value))
    return "yes" if value is True else f"{value:.15g}" if isinstance(value, float) else str(value)


def _cells(name: str, common: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]]) -> list[GridCell]:
    """The cells, each with the name of its run; names depend on nothing but the cell and the name of the sweep."""
    names = [_run_name(name, cell) for cell in chosen]
    several = Counter(names)
    cells = []
    for run, settings in zip(names, chosen, strict=True):
        words = {key: _say(value) for key, value in settings.items()}
        if several[run] > 1 or len(run) > _LONGEST:
            digest = hashlib.sha256(repr(sorted(words.items())).encode()).hexdigest()[:8]
            run = f"{run[: _LONGEST - 9]}-{digest}"
        options = {**common, **{key: value for key, value in settings.items() if value is not None}}
        cells.append(GridCell(run, words, options))
    return cells


def _run_name(name: str, settings: Mapping[str, Any]) -> str:
    parts = [name]
    for key, value in settings.items():
        if value is not None:
            shown = re.sub(r"[^A-Za-z0-9._+-]+", "-", _say(value).replace(",", "+")).strip("-.")
            parts.append(shown if key in PLAIN else key if value is True else f"{key}-{shown}")
    return "-".join(parts if len(parts) > 1 else [name, "default"])
