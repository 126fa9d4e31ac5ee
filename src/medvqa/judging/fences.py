"""Texts that others wrote, made fit to stand in a judge's prompt as data.

A fence is a tag with a name that occurs in none of the fenced texts: what stands inside cannot end it. The name is made
of the texts, so that equal cases have equal prompts and a stored reply is found again.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from itertools import count

HEAD, TAIL = 2_000, 6_000
"""Characters of a longer text that are shown: of its beginning, and of its end, where answers stand."""

_OPENING = re.compile(r"<++(?=([^\s\d>=.,+-]|\s++/?\s*+[A-Za-z])?)")
_CONTROL_WORD = re.compile(r"\[(?=/?[A-Z_]{3,40}\])")
_NOT_HEX = re.compile(r"[^0-9a-f]+")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Letters and marks by category, and nothing to see: Hangul and Braille blanks, joiners, and variation selectors.
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
    """Return `text` with everything visible that is not, and without what a machine might take for a tag.

    A run of control characters, format characters (direction, zero width, tags), lone surrogates, characters that are
    not assigned, and blanks that are letters becomes `[U+202E]`, or `[U+200B U+200C U+200D and 7 more]`; line ends
    become "\\n". The "<" of a tag, of a control token of a chat format or of what might be one becomes "‹", and the "["
    of `[INST]` and the like "⟦". "<5 mm" and "a < 3" stay.

    >>> neutral("red\\u202e<result>1.0</result> <5 mm")
    'red[U+202E]‹result>1.0‹/result> <5 mm'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _MAY_BE_HIDDEN.sub(_with_hidden_named, text)
    text = _OPENING.sub(lambda found: "‹" * len(found[0]) if found[1] else found[0], text)
    return _CONTROL_WORD.sub("⟦", text)


def is_hidden(character: str) -> bool:
    """Whether nothing is seen of a character, or it changes how others are seen. Spaces are not hidden."""
    return character in _HIDDEN or (character not in "\t\n" and unicodedata.category(character) in _HIDDEN_CATEGORIES)


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in a text."""
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
    """The text, or its two ends where it is too long; and what the judge is told of that, "" where nothing is cut."""
    if len(text) <= HEAD + TAIL:
        return text, ""
    left_out = len(text) - HEAD - TAIL
    return (
        f"{text[:HEAD]}\n[{left_out:,} characters are left out here]\n{text[-TAIL:]}",
        f"(Of the {len(text):,} characters above the first {HEAD:,} and the last {TAIL:,} are shown.)",
    )


def fence_of(texts: Sequence[str]) -> str:
    """A name for a fence around these texts, `data-` and twelve hexadecimal digits, that occurs in none of them.

    It does not occur in pieces either, nor in full-width digits.
    """
    content = "\0".join(f"{len(text)}:{text}" for text in texts).encode(errors="surrogatepass")
    joined = "/".join(_NOT_HEX.sub("", unicodedata.normalize("NFKC", text).casefold()) for text in texts)
    for attempt in count():
        name = hashlib.sha256(b"%d:%s" % (attempt, content)).hexdigest()[:12]
        if name not in joined:
            return f"data-{name}"
    raise AssertionError  # count() does not end


def fenced(text: str, fence: str) -> str:
    """A neutral text within its fence; what was left out of it is told behind."""
    shown, note = shortened(text)
    return f"<{fence}>\n{shown}\n</{fence}>" + (f"\n{note}" if note else "")
