"""Tables that people fill in: what is read, what is refused, and that nothing becomes a formula.

Damaged and oversized files are tested where they are read: test_backends.py and test_agreement.py.
"""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import printing, tables
from medvqa.items import DataError
from medvqa.tables import limits, sheets


@given(st.lists(st.tuples(st.text("ab,;\"'\n= é", max_size=8), st.text(max_size=8)), max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    """Blank rows are skipped."""
    path = tmp_path_factory.getbasetemp() / "written.csv"
    sheets.write(path, ("id", "score"), rows)
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        with pytest.raises(DataError, match=r"written\.csv: no rows"):
            list(tables.read(path))
        return
    found = [row.values for row in tables.read(path)]
    assert found == [dict(zip(("id", "score"), map(printing.inert, row), strict=True)) for row in rows]


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ("id,score\n1,2;3\n", ["1", "2;3"]),
        ("id;score\n1;2,3\n", ["1", "2,3"]),
        ("id\tscore\n1,2\t3;4\n", ["1,2", "3;4"]),
    ],
)
def test_the_header_tells_what_separates_cells(tmp_path: Path, content: str, row: list[str]) -> None:
    (tmp_path / "x.csv").write_text(content)
    (found,) = tables.read(tmp_path / "x.csv")
    assert list(found.values.values()) == row


def test_a_table_that_is_not_read_to_its_end_leaves_the_limit_of_csv_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,score\n0,\n1," + "x" * 200_000 + "\n")
    limit = csv.field_size_limit()
    first, second = (tables.read(tmp_path / "x.csv") for _ in range(2))
    next(first)
    next(second)
    assert csv.field_size_limit() == limit
    assert len(next(first).text("score")) == 200_000


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_text("id,score\n")
    monkeypatch.setattr(limits, "MAX_BYTES", 5)
    with pytest.raises(DataError, match=r"x\.csv: larger than 5 bytes"):
        list(tables.read(tmp_path / "x.csv"))
