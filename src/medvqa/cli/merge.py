"""`medvqa merge`: join shards or partial runs into one run."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, output, run_folders
from medvqa.cli.common import known_from


class MergeArguments(Arguments):
    """Join shards of a run, or partial runs of one configuration, into one run folder.

    The exit code is 1 if a shard or a result is missing. A merged run that lacks some is replaced by one of the same
    runs and more.
    """

    runs: list[Path] = run_folders()
    output: Path = output(
        "the new run: a name, which then lies beside the first RUN, or a path such as reports/NAME",
        "NAME",
        required=True,
    )


def run(typed: MergeArguments) -> tuple[str, int]:
    """Merge the runs; return the summary, and 1 if anything is missing."""
    from medvqa.commands import joining

    text, complete = joining.merge(typed.runs, typed.output, known_from(typed, typed.runs))
    return text, int(not complete)


COMMAND = Command(MergeArguments, run)
