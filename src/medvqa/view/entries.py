"""One run folder as an entry of the list: its numbers, its label and its gate, from the small files of the folder.

Of results.jsonl only the last bytes are read here, unless they have changed (`coverage_since`). A damaged file costs
its folder alone: the entry is `unreadable` with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from medvqa import files, printing
from medvqa.comparing import gating
from medvqa.comparing.sides import settings_of
from medvqa.items import Benchmark, Measure, MedVQAError
from medvqa.records import run_folder, run_record
from medvqa.records.coverage import METRICS, MetricsHead, ResultsReader, coverage_since
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import MAX_RUN, RUN, RunRecord, Selection
from medvqa.report import gate
from medvqa.report.build import headline_of, label_of, shown_benchmark
from medvqa.session.registry import Registry
from medvqa.view.run_index import refuse_links
from medvqa.view.shapes import GateAttempt, HeadlineNumber, RunEntry

READ = (RUN, METRICS, gating.FILE)
"""The files that an entry is made of."""
COUNTED = (*READ, RESULTS)
"""The files whose change makes another entry, beside those of selected keys."""
_RESULTS: Mapping[str | None, Literal["passed", "failed", "inconclusive", "unknown"]] = {
    "PASS": "passed",
    "FAIL": "failed",
    "INCONCLUSIVE": "inconclusive",
}


@dataclass(frozen=True, slots=True)
class _StoredMeasure(Measure):
    """A measure of metrics.json, with the selected part of its benchmark."""

    # Nobody reads them here: whatever an earlier version wrote is no damage.
    references: Any = field(default_factory=dict)
    selection: Mapping[str, Any] | None = None


class _StoredVerdict(msgspec.Struct):
    of: str = ""


class _StoredMetrics(MetricsHead, kw_only=True):
    """metrics.json. Measures stay as they are written: there are thousands, and few are over all questions."""

    measures: list[msgspec.Raw]
    gate: _StoredVerdict | None = None


_metrics = msgspec.json.Decoder(_StoredMetrics)
_measure = msgspec.json.Decoder(_StoredMeasure)
_OVERALL = re.compile(rb'"slice"\s*:\s*\{\s*\}')
"""A measure without it is one of a slice."""


def describe(name: str, folder: Path, registry: Registry, follow: Callable[[], ResultsReader]) -> RunEntry:
    """Return the entry of a run folder; `follow` reads its results if the small files are not of them."""
    try:
        return _described(name, folder, registry, follow)
    except (MedVQAError, OSError) as error:
        return RunEntry(name, "unreadable", "", "", "", "", 0, 0, "", [], [], why=reason(str(error), folder))


def reason(error: str, folder: Path) -> str:
    """Return the reason of an error for a page: a line that names no folder of this machine."""
    return printing.line(error.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name))


def _described(name: str, folder: Path, registry: Registry, follow: Callable[[], ResultsReader]) -> RunEntry:
    refuse_links(folder, COUNTED)
    run = run_record.read_run(folder)
    run_folder.check_scored(folder, run)
    selection = run.selected
    stored, overall, why = _stored_metrics(folder)
    covered = coverage_since(stored, folder, run, follow)
    known = _known(folder, run, registry)
    lost = list(dict.fromkeys(measure.benchmark for measure in overall if measure.benchmark not in known))
    if lost:
        why = (
            f"no numbers of {', '.join(lost[:3])}: the benchmark is not known here. Start medvqa view in the project "
            "that declares it, or name the file that does with --benchmark=FILE"
        )
    stale = covered.current is False
    why = why or "; ".join(map(printing.line, covered.reasons))
    return RunEntry(
        name,
        "finished" if covered.finished else "unfinished",
        run.model_name,
        label_of(run),
        run.started,
        run.finished,
        covered.number,
        selection.questions,
        _part(selection),
        list(_asked(run, selection)),
        _numbers(overall, run, known, {} if stored is None else stored.outcomes),
        _gate(folder, None if stale else stored),
        stale,
        stored is not None and covered.current is None,
        why,
        covered.errors,
        run.last_session.stopped,
        () if run.tags is None else run.tags.dimensions,
    )


def _stored_metrics(folder: Path) -> tuple[_StoredMetrics | None, list[_StoredMeasure], str]:
    """metrics.json, its measures over all questions; why it cannot be read."""
    if not (folder / METRICS).exists():
        return None, [], ""
    try:
        content = files.read(folder / METRICS, MAX_RUN)
        stored = _metrics.decode(content)
        overall = _overall(stored)
    except OSError as error:
        return None, [], f"{METRICS} cannot be read: {error.strerror}. Write it anew: medvqa report RUN"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return None, [], printing.line(f"{METRICS} is damaged: {error}. Write it anew: medvqa report RUN")
    return stored, overall, ""


def _known(folder: Path, run: RunRecord, registry: Registry) -> Mapping[str, Benchmark]:
    """The known benchmarks, and those of files that the run recorded."""
    if all(name in registry.benchmarks for name in run.benchmarks):
        return registry.benchmarks
    return registry.with_runs([folder]).benchmarks


def _overall(stored: _StoredMetrics) -> list[_StoredMeasure]:
    """The measures over all questions (msgspec.DecodeError)."""
    measures = (_measure.decode(raw) for raw in stored.measures if _OVERALL.search(raw))
    return [measure for measure in measures if not measure.slice]


def _asked(run: RunRecord, selection: Selection) -> Sequence[str]:
    """The benchmarks of which the run selected a question; all of its benchmarks if that is not recorded."""
    chosen = [
        name
        for name, techniques in selection.benchmarks.items()
        if any(portion.chosen for portion in techniques.values())
    ]
    return chosen or list(run.benchmarks)


def _part(selection: Selection) -> str:
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
    run: RunRecord,
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
        unknown = None if run.selection is not None else {"results": counted}
        benchmark = shown_benchmark(known[name], run)
        better = {metric.name: metric.better for metric in benchmark.metrics}
        numbers += [
            _number(measures[headline], lower=better.get(headline) == "lower", unknown=unknown)
            for headline in headline_of(known[name], run)
            if headline in measures
        ]
    return numbers


def _number(stored: _StoredMeasure, *, lower: bool, unknown: Mapping[str, int] | None) -> HeadlineNumber:
    return HeadlineNumber(
        *(stored.benchmark, stored.technique, stored.name, stored.name.replace("_", " ")),
        *(stored.value, stored.low, stored.high),
        round(stored.n),
        stored.figure.stated,
        comparable(
            *(stored.benchmark, stored.technique, stored.name, stored.signature),
            stored.selection if unknown is None else unknown,
        ),
        stored.figure.interval,
        lower,
        stored.percent,
    )


def comparable(benchmark: str, technique: str, name: str, signature: str, selection: Mapping[str, Any] | None) -> str:
    """Return a digest of all that must be equal for two numbers to belong to one trend.

    These are benchmark, technique, measure, selection and settings.
    """
    content = msgspec.json.encode((benchmark, technique, name, settings_of(signature), selection), order="sorted")
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
