"""The verdict of the gate with each rule, its numbers and its reason."""

from __future__ import annotations

from medvqa.comparing.gating import Decided, Ruling
from medvqa.figures import chance, number, typeset
from medvqa.report import gate
from medvqa.report.bundle.shape import Shape


class RuleNumber(Shape, frozen=True):
    """A number of a rule: its field in metrics.json, its value and its text."""

    field: str
    value: float
    shown: str


class RuleView(Shape, frozen=True):
    """A rule of the gate."""

    rule: str
    """The rule's name in metrics.json."""
    name: str
    """The name, marked if less of its measure is better."""
    outcome: str
    why: str
    numbers: list[RuleNumber]
    is_floor: bool
    """Whether the bounds are those of the value, not of a difference."""
    line: float | None
    """The margin on an axis of differences, on the side of losses."""


class GateView(Shape, frozen=True):
    """The verdict of the gate."""

    outcome: str
    """PASS, FAIL, INCONCLUSIVE, or "" if no verdict could be given."""
    headline: str
    """Baselines, and the compared part if not all."""
    level: str
    """The level of each one-sided bound in percent."""
    reach: float
    """The end of the axis of differences, the same to both sides of 0."""
    blockers: list[str]
    remarks: list[str]
    listed: list[RuleView]
    """The rules that decide, the worst first."""
    passed: list[RuleView]
    """The guarded slices that pass."""
    small: list[RuleView]
    """The slices that are not gated."""
    flips: str
    moved: list[str]
    """Lines about slices and units that moved, exploratory."""


def gate_of(decided: Decided | None) -> GateView | None:
    """The verdict; None without a gate."""
    if decided is None:
        return None
    verdict = decided.verdict
    word = verdict.outcome or "no verdict"
    moved = [
        f"Largest {what} by slice, in points: {gate.moved(slices)}."
        for what, slices in (("losses", verdict.worst), ("gains", verdict.best))
        if slices
    ]
    moved += [f"{'gained' if each.better else 'lost'}: {gate.flip(each)}" for each in verdict.flips]
    return GateView(
        verdict.outcome or "",
        gate.headline(decided, exits=False).removeprefix(word).strip(),
        f"{100 * verdict.level:g}",
        gate.reach(verdict),
        list(verdict.blockers),
        gate.remarks(decided),
        list(map(_rule, gate.listed(verdict))),
        list(map(_rule, gate.passed(verdict))),
        list(map(_rule, gate.small(verdict))),
        gate.flips(verdict),
        moved,
    )


def _rule(entry: Ruling) -> RuleView:
    is_floor = entry.limit is not None
    texts = {
        "value": number(entry.value),
        "baseline_value": number(entry.baseline_value),
        "difference": typeset(number(entry.difference, sign=True)),
        "low": typeset(number(entry.low, sign=not is_floor)),
        "high": typeset(number(entry.high, sign=not is_floor)),
        "limit": number(entry.limit),
        "detectable": number(entry.detectable, digits=1),
        "gained": f"{entry.gained:,}" if entry.gained is not None else "",
        "lost": f"{entry.lost:,}" if entry.lost is not None else "",
        "units": f"{entry.units:,}" if entry.units is not None else "",
        "adjusted": chance(entry.adjusted),
    }
    numbers = [
        RuleNumber(field, value, shown)
        for field, shown in texts.items()
        if (value := getattr(entry, field)) is not None
    ]
    return RuleView(entry.rule, gate.name(entry), entry.outcome, entry.why, numbers, is_floor, gate.line(entry))
