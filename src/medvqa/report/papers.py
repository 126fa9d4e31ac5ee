"""The row of a run in the main table of its benchmark's paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medvqa.data.published import CHECKED, PaperTable, PublishedFigure, Row, figures
from medvqa.items import UsageError
from medvqa.protocols.ablation import LABELS
from medvqa.protocols.protocol import Protocol
from medvqa.report import tables
from medvqa.report.build import Part, Report
from medvqa.report.notes import RECOVERED, less_than_released
from medvqa.report.tables import TextTable

SLIP, OTHER = "†", "*"
"""Marks of a published row with a known slip, and of a figure from the other split of the data."""
PAPER_GAP = "3"
"""The lead in closeness that an option needs in the paper of MediConfusion, as signatures write it."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """The row of a model: its name, its figures by column, and the benchmark that stands in for the paper's, or ""."""

    name: str
    figures: tuple[PublishedFigure | None, ...]
    stands_in: str = ""
    ablation: str = ""


def row_of(table: PaperTable, reports: Sequence[Report]) -> PaperRow:
    """Return the row that recorded runs give; the first run that has a figure counts.

    A run of the paper's benchmarks is preferred; else the one benchmark of the runs stands in for them, such as
    phantom-mediconfusion. UsageError for runs of several models or ablations, and if no figure is there.
    """
    named = {str((report.run.get("model") or {}).get("name", "")): report for report in reports}
    recorded = all((report.run.get("config") or {}).get("backend") == "replay" for report in reports)
    if len(named) > 1 and not recorded:
        raise UsageError(f"a row is of one model, and these runs are of several: {', '.join(sorted(named))}")
    ablations = {str(report.run.get("ablation") or "") for report in reports}
    if len(ablations) > 1:
        raise UsageError("a row is of one ablation, and these runs have several: name runs of the same --ablate")
    measures = [measure for report in reports for part in report.parts for measure in part.measures]
    present = sorted({measure.benchmark for measure in measures})
    needed = set(table.benchmarks.values())
    stands_in = "" if needed & set(present) or len(present) != 1 else present[0]
    own = figures(table, measures, stands_in)
    if not any(own):
        runs = ", ".join(report.folder.name for report in reports)
        raise UsageError(
            f"{runs} has no figure of the table: it has measures of {', '.join(present) or 'nothing'}, and the table "
            f"needs {', '.join(sorted(needed))}"
        )
    return PaperRow(", ".join(sorted(named)), tuple(own), stands_in, ablations.pop())


def beside(table: PaperTable, row: PaperRow) -> TextTable:
    """The published rows of the row's ablation in percent, and the row below them."""
    rows = [
        (f"{of.shown} {SLIP}" if of.slip else of.shown, *(_published(value) for value in of.values))
        for of in _rows(table, row)
    ]
    rows.append((f"> {row.name}", *(_shown(figure) for figure in row.figures)))
    columns = ("percent", *(column.title for column in table.columns))
    return TextTable(table.title, columns, tuple(rows), frozenset(range(1, len(columns))))


def own(table: PaperTable, row: PaperRow) -> TextTable:
    """The figures of the row with intervals and numbers of units."""
    rows = [
        (column.title, figure.measure.name, _shown(figure), tables.interval(figure.measure), _counted(figure))
        for column, figure in zip(table.columns, row.figures, strict=True)
        if figure is not None and figure.measure is not None
    ]
    return TextTable("", ("column", "measure", "%", "95 % interval", "n"), tuple(rows), frozenset({2, 3, 4}))


def notes(table: PaperTable, row: PaperRow, reports: Sequence[Report]) -> list[str]:
    """Sentences about the published rows, and about differences of the runs."""
    lines = [f"published figures: {table.source}. {table.note}".rstrip()]
    lines += [f"{how}: {CHECKED[how]}" for how in dict.fromkeys(of.checked for of in _rows(table, row)) if how]
    lines += [f"{SLIP} {of.name}: {of.slip}" for of in _rows(table, row) if of.slip]
    if row.stands_in:
        lines.append(f"the questions are those of {row.stands_in}: compare no figure with the published ones")
    if any(figure is not None and figure.other for figure in row.figures) and not row.stands_in:
        lines.append(f"{OTHER} from the validation questions; the paper's column is of the test questions")
    blank = [column.title for column, of in zip(table.columns, row.figures, strict=True) if column.measure and not of]
    if blank:
        lines.append(f"no figure for {', '.join(blank)}")
    if closed := [column.title for column in table.columns if not (column.measure or column.best)]:
        means = any(column.mean for column in table.columns)
        why = "no weighting of the questions gives the paper's" if means else "no measure gives"
        lines.append(f"{why} {', '.join(closed)}; the row of a run is empty there")
    for report in reports:
        name = report.folder.name
        lines += [f"{name} is {line}" if line.startswith("unfinished") else line for line in report.covered.lines]
        lines += [f"{name}: {line}" for line in less_than_released(report)]
        lines += [f"{name}: {line}" for part in report.parts for line in _of_part(report, part)]
        if other := Protocol.of(report.run).signature():
            asked = ", ".join(f"{setting}={value}" for setting, value in other.items())
            lines.append(f"{name} was asked by another protocol than the paper's models: {asked}")
        abouts = [report.run.get("benchmarks", {}).get(part.benchmark.name, {}) for part in report.parts]
        if prompts := [prompt for about in abouts for prompt in about.get("asked_by", ())]:
            named = ", ".join(dict.fromkeys(prompts))
            lines.append(f"{name} was asked by {named} instead of the benchmark's own prompt")
        gaps = {about.get("signature", {}).get("ff_gap", PAPER_GAP) for about in abouts}
        lines += [
            f"{name}: free answers count from a lead of {gap} points (--ff-gap); the paper's is {PAPER_GAP}"
            for gap in sorted(gaps - {PAPER_GAP})
        ]
        if report.run.get("extraction", "sound") != table.extraction:
            rule = "the rule of this table" if table.extraction == "sound" else "the owners' rule"
            lines.append(f"{name}: answers were read by {report.extraction}; {rule} is --extraction={table.extraction}")
    if row.ablation:
        lines.append(f"asked with {LABELS.get(row.ablation, row.ablation)}")
    return list(dict.fromkeys(lines))


def _of_part(report: Report, part: Part) -> Iterator[str]:
    """Yield what makes the figures of a part differ from those of a whole run with the owners' key."""
    if report.run.get("benchmarks", {}).get(part.benchmark.name, {}).get("answers") == "category":
        yield f"the answer key of {part.benchmark.name} was {RECOVERED}"
    if part.results and (selected := report.selected(part)):
        yield f"selected {selected} of {part.name}"
    for outcome, ended in (("unscored", "are unscored"), ("error", "ended in error, without a score")):
        if number := sum(result.score.outcome == outcome for result in part.results):
            yield f"{number} of {len(part.results)} answers to {part.name} {ended}"


def _rows(table: PaperTable, row: PaperRow) -> list[Row]:
    """The published rows of the row's ablation; all others if the paper has none of it."""
    return [of for of in table.rows if of.ablation == row.ablation] or [of for of in table.rows if not of.ablation]


def _published(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _shown(figure: PublishedFigure | None) -> str:
    if figure is None:
        return "–"
    shown = tables.percent(figure.value) if figure.measure is None else tables.value(figure.measure)
    return shown + (OTHER if figure.other else "")


def _counted(figure: PublishedFigure) -> str:
    return "" if figure.measure is None else tables.counted(figure.measure)
