"""Writes a GMAI-MMBench table of any size: real structure and lexicon values, images of noise.

    python bench/make_gmai.py DIR --rows 4550 --bytes 1e9
    pytest --model=random --benchmark=gmai-mmbench-val --data=DIR

The same arguments give the same bytes. One row is in memory at a time.
"""

from __future__ import annotations

import argparse
import base64
import csv
import random
import struct
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

from medvqa.tags import lexicon

COLUMNS = (
    *("index", "image", "question", "A", "B", "C", "D", "E", "answer", "category", "clinical VQA task"),
    *("department", "perceptual granularity", "modality", "original task"),
)
LETTERS = "ABCDE"
VAL = "gmai-mmbench/GMAI-MMBench_VAL.tsv"
"""The path of the table in its data folder."""

TEXT = 320
"""Bytes of a row beside its image, about."""

WIDTH = 256


def png(pixels: int, draw: random.Random) -> bytes:
    """A valid grey PNG of noise, stored without compression: `pixels` bytes and a few more."""
    height = max(1, pixels // (WIDTH + 1))
    rows = b"".join(b"\0" + draw.randbytes(WIDTH) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", WIDTH, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def tasks_of(rows: int, counts: Mapping[str, int] | None, draw: random.Random) -> list[str]:
    """The task of every row: as many as `counts` says (by the paper's abbreviation), else drawn."""
    task = lexicon.gmai_mmbench().dimensions["task"]
    if counts is None:
        return draw.choices(list(task.values), k=rows)
    return [task.tag(short) for short, count in counts.items() for _ in range(count)]


def write(
    path: Path,
    *,
    rows: int,
    size: int,
    seed: int = 0,
    references: float = 0.02,
    withheld: bool = False,
    counts: Mapping[str, int] | None = None,
) -> None:
    """Write `rows` rows of about `size` bytes in all; the share `references` shows the image of an earlier row."""
    draw = random.Random(seed)
    known = lexicon.gmai_mmbench()
    names = {name: list(dimension.values.values()) for name, dimension in known.dimensions.items()}
    branches: dict[str, list[tuple[str, ...]]] = {}
    for branch in sorted(known.trees["task", "modality", "label"]):
        branches.setdefault(branch[0], []).append(branch)
    tasks = tasks_of(rows, counts, draw)
    images = max(1, len(tasks) * (1 - references))
    pixels = max(1, int((size - TEXT * len(tasks)) / images * 3 / 4))
    columns = [column for column in COLUMNS if not (withheld and column == "answer")]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, delimiter="\t", lineterminator="\n", extrasaction="ignore")
        table.writeheader()
        holders: list[int] = []
        for number, task in enumerate(tasks):
            _, modality, label = draw.choice(branches[task])
            right = lexicon.display("label", label)
            others = draw.sample([name for name in names["label"] if name != right], draw.randint(1, 4))
            options = draw.sample([right, *others], len(others) + 1)
            if holders and draw.random() < references:
                image = str(draw.choice(holders))
            else:
                image = base64.b64encode(png(pixels, draw)).decode()
                holders.append(number)
            row = {
                "index": str(number),
                "image": image,
                "question": f"Which of these is shown in case {number}?",
                **dict(zip(LETTERS, options, strict=False)),
                "answer": LETTERS[options.index(right)],
                "category": right,
                "clinical VQA task": lexicon.display("task", task),
                "department": draw.choice(names["department"]),
                "perceptual granularity": draw.choice(names["granularity"]),
                "modality": lexicon.display("modality", modality),
                "original task": "2D Classification",
            }
            table.writerow(row)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="data folder; the table goes into its gmai-mmbench/")
    parser.add_argument("--rows", type=int, default=4550)
    parser.add_argument("--bytes", type=float, default=1e9, help="size of the table (default 1e9)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--references", type=float, default=0.02, help="share of rows that refer to another's image")
    typed = parser.parse_args(arguments)
    path = typed.folder / VAL
    write(path, rows=typed.rows, size=int(typed.bytes), seed=typed.seed, references=typed.references)
    print(f"{path}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
