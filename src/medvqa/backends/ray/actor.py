"""The process that holds one copy of a model. Ray starts it, and starts it again after its death."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import medvqa
from medvqa import answers, printing, usercode
from medvqa.backend import Backend, ModelFacts, loaded
from medvqa.backends.ray.parcels import Blueprint
from medvqa.items import Answer, AnswerError, Item, MedVQAError, Prompt

BEGUN = "begun"
"""The note of an actor that it computes a batch from now on."""
UNLOADED = "unloaded"
"""The note of an actor that was started again and holds no model yet."""


@dataclass(frozen=True, slots=True)
class ActorPlace:
    """Where an actor runs: its node's id and address, and the version of this package there."""

    node: str
    address: str
    version: str


@dataclass(frozen=True, slots=True)
class CopyProblem:
    """Why a copy could not be loaded, or a batch has no answers. `memory`: the batch was too large for its memory.

    It is returned, and not raised: Ray shows messages of exceptions, which may hold a key, in its records.
    """

    line: str
    memory: bool = False


class ModelActor:
    """One copy of a model. Calls come in several threads; a model without `concurrency` is asked in one of its own."""

    def __init__(self, content: bytes) -> None:
        """`content` is a pickled `Blueprint`. The model is loaded by `start`, so that its errors reach the driver."""
        self._content = content
        self._model: Backend | None = None
        self._waiting: list[Sequence[Prompt]] = []

    def start(self, items: Sequence[Item] | None) -> Iterator[ActorPlace | ModelFacts | CopyProblem]:
        """Yield where this process runs, and then the outcome of `load`."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        yield ActorPlace(node, ray.util.get_node_ip_address(), medvqa.__version__)
        yield self.load(items)

    def load(self, items: Sequence[Item] | None) -> ModelFacts | CopyProblem:
        """Load the model, once, and fit it to the items of the run if they are known."""
        model = self._model
        try:
            if model is None:
                model = self._made()
            if items is not None:
                model.fit(items)
            facts = model.facts
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the driver shows it
            return _problem(error, model)
        if self._model is None:
            places = facts.concurrency or 1
            self._turns, self._threads = threading.Semaphore(places), ThreadPoolExecutor(places)
        self._model = model
        return facts

    def _made(self) -> Backend:
        blueprint: Blueprint = pickle.loads(self._content)  # noqa: S301 - the driver's own
        os.environ.update(blueprint.environment)
        with suppress(OSError):
            os.chdir(blueprint.cwd)
            sys.path.append(blueprint.cwd)
        model = blueprint.make()
        model.check()
        return loaded(model)

    def answer(self, prompts: Sequence[Prompt]) -> Iterator[str | list[Answer | AnswerError] | CopyProblem]:
        """Yield BEGUN once the batch is computed, then its answers; UNLOADED if there is no model."""
        model = self._model
        if model is None:
            yield UNLOADED
            return
        self._waiting.append(prompts)
        with self._turns:
            self._waiting.remove(prompts)
            yield BEGUN
            # The driver has read the note: now nothing can be lost without being known.
            outcome = self._threads.submit(self._asked, model, prompts).result()
        yield outcome

    def _asked(self, model: Backend, prompts: Sequence[Prompt]) -> list[Answer | AnswerError] | CopyProblem:
        """Ask the model; each answer has its seconds. Return plain answers alone: other objects may not travel."""
        if model.facts.concurrency is None and self._waiting:
            with suppress(Exception):
                # What is wrong with a batch is raised where it is asked.
                model.prepare(self._waiting[0])
        start = time.perf_counter()
        try:
            replies = list(model.generate(prompts))
        except BaseException as error:  # noqa: BLE001 - the driver's engine makes it an error of the items
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


def difference(first: ModelFacts, other: ModelFacts) -> str:
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


def _problem(error: BaseException, model: Backend | None) -> CopyProblem:
    """Return an exception as a line, as the engine writes it for a model in its own process."""
    if isinstance(error, MedVQAError):
        return CopyProblem(answers.line_of(error))
    if model is None or type(model).__module__.startswith("medvqa."):
        line = f"{type(error).__name__}: {answers.line_of(error)}"
    else:
        line = usercode.described(error, f"model '{model.title}'", function=type(model).generate)
    return CopyProblem(line, any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for kind in type(error).__mro__))
