"""A run folder while its run lasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medvqa import records, report
from medvqa.items import Outcome
from medvqa.plugin.plan import Plan
from medvqa.plugin.state import STOP


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Recording:
    """Appends results as they come, and writes the reports at the end."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Make the folder (UsageError when it exists or cannot be made) and write run.json."""
        self._plan = plan
        self._recorder = records.Recorder(folder)
        self._stop = folder / STOP
        self._outcomes: dict[str, Outcome] = {}
        self.counts: Counter[Outcome] = Counter()
        self.usage: Counter[str] = Counter()
        self._about: dict[str, Any] = {"name": folder.name, "started": _now(), "model": {}, **plan.about()}
        self._write()

    def _write(self) -> None:
        records.write_json(self._recorder.folder / records.RUN, self._about)

    def take(
        self,
        lines: Sequence[str],
        outcomes: Mapping[str, Outcome],
        about: Mapping[str, Any] | None,
        usage: Mapping[str, float],
    ) -> None:
        """Append results as encoded by the process that evaluated; OSError when the disk does not take them."""
        for line in lines:
            self._recorder.append(line.encode())
        for name, outcome in outcomes.items():
            if name in self._outcomes:
                self.counts[self._outcomes[name]] -= 1
            self._outcomes[name] = outcome
            self.counts[outcome] += 1
        self.usage.update(usage)
        if about is not None and not self._about["model"]:
            self._about.update(about)
            self._write()

    def stop(self, why: str) -> None:
        """Let workers end after the item that they are asking."""
        records.write_atomic(self._stop, why.encode())

    def is_complete(self, expected: Collection[str]) -> bool:
        """Whether every expected item has a result and none ended in error."""
        return self._outcomes.keys() >= set(expected) and "error" not in self._outcomes.values()

    def finish(self, expected: Collection[str]) -> report.Report:
        """Close the folder and write its reports."""
        self._recorder.close()
        self._stop.unlink(missing_ok=True)
        self._about["finished"] = _now()
        if self.usage:
            self._about["usage"] = dict(self.usage)
        self._write()
        known = self._plan.known
        missing = sorted(set(expected) - self._outcomes.keys())
        return report.write(report.build(self._recorder.folder, known.benchmarks, known.metrics, missing))
