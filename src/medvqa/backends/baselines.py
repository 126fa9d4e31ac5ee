"""Baselines without a model, for a real model to beat."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import log

from medvqa.backend import Backend
from medvqa.items import CHOICE_KINDS, OPTION_TECHNIQUES, Answer, AnswerError, Item, Kind, Prompt, UsageError

Stratum = tuple[str, Kind]
"""Benchmark and kind; questions of one stratum share a vocabulary."""


class _Baseline(Backend):
    """A rule that looks at no image."""

    sends_to = None
    looks = False
    converses = True

    def draws(self) -> bool:
        """Return whether another sample may get another answer."""
        return False

    def identified(self) -> str:
        """Return that it is deterministic."""
        return "its rule, which always gives the same answers"


class Random(_Baseline):
    """`random` or `random:SEED`: a uniform draw, the same for an item in every run, order and process.

    With options: one letter; for multiple_response each non-empty set of letters with equal probability,
    written like `A,C`. Without options: one of the distinct reference answers of the benchmark's questions
    of that kind (an item's first reference). With techniques that score options: a log-probability for each, drawn
    separately for each technique.
    """

    capabilities = frozenset({"generate", "option_logprobs", "option_likelihood"})
    reads = False
    _vocabulary: Mapping[Stratum, Sequence[str]] = {}

    @cached_property
    def _seed(self) -> int:
        try:
            return int(self.argument or "0")
        except ValueError:
            raise UsageError(
                f"--model=random:{self.argument}: the seed must be a whole number, such as --model=random:7"
            ) from None

    def check(self) -> None:
        """Raise UsageError for a seed that is no whole number."""
        _ = self._seed

    def draws(self) -> bool:
        """Return whether another sample may get another answer."""
        return True

    def fit(self, items: Iterable[Item]) -> None:
        """Collect the vocabulary of the questions without options from their answer key."""
        self._vocabulary = {stratum: sorted(counts) for stratum, counts in _references(items).items()}

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt by a draw that depends on the seed and the question's key alone."""
        return [self._weigh(p) if p.technique in OPTION_TECHNIQUES else self._draw(p) for p in prompts]

    def _number(self, *parts: str) -> int:
        """A whole number below 2 ** 256."""
        seed = "\0".join((str(self._seed), *parts))
        return int.from_bytes(hashlib.sha256(seed.encode(errors="surrogatepass")).digest(), "big")

    def _weigh(self, prompt: Prompt) -> Answer:
        parts = (prompt.benchmark, prompt.item, prompt.technique, *([prompt.variant] if prompt.variant else []))
        drawn = {key: self._number(*parts, key) for key in prompt.options}
        total = log(sum(drawn.values()) or 1)
        return Answer("", {key: log(number or 1) - total for key, number in drawn.items()})

    def _draw(self, prompt: Prompt) -> Answer | AnswerError:
        # 256 bits modulo a small number: the bias is below 2 ** -200.
        sample = (str(prompt.sample),) if prompt.sample else ()
        variant = (f"variant {prompt.variant}",) if prompt.variant else ()
        number = self._number(prompt.benchmark, prompt.item, *variant, *sample)
        letters = list(prompt.options)
        if letters and prompt.kind == "multiple_response":
            members = 1 + number % (2 ** len(letters) - 1)
            return Answer(",".join(letter for bit, letter in enumerate(letters) if members >> bit & 1))
        words = letters or self._vocabulary.get((prompt.benchmark, prompt.kind), [])
        if not words:
            return AnswerError(
                f"random has nothing to draw from: {prompt.item} ({prompt.kind}) has no options, and "
                f"{prompt.benchmark} no reference answers to questions of that kind"
            )
        return Answer(words[number % len(words)])


class Majority(_Baseline):
    """`majority`: the most frequent key of the benchmark's questions of that kind, ties alphabetically.

    All items of the benchmark count, even if not selected. For multiple_response the key is the whole set of letters;
    for an open question with several references, the first counts.
    """

    reads = False
    _keys: Mapping[Stratum, str] = {}

    def check(self) -> None:
        """Raise UsageError for an argument."""
        if self.argument:
            raise UsageError(
                f"--model=majority:{self.argument}: majority takes no argument; a constant answer is "
                f"--model=echo:{self.argument}"
            )

    def fit(self, items: Iterable[Item]) -> None:
        """Count the answer key."""
        self._keys = {
            stratum: min(counts, key=lambda key: (-counts[key], key)) for stratum, counts in _references(items).items()
        }

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt with the most frequent key."""
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Answer | AnswerError:
        key = self._keys.get((prompt.benchmark, prompt.kind))
        if key is None:
            return AnswerError(
                f"majority needs an answer key, and that of {prompt.benchmark} is withheld for {prompt.kind}"
            )
        return Answer(key)


class Echo(_Baseline):
    """`echo:TEXT`: always TEXT. With a letter, a reference line without image or question."""

    def check(self) -> None:
        """Raise UsageError for an empty text."""
        if not self.argument:
            raise UsageError("--model=echo: echo needs the text that it shall answer, such as --model=echo:A")

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt with the text."""
        return [Answer(self.argument) for _ in prompts]


def _references(items: Iterable[Item]) -> dict[Stratum, Counter[str]]:
    """Count the answer key by benchmark and kind; withheld keys do not count."""
    references: defaultdict[Stratum, Counter[str]] = defaultdict(Counter)
    for item in items:
        if item.answers:
            key = ",".join(sorted(item.answers)) if item.kind in CHOICE_KINDS else item.answers[0]
            references[item.benchmark, item.kind][key] += 1
    return references
