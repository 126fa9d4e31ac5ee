"""Small data sets in the owners' formats: as many questions as a table of a paper needs, with values made up."""

import base64
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medvqa.tags import lexicon
from support.neighbours import png

GRANULARITIES = ("Image Level", "Box Level", "Mask Level", "Contour Level")


def mediconfusion(data: Path, name: str = "mediconfusion") -> None:
    """Write a pair for each category and one of two categories, with similarities as the release has them."""
    folder = data / name
    (folder / "images").mkdir(parents=True)
    categories = [*lexicon.mediconfusion().dimensions["category"].values.values()]
    pairs = {}
    for number, category in enumerate([*categories, *categories[:1]], 10001):
        both = categories[:2] if number - 10001 == len(categories) else [category]
        right = "AB" if number % 2 else "BA"
        for side in (0, 1):
            (folder / "images" / f"{number}{side}.jpg").write_bytes(png(number % 200 + side))
        pairs[str(number)] = {
            **{f"im_{side}": f"train/ROCO_{number}{side}.jpg" for side in (1, 2)},
            **{f"im_{side}_local": int(f"{number}{side - 1}") for side in (1, 2)},
            **{f"im_{side}_correct": right[side - 1] for side in (1, 2)},
            **{f"category_{side}": both for side in (1, 2)},
            "question": f"What does image {number} show?",
            **{"option_A": "an aneurysm", "option_B": "no aneurysm"},
            "BiomedCLIP_sim": 0.9 + (number % 7) / 100,
            "DINO_sim": 0.3 + (number % 5) / 10,
        }
    (folder / "dataset.json").write_text(json.dumps(pairs))


def gmai_mmbench(data: Path) -> None:
    """Write VAL with an answer key and TEST without: a question for each task, department and granularity."""
    words = lexicon.gmai_mmbench().dimensions
    names = [[*words[dimension].values.values()] for dimension in ("task", "department", "modality")]
    rows = list(itertools.islice(zip(*map(itertools.cycle, (*names, GRANULARITIES)), strict=False), 80))
    rows.append(("Disease Diagnosis", "Ophthalmology", "Fundus Photography", "Image Level"))
    options = ("polyp", "ulcer", "naevus", "abscess")
    columns = ("index", "image", "question", *"ABCD", "answer", "category", "clinical VQA task", "department")
    columns += ("modality", "perceptual granularity", "original task")
    folder = data / "gmai-mmbench"
    folder.mkdir(parents=True)

    def table(first: int, key: bool) -> Iterator[str]:
        yield "\t".join(columns)
        for number, (task, department, modality, level) in enumerate(rows, first):
            image = base64.b64encode(png(number % 200, (4, 3 + number // 200))).decode()
            right = number % 4
            cells = (image, f"What is shown in image {number}?", *options, "ABCD"[right] if key else "", options[right])
            yield "\t".join((str(number), *cells, task, department, modality, level, "2D Classification"))

    (folder / "GMAI-MMBench_VAL.tsv").write_text("\n".join(table(0, key=True)) + "\n")
    parts = [*table(1000, key=False)]
    for part in range(1, 12):
        lines = parts[part::11]
        (folder / f"GMAI_mm_bench_TEST_part_{part}.tsv").write_text("\n".join([parts[0], *lines]) + "\n")


def medlesionvqa(data: Path) -> None:
    """Write val and test: a question of each type for each ability."""
    folder = data / "medlesionvqa"
    (folder / "images").mkdir(parents=True)
    values = lexicon.medlesionvqa().dimensions["ability"].values
    types: Mapping[str, Mapping[str, Any]] = {
        "multi_choice": {"options": {"A": "papule", "B": "plaque", "C": "ulcer"}, "answer": "AB"},
        "judgment": {"answer": "yes"},
        "fill_in_the_blank": {"answer": "red"},
        "short_answer": {"answer": "acne"},
    }
    lines = []
    for split in ("val", "test"):
        for number, (ability, (kind, more)) in enumerate(itertools.product(values, types.items())):
            meta = {"body_region": "forehead", "lesions": ["papule"], "diseases": ["acne"]}
            image = f"images/{split}{number}.jpg"
            (folder / image).write_bytes(png(number, (4, 3 if split == "val" else 4)))
            line = {"id": f"{split}{number}", "split": split, "image": image, "ability": ability}
            line |= {"question_type": kind, "question": f"Question {number}: what is it?", "meta": meta, **more}
            lines.append(json.dumps(line))
    (folder / "all.jsonl").write_text("\n".join(lines) + "\n")
