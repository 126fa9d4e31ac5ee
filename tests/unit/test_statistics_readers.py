"""Readers and cases both random: published examples to every printed digit, identities, laws, and what is undefined."""

from collections.abc import Callable
from dataclasses import astuple
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm, t

from medvqa import statistics
from medvqa.statistics import readers
from medvqa.statistics.readers import against_model, mean_of_readers, non_inferior, two_tests, warning
from support.laws import examples

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "mrmc"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")
Floats = NDArray[np.float64]


def van_dyke() -> Floats:
    """Scores, (2 tests, 5 readers, 45 cases)."""
    rows = np.genfromtxt(REFERENCE / "vandyke_binary_sens.csv", delimiter=",", skip_header=1)
    return rows[:, 1:].T.reshape(2, 5, 45)


def thinned(scores: Floats) -> Floats:
    """Leave two readers a case, in a fixed pattern that gives each reader 18 cases."""
    kept = np.full_like(scores, np.nan)
    for case in range(scores.shape[-1]):
        first = case % 5
        for reader in (first, (first + 1 + case // 5 % 4) % 5):
            kept[..., reader, case] = scores[..., reader, case]
    return kept


def made(readers_: int = 5, questions: int = 40, seed: int = 0) -> Floats:
    """Scores of readers with different abilities for questions with different difficulties."""
    draw = np.random.default_rng(seed)
    ability, difficulty = 0.5 * draw.standard_normal((readers_, 1)), draw.standard_normal(questions)
    return (ability + difficulty + draw.standard_normal((readers_, questions)) > -0.8).astype(float)


def two_a_question(scores: Floats, seed: int = 0) -> Floats:
    order = np.argsort(np.random.default_rng(seed).random(scores.shape), axis=0)
    return np.where(order < 2, scores, np.nan)


def near(value: float, digits: int) -> Any:
    """Equal in as many decimals as are printed."""
    return pytest.approx(value, rel=0, abs=0.5000001 * 10**-digits)


# Published examples


@needs_reference
def test_the_tables_of_van_dyke() -> None:
    scores, cases = van_dyke(), np.arange(45)
    theta, covariance = readers.jackknife(scores.reshape(10, 45), cases)
    theta = theta.reshape(2, 5)
    assert theta.round(3).tolist() == [[0.889, 0.778, 0.822, 0.933, 0.689], [0.978, 0.822, 0.911, 1.0, 0.889]]
    mean, of_test, of_reader = theta.mean(), theta.mean(axis=1, keepdims=True), theta.mean(axis=0)
    assert 5 * ((of_test - mean) ** 2).sum() == near(0.02390123, 8)
    assert 2 * ((of_reader - mean) ** 2).sum() / 4 == near(0.0124198, 7)
    between = theta - of_test - of_reader + mean
    assert (between**2).sum() / 4 == near(0.001802469, 9)
    same_test, same_reader = np.repeat(np.eye(2), 5, axis=0).repeat(5, axis=1) > 0, np.tile(np.eye(5), (2, 2)) > 0
    assert covariance[same_test & same_reader].mean() == near(0.0023681257, 10)
    assert covariance[~same_test & same_reader].mean() == near(0.0009943883, 10)
    assert covariance[same_test & ~same_reader].mean() == near(0.0010145903, 10)
    assert covariance[~same_test & ~same_reader].mean() == near(0.0006604938, 10)


@needs_reference
def test_two_tests_of_van_dyke() -> None:
    one, other = van_dyke()
    found = two_tests(one, other, np.arange(45))
    assert found.t is not None
    assert found.t**2 == near(6.689493, 6)
    assert (found.df, found.p) == (near(15.71732, 5), near(0.02008822, 8))
    assert (found.value, found.se) == (near(-0.09777778, 8), near(0.03780451, 8))
    assert (found.low, found.high) == (near(-0.1780371, 7), near(-0.0175185, 7))
    assert (found.readers, found.cases, found.method) == (5, 45, "Obuchowski-Rockette")


@needs_reference
def test_one_test_of_van_dyke() -> None:
    one, other = van_dyke()
    found = mean_of_readers(one, np.arange(45))
    assert (found.value, found.se, found.df) == (near(0.8222222, 7), near(0.05893747, 8), near(14.456811, 6))
    assert (found.low, found.high) == (near(0.6961876, 7), near(0.9482568, 7))
    found = mean_of_readers(other, np.arange(45))
    assert (found.value, found.se, found.df) == (near(0.92, 7), near(0.03741657, 8), near(7.575855, 6))
    assert (found.low, found.high) == (near(0.8328691, 7), 1.0)
    uncut = readers.obuchowski_rockette(*readers.jackknife(other, np.arange(45)))
    assert uncut.high == near(1.0071, 4)


@needs_reference
def test_a_cad_system_against_the_readers_of_nico() -> None:
    rows = np.genfromtxt(REFERENCE / "nico_cad_roc.csv", delimiter=",", names=True, deletechars='"')
    truth = rows["truth"]
    ratings = np.stack([rows["cad"], *(rows[f"r{reader}"] for reader in range(1, 10))])
    without, with_lesion = ratings[:, truth == 0], ratings[:, truth == 1]
    wins = (with_lesion[:, :, None] > without[:, None]) + 0.5 * (with_lesion[:, :, None] == without[:, None])
    area, (diseased, healthy) = wins.mean(axis=(1, 2)), wins.shape[1:]
    left_out = np.concatenate(
        [
            (wins.sum(axis=(1, 2))[:, None] - wins.sum(axis=1)) / (diseased * (healthy - 1)),
            (wins.sum(axis=(1, 2))[:, None] - wins.sum(axis=2)) / ((diseased - 1) * healthy),
        ],
        axis=1,
    )
    psi = left_out[1:] - left_out[0]
    cases = psi.shape[1]
    centred = psi - psi.mean(axis=1, keepdims=True)
    covariance = centred @ centred.T * (cases - 1) / cases
    differences = area[1:] - area[0]
    assert (cases, area[0], area[1:].mean()) == (200, near(0.8169271, 7), near(0.8486632, 7))
    assert covariance.trace() / 9 == near(0.001399549, 9)
    assert (covariance.sum() - covariance.trace()) / 72 == near(0.000924168, 9)
    assert differences.var(ddof=1) == near(0.0008777927, 10)
    found = readers.obuchowski_rockette(differences, covariance)
    assert (found.value, found.t) == (near(0.03173611, 8), near(0.9928689, 7))
    assert (found.df, found.p) == (near(877.8864, 4), near(0.3210474, 7))
    assert (found.low, found.high) == (near(-0.03099877, 8), near(0.09447099, 8))


def variance(scores: Floats) -> float:
    """The U-statistic of scores with a question a case."""
    seen = ~np.isnan(scores)
    return readers.u_statistic(seen / seen.sum(), np.nan_to_num(scores))[0]


@needs_reference
def test_the_u_statistic_is_that_of_imrmc() -> None:
    one, other = van_dyke()
    assert variance(one - other) == near(0.001429180696, 12)
    assert two_tests(one, other, np.arange(45)).se == pytest.approx(variance(one - other) ** 0.5)
    one, other = thinned(van_dyke())
    assert variance(one) == near(0.0052582159624, 13)
    assert variance(other) == near(0.0003755868545, 13)
    assert variance(one - other) == near(0.0030672926448, 13)
    found = two_tests(one, other, np.arange(45))
    assert (found.value, found.method) == (near(-0.1333333, 7), "U-statistic")
    assert found.se == pytest.approx(variance(one - other) ** 0.5)
    assert [mean_of_readers(each, np.arange(45)).value for each in (one, other)] == [near(0.8, 7), near(0.9333333, 7)]
    # A part of cases that is estimated below 0 counts as 0, as in Obuchowski and Rockette's method.
    assert mean_of_readers(other, np.arange(45)).se == pytest.approx(0.000432098765**0.5)


@needs_reference
def test_a_model_is_compared_as_two_tests_with_its_answers_for_every_reader() -> None:
    one, other = van_dyke()
    found = against_model(other[4], one, np.arange(45))
    assert found.t == near(0.98337834, 8)
    assert (found.df, found.p) == (near(25.30806857, 8), near(0.33472961, 8))
    # Obuchowski and Rockette's F, from their mean squares and covariances.
    theta, covariance = readers.jackknife(np.concatenate([one, np.tile(other[4], (5, 1))]), np.arange(45))
    theta, blocks = theta.reshape(2, 5), covariance.reshape(2, 5, 2, 5)
    between = theta - theta.mean(axis=1, keepdims=True) - theta.mean(axis=0) + theta.mean()
    apart = ~np.eye(5, dtype=bool)
    cov2 = (blocks[0, :, 0][apart].mean() + blocks[1, :, 1][apart].mean()) / 2
    below = (between**2).sum() / 4 + max(5 * (cov2 - blocks[0, :, 1][apart].mean()), 0)
    assert found.t is not None
    assert found.t**2 == pytest.approx(5 * (theta[0].mean() - theta[1].mean()) ** 2 / 2 / below)
    assert found.df == pytest.approx(below**2 / (((between**2).sum() / 4) ** 2 / 4))


# Identities without data


@pytest.mark.parametrize("each", [1, 4])
def test_with_crossed_readers_the_u_statistic_is_the_variance_of_obuchowski_and_rockette(each: int) -> None:
    scores, groups = made(), np.arange(40) // each
    cells = scores.reshape(5, -1, each).mean(axis=2)
    both, of_readers = readers.u_statistic(np.full(cells.shape, 1 / cells.size), cells)
    theta, covariance = readers.jackknife(scores, groups)
    assert of_readers == pytest.approx(theta.var(ddof=1) / 5)
    assert both - of_readers == pytest.approx((covariance.sum() - covariance.trace()) / 20)
    assert mean_of_readers(scores, groups).se == pytest.approx(both**0.5)


def test_the_jackknife_leaves_out_patients() -> None:
    scores, groups = made(questions=12), np.array([0, 0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 7])
    left_out = np.stack([scores[:, groups != group].mean(axis=1) for group in range(8)])
    expected = np.cov(left_out.T, ddof=0) * 7
    assert readers.jackknife(scores, groups)[1] == pytest.approx(expected)


def test_questions_of_one_patient_are_one_case() -> None:
    """Four copies of a question for a patient tell as much as one, and less than four patients."""
    for scores in (made(), two_a_question(made())):
        copies, groups = np.repeat(scores, 4, axis=1), np.arange(40).repeat(4)
        alone, copied = mean_of_readers(scores, np.arange(40)), mean_of_readers(copies, groups)
        assert astuple(copied)[:5] == pytest.approx(astuple(alone)[:5])
        assert copied.cases == alone.cases == 40
        as_patients = mean_of_readers(copies, np.arange(160))
        assert as_patients.se is not None
        assert copied.se is not None
        assert as_patients.se < copied.se


@pytest.mark.parametrize("thin", [lambda scores: scores, two_a_question])
def test_these_readers_alone_have_the_interval_of_every_run(thin: Callable[[Floats], Floats]) -> None:
    scores, groups = thin(made()), np.arange(40) // 2
    means = np.nanmean(scores, axis=0)
    zeros = np.zeros(40, dtype=int)
    run = statistics.UnitTable(means, np.ones(40), np.arange(40), groups, zeros)
    expected = statistics.estimate(run, binary=False)
    found = mean_of_readers(scores, groups, fixed=True)
    assert (found.value, found.low, found.high) == (expected.value[0], expected.low[0], expected.high[0])
    model = made(1, seed=7)[0]
    other = statistics.UnitTable(model, np.ones(40), np.arange(40), groups, zeros)
    (compared,) = statistics.compare(other, run, binary=False, level=0.975)
    difference = against_model(model, scores, groups, fixed=True)
    assert (difference.value, difference.low, difference.high) == (
        compared.difference,
        compared.low,
        compared.high,
    )
    assert found.method == difference.method == "these readers alone"


def test_one_reader_of_right_and_wrong_has_the_interval_of_a_model() -> None:
    scores, groups = np.tile([0.0, 1.0], 20)[None], np.arange(40) // 2
    scores[0, :6], scores[0, 6:12] = 0, 1
    table = statistics.UnitTable(scores[0], np.ones(40), np.arange(40), groups, np.zeros(40, dtype=int))
    expected, narrower = (statistics.estimate(table, binary=binary) for binary in (True, False))
    assert expected.low[0] < narrower.low[0]
    found = mean_of_readers(scores, groups, fixed=True)
    assert (found.low, found.high) == (expected.low[0], expected.high[0])


def test_readers_who_do_not_read_everything_have_cochran_and_coxs_quantile() -> None:
    scores, cases = two_a_question(made()), np.arange(40)
    seen = ~np.isnan(scores)
    both, of_readers = readers.u_statistic(seen / 80, np.nan_to_num(scores))
    assert 0 < of_readers < both
    shares = seen.sum(axis=1) / 80
    assert shares.tolist() != [0.2] * 5
    equal_loads = t.ppf(0.975, [4, 39]) @ [of_readers / both, 1 - of_readers / both]
    difference = two_tests(scores, np.zeros_like(scores), cases)
    assert difference.se == pytest.approx(both**0.5)
    assert difference.value is not None
    assert difference.low is not None
    half = difference.value - difference.low
    # Unequal loads cost degrees of freedom.
    assert equal_loads < half / both**0.5 < 1.2 * equal_loads
    mean = mean_of_readers(scores, cases)
    assert mean.value is not None
    trials = mean.value * (1 - mean.value) * (norm.ppf(0.975) / half) ** 2
    low, high = statistics.wilson(mean.value * trials, trials)
    assert (mean.low, mean.high) == (pytest.approx(float(low)), pytest.approx(float(high)))


def test_equal_loads_have_the_quantile_of_the_number_of_readers() -> None:
    scores = np.full((5, 40), np.nan)
    for shift in (0, 1):
        scores[(np.arange(40) + shift) % 5, np.arange(40)] = made()[(np.arange(40) + shift) % 5, np.arange(40)]
    both, of_readers = readers.u_statistic(~np.isnan(scores) / 80, np.nan_to_num(scores))
    found = two_tests(scores, np.zeros_like(scores), np.arange(40))
    share = max(of_readers, 0) / max(both, of_readers)
    assert t.ppf(0.975, found.df) == pytest.approx(t.ppf(0.975, [4, 39]) @ [share, 1 - share])


def test_a_negative_part_of_cases_counts_as_0() -> None:
    theta = np.array([0.6, 0.7, 0.8])
    found = readers.obuchowski_rockette(theta, np.diag([0.02, 0.02, 0.02]) - 0.01)
    assert (found.se, found.df) == (pytest.approx((0.01 / 3) ** 0.5), pytest.approx(2))


def test_intervals_are_cut_where_no_score_can_be() -> None:
    scores = np.zeros((2, 20))
    scores[0] = 1
    mean, difference = mean_of_readers(scores, np.arange(20)), two_tests(scores, 0 * scores, np.arange(20))
    assert (mean.low, mean.high) == (0, 1)
    assert (difference.low, difference.high) == (-1, 1)


def test_unequal_loads_do_not_bias_the_variance() -> None:
    """One reader of most questions: the mean variance of many studies is that of their means."""
    draw = np.random.default_rng(3)
    seen = np.zeros((4, 60), dtype=bool)
    seen[0], seen[1, :20], seen[2, 20:30], seen[3, 30:40] = True, True, True, True
    weight = seen / (seen.sum(axis=0) * 60)
    found, means = [], []
    for _ in range(4000):
        ability, difficulty = 0.4 * draw.standard_normal((4, 1)), 0.7 * draw.standard_normal(60)
        right = (ability + difficulty + draw.standard_normal((4, 60)) > -1.5).astype(float)
        found.append(readers.u_statistic(weight, right)[0])
        means.append(float((weight * right).sum()))
    assert np.mean(found) == pytest.approx(np.var(means), rel=0.15)


# Undefined


def test_what_is_undefined_is_none() -> None:
    scores, cases = made(), np.arange(40)
    nothing = np.full((3, 40), np.nan)
    right = np.ones((4, 40))
    random = [
        mean_of_readers(nothing, cases),
        mean_of_readers(scores[:1], cases),
        mean_of_readers(scores, np.zeros(40, dtype=int)),
        mean_of_readers(scores, cases // 10),
        mean_of_readers(right, cases),
        mean_of_readers(two_a_question(right), cases),
        mean_of_readers(np.zeros((0, 40)), cases),
    ]
    assert [(each.low, each.high, each.se, each.df) for each in random] == [(None,) * 4] * 7
    assert [each.value is None for each in random] == [True, False, False, False, False, False, True]
    assert [each.readers for each in random] == [0, 1, 5, 5, 4, 4, 0]
    assert [each.cases for each in random] == [0, 40, 1, 4, 40, 40, 0]
    equal = against_model(scores[0], np.tile(scores[0], (3, 1)), cases)
    assert (equal.value, equal.low, equal.t, equal.p) == (0.0, None, None, None)
    assert non_inferior(equal, 0.05) is None
    alone = mean_of_readers(right, cases, fixed=True)
    assert (alone.value, alone.high) == (1.0, 1.0)
    assert alone.low is not None
    assert 0.8 < alone.low < 1
    assert mean_of_readers(nothing, cases, fixed=True).value is None
    assert mean_of_readers(scores, np.zeros(40, dtype=int), fixed=True).low is None
    assert against_model(np.full(40, np.nan), scores, cases).value is None
    assert against_model(np.full(40, np.nan), scores, cases, fixed=True).value is None


@pytest.mark.parametrize(("loads", "df"), [((30, 10), 1), ((20, 20), 1), ((20, 20, 20), 2), ((48, 6, 6), 1.118)])
def test_the_degrees_of_freedom_are_those_of_the_readers_if_only_they_differ(loads: tuple[int, ...], df: float) -> None:
    """Readers who each score the same everywhere; each reads other questions."""
    reader = np.repeat(np.arange(len(loads)), loads)
    scores = np.full((len(loads), len(reader)), np.nan)
    scores[reader, np.arange(len(reader))] = np.linspace(0.2, 0.8, len(loads))[reader]
    assert mean_of_readers(scores, np.arange(len(reader))).df == pytest.approx(df, rel=1e-3)


def test_identical_readers_leave_the_cases() -> None:
    """No variance between readers: the degrees of freedom are those of the cases, and V is that of one reader."""
    one = made(1, 60)
    found = mean_of_readers(np.tile(one, (4, 1)), np.arange(60))
    assert found.df == pytest.approx(59)
    assert found.se == pytest.approx((one.var(ddof=1) / 60) ** 0.5)


def test_readers_and_questions_without_a_reading_do_not_count() -> None:
    scores, groups = two_a_question(made()), np.arange(40) // 2
    padded = np.full((7, 44), np.nan)
    padded[1:6, 2:42] = scores
    expected = mean_of_readers(scores, groups)
    assert mean_of_readers(padded, np.concatenate([[90, 91], groups, [92, 93]])) == expected
    model = made(1, seed=7)[0]
    model[:5] = np.nan
    found, without = against_model(model, scores, groups), against_model(model[5:], scores[:, 5:], groups[5:])
    assert found == without
    assert found.cases == 18


@pytest.mark.parametrize(
    ("scores", "groups"),
    [
        (np.zeros(3), np.arange(3)),
        (np.zeros((2, 3)), np.arange(4)),
        (np.full((2, 3), 1.5), np.arange(3)),
        (np.full((2, 3), -0.1), np.arange(3)),
        (np.full((2, 3), np.inf), np.arange(3)),
    ],
)
def test_scores_that_are_none_are_refused(scores: Floats, groups: NDArray[np.intp]) -> None:
    with pytest.raises(ValueError, match="scores must be"):
        mean_of_readers(scores, groups)
    with pytest.raises(ValueError, match="scores must be"):
        two_tests(scores, scores, groups)


def test_a_margin_is_passed_by_the_lower_end() -> None:
    scores = made(6, 200)
    difference = against_model(scores[0], scores, np.arange(200))
    assert difference.low is not None
    assert non_inferior(difference, -difference.low + 1e-9) is True
    assert non_inferior(difference, -difference.low) is False
    with pytest.raises(ValueError, match="above 0"):
        non_inferior(difference, 0)


def test_few_readers_are_warned_about() -> None:
    for crossed in (True, False):
        warned = [bool(warning(count, crossed=crossed)) for count in range(8)]
        assert warned == [False, True, True, True, True, False, False, False]
        assert all("these readers alone" in warning(count, crossed=crossed) for count in (2, 3, 4))
        assert warning(1, crossed=crossed).startswith("One reader shows nothing about other readers")
    assert "in 87 % of studies at worst" in warning(3, crossed=True)


# Laws


@st.composite
def studies(draw: st.DrawFn) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """A model's scores, readers' scores with gaps, and groups."""
    shape = draw(st.integers(1, 5)), draw(st.integers(1, 14))
    score = st.sampled_from([0.0, 0.5, 1.0, np.nan])
    values = draw(st.lists(score, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    model = draw(st.lists(score, min_size=shape[1], max_size=shape[1]))
    groups = draw(st.lists(st.integers(0, 9), min_size=shape[1], max_size=shape[1]))
    return np.array(model), np.array(values).reshape(shape), np.array(groups)


@given(studies(), st.booleans(), st.randoms(use_true_random=False))
@examples(200)
def test_laws(study: tuple[Floats, Floats, NDArray[np.intp]], fixed: bool, draw: Any) -> None:
    model, scores, groups = study
    mean, difference = mean_of_readers(scores, groups, fixed=fixed), against_model(model, scores, groups, fixed=fixed)
    for record in (mean, difference):
        numbers = [number for number in astuple(record) if isinstance(number, float)]
        assert not any(isnan(number) for number in numbers)
        assert (record.low is None) == (record.high is None) == (record.se is None) == (record.df is None)
        value = record.value
        if record.low is not None:
            assert value is not None
            assert record.high is not None
            assert record.low - 1e-9 <= value <= record.high + 1e-9
    assert mean.low is None or mean.low >= 0
    assert mean.high is None or mean.high <= 1
    # Neither the order of readers nor that of questions matters, nor the names of groups.
    rows, columns = list(range(len(scores))), list(range(len(groups)))
    draw.shuffle(rows)
    draw.shuffle(columns)
    moved = against_model(model[columns], scores[np.ix_(rows, columns)], 7 * groups[columns] + 3, fixed=fixed)
    assert_same(moved, difference)
    # Errors have the interval of scores, mirrored; the difference changes its sign.
    errors = mean_of_readers(1 - scores, groups, fixed=fixed)
    mirrored = [None if end is None else 1 - end for end in (errors.value, errors.high, errors.low)]
    assert_near(mirrored, [mean.value, mean.low, mean.high])
    opposite = against_model(1 - model, 1 - scores, groups, fixed=fixed)
    assert_near([opposite.p, opposite.se, opposite.df], [difference.p, difference.se, difference.df])
    ends = [None if end is None else -end for end in (difference.high, difference.low)]
    assert_near([opposite.low, opposite.high], ends)


def assert_same(found: readers.ReaderResult, expected: readers.ReaderResult) -> None:
    assert_near(list(astuple(found)[:7]), list(astuple(expected)[:7]))
    assert astuple(found)[7:] == astuple(expected)[7:]


def assert_near(found: list[float | None], expected: list[float | None]) -> None:
    assert [each is None for each in found] == [each is None for each in expected]
    pairs = zip(found, expected, strict=True)
    assert all(one is None or one == pytest.approx(other, rel=1e-6, abs=1e-9) for one, other in pairs)
