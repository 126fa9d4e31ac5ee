"""The table [options] of a config of the backend `openai`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from medvqa.items import Technique, UsageError

OFFICIAL_TOKENS = 32
"""New tokens in MediConfusion's published setting of multiple choice; its temperature is 0."""
REASONING_TOKENS = 4096
"""New tokens of a reasoning model, which thinks before it answers."""

_OWN_PARAMETERS = frozenset({"model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "temperature"})
_OWN_PARAMETERS |= {"logprobs", "top_logprobs"}
_SCORING_PARAMETERS = frozenset({"logprob_token_ids", "return_tokens_as_token_ids", "prompt_logprobs"})
_SCORING_PARAMETERS |= {"add_generation_prompt", "continue_final_message"}

Name = Annotated[str, msgspec.Meta(pattern="^[A-Z0-9_]*$")]  # refuses a key put here by mistake, without showing it
Positive = Annotated[int, msgspec.Meta(ge=1)]
Limit = Annotated[int, msgspec.Meta(ge=0)]
Temperature = Annotated[float, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Price = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, kw_only=True)
class OpenAIOptions:
    """The table [options] of a config.

    `base_url`: the server's URL, or those of several servers that serve the same model, "" for OPENAI_BASE_URL or
    OpenAI's own. `key_env`: the environment variable with the key for all servers, "" for OPENAI_API_KEY; with a
    `base_url`, "" sends no key, so that OpenAI's key goes to no other host. `revision`: a label of the server's
    weights, changed whenever they change; "" declares nothing. `system` replaces the benchmark's system prompt.
    `temperature`: 0 by default. `ff_temperature` replaces it for technique `ff`, as MediConfusion's owners do.
    `max_tokens`: the limit for prompts without one, 32 by default; 0 sends no limit. `reasoning` sends no temperature,
    and `max_completion_tokens` (4096) instead of `max_tokens`. Images have at most `max_pixels` (larger ones are scaled
    down; None: no limit) and `max_bytes` before base64. `timeout`: seconds per request. After `retries` more requests
    an item ends as an error, or at once if the server asks to wait longer than `max_wait` seconds. `concurrency`:
    maximum of requests in flight at each server. `top_logprobs`: number of likeliest next tokens requested by technique
    `gd`, 0 for a server that reports none. `scoring`: "vllm" for vLLM servers: `gd` asks for the tokens of the letters,
    whatever their rank, and `ps` for those of the options' texts. Prices are per million tokens. `extra` is added to
    each request unchanged.
    """

    base_url: str | tuple[str, ...] = ""
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
    scoring: Literal["", "vllm"] = ""
    price_input: Price | None = None
    price_output: Price | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other."""
        if not isinstance(self.base_url, str):
            object.__setattr__(self, "base_url", tuple(self.base_url))
            if not self.base_url or not all(isinstance(url, str) and url for url in self.base_url):
                raise ValueError("`base_url` is an empty list, or holds an empty text: name a server, or leave it out")
        if self.reasoning and (self.temperature is not None or self.ff_temperature is not None):
            raise ValueError("with `reasoning` no temperature is sent: leave one of them out")
        if self.reasoning and self.scoring:
            raise ValueError("a model with `reasoning` thinks first, so options cannot be scored: leave `scoring` out")
        if (self.price_input is None) != (self.price_output is None):
            raise ValueError("`price_input` and `price_output` go together")
        own = _OWN_PARAMETERS | (_SCORING_PARAMETERS if self.scoring else frozenset())
        if taken := sorted(own & self.extra.keys()):
            raise ValueError(f"`extra` has {', '.join(taken)}, which other options set")

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of `base_url`, () for those of the environment."""
        if isinstance(self.base_url, str):
            return (self.base_url,) if self.base_url else ()
        return self.base_url

    @property
    def key_name(self) -> str:
        """The name of the variable that holds the key, "" for no key."""
        return self.key_env or ("" if self.urls else "OPENAI_API_KEY")

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
            if not (self.top_logprobs or self.scoring):
                raise UsageError("top_logprobs is 0 in the model's options: technique 'gd' needs some")
            scored = {"logprobs": True} if self.scoring else {"logprobs": True, "top_logprobs": self.top_logprobs}
            return {"max_tokens": 1, "temperature": self.temperature or 0.0, **scored}
        if technique == "ps" and self.scoring:
            return {"max_tokens": 1, "temperature": 0.0}
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
