"""Windows: the raw values shown as black and as white."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medvqa.medical.errors import MedicalError

if TYPE_CHECKING:
    import numpy as np
    import PIL.Image

NAMED: Mapping[str, tuple[int, int]] = {
    "abdomen": (50, 400),
    "bone": (400, 1800),
    "brain": (40, 80),
    "liver": (30, 150),
    "lung": (-600, 1500),
    "mediastinum": (50, 350),
    "soft-tissue": (50, 400),
    "stroke": (32, 8),
    "subdural": (75, 215),
}
"""Centre (level) and width in Hounsfield units.

Source: the typical values of https://radiopaedia.org/articles/windowing-ct, which vary a little between institutions:
brain W80 L40, subdural W130-300 L50-100 (here the middle of both), stroke W8 L32, lungs W1500 L-600, mediastinum W350
L50, soft tissues of the abdomen W400 L50, liver W150 L30, bone of the spine W1800 L400.
"""


def limits(centre: float, width: float) -> tuple[float, float]:
    """Return the values shown as black and white by DICOM's function LINEAR (PS3.3 C.11.2.1.2.1).

    Black is everything up to c - 0.5 - (w - 1) / 2, white everything above c - 0.5 + (w - 1) / 2.
    """
    if not (math.isfinite(centre) and math.isfinite(width) and width > 1):
        raise MedicalError(
            "?window=CENTRE,WIDTH has a width of more than 1. Values shown as black and as white: ?range=LOW,HIGH"
        )
    return centre - width / 2, centre + width / 2 - 1


SHOWN = "shown"
"""Key of `info` of a picture: the window that was applied and the spacing of its pixels, in words without any name."""


ALL = "no window: all stored values"


def described(applied: str, spacing: str) -> str:
    """Return what is shown, in words; `spacing` may be ""."""
    return f"{applied}; {spacing}" if spacing else applied


def said(window: tuple[float, float], named: str = "") -> str:
    """Return a window, the values shown as black and white, in words: "window lung: centre -600, width 1500"."""
    low, high = window
    width = high - low + 1
    return f"window{f' {named}' if named else ''}: centre {low + width / 2:g}, width {width:g}"


def spaced(row: float, column: float) -> str:
    """Return the spacing of rows and columns in words, in mm; "" if it is not known."""
    known = all(math.isfinite(value) and value > 0 for value in (row, column))
    return f"pixels of {row:.3g} × {column:.3g} mm" if known else ""


def shown(values: np.ndarray[Any, Any], low: float, high: float) -> np.ndarray[Any, Any]:
    """Map values linearly to 0 (at `low` and below) to 1 (at `high` and above)."""
    import numpy as np

    numbers = values.astype(np.float64)
    if np.isnan(numbers).any():
        raise MedicalError("some values are NaN")
    return np.clip((numbers - low) / (high - low), 0, 1)


def grey(levels: np.ndarray[Any, Any]) -> PIL.Image.Image:
    """Return levels between 0 and 1 as a picture of 8 bits."""
    import numpy as np
    import PIL.Image

    return PIL.Image.fromarray(np.rint(levels * 255).astype(np.uint8))


def needed(bits: str) -> MedicalError:
    """Return the error for values of more than 8 bits without a window."""
    names = ", ".join(NAMED)
    return MedicalError(
        f"{bits}, but models see 8 bits, and the file declares no window. Type ?window=CENTRE,WIDTH or "
        f"?range=LOW,HIGH after the name, or for CT ?window=NAME: {names}"
        "; & takes the place of ? behind another ?"
    )
