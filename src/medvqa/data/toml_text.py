"""Read and write TOML: configs of models, and files that declare a benchmark."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medvqa import files
from medvqa.items import UsageError


def parsed(content: bytes, name: str) -> dict[str, Any]:
    """Return the content of a TOML file; UsageError, which begins with `name`, if it is no TOML."""
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except ValueError as error:  # a number of thousands of digits is no TOMLDecodeError
        raise UsageError(f"{name}: not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{name}: not TOML: nested too deep") from None


def read(path: Path, limit: int) -> dict[str, Any]:
    """Return the content of a TOML file; UsageError if it is invalid, OSError if unreadable or above `limit` bytes."""
    return parsed(files.read(path, limit), str(path))


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
