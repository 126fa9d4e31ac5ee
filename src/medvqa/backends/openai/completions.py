"""Read responses of a server: the completion, and the log-probabilities of option letters."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Sequence
from typing import Any

import msgspec

_LETTER = re.compile(r"""[\s▁Ġ(\[{"'*]*([^\W\d_])[\s)\]}"'*.,:]*""")
"""A token that spells a letter, with an optional space before it (also SentencePiece's and byte-level BPE's)."""


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


class Usage(msgspec.Struct):
    """The tokens of a request."""

    prompt_tokens: float = 0
    completion_tokens: float = 0


class Completion(msgspec.Struct):
    """A response's body."""

    choices: list[_Choice]
    usage: Usage | None = None
    prompt_logprobs: msgspec.Raw = msgspec.Raw(b"null")  # vLLM's
    model: str | None = None
    system_fingerprint: str | None = None


decoder = msgspec.json.Decoder(Completion)
logprobs_decoder = msgspec.json.Decoder(_Logprobs | None)


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
