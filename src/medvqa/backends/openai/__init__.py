"""Models behind OpenAI's chat completions: hosted, or on your own vLLM, SGLang, Ollama or llama.cpp.

Needs the extra `openai`. Images and questions go to the servers; keys come from the environment and go nowhere else.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from math import ceil
from typing import Any

import msgspec

from medvqa import answers as answers_room
from medvqa import printing
from medvqa.backend import Backend
from medvqa.backends import reaching
from medvqa.backends.openai import addresses
from medvqa.backends.openai.endpoints import Endpoint, Endpoints, differing
from medvqa.backends.openai.images import data_url
from medvqa.backends.openai.options import OFFICIAL_TOKENS, REASONING_TOKENS, OpenAIOptions
from medvqa.backends.openai.replies import Usage, decoder, letters, logprobs_decoder
from medvqa.backends.openai.requests import MAX_RESPONSE, RequestFailure, failures, retry_after
from medvqa.backends.openai.serving import ServedModel
from medvqa.items import Answer, AnswerError, DataError, Image, Order, Prompt, TokenLimits, UsageError
from medvqa.protocols.placing import placed

__all__ = [
    "MAX_RESPONSE",
    "OFFICIAL_TOKENS",
    "REASONING_TOKENS",
    "OpenAI",
    "OpenAIOptions",
    "data_url",
    "letters",
    "retry_after",
]

JUDGE_TOKENS = 1024
"""Default limit of new tokens of a judge."""
BACKOFF = 0.5
"""Seconds before the second request for a prompt if the server names no time; doubled for each further one."""

UNSCORED = (
    "the server told no log-probabilities (`transformers serve`, for one, ignores that they are asked for): "
    "ask by --technique=mc"
)

_FILTERED = frozenset({"content_filter", "content_policy_violation"})
_FAILED = frozenset({"error", "abort", "aborted", "cancelled", "canceled", "timeout", "insufficient_system_resource"})
"""Values of `finish_reason`, in lower case, after a server failure (OpenRouter, vLLM, SGLang, DeepSeek).

OpenAI's own are stop, length, content_filter, tool_calls and function_call. A value in neither list is an answer.
"""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A request without an answer.

    `wait`: seconds before the next one. `where`: the server's origin. `elsewhere`: another server may be asked at once.
    """

    failure: RequestFailure
    wait: float
    where: str
    elsewhere: bool = False


class OpenAI(Backend):
    """`openai:NAME`: the model of that name on a server, or on several that serve the same model.

    `generate` keeps up to `concurrency` requests in flight, and may be called by several threads at once: the
    limit holds for all of them together. Of several servers, the one with the most room gets the next request.
    """

    Options = OpenAIOptions
    options: OpenAIOptions
    converses = True
    # Read the environment once, so that prompts go to the host that was announced.
    _servers = cached_property(lambda self: addresses.addresses(self.options))
    _key = cached_property(lambda self: addresses.key(self.options))
    _most: int | None = None
    _scores: bool | None = None
    """Whether a server has told log-probabilities; None: none was asked yet."""
    _loop: asyncio.AbstractEventLoop | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        """Log-probabilities only where the options ask for some, and until the first answer lacks them."""
        silent = self.options.reasoning or not self.options.top_logprobs or self._scores is False
        return frozenset({"generate"} if silent else {"generate", "option_logprobs"})

    def load(self) -> None:
        """Prepare the clients without connecting. Raises UsageError as `check` does."""
        self.check()
        options = self.options
        self._endpoints = self._unconnected()
        self._scores = None
        self._endpoints.connect(self._key, options.timeout)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=self.title, daemon=True)
        self._thread.start()

    def _unconnected(self) -> Endpoints:
        return Endpoints(self._servers, self.argument, self._ceiling, self._redacted)

    @property
    def _ceiling(self) -> int:
        """The most requests in flight at each server."""
        return self.options.concurrency if self._most is None else ceil(self._most / len(self._servers))

    @property
    def concurrency(self) -> int:
        """Maximum number of requests in flight at all servers together; may be set before the first one."""
        return self._most or self.options.concurrency * len(self._servers)

    @concurrency.setter
    def concurrency(self, value: int) -> None:
        self._most = value
        if self._loop is not None:
            self._endpoints.resize(self._ceiling)

    @property
    def patience(self) -> float:
        """Seconds in which a prompt completes all its requests, in the worst order of all others."""
        options = self.options
        return (options.retries + 1) * self.concurrency * (options.timeout + options.max_wait)

    def check(self) -> None:
        """Raise UsageError without a model's name, the package, a usable URL or a key."""
        argument, options = self.argument, self.options
        if not argument:
            raise UsageError("--model=openai: openai needs the model's name on the server: --model=openai:NAME")
        if find_spec("openai") is None:
            raise UsageError(f"--model=openai:{argument} needs a package: pip install 'pytest-medvqa[openai]'")
        name, key = addresses.key_name(options), self._key
        remote = next((server for server in self._servers if server.remote), None)
        if name and not key and remote is not None:
            raise UsageError(
                f"openai:{argument}: set {name} to the key of {remote.origin}, "
                "or to any word where the server asks for none"
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"openai:{argument}: {name} holds characters that no key has")

    def preflight(self) -> None:
        """Raise UsageError for a server that refuses connections; a slow one is accepted.

        Of several servers, one must answer, and all that answer must serve the same model.
        """
        if len(self._servers) > 1:
            self._preflight_all()
            return
        (server,) = self._servers
        if server.remote and reaching.proxied(server.origin):
            return
        error = reaching.refusal(server.origin)
        if error is None or isinstance(error, TimeoutError):
            return
        raise UsageError(
            f"--model=openai:{self.argument}: {server.origin} cannot be reached ({reaching.reason(error)}). Start the "
            "server, or set base_url in the [options] of a config, or OPENAI_BASE_URL, to the address of another"
        )

    def _preflight_all(self) -> None:
        endpoints = self._unconnected()

        async def ask() -> list[ServedModel | RequestFailure]:
            endpoints.connect(self._key, self.options.timeout)
            try:
                return await endpoints.ask_all()
            finally:
                await endpoints.close()

        # A notebook has an event loop in its own thread.
        with ThreadPoolExecutor(1) as pool:
            said = pool.submit(asyncio.run, ask()).result()
        where = f"--model=openai:{self.argument}"
        failed = {
            endpoint.address.url: failure
            for endpoint, failure in zip(endpoints.all, said, strict=True)
            if isinstance(failure, RequestFailure)
        }
        for url, failure in failed.items():
            if failure.status == 401:
                raise UsageError(
                    f"{where}: {url} refuses the key ({self._line(failure)}). All servers get the same key"
                )
        if len(failed) == len(said) and all(failure.gone for failure in failed.values()):
            shown = "; ".join(f"{url}: {self._line(failure)}" for url, failure in failed.items())
            raise UsageError(
                f"{where}: none of its {len(said)} servers can be reached ({shown}). Start one of them, or set "
                "base_url in the [options] of a config, or OPENAI_BASE_URL, to the addresses of others"
            )
        if (differs := differing(endpoints.all, said)) is not None:
            one, said_one, other, said_other = differs
            raise UsageError(
                f"{where}: its servers serve different models: {one.address.url} says {said_one}, and "
                f"{other.address.url} says {said_other}. Name servers of one model in base_url, and give the other "
                "model a config of its own"
            )

    def draws(self) -> bool:
        """Whether requests have a temperature above 0, or none, which leaves it to the server."""
        return bool(self.options.ff_temperature) or self.options.parameters().get("temperature") != 0

    def unsampled(self) -> Collection[str]:
        """Techniques whose requests have temperature 0."""
        return [name for name in ("mc", "ff") if self.options.parameters(name).get("temperature") == 0]

    def as_judge(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options of a judge, with a higher token limit: a judge explains itself."""
        return options if options.get("reasoning") else {"max_tokens": JUDGE_TOKENS, **options}

    def token_limits(self) -> TokenLimits:
        """The default token limit; a reasoning model's takes precedence over a benchmark's."""
        options = self.options
        return TokenLimits(options.own_tokens, configured=options.max_tokens is not None or options.reasoning)

    @property
    def sends_to(self) -> str | tuple[str, ...]:
        """Scheme, host and port of the server's URL; of several servers, those of each."""
        origins = addresses.origins(self._servers)
        return origins if len(origins) > 1 else origins[0]

    @property
    def priced(self) -> bool:
        """Whether the options hold prices."""
        return self.options.price_input is not None

    def secrets(self) -> tuple[str, ...]:
        """The key, to be redacted from stored texts."""
        return (self._key,) if self._key else ()

    def about(self) -> dict[str, Any]:
        """URL, options and deviations from the published setting; no key."""
        return {
            "base_url": self._urls[0] if len(self._urls) == 1 else list(self._urls),
            "options": asdict(self.options),
            "deviations": self.options.deviations(),
        }

    @property
    def _urls(self) -> tuple[str, ...]:
        return tuple(server.url for server in self._servers)

    def fingerprint(self) -> str | None:
        """Model, URL and a digest of the request's other fields.

        None for a server on this machine without a `revision`: it may restart with other weights under the same name.
        Of a list with a `revision`, no URL is part: the revision names the weights wherever they are served. Without
        one, all URLs are, in any order.
        """
        options = self.options
        if not (all(server.remote for server in self._servers) or options.revision):
            return None
        sent: tuple[Any, ...] = (
            *(options.parameters(), options.system, options.max_pixels, options.max_bytes, options.extra),
            options.top_logprobs,
        )
        if options.revision:
            sent = (*sent, options.revision)
        if options.ff_temperature is not None:
            sent = (*sent, "ff_temperature", options.ff_temperature)
        digest = hashlib.sha256(msgspec.json.encode(sent, order="sorted")).hexdigest()
        anywhere = options.revision and (len(self._servers) > 1 or not isinstance(options.base_url, str))
        where = "endpoints" if anywhere else ",".join(sorted(self._urls))
        return f"{self.argument}@{where} {digest[:16]}"

    def identified(self) -> str | None:
        """The declared revision; None without one, because weights may change behind an unchanged name."""
        revision = self.options.revision
        return f"revision {revision}, as its config declares" if revision else None

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt; after the last retry, an AnswerError with the server's message.

        With technique `gd` the answer holds the log-probabilities of the letters among the `top_logprobs` likeliest
        next tokens, summed over tokens that spell the same letter (" A", "A", "(A").
        """
        if self._loop is None:
            raise RuntimeError(f"model '{self.title}' is asked before load()")
        future = asyncio.run_coroutine_threadsafe(self._answers(prompts), self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # of no effect but when an interrupt ended the wait

    def status(self) -> dict[str, Any]:
        """Several servers: `endpoints`, the requests, answers and failures of each, and how long it was left out."""
        counters = self._endpoints.counters() if self._loop is not None else {}
        return {"endpoints": counters} if counters else {}

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._loop is None:
            return
        asyncio.run_coroutine_threadsafe(self._endpoints.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _answers(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        answers: dict[int, Answer | AnswerError] = {}
        waiting = iter(enumerate(prompts))

        async def work() -> None:
            for number, prompt in waiting:
                answers[number] = await self._answer(prompt)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self.concurrency, len(prompts))):
                workers.create_task(work())
        return [answers[number] for number in range(len(prompts))]

    async def _answer(self, prompt: Prompt) -> Answer | AnswerError:
        options = self.options
        try:
            parameters = options.parameters(prompt.technique, prompt.max_tokens)
            messages = await asyncio.to_thread(self._messages, prompt)
        except (DataError, UsageError) as error:
            return AnswerError(str(error))
        attempt, tried = 0, set[Endpoint]()
        while True:
            outcome = await self._asked_once(prompt, messages, parameters, tried, BACKOFF * 2**attempt)
            if not isinstance(outcome, _Attempt):
                return outcome
            if outcome.elsewhere:
                continue
            failed, wait, where = outcome.failure, outcome.wait, outcome.where
            if not failed.again:
                return self._error(where, str(failed))
            if wait > options.max_wait:
                return self._error(where, f"{failed}; waiting {wait:.0f} s would be longer than max_wait")
            attempt += 1
            if attempt > options.retries:
                return self._error(where, f"{failed} (after {attempt} requests)")
            tried.clear()
            await asyncio.sleep(wait)

    async def _asked_once(
        self,
        prompt: Prompt,
        messages: Sequence[Mapping[str, Any]],
        parameters: Mapping[str, Any],
        tried: set[Endpoint],
        backoff: float,
    ) -> Answer | AnswerError | _Attempt:
        """Send one request, to a server that is not in `tried` if there is one, and add that server to `tried`."""
        endpoints, options = self._endpoints, self.options
        spread = random.uniform(0.5, 1)  # noqa: S311 - spreads retries, no secret
        try:
            endpoint = await endpoints.take(tried)
        except RequestFailure as failure:
            return _Attempt(failure, backoff * spread, "")
        try:
            if prompt.technique == "gd" and self._scores is False:
                return self._error(endpoint.address.origin, UNSCORED)
            started = time.monotonic()
            try:
                answer = await self._ask(endpoint, prompt, messages, parameters)
                endpoints.answered(endpoint, answer.served_by)
            except RequestFailure as failure:
                wait = backoff * spread if failure.wait is None else failure.wait
                if failure.busy and wait <= options.max_wait:
                    endpoint.gate.busy(started, wait)
                long = failure.again and failure.wait is not None and failure.wait > options.max_wait
                endpoints.failed(endpoint, failure, started, unavailable=long)
                tried.add(endpoint)
                elsewhere = failure.again and (failure.down or failure.busy or long) and endpoints.others(tried)
                return _Attempt(failure, wait, endpoint.address.origin, elsewhere)
            return answer
        finally:
            endpoints.release(endpoint)

    async def _ask(
        self,
        endpoint: Endpoint,
        prompt: Prompt,
        messages: Sequence[Mapping[str, Any]],
        parameters: Mapping[str, Any],
    ) -> Answer:
        options, extra = self.options, self.options.extra
        if prompt.sample:
            # Overrides a parameter of the same name.
            first = extra.get("seed", 0)
            extra = {**extra, "seed": (first if isinstance(first, int) else 0) + prompt.sample}
        create: Any = endpoint.client.chat.completions.with_raw_response.create
        endpoint.requests += 1
        start = time.perf_counter()
        try:
            with failures(options.timeout):
                # The client's own timeout restarts with each byte.
                async with asyncio.timeout(options.timeout):
                    response = await create(model=self.argument, messages=messages, extra_body=extra, **parameters)
                content: bytes = response.content
        except RequestFailure as failure:
            if failure.code in _FILTERED:
                return Answer("", seconds=time.perf_counter() - start, finish="refusal")
            raise
        return self._read(prompt, content, time.perf_counter() - start)

    def _read(self, prompt: Prompt, content: bytes, seconds: float) -> Answer:
        """The answer in a response's body."""
        try:
            completion = decoder.decode(content)
        except (ValueError, RecursionError) as error:
            start = self._redacted(content.decode(errors="replace"))[:200]
            raise RequestFailure(f"the response is no chat completion ({error}): {start}", again=True) from None
        if len(completion.choices) != 1:
            raise RequestFailure(f"the response has {len(completion.choices)} choices instead of 1", again=False)
        (choice,) = completion.choices
        if (choice.finish_reason or "").lower() in _FAILED:
            raise RequestFailure(f"the server gave the answer up (finish_reason {choice.finish_reason!r})", again=True)
        usage = completion.usage
        declined = choice.message.refusal or choice.finish_reason == "content_filter"
        answer = Answer(
            choice.message.content or choice.message.refusal or "",
            self._letters(prompt, choice.logprobs) if prompt.technique == "gd" and not declined else None,
            seconds=seconds,
            finish="refusal" if declined else choice.finish_reason or "",
            usage=None if usage is None else self._usage(usage),
            served_by=" ".join(filter(None, (completion.model, completion.system_fingerprint))),
            thoughts=choice.message.thoughts,
        )
        return answers_room.without_secrets(answer, (self._key,))

    def _letters(self, prompt: Prompt, raw: msgspec.Raw) -> dict[str, float]:
        """The log-probabilities of the option letters in a response's `logprobs`."""
        try:
            logprobs = logprobs_decoder.decode(raw)
        except msgspec.DecodeError as error:
            raise RequestFailure(f"log-probabilities in a form that is not OpenAI's ({error})", again=False) from None
        first = logprobs.content[0] if logprobs is not None and logprobs.content else None
        if first is None or not first.top_logprobs:
            # If the server reported some before, only this answer lacks them.
            self._scores = self._scores or False
            raise RequestFailure(UNSCORED, again=False)
        self._scores = True
        candidates = ((candidate.token, candidate.logprob) for candidate in first.top_logprobs)
        return letters(candidates, prompt.options)

    def _usage(self, usage: Usage) -> dict[str, float]:
        counted = {"input": usage.prompt_tokens, "output": usage.completion_tokens}
        prices = self.options.price_input, self.options.price_output
        if prices[0] is None or prices[1] is None:
            return counted
        return {**counted, "cost": (counted["input"] * prices[0] + counted["output"] * prices[1]) / 1e6}

    def _messages(self, prompt: Prompt) -> list[dict[str, Any]]:
        system = prompt.system if self.options.system is None else self.options.system
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        for shot in prompt.shots:
            messages.append({"role": "user", "content": self._content(shot.images, shot.text, prompt.order)})
            messages.append({"role": "assistant", "content": shot.answer})
        images = prompt.images
        for turn in prompt.turns:
            messages.append({"role": "user", "content": self._content(images, turn.text, prompt.order)})
            messages.append({"role": "assistant", "content": turn.reply})
            images = ()
        messages.append({"role": "user", "content": self._content(images, prompt.text, prompt.order)})
        return messages

    def _content(self, shown: Sequence[Image], text: str, order: Order) -> list[dict[str, Any]]:
        return [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image_url", "image_url": {"url": self._url(part)}}
            for part in placed(text, shown, order)
        ]

    def _url(self, image: Image) -> str:
        return data_url(image, self.options.max_pixels, self.options.max_bytes)

    def _error(self, where: str, message: str) -> AnswerError:
        # Redact before cutting, so that no part of the key is left.
        shown = " ".join(self._redacted(message).split())[:400]
        return AnswerError(f"{where}: {shown}" if where else shown)

    def _line(self, failure: RequestFailure) -> str:
        return printing.line(" ".join(self._redacted(str(failure)).split()))[:200]

    def _redacted(self, text: str) -> str:
        """Text without the key: a server may echo its request."""
        return answers_room.redacted(text, (self._key,))
