"""Text from outside made printable: for a terminal, and for the log of a CI that reads commands in it.

Answers, file names, cells, messages of servers and run folders may hold anything. Whatever leaves the program as text
passes through `lines` or `line` where it is written, not where it is made.
"""

from __future__ import annotations

import errno
import os
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

MARK = "\ufffd"
"""Stands for a character that is not shown."""

_COMMAND = re.compile(r"^([^\S\n]*)::", re.MULTILINE)
"""A line that GitHub's runner takes for a command: it ignores blanks before the colons."""

_BRACKET = re.compile(r"#(?=#\w*\[)")
"""`##[error]`, `##vso[...]` and `##teamcity[...]` are commands wherever they stand in a line."""

_STYLE = re.compile("\x1b\\[(?:(?!0*8[;m])[0-9]+(?:;(?!0*8[;m])[0-9]+)*)?m")
"""What sets colour and weight on a terminal, but for 8, which hides text."""

_MOVE = re.compile(f"((?:{_STYLE.pattern})*)\r((?:\x1b\\[[0-2]?K)?)")
"""How a line is begun anew, and erased; pytest writes it only at the start of what it writes."""


def line(text: str) -> str:
    """Return a text as one line; controls, line ends and invisible characters become U+FFFD."""
    return _plain(text) if text.isprintable() else _plain("".join(map(_shown, text)))


def lines(text: str) -> str:
    """Return a text with its line ends and tabs; other controls and invisible characters become U+FFFD.

    A backslash stands before what a CI would take for a command. Doing it twice changes nothing.
    """
    if not text.isprintable():
        text = "".join(c if c in "\n\t" else _shown(c) for c in text.replace("\r\n", "\n"))
    return _COMMAND.sub(r"\1\\::", _plain(text))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if unicodedata.category(character) == "Zs" else MARK


def _plain(text: str) -> str:
    return _BRACKET.sub(r"#\\", text) if "##" in text else text


@contextmanager
def printable_warnings() -> Iterator[None]:
    """Make warnings printable; they name columns and values of data."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda *parts, **more: lines(before(*parts, **more))
    try:
        yield
    finally:
        warnings.formatwarning = before


class PrintableStream:
    """A stream that makes what is written to it printable, for writers who are not ours, such as pytest's reporter.

    With `terminal`, colours pass, and a line may be begun anew.
    """

    def __init__(self, stream: TextIO, *, terminal: bool) -> None:
        """Write to `stream`."""
        self._stream = stream
        self._terminal = terminal
        self._blank = True

    def write(self, text: str) -> int:
        """Write what is printable of a text; return the length of the text."""
        start = ""
        rest = text
        if self._terminal and (moved := _MOVE.match(text)):
            start, rest = moved[0], text[moved.end() :]
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
        """Write what is buffered."""
        self._pass(self._stream.flush)

    def _pass(self, write: Callable[[], object]) -> None:
        """Write; if the terminal was closed, or nobody reads the pipe any more, write to nowhere from now on."""
        try:
            write()
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EPIPE):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def _printable(self, text: str) -> str:
        made = lines(text)
        if not self._blank and made.lstrip(" \t").startswith("\\::") and not text.lstrip(" \t").startswith("\\"):
            # Within a line there are no commands.
            made = made.replace("\\::", "::", 1)
        last = made.rpartition("\n")
        if last[1] or self._blank:
            self._blank = not last[2].strip()
        return made

    def __getattr__(self, name: str) -> object:
        """Everything else is the stream's own."""
        return getattr(self._stream, name)
