"""Results -> measures, in one pass: the terms of each unit, then their sums over each slice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from math import fsum, isnan
from typing import TYPE_CHECKING

from medvqa import selection
from medvqa.items import Answer, Item, Measure, Metric, Result, Score, UsageError
from medvqa.metrics import references
from medvqa.metrics.definitions import LEFT_OUT
from medvqa.metrics.frames import Frame, frames
from medvqa.metrics.references import Unit
from medvqa.statistics import wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = "1"
"""Version of the counting rules, part of every signature: raised when the same answers may give other numbers."""

UNITS = {"item": ("items", "items"), "pair": ("pairs", "image slots")}
"""What is counted over everything, and in a slice."""


def latest(results: Sequence[Result]) -> list[Result]:
    """The last result of each (benchmark, id, technique), sorted by these."""
    last = {(result.item.benchmark, result.item.id, result.technique): result for result in results}
    return [last[key] for key in sorted(last)]


def broken_pairs(results: Sequence[Result]) -> tuple[str, ...]:
    """The ids of pairs of which one question alone is here, sorted: pair metrics leave them out."""
    return selection.broken_pairs(result.item for result in latest(results))


def measures(
    results: Sequence[Result],
    metrics: Sequence[Metric],
    dimensions: Sequence[str],
    *,
    benchmark: str,
    signature: Mapping[str, str],
    score: Callable[[Item, Answer], Score] | None = None,
) -> list[Measure]:
    """Compute each metric over all results of one benchmark, then over each slice.

    Slices are the values of every dimension of the items' tags and of `kind`: those of `dimensions` first, the other
    dimensions by name, values by name. A unit counts in a slice as often as it has results there: a pair twice
    where both its images are of the category. The last result of an item counts; the order of `results` does not
    matter, to the last bit. `signature` says how the answers were had. `score` is the benchmark's scoring; without
    it there are no references for multiple response and open questions.

    A measure without units is left out, but over everything it stays, as null, where the metric had something to
    apply to. Raises UsageError for a metric whose terms are not as `Metric` says.
    """
    rows = latest(results)
    if not rows:
        return []
    by_unit = frames(rows, dimensions, score)
    # A macro average has the terms of its micro average: they are summed once.
    summed: dict[object, _Ratios | None] = {}
    found: list[Measure] = []
    for metric in metrics:
        frame, key = by_unit[metric.unit], (metric.terms, metric.unit, metric.binary, metric.kinds)
        if key not in summed:
            summed[key] = _ratios(metric, frame)
        if (ratios := summed[key]) is not None:
            expand = _slices if metric.mean_over is None else _macro
            found += expand(metric, frame, ratios, benchmark, signed(metric, signature))
    return found


def signed(metric: Metric, signature: Mapping[str, str]) -> str:
    r"""How a number was computed: `key:value` joined by `|`, sorted by key; `\`, `|` and `:` are escaped by `\`.

    After the signatures of sacreBLEU (Post 2018). The metric's name is followed by a digest of its definition.
    """
    parts = {**signature, "metric": f"{metric.name}@{sha256(metric.definition.encode()).hexdigest()[:8]}"}
    parts |= {"unit": metric.unit, "v": VERSION}
    if metric.kinds is not None:
        parts["kinds"] = "+".join(sorted(metric.kinds))
    if metric.mean_over is not None:
        parts["mean_over"] = metric.mean_over
    return "|".join(f"{_escaped(key)}:{_escaped(parts[key])}" for key in sorted(parts))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("|", r"\|").replace(":", r"\:")


@dataclass(frozen=True, slots=True)
class _Ratios:
    """One ratio for each slice, (slices,) each; NaN where undefined."""

    count: list[float]
    n: list[float]
    value: list[float]
    low: list[float]
    high: list[float]
    references: Mapping[str, list[float]]


def _ratios(metric: Metric, frame: Frame) -> _Ratios | None:
    """Sum the terms of all units over the slices; None when the metric applies to no unit."""
    import numpy as np

    applies = _applies(metric, frame.units)
    if not any(applies):
        return None
    numerators, denominators = _terms(metric, frame.units, applies)
    count, n = frame.sums(numerators), frame.sums(denominators)
    value, low, high = _divide(count, n), np.full_like(n, np.nan), np.full_like(n, np.nan)
    if metric.binary:
        # The image slots of one pair share its outcome: Kish's effective number of units (Journal of Official
        # Statistics 8:183, 1992), which is n itself where all weights are 1.
        some = n > 0
        effective = n[some] ** 2 / frame.sums(denominators, power=2)[some]
        low[some], high[some] = wilson(value[some] * effective, effective)
    lines = {}
    for name in references.names(metric):
        expected = np.where(denominators > 0, frame.references.terms(metric, name), 0.0)
        lines[name] = _divide(frame.sums(expected[0]), frame.sums(expected[1])).tolist()
    return _Ratios(count.tolist(), n.tolist(), value.tolist(), low.tolist(), high.tolist(), lines)


def _applies(metric: Metric, units: Sequence[Unit]) -> list[bool]:
    """Whether all questions of each unit are of the metric's kinds."""
    if metric.kinds is None:
        return [True] * len(units)
    return [metric.kinds.issuperset([result.item.kind for result in unit]) for unit in units]


def _terms(metric: Metric, units: Sequence[Unit], applies: Sequence[bool]) -> NDArray[np.float64]:
    """Numerators and denominators, (2, units); 0 and 0 for a unit that is left out. UsageError for bad terms."""
    import numpy as np

    terms = [metric.terms(unit) if here else LEFT_OUT for unit, here in zip(units, applies, strict=True)]
    try:
        flat = np.fromiter(chain.from_iterable(terms), float)
    except (TypeError, ValueError):
        flat = np.empty(0)
    if flat.size != 2 * len(units):
        raise UsageError(f"metric '{metric.name}': its function must return (numerator, denominator)")
    numerators, denominators = flat.reshape(-1, 2).T
    good = np.isfinite(numerators) & np.isfinite(denominators) & (denominators >= 0)
    rule = "finite numbers and a denominator of at least 0 are needed"
    if metric.binary:
        good &= (denominators == 0) | ((denominators == 1) & ((numerators == 0) | (numerators == 1)))
        rule = "a binary metric needs a numerator of 0 or 1 and a denominator of 0 or 1; say binary=False"
    if not good.all():
        bad = int(np.argmin(good))
        raise UsageError(f"metric '{metric.name}' gave {terms[bad]} for {units[bad][0].item.id}: {rule}")
    return np.where(denominators > 0, (numerators, denominators), 0.0)


def _divide(count: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.divide(count, n, out=np.full_like(n, np.nan), where=n > 0)


def _slices(metric: Metric, frame: Frame, ratios: _Ratios, benchmark: str, signature: str) -> list[Measure]:
    return [
        Measure(
            benchmark,
            metric.name,
            _number(ratios.value[i]),
            _number(ratios.low[i]),
            _number(ratios.high[i]),
            ratios.n[i],
            ratios.count[i],
            UNITS[metric.unit][i > 0],
            {dimension: label} if i > 0 else {},
            {name: values[i] for name, values in ratios.references.items() if not isnan(values[i])},
            signature,
        )
        for i, (dimension, label) in enumerate(frame.slices)
        if ratios.n[i] > 0 or i == 0
    ]


def _macro(metric: Metric, frame: Frame, ratios: _Ratios, benchmark: str, signature: str) -> list[Measure]:
    """The mean over the slices with a value, a reference where all of these have it; [] without the dimension."""
    places = [i for i, (dimension, _) in enumerate(frame.slices) if dimension == metric.mean_over]
    if not places:
        return []
    defined = [i for i in places if ratios.n[i] > 0]
    lines = {name: _mean([values[i] for i in defined]) for name, values in ratios.references.items()}
    value = _mean([ratios.value[i] for i in defined])
    kept = {name: line for name, line in lines.items() if line is not None}
    return [
        Measure(benchmark, metric.name, value, None, None, float(len(defined)), None, "slices", {}, kept, signature)
    ]


def _mean(values: Sequence[float]) -> float | None:
    return _number(fsum(values) / len(values)) if values else None


def _number(value: float) -> float | None:
    return None if isnan(value) else value
