"""Image files that a row of a table names."""

from __future__ import annotations

import posixpath
from pathlib import Path

from medvqa.image import inside
from medvqa.items import DataError, Image
from medvqa.medical import views


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
    path = inside(folder, place, where=where, named=named)
    name = (folder / posixpath.normpath(place)).relative_to(root).as_posix()
    if parts:
        name = f"{name}?{parts}"
        window = None if any(part.startswith(("window=", "range=")) for part in parts.split("&")) else window
    try:
        return Image(name, str(path), window=window, allow_burned_in=allow_burned_in)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
