"""The table of a sweep: its cells with their measures, and the gains of one setting at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from medvqa import comparing, printing, statistics
from medvqa.comparing import Compared, Side
from medvqa.figures import INTERVAL, UNITS, Column, Figure, Kind, Table, csv, numbers, texts
from medvqa.items import Benchmark
from medvqa.report.build import Part, Report
from medvqa.report.comparison import NUMBERS, Section, numbers_of
from medvqa.report.notes import noted

SCHEMA = 1


State = Literal["finished", "unfinished", "failed", "not asked"]


@dataclass(frozen=True, slots=True)
class GridRow:
    """One cell of a sweep: its run, its settings in words ("" for a default), how it ended, and its report.

    `code`: its exit code. `why`: the reason of a failure or an early end. `cost`: the price of all answers of the run
    so far.
    """

    run: str
    settings: Mapping[str, str]
    state: State
    code: int
    why: str = ""
    report: Report | None = None
    cost: float = 0.0

    @property
    def questions(self) -> int:
        """The number of results."""
        return 0 if self.report is None else sum(len(part.results) for part in self.report.parts)


@dataclass(frozen=True, slots=True)
class Gain:
    """One measure of a cell against the cell that differs in one setting, which has the base's value.

    If the effect of the setting is a gain, `run` is the cell that has it. `effect` names the setting with both values.
    `compared` is None if the two runs are not comparable; `why` says why.
    """

    run: str
    baseline: str
    setting: str
    effect: str
    compared: Compared | None
    why: str = ""


def gains(
    pairs: Sequence[tuple[GridRow, GridRow, str]], sides: Mapping[str, Side], benchmarks: Mapping[str, Benchmark]
) -> list[Gain]:
    """Compare each row with its neighbour in one setting, on the headline measures; `sides`: the runs by name.

    p-values are adjusted by Holm over all measures of all rows.
    """
    found = []
    for row, other, setting in pairs:
        if row.run not in sides or other.run not in sides:
            continue
        new, baseline = sides[row.run], sides[other.run]
        contrast = comparing.contrast(new, baseline)
        named = f"{setting} {row.settings[setting] or 'default'} instead of {other.settings[setting] or 'default'}"
        if contrast.refusals:
            found.append(Gain(row.run, other.run, setting, named, None, "; ".join(contrast.refusals)))
            continue
        if contrast.difference is not None and contrast.difference.reverse:
            row, other, new, baseline = other, row, baseline, new
        paired = comparing.compare(new, baseline, benchmarks)
        effect = named if paired.difference is None else paired.difference.effect
        found += [
            Gain(row.run, other.run, setting, effect, table)
            for table in paired.tables
            if table.headline and not table.slice
        ]
    return _adjusted(found)


def _adjusted(found: Sequence[Gain]) -> list[Gain]:
    family = [gain.compared.p for gain in found if gain.compared is not None and gain.compared.p is not None]
    adjusted = iter(statistics.holm(family).tolist())
    return [
        replace(gain, compared=replace(gain.compared, adjusted=next(adjusted)))
        if gain.compared is not None and gain.compared.p is not None
        else gain
        for gain in found
    ]


def sections(
    name: str, settings: Sequence[str], base: Mapping[str, str], rows: Sequence[GridRow], gains: Sequence[Gain]
) -> list[Section]:
    """Return the tables of a sweep: its runs, the measures of each benchmark and technique, and the gains."""
    ended = sum(row.state == "finished" for row in rows)
    shown = ", ".join(f"{key}={base[key] or 'default'}" for key in settings)
    notes = [f"{row.run}: {row.state}: {row.why}" for row in rows if row.why]
    tables = [_runs(settings, rows), *_measured(rows)]
    if gains:
        tables.append(_gains(gains))
    notes += _warnings(rows)
    notes += [f"{gain.run} is not compared with {gain.baseline}: {gain.why}" for gain in gains if gain.why]
    title = f"{name}: {ended} of {len(rows)} runs finished" + (f"; base: {shown}" if shown else "")
    return [Section(title, tuple(notes), tuple(tables))]


def _warnings(rows: Sequence[GridRow]) -> list[str]:
    """Return the warnings of the runs, each once with its runs: a gain may be one of unreadable answers alone."""
    runs_of: dict[str, list[str]] = {}
    for row in rows:
        if row.report is not None:
            for note in noted(row.report):
                if note.warns and not note.selects:
                    runs_of.setdefault(note.text, []).append(row.run)
    return [f"{printing.some(runs, 5)}: {text}" for text, runs in runs_of.items()]


def _words(settings: Sequence[str], row: GridRow) -> tuple[str, ...]:
    return tuple(row.settings[name] or "–" for name in settings)


def _runs(settings: Sequence[str], rows: Sequence[GridRow]) -> Table:
    lines = [
        (row.run, *_words(settings, row), row.state, row.questions, f"{row.cost:.4g}" if row.cost else "–")
        for row in rows
    ]
    return Table("runs", (*texts("run", *settings, "state"), *numbers("answers", "cost")), tuple(lines))


def _parts(rows: Sequence[GridRow]) -> dict[tuple[str, str], list[tuple[GridRow, Part]]]:
    parts: dict[tuple[str, str], list[tuple[GridRow, Part]]] = {}
    for row in rows:
        for part in row.report.parts if row.report is not None else ():
            parts.setdefault((part.benchmark.name, part.technique), []).append((row, part))
    return parts


def _measured(rows: Sequence[GridRow]) -> list[Table]:
    """A table for each benchmark and technique: the headline measures of each run, with intervals."""
    tables = []
    for (benchmark, technique), parts in _parts(rows).items():
        percents = {measure.name: measure.percent for _, part in parts for measure in part.headline}
        names = list(percents)
        lines = []
        for row, part in parts:
            measures = {measure.name: measure for measure in part.headline}
            own = (measures[name].figure if name in measures else Figure(None) for name in names)
            lines.append((row.run, *(figure for figure in own for _ in range(2))))
        columns = [Column("run")]
        for name in names:
            columns += [Column(_titled(name, percents[name]), "figure"), INTERVAL]
        tables.append(Table(f"{benchmark}, {technique}", tuple(columns), tuple(lines)))
    return tables


def _titled(name: str, is_percent: bool) -> str:
    return f"{name}, %" if is_percent else name


def _gains(gains: Sequence[Gain]) -> Table:
    lines = []
    percents = all(gain.compared.percent for gain in gains if gain.compared is not None)
    for gain in gains:
        if (compared := gain.compared) is not None:
            before, after, difference = compared.figures
            part = f"{compared.benchmark}, {compared.technique}"
            found = (compared.metric, before, after, *(difference,) * 3, compared.adjusted)
            lines.append((gain.effect, gain.run, gain.baseline, part, *found))
    kind: Kind = "figure" if percents else "stated"
    columns = (
        *texts("effect", "new", "baseline", "benchmark", "measure"),
        *(Column(_titled(name, percents), kind) for name in ("baseline", "new")),
        *(Column("difference", "figure"), INTERVAL, UNITS),
        Column("adjusted p", "chance"),
    )
    title = "gains of one setting: new minus baseline in points; intervals and p two-sided; p by Holm over this table"
    return Table(title, columns, tuple(lines))


def as_json(
    name: str, settings: Sequence[str], base: Mapping[str, str], rows: Sequence[GridRow], gains: Sequence[Gain]
) -> dict[str, Any]:
    """A sweep as a value for `run_folder.write_json`; values are fractions."""
    return {
        "schema": SCHEMA,
        "name": name,
        "settings": list(settings),
        "base": dict(base),
        "runs": [
            {
                **_plain(row),
                "measures": [
                    {**asdict(measure), "benchmark": part.benchmark.name, "technique": part.technique}
                    for part in (row.report.parts if row.report is not None else ())
                    for measure in part.headline
                ],
            }
            for row in rows
        ],
        "gains": [
            {
                "new_run": gain.run,
                "baseline_run": gain.baseline,
                "setting": gain.setting,
                "effect": gain.effect,
                **({"why": gain.why} if gain.compared is None else _numbers(gain.compared)),
            }
            for gain in gains
        ],
    }


def _plain(row: GridRow) -> dict[str, Any]:
    return {
        "run": row.run,
        "settings": dict(row.settings),
        "state": row.state,
        "why": row.why,
        "exit_code": row.code,
        "answers": row.questions,
        "cost": row.cost,
    }


def _numbers(compared: Compared) -> dict[str, Any]:
    about = {"benchmark": compared.benchmark, "technique": compared.technique, "measure": compared.metric}
    return {**about, **numbers_of(compared)}


def as_csv(settings: Sequence[str], rows: Sequence[GridRow]) -> str:
    """One row for each headline measure of each run, and one for a run without; fractions."""
    columns = ("run", *settings, "state", "why", "answers", "cost")
    lines: list[tuple[Any, ...]] = []
    for row in rows:
        about = (row.run, *(row.settings[key] for key in settings), row.state, row.why, row.questions, row.cost)
        measures: list[tuple[Any, ...]] = [
            (part.benchmark.name, part.technique, m.name, m.value, m.low, m.high, m.n)
            for part in (row.report.parts if row.report is not None else ())
            for m in part.headline
        ]
        lines += [(*about, *measure) for measure in measures or [(None,) * 7]]
    return csv((*columns, "benchmark", "technique", "measure", "value", "low", "high", "n"), lines)


def gains_as_csv(gains: Sequence[Gain]) -> str:
    """One row for each measure of each gain; fractions."""
    columns = ("effect", "setting", "new_run", "baseline_run", "benchmark", "technique", "measure", *NUMBERS)
    lines = [
        (gain.effect, gain.setting, gain.run, gain.baseline, *_numbers(gain.compared).values())
        for gain in gains
        if gain.compared is not None
    ]
    return csv(columns, lines)
