"""Bring the files of benchmarks to the data folder: compare present files, receive others, list the missing ones."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from medvqa.benchmarks import origins
from medvqa.fetching import archives, hub, manifest, parts, pmc, progress
from medvqa.fetching.manifest import FileNote
from medvqa.fetching.parts import FileAddress
from medvqa.fetching.web import Manners, NotFetched, Stopped, Web, shown
from medvqa.image import MAX_BYTES
from medvqa.items import Benchmark, DataError, Origin, OriginFile, UsageError

MOST = 2**37
"""Limit in bytes of a file of unknown size; the largest known archive has 19 GB."""
LOCAL = "from:"
"""Start of an address in `OriginFile.also` that is a path below a folder of --from."""
IMAGES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".tif", ".tiff", ".webp"})
MANNERS = Manners()
MOVE = "move it away to fetch it again"


@dataclass(frozen=True, slots=True)
class Wish:
    """A file that one or several benchmarks need."""

    file: OriginFile
    origin: Origin
    benchmarks: tuple[Benchmark, ...]


@dataclass(slots=True)
class Fetched:
    """The end of a call: notes of the files that are there, by `OriginFile.to`, and reasons for those that are not.

    `received` are the files of this call. `lacking` has a file's path, or a benchmark's name, and the reason.
    """

    wishes: list[Wish] = field(default_factory=list)
    notes: dict[str, FileNote] = field(default_factory=dict)
    received: set[str] = field(default_factory=set)
    lacking: dict[str, str] = field(default_factory=dict)


def wishes_of(benchmarks: Sequence[Benchmark]) -> list[Wish]:
    """Return the files of benchmarks, each once, in their order."""
    wishes: dict[str, Wish] = {}
    for benchmark in benchmarks:
        origin = benchmark.origin
        # A benchmark that reads no files needs none, such as the phantom.
        if origin is None or not origins.needs_files(benchmark):
            continue
        for file in map(manifest.released, origin.files):
            before = wishes.get(file.to, Wish(file, origin, ()))
            wishes[file.to] = replace(before, benchmarks=(*before.benchmarks, benchmark))
    return list(wishes.values())


def fetch(
    benchmarks: Sequence[Benchmark],
    data: Path,
    *,
    folders: Sequence[Path] = (),
    mirrors: Mapping[str, str] | None = None,
    offline: bool = False,
    manners: Manners | None = None,
) -> Fetched:
    """Bring the files of benchmarks to the data folder, and return the present and the missing ones.

    `folders` are searched before servers are asked. `mirrors` maps hosts to base URLs that are used in their place.
    With `offline`, no server is asked. KeyboardInterrupt leaves parts, which the next call continues. UsageError for a
    data folder that cannot be written.
    """
    done = Fetched()
    if folders or not offline:
        try:
            data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{data}: the data folder cannot be made: {error.strerror}") from error
    done.lacking |= _without_files(benchmarks, data)
    with progress.show() as bars:
        web = Web(manners or MANNERS, mirrors or {}, tell=bars.tell)
        notes, store = manifest.Notes(data), pmc.ArticleStore(web)
        fetcher = _Fetcher(data, folders, web, bars, hub.from_environment(), store, notes, offline)
        done.wishes = [wish for pattern in wishes_of(benchmarks) for wish in fetcher.expanded(pattern, done)]
        bars.expect(len(done.wishes))
        missing = [wish for wish in done.wishes if not fetcher.look(wish, _strangers(wish, data), done)]
        for line in _elsewhere(missing, folders):
            bars.tell(line)
        fetcher.bring(missing, done)
    order = {wish.file.to: number for number, wish in enumerate(done.wishes)}
    done.lacking = dict(sorted(done.lacking.items(), key=lambda item: order.get(item[0], -1)))
    return done


def _without_files(benchmarks: Sequence[Benchmark], data: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each benchmark whose `origin` names no files and that is not there, and how to get it."""
    for benchmark in benchmarks:
        named = benchmark.origin is None or benchmark.origin.files or not origins.needs_files(benchmark)
        if not (named or (data.is_dir() and origins.files_of(benchmark, data))):
            yield benchmark.name, origins.how_to_obtain(benchmark) or "its `origin` names no files"


def _strangers(wish: Wish, data: Path) -> Iterator[Path]:
    """Yield files that a benchmark would read and that are none of its released names: the release under another."""
    for benchmark in wish.benchmarks if data.is_dir() else ():
        released = [hub.pattern(str(data / file.to)) for file in benchmark.origin.files] if benchmark.origin else []
        paths = origins.files_of(benchmark, data)
        yield from (path for path in paths if not any(one.fullmatch(str(path)) for one in released))


def _elsewhere(missing: Sequence[Wish], folders: Sequence[Path]) -> Iterator[str]:
    """Yield a line for each benchmark that another tool's folder may hold."""
    for name, benchmark in {each.name: each for wish in missing for each in wish.benchmarks}.items():
        folder = origins.elsewhere(benchmark)
        if folder is not None and folder not in folders and origins.files_of(benchmark, folder):
            yield f"{folder} holds files of {name}; --from={folder} takes them if they are the released ones"


def _whence(wish: Wish) -> str:
    """Return the store, the page or the address that a file comes from."""
    at = wish.file.at
    if at.startswith(pmc.SCHEME):
        return f"PubMed Central's open-data store, {pmc.STORE}"
    return shown(at) if "://" in at else f"{origins.HUB}/datasets/{wish.origin.hub}"


@dataclass(frozen=True, slots=True)
class _Fetcher:
    """One call: the data folder, the folders of --from, the servers, and the progress."""

    data: Path
    folders: Sequence[Path]
    web: Web
    bars: progress.FetchProgress
    hub: hub.Hub
    store: pmc.ArticleStore
    notes: manifest.Notes
    offline: bool

    # --- patterns -----------------------------------------------------------------------------------------------

    def expanded(self, wish: Wish, done: Fetched) -> list[Wish]:
        """Return the files that a pattern such as data/*.parquet stands for; any other wish as it is."""
        file = wish.file
        if "*" not in file.at:
            return [wish]
        pattern, beside = hub.pattern(file.to), self.notes.beside(file.to)
        found = {to: note.checked for to, note in beside.items() if to != file.to and pattern.fullmatch(to)}
        counted = self.notes.get(file.to)
        number = None if counted is None else counted.unpacked
        if number != len(found):
            if not (self.offline or self.hub.offline):
                try:
                    listed = hub.listed(self.web, self.hub, wish.origin, file)
                    parts.place(self.data, file.to)
                    name = manifest.folder_of(self.data, file.to)[1]
                    self._note(file.to, FileNote(name, 0, "", 0, unpacked=len(listed)))
                    return [replace(wish, file=one) for one in listed]
                except (NotFetched, OSError) as error:
                    done.lacking[file.to] = _reason(error)
            found = {to: found.get(to, "") for to in (*found, *self._matching(file))}
            number = number or len(found)
            if file.to not in done.lacking and not (found and len(found) == number):
                missing = f"{number - len(found)} of {number} files are missing; they come" if number else "it comes"
                done.lacking[file.to] = f"{missing} from {_whence(wish)}"
        parent = file.at.rpartition("/")[0]
        return [
            replace(wish, file=replace(file, to=to, at=f"{parent}/{Path(to).name}".lstrip("/"), digest=digest))
            for to, digest in sorted(found.items())
        ]

    def _matching(self, file: OriginFile) -> Iterator[str]:
        """Yield the files of a pattern that lie in the data folder or in a folder of --from."""
        places = [self.data / file.to, *(place for folder in self.folders for place in _candidates(folder, file))]
        to = file.to.rpartition("/")[0]
        yield from (f"{to}/{path.name}" for place in places for path in place.parent.glob(place.name))

    # --- files that are there ---------------------------------------------------------------------------------

    def look(self, wish: Wish, strangers: Iterator[Path], done: Fetched) -> bool:
        """Return whether nothing is to be fetched: the file is there, or a wrong one is in its place."""
        file = wish.file
        try:
            note = self._held(file, strangers)
        except (NotFetched, OSError) as error:
            done.lacking[file.to] = _reason(error)
        else:
            if note is None:
                return False
            done.notes[file.to] = note
        self.bars.ended(file.to)
        return True

    def _held(self, file: OriginFile, strangers: Iterator[Path]) -> FileNote | None:
        """Return the note of a file that is there, perhaps under another name or unpacked (NotFetched, OSError)."""
        path = self.data.joinpath(*parts.names_of(file.to))
        note = self._present(path, file)
        if note is None and file.digest:
            note = next((found for one in strangers if (found := self._same(one, file)) is not None), None)
        noted = self.notes.get(file.to)
        if note is None and noted is not None and file.unpack and noted.checked == file.digest:
            # The archive may have been removed.
            return noted if self._is_unpacked(file, noted) else None
        if note is not None and path.exists() and not self._is_unpacked(file, note):
            note = self._unpack(file, path, note)
        return note

    def _present(self, path: Path, file: OriginFile) -> FileNote | None:
        """Return the note of a file in its place, None if there is none; NotFetched for a wrong one."""
        if not os.path.lexists(path):
            return None
        if not path.is_file():
            raise NotFetched(f"{path} is in the way: it is not a file; {MOVE}")
        if file.size and (size := path.stat().st_size) != file.size:
            raise NotFetched(f"{path} has {size:,} bytes, and the release {file.size:,}; {MOVE}")
        kind, _, expected = file.digest.partition(":")
        noted, note = self.notes.get(file.to), self._compared(file.to, path, kind, small_too=True)
        if note.checked != file.digest:
            have = note.checked.partition(":")[2]
            raise NotFetched(f"{path} is not the released file: its {kind} is {have}, not {expected}; {MOVE}")
        if not kind and noted is not None and noted.sha256 != note.sha256:
            raise NotFetched(f"{path} has changed since {noted.at or 'it was fetched'}; {MOVE}")
        self._note(file.to, note)
        return note

    def _same(self, path: Path, file: OriginFile) -> FileNote | None:
        """Return the note of a file of another name if it has the digest of the release."""
        if file.size and path.stat().st_size != file.size:
            return None
        to, kind = path.relative_to(self.data).as_posix(), file.digest.partition(":")[0]
        note = self._compared(to, path, kind, small_too=False)
        self._note(to, note)
        return note if note.checked == file.digest else None

    def _compared(self, to: str, path: Path, kind: str, *, small_too: bool) -> FileNote:
        """Return the note of a file by its content; the noted one if it has not changed (`small_too` are read anew)."""
        status, noted = path.stat(), self.notes.get(to)
        known = noted is not None and noted.holds(status) and noted.checked.partition(":")[0] == kind
        if noted is not None and known and (status.st_size > manifest.LARGE or not small_too):
            return noted
        digests = manifest.digests_of(path, filter(None, ("sha256", kind)), self.bars.tell)
        checked = f"{kind}:{digests[kind]}" if kind else ""
        note = self._new(to, path, digests["sha256"], checked, noted.source if noted else "")
        return note if noted is None else replace(note, unpacked=noted.unpacked, at=noted.at)

    def _is_unpacked(self, file: OriginFile, note: FileNote) -> bool:
        """Return whether nothing is to be unpacked: all files of the archive are there, by their number."""
        if not file.unpack:
            return True
        folder = self.data.joinpath(*parts.names_of(file.unpack))
        return note.unpacked is not None and note.unpacked <= sum(len(names) for _, _, names in os.walk(folder))

    # --- files that are not -----------------------------------------------------------------------------------

    def bring(self, missing: Sequence[Wish], done: Fetched) -> None:
        """Receive files, several at a time; KeyboardInterrupt ends all, and leaves their parts."""
        waiting, ended = queue.SimpleQueue[Wish](), queue.SimpleQueue[tuple[Wish, FileNote | str | BaseException]]()
        for wish in missing:
            waiting.put(wish)

        def work() -> None:
            with suppress(queue.Empty, Stopped):
                while not self.web.stop.is_set():
                    wish = waiting.get_nowait()
                    ended.put((wish, self._outcome(wish)))

        # Daemons, so that a server that does not answer cannot hold up the end of the process.
        for number in range(min(self.web.manners.jobs, len(missing))):
            threading.Thread(target=work, daemon=True, name=f"medvqa-fetch-{number}").start()
        try:
            for _ in missing:
                wish, outcome = ended.get()
                self.bars.ended(wish.file.to)
                if isinstance(outcome, BaseException):
                    raise outcome
                if isinstance(outcome, str):
                    done.lacking[wish.file.to] = outcome
                else:
                    done.notes[wish.file.to] = outcome
                    done.received.add(wish.file.to)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; type the same command again to go on") from None
        finally:
            self.web.stop.set()

    def _outcome(self, wish: Wish) -> FileNote | str | BaseException:
        """Return the note of a file that was received, or the reason why it was not (Stopped)."""
        file = wish.file
        try:
            note = self._copied(file) or self._received(wish)
            self._note(file.to, note)
            return self._unpack(file, self.data / file.to, note) if file.unpack else note
        except Stopped:
            raise
        except (NotFetched, DataError, OSError) as error:
            return _reason(error)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            return error

    def _copied(self, file: OriginFile) -> FileNote | None:
        """Return the note of a file that was copied from a folder of --from; None if none has it."""
        for candidate in (path for folder in self.folders for path in _candidates(folder, file)):
            if candidate.is_file():
                path = parts.place(self.data, file.to)
                if (digest := parts.copy(candidate, path, file.size, file.digest)) is not None:
                    return self._new(file.to, path, digest, file.digest, str(candidate))
        return None

    def _received(self, wish: Wish) -> FileNote:
        """Return the note of a file that a server sent (NotFetched, OSError, Stopped)."""
        file = wish.file
        if self.offline:
            raise NotFetched(f"not asked for (offline); from {_whence(wish)}")
        path, reasons = parts.place(self.data, file.to), []
        most = MAX_BYTES if path.suffix.lower() in IMAGES else max(MOST, file.size)

        def report(received: int, size: int | None) -> None:
            self.bars.received(file.to, received, size)

        for at in (file.at, *(one for one in file.also if not one.startswith(LOCAL))):
            try:
                source = self._source(wish.origin, file, at)
                digest = parts.receive(self.web, source, path, most=most, report=report)
                return self._new(file.to, path, digest, file.digest, shown(source.url))
            except NotFetched as error:
                by_hub = "://" not in at and not at.startswith(pmc.SCHEME)
                explained = hub.explained(error, self.web, self.hub, wish.origin, at) if by_hub else error
                reasons.append(str(explained))
        raise NotFetched("; ".join(reasons))

    def _source(self, origin: Origin, file: OriginFile, at: str) -> FileAddress:
        """Return an address with all that is known about the file; NotFetched if server and release disagree."""
        if at.startswith(pmc.SCHEME):
            source = self.store.source(at)
        elif "://" in at:
            source = FileAddress(at)
        else:
            source = hub.source(self.web, self.hub, origin, at)
        released = replace(source, size=file.size or None, digests=(file.digest,) if file.digest else ())
        return released.agreeing(source.size, next(iter(source.digests), ""), self.web.named(source.url))

    def _unpack(self, file: OriginFile, path: Path, note: FileNote) -> FileNote:
        """Unpack an archive, and note the number of its files."""
        folder = parts.place(self.data, f"{file.unpack}/-").parent
        self.bars.tell(f"unpacks {file.to} to {folder}")
        count = archives.unpack(path, folder, lambda done, total: self.bars.received(file.to, done, total))
        self.bars.tell(f"{file.to}: {count:,} file{'s' * (count != 1)} unpacked")
        unpacked = replace(note, unpacked=count)
        self._note(file.to, unpacked)
        return unpacked

    # --- notes ------------------------------------------------------------------------------------------------

    def _new(self, to: str, path: Path, sha256: str, checked: str, source: str) -> FileNote:
        status, name = path.stat(), manifest.folder_of(self.data, to)[1]
        at = datetime.now(UTC).strftime("%Y-%m-%d")
        return FileNote(name, status.st_size, sha256, status.st_mtime_ns, source, checked, None, at)

    def _note(self, to: str, note: FileNote) -> None:
        """Add a note to the list of its folder; a folder may be read-only."""
        try:
            self.notes.put(to, note)
        except OSError as error:
            self.bars.tell(
                f"{manifest.folder_of(self.data, to)[0] / manifest.NAME} cannot be written: {error.strerror}"
            )


def _candidates(folder: Path, file: OriginFile) -> Iterator[Path]:
    """Yield the paths at which a folder of --from may hold a file."""
    yield folder / file.to
    yield folder / file.to.partition("/")[2]
    for at in (file.at, *file.also):
        if match := pmc.ADDRESS.fullmatch(at):
            yield folder / match[1] / match[2]
            yield from sorted(folder.glob(f"{match[1]}.*/{match[2]}"), reverse=True)
        elif "://" in at:
            yield folder / shown(at).rpartition("/")[2]
        else:
            yield folder / at.removeprefix(LOCAL)


def _reason(error: Exception) -> str:
    """Return the text of an error in one line."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error)
