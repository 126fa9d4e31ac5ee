"""The files of one split, and the Parquet files that the hub writes: `test-00000-of-00003-e9ad.parquet` and so on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from medvqa import tables
from medvqa.items import DataError

_NAME = re.compile(r"(?P<split>.+)-(?P<part>\d{1,9})-of-(?P<parts>\d{1,9})(?:-[0-9a-f]+)?\.parquet")
SHOWN = 10
"""Missing files that a message names."""


def shards(folder: Path, split: str) -> list[Path]:
    """Return the files of a split in the folder `data` of `folder`, else in `folder` itself; [] without any.

    A file may have the split's name alone (`test.parquet`). Some may be missing: see `whole`.
    """
    for place in (folder / "data", folder):
        found = sorted(path for path in place.glob(f"{split}-*.parquet") if _split(path) == split)
        if (place / f"{split}.parquet").is_file():
            found.append(place / f"{split}.parquet")
        if found:
            return found
    return []


def rows(
    files: Sequence[Path], data: Path, name: str, *, needed: Sequence[str] = (), digests: bool = False
) -> Iterator[tables.TableRow]:
    """Yield the rows of the files of a split, which must be whole; errors name a file by its path in the data folder.

    `name`, `needed` and `digests` are as in `whole` and `tables.read`.
    """
    for path in whole(files, name):
        wanted = [needed] if needed else []
        yield from tables.read(path, name=path.relative_to(data).as_posix(), needed=wanted, digests=digests)


def whole(files: Sequence[Path], name: str) -> Sequence[Path]:
    """Return the files of a split if none is missing and none is there twice, else raise DataError.

    `name` names the data set in messages.
    """
    parts = [match for path in files if (match := _NAME.fullmatch(path.name))]
    numbers, totals = {int(part["part"]) for part in parts}, {int(part["parts"]) for part in parts}
    if len(totals) > 1 or len(numbers) < len(parts) or (parts and len(parts) < len(files)):
        shown = ", ".join(path.name for path in files[:SHOWN])
        raise DataError(f"{name}: files of two versions of a split; keep those of one: {shown}")
    if parts:
        split, total = parts[0]["split"], max(totals)
        missing = [f"{split}-{part:05}-of-{total:05}" for part in range(min(total, len(files) + SHOWN))]
        missing = [part for number, part in enumerate(missing) if number not in numbers]
        if missing:
            raise DataError(f"{name}: {len(files)} of {total} files are there; missing: {', '.join(missing[:SHOWN])}")
    return files


def _split(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return match["split"] if match else ""
