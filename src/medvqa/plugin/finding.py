"""Find the package's modules before pytest does, which would rewrite the assertions of a plugin's whole package.

There are none. For them, pytest parses every module: at each start, where no bytecode is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PACKAGE = "medvqa."
TESTS = "medvqa.suite."
"""The shipped tests, whose assertions pytest rewrites."""


class OwnFinder:
    """Finds modules of the package."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module of the package, None for others and for tests."""
        if name.startswith(PACKAGE) and not name.startswith(TESTS):
            return PathFinder.find_spec(name, path, target)
        return None


if OwnFinder not in sys.meta_path:
    sys.meta_path.insert(0, OwnFinder)
