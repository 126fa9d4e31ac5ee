"""Partial pooling of slices: against another integration, its laws, its effective units, and the words of the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betainc, gammaln

from medvqa import report, statistics
from medvqa.report.bundle import slices
from medvqa.report.bundle.page_blocks import FigureCell, TableBlock
from support import pages
from support.laws import examples

Floats = NDArray[np.float64]

SMALL = (np.array([9 / 12, 3 / 4, 0.0, 1.0, 11 / 20, 0.7]), np.array([12.0, 4.0, 1.0, 1.0, 20.0, 8.5]))
GOLDEN = (
    (0.6743, 0.6569, 0.5934, 0.6591, 0.6026, 0.6546),
    (0.4868, 0.4160, 0.1902, 0.3746, 0.4134, 0.4470),
    (0.8636, 0.8895, 0.8370, 0.9395, 0.7607, 0.8522),
)
"""Values and ends for SMALL, by `brute` with 100 x 100 nodes."""
data = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 40)), min_size=3, max_size=7)


def brute(rate: Floats, n: Floats, nodes: int) -> list[Floats]:
    """Integrate over an even grid of the mean and the spread, and over an even grid of rates: value, low, high."""
    at = (np.arange(nodes) + 0.5) / nodes
    # Even in the root of the spread, whose small values matter.
    mean, spread = at[:, None], at[None, :] ** 2
    k = 1 / spread**2 - 1
    a, b = mean * k, (1 - mean) * k

    def log_beta(x: Floats, y: Floats) -> Floats:
        return np.asarray(gammaln(x) + gammaln(y) - gammaln(x + y))

    log = np.log(at) + 0 * a
    for r, m in zip(rate, n, strict=True):
        log = log + log_beta(a + r * m, b + (1 - r) * m) - log_beta(a, b)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    kept = weight > 1e-6
    found = []
    for r, m in zip(rate, n, strict=True):
        x = np.linspace(0, 1, 201)
        below = weight[kept] @ betainc(a[kept][:, None] + r * m, b[kept][:, None] + (1 - r) * m, x)
        below /= weight[kept].sum()
        value = float((weight * (a + r * m) / (a + b + m)).sum())
        found.append((value, *np.interp([0.025, 0.975], below, x)))
    return list(np.array(found).T)


def rows(cases: list[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Return rates and numbers of slices."""
    n = np.array([float(units) for _, units in cases])
    return np.array([min(eighths / 8, 1.0) for eighths, _ in cases]), n


def ends(found: statistics.PooledRates) -> Floats:
    """Return value, low and high, (3, slices)."""
    return np.array([found.value, found.low, found.high])


@pytest.mark.parametrize(
    "case",
    [
        (np.array([0.25, 0.7, 1.0]), np.array([4.0, 10.5, 1.0])),
        (np.array([0.7, 0.71, 0.69]), np.array([200.0, 150.0, 180.0])),
        (np.array([1.0, 1.0, 1.0, 0.9]), np.array([5.0, 9.0, 3.0, 10.0])),
    ],
)
def test_it_agrees_with_an_integration_by_even_grids(case: tuple[Floats, Floats]) -> None:
    np.testing.assert_allclose(ends(statistics.pooled(*case)), brute(*case, 50), atol=0.005)


def test_golden_numbers() -> None:
    found = statistics.pooled(*SMALL)
    np.testing.assert_allclose(found.value, GOLDEN[0], atol=1e-4)
    np.testing.assert_allclose(ends(found), GOLDEN, atol=0.004)


@given(data, st.integers(0, 99))
@examples(100)
def test_the_order_does_not_matter_and_values_lie_inside(cases: list[tuple[int, int]], seed: int) -> None:
    rate, n = rows(cases)
    found = ends(statistics.pooled(rate, n))
    order = np.random.default_rng(seed).permutation(len(cases))
    np.testing.assert_allclose(ends(statistics.pooled(rate[order], n[order])), found[:, order], atol=1e-9)
    assert np.all((found[1] >= 0) & (found[1] < found[0]) & (found[0] < found[2]) & (found[2] <= 1))


@given(data)
@examples(100)
def test_pooled_rates_lie_between_the_raw_one_and_the_mean(cases: list[tuple[int, int]]) -> None:
    """Within the range of all raw rates and one half, to which the prior draws the mean of few units."""
    rate, n = rows(cases)
    found = statistics.pooled(rate, n)
    least, most = min(rate.min(), 0.5), max(rate.max(), 0.5)
    assert np.all((found.value >= least - 1e-6) & (found.value <= most + 1e-6))
    # Of two slices with the same number, the one with the larger rate stays above.
    for i, j in zip(*np.where((n[:, None] == n) & (rate[:, None] > rate)), strict=True):
        assert found.value[i] > found.value[j]


@given(st.integers(1, 39), st.integers(3, 12), st.integers(1, 50))
@examples(50)
def test_equal_slices_have_one_rate_near_theirs_with_a_narrower_interval(right: int, count: int, n: int) -> None:
    rate = np.full(count, right / 40)
    found = statistics.pooled(rate, np.full(count, float(n)))
    assert np.ptp(ends(found), axis=1).max() == 0
    assert abs(found.value[0] - rate[0]) <= abs(0.5 - rate[0]) * 3 / (2 + count * n) + 0.1
    alone = stats.beta(1 + rate[0] * n, 1 + (1 - rate[0]) * n).interval(0.95)
    assert found.high[0] - found.low[0] < alone[1] - alone[0] + 0.02


def test_large_slices_keep_their_own_rates() -> None:
    rate, n = np.array([0.5, 0.7, 0.9, 0.71]), np.array([26_000.0, 9_000.0, 30_000.0, 5_000.0])
    found = statistics.pooled(rate, n)
    np.testing.assert_allclose(found.value, rate, atol=1e-3)
    half = 1.96 * np.sqrt(rate * (1 - rate) / n)
    np.testing.assert_allclose(found.high - found.low, 2 * half, rtol=0.03)


def test_a_small_slice_is_drawn_to_the_others_and_more_so_the_smaller_it_is() -> None:
    rate = np.array([0.7, 0.68, 0.72, 0.7, 0.25])
    values = [statistics.pooled(rate, np.array([50.0, 50, 50, 50, n])).value[-1] for n in (1, 4, 16, 64, 1024)]
    assert np.all(np.diff(values) < 0)
    assert values[0] > 0.6
    assert values[-1] < 0.27


@pytest.mark.parametrize(
    ("rate", "n"), [([0.5, 0.5], [3, 3]), ([0.5, 0.5, 1.1], [3, 3, 3]), ([0.5, 0.5, 0.5], [3, 0, 3])]
)
def test_other_data_are_refused(rate: list[float], n: list[float]) -> None:
    with pytest.raises(ValueError, match="rates from 0 to 1 of 3 slices"):
        statistics.pooled(np.array(rate), np.array(n, float))


def units_of(right: Floats, group: NDArray[np.intp]) -> float:
    """Return the effective units of one slice."""
    table = statistics.UnitTable(
        right, np.ones(len(right)), np.arange(len(right)), group, np.zeros(len(right), dtype=int)
    )
    return float(statistics.effective_units(statistics.estimate(table, binary=True).precision, binary=True)[0])


def test_effective_units_are_all_if_independent_and_groups_if_they_agree() -> None:
    right = np.random.default_rng(0).integers(0, 2, 12).astype(float)
    assert units_of(right, np.arange(12)) == pytest.approx(12)
    assert units_of(right[:1], np.zeros(1, dtype=int)) == 1
    # One group is one unit, and groups whose units agree are as many, or one less.
    assert units_of(right, np.zeros(12, dtype=int)) == pytest.approx(1)
    assert units_of(np.repeat(right[:4], 5), np.repeat(np.arange(4), 5)) == pytest.approx(3)


# ---- the page --------------------------------------------------------------------------------------------------------


def tables_of(built: report.Report) -> list[TableBlock]:
    return [block for block in slices.slices_section(built).blocks if isinstance(block, TableBlock)]


def test_the_page_has_pooled_estimates_behind_the_raw_ones(tmp_path: Path) -> None:
    built = report.build(pages.write(tmp_path / "run", pages.guesses()), pages.PHANTOM)
    shown = 0
    for part, table in zip([p for p in built.parts if p.measures], tables_of(built), strict=True):
        groups = [row.group for row in table.rows]
        for row in table.rows:
            cells = [cell for cell in row.cells if isinstance(cell, FigureCell)]
            # The whole benchmark and dimensions of two values have none.
            if row.group == "" or groups.count(row.group) < statistics.LEAST_SLICES:
                assert not any(cell.aside for cell in cells)
            shown += sum(cell.aside.startswith("pooled ") for cell in cells)
        has = any(isinstance(cell, FigureCell) and cell.aside for row in table.rows for cell in row.cells)
        assert (slices.POOLED in table.notes) == has
        for measure in part.measures:
            assert not measure.figure.aside
    assert shown > 20


def test_words_of_the_page_are_those_of_the_estimate(tmp_path: Path) -> None:
    built = report.build(pages.write(tmp_path / "run", pages.guesses()), pages.PHANTOM)
    part = next(part for part in built.parts if "department" in part.benchmark.dimensions)
    words = slices.pooled(part, ["department"], {"accuracy"})
    own = {m.slice["department"]: m for m in part.measures if m.name == "accuracy" and list(m.slice) == ["department"]}
    assert {value for _, _, value in words} == set(own)
    kept = list(own.values())
    rates = statistics.pooled(np.array([m.value for m in kept]), np.array([m.n for m in kept]))
    for measure, *each in zip(kept, *ends(rates), strict=True):
        shown = words["accuracy", "department", measure.slice["department"]]
        found = re.fullmatch(r"pooled (\d+) \((\d+)–(\d+)\)", shown)
        assert found
        # Some questions share an image: a slice has a little fewer effective units than questions.
        np.testing.assert_allclose([float(number) / 100 for number in found.groups()], each, atol=0.015)


def test_numbers_that_are_no_shares_are_not_pooled(tmp_path: Path) -> None:
    built = report.build(pages.write(tmp_path / "run", pages.guesses()), pages.PHANTOM)
    part = next(part for part in built.parts if "department" in part.benchmark.dimensions)
    metrics = tuple(replace(metric, percent=False) for metric in part.benchmark.metrics)
    other = replace(part, benchmark=replace(part.benchmark, metrics=metrics))
    assert slices.pooled(other, ["department"], {"accuracy"}) == {}
