"""Plan a gate before asking: the chance of PASS, and the detectable loss of each guard.

Two values are unknown beforehand: the share of units that flip, and whether the units of a group flip together. The
first is assumed. Because of the second, each figure is a range: from groups that flip as one to independent units. Two
runs at hand narrow it: to the correlation of their flips, from the upper end of its interval to its estimate.
Chances come from simulating the gate itself on the units and groups of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, sqrt

from medvqa import metrics, statistics
from medvqa.comparing import Side
from medvqa.comparing.common import Alignment, everything
from medvqa.comparing.differing import contrast
from medvqa.comparing.gating.deciding import Chance, chance_of, chances_of
from medvqa.comparing.gating.designs import Place, designs, layouts, unanswered
from medvqa.comparing.gating.preparing import Target, target_of
from medvqa.comparing.gating.rules import Rules
from medvqa.decode import did_you_mean
from medvqa.items import Benchmark, Item, Result, UsageError
from medvqa.records.run_record import RecordedBenchmark
from medvqa.statistics import Design, FlipCorrelation, Simulated, UnitLayout
from medvqa.statistics.intervals import LEAST_DF
from medvqa.statistics.sentences import Better, RuleVerdict

DISCORDANCE = 0.15
"""Default share of units that flip either way between two runs of similar models."""
SIZES = (176, 1500, 26_000)
"""Numbers of units to plan for without a benchmark: about those of MediConfusion, and of the two others."""

Range = tuple[float, float]
"""A figure if the units of a group flip together, and if they flip independently."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned rule: with a margin (a fraction), or a guard of a slice without one.

    `layout`: its units and their groups; None if its groups allow no verdict.
    `chance`: None if unknown. `baseline_low`: the lower bound of the baseline, if it is `known`. Both refer to
    1 - measure if less is `better`. `flips`: the correlation of flips between two runs, None without them.
    """

    name: str
    design: Design
    margin: float | None
    layout: UnitLayout | None
    of_slice: bool = False
    chance: float | None = None
    baseline_low: float | None = None
    known: bool = False
    better: Better = "higher"
    flips: FlipCorrelation | None = None

    @property
    def correlations(self) -> Range:
        """The correlations of flips within groups: at most, and as estimated; without runs, any from 1 to 0."""
        if self.design.together <= 1:
            return 0.0, 0.0
        if self.flips is None or self.flips.icc is None or self.flips.high is None:
            return 1.0, 0.0
        return max(self.flips.high, 0.0), max(self.flips.icc, 0.0)

    @property
    def deffs(self) -> Range:
        """The design effects at `correlations`."""
        first, second = (1 + (max(self.design.together, 1.0) - 1) * icc for icc in self.correlations)
        return first, second

    @property
    def gated(self) -> bool:
        """Whether the groups allow a verdict."""
        return statistics.gated_slice(self.design) if self.of_slice else (self.design.df or 0.0) >= LEAST_DF

    @property
    def why_not(self) -> str:
        """Why the groups allow no verdict."""
        if self.of_slice:
            return f"not gated: {statistics.shortfall(self.design)}"
        return RuleVerdict(kind="margin", outcome="INCONCLUSIVE", value=0.0, baseline=0.0, df=self.design.df).why

    @property
    def above_chance(self) -> bool:
        """Whether a known baseline is above chance, as PASS requires; True if it is unknown."""
        if not self.known or self.chance is None:
            return True
        return self.baseline_low is not None and self.baseline_low > self.chance


@dataclass(frozen=True, slots=True)
class Prospect:
    """The prospects of a rule with a margin: simulated gates at no change, and at a loss of the margin.

    Of each pair, the first is for groups whose units flip together. `needed`: the units with which 80 % of runs pass
    the margin at no change. None: the groups allow no verdict.
    """

    planned: Planned
    unchanged: tuple[Simulated, Simulated] | None
    at_margin: tuple[Simulated, Simulated] | None
    needed: Range | None

    @property
    def chances(self) -> tuple[Range, Range] | None:
        """The chance of PASS at no change, and at a loss of the margin; 0 if the baseline is not above chance."""
        if self.unchanged is None or self.at_margin is None:
            return None
        times = float(self.planned.above_chance)
        (first, second), (third, fourth) = self.unchanged, self.at_margin
        return (times * first.passed, times * second.passed), (times * third.passed, times * fourth.passed)

    @property
    def passable(self) -> Range | None:
        """The margin that passes in 80 % of runs at no change."""
        return None if self.unchanged is None else (self.unchanged[0].passable, self.unchanged[1].passable)


@dataclass(frozen=True, slots=True)
class Guarded:
    """The true loss (a fraction) that a guard shows in 80 % of runs; None if it is not gated."""

    planned: Planned
    smallest: Range | None


def independent(units: int, margin: float) -> Planned:
    """A rule on independent units; UsageError for less than one."""
    if units < 1:
        raise UsageError(f"--units={units}: at least 1")
    design = Design(units=units, groups=units, df=inf)
    return Planned(f"{units:,} units", design, margin, statistics.in_groups(range(units)))


def of_data(benchmark: Benchmark, items: Sequence[Item], rules: Rules) -> list[Planned]:
    """The rules about a benchmark, given its items. UsageError for a dimension or slice that they lack."""
    target = target_of(benchmark, RecordedBenchmark(prompts={"": ""}), _without_technique(rules, benchmark.name))
    results = unanswered(items)
    measured = metrics.measures(results, [target.metric], benchmark.dimensions, benchmark=benchmark.name, signature={})
    chances = {tuple(measure.slice.items()): (chance_of(measure, target.metric)[0], None) for measure in measured}
    return _planned(benchmark.name, target, results, rules, chances, discordance_known=False)


def of_baseline(benchmark: Benchmark, side: Side, rules: Rules) -> list[Planned]:
    """The rules about a benchmark against a baseline. UsageError as for `of_data`, and for a technique it lacks."""
    target = target_of(benchmark, side.run.benchmarks[benchmark.name], rules)
    name = f"{benchmark.name} of {side.name}"
    return _planned(name, target, target.of(side.results), rules, chances_of(side, target), discordance_known=True)


def flips_between(
    sides: tuple[Side, Side], benchmarks: Mapping[str, Benchmark], rules: Rules
) -> dict[str, FlipCorrelation]:
    """The correlation of the flips between two runs, by benchmark: of the gated measure, on the units of both.

    UsageError for runs that are not comparable, and for a technique or measure that they lack.
    """
    if refusals := contrast(*sides).refusals:
        raise UsageError("the flips between these runs tell nothing of a gate:\n  " + "\n  ".join(refusals))
    found = {}
    for part in Alignment(sides).parts((0, 1), benchmarks):
        target = target_of(part.benchmark, sides[0].run.benchmarks[part.benchmark.name], rules)
        own = [runs for runs in part.tabled if runs[0].metric.name == target.metric.name]
        if part.technique == target.technique and own:
            one, other = (statistics.by_unit(everything(run.table()))[0] for run in own[0])
            both = (one.denominator > 0) & (other.denominator > 0)
            change = statistics.own_values(one) - statistics.own_values(other)
            found[part.benchmark.name] = statistics.flip_correlation(change[both], one.group[both])
    return found


def _without_technique(rules: Rules, name: str) -> Rules:
    """The rules without a benchmark's technique: the power of its data does not depend on it."""
    own = rules.benchmarks.get(name)
    return rules if own is None else replace(rules, benchmarks={**rules.benchmarks, name: replace(own, technique=None)})


def _planned(
    name: str,
    target: Target,
    results: Sequence[Result],
    rules: Rules,
    chances: Mapping[Place, Chance],
    *,
    discordance_known: bool,
) -> list[Planned]:
    dimensions = (*target.benchmark.dimensions, *rules.slices)
    designed = designs(results, target.metric, dimensions)
    laid_out = layouts(results, target.metric, dimensions)
    own = rules.of_slices(target.benchmark.name)
    _check(designed, rules.slices, own)
    plans = []
    for place, design in designed.items():
        where = " ".join(place[0]) if place else ""
        margin = target.margin if not place else own.get(place[0])
        if place and margin is None and place[0][0] not in rules.slices:
            continue
        chance, low = chances.get(place, (None, None))
        label = name if not place else where if margin is None else f"{name}: {where}"
        share = None if margin is None else margin / 100
        plans.append(
            Planned(
                *(label, design, share, laid_out.get(place), bool(place), chance, low, discordance_known),
                target.metric.better,
            )
        )
    return plans


def _check(designed: Iterable[Place], dimensions: Sequence[str], own: Iterable[tuple[str, str]]) -> None:
    slices = {place[0] for place in designed if place}
    names = sorted({dimension for dimension, _ in slices})
    for dimension in (*dimensions, *(dimension for dimension, _ in own)):
        if dimension not in names:
            raise UsageError(f"--gate-slices={dimension}: no such dimension{did_you_mean(dimension, names)}")
    for dimension, value in own:
        if (dimension, value) not in slices:
            raise UsageError(f"[[tool.medvqa.gate.slice]]: no {dimension} '{value}' in these data")


def prospects(
    planned: Sequence[Planned],
    *,
    discordance: float = DISCORDANCE,
    deff: float | None = None,
    looks: int = 1,
    icc: float = statistics.FLIP_ICC,
) -> list[Prospect]:
    """The prospects of the rules with a margin, which declare the correlation `icc`; `deff` replaces both ends.

    UsageError for values out of range.
    """
    _check_design(looks, deff)
    rows = []
    for plan in planned:
        margin = plan.margin
        if margin is None:
            continue
        if not 0 < margin <= 1:
            raise UsageError(f"--margin={100 * margin:g}: points, more than 0 and at most 100")
        if not margin <= discordance <= 1:
            raise UsageError(
                f"--discordance={100 * discordance:g}: percent of units that flip either way, from the margin "
                f"({100 * margin:g}) to 100"
            )
        if not plan.gated or plan.layout is None:
            rows.append(Prospect(plan, None, None, None))
            continue
        layout, correlations = _correlated(plan, plan.layout, deff)
        rows.append(_simulated(plan, layout, margin, discordance, correlations, looks, icc))
    return rows


def _simulated(
    plan: Planned, layout: UnitLayout, margin: float, discordance: float, correlations: Range, looks: int, icc: float
) -> Prospect:
    """Simulate the gate at both correlations within groups; once if they are equal."""
    unchanged, at_margin, needed = [], [], []
    for correlation in dict.fromkeys(correlations):
        run = partial(statistics.simulated, layout, margin, discordance, correlation=correlation, icc=icc, looks=looks)
        unchanged.append(run())
        at_margin.append(run(loss=margin))
        passable = unchanged[-1].passable
        needed.append(
            statistics.units_to_pass(
                layout, margin, discordance, correlation=correlation, icc=icc, looks=looks, passable=passable
            )
        )
    return Prospect(
        plan, (unchanged[0], unchanged[-1]), (at_margin[0], at_margin[-1]), (float(needed[0]), float(needed[-1]))
    )


def _correlated(plan: Planned, layout: UnitLayout, deff: float | None) -> tuple[UnitLayout, Range]:
    """The units in groups, and the correlations of flips within groups at both ends.

    A typed design effect is 1 + (together - 1) x correlation. Units without groups are put in groups for it.
    """
    design = plan.design
    if deff is None:
        return layout, plan.correlations
    if deff > 1 and design.together <= 1:
        size = ceil(deff)
        layout, together = statistics.in_groups([unit // size for unit in range(design.units)]), float(size)
    else:
        together = design.together
    correlation = min((deff - 1) / (together - 1), 1.0) if together > 1 else 0.0
    return layout, (correlation, correlation)


def guards(
    planned: Sequence[Planned], *, discordance: float = DISCORDANCE, deff: float | None = None, looks: int = 1
) -> list[Guarded]:
    """The detectable losses of the guards: gated slices share half of the error, other rules the other half."""
    _check_design(looks, deff)
    alpha = 1 - statistics.level_of(looks)
    slices = sum(plan.of_slice and plan.gated for plan in planned)
    families = 1 + any(not plan.of_slice and plan.gated for plan in planned)
    rows = []
    for plan in planned:
        if plan.margin is not None:
            continue
        smallest = None
        if plan.gated:
            losses = [
                statistics.smallest_loss(
                    sqrt(end * discordance / plan.design.units),
                    plan.design.df or inf,
                    plan.design.units,
                    end,
                    alpha / families / slices,
                )
                for end in (plan.deffs if deff is None else (deff, deff))
            ]
            smallest = (losses[0] or 0.0, losses[1] or 0.0)
        rows.append(Guarded(plan, smallest))
    return rows


def _check_design(looks: int, deff: float | None) -> None:
    if looks < 1:
        raise UsageError(f"--looks={looks}: how often the gate is asked, at least 1")
    if deff is not None and not deff >= 1:
        raise UsageError(f"--deff={deff:g}: how many times the variance is that of independent units, at least 1")
