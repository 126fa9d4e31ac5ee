r"""MedLesionVQA: the steps of a visual diagnosis of body-surface lesions, in choice and open questions (ICLR 2026).

Source: https://openreview.net/forum?id=BYtqk6AVuL; released on request by https://github.com/bytedance/MedLesionVQA,
under the terms that come with it. 12K images; 1,499 questions in the split val and 18,344 in test.
The format of the release is not public. This is our reading of the paper, one JSON object a line:

    {"id": "17", "split": "val", "image": "images/17.jpg", "ability": "lesion_recognition", "attribute": null,
     "question_type": "multi_choice", "question": "Which lesions are visible?",
     "options": {"A": "papule", "B": "plaque", "C": "ulcer"}, "answer": "AB", "modality_dependence": "multimodal",
     "language": "en", "meta": {"body_region": "forehead", "lesions": ["papule", "plaque"], "diseases": ["acne"]}}

`image` is a path relative to the file, a list of them, or null. `answer` holds letters, a text (a list if several are
right), or null if it is withheld. Other keys are kept in `Item.extra`.

Scoring, section 3.4 of the paper: choice questions may have several right options; one wrong option chosen scores 0,
else the share of the right options that were chosen. Our rule reads letters. The paper asks a language model for them
(Figure 3b), so there is no published rule. Open questions are for a judge (Table 10): by rule they are unscored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from medvqa import metrics, tables
from medvqa.benchmarks import published
from medvqa.items import (
    CHOICE_KINDS,
    OPEN_KINDS,
    Answer,
    Benchmark,
    DataError,
    Item,
    Kind,
    Origin,
    Owners,
    Score,
    of_data,
)
from medvqa.protocols.prompts import Template, Templates
from medvqa.scoring import score_partial_credit, unscored
from medvqa.tables.image_files import image_file
from medvqa.tags import lexicon, selection

SPLITS = ("val", "test")
RELEASED = {"val": 1499, "test": 18344}
"""Questions of each split, by the paper."""

KINDS: Mapping[str, Kind] = {
    "multi_choice": "multiple_response",
    "judgment": "judgment",
    "fill_in_the_blank": "fill_in_the_blank",
    "short_answer": "short_answer",
}
"""Question types of the paper. A choice question may have one or several right options."""


class Meta(msgspec.Struct, frozen=True):
    """The annotators' notes on the image; patient and case, if a release has them, join items to clusters."""

    body_region: str | list[str] | None = None
    lesions: str | list[str] | None = None
    diseases: str | list[str] | None = None
    patient_id: str | int | None = None
    case_id: str | int | None = None


class QuestionLine(msgspec.Struct, frozen=True):
    """One line. Keys without default are required, so that a misspelt `image` is an error."""

    id: str | int
    split: str
    image: str | list[str] | None
    ability: str
    question_type: str
    question: str
    answer: str | list[str] | None
    options: dict[str, str] | None = None
    attribute: str | None = None
    modality_dependence: str | None = None
    language: str | None = None
    window: tuple[float, float] | None = None
    meta: Meta | None = None


def files(data: Path, split: str) -> Sequence[Path]:
    """Return the files with items of a split, and unreadable files, which `items_of` reports."""
    return [path for path in sorted((data / "medlesionvqa").glob("*.jsonl")) if _may_hold(path, split)]


def _may_hold(path: Path, split: str) -> bool:
    others = [other for other in SPLITS if other != split]
    try:
        return any(row.values.get("split") not in others for row in tables.read(path, lines=True))
    except DataError:
        return True


def items(data: Path, split: str) -> Iterator[Item]:
    """Yield the items of one split of the data folder."""
    return items_of(files(data, split), root=data, split=split, benchmark=f"medlesionvqa-{split}")


def items_of(files: Sequence[Path], *, root: Path, split: str | None, benchmark: str) -> Iterator[Item]:
    """Yield the items of a split (None: of all) from files in this format, in their order.

    `root` is the data folder that image names are relative to. Images need not be there. Items that are connected
    by shared images, patients or cases have one `cluster_id`, None where an item has none of these. Raises
    DataError, which names file and line, as `tables.read` does, for a missing key, a split or question type
    that does not exist, a letter without option, an id that occurs twice, and an image outside of the file's
    folder. Warns of abilities and other values that the lexicon does not list.
    """
    loaded: dict[str, tuple[Item, list[str]]] = {}
    places: dict[str, str] = {}
    for path in files:
        for row in tables.read(path, name=path.relative_to(root).as_posix(), lines=True):
            line = row.convert(QuestionLine)
            if line.split not in SPLITS:
                raise row.error(f"no split {of_data(repr(line.split))}; known: {', '.join(SPLITS)}")
            if split is not None and line.split != split:
                continue
            item = _item(row, line, path.parent, root, benchmark)
            if item.id in loaded:
                raise row.error(f"id {of_data(repr(item.id))} is also that of {places[item.id]}")
            loaded[item.id] = item, _links(item, line.meta or Meta())
            places[item.id] = row.where
    lexicon.warn_unknown((item for item, _ in loaded.values()), lexicon.medlesionvqa())
    clusters = selection.components(links for _, links in loaded.values())
    for item, links in loaded.values():
        yield replace(item, cluster_id=clusters[links[0]] if links else None)


def _item(row: tables.TableRow, line: QuestionLine, folder: Path, root: Path, benchmark: str) -> Item:
    kind = KINDS.get(lexicon.slug(line.question_type))
    if kind is None:
        raise row.error(f"no question type {of_data(repr(line.question_type))}; known: {', '.join(KINDS)}")
    options = line.options or {}
    if bool(options) != (kind in CHOICE_KINDS):
        raise row.error(f"a {line.question_type} question has {'' if options else 'no '}options")
    answers = _listed(line.answer)
    if line.answer is not None and not "".join(answers).strip():
        raise row.error("the answer is empty; it is null where it is withheld")
    meta = line.meta or Meta()
    regions = lexicon.medlesionvqa().dimensions["body_region"]
    tags = {
        "ability": lexicon.slugs(line.ability),
        "attribute": lexicon.slugs(line.attribute),
        "question_type": lexicon.slugs(line.question_type),
        "modality_dependence": lexicon.slugs(line.modality_dependence),
        "language": lexicon.slugs(line.language),
        "body_region": regions.with_broader(lexicon.slugs(meta.body_region)),
        "lesion": lexicon.slugs(meta.lesions),
        "disease": lexicon.slugs(meta.diseases),
    }
    return Item(
        id=str(line.id),
        benchmark=benchmark,
        kind=kind,
        question=line.question,
        options=options,
        answers=_letters(answers, options, row) if kind in CHOICE_KINDS else answers,
        images=tuple(
            image_file(file, folder=folder, root=root, where=row.where, window=line.window)
            for file in _listed(line.image)
        ),
        tags={dimension: values for dimension, values in tags.items() if values},
        extra={
            key: value
            for key, value in row.values.items()
            if key == "meta" or key not in QuestionLine.__struct_fields__
        },
    )


def _listed(value: str | list[str] | None) -> tuple[str, ...]:
    """One text, several or none, each once."""
    return tuple(dict.fromkeys([value] if isinstance(value, str) else value or ()))


def _letters(answers: Sequence[str], options: Mapping[str, str], row: tables.TableRow) -> tuple[str, ...]:
    """The right letters, written like AB, A,B or ["A", "B"], in the order of the options."""
    if misnamed := [name for name in options if not re.fullmatch("[A-Y]", name)]:
        raise row.error(f"option {of_data(repr(misnamed[0]))}; options are called A to Y (Z stands for none of them)")
    letters = set(re.sub(r"[\s,;]", "", "".join(answers)))
    if unknown := sorted(letters - options.keys()):
        raise row.error(f"answer {of_data(repr(unknown[0]))} is none of its options {', '.join(options)}")
    return tuple(letter for letter in options if letter in letters)


def _links(item: Item, meta: Meta) -> list[str]:
    """Return the texts that an item shares with others of its cluster."""
    links = [image.file for image in item.images]
    if meta.patient_id is not None:
        links.append(f"patient {meta.patient_id}")
    if meta.case_id is not None:
        links.append(f"case {meta.case_id}")
    return links


TOKENS = 512
"""Ours: the limit of most checkpoints in VLMEvalKit, which the owners used (see `gmai_mmbench`)."""

OURS: Mapping[Kind, Template] = {
    "multiple_response": Template(
        "medlesionvqa/ours-multi-choice",
        "{question}\n{options}One or more options are correct. "
        "Answer with the letters of all correct options, separated by commas.",
        "{letter}. {text}\n",
        max_tokens=TOKENS,
    ),
    "judgment": Template(
        "medlesionvqa/ours-judgment",
        "{question}\nAnswer with your judgment only, such as yes or no.",
        max_tokens=TOKENS,
    ),
    "fill_in_the_blank": Template(
        "medlesionvqa/ours-fill-in-the-blank",
        "{question}\nAnswer with the words that fill the blank only.",
        max_tokens=TOKENS,
    ),
    "short_answer": Template("medlesionvqa/ours-short-answer", "{question}\nAnswer briefly.", max_tokens=TOKENS),
}
"""Our own prompts: the paper names zero-shot questions with VLMEvalKit (section 4.1), but no prompt.
Its Figure 3 shows the prompts that make questions, extract letters and judge answers."""


PROMPT = Templates("default", {"mc": OURS["short_answer"]}, OURS)


def score(item: Item, answer: Answer) -> Score:
    """Score choice questions by the paper's partial credit; leave open ones unscored."""
    return score_partial_credit(item, answer) if item.kind in CHOICE_KINDS else unscored(item, answer)


DIMENSIONS = (
    *("ability", "attribute", "question_type", "modality_dependence"),
    *("language", "body_region", "lesion", "disease"),
)


def _origin(split: str) -> Origin:
    return Origin(
        licence="set by its owners, with the data",
        home="https://github.com/bytedance/MedLesionVQA",
        apply=(
            "No public release was found. Its owners give it on request: write to the authors named in "
            "https://openreview.net/forum?id=BYtqk6AVuL, or open an issue at "
            "https://github.com/bytedance/MedLesionVQA. Then write the questions, in the format of medvqa help data, "
            "to DATA/medlesionvqa/*.jsonl, and put the images into a folder beside them"
        ),
        release=RELEASED[split],
        find=partial(files, split=split),
        reads=(f'medlesionvqa/*.jsonl with a line of "split": "{split}"',),
        group="medlesionvqa",
    )


BENCHMARKS = tuple(
    Benchmark(
        name=f"medlesionvqa-{split}",
        origin=_origin(split),
        title=f"MedLesionVQA {split}",
        items=partial(items, split=split),
        judged=OPEN_KINDS,
        prompt=PROMPT,
        score=score,
        metrics=(
            metrics.mean_score,
            metrics.macro_score("ability"),
            metrics.choice_score,
            metrics.open_score,
            metrics.exact_match,
            *metrics.rates,
        ),
        headline=("mean_score", "macro_score"),
        dimensions=(*DIMENSIONS, "ability+question_type"),
        owners=Owners(taxonomy="medlesionvqa", published=partial(published.read, "medlesionvqa")),
    )
    for split in SPLITS
)
