"""Masks of regions: the boxes alone are changed, and the place elsewhere is as large, apart and as alike as can be."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image as Pillow

from medvqa import perturbing
from medvqa.items import DataError, Image, Item, UsageError, replace
from medvqa.perturbing import Alteration, Box, catalogue, masks, regions
from medvqa.protocols import perturbation
from support.laws import examples

FILLS = sorted(perturbing.FILLS)


@st.composite
def pictures(draw: st.DrawFn) -> tuple[np.ndarray, tuple[Box, ...], int]:
    """A picture, one to three boxes within it, and a seed."""
    width, height = draw(st.integers(2, 40)), draw(st.integers(2, 40))
    boxes = []
    for _ in range(draw(st.integers(1, 3))):
        across, down = draw(st.integers(1, max(width // 2, 1))), draw(st.integers(1, max(height // 2, 1)))
        boxes.append((draw(st.integers(0, width - across)), draw(st.integers(0, height - down)), across, down))
    seed = draw(st.integers(0, 2**64 - 1))
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return pixels, tuple(dict.fromkeys(boxes)), seed


def covered(shape: tuple[int, ...], boxes: tuple[Box, ...]) -> np.ndarray:
    """Where boxes cover a picture of this shape."""
    where = np.zeros(shape[:2], bool)
    for left, top, width, height in boxes:
        where[top : top + height, left : left + width] = True
    return where


def masked(name: str, pixels: np.ndarray, boxes: tuple[Box, ...], seed: int) -> np.ndarray:
    picture = catalogue.applied(Pillow.fromarray(pixels), Alteration(name, seed=seed, boxes=boxes))
    return np.asarray(picture)


@examples(100)
@given(pictures(), st.sampled_from(FILLS))
def test_the_region_alone_is_hidden(drawn: tuple[np.ndarray, tuple[Box, ...], int], fill: str) -> None:
    pixels, boxes, seed = drawn
    changed = (masked(f"mask_region:{fill}", pixels, boxes, seed) != pixels).any(axis=2)
    assert not (changed & ~covered(pixels.shape, boxes)).any()


@examples(100)
@given(pictures(), st.sampled_from(FILLS))
def test_elsewhere_is_apart_and_as_large(drawn: tuple[np.ndarray, tuple[Box, ...], int], fill: str) -> None:
    pixels, boxes, seed = drawn
    size = pixels.shape[1], pixels.shape[0]
    assume(masks.free_places(boxes, size).any())
    moved = masks.elsewhere(pixels, boxes, np.random.default_rng(seed))
    assert [box[2:] for box in moved] == [box[2:] for box in boxes]
    assert regions.are_inside(moved, size)
    assert min(min(box[:2]) for box in moved) >= 0
    region, place = covered(pixels.shape, boxes), covered(pixels.shape, moved)
    assert not (region & place).any()
    assert region.sum() == place.sum()
    changed = (masked(f"mask_elsewhere:{fill}", pixels, boxes, seed) != pixels).any(axis=2)
    # The same place for each fill.
    assert not (changed & ~place).any()


@examples(100)
@given(pictures())
def test_there_is_a_place_if_any_move_has_one(drawn: tuple[np.ndarray, tuple[Box, ...], int]) -> None:
    pixels, boxes, _ = drawn
    height, width = pixels.shape[:2]
    region = covered(pixels.shape, boxes)
    moves = [
        tuple((left + right, top + down, across, deep) for left, top, across, deep in boxes)
        for right in range(-width, width)
        for down in range(-height, height)
    ]
    possible = any(
        regions.are_inside(moved, (width, height))
        and min(min(box[:2]) for box in moved) >= 0
        and not (covered(pixels.shape, moved) & region).any()
        for moved in moves
    )
    assert masks.free_places(boxes, (width, height)).any() == possible


def test_the_place_is_the_most_alike() -> None:
    """Of a picture with one other bright square, the place covers most of it."""
    pixels = np.random.default_rng(0).integers(20, 40, (200, 200, 3), np.uint8)
    for left, top in ((10, 10), (120, 130)):
        pixels[top : top + 60, left : left + 60] += 150
    for seed in range(5):
        ((left, top, _, _),) = masks.elsewhere(pixels, ((10, 10, 60, 60),), np.random.default_rng(seed))
        assert abs(left - 120) + abs(top - 130) <= 20


@pytest.mark.parametrize("fill", FILLS)
def test_each_fill_hides_what_was_there(fill: str) -> None:
    """Two pictures that differ within the region alone are nearly equal there, once it is hidden."""
    one = np.random.default_rng(0).integers(0, 256, (120, 120, 3), np.uint8)
    two = one.copy()
    two[40:60, 40:60] = np.random.default_rng(1).integers(0, 256, (20, 20, 3), np.uint8)
    boxes = ((40, 40, 20, 20),)
    hidden = [masked(f"mask_region:{fill}", pixels, boxes, 3).astype(int) for pixels in (one, two)]
    apart = np.abs(hidden[0] - hidden[1])[40:60, 40:60].mean()
    assert np.abs(one.astype(int) - two)[40:60, 40:60].mean() > 70
    # Noise draws pixels of the whole picture, of which the region is a small part.
    assert apart < 10


def test_without_a_place_the_picture_is_an_error(tmp_path) -> None:
    Pillow.new("RGB", (20, 20)).save(tmp_path / "x.png")
    image = Image("x.png", str(tmp_path / "x.png"))
    for boxes, name, message in (
        (((0, 0, 20, 20),), "mask_elsewhere:mean", "image x.png: it has no place of the region's size elsewhere"),
        (((0, 0, 21, 20),), "mask_region:mean", "image x.png: its region is not within its 20 x 20 pixels"),
        ((), "mask_region:mean", "image x.png: its region is not within its 20 x 20 pixels"),
    ):
        with pytest.raises(DataError) as caught:
            replace(image, alteration=Alteration(name, boxes=boxes)).pil()
        assert str(caught.value) == message


# Boxes from outside


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        ("40,30,100,80", ((40, 30, 100, 80),)),
        (" 40, 30 ,100,80 ; 0,0,1,1", ((40, 30, 100, 80), (0, 0, 1, 1))),
        ("1,1,1,1;1,1,1,1", ((1, 1, 1, 1),)),
    ],
)
def test_boxes_are_read_from_a_text(text: str, boxes: tuple[Box, ...]) -> None:
    assert regions.parsed(text) == boxes


@pytest.mark.parametrize("text", ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "1,2,0,4", "1,2,3,-4", "1.5,2,3,4", "1,2,3,4;"])
def test_a_wrong_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"region|boxes"):
        regions.parsed(text)


@pytest.mark.parametrize(
    "boxes",
    ["1,2,3,4", 7, {}, [], [[1, 2, 3]], [[1, 2, 3, True]], [[1, 2, 3, 0]], [[0, 0, 1, 2**40]], [[1, 1, 1, 1]] * 21],
)
def test_wrong_values_are_refused(boxes: object) -> None:
    with pytest.raises(ValueError, match=r"region|boxes"):
        regions.checked(boxes)


def test_a_list_of_numbers_is_one_box() -> None:
    assert regions.checked([1, 2, 3, 4]) == regions.checked([[1, 2, 3, 4]]) == ((1, 2, 3, 4),)
    assert regions.boxes_of({}) == ()
    assert regions.boxes_of({"box_xywh": [[1, 2, 3, 4]]}) == ((1, 2, 3, 4),)


# Questions


def test_a_mask_is_for_questions_with_a_region_and_a_place(tmp_path) -> None:
    Pillow.new("RGB", (20, 10)).save(tmp_path / "x.png")
    image = Image("x.png", str(tmp_path / "x.png"))

    def can(boxes: object, images: tuple[Image, ...] = (image,)) -> bool:
        item = Item("q", "b", images=images, extra={"box_xywh": boxes} if boxes else {})
        asked = {perturbation.can_change(item, f"{mask}:{fill}") for mask in perturbing.MASKS for fill in FILLS}
        # Both masks ask the same questions.
        assert len(asked) == 1
        return asked.pop()

    assert can([[0, 0, 10, 10]])
    assert not can([[0, 0, 11, 10]])
    assert not can([[5, 0, 10, 10]])
    assert not can(None)
    assert not can([[0, 0, 1, 1]], images=())
    with pytest.raises(ValueError, match="leaves its image of 20 x 10 pixels"):
        can([[15, 0, 6, 1]])


def test_the_first_image_alone_is_masked() -> None:
    images = (Image("a"), Image("b"))
    item = Item("q", "b", images=images, extra={"box_xywh": [[1, 2, 3, 4]]})
    first, second = perturbation.altered(images, item, "mask_region:blur")
    assert first.alteration == Alteration("mask_region:blur", seed=first.alteration.seed, boxes=((1, 2, 3, 4),))
    assert second == images[1]
    seeds = {perturbation.altered(images, item, f"mask_elsewhere:{fill}")[0].alteration.seed for fill in FILLS}
    assert seeds == {first.alteration.seed}


@pytest.mark.parametrize("boxes", [[[-5, 0, 3, 3]], "zz", {"a": 1}, [[0, 0, 1e9, 5]]])
def test_a_wrong_region_in_a_record_is_an_error_of_its_picture_alone(boxes: object, tmp_path) -> None:
    Pillow.new("RGB", (20, 10)).save(tmp_path / "a.png")
    item = Item("q", "b", images=(Image("a.png", str(tmp_path / "a.png")),), extra={"box_xywh": boxes})
    (image,) = perturbation.altered(item.images, item, "mask_region:mean")
    with pytest.raises(DataError, match="its region is not within its 20 x 10 pixels"):
        image.pil()


@pytest.mark.parametrize(
    ("typed", "text"),
    [("mask_region", "mask_region:mean"), ("mask_elsewhere:noise", "mask_elsewhere:noise"), ("flip", "flip")],
)
def test_changes_without_levels_are_read(typed: str, text: str) -> None:
    assert perturbation.parse(typed).text == text
    assert perturbation.of(text).level == 0


@pytest.mark.parametrize("typed", ["mask_region:red", "mask_region:3", "mask_region:mean:3", "flip:3", "x/mask_region"])
def test_a_wrong_fill_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match=f"--perturb={typed}: "):
        perturbation.parse(typed)
