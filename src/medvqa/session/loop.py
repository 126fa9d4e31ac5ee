"""A run in one process, without pytest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from medvqa.items import Query
from medvqa.session.asker import Asker
from medvqa.session.run import Run


class Queue:
    """Queries in their order, as the stream's lookahead."""

    def __init__(self, queries: Sequence[Query], asker: Asker) -> None:
        """`asker` says when nothing more is asked ahead."""
        self._left: Iterator[Query] = iter(queries)
        self._count = len(queries)
        self._asker = asker

    def take(self, count: int) -> Sequence[Query]:
        """The next queries, at most `count`."""
        taken = list(islice(self._left, count))
        self._count -= len(taken)
        return taken

    def exhausted(self) -> bool:
        """Whether no query is left."""
        return self._count == 0

    def stopped(self) -> bool:
        """Whether the run is about to end."""
        return self._asker.stop is not None


def ask_all(run: Run, asker: Asker, queries: Sequence[Query]) -> None:
    """Ask every query in this process, and hand each result to the run as soon as it is known.

    Stop early if the asker or the run says so. MedVQAError and OSError if results cannot be written.
    """
    keys = [query.key for query in queries]
    run.select(keys, {})
    run.promise()
    asker.select(keys, {})
    asker.open(Queue(queries, asker))
    try:
        for query in queries:
            asker.evaluate(query)
            asker.forget(query)
            made = asker.deliver()
            stop = run.take(made[0]) if made is not None else None
            if stop is not None or asker.stop is not None:
                return
        if (last := asker.confirm()) is not None:
            run.take(last)
    finally:
        asker.close()
