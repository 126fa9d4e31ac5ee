"""Where benchmarks and data sets come from, as plain values that a child process can be given."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from medvqa.items import UsageError
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
        files = [] if self.noconftest else conftests.found(Path.cwd())[0]
        named = [Path(path) for path in self.plugins]
        if missing := [path for path in named if not path.is_file()]:
            raise UsageError(f"--plugin={missing[0]}: no such Python file")
        modules = [conftests.load(file) for file in (*files, *(path for path in named if path not in files))]
        known, _ = Registry.of(reversed(modules)).with_files(self.benchmarks, Path.cwd())
        return known.with_runs(runs)
