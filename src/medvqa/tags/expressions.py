"""Expressions that select questions: words as with pytest's -k, and `lexicon(...)` as with -m, in one grammar.

    expression: and ("or" and)*
    and:        not ("and" not)*
    not:        "not" not | "(" expression ")" | word | "lexicon(" NAME "=" TEXT ("," NAME "=" TEXT)* ")"

A word matches whole words of a question's names, in upper or lower case: `ct` is a word of `low_dose_ct`, and none of
`oct`. The text is parsed here, and never executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from medvqa.items import UsageError
from medvqa.tags.lexicon import TagValues

MAX_LENGTH, MAX_DEPTH = 100_000, 100
"""Characters of an expression, and levels of brackets and "not" in it."""
CALL = "lexicon"
_TOKEN = re.compile(
    r"""[ \t]*(?:(?P<text>"[^"\\]*"|'[^'\\]*')|(?P<sign>[(),=])|(?P<word>[\w:+\-.\[\]\\/]+)|(?P<end>\Z))"""
)
_EDGE = r"(?!(?<=[^\W_])[^\W_])"
"""Any place but one between two letters or digits."""
_JOINTS = frozenset({"and", "or", "not"})

_Matcher = Callable[[str, Mapping[str, TagValues]], bool]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. `dimensions`: the names in its `lexicon(...)`. `words`: whether it holds words."""

    text: str
    dimensions: frozenset[str]
    words: bool
    _matches: _Matcher

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Parse an expression. UsageError shows the place that cannot be read."""
        return _ExpressionParser(text).parsed()

    def matches(self, names: Collection[str], tags: Mapping[str, TagValues]) -> bool:
        """Whether it selects a question with these names and tags (`lexicon.mark_values`)."""
        # No word holds white space, so that none matches across two names.
        return self._matches("\n".join(names).lower(), tags)


class _ExpressionParser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._dimensions: set[str] = set()
        self._words = False
        if len(text) > MAX_LENGTH:
            raise UsageError(f"--select: longer than {MAX_LENGTH:,} characters")
        self._tokens = self._scanned()
        self._kind, self._value = next(self._tokens)

    def parsed(self) -> Expression:
        matcher = self._either()
        if self._kind != "end":
            raise self._error(f"'and' or 'or' is missing before {self._value}")
        return Expression(self._text, frozenset(self._dimensions), self._words, matcher)

    def _scanned(self) -> Iterator[tuple[str, str]]:
        position = 0
        while True:
            match = _TOKEN.match(self._text, position)
            if match is None:
                self._at = position + len(self._text[position:]) - len(self._text[position:].lstrip(" \t"))
                raise self._error(_unreadable(self._text[self._at]))
            kind = match.lastgroup or "end"
            value = match[kind]
            self._at, position = match.start(kind), match.end()
            yield ("joint" if kind == "word" and value in _JOINTS else kind), value
            if kind == "end":
                return

    def _error(self, why: str) -> UsageError:
        start = max(0, self._at - 60)
        shown = self._text[start : self._at + 20]
        return UsageError(
            f"--select: {why}:\n  {shown}\n  {' ' * (self._at - start)}^\n"
            "Write words and lexicon(...) with and, or, not: --select=\"lexicon(modality='ct') and not bone\""
        )

    def _accept(self, value: str) -> bool:
        """Skip the next token if it is this sign or joint; return whether it was."""
        accepted = self._kind in ("sign", "joint") and self._value == value
        if accepted:
            self._next()
        return accepted

    def _next(self) -> str:
        value = self._value
        self._kind, self._value = next(self._tokens)
        return value

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise self._error(f"'{sign}' is expected")

    def _either(self) -> _Matcher:
        parts = [self._both()]
        while self._accept("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda names, tags: any(part(names, tags) for part in parts)

    def _both(self) -> _Matcher:
        parts = [self._negated()]
        while self._accept("and"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else lambda names, tags: all(part(names, tags) for part in parts)

    def _negated(self) -> _Matcher:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels of brackets and 'not'")
        try:
            if self._accept("not"):
                negated = self._negated()
                return lambda names, tags: not negated(names, tags)
            if self._accept("("):
                inner = self._either()
                self._expect(")")
                return inner
            return self._word()
        finally:
            self._depth -= 1

    def _word(self) -> _Matcher:
        if self._kind != "word":
            raise self._error("a word or lexicon(...) is expected")
        at, word = self._at, self._next()
        if not self._accept("("):
            self._words = True
            found = re.compile(f"{_EDGE}{re.escape(word.lower())}{_EDGE}").search
            return lambda names, tags: found(names) is not None
        if word != CALL:
            self._at = at
            raise self._error(f"{word}(...) is unknown; only {CALL}(...) takes values")
        wanted = [self._tag()]
        while self._accept(","):
            wanted.append(self._tag())
        self._expect(")")
        return lambda names, tags: all(name in tags and tags[name] == value for name, value in wanted)

    def _tag(self) -> tuple[str, str]:
        if self._kind != "word":
            raise self._error(f"{CALL}(...) takes NAME='VALUE'")
        name = self._next()
        self._expect("=")
        if self._kind != "text":
            raise self._error(f"a value in quotes is expected: {CALL}({name}='VALUE')")
        self._dimensions.add(name)
        return name, self._next()[1:-1]


def _unreadable(character: str) -> str:
    if character in "'\"":
        return f"the quote {character} has no end, or a \\ is within it"
    return f"{character!r} cannot be read here"
