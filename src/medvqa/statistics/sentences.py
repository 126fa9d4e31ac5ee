"""Explain the outcome of a gate's rule in one sentence, for the terminal, all files and the page.

Losses, gains and margins are in percentage points, values in %. A loss is a change for the worse; it is called a rise
if lower values are better. A range has enough decimals to distinguish its ends from each other, from 0 and from the
margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Literal

from medvqa.figures import apart, counted, freedom, number
from medvqa.figures import chance as p_value
from medvqa.statistics.intervals import LEAST_DF, LEAST_DISCORDANT
from medvqa.statistics.planning import POWER

RuleOutcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "NOT GATED"]
Better = Literal["higher", "lower"]

LEAST_UNITS, LEAST_GROUPS = 30, 10
"""Size of the smallest slice that is gated."""
NOTHING_ASKED = "none of its questions was asked"
"""For a measure or slice without any question in the run."""
NOTHING_COUNTS = "undefined in both runs: none of its answers counts"
"""For a guarded slice if the measure leaves out all of its answers in both runs."""
OFTEN = f"in {100 * POWER:g} % of runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict:
    """A rule with its figures, as fractions, and its outcome; None if it has no such figure. `why` says it in a line.

    `kind`: "floor" and "point" have a `limit`, "margin" and "guard" compare two runs. `low` and `high` bound the
    difference, new minus baseline; for a floor, its `value`. `p` before and `adjusted` after Holm, None if not tested.
    If `better` is "lower", differences, `value`, `baseline`, `baseline_low` and `chance` are those of 1 minus the
    measure; the sentence converts them back. `margin` is the margin applied; `user_margin` is set if a judge's
    reliability reduced it. `unit` is the unit's name: question, pair or unit. `discordant`: the groups that changed.

    If INCONCLUSIVE, `needed` units would decide the rule with power `POWER` at the observed standard error. For a
    margin that assumes no true change (if nothing flipped: that nothing flips again), for a floor that the estimate is
    the true value. `between`: the range of `needed`, by how often units flip. `passable`: the margin that these units
    would pass. All are None if the baseline is not above chance: no number of units is enough then. `detectable`: the
    true loss that would have been shown with that power, at the rule's share of the error and with at least 5 changed
    groups. `holds_to`: of a PASS by a margin, the largest correlation of flips within groups at which it holds, 1 for
    any (`largest_icc`).
    """

    name: str = ""
    kind: Literal["margin", "guard", "floor", "point"]
    outcome: RuleOutcome
    better: Better = "higher"
    unit: str = "unit"
    units: int | None = None
    groups: int | None = None
    df: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    adjusted: float | None = None
    alpha: float = 0.05
    discordant: int = 0
    unchanged: bool = False
    margin: float | None = None
    user_margin: float | None = None
    baseline: float | None = None
    baseline_low: float | None = None
    chance: float | None = None
    needed: int | None = None
    between: tuple[int, int] | None = None
    passable: float | None = None
    detectable: float | None = None
    holds_to: float | None = None
    limit: float = 0.0
    at_most: bool = False

    @property
    def why(self) -> str:
        """The observation, its meaning for the rule, and the units that would decide an open rule."""
        return _sentence(self)


def _sentence(facts: RuleVerdict) -> str:
    if facts.outcome == "NOT GATED":
        return _shortfall(facts)
    if facts.kind in ("floor", "point"):
        return _of_floor(facts)
    if facts.unchanged:
        return "no change: every response is the same as the baseline's"
    if facts.value is None or facts.baseline is None:
        return f"undefined in {'this run' if facts.value is None else 'the baseline'}: no {facts.unit} counts there"
    if facts.low is None or facts.high is None:
        return f"no bounds: {_freedom(facts.df)}"
    if facts.kind == "guard" and facts.outcome == "PASS" and not _within(facts):
        return _of_guard(facts)
    return _change(facts) if facts.margin is None else _of_margin(facts)


def _shortfall(facts: RuleVerdict) -> str:
    units, groups = facts.units or 0, facts.groups or 0
    if units < LEAST_UNITS or groups < LEAST_GROUPS:
        have = f"{_units(facts, units)} in {counted(groups, 'groups')}"
        return f"{have}; {LEAST_UNITS} in {LEAST_GROUPS} are needed"
    return _freedom(facts.df)


def _freedom(df: float | None) -> str:
    have = "no" if df is None else freedom(df)
    return f"{have} degrees of freedom; {LEAST_DF:g} are needed"


def _change(facts: RuleVerdict) -> str:
    """Describe the loss or gain between two runs."""
    low, high = 100 * (facts.low or 0.0), 100 * (facts.high or 0.0)
    loss, gain = _words(facts)
    margin = 100 * (facts.margin or 0.0)
    if high < 0:
        least, most = apart([-high, -low], margin)
        subject = f"a {loss} of {least} to {most} points is"
        if reason := _not_shown(facts):
            return f"{subject} likely, not shown{reason}"
        return f"{subject} shown"
    if low > 0:
        least, most = apart([low, high], margin)
        return f"a {gain} of {least} to {most} points is shown"
    # In terms of the measure itself, even if lower is better.
    ends = [low, high] if facts.better == "higher" else [-high, -low]
    signs = ["+" if end > 0 else "-" if end < 0 else "" for end in ends]
    first, last = (f"{sign}{text}" for sign, text in zip(signs, apart([abs(end) for end in ends], margin), strict=True))
    return f"neither a {loss} nor a {gain} is shown ({first} to {last} points)"


def _not_shown(facts: RuleVerdict) -> str:
    """Return why a loss with both bounds below 0 does not count as shown; "" if it does."""
    if facts.discordant < LEAST_DISCORDANT:
        return f" ({counted(facts.discordant, 'groups')} changed; {LEAST_DISCORDANT} are needed)"
    if facts.adjusted is None or facts.adjusted > facts.alpha:
        p = "" if facts.adjusted is None else f" (adjusted p {p_value(facts.adjusted)})"
        return f" after correction for the other rules{p}"
    return ""


def _of_margin(facts: RuleVerdict) -> str:
    margin, (loss, _) = facts.margin or 0.0, _words(facts)
    named = f"{100 * margin:g}"
    if facts.user_margin is not None and facts.user_margin != margin:
        named += f" ({100 * facts.user_margin:g}, times the judge's reliability)"
    change, low, high = _change(facts), facts.low or 0.0, facts.high or 0.0
    if high < -margin and facts.outcome == "FAIL":
        return f"{change}, all of it more than the margin of {named}"
    too_much = f"{named} or more" if high < 0 else f"a {loss} of {named} points or more"
    text = f"{change}; {too_much} is {'' if low > -margin else 'not '}ruled out"
    if not _above_chance(facts):
        return f"{text}, {'but' if low > -margin else 'and'} {_at_chance(facts)}"
    if facts.outcome == "INCONCLUSIVE":
        return f"{text}{_more(facts)}"
    text += _holds(facts)
    above = None if facts.chance is None or facts.baseline is None else facts.baseline - facts.chance
    if facts.outcome == "PASS" and above is not None and above <= margin:
        text += f" (the baseline is only {number(above, digits=1)} points from chance)"
    return text


def _holds(facts: RuleVerdict) -> str:
    """State the correlation of flips up to which a PASS holds; "" if no units share a group."""
    if facts.outcome != "PASS" or facts.holds_to is None or (facts.groups or 0) >= (facts.units or 0):
        return ""
    if facts.holds_to >= 1:
        return ", at any correlation of the flips of a group"
    # Round down: a larger correlation would be too much.
    return f", up to a correlation of {floor(100 * facts.holds_to) / 100:.2f} of the flips of a group"


def _within(facts: RuleVerdict) -> bool:
    return facts.margin is not None and facts.low is not None and facts.low > -facts.margin


def _above_chance(facts: RuleVerdict) -> bool:
    return facts.chance is None or (facts.baseline_low is not None and facts.baseline_low > facts.chance)


def _at_chance(facts: RuleVerdict) -> str:
    chance, bound = facts.chance or 0.0, facts.baseline_low
    side, end = "above", "a lower"
    if facts.better == "lower":
        side, end, chance, bound = "below", "an upper", 1 - chance, None if bound is None else 1 - bound
    own = f"no {end.split()[1]} bound" if bound is None else f"{end} bound of {number(bound, digits=1)} %"
    return (
        f"the baseline is not shown to be {side} chance ({number(chance, digits=1)} %): it has {own}. Gate against "
        "another baseline"
    )


def _more(facts: RuleVerdict) -> str:
    """State how many units would decide."""
    if facts.needed is None or facts.units is None:
        return ""
    least, most = facts.between or (facts.needed, facts.needed)
    if not facts.discordant:
        more = f", else up to {most:,}" if most > facts.needed else ""
        return (
            f". If again no {facts.unit} changed, about {_units(facts, facts.needed)} would rule it out{more}; "
            f"there are {facts.units:,}"
        )
    if most <= facts.units:
        return f". With no true change, the {_units(facts, facts.units)} here rule it out {OFTEN}"
    range_ = f"{least:,} to {_units(facts, most)}" if most > least else f"about {_units(facts, most)}"
    return f". With no true change, {range_} would rule it out {OFTEN}; there are {facts.units:,}"


def _of_guard(facts: RuleVerdict) -> str:
    """Describe a guard that passes, and the loss that it would have shown."""
    loss, _ = _words(facts)
    text = "not shown to be worse" + (_not_shown(facts) if (facts.high or 0.0) < 0 else "")
    if facts.detectable is None:
        return text
    if facts.detectable > (facts.baseline or 0.0):
        return (
            f"{text}; no {loss} could have been shown: it would take {number(facts.detectable, digits=1)} points, and "
            f"only {number(facts.baseline or 0.0, digits=1)} can be lost"
        )
    return f"{text}; a true {loss} of {number(facts.detectable, digits=1)} points would have been shown {OFTEN}"


def _of_floor(facts: RuleVerdict) -> str:
    limit = f"{100 * facts.limit:g} %"
    required = f"at {'most' if facts.at_most else 'least'} {limit} is required"
    if facts.value is None:
        return f"undefined; {required}"
    if facts.kind == "point":
        return f"{apart([100 * facts.value], 100 * facts.limit)[0]} %; {required}"
    if facts.low is None or facts.high is None:
        return f"no bounds: {_freedom(facts.df)}"
    value, low, high = apart([100 * share for share in (facts.value, facts.low, facts.high)], 100 * facts.limit)
    text = f"{value} % ({low} to {high} %)"
    met, missed = (
        f"{limit} or {'less' if facts.at_most else 'more'}",
        f"{'more' if facts.at_most else 'less'} than {limit}",
    )
    if facts.outcome != "INCONCLUSIVE":
        return f"{text}; {missed if facts.outcome == 'PASS' else met} is ruled out"
    if facts.low > facts.limit if facts.at_most else facts.high < facts.limit:
        return f"{text}; {met} is unlikely, not ruled out{_not_shown_floor(facts)}"
    text += f"; both {met} and {missed} are possible"
    if facts.needed is None or facts.units is None:
        return text
    return (
        f"{text}. If {value} % is the true value, about {_units(facts, facts.needed)} would decide {OFTEN}; "
        f"there are {facts.units:,}"
    )


def _not_shown_floor(facts: RuleVerdict) -> str:
    p = "" if facts.adjusted is None else f" (adjusted p {p_value(facts.adjusted)})"
    return f" after correction for the other rules{p}"


def _words(facts: RuleVerdict) -> tuple[str, str]:
    return ("loss", "gain") if facts.better == "higher" else ("rise", "fall")


def _units(facts: RuleVerdict, number: int) -> str:
    return counted(number, f"{facts.unit}s")
