"""Processes of medvqa that serve another one: their start, and what each sets up.

A child gets requests by its input and replies by its output. Nothing that it says is trusted: it reads hostile files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, BinaryIO

_START = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); importlib.import_module(sys.argv[2]).serve()"
)


def start(
    module: str,
    *,
    errors: int | IO[bytes] = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
    isolated: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a process that runs `serve` of a module, with the import path of this one (OSError).

    `errors` gets its standard error. `environment` replaces that of this process. `isolated` ignores variables and
    files of the user that change Python.
    """
    paths = json.dumps([os.path.abspath(path) for path in sys.path])
    return subprocess.Popen(  # noqa: S603
        [sys.executable, *(["-I"] if isolated else []), "-c", _START, paths, module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        start_new_session=True,
    )


def replies() -> BinaryIO:
    """Return the output of this child for its replies; what other code prints goes nowhere."""
    output = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    return output


def limit_memory(most: int) -> None:
    """Limit the address space of this child, in bytes; a child that crashes leaves no core file."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
