"""The border that answers and errors cross before anything is kept: they are checked, freed of keys, and written.

`checked` makes of what a model gave an Answer that comes back equal from JSON. `redacted` takes keys out of a text.
`encode` and `decode` are the JSON of a stored answer; a result's line uses `to_json` and `from_json` for its answer.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from math import inf, isfinite
from numbers import Real
from typing import Any

import msgspec

from medvqa.items import OPTION_TECHNIQUES, Answer, AnswerError, Prompt

ROUNDING = 0.01
"""How far above 0 a log-probability may be: models of low precision and servers that round exceed 0 a little."""
IMPOSSIBLE = "-inf"
"""What JSON has for the log-probability of an option that is impossible: JSON numbers have no infinities."""
SECRET_LENGTH = 8
"""Characters of the shortest key: what is shorter is a placeholder, such as "EMPTY" for vLLM, or a word."""
HIDDEN = "[key]"

_NAMES = tuple(field.name for field in fields(Answer))
_COUNT = "a finite number of 0 or more is expected"
_PROBABILITY = "a natural logarithm of a probability, at most 0, is expected"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Answer)
_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# --- checked ------------------------------------------------------------------------------------------------


def checked(given: Answer) -> Answer:
    """The answer as plain values that JSON gives back equal; AnswerError names the field, what it is and should be.

    What loses nothing is converted: numbers of NumPy, texts of other classes, mappings, subclasses of Answer without
    fields of their own.
    """
    if more := [field.name for field in fields(given) if field.name not in _NAMES]:
        raise AnswerError(f"{_type(given)} has fields that Answer has not and nobody keeps: {', '.join(more)}")
    answer = Answer(
        _text("text", given.text),
        None if given.option_logprobs is None else _numbers("option_logprobs", given.option_logprobs, _log_probability),
        None if given.seconds is None else _count("seconds", given.seconds),
        _text("finish", given.finish),
        None if given.usage is None else _numbers("usage", given.usage, _count),
        _text("served_by", given.served_by),
    )
    if decode(encode(answer)) != answer:
        raise AnswerError("it does not come back from JSON as it was")
    return answer


def misfit(answer: Answer, prompt: Prompt) -> str | None:
    """Why an answer could be scored by no rule: it is about other options than the prompt, or about none of them."""
    logprobs, technique = answer.option_logprobs, prompt.technique
    scores_options = technique in OPTION_TECHNIQUES
    if logprobs is None:
        told = not scores_options or answer.text or answer.finish == "refusal"
        return None if told else f"the model gave no log-probabilities, which technique '{technique}' needs"
    if unknown := [name for name in logprobs if name not in prompt.options]:
        if not (prompt.options or scores_options):
            return None
        return f"the model gave a log-probability of {unknown[0]!r}, which is none of {', '.join(prompt.options)}"
    if scores_options and logprobs and max(logprobs.values()) == -inf:
        return "every log-probability that the model gave is -inf, so that no option is the likeliest"
    return None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise AnswerError(f"{name} is of type {_type(value)}; a text is expected")
    if not is_unicode(value):
        raise AnswerError(f"{name} has half a surrogate pair, which is no Unicode text")
    return str.__str__(value)


def _numbers(name: str, value: object, number: Callable[[str, object], float]) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise AnswerError(f"{name} is of type {_type(value)}; a mapping of texts to numbers is expected")
    return {_text(f"a key of {name}", key): number(f"{name}[{key!r}]", each) for key, each in value.items()}


def _count(name: str, value: object) -> float:
    number = _number(name, value, _COUNT)
    if not (isfinite(number) and number >= 0):
        raise AnswerError(f"{name} is {number!r}; {_COUNT}")
    return number


def _log_probability(name: str, value: object) -> float:
    number = _number(name, value, _PROBABILITY)
    if not number <= ROUNDING:  # NaN is not either
        raise AnswerError(f"{name} is {number!r}; {_PROBABILITY}")
    return number


def _number(name: str, value: object, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise AnswerError(f"{name} is of type {_type(value)}; {expected}")
    try:
        number = float(value)
    except OverflowError:
        raise AnswerError(f"{name} is larger than any double; {expected}") from None
    if number != value and value == value:
        raise AnswerError(f"{name} is {value!r}; a number that a double holds is expected")
    return number


def _type(value: object) -> str:
    return type(value).__name__


def is_unicode(text: str) -> bool:
    """Whether a text can be written: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def line_of(error: BaseException) -> str:
    """What an error says, as text that can be written: half surrogate pairs (of file names) are escaped."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error of a stranger's class may fail to say what it is
        said = type(error).__name__
    return said.encode(errors="backslashreplace").decode()


# --- JSON ---------------------------------------------------------------------------------------------------


def to_json(answer: Answer) -> Answer:
    """The answer to be encoded: an impossible option has a text for its log-probability."""
    logprobs = answer.option_logprobs
    if logprobs is None or -inf not in logprobs.values():
        return answer
    told: Any = {name: IMPOSSIBLE if value == -inf else value for name, value in logprobs.items()}
    return replace(answer, option_logprobs=told)


def from_json(value: object) -> object:
    """The decoded JSON of an answer with the log-probabilities of impossible options as numbers."""
    logprobs = value.get("option_logprobs") if isinstance(value, dict) else None
    if not (isinstance(value, dict) and isinstance(logprobs, dict)):
        return value
    return {**value, "option_logprobs": {k: -inf if v == IMPOSSIBLE else v for k, v in logprobs.items()}}


def encode(answer: Answer) -> bytes:
    """An answer as JSON."""
    return _encoder.encode(to_json(answer))


def decode(content: bytes) -> Answer:
    """The answer of JSON. AnswerError when it is none, or one that would not be let in today."""
    try:
        if f'"{IMPOSSIBLE}"'.encode() in content:
            answer = msgspec.convert(from_json(msgspec.json.decode(content)), Answer)
        else:
            answer = _decoder.decode(content)
    except _JSON_ERRORS as error:
        raise AnswerError(f"no answer: {error}") from None
    if answer.seconds is not None:
        _count("seconds", answer.seconds)
    for name, value in (answer.usage or {}).items():
        _count(f"usage[{name!r}]", value)
    for name, value in (answer.option_logprobs or {}).items():
        _log_probability(f"option_logprobs[{name!r}]", value)
    return answer


# --- keys ---------------------------------------------------------------------------------------------------


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text with `[key]` where one of the secrets is, as it is or in another form.

    Found are letters of either case, white space and escaped line ends in between, escapes of JSON, URLs and HTML,
    base64 (alone, or within something longer) and hexadecimal digits. Secrets of under eight characters are words.
    """
    pattern = _pattern(frozenset(secrets))
    return text if pattern is None else pattern.sub(HIDDEN, text)


def without_secrets(answer: Answer, secrets: Iterable[str]) -> Answer:
    """The answer with all its texts redacted, and the names of what it counts."""
    if _pattern(frozenset(secrets)) is None:
        return answer
    content = {name: redacted_value(getattr(answer, name), secrets) for name in _NAMES}
    return Answer(**content)


def redacted_value(value: Any, secrets: Iterable[str]) -> Any:
    """A JSON value with all its texts redacted, names too; the value itself where there is no key."""
    if _pattern(frozenset(secrets)) is None:
        return value
    if isinstance(value, str):
        return redacted(value, secrets)
    if isinstance(value, Mapping):
        return {redacted_value(name, secrets): redacted_value(each, secrets) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_value(each, secrets) for each in value]
    return value


@lru_cache(maxsize=64)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    long = sorted(secret for secret in secrets if len(secret) >= SECRET_LENGTH)
    return re.compile("|".join(form for secret in long for form in _forms(secret)), re.IGNORECASE) if long else None


# All repetitions are bounded, so that no text of a server takes longer than its length allows.
_GAP = r"(?:\s|\\{1,4}[nr]|=\r?\n){0,40}"


def _forms(secret: str) -> list[str]:
    """Regular expressions of the ways in which a secret may be written."""
    content = secret.encode()
    found = [_GAP.join(_character(character) for character in secret)]
    for shift in range(3):
        # In base64 the first and last characters depend on what stands beside the key.
        text = base64.b64encode(b"\0" * shift + content).decode().rstrip("=")
        begin, end = (0, 2, 3)[shift], len(text) - ((len(content) + shift) % 3 > 0)
        inner = _GAP.join(_base64(character) for character in text[begin:end])
        found.append(rf"{inner}[A-Za-z0-9+/_-]{{0,3}}={{0,2}}")
    found.append(r"[\s:\\x]{0,4}".join(f"{byte:02x}" for byte in content))
    return found


def _base64(character: str) -> str:
    return {"+": "(?:[+-]|%2b)", "/": r"(?:\\{0,4}[/_]|%2f)"}.get(character, character)


def _character(character: str) -> str:
    """One character as it is, or as JSON, a URL or HTML escapes it."""
    code = ord(character)
    ways = {
        rf"\\{{0,4}}{re.escape(character)}",
        rf"\\{{1,4}}u{code:04x}",
        rf"&#0{{0,4}}{code};",
        rf"&#x0{{0,4}}{code:x};",
        re.escape(html.escape(character)),
        _percent(character),
    }
    if character == " ":
        ways.add(r"\+")
    return f"(?:{'|'.join(sorted(ways))})"


def _percent(character: str) -> str:
    """A character as a URL may escape it, also once more: `%2F`, `%252F`."""
    return "".join(f"%(?:25){{0,3}}{byte:02x}" for byte in character.encode())
