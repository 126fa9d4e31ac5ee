"""The prompts that a run sent, as its folder keeps them (`records.sent_prompts`), for its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from medvqa.items import Item, Prompt, Result, Technique
from medvqa.protocols import prompts, rotation
from medvqa.records.run_record import RunRecord
from medvqa.records.sent_prompts import KeptPrompt, KeptPrompts
from medvqa.report.bundle.shape import Shape

MOST_TEXT = 2**25
"""Characters of all texts of prompts in a bundle, without those of questions and options."""
MOST_TRIED = 4
"""Texts of earlier prompts that are tried for a further one."""

Pieces = tuple[int | str, ...]
"""The parts of a text: 0 for the question, N for the text of the Nth option as shown, any other text as it is."""

NOT_MADE = "No prompt was made: the question ended in an error before."
NOT_KEPT = "Its text was not kept: prompts.jsonl of the run folder does not have it."
TOO_MUCH = "The texts of the prompts are too long for a page."


class SentExample(Shape, frozen=True):
    """A solved example within a prompt."""

    text: int
    """Its place in `SentPrompts.texts`."""
    answer: str
    end: str
    images: list[str]
    """Names of its images."""


class SentPrompt(Shape, frozen=True):
    """A prompt. Prompts that differ by question and options alone stand once."""

    text: int
    """Its place in `SentPrompts.texts`."""
    system: str
    order: str
    images: list[int | str]
    """In their order: places among the images of the question, and names of other images."""
    blank: bool
    """Whether the images were replaced by grey ones."""
    compared: Literal["", "letters", "texts", "others"]
    """The continuations whose probabilities are compared: letters or texts of the options, or `others`."""
    others: list[str]
    turns: list[tuple[str, str]]
    """Turns before the text: text and reply."""
    then: list[str]
    """The user's further turns, each sent after a reply."""
    examples: list[SentExample]
    withheld: int
    """The number of solved examples that are not kept, since their data are not declared public."""
    tokens: int | None
    """Limit of new tokens, 0 for none; null if the run records none."""


class SentPrompts(Shape, frozen=True):
    """The block `prompts`. `results.prompt` (i32) is a place in `prompts`, or -1 - R for `reasons[R]`."""

    texts: list[list[int | str]]
    """Texts in parts: 0 is the question, N the text of the Nth option as shown."""
    prompts: list[SentPrompt]
    reasons: list[str]
    """Why a prompt cannot be shown."""


@cache
def _no_prompt(technique: Technique) -> str:
    """The digest that a result has if its prompt could not be made."""
    return prompts.digest(Prompt("", technique=technique))


def filled(pieces: Iterable[int | str], question: str, options: Sequence[str]) -> str:
    """Return the text of pieces."""
    return "".join(
        piece if isinstance(piece, str) else question if piece == 0 else options[piece - 1] for piece in pieces
    )


def pieces_of(text: str, question: str, options: Sequence[str]) -> Pieces:
    """Return the parts of a text, so that `filled` makes it again."""
    pieces: list[int | str] = []
    for number, part in enumerate((question, *options)):
        before, found, after = text.partition(part) if part else (text, "", "")
        if found:
            pieces += [before, number] if before else [number]
            text = after
    return (*pieces, text) if text else tuple(pieces)


class Packer:
    """Puts prompts into the block `prompts`, each form once."""

    def __init__(self, folder: Path, run: RunRecord) -> None:
        """Take the prompts of a run folder."""
        self._kept = KeptPrompts(folder)
        self._run = run
        self._texts: dict[Pieces, int] = {}
        self._length = 0
        self._tried: dict[object, list[Pieces]] = {}
        self._prompts: dict[bytes, int] = {}
        self._packed: list[SentPrompt] = []
        self._reasons: dict[str, int] = {}
        self._last: tuple[object, int] = None, 0

    def add(self, result: Result) -> int:
        """Return the value of `results.prompt` for a result."""
        # The samples of a question follow one another and have one prompt.
        key = result.key._replace(sample=0), result.prompt
        if self._last[0] != key:
            self._last = key, self._added(result)
        return self._last[1]

    @property
    def block(self) -> SentPrompts:
        """All prompts."""
        return SentPrompts([list(pieces) for pieces in self._texts], self._packed, list(self._reasons))

    def _added(self, result: Result) -> int:
        kept = self._kept.get(result.prompt)
        if kept is None or self._length > MOST_TEXT:
            absent = NOT_MADE if result.prompt == _no_prompt(result.technique) else NOT_KEPT
            reason = absent if kept is None else TOO_MUCH
            return -1 - self._reasons.setdefault(reason, len(self._reasons))
        packed = self._sent(result, kept)
        number = self._prompts.setdefault(msgspec.json.encode(packed), len(self._packed))
        if number == len(self._packed):
            self._packed.append(packed)
        return number

    def _sent(self, result: Result, kept: KeptPrompt) -> SentPrompt:
        item = rotation.as_shown(result.item, result.variant)
        limits = (self._run.benchmark(item.benchmark).max_tokens or {}).get(result.technique, {})
        compared, others = _compared(kept, item)
        images = range(len(item.images)) if kept.images is None else kept.images
        return SentPrompt(
            self._text(kept.text, item, result),
            kept.system,
            kept.order,
            [*images],
            kept.blank,
            compared,
            others,
            [*kept.turns],
            [*kept.then],
            [SentExample(self._add((shot.text,)), shot.answer, shot.end, [*shot.images]) for shot in kept.shots],
            kept.withheld,
            limits.get(item.kind),
        )

    def _text(self, text: str, item: Item, result: Result) -> int:
        """The place of a text; `item` is the question within it."""
        options = list(item.options.values())
        key = item.benchmark, result.technique, result.variant, item.kind, len(options)
        tried = self._tried.setdefault(key, [])
        for pieces in tried:
            if filled(pieces, item.question, options) == text:
                return self._texts[pieces]
        pieces = pieces_of(text, item.question, options)
        if len(tried) < MOST_TRIED:
            tried.append(pieces)
        return self._add(pieces)

    def _add(self, pieces: Pieces) -> int:
        if pieces not in self._texts:
            self._length += sum(len(piece) for piece in pieces if isinstance(piece, str))
        return self._texts.setdefault(pieces, len(self._texts))


def _compared(kept: KeptPrompt, item: Item) -> tuple[Literal["", "letters", "texts", "others"], list[str]]:
    """The continuations whose probabilities are compared."""
    if not kept.compared:
        return "", []
    if kept.compared == tuple(item.options):
        return "letters", []
    return ("texts", []) if kept.compared == tuple(item.options.values()) else ("others", [*kept.compared])
