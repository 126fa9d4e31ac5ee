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


class TestMarks:
    @given(marked())
    def test_bounding_box_holds_the_region_and_touches_it_on_all_sides(self, case):
        _, mask = case
        left, top, right, bottom = overlays.bounding_box(mask)
        inside = mask[top:bottom, left:right]
        assert inside.sum() == mask.sum()
        assert all(side.any() for side in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))

    @given(marked())
    def test_a_frame_lies_around_the_box(self, case):
        image, mask = case
        left, top, right, bottom = overlays.bounding_box(mask)
        drawn = rgb(overlays.mark(image, mask, "Box level"))
        rows, columns = np.indices(mask.shape)
        beyond = np.maximum.reduce([left - columns, columns - right + 1, top - rows, rows - bottom + 1])
        untouched = beyond > overlays.FRAME
        if min(left, top, image.width - right, image.height - bottom) >= overlays.FRAME:
            untouched |= beyond <= 0
            assert (drawn[(beyond > 0) & (beyond <= overlays.FRAME)] == overlays.GREEN).all()
        assert (drawn[untouched] == rgb(image)[untouched]).all()

    def test_a_box_at_the_edge_is_still_seen_on_all_sides(self):
        drawn = rgb(overlays.mark(Image.new("RGB", (8, 6)), np.ones((6, 8), bool), "Box level"))
        assert (drawn[[0, -1]] == overlays.GREEN).all()
        assert (drawn[:, [0, -1]] == overlays.GREEN).all()
        assert (drawn[2:-2, 2:-2] == 0).all()

    @given(marked())
    def test_a_mask_tints_the_region_alone_by_half(self, case):
        image, mask = case
        drawn, before = rgb(overlays.mark(image, mask, "Mask level")), rgb(image)
        assert (drawn[~mask] == before[~mask]).all()
        expected = (before[mask] + np.array(overlays.RED, float)) / 2
        assert np.abs(drawn[mask] - expected).max() <= 0.5 + 1e-9

    @given(marked())
    def test_a_contour_is_the_outermost_pixels_of_the_region(self, case):
        image, mask = case
        drawn, line = rgb(overlays.mark(image, mask, "Contour level")), overlays.contour(mask)
        # By the definition: one step (up, down, left, right) to the nearest pixel outside.
        outside = np.argwhere(~np.pad(mask, 1)) - 1
        rows, columns = np.indices(mask.shape)
        steps = np.abs(rows[..., None] - outside[:, 0]) + np.abs(columns[..., None] - outside[:, 1])
        assert (line == mask & (steps.min(axis=-1) <= 1)).all()
        assert line.any()
        assert (drawn[line] == overlays.RED).all()
        assert (drawn[~line] == rgb(image)[~line]).all()

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
