"""Image files that a row of a table names."""

from __future__ import annotations

import posixpath
from pathlib import Path

from medvqa.image import inside
from medvqa.items import DataError, Image


def image_file(
    file: str,
    *,
    folder: Path,
    root: Path,
    where: str,
    window: tuple[float, float] | None = None,
    named: str = "the data folder",
) -> Image:
    """Return the reference to an image file, which need not exist.

    `file`: a POSIX path relative to `folder`, the folder of the table. The image's name is relative to `root`, the data
    folder. Raises DataError, which begins with `where`, for a path that leaves the folder and for a wrong window.
    `named`: the folder in messages.
    """
    path = inside(folder, file, where=where, named=named)
    name = (folder / posixpath.normpath(file)).relative_to(root).as_posix()
    try:
        return Image(name, str(path), window=window)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
