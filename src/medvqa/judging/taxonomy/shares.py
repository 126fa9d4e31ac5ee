"""Shares of the kinds of errors among the wrong answers that were classified, with 95 % intervals.

Every answer that was drawn counts in the denominator, also one without a kind (`unclassified`), so the main kinds of a
tree and `unclassified` sum to 1. Intervals are those of all shares: CR2 over groups of answers about the same images,
patients, cases or question, and Wilson's at the effective number (docs/numbers.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from medvqa import metrics
from medvqa.items import Item, Metric, Result
from medvqa.judging.taxonomy.labels import Classified
from medvqa.judging.taxonomy.trees import UNCLASSIFIED, main_kind
from medvqa.judging.taxonomy.wrong_answers import VERSION, wrong_answers
from medvqa.metrics.frames import EVERYTHING, groups
from medvqa.records.run_record import RunRecord
from medvqa.tags.lexicon import CROSSED

Place = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ErrorShare:
    """The share of one kind of error: `count` of the `n` classified wrong answers, drawn from `of` wrong answers.

    `slice` is {} for the whole benchmark, or like {"task": "counting"}; {"technique": "mc"} and {"kind":
    "single_choice"} (of question) are slices too. `low` and `high` bound the 95 % interval, None without one.
    """

    benchmark: str
    kind: str
    value: float
    low: float | None
    high: float | None
    count: int
    n: int
    of: int
    groups: int
    slice: Place = field(default_factory=dict)
    signature: str = ""


def shares(
    classified: Classified, results: Iterable[Result], run: RunRecord, dimensions: Mapping[str, Sequence[str]]
) -> list[ErrorShare]:
    """Return the share of each kind in each benchmark, overall and by slice.

    `results` are the run's, and `run` its record; `dimensions` lists the first dimensions of each benchmark.
    """
    found = []
    by_benchmark: dict[str, list[Result]] = {name: [] for name in classified.samples}
    for result in results:
        if result.item.benchmark in by_benchmark:
            by_benchmark[result.item.benchmark].append(result)
    for name, own in by_benchmark.items():
        wrong, _ = wrong_answers(own, partial=classified.partial)
        found += _shares(classified, name, wrong, run, dimensions.get(name, ()))
    return found


def _shares(
    classified: Classified, name: str, wrong: Sequence[Result], run: RunRecord, dimensions: Sequence[str]
) -> list[ErrorShare]:
    labels = {label.key: label for label in classified.labels if label.benchmark == name}
    rows = [result for result in wrong if result.key in labels]
    if not rows:
        return []
    several = len({result.technique for result in wrong}) > 1
    totals = Counter(place for result in wrong for place in _places(result, several=several))
    names = [f"{row:09}" for row in range(len(rows))]
    counted = [
        _counted(row, group, result, several=several)
        for row, group, result in zip(names, groups(rows).tolist(), rows, strict=True)
    ]
    given = {row: labels[result.key].kind for row, result in zip(names, rows, strict=True)}
    kinds = [*classified.trees[name].kinds, *([UNCLASSIFIED] if "" in given.values() else [])]
    of_kinds = [Metric(kind, partial(_terms, kind, given)) for kind in kinds]
    first = ["technique", *(dimension for dimension in dimensions if CROSSED not in dimension)]
    by_place: dict[tuple[str, str], list[ErrorShare]] = {}
    for share in metrics.measures(counted, of_kinds, first, benchmark=name, signature={}):
        place = next(iter(share.slice.items()), EVERYTHING)
        n, count, value = int(share.n), int(share.count or 0), share.value or 0.0
        signature = _signature(classified, name, share.name, run, rows, (n, totals[place]))
        numbers = (value, share.low, share.high, count, n, totals[place], share.groups or 0)
        by_place.setdefault(place, []).append(ErrorShare(name, share.name, *numbers, share.slice, signature))
    return list(chain.from_iterable(by_place.values()))


def _counted(name: str, group: int, result: Result, *, several: bool) -> Result:
    """Return a result that counts an answer as a question of its own, in its group and in the slices of `_places`."""
    tags = {**result.item.tags, **({"technique": (result.technique,)} if several else {})}
    item = Item(name, result.item.benchmark, result.item.kind, tags=tags, cluster_id=str(group))
    return Result(result.run, item, "", result.answer, result.score)


def _terms(kind: str, kinds: Mapping[str, str], unit: Sequence[Result]) -> tuple[float, float]:
    """Return 1 of 1 for an answer of a kind, or of a kind within it."""
    own = kinds[unit[0].item.id]
    return float(kind in (own, main_kind(own)) if own else kind == UNCLASSIFIED), 1.0


def _places(result: Result, *, several: bool) -> list[tuple[str, str]]:
    """Return the slices of an answer, as (dimension, value)."""
    tags = {**({"technique": (result.technique,)} if several else {}), "kind": (result.item.kind,), **result.item.tags}
    return [EVERYTHING, *((name, value) for name, values in tags.items() for value in dict.fromkeys(values))]


def _signature(
    classified: Classified,
    name: str,
    kind: str,
    run: RunRecord,
    rows: Sequence[Result],
    numbers: tuple[int, int],
) -> str:
    tree, sample, judge = classified.trees[name], classified.samples[name], classified.judge
    chosen, of = numbers
    how = "" if classified.limit is None else f", drawn by seed {classified.seed}" + (sample.by and f" and {sample.by}")
    parts = {
        **run.benchmark(name).signature,
        "technique": "+".join(sorted({result.technique for result in rows})),
        "taxonomy": tree.label,
        "errors": VERSION,
        "errors_judge": judge.identity,
        "errors_prompt": judge.template,
        "errors_images": "shown" if judge.images else "not shown",
        "classified": f"{chosen} of {of} wrong answers{how}",
    }
    if classified.partial:
        parts["partial"] = "wrong"
    if classified.people is not None:
        parts["corrected_by"] = "+".join(classified.people.raters)
    definition = tree.kinds.get(kind, "No kind was found.")
    return metrics.signed(Metric(f"error {kind}", lambda unit: (0.0, 0.0), definition=definition), parts)
