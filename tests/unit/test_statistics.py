"""Intervals and the variance over groups: against scipy, statsmodels, matrices and published values, and their laws."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, norm, t
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from medvqa import statistics
from medvqa.benchmarks import mediconfusion
from medvqa.items import Answer
from medvqa.statistics import (
    UnitTable,
    clopper_pearson,
    clustered,
    holm,
    intervals,
    macro,
    mean_over,
    p_below,
    ratios,
    wilson,
)
from support.laws import examples

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")
Floats = NDArray[np.float64]

counts = st.integers(1, 100_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
levels = st.floats(0.5, 0.999)


def table(values: Any, group: Any, weight: Any = None, of: Any = None) -> UnitTable:
    """One row a unit, or with `of`, its slice, any number of rows of units that have different slices."""
    values, group = np.asarray(values, float), np.asarray(group)
    weight = np.ones(len(values)) if weight is None else np.asarray(weight, float)
    of = np.zeros(len(values), dtype=int) if of is None else np.asarray(of)
    return UnitTable(values * weight, weight, np.arange(len(values)), group, of, int(of.max(initial=0)) + 1)


@st.composite
def grouped(draw: st.DrawFn, least: int = 3, binary: bool = False) -> tuple[Floats, NDArray[np.intp]]:
    """Values in [0, 1] and groups of up to five units."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=least, max_size=12))
    group = np.repeat(np.arange(len(sizes)), sizes)
    value = st.sampled_from([0.0, 1.0]) if binary else st.sampled_from([0.0, 0.25, 0.5, 1.0])
    return np.array(draw(st.lists(value, min_size=len(group), max_size=len(group)))), group


# Wilson, Clopper and Pearson


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


@given(counts, levels)
def test_exact_bounds_are_those_of_scipy(counted: tuple[int, int], level: float) -> None:
    count, n = counted
    low, high = clopper_pearson(count, n, level)
    below = binomtest(count, n, alternative="greater").proportion_ci(level, "exact")
    above = binomtest(count, n, alternative="less").proportion_ci(level, "exact")
    assert (low, high) == pytest.approx((below.low, above.high), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("bound", [wilson, clopper_pearson])
@pytest.mark.parametrize(("count", "n", "level"), [(1, 0, 0.95), (-1, 2, 0.95), (3, 2, 0.95), (1, 2, 1.0), (1, 2, 0.0)])
def test_numbers_outside_the_ranges_are_refused(
    bound: Callable[..., Any], count: float, n: float, level: float
) -> None:
    with pytest.raises(ValueError, match=f"{bound.__name__} needs 0 <= count <= n"):
        bound(count, n, level)


def independent(n: int) -> statistics.Estimates:
    """Every number of right answers among n independent units."""
    value = np.arange(n + 1) / n
    return statistics.Estimates(
        value,
        value * (1 - value) / (n - 1),
        np.full(n + 1, n - 1.0),
        np.full(n + 1, n),
        np.full(n + 1, float(n)),
        np.full(n + 1, float(n)),
        lambda: np.minimum(np.arange(n + 1), n - np.arange(n + 1)),
        value * (1 - value) / n,
    )


@pytest.mark.parametrize("n", [176, 352, 451, 1500])
def test_coverage_by_exact_enumeration(n: int) -> None:
    p = np.arange(5, 100, 5) / 100
    mass = binom.pmf(np.arange(n + 1)[:, None], n, p)
    low, high = (bound[:, None] for bound in intervals(independent(n), binary=True))
    covers = np.sum(mass * ((low <= p) & (p <= high)), axis=0)
    assert covers.min() >= 0.935
    assert covers.max() <= 0.96
    low, high = (bound[:, None] for bound in statistics.bounds(independent(n), binary=True))
    assert np.sum(mass * (low <= p), axis=0).min() >= 0.95
    assert np.sum(mass * (high >= p), axis=0).min() >= 0.95


def test_what_enumeration_takes_for_independent_units_is_what_comes_out() -> None:
    found = clustered(ratios(table([1, 0, 0, 1, 1, 0, 0], range(7))))
    expected = independent(7)
    assert found.variance[0] == pytest.approx(expected.variance[3])
    assert (found.df[0], found.n[0], found.groups[0]) == pytest.approx((6, 7, 7))
    assert (found.effective_groups[0], found.deviating()[0]) == (pytest.approx(7), expected.deviating()[3])


# CR2


def by_matrices(
    weights: list[Floats], groups: list[NDArray[np.intp]], values: list[Floats], factors: list[float]
) -> tuple[float, float]:
    """CR2 and Satterthwaite's degrees of freedom as Pustejovsky and Tipton write them, for a sum of ratios."""
    of = np.repeat(np.arange(len(weights)), [len(each) for each in weights])
    X = (of[:, None] == np.arange(len(weights))).astype(float)
    W, y, group = np.concatenate(weights), np.concatenate(values), np.concatenate(groups)
    M = np.linalg.inv(X.T @ (W[:, None] * X))
    R = np.eye(len(y)) - X @ M @ (X.T * W)
    e, contrast = R @ y, np.array(factors)
    variance, vectors = 0.0, []
    for g in np.unique(group):
        at = np.flatnonzero(group == g)
        roots, basis = np.linalg.eigh(R[at] @ R[at].T)
        A = basis @ np.diag(roots**-0.5) @ basis.T
        row = contrast @ M @ (X[at].T * W[at]) @ A
        variance += float(row @ e[at]) ** 2
        vectors.append(row @ R[at])
    P = np.array(vectors) @ np.array(vectors).T
    return variance, float(np.trace(P) ** 2 / np.sum(P * P))


def drawn(seed: int, n: int = 50, groups: int = 8) -> tuple[Floats, Floats, NDArray[np.intp]]:
    draw = np.random.default_rng(seed)
    return draw.random(n), draw.uniform(0.2, 3, n), np.sort(draw.integers(0, groups, n))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("equal", [True, False])
def test_cr2_is_that_of_the_matrices(seed: int, equal: bool) -> None:
    value, weight, group = drawn(seed)
    weight = np.ones_like(weight) if equal else weight
    found = clustered(ratios(table(value, group, weight)))
    assert (found.variance[0], found.df[0]) == pytest.approx(by_matrices([weight], [group], [value], [1.0]), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_cr2_of_a_macro_average_is_that_of_the_matrices(seed: int) -> None:
    """Three slices of different sizes; two share units."""
    value, weight, group = drawn(seed, 60, 20)
    members = [np.arange(0, 30), np.arange(20, 45), np.arange(40, 60)]
    rows = np.concatenate(members)
    of = np.repeat(np.arange(3), [len(each) for each in members])
    whole = UnitTable(value[rows] * weight[rows], weight[rows], rows, group[rows], of, 3)
    found = clustered(mean_over(ratios(whole), range(3)))
    parts = [[each[at] for at in members] for each in (weight, group, value)]
    assert (found.variance[0], found.df[0]) == pytest.approx(by_matrices(*parts, [1 / 3] * 3), rel=1e-9)
    assert found.value[0] == pytest.approx(np.mean([np.average(value[at], weights=weight[at]) for at in members]))


def test_slices_of_few_groups_are_joined_for_the_variance_of_a_macro_average() -> None:
    """One group, four groups and nine groups: the first two have a variance together, as one slice of five groups."""
    value, weight, _ = drawn(1, 40)
    group = np.concatenate([np.zeros(4), 1 + np.arange(8) // 2, 5 + np.arange(28) // 3]).astype(int)
    of = np.repeat([0, 1, 2], [4, 8, 28])
    found = clustered(mean_over(ratios(table(value, group, weight, of)), range(3)))
    share = np.concatenate([weight[of == i] / weight[of == i].sum() for i in range(3)])
    small = of < 2
    parts = [[each[small], each[~small]] for each in (share, group, value)]
    assert (found.variance[0], found.df[0]) == pytest.approx(by_matrices(*parts, [2 / 3, 1 / 3]), rel=1e-9)
    assert found.value[0] == pytest.approx(sum(share[of == i] @ value[of == i] for i in range(3)) / 3)


def test_cr2_of_a_weighted_mean_is_that_of_the_matrices() -> None:
    """The mean of two slices with weights 3 and 1 that share groups."""
    value, weight, group = drawn(2)
    members = [np.arange(0, len(value), 2), np.arange(1, len(value), 2)]
    rows, of = np.concatenate(members), np.repeat([0, 1], [len(member) for member in members])
    whole = UnitTable(value[rows] * weight[rows], weight[rows], rows, group[rows], of, 2)
    found = clustered(mean_over(ratios(whole), [0, 1], [3, 1]))
    parts = [[each[at] for at in members] for each in (weight, group, value)]
    assert (found.variance[0], found.df[0]) == pytest.approx(by_matrices(*parts, [3 / 4, 1 / 4]), rel=1e-9)
    ends = [np.average(value[at], weights=weight[at]) for at in members]
    assert found.value[0] == pytest.approx(np.average(ends, weights=[3, 1]))
    alike = clustered(mean_over(ratios(whole), [0, 1], [2, 2]))
    plain = clustered(mean_over(ratios(whole), [0, 1]))
    assert (alike.value[0], alike.variance[0]) == pytest.approx((plain.value[0], plain.variance[0]))


def test_a_weighted_mean_needs_all_its_slices_and_positive_weights() -> None:
    every = ratios(table(np.arange(20) % 2, np.arange(20), of=np.repeat([0, 2], 10)))
    assert mean_over(every, [0, 2], [1, 3]).value[0] == 0.5
    assert np.isnan(mean_over(every, [0, 1, 2], [1, 1, 3]).value[0])
    for weights in ([1.0], [1.0, 0.0], [1.0, float("nan")]):
        with pytest.raises(ValueError, match="a positive weight for each place"):
            mean_over(every, [0, 2], weights)


def test_runs_are_compared_by_their_weighted_means() -> None:
    """One question of ten is lost in the slice that weighs three times as much as the other: 0.1 times 3/4."""
    of, group = np.repeat([0, 1], 10), np.arange(20)
    before, after = np.arange(20) % 2, np.arange(20) % 2
    after[1] = 0
    (found,) = statistics.compare(
        table(after, group, of=of), table(before, group, of=of), binary=True, over=[0, 1], weights=[3, 1]
    )
    assert (found.baseline, found.new, found.difference) == pytest.approx((0.5, 0.425, -0.075))
    assert found.low is not None
    assert found.low < -0.075


def test_cr2_of_a_difference_is_that_of_the_matrices() -> None:
    """Two runs with different weights, as where confusion leaves out other pairs."""
    (value, weight, group), (other, others, _) = drawn(0), drawn(1)
    weight[::7], others[3::5] = 0, 0
    found = clustered(statistics.difference(ratios(table(value, group, weight)), ratios(table(other, group, others))))
    kept = [weight > 0, others > 0]
    parts = [[a[kept[0]], b[kept[1]]] for a, b in ((weight, others), (group, group), (value, other))]
    assert (found.variance[0], found.df[0]) == pytest.approx(by_matrices(*parts, [1.0, -1.0]), rel=1e-9)


@given(grouped())
def test_equal_weights_give_the_textbook_form(data: tuple[Floats, NDArray[np.intp]]) -> None:
    value, group = data
    found = clustered(ratios(table(value, group)))
    h = np.bincount(group) / len(group)
    influence = np.bincount(group, value - value.mean()) / len(group)
    q = h**2 / (1 - h)
    assert found.variance[0] == pytest.approx(np.sum(influence**2 / (1 - h)), abs=1e-15)
    assert found.df[0] == pytest.approx(1 / (np.sum(h**2) + np.sum(q) ** 2 - np.sum(q**2)))


@pytest.mark.parametrize("seed", range(3))
def test_cr1_from_the_influences_is_that_of_statsmodels(seed: int) -> None:
    value, weight, group = drawn(seed)
    found = ratios(table(value, group, weight))
    sums = np.bincount(group, found.influence)
    G = len(np.unique(group))
    fit = sm.WLS(value, np.ones(len(value)), weights=weight).fit(cov_type="cluster", cov_kwds={"groups": group})
    assert found.value[0] == pytest.approx(fit.params[0])
    assert G / (G - 1) * np.sum(sums**2) == pytest.approx(fit.cov_params()[0, 0])


def test_cr2_has_no_bias_under_the_working_model() -> None:
    _, weight, group = drawn(0, 30)
    draw = np.random.default_rng(1)
    runs = 4000
    values = draw.standard_normal((runs, 30))
    many = UnitTable(
        (values * weight).ravel(),
        np.tile(weight, runs),
        np.tile(np.arange(30), runs),
        np.tile(group, runs),
        np.repeat(np.arange(runs), 30),
        runs,
    )
    found = clustered(ratios(many))
    true = np.sum(weight**2) / np.sum(weight) ** 2
    assert np.mean(found.variance) == pytest.approx(true, abs=4 * np.std(found.variance) / runs**0.5)
    assert np.allclose(found.n, 1 / true)


def test_slices_do_not_touch_each_other() -> None:
    value, weight, group = drawn(2, 60)
    of = np.arange(60) % 3
    together = clustered(ratios(table(value, group, weight, of)))
    for i in range(3):
        alone = clustered(ratios(table(value[of == i], group[of == i], weight[of == i])))
        assert together.variance[i] == pytest.approx(alone.variance[0], rel=1e-12)
        assert together.df[i] == pytest.approx(alone.df[0], rel=1e-9)


def test_a_correction_serves_all_measures_of_the_same_units() -> None:
    (value, weight, group), (other, _, _) = drawn(3), drawn(4)
    one, two = (ratios(table(each, group, weight)) for each in (value, other))
    shared, alone = clustered(two, statistics.corrected(one)), clustered(two)
    assert (shared.value, shared.variance, shared.df) == (alone.value, alone.variance, alone.df)


def test_rows_of_a_unit_are_summed() -> None:
    """The two questions of a pair: one unit with the value of their mean."""
    pairs = UnitTable(
        np.array([1.0, 0, 1, 1, 0, 0]), np.ones(6), np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 2]),
        np.zeros(6, dtype=int),
    )  # fmt: skip
    summed, rows = statistics.by_unit(pairs)
    assert (summed.numerator.tolist(), rows.tolist()) == ([1.0, 2.0, 0.0], [2, 2, 2])
    assert clustered(ratios(pairs)).n[0] == 3


def test_a_slice_of_a_table_is_a_table_with_its_measure() -> None:
    units = np.arange(40)
    whole = UnitTable((units % 3 > 0) * 1.0, np.ones(40), units, units // 2, units % 2, 2)
    found, own = (statistics.estimate(each, binary=True) for each in (whole, whole.in_slice(1)))
    assert [found.value[1], found.low[1], found.high[1]] == [own.value[0], own.low[0], own.high[0]]
    assert (found.units[1], found.groups[1]) == (own.units[0], own.groups[0]) == (20, 20)
    assert whole.differs_in_terms_alone(replace(whole, numerator=np.zeros(40)))
    assert not whole.differs_in_terms_alone(whole.only(units > 0))
    assert not whole.differs_in_terms_alone(replace(whole, group=units))


@given(grouped())
def test_influences_sum_to_nothing(data: tuple[Floats, NDArray[np.intp]]) -> None:
    found = ratios(table(*data))
    assert np.sum(found.influence) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": np.zeros(2, dtype=int)}, r"one shape, \(rows,\)"),
        ({"numerator": np.array([np.nan, 0, 0])}, "must be finite"),
        ({"denominator": np.array([1.0, -1, 1])}, "must not be negative"),
        ({"slice": np.array([0, 1, 0])}, r"slices must be in \[0, 1\)"),
    ],
)
def test_bad_tables_are_refused(change: dict[str, Any], message: str) -> None:
    good = table([1, 0, 1], range(3))
    with pytest.raises(ValueError, match=message):
        replace(good, **change)


# Intervals over groups


@needs_reference
def test_the_recorded_run_of_gpt_4o_on_mediconfusion() -> None:
    """58 groups; set accuracy 30 / 176 and individual accuracy 189 / 352 with their intervals."""
    recorded = json.loads((REFERENCE / "mediconfusion" / "gpt4o_mc_predictions.json").read_text())
    items = sorted(mediconfusion.items(REFERENCE), key=lambda item: item.id)
    (benchmark,) = mediconfusion.BENCHMARKS
    assert benchmark.owners.rule is not None
    right = []
    for item in items:
        pair, image = item.id.split("/")
        said = recorded[pair]["answer"][f"im{image}"]["answer"]["full_answer"]
        right.append(benchmark.owners.rule.score(item, Answer(said)).outcome == "correct")
    _, group = np.unique([item.cluster_id for item in items], return_inverse=True)
    _, pair_of = np.unique([item.pair_id for item in items], return_inverse=True)
    single = UnitTable(np.array(right, float), np.ones(352), pair_of, group, np.zeros(352, dtype=int))
    both = table(np.bincount(pair_of, right) == 2, group[::2])
    (individual, whole), binary = [clustered(ratios(each)) for each in (single, both)], (False, True)
    assert (individual.groups[0], whole.groups[0]) == (58, 58)
    assert (individual.df[0], whole.df[0]) == pytest.approx((16.68, 16.68), abs=0.005)
    assert (whole.value[0], individual.value[0]) == pytest.approx((0.1705, 0.5369), abs=5e-5)
    assert intervals(whole, binary=binary[1]) == (pytest.approx(0.112, abs=5e-4), pytest.approx(0.251, abs=5e-4))
    assert intervals(individual, binary=binary[0]) == (pytest.approx(0.498, abs=5e-4), pytest.approx(0.576, abs=5e-4))


@given(st.data(), st.booleans(), levels)
def test_intervals_contain_the_estimate(data: st.DataObject, binary: bool, level: float) -> None:
    found = clustered(ratios(table(*data.draw(grouped(binary=binary)))))
    for low, high in (
        intervals(found, binary=binary, level=level),
        statistics.bounds(found, binary=binary, level=level),
    ):
        if found.df[0] >= 4:
            assert 0 <= low[0] <= found.value[0] + 1e-12
            assert found.value[0] - 1e-12 <= high[0] <= 1
        else:
            assert np.isnan([low[0], high[0]]).all()


@given(st.data(), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_the_numbers_of_groups_do_not_matter(data: Any, binary: bool, random: Any) -> None:
    value, group = data.draw(grouped(binary=binary))
    order = np.array(random.sample(range(len(value)), len(value)))
    names = np.array(random.sample(range(100), int(group.max()) + 1))
    one = clustered(ratios(table(value, group)))
    other = clustered(ratios(table(value[order], names[group][order])))
    assert np.allclose(intervals(one, binary=binary), intervals(other, binary=binary), equal_nan=True, atol=1e-12)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("times", [4, 9])
def test_as_many_groups_again_narrow_the_interval_by_the_root(times: int, binary: bool) -> None:
    draw = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 3)
    value = np.where(draw.random(60)[group] < 0.3, draw.random(60)[group] < 0.5, draw.random(180) < 0.5).astype(float)
    once = intervals(clustered(ratios(table(value, group))), binary=binary)
    copies = np.concatenate([group + 60 * i for i in range(times)])
    again = intervals(clustered(ratios(table(np.tile(value, times), copies))), binary=binary)
    assert (once[1] - once[0]) / (again[1] - again[0]) == pytest.approx(times**0.5, rel=0.04)


@examples(30)
@given(grouped(least=6, binary=True))
def test_groups_never_narrow_a_binomial_interval(data: tuple[Floats, NDArray[np.intp]]) -> None:
    value, group = data
    low, high = intervals(clustered(ratios(table(value, group))), binary=True)
    least, most = wilson(value.sum(), len(value))
    assert np.isnan(low[0]) or (low[0] <= least + 1e-12 and high[0] >= most - 1e-12)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("binary", [True, False])
def test_no_variation_is_no_certainty(value: float, binary: bool) -> None:
    """All right or all wrong: the binomial interval, as 0 of 40 says little about the 41st."""
    found = clustered(ratios(table(np.full(40, value), range(40))))
    low, high = intervals(found, binary=binary)
    assert high[0] - low[0] == pytest.approx(0.09, abs=0.01)
    assert value in (low[0], high[0])


def test_few_degrees_of_freedom_give_no_interval() -> None:
    group = np.array([0] * 30 + [1, 2, 3, 4, 5, 6])
    found = clustered(ratios(table(np.arange(36) % 2, group)))
    assert found.groups[0] == 7
    assert found.df[0] < 4
    assert np.isnan(intervals(found, binary=True)).all()
    assert np.isnan(statistics.bounds(found, binary=True)).all()


def test_an_undefined_ratio_and_one_group_give_no_interval() -> None:
    empty = UnitTable(np.zeros(3), np.zeros(3), np.arange(3), np.arange(3), np.zeros(3, dtype=int))
    for found in (clustered(ratios(empty)), clustered(ratios(table([1, 0, 1], [4, 4, 4])))):
        assert np.isnan(found.df[0])
        assert np.isnan(found.variance[0])
        assert np.isnan(intervals(found, binary=False)).all()
    assert np.isnan(ratios(empty).value[0])
    nothing = ratios(UnitTable(*np.empty((2, 0)), *np.empty((3, 0), dtype=int), slices=2))
    assert np.isnan(clustered(nothing).value).all()


def test_a_macro_average_leaves_out_what_is_undefined() -> None:
    of = np.repeat([0, 1, 3], 10)
    every = ratios(table(np.arange(30) % 2, np.arange(30), of=of))
    found = mean_over(every, range(4))
    assert found.value[0] == 0.5
    assert clustered(found).n[0] == pytest.approx(30)
    assert np.isnan(clustered(mean_over(every, [2])).value[0])
    with pytest.raises(ValueError, match="one ratio a measure"):
        mean_over(found, [0])


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("limit", [0.3, 0.45, 0.5, 0.6, 0.8])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_p_values_and_bounds_agree(limit: float, level: float, binary: bool) -> None:
    draw = np.random.default_rng(3)
    group = np.repeat(np.arange(20), 3)
    value = (draw.random((5, 60)) < 0.55).astype(float)
    many = UnitTable(value.ravel(), np.ones(300), *np.tile((np.arange(60), group), 5), np.repeat(np.arange(5), 60), 5)
    found = clustered(ratios(many))
    _, high = statistics.bounds(found, binary=binary, level=level)
    p = statistics.p_below(found, limit, binary=binary)
    assert np.array_equal(p < 1 - level, high < limit)


# Macro averages


@pytest.mark.parametrize("right", [0, 1, 7, 19, 20])
def test_the_bounds_of_one_slice_are_clopper_and_pearsons(right: int) -> None:
    value, n = np.array([right / 20]), 20
    precision = macro.MacroVariance(value * (1 - value) / n, np.array([1e9]), np.array([1 / n]))
    found = [float(bound[0]) for bound in macro.bounds(value, precision, 0.975)]
    assert found == pytest.approx([float(bound) for bound in clopper_pearson(right, n, 0.975)], abs=1e-8)


SMALL = np.repeat(np.arange(5), [3, 3, 3, 100, 300])
"""The slices of units: three of them are small."""


def averaged(right: Floats, group: NDArray[np.intp] | None = None) -> statistics.Estimates:
    group = np.arange(len(SMALL)) if group is None else group
    return clustered(mean_over(ratios(table(right, group, of=SMALL)), range(5)))


def test_small_slices_without_an_error_count_one_more_error() -> None:
    """One error in nine would lower the mean by 6.7 points; a bound of 95 % allows for three of them."""
    right = np.ones(len(SMALL))
    right[[10, 50, 90, *range(110, 125)]] = 0
    low, high = (float(bound[0]) for bound in intervals(averaged(right), binary=True))
    assert 0.7 < low < 0.8
    assert 0.98 < high < 1
    below = float(statistics.bounds(averaged(right), binary=True)[0][0])
    assert low < below < 0.85
    rule = statistics.floor("macro_accuracy >= 90 %", averaged(right), 0.9, binary=True)
    assert statistics.decide([rule]).outcome == "INCONCLUSIVE"


def test_the_bounds_of_a_macro_average_are_mirrored() -> None:
    right = np.random.default_rng(3).random(len(SMALL)) < 0.8
    low, high = intervals(averaged(right.astype(float)), binary=True)
    other_low, other_high = intervals(averaged(1 - right), binary=True)
    assert (low[0], high[0]) == pytest.approx((1 - other_high[0], 1 - other_low[0]))


@pytest.mark.parametrize("limit", [0.5, 0.8, 0.97, 0.999])
def test_the_p_of_a_floor_on_a_macro_average_is_that_of_its_bound(limit: float) -> None:
    found = averaged((np.random.default_rng(4).random(len(SMALL)) < 0.9).astype(float))
    (p,) = p_below(found, limit, binary=True)
    for alpha, excluded in ((p * 1.001, True), (p * 0.999, False)):
        if 0 < alpha < 1:
            assert (statistics.bounds(found, binary=True, level=1 - alpha)[1][0] < limit) == excluded


def test_a_macro_average_over_many_large_slices_has_the_interval_of_its_variance() -> None:
    of = np.repeat(np.arange(18), 1000)
    right = (np.random.default_rng(5).random(len(of)) < 0.7).astype(float)
    found = clustered(mean_over(ratios(table(right, np.arange(len(of)), of=of)), range(18)))
    low, high = (float(bound[0]) for bound in intervals(found, binary=True))
    assert high - low == pytest.approx(2 * 1.96 * float(found.variance[0]) ** 0.5, rel=0.01)


def test_groups_that_lie_in_several_slices_widen_a_macro_average() -> None:
    """The same answers, by units of their own, and by groups of one question in each slice that share their answer."""
    of, group = np.repeat(np.arange(6), 30), np.tile(np.arange(30), 6)
    right = np.tile((np.random.default_rng(6).random(30) < 0.8).astype(float), 6)
    apart, together = (
        intervals(clustered(mean_over(ratios(table(right, each, of=of)), range(6))), binary=True)
        for each in (np.arange(180), group)
    )
    assert together[1][0] - together[0][0] > 2 * (apart[1][0] - apart[0][0])


def test_a_macro_average_of_partial_credit_is_bounded_too() -> None:
    """Values that vary little have a narrow interval; with no variation, groups count as one outcome each."""
    of = np.repeat(np.arange(6), 20)
    value = 0.5 + 0.1 * np.random.default_rng(7).random(len(of))
    narrow = intervals(clustered(mean_over(ratios(table(value, np.arange(120), of=of)), range(6))), binary=False)
    assert narrow[1][0] - narrow[0][0] < 0.06
    still = intervals(
        clustered(mean_over(ratios(table(np.full(120, 0.5), np.arange(120), of=of)), range(6))), binary=False
    )
    assert still[1][0] - still[0][0] > 0.15


# Holm


def test_holms_example() -> None:
    """Wright (1992), Biometrics 48:1005: 0.01, 0.02, 0.022, 0.09 become 0.04, 0.06, 0.06, 0.09."""
    assert holm([0.022, 0.01, 0.09, 0.02]) == pytest.approx([0.06, 0.04, 0.09, 0.06])


@examples(10)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_equal_weights_are_statsmodels_holm(p: list[float]) -> None:
    expected = multipletests(p, method="holm")[1]
    assert holm(p) == pytest.approx(expected)
    assert holm(p, [3.0] * len(p)) == pytest.approx(expected)


weighted = st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 10)), min_size=1, max_size=8)


@given(weighted, st.floats(0.001, 0.5))
def test_weighted_holm_is_the_closed_test_of_weighted_bonferroni(
    tests: list[tuple[float, float]], alpha: float
) -> None:
    """A hypothesis falls when each intersection that holds it falls (Marcus, Peritz and Gabriel), by brute force."""
    p, weight = np.array(tests).T
    adjusted = holm(p, weight)
    for i in range(len(p)):
        worst = 0.0
        for subset in range(1 << len(p)):
            if subset >> i & 1:
                inside = [j for j in range(len(p)) if subset >> j & 1]
                worst = max(worst, float(np.min(p[inside] / weight[inside]) * weight[inside].sum()))
        assert adjusted[i] == pytest.approx(min(worst, 1.0))


@pytest.mark.parametrize(("p", "weight"), [([0.5, 1.1], None), ([0.5], [0.0]), ([0.5], [1.0, 1.0]), ([np.nan], None)])
def test_bad_tests_are_refused(p: list[float], weight: list[float] | None) -> None:
    with pytest.raises(ValueError, match=r"p-values in \[0, 1\] and positive weights"):
        holm(p, weight)


# The bootstrap


def test_the_bootstrap_agrees_with_the_interval_where_both_hold() -> None:
    draw = np.random.default_rng(0)
    group = np.repeat(np.arange(300), 2)
    value = np.where(draw.random(600) < 0.5, draw.random(300)[group], draw.random(600))
    data = table(value, group, draw.integers(1, 3, 600), np.arange(600) % 2)
    (found,) = statistics.resampled([data], replicates=4000)
    low, high = statistics.percentile(found)
    exact = intervals(clustered(ratios(data)), binary=False)
    assert low == pytest.approx(exact[0], abs=0.005)
    assert high == pytest.approx(exact[1], abs=0.005)


def test_the_bootstrap_is_seeded_and_draws_the_same_groups_for_both_runs() -> None:
    one, other = table([1, 0, 1, 1, 0], range(5)), table([0, 1, 0, 0, 1], range(5))
    a, b = statistics.resampled([one, other], replicates=100, seed=7)
    assert np.allclose(a + b, 1)
    assert np.array_equal(a, statistics.resampled([one], replicates=100, seed=7)[0])
    assert not np.array_equal(a, statistics.resampled([one], replicates=100, seed=8)[0])
    assert len(np.unique(a)) > 3


def test_a_slice_that_some_draws_miss_is_undefined_there() -> None:
    data = table([1, 0, 1, 1, 0, 1], range(6), of=[0, 0, 0, 0, 0, 1])
    (found,) = statistics.resampled([data], replicates=200)
    missed = np.isnan(found[:, 1])
    assert 0 < missed.sum() < 200
    low, high = statistics.percentile(found)
    assert (low[1], high[1]) == (1, 1)
    assert np.isnan(statistics.percentile(np.full((10, 1), np.nan))).all()


def test_units_of_one_value_are_not_thought_to_be_certain() -> None:
    """One right answer in each of 20 pairs, as a constant answer gives: Wilson's interval of 10 in 20 (z / t)^2."""
    found = clustered(ratios(UnitTable(np.ones(20), np.full(20, 2.0), np.arange(20), np.arange(20), np.zeros(20, int))))
    low, high = intervals(found, binary=False)
    n = 20 * (norm.ppf(0.975) / t.ppf(0.975, 19)) ** 2
    assert (low[0], high[0]) == pytest.approx(proportion_confint(n / 2, n, method="wilson"))
    below, above = statistics.bounds(found, binary=False)
    assert below[0] < 0.5 < above[0]
    assert statistics.p_below(found, 0.6, binary=False)[0] > 0.05


# Means from 0 to 1: Wilson at r (1 - r) / V


def means(p: float, groups: int, size: int, samples: int, runs: int, correlation: float = 0.0) -> UnitTable:
    """Means of some samples of right or wrong, one slice a run; units share their group's luck."""
    draw = np.random.default_rng([int(1000 * p), groups, size, samples])
    group = np.repeat(np.arange(groups), size)
    n = len(group)
    shared = draw.random((runs, n)) < correlation**0.5
    chance = draw.beta(4 * p, 4 * (1 - p), (2, runs, n))
    ability = np.where(shared, chance[0][:, np.arange(groups) * size][:, group], chance[1])
    value = draw.binomial(samples, ability) / samples
    of, unit = np.repeat(np.arange(runs), n), np.tile(np.arange(n), runs)
    return UnitTable(value.ravel(), np.ones(runs * n), unit, np.tile(group, runs), of, runs)


@pytest.mark.parametrize(
    ("p", "groups", "size", "correlation"),
    [(0.9, 30, 1, 0.0), (0.95, 40, 1, 0.0), (0.98, 100, 2, 0.6), (0.97, 100, 5, 0.9), (0.9, 10, 5, 0.3)],
)
def test_means_near_the_ends_are_covered(p: float, groups: int, size: int, correlation: float) -> None:
    """The mean of three samples a question; the estimate -+ t standard errors covered in 56 to 92 %."""
    found = clustered(ratios(means(p, groups, size, 3, 2000, correlation)))
    low, high = intervals(found, binary=False)
    assert np.mean((low <= p) & (p <= high)) >= 0.93


def luck_of_groups(p: float, groups: int, size: int, runs: int, correlation: float) -> statistics.Estimates:
    """Right or wrong units, one slice a run; a unit shares its group's answer with probability sqrt(correlation)."""
    draw = np.random.default_rng([int(100 * p), groups, size, int(10 * correlation)])
    group, n = np.repeat(np.arange(groups), size), groups * size
    shared = draw.random((runs, n)) < correlation**0.5
    value = np.where(shared, (draw.random((runs, groups)) < p)[:, group], draw.random((runs, n)) < p)
    of, unit = np.repeat(np.arange(runs), n), np.tile(np.arange(n), runs)
    return clustered(ratios(UnitTable(value.ravel() * 1.0, np.ones(runs * n), unit, np.tile(group, runs), of, runs)))


@pytest.mark.parametrize(("groups", "size", "p"), [(20, 30, 0.95), (15, 20, 0.9), (10, 20, 0.85), (30, 20, 0.95)])
def test_few_large_groups_near_the_ends_are_covered(groups: int, size: int, p: float) -> None:
    """With 20 x 30 the interval covered in 69 %, and a floor at the true value passed in 29 %."""
    found = luck_of_groups(p, groups, size, 600, 0.3)
    low, high = intervals(found, binary=True)
    assert np.mean((low <= p) & (p <= high)) >= 0.93 - 2 * (0.93 * 0.07 / 600) ** 0.5
    assert np.mean(statistics.bounds(found, binary=True)[0] >= p) <= 0.06 + 2 * (0.06 * 0.94 / 600) ** 0.5


def test_away_from_the_ends_the_variance_alone_decides() -> None:
    """20 groups of 30 with 15 % wrong: as much as three whole groups, which V would show."""
    value = np.ones(600)
    value[np.arange(600) % 20 < 3] = 0.0
    found = clustered(ratios(table(value, np.arange(600) // 30)))
    low, high = intervals(found, binary=True)
    n = 600 * (norm.ppf(0.975) / t.ppf(0.975, 19)) ** 2
    assert (low[0], high[0]) == pytest.approx(proportion_confint(0.85 * n, n, method="wilson"))


def test_the_interval_of_a_mean_is_wilsons_at_its_own_variance() -> None:
    draw = np.random.default_rng(5)
    value, group = draw.choice([0, 1 / 3, 2 / 3, 1], 120, p=[0.02, 0.03, 0.15, 0.8]), np.repeat(np.arange(60), 2)
    found = clustered(ratios(table(value, group)))
    r, df = value.mean(), 59
    n = r * (1 - r) / found.variance[0] * (norm.ppf(0.975) / t.ppf(0.975, df)) ** 2
    assert n > 120, "a mean of three samples varies less than one answer"
    low, high = intervals(found, binary=False)
    assert (low[0], high[0]) == pytest.approx(proportion_confint(r * n, n, method="wilson"))


@pytest.mark.parametrize("binary", [True, False])
def test_all_right_in_ten_groups_is_ten_observations(binary: bool) -> None:
    found = clustered(ratios(table(np.ones(100), np.repeat(np.arange(10), 10))))
    n = 10 * (norm.ppf(0.975) / t.ppf(0.975, 9)) ** 2
    low, high = intervals(found, binary=binary)
    assert (low[0], high[0]) == pytest.approx(proportion_confint(n, n, method="wilson"))


def test_an_interval_that_four_groups_alone_decide_is_that_of_the_groups() -> None:
    """Half a point in every pair but one: a variance from one group says nothing of the others."""
    value = np.full(80, 0.5)
    value[3] = 1.0
    found = clustered(ratios(table(value, np.repeat(np.arange(40), 2))))
    n = 40 * (norm.ppf(0.975) / t.ppf(0.975, 39)) ** 2
    low, high = intervals(found, binary=False)
    assert (low[0], high[0]) == pytest.approx(proportion_confint(value.mean() * n, n, method="wilson"))


@examples(60)
@given(grouped(least=9), levels)
def test_no_bound_of_a_mean_is_cut_off(data: tuple[Floats, NDArray[np.intp]], level: float) -> None:
    """0 and 1 are bounds only where the estimate is: Wilson's interval needs no clipping."""
    found = clustered(ratios(table(*data)))
    if not found.df[0] >= 4:
        return
    (low,), (high,) = intervals(found, binary=False, level=level)
    assert (low > 0) == (found.value[0] > 1e-12)
    assert (high < 1) == (found.value[0] < 1 - 1e-12)
    assert low <= found.value[0] + 1e-12
    assert found.value[0] - 1e-12 <= high


# R


CLUBSANDWICH = """
suppressMessages(library(clubSandwich))
given <- read.csv("stdin")
for (case in unique(given$case)) {
  rows <- given[given$case == case, ]
  fit <- lm(y ~ 1, data = rows, weights = w)
  V <- vcovCR(fit, cluster = rows$g, type = "CR2")
  test <- coef_test(fit, vcov = V, test = "Satterthwaite")
  df <- if ("df_Satt" %in% names(test)) test$df_Satt else test$df
  cat(case, sprintf("%.17g", as.numeric(coef(fit))), sprintf("%.17g", V[1, 1]), sprintf("%.17g", df), "\\n")
}
"""


def clubsandwich(cases: list[tuple[Floats, Floats, NDArray[np.intp]]]) -> Floats:
    """Estimate, CR2 variance and Satterthwaite's degrees of freedom by R, (cases, 3); skips where R is not there."""
    program = shutil.which("Rscript")
    if program is None:
        pytest.skip("R is not installed: apt-get install --no-install-recommends r-cran-clubsandwich")
    has = subprocess.run([program, "-e", "quit(status = !requireNamespace('clubSandwich'))"], capture_output=True)
    if has.returncode:
        pytest.skip("R has no clubSandwich: apt-get install --no-install-recommends r-cran-clubsandwich")
    lines = ["case,y,w,g"]
    for i, (y, w, g) in enumerate(cases):
        lines += [f"{i},{a:.17g},{b:.17g},{c}" for a, b, c in zip(y, w, g, strict=True)]
    done = subprocess.run(
        [program, "--vanilla", "-e", CLUBSANDWICH], input="\n".join(lines) + "\n", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return np.array([[float(each) for each in line.split()[1:]] for line in done.stdout.splitlines()])


def largest_differences(ours: list[statistics.Estimates], theirs: Floats) -> Floats:
    """The largest differences of estimates, and the largest relative ones of variances and degrees of freedom."""
    mine = np.array([[each.value[0], each.variance[0], each.df[0]] for each in ours])
    return np.asarray(np.max(np.abs(mine - theirs) / np.c_[np.ones(len(mine)), np.abs(theirs[:, 1:])], axis=0))


@pytest.mark.slow
def test_variance_and_degrees_of_freedom_are_those_of_clubsandwich() -> None:
    """Means of units with equal and other weights, and paired differences, over groups of equal and unequal sizes."""
    draw = np.random.default_rng(0)
    sizes = [[5] * 60, [10] * 10, [25, 20, 18, 8, 6, 5, 5, *[2] * 40], [1] * 50, [40, 1, 1, 1, 1, 2, 3]]
    cases, ours = [], []
    for each in sizes:
        group = np.repeat(np.arange(len(each)), each)
        for weighted in (False, True):
            weight = draw.integers(1, 3, len(group)).astype(float) if weighted else np.ones(len(group))
            shared = draw.random(len(each))[group]
            right = (draw.random((2, len(group))) < 0.5 * shared + 0.4).astype(float)
            cases += [(right[0], weight, group), (right[1] - right[0], weight, group)]
            new, old = (ratios(table(side, group, weight)) for side in (right[1], right[0]))
            ours += [clustered(old), clustered(statistics.difference(new, old))]
    found = largest_differences(ours, clubsandwich(cases))
    print(f"largest differences: estimate {found[0]:.1e}; relative: variance {found[1]:.1e}, df {found[2]:.1e}")
    assert found.max() < 1e-9


@pytest.mark.slow
@needs_reference
def test_variance_on_mediconfusion_is_that_of_clubsandwich() -> None:
    items = sorted(mediconfusion.items(REFERENCE), key=lambda item: item.id)
    _, group = np.unique([item.cluster_id for item in items], return_inverse=True)
    group, draw = group[::2], np.random.default_rng(1)
    right = (draw.random((2, len(group))) < 0.5).astype(float)
    one, other = (ratios(table(side, group)) for side in right)
    cases = [(right[0], np.ones(len(group)), group), (right[0] - right[1], np.ones(len(group)), group)]
    found = largest_differences([clustered(one), clustered(statistics.difference(one, other))], clubsandwich(cases))
    print(f"largest differences: estimate {found[0]:.1e}; relative: variance {found[1]:.1e}, df {found[2]:.1e}")
    assert found.max() < 1e-9
