"""The results of one item over all runs of the list."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import msgspec

from medvqa import files
from medvqa.comparing import matching
from medvqa.items import QuestionKey, Result, UsageError
from medvqa.records import run_folder, run_record
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN, RunRecord
from medvqa.view.items import item_row
from medvqa.view.run_list import RunFolders
from medvqa.view.searching import SECONDS, lines_with, plain_part
from medvqa.view.shapes import History, HistoryRow, RunEntry

MOST = 2_000
"""Most results that are shown."""


def history(folders: RunFolders, benchmark: str, item: str) -> History:
    """Return the results of an item in all listed runs, the latest run first.

    Each file is searched for the id, and only lines with it are read. A question is compared with that of the latest
    run that has the item.
    """
    until = time.monotonic() + SECONDS
    rows: list[HistoryRow] = []
    unread: list[str] = []
    latest: Result | None = None
    listed = folders.list()
    if listed.unread:
        unread.append(f"{listed.unread:,} runs are still being read: load this page again")
    for entry in listed.runs:
        folder = folders.folder(entry.name)
        if folder is None or (entry.benchmarks and benchmark not in entry.benchmarks):
            continue
        if entry.state == "unreadable":
            unread.append(f"{entry.name}: {entry.why}")
            continue
        if time.monotonic() > until:
            unread.append(f"{entry.name}: not searched, as the search took longer than {SECONDS:.0f} seconds")
            continue
        try:
            run = run_record.read_run(folder)
            results = _results(folder / RESULTS, benchmark, item, until)
        except FileNotFoundError:
            continue  # a session that has no result yet
        except OSError as error:
            unread.append(f"{entry.name}: {error.strerror or error}")
            continue
        except UsageError:
            unread.append(f"{entry.name}: its {RUN} cannot be read")
            continue
        if len(results) + len(rows) > MOST:
            unread.append(f"{entry.name}: not shown, as there are more than {MOST:,} results of this item")
            continue
        for result in results:
            latest = latest or result
            rows.append(_row(entry, result, latest, run))
    return History(benchmark, item, rows, unread)


def _row(entry: RunEntry, result: Result, latest: Result, run: RunRecord) -> HistoryRow:
    same = matching.same_question(latest.item, result.item)
    return HistoryRow(entry.name, entry.model, entry.label, entry.started, same, item_row(-1, result, run))


def _results(path: Path, benchmark: str, item: str, until: float) -> list[Result]:
    """Return the last result of each key of an item, sorted (OSError; TimeoutError after `until`)."""
    results: dict[QuestionKey, Result] = {}
    # An id that may be escaped is looked for by its plain part alone.
    plain = plain_part(item)
    named = re.compile(rb'"id"\s*:\s*"' + re.escape(plain) + b'"' if plain == item.encode() else b"")
    with files.reading(path, follow=False) as file:
        for _, line in lines_with(file, plain, 0, os.fstat(file.fileno()).st_size, until=until):
            if len(results) > MOST or not named.search(line):
                continue
            try:
                result = run_folder.decode(line)
            except msgspec.DecodeError:
                continue
            if (result.item.benchmark, result.item.id) == (benchmark, item):
                results[result.key] = result
    return [results[key] for key in sorted(results)]
