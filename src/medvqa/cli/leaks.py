"""`medvqa leaks`: find the questions of a benchmark that a training set has."""

from __future__ import annotations

from pathlib import Path

from medvqa import files
from medvqa.cli.arguments import DATA, Arguments, Command, option, output, run_folders, written_as
from medvqa.cli.common import count_up, known_and_named, questions_of, write
from medvqa.items import UsageError

DEFAULT = Path("leaks.csv")
"""The file that is written, unless --output names another."""


class LeaksArguments(Arguments):
    """Compare images and questions of benchmarks with the files of a training set.

    The items that overlap are written to a CSV file. With RUN, show each headline measure with and without these items.
    """

    runs: list[Path] = run_folders(least=0)
    against: str = option("folder of the training set", "DIR", required=True)
    near: int | None = option(
        "images look alike if their hashes of 256 bits differ in at most this number of bits, 0 to 64 (default: 16)",
        "BITS",
        low=0,
        high=64,
    )
    turned: bool = option("compare images turned by 90, 180 and 270 degrees and mirrored, too")
    output: Path | None = output(f"the file to write (default: {DEFAULT})")
    json: Path | None = written_as("JSON", "counts, items and scores")


def run(typed: LeaksArguments) -> str:
    """Write the overlapping items, and return the summary."""
    from medvqa import comparing, likeness
    from medvqa.comparing.without import without_overlap
    from medvqa.report import leaks

    near = likeness.NEAR if typed.near is None else typed.near
    target, options = typed.output or DEFAULT, typed.options()
    _check_output(target, ",".join(leaks.COLUMNS))
    registry, named = known_and_named(typed, options.benchmarks, typed.runs)
    known = registry.benchmarks
    runs = comparing.load_beside(typed.runs, named) if typed.runs else []
    asked = list(dict.fromkeys(name for side in runs for name in side.asked))
    loaded = {name: items for name, (items, _) in questions_of(options, named or asked, known).items()}
    folder = Path(typed.against).expanduser()
    trained = likeness.read(
        likeness.TrainingSet.listed(folder, f"--against={typed.against}"), progress=count_up("training images")
    )
    data = options.data or Path()
    overlaps = {
        # Images are remembered by the benchmark's path in the data folder.
        name: likeness.find(items, trained, data / name, near=near, turned=typed.turned, progress=count_up("images"))
        for name, items in loaded.items()
    }
    scores = [without_overlap(side, known, loaded, overlaps) for side in runs]
    write("--output", target, lambda: leaks.as_csv(overlaps))
    write("--json", typed.json, lambda: leaks.as_json(overlaps, trained, near, scores))
    count = sum(len(found.found) for found in overlaps.values())
    return f"{leaks.text(overlaps, trained, typed.against, near, scores)}\n\nwrote {target}, rows: {count:,}"


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


COMMAND = Command(
    LeaksArguments,
    run,
    {
        "benchmark": "the benchmark to compare (repeatable; default: those of the runs, else all in the data folder)",
        **DATA,
    },
)
