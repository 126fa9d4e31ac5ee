"""The index of a run's results: a database of sqlite3 for each run, which ends with the server.

Lines that were appended to results.jsonl are added; after any other change the index is made anew. It holds names and
numbers, and no texts: a result is read from the file when it is asked for. `_database` is a temporary file of SQLite's
own, which has no name from the moment it is opened: nobody else can open it, and a killed server leaves none.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import msgspec

from medvqa import files, memory, metrics
from medvqa.items import Benchmark, DataError, Image, QuestionKey, Result, UsageError
from medvqa.records import run_folder, run_record, selected
from medvqa.records.coverage import Coverage, cover_numbers
from medvqa.records.run_folder import MAX_LINE, RESULTS, Mark
from medvqa.records.run_record import RUN, RunRecord
from medvqa.report.bundle.pictures import address, seen
from medvqa.view import searching
from medvqa.view.searching import holds, lines_with, plain_part

MINUTE = 60.0
"""Seconds over which a rate is taken."""
BATCH = 500
"""Lines that are added by one statement."""
INDEXES, ROWS = 64, 1_000_000
"""Indexes, and their results, that `RunIndexes` keeps."""
_TABLES = """
pragma journal_mode = memory;
pragma synchronous = off;
pragma cache_size = -1000;
create table results (
    row integer primary key, benchmark text, id text, technique text, variant text, sample integer, run text,
    outcome text, score real, truncated integer, seconds real, tokens real, place integer, length integer,
    chosen integer, unique (benchmark, id, technique, variant, sample)
);
create index by_place on results (place);
create index by_outcome on results (benchmark, technique, run, outcome, score, truncated, chosen);
create table images (address text primary key, place integer, length integer, position integer) without rowid;
create table selected (
    benchmark text, id text, technique text, variant text, sample integer,
    primary key (benchmark, id, technique, variant, sample)
) without rowid;
create table found (place integer primary key);
"""
"""`results`: the last of each key, in the order in which the keys first came. `chosen`: its key is one of `selected`.

`found`: places of the lines with the text that was searched last.
"""
_ADD = """
insert into results (benchmark, id, technique, variant, sample, run, outcome, score, truncated, seconds, tokens, place,
    length, chosen)
select *, exists (select 1 from selected
    where (benchmark, id, technique, variant, sample) = (column1, column2, column3, column4, column5))
from (values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
where true
on conflict do update set (run, outcome, score, truncated, seconds, tokens, place, length) = (excluded.run,
    excluded.outcome, excluded.score, excluded.truncated, excluded.seconds, excluded.tokens, excluded.place,
    excluded.length)
"""
_CHOOSE = """
update results set chosen = exists (
    select 1 from selected s where (s.benchmark, s.id, s.technique, s.variant, s.sample)
        = (results.benchmark, results.id, results.technique, results.variant, results.sample))
"""
_COUNT_SELECTED = "select benchmark, technique, count(*) from selected group by benchmark, technique"
_IN_ORDER = "order by benchmark, id, technique, variant, sample"
_OF_KEY = "(benchmark, id, technique, variant, sample) = (?, ?, ?, ?, ?)"
_COUNT = """
select benchmark, technique, run, outcome, count(*), total(score), count(score), sum(truncated), sum(chosen)
from results group by benchmark, technique, run, outcome
"""
Stamp = tuple[int, int, int, int] | None
"""Inode, size, and times of the last change of a file and of its status in ns; None without a file.

Equal stamps tell that a file is the one that was read. They never tell which of two files is older.
"""
Value = str | int | float | None


def stamp(path: Path) -> Stamp:
    """Return the stamp of a file, None if there is none. That of a link is its own: it may leave the served folder."""
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """UsageError if a file is a symbolic link: it may leave the served folder."""
    for name in names:
        if (folder / name).is_symlink():
            raise UsageError(f"{name} is a symbolic link, and is not followed: copy the file there")


class IndexRow(NamedTuple):
    """A row of the index, by which its result is read from the file."""

    row: int
    key: QuestionKey
    outcome: str
    place: int
    length: int


class RecordedImage(NamedTuple):
    """An image as a run recorded it, with its question and its position there."""

    key: QuestionKey
    position: int
    image: Image


class Count(NamedTuple):
    """Results of one benchmark, technique and outcome that name the same run; `score` is the sum of `scored` scores."""

    benchmark: str
    technique: str
    run: str
    outcome: str
    number: int
    score: float
    scored: int
    truncated: int
    chosen: int


class _IndexedLine(NamedTuple):
    values: tuple[Value, ...]
    images: list[tuple[str, int, int, int]]


def _line(line: bytes, place: int, run: RunRecord) -> _IndexedLine:
    """Return what the index keeps of a line (msgspec.DecodeError)."""
    result = run_folder.decode(line)
    answer, score, length = result.answer, result.score, len(line)
    usage = (answer.usage if answer is not None else None) or {}
    truncated = metrics.is_complete(result) is False
    seconds = answer.seconds if answer is not None else None
    about = (result.run, score.outcome, score.value, truncated, seconds, usage.get("output"), place, length)
    images = [(address(image), place, length, position) for position, image in enumerate(seen(result.item, run))]
    return _IndexedLine((*result.key, *about), [image for image in images if image[0]])


class RunIndex:
    """The index of one run folder, and the facts of its run.json. Threads may share it."""

    def __init__(self, folder: Path, titles: Mapping[str, str] = MappingProxyType({})) -> None:
        """Read nothing before `catch_up`. The folder may be missing; `titles`: of benchmarks, by name."""
        self.folder, self.titles = folder, titles
        self.path = folder / RESULTS
        self.problem = ""
        """Why results.jsonl or the index cannot be read, "" if they can or the file is missing."""
        # Rises over restarts of the server, too: a page that stays open must not take other results for its own.
        self.version = int(time.time() * 1000)
        """Rises with each change of the results."""
        self.run, self.run_problem = RunRecord(), ""
        """run.json, and why it cannot be read."""
        self.selected: Mapping[tuple[str, str], int] = {}
        """The number of selected questions, by benchmark and technique."""
        self._damage = ""
        self.lock = threading.RLock()
        """Held by who asks several things of one state."""
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.executescript(_TABLES)
        self._identity: tuple[int, int] | None = None
        self._proof: Mark | None = None
        self._changed: int | None = None
        self._end = self._taken = self.broken = 0
        self.torn = self._skipping = self._unended = False
        self._searched = ("", 0)
        self._run_stamp: object = ()
        self._selected_stamps: object = ()
        self._counts: tuple[object, list[Count]] = (None, [])
        self._digest = (-1, "")
        self._growth: deque[tuple[float, int]] = deque()

    def __del__(self) -> None:
        """Close the database, whose file is gone then."""
        self._database.close()

    @property
    def taken(self) -> int:
        """The number of lines with a result, also of those that later ones replace."""
        return self._taken

    # --- reading the files ------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Add what was appended to results.jsonl. A missing file is empty; one that cannot be read sets `problem`."""
        with self.lock:
            try:
                self._read_run()
                with files.reading(self.path, follow=False) as file:
                    self._add(file)
                self.problem = ""
            except FileNotFoundError:
                self._empty(None)
                self.problem = ""
            except OSError as error:
                self._empty(None)
                self.problem = f"{RESULTS} cannot be read: {error.strerror or error}"
            except sqlite3.Error as error:
                self.problem = f"the index of {RESULTS} cannot be kept: {error}"
                self._identity = self._proof = None

    @memory.no_cycle_search()
    def _add(self, file: BinaryIO) -> None:
        status = os.fstat(file.fileno())
        identity = status.st_dev, status.st_ino
        if identity != self._identity or not self._goes_on(file, status):
            self._empty(identity)
        before = self._end, self._taken, self.broken, self.torn
        file.seek(self._end)
        lines = self._lines(file)
        with self._database:
            self._database.execute("begin")
            while batch := list(islice(lines, BATCH)):
                self._database.executemany(_ADD, (line.values for line in batch))
                images = (image for line in batch for image in line.images)
                self._database.executemany("insert or replace into images values (?, ?, ?, ?)", images)
        self._proof, status = Mark.of(file, self._end), os.fstat(file.fileno())
        self._changed = status.st_mtime_ns if status.st_size == self._end else None
        self.version += before != (self._end, self._taken, self.broken, self.torn)
        if not self._growth or self._growth[-1][1] != self._taken:
            self._growth.append((time.monotonic(), self._taken))

    def _lines(self, file: BinaryIO) -> Iterator[_IndexedLine]:
        """Yield the results of the lines from `_end` on, which it moves; count what is no result."""
        self.torn = False
        while line := file.readline(MAX_LINE + 1):
            ended, self._unended = line.endswith(b"\n"), False
            if self._skipping or len(line) > MAX_LINE:
                self.broken += not self._skipping
                self._skipping = not ended
            elif line.strip():
                try:
                    entry = _line(line.removesuffix(b"\n"), self._end, self.run)
                except msgspec.DecodeError:
                    if not ended:
                        self.torn = True
                        return
                    self.broken += 1
                else:
                    self._taken += 1
                    yield entry
                    # A last line without its end that is a whole result counts, as `run_folder.read` has it.
                    self._unended = not ended
            elif not ended:
                return
            self._end += len(line)

    def _goes_on(self, file: BinaryIO, status: os.stat_result) -> bool:
        """Whether a file begins with what was read of it."""
        size = status.st_size
        if size < self._end or Mark.of(file, self._end) != self._proof:
            return False
        # Written to without having grown: a line was changed in its place.
        if size == self._end and self._changed not in (None, status.st_mtime_ns):
            return False
        # A last line that was whole without its end must have got it.
        return not self._unended or size == self._end or os.pread(file.fileno(), 1, self._end) == b"\n"

    def _empty(self, identity: tuple[int, int] | None) -> None:
        """Begin anew with another file, or without one."""
        self.version += bool(self._end or self.torn)
        self._identity, self._proof = identity, None
        self._end = self._taken = self.broken = 0
        self.torn = self._skipping = self._unended = False
        self._searched = ("", 0)
        self._growth.clear()
        self._database.executescript("delete from results; delete from images; delete from found;")

    def _read_run(self) -> None:
        """Read run.json and the selected keys, unless their files have the stamps of before."""
        if (now := stamp(self.folder / RUN)) != self._run_stamp:
            self._run_stamp = now
            try:
                refuse_links(self.folder, [RUN])
                run = run_record.read_run(self.folder)
                run_folder.check_scored(self.folder, run)
                self.run, self.run_problem = run, ""
            except UsageError as error:
                self.run, self.run_problem = RunRecord(), str(error)
        stamps = [(path, stamp(path)) for path in selected.selected_files(self.folder)]
        if stamps != self._selected_stamps:
            self._selected_stamps = stamps
            try:
                keys, self._damage = selected.selected(self.folder), ""
            except DataError as error:
                keys, self._damage = (), str(error)
            with self._database:
                self._database.execute("begin")
                self._database.execute("delete from selected")
                self._database.executemany("insert into selected values (?, ?, ?, ?, ?)", keys)
                self._database.execute(_CHOOSE)
            counts = self._rows(_COUNT_SELECTED)
            self.selected = {(benchmark, technique): number for benchmark, technique, number in counts}

    # --- asking -----------------------------------------------------------------------------------------------

    def _rows(self, query: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        with self.lock:
            return self._database.execute(query, values).fetchall()

    def number(self, where: str, values: Sequence[Value]) -> int:
        """Return the number of results for which a condition of SQL holds; all that others wrote is in `values`."""
        return int(self._rows(f"select count(*) from results where {where}", values)[0][0])  # noqa: S608

    def places(self, rest: str = _IN_ORDER, values: Sequence[Value] = ()) -> list[IndexRow]:
        """Return the rows that the rest of a query chooses; all that others wrote is in `values`."""
        columns = "row, outcome, place, length, benchmark, id, technique, variant, sample"
        rows = self._rows(f"select {columns} from results {rest}", values)  # noqa: S608
        return [IndexRow(row, QuestionKey(*key), outcome, place, length) for row, outcome, place, length, *key in rows]

    def results(self, places: Iterable[IndexRow]) -> Iterator[Result | None]:
        """Read results from the file; None for a line that has changed meanwhile.

        FileNotFoundError if the file was removed or replaced, OSError if it cannot be read.
        """
        with self._opened() as file:
            for _, key, _, place, length in places:
                try:
                    result = run_folder.decode(os.pread(file.fileno(), length, place))
                except msgspec.DecodeError:
                    yield None
                else:
                    yield result if result.key == key else None

    def _opened(self) -> BinaryIO:
        file = files.reading(self.path, follow=False)
        status = os.fstat(file.fileno())
        if (status.st_dev, status.st_ino) != self._identity:
            file.close()
            raise FileNotFoundError(2, "it was replaced", str(self.path))
        return file

    def image(self, name: str) -> RecordedImage | None:
        """Return the image with an `address`, None if the run has none (OSError)."""
        for place, length, position in self._rows(
            "select place, length, position from images where address = ?", [name]
        ):
            with self._opened() as file, suppress(msgspec.DecodeError, IndexError):
                result = run_folder.decode(os.pread(file.fileno(), length, place))
                if address(image := seen(result.item, self.run)[position]) == name:
                    return RecordedImage(result.key, position, image)
        return None

    def search(self, text: str) -> None:
        """Write the places of the lines whose question or response holds a text to the table `found`.

        The same text is searched only in lines that were added since. TimeoutError after `searching.SECONDS`.
        """
        text = text.lower()
        with self.lock, self._opened() as file:
            known, start = self._searched
            if known != text:
                self._searched, start = ("", 0), 0
                self._database.execute("delete from found")
            until = time.monotonic() + searching.SECONDS
            lines = lines_with(file, plain_part(text), start, self._end, until=until, fold=True)
            places = ((place,) for place, line in lines if holds(line, text))
            with self._database:
                self._database.execute("begin")
                self._database.executemany("insert or ignore into found values (?)", places)
            self._searched = (text, self._end)

    def counts(self) -> list[Count]:
        """Return the numbers of results read so far."""
        with self.lock:
            now = self.version, self._selected_stamps
            if self._counts[0] != now:
                self._counts = (now, [Count(*row) for row in self._rows(_COUNT)])
            return self._counts[1]

    def paces(self) -> list[tuple[float | None, float | None]]:
        """Return the seconds and the tokens of each answer, in the order of their lines."""
        return [
            (seconds, tokens) for seconds, tokens in self._rows("select seconds, tokens from results order by place")
        ]

    @property
    def unread(self) -> int:
        """The number of broken lines, with a torn last one."""
        return self.broken + self.torn

    def coverage(self) -> Coverage:
        """Catch up, and return the coverage of the run as it is now (DataError).

        Missing questions are counted, and not named.
        """
        with self.lock:
            self.catch_up()
            if self.problem:
                raise DataError(self.problem)
            counts, runs = self.counts(), Counter[str]()
            for count in counts:
                runs[count.run] += count.number
            chosen = sum(count.chosen for count in counts)
            wanted = sum(self.selected.values())
            return cover_numbers(
                self.run,
                wanted,
                runs.total(),
                wanted - chosen,
                self.unread,
                runs=runs,
                errors=sum(count.number for count in counts if count.outcome == "error"),
                damage=self._damage,
            )

    def decisive_digest(self) -> tuple[str, int]:
        """Return `run_folder.decisive_digest` of the results read so far; ("", 0) if they have changed since."""
        try:
            return run_folder.decisive_digest(result for result in self.results(self.places()) if result)
        except OSError:
            return "", 0

    def answers_digest(self) -> str:
        """Catch up, and return `run_folder.answers_digest` of the results (DataError)."""
        with self.lock:
            self.catch_up()
            if self.problem:
                raise DataError(self.problem)
            if self._digest[0] != self.version:
                try:
                    self._digest = (self.version, run_folder.replies_digest(self._replies()))
                except OSError as error:
                    raise DataError(f"{RESULTS} cannot be read: {error.strerror}") from error
            return self._digest[1]

    def _replies(self) -> Iterator[tuple[QuestionKey, str | None]]:
        places = self.places()
        for place, result in zip(places, self.results(places), strict=True):
            if result is None:
                raise DataError(f"{RESULTS} was changed while it was read: try again")
            yield place.key, result.answer.reply if result.answer is not None else None

    def __contains__(self, key: object) -> bool:
        """Whether the run has a result of a key."""
        return isinstance(key, QuestionKey) and self.number(_OF_KEY, key) > 0

    def rate(self) -> float | None:
        """Results that came a second, over the last minute as seen; None if none came."""
        now = time.monotonic()
        with self.lock:
            while len(self._growth) > 1 and self._growth[1][0] <= now - MINUTE:
                self._growth.popleft()
            if not self._growth:
                return None
            (began, before), (_, taken) = self._growth[0], self._growth[-1]
        elapsed = min(now - began, MINUTE) if len(self._growth) == 1 else now - began
        return (taken - before) / elapsed if taken > before and elapsed >= 1 else None


class RunIndexes:
    """The indexes of run folders, made when first asked for; those used least recently are given up."""

    def __init__(self, benchmarks: Mapping[str, Benchmark] = MappingProxyType({})) -> None:
        """Make no index yet; `benchmarks`: the known ones by name, which give titles."""
        self._titles = {name: benchmark.title or name for name, benchmark in benchmarks.items()}
        self._lock = threading.Lock()
        self._indexes: OrderedDict[Path, RunIndex] = OrderedDict()

    def of(self, folder: Path) -> RunIndex:
        """Return the index of a run folder, as far as it has read."""
        with self._lock:
            if folder not in self._indexes:
                self._indexes[folder] = RunIndex(folder, self._titles)
            self._indexes.move_to_end(folder)
            while len(self._indexes) > 1 and (len(self._indexes) > INDEXES or self._taken > ROWS):
                self._indexes.popitem(last=False)
            return self._indexes[folder]

    @property
    def _taken(self) -> int:
        return sum(index.taken for index in self._indexes.values())
