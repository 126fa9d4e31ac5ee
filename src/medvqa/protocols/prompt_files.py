"""A prompt in a file of the user's own: a text, or a TOML with settings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medvqa import files, printing
from medvqa.items import KINDS, OPTION_TECHNIQUES, ORDERS, TECHNIQUES, Kind, Technique, UsageError
from medvqa.protocols.naming import is_name
from medvqa.protocols.prompts import FIELDS_HELP, SHOWING, Template, Templates, wrong_field

SUFFIXES = (".txt", ".toml")
MAX_BYTES = 2**16
"""Largest file of a prompt."""
OPTION = "{letter}. {text}\n"
"""One line of {options}, unless the file has another."""

_OPTION_FIELDS = re.compile(r"\{\{|\}\}|\{(letter|text)\}|[{}]")
_TURN_FIELDS = re.compile(r"\{\{|\}\}|\{(first|last)\}|[{}]")
_TYPES: Mapping[str, type] = {"text": str, "option": str, "system": str, "order": str, "max_tokens": int, "then": list}
_KINDS: Mapping[type, str] = {str: "a text", int: "a number", list: "a list of texts"}


def is_file(typed: str) -> bool:
    """Whether a value of --prompt names a file: it has a folder, or one of `SUFFIXES`."""
    return "/" in typed or typed.endswith(SUFFIXES)


def read(path: Path, shown: str = "") -> Templates:
    """Read a prompt; its name is the file's, without suffix. `shown` names the file in errors (default: the path).

    UsageError, with file and line, for an unreadable file, an unknown key, and a text with other fields than {question}
    and {options}.
    """
    where = printing.line(shown or str(path))
    name = path.stem
    if not is_name(name):
        raise UsageError(
            f"--prompt={where}: the file's name names the prompt: rename the file to letters, digits, '.', '-' and "
            "'_', and not to a number, 'all', 'default' or a rotation such as r1"
        )
    try:
        written = files.read(path, MAX_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"--prompt={where}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--prompt={where}: no UTF-8 text: {error.reason} at byte {error.start}") from None
    if path.suffix != ".toml":
        # Editors end a file with a line end.
        return _Reader(where, name, written).templates({"text": written.removesuffix("\n")})
    try:
        settings = tomllib.loads(written)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--prompt={where}: not TOML: {error}") from None
    return _Reader(where, name, written).templates(settings)


class _Reader:
    """Makes the templates of one file; `written` is its content, to find lines for errors."""

    def __init__(self, where: str, name: str, written: str) -> None:
        self._where, self._name, self._written = where, name, written

    def templates(self, settings: Mapping[str, Any]) -> Templates:
        """Return the templates. Keys outside of a table hold for MC and GD, and are defaults of every table."""
        tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
        common = {name: value for name, value in settings.items() if name not in tables}
        known = (*TECHNIQUES, *KINDS)
        for name in tables:
            if name not in known:
                raise self._error(f"[{name}]", f"no table [{name}]; there are: {', '.join(known)}")
        self._check(common)
        by_technique: dict[Technique, Template] = {}
        for technique in TECHNIQUES:
            # Without a table of their own, PS and FF have no text: they must show no options.
            if technique in tables or (technique in SHOWING and "text" in common):
                by_technique[technique] = self._template(technique, common, tables.get(technique, {}))
        by_kind: dict[Kind, Template] = {
            kind: self._template(kind, common, tables[kind]) for kind in KINDS if kind in tables
        }
        if not by_technique:
            raise self._error("", 'no prompt; write text = "..."')
        return Templates(self._name, by_technique, by_kind)

    def _template(self, part: str, common: Mapping[str, Any], table: Mapping[str, Any]) -> Template:
        self._check(table)
        shown = part not in TECHNIQUES or part in SHOWING
        if "text" not in (common if shown else {}) and "text" not in table:
            raise self._error(f"[{part}]", f'[{part}] has no text; write text = "..."')
        merged = {**common, **table}
        text = str(merged["text"])
        if (wrong := wrong_field(text)) is not None:
            offset, problem = wrong
            start = self._written.find(text)
            # With escapes, the file does not hold the text itself.
            place = self._line_start("text") if start < 0 else start + offset
            raise self._at(place, f"the text {problem}. {FIELDS_HELP}")
        option = merged.get("option", OPTION)
        if option.endswith("\n"):
            text = text.replace("{options}\n", "{options}")
        if "option" in table and "{options}" not in text:
            raise self._error("option", "the text has no field {options}, so that `option` has no effect")
        return Template(
            f"{self._name}/{part}",
            text,
            option,
            merged.get("system", ""),
            None if part in OPTION_TECHNIQUES else merged.get("max_tokens"),
            merged.get("order", ORDERS[0]),
            () if part in OPTION_TECHNIQUES else tuple(merged.get("then", ())),
        )

    def _check(self, settings: Mapping[str, Any]) -> None:
        """UsageError for an unknown key or a value of a wrong type."""
        for name, value in settings.items():
            if name not in _TYPES:
                raise self._error(name, f"no key '{name}'; there are: {', '.join(_TYPES)}")
            if not isinstance(value, _TYPES[name]) or isinstance(value, bool):
                raise self._error(name, f"{name} is {value!r:.60}; expected: {_KINDS[_TYPES[name]]}")
        if "max_tokens" in settings and settings["max_tokens"] < 0:
            raise self._error("max_tokens", f"max_tokens is {settings['max_tokens']}; expected: 0 (no limit) or more")
        if "order" in settings and settings["order"] not in ORDERS:
            raise self._error("order", f"order is {settings['order']!r:.60}; there are: {', '.join(ORDERS)}")
        for text in settings.get("then", ()):
            if not isinstance(text, str):
                raise self._error("then", f"then holds {text!r:.60}; expected: {_KINDS[list]}")
            if {match[0] for match in _TURN_FIELDS.finditer(text)} & {"{", "}"}:
                raise self._error("then", "the texts of `then` may have the fields {first} and {last}, and no other")
        if "option" in settings:
            found = [match[0] for match in _OPTION_FIELDS.finditer(settings["option"])]
            if {"{", "}"} & set(found) or "{text}" not in found:
                raise self._error("option", "option needs the field {text}, may have {letter}, and no other")

    def _error(self, part: str, problem: str) -> UsageError:
        """The error, with the line of a key or table."""
        return self._at(self._line_start(part), problem)

    def _line_start(self, part: str) -> int:
        """The place of the first line that begins with a part of the file, -1 without one."""
        match = re.search(rf"^[ \t]*{re.escape(part)}", self._written, re.MULTILINE) if part else None
        return -1 if match is None else match.start()

    def _at(self, place: int, problem: str) -> UsageError:
        line = f", line {self._written.count(chr(10), 0, place) + 1}" if place >= 0 else ""
        return UsageError(f"--prompt={self._where}{line}: {problem}")
