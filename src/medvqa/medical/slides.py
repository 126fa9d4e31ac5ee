"""Regions of whole-slide images. Labels and overviews of a slide, which may show a name, are never read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medvqa.medical.errors import MedicalError, decoding
from medvqa.medical.views import ImageView

if TYPE_CHECKING:
    import PIL.Image

MAX_READ = 2**26
"""Pixels that are read before a region is made smaller."""
_ONE_FILE = ("aperio", "generic-tiff", "hamamatsu", "leica", "philips", "sakura", "trestle", "ventana", "zeiss")
"""Formats, by openslide's names, whose slides are one file. A file of another one may name files outside its folder."""
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def picture(path: str, view: ImageView, *, max_pixels: int) -> PIL.Image.Image:
    """Return a region of a slide on white (MedicalError, and any other exception for a damaged file)."""
    import openslide

    if not path:
        raise MedicalError("a slide is a file of its own")
    with open(path, "rb") as file:
        is_tiff = file.read(4) in _TIFF
    found = openslide.OpenSlide.detect_format(path)
    if found is not None and (found not in _ONE_FILE or (found == "hamamatsu" and not is_tiff)):
        raise MedicalError("a slide of several files, or in DICOM; convert it to one file, such as a pyramidal TIFF")
    with openslide.OpenSlide(path) as slide:
        return _region(slide, view, max_pixels)


def _region(slide: Any, view: ImageView, max_pixels: int) -> PIL.Image.Image:
    import PIL.Image

    width, height = slide.dimensions
    if view.region is None:
        raise MedicalError(
            f"a slide of {width} x {height} pixels; name a region: ?region=X,Y,WIDTH,HEIGHT, with &size=PIXELS for "
            "its longest side, or &level=N"
        )
    x, y, wide, high = view.region
    if x + wide > width or y + high > height:
        raise MedicalError(f"?region={x},{y},{wide},{high}: the slide has {width} x {height} pixels")
    level = view.level or 0
    if level >= slide.level_count:
        raise MedicalError(f"?level={level}: the slide has levels 0 to {slide.level_count - 1}")
    if view.size is not None:
        level = slide.get_best_level_for_downsample(max(max(wide, high) / view.size, 1))
    scale = slide.level_downsamples[level]
    read = max(round(wide / scale), 1), max(round(high / scale), 1)
    limit = MAX_READ if view.size is not None else max_pixels
    if read[0] * read[1] > limit:
        raise MedicalError(f"?region={x},{y},{wide},{high}: more than {limit:,} pixels; add &size=PIXELS or &level=N")
    with decoding(read[0] * read[1]):
        pixels = slide.read_region((x, y), level, read)
    shown = PIL.Image.new("RGB", pixels.size, (255, 255, 255))
    shown.paste(pixels, mask=pixels.getchannel("A"))
    if view.size is not None and max(read) > view.size:
        shown.thumbnail((view.size, view.size), PIL.Image.Resampling.LANCZOS)
    return shown
