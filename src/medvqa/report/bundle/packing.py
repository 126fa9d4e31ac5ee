"""Columns of questions and results, which are filled as results come: those of one run and of several are alike."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from medvqa.benchmarks.folders import natural
from medvqa.comparing import Study
from medvqa.items import KINDS, OUTCOMES, Benchmark, Item, Measure, QuestionKey, Result, Variant
from medvqa.metrics.confidences import ranking_of
from medvqa.protocols import rotation
from medvqa.protocols.question_forms import offered
from medvqa.report.build import PROMPT, Part, prompt_of
from medvqa.report.bundle import questions
from medvqa.report.bundle.columns import MOST, TypedArrays
from medvqa.report.bundle.explorer import Verdicts, marks
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.prompts import Packer
from medvqa.report.bundle.questions import Answered, BenchmarkHead, ScaleView, Tables, TagDimension, Tagged

T = TypeVar("T")

CHUNK = 512
"""Results in one block of answers: small, since one opened question reads a whole block."""
CUT = 300
"""Characters of a response in a large comparison."""
WHOLE = 8_000_000
"""If the texts of all results of a comparison together have at most so many characters, none is cut."""
MOST_TEXTS = 300_000
"""Results whose texts the page of several runs holds; with more of them, it holds none."""
NONE = -1
"""The place of a value that is not there, in columns of type i32."""

_WHOLE = (
    *("question", "run", "technique", "own_technique", "variant", "sample", "outcome"),
    *("options", "answers", "extracted", "finish", "marks"),
)
"""Columns of results that hold whole numbers."""
_ASKED = ("run", "question", "technique", "variant")
Tags = Mapping[str, Sequence[str]]
NO_TAGS: Tags = MappingProxyType({})


class Places:
    """Values by the order in which they first came."""

    def __init__(self) -> None:
        """No value has come."""
        self._places: dict[Any, int] = {}

    def place(self, value: Hashable) -> int:
        """The index of a value, which is added when it is new."""
        return self._places.setdefault(value, len(self._places))

    def values(self) -> list[Any]:
        """All values, by index."""
        return list(self._places)


class ScoreTerms:
    """What answers add to their benchmark's score, and the reasons of their scores.

    `combined`: the results that measures count in place of the answers to a question, None if they count all answers.
    """

    def __init__(self, benchmark: Benchmark, combined: Iterable[Result] | None = None) -> None:
        """Take the results that count."""
        self._metric = questions.score_of(benchmark)
        self._combined = None if combined is None else {result.key: result for result in combined}

    def terms(self, result: Result) -> tuple[float, float]:
        """The numerator and the denominator of an answer; that of a combined result, if it counts in its place."""
        counts = result if self._combined is None else self._of(result.key)
        metric = self._metric
        # An answer that is combined into no result, as in an unfinished run, counts nowhere.
        if metric is None or counts is None or (metric.kinds is not None and counts.item.kind not in metric.kinds):
            return 0.0, 0.0
        return metric.terms([counts])

    def why(self, result: Result) -> str:
        """The reason of a score, which goes on with that of the result that counts for its question."""
        counts = self._of(result.key)
        if counts is None or counts.key == result.key:
            return result.score.why
        return f"{result.score.why}; all answers: {counts.score.why} ({counts.score.outcome})"

    def _of(self, key: QuestionKey) -> Result | None:
        """The combined result that counts an answer."""
        if not self._combined:
            return None
        in_any_order = key._replace(variant=Variant(Variant.parse(key.variant).prompt).name)
        keys = (key, in_any_order, key._replace(sample=0), in_any_order._replace(sample=0), key.question)
        return next((self._combined[each] for each in keys if each in self._combined), None)


@dataclass(frozen=True, slots=True)
class Packed:
    """The large part of a bundle; `cut` and `left_out` as in `BundleHead`."""

    benchmarks: list[BenchmarkHead]
    dimensions: list[TagDimension]
    techniques: list[str]
    variants: list[str]
    finishes: list[str]
    columns: TypedArrays
    tables: Tables
    answers: list[bytes]
    """Blocks of the texts of `CHUNK` results each; the last may have fewer."""
    files: Mapping[str, bytes]
    """Image files inside the page, by name."""
    scales: Sequence[ScaleView] = ()
    cut: int = 0
    left_out: str = ""


class Packing:
    """Takes questions and results, one after the other, into columns.

    `benchmarks` are those of the questions. `cut`: as in `questions.answered_of`. `texts`: whether the texts of results
    are kept.
    """

    def __init__(
        self, benchmarks: Sequence[Benchmark], pictures: Pictures, *, cut: int = 0, texts: bool = True
    ) -> None:
        """Nothing has come."""
        self._benchmarks, self._pictures, self._cut, self._texts = benchmarks, pictures, cut, texts
        self._words, self._options, self._lists, self._images = Places(), Places(), Places(), Places()
        self._techniques, self._variants, self._finishes = Places(), Places(), Places()
        self._items: list[tuple[int, Item]] = []
        self._by_id: dict[tuple[int, str], list[int]] = {}
        self._offered, self._keys = array("I"), array("I")
        self._verdicts = Verdicts()
        self._whole = {name: array("d" if name == "sample" else "I") for name in _WHOLE}
        self._numbers = {name: array("d") for name in ("seconds", "confidence", "numerator", "denominator")}
        self._own: dict[str, dict[int, Sequence[str]]] = {}
        self._chunk: list[Answered] = []
        self._answers: list[bytes] = []

    def question(self, benchmark: int, item: Item) -> int:
        """The place of a question, which is added if it is new.

        Runs may have other content or tags under one id: these are questions of their own. Groups are no part of it.
        """
        named = self._by_id.setdefault((benchmark, item.id), [])
        for place in named:
            known = self._items[place][1]
            if known is item or replace(known, cluster_id=None) == replace(item, cluster_id=None):
                return place
        named.append(len(self._items))
        self._items.append((benchmark, item))
        self._offered.append(self._options_of(item))
        self._keys.append(self._lists.place(item.answers))
        return named[-1]

    def add(
        self,
        question: int,
        result: Result,
        counted: ScoreTerms,
        *,
        run: int = 0,
        technique: str = "",
        tags: Tags = NO_TAGS,
    ) -> None:
        """Take a result of a question; `technique`: that by which it was asked, if runs are compared by another one.

        `tags` are the result's own, beside its item's.
        """
        # The letters of a response are those of the options as shown.
        shown = rotation.result_shown(result)
        asked = self._items[question][1]
        as_asked = (shown.item.options, shown.item.answers) == (asked.options, asked.answers)
        answer, score, place = shown.answer, shown.score, len(self._verdicts.bits)
        values = {
            "question": question,
            "run": run,
            "technique": self._techniques.place(result.technique),
            "own_technique": self._techniques.place(technique or result.technique),
            "variant": self._variants.place(result.variant),
            "sample": max(-MOST, min(MOST, result.sample)),
            "outcome": OUTCOMES.index(score.outcome),
            "options": self._offered[question] if as_asked else self._options_of(shown.item),
            "answers": self._keys[question] if as_asked else self._lists.place(shown.item.answers),
            "extracted": self._lists.place(tuple(score.extracted)),
            "finish": self._finishes.place((answer.finish or "") if answer else ""),
            "marks": marks(shown),
        }
        for name, value in values.items():
            self._whole[name].append(value)
        sure, seconds = ranking_of(shown), None if answer is None else answer.seconds
        for name, number in zip(self._numbers, (seconds, sure, *counted.terms(result)), strict=True):
            self._numbers[name].append(math.nan if number is None else number)
        self._verdicts.add(run, result)
        prompt = prompt_of(result)
        for name, texts in {**({PROMPT: (prompt,)} if prompt else {}), **tags}.items():
            self._own.setdefault(name, {})[place] = texts
        if self._texts:
            self._chunk.append(questions.answered_of(shown, counted.why(result), self._cut))
            if len(self._chunk) == CHUNK:
                self._end_chunk()

    def packed(
        self,
        *,
        command: Sequence[str] = ("pytest", "--model=MODEL"),
        measures: Iterable[Measure] = (),
        declared: Mapping[str, str] = MappingProxyType({}),
        prompts: Sequence[int] | None = None,
    ) -> Packed:
        """All that came.

        `command` is the command line of the run up to its benchmark; `declared` has the files that declare benchmarks,
        by name. `measures` supply the intervals of branches of the tree over one dimension. `prompts`: the column
        `results.prompt`.
        """
        columns = TypedArrays()
        self._add_questions(columns)
        self._add_results(columns)
        if prompts is not None:
            columns.add("results.prompt", "i32", prompts)
        dimensions, used = self._add_dimensions(columns)
        with_pairs = {number for number, item in self._items if item.pair_id}
        measures = list(measures)
        heads = [
            questions.benchmark_head(
                benchmark,
                {d: dimension for d, dimension in enumerate(dimensions) if number in used[d]},
                pairs=number in with_pairs,
                command=command,
                measures=measures,
                declared=declared,
            )
            for number, benchmark in enumerate(self._benchmarks)
        ]
        if self._chunk:
            self._end_chunk()
        names = (self._techniques.values(), self._variants.values(), self._finishes.values())
        sources = {image.source for image in self._images.values()}
        files = {name: content for name, content in self._pictures.blocks.items() if name in sources}
        return Packed(heads, dimensions, *names, columns, self._tables, self._answers, files, cut=self._cut)

    def _options_of(self, item: Item) -> int:
        return self._options.place(tuple((letter, self._words.place(text)) for letter, text in item.options.items()))

    def _end_chunk(self) -> None:
        self._answers.append(questions.encode(self._chunk))
        self._chunk = []

    @property
    def _tables(self) -> Tables:
        return Tables(
            self._words.values(),
            [list(options) for options in self._options.values()],
            [list(texts) for texts in self._lists.values()],
            self._images.values(),
        )

    def _add_questions(self, columns: TypedArrays) -> None:
        items, word = self._items, self._words.place
        pairs = [NONE if item.pair_id is None else word(item.pair_id) for _, item in items]
        columns.add_whole("questions.benchmark", [number for number, _ in items])
        columns.add_whole("questions.id", [word(item.id) for _, item in items])
        columns.add_whole("questions.kind", [KINDS.index(item.kind) for _, item in items])
        columns.add_whole("questions.text", [word(item.question) for _, item in items])
        columns.add_whole("questions.options", self._offered)
        columns.add_whole("questions.answers", self._keys)
        columns.add("questions.pair", "i32", pairs)
        images = ([self._images.place(image) for image in self._pictures.of(item)] for _, item in items)
        columns.add_lists("questions.images", images)

    def _add_results(self, columns: TypedArrays) -> None:
        whole, numbers = dict(self._whole), dict(self._numbers)
        if whole["own_technique"] == whole["technique"]:
            del whole["own_technique"]
        for name, values in whole.items():
            columns.add_whole(f"results.{name}", values)
        columns.add_whole("results.verdict", self._verdicts.bits)
        for name in ("seconds", "confidence"):
            columns.add(f"results.{name}", "f32", numbers[name])
        for prefix in ("", "prompt_") if PROMPT in self._own else ("",):
            for name, shares in self._shared(prefix):
                columns.add(f"results.{name}", "f64", shares)

    def _shared(self, prefix: str) -> Iterator[tuple[str, Iterator[float]]]:
        """The terms of each result: the answers to one question, or to one prompt of it, together count as one."""
        of = Places()
        prompts = [of.place(Variant.parse(name).prompt if prefix else "") for name in self._variants.values()]
        sizes = len(self._items), len(self._techniques.values()), len(prompts)
        groups = array("Q")
        for run, question, technique, variant in zip(*(self._whole[name] for name in _ASKED), strict=True):
            groups.append(((run * sizes[0] + question) * sizes[1] + technique) * sizes[2] + prompts[variant])
        below = self._numbers["denominator"]
        scored = Counter(group for group, denominator in zip(groups, below, strict=True) if denominator > 0)
        for name in ("numerator", "denominator"):
            values = zip(groups, self._numbers[name], strict=True)
            yield f"{prefix}{name}", (value / (scored[group] or 1) for group, value in values)

    def _add_dimensions(self, columns: TypedArrays) -> tuple[list[TagDimension], list[set[int]]]:
        """Add the columns of tags; return their dimensions, and for each the places of the benchmarks that have it."""
        of_result = self._whole["question"]
        dimensions, used = list[TagDimension](), list[set[int]]()

        def add(name: str, of: Tagged, lists: Iterable[tuple[int, Sequence[str]]]) -> None:
            values, having = Places(), set[int]()

            def places() -> Iterator[list[int]]:
                for number, texts in lists:
                    if texts:
                        having.add(number)
                    yield [values.place(text) for text in texts]

            columns.add_lists(f"tags/{len(dimensions)}", places())
            used.append(having)
            dimensions.append(TagDimension(name, of, [questions.tag_value(name, value) for value in values.values()]))

        for name in sorted(self._own):
            own, items = self._own[name], [self._items[question] for question in of_result]
            # A question may have a tag of such a name, too.
            add(name, "results", ((b, own.get(r, item.tags.get(name, ()))) for r, (b, item) in enumerate(items)))
        for name in self._named_dimensions():
            kind = name == "kind"
            add(name, "questions", ((b, item.tags.get(name, (item.kind,) if kind else ())) for b, item in self._items))
        return dimensions, used

    def _named_dimensions(self) -> list[str]:
        """The dimensions of questions: for each benchmark its own first, `kind` last."""
        found: list[dict[str, None]] = [{} for _ in self._benchmarks]
        for number, item in self._items:
            found[number].update(dict.fromkeys(item.tags))
        names = dict[str, None]()
        for benchmark, tags in zip(self._benchmarks, found, strict=True):
            first = [name for name in benchmark.dimensions if name in tags]
            names |= dict.fromkeys([*first, *sorted(tags.keys() - set(first) - {"kind"}), "kind"])
        return [name for name in names if name not in self._own]


# ---- one run, and several --------------------------------------------------------------------------------------------


def of_run(
    parts: Iterable[Part],
    pictures: Pictures,
    *,
    tags: Callable[[Result], Tags],
    prompts: Packer,
    command: Sequence[str],
    declared: Mapping[str, str],
) -> Packed:
    """Pack the results of a run, question by question; `prompts` collects the prompts that were sent."""
    parts = list(parts)
    by_name: dict[str, tuple[Benchmark, list[Result]]] = {}
    for part in parts:
        by_name.setdefault(part.benchmark.name, (part.benchmark, []))[1].extend(part.results)
    any_combined = any(part.combined != part.results for part in parts)
    combined = [result for part in parts for result in part.combined] if any_combined else None
    packing = Packing([benchmark for benchmark, _ in by_name.values()], pictures)
    for number, (benchmark, results) in enumerate(by_name.values()):
        _sort(results, lambda result: result)
        counted = ScoreTerms(benchmark, combined)
        for result in results:
            packing.add(packing.question(number, result.item), result, counted, tags=tags(result))
    # A prompt may name any question, so that these come first.
    sent = array("i", (prompts.add(result) for _, results in by_name.values() for result in results))
    measures = [measure for part in parts for measure in part.measures]
    return packing.packed(command=command, measures=measures, declared=declared, prompts=sent)


def of_study(study: Study, benchmarks: Mapping[str, Benchmark], pictures: Pictures) -> Packed:
    """Pack the results of the runs that are compared with any other run, and the units of each headline measure."""
    names, results = _compared(study)
    known = [benchmarks[name] for name in names]
    texts = sum(map(_characters, results))
    left_out = _left_out(len(results), len({run for run, _ in results}))
    packing = Packing(known, pictures, cut=0 if left_out or texts <= WHOLE else CUT, texts=not left_out)
    numbers = {name: number for number, name in enumerate(names)}
    rows = [(packing.question(numbers[result.item.benchmark], result.item), run, result) for run, result in results]
    places = {result.key.question: question for question, _, result in rows}
    # The results of one question lie in one block of answers.
    rows.sort(key=lambda row: row[0])
    counted, own = {name: ScoreTerms(benchmarks[name]) for name in names}, _own_techniques(study)
    for question, run, result in rows:
        name = result.item.benchmark
        result = replace(result, item=offered(result.item, study.sides[run].run.protocol.perturb))
        packing.add(question, result, counted[name], run=run, technique=own.get((run, name), ""))
    packed = packing.packed()
    for place, scale in enumerate(study.scales):
        # Keys of several techniques may name one question.
        units = [list(dict.fromkeys(places[key] for key in unit)) for unit in scale.units]
        order = sorted(range(len(units)), key=lambda unit: min(units[unit]))  # as their questions
        packed.columns.add_lists(f"units/{place}.questions", (units[unit] for unit in order))
        packed.columns.add(f"units/{place}.values", "f64", scale.values[order].ravel().tolist())
    return replace(packed, scales=questions.scale_views(study, names, packed.techniques), left_out=left_out)


def of_items(
    parts: Iterable[tuple[Benchmark, Iterable[Item]]], pictures: Pictures, declared: Mapping[str, str]
) -> Packed:
    """Pack questions without results."""
    parts = list(parts)
    packing = Packing([benchmark for benchmark, _ in parts], pictures)
    for number, (_, items) in enumerate(parts):
        for item in items:
            packing.question(number, item)
    return packing.packed(declared=declared)


def _compared(study: Study) -> tuple[list[str], list[tuple[int, Result]]]:
    """The names of the benchmarks that are compared, and the results of each run in natural order of their ids."""
    places = {side.name: place for place, side in enumerate(study.sides)}
    compared = [versus.paired for versus in study.versus if not versus.refusals]
    runs = sorted({*(places[side.name] for paired in compared for side in (paired.new, paired.baseline))})
    parts = dict.fromkeys((part.benchmark, part.technique) for paired in compared for part in paired.parts)
    parts |= dict.fromkeys((scale.benchmark, scale.technique) for scale in study.scales)
    results = [
        (run, result)
        for run in runs
        for result in study.aligned[run].results
        if (result.item.benchmark, result.technique) in parts
    ]
    _sort(results, lambda row: row[1])
    return list(dict.fromkeys(name for name, _ in parts)), results


def _sort(rows: list[T], result_of: Callable[[T], Result]) -> None:
    """Sort by the ids of questions, numbers in them by value; rows of one question keep their order."""
    in_order = cache(natural)
    rows.sort(key=lambda row: in_order(result_of(row).item.id))


def _own_techniques(study: Study) -> dict[tuple[int, str], str]:
    """The technique of runs that are compared by another one, by run and benchmark."""
    return {
        (run, name): techniques[0]
        for run, (side, aligned) in enumerate(zip(study.sides, study.aligned, strict=True))
        for name, techniques in side.asked.items()
        if techniques != aligned.asked.get(name)
    }


def _characters(row: tuple[int, Result]) -> int:
    """The number of characters of an answer's texts, also of those that are never scored."""
    answer = row[1].answer
    return 0 if answer is None else len(answer.text) + len(answer.whole) + len(answer.thoughts)


def _left_out(results: int, runs: int) -> str:
    """Say that responses are left out, "" if they are not."""
    if results <= MOST_TEXTS:
        return ""
    return (
        f"Responses are left out: {results:,} results of {runs} runs are too many for one page. "
        "`medvqa view` shows them."
    )
