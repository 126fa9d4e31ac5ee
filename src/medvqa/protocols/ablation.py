"""Ablate images: withhold them, replace them by grey pictures, or exchange them between items.

Many medical questions give their answer away. A score proves the use of images only if it falls without them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from medvqa.image import TextCell
from medvqa.items import Image, Item, Prompt, UsageError
from medvqa.tags.selection import components

LABELS: Mapping[str, str] = {"text-only": "no images", "blank": "blank images", "shuffle": "shuffled images"}
"""The names of ablations in reports."""


def withhold(prompt: Prompt) -> Prompt:
    """Return the prompt without images, also in solved examples; the text stays unchanged."""
    return replace(prompt, images=(), shots=tuple(replace(shot, images=()) for shot in prompt.shots))


def blank(prompt: Prompt) -> Prompt:
    """Return the prompt with grey pictures in place of images, also in solved examples.

    Only the headers of the images are read, for their sizes. The prompt keeps no way to their pixels.
    """
    shots = tuple(replace(shot, images=tuple(map(Image.blanked, shot.images))) for shot in prompt.shots)
    return replace(prompt, images=tuple(map(Image.blanked, prompt.images)), shots=shots)


def shuffled(items: Sequence[Item]) -> dict[str, tuple[Image, ...]]:
    """Exchange the images of one benchmark's items: return the new images by item id, for items with images.

    The images of every item are used once. No item gets images from an item of its pair, or from one that shares an
    image with it (same name or same bytes). The result does not depend on the order of the items. Pass all items of a
    benchmark, so that a selection does not change the exchange. Raises UsageError if more than half of the items are
    connected to one another.
    """
    with_images = [item for item in items if item.images]
    same = common_names(image for item in with_images for image in item.images)
    links = [
        (
            f"item {item.id}",
            *(f"image {same[image]}" for image in item.images),
            *([f"pair {item.pair_id}"] if item.pair_id is not None else []),
        )
        for item in with_images
    ]
    joined = components(links)
    sizes = Counter(joined[link[0]] for link in links)
    most = max(sizes.values(), default=0)
    if 2 * most > len(with_images):
        raise UsageError(
            f"--ablate=shuffle: {most} of the {len(with_images)} questions of {with_images[0].benchmark} with images "
            "share their images, too many to exchange. Try --ablate=blank or --benchmark"
        )

    def place(item: Item) -> tuple[int, bytes, bytes]:
        group = joined[f"item {item.id}"]
        return -sizes[group], _rank(group), _rank(item.id)

    # Groups are contiguous, none is longer than the step, and the step is at most half of the circle. So a step always
    # leaves the group, and never enters it again from the other end.
    order = sorted(with_images, key=place)
    return {item.id: order[(number + most) % len(order)].images for number, item in enumerate(order)}


def _rank(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass")).digest()


def common_names(images: Iterable[Image]) -> dict[Image, str]:
    """Return a name for every image, the same for images with equal bytes.

    The name is the digest if the benchmark gives it, or if files have equal sizes (other files are not read), else the
    image's name.
    """
    distinct = set(images)
    names = {image: image.digest or image.file for image in distinct}
    by_size: defaultdict[int, list[Image]] = defaultdict(list)
    for image in distinct:
        if not image.digest and image.is_there:
            cell, size = image.cell, Path(image.path).stat().st_size
            by_size[cell.length if isinstance(cell, TextCell) else size].append(image)
    for alike in by_size.values():
        if len({image.file for image in alike}) > 1:
            names |= {image: image.sha256() for image in alike}
    return names
