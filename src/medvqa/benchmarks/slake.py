"""SLAKE: closed and open questions in English and Chinese about CT, MRI and X-ray images (Liu et al. 2021).

Source: https://huggingface.co/datasets/BoKelvin/SLAKE, CC BY 4.0; 642 images. JSON lists train.json, validation.json
(validate.json elsewhere) and test.json in both languages, and imgs.zip. A row, with made-up values:

    {"img_id": 1, "img_name": "xmlab1/source.jpg", "question": "Does the picture contain liver?", "answer": "Yes",
     "q_lang": "en", "location": "Abdomen", "modality": "MRI", "answer_type": "CLOSED", "base_type": "vqa",
     "content_type": "Organ", "triple": ["vhead", "_", "_"], "qid": 3}

`triple` may hold the answer: it is not kept. A CLOSED question is answered by yes or no, or by one of two things that
it names. The splits share no image within a language, but most English test images stand in the Chinese training
questions: groups and solved examples go by `img_id`, over both languages.

There is no official scorer and no official prompt. Usual ones:
https://github.com/alibaba-damo-academy/MedEvalKit/blob/9b12e3b34232a8779cc1275417bf4f72f03d28e0/utils/SLAKE/SLAKE.py
https://github.com/EvolvingLMMs-Lab/lmms-eval/blob/75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3/lmms_eval/tasks/slake/utils.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from medvqa import metrics, tables
from medvqa.benchmarks import closed_open, origins, published
from medvqa.items import Benchmark, Item, Kind, Origin, OriginFile, Owners
from medvqa.metrics import kits
from medvqa.printing import clipped
from medvqa.tables.image_files import image_file
from medvqa.tables.shards import rows
from medvqa.tags import lexicon

GROUP = "slake"
FILES = {"test": ("test.json",), "validation": ("validation.json", "validate.json"), "train": ("train.json",)}
"""The files of each split: the first that is there is read."""
RELEASED = {
    "en": {"test": 1061, "validation": 1053, "train": 4919},
    "zh": {"test": 1033, "validation": 1046, "train": 4916},
}
KINDS: Mapping[str, Kind] = {"CLOSED": "judgment", "OPEN": "short_answer"}
TITLES = {"en": "English", "zh": "Chinese"}

ORIGINS = {
    split: Origin(
        licence="CC BY 4.0",
        home="https://huggingface.co/datasets/BoKelvin/SLAKE",
        hub="BoKelvin/SLAKE",
        revision="a9083ce6c34ac3ffb17671a605962924d8a8f9e9",
        files=(
            OriginFile(to=f"{GROUP}/{names[0]}", at=names[0]),
            OriginFile(to=f"{GROUP}/imgs.zip", at="imgs.zip", unpack=GROUP),
        ),
        reads=tuple(f"{GROUP}/{name}" for name in names),
        group=GROUP,
        on_request=split != "test",
    )
    for split, names in FILES.items()
}


class SlakeRow(msgspec.Struct, frozen=True):
    """One question. The order of keys differs between splits."""

    qid: int | str
    img_id: int | str
    img_name: str
    question: str
    answer: str | int | float
    q_lang: str
    answer_type: str
    location: str = ""
    modality: str = ""
    base_type: str = ""
    content_type: str = ""


def items(data: Path, split: str, language: str) -> Iterator[Item]:
    """Yield the questions of a split in one language; DataError names file and record.

    A blank answer, which one training question has, is a withheld key.
    """
    seen: dict[str, str] = {}
    for row in rows(origins.found(ORIGINS[split], data), data, GROUP):
        line = row.convert(SlakeRow)
        if line.q_lang not in TITLES:
            raise row.error(f"no language {clipped(repr(line.q_lang))}; known: {', '.join(TITLES)}")
        name = row.identifier("qid")
        if name in seen:
            raise row.error(f"qid {name} is also that of {seen[name]}")
        seen[name] = row.where
        if line.q_lang == language:
            yield _item(row, line, name, data)


def _item(row: tables.TableRow, line: SlakeRow, name: str, data: Path) -> Item:
    kind = KINDS.get(line.answer_type.strip().upper())
    if kind is None:
        raise row.error(f"no answer type {clipped(repr(line.answer_type))}; known: {', '.join(KINDS)}")
    tags = {"answer_type": line.answer_type, "content_type": line.content_type, "modality": line.modality}
    tags |= {"location": line.location, "base_type": line.base_type, "language": line.q_lang}
    answer = row.text("answer").strip()
    return Item(
        id=name,
        kind=kind,
        question=line.question,
        answers=(answer,) if answer else (),
        images=(image_file(f"imgs/{line.img_name}", folder=data / GROUP, root=data, where=row.where),),
        tags={dimension: slugs for dimension, value in tags.items() if (slugs := lexicon.slugs(value))},
        cluster_id=f"{GROUP} image {row.identifier('img_id')}",
    )


MEDEVALKIT = {
    "en": ("Answer the question using a single word or phrase.", closed_open.BRIEFLY),
    "zh": ("请用一个单词或者短语回答该问题。", "请简要回答该问题。"),
}
"""MedEvalKit's lines for closed and for open questions (utils/question_formats.py): the usual prompt."""
LMMS_EVAL = {"en": "Answer the question using a single word or phrase.", "zh": "请用一个词或短语回答问题。"}
"""lmms-eval's line for all questions, with 32 new tokens."""


BENCHMARKS = tuple(
    Benchmark(
        name=f"{GROUP}-{language}-{split}",
        title=f"SLAKE, {TITLES[language]}, {split}",
        items=partial(items, split=split, language=language),
        prompt=closed_open.templates(GROUP, "medevalkit", *MEDEVALKIT[language]),
        prompts={"lmms-eval": closed_open.templates(GROUP, "lmms-eval", LMMS_EVAL[language], LMMS_EVAL[language], 32)},
        score=closed_open.score,
        judged=closed_open.JUDGED,
        metrics=(*metrics.closed_and_open("answer_type"), *metrics.rates),
        headline=metrics.open_questions.HEADLINE,
        dimensions=("answer_type", "content_type", "modality", "location", "base_type"),
        public=True,
        origin=replace(ORIGINS[split], release=RELEASED[language][split]),
        owners=Owners(
            kits={
                **({kits.LLAVA_MED: kits.llava_med} if language == "en" else {}),
                kits.MEDEVALKIT: partial(kits.medevalkit, folded=False, closed_if_judged="judged"),
            },
            training=f"{GROUP}-{language}-train",
            published=partial(published.read, GROUP),
        ),
    )
    for language in TITLES
    for split in FILES
)
