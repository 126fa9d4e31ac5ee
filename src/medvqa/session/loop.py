"""A run in one process, without pytest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from medvqa.items import MedVQAError, Query, UsageError
from medvqa.session.asker import Asker
from medvqa.session.delivery import LeftOut
from medvqa.session.ending import Ending
from medvqa.session.run import Run


class Queue:
    """Queries in their order, as the stream's lookahead."""

    def __init__(self, queries: Sequence[Query], asker: Asker) -> None:
        """`asker.stop` ends asking ahead."""
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
        return self._asker.interrupted or self._asker.stop is not None


def ask_all(
    run: Run,
    asker: Asker,
    queries: Sequence[Query],
    left_out: LeftOut | None = None,
    ending: Ending | None = None,
) -> str | None:
    """Ask every query in this process, and hand each result to the run as soon as it is known.

    Return the reason of an early stop (the asker, the run, a signal or a full disk); None if every query was asked.
    `ending` handles signals. MedVQAError and OSError if nothing could be asked. If a model cannot be made, its
    exception is the cause of the UsageError.
    """
    keys = [query.key for query in queries]
    run.select(keys, left_out or {})
    run.promise()
    asker.select(keys, left_out or {})
    ending = ending or Ending()
    try:
        try:
            try:
                asker.open(Queue(queries, asker))
            except Exception as error:
                # A model of the user's own may raise anything.
                raise UsageError(asker.stop or str(error)) from error
            if asker.problem is not None:
                raise UsageError(asker.stop or str(asker.problem)) from asker.problem
            stopped = _ask(run, asker, queries, ending)
        except KeyboardInterrupt:
            ending.interrupted = asker.interrupted = True
            raise
        finally:
            # Signals must not stop the reports; a second Ctrl-C ends the waiting for calls in flight.
            ending.begin()
            ending.waits = True
            _close(run, asker, ending)
        # Closing may set `stop`: the model cannot be closed, or answers cannot be stored.
        return asker.stop if stopped is None else stopped
    except KeyboardInterrupt as interrupt:
        ending.interrupted = True
        return str(interrupt) or "interrupted"
    finally:
        ending.waits = False


def _ask(run: Run, asker: Asker, queries: Sequence[Query], ending: Ending) -> str | None:
    for query in queries:
        ending.check()
        asker.evaluate(query)
        delivered = asker.deliver()
        try:
            stop = run.take(delivered[0]) if delivered is not None else None
        except (MedVQAError, OSError) as error:
            return f"the run folder cannot be written: {error}" if isinstance(error, OSError) else str(error)
        if asker.stop is not None or stop is not None:
            return asker.stop or stop
    return None


def _close(run: Run, asker: Asker, ending: Ending) -> None:
    """Check the model of reused answers, then close it."""
    try:
        # The answers are on disk: a run that cannot be written loses only the result of this check.
        with suppress(MedVQAError, OSError):
            if (identity := asker.confirm()) is not None:
                run.take(identity)
    finally:
        asker.close(ending.calls_by())
