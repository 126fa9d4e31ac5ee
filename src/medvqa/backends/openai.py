"""Models behind OpenAI's chat completions: hosted, or on your own vLLM, SGLang, Ollama or llama.cpp.

Needs the extra `openai`. Images and questions go to the server; keys come from the environment and go nowhere else.
"""

from __future__ import annotations

import asyncio
import base64
import email.utils
import hashlib
import io
import math
import os
import random
import re
import threading
import time
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from medvqa import answers as answers_room
from medvqa.backend import Backend, is_remote
from medvqa.backends import reaching
from medvqa.items import (
    Answer,
    AnswerError,
    DataError,
    Image,
    Order,
    Prompt,
    Technique,
    TokenLimits,
    UsageError,
)
from medvqa.protocols.placing import placed

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

BASE_URL = "https://api.openai.com/v1"
OFFICIAL_TOKENS = 32
"""New tokens in MediConfusion's published setting of multiple choice; its temperature is 0."""
REASONING_TOKENS = 4096
"""New tokens of a reasoning model, which thinks before it answers."""
JUDGE_TOKENS = 1024
"""Default limit of new tokens of a judge."""
BACKOFF = 0.5
"""Seconds before the second request for a prompt if the server names no time; doubled for each further one."""
MAX_RESPONSE = 16 * 2**20
"""Largest response, in unpacked bytes."""
JPEG_QUALITIES = (95, 90, 85, 75)

UNSCORED = (
    "the server told no log-probabilities (`transformers serve`, for one, ignores that they are asked for): "
    "ask by --technique=mc"
)

_URL = re.compile(r"(https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)(?:/[A-Za-z0-9._~%/-]*)?")
_BUSY = frozenset({429, 503, 529})
_FILTERED = frozenset({"content_filter", "content_policy_violation"})
_FAILED = frozenset({"error", "abort", "aborted", "cancelled", "canceled", "timeout", "insufficient_system_resource"})
"""Values of `finish_reason`, in lower case, after a server failure (OpenRouter, vLLM, SGLang, DeepSeek).

OpenAI's own are stop, length, content_filter, tool_calls and function_call. A value in neither list is an answer.
"""
_OWN_PARAMETERS = frozenset({"model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "temperature"})
_OWN_PARAMETERS |= {"logprobs", "top_logprobs"}
_LETTER = re.compile(r"""[\s▁Ġ(\[{"'*]*([^\W\d_])[\s)\]}"'*.,:]*""")
"""A token that spells a letter, with an optional space before it (also SentencePiece's and byte-level BPE's)."""

Name = Annotated[str, msgspec.Meta(pattern="^[A-Z0-9_]*$")]  # refuses a key put here by mistake, without showing it
Positive = Annotated[int, msgspec.Meta(ge=1)]
Limit = Annotated[int, msgspec.Meta(ge=0)]
Temperature = Annotated[float, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Price = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, kw_only=True)
class OpenAIOptions:
    """The table [options] of a config.

    `base_url`: the server's URL, "" for OPENAI_BASE_URL or OpenAI's own. `key_env`: the environment variable with the
    key, "" for OPENAI_API_KEY; with a `base_url`, "" sends no key, so that OpenAI's key goes to no other host.
    `revision`: a label of the server's weights, changed whenever they change; "" declares nothing. `system` replaces
    the benchmark's system prompt. `temperature`: 0 by default. `ff_temperature` replaces it for technique `ff`, as
    MediConfusion's owners do. `max_tokens`: the limit for prompts without one, 32 by
    default; 0 sends no limit. `reasoning` sends no temperature, and `max_completion_tokens` (4096) instead of
    `max_tokens`. Images have at most `max_pixels` (larger ones are scaled down; None: no limit) and `max_bytes` before
    base64. `timeout`: seconds per request. After `retries` more requests an item ends as an error, or at once if the
    server asks to wait longer than `max_wait` seconds. `concurrency`: maximum of requests in flight. `top_logprobs`:
    number of likeliest next tokens requested by technique `gd`, 0 for a server that reports none. Prices are per
    million tokens. `extra` is added to each request unchanged.
    """

    base_url: str = ""
    key_env: Name = ""
    revision: str = ""
    system: str | None = None
    temperature: Temperature | None = None
    ff_temperature: Temperature | None = None
    max_tokens: Limit | None = None
    reasoning: bool = False
    max_pixels: Positive | None = None
    max_bytes: Positive = 5 * 2**20
    timeout: Seconds = 120
    retries: Annotated[int, msgspec.Meta(ge=0)] = 5
    max_wait: Seconds = 120
    concurrency: Positive = 8
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] = 20
    price_input: Price | None = None
    price_output: Price | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other."""
        if self.reasoning and (self.temperature is not None or self.ff_temperature is not None):
            raise ValueError("with `reasoning` no temperature is sent: leave one of them out")
        if (self.price_input is None) != (self.price_output is None):
            raise ValueError("`price_input` and `price_output` go together")
        if taken := sorted(_OWN_PARAMETERS & self.extra.keys()):
            raise ValueError(f"`extra` has {', '.join(taken)}, which other options set")

    @property
    def own_tokens(self) -> int:
        """The default limit of new tokens, 0 for no limit."""
        if self.max_tokens is not None:
            return self.max_tokens
        return REASONING_TOKENS if self.reasoning else OFFICIAL_TOKENS

    def parameters(self, technique: Technique = "mc", max_tokens: int | None = None) -> dict[str, Any]:
        """A request's fields besides model and messages; UsageError for `gd` without log-probabilities.

        `max_tokens` is the prompt's limit, 0 for none; None: the options' own.
        """
        if technique == "gd":
            if self.reasoning:
                raise UsageError("a reasoning model's next token is no letter: technique 'gd' needs another model")
            if not self.top_logprobs:
                raise UsageError("top_logprobs is 0 in the model's options: technique 'gd' needs some")
            scored = {"logprobs": True, "top_logprobs": self.top_logprobs}
            return {"max_tokens": 1, "temperature": self.temperature or 0.0, **scored}
        tokens = self.own_tokens if max_tokens is None else max_tokens
        limit = {"max_completion_tokens" if self.reasoning else "max_tokens": tokens} if tokens else {}
        own = technique == "ff" and self.ff_temperature is not None
        temperature = self.ff_temperature if own else self.temperature
        return limit if self.reasoning else {**limit, "temperature": temperature or 0.0}

    def deviations(self) -> list[str]:
        """Deviations from temperature 0, 32 new tokens, the benchmark's system prompt and whole images."""
        sent = self.parameters()
        deviations = []
        if self.own_tokens != OFFICIAL_TOKENS:
            deviations.append(f"{self.own_tokens or 'unlimited'} new tokens instead of {OFFICIAL_TOKENS}")
        if sent.get("temperature") != 0:
            deviations.append(f"temperature {sent.get('temperature', 'of the server')} instead of 0")
        if self.system is not None:
            deviations.append("a system prompt of the config's")
        if self.max_pixels is not None:
            deviations.append(f"images of more than {self.max_pixels} pixels scaled down")
        deviations += [f"{name}: {value!r}" for name, value in sorted(self.extra.items())]
        return deviations


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    # Hidden thoughts: vLLM, SGLang and DeepSeek; OpenRouter and newer vLLM. Servers have further forms of their own.
    reasoning_content: Any = None
    reasoning: Any = None

    @property
    def thoughts(self) -> str:
        return next((text for text in (self.reasoning_content, self.reasoning) if isinstance(text, str)), "")


class _Candidate(msgspec.Struct):
    token: str
    logprob: float | None = None


class _Token(msgspec.Struct):
    token: str
    top_logprobs: list[_Candidate] = []


class _Logprobs(msgspec.Struct):
    content: list[_Token] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    logprobs: msgspec.Raw = msgspec.Raw(b"null")  # read where they were asked for: servers have forms of their own


class _Usage(msgspec.Struct):
    prompt_tokens: float = 0
    completion_tokens: float = 0


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    model: str | None = None
    system_fingerprint: str | None = None


_decoder = msgspec.json.Decoder(_Completion)
_logprobs = msgspec.json.Decoder(_Logprobs | None)


class _Failure(Exception):
    """A failed request. `again`: a retry may succeed; `wait`: seconds, if the server names them."""

    def __init__(self, message: str, *, again: bool, busy: bool = False, wait: float | None = None) -> None:
        super().__init__(message)
        self.again = again
        self.busy = busy
        self.wait = wait


class _Gate:
    """Limit requests: at most `limit` at once, none while the server asks to wait.

    If the server is busy, the limit halves, once for all requests in flight. It grows by one after each `limit`
    answers, up to the ceiling.
    """

    def __init__(self, ceiling: int) -> None:
        self.limit = self.ceiling = ceiling
        self._in_flight = self._answered = 0
        self._resume = self._halved = 0.0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._in_flight < self.limit)
            self._in_flight += 1
        try:
            while (left := self._resume - time.monotonic()) > 0:
                await asyncio.sleep(left)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._in_flight -= 1
        async with self._changed:
            self._changed.notify_all()

    def answered(self) -> None:
        """Count an answer."""
        self._answered += 1
        if self._answered >= self.limit:
            self._answered, self.limit = 0, min(self.limit + 1, self.ceiling)

    def busy(self, started: float, wait: float) -> None:
        """Note that the server refused a request sent at `started`; `wait` (seconds) before the next."""
        now = time.monotonic()
        self._resume = max(self._resume, now + wait)
        if started >= self._halved:
            self._halved, self._answered, self.limit = now, 0, max(self.limit // 2, 1)


class OpenAI(Backend):
    """`openai:NAME`: the model of that name on a server.

    `generate` keeps up to `concurrency` requests in flight, and may be called by several threads at once: the
    limit holds for all of them together.
    """

    capabilities: frozenset[str] = frozenset({"generate", "option_logprobs"})
    Options = OpenAIOptions
    options: OpenAIOptions
    converses = True
    # Read the environment once, so that prompts go to the host that was announced.
    _server = cached_property(lambda self: _server(self.options))
    _key = cached_property(lambda self: _key(self.options))
    _most: int | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def load(self) -> None:
        """Prepare the client without connecting. Raises UsageError as `check` does."""
        self.check()
        import openai

        options = self.options
        self._gate = _Gate(self.concurrency)
        self._scores: bool | None = None  # whether the server has told log-probabilities; None: it was not asked yet
        if options.reasoning or not options.top_logprobs:
            self.capabilities = frozenset({"generate"})
        self._client: AsyncOpenAI = openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._server.url,
            max_retries=0,  # retries are ours, so that they can slow all requests down
            timeout=options.timeout,
            http_client=_http_client(local=not self._server.remote),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=self.title, daemon=True)
        self._thread.start()

    @property
    def concurrency(self) -> int:
        """Maximum number of requests in flight; may be set before the first one."""
        return self._most or self.options.concurrency

    @concurrency.setter
    def concurrency(self, value: int) -> None:
        self._most = value
        self._gate = _Gate(value)

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
        server, name, key = self._server, _key_name(options), self._key
        if name and not key and server.remote:
            raise UsageError(
                f"openai:{argument}: set {name} to the key of {server.origin}, "
                "or to any word where the server asks for none"
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"openai:{argument}: {name} holds characters that no key has")

    def preflight(self) -> None:
        """Raise UsageError for a server that refuses connections; a slow one is accepted."""
        server = self._server
        if server.remote and reaching.proxied(server.origin):
            return
        error = reaching.refusal(server.origin)
        if error is None or isinstance(error, TimeoutError):
            return
        raise UsageError(
            f"--model=openai:{self.argument}: {server.origin} cannot be reached ({reaching.reason(error)}). Start the "
            "server, or set base_url in the [options] of a config, or OPENAI_BASE_URL, to the address of another"
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
    def sends_to(self) -> str:
        """Scheme, host and port of the server's URL."""
        return self._server.origin

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
            "base_url": self._server.url,
            "options": asdict(self.options),
            "deviations": self.options.deviations(),
        }

    def fingerprint(self) -> str | None:
        """Model, URL and a digest of the request's other fields.

        None for a server on this machine without a `revision`: it may restart with other weights under the same name.
        """
        options = self.options
        if not (self._server.remote or options.revision):
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
        return f"{self.argument}@{self._server.url} {digest[:16]}"

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

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._loop is None:
            return
        asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
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
        for attempt in range(options.retries + 1):
            async with self._gate:
                if prompt.technique == "gd" and self._scores is False:
                    return self._error(UNSCORED)
                started = time.monotonic()
                try:
                    answer = await self._ask(prompt, messages, parameters)
                except _Failure as failure:
                    failed = failure
                    wait = failed.wait
                    if wait is None:
                        wait = BACKOFF * 2**attempt * random.uniform(0.5, 1)  # noqa: S311 - spreads retries, no secret
                    if failed.busy and wait <= options.max_wait:
                        self._gate.busy(started, wait)
                else:
                    self._gate.answered()
                    return answer
            if not failed.again:
                return self._error(str(failed))
            if wait > options.max_wait:
                return self._error(f"{failed}; waiting {wait:.0f} s would be longer than max_wait")
            if attempt < options.retries:
                await asyncio.sleep(wait)
        return self._error(f"{failed} (after {options.retries + 1} requests)")

    async def _ask(
        self, prompt: Prompt, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
    ) -> Answer:
        import openai

        options, extra = self.options, self.options.extra
        if prompt.sample:
            # Overrides a parameter of the same name.
            first = extra.get("seed", 0)
            extra = {**extra, "seed": (first if isinstance(first, int) else 0) + prompt.sample}
        create: Any = self._client.chat.completions.with_raw_response.create
        start = time.perf_counter()
        try:
            # The client's own timeout restarts with each byte.
            async with asyncio.timeout(options.timeout):
                response = await create(model=self.argument, messages=messages, extra_body=extra, **parameters)
            content: bytes = response.content
        except (TimeoutError, openai.APITimeoutError):
            raise _Failure(f"no answer within {options.timeout:g} s", again=True) from None
        except openai.APIStatusError as error:
            if error.code in _FILTERED:
                return Answer("", seconds=time.perf_counter() - start, finish="refusal")
            raise _failure(error) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            if isinstance(cause, _Failure):  # raised by our HTTP client; some versions of the package wrap it
                raise cause from None
            raise _Failure(f"{type(cause).__name__}: {cause}", again=True) from None
        return self._read(prompt, content, time.perf_counter() - start)

    def _read(self, prompt: Prompt, content: bytes, seconds: float) -> Answer:
        """The answer in a response's body."""
        try:
            completion = _decoder.decode(content)
        except (ValueError, RecursionError) as error:
            start = self._redacted(content.decode(errors="replace"))[:200]
            raise _Failure(f"the response is no chat completion ({error}): {start}", again=True) from None
        if len(completion.choices) != 1:
            raise _Failure(f"the response has {len(completion.choices)} choices instead of 1", again=False)
        (choice,) = completion.choices
        if (choice.finish_reason or "").lower() in _FAILED:
            raise _Failure(f"the server gave the answer up (finish_reason {choice.finish_reason!r})", again=True)
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
            logprobs = _logprobs.decode(raw)
        except msgspec.DecodeError as error:
            raise _Failure(f"log-probabilities in a form that is not OpenAI's ({error})", again=False) from None
        first = logprobs.content[0] if logprobs is not None and logprobs.content else None
        if first is None or not first.top_logprobs:
            # If the server reported some before, only this answer lacks them.
            self._scores = self._scores or False
            raise _Failure(UNSCORED, again=False)
        self._scores = True
        candidates = ((candidate.token, candidate.logprob) for candidate in first.top_logprobs)
        return letters(candidates, prompt.options)

    def _usage(self, usage: _Usage) -> dict[str, float]:
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

    def _error(self, message: str) -> AnswerError:
        # Redact before cutting, so that no part of the key is left.
        return AnswerError(f"{self._server.origin}: {' '.join(self._redacted(message).split())[:400]}")

    def _redacted(self, text: str) -> str:
        """Text without the key: a server may echo its request."""
        return answers_room.redacted(text, (self._key,))


def letters(candidates: Iterable[tuple[str, float | None]], options: Container[str]) -> dict[str, float]:
    """Natural log-probabilities of the letters of `options`, summed over the tokens that spell each.

    A token spells a letter if only white space, brackets, quotes, asterisks and trailing punctuation surround it. A
    letter without any token is left out; a token without a log-probability is ignored.
    """
    letters: dict[str, list[float]] = {}
    for token, logprob in candidates:
        match = _LETTER.fullmatch(token)
        if match is not None and match[1] in options and logprob is not None:
            letters.setdefault(match[1], []).append(logprob)
    return {letter: _log_sum_exp(values) for letter, values in sorted(letters.items())}


def _log_sum_exp(values: Sequence[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def data_url(image: Image, max_pixels: int | None, max_bytes: int) -> str:
    """The image as a data URL: upright RGB without metadata, scaled down to `max_pixels`, as PNG.

    If the PNG exceeds `max_bytes` (before base64), the best of four JPEG qualities that fits. DataError for an image
    that cannot be read or does not fit.
    """
    import PIL.Image

    picture = image.pil()
    if max_pixels is not None and picture.width * picture.height > max_pixels:
        scale = math.sqrt(max_pixels / (picture.width * picture.height))
        size = (max(int(picture.width * scale), 1), max(int(picture.height * scale), 1))
        picture = picture.resize(size, PIL.Image.Resampling.LANCZOS)
    for kind, how in (("png", {}), *(("jpeg", {"quality": quality}) for quality in JPEG_QUALITIES)):
        buffer = io.BytesIO()
        picture.save(buffer, kind, **how)
        if buffer.tell() <= max_bytes:
            return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
    raise DataError(f"image {image.name}: more than {max_bytes} bytes as a JPEG; set max_pixels in the model's options")


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds to wait by retry-after-ms or Retry-After (seconds or a date); None without either.

    `now` is the time in seconds since the epoch.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - now
            except ValueError:
                continue
        if not math.isnan(seconds):
            return max(seconds, 0.0)
    return None


def _http_client(*, local: bool) -> Any:
    """The package's HTTP client, which reads at most MAX_RESPONSE bytes of a response.

    Redirections are not followed, and a `local` server bypasses proxies, so images go nowhere else.
    """
    import openai

    class Bounded(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **how: Any) -> Any:
            response = await super().send(request, **{**how, "stream": True})
            content = bytearray()
            try:
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > MAX_RESPONSE:
                        raise _Failure(f"a response of more than {MAX_RESPONSE} bytes", again=False)
            finally:
                await response.aclose()
            unpacked = {"content-encoding", "content-length", "transfer-encoding"}
            headers = [(name, value) for name, value in response.headers.multi_items() if name not in unpacked]
            return type(response)(response.status_code, headers=headers, content=bytes(content), request=request)

    return Bounded(follow_redirects=False, trust_env=not local)


def _failure(error: APIStatusError) -> _Failure:
    status = error.status_code
    body_message = error.body.get("message") if isinstance(error.body, dict) else None
    message = f"HTTP {status}: {body_message if isinstance(body_message, str) else error.response.text}"
    # Waiting does not restore a used-up quota.
    again = (status in (408, 409, 429) or status >= 500) and error.code != "insufficient_quota"
    return _Failure(message, again=again, busy=status in _BUSY, wait=retry_after(error.response.headers, time.time()))


@dataclass(frozen=True, slots=True)
class _Server:
    """A server; `origin`: scheme, host and port of the URL; `remote`: the host is another machine."""

    url: str
    origin: str
    remote: bool


def _server(options: OpenAIOptions) -> _Server:
    url = options.base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or BASE_URL
    match = _URL.fullmatch(url)
    if match is None:
        where = "base_url" if options.base_url else "OPENAI_BASE_URL"
        # Not shown: it may hold a password.
        raise UsageError(
            f"{where} is not like https://host/v1 (no user, password or query: a key is read from the environment)"
        )
    return _Server(url, match[1], is_remote(match[1]))


def _key_name(options: OpenAIOptions) -> str:
    return options.key_env or ("" if options.base_url else "OPENAI_API_KEY")


def _key(options: OpenAIOptions) -> str:
    name = _key_name(options)
    return os.environ.get(name, "").strip() if name else ""
