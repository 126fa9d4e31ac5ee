"""Variance components by mean squares: hand-computed designs, simulated ones, and their laws."""

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from medvqa.statistics import Components, advice, components
from support.laws import examples

Floats = NDArray[np.float64]


@st.composite
def designs(draw: st.DrawFn) -> Floats:
    shape = draw(st.tuples(st.integers(2, 6), st.integers(1, 4), st.integers(1, 4)).filter(lambda s: s[1] * s[2] > 1))
    size = int(np.prod(shape))
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=size, max_size=size))
    return np.array(values).reshape(shape)


def test_questions_and_samples_by_hand() -> None:
    """Four questions, two samples: 1 1, 1 0, 0 0, 0 1.

    Means 1, 1/2, 0, 1/2; of samples 1/2 each. MS item = 2 (1/4 + 0 + 1/4 + 0) / 3 = 1/3, MS sample = 0,
    MS rest = (sum of squares 4 - 4 * 2 * ... ) = 1 / 3: residuals are 0, 0, +1/2 -1/2, 0, 0, -1/2 +1/2 -> 1 / 3.
    """
    parts = components(np.array([[[1, 1]], [[1, 0]], [[0, 0]], [[0, 1]]], float))
    assert parts.rest == pytest.approx(1 / 3)
    assert parts.item == pytest.approx((1 / 3 - 1 / 3) / 2)
    assert parts.sample == 0
    assert parts.negative == ("sample",)
    assert (parts.prompt, parts.item_by_prompt) == (None, None)
    assert (parts.items, parts.prompts, parts.samples) == (4, 1, 2)
    # Only draws vary: twice as many samples help as much as twice as many questions.
    assert parts.narrowed(samples=2) == pytest.approx(parts.narrowed(items=2)) == pytest.approx(1 - 0.5**0.5)
    assert parts.narrowed(samples=inf) == 1


def test_questions_that_are_always_right_or_wrong_vary_alone() -> None:
    parts = components(np.repeat([1.0, 0, 1, 1, 0, 0, 0, 1], 5).reshape(8, 1, 5))
    assert parts.item == pytest.approx(2 / 7)  # the variance of eight values, half of them 1
    assert (parts.rest, parts.sample) == (0, 0)
    assert parts.negative == ()
    assert parts.narrowed(samples=2) == 0
    assert advice(parts) == (
        "twice as many questions would narrow the interval by 29 %, twice as many samples by 0 % (any number: at most "
        "0 %); more samples hardly help."
    )


def test_a_shift_that_all_questions_share_is_of_the_sample_and_not_in_the_interval() -> None:
    """Item effects -1, 0, 1 and sample effects 0, 0.2: MS sample / 3 = 0.02, and nothing else."""
    parts = components(np.add.outer([-1.0, 0, 1], [0, 0.2])[:, None, :])
    assert parts.item == pytest.approx(1)
    assert parts.sample == pytest.approx(0.02)
    assert parts.rest == pytest.approx(0)
    assert parts.interval() == pytest.approx(1 / 3)


def test_prompts_by_hand() -> None:
    """Two questions, two prompts, two samples without noise: item effects of 1, prompts of 0.5, both with each other.

    Cells: 0, 0.5 / 1, 2.5: the interaction contrast is 1. MS cross = 2 * 4 * (1/4)^2 = 1/2, and rest 0.
    """
    parts = components(np.array([[[0, 0], [0.5, 0.5]], [[1, 1], [2.5, 2.5]]], float))
    assert parts.item_by_prompt == pytest.approx((0.5 - 0) / 2)
    # MS item: means 0.25 and 1.75, 4 * 2 * 0.75^2 = 4.5; MS prompt: means 0.5 and 1.5, 4 * 2 * 0.5^2 = 2.
    assert parts.item == pytest.approx((4.5 - 0.5) / 4)
    assert parts.prompt == pytest.approx((2 - 0 - 0.5 + 0) / 4)
    assert (parts.rest, parts.sample) == (0, 0)


def test_one_sample_of_each_prompt_leaves_samples_unknown() -> None:
    parts = components(np.array([[[0.0], [0.5]], [[1], [2.5]]]))
    # Means of questions 0.25 and 1.75: MS item = 2 * 2 * 0.75^2 = 2.25; MS cross = 4 * (1/4)^2 = 0.25.
    assert parts.item == pytest.approx((2.25 - 0.25) / 2)
    assert parts.rest == pytest.approx(0.25)
    assert (parts.sample, parts.item_by_prompt) == (None, None)
    assert parts.narrowed(samples=2) is None
    assert "samples" not in advice(parts)
    assert "twice as many prompts" in advice(parts)


def test_simulated_designs_give_their_components_on_average() -> None:
    rng, found = np.random.default_rng(15), []
    for _ in range(300):
        y = rng.normal(0, 1, (40, 1, 1)) + rng.normal(0, 0.5, (1, 4, 1)) + rng.normal(0, 0.3, (1, 4, 5))
        y = y + rng.normal(0, 0.7, (40, 4, 1)) + rng.normal(0, 0.8, (40, 4, 5))
        parts = components(y)
        found.append([parts.item, parts.prompt, parts.sample, parts.item_by_prompt, parts.rest])
    # Four prompts have three degrees of freedom: three standard errors of their component are 0.04.
    assert np.mean(np.array(found, float), axis=0) == pytest.approx([1, 0.25, 0.09, 0.49, 0.64], abs=0.04)


@examples(100)
@given(y=designs(), seed=st.integers(0, 99))
def test_the_order_of_questions_prompts_and_samples_does_not_matter(y: Floats, seed: int) -> None:
    rng = np.random.default_rng(seed)
    moved = y[rng.permutation(y.shape[0])][:, rng.permutation(y.shape[1])]
    # Samples are of their prompt: each prompt's are moved by themselves.
    moved = np.stack([moved[:, p, rng.permutation(y.shape[2])] for p in range(y.shape[1])], axis=1)
    one, other = components(y), components(moved)
    for name in ("item", "prompt", "sample", "item_by_prompt", "rest"):
        value = getattr(one, name)
        assert getattr(other, name) == (None if value is None else pytest.approx(value, abs=1e-9))


@examples(100)
@given(y=designs(), shift=st.floats(-3, 3), times=st.floats(0.1, 10))
def test_components_are_in_squared_units_and_not_negative(y: Floats, shift: float, times: float) -> None:
    one, other = components(y), components(shift + times * y)
    for name in ("item", "prompt", "sample", "item_by_prompt", "rest"):
        value = getattr(one, name)
        if value is not None:
            assert value >= 0
            assert getattr(other, name) == pytest.approx(times**2 * value, abs=1e-8)


@examples(100)
@given(y=designs())
def test_more_of_anything_never_widens_the_interval_and_questions_narrow_it_most(y: Floats) -> None:
    parts = components(y)
    questions = parts.narrowed(items=2)
    if questions is None:
        assert parts.interval() == 0
        return
    assert questions == pytest.approx(1 - 0.5**0.5)
    for prompts, samples in product((1, 2, inf), repeat=2):
        narrowed = parts.narrowed(prompts=prompts, samples=samples)
        if narrowed is not None:
            assert -1e-9 <= narrowed <= 1
    for times in ({"prompts": 2.0}, {"samples": 2.0}):
        assert (parts.narrowed(**times) or 0) <= questions + 1e-9


@examples(60)
@given(y=designs().filter(lambda y: y.shape[1] == 1))
def test_the_interval_is_that_of_the_means_of_the_questions(y: Floats) -> None:
    """Where no estimate was negative: the variance of the questions' means over their number."""
    parts = components(y)
    if "item" not in parts.negative:
        assert parts.interval() == pytest.approx(y.mean(axis=(1, 2)).var(ddof=1) / len(y), abs=1e-9)


@pytest.mark.parametrize("shape", [(1, 2, 2), (5, 1, 1), (5, 0, 3), (5, 3)])
def test_a_design_without_repetitions_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="scores of 2 or more items, by 2 or more prompts or samples"):
        components(np.zeros(shape))


def test_equal_scores_give_no_advice() -> None:
    assert advice(components(np.ones((5, 1, 3)))) == ""
    assert isinstance(components(np.ones((5, 2, 3))), Components)
