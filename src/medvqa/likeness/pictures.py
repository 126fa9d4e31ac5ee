"""Fingerprints of images: of the file, of its pixels, and of its look."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from medvqa import files, medical
from medvqa.image import MAX_PIXELS
from medvqa.items import DataError, Image, UsageError
from medvqa.medical import views

if TYPE_CHECKING:
    import PIL.Image

SIDE = 16
"""Frequencies in each direction of the perceptual hash."""
BITS = SIDE * SIDE
"""Bits of the perceptual hash: imagehash's `phash`, the signs of the lowest frequencies of a cosine transform."""
WORDS = BITS // 64

NEAR = BITS // 16
"""Two images look alike if their hashes differ in at most this number of bits.

Measured on 3,264 slices of MRI, 135 chest X-rays and 365 smears (docs/data.md). All copies that were saved again as
JPEG, or made smaller, differ by at most 10 bits, those made 20 % brighter by at most 30 (96 % by 16). Pairs that differ
by 1 to 16 bits are the same picture, or neighbouring slices of one volume. From 17 bits on, pictures of different
patients begin.
"""

FLAT = 2.0
"""Standard deviation of the grey values, from 0 to 255, below which an image is plain: all plain images look alike."""

ALONE = 2**24
"""Pixels from which on only one picture is decoded at a time: several would fill the memory."""

_EXTERNAL = frozenset({"EPS", "WMF", "GRIB", "BUFR", "HDF5"})
"""Formats that Pillow opens through another program, or not at all."""

TURNS = (
    *("", "turned 90°", "turned 180°", "turned 270°"),
    *("mirrored", "mirrored, turned 90°", "mirrored, turned 180°", "mirrored, turned 270°"),
)
"""The orientations of `Fingerprint.looks`, counter-clockwise."""


class Fingerprint(msgspec.Struct, frozen=True, array_like=True):
    """Hashes of an image, in hex.

    `content` is the SHA-256 of the bytes of the image, "" if they cannot be read. `pixels` is that of its size and its
    pixels as RGB, upright, "" if it cannot be decoded. `looks` has the perceptual hash, of benchmarks in the order of
    TURNS; () for a plain image. `why` says why it could not be decoded.
    """

    content: str
    pixels: str = ""
    looks: tuple[str, ...] = ()
    why: str = ""


def fingerprint(data: bytes, *, turned: bool = False) -> Fingerprint:
    """Return the fingerprint of an image from the bytes of its file; `turned` adds the looks in all orientations."""
    content = hashlib.sha256(data).hexdigest()
    try:
        picture = decoded(data)
    except DataError as error:
        return Fingerprint(content, why=str(error))
    return Fingerprint(content, *_seen(picture, turned))


def of_image(image: Image, *, turned: bool = False) -> Fingerprint:
    """Return the fingerprint of an image; without `content` if its file is missing or cannot be read.

    The content of a medical file is the whole file, its look that of the picture that the view names.
    """
    content = ""
    try:
        # Only hashes leave this function, so annotation that is burnt in is no matter.
        image = replace(image, allow_burned_in=True)
        content = image.sha256() if _is_medical(image) else ""
        found = fingerprint(image.read(), turned=turned)
    except DataError as error:
        # Without the name: reasons are remembered and printed, and a file may be called by a patient.
        return Fingerprint(content, why=str(error).removeprefix(f"image {image.name}: "))
    return msgspec.structs.replace(found, content=content or found.content)


def _is_medical(image: Image) -> bool:
    """Whether an image lies in a medical file of its own."""
    if image.blank or image.cell is not None:
        return False
    try:
        with files.reading(Path(image.path)) as file:
            return bool(medical.kind(file.read(medical.HEAD), image.file, views.parse(image.view)))
    except medical.MedicalError:
        return True
    except (OSError, ValueError):
        return False


def _seen(picture: PIL.Image.Image, turned: bool) -> tuple[str, tuple[str, ...]]:
    """The hash of the pixels, and the looks."""
    size = f"{picture.width}x{picture.height}:".encode()
    pixels = hashlib.sha256(size + picture.tobytes()).hexdigest()
    small = reduced(picture)
    if _is_plain(small):
        return pixels, ()
    return pixels, tuple(look(view) for view in (_turned(small) if turned else (small,)))


def look_of(picture: PIL.Image.Image) -> str:
    """Return the perceptual hash of a picture, in hex; "" for a plain one (UsageError without imagehash)."""
    small = reduced(picture)
    return "" if _is_plain(small) else look(small)


def _is_plain(small: PIL.Image.Image) -> bool:
    import numpy as np

    return float(np.asarray(small).std()) < FLAT


def reduced(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Return the small grey picture that `phash` transforms; its size is the one that `phash` reduces to."""
    import PIL.Image

    return picture.convert("L").resize((4 * SIDE, 4 * SIDE), PIL.Image.Resampling.LANCZOS)


def look(small: PIL.Image.Image) -> str:
    """Return the perceptual hash of a reduced picture, in hex (UsageError without imagehash)."""
    try:
        import imagehash
    except ImportError:
        raise UsageError("images are compared by imagehash: pip install 'pytest-medvqa[data]'") from None
    return str(imagehash.phash(small, hash_size=SIDE))


def _turned(small: PIL.Image.Image) -> Sequence[PIL.Image.Image]:
    """The picture in the orientations of TURNS."""
    import PIL.Image

    turns = PIL.Image.Transpose.ROTATE_90, PIL.Image.Transpose.ROTATE_180, PIL.Image.Transpose.ROTATE_270
    mirrored = small.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
    return [
        small,
        *(small.transpose(turn) for turn in turns),
        mirrored,
        *(mirrored.transpose(turn) for turn in turns),
    ]


def decoded(data: bytes) -> PIL.Image.Image:
    """Return the picture in the bytes of a file, in any format that Pillow decodes itself: upright, as RGB.

    Grey values of more than 8 bits are scaled from the least to the largest. DataError says why it cannot be decoded.
    """
    import PIL.Image
    import PIL.ImageOps

    try:
        with PIL.Image.open(io.BytesIO(data), formats=_formats()) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise DataError(f"more than {MAX_PIXELS:,} pixels")
            with _large if opened.width * opened.height > ALONE else nullcontext():
                upright = PIL.ImageOps.exif_transpose(opened)
                if upright.mode in ("I", "F") or upright.mode.startswith("I;"):
                    upright = _scaled(upright)
                return upright.convert("RGB")
    except DataError:
        raise
    except PIL.Image.DecompressionBombError:
        raise DataError(f"more than {MAX_PIXELS:,} pixels") from None
    except PIL.UnidentifiedImageError:
        raise DataError("not an image") from None
    except Exception as error:
        # Decoders raise many types: OSError, SyntaxError, struct.error, zlib.error ...
        raise DataError(f"damaged: {str(error)[:200]}") from error


_loading = threading.Lock()
_large = threading.Lock()


def _formats() -> list[str]:
    """The formats that Pillow decodes without another program."""
    import PIL.Image

    with _loading:
        PIL.Image.init()
    return [name for name in PIL.Image.OPEN if name not in _EXTERNAL]


def is_named_image(name: str) -> bool:
    """Whether the ending of a file's name is that of an image."""
    import PIL.Image

    _formats()
    return name.lower().endswith((*views.SUFFIXES, *PIL.Image.registered_extensions()))


def _scaled(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Scale grey values of more than 8 bits to 0 to 255."""
    import numpy as np
    import PIL.Image

    values = np.asarray(picture).astype(np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) / (high - low) * 255 if high > low else np.zeros_like(values)
    return PIL.Image.fromarray(np.rint(scaled).astype(np.uint8))
