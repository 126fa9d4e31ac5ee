"""`medvqa compare`: compare runs on the same questions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, known_from
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.comparing import Paired, Side, Study


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    compare = commands.add_parser(
        "compare",
        parents=[common],
        description="Compare runs on the same questions: differences of measures with bounds, slices, questions whose "
        "score changed (flips), and for more than two runs a ranking. --by shows a trend over a number of "
        "each run, such as the size of its model.",
    )
    compare.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="run folders, such as reports/RUN; without --baseline the others are compared with the first",
    )
    compare.add_argument(
        "--baseline",
        action="append",
        default=[],
        type=Path,
        metavar="RUN",
        help="compare each RUN with this run folder or baseline file (repeatable)",
    )
    compare.add_argument(
        "--benchmark", action="append", default=[], metavar="NAME", help="compare this benchmark alone (repeatable)"
    )
    compare.add_argument(
        "--measure",
        action="append",
        default=[],
        metavar="NAME",
        help="show the slices of this measure (repeatable; default: the first headline measure)",
    )
    compare.add_argument(
        "--slices",
        type=_limit,
        default=10,
        metavar="N",
        help="show N rows of each table of slices, or 'all' (default: 10)",
    )
    compare.add_argument(
        "--flips",
        type=_limit,
        default=10,
        metavar="N",
        help="show N questions or pairs that became better and N that became worse, or 'all' (default: 10)",
    )
    compare.add_argument(
        "--bootstrap", action="store_true", help="show the cluster bootstrap of headline measures (10,000, seeded) too"
    )
    compare.add_argument(
        "--anyway",
        action="store_true",
        help="compare runs that differ in data, judge or extraction, or in several settings, and say so",
    )
    compare.add_argument(
        "--by",
        type=Path,
        metavar="FILE",
        help="a table with the columns 'run' (or 'model') and a number of each, such as its parameters: show the "
        "measures in its order, and their slopes on its logarithm",
    )
    compare.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    compare.add_argument("--csv", type=Path, metavar="FILE", help="write measures and slices as CSV")
    compare.add_argument("--markdown", type=Path, metavar="FILE", help="write what is printed as Markdown")
    compare.set_defaults(command=run)


def _limit(text: str) -> int | None:
    if text == "all":
        return None
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def run(options: argparse.Namespace) -> str:
    """Return the comparisons as text. UsageError names each difference of runs that are not comparable."""
    from medvqa import comparing
    from medvqa.comparing import trend
    from medvqa.records import run_folder
    from medvqa.report import comparison

    news, baselines = options.runs, options.baseline
    if not baselines:
        baselines, news = news[:1], news[1:]
    if not news:
        raise UsageError(
            f"{options.runs[0]} is to be compared with what? Name two runs, of which the first is the baseline, or "
            "one and --baseline=RUN"
        )
    registry = known_from(options, [*baselines, *news])
    sides = _load([*baselines, *news], options.benchmark)
    study = comparing.study(
        list(sides.values()),
        registry.benchmarks,
        # A run may be compared with itself.
        pairs=_pairs(list(sides), news, baselines) if options.baseline or len(sides) == 1 else None,
        anyway=options.anyway,
        bootstrap=options.bootstrap,
    )
    compared = [versus.paired for versus in study.versus]
    if not any(paired.parts for paired in compared):
        raise UsageError(_not_comparable(study, anyway=options.anyway))
    _check_measures(options.measure, compared)
    shown = comparison.Shown(options.flips, options.slices, tuple(options.measure))
    sections = comparison.of_study(study, registry.benchmarks, shown)
    trends = []
    if options.by is not None:
        by, numbers = trend.numbers(options.by, list(sides.values()))
        trends = comparing.trends(list(sides.values()), registry.benchmarks, by, numbers)
        if not trends:
            raise UsageError("--by: the runs have no benchmark and technique in common")
        # Pairs of runs are not the point; their notes hold for the trend too.
        sections = [section for section in sections if section.notes and not section.tables]
        sections.append(comparison.Section(f"Trend over {by}", (), tuple(map(comparison.trend, trends))))
    written: dict[Path, Callable[[Path], None]] = {}
    if options.json is not None:
        written[options.json] = lambda path: run_folder.write_json(path, comparison.as_json(study, trends))
    if options.csv is not None:
        written[options.csv] = lambda path: run_folder.write_atomic(path, comparison.as_csv(compared).encode())
    if options.markdown is not None:
        written[options.markdown] = lambda path: run_folder.write_atomic(
            path, comparison.as_markdown(sections).encode()
        )
    for path, write in written.items():
        try:
            write(path)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return comparison.text(sections)


def _pairs(paths: Sequence[Path], news: Sequence[Path], baselines: Sequence[Path]) -> list[tuple[int, int]]:
    """Each run with each baseline, as places of `paths`."""
    return [(paths.index(new), paths.index(baseline)) for baseline in baselines for new in news]


def _not_comparable(study: Study, *, anyway: bool) -> str:
    """Say why no two runs are compared."""
    lines = list(dict.fromkeys(line for versus in study.versus for line in versus.refusals))
    if anyway or any(line.endswith("in common") for line in lines):
        return lines[-1]
    return (
        "these runs are not comparable:\n  "
        + "\n  ".join(lines)
        + "\n--anyway compares them nevertheless, --benchmark=NAME one benchmark alone"
    )


def _load(paths: Sequence[Path], benchmarks: Sequence[str]) -> dict[Path, Side]:
    """Load each run once, by path, under different names. UsageError for a benchmark that no run has."""
    from medvqa import comparing

    distinct = list(dict.fromkeys(paths))
    sides = [(str(path), comparing.load(path)) for path in distinct]
    return dict(zip(distinct, comparing.beside(sides, benchmarks, option="--benchmark="), strict=True))


def _check_measures(names: Sequence[str], comparisons: Sequence[Paired]) -> None:
    measures = list(dict.fromkeys(table.metric for paired in comparisons for table in paired.tables))
    for name in names:
        if name not in measures:
            raise UsageError(f"--measure={name}: there are: {', '.join(measures)}")
