"""`medvqa export`: write the questions, results and measures of a run for other programs."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, output, run_folder
from medvqa.cli.common import known_from


class ExportArguments(Arguments):
    """Write the questions, results and measures of a run as CSV and Parquet, with a data dictionary.

    dictionary.csv has the type and the meaning of each column. In CSV files, control characters are left out, a text
    that a spreadsheet would take for a formula begins with ', and of a longer text than a cell may hold, the end is
    kept. Parquet files have the whole texts, and need the extra `data`. Images are not written.
    """

    run: Path = run_folder()
    output: Path = output("the folder to write to", "FOLDER", required=True)


def run(typed: ExportArguments) -> str:
    """Write the files; return lines about them."""
    from medvqa import report
    from medvqa.commands import exporting

    known = known_from(typed, [typed.run]).benchmarks
    return exporting.write_tables(report.build(typed.run, known), typed.output)


COMMAND = Command(ExportArguments, run)
