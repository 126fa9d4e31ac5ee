"""Memory of large runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

Value = TypeVar("Value")
Map = TypeVar("Map", bound=Mapping[str, Any])

_ONLY_TEXTS = frozenset({str})
MOST = 2**16
"""Values that a pool holds: texts that never repeat must not fill the memory."""


class EqualValues:
    """Equal values as one object: questions of a benchmark share tags, letters and texts of options.

    Numbers that are equal are not the same in a file (0.0 and -0.0): they are shared only within a mapping.
    """

    def __init__(self) -> None:
        """Hold no value."""
        self._values: dict[Any, Any] = {}

    @property
    def hold(self) -> Callable[[Any, Any], Any]:
        """The function that returns the value held for a key, by default and from now on the second argument.

        Callers ask for it once per record: a pool that is full holds no more.
        """
        return self._values.setdefault if len(self._values) < MOST else self._values.get

    def one(self, text: str) -> str:
        """Return the text that stands for all equal ones."""
        held: str = self.hold(text, text)
        return held

    def mapping(self, mapping: Map) -> Map:
        """Return the mapping that stands for all that are written alike; its values are of JSON."""
        # No tuple of texts is such a key.
        held: Map = self.hold((dict, repr(mapping)), mapping)
        return held

    def tags(self, tags: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        """Return the mapping for all with equal tuples of texts in the same order, which are shared too."""
        hold = self.hold
        pairs = tuple(map(hold, tags.items(), tags.items()))
        held: Mapping[str, tuple[str, ...]] | None = self._values.get((dict, pairs))
        return hold((dict, pairs), dict(pairs)) if held is None else held

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Return options with texts that equal ones share; their letters are one character, which Python shares."""
        texts = options.values()
        if type(options) is not dict or not _ONLY_TEXTS.issuperset(map(type, texts)):
            return options
        return dict(zip(options, map(self.hold, texts, texts), strict=True))


@contextmanager
def no_cycle_search() -> Iterator[None]:
    """Pause Python's search for reference cycles, and give freed memory back before and after. Also a decorator.

    For functions that make millions of objects without cycles: the search walks over all objects again and again as
    their number grows, and takes two fifths of the time in which ten runs of 26,000 questions are read and compared.
    The first search after a pause walks over all new ones, so one long pause is better than several.
    """
    pauses = gc.isenabled()
    gc.disable()
    _trim()()
    try:
        yield
    finally:
        if pauses:
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
