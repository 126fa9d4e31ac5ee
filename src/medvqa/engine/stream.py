"""Keep a model busy ahead of the tests that wait for its answers (docs/decisions/0003-asking.md).

The tests' thread takes upcoming items and enqueues them as tickets: futures of their replies. A thread of the stream (a
lane) asks the model, batch after batch. A model has one lane, since it may keep state between calls, or as many as its
attribute `concurrency` allows. Another thread works beside the lanes: it builds prompts and arranges them into batches
before the lanes run short, and it finishes the batches of a single lane, which meanwhile computes the next one.

A callback (`follow`) gets every answer before a test does. It may submit prompts to another stream, such as a judge's,
which works while the model continues. `Traffic` is shared by all streams of a process.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from math import inf
from typing import Any, Protocol, TypeVar

from medvqa import answers as answers_room
from medvqa.backend import BATCH_SIZE, Backend, Clock, ModelFacts, timed
from medvqa.engine import arranging
from medvqa.engine.batches import Failure, Outcome, computed
from medvqa.items import Answer, AnswerError, MedVQAError, Prompt, Query, QuestionKey, UsageError
from medvqa.protocols import prompts as prompts_room

WINDOW = 4
"""Batches whose items are sorted together. More sort better, but tests then lag further behind at the end."""
PATIENCE, PATIENCE_EACH = 600.0, 60.0
"""Default deadline of a batch in seconds: a constant, and an addition per prompt."""
EQUAL = 2**32
"""Added to the sample of a prompt that equals an earlier one of the same call; more than any sample's number."""
FAREWELL = 4.0
"""Seconds for a batch in flight to finish when the session ends: the reports are then written before SIGKILL comes."""
SWITCH = 0.0005
"""Seconds after which a running thread lets another one run that waits. Python's 5 ms would pass after each call of a
model, and whenever it comes back from the device, while tests compute."""
KILLS = "the worker died twice on this question, the second time when it was asked alone"
"""The error of a question that kills the process that computes it."""
MOVES = 5
"""How often a batch is asked again although none of its questions is suspect: nodes of a cluster may come and go."""


_NUMBERS = count(1)
"""Numbers the calls of all streams of the process."""


class Lookahead(Protocol):
    """The queries ahead of the running test. Only the tests' thread calls these methods, except `stopped`."""

    def take(self, count: int) -> Sequence[Query]:
        """Return the next queries, at most `count`, starting with the running test's; none is returned twice."""
        ...

    def exhausted(self) -> bool:
        """Return whether no more queries will come."""
        ...

    def stopped(self) -> bool:
        """Return whether the session is about to end; then no prompt is sent ahead of its test."""
        ...


@dataclass(frozen=True, slots=True)
class Recollection:
    """The memory's record of a prompt: its key, and an answer, or None.

    `reused`: where the answer was stored, "" if this session asked for it. `alone`: send this prompt with no other call
    in flight.
    """

    key: str
    answer: Answer | AnswerError | None = None
    reused: str = ""
    alone: bool = False


class AnswerMemory:
    """Answers that outlast the process; this one keeps none.

    Several lanes may call it at the same time. An exception ends the stream.
    """

    def recall(self, tickets: Sequence[Ticket]) -> Sequence[Recollection]:
        """Look up built prompts before they enter a batch; return one recollection for each.

        `sample` of a ticket is the prompt's; each further one of equal prompts in one call adds `EQUAL`.
        """
        return [Recollection("")] * len(tickets)

    def begin(self, call: int, keys: Sequence[str]) -> None:
        """Note the start of a call, with a number that is unique in the process."""

    def end(self, call: int, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        """Note the end of a call and store its answers, which may be none, before any test sees them."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """An empty lookahead, for streams fed only by `submit()`; `ends` says whether the session is about to end."""

    ends: Callable[[], bool] = lambda: False

    def take(self, count: int) -> Sequence[Query]:
        """Return no queries."""
        return ()

    def exhausted(self) -> bool:
        """Return False: prompts may be submitted at any time."""
        return False

    def stopped(self) -> bool:
        """Return whether the session is about to end."""
        return self.ends()


@dataclass(slots=True)
class Reply:
    """A prompt with its digest and its answer; `reused`: where it was stored, "" if this session asked for it.

    `then` is the return value of the callback (`follow`), None without one and for errors.
    """

    prompt: Prompt
    digest: str
    answer: Answer | AnswerError
    reused: str = ""
    then: Any = None

    @property
    def new(self) -> tuple[Answer, ...]:
        """The answers that this session asked for."""
        return (self.answer,) if isinstance(self.answer, Answer) and not self.reused else ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for calls of a model.

    `deadline` is in seconds per batch (None: automatic, at least `patience` per prompt). Once answers have cost
    `budget`, no prompt is sent ahead of its test.
    """

    batch_size: int
    concurrency: int
    deadline: float | None = None
    window: int = WINDOW
    budget: float = inf
    patience: float = 0.0

    @classmethod
    def of(
        cls,
        model: Backend | ModelFacts,
        *,
        batch_size: int | None = None,
        concurrency: int | None = None,
        deadline: float | None = None,
        window: int = WINDOW,
        budget: float = inf,
    ) -> Limits:
        """Return the user's limits, else the model's `batch_size` and `concurrency`, else the defaults.

        A model with `concurrency` gets batches of 1; `patience` is its least number of seconds per prompt. Raises
        UsageError for a `concurrency` if the model declares none, and for wrong types.
        """
        declared = model.concurrency
        if concurrency is not None and declared is None:
            raise UsageError(
                f"--concurrency={concurrency}: model '{model.title}' takes one batch at a time; try --batch-size"
            )
        size = batch_size or model.batch_size or (BATCH_SIZE if declared is None else 1)
        return cls(size, concurrency or declared or 1, deadline, window, budget, model.patience)

    def seconds(self, prompts: int) -> float:
        """Return the deadline of a batch with so many prompts, in seconds."""
        if self.deadline is not None:
            return self.deadline
        return max(PATIENCE + PATIENCE_EACH * prompts, self.patience * prompts)


T = TypeVar("T")
Settled = Reply | BaseException
"""A reply, or an exception to raise again in the test that asks."""
Rest = Callable[[], Outcome] | Outcome | BaseException
"""What is left of a computed batch: a function that gives its outcome, the outcome, or an exception to raise again."""
UNBUILT = Prompt("")
"""The prompt of a query until a lane has built it."""


class Ticket(Future[Reply]):
    """One question in the stream, and the future of its reply.

    `digest` is "" until the prompt is built, `key` is None until the memory's lookup. `follow` is the callback for an
    answer. `deaths` counts the processes that were lost while they computed it, `moves` those that had not begun to.
    """

    def __init__(
        self,
        query: Query | None,
        prompt: Prompt = UNBUILT,
        sample: int = 0,
        follow: Callable[[Answer, Reply], Any] | None = None,
    ) -> None:
        """Create a ticket for a test's query, or for a prompt."""
        super().__init__()
        self.query = query
        self.prompt = prompt
        self.sample = query.sample if query is not None else sample
        self.follow = follow
        self.digest = ""
        self.key: str | None = None
        self.alone = False
        self.kind: arranging.Kind | None = None
        self.cost: arranging.Cost = (0, 0)
        self.deaths = self.moves = 0

    def reply(self, answer: Answer | AnswerError, reused: str = "") -> Settled:
        """Return the reply with the value of the callback, or the exception of the callback."""
        reply = Reply(self.prompt, self.digest, answer, reused)
        if self.follow is None or isinstance(answer, AnswerError) or self.done():
            return reply
        try:
            reply.then = self.follow(answer, reply)
        except BaseException as error:  # noqa: BLE001 - see the docstring
            return error
        return reply

    def end(self, outcome: Settled) -> None:
        """Hand the outcome to the test; without effect after a deadline has ended the ticket."""
        try:
            if isinstance(outcome, Reply):
                self.set_result(outcome)
            else:
                self.set_exception(outcome)
        except InvalidStateError:
            return


class _TicketBatch(Clock):
    """Tickets that are sent together; `halved`: they are a part of a batch that gave no answers.

    `announced` are the tickets that the model was told to prepare. In flight a batch has a `number`, and a deadline:
    `allowed` seconds, until `deadline` (monotonic).
    """

    def __init__(self, tickets: list[Ticket], *, halved: bool = False, announced: Sequence[Ticket] = ()) -> None:
        self.tickets = tickets
        self.halved = halved
        self.announced = announced
        self.number = 0
        self.allowed = self.deadline = inf

    @property
    def prompts(self) -> list[Prompt]:
        return [ticket.prompt for ticket in self.tickets]

    @property
    def load(self) -> float:
        return arranging.load([ticket.cost for ticket in self.tickets])

    def send(self, limits: Limits) -> None:
        self.number = next(_NUMBERS)
        self.allowed = limits.seconds(sum(1 + len(ticket.prompt.then) for ticket in self.tickets))
        self.begun()

    def queued(self) -> None:
        self.deadline = inf

    def begun(self) -> float:
        self.deadline = time.monotonic() + self.allowed
        return self.allowed

    @property
    def alone(self) -> bool:
        """Whether the batch must be sent with no other call in flight."""
        return any(ticket.alone for ticket in self.tickets)


class _Released:
    """Releases a lock within a block."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.release()

    def __exit__(self, *raised: object) -> None:
        self._lock.acquire()


class Traffic:
    """State shared by the streams of a process: a lock, the cost of their answers (`spent`), their calls.

    A question during which a process died is asked alone: with no call of any stream in flight.
    """

    def __init__(self, secrets: Collection[str] = ()) -> None:
        """`secrets` are removed from all answers and errors of the process's models."""
        self.lock = threading.Lock()
        self.streams: list[Stream] = []
        self.spent = 0.0
        self.secrets = secrets


class Stream:
    """Answers queries, and upcoming ones in advance, through the lanes of one model."""

    def __init__(
        self,
        model: Backend,
        prompt: Callable[[Query], Prompt],
        upcoming: Lookahead,
        limits: Limits,
        memory: AnswerMemory | None = None,
        *,
        follow: Callable[[Query, Answer, Reply], Any] | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """Create a stream; it starts threads and calls the model only after the first `answer` or `submit`.

        `follow` gets every answer to a query, stored or new, in a lane's thread before a test does; its return value is
        `Reply.then`. It may submit to another stream. Streams of one process share `traffic`.
        """
        self._model = model
        self._memory = memory or AnswerMemory()
        self._prompt = prompt
        self._upcoming = upcoming
        self._limits = limits
        self._follow = follow
        self._traffic = traffic if traffic is not None else Traffic()
        self._traffic.streams.append(self)
        self.asked_again = 0
        """Batches asked again, because the process that computed them was lost."""
        self._threads: list[threading.Thread] = []
        self._beside = threading.Thread(target=self._kept, args=(self._assist,), name="medvqa-beside", daemon=True)
        # The lock guards all following attributes; lanes wait for work, their assistant for its own, tests for tickets.
        self._lock = self._traffic.lock
        self._released = _Released(self._lock)
        # Whether the next batch is computed before the answers of the last one are stored: not if the model answers in
        # one stage, so that a killed process loses no more than one batch. Nor before it is known what answers cost.
        self._staged = type(model).compute is not Backend.compute and limits.budget == inf
        self._work = threading.Condition(self._lock)
        self._assistance = threading.Condition(self._lock)
        self._size = limits.batch_size
        self._room: arranging.Room | None = None
        self._unclaimed: dict[QuestionKey, deque[Ticket]] = {}
        self._claimable = 0
        self._exhausted = False
        self._loose: list[Ticket] = []
        self._left = 0
        self._planning = False
        self._plan: deque[_TicketBatch] = deque()
        self._calls: dict[int, _TicketBatch] = {}
        self._handed: tuple[_TicketBatch, Rest] | None = None
        self._awaited: set[Ticket] = set()
        self._ended: BaseException | None = None
        self._usual_interval = 0.0

    # --- called by the thread that runs tests -------------------------------------------------------------

    def answer(self, query: Query) -> Reply:
        """Wait for the query's answer and return it; re-raises exceptions of the prompt's construction.

        Also re-raises the exception of a memory that cannot store answers.
        """
        with self._lock:
            self._refill()
            ticket = self._claim(query)
            if ticket is None:
                ticket = self._ticket(query)
                self._plan.appendleft(_TicketBatch([ticket]))
        return self.wait(ticket)

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Wait for answers to a test's own prompts.

        Equal prompts of one call are different samples, and so are prompts that differ in `sample` alone.
        """
        counts: Counter[tuple[str, str, str, int]] = Counter()
        tickets = []
        for prompt in prompts:
            identity = (prompts_room.digest(prompt), prompt.benchmark, prompt.item, prompt.sample)
            tickets.append(Ticket(None, prompt, prompt.sample + EQUAL * counts[identity]))
            counts[identity] += 1
        with self._lock:
            self._plan.appendleft(_TicketBatch(tickets))
            self._awaited.update(tickets)
        return [self.wait(ticket).answer for ticket in tickets]

    def submit(self, prompt: Prompt, follow: Callable[[Answer, Reply], Any], sample: int = 0) -> Ticket:
        """Enqueue a prompt without waiting; any thread may call this.

        `follow` gets the answer and its reply, as the constructor's does. `sample` distinguishes answers to the same
        prompt.
        """
        ticket = Ticket(None, prompt, sample, follow)
        with self._lock:
            self._loose.append(ticket)
            self._start()
            self._work.notify()
            self._assistance.notify()
        return ticket

    def wait(self, ticket: Ticket) -> Reply:
        """Wait for the reply to a submitted prompt; raises as `answer`.

        The waiting thread keeps the deadlines, as a lane may hang in its call.
        """
        try:
            while not ticket.done():
                with self._lock:
                    if self._ended is not None:
                        raise self._ended
                    self._awaited.add(ticket)
                    self._start()
                    self._work.notify()
                    if not self._plan:
                        self._assistance.notify()
                    seconds = self._expire(ticket)
                with suppress(TimeoutError):
                    ticket.exception(seconds)
        finally:
            self._awaited.discard(ticket)
        return ticket.result()

    def _ticket(self, query: Query) -> Ticket:
        return Ticket(query, follow=None if self._follow is None else partial(self._follow, query))

    def forget(self, query: Query) -> None:
        """Drop a query's answer that its test, now ended, did not request."""
        with self._lock:
            self._claim(query)

    def close(self, end: float | None = None) -> None:
        """Start no more calls, and wait for calls in flight until `end`.

        `end` is in seconds of `time.monotonic`, by default `FAREWELL` from now. A second Ctrl-C stops the wait.
        """
        with self._lock:
            self._end(RuntimeError(f"model '{self._model.facts.title}' was closed: its session has ended"))
        end = time.monotonic() + FAREWELL if end is None else end
        with suppress(KeyboardInterrupt):
            for thread in (*self._threads, self._beside) if self._threads else ():
                thread.join(max(end - time.monotonic(), 0))
        if self._usual_interval > SWITCH:
            # Streams that started later found SWITCH, and restore nothing.
            sys.setswitchinterval(self._usual_interval)

    def _refill(self) -> None:
        # Take a whole window, so that a lane wakes once for many items.
        window = self._window
        if self._exhausted or self._claimable > 2 * window or self._upcoming.stopped():
            return
        # The first two together: the second one is planned while the first is computed, before a test has its answer.
        queries = self._upcoming.take(window if self._claimable else 2 * window)
        for query in queries:
            ticket = self._ticket(query)
            self._unclaimed.setdefault(query.key, deque()).append(ticket)
            self._loose.append(ticket)
        self._claimable += len(queries)
        self._exhausted = self._upcoming.exhausted()
        if queries or self._exhausted:
            self._work.notify()
            self._assistance.notify()

    @property
    def _window(self) -> int:
        """The number of tickets that are arranged together."""
        return self._limits.window * self._size * self._lanes

    def _claim(self, query: Query) -> Ticket | None:
        tickets = self._unclaimed.get(query.key)
        if tickets is None:
            return None
        ticket = tickets.popleft()
        self._claimable -= 1
        if not tickets:
            del self._unclaimed[query.key]
        return ticket

    def _end(self, reason: BaseException) -> None:
        """Start no more calls; `reason` is raised in the tests that wait, or will."""
        self._ended = self._ended or reason
        for ticket in tuple(self._awaited):
            ticket.end(self._ended)
        self._work.notify_all()
        self._assistance.notify()

    @property
    def _lanes(self) -> int:
        """The number of lanes now: a pool of models may grow during the run, and its lanes then remain."""
        grown = self._model.concurrency or 1 if self._model.pools else 1
        return max(self._limits.concurrency, grown, len(self._threads))

    def _start(self) -> None:
        lanes = self._lanes
        if not self._threads:
            self._beside.start()
            self._usual_interval = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH, self._usual_interval))
        while len(self._threads) < lanes:
            # Daemon threads, so that a hanging model does not keep the process alive.
            name = f"medvqa-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._kept, args=(self._drive,), name=name, daemon=True))
            self._threads[-1].start()

    def _expire(self, waiting: Ticket) -> float:
        """End calls past their deadline in errors; return the seconds until the next check.

        A lane cannot be taken back from a hanging model, and a further thread in a model made for one could mix up
        answers. So once every lane has been held for twice its deadline, what a test waits for gets an error.
        """
        now = time.monotonic()
        for call in self._calls.values():
            if now >= call.deadline:
                _give_up(call.tickets, f"no answer within {call.allowed:.10g} s")
        held = [call.deadline + call.allowed for call in self._calls.values()]
        if len(held) >= len(self._threads) and now >= max(held):
            # No lane has built the prompt, and none will.
            _give_up(self._built([waiting]), f"model '{self._model.facts.title}' hangs: a call never came back")
        # A call that starts now or later ends after the last of these.
        ends = [*(call.deadline for call in self._calls.values()), *held, now + self._limits.seconds(1)]
        return min(end for end in ends if end > now) - now

    # --- called by lanes and beside them -------------------------------------------------------------------

    def _kept(self, work: Callable[[], None]) -> None:
        """Do a thread's work, holding the lock; what it raises ends the stream."""
        with self._lock:
            try:
                work()
            except MedVQAError as error:
                self._end(error)
            except BaseException as error:  # noqa: BLE001 - raised again in the tests that wait
                lost = RuntimeError(f"model '{self._model.facts.title}' cannot be asked any more")
                lost.__cause__ = error
                self._end(lost)

    def _drive(self) -> None:
        """Ask the model, batch after batch."""
        while (batch := self._next()) is not None:
            batch.send(self._limits)
            self._calls[batch.number] = batch
            self._announce(batch)
            if len(self._plan) <= len(self._threads):
                self._assistance.notify()
            rest = self._computed(batch)
            if not self._staged or len(self._threads) > 1 or not callable(rest):
                rest = self._stored(batch, rest)
            if not self._hand_over(batch, rest):
                self._finish(batch, rest)

    def _hand_over(self, batch: _TicketBatch, rest: Rest) -> bool:
        """Leave a computed batch to the thread beside a single lane, once it is done with the one before.

        The lane itself plans a batch without answers again, before it takes the next one.
        """
        if len(self._threads) > 1 or isinstance(rest, Failure | BaseException):
            return False
        while self._handed is not None and self._ended is None:
            self._work.wait()
        if self._ended is not None:
            return False
        self._handed = batch, rest
        self._assistance.notify()
        return True

    def _assist(self) -> None:
        """Finish the batches of a single lane, and plan before the lanes run short."""
        while True:
            if self._handed is not None:
                self._finish(*self._handed)
                self._handed = None
                self._work.notify()
            elif self._ended is not None:
                return
            elif len(self._plan) <= len(self._threads) and not self._planning and self._is_ready(stopped=self._stops()):
                self._make_plan(stopped=self._stops())
                self._work.notify()
            else:
                self._assistance.wait()

    def _announce(self, batch: _TicketBatch) -> None:
        """Let the model prepare a batch that is about to be sent, unless it was told of it, and the probable next one.

        Only lanes call it: a model is not told of a batch while it computes another one.
        """
        for each in (batch, *islice(self._plan, 1)):
            tickets = self._together(each.tickets)
            if tickets != each.announced and not [ticket for ticket in tickets if ticket.key is None]:
                each.announced = tickets
                self._model.prepare([ticket.prompt for ticket in tickets])

    def _together(self, tickets: list[Ticket]) -> list[Ticket]:
        """Return the first tickets, as many as may be sent together."""
        tickets = tickets[: self._size]
        return tickets if self._room is None else tickets[: self._room.most([t.cost for t in tickets])]

    def _stops(self) -> bool:
        """Return whether only prompts that a test waits for may be sent."""
        return self._upcoming.stopped() or self._traffic.spent >= self._limits.budget

    def _next(self) -> _TicketBatch | None:
        """Wait for the next batch and return it; None if the stream was closed."""
        while self._ended is None:
            stopped = self._stops()
            if stopped:
                self._shelve()
            if self._plan and self._may_ask(self._plan[0]):
                batch = self._plan.popleft()
                waiting = [ticket for ticket in batch.tickets if not ticket.done()]
                tickets = self._together(waiting)
                if len(tickets) < len(waiting):
                    self._plan.appendleft(_TicketBatch(waiting[len(tickets) :], halved=batch.halved))
                if self._plan or self._loose:
                    self._work.notify()
                if any(ticket.key is None for ticket in tickets):
                    batches, _ = self._arranged(self._recalled(tickets), all_of_them=True)
                    self._plan.extendleft(reversed(batches))
                elif tickets:
                    return _TicketBatch(tickets, halved=batch.halved, announced=batch.announced)
            elif not self._plan and not self._planning and self._is_ready(stopped):
                self._make_plan(stopped)
            else:
                self._work.wait()
        return None

    def _may_ask(self, batch: _TicketBatch) -> bool:
        """Return whether a batch may be sent beside the calls in flight."""
        in_flight = [call.alone for stream in self._traffic.streams for call in stream._calls.values()]
        return not any(in_flight) and not (in_flight and batch.alone)

    def _let_others(self, call: _TicketBatch) -> None:
        """Wake other streams that may have waited for the end of this call."""
        for stream in self._traffic.streams:
            if stream is not self and stream._plan and (call.alone or stream._plan[0].alone):
                stream._work.notify_all()

    def _shelve(self) -> None:
        """Remove tickets that no test waits for from the plan, because the session is about to end."""
        for batch in self._plan:
            self._loose.extend(ticket for ticket in batch.tickets if ticket not in self._awaited)
            batch.tickets = [ticket for ticket in batch.tickets if ticket in self._awaited]
        self._plan = deque(batch for batch in self._plan if batch.tickets)

    def _is_ready(self, stopped: bool) -> bool:
        # Send a partial batch only if no more tickets will come, or if a test waits for one of them.
        full = len(self._loose) >= max(self._size, self._left + 1) or (self._exhausted and len(self._loose) > 0)
        return (full and not stopped) or not self._awaited.isdisjoint(self._loose)

    def _make_plan(self, stopped: bool) -> None:
        """Arrange a window of loose tickets, those without a stored answer, into full batches."""
        if stopped:
            tickets = [ticket for ticket in self._loose if ticket in self._awaited]
            self._loose = [ticket for ticket in self._loose if ticket not in self._awaited]
        else:
            window = self._left + self._window
            if self._exhausted and self._calls:
                # Tests wait for the last batch of a window, and nothing overlaps with the last of all: make it small.
                window = min(window, max(len(self._loose) // 2 // self._size, 1) * self._size)
            tickets, self._loose = self._loose[:window], self._loose[window:]
        self._planning = True
        try:
            unknown = self._recalled(tickets)
        finally:
            self._planning = False
        batches, left = self._arranged(unknown, all_of_them=stopped or (self._exhausted and not self._loose))
        self._loose = left + self._loose
        self._left = len(left)
        self._plan.extend(batches)

    def _arranged(self, tickets: Sequence[Ticket], *, all_of_them: bool) -> tuple[list[_TicketBatch], list[Ticket]]:
        """Return batches of one kind each, those to be sent alone first, and the tickets that are left.

        Unless all are to be sent, those that would make a partial batch are left: more of their kind may come. But none
        are left of a kind without a full batch that has a ticket for which a test waits.
        """
        kinds: dict[object, list[Ticket]] = defaultdict(list)
        for ticket in tickets:
            kinds[ticket if ticket.alone else ticket.kind].append(ticket)
        place = dict(zip(tickets, range(len(tickets)), strict=True))
        batches: list[list[Ticket]] = []
        left: list[Ticket] = []
        for group in kinds.values():
            full = len(group) - len(group) % self._size
            if all_of_them or group[0].alone or (not full and not self._awaited.isdisjoint(group)):
                full = len(group)
            left += group[full:]
            shared = [ticket.prompt.images[0] if ticket.prompt.images else ticket for ticket in group[:full]]
            ordered = [group[n] for n in arranging.by_cost(shared, [ticket.cost for ticket in group[:full]])]
            batches += [ordered[start : start + self._size] for start in range(0, full, self._size)]
        batches.sort(key=lambda batch: (not batch[0].alone, min(map(place.__getitem__, batch))))
        return [_TicketBatch(batch) for batch in batches], sorted(left, key=place.__getitem__)

    def _recalled(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Return the tickets without a stored answer, with prompts built; releases the lock while building them."""
        known: dict[Ticket, Settled] = {}
        with self._released:
            new = self._built([ticket for ticket in tickets if ticket.key is None])
            for ticket, found in zip(new, self._memory.recall(new), strict=True):
                ticket.key, ticket.alone = found.key, found.alone
                answer = found.answer
                # A stored answer that today's checks would refuse is asked for again.
                if answer is not None and (
                    isinstance(answer, AnswerError) or answers_room.misfit(answer, ticket.prompt) is None
                ):
                    known[ticket] = ticket.reply(answer, found.reused)
        for ticket, outcome in known.items():
            ticket.end(outcome)
        return [ticket for ticket in tickets if ticket.key is not None and ticket not in known]

    def _built(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Build prompts; return the tickets without an exception."""
        built = []
        for ticket in tickets:
            try:
                if not ticket.digest:
                    prompt = ticket.prompt if ticket.query is None else self._prompt(ticket.query)
                    ticket.prompt = prompts_room.pinned(prompt)
                    ticket.digest = prompts_room.digest(ticket.prompt)
                    if self._size > 1:
                        ticket.kind, ticket.cost = arranging.measured(ticket.prompt)
                built.append(ticket)
            except BaseException as error:  # noqa: BLE001 - raised again in the test that asks for it
                ticket.end(error)
        return built

    def _computed(self, batch: _TicketBatch) -> Rest:
        """Run the device's part of a batch; releases the lock meanwhile."""
        with self._released:
            self._memory.begin(batch.number, [ticket.key or "" for ticket in batch.tickets])
            with timed(batch):
                rest = _caught(lambda: computed(self._model, batch.prompts, self._traffic.secrets))
        if self._room is not None and not (batch.halved or isinstance(rest, Failure | BaseException)):
            self._room.fitted(batch.load)
        return rest

    def _stored(self, batch: _TicketBatch, rest: Rest) -> Outcome | BaseException:
        """Do the model's rest of a batch, and store its answers; releases the lock meanwhile."""
        with self._released:
            outcome = _caught(rest) if callable(rest) else rest
            replies = outcome if isinstance(outcome, list) else []
            stored = [(t.key or "", a) for t, a in zip(batch.tickets, replies, strict=False) if isinstance(a, Answer)]
            self._memory.end(batch.number, [key for key, _ in stored], [answer for _, answer in stored])
        self._traffic.spent += sum(a.usage.get("cost", 0.0) for _, a in stored if a.usage is not None)
        return outcome

    def _finish(self, batch: _TicketBatch, rest: Rest) -> None:
        """Store the answers of a batch unless they are stored, call back, and end its tickets."""
        outcome = self._stored(batch, rest) if callable(rest) else rest
        settled: list[Settled] = []
        if isinstance(outcome, list):
            with self._released:
                settled = [ticket.reply(answer) for ticket, answer in zip(batch.tickets, outcome, strict=True)]
        elif isinstance(outcome, BaseException):
            settled = [outcome] * len(batch.tickets)
        del self._calls[batch.number]
        self._let_others(batch)
        for ticket, ended in zip(batch.tickets, settled, strict=False):
            ticket.end(ended)
        if isinstance(outcome, Failure):
            self._ask_in_parts(batch, outcome)

    def _ask_in_parts(self, batch: _TicketBatch, failure: Failure) -> None:
        """Plan a batch without answers again: in two halves, unless its process was lost; give up one prompt alone."""
        if failure.lost:
            self._ask_again(batch, failure)
        elif len(batch.tickets) > 1:
            half = len(batch.tickets) // 2
            if failure.memory:
                self._room = self._room or arranging.Room()
                self._room.exceeded(batch.load)
            parts = (batch.tickets[half:], batch.tickets[:half])
            self._plan.extendleft(_TicketBatch(part, halved=True) for part in parts)
        else:
            if failure.memory and self._room is not None:
                self._room.exceeded_alone()
            _give_up(batch.tickets, failure.why)

    def _ask_again(self, batch: _TicketBatch, lost: Failure) -> None:
        """Plan a lost batch again: suspect questions one by one, and others together.

        A question that was suspect and alone when its process was lost again ends in an error.
        """
        alone, self.asked_again = len(batch.tickets) == 1, self.asked_again + 1
        for ticket in batch.tickets:
            ticket.deaths += lost.suspect
            ticket.moves += not lost.suspect
            if lost.suspect and alone and ticket.deaths > 1:
                _give_up([ticket], KILLS)
            elif ticket.moves > MOVES:
                _give_up([ticket], f"{lost.why}; it was asked {ticket.moves + ticket.deaths} times")
        tickets = [ticket for ticket in batch.tickets if not ticket.done()]
        parts = [[ticket] for ticket in tickets] if lost.suspect else [tickets]
        self._plan.extendleft(_TicketBatch(part, halved=True) for part in reversed(parts) if part)


def _caught(call: Callable[[], T]) -> T | BaseException:
    try:
        return call()
    except BaseException as error:  # noqa: BLE001 - raised again in the tests that ask for it
        return error


def _give_up(tickets: Iterable[Ticket], why: str) -> None:
    """End tickets in errors; those that have ended stay as they are."""
    for ticket in tickets:
        ticket.end(Reply(ticket.prompt, ticket.digest, AnswerError(why)))


class Streamed:
    """The model for tests, a `medvqa.items.Model` that asks through the stream; `backend` is the model itself."""

    def __init__(
        self, model: Backend, stream: Stream, prepare: Callable[[Prompt], Prompt] = lambda prompt: prompt
    ) -> None:
        """`prepare` completes a test's own prompts, for instance with the limit in force."""
        self.backend = model
        self._stream = stream
        self._prepare = prepare

    @property
    def name(self) -> str:
        """The model's title."""
        return self.backend.facts.title

    @property
    def capabilities(self) -> Collection[str]:
        """The supported ways of asking, as in `medvqa.Backend.capabilities`."""
        return self.backend.facts.capabilities

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt, in the stream's threads."""
        return self._stream.generate([self._prepare(prompt) for prompt in prompts])
