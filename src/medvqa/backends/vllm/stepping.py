"""One thread that owns vLLM's engine: it adds requests, steps, and gives each caller its output."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from medvqa import printing
from medvqa.items import AnswerError

DRAINED = 100
"""Steps in which an engine must have forgotten aborted requests."""


MAX_SHOWN = 600
"""Most characters of vLLM's messages."""
CLOSED = "vLLM's engine was closed"


class EngineFailure(Exception):
    """A step of the engine failed; any request in it may be the cause."""


class Engine(Protocol):
    """What is used of vLLM's LLMEngine."""

    renderer: Any
    engine_core: Any

    def add_request(self, request_id: str, prompt: Any, params: Any, *, lora_request: Any = None) -> str:
        """Take a request."""

    def step(self) -> Sequence[Any]:
        """Compute one step, and return the outputs so far of the requests in it."""

    def has_unfinished_requests(self) -> bool:
        """Return whether requests are left."""

    def abort_request(self, request_ids: list[str]) -> None:
        """Forget requests."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A rendered prompt with its sampling parameters, and the place of its output."""

    prompt: Any
    params: Any
    lora: Any
    output: Future[Any] = field(default_factory=Future)


class EngineThread:
    """Runs an engine in a thread of its own. Any thread may call `ask`."""

    def __init__(self, make: Callable[[], Engine], refused: tuple[type[Exception], ...]) -> None:
        """Make the engine, in the thread that will step it; raise what `make` raises.

        `refused`: the exceptions by which the engine refuses a prompt.
        """
        self._make = make
        self._refused = refused
        self._requests: queue.SimpleQueue[EngineRequest | None] = queue.SimpleQueue()
        self._numbers = count()
        self._in_engine: dict[str, EngineRequest] = {}
        # Rendered in the order in which they are added: the engine's two caches of images forget in that order.
        self._ordered = threading.Lock()
        self._alone = threading.Lock()
        self._closed = False
        self.engine: Engine | None = None
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="medvqa-vllm", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self.close()
            raise

    def ask(self, asked: Sequence[tuple[Any, Any]], lora: Any = None) -> list[Any]:
        """Return the finished outputs of prompts, each given with its sampling parameters.

        Asked again, one caller after another, if a step failed: another request may have been the cause. AnswerError if
        the engine refuses it or fails again.
        """
        try:
            return self._outputs(asked, lora)
        except EngineFailure:
            pass
        with self._alone:
            try:
                return self._outputs(asked, lora)
            except EngineFailure as failure:
                raise AnswerError(f"vLLM's engine failed: {failure}") from None

    def close(self) -> None:
        """End the requests, the engine and the thread."""
        with self._ordered:
            self._closed = True
            self._requests.put(None)
        self._thread.join()

    def _outputs(self, asked: Sequence[tuple[Any, Any]], lora: Any) -> list[Any]:
        requests: list[EngineRequest] = []
        try:
            for prompt, params in asked:
                requests.append(self._added(prompt, params, lora))
            return [request.output.result() for request in requests]
        finally:
            # After an exception, such as KeyboardInterrupt, the engine forgets what is left.
            for request in requests:
                request.output.cancel()

    def _added(self, prompt: Any, params: Any, lora: Any) -> EngineRequest:
        with self._ordered:
            if self._closed or self.engine is None:
                raise AnswerError(CLOSED)
            try:
                (rendered,) = self.engine.renderer.render_cmpl([prompt])
            except self._refused as error:
                raise _refusal(error) from None
            request = EngineRequest(rendered, params, lora)
            self._requests.put(request)
        return request

    # --- in the engine's thread ---------------------------------------------------------------------------

    def _run(self, started: Future[None]) -> None:
        try:
            self.engine = self._make()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._closed = True
            started.set_exception(error)
            return
        started.set_result(None)
        try:
            while not self._closed and self.engine is not None:
                self._take(self.engine)
                if self._in_engine:
                    self._step(self.engine)
        finally:
            with self._ordered:
                self._closed = True
                self._fail(AnswerError(CLOSED))
                self._fail_waiting(AnswerError(CLOSED))
                self._shut_down()

    def _take(self, engine: Engine) -> None:
        """Add the requests that wait, and wait for one if the engine has none; take out what nobody waits for."""
        while not self._closed:
            try:
                request = self._requests.get(block=not self._in_engine)
            except queue.Empty:
                break
            if request is None or request.output.cancelled():
                continue
            number = str(next(self._numbers))
            try:
                engine.add_request(number, request.prompt, request.params, lora_request=request.lora)
            except self._refused as error:
                _settle(request, _refusal(error))
                continue
            self._in_engine[number] = request
        if cancelled := [number for number, request in self._in_engine.items() if request.output.cancelled()]:
            engine.abort_request(cancelled)
            for number in cancelled:
                del self._in_engine[number]

    def _step(self, engine: Engine) -> None:
        try:
            outputs = engine.step()
        except Exception as error:  # noqa: BLE001 - raised in the threads that wait
            self._recover(engine, EngineFailure(shown(error)))
            return
        for output in outputs:
            if output.finished and (request := self._in_engine.pop(output.request_id, None)) is not None:
                _settle(request, output)

    def _recover(self, engine: Engine, failure: EngineFailure) -> None:
        """Let the engine forget all requests, or make another where it cannot."""
        try:
            engine.abort_request(list(self._in_engine))
            for _ in range(DRAINED):
                if not engine.has_unfinished_requests():
                    break
                engine.step()
            else:
                raise EngineFailure("it did not forget aborted requests")
        except Exception:  # noqa: BLE001 - the first failure is told
            # What waits was rendered for the engine that failed.
            with self._ordered:
                self._fail_waiting(failure)
                self._shut_down()
                self.engine = self._make()
        self._fail(failure)

    def _fail(self, why: Exception) -> None:
        """Give the requests in the engine no output."""
        for request in self._in_engine.values():
            _settle(request, why)
        self._in_engine.clear()

    def _fail_waiting(self, why: Exception) -> None:
        """Give the requests that wait no output."""
        while not self._requests.empty():
            if (request := self._requests.get()) is not None:
                _settle(request, why)

    def _shut_down(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.engine_core.shutdown()


def _refusal(error: Exception) -> AnswerError:
    return AnswerError(f"vLLM refuses the prompt: {shown(error)}")


def shown(error: Exception) -> str:
    """Return an exception of vLLM in one line; some of its messages have many."""
    return printing.line(" ".join(f"{type(error).__name__}: {error}".split())[:MAX_SHOWN])


def _settle(request: EngineRequest, output: Any) -> None:
    """Give a request its output or exception, unless its caller has gone."""
    try:
        if isinstance(output, Exception):
            request.output.set_exception(output)
        else:
            request.output.set_result(output)
    except InvalidStateError:
        pass
