"""`medvqa fetch`: bring benchmarks from their owners to the data folder."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, positional
from medvqa.cli.common import known_from, say
from medvqa.items import UsageError


class FetchArguments(Arguments):
    """Bring the files of benchmarks to the data folder, where their owners allow it.

    Files that are there are compared with their digests, and partial downloads are continued. The list at the end names
    the files that could not be had, the reasons, and where to look; the exit code is then 1.
    """

    names: list[str] = positional("a benchmark, or a group such as gmai-mmbench", "NAME")
    from_: list[Path] = option(
        "take files from this folder before a server is asked, such as a copy of another machine (repeatable)",
        "DIR",
        name="from",
    )
    mirror: list[str] = option(
        "a base URL to use in place of the Hugging Face hub, or HOST=URL in place of another host (repeatable)", "URL"
    )
    offline: bool = option("ask no server: list the files that are missing")


def run(typed: FetchArguments) -> tuple[str, int]:
    """Fetch, and return a line for each benchmark with the list of missing files."""
    from medvqa import benchmarks
    from medvqa.fetching import fetch, hub, summary, web

    data = typed.options().data
    if data is None:
        raise UsageError("name the data folder: medvqa fetch NAME --data=DIR, or set MEDVQA_DATA")
    known = known_from(typed).benchmarks
    chosen = list({each.name: each for name in typed.names for each in benchmarks.members(name, known)}.values())
    for folder in typed.from_:
        if not folder.is_dir():
            raise UsageError(f"--from={folder}: no such folder")
    mirrors = web.mirrors_of(typed.mirror, hub.from_environment().host)
    for line in summary.terms(chosen):
        say(line)
    done = fetch.fetch(chosen, data, folders=typed.from_, mirrors=mirrors, offline=typed.offline)
    return summary.text(chosen, data, done), int(bool(done.lacking))


COMMAND = Command(FetchArguments, run, {"data": "the data folder, made if it is missing (default: MEDVQA_DATA)"})
