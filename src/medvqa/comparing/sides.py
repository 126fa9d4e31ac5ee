"""The two runs of a comparison, and why they may not be compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa import records
from medvqa.items import Result


@dataclass(frozen=True, slots=True)
class Side:
    """One run: its name, its run.json, and its results, the latest of each item and technique, sorted by these."""

    name: str
    run: Mapping[str, Any]
    results: tuple[Result, ...]

    def only(self, benchmarks: Collection[str]) -> Side:
        """The same run as if it had no other benchmarks."""
        about = {name: said for name, said in self.run.get("benchmarks", {}).items() if name in benchmarks}
        results = tuple(result for result in self.results if result.item.benchmark in benchmarks)
        return replace(self, run={**self.run, "benchmarks": about}, results=results)


def load(path: Path) -> Side:
    """Read a run folder. UsageError when it is none."""
    return Side(path.resolve().name, records.read_run(path), records.read(path).results)


def refusals(new: Side, baseline: Side) -> list[str]:
    """Why no verdict may be given on these two runs, one line for each difference, naming both; [] when there is none.

    Another data set version, prompt, judge, extraction, ablation or origin of the answer key, and a benchmark or a
    technique that the baseline has alone.
    """
    raise NotImplementedError
