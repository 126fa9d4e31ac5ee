"""A prompt in a file of the user's own: a text, or a TOML with settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from medvqa import decode, printing
from medvqa.items import KINDS, OPTION_TECHNIQUES, ORDERS, TECHNIQUES, Kind, Order, Technique, UsageError
from medvqa.protocols.naming import is_name
from medvqa.protocols.prompts import FIELDS_HELP, SHOWING, Template, Templates, wrong_field

SUFFIXES = (".txt", ".toml")
OPTION = "{letter}. {text}\n"
"""One line of {options}, unless the file has another."""

_OPTION_FIELDS = re.compile(r"\{\{|\}\}|\{(letter|text)\}|[{}]")
_TURN_FIELDS = re.compile(r"\{\{|\}\}|\{(first|last)\}|[{}]")


class _PromptTable(msgspec.Struct, frozen=True):
    """The settings of one prompt; see `Template`."""

    text: str = ""
    option: str = OPTION
    system: str = ""
    order: Order = ORDERS[0]
    max_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    then: tuple[str, ...] = ()


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
    where = f"--prompt={where}"
    content = decode.read(path, where)
    if path.suffix != ".toml":
        # Editors end a file with a line end.
        text = decode.text_of(content, where).replace("\r\n", "\n")
        return _Reader(where, name, text).templates({"text": text.removesuffix("\n")})
    settings = decode.parsed(content, where)
    return _Reader(where, name, decode.text_of(content, where)).templates(settings)


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
                raise self._error((name,), f"no table [{printing.line(name)}]{decode.did_you_mean(name, known)}")
        self._settings(common, ())
        by_technique: dict[Technique, Template] = {}
        for technique in TECHNIQUES:
            # Without a table of their own, PS and FF have no text: they must show no options.
            if technique in tables or (technique in SHOWING and "text" in common):
                by_technique[technique] = self._template(technique, common, tables.get(technique, {}))
        by_kind: dict[Kind, Template] = {
            kind: self._template(kind, common, tables[kind]) for kind in KINDS if kind in tables
        }
        if not by_technique:
            raise self._error((), 'no prompt; write text = "..."')
        return Templates(self._name, by_technique, by_kind)

    def _template(self, part: str, common: Mapping[str, Any], table: Mapping[str, Any]) -> Template:
        self._settings(table, (part,))
        shown = part not in TECHNIQUES or part in SHOWING
        if "text" not in (common if shown else {}) and "text" not in table:
            raise self._error((part,), f'[{part}] has no text; write text = "..."')
        settings = self._settings({**common, **table}, ())
        text, option = settings.text, settings.option
        if (wrong := wrong_field(text)) is not None:
            offset, problem = wrong
            start = self._written.find(text)
            # With escapes, the file does not hold the text itself.
            line = f", line {self._written.count(chr(10), 0, start + offset) + 1}"
            place = (part, "text") if "text" in table else ("text",)
            at_line = line if start >= 0 else decode.at_line(self._written, place)
            raise UsageError(f"{self._where}{at_line}: the text {problem}. {FIELDS_HELP}")
        if option.endswith("\n"):
            text = text.replace("{options}\n", "{options}")
        if "option" in table and "{options}" not in text:
            raise self._error((part, "option"), "the text has no field {options}, so that `option` has no effect")
        return Template(
            f"{self._name}/{part}",
            text,
            option,
            settings.system,
            None if part in OPTION_TECHNIQUES else settings.max_tokens,
            settings.order,
            () if part in OPTION_TECHNIQUES else settings.then,
        )

    def _settings(self, values: Mapping[str, Any], table: tuple[str, ...]) -> _PromptTable:
        """Return the settings of a table; UsageError for an unknown key or a wrong value."""
        settings = decode.converted(values, _PromptTable, self._where, table=table, text=self._written)
        for text in settings.then:
            if {match[0] for match in _TURN_FIELDS.finditer(text)} & {"{", "}"}:
                problem = "the texts of `then` may have the fields {first} and {last}, and no other"
                raise self._error((*table, "then"), problem)
        found = [match[0] for match in _OPTION_FIELDS.finditer(settings.option)]
        if {"{", "}"} & set(found) or "{text}" not in found:
            raise self._error((*table, "option"), "option needs the field {text}, may have {letter}, and no other")
        return settings

    def _error(self, place: decode.Place, problem: str) -> UsageError:
        """The error, with the line of a key or table."""
        return UsageError(f"{self._where}{decode.at_line(self._written, place)}: {problem}")
