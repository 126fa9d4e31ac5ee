"""Where benchmarks and data sets come from, as plain values that a child process can be given."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from medvqa.session import conftests
from medvqa.session.registry import Registry


class Sources(msgspec.Struct, frozen=True):
    """The options of `medvqa view` by which benchmarks and data sets are found; paths are absolute."""

    data: str | None = None
    """The folder of the data sets, None if it is unknown."""
    plugins: tuple[str, ...] = ()
    noconftest: bool = False
    benchmarks: tuple[str, ...] = ()
    """Files that declare benchmarks."""

    @property
    def folder(self) -> Path | None:
        """The data folder."""
        return None if self.data is None else Path(self.data)

    def registry(self, runs: Iterable[Path] = ()) -> Registry:
        """Return the registry of the current folder, with the benchmarks that `runs` recorded (UsageError)."""
        named = map(Path, self.plugins)
        known, _ = conftests.registry(named, noconftest=self.noconftest).with_files(self.benchmarks, Path.cwd())
        return known.with_runs(runs)
