"""JSON and TOML from outside: strict keys, places in messages, and content that nobody wrote for good."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import decode
from medvqa.benchmarks import toml_text
from medvqa.items import DataError, UsageError

NAMES = ("model", "limit", "technique", "samples")


class Inner(msgspec.Struct, omit_defaults=True):
    name: str
    number: int = 0
    words: list[str] = []


class Outer(msgspec.Struct, omit_defaults=True, rename="kebab"):
    title: str = ""
    big_number: int | None = None
    share: float = 0.0
    way: Literal["up", "down"] = "up"
    inner: Inner | None = None
    listed: list[Inner] = []
    by_name: dict[str, Inner] = {}
    either: str | Inner = ""


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
INT = st.integers(-(2**63), 2**63 - 1)
INNER = st.builds(Inner, TEXT, INT, st.lists(TEXT, max_size=3))
OUTER = st.builds(
    Outer,
    TEXT,
    st.none() | INT,
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["up", "down"]),
    st.none() | INNER,
    st.lists(INNER, max_size=3),
    st.dictionaries(TEXT, INNER, max_size=3),
    TEXT | INNER,
)


def refusal(content: str | bytes, kind: Any = Outer, format: decode.Format = "TOML") -> str:
    with pytest.raises(UsageError) as raised:
        decode.decode_bytes(content.encode() if isinstance(content, str) else content, kind, "f", format)
    said = str(raised.value)
    assert said.isprintable(), "a message is one line"
    return said


@given(OUTER)
def test_what_is_written_is_read(value: Outer) -> None:
    assert decode.decode_bytes(msgspec.json.encode(value), Outer, "f", "JSON") == value
    assert (
        decode.decode_bytes(toml_text.written(_without_none(msgspec.to_builtins(value))).encode(), Outer, "f") == value
    )


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


@given(OUTER, st.sampled_from(["title", "inner", "listed", "by-name"]), TEXT, st.data())
def test_a_misspelt_key_is_named_with_its_place(value: Outer, table: str, key: str, data: st.DataObject) -> None:
    values = {
        "title": "x",
        "inner": {"name": "x"},
        "listed": [{"name": "x"}, {"name": "y"}],
        "by-name": {"a": {"name": "x"}},
        **msgspec.to_builtins(value),
    }
    holder, where = {
        "title": (values, ""),
        "inner": (values["inner"] or {}, "[inner]: "),
        "listed": ((values["listed"] or [{}])[-1], f"[[listed]] number {len(values['listed'])}: "),
        "by-name": ((next(iter(values["by-name"].values()), {})), "[by-name"),
    }[table]
    known = Outer.__struct_encode_fields__ if table == "title" else Inner.__struct_encode_fields__
    if key in known or not holder:
        return
    holder[key] = data.draw(st.none() | TEXT | INT)
    said = refusal(json.dumps(values), format="JSON")
    assert said.startswith(f"f: {where}")
    assert f"no key {decode.shown(key)}; there are: {', '.join(known)}." in said


@given(
    st.recursive(st.none() | st.booleans() | INT | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner))
)
def test_any_json_is_read_or_refused_in_one_line(value: Any) -> None:
    try:
        decode.decode_bytes(json.dumps(value).encode(), Outer, "f", "JSON")
    except UsageError as error:
        assert str(error).isprintable()
        assert str(error).startswith("f")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_in_one_line(content: bytes) -> None:
    for format in ("TOML", "JSON"):
        try:
            decode.decode_bytes(content, Outer, "f", format)
        except UsageError as error:
            assert str(error).isprintable()
            assert str(error).startswith("f")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "[" * 60_000, "f: not TOML: nested too deep"),
        ("a." * 3000 + "b = 1", "f, line 1: no key 'a'; there are: title, "),
        ("either = " + "{a=" * 200 + "1" + "}" * 200, "f, line 1: [either]: no key 'a'; there are: name, "),
        ("title = 'x'\nbig-number = " + "9" * 30, "f, line 2: big-number: a whole number of more than 64 bits"),
        ("big-number = " + "9" * 5000, "f: not TOML: Exceeds the limit"),
        ("title = 'a'\ntitle = 'b'", "f: not TOML: Cannot overwrite a value"),
        (b"title = 'a'\n# \xff", "f line 2: not UTF-8: invalid start byte"),
        (b"\xff\xfe\0", "f line 1: not UTF-8: invalid start byte"),
        ("[[listed]]\nname = 'x'\n[[listed]]\nname = 'x'\nnumbr = 1", "f, line 5: [[listed]] number 2: no key 'numbr'"),
        ("listed = [3]", "f, line 1: [[listed]] number 1: a table is needed, not 3"),
        ("inner = 3", "f, line 1: [inner]: a table is needed, not 3"),
        ("either = 3", "f, line 1: Expected `str | object`, got `int` - at `$.either`"),
        ("way = 'upp'", "f, line 1: way: Invalid enum value 'upp'; there are: down, up. Did you mean 'up'?"),
        ("[by-name]\na = { name = 'x' }\nb = { name = 1 }", "f, line 3: Expected `str`, got `int` - at `$.by-name.b"),
        ("[by-name.\"a\\u001b\"]\nnumber = 1", "f, line 1: Object missing required field `name` - at `$.by-name.a"),
        ("\"bad\\nkey\" = 1", "f: no key 'bad\ufffdkey'; there are: "),
        (f"{'k' * 500} = 1", f"f, line 1: no key '{'k' * 60}'; there are: "),
    ],
)  # fmt: skip
def test_hostile_toml_is_refused_with_its_place(content: str | bytes, message: str) -> None:
    assert refusal(content).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"title": "a", "title": "b"}', "f: the key 'title' occurs twice"),
        (b'{"inner": {"name": "a", "name": "a"}}', "f: the key 'name' occurs twice"),
        (b'{"share": NaN}', "f: not JSON: "),
        (b'{"share": Infinity}', "f: not JSON: "),
        (b'{"title": "\\ud800"}', "f: not JSON: "),
        (b"[" * 100_000, "f: not JSON: nested too deep"),
        (b'{"big-number": ' + b"9" * 5000 + b"}", "f: not JSON: Exceeds the limit"),
        (b'{"title": "\xff"}', "f line 1: not UTF-8: invalid start byte"),
        (b'{"title": "a"', "f: not JSON: "),
        (b"3", "f: Expected `object`, got `int`"),
        (b'{"listed": [{"name": "a"}, {"name": 1}]}', "f: Expected `str`, got `int` - at `$.listed[1].name`"),
    ],
)
def test_hostile_json_is_refused(content: bytes, message: str) -> None:
    assert refusal(content, format="JSON").startswith(message)


def test_a_byte_order_mark_is_no_content() -> None:
    assert decode.decode_bytes(b"\xef\xbb\xbftitle = 'a'", Outer, "f").title == "a"
    assert decode.decode_bytes(b'\xef\xbb\xbf{"title": "a"}', Outer, "f", "JSON").title == "a"


def test_a_file_is_read_by_its_ending_and_within_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"title": "a"}')
    (tmp_path / "a.toml").write_text('title = "a"')
    assert decode.decode(tmp_path / "a.json", Outer) == decode.decode(tmp_path / "a.toml", Outer) == Outer("a")
    assert decode.decode(tmp_path / "b.toml", Outer, missing=b"") == Outer()
    os.mkfifo(tmp_path / "pipe.toml")
    for name, why in (
        ("b.toml", "No such file or directory"),
        ("pipe.toml", "pipe.toml is not a regular file"),
        ("a.toml", "larger than 5 bytes"),
    ):
        with pytest.raises(UsageError) as raised:
            decode.decode(tmp_path / name, Outer, where="--it=a", limit=5)
        assert str(raised.value) == f"--it=a: cannot be read: {why}"


def test_a_value_that_is_given_is_no_key_of_a_file() -> None:
    assert decode.decode_bytes(b"number = 1", Inner, "f", given={"name": "x"}) == Inner("x", 1)
    with pytest.raises(UsageError, match=r"^f, line 1: no key 'name'; there are: number, words\. Did you"):
        decode.decode_bytes(b"name = 'y'", Inner, "f", given={"name": "x"})


def test_an_error_is_of_the_kind_that_the_caller_names_and_ends_with_its_advice() -> None:
    with pytest.raises(DataError, match=r"^f: \[t\]: Expected `str`, got `int` - at `\$.name`; see there$"):
        decode.converted({"name": 1}, Inner, "f", error=DataError, table=("t",), hint="; see there")
    with pytest.raises(DataError, match=r"^f: not JSON: .*; see there$"):
        decode.parsed(b"{", "f", "JSON", DataError, "; see there")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("modle", "; there are: model, limit, technique, samples. Did you mean 'model'?"),
        ("LIMIT", "; there are: model, limit, technique, samples. Did you mean 'limit'?"),
        ("tech", "; there are: model, limit, technique, samples. Did you mean 'technique'?"),
        ("zz", "; there are: model, limit, technique, samples."),
        ("", "; there are: model, limit, technique, samples."),
    ],
)
def test_the_nearest_name_is_suggested(name: str, said: str) -> None:
    assert decode.did_you_mean(name, NAMES) == said


def test_a_long_list_is_told_where_nothing_is_near() -> None:
    many = [f"name-{number}" for number in range(200)]
    assert decode.did_you_mean("name-7x", many) == ". Did you mean 'name-7'?"
    assert decode.did_you_mean("zzz", many, "found").startswith("; found: name-0, name-1, ")
    assert decode.did_you_mean("zzz", many).endswith(" and 100 more.")
    assert decode.did_you_mean("x", []) == "; there are: none."
    assert decode.did_you_mean("a\nb", ["a\nc"]) == "; there are: a\ufffdc. Did you mean 'a\ufffdc'?"


@given(st.sampled_from(NAMES), st.integers(0, 8), st.characters(codec="ascii", categories=["L"]))
def test_one_wrong_letter_suggests_the_name(name: str, place: int, letter: str) -> None:
    misspelt = name[:place] + letter + name[place + 1 :]
    assert decode.did_you_mean(misspelt, NAMES).endswith(f"Did you mean '{name}'?")
