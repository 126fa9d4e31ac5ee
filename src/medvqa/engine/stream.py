"""A model kept busy ahead of the tests that wait for its answers (docs/decisions/0004-a-stream.md).

The tests' thread takes the items that lie ahead and hands them over as tickets; a thread of the stream (a
lane) builds their prompts, arranges them into batches and asks the model. A model is asked by one lane,
since it may keep state between calls, or by as many as its attribute `concurrency` allows.

What is done with an answer before a test gets it (`then`) may hand prompts to another stream, that of a judge, which is
so asked while the model goes on. `Traffic` is what the streams of a process share.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Any, Protocol, cast

from medvqa import answers as answers_room
from medvqa.backend import Backend
from medvqa.engine.asking import Failure, attempt
from medvqa.items import Answer, AnswerError, MedVQAError, Prompt, Query, QuestionKey, UsageError
from medvqa.protocols import prompts as prompts_room

BATCH_SIZE = 32
"""Prompts in a batch where neither the user nor the model says."""
WINDOW = 4
"""Batches whose items are sorted together. More would sort better, and leave tests further behind at the end."""
PATIENCE, PATIENCE_EACH = 600.0, 60.0
"""Seconds that a batch may take where the user does not say: so many, and so many more for each prompt."""
FAREWELL = 5.0
"""Seconds that a batch in flight gets to finish in when the session ends."""


_NUMBERS = count(1)
"""Of the calls of all streams of the process."""


class Lookahead(Protocol):
    """What lies ahead of the test that runs. All but `stopped` is called by the thread that runs tests."""

    def take(self, count: int) -> Sequence[Query]:
        """The next queries that were not taken yet, at most `count`, beginning with that of the test that runs."""
        ...

    def exhausted(self) -> bool:
        """Whether no more queries will come."""
        ...

    def stopped(self) -> bool:
        """Whether the session is about to end, so that nothing more is asked ahead."""
        ...


@dataclass(frozen=True, slots=True)
class Recollection:
    """What is known of a prompt before it is asked: an answer, which `reused` says is of an earlier session, or none.

    One that must be asked `alone` is asked when no other is.
    """

    answer: Answer | AnswerError | None = None
    reused: bool = False
    alone: bool = False


class AnswerMemory(Protocol):
    """What outlasts the process. Several lanes may call it; what it raises ends the stream."""

    def key(self, prompt: Prompt, digest: str, sample: int) -> str:
        """What an answer is kept by; `digest` is that of the prompt, `sample` numbers equal prompts of one call."""
        ...

    def recall(self, keys: Sequence[str]) -> Sequence[Recollection]:
        """What is known of each prompt, looked up before it has its place in a batch."""
        ...

    def begin(self, call: int, keys: Sequence[str]) -> None:
        """A call begins, with a number that none of this process had before."""
        ...

    def end(self, call: int, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        """A call has ended; what it answered, which may be nothing, is kept before any test sees it."""
        ...


@dataclass(frozen=True, slots=True)
class Submitted:
    """What lies ahead of a stream that is only given prompts: nothing; `ends` says whether the session is about to."""

    ends: Callable[[], bool] = lambda: False

    def take(self, count: int) -> Sequence[Query]:
        """Nothing."""
        return ()

    def exhausted(self) -> bool:
        """Never: somebody may hand more over."""
        return False

    def stopped(self) -> bool:
        """Whether the session is about to end."""
        return self.ends()


class Forgetful:
    """A memory that keeps nothing."""

    def key(self, prompt: Prompt, digest: str, sample: int) -> str:
        """No key."""
        return ""

    def recall(self, keys: Sequence[str]) -> Sequence[Recollection]:
        """Nothing."""
        return [Recollection()] * len(keys)

    def begin(self, call: int, keys: Sequence[str]) -> None:
        """Note nothing."""

    def end(self, call: int, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A question's prompt with its digest, and its answer, which `reused` says was asked for in an earlier session.

    `then` is what was made of the answer before a test got it, None where nothing was.
    """

    prompt: Prompt
    digest: str
    answer: Answer | AnswerError
    reused: bool = False
    then: Any = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a model is given at once, for how long and for how much.

    `deadline` is in seconds a batch (None: automatic, at least `patience` for each prompt). Once answers have cost
    `budget`, nothing is asked ahead.
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
        model: Backend,
        *,
        batch_size: int | None = None,
        concurrency: int | None = None,
        deadline: float | None = None,
        window: int = WINDOW,
        budget: float = inf,
    ) -> Limits:
        """What was asked for, else what the model's `batch_size` and `concurrency` say, else the default.

        A model with `concurrency` gets batches of 1, one with `patience` at least so many seconds for each prompt.
        UsageError when a concurrency is asked of one without, and for values of wrong types.
        """
        offered = model.concurrency
        if concurrency is not None and offered is None:
            raise UsageError(
                f"--concurrency={concurrency}: model '{model.title}' is asked one batch at a time; try --batch-size"
            )
        size = batch_size or model.batch_size or (BATCH_SIZE if offered is None else 1)
        return cls(size, concurrency or offered or 1, deadline, window, budget, model.patience)

    def seconds(self, prompts: int) -> float:
        """The deadline of a batch of so many prompts."""
        if self.deadline is not None:
            return self.deadline
        return max(PATIENCE + PATIENCE_EACH * prompts, self.patience * prompts)


class Ticket:
    """One question on its way: it has a prompt once it was built, and ends with an answer or what was raised.

    `key` is None until it was looked up in the memory. `follow` makes `then` of an answer.
    """

    __slots__ = (
        *("alone", "answer", "digest", "follow", "key", "prompt", "query", "raised", "reused", "sample"),
        "then",
    )

    def __init__(
        self,
        query: Query | None,
        prompt: Prompt | None = None,
        sample: int = 0,
        follow: Callable[[Answer, bool], Any] | None = None,
    ) -> None:
        """A question of a test, or a prompt; nothing is known of it yet."""
        self.query = query
        self.prompt = prompt
        self.sample = query.sample if query is not None else sample
        self.follow = follow
        self.then: Any = None
        self.digest = ""
        self.key: str | None = None
        self.alone = False
        self.reused = False
        self.answer: Answer | AnswerError | None = None
        self.raised: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.answer is not None or self.raised is not None

    def followed(self, answer: Answer, reused: bool) -> None:
        """Make of an answer what is to be made of it; what that raises is raised in the test that asks."""
        if self.follow is None or self.done:
            return
        try:
            self.then = self.follow(answer, reused)
        except BaseException as error:  # noqa: BLE001 - see the docstring
            self.raised = error

    def reply(self) -> Reply:
        """What came of it, once it has ended; what was raised is raised again."""
        if self.raised is not None:
            raise self.raised
        prompt, answer = cast("Prompt", self.prompt), cast("Answer | AnswerError", self.answer)
        return Reply(prompt, self.digest, answer, self.reused, self.then)


@dataclass(slots=True)
class _TicketBatch:
    """Tickets that are asked together; `size` is the batch size that was in force when they first were."""

    tickets: list[Ticket]
    size: int

    @property
    def alone(self) -> bool:
        """Whether it must be asked when no other is."""
        return any(ticket.alone for ticket in self.tickets)


class _Call:
    """A batch in flight, and the seconds that it may take."""

    __slots__ = ("allowed", "end", "number", "tickets")

    def __init__(self, number: int, tickets: list[Ticket], allowed: float) -> None:
        self.number = number
        self.tickets = tickets
        self.allowed = allowed
        self.end = time.monotonic() + allowed

    @property
    def alone(self) -> bool:
        """Whether nothing may be asked beside it."""
        return any(ticket.alone for ticket in self.tickets)


class Traffic:
    """What the streams of a process share: a lock, what their answers have cost, and who must be asked alone.

    A question during which a process died is asked alone, which means: with no call of any stream in flight.
    """

    def __init__(self, secrets: Collection[str] = ()) -> None:
        """No streams yet. `secrets` are kept out of all that the models of the process say."""
        self.lock = threading.Lock()
        self.streams: list[Stream] = []
        self.spent = 0.0
        self.secrets = secrets


class Stream:
    """Answers queries, and those that lie ahead of them, through the lanes of one model."""

    def __init__(
        self,
        model: Backend,
        prompt: Callable[[Query], Prompt],
        upcoming: Lookahead,
        limits: Limits,
        memory: AnswerMemory | None = None,
        *,
        follow: Callable[[Query, Answer], Any] | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """Nothing is asked, and no thread started, before the first `answer` or `submit`.

        `follow` gets each answer to a query, stored or asked for, in the thread of a lane before a test does; what it
        returns comes with the `Reply`. It may submit to another stream. Streams of one process share its `traffic`.
        """
        self._model = model
        self._memory = memory if memory is not None else Forgetful()
        self._prompt = prompt
        self._upcoming = upcoming
        self._limits = limits
        self._follow = follow
        self._traffic = traffic if traffic is not None else Traffic()
        self._traffic.streams.append(self)
        self._window = limits.window * limits.batch_size * limits.concurrency
        self._threads: list[threading.Thread] = []
        # The lock guards all that follows; lanes wait for work, tests for news.
        self._lock = self._traffic.lock
        self._work = threading.Condition(self._lock)
        self._news = threading.Condition(self._lock)
        self._size = limits.batch_size
        self._unclaimed: dict[QuestionKey, deque[Ticket]] = {}
        self._claimable = 0
        self._exhausted = False
        self._loose: list[Ticket] = []
        self._planning = False
        self._plan: deque[_TicketBatch] = deque()
        self._calls: dict[int, _Call] = {}
        self._awaited: set[Ticket] = set()
        self._fault: BaseException | None = None
        self._closed = False

    # --- called by the thread that runs tests -------------------------------------------------------------

    def answer(self, query: Query) -> Reply:
        """The query's prompt and its answer, waiting for it; what building the prompt raised is raised here.

        Raises what the memory raised, which cannot keep any more answers.
        """
        with self._lock:
            self._refill()
            ticket = self._claim(query)
            if ticket is None:
                ticket = self._ticket(query)
                self._plan.appendleft(_TicketBatch([ticket], self._size))
            self._wait([ticket])
        # Where the model hangs, no lane has come to it.
        self._built([ticket])
        return ticket.reply()

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer prompts of a test's own, waiting for them; equal ones are so many samples."""
        seen: Counter[tuple[str, str, str]] = Counter()
        tickets = []
        for prompt in prompts:
            same = (prompts_room.digest(prompt), prompt.benchmark, prompt.item)
            tickets.append(Ticket(None, prompt, seen[same]))
            seen[same] += 1
        with self._lock:
            self._plan.appendleft(_TicketBatch(tickets, self._size))
            self._wait(tickets)
        return [ticket.reply().answer for ticket in tickets]

    def submit(self, prompt: Prompt, follow: Callable[[Answer, bool], Any], sample: int = 0) -> Ticket:
        """Hand a prompt over to be asked in a batch with others, without waiting. Any thread may.

        `follow` gets its answer, and whether it is of an earlier session, as the constructor's does. `sample` tells
        answers to one prompt apart.
        """
        ticket = Ticket(None, prompt, sample, follow)
        with self._lock:
            self._loose.append(ticket)
            self._start()
            self._work.notify()
        return ticket

    def wait(self, ticket: Ticket) -> Reply:
        """What came of a prompt that was submitted, waiting for it. Raises as `answer` does."""
        with self._lock:
            self._wait([ticket])
        self._built([ticket])
        return ticket.reply()

    def _ticket(self, query: Query) -> Ticket:
        follow = self._follow
        return Ticket(query, follow=None if follow is None else lambda answer, _: follow(query, answer))

    def forget(self, query: Query) -> None:
        """A test has ended: an answer that it did not ask for is not kept."""
        with self._lock:
            self._claim(query)

    def close(self, end: float | None = None) -> None:
        """Start nothing more, and give what is in flight a moment to finish.

        `end` is in seconds of `time.monotonic`, by default `FAREWELL` from now. A second Ctrl-C ends the waiting.
        """
        with self._lock:
            self._closed = True
            self._work.notify_all()
        end = time.monotonic() + FAREWELL if end is None else end
        with suppress(KeyboardInterrupt):
            for thread in self._threads:
                thread.join(max(end - time.monotonic(), 0))

    def _refill(self) -> None:
        # A window at a time, so that a lane wakes once for many items.
        if self._exhausted or self._claimable > 2 * self._window or self._upcoming.stopped():
            return
        taken = self._upcoming.take(self._window)
        for query in taken:
            ticket = self._ticket(query)
            self._unclaimed.setdefault(query.key, deque()).append(ticket)
            self._loose.append(ticket)
        self._claimable += len(taken)
        self._exhausted = self._upcoming.exhausted()
        if taken or self._exhausted:
            self._work.notify()

    def _claim(self, query: Query) -> Ticket | None:
        tickets = self._unclaimed.get(query.key)
        if tickets is None:
            return None
        ticket = tickets.popleft()
        self._claimable -= 1
        if not tickets:
            del self._unclaimed[query.key]
        return ticket

    def _wait(self, waiting: Sequence[Ticket]) -> None:
        self._start()
        self._awaited.update(waiting)
        try:
            while left := [ticket for ticket in waiting if not ticket.done]:
                if isinstance(self._fault, MedVQAError):
                    raise self._fault
                if self._fault is not None:
                    raise RuntimeError(f"model '{self._model.title}' cannot be asked any more") from self._fault
                if self._closed:
                    raise RuntimeError(f"model '{self._model.title}' was closed: its session has ended")
                self._work.notify()
                self._news.wait(self._expire(left))
        finally:
            self._awaited.difference_update(waiting)

    def _start(self) -> None:
        while len(self._threads) < self._limits.concurrency:
            # Daemons: a model that hangs must not keep the process from ending.
            lane = len(self._threads)
            self._threads.append(threading.Thread(target=self._drive, args=(lane,), name=f"medvqa-{lane}", daemon=True))
            self._threads[-1].start()

    def _expire(self, waiting: Sequence[Ticket]) -> float:
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
            _end(waiting, f"model '{self._model.title}' hangs: a call never came back")
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
                    call = _Call(next(_NUMBERS), batch.tickets, self._limits.seconds(len(batch.tickets)))
                    self._calls[lane] = call
                    self._announce()
                    said = self._ask(call)
                    del self._calls[lane]
                    self._let_others(call)
                    self._settle(batch, said)
                    self._news.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised again in the tests that wait
            with self._lock:
                self._fault = error
                self._news.notify_all()

    def _announce(self) -> None:
        """Let the model prepare what it will probably get next."""
        if self._plan:
            prompts = [ticket.prompt for ticket in self._plan[0].tickets[: self._size] if ticket.prompt is not None]
            if prompts:
                self._model.prepare(prompts)

    def _next(self) -> _TicketBatch | None:
        """The next batch, waiting for one; None when the stream was closed."""
        while not self._closed:
            stopped = self._upcoming.stopped() or self._traffic.spent >= self._limits.budget
            if stopped:
                self._shelve()
            if self._plan and self._may_ask(self._plan[0]):
                batch = self._plan.popleft()
                tickets = [ticket for ticket in batch.tickets if not ticket.done]
                if len(tickets) > self._size:
                    self._plan.appendleft(_TicketBatch(tickets[self._size :], batch.size))
                if self._plan or self._loose:
                    self._work.notify()
                if any(ticket.key is None for ticket in tickets[: self._size]):
                    unknown = self._recalled(tickets[: self._size])
                    self._plan.extendleft(reversed(self._batches(unknown, batch.size)))
                elif tickets:
                    return _TicketBatch(tickets[: self._size], batch.size)
            elif not self._plan and not self._planning and self._is_ready(stopped):
                self._make_plan(stopped)
            else:
                self._work.wait()
        return None

    def _may_ask(self, batch: _TicketBatch) -> bool:
        """Whether a batch may be asked beside those in flight."""
        flying = [call.alone for stream in self._traffic.streams for call in stream._calls.values()]
        return not any(flying) and not (flying and batch.alone)

    def _let_others(self, call: _Call) -> None:
        """A call has ended: wake the other streams where they may have waited for it."""
        for stream in self._traffic.streams:
            if stream is not self and stream._plan and (call.alone or stream._plan[0].alone):
                stream._work.notify_all()

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
        """Make full batches of the loose tickets that the memory does not know."""
        if stopped:
            tickets = [ticket for ticket in self._loose if ticket in self._awaited]
            self._loose = [ticket for ticket in self._loose if ticket not in self._awaited]
        else:
            tickets, self._loose = self._loose, []
        self._planning = True
        try:
            unknown = self._recalled(tickets)
        finally:
            self._planning = False
        rest = len(unknown) % self._size
        if not (stopped or self._exhausted or (rest == len(unknown) and any(t in self._awaited for t in unknown))):
            count = len(unknown) - rest
            unknown, self._loose = unknown[:count], unknown[count:] + self._loose
        self._plan.extend(self._batches(unknown, self._size))

    def _recalled(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Those that must be asked, with their prompts; the lock is open while these are built and looked up."""
        self._lock.release()
        try:
            new = self._built([ticket for ticket in tickets if ticket.key is None])
            known = [
                _fitting(recollection, ticket)
                for ticket, recollection in zip(new, self._memory.recall([t.key or "" for t in new]), strict=True)
            ]
            for ticket, recollection in zip(new, known, strict=True):
                if isinstance(recollection.answer, Answer):
                    ticket.followed(recollection.answer, recollection.reused)
        finally:
            self._lock.acquire()
        for ticket, recollection in zip(new, known, strict=True):
            ticket.alone = recollection.alone
            if recollection.answer is not None and not ticket.done:
                ticket.answer, ticket.reused = recollection.answer, recollection.reused
        # A test may wait for one that is known, or whose prompt could not be built.
        self._news.notify_all()
        return [ticket for ticket in tickets if not ticket.done]

    def _batches(self, tickets: Sequence[Ticket], size: int) -> list[_TicketBatch]:
        """Tickets that stand alone, then the others in batches of similar ones."""
        alone = [[ticket] for ticket in tickets if ticket.alone]
        others = [ticket for ticket in tickets if not ticket.alone]
        return [_TicketBatch(batch, size) for batch in [*alone, *arrange(others, self._size)]]

    def _built(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Tickets with their prompts and keys, less those whose prompt could not be built."""
        for ticket in tickets:
            try:
                if ticket.prompt is None and ticket.query is not None:
                    ticket.prompt = self._prompt(ticket.query)
                if ticket.prompt is not None and ticket.key is None:
                    ticket.prompt = prompts_room.pinned(ticket.prompt)
                    ticket.digest = prompts_room.digest(ticket.prompt)
                    ticket.key = self._memory.key(ticket.prompt, ticket.digest, ticket.sample)
            except BaseException as error:  # noqa: BLE001 - raised again in the test that asks for it
                ticket.raised = error
        return [ticket for ticket in tickets if ticket.key is not None]

    def _ask(self, call: _Call) -> list[Answer | AnswerError] | Failure | BaseException:
        """Ask the model, and keep what it answers. The lock is open meanwhile."""
        keys = [ticket.key or "" for ticket in call.tickets]
        self._lock.release()
        try:
            self._memory.begin(call.number, keys)
            said = self._attempted([ticket.prompt for ticket in call.tickets if ticket.prompt is not None])
            answers = said if isinstance(said, list) else []
            kept = [(key, answer) for key, answer in zip(keys, answers, strict=False) if isinstance(answer, Answer)]
            self._memory.end(call.number, [key for key, _ in kept], [answer for _, answer in kept])
            for ticket, answer in zip(call.tickets, answers, strict=False):
                if isinstance(answer, Answer):
                    ticket.followed(answer, False)
            return said
        finally:
            self._lock.acquire()

    def _attempted(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError] | Failure | BaseException:
        try:
            return attempt(self._model, prompts, self._traffic.secrets)
        except BaseException as error:  # noqa: BLE001 - raised again in the tests that ask for it
            return error

    def _settle(self, batch: _TicketBatch, said: list[Answer | AnswerError] | Failure | BaseException) -> None:
        """Hand out what a batch came to; halve one that failed."""
        if isinstance(said, list):
            for ticket, answer in zip(batch.tickets, said, strict=True):
                if isinstance(answer, Answer) and answer.usage is not None:
                    self._traffic.spent += answer.usage.get("cost", 0.0)
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
            self._plan.extendleft(
                _TicketBatch(part, batch.size) for part in (batch.tickets[half:], batch.tickets[:half])
            )
        else:
            if said.memory:
                # It was this prompt, which does not even fit alone, and not the size of its batch.
                self._size = max(self._size, batch.size)
            _end(batch.tickets, said.why)


def _fitting(recollection: Recollection, ticket: Ticket) -> Recollection:
    """What is known of a prompt, without an answer that would not be stored today: the prompt is asked again."""
    answer, prompt = recollection.answer, ticket.prompt
    if isinstance(answer, Answer) and prompt is not None and answers_room.misfit(answer, prompt) is not None:
        return replace(recollection, answer=None)
    return recollection


def arrange(tickets: Sequence[Ticket], size: int) -> list[list[Ticket]]:
    """Batches of at most `size`, of similar length (padding costs time), those that share an image side by side.

    Batches are in the order of their first test, tickets that have equally much to read in the order given.
    """
    place = {ticket: number for number, ticket in enumerate(tickets)}
    groups: dict[object, list[Ticket]] = {}
    for ticket in tickets:
        images = ticket.prompt.images if ticket.prompt is not None else ()
        groups.setdefault(images[0] if images else ticket, []).append(ticket)
    ordered = [ticket for group in sorted(groups.values(), key=_load) for ticket in group]
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return sorted(batches, key=lambda batch: min(place[ticket] for ticket in batch))


def _load(group: Sequence[Ticket]) -> tuple[int, int]:
    """What a model has to read for the largest prompt of a group: images, and characters."""
    prompts = [ticket.prompt for ticket in group if ticket.prompt is not None]
    return max((len(prompt.images), len(prompt.text)) for prompt in prompts)


def _end(tickets: Iterable[Ticket], why: str) -> None:
    """End in errors what has not ended yet."""
    for ticket in tickets:
        if not ticket.done:
            ticket.answer = AnswerError(why)


class Streamed:
    """The model as tests get it, a `medvqa.items.Model`: what they ask of it goes through the stream.

    All else that it declares is had by `backend`.
    """

    def __init__(
        self, model: Backend, stream: Stream, prepare: Callable[[Prompt], Prompt] = lambda prompt: prompt
    ) -> None:
        """Stand in for the model. `prepare` completes a prompt of a test's own, for instance by the limit in force."""
        self.backend = model
        self._stream = stream
        self._prepare = prepare

    @property
    def name(self) -> str:
        """The model's title."""
        return self.backend.title

    @property
    def capabilities(self) -> Collection[str]:
        """What the model can do."""
        return self.backend.capabilities or frozenset()

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt, asked by the thread that asks all others."""
        return self._stream.generate([self._prepare(prompt) for prompt in prompts])
