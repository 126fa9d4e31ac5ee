"""`medvqa split`: divide the questions of a benchmark into a part to train on and a part to test on."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from medvqa import files
from medvqa.cli.common import Commands, data_of, known_from
from medvqa.items import Benchmark, Item, UsageError
from medvqa.session.options import listed


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    split = commands.add_parser(
        "split",
        parents=[common],
        description="Divide the questions of a benchmark into two parts, train and test, with whole pairs and alike in "
        "their tags. The file that is written is read by --tags=FILE, and selected by lexicon(split='test').",
    )
    split.add_argument("--benchmark", required=True, metavar="NAME", help="the benchmark to divide")
    split.add_argument("--data", metavar="DIR", help="folder of the data sets (default: MEDVQA_DATA)")
    split.add_argument(
        "--train",
        default="50%",
        metavar="N",
        help="pairs (questions, if there are no pairs) to train on, or a share such as 50%% (default: 50%%)",
    )
    split.add_argument(
        "--by", metavar="DIMENSION", help="draw in proportion to its values (default: the benchmark's first dimension)"
    )
    split.add_argument(
        "--whole",
        choices=("pairs", "groups"),
        default="groups",
        help="groups: questions that share an image, a patient or an article stay in one part (default); pairs: pairs "
        "alone stay whole, as in the paper of MediConfusion",
    )
    split.add_argument("--seed", type=int, default=0, metavar="N", help="draw another split (default: 0)")
    split.add_argument("-o", "--output", type=Path, metavar="FILE", help="the file to write (default: split.csv)")
    split.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Write the split, and return its numbers."""
    from medvqa import benchmarks
    from medvqa.data import lexicon, selection

    data, typed = data_of(options)
    asked_for = options.benchmark
    known = known_from(options).benchmarks
    chosen = benchmarks.choose(listed([options.benchmark]), known, data, typed)
    if len(chosen) > 1:
        raise UsageError(
            f"--benchmark={options.benchmark}: these are several; name one of "
            + ", ".join(each.name for each in chosen)
        )
    (benchmark,) = chosen
    items = benchmarks.load(benchmark, benchmarks.folder_of(benchmark, data) or data or Path())
    dimension = _dimension(options.by, benchmark, items)
    unit, per_unit = ("pairs", 2) if all(item.pair_id is not None for item in items) else ("questions", 1)
    size = _size(options.train, len(items) // per_unit, unit) * per_unit
    groups = options.whole == "groups"
    parts = selection.halves(items, size, dimension=dimension, seed=options.seed, groups=groups)
    path = options.output or Path("split.csv")
    _write(path, benchmark.name, parts)
    shared = selection.straddling(*parts)
    sizes = " and ".join(f"{len(part) // per_unit:,} {unit} to {name}" for name, part in zip(NAMES, parts, strict=True))
    lines = [
        f"wrote {path}: {sizes}, by {dimension or 'no dimension'}, seed {options.seed}",
        f"{len(shared) // per_unit:,} {unit} of test are connected to train by shared images, patients or articles"
        + ("; --whole=groups keeps these together" if shared else ""),
    ]
    if dimension is not None:
        lines.append(_table(parts, dimension, lexicon.display))
        lines += _undivided(parts, dimension, lexicon.display)
    tags = shlex.quote(f"--tags={path}")
    benchmark_option = shlex.quote(f"--benchmark={benchmark.name if benchmark.declared is None else asked_for}")
    lines.append(
        f"medvqa run {benchmark_option} {tags} --model=MODEL --select=\"lexicon(split='{NAMES[1]}')\" asks test"
    )
    return "\n".join(lines)


NAMES = ("train", "test")


def _dimension(typed: str | None, benchmark: Benchmark, items: Sequence[Item]) -> str | None:
    present = {dimension for item in items for dimension in item.tags}
    if typed is not None and typed not in present:
        raise UsageError(f"--by={typed}: no such dimension; there are: {', '.join(sorted(present))}")
    return typed or next((name for name in benchmark.dimensions if name in present), None)


def _size(typed: str, total: int, unit: str) -> int:
    """Return the number of units to train on; UsageError unless both parts have some."""
    digits, is_share = typed.removesuffix("%"), typed.endswith("%")
    try:
        number = float(digits) / 100 * total if is_share else float(int(digits))
    except ValueError:
        number = 0.0
    if not 1 <= number < total:
        raise UsageError(
            f"--train={typed}: a number of {unit} from 1 to {total - 1}, or a share of them, as --train=50%"
        )
    return int(number)


def _write(path: Path, benchmark: str, parts: Sequence[Sequence[Item]]) -> None:
    """Write benchmark, id (of a pair, if there is one) and part. UsageError for a file that exists already."""
    import csv
    import io

    if path.exists():
        raise UsageError(f"{path} exists already; remove it, or name another file with --output=FILE")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("benchmark", "id", "split"))
    part_of = {
        (item.id if item.pair_id is None else item.pair_id): name
        for name, part in zip(NAMES, parts, strict=True)
        for item in part
    }
    writer.writerows((benchmark, name, part) for name, part in sorted(part_of.items()))
    try:
        files.replace(path, text.getvalue().encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _table(parts: Sequence[Sequence[Item]], dimension: str, display: Callable[[str, str], str]) -> str:
    """Draw the number of questions of each part by the values of the dimension."""
    from medvqa import printing
    from medvqa.figures import Column, Table, numbers, terminal

    counts = [Counter(value for item in part for value in item.tags.get(dimension, ())) for part in parts]
    rows = [(display(dimension, value), *(count[value] for count in counts)) for value in sorted(set().union(*counts))]
    columns = (Column(dimension), *numbers(*(f"questions to {name}" for name in NAMES)))
    return printing.lines(terminal(Table("", columns, tuple(rows)))).rstrip()


def _undivided(parts: Sequence[Sequence[Item]], dimension: str, display: Callable[[str, str], str]) -> list[str]:
    """Return a line for each value that is in one part alone."""
    present = [{value for item in part for value in item.tags.get(dimension, ())} for part in parts]
    return [
        f"! {display(dimension, value)} is in {NAMES[0 if value in present[0] else 1]} alone: too few questions that "
        "are independent of each other"
        for value in sorted(present[0] ^ present[1])
    ]
