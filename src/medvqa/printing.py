"""Make untrusted text printable, for a terminal and for CI logs that interpret commands.

Answers, file names, cells, server messages and run folders may contain anything. Text passes through `lines` or `line`
at the point of output, not where it is composed.
"""

from __future__ import annotations

import errno
import html
import os
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

MARK = "\ufffd"
"""Replaces a character that is not shown."""

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
"""Characters without width that Python calls printable. U+FE0E and U+FE0F are left: they belong to emoji."""

_COMMAND = re.compile(r"^([^\S\n]*)::", re.MULTILINE)
"""A line that GitHub's runner executes; it ignores blanks before the colons."""

_BRACKET = re.compile(r"#(?=#\w*\[)")
"""`##[error]`, `##vso[...]` and `##teamcity[...]` are commands anywhere in a line."""

_STYLE = re.compile("\x1b\\[(?:(?!0*8[;m])[0-9]+(?:;(?!0*8[;m])[0-9]+)*)?m")
"""Terminal codes for colour and weight, except 8, which hides text."""

_MOVE = re.compile(f"((?:{_STYLE.pattern})*)\r((?:\x1b\\[[0-2]?K)?)")
"""Codes that return to the start of the line and erase it; pytest puts them first in a write."""


def line(text: str) -> str:
    """Return a text as one line; controls, line ends and invisible characters become U+FFFD."""
    return _plain(text) if _is_visible(text) else _plain("".join(map(_shown, text)))


def lines(text: str) -> str:
    """Return a text with line ends and tabs kept; other controls and invisible characters become U+FFFD.

    A backslash precedes anything that a CI would execute as a command. Idempotent.
    """
    if not _is_visible(text):
        text = "".join(c if c in "\n\t" else _shown(c) for c in text.replace("\r\n", "\n"))
    return _COMMAND.sub(r"\1\\::", _plain(text))


def clipped(text: str, width: int = 60) -> str:
    """Return a text without line ends, of at most `width` characters; a longer one ends in three dots."""
    short = " ".join(text.split())
    return short if len(short) <= width else f"{short[: width - 3]}..."


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters; the end of a longer one is an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def folded(text: str) -> str:
    """Return a text without differences of case, width and Unicode form, and without white space around it."""
    # Folding case can undo the normal form: hence twice.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def some(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first names as text, and the number of the others: `a, b and 3 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"


_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~])")

_LIVE = (
    # GitHub looks for these in the text that Markdown leaves, so that a backslash or an entity does not stop it.
    (re.compile("@"), "\uff20"),
    (re.compile(r"#(?=\d)"), "\uff03"),
    (re.compile(r"\bGH-(?=\d)", re.IGNORECASE), "GH\u2011"),
    (re.compile("://"), "[:]//"),
    (re.compile(r"\bwww\.", re.IGNORECASE), "www[.]"),
)
"""Patterns that GitHub turns into links or mentions without markup, and their replacements."""


def markdown(text: str) -> str:
    """Return a text that Markdown shows literally: no markup, link, mention, HTML, control character or line break."""
    plain = line(" ".join(text.split()))
    for live, dead in _LIVE:
        plain = live.sub(dead, plain)
    return _MARKUP.sub(r"\\\1", html.escape(plain, quote=False))


_TEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # In the encoding OT1, which LaTeX begins with, \textquotedbl does not exist.
    '"': "''",
    "\u2013": "--",
    "\u2212": "$-$",
    "\u2264": r"$\le$",
    "\u2265": r"$\ge$",
    MARK: "?",
    "\u03b1": r"$\alpha$",
    "\u03b2": r"$\beta$",
    "\u03ba": r"$\kappa$",
    "\u03bc": r"$\mu$",
    # At the start of a row, a bracket after the line end before it would be its argument.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}
"""Characters that LaTeX does not print as they are."""

_TEX_KNOWN = re.compile(
    "[ -~\u00a0-\u017f\u2014\u2018\u2019\u201c\u201d\u2020-\u2022\u2026\u20ac\u2190-\u2193]"
    "(?<![«»ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ])"
)
"""Characters that pdflatex prints without a further package; any other one is an error there."""


def latex(text: str) -> str:
    """Return a text that LaTeX prints literally, on one line. A character that pdflatex lacks becomes U+6A21."""

    def typeset(character: str) -> str:
        shown = _TEX.get(character, character)
        return shown if len(shown) > 1 or _TEX_KNOWN.match(shown) else f"U+{ord(character):04X}"

    return "".join(map(typeset, unicodedata.normalize("NFC", line(" ".join(text.split())))))


MAX_CELL = 32_767
"""Characters of a spreadsheet's cell."""

FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")
"""First characters that make a text a formula in a spreadsheet, or that it skips (OWASP, CSV Injection)."""

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that no file of a spreadsheet may hold."""


def cell(text: str) -> str:
    """Return a text for a cell of a spreadsheet: without control characters, cut at its start if it is too long.

    A response ends with the final answer.
    """
    return _ILLEGAL.sub("", text)[-MAX_CELL:]


def inert(text: str) -> str:
    """Return a text for a CSV file: as `cell`, and never a formula."""
    # Cut first: without its start, a text may look like a formula.
    cleaned = cell(text)
    # White space before a formula counts for nothing, and may be such a start itself.
    runs = any(begin.startswith(FORMULA_STARTS) for begin in (cleaned.lstrip(" "), cleaned.lstrip()))
    return f"'{cleaned[-MAX_CELL + 1 :]}" if runs else cleaned


def _is_visible(text: str) -> bool:
    return text.isprintable() and (text.isascii() or _INVISIBLE.search(text) is None)


def _shown(character: str) -> str:
    if _is_visible(character):
        return character
    return " " if unicodedata.category(character) == "Zs" else MARK


def _plain(text: str) -> str:
    return _BRACKET.sub(r"#\\", text) if "##" in text else text


def to_stderr(text: str) -> None:
    """Write to standard error, if it can be written: a reader that has gone (`2>&1 | head`) must not end a run."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


@contextmanager
def printable_warnings() -> Iterator[None]:
    """Make warnings printable within the block: they quote columns and values of untrusted data.

    Our own are about a user's data: one line, without the place in the code.
    """
    before = warnings.formatwarning

    def printable(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
        if category.__module__.partition(".")[0] == __name__.partition(".")[0]:
            return f"! {line(str(message))}\n"
        return lines(before(message, category, *where, **more))

    warnings.formatwarning = printable
    try:
        yield
    finally:
        warnings.formatwarning = before


class PrintableStream:
    """A stream that makes written text printable, for foreign writers such as pytest's reporter.

    With `terminal`, colours and a return to the start of the line pass.
    """

    def __init__(self, stream: TextIO, *, terminal: bool) -> None:
        """Write to `stream`."""
        self._stream = stream
        self._terminal = terminal
        self._blank = True

    def write(self, text: str) -> int:
        """Write a text made printable; return the length of the original."""
        start = ""
        rest = text
        if self._terminal and (move := _MOVE.match(text)):
            start, rest = move[0], text[move.end() :]
            self._blank = True
        pieces = _STYLE.split(rest) if self._terminal else [rest]
        styles = _STYLE.findall(rest) if self._terminal else []
        written = [start]
        for position, piece in enumerate(pieces):
            written.append(self._printable(piece))
            written += styles[position : position + 1]
        self._pass(lambda: self._stream.write("".join(written)))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._pass(self._stream.flush)

    def _pass(self, write: Callable[[], object]) -> None:
        """Write; if the terminal or the pipe was closed, discard this and all later output."""
        try:
            write()
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EPIPE):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def _printable(self, text: str) -> str:
        printable = lines(text)
        if not self._blank and printable.lstrip(" \t").startswith("\\::") and not text.lstrip(" \t").startswith("\\"):
            # The text continues a line, where `::` is no command.
            printable = printable.replace("\\::", "::", 1)
        _, line_end, last_line = printable.rpartition("\n")
        if line_end or self._blank:
            self._blank = not last_line.strip()
        return printable

    def __getattr__(self, name: str) -> object:
        """Delegate all other attributes to the stream."""
        return getattr(self._stream, name)
