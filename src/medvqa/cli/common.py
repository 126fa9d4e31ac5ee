"""What several commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from medvqa import printing
from medvqa.items import UsageError
from medvqa.session.registry import Known, gather_from

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse has no public name
"""What a command adds itself to."""


def say(text: str) -> None:
    """Print a message, as far as it is printable, on standard error."""
    print(printing.lines(text), file=sys.stderr)


def known_from(files: Sequence[str]) -> Known:
    """What the hooks bring: the shipped rooms and the files that were named."""
    return gather_from({name: _module(Path(name)) for name in files})


def _module(path: Path) -> ModuleType:
    spec = util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"--plugin={path}: no such Python file")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
