"""`medvqa cache`: list, verify, prune or push the stored answers, which runs share."""

from __future__ import annotations

import argparse
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from medvqa import printing, records
from medvqa.cli.common import Commands
from medvqa.items import UsageError

STORE = Path("reports", records.STORE)


def add(commands: Commands, _: argparse.ArgumentParser) -> None:
    """Add the command."""
    cache = commands.add_parser(
        "cache",
        help="list, verify or prune stored answers",
        description="List, verify or prune the stored answers, which runs share. No other command deletes an answer.",
    )
    cache.add_argument(
        "do",
        choices=["list", "verify", "prune", "push"],
        help="list counts answers by model and run; verify checks every line; prune deletes; push puts answers that a "
        "shared store lacks",
    )
    cache.add_argument(
        "--answers",
        default=str(STORE),
        metavar="DIR|URL",
        help=f"folder of stored answers (default: {STORE}), or a shared store, whose answers are first read into its "
        "folder under reports/",
    )
    cache.add_argument("--model", metavar="NAME", help="only answers of this model, by its name in tables")
    cache.add_argument("--run", metavar="NAME", help="only answers that this run asked for")
    cache.add_argument("--older", type=_age, metavar="DAYS", help="only files that were last written DAYS or more ago")
    cache.add_argument("--yes", action="store_true", help="delete; without it, prune only says what it would delete")
    cache.set_defaults(command=run)


def _age(text: str) -> float:
    days = float(text)
    if not days >= 0:
        raise ValueError(text)
    return days


def run(options: argparse.Namespace) -> str | tuple[str, bool]:
    """List, verify or prune the answers of a store; return a text, and for verify whether lines are damaged."""
    if records.is_address(options.answers):
        folder, said = _shared(options)
        if options.do == "push":
            return said
    else:
        folder, said = Path(options.answers).expanduser(), ""
        if options.do == "push":
            raise UsageError("push where? Name the shared store: --answers=s3://BUCKET/PREFIX")
    if not folder.is_dir():
        raise UsageError(f"--answers={options.answers}: no such folder; runs store answers in reports/.answers")
    before = time.time() - 86400 * (options.older or 0)
    chosen = [
        file
        for file in records.contents(folder)
        if options.model in (None, file.writer.model if file.writer else "")
        and options.run in (None, file.writer.run if file.writer else "")
        and file.changed <= before
    ]
    if options.do == "verify":
        return _verified(chosen)
    listed = _listed(chosen)
    if options.do == "list":
        return listed
    if options.model is options.run is options.older is None:
        raise UsageError("prune what? Name a model with --model, a run with --run, or an age in days with --older")
    if not options.yes:
        return f"{listed}\nNothing was deleted; add --yes to delete these."
    records.remove(chosen)
    return f"{listed}\nDeleted."


def _shared(options: argparse.Namespace) -> tuple[Path, str]:
    """Bring the local folder of a shared store up to date, or put what it lacks; return the folder and a line.

    UsageError, Unwritable.
    """
    address = records.Address.of(options.answers)
    folder = records.local_folder(address, STORE.parent)
    if options.do == "prune":
        raise UsageError(
            f"--answers={address}: prune deletes files of this machine alone: name their folder, --answers={folder}. "
            "Delete segments in the store with its own tools"
        )
    if options.do != "push" and address.scheme == "file" and not Path(address.prefix).is_dir():
        raise UsageError(f"--answers={address}: no such folder")
    store = records.SharedStore(records.open_bucket(address, os.environ), folder)
    records.check_reachable(store)
    if options.do == "push":
        try:
            put, left = records.push(store)
        except (records.BucketError, OSError) as error:
            raise UsageError(f"answers cannot be put into {address}: {error}") from None
        return folder, f"{put:,} answers were put into {address}; {left:,} are not in it"
    unread = records.fetch_all(store, secrets.token_hex(4))
    for line in unread:
        printing.to_stderr(f"! {printing.line(line)}\n")
    return folder, ""


def _listed(files: Sequence[records.Contents]) -> str:
    from medvqa.report.tables import TextTable
    from medvqa.report.terminal import draw

    groups: dict[tuple[str, str], list[records.Contents]] = {}
    for file in files:
        name = (file.writer.model, file.writer.run) if file.writer else ("?", "?")
        groups.setdefault(name, []).append(file)
    rows = [
        (
            *name,
            f"{sum(file.answers for file in group):,}",
            f"{sum(file.size for file in group) / 1e6:,.1f}",
            time.strftime("%Y-%m-%d", time.localtime(max(file.changed for file in group))),
        )
        for name, group in sorted(groups.items())
    ]
    total = f"{sum(file.answers for file in files):,} answers, {sum(file.size for file in files) / 1e6:,.1f} MB"
    table = TextTable(
        "answers", ("model", "run", "answers", "MB", "last written"), tuple(rows), right=frozenset({2, 3})
    )
    return f"{draw(table)}\n{total}" if rows else "no answers"


def _verified(files: Sequence[records.Contents]) -> str | tuple[str, bool]:
    """Return a line per damaged entry and True, or a line that all answers are whole."""
    problems = [printing.line(problem) for file in files for problem in file.problems]
    answers = sum(file.answers for file in files)
    if not problems:
        return f"{answers:,} answers in {len(files)} files, all whole"
    return "\n".join([*problems, f"{answers:,} answers are whole; those of {len(problems)} lines are lost"]), True
