"""Prepare a gate from rules, baselines and a run's plan, and check everything that can be checked before asking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from msgspec import structs

from medvqa import comparing, metrics
from medvqa.benchmarks import not_known
from medvqa.comparing import Side
from medvqa.comparing.gating.rules import DEFAULT_MARGIN, FILE, TABLE, BenchmarkRule, Rules
from medvqa.comparing.gating.verdict import digest
from medvqa.decode import did_you_mean
from medvqa.figures import Figure
from medvqa.items import (
    TECHNIQUES,
    Benchmark,
    DataError,
    FailedMetric,
    Item,
    Metric,
    QuestionKey,
    Result,
    Score,
    UsageError,
    withholding,
)
from medvqa.judging import agreement, correcting
from medvqa.metrics import confidences
from medvqa.protocols import added_measures, perturbation
from medvqa.records import identities, run_record
from medvqa.records.baseline_file import DIGESTS
from medvqa.records.configuration import announced_judge, other_versions
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN, GateBaseline, RecordedBenchmark, RecordedGate, RunRecord

THIS_RUN = "this run"


@dataclass(frozen=True, slots=True)
class Target:
    """One measure of one benchmark by one technique, with its margin (points) and the reliability of its judge."""

    benchmark: Benchmark
    metric: Metric
    technique: str
    margin: float = DEFAULT_MARGIN
    judge_reliability: float | None = None

    def of(self, results: Iterable[Result]) -> list[Result]:
        """The results of its benchmark and technique."""
        own = self.benchmark.name, self.technique
        return [result for result in results if (result.item.benchmark, result.technique) == own]


@dataclass(frozen=True, slots=True)
class Gate:
    """The targets of a gate, and the relevant parts of its baselines.

    `known`: the benchmarks by name. `notes`: lines about rules whose benchmarks the user left out. `dropped`: the
    benchmarks of baselines that the user left out, as (baseline, benchmark, technique, number of questions).
    """

    rules: Rules
    baselines: tuple[Side, ...]
    targets: tuple[Target, ...]
    known: Mapping[str, Benchmark]
    notes: tuple[str, ...]
    dropped: tuple[tuple[str, str, str, int], ...] = ()

    def stored(self) -> RecordedGate:
        """The gate's entry in run.json, written before the first answer: rules, their digest, and baselines."""
        paths = self.rules.baseline if len(self.rules.baseline) == len(self.baselines) else ()
        return RecordedGate(
            digest=self.rules.digest,
            rules=self.rules.as_json(),
            file=self.rules.file,
            typed=tuple(self.rules.typed),
            baselines=tuple(
                GateBaseline(name=side.name, path=_from_here(path), digest=digest(side.run, side.results))
                for path, side in zip(paths, self.baselines, strict=False)
            ),
        )

    def metric(self, benchmark: str, measure: str) -> Metric:
        """A measure of a benchmark."""
        return metric_of(self.known[benchmark], measure, "floor")

    def has_slices(self, benchmark: str) -> bool:
        """Whether slices of a benchmark are gated."""
        return bool(self.rules.slices or self.rules.of_slices(benchmark))

    def lacking(self, questions: Collection[QuestionKey]) -> str | None:
        """A line about questions (keys without samples) that a baseline lacks; None if it has all."""
        for side in self.baselines:
            have = {result.key.question for result in side.results}
            benchmarks = {key.benchmark for key in have}
            for target in self.targets:
                if target.benchmark.name not in benchmarks:
                    # The baseline's run had the data and asked nothing; this blocks a verdict later.
                    continue
                of = target.benchmark.name, target.technique
                wanted = [key for key in questions if (key.benchmark, key.technique) == of]
                if lack := sorted(key for key in wanted if side.named(key) not in have):
                    return (
                        f"baseline {side.name} has no result for {len(lack)} of {len(wanted)} questions of "
                        f"{target.benchmark.name}{_first(lack[0].item, target)}. Select what it has, or run it on all"
                    )
        return None


def load(rules: Rules, folder: Path, of: Path | None = None) -> tuple[Side, ...]:
    """Read the baselines; paths are relative to the folder. UsageError or DataError if one is invalid.

    `of`: the folder of the run that is gated, which may not be there yet; it cannot be its own baseline.
    """
    return tuple(_load(path, folder, of) for path in rules.baseline)


def _from_here(path: str) -> str:
    """Return a path relative to the current folder if it is below it: folders differ between machines."""
    resolved = Path(path)
    return str(resolved.relative_to(Path.cwd())) if resolved.is_relative_to(Path.cwd()) else path


def _load(path: str, folder: Path, of: Path | None) -> Side:
    resolved = folder / path
    if not resolved.exists():
        meant = run_record.runs_beside(resolved)
        raise UsageError(
            f"--baseline={path}: no such run folder or baseline file{meant} `medvqa baseline RUN -o FILE` writes a file"
        )
    if of is not None and _is_in(resolved, of):
        raise _itself(path, of)
    side = comparing.load(resolved)
    if of is not None and (of / RUN).is_file() and identities.is_same_run(side.run, run_record.read_run(of)):
        raise _itself(path, of)
    return side


def _is_in(baseline: Path, folder: Path) -> bool:
    """Whether a baseline is a run folder, or shares its results by links, hard links included."""
    places = [(baseline, folder), (baseline / RESULTS, folder / RESULTS)]
    return any(one.exists() and other.exists() and one.samefile(other) for one, other in places)


def _itself(path: str, folder: Path) -> UsageError:
    return UsageError(
        f"--baseline={path}: this is the run that is gated, {folder}, or a copy of it, and no run is worse than "
        "itself. Name a run of another model or version by --baseline=RUN, or gate another run"
    )


def prepare(
    rules: Rules,
    baselines: Sequence[Side],
    run: RunRecord,
    benchmarks: Mapping[str, Benchmark],
) -> Gate | None:
    """Return the gate of a run; None if no rule applies to it.

    `run`: the existing or planned record. A benchmark that `--benchmark` left out is accepted; one whose data are
    missing is an error. UsageError for rules with unknown names, and for baselines that are not comparable.
    """
    if not rules.active:
        return None
    asked = [run.protocol], run.techniques, [run.wrong_costs]
    benchmarks = {name: added_measures.under(benchmark, *asked) for name, benchmark in benchmarks.items()}
    # Skip benchmarks without any applicable technique.
    present = {name: recorded for name, recorded in run.benchmarks.items() if recorded.prompts}
    chosen = bool(run.options.benchmark)
    if any(of.readers is not None for of in (run, *(side.run for side in baselines))):
        raise UsageError("a gate compares models; compare a model with people by `medvqa compare` (medvqa help people)")
    if (change := perturbation.of(run.protocol.perturb)) is not None and change.is_mask:
        raise UsageError(
            f"--perturb={run.protocol.perturb}: masks of regions describe a run and are never gated: leave out "
            "--baseline, and add --gate=off if this project has rules of a gate"
        )
    _check_names(rules, benchmarks)
    notes = _check_present(rules, present, chosen)
    sides = tuple(_comparable(side, run, present, chosen) for side in baselines)
    for name in present:
        floors = any(rule.benchmark == name for rule in rules.floor)
        if sides and not floors and not any(_has(side, name) for side in sides):
            raise UsageError(
                f"benchmark '{name}' is in no baseline ({', '.join(side.name for side in sides)}). Name others: "
                f"{' '.join(f'--benchmark={name}' for name in _shared(sides, present)) or '--benchmark=NAME'}"
            )
    gated = [name for name in present if sides or any(rule.benchmark == name for rule in rules.floor)]
    if unknown := [name for name in gated if name not in benchmarks]:
        raise not_known("the run has", unknown[0], benchmarks)
    rules, measured = with_sheet(rules, sides, {name: recorded.prompts for name, recorded in present.items()})
    notes = (*notes, *measured)
    targets = tuple(target_of(benchmarks[name], present[name], rules) for name in gated)
    _check_slices(rules, sides, targets)
    for side in sides:
        _check_techniques(side, targets)
        _check_errors(side, targets)
        for target in targets:
            with withholding(not target.benchmark.public):
                why = unmeasurable(target.of(side.results), target.metric, side.run)
            if why:
                raise UsageError(f"baseline {side.name}, {target.benchmark.name}: {why}")
    for floor in rules.floor:
        if floor.benchmark in present:
            metric_of(benchmarks[floor.benchmark], floor.measure, f"[[{TABLE}.floor]]")
    dropped = tuple(part for side in baselines for part in _dropped(side, present))
    return Gate(rules, sides, targets, benchmarks, notes, dropped) if targets else None


def unmeasurable(results: Sequence[Result], metric: Metric, run: RunRecord) -> str | None:
    """Return why a metric cannot be gated on these results of a run; None if it can."""
    if metric.needs_responses and run.responses == DIGESTS:
        return f"metric '{metric.name}' needs the responses; write the baseline again without --no-responses"
    if metric.binary is not None and (metric.percent or metric.bounds == (0, 1)):
        return None
    failed: list[FailedMetric] = []
    tabled = metrics.tables(results, [metric], (), failed)
    if failed:
        return failed[0].why
    if tabled and not tabled[0].metric.percent:
        return (
            f"metric '{metric.name}' is a mean of numbers, and the gate decides on percentages: gate a metric that "
            "returns True or False, or write @medvqa.metric(percent=True) for numbers from 0 to 1"
        )
    return None


def with_sheet(
    rules: Rules, sides: Sequence[Side], asked: Mapping[str, Collection[str]]
) -> tuple[Rules, tuple[str, ...]]:
    """Return the rules with each benchmark's judge_reliability by people's scores in `judge_sheet`; and notes on it.

    It is the lower end of the interval of 95 % over the baselines' answers: a sheet serves many runs, and a reliability
    that is too high by luck would favour PASS in all of them. A benchmark with a judge_reliability of its own keeps it.
    `asked`: the techniques of the gated run, by benchmark; a baseline may have others, with other answers.
    UsageError without a baseline or its responses, for a sheet about other answers, and for a judge whose scores do not
    follow people's.
    """
    if not rules.judge_sheet:
        return rules, ()
    if missing := [file for file in rules.judge_sheet if not Path(file).is_file()]:
        raise UsageError(f"judge_sheet = '{missing[0]}': no such file; medvqa agreement RUN --sample=N writes a sheet")
    instead = "write judge_reliability in place of judge_sheet (medvqa agreement prints it)"
    if not sides or any(side.run.responses == DIGESTS or side.key is not None for side in sides):
        raise UsageError(
            "judge_sheet has scores of a baseline's responses, and there is none with responses: name its run folder "
            f"by --baseline=RUN, or {instead}"
        )
    answers = [result for side in sides for result in side.answers]
    try:
        run = agreement.judged_of(Path(" and ".join(side.name for side in sides)), answers)
        people, omitted = agreement.scores_of_people(tuple(map(Path, rules.judge_sheet)), run)
    except (DataError, UsageError) as error:
        raise UsageError(f"judge_sheet: {error} (for a sheet of another run: {instead})") from None
    own, notes = dict(rules.benchmarks), [f"judge_sheet: {note}" for note in omitted]
    for judged in correcting.means(run, people):
        rule, about, mean = own.get(judged.benchmark, BenchmarkRule()), judged.benchmark, judged.mean
        elsewhere = judged.technique not in asked.get(judged.benchmark, ())
        if elsewhere or rule.judge_reliability is not None or rule.technique not in (None, judged.technique):
            continue
        low, shown = mean.reliability[1], Figure(*mean.reliability, percent=False, digits=2, groups=mean.groups)
        if low is None or low <= 0:
            raise UsageError(
                f"judge_sheet: {about}: {mean.labelled:,} answers scored by people, in {mean.groups:,} groups, do not "
                f"show that the judge's scores follow theirs (reliability {shown.text}, {shown.interval}): score more "
                "answers, or take another judge"
            )
        own[about] = replace(rule, judge_reliability=min(low, 1.0))
        notes.append(
            f"{about}: the judge's scores show {shown.text} ({shown.interval}) of a true difference, by "
            f"{mean.labelled:,} of {mean.n:,} answers that people scored. The lower end counts; it holds if the judge "
            "errs alike on both runs"
        )
    return replace(rules, benchmarks=own, judge_sheet=()), tuple(notes)


def _dropped(side: Side, present: Collection[str]) -> list[tuple[str, str, str, int]]:
    """The benchmarks of a baseline that the run lacks, with the number of questions by technique."""
    questions = {result.key.question for result in side.results if result.item.benchmark not in present}
    counts = Counter((key.benchmark, key.technique) for key in questions)
    return [(side.name, *part, number) for part, number in sorted(counts.items())]


def metric_of(benchmark: Benchmark, name: str, where: str) -> Metric:
    """A measure of a benchmark by name; UsageError lists the existing ones."""
    metrics = {metric.name: metric for metric in benchmark.metrics}
    if name not in metrics and name.lower().replace("-", "_") in confidences.CURVES:
        raise UsageError(
            f"{where}: '{name}' is no mean over questions, and cannot be gated; medvqa compare shows its paired "
            "difference. Gate brier_score or log_loss, which tell of confidences question by question"
        )
    if name not in metrics:
        raise UsageError(
            f"{where}: benchmark '{benchmark.name}' has no measure '{name}'"
            f"{did_you_mean(name, sorted(metrics), 'it has')}"
        )
    return metrics[name]


def _has(side: Side, benchmark: str) -> bool:
    return benchmark in side.run.benchmarks


def _shared(sides: Iterable[Side], present: Iterable[str]) -> list[str]:
    return [name for name in present if any(_has(side, name) for side in sides)]


def _check_names(rules: Rules, benchmarks: Mapping[str, Benchmark]) -> None:
    named = {f"[{TABLE}.benchmarks.{name}]": name for name in rules.benchmarks} | {
        f"[[{TABLE}.slice]]": rule.benchmark for rule in reversed(rules.slice) if rule.benchmark not in benchmarks
    }
    named |= {
        f"[[{TABLE}.floor]]": rule.benchmark for rule in reversed(rules.floor) if rule.benchmark not in benchmarks
    }
    for where, name in named.items():
        if name not in benchmarks:
            raise UsageError(f"{FILE}: {where}: no benchmark '{name}'{did_you_mean(name, sorted(benchmarks), 'known')}")


def _check_present(rules: Rules, present: Collection[str], chosen: bool) -> tuple[str, ...]:
    """Notes on rules about benchmarks that the user left out; UsageError if they are missing otherwise."""
    about = [rule.benchmark for rule in rules.floor]
    if rules.baseline:
        about += [rule.benchmark for rule in rules.slice]
    absent = [name for name in dict.fromkeys(about) if name not in present]
    if absent and not chosen:
        raise UsageError(
            f"{FILE}: [{TABLE}] has rules about '{absent[0]}', which this run does not ask. Name its data by "
            "--data=DIR, or leave it out by naming others with --benchmark=NAME"
        )
    left = (f"rules about {name} are left out: --benchmark names others" for name in absent)
    return (*left, *_idle(rules, [name for name in rules.benchmarks if name not in (*present, *absent)]))


def _idle(rules: Rules, unasked: Iterable[str]) -> Iterator[str]:
    """Yield notes on keys of the rules that have no effect on this run."""
    for name in unasked:
        yield f"[{TABLE}.benchmarks.{name}] has no effect: this run does not ask {name}"
    if not rules.baseline:
        keys = {"margin": rules.margin != DEFAULT_MARGIN, "slices": rules.slices, "[[slice]]": rules.slice}
        keys |= {f"benchmarks.{name}": rule.margin is not None for name, rule in rules.benchmarks.items()}
        if idle := [key for key, there in keys.items() if there]:
            yield f"without a baseline these keys of the rules have no effect: {', '.join(idle)}"


def _comparable(side: Side, run: RunRecord, present: Collection[str], chosen: bool) -> Side:
    if side.lacking:
        raise UsageError(
            f"no verdict can be given against baseline {side.name}: {'; '.join(side.lacking)}. Finish that run first: "
            f"pytest --run={side.name}, or medvqa merge if it is a shard"
        )
    if side.run.selected.ranked_by_outcome:
        raise UsageError(
            f"no verdict can be given against baseline {side.name}: its questions were chosen by how they ended before "
            "(--lf). Type the command of that run without --lf"
        )
    whole = side.run
    if chosen:
        side = side.only(present)
    if not any(_has(side, name) for name in present):
        none = f"baseline {side.name} has none of the benchmarks of this run ({', '.join(present) or 'none'})"
        raise UsageError("; ".join([none, *other_versions((THIS_RUN, run), (side.name, whole))]))
    compared, planned = side, run
    if run.judge is not None and not run.judge.identity:
        # The judge's identity is known once it is loaded; `decide` then compares it.
        planned, compared = _without_judge(run), replace(side, run=_without_judge(side.run))
    judges = [apart.between(THIS_RUN, side.name) for apart in announced_judge(run, side.run)]
    if differences := [*comparing.refusals(_announced(planned), compared), *judges]:
        more = f" (and {len(differences) - 3} more differences)" if len(differences) > 3 else ""
        asked = ",".join(side.run.techniques)
        type_it = f". Add --technique={asked}" if asked and side.run.techniques != run.techniques else ""
        what = "; ".join(differences[:3])
        raise UsageError(f"no verdict can be given against baseline {side.name}: {what}{more}{type_it}")
    return side


def _without_judge(run: RunRecord) -> RunRecord:
    """The record without the judge's identity, but with its settings."""

    def without(benchmark: RecordedBenchmark) -> RecordedBenchmark:
        kept = {name: value for name, value in benchmark.signature.items() if name != "judge"}
        return structs.replace(benchmark, signature=kept)

    return structs.replace(run, benchmarks={name: without(benchmark) for name, benchmark in run.benchmarks.items()})


def _announced(run: RunRecord) -> Side:
    """The planned run, with one unanswered result per benchmark and technique."""
    results = (
        Result("", Item("", name, "short_answer", ""), "", None, Score(None, "unscored"), technique=technique)
        for name, recorded in run.benchmarks.items()
        for technique in TECHNIQUES
        if technique in recorded.prompts
    )
    return Side(THIS_RUN, run, tuple(results))


def target_of(benchmark: Benchmark, recorded: RecordedBenchmark, rules: Rules) -> Target:
    """The target of a benchmark; `recorded`: its entry. UsageError for a measure or technique it lacks."""
    own = rules.benchmarks.get(benchmark.name, BenchmarkRule())
    where = f"{FILE}: [{TABLE}.benchmarks.{benchmark.name}]"
    techniques = list(recorded.prompts)
    technique = own.technique or (techniques[0] if len(techniques) == 1 else None)
    if technique is None:
        raise UsageError(
            f"benchmark '{benchmark.name}' is asked by {', '.join(techniques)}, and one technique is gated. Name it in "
            f'{FILE}: [{TABLE}.benchmarks.{benchmark.name}] technique = "{techniques[0] if techniques else "mc"}"'
        )
    if technique not in techniques:
        raise UsageError(f"{where}: technique = '{technique}', and this run asks by {', '.join(techniques)}")
    metric = metric_of(benchmark, own.measure or benchmark.headline[0], where)
    if metric.mean_over is not None and (rules.slices or any(rule.benchmark == benchmark.name for rule in rules.slice)):
        raise UsageError(
            f"{where}: measure = '{metric.name}' is an average over slices and has none of its own: gate another "
            "measure, or no slices"
        )
    return Target(
        benchmark,
        metric,
        technique,
        rules.margin if own.margin is None else own.margin,
        rules.judge_reliability if own.judge_reliability is None else own.judge_reliability,
    )


def _check_slices(rules: Rules, sides: Sequence[Side], targets: Sequence[Target]) -> None:
    """UsageError for a dimension or a slice that no baseline has."""
    if not sides or not (rules.slices or rules.slice):
        return
    values: dict[str, dict[str, set[str]]] = {}
    for target in targets:
        tags = values.setdefault(target.benchmark.name, {})
        for result in target.of(chain.from_iterable(side.results for side in sides)):
            for dimension, tag_values in {"kind": (result.item.kind,), **result.item.tags}.items():
                tags.setdefault(dimension, set()).update(tag_values)
    dimensions = sorted({dimension for tags in values.values() for dimension in tags})
    for dimension in rules.slices:
        if dimension not in dimensions:
            raise UsageError(f"--gate-slices={dimension}: no such dimension{did_you_mean(dimension, dimensions)}")
    for rule in rules.slice:
        if rule.benchmark not in values:
            continue
        tags, where = values[rule.benchmark], f"{FILE}: [[{TABLE}.slice]] of {rule.benchmark}"
        if rule.dimension not in tags:
            meant = did_you_mean(rule.dimension, sorted(tags))
            raise UsageError(f"{where}: no dimension '{rule.dimension}'{meant}")
        if rule.value not in tags[rule.dimension]:
            meant = did_you_mean(rule.value, sorted(tags[rule.dimension]))
            raise UsageError(f"{where}: no {rule.dimension} '{rule.value}'{meant}")


def _check_techniques(side: Side, targets: Sequence[Target]) -> None:
    techniques = side.asked
    for target in targets:
        name = target.benchmark.name
        if name in techniques and target.technique not in techniques[name]:
            raise UsageError(
                f"baseline {side.name} has no answers to {name} by technique '{target.technique}'; it has: "
                f"{', '.join(techniques[name])}"
            )


def _first(item: str, target: Target) -> str:
    """The id of the first of several questions, for a message; "" for data that are not declared public."""
    return f", the first: {item}" if target.benchmark.public else ""


def _check_errors(side: Side, targets: Sequence[Target]) -> None:
    for target in targets:
        errors = [result for result in target.of(side.answers) if result.score.outcome == "error"]
        if errors:
            raise UsageError(
                f"no verdict can be given against baseline {side.name}: {len(errors)} of its questions of "
                f"{target.benchmark.name} ended in error{_first(errors[0].item.id, target)}. Finish that run first: "
                "pytest --run=NAME"
            )
