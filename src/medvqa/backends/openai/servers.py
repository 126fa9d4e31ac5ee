"""The servers of a model: choose one for each request, ask again, leave out those that are down or serve another model.

A single server is never left out, nor asked which model it serves: it may be a load balancer.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from medvqa.answers import redacted
from medvqa.backends.openai.addresses import ServerAddress
from medvqa.backends.openai.requests import RequestFailure, client_of
from medvqa.backends.openai.server_options import OpenAIOptions
from medvqa.backends.openai.serving import LONGEST, ServedModel, difference, served_model, shown
from medvqa.items import Answer, AnswerError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")

BACKOFF = 0.5
"""Seconds before the second request for a prompt if the server names no time; doubled for each further one."""
IN_A_ROW = 3
"""Failures in a row, of requests that got no answer, after which a server is left out. A refused connection is enough
by itself."""
FIRST_WAIT = 1.0
"""Seconds before a server that was left out is asked again; doubled each time until it answers a question."""
LONGEST_WAIT = 60.0
LONGEST_ASKED = 3600.0
"""Most seconds that a server is left out because it asks for it."""


@dataclass(eq=False)
class Server:
    """One server: how many requests it may have, whether it is left out, what it said, and its counters.

    If it is busy, its limit halves, once for all requests in flight. The limit grows by one after each `limit` answers,
    up to the ceiling. Times are monotonic.

    `resume`: when it gets requests again, if it asked to wait. `halved`: when its limit last halved, and
    `answers_at_limit`: answers since the limit changed. `state`: "refused" if it is left out for good; `since`: when
    that changed; `why`: the last reason; `pause`: seconds before it is asked again. `in_a_row`: its last failures
    without any answer. `facts`: what it first said about its model; `note`: why it could not be asked.
    """

    address: ServerAddress
    client: AsyncOpenAI
    ceiling: int = 1
    limit: int = 1
    in_flight: int = 0
    resume: float = 0.0
    halved: float = 0.0
    answers_at_limit: int = 0
    state: Literal["in use", "left out", "refused"] = "in use"
    since: float = 0.0
    why: str = ""
    pause: float = field(default_factory=lambda: FIRST_WAIT)
    in_a_row: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    requests: int = 0
    answers: int = 0
    failures: int = 0
    times_out: int = 0
    seconds_out: float = 0.0
    revival: asyncio.Task[None] | None = None

    def room(self, now: float) -> int:
        """Return the number of requests that may be sent at the time `now` (monotonic)."""
        return self.limit - self.in_flight if self.resume <= now else 0

    def answered(self) -> None:
        """Count an answer."""
        self.answers += 1
        self.in_a_row, self.pause = 0, FIRST_WAIT
        self.answers_at_limit += 1
        if self.answers_at_limit >= self.limit:
            self.answers_at_limit, self.limit = 0, min(self.limit + 1, self.ceiling)

    def busy(self, started: float, wait: float) -> None:
        """Note that it refused a request sent at `started`; `wait` (seconds) before the next."""
        now = time.monotonic()
        self.resume = max(self.resume, now + wait)
        if started >= self.halved:
            self.halved, self.answers_at_limit, self.limit = now, 0, max(self.limit // 2, 1)

    def counters(self) -> dict[str, Any]:
        """Return its numbers for run.json."""
        out = self.state != "in use"
        return {
            "requests": self.requests,
            "answers": self.answers,
            "failures": self.failures,
            "left_out": self.times_out,
            "left_out_seconds": round(self.seconds_out + (time.monotonic() - self.since if out else 0.0), 3),
            "state": "left out" if out else "in use",
            "why": self.why,
            "note": self.note,
        }


Send = Callable[[Server], Awaitable[Answer]]
"""Sends a request to a server, and returns its answer; raises RequestFailure."""


class Servers:
    """All servers of a model, and the thread with the event loop in which they are asked."""

    def __init__(self, addresses: Iterable[ServerAddress], name: str, key: str, options: OpenAIOptions) -> None:
        """Make the clients without connecting. `name`: of the model."""
        self.all = tuple(Server(address, client_of(address, key, options.timeout)) for address in addresses)
        self._name, self._key, self._options = name, key, options
        self._several = len(self.all) > 1
        self._changed = asyncio.Event()
        """Set and replaced when a server may have room."""
        self._met: asyncio.Task[None] | None = None
        self._first: tuple[str, Server] | None = None
        """The model that the first answer names, and its server."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"openai:{name}", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns, run in the thread of the servers. Any thread may call it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # of no effect but when an interrupt ended the wait

    def close(self) -> None:
        """End the connections and the thread."""
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        tasks = [task for task in (self._met, *(server.revival for server in self.all)) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self.all:
            await server.client.close()

    def limit(self, ceiling: int) -> None:
        """Set the largest number of requests in flight at each server."""
        for server in self.all:
            if server.ceiling != ceiling:
                server.limit = server.ceiling = ceiling

    def counters(self) -> dict[str, dict[str, Any]]:
        """Return the numbers of each server by its URL; {} for a single one. Any thread may call it."""
        return {server.address.url: server.counters() for server in self.all} if self._several else {}

    def redact(self, text: str) -> str:
        """Return a text without the key: a server may echo its request."""
        return redacted(text, (self._key,))

    # --- requests ---------------------------------------------------------------------------------------------

    async def ask(self, send: Send) -> Answer:
        """Return the answer of one of the servers; AnswerError after the last retry, with the reason.

        The usage of requests that failed is added to the answer's.
        """
        number, spent = 1, Counter[str]()
        most, retries = self._options.max_wait, self._options.retries
        while True:
            backoff = min(BACKOFF * 2 ** min(number - 1, 30), most) * random.uniform(0.5, 1)  # noqa: S311 - no secret
            try:
                answer = await self._round(send, backoff, spent)
                if spent:
                    spent.update(answer.usage or {})
                    answer = replace(answer, usage=dict(spent))
                return answer
            except RequestFailure as failure:
                wait = failure.seconds(backoff)
                if not failure.again:
                    end = ""
                elif wait > most:
                    end = f"; waiting {wait:.0f} s would be longer than max_wait"
                elif number > retries:
                    end = f" (after {number} requests)"
                else:
                    number += 1
                    await asyncio.sleep(wait)
                    continue
                # Redact before cutting, so that no part of the key is left.
                said = " ".join(self.redact(f"{failure}{end}").split())[:400]
                raise AnswerError(f"{failure.origin}: {said}" if failure.origin else said) from None

    async def _round(self, send: Send, backoff: float, spent: Counter[str]) -> Answer:
        """Ask the server with the most room. If it is down or busy ask the others, until each failed once."""
        tried: set[Server] = set()
        while True:
            server = await self._take(tried)
            tried.add(server)
            started = time.monotonic()
            try:
                answer = await send(server)
                self._accept(server, answer)
                return answer
            except RequestFailure as failure:
                failure.origin = server.address.origin
                spent.update(failure.usage or {})
                elsewhere = self._failed(server, failure, started, failure.seconds(backoff))
                if not (elsewhere and any(other not in tried for other in self._in_use())):
                    raise
            finally:
                server.in_flight -= 1
                self._wake()

    def _in_use(self) -> list[Server]:
        return [server for server in self.all if server.state == "in use"]

    async def _take(self, tried: Collection[Server]) -> Server:
        """Wait for the server with the most room, and hold one place there.

        Servers in `tried` are taken only if all others are left out. RequestFailure if every server is left out.
        """
        if self._several:
            self._met = self._met or asyncio.ensure_future(self._meet(self.all))
            await asyncio.shield(self._met)
        while True:
            in_use = self._in_use()
            if not in_use:
                said = "; ".join(f"{server.address.origin}: {server.why}" for server in self.all)
                again = any(server.state == "left out" for server in self.all)
                raise RequestFailure(f"all {len(self.all)} endpoints are left out: {said}", again)
            allowed = [server for server in in_use if server not in tried] or in_use
            now = time.monotonic()
            best = max(allowed, key=lambda server: (server.room(now), -server.requests))
            if best.room(now) > 0:
                best.in_flight += 1
                return best
            rests = [server.resume - now for server in allowed if server.resume > now]
            with suppress(TimeoutError):
                async with asyncio.timeout(min(rests, default=None)):
                    await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _accept(self, server: Server, answer: Answer) -> None:
        """Count an answer. If it names another model than the first one, leave its server out (RequestFailure)."""
        if self._several and answer.served_by:
            before, first = self._first = self._first or (answer.served_by, server)
            if answer.served_by != before:
                where = "it" if first is server else first.address.url
                now, before = shown(answer.served_by, 2 * LONGEST), shown(before, 2 * LONGEST)
                why = f"it answers as {now}, and {where} answered as {before}"
                self._leave_out(server, why, for_good=True)
                raise RequestFailure(f"another model: {why}", lost=True, usage=answer.usage)
        server.answered()

    def _failed(self, server: Server, failure: RequestFailure, started: float, wait: float) -> bool:
        """Count a failure of a request sent at `started`; leave the server out if it seems to be down.

        `wait`: seconds before another request. Return whether another server may be asked at once.
        """
        server.failures += 1
        too_long = wait > self._options.max_wait
        if failure.busy and not too_long:
            server.busy(started, wait)
        # A request of before its last change says nothing.
        if self._several and server.state == "in use" and started >= server.since:
            server.in_a_row = server.in_a_row + 1 if failure.down else 0
            if failure.gone or server.in_a_row >= IN_A_ROW or (too_long and failure.again):
                self._leave_out(server, str(failure), wait=failure.wait or 0.0)
        return failure.again and (failure.down or failure.busy or too_long)

    # --- which model they serve -------------------------------------------------------------------------------

    async def ask_models(self, servers: Sequence[Server]) -> list[ServedModel | RequestFailure]:
        """Ask servers at once which model they serve; change no state."""

        async def asked(server: Server) -> ServedModel | RequestFailure:
            try:
                return await served_model(server.client, self._name, self.redact)
            except RequestFailure as failure:
                return failure

        return await asyncio.gather(*map(asked, servers))

    def conflict(self, server: Server, facts: Mapping[str, str]) -> tuple[Server, str, str] | None:
        """Return a server that said otherwise about its model, what it said, and what `server` says now.

        If there is none, return None and remember the facts.
        """
        for first in self.all:
            if (differs := difference(first.facts, facts)) is not None:
                return first, *differs
        server.facts = server.facts or facts
        return None

    async def _meet(self, servers: Sequence[Server]) -> None:
        """Ask servers which model they serve; use those that serve the same one, leave the others out."""
        for server, said in zip(servers, await self.ask_models(servers), strict=True):
            if isinstance(said, RequestFailure):
                self._leave_out(server, str(said))
            elif (conflict := self.conflict(server, said.facts)) is not None:
                first, before, after = conflict
                serves = "it served" if first is server else f"{first.address.url} serves"
                self._leave_out(server, f"it serves {after}, and {serves} {before}", for_good=True)
            else:
                server.note = said.unasked
                if server.state == "left out":
                    now = time.monotonic()
                    server.seconds_out += now - server.since
                    # One more failure is enough.
                    server.state, server.since, server.in_a_row = "in use", now, IN_A_ROW - 1
                    self._wake()

    def _leave_out(self, server: Server, why: str, *, wait: float = 0.0, for_good: bool = False) -> None:
        """Give a server no more requests; if not `for_good`, ask it again after `wait` seconds or more."""
        server.why = shown(self.redact(why), 2 * LONGEST)
        if server.state == "in use":
            server.state, server.since = "left out", time.monotonic()
            server.times_out += 1
            if not for_good:
                server.revival = asyncio.ensure_future(self._revive(server, wait))
        if for_good:
            server.state = "refused"
        # Whoever waits for it must choose another one.
        self._wake()

    async def _revive(self, server: Server, wait: float) -> None:
        """Ask a server again, after growing waits, until it says which model it serves."""
        while server.state == "left out":
            await asyncio.sleep(max(server.pause, min(wait, LONGEST_ASKED)))
            wait, server.pause = 0.0, min(2 * server.pause, LONGEST_WAIT)
            await self._meet([server])
