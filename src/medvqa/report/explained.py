"""Explain a run beside other harnesses' rules and a published row: what is the same, different and unknown.

It never says that a number was reproduced: counts are compared, and what no rule explains is said to remain.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import msgspec

from medvqa import judging, metrics, printing
from medvqa.benchmarks import harnesses
from medvqa.decode import did_you_mean
from medvqa.figures import DASH, Table, counted, number, numbers, terminal, texts
from medvqa.items import OPTION_TECHNIQUES, DataError, Metric, Result, Score, UsageError, replace
from medvqa.paper_tables import Aspect, PaperColumn, PaperTable, Repeated, Row, Said, counts_behind
from medvqa.report.build import Part, Report
from medvqa.report.notes import less_than_released
from medvqa.report.papers import of_part, temperature
from medvqa.scoring import rules

Status = Literal["same", "different", "unknown"]
SHOWN = 3
"""Ids of differing questions in a cell."""
UNNAMED = "of data that are not declared public: --json=FILE names the questions"
JUDGED = "answers that a model judged keep its score by this project's and the owners' rules"
CHANCE = "with so many rules tried on the same answers, one may agree by chance"


@dataclass(frozen=True, slots=True)
class MeasureCount:
    """A measure of a run by one rule: a count of `n` units; `n` is 0 if the rule counts none."""

    measure: str
    unit: str
    count: float
    n: float

    @property
    def shown(self) -> str:
        """As `33/176 (18.75)`, with the percentage."""
        return f"{self.count:g}/{self.n:g} ({number(self.count / self.n)})" if self.n else ""


@dataclass(frozen=True, slots=True)
class RuleCount:
    """What one rule makes of the answers of a run.

    `right` of `scored` questions; in `unread` it reads nothing. `differing`: ids of the questions that are right by one
    of both, this rule and the run's own. `measures`: in the order of the benchmark's headline.
    """

    rule: str
    source: str
    right: int
    scored: int
    unread: int
    if_unread: str
    differing: tuple[str, ...]
    measures: tuple[MeasureCount, ...]


@dataclass(frozen=True, slots=True)
class ComparedAspect:
    """One way in which the run and the published row may differ; a value is "" if it is unknown."""

    aspect: str
    status: Status
    run: str
    published: str
    source: str


@dataclass(frozen=True, slots=True)
class PublishedCount:
    """A published percentage: its rounding range, the counts of `n` units that give it, and the run's by each rule.

    `n` is None if it is not published; `counts` are then empty. `nearest`: the rules with the nearest count, and
    `remainder`: the units between that and the nearest published count, signed.
    """

    column: str
    measure: str
    percent: float
    digits: int
    low: float
    high: float
    n: int | None
    unit: str
    counts: tuple[int, ...]
    run: MeasureCount
    nearest: tuple[str, ...]
    remainder: float | None


@dataclass(frozen=True, slots=True)
class Explained:
    """A part of a run beside other rules, and beside a published row if one was named.

    `any_rule` and `every_rule` count an answer as right if any or all of the rules do that read some answer.
    """

    run: str
    benchmark: str
    technique: str
    rules: tuple[RuleCount, ...]
    any_rule: tuple[MeasureCount, ...]
    every_rule: tuple[MeasureCount, ...]
    public: bool
    row: str = ""
    source: str = ""
    compared: tuple[ComparedAspect, ...] = ()
    counts: tuple[PublishedCount, ...] = ()
    spread: tuple[Repeated, ...] = ()
    said_of_spread: tuple[Said, ...] = ()
    notes: tuple[str, ...] = ()


def explain(report: Report, tables: Mapping[str, PaperTable], named: str = "") -> list[Explained]:
    """Explain each part of a run whose answers are texts. `tables`: by data set; `named`: a row of one of them.

    UsageError for an unknown row, and for runs with several answers to a question.
    """
    protocol = report.run.protocol
    if protocol.samples is not None or protocol.rotations != 0 or report.run.prompts:
        raise UsageError(f"{report.folder} has several answers to a question: explain a run with one")
    parts = [part for part in report.parts if part.results and part.technique not in OPTION_TECHNIQUES]
    if not parts:
        raise UsageError(f"{report.folder} has no answers in words, which rules could read")
    if not named:
        return [_of_rules(report, part) for part in parts]
    found, names = list[Explained](), list[str]()
    for part in parts:
        table = tables.get(part.benchmark.group or part.benchmark.name)
        for row in () if table is None else table.rows:
            if row.ablation != (report.run.ablation or ""):
                continue
            names.append(row.name)
            if table is not None and row.name == named and (beside := _beside(report, part, table, row)):
                found.append(beside)
    if not found and named in names:
        raise UsageError(f"--published={named}: the row has no figure of the measures of {report.folder}")
    if not found:
        raise UsageError(f"--published={named}: {report.folder} has no such row{did_you_mean(named, names)}")
    return found


# --- rules -----------------------------------------------------------------------------------------------------------


def _of_rules(report: Report, part: Part, also: Iterable[str] = ()) -> Explained:
    """Count a part by every rule; `also`: further measures beside those of the headline."""
    metric_of = {metric.name: metric for metric in part.benchmark.metrics if metric.mean_over is None}
    names = [name for name in dict.fromkeys((*part.benchmark.headline, *also)) if name in metric_of]
    left_out = metrics.judged(part.benchmark)
    shown = [metric_of[name] for name in names if not metric_of[name].reads_text and name not in left_out]
    own = {result.item.id: _is_right(result) for result in part.results}
    by_rule, right_by = list[RuleCount](), list[dict[str, bool]]()
    for rule, results in _scored(report, part):
        scored = [result for result in results if result.score.value is not None]
        if not scored:
            continue
        right = {result.item.id: _is_right(result) for result in scored}
        by_rule.append(
            RuleCount(
                rule.name,
                rule.source,
                sum(right.values()),
                len(scored),
                sum(result.score.outcome in ("unparsed", "refused", "abstained") for result in scored),
                rule.unread,
                tuple(name for name, is_right in right.items() if is_right != own[name]),
                tuple(_counted(results, shown)),
            )
        )
        if by_rule[-1].unread < len(scored):
            right_by.append(right)

    def together(combined: Callable[[Iterable[bool]], bool]) -> tuple[MeasureCount, ...]:
        verdicts = {name: [of[name] for of in right_by if name in of] for name in own}
        results = [
            replace(result, score=_as(combined(verdicts[result.item.id]))) if verdicts[result.item.id] else result
            for result in part.results
        ]
        return tuple(_counted(results, [metric for metric in shown if metric.binary and metric.better == "higher"]))

    return Explained(
        report.folder.name,
        part.benchmark.name,
        part.technique,
        tuple(by_rule),
        together(any),
        together(all),
        part.benchmark.public,
        notes=(
            *report.covered.lines,
            *less_than_released(report),
            *of_part(report, part),
            *([JUDGED] if any(result.judgement is not None for result in part.results) else []),
        ),
    )


def _scored(report: Report, part: Part) -> Iterator[tuple[harnesses.HarnessRule, list[Result]]]:
    """Yield the rules that can read the answers of a part, with its results as they score them."""
    benchmark = part.benchmark
    for extraction in rules.extractions(benchmark):
        name = f"{extraction} ({'owners' if rules.is_official(extraction) else 'this project'})"
        source = rules.note_of(benchmark) if rules.is_official(extraction) else "medvqa help scoring"
        again = [judging.rescored(result, benchmark=benchmark, extraction=extraction) for result in part.results]
        yield harnesses.HarnessRule(name, source), again
    yield from _of_their_log(report, part)
    if part.technique != "mc":  # the rules read answers to questions with options or with a short answer
        return
    for rule in harnesses.rules_of(benchmark, judged=report.run.judge is not None):
        yield rule, [_by(rule, result) for result in part.results]


def _of_their_log(report: Report, part: Part) -> Iterator[tuple[harnesses.HarnessRule, list[Result]]]:
    """Yield the scores that another harness wrote beside the recorded answers, if the file is there and unchanged."""
    from medvqa.backends import replay

    config = report.run.config
    if not report.run.replays or not os.path.isfile(config.argument):
        return
    path = Path(config.argument)
    with path.open("rb") as file:
        if not (report.run.model.fingerprint or "").startswith(hashlib.file_digest(file, "sha256").hexdigest()):
            return
    try:
        columns = msgspec.convert(config.options, replay.AnswerColumns)
    except msgspec.ValidationError as error:
        raise DataError(f"{report.folder}/run.json: field config.options: {error}") from None
    items = [result.item for part in report.parts for result in part.results]
    recording = replay.read(path, columns).placed(items)
    if not recording.their_scores:
        return
    harness = recording.harness
    name = f"{harness.name or 'the file'}, its own log"
    source = " ".join(filter(None, (path.name, harness.name, harness.version, harness.task, harness.scoring)))
    scores = {key[2:]: score for key, score in recording.their_scores.items() if key[0] in ("", part.benchmark.name)}
    logged = [
        replace(result, score=_as(value == 1) if value is not None else Score(None, "unscored"))
        for result in part.results
        for value in [scores.get((result.item.id, result.variant, result.sample))]
    ]
    yield harnesses.HarnessRule(name, source), logged


def _by(rule: harnesses.HarnessRule, result: Result) -> Result:
    if result.answer is None:
        return result
    if result.item.kind not in rule.kinds or not result.item.answers:
        return replace(result, score=Score(None, "unscored"))
    return replace(result, score=rule.score(result, result.answer))


def _is_right(result: Result) -> bool:
    return result.score.outcome == "correct"


def _as(right: bool) -> Score:
    return Score(1.0, "correct") if right else Score(0.0, "wrong")


def _counted(results: Sequence[Result], shown: Sequence[Metric]) -> Iterator[MeasureCount]:
    """Yield measures as counts, without intervals."""
    for table in metrics.tables(results, shown, ()):
        count, n = table.terms.sum(axis=1).tolist()
        yield MeasureCount(table.metric.name, f"{table.metric.unit}s", count, n)


# --- a published row -------------------------------------------------------------------------------------------------


def _beside(report: Report, part: Part, table: PaperTable, row: Row) -> Explained | None:
    """Explain a part beside a published row; None if the row has no figure of its benchmark and technique."""
    places = [
        (place, column)
        for place, column in enumerate(table.columns)
        if column.measure
        and not (column.slice or column.mean)
        and column.technique == part.technique
        and table.benchmarks[column.split] == part.benchmark.name
        and row.values[place] is not None
    ]
    if not places:
        return None
    explained = _of_rules(report, part, [column.measure for _, column in places])
    measured = {measure.name: measure for measure in part.measures if not measure.slice}
    counts = list[PublishedCount]()
    for place, column in places:
        if (own := measured.get(column.measure)) is not None and (percent := row.values[place]) is not None:
            n = row.n[place] if row.n else column.n
            of_run = MeasureCount(own.name, own.unit, own.count or 0.0, own.n)
            counts.append(_published(explained.rules, column, percent, table.digits(row), n, of_run))
    less = [
        f"{of.column}: the run has {of.run.n:g} {of.unit}, the published figure {of.n}; their counts are not compared"
        for of in counts
        if of.n and of.n != of.run.n
    ]
    return replace(
        explained,
        row=row.name,
        source=table.source,
        compared=tuple(_compared(report, part, table, row, [column for _, column in places])),
        counts=tuple(counts),
        spread=tuple(of for of in table.repeated if of.measure in measured and of.technique == part.technique),
        said_of_spread=tuple(of for of in _said(part, table, row) if of.aspect == "spread"),
        notes=(
            *explained.notes,
            *less,
            *([f"the row has a known slip: {row.slip}"] if row.slip else []),
            *(["recorded answers do not say how they were asked for"] if report.run.replays else []),
        ),
    )


def _published(
    by_rule: Sequence[RuleCount], column: PaperColumn, percent: float, digits: int, n: int | None, run: MeasureCount
) -> PublishedCount:
    half = 0.5 * 10**-digits
    fitting = counts_behind(percent, digits, n) if n else range(0)
    distances = dict[str, float]()
    for rule in by_rule if fitting else ():
        for of in rule.measures:
            if of.measure == column.measure and of.n == n:
                nearest = min(max(of.count, fitting[0]), fitting[-1])
                distances[rule.rule] = nearest - of.count
    least = min(distances.values(), key=abs, default=None)
    return PublishedCount(
        column.title,
        column.measure,
        percent,
        digits,
        round(percent - half, digits + 1),
        round(percent + half, digits + 1),
        n,
        run.unit,
        tuple(fitting),
        run,
        tuple(name for name, distance in distances.items() if least is not None and abs(distance) == abs(least)),
        least,
    )


def _said(part: Part, table: PaperTable, row: Row) -> list[Said]:
    """Return what is known of how a row was made: of itself first, then of the paper's table.

    A row that was collected from elsewhere (`checked`) need not have been made as the others.
    """
    said = [of for of in (*row.said, *table.said) if not of.techniques or part.technique in of.techniques]
    if table.extraction != rules.SOUND and row.checked in ("", "counted"):
        after = f", and {table.extractor} where it finds no option" if table.extractor else ""
        same = () if after else (table.extraction,)
        said.append(Said("extraction", f"the owners' rule ({table.extraction}){after}", table.source, same))
    if table.judge and not row.checked and (part.technique == "ff" or part.benchmark.judged):
        said.append(Said("judge", table.judge, table.source))
    return said


def _compared(
    report: Report, part: Part, table: PaperTable, row: Row, columns: Sequence[PaperColumn]
) -> Iterator[ComparedAspect]:
    """Yield what is the same, different or unknown, in the order of `Aspect`."""
    measures = ", ".join(dict.fromkeys(column.measure for column in columns))
    titles, technique = ", ".join(column.title for column in columns), columns[0].technique
    sure: Status = "unknown" if row.checked else "same"
    yield ComparedAspect("technique", sure, part.technique, "" if row.checked else technique, table.source)
    yield ComparedAspect("metric", sure, measures, titles, table.source)
    said = _said(part, table, row)
    of_run = dict(_of_run(report, part))
    for aspect in get_args(Aspect):
        if aspect == "spread":
            continue
        paper = next((of for of in said if of.aspect == aspect), None)
        run = of_run.get(aspect, "")
        status: Status = "unknown"
        if paper is not None and run and paper.same:
            status = "same" if run in paper.same else "different"
        yield ComparedAspect(aspect, status, run, paper.value if paper else "", paper.source if paper else "")


def _of_run(report: Report, part: Part) -> Iterator[tuple[Aspect, str]]:
    """Yield what the run's record says of each aspect; a recorded answer does not say how it was asked for."""
    run, recorded = report.run, report.run.benchmark(part.benchmark.name)
    if recorded.data_sha256:
        yield "data", f"{recorded.data_sha256[:12]} (SHA-256 of its questions)"
    yield "questions", str(len(part.results))
    yield "extraction", run.extraction
    yield "judge", "none" if run.judge is None else run.judge.name
    if report.run.replays:
        return
    yield "prompt", recorded.prompts.get(part.technique, "").partition("@")[0]
    asked = ", ".join(f"{setting}={value}" for setting, value in run.protocol.signature().items())
    yield "samples", asked or "one answer a question, no examples"
    limits = {str(limit or "none") for limit in ((recorded.max_tokens or {}).get(part.technique) or {}).values()}
    yield "token limit", ", ".join(sorted(limits))
    yield "temperature", temperature(run.config.as_json(), (part.technique,)).removeprefix("temperature ")
    yield "model", ", ".join(dict.fromkeys((run.model_name, *run.served_by)))


# --- texts -----------------------------------------------------------------------------------------------------------


def text(explained: Explained) -> str:
    """Return the explanation as lines for a terminal."""
    title = f"{explained.run}: {explained.benchmark} by {explained.technique}"
    lines = [f"{title}, beside {explained.row}" if explained.row else title, ""]
    if explained.row:
        lines += [f"published: {explained.source}", f"run: {explained.run}/run.json", ""]
        lines += [*_compared_lines(explained), "", *map(_count_line, explained.counts), ""]
    lines += [terminal(_table(explained)).rstrip()]
    lines += [f"! {line}" for line in (*_rule_notes(explained), *explained.notes)]
    if explained.row:
        lines += ["", *_remainder(explained), *_spread(explained)]
    lines += ["", *_sources(explained)]
    return "\n".join(map(printing.lines, lines))


def _compared_lines(explained: Explained) -> Iterator[str]:
    for status in get_args(Status):
        for of in explained.compared:
            if of.status != status:
                continue
            run, published = of.run or "unknown", of.published or "unknown"
            both = run if run == published else f"run {run}; published {published}"
            yield f"{status:<10}{of.aspect}: {both}{f' [{of.source}]' if of.source else ''}"


def _count_line(of: PublishedCount) -> str:
    low, high = (number(bound, percent=False, digits=of.digits + 1) for bound in (of.low, of.high))
    percent = number(of.percent, percent=False, digits=of.digits)
    shown = f"{of.column}: published {percent} %, that is {low} to {high} % before rounding"
    if of.n is None:
        return f"{shown}; the number of {of.unit} behind it is not published, so no count is known"
    if not of.counts:
        return f"{shown}; no count of {of.n} {of.unit} gives it"
    listed = printing.some([str(count) for count in of.counts], 10)
    return f"{shown}: {listed} of {of.n} {of.unit}; the run has {of.run.shown or 'none'}"


def _table(explained: Explained) -> Table:
    names = list(dict.fromkeys(of.measure for rule in explained.rules for of in rule.measures))
    rows: list[Sequence[object]] = []
    for rule in explained.rules:
        of = {measure.measure: measure.shown for measure in rule.measures}
        differing = len(rule.differing)
        some = f": {printing.some(rule.differing, SHOWN)}" if differing and explained.public else ""
        row = (
            f"{rule.right}/{rule.scored}",
            number(rule.right / rule.scored),
            *(of.get(name, DASH) for name in names),
            rule.unread,
        )
        rows.append((rule.rule, *row, f"{differing}{some}"))
    for name, together in (("any of these", explained.any_rule), ("all of these", explained.every_rule)):
        of = {measure.measure: measure.shown for measure in together}
        rows.append((name, "", "", *(of.get(each, DASH) for each in names), "", ""))
    columns = (*texts("rule"), *numbers("right", "%", *names, "unread"), *texts("scored otherwise than in the run"))
    return Table("", columns, tuple(rows))


def _rule_notes(explained: Explained) -> Iterator[str]:
    if not explained.public and any(rule.differing for rule in explained.rules):
        yield f"{explained.benchmark} is {UNNAMED}"
    unread = dict[str, list[str]]()
    for rule in explained.rules:
        if rule.unread:
            unread.setdefault(rule.if_unread, []).append(rule.rule)
    if nothing := [rule.rule for rule in explained.rules if rule.unread == rule.scored]:
        yield f"{', '.join(nothing)} can read none of these answers; the last two rows leave it out"
    for what, names in unread.items():
        yield f"an answer that cannot be read {what}: {', '.join(names)}"


def _sources(explained: Explained) -> Iterator[str]:
    by_source = dict[str, list[str]]()
    for rule in explained.rules:
        by_source.setdefault(rule.source, []).append(rule.rule)
    yield from (f"{', '.join(names)}: {source}" for source, names in by_source.items())


def _remainder(explained: Explained) -> Iterator[str]:
    tried = len(explained.rules)
    for of in explained.counts:
        if of.remainder is None or of.n is None:
            continue
        names = ", ".join(of.nearest)
        if of.remainder == 0:
            yield f"{of.column}: {len(of.nearest)} of {tried} rules give the published count: {names}; {CHANCE}"
            continue
        side = "more" if of.remainder > 0 else "fewer"
        yield (
            f"{of.column}: nearest of {tried} rules: {names}. {counted(abs(of.remainder), of.unit)} {side} "
            f"({number(abs(of.remainder / of.n))} points) stand in the paper: no rule explains these"
        )


def _spread(explained: Explained) -> Iterator[str]:
    for of in explained.spread:
        shown = ", ".join(f"{count} ({number(count / of.n)} %)" for count in of.counts)
        yield f"from run to run, {of.measure}: {shown} of {of.n}; {of.of} [{of.source}]"
    for said in explained.said_of_spread:
        yield f"from run to run, as published: {said.value} [{said.source}]"
    if not (explained.spread or explained.said_of_spread):
        yield "from run to run: unknown, no repeated runs of it are published"
