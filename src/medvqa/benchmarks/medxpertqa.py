r"""MedXpertQA, MM: questions of medical exams with one to six images and five options (Zuo et al., ICML 2025).

Source: https://github.com/TsinghuaC3I/MedXpertQA and https://huggingface.co/datasets/TsinghuaC3I/MedXpertQA, MIT.
2,000 questions in the split test. The hub's MM/test.jsonl has one object a line:

    {"id": "MM-7",
     "question": "Which bone is broken?\nAnswer Choices: (A) Ulna (B) Radius (C) Tibia (D) Fibula (E) Femur",
     "options": {"A": "Ulna", "B": "Radius", "C": "Tibia", "D": "Fibula", "E": "Femur"}, "label": "B",
     "images": ["MM-7-a.jpeg"], "medical_task": "Diagnosis", "body_system": "Skeletal", "question_type": "Reasoning"}

The owners' code has the same rows as medxpertqa_mm_input.jsonl: options as [{"letter": "A", "content": "Ulna"}, ...],
label as ["B"], images as [{"image_path": "MM-7-a.jpeg"}]. Both forms are read.

Official code: `zero_shot_cot`, `zero_shot_ao` and `answer_cleansing` in
https://github.com/TsinghuaC3I/MedXpertQA/tree/f21247d3ccf3b14826ff2aa7fa06e1a46d64058c/eval.
Its protocol has two turns: the model reasons, then it is asked for the letter. QVQ and DeepSeek-R1 have prompts of
their own there, which are not here.
Trap: `question` ends in the options, so a prompt that appends them shows them twice, as MedEvalKit's does. Here they
are cut off, and the prompt prints them, so that `--rotate` moves them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from medvqa import metrics, tables
from medvqa.benchmarks import lettered, origins, published
from medvqa.items import Benchmark, Item, OfficialRule, Origin, OriginFile, Owners
from medvqa.metrics import kits
from medvqa.protocols.prompts import Template, Templates
from medvqa.scoring import Reading, score_single_choice
from medvqa.tables.image_files import ImageFolder
from medvqa.tags import lexicon

NAME = "medxpertqa-mm"
FILES = ("MM/test.jsonl", "medxpertqa_mm_input.jsonl")
"""The released file, and the same rows in the owners' code; the first that is there is read."""
ORIGIN = Origin(
    licence="MIT",
    home="https://github.com/TsinghuaC3I/MedXpertQA",
    hub="TsinghuaC3I/MedXpertQA",
    revision="f4e6fe7e5a9e13d6c97d7aa2b91cdd8b80c9cc61",
    files=(
        OriginFile(to=f"{NAME}/MM/test.jsonl", at="MM/test.jsonl"),
        OriginFile(to=f"{NAME}/images.zip", at="images.zip", unpack=NAME),
    ),
    release=2000,
    reads=tuple(f"{NAME}/{name}" for name in FILES),
)
CHOICES = "\nAnswer Choices:"
"""Stands between the question and its options."""


class LetteredOption(msgspec.Struct, frozen=True):
    """An option in the owners' code."""

    letter: str
    content: str


class NamedImage(msgspec.Struct, frozen=True):
    """An image in the owners' code."""

    image_path: str


class ExamQuestion(msgspec.Struct, frozen=True):
    """The columns that are read."""

    id: str
    question: str
    options: dict[str, str] | list[LetteredOption]
    label: str | list[str]
    images: list[str | NamedImage]
    medical_task: str
    body_system: str
    question_type: str


def items(data: Path) -> Iterator[Item]:
    """Yield the questions; DataError, which names file and line, for a row of another form."""
    folder = ImageFolder(data / NAME / "images", data)
    for path in origins.found(ORIGIN, data):
        for row in tables.read(path, name=path.relative_to(data).as_posix(), lines=True):
            yield _item(row, row.convert(ExamQuestion), folder)


def _item(row: tables.TableRow, line: ExamQuestion, folder: ImageFolder) -> Item:
    named = line.options if isinstance(line.options, dict) else {each.letter: each.content for each in line.options}
    options = lettered.listed(row, list(named.values()), "options")
    if list(options) != list(named):
        raise row.error(
            f"its options are called {', '.join(named)[:60]}; they are A, B, C ... in this order", "options"
        )
    labels = [line.label] if isinstance(line.label, str) else line.label
    if len(labels) != 1:
        raise row.error(f"{len(labels)} labels; a question has one", "label")
    question, choices, shown = line.question.strip().rpartition(CHOICES)
    if choices and shown != _shown(options):
        raise row.error("the options at the end of the question are not those of the column 'options'", "question")
    names = [image if isinstance(image, str) else image.image_path for image in line.images]
    lettered.check_count(row, names, "images")
    return Item(
        id=line.id,
        kind="single_choice",
        question=question if choices else line.question.strip(),
        options=options,
        answers=lettered.key(row, labels[0], options, "label"),
        images=tuple(folder.image(name, row.where) for name in names),
        tags={
            "question_type": lexicon.slugs(line.question_type),
            "medical_task": lexicon.slugs(line.medical_task),
            "body_system": lexicon.slugs(line.body_system),
            "image_count": (str(len(names)),),
        },
    )


def _shown(options: Mapping[str, str]) -> str:
    return "".join(OPTION.format(letter=letter, text=text) for letter, text in options.items())


OPTION = " ({letter}) {text}"
TOKENS = 2048
"""The owners' limit of a turn (`APIAgent`); theirs for o1, o3, QwQ, QVQ and DeepSeek-R1 is 8,192."""

COT = Template(
    "medxpertqa-mm/cot",
    f"Q: {{question}}{CHOICES}{{options}}\nA: Let's think step by step.",
    OPTION,
    "You are a helpful medical assistant.",
    TOKENS,
    "text-first",
    ("Therefore, among {first} through {last}, the answer is",),
)
"""`zero_shot_cot_prompt` and `zero_shot_cot_trigger`, to the byte. The images follow the first text."""

DIRECT = Template(
    "medxpertqa-mm/direct",
    f"Q: {{question}}{CHOICES}{{options}}\nA: Among A through E, the answer is",
    OPTION,
    "Please answer only.",
    TOKENS,
    "text-first",
)
"""`zero_shot_ao_prompt`: one turn."""

TRIGGER = "Therefore, among A through {last}, the answer is"
UNWANTED = ("I understand", "A through J", "A through E", "A through D")


def medxpertqa_rule(response: str, options: Mapping[str, str]) -> Reading:
    """Read `response` as MedXpertQA's `answer_cleansing` does for its zero-shot prompts.

    The text after the trigger of the second turn counts, if it is repeated; else that after " answer is "; else all.
    In it, the first option letter that is a word in capitals is chosen. "A tumour" is A. For the prompt of one turn
    the owners look for its own trigger, which ends in " answer is", too.
    """
    text = response.strip()
    for mark in (TRIGGER.format(last=max(options, default="A")), " answer is "):
        parts = text.split(mark)
        if len(parts) > 1:
            text = parts[1].strip()
            break
    for phrase in UNWANTED:
        text = text.replace(phrase, "")
    found = re.search(rf"\b({'|'.join(map(re.escape, options))})\b", text) if options else None
    return lettered.published(found[1] if found else "", options, "first capital letter")


BENCHMARKS = (
    Benchmark(
        name=NAME,
        title="MedXpertQA MM",
        items=items,
        prompt=Templates("default", {"mc": COT}),
        prompts={"direct": Templates("direct", {"mc": DIRECT})},
        score=score_single_choice,
        metrics=(metrics.accuracy, *metrics.rates),
        dimensions=("question_type", "medical_task", "body_system", "image_count"),
        public=True,
        origin=ORIGIN,
        owners=Owners(
            rule=OfficialRule(
                score=lettered.scored_by(medxpertqa_rule),
                note="an answer counts as its first capital letter after the trigger, by the owners' answer_cleansing",
            ),
            kits={kits.MEDEVALKIT: partial(kits.medevalkit_choices, line="{letter}. {text}", tagged=True)},
            published=partial(published.read, NAME),
        ),
    ),
)
