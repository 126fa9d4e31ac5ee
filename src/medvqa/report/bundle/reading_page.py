"""The first block of a reader's page: the questions of one reader, without key, model or answer.

Its other blocks are the files of its images (`images/...`, see `pictures`).
"""

from __future__ import annotations

from typing import Literal

from medvqa.report.bundle.images import ImageHead
from medvqa.report.bundle.shape import Shape


class CheckedKey(Shape, frozen=True):
    """What an expert checks beside the question: the key, and the opinions before a final decision."""

    answers: list[str]
    opinions: tuple[str, ...] = ()
    """Codes are left out: "Reviewer 1: correct, 4 of 10: the reason"."""


class ReadingTask(Shape, frozen=True):
    """One question, in the reader's own order."""

    benchmark: str
    item: str
    """A code in place of the id (`readings.study_plan.StudyRecord`): ids tell keys and pairs."""
    kind: Literal["single_choice", "multiple_response", "judgment", "fill_in_the_blank", "short_answer"]
    question: str
    options: list[tuple[str, str]]
    """Letters and texts, as in the data set."""
    images: list[ImageHead]
    sitting: int
    """From 1; a reader may stop after each."""
    checked: CheckedKey | None = None
    """None in a study: readers are blind."""


class ReadingHead(Shape, frozen=True):
    """The page of one reader."""

    version: int
    kind: Literal["reading"]
    title: str
    generator: str
    task: Literal["answer", "review"]
    study: dict[str, object]
    """The first line of the file that the page exports (`readings.reading_file.ReaderStudy`); its `reader` names the
    reader."""
    instructions: str
    tasks: list[ReadingTask]
    confidence: bool = True
    """Whether the reader says how sure the answer is, from 1 to 5."""
    arm: Literal["", "without", "with"] = ""
