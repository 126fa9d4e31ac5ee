"""The run folders below the served folder, listed with their numbers.

Folders are found by reading directories, never by joining a name of an address to a path: a run is looked up by its
name in the list. Entries are kept until a file of their folder changes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN
from medvqa.records.selected import selected_files
from medvqa.session.registry import Registry
from medvqa.view import entries
from medvqa.view.progress import state_of
from medvqa.view.run_index import RunIndexes, Stamp, stamp
from medvqa.view.shapes import RunEntry, RunList

LOOK, LONGEST_REST, RESTS = 1.0, 3.0, 4
"""Seconds between two looks at the folders, at least and at most, and how many times as long as one takes."""
LONGEST_LOOK = 2.0
"""Seconds of a look after which folders that are not listed yet wait for the next one, but for one."""
DEPTH = 3
"""Levels of folders below the served one in which runs are found."""
LISTED = 2_000
"""Most runs that are listed."""
SCANNED = 200_000
"""Most folders and files that are looked at: a tree without runs must not keep the server busy."""


@dataclass(frozen=True)
class _Listed:
    """An entry as long as the files of its folder have these stamps. `version`: of the list in which it was new."""

    stamps: tuple[Stamp, ...]
    described: RunEntry
    entry: RunEntry
    version: int


class RunFolders:
    """The runs of one folder. Threads may share it."""

    def __init__(self, root: Path, registry: Registry, indexes: RunIndexes) -> None:
        """Read nothing before the first `list`. `registry` knows the benchmarks of the runs.

        `indexes` count the results of runs whose metrics.json is missing, or is of other results.
        """
        self.root = root.resolve()
        self._registry = registry
        self._indexes = indexes
        self._lock = threading.RLock()
        self._folders: dict[str, Path] = {}
        self._number = 0
        self._listed: dict[str, _Listed] = {}
        self._gone: dict[str, int] = {}
        # Versions of a server that was started again are no versions of this one.
        self._first = self._version = int(time.time() * 1000)
        self._next_look = 0.0

    def find(self) -> int:
        """Find the run folders anew, without reading them, and return their number."""
        with self._lock:
            folders = dict(_named(_find(self.root), self.root))
            latest = sorted(folders, key=lambda name: (-_changed(folders[name]), name))
            self._folders = {name: folders[name] for name in latest[:LISTED]}
            self._number = len(folders)
            return self._number

    def list(self, since: int = 0) -> RunList:
        """Return the runs, the latest first: all, or those that have changed since `version` of an earlier list.

        Many pages ask: the folders are looked at every LOOK seconds at most, and mostly for a fifth of the time.
        """
        with self._lock:
            if time.monotonic() >= self._next_look:
                began = time.monotonic()
                self._look()
                took = time.monotonic() - began
                rest = LOOK if self._unread else min(max(LOOK, RESTS * took), LONGEST_REST)
                self._next_look = began + took + rest
            newer = self._first < since <= self._version
            after = since if newer else 0
            changed = [listed.entry for listed in self._listed.values() if listed.version > after]
            gone = tuple(sorted(name for name, version in self._gone.items() if newer and version > since))
            left_out, unread, version = self._number - len(self._folders), self._unread, self._version
        changed.sort(key=lambda entry: entry.name)
        changed.sort(key=lambda entry: entry.started, reverse=True)
        return RunList(self.root.name or str(self.root), version, changed, left_out, newer, gone, unread)

    @property
    def _unread(self) -> int:
        return sum(name not in self._listed for name in self._folders)

    def folder(self, name: str) -> Path | None:
        """Return the folder of a listed run, None for any other name."""
        if name not in self._folders:
            self.find()  # A session may have started a moment ago.
        return self._folders.get(name)

    def _look(self) -> None:
        """Find the runs anew, and describe those of which a file has changed.

        New ones may have to be read whole: a page shows some of them before all are.
        """
        until, new = time.monotonic() + LONGEST_LOOK, 0
        self.find()
        self._version += 1
        gone = self._listed.keys() - self._folders.keys()
        self._gone = {name: version for name, version in self._gone.items() if name not in self._folders}
        self._gone |= dict.fromkeys(gone, self._version)
        listed = dict[str, _Listed]()
        for name, folder in self._folders.items():
            known = self._listed.get(name)
            if known is None and new and time.monotonic() > until:
                continue
            new += known is None
            listed[name] = self._described(name, folder, known)
        self._listed = listed

    def _described(self, name: str, folder: Path, known: _Listed | None) -> _Listed:
        paths = (*(folder / file for file in entries.COUNTED), *selected_files(folder))
        stamps = tuple(map(stamp, paths))
        if known is None or known.stamps != stamps:
            follow = partial(self._indexes.of, folder)
            described = entries.describe(name, folder, self._registry, follow)
        else:
            described = known.described
        entry = described
        if described.state != "unreadable":
            state = state_of(folder, finished=described.state == "finished")
            entry = msgspec.structs.replace(described, state=state)
        if known is not None and (known.stamps, known.entry) == (stamps, entry):
            return known
        return _Listed(stamps, described, entry, self._version)


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
    """Yield each folder with its name: its path below the root with "/". No Unicode and ends of lines are escaped."""
    taken: set[str] = set()
    for folder in folders:
        plain = folder.name if folder == root else folder.relative_to(root).as_posix()
        name = plain.encode("utf-8", "backslashreplace").decode().replace("\n", "\\n")
        while name in taken:
            name += "+"
        taken.add(name)
        yield name, folder


def _changed(folder: Path) -> int:
    stamps = (stamp(folder / name) for name in (RESULTS, RUN))
    return max((stamp[2] for stamp in stamps if stamp is not None), default=0)
