"""Phantom: synthetic lesions and organs in the formats of the three other benchmarks, read by their readers.

The data ship in fixtures/phantom (see docs/phantom.md), so these benchmarks are always there and `--data` does not
matter to them. Prompts and metrics are those of the benchmark whose format is used, and so is the scoring, except
that MedLesionVQA's open questions are scored by a rule: their answers come from a closed vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from medvqa import suite
from medvqa.benchmarks import gmai_mmbench, mediconfusion, medlesionvqa
from medvqa.items import CHOICE_KINDS, Answer, Item, Score
from medvqa.scoring import score_closed_vocabulary

GROUP = "phantom"


def _folder() -> Path:
    return suite.folder("fixtures") / "phantom"


def _gmai_mmbench(data: Path) -> Iterator[Item]:
    files = sorted((_folder() / "gmai-mmbench").glob("*.tsv"))
    return gmai_mmbench.items_of(files, root=_folder(), benchmark="phantom-gmai-mmbench")


def _mediconfusion(data: Path) -> Iterator[Item]:
    return mediconfusion.items_of(_folder() / "mediconfusion", root=_folder(), benchmark="phantom-mediconfusion")


def _medlesionvqa(data: Path) -> Iterator[Item]:
    files = sorted((_folder() / "medlesionvqa").glob("*.jsonl"))
    return medlesionvqa.items_of(files, root=_folder(), split="val", benchmark="phantom-medlesionvqa")


def _score_medlesionvqa(item: Item, answer: Answer) -> Score:
    """The parent's rule for options, the closed vocabulary of the question for open answers."""
    if item.kind in CHOICE_KINDS:
        return medlesionvqa.score(item, answer)
    return score_closed_vocabulary(item, answer, item.extra["vocabulary"])


BENCHMARKS = (
    replace(
        gmai_mmbench.BENCHMARKS[0],
        name="phantom-gmai-mmbench",
        group=GROUP,
        title="Phantom in GMAI-MMBench's format",
        items=_gmai_mmbench,
        files=None,
        obtain="",
    ),
    replace(
        mediconfusion.BENCHMARKS[0],
        name="phantom-mediconfusion",
        group=GROUP,
        title="Phantom in MediConfusion's format",
        items=_mediconfusion,
        files=None,
        obtain="",
    ),
    replace(
        medlesionvqa.BENCHMARKS[0],
        name="phantom-medlesionvqa",
        group=GROUP,
        title="Phantom in MedLesionVQA's format",
        items=_medlesionvqa,
        files=None,
        obtain="",
        upload=True,
        score=_score_medlesionvqa,
    ),
)
