"""A prompt in a file of the user's own: a text, or a TOML with settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from medvqa import decode, printing
from medvqa.items import KINDS, OPTION_TECHNIQUES, ORDERS, TECHNIQUES, Order, UsageError
from medvqa.protocols.naming import is_name
from medvqa.protocols.prompts import FIELDS_HELP, SHOWING, Template, Templates, wrong_field

SUFFIXES = (".txt", ".toml")
OPTION = "{letter}. {text}\n"
"""One line of {options}, unless the file has another."""

_WITHOUT_OPTIONS = frozenset(TECHNIQUES) - frozenset(SHOWING)


class _Settings(msgspec.Struct, frozen=True):
    """The settings of one prompt; see `Template`."""

    text: str = ""
    option: str = OPTION
    system: str = ""
    order: Order = ORDERS[0]
    max_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    then: tuple[str, ...] = ()


_File = msgspec.defstruct(
    "_File", [(part, _Settings | None, None) for part in (*TECHNIQUES, *KINDS)], bases=(_Settings,), frozen=True
)
"""Keys outside of a table hold for MC and GD, and are defaults of every table."""


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
    written = decode.text_of(content, where)
    if path.suffix != ".toml":
        # Editors end a file with a line end.
        return _templates(name, {"text": written.replace("\r\n", "\n").removesuffix("\n")}, where, written)
    return _templates(name, decode.parsed(content, where), where, written)


def _templates(name: str, settings: Mapping[str, Any], where: str, written: str) -> Templates:
    """Return the templates of a file with these settings; `written` is its text, to find lines for errors."""
    decode.converted(settings, _File, where, text=written)
    common = {key: value for key, value in settings.items() if not isinstance(value, dict)}

    def template(part: str) -> Template:
        own: Mapping[str, Any] = settings.get(part, {})
        values = msgspec.convert({**common, **own}, _Settings)
        if "text" not in own and (part in _WITHOUT_OPTIONS or "text" not in common):
            raise _error(where, written, (part,), f'[{part}] has no text; write text = "..."')
        for key, start, problem in _problems(values, own):
            place = (part, key) if key in own else (key,)
            raise _error(where, written, place, problem, values.text if key == "text" else "", start)
        scored = part in OPTION_TECHNIQUES
        return Template(
            f"{name}/{part}",
            values.text.replace("{options}\n", "{options}") if values.option.endswith("\n") else values.text,
            values.option,
            values.system,
            None if scored else values.max_tokens,
            values.order,
            () if scored else values.then,
        )

    # Without a table of their own, PS and FF have no text: they must show no options.
    shown = SHOWING if "text" in common else ()
    by_technique = {part: template(part) for part in TECHNIQUES if part in settings or part in shown}
    by_kind = {part: template(part) for part in KINDS if part in settings}
    if not by_technique:
        raise UsageError(f'{where}: no prompt; write text = "..."')
    return Templates(name, by_technique, by_kind)


def _problems(values: _Settings, own: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Yield the key, the place in its text, and the problem of each wrong setting; `own`: those of its table."""
    if any({"{", "}"} & set(_fields(text, "first|last")) for text in values.then):
        yield "then", 0, "the texts of `then` may have the fields {first} and {last}, and no other"
    found = _fields(values.option, "letter|text")
    if {"{", "}"} & set(found) or "{text}" not in found:
        yield "option", 0, "option needs the field {text}, may have {letter}, and no other"
    if (wrong := wrong_field(values.text)) is not None:
        yield "text", wrong[0], f"the text {wrong[1]}. {FIELDS_HELP}"
    if "option" in own and "{options}" not in values.text:
        yield "option", 0, "the text has no field {options}, so that `option` has no effect"


def _fields(text: str, known: str) -> list[str]:
    """Return the fields of a text, and single braces that belong to none of the `known` ones."""
    return [match[0] for match in re.finditer(rf"\{{\{{|\}}\}}|\{{(?:{known})\}}|[{{}}]", text)]


def _error(where: str, written: str, place: decode.Place, problem: str, text: str = "", start: int = 0) -> UsageError:
    """Return the error with its line: that of a character of a text, or else of a key or table."""
    at = written.find(text) if text else -1
    # With escapes, the file does not hold the text itself.
    line = decode.at_line(written, place) if at < 0 else f", line {written.count(chr(10), 0, at + start) + 1}"
    return UsageError(f"{where}{line}: {problem}")
