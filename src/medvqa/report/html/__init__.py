"""index.html: a run, a comparison of runs, or a lexical tree, as one file that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medvqa.items import Benchmark, Item
from medvqa.report.build import Report
from medvqa.report.bundle import pictures
from medvqa.report.bundle.pictures import IMAGES, Images, Load, Pictures, inside, parse
from medvqa.report.bundle.versus import comparison_name
from medvqa.report.html.page import FILE, comparison_page, lexicon_page, pieces, render, with_block

__all__ = [
    "FILE",
    "IMAGES",
    "Images",
    "Pictures",
    "comparison_name",
    "comparison_page",
    "draw",
    "inside",
    "lexicon_page",
    "parse",
    "pieces",
    "render",
    "with_block",
]


def draw(report: Report, load: Load, typed: str | None = None, *, many: Images = "folder") -> Pictures:
    """Read and draw the images of a run (`pictures.draw`), reading the items of each benchmark once."""
    read: dict[str, Sequence[Item] | None] = {}

    def once(benchmark: Benchmark) -> Sequence[Item] | None:
        if benchmark.name not in read:
            items = load(benchmark)
            read[benchmark.name] = None if items is None else tuple(items)
        return read[benchmark.name]

    return replace(pictures.draw(report, once, typed, many=many), load=None if typed == "none" else once)
