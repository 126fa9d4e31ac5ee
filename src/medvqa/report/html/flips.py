"""Data for the script of a comparison page: flipped units with both answers, as columns of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medvqa.comparing import Flip, Paired
from medvqa.data import lexicon
from medvqa.items import OUTCOMES, Benchmark, Result
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.html.pack import Places, addresses, beside, dimensions_of, judged


def pack(
    compared: Sequence[Paired], benchmarks: Mapping[str, Benchmark], pictures: Pictures, *, measures: str, ranking: str
) -> dict[str, Any]:
    """The content for the script; `measures` and `ranking` are tables that the page offers as CSV.

    A unit that flipped in several measures stands once.
    """
    texts, options, sources, metrics, techniques = Places(), Places(), Places(), Places(), Places()
    names = list(dict.fromkeys(flip.benchmark for paired in compared for flip in paired.flips))
    items = {
        name: [r.item for paired in compared for flip in paired.flips if flip.benchmark == name for r in flip.new]
        for name in names
    }
    dimensions = {name: dimensions_of(benchmarks[name], items[name]) for name in names}
    values = {name: {dimension: Places() for dimension in dimensions[name]} for name in names}
    units: dict[str, list[Any]] = {
        name: [] for name in ("comparison", "benchmark", "technique", "unit", "flips", "tags", "questions")
    }
    results: dict[str, list[Any]] = {name: [] for name in RESULTS}
    questions: dict[str, list[Any]] = {name: [] for name in QUESTIONS}
    judgements: dict[str, Any] = {}
    folded: dict[str, Any] = {}

    def answered(result: Result) -> int:
        """Add a result; its place."""
        place = len(results["outcome"])
        answer = result.answer
        row = {
            "outcome": OUTCOMES.index(result.score.outcome),
            "extracted": list(result.score.extracted),
            "why": texts.place(result.score.why),
            "response": answer.text if answer else None,
            "seconds": None if answer is None or answer.seconds is None else float(f"{answer.seconds:.3g}"),
        }
        for name, column in results.items():
            column.append(row[name])
        if result.judgement is not None:
            judgements[str(place)] = judged(result.judgement)
        if texts_beside := beside(result):
            folded[str(place)] = texts_beside
        return place

    def asked(benchmark: str, new: Result, baseline: Result) -> int:
        """Add a question with both answers; its place."""
        item = new.item
        row = {
            "id": item.id,
            "sample": new.sample or baseline.sample,
            "question": texts.place(item.question),
            "options": options.place(tuple(item.options.items())),
            "answers": list(item.answers),
            "images": [sources.place(source) for source in addresses(pictures, item)],
            "names": [image.name for image in item.images],
            "new": answered(new),
            "baseline": answered(baseline),
        }
        for name, column in questions.items():
            column.append(row[name])
        return len(questions["id"]) - 1

    for number, paired in enumerate(compared):
        for flipped in _by_unit(paired.flips):
            flip = flipped[0]
            tables = values[flip.benchmark]
            tags = [
                sorted({table.place(value) for r in flip.new for value in _tags(r).get(name, ())})
                for name, table in tables.items()
            ]
            row = {
                "comparison": number,
                "benchmark": names.index(flip.benchmark),
                "technique": techniques.place(flip.technique),
                "unit": flip.unit,
                "flips": [[metrics.place(flip.metric), int(flip.better)] for flip in flipped],
                "tags": tags,
                "questions": [asked(flip.benchmark, *both) for both in _side_by_side(flip)],
            }
            for name, column in units.items():
                column.append(row[name])
    return {
        "comparisons": [{"new": paired.new.name, "baseline": paired.baseline.name} for paired in compared],
        "benchmarks": [
            {
                "name": name,
                "title": benchmarks[name].title or name,
                "dimensions": [
                    {
                        "name": dimension,
                        "values": [
                            [
                                value,
                                lexicon.display(dimension, value),
                                ", ".join(lexicon.abbreviations(dimension, value)),
                            ]
                            for value in table.values()
                        ],
                    }
                    for dimension, table in values[name].items()
                ],
            }
            for name in names
        ],
        "metrics": metrics.values(),
        "techniques": techniques.values(),
        "outcomes": OUTCOMES,
        "texts": texts.values(),
        "options": options.values(),
        "sources": sources.values(),
        "units": units,
        "questions": questions,
        "results": results,
        "judgements": judgements,
        **({"beside": folded} if folded else {}),
        "csv": {"measures": measures, "ranking": ranking},
    }


QUESTIONS = ("id", "sample", "question", "options", "answers", "images", "names", "new", "baseline")
RESULTS = ("outcome", "extracted", "why", "response", "seconds")


def _tags(result: Result) -> Mapping[str, Sequence[str]]:
    return {"kind": (result.item.kind,), **result.item.tags}


def _by_unit(flips: Sequence[Flip]) -> list[list[Flip]]:
    """The flips of each unit, in the order in which units first flipped."""
    units: dict[tuple[str, str, str], list[Flip]] = {}
    for flip in flips:
        units.setdefault((flip.benchmark, flip.technique, flip.unit), []).append(flip)
    return list(units.values())


def _side_by_side(flip: Flip) -> list[tuple[Result, Result]]:
    """Both answers to each question, sample by sample.

    Samples are paired in order. If one run has fewer samples, its last one is paired with the surplus of the other.
    """
    sides = [_by_question(side) for side in (flip.new, flip.baseline)]
    matched: list[tuple[Result, Result]] = []
    for id in sides[0]:
        new, baseline = (side.get(id, []) for side in sides)
        if new and baseline:
            number = max(len(new), len(baseline))
            matched += [(new[min(i, len(new) - 1)], baseline[min(i, len(baseline) - 1)]) for i in range(number)]
    return matched


def _by_question(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The samples of each question, by its id, in the order of their numbers."""
    questions: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.sample):
        questions.setdefault(result.item.id, []).append(result)
    return dict(sorted(questions.items()))
