"""`medvqa fetch`: bring benchmarks from their owners to the data folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from medvqa.cli.common import Commands, data_of, known_from, say
from medvqa.items import UsageError


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    fetch = commands.add_parser(
        "fetch",
        parents=[common],
        description="Bring the files of benchmarks to the data folder, where their owners allow it. Files that are "
        "there are compared with their digests, and partial downloads are continued. The list at the end names "
        "the files that could not be had, the reasons, and where to look; the exit code is then 1.",
    )
    fetch.add_argument("names", nargs="+", metavar="NAME", help="a benchmark, or a group such as gmai-mmbench")
    fetch.add_argument("--data", metavar="DIR", help="the data folder, made if it is missing (default: MEDVQA_DATA)")
    fetch.add_argument(
        "--from",
        dest="folders",
        action="append",
        default=[],
        metavar="DIR",
        help="take files from this folder before a server is asked, such as a copy of another machine (repeatable)",
    )
    fetch.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="URL",
        help="a base URL to use in place of the Hugging Face hub, or HOST=URL in place of another host (repeatable)",
    )
    fetch.add_argument("--offline", action="store_true", help="ask no server: list the files that are missing")
    fetch.set_defaults(command=run)


def run(options: argparse.Namespace) -> tuple[str, int]:
    """Fetch, and return a line for each benchmark with the list of missing files."""
    from medvqa import benchmarks
    from medvqa.fetching import fetch, hub, summary, web

    data, _ = data_of(options)
    if data is None:
        raise UsageError("name the data folder: medvqa fetch NAME --data=DIR, or set MEDVQA_DATA")
    known = known_from(options).benchmarks
    chosen = {benchmark.name: benchmark for name in options.names for benchmark in benchmarks.members(name, known)}
    folders = [Path(name).expanduser() for name in options.folders]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--from={folder}: no such folder")
    mirrors = web.mirrors_of(options.mirror, hub.from_environment().host)
    for line in summary.terms(list(chosen.values())):
        say(line)
    done = fetch.fetch(list(chosen.values()), data, folders=folders, mirrors=mirrors, offline=options.offline)
    return summary.text(list(chosen.values()), data, done), 1 if done.lacking else 0
