"""Bring the files of benchmarks to the data folder: compare present files, receive others, list the missing ones."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from medvqa import files
from medvqa.benchmarks import origins
from medvqa.fetching import archives, hub, manifest, parts, pmc, progress
from medvqa.fetching.manifest import FileNote
from medvqa.fetching.web import Manners, NotFetched, Stopped, Web, shown
from medvqa.figures import data_size
from medvqa.image import MAX_BYTES
from medvqa.items import Benchmark, DataError, Origin, OriginFile, UsageError

MOST = 2**37
"""Limit in bytes of a file of unknown size; the largest known archive has 19 GB."""
SMALL = 2**28
"""Files up to this many bytes are read and compared by every call, larger ones only if they have changed."""
LOCAL = "from:"
"""Start of an address in `OriginFile.also` that is a path below a folder of --from."""
IMAGES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".tif", ".tiff", ".webp"})
MANNERS = Manners()


@dataclass(frozen=True, slots=True)
class Wish:
    """A file that one or several benchmarks need."""

    file: OriginFile
    origin: Origin
    benchmarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lacking:
    """A file, or a benchmark, that could not be had, and why."""

    name: str
    reason: str


@dataclass(slots=True)
class Fetched:
    """The end of a call: notes of the files that are there, by `OriginFile.to`, and a list of those that are not.

    `received` are the files of this call. `present` are benchmarks that are there although nothing is known about
    their files, `nothing` those that need none.
    """

    wishes: list[Wish] = field(default_factory=list)
    notes: dict[str, FileNote] = field(default_factory=dict)
    received: set[str] = field(default_factory=set)
    lacking: list[Lacking] = field(default_factory=list)
    nothing: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)


def wishes_of(benchmarks: Sequence[Benchmark]) -> list[Wish]:
    """Return the files of benchmarks, each once, in their order."""
    wishes: dict[str, Wish] = {}
    for benchmark in benchmarks:
        origin = benchmark.origin
        # A benchmark that reads no files needs none, such as the phantom.
        if origin is None or not origins.needs_files(benchmark):
            continue
        for file in origin.files:
            before = wishes.get(file.to, Wish(file, origin, ()))
            wishes[file.to] = replace(before, benchmarks=(*before.benchmarks, benchmark.name))
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
    done = Fetched(wishes=wishes_of(benchmarks))
    if folders or not offline:
        try:
            data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{data}: the data folder cannot be made: {error.strerror}") from error
    _without_files(benchmarks, data, done)
    with progress.show() as bars:
        fetcher = _Fetcher(data, folders, mirrors or {}, manners or MANNERS, bars, offline=offline)
        done.wishes = [wish for pattern in done.wishes for wish in fetcher.expanded(pattern, done)]
        bars.expect(len(done.wishes))
        missing = [wish for wish in done.wishes if not fetcher.look(wish, _strangers(wish, benchmarks, data), done)]
        for line in _elsewhere(missing, benchmarks, folders):
            bars.tell(line)
        fetcher.bring(missing, done)
    order = {wish.file.to: number for number, wish in enumerate(done.wishes)}
    done.lacking.sort(key=lambda lacking: order.get(lacking.name, -1))
    return done


def _without_files(benchmarks: Sequence[Benchmark], data: Path, done: Fetched) -> None:
    """Add the benchmarks without files in `origin` to the lists of `done`."""
    for benchmark in benchmarks:
        origin = benchmark.origin
        if not origins.needs_files(benchmark):
            done.nothing.append(benchmark.name)
        elif origin is not None and origin.files:
            continue
        elif data.is_dir() and origins.files_of(benchmark, data):
            done.present.append(benchmark.name)
        else:
            reason = origins.how_to_obtain(benchmark)
            done.lacking.append(Lacking(benchmark.name, reason or "its `origin` names no files"))


def _strangers(wish: Wish, benchmarks: Sequence[Benchmark], data: Path) -> Iterator[Path]:
    """Yield files that a benchmark would read and that are none of its released names: the release under another."""
    for benchmark in benchmarks:
        if benchmark.name in wish.benchmarks and benchmark.origin and data.is_dir():
            released = [hub.pattern(str(data / file.to)) for file in benchmark.origin.files]
            for path in origins.files_of(benchmark, data):
                if not any(one.fullmatch(str(path)) for one in released):
                    yield path


def _elsewhere(missing: Sequence[Wish], benchmarks: Sequence[Benchmark], folders: Sequence[Path]) -> Iterator[str]:
    """Yield a line for each benchmark that another tool's folder may hold."""
    for benchmark in benchmarks:
        folder = origins.elsewhere(benchmark)
        wanted = any(benchmark.name in wish.benchmarks for wish in missing)
        if wanted and folder is not None and folder not in folders and origins.files_of(benchmark, folder):
            yield f"{folder} holds files of {benchmark.name}; --from={folder} takes them if they are the released ones"


def whence(wish: Wish) -> str:
    """Return the store, the page or the address that a file comes from."""
    at = wish.file.at
    if at.startswith(pmc.SCHEME):
        return f"PubMed Central's open-data store, {pmc.STORE}"
    return shown(at) if "://" in at else f"{hub.ENDPOINT}/datasets/{wish.origin.hub}"


def place(data: Path, to: str) -> Path:
    """Return the path of a file in the data folder, whose folders are made (NotFetched if it would leave it, OSError).

    A link in the place of a folder is refused: nothing is written outside.
    """
    *parents, name = names_of(to)
    folder = data
    for parent in parents:
        folder = files.subfolder(folder, parent)
    return folder / name


def names_of(to: str) -> list[str]:
    """Return the parts of a path in the data folder (NotFetched for a path that is none)."""
    names = to.split("/")
    if not to.isprintable() or "\\" in to or any(name in ("", ".", "..") for name in names):
        raise NotFetched(f"{to!r} is no path in the data folder")
    return names


class _Fetcher:
    """One call: the data folder, the servers, and the progress."""

    def __init__(
        self,
        data: Path,
        folders: Sequence[Path],
        mirrors: Mapping[str, str],
        manners: Manners,
        bars: progress.FetchProgress,
        *,
        offline: bool,
    ) -> None:
        self._data = data
        self._offline = offline
        self._folders = folders
        self._bars = bars
        self._web = Web(manners, mirrors, tell=bars.tell)
        self._store = pmc.ArticleStore(self._web)
        self._hub = hub.from_environment()
        self._notes: dict[Path, dict[str, FileNote]] = {}

    # --- patterns -----------------------------------------------------------------------------------------------

    def expanded(self, wish: Wish, done: Fetched) -> list[Wish]:
        """Return the files that a pattern such as data/*.parquet stands for; any other wish as it is."""
        file = wish.file
        if "*" not in file.at:
            return [wish]
        expression = hub.pattern(file.to)
        noted = {to: note for to, note in self._known(file.to).items() if expression.fullmatch(to)}
        counted = self._note(file.to)
        if counted is not None and counted.unpacked == len(noted):
            return [self._renamed(wish, to, note.checked) for to, note in sorted(noted.items())]
        if not (self._offline or self._hub.offline):
            try:
                files_of = hub.listed(self._web, self._hub, wish.origin, file)
                place(self._data, file.to)
                self._write(file.to, FileNote(self._relative(file.to), 0, "", 0, unpacked=len(files_of)), counted)
                return [replace(wish, file=one) for one in files_of]
            except (NotFetched, OSError) as error:
                done.lacking.append(Lacking(file.to, _reason(error)))
        found = self._found(file, noted)
        number = counted.unpacked if counted is not None and counted.unpacked is not None else len(found) or None
        if file.to not in (lacking.name for lacking in done.lacking) and len(found) != number:
            missing = (
                "it comes" if number is None else f"{number - len(found)} of {number} files are missing; they come"
            )
            done.lacking.append(Lacking(file.to, f"{missing} from {whence(wish)}"))
        return [self._renamed(wish, to, noted[to].checked if to in noted else "") for to in found]

    def _known(self, to: str) -> dict[str, FileNote]:
        """Return the notes of the folder of a file, by path in the data folder."""
        folder, name = manifest.folder_of(self._data, to)
        self._note(to)
        return {to.removesuffix(name) + note.to: note for note in self._notes[folder].values() if "*" not in note.to}

    def _found(self, file: OriginFile, noted: Mapping[str, FileNote]) -> list[str]:
        """Return the files of a pattern that are noted, or lie in the data folder or in a folder of --from."""
        parent, _, last = file.to.rpartition("/")
        places = [self._data / parent]
        for folder in self._folders:
            places += [folder / parent, folder / parent.partition("/")[2], (folder / file.at).parent]
        return sorted({*noted, *(f"{parent}/{path.name}" for place in places for path in place.glob(last))})

    def _renamed(self, wish: Wish, to: str, digest: str) -> Wish:
        at = f"{wish.file.at.rpartition('/')[0]}/{to.rpartition('/')[2]}".lstrip("/")
        return replace(wish, file=replace(wish.file, to=to, at=at, digest=digest))

    # --- files that are there ---------------------------------------------------------------------------------

    def look(self, wish: Wish, strangers: Iterator[Path], done: Fetched) -> bool:
        """Return whether nothing is to be fetched: the file is there, or a wrong one is in its place."""
        file = wish.file
        try:
            path = self._data.joinpath(*names_of(file.to))
            note = self._present(path, file)
            if note is None and file.digest:
                note = next((found for one in strangers if (found := self._same(one, file)) is not None), None)
            if note is None:
                note = self._unpacked(file)
            if note is not None and path.exists() and not self._is_unpacked(file, note):
                note = self._unpack(file, path, note)
        except (NotFetched, OSError) as error:
            self._bars.ended(file.to)
            done.lacking.append(Lacking(file.to, _reason(error)))
            return True
        if note is None:
            return False
        done.notes[file.to] = note
        self._bars.ended(file.to)
        return True

    def _present(self, path: Path, file: OriginFile) -> FileNote | None:
        """Return the note of a file in its place, None if there is none; NotFetched for a wrong one."""
        if not os.path.lexists(path):
            return None
        move = "move it away to fetch it again"
        if not path.is_file():
            raise NotFetched(f"{path} is in the way: it is not a file; {move}")
        status = path.stat()
        if file.size and status.st_size != file.size:
            raise NotFetched(f"{path} has {status.st_size:,} bytes, and the release {file.size:,}; {move}")
        name, _, expected = file.digest.partition(":")
        noted = self._note(file.to)
        unchanged = noted is not None and (noted.size, noted.modified) == (status.st_size, status.st_mtime_ns)
        if noted is not None and unchanged and status.st_size > SMALL and noted.checked == file.digest:
            return noted
        digests = self._digests(path, status.st_size, {"sha256", *([name] if name else [])})
        if expected and digests[name] != expected.lower():
            raise NotFetched(f"{path} is not the released file: its {name} is {digests[name]}, not {expected}; {move}")
        if not expected and noted is not None and noted.sha256 != digests["sha256"]:
            raise NotFetched(f"{path} has changed since {noted.at or 'it was fetched'}; {move}")
        note = self._new(file, path, digests["sha256"], noted.source if noted else "")
        if noted is not None:
            note = replace(note, unpacked=noted.unpacked, at=noted.at)
        self._write(file.to, note, noted)
        return note

    def _same(self, path: Path, file: OriginFile) -> FileNote | None:
        """Return the note of a file of another name if it has the digest of the release."""
        status = path.stat()
        if file.size and status.st_size != file.size:
            return None
        to = path.relative_to(self._data).as_posix()
        noted = self._note(to)
        name = file.digest.partition(":")[0]
        unchanged = noted is not None and (noted.size, noted.modified) == (status.st_size, status.st_mtime_ns)
        if noted is not None and unchanged and noted.checked.startswith(f"{name}:"):
            return noted if noted.checked == file.digest.lower() else None
        digests = self._digests(path, status.st_size, {"sha256", name})
        checked = f"{name}:{digests[name]}"
        note = self._new(replace(file, to=to, digest=checked), path, digests["sha256"], "")
        self._write(to, note, noted)
        return note if checked == file.digest.lower() else None

    def _unpacked(self, file: OriginFile) -> FileNote | None:
        """Return the note of an archive that was unpacked and removed."""
        noted = self._note(file.to)
        there = noted is not None and noted.checked == file.digest and self._is_unpacked(file, noted)
        return noted if file.unpack and there else None

    def _is_unpacked(self, file: OriginFile, note: FileNote) -> bool:
        """Return whether nothing is to be unpacked: all files of the archive are there, by their number."""
        if not file.unpack:
            return True
        folder = self._data.joinpath(*names_of(file.unpack))
        return note.unpacked is not None and note.unpacked <= sum(len(names) for _, _, names in os.walk(folder))

    def _digests(self, path: Path, size: int, names: set[str]) -> dict[str, str]:
        if size > SMALL:
            self._bars.tell(f"reads {path}, {data_size(size)}, to compare its digest")
        return manifest.digests_of(path, names)

    # --- files that are not -----------------------------------------------------------------------------------

    def bring(self, missing: Sequence[Wish], done: Fetched) -> None:
        """Receive files, several at a time; KeyboardInterrupt ends all, and leaves their parts."""
        waiting: queue.SimpleQueue[Wish] = queue.SimpleQueue()
        ended: queue.SimpleQueue[tuple[Wish, FileNote | Lacking] | BaseException | None] = queue.SimpleQueue()
        for wish in missing:
            waiting.put(wish)

        def work() -> None:
            try:
                while not self._web.stop.is_set():
                    wish = waiting.get_nowait()
                    ended.put((wish, self._outcome(wish)))
            except (queue.Empty, Stopped):
                pass
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                ended.put(error)
            finally:
                ended.put(None)

        # Daemons, so that a server that does not answer cannot hold up the end of the process.
        working = min(self._web.manners.jobs, len(missing))
        for number in range(working):
            threading.Thread(target=work, daemon=True, name=f"medvqa-fetch-{number}").start()
        try:
            while working:
                item = ended.get()
                if item is None:
                    working -= 1
                    continue
                if isinstance(item, BaseException):
                    raise item
                wish, outcome = item
                self._bars.ended(wish.file.to)
                if isinstance(outcome, Lacking):
                    done.lacking.append(outcome)
                    continue
                done.notes[wish.file.to] = outcome
                done.received.add(wish.file.to)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; type the same command again to go on") from None
        finally:
            self._web.stop.set()

    def _outcome(self, wish: Wish) -> FileNote | Lacking:
        """Return the note of a file that was received, or the reason why it was not (Stopped)."""
        try:
            return self._get(wish)
        except (NotFetched, DataError, OSError) as error:
            return Lacking(wish.file.to, _reason(error))

    def _get(self, wish: Wish) -> FileNote:
        file = wish.file
        note = self._copied(file)
        if note is None and self._offline:
            raise NotFetched(f"not asked for (offline); from {whence(wish)}")
        path = place(self._data, file.to)
        reasons: list[str] = []
        for at in (file.at, *(one for one in file.also if not one.startswith(LOCAL))):
            if note is not None:
                break
            try:
                source = self._source(wish.origin, file, at)
                most = MAX_BYTES if path.suffix.lower() in IMAGES else max(MOST, file.size)
                digest = parts.receive(
                    self._web, source, path, most=most, report=lambda n, size: self._bars.received(file.to, n, size)
                )
                note = self._new(file, path, digest, shown(source.url))
            except NotFetched as error:
                reasons.append(str(error))
        if note is None:
            raise NotFetched("; ".join(reasons))
        self._write(file.to, note, None)
        return self._unpack(file, path, note) if file.unpack else note

    def _source(self, origin: Origin, file: OriginFile, at: str) -> parts.FileAddress:
        """Return an address with all that is known about the file; NotFetched if server and release disagree."""
        if at.startswith(pmc.SCHEME):
            source = self._store.source(at)
        elif "://" in at:
            source = parts.FileAddress(at)
        elif self._hub.offline:
            raise NotFetched(f"not asked for (HF_HUB_OFFLINE is set); from {hub.ENDPOINT}/datasets/{origin.hub}")
        else:
            source = hub.source(self._web, self._hub, origin, at)
        if file.size and source.size not in (None, file.size):
            raise NotFetched(f"{self._web.named(source.url)} has {source.size:,} bytes, and the release {file.size:,}")
        name, _, expected = file.digest.partition(":")
        for digest in source.digests:
            if digest.startswith(f"{name}:") and digest != file.digest.lower():
                raise NotFetched(f"{self._web.named(source.url)} is another version: its {digest} is not {expected}")
        digests = dict.fromkeys((*([file.digest] if file.digest else []), *source.digests))
        return replace(source, size=file.size or source.size, digests=tuple(digests))

    def _copied(self, file: OriginFile) -> FileNote | None:
        """Return the note of a file that was copied from a folder of --from; None if none has it."""
        for folder in self._folders:
            for candidate in _candidates(folder, file):
                if not candidate.is_file():
                    continue
                path = place(self._data, file.to)
                if (digest := parts.copy(self._web, candidate, path, file.size, file.digest)) is not None:
                    return self._new(file, path, digest, str(candidate))
        return None

    def _unpack(self, file: OriginFile, path: Path, note: FileNote) -> FileNote:
        """Unpack an archive, and note the number of its files."""
        folder = place(self._data, f"{file.unpack}/-").parent

        def tick(done: int, total: int) -> None:
            if self._web.stop.is_set():
                raise Stopped
            self._bars.received(file.to, done, total)

        self._bars.tell(f"unpacks {file.to} to {folder}")

        count = archives.unpack(path, folder, tick)
        self._bars.tell(f"{file.to}: {count:,} file{'s' * (count != 1)} unpacked")
        unpacked = replace(note, unpacked=count)
        self._write(file.to, unpacked, note)
        return unpacked

    # --- notes ------------------------------------------------------------------------------------------------

    def _note(self, to: str) -> FileNote | None:
        folder, name = manifest.folder_of(self._data, to)
        if folder not in self._notes:
            self._notes[folder] = manifest.read(folder)
        return self._notes[folder].get(name)

    def _relative(self, to: str) -> str:
        return manifest.folder_of(self._data, to)[1]

    def _new(self, file: OriginFile, path: Path, sha256: str, source: str) -> FileNote:
        status = path.stat()
        name = self._relative(file.to)
        at = datetime.now(UTC).strftime("%Y-%m-%d")
        return FileNote(name, status.st_size, sha256, status.st_mtime_ns, source, file.digest, None, at)

    def _write(self, to: str, note: FileNote, before: FileNote | None) -> None:
        """Add a note to the list of its folder, unless it says nothing new; a folder may be read-only."""
        if note == before:
            return
        folder, name = manifest.folder_of(self._data, to)
        self._notes.setdefault(folder, manifest.read(folder))[name] = note
        try:
            manifest.write(folder, note)
        except OSError as error:
            self._bars.tell(f"{folder / manifest.NAME} cannot be written: {error.strerror}")


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
