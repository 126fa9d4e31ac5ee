"""Turn errors of users' code into one line: file and line, exception, and the expected form.

Backends, benchmarks, metrics, hooks, conftest.py files and commands run within `guarded`. Their exceptions become a
`MedVQAError`, shown as its message alone; the traceback is kept for `--tb=long` and `--traceback`.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

from medvqa import answers, printing
from medvqa.items import MedVQAError, UsageError, of_data

MAX_MESSAGE = 300
"""Most characters of an exception's own message in a line."""
MAX_TRACEBACKS = 10
"""Most tracebacks that are kept, one for each line of code that failed."""

PASSING = (MedVQAError, Warning, KeyboardInterrupt, GeneratorExit)
"""Exceptions of users' code that stay as they are: messages for users, warnings raised by `-W error`, Ctrl-C."""

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_tracebacks: dict[str, str] = {}


@contextmanager
def guarded(
    what: str,
    expected: str = "",
    raises: type[MedVQAError] = UsageError,
    function: object = None,
    *,
    exits: bool = False,
) -> Iterator[None]:
    """Convert exceptions of the code within to `raises`, with a message of one line (`described`).

    PASSING exceptions stay. SystemExit does only with `exits`: after `sys.exit(0)`, a run would look successful. So it
    would after `pytest.skip()`, which is converted too. `function` is the user's function that is called.
    """
    try:
        yield
    except PASSING:
        raise
    except BaseException as error:
        if exits and isinstance(error, SystemExit):
            raise
        raise raises(described(error, what, expected, function)) from error


def described(error: BaseException, what: str, expected: str = "", function: object = None) -> str:
    """Return "WHAT: FILE:LINE: EXCEPTION: MESSAGE; expected: EXPECTED", and keep the traceback.

    MESSAGE may quote data, so it may be withheld (`withholding`); the traceback has it. FILE:LINE is `place(error)`, or
    where `function` is defined if the error was raised outside of it.
    """
    where = place(error) or place_of(function)
    message = error.msg if isinstance(error, SyntaxError) else of_data(" ".join(answers.line_of(error).split()))
    if where not in _tracebacks and len(_tracebacks) < MAX_TRACEBACKS:
        _tracebacks[where] = "".join(traceback.format_exception(error))
    parts = (what, where, type(error).__name__, printing.line(message)[:MAX_MESSAGE])
    line = ": ".join(part for part in parts if part)
    return f"{line}; expected: {expected}" if expected else line


def place_of(function: object) -> str:
    """Return FILE:LINE of a function's definition; "" for anything else."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return f"{_shown(code.co_filename)}:{code.co_firstlineno}" if isinstance(code, CodeType) else ""


def take_tracebacks() -> str:
    """Return the tracebacks kept since the last call, and forget them."""
    text = "\n".join(_tracebacks.values())
    _tracebacks.clear()
    return text


def place(error: BaseException) -> str:
    """Return FILE:LINE of the user's code where an exception came from; the path is relative inside the cwd.

    Return the innermost frame outside of this package, installed packages and the standard library. If the user's code
    is installed itself, there is no such frame: return the innermost frame of the package that was called first. ""
    if all frames are of this package or the standard library.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_shown(error.filename)}:{error.lineno}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frames = [frame for frame in frames if not (frame[0].startswith(_HERE) or _is_library(frame[0]))]
    # Code of a notebook or of `exec` has no file, but neither have some functions of packages.
    files = [frame for frame in frames if not frame[0].startswith("<")]
    user_frames = [frame for frame in files if _package(frame[0]) is None]
    first_package = [frame for frame in files if _package(frame[0]) == _package(files[0][0])]
    file, line = (user_frames or first_package or frames or [("", 0)])[-1]
    return f"{_shown(file)}:{line}" if file else ""


def _is_library(file: str) -> bool:
    """Return whether a file is of the standard library."""
    return file.startswith("<frozen ") or (file.startswith(_STDLIB) and _package(file) is None)


def _package(file: str) -> str | None:
    """Return the folder of the installed package that holds a file; None if it is not installed."""
    for folder in _PACKAGES:
        before, separator, inside = file.rpartition(folder)
        if separator:
            return before + separator + inside.split(os.sep)[0]
    return None


def _shown(file: str) -> str:
    here = os.getcwd() + os.sep
    return printing.line(file.removeprefix(here))
