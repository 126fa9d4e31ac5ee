r"""MMMU, Health and Medicine (Yue et al., CVPR 2024, arXiv:2311.16502): college exams with images within the text.

Data: https://huggingface.co/datasets/MMMU/MMMU, Apache-2.0 by its card; Parquet, a folder for each subject. Validation
has 150 questions; the answers to the 1,752 of test are withheld, and the run writes a sheet for EvalAI. A row, made up:

    id validation_Pharmacy_7 | question Which drug does <image 1> show? | options "['aspirin', '<image 2>']" |
    image_1 ... image_7 (null when absent) | answer A | question_type multiple-choice | topic_difficulty Easy |
    subfield Pharmacology | img_type "['Diagrams']" | explanation (holds the answer, and is never read)

Official code: https://github.com/MMMU-Benchmark/MMMU/tree/bb0b95a945998d91dfef37e969e07d49d1139438/mmmu with
utils/eval_utils.py (`scoring.mmmu_rule`, `scoring.score_mmmu_open`) and configs/llava1.5.yaml (the prompt). Of its
example outputs, LLaVA-1.5-13B's have 58 of 150 right, Qwen-VL's 47, and up to 5 more by options drawn at random.
Traps: options are a string of a Python list, which kits run as code; images belong where their mark stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from medvqa import files, metrics, scoring, tables
from medvqa.benchmarks import folders, literals, published
from medvqa.benchmarks.lettered import LETTERS
from medvqa.items import (
    CHOICE_KINDS,
    Answer,
    Benchmark,
    DataError,
    Image,
    Item,
    OfficialRule,
    Origin,
    OriginFile,
    Owners,
    Result,
    Score,
)
from medvqa.protocols.prompts import Template, Templates
from medvqa.tables.shards import shards, whole
from medvqa.tags import lexicon, selection

GROUP = "mmmu-health"
SUBJECTS = (
    *("Basic_Medical_Science", "Clinical_Medicine", "Diagnostics_and_Laboratory_Medicine"),
    *("Pharmacy", "Public_Health"),
)
SPLITS = {"val": "validation", "test": "test"}
IMAGES = tuple(f"image_{number}" for number in range(1, 8))
CHOICE = "multiple-choice"
OPEN_KINDS = ("open", "short-answer")
"""The owners' outputs have the second name."""


def paths(data: Path, split: str) -> Sequence[Path]:
    """Return the Parquet files of a split."""
    return [path for subject in SUBJECTS for path in shards(data / GROUP / subject, SPLITS[split])]


def items(data: Path, split: str) -> Iterator[Item]:
    """Yield the questions of a split; those that share an image have one cluster. DataError for a missing subject."""
    found = {subject: shards(data / GROUP / subject, SPLITS[split]) for subject in SUBJECTS}
    if missing := [subject for subject, parts in found.items() if not parts]:
        raise DataError(f"{GROUP}: no file {missing[0]}/{SPLITS[split]}-*.parquet; it has all of {', '.join(SUBJECTS)}")
    needed = [("id", "question", "options", "image_1", "question_type", *(["answer"] if split == "val" else []))]
    read = [
        _item(row, subject, split)
        for subject, parts in found.items()
        for path in whole(parts, f"{GROUP}, {subject}")
        for row in tables.read(path, name=path.relative_to(data).as_posix(), needed=needed, digests=True)
    ]
    clusters = selection.components([image.key for image in item.images] for item in read if item.images)
    for item in read:
        yield replace(item, cluster_id=clusters[item.images[0].key] if item.images else None)


def _item(row: tables.TableRow, subject: str, split: str) -> Item:
    options = _options(row)
    kind = row.text("question_type")
    chooses = kind == CHOICE
    if kind not in (CHOICE, *OPEN_KINDS):
        raise row.error(f"no question type '{kind[:40]}'; known: {CHOICE}, {', '.join(OPEN_KINDS)}", "question_type")
    if chooses and len(options) < 2:
        raise row.error(f"a {CHOICE} question with {len(options)} options", "options")
    tags = {
        "subject": subject,
        "question_type": CHOICE if chooses else "open",
        "difficulty": row.text("topic_difficulty"),
        "image_type": literals.one_or_several(row.text("img_type")),
        "subfield": row.text("subfield"),
    }
    return Item(
        id=row.identifier("id"),
        benchmark=f"{GROUP}-{split}",
        kind="single_choice" if chooses else "short_answer",
        question=row.text("question"),
        options=options if chooses else {},
        answers=_answers(row, options if chooses else {}) if split == "val" else (),
        images=_images(row),
        tags={name: values for name, text in tags.items() if (values := lexicon.slugs(text))},
    )


def _answers(row: tables.TableRow, options: dict[str, str]) -> tuple[str, ...]:
    """The right letter, or the references of an open question, which may be a list as text."""
    written = row.text("answer").strip()
    if not written:
        raise row.error("blank", "answer")
    if options and written not in options:
        raise row.error(f"'{written[:40]}' is none of its options {', '.join(options)}", "answer")
    return (written,) if options else literals.one_or_several(written)


def _images(row: tables.TableRow) -> tuple[Image, ...]:
    """The images by number, so that the n-th belongs to the mark <image n>."""
    images = [row.image(column) for column in IMAGES]
    shown = [image for image in images if image is not None]
    if None in images[: len(shown)]:
        raise row.error("an image is missing before another one; marks count from image_1")
    return tuple(shown)


def _options(row: tables.TableRow) -> dict[str, str]:
    """The options by letter (DataError unless they are a list of texts)."""
    listed = literals.texts(row.values.get("options"))
    if listed is None:
        raise row.error("options are a list of texts, such as ['liver', 'spleen']", "options")
    if len(listed) > len(LETTERS):
        raise row.error(f"{len(listed)} options; a question has at most {len(LETTERS)}", "options")
    return dict(zip(LETTERS, listed, strict=False))


TOKENS = 128
"""`max_new_tokens` of the official LLaVA run (utils/model_utils.py)."""
CHOOSE = Template(
    "mmmu/mc",
    "{question}\n{options}\nAnswer with the option's letter from the given choices directly.",
    "({letter}) {text}\n",
    max_tokens=TOKENS,
    order="in-place",
)
"""configs/llava1.5.yaml, to the byte: YAML folds its blank lines to single line ends."""
OPEN = Template(
    "mmmu/open", "{question}\nAnswer the question using a single word or phrase.", max_tokens=TOKENS, order="in-place"
)


def score(item: Item, answer: Answer) -> Score:
    """Score letters by our extraction, and open answers that are a reference or the same number to two digits."""
    by_kind = scoring.score_single_choice if item.kind in CHOICE_KINDS else scoring.score_short_answer
    return by_kind(item, answer)


def official(item: Item, answer: Answer) -> Score:
    """Score by the owners' rules, without their random choice."""
    if item.kind in CHOICE_KINDS:
        return scoring.score_single_choice(item, answer, scoring.mmmu_rule)
    return scoring.score_mmmu_open(item, answer)


def submission(results: Sequence[Result], folder: Path) -> Path:
    """Write the answers for EvalAI, id -> letter or text, as the official README describes; return the path."""
    said = {
        result.item.id: "".join(result.score.extracted)
        if result.item.kind in CHOICE_KINDS
        else (result.answer.text if result.answer else "")
        for result in sorted(results, key=lambda result: folders.natural(result.item.id))
    }
    path = folder / f"{GROUP}-test-submission.json"
    files.replace(path, json.dumps(said, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
    return path


def _origin(split: str) -> Origin:
    names = [f"{subject}/{SPLITS[split]}-00000-of-00001.parquet" for subject in SUBJECTS]
    return Origin(
        licence="Apache-2.0 (card)",
        home="https://huggingface.co/datasets/MMMU/MMMU",
        hub="MMMU/MMMU",
        files=tuple(OriginFile(to=f"{GROUP}/{name}", at=name) for name in names),
        note="the owners withhold the answers of test" if split == "test" else "",
        release={"val": 150, "test": 1752}[split],
        find=partial(paths, split=split),
        reads=(f"{GROUP}/SUBJECT/{SPLITS[split]}-*.parquet for {', '.join(SUBJECTS)}",),
        group=GROUP,
    )


VAL = Benchmark(
    name=f"{GROUP}-val",
    title="MMMU Health and Medicine, validation",
    items=partial(items, split="val"),
    prompt=Templates("default", {"mc": CHOOSE, "gd": CHOOSE}, dict.fromkeys(("short_answer",), OPEN)),
    score=score,
    metrics=(metrics.mean_score, metrics.accuracy, metrics.open_score, *metrics.rates),
    headline=("mean_score", "accuracy"),
    dimensions=("subject", "question_type", "difficulty", "image_type"),
    public=True,
    origin=_origin("val"),
    owners=Owners(
        rule=OfficialRule(
            score=official,
            note="answers are read by the owners' eval_utils.py, without its random choice where nothing is read",
            kinds=frozenset({"single_choice", "short_answer"}),
        ),
        published=partial(published.read, GROUP),
    ),
)
TEST = replace(
    VAL,
    name=f"{GROUP}-test",
    title="MMMU Health and Medicine, test",
    items=partial(items, split="test"),
    origin=_origin("test"),
    owners=replace(VAL.owners, submission=submission),
)
BENCHMARKS = (VAL, TEST)
