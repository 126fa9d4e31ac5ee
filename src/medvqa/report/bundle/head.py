"""The first block of a bundle."""

from __future__ import annotations

from typing import Literal

from medvqa.report.bundle.columns import TypedArray
from medvqa.report.bundle.page_blocks import PageSection
from medvqa.report.bundle.questions import BenchmarkHead, PairOfRuns, RunHead, ScaleView, TagDimension
from medvqa.report.bundle.shape import Shape

VERSION = 3
"""The version of the format. A reader refuses another one."""


class BundleHead(Shape, frozen=True):
    """The first block: everything but questions and results."""

    version: int
    kind: Literal["run", "comparison", "tree", "history"]
    """Trees have questions and no summary, histories a summary and no questions."""
    title: str
    about: str
    """A few words beside the title, such as the model's name."""
    generator: str
    outcomes: list[str]
    kinds: list[str]
    runs: list[RunHead]
    benchmarks: list[BenchmarkHead]
    dimensions: list[TagDimension]
    techniques: list[str]
    variants: list[str]
    finishes: list[str]
    columns: list[TypedArray]
    answers: int
    """The number of blocks `answers/K`."""
    chunk: int
    """Results in each of them but the last."""
    sections: list[PageSection]
    """The summary, from its top."""
    pairs: tuple[PairOfRuns, ...] = ()
    """Each run against the first of `runs`, or if they are not comparable, against the run from which it differs in one
    setting."""
    scales: tuple[ScaleView, ...] = ()
    """Measures on which runs are compared unit by unit; none in the page of one run."""
    cut: int = 0
    """Characters of a response in this bundle; longer ones are cut, and say so. 0: none is."""
    left_out: str = ""
    """A sentence if the texts of all results are left out, else ""; there are no blocks of answers then."""
