"""Image files that a row of a table names."""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from pathlib import Path

from medvqa.image import inside
from medvqa.items import DataError, Image
from medvqa.medical import views

IMAGE_FILE = re.compile(
    r"\.(?:png|jpe?g|webp|bmp|gif|tiff?|dcm|dicom|nii|nii\.gz|svs|ndpi|mrxs)(?:\?\S*)?$"
    r"|/?\?(?:instance|position|slice)=\S+$",
    re.I,
)
"""The end of a path of an image, or of the folder of a DICOM series with a slice."""


def image_file(
    file: str,
    *,
    folder: Path,
    root: Path,
    where: str,
    window: tuple[float, float] | None = None,
    named: str = "the data folder",
    allow_burned_in: bool = False,
) -> Image:
    """Return the reference to an image file, which need not exist.

    `file`: a POSIX path relative to `folder`, the folder of the table; it may end in a view, such as `?window=lung`,
    whose window replaces `window`. The image's name is relative to `root`, the data folder. Raises DataError, which
    begins with `where`, for a path that leaves the folder and for a wrong window or view. `named`: the folder in
    messages. `allow_burned_in` is as in `Image`.
    """
    place, parts = views.split(file)
    place = spelled(place, folder)
    path = inside(folder, place, where=where, named=named)
    name = (folder / posixpath.normpath(place)).relative_to(root).as_posix()
    if parts:
        name = f"{name}?{parts}"
        window = None if any(part.startswith(("window=", "range=")) for part in parts.split("&")) else window
    try:
        return Image(name, str(path), window=window, allow_burned_in=allow_burned_in)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def spelled(file: str, folder: Path) -> str:
    """Return the name of a file as the folder spells it: composed (NFC), or decomposed (NFD), as on a Mac."""
    if file.isascii():
        return file
    names = (unicodedata.normalize(form, file) for form in ("NFC", "NFD"))
    return next((name for name in names if "\0" not in name and os.path.lexists(folder / name)), file)


class ImageFolder:
    """References to many image files of a folder, as by `image_file`, without resolving the folder for each."""

    def __init__(self, folder: Path, root: Path) -> None:
        """`root` is the data folder, which contains `folder`."""
        self._folder, self._root = folder, root
        self._prefix = folder.relative_to(root).as_posix()
        self._resolved: dict[str, str] = {}

    def image(self, file: str, where: str) -> Image:
        """Return the reference to an image file; see `image_file`."""
        inner, _, name = file.rpartition("/")
        path = f"{self._place(inner)}/{name}"
        plain = file.isascii() and not ("\\" in file or "\0" in file)
        if not plain or any(part in ("", ".", "..") for part in file.split("/")) or _is_link(path):
            return image_file(file, folder=self._folder, root=self._root, where=where)
        if inner not in self._resolved:
            self._resolved[inner] = str(inside(self._folder, inner, where=where))
        return Image(f"{self._prefix}/{file}", f"{self._resolved[inner]}/{name}")

    def _place(self, inner: str) -> str:
        return self._resolved.get(inner) or f"{self._folder}/{inner}"


def _is_link(path: str) -> bool:
    try:
        return os.path.islink(path)
    except ValueError:
        return True
