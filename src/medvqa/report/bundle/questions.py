"""Questions and results in the shapes of a bundle; `packing` puts them into columns.

Each question stands once, each result once; a result names its question. Strings of rows stand in one table, without
repetition. The texts of answers stand in blocks of their own, so that a page opens without reading them.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from medvqa.benchmarks import origins
from medvqa.comparing import Study
from medvqa.items import Answer, Benchmark, Judgement, Measure, Metric, Result, UsageError
from medvqa.report import comparison
from medvqa.report.build import PROMPT
from medvqa.report.bundle.facts import FROM_CATEGORY
from medvqa.report.bundle.images import ImageHead
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.texts import label, title_of
from medvqa.tags import lexicon

Tagged = Literal["questions", "results"]


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
    of: Tagged
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


class ScaleView(Shape, frozen=True):
    """A headline measure of a benchmark and technique on which runs are compared unit by unit.

    The columns `units/S.*` hold its units, S its place in `BundleHead.scales`: the list `questions` (places of the
    unit's questions: one, or those of a pair) and `values` (f64, units x runs in the order of `BundleHead.runs`, one
    unit after the other; NaN where a run has no score). A unit flipped between two runs if both values are there and
    differ.
    """

    benchmark: int
    """A place in `BundleHead.benchmarks`."""
    technique: int
    """A place in `BundleHead.techniques`."""
    measure: str
    title: str
    """For people."""
    unit: Literal["item", "pair"]
    lower: bool
    """Whether less is better."""
    counted: str = ""
    """The number of questions that all runs have scored, in words; "" if the runs are not ranked by it."""


class PairOfRuns(Shape, frozen=True):
    """Two runs that are compared, which are places in `BundleHead.runs`."""

    new: int
    baseline: int


class Tables(Shape, frozen=True):
    """Values to which columns point by place. Field NAME is the block `tables/NAME`: a reader takes those it needs."""

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
    """Characters of the response after those that are here (`BundleHead.cut`)."""
    why: str = ""
    """The reason of the score."""


def scale_views(study: Study, benchmarks: Sequence[str], techniques: Sequence[str]) -> list[ScaleView]:
    """The scales of a study; `benchmarks` and `techniques` are those of the bundle's head, in its order."""
    counted = {(each.benchmark, each.technique, each.metric): comparison.of_all(each) for each in study.rankings}
    return [
        ScaleView(
            benchmarks.index(scale.benchmark),
            techniques.index(scale.technique),
            scale.metric,
            label(scale.metric),
            scale.unit,
            scale.better == "lower",
            counted.get((scale.benchmark, scale.technique, scale.metric), ""),
        )
        for scale in study.scales
    ]


def score_of(benchmark: Benchmark) -> Metric | None:
    """The measure by which branches and filters are scored: the first headline metric that counts single items."""
    by_name = {metric.name: metric for metric in benchmark.metrics if metric.unit == "item" and not metric.mean_over}
    return next((by_name[name] for name in benchmark.headline if name in by_name), None)


def tag_value(dimension: str, value: str) -> TagValue:
    """A value of a dimension in words."""
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


def benchmark_head(
    benchmark: Benchmark,
    dimensions: Mapping[int, TagDimension],
    *,
    pairs: bool,
    command: Sequence[str],
    measures: Iterable[Measure],
    declared: Mapping[str, str],
) -> BenchmarkHead:
    """A benchmark with its dimensions by their places in the head; further arguments as for `Packing.packed`."""
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
        list(dimensions),
        _intervals(benchmark.name, score, dimensions, measures),
    )


def _intervals(
    benchmark: str, score: Metric | None, dimensions: Mapping[int, TagDimension], measures: Iterable[Measure]
) -> dict[str, dict[str, tuple[float, float]]]:
    branches = {("", ""): ""} | {
        (dimension.name, value.value): f"{d}.{v}"
        for d, dimension in dimensions.items()
        for v, value in enumerate(dimension.values)
    }
    intervals: dict[str, dict[str, tuple[float, float]]] = {}
    for measure in measures:
        if score is None or (measure.benchmark, measure.name) != (benchmark, score.name):
            continue
        branch = branches.get(next(iter(measure.slice.items()), ("", "")))
        if branch is not None and measure.low is not None and measure.high is not None:
            intervals.setdefault(measure.technique, {})[branch] = measure.low, measure.high
    return intervals


def answered_of(result: Result, why: str, cut: int = 0) -> Answered:
    """The texts of a result, with the reason of its score.

    `cut`: the most characters of the response, of each of the judge's replies, and of the reason; 0 for whole texts.
    Token counts and texts that are never scored are left out if texts are cut.
    """
    answer = result.answer
    judged = None if result.judgement is None else _judged(result.judgement, cut)
    why = _shortened(why, cut)
    if answer is None:
        return Answered(judged=judged, why=why)
    # The page takes an option that is not there for impossible: JSON has no -inf.
    logprobs = {
        letter: float(f"{value:.4g}") for letter, value in (answer.option_logprobs or {}).items() if value != -math.inf
    }
    if cut:
        # Without a text, probabilities are the whole answer.
        shown = None if answer.text else logprobs or None
        left_out = max(0, len(answer.text) - cut)
        return Answered(answer.text[:cut], logprobs=shown, judged=judged, cut=answer.cut, left_out=left_out, why=why)
    return Answered(
        answer.text,
        dict(answer.usage or {}) or None,
        logprobs or None,
        judged,
        _folded(answer) or None,
        answer.cut,
        answer.served_by,
        why=why,
    )


def _shortened(text: str, cut: int) -> str:
    return f"{text[:cut]}…" if cut and len(text) > cut else text


def _judged(judgement: Judgement, cut: int) -> JudgeSaid:
    seconds = None if judgement.seconds is None else float(f"{judgement.seconds:.3g}")
    usage = dict(judgement.usage) if judgement.usage else None
    replies = [_shortened(reply, cut) for reply in judgement.replies]
    return JudgeSaid(judgement.judge, judgement.task, judgement.template, replies, seconds, usage)


def _folded(answer: Answer) -> list[Folded]:
    """Names and texts that the page folds beside the answer: they are never scored."""
    texts: list[tuple[str, Sequence[str]]] = [
        ("Whole reply", (answer.whole,) if answer.whole != answer.text else ()),
        ("Earlier replies", answer.earlier),
        ("Hidden thoughts", (answer.thoughts,)),
    ]
    return [Folded(name, list(replies)) for name, replies in texts if any(replies)]


def table_blocks(tables: Tables) -> dict[str, bytes]:
    """The blocks of tables."""
    return {f"tables/{name}": encode(getattr(tables, name)) for name in Tables.__struct_fields__}


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
