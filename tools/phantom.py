"""The phantom: a small benchmark of synthetic images in the formats of the three benchmarks.

    python -m tools.phantom fixtures/phantom
    python -m tools.phantom --contact-sheet docs/images/phantom.png

The same seed gives the same files (PNG and JPEG files the same pixels: their bytes depend on Pillow's libraries).
"""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from tools.canvas import Scene
from tools.questions import SHIPPED_SEED, gmai_mmbench, mediconfusion, medlesionvqa
from tools.questions.gmai_mmbench import Picture
from tools.scenes import draw

JPEG_QUALITY = 92

README = """\
# Phantom

A small benchmark of synthetic lesions and organs in the formats of GMAI-MMBench (`gmai-mmbench/`), MediConfusion
(`mediconfusion/`) and MedLesionVQA (`medlesionvqa/`). It shows whether an evaluation runs and counts right; it says
nothing about how good a model is at medicine. No image, question or answer of the three benchmarks is in it.

Made by

    python -m tools.phantom DIR --seed {seed}

The scenes that follow from seed {shipped} are reserved for evaluation: train on others.

To the extent possible under law, the authors have waived all rights to these data (CC0 1.0,
https://creativecommons.org/publicdomain/zero/1.0/).
"""


def write(folder: Path, seed: int = SHIPPED_SEED) -> None:
    """Write the three data sets and a README into the folder, which is made if need be."""
    for name in ("gmai-mmbench", "mediconfusion/images", "medlesionvqa/images"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _write_text(folder / "README.md", README.format(seed=seed, shipped=SHIPPED_SEED))
    write_gmai_mmbench(folder / "gmai-mmbench" / "PHANTOM_VAL.tsv", seed)
    write_mediconfusion(folder / "mediconfusion", seed)
    write_medlesionvqa(folder / "medlesionvqa", seed)


def write_gmai_mmbench(file: Path, seed: int) -> None:
    """Write GMAI-MMBench's TSV; a row that shares its picture refers to the first one by `index`."""
    rows: list[dict[str, str]] = []
    first: dict[Picture, str] = {}
    for index, (row, picture) in enumerate(gmai_mmbench.rows(seed), start=1):
        image = first[picture] if picture in first else base64.b64encode(_png(picture.draw())).decode()
        first.setdefault(picture, str(index))
        rows.append({"index": str(index), "image": image} | row)
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _write_text(file, table.getvalue())


def write_mediconfusion(folder: Path, seed: int) -> None:
    """Write MediConfusion's dataset.json and images/LOCAL.jpg."""
    pairs, scenes = mediconfusion.pairs(seed)
    _write_text(folder / "dataset.json", json.dumps(pairs, indent=1) + "\n")
    for local, scene in scenes.items():
        draw(scene)[0].save(folder / "images" / f"{local}.jpg", quality=JPEG_QUALITY)


def write_medlesionvqa(folder: Path, seed: int) -> None:
    """Write phantom.jsonl and images/NUMBER.png; rows that share a scene share its image."""
    lines: list[str] = []
    names: dict[Scene, str] = {}
    for number, (row, scene) in enumerate(medlesionvqa.rows(seed), start=1):
        if scene is not None and scene not in names:
            names[scene] = f"images/{len(names) + 1}.png"
            (folder / names[scene]).write_bytes(_png(draw(scene)[0]))
        lines.append(json.dumps({"id": str(number), "image": names[scene] if scene else None} | row) + "\n")
    _write_text(folder / "phantom.jsonl", "".join(lines))


def contact_sheet(seed: int = SHIPPED_SEED, columns: int = 12) -> Image.Image:
    """For each question text of the three data sets one of its pictures (both of a pair), side by side."""
    groups: dict[str, list[tuple[Picture, ...]]] = {}
    for row, picture in gmai_mmbench.rows(seed):
        groups.setdefault(row["question"] + row["perceptual granularity"], []).append((picture,))
    pairs, scenes = mediconfusion.pairs(seed)
    for pair in pairs.values():
        both = Picture(scenes[pair["im_1_local"]]), Picture(scenes[pair["im_2_local"]])
        groups.setdefault(pair["question"], []).append(both)
    for lesion_row, scene in medlesionvqa.rows(seed):
        if scene is not None:
            groups.setdefault(lesion_row["question"], []).append((Picture(scene),))
    # Not always the first, for these resemble one another.
    chosen = [group[number % len(group)] for number, group in enumerate(groups.values())]
    images = [picture.draw() for pictures in chosen for picture in pictures]
    step = images[0].width + 4
    sheet = Image.new("RGB", (step * columns, step * -(-len(images) // columns)), "white")
    for place, image in enumerate(images):
        sheet.paste(image, (place % columns * step + 2, place // columns * step + 2))
    return sheet


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tools.phantom", description="Draw the phantom benchmark.")
    parser.add_argument("folder", type=Path, nargs="?", metavar="DIR", help="where the three data sets are written")
    parser.add_argument("--seed", type=int, default=SHIPPED_SEED, help=f"the shipped data have seed {SHIPPED_SEED}")
    parser.add_argument("--contact-sheet", type=Path, metavar="FILE", help="write an overview of the images")
    asked = parser.parse_args(arguments)
    if asked.folder is None and asked.contact_sheet is None:
        parser.error("nothing to do: name a folder DIR, or --contact-sheet FILE")
    if asked.folder is not None:
        write(asked.folder, asked.seed)
    if asked.contact_sheet is not None:
        contact_sheet(asked.seed).save(asked.contact_sheet, optimize=True)


def _png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG", optimize=True)
    return data.getvalue()


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
