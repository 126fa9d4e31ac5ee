"""Arrange prompts into batches by their cost, and bound batches by it after a model was out of memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import ceil, inf

from medvqa.items import Prompt

PIXELS, CHARACTERS, BASE = 784, 4, 64
"""Pixels and characters of about one token, and tokens added for what is equal in all prompts."""
CALM = 32
"""Full batches in a row that must fit before larger ones are tried again."""


Cost = tuple[int, int]
"""What makes a prompt long for a model: the pixels of its images, then the characters of its text."""
Kind = tuple[str, int | None, int]
"""What is equal in all prompts of a batch, as a backend would have to split others: technique, limit of new tokens, and
number of images (not every model masks images that are added as padding)."""


def measured(prompt: Prompt) -> tuple[Kind, Cost]:
    """Return kind and cost of a prompt. No image is decoded (`Image.apparent_size`)."""
    images = prompt.images
    count, pixels = (len(images), sum([image.apparent_size() for image in images])) if images else (0, 0)
    return (prompt.technique, prompt.max_tokens, count), (pixels, len(prompt.text))


def load(costs: Sequence[Cost]) -> float:
    """Return a rough number of tokens of a batch, whose prompts are all padded to the longest."""
    pixels, characters = max(costs)
    return len(costs) * (BASE + pixels / PIXELS + characters / CHARACTERS)


def by_cost(shared: Sequence[object], costs: Sequence[Cost]) -> list[int]:
    """Return the places of prompts in the order of their cost: padding to a longer one costs time.

    Prompts with the same value in `shared`, such as an image, stay side by side, in the place of the largest of them.
    """
    groups: dict[object, list[int]] = defaultdict(list)
    largest: dict[object, Cost] = {}
    for place, (value, cost) in enumerate(zip(shared, costs, strict=True)):
        groups[value].append(place)
        if value not in largest or cost > largest[value]:
            largest[value] = cost
    return [place for value in sorted(groups, key=largest.__getitem__) for place in groups[value]]


class Room:
    """The load of a batch for which the model has memory, learned from batches that were out of it.

    One batch that is out of memory says little: memory may have been short for a moment. It is halved, and that is all.
    If a second one is out of memory before a batch of such a load fits, batches are cut to half of its load. After
    CALM full batches that fit, the limit doubles; if that is too much again, the next time takes twice as many.
    """

    def __init__(self) -> None:
        """Start without a limit."""
        self.limit = inf
        self._calm = CALM
        self._fitted = self._failures = 0
        self._grown = False
        self._failed = self._before = inf

    def most(self, costs: Sequence[Cost]) -> int:
        """Return how many of the first prompts to send together, at least one."""
        if load(costs) <= self.limit:
            return len(costs)
        most = next((count for count in range(2, len(costs) + 1) if load(costs[:count]) > self.limit), 2) - 1
        # Equal parts: a full batch and a small rest would take as many calls.
        return ceil(len(costs) / ceil(len(costs) / most))

    def fitted(self, load: float) -> None:
        """Note a batch that was computed, other than a half of one that was out of memory."""
        if load <= min(self._failed, self.limit) / 2:
            return
        self._failures, self._failed = 0, inf
        self._fitted += 1
        if self._fitted >= self._calm and self.limit < inf:
            self.limit, self._fitted, self._grown = self.limit * 2, 0, True

    def exceeded(self, load: float) -> None:
        """Note a batch of several prompts that was out of memory."""
        if not self._failures:
            self._before = self.limit
        self._failures, self._failed, self._fitted = self._failures + 1, load, 0
        if self._failures > 1:
            self.limit = min(self.limit, load / 2)
            self._calm, self._grown = self._calm * 2 if self._grown else self._calm, False

    def exceeded_alone(self) -> None:
        """Note a prompt that does not even fit alone: the load of the batches before was not the cause."""
        if self._failures:
            self.limit, self._failures, self._failed = self._before, 0, inf
