"""Score options on a vLLM server, as the backend `hf` does: letters by GD, whole texts by PS.

A server that ignores vLLM's fields tells no scores, which is an error: scores are never guessed.

Sources: vLLM's `ChatCompletionRequest` (logprob_token_ids, return_tokens_as_token_ids, prompt_logprobs,
continue_final_message), `TokenizeChatRequest` and `ChatCompletionResponse`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from medvqa.backends.openai.completions import Completion, logprobs_decoder
from medvqa.backends.openai.requests import RequestFailure, within
from medvqa.backends.openai.serving import page

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_LETTERS = 128
"""Most tokens in `logprob_token_ids`."""

_TEMPLATE = ("chat_template", "chat_template_kwargs", "add_special_tokens")
"""Fields that change the text of a conversation."""
_QUESTION = {"role": "user", "content": "?"}


class _Tokenized(msgspec.Struct):
    tokens: list[int]


class _Value(msgspec.Struct):
    logprob: float


_tokenized = msgspec.json.Decoder(_Tokenized)
_prompt_logprobs = msgspec.json.Decoder(list[dict[int, _Value] | None] | None, strict=False)


def reply_message(option: str) -> dict[str, str]:
    """Return the message that an option's text is."""
    return {"role": "assistant", "content": option.strip()}


class OptionTokens:
    """The tokens of option texts after the prompt of a chat, as a server says. They are asked for once."""

    def __init__(self, model: str, extra: Mapping[str, Any], timeout: float) -> None:
        """`model`: its name on the server. `extra`: fields of all requests. `timeout`: seconds of a request."""
        self._model, self._timeout = model, timeout
        self._template = {name: extra[name] for name in _TEMPLATE if name in extra}
        self._before: Sequence[int] | None = None
        self._known: dict[str, tuple[int, ...]] = {}

    async def of(self, client: AsyncOpenAI, option: str) -> tuple[int, ...]:
        """Return the tokens of an option, at least one. RequestFailure if the server does not say.

        The option follows a short question: a reply with scores shows whether these tokens end the real prompt too.
        """
        if (known := self._known.get(option)) is not None:
            return known
        if self._before is None:
            self._before = await self._tokens(client, [_QUESTION], add_generation_prompt=True)
        before = self._before
        message = reply_message(option)
        fields = {"add_generation_prompt": False, "continue_final_message": True}
        whole = await self._tokens(client, [_QUESTION, message], **fields)
        if whole[: len(before)] != before or len(whole) == len(before):
            raise RequestFailure(
                f"the chat template does not write {message['content'][:40]!r} as tokens after the beginning of a "
                "reply, so that it cannot be scored there: ask by --technique=mc",
                again=False,
            )
        tokens = self._known[option] = tuple(whole[len(before) :])
        return tokens

    async def _tokens(self, client: AsyncOpenAI, messages: Sequence[object], **fields: bool) -> list[int]:
        body = {"model": self._model, "messages": messages, **self._template, **fields}
        try:
            async with within(self._timeout):
                said = await client.post(page(client, "tokenize"), cast_to=str, body=body)
            return _tokenized.decode(said).tokens
        except RequestFailure as failure:
            failure.message = f'{failure} (POST /tokenize; scoring = "vllm" is for vLLM servers)'
            raise
        except (ValueError, RecursionError):
            why = 'POST /tokenize told no tokens: scoring = "vllm" is for vLLM servers'
            raise RequestFailure(why, again=False) from None


def letters_fields(tokens: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the fields of a request that ask for letters by their tokens. RequestFailure for one of several tokens."""
    if long := [letter for letter, those in tokens.items() if len(those) != 1]:
        raise RequestFailure(
            f"technique 'gd' reads the next token, and the letter {long[0]!r} is more than one; technique 'ps' scores "
            "whole texts",
            again=False,
        )
    if len(tokens) > MAX_LETTERS:
        raise RequestFailure(f"technique 'gd' scores at most {MAX_LETTERS} letters on vLLM servers", again=False)
    return {"logprob_token_ids": [those[0] for those in tokens.values()], "return_tokens_as_token_ids": True}


def likelihood_fields() -> dict[str, Any]:
    """Return the fields of a request whose last message is an option that is scored."""
    return {"prompt_logprobs": 0, "add_generation_prompt": False, "continue_final_message": True}


def letter_scores(completion: Completion, tokens: Mapping[str, Sequence[int]]) -> dict[str, float] | None:
    """Return the log-probability of each letter's token as the next one; None unless the server told all of them."""
    try:
        logprobs = logprobs_decoder.decode(completion.choices[0].logprobs)
    except msgspec.DecodeError:
        return None
    first = logprobs.content[0] if logprobs is not None and logprobs.content else None
    told = {} if first is None else {candidate.token: candidate.logprob for candidate in first.top_logprobs}
    scores = {letter: told.get(f"token_id:{those[0]}") for letter, those in tokens.items()}
    found = {letter: score for letter, score in scores.items() if score is not None and not math.isnan(score)}
    return found if len(found) == len(tokens) else None


def likelihood(completion: Completion, tokens: Sequence[int]) -> float | None:
    """Return the mean log-probability of the prompt's last `tokens`; None unless the server told those of these."""
    try:
        told = _prompt_logprobs.decode(completion.prompt_logprobs)
    except (msgspec.DecodeError, RecursionError):
        return None
    last = (told or [])[-len(tokens) :]
    values = [step[token].logprob for step, token in zip(last, tokens, strict=False) if step and [*step] == [token]]
    total = math.fsum(values)
    return total / len(tokens) if len(values) == len(tokens) and math.isfinite(total) else None
