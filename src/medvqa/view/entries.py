"""One run folder as an entry of the list: its numbers, its label and its gate, from the small files of the folder.

results.jsonl is not read here. A damaged file costs its folder alone: the entry is `unreadable` with the reason.
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
"""The files that an entry is made of; results.jsonl counts by its stamp alone."""
Stamp = tuple[int, int, int] | None
"""Inode, size and time of the last change of a file in ns; None if it is missing, or no regular file."""
_RESULTS: Mapping[str | None, Literal["passed", "failed", "inconclusive", "unknown"]] = {
    "PASS": "passed",
    "FAIL": "failed",
    "INCONCLUSIVE": "inconclusive",
}


@dataclass(frozen=True)
class Described:
    """What the small files of a folder say. `answered` is None if metrics.json does not tell the present number.

    `complete`: metrics.json is of the present results and names no gap.
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
    complete: bool = False
    stale: bool = False
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
    return (status.st_ino, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


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
    for name in (*READ, records.RESULTS):
        if (folder / name).is_symlink():
            raise UsageError(f"{name} is a symbolic link, and is not followed: copy the file there")
    run = records.read_run(folder)
    records.check_scored(folder, run)
    selection = records.Selection.of(run)
    stored, overall, stale, why = _stored_metrics(folder)
    known = _known(folder, run, registry)
    numbers = _numbers(overall, run, known, {} if stored is None else stored.outcomes)
    lost = list(dict.fromkeys(measure.benchmark for measure in overall if measure.benchmark not in known))
    if lost:
        why = (
            f"no numbers of {', '.join(lost[:3])}: the benchmark is not known here. Start medvqa view in the project "
            "that declares it, or name the file that does with --benchmark=FILE"
        )
    fresh = stored is not None and not stale
    return Described(
        model_name(run),
        label_of(run),
        str(run.get("started", "")),
        str(run.get("finished", "")),
        selection.questions,
        _part(selection),
        tuple(_asked(run, selection)),
        tuple(numbers),
        _gate(folder, stored if fresh else None),
        sum(sum(counts.values()) for counts in stored.outcomes.values()) if stored is not None and fresh else None,
        complete=stored is not None and fresh and _is_complete(stored, run),
        stale=stale,
        why=why,
    )


def _stored_metrics(folder: Path) -> tuple[_StoredMetrics | None, list[_StoredMeasure], bool, str]:
    """metrics.json, its measures over all questions, whether it is older than the results; why it cannot be read."""
    written, results = stamp(folder / METRICS), stamp(folder / records.RESULTS)
    if written is None:
        return None, [], False, ""
    try:
        content = files.read(folder / METRICS, records.MAX_RUN)
        stored = _metrics.decode(content)
        overall = _overall(stored)
    except OSError as error:
        return None, [], False, f"{METRICS} cannot be read: {error.strerror}. Write it anew: medvqa report RUN"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return None, [], False, printing.line(f"{METRICS} is damaged: {error}. Write it anew: medvqa report RUN")
    return stored, overall, results is not None and results[2] > written[2], ""


def _is_complete(stored: _StoredMetrics, run: Mapping[str, Any]) -> bool:
    """Whether no selected question lacks a result; a single shard may be complete (`records.Coverage.finished`)."""
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
    """The verdict in gate.json. It is stale unless metrics.json of the present results has it too."""
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
        stored is None or stored.gate is None or stored.gate.of != verdict.of,
    )
