"""`medvqa baseline`: write a run as one file for `--baseline`."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, output, run_folder
from medvqa.cli.common import known_from


class BaselineArguments(Arguments):
    """Write the results of a run as one small file without images, which --baseline=FILE takes."""

    run: Path = run_folder()
    output: Path = output("the file to write", required=True)
    no_responses: bool = option(
        "write digests in place of the model's answers; if the data are not declared public, also keyed hashes "
        "in place of ids and texts"
    )


def run(typed: BaselineArguments) -> str:
    """Write the baseline file; return lines about it."""
    from medvqa.commands import exporting

    known = known_from(typed, [typed.run]).benchmarks if typed.no_responses else {}
    return exporting.write_baseline(typed.run, typed.output, known, responses=not typed.no_responses)


COMMAND = Command(BaselineArguments, run)
