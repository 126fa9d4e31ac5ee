"""Artefacts: equal to MedFM-Robust's own code, stronger by level, the same for pictures of any size."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from kept.medfm_robust import LEVELS as RECORDED
from kept.medfm_robust import METHODS, SEED, kept, shape_of
from medvqa import items
from medvqa.items import Item, replace
from medvqa.perturbing import LEVELS, Alteration, artefacts, catalogue
from medvqa.perturbing.catalogue import PixelChange
from medvqa.protocols import perturbation
from support.laws import examples
from support.scanned import scan

CHANGES = {
    name: change for name, change in catalogue.changes().items() if change.source == "MedFM-Robust" or name == "flip"
}
LEVELLED = [name for name, change in CHANGES.items() if change.parameters]
RISING = [name for name in LEVELLED if name != "mri_motion"]
"""Those that change a picture more at each level. Motion blurs lines that are blurred already."""
SMOOTH = ["ct_metal", "ct_beam_hardening", "window_level", "mri_bias_field", "mri_ghosting", "us_shadow"]


def changed(change: PixelChange, pixels: np.ndarray, level: int, seed: int = SEED) -> np.ndarray:
    alteration = Alteration(change.name, level if change.parameters else 0, seed=seed)
    return np.asarray(catalogue.applied(Image.fromarray(pixels), alteration))


@pytest.fixture(scope="module")
def theirs() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parents[1] / "kept" / "medfm_robust.npz") as file:
        return dict(file)


@pytest.mark.parametrize("level", RECORDED)
@pytest.mark.parametrize("name", METHODS)
def test_equals_medfm_robust(name: str, level: int, theirs: dict[str, np.ndarray]) -> None:
    """Within 1 of 255 at each pixel; streaks, which OpenCV draws, within 20 % of what they change."""
    before = scan(*shape_of(name))
    ours, recorded = (
        values.astype(int) for values in (kept(changed(CHANGES[name], before, level)), theirs[f"{name}-{level}"])
    )
    change = np.abs(recorded - kept(before).astype(int))
    assert change.max() > 3
    difference = np.abs(ours - recorded)
    if name == "ct_metal":
        assert difference.mean() <= 0.2 * change.mean()
    else:
        assert difference.max() <= 1


def test_what_medfm_robust_defines_is_recorded() -> None:
    assert {name for name, change in CHANGES.items() if change.source == "MedFM-Robust"} == set(METHODS)
    assert {name for name, change in CHANGES.items() if change.source == "ours"} == {"flip"}


@pytest.mark.parametrize("name", RISING)
def test_each_level_changes_more(name: str) -> None:
    before = scan(300, 360)
    amounts = [
        np.abs(changed(CHANGES[name], before, level).astype(int) - before).mean() for level in range(1, LEVELS + 1)
    ]
    assert amounts == sorted(amounts)
    assert 0 < amounts[0] < amounts[-1] / 2


@pytest.mark.parametrize("name", SMOOTH)
def test_a_larger_picture_is_changed_alike(name: str) -> None:
    small = scan(512, 600)
    large = np.asarray(Image.fromarray(small).resize((1200, 1024), Image.Resampling.BICUBIC))
    apart = [np.asarray(Image.fromarray(changed(CHANGES[name], large, 5)).reduce(2)), changed(CHANGES[name], small, 5)]
    difference = np.abs(apart[0].astype(int) - apart[1].astype(int)).mean()
    change = np.abs(apart[1].astype(int) - small.astype(int)).mean()
    # Edges of the picture differ by the resampling alone.
    alone = np.abs(np.asarray(Image.fromarray(large).reduce(2)).astype(int) - small.astype(int)).mean()
    assert difference <= 1.5 * alone + 0.15 * change


def test_bands_of_a_larger_picture_are_at_the_same_places() -> None:
    # Each row has its own brightness, so that an interface elsewhere would echo otherwise.
    small = np.repeat(np.repeat((np.arange(512)[:, None, None] // 4).astype(np.uint8), 512, axis=1), 3, axis=2)
    large = np.repeat(np.repeat(small, 2, axis=0), 2, axis=1)
    one, two = (
        (changed(CHANGES["us_reverberation"], picture, 5).astype(int) - picture).max(axis=(1, 2))
        for picture in (small, large)
    )
    assert one.max() > 8
    assert abs(int(one.max()) - int(two.max())) <= 1
    assert np.abs(np.flatnonzero(one > 4)[[0, -1]] * 2 - np.flatnonzero(two > 4)[[0, -1]]).max() <= 4


def test_shifts_of_a_larger_picture_are_longer() -> None:
    before, move = scan(256, 300), artefacts.mri_motion.__wrapped__
    half, same, more = (
        move(before, (longest, 0.4), np.random.default_rng(1), scale)
        for longest, scale in ((10.0, 0.5), (5.0, 1.0), (10.0, 1.0))
    )
    assert (half == same).all()
    assert (half != more).any()


@examples(60)
@given(
    st.sampled_from(sorted(CHANGES)),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, LEVELS),
    st.integers(0, 2**64 - 1),
)
def test_any_picture_keeps_its_shape_and_its_change(name: str, height: int, width: int, level: int, seed: int) -> None:
    before = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    copy = before.copy()
    after = changed(CHANGES[name], before, level, seed)
    assert (before == copy).all()
    assert after.shape == before.shape
    assert after.dtype == np.uint8
    assert (after == changed(CHANGES[name], before, level, seed)).all()


@pytest.mark.parametrize("name", sorted(CHANGES))
@pytest.mark.parametrize("value", [0, 90, 255])
def test_a_picture_of_one_value_stays_a_picture(name: str, value: int) -> None:
    after = changed(CHANGES[name], np.full((30, 20, 3), value, np.uint8), 5)
    assert after.shape == (30, 20, 3)


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_grey_stays_grey(name: str) -> None:
    after = changed(CHANGES[name], scan(60, 70), 4)
    assert (after == after[..., :1]).all()


def test_a_flip_is_undone_by_another() -> None:
    picture = scan(40, 51)
    picture[:, :10] = 0
    once = changed(CHANGES["flip"], picture, 1)
    assert (once != picture).any()
    assert (once[:, -1] == picture[:, 0]).all()
    assert (changed(CHANGES["flip"], once, 1) == picture).all()


def test_the_lines_of_motion_are_nested() -> None:
    """A level moves the lines of the one below, and further: with no more shift it moves more lines alone."""
    before = scan(256, 256)
    amounts = [
        np.abs(artefacts.mri_motion(before, (5.0, share), np.random.default_rng(1)).astype(int) - before).mean()
        for share in (0.0, 0.1, 0.2, 0.4)
    ]
    assert amounts[0] == 0
    assert amounts == sorted(amounts)


@pytest.mark.parametrize(
    ("modalities", "perturb", "asked"),
    [
        (("ct",), "ct_metal:3", True),
        (("ct_computed_tomography",), "ct_metal:3", True),
        (("t1_weighted_mri",), "mri_motion:1", True),
        (("mri",), "ct_metal:3", False),
        (("oct",), "ct_metal:3", False),
        (("dermoscopy",), "us_shadow:3", False),
        (("x_ray",), "window_level:3", True),
        (("computed_radiography",), "window_level:3", True),
        (("computed_radiography",), "ct_metal:3", False),
        (("mri", "ct"), "ct_metal:3", True),
        ((), "ct_metal:3", True),
        (("dermoscopy",), "flip", True),
        (("dermoscopy",), "gaussian_noise:3", True),
        (("dermoscopy",), "", True),
    ],
)
def test_an_artefact_is_for_its_modality(modalities: tuple[str, ...], perturb: str, asked: bool) -> None:
    item = Item("q", "b", images=(items.Image("a.png"),), tags={"modality": modalities} if modalities else {})
    assert perturbation.can_change(item, perturb) is asked
    assert perturbation.can_change(replace(item, images=()), perturb) is not bool(perturb)


@pytest.mark.parametrize("name", ["window_level", "mri_motion", "mri_bias_field", "mask_elsewhere:noise"])
def test_a_large_picture_needs_little_memory(name: str) -> None:
    """In pictures of the same size; `bench/perturbing.py` has those of all changes at 4,000 x 4,000 pixels."""
    height, width = (2100, 2050) if name == "mri_motion" else (1000, 900)
    picture = Image.fromarray(scan(height, width))
    alteration = Alteration(name, 0 if ":" in name else LEVELS, boxes=((100, 100, 50, 50),))
    # Imports need memory too.
    catalogue.applied(picture.crop((0, 0, 200, 200)), alteration)
    tracemalloc.start()
    catalogue.applied(picture, alteration)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / (3 * height * width) < 8
