"""References to a picture within a medical file: `x.dcm?window=lung`, `v.nii.gz?axis=2&slice=40`, `SER01/?instance=40`.

A reference is the path of a file, then `?` and parts joined by `&`. The text after the last `?` is such a list only if
every part has the form word=value, and one word is in PARTS or the file's name ends in one of SUFFIXES. Else it belongs
to the file's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from medvqa.medical import windows
from medvqa.medical.errors import MedicalError

_PARTS = re.compile(r"[a-z][a-z-]*=[^&?/]*(?:&[a-z][a-z-]*=[^&?/]*)*")
_NUMBER = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})")
_COUNT = re.compile(r"\d{1,9}")
_SHAPE = re.compile(r"([1-9]\d?)x([1-9]\d?)")
MAX_SIDE = 2**14
"""Longest side in pixels of a resized region."""
SLIDES = (".svs", ".ndpi", ".scn", ".bif", ".svslide", ".mrxs", ".vms", ".vmu", ".czi")
SUFFIXES = (".dcm", ".dicom", ".nii", ".nii.gz", *SLIDES)
DISPLAYS = ("radiological", "neurological")
"""Left-right conventions of NIfTI slices, the default first."""
_OF: dict[str, tuple[str, ...]] = {
    "dicom": ("window", "range", "frame", "instance", "position", "slice", "montage"),
    "nifti": ("window", "range", "axis", "slice", "volume", "display"),
    "slide": ("region", "level", "size"),
    "": ("window", "range"),
}
"""The parts of a reference by kind of file."""
PARTS = tuple(dict.fromkeys(part for parts in _OF.values() for part in parts))
PLACES = ("instance", "position", "slice")
"""The parts that name slices of a DICOM series; `montage` takes several of them."""
MAX_PLACES = 64
"""Slices of a montage."""


@dataclass(frozen=True, slots=True)
class ImageView:
    """The picture within a file.

    `named` is the name of a window in Hounsfield units, "" without one; `window` holds the values shown as black and
    white. `frame` counts from 1, `volume` from 0. `axis`: 0 from left to right, 1 from posterior to anterior, 2 from
    inferior to superior. `region`: x, y, width and height in pixels of the largest level. `places`: the slices, as they
    are typed, by one of PLACES (`by`): numbers, from 1 in a DICOM series and from 0 in a volume, or mm. `montage`:
    columns and rows.
    """

    window: tuple[float, float] | None = None
    named: str = ""
    frame: int | None = None
    axis: int | None = None
    volume: int | None = None
    display: str = ""
    region: tuple[int, int, int, int] | None = None
    level: int | None = None
    size: int | None = None
    by: str = ""
    places: tuple[str, ...] = ()
    montage: tuple[int, int] | None = None

    @property
    def slice(self) -> int | None:
        """The one slice of a volume."""
        return int(self.places[0]) if self.by == "slice" and len(self.places) == 1 else None

    @property
    def text(self) -> str:
        """The canonical form, for digests and records. Windows in numbers are left out: `Image.window` has them."""
        parts = {
            "window": self.named,
            "frame": self.frame,
            "axis": self.axis,
            self.by: ",".join(self.places),
            "volume": self.volume,
            "display": self.display or (DISPLAYS[0] if self.axis is not None else ""),
            "region": None if self.region is None else ",".join(map(str, self.region)),
            "level": self.level,
            "size": self.size,
            "montage": None if self.montage is None else "x".join(map(str, self.montage)),
        }
        return "&".join(f"{name}={value}" for name, value in parts.items() if value not in (None, ""))

    def check(self, kind: str) -> None:
        """Raise MedicalError for a part that this kind of file does not have."""
        own = _OF[kind]
        typed = [part.partition("=")[0] for part in self.text.split("&") if part]
        if other := [name for name in typed if name not in own]:
            names = {"dicom": "a DICOM file", "nifti": "a NIfTI file", "slide": "a slide", "": "no medical file"}
            raise MedicalError(f"?{other[0]}=: this is {names[kind]}, which has {', '.join(own)}")
        if self.named and kind not in ("dicom", "nifti"):
            raise MedicalError(
                f"?window={self.named}: named windows are in Hounsfield units, for DICOM and NIfTI. Type "
                "?range=LOW,HIGH"
            )


def split(reference: str) -> tuple[str, str]:
    """Return the path of a reference and its parts, "" without any."""
    path, mark, parts = reference.rpartition("?")
    if not (mark and path and _PARTS.fullmatch(parts)):
        return reference, ""
    names = {part.partition("=")[0] for part in parts.split("&")}
    return (path, parts) if names & set(PARTS) or path.lower().endswith(SUFFIXES) else (reference, "")


@lru_cache(maxsize=4096)
def parse(parts: str) -> ImageView:
    """Return the view of the parts of a reference; MedicalError says which part is wrong."""
    values: dict[str, str] = {}
    for part in filter(None, parts.split("&")):
        name, _, value = part.partition("=")
        if name not in PARTS:
            raise MedicalError(f"?{name[:40]}=: no such part; there are: {', '.join(PARTS)}")
        if name in values:
            raise MedicalError(f"?{name}= is there twice")
        values[name] = value
    for one, other in (("window", "range"), ("level", "size"), *combinations(PLACES, 2), ("frame", "instance")):
        if one in values and other in values:
            raise MedicalError(f"?{one}= and ?{other}= say the same thing twice; drop one of them")
    if "region" not in values and (without := [name for name in ("level", "size") if name in values]):
        raise MedicalError(f"?{without[0]}= goes with ?region=X,Y,WIDTH,HEIGHT of a slide")
    named, window = _window(values)
    axis = _count(values, "axis")
    if axis is not None and axis > 2:
        raise MedicalError("?axis=: 0 (left to right), 1 (posterior to anterior) or 2 (inferior to superior)")
    if (frame := _count(values, "frame")) == 0:
        raise MedicalError("?frame=0: frames count from 1")
    if values.get("display", DISPLAYS[0]) not in DISPLAYS:
        raise MedicalError(f"?display=: {' or '.join(DISPLAYS)}")
    size = _count(values, "size")
    if size is not None and not 1 <= size <= MAX_SIDE:
        raise MedicalError(f"?size=: the longest side in pixels, 1 to {MAX_SIDE}")
    return ImageView(
        window=window,
        named=named,
        frame=frame,
        axis=axis,
        volume=_count(values, "volume"),
        display=values.get("display", ""),
        region=_region(values),
        level=_count(values, "level"),
        size=size,
        **_series(values),
    )


def _series(values: dict[str, str]) -> dict[str, Any]:
    """The fields of a view that are about a series."""
    by = next((name for name in PLACES if name in values), "")
    places = tuple(values[by].split(",")) if by else ()
    form = _NUMBER if by == "position" else _COUNT
    if not all(map(form.fullmatch, places)) or len(places) > MAX_PLACES:
        what = "mm along the normal of the slices" if by == "position" else "a whole number"
        raise MedicalError(f"?{by}=: {what}, or several with commas, at most {MAX_PLACES}")
    shape = _SHAPE.fullmatch(values.get("montage", ""))
    if "montage" in values and (shape is None or not 1 < len(places) <= int(shape[1]) * int(shape[2])):
        raise MedicalError("?montage=COLUMNSxROWS goes with slices that fit, such as slice=10,20,30&montage=3x1")
    if len(places) > 1 and shape is None:
        raise MedicalError(f"?{by}=: name several slices as images of their own, or one picture: &montage=COLUMNSxROWS")
    montage = None if shape is None else (int(shape[1]), int(shape[2]))
    return {"by": by, "places": places, "montage": montage}


def _window(values: dict[str, str]) -> tuple[str, tuple[float, float] | None]:
    if "range" in values:
        low, high = map(
            float, _numbers(values["range"], 2, _NUMBER, "range=LOW,HIGH: the values shown as black and as white")
        )
        if low >= high:
            raise MedicalError("?range=LOW,HIGH: LOW is less than HIGH")
        return "", (low, high)
    name = values.get("window", "")
    if name in windows.NAMED:
        return name, windows.limits(*windows.NAMED[name])
    if "window" not in values:
        return "", None
    advice = f"window=CENTRE,WIDTH, or one of {', '.join(windows.NAMED)}. Black and white in numbers are range=LOW,HIGH"
    centre, width = map(float, _numbers(name, 2, _NUMBER, advice))
    return "", windows.limits(centre, width)


def _count(values: dict[str, str], name: str) -> int | None:
    return int(_numbers(values[name], 1, _COUNT, f"{name}=: a whole number")[0]) if name in values else None


def _region(values: dict[str, str]) -> tuple[int, int, int, int] | None:
    if "region" not in values:
        return None
    advice = "region=X,Y,WIDTH,HEIGHT: whole numbers, in pixels of the largest level"
    x, y, width, height = map(int, _numbers(values["region"], 4, _COUNT, advice))
    if not (width and height):
        raise MedicalError("?region=X,Y,WIDTH,HEIGHT: width and height are at least 1")
    return x, y, width, height


def _numbers(value: str, count: int, form: re.Pattern[str], advice: str) -> list[str]:
    """Return the numbers of a part, as they are written (MedicalError, with the advice, for any other text)."""
    numbers = value.split(",")
    if len(numbers) != count or not all(map(form.fullmatch, numbers)):
        raise MedicalError(f"?{advice}")
    return numbers
