"""What several commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from medvqa import printing
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.session.registry import Registry

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse has no public name
"""What a command adds itself to."""


def say(text: str) -> None:
    """Print a message, as far as it is printable, on standard error."""
    print(printing.lines(text), file=sys.stderr)


def data_of(options: argparse.Namespace) -> tuple[Path | None, str]:
    """The data folder that --data or MEDVQA_DATA names, and how it was named (UsageError for an empty --data)."""
    from medvqa.session.options import data_folder

    if options.data == "":
        raise UsageError("--data: a value is empty; write --data=DIR, or leave it out")
    return data_folder(options.data, Path.cwd())


def known_from(files: Sequence[str]) -> Registry:
    """What the shipped rooms and the named files offer (UsageError)."""
    from medvqa.session.registry import Registry

    # The last one named comes first, as with hooks of pytest.
    return Registry.of([_module(Path(name)) for name in reversed(files)])


def _module(path: Path) -> ModuleType:
    spec = util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"--plugin={path}: no such Python file")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
