"""VQA-RAD: closed and open questions of clinical trainees about radiology images (Lau et al. 2018).

Two forms of the data set, CC0 1.0, 315 images. They are two benchmarks, because they tell closed from open questions in
different ways and so give different numbers:

- `vqa-rad`: Parquet at https://huggingface.co/datasets/flaviagiammarino/vqa-rad, with image, question and answer alone.
  Closed: the answer is yes or no. train 1,793 questions, test 451.
- `vqa-rad-osf`: `VQA_RAD Dataset Public.json` of https://osf.io/89kps, 2,248 rows, and `VQA_RAD Image Folder`.
  Closed: the column answer_type. Test: phrase_type begins with `test`. A row, with made-up values:

    {"qid": 7, "image_name": "synpic100.jpg", "image_organ": "CHEST", "phrase_type": "test_freeform",
     "question": "Is there an effusion?", "question_type": "PRES", "answer": "No", "answer_type": "CLOSED"}

There is no official scorer and no official prompt. The usual prompt, 451 questions by the answer:
https://github.com/alibaba-damo-academy/MedEvalKit/blob/9b12e3b34232a8779cc1275417bf4f72f03d28e0/utils/VQA_RAD/VQA_RAD.py
"""

from __future__ import annotations

import re
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
from medvqa.tags import lexicon, selection

GROUP = "vqa-rad"
PUBLIC = "VQA_RAD Dataset Public.json"
IMAGES = "VQA_RAD Image Folder"
HUB, REVISION = "flaviagiammarino/vqa-rad", "bcf91e7654fb9d51c8ab6a5b82cacf3fafd2fae9"
RELEASED = {("test", False): 451, ("test", True): 451, ("train", False): 1793, ("train", True): 1797}
"""Questions by split, and whether they are of the OSF form."""
KINDS: Mapping[str, Kind] = {"CLOSED": "judgment", "OPEN": "short_answer"}

_FILES = {
    "test": OriginFile(
        to=f"{GROUP}/data/test-00000-of-00001-e5bc3d208bb4deeb.parquet",
        at="data/test-00000-of-00001-e5bc3d208bb4deeb.parquet",
        size=10_312_735,
        digest="sha256:eb520bdab1116dd4f420120da19049d2315389fa126d031f65ec42e153264ea7",
    ),
    "train": OriginFile(
        to=f"{GROUP}/data/train-00000-of-00001-eb8844602202be60.parquet",
        at="data/train-00000-of-00001-eb8844602202be60.parquet",
        size=24_183_983,
        digest="sha256:b07c3441467b99060e5ec412ddd05be06f86f01f23bfa3debfbbcab47874a06e",
    ),
}
OSF = Origin(
    licence="CC0 1.0",
    home="https://osf.io/89kps",
    apply=f"Download '{PUBLIC}' and '{IMAGES}' from https://osf.io/89kps and put both into DATA/{GROUP}/.",
    reads=(f"{GROUP}/{PUBLIC}",),
    group=GROUP,
)


class OsfRow(msgspec.Struct, frozen=True):
    """One question of the OSF form; names of columns are in lower case."""

    qid: int | str
    image_name: str
    question: str
    answer: str | int | float | None
    answer_type: str
    phrase_type: str
    image_organ: str | None = None
    question_type: str | None = None
    qid_linked_id: str | int | None = None
    image_case_url: str | None = None


def osf_items(data: Path, split: str) -> Iterator[Item]:
    """Yield the questions of a split of the OSF form; DataError names file and record.

    Questions about one image or case, and paraphrases (`qid_linked_id`), are one group.
    """
    read: dict[str, tuple[Item, list[str]]] = {}
    for path in origins.found(OSF, data):
        for row in tables.read(path, name=f"{GROUP}/{PUBLIC}", fold=True):
            line = row.convert(OsfRow)
            if line.phrase_type.strip().lower().startswith("test") != (split == "test"):
                continue
            name = row.identifier("qid")
            if name in read:
                raise row.error(f"qid {name} occurs twice")
            links = [f"image {line.image_name.strip()}"]
            links += [
                f"{column} {text}" for column in ("qid_linked_id", "image_case_url") if (text := _filled(row, column))
            ]
            read[name] = _item(row, line, name, data), links
    clusters = selection.components(links for _, links in read.values())
    for item, links in read.values():
        yield replace(item, cluster_id=clusters[links[0]])


def _filled(row: tables.TableRow, column: str) -> str:
    """A cell's text; "" for NULL, as the release writes empty cells."""
    text = row.text(column).strip()
    return "" if text.upper() == "NULL" else text


def _item(row: tables.TableRow, line: OsfRow, name: str, data: Path) -> Item:
    kind = KINDS.get(line.answer_type.strip().upper())
    if kind is None:
        raise row.error(f"no answer type {clipped(repr(line.answer_type))}; known: {', '.join(KINDS)}")
    answer = row.text("answer").strip()
    tags = {
        "answer_type": lexicon.slugs(line.answer_type),
        "question_type": lexicon.slugs(re.split(r"[,;]", _filled(row, "question_type"))),
        "organ": lexicon.slugs(_filled(row, "image_organ")),
        "phrase_type": lexicon.slugs(line.phrase_type),
    }
    file = f"{IMAGES}/{line.image_name.strip()}"
    return Item(
        id=name,
        kind=kind,
        question=line.question.strip(),
        answers=(answer,) if answer else (),
        images=(image_file(file, folder=data / GROUP, root=data, where=row.where),),
        tags={dimension: values for dimension, values in tags.items() if values},
    )


def _named(split: str, osf: bool) -> Benchmark:
    hub = Origin(
        licence=OSF.licence,
        home=OSF.home,
        hub=HUB,
        revision=REVISION,
        files=(_FILES[split],),
        find=partial(closed_open.hub_files, group=GROUP, split=split),
        reads=(f"{GROUP}/data/{split}-*.parquet",),
        group=GROUP,
    )
    return Benchmark(
        name=f"{GROUP}{'-osf' * osf}{'-train' * (split == 'train')}",
        title=f"VQA-RAD{', OSF' * osf}{', train' * (split == 'train')}",
        items=partial(osf_items, split=split) if osf else partial(closed_open.hub_items, group=GROUP, split=split),
        prompt=closed_open.templates(GROUP, "medevalkit", closed_open.YES_OR_NO, closed_open.BRIEFLY),
        score=closed_open.score,
        judged=closed_open.JUDGED,
        metrics=(*metrics.closed_and_open("answer_type" if osf else "answer"), *metrics.rates),
        headline=metrics.open_questions.HEADLINE,
        dimensions=("answer_type", *(("question_type", "organ", "phrase_type") if osf else ())),
        public=True,
        origin=replace(OSF if osf else hub, release=RELEASED[split, osf], on_request=split == "train"),
        owners=Owners(
            # MedEvalKit tells closed questions by the answer.
            kits={kits.LLAVA_MED: kits.llava_med, **({} if osf else {kits.MEDEVALKIT: kits.medevalkit})},
            training=f"{GROUP}{'-osf' * osf}-train",
            published=partial(published.read, GROUP),
        ),
    )


BENCHMARKS = tuple(_named(split, osf) for split in ("test", "train") for osf in (False, True))
