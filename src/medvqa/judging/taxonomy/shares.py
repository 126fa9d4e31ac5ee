"""Shares of the kinds of errors among the wrong answers that were classified, with 95 % intervals.

Every answer that was drawn counts in the denominator, also one without a kind (`unclassified`), so the main kinds of a
tree and `unclassified` sum to 1. Intervals are those of all shares: CR2 over groups of answers about the same images,
patients, cases or question, and Wilson's at the effective number (docs/statistics.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from medvqa import metrics, statistics
from medvqa.items import Metric, Result
from medvqa.judging.taxonomy.labels import Classified, ErrorLabel
from medvqa.judging.taxonomy.trees import UNCLASSIFIED, main_kind
from medvqa.judging.taxonomy.wrong_answers import VERSION, wrong_answers
from medvqa.records.run_record import RunRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    import numpy as np

    from medvqa.metrics.frames import groups

    labels = {label.key: label for label in classified.labels if label.benchmark == name}
    rows = [result for result in wrong if result.key in labels]
    if not rows:
        return []
    several = len({result.technique for result in wrong}) > 1
    places = _places(rows, dimensions, several=several)
    totals: dict[tuple[str, str], int] = {}
    for result in wrong:
        for place in _of(result, several=several):
            totals[place] = totals.get(place, 0) + 1
    entries = sorted((places[place], row) for row, result in enumerate(rows) for place in _of(result, several=several))
    slice_of, row_of = (np.array(column, dtype=np.intp) for column in zip(*entries, strict=True))
    group = groups(rows)[row_of]
    given = [labels[result.key] for result in rows]
    kinds = [*classified.trees[name].kinds, *([UNCLASSIFIED] if any(not label.kind for label in given) else [])]
    ones, found = np.ones(len(row_of)), []
    for kind in kinds:
        is_kind = np.array([_is(label, kind) for label in given], dtype=float)[row_of]
        table = statistics.UnitTable(is_kind, ones, row_of, group, slice_of, len(places))
        estimates = statistics.clustered(statistics.ratios(table))
        low, high = statistics.intervals(estimates, binary=True)
        count, n = (np.bincount(slice_of, values, len(places)) for values in (is_kind, ones))
        for place, i in places.items():
            value = float(count[i] / n[i])
            found.append(
                ErrorShare(
                    name,
                    kind,
                    value,
                    *_bounds(low, high, i, value),
                    int(count[i]),
                    int(n[i]),
                    totals[place],
                    int(estimates.groups[i]),
                    {place[0]: place[1]} if place[0] else {},
                    _signature(classified, name, kind, run, rows, (int(n[i]), totals[place])),
                )
            )
    rank = {kind: number for number, kind in enumerate(kinds)}
    order = {place: number for number, place in enumerate(places)}
    found.sort(key=lambda share: (order[next(iter(share.slice.items()), ("", ""))], rank[share.kind]))
    return found


def _bounds(
    low: NDArray[np.float64], high: NDArray[np.float64], i: int, value: float
) -> tuple[float | None, float | None]:
    if low[i] != low[i]:
        return None, None
    return min(float(low[i]), value), max(float(high[i]), value)


def _is(label: ErrorLabel, kind: str) -> bool:
    """Whether a label is of a kind, or of a kind within it."""
    return kind in (label.kind, main_kind(label.kind)) if label.kind else kind == UNCLASSIFIED


def _of(result: Result, *, several: bool) -> list[tuple[str, str]]:
    """The slices of an answer, as (dimension, value); ("", "") is the whole."""
    tags = {**({"technique": (result.technique,)} if several else {}), "kind": (result.item.kind,), **result.item.tags}
    return [("", ""), *((name, value) for name, values in tags.items() for value in dict.fromkeys(values))]


def _places(rows: Sequence[Result], dimensions: Sequence[str], *, several: bool) -> dict[tuple[str, str], int]:
    """Number the slices: the whole, techniques, the benchmark's dimensions, then others by name."""
    rank = {name: number for number, name in enumerate(("", "technique", *dimensions))}
    found = {place for result in rows for place in _of(result, several=several)}
    ordered = sorted(found, key=lambda place: (rank.get(place[0], len(rank)), place))
    return {place: number for number, place in enumerate(ordered)}


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
    return metrics.signed(Metric(f"error {kind}", _no_terms, definition=definition), parts)


def _no_terms(results: Sequence[Result]) -> tuple[float, float]:
    raise AssertionError("shares of errors are counted by labels")
