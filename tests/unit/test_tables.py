"""One reader for CSV, TSV, XLSX, JSON and JSON lines: the same rows, limits and errors in each format."""

from __future__ import annotations

import csv
import gc
import json
import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import openpyxl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medvqa import tables
from medvqa.items import DataError
from medvqa.tables import limits
from support.laws import examples

FORMATS = ("csv", "tsv", "xlsx", "json", "jsonl", "object")


def write(folder: Path, kind: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    """A table in a format; "object" is a JSON object of rows by their first column."""
    path = folder / f"table.{'json' if kind == 'object' else kind}"
    named = [dict(zip(columns, row, strict=False)) for row in rows]
    if kind in ("csv", "tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="," if kind == "csv" else "\t").writerows([columns, *rows])
    elif kind == "xlsx":
        book = openpyxl.Workbook()
        for row in (columns, *rows):
            book.active.append(list(row))  # type: ignore[union-attr]
        book.save(path)
    elif kind == "object":
        path.write_text(json.dumps({row[columns[0]]: {**row, "": ""} for row in named}, indent=1))
    else:
        path.write_text(json.dumps(named) if kind == "json" else "".join(json.dumps(row) + "\n" for row in named))
    return path


def read(path: Path, **options: object) -> list[tables.TableRow]:
    return list(tables.read(path, name=path.name, key="id", **options))  # type: ignore[arg-type]


cell = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=12)


@examples(60)
@given(st.lists(st.tuples(cell, cell), min_size=1, max_size=6))
@example([("a,b;c\t", "\"'"), ("N/A", "None"), ("=1", "_x0041_")])
def test_every_format_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    numbered = [(str(number), *row) for number, row in enumerate(rows)]
    wanted = [dict(zip(("id", "B", "c d"), row, strict=True)) for row in numbered]
    for kind in FORMATS:
        path = write(tmp_path_factory.getbasetemp(), kind, ("id", "B", "c d"), numbered)
        found = [{name: value for name, value in row.values.items() if name} for row in read(path)]
        assert found == wanted, kind


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("csv", ["table.csv row 2", "table.csv row 3", "table.csv row 4 (line 5)"]),
        ("xlsx", ["table.xlsx row 2", "table.xlsx row 3", "table.xlsx row 4"]),
        ("json", ["table.json record 1", "table.json record 2", "table.json record 3"]),
        ("jsonl", ["table.jsonl line 1", "table.jsonl line 2", "table.jsonl line 3"]),
        ("object", ["table.json id a", "table.json id b", "table.json id c"]),
    ],
)
def test_a_row_is_named_as_people_find_it(tmp_path: Path, kind: str, places: list[str]) -> None:
    rows = read(write(tmp_path, kind, ("id", "text"), [("a", "x"), ("b", "two\nlines"), ("c", "x")]))
    assert [row.where for row in rows] == places
    assert str(rows[0].error("wrong", "text")) == f"{places[0]}, column 'text': wrong"


LIMITS = [("MAX_ROWS", "rows"), ("MAX_COLUMNS", "columns"), ("MAX_TEXT", "of text"), ("MAX_BYTES", "larger than")]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("limit", "said"), LIMITS)
def test_the_limits_are_those_of_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, limit: str, said: str
) -> None:
    path = write(tmp_path, kind, ("id", "b", "c", "d"), [(str(number), "x" * 90, "", "") for number in range(5)])
    assert len(read(path)) == 5
    monkeypatch.setattr(limits, limit, {"MAX_TEXT": 80, "MAX_BYTES": 99}.get(limit, 3))
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value).startswith(path.name)
    assert said in str(error.value) or (kind, limit) == ("jsonl", "MAX_TEXT")
    if (kind, limit) == ("jsonl", "MAX_TEXT"):
        assert str(error.value) == "table.jsonl line 1: longer than 80 bytes"


@pytest.mark.parametrize("kind", FORMATS)
def test_the_nearest_of_several_sets_of_columns_is_named(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind, ("id", "Answer", "key"), [("1", "A", "B")])
    needed = [("index", "prediction"), ("id", "response")]
    with pytest.raises(DataError, match=r"missing column response; found: id, answer, key.*; what is read$"):
        read(path, needed=needed, fold=True, hint="; what is read")
    with pytest.raises(DataError, match=r"\. Is this the file of another data set\?$"):
        read(path, needed=needed)
    assert len(read(path, needed=[*needed, ("id", "answer")], fold=True)) == 1
    with pytest.raises(DataError, match="missing column answer"):
        read(path, needed=[("id", "answer")])


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"id": "7", "text": "x"}', "line 1"),
        ('{"id": "7",\n"text": {}}', ""),
        ('{"7": {"text": "x"}}', "id 7"),
        ('{"7": {"text": "x"}, "8": {}}', "id 7"),
        ('{"7": {"text": "x"}}\n{"8": {}}', "line 1"),
        ('\ufeff [{"id": "7"}]', "record 1"),
    ],
)
def test_a_line_that_is_one_object_is_a_row_unless_it_holds_rows(tmp_path: Path, content: str, place: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    if place:
        assert read(path)[0].where == f"x.json {place}"
        return
    with pytest.raises(DataError, match=r"^x\.json id id: Expected `object`, got `str`"):
        read(path)


@pytest.mark.parametrize("content", ["17", "id,text\n1,x\n", "[", '{"7": {"text": "x"}}', "PK\x03\x04"])
def test_a_file_may_be_asked_to_be_json_lines_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    with pytest.raises(DataError, match=r"^x\.jsonl line 1: "):
        read(path, lines=True, needed=[("id",)])


def test_the_name_of_a_file_does_not_tell_its_format(tmp_path: Path) -> None:
    for kind in FORMATS:
        path = write(tmp_path, kind, ("id", "b"), [("1", "x"), ("2", "y")])
        for name in ("x", "x.jsonl", "x.csv"):
            found = read(path.rename(tmp_path / name))
            assert [(row.text("id"), row.text("b")) for row in found] == [("1", "x"), ("2", "y")]
            path = tmp_path / name


def test_an_object_of_rows_is_no_table_where_none_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{\n"7": {"text": "x"}}')
    with pytest.raises(DataError, match=r"x\.json: Expected `array` of rows, got `object`"):
        list(tables.read(tmp_path / "x.json"))


@pytest.mark.parametrize("content", ['{"a": 1, "a": 2}', '{"b": [{"a": 1, "a": 2}]}'])
def test_two_values_under_one_key_are_refused(tmp_path: Path, content: str) -> None:
    for name, text in (("x.jsonl", content), ("x.json", f"[{content}]"), ("y.json", f"{content}\n{content}")):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match=rf"^{name}.*: the key 'a' occurs twice$"):
            read(tmp_path / name)


@pytest.mark.parametrize(
    ("value", "text"), [("x", "x"), (None, ""), (3, "3"), (3.0, "3"), (2.5, "2.5"), (True, "True")]
)
def test_values_as_text(value: object, text: str) -> None:
    row = tables.TableRow("x.json", "record", 1, 0, {"a": value})
    assert (row.text("a"), row.text("b")) == (text, "")
    with pytest.raises(DataError, match=r"^x\.json record 1, column 'a': no text: \['x'\]$"):
        tables.TableRow("x.json", "record", 1, 0, {"a": ["x"]}).text("a")


def test_a_pipe_is_refused_and_a_missing_file_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(DataError, match=r"^x\.csv: cannot be read: x\.csv is not a regular file$"):
        read(tmp_path / "x.csv")
    with pytest.raises(DataError, match=r"^y\.csv: no such file$"):
        read(tmp_path / "y.csv")


def test_the_line_of_what_is_not_utf_8_is_named(tmp_path: Path) -> None:
    for name, content in (
        ("x.csv", b"id,b\n" + b"1,a\n" * 20_000 + b"1,\xe9\n"),
        ("x.jsonl", b'{"id": 1}\n' * 20_001 + b'{"id": "\xe9"}\n'),
        ("x.json", b"[\n" + b'{"id": 1},\n' * 20_000 + b'{"id": "\xe9"}]'),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"^{name} line 20002: not UTF-8: "):
            read(tmp_path / name)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_that_is_not_read_to_its_end_leaves_nothing_open(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind, ("id", "b"), [(str(number), "x") for number in range(9)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = tables.read(path, key="id")
        next(rows)
        del rows
        gc.collect()


@examples(300)
@given(
    st.sampled_from(["x.csv", "x.json", "x.jsonl"]),
    st.binary(max_size=60)
    | st.text('{}[]",:\n\r\t;ab1 ', max_size=40).map(str.encode)
    | st.sampled_from([b"PK\x03\x04", b"\xef\xbb\xbf", b" " * 5000]).flatmap(
        lambda start: st.binary(max_size=9).map(lambda end: start + end)
    ),
)
def test_any_content_is_rows_or_an_error_that_names_the_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    with suppress(DataError):
        assert all(row.where.startswith(name) for row in read(path))
        return
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value).startswith(name)
