"""Bets on the sums of groups: laws, and numbers of another implementation."""

import math
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import statistics
from support.laws import examples

SIMULATION = Path(__file__).parents[2] / "bench" / "promises" / "early.py"


def path(sums: Sequence[float], sizes: Sequence[int], margin: float = 0.02, largest: int = 10) -> Any:
    """The wealth of each stake after each group, (groups, stakes)."""
    factors = statistics.log_factors(
        np.array(sums, dtype=float), np.array(sizes, dtype=float), margin=margin, largest=largest
    )
    return np.exp(np.cumsum(factors, axis=0))


SUMS = [-1, 0, -3, 2, -1, 0, -2, -4, 1, -1, -1, 0, -2, 3, -1, -5, 0, -1, -2, -1]
SIZES = [1, 1, 4, 2, 1, 3, 2, 5, 1, 1, 2, 1, 3, 5, 1, 5, 2, 1, 2, 1]
GOLDEN = {
    0.0: [
        [1.08699814, 1.21492224, 1.37234944],
        [1.289322756, 1.8483830847, 3.1061893362],
        [1.7063240415, 3.600349105, 9.7352072831],
    ],
    0.02: [
        [1.0797839371, 1.1953002809, 1.3295168967],
        [1.2681874902, 1.7757555461, 2.8747566698],
        [1.647866506, 3.305299701, 8.1905150817],
    ],
    0.1: [
        [1.05379677, 1.1256260911, 1.1811396869],
        [1.1937115035, 1.5312658167, 2.1512530839],
        [1.4504598352, 2.4105549241, 4.2910000866],
    ],
}
"""By margin, the wealth after 5, 10 and 20 groups, as `betting_mart` of confseq 0.0.11 gives it for constant bets."""


@pytest.mark.parametrize("margin", GOLDEN)
def test_wealth_is_that_of_another_implementation(margin: float) -> None:
    assert path(SUMS, SIZES, margin, 5)[[4, 9, 19]] == pytest.approx(np.array(GOLDEN[margin]), rel=1e-9)


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[list[float]], float]:
    """Groups of one to ten differences from -1 to 1, and a margin."""
    values = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0])
    return draw(st.lists(st.lists(values, min_size=1, max_size=10), min_size=1, max_size=30)), draw(st.floats(0, 0.5))


@given(groups())
@examples(200)
def test_wealth_stays_positive_and_an_equal_run_gains_nothing(drawn: tuple[list[list[float]], float]) -> None:
    each, margin = drawn
    sizes = [len(group) for group in each]
    assert (path([sum(group) for group in each], sizes, margin) > 0).all()
    assert (path([0.0 for _ in each], sizes, margin) <= 1).all()


@given(groups())
@examples(200)
def test_a_greater_loss_is_no_less_evidence(drawn: tuple[list[list[float]], float]) -> None:
    each, margin = drawn
    sums, sizes = [sum(group) for group in each], [len(group) for group in each]
    worse = [total if place else -float(len(each[0])) for place, total in enumerate(sums)]
    assert (path(worse, sizes, margin) >= path(sums, sizes, margin) - 1e-12).all()


@given(st.permutations(range(20)))
@examples(100)
def test_the_order_of_groups_does_not_change_the_evidence_of_all(order: Sequence[int]) -> None:
    moved = path([SUMS[place] for place in order], [SIZES[place] for place in order])
    assert moved[-1] == pytest.approx(path(SUMS, SIZES)[-1])


@given(st.lists(st.integers(1, 10), min_size=2, max_size=5), st.floats(0, 0.3))
@examples(50)
def test_no_stake_gains_on_average_where_the_loss_is_just_the_margin(sizes: list[int], margin: float) -> None:
    # A unit is lost with this chance and never gained, alike within a group: any group is as likely as another.
    lost = path([-float(size) for size in sizes], sizes, margin)[0]
    factors = [
        margin * path([-float(size)], [size], margin)[0] + (1 - margin) * path([0.0], [size], margin)[0]
        for size in sizes
    ]
    assert np.mean(factors, axis=0) == pytest.approx(np.ones(len(lost)))


def test_the_evidence_is_the_mean_over_stakes_and_finite() -> None:
    assert float(statistics.e_values(np.zeros(3))) == 1
    assert float(statistics.e_values(np.log([2.0, 4.0, 6.0]))) == pytest.approx(4)
    assert math.isfinite(float(statistics.e_values(np.full(3, 1e6))))


@pytest.mark.parametrize(("total", "size"), [(0.0, 11), (-2.0, 1), (3.0, 2)])
def test_a_group_beyond_its_bounds_is_refused(total: float, size: int) -> None:
    with pytest.raises(ValueError, match="groups have at most 10 units, with a difference from -1 to 1 each"):
        path([total], [size])


def test_the_quick_simulation_keeps_its_promises() -> None:
    lines = list(runpy.run_path(str(SIMULATION))["lines"](60))
    assert sum("stopped at a loss of just that" in line for line, _ in lines) == 14
    assert all(met for _, met in lines)
