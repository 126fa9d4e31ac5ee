"""`medvqa subset`: a cheap subset of a benchmark, and the whole as a run of the subset shows it."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, output, positional, seed
from medvqa.cli.common import known_and_named, write
from medvqa.items import UsageError


class SubsetArguments(Arguments):
    """Draw a subset that predicts the whole benchmark, by finished runs of several models on all of its questions.

    With --of, estimate the whole benchmark's value for a run that asked the subset.
    """

    runs: list[Path] = positional("run folders, such as reports/RUN; with --of: the file of -o", "RUN")
    size: int | None = option("the number of questions to draw; whole pairs, if the measure counts pairs", "N", low=1)
    of: Path | None = option("the run that asked the subset", "RUN")
    measure: str | None = option("the measure to predict (default: the first of the headline)", "NAME")
    output: Path | None = output("the table for --tags; a JSON file is written beside it (default: subset.csv)")
    seed: int | None = seed("subset")


def run(typed: SubsetArguments) -> str:
    """Write the files of a subset, or return an estimate (UsageError)."""
    from medvqa import comparing
    from medvqa.commands import subsetting

    if typed.of is not None:
        if other := typed.first_given("size", "measure", "output", "seed"):
            raise UsageError(f"--of=RUN estimates by a subset that exists; {other} is for drawing one")
        if len(typed.runs) != 1:
            raise UsageError("--of=RUN: name one file of a subset, as in medvqa subset subset.csv --of=reports/RUN")
        part, side = subsetting.read(typed.runs[0]), comparing.load(typed.of)
        known, _ = known_and_named(typed, [], [typed.of])
        return subsetting.text_of(part, side, subsetting.estimate(part, side, known.benchmarks))
    if typed.size is None:
        raise UsageError("subset: type how many questions to draw, such as --size=100; --of=RUN estimates the whole")
    registry, named = known_and_named(typed, typed.options().benchmarks, typed.runs)
    path = typed.output or Path("subset.csv")
    for file in (path, beside := subsetting.json_beside(path)):
        if file.exists() or path.suffix == ".json":
            raise UsageError(f"{path}: a new table such as subset.csv is expected, and no {file} beside it")
    sides = comparing.load_beside(typed.runs, named)
    part = subsetting.draw(sides, registry.benchmarks, typed.size, typed.seed or 0, typed.measure or "")
    write("-o", path, lambda: subsetting.tags(part))
    write("-o", beside, lambda: part)
    return subsetting.text(part, path, registry.benchmarks)


COMMAND = Command(SubsetArguments, run, {"benchmark": "the benchmark, if the runs have several"})
