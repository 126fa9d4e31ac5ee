"""Regions of a picture: boxes in its pixels, as tables write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from medvqa.perturbing import Box

FIELD = "box_xywh"
"""The field of `Item.extra` that holds the boxes of its first image, each as [left, top, width, height]."""
MAX_BOXES = 20
"""Boxes of one question."""
EXPECTED = "left,top,width,height in whole pixels, with ; between several boxes"


def parsed(text: str) -> tuple[Box, ...]:
    """Return the boxes in a text such as "40,30,100,80" or "40,30,100,80; 300,30,90,80" (ValueError)."""
    boxes = [re.fullmatch(r"\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*", part) for part in text.split(";")]
    return checked([[int(number) for number in box.groups()] if box else None for box in boxes])


def checked(boxes: object) -> tuple[Box, ...]:
    """Return boxes from outside: lists of four whole numbers, or one such list (ValueError)."""
    if isinstance(boxes, Sequence) and boxes and all(type(number) is int for number in boxes):
        boxes = [boxes]
    if not isinstance(boxes, Sequence) or not 1 <= len(boxes) <= MAX_BOXES:
        raise ValueError(f"1 to {MAX_BOXES} boxes are expected: {EXPECTED}")
    read: list[Box] = []
    for box in boxes:
        if not isinstance(box, list | tuple) or len(box) != 4 or not all(type(number) is int for number in box):
            raise ValueError(f"a region is {EXPECTED}")
        left, top, width, height = box
        if min(left, top) < 0 or min(width, height) < 1 or max(box) >= 2**31:
            raise ValueError("a region has a left and a top of 0 or more, and a width and a height of 1 or more")
        read.append((left, top, width, height))
    return tuple(dict.fromkeys(read))


def boxes_of(extra: Mapping[str, Any]) -> tuple[Box, ...]:
    """Return the boxes that `Item.extra` holds, () without any (ValueError)."""
    return checked(extra[FIELD]) if extra.get(FIELD) else ()


def are_inside(boxes: Sequence[Box], size: tuple[int, int]) -> bool:
    """Return whether a picture of this width and height holds all boxes."""
    return all(left + width <= size[0] and top + height <= size[1] for left, top, width, height in boxes)
