"""Two runs on the same units: published values, matrices and scipy, and the laws of a comparison."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest, norm, t
from statsmodels.stats.contingency_tables import mcnemar

from medvqa.statistics import (
    Comparison,
    MarginRule,
    UnitTable,
    clustered,
    compare,
    decide,
    difference,
    flip_correlation,
    largest_icc,
    passable_margin,
    ratios,
    tango,
    units_needed,
)
from medvqa.statistics.paired import score_variance
from support.laws import examples

Floats = NDArray[np.float64]


def score(gained: float, lost: float, n: float, delta: float) -> float:
    b, c, m, d = (np.array(float(each)) for each in (gained, lost, n, delta))
    return float((b - c - m * d) / np.sqrt(score_variance(b, c, m, d)))


# Tango's interval


def test_tangos_own_examples() -> None:
    """Tango (1998), section 6: contact lenses (n 44, b 0, c 1) and sleeping difficulties (n 32, b 9, c 3)."""
    assert score(0, 1, 44, -0.1) == pytest.approx(1.709, abs=5e-4)
    assert tango(0, 1, 44, 0.95)[0] == pytest.approx(-0.096, abs=5e-4)
    assert tango(9, 3, 32, 0.975) == (pytest.approx(-0.027, abs=5e-4), pytest.approx(0.390, abs=5e-4))


def test_another_published_interval() -> None:
    """Fagerland, Lydersen and Laake (2014), Statistics in Medicine 33:2850, Table V: 1 and 7 discordant of 21."""
    assert tango(1, 7, 21, 0.975) == (pytest.approx(-0.517, abs=5e-4), pytest.approx(-0.026, abs=5e-4))


tables = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 200)).map(
    lambda drawn: (*drawn[:2], sum(drawn))
)


@given(tables, st.floats(0.6, 0.999))
def test_the_score_at_a_bound_is_the_quantile(counts: tuple[int, int, int], level: float) -> None:
    b, c, n = counts
    low, high = (float(bound) for bound in tango(b, c, n, level))
    assert -1 <= low <= (b - c) / n <= high <= 1
    assert score(b, c, n, low) == pytest.approx(norm.ppf(level), abs=1e-5)
    assert score(b, c, n, high) == pytest.approx(-norm.ppf(level), abs=1e-5)


@given(tables)
def test_swapping_the_counts_mirrors_tangos_interval(counts: tuple[int, int, int]) -> None:
    b, c, n = counts
    low, high = tango(b, c, n)
    assert tango(c, b, n) == (pytest.approx(-high, abs=1e-12), pytest.approx(-low, abs=1e-12))


def test_no_change_leaves_what_n_units_cannot_exclude() -> None:
    z = norm.ppf(0.95)
    assert tango(0, 0, 100) == (pytest.approx(-(z**2) / (100 + z**2)), pytest.approx(z**2 / (100 + z**2)))
    assert tango(10, 0, 10)[1] == 1


@pytest.mark.parametrize(("b", "c", "n", "level"), [(-1, 0, 9, 0.9), (5, 5, 9, 0.9), (0, 0, 0, 0.9), (1, 1, 9, 1.0)])
def test_impossible_counts_are_refused(b: int, c: int, n: int, level: float) -> None:
    with pytest.raises(ValueError, match="tango needs gained, lost >= 0"):
        tango(b, c, n, level)


# McNemar


def runs(
    new: Any, baseline: Any, group: Any = None, weight: Any = None, of: Any = None, unit: Any = None
) -> tuple[UnitTable, UnitTable]:
    new, baseline = np.asarray(new, float), np.asarray(baseline, float)
    weight = np.ones(len(new)) if weight is None else np.asarray(weight, float)
    unit = np.arange(len(new)) if unit is None else np.asarray(unit)
    of = np.zeros(len(new), dtype=int) if of is None else np.asarray(of)
    group = unit if group is None else np.asarray(group)
    first = UnitTable(new * weight, weight, unit, group, of, int(of.max(initial=0)) + 1)
    return first, replace(first, numerator=baseline * weight)


def counted(both: int, lost: int, gained: int, neither: int) -> tuple[UnitTable, UnitTable]:
    times = (both, lost, gained, neither)
    return runs(np.repeat([1, 0, 1, 0], times), np.repeat([1, 1, 0, 0], times))


def test_the_published_example_of_mcnemars_test() -> None:
    """Agresti (1990), page 350, approval of the president: 150 and 86 changed their minds, chi-square 17.356.

    That is the statistic without continuity correction, the square of Tango's score at no difference; with it,
    the chi-square is 16.818.
    """
    (found,) = compare(*counted(794, 150, 86, 570), binary=True)
    table = [[794, 150], [86, 570]]
    assert score(86, 150, 1600, 0.0) ** 2 == pytest.approx(17.356, abs=5e-4)
    assert mcnemar(table, exact=False, correction=False).statistic == pytest.approx(17.356, abs=5e-4)
    assert mcnemar(table, exact=False, correction=True).statistic == pytest.approx(16.818, abs=5e-4)
    assert found.mcnemar == pytest.approx(mcnemar(table, exact=True).pvalue)
    assert (found.gained, found.lost, found.units, found.groups, found.discordant_groups) == (86, 150, 1600, 1600, 236)
    assert found.difference == pytest.approx(-0.04)
    # The t distribution with 1599 degrees of freedom and CR2's n / (n - 1) are all that is between.
    assert found.worse == pytest.approx(norm.cdf(-(17.356**0.5)), rel=0.07)


@examples(40)
@given(st.integers(0, 60), st.integers(0, 60))
def test_exact_mcnemar_is_the_binomial_test(gained: int, lost: int) -> None:
    (found,) = compare(*counted(5, lost, gained, 5), binary=True)
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert found.mcnemar == pytest.approx(expected)


def test_no_exact_test_where_units_share_a_group() -> None:
    (found,) = compare(*runs([1, 0, 1, 0, 1, 1], [0, 1, 1, 0, 1, 1], [0, 0, 1, 2, 3, 4]), binary=True)
    assert found.mcnemar is None


# Comparisons


@st.composite
def paired(draw: st.DrawFn, binary: bool) -> dict[str, Any]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=12))
    group = np.repeat(np.arange(len(sizes)), sizes)
    value = st.sampled_from([0.0, 1.0] if binary else [0.0, 0.5, 1.0])
    values = st.lists(value, min_size=len(group), max_size=len(group))
    weight = st.lists(st.integers(1, 2), min_size=len(group), max_size=len(group))
    return {"new": draw(values), "baseline": draw(values), "group": group, "weight": draw(weight)}


def near(expected: float | None) -> Any:
    return None if expected is None else pytest.approx(expected, abs=1e-9)


def negated(value: float | None) -> float | None:
    return None if value is None else -value


@examples(40)
@given(st.booleans().flatmap(lambda binary: st.tuples(st.just(binary), paired(binary))))
def test_swapping_the_runs_negates_difference_and_bounds(drawn: tuple[bool, dict[str, Any]]) -> None:
    binary, data = drawn
    new, baseline = runs(**data)
    (one,), (other,) = compare(new, baseline, binary=binary), compare(baseline, new, binary=binary)
    assert other.difference == near(negated(one.difference))
    assert (other.low, other.high) == (near(negated(one.high)), near(negated(one.low)))
    assert (other.gained, other.lost) == (one.lost, one.gained)
    assert other.worse == near(None if one.worse is None else 1 - one.worse)
    for name in ("se", "df", "deff", "mcnemar", "units", "groups", "discordant_groups"):
        assert getattr(other, name) == near(getattr(one, name))


@examples(40)
@given(st.booleans().flatmap(lambda binary: st.tuples(st.just(binary), paired(binary))))
def test_bounds_contain_the_difference_and_agree_with_p(drawn: tuple[bool, dict[str, Any]]) -> None:
    binary, data = drawn
    (found,) = compare(*runs(**data), binary=binary)
    assert found.difference is not None
    if found.low is None or found.high is None or found.worse is None:
        assert found.df is None or found.df < 4
        return
    assert -1 <= found.low <= found.difference + 1e-12
    assert found.difference - 1e-12 <= found.high <= 1
    if abs(found.worse - 0.05) > 1e-9 and found.discordant_groups:
        assert (found.high < 0) == (found.worse < 0.05)


@examples(40)
@given(st.booleans().flatmap(lambda binary: st.tuples(st.just(binary), paired(binary))), st.randoms())
def test_the_order_of_rows_does_not_matter(drawn: tuple[bool, dict[str, Any]], random: Any) -> None:
    binary, data = drawn
    new, baseline = runs(**data)
    order = np.array(random.sample(range(len(new.unit)), len(new.unit)))
    names = ("numerator", "denominator", "unit", "group", "slice")
    moved = [replace(each, **{name: getattr(each, name)[order] for name in names}) for each in (new, baseline)]
    (one,), (other,) = compare(new, baseline, binary=binary), compare(*moved, binary=binary)
    for name in Comparison.__slots__:
        value = getattr(one, name)
        assert getattr(other, name) == (near(value) if isinstance(value, float) else value)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("times", [4, 9])
def test_as_many_groups_again_narrow_the_bounds_by_the_root(times: int, binary: bool) -> None:
    draw = np.random.default_rng(0)
    group = np.repeat(np.arange(80), 2)
    new, baseline = (draw.random((2, 160)) < 0.6).astype(float)
    (once,) = compare(*runs(new, baseline, group), binary=binary)
    copies = np.concatenate([group + 80 * i for i in range(times)])
    (again,) = compare(*runs(np.tile(new, times), np.tile(baseline, times), copies), binary=binary)
    assert once.low is not None
    assert once.high is not None
    assert again.low is not None
    assert again.high is not None
    assert (once.high - once.low) / (again.high - again.low) == pytest.approx(times**0.5, rel=0.03)
    assert again.difference == pytest.approx(once.difference)


@examples(40)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(5, 200))
def test_independent_units_have_tangos_interval_but_for_student(gained: int, lost: int, rest: int) -> None:
    (found,) = compare(*counted(rest, lost, gained, 0), binary=True)
    n = gained + lost + rest
    assert found.method == "tango"
    assert found.df == pytest.approx(n - 1)
    assert found.deff == pytest.approx(n / (n - 1) if gained + lost and gained - lost not in (n, -n) else 1)
    assert found.deff is not None
    shrunk = (norm.ppf(0.95) / t.ppf(0.95, n - 1)) ** 2 / found.deff
    low, high = tango(gained * shrunk, lost * shrunk, n * shrunk)
    assert (found.low, found.high) == (pytest.approx(float(low)), pytest.approx(float(high)))


def test_partial_credit_is_compared_by_the_mean_square_of_the_differences() -> None:
    """Tango's interval of right or wrong units with the same mean and variance, at the effective number."""
    draw = np.random.default_rng(1)
    new, baseline = draw.choice([0, 0.5, 1], (2, 60))
    group = np.arange(60) // 3
    first, second = runs(new, baseline, group)
    (found,) = compare(first, second, binary=False, icc=0.0)
    # The same as one ratio of the differences.
    (alone,) = (clustered(ratios(replace(first, numerator=new - baseline))),)
    change, square = float(np.mean(new - baseline)), float(np.mean((new - baseline) ** 2))
    assert (found.method, found.mcnemar, found.discordance) == ("score", None, pytest.approx(square))
    assert found.deff == pytest.approx(max(float(alone.variance[0]) / ((square - change**2) / 60), 1))
    assert found.deff is not None
    assert found.se == pytest.approx((found.deff * (square - change**2) / 60) ** 0.5)
    assert found.detectable == pytest.approx(2.4865 * (found.se or 0), rel=1e-4)
    trials = 60 / found.deff * (norm.ppf(0.95) / t.ppf(0.95, float(alone.df[0]))) ** 2
    low, high = tango((square + change) / 2 * trials, (square - change) / 2 * trials, trials)
    assert (found.low, found.high) == (pytest.approx(float(low)), pytest.approx(float(high)))
    assert (found.gained, found.lost) == (int(np.sum(new > baseline)), int(np.sum(new < baseline)))


@examples(40)
@given(paired(True))
def test_right_or_wrong_units_are_a_case_of_all_values(data: dict[str, Any]) -> None:
    one, other = (compare(*runs(**data), binary=binary)[0] for binary in (True, False))
    for name in ("low", "high", "worse", "se", "deff", "discordance"):
        assert getattr(one, name) == near(getattr(other, name))


def test_differences_that_are_almost_nothing_are_no_proof_of_no_change() -> None:
    """Scores of which each moved by a millionth: as if nothing had, with the bounds of so many units."""
    draw = np.random.default_rng(4)
    same, group = draw.random(300), np.repeat(np.arange(60), 5)
    moved, still = (
        compare(*runs(same + by * draw.standard_normal(300), same, group), binary=False)[0] for by in (1e-6, 0)
    )
    assert moved.discordant_groups == 60
    assert (moved.low, moved.high) == (pytest.approx(still.low, abs=2e-3), pytest.approx(still.high, abs=2e-3))
    assert still.low is not None
    assert still.low < -0.012


def test_pairs_flip_as_one_unit() -> None:
    """Both questions of pair 0 change in opposite directions: individual accuracy of the pair does not."""
    new, baseline = runs([1, 0, 1, 1, 0, 0], [0, 1, 0, 1, 0, 0], unit=[0, 0, 1, 1, 2, 2])
    (found,) = compare(new, baseline, binary=False)
    assert (found.units, found.gained, found.lost, found.discordant_groups) == (3, 1, 0, 1)


def test_a_ratio_whose_pairs_differ_between_runs_is_compared_by_its_influences() -> None:
    """Confusion: pairs that are valid in one run alone count there, and are no flips."""
    new, baseline = runs([1, 0, 1, 1, 0, 1, 0, 1], [1, 1, 0, 1, 0, 1, 0, 0])
    less = np.array([1.0, 1, 1, 1, 1, 1, 1, 0])
    baseline = replace(baseline, numerator=baseline.numerator * less, denominator=less)
    (found,) = compare(new, baseline, binary=True)
    assert found.method == "score"
    assert (found.units, found.gained, found.lost, found.discordant_groups) == (8, 1, 1, 3)
    assert found.difference == pytest.approx(5 / 8 - 4 / 7)
    # Influences of the units over their mean weights: (1/8 + 1/7) / 2, and 1/16 of the last one.
    new_part, old_part = (np.array([1, 0, 1, 1, 0, 1, 0, 1]) - 5 / 8) / 8, (np.array([1, 1, 0, 1, 0, 1, 0]) - 4 / 7) / 7
    change = new_part - np.r_[old_part, 0]
    square = np.sum(change**2 / np.r_[np.full(7, (1 / 8 + 1 / 7) / 2), 1 / 16]) + (5 / 8 - 4 / 7) ** 2
    assert found.discordance == pytest.approx(square)


def test_macro_averages_are_compared_over_their_slices() -> None:
    draw = np.random.default_rng(2)
    of = np.repeat([0, 1, 2], [40, 10, 30])
    new, baseline = runs(draw.random(80) < 0.5, draw.random(80) < 0.6, of=of)
    (found,) = compare(new, baseline, binary=True, over=[0, 1])
    parts = compare(new, baseline, binary=True)
    assert found.difference == pytest.approx(((parts[0].difference or 0) + (parts[1].difference or 0)) / 2)
    assert (found.units, found.method) == (50, "counts")
    assert found.gained == parts[0].gained + parts[1].gained
    assert found.se is not None
    assert parts[0].se is not None
    assert parts[1].se is not None
    assert found.se == pytest.approx((parts[0].se ** 2 + parts[1].se ** 2) ** 0.5 / 2)


def small_slices(lost: list[int], gained: list[int] | None = None) -> tuple[UnitTable, UnitTable]:
    """Two runs on slices of 3, 3, 3, 100 and 300 units, with these units lost and gained."""
    of = np.repeat(np.arange(5), [3, 3, 3, 100, 300])
    baseline = np.ones(len(of))
    baseline[gained or []] = 0
    new = np.ones(len(of))
    new[lost] = 0
    return runs(new, baseline, of=of)


def test_small_slices_without_a_flip_count_one_more_loss() -> None:
    """Each of their nine units weighs 1/15, so a loss of 10 points is not ruled out, whatever the large slices show."""
    (found,) = compare(*small_slices([20, 30, *range(120, 126)], [40, *range(130, 136)]), binary=True, over=range(5))
    assert found.low is not None
    assert found.high is not None
    assert found.low < -0.17
    assert found.high > 0.17
    rule = MarginRule(name="macro_accuracy", comparison=found, margin=0.1)
    assert decide([rule]).outcome == "INCONCLUSIVE"
    assert decide([replace(rule, unchanged=True)]).outcome == "PASS"
    assert found.detectable is not None
    assert found.detectable > 0.17


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("worse", [True, False])
def test_the_p_of_a_macro_average_is_that_of_its_bounds(binary: bool, worse: bool) -> None:
    sides = small_slices([0, 4, 10, 11, *range(120, 140)], [1])
    new, baseline = sides if worse else sides[::-1]
    (found,) = compare(new, baseline, binary=binary, over=range(5))
    assert found.worse is not None
    p = found.worse if worse else 1 - found.worse
    assert 0 < p < 0.5
    for alpha, excluded in ((p * 1.001, True), (p * 0.999, False)):
        (at,) = compare(new, baseline, binary=binary, over=range(5), level=1 - alpha)
        assert at.low is not None
        assert at.high is not None
        assert (at.high < 0 if worse else at.low > 0) == excluded


def test_a_declared_correlation_widens_a_macro_average_over_shared_groups() -> None:
    draw = np.random.default_rng(3)
    of, group = np.repeat(np.arange(6), 30), np.tile(np.arange(30), 6)
    new, baseline = runs(draw.random(180) < 0.9, draw.random(180) < 0.9, group=group, of=of)
    widths = []
    for icc in (0.0, 0.1, 0.5, 1.0):
        (found,) = compare(new, baseline, binary=True, over=range(6), icc=icc)
        assert found.low is not None
        assert found.difference is not None
        widths.append(found.difference - found.low)
    assert widths == sorted(widths)
    assert widths[-1] > 1.5 * widths[0]


def test_macro_averages_with_other_denominators_are_compared_by_the_units_changes() -> None:
    """A unit that counts in the baseline alone changes the difference little, and the bounds too."""
    new, baseline = small_slices([0, *range(120, 130)], list(range(140, 150)))
    less = np.ones(len(new.denominator))
    less[-1] = 0
    (alike,) = compare(new, baseline, binary=True, over=range(5))
    fewer = replace(new, numerator=new.numerator * less, denominator=less)
    (found,) = compare(fewer, baseline, binary=True, over=range(5))
    assert (found.low, found.high, found.worse) == pytest.approx((alike.low, alike.high, alike.worse), abs=0.02)


@pytest.mark.parametrize("binary", [True, False])
def test_nothing_changed(binary: bool) -> None:
    (found,) = compare(*counted(50, 0, 0, 50), binary=binary)
    assert (found.difference, found.gained, found.lost, found.worse) == (0, 0, 0, 0.5)
    assert found.low == pytest.approx(-0.026, abs=0.001)
    assert found.high == pytest.approx(0.026, abs=0.001)


@pytest.mark.parametrize("binary", [True, False])
def test_everything_changed(binary: bool) -> None:
    (found,) = compare(*counted(0, 40, 0, 0), binary=binary)
    assert (found.difference, found.low, found.lost) == (-1, -1, 40)
    assert found.worse is not None
    assert found.worse < 1e-6
    assert found.high is not None
    assert found.high < -0.8


def test_few_degrees_of_freedom_and_empty_slices_give_no_bounds() -> None:
    few, empty = compare(*(replace(each, slices=2) for each in runs([1, 0, 0], [0, 1, 0])), binary=True)
    assert (few.low, few.high, few.worse, few.detectable) == (None, None, None, None)
    assert few.difference == 0
    assert (empty.difference, empty.low, empty.units) == (None, None, 0)


def test_only_answers_may_differ() -> None:
    new, baseline = runs([1, 0, 1], [0, 0, 1])
    with pytest.raises(ValueError, match="only the numerators and denominators"):
        compare(new, replace(baseline, group=np.array([0, 0, 1])), binary=True)
    with pytest.raises(ValueError, match="2 measures cannot be compared with 1"):
        difference(ratios(replace(new, slices=2)), ratios(baseline))


# Planning


@pytest.mark.parametrize(("n", "margin"), [(176, 0.073), (1500, 0.025), (26_000, 0.006)])
def test_margins_that_can_be_passed(n: int, margin: float) -> None:
    assert passable_margin(n, 0.15) == pytest.approx(margin, abs=5e-4)
    assert units_needed(passable_margin(n, 0.15), 0.15) in (n, n + 1)


def test_few_groups_need_student_s_quantiles() -> None:
    """Ten groups: 2.262 and 0.883 in place of 1.960 and 0.842, both for the ends of a two-sided interval."""
    wider = passable_margin(100, 0.2, 10, df=9, level=0.975)
    assert wider / passable_margin(100, 0.2, 10, level=0.975) == pytest.approx(3.145 / 2.802, abs=1e-3)
    needed = units_needed(0.05, 0.2, 10, size=10, level=0.975)
    assert passable_margin(needed, 0.2, 10, df=needed / 10 - 1, level=0.975) == pytest.approx(0.05, rel=2e-3)
    assert needed > units_needed(0.05, 0.2, 10, level=0.975)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"discordance": 1.1}, {"deff": 0.5}, {"df": 0}])
def test_impossible_plans_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"planning needs"):
        passable_margin(**{"n": 100, "discordance": 0.15} | wrong)
    with pytest.raises(ValueError, match="margin must be above 0"):
        units_needed(0.0, 0.15)


def test_a_macro_average_over_nothing_that_is_defined_is_undefined() -> None:
    nothing = UnitTable(np.zeros(6), np.zeros(6), np.arange(6), np.arange(6), np.arange(6) % 2, slices=2)
    (seen,) = compare(nothing, nothing, binary=True, over=[0, 1])
    assert (seen.new, seen.baseline, seen.difference, seen.low, seen.worse, seen.units) == (*(None,) * 5, 0)


# Groups whose units may change together


def clustered_runs(
    groups: int, size: int, runs_: int, *, loss: float, correlation: float, noise: float = 0.0
) -> tuple[UnitTable, UnitTable]:
    """Simulated comparisons, one slice each: units fall with probability `loss`, and share their group's luck.

    With `noise`, this share of the other units is answered three times at a chance of 0.7: their means differ.
    """
    draw = np.random.default_rng([groups, size, int(100 * correlation)])
    group = np.repeat(np.arange(groups), size)
    n = len(group)
    shared = draw.random((runs_, n)) < correlation**0.5
    fell = np.where(shared, (draw.random((runs_, groups)) < loss)[:, group], draw.random((runs_, n)) < loss)
    noisy = ~fell & (draw.random((runs_, n)) < noise)
    before, after = (np.where(noisy, draw.binomial(3, 0.7, (runs_, n)) / 3, end) for end in (1.0, 1.0 - fell))
    of, unit = np.repeat(np.arange(runs_), n), np.tile(np.arange(n), runs_)
    baseline = UnitTable(before.ravel(), np.ones(runs_ * n), unit, np.tile(group, runs_), of, runs_)
    return replace(baseline, numerator=after.ravel()), baseline


@pytest.mark.parametrize("binary", [True, False])
def test_no_change_in_sixty_groups_is_no_change_at_the_declared_correlation(binary: bool) -> None:
    """300 questions about 60 images count as 300 / 1.4 at a correlation of 0.1, and as 60 at 1."""
    same, group = np.ones(300), np.repeat(np.arange(60), 5)
    for icc in (0.1, 1.0):
        (found,) = compare(*runs(same, same, group), binary=binary, icc=icc)
        n = 300 / (1 + 4 * icc) * (norm.ppf(0.95) / t.ppf(0.95, 59)) ** 2
        low, high = tango(0, 0, n)
        assert (found.low, found.high) == (pytest.approx(float(low)), pytest.approx(float(high)))
        assert found.detectable == pytest.approx(-float(low))


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("groups", "size", "margin"), [(20, 30, 0.05), (15, 20, 0.1), (60, 5, 0.02), (10, 10, 0.05)])
@pytest.mark.parametrize("correlation", [0.1, 0.3, 0.9])
def test_a_loss_of_the_margin_seldom_passes_at_the_declared_correlation(
    groups: int, size: int, margin: float, correlation: float, noise: float
) -> None:
    """At 20 x 30 it passed in 18 and 33 % of one answer, and in 10 to 19 % of samples, which hid the few groups."""
    sides = clustered_runs(groups, size, 400, loss=margin, correlation=correlation, noise=noise)
    found = compare(*sides, binary=noise == 0, icc=correlation)
    passed = np.mean([each.low is not None and each.low > -margin for each in found])
    assert passed <= 0.06 + 2 * (0.06 * 0.94 / 400) ** 0.5


def test_an_unchanged_model_passes_in_few_large_groups() -> None:
    """5 % of the questions flip either way: 20 patients with 30 questions each are still enough for 5 points."""
    draw = np.random.default_rng(7)
    rank, of = draw.random((400, 600)), np.repeat(np.arange(400), 600)
    unit, group = np.tile(np.arange(600), 400), np.tile(np.arange(600) // 30, 400)
    new, old = (UnitTable((r >= 0.025).ravel() * 1.0, np.ones(len(of)), unit, group, of, 400) for r in (rank, 1 - rank))
    found = compare(new, old, binary=True)
    assert np.mean([each.low is not None and each.low > -0.05 for each in found]) >= 0.85


@examples(60)
@given(st.integers(0, 20), st.integers(0, 20), st.integers(12, 40), st.integers(2, 6), st.booleans(), st.floats(0, 1))
def test_the_bounds_are_at_least_those_of_the_declared_correlation(
    gained: int, lost: int, groups: int, size: int, binary: bool, icc: float
) -> None:
    group, total = np.repeat(np.arange(groups), size), groups * size
    new, baseline = np.ones(total), np.ones(total)
    up, down = np.arange(total)[: min(gained, total // 2)], np.arange(total)[::-1][: min(lost, total // 2)]
    baseline[up], new[down] = 0.0, 0.0
    (found,) = compare(*runs(new, baseline, group), binary=binary, icc=icc)
    n = total / (1 + (size - 1) * icc) * (norm.ppf(0.95) / t.ppf(0.95, groups - 1)) ** 2
    low, high = (float(bound) for bound in tango(len(up) / total * n, len(down) / total * n, n))
    assert found.low is not None
    assert found.high is not None
    assert found.low <= low + 1e-9
    assert found.high >= high - 1e-9


@examples(40)
@given(st.integers(0, 4), st.integers(0, 4), st.integers(20, 200), st.booleans())
def test_few_flips_of_independent_units_are_bounded_as_any_other(
    gained: int, lost: int, rest: int, binary: bool
) -> None:
    """Where groups are units there is nothing to declare: the design effect of full correlation is 1."""
    (found,) = compare(*counted(rest, lost, gained, 0), binary=binary, icc=1.0)
    n = gained + lost + rest
    trials = n * (norm.ppf(0.95) / t.ppf(0.95, n - 1)) ** 2 / (found.deff or 1)
    low, high = tango(gained / n * trials, lost / n * trials, trials)
    assert (found.low, found.high) == (pytest.approx(float(low)), pytest.approx(float(high)))
    assert found.deff is not None
    assert found.deff <= n / (n - 1) + 1e-9
    assert largest_icc(found, 1.0) == 1


@pytest.mark.parametrize(("each", "deff"), [(1, 1.4), (5, 5.08)])
def test_the_design_effect_is_the_larger_of_the_declared_and_the_measured_one(each: int, deff: float) -> None:
    """Five groups of 60 lose one unit each, or all five."""
    group = np.repeat(np.arange(60), 5)
    baseline, new = np.ones(300), np.ones(300)
    new[group < 5] = np.tile(np.arange(5) >= each, 5)
    (found,) = compare(*runs(new, baseline, group), binary=True)
    assert found.discordant_groups == 5
    assert found.deff == pytest.approx(deff, abs=0.01)


def test_the_declared_design_effect_of_unequal_groups_weighs_as_the_groups_do() -> None:
    """One group holds a third of the units: the effective number of groups is 1 / sum of squared shares, and not 31."""
    group = np.repeat(np.arange(31), [30] + [2] * 30)
    shares = np.bincount(group) / 90
    (found,) = compare(*runs(np.ones(90), np.r_[np.ones(89), 0], group), binary=True)
    assert found.df is not None
    assert found.df >= 4
    assert found.together == pytest.approx(90 * np.sum(shares**2))
    assert found.deff == pytest.approx(1 + (90 * np.sum(shares**2) - 1) * 0.1)


@examples(60)
@given(st.integers(0, 8), st.integers(0, 8), st.integers(10, 60), st.integers(2, 8), st.floats(0.01, 0.3))
def test_a_margin_is_ruled_out_up_to_the_largest_correlation_that_is_told(
    gained: int, lost: int, groups: int, size: int, margin: float
) -> None:
    group, total = np.repeat(np.arange(groups), size), groups * size
    new, baseline = np.ones(total), np.ones(total)
    baseline[:gained], new[total - lost :] = 0.0, 0.0
    sides = runs(new, baseline, group)

    def passes(icc: float) -> bool:
        low = compare(*sides, binary=True, icc=icc)[0].low
        return low is not None and low > -margin

    told = largest_icc(compare(*sides, binary=True, icc=0.0)[0], margin)
    assert (told is None) == (not passes(0.0))
    if told is not None:
        assert passes(max(told - 1e-6, 0))
        assert told == 1 or not passes(told + 1e-6)


def test_no_correlation_is_told_without_bounds() -> None:
    (few,) = compare(*runs([1, 0, 0], [0, 1, 0]), binary=True)
    assert largest_icc(few, 0.9) is None


def test_the_largest_correlation_of_a_macro_average_is_where_its_bound_is_the_margin() -> None:
    draw = np.random.default_rng(3)
    of, group = np.repeat(np.arange(6), 100), np.tile(np.arange(100), 6)
    old = draw.random(600) < 0.9
    sides = runs(np.where(draw.random(600) < 0.05, ~old, old), old, group=group, of=of)
    (found,) = compare(*sides, binary=True, over=range(6))
    icc = largest_icc(found, 0.08)
    assert icc is not None
    assert 0.1 < icc < 1
    (at,) = compare(*sides, binary=True, over=range(6), icc=icc)
    assert at.low == pytest.approx(-0.08, abs=1e-6)
    assert (largest_icc(found, 0.001), largest_icc(found, 0.5)) == (None, 1.0)


# Shown to be alike, and the correlation of flips


@st.composite
def answered(draw: st.DrawFn) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """The values of two runs on units in groups, most of which do not change."""
    n, size, seed = draw(st.integers(8, 400)), draw(st.integers(1, 5)), draw(st.integers(0, 1000))
    flips, rise = draw(st.sampled_from([0.0, 0.02, 0.1, 0.4])), draw(st.floats(0, 1))
    chance = np.random.default_rng(seed)
    old = (chance.random(n) < 0.7).astype(float)
    new = np.where(chance.random(n) < flips, (chance.random(n) < rise).astype(float), old)
    return new, old, np.arange(n) // size


def analysis(change: Floats, group: NDArray[np.intp]) -> float:
    """The intraclass correlation from the sums of squares, group by group."""
    parts = [change[group == each] for each in np.unique(group)]
    n, sizes = len(change), np.array([len(each) for each in parts])
    between = sum(len(each) * (each.mean() - change.mean()) ** 2 for each in parts) / (len(parts) - 1)
    within = sum(((each - each.mean()) ** 2).sum() for each in parts) / (n - len(parts))
    size = (n - (sizes**2).sum() / n) / (len(parts) - 1)
    return float((between - within) / (between + (size - 1) * within))


@examples(60)
@given(answered())
def test_the_correlation_of_flips_is_that_of_an_analysis_of_variance(
    runs: tuple[Floats, Floats, NDArray[np.intp]],
) -> None:
    new, old, group = runs
    found = flip_correlation(new - old, group)
    assert (found.units, found.flips) == (len(new), int((new != old).sum()))
    if len(np.unique(group)) in (1, 2, len(group)) or not found.flips:
        assert found.icc is None
        return
    assert found.icc == pytest.approx(max(analysis(new - old, group), -1), abs=1e-9)
    assert -1 <= (found.low or 0) <= found.icc <= (found.high or 0) <= 1
    order = np.random.default_rng(0).permutation(len(group))
    again = flip_correlation((old - new)[order], group[order] + 7)
    assert (again.icc, again.low, again.high) == pytest.approx((found.icc, found.low, found.high), abs=1e-6)


def test_the_interval_of_the_correlation_leaves_out_one_group_at_a_time() -> None:
    change = np.array([0, 0, 1, 1, 0, 0, -1, 0, 0, 0, 0, 0, 1, 0, 0], dtype=float)
    group = np.repeat([0, 1, 2, 3, 4, 5], [2, 2, 3, 2, 4, 2])
    found = flip_correlation(change, group)
    size = (15 - (np.bincount(group) ** 2).sum() / 15) / 5
    scaled = [
        np.log((1 + (size - 1) * icc) / (1 - icc)) / 2
        for icc in (analysis(change[kept], group[kept]) for kept in (group != each for each in range(6)))
    ]
    reach = t.ppf(0.975, 5) * np.sqrt(5 / 6 * ((scaled - np.mean(scaled)) ** 2).sum())
    centre = np.log((1 + (size - 1) * analysis(change, group)) / (1 - analysis(change, group))) / 2
    ends = [(np.exp(2 * z) - 1) / (np.exp(2 * z) + size - 1) for z in (centre - reach, centre + reach)]
    assert (found.low, found.high) == pytest.approx(ends)
