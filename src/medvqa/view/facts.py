"""The facts of a run folder that its progress needs beside the results: run.json, and the selected questions."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import msgspec

from medvqa.items import DataError, QuestionKey, UsageError
from medvqa.records import run_record, selected
from medvqa.records.coverage import Coverage, cover
from medvqa.records.run_record import RUN, RunRecord
from medvqa.view.snapshot import Snapshot

_encoder = msgspec.json.Encoder()


def digest_of(key: QuestionKey) -> bytes:
    """Return 16 bytes that stand for a key."""
    return blake2b(_encoder.encode(key), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class SelectedKeys:
    """The selected questions: digests of their keys, and their number by benchmark and technique.

    `problem`: why their files cannot be read, "" if they can.
    """

    keys: frozenset[bytes] = frozenset()
    parts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What run.json and the files of selected keys say. `problem`: why run.json cannot be read, "" if it can."""

    run: RunRecord
    chosen: SelectedKeys
    problem: str = ""

    @property
    def since(self) -> str:
        """Start of the last session, "" if unknown."""
        last = self.run.sessions[-1].started if self.run.sessions else ""
        return last or self.run.started

    def coverage(self, snapshot: Snapshot) -> Coverage:
        """Return the coverage of these results; missing questions are counted, and not named."""
        return cover(
            self.run,
            self.chosen.keys,
            snapshot.keys.keys(),
            snapshot.unread,
            runs=snapshot.runs,
            errors=snapshot.errors,
            damage=self.chosen.problem,
        )


class FactsReader:
    """Reads the facts of a run folder, again only if a file has changed. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Read nothing before `read`."""
        self._folder = folder
        self._lock = threading.Lock()
        self._run: tuple[object, RunRecord, str] = (None, RunRecord(), "")
        self._chosen: tuple[object, SelectedKeys] = (None, SelectedKeys())
        self._facts: tuple[object, Facts] | None = None
        self._coverage: tuple[Facts, int, Coverage] | None = None

    def read(self) -> Facts:
        """Return the facts as the files are now; the same object as long as they stay."""
        with self._lock:
            run = _stamps([self._folder / RUN])
            if run != self._run[0]:
                self._run = (run, *_run(self._folder))
            chosen = _stamps(selected.selected_files(self._folder))
            if chosen != self._chosen[0]:
                self._chosen = (chosen, _chosen(self._folder))
            if self._facts is None or self._facts[0] != (run, chosen):
                self._facts = ((run, chosen), Facts(self._run[1], self._chosen[1], self._run[2]))
            return self._facts[1]

    def coverage(self, facts: Facts, snapshot: Snapshot) -> Coverage:
        """Return `Facts.coverage` of some results, worked out once: it looks at every key."""
        known = self._coverage
        if known is None or known[0] is not facts or known[1] != snapshot.version:
            known = self._coverage = (facts, snapshot.version, facts.coverage(snapshot))
        return known[2]


def _stamps(paths: list[Path]) -> tuple[object, ...]:
    """Values that change if one of some files is replaced."""
    stamps: list[object] = []
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue
        stamps.append((path.name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return tuple(stamps)


def _run(folder: Path) -> tuple[RunRecord, str]:
    if (folder / RUN).is_symlink():
        return RunRecord(), f"{RUN} is a symbolic link"
    try:
        return run_record.read_run(folder), ""
    except UsageError as error:
        return RunRecord(), str(error)


def _chosen(folder: Path) -> SelectedKeys:
    keys, parts = set[bytes](), Counter[tuple[str, str]]()
    try:
        for key in selected.each_selected(folder):
            digest = digest_of(key)
            if digest not in keys:
                keys.add(digest)
                parts[key.benchmark, key.technique] += 1
    except DataError as error:
        return SelectedKeys(problem=str(error))
    return SelectedKeys(frozenset(keys), dict(parts))
