"""The row of a run in a table of its benchmark's paper."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa import printing
from medvqa.benchmarks import published as published_rows
from medvqa.benchmarks.published import PublishedFigure, figures
from medvqa.decode import did_you_mean
from medvqa.figures import DASH, INTERVAL, UNITS, Figure, Table, numbers, texts
from medvqa.items import Benchmark, UsageError
from medvqa.paper_tables import CHECKED, PaperTable, Row
from medvqa.protocols.ablation import LABELS
from medvqa.records.run_record import RecordedBenchmark, RecordedJudge
from medvqa.report.build import Part, Report
from medvqa.report.notes import RECOVERED, SOME, less_than_released
from medvqa.report.reader_tables import of_groups
from medvqa.report.side_by_side import OTHER, SideBySide, SideRow, as_table, figure_of, groups_of, joined, names_of

SLIP = "†"
"""Mark of a published row with a known slip."""
_OTHER_SPLIT = f"{OTHER} from the validation questions; the paper's column is of the test questions"
PAPER_GAP = "3"
"""The lead in closeness that an option needs in the paper of MediConfusion, as signatures write it."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """The row of a model: its name, its figures by column, and the benchmark that stands in for the paper's, or ""."""

    name: str
    figures: tuple[PublishedFigure | None, ...]
    stands_in: str = ""
    ablation: str = ""


def named(paper: str, number: str, known: Iterable[Benchmark]) -> PaperTable:
    """Return a table of a data set's paper, the main one for "" (UsageError)."""
    tables = published_rows.tables(known)
    if paper not in tables:
        wanted = did_you_mean(paper, list(tables), "there are those of")
        raise UsageError(f"no published rows of '{paper}'{wanted}")
    return tables[paper].numbered(number)


def check_measured(table: PaperTable, option: str) -> None:
    """Raise UsageError, which names the `option`, if no measure of a run gives a column of the table."""
    if not table.measured:
        raise UsageError(f"{option}: no measure gives it; medvqa help papers names the script that prints it")


def _of_benchmarks(present: Set[str], known: Collection[Benchmark]) -> list[str]:
    """Return the papers of the benchmarks that are present, by the names that `medvqa paper` takes."""
    tables = published_rows.tables(known)
    return [name for name, table in tables.items() if not present.isdisjoint(table.benchmarks.values())]


def layouts(present: Set[str], known: Collection[Benchmark]) -> str:
    """Return what to type for the layouts of the papers of the benchmarks that are present, or else of some others."""
    names = _of_benchmarks(present, known) or list(published_rows.tables(known))[:3]
    return " or ".join(f"--layout={name}" for name in names)


def layout(typed: str, present: Set[str], known: Collection[Benchmark]) -> PaperTable | None:
    """Return the paper's table whose columns a table of runs has; None for one measure by its slices (UsageError).

    `typed`: "slices", "paper" for that of the benchmarks that are `present`, a name as for `medvqa paper`, or one of
    these with the number of a table, such as paper:3. "": the paper's main table, if it has a number.
    """
    name, _, number = typed.partition(":")
    own = _of_benchmarks(present, known)
    if typed == "slices" or (not typed and len(own) != 1):
        return None
    if name in ("", "paper") and len(own) != 1:
        there = f"these runs have those of {', '.join(own)}" if own else "the benchmarks of these runs have none"
        raise UsageError(f"--layout={typed}: name one paper by --layout=PAPER; {there}")
    table = named(own[0] if name in ("", "paper") else name, number, known)
    check_measured(table, f"--layout={typed}")
    return table if typed or table.number else None


def row_of(table: PaperTable, reports: Sequence[Report]) -> PaperRow:
    """Return the row that recorded runs give.

    A run of the paper's benchmarks is preferred; else the one benchmark of the runs stands in for them, such as
    phantom-mediconfusion. UsageError for runs of several models or ablations, for two runs of one benchmark and
    technique, and if no figure is there.
    """
    named = {report.run.model.name: report for report in reports}
    recorded = all(report.run.replays for report in reports)
    if len(named) > 1 and not recorded:
        raise UsageError(f"a row is of one model, and these runs are of several: {', '.join(sorted(named))}")
    ablations = {report.run.ablation or "" for report in reports}
    if len(ablations) > 1:
        raise UsageError("a row is of one ablation, and these runs have several: name runs of the same --ablate")
    _check_once(reports)
    measures = [measure for report in reports for part in report.parts for measure in part.measures]
    present = sorted({measure.benchmark for measure in measures})
    needed = set(table.benchmarks.values())
    names = {column.measure for column in table.columns if column.measure}
    stands_in = "" if needed & set(present) or len(present) != 1 else present[0]
    own = figures(table, measures, stands_in)
    if not any(own):
        runs = ", ".join(report.folder.name for report in reports)
        wanted = f"{', '.join(sorted(names))} of {', '.join(sorted(needed))}"
        if needed & set(present):
            raise UsageError(f"{runs} has no figure of the table, which needs a value of {wanted}")
        raise UsageError(
            f"{runs} has no figure of the table: it has measures of {', '.join(present) or 'nothing'}, and the table "
            f"needs {wanted}"
        )
    return PaperRow(", ".join(sorted(named)), tuple(own), stands_in, ablations.pop())


def _check_once(reports: Sequence[Report]) -> None:
    """Raise UsageError for two runs that both answered a benchmark by a technique: the order typed must not choose."""
    places: dict[tuple[str, str], Path] = {}
    for report in reports:
        for benchmark, technique in dict.fromkeys((part.benchmark.name, part.technique) for part in report.parts):
            other = places.setdefault((benchmark, technique), report.folder)
            if other != report.folder:
                raise UsageError(
                    f"{other} and {report.folder} both answer {benchmark} by {technique}, and a row has one figure of "
                    "it: name one of them"
                )


def beside(table: PaperTable, row: PaperRow | None) -> Table:
    """The published rows of the row's ablation, in percent or as counts, and the row below them, if any."""
    rows = _published(table, _rows(table, row))
    if row is not None:
        rows.append(_side_row(f"> {row.name}", row))
    shown = as_table(
        SideBySide(table.title, table.columns, tuple(rows)), heading="counts" if _counts(table) else "percent"
    )
    return replace(shown, title=table.title)


def side_by_side(
    table: PaperTable,
    reports: Mapping[Path, Report],
    *,
    groups: Sequence[str] = (),
    gap: bool = False,
    published: bool = False,
) -> tuple[SideBySide, list[str]]:
    """Tabulate runs by the columns of a paper's table, with sentences about them.

    `groups` and `gap` as for `side_by_side.of_reports`. `published`: the paper's rows stand above the runs. Columns
    without a value are left out. UsageError for a run without a figure of the table, and for published rows with gaps.
    """
    if published and gap:
        raise UsageError("--published: the paper's rows have no level of chance to take off; leave out --gap")
    rows = [row_of(table, [report]) for report in reports.values()]
    runs = [
        replace(_side_row(name, row), run=i) for i, (name, row) in enumerate(zip(names_of(reports), rows, strict=True))
    ]
    shown = [
        row
        for run, report in zip(runs, reports.values(), strict=True)
        for row in (run, *_of_readers(table, run.name, report))
    ]
    named = {key: [run.name] for folder, run in zip(reports, runs, strict=True) for key in (str(folder), run.name)}
    stand_ins = sorted({row.stands_in for row in rows if row.stands_in})
    title = f"{', '.join(stand_ins)} as {table.title}" if stand_ins else table.title
    found = joined(title, table.columns, shown, groups_of(groups, named), gap=gap)
    lines = [_OTHER_SPLIT] if any(run.other for run in runs) else []
    if published:
        papers = [of for of in table.rows if of.ablation in {row.ablation for row in rows}]
        above = [replace(of, source=table.source) for of in _published(table, papers)]
        found = replace(found, rows=(*above, *found.rows))
        own = zip(rows, reports.values(), strict=True)
        lines = list(dict.fromkeys(line for row, report in own for line in notes(table, row, [report])))
    kept = [i for i in range(len(found.columns)) if any(row.figures[i].value is not None for row in found.rows)]
    columns = tuple(found.columns[i] for i in kept)
    return replace(found, columns=columns, rows=tuple(row.at(kept) for row in found.rows)), lines


def _of_readers(table: PaperTable, name: str, report: Report) -> list[SideRow]:
    """The rows of groups of readers in a run of people."""
    return [_side_row(f"{name}: {group}", row_of(table, [own])) for group, own in of_groups(report).items()]


def _published(table: PaperTable, rows: Sequence[Row]) -> list[SideRow]:
    def figure(value: float | None) -> Figure:
        if _counts(table):
            return Figure(value, percent=False, digits=0)
        return Figure(None if value is None else value / 100)

    return [SideRow(f"{of.shown} {SLIP}" if of.slip else of.shown, tuple(map(figure, of.values))) for of in rows]


def _counts(table: PaperTable) -> bool:
    """Whether the published figures are counts."""
    return not table.measured and all(value == round(value or 0) for of in table.rows for value in of.values)


def _side_row(name: str, row: PaperRow) -> SideRow:
    figures = tuple(Figure(None) if each is None else figure_of(each.measure) for each in row.figures)
    other = frozenset(place for place, each in enumerate(row.figures) if each is not None and each.other)
    return SideRow(name, figures, other=other)


def own(table: PaperTable, row: PaperRow) -> Table:
    """The figures of the row with intervals and numbers of units."""
    rows = [
        (column.title, figure.measure.name, _shown(figure), *(figure.measure.figure,) * 2)
        for column, figure in zip(table.columns, row.figures, strict=True)
        if figure is not None
    ]
    columns = (*texts("column", "measure"), *numbers("%"), INTERVAL, UNITS)
    return Table("", columns, tuple(rows))


def sources(table: PaperTable, row: PaperRow | None) -> list[str]:
    """Sentences about the published rows."""
    lines = [f"published figures: {table.source}. {table.note}".rstrip()]
    lines += [f"{how}: {CHECKED[how]}" for how in dict.fromkeys(of.checked for of in _rows(table, row)) if how]
    return lines + [f"{SLIP} {of.name}: {of.slip}" for of in _rows(table, row) if of.slip]


def notes(table: PaperTable, row: PaperRow, reports: Sequence[Report]) -> list[str]:
    """Sentences about the published rows, and about differences of the runs."""
    lines = sources(table, row)
    if row.stands_in:
        lines.append(f"the questions are those of {row.stands_in}: compare no figure with the published ones")
    if any(figure is not None and figure.other for figure in row.figures) and not row.stands_in:
        lines.append(_OTHER_SPLIT)
    blank = [column.title for column, of in zip(table.columns, row.figures, strict=True) if column.measure and not of]
    if blank:
        lines.append(f"no figure for {', '.join(blank)}")
    if closed := [column.title for column in table.columns if not column.measure]:
        means = any(column.mean for column in table.columns)
        why = "no weighting of the questions gives the paper's" if means else "no measure gives"
        lines.append(f"{why} {', '.join(closed)}; the row of a run is empty there")
    lines += [line for report in reports for line in _of_run(table, report)]
    used = {figure.measure.benchmark for figure in row.figures if figure is not None}
    asked = {part.benchmark.name for report in reports for part in report.parts} & set(table.benchmarks.values())
    lines += [
        f"no column is of {name}: medvqa table --benchmark={name} has its figures" for name in sorted(asked - used)
    ]
    if row.ablation:
        lines.append(f"asked with {LABELS.get(row.ablation, row.ablation)}")
    return list(dict.fromkeys(lines))


def _of_run(table: PaperTable, report: Report) -> Iterator[str]:
    """Yield how a run was asked, read and judged, and what it lacks."""
    name = report.folder.name
    for line in report.covered.lines:
        yield f"{name} is {line}" if line.startswith("unfinished") else line
    for line in (*less_than_released(report), *(line for part in report.parts for line in of_part(report, part))):
        yield f"{name}: {line}"
    yield from _unread(table, report)
    protocol = report.run.protocol
    # A number of readers is no way to ask.
    if other := (replace(protocol, samples=None) if protocol.readers else protocol).signature():
        asked = ", ".join(f"{setting}={value}" for setting, value in other.items())
        yield f"{name} was asked by another protocol than the paper's models: {asked}"
    for benchmark in {part.benchmark.name: part.benchmark for part in report.parts}.values():
        if line := _prompt(benchmark, report.run.benchmark(benchmark.name)):
            yield f"{name} was asked by {line}"
    if how := temperature(report.run.config.as_json(), report.techniques):
        yield f"{name} was asked at {how}"
    yield from _judged(table, report)
    if report.run.extraction != table.extraction:
        rule = "the rule of this table" if table.extraction == "sound" else "the owners' rule"
        yield f"{name}: answers were read by {report.extraction}; {rule} is --extraction={table.extraction}"


def _prompt(benchmark: Benchmark, recorded: RecordedBenchmark) -> str:
    """Return the prompts that are not the benchmark's own, or that it has others for each model; "" if neither."""
    asked = recorded.asked_by
    owners = [name for name in benchmark.prompts if name not in benchmark.owners.paper_prompts]
    if not asked:
        shown = printing.some(owners, SOME)
        return f"one prompt for all models; the owners ask each by its own: --prompt={shown}" if owners else ""
    if set(asked) <= set(owners):
        return f"the owners' prompt {', '.join(asked)}: compare with the model that they ask by it"
    return f"{', '.join(asked)} instead of the benchmark's own prompt"


def temperature(config: Mapping[str, Any], techniques: Sequence[str]) -> str:
    """Return the temperature that a config sets, and that of FF; "" if it is unknown, or there is none."""
    while config.get("inner"):
        config = config["inner"]
    options, backend = config.get("options") or {}, config.get("backend")
    if backend == "openai":
        if options.get("reasoning"):
            return "the server's own temperature"
        own, free = options.get("temperature") or 0, options.get("ff_temperature")
    elif backend == "hf":
        own, free = (_sampled(options.get(name)) for name in ("generation", "ff_generation"))
        own = own or 0
    else:
        return f"temperature {options['temperature']}" if options.get("temperature") is not None else ""
    also = "" if free is None or free == own or "ff" not in techniques else f", {free} for ff"
    return f"temperature {own}{also}"


def _sampled(generation: Mapping[str, Any] | None) -> float | str | None:
    """Return the temperature of a checkpoint's settings; None without any, "of the checkpoint" if it only samples."""
    if not generation or "do_sample" not in generation:
        return None
    return generation.get("temperature", "of the checkpoint") if generation["do_sample"] else 0


def _judged(table: PaperTable, report: Report) -> Iterator[str]:
    """Yield who judged answers, by which prompts, at which temperature and gap."""
    name = report.folder.name
    abouts = [report.run.benchmark(part.benchmark.name) for part in report.parts]
    if any(result.judgement is not None for part in report.parts for result in part.results):
        judge = report.run.judge or RecordedJudge()
        prompts = sorted({label for about in abouts for label in about.judged.values()})
        how = ", ".join([*prompts, *filter(None, [temperature(judge.config.as_json(), ())])])
        paper = f"; the paper's judge is {table.judge}" if table.judge else ""
        yield f"{name} was judged by {judge.name or 'an unnamed judge'} ({how}){paper}"
    gaps = {about.signature.get("ff_gap", PAPER_GAP) for about in abouts}
    for gap in sorted(gaps - {PAPER_GAP}):
        yield f"{name}: free answers count from a lead of {gap} points (--ff-gap); the paper's is {PAPER_GAP}"


def _unread(table: PaperTable, report: Report) -> Iterator[str]:
    """Yield the numbers of answers without an option, and that no model read them as in the paper."""
    extracts = report.run.judged_by_rule
    for part in report.parts:
        if number := sum(result.score.outcome == "unparsed" for result in part.results):
            paper = f". In the paper {table.extractor} read such answers: --judge=JUDGE --extract-with=judge"
            alone = paper if table.extractor and not extracts and part.technique == "mc" else ""
            of = f"{number} of {len(part.results)} answers to {part.name}"
            yield f"{report.folder.name}: {of} are unparsed, and count as wrong{alone}"


def of_part(report: Report, part: Part) -> Iterator[str]:
    """Yield what makes the figures of a part differ from those of a whole run with the owners' key."""
    if report.run.benchmark(part.benchmark.name).answers == "category":
        yield f"the answer key of {part.benchmark.name} was {RECOVERED}"
    if part.results and (selected := report.selected(part)):
        yield f"selected {selected} of {part.name}"
    for outcome, ended in (("unscored", "are unscored"), ("error", "ended in error, without a score")):
        if number := sum(result.score.outcome == outcome for result in part.results):
            yield f"{number} of {len(part.results)} answers to {part.name} {ended}"


def _rows(table: PaperTable, row: PaperRow | None) -> list[Row]:
    """The published rows of the row's ablation; all others if the paper has none of it. Without a row, all."""
    if row is None:
        return list(table.rows)
    return [of for of in table.rows if of.ablation == row.ablation] or [of for of in table.rows if not of.ablation]


def _shown(figure: PublishedFigure | None) -> str:
    return DASH if figure is None else figure.measure.figure.text + (OTHER if figure.other else "")
