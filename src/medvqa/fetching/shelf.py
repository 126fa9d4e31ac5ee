"""Benchmarks as they lie in the data folder: there or not, whole or not."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from medvqa import benchmarks
from medvqa.benchmarks import folders, origins
from medvqa.fetching import manifest
from medvqa.fetching.manifest import FileNote
from medvqa.fetching.parts import PartFile
from medvqa.image import inside
from medvqa.items import Benchmark, DataError, DataWarning, Item, MedVQAError, OriginFile

State = Literal["complete", "incomplete", "there", "missing", "unreadable"]
"""`there`: it can be evaluated, and nobody counted, or nobody knows how much there should be."""
Digests = Literal["differ", "not checked", "none published", "as fetched", "as released", ""]
"""Files that the owners publish no digest of are compared with the one that `medvqa fetch` recorded (`as fetched`)."""
WORST: tuple[Digests, ...] = ("differ", "not checked", "as released", "as fetched", "none published")
"""The first outcome of some file is that of a benchmark."""

LARGE = 2**28
"""Bytes of files whose questions are counted only on request: a table of 9 GB is read for minutes the first time."""

FETCH = "medvqa fetch"
Tell = Callable[[str], None]
"""Gets a line before a long step."""


@dataclass(frozen=True, slots=True)
class ReleasedFiles:
    """The owners' files of a benchmark, and those that are here.

    `places` are the paths of those here, by `OriginFile.to`. `absent` names the others, without archives: they may be
    unpacked and removed. `short` names files of another size than the owners', `differing` those of another digest.
    `parts` are files that `medvqa fetch` has received in part. `digests` is "" if no file is here.
    """

    count: int = 0
    places: Mapping[str, Path] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    digests: Digests = ""


@dataclass(frozen=True, slots=True)
class ShelfEntry:
    """A benchmark on this machine.

    `folder` is the data folder that holds it, None if it is missing; `lmu`: it is VLMEvalKit's. `paths` are the files
    that are read, `size` the bytes of all its files with images. `questions` and `images` count those that are there,
    None if nobody counted; `named` counts the images that the questions name. `problem` says why it cannot be read.
    """

    benchmark: Benchmark
    state: State
    folder: Path | None = None
    lmu: bool = False
    paths: tuple[Path, ...] = ()
    size: int = 0
    questions: int | None = None
    images: int | None = None
    named: int | None = None
    released: ReleasedFiles = field(default_factory=ReleasedFiles)
    problem: str = ""

    @property
    def release(self) -> int | None:
        """The number of questions in the owners' release, None if unknown."""
        return self.benchmark.origin.release if self.benchmark.origin is not None else None

    @property
    def whole(self) -> bool:
        """Whether nothing is known to be missing or wrong."""
        return self.state in ("complete", "there")


def look(benchmark: Benchmark, data: Path | None, *, check: bool = False, tell: Tell = lambda text: None) -> ShelfEntry:
    """Return the state of a benchmark in a data folder, else in VLMEvalKit's.

    `check` counts the questions of large files, too, and computes the digest of each file for which the owners publish
    one.
    """
    folder, paths, released, lmu = data, tuple[Path, ...](), ReleasedFiles(), False
    try:
        if origins.needs_files(benchmark):
            own = benchmarks.folder_of(benchmark, data) if data is not None else None
            folder = own or benchmarks.folder_of(benchmark, None)
            lmu = own is None and folder is not None
            paths = origins.files_of(benchmark, folder) if folder is not None else ()
        if folder is not None or data is not None:
            released = _released(benchmark, folder or data or Path(), paths, check, tell)
        if origins.needs_files(benchmark) and folder is None:
            here = sum(map(_bytes, released.places.values()))
            return ShelfEntry(benchmark, "missing", size=here, released=released)
        items = _items(benchmark, folder or Path(), paths, check, tell)
    except (MedVQAError, OSError) as error:
        state: State = "incomplete" if released.absent else "unreadable"
        return ShelfEntry(benchmark, state, folder, lmu, paths, 0, released=released, problem=str(error))
    pictures = {image.path: _bytes(Path(image.path)) for item in items or () for image in item.images}
    sizes = {path: _bytes(path) for path in (*paths, *released.places.values())}
    sizes |= {Path(path): size for path, size in pictures.items()}
    questions, images, named = None, None, None
    if items is not None:
        shown = {(image.name, image.path) for item in items for image in item.images}
        questions, named, images = len(items), len(shown), sum(pictures[path] > 0 for _, path in shown)
    return ShelfEntry(
        benchmark,
        _state(benchmark, released, questions, images == named),
        folder,
        lmu,
        paths,
        sum(sizes.values()),
        questions,
        images,
        named,
        released,
    )


def _items(benchmark: Benchmark, folder: Path, paths: Iterable[Path], check: bool, tell: Tell) -> Sequence[Item] | None:
    """The items, None if they are not counted, since their files are large."""
    if sum(map(_bytes, paths)) > LARGE:
        if not check:
            return None
        tell(f"counting the questions of {benchmark.name}")
    with warnings.catch_warnings():
        # Odd tags are the matter of a run.
        warnings.simplefilter("ignore", DataWarning)
        return benchmarks.load(benchmark, folder)


def _state(benchmark: Benchmark, released: ReleasedFiles, questions: int | None, all_images: bool) -> State:
    release = benchmark.origin.release if benchmark.origin is not None else None
    fewer = release is not None and questions is not None and questions < release
    # Released tables may lie here under other names: if the questions are counted, the count decides.
    absent = bool(released.absent) and (questions is None or release is None)
    if fewer or not all_images or absent or released.short or released.differing:
        return "incomplete"
    known = release is not None or released.count or not origins.needs_files(benchmark)
    return "complete" if questions is not None and known else "there"


def _released(benchmark: Benchmark, folder: Path, paths: Iterable[Path], check: bool, tell: Tell) -> ReleasedFiles:
    """Compare the files of a folder with those of the owners (OSError)."""
    # The files of a pattern such as data/*.parquet are known to the hub alone.
    files = benchmark.origin.files if benchmark.origin is not None else ()
    owners = tuple(file for file in files if "*" not in file.to)
    # The tables of a release may lie in the data folder itself.
    by_name = {path.name: path for path in paths}
    places = {file.to: path for file in owners if (path := _place(folder, file, by_name)) is not None}
    here = [(file, places[file.to]) for file in owners if file.to in places]
    lists = {manifest.folder_of(folder, file.to)[0] for file, _ in here}
    notes = {listed: manifest.read(listed) for listed in lists}
    outcomes: dict[str, Digests] = {}
    for file, path in here:
        listed, name = manifest.folder_of(folder, file.to)
        outcomes[file.to] = _compared(file, path, notes[listed].get(name), check, tell)
    differing = tuple(name for name, outcome in outcomes.items() if outcome == "differ")
    return ReleasedFiles(
        len(owners),
        places,
        tuple(file.to for file in owners if file.to not in places and not file.unpack),
        tuple(
            f"{file.to} ({_bytes(path):,} of {file.size:,} bytes)"
            for file, path in here
            if file.size and _bytes(path) != file.size
        ),
        differing,
        tuple(
            f"{file.to} ({size:,}{f' of {file.size:,}' if file.size else ''} bytes)"
            for file in owners
            if file.to not in places and (size := _bytes(PartFile(folder / file.to).path))
        ),
        next((outcome for outcome in WORST if outcome in outcomes.values()), ""),
    )


def _compared(file: OriginFile, path: Path, note: FileNote | None, check: bool, tell: Tell) -> Digests:
    """Compare a file with its published digest, else with the one that `medvqa fetch` recorded (OSError)."""
    expected = file.digest.lower() or (f"sha256:{note.sha256}" if note is not None else "")
    kind, _, digest = expected.partition(":")
    fine: Digests = "as released" if file.digest else "as fetched"
    if not digest:
        return "none published"
    if kind not in ("md5", "sha256"):
        raise DataError(f"{file.to}: the digest {file.digest!r} is neither md5:HEX nor sha256:HEX")
    if check:
        if _bytes(path) > LARGE:
            tell(f"reading {file.to}, {_bytes(path):,} bytes, for its digest")
        return fine if manifest.digests_of(path, {kind})[kind] == digest else "differ"
    status = path.stat()
    unchanged = note is not None and (note.size, note.modified) == (status.st_size, status.st_mtime_ns)
    known = note is not None and (not file.digest or note.checked == expected)
    return fine if unchanged and known else "not checked"


def _place(folder: Path, file: OriginFile, by_name: Mapping[str, Path]) -> Path | None:
    """The path of an owners' file, None if it is not there."""
    try:
        path = inside(folder, file.to, where=file.to)
    except DataError:
        return None
    return path if path.is_file() else by_name.get(Path(file.to).name)


def _bytes(path: Path) -> int:
    """The size of a file, 0 if there is none."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


def lacks(entry: ShelfEntry) -> list[str]:
    """Return phrases about the parts of a benchmark that are missing or differ."""
    release, released = entry.release, entry.released
    phrases = []
    if entry.state == "missing" and released.places:
        phrases.append(f"{len(released.places):,} of {released.count:,} files are there")
    if entry.questions is not None and release is not None and entry.questions < release:
        phrases.append(f"{entry.questions:,} of {release:,} questions")
    if entry.images is not None and entry.named is not None and entry.images < entry.named:
        phrases.append(f"{entry.images:,} of {entry.named:,} images")
    for names, text in (
        (released.absent if entry.state == "incomplete" else (), "not there"),
        (released.parts, "fetched in part"),
        (released.short, "of another size"),
        (released.differing, "with another digest"),
    ):
        if names:
            phrases.append(f"{text}: {names[0]}{f' and {len(names) - 1:,} more' if len(names) > 1 else ''}")
    return [*phrases, *([entry.problem] if entry.problem else [])]


def remedy(entry: ShelfEntry, where: str = "") -> str:
    """Return how to get what is missing, "" if nothing is; `where` names the data folder in the command to type."""
    benchmark, origin = entry.benchmark, entry.benchmark.origin
    if entry.state not in ("missing", "incomplete"):
        return ""
    if origin is not None and origin.files:
        return f"{FETCH} {benchmark.name}{where}{f' ({origin.terms})' if origin.terms else ''}"
    return origins.how_to_obtain(benchmark)


@dataclass(frozen=True, slots=True)
class LmuTables:
    """VLMEvalKit's folder: the tables in it that a benchmark reads, and the others, which are in its own form."""

    folder: Path
    read: tuple[str, ...]
    others: tuple[str, ...]


def lmu_tables(known: Iterable[Benchmark]) -> LmuTables | None:
    """Return the tables of VLMEvalKit's folder, None without it."""
    folder = folders.lmu_data()
    if folder is None:
        return None
    try:
        names = sorted(name for name in os.listdir(folder) if name.lower().endswith(".tsv"))
        read = {
            path.name
            for benchmark in known
            if benchmark.origin is not None and benchmark.origin.elsewhere is not None
            for path in origins.files_of(benchmark, folder)
        }
    except OSError:
        return None
    return LmuTables(folder, tuple(sorted(read)), tuple(name for name in names if name not in read))


def as_json(entry: ShelfEntry) -> dict[str, Any]:
    """Return an entry as a JSON object."""
    origin = entry.benchmark.origin
    return {
        "benchmark": entry.benchmark.name,
        "group": entry.benchmark.group,
        "state": entry.state,
        "questions": entry.questions,
        "release": entry.release,
        "images": entry.images,
        "images_named": entry.named,
        "bytes": entry.size,
        "files": [str(path) for path in entry.paths],
        "files_released": entry.released.count,
        "files_absent": list(entry.released.absent),
        "files_of_another_size": list(entry.released.short),
        "digests": entry.released.digests,
        "digests_that_differ": list(entry.released.differing),
        "licence": origin.licence if origin is not None else "",
        "home": origin.home if origin is not None else "",
        "folder": str(entry.folder) if entry.folder is not None else None,
        "vlmevalkit": entry.lmu,
        "problem": entry.problem,
        "remedy": remedy(entry),
    }
