"""The copies of a model on a cluster: actors that Ray places and starts again, fed by the lanes of the stream."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import medvqa
from medvqa import answers, printing
from medvqa.backend import clock
from medvqa.backends.ray.actor import BEGUN, UNLOADED, ActorPlace, CopyProblem, LoadedCopy, ModelActor
from medvqa.backends.ray.cluster import Amounts, Cluster, actor_options, none_fits, room, shown
from medvqa.items import Answer, AnswerError, BatchLost, Item, MedVQAError, Prompt, UsageError

IN_FLIGHT = 2
"""Batches in flight for each actor: one is computed, and the next is there already."""
PLACING = 60.0
"""Seconds within which the first copy must find its place."""
STARTING = 5.0
"""Least seconds that the run waits for further copies once the first is loaded."""
ABSENT = 600.0
"""Seconds after which batches end in errors if no copy is left."""
GROWING = 2.0
"""Seconds between two looks for new nodes."""
TICK = 0.2
"""Seconds between two looks at copies that are being loaded."""
VERDICT = 1.0
"""Seconds after which a node that still answers counts as alive, though its actor has died."""
LATE = 5.0
"""Seconds beyond a deadline after which an actor is started again."""
RECENT = 30.0
"""Seconds over which the rate is computed."""
DEATHS = 3
"""How often a copy's process may die while it loads the model."""
MAX_PROBLEMS = 20
"""Messages about copies that are kept."""


class OutOfMemoryError(Exception):
    """A copy ran out of memory. The engine knows the name, and tries smaller batches."""


@dataclass(eq=False, slots=True)
class _Flight:
    """A batch at an actor; `place` is the actor's process when it was sent. `alone`: no other may be there."""

    place: ActorPlace | None
    alone: bool = False
    begun: bool = False


@dataclass(eq=False, slots=True)
class _Replica:
    """One copy. `state`: "starting" until it is loaded, also again after its death; then "ready", or "refused".

    `asking` is what the actor was asked on its way to be ready, `where` or `start`; `reference` is Ray's reference to
    the reply.
    """

    handle: Any
    state: Literal["starting", "ready", "refused"] = "starting"
    asking: Literal["where", "start"] = "where"
    reference: Any = None
    place: ActorPlace | None = None
    flights: list[_Flight] = field(default_factory=list)
    reserved: bool = False
    loaded: bool = False
    deaths: int = 0
    """How often its process died while it loaded the model, since it was last ready."""


class RayPool:
    """Copies of one model. Lanes call `ask`; a thread of the pool watches the copies and adds more."""

    def __init__(
        self,
        cluster: Cluster,
        content: bytes,
        title: str,
        needs: Amounts,
        replicas: int | None,
        *,
        depth: int,
        threads: int,
    ) -> None:
        """Start the copies and wait until they are loaded (UsageError).

        `content` is the pickled model. `replicas`: None for as many as fit. `depth`: batches in flight for each, unless
        the model has a `concurrency`. `threads`: calls that a copy takes at once.
        """
        self._cluster = cluster
        self._content = content
        self._title = title
        self._needs = needs
        self._wanted = replicas
        self._depth = depth
        self._threads = threads
        self._items: Any = None
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._replicas: list[_Replica] = []
        self._suspects: set[tuple[object, ...]] = set()
        self._rate: deque[tuple[float, int, int]] = deque()
        self._restarts = 0
        self._problems: list[str] = []
        self._closed = False
        self._absent_since = time.monotonic()
        self._grown = 0.0
        self._keeper: threading.Thread | None = None
        self.loaded: LoadedCopy
        """What the first copy said about itself; all others agree."""

    # --- the start --------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the copies and wait until they are loaded (UsageError)."""
        nodes = self._cluster.nodes()
        if not any(room(node["Resources"], self._needs) for node in nodes):
            raise none_fits(self._title, self._needs, nodes)
        self._add(1 if self._wanted is None else self._wanted)
        if self._wanted is None:
            # The first copy is not placed yet, so that its place counts as free.
            self._grow(placed=1)
        self._await_first()
        self._keeper = threading.Thread(target=self._keep, daemon=True, name="medvqa-ray-pool")
        self._keeper.start()

    def _add(self, count: int) -> None:
        import ray

        remote = ray.remote(ModelActor)
        for _ in range(count):
            handle = remote.options(
                max_restarts=-1,
                max_task_retries=0,
                max_concurrency=self._threads,
                scheduling_strategy="SPREAD",
                **actor_options(self._needs),
            ).remote(self._content)
            self._replicas.append(_Replica(handle, reference=handle.where.remote()))

    def _await_first(self) -> None:
        """Wait until the first copy is loaded, and then for the others, not much longer (UsageError)."""
        began, first = time.monotonic(), None
        while True:
            self._look(TICK)
            now = time.monotonic()
            ready = [replica for replica in self._replicas if replica.state == "ready"]
            starting = [replica for replica in self._replicas if replica.state == "starting"]
            if not ready and not starting:
                raise UsageError(self._problems[-1] if self._problems else "ray: no copy could be started")
            if ready and first is None:
                first = now
            if first is not None and (not starting or now > first + max(STARTING, first - began)):
                return
            if first is None and now > began + PLACING and all(replica.place is None for replica in starting):
                import ray

                raise UsageError(
                    f"ray: no copy of '{self._title}' found a place within {PLACING:g} s: it takes "
                    f"{shown(self._needs)}, and of the whole cluster {shown(ray.available_resources())} are free"
                )

    def fit(self, items: Sequence[Item]) -> None:
        """Fit all copies to the items of the run (UsageError)."""
        import ray

        with self._lock:
            self._items = ray.put(list(items))
            ready = [(replica, replica.place) for replica in self._replicas if replica.state == "ready"]
        replies = [(replica, place, replica.handle.start.remote(self._items)) for replica, place in ready]
        for replica, place, reply in replies:
            try:
                outcome = ray.get(reply)
            except ray.exceptions.RayActorError:
                self._lost(replica, place)
                continue
            if isinstance(outcome, CopyProblem):
                raise UsageError(outcome.line)

    # --- lanes ------------------------------------------------------------------------------------------------

    @property
    def concurrency(self) -> int:
        """The batches that all copies together take now, those that are being started again included."""
        number = sum(replica.loaded and replica.state != "refused" for replica in tuple(self._replicas))
        return max(number, 1) * self.depth

    @property
    def depth(self) -> int:
        """The batches in flight for each copy."""
        return self.loaded.concurrency or self._depth

    def ask(self, prompts: Sequence[Prompt], parcel: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Return the answers of a copy. `parcel`: the prompts with the bytes of their images.

        BatchLost if the copy died; MedVQAError and other exceptions as the model raised them.
        """
        timing = clock()
        timing.queued()
        replica, flight = self._take(prompts)
        try:
            outcome = self._answered(replica, flight, parcel, timing.begun)
        finally:
            with self._lock:
                replica.flights.remove(flight)
                if flight.alone:
                    replica.reserved = False
                self._news.notify_all()
        if isinstance(outcome, CopyProblem):
            if outcome.kind == "memory":
                raise OutOfMemoryError(outcome.line)
            raise MedVQAError(outcome.line)
        now = time.monotonic()
        with self._lock:
            self._rate.append((now, len(outcome), sum(replica.state == "ready" for replica in self._replicas)))
            while self._rate[0][0] < now - RECENT:
                self._rate.popleft()
        return outcome

    def _take(self, prompts: Sequence[Prompt]) -> tuple[_Replica, _Flight]:
        """Wait for a copy with room for a batch; one with a suspect question gets a copy of its own meanwhile."""
        with self._lock:
            alone = any(_identity(prompt) in self._suspects for prompt in prompts)
            reserved: _Replica | None = None
            while not self._closed:
                if reserved is not None and reserved.state != "ready":
                    reserved.reserved, reserved = False, None
                if reserved is None:
                    replica = self._least_busy(self.depth if not alone else None)
                    if alone and replica is not None:
                        replica.reserved, reserved = True, replica
                else:
                    replica = reserved
                if replica is not None and not (alone and replica.flights):
                    flight = _Flight(replica.place, alone)
                    replica.flights.append(flight)
                    return replica, flight
                self._check_presence()
                self._news.wait(1.0)
        raise BatchLost("ray: the pool was closed")

    def _least_busy(self, depth: int | None) -> _Replica | None:
        """Return the copy with the fewest batches, less than `depth` (None: any number); None without one."""
        free = [
            replica
            for replica in self._replicas
            if replica.state == "ready" and not replica.reserved and (depth is None or len(replica.flights) < depth)
        ]
        return min(free, key=lambda replica: len(replica.flights), default=None)

    def _check_presence(self) -> None:
        """Raise MedVQAError if no copy has been there for long."""
        if (
            any(replica.state == "ready" for replica in self._replicas)
            or time.monotonic() < self._absent_since + ABSENT
        ):
            return
        why = f": {self._problems[-1]}" if self._problems else ""
        raise MedVQAError(f"ray: no copy of '{self._title}' has been there for {ABSENT:g} s{why}")

    def _answered(
        self, replica: _Replica, flight: _Flight, parcel: Sequence[Prompt], begin: Callable[[], float | None]
    ) -> list[Answer | AnswerError] | CopyProblem:
        """Send a batch to an actor and wait for its answers (BatchLost)."""
        import ray

        try:
            # The actor goes on after its note only once the note has been read here.
            stream = replica.handle.answer.options(
                num_returns="streaming", _generator_backpressure_num_objects=1
            ).remote(parcel)
            note = ray.get(next(stream))
            if note == UNLOADED:
                self._lost(replica, flight.place)
                raise BatchLost("ray: a copy was started again")
            if note != BEGUN:
                raise MedVQAError(f"ray: an actor sent a {type(note).__name__} instead of its note")
            flight.begun = True
            allowed = begin()
            ready, _ = ray.wait([stream], timeout=None if allowed is None else allowed + LATE)
            if not ready:
                self._kill_hanging(replica, flight.place)
                raise MedVQAError(f"ray: no answer within {allowed:.10g} s; the copy was started again")
            return _checked(ray.get(next(stream)))
        except ray.exceptions.RayTaskError as error:
            raise MedVQAError(f"ray: {_line(error)}") from error
        except StopIteration as error:
            raise BatchLost("ray: a copy ended without an answer") from error
        except ray.exceptions.RayError as error:
            raise self._verdict(replica, flight, error) from error

    def _verdict(self, replica: _Replica, flight: _Flight, error: Exception) -> BatchLost:
        """Return what a lost actor means for the batch: it is suspect if the actor computed it, and its node lives."""
        place = flight.place
        self._lost(replica, place)
        name = "an unknown node" if place is None else f"node {printing.line(place.address)}"
        if self._closed:
            return BatchLost("ray: the pool was closed")
        if not flight.begun:
            return BatchLost(f"ray: the process of a copy on {name} was lost before it began this batch")
        if place is not None and self._node_died(place.node):
            return BatchLost(f"ray: {name} was lost")
        return BatchLost(f"ray: the process of a copy on {name} died while it computed this batch", suspect=True)

    def _node_died(self, node: str) -> bool:
        """Return whether a node died. A node that is about to end may answer for a moment."""
        if self._cluster.died(node):
            return True
        with self._lock:
            self._news.wait_for(lambda: self._closed, VERDICT)
        return self._cluster.died(node)

    def mark(self, prompts: Sequence[Prompt]) -> None:
        """Note suspect questions: each is asked when no other is at its copy."""
        with self._lock:
            self._suspects.update(map(_identity, prompts))

    def _kill_hanging(self, replica: _Replica, place: ActorPlace | None) -> None:
        import ray

        self._problem("a batch passed its deadline, and its copy was started again")
        ray.kill(replica.handle, no_restart=False)
        self._lost(replica, place)

    def _lost(self, replica: _Replica, place: ActorPlace | None) -> None:
        """Note that an actor's process died, once; Ray starts it again, and the keeper loads its model."""
        with self._lock:
            if replica.state != "ready" or replica.place is not place or self._closed:
                return
            self._restarts += 1
            replica.state, replica.asking, replica.place = "starting", "where", None
            replica.reference = replica.handle.where.remote()
            if not any(replica.state == "ready" for replica in self._replicas):
                self._absent_since = time.monotonic()
            self._news.notify_all()

    # --- the keeper's thread ----------------------------------------------------------------------------------

    def _keep(self) -> None:
        while not self._closed:
            try:
                self._look(TICK)
                if self._wanted is None and time.monotonic() > self._grown + GROWING:
                    self._grown = time.monotonic()
                    self._grow()
            except Exception as error:  # noqa: BLE001 - the run goes on with the copies that it has
                self._problem(_line(error))
                time.sleep(GROWING)
            with self._lock:
                # Without anything to look at, `_look` returns at once.
                self._news.wait_for(lambda: self._closed, TICK)

    def _look(self, seconds: float) -> None:
        """Take a step with each copy that is being started and has replied."""
        import ray

        with self._lock:
            starting = {replica.reference: replica for replica in self._replicas if replica.state == "starting"}
        if not starting:
            return
        replied, _ = ray.wait(list(starting), num_returns=1, timeout=seconds)
        for reference in replied:
            replica = starting[reference]
            try:
                self._step(replica, ray.get(reference))
            except ray.exceptions.ActorUnavailableError:
                replica.deaths += replica.asking == "start"
                if replica.deaths >= DEATHS:
                    self._refuse(replica, f"its process died {replica.deaths} times while it loaded the model")
                    continue
                replica.asking, replica.place = "where", None
                replica.reference = replica.handle.where.remote()
            except ray.exceptions.RayError as error:
                self._refuse(replica, _reason(error))

    def _step(self, replica: _Replica, outcome: object) -> None:
        if isinstance(outcome, ActorPlace):
            replica.place, replica.asking = outcome, "start"
            if outcome.version != medvqa.__version__:
                self._refuse(
                    replica,
                    f"node {printing.line(outcome.address)} has pytest-medvqa {printing.line(outcome.version)}, and "
                    f"this process {medvqa.__version__}",
                )
                return
            replica.reference = replica.handle.start.remote(self._items)
        elif isinstance(outcome, CopyProblem):
            self._refuse(replica, outcome.line)
        elif isinstance(outcome, LoadedCopy):
            first = getattr(self, "loaded", None)
            if first is None:
                self.loaded = outcome
            elif difference := _difference(first, outcome):
                self._refuse(replica, difference)
                return
            if self._items is not None and not outcome.fitted:
                replica.reference = replica.handle.start.remote(self._items)
                return
            with self._lock:
                replica.state, replica.loaded, replica.deaths = "ready", True, 0
                self._news.notify_all()

    def _refuse(self, replica: _Replica, why: str) -> None:
        """Give up a copy that cannot be used."""
        import ray

        place = f" on node {printing.line(replica.place.address)}" if replica.place is not None else ""
        with self._lock:
            replica.state = "refused"
            if not any(replica.state == "ready" for replica in self._replicas):
                self._absent_since = min(self._absent_since, time.monotonic())
            self._news.notify_all()
        self._problem(f"a copy{place} cannot be used: {why}")
        with suppress(Exception):
            ray.kill(replica.handle)

    def _grow(self, placed: int = 0) -> None:
        """Start as many further copies as fit. None while one waits for its place."""
        import ray

        with self._lock:
            waiting = [replica for replica in self._replicas if replica.state == "starting" and replica.place is None]
            refused = Counter(
                replica.place.node for replica in self._replicas if replica.state == "refused" and replica.place
            )
        if len(waiting) > placed:
            return
        free = ray.available_resources()
        # A copy must fit into a node, not only into the sum of what is free.
        nodes = [node for node in self._cluster.nodes() if not refused[node["NodeID"]]]
        most = sum(room(node["Resources"], self._needs) for node in nodes)
        held = sum(replica.state != "refused" for replica in self._replicas)
        new = min(room(free, self._needs), most - held) if placed == 0 else most - held
        if new > 0:
            self._add(new)

    def _problem(self, line: str) -> None:
        with self._lock:
            if len(self._problems) < MAX_PROBLEMS:
                self._problems.append(f"ray: {line}")

    # --- the state and the end ----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the state, as `medvqa.Backend.status`."""
        with self._lock:
            used = [replica for replica in self._replicas if replica.loaded and replica.state != "refused"]
            queue = sum(not flight.begun for replica in self._replicas for flight in replica.flights)
            # Several nodes of a cluster may have one address.
            nodes = Counter(
                f"{replica.place.address} {replica.place.node[:8]}" for replica in used if replica.place is not None
            )
            rate = None
            batches = list(self._rate)
            copies = sum(copies for _, _, copies in batches) / max(len(batches), 1)
            # Copies that began together end together: count from the end of the first batch of each.
            batches = batches[max(round(copies), 1) - 1 :]
            if len(batches) > 1 and (span := batches[-1][0] - batches[0][0]) > 0:
                rate = sum(number for _, number, _ in batches[1:]) / span / max(copies, 1)
            return {
                "replicas": len(used),
                **({} if self._wanted is None else {"replicas_asked": self._wanted}),
                "nodes": dict(nodes),
                "restarts": self._restarts,
                "problems": list(self._problems),
                "queue": queue,
                "rate": rate,
            }

    def close(self) -> None:
        """End the actors. Calls in flight end with BatchLost."""
        import ray

        with self._lock:
            self._closed = True
            self._news.notify_all()
            replicas, self._replicas = self._replicas, []
        for replica in replicas:
            with suppress(Exception):
                # The cluster may be gone.
                ray.kill(replica.handle)
        if self._keeper is not None:
            self._keeper.join(2 * TICK)


def _checked(outcome: object) -> list[Answer | AnswerError] | CopyProblem:
    if isinstance(outcome, list | CopyProblem):
        return outcome
    raise MedVQAError(f"ray: an actor sent a {type(outcome).__name__} instead of answers")


def _difference(first: LoadedCopy, other: LoadedCopy) -> str:
    """Return how a copy differs from the first one, "" if it is the same model."""
    if first.fingerprint != other.fingerprint:
        return (
            f"its fingerprint is {printing.line(str(other.fingerprint))}, and that of the first copy "
            f"{printing.line(str(first.fingerprint))}: its weights, settings, versions or devices are others"
        )
    if first.capabilities != other.capabilities:
        able, first_able = (", ".join(sorted(copy.capabilities)) for copy in (other, first))
        return f"it can {able}, and the first copy {first_able}"
    return ""


def _identity(prompt: Prompt) -> tuple[object, ...]:
    return prompt.benchmark, prompt.item, prompt.technique, prompt.variant, prompt.sample, prompt.text


def _line(error: BaseException) -> str:
    cause = getattr(error, "cause", None)
    shown_error = cause if isinstance(cause, BaseException) else error
    return printing.line(f"{type(shown_error).__name__}: {' '.join(answers.line_of(shown_error).split())}")[:500]


def _reason(error: BaseException) -> str:
    """Return why an actor could not be made, in one line."""
    text = str(error)
    if "No module named 'medvqa" in text:
        return "its node lacks the package pytest-medvqa; install it there, in the Python of the cluster"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else type(error).__name__
    return printing.line(last)[:500]
