"""Run folder -> measures, tables, JUnit, Markdown. Needs neither pytest nor a model nor the data."""

from medvqa.report.build import Report, build, notes_of, write

__all__ = ["Report", "build", "notes_of", "write"]
