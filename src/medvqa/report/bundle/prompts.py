"""Prompts as they were sent: rebuilt from recorded questions, and proved by the recorded digests.

A run folder holds the digest of each prompt and not its text. The benchmark's prompt function makes the text again from
the recorded question and protocol. A prompt is proved if its digest is the recorded one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal, cast

import msgspec

from medvqa import printing
from medvqa.benchmarks import own
from medvqa.items import (
    ORDERS,
    Ablation,
    Benchmark,
    Image,
    Item,
    MedVQAError,
    Prompt,
    Query,
    Result,
    Shot,
    Technique,
    Variant,
)
from medvqa.protocols import ablation, prompts, rotation, shots
from medvqa.protocols.prompts import FIELDS, OPTION_FIELDS, TURN_FIELDS, Template, wrong_field
from medvqa.protocols.protocol import Asks, assembled
from medvqa.records.private import DIGITS
from medvqa.report.build import Report
from medvqa.report.bundle.shape import Shape

MOST_READ = 1000
"""Images of a benchmark without a recorded digest, above which their files are not read to prove its prompts."""
MOST_TEXT = 2**25
"""Characters of all texts of prompts in a bundle, without those of questions and options."""
MOST_TRIED = 4
"""Texts of earlier prompts that are tried for a further one."""

MOST_SHOTS = 64
"""Solved examples of a question; with more, its prompt is not rebuilt."""
MOST_REASONS = 1000
"""Different reasons for showing no prompt."""
LONGEST_REASON = 300
"""Characters of the message of an error within a reason."""

Load = Callable[[Benchmark], Iterable[Item] | None]
Pieces = tuple[int | str, ...]
"""The parts of a text: 0 for the question, N for the text of the Nth option as shown, any other text as it is."""

NOT_MADE = "No prompt was made: the question ended in an error before."
DIFFERS = "The digest of this version's prompt differs from the recorded one."
UNKNOWN = "The run used the prompt {}, which this version does not have."
FAILS = "The benchmark's prompt function fails for the recorded question."
NO_DATA = "It needs the data: name their folder with medvqa report --data=DIR."
TOO_MANY = f"It has more than {MOST_SHOTS} solved examples."
NO_POOL = "Its solved examples come from a pool that is not read for pages."
PRIVATE = "Its solved examples are questions that the run folder does not hold, and their data are not declared public."
TOO_MUCH = "The texts of the prompts are too long for a page."


class SentExample(Shape, frozen=True):
    """A solved example within a prompt."""

    text: int
    """Its place in `SentPrompts.texts`."""
    answer: str
    end: str
    question: int
    """The question that fills the text, by its place in the columns; -1 if the text is written out."""
    images: list[str]
    """Names of its images."""


class SentPrompt(Shape, frozen=True):
    """A prompt. Prompts that differ by question and options alone stand once."""

    text: int
    """Its place in `SentPrompts.texts`."""
    proved: bool
    """Whether its digest is the recorded one. If not, its template is the recorded one, and no digest of an image is
    known."""
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
    tokens: int | None
    """Limit of new tokens, 0 for none; null if the run records none."""


class SentPrompts(Shape, frozen=True):
    """The block `prompts`. `results.prompt` (i32) is a place in `prompts`, or -1 - R for `reasons[R]`."""

    texts: list[list[int | str]]
    """Texts in parts: 0 is the question, N the text of the Nth option as shown."""
    prompts: list[SentPrompt]
    reasons: list[str]
    """Why a prompt cannot be shown."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A prompt as it was sent. `images`: its images by place among those of the question, or by name.

    `examples`: the questions of its solved examples with the names of the images shown, in their order.
    """

    prompt: Prompt
    proved: bool
    images: tuple[int | str, ...]
    examples: tuple[tuple[Item, tuple[str, ...]], ...] = ()


class CannotShowError(MedVQAError):
    """A prompt cannot be rebuilt for a page; the message is written for its readers."""


class Rebuilder:
    """Makes the prompts of a run's results again."""

    def __init__(self, report: Report, load: Load | None = None) -> None:
        """`load` returns the items of a benchmark from the data folder; without it, recorded items serve."""
        results: dict[str, tuple[Benchmark, list[Result]]] = {}
        for part in report.parts:
            results.setdefault(part.benchmark.name, (part.benchmark, []))[1].extend(part.results)
        self._benchmarks = {
            name: _OfBenchmark(benchmark, own_results, report, load)
            for name, (benchmark, own_results) in results.items()
        }
        self._last: tuple[object, Rebuilt | str] = None, ""

    def prompt(self, result: Result) -> Rebuilt | str:
        """Return the prompt of a result, or why it cannot be shown."""
        # The samples of a question follow one another and have one prompt.
        key = result.key._replace(sample=0), result.prompt
        if self._last[0] != key:
            self._last = key, self._benchmarks[result.item.benchmark].prompt(result)
        return self._last[1]


class _OfBenchmark:
    """The prompts of one benchmark's results."""

    def __init__(self, benchmark: Benchmark, results: Sequence[Result], report: Report, load: Load | None) -> None:
        self._benchmark = benchmark
        self._results = results
        self._load = load
        self._known = report.known
        self._protocol = report.run.protocol
        self._ablation = cast("Ablation | None", report.run.ablation)
        self._benchmark_run = report.run.benchmark(benchmark.name)
        self._asks: dict[str, list[Asks]] = {}

    def prompt(self, result: Result) -> Rebuilt | str:
        """Return the prompt of a result, or why it cannot be shown."""
        if result.prompt == _no_prompt(result.technique):
            return NOT_MADE
        why, unproved, missing = "", None, any(not image.digest for image in result.item.images)
        recorded = self._benchmark_run.prompts.get(result.technique, "")
        for ask in self._ways(result):
            try:
                for images in self._image_sets(result):
                    made, examples = self._made(result, ask, images)
                    shown = tuple(self._shown(image, images) for image in made.images)
                    if prompts.digest(made) == result.prompt:
                        names = (tuple(map(self._name, shot.images)) for shot in made.shots)
                        return Rebuilt(made, True, shown, tuple(zip(examples, names, strict=True)))
                    if f"+{made.template}+" not in f"+{recorded}+":
                        why = why or (UNKNOWN.format(recorded) if recorded else DIFFERS)
                    elif missing and not self._data:
                        why = NO_DATA
                        if unproved is None and not examples and self._ablation != "shuffle":
                            unproved = Rebuilt(made, False, shown)
            except CannotShowError as error:
                why = str(error)
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                # A message may name files of patients.
                told = isinstance(error, MedVQAError) and self._benchmark.public
                why = f"{FAILS} {printing.line(str(error))[:LONGEST_REASON]}" if told else FAILS
        return unproved or why or DIFFERS

    # The ways to ask

    def _ways(self, result: Result) -> list[Asks]:
        """The functions that may have made a prompt: the benchmark's own, and templates that run.json records."""
        asked_by = self._benchmark_run.asked_by or ("",)
        named = Variant.parse(result.variant).prompt or asked_by[0]
        if named not in self._asks:
            prompt = self._benchmark.prompts.get(named)
            asks: list[Asks] = [prompt] if callable(prompt) else []
            if not asks or named == "":
                asks.append(own.prompts_of(self._benchmark))
            templates = [_template(label, parts) for label, parts in self._benchmark_run.templates.items()]
            asks += [template.prompt for template in templates if template is not None]
            self._asks[named] = asks
        return self._asks[named]

    # Images

    def _image_sets(self, result: Result) -> Iterator[tuple[Image, ...]]:
        """The images of a question: as recorded, and those of the data folder if a digest is missing."""
        recorded = result.item.images
        yield recorded
        if any(not image.digest for image in recorded):
            data = self._data.get(result.item.id)
            if data is not None and len(data.images) == len(recorded):
                yield tuple(map(Image.pinned, data.images))

    @cached_property
    def _data(self) -> Mapping[str, Item]:
        """The items of the data folder by id; {} if it is unknown, or has too many images to read."""
        unread = {image for result in self._results for image in result.item.images if not image.digest}
        if self._load is None or len(unread) > MOST_READ:
            return {}
        try:
            items = [replace(item, benchmark=self._benchmark.name) for item in self._load(self._benchmark) or ()]
            if self._benchmark_run.answers == "category" and self._benchmark.owners.recover is not None:
                items = list(map(self._benchmark.owners.recover, items))
        except MedVQAError:
            return {}
        return {item.id: item for item in items}

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        """All items of the benchmark, sorted by id: those of the data folder, else recorded ones (CannotShowError)."""
        recorded = {result.item.id: result.item for result in self._results}
        items = self._data or (recorded if len(recorded) == self._benchmark_run.items else {})
        if not items:
            raise CannotShowError(NO_DATA)
        return tuple(items[name] for name in sorted(items))

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """Recorded names of images by digest."""
        images = (image for result in self._results for image in result.item.images)
        return {image.digest: image.name for image in images if image.digest}

    def _shown(self, image: Image, own_images: Sequence[Image]) -> int | str:
        """An image of a prompt by its place among those of the question, else by its name."""
        key = image.key.removeprefix("blank ")
        return next((place for place, other in enumerate(own_images) if other.key == key), self._name(image))

    def _name(self, image: Image) -> str:
        digest = image.digest.removeprefix("blank ")
        if digest in self._names:
            return self._names[digest]
        return image.name if self._benchmark.public else f"sha256-{digest[:DIGITS]}"

    # Prompts

    def _made(self, result: Result, ask: Asks, images: tuple[Image, ...]) -> tuple[Prompt, tuple[Item, ...]]:
        """A prompt as this version makes it, and its solved examples (CannotShowError)."""
        item = result.item if images is result.item.images else replace(result.item, images=images)
        exchanged = self._shuffled.get(item.id, ()) if self._ablation == "shuffle" else None
        examples, solved = self._solved(item, result.technique, ask) if self._protocol.shots else ((), ())
        query = Query(item, result.technique, result.sample, Variant.parse(result.variant))
        made = assembled(query, ask, self._protocol, self._ablation, images=exchanged, shots=solved)
        return prompts.pinned(made), examples

    @cached_property
    def _shuffled(self) -> Mapping[str, tuple[Image, ...]]:
        return ablation.shuffled(self._items)

    @cached_property
    def _chooser(self) -> shots.Chooser:
        """The chooser of solved examples (CannotShowError)."""
        name, benchmark = self._protocol.pool, self._benchmark
        if not name or name == benchmark.name:
            pool = shots.Pool(benchmark.name, self._items, public=benchmark.public)
        elif name in self._known:
            items = self._load(self._known[name]) if self._load is not None else None
            if items is None:
                raise CannotShowError(NO_DATA)
            pool = shots.Pool(name, tuple(sorted(items, key=lambda item: item.id)), public=self._known[name].public)
        else:
            raise CannotShowError(NO_POOL)
        # The part's benchmark has the user's own tags among its dimensions.
        dimensions = self._known.get(benchmark.name, benchmark).dimensions
        return shots.Chooser(pool, self._items, next(iter(dimensions), None))

    def _solved(self, item: Item, technique: Technique, ask: Asks) -> tuple[tuple[Item, ...], tuple[Shot, ...]]:
        """The solved examples of a question, as items and as shots (CannotShowError)."""
        if self._protocol.shots > MOST_SHOTS:
            raise CannotShowError(TOO_MANY)
        chooser, count = self._chooser, self._protocol.shots
        examples = chooser.exchanged(item, count) if self._ablation == "shuffle" else chooser.choose(item, count)
        if not chooser.pool.public and not set(map(shots.node, examples)) <= self._recorded:
            raise CannotShowError(PRIVATE)
        return examples, shots.solved(examples, technique, ask)

    @cached_property
    def _recorded(self) -> frozenset[tuple[str, str]]:
        return frozenset(shots.node(result.item) for result in self._results)


@cache
def _no_prompt(technique: Technique) -> str:
    """The digest that a result has if its prompt could not be made."""
    return prompts.digest(Prompt("", technique=technique))


def _template(label: str, parts: Mapping[str, str]) -> Template | None:
    """A template that run.json records; None unless its label has its digest."""
    text, option = parts.get("text", ""), parts.get("option", "")
    then = parts.get("then", "")
    # The texts are a stranger's: a format field may reach into Python's objects.
    fields = ((text, FIELDS, FIELDS[0]), (option, OPTION_FIELDS, None), (then, TURN_FIELDS, None))
    if any(wrong_field(part, known, needed) is not None for part, known, needed in fields):
        return None
    order = next((order for order in ORDERS if order == parts.get("order", ORDERS[0])), ORDERS[0])
    name = label.rpartition("@")[0]
    for turns in ((then,), tuple(then.split("\n"))) if then else ((),):
        template = Template(name, text, option, parts.get("system", ""), order=order, then=turns)
        if template.label == label:
            return template
    return None


# Packing


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

    def __init__(self, report: Report, load: Load | None = None) -> None:
        """`load` is as in `Rebuilder`."""
        self._rebuilder = Rebuilder(report, load)
        self._run = report.run
        self._texts: dict[Pieces, int] = {}
        self._length = 0
        self._tried: dict[object, list[Pieces]] = {}
        self._prompts: dict[bytes, int] = {}
        self._packed: list[SentPrompt] = []
        self._reasons: dict[str, int] = {}

    def add(self, result: Result, place: Callable[[str, str], int]) -> int:
        """Return the value of `results.prompt` for a result.

        `place` returns the place of a question by benchmark and id, -1 if the bundle does not hold it.
        """
        rebuilt = self._rebuilder.prompt(result)
        if isinstance(rebuilt, Rebuilt) and self._length > MOST_TEXT:
            rebuilt = TOO_MUCH
        if isinstance(rebuilt, str):
            if len(self._reasons) >= MOST_REASONS and rebuilt not in self._reasons:
                rebuilt = FAILS
            return -1 - self._reasons.setdefault(rebuilt, len(self._reasons))
        packed = self._sent(result, rebuilt, place)
        number = self._prompts.setdefault(msgspec.json.encode(packed), len(self._packed))
        if number == len(self._packed):
            self._packed.append(packed)
        return number

    @property
    def block(self) -> SentPrompts:
        """All prompts."""
        return SentPrompts([list(pieces) for pieces in self._texts], self._packed, list(self._reasons))

    def _sent(self, result: Result, rebuilt: Rebuilt, place: Callable[[str, str], int]) -> SentPrompt:
        item, prompt = rotation.as_shown(result.item, result.variant), rebuilt.prompt
        limits = (self._run.benchmark(item.benchmark).max_tokens or {}).get(result.technique, {})
        compared, others = _compared(prompt, item)
        return SentPrompt(
            self._text(prompt.text, item, result),
            rebuilt.proved,
            prompt.system,
            prompt.order,
            list(rebuilt.images),
            any(image.blank for image in prompt.images),
            compared,
            others,
            [(turn.text, turn.reply) for turn in prompt.turns],
            list(prompt.then),
            [
                self._example(shot, example, names, result, place(example.benchmark, example.id))
                for shot, (example, names) in zip(prompt.shots, rebuilt.examples, strict=True)
            ],
            limits.get(item.kind),
        )

    def _example(self, shot: Shot, example: Item, names: Sequence[str], result: Result, place: int) -> SentExample:
        text = self._text(shot.text, example if place >= 0 else None, result)
        return SentExample(text, shot.answer, shot.end, place, list(names))

    def _text(self, text: str, item: Item | None, result: Result) -> int:
        """The place of a text; `item` is the question within it."""
        if item is None:
            return self._add((text,))
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


def _compared(prompt: Prompt, item: Item) -> tuple[Literal["", "letters", "texts", "others"], list[str]]:
    """The continuations whose probabilities are compared."""
    if prompt.technique == "gd":
        values = list(prompt.options)
        return ("letters", []) if values == list(item.options) else ("others", values)
    if prompt.technique == "ps":
        values = list(prompt.options.values())
        return ("texts", []) if values == list(item.options.values()) else ("others", values)
    return "", []
