"""`medvqa import`: check a spreadsheet of cases, and write the file of its benchmark."""

from __future__ import annotations

import sys
from pathlib import Path

from medvqa import printing
from medvqa.cli.arguments import Arguments, Command, option, positional, written_as
from medvqa.cli.common import count_up, write
from medvqa.items import UsageError, withholding


class ImportArguments(Arguments):
    """Print a validation report of a table (CSV, TSV, XLSX, JSON, JSON lines, Parquet) and its images.

    It tells mistakes, balance, duplicates, accuracy without images, groups, power. If nothing must be corrected, the
    TOML file for --benchmark=FILE.toml is written. On a terminal, the command asks for roles that it cannot tell.
    """

    file: Path = positional("the table", "FILE")
    images: Path | None = option("the folder of the images (default: the folder of the table)", "DIR")
    to: Path | None = option(
        "the file to write (default: the table's name with .toml, in the working folder)", "FILE.toml"
    )
    yes: bool = option("ask nothing: if a role is unclear, stop and print the option to type")
    set: list[str] = option(
        "the column of a role: question, answer, image, id, options, A, B, kind, pair, patient, case, cluster, "
        "box, tag, slice, private; or a key of the file, such as language=de, window=0,4095 or numbers_from=1 "
        "(repeatable)",
        "ROLE=COLUMN",
    )
    show_cells: bool = option(
        "quote cells, ids and paths in the report; without it, they are withheld and rows and columns named"
    )
    report: Path | None = written_as("text", "the report with every mistake")
    json: Path | None = written_as("JSON", "the report")


def run(typed: ImportArguments) -> tuple[str, int]:
    """Return the report and the commands to type next; exit code 1 if something must be corrected."""
    with withholding(not typed.show_cells):
        return _checked(typed)


def _checked(typed: ImportArguments) -> tuple[str, int]:
    from medvqa import benchmarks, importing
    from medvqa.benchmarks import table_files
    from medvqa.importing import asking, report_text, settings, writing

    if typed.file.is_dir():
        raise UsageError(f"{printing.line(str(typed.file))}: a folder; name the table in it: medvqa import FOLDER/FILE")
    to = typed.to or Path(f"{typed.file.stem}.toml")
    if to.suffix.lower() != ".toml":
        raise UsageError(f"--to={to}: the name of a benchmark file ends in .toml")
    if typed.images is not None and not typed.images.is_dir():
        raise UsageError(f"--images={typed.images}: no such folder")
    roles, given = settings.split(typed.set)
    sheet = importing.read(
        typed.file,
        printing.line(typed.file.name),
        encoding=given.encoding,
        delimiter=given.delimiter,
        sheet=given.sheet,
    )
    with_images = typed.images is not None
    asks = not typed.yes and sys.stdin.isatty() and sys.stderr.isatty()
    guess = asking.completed(sheet, roles, with_images=with_images, ask=_ask if asks else None)
    chosen = settings.guessed(sheet, guess.columns, given)
    declaration = writing.declared(sheet, guess.columns, chosen, file=typed.file, images=typed.images, to=to)
    benchmark = table_files.benchmark_of(declaration, to)
    validation = importing.validate(
        sheet,
        guess,
        table_files.table_of(declaration, to),
        progress=count_up("images"),
        load=lambda: benchmarks.load(benchmark, Path()),
    )
    write("--report", typed.report, lambda: f"{printing.lines(report_text.text(validation, every=True))}\n")
    # Unlike other JSON, it holds no sign that a CI log interprets as a command.
    write("--json", typed.json, lambda: f"{printing.lines(report_text.as_json(report_text.values(validation)))}\n")
    report = report_text.text(validation)
    if validation.refused:
        return f"{report}\n\nnothing was written: correct these mistakes, and type the command again", 1
    try:
        writing.write(declaration, to)
    except UsageError as error:
        return f"{report}\n\nnothing was written: {error}", 4
    return "\n".join([report, "", f"wrote {to}. Next:", *(f"  {line}" for line in writing.commands(to))]), 0


def _ask(text: str) -> str:
    """Show a question on standard error, and return the line that is typed (UsageError at its end)."""
    printing.to_stderr(printing.lines(text))
    reply = sys.stdin.readline()
    if not reply:
        raise UsageError("the input ended before all questions were answered; type --yes and --set ROLE=COLUMN")
    return reply


COMMAND = Command(ImportArguments, run)
