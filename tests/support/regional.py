"""A table of questions with regions, and two scripted models: one that uses the region and one that does not."""

import csv
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medvqa.backend import Backend
from medvqa.items import Answer, Prompt

SIDE = 24
"""Width and height of regions in pixels."""


def write(folder: Path, count: int = 40) -> Path:
    """Write `count` questions with a region, one without, and one whose region fills its image; return the table.

    The images are noise with a brighter region. Every other answer is A.
    """
    random = np.random.default_rng(0)
    rows = [["id", "question", "A", "B", "answer", "image", "box"]]
    for number in range(count + 2):
        pixels = random.integers(40, 120, (80, 100, 3), np.uint8)
        left, top = int(random.integers(100 - SIDE + 1)), int(random.integers(80 - SIDE + 1))
        pixels[top : top + SIDE, left : left + SIDE] += 60
        Image.fromarray(pixels).save(folder / f"{number}.png")
        box = f"{left},{top},{SIDE},{SIDE}" if number < count else ["", "0,0,100,80"][number - count]
        rows.append([f"q{number}", "Is a lesion shown?", "yes", "no", "AB"[number % 2], f"{number}.png", box])
    with (folder / "regional.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    (folder / "regional.toml").write_text('file = "regional.csv"\nimages = "."\n')
    return folder / "regional.toml"


def guess(item: str) -> str:
    """Return A or B by a rule that knows neither image nor key."""
    return "AB"[blake2b(item.encode()).digest()[0] % 2]


class UsesRegion(Backend):
    """Right if each pixel of the region is as in the file of its folder (the argument), else a guess."""

    sends_to = None
    title = "a model that uses the region"

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        with (Path(self.argument) / "regional.csv").open() as file:
            known = {row["id"]: row for row in csv.DictReader(file)}
        return [Answer(self._letter(known[prompt.item], prompt)) for prompt in prompts]

    def _letter(self, row: dict[str, str], prompt: Prompt) -> str:
        left, top, width, height = map(int, (row["box"] or "0,0,1,1").split(","))
        shown, stored = (
            np.asarray(picture)[top : top + height, left : left + width]
            for picture in (prompt.images[0].pil(), Image.open(Path(self.argument) / row["image"]))
        )
        return row["answer"] if _equal(shown, stored) else guess(row["id"])


class IgnoresImages(Backend):
    """Right for three of four questions, whatever their images show."""

    sends_to = None
    title = "a model that ignores images"

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer("AB"[(int(prompt.item[1:]) + (int(prompt.item[1:]) % 4 == 0)) % 2]) for prompt in prompts]


def _equal(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> bool:
    return one.shape == other.shape and bool((one == other).all())
