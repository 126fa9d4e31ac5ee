"""The scorecard of a run: its headline measures with their meaning, the gain of the image, and the spread."""

from __future__ import annotations

from dataclasses import replace

from medvqa.figures import Table
from medvqa.report import tables
from medvqa.report.build import Report
from medvqa.report.bundle.page_blocks import PageSection, section, table_block
from medvqa.report.reader_tables import of_people


def scorecard_section(report: Report) -> PageSection:
    """The scorecard; the tables are those of the terminal and of summary.md, grouped by benchmark and technique."""
    names = len(tables.naming(report))
    shown = [table_block(grouped(table, names)) for table in (tables.headline(report), tables.image_gain(report))]
    shown += [table_block(table) for table in of_people(report)]
    if tables.adds(report):
        shown.append(table_block(tables.spread(report), folded=True))
    shown.append(table_block(tables.components(report), folded=True))
    return section("scorecard", "Scorecard", shown)


def grouped(table: Table, names: int) -> Table:
    """Return a table whose rows stand under headings, without the first columns, which name these, and empty ones."""
    filled = [any(row[place] not in (None, "") for row in table.rows) for place in range(len(table.columns))]
    kept = [place for place, is_filled in enumerate(filled) if is_filled and place >= names]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[place] for place in kept), rows=rows)
