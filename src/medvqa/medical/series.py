"""The slices of a DICOM series: a folder of files, or a file of several frames (enhanced CT and MR).

A slice is named by `instance` (InstanceNumber, as radiologists quote it), by `position` (mm along the normal of the
slices), or by `slice` (from 1). Slices are sorted by ImagePositionPatient along the normal of ImageOrientationPatient
(PS3.3 C.7.6.2.1.1), never by SliceLocation or file names. The normal is turned so that its largest part points to the
patient's left, back or head: `slice=1` is the rightmost slice, the foremost, or that nearest to the feet.

Headers are read in the process of the decoders (`index`); the rest are functions over what it found.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import msgspec

from medvqa.medical.errors import MedicalError, reading
from medvqa.medical.views import ImageView

MAX_FILES = 20_000
"""Files of a folder, and frames of all of them."""
ALIKE = 1e-3
"""Largest difference between two orientations that count as equal, in each direction cosine."""
EQUAL = 0.01
"""Largest distance between equal positions in mm."""
UNEVEN = 0.05
"""Largest deviation of a distance between two slices, as a part of the usual one."""
DIFFERING = (
    *("EchoNumbers", "EchoTime", "DiffusionBValue", "TemporalPositionIdentifier", "TriggerTime", "InversionTime"),
    *("AcquisitionNumber", "ImageType", "AcquisitionTime", "ContentTime"),
)
"""The elements by which slices at one position usually differ, the most telling first."""
KEYWORDS = (
    *("SOPInstanceUID", "SeriesInstanceUID", "SeriesNumber", "InstanceNumber", "ImageType", "Rows", "Columns"),
    *("NumberOfFrames", "ImageOrientationPatient", "ImagePositionPatient", "PixelSpacing", *DIFFERING),
    *("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"),
)
"""The elements of a header that `index` reads."""
_MACROS = (
    *("PlanePositionSequence", "PlaneOrientationSequence", "PixelMeasuresSequence", "FrameContentSequence"),
    *("MREchoSequence", "MRDiffusionSequence", "MRImageFrameTypeSequence", "CTImageFrameTypeSequence"),
)
_ENDS = (("right", "left"), ("front", "back"), ("feet", "head"))
"""Where slices begin and end, by the largest part of their normal."""

Numbers = tuple[float, ...]


class FrameHeader(msgspec.Struct, frozen=True, array_like=True):
    """What the headers say of one picture; texts are digests, so that no name leaves the decoders' process.

    `frame` counts from 1, 0 in a file of one picture. `differing`: digests of the values of DIFFERING, "" for none.
    """

    file: str
    frame: int
    picture: str
    series: str
    number: int | None
    instance: int | None
    localiser: bool
    size: tuple[int, int]
    orientation: Numbers
    position: Numbers
    spacing: Numbers
    differing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeriesSlice:
    """A picture of a series: its file, the number of its frame (0: the file has one), and its place in words."""

    path: str
    frame: int
    words: str


# Headers, in the process of the decoders


def index(path: str) -> list[FrameHeader]:
    """Return the pictures of a folder's files, or of one file (MedicalError, OSError).

    Other files, and DICOM files without a picture, are left out; folders in the folder are not entered.
    """
    if not os.path.isdir(path):
        with reading("dicom"), open(path, "rb") as file:
            return _pictures(file, "")
    found: list[FrameHeader] = []
    for name in _names(path):
        with reading("dicom"), open(os.path.join(path, name), "rb") as file:
            if file.read(132)[128:] == b"DICM":
                found += _pictures(file, name)
        if len(found) > MAX_FILES:
            raise MedicalError(f"a folder of more than {MAX_FILES:,} pictures")
    return found


def _names(folder: str) -> list[str]:
    """Return the names of the files of a folder (MedicalError)."""
    names = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise MedicalError("a folder with links; copy the files of the series into it")
            if entry.is_file():
                names.append(entry.name)
            if len(names) > MAX_FILES:
                raise MedicalError(f"a folder of more than {MAX_FILES:,} files")
    return sorted(names)


def _pictures(file: BinaryIO, name: str) -> list[FrameHeader]:
    from medvqa.medical import dicom

    header = dicom.header_of(file, KEYWORDS)
    if not header.get("Rows"):
        return []
    shared = list(header.get("SharedFunctionalGroupsSequence") or ())[:1]
    frames = list(header.get("PerFrameFunctionalGroupsSequence") or ())
    count = int(header.get("NumberOfFrames") or 1)
    if count > MAX_FILES:
        raise MedicalError(f"more than {MAX_FILES:,} frames")
    return [
        _frame(name, number if count > 1 else 0, header, [*frames[number - 1 : number], *shared])
        for number in range(1, count + 1)
    ]


def _frame(name: str, number: int, header: Any, groups: Sequence[Any]) -> FrameHeader:
    macros = [macro[0] for group in groups for keyword in _MACROS if (macro := group.get(keyword))]

    def value(keyword: str) -> Any:
        of = (source.get(keyword) for source in (*macros, header))
        return next((found for found in of if found not in (None, "")), None)

    def numbers(keyword: str, count: int) -> Numbers:
        found = value(keyword)
        if found is None or isinstance(found, str) or len(found) != count:
            return ()
        values = tuple(float(each) for each in found)
        return values if all(map(math.isfinite, values)) else ()

    types = value("FrameType") or value("ImageType") or ()
    return FrameHeader(
        name,
        number,
        _digest(header.get("SOPInstanceUID")),
        _digest(header.get("SeriesInstanceUID")),
        _whole(header.get("SeriesNumber")),
        None if number else _whole(header.get("InstanceNumber")),
        "LOCALIZER" in [str(each).upper() for each in ([types] if isinstance(types, str) else types)],
        (int(header.get("Rows")), int(header.get("Columns") or 0)),
        numbers("ImageOrientationPatient", 6),
        numbers("ImagePositionPatient", 3),
        numbers("PixelSpacing", 2),
        tuple(_digest(value(keyword)) for keyword in DIFFERING),
    )


def _digest(value: Any) -> str:
    text = "" if value is None else str(value).strip()
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16] if text else ""


def _whole(value: Any) -> int | None:
    return None if value in (None, "") else int(value)


# Slices


def slices(pictures: Sequence[FrameHeader], path: str, view: ImageView) -> list[SeriesSlice]:
    """Return the slices that a view names, in its order (MedicalError, which quotes nothing of a header but numbers).

    `pictures` are those of the folder or file `path` (`index`).
    """
    of_series = _of_series(pictures, view.series)
    unsorted = ""
    try:
        stack = _Stack.of(of_series)
    except MedicalError as error:
        stack, unsorted = None, str(error)
    if view.by != "instance" and stack is None:
        raise MedicalError(f"?{view.by}=: {unsorted}")
    found = []
    for place in view.places:
        if view.by == "instance":
            picture = _by_instance(of_series, int(place), place)
        elif stack is not None:
            picture = stack.at_position(float(place), place) if view.by == "position" else stack.at(int(place))
        found.append(
            SeriesSlice(
                os.path.join(path, picture.file) if picture.file else path,
                picture.frame,
                ", ".join(filter(None, _words(picture, stack))),
            )
        )
    return found


def _of_series(pictures: Sequence[FrameHeader], number: int | None) -> list[FrameHeader]:
    """Return the pictures of the one series, or of that with the typed number (MedicalError)."""
    if not pictures:
        raise MedicalError("no DICOM picture is there")
    chosen = [picture for picture in pictures if number is None or picture.number == number]
    counts = Counter((picture.number, picture.series) for picture in pictures)
    listed = ", ".join(
        f"{'without a number' if of is None else f'number {of}'} ({count:,} {'picture' if count == 1 else 'pictures'})"
        for (of, _), count in sorted(counts.items(), key=lambda each: (each[0][0] is None, each[0]))
    )
    if not chosen:
        raise MedicalError(f"?series={number}: there are {listed}")
    if len({picture.series for picture in chosen}) > 1:
        numbers = [of for of, _ in counts]
        can = len(set(numbers)) == len(numbers) and None not in numbers
        do = f"name one: &series={min(filter(None, numbers), default=0)}" if can else "give each a folder of its own"
        raise MedicalError(f"{len(counts)} series: {listed}; {do}")
    if len({(picture.picture, picture.frame) for picture in chosen}) < len(chosen):
        raise MedicalError("two files are the same picture (SOPInstanceUID); keep one of them")
    return chosen


def _by_instance(pictures: Sequence[FrameHeader], number: int, typed: str) -> FrameHeader:
    there = sorted(picture.instance for picture in pictures if picture.instance is not None)
    if not there:
        raise MedicalError("?instance= is for files of one picture; of several frames, name ?slice= or ?frame=")
    found = [picture for picture in pictures if picture.instance == number]
    if len(found) != 1:
        count = f"{len(found)} pictures have it" if found else f"there are {there[0]} to {there[-1]} ({len(there):,})"
        raise MedicalError(f"?instance={typed}: {count}")
    return found[0]


def _words(picture: FrameHeader, stack: _Stack | None) -> list[str]:
    numbered = "" if picture.instance is None else f"instance {picture.instance}"
    if stack is None:
        return [numbered]
    place = stack.pictures.index(picture)
    start, end = stack.ends
    return [
        f"slice {place + 1} of {len(stack.pictures)} from {start} to {end}",
        f"position {stack.positions[place]:.4g} mm",
        numbered,
    ]


@dataclass(frozen=True, slots=True)
class _Stack:
    """Pictures in the order of their `positions` in mm along the normal."""

    pictures: tuple[FrameHeader, ...]
    positions: Numbers
    ends: tuple[str, str]

    @classmethod
    def of(cls, pictures: Sequence[FrameHeader]) -> _Stack:
        """Sort the pictures of a series (MedicalError if they are no stack of parallel slices at equal distances)."""
        localisers = sum(picture.localiser for picture in pictures)
        if localisers:
            raise MedicalError(
                f"{localisers:,} of its {len(pictures):,} pictures are localisers; name one by ?instance=, or move the "
                "localisers away"
            )
        lacking = sum(not (picture.orientation and picture.position) for picture in pictures)
        if lacking:
            raise MedicalError(f"{lacking:,} of {len(pictures):,} pictures do not say where they lie; type ?instance=")
        first = pictures[0]
        for what, same in (
            ("orientations", all(_alike(picture.orientation, first.orientation) for picture in pictures)),
            ("sizes", all(picture.size == first.size for picture in pictures)),
            ("pixel spacings", all(_alike(picture.spacing, first.spacing) for picture in pictures)),
        ):
            if not same:
                raise MedicalError(f"its pictures have different {what}; type ?instance=, or split the series")
        normal, axis = _normal(first.orientation)
        # File names only order pictures at equal positions, which are refused.
        placed = sorted((_along(normal, picture), picture.file, picture) for picture in pictures)
        positions = tuple(position for position, *_ in placed)
        ordered = tuple(picture for *_, picture in placed)
        _check_distances(ordered, positions)
        return cls(ordered, positions, _ENDS[axis])

    def at(self, number: int) -> FrameHeader:
        """Return a picture by its number from 1 (MedicalError)."""
        if not 1 <= number <= len(self.pictures):
            raise MedicalError(f"?slice={number}: there are 1 to {len(self.pictures)}, from {' to '.join(self.ends)}")
        return self.pictures[number - 1]

    def at_position(self, position: float, typed: str) -> FrameHeader:
        """Return the nearest picture, at most half a distance away (MedicalError)."""
        nearest = min(range(len(self.positions)), key=lambda place: abs(self.positions[place] - position))
        usual = (self.positions[-1] - self.positions[0]) / max(len(self.positions) - 1, 1)
        if abs(self.positions[nearest] - position) > max(usual / 2, 0.5) + EQUAL:
            raise MedicalError(
                f"?position={typed}: slices are at {self.positions[0]:.4g} to {self.positions[-1]:.4g} mm, "
                f"from {' to '.join(self.ends)}"
            )
        return self.pictures[nearest]


def _alike(one: Numbers, other: Numbers) -> bool:
    return len(one) == len(other) and all(abs(a - b) <= ALIKE for a, b in zip(one, other, strict=True))


def _normal(orientation: Numbers) -> tuple[Numbers, int]:
    """Return the normal of slices, turned to the patient's left, back or head, and the axis of its largest part."""
    (a, b, c), (x, y, z) = orientation[:3], orientation[3:]
    normal = (b * z - c * y, c * x - a * z, a * y - b * x)
    length = math.hypot(*normal)
    if not math.isclose(length, 1, abs_tol=0.01):
        raise MedicalError("a damaged DICOM header: its rows and columns are not perpendicular; type ?instance=")
    axis = max(range(3), key=lambda place: abs(normal[place]))
    turned = math.copysign(length, normal[axis])
    return tuple(part / turned for part in normal), axis


def _along(normal: Numbers, picture: FrameHeader) -> float:
    return math.fsum(part * at for part, at in zip(normal, picture.position, strict=True))


def _check_distances(pictures: Sequence[FrameHeader], positions: Numbers) -> None:
    """Raise MedicalError for equal positions, and for distances that differ."""
    distances = [after - before for before, after in pairwise(positions)]
    if not distances:
        return
    for place, distance in enumerate(distances):
        if distance <= EQUAL:
            pairs = zip(DIFFERING, pictures[place].differing, pictures[place + 1].differing, strict=True)
            differing = next((name for name, one, other in pairs if one != other), "")
            by = f", which differ in {differing}" if differing else ""
            raise MedicalError(f"several pictures lie at {positions[place]:.4g} mm{by}; type ?instance=")
    usual = sorted(distances)[len(distances) // 2]
    allowed = max(UNEVEN * usual, EQUAL)
    for place, distance in enumerate(distances):
        if abs(distance - usual) > allowed:
            between = f"between {positions[place]:.4g} and {positions[place + 1]:.4g} mm"
            missing = round(distance / usual) - 1
            if missing > 0 and abs(distance - (missing + 1) * usual) <= allowed * (missing + 1):
                said = "1 slice is missing" if missing == 1 else f"{missing} slices are missing"
            else:
                said = f"uneven distances: {distance:.4g} mm"
            raise MedicalError(f"{said} {between}, where others are {usual:.4g} mm apart; type ?instance=")
