"""Compute measures from results, in one pass: the terms of each unit, then their sums over each slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from math import fsum, isnan
from operator import lt
from typing import TYPE_CHECKING

from medvqa import statistics, usercode
from medvqa.figures import defined
from medvqa.items import Answer, FailedMetric, Item, Kind, Measure, Metric, Result, Score, UsageError, of_data
from medvqa.metrics import references
from medvqa.metrics.definitions import LEFT_OUT, MAX_VALUE
from medvqa.metrics.frames import Frame, Layout, by_question, frames, layout_of
from medvqa.metrics.references import References, Unit
from medvqa.statistics import Correction, Estimated, Estimates, Influences, UnitTable
from medvqa.tags import selection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = "2"
"""Version of the counting rules, part of every signature. Raise it when the same answers may give other values.

Intervals have a version of their own, `statistics.METHOD`: values with other intervals remain comparable.
"""

UNITS = {"item": ("items", "items"), "pair": ("pairs", "image slots")}
"""The names of units: over everything, and in a slice."""


def latest(results: Sequence[Result]) -> list[Result]:
    """Return the last result of each key, sorted by key."""
    keys = [result.key for result in results]
    if all(map(lt, keys, keys[1:])):
        return list(results)
    last = dict(zip(keys, results, strict=True))
    return [last[key] for key in sorted(last)]


def broken_pairs(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the ids of pairs with only one question here, sorted. Pair metrics leave them out."""
    items = {result.key.question: result.item for result in latest(results)}
    return selection.broken_pairs(items.values())


def measures(
    results: Sequence[Result],
    metrics: Sequence[Metric],
    dimensions: Sequence[str],
    *,
    benchmark: str,
    signature: Mapping[str, str],
    score: Callable[[Item, Answer], Score] | None = None,
    orders: Callable[[Item], int] = lambda item: 1,
    read_by: Mapping[Kind, str] | None = None,
    failed: MutableSequence[FailedMetric] | None = None,
    alone: bool = False,
) -> list[Measure]:
    """Compute each metric over all results of one benchmark, then over each slice.

    Slices are the values of every dimension of the items' tags and of `kind`. Those of `dimensions` come first, then
    the other dimensions by name, values by name. One of `dimensions` may cross two others: "ability+question_type". A
    unit counts in a slice once for each of its results there: a pair counts twice if both its images are of the
    category. The last result of a key counts. The order of `results` does not change a bit of the values.

    `signature`: the parts that say how the answers were obtained. `score`: the benchmark's scoring; without it,
    multiple response and open questions have no references. `orders`: the number of orders in which an item was asked,
    if a result is right only if all answers are; references then guess in each order. `read_by`: the rule that read the
    answers, by kind of question; a measure's signature names the rules of its own kinds as `extraction`. `alone`:
    without slices of other dimensions than `dimensions`.

    A measure without units is left out. Over everything it stays, as null, if the metric applies to any unit. A metric
    is appended to `failed` if it raises an exception or its terms break the rules of `Metric`; without that list,
    UsageError is raised.
    """
    metric_tables = tables(results, metrics, dimensions, failed, alone=alone)
    if not metric_tables:
        return []
    majority = references.majority_answers(result.item for result in metric_tables[0].rows)
    lines = {
        unit: references.of_units(frame.units, frame.blind.tolist(), majority, score, orders)
        for unit, frame in {table.metric.unit: table.frame for table in metric_tables}.items()
    }
    # A macro average shares the terms of its micro average. Metrics with equal denominators share one correction.
    ratios: dict[int, _Ratios] = {}
    left = Counter(id(table.terms) for table in metric_tables)
    corrections: dict[object, Correction] = {}
    computed: list[Measure] = []
    for table in metric_tables:
        key = id(table.terms)
        if key not in ratios:
            ratios[key] = _ratios(table, lines[table.metric.unit], corrections)
        expand = _slices if table.over is None else _macro
        rule = {"extraction": reading(read_by, table.metric.kinds)} if read_by else {}
        computed += expand(table, ratios[key], benchmark, signed(table.metric, {**signature, **rule}))
        left[key] -= 1
        if not left[key]:
            # Together, the influences of all metrics would be the largest object of a report.
            del ratios[key]
    return computed


@dataclass(frozen=True, slots=True, eq=False)
class Tabled:
    """A metric and the terms of its units.

    `terms`: numerators and denominators, (2, units), 0 for a unit that is left out. `rows`: the measured results.
    `over`: the indices of the slices of a macro average, None for any other metric; `weights`: their weights, None if
    they count alike. `binary`: each observation is right or wrong. `bounded`: each unit's value is in [0, 1].
    """

    metric: Metric
    rows: Sequence[Result]
    frame: Frame
    terms: NDArray[np.float64]
    over: Sequence[int] | None
    binary: bool
    bounded: bool
    weights: Sequence[float] | None = None

    def estimate(self) -> Estimated:
        """Return the measure of every slice with its interval; that of a mean over slices alone."""
        return statistics.estimate(
            self.table(), binary=self.binary, bounded=self.bounded, over=self.over, weights=self.weights
        )

    def mean(self, influences: Influences) -> Influences:
        """Return the mean over `over` of the ratios in all slices; the ratios themselves if this is no mean."""
        if self.over is None:
            return influences
        return statistics.mean_over(influences, self.over, self.weights)

    @property
    def without_score(self) -> NDArray[np.bool_]:
        """Units, (units,), that the metric leaves out because one of their questions has no score."""
        return self._left_out(lambda result: result.score.value is None)

    @property
    def failed(self) -> int:
        """The number of units that the metric leaves out because one of their questions ended in error."""
        kinds = self.metric.kinds

        def failed(result: Result) -> bool:
            return result.score.outcome == "error" and (kinds is None or result.item.kind in kinds)

        return int(self._left_out(failed).sum())

    def _left_out(self, reason: Callable[[Result], bool]) -> NDArray[np.bool_]:
        """Units, (units,), that are left out and have a result with this reason."""
        import numpy as np

        left_out: NDArray[np.bool_] = self.terms[1] == 0
        if not left_out.any():
            return left_out
        samples = np.flatnonzero(left_out[self.frame.of]).tolist()
        with_reason = [any(map(reason, self.frame.samples[i])) for i in samples]
        return np.asarray(np.bincount(self.frame.of[samples], with_reason, len(left_out)) > 0)

    def table(self, *, complement: bool = False) -> UnitTable:
        """Return a table for `medvqa.statistics`: a row per observation in each slice; `complement`: of 1 - metric."""
        numerators, denominators = self.terms
        return self.frame.table(denominators - numerators if complement else numerators, denominators)


def tables(
    results: Sequence[Result],
    metrics: Sequence[Metric],
    dimensions: Sequence[str],
    failed: MutableSequence[FailedMetric] | None = None,
    *,
    alone: bool = False,
) -> list[Tabled]:
    """Return the terms of the results by metric, without metrics that apply to no result.

    `alone`: without slices of other dimensions than these. Other arguments and errors are as for `measures`. Tables of
    results on the same items differ only in their terms.
    """
    questions = by_question(latest(results))
    if not questions:
        return []
    layout = layout_of([samples[0] for samples in questions], dimensions, alone=alone)
    return tables_of(questions, layout, metrics, failed)


def tables_of(
    questions: Sequence[Sequence[Result]],
    layout: Layout,
    metrics: Sequence[Metric],
    failed: MutableSequence[FailedMetric] | None = None,
) -> list[Tabled]:
    """Return the terms of questions by metric, as `tables` does.

    `questions`: the samples of each, the last result of each key, sorted by key. `layout`: that of their items, which
    runs on the same items share.
    """
    rows = [result for samples in questions for result in samples]
    by_unit = frames(questions, layout)
    terms_by_key: dict[object, tuple[NDArray[np.float64], bool] | None] = {}
    metric_tables = []
    for metric in metrics:
        frame, key = by_unit[metric.unit], (metric.terms, metric.unit, metric.binary, metric.kinds)
        if key not in terms_by_key:
            try:
                terms_by_key[key] = _terms(metric, frame)
            except UsageError as error:
                if failed is None:
                    raise
                failed.append(FailedMetric(metric.name, str(error)))
                continue
        over, weights = _over(metric, frame)
        if (terms_and_binary := terms_by_key[key]) is None or over == []:
            continue
        terms, binary = terms_and_binary
        metric = replace(metric, binary=binary, percent=binary if metric.percent is None else metric.percent)
        bounded = bool((terms >= 0).all() and (terms[0] <= terms[1]).all())
        metric_tables.append(Tabled(metric, rows, frame, terms, over, binary and frame.whole, bounded, weights))
    return metric_tables


def _over(metric: Metric, frame: Frame) -> tuple[list[int] | None, list[float] | None]:
    """Return the slices that a metric is averaged over and their weights: [] if one with a weight is missing."""
    if metric.mean_over is None:
        return None, None
    if not metric.weights:
        return [i for i, (dimension, _) in enumerate(frame.slices) if dimension == metric.mean_over], None
    place_of = {value: i for i, (dimension, value) in enumerate(frame.slices) if dimension == metric.mean_over}
    places = [place_of[value] for value, _ in metric.weights if value in place_of]
    return (places if len(places) == len(metric.weights) else []), [weight for _, weight in metric.weights]


def reading(read_by: Mapping[Kind, str], kinds: Collection[Kind] | None = None) -> str:
    """Return the rule that reads answers to questions of these kinds (None: all); if several, each with its kind."""
    rules = {kind: rule for kind, rule in sorted(read_by.items()) if kinds is None or kind in kinds} or read_by
    if len(set(rules.values())) == 1:
        return next(iter(rules.values()))
    return "; ".join(f"{kind}: {rule}" for kind, rule in rules.items())


def signed(metric: Metric, signature: Mapping[str, str]) -> str:
    r"""Return a measure's signature: `key:value` joined by `|`, sorted by key; `\`, `|` and `:` are escaped by `\`.

    After the signatures of sacreBLEU (Post 2018). The metric's name is followed by a digest of its definition.
    `Metric.signs` are parts of their own.
    """
    parts = {**signature, "metric": f"{metric.name}@{sha256(metric.definition.encode()).hexdigest()[:8]}"}
    method = statistics.METHOD if metric.mean_over is None else statistics.METHOD_OF_MACROS
    method = method if metric.percent or metric.bounds else statistics.METHOD_OF_NUMBERS
    parts |= {"interval": method, "unit": metric.unit, "v": VERSION}
    if metric.kinds is not None:
        parts["kinds"] = "+".join(sorted(metric.kinds))
    if metric.mean_over is not None:
        parts["mean_over"] = metric.mean_over
    if metric.weights:
        parts["weights"] = "+".join(f"{value}={weight:g}" for value, weight in metric.weights)
    parts |= dict(metric.signs)
    return "|".join(f"{_escaped(key)}:{_escaped(parts[key])}" for key in sorted(parts))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("|", r"\|").replace(":", r"\:")


def parts(signature: str) -> dict[str, str]:
    """Parse a signature into its parts by key, the inverse of `signed`. ValueError for other text."""
    parsed, key, text, letters = dict[str, str](), "", "", iter(signature)
    for letter in letters:
        if letter == ":" and not key:
            key, text = text, ""
        elif letter == "|" and key:
            parsed[key], key, text = text, "", ""
        elif letter in "|:":
            raise ValueError(f"no signature of a measure: {signature!r}")
        else:
            text += next(letters, "") if letter == "\\" else letter
    if not key:
        raise ValueError(f"no signature of a measure: {signature!r}")
    return {**parsed, key: text}


@dataclass(frozen=True, slots=True)
class _Ratios:
    """A metric's ratio in each slice, (slices,) each, NaN where undefined, and the influences of its units."""

    count: list[float]
    n: list[float]
    value: list[float]
    low: list[float]
    high: list[float]
    references: Mapping[str, list[float]]
    units: list[int]
    groups: list[int]
    influences: Influences


def _ratios(tabled: Tabled, lines: References, corrections: dict[object, Correction]) -> _Ratios:
    """Sum the terms of all units over the slices, and compute intervals.

    `corrections` depend on denominators alone, so metrics with equal denominators share them.
    """
    import numpy as np

    frame, (numerators, denominators) = tabled.frame, tabled.terms
    count, n = frame.sums(numerators), frame.sums(denominators)
    value, low, high = _divide(count, n), np.full_like(n, np.nan), np.full_like(n, np.nan)
    table = tabled.table()
    influences = statistics.ratios(table)
    key = tabled.metric.unit, denominators.tobytes()
    if key not in corrections:
        corrections[key] = statistics.corrected(influences)
    estimates = statistics.clustered(influences, corrections[key])
    units = np.bincount(table.slice[table.denominator > 0], minlength=table.slices)
    if tabled.bounded or not tabled.metric.percent:
        low, high = _interval(tabled, estimates, binary=tabled.binary)
        # Estimates sum in another order: rounding must not put the value outside its interval.
        low, high = np.minimum(low, value), np.maximum(high, value)
    levels = {}
    for name in references.names(tabled.metric):
        expected = np.where(denominators > 0, lines.terms(tabled.metric, name), 0.0)
        levels[name] = _divide(frame.sums(expected[0]), frame.sums(expected[1])).tolist()
    rows = (count.tolist(), n.tolist(), value.tolist(), low.tolist(), high.tolist())
    return _Ratios(*rows, levels, units.tolist(), estimates.groups.tolist(), influences)


def _interval(tabled: Tabled, estimates: Estimates, *, binary: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the 95 % intervals: Wilson's for fractions and between known bounds, Student's for other numbers."""
    if tabled.metric.percent:
        return statistics.intervals(estimates, binary=binary)
    if tabled.metric.bounds:
        return statistics.within(estimates, *tabled.metric.bounds)
    return statistics.student(estimates)


def _terms(metric: Metric, frame: Frame) -> tuple[NDArray[np.float64], bool] | None:
    """Return numerators and denominators, (2, units), and whether the metric is binary.

    A unit that is left out has 0 and 0; a unit with several samples has their means. None if the metric applies to no
    unit. UsageError for bad terms.
    """
    import numpy as np

    if not any(_applies(metric, frame, frame.units)):
        return None
    units = frame.samples
    applicable = _applies(metric, frame, units)
    with usercode.guarded(f"metric '{metric.name}'", _expected(metric), function=metric.terms):
        terms = [metric.terms(unit) if applies else LEFT_OUT for unit, applies in zip(units, applicable, strict=True)]
    try:
        flat = np.fromiter(chain.from_iterable(terms), float)
    except (TypeError, ValueError):
        flat = np.empty(0)
    if flat.size != 2 * len(units):
        raise UsageError(f"metric '{metric.name}': its function must return (numerator, denominator)")
    binary = metric.binary or all(isinstance(numerator, bool) for numerator, denominator in terms if denominator)
    numerators, denominators = flat.reshape(-1, 2).T
    valid = (np.abs(numerators) <= MAX_VALUE) & (denominators <= MAX_VALUE) & (denominators >= 0)
    rule = "finite numbers and a denominator of at least 0 are needed"
    if binary:
        valid &= (denominators == 0) | ((denominators == 1) & ((numerators == 0) | (numerators == 1)))
        rule = "a binary metric needs a numerator of 0 or 1 and a denominator of 0 or 1; say binary=False"
    if not valid.all():
        bad = int(np.argmin(valid))
        raise UsageError(f"metric '{metric.name}' gave {terms[bad]} for {of_data(units[bad][0].item.id)}: {rule}")
    included = denominators > 0
    means = [frame.means(np.where(included, values, 0.0), included) for values in (numerators, denominators)]
    return np.array(means), binary


def _expected(metric: Metric) -> str:
    """Describe the signature that a metric's function must have, for messages."""
    if metric.binary is not None:
        return "a function of the results of one unit that returns (numerator, denominator)"
    arguments = "two results" if metric.unit == "pair" else "one result"
    unit = "pair" if metric.unit == "pair" else "question"
    return f"a function of {arguments} that returns True, False, a finite number, or None to leave the {unit} out"


def _applies(metric: Metric, frame: Frame, units: Sequence[Unit]) -> list[bool]:
    """Return for each of the frame's units whether all its questions are of the metric's kinds."""
    if metric.kinds is None or metric.kinds >= frame.kinds:
        return [True] * len(units)
    return [metric.kinds.issuperset([result.item.kind for result in unit]) for unit in units]


def _divide(count: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.divide(count, n, out=np.full_like(n, np.nan), where=n > 0)


def _slices(tabled: Tabled, ratios: _Ratios, benchmark: str, signature: str) -> list[Measure]:
    metric = tabled.metric
    return [
        Measure(
            benchmark,
            metric.name,
            defined(ratios.value[i]),
            defined(ratios.low[i]),
            defined(ratios.high[i]),
            ratios.n[i],
            ratios.count[i],
            UNITS[metric.unit][i > 0],
            {dimension: label} if i > 0 else {},
            {name: values[i] for name, values in ratios.references.items() if not isnan(values[i])},
            signature,
            units=ratios.units[i],
            groups=ratios.groups[i],
            percent=bool(metric.percent),
        )
        for i, (dimension, label) in enumerate(tabled.frame.slices)
        if ratios.n[i] > 0 or i == 0
    ]


def _macro(tabled: Tabled, ratios: _Ratios, benchmark: str, signature: str) -> list[Measure]:
    """Return the mean over the slices that have a value, and the references that all of these slices have."""
    lines = {name: mean(tabled, values, ratios.n) for name, values in ratios.references.items()}
    value, low, high = mean(tabled, ratios.value, ratios.n), None, None
    if (tabled.bounded or not tabled.metric.percent) and value is not None:
        estimates = statistics.clustered(tabled.mean(ratios.influences))
        (below,), (above,) = _interval(tabled, estimates, binary=tabled.binary)
        if not isnan(below):
            low, high = min(value, float(below)), max(value, float(above))
    kept = {name: line for name, line in lines.items() if line is not None}
    name, n, percent = tabled.metric.name, float(len(_with_value(tabled, ratios.n))), bool(tabled.metric.percent)
    measure = Measure(benchmark, name, value, low, high, n, None, "slices", {}, kept, signature)
    return [replace(measure, groups=ratios.groups[0], percent=percent)]


def mean(tabled: Tabled, values: Sequence[float], n: Sequence[float]) -> float | None:
    """Return the mean of a macro average over its slices with a value, by all slices' values and denominators `n`.

    None without any such slice, and if a weighted mean lacks one of its slices.
    """
    counted, weights = _with_value(tabled, n), tabled.weights
    if not counted or (weights is not None and len(counted) < len(weights)):
        return None
    if weights is None:
        return defined(fsum(values[i] for i in counted) / len(counted))
    return defined(fsum(weight * values[i] for weight, i in zip(weights, counted, strict=True)) / fsum(weights))


def _with_value(tabled: Tabled, n: Sequence[float]) -> list[int]:
    """The slices of a macro average that have a value."""
    return [i for i in tabled.over or () if n[i] > 0]
