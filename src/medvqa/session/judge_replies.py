"""Ask a judge about the stored answers of a run, in their order; every reply is stored at once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TypeVar

from medvqa import engine, files
from medvqa.items import Answer, Benchmark
from medvqa.records import suspects
from medvqa.session import answer_sources, uploads
from medvqa.session.judging import Judging
from medvqa.session.opening import LoadedJudge, Process
from medvqa.session.options import Options

Asked = TypeVar("Asked")
Found = TypeVar("Found")


@dataclass(slots=True)
class Replies:
    """Counts of a judge's replies, new (`asked`) and reused; `usage`: tokens and cost of the new ones."""

    asked: int = 0
    reused: int = 0
    usage: Counter[str] = field(default_factory=Counter)

    def add(self, new_replies: Sequence[Answer], reused: int) -> None:
        """Count the replies about one answer."""
        self.asked += len(new_replies)
        self.reused += reused
        for reply in new_replies:
            self.usage.update(reply.usage or {})


@contextmanager
def judge_of(
    run: Path, options: Options, judging: Judging, session: str, asked: Iterable[Benchmark], say: Callable[[str], None]
) -> Iterator[LoadedJudge]:
    """Load the judge of a run folder for the block (UsageError, Unwritable).

    `asked`: the benchmarks of the judged answers. `say` gets lines about places.
    """
    folder = run.absolute()
    named = answer_sources.of(options.answers, folder)
    reuse = uploads.reuse(named, asked)
    with files.writing(str(run)):
        suspects.bury(folder)
    process = Process(folder, session, "rescore", rescores=True, sources=named, say=say)
    for place in named.places:
        place.check(say)
    exchange = process.exchange(puts=True)
    try:
        loaded = LoadedJudge(
            judging, process, reuse=reuse, fresh=options.fresh, deadline=options.deadline, max_cost=options.max_cost
        )
        loaded.memory.exchange_by(exchange)
        exchange.start()
        try:
            yield loaded
        finally:
            loaded.close()
            exchange.close()
            for line in exchange.take_lines():
                say(line)
    finally:
        suspects.end_session(folder, complete=False)


def in_order(
    entries: Sequence[Asked],
    begin: Callable[[Asked], tuple[Asked, engine.Pending | None]],
    finish: Callable[[Asked, engine.Pending | None], tuple[Found, str]],
    ahead: int,
    replies: Replies,
    options: Options,
    *,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> Iterator[Found]:
    """Yield the value that `finish` returns for each entry, in order; fewer if judging was stopped.

    `begin` submits an entry to the judge if it needs one; `ahead` entries keep the judge busy. `finish` waits for the
    judge and returns a value, and the judge's error or "". Judging stops after `options.max_errors` errors in a row,
    once the new replies have cost `options.max_cost`, and at Ctrl-C; `say` gets the reason.
    """
    waiting: deque[tuple[Asked, engine.Pending | None]] = deque()
    left = iter(entries)
    errors = number = 0
    try:
        while True:
            while len(waiting) < ahead and (entry := next(left, None)) is not None:
                waiting.append(begin(entry))
            if not waiting:
                return
            entry, pending = waiting.popleft()
            found, failed = finish(entry, pending)
            if pending is not None and pending.ticket is not None:
                errors = errors + 1 if failed else 0
            if 0 < options.max_errors <= errors:
                say(f"medvqa: {errors} errors in a row, the last: {failed}")
                return
            if replies.usage["cost"] >= (inf if options.max_cost is None else options.max_cost):
                say(f"medvqa: judging has cost {replies.usage['cost']:.4g}")
                return
            yield found
            number += 1
            progress(number, len(entries))
    except KeyboardInterrupt:
        say("medvqa: interrupted")
