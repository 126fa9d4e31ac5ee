r"""MMMU, Health and Medicine (Yue et al., CVPR 2024, arXiv:2311.16502): college exams with images within the text.

Data: https://huggingface.co/datasets/MMMU/MMMU, Apache-2.0 by its card; Parquet, a folder for each subject. Validation
has 150 questions; the answers to the 1,752 of test are withheld, and the run writes a sheet for EvalAI. A row, made up:

    id validation_Pharmacy_7 | question Which drug does <image 1> show? | options "['aspirin', '<image 2>']" |
    image_1 ... image_7 (null when absent) | answer A | question_type multiple-choice | topic_difficulty Easy |
    subfield Pharmacology | img_type "['Diagrams']" | explanation (holds the answer, and is never read)

Official code: https://github.com/MMMU-Benchmark/MMMU/tree/bb0b95a945998d91dfef37e969e07d49d1139438/mmmu with
utils/eval_utils.py (the rules) and configs/llava1.5.yaml (the prompt). Where its rule reads no option, it draws one
(seed 42); here the answer is `unparsed`, so a count of ours is theirs without the drawn hits. Of its example outputs,
LLaVA-1.5-13B's have 58 of 150 right, Qwen-VL's 47, and up to 5 more by options drawn at random.
Traps: options are a string of a Python list, which kits run as code; images belong where their mark stands.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from medvqa import files, metrics, scoring, tables
from medvqa.benchmarks import folders, lettered, published
from medvqa.items import (
    CHOICE_KINDS,
    Answer,
    Benchmark,
    DataError,
    Item,
    OfficialRule,
    Origin,
    OriginFile,
    Owners,
    Result,
    Score,
)
from medvqa.printing import clipped
from medvqa.protocols.prompts import Template, Templates
from medvqa.scoring import Reading
from medvqa.tables.shards import rows, shards
from medvqa.tags import lexicon, selection

GROUP = "mmmu-health"
SUBJECTS = (
    *("Basic_Medical_Science", "Clinical_Medicine", "Diagnostics_and_Laboratory_Medicine"),
    *("Pharmacy", "Public_Health"),
)
SPLITS = {"val": "validation", "test": "test"}
IMAGES = tuple(f"image_{number}" for number in range(1, 8))
CHOICE, OPEN = "multiple-choice", ("open", "short-answer")
"""Question types; the owners' outputs have the second name of open ones."""
MAX_LITERAL = 100_000
"""Characters of a cell that is parsed."""


def paths(data: Path, split: str) -> Sequence[Path]:
    """Return the Parquet files of a split."""
    return [path for subject in SUBJECTS for path in shards(data / GROUP / subject, SPLITS[split])]


def items(data: Path, split: str) -> Iterator[Item]:
    """Yield the questions of a split; those that share an image have one cluster. DataError for a missing subject."""
    found = {subject: shards(data / GROUP / subject, SPLITS[split]) for subject in SUBJECTS}
    if missing := [subject for subject, parts in found.items() if not parts]:
        raise DataError(f"{GROUP}: no file {missing[0]}/{SPLITS[split]}-*.parquet; it has all of {', '.join(SUBJECTS)}")
    needed = ("id", "question", "options", "image_1", "question_type", *(["answer"] if split == "val" else []))
    read = [
        _item(row, subject, split)
        for subject, parts in found.items()
        for row in rows(parts, data, f"{GROUP}, {subject}", needed=needed, digests=True)
    ]
    clusters = selection.components([image.key for image in item.images] for item in read if item.images)
    for item in read:
        yield replace(item, cluster_id=clusters[item.images[0].key] if item.images else None)


def _item(row: tables.TableRow, subject: str, split: str) -> Item:
    kind, texts = row.text("question_type"), _literal(row.values.get("options"))
    if kind not in (CHOICE, *OPEN):
        raise row.error(f"no question type '{kind[:40]}'; known: {CHOICE}, {', '.join(OPEN)}", "question_type")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise row.error("options are a list of texts, such as ['liver', 'spleen']", "options")
    options = lettered.listed(row, texts, "options", strip=False) if kind == CHOICE else {}
    # By number: the n-th image belongs to the mark <image n>.
    images = [row.image(column) for column in IMAGES]
    shown = tuple(image for image in images if image is not None)
    if None in images[: len(shown)]:
        raise row.error("an image is missing before another one; marks count from image_1")
    tags = {
        "subject": subject,
        "question_type": CHOICE if options else "open",
        "difficulty": row.text("topic_difficulty"),
        "image_type": _one_or_several(row.text("img_type")),
        "subfield": row.text("subfield"),
    }
    return Item(
        id=row.identifier("id"),
        benchmark=f"{GROUP}-{split}",
        kind="single_choice" if options else "short_answer",
        question=row.text("question"),
        options=options,
        answers=_answers(row, options) if split == "val" else (),
        images=shown,
        tags={name: values for name, text in tags.items() if (values := lexicon.slugs(text))},
    )


def _answers(row: tables.TableRow, options: Mapping[str, str]) -> tuple[str, ...]:
    """The right letter, or the references of an open question, which may be a list as text."""
    written = row.text("answer").strip()
    if not written:
        raise row.error("blank", "answer")
    return lettered.key(row, written, options, "answer") if options else _one_or_several(written)


def _one_or_several(text: str) -> tuple[str, ...]:
    """The texts and numbers of a list as texts, each once; any other text itself."""
    listed = _literal(text) if text.startswith("[") else None
    if not isinstance(listed, list) or not all(isinstance(part, str | int | float) for part in listed):
        listed = [text]
    return tuple(dict.fromkeys(str(part) for part in listed if str(part).strip()))


def _literal(cell: Any) -> Any:
    """The value of a literal, None for a text that is none or above the limit; nothing is run. Another cell itself."""
    try:
        return ast.literal_eval(cell if len(cell) <= MAX_LITERAL else "None") if isinstance(cell, str) else cell
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


TOKENS = 128
"""`max_new_tokens` of the official LLaVA run (utils/model_utils.py)."""
LETTER = Template(
    "mmmu/mc",
    "{question}\n{options}\nAnswer with the option's letter from the given choices directly.",
    "({letter}) {text}\n",
    max_tokens=TOKENS,
    order="in-place",
)
"""configs/llava1.5.yaml, to the byte: YAML folds its blank lines to single line ends."""
PHRASE = Template(
    "mmmu/open", "{question}\nAnswer the question using a single word or phrase.", max_tokens=TOKENS, order="in-place"
)


def score(item: Item, answer: Answer) -> Score:
    """Score letters by our extraction, and open answers that are a reference or the same number to two digits."""
    by_kind = scoring.score_single_choice if item.kind in CHOICE_KINDS else scoring.score_short_answer
    return by_kind(item, answer)


def mmmu_rule(response: str, options: Mapping[str, str]) -> Reading:
    """Read a choice as `parse_multi_choice_response` does.

    Letters in brackets count, such as "(B)"; else letters between blanks, "A patient" included; else, in answers of
    more than five words, options whose text occurs anywhere ("abnormal" holds "normal"). The last occurrence decides.
    """
    text = lettered.bare(response)
    texts = options if len(text.split()) > 5 else {}
    for kind, searched, forms in (
        ("letter in brackets", text, {letter: f"({letter})" for letter in options}),
        ("letter", text, {letter: f" {letter} " for letter in options}),
        ("text", text.lower(), {letter: option.lower() for letter, option in texts.items()}),
    ):
        if chosen := lettered.last(forms, searched):
            return Reading((chosen,), "read", f"MMMU's rule: {kind} {chosen}")
    return Reading((), "unparsed", "MMMU's rule: no letter or text; the owners draw an option")


LEADS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
"""A key phrase follows one of these; in the last line also an equals sign."""
NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+"),
    re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)
TOO_LONG = re.compile(r"[\d.,]{200}")
"""No number is so long, and the expressions above take quadratic time in its length."""


def open_rule(item: Item, answer: Answer) -> Score:
    """Score an open answer as `parse_open_response` and `eval_open` do.

    Right: a key phrase of the answer contains a reference, or a number in it equals one to two digits, in lower case
    and without thousands separators. A reference of one character counts only beside a blank.
    """
    reading = scoring.reading_of(answer, _key_phrases)
    if not item.answers:
        return Score(None, "unscored", (), "no answer key")
    if reading.status != "read":
        return Score(0.0, reading.status, (), reading.why)
    said = [value for phrase in reading.letters for value in _values(phrase)]
    right = any(
        any(value in phrase for phrase in said if isinstance(phrase, str)) if isinstance(value, str) else value in said
        for reference in item.answers
        for value in _values(reference)
    )
    shown = clipped(" | ".join(reading.letters))
    return scoring.right_or_wrong(item, right, (shown,), f"MMMU's rule: {shown}")


def _key_phrases(response: str) -> Reading:
    """The shortest text after a lead of each line that has one, else the whole text; and the numbers in them."""
    if not response.strip():
        return Reading((), "unparsed", "the response is empty")
    if TOO_LONG.search(response):
        return Reading((), "unparsed", "a number of more than 200 digits")
    text = response.strip().strip(".").lower()
    *lines, end = text.split("\n")
    led = [*(_shortest(line, LEADS) for line in lines), _shortest(end, (*LEADS, "="))]
    phrases = [phrase for phrase in led if phrase not in ("", *":,.!?;'")] or [text]
    numbers = [number for phrase in phrases for pattern in NUMBERS for number in pattern.findall(phrase)]
    return Reading(tuple(dict.fromkeys([*phrases, *numbers])), "read", "")


def _shortest(line: str, leads: Sequence[str]) -> str:
    shortest = ""
    for lead in leads:
        if lead in line:
            rest = line.rpartition(lead)[2].strip()
            shortest = rest if not shortest or len(rest) < len(shortest) else shortest
    return shortest


def _values(text: str) -> list[str | float]:
    value = scoring.value_of(text)
    return [f" {value}", f"{value} "] if isinstance(value, str) and len(value) == 1 else [value]


def official(item: Item, answer: Answer) -> Score:
    """Score by the owners' rules, without their random choice."""
    return lettered.scored_by(mmmu_rule)(item, answer) if item.kind in CHOICE_KINDS else open_rule(item, answer)


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


BENCHMARKS = tuple(
    Benchmark(
        name=f"{GROUP}-{split}",
        title=f"MMMU Health and Medicine, {of_hub}",
        items=partial(items, split=split),
        prompt=Templates("default", {"mc": LETTER, "gd": LETTER}, {"short_answer": PHRASE}),
        score=score,
        metrics=(metrics.mean_score, metrics.accuracy, metrics.open_score, *metrics.rates),
        headline=("mean_score", "accuracy"),
        dimensions=("subject", "question_type", "difficulty", "image_type"),
        public=True,
        origin=Origin(
            licence="Apache-2.0 (card)",
            home="https://huggingface.co/datasets/MMMU/MMMU",
            hub="MMMU/MMMU",
            files=tuple(
                OriginFile(to=f"{GROUP}/{file}", at=file)
                for file in (f"{subject}/{of_hub}-00000-of-00001.parquet" for subject in SUBJECTS)
            ),
            note="the owners withhold the answers of test" if split == "test" else "",
            release={"val": 150, "test": 1752}[split],
            find=partial(paths, split=split),
            reads=(f"{GROUP}/SUBJECT/{of_hub}-*.parquet for {', '.join(SUBJECTS)}",),
            group=GROUP,
        ),
        owners=Owners(
            rule=OfficialRule(
                score=official,
                note="answers are read by the owners' eval_utils.py, without its random choice where nothing is read",
                kinds=frozenset({"single_choice", "short_answer"}),
            ),
            submission=submission if split == "test" else None,
            published=partial(published.read, GROUP),
        ),
    )
    for split, of_hub in SPLITS.items()
)
