"""Phantom: synthetic lesions and organs in the formats of the three other benchmarks, read by their readers.

The data ship in fixtures/phantom (docs/data.md), so these benchmarks are always available, whatever `--data` is.
Prompts, metrics and scoring are those of the benchmark with the same format, with one exception: without a judge, a
rule scores MedLesionVQA's open questions, because their answers come from a closed vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from medvqa.benchmarks import folders, gmai_mmbench, mediconfusion, medlesionvqa
from medvqa.items import (
    CHOICE_KINDS,
    Answer,
    AnswerError,
    Benchmark,
    Item,
    Origin,
    Prompt,
    PromptFunction,
    Score,
    Technique,
)
from medvqa.protocols.prompts import Template
from medvqa.scoring import score_closed_vocabulary

GROUP = "phantom"

PREFIX = Template("phantom-medlesionvqa/ps", "Question: {question} Answer:")


def _folder() -> Path:
    return folders.bundled("fixtures") / "phantom"


def _gmai_mmbench(data: Path) -> Iterator[Item]:
    files = sorted((_folder() / "gmai-mmbench").glob("*.tsv"))
    return gmai_mmbench.items_of(files, root=_folder(), benchmark="phantom-gmai-mmbench")


def _mediconfusion(data: Path) -> Iterator[Item]:
    return mediconfusion.items_of(_folder() / "mediconfusion", root=_folder(), benchmark="phantom-mediconfusion")


def _medlesionvqa(data: Path) -> Iterator[Item]:
    files = sorted((_folder() / "medlesionvqa").glob("*.jsonl"))
    return medlesionvqa.items_of(files, root=_folder(), split="val", benchmark="phantom-medlesionvqa")


def _applies_medlesionvqa(item: Item, technique: Technique) -> bool:
    """PS for open questions, over their closed vocabulary; a choice question may have several right options."""
    return technique == "mc" or item.kind not in CHOICE_KINDS


def _prompt_medlesionvqa(item: Item, technique: Technique) -> Prompt:
    """The parent's prompt; for PS the prefix, which a term of the vocabulary continues."""
    if technique != "ps":
        return medlesionvqa.PROMPT(item, technique)
    return PREFIX.prompt(replace(item, options={term: term for term in item.extra.get("vocabulary", ())}), technique)


def _score_medlesionvqa(item: Item, answer: Answer) -> Score:
    """The parent's rule for options, the closed vocabulary of the question for open answers."""
    if item.kind in CHOICE_KINDS:
        return medlesionvqa.score(item, answer)
    try:
        vocabulary = msgspec.convert(item.extra.get("vocabulary"), dict[str, tuple[str, ...]])
    except msgspec.ValidationError as error:
        # An item of a run folder that was written elsewhere.
        raise AnswerError(f"{item.id}: extra field 'vocabulary': {error}") from None
    return score_closed_vocabulary(item, answer, vocabulary)


ORIGIN = Origin(licence="CC0 1.0", home="", note="It ships with the project.", synthetic=True, group=GROUP)


def _shipped(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark in whose format the phantom is, without its files and its published rows."""
    return replace(benchmark, origin=ORIGIN, owners=replace(benchmark.owners, published=None))


BENCHMARKS = (
    replace(
        _shipped(gmai_mmbench.BENCHMARKS[0]),
        name="phantom-gmai-mmbench",
        title="Phantom in GMAI-MMBench's format",
        items=_gmai_mmbench,
    ),
    replace(
        _shipped(mediconfusion.BENCHMARKS[0]),
        name="phantom-mediconfusion",
        title="Phantom in MediConfusion's format",
        items=_mediconfusion,
    ),
    replace(
        _shipped(medlesionvqa.BENCHMARKS[0]),
        name="phantom-medlesionvqa",
        title="Phantom in MedLesionVQA's format",
        items=_medlesionvqa,
        public=True,
        prompt=PromptFunction(_prompt_medlesionvqa, ("mc", "ps"), _applies_medlesionvqa),
        score=_score_medlesionvqa,
        dimensions=medlesionvqa.DIMENSIONS,
    ),
)
