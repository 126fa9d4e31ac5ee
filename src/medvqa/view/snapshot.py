"""The index of the results of a run folder at one moment; see `following`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from medvqa import files
from medvqa.items import OUTCOMES, Result
from medvqa.records import run_folder

TRUNCATED = 1
"""Bit of `Snapshot.marks`: the answer was cut off at a token limit."""
SEPARATOR = b"\xff"
"""Stands before each id in `Snapshot.ids`; UTF-8 never holds it."""


def identity_of(file: BinaryIO) -> tuple[int, int]:
    """Return the device and the inode of an open file."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index of a follower at one moment. Rows are in the order in which their keys first came.

    `offsets`, `lengths`: the last line of each row, without its end. `benchmarks`: numbers of `benchmark_names`;
    `techniques` and `outcomes`: places in TECHNIQUES and OUTCOMES; `scores`: NaN without one. `ids`: each id after
    SEPARATOR; `starts`: the places of the separators. `runs`: how many results name each run. `end`: bytes read in
    whole lines; `tail`: bytes of a last line without its end that counts. `unread`: broken lines, with a torn last
    one. `reading`: the same object for snapshots of one file, as long as it only grows. `keys`: digests of the keys,
    which may be those of a later moment.
    """

    path: Path
    version: int
    reading: object
    identity: tuple[int, int] | None
    end: int
    tail: int
    unread: int
    torn: bool
    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint32]
    benchmarks: NDArray[np.uint32]
    techniques: NDArray[np.uint8]
    outcomes: NDArray[np.uint8]
    scores: NDArray[np.float64]
    marks: NDArray[np.uint8]
    ids: bytes
    starts: NDArray[np.uint64]
    benchmark_names: tuple[str, ...]
    runs: dict[str, int]
    keys: Mapping[bytes, int]

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self.offsets)

    @property
    def errors(self) -> int:
        """The number of results that are errors."""
        return int(np.count_nonzero(self.outcomes == OUTCOMES.index("error")))

    def id_of(self, row: int) -> str:
        """Return the id of a row."""
        end = int(self.starts[row + 1]) if row + 1 < len(self.starts) else len(self.ids)
        return self.ids[int(self.starts[row]) + 1 : end].decode("utf-8", "surrogatepass")

    @property
    def searchable(self) -> int:
        """Bytes of the lines that were read, with a last one without its end."""
        return self.end + self.tail

    def results(self, rows: Iterable[int]) -> Iterator[Result | None]:
        """Read results from the file; None for a line that has changed meanwhile.

        FileNotFoundError if the file was removed or replaced, OSError if it cannot be read.
        """
        with self.opened() as file:
            for row in rows:
                yield self._result(file, int(row))

    def opened(self) -> BinaryIO:
        """Open the file that was read; FileNotFoundError if there is another at its place."""
        file = files.reading(self.path, follow=False)
        if identity_of(file) != self.identity:
            file.close()
            raise FileNotFoundError(2, "it was replaced", str(self.path))
        return file

    def _result(self, file: BinaryIO, row: int) -> Result | None:
        line = os.pread(file.fileno(), int(self.lengths[row]), int(self.offsets[row]))
        try:
            result = run_folder.decode(line)
        except msgspec.DecodeError:
            return None
        benchmark = self.benchmark_names[int(self.benchmarks[row])]
        return result if (result.item.benchmark, result.item.id) == (benchmark, self.id_of(row)) else None
