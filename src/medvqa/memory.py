"""Memory of large runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

Value = TypeVar("Value")
Map = TypeVar("Map", bound=Mapping[str, Any])

MOST = 2**16
"""Values that a pool holds: texts that never repeat must not fill the memory."""


class Pool:
    """Equal values as one object: questions of a benchmark share tags, letters and texts of options.

    Numbers that are equal are not the same in a file (0.0 and -0.0): they are shared only within a mapping.
    """

    def __init__(self) -> None:
        """Hold no value."""
        self._values: dict[Any, Any] = {}

    def one(self, value: Value) -> Value:
        """Return the value that stands for all equal ones; texts, and tuples of texts."""
        if len(self._values) < MOST:
            return self._values.setdefault(value, value)
        return self._values.get(value, value)

    def mapping(self, mapping: Map) -> Map:
        """Return the mapping that stands for all that are written alike; its values are of JSON."""
        written = repr(mapping)
        if len(self._values) < MOST:
            return self._values.setdefault((written,), mapping)
        return self._values.get((written,), mapping)

    def tags(self, tags: Map) -> Map:
        """Return the mapping for all with equal tuples of texts in the same order, which are shared too."""
        pairs = tuple(map(self.one, tags.items()))
        if (known := self._values.get(pairs)) is None:
            known = dict(pairs)
            if len(self._values) < MOST:
                self._values[pairs] = known
        return known


@contextmanager
def no_cycle_search() -> Iterator[None]:
    """Pause Python's search for reference cycles; then give freed memory back to the system. Also a decorator.

    For functions that make millions of objects without cycles: the search walks over all objects again and again as
    their number grows, and takes two fifths of the time in which ten runs of 26,000 questions are read and compared.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _trim()()


@cache
def _trim() -> Callable[[], object]:
    """The function of the GNU C library that gives back pages between objects that are still held; others need none.

    Without it, the arrays of the measures of 26,000 questions leave 40 MB behind.
    """
    import ctypes

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda: None
    return partial(trim, 0)
