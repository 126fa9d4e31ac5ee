"""Images as data URLs, without metadata."""

from __future__ import annotations

import base64
import io
import math
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from medvqa.backends.openai.without_metadata import SentFile, copied
from medvqa.image import MAX_PIXELS
from medvqa.items import DataError, Image

if TYPE_CHECKING:
    import PIL.Image

ENCODING = 2
"""Version of the encoding, part of fingerprints: the pixels of a JPEG depend on the server's decoder.

1: each image was written anew as RGB PNG. 2: 8-bit JPEG and PNG files are sent as they are.
"""
JPEG_QUALITIES = (95, 90, 85, 75)
HELD = 2**27
"""Bytes of data URLs that are held."""


class DataURLs:
    """The data URLs of a model's images; those of the last images are held, since questions share images.

    Several threads may ask for URLs at once.
    """

    def __init__(self, max_pixels: int | None, max_bytes: int, most: int = HELD) -> None:
        """Take the limits of an image, and the bytes of URLs to hold."""
        self._limits = max_pixels, max_bytes
        self._most = most
        self._held: OrderedDict[tuple[object, ...], str] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, image: Image) -> str:
        """Return `data_url` of an image. DataError as there."""
        image = image.pinned()
        # The end of the name and the permission decide whether a medical file is shown.
        key = (image.key, image.size, image.allow_burned_in, image.file.rpartition("/")[2].partition(".")[2])
        with self._lock:
            if (url := self._held.get(key)) is not None:
                self._held.move_to_end(key)
                return url
        url = data_url(image, *self._limits)
        if image.digest:
            self._hold(key, url)
        return url

    def _hold(self, key: tuple[object, ...], url: str) -> None:
        with self._lock:
            self._bytes += len(url) - len(self._held.get(key, ""))
            self._held[key] = url
            while self._bytes > self._most:
                self._bytes -= len(self._held.popitem(last=False)[1])


def data_url(image: Image, max_pixels: int | None, max_bytes: int) -> str:
    """Return the picture `image.pil()` as a data URL, without metadata, scaled down to `max_pixels`.

    A JPEG or PNG file with these samples is copied. Other pictures become PNG, grey ones with one channel. If the file
    exceeds `max_bytes` (before base64), the best of four JPEG qualities that fits. DataError for an image that cannot
    be read or does not fit.
    """
    file = _as_stored(image, MAX_PIXELS if max_pixels is None else min(max_pixels, MAX_PIXELS))
    if file is None or len(file.data) > max_bytes:
        file = _written(image, max_pixels, max_bytes)
    return f"data:image/{file.kind};base64,{base64.b64encode(file.data).decode()}"


def _as_stored(image: Image, max_pixels: int) -> SentFile | None:
    """Return the image's file without metadata if it has the samples of `image.pil()`, upright; None for others.

    So a damaged file, which `pil` refuses, is sent to no server.
    """
    stored = image.unaltered()
    file = copied(stored, max_pixels)
    if file is None:
        return None
    # Pillow decodes a PNG to look for its orientation, which this one has not. Its rows were checked.
    decode = file.kind == "jpeg" or file.late_metadata
    return file if image.is_upright(stored, decode=decode) else None


def _written(image: Image, max_pixels: int | None, max_bytes: int) -> SentFile:
    import PIL.Image

    picture = image.pil()
    if max_pixels is not None and picture.width * picture.height > max_pixels:
        scale = math.sqrt(max_pixels / (picture.width * picture.height))
        size = (max(int(picture.width * scale), 1), max(int(picture.height * scale), 1))
        picture = picture.resize(size, PIL.Image.Resampling.LANCZOS)
    if _is_grey(picture):
        picture = picture.getchannel(0)
    jpegs = (("jpeg", {"quality": quality}) for quality in JPEG_QUALITIES)
    for kind, how in (("png", {"compress_level": 1}), ("png", {}), *jpegs):
        buffer = io.BytesIO()
        picture.save(buffer, kind, **how)
        if buffer.tell() <= max_bytes:
            return SentFile(kind, buffer.getvalue(), *picture.size)
    raise DataError(f"image {image.name}: more than {max_bytes} bytes as a JPEG; set max_pixels in the model's options")


def _is_grey(picture: PIL.Image.Image) -> bool:
    first, *others = (band.tobytes() for band in picture.split())
    return all(band == first for band in others)
