"""Marks on images, and the scenes that they are tried on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from support.laws import examples
from tools import overlays, scenes
from tools.canvas import Finding, Scene
from tools.questions import LETTERS, multiple_responses, single_choices

SIDES = st.integers(1, 24)
SHAPES = st.tuples(SIDES, SIDES)
WIDTHS = st.integers(1, 4)
COLOURS = st.tuples(*[st.integers(0, 255)] * 3)


@st.composite
def marked(draw):
    """An image of any of the usual modes and a mask that is not empty."""
    height, width = draw(SHAPES)
    mode = draw(st.sampled_from(["RGB", "L", "RGBA"]))
    channels = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
    pixels = draw(arrays.arrays(np.uint8, (height, width, *channels)))
    mask = draw(arrays.arrays(bool, (height, width)).filter(np.any))
    return Image.fromarray(pixels), mask


def rgb(image):
    return np.asarray(image.convert("RGB"))


def depth(mask):
    """For each pixel the steps (up, down, left, right) to the nearest one outside, by the definition."""
    outside = np.argwhere(~np.pad(mask, 1)) - 1
    rows, columns = np.indices(mask.shape)
    steps = np.abs(rows[..., None] - outside[:, 0]) + np.abs(columns[..., None] - outside[:, 1])
    return steps.min(axis=-1)


class TestBox:
    @given(marked())
    def test_bounding_box_holds_the_region_and_touches_it_on_all_sides(self, case):
        _, mask = case
        left, top, right, bottom = overlays.bounding_box(mask)
        inside = mask[top:bottom, left:right]
        assert inside.sum() == mask.sum()
        assert all(side.any() for side in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))

    @given(marked(), WIDTHS, COLOURS)
    def test_frame_lies_around_the_box(self, case, width, colour):
        image, mask = case
        box = left, top, right, bottom = overlays.bounding_box(mask)
        drawn = rgb(overlays.draw_box(image, box, colour, width))
        rows, columns = np.indices(mask.shape)
        beyond = np.maximum.reduce([left - columns, columns - right + 1, top - rows, rows - bottom + 1])
        untouched = beyond > width
        if min(left, top, image.width - right, image.height - bottom) >= width:
            untouched |= beyond <= 0
            assert (drawn[(beyond > 0) & (beyond <= width)] == colour).all()
        assert (drawn[untouched] == rgb(image)[untouched]).all()

    def test_a_box_at_the_edge_is_still_seen_on_all_sides(self):
        drawn = rgb(overlays.draw_box(Image.new("RGB", (8, 6)), (0, 0, 8, 6), (9, 9, 9), 1))
        assert (drawn[[0, -1]] == 9).all()
        assert (drawn[:, [0, -1]] == 9).all()
        assert (drawn[1:-1, 1:-1] == 0).all()

    @pytest.mark.parametrize("box", [(0, 0, 0, 3), (2, 2, 1, 3), (-1, 0, 2, 2), (0, 0, 9, 2), (0, 0, 2, 9)])
    def test_a_box_that_is_none(self, box):
        with pytest.raises(ValueError, match="does not lie in an image of 8 x 6 pixels"):
            overlays.draw_box(Image.new("L", (8, 6)), box)


class TestMask:
    @given(marked(), COLOURS, st.floats(0, 1))
    def test_changes_the_region_alone_by_so_much(self, case, colour, alpha):
        image, mask = case
        drawn, before = rgb(overlays.draw_mask(image, mask, colour, alpha)), rgb(image)
        assert (drawn[~mask] == before[~mask]).all()
        expected = before[mask] + alpha * (np.array(colour) - before[mask].astype(float))
        assert np.abs(drawn[mask] - expected).max() <= 0.5 + 1e-9

    @pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
    def test_alpha_out_of_range(self, alpha):
        with pytest.raises(ValueError, match="it lies between 0 and 1"):
            overlays.draw_mask(Image.new("L", (2, 2)), np.ones((2, 2), bool), alpha=alpha)


class TestContour:
    @given(marked(), WIDTHS)
    def test_is_the_outermost_pixels_of_the_region(self, case, width):
        _, mask = case
        assert (overlays.contour(mask, width) == mask & (depth(mask) <= width)).all()

    @given(marked(), COLOURS, WIDTHS)
    def test_drawing_changes_the_contour_alone(self, case, colour, width):
        image, mask = case
        drawn, line = rgb(overlays.draw_contour(image, mask, colour, width)), overlays.contour(mask, width)
        assert (drawn[line] == colour).all()
        assert (drawn[~line] == rgb(image)[~line]).all()

    @given(marked())
    def test_is_never_empty(self, case):
        assert overlays.contour(case[1]).any()


class TestGranularities:
    @given(marked(), st.sampled_from(overlays.GRANULARITIES))
    def test_inputs_stay_as_they_were(self, case, granularity):
        image, mask = case
        before, before_mask = image.copy(), mask.copy()
        drawn = overlays.mark(image, mask, granularity)
        assert image == before
        assert (mask == before_mask).all()
        assert drawn is not image
        assert (drawn.mode, drawn.size) == ("RGB", image.size)

    def test_nothing_is_drawn_at_image_level(self):
        image = Image.effect_noise((9, 7), 40).convert("RGB")
        assert overlays.mark(image, np.ones((7, 9), bool), "Image level") == image

    def test_the_others_differ_from_it_and_from_one_another(self):
        mask = np.zeros((20, 20), bool)
        mask[5:12, 6:15] = True
        drawn = {overlays.mark(Image.new("L", (20, 20)), mask, level).tobytes() for level in overlays.GRANULARITIES}
        assert len(drawn) == 4

    def test_unknown_granularity(self):
        with pytest.raises(ValueError, match="no granularity 'Pixel level'; known: Image level, Box level"):
            overlays.mark(Image.new("L", (2, 2)), np.ones((2, 2), bool), "Pixel level")


IMAGE = Image.new("RGB", (4, 3))


@pytest.mark.parametrize(
    "use",
    [
        lambda mask: overlays.draw_mask(IMAGE, mask),
        lambda mask: overlays.draw_contour(IMAGE, mask),
        lambda mask: overlays.mark(IMAGE, mask, "Image level"),
    ],
)
class TestBadMasks:
    def test_empty(self, use):
        with pytest.raises(ValueError, match="the mask is empty"):
            use(np.zeros((3, 4), bool))

    def test_of_another_size(self, use):
        with pytest.raises(ValueError, match=r"the mask is \(4, 3\) \(H, W\), the image \(3, 4\)"):
            use(np.ones((4, 3), bool))

    def test_of_another_kind(self, use):
        with pytest.raises(ValueError, match="a mask is a boolean array"):
            use(np.ones((3, 4), np.uint8))
        with pytest.raises(ValueError, match="a mask is a boolean array"):
            use(np.ones((3, 4, 1), bool))


def test_bad_masks_have_neither_box_nor_contour():
    for use in (overlays.bounding_box, overlays.contour):
        with pytest.raises(ValueError, match="the mask is empty"):
            use(np.zeros((3, 4), bool))


def test_width_below_one():
    mask = np.ones((3, 4), bool)
    with pytest.raises(ValueError, match="width is 0; it is at least 1 pixel"):
        overlays.draw_contour(IMAGE, mask, width=0)
    with pytest.raises(ValueError, match="width is 0; it is at least 1 pixel"):
        overlays.draw_box(IMAGE, (0, 0, 2, 2), width=0)


class TestScenes:
    @examples(40)
    @given(st.sampled_from(sorted(scenes.LOOKS)), st.integers(0, 2**32))
    def test_a_scene_is_drawn_with_a_mask_for_each_finding(self, look, seed):
        scene = scenes.scene(np.random.default_rng(seed), look)
        image, masks = scenes.draw(scene, 64)
        assert scene.look == look
        assert (image.mode, image.size) == ("RGB", (64, 64))
        assert len(masks) == len(scene.findings) > 0
        assert all(mask.shape == (64, 64) and mask.dtype == bool and mask.any() for mask in masks)

    @examples(20)
    @given(st.integers(0, 2**32))
    def test_the_same_seed_draws_the_same(self, seed):
        first, second = (scenes.scene(np.random.default_rng(seed)) for _ in range(2))
        assert first == second
        assert scenes.draw(first, 48)[0] == scenes.draw(second, 48)[0]

    def test_every_look_is_thought_up(self):
        rng = np.random.default_rng(5)
        assert {scenes.scene(rng).look for _ in range(400)} == set(scenes.LOOKS)

    def test_a_finding_is_seen_where_its_mask_is(self):
        """Without the finding the image is another one there, and the same far from it."""
        patch = Finding("patch", 0.4, 0.6, 0.1, "black")
        image, (mask,) = scenes.draw(Scene("skin", (patch,), seed=3))
        without, _ = scenes.draw(Scene("skin", (), seed=3))
        changed = (rgb(image) != rgb(without)).any(axis=-1)
        assert (changed == mask).mean() > 0.99
        assert overlays.bounding_box(mask) == pytest.approx((34, 56, 56, 78), abs=1)

    def test_turning_turns_image_and_masks(self):
        patch = Finding("patch", 0.2, 0.5, 0.1, "black")
        upright, (mask,) = scenes.draw(Scene("skin", (patch,), seed=3))
        turned, (turned_mask,) = scenes.draw(Scene("skin", (patch,), seed=3, quarter_turns=1))
        assert (rgb(turned) == np.rot90(rgb(upright))).all()
        assert (turned_mask == np.rot90(mask)).all()

    def test_poor_quality_has_less_contrast(self):
        scene = scenes.scene(np.random.default_rng(1), "fundus photography")
        poor = Scene(scene.look, scene.findings, scene.seed, scene.variant, poor=True)
        assert rgb(scenes.draw(poor)[0]).std() < 0.6 * rgb(scenes.draw(scene)[0]).std()


class TestQuestions:
    @given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 4), st.data())
    def test_single_choices_are_even(self, seed, kinds, rounds, data):
        size = data.draw(st.integers(2, min(kinds, 5)))
        pool = [f"label {number}" for number in range(kinds)]
        asked = list(single_choices(np.random.default_rng(seed), pool, rounds * kinds, size))
        assert [right for right, _, _ in asked] == pool * rounds
        for right, options, letter in asked:
            assert list(options) == list(LETTERS[:size])
            assert options[letter] == right
            assert len(set(options.values())) == size <= len(set(pool) | set(options.values())) == kinds

    @given(st.integers(0, 2**32), st.integers(1, 5))
    def test_multiple_responses_are_all_there_are(self, seed, size):
        pool = [f"label {number}" for number in range(5)]
        asked = list(multiple_responses(np.random.default_rng(seed), pool, size))
        assert len({right for right, _, _ in asked}) == len(asked) > 0
        for right, options, letters in asked:
            assert sorted(options.values()) == pool
            assert {options[letter] for letter in letters.split(",")} == set(right)
            assert len(right) == size
