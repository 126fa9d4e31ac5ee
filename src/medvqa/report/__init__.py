"""Draw a run folder as measures, tables, JUnit, Markdown and HTML. Needs no pytest or model; data only for images."""

from medvqa.report.build import Report, build
from medvqa.report.notes import left_out, notes_of
from medvqa.report.writing import DRAWN, remove, write

__all__ = ["DRAWN", "Report", "build", "left_out", "notes_of", "remove", "write"]
