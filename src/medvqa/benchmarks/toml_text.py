"""Write TOML: files that declare a benchmark. `medvqa.decode` reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def written(values: Mapping[str, Any]) -> str:
    """Return a document with these values: texts, numbers, booleans, and lists and tables of them.

    Tables follow the other values; a table within a table stands on one line.
    """
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in values.items() if key not in tables]
    for name, table in tables.items():
        lines += ["", f"[{_key(name)}]", *(f"{_key(key)} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    bare = key and all(sign.isascii() and (sign.isalnum() or sign in "_-") for sign in key)
    return key if bare else _text(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    raise TypeError(f"no value of TOML: {type(value).__name__}")


def _text(text: str) -> str:
    # A basic string of TOML is one of JSON, but for DEL, which it must escape.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
