"""`medvqa import`: check a spreadsheet of cases, and write the file of its benchmark."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from medvqa import files, printing
from medvqa.cli.common import Commands, count_up
from medvqa.items import UsageError, withholding


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    command = commands.add_parser(
        "import",
        parents=[common],
        description="Print a validation report of a table (CSV, TSV, XLSX, JSON, JSON lines, Parquet) and its images: "
        "mistakes, balance, duplicates, accuracy without images, groups, power. If nothing must be corrected, write "
        "the TOML file for --benchmark=FILE.toml. On a terminal, the command asks for roles that it cannot tell.",
    )
    command.add_argument("file", type=Path, metavar="FILE", help="the table")
    command.add_argument(
        "--images", type=Path, metavar="DIR", help="the folder of the images (default: the folder of the table)"
    )
    command.add_argument(
        "--to",
        type=Path,
        metavar="FILE.toml",
        help="the file to write (default: the table's name with .toml, in the working folder)",
    )
    command.add_argument(
        "--yes", action="store_true", help="ask nothing: if a role is unclear, stop and print the option to type"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="ROLE=COLUMN",
        help="the column of a role: question, answer, image, id, options, A, B, kind, pair, patient, case, cluster, "
        "tag, slice, private; or a key of the file, such as language=de, window=0,4095 or numbers_from=1 (repeatable)",
    )
    command.add_argument(
        "--show-cells",
        action="store_true",
        help="quote cells, ids and paths in the report; without it, they are withheld and rows and columns named",
    )
    command.add_argument("--report", type=Path, metavar="FILE", help="also write the report with every mistake as text")
    command.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    command.set_defaults(command=run)


def run(options: argparse.Namespace) -> tuple[str, int]:
    """Return the report and the commands to type next; exit code 1 if something must be corrected."""
    with withholding(not options.show_cells):
        return _checked(options)


def _checked(options: argparse.Namespace) -> tuple[str, int]:
    from medvqa import benchmarks, importing
    from medvqa.benchmarks import table_files
    from medvqa.importing import asking, drawn, settings, writing

    to = options.to or Path(f"{options.file.stem}.toml")
    if to.suffix.lower() != ".toml":
        raise UsageError(f"--to={to}: the name of a benchmark file ends in .toml")
    if options.images is not None and not options.images.is_dir():
        raise UsageError(f"--images={options.images}: no such folder")
    roles, typed = settings.split(options.set)
    sheet = importing.read(
        options.file,
        printing.line(options.file.name),
        encoding=typed.encoding,
        delimiter=typed.delimiter,
        sheet=typed.sheet,
    )
    with_images = options.images is not None
    asks = not options.yes and sys.stdin.isatty() and sys.stderr.isatty()
    guess = asking.told(sheet, roles, with_images=with_images, ask=_ask if asks else None)
    chosen = settings.guessed(sheet, guess.columns, typed)
    declaration = writing.declared(sheet, guess.columns, chosen, file=options.file, images=options.images, to=to)
    benchmark = table_files.benchmark_of(declaration, to)
    validation = importing.validate(
        sheet,
        guess,
        options.images or options.file.parent,
        settings=chosen,
        progress=count_up("images"),
        load=lambda: benchmarks.load(benchmark, Path()),
    )
    for path, content in (
        (options.report, drawn.text(validation, every=True)),
        (options.json, drawn.as_json(drawn.values(validation))),
    ):
        if path is not None:
            _write(path, content)
    report = drawn.text(validation)
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


def _write(path: Path, content: str) -> None:
    try:
        files.replace(path, f"{printing.lines(content)}\n".encode(errors="replace"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
