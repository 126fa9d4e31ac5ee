"""The gate: rules about a new run -> PASS, FAIL or INCONCLUSIVE.

A wrong PASS and a wrong FAIL each have at most the probability 1 - level, 5 % divided by the number of looks. PASS
needs no correction for multiple rules, because all must pass (Berger 1982, Technometrics 24:295). The tests for FAIL
share one weighted Holm procedure: half of the weight goes to headline rules and floors, half to slices. A rule with
fewer than 4 degrees of freedom can neither pass nor fail, and takes no weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from medvqa.figures import defined
from medvqa.statistics.clustered import Estimates
from medvqa.statistics.intervals import (
    LEAST_DF,
    LEAST_DISCORDANT,
    bounds,
    clopper_pearson,
    mirrored,
    p_below,
)
from medvqa.statistics.multiplicity import holm
from medvqa.statistics.paired import Comparison, largest_icc
from medvqa.statistics.planning import NORMAL, POWER
from medvqa.statistics.sentences import (
    LEAST_GROUPS,
    LEAST_UNITS,
    Better,
    RuleOutcome,
    RuleVerdict,
)

LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The size of a measure, known before any answer: units, groups, and the groups' degrees of freedom.

    `unit` is the unit's name: "question", "pair", or "unit" for a mixture. `together` is the design effect if the
    units of a group change together: n times the sum of squares of the groups' shares.
    """

    units: int
    groups: int
    df: float | None
    unit: str = "unit"
    together: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginRule:
    """The new run must not be worse than the baseline by `margin` (a fraction above 0).

    `chance` is the value of guessing, None if unknown. `baseline_low`, the baseline's own lower bound, must be above
    it, since a guessing model cannot get worse. `unchanged`: the responses are identical on every unit. `of_slice`: the
    rule is about a slice, gated if it is large enough. If `better` is "lower", all numbers are those of 1 minus the
    measure; the verdict's sentence converts them back. `user_margin` is set if a judge's reliability reduced the user's
    margin to `margin`. The rule is gated by its `design`; None takes the comparison's units and groups, which depend on
    the answers if the measure leaves some out.
    """

    name: str
    comparison: Comparison
    margin: float
    chance: float | None = None
    baseline_low: float | None = None
    unchanged: bool = False
    of_slice: bool = False
    better: Better = "higher"
    user_margin: float | None = None
    design: Design | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a margin of 0 or less."""
        _check_margin(self.name, self.margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceGuard:
    """A slice must not be shown to be worse; with a `margin`, a loss shown to be smaller passes.

    `better` and `design` as for `MarginRule`.
    """

    name: str
    comparison: Comparison
    margin: float | None = None
    unchanged: bool = False
    better: Better = "higher"
    design: Design | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a margin of 0 or less."""
        if self.margin is not None:
            _check_margin(self.name, self.margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorRule:
    """A measure of the new run must be at least `limit`, or with `at_most` at most.

    `low` and `high` are one-sided bounds at `level`, `p` is the p-value of a measure beyond the limit, as computed by
    `floor`. `point`: the estimate alone decides. `design` as for `MarginRule`; None: unknown.
    """

    name: str
    limit: float
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    level: float
    at_most: bool = False
    point: bool = False
    design: Design | None = None


TestedRule = MarginRule | SliceGuard | FloorRule


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict over all rules: FAIL if one fails, PASS if all gated rules pass, else INCONCLUSIVE."""

    outcome: RuleOutcome
    verdicts: tuple[RuleVerdict, ...]
    level: float


def level_of(looks: int = 1) -> float:
    """Return the one-sided level of every bound if the gate is evaluated up to `looks` times (Bonferroni)."""
    if looks < 1:
        raise ValueError(f"the number of looks must be at least 1, not {looks}")
    return 1 - (1 - LEVEL) / looks


def floor(
    name: str,
    estimates: Estimates,
    limit: float,
    *,
    binary: bool,
    at_most: bool = False,
    point: bool = False,
    level: float = LEVEL,
) -> FloorRule:
    """Return the rule that the first measure of `estimates` is at least (or at most) `limit`.

    Its design is that of the measure, with the effective number of units.
    """
    low, high = bounds(estimates, binary=binary, level=level)
    p = p_below(mirrored(estimates), 1 - limit, binary=binary) if at_most else p_below(estimates, limit, binary=binary)
    value, low_, high_, p_ = (defined(values[0]) for values in (estimates.value, low, high, p))
    return FloorRule(
        name=name,
        limit=limit,
        value=value,
        low=low_,
        high=high_,
        p=p_,
        level=level,
        at_most=at_most,
        point=point,
        design=Design(units=round(estimates.n[0]), groups=int(estimates.groups[0]), df=defined(estimates.df[0])),
    )


def decide(rules: Sequence[TestedRule], *, looks: int = 1) -> Decision:
    """Apply the rules; ValueError if the level of a rule's bounds is not that of `looks`."""
    level = level_of(looks)
    for rule in rules:
        rule_level = rule.level if isinstance(rule, FloorRule) else rule.comparison.level
        if abs(rule_level - level) > 1e-12:
            raise ValueError(f"rule '{rule.name}' has bounds of level {rule_level:g}; {looks} looks need {level:g}")
    adjusted, shares = _adjusted(rules)
    verdicts = tuple(
        _verdict(rule, adjusted.get(i), 1 - level, (1 - level) * shares.get(i, 0.0)) for i, rule in enumerate(rules)
    )
    outcomes = [verdict.outcome for verdict in verdicts if verdict.outcome != "NOT GATED"]
    overall: RuleOutcome = "INCONCLUSIVE"
    if "FAIL" in outcomes:
        overall = "FAIL"
    elif outcomes and all(outcome == "PASS" for outcome in outcomes):
        overall = "PASS"
    return Decision(overall, verdicts, level)


def gated_slice(design: Design) -> bool:
    """Return whether a slice is large enough to be gated: 30 units in 10 groups with 4 degrees of freedom."""
    return design.units >= LEAST_UNITS and design.groups >= LEAST_GROUPS and _has_bounds(design)


def shortfall(design: Design) -> str:
    """Return the sentence why a slice is not gated: its size and the size needed."""
    return RuleVerdict(
        kind="guard",
        outcome="NOT GATED",
        unit=design.unit,
        units=design.units,
        groups=design.groups,
        df=design.df,
    ).why


def smallest_loss(se: float, df: float, units: float, deff: float | None, alpha: float) -> float | None:
    """Return the true loss (a fraction) that a test of level `alpha` shows with chance `POWER`; None if alpha is 0.

    `se` and `deff` are the observed ones. A loss must also be large enough that, with this chance and without gains,
    enough units are lost: enough to bring the score statistic to the quantile, and 5 in 5 groups.
    """
    if alpha <= 0:
        return None
    from scipy.special import stdtrit

    t, z, deff = float(stdtrit(df, 1 - alpha)), NORMAL.inv_cdf(POWER), deff or 1.0
    least = max(t * t * deff, LEAST_DISCORDANT)
    # The lost units of a loss L have the mean n L and the variance n L deff: n L - z sqrt(n L deff) = least.
    lost = ((z * sqrt(deff) + sqrt(z * z * deff + 4 * least)) / 2) ** 2
    return max((t + z) * se, lost / units)


def _of_slice(rule: TestedRule) -> bool:
    return isinstance(rule, SliceGuard) or (isinstance(rule, MarginRule) and rule.of_slice)


def _design(rule: TestedRule) -> Design | None:
    if rule.design is not None or isinstance(rule, FloorRule):
        return rule.design
    comparison = rule.comparison
    return Design(units=comparison.units, groups=comparison.groups, df=comparison.df)


def _has_bounds(design: Design | None) -> bool:
    return design is None or (design.df is not None and design.df >= LEAST_DF)


def _eligible(rule: TestedRule) -> bool:
    """Return whether a rule is gated, by size alone: answers must not choose the family of tests."""
    design = _design(rule)
    return not _of_slice(rule) or design is None or gated_slice(design)


def _tested(rule: TestedRule) -> bool:
    """Return whether a rule is tested, known before any answer; other rules take no weight."""
    return _eligible(rule) and _has_bounds(_design(rule)) and not (isinstance(rule, FloorRule) and rule.point)


def _p(rule: TestedRule) -> float | None:
    return rule.p if isinstance(rule, FloorRule) else rule.comparison.worse


def _adjusted(rules: Sequence[TestedRule]) -> tuple[dict[int, float], dict[int, float]]:
    """Return Holm's adjusted p-values and the shares of the error of all tested rules, by their place.

    A rule without p keeps its weight, because only the answers left it without one.
    """
    tested = [i for i, rule in enumerate(rules) if _tested(rule)]
    if not tested:
        return {}, {}
    families = [_of_slice(rules[i]) for i in tested]
    ps = [_p(rules[i]) for i in tested]
    weights = [1 / families.count(family) for family in families]
    adjusted = holm([1.0 if p is None else p for p in ps], weights).tolist()
    shares = [weight / sum(weights) for weight in weights]
    return dict(zip(tested, adjusted, strict=True)), dict(zip(tested, shares, strict=True))


def _verdict(rule: TestedRule, adjusted: float | None, alpha: float, share: float) -> RuleVerdict:
    if isinstance(rule, FloorRule):
        return _floor_verdict(rule, adjusted, alpha)
    comparison, margin, design = rule.comparison, rule.margin, _design(rule)
    chance = low = user_margin = None
    if isinstance(rule, MarginRule):
        chance, low, user_margin = rule.chance, rule.baseline_low, rule.user_margin
    above_chance = chance is None or (low is not None and low > chance)
    outcome = _outcome(rule, adjusted, alpha, above_chance=above_chance)
    needed = between = passable = None
    if outcome == "INCONCLUSIVE" and margin is not None and above_chance:
        passable, needed, between = _passable(comparison, margin)
    return RuleVerdict(
        name=rule.name,
        kind="margin" if isinstance(rule, MarginRule) else "guard",
        outcome=outcome,
        better=rule.better,
        unit=design.unit if design is not None else "unit",
        units=design.units if design is not None and outcome == "NOT GATED" else comparison.units,
        groups=design.groups if design is not None else comparison.groups,
        df=comparison.df if design is None or _has_bounds(design) else design.df,
        value=comparison.new,
        low=comparison.low,
        high=comparison.high,
        p=comparison.worse,
        adjusted=None if comparison.worse is None else adjusted,
        alpha=alpha,
        discordant=comparison.discordant_groups,
        unchanged=rule.unchanged,
        margin=margin,
        user_margin=user_margin,
        baseline=comparison.baseline,
        baseline_low=low,
        chance=chance,
        needed=needed,
        between=between,
        passable=passable,
        detectable=None if outcome == "NOT GATED" else _detectable(comparison, share),
        holds_to=_holds_to(rule, outcome),
    )


def _detectable(comparison: Comparison, share: float) -> float | None:
    """Return the smallest loss that the comparison shows in nearly all runs; None if it has no bounds."""
    if comparison.worse is None or comparison.df is None or comparison.se is None or not comparison.units:
        return None
    return smallest_loss(comparison.se, comparison.df, comparison.units, comparison.deff, share)


def _holds_to(rule: MarginRule | SliceGuard, outcome: RuleOutcome) -> float | None:
    """Return the largest correlation of flips at which a PASS by a margin holds; None for other verdicts."""
    if outcome != "PASS" or rule.margin is None or rule.unchanged:
        return None
    return largest_icc(rule.comparison, rule.margin)


def _passable(comparison: Comparison, margin: float) -> tuple[float | None, int | None, tuple[int, int] | None]:
    """Return the smallest margin that these units would pass, the units that would pass `margin`, and their range.

    The number of units is proportional to the share of units that flip, which the data know only within the bounds of
    `_flipping`. If none flipped, it is the number that passes if none flips again. None: unknown.
    """
    if comparison.detectable is None:
        return None, None, None
    quantiles, units = NORMAL.inv_cdf(comparison.level) + NORMAL.inv_cdf(POWER), comparison.units
    if comparison.discordant_groups == 0 and comparison.low:
        # If none of n* units flipped, Tango's bound is z^2 / (n* + z^2).
        odds = -1 / comparison.low - 1
        needed = ceil(units * (1 / margin - 1) / odds)
        trials = NORMAL.inv_cdf(comparison.level) ** 2 * odds
        most = ceil(units / trials * _flipping(0.0, trials)[1] * (quantiles / margin) ** 2)
        return -comparison.low, needed, (needed, max(needed, most))
    needed = ceil(units * (comparison.detectable / margin) ** 2)
    flipped = (comparison.gained + comparison.lost) / units
    if not flipped:
        # Only units that one run leaves out differ.
        return comparison.detectable, needed, None
    low, high = _flipping(flipped, units / max(comparison.deff or 1.0, 1.0))
    return comparison.detectable, needed, (ceil(needed * low / flipped), ceil(needed * high / flipped))


def _flipping(share: float, trials: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of 80 % for the share of units that flip."""
    low, high = clopper_pearson(share * trials, trials, 0.9)
    return float(low), float(high)


def _outcome(rule: MarginRule | SliceGuard, adjusted: float | None, alpha: float, *, above_chance: bool) -> RuleOutcome:
    comparison, margin = rule.comparison, rule.margin
    if not _eligible(rule):
        return "NOT GATED"
    if rule.unchanged:
        return "PASS"
    if margin is not None and comparison.low is not None and comparison.low > -margin and above_chance:
        return "PASS"
    if (
        comparison.worse is not None
        and adjusted is not None
        and adjusted <= alpha
        and comparison.discordant_groups >= LEAST_DISCORDANT
    ):
        return "FAIL"
    # A guard without a test is inconclusive.
    return "PASS" if isinstance(rule, SliceGuard) and comparison.worse is not None else "INCONCLUSIVE"


def _floor_verdict(rule: FloorRule, adjusted: float | None, alpha: float) -> RuleVerdict:
    outcome = _floor_outcome(rule, adjusted, alpha)
    inner, design = rule.high if rule.at_most else rule.low, rule.design
    needed = None
    if outcome == "INCONCLUSIVE" and not rule.point and inner is not None and rule.value not in (None, rule.limit):
        needed = _units_for_floor(rule, inner)
    return RuleVerdict(
        name=rule.name,
        kind="point" if rule.point else "floor",
        outcome=outcome,
        unit=design.unit if design is not None else "unit",
        units=None if design is None else design.units,
        df=None if design is None else design.df,
        value=rule.value,
        low=rule.low,
        high=rule.high,
        p=rule.p,
        adjusted=None if rule.p is None else adjusted,
        alpha=alpha,
        limit=rule.limit,
        at_most=rule.at_most,
        needed=needed,
    )


def _floor_outcome(rule: FloorRule, adjusted: float | None, alpha: float) -> RuleOutcome:
    if rule.value is None:
        return "INCONCLUSIVE"
    if rule.point:
        return "PASS" if (rule.value <= rule.limit if rule.at_most else rule.value >= rule.limit) else "FAIL"
    inner, outer = (rule.high, rule.low) if rule.at_most else (rule.low, rule.high)
    if inner is None or outer is None:
        return "INCONCLUSIVE"
    if inner <= rule.limit if rule.at_most else inner >= rule.limit:
        return "PASS"
    beyond = outer > rule.limit if rule.at_most else outer < rule.limit
    return "FAIL" if beyond and adjusted is not None and adjusted <= alpha else "INCONCLUSIVE"


def _units_for_floor(rule: FloorRule, inner: float) -> int | None:
    """Return the units that bring a bound past the limit with power `POWER`, if the estimate is the true value."""
    if rule.design is None or rule.value is None:
        return None
    quantile = NORMAL.inv_cdf(rule.level)
    # The bound is `quantile` standard errors from the estimate; power adds its own quantile.
    reach = abs(rule.value - inner) * (quantile + NORMAL.inv_cdf(POWER)) / quantile
    return ceil(rule.design.units * (reach / abs(rule.value - rule.limit)) ** 2)


def _check_margin(name: str, margin: float) -> None:
    if not margin > 0:
        raise ValueError(f"rule '{name}': the margin must be above 0, not {margin}")
