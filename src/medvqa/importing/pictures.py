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
            problems += [case.row.problem(kind, column, what, do) for case in rows[name]]
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
    lost = all(problem.kind == "image_missing" for problem in problems)
    if walked is not None and not digests and lost and (inner := walked.inner_folder(images)):
        do = f"type {shlex.quote(f'--images={(folder / inner).as_posix()}')}"
        do = "name that folder by --images=DIR (--show-cells names it)" if are_withheld() else do
        what = f"no image is in the folder of the images, and all of them are in its folder {shown_file(inner)}"
        problems = [replace(one, what=what, do=do) for one in problems]
    near = None if why_not else tuple(islice(_near(looks, digests), MAX_NEAR))
    unused = 0 if walked is None or walked.cut else walked.unused(images)
    return TablePictures(len(images), len(digests), digests, near, why_not, unused), problems


def _opened(image: Image, walked: _Walked | None) -> PIL.Image.Image | tuple[str, str, str]:
    """The picture of an image; else the kind of its problem, what it is and what to do."""
    name, shown = image.name, shown_file(image.name)
    if image.cell is None:
        path = Path(image.path)
        try:
            if path.is_dir():
                return "image_folder", f"{shown} is a folder", "write the path of a file"
            if not path.is_file():
                advice = walked.advice(name) if walked is not None else "put it there"
                return "image_missing", f"no image {shown}", advice
            if not os.path.getsize(path):
                return "image_empty", f"{shown} is empty (0 bytes)", "copy the file again"
        except (OSError, ValueError):
            return "image_missing", f"no image {shown}", "correct its name"
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
        return "put it there, or correct its name"

    def inner_folder(self, named: Collection[str]) -> str:
        """Return the only folder in which all of these paths exist, "" if there is none or it may name a patient."""
        inner: str | None = None
        for name in named:
            file = f"/{PurePosixPath(name.partition('?')[0])}"
            alike = self._by_name.get(PurePosixPath(file).name.casefold(), ())
            places = {path.removesuffix(file) for path in alike if path.endswith(file)}
            if len(places) != 1 or inner not in (None, *places):
                return ""
            (inner,) = places
        return "" if inner is None or people.suspected(inner) else inner

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
