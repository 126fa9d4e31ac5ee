"""The run folders below the served folder, listed with their numbers.

Folders are found by reading directories, never by joining a name of an address to a path: a run is looked up by its
name in the list. Entries are kept until a file of their folder changes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN
from medvqa.records.selected import selected_files
from medvqa.session.registry import Registry
from medvqa.view import entries
from medvqa.view.entries import Described, Stamp
from medvqa.view.following import Followers
from medvqa.view.shapes import RunEntry, RunList
from medvqa.view.state import state_of

DEPTH = 3
"""Levels of folders below the served one in which runs are found."""
LISTED = 2_000
"""Most runs that are listed."""
SCANNED = 200_000
"""Most folders and files that are looked at: a tree without runs must not keep the server busy."""


@dataclass(frozen=True)
class _Kept:
    """An entry as long as the files of its folder have these stamps."""

    stamps: tuple[Stamp, ...]
    described: Described


class Shelf:
    """The runs of one folder. Threads may share it."""

    def __init__(self, root: Path, registry: Registry, followers: Followers) -> None:
        """Read nothing before the first `list`. `registry` knows the benchmarks of the runs.

        `followers` count the results of runs whose metrics.json is missing, or is of other results.
        """
        self.root = root.resolve()
        self._registry = registry
        self._followers = followers
        self._lock = threading.RLock()
        self._folders: dict[str, Path] = {}
        self._kept: dict[Path, _Kept] = {}

    def find(self) -> int:
        """Find the run folders anew, without reading them, and return their number."""
        with self._lock:
            folders = dict(_named(_find(self.root), self.root))
            latest = sorted(folders, key=lambda name: (-_changed(folders[name]), name))
            self._folders = {name: folders[name] for name in latest[:LISTED]}
            return len(folders)

    def list(self) -> RunList:
        """Find the runs anew and return them, the latest first."""
        with self._lock:
            number = self.find()
            self._kept = {folder: kept for folder, kept in self._kept.items() if folder in self._folders.values()}
            listed = [self._entry(name, folder) for name, folder in self._folders.items()]
        listed.sort(key=lambda entry: entry.name)
        listed.sort(key=lambda entry: entry.started, reverse=True)
        return RunList(self.root.name or str(self.root), listed, number - len(listed))

    def folder(self, name: str) -> Path | None:
        """Return the folder of a listed run, None for any other name."""
        if not self._folders:
            self.list()
        found = self._folders.get(name)
        if found is None:
            # A session may have started a moment ago.
            self.list()
            found = self._folders.get(name)
        return found

    def _entry(self, name: str, folder: Path) -> RunEntry:
        described = self._read(folder).described
        covered = described.covered
        if described.unreadable:
            return RunEntry(name, "unreadable", "", "", "", "", 0, 0, "", [], [], why=described.why)
        return RunEntry(
            name,
            state_of(folder, finished=covered.finished),
            described.model,
            described.label,
            described.started,
            described.finished,
            covered.number,
            described.selected,
            described.part,
            list(described.benchmarks),
            list(described.numbers),
            described.gate,
            described.stale,
            described.unchecked,
            described.why,
            covered.errors,
            described.stopped,
        )

    def _read(self, folder: Path) -> _Kept:
        selected = selected_files(folder)
        stamps = tuple(entries.stamp(path) for path in (*(folder / name for name in entries.COUNTED), *selected))
        kept = self._kept.get(folder)
        if kept is None or kept.stamps != stamps:
            described = entries.describe(folder, self._registry, partial(self._followers.of, folder))
            kept = self._kept[folder] = _Kept(stamps, described)
        return kept


def _find(root: Path) -> Iterator[Path]:
    """Yield the run folders at and below a folder; links are not followed, and runs are not searched for others."""
    left, level = SCANNED, [root]
    for _ in range(DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            if any(os.path.lexists(folder / name) for name in (RESULTS, RUN)):
                yield folder
                continue
            try:
                with os.scandir(folder) as inside:
                    for entry in inside:
                        left -= 1
                        if left < 0:
                            return
                        if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                            below.append(Path(entry.path))
            except OSError:
                continue  # a folder of somebody else
        level = below


def _named(folders: Iterator[Path], root: Path) -> Iterator[tuple[str, Path]]:
    """Yield each folder with its name: its path below the root with "/". A name that is no Unicode is escaped."""
    taken: set[str] = set()
    for folder in folders:
        plain = folder.name if folder == root else folder.relative_to(root).as_posix()
        name = plain.encode("utf-8", "backslashreplace").decode()
        while name in taken:
            name += "+"
        taken.add(name)
        yield name, folder


def _changed(folder: Path) -> int:
    stamps = (entries.stamp(folder / name) for name in (RESULTS, RUN))
    return max((stamp[2] for stamp in stamps if stamp is not None), default=0)
