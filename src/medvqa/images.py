"""References to images become bytes and pixels, one at a time, when a prompt is built.

Data sets are hostile input: a path must stay inside the data folder, an image has a limit in bytes and in
pixels, and only formats that medical benchmarks use are decoded.
"""

from __future__ import annotations

import binascii
import hashlib
import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.items import DataError, Image

if TYPE_CHECKING:
    import PIL.Image

MAX_BYTES = 256 * 2**20
"""Largest image that is read, in bytes as stored in its format."""

MAX_PIXELS = 89_478_485
"""Largest image that is decoded; Pillow's own threshold for a decompression bomb (256 MiB of RGB)."""

GREY = (127, 127, 127)
"""The RGB values of all pixels of a blank image."""

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
WHITESPACE = b" \t\r\n"
"""May break a base64 text into lines; anything else that is not base64 is an error."""


def inside(folder: Path, relative: str, *, where: str) -> Path:
    """The absolute path of a file that a data file names, with symbolic links resolved; it need not exist.

    `relative` is a POSIX path. Raises DataError, which names `where`, when the path is no such thing or leaves
    `folder` (absolute, through "..", or through a link; `folder` itself may be a link).
    """
    if "\\" in relative:
        raise DataError(f"{where}: path {relative!r} has a backslash; paths are written with /")
    try:
        root = folder.resolve()
        path = (root / relative).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{where}: {relative!r} is not a path: {error}") from error
    if Path(relative).is_absolute() or not path.is_relative_to(root):
        raise DataError(f"{where}: path {relative!r} leaves the data folder")
    return path


def read(image: Image) -> bytes:
    """The bytes of an image in its format, with base64 undone; of a blank one as PNG.

    Raises DataError, which names the image, when the file is missing or cannot be read, the image is empty,
    larger than MAX_BYTES, not base64, or not the one that was indexed.
    """
    if image.blank:
        buffer = io.BytesIO()
        decode(image).save(buffer, "PNG")
        return buffer.getvalue()
    path = Path(image.path)
    if not image.path or not path.is_file():
        raise DataError(f"image {image.name}: no such file")
    limit = MAX_BYTES if image.encoding == "raw" else MAX_BYTES * 4 // 3 + 4
    try:
        with path.open("rb") as file:
            file.seek(image.start)
            data = file.read(limit + 1 if image.length is None else min(image.length, limit + 1))
    except (OSError, ValueError) as error:
        raise DataError(f"image {image.name}: cannot be read: {error}") from error
    if len(data) > limit:
        raise DataError(f"image {image.name}: larger than {MAX_BYTES // 2**20} MiB")
    if image.encoding == "base64":
        try:
            data = binascii.a2b_base64(data.translate(None, WHITESPACE), strict_mode=True)
        except binascii.Error as error:
            raise DataError(f"image {image.name}: not base64: {error}") from error
    if not data:
        raise DataError(f"image {image.name}: empty")
    if image.digest and hashlib.sha256(data).hexdigest() != image.digest:
        raise DataError(f"image {image.name}: the file has changed since it was indexed")
    return data


def digest(image: Image) -> str:
    """SHA-256 (hex) of the bytes that `read` returns, of a blank image those of the one that it stands for.

    It reads them only when the reference does not know it.
    """
    return image.digest or hashlib.sha256(read(replace(image, blank=False))).hexdigest()


def decode(image: Image) -> PIL.Image.Image:
    """The image in RGB, upright (EXIF orientation applied, as viewers do), without metadata; all GREY if it is blank.

    Grey values of 16 and 32 bits lose all but the upper 8 of 16; transparency is dropped, and of several
    frames the first is taken. Raises DataError, which names the image, for what `read` refuses, for data that
    is no image of FORMATS, damaged, or larger than MAX_PIXELS.
    """
    import PIL.Image
    import PIL.ImageOps

    if image.blank:
        return PIL.Image.new("RGB", decode(replace(image, blank=False)).size, GREY)
    too_large = f"image {image.name}: more than {MAX_PIXELS:,} pixels"
    data = read(image)
    try:
        with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise DataError(too_large)
            upright = PIL.ImageOps.exif_transpose(opened)
            if upright.mode.startswith("I"):
                upright = upright.point(lambda value: value * (1 / 256)).convert("L")
            return upright.convert("RGB")
    except DataError:
        raise
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise DataError(too_large) from error
    except PIL.UnidentifiedImageError as error:
        raise DataError(f"image {image.name}: not an image ({', '.join(FORMATS)})") from error
    except Exception as error:
        # Decoders raise whatever they stumble upon: OSError, SyntaxError, struct.error, zlib.error ...
        raise DataError(f"image {image.name}: damaged: {error}") from error
