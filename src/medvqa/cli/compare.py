"""`medvqa compare`: compare runs on the same questions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from medvqa import printing
from medvqa.cli.arguments import Arguments, Command, option, run_folders, written_as
from medvqa.cli.common import known_and_named, write
from medvqa.decode import did_you_mean
from medvqa.items import UsageError
from medvqa.session.options import listed

if TYPE_CHECKING:
    from medvqa.comparing import Paired, Study

SLICES = 10
"""Rows of each table of slices, if a measure is named."""


class CompareArguments(Arguments):
    """Compare runs on the same questions.

    Print differences of headline measures with bounds, questions whose score changed (flips), and for more than two
    runs a ranking; --slices=N adds slices. --by shows a trend over a number of each run, such as the size of its model.
    """

    runs: list[Path] = run_folders("; without --baseline the others are compared with the first")
    baseline: list[Path] = option("compare each RUN with this run folder or baseline file (repeatable)", "RUN")
    measure: list[str] = option(
        "show the slices of this measure (repeatable, or NAME,NAME; default: the first headline measure)", "NAME"
    )
    slices: int | None = option(
        f"show N rows of each table of slices, or 'all' (default: none; {SLICES} with --measure)",
        "N",
        kind="count",
        default=0,
    )
    flips: int | None = option(
        "show N questions or pairs that became better and N that became worse, or 'all' (default: 10)",
        "N",
        kind="count",
        default=10,
    )
    bootstrap: bool = option("show the cluster bootstrap of headline measures (10,000, seeded) too")
    equivalent: float | None = option(
        "test whether headline measures differ by less than POINTS, either way: alike if the 90 % interval of the "
        "difference lies within it. For runs that should not differ, such as two servers of one model",
        "POINTS",
    )
    anyway: bool = option("compare runs that differ in data, judge or extraction, or in several settings, and say so")
    by: Path | None = option(
        "a table with the columns 'run' (or 'model') and a number of each, such as its parameters: show the "
        "measures in its order, and their slopes on its logarithm",
        "FILE",
    )
    json: Path | None = written_as("JSON", "everything")
    csv: Path | None = written_as(
        "CSV (changed images or questions beside it, as NAME.robustness.csv)", "measures and slices"
    )
    markdown: Path | None = written_as("Markdown", "what is printed")
    latex: Path | None = written_as("LaTeX", "the tables")


def run(typed: CompareArguments) -> str:
    """Return the comparisons as text. UsageError names each difference of runs that are not comparable."""
    from medvqa import comparing
    from medvqa.comparing import trend
    from medvqa.report import comparison, robustness

    news, baselines = typed.runs, typed.baseline
    if not baselines:
        baselines, news = news[:1], news[1:]
    if not news:
        raise UsageError(
            f"{typed.runs[0]} is to be compared with what? Name two runs, of which the first is the baseline, or "
            "one and --baseline=RUN"
        )
    registry, names = known_and_named(typed, typed.options().benchmarks, [*baselines, *news])
    paths, known = list(dict.fromkeys([*baselines, *news])), registry.benchmarks
    runs = comparing.load_beside(paths, names)
    pairs = None
    if typed.baseline or len(runs) == 1:  # A run may be compared with itself.
        pairs = [(paths.index(new), paths.index(baseline)) for baseline in baselines for new in news]
    study = comparing.study(
        *(runs, known),
        pairs=pairs,
        anyway=typed.anyway,
        bootstrap=typed.bootstrap,
        equivalent=typed.equivalent,
        units=False,
    )
    compared = [versus.paired for versus in study.versus]
    if not (any(paired.parts for paired in compared) or any(each.parts for each in study.against)):
        raise UsageError(_not_comparable(study, anyway=typed.anyway))
    measures = listed(typed.measure)
    _check_measures(measures, compared)
    slices = SLICES if measures and typed.slices == 0 else typed.slices
    sections = comparison.of_study(study, known, comparison.Shown(typed.flips, slices, measures))
    hidden = _dimensions(compared) if slices == 0 and typed.by is None else []
    trends = []
    if typed.by is not None:
        by, numbers = trend.numbers(typed.by, runs)
        trends = comparing.trends(runs, known, by, numbers)
        if not trends:
            raise UsageError("--by: the runs have no benchmark and technique in common")
        # Pairs of runs are not the point; their notes hold for the trend too.
        sections = [section for section in sections if section.notes and not section.tables]
        sections.append(comparison.Section(f"Trend over {by}", (), tuple(map(comparison.trend, trends))))
    write("--json", typed.json, lambda: comparison.as_json(study, trends))
    write("--csv", typed.csv, lambda: comparison.as_csv(compared))
    if study.robustness and typed.csv is not None:
        beside = typed.csv.with_suffix(".robustness.csv")
        write("--csv", beside, lambda: robustness.as_csv(study.robustness))
    write("--markdown", typed.markdown, lambda: comparison.as_markdown(sections))
    write("--latex", typed.latex, lambda: comparison.as_latex(sections))
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    text = comparison.text(sections, width)
    if not hidden:
        return text
    return f"{text}\n\nnot shown: slices by {printing.some(hidden, comparison.SOME)}; add --slices={SLICES}"


def _dimensions(comparisons: Sequence[Paired]) -> list[str]:
    """Return the dimensions whose slices can be shown."""
    return list(dict.fromkeys(name for paired in comparisons for row in paired.tables for name in row.slice))


def _not_comparable(study: Study, *, anyway: bool) -> str:
    """Say why no two runs are compared."""
    lines = study.refusals
    if anyway or any(line.endswith(("in common", "have a score for")) for line in lines):
        return lines[-1]
    return (
        "these runs are not comparable:\n  "
        + "\n  ".join(lines)
        + "\n--anyway compares them nevertheless, --benchmark=NAME one benchmark alone"
    )


def _check_measures(names: Sequence[str], comparisons: Sequence[Paired]) -> None:
    measures = list(dict.fromkeys(table.metric for paired in comparisons for table in paired.tables))
    for name in names:
        if name not in measures:
            raise UsageError(f"--measure={name}: no such measure{did_you_mean(name, measures)}")


COMMAND = Command(
    CompareArguments, run, {"benchmark": "compare this benchmark alone (repeatable, or NAME,NAME; default: all)"}
)
