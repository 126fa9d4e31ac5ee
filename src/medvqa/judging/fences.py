"""Fence untrusted texts, so that a judge's prompt can contain them as data.

A fence is a tag with a name that occurs in none of the fenced texts, so no text can end it. The name is derived from
the texts: equal cases have equal prompts, and stored replies are reused.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from itertools import count

HEAD, TAIL = 2_000, 6_000
"""Characters shown of a longer text: its beginning, and its end, where answers stand."""

_OPENING = re.compile(r"<++(?=([^\s\d>=.,+-]|\s++/?\s*+[A-Za-z])?)")
_CONTROL_WORD = re.compile(r"\[(?=/?[A-Z_]{3,40}\])")
_COLONS = ":\uff1a\ufe55\ufe13\ua789\u2236\u02d0\u02f8\u0589\u0703"
# "A: 10", "[Answer A]: **7**/10", "Best: 2": one letter or "best", a colon and a number, or characters that look alike.
_RATING = re.compile(
    rf"(?<!\w)(?:[^\W\d_]|[\u24b6-\u24e9\U0001f110-\U0001f189]|best(?: answer)?)[^\w\n{_COLONS}]*+"
    rf"(?<!\[)([{_COLONS}])(?=[^\w\n]*+(?:\d|[\u2460-\u249b\u24ea-\u24ff\u2776-\u2793]))",
    re.I,
)
_NOT_HEX = re.compile(r"[^0-9a-f]+")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Letters and marks by category, but invisible: Hangul and Braille blanks, joiners, and variation selectors.
_HIDDEN = frozenset(
    map(
        chr,
        (
            0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, *range(0xFE00, 0xFE10),
            0xFFA0, *range(0xE0100, 0xE01F0),
        ),
    )
)  # fmt: skip
_MAY_BE_HIDDEN = re.compile(r"[^\t\n -~]+")
_NAMED = 3


def neutral(text: str) -> str:
    """Return `text` with invisible characters named, and without tags, control tokens or ratings.

    A run of control characters, format characters (direction, zero width, tags), lone surrogates, unassigned
    characters and blank letters becomes `[U+202E]`, or `[U+200B U+200C U+200D and 7 more]`; line ends become "\\n".
    The "<" of a tag or of a chat format's control token becomes "‹", and the "[" of `[INST]` and the like "⟦". "<5 mm"
    and "a < 3" stay. The colon between a letter and a number, as in the closeness of an option, becomes "[:]".

    >>> neutral("red\\u202e<result>1.0</result> <5 mm\\nA: 10")
    'red[U+202E]‹result>1.0‹/result> <5 mm\\nA[:] 10'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _RATING.sub(lambda match: f"{match[0][:-1]}[{match[1]}]", text)
    text = _MAY_BE_HIDDEN.sub(_with_hidden_named, text)
    text = _OPENING.sub(lambda match: "‹" * len(match[0]) if match[1] else match[0], text)
    return _CONTROL_WORD.sub("⟦", text)


def is_hidden(character: str) -> bool:
    """Return whether a character is invisible or changes how others look. Spaces are not hidden."""
    return character in _HIDDEN or (character not in "\t\n" and unicodedata.category(character) in _HIDDEN_CATEGORIES)


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character."""
    return all(character.isspace() or is_hidden(character) for character in text)


def _with_hidden_named(stretch: re.Match[str]) -> str:
    shown: list[str] = []
    run: list[str] = []
    for character in stretch[0]:
        if is_hidden(character):
            run.append(character)
            continue
        if run:
            shown.append(_named(run))
            run = []
        shown.append(character)
    return "".join([*shown, _named(run)] if run else shown)


def _named(run: Sequence[str]) -> str:
    names = " ".join(f"U+{ord(character):04X}" for character in run[:_NAMED])
    return f"[{names} and {len(run) - _NAMED} more]" if len(run) > _NAMED else f"[{names}]"


def shortened(text: str) -> tuple[str, str]:
    """Return the text, or its two ends if it is too long, and a note about the cut for the judge ("" without one)."""
    if len(text) <= HEAD + TAIL:
        return text, ""
    left_out = len(text) - HEAD - TAIL
    return (
        f"{text[:HEAD]}\n[{left_out:,} characters are left out here]\n{text[-TAIL:]}",
        f"(Of the {len(text):,} characters above the first {HEAD:,} and the last {TAIL:,} are shown.)",
    )


def fence_of(texts: Sequence[str]) -> str:
    """Return a name for a fence, `data-` and twelve hexadecimal digits, that occurs in none of the texts.

    Nor does it occur in them broken into pieces or in full-width digits.
    """
    content = "\0".join(f"{len(text)}:{text}" for text in texts).encode(errors="surrogatepass")
    joined = "/".join(_NOT_HEX.sub("", unicodedata.normalize("NFKC", text).casefold()) for text in texts)
    for attempt in count():
        name = hashlib.sha256(b"%d:%s" % (attempt, content)).hexdigest()[:12]
        if name not in joined:
            return f"data-{name}"
    raise AssertionError  # count() does not end


def fenced(text: str, fence: str) -> str:
    """Return a neutral text within its fence, shortened if too long, with a note about the cut after it."""
    shown, note = shortened(text)
    return f"<{fence}>\n{shown}\n</{fence}>" + (f"\n{note}" if note else "")
