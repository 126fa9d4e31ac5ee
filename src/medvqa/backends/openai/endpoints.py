"""The servers that answer: choose one for each request, leave out those that are down or serve another model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from medvqa import printing
from medvqa.backends.openai.addresses import ServerAddress
from medvqa.backends.openai.gates import RequestGate
from medvqa.backends.openai.requests import RequestFailure, http_client
from medvqa.backends.openai.serving import LONGEST, ServedModel, difference, served_model

if TYPE_CHECKING:
    from openai import AsyncOpenAI

IN_A_ROW = 3
"""Failures in a row, of requests that got no answer, after which an endpoint is left out. A refused connection is
enough by itself."""
FIRST_WAIT = 1.0
"""Seconds before an endpoint that was left out is asked again; doubled each time until it answers a question."""
LONGEST_WAIT = 60.0
LONGEST_ASKED = 3600.0
"""Most seconds that an endpoint is left out because it asks for it."""


class Endpoint:
    """One server: its client, its gate and its counters.

    `state`: "new" until it said which model it serves; "out" while it is left out, "refused" if that is for good.
    """

    def __init__(self, address: ServerAddress, ceiling: int) -> None:
        """`ceiling`: its largest number of requests in flight. `Endpoints.connect` makes the client."""
        self.address = address
        self.gate = RequestGate(ceiling)
        self.client: AsyncOpenAI
        self.state: Literal["new", "live", "out", "refused"] = "new"
        self.why = ""
        """The last reason why it was left out."""
        self.note = ""
        """Why it could not be asked which model it serves."""
        self.requests = self.answers = self.failures = self.times_out = 0
        self.in_a_row = self.strikes = 0
        self.since = 0.0
        """The time (monotonic) of the last change of the state."""
        self.seconds_out = 0.0

    @property
    def out(self) -> bool:
        """Whether it is left out."""
        return self.state in ("out", "refused")

    def counters(self) -> dict[str, Any]:
        """Return its numbers for run.json."""
        now_out = time.monotonic() - self.since if self.out else 0.0
        return {
            "requests": self.requests,
            "answers": self.answers,
            "failures": self.failures,
            "left_out": self.times_out,
            "left_out_seconds": round(self.seconds_out + now_out, 3),
            "state": "left out" if self.out else "in use",
            "why": self.why,
            "note": self.note,
        }


class Endpoints:
    """The endpoints of one model. All methods but `counters` run in one event loop.

    A single endpoint is never left out, nor asked which model it serves: it may be a load balancer.
    """

    def __init__(
        self, servers: Sequence[ServerAddress], name: str, ceiling: int, redact: Callable[[str], str] = str
    ) -> None:
        """`name`: of the model. `ceiling`: requests in flight at each server. `redact` removes keys from a text."""
        self.all = tuple(Endpoint(address, ceiling) for address in servers)
        self._name = name
        self._redact = redact
        self._waiting: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: asyncio.Task[None] | None = None
        self._facts: dict[Endpoint, Mapping[str, str]] = {}
        self._served_by: tuple[str, Endpoint] | None = None

    def connect(self, key: str, timeout: float) -> None:
        """Make the clients, without connecting; `timeout`: seconds of a request."""
        import openai

        for endpoint in self.all:
            endpoint.client = openai.AsyncOpenAI(
                api_key=key or "none",
                base_url=endpoint.address.url,
                max_retries=0,  # retries are ours, so that they can slow all requests down
                timeout=timeout,
                http_client=http_client(local=not endpoint.address.remote),
            )

    async def close(self) -> None:
        """End all tasks and connections."""
        tasks = [*self._tasks, *((self._begun,) if self._begun is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for endpoint in self.all:
            await endpoint.client.close()

    def resize(self, ceiling: int) -> None:
        """Set the largest number of requests in flight at each server; call it before the first request."""
        for endpoint in self.all:
            endpoint.gate = RequestGate(ceiling)

    def counters(self) -> dict[str, dict[str, Any]]:
        """Return the numbers of each endpoint by its URL; {} for a single one. Any thread may call it."""
        if len(self.all) == 1:
            return {}
        return {endpoint.address.url: endpoint.counters() for endpoint in self.all}

    # --- requests ---------------------------------------------------------------------------------------------

    async def take(self, tried: Collection[Endpoint]) -> Endpoint:
        """Wait for the endpoint with the most room, and hold one place there until `release`.

        Endpoints in `tried` are taken only if all others are left out. RequestFailure if every endpoint is left out.
        """
        await self._begin()
        while True:
            live = [endpoint for endpoint in self.all if not endpoint.out]
            if not live:
                raise RequestFailure(self._none_left(), again=any(each.state == "out" for each in self.all))
            allowed = [endpoint for endpoint in live if endpoint not in tried] or live
            now = time.monotonic()
            best = max(allowed, key=lambda endpoint: (endpoint.gate.room(now), -endpoint.requests))
            if best.gate.room(now) > 0:
                best.gate.in_flight += 1
                return best
            resumes = [endpoint.gate.resume for endpoint in allowed if endpoint.gate.resume > now]
            await self._change(min(resumes) - now if resumes else None)

    def others(self, tried: Collection[Endpoint]) -> bool:
        """Return whether an endpoint besides `tried` is not left out."""
        return any(not endpoint.out and endpoint not in tried for endpoint in self.all)

    def release(self, endpoint: Endpoint) -> None:
        """Give the place of a request back."""
        endpoint.gate.in_flight -= 1
        self._wake()

    def answered(self, endpoint: Endpoint, served_by: str) -> None:
        """Count an answer. RequestFailure if the endpoint names another model than the first answer: it is left out."""
        if len(self.all) > 1 and served_by:
            if self._served_by is None:
                self._served_by = served_by, endpoint
            elif served_by != self._served_by[0]:
                before, first = self._served_by
                where = "it" if first is endpoint else first.address.url
                why = f"it answers as {_short(served_by)}, and {where} answered as {_short(before)}"
                self._leave_out(endpoint, why, refused=True)
                raise RequestFailure(f"another model: {why}", again=True, down=True)
        endpoint.answers += 1
        endpoint.in_a_row = endpoint.strikes = 0
        endpoint.gate.answered()

    def failed(self, endpoint: Endpoint, failure: RequestFailure, started: float, *, unavailable: bool) -> None:
        """Count a failure of a request sent at `started` (monotonic); leave the endpoint out if it seems to be down.

        `unavailable`: the server asks to wait longer than an item would.
        """
        endpoint.failures += 1
        if len(self.all) == 1 or endpoint.out or started < endpoint.since:
            return
        if unavailable:
            self._leave_out(endpoint, str(failure), wait=failure.wait or 0.0)
        elif not failure.down:
            endpoint.in_a_row = 0
        else:
            endpoint.in_a_row += 1
            if failure.gone or endpoint.in_a_row >= IN_A_ROW:
                self._leave_out(endpoint, str(failure))

    def _none_left(self) -> str:
        said = "; ".join(f"{endpoint.address.origin}: {endpoint.why}" for endpoint in self.all)
        return f"all {len(self.all)} endpoints are left out: {said}"

    async def _change(self, timeout: float | None) -> None:
        """Wait until an endpoint may have room, at most `timeout` seconds."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await waiter
        finally:
            self._waiting.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    # --- which model they serve -------------------------------------------------------------------------------

    async def ask_all(self) -> list[ServedModel | RequestFailure]:
        """Ask all endpoints at once which model they serve; changes no state."""
        return await asyncio.gather(*map(self._asked, self.all))

    async def _asked(self, endpoint: Endpoint) -> ServedModel | RequestFailure:
        try:
            return await served_model(endpoint.client, self._name, self._redact)
        except RequestFailure as failure:
            return failure

    async def _begin(self) -> None:
        """Ask all endpoints which model they serve, once, before the first request."""
        if len(self.all) == 1:
            return
        if self._begun is None:
            self._begun = asyncio.ensure_future(self._meet())
        await asyncio.shield(self._begun)

    async def _meet(self) -> None:
        for endpoint, said in zip(self.all, await self.ask_all(), strict=True):
            if isinstance(said, RequestFailure):
                self._leave_out(endpoint, str(said))
            else:
                self._admit(endpoint, said)

    def _admit(self, endpoint: Endpoint, said: ServedModel) -> None:
        """Let an endpoint answer, or leave it out for good if it serves another model than those before it."""
        for first, facts in self._facts.items():
            if (differs := difference(facts, said.facts)) is not None:
                before = "it served" if first is endpoint else f"{first.address.url} serves"
                self._leave_out(endpoint, f"it serves {differs[1]}, and {before} {differs[0]}", refused=True)
                return
        self._facts.setdefault(endpoint, said.facts)
        endpoint.note = said.unasked
        now = time.monotonic()
        if endpoint.state == "out":
            endpoint.seconds_out += now - endpoint.since
            # One more failure is enough.
            endpoint.in_a_row = IN_A_ROW - 1
        endpoint.state, endpoint.since = "live", now
        self._wake()

    # --- left out ---------------------------------------------------------------------------------------------

    def _leave_out(self, endpoint: Endpoint, why: str, *, refused: bool = False, wait: float = 0.0) -> None:
        now = time.monotonic()
        if endpoint.out:
            endpoint.seconds_out += now - endpoint.since
        else:
            endpoint.times_out += 1
        endpoint.state, endpoint.since = "refused" if refused else "out", now
        endpoint.why, endpoint.in_a_row = _short(self._redact(why)), 0
        if not refused:
            task = asyncio.ensure_future(self._revive(endpoint, wait))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # Whoever waits for it must choose another one.
        self._wake()

    async def _revive(self, endpoint: Endpoint, wait: float) -> None:
        """Ask an endpoint again, after growing waits, until it says which model it serves."""
        while endpoint.state == "out":
            await asyncio.sleep(max(min(FIRST_WAIT * 2**endpoint.strikes, LONGEST_WAIT), min(wait, LONGEST_ASKED)))
            wait, endpoint.strikes = 0.0, min(endpoint.strikes + 1, 30)
            said = await self._asked(endpoint)
            if isinstance(said, RequestFailure):
                endpoint.why = _short(self._redact(str(said)))
            else:
                self._admit(endpoint, said)


def _short(text: str) -> str:
    text = printing.line(" ".join(text.split()))
    return text if len(text) <= 2 * LONGEST else f"{text[: 2 * LONGEST]}..."


def differing(
    endpoints: Sequence[Endpoint], answers: Sequence[ServedModel | RequestFailure]
) -> tuple[Endpoint, str, Endpoint, str] | None:
    """Return two endpoints that serve different models, each with what it says; None if none differ."""
    told = [(e, said.facts) for e, said in zip(endpoints, answers, strict=True) if isinstance(said, ServedModel)]
    for number, (one, facts) in enumerate(told):
        for other, others in told[number + 1 :]:
            if (differs := difference(facts, others)) is not None:
                return one, differs[0], other, differs[1]
    return None
