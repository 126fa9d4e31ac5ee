"""A model kept busy ahead of the tests that wait for its answers (docs/decisions/0004-a-stream.md).

The tests' thread takes the items that lie ahead and hands them over as tickets; a thread of the stream (a
lane) builds their prompts, arranges them into batches and asks the model. A model is asked by one lane,
since it may keep state between calls, or by as many as its attribute `concurrency` allows.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, cast

from medvqa.engine.asking import Failure, attempt
from medvqa.items import Answer, AnswerError, Item, Model, Prompt, UsageError

BATCH_SIZE = 32
"""Prompts in a batch where neither the user nor the model says."""
WINDOW = 4
"""Batches whose items are sorted together. More would sort better, and leave tests further behind at the end."""
PATIENCE, PATIENCE_EACH = 600.0, 60.0
"""Seconds that a batch may take where the user does not say: so many, and so many more for each prompt."""
FAREWELL = 5.0
"""Seconds that a batch in flight gets to finish in when the session ends."""


class Upcoming(Protocol):
    """What lies ahead of the test that runs. All but `stopped` is called by the thread that runs tests."""

    def take(self, count: int) -> Sequence[Item]:
        """The next items that were not taken yet, at most `count`, beginning with that of the test that runs."""
        ...

    def exhausted(self) -> bool:
        """Whether no more items will come."""
        ...

    def stopped(self) -> bool:
        """Whether the session is about to end, so that nothing more is asked ahead."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a model is given at once, for how long and for how much.

    `deadline` is in seconds a batch (None: automatic). Once answers have cost `budget`, nothing is asked ahead.
    """

    batch_size: int
    concurrency: int
    deadline: float | None = None
    window: int = WINDOW
    budget: float = inf

    @classmethod
    def of(
        cls,
        model: Model,
        *,
        batch_size: int | None = None,
        concurrency: int | None = None,
        deadline: float | None = None,
        window: int = WINDOW,
        budget: float = inf,
    ) -> Limits:
        """What was asked for, else what the model's attributes `batch_size` and `concurrency` say, else the default.

        A model with `concurrency` gets batches of 1. UsageError when a concurrency is asked of one without.
        """
        offered: int | None = getattr(model, "concurrency", None)
        if concurrency is not None and offered is None:
            raise UsageError(
                f"--concurrency={concurrency}: model '{model.name}' is asked one batch at a time; try --batch-size"
            )
        size = batch_size or getattr(model, "batch_size", None) or (BATCH_SIZE if offered is None else 1)
        return cls(size, concurrency or offered or 1, deadline, window, budget)

    def seconds(self, prompts: int) -> float:
        """The deadline of a batch of so many prompts."""
        return PATIENCE + PATIENCE_EACH * prompts if self.deadline is None else self.deadline


class _Ticket:
    """One question on its way: it has a prompt once it was built, and ends with an answer or what was raised."""

    __slots__ = ("answer", "item", "prompt", "raised")

    def __init__(self, item: Item | None, prompt: Prompt | None = None) -> None:
        self.item = item
        self.prompt = prompt
        self.answer: Answer | AnswerError | None = None
        self.raised: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None or self.raised is not None

    def result(self) -> tuple[Prompt, Answer | AnswerError]:
        if self.raised is not None:
            raise self.raised
        return cast("Prompt", self.prompt), cast("Answer | AnswerError", self.answer)


@dataclass(slots=True)
class _Batch:
    """Tickets that are asked together; `size` is the batch size that was in force when they first were."""

    tickets: list[_Ticket]
    size: int


class _Call:
    """A batch in flight, and the seconds that it may take."""

    __slots__ = ("allowed", "end", "tickets")

    def __init__(self, tickets: list[_Ticket], allowed: float) -> None:
        self.tickets = tickets
        self.allowed = allowed
        self.end = time.monotonic() + allowed


class Stream:
    """Answers items, and those that lie ahead of them, through the lanes of one model."""

    def __init__(self, model: Model, prompt: Callable[[Item], Prompt], upcoming: Upcoming, limits: Limits) -> None:
        """Nothing is asked, and no thread started, before the first `answer`."""
        self._model = model
        self._prompt = prompt
        self._upcoming = upcoming
        self._limits = limits
        self._window = limits.window * limits.batch_size * limits.concurrency
        self._threads: list[threading.Thread] = []
        # The lock guards all that follows; lanes wait for work, tests for news.
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._news = threading.Condition(self._lock)
        self._size = limits.batch_size
        self._spent = 0.0
        self._unclaimed: dict[tuple[str, str], deque[_Ticket]] = {}
        self._claimable = 0
        self._exhausted = False
        self._loose: list[_Ticket] = []
        self._planning = False
        self._plan: deque[_Batch] = deque()
        self._calls: dict[int, _Call] = {}
        self._awaited: set[_Ticket] = set()
        self._fault: BaseException | None = None
        self._closed = False

    # --- called by the thread that runs tests -------------------------------------------------------------

    def answer(self, item: Item) -> tuple[Prompt, Answer | AnswerError]:
        """The item's prompt and its answer, waiting for it; what building the prompt raised is raised here."""
        with self._lock:
            self._refill()
            ticket = self._claim(item)
            if ticket is None:
                ticket = _Ticket(item)
                self._plan.appendleft(_Batch([ticket], self._size))
            self._wait([ticket])
        # Where the model hangs, no lane has come to it.
        self._built([ticket])
        return ticket.result()

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer prompts of a test's own, waiting for them."""
        tickets = [_Ticket(None, prompt) for prompt in prompts]
        with self._lock:
            self._plan.appendleft(_Batch(tickets, self._size))
            self._wait(tickets)
        return [ticket.result()[1] for ticket in tickets]

    def forget(self, item: Item) -> None:
        """A test has ended: an answer that it did not ask for is not kept."""
        with self._lock:
            self._claim(item)

    def close(self) -> None:
        """Start nothing more, and give what is in flight a moment to finish."""
        with self._lock:
            self._closed = True
            self._work.notify_all()
        end = time.monotonic() + FAREWELL
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0))

    def _refill(self) -> None:
        # A window at a time, so that a lane wakes once for many items.
        if self._exhausted or self._claimable > 2 * self._window or self._upcoming.stopped():
            return
        taken = self._upcoming.take(self._window)
        for item in taken:
            ticket = _Ticket(item)
            self._unclaimed.setdefault((item.benchmark, item.id), deque()).append(ticket)
            self._loose.append(ticket)
        self._claimable += len(taken)
        self._exhausted = self._upcoming.exhausted()
        if taken or self._exhausted:
            self._work.notify()

    def _claim(self, item: Item) -> _Ticket | None:
        key = (item.benchmark, item.id)
        tickets = self._unclaimed.get(key)
        if tickets is None:
            return None
        ticket = tickets.popleft()
        self._claimable -= 1
        if not tickets:
            del self._unclaimed[key]
        return ticket

    def _wait(self, waiting: Sequence[_Ticket]) -> None:
        self._start()
        self._awaited.update(waiting)
        try:
            while waiting := [ticket for ticket in waiting if not ticket.done]:
                if self._fault is not None:
                    raise RuntimeError(f"model '{self._model.name}' cannot be asked any more") from self._fault
                if self._closed:
                    raise RuntimeError(f"model '{self._model.name}' was closed: its session has ended")
                self._work.notify()
                self._news.wait(self._expire(waiting))
        finally:
            self._awaited.difference_update(waiting)

    def _start(self) -> None:
        while len(self._threads) < self._limits.concurrency:
            # Daemons: a model that hangs must not keep the process from ending.
            lane = len(self._threads)
            self._threads.append(threading.Thread(target=self._drive, args=(lane,), name=f"medvqa-{lane}", daemon=True))
            self._threads[-1].start()

    def _expire(self, waiting: Sequence[_Ticket]) -> float:
        """End what is over its deadline; the seconds after which it is time to look again.

        A batch that is over ends in errors, but nothing can take its lane back from the model. Once every lane
        has been held for twice its deadline, whoever waits gets an error at once: a second thread in a model
        that is made for one could mix up answers.
        """
        now = time.monotonic()
        for call in self._calls.values():
            if now >= call.end:
                _end(call.tickets, f"no answer within {call.allowed:.10g} s")
        held = [call.end + call.allowed for call in self._calls.values()]
        if len(held) == self._limits.concurrency and now >= max(held):
            _end(waiting, f"model '{self._model.name}' hangs: a call never came back")
        if any(ticket.done for ticket in waiting):
            return 0
        # No call that starts from now on ends before the last of these.
        ends = [*(call.end for call in self._calls.values()), *held, now + self._limits.seconds(1)]
        return min(end for end in ends if end > now) - now

    # --- called by lanes ----------------------------------------------------------------------------------

    def _drive(self, lane: int) -> None:
        try:
            with self._lock:
                while (batch := self._next()) is not None:
                    self._calls[lane] = _Call(batch.tickets, self._limits.seconds(len(batch.tickets)))
                    said = self._ask(batch)
                    del self._calls[lane]
                    self._settle(batch, said)
                    self._news.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised again in the tests that wait
            with self._lock:
                self._fault = error
                self._news.notify_all()

    def _next(self) -> _Batch | None:
        """The next batch, waiting for one; None when the stream was closed."""
        while not self._closed:
            stopped = self._upcoming.stopped() or self._spent >= self._limits.budget
            if stopped:
                self._shelve()
            if self._plan:
                batch = self._plan.popleft()
                tickets = [ticket for ticket in batch.tickets if not ticket.done]
                if len(tickets) > self._size:
                    self._plan.appendleft(_Batch(tickets[self._size :], batch.size))
                if self._plan:
                    self._work.notify()
                if tickets:
                    return _Batch(tickets[: self._size], batch.size)
            elif not self._planning and self._is_ready(stopped):
                self._make_plan(stopped)
            else:
                self._work.wait()
        return None

    def _shelve(self) -> None:
        """The session is about to end: take from the plan all that no test waits for."""
        for batch in self._plan:
            self._loose.extend(ticket for ticket in batch.tickets if ticket not in self._awaited)
            batch.tickets = [ticket for ticket in batch.tickets if ticket in self._awaited]
        self._plan = deque(batch for batch in self._plan if batch.tickets)

    def _is_ready(self, stopped: bool) -> bool:
        # A batch that is not full is worth its call when nothing more comes, or when a test waits for it.
        full = len(self._loose) >= self._size or (self._exhausted and len(self._loose) > 0)
        return (full and not stopped) or any(ticket in self._awaited for ticket in self._loose)

    def _make_plan(self, stopped: bool) -> None:
        """Make batches of the loose tickets. The lock is open while their prompts are built."""
        if stopped:
            tickets = [ticket for ticket in self._loose if ticket in self._awaited]
            self._loose = [ticket for ticket in self._loose if ticket not in self._awaited]
        else:
            rest = len(self._loose) % self._size
            count = len(self._loose) - (0 if self._exhausted or rest == len(self._loose) else rest)
            tickets, self._loose = self._loose[:count], self._loose[count:]
        self._planning = True
        self._lock.release()
        try:
            batches = arrange(self._built(tickets), self._size)
        finally:
            self._lock.acquire()
            self._planning = False
        self._plan.extend(_Batch(batch, self._size) for batch in batches)
        # A test may wait for one whose prompt could not be built.
        self._news.notify_all()

    def _built(self, tickets: Sequence[_Ticket]) -> list[_Ticket]:
        """Tickets with their prompts, less those whose prompt could not be built."""
        for ticket in tickets:
            if ticket.prompt is None and ticket.item is not None:
                try:
                    ticket.prompt = self._prompt(ticket.item)
                except BaseException as error:  # noqa: BLE001 - raised again in the test that asks for it
                    ticket.raised = error
        return [ticket for ticket in tickets if ticket.prompt is not None]

    def _ask(self, batch: _Batch) -> list[Answer | AnswerError] | Failure | BaseException:
        """Ask the model. The lock is open meanwhile."""
        self._lock.release()
        try:
            batch.tickets = self._built(batch.tickets)
            prompts = [ticket.prompt for ticket in batch.tickets if ticket.prompt is not None]
            return attempt(self._model, prompts) if prompts else []
        except BaseException as error:  # noqa: BLE001 - raised again in the tests that ask for it
            return error
        finally:
            self._lock.acquire()

    def _settle(self, batch: _Batch, said: list[Answer | AnswerError] | Failure | BaseException) -> None:
        """Hand out what a batch came to; halve one that failed."""
        if isinstance(said, list):
            for ticket, answer in zip(batch.tickets, said, strict=True):
                if isinstance(answer, Answer) and answer.usage is not None:
                    self._spent += answer.usage.get("cost", 0.0)
                if not ticket.done:
                    ticket.answer = answer
        elif isinstance(said, BaseException):
            for ticket in batch.tickets:
                if not ticket.done:
                    ticket.raised = said
        elif len(batch.tickets) > 1:
            half = len(batch.tickets) // 2
            if said.memory:
                self._size = min(self._size, half)
            self._plan.extendleft(_Batch(part, batch.size) for part in (batch.tickets[half:], batch.tickets[:half]))
        else:
            if said.memory:
                # It was this prompt, which does not even fit alone, and not the size of its batch.
                self._size = max(self._size, batch.size)
            _end(batch.tickets, said.why)


def arrange(tickets: Sequence[_Ticket], size: int) -> list[list[_Ticket]]:
    """Batches of at most `size`, of similar length (padding costs time), those that share an image side by side.

    Batches are in the order of their first test, tickets that have equally much to read in the order given.
    """
    place = {ticket: number for number, ticket in enumerate(tickets)}
    groups: dict[object, list[_Ticket]] = {}
    for ticket in tickets:
        images = ticket.prompt.images if ticket.prompt is not None else ()
        groups.setdefault(images[0] if images else ticket, []).append(ticket)
    ordered = [ticket for group in sorted(groups.values(), key=_load) for ticket in group]
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return sorted(batches, key=lambda batch: min(place[ticket] for ticket in batch))


def _load(group: Sequence[_Ticket]) -> tuple[int, int]:
    """What a model has to read for the largest prompt of a group: images, and characters."""
    prompts = [ticket.prompt for ticket in group if ticket.prompt is not None]
    return max((len(prompt.images), len(prompt.text)) for prompt in prompts)


def _end(tickets: Iterable[_Ticket], why: str) -> None:
    """End in errors what has not ended yet."""
    for ticket in tickets:
        if not ticket.done:
            ticket.answer = AnswerError(why)


class Streamed:
    """The model as tests get it: what they ask of it goes through the stream, all else is the model's own."""

    def __init__(self, model: Model, stream: Stream) -> None:
        """Stand in for the model."""
        self._model = model
        self._stream = stream

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def capabilities(self) -> frozenset[str]:
        """What the model can do."""
        return self._model.capabilities

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt, asked by the thread that asks all others."""
        return self._stream.generate(prompts)

    def __getattr__(self, name: str) -> Any:
        """All else."""
        return getattr(self._model, name)
