"""Groups of questions that are not independent, and the difference that their number can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from medvqa.benchmarks.table import TableQuestion
from medvqa.statistics import planning
from medvqa.statistics.intervals import LEAST_DF
from medvqa.tags.selection import components

DISCORDANCE = 0.2
"""Assumed share of questions that one of two models answers rightly and the other wrongly."""
LEVEL = 0.975
"""The level of either end of a 95 % interval."""
TARGET = 0.05
"""The difference whose number of questions is named."""
FEW_GROUPS = 10
"""Groups below which intervals are very wide or missing."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of the intervals: questions that share a patient, case, cluster or image, also through others.

    `effective` is (sum of sizes)^2 / sum of squared sizes: as many groups of equal size are worth as much. `together`
    is the design effect if all questions of a group are answered alike.
    """

    questions: int
    patients: int
    images: int
    groups: int
    largest: int
    effective: float
    together: float


@dataclass(frozen=True, slots=True)
class Power:
    """The difference between two models (a fraction) that is shown with 80 % power, and the questions for `TARGET`.

    The first of two figures is for independent questions, the second for groups that are answered alike. A difference
    is None if none is shown: none is larger than the share of questions in which the models differ.
    """

    difference: tuple[float | None, float | None]
    needed: tuple[int, int]
    discordance: float = DISCORDANCE


def grouped(cases: Sequence[TableQuestion]) -> list[int]:
    """Return the number of each question's group."""
    links = []
    for i, case in enumerate(cases):
        pair = [f"pair {case.item.pair_id}"] if case.item.pair_id else []
        links.append([f"row {i}", *case.links, *pair])
    joined = components(links)
    numbers: dict[str, int] = {}
    return [numbers.setdefault(joined[f"row {i}"], len(numbers)) for i in range(len(cases))]


def groups_of(cases: Sequence[TableQuestion], numbers: Sequence[int]) -> Groups:
    """Return the sizes of the groups."""
    sizes = list(Counter(numbers).values())
    total, squares = sum(sizes), sum(size**2 for size in sizes)
    return Groups(
        questions=total,
        patients=len({case.item.extra["patient"] for case in cases if "patient" in case.item.extra}),
        images=len({image.digest or image.file for case in cases for image in case.item.images}),
        groups=len(sizes),
        largest=max(sizes, default=0),
        effective=total**2 / squares if squares else 0.0,
        together=squares / total if total else 1.0,
    )


def power_of(groups: Groups) -> Power | None:
    """Return the detectable difference; None without questions."""
    if not groups.questions:
        return None
    together = max(groups.together, 1.0)
    ends, df = (1.0, together), groups.effective - 1
    needed = [planning.units_needed(TARGET, DISCORDANCE, deff, size=together, level=LEVEL) for deff in ends]
    return Power((_shown(groups.questions, ends[0], df), _shown(groups.questions, ends[1], df)), (needed[0], needed[1]))


def _shown(questions: int, deff: float, df: float) -> float | None:
    if df < LEAST_DF:
        return None
    found = planning.passable_margin(questions, DISCORDANCE, deff, df=df, level=LEVEL)
    return found if found <= DISCORDANCE else None
