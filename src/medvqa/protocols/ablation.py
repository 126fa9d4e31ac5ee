"""What a score is worth without the picture: images withheld, greyed, or exchanged with those of other items.

A medical question often gives its answer away, so that a number says little unless it falls when the image goes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from medvqa.data.selection import components
from medvqa.items import Image, Item, Prompt, UsageError

LABELS: Mapping[str, str] = {"text-only": "no images", "blank": "blank images", "shuffle": "shuffled images"}
"""What reports say of a run."""


def withhold(prompt: Prompt) -> Prompt:
    """The prompt without images, those of solved examples included; its text stays as it is."""
    return replace(prompt, images=(), shots=tuple(replace(shot, images=()) for shot in prompt.shots))


def blank(prompt: Prompt) -> Prompt:
    """Return the prompt with a grey picture in each image's place, also in solved examples.

    Only the headers of the images are read, for the sizes. Nothing in the prompt leads to their pixels.
    """
    shots = tuple(replace(shot, images=tuple(map(Image.blanked, shot.images))) for shot in prompt.shots)
    return replace(prompt, images=tuple(map(Image.blanked, prompt.images)), shots=shots)


def shuffled(items: Sequence[Item]) -> dict[str, tuple[Image, ...]]:
    """For each item of one benchmark that has images those of another item, by id: each item's are shown once.

    No item gets images of one that it is connected to by a pair or by an image, the same by name or to the byte. It
    depends on the items alone, not on their order, and is to be called with all of a benchmark, so that a selection
    does not change who gets what. UsageError where more than half of the items are connected to one another.
    """
    shown = [item for item in items if item.images]
    same = _same(image for item in shown for image in item.images)
    links = [
        (
            f"item {item.id}",
            *(f"image {same[image]}" for image in item.images),
            *([f"pair {item.pair_id}"] if item.pair_id is not None else []),
        )
        for item in shown
    ]
    joined = components(links)
    sizes = Counter(joined[link[0]] for link in links)
    most = max(sizes.values(), default=0)
    if 2 * most > len(shown):
        raise UsageError(
            f"--ablate=shuffle: {most} of the {len(shown)} questions of {shown[0].benchmark} with images share their "
            "images, so that not each can get another's. Try --ablate=blank or --benchmark"
        )

    def place(item: Item) -> tuple[int, bytes, bytes]:
        group = joined[f"item {item.id}"]
        return -sizes[group], _rank(group), _rank(item.id)

    # Groups lie side by side and none is longer than the step, which is at most half of the way round: so a step leads
    # out of the group, and not back into it from the other end.
    order = sorted(shown, key=place)
    return {item.id: order[(number + most) % len(order)].images for number, item in enumerate(order)}


def _rank(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass")).digest()


def _same(found: Iterable[Image]) -> dict[Image, str]:
    """A name that images have in common whose bytes are equal.

    It is the digest where the benchmark tells it. Else files of different size differ, so that only those of equal
    size are read; one that is not there is its name.
    """
    distinct = set(found)
    names = {image: image.digest or image.name for image in distinct}
    by_size: defaultdict[int, list[Image]] = defaultdict(list)
    for image in distinct:
        if not image.digest and Path(image.path).is_file():
            by_size[image.length or Path(image.path).stat().st_size - image.start].append(image)
    for alike in by_size.values():
        if len({image.name for image in alike}) > 1:
            names |= {image: image.sha256() for image in alike}
    return names
