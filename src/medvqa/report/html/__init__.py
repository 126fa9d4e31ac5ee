"""index.html: a run, a comparison of runs, or a lexical tree, as one file that opens offline."""

from __future__ import annotations

from medvqa.report.bundle.pictures import IMAGES, Images, Pictures, draw, inside, parse
from medvqa.report.bundle.several_runs import comparison_name
from medvqa.report.html.page import FILE, comparison_page, history_page, lexicon_page, pieces, render, with_block

__all__ = [
    "FILE",
    "IMAGES",
    "Images",
    "Pictures",
    "comparison_name",
    "comparison_page",
    "draw",
    "history_page",
    "inside",
    "lexicon_page",
    "parse",
    "pieces",
    "render",
    "with_block",
]
