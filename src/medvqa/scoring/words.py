"""Patterns that name lists of words, such as (?&answer). The lists stand in words.toml.

The notation is Perl's. A pattern is expanded and compiled when it is first used: reading the lists and compiling the
patterns of this room take a tenth of a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
"""Characters (as a regex range) of scripts without spaces between words, or between words and particles."""

_UNSPACED = re.compile(f"[{CJK}]")
_NAMED = re.compile(r"\(\?&(\w+)\)")
_BETWEEN = re.compile(r" \| |\n")


@dataclass(frozen=True, slots=True)
class WordLists:
    """The lists of words.toml by name: of whole words, of texts within words, and of folded words for comparison."""

    words: Mapping[str, str]
    pieces: Mapping[str, str]
    sets: Mapping[str, str]


@cache
def lists() -> WordLists:
    """Return the lists of words.toml."""
    # Import lazily: most answers are an option's letter alone, and need no list.
    from medvqa import decode

    return decode.decode(Path(__file__).with_name("words.toml"), WordLists)


def entries(text: str) -> tuple[str, ...]:
    """Return the entries of a list."""
    return tuple(filter(None, _BETWEEN.split(text)))


@cache
def word_set(name: str) -> frozenset[str]:
    """Return a set of folded words."""
    return frozenset(entries(lists().sets[name]))


@cache
def any_of(name: str) -> str:
    """Return a pattern of the entries of a list; words of scripts without spaces get no word borders."""
    if (pieces := lists().pieces.get(name)) is not None:
        return expanded(f"(?:{'|'.join(entries(pieces))})")
    words = entries(lists().words[name])
    unspaced = [word for word in words if _UNSPACED.search(word)]
    spaced = "|".join(word for word in words if word not in unspaced)
    return expanded("|".join([rf"(?:\b(?:{spaced})\b", *unspaced]) + ")")


def expanded(pattern: str) -> str:
    """Return a pattern in which each (?&list) is the pattern of the list."""
    return _NAMED.sub(lambda match: any_of(match[1]), pattern)


class _Pattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return a method of the compiled pattern, and keep it."""
        method = getattr(re.compile(expanded(self._pattern), self._flags), name)
        setattr(self, name, method)
        return method


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern, which may name lists, for the methods of `re.compile`'s."""
    return cast("re.Pattern[str]", _Pattern(pattern, flags))
