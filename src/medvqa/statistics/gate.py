"""The gate: rules about a new run -> PASS, FAIL or INCONCLUSIVE.

A wrong PASS and a wrong FAIL each have at most the probability 1 - level, 5 % divided by the number of looks. PASS
needs no correction for many rules, as all must pass (Berger 1982, Technometrics 24:295). The tests behind FAIL share
one weighted Holm procedure: half of the weight goes to headline rules and floors, half to slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from medvqa.statistics.clustered import Estimates
from medvqa.statistics.intervals import LEAST_DISCORDANT, bounds, mirrored, p_below
from medvqa.statistics.multiplicity import holm
from medvqa.statistics.paired import Comparison

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "NOT GATED"]
Better = Literal["higher", "lower"]

LEVEL = 0.95
LEAST_UNITS, LEAST_GROUPS = 30, 10
"""Of a slice that is gated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginRule:
    """The new run must not be worse than the baseline by `margin` (a fraction above 0).

    `chance` is what guessing gives, None where nothing says; `baseline_low` is the baseline's own lower bound, which
    must be above it, since a model that guesses cannot get worse. `unchanged`: the responses are identical on every
    unit. `of_slice`: of one slice of the benchmark, gated if it is large enough. Where less of a measure is `better`,
    all numbers are those of 1 minus it, and the verdict's sentence speaks of the measure.
    """

    name: str
    comparison: Comparison
    margin: float
    chance: float | None = None
    baseline_low: float | None = None
    unchanged: bool = False
    of_slice: bool = False
    better: Better = "higher"

    def __post_init__(self) -> None:
        """Raise ValueError for a margin of 0 or less."""
        _check_margin(self.name, self.margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceGuard:
    """A slice must not be shown to be worse. With a `margin`, a loss that is shown to stay within it does not fail.

    `better` as for `MarginRule`.
    """

    name: str
    comparison: Comparison
    margin: float | None = None
    unchanged: bool = False
    better: Better = "higher"

    def __post_init__(self) -> None:
        """Raise ValueError for a margin of 0 or less."""
        if self.margin is not None:
            _check_margin(self.name, self.margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorRule:
    """A measure of the new run must be at least `limit`, or with `at_most` at most.

    `low` and `high` are one-sided bounds of that `level`, `p` is the p-value of a measure beyond the limit: `floor`
    makes them. `point`: the estimate alone decides.
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


Rule = MarginRule | SliceGuard | FloorRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a rule, and why in a line. `p` before and `adjusted` after Holm, None where not tested.

    Where INCONCLUSIVE: `needed` is the number of units with which the margin would pass with 80 % power at no change,
    given the standard error that was seen, `units` how many there are, and `passable` the margin that these would pass;
    None where the baseline is not above chance, as no number of units is enough then.
    """

    name: str
    outcome: Outcome
    why: str
    p: float | None = None
    adjusted: float | None = None
    needed: int | None = None
    units: int | None = None
    passable: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict over all rules: FAIL if one fails, PASS if all that are gated pass, else INCONCLUSIVE."""

    outcome: Outcome
    verdicts: tuple[Verdict, ...]
    level: float


def level_of(looks: int = 1) -> float:
    """The one-sided level of every bound when the gate is asked up to `looks` times: 5 % is divided (Bonferroni)."""
    if looks < 1:
        raise ValueError(f"the number of looks must be at least 1, not {looks}")
    return 1 - (1 - LEVEL) / looks


def floor(
    name: str,
    found: Estimates,
    limit: float,
    *,
    binary: bool,
    place: int = 0,
    at_most: bool = False,
    point: bool = False,
    level: float = LEVEL,
) -> FloorRule:
    """The rule that measure number `place` of `found` is at least (or at most) `limit`."""
    low, high = bounds(found, binary=binary, level=level)
    p = p_below(mirrored(found), 1 - limit, binary=binary) if at_most else p_below(found, limit, binary=binary)
    value, low_, high_, p_ = (_number(each[place]) for each in (found.value, low, high, p))
    return FloorRule(
        name=name, limit=limit, value=value, low=low_, high=high_, p=p_, level=level, at_most=at_most, point=point
    )


def decide(rules: Sequence[Rule], *, looks: int = 1) -> Decision:
    """Apply the rules. Raises ValueError where bounds were computed at another level than that of `looks`."""
    level = level_of(looks)
    for rule in rules:
        found = rule.level if isinstance(rule, FloorRule) else rule.comparison.level
        if abs(found - level) > 1e-12:
            raise ValueError(f"rule '{rule.name}' has bounds of level {found:g}; {looks} looks need {level:g}")
    adjusted = _adjusted(rules)
    verdicts = tuple(_verdict(rule, adjusted.get(i), 1 - level) for i, rule in enumerate(rules))
    outcomes = [verdict.outcome for verdict in verdicts if verdict.outcome != "NOT GATED"]
    overall: Outcome = "INCONCLUSIVE"
    if "FAIL" in outcomes:
        overall = "FAIL"
    elif outcomes and all(outcome == "PASS" for outcome in outcomes):
        overall = "PASS"
    return Decision(overall, verdicts, level)


def _of_slice(rule: Rule) -> bool:
    return isinstance(rule, SliceGuard) or (isinstance(rule, MarginRule) and rule.of_slice)


def _eligible(rule: Rule) -> bool:
    """By size alone: what the runs say must not choose the family of tests."""
    if isinstance(rule, FloorRule) or not _of_slice(rule):
        return True
    return rule.comparison.units >= LEAST_UNITS and rule.comparison.groups >= LEAST_GROUPS


def _p(rule: Rule) -> float | None:
    return rule.p if isinstance(rule, FloorRule) else rule.comparison.worse


def _adjusted(rules: Sequence[Rule]) -> dict[int, float]:
    """Holm's adjusted p-value of each rule that is tested, by its place; one without p keeps its weight."""
    tested = [i for i, rule in enumerate(rules) if _eligible(rule) and not (isinstance(rule, FloorRule) and rule.point)]
    if not tested:
        return {}
    families = [_of_slice(rules[i]) for i in tested]
    ps = [_p(rules[i]) for i in tested]
    weights = [1 / families.count(family) for family in families]
    found = holm([1.0 if p is None else p for p in ps], weights)
    return dict(zip(tested, found.tolist(), strict=True))


def _verdict(rule: Rule, adjusted: float | None, alpha: float) -> Verdict:
    if isinstance(rule, FloorRule):
        return _floor_verdict(rule, adjusted, alpha)
    seen, margin = rule.comparison, rule.margin
    if not _eligible(rule):
        why = f"{seen.units} units in {seen.groups} groups; {LEAST_UNITS} in {LEAST_GROUPS} are needed"
        return Verdict(name=rule.name, outcome="NOT GATED", why=why, units=seen.units)
    p = seen.worse
    above_chance, chance = True, ""
    if isinstance(rule, MarginRule) and rule.chance is not None:
        above_chance = rule.baseline_low is not None and rule.baseline_low > rule.chance
        chance = _at_chance(rule.baseline_low, rule.chance, rule.better)
    bound = _points(seen.low if seen.low is None or rule.better == "higher" else 0.0 - seen.low, sign=True)

    def verdict(outcome: Outcome, why: str) -> Verdict:
        needed = passable = None
        if outcome == "INCONCLUSIVE" and margin is not None and seen.detectable is not None and above_chance:
            passable, needed = seen.detectable, ceil(seen.units * (seen.detectable / margin) ** 2)
        units = seen.units if outcome == "INCONCLUSIVE" else None
        return Verdict(
            name=rule.name,
            outcome=outcome,
            why=why,
            p=p,
            adjusted=None if p is None else adjusted,
            needed=needed,
            units=units,
            passable=passable,
        )

    if rule.unchanged:
        return verdict("PASS", "unchanged: the responses are identical on every unit")
    within = margin is not None and seen.low is not None and seen.low > -margin
    if within and above_chance:
        return verdict("PASS", f"the loss is within {_points(margin)} points: the bound is {bound}")
    if p is not None and adjusted is not None and adjusted <= alpha and seen.discordant_groups >= LEAST_DISCORDANT:
        beyond = margin is not None and seen.high is not None and seen.high < -margin
        return verdict(
            "FAIL",
            f"worse by {_points(-(seen.difference or 0.0))} points (adjusted p {adjusted:.2g})"
            + (", beyond the margin" if beyond else ""),
        )
    if isinstance(rule, SliceGuard):
        return verdict("PASS", "not shown to be worse")
    if seen.low is None:
        return verdict("INCONCLUSIVE", "too few groups for a bound")
    if within:
        return verdict("INCONCLUSIVE", chance)
    return verdict(
        "INCONCLUSIVE",
        f"the loss may exceed {_points(margin)} points: the bound is {bound}"
        + ("" if above_chance else f", and {chance}"),
    )


def _at_chance(low: float | None, chance: float, better: Better) -> str:
    side, beyond, bound = "a lower", "above", low
    if better == "lower":
        side, beyond, bound, chance = "an upper", "below", None if low is None else 1 - low, 1 - chance
    own = f"no {side.split()[1]} bound" if bound is None else f"{side} bound of {_percent(bound)} %"
    return f"the baseline has {own}, not {beyond} chance ({_percent(chance)} %): one {beyond} chance is needed"


def _floor_verdict(rule: FloorRule, adjusted: float | None, alpha: float) -> Verdict:
    def verdict(outcome: Outcome, why: str) -> Verdict:
        return Verdict(
            name=rule.name, outcome=outcome, why=why, p=rule.p, adjusted=None if rule.p is None else adjusted
        )

    sign = "<=" if rule.at_most else ">="
    limit = f"{sign} {_percent(rule.limit)} %"
    if rule.value is None:
        return verdict("INCONCLUSIVE", f"undefined, and {limit} is asked")
    if rule.point:
        met = rule.value <= rule.limit if rule.at_most else rule.value >= rule.limit
        return verdict("PASS" if met else "FAIL", f"{_percent(rule.value)} %, and {limit} is asked")
    inner, outer = (rule.high, rule.low) if rule.at_most else (rule.low, rule.high)
    if inner is None or outer is None:
        return verdict("INCONCLUSIVE", "too few groups for a bound")
    why = f"{_percent(rule.value)} %, bounds {_percent(rule.low)} and {_percent(rule.high)} %, and {limit} is asked"
    if inner <= rule.limit if rule.at_most else inner >= rule.limit:
        return verdict("PASS", why)
    beyond = outer > rule.limit if rule.at_most else outer < rule.limit
    return verdict("FAIL" if beyond and adjusted is not None and adjusted <= alpha else "INCONCLUSIVE", why)


def _check_margin(name: str, margin: float) -> None:
    if not margin > 0:
        raise ValueError(f"rule '{name}': the margin must be above 0, not {margin}")


def _points(value: float | None, *, sign: bool = False) -> str:
    return "" if value is None else f"{100 * value:{'+' if sign else ''}.2f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def _number(value: float) -> float | None:
    return None if value != value else float(value)
