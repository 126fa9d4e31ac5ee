"""`medvqa leaks`: find the questions of a benchmark that a training set has."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from medvqa import files
from medvqa.cli.common import Commands, count_up, data_of, known_from
from medvqa.items import Benchmark, Item, UsageError
from medvqa.session.options import listed

DEFAULT = Path("leaks.csv")
"""The file that is written, unless --output names another."""


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    leaks = commands.add_parser(
        "leaks",
        parents=[common],
        description="Compare images and questions of benchmarks with the files of a training set, and write the items "
        "that overlap to a CSV file. With RUN, show each headline measure with and without these items.",
    )
    leaks.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folders, such as reports/RUN")
    leaks.add_argument("--against", required=True, metavar="DIR", help="folder of the training set")
    leaks.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="NAME",
        help="the benchmark to compare (repeatable; default: those of the runs, else all in the data folder)",
    )
    leaks.add_argument("--data", metavar="DIR", help="folder of the data sets (default: MEDVQA_DATA)")
    leaks.add_argument(
        "--near",
        type=int,
        metavar="BITS",
        help="images look alike if their hashes of 256 bits differ in at most this number of bits, 0 to 64 "
        "(default: 16)",
    )
    leaks.add_argument(
        "--turned", action="store_true", help="compare images turned by 90, 180 and 270 degrees and mirrored, too"
    )
    leaks.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"the file to write (default: {DEFAULT})")
    leaks.add_argument("--json", type=Path, metavar="FILE", help="write counts, items and scores to this file")
    leaks.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Write the overlapping items, and return the summary."""
    from medvqa import comparing
    from medvqa.comparing.without import without_overlap
    from medvqa.data import likeness
    from medvqa.records import run_folder
    from medvqa.report import leaks

    near = likeness.NEAR if options.near is None else options.near
    if not 0 <= near <= likeness.BITS // 4:
        raise UsageError(f"--near={near}: a number of bits from 0 to {likeness.BITS // 4}")
    output = options.output or DEFAULT
    _check_output(output, ",".join(leaks.COLUMNS))
    known = known_from(options, options.runs).benchmarks
    sides = [(str(path), comparing.load(path)) for path in dict.fromkeys(options.runs)]
    runs = comparing.beside(sides, listed(options.benchmark), option="--benchmark=") if sides else []
    asked = list(dict.fromkeys(name for side in runs for name in side.asked))
    items = _items(options, asked, known)
    folder = Path(options.against).expanduser()
    trained = likeness.read(
        likeness.TrainingSet.listed(folder, f"--against={options.against}"), progress=count_up("training images")
    )
    overlaps = {
        name: likeness.find(own, trained, place, near=near, turned=options.turned, progress=count_up("images"))
        for name, (own, place) in items.items()
    }
    loaded = {name: own for name, (own, _) in items.items()}
    scores = [without_overlap(side, known, loaded, overlaps) for side in runs]
    try:
        files.replace(output, leaks.as_csv(overlaps).encode())
        if options.json is not None:
            run_folder.write_json(options.json, leaks.as_json(overlaps, trained, near, scores))
    except OSError as error:
        raise UsageError(f"{error.filename or output} cannot be written: {error.strerror}") from error
    count = sum(len(found.found) for found in overlaps.values())
    return f"{leaks.text(overlaps, trained, options.against, near, scores)}\n\nwrote {output}, rows: {count:,}"


def _check_output(path: Path, header: str) -> None:
    """UsageError for a file that exists and is no earlier output of this command."""
    try:
        with files.reading(path) as file:
            if file.readline(len(header) + 2).decode(errors="replace").strip() == header:
                return
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    raise UsageError(f"{path} exists already, and is no list of leaks; name another file with --output=FILE")


def _items(
    options: argparse.Namespace, asked: Sequence[str], known: Mapping[str, Benchmark]
) -> dict[str, tuple[tuple[Item, ...], Path]]:
    """The items of each benchmark, and the path under which their images are remembered."""
    from medvqa import benchmarks

    data, typed = data_of(options)
    chosen = benchmarks.choose(listed(options.benchmark) or asked, known, data, typed)
    return {
        benchmark.name: (
            benchmarks.load(benchmark, benchmarks.folder_of(benchmark, data) or data or Path()),
            (data or Path()) / benchmark.name,
        )
        for benchmark in chosen
    }
