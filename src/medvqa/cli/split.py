"""`medvqa split`: divide the questions of a benchmark into a part to train on and a part to test on."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from pathlib import Path

from medvqa.cli.arguments import DATA, Arguments, Command, option, output, seed
from medvqa.cli.common import known_and_named, questions_of, write
from medvqa.decode import did_you_mean
from medvqa.items import Benchmark, Item, UsageError
from medvqa.session.options import listed

NAMES = ("train", "test")


class SplitArguments(Arguments):
    """Divide the questions of a benchmark into two parts, train and test, with whole pairs and alike in their tags.

    The file that is written is read by --tags=FILE, and selected by lexicon(split='test').
    """

    benchmark: str = option("the benchmark to divide", "NAME", required=True)
    train: str = option(
        "pairs (questions, if there are no pairs) to train on, or a share such as 50% (default: 50%)",
        "N",
        default="50%",
    )
    by: str | None = option("draw in proportion to its values (default: the benchmark's first dimension)", "DIMENSION")
    whole: str = option(
        "groups: questions that share an image, a patient or an article stay in one part (default); pairs: pairs "
        "alone stay whole, as in the paper of MediConfusion",
        "{pairs,groups}",
        choices=("pairs", "groups"),
        default="groups",
    )
    seed: int | None = seed("split")
    output: Path | None = output("the file to write (default: split.csv)")


def run(typed: SplitArguments) -> str:
    """Write the split, and return its numbers."""
    from medvqa.report import tag_counts
    from medvqa.tags import selection

    registry, named = known_and_named(typed, listed([typed.benchmark]))
    loaded = questions_of(typed.options(), named, registry.benchmarks)
    if len(loaded) > 1:
        raise UsageError(f"--benchmark={typed.benchmark}: these are several; name one of {', '.join(loaded)}")
    ((name, (items, _)),) = loaded.items()
    benchmark, seed = registry.benchmarks[name], typed.seed or 0
    dimension = _dimension(typed.by, benchmark, items)
    unit, per_unit = ("pairs", 2) if all(item.pair_id is not None for item in items) else ("questions", 1)
    size = _size(typed.train, len(items) // per_unit, unit) * per_unit
    parts = selection.halves(items, size, dimension=dimension, seed=seed, groups=typed.whole == "groups")
    path = typed.output or Path("split.csv")
    if path.exists():
        raise UsageError(f"{path} exists already; remove it, or name another file with --output=FILE")
    write("--output", path, lambda: _csv(name, parts))
    shared = len(selection.straddling(*parts)) // per_unit
    sizes = " and ".join(f"{len(own) // per_unit:,} {unit} to {part}" for part, own in zip(NAMES, parts, strict=True))
    lines = [
        f"wrote {path}: {sizes}, by {dimension or 'no dimension'}, seed {seed}",
        f"{shared:,} {unit} of test are connected to train by shared images, patients or articles"
        + ("; --whole=groups keeps these together" if shared else ""),
    ]
    if dimension is not None:
        lines.append(tag_counts.of_parts(dict(zip(NAMES, parts, strict=True)), dimension))
    tags = shlex.quote(f"--tags={path}")
    benchmark_option = shlex.quote(f"--benchmark={name if benchmark.declared is None else typed.benchmark}")
    lines.append(
        f"medvqa run {benchmark_option} {tags} --model=MODEL --select=\"lexicon(split='{NAMES[1]}')\" asks test"
    )
    return "\n".join(lines)


def _dimension(typed: str | None, benchmark: Benchmark, items: Sequence[Item]) -> str | None:
    present = {dimension for item in items for dimension in item.tags}
    if typed is not None and typed not in present:
        raise UsageError(f"--by={typed}: no such dimension{did_you_mean(typed, sorted(present))}")
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


def _csv(benchmark: str, parts: Sequence[Sequence[Item]]) -> str:
    """Return benchmark, id (of a pair, if there is one) and part, as they are: --tags=FILE reads them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("benchmark", "id", "split"))
    part_of = {
        item.id if item.pair_id is None else item.pair_id: name
        for name, part in zip(NAMES, parts, strict=True)
        for item in part
    }
    writer.writerows((benchmark, id, name) for id, name in sorted(part_of.items()))
    return text.getvalue()


COMMAND = Command(SplitArguments, run, DATA)
