"""Benchmarks as they lie in the data folder: there or not, whole or not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from medvqa import benchmarks
from medvqa.benchmarks import origins
from medvqa.fetching import manifest
from medvqa.fetching.manifest import FileNote
from medvqa.fetching.parts import PartFile
from medvqa.image import inside
from medvqa.items import Benchmark, DataError, DataWarning, Item, MedVQAError, Origin, OriginFile

State = Literal["complete", "incomplete", "there", "missing", "unreadable"]
"""`there`: it can be evaluated, and nobody counted, or nobody knows how much there should be."""
Digests = Literal["differ", "not checked", "as released", "as fetched", "none published", ""]
"""The first that holds for some file is that of a benchmark.

Files that the owners publish no digest of are compared with the one that `medvqa fetch` recorded (`as fetched`).
"""

FETCH = "medvqa fetch"
Tell = Callable[[str], None]
"""Gets a line before a long step."""


@dataclass(frozen=True, slots=True)
class ShelfEntry:
    """A benchmark on this machine, as `medvqa data --json` writes it.

    `folder` is the data folder that holds it, None if it is missing; `vlmevalkit`: it is VLMEvalKit's. `files` are
    those that are read, `bytes` the size of all its files with images. `questions` and `images` count those that are
    there, None if nobody counted; `images_named` counts the images that the questions name. The owners' files are
    `files_released`, of which `files_there` lie here; `files_absent` names the others, without archives, which may be
    unpacked and removed, and `files_in_part` those that `medvqa fetch` has received in part. `digests` is "" if no file
    is here. `problem` says why it cannot be read, `remedy` how to get what is missing, "" if nothing is.
    """

    benchmark: str
    group: str
    state: State
    release: int | None
    folder: str | None = None
    vlmevalkit: bool = False
    files: tuple[str, ...] = ()
    bytes: int = 0
    questions: int | None = None
    images: int | None = None
    images_named: int | None = None
    files_released: int = 0
    files_there: int = 0
    files_absent: tuple[str, ...] = ()
    files_in_part: tuple[str, ...] = ()
    files_of_another_size: tuple[str, ...] = ()
    digests: Digests = ""
    digests_that_differ: tuple[str, ...] = ()
    licence: str = ""
    home: str = ""
    problem: str = ""
    remedy: str = ""

    @property
    def whole(self) -> bool:
        """Whether nothing is known to be missing or wrong."""
        return self.state in ("complete", "there")

    def lacks(self) -> list[str]:
        """Return phrases about the parts that are missing or differ."""
        phrases = []
        if self.state == "missing" and self.files_there:
            phrases.append(f"{self.files_there:,} of {self.files_released:,} files are there")
        if self.questions is not None and self.release is not None and self.questions < self.release:
            phrases.append(f"{self.questions:,} of {self.release:,} questions")
        if self.images is not None and self.images_named is not None and self.images < self.images_named:
            phrases.append(f"{self.images:,} of {self.images_named:,} images")
        for names, text in (
            (self.files_absent if self.state == "incomplete" else (), "not there"),
            (self.files_in_part, "fetched in part"),
            (self.files_of_another_size, "of another size"),
            (self.digests_that_differ, "with another digest"),
        ):
            if names:
                phrases.append(f"{text}: {names[0]}{f' and {len(names) - 1:,} more' if len(names) > 1 else ''}")
        return [*phrases, *([self.problem] if self.problem else [])]


def look(benchmark: Benchmark, data: Path | None, *, check: bool = False, tell: Tell = lambda text: None) -> ShelfEntry:
    """Return the state of a benchmark in a data folder, else in VLMEvalKit's.

    `check` counts the questions of large files, too, and computes the digest of each file for which the owners publish
    one.
    """
    origin = benchmark.origin or Origin()
    name, group = benchmark.name, benchmark.group
    entry = ShelfEntry(name, group, "missing", origin.release, licence=origin.licence, home=origin.home)
    paths, sizes = tuple[Path, ...](), dict[Path, int]()
    needs_files = origins.needs_files(benchmark)
    try:
        folder = data
        if needs_files:
            own = benchmarks.folder_of(benchmark, data) if data is not None else None
            folder = own or benchmarks.folder_of(benchmark, None)
            paths = origins.files_of(benchmark, folder) if folder is not None else ()
            entry = replace(entry, vlmevalkit=own is None and folder is not None, files=tuple(map(str, paths)))
        sizes = {path: _bytes(path) for path in paths}
        entry = replace(entry, folder=None if folder is None else str(folder))
        if (searched := folder or data) is not None:
            entry = _compared(entry, benchmark, searched, sizes, check, tell)
        if folder is not None or not needs_files:
            items = _items(benchmark, folder or Path(), paths, check, tell)
            entry = _counted(entry, items, sizes)
            entry = replace(entry, state=_state(entry, needs_files))
        entry = replace(entry, bytes=sum(sizes.values()))
    except (MedVQAError, OSError) as error:
        entry = replace(entry, state="incomplete" if entry.files_absent else "unreadable", problem=str(error))
    if entry.whole or entry.state == "unreadable":
        return entry
    command = f"{FETCH} {name}{f' ({origin.terms})' if origin.terms else ''}"
    return replace(entry, remedy=command if origin.files else origins.how_to_obtain(benchmark))


def _counted(entry: ShelfEntry, items: Sequence[Item] | None, sizes: dict[Path, int]) -> ShelfEntry:
    """Count questions and images, and add these to the `sizes` of files."""
    if items is None:
        return entry
    pictures = {(image.name, image.path): _bytes(Path(image.path)) for item in items for image in item.images}
    sizes |= {Path(path): size for (_, path), size in pictures.items()}
    images = sum(size > 0 for size in pictures.values())
    return replace(entry, questions=len(items), images=images, images_named=len(pictures))


def _items(benchmark: Benchmark, folder: Path, paths: Iterable[Path], check: bool, tell: Tell) -> Sequence[Item] | None:
    """The items, None if they are not counted, since their files are large."""
    if sum(map(_bytes, paths)) > manifest.LARGE:
        if not check:
            return None
        tell(f"counting the questions of {benchmark.name}")
    with warnings.catch_warnings():
        # Odd tags are the matter of a run.
        warnings.simplefilter("ignore", DataWarning)
        return benchmarks.load(benchmark, folder)


def _state(entry: ShelfEntry, needs_files: bool) -> State:
    release, questions = entry.release, entry.questions
    fewer = release is not None and questions is not None and questions < release
    # Released tables may lie here under other names: if the questions are counted, the count decides.
    absent = entry.files_absent and (questions is None or release is None)
    wrong = entry.files_of_another_size or entry.digests_that_differ
    if fewer or entry.images != entry.images_named or absent or wrong:
        return "incomplete"
    known = release is not None or entry.files_released or not needs_files
    return "complete" if questions is not None and known else "there"


def _compared(
    entry: ShelfEntry, benchmark: Benchmark, folder: Path, sizes: dict[Path, int], check: bool, tell: Tell
) -> ShelfEntry:
    """Compare the files of a folder with those of the owners, and add theirs to the `sizes` of files (OSError)."""
    # The files of a pattern such as data/*.parquet are known to the hub alone.
    files = benchmark.origin.files if benchmark.origin else ()
    owners = [manifest.released(file) for file in files if "*" not in file.to]
    # The tables of a release may lie in the data folder itself.
    by_name = {path.name: path for path in sizes}
    notes, outcomes = manifest.Notes(folder), dict[str, Digests]()
    absent, short, parts = list[str](), list[str](), list[str]()
    for file in owners:
        of = f" of {file.size:,}" if file.size else ""
        if (path := _place(folder, file) or by_name.get(Path(file.to).name)) is not None:
            sizes[path] = size = _bytes(path)
            outcomes[file.to] = _outcome(file, path, notes.get(file.to), check, tell)
            short += [f"{file.to} ({size:,}{of} bytes)"] if file.size not in (0, size) else []
        else:
            size = _bytes(PartFile(folder / file.to).path)
            parts += [f"{file.to} ({size:,}{of} bytes)"] if size else []
            absent += [] if file.unpack else [file.to]
    worst: Digests = min(outcomes.values(), key=get_args(Digests).index, default="")
    return replace(
        entry,
        files_released=len(owners),
        files_there=len(outcomes),
        files_absent=tuple(absent),
        files_in_part=tuple(parts),
        files_of_another_size=tuple(short),
        digests=worst,
        digests_that_differ=tuple(name for name, outcome in outcomes.items() if outcome == "differ"),
    )


def _outcome(file: OriginFile, path: Path, note: FileNote | None, check: bool, tell: Tell) -> Digests:
    """Compare a file with its published digest, else with the one that `medvqa fetch` recorded (OSError)."""
    expected = file.digest or (f"sha256:{note.sha256}" if note is not None else "")
    kind, _, digest = expected.partition(":")
    fine: Digests = "as released" if file.digest else "as fetched"
    if not digest:
        return "none published"
    if check:
        return fine if manifest.digests_of(path, {kind}, tell)[kind] == digest else "differ"
    known = note is not None and note.holds(path.stat()) and (not file.digest or note.checked == expected)
    return fine if known else "not checked"


def _place(folder: Path, file: OriginFile) -> Path | None:
    """The path of an owners' file below the folder, None if it is not there."""
    try:
        path = inside(folder, file.to, where=file.to)
    except DataError:
        return None
    return path if path.is_file() else None


def _bytes(path: Path) -> int:
    """The size of a file, 0 if there is none."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0
