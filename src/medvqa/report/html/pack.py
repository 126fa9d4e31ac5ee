"""Data for the page's script: items, tags and terms as columns of JSON, deflated, in base64.

Repeated strings (questions, options, tags) are stored once in a table. With Deflate, 26,000 items with responses of
300 characters take a few megabytes.
"""

from __future__ import annotations

import base64
import math
import shlex
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from medvqa.data import lexicon
from medvqa.items import KINDS, OUTCOMES, Benchmark, Item, Judgement, Measure, Metric, QuestionKey, Result, UsageError
from medvqa.protocols import rotation
from medvqa.protocols.variants import Variant
from medvqa.report.build import PROMPT, prompt_of
from medvqa.report.bundle.facts import FROM_CATEGORY
from medvqa.report.bundle.pictures import Pictures

Combined = TypeVar("Combined")

LEVEL = 9
NO_PICTURES = Pictures("none", "")


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


def squeeze(content: object) -> str:
    """JSON, deflated (zlib), in base64: no character of it means anything in HTML."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(content), LEVEL)).decode("ascii")


def addresses(pictures: Pictures, item: Item) -> list[str]:
    """The `src` attributes of the images of a question that are inside the page, "" for others."""
    types = {"png": "png", "jpg": "jpeg", "webp": "webp"}
    return [
        f"data:image/{types[head.source.rpartition('.')[2]]};base64,{base64.b64encode(content).decode()}"
        if (content := pictures.blocks.get(head.source)) is not None
        else ""
        for head in pictures.of(item)
    ]


def stretch(text: str) -> Any:
    """The inverse of `squeeze`."""
    return msgspec.json.decode(zlib.decompress(base64.b64decode(text)))


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


def run(
    parts: Sequence[tuple[Benchmark, Sequence[Result]]],
    command: Sequence[str],
    pictures: Pictures = NO_PICTURES,
    measures: Iterable[Measure] = (),
    combined: Iterable[Result] | None = None,
    declared: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The content for results, by benchmark; `command` is the command line of the run up to its benchmark.

    `declared` has the files that declare benchmarks, by name.

    `measures` supply the intervals of branches of the tree over one dimension. `combined`: the results that measures
    count in place of the answers to a question, None if they count all answers; the reasons of answers name them.
    """
    by_question = {result.key: result for result in combined or ()}
    counted = None if combined is None else by_question.values()
    items = [(benchmark, [_tagged(result) for result in results]) for benchmark, results in parts]
    rows = [
        (number, item, _with_combined(result, by_question), *terms)
        for number, ((benchmark, results), (_, tagged)) in enumerate(zip(parts, items, strict=True))
        for result, item, terms in zip(
            results, tagged, shared(results, terms_of(score_of(benchmark)), counted), strict=True
        )
    ]
    content = _content(items, rows, command, pictures, declared)
    if any(map(prompt_of, (result for _, results in parts for result in results))):
        content["prompt_terms"] = [
            [_short(numerator), _short(denominator)]
            for benchmark, results in parts
            for numerator, denominator in shared(results, terms_of(score_of(benchmark)), counted, of=_asked_by)
        ]
    names = list(measures)
    for (benchmark, _), about in zip(parts, content["benchmarks"], strict=True):
        about["intervals"] = _intervals(benchmark, about["dimensions"], names)
    # Few runs have a judge: store judgements separately, by the place of the item.
    content["judgements"] = {
        str(place): judged(result.judgement)
        for place, (_, _, result, *_) in enumerate(rows)
        if result.judgement is not None
    }
    folded = {str(place): beside(result) for place, (_, _, result, *_) in enumerate(rows)}
    if folded := {place: texts for place, texts in folded.items() if texts}:
        content["beside"] = folded
    return content


def _tagged(result: Result) -> Item:
    """The item with its prompt among its tags, if the run asks by several prompts."""
    prompt = prompt_of(result)
    return replace(result.item, tags={**result.item.tags, PROMPT: (prompt,)}) if prompt else result.item


def _asked_by(result: Result) -> tuple[object, ...]:
    return result.key.question, prompt_of(result)


def beside(result: Result) -> list[tuple[str, tuple[str, ...]]]:
    """Names and texts that the page folds beside the answer: they are never scored."""
    answer, ranking = result.answer, result.ranking
    texts = []
    if answer is not None:
        texts += [
            ("Whole reply", (answer.whole,) if answer.whole != answer.text else ()),
            ("Earlier replies", answer.earlier),
            ("Hidden thoughts", (answer.thoughts,)),
        ]
    if ranking is not None:
        chosen = "none was selected" if ranking.chosen is None else f"selected: {ranking.chosen}"
        texts += [(f"Answers to select from ({chosen})", ranking.candidates), ("Selecting reply", (ranking.reply,))]
    return [(name, replies) for name, replies in texts if any(replies)]


def _intervals(
    benchmark: Benchmark, dimensions: Sequence[Mapping[str, Any]], measures: Iterable[Measure]
) -> dict[str, dict[str, list[float]]]:
    """Low and high of the score by technique and branch: "" for everything, "2.5" for value 5 of dimension 2."""
    score = score_of(benchmark)
    branches = {
        (about["name"], value): f"{d}.{v}"
        for d, about in enumerate(dimensions)
        for v, (value, *_) in enumerate(about["values"])
    } | {("", ""): ""}
    intervals: dict[str, dict[str, list[float]]] = {}
    for measure in measures:
        if score is None or (measure.benchmark, measure.name) != (benchmark.name, score.name):
            continue
        branch = branches.get(next(iter(measure.slice.items()), ("", "")))
        if branch is not None and measure.low is not None and measure.high is not None:
            intervals.setdefault(measure.technique, {})[branch] = [measure.low, measure.high]
    return intervals


def judged(judgement: Judgement) -> dict[str, Any]:
    """A judgement, as the script shows it."""
    return {
        "judge": judgement.judge,
        "task": judgement.task,
        "template": judgement.template,
        "replies": list(judgement.replies),
        "seconds": None if judgement.seconds is None else float(f"{judgement.seconds:.3g}"),
        "usage": judgement.usage,
    }


def _with_combined(result: Result, combined: Mapping[QuestionKey, Result]) -> Result:
    """The result; its reason goes on with that of the result that counts for its question."""
    counted = _of(result.key, combined) if combined else None
    if counted is None or counted.key == result.key:
        return result
    why = f"{result.score.why}; all answers: {counted.score.why} ({counted.score.outcome})"
    return replace(result, score=replace(result.score, why=why))


def _of(key: QuestionKey, combined: Mapping[QuestionKey, Combined]) -> Combined | None:
    """The entry of an answer: its own, else that of its sample, of its prompt, or of its question."""
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


def tree(parts: Sequence[tuple[Benchmark, Sequence[Item]]]) -> dict[str, Any]:
    """The content for items without answers."""
    rows = [(number, item, None, 0.0, 0.0) for number, (_, items) in enumerate(parts) for item in items]
    declared = {benchmark.name: PurePath(benchmark.declared.path).name for benchmark, _ in parts if benchmark.declared}
    return _content(parts, rows, ["pytest", "--model=MODEL"], NO_PICTURES, declared)


def _content(
    parts: Sequence[tuple[Benchmark, Sequence[Item]]],
    rows: Iterable[tuple[int, Item, Result | None, float, float]],
    command: Sequence[str],
    pictures: Pictures,
    declared: Mapping[str, str],
) -> dict[str, Any]:
    texts, options, sources = Places(), Places(), Places()
    techniques = Places()
    dimensions = [dimensions_of(benchmark, items) for benchmark, items in parts]
    values = [{name: Places() for name in names} for names in dimensions]
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for number, item, result, numerator, denominator in rows:
        if result is not None:
            # The letters of the response are those of the options as shown.
            tagged, result = item, rotation.result_shown(result)
            item = result.item if result.item.tags is tagged.tags else replace(result.item, tags=tagged.tags)
        tags = {"kind": (item.kind,), **item.tags}
        row = {
            "benchmark": number,
            "id": item.id,
            "kind": KINDS.index(item.kind),
            "question": texts.place(item.question),
            "options": options.place(tuple(item.options.items())),
            "answers": list(item.answers),
            "pair": item.pair_id,
            "tags": [[table.place(value) for value in tags.get(name, ())] for name, table in values[number].items()],
            "images": [sources.place(source) for source in addresses(pictures, item)],
            "names": [image.name for image in item.images],
            "terms": [_short(numerator), _short(denominator)],
            "sample": result.sample if result else 0,
            "variant": result.variant if result else "",
            **_answered(result, techniques),
        }
        for name, column in columns.items():
            column.append(row[name])
    if not any(columns["variant"]):
        del columns["variant"]
    return {
        "benchmarks": [
            _about(benchmark, names, tables, command, declared.get(benchmark.name))
            for (benchmark, _), names, tables in zip(parts, dimensions, values, strict=True)
        ],
        "kinds": KINDS,
        "outcomes": OUTCOMES,
        "techniques": techniques.values(),
        "texts": texts.values(),
        "options": options.values(),
        "sources": sources.values(),
        "judgements": {},
        "items": columns,
    }


COLUMNS = (
    *("benchmark", "id", "sample", "variant", "kind", "question", "options", "answers", "pair", "tags", "images"),
    *("names", "terms"),
    *("technique", "outcome", "extracted", "why", "response", "finish", "seconds", "usage", "logprobs"),
)


def _answered(result: Result | None, techniques: Places) -> dict[str, Any]:
    """The columns that tell of the answer; all null without one."""
    if result is None:
        return dict.fromkeys(("technique", "outcome", "extracted", "why", "response", "finish"), None) | {
            "seconds": None,
            "usage": None,
            "logprobs": None,
        }
    answer = result.answer
    return {
        "technique": techniques.place(result.technique),
        "outcome": OUTCOMES.index(result.score.outcome),
        "extracted": list(result.score.extracted),
        "why": result.score.why,
        "response": answer.text if answer else None,
        "finish": answer.finish if answer else None,
        "seconds": None if answer is None or answer.seconds is None else float(f"{answer.seconds:.3g}"),
        "usage": answer.usage if answer else None,
        "logprobs": None
        if answer is None or answer.option_logprobs is None
        # The page takes an option that is not there for impossible: JSON has no -inf.
        else {letter: float(f"{value:.4g}") for letter, value in answer.option_logprobs.items() if value != -math.inf},
    }


def _short(number: float) -> float | int:
    return int(number) if number.is_integer() else number


def dimensions_of(benchmark: Benchmark, items: Iterable[Item]) -> list[str]:
    """The dimensions of the items' tags, those of the benchmark first, `kind` last."""
    dimensions = {name for item in items for name in item.tags}
    first = [name for name in benchmark.dimensions if name in dimensions]
    return [*first, *sorted(dimensions - set(first) - {"kind"}), "kind"]


def _about(
    benchmark: Benchmark,
    dimensions: Sequence[str],
    tables: Mapping[str, Places],
    command: Sequence[str],
    declared: str | None,
) -> dict[str, Any]:
    score = score_of(benchmark)
    words = [word for word in command if word != FROM_CATEGORY or benchmark.recover is not None]
    return {
        "name": benchmark.name,
        "title": benchmark.title or benchmark.name,
        "score": score.name.replace("_", " ") if score else "",
        "definition": score.definition if score else "",
        # DIR stands for the data folder, whose path stays private.
        "command": shlex.join([*words, f"--benchmark={declared or benchmark.name}"])
        + (" --data=DIR" if benchmark.files is not None and declared is None else ""),
        "intervals": {},
        "dimensions": [
            {
                "name": name,
                "values": [
                    [value, lexicon.display(name, value), ", ".join(lexicon.abbreviations(name, value))]
                    for value in tables[name].values()
                ],
                "select": [_selected(name, value) for value in tables[name].values()],
            }
            for name in dimensions
        ],
    }


def _selected(dimension: str, value: str) -> str | None:
    """The argument of `lexicon(...)` for a tag, None for a dimension that pytest cannot select by."""
    if dimension == PROMPT:
        return None
    try:
        return lexicon.expression({dimension: value}).removeprefix("lexicon(").removesuffix(")")
    except UsageError:
        return None
