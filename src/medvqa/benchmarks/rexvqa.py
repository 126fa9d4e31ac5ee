"""ReXVQA: questions about chest X-ray studies, with one to several images (Pal et al. 2025, arXiv:2506.04353).

Source: https://huggingface.co/datasets/rajpurkarlab/ReXVQA, with the images of rajpurkarlab/ReXGradient-160K; both are
gated, for non-commercial research by their agreements. metadata/test_vqa_data.json and valid_vqa_data.json map the id
of a question to its fields:

    "q1": {"question": "Where is the opacity?", "options": ["A. Left", "B. Right", "C. Both", "D. None"],
           "correct_answer": "B", "correct_answer_explanation": ..., "task_name": "location", "category": "Lung",
           "study_id": "s1", "PatientID": "p1", "ImagePath": ["../deid_png/p1/a1/1.png"], "Findings": ...,
           "Impression": ..., "Indication": ..., and more about study and patient}

Only the columns of `StudyQuestion` are read: Findings, Impression and correct_answer_explanation hold the answer, and
Indication may. They reach no prompt, report or log. Patients are clusters. The data are not public, so runs record no
patient and no path.

Official code: an example script, which asks MedGemma with the first image alone, and its `evaluate_results`:
https://github.com/rajpurkarlab/ReXrank/blob/0a18a41e580992ac7cd32a8a9463009654f0d390/example_files/medgemma_inference.py.
Traps: its rule takes the first a, b, c or d of a response, so "Answer: C" is A; questions that end in an error are
left out of its denominator; a text alone answers many of the questions.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from medvqa import metrics, tables
from medvqa.benchmarks import lettered, origins, published
from medvqa.items import Benchmark, Item, OfficialRule, Origin, OriginFile, Owners, Prompt, Technique
from medvqa.protocols.prompts import Template
from medvqa.scoring import Reading, score_single_choice
from medvqa.tables.image_files import ImageFolder
from medvqa.tags import lexicon

GROUP = "rexvqa"
METADATA = "metadata"
ORIGINS = {
    split: Origin(
        licence="non-commercial research, by the agreements of both data sets",
        home="https://huggingface.co/datasets/rajpurkarlab/ReXVQA",
        hub="rajpurkarlab/ReXVQA",
        files=(OriginFile(to=f"{GROUP}/{METADATA}/{split}_vqa_data.json", at=f"{METADATA}/{split}_vqa_data.json"),),
        terms=(
            "accept the terms of https://huggingface.co/datasets/rajpurkarlab/ReXVQA and of "
            "https://huggingface.co/datasets/rajpurkarlab/ReXGradient-160K"
        ),
        note=(
            "the images are the split archive deid_png.part* of rajpurkarlab/ReXGradient-160K: "
            f"cat deid_png.part* | tar --zstd -xf - -C DATA/{GROUP}"
        ),
        group=GROUP,
        on_request=split != "test",
    )
    for split in ("test", "valid")
}


class StudyQuestion(msgspec.Struct, frozen=True):
    """The columns that are read."""

    question_id: str
    question: str
    options: list[str]
    correct_answer: str | None
    ImagePath: str | list[str]
    PatientID: str | int | None = None
    study_id: str | int | None = None
    task_name: str | None = None
    category: str | None = None


def items(data: Path, split: str) -> Iterator[Item]:
    """Yield the questions; those about one patient are a cluster.

    DataError, which names file and question, for a bad row, and for a path of an image that leaves DATA/rexvqa.
    """
    folder = ImageFolder(data / GROUP, data)
    for path in origins.found(ORIGINS[split], data):
        for row in tables.read(path, name=path.relative_to(data).as_posix(), key="question_id"):
            yield _item(row, row.convert(StudyQuestion), folder)


def _item(row: tables.TableRow, line: StudyQuestion, folder: ImageFolder) -> Item:
    options = lettered.unprefixed(row, line.options, "options")
    files = [line.ImagePath] if isinstance(line.ImagePath, str) else line.ImagePath
    lettered.check_count(row, files, "ImagePath")
    owner = line.study_id if line.PatientID is None else line.PatientID
    return Item(
        id=line.question_id,
        kind="single_choice",
        question=line.question.strip(),
        options=options,
        answers=lettered.key(row, line.correct_answer, options, "correct_answer"),
        images=tuple(folder.image(_within(file), row.where) for file in files),
        tags={
            "task": lexicon.slugs(line.task_name),
            "category": lexicon.slugs(line.category),
            "image_count": (str(len(files)),),
        },
        cluster_id=None if owner is None else f"patient {owner}",
    )


def _within(file: str) -> str:
    """The path within DATA/rexvqa of an image whose path is relative to the metadata's folder."""
    return posixpath.normpath(posixpath.join(METADATA, file))


OWNERS = Template(
    "rexvqa/owners",
    "Question: {question}\n\nOptions:\n{options}\nAnswer:",
    "{letter}. {text}\n",
    "You are an expert medical professional specializing in medical image analysis and diagnosis.",
    256,
    "text-first",
)
"""The example script's prompt, to the byte, with its limit of tokens. It defines another system prompt, too, but never
sends it."""


def first_image(item: Item, technique: Technique) -> Prompt:
    """Return the owners' prompt with the first image of the study alone, as their script asks MedGemma."""
    return OWNERS.prompt(replace(item, images=item.images[:1]), technique)


def rexvqa_rule(response: str, options: Mapping[str, str]) -> Reading:
    """Read `response` as the example script of ReXVQA's owners does: the first A, B, C or D in it, in either case.

    It may be within a word: "Based on the image, C" is B, and "Answer: C" is A.
    """
    letter = next((letter for letter in response.strip().upper() if letter in "ABCD"), "")
    return lettered.published(letter, options, "first letter of A to D")


BENCHMARKS = tuple(
    Benchmark(
        name=f"{GROUP}-{split}",
        title=f"ReXVQA {split}",
        items=partial(items, split=split),
        prompt=OWNERS.prompt,
        prompts={"first-image": first_image},
        score=score_single_choice,
        metrics=(metrics.accuracy, *metrics.rates),
        dimensions=("task", "category", "image_count"),
        origin=ORIGINS[split],
        owners=Owners(
            rule=OfficialRule(
                score=lettered.scored_by(rexvqa_rule),
                note="an answer counts as its first a, b, c or d, by the owners' example script",
            ),
            published=partial(published.read, GROUP),
        ),
    )
    for split in ORIGINS
)
