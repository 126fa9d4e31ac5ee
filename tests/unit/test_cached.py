"""Records stored between starts: read back only if they are whole, of the same stamp, and nobody else's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from medvqa.tables import cached


class Row(msgspec.Struct, frozen=True):
    name: str
    places: list[int] = []


ROWS = [Row("a", [1, 2]), Row("ü\n"), Row("")]
STAMP = (1, cached.Stamp(5, 6, 7, "0" * 64), ["columns"])


@pytest.mark.parametrize("rows", [ROWS, []])
def test_records_are_read_back_as_they_were_stored(tmp_path: Path, rows: list[Row]) -> None:
    place = tmp_path / "new" / "rows.jsonl"
    assert cached.load(place, STAMP, Row) is None
    cached.store(place, STAMP, iter(rows))
    assert cached.load(place, STAMP, Row) == rows
    assert place.stat().st_mode & 0o077 == place.parent.stat().st_mode & 0o077 == 0
    assert [file.name for file in place.parent.iterdir()] == [place.name]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[: content.index(b"\n") + 1],
        lambda content: content.replace(b'"a"', b'"b"'),
        lambda content: content.replace(b"[1,2]", b"[1,{}]"),
        lambda content: content.replace(b'{"name":""', b'{"nam":""'),
        lambda content: content + b"{}\n",
        lambda content: b"\xff" + content,
    ],
)
def test_a_damaged_file_is_not_read(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    place = tmp_path / "rows.jsonl"
    cached.store(place, STAMP, ROWS)
    content = place.read_bytes()
    assert change(content) != content
    place.write_bytes(change(content))
    assert cached.load(place, STAMP, Row) is None


def test_records_of_another_state_or_of_anybody_are_not_read(tmp_path: Path) -> None:
    place = tmp_path / "rows.jsonl"
    cached.store(place, STAMP, ROWS)
    assert cached.load(place, (2, *STAMP[1:]), Row) is None
    os.symlink(place, tmp_path / "link")
    assert cached.load(tmp_path / "link", STAMP, Row) is None
    place.chmod(0o620)
    assert cached.load(place, STAMP, Row) is None


def test_each_kind_of_records_has_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = {cached.place_of(tmp_path / file, kind).name for file in ("a", "b") for kind in ("index", "looks")}
    assert len(names) == 4
