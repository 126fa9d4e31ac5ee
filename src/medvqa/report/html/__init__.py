"""index.html: a run, or a lexical tree, as one file that opens offline."""

from __future__ import annotations

from medvqa.report.html.page import FILE, lexicon_page, render
from medvqa.report.html.pictures import IMAGES, Images, Pictures, draw

__all__ = ["FILE", "IMAGES", "Images", "Pictures", "draw", "lexicon_page", "render"]
