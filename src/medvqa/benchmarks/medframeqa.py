r"""MedFrameQA: questions about two to five frames of a medical video (Yu et al. 2025, arXiv:2505.16964).

Source: https://huggingface.co/datasets/SuhaoYu1020/MedFrameQA, CC BY 4.0 by its card. 2,851 questions about 9,237
frames of 3,420 videos, in Parquet files of one split:

    question_id q1 | system central nervous system | organ brain | keyword ... | modality MRI | video_id abc | question
    Which change do the frames show? | options ["growth", "shrinkage", "none", "shift"] | correct_answer B |
    reasoning_chain ... | image_url [...] | image_1 <PNG> | image_2 <PNG> | image_3 to image_5 null

Only the columns of `FrameQuestion` and the images are read. `reasoning_chain` explains the answer, and `keyword` is the
disease that the video was found by: they reach no prompt, report or log.

Official code, by one of the authors: `evaluate` and `parse_multi_choice_response` of src/eval_process.py, with the
prompts of config/prompt.yaml, in
https://github.com/haojinw0027/MedFrameQA/tree/e83fbe3b97a3297beebc997108469bd73b535d0d.
Traps: the prompt prints the options as a Python list; the rule finds letters within words; empty responses and errors
leave its denominator. The copy OctoMed/MedFrameQA has other columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from medvqa import metrics, tables
from medvqa.benchmarks import lettered, origins, published
from medvqa.items import Benchmark, Item, OfficialRule, Origin, OriginFile, Owners, Prompt, Technique
from medvqa.metrics import kits
from medvqa.protocols.prompts import Template, Templates
from medvqa.scoring import Reading, score_single_choice
from medvqa.tables.shards import rows
from medvqa.tags import lexicon

NAME = "medframeqa"
IMAGES = tuple(f"image_{number}" for number in range(1, 6))
NEEDED = ("question_id", "question", "options", "correct_answer", "video_id", *IMAGES[:2])
FEWEST = 2
"""Images of a question at least."""
ORIGIN = Origin(
    licence="CC BY 4.0",
    home="https://github.com/haojinw0027/MedFrameQA",
    hub="SuhaoYu1020/MedFrameQA",
    files=(OriginFile(to=f"{NAME}/data/*.parquet", at="data/*.parquet"),),
    note="the frames come from videos on YouTube",
    release=2851,
)


class FrameQuestion(msgspec.Struct, frozen=True):
    """The columns that are read, beside the images."""

    question_id: str | int
    question: str
    options: list[str]
    correct_answer: str | None
    video_id: str
    system: str | None = None
    organ: str | None = None
    modality: str | None = None


def items(data: Path) -> Iterator[Item]:
    """Yield the questions; those about one video are a cluster. DataError, which names file and row, for a bad one."""
    for row in rows(origins.found(ORIGIN, data), data, NAME, needed=NEEDED):
        yield _item(row, row.convert(FrameQuestion))


def _item(row: tables.TableRow, line: FrameQuestion) -> Item:
    options = lettered.listed(row, line.options, "options")
    images = tuple(image for column in IMAGES if (image := row.image(column)) is not None)
    if len(images) < FEWEST:
        raise row.error(f"{len(images)} images; a question has {FEWEST} to {len(IMAGES)}")
    return Item(
        id=str(line.question_id),
        kind="single_choice",
        question=line.question,
        options=options,
        answers=lettered.key(row, line.correct_answer, options, "correct_answer"),
        images=images,
        tags={
            "system": lexicon.slugs(line.system),
            "organ": lexicon.slugs(line.organ),
            "modality": lexicon.slugs(line.modality),
            "image_count": (str(len(images)),),
        },
        cluster_id=line.video_id.strip() or None,
    )


TOKENS = 10_000
"""The owners' default of `--max_tokens`."""

COT = Template(
    "medframeqa/cot",
    "Question:{question} \n\nOptions:\n{options}\n",
    system="Answer the following multiple-choice question. Images are provided. The last line of your response should "
    "be strictly of the following format: ’Answer: $LETTER’ (without quotes) where LETTER is one of the options. For "
    "example, if the correct answer is A, your response should be: ’Answer: A’. Think step by step before "
    'answering."\n',
    max_tokens=TOKENS,
    order="text-first",
)
"""`eval_system_prompt` and `eval_prompt_template`, to the byte. Theirs for Gemini and QVQ ask for a boxed letter, and
Claude gets the images first."""

OPTION = "{letter}.{text}"
DIRECT = lettered.medevalkit("medframeqa/direct", OPTION)
"""MedEvalKit's prompt."""


def prompt(item: Item, technique: Technique) -> Prompt:
    """Return the owners' prompt, which prints the options as Python prints a list."""
    options = [f"{letter}. {text}" for letter, text in item.options.items()]
    return replace(COT.prompt(item, technique), text=COT.text.format(question=item.question, options=options))


BOXED = re.compile(r"boxed\{([A-Z])\}")
MARKERS = ("Answer:", "Answer*", "Final Answer", "final answer")


def medframeqa_rule(response: str, options: Mapping[str, str]) -> Reading:
    r"""Read `response` as MedFrameQA's `parse_multi_choice_response` does.

    In this order: the first `boxed{X}`; after the last "Answer:" (or another marker), the first capital that is an
    option's letter, even within a word; the last "(X)"; the last "X."; in more than five words, the option's text that
    comes last. An option's text ends at its first ". ".
    """
    for letter in BOXED.findall(response):
        if letter in options:
            return lettered.published(letter, options, "boxed letter")
    marker = next((marker for marker in MARKERS if marker in response), "")
    stated = response.rpartition(marker)[2].strip() if marker else ""
    if letter := min((letter for letter in options if letter in stated), key=stated.find, default=""):
        return lettered.published(letter, options, f"first letter after {marker}")
    text = lettered.bare(response)
    for form, name in (("({})", "letter in brackets"), ("{}.", "letter with a full stop")):
        if letter := lettered.last({letter: form.format(letter) for letter in options}, text):
            return lettered.published(letter, options, f"last {name}")
    texts = {letter: option.split(". ")[0].lower() for letter, option in options.items()}
    if len(text.split()) > 5 and (letter := lettered.last(texts, text.lower())):
        return lettered.published(letter, options, "text of the option that comes last")
    return lettered.published("", options, "no letter or text")


BENCHMARKS = (
    Benchmark(
        name=NAME,
        title="MedFrameQA",
        items=items,
        prompt=prompt,
        prompts={"direct": Templates("direct", {"mc": DIRECT})},
        score=score_single_choice,
        metrics=(metrics.accuracy, *metrics.rates),
        dimensions=("system", "organ", "modality", "image_count"),
        public=True,
        origin=ORIGIN,
        owners=Owners(
            rule=OfficialRule(
                score=lettered.scored_by(medframeqa_rule),
                note="answers are read by the owners' parse_multi_choice_response",
            ),
            kits={kits.MEDEVALKIT: partial(kits.medevalkit_choices, line=OPTION)},
            published=partial(published.read, NAME),
        ),
    ),
)
