"""Decide the verdict on a run, given baselines and rules. `medvqa.statistics` decides; this file has the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from medvqa import comparing, memory, metrics, printing, scoring, statistics
from medvqa.comparing import Compared, Flip, Paired, Side, matching
from medvqa.comparing.gating import units
from medvqa.comparing.gating.designs import Place, averaged, designs
from medvqa.comparing.gating.preparing import Gate, Target, unmeasurable
from medvqa.comparing.gating.rules import Floor
from medvqa.comparing.gating.verdict import (
    Against,
    Decided,
    Flipped,
    Moved,
    Ruling,
    Verdict,
    digest,
    standing_fail,
    with_history,
    write,
)
from medvqa.figures import number
from medvqa.items import Measure, Metric, QuestionKey, Result, UsageError, withholding
from medvqa.metrics.measuring import tables
from medvqa.protocols import rotation
from medvqa.records import coverage, identities, run_folder, run_record
from medvqa.records.baseline_file import DIGESTS
from medvqa.records.coverage import Coverage
from medvqa.records.run_record import RUN, GateBaseline, MergedPart, RecordedGate, RunRecord
from medvqa.statistics import Design, FloorRule, MarginRule, SliceGuard
from medvqa.statistics.sentences import NOTHING_ASKED, NOTHING_COUNTS

SHOWN = 5
"""Number of flips in each direction, and of worst and best slices, in a verdict."""
READ = 60
"""Characters of a reading that a verdict quotes."""
LEAST_SHOWN = 10
"""Minimum units of a slice among the worst and the best."""
APART = timedelta(hours=24)
"""Maximum time between the parts of a run if its model is not identified: a server may get other weights."""


@memory.no_cycle_search()
def decide(gate: Gate, new: Side, early: Sequence[Ruling] = ()) -> Verdict:
    """Return the verdict on a run; its outcome is None if results are missing.

    A run is compared with the same questions of a larger baseline. Lost units prevent a PASS, unless the rules require
    only the shared ones. The verdict depends on results, rules and baselines alone, not on how the run was spread.

    `early`: rules that stopped the run. They alone decide: results may be missing, and no other rule is tested.
    """
    level = statistics.level_of(gate.rules.looks)
    notes = [*gate.notes, *_not_gated(gate, new)]
    blockers = [] if early else _missing(gate, new.covered)
    if new.run.selected.ranked_by_outcome:
        blockers.append("the run's questions were chosen by how they ended before: type its command without --lf")
    unproven, identity = identities.of_run(new.run, len(new.answers))
    blockers += unproven
    blockers += _in_baseline(new, gate.baselines)
    apart, asked_when = _asked_apart(new.run)
    blockers += apart
    plain = tuple(side.revealed([new]) for side in gate.baselines)
    unmeasurable = _unmeasurable(gate, new)
    lost = [] if unmeasurable else units.left(replace(gate, baselines=plain), new)
    shared = [counted for counted in lost if gate.rules.required(counted.benchmark) == "shared"]
    benchmarks = {result.item.benchmark for result in new.results}
    gate = replace(gate, targets=tuple(t for t in gate.targets if t.benchmark.name in benchmarks))
    results = [result for target in gate.targets for result in target.of(new.results)]
    questions = {result.key.question for result in results}
    # An answer that ended in error may be one of several that are combined.
    failed = [r for target in gate.targets for r in target.of(new.answers) if r.score.outcome == "error" and not early]
    blockers += [_line(gate, r.item.benchmark, r.item.id, r.score.why, private="ended in an error") for r in failed]
    blockers += unmeasurable
    if not gate.targets and not blockers:
        blockers.append("no rule is about what was asked")
    pairs = []
    for side, revealed in zip(gate.baselines, plain, strict=True):
        mine = [t for t in gate.targets if t.benchmark.name in side.run.benchmarks]
        if not mine:
            continue
        blockers += [*_other_judge(new, side, mine), *_never_asked(new, side, mine)]
        blockers += _scored_otherwise(new, revealed, mine)
        paired, notes_of_pair = _paired(gate, mine, (new, revealed), questions, level)
        notes += notes_of_pair
        pairs.append(paired)
        blockers += _blockers(gate, paired)
    notes += [*_judged(gate, results), *identity, *asked_when]
    verdict = _undecided(gate, new, level, blockers, notes)
    verdict = replace(verdict, notes=(*verdict.notes, *_copies(gate, new, verdict)))
    if blockers:
        return verdict
    if early:
        ended = "no other rule is tested on a part of the run; its command without --stop=early asks the rest"
        return replace(
            _with_changes(verdict, gate, pairs), outcome="FAIL", entries=tuple(early), notes=(ended, *verdict.notes)
        )
    tested = [row for paired in pairs for row in _compared(gate, paired, new)] + _floors(gate, new, level)
    verdict = replace(verdict, notes=(*verdict.notes, *_empty_margins(tested)))
    decision = statistics.decide([numbers for _, numbers, _ in tested], looks=gate.rules.looks)
    entries = tuple(
        _ruling(gate, *numbers, decided, new.run) for numbers, decided in zip(tested, decision.verdicts, strict=True)
    )
    absent = [counted.ruling for counted in lost if counted not in shared]
    absent += [entry for paired in pairs for entry in _absent(gate, paired)]
    outcome: Any = "INCONCLUSIVE" if absent and decision.outcome == "PASS" else decision.outcome
    return replace(
        _with_changes(verdict, gate, pairs),
        outcome=outcome,
        entries=(*entries, *absent),
        shared=tuple(f"{counted.share} ({counted.benchmark})" for counted in shared),
    )


def _undecided(gate: Gate, new: Side, level: float, blockers: Sequence[str], notes: Sequence[str]) -> Verdict:
    """Return the verdict as it is while no rule is decided: what stands in its way, and of which runs it is."""
    return Verdict(
        outcome=None,
        entries=(),
        blockers=_shortened(blockers),
        notes=tuple(notes),
        baselines=tuple(Against(name=s.name, digest=digest(s.run, s.results)) for s in gate.baselines),
        rules=gate.rules.digest,
        level=level,
        looks=gate.rules.looks,
        inconclusive=gate.rules.inconclusive,
        of=digest(new.run, new.results),
        read_from=gate.rules.read_from,
        flip_icc=gate.rules.flip_icc,
    )


def _copies(gate: Gate, new: Side, verdict: Verdict) -> list[str]:
    """Notes on baselines with the answers of the run: an unchanged model gives the same, and so does a copy."""
    notes = []
    for side, against in zip(gate.baselines, verdict.baselines, strict=True):
        if sessions := identities.shared_sessions(new.run, side.run):
            notes.append(
                f"this run is a copy of baseline {side.name}, perhaps changed since: session {sessions[0]} asked both"
            )
        elif against.digest == verdict.of:
            notes.append(
                f"this run has the answers of baseline {side.name} (digest {verdict.of}): the model is unchanged, or "
                "the run is a copy"
            )
    return notes


def _paired(
    gate: Gate, targets: Sequence[Target], sides: tuple[Side, Side], questions: Collection[QuestionKey], level: float
) -> tuple[Paired, list[str]]:
    """Return the comparison of the targets' results of `sides`, new and baseline, and the notes about the two runs.

    `questions`: those of the new run that any target is about.
    """
    asked = {(target.benchmark.name, target.technique) for target in targets}
    both = [
        # Missing results of the run are blockers already.
        replace(side, results=tuple(r for r in side.results if (r.item.benchmark, r.technique) in asked), covered=None)
        for side in sides
    ]
    # A question counts with all its samples, whatever their number in each run.
    kept = tuple(r for r in both[1].results if r.key.question in questions)
    # The measures that no rule is about are not computed.
    measured = {
        t.benchmark.name: replace(
            t.benchmark,
            metrics=(t.metric,),
            headline=tuple(name for name in t.benchmark.headline if name == t.metric.name),
        )
        for t in targets
    }
    notes = comparing.notes(*both)
    icc = gate.rules.flip_icc
    return comparing.compare(both[0], replace(both[1], results=kept), measured, level=level, icc=icc), notes


def _never_asked(new: Side, baseline: Side, targets: Iterable[Target]) -> list[str]:
    """Lines about benchmarks that the run was asked with a technique, and the baseline was not."""
    return [
        f"{target.benchmark.name}: baseline {baseline.name} was asked none of its questions"
        for target in targets
        if target.of(new.results) and not target.of(baseline.results)
    ]


def _scored_otherwise(new: Side, baseline: Side, targets: Iterable[Target]) -> list[str]:
    """Lines about benchmarks whose scoring changed: without a judge, the same response to a question scores otherwise.

    Nothing in a signature says so: a benchmark's own `score` is code.
    """
    before, lines = {result.key: result for result in baseline.answers}, []
    for target in targets:
        name = target.benchmark.name
        if any(target.technique in side.judged_by(name) for side in (new, baseline)):
            continue
        both = [(r, before[r.key]) for r in target.of(new.answers) if r.key in before]
        changed = [
            now
            for now, was in both
            if (now.score.outcome, now.score.value) != (was.score.outcome, was.score.value)
            and now.answer is not None
            and was.answer is not None
            and now.answer.finish == was.answer.finish
            and matching.same_question(now.item, was.item)
            and new.said(now) == baseline.said(was)
        ]
        if changed:
            lines.append(
                f"{name}: the scoring changed: responses with another score than the same response has in "
                f"{baseline.name}: {len(changed):,}. Score both runs anew with `medvqa rescore`"
            )
    return lines


def _with_changes(verdict: Verdict, gate: Gate, pairs: Sequence[Paired]) -> Verdict:
    """Return the verdict with the answers that flipped, and the slices that lost and gained the most."""
    flips = [flip for paired in pairs for flip in _flips(gate, paired)]
    moved = [moved for paired in pairs for moved in _moved(gate, paired)]
    worst = sorted((m for m in moved if m.gain < 0), key=lambda m: (m.gain, *m.slice.items()))
    best = sorted((m for m in moved if m.gain > 0), key=lambda m: (-m.gain, *m.slice.items()))
    worse, better = ([flip for flip in flips if flip.better is better] for better in (False, True))
    return replace(
        verdict,
        worst=tuple(worst[:SHOWN]),
        best=tuple(best[:SHOWN]),
        flips=(*worse[:SHOWN], *better[:SHOWN]),
        gained=len(better),
        lost=len(worse),
    )


def _unmeasurable(gate: Gate, new: Side) -> list[str]:
    """Return a line for each metric of a user that cannot be gated on the run, and why."""
    lines: list[str] = []
    for target in gate.targets:
        own = [floor for floor in gate.rules.floor if floor.benchmark == target.benchmark.name]
        floors = [gate.metric(floor.benchmark, floor.measure) for floor in own]
        results = target.of(new.results)
        against = [target.metric] if gate.baselines else []
        whys = (unmeasurable(results, metric, new.run) for metric in dict.fromkeys([*against, *floors]))
        with withholding(not target.benchmark.public):
            lines += [f"{target.benchmark.name}: {why}" for why in whys if why]
    return lines


def decided(gate: Gate, folder: Path, new: Side, early: Sequence[Ruling] = ()) -> Decided:
    """The verdict on a run folder, with a note if the rules changed after they were stored; `early` as in `decide`."""
    verdict = decide(gate, new, early)
    if note := changed(new.run.gate, gate):
        verdict = replace(verdict, notes=(*verdict.notes, note))
    digest, number = run_folder.decisive_digest(new.answers)
    return Decided(
        verdict=verdict,
        attempts=tuple(attempts(folder, baseline.digest, new.run) for baseline in verdict.baselines),
        digest=digest,
        number=number,
        session=new.run.last_session.session,
    )


def settle(gate: Gate, folder: Path, new: Side, early: Sequence[Ruling] = ()) -> Verdict:
    """Decide the gate at the end of a run, and write gate.json; `early` as in `decide`.

    A FAIL in gate.json stands if the results are the same: this session may have typed easier rules.
    """
    now = decided(gate, folder, new, early)
    if (fail := standing_fail(folder, now)) is not None:
        stands = (
            f"decided again on the same results: {now.named}. A FAIL stands until the results change, or "
            f"medvqa gate {folder} --replace is typed"
        )
        notes = tuple(dict.fromkeys((*fail.verdict.notes, stands)))
        now = replace(fail, verdict=replace(fail.verdict, notes=notes), session=now.session, began="")
    write(folder, with_history(folder, now))
    return now.verdict


def changed(stored: RecordedGate | None, gate: Gate) -> str | None:
    """Return a sentence on changes of rules and baselines since the first answer; None without changes."""
    if stored is None:
        return (
            "the rules were not stored before the first answer: decided when the answers were known, they could have "
            "been chosen to fit; --baseline, typed with the run, stores them before"
        )
    now = gate.stored()
    defaults = {"require": "baseline", "flip_icc": statistics.FLIP_ICC}
    was, is_now = ({**defaults, **rules} for rules in (stored.rules, now.rules))
    differences = [
        f"{name} was {was.get(name)!r} and is {value!r}" for name, value in is_now.items() if was.get(name) != value
    ]
    before, after = ([baseline.digest for baseline in entry.baselines] for entry in (stored, now))
    if before != after:
        names = [", ".join(map(_called, entry.baselines)) or "none" for entry in (stored, now)]
        same = [baseline.name for baseline in stored.baselines] == [baseline.name for baseline in now.baselines]
        why = " (scored anew, or other benchmarks of it)" if same else ""
        differences.append(f"the baseline was {names[0]} and is {names[1]}{why}")
    return f"the rules were changed after the first answer: {'; '.join(differences)}" if differences else None


def _called(baseline: GateBaseline) -> str:
    return f"{baseline.name} ({baseline.digest})"


def attempts(folder: Path, baseline: str, run: RunRecord) -> int:
    """Count the verdicts on a run and on its neighbours against this baseline, by gate.json.

    A run without a verdict is no attempt, except the one that is decided now. A run that asked everything again
    (`--fresh`) counts again. Shards and parts of a merged run count once, with it.
    """
    folder = folder.resolve()
    met = {near.name: _met(near, baseline) for near in folder.parent.iterdir() if near.is_dir() and near != folder}
    met[folder.name] = run
    parts = {part.name for other in met.values() if other is not None for part in other.merged}
    return sum(
        1 + sum(session.options is not None and session.options.fresh for session in other.sessions[1:])
        for name, other in met.items()
        if other is not None and (name == folder.name or not (name in parts or other.options.shard is not None))
    )


def _met(folder: Path, baseline: str) -> RunRecord | None:
    """Return the record of a run with a verdict against the baseline; None for others."""
    from medvqa.comparing.gating import verdict

    try:
        run = run_record.read_run(folder) if (folder / RUN).is_file() else RunRecord()
        decided = verdict.read(folder)
    except UsageError:
        # Skip a damaged neighbour folder.
        return None
    if decided is None or decided.verdict.outcome is None:
        return None
    return run if baseline in {against.digest for against in decided.verdict.baselines} else None


Chance = tuple[float | None, float | None]
"""The level of chance of a measure, and the lower bound of a baseline."""
_Tested = tuple[Ruling, statistics.TestedRule, Compared | None]
"""A rule, its numbers for `statistics.decide`, and its row of the comparison of two runs."""


def _missing(gate: Gate, covered: Coverage | None) -> list[str]:
    """Lines about missing results of gated benchmarks; unnamed missing results count as gated."""
    if covered is None or covered.complete:
        return []
    names = {target.benchmark.name for target in gate.targets}
    missing = [name.partition("/") for name in covered.missing]
    lack = [_line(gate, benchmark, item, "no result") for benchmark, _, item in missing if benchmark in names]
    unnamed = covered.reasons or covered.absent or (covered.selected or 0) - covered.there > len(covered.missing)
    return [*covered.lines, *lack] if lack or unnamed else []


def _in_baseline(new: Side, baselines: Iterable[Side]) -> list[str]:
    """Lines about a run, or parts of it, that are also (part of) a baseline: the same answers stand on both sides."""
    lines = []
    for side in baselines:
        if new.run.origin == side.run.origin:
            continue  # the same run
        theirs = set(coverage.origins(side.run)) if side.run.started else set()
        parts: tuple[RunRecord | MergedPart, ...] = (new.run, *coverage.merged_parts(new.run))
        for part in parts:
            if part.started and part.origin in theirs:
                if part is new.run:
                    lines.append(f"run {part.name} is a part of baseline {side.name}: name one merged without it")
                    continue
                where = "the baseline" if part.origin == side.run.origin else f"baseline {side.name}"
                lines.append(f"run {part.name} is a part of this run and {where}: merge without it")
    return list(dict.fromkeys(lines))


def _asked_apart(run: RunRecord) -> tuple[list[str], list[str]]:
    """For parts of an unidentified model: blockers if they were asked far apart, else a note with their times."""
    parts = [part for part in coverage.merged_parts(run) if not part.merged]
    if identities.is_identified(run) or all(part.identity for part in parts):
        return [], []
    times = sorted((time, part.name) for part in parts if (time := _time(part.started)) is not None)
    if len(times) < 2:
        return [], []
    (first, one), (last, other) = times[0], times[-1]
    line = f"{one} at {first:%Y-%m-%d %H:%M} and {other} at {last:%Y-%m-%d %H:%M} UTC"
    if last - first <= APART:
        return [], [f"nothing identifies the model; its parts were asked within a day, {line}"]
    return [
        f"nothing identifies the model, and its parts were asked more than 24 hours apart, {line}. "
        "Declare a revision in its config (or a fingerprint in its backend) and ask anew, or ask all parts in one day"
    ], []


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _blockers(gate: Gate, paired: Paired) -> list[str]:
    """Lines about items in one run only, or without a score in one run despite an answer."""
    base = paired.baseline.name
    unanswered = {(r.item.benchmark, r.item.id, r.technique) for r in paired.new.results if r.score.outcome == "error"}
    return [
        _line(gate, part.benchmark, item, why)
        for part in paired.parts
        for why, items in (
            (f"not in baseline {base}", part.unmatched_new),
            (f"in baseline {base} alone", part.unmatched_baseline),
            ("no score here", part.errors_new),
            (f"no score in baseline {base}", part.errors_baseline),
        )
        for item in items
        if (part.benchmark, item, part.technique) not in unanswered
    ]


def _other_judge(new: Side, side: Side, targets: Iterable[Target]) -> list[str]:
    """Lines about different judges of two runs; the judge's identity is known only after its first reply."""
    lines = []
    for name in dict.fromkeys(target.benchmark.name for target in targets):
        one, other = (run.signature(name).get("judge") for run in (new, side))
        if one != other:
            lines.append(
                f"{name}: the judge is {one or 'not recorded'} in {new.name} and {other or 'not recorded'} in "
                f"{side.name}"
            )
    return lines


def _not_gated(gate: Gate, new: Side) -> list[str]:
    """Lines about benchmarks with a rule but no result, and, given a baseline, with results but no rule."""
    targets = dict.fromkeys(target.benchmark.name for target in gate.targets)
    benchmarks = dict.fromkeys(result.item.benchmark for result in new.results)
    lines = [f"not gated, as none of its questions was asked: {name}" for name in targets if name not in benchmarks]
    if gate.baselines and (others := [name for name in benchmarks if name not in targets]):
        lines.append(f"not gated here: {', '.join(others)}")
    return lines


def _empty_margins(tested: Iterable[_Tested]) -> list[str]:
    """Notes on margins that no run can lose, since the baseline has less: they rule out nothing."""
    notes = []
    for rule, numbers, _ in tested:
        if not isinstance(numbers, MarginRule) or numbers.comparison.baseline is None:
            continue
        if (numbers.user_margin or numbers.margin) >= (has := numbers.comparison.baseline):
            notes.append(
                f"{rule.rule}: no run can lose that much, as at most {number(has, digits=1)} points can be lost; "
                "choose a margin that you would not accept to lose"
            )
    return notes


def _absent(gate: Gate, paired: Paired) -> list[Ruling]:
    """Inconclusive rulings for rules whose measure or slice has no question."""
    absent, about = [], paired.baseline.run.benchmarks
    for target in (target for target in gate.targets if target.benchmark.name in about):
        rows = [dict(row.slice) for row in paired.tables if _is_headline(row, target)]
        own = gate.rules.of_slices(target.benchmark.name)
        wanted: list[tuple[tuple[str, str] | None, float | None, str]] = [(None, target.margin, NOTHING_ASKED)]
        wanted += [(place, margin, NOTHING_ASKED) for place, margin in own.items()]
        # A slice that is large enough, but has no counting answer in either run.
        wanted += [
            (slice_[0], None, NOTHING_COUNTS)
            for slice_, design in (_designs(gate, paired.new, target) if gate.rules.slices else {}).items()
            if slice_ and slice_[0][0] in gate.rules.slices and statistics.gated_slice(design)
            if slice_[0] not in own
        ]
        rulings = (_rule(paired, target, *one) for one in wanted)
        absent += [ruling for ruling in rulings if ruling.slice not in rows]
    return absent


def _rule(paired: Paired, target: Target, place: tuple[str, str] | None, margin: float | None, why: str = "") -> Ruling:
    return Ruling.against(
        paired.baseline.name, target.benchmark.name, target.metric.name, target.technique, place, margin, why
    )


def _line(gate: Gate, benchmark: str, item: str, why: str, *, private: str = "") -> str:
    """A line about a question, without its id if the data are not declared public, and then with this reason."""
    known = gate.known.get(benchmark)
    return f"{benchmark}/{item}: {why}" if known is not None and known.public else f"{benchmark}: {private or why}"


def _shortened(lines: Sequence[str], limit: int = 10) -> tuple[str, ...]:
    lines = [f"{line} ({count:,} times)" if count > 1 else line for line, count in Counter(lines).items()]
    return tuple(lines) if len(lines) <= limit else (*lines[:limit], f"and {len(lines) - limit} more")


def _judged(gate: Gate, results: Sequence[Result]) -> list[str]:
    """Notes on judged measures."""
    notes = []
    for target in gate.targets:
        if not _is_judged(target, results):
            continue
        reliability = target.judge_reliability
        notes.append(
            f"{target.benchmark.name}: a judge scored answers, and no human labels say how reliably "
            "(judge_reliability): its errors make runs look alike and favour PASS"
            if reliability is None
            else f"{target.benchmark.name}: a judge scored answers; margins are multiplied by its reliability, "
            f"{reliability:g}"
        )
    return notes


def _is_judged(target: Target, results: Iterable[Result]) -> bool:
    return any(result.judgement is not None for result in target.of(results))


def _compared(gate: Gate, paired: Paired, new: Side) -> list[_Tested]:
    """Rules of one baseline: for each target its margin, its slices' margins, and the guards of the other slices."""
    tested: list[_Tested] = []
    for target in gate.targets:
        name = target.benchmark.name
        rows = [table for table in paired.tables if _is_headline(table, target)]
        if not rows:
            continue
        shrunk = (target.judge_reliability or 1.0) if _is_judged(target, new.results) else 1.0
        unchanged = paired.of(name, target.technique).unchanged
        chances = chances_of(paired.baseline, target, slices=gate.has_slices(name))
        designed = _designs(gate, new, target)
        own = gate.rules.of_slices(name)
        for row in rows:
            where = next(iter(row.slice.items()), None)
            margin = target.margin if where is None else own.get(where)
            design = designed.get(tuple(row.slice.items()))
            rule = _rule(paired, target, where, margin)
            numbers: statistics.TestedRule
            if margin is not None:
                chance, low = chances[()] if where is None else chances.get((where,), (None, None))
                numbers = MarginRule(
                    name=rule.rule,
                    comparison=row.comparison,
                    margin=margin / 100 * shrunk,
                    chance=chance,
                    baseline_low=low,
                    unchanged=unchanged,
                    of_slice=where is not None,
                    better=row.better,
                    user_margin=margin / 100,
                    design=design,
                )
            elif where is not None and where[0] in gate.rules.slices:
                numbers = SliceGuard(
                    name=rule.rule,
                    comparison=row.comparison,
                    unchanged=unchanged,
                    better=row.better,
                    design=design,
                )
            else:
                continue
            tested.append((rule, numbers, row))
    return tested


def _is_headline(row: Compared | Flip, target: Target) -> bool:
    return (row.benchmark, row.technique, row.metric) == (
        target.benchmark.name,
        target.technique,
        target.metric.name,
    )


def _designs(gate: Gate, new: Side, target: Target, metric: Metric | None = None) -> dict[Place, Design]:
    """The designs of the whole, and if slices are gated, of all slices."""
    results, metric = target.of(new.results), metric or target.metric
    if not gate.has_slices(target.benchmark.name):
        return designs(results, metric, averaged(metric), alone=True)
    return designs(results, metric, (*target.benchmark.dimensions, *gate.rules.slices))


def chances_of(side: Side, target: Target, *, slices: bool = True) -> dict[Place, Chance]:
    """The level of chance and the baseline's lower bound, overall (()) and, with `slices`, by slice.

    Chance is the lowest reference line of a measure. On confusing pairs it is 0, the value of a model that ignores the
    images, though guessing gives 25 %. None if unknown. Both refer to 1 - measure if less is better.
    """
    extraction = scoring.rules.recorded(side.run.extraction, [target.benchmark])
    measured = metrics.measures(
        target.of(side.results),
        [target.metric],
        target.benchmark.dimensions if slices else averaged(target.metric),
        alone=not slices,
        benchmark=target.benchmark.name,
        signature={},
        score=scoring.scorer(target.benchmark, extraction),
        orders=rotation.orders(target.technique, side.run.protocol.rotations),
    )
    return {tuple(measure.slice.items()): chance_of(measure, target.metric) for measure in measured}


def chance_of(measure: Measure, metric: Metric) -> Chance:
    """The level of chance and the lower bound of a measure, of 1 - measure if less is better."""
    references, low = list(measure.references.values()), measure.low
    if metric.better == "lower":
        references = [1 - value for value in references]
        low = None if measure.high is None else 1 - measure.high
    return min(references, default=None), low


def _floors(gate: Gate, new: Side, level: float) -> list[_Tested]:
    tested: list[_Tested] = []
    for floor in gate.rules.floor:
        for target in gate.targets:
            if target.benchmark.name != floor.benchmark:
                continue
            rule, metric = Ruling.of_floor(floor, target.technique), gate.metric(floor.benchmark, floor.measure)
            design = _designs(gate, new, target, metric).get(())
            numbers = _floor(rule, floor, target.of(new.results), metric, level)
            tested.append((rule, numbers if design is None else replace(numbers, design=design), None))
    return tested


def _floor(rule: Ruling, floor: Floor, results: Sequence[Result], metric: Metric, level: float) -> FloorRule:
    limit, at_most, point = floor.limit, floor.at_most is not None, floor.point
    tabled = tables(results, [metric], averaged(metric), alone=True)
    if not tabled:
        nothing = {"value": None, "low": None, "high": None, "p": None}
        return FloorRule(name=rule.rule, limit=limit, level=level, at_most=at_most, point=point, **nothing)
    precision, binary = tabled[0].estimate().precision, tabled[0].binary
    return statistics.floor(rule.rule, precision, limit, binary=binary, at_most=at_most, point=point, level=level)


def _ruling(
    gate: Gate,
    rule: Ruling,
    numbers: statistics.TestedRule,
    row: Compared | None,
    decided: statistics.RuleVerdict,
    run: RunRecord,
) -> Ruling:
    """Return a rule with its figures and its outcome."""
    design = numbers.design
    ruling = replace(
        rule,
        outcome=decided.outcome,
        why=decided.why,
        p=decided.p,
        adjusted=decided.adjusted,
        needed=decided.needed,
        unit=None if design is None else design.unit,
        df=None if design is None else design.df,
        items=run.benchmark(rule.benchmark).items or None,
        better=gate.metric(rule.benchmark, rule.measure).better,
    )
    if isinstance(numbers, FloorRule):
        units = None if design is None else design.units
        return replace(ruling, value=decided.value, low=decided.low, high=decided.high, units=units)
    # The decision uses "more is better"; the row shows the measure itself. "lost" counts worse units in both.
    comparison, shown = numbers.comparison, numbers.comparison if row is None else row.shown
    chance = decided.chance if decided.chance is None or decided.better == "higher" else 1 - decided.chance
    return replace(
        ruling,
        value=shown.new,
        baseline_value=shown.baseline,
        difference=shown.difference,
        low=shown.low,
        high=shown.high,
        margin=decided.margin,
        asked_margin=decided.user_margin,
        chance=chance,
        units=comparison.units,
        groups=comparison.groups,
        discordant_groups=comparison.discordant_groups,
        gained=comparison.gained,
        lost=comparison.lost,
        detectable=decided.detectable,
        holds_to=decided.holds_to,
        beyond=decided.margin is not None and comparison.high is not None and comparison.high < -decided.margin,
        unchanged=decided.unchanged,
    )


def _flips(gate: Gate, paired: Paired) -> list[Flipped]:
    return [
        Flipped(
            benchmark=flip.benchmark,
            unit=flip.unit,
            better=flip.better,
            baseline=tuple(_read(paired.baseline, result) for result in flip.baseline),
            new=tuple(_read(paired.new, result) for result in flip.new),
        )
        for flip in paired.flips
        for target in gate.targets
        if _is_headline(flip, target)
    ]


def _read(side: Side, result: Result) -> str:
    """Return the reading of an answer in a line; its outcome if nothing was read, or only a digest is stored."""
    letters = result.score.extracted
    if side.run.responses == DIGESTS:
        letters = tuple(letter for letter in letters if letter in result.item.options)
    text = " ".join(", ".join(letters).split()) or result.score.outcome
    return printing.shortened(text, READ)


def _moved(gate: Gate, paired: Paired) -> list[Moved]:
    """Slices of the benchmarks' own dimensions with at least LEAST_SHOWN units."""
    return [
        Moved(
            benchmark=row.benchmark,
            slice=dict(row.slice),
            difference=shown.difference,
            units=shown.units,
            better=row.better,
        )
        for target in gate.targets
        for row in paired.tables
        if _is_headline(row, target) and set(row.slice) & {*target.benchmark.dimensions, *gate.rules.slices}
        if (shown := row.shown).units >= LEAST_SHOWN and shown.difference is not None
    ]
