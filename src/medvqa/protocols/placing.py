"""Places of images within the text of a message, for the order `in-place`: marks such as `<image 1>`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from medvqa.items import Image, Order

_MARK = re.compile(r"<image (\d{1,3})>")


def marks(text: str) -> list[int]:
    """Return the numbers of all image marks in a text, from 1, in their order."""
    return [int(match[1]) for match in _MARK.finditer(text)]


def placed(text: str, images: Sequence[Image], order: Order) -> list[str | Image]:
    """Return the texts and images of a message in the order in which a model gets them.

    In the order `in-place`, the n-th image replaces the first mark `<image n>`, and images without a mark come first.
    Further marks of an image and marks without an image stay in the text, so every image is sent once. White space
    between two images is left out.

    >>> placed("Compare <image 1> with <image 2>.", (), "in-place")
    ['Compare <image 1> with <image 2>.']
    """
    if order == "text-first":
        return [text, *images]
    if order == "images-first" or not images:
        return [*images, text]
    parts: list[str | Image] = []
    used: set[int] = set()
    start = 0
    for match in _MARK.finditer(text):
        number = int(match[1])
        if number in used or not 1 <= number <= len(images):
            continue
        used.add(number)
        parts += [text[start : match.start()], images[number - 1]]
        start = match.end()
    parts.append(text[start:])
    unmarked = [image for number, image in enumerate(images, 1) if number not in used]
    return [*unmarked, *(part for part in parts if not isinstance(part, str) or part.strip())]
