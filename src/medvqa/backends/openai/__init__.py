"""Models behind OpenAI's chat completions: hosted, or on your own vLLM, SGLang, Ollama or llama.cpp.

Needs the extra `openai`. Images and questions go to the servers; keys come from the environment and go nowhere else.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from importlib.util import find_spec
from math import ceil
from typing import Any

import msgspec

from medvqa.answers import redacted, without_secrets
from medvqa.backend import JUDGE_TOKENS, Backend
from medvqa.backends import reaching
from medvqa.backends.openai.addresses import addresses
from medvqa.backends.openai.completions import Completion, Usage, decoder, letters, logprobs_decoder
from medvqa.backends.openai.image_parts import ENCODING, DataURLs, data_url
from medvqa.backends.openai.option_scores import (
    OptionTokens,
    letter_scores,
    letters_fields,
    likelihood,
    likelihood_fields,
    reply_message,
)
from medvqa.backends.openai.requests import RequestFailure, within
from medvqa.backends.openai.server_options import OpenAIOptions
from medvqa.backends.openai.servers import Server, Servers
from medvqa.backends.openai.serving import ServedModel, shown
from medvqa.items import Answer, AnswerError, DataError, Image, Order, Prompt, TokenLimits, UsageError
from medvqa.protocols.placing import placed

__all__ = ["OpenAI", "OpenAIOptions", "data_url"]

UNSCORED = (
    "the server told no log-probabilities (`transformers serve`, for one, ignores that they are asked for): "
    "ask by --technique=mc"
)

UNSCORED_BY_VLLM = (
    'the server told no scores of the options: scoring = "vllm" is for vLLM servers of a version that knows '
    "logprob_token_ids (gd) and prompt_logprobs (ps). Ask by --technique=mc"
)

_FILTERED = frozenset({"content_filter", "content_policy_violation"})
_FAILED = frozenset({"error", "abort", "aborted", "cancelled", "canceled", "timeout", "insufficient_system_resource"})
"""Values of `finish_reason`, in lower case, after a server failure (OpenRouter, vLLM, SGLang, DeepSeek).

OpenAI's own are stop, length, content_filter, tool_calls and function_call. A value in neither list is an answer.
"""


class OpenAI(Backend):
    """`openai:NAME`: the model of that name on a server, or on several that serve the same model.

    `generate` keeps up to `concurrency` requests in flight, and may be called by several threads at once: the
    limit holds for all of them together. Of several servers, the one with the most room gets the next request.
    """

    Options = OpenAIOptions
    options: OpenAIOptions
    converses = True
    # Read the environment once, so that prompts go to the host that was announced.
    _addresses = cached_property(lambda self: addresses(self.options))
    _key = cached_property(lambda self: os.environ.get(self.options.key_name, "").strip())
    _urls_of_images = cached_property(lambda self: DataURLs(self.options.max_pixels, self.options.max_bytes))
    _scores: bool | None = None
    """Whether a server has told log-probabilities; None: none was asked yet."""
    _servers: Servers | None = None
    """From `load` on."""

    @property
    def capabilities(self) -> frozenset[str]:
        """Log-probabilities only where the options ask for some, and until the first answer lacks them."""
        options = self.options
        if options.reasoning or not (options.scoring or options.top_logprobs) or self._scores is False:
            return frozenset({"generate"})
        return frozenset({"generate", "option_logprobs", *(("option_likelihood",) if options.scoring else ())})

    def load(self) -> None:
        """Prepare the clients without connecting. Raises UsageError as `check` does."""
        self.check()
        self._scores = None
        self._option_tokens = OptionTokens(self._model, self.options.extra, self.options.timeout)
        self._servers = self._clients()

    def _clients(self) -> Servers:
        return Servers(self._addresses, self._model, self._key, self.options)

    @property
    def _model(self) -> str:
        """The name of the model on the server."""
        return self.argument

    @property
    def _revision(self) -> str:
        """What identifies the weights, "" if nothing does."""
        return self.options.revision

    @cached_property
    def concurrency(self) -> int:
        """Maximum number of requests in flight at all servers together; may be set before the first one."""
        return self.options.concurrency * len(self._addresses)

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
        name, key = options.key_name, self._key
        remote = next((address for address in self._addresses if address.remote), None)
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
        if len(self._addresses) > 1:
            self._preflight_all()
            return
        (server,) = self._addresses
        if server.remote and reaching.proxy(server.origin):
            return
        error = reaching.refusal(server.origin)
        if error is not None and not isinstance(error, TimeoutError):
            raise UsageError(
                f"--model=openai:{self.argument}: {server.origin} cannot be reached ({reaching.reason(error)}). "
                "Start the server, or set base_url in the [options] of a config, or OPENAI_BASE_URL, to the address of "
                "another"
            )

    def _preflight_all(self) -> None:
        servers = self._clients()
        try:
            said = servers.run(servers.ask_models(servers.all))
        finally:
            servers.close()
        where = f"--model=openai:{self.argument}"
        failed = []
        for server, told in zip(servers.all, said, strict=True):
            url = server.address.url
            if isinstance(told, ServedModel):
                if (conflict := servers.conflict(server, told.facts)) is not None:
                    first, before, now = conflict
                    raise UsageError(
                        f"{where}: its servers serve different models: {first.address.url} says {before}, and "
                        f"{url} says {now}. Name servers of one model in base_url, and give the other model a config "
                        "of its own"
                    )
                continue
            why = shown(servers.redact(str(told)), 200)
            if told.status == 401:
                raise UsageError(f"{where}: {url} refuses the key ({why}). All servers get the same key")
            if told.gone:
                failed.append(f"{url}: {why}")
        if len(failed) == len(said):
            raise UsageError(
                f"{where}: none of its {len(said)} servers can be reached ({'; '.join(failed)}). Start one of them, or "
                "set base_url in the [options] of a config, or OPENAI_BASE_URL, to the addresses of others"
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
        origins = tuple(dict.fromkeys(address.origin for address in self._addresses))
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
        return tuple(address.url for address in self._addresses)

    def fingerprint(self) -> str | None:
        """Model, URL and a digest of the request's other fields.

        None for a server on this machine without a `revision`: it may restart with other weights under the same name.
        Of a list with a `revision`, no URL is part: the revision names the weights wherever they are served. Without
        one, all URLs are, in any order.
        """
        options, revision = self.options, self._revision
        if not (all(address.remote for address in self._addresses) or revision):
            return None
        sent: tuple[Any, ...] = (
            *(options.parameters(), options.system, options.max_pixels, options.max_bytes, options.extra),
            options.top_logprobs,
            ENCODING,
        )
        if options.scoring:
            sent = (*sent, "scoring", options.scoring)
        if revision:
            sent = (*sent, revision)
        if options.ff_temperature is not None:
            sent = (*sent, "ff_temperature", options.ff_temperature)
        digest = hashlib.sha256(msgspec.json.encode(sent, order="sorted")).hexdigest()
        return f"{self._model}@{self._where()} {digest[:16]}"

    def _where(self) -> str:
        """The part of the fingerprint that names the servers."""
        options = self.options
        anywhere = options.revision and (len(self._addresses) > 1 or not isinstance(options.base_url, str))
        return "endpoints" if anywhere else ",".join(sorted(self._urls))

    def identified(self) -> str | None:
        """The declared revision; None without one, because weights may change behind an unchanged name."""
        revision = self.options.revision
        return f"revision {revision}, as its config declares" if revision else None

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt; after the last retry, an AnswerError with the server's message.

        With technique `gd` the answer holds the log-probabilities of the letters among the `top_logprobs` likeliest
        next tokens, summed over tokens that spell the same letter (" A", "A", "(A"). With `scoring`, it holds those of
        the letters as the beginning of the reply, and with technique `ps` the means over the tokens of each option.
        """
        servers = self._servers
        if servers is None:
            raise RuntimeError(f"model '{self.title}' is asked before load()")
        return servers.run(self._answers(servers, prompts))

    def status(self) -> dict[str, Any]:
        """Several servers: `endpoints`, the requests, answers and failures of each, and how long it was left out."""
        counters = {} if self._servers is None else self._servers.counters()
        return {"endpoints": counters} if counters else {}

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._servers is not None:
            self._servers.close()

    async def _answers(self, servers: Servers, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        servers.limit(ceil(self.concurrency / len(self._addresses)))
        # Limit the messages in memory too: they hold images.
        room = asyncio.Semaphore(self.concurrency)

        async def answer(prompt: Prompt) -> Answer | AnswerError:
            async with room:
                return await self._answer(servers, prompt)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(answer(prompt)) for prompt in prompts]
        return [task.result() for task in tasks]

    async def _answer(self, servers: Servers, prompt: Prompt) -> Answer | AnswerError:
        try:
            body = await asyncio.to_thread(self._body, prompt)
            if prompt.technique == "ps" and self.options.scoring:
                return await self._likelihoods(servers, prompt, body)
            return await servers.ask(partial(self._send, prompt, body))
        except (DataError, UsageError, AnswerError) as error:
            return AnswerError(str(error))

    async def _likelihoods(self, servers: Servers, prompt: Prompt, body: Mapping[str, Any]) -> Answer:
        """Score each option of a prompt by a request of its own (AnswerError)."""
        if not prompt.options:
            raise AnswerError(f"technique 'ps' scores options, and {prompt.item} has none")
        scores: dict[str, float] = {}
        usage: Counter[str] = Counter()
        seconds = 0.0
        for key, option in prompt.options.items():
            messages = [*body["messages"], reply_message(option)]
            send = partial(self._send, prompt, {**body, "messages": messages, **likelihood_fields()}, option=option)
            answer = await servers.ask(send)
            if answer.option_logprobs is None:
                return answer
            scores[key] = answer.option_logprobs[option]
            usage.update(answer.usage or {})
            seconds += answer.seconds or 0.0
        return replace(answer, text="", option_logprobs=scores, usage=dict(usage) or None, seconds=seconds)

    async def _send(self, prompt: Prompt, body: Mapping[str, Any], server: Server, *, option: str = "") -> Answer:
        """Return a server's answer to one request. RequestFailure if there is none.

        `option`: the text at the request's end that is scored, for technique `ps`.
        """
        by_vllm = bool(self.options.scoring)
        if self._scores is False and (prompt.technique == "gd" or option):
            raise AnswerError(f"{server.address.origin}: {UNSCORED_BY_VLLM if by_vllm else UNSCORED}")
        tokens: dict[str, Sequence[int]] = {}
        if by_vllm and (prompt.technique == "gd" or option):
            texts = [option] if option else list(prompt.options)
            tokens = {text: await self._option_tokens.of(server.client, text) for text in texts}
        if tokens and not option:
            body = {**body, **letters_fields(tokens)}
        create: Any = server.client.chat.completions.with_raw_response.create
        server.requests += 1
        start = time.perf_counter()
        try:
            async with within(self.options.timeout):
                # As an extra body, it is not walked through by the package for each question.
                response = await create(model=self.argument, messages=(), extra_body=body)
        except RequestFailure as failure:
            if failure.code in _FILTERED:
                return Answer("", seconds=time.perf_counter() - start, finish="refusal")
            raise
        return self._read(prompt, response.content, time.perf_counter() - start, tokens)

    def _read(self, prompt: Prompt, content: bytes, seconds: float, tokens: Mapping[str, Sequence[int]]) -> Answer:
        """The answer in a response's body; `tokens`: of the texts that a vLLM server was asked to score."""
        try:
            completion = decoder.decode(content)
        except (ValueError, RecursionError) as error:
            start = redacted(content.decode(errors="replace"), (self._key,))[:200]
            raise RequestFailure(f"the response is no chat completion ({error}): {start}") from None
        if len(completion.choices) != 1:
            raise RequestFailure(f"the response has {len(completion.choices)} choices instead of 1", again=False)
        (choice,) = completion.choices
        usage = None if completion.usage is None else self._usage(completion.usage)
        if (choice.finish_reason or "").lower() in _FAILED:
            why = f"the server gave the answer up (finish_reason {choice.finish_reason!r})"
            raise RequestFailure(why, usage=usage)
        declined = choice.message.refusal or choice.finish_reason == "content_filter"
        answer = Answer(
            choice.message.content or choice.message.refusal or "",
            None if declined else self._scored(prompt, completion, tokens),
            seconds=seconds,
            finish="refusal" if declined else choice.finish_reason or "",
            usage=usage,
            served_by=" ".join(filter(None, (completion.model, completion.system_fingerprint))),
            thoughts=choice.message.thoughts,
        )
        return without_secrets(answer, (self._key,))

    def _scored(
        self, prompt: Prompt, completion: Completion, tokens: Mapping[str, Sequence[int]]
    ) -> dict[str, float] | None:
        """The scores that a response tells; None if the technique asks for none. RequestFailure without them."""
        if not tokens:
            return self._letters(prompt, completion) if prompt.technique == "gd" else None
        if prompt.technique == "gd":
            scores = letter_scores(completion, tokens)
        else:
            ((option, those),) = tokens.items()
            mean = likelihood(completion, those)
            scores = None if mean is None else {option: mean}
        if scores is None:
            self._scores = self._scores or False
            raise RequestFailure(UNSCORED_BY_VLLM, again=False)
        self._scores = True
        return scores

    def _letters(self, prompt: Prompt, completion: Completion) -> dict[str, float]:
        """The log-probabilities of the option letters in a response's `logprobs`."""
        try:
            logprobs = logprobs_decoder.decode(completion.choices[0].logprobs)
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

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        """The fields of a request. DataError for an image, UsageError for a technique that cannot be asked."""
        parameters = self.options.parameters(prompt.technique, prompt.max_tokens)
        extra = self.options.extra
        if prompt.sample:
            # Overrides a parameter of the same name.
            first = extra.get("seed", 0)
            extra = {**extra, "seed": (first if isinstance(first, int) else 0) + prompt.sample}
        return {"model": self._model, "messages": self._messages(prompt), **parameters, **extra}

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
        def url(image: Image) -> dict[str, str]:
            return {"url": self._urls_of_images.of(image)}

        return [
            {"type": "text", "text": part} if isinstance(part, str) else {"type": "image_url", "image_url": url(part)}
            for part in placed(text, shown, order)
        ]
