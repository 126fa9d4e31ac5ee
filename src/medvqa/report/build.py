"""What a run folder says, as one value, and the files that are written from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa import files, metrics, records, scoring
from medvqa.benchmarks import not_known
from medvqa.comparing import gating
from medvqa.items import (
    OUTCOMES,
    TECHNIQUES,
    Benchmark,
    Kind,
    Measure,
    Metric,
    Outcome,
    Result,
    Technique,
    UsageError,
)
from medvqa.protocols.ablation import LABELS

if TYPE_CHECKING:
    from medvqa.report.html import Pictures

SCHEMA = 1
FACTOR, LEAST, ROOM = 4, 256, 4096
"""The limit of tokens that is proposed where answers were cut off: so many times the old one, but at least `LEAST`;
`ROOM` where a server's own limit is not known."""


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark of a run, asked by one technique: its results by outcome, and its headline measures.

    A part without results holds the maxima over the techniques of a run that has several. `name` is the benchmark's,
    with the technique if the run has several and what was done to the images.
    """

    name: str
    benchmark: Benchmark
    technique: str
    results: tuple[Result, ...]
    measures: tuple[Measure, ...]
    broken_pairs: tuple[str, ...]

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """Number of items of each outcome, all outcomes named."""
        counts = Counter(result.score.outcome for result in self.results)
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    @property
    def truncated(self) -> tuple[Result, ...]:
        """The results whose answers were cut off at a limit of tokens."""
        return tuple(result for result in self.results if metrics.is_complete(result) is False)

    @property
    def headline(self) -> list[Measure]:
        """The measures by which the benchmark is known, over all its items."""
        overall = {measure.name: measure for measure in self.measures if not measure.slice}
        return [overall[name] for name in (*self.benchmark.headline, *metrics.MAXIMA.values()) if name in overall]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the files of a run folder are written from. `missing` names items without a result.

    `ablation` says what was done to the images ("blank images"), "" for nothing. `gate` is the verdict on these very
    results, None where there is none; `stale` tells that there is one on other results.
    """

    folder: Path
    run: Mapping[str, Any]
    parts: tuple[Part, ...]
    unread: tuple[str, ...]
    missing: tuple[str, ...] = ()
    sheets: tuple[Path, ...] = ()
    ablation: str = ""
    gate: gating.Decided | None = None
    stale: bool = False

    @property
    def title(self) -> str:
        """The run's name, and what was done to the images."""
        return f"{self.folder.name}: {self.ablation}" if self.ablation else self.folder.name

    @property
    def counted(self) -> str:
        """What a result is one of: items, or answers where each item has several."""
        return "answers" if self.run.get("repeat") else "items"

    @property
    def techniques(self) -> tuple[str, ...]:
        """By which techniques the results were had, in the order of `TECHNIQUES`."""
        return tuple(name for name in TECHNIQUES if any(part.technique == name for part in self.parts))


def build(
    folder: Path, known: Mapping[str, Benchmark], extra: Sequence[Metric] = (), missing: Sequence[str] | None = None
) -> Report:
    """Read a run folder and compute its measures.

    `known` are the benchmarks by name; `extra` metrics are computed for each. `missing` names questions without a
    result (None: those that run.json names). UsageError when the folder is
    none, or holds results of a benchmark that is not known.
    """
    run = records.read_run(folder)
    stored = records.read(folder)
    missing = run.get("missing", ()) if missing is None else missing
    several = len({result.technique for result in stored.results}) > 1
    label = LABELS.get(run.get("ablation", ""), "")
    parts = []
    for name, group in groupby(stored.results, key=lambda result: result.item.benchmark):
        if name not in known:
            raise not_known(f"{folder} holds", name, known)
        made = _parts(known[name], list(group), extra, run)
        for part in made:
            technique = f" {part.technique}" if several else ""
            parts.append(replace(part, name=f"{name}{technique}" + (f" ({label})" if label else "")))
    decided = gating.read(folder)
    stale = decided is not None and decided.verdict.of != gating.digest(run, stored.results)
    gate = None if stale else decided
    return Report(
        folder, run, tuple(parts), stored.unread, tuple(sorted(missing)), ablation=label, gate=gate, stale=stale
    )


def _parts(
    benchmark: Benchmark, results: Sequence[Result], extra: Sequence[Metric], run: Mapping[str, Any]
) -> list[Part]:
    """One part for each technique, and one for the maxima over several."""
    about = run.get("benchmarks", {}).get(benchmark.name, {})
    common, prompts = about.get("signature", {}), about.get("prompts", {})
    by_technique = {name: tuple(result for result in results if result.technique == name) for name in TECHNIQUES}
    parts = [
        _part(benchmark, name, asked, extra, run, {**_signed(run, benchmark, name), "prompt": prompts.get(name, "")})
        for name, asked in by_technique.items()
        if asked
    ]
    measures = [measure for part in parts for measure in part.measures]
    prompt = "+".join(prompts[part.technique] for part in parts if part.technique in prompts)
    if found := metrics.maxima(measures, signature={**common, "prompt": prompt}):
        parts.append(Part(benchmark.name, benchmark, found[0].technique, (), tuple(found), ()))
    return parts


def _signed(run: Mapping[str, Any], benchmark: Benchmark, technique: Technique) -> dict[str, str]:
    """What the run says of a technique's numbers: of the judge only where it may have had a part in them."""
    about = run.get("benchmarks", {}).get(benchmark.name, {})
    others = records.signed(run) if technique not in about.get("judged_by", [technique]) else frozenset()
    signature = {name: value for name, value in about.get("signature", {}).items() if name not in others}
    return {**signature, "technique": technique}


def _part(
    benchmark: Benchmark,
    technique: Technique,
    results: tuple[Result, ...],
    extra: Sequence[Metric],
    run: Mapping[str, Any],
    signature: Mapping[str, str],
) -> Part:
    measures = metrics.measures(
        results,
        (*benchmark.metrics, *extra),
        benchmark.dimensions,
        benchmark=benchmark.name,
        signature=signature,
        score=scoring.scorer(benchmark, scoring.rules.recorded(run, [benchmark])),
        read_by=run.get("benchmarks", {}).get(benchmark.name, {}).get("read_by"),
    )
    paired = any(metric.unit == "pair" for metric in benchmark.metrics)
    broken = metrics.broken_pairs(results) if paired else ()
    signed = tuple(replace(measure, technique=technique) for measure in measures)
    return Part(benchmark.name, benchmark, technique, results, signed, tuple(broken))


def notes_of(report: Report) -> list[str]:
    """What a reader must know beside the numbers, one sentence each; nothing when all is well."""
    notes = left_out(report.run.get("left_out", {}))
    recorded = report.run.get("config", {}).get("backend") == "replay"
    if report.run.get("rescoring"):
        notes.append("this run was being scored again, and that was stopped: do it once more (medvqa rescore).")
    for part in report.parts:
        if not part.results:
            continue
        name, outcomes = part.name, part.outcomes
        about = report.run.get("benchmarks", {}).get(part.benchmark.name, {})
        if judged := [result for result in part.results if result.judgement is not None]:
            judges = _some(sorted({repr(result.judgement.judge) for result in judged if result.judgement is not None}))
            notes.append(f"{name}: {len(judged)} of {len(part.results)} answers were left to the judge {judges}.")
        if unscored := [result for result in part.results if result.score.outcome == "unscored"]:
            count = f"{len(unscored)} of {len(part.results)} answers are stored and unscored"
            waiting = sum(bool(result.item.answers) for result in unscored)
            if waiting and not report.run.get("judge") and about.get("judged"):
                others = ", the others have no answer key." if waiting < len(unscored) else "."
                notes.append(
                    f"{name}: {count}: {waiting} wait for a judge (medvqa rescore {report.folder} --judge=MODEL asks "
                    f"the model nothing){others}"
                )
            else:
                notes.append(f"{name}: {count}: no answer key, or an open answer that nobody has judged.")
        if outcomes["error"]:
            first = next(result for result in part.results if result.score.outcome == "error")
            notes.append(
                f"{name}: {_number(outcomes['error'], report.counted)} ended in error, without a score; "
                f"the first: {first.item.id}: {first.score.why}"
            )
            kept = sum(result.score.outcome == "error" and result.answer is not None for result in part.results)
            if kept and (judge := report.run.get("judge")):
                notes.append(
                    f"{name}: the answers to {kept} of these are stored: medvqa rescore {report.folder} "
                    f"--judge={records.judge_name(judge)} lets them be judged and asks the model nothing."
                )
        if part.truncated:
            limits = about.get("max_tokens", {}).get(part.technique)
            notes.append(f"{name}: {_truncation(part, limits, recorded=recorded)}")
        if part.broken_pairs:
            number = len(part.broken_pairs)
            have = "1 pair has" if number == 1 else f"{number} pairs have"
            some = _some(part.broken_pairs)
            notes.append(f"{name}: {have} only one question in this run, left out of pair measures: {some}.")
        if about.get("answers") == "category":
            notes.append(f"{name}: the answer key was recovered from the column 'category', not given by its owners.")
        extraction = scoring.rules.recorded(report.run, [part.benchmark])
        if scoring.rules.is_official(extraction) and part.benchmark.official_note:
            version = scoring.rules.version_of(part.benchmark, extraction)
            notes.append(f"{name}: {part.benchmark.official_note}" + (f" (version {version})" if version else ""))
    if ours := _read_by_ours(report):
        notes.append(f"scored by this project's rule, as their owners published none: {ours}.")
    served = sorted({r.answer.served_by for part in report.parts for r in part.results if r.answer} - {""})
    if len(served) > 1:
        notes.append(f"the server named several models that answered: {_some(served)}.")
    if report.missing:
        notes.append(
            f"{_number(len(report.missing), report.counted)} of this run without a result: {_some(report.missing)}."
        )
    one = " It holds the first sample of each answer." if report.run.get("repeat") else ""
    notes.extend(f"{sheet.name} is the sheet to send to the benchmark's owners.{one}" for sheet in report.sheets)
    notes.extend(f"not read: {line}" for line in report.unread)
    if report.stale:
        notes.append(
            f"the gate's verdict is of other results and is left out. Decide anew: medvqa gate {report.folder}."
        )
    if unread := report.run.get("unread_answers"):
        notes.append(f"{len(unread)} lines of the answer store cannot be read, the first: {unread[0]}.")
    return notes


def _truncation(part: Part, limits: Mapping[Kind, int] | None, *, recorded: bool) -> str:
    """How many answers of a part were cut off, at which limits, and what to do.

    `limits` are those by kind. Answers that were `recorded` are not had again with an option of this run.
    """
    known = sum(metrics.is_complete(result) is not None for result in part.results)
    count = f"{len(part.truncated)} of {known} answers were cut off"
    if recorded:
        return f"{count} (finish=length) before they were recorded. Record them again with a higher limit of tokens."
    kinds = {result.item.kind for result in part.truncated}
    if limits is None or not kinds <= limits.keys():
        return (
            f"{count} (finish=length), at a limit that is not recorded. Ask again with a higher one: --max-tokens=N, "
            "or in the model's config."
        )
    numbers = sorted({limits[kind] for kind in kinds} - {0})
    if not numbers:
        return (
            f"{count} at the server's own limit (finish=length). Set one that suffices: --max-tokens={ROOM}, or in the "
            "model's config."
        )
    return (
        f"{count} at {' or '.join(map(str, numbers))} tokens (finish=length). Raise the limit: "
        f"--max-tokens={max(LEAST, FACTOR * numbers[-1])}, or in the model's config."
    )


def _read_by_ours(report: Report) -> str:
    """What no published rule read in a run that asked for one: benchmarks with kinds of questions."""
    told = {name: said.get("read_by") or {} for name, said in report.run.get("benchmarks", {}).items()}
    kinds = {
        name: sorted(kind for kind, rule in by.items() if rule == scoring.rules.SOUND) for name, by in told.items()
    }
    return ", ".join(f"{name} ({', '.join(some)})" for name, some in kinds.items() if some)


def left_out(counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """What is not asked because its technique is not defined for it: benchmark -> technique -> kind -> number."""
    return [
        f"{benchmark}: {_number(sum(kinds.values()), 'items')} left out: technique '{technique}' is not defined for "
        f"{', '.join(kinds)} here."
        for benchmark, techniques in counts.items()
        for technique, kinds in techniques.items()
    ]


def usage_of(report: Report) -> str | None:
    """What the answers of the run used, and apart from them its judge, as one line; None where they do not tell."""
    used = (("Used", report.run.get("usage")), ("Judging used", report.run.get("judge_usage")))
    return " ".join(f"{what}: {told}." for what, usage in used if (told := _used(usage or {}))) or None


def _used(usage: Mapping[str, float]) -> str:
    tokens = [f"{usage[name]:,.0f} tokens {name}" for name in ("input", "output") if name in usage]
    cost = [f"cost {usage['cost']:,.4g} by the prices of the config"] if "cost" in usage else []
    return ", ".join(tokens + cost)


def answers_of(report: Report) -> str | None:
    """How many answers and replies of a judge the last session reused and asked for, as one line.

    None where it asked for all.
    """
    last = (report.run.get("sessions") or [{}])[-1]
    told = (("Answers", ""), ("Judge's replies", "judge_"))
    lines = [
        f"{what}: {last[f'{prefix}reused']:,} stored ones reused, {last.get(f'{prefix}asked', 0):,} asked for."
        for what, prefix in told
        if last.get(f"{prefix}reused")
    ]
    return " ".join(lines) or None


def _number(count: int, of: str) -> str:
    return f"1 {of.removesuffix('s')}" if count == 1 else f"{count} {of}"


def _some(names: Sequence[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def write(report: Report, pictures: Pictures | None = None) -> Report:
    """Write metrics.json, summary.md, junit.xml, gate.xml, index.html, and the sheets of benchmarks that ask for one.

    Without a verdict there is no gate.xml, and an earlier one is removed.

    A benchmark whose owners withhold its answer key asks for a sheet to send them, with one answer to each question:
    where there are several samples the first, so that nobody chooses. `pictures` are the images that
    the page shows (`html.draw`; None: none). Returns the report with the paths of the sheets;
    UsageError when the folder cannot be written.
    """
    try:
        return _written(report, pictures)
    except OSError as error:
        raise UsageError(f"{report.folder} cannot be written: {error.strerror or error}") from error


def _written(report: Report, pictures: Pictures | None) -> Report:
    from medvqa.report import html, junit, markdown

    sheets = tuple(
        part.benchmark.submission(_first_samples(part.results), _folder(report, part))
        for part in report.parts
        if part.benchmark.submission is not None and part.outcomes["unscored"]
    )
    report = replace(report, sheets=sheets)
    records.write_json(report.folder / "metrics.json", as_json(report))
    records.write_atomic(report.folder / "summary.md", markdown.render(report).encode())
    records.write_atomic(report.folder / "junit.xml", junit.render(report))
    if report.gate is None:
        (report.folder / "gate.xml").unlink(missing_ok=True)
    else:
        records.write_atomic(report.folder / "gate.xml", junit.render_gate(report.gate.verdict))
    records.write_atomic(report.folder / html.FILE, html.render(report, pictures))
    return report


def _first_samples(results: Sequence[Result]) -> tuple[Result, ...]:
    return tuple(result for result in results if result.sample <= 1)


def _folder(report: Report, part: Part) -> Path:
    """Where a part's sheet goes: one for each technique where the run has several."""
    return files.subfolder(report.folder, part.technique) if len(report.techniques) > 1 else report.folder


def as_json(report: Report) -> dict[str, Any]:
    """The content of metrics.json."""

    def key(part: Part) -> str:
        return f"{part.benchmark.name} {part.technique}" if len(report.techniques) > 1 else part.benchmark.name

    return {
        "schema": SCHEMA,
        "run": report.run,
        "measures": [measure for part in report.parts for measure in part.measures],
        "gate": None if report.gate is None else report.gate.verdict,
        "outcomes": {key(part): dict(part.outcomes) for part in report.parts if part.results},
        "truncated": {key(part): len(part.truncated) for part in report.parts if part.truncated},
        "broken_pairs": {key(part): part.broken_pairs for part in report.parts if part.broken_pairs},
        "missing": report.missing,
    }


def slices(measures: Iterable[Measure], dimension: str) -> list[Measure]:
    """The measures over the values of one dimension, in the order given."""
    return [measure for measure in measures if list(measure.slice) == [dimension]]
