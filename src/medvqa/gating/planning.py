"""What a gate can show, before anything is asked: the chance of PASS for a number of units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medvqa import statistics
from medvqa.items import Benchmark, Item, UsageError

DISCORDANCE = 0.15
"""Share of units that flip either way between two runs of much the same model, where nobody says."""
SIZES = (176, 1500, 26_000)
"""Units that are shown where nobody names a benchmark: about those of MediConfusion, and of the two others."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """The chance of PASS at no change and at a loss of the margin, what passes in 80 %, and what the margin takes.

    Fractions; `units` and `needed` are numbers of units.
    """

    name: str
    units: int
    unchanged: float
    at_margin: float
    passable: float
    needed: int


def prospects(
    sizes: Sequence[tuple[str, int]],
    *,
    margin: float,
    discordance: float = DISCORDANCE,
    deff: float = 1.0,
    looks: int = 1,
) -> list[Prospect]:
    """What a margin (a fraction) promises for each number of units. UsageError for values out of range."""
    level = statistics.level_of(looks) if looks >= 1 else 0.0
    if not 0 < margin <= 1:
        raise UsageError(f"--margin={100 * margin:g}: points, more than 0 and at most 100")
    if not margin <= discordance <= 1:
        raise UsageError(
            f"--discordance={100 * discordance:g}: percent of units that flip either way, from the margin "
            f"({100 * margin:g}) to 100"
        )
    if not deff >= 1:
        raise UsageError(f"--deff={deff:g}: how many times the variance is that of independent units, at least 1")
    if looks < 1:
        raise UsageError(f"--looks={looks}: how often the gate is asked, at least 1")
    found = []
    for name, units in sizes:
        if units < 1:
            raise UsageError(f"--units={units}: at least 1")
        found.append(
            Prospect(
                name,
                units,
                statistics.chance_of_pass(units, discordance, margin, deff, level=level),
                statistics.chance_of_pass(units, discordance, margin, deff, loss=margin, level=level),
                statistics.passable_margin(units, discordance, deff, level=level),
                statistics.units_needed(margin, discordance, deff, level=level),
            )
        )
    return found


def units_of(benchmark: Benchmark, items: Iterable[Item]) -> int:
    """How many units the benchmark's first headline measure has among these items: a pair counts once."""
    kinds = next((metric.kinds for metric in benchmark.metrics if metric.name == benchmark.headline[0]), None)
    counted = [item for item in items if kinds is None or item.kind in kinds]
    return len({("pair", i.pair_id) if i.pair_id is not None else ("item", i.id) for i in counted})
