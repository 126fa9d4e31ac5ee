"""tables/parquet.py: rows of Parquet files, and images that stay in them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from medvqa import tables
from medvqa.image import Image, ParquetCell
from medvqa.items import DataError
from medvqa.tables import cached, parquet
from support.neighbours import png

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet as writer  # noqa: E402


def written(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    path = folder / "test.parquet"
    writer.write_table(pyarrow.Table.from_pylist(rows), path, **options)
    return path


def test_cells_hold_values_as_in_json_and_images_by_reference(tmp_path: Path) -> None:
    rows = [
        {"id": n, "image": {"bytes": png(n), "path": None} if n != 2 else None, "options": ["a", "b"], "seen": None}
        for n in range(5)
    ]
    read = list(tables.read(written(tmp_path, rows, row_group_size=2), name="test.parquet"))
    assert [row.where for row in read] == [f"test.parquet record {n}" for n in range(1, 6)]
    assert [row.values["id"] for row in read] == [0, 1, 2, 3, 4]
    assert read[0].values["options"] == ["a", "b"]
    assert read[2].values["image"] is None
    for n in (0, 1, 3, 4):
        image = read[n].values["image"]
        assert image == Image(
            f"test.parquet record {n + 1}", str(tmp_path / "test.parquet"), cell=ParquetCell("image", n)
        )
        assert image.pil().getpixel((0, 0)) == (n, n, n)


def test_a_list_of_images_and_columns_of_bytes_are_images_too(tmp_path: Path) -> None:
    rows = [{"images": [{"bytes": png(1), "path": "a"}, {"bytes": png(2), "path": "b"}], "raw": png(3)}, {"raw": None}]
    first, second = (row.values for row in tables.read(written(tmp_path, rows), name="t"))
    assert [image.name for image in first["images"]] == ["t record 1 images 1", "t record 1 images 2"]
    assert [image.pil().getpixel((0, 0))[0] for image in first["images"]] == [1, 2]
    assert first["raw"].pil().getpixel((0, 0))[0] == 3
    assert (second["images"], second["raw"]) == (None, None)


def test_digests_are_those_of_the_bytes_and_stored_for_large_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cached, "SMALL", 0)
    rows = [{"image": {"bytes": png(n), "path": None}, "more": [{"bytes": png(9), "path": None}]} for n in range(3)]
    path = written(tmp_path, rows)
    for _ in range(2):
        read = [row.values for row in tables.read(path, name="t", digests=True)]
        assert [row["image"].digest for row in read] == [hashlib.sha256(png(n)).hexdigest() for n in range(3)]
        assert {row["more"][0].digest for row in read} == {hashlib.sha256(png(9)).hexdigest()}
        monkeypatch.setattr(parquet, "_hashed", lambda *_: pytest.fail("read again"))
    assert read[0]["image"].read() == png(0)


def test_an_image_of_a_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [{"image": {"bytes": png(n), "path": None}} for n in range(3)])
    *_, last = (row.values["image"] for row in tables.read(path, digests=True))
    written(tmp_path, [{"image": {"bytes": png(7), "path": None}}])
    with pytest.raises(DataError, match=r"the file has 1 rows; it has changed since it was read"):
        last.read()


def test_damaged_files_are_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, [{"a": 1}])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"^t: damaged, or no Parquet file: [^\n]+$"):
        list(tables.read(path, name="t"))
    path.write_bytes(b"PAR1" + b"x" * 40 + b"PAR1")
    with pytest.raises(DataError, match="damaged"):
        list(tables.read(path, name="t"))


def test_without_pyarrow_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, [{"a": 1, "image": {"bytes": png(1), "path": None}}])
    image = next(iter(tables.read(path, name="t"))).values["image"]
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'pytest-medvqa\[data\]'"):
        list(tables.read(path, name="t"))
    with pytest.raises(DataError, match=r"pip install 'pytest-medvqa\[data\]'"):
        image.read()


def test_a_small_file_does_not_unfold_to_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One value of a dictionary stands in every row, or in a list without end; both take some kilobytes on disk."""
    rows = 100
    monkeypatch.setattr(parquet, "MAX_BATCH", 2**24)
    for kind, value in (("text", "x" * 2**20), ("image", b"x" * 2**20)):
        repeated = pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([0] * rows, pyarrow.int32()), pyarrow.array([value])
        )
        path = tmp_path / f"{kind}.parquet"
        table = pyarrow.table({"id": [str(n) for n in range(rows)], kind: repeated})
        writer.write_table(table, path, compression="zstd", store_schema=False)
        assert path.stat().st_size < 2**17
    with pytest.raises(DataError, match="text: more than 16,777,216 bytes in 32 rows"):
        list(tables.read(tmp_path / "text.parquet", name="text"))
    first = next(iter(tables.read(tmp_path / "image.parquet", name="image"))).image("image")
    assert first is not None
    monkeypatch.setattr("medvqa.image.MAX_ROW_GROUP", 2**26)
    with pytest.raises(DataError, match="a row group of more than 64 MiB"):
        first.read()
    count = 100_000
    monkeypatch.setattr(parquet, "MAX_VALUES", count)
    endless = pyarrow.ListArray.from_arrays(
        pyarrow.array([0, count], pyarrow.int32()), pyarrow.nulls(count, pyarrow.int8())
    )
    writer.write_table(pyarrow.table({"id": ["1"], "options": endless}), tmp_path / "list.parquet")
    with pytest.raises(DataError, match="list: more than 100,000 values in a row group"):
        list(tables.read(tmp_path / "list.parquet", name="list"))
