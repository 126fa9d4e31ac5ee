"""Errors shown to the user, and `Image`: a reference to one image, with its limits and the pixels that a model may see.

Files are read only when a prompt is built or a backend calls `Image.pil()`. Data sets are untrusted: paths must stay
inside the data folder, bytes and pixels are limited, and only the formats of medical benchmarks are decoded. DICOM,
NIfTI and slides are read by the room `medical`. Standard library only; Pillow and numpy are imported lazily.
"""

from __future__ import annotations

import binascii
import hashlib
import io
import math
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from medvqa import medical
from medvqa.medical import MedicalError, views, windows
from medvqa.perturbing import Alteration

if TYPE_CHECKING:
    import PIL.Image
    import PIL.ImageFile

    from medvqa.medical.series import SeriesSlice

MAX_BYTES = 256 * 2**20
"""Largest image that is read, in bytes as stored in its format."""

MAX_PIXELS = 89_478_485
"""Largest image that is decoded; Pillow's own threshold for a decompression bomb (256 MiB of RGB)."""

MAX_ROW_GROUP = 2**31
"""Largest column of images in a row group of a Parquet file, in bytes; it is held. The usual ones have 100 images."""

GREY = (127, 127, 127)
"""The RGB values of all pixels of a blank image."""

BLANK = "blank image"
"""The name of a blank image, and the start of its key."""

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
PLAIN = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
"""Ends of names of files in these formats."""
WHITESPACE = b" \t\r\n"
"""Line breaks and blanks allowed within base64."""

_ORIENTATION = 0x0112
_QUARTER_TURNS = frozenset({5, 6, 7, 8})
"""EXIF orientations that swap width and height."""
_PNG_ORIENTED = (b"eXIf", b"Raw profile type", b"adobe.xmp")
"""A PNG that contains none of these has no orientation."""
_BITS_PER_SAMPLE = 258
"""The TIFF tag that holds the bits of each channel."""


class MedVQAError(Exception):
    """Base of the errors shown to the user: the message alone, without a traceback."""


class UsageError(MedVQAError):
    """The user asked for something that does not exist; the message lists the choices and the text to type."""


class DataError(MedVQAError):
    """A data file cannot be used; the message names the file and the row."""


class AnswerError(MedVQAError):
    """The model gave no answer to one prompt: the item ends as `error` without a score, and the exit code is 1."""


class BatchLost(MedVQAError):
    """The process that computed a batch was lost: the stream asks its prompts again.

    `suspect`: the batch was being computed, so one of its prompts may have killed the process. Its prompts are asked
    one by one. If not, the batch is asked again as it is.
    """

    def __init__(self, message: str, *, suspect: bool = False) -> None:
        """`message` says what was lost, in one line."""
        super().__init__(message)
        self.suspect = suspect


class DataWarning(UserWarning):
    """An oddity in a data file that does not stop a run."""


CELL = "[cell]"
"""In messages in place of a cell, an id or a path of data that are not declared public."""
_withheld = ContextVar("withheld", default=False)


@contextmanager
def withholding(private: bool = True) -> Iterator[None]:
    """Withhold the texts of data from messages that are composed within the block, if the data are `private`.

    Do not use it around a `yield` of a generator: the block would hold for the caller too.
    """
    token = _withheld.set(private)
    try:
        yield
    finally:
        _withheld.reset(token)


def are_withheld() -> bool:
    """Whether texts of the data are withheld from messages."""
    return _withheld.get()


def of_data(shown: str) -> str:
    """Return a text of the data (a cell, an id, a path) for a message: CELL if such texts are withheld.

    Every message passes such texts through here.
    """
    return CELL if _withheld.get() else shown


class ParquetCell(NamedTuple):
    """The place of an image in a Parquet file: its column, its row from 0, and its place in a list from 0."""

    column: str
    row: int
    place: int = 0


@dataclass(frozen=True, slots=True, order=True)
class TextCell:
    """The place of an image in a table of text: `length` bytes of base64, from byte `start` of the file."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Image:
    """Reference to one image; the file is read when a backend calls `pil`.

    `name` is shown and recorded: a POSIX path relative to the data folder; a cell of a table adds " row N".
    `path` is the absolute path of the file, "" if the reference comes from a run folder. `cell` is the place of the
    image if that file is a table. `digest` is the SHA-256 of the decoded (raw) image bytes in hex, "" while unknown.
    `window` gives the raw values shown as black and white, linear in between, for grey images of more than 8 bits.
    `blank` marks a grey picture of `size` (width, height), made by `blanked`; it keeps no way back to the pixels of the
    original.

    `name` may end in the parts of a view, such as `ct/17.dcm?window=lung` or `v.nii.gz?axis=2&slice=40`. They set
    `window` and `view`, the canonical form of the other parts (`medvqa.medical.views`). `allow_burned_in`: show the
    picture even if its DICOM header says that annotation is burnt into it. `alteration` changes the pixels that `pil`
    returns; it is set for prompts alone (`--perturb`).
    """

    name: str
    path: str = ""
    digest: str = ""
    blank: bool = False
    size: tuple[int, int] | None = None
    window: tuple[float, float] | None = None
    cell: ParquetCell | TextCell | None = None
    view: str = ""
    allow_burned_in: bool = False
    alteration: Alteration | None = None

    def __post_init__(self) -> None:
        """Read the view in the name; raise DataError for a wrong one, or unless `window` is two different numbers."""
        if "?" in str(self.name):
            self._read_view()
        if self.window is None:
            return
        low, high = self.window
        if low == high or not (math.isfinite(low) and math.isfinite(high)):
            raise DataError(f"image {of_data(self.name)}: window {self.window} is not two different numbers")

    def _read_view(self) -> None:
        _, parts = views.split(self.name)
        if not parts:
            return
        try:
            view = views.parse(parts)
        except MedicalError as error:
            problem = "the text after ? is no view" if are_withheld() else str(error)
            raise DataError(f"image {of_data(self.name)}: {problem}") from None
        if view.window is not None:
            if self.window is not None and tuple(self.window) != view.window:
                raise DataError(f"image {of_data(self.name)}: it has another window, {self.window}; drop one of them")
            object.__setattr__(self, "window", view.window)
        object.__setattr__(self, "view", view.text)
        object.__setattr__(self, "path", views.split(self.path)[0])

    @property
    def file(self) -> str:
        """The name without a view: all pictures of one file have the same."""
        return views.split(str(self.name))[0]

    @property
    def key(self) -> str:
        """The visible content as a text: the digest (the name while unknown), with `blank`, or window, view, change."""
        content = self.digest or self.name
        if self.blank:
            return content if content.startswith("blank ") else f"blank {content}"
        if self.window is not None:
            low, high = map(float, self.window)
            content = f"{content} window {low!r} {high!r}"
        content = f"{content} view {self.view}" if self.view else content
        return f"{content} altered {self.alteration.key}" if self.alteration is not None else content

    def pil(self) -> PIL.Image.Image:
        """Return the picture for the model: RGB, upright (EXIF orientation applied, as viewers do), without metadata.

        A blank image is GREY. Transparency is dropped; only the first of several frames is used. Of a medical file, the
        view chooses frame, slice or region. `alteration` is applied last, never to a blank image. Raises DataError with
        the image's name if `read` does, and for damaged data, other formats than FORMATS, more than MAX_PIXELS, or more
        than 8 bits a channel without a window.
        """
        return self.pictured()[0]

    def pictured(self) -> tuple[PIL.Image.Image, str]:
        """Return `pil()`, and in words the window, the spacing of its pixels, and its change; "" without any."""
        if self.alteration is not None and not self.blank:
            from medvqa.perturbing import catalogue

            picture, shown = replace(self, alteration=None).pictured()
            try:
                picture = catalogue.applied(picture, self.alteration)
            except ValueError as error:
                raise DataError(f"image {of_data(self.name)}: {error}") from None
            return picture, "; ".join(filter(None, (shown, catalogue.words_of(self.alteration))))
        import PIL.Image
        import PIL.ImageOps

        if self.blank:
            if self.size is None:
                raise DataError(f"image {self.name}: the file cannot be read, so the blank image has no size")
            return PIL.Image.new("RGB", self.size, GREY), ""
        with self._opened_file() as (kind, file):
            if kind and file is not None:
                return self._rendered(kind, file)
            data = self._stored() if file is None else file.read()
        with _opened(self.name, data) as opened:
            bits = _bits(opened, data)
            upright = PIL.ImageOps.exif_transpose(opened)
            if bits > 8 or self.window is not None:
                upright = _windowed(upright, bits, self)
            picture = upright.convert("RGB")
            picture.info.clear()  # Pillow writes comments and profiles from there into files that it saves.
            return picture, "" if self.window is None else windows.said((self.window[0], self.window[1]))

    def read(self) -> bytes:
        """Return the bytes of the encoded image, with base64 undone; a blank, medical or changed one as PNG.

        So nothing of a header of a medical file is in them. Raises DataError with the image's name if the file is
        missing, unreadable or changed since it was indexed. Also raised for an empty image, invalid base64, or more
        than MAX_BYTES.
        """
        with self._opened_file() as (kind, file):
            if not (self.blank or kind or self.alteration):
                return self._stored() if file is None else file.read()
        buffer = io.BytesIO()
        self.pil().save(buffer, "PNG")
        return buffer.getvalue()

    def unaltered(self) -> bytes:
        """Return the stored bytes of a plain picture; b"" if `pil` draws it: blank, medical, windowed or changed.

        Raises DataError as `read` does.
        """
        if self.blank or self.window is not None or self.alteration is not None:
            return b""
        with self._opened_file() as (kind, file):
            if kind:
                return b""
            return self._stored() if file is None else file.read()

    def is_upright(self, data: bytes, *, decode: bool) -> bool:
        """Return whether `pil` shows the JPEG or PNG file `data` as it is, without turning it; False for a damaged one.

        Without `decode`, damage to the pixels goes unnoticed. An orientation within a PNG is not looked for.
        """
        try:
            with _opened(self.name, data) as opened:
                if decode:
                    opened.load()
                return opened.format == "PNG" or opened.getexif().get(_ORIENTATION, 1) == 1
        except DataError:
            return False

    @property
    def may_be_medical(self) -> bool:
        """Whether the file's name may be that of a medical file: it ends otherwise than plain pictures."""
        return self._is_whole_file and not self.file.lower().endswith(PLAIN)

    @property
    def _is_whole_file(self) -> bool:
        return bool(self.path) and not self.blank and self.cell is None

    def burnt_in(self) -> tuple[bool, bool]:
        """Return whether a DICOM header declares burnt-in annotation, and whether the kind of picture suggests it.

        (False, False) for other files, and for one that cannot be read.
        """
        from medvqa.medical import dicom

        try:
            with self._opened_file() as (kind, file):
                return dicom.signs(file) if kind == "dicom" and file is not None else (False, False)
        except (DataError, MedicalError, OSError):
            return False, False

    @property
    def medical_kind(self) -> medical.Medical:
        """The kind of a medical file, "" for any other image and for a file that cannot be read."""
        try:
            with self._opened_file() as (kind, _):
                return kind
        except (DataError, MedicalError, OSError):
            return ""

    @property
    def is_there(self) -> bool:
        """Whether its file is there; of a slice of a series, its folder."""
        return os.path.isfile(self.path) or (self._is_of_series and os.path.isdir(self.path))

    @property
    def _is_of_series(self) -> bool:
        """Whether the view names slices of a DICOM series: those of a volume have an axis."""
        view = views.parse(self.view)
        return bool(view.by) and view.axis is None and self._is_whole_file

    def _slices(self) -> list[SeriesSlice]:
        """The slices of a series that the view names (DataError)."""
        from medvqa.medical import decoder_process

        with self._named_errors():
            return decoder_process.slices(self.path, views.parse(self.view))

    @contextmanager
    def _opened_file(self) -> Iterator[tuple[medical.Medical, BinaryIO | None]]:
        """Yield the kind and the open file of a medical image (DataError).

        For other images, the kind is "", and the file holds bytes that had to be read to know this; None without.
        """
        view = views.parse(self.view)
        if self.blank or not self.path:
            yield "", None
        elif self._is_whole_file:
            with ExitStack() as stack:
                head = b""
                # `_stored` has the errors of a missing file.
                of_folder = self._is_of_series and os.path.isdir(self.path)
                path = Path(self._slices()[0].path if of_folder else self.path)
                with suppress(OSError):
                    if path.is_file():
                        file = stack.enter_context(path.open("rb"))
                        head = file.read(medical.HEAD)
                kind = self._kind(head, view) if head else ""
                yield (kind, file) if kind else ("", None)
        else:
            data = self._stored()
            kind = self._kind(data[: medical.HEAD], view)
            yield kind, io.BytesIO(data)

    def _kind(self, head: bytes, view: views.ImageView) -> medical.Medical:
        with self._named_errors():
            kind = medical.kind(head, self.file, view)
            if not kind:
                view.check(kind)
            return kind

    def _rendered(self, kind: medical.Medical, file: BinaryIO) -> tuple[PIL.Image.Image, str]:
        """Return the picture of a medical file, and what `pictured` says of it (DataError)."""
        within = isinstance(file, io.BytesIO)
        view = views.parse(self.view)
        named = self._slices() if kind == "dicom" and self._is_of_series else []
        if kind == "dicom" and view.by and view.axis is None and not named:
            raise DataError(f"image {self.name}: slices are named in a folder or a file, not in a cell of a table")
        if self.digest and not within:
            status = os.fstat(file.fileno())
            now = _digest_of(named) if named else _streamed_digest(self.path, status.st_size, status.st_mtime_ns)
            if now != self.digest:
                raise DataError(f"image {self.name}: the file has changed since it was indexed")
        from medvqa.medical import decoder_process

        with self._named_errors():
            # The working folder of the process of decoders is that of its start.
            path = b"" if within else os.fsencode(os.path.abspath(self.path))
            drawing = medical.Drawing(path, kind, view, self.window, self.allow_burned_in, MAX_PIXELS)
            drawn = decoder_process.of_slices(named, drawing) if named else decoder_process.picture(file, drawing)
            shown = str(drawn.info.pop(windows.SHOWN, ""))
            return drawn.convert("RGB"), shown

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Raise DataError with the image's name for MedicalError and OSError."""
        try:
            yield
        except MedicalError as error:
            raise DataError(f"image {self.name}: {error}") from None
        except OSError as error:
            raise DataError(f"image {self.name}: cannot be read: {error.strerror}") from None

    def _stored(self) -> bytes:
        """Return the bytes of the image as stored, with base64 undone; see `read`."""
        path = Path(self.path)
        if not self.path:
            raise DataError(
                f"image {self.name}: not here; it was withheld, or the reference comes from a run folder, "
                "which keeps no images"
            )
        if not path.is_file():
            of_folder = " but a folder; name a slice of its series: ?slice=1" if path.is_dir() else ""
            raise DataError(f"image {self.name}: no such file{of_folder}")
        in_text = isinstance(self.cell, TextCell)
        limit = MAX_BYTES * 4 // 3 + 4 if in_text else MAX_BYTES
        try:
            if isinstance(self.cell, ParquetCell):
                data = _cell(path, self.cell)
            else:
                start, length = (0, limit + 1) if self.cell is None else (self.cell.start, self.cell.length)
                with path.open("rb") as file:
                    file.seek(start)
                    # Python makes room for all bytes that are asked for: a quarter of a gigabyte takes its time.
                    data = file.read(max(0, min(length, limit + 1, os.fstat(file.fileno()).st_size - start + 1)))
        except (OSError, ValueError) as error:
            raise DataError(f"image {self.name}: cannot be read: {error}") from error
        if len(data) > limit:
            raise DataError(f"image {self.name}: larger than {MAX_BYTES // 2**20} MiB")
        if in_text:
            try:
                data = binascii.a2b_base64(data.translate(None, WHITESPACE), strict_mode=True)
            except binascii.Error as error:
                raise DataError(f"image {self.name}: not base64: {error}") from error
        if not data:
            raise DataError(f"image {self.name}: empty")
        if self.digest and hashlib.sha256(data).hexdigest() != self.digest:
            raise DataError(f"image {self.name}: the file has changed since it was indexed")
        return data

    def sha256(self) -> str:
        """Return the SHA-256 (hex) of the stored bytes; reads the file only if `digest` is unknown."""
        if self.digest:
            return self.digest
        if self._is_of_series and os.path.isdir(self.path):
            return _digest_of(self._slices())
        if self._is_whole_file and os.path.isfile(self.path):
            status = os.stat(self.path)
            # Slides and volumes are not held in memory; whether another large file is shown is up to `pil`.
            if status.st_size > MAX_BYTES:
                return _streamed_digest(self.path, status.st_size, status.st_mtime_ns)
        return hashlib.sha256(self.read() if self.blank else self._stored()).hexdigest()

    def pinned(self) -> Image:
        """Return the image with its digest, so that `read` refuses a file that changes later.

        An unreadable image is returned unchanged: the error is raised when a model looks at it.
        """
        if self.digest:
            return self
        try:
            return replace(self, digest=_digest(replace(self, alteration=None), *medical.stamp(self.path)))
        except (DataError, OSError):
            return self

    def apparent_size(self) -> int:
        """Return pixels, by the header of a PNG or JPEG file; of others the bytes as stored; 0 if unknown.

        Only for comparisons of images: nothing is decoded or checked.
        """
        if self.blank:
            return self.size[0] * self.size[1] if self.size else 0
        if isinstance(self.cell, TextCell):
            return self.cell.length
        return _apparent_size(self.path) if self._is_whole_file else 0

    def blanked(self) -> Image:
        """Return a grey picture of the same size, without name, path and extent of this image.

        Its digest is "blank " and the digest of this image: keys of answers stay distinct, and no cache by digest
        returns the pixels. If the file cannot be read, the name stays and `pil` raises DataError.
        """
        if self.blank:
            return self
        pinned = self.pinned()
        content = f"blank {pinned.digest or pinned.name}"
        try:
            size = _size(pinned, *medical.stamp(self.path))
        except (DataError, OSError):
            return Image(self.name, digest=content, blank=True)
        return Image(BLANK, digest=content, blank=True, size=size)


def _digest_of(slices: Sequence[SeriesSlice]) -> str:
    """The SHA-256 (hex) of the file of a slice; of those of several, one of their digests."""
    digests = [_streamed_digest(path, *medical.stamp(path)) for path in dict.fromkeys(one.path for one in slices)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def inside(folder: Path, relative: str, *, where: str, named: str = "the data folder") -> Path:
    """Return the absolute path of a file named in a data file, with symbolic links resolved; it need not exist.

    `relative` is a POSIX path. Raises DataError, starting with `where`, if the path is invalid or leaves `folder`
    (absolute, through "..", or through a link; `folder` itself may be a link).
    """
    if "\\" in relative:
        raise DataError(f"{where}: path {of_data(repr(relative))} has a backslash; paths are written with /")
    try:
        root = folder.resolve()
        path = (root / relative).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        why = type(error).__name__ if are_withheld() else str(error)
        raise DataError(f"{where}: {of_data(repr(relative))} is not a path: {why}") from error
    if Path(relative).is_absolute() or not path.is_relative_to(root):
        raise DataError(f"{where}: path {of_data(repr(relative))} leaves {named}")
    return path


def _cell(path: Path, cell: ParquetCell) -> bytes:
    """The bytes of an image in a Parquet file, b"" for an empty cell (OSError, ValueError)."""
    status = os.stat(path)
    ends = _row_groups(path, status.st_mtime_ns)
    group = next((i for i, end in enumerate(ends) if cell.row < end), None)
    if group is None:
        raise ValueError(f"the file has {ends[-1] if ends else 0} rows; it has changed since it was read")
    values = _column(path, status.st_mtime_ns, group, cell.column)
    value = values[cell.row - (ends[group - 1] if group else 0)][0].as_py()
    if isinstance(value, list):
        value = value[cell.place] if cell.place < len(value) else None
    if isinstance(value, dict):
        value = value.get("bytes")
    return value if isinstance(value, bytes) else b""


@lru_cache(maxsize=8)
def _row_groups(path: Path, modified: int) -> tuple[int, ...]:
    """The number of rows up to the end of each row group of a Parquet file."""
    from itertools import accumulate

    with _parquet(path) as file:
        counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    return tuple(accumulate(counts))


@lru_cache(maxsize=2)
def _column(path: Path, modified: int, group: int, column: str) -> Any:
    """The images of one row group: neighbours in a file are asked one after the other."""
    with _parquet(path) as file:
        places = bytes_of_images(file, column)
        if not places:
            raise ValueError(f"the file has no column {column}; it has changed since it was read")
        wanted = list(places)
        group_bytes = file.metadata.row_group(group)
        if sum(group_bytes.column(place).total_uncompressed_size for place in places.values()) > MAX_ROW_GROUP:
            raise ValueError(f"a row group of more than {MAX_ROW_GROUP // 2**20} MiB")
        # One row at a time: the sizes above are the file's word, and one image may stand in every row.
        pieces, held = [], 0
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=wanted):
            held += batch.nbytes
            if held > MAX_ROW_GROUP:
                raise ValueError(f"a row group of more than {MAX_ROW_GROUP // 2**20} MiB")
            pieces.append(batch.column(0))
        return pieces


def bytes_of_images(file: Any, column: str) -> dict[str, int]:
    """Return the paths of the columns of an open Parquet file that hold the bytes of a column of images.

    Each has its number in the file's schema; {} if there is no such column.
    """
    paths = {file.schema.column(i).path: i for i in range(len(file.schema))}
    leaves = {path: i for path, i in paths.items() if path.split(".")[0] == column}
    return {path: i for path, i in leaves.items() if path.endswith(".bytes")} or leaves


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file; ValueError for a damaged one, and without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ValueError("it lies in a Parquet file: pip install 'pytest-medvqa[data]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pyarrow.ArrowException as error:
        raise ValueError(str(error).splitlines()[0]) from error


@lru_cache(maxsize=4096)
def _digest(image: Image, size: int, modified: int) -> str:
    """Cached, because questions share images; `size` and `modified` renew the entry of a changed file."""
    return image.sha256()


@lru_cache(maxsize=4096)
def _streamed_digest(path: str, size: int, modified: int) -> str:
    """The SHA-256 (hex) of a file that may be larger than the memory (DataError)."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"image {Path(path).name}: cannot be read: {error.strerror}") from error


@lru_cache(maxsize=4096)
def _size(image: Image, size: int, modified: int) -> tuple[int, int]:
    """Return width and height of `Image.pil()`, from the header alone where possible; medical files are drawn."""
    import PIL.ImageOps

    with image._opened_file() as (kind, file):
        if kind and file is not None:
            return image._rendered(kind, file)[0].size
        data = image._stored() if file is None else file.read()
    with _opened(image.name, data) as opened:
        width, height = opened.size
        # Only `getexif` can turn a PNG or JPEG, but it makes Pillow decode the whole PNG.
        if opened.format == "PNG" and not any(mark in data for mark in _PNG_ORIENTED):
            return width, height
        if opened.format == "JPEG":
            turned = opened.getexif().get(_ORIENTATION) in _QUARTER_TURNS
            return (height, width) if turned else (width, height)
        upright = PIL.ImageOps.exif_transpose(opened)
        return upright.width, upright.height


@lru_cache(maxsize=4096)
def _apparent_size(path: str) -> int:
    """Return the pixels of a PNG or JPEG file, else its bytes, 0 if it cannot be read."""
    # Opening a pipe would wait for ever.
    if not Path(path).is_file():
        return 0
    try:
        with open(path, "rb") as file:
            head = file.read(24)
            if head.startswith(b"\x89PNG"):
                width, height = struct.unpack(">II", head[16:24])
                return int(width * height)
            file.seek(2)
            # A file may have any number of segments; those of photographs have fewer than these before the size.
            for _ in range(64 if head.startswith(b"\xff\xd8") else 0):
                mark, kind, length = struct.unpack(">BBH", file.read(4))
                if mark != 0xFF:
                    break
                if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
                    _, height, width = struct.unpack(">BHH", file.read(5))
                    return int(width * height)
                file.seek(length - 2, os.SEEK_CUR)
            return os.fstat(file.fileno()).st_size
    except (OSError, struct.error):
        return 0


@contextmanager
def _opened(name: str, data: bytes) -> Iterator[PIL.ImageFile.ImageFile]:
    """Open an image; turn any error while it is open into a DataError that names the image."""
    import PIL.Image

    too_large = f"image {name}: more than {MAX_PIXELS:,} pixels"
    try:
        with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise DataError(too_large)
            yield opened
    except DataError:
        raise
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise DataError(too_large) from error
    except PIL.UnidentifiedImageError as error:
        raise DataError(f"image {name}: not an image ({', '.join(FORMATS)})") from error
    except Exception as error:
        # Decoders raise many types: OSError, SyntaxError, struct.error, zlib.error ...
        raise DataError(f"image {name}: damaged: {error}") from error


def _bits(opened: PIL.ImageFile.ImageFile, data: bytes) -> int:
    """Return the bits of the widest channel; not from the mode alone, since Pillow opens 16-bit colour as 8-bit."""
    mode = opened.mode
    mode_bits = {"I": 32, "F": 32}.get(mode, 16 if mode.startswith("I;") else 8)
    if opened.format == "PNG":
        # https://www.w3.org/TR/png-3/#11IHDR: the first chunk; signature 8, length 4, type 4, width 4, height 4 bytes.
        if data[12:16] != b"IHDR":
            raise ValueError("its header is not the first chunk")
        return max(data[24], 8)
    if opened.format == "TIFF":
        samples: int | tuple[int, ...] = opened.tag_v2.get(_BITS_PER_SAMPLE, mode_bits)  # type: ignore[attr-defined]
        return max(mode_bits, *samples) if isinstance(samples, tuple) else max(mode_bits, samples)
    return mode_bits


def _windowed(upright: PIL.Image.Image, bits: int, image: Image) -> PIL.Image.Image:
    """Map the window of a grey image linearly to 8 bits; raise DataError without a window or for colour."""
    import numpy as np
    import PIL.Image

    if bits <= 8:
        raise DataError(f"image {image.name}: a window needs more than 8 bits a channel; remove it")
    if upright.mode not in ("I", "F") and not upright.mode.startswith("I;"):
        raise DataError(
            f"image {image.name}: {bits} bits a channel (mode {upright.mode}), but models see 8. "
            "Convert the file to 8 bits"
        )
    if image.window is None:
        raise DataError(
            f"image {image.name}: {bits} bits a channel (mode {upright.mode}), but models see 8. Set the raw values "
            "for black and white, such as Image(..., window=(0, 4095)), window = [0, 4095] in the file that declares "
            'questions of your own, or "window": [0, 4095] in MedLesionVQA\'s file; or convert the picture to 8 bits'
        )
    black, white = image.window
    values = np.asarray(upright).astype(np.float64)
    if np.isnan(values).any():
        raise DataError(f"image {image.name}: some raw values are NaN")
    shown = np.clip((values - black) / (white - black), 0, 1) * 255
    return PIL.Image.fromarray(np.rint(shown).astype(np.uint8))
