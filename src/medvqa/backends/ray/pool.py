"""The copies of a model on a cluster: actors that Ray places and starts again, fed by the lanes of the stream.

Import it once a `Cluster` is open, which sets what Ray reads when it is imported.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ray

import medvqa
from medvqa import printing
from medvqa.backend import Backend, Clock, ModelFacts, clock, said
from medvqa.backends.ray import parcels
from medvqa.backends.ray.actor import BEGUN, ActorPlace, CopyProblem, ModelActor, difference
from medvqa.backends.ray.cluster import Amounts, Cluster, actor_options, none_fits, room, shown
from medvqa.items import Answer, AnswerError, BatchLost, Item, MedVQAError, Prompt, UsageError

IN_FLIGHT = 2
"""Batches in flight for each copy: one is computed, and the next is there already."""
PREPARED = 3
"""Batches in flight for each copy of a model that prepares the next batch while it computes one."""
PLACING = 60.0
"""Seconds within which the first copy must find its place."""
STARTING = 5.0
"""Least seconds that the run waits for further copies once the first is loaded."""
ABSENT = 600.0
"""Seconds after which batches end in errors if no copy is left."""
GROWING = 2.0
"""Seconds between two looks for new nodes."""
TICK = 0.2
"""Seconds before an actor that Ray starts again is asked anew, and for a thread of the pool to end."""
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


@dataclass(eq=False, slots=True)
class _Flight:
    """A batch at an actor; `place` is the actor's process when it was sent. `alone`: no other may be there."""

    place: ActorPlace
    alone: bool
    begun: bool = False


@dataclass(eq=False, slots=True)
class _Replica:
    """One copy. `place`: its process, None until Ray has placed it. `loaded`: it has been `ready` for batches."""

    handle: Any
    lost: threading.Condition
    """Notified once it is no longer ready."""
    place: ActorPlace | None = None
    ready: bool = False
    loaded: bool = False
    flights: list[_Flight] = field(default_factory=list)

    def start_again(self) -> None:
        """Let the actor be asked to load the model, perhaps in another process than before."""
        self.place, self.ready = None, False
        self.lost.notify()


class RayPool:
    """Copies of one model. Lanes call `ask`; each copy has a thread that starts it, also again after its death."""

    def __init__(self, cluster: Cluster, model: Backend, needs: Amounts, replicas: int | None) -> None:
        """`needs`: the resources of a copy. `replicas`: None for as many as fit."""
        self._cluster = cluster
        self._model = model
        self._needs = needs
        self._wanted = replicas
        self._first: ModelFacts | None = None
        """What the first copy says about itself; all others agree."""
        self._depth = PREPARED if said(model, "prepare") else IN_FLIGHT
        self._content = parcels.pickled(parcels.Blueprint.of(model))
        self._items: Any = None
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._replicas: list[_Replica] = []
        self._threads: list[threading.Thread] = []
        self._refused: set[str] = set()
        """Nodes of copies that cannot be used."""
        self._suspects: set[tuple[object, ...]] = set()
        self._rate: deque[tuple[float, int, int]] = deque()
        self._restarts = 0
        self._lost_at = time.monotonic()
        self._problems: deque[str] = deque(maxlen=MAX_PROBLEMS)
        self._closed = False

    # --- called by the thread that loads the model ------------------------------------------------------------

    def open(self) -> ModelFacts:
        """Start the copies, wait until they are loaded, and return what they say about themselves (UsageError)."""
        nodes = self._cluster.nodes()
        most = sum(room(node["Resources"], self._needs) for node in nodes)
        if not most:
            raise none_fits(self._model.title, self._needs, nodes)
        with self._lock:
            self._add(self._wanted or most)
        facts = self._await_ready()
        if self._wanted is None:
            self._in_thread(self._grow)
        return facts

    def fit(self, items: Sequence[Item]) -> None:
        """Fit all copies to the items of the run (UsageError)."""
        with self._lock:
            self._items = ray.put(list(items))
            for replica in self._replicas:
                if replica.ready:
                    replica.start_again()
        self._await_ready()

    def _await_ready(self) -> ModelFacts:
        """Wait until the first copy is loaded, and then for the others, not much longer (UsageError)."""
        began = time.monotonic()
        with self._lock:
            while not self._news.wait_for(lambda: not self._replicas or self._count_ready(), PLACING):
                if all(replica.place is None for replica in self._replicas):
                    raise UsageError(
                        f"ray: no copy of '{self._model.title}' found a place within {PLACING:g} s: it takes "
                        f"{shown(self._needs)}, and of the whole cluster {shown(ray.available_resources())} are free"
                    )
            patience = max(STARTING, time.monotonic() - began)
            self._news.wait_for(lambda: self._count_ready() == len(self._replicas), patience)
            if self._first is None or not self._replicas:
                raise UsageError(self._problems[-1])
            return self._first

    def close(self) -> None:
        """End the actors. Calls in flight end with BatchLost."""
        with self._lock:
            self._closed = True
            self._news.notify_all()
            replicas, self._replicas = self._replicas, []
            for replica in replicas:
                replica.start_again()
        for replica in replicas:
            _kill(replica)
        end = time.monotonic() + 2 * TICK
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0))

    def _count_ready(self) -> int:
        return sum(replica.ready for replica in self._replicas)

    # --- lanes ------------------------------------------------------------------------------------------------

    @property
    def concurrency(self) -> int:
        """The batches that all copies together take now, those that are being started again included."""
        return max(sum(replica.loaded for replica in tuple(self._replicas)), 1) * self._depth

    def ask(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Return the answers of a copy.

        BatchLost if the copy died; MedVQAError and other exceptions as the model raised them.
        """
        parcel = parcels.packed(prompts, looks=self._model.looks)
        timing = clock()
        timing.queued()
        replica, flight = self._take(prompts)
        try:
            outcome = self._answered(replica, flight, parcel, timing)
        except BatchLost as lost:
            if lost.suspect:
                with self._lock:
                    self._suspects.update(map(_identity, prompts))
            raise
        finally:
            with self._lock:
                replica.flights.remove(flight)
                self._news.notify_all()
        if isinstance(outcome, CopyProblem):
            # The engine tries smaller batches after a MemoryError.
            raise MemoryError(outcome.line) if outcome.memory else MedVQAError(outcome.line)
        now = time.monotonic()
        with self._lock:
            self._rate.append((now, len(outcome), self._count_ready()))
            while self._rate[0][0] < now - RECENT:
                self._rate.popleft()
        return outcome

    def _take(self, prompts: Sequence[Prompt]) -> tuple[_Replica, _Flight]:
        """Wait for a copy with room for a batch; one with a suspect question has its copy for itself."""
        with self._lock:
            alone = any(_identity(prompt) in self._suspects for prompt in prompts)
            while not self._closed:
                places = {
                    replica: replica.place
                    for replica in self._replicas
                    if replica.ready
                    and replica.place is not None
                    and (alone or len(replica.flights) < self._depth)
                    and not any(flight.alone for flight in replica.flights)
                }
                if not places:
                    self._check_presence()
                    self._news.wait(1.0)
                    continue
                replica = min(places, key=lambda replica: len(replica.flights))
                flight = _Flight(places[replica], alone)
                replica.flights.append(flight)
                while alone and len(replica.flights) > 1 and replica.place is flight.place and not self._closed:
                    self._news.wait(1.0)
                if replica.place is flight.place:
                    return replica, flight
                replica.flights.remove(flight)
        raise BatchLost("ray: the pool was closed")

    def _check_presence(self) -> None:
        """Raise MedVQAError if no copy has been there for long."""
        if time.monotonic() > self._lost_at + ABSENT and not self._count_ready():
            why = f": {self._problems[-1]}" if self._problems else ""
            raise MedVQAError(f"ray: no copy of '{self._model.title}' has been there for {ABSENT:g} s{why}")

    def _answered(
        self, replica: _Replica, flight: _Flight, parcel: Sequence[Prompt], timing: Clock
    ) -> list[Answer | AnswerError] | CopyProblem:
        """Send a batch to an actor and wait for its answers (BatchLost)."""
        try:
            replies = _called(replica.handle.answer, parcel)
            if ray.get(next(replies)) != BEGUN:
                self._lost(replica, flight.place)
                raise BatchLost("ray: a copy was started again")
            flight.begun = True
            allowed = timing.begun()
            ready, _ = ray.wait([replies], timeout=None if allowed is None else allowed + LATE)
            if not ready:
                self._problems.append("ray: a batch passed its deadline, and its copy was started again")
                ray.kill(replica.handle, no_restart=False)
                self._lost(replica, flight.place)
                raise MedVQAError(f"ray: no answer within {allowed:.10g} s; the copy was started again")
            outcome: list[Answer | AnswerError] | CopyProblem = ray.get(next(replies))
            return outcome
        except ray.exceptions.RayTaskError as error:
            raise MedVQAError(f"ray: {_line(error)}") from error
        except StopIteration as error:
            raise BatchLost("ray: a copy ended without an answer") from error
        except ray.exceptions.RayError as error:
            raise self._verdict(replica, flight) from error

    def _verdict(self, replica: _Replica, flight: _Flight) -> BatchLost:
        """Return what a lost actor means for the batch: it is suspect if the actor computed it, and its node lives."""
        place = flight.place
        self._lost(replica, place)
        node = f"node {printing.line(place.address)}"
        if self._closed:
            return BatchLost("ray: the pool was closed")
        if not flight.begun:
            return BatchLost(f"ray: the process of a copy on {node} was lost before it began this batch")
        # A node that is about to end may answer for a moment.
        if self._cluster.died(place.node) or self._sleep(VERDICT) or self._cluster.died(place.node):
            return BatchLost(f"ray: {node} was lost")
        return BatchLost(f"ray: the process of a copy on {node} died while it computed this batch", suspect=True)

    def _lost(self, replica: _Replica, place: ActorPlace) -> None:
        """Note that an actor's process died, once; Ray starts it again, and it loads its model."""
        with self._lock:
            if replica.place is place and not self._closed:
                self._restarts += 1
                self._lost_at = time.monotonic()
                replica.start_again()
                self._news.notify_all()

    # --- threads of the copies, and one that adds more ----------------------------------------------------------

    def _add(self, count: int) -> None:
        """Start further copies; called with the lock."""
        threads = max(self._depth, self._model.concurrency or 0) + 2
        actor = ray.remote(ModelActor).options(
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=threads,
            scheduling_strategy="SPREAD",
            **actor_options(self._needs),
        )
        for _ in range(count):
            replica = _Replica(actor.remote(self._content), threading.Condition(self._lock))
            self._replicas.append(replica)
            self._in_thread(self._hold, replica)

    def _in_thread(self, function: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=function, args=arguments, daemon=True, name="medvqa-ray-pool"))
        self._threads[-1].start()

    def _hold(self, replica: _Replica) -> None:
        """Hold a copy until it cannot be used; then give it up."""
        try:
            why = self._live(replica)
        except Exception as error:  # noqa: BLE001 - the run goes on with the copies that it has
            why = _line(error)
        place = replica.place
        where = "" if place is None else f" on node {printing.line(place.address)}"
        with self._lock:
            if self._closed:
                return
            self._problems.append(f"ray: a copy{where} cannot be used: {why}")
            self._refused |= set() if place is None else {place.node}
            self._replicas.remove(replica)
            self._news.notify_all()
        _kill(replica)

    def _live(self, replica: _Replica) -> str:
        """Start a copy, and again after each death of its process; return why it cannot be used."""
        deaths = 0
        while deaths < DEATHS and not self._closed:
            replica.place, items = None, self._items
            try:
                replies = _called(replica.handle.start, items)
                replica.place = place = ray.get(next(replies))
                if place.version != medvqa.__version__:
                    there, here = printing.line(place.version), medvqa.__version__
                    return f"node {printing.line(place.address)} has pytest-medvqa {there}, and this process {here}"
                news: ModelFacts | CopyProblem = ray.get(next(replies))
            except ray.exceptions.ActorUnavailableError:
                deaths += replica.place is not None
                self._sleep(TICK)
                continue
            if isinstance(news, CopyProblem):
                return news.line
            with self._lock:
                if self._first is None:
                    self._first, self._depth = news, news.concurrency or self._depth
                if why := difference(self._first, news):
                    return why
                if self._items is items:
                    deaths, replica.ready, replica.loaded = 0, True, True
                    self._news.notify_all()
                    replica.lost.wait_for(lambda: not replica.ready)
        return f"its process died {DEATHS} times while it loaded the model"

    def _grow(self) -> None:
        """Start as many further copies as fit, also on new nodes. None while one waits for its place."""
        while not self._sleep(GROWING):
            try:
                # A copy must fit into a node, not only into the sum of what is free.
                nodes = [node for node in self._cluster.nodes() if node["NodeID"] not in self._refused]
                most = sum(room(node["Resources"], self._needs) for node in nodes)
                free = room(ray.available_resources(), self._needs)
                with self._lock:
                    if not self._closed and all(replica.place is not None for replica in self._replicas):
                        self._add(min(free, most - len(self._replicas)))
            except Exception as error:  # noqa: BLE001 - the run goes on with the copies that it has
                self._problems.append(f"ray: {_line(error)}")

    def _sleep(self, seconds: float) -> bool:
        """Return whether the pool was closed meanwhile."""
        with self._lock:
            return self._news.wait_for(lambda: self._closed, seconds)

    # --- the state ----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the state, as `medvqa.Backend.status`."""
        with self._lock:
            # A copy whose node was lost may wait for a place until the end. Several nodes may have one address.
            places = [replica.place for replica in self._replicas if replica.loaded and replica.place is not None]
            return {
                "replicas": len(places),
                **({} if self._wanted is None else {"replicas_asked": self._wanted}),
                "nodes": dict(Counter(f"{place.address} {place.node[:8]}" for place in places)),
                "restarts": self._restarts,
                "problems": list(self._problems),
                "queue": sum(not flight.begun for replica in self._replicas for flight in replica.flights),
                "rate": _rate(list(self._rate)),
            }


def _rate(batches: Sequence[tuple[float, int, int]]) -> float | None:
    """Return the questions a second of each copy, from when batches ended, their sizes, and the copies at the time."""
    copies = max(sum(copies for _, _, copies in batches) / max(len(batches), 1), 1)
    # Copies that began together end together: count from the end of the first batch of each.
    batches = batches[round(copies) - 1 :]
    if len(batches) < 2 or batches[-1][0] == batches[0][0]:
        return None
    return sum(number for _, number, _ in batches[1:]) / (batches[-1][0] - batches[0][0]) / copies


def _called(method: Any, argument: object) -> Any:
    """Call a method of an actor that yields. It goes on after each reply only once that has been read here."""
    return method.options(num_returns="streaming", _generator_backpressure_num_objects=1).remote(argument)


def _kill(replica: _Replica) -> None:
    with suppress(Exception):
        # The cluster may be gone.
        ray.kill(replica.handle)


def _identity(prompt: Prompt) -> tuple[object, ...]:
    return prompt.benchmark, prompt.item, prompt.technique, prompt.variant, prompt.sample, prompt.text


def _line(error: BaseException) -> str:
    """Return why a call of an actor failed, in one line: the last one that Ray says."""
    text = "".join(traceback.format_exception_only(error))
    if "No module named 'medvqa" in text:
        return "its node lacks the package pytest-medvqa; install it there, in the Python of the cluster"
    return printing.line([line.strip() for line in text.splitlines() if line.strip()][-1])[:500]
