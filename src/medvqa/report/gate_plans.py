"""The chance of PASS before there is a run, and the gate's decisions on worse copies of a baseline, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from medvqa import printing
from medvqa.comparing.gating import Tried
from medvqa.comparing.gating.planning import Guarded, Planned, Prospect
from medvqa.figures import Column, Table, freedom, number, numbers, terminal
from medvqa.statistics import Simulated

MEASURED = "ranges with a correlation: the first figure is at the upper end of its interval, the second at its estimate"
SHOWN = 8
"""Slices that a line names."""


def tried(rules: Sequence[Tried]) -> str:
    """Return the rules' decisions on worse copies as a table, with the rules that do not do their work below it."""
    counted = ("FAIL", "INCONCLUSIVE", "PASS")
    columns = (*(Column("rule"), *numbers("copies worse by", *counted, "exit code 0", "FAILs a loss of", "at worst")),)
    rows, lines, guards = [], [], []
    for row in rules:
        if row.ruling.kind == "slice guard" and row.can_fail:
            guards.append(" ".join(*row.ruling.slice.items()))
        elif row.ruling.kind != "slice guard":
            counts: list[int | None] = [None] * 4
            if row.outcomes is not None:
                counts = [*(row.outcomes.get(name, 0) for name in counted), row.passed]
            losses = ["" if loss is None else f"{100 * loss:.3g} points" for loss in (row.worse_by, row.fails_from)]
            worst = "FAIL" if row.can_fail else row.ruling.outcome
            rows.append((row.ruling.rule, losses[0], *counts, losses[1], worst))
        if not row.can_fail:
            lines.append(f"cannot FAIL: {row.ruling.rule}: {row.ruling.why}")
        if row.passed and row.outcomes is not None:
            lines.append(
                f"lets pass what it should stop: {row.ruling.rule}: exit code 0 on {row.passed} of "
                f"{sum(row.outcomes.values())} copies that are worse by its margin"
            )
    if guards:
        lines.insert(0, f"FAILs if all answers of the slice are wrong: {printing.some(guards, SHOWN)}")
    return "\n".join([terminal(Table("", columns, tuple(rows))), *lines])


def planned(prospects: Sequence[Prospect], guards: Sequence[Guarded], between: str = "") -> str:
    """Return the plan as tables: rules with a margin, the chance levels of their baselines, and guards.

    `between`: the names of the runs whose flips tell design effects.
    """
    margins = {prospect.planned.margin for prospect in prospects}
    same = len(margins) == 1
    loss = f"{100 * (next(iter(margins)) or 0):g}" if same else "it"
    designed = ("units", "groups", "df")
    columns = (
        *(Column(""), *numbers(*designed, *([] if same else ["margin"]))),
        *numbers("PASS at no change", f"PASS at a loss of {loss}", "80 % pass a margin of", "80 % need"),
    )
    cells = []
    for row in prospects:
        first = [*_design(row.planned), *([] if same else [f"{100 * (row.planned.margin or 0):g}"])]
        if row.chances is None or row.passable is None or row.needed is None:
            cells.append((*first, row.planned.why_not, "", "", ""))
            continue
        unchanged, at_margin = row.chances
        cells.append(
            (
                *first,
                _range(unchanged, "%"),
                _range(at_margin, "%"),
                "none" if min(row.passable) > 1 else _losses(row.passable),
                _span([f"{units:,.0f}" for units in row.needed], f"{row.planned.design.unit}s"),
            )
        )
    blocks = [terminal(Table("", columns, tuple(cells)))]
    chances = [_chance(row.planned) for row in prospects if row.planned.chance is not None]
    if chances:
        blocks.append("\n".join(chances) + "\n")
    if guards:
        shown = tuple(
            (
                *_design(row.planned),
                row.planned.why_not if row.smallest is None else _losses(row.smallest),
            )
            for row in guards
        )
        names = (Column("guarded slice"), *numbers(*designed, "shows a true loss of, in 80 % of runs"))
        blocks.append(terminal(Table("", names, shown)))
    plans = [*(row.planned for row in prospects), *(row.planned for row in guards)]
    if between:
        lines = [_flips(row.planned, between) for row in prospects if row.planned.flips is not None]
        known = any(row.planned.flips is not None and row.planned.flips.icc is not None for row in prospects)
        blocks.append("\n".join([*lines, *[MEASURED] * known]) + "\n")
    if any(planned.design.together > 1 and planned.deffs[0] == planned.design.together for planned in plans):
        elsewhere = "other ranges" if between else "ranges"
        blocks.append(
            f"{elsewhere}: the first figure is for groups whose units flip together, the second for independent units\n"
        )
    runs = [end for row in prospects for ends in (row.unchanged, row.at_margin) for end in ends or ()]
    if runs:
        blocks.append(_errors(runs))
    return "\n".join(blocks).removesuffix("\n")


def _flips(planned: Planned, between: str) -> str:
    """Say the design effect of a rule, and the flips that tell it."""
    found, unit = planned.flips, planned.design.unit
    if found is None or found.icc is None or found.low is None or found.high is None:
        what = "" if found is None else f" ({found.flips:,} of {found.units:,} {unit}s in {found.groups:,} groups)"
        return f"{planned.name}: the flips between {between} tell no correlation within groups{what}"
    most, deff = (f"{value:.2g}" for value in planned.deffs)
    return (
        f"{planned.name}: design effect {deff}, at most {most}, from the flips between {between}: {found.flips:,} of "
        f"{found.units:,} {unit}s (--discordance={_tenths(found.flips / found.units)}), correlation "
        f"{found.icc:.2f} in {found.groups:,} groups, 95 % interval {found.low:.2f} to {found.high:.2f}"
    )


def _errors(simulated: Sequence[Simulated]) -> str:
    """Say how often the gate was simulated, and how exact its chances of PASS are."""
    least, most = min(each.runs for each in simulated), max(each.runs for each in simulated)
    runs = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    error = max(each.error for each in simulated)
    return (
        f"chances of PASS: the gate itself, simulated {runs} times for each figure; two standard errors are at most "
        + (f"{_tenths(error)} points\n")
    )


def _design(planned: Planned) -> tuple[str | int, ...]:
    design = planned.design
    df = "" if design.df is None or not isfinite(design.df) else freedom(design.df)
    return planned.name, design.units, design.groups, df


def _losses(values: tuple[float, float]) -> str:
    """Describe the losses that a guard would show. No loss exceeds 100 points: beyond that, it would show none."""
    if min(values) > 1:
        return "no loss"
    return f"over 100 to {_tenths(values[1])} points" if values[0] > 1 else _range(values, "points")


def _range(values: tuple[float, float], unit: str) -> str:
    return _span([_tenths(value) for value in values], unit)


def _span(texts: Sequence[str], unit: str) -> str:
    """Return a figure, or two if they differ as printed, with the unit once."""
    return f"{' to '.join(dict.fromkeys(texts))} {unit}"


def _tenths(fraction: float) -> str:
    return number(fraction, digits=1)


def _chance(planned: Planned) -> str:
    side, end, chance, bound = "above", "a lower", planned.chance or 0.0, planned.baseline_low
    if planned.better == "lower":
        side, end, chance, bound = "below", "an upper", 1 - chance, None if bound is None else 1 - bound
    if not planned.known:
        return f"{planned.name}: PASS needs a baseline that is shown to be {side} chance: {_tenths(chance)} %"
    own = f"no {end.split()[1]} bound" if bound is None else f"{end} bound of {_tenths(bound)} %"
    shown = side if planned.above_chance else f"not shown to be {side}"
    return f"{planned.name}: {shown} chance: {_tenths(chance)} %, with {own}"
