"""One run folder as an entry of the list: its numbers, its label and its gate, from the small files of the folder.

Of results.jsonl only the last bytes are read here (`records.is_current`). A damaged file costs its folder alone: the
entry is `unreadable` with the reason.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from medvqa import files, metrics, printing, records
from medvqa.comparing import gating
from medvqa.comparing.sides import NOTED, model_name
from medvqa.items import Benchmark, Measure, MedVQAError, UsageError
from medvqa.records.coverage import absent_shares
from medvqa.report import gate, tables
from medvqa.report.build import headline_of, label_of, shown_benchmark
from medvqa.session.registry import Registry
from medvqa.view.shapes import GateAttempt, HeadlineNumber

METRICS = "metrics.json"
READ = (records.RUN, METRICS, gating.FILE)
"""The files that an entry is made of."""
COUNTED = (*READ, records.RESULTS)
"""The files whose change makes another entry, beside those of selected keys."""
Stamp = tuple[int, int, int, int] | None
"""Inode, size, and times of the last change of a file and of its status in ns; None without a regular file.

Equal stamps tell that a file is the one that was read. They never tell which of two files is older.
"""
_RESULTS: Mapping[str | None, Literal["passed", "failed", "inconclusive", "unknown"]] = {
    "PASS": "passed",
    "FAIL": "failed",
    "INCONCLUSIVE": "inconclusive",
}


@dataclass(frozen=True)
class Described:
    """What the small files of a folder say. `answered` and `complete` are None if these do not tell it.

    `complete`: no selected question is known to be missing. `stale`, `unchecked`: as in `RunEntry`.
    """

    model: str = ""
    label: str = ""
    started: str = ""
    finished: str = ""
    selected: int = 0
    part: str = ""
    benchmarks: tuple[str, ...] = ()
    numbers: tuple[HeadlineNumber, ...] = ()
    gate: GateAttempt | None = None
    answered: int | None = None
    errors: int = 0
    stopped: str = ""
    complete: bool | None = None
    stale: bool = False
    unchecked: bool = False
    unreadable: bool = False
    why: str = ""


class _StoredMeasure(msgspec.Struct):
    """A measure of metrics.json."""

    benchmark: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    n: float
    slice: dict[str, str] = {}
    count: float | None = None
    unit: str = "items"
    signature: str = ""
    technique: str = ""
    units: int | None = None
    groups: int | None = None
    percent: bool = True
    selection: dict[str, Any] | None = None


class _StoredVerdict(msgspec.Struct):
    of: str = ""


class _StoredMetrics(msgspec.Struct):
    """metrics.json. Measures stay as they are written: there are thousands, and few are over all questions."""

    measures: list[msgspec.Raw]
    results: records.Basis | None = None
    gate: _StoredVerdict | None = None
    outcomes: dict[str, dict[str, int]] = {}
    missing: list[str] = []
    unfinished: list[str] = []


_metrics = msgspec.json.Decoder(_StoredMetrics)
_measure = msgspec.json.Decoder(_StoredMeasure)
_OVERALL = re.compile(rb'"slice"\s*:\s*\{\s*\}')
"""A measure without it is one of a slice."""


def stamp(path: Path) -> Stamp:
    """Return the stamp of a regular file, None if there is none. A link is none: it may leave the served folder."""
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def describe(folder: Path, registry: Registry) -> Described:
    """Read the small files of a run folder."""
    try:
        return _described(folder, registry)
    except (MedVQAError, OSError) as error:
        return Described(unreadable=True, why=without_path(str(error), folder))


def without_path(text: str, folder: Path) -> str:
    """Return a message without the path of a run folder, as one printable line."""
    return printing.line(text.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name))


def _described(folder: Path, registry: Registry) -> Described:
    for name in COUNTED:
        if (folder / name).is_symlink():
            raise UsageError(f"{name} is a symbolic link, and is not followed: copy the file there")
    run = records.read_run(folder)
    records.check_scored(folder, run)
    selection = records.Selection.of(run)
    stored, overall, why = _stored_metrics(folder)
    current = None if stored is None else records.is_current(stored.results, folder)
    known = _known(folder, run, registry)
    numbers = _numbers(overall, run, known, {} if stored is None else stored.outcomes)
    lost = list(dict.fromkeys(measure.benchmark for measure in overall if measure.benchmark not in known))
    if lost:
        why = (
            f"no numbers of {', '.join(lost[:3])}: the benchmark is not known here. Start medvqa view in the project "
            "that declares it, or name the file that does with --benchmark=FILE"
        )
    stale = current is False
    fresh = stored if not stale else None
    return Described(
        model_name(run),
        label_of(run),
        str(run.get("started", "")),
        str(run.get("finished", "")),
        selection.questions,
        _part(selection),
        tuple(_asked(run, selection)),
        tuple(numbers),
        _gate(folder, fresh),
        None if fresh is None else _answered(fresh),
        errors=0 if fresh is None else sum(counts.get("error", 0) for counts in fresh.outcomes.values()),
        stopped=records.stopped(run),
        complete=None if fresh is None else _is_complete(fresh, folder, run),
        stale=stale,
        unchecked=stored is not None and current is None,
        why=why,
    )


def _stored_metrics(folder: Path) -> tuple[_StoredMetrics | None, list[_StoredMeasure], str]:
    """metrics.json, its measures over all questions; why it cannot be read."""
    if stamp(folder / METRICS) is None:
        return None, [], ""
    try:
        content = files.read(folder / METRICS, records.MAX_RUN)
        stored = _metrics.decode(content)
        overall = _overall(stored)
    except OSError as error:
        return None, [], f"{METRICS} cannot be read: {error.strerror}. Write it anew: medvqa report RUN"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return None, [], printing.line(f"{METRICS} is damaged: {error}. Write it anew: medvqa report RUN")
    return stored, overall, ""


def _answered(stored: _StoredMetrics) -> int:
    if stored.results is not None:
        return stored.results.number
    return sum(sum(counts.values()) for counts in stored.outcomes.values())


def _is_complete(stored: _StoredMetrics, folder: Path, run: Mapping[str, Any]) -> bool | None:
    """Whether no selected question lacks a result; a single shard may be complete. None if only the keys tell it."""
    if stored.results is not None:
        return records.is_finished(stored.results, folder, run)
    return not stored.missing and not set(stored.unfinished) - set(absent_shares(run))


def _known(folder: Path, run: Mapping[str, Any], registry: Registry) -> Mapping[str, Benchmark]:
    """The known benchmarks, and those of files that the run recorded."""
    if all(name in registry.benchmarks for name in run.get("benchmarks", {})):
        return registry.benchmarks
    return registry.with_runs([folder]).benchmarks


def _overall(stored: _StoredMetrics) -> list[_StoredMeasure]:
    """The measures over all questions (msgspec.DecodeError)."""
    measures = (_measure.decode(raw) for raw in stored.measures if _OVERALL.search(raw))
    return [measure for measure in measures if not measure.slice]


def _asked(run: Mapping[str, Any], selection: records.Selection) -> Sequence[str]:
    """The benchmarks of which the run selected a question; all of its benchmarks if that is not recorded."""
    chosen = [
        name
        for name, techniques in selection.benchmarks.items()
        if any(portion.chosen for portion in techniques.values())
    ]
    return chosen or list(run.get("benchmarks", {}))


def _part(selection: records.Selection) -> str:
    """The selected part: one phrase if all benchmarks have the same, else one for each that is not whole."""
    lines = {
        (name, technique): selection.line(name, technique)
        for name, techniques in selection.benchmarks.items()
        for technique, portion in techniques.items()
        if portion.chosen
    }
    if len(set(lines.values())) == 1:
        return next(iter(lines.values()))
    several = len({technique for _, technique in lines}) > 1
    return "; ".join(
        f"{name}{f' {technique}' if several else ''}: {line}" for (name, technique), line in lines.items() if line
    )


def _numbers(
    overall: Iterable[_StoredMeasure],
    run: Mapping[str, Any],
    known: Mapping[str, Benchmark],
    outcomes: Mapping[str, Mapping[str, int]],
) -> list[HeadlineNumber]:
    """The headline measures over all questions, in the order of the reports.

    If a run did not record its selection, only numbers over equally many results share a trend.
    """
    parts: dict[tuple[str, str], dict[str, _StoredMeasure]] = {}
    for measure in overall:
        parts.setdefault((measure.benchmark, measure.technique), {})[measure.name] = measure
    numbers = []
    for (name, technique), measures in parts.items():
        if name not in known:
            continue
        counted = sum(outcomes.get(f"{name} {technique}", outcomes.get(name, {})).values())
        unknown = None if "selection" in run else {"results": counted}
        benchmark = shown_benchmark(known[name], run)
        better = {metric.name: metric.better for metric in benchmark.metrics}
        numbers += [
            _number(measures[headline], lower=better.get(headline) == "lower", unknown=unknown)
            for headline in headline_of(known[name], run)
            if headline in measures
        ]
    return numbers


def _number(stored: _StoredMeasure, *, lower: bool, unknown: Mapping[str, int] | None) -> HeadlineNumber:
    measure = Measure(
        *(stored.benchmark, stored.name, stored.value, stored.low, stored.high, stored.n, stored.count, stored.unit),
        technique=stored.technique,
        units=stored.units,
        groups=stored.groups,
        percent=stored.percent,
    )
    return HeadlineNumber(
        *(stored.benchmark, stored.technique, stored.name, stored.name.replace("_", " ")),
        *(stored.value, stored.low, stored.high),
        round(stored.n),
        tables.with_percent(measure),
        comparable(
            *(stored.benchmark, stored.technique, stored.name, stored.signature),
            stored.selection if unknown is None else unknown,
        ),
        tables.interval(measure),
        lower,
        stored.percent,
    )


def comparable(benchmark: str, technique: str, name: str, signature: str, selection: Mapping[str, Any] | None) -> str:
    """Return a digest of all that must be equal for two numbers to belong to one trend.

    These are benchmark, technique, measure, selection, and the signature without the parts that may differ between
    comparable runs (`comparing.sides.NOTED`). The number of samples may differ only for means.
    """
    try:
        parts = metrics.parts(signature)
    except ValueError:
        parts = {"signature": signature}
    ignored = NOTED - {"repeat"} if "combine" in parts else NOTED
    kept = sorted((part, value) for part, value in parts.items() if part not in ignored)
    content = msgspec.json.encode((benchmark, technique, name, kept, selection), order="sorted")
    return sha256(content).hexdigest()[:16]


def _gate(folder: Path, stored: _StoredMetrics | None) -> GateAttempt | None:
    """The verdict in gate.json. It is stale unless `stored`, metrics.json of the present results, is of the same."""
    decided = gating.read(folder)
    if decided is None:
        return None
    verdict = decided.verdict
    reasons = [*verdict.blockers, *(entry.why for entry in gate.listed(verdict) if entry.outcome != "PASS")]
    return GateAttempt(
        _RESULTS.get(verdict.outcome, "unknown"),
        max(decided.attempts, default=0),
        printing.line(reasons[0]) if reasons else "",
        ", ".join(dict.fromkeys(against.name for against in verdict.baselines)),
        stored is None or not _decides(decided, stored),
    )


def _decides(decided: gating.Decided, stored: _StoredMetrics) -> bool:
    """Whether a verdict is on the results of metrics.json, or these were scored anew and have the same scores."""
    if stored.results is not None and stored.results.digest == decided.digest:
        return True
    return stored.gate is not None and stored.gate.of == decided.verdict.of
