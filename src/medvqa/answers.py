"""Checks before an answer or error is kept: values are validated, API keys removed, and the answer encoded.

`checked` turns a model's answer into an Answer that survives JSON unchanged. `redacted` removes API keys from a text.
`encode` and `decode` convert a stored answer to JSON and back; lines of results use `to_json` and `from_json`.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from math import inf, isfinite
from numbers import Real
from operator import attrgetter
from typing import Any

import msgspec

from medvqa.items import OPTION_TECHNIQUES, Answer, AnswerError, Prompt, replace

ROUNDING = 0.01
"""Tolerance of log-probabilities above 0: low precision and rounding servers exceed 0 slightly."""
IMPOSSIBLE = "-inf"
"""The log-probability of an impossible option in JSON, whose numbers have no infinities."""
SECRET_LENGTH = 8
"""Length of the shortest key, in characters; shorter ones are words or placeholders, such as "EMPTY" for vLLM."""
HIDDEN = "[key]"
MAX_THOUGHTS = 60_000
"""Characters kept of hidden thoughts: half of the beginning, half of the end."""

_NAMES = tuple(field.name for field in fields(Answer))
_LATER = ("thoughts", "earlier", "whole", "cut", "noted")
_FIRST = tuple(name for name in _NAMES if name not in (*_LATER, "confidence"))
_first, _later = attrgetter(*_FIRST), attrgetter(*_LATER)
_COUNT = "a finite number of 0 or more is expected"
_SHARE = "a number from 0 to 1 is expected"
_PROBABILITY = "a natural logarithm of a probability, at most 0, is expected"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Answer)
_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# --- checked ------------------------------------------------------------------------------------------------


def checked(answer: Answer) -> Answer:
    """Return the answer with plain values that survive JSON unchanged.

    NumPy numbers, other classes of text and mapping, and subclasses of Answer without further fields are converted
    without loss. Raises AnswerError with the field, its value, and the expected type or range.
    """
    own = () if type(answer) is Answer else fields(answer)
    if unknown := [field.name for field in own if field.name not in _NAMES]:
        raise AnswerError(f"{_type(answer)} has fields that Answer lacks, so they would be lost: {', '.join(unknown)}")
    logprobs = answer.option_logprobs
    plain = Answer(
        _text("text", answer.text),
        None if logprobs is None else _numbers("option_logprobs", logprobs, _log_probability),
        None if answer.seconds is None else _count("seconds", answer.seconds),
        _text("finish", answer.finish),
        None if answer.usage is None else _numbers("usage", answer.usage, _count),
        _text("served_by", answer.served_by),
        _text("thoughts", answer.thoughts),
        tuple(_text("earlier", reply) for reply in answer.earlier),
        _text("whole", answer.whole),
        bool(answer.cut),
        answer.noted,
        None if answer.confidence is None else _share("confidence", answer.confidence),
    )
    if decode(encode(plain)) != plain:
        raise AnswerError("it changes when written to JSON and read again")
    return plain


def misfit(answer: Answer, prompt: Prompt) -> str | None:
    """Return why no rule can score the answer: its log-probabilities do not fit the prompt's options; None if fit."""
    logprobs, technique = answer.option_logprobs, prompt.technique
    scores_options = technique in OPTION_TECHNIQUES
    if logprobs is None:
        usable = not scores_options or answer.text or answer.finish == "refusal"
        return None if usable else f"the model gave no log-probabilities, but technique '{technique}' needs them"
    if unknown := [name for name in logprobs if name not in prompt.options]:
        if not (prompt.options or scores_options):
            return None
        return f"the model gave a log-probability of {unknown[0]!r}, which is none of {', '.join(prompt.options)}"
    if scores_options and logprobs and max(logprobs.values()) == -inf:
        return "all log-probabilities from the model are -inf, so no option is the likeliest"
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
    return {_text(f"a key of {name}", key): number(f"{name}[{key!r}]", content) for key, content in value.items()}


def _count(name: str, value: object) -> float:
    number = _number(name, value, _COUNT)
    if not (isfinite(number) and number >= 0):
        raise AnswerError(f"{name} is {number!r}; {_COUNT}")
    return number


def _share(name: str, value: object) -> float:
    number = _number(name, value, _SHARE)
    if not 0 <= number <= 1:
        raise AnswerError(f"{name} is {number!r}; {_SHARE}")
    return number


def _log_probability(name: str, value: object) -> float:
    number = _number(name, value, _PROBABILITY)
    if not number <= ROUNDING:  # also refuses NaN
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
    """Return whether a text can be encoded as UTF-8; half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def line_of(error: BaseException) -> str:
    """Return the message of an error as valid Unicode: half surrogate pairs (of file names) are escaped."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - `__str__` of a user's error class may fail
        message = type(error).__name__
    return message.encode(errors="backslashreplace").decode()


_THOUGHTS = re.compile(r"\s*<(?P<tag>think|thinking)\s*>", re.I)
_THOUGHTS_END = re.compile(r"</(?:think|thinking)\s*>\s*", re.I)


def without_thoughts(answer: Answer) -> Answer:
    """Return the answer with marked thoughts at the start of its text moved to `thoughts`.

    Without an end mark all of the text is thoughts: it was cut off. Without a start mark, which may be part of a chat
    template, all before the end mark is.
    """
    text = answer.text
    start, end = _THOUGHTS.match(text), _THOUGHTS_END.search(text)
    if start is None and end is None:
        return answer if len(answer.thoughts) <= MAX_THOUGHTS else replace(answer, thoughts=shortened(answer.thoughts))
    begin = 0 if start is None else start.end()
    stop, rest = (len(text), len(text)) if end is None else (end.start(), end.end())
    thoughts = "\n\n".join(filter(None, (answer.thoughts, text[begin:stop].strip())))
    return replace(answer, text=text[rest:], thoughts=shortened(thoughts))


def shortened(thoughts: str) -> str:
    """Return thoughts with their middle left out if they are longer than MAX_THOUGHTS."""
    left_out = len(thoughts) - MAX_THOUGHTS
    if left_out <= 0:
        return thoughts
    half = MAX_THOUGHTS // 2
    return f"{thoughts[:half]}\n[{left_out:,} characters are left out here]\n{thoughts[-half:]}"


# --- JSON ---------------------------------------------------------------------------------------------------


def to_json(answer: Answer) -> Mapping[str, Any]:
    """Return the answer ready for encoding, with -inf replaced by IMPOSSIBLE.

    The fields of `_LATER` are left out if they are empty, and `confidence` if it is None, so that lines equal those of
    earlier versions.
    """
    content = dict(zip(_FIRST, _first(answer), strict=True))
    if any(later := _later(answer)):
        content.update((name, value) for name, value in zip(_LATER, later, strict=True) if value)
    if answer.confidence is not None:
        content["confidence"] = answer.confidence
    logprobs = answer.option_logprobs
    if logprobs is not None and -inf in logprobs.values():
        content["option_logprobs"] = {name: IMPOSSIBLE if v == -inf else v for name, v in logprobs.items()}
    return content


def from_json(value: object) -> object:
    """Return the decoded JSON of an answer, with IMPOSSIBLE replaced by -inf."""
    logprobs = value.get("option_logprobs") if isinstance(value, dict) else None
    if not (isinstance(value, dict) and isinstance(logprobs, dict)):
        return value
    return {**value, "option_logprobs": {k: -inf if v == IMPOSSIBLE else v for k, v in logprobs.items()}}


def encode(answer: Answer) -> bytes:
    """Return an answer as JSON."""
    return _encoder.encode(to_json(answer))


def decode(content: bytes) -> Answer:
    """Return the answer from its JSON; AnswerError if it is no answer or has values out of range."""
    try:
        if f'"{IMPOSSIBLE}"'.encode() in content:
            answer = msgspec.convert(from_json(msgspec.json.decode(content)), Answer)
        else:
            answer = _decoder.decode(content)
    except _JSON_ERRORS as error:
        raise AnswerError(f"no answer: {error}") from None
    if answer.seconds is not None:
        _count("seconds", answer.seconds)
    if answer.noted is not None and answer.noted.score is not None and not 0 <= answer.noted.score <= 1:
        raise AnswerError(f"noted.score is {answer.noted.score!r}; a number from 0 to 1 is expected")
    for name, value in (answer.usage or {}).items():
        _count(f"usage[{name!r}]", value)
    for name, value in (answer.option_logprobs or {}).items():
        _log_probability(f"option_logprobs[{name!r}]", value)
    return answer


# --- keys ---------------------------------------------------------------------------------------------------


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return the text with every secret replaced by `[key]`.

    Ignores case, and white space or escaped line ends within a secret. Also finds secrets escaped for JSON, URLs or
    HTML, in hexadecimal, and in base64, alone or within a longer text. Ignores secrets shorter than SECRET_LENGTH.
    """
    pattern = _pattern(frozenset(secrets))
    return text if pattern is None else pattern.sub(HIDDEN, text)


def without_secrets(answer: Answer, secrets: Iterable[str]) -> Answer:
    """Return the answer with all texts redacted, keys of its mappings included."""
    if _pattern(frozenset(secrets)) is None:
        return answer
    content = {name: redacted_value(getattr(answer, name), secrets) for name in _NAMES}
    return Answer(**{**content, "earlier": tuple(content["earlier"])})


def redacted_value(value: Any, secrets: Iterable[str]) -> Any:
    """Return a JSON value with all texts and keys redacted; the same object if no secret is long enough."""
    if _pattern(frozenset(secrets)) is None:
        return value
    if isinstance(value, str):
        return redacted(value, secrets)
    if isinstance(value, Mapping):
        return {redacted_value(name, secrets): redacted_value(content, secrets) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_value(element, secrets) for element in value]
    return value


@lru_cache(maxsize=64)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    long = sorted(secret for secret in secrets if len(secret) >= SECRET_LENGTH)
    return re.compile("|".join(form for secret in long for form in _forms(secret)), re.IGNORECASE) if long else None


# All repetitions are bounded, so that matching stays linear in the length of a server's text.
_GAP = r"(?:\s|\\{1,4}[nr]|=\r?\n){0,40}"


def _forms(secret: str) -> list[str]:
    """Return a regular expression for every form of a secret."""
    content = secret.encode()
    patterns = [_GAP.join(_character(character) for character in secret)]
    for shift in range(3):
        # In base64 the first and last characters depend on the neighbours of the key.
        text = base64.b64encode(b"\0" * shift + content).decode().rstrip("=")
        begin, end = (0, 2, 3)[shift], len(text) - ((len(content) + shift) % 3 > 0)
        inner = _GAP.join(_base64(character) for character in text[begin:end])
        patterns.append(rf"{inner}[A-Za-z0-9+/_-]{{0,3}}={{0,2}}")
    patterns.append(r"[\s:\\x]{0,4}".join(f"{byte:02x}" for byte in content))
    return patterns


def _base64(character: str) -> str:
    return {"+": "(?:[+-]|%2b)", "/": r"(?:\\{0,4}[/_]|%2f)"}.get(character, character)


def _character(character: str) -> str:
    """Match one character, plain or escaped for JSON, a URL or HTML."""
    code = ord(character)
    forms = {
        rf"\\{{0,4}}{re.escape(character)}",
        rf"\\{{1,4}}u{code:04x}",
        rf"&#0{{0,4}}{code};",
        rf"&#x0{{0,4}}{code:x};",
        re.escape(html.escape(character)),
        _percent(character),
    }
    if character == " ":
        forms.add(r"\+")
    return f"(?:{'|'.join(sorted(forms))})"


def _percent(character: str) -> str:
    """Match one character escaped for a URL up to four times: `%2F`, `%252F`."""
    return "".join(f"%(?:25){{0,3}}{byte:02x}" for byte in character.encode())
