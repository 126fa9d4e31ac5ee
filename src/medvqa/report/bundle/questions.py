"""Questions and results as columns: the large part of a bundle.

Each question stands once, each result once; a result names its question. Strings of rows stand in one table, without
repetition. The texts of answers stand in blocks of their own, so that a page opens without reading them.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from medvqa.benchmarks import origins
from medvqa.items import (
    KINDS,
    OUTCOMES,
    Benchmark,
    Item,
    Judgement,
    Measure,
    Metric,
    QuestionKey,
    Result,
    UsageError,
    Variant,
)
from medvqa.protocols import rotation
from medvqa.report.build import PROMPT, prompt_of
from medvqa.report.bundle.columns import TypedArrays
from medvqa.report.bundle.explorer import confidence, marks, verdicts
from medvqa.report.bundle.facts import FROM_CATEGORY
from medvqa.report.bundle.images import ImageHead
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.prompts import Packer
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.texts import title_of
from medvqa.tags import lexicon

T = TypeVar("T")

CHUNK = 2048
"""Results in one block of answers."""
NONE = -1
"""The place of a value that is not there, in columns of type i32."""


class TagValue(Shape, frozen=True):
    """One value of a dimension."""

    value: str
    title: str
    """For people: as the benchmark prints it, else with spaces."""
    short: str
    """Abbreviations of the paper, or ""."""
    select: str | None
    """The argument of `lexicon(...)` for this value; null if pytest cannot select by it."""


class TagDimension(Shape, frozen=True):
    """A dimension of tags. Its values by question or result are the lists `tags/D` of the columns, D its place."""

    name: str
    of: Literal["questions", "results"]
    values: list[TagValue]


class BenchmarkHead(Shape, frozen=True):
    """A benchmark of the questions."""

    name: str
    title: str
    score: str
    """The measure by which branches are scored; "" without one."""
    definition: str
    command: str
    """The command line of a similar run of this benchmark."""
    pairs: bool
    """Whether questions come in pairs."""
    dimensions: list[int]
    """Places of its dimensions, in display order."""
    intervals: dict[str, dict[str, tuple[float, float]]]
    """Low and high of the score by technique and branch: "" for all, "D.V" for value V of dimension D."""


class RunHead(Shape, frozen=True):
    """A run whose results the bundle holds."""

    name: str
    model: str
    digest: str
    """Of its answers (`run_folder.answers_digest`); "" if unknown."""


class Tables(Shape, frozen=True):
    """The block `tables`: values to which columns point by place."""

    words: list[str]
    options: list[list[tuple[str, int]]]
    """Options of a question: letters, and places of their texts in `words`."""
    lists: list[list[str]]
    """Short lists of strings, such as the letters of an answer."""
    images: list[ImageHead]


class JudgeSaid(Shape, frozen=True):
    """What a judge said about an answer."""

    judge: str
    task: str
    template: str
    replies: list[str]
    seconds: float | None = None
    usage: dict[str, float] | None = None


class Folded(Shape, frozen=True):
    """Texts beside an answer that are never scored, such as hidden thoughts."""

    name: str
    texts: list[str]


class Answered(Shape, frozen=True):
    """The texts of one result: an element of the blocks `answers/K`."""

    response: str | None = None
    usage: dict[str, float] | None = None
    logprobs: dict[str, float] | None = None
    judged: JudgeSaid | None = None
    folded: list[Folded] | None = None
    cut: bool = False
    """Whether the reply was cut off outside of `response`, in an earlier turn or after the answer's line."""
    served: str = ""
    """The model that the server says it runs."""
    left_out: int = 0
    """Characters of the response after those that are here (`ComparisonView.cut`)."""
    why: str = ""
    """The reason of the score, if there is no column `results.why`."""


class Places:
    """Values by the order in which they first came."""

    def __init__(self) -> None:
        """No value has come."""
        self._places: dict[Any, int] = {}

    def place(self, value: Any) -> int:
        """The index of a value, which is added when it is new."""
        return self._places.setdefault(value, len(self._places))

    def values(self) -> list[Any]:
        """All values, by index."""
        return list(self._places)


@dataclass(frozen=True, slots=True)
class PackedRow:
    """A result of a run, or a question without one (`result` None), with the terms of its benchmark's score.

    `tags` are the result's own, beside its item's. `asked`: the terms among the answers to one prompt.
    """

    run: int
    benchmark: int
    item: Item
    result: Result | None = None
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    terms: tuple[float, float] = (0.0, 0.0)
    asked: tuple[float, float] = (0.0, 0.0)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Packed:
    """The large part of a bundle."""

    benchmarks: list[BenchmarkHead]
    dimensions: list[TagDimension]
    techniques: list[str]
    variants: list[str]
    finishes: list[str]
    columns: TypedArrays
    tables: Tables
    answers: list[list[Answered]]
    files: Mapping[str, bytes]
    """Image files inside the page, by name."""
    chunk: int = CHUNK
    """Results in each element of `answers` but the last."""


class Packing:
    """The values to which columns point, in the order in which they first came."""

    def __init__(self) -> None:
        """No value has come."""
        self.words, self.options, self.lists, self.images = Places(), Places(), Places(), Places()
        self.techniques, self.variants, self.finishes = Places(), Places(), Places()

    def listed(self, texts: Iterable[str]) -> int:
        """The place of a short list of strings."""
        return self.lists.place(tuple(texts))

    def offered(self, item: Item) -> int:
        """The place of an item's options."""
        return self.options.place(tuple((letter, self.words.place(text)) for letter, text in item.options.items()))

    def add_questions(self, columns: TypedArrays, items: Sequence[tuple[int, Item]], pictures: Pictures) -> None:
        """Add the columns of questions, each with the place of its benchmark."""
        columns.add("questions.benchmark", "u16", (number for number, _ in items))
        columns.add("questions.id", "u32", (self.words.place(item.id) for _, item in items))
        columns.add("questions.kind", "u8", (KINDS.index(item.kind) for _, item in items))
        columns.add("questions.text", "u32", (self.words.place(item.question) for _, item in items))
        columns.add("questions.options", "u32", (self.offered(item) for _, item in items))
        columns.add("questions.answers", "u32", (self.listed(item.answers) for _, item in items))
        pairs = (NONE if item.pair_id is None else self.words.place(item.pair_id) for _, item in items)
        columns.add("questions.pair", "i32", pairs)
        images = ([self.images.place(image) for image in pictures.of(item)] for _, item in items)
        columns.add_lists("questions.images", "u32", images)

    @property
    def tables(self) -> Tables:
        """The block `tables`."""
        return Tables(
            self.words.values(),
            [list(options_of_question) for options_of_question in self.options.values()],
            [list(texts) for texts in self.lists.values()],
            self.images.values(),
        )


def score_of(benchmark: Benchmark) -> Metric | None:
    """The measure by which branches and filters are scored: the first headline metric that counts single items."""
    by_name = {metric.name: metric for metric in benchmark.metrics if metric.unit == "item" and not metric.mean_over}
    return next((by_name[name] for name in benchmark.headline if name in by_name), None)


def terms_of(metric: Metric | None) -> Callable[[Result], tuple[float, float]]:
    """The numerator and the denominator that one result adds to a metric."""

    def terms(result: Result) -> tuple[float, float]:
        if metric is None or (metric.kinds is not None and result.item.kind not in metric.kinds):
            return 0.0, 0.0
        return metric.terms([result])

    return terms


def rows_of(
    benchmark: Benchmark,
    results: Sequence[Result],
    combined: Iterable[Result] | None,
    *,
    place: int,
    run: int = 0,
    tags: Callable[[Result], Mapping[str, Sequence[str]]] = lambda result: {},
) -> Iterator[PackedRow]:
    """The rows of one benchmark's results in a run.

    `combined`: the results that measures count in place of the answers to a question, None if they count all answers;
    the reasons of answers name them.
    """
    by_question = {result.key: result for result in combined or ()}
    counted = None if combined is None else by_question.values()
    terms = terms_of(score_of(benchmark))
    of_all = shared(results, terms, counted)
    of_prompt = shared(results, terms, counted, of=lambda result: (result.key.question, prompt_of(result)))
    for result, share, asked in zip(results, of_all, of_prompt, strict=True):
        prompt = prompt_of(result)
        own = {**({PROMPT: (prompt,)} if prompt else {}), **tags(result)}
        yield PackedRow(run, place, result.item, result, own, share, asked, _why(result, by_question))


def _why(result: Result, combined: Mapping[QuestionKey, Result]) -> str:
    """The reason of a score, which goes on with that of the result that counts for its question."""
    counted = _of(result.key, combined) if combined else None
    if counted is None or counted.key == result.key:
        return result.score.why
    return f"{result.score.why}; all answers: {counted.score.why} ({counted.score.outcome})"


def _of(key: QuestionKey, combined: Mapping[QuestionKey, T]) -> T | None:
    """The entry of the combined result that counts an answer."""
    in_any_order = key._replace(variant=Variant(Variant.parse(key.variant).prompt).name)
    keys = (key, in_any_order, key._replace(sample=0), in_any_order._replace(sample=0), key.question)
    return next((combined[each] for each in keys if each in combined), None)


def shared(
    results: Sequence[Result],
    terms: Callable[[Result], tuple[float, float]],
    combined: Iterable[Result] | None = None,
    *,
    of: Callable[[Result], object] = lambda result: result.key.question,
) -> Iterator[tuple[float, float]]:
    """The terms of each result; the answers to one question together count as one. `of` returns the question's key.

    If the answers to a question are `combined` into a result, each has a share of its terms. None: they are not.
    """
    counts = None if combined is None else {result.key: terms(result) for result in combined}
    # An answer that is combined into no result, as in an unfinished run, counts nowhere.
    pairs = [terms(result) if counts is None else _of(result.key, counts) or (0.0, 0.0) for result in results]
    questions = [of(result) for result in results]
    scored = Counter(which for which, (_, denominator) in zip(questions, pairs, strict=True) if denominator > 0)
    for which, (numerator, denominator) in zip(questions, pairs, strict=True):
        samples = scored[which] or 1
        yield numerator / samples, denominator / samples


def _questions(
    rows: Iterable[PackedRow],
) -> tuple[dict[tuple[int, str], list[int]], list[tuple[int, Item]], list[int]]:
    """Return the places of each id among the questions, the questions with their benchmarks, and each row's question.

    Runs may have other content or tags under one id: these are questions of their own.
    """
    places: dict[tuple[int, str], list[int]] = {}
    items: list[tuple[int, Item]] = []
    questions = []
    for row in rows:
        named = places.setdefault((row.benchmark, row.item.id), [])
        same = [place for place in named if items[place][1] is row.item or items[place][1] == row.item]
        if not same:
            same = [len(items)]
            named += same
            items.append((row.benchmark, row.item))
        questions.append(same[0])
    return places, items, questions


def pack(
    benchmarks: Sequence[Benchmark],
    rows: Iterable[PackedRow],
    *,
    command: Sequence[str],
    pictures: Pictures,
    measures: Iterable[Measure] = (),
    declared: Mapping[str, str] = MappingProxyType({}),
    asked: Packer | None = None,
) -> Packed:
    """Put rows into columns.

    `command` is the command line of the run up to its benchmark; `declared` has the files that declare benchmarks, by
    name. `measures` supply the intervals of branches of the tree over one dimension. `asked` collects the prompts.
    """
    rows = list(rows)
    packing = Packing()
    _, items, questions = _questions(rows)
    columns = TypedArrays()
    packing.add_questions(columns, items, pictures)

    answered = [(row, row.result) for row in rows if row.result is not None]
    # The letters of a response are those of the options as shown.
    shown = [rotation.result_shown(result) for _, result in answered]
    of_results = (question for row, question in zip(rows, questions, strict=True) if row.result is not None)
    columns.add("results.question", "u32", of_results)
    _add_results(columns, packing, answered, shown)
    if asked is not None:
        columns.add("results.prompt", "i32", (asked.add(result) for _, result in answered))

    dimensions, by_benchmark = dimensions_of_all(benchmarks, items, answered, columns)
    packed = list(map(answered_of, shown))
    return Packed(
        heads(benchmarks, by_benchmark, dimensions, items, command, measures, declared),
        dimensions,
        packing.techniques.values(),
        packing.variants.values(),
        packing.finishes.values(),
        columns,
        packing.tables,
        [packed[start : start + CHUNK] for start in range(0, len(packed), CHUNK)],
        pictures.blocks,
    )


def _add_results(
    columns: TypedArrays, packing: Packing, answered: Sequence[tuple[PackedRow, Result]], shown: Sequence[Result]
) -> None:
    """Add the columns of results; `shown`: the results of `answered`, with the options as the model saw them."""
    columns.add("results.run", "u16", (row.run for row, _ in answered))
    columns.add("results.technique", "u8", (packing.techniques.place(result.technique) for result in shown))
    columns.add_any("results.variant", "u16", (packing.variants.place(result.variant) for result in shown))
    columns.add_any("results.sample", "u32", (result.sample for result in shown))
    columns.add("results.outcome", "u8", (OUTCOMES.index(result.score.outcome) for result in shown))
    columns.add("results.options", "u32", (packing.offered(result.item) for result in shown))
    columns.add("results.answers", "u32", (packing.listed(result.item.answers) for result in shown))
    columns.add("results.extracted", "u32", (packing.listed(result.score.extracted) for result in shown))
    columns.add("results.why", "u32", (packing.words.place(row.why) for row, _ in answered))
    columns.add_any(
        "results.finish", "u8", (packing.finishes.place(r.answer.finish or "" if r.answer else "") for r in shown)
    )
    columns.add("results.seconds", "f32", (seconds_of(result) for result in shown))
    columns.add("results.confidence", "f32", (math.nan if (p := confidence(r)) is None else p for r in shown))
    columns.add("results.marks", "u8", map(marks, shown))
    columns.add("results.verdict", "u8", verdicts([(row.run, result) for row, result in answered]))
    for place, name in enumerate(("numerator", "denominator")):
        columns.add(f"results.{name}", "f64", (row.terms[place] for row, _ in answered))
        columns.add(f"results.prompt_{name}", "f64", (row.asked[place] for row, _ in answered))


def dimensions_of_all(
    benchmarks: Sequence[Benchmark],
    items: Sequence[tuple[int, Item]],
    answered: Sequence[tuple[PackedRow, Result]],
    columns: TypedArrays,
) -> tuple[list[TagDimension], list[list[int]]]:
    """All dimensions, whose columns are added, and the places of those of each benchmark."""
    of_questions = [{"kind": (item.kind,), **item.tags} for _, item in items]
    own = {name for row, _ in answered for name in row.tags}
    # A question may have a tag of such a name, too.
    of_results = [
        {**{name: row.item.tags[name] for name in own & row.item.tags.keys()}, **row.tags} for row, _ in answered
    ]
    names = [
        name
        for benchmark in benchmarks
        for name in dimensions_of(benchmark, (item for _, item in items if item.benchmark == benchmark.name))
        if name not in own
    ]
    dimensions: list[TagDimension] = []
    used: list[set[int]] = []
    sides: list[tuple[Literal["questions", "results"], list[str], Sequence[Mapping[str, Sequence[str]]], list[int]]] = [
        ("results", sorted(own), of_results, [row.benchmark for row, _ in answered]),
        ("questions", list(dict.fromkeys(names)), of_questions, [number for number, _ in items]),
    ]
    for side, named, tags, numbers in sides:
        for name in named:
            values = Places()
            lists = [[values.place(value) for value in each.get(name, ())] for each in tags]
            columns.add_lists(f"tags/{len(dimensions)}", "u16" if len(values.values()) < 2**16 else "u32", lists)
            used.append({number for number, places in zip(numbers, lists, strict=True) if places})
            dimensions.append(TagDimension(name, side, [_value(name, value) for value in values.values()]))
    return dimensions, [[d for d, seen in enumerate(used) if n in seen] for n in range(len(benchmarks))]


def _value(dimension: str, value: str) -> TagValue:
    return TagValue(
        value, title_of(dimension, value), ", ".join(lexicon.abbreviations(dimension, value)), _select(dimension, value)
    )


def _select(dimension: str, value: str) -> str | None:
    if dimension == PROMPT:
        return None
    try:
        return lexicon.expression({dimension: value}).removeprefix("lexicon(").removesuffix(")")
    except UsageError:
        return None


def dimensions_of(benchmark: Benchmark, items: Iterable[Item]) -> list[str]:
    """The dimensions of the items' tags, those of the benchmark first, `kind` last."""
    dimensions = {name for item in items for name in item.tags}
    first = [name for name in benchmark.dimensions if name in dimensions]
    return [*first, *sorted(dimensions - set(first) - {"kind"}), "kind"]


def heads(
    benchmarks: Sequence[Benchmark],
    dimensions_by_benchmark: Sequence[list[int]],
    dimensions: Sequence[TagDimension],
    items: Sequence[tuple[int, Item]],
    command: Sequence[str],
    measures: Iterable[Measure] = (),
    declared: Mapping[str, str] = MappingProxyType({}),
) -> list[BenchmarkHead]:
    """The benchmarks of the questions; arguments as for `pack`."""
    with_pairs = {number for number, item in items if item.pair_id}
    return [
        _head(benchmark, places, dimensions, command, measures, declared, number in with_pairs)
        for number, (benchmark, places) in enumerate(zip(benchmarks, dimensions_by_benchmark, strict=True))
    ]


def _head(
    benchmark: Benchmark,
    places: list[int],
    dimensions: Sequence[TagDimension],
    command: Sequence[str],
    measures: Iterable[Measure],
    declared: Mapping[str, str],
    pairs: bool,
) -> BenchmarkHead:
    score = score_of(benchmark)
    file = declared.get(benchmark.name)
    typed = [word for word in command if word != FROM_CATEGORY or benchmark.owners.recover is not None]
    # DIR stands for the data folder, whose path stays private.
    data = " --data=DIR" if origins.needs_files(benchmark) and file is None else ""
    return BenchmarkHead(
        benchmark.name,
        benchmark.title or benchmark.name,
        score.name if score else "",
        score.definition if score else "",
        shlex.join([*typed, f"--benchmark={file or benchmark.name}"]) + data,
        pairs,
        places,
        _intervals(benchmark, places, dimensions, measures),
    )


def _intervals(
    benchmark: Benchmark, places: Sequence[int], dimensions: Sequence[TagDimension], measures: Iterable[Measure]
) -> dict[str, dict[str, tuple[float, float]]]:
    score = score_of(benchmark)
    branches = {
        (dimensions[d].name, value.value): f"{d}.{v}" for d in places for v, value in enumerate(dimensions[d].values)
    } | {("", ""): ""}
    intervals: dict[str, dict[str, tuple[float, float]]] = {}
    for measure in measures:
        if score is None or (measure.benchmark, measure.name) != (benchmark.name, score.name):
            continue
        branch = branches.get(next(iter(measure.slice.items()), ("", "")))
        if branch is not None and measure.low is not None and measure.high is not None:
            intervals.setdefault(measure.technique, {})[branch] = measure.low, measure.high
    return intervals


def seconds_of(result: Result) -> float:
    """The time of an answer in seconds, NaN without one."""
    answer = result.answer
    return math.nan if answer is None or answer.seconds is None else answer.seconds


def answered_of(result: Result) -> Answered:
    """The texts of a result."""
    answer = result.answer
    judged = None if result.judgement is None else judged_of(result.judgement)
    folded = folded_of(result) or None
    if answer is None:
        return Answered(judged=judged, folded=folded)
    # The page takes an option that is not there for impossible: JSON has no -inf.
    logprobs = {
        letter: float(f"{value:.4g}") for letter, value in (answer.option_logprobs or {}).items() if value != -math.inf
    }
    return Answered(
        answer.text, dict(answer.usage or {}) or None, logprobs or None, judged, folded, answer.cut, answer.served_by
    )


def judged_of(judgement: Judgement) -> JudgeSaid:
    """A judgement as the page shows it."""
    seconds = None if judgement.seconds is None else float(f"{judgement.seconds:.3g}")
    usage = dict(judgement.usage) if judgement.usage else None
    return JudgeSaid(judgement.judge, judgement.task, judgement.template, list(judgement.replies), seconds, usage)


def folded_of(result: Result) -> list[Folded]:
    """Names and texts that the page folds beside the answer: they are never scored."""
    answer = result.answer
    texts: list[tuple[str, Sequence[str]]] = []
    if answer is not None:
        texts += [
            ("Whole reply", (answer.whole,) if answer.whole != answer.text else ()),
            ("Earlier replies", answer.earlier),
            ("Hidden thoughts", (answer.thoughts,)),
        ]
    return [Folded(name, list(replies)) for name, replies in texts if any(replies)]


def encode(content: object) -> bytes:
    """JSON of shapes. Characters that are none, as in the name of a folder, become question marks."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(content)))


def _encodable(content: Any) -> Any:
    if isinstance(content, dict):
        return {_encodable(name): _encodable(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_encodable(value) for value in content]
    return content.encode("utf-8", "replace").decode() if isinstance(content, str) else content
