"""What phantom-vlm makes of masked regions: `python bench/regions.py [PHANTOMS]`.

It draws phantoms that the model was not trained on, and asks the questions of MediConfusion's form. The region of a
question is the box around all pixels in which the two images of its pair differ, so that it holds the answer. It prints
the accuracy with each mask and fill, and of the same questions with nothing masked.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `tools`

import medvqa
from medvqa.perturbing import FILLS, MASKS
from medvqa.records.run_folder import read
from tools.questions import mediconfusion
from tools.scenes import draw

FIRST_SEED = 2001


def write(folder: Path, phantoms: int) -> Path:
    """Write the questions, their images and regions into the folder; return the table's file."""
    rows = [("id", "question", "A", "B", "answer", "image", "pair", "box")]
    for seed in range(FIRST_SEED, FIRST_SEED + phantoms):
        pairs, scenes = mediconfusion.pairs(seed)
        pictures = {name: draw(scene)[0] for name, scene in scenes.items()}
        for name, picture in pictures.items():
            picture.save(folder / f"{seed}-{name}.png")
        for number, pair in pairs.items():
            sides = [pair["im_1_local"], pair["im_2_local"]]
            region = box(*(np.asarray(pictures[name]) for name in sides))
            for name, answer in zip(sides, (pair["im_1_correct"], pair["im_2_correct"]), strict=True):
                texts = pair["question"], pair["option_A"], pair["option_B"], answer
                rows.append((f"{seed}-{number}-{name}", *texts, f"{seed}-{name}.png", f"{seed}-{number}", region))
    with (folder / "phantoms.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    (folder / "phantoms.toml").write_text('file = "phantoms.csv"\nimages = "."\n')
    return folder / "phantoms.toml"


def box(one: np.ndarray, other: np.ndarray) -> str:
    """Return the box around the pixels in which two pictures differ, as a table writes it."""
    differ = (one != other).any(axis=2)
    down, across = np.flatnonzero(differ.any(axis=1)), np.flatnonzero(differ.any(axis=0))
    return f"{across[0]},{down[0]},{np.ptp(across) + 1},{np.ptp(down) + 1}"


def main(phantoms: int) -> None:
    """Write the table and print a line for each run."""
    asked: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        table = write(Path(name), phantoms)
        for perturb in (*(f"{mask}:{fill}" for fill in FILLS for mask in MASKS), None):
            given = {
                "technique": "ps",
                "perturb": perturb,
                "folder": name,
                "run": (perturb or "clean").replace(":", "-"),
            }
            medvqa.evaluate("phantom-vlm", str(table), **given)
            results = read(Path(name) / "reports" / given["run"]).results
            # Without a mask, the questions that masks ask count alone.
            values = {one.item.id: one.score.value for one in results if perturb or one.item.id in asked}
            asked = set(values)
            print(f"{perturb or 'nothing masked':22} {100 * np.mean(list(values.values())):5.1f} % of {len(values)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
