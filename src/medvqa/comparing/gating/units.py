"""Lost units: they count, or could count, in a baseline's measure but not in the run's. They prevent a PASS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from medvqa import metrics
from medvqa.comparing import Side, matching
from medvqa.comparing.gating import designs
from medvqa.comparing.gating.designs import as_right, as_wrong
from medvqa.comparing.gating.preparing import Gate, Target
from medvqa.comparing.gating.verdict import Ruling
from medvqa.items import Item, Metric, QuestionKey, Result, replace

Unit = tuple[QuestionKey, ...]
"""The questions of a unit: one, or the two of a pair."""
NOT_ASKED = "not asked"
_REASONS = {"error": "ended in error", "unscored": "without a score"}


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of units that count in the run (`there`) of those that should (`of`).

    `whose`: the baseline or data set; `unit`: the singular name. `reasons`: numbers of lost units by reason.
    """

    benchmark: str
    technique: str
    measure: str
    whose: str
    unit: str
    there: int
    of: int
    reasons: Mapping[str, int]

    @property
    def line(self) -> str:
        """The number of counting units, and the reasons for the others."""
        why = ", ".join(f"{number:,} {reason}" for reason, number in sorted(self.reasons.items()))
        return f"{self.there:,} of {self.of:,} {self.unit}s count here: {why}"

    @property
    def share(self) -> str:
        """The share in words: "10 of 60 questions of main"."""
        return f"{self.there:,} of {self.of:,} {self.unit}s of {self.whose}"

    @property
    def ruling(self) -> Ruling:
        """The row that prevents a PASS."""
        # Give no advice about refusals: leaving them out would only hide them.
        remedy = ". Ask all, or decide on a part: --require=shared" if NOT_ASKED in self.reasons else ""
        what = f"{self.measure} on every" if self.measure else "every"
        return Ruling(
            rule=f"{self.benchmark}: {what} {self.unit} of {self.whose}",
            kind="units",
            benchmark=self.benchmark,
            measure=self.measure,
            technique=self.technique,
            outcome="INCONCLUSIVE",
            why=f"{self.line}{remedy}",
            units=self.there,
            unit=self.unit,
        )


def left(gate: Gate, new: Side) -> list[Counted]:
    """The lost units of the gated measures, by baseline and benchmark, then by floor and data set.

    Includes units that the rules do not require (`require = "shared"`).
    """
    counted: list[Counted] = []
    for side in gate.baselines:
        for target in gate.targets:
            if target.benchmark.name in side.run.benchmarks:
                counted += _against(gate, new, side, target)
    for target in gate.targets:
        floors = [rule for rule in gate.rules.floor if rule.benchmark == target.benchmark.name]
        compared = any(target.benchmark.name in side.run.benchmarks for side in gate.baselines)
        if gate.rules.required(target.benchmark.name) == "all" or (floors and not compared):
            counted.append(_not_asked(new, target))
        for rule in floors:
            metric = gate.metric(rule.benchmark, rule.measure)
            if not compared or metric.name != target.metric.name:
                counted.append(_not_counted(new, target, metric))
    dropped = [
        Counted(name, technique, "", run, "question", 0, number, {NOT_ASKED: number})
        for run, name, technique, number in gate.dropped
    ]
    return [counted for counted in (*counted, *dropped) if counted.there < counted.of]


def _about(item: Item, result: Result) -> Result:
    return result if result.item == item else replace(result, item=item)


def _against(gate: Gate, new: Side, side: Side, target: Target) -> list[Counted]:
    """The units of a baseline's headline measure that do not count in the run, and those in other gated slices."""
    was, now = (matching.by_question(target.of(one.results)) for one in (side, new))
    partners = matching.partners(was, now)
    # Give the run's results the baseline's items, so that units have the baseline's names.
    here = {key: [_about(was[key][0].item, result) for result in now[partner]] for key, partner in partners.items()}
    wanted, counted = (_units(chain.from_iterable(each.values()), target.metric) for each in (was, here))
    pairs = [(was[key][0].item, now[partner][0].item) for key, partner in partners.items()]
    return [_of_measure(target, target.metric, side.name, wanted, counted, here), *_retagged(gate, side, target, pairs)]


def _not_counted(new: Side, target: Target, metric: Metric) -> Counted:
    """The asked units that could count, whatever their answers, but do not."""
    results = target.of(new.results)
    wanted = _units(map(as_wrong, results), metric) | _units(map(as_right, results), metric)
    return _of_measure(target, metric, "this run", wanted, _units(results, metric), matching.by_question(results))


def _of_measure(
    target: Target,
    metric: Metric,
    whose: str,
    wanted: set[Unit],
    counted: set[Unit],
    here: Mapping[QuestionKey, Sequence[Result]],
) -> Counted:
    """The wanted units that a measure counts; `here`: the run's results, which tell why it does not count others."""
    lost = sorted(wanted - counted)
    return Counted(
        target.benchmark.name,
        target.technique,
        metric.name,
        whose,
        metric.unit.replace("item", "question"),
        len(wanted) - len(lost),
        len(wanted),
        Counter(_why(unit, here) for unit in lost),
    )


def _not_asked(new: Side, target: Target) -> Counted:
    """The questions of the data set that the run did not ask; none if its record has no total."""
    name, technique = target.benchmark.name, target.technique
    recorded = new.run.benchmark(name)
    of = recorded.questions.get(technique, recorded.items)
    asked = len({result.item.id for result in target.of(new.results)})
    return Counted(name, technique, "", "the data set", "question", asked, of, {NOT_ASKED: of - asked})


def _retagged(gate: Gate, side: Side, target: Target, pairs: Sequence[tuple[Item, Item]]) -> list[Counted]:
    """Questions in other slices than in the baseline, for gated dimensions; `pairs`: its items and the run's."""
    name, retagged = target.benchmark.name, []
    for dimension in sorted({*gate.rules.slices, *(dimension for dimension, _ in gate.rules.of_slices(name))}):
        moved = sum(set(was.tags.get(dimension, ())) != set(now.tags.get(dimension, ())) for was, now in pairs)
        reasons = {f"in another {dimension} than in {side.name}": moved}
        numbers = len(pairs) - moved, len(pairs)
        retagged.append(Counted(name, target.technique, dimension, side.name, "question", *numbers, reasons))
    return retagged


def _units(results: Iterable[Result], metric: Metric) -> set[Unit]:
    """The units that a measure counts."""
    tables = metrics.tables(list(results), [metric], designs.averaged(metric), alone=True)
    if not tables:
        return set()
    units, denominators = tables[0].frame.units, tables[0].terms[1]
    counted = zip(units, denominators.tolist(), strict=True)
    return {tuple(result.key.question for result in unit) for unit, denominator in counted if denominator > 0}


def _why(unit: Unit, here: Mapping[QuestionKey, Sequence[Result]]) -> str:
    """The reason why a unit does not count."""
    if any(key not in here for key in unit):
        return NOT_ASKED
    outcomes = [result.score.outcome for key in unit for result in here[key]]
    for outcome in ("error", "unscored", "refused", "abstained", "unparsed"):
        if outcome in outcomes:
            return _REASONS.get(outcome, outcome)
    return "left out by the measure"
