"""Follow the results of run folders: read what was appended, and keep a compact index of the lines.

`Follower` holds about 230 bytes a result, and no text but ids. A row is read from the file when it is asked for.
"""

from __future__ import annotations

import math
import os
import threading
import time
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np

from medvqa import files, metrics
from medvqa.items import OUTCOMES, TECHNIQUES, Benchmark
from medvqa.records import run_folder
from medvqa.records.coverage import Coverage
from medvqa.records.run_folder import MAX_LINE, RESULTS
from medvqa.view.facts import FactsReader, digest_of
from medvqa.view.searching import Searches
from medvqa.view.snapshot import SEPARATOR, TRUNCATED, Snapshot, identity_of

CHUNK = 2**20
"""Bytes that one `advance` reads, unless a line is longer."""
PROOF = 2**12
"""Bytes before the place reached that are compared, to notice a file that was rewritten in place."""
MINUTE = 60.0
"""Seconds over which a rate is taken."""
RACY = 2.0
"""A file changed within so many seconds may change again without a new time stamp."""
FOLLOWERS, ROWS = 64, 400_000
"""Followers, and their results, that `Followers` keeps."""

_OUTCOME = {outcome: number for number, outcome in enumerate(OUTCOMES)}
_TECHNIQUE = {technique: number for number, technique in enumerate(TECHNIQUES)}


class _IndexedLine(NamedTuple):
    """The indexed fields of one line."""

    digest: bytes
    id: bytes
    benchmark: str
    run: str
    technique: int
    outcome: int
    score: float
    marks: int
    offset: int
    length: int


def _entry(line: bytes, offset: int) -> _IndexedLine:
    """Return the fields of a line without its end (msgspec.DecodeError)."""
    result = run_folder.decode(line)
    score = result.score.value
    return _IndexedLine(
        digest_of(result.key),
        result.item.id.encode("utf-8", "surrogatepass"),
        result.item.benchmark,
        result.run,
        _TECHNIQUE[result.technique],
        _OUTCOME[result.score.outcome],
        math.nan if score is None else float(score),
        TRUNCATED if metrics.is_complete(result) is False else 0,
        offset,
        len(line),
    )


class _Codes:
    """Numbers of names, from 0."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))


class _Index:
    """The content of one file as far as it was read; a replaced file gets a new index."""

    def __init__(self, identity: tuple[int, int] | None) -> None:
        self.identity = identity
        self.end = 0
        # A last line without its end that is a whole result counts, as `run_folder.read` has it.
        self.tail = 0
        self.torn = self.skipping = False
        self.proof = b""
        self.broken = self.taken = 0
        self.rows: dict[bytes, int] = {}
        self.offsets, self.lengths = array("Q"), array("I")
        self.benchmarks, self.techniques, self.outcomes = array("I"), array("B"), array("B")
        self.scores, self.marks, self.runs = array("d"), array("B"), array("I")
        self.ids, self.starts = bytearray(), array("Q")
        self.benchmark_codes, self.run_codes = _Codes(), _Codes()

    @property
    def searchable(self) -> int:
        return self.end + self.tail

    @property
    def empty(self) -> bool:
        return not (self.end or self.tail or self.torn)

    def take(self, entry: _IndexedLine) -> None:
        """Note the last line of a key."""
        self.taken += 1
        row = self.rows.setdefault(entry.digest, len(self.offsets))
        if row == len(self.offsets):
            columns: tuple[array[Any], ...] = (self.offsets, self.lengths, self.benchmarks, self.techniques)
            for column in (*columns, self.outcomes, self.scores, self.marks, self.runs):
                column.append(0)
            self.starts.append(len(self.ids))
            self.ids += SEPARATOR + entry.id
        self.offsets[row], self.lengths[row] = entry.offset, entry.length
        self.benchmarks[row] = self.benchmark_codes.of(entry.benchmark)
        self.runs[row] = self.run_codes.of(entry.run)
        self.techniques[row], self.outcomes[row] = entry.technique, entry.outcome
        self.scores[row], self.marks[row] = entry.score, entry.marks


class Follower:
    """Follows results.jsonl of one run folder. One thread at a time advances it; any number reads snapshots."""

    def __init__(self, folder: Path, titles: Mapping[str, str] = MappingProxyType({})) -> None:
        """Read nothing before `advance`. The folder may be missing; `titles`: of benchmarks, by name."""
        self.folder, self.titles = folder, titles
        self.path = folder / RESULTS
        self.facts, self.searches = FactsReader(folder), Searches()
        self.problem = ""
        """Why the file cannot be read, "" if it can or is missing."""
        self.behind = True
        """Whether the file has more to read, as far as the last `advance` knows."""
        self._advancing, self._lock = threading.Lock(), threading.Lock()
        self._index = _Index(None)
        # Rises over restarts of the server, too: a page that stays open must not take other results for its own.
        self._version = int(time.time() * 1000)
        self._snapshot: Snapshot | None = None
        self._stamp: tuple[int, ...] | None = None
        self._growth: deque[tuple[float, int]] = deque()

    @property
    def version(self) -> int:
        """Rises with each change of the results."""
        return self._version

    def __len__(self) -> int:
        """Return the number of results read so far."""
        return len(self._index.offsets)

    def advance(self, limit: int = CHUNK) -> bool:
        """Read at most about `limit` appended bytes; return whether there are more to read.

        A file that is shorter than before, was replaced or rewritten is read anew; a missing one is empty. A file that
        cannot be read sets `problem`, and keeps what was read.
        """
        with self._advancing:
            self.behind = self._advance(limit)
            return self.behind

    def _advance(self, limit: int) -> bool:
        try:
            stamp = _stamp(self.path)
            if stamp is not None and stamp == self._stamp:
                return False
            with files.reading(self.path, follow=False) as file:
                more = self._read(file, limit)
        except FileNotFoundError:
            if not self._index.empty:
                self._replace(_Index(None))
            self.problem, self._stamp = "", None
            return False
        except OSError as error:
            self.problem, self._stamp = f"{RESULTS} cannot be read: {error.strerror or error}", None
            return False
        self.problem, self._stamp = "", None if more else stamp
        if not more:
            self._note_growth()
        return more

    def catch_up(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Advance to the end of the file, unless `stopped`."""
        while self.advance() and not stopped():
            pass

    def snapshot(self) -> Snapshot:
        """Return the index as read so far."""
        with self._lock:
            index, last = self._index, self._snapshot
            now = (self._version, index, index.searchable)
            if last is None or (last.version, last.reading, last.searchable) != now:
                last = self._snapshot = _snapshot(self.path, self._version, index)
            return last

    def coverage(self) -> Coverage:
        """Catch up, and return the coverage of the run as it is now."""
        self.catch_up()
        return self.facts.coverage(self.facts.read(), self.snapshot())

    def decisive_digest(self) -> tuple[str, int]:
        """Return `run_folder.decisive_digest` of the results read so far; ("", 0) if they have changed since."""
        snapshot = self.snapshot()
        try:
            return run_folder.decisive_digest(result for result in snapshot.results(range(len(snapshot))) if result)
        except OSError:
            return "", 0

    def rate(self, now: float | None = None) -> float | None:
        """Results that came a second, over the last minute as seen; None if none came. `now`: `time.monotonic()`."""
        now = time.monotonic() if now is None else now
        with self._lock:
            while len(self._growth) > 1 and self._growth[1][0] <= now - MINUTE:
                self._growth.popleft()
            if not self._growth:
                return None
            (began, before), (_, taken) = self._growth[0], self._growth[-1]
        elapsed = min(now - began, MINUTE) if len(self._growth) == 1 else now - began
        return (taken - before) / elapsed if taken > before and elapsed >= 1 else None

    # --- advancing --------------------------------------------------------------------------------------------

    def _read(self, file: BinaryIO, limit: int) -> bool:
        index, size = self._index, os.fstat(file.fileno()).st_size
        if not self._goes_on(file, size):
            index = _Index(identity_of(file))
            if self._index.empty:
                with self._lock:
                    self._index = index
            else:
                self._replace(index)
        if index.tail:
            if size == index.end + index.tail:
                return False
            with self._lock:
                index.end, index.tail = index.end + index.tail + 1, 0
        data = _whole_lines(file, index.end, limit)
        cut = data.rfind(b"\n") + 1
        if index.skipping:
            return self._skip(file, data)
        if len(data) > MAX_LINE and data.find(b"\n", 0, MAX_LINE) < 0:
            with self._lock:
                index.broken += 1
                index.skipping = True
            self._version += 1
            return self._skip(file, data)
        entries, broken = _decoded(data[:cut], index.end)
        at_end = index.end + len(data) >= size
        tail = data[cut:] if at_end else b""
        last, torn = _last(tail, index.end + cut)
        with self._lock:
            for entry in entries:
                index.take(entry)
            index.broken += broken
            index.end += cut
            if last is not None:
                index.take(last)
                index.tail = len(tail)
            changed = bool(entries or broken or last is not None or torn != index.torn)
            index.torn = torn
            self._prove(file)
            self._version += changed
        return not at_end

    def _skip(self, file: BinaryIO, data: bytes) -> bool:
        """Pass over a line that is too long; `data` begins within it."""
        index = self._index
        cut = data.find(b"\n") + 1
        with self._lock:
            index.skipping = not cut
            index.end += cut or len(data)
            self._prove(file)
        return index.end < os.fstat(file.fileno()).st_size

    def _goes_on(self, file: BinaryIO, size: int) -> bool:
        """Whether a file begins with what was read of it."""
        index = self._index
        reached = index.end + index.tail
        if index.identity != identity_of(file) or size < reached:
            return False
        if os.pread(file.fileno(), len(index.proof), reached - len(index.proof)) != index.proof:
            return False
        # A last line that was whole without its end must have got it.
        return not index.tail or size == reached or os.pread(file.fileno(), 1, reached) == b"\n"

    def _prove(self, file: BinaryIO) -> None:
        reached = self._index.end + self._index.tail
        length = min(PROOF, reached)
        self._index.proof = os.pread(file.fileno(), length, reached - length)

    def _replace(self, index: _Index) -> None:
        with self._lock:
            self._index = index
            self._version += 1
            self._growth.clear()

    def _note_growth(self) -> None:
        with self._lock:
            if not self._growth or self._growth[-1][1] != self._index.taken:
                self._growth.append((time.monotonic(), self._index.taken))


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Values that change with a file; None if it may change without them."""
    status = os.lstat(path)
    if abs(time.time() - status.st_mtime) < RACY:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _whole_lines(file: BinaryIO, start: int, limit: int) -> bytes:
    """Read `limit` bytes, or as many as it takes to reach the end of a line, the file, or the longest line."""
    data = os.pread(file.fileno(), limit, start)
    while b"\n" not in data and len(data) == limit and limit <= MAX_LINE:
        limit = min(4 * limit, MAX_LINE + 1)
        data = os.pread(file.fileno(), limit, start)
    return data


def _decoded(lines: bytes, start: int) -> tuple[list[_IndexedLine], int]:
    """Return the entries of whole lines, and the number of broken ones."""
    entries, broken = [], 0
    for line in lines.split(b"\n")[:-1]:
        if line.strip():
            try:
                entries.append(_entry(line, start))
            except msgspec.DecodeError:
                broken += 1
        start += len(line) + 1
    return entries, broken


def _last(tail: bytes, start: int) -> tuple[_IndexedLine | None, bool]:
    """Return the entry of a last line without its end, if it is whole, and whether it is torn."""
    if not tail.strip():
        return None, False
    try:
        return _entry(tail, start), False
    except msgspec.DecodeError:
        return None, True


def _snapshot(path: Path, version: int, index: _Index) -> Snapshot:
    names = tuple(index.run_codes.numbers)
    counts = np.bincount(np.array(index.runs, np.int64), minlength=len(names)) if names else ()
    columns: dict[str, Any] = {
        name: np.array(getattr(index, name))
        for name in ("offsets", "lengths", "benchmarks", "techniques", "outcomes", "scores", "marks", "starts")
    }
    return Snapshot(
        path=path,
        version=version,
        reading=index,
        identity=index.identity,
        end=index.end,
        tail=index.tail,
        unread=index.broken + index.torn,
        torn=index.torn,
        ids=bytes(index.ids),
        benchmark_names=tuple(index.benchmark_codes.numbers),
        runs={name: int(count) for name, count in zip(names, counts, strict=True) if count},
        keys=index.rows,
        **columns,
    )


class Followers:
    """The followers of run folders, made when first asked for; those used least recently are given up."""

    def __init__(self, benchmarks: Mapping[str, Benchmark] = MappingProxyType({})) -> None:
        """Follow nothing yet; `benchmarks`: the known ones by name, which give titles."""
        self._titles = {name: benchmark.title or name for name, benchmark in benchmarks.items()}
        self._lock = threading.Lock()
        self._followers: OrderedDict[Path, Follower] = OrderedDict()

    def of(self, folder: Path) -> Follower:
        """Return the follower of a run folder, as far as it has read."""
        with self._lock:
            follower = self._followers.setdefault(folder, Follower(folder, self._titles))
            self._followers.move_to_end(folder)
            while len(self._followers) > 1 and (
                len(self._followers) > FOLLOWERS or sum(map(len, self._followers.values())) > ROWS
            ):
                self._followers.popitem(last=False)
            return follower
