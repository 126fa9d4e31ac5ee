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
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

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
    *("SOPInstanceUID", "SeriesInstanceUID", "InstanceNumber", "ImageType", "Rows", "Columns"),
    *("NumberOfFrames", "ImageOrientationPatient", "ImagePositionPatient", "PixelSpacing", *DIFFERING),
    *("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"),
)
"""The elements of a header that `index` reads."""
_MACROS = (
    *("PlanePositionSequence", "PlaneOrientationSequence", "PixelMeasuresSequence", "FrameContentSequence"),
    *("MREchoSequence", "MRDiffusionSequence", "MRImageFrameTypeSequence", "CTImageFrameTypeSequence"),
)
_ENDS = ("from right to left", "from front to back", "from feet to head")
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
    instance: int | None
    localiser: bool
    size: tuple[int, int]
    orientation: Numbers
    position: Numbers
    spacing: Numbers
    differing: tuple[str, ...]


class SeriesSlice(NamedTuple):
    """A picture of a series: its file, the number of its frame (0: the file has one), and its place in words."""

    path: str
    frame: int
    words: str


# Headers, in the process of the decoders


def index(path: str) -> list[FrameHeader]:
    """Return the pictures of a folder's files, or of one file (MedicalError, OSError).

    Other files, and DICOM files without a picture, are left out; folders in the folder are not entered.
    """
    found: list[FrameHeader] = []
    names = _names(path) if os.path.isdir(path) else [""]
    for number, name in enumerate(names, 1):
        try:
            with reading("dicom"), open(os.path.join(path, name) if name else path, "rb") as file:
                if not name or file.read(132)[128:] == b"DICM":
                    found += _pictures(file, name)
        except MedicalError as error:
            # The name of a file may be that of a patient.
            raise MedicalError(f"file {number:,} of {len(names):,} by name: {error}" if name else str(error)) from None
        if len(found) > MAX_FILES:
            raise MedicalError(f"more than {MAX_FILES:,} pictures")
    return found


def _names(folder: str) -> list[str]:
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


def _pictures(file: BinaryIO, name: str) -> Iterator[FrameHeader]:
    from medvqa.medical import dicom

    header = dicom.header_of(file, KEYWORDS)
    if not header.get("Rows"):
        return
    shared = list(header.get("SharedFunctionalGroupsSequence") or ())[:1]
    frames = list(header.get("PerFrameFunctionalGroupsSequence") or ())
    count = int(header.get("NumberOfFrames") or 1)
    for number in range(1, min(count, MAX_FILES + 1) + 1):
        yield _frame(name, number if count > 1 else 0, header, [*frames[number - 1 : number], *shared])


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

    instance = header.get("InstanceNumber")
    return FrameHeader(
        name,
        number,
        _digest(header.get("SOPInstanceUID")),
        _digest(header.get("SeriesInstanceUID")),
        None if number or instance in (None, "") else int(instance),
        "LOCALIZER" in str(value("FrameType") or value("ImageType")).upper(),
        (int(header.get("Rows")), int(header.get("Columns") or 0)),
        numbers("ImageOrientationPatient", 6),
        numbers("ImagePositionPatient", 3),
        numbers("PixelSpacing", 2),
        tuple(_digest(value(keyword)) for keyword in DIFFERING),
    )


def _digest(value: Any) -> str:
    text = "" if value is None else str(value).strip()
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16] if text else ""


# Slices


def slices(pictures: Sequence[FrameHeader], path: str, view: ImageView) -> list[SeriesSlice]:
    """Return the slices that a view names, in its order (MedicalError, which quotes nothing of a header but numbers).

    `pictures` are those of the folder or file `path` (`index`).
    """
    if view.frame is not None:
        # Not in `views.parse`: a slice that was found is asked for by both.
        raise MedicalError(f"?frame= and ?{view.by}= both name a picture; drop one of them")
    if not pictures:
        raise MedicalError("no DICOM picture is there")
    series = len({picture.series for picture in pictures})
    if series > 1:
        raise MedicalError(f"{series} series in one folder; give each a folder of its own")
    if len({(picture.picture or picture.file, picture.frame) for picture in pictures}) < len(pictures):
        raise MedicalError("two files are the same picture (SOPInstanceUID); keep one of them")
    try:
        stack = _stack(pictures)
    except MedicalError as error:
        if view.by != "instance":
            raise MedicalError(f"?{view.by}=: {error}") from None
        stack = []
    found = []
    for typed in view.places:
        if view.by == "instance":
            picture = _by_instance(pictures, typed)
        else:
            picture = stack[_by_number(stack, typed) if view.by == "slice" else _by_position(stack, typed)].picture
        place = next((f"{one.words}, " for one in stack if one.picture is picture), "")
        instance = "" if picture.instance is None else f"instance {picture.instance}"
        file = os.path.join(path, picture.file) if picture.file else path
        found.append(SeriesSlice(file, picture.frame, f"{place}{instance}".removesuffix(", ")))
    return found


class _Placed(NamedTuple):
    """A picture of a stack: its position in mm along the normal, and its place in words."""

    position: float
    picture: FrameHeader
    words: str
    ends: str


def _by_instance(pictures: Sequence[FrameHeader], typed: str) -> FrameHeader:
    there = sorted(picture.instance for picture in pictures if picture.instance is not None)
    if not there:
        raise MedicalError("?instance= is for files of one picture; of several frames, name ?slice= or ?frame=")
    found = [picture for picture in pictures if picture.instance == int(typed)]
    if len(found) != 1:
        count = f"{len(found)} pictures have it" if found else f"there are {there[0]} to {there[-1]} ({len(there):,})"
        raise MedicalError(f"?instance={typed}: {count}")
    return found[0]


def _by_number(stack: Sequence[_Placed], typed: str) -> int:
    if not 1 <= int(typed) <= len(stack):
        raise MedicalError(f"?slice={typed}: there are 1 to {len(stack)}, {stack[0].ends}")
    return int(typed) - 1


def _by_position(stack: Sequence[_Placed], typed: str) -> int:
    """Return the place of the nearest picture, at most half a distance away, or half a mm (MedicalError)."""
    nearest = min(range(len(stack)), key=lambda place: abs(stack[place].position - float(typed)))
    low, high = stack[0].position, stack[-1].position
    usual = (high - low) / max(len(stack) - 1, 1)
    if abs(stack[nearest].position - float(typed)) > max(usual / 2, 0.5) + EQUAL:
        raise MedicalError(f"?position={typed}: slices are at {low:.4g} to {high:.4g} mm, {stack[0].ends}")
    return nearest


def _stack(pictures: Sequence[FrameHeader]) -> list[_Placed]:
    """Sort the pictures of a series (MedicalError if they are no stack of parallel slices at equal distances)."""
    localisers = sum(picture.localiser for picture in pictures)
    if localisers:
        raise MedicalError(f"{localisers:,} of its {len(pictures):,} pictures are localisers; type ?instance=")
    lacking = sum(not (picture.orientation and picture.position) for picture in pictures)
    if lacking:
        raise MedicalError(f"{lacking:,} of {len(pictures):,} pictures do not say where they lie; type ?instance=")
    first = pictures[0]
    for what, alike in (
        ("orientations", all(_alike(picture.orientation, first.orientation) for picture in pictures)),
        ("sizes", all(picture.size == first.size for picture in pictures)),
        ("pixel spacings", all(_alike(picture.spacing, first.spacing) for picture in pictures)),
    ):
        if not alike:
            raise MedicalError(f"its pictures have different {what}; type ?instance=, or split the series")
    normal, axis = _normal(first.orientation)
    # File names only order pictures at equal positions, which are refused.
    placed = sorted(
        (math.fsum(part * at for part, at in zip(normal, picture.position, strict=True)), picture.file, picture)
        for picture in pictures
    )
    ordered = [(position, picture) for position, _, picture in placed]
    _check_distances(ordered)
    of = f"of {len(ordered)} {_ENDS[axis]}"
    return [
        _Placed(position, picture, f"slice {number} {of}, position {position:.4g} mm", _ENDS[axis])
        for number, (position, picture) in enumerate(ordered, 1)
    ]


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


def _check_distances(ordered: Sequence[tuple[float, FrameHeader]]) -> None:
    """Raise MedicalError for equal positions, and for distances that differ."""
    distances = sorted(after - before for (before, _), (after, _) in pairwise(ordered))
    usual = distances[len(distances) // 2] if distances else 0.0
    allowed = max(UNEVEN * usual, EQUAL)
    for (before, one), (after, other) in pairwise(ordered):
        distance = after - before
        if distance <= EQUAL:
            pairs = zip(DIFFERING, one.differing, other.differing, strict=True)
            differing = next((f", which differ in {name}" for name, own, its in pairs if own != its), "")
            raise MedicalError(f"several pictures lie at {before:.4g} mm{differing}; type ?instance=")
        if abs(distance - usual) > allowed:
            missing = round(distance / usual) - 1 if usual > EQUAL else 0
            said = f"uneven distances: {distance:.4g} mm"
            if missing > 0 and abs(distance - (missing + 1) * usual) <= allowed * (missing + 1):
                said = "1 slice is missing" if missing == 1 else f"{missing} slices are missing"
            between = f"between {before:.4g} and {after:.4g} mm"
            raise MedicalError(f"{said} {between}, where others are {usual:.4g} mm apart; type ?instance=")
