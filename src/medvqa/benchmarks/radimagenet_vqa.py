"""RadImageNet-VQA: choice, closed and open questions about CT and MRI images (Butsanets et al., MIDL 2026).

Source: https://huggingface.co/datasets/raidium/RadImageNet-VQA (arXiv:2512.17396); its first card said Apache-2.0, and
the images come from RadImageNet, with terms of its own: read the present card. The config `benchmark` has 9,000
questions in one Parquet file: 2,000 with four choices, 5,000 closed, 2,000 open. One row:

    image <PNG> | question Which finding is shown? | choices ["fracture", "no pathology seen", "cyst", "mass"] |
    answer B | question_type multiple_choice | metadata {"content_type": "pathology", "modality": "CT",
    "question_id": 7, "correct_text": ..., "pathology": ..., "location": ..., "is_abnormal": ...}

A closed question has the answer yes or no, an open one a text; both have no choices. Only the columns of `ScanQuestion`
are read: correct_text, pathology, location and is_abnormal each hold the answer to some questions.

Official scorer and prompt: none published that we found. The owners score open answers by a judge.
Traps: `no pathology seen` is an answer, no refusal; content types are not equally spread over question types, so a
mean over content types mixes easy closed questions with hard open ones. Hence the slices by both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from medvqa import metrics, tables
from medvqa.benchmarks import closed_open, lettered, origins, published
from medvqa.benchmarks.lettered import TOKENS
from medvqa.items import Answer, Benchmark, Item, Kind, Origin, OriginFile, Owners, Prompt, Score, Technique, of_data
from medvqa.protocols.prompts import Template
from medvqa.scoring import is_yes_or_no, score_single_choice
from medvqa.tables.shards import rows
from medvqa.tags import lexicon

NAME = "radimagenet-vqa"
FILE = "benchmark/test-00000-of-00001.parquet"
KINDS: Mapping[str, Kind] = {"multiple_choice": "single_choice", "closed": "judgment", "open": "short_answer"}
ORIGIN = Origin(
    licence="Apache-2.0 by its first card; RadImageNet's images have terms of their own",
    home="https://huggingface.co/datasets/raidium/RadImageNet-VQA",
    hub="raidium/RadImageNet-VQA",
    files=(OriginFile(to=f"{NAME}/{FILE}", at=FILE),),
    terms=(
        "log in to the hub, and accept the terms of https://huggingface.co/datasets/raidium/RadImageNet-VQA "
        "if it shows any"
    ),
    release=9000,
    reads=(f"{NAME}/benchmark/test*.parquet",),
)


class ScanMetadata(msgspec.Struct, frozen=True):
    """The fields of `metadata` that are read."""

    content_type: str
    modality: str | None = None
    question_id: str | int | None = None


class ScanQuestion(msgspec.Struct, frozen=True):
    """The columns that are read, beside the image."""

    question: str
    answer: str
    question_type: str
    metadata: ScanMetadata
    choices: list[str] | None = None


def items(data: Path) -> Iterator[Item]:
    """Yield the questions; those about one image are a cluster. DataError, which names file and row, for a bad one.

    The id is `question_id`, or the number of the row if some have none or share one.
    """
    needed = ("image", "question", "answer", "question_type", "metadata")
    read = rows(origins.found(ORIGIN, data), data, NAME, needed=needed, digests=True)
    loaded = [_item(row, row.convert(ScanQuestion)) for row in read]
    unique = max(Counter(item.id for item in loaded).values(), default=1) == 1 and all(item.id for item in loaded)
    for number, item in enumerate(loaded, 1):
        yield item if unique else replace(item, id=str(number))


def _item(row: tables.TableRow, line: ScanQuestion) -> Item:
    if (kind := KINDS.get(line.question_type)) is None:
        raise row.error(
            f"no question type {of_data(repr(line.question_type[:40]))}; known: {', '.join(KINDS)}", "question_type"
        )
    if (image := row.image("image")) is None:
        raise row.error("no image", "image")
    options = lettered.listed(row, line.choices or (), "choices") if kind == "single_choice" else {}
    answer = line.answer.strip()
    if kind == "judgment" and not is_yes_or_no(answer):
        raise row.error("the answer to a closed question is yes or no", "answer")
    if not answer:
        raise row.error("blank", "answer")
    return Item(
        id="" if line.metadata.question_id is None else str(line.metadata.question_id),
        kind=kind,
        question=line.question,
        options=options,
        answers=lettered.key(row, answer, options, "answer") if options else (answer,),
        images=(image,),
        tags={
            "content_type": lexicon.slugs(line.metadata.content_type),
            "question_type": lexicon.slugs(line.question_type),
            "modality": lexicon.slugs(line.metadata.modality),
        },
        cluster_id=image.digest or None,
    )


OURS: Mapping[Kind, Template] = {
    "single_choice": Template(
        "radimagenet-vqa/ours-choice",
        "{question}\n{options}Answer with the letter of the correct option only.",
        "{letter}. {text}\n",
        max_tokens=TOKENS,
    ),
    "judgment": Template("radimagenet-vqa/ours-closed", "{question}\nAnswer with yes or no only.", max_tokens=TOKENS),
    "short_answer": Template("radimagenet-vqa/ours-open", "{question}\nAnswer briefly.", max_tokens=TOKENS),
}
"""Our own prompts: none of the owners' was found."""


def prompt(item: Item, technique: Technique) -> Prompt:
    """Return our prompt for the kind of question."""
    return OURS[item.kind].prompt(item, technique)


def score(item: Item, answer: Answer) -> Score:
    """Score choices by letter and closed questions by yes or no; open answers are for their metrics and a judge."""
    return score_single_choice(item, answer) if item.kind == "single_choice" else closed_open.score(item, answer)


BENCHMARKS = (
    Benchmark(
        name=NAME,
        title="RadImageNet-VQA",
        items=items,
        prompt=prompt,
        score=score,
        judged=closed_open.JUDGED,
        metrics=(metrics.accuracy, *metrics.closed_and_open("answer_type"), *metrics.rates),
        headline=("accuracy", *metrics.open_questions.HEADLINE),
        dimensions=("content_type", "question_type", "modality", "content_type+question_type"),
        origin=ORIGIN,
        owners=Owners(published=partial(published.read, NAME)),
    ),
)
