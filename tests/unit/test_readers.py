"""Readers take time and memory in proportion to a file, and refuse what no real file has.

Nothing here is timed: work is counted, or done under a limit of memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from medvqa import decode, tables
from medvqa.benchmarks import mediconfusion
from medvqa.items import DataError
from medvqa.tables import image_cells, limits

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


class Counted(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)  # type: ignore[arg-type]

    __hash__ = str.__hash__


def comparisons(work: Callable[[], object]) -> int:
    Counted.comparisons = 0
    with pytest.raises(DataError):
        work()
    return Counted.comparisons


def test_names_of_columns_that_occur_twice_are_found_in_linear_time() -> None:
    def counted(number: int) -> int:
        names = [Counted(f"c{i}") for i in range(number)] + [Counted(f"c{number - 1}")]

        return comparisons(lambda: limits.check_columns(names, "x.csv"))

    assert counted(800) < 8 * max(counted(200), 1)


def test_a_key_that_occurs_twice_is_found_in_linear_time() -> None:
    def counted(number: int) -> int:
        members = [(Counted(f"k{i}"), i) for i in range(number)] + [(Counted(f"k{number - 1}"), 0)]
        return comparisons(lambda: decode.once(members, "dataset.json", DataError))

    assert counted(4000) < 8 * max(counted(1000), 1)


def test_a_chain_of_references_is_followed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    place = limits.place

    def counted(*arguments: object) -> str:
        nonlocal calls
        calls += 1
        return place(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(limits, "place", counted)
    picture = "QUFB" * 30
    rows = [f"{n}\t{n - 1 if n else picture}\tq" for n in range(1000)]
    (tmp_path / "x.tsv").write_text("index\timage\tquestion\n" + "".join(f"{row}\n" for row in reversed(rows)))
    found = image_cells.read(tmp_path / "x.tsv", root=tmp_path)
    assert {row.values["image"].name for row in found} == {"x.tsv row 1000"}
    assert calls < 5000


@pytest.mark.parametrize("reader", ["tsv", "sheet", "mediconfusion"])
def test_a_header_has_a_limit(tmp_path: Path, reader: str) -> None:
    names = [f"c{number}" for number in range(40_000)]
    if reader == "tsv":
        (tmp_path / "x.tsv").write_text("\t".join(["index", "image", *names]) + "\n")
        with pytest.raises(DataError, match=r"^x\.tsv, first line: more than 1,000 columns"):
            image_cells.read(tmp_path / "x.tsv", root=tmp_path)
    elif reader == "sheet":
        (tmp_path / "x.csv").write_text(",".join(["id", "score", *names]) + "\n")
        with pytest.raises(DataError, match=r"^.*x\.csv, first line: more than 1,000 columns"):
            list(tables.read(tmp_path / "x.csv"))
    else:
        (tmp_path / "dataset.csv").write_text(",".join(["id", *names]) + "\n" + "1\n" * 1000)
        with pytest.raises(DataError, match=r"^dataset\.csv, first line: more than 1,000 columns"):
            list(mediconfusion.items_of(tmp_path, root=tmp_path))


def test_a_column_of_mediconfusion_s_table_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dataset.csv").write_text("id,question,question\n1,a,b\n")
    with pytest.raises(DataError, match=r"^dataset\.csv, first line: column 'question' occurs twice"):
        list(mediconfusion.items_of(tmp_path, root=tmp_path))


def test_a_table_s_text_and_rows_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("index\timage\tquestion\n" + "".join(f"{n}\tA\t{'x' * 50}\n" for n in range(100)))
    monkeypatch.setattr(limits, "MAX_ROWS", 50)
    with pytest.raises(DataError, match=r"x\.tsv row 51 \(line 52\): more than 50 rows"):
        image_cells.read(path, root=tmp_path)
    monkeypatch.setattr(limits, "MAX_ROWS", 1000)
    monkeypatch.setattr(limits, "MAX_TEXTS", 1000)
    with pytest.raises(DataError, match=r"x\.tsv row 20 \(line 21\): more than 1,000 characters of text"):
        image_cells.read(path, root=tmp_path)


# Spreadsheets


def workbook(
    path: Path, *, sheet: bytes = b"<sheetData/>", shared: bytes = b"", styles: bytes = b"", more: bytes = b""
) -> Path:
    """A spreadsheet of these parts, as no program would write it."""
    head = b'<?xml version="1.0"?>\n'
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType='
        f'"application/xml"/><Override PartName="/xl/workbook.xml" ContentType="{types}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{types}.worksheet+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{types}.styles+xml"/>'
        f'<Override PartName="/xl/sharedStrings.xml" ContentType="{types}.sharedStrings+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
        f'Type="{kind}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{kind}"><sheets><sheet name="a" sheetId="1" '
        'r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
        f'Type="{kind}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="{kind}/styles" '
        f'Target="styles.xml"/><Relationship Id="rId3" Type="{kind}/sharedStrings" Target="sharedStrings.xml"/>'
        "</Relationships>",
    }
    space = f' xmlns="{MAIN}"'.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, head + content.encode())
        file.writestr("xl/worksheets/sheet1.xml", head + more + b"<worksheet" + space + b">" + sheet + b"</worksheet>")
        file.writestr("xl/styles.xml", head + b"<styleSheet" + space + b">" + styles + b"</styleSheet>")
        file.writestr("xl/sharedStrings.xml", head + b"<sst" + space + b">" + shared + b"</sst>")
    return path


def row(*values: str) -> bytes:
    cells = "".join(f'<c t="inlineStr"><is><t>{value}</t></is></c>' for value in values)
    return f"<row>{cells}</row>".encode()


def test_the_workbook_of_these_tests_is_read(tmp_path: Path) -> None:
    path = workbook(tmp_path / "x.xlsx", sheet=b"<sheetData>" + row("id", "score") + row("1", "x") + b"</sheetData>")
    assert [row.values for row in tables.read(path)] == [{"id": "1", "score": "x"}]


def bombs() -> dict[str, dict[str, bytes]]:
    """Parts of workbooks, some of 200 MB; made where they are needed, as every process of a session reads this file."""
    return {
        "shared strings": {"shared": b"<si/>" * 40_000_000},
        "styles": {"styles": b"<cellXfs>" + b"<xf/>" * 20_000_000 + b"</cellXfs>"},
        "attributes": {
            "sheet": b"<sheetData><row " + b"".join(b'a%d="" ' % n for n in range(3_000_000)) + b"/></sheetData>"
        },
        "one text": {"sheet": b"<sheetData>" + row("x" * 200_000_000) + b"</sheetData>"},
        "cells of a row": {"sheet": b"<sheetData><row>" + b"<c/>" * 40_000_000 + b"</row></sheetData>"},
        "far cells": {"sheet": b"<sheetData>" + b'<row><c r="ZZZ1"><v>1</v></c></row>' * 100_000 + b"</sheetData>"},
        "far rows": {"sheet": b'<sheetData><row r="999999999999"><c><v>1</v></c></row></sheetData>'},
        "claimed size": {
            "sheet": b'<dimension ref="A1:XFD1048576"/><sheetData>' + b"<row/>" * 3_000_000 + b"</sheetData>"
        },
        "entities": {
            "more": b'<!DOCTYPE a [<!ENTITY b "' + b"x" * 1000 + b'">]>',
            "sheet": b"<sheetData><row><c><v>&b;</v></c></row></sheetData>",
        },
    }


READ = """
import resource, sys, zipfile
from pathlib import Path
from medvqa import tables
from medvqa.items import DataError
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
for path in sorted(Path(sys.argv[1]).glob("*.xlsx")):
    try:
        rows = sum(1 for _ in tables.read(path))
        print(f"{path.name}: {rows} rows")
    except DataError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_spreadsheet_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    made = bombs()
    for name, parts in made.items():
        path = workbook(tmp_path / f"{name}.xlsx", **parts)
        assert path.stat().st_size < 20 * 2**20
    done = subprocess.run([sys.executable, "-c", READ, tmp_path], capture_output=True, text=True, timeout=250)
    lines = done.stdout.splitlines()
    assert len(lines) == len(made), done.stderr
    for name, line in zip(sorted(made), lines, strict=True):
        assert line.startswith(f"{tmp_path / name}.xlsx"), line
        assert "MemoryError" not in line
        assert "more than" in line or "DOCTYPE" in line, line


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("MAX_UNPACKED", 2000, r"more than 2,000 bytes when unpacked; write it as CSV"),
        ("MAX_ELEMENTS", 60, r"more than 60 XML elements and attributes; write it as CSV"),
        ("MAX_COLUMNS", 2, r"first line: more than 2 columns"),
        ("MAX_ROWS", 3, r"more than 3 rows"),
        ("MAX_CELLS", 5, r"more than 5 cells; write it as CSV"),
        ("MAX_PARTS", 6, r"more than 6 parts"),
    ],
)
def test_each_limit_names_file_and_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, message: str
) -> None:
    rows = b"".join(row("1", "2", "3") if n else row("a", "b", "c") for n in range(5))
    path = workbook(tmp_path / "x.xlsx", sheet=b"<sheetData>" + rows + b"</sheetData>")
    assert len(list(tables.read(path))) == 4
    monkeypatch.setattr(limits, limit, value)
    with pytest.raises(DataError, match=message) as error:
        list(tables.read(path))
    assert str(error.value).startswith(str(path))


def test_a_sheet_with_a_document_type_is_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "x.xlsx", more=b'<!DOCTYPE a [<!ENTITY b "x">]>')
    with pytest.raises(DataError, match=r"x\.xlsx, xl/worksheets/sheet1\.xml: has a DOCTYPE"):
        list(tables.read(path))


def test_a_row_of_a_table_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ROW", 1000)
    for content in ("a" * 2000 + "\n", "id,score\n" + '"' + "a\n" * 1000 + '",1\n', "id,score\n" + "a" * 2000):
        (tmp_path / "x.csv").write_text(content)
        with pytest.raises(DataError, match=r"x\.csv row [12]: longer than 1,000 characters"):
            list(tables.read(tmp_path / "x.csv"))


@pytest.mark.parametrize("name", ["model", "rules"])
def test_settings_that_are_nested_too_deep_or_too_large_are_an_error_of_their_own(tmp_path: Path, name: str) -> None:
    from medvqa import configs
    from medvqa.comparing import gating
    from medvqa.items import UsageError

    path = tmp_path / "m.toml"

    def read() -> object:
        return configs.available([tmp_path]) if name == "model" else gating.read_rules(path)

    path.write_text("a = " + "[" * 60_000)
    with pytest.raises(UsageError, match=r"m\.toml: not TOML: nested too deep"):
        read()
    path.write_text("# " + "x" * 2**21)
    with pytest.raises(UsageError, match=r"m\.toml: cannot be read: larger than (1 MiB|65,536 bytes)"):
        read()


def test_a_document_of_answers_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medvqa.backends import replay

    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"id": str(n), "response": "A"} for n in range(100)]))
    assert len(replay.read(path).answers) == 100
    monkeypatch.setattr(limits, "MAX_DOCUMENT", 1000)
    with pytest.raises(DataError, match=r"x\.json: larger than 1,000 bytes; write JSON lines"):
        replay.read(path)


def test_the_bombs_are_small_when_packed() -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", b"<si/>" * 10_000_000)
    assert len(packed.getvalue()) < 200_000
