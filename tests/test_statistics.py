"""Intervals: against scipy, and their laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from medvqa.statistics import wilson

counts = st.integers(1, 100_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
levels = st.floats(0.5, 0.999)


@given(counts, levels)
def test_the_interval_is_that_of_scipy(counted: tuple[int, int], level: float) -> None:
    count, n = counted
    expected = binomtest(count, n).proportion_ci(level, "wilson")
    assert wilson(count, n, level) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-12)


def test_a_published_interval() -> None:
    """Newcombe (1998), Table I, method 3: 81 of 263, 15 of 148, 0 of 20 and 1 of 29."""
    low, high = wilson([81, 15, 0, 1], [263, 148, 20, 29])
    assert low == pytest.approx([0.2553, 0.0624, 0.0, 0.0061], abs=5e-5)
    assert high == pytest.approx([0.3662, 0.1605, 0.1611, 0.1718], abs=5e-5)


@given(st.lists(counts, min_size=1, max_size=20), levels)
def test_the_interval_holds_the_share_and_stays_in_the_unit_interval(
    counted: list[tuple[int, int]], level: float
) -> None:
    count, n = np.array(counted).T
    low, high = wilson(count, n, level)
    assert np.all((low >= 0) & (low <= count / n) & (count / n <= high) & (high <= 1))


@given(counts, st.floats(0.01, 1.0))
def test_fewer_effective_units_widen_the_interval(counted: tuple[int, int], factor: float) -> None:
    count, n = counted
    low, high = wilson(count, n)
    wider_low, wider_high = wilson(count * factor, n * factor)
    assert wider_low <= low + 1e-12
    assert wider_high >= high - 1e-12


@pytest.mark.parametrize(("count", "n", "level"), [(1, 0, 0.95), (-1, 2, 0.95), (3, 2, 0.95), (1, 2, 1.0), (1, 2, 0.0)])
def test_numbers_outside_the_ranges_are_refused(count: float, n: float, level: float) -> None:
    with pytest.raises(ValueError, match="0 <= count <= n"):
        wilson(count, n, level)
