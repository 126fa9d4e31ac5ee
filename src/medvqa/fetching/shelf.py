"""Benchmarks as they lie in the data folder: there or not, whole or not."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from medvqa import benchmarks
from medvqa.benchmarks import folders
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
    def whole(self) -> bool:
        """Whether nothing is known to be missing or wrong."""
        return self.state in ("complete", "there")


def look(benchmark: Benchmark, data: Path | None, *, check: bool = False, tell: Tell = lambda text: None) -> ShelfEntry:
    """Return the state of a benchmark in a data folder, else in VLMEvalKit's.

    `check` counts the questions of large files, too, and computes the digest of each file for which the owners publish
    one.
    """
    entry = ShelfEntry(benchmark, "missing", data if benchmark.files is None else None)
    try:
        if benchmark.files is not None:
            own = benchmarks.folder_of(benchmark, data) if data is not None else None
            folder = own or benchmarks.folder_of(benchmark, None)
            paths = tuple(benchmark.files(folder)) if folder is not None else ()
            entry = replace(entry, folder=folder, lmu=own is None and folder is not None, paths=paths)
        if (searched := entry.folder or data) is not None:
            entry = replace(entry, released=_released(benchmark, searched, entry.paths, check, tell))
        sizes = {path: _bytes(path) for path in (*entry.paths, *entry.released.places.values())}
        if benchmark.files is not None and entry.folder is None:
            return replace(entry, size=sum(sizes.values()))
        items = _items(benchmark, entry.folder or Path(), entry.paths, check, tell)
    except (MedVQAError, OSError) as error:
        return replace(entry, state="incomplete" if entry.released.absent else "unreadable", problem=str(error))
    if items is None:
        return replace(entry, state=_state(benchmark, entry.released, None, True), size=sum(sizes.values()))
    pictures = {(image.name, image.path): _bytes(Path(image.path)) for item in items for image in item.images}
    sizes |= {Path(path): size for (_, path), size in pictures.items()}
    images = sum(size > 0 for size in pictures.values())
    state = _state(benchmark, entry.released, len(items), images == len(pictures))
    size = sum(sizes.values())
    return replace(entry, state=state, size=size, questions=len(items), images=images, named=len(pictures))


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
    fewer = benchmark.release is not None and questions is not None and questions < benchmark.release
    # Released tables may lie here under other names: if the questions are counted, the count decides.
    absent = bool(released.absent) and (questions is None or benchmark.release is None)
    if fewer or not all_images or absent or released.short or released.differing:
        return "incomplete"
    known = benchmark.release is not None or released.count or benchmark.files is None
    return "complete" if questions is not None and known else "there"


def _released(benchmark: Benchmark, folder: Path, paths: Iterable[Path], check: bool, tell: Tell) -> ReleasedFiles:
    """Compare the files of a folder with those of the owners (OSError)."""
    # The files of a pattern such as data/*.parquet are known to the hub alone.
    owners = [file for file in (benchmark.origin.files if benchmark.origin else ()) if "*" not in file.to]
    # The tables of a release may lie in the data folder itself.
    by_name = {path.name: path for path in paths}
    places = {file.to: path for file in owners if (path := _place(folder, file, by_name)) is not None}
    notes, outcomes = manifest.Notes(folder), dict[str, Digests]()
    absent, short, parts = list[str](), list[str](), list[str]()
    for file in owners:
        if (path := places.get(file.to)) is not None:
            outcomes[file.to] = _compared(file, path, notes.get(file.to), check, tell)
            if file.size and (size := _bytes(path)) != file.size:
                short.append(f"{file.to} ({size:,} of {file.size:,} bytes)")
            continue
        if not file.unpack:
            absent.append(file.to)
        if size := _bytes(PartFile(folder / file.to).path):
            parts.append(f"{file.to} ({size:,}{f' of {file.size:,}' if file.size else ''} bytes)")
    differing = tuple(name for name, outcome in outcomes.items() if outcome == "differ")
    worst: Digests = next((outcome for outcome in WORST if outcome in outcomes.values()), "")
    return ReleasedFiles(len(owners), places, tuple(absent), tuple(short), differing, tuple(parts), worst)


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
    known = note is not None and note.holds(path.stat()) and (not file.digest or note.checked == expected)
    return fine if known else "not checked"


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
    release, released = entry.benchmark.release, entry.released
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
    return (origin.apply if origin is not None else "") or benchmark.obtain


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
            if benchmark.elsewhere is not None and benchmark.files is not None
            for path in benchmark.files(folder)
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
        "release": entry.benchmark.release,
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
