"""Check the image files of a table, and find equal and similar ones.

Equal: one SHA-256 of the file. Similar: look-alikes of `likeness`, which needs the extra `data`.
"""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from medvqa import likeness
from medvqa.benchmarks.table import TableQuestion, shown_file
from medvqa.items import DataError, Image, UsageError, are_withheld
from medvqa.medical.errors import EXTRA
from medvqa.tables import people
from medvqa.tables.image_files import IMAGE_FILE
from medvqa.tables.problems import TableProblem
from medvqa.tables.progress import Progress

if TYPE_CHECKING:
    import PIL.Image

MAX_WALKED = 200_000
"""Files of the folder that are looked through for near names."""
MAX_BESIDE, MAX_PROBED = 200, 20
"""Folders beside that of the images, and images of the table, that are looked through for images elsewhere."""
MISSING, NO_IMAGE, PUT_THERE = "image_missing", "no image ", "put it there, or correct its name"
"""The problem of an image that is not there: its kind, the beginning of its text, and what to do."""
MAX_NEAR = 10_000
"""Pairs of similar images that are listed."""


@dataclass(frozen=True, slots=True)
class TablePictures:
    """The images of a table.

    `named` counts the different images that rows name, `there` those that can be read. `digests` has the content of
    each: the SHA-256 of its file, with the view. `near` are pairs of similar images that are not equal; None: not
    looked for, and `why_not` says why. `unused` counts image files of the folder that no row names.
    """

    named: int = 0
    there: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)
    near: tuple[tuple[str, str], ...] | None = ()
    why_not: str = ""
    unused: int = 0

    @property
    def equal(self) -> list[tuple[str, ...]]:
        """Names of images with equal bytes, for each such group."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for name, digest in self.digests.items():
            names[digest].append(name)
        return [tuple(same) for same in names.values() if len(same) > 1]


def checked(
    cases: Sequence[TableQuestion], folder: Path, column: str, progress: Progress | None = None
) -> tuple[TablePictures, list[TableProblem]]:
    """Return the images and their problems; each file is read once, and a problem names all of its rows."""
    problems: list[TableProblem] = []
    wrong: dict[str, list[TableProblem]] = {}
    rows: defaultdict[str, list[TableQuestion]] = defaultdict(list)
    images: dict[str, Image] = {}
    for case in cases:
        for image in case.item.images:
            images.setdefault(image.name, image)
            rows[image.name].append(case)
    walked = _Walked(folder) if any(image.cell is None for image in images.values()) else None
    digests: dict[str, str] = {}
    looks: dict[str, str] = {}
    why_not = ""
    for done, (name, image) in enumerate(images.items(), 1):
        found = _opened(image, walked)
        if isinstance(found, tuple):
            kind, what, do = found
            wrong[name] = [case.row.problem(kind, column, what, do) for case in rows[name]]
            problems += wrong[name]
        else:
            if image.burnt_in()[1]:
                what = f"{shown_file(name)} is of a kind that often has text in the picture"
                do = "look at it: the text may name the patient"
                problems += [case.warning("image_text", column, what, do) for case in rows[name]]
            digests[name] = replace(image, digest=image.sha256()).key
            try:
                looks[name] = likeness.look_of(found)
            except UsageError:
                why_not = "similar images were not looked for: pip install 'pytest-medvqa[data]'"
        if progress is not None:
            progress(done, len(images))
    if walked is not None and not digests and all(problem.kind == MISSING for problem in problems):
        elsewhere, there = walked.elsewhere(wrong)
        what, do = _named_elsewhere(folder, elsewhere, whole=len(there) == len(wrong))
        moved = [replace(one, what=what, do=do) for name in there for one in wrong[name]]
        problems = [*moved, *(one for name, own in wrong.items() if name not in there for one in own)]
    near = None if why_not else tuple(islice(_near(looks, digests), MAX_NEAR))
    unused = 0 if walked is None or walked.cut else walked.unused(images)
    return TablePictures(len(images), len(digests), digests, near, why_not, unused), problems


def _named_elsewhere(folder: Path, elsewhere: str, *, whole: bool) -> tuple[str, str]:
    """Return the problem of images that are in another folder, relative to their own, and what to type."""
    place = os.path.normpath(folder / elsewhere)
    short = os.path.relpath(place)
    typed = shlex.quote(f"--images={place if short.startswith('../..') else short}")
    # A folder called `Bilder` tells nothing of anyone.
    named = not are_withheld() or people.is_usual(elsewhere)
    shown = f"'{elsewhere}'" if named else shown_file(elsewhere)
    what = f"{'all' if whole else 'most'} images are in {shown}, and none is in the folder of the images"
    return what, f"type {typed}" if named else "name that folder by --images=DIR (--show-cells names it)"


def _opened(image: Image, walked: _Walked | None) -> PIL.Image.Image | tuple[str, str, str]:
    """The picture of an image; else the kind of its problem, what it is and what to do."""
    name, shown = image.name, shown_file(image.name)
    if image.cell is None:
        path = Path(image.path)
        try:
            if path.is_dir() and not image.is_there:
                do = "write the path of a file, or name a slice: ?slice=1"
                do = "write & in place of the second ?" if name.count("?") > 1 else do
                return "image_folder", f"{shown} is a folder", do
            if not image.is_there:
                advice = walked.advice(name) if walked is not None else PUT_THERE
                return MISSING, f"{NO_IMAGE}{shown}", advice
            if not os.path.getsize(path):
                return "image_empty", f"{shown} is empty (0 bytes)", "copy the file again"
        except (OSError, ValueError):
            return MISSING, f"{NO_IMAGE}{shown}", "correct its name"
    try:
        return image.pil()
    except DataError as error:
        problem = str(error).removeprefix(f"image {name}: ")
        # What else a decoder says may repeat the path.
        return _explained(problem.replace(image.path, shown).replace(name, shown), shown)


def _explained(problem: str, shown: str) -> tuple[str, str, str]:
    """The same for an image that cannot be opened."""
    if "BurnedInAnnotation" in problem:
        what = f"{shown}: its header says that text is burnt into the picture"
        do = "look at all such images; if they name nobody, type --set allow_burned_in=true"
        return "image_burnt_in", what, do
    if "bits a channel" in problem:
        bits = problem.partition(" (")[0]
        do = "type --set window=LOW,HIGH, the raw values for black and white; or convert it to 8 bits"
        return "image_bits", f"{shown} has {bits}", do
    if EXTRA in problem:
        # The name of the file is left out, so that all rows share one line.
        return "image_reader", problem.partition(f": {EXTRA}")[0], f"type {EXTRA}"
    if problem.startswith("not an image"):
        return "image_format", f"{shown} is {problem}", "convert it to PNG"
    if problem.startswith("damaged"):
        return "image_damaged", f"{shown} is damaged", "copy it again, or export it again"
    return "image_unreadable", f"{shown}: {problem}", "correct it, or leave the question out"


class _Walked:
    """The files of a folder, to find the one that a wrong path may mean."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._by_path: dict[str, str] = {}
        self._by_name: defaultdict[str, list[str]] = defaultdict(list)
        self._by_stem: defaultdict[str, list[str]] = defaultdict(list)
        self.cut = False
        for place, _, files in os.walk(folder):
            for file in files:
                if len(self._by_path) >= MAX_WALKED:
                    self.cut = True
                    return
                path = Path(place, file).relative_to(folder).as_posix()
                self._by_path[path.casefold()] = path
                self._by_name[file.casefold()].append(path)
                self._by_stem[PurePosixPath(file).stem.casefold()].append(path)

    def advice(self, file: str) -> str:
        """Return the file that a path may mean, with the path's view, else the number of files that are there."""
        file, mark, view = file.partition("?")
        path = PurePosixPath(file)
        low = path.name.casefold()
        similar = (
            [self._by_path[file.casefold()]] if file.casefold() in self._by_path else self._by_name.get(low, [])
        ) or self._by_stem.get(low if "." not in low else path.stem.casefold(), [])
        if len(similar) == 1 and are_withheld():
            return "a file of nearly that name is there (--show-cells names it); write that"
        if len(similar) == 1:
            return f"{shown_file(f'{similar[0]}{mark}{view}')} is there; write that"
        if similar:
            return f"{len(similar)} files of that name are in other folders; write the path"
        if not self._by_path:
            return "the folder has no files; name another one by --images=DIR"
        return PUT_THERE

    def elsewhere(self, named: Collection[str]) -> tuple[str, list[str]]:
        """Return the only folder, within this one or beside it, with most of these paths; and the paths that it has.

        It is relative to this one, such as `Bilder` or `../Bilder`. The paths are [] if there is no such folder,
        several may be meant, or it may name a patient.
        """
        files = {name: str(PurePosixPath(name.partition("?")[0])) for name in named}
        places = {name: self._places(file) for name, file in files.items()}
        folders = sorted(set().union(*places.values()))
        there = [name for name, found in places.items() if found]
        if not folders:
            probed = list(files.values())[:MAX_PROBED]
            folders = [place for place in self._beside() if any(self._has(place, file) for file in probed)]
            there = [name for name, file in files.items() if folders and self._has(folders[0], file)]
        if len(folders) != 1 or 2 * len(there) < len(files) or people.suspected(folders[0]):
            return "", []
        return folders[0], there

    def _has(self, place: str, file: str) -> bool:
        return os.path.isfile(self._folder / place / file)

    def _places(self, file: str) -> set[str]:
        """The inner folders in which a path exists."""
        alike = self._by_name.get(PurePosixPath(file).name.casefold(), ())
        return {path.removesuffix(f"/{file}") for path in alike if path.endswith(f"/{file}")}

    def _beside(self) -> list[str]:
        """The folder around this one, and the others in it."""
        try:
            with os.scandir(self._folder.parent) as entries:
                names = sorted(entry.name for entry in islice(entries, MAX_BESIDE) if entry.is_dir())
        except OSError:
            return []
        return ["..", *(f"../{name}" for name in names if name != self._folder.name)]

    def unused(self, named: Collection[str]) -> int:
        """Return the number of image files that are not named."""
        written = {str(PurePosixPath(os.path.normpath(name.partition("?")[0]))).casefold() for name in named}
        return sum(low not in written and bool(IMAGE_FILE.search(low)) for low in self._by_path)


def _near(looks: Mapping[str, str], digests: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of images that look alike and have different bytes; plain images are left out."""
    names = [name for name, look in looks.items() if look]
    hashes = likeness.packed([looks[name] for name in names])
    pairs = likeness.within(hashes, hashes, likeness.NEAR)
    for i, j in zip(pairs.one.tolist(), pairs.other.tolist(), strict=True):
        if i < j and digests[names[i]] != digests[names[j]]:
            yield names[i], names[j]
