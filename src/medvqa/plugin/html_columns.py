"""Add columns to pytest-html's page: the outcome of an item, and the extracted answer."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Protocol

import pytest

COLUMNS = {"outcome": "Outcome", "extracted": "Read"}
"""Shown properties of a report -> heading."""


class _Page(Protocol):
    """The report object that pytest-html passes to its title hook."""

    table_header: Sequence[str]


class Columns:
    """Adds the columns at the first report of an item: a session without items keeps the page unchanged."""

    def __init__(self) -> None:
        """Start without a page."""
        self._page: _Page | None = None
        self._added = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_report_title(self, report: _Page) -> None:
        """Keep the page: its headings are written before the first item is known."""
        self._page = report

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        """Fill the columns of one row. pytest-html does not escape added cells."""
        properties = dict(getattr(report, "user_properties", ()))
        is_item = COLUMNS.keys() <= properties.keys()
        if is_item and not self._added and self._page is not None:
            heads = [f'<th class="sortable" data-column-type="{name}">{COLUMNS[name]}</th>' for name in COLUMNS]
            self._page.table_header = [*self._page.table_header, *heads]
            self._added = True
        if not self._added or not cells:
            return
        if is_item:
            # A test's name holds the item's id, which pytest-html does not escape.
            name = report.nodeid if report.when == "call" else f"{report.nodeid}::{report.when}"
            cells[:] = [cell.replace(f">{name}<", f">{escape(name)}<") for cell in cells]
        shown = (escape(" ".join(str(properties.get(name, "")).split())) if is_item else "" for name in COLUMNS)
        cells += [f'<td class="col-{name}">{text}</td>' for name, text in zip(COLUMNS, shown, strict=True)]
