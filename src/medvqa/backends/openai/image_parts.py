"""Images as data URLs."""

from __future__ import annotations

import base64
import io
import math

from medvqa.items import DataError, Image

JPEG_QUALITIES = (95, 90, 85, 75)


def data_url(image: Image, max_pixels: int | None, max_bytes: int) -> str:
    """The image as a data URL: upright RGB without metadata, scaled down to `max_pixels`, as PNG.

    If the PNG exceeds `max_bytes` (before base64), the best of four JPEG qualities that fits. DataError for an image
    that cannot be read or does not fit.
    """
    import PIL.Image

    picture = image.pil()
    if max_pixels is not None and picture.width * picture.height > max_pixels:
        scale = math.sqrt(max_pixels / (picture.width * picture.height))
        size = (max(int(picture.width * scale), 1), max(int(picture.height * scale), 1))
        picture = picture.resize(size, PIL.Image.Resampling.LANCZOS)
    for kind, how in (("png", {}), *(("jpeg", {"quality": quality}) for quality in JPEG_QUALITIES)):
        buffer = io.BytesIO()
        picture.save(buffer, kind, **how)
        if buffer.tell() <= max_bytes:
            return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
    raise DataError(f"image {image.name}: more than {max_bytes} bytes as a JPEG; set max_pixels in the model's options")
