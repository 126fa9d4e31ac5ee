"""JSON and TOML from outside -> typed values, with errors that name the file, the place and what was expected.

Keys are strict: a key that the type does not have is an error, since a misspelt setting would do nothing. So is JSON
that parsers read differently (NaN, half a surrogate pair, two values under one key), and TOML's numbers above 64 bits.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import inspect

from medvqa import files, printing
from medvqa.items import MedVQAError, UsageError, of_data

T = TypeVar("T")
Format = Literal["TOML", "JSON"]
Place = tuple[str | int, ...]
"""The keys of tables, and the numbers of entries from 0, from the top of a file."""

MAX_BYTES = 2**16
"""Largest file of settings. Python's parser of TOML needs quadratic time for a dotted key: ten seconds at most here."""
MAX_NAME, MAX_LISTED, MAX_BESIDE = 60, 100, 24
"""Most characters of a key in a message, most names that it lists, and most if one of them is suggested."""
ERRORS = (msgspec.DecodeError, ValueError, RecursionError)
"""Exceptions of parsers for text that is damaged, not UTF-8 or nested too deep."""

_info = lru_cache(maxsize=64)(inspect.type_info)
_MAPPINGS = (inspect.StructType, inspect.DataclassType)
_PATH = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])")


def did_you_mean(name: str, names: Iterable[str], there: str = "there are", *, meant: str = "") -> str:
    """Return the end of a message about an unknown name: `; there are: model, limit. Did you mean 'model'?`.

    Letter case does not count. A long list is left out if a name is suggested: `meant`, or else the nearest.
    """
    listed, part = list(names), name.casefold()
    within = [each for each in listed if len(part) >= 4 and part in each.casefold()]
    suggested = meant or nearest(name, listed) or next(iter(within), None)
    listing = f"; {there}: {printing.some(listed, MAX_LISTED) or 'none'}"
    if suggested is None:
        return printing.line(f"{listing}.")
    return printing.line(f"{listing if 0 < len(listed) <= MAX_BESIDE else ''}. Did you mean '{suggested}'?")


def nearest(name: str, names: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the most similar of the names; None if none is near. `likeness` is the least ratio of difflib."""
    by_folded = {each.casefold(): each for each in names}
    return next((by_folded[each] for each in get_close_matches(name.casefold(), [*by_folded], 1, likeness)), None)


def shown(key: str) -> str:
    """Return a key or name from outside in quotes, for a message."""
    return f"'{printing.line(key)[:MAX_NAME]}'"


def decode(
    path: Path,
    type: type[T],
    *,
    where: str = "",
    limit: int = MAX_BYTES,
    missing: bytes | None = None,
    given: Mapping[str, Any] | None = None,
) -> T:
    """Return the content of a file as a type; `.json` is JSON, any other name TOML.

    `where` begins the messages (default: the path), `limit` is the most bytes, and `missing` the content of a file that
    does not exist; `given` is as in `converted`. UsageError, in one line, for a file that cannot be read and for
    content that is no such value.
    """
    where = where or str(path)
    format: Format = "JSON" if path.suffix.lower() == ".json" else "TOML"
    return decode_bytes(read(path, where, limit, missing), type, where, format, given=given)


def decode_bytes(
    content: bytes, type: type[T], where: str, format: Format = "TOML", *, given: Mapping[str, Any] | None = None
) -> T:
    """Return the content of a file that was read, as by `decode`."""
    value = parsed(content, where, format)
    return converted(value, type, where, given=given, text=text_of(content, where) if format == "TOML" else "")


def stored(path: Path, type: type[T], limit: int, advice: str) -> T | None:
    """Return the content of a JSON file of a run folder, None if there is no such file.

    Unknown keys are left out: other versions of the project write them. UsageError, which ends with `advice`, for a
    damaged file.
    """
    try:
        return msgspec.json.decode(files.read(path, limit), type=type)
    except FileNotFoundError:
        return None
    except (OSError, *ERRORS) as error:
        raise UsageError(printing.line(f"{path} cannot be read: {error}. {advice}")) from error


def read(path: Path, where: str, limit: int = MAX_BYTES, missing: bytes | None = None) -> bytes:
    """Return the bytes of a file; UsageError, as by `decode`, if it cannot be read."""
    try:
        return files.read(path, limit)
    except OSError as error:
        if missing is not None and isinstance(error, FileNotFoundError):
            return missing
        raise UsageError(printing.line(f"{where}: cannot be read: {error.strerror or error}")) from None


def parsed(
    content: bytes,
    where: str,
    format: Format = "TOML",
    error: type[MedVQAError] = UsageError,
    hint: str = "",
) -> Any:
    """Return the values of a document; an `error` that begins with `where` and ends with `hint` if it is damaged."""
    text = text_of(content, where, error, hint)
    try:
        value = tomllib.loads(text) if format == "TOML" else _json(text, where, error)
    except RecursionError:
        raise error(printing.line(f"{where}: not {format}: nested too deep{hint}")) from None
    except ERRORS as wrong:  # a number of thousands of digits is no TOMLDecodeError
        raise error(printing.line(f"{where}: not {format}: {wrong}{hint}")) from None
    if format == "TOML" and (place := _huge(value)) is not None:
        problem = f"{dotted(place)[1:]}: a whole number of more than 64 bits"
        raise error(printing.line(f"{where}{at_line(text, place)}: {problem}{hint}"))
    return value


def text_of(content: bytes, where: str, error: type[MedVQAError] = UsageError, hint: str = "") -> str:
    """Return the text of a file without a byte order mark; an `error` if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = content.count(b"\n", 0, wrong.start) + 1
        raise error(printing.line(f"{where} line {line}: not UTF-8: {wrong.reason}{hint}")) from None


def once(members: Sequence[tuple[str, Any]], where: str, error: type[MedVQAError]) -> dict[str, Any]:
    """Return the members of a JSON object; an `error`, which begins with `where`, for a key that occurs twice."""
    members_by_key = dict(members)
    if len(members_by_key) < len(members):
        key, _ = Counter(key for key, _ in members).most_common(1)[0]
        raise error(f"{where}: the key {of_data(repr(key))} occurs twice")
    return members_by_key


def converted(
    value: Any,
    type: type[T],
    where: str,
    *,
    error: type[MedVQAError] = UsageError,
    given: Mapping[str, Any] | None = None,
    table: Place = (),
    text: str = "",
    hint: str = "",
) -> T:
    """Return parsed values as a type; an `error` in one line that begins with `where` if they are none.

    `given` has values of fields that a file cannot have, such as its own name. `table` is the place of the values in
    the file. With the `text` of a TOML file, messages name the line; they end with `hint`.
    """

    def wrong(place: Place, problem: str) -> MedVQAError:
        return error(printing.line(f"{where}{at_line(text, place)}: {problem}{hint}"))

    within = f"{_header(table)}: " if table else ""
    try:
        info = _info(cast(Any, type))
        if given is not None and isinstance(info, _MAPPINGS):
            info = msgspec.structs.replace(
                info, fields=tuple(field for field in info.fields if field.encode_name not in given)
            )
        if (found := _unknown(value, info, table)) is not None:
            raise wrong(*found)
        if given is not None and isinstance(value, Mapping):
            value = {**value, **given}
        return msgspec.convert(value, type)
    except msgspec.ValidationError as problem:
        place, message = located(problem, value, type)
        at = f" - at `${dotted(place)}`" if place else ""
        raise wrong((*table, *place), f"{within}{message}{at}") from None
    except RecursionError:
        raise wrong(table, f"{within}nested too deep") from None


def at_line(text: str, place: Place) -> str:
    """Return `, line 3` for a message about a key in the text of a TOML file, or else about its table; "" without one.

    `place` is a key, or a table, its number if there are several, and a key.
    """
    keys = [step for step in place if isinstance(step, str)]
    table, key = keys[:2] if len(keys) > 1 else ("", *keys, "")[:2]
    number = next((step for step in place if isinstance(step, int)), 0)
    inside, top, seen, found = table == "", True, -1, 0
    for count, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*[\"']?([\w-]+)", line):
            if not table and header[1] == key:
                return f", line {count}"
            top = False
            seen += header[1] == table
            inside = header[1] == table and seen == number
            found = count if inside else found
        elif (name := key if inside else table if top else "") and re.match(
            rf"\s*[\"']?{re.escape(name)}[\"']?\s*[.=]", line
        ):
            return f", line {count}"
    return f", line {found}" if found else ""


def _json(text: str, where: str, error: type[MedVQAError]) -> Any:
    # A plain parse keeps the last of several values under one key and says nothing; the other parser is stricter.
    value = json.loads(text, object_pairs_hook=lambda members: once(members, where, error))
    msgspec.json.decode(text)
    return value


def _huge(value: object) -> Place | None:
    """Return the place of a whole number above 64 bits. Keys with dots nest deeper than a recursion can follow."""
    inside: list[tuple[Any, object]] = [(None, value)]
    while inside:
        link, value = inside.pop()
        if isinstance(value, Mapping | list):
            inner = value.items() if isinstance(value, Mapping) else enumerate(value)
            inside += [((link, step), each) for step, each in inner if isinstance(each, Mapping | list | int)]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            steps = []
            while link is not None:
                link, step = link
                steps.append(step)
            return tuple(steps[::-1])
    return None


def _unknown(value: object, info: inspect.Type, place: Place, *, alone: bool = True) -> tuple[Place, str] | None:
    """Return place and description of a key that a type does not have, and of a value where a table is expected.

    `alone`: no other type is allowed here.
    """
    inner: Iterable[tuple[str | int, object, inspect.Type]] = ()
    if isinstance(info, inspect.UnionType):
        alone = sum(not isinstance(each, inspect.NoneType) for each in info.types) == 1 and value is not None
        return next(filter(None, (_unknown(value, each, place, alone=alone) for each in info.types)), None)
    if isinstance(info, inspect.LiteralType) and isinstance(value, str) and value not in info.values and alone:
        names = did_you_mean(value, map(str, info.values))
        return place, f"{dotted(place)[1:]}: Invalid enum value {shown(value)}{names}"
    if isinstance(info, _MAPPINGS):
        if not isinstance(value, Mapping):
            return (place, f"{_header(place)}: a table is needed, not {value!r:.60}") if alone and place else None
        fields = {field.encode_name: field.type for field in info.fields}
        if (found := _not_in(fields, value, place)) is not None:
            return found
        inner = ((key, each, fields[key]) for key, each in value.items())
    elif isinstance(info, inspect.DictType) and isinstance(value, Mapping):
        keys = map(str, info.key_type.values) if isinstance(info.key_type, inspect.LiteralType) else value
        if (found := _not_in(keys, value, place)) is not None:
            return found
        inner = ((key, each, info.value_type) for key, each in value.items())
    elif isinstance(info, inspect.ListType | inspect.VarTupleType) and isinstance(value, list):
        inner = ((number, each, info.item_type) for number, each in enumerate(value))
    return next(filter(None, (_unknown(each, kind, (*place, step)) for step, each, kind in inner)), None)


def _not_in(names: Iterable[str], values: Mapping[str, object], place: Place) -> tuple[Place, str] | None:
    names = list(names)
    key = next((key for key in values if key not in names), None)
    if key is None:
        return None
    within = f"{_header(place)}: " if place else ""
    return (*place, key), f"{within}no key {shown(key)}{did_you_mean(key, names)}"


def _header(place: Place) -> str:
    """Return the name of a table as TOML writes it: `[options]`, or `[[gate.floor]] number 2`."""
    name = dotted(tuple(step for step in place if isinstance(step, str)))[1:]
    numbers = [step + 1 for step in place if isinstance(step, int)]
    listed = bool(place) and isinstance(place[-1], int)
    return f"{'[' * (1 + listed)}{name}{']' * (1 + listed)}{f' number {numbers[-1]}' if numbers else ''}"


def dotted(place: Place) -> str:
    """Return a place as in `.gate.floor[1].value`."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{printing.line(step)[:MAX_NAME]}" for step in place)
    return "".join(parts)


def located(error: msgspec.ValidationError, value: Any, type: Any) -> tuple[Place, str]:
    """Return the place of an error in values that are not of a type, and what is wrong there."""
    match = _PATH.fullmatch(str(error))
    if match is None:
        return (), str(error)
    place: list[Any] = []
    inner = value
    for step in _STEP.finditer(match[2]):
        key: Any = step[1] if step[1] is not None else step[2] and int(step[2])
        if step[3] is not None:
            # For a key of a table, msgspec has three dots.
            key = next((each for each in inner if _fails_alone(value, place, each, type)), None)
        if key is None:
            break
        place.append(key)
        inner = inner[key]
    return tuple(place), match[1]


def _fails_alone(value: Any, place: Sequence[Any], key: str, type: Any) -> bool:
    """Return whether values are invalid where the table at a place has no key but this one."""
    try:
        msgspec.convert(_only(value, place, key), type)
    except msgspec.ValidationError:
        return True
    return False


def _only(value: Any, place: Sequence[Any], key: str) -> Any:
    """Return values in which the table at a place has no other key."""
    if not place:
        return {key: value[key]}
    first, *rest = place
    inner = _only(value[first], rest, key)
    return {**value, first: inner} if isinstance(value, Mapping) else [*value[:first], inner, *value[first + 1 :]]
