"""Deviations over prompts and samples: MediConfusion's Table 5 by hand, and laws."""

from __future__ import annotations

from dataclasses import replace
from math import isclose, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ttest_rel

from medvqa import metrics
from medvqa.figures import chance
from medvqa.items import Answer, Benchmark, Item, Measure, Result, Score
from medvqa.report import tables
from medvqa.report.build import Part
from medvqa.statistics import deviations, equal_means
from support.laws import examples

GPT_4O = (
    (19.32, 19.43, 18.01, 17.33, 18.30, 19.66, 19.43, 20.40, 19.38, 19.43, 19.66),
    (1.53, 0.66, 0.95, 0.96, 0.80, 0.81, 1.62, 1.12, 1.15, 1.50, 1.11),
)
INSTRUCTBLIP = (
    (11.65, 5.57, 3.75, 4.38, 2.67, 1.31, 4.26, 4.43, 1.42, 12.05, 1.25),
    (1.42, 0.91, 0.77, 1.48, 1.19, 0.57, 0.99, 1.86, 0.77, 3.15, 0.66),
)
"""Table 5: means and standard deviations over 10 answers for each of the eleven prompts, set accuracy in percent."""


def ten_values(means: tuple[float, ...], deviations_of_prompts: tuple[float, ...]) -> np.ndarray:
    """Ten values for each prompt with this mean and standard deviation (divided by 10): five above, five below."""
    signs = np.array([1, -1] * 5)
    return np.array(means)[:, None] + np.array(deviations_of_prompts)[:, None] * signs


@pytest.mark.parametrize(
    ("table", "mean", "within", "between", "every"),
    [(GPT_4O, 19.12, 1.15, 0.84, 1.42), (INSTRUCTBLIP, 4.79, 1.44, 3.60, 3.88)],
)
def test_the_three_deviations_of_table_5(
    table: tuple[tuple[float, ...], tuple[float, ...]], mean: float, within: float, between: float, every: float
) -> None:
    """The paper's own figures for all prompts, 0.04 and 0.12, are none of the three."""
    values = ten_values(*table)
    found = deviations(values)
    assert round(values.mean(), 2) == mean
    assert [round(number, 2) for number in found if number is not None] == [within, between, every]


def test_deviations_of_four_values_by_hand() -> None:
    found = deviations(np.array([[1.0, 3.0], [5.0, 9.0]]))
    assert found.within_prompts == sqrt((1 + 4) / 2)
    assert found.between_prompts == 2.5
    assert found.all == sqrt((3.5**2 + 1.5**2 + 0.5**2 + 4.5**2) / 4)


def test_a_deviation_needs_two_values() -> None:
    assert deviations(np.array([[1.0]])) == (None, None, None)
    assert deviations(np.array([[1.0], [3.0]])) == (None, 1.0, 1.0)
    assert deviations(np.array([[1.0, 3.0]])) == (1.0, None, 1.0)
    assert deviations(np.array([[nan, nan], [1.0, nan]])) == (None, None, None)
    assert deviations(np.array([[1.0, nan], [3.0, 5.0]])).within_prompts == 1.0, "one value has no deviation"


@examples(100)
@given(arrays(float, st.tuples(st.integers(2, 5), st.integers(2, 5)), elements=st.floats(0, 1)))
def test_the_squares_within_and_between_add_up_to_that_of_all(values: np.ndarray) -> None:
    within, between, every = deviations(values)
    assert within is not None
    assert between is not None
    assert every is not None
    assert isclose(within**2 + between**2, every**2, abs_tol=1e-12)


def result(pair: int, side: int, prompt: str, sample: int, right: bool) -> Result:
    item = Item(f"{pair}/{side}", "b", "single_choice", "?", {"A": "a", "B": "b"}, ("A",), pair_id=str(pair))
    score = Score(float(right), "correct" if right else "wrong", ("A" if right else "B",))
    return Result("run", item, "", Answer("A"), score, sample=sample, variant=prompt)


def answers(rights: dict[str, list[list[int]]]) -> list[Result]:
    """Answers to two pairs: for each prompt and sample, whether each of the four answers is right."""
    return [
        result(i // 2, i % 2, prompt, sample, bool(right))
        for prompt, samples in rights.items()
        for sample, of_sample in enumerate(samples, 1)
        for i, right in enumerate(of_sample)
    ]


def spread_of(name: str, results: list[Result]) -> metrics.Spread:
    found = metrics.spreads(
        results,
        (metrics.set_accuracy, metrics.individual_accuracy),
        benchmark="b",
        technique="mc",
        prompt_of=lambda result: result.variant,
        prompts=("short", "long"),
    )
    return next(spread for spread in found if spread.name == name)


def test_a_measure_of_pairs_has_a_value_for_each_prompt_and_sample() -> None:
    results = answers({"long": [[1, 1, 1, 1], [1, 1, 0, 1]], "short": [[1, 1, 0, 0], [0, 1, 1, 0]]})
    spread = spread_of("set_accuracy", results[::-1])
    assert spread.values == {"short": (0.5, 0.0), "long": (1.0, 0.5)}, "in the order of the run's prompts"
    assert (spread.samples, spread.prompts, spread.means) == ((1, 2), ("short", "long"), {"short": 0.25, "long": 0.75})
    assert (spread.mean, spread.sd_within_prompts, spread.sd_between_prompts) == (0.5, 0.25, 0.25)
    assert spread.sd_all == sqrt(0.125)
    assert spread_of("individual_accuracy", results).values == {"short": (0.5, 0.5), "long": (1.0, 0.75)}


@pytest.mark.parametrize(("prompts", "sizes"), [(11, [5] * 20), (2, [1] * 100), (11, [26, 18, 12, 8, 7] + [1] * 40)])
def test_equal_prompts_are_called_different_in_one_of_twenty_samples(prompts: int, sizes: list[int]) -> None:
    """Also with fewer groups than a Wald test of eleven prompts needs, and with one large group."""
    draw, group, times = np.random.default_rng(prompts), np.repeat(np.arange(len(sizes)), sizes), 400
    ones, rejected = np.ones(len(group)), 0
    for _ in range(times):
        item = draw.standard_normal(len(sizes))[group] + draw.standard_normal(len(group))
        shared = draw.standard_normal((len(sizes), prompts))[group]
        right = item[:, None] + shared / 2 + draw.standard_normal((len(group), prompts)) / 2 > -1
        p = equal_means(right.astype(float), ones, group)
        rejected += p is not None and p < 0.05
    assert rejected / times <= 0.05 + 2 * (0.05 * 0.95 / times) ** 0.5


def test_prompts_that_differ_are_told_apart_and_too_few_groups_are_not() -> None:
    draw = np.random.default_rng(0)
    values = (draw.random((100, 3)) < np.array([0.5, 0.5, 0.8])).astype(float)
    ones = np.ones(100)
    assert (equal_means(values, ones, np.arange(100)) or 1) < 0.001
    assert equal_means(values, ones, np.arange(100) % 4) is None
    assert equal_means(values[:, :1], ones, np.arange(100)) is None
    assert equal_means(values[:, [0, 0]], ones, np.arange(100)) == 1.0


def test_two_prompts_are_tested_as_by_a_paired_t_test() -> None:
    draw = np.random.default_rng(1)
    values = draw.random((30, 2))
    found = equal_means(values, np.ones(30), np.arange(30))
    assert found == pytest.approx(ttest_rel(values[:, 0], values[:, 1]).pvalue)


def test_each_prompt_has_its_interval_and_the_highest_is_named_as_selected() -> None:
    rights = {"short": [[1, 0] * 30], "long": [[1, 1, 1, 0] * 15]}
    results = [replace(result, sample=0, item=replace(result.item, pair_id=None)) for result in answers(rights)]
    chosen = (metrics.accuracy,)
    (spread,) = metrics.spreads(
        results,
        chosen,
        benchmark="b",
        prompt_of=lambda result: result.variant,
        prompts=("short", "long"),
        decomposed=("accuracy",),
    )
    expected = equal_means(np.array([rights["short"][0], rights["long"][0]], float).T, np.ones(60), np.arange(60))
    assert spread.equal == pytest.approx(expected)

    def whole(results: list[Result]) -> Measure:
        return metrics.measures(results, chosen, (), benchmark="b", signature={})[0]

    by_prompt = [
        replace(whole([result for result in results if result.variant == prompt]), slice={"prompt": prompt})
        for prompt in ("short", "long")
    ]
    benchmark = Benchmark(name="b", items=lambda data: [], metrics=chosen, headline=("accuracy",))
    part = Part("b", benchmark, "mc", (), (whole(results), *by_prompt), (), (), (spread,))
    table = tables.by_prompt(part)
    assert [row[0] for row in table.texts] == ["short", "long", "mean", "p of equal prompts", "highest, selected of 2"]
    assert table.texts[1][1:] == ["75.00", by_prompt[1].figure.interval]
    assert (table.texts[3][1], table.texts[4][1]) == (chance(expected), "long")


def test_one_prompt_and_one_sample_have_no_spread() -> None:
    results = [replace(result, sample=0, variant="") for result in answers({"": [[1, 1, 0, 0]]})]
    assert metrics.spreads(results, (metrics.individual_accuracy,), benchmark="b") == []


def test_a_macro_average_is_the_mean_over_its_slices() -> None:
    results = [
        replace(result, item=replace(result.item, pair_id=None, tags={"task": ("x" if i < 3 else "y",)}))
        for sample in (answers({"": [[1, 0, 0, 1], [1, 1, 1, 0]]}),)
        for i, result in ((int(r.item.id[0]) * 2 + int(r.item.id[-1]), r) for r in sample)
    ]
    macro = replace(metrics.accuracy, name="macro", mean_over="task")
    (spread,) = metrics.spreads(results, (macro,), benchmark="b")
    assert spread.values[""] == pytest.approx(((1 / 3 + 1) / 2, (1 + 0) / 2))
    weighted = replace(macro, name="weighted", weights=(("x", 3.0), ("y", 1.0)))
    lacking = replace(macro, name="lacking", weights=(("x", 3.0), ("z", 1.0)))
    spreads = {spread.name: spread for spread in metrics.spreads(results, (weighted, lacking), benchmark="b")}
    assert spreads["weighted"].values[""] == pytest.approx(((3 / 3 + 1) / 4, (3 + 0) / 4))
    assert "lacking" not in spreads
