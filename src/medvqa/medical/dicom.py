"""DICOM files -> pictures: PS3.3 C.7.6.3 (pixels), C.11.1 (modality LUT), C.11.2 (VOI LUT).

Only the elements of TAGS are read from a header: names of patients are never in memory. Overlays, shutters and
presentation states are not drawn. Pixels are resampled to square ones for slices of a series alone (`series`).
"""

from __future__ import annotations

import importlib.util
import logging
import math
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from medvqa.medical import windows
from medvqa.medical.errors import EXTRA, MedicalError, decoding, reading
from medvqa.medical.views import ImageView

if TYPE_CHECKING:
    import numpy as np
    import PIL.Image

MAX_ELEMENTS = 20_000
"""Elements of a header above its pixels; real ones have some hundreds."""
MAX_ELEMENT = 2**26
"""Bytes of one element of a header: the sequence of a scan of some thousand frames has a few MB."""
MAX_FRAMES = 100_000
"""Frames of a file."""

_GREY = ("MONOCHROME1", "MONOCHROME2")
_COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
_VALUES = (
    *("RescaleSlope", "RescaleIntercept", "RescaleType", "ModalityLUTSequence"),
    *("WindowCenter", "WindowWidth", "VOILUTFunction", "VOILUTSequence"),
)
_PIXELS = (
    *("SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames", "Rows", "Columns"),
    *("BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"),
    *("PixelPaddingValue", "PixelPaddingRangeLimit"),
    *("RedPaletteColorLookupTableDescriptor", "GreenPaletteColorLookupTableDescriptor"),
    *("BluePaletteColorLookupTableDescriptor", "RedPaletteColorLookupTableData"),
    *("GreenPaletteColorLookupTableData", "BluePaletteColorLookupTableData"),
    *("SegmentedRedPaletteColorLookupTableData", "SegmentedGreenPaletteColorLookupTableData"),
    "SegmentedBluePaletteColorLookupTableData",
)
_FRAMES = ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence")
_ABOUT = ("Modality", "BurnedInAnnotation", "SOPClassUID")
_SPACINGS = ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing")
"""The spacing of rows and of columns: in the patient, or at the detector or the scanner."""
TAGS = (*_PIXELS, *_VALUES, *_FRAMES, *_ABOUT, *_SPACINGS)
"""The elements that are read."""

_SYNTAXES: Mapping[str, tuple[str, str, str]] = {
    "1.2.840.10008.1.2.4.50": ("JPEG Baseline", "pillow", "PIL"),
    "1.2.840.10008.1.2.4.51": ("JPEG Extended", "pillow", "PIL"),
    "1.2.840.10008.1.2.4.57": ("JPEG Lossless", "gdcm", "gdcm"),
    "1.2.840.10008.1.2.4.70": ("JPEG Lossless", "gdcm", "gdcm"),
    "1.2.840.10008.1.2.4.80": ("JPEG-LS", "pyjpegls", "jpeg_ls"),
    "1.2.840.10008.1.2.4.81": ("JPEG-LS", "pyjpegls", "jpeg_ls"),
    "1.2.840.10008.1.2.4.90": ("JPEG 2000", "pylibjpeg", "openjpeg"),
    "1.2.840.10008.1.2.4.91": ("JPEG 2000", "pylibjpeg", "openjpeg"),
    "1.2.840.10008.1.2.4.201": ("High-Throughput JPEG 2000", "pylibjpeg", "openjpeg"),
    "1.2.840.10008.1.2.4.202": ("High-Throughput JPEG 2000", "pylibjpeg", "openjpeg"),
    "1.2.840.10008.1.2.4.203": ("High-Throughput JPEG 2000", "pylibjpeg", "openjpeg"),
    "1.2.840.10008.1.2.5": ("RLE", "pydicom", "pydicom"),
}
"""Name, decoder of pydicom and module of each compressed transfer syntax.

There is one decoder for each: a picture does not depend on the packages that happen to be installed.
"""
_PLAIN = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
"""Uncompressed transfer syntaxes."""
_PACKAGES = {"gdcm": "python-gdcm", "jpeg_ls": "pyjpegls", "openjpeg": "pylibjpeg-openjpeg"}

_alone = threading.Lock()
"""pydicom's settings belong to the process, and not all decoders are made for threads."""


class Signs(NamedTuple):
    """Signs of text burnt into the pixels: `declared` by the header, or `suspected`."""

    declared: bool
    suspected: bool


def picture(
    file: BinaryIO, view: ImageView, window: tuple[float, float] | None, *, burned_in: bool, max_pixels: int
) -> PIL.Image.Image:
    """Return one frame of a DICOM file (MedicalError, and any other exception for a damaged file)."""
    with _settings():
        header = header_of(file, TAGS)
        if not burned_in and _said(header) == "YES":
            raise MedicalError(
                "its header says that annotation is burnt into the pixels (BurnedInAnnotation = YES), which may name "
                "the patient. If you have looked and it does not: allow_burned_in = true"
            )
        number = _frame(header, view)
        _check(header, max_pixels)
        raw = _decoded(file, header, number)
        photometric = _text(header, "PhotometricInterpretation")
        if photometric in _GREY:
            tags = _tags(header, number)
            levels, applied = _levels(raw, header, tags, view, window)
            grey = windows.grey(levels)
            spacing = _spacing(tags)
            if view.by and (shown := _square(grey, *_spacings(tags)[1])) is not grey:
                grey, spacing = shown, f"{spacing}, shown with square pixels"
            grey.info[windows.SHOWN] = windows.described(applied, spacing)
            return grey
        if window is not None:
            raise MedicalError("a window is for grey images, and this one has colours; remove it")
        return _coloured(raw, header, photometric)


def _spacings(tags: Any) -> tuple[str, tuple[float, float]]:
    """Return the spacing of the rows and columns of a frame, and the element that has it; "" and zeros without any."""
    for keyword in _SPACINGS:
        values = tags.get(keyword)
        if values is not None and not isinstance(values, str) and len(values) == 2:
            return keyword, (float(values[0]), float(values[1]))
    return "", (0.0, 0.0)


def _spacing(tags: Any) -> str:
    """Return the spacing of the rows and columns of a frame in words; "" if it is not known."""
    keyword, sizes = _spacings(tags)
    spacing = windows.spaced(*sizes) if keyword else ""
    return f"{spacing} at the detector" if spacing and keyword != "PixelSpacing" else spacing


def _square(picture: PIL.Image.Image, rows: float, columns: float) -> PIL.Image.Image:
    """Return a picture with square pixels, of the smaller of the two spacings of its rows and columns in mm."""
    import PIL.Image

    if not (rows > 0 and columns > 0) or math.isclose(rows, columns, rel_tol=0.01):
        return picture
    least = min(rows, columns)
    size = round(picture.width * columns / least), round(picture.height * rows / least)
    return picture.resize(size, PIL.Image.Resampling.BILINEAR)


def signs(file: BinaryIO) -> Signs:
    """Return the signs of burnt-in text in a header; no pixel is read (MedicalError).

    Suspected: ultrasound, secondary captures and other pictures of a screen, unless the header says NO.
    """
    with reading("dicom"), _settings():
        header = header_of(file, TAGS)
        said = _said(header)
        captured = _text(header, "SOPClassUID").startswith("1.2.840.10008.5.1.4.1.1.7")
        screen = captured or _text(header, "Modality") in ("US", "IVUS", "SC", "OT")
        return Signs(said == "YES", screen and said not in ("YES", "NO"))


@contextmanager
def _settings() -> Iterator[None]:
    """Read a file without messages of pydicom, which may quote a header."""
    from pydicom import config

    logger = logging.getLogger("pydicom")
    with _alone:
        kept = logger.disabled, config.settings.reading_validation_mode
        logger.disabled, config.settings.reading_validation_mode = True, config.IGNORE
        try:
            yield
        finally:
            logger.disabled, config.settings.reading_validation_mode = kept


# Headers


def header_of(file: BinaryIO, keywords: Sequence[str]) -> Any:
    """Return the elements with these keywords, of those above the pixels (MedicalError)."""
    from pydicom.datadict import tag_for_keyword
    from pydicom.filereader import read_partial

    seen = 0

    def ends(tag: int, representation: str | None, length: int) -> bool:
        nonlocal seen
        seen += 1
        if seen > MAX_ELEMENTS:
            raise MedicalError(f"its header has more than {MAX_ELEMENTS:,} elements")
        if tag in (0x7FE00008, 0x7FE00009, 0x7FE00010):
            return True
        if MAX_ELEMENT < length < 0xFFFFFFFF:
            raise MedicalError(f"its header has an element of more than {MAX_ELEMENT // 2**20} MiB")
        return False

    syntax = _syntax(file)
    if syntax not in _PLAIN and syntax not in _SYNTAXES:
        names = ", ".join(dict.fromkeys(name for name, *_ in _SYNTAXES.values()))
        raise MedicalError(
            f"transfer syntax {syntax} is not read; there are: uncompressed, {names}. Convert the file, as by "
            "gdcmconv --raw"
        )
    file.seek(0)
    return read_partial(file, stop_when=ends, specific_tags=[tag_for_keyword(keyword) for keyword in keywords])


def _syntax(file: BinaryIO) -> str:
    """The transfer syntax in the file meta information, whose elements are explicit little endian (PS3.10 7.1)."""
    file.seek(132)
    for _ in range(64):
        start = file.read(8)
        if len(start) < 8 or start[:2] != b"\2\0":
            break
        length = int.from_bytes(start[6:8], "little")
        if start[4:6] in (b"OB", b"UN", b"OW", b"SQ", b"UT", b"UC", b"UR"):
            length = int.from_bytes(file.read(4), "little")
        if length > 2**16:
            break
        value = file.read(length)
        if start[2:4] == b"\x10\0":
            text = value.rstrip(b"\0 ").decode("ascii", "replace")
            if all(character in "0123456789." for character in text):
                return text[:64]
            break
    raise MedicalError("a damaged DICOM header: it has no transfer syntax")


def _text(header: Any, keyword: str) -> str:
    return str(header.get(keyword) or "").strip().upper()


def _said(header: Any) -> str:
    return _text(header, "BurnedInAnnotation")


def _whole(header: Any, keyword: str, default: int | None = None) -> int:
    """A number of a header (MedicalError)."""
    value = header.get(keyword)
    if value is None or value == "":
        if default is None:
            raise MedicalError(f"its header has no {keyword}: it holds no picture")
        return default
    return int(value)


def _frame(header: Any, view: ImageView) -> int:
    """The place of the frame, from 0 (MedicalError)."""
    frames = max(_whole(header, "NumberOfFrames", 1), 1)
    if frames > MAX_FRAMES:
        raise MedicalError(f"more than {MAX_FRAMES:,} frames")
    if view.frame is None and frames > 1:
        raise MedicalError(f"{frames} frames; name one: ?frame=1 to ?frame={frames}")
    if (view.frame or 1) > frames:
        raise MedicalError(f"?frame={view.frame}: it has {frames}, from 1")
    return (view.frame or 1) - 1


def _check(header: Any, max_pixels: int) -> None:
    """Raise MedicalError for a picture that cannot be shown, before its pixels are read."""
    rows, columns = _whole(header, "Rows"), _whole(header, "Columns")
    if not (rows and columns):
        raise MedicalError("a picture without pixels")
    if rows * columns > max_pixels:
        raise MedicalError(f"more than {max_pixels:,} pixels")
    photometric, samples = _text(header, "PhotometricInterpretation"), _whole(header, "SamplesPerPixel", 1)
    wanted = 3 if photometric in _COLOURS else 1
    if photometric not in (*_GREY, *_COLOURS, "PALETTE COLOR"):
        raise MedicalError("its PhotometricInterpretation is not known; convert the file to MONOCHROME2 or RGB")
    allocated, stored = _whole(header, "BitsAllocated"), _whole(header, "BitsStored")
    if samples != wanted or allocated not in (1, 8, 16, 32, 64) or not 0 < stored <= allocated:
        raise MedicalError("a damaged DICOM header: samples and bits do not fit together")
    if wanted == 3 and stored > 8:
        raise MedicalError(f"{stored} bits a colour channel, but models see 8. Convert the file to 8 bits")
    if _whole(header, "HighBit", stored - 1) != stored - 1:
        raise MedicalError("its HighBit is not BitsStored - 1; convert the file")


# Pixels


def _decoded(file: BinaryIO, header: Any, number: int) -> np.ndarray[Any, Any]:
    """Return the stored values of one frame; colours as RGB, colours of a palette as their numbers."""
    from pydicom.pixels import pixel_array

    syntax = str(header.file_meta.TransferSyntaxUID)
    name, plugin, module = _SYNTAXES.get(syntax, ("", "", ""))
    if module and importlib.util.find_spec(module) is None:
        raise MedicalError(f"{name} needs {_PACKAGES.get(module, module)}: {EXTRA}")
    if name == "JPEG Extended" and _whole(header, "BitsStored") > 8:
        raise MedicalError("12-bit JPEG Extended has no decoder of a free licence; convert the file")
    if plugin == "gdcm":
        import gdcm

        gdcm.Trace.WarningOff()
        gdcm.Trace.ErrorOff()
    compressed = "its compressed frame is damaged, or has another size than its header says"
    damaged = compressed if name else "its pixels are damaged or cut off"
    size = _whole(header, "Rows"), _whole(header, "Columns")
    try:
        with warnings.catch_warnings(), decoding(size[0] * size[1]):
            # pydicom only warns of a segment that unpacks to more than its frame. Some writers fill up an odd one.
            warnings.filterwarnings("error", message="The decoded RLE segment")
            padded = f"The decoded RLE segment .* {size[0] * size[1] + 1} vs"
            warnings.filterwarnings("ignore", message=padded)
            raw: np.ndarray[Any, Any] = pixel_array(file, index=number, decoding_plugin=plugin)
    except Exception as error:
        raise MedicalError(f"{damaged} ({type(error).__name__})") from error
    if raw.shape[:2] != size:
        raise MedicalError(damaged)
    return raw


def _levels(
    raw: np.ndarray[Any, Any], header: Any, tags: Any, view: ImageView, window: tuple[float, float] | None
) -> tuple[np.ndarray[Any, Any], str]:
    """Return a grey frame as levels between 0 (black) and 1, and in words the window that was applied."""
    import numpy as np
    from pydicom.pixels import apply_modality_lut

    padding = _padding(raw, header)
    stored = _whole(header, "BitsStored")
    values = apply_modality_lut(_stored(raw, header), tags)
    if view.named and not _is_hounsfield(header, tags):
        raise MedicalError(
            f"?window={view.named}: named windows are in Hounsfield units, and this is no CT with a rescale. Type "
            "?window=CENTRE,WIDTH or ?range=LOW,HIGH"
        )
    if window is not None:
        levels, applied = windows.shown(values, *window), windows.said(window, view.named)
    elif (own := _own(values, tags)) is not None:
        levels, applied = own
    elif stored > 8 or tags.get("ModalityLUTSequence") or raw.dtype.kind == "f":
        raise windows.needed(f"{stored} bits a pixel")
    else:
        signed = _whole(header, "PixelRepresentation", 0) == 1
        low = -(2 ** (stored - 1)) if signed else 0
        levels, applied = windows.shown(_stored(raw, header), low, low + 2**stored - 1), windows.ALL
    if _text(header, "PhotometricInterpretation") == "MONOCHROME1":
        levels = 1 - levels
    return levels if padding is None else np.where(padding, 0, levels), applied


def _tags(header: Any, number: int) -> Any:
    """Return modality LUT, VOI LUT and spacing of a frame: of the file, or its functional groups (PS3.3 C.7.6.16)."""
    from pydicom.dataset import Dataset

    tags = Dataset()
    tags.file_meta = header.file_meta
    sources = [header]
    for keyword, place in zip(_FRAMES, (0, number), strict=True):
        groups = header.get(keyword) or ()
        if place < len(groups):
            for macro in ("PixelValueTransformationSequence", "FrameVOILUTSequence", "PixelMeasuresSequence"):
                sources += list(groups[place].get(macro) or ())[:1]
    for source in sources:
        for keyword in (*_VALUES, *_SPACINGS):
            if source.get(keyword) not in (None, ""):
                tags[keyword] = source[keyword]
    return tags


def _stored(raw: np.ndarray[Any, Any], header: Any) -> np.ndarray[Any, Any]:
    """Return values without the bits above BitsStored, which may hold an overlay."""
    if raw.dtype.kind not in "iu":
        return raw
    unused = raw.dtype.itemsize * 8 - _whole(header, "BitsStored")
    return raw if unused <= 0 or raw.dtype.itemsize == 1 else (raw << unused) >> unused


def _padding(raw: np.ndarray[Any, Any], header: Any) -> np.ndarray[Any, Any] | None:
    """Return which pixels are padding, which is shown black (PS3.3 C.7.5.1.1.2); None without any."""
    value, limit = header.get("PixelPaddingValue"), header.get("PixelPaddingRangeLimit")
    if value is None or value == "":
        return None
    ends = sorted(_as_stored(end, raw) for end in (value, value if limit in (None, "") else limit))
    padding: np.ndarray[Any, Any] = (raw >= ends[0]) & (raw <= ends[1])
    return padding


def _as_stored(value: bytes | int, raw: np.ndarray[Any, Any]) -> int:
    """A padding value in the range of the stored values: some files write it signed for unsigned pixels."""
    number = int.from_bytes(value, "little") if isinstance(value, bytes) else int(value)
    bits = int(raw.dtype.itemsize) * 8
    if raw.dtype.kind == "u" and number < 0:
        return number + (1 << bits)
    if raw.dtype.kind == "i" and number >= 1 << (bits - 1):
        return number - (1 << bits)
    return number


def _is_hounsfield(header: Any, tags: Any) -> bool:
    rescaled = tags.get("RescaleIntercept") is not None
    return rescaled and (_text(header, "Modality") == "CT" or _text(tags, "RescaleType") == "HU")


def _own(values: np.ndarray[Any, Any], tags: Any) -> tuple[np.ndarray[Any, Any], str] | None:
    """Return levels by the file's own VOI LUT or window, the first of several, and it in words; None without one."""
    import numpy as np
    from pydicom.pixels import apply_voi

    lut = (tags.get("VOILUTSequence") or (None,))[0]
    if lut is not None and lut.get("LUTDescriptor") is not None and lut.get("LUTData") is not None:
        bits = int(lut.LUTDescriptor[2])
        mapped = apply_voi(np.rint(values).astype(np.int64), tags)
        return windows.shown(mapped, 0, 2**bits - 1), "the file's own table of values (VOI LUT)"
    centre, width = (_first(tags.get(keyword)) for keyword in ("WindowCenter", "WindowWidth"))
    if centre is None or width is None:
        return None
    function = _text(tags, "VOILUTFunction") or "LINEAR"
    return _by_function(values, function, centre, width), f"the file's own window: centre {centre:g}, width {width:g}"


def _by_function(values: np.ndarray[Any, Any], function: str, centre: float, width: float) -> np.ndarray[Any, Any]:
    """Return levels by a VOI LUT function (MedicalError)."""
    import numpy as np

    if function == "LINEAR" and width == 1:
        return (values > centre - 0.5).astype(np.float64)
    if function == "LINEAR":
        return windows.shown(values, *windows.limits(centre, width))
    if not width > 0:
        raise MedicalError("the window of the file has no width; type ?window=CENTRE,WIDTH")
    if function == "LINEAR_EXACT":
        return windows.shown(values, centre - width / 2, centre + width / 2)
    if function == "SIGMOID":
        levels: np.ndarray[Any, Any] = 1 / (1 + np.exp(np.clip(-4 * (values - centre) / width, -700, 700)))
        return levels
    raise MedicalError("the VOI LUT function of the file is not known; type ?window=CENTRE,WIDTH")


def _first(value: Any) -> float | None:
    """The first of one or several numbers."""
    if value is None or value == "":
        return None
    return float(value) if isinstance(value, int | float | str) else float(value[0])


def _coloured(raw: np.ndarray[Any, Any], header: Any, photometric: str) -> PIL.Image.Image:
    import numpy as np
    import PIL.Image
    from pydicom.pixels import apply_color_lut

    if photometric == "PALETTE COLOR":
        raw = apply_color_lut(raw, header)
        if raw.dtype.itemsize == 2:
            raw = np.rint(raw / 257).astype(np.uint8)
    if raw.dtype != np.uint8 or raw.ndim != 3 or raw.shape[2] < 3:
        raise MedicalError("its colours are not of 8 bits; convert the file to RGB")
    return PIL.Image.fromarray(np.ascontiguousarray(raw[:, :, :3]))
