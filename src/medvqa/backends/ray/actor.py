"""The process that holds one copy of a model. Ray starts it, and starts it again after its death."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import medvqa
from medvqa import answers, usercode
from medvqa.backend import Backend, loaded
from medvqa.backends.ray.parcels import Blueprint
from medvqa.items import Answer, AnswerError, Item, MedVQAError, Prompt

BEGUN = "begun"
"""The note of an actor that it computes a batch from now on."""
UNLOADED = "unloaded"
"""The note of an actor that was started again and holds no model yet."""


@dataclass(frozen=True, slots=True)
class ActorPlace:
    """Where an actor runs: its node's id and address, its process, and versions."""

    node: str
    address: str
    pid: int
    version: str


@dataclass(frozen=True, slots=True)
class LoadedCopy:
    """What a loaded copy says about itself: the members of `medvqa.Backend` of these names.

    `fitted`: it has got the items of the run.
    """

    capabilities: frozenset[str]
    fingerprint: str | None
    identified: str | None
    about: Mapping[str, Any]
    batch_size: int | None
    concurrency: int | None
    patience: float
    fitted: bool


@dataclass(frozen=True, slots=True)
class CopyProblem:
    """Why a copy could not be loaded, or a batch has no answers.

    `kind`: "usage" is a message for the user, "memory" a batch that is too large, "failure" any other exception.
    """

    kind: Literal["usage", "memory", "failure"]
    line: str


class _Job:
    """A batch in an actor. The model's thread sets `turn` and `done`; the thread that brought it sets `go`."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        self.prompts = prompts
        self.turn, self.go, self.done = threading.Event(), threading.Event(), threading.Event()
        self.dropped = False
        self.outcome: list[Answer | AnswerError] | CopyProblem = []


class ModelActor:
    """One copy of a model. Calls come in several threads; a model without `concurrency` is asked in one."""

    def __init__(self, content: bytes) -> None:
        """`content` is a pickled `Blueprint`. The model is loaded by `start`, so that its errors reach the driver."""
        self._content = content
        self._model: Backend | None = None
        self._fitted = False
        self._starting = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._news = threading.Condition()

    def where(self) -> ActorPlace:
        """Return where this process runs."""
        import ray

        context = ray.get_runtime_context()
        address = ray.util.get_node_ip_address()
        return ActorPlace(context.get_node_id(), address, os.getpid(), medvqa.__version__)

    def start(self, items: Sequence[Item] | None) -> LoadedCopy | CopyProblem:
        """Load the model, once, and fit it to the items of the run, once they are known."""
        with self._starting:
            try:
                return self._started(items)
            except MedVQAError as error:
                return CopyProblem("usage", answers.line_of(error))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the driver shows it
                return _problem(error, self._model)

    def _started(self, items: Sequence[Item] | None) -> LoadedCopy:
        model = self._model
        if model is None:
            blueprint: Blueprint = pickle.loads(self._content)  # noqa: S301 - the driver's own
            os.environ.update(blueprint.environment)
            with suppress(OSError):
                os.chdir(blueprint.cwd)
                sys.path.append(blueprint.cwd)
            model = blueprint.make()
            model.check()
            loaded(model)
            if model.concurrency is None:
                threading.Thread(target=self._work, args=(model,), daemon=True).start()
        if items is not None and not self._fitted:
            model.fit(items)
            self._fitted = True
        self._model = model
        return LoadedCopy(
            frozenset(model.capabilities or ()),
            model.fingerprint(),
            model.identified(),
            model.about(),
            model.batch_size,
            model.concurrency,
            model.patience,
            self._fitted,
        )

    def answer(self, prompts: Sequence[Prompt]) -> Iterator[str | list[Answer | AnswerError] | CopyProblem]:
        """Yield BEGUN once the batch is computed, then its answers; UNLOADED if there is no model."""
        model = self._model
        if model is None:
            yield UNLOADED
        elif model.concurrency is not None:
            yield BEGUN
            yield asked(model, prompts)
        else:
            job = _Job(prompts)
            with self._news:
                self._jobs.append(job)
                self._news.notify()
            try:
                job.turn.wait()
                yield BEGUN
                # The driver has read the note: now nothing can be lost without being known.
                job.go.set()
                job.done.wait()
                yield job.outcome
            finally:
                job.dropped = not job.go.is_set()
                job.go.set()

    def _work(self, model: Backend) -> None:
        """Compute jobs one after the other, in the model's own thread."""
        while True:
            with self._news:
                while not self._jobs:
                    self._news.wait()
                job = self._jobs.popleft()
                following = self._jobs[0] if self._jobs else None
            job.turn.set()
            job.go.wait()
            if not job.dropped:
                if following is not None:
                    with suppress(Exception):
                        # What is wrong with a batch is raised where it is asked.
                        model.prepare(following.prompts)
                job.outcome = asked(model, job.prompts)
            job.done.set()


def asked(model: Backend, prompts: Sequence[Prompt]) -> list[Answer | AnswerError] | CopyProblem:
    """Ask the model; each answer has its seconds. Return plain answers alone: other objects may not travel."""
    start = time.perf_counter()
    try:
        replies = list(model.generate(prompts))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the driver's engine makes it an error of the items
        return _problem(error, model)
    share = (time.perf_counter() - start) / max(len(prompts), 1)
    return [_plain(reply, share, model) for reply in replies]


def _plain(reply: object, share: float, model: Backend) -> Answer | AnswerError:
    if isinstance(reply, AnswerError):
        return AnswerError(answers.line_of(reply))
    if not isinstance(reply, Answer):
        return AnswerError(f"model '{model.title}' gave a {type(reply).__name__} instead of an Answer")
    try:
        checked = answers.checked(reply)
        return replace(checked, seconds=share) if checked.seconds is None else checked
    except Exception as error:  # noqa: BLE001 - attributes of a user's class may raise anything
        why = answers.line_of(error) if isinstance(error, AnswerError) else f"{type(error).__name__}: {error}"
        return AnswerError(f"model '{model.title}' gave an answer that cannot be kept: {why}")


def _problem(error: BaseException, model: Backend | None) -> CopyProblem:
    """Return an exception as a line, as the engine writes it for a model in its own process."""
    if isinstance(error, MedVQAError):
        return CopyProblem("usage", answers.line_of(error))
    memory = any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for kind in type(error).__mro__)
    if model is None or type(model).__module__.startswith("medvqa."):
        return CopyProblem("memory" if memory else "failure", f"{type(error).__name__}: {answers.line_of(error)}")
    line = usercode.described(error, f"model '{model.title}'", function=type(model).generate)
    return CopyProblem("memory" if memory else "failure", line)
