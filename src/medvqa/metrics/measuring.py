"""Results -> measures, in one pass: the terms of each unit, then their sums over each slice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from math import fsum, isnan
from typing import TYPE_CHECKING

from medvqa import statistics, usercode
from medvqa.data import selection
from medvqa.items import Answer, FailedMetric, Item, Kind, Measure, Metric, Result, Score, UsageError
from medvqa.metrics import references
from medvqa.metrics.definitions import LEFT_OUT, MAX_VALUE
from medvqa.metrics.frames import Frame, frames
from medvqa.metrics.references import References, Unit
from medvqa.statistics import Correction, Estimates, Influences, Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = "2"
"""Version of the counting rules, part of every signature: raised when the same answers may give other values.

The intervals have a part of their own, `statistics.METHOD`: values with other intervals remain comparable.
"""

_Counts = tuple[list[int], list[int]]
"""Numbers of units and of groups, (slices,) each."""

UNITS = {"item": ("items", "items"), "pair": ("pairs", "image slots")}
"""The names of units, over everything and in a slice."""


def latest(results: Sequence[Result]) -> list[Result]:
    """The last result of each key, sorted by key."""
    last = {result.key: result for result in results}
    return [last[key] for key in sorted(last)]


def broken_pairs(results: Sequence[Result]) -> tuple[str, ...]:
    """The ids of pairs of which one question alone is here, sorted: pair metrics leave them out."""
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
    read_by: Mapping[Kind, str] | None = None,
    failed: MutableSequence[FailedMetric] | None = None,
) -> list[Measure]:
    """Compute each metric over all results of one benchmark, then over each slice.

    Slices are the values of every dimension of the items' tags and of `kind`: those of `dimensions` first, the other
    dimensions by name, values by name. A unit counts in a slice as often as it has results there: a pair twice
    where both its images are of the category. The last result of an item counts; the order of `results` does not
    matter, to the last bit. `signature` says how the answers were had. `score` is the benchmark's scoring; without
    it there are no references for multiple response and open questions. `read_by` names the rule that read the answers
    to each kind of question: the signature of a measure then names the rules of its own kinds as `extraction`.

    A measure without units is left out, but over everything it stays, as null, where the metric had something to
    apply to. A metric that raises an exception, or whose terms are not as `Metric` says, is appended to `failed`;
    without that list it is a UsageError.
    """
    tabled = tables(results, metrics, dimensions, failed)
    if not tabled:
        return []
    majority = references.majority_answers(result.item for result in tabled[0].rows)
    lines = {
        unit: references.of_units(frame.units, frame.blind.tolist(), majority, score)
        for unit, frame in {each.metric.unit: each.frame for each in tabled}.items()
    }
    # A macro average has the terms of its micro average, and all metrics of the same denominators one correction.
    made: dict[int, _Ratios] = {}
    corrections: dict[object, Correction] = {}
    counts: dict[object, _Counts] = {}
    found: list[Measure] = []
    for each in tabled:
        if id(each.terms) not in made:
            made[id(each.terms)] = _ratios(each, lines[each.metric.unit], corrections, counts)
        expand = _slices if each.over is None else _macro
        read = {"extraction": reading(read_by, each.metric.kinds)} if read_by else {}
        found += expand(each, made[id(each.terms)], benchmark, signed(each.metric, {**signature, **read}))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Tabled:
    """A metric and the terms of its units: `terms` are numerators and denominators, (2, units), 0 where left out.

    `rows` are the results that were measured. `over` holds the places of the slices that a macro average is over, None
    for any other metric. `binary`: everything that is counted once is right or wrong. `bounded`: all of it is in
    [0, 1].
    """

    metric: Metric
    rows: Sequence[Result]
    frame: Frame
    terms: NDArray[np.float64]
    over: Sequence[int] | None
    binary: bool
    bounded: bool

    @property
    def without_score(self) -> NDArray[np.bool_]:
        """The units, (units,), that the metric leaves out because a question of theirs has no score."""
        import numpy as np

        left_out: NDArray[np.bool_] = self.terms[1] == 0
        if not left_out.any():
            return left_out
        samples = np.flatnonzero(left_out[self.frame.of]).tolist()
        unscored = [any(result.score.value is None for result in self.frame.samples[i]) for i in samples]
        return np.asarray(np.bincount(self.frame.of[samples], unscored, len(left_out)) > 0)

    def table(self, *, complement: bool = False) -> Table:
        """The table for `medvqa.statistics`: a row per pair or question in each slice; `complement`: of 1 - metric."""
        numerators, denominators = self.terms
        return self.frame.table(denominators - numerators if complement else numerators, denominators)


def scored_in_all(tabled: Sequence[Tabled]) -> list[Tabled]:
    """Leave out of each run's terms the units that lack a score in any of the runs.

    `tabled` are the tables of one metric for runs on the same items. A unit that a metric leaves out for another
    reason, such as an invalid pair for `confusion`, stays in the other runs.
    """
    import numpy as np

    lacking = np.any([each.without_score for each in tabled], axis=0)
    if not lacking.any():
        return list(tabled)
    return [replace(each, terms=np.where(lacking, 0.0, each.terms)) for each in tabled]


def tables(
    results: Sequence[Result],
    metrics: Sequence[Metric],
    dimensions: Sequence[str],
    failed: MutableSequence[FailedMetric] | None = None,
) -> list[Tabled]:
    """Return the terms of the results, by metric, without metrics that apply to none of them.

    Arguments and errors as for `measures`. Results on the same items give tables that differ in their terms alone.
    """
    rows = latest(results)
    if not rows:
        return []
    by_unit = frames(rows, dimensions)
    summed: dict[object, tuple[NDArray[np.float64], bool] | None] = {}
    found = []
    for metric in metrics:
        frame, key = by_unit[metric.unit], (metric.terms, metric.unit, metric.binary, metric.kinds)
        if key not in summed:
            try:
                summed[key] = _terms(metric, frame)
            except UsageError as error:
                if failed is None:
                    raise
                failed.append(FailedMetric(metric.name, str(error)))
                continue
        over = None
        if metric.mean_over is not None:
            over = [i for i, (dimension, _) in enumerate(frame.slices) if dimension == metric.mean_over]
        if (made := summed[key]) is None or over == []:
            continue
        terms, binary = made
        metric = replace(metric, binary=binary, percent=binary if metric.percent is None else metric.percent)
        bounded = bool((terms >= 0).all() and (terms[0] <= terms[1]).all())
        found.append(Tabled(metric, rows, frame, terms, over, binary and frame.whole, bounded))
    return found


def reading(read_by: Mapping[Kind, str], kinds: Collection[Kind] | None = None) -> str:
    """Return the rule that reads answers to questions of these kinds (None: all); several of them with their kinds."""
    rules = {kind: rule for kind, rule in sorted(read_by.items()) if kinds is None or kind in kinds} or read_by
    if len(set(rules.values())) == 1:
        return next(iter(rules.values()))
    return "; ".join(f"{kind}: {rule}" for kind, rule in rules.items())


def signed(metric: Metric, signature: Mapping[str, str]) -> str:
    r"""How a number was computed: `key:value` joined by `|`, sorted by key; `\`, `|` and `:` are escaped by `\`.

    After the signatures of sacreBLEU (Post 2018). The metric's name is followed by a digest of its definition.
    """
    parts = {**signature, "metric": f"{metric.name}@{sha256(metric.definition.encode()).hexdigest()[:8]}"}
    method = statistics.METHOD if metric.percent else statistics.METHOD_OF_NUMBERS
    parts |= {"interval": method, "unit": metric.unit, "v": VERSION}
    if metric.kinds is not None:
        parts["kinds"] = "+".join(sorted(metric.kinds))
    if metric.mean_over is not None:
        parts["mean_over"] = metric.mean_over
    return "|".join(f"{_escaped(key)}:{_escaped(parts[key])}" for key in sorted(parts))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("|", r"\|").replace(":", r"\:")


def parts(signature: str) -> dict[str, str]:
    """Parse a signature into its parts by key, the inverse of `signed`. ValueError for other text."""
    found, key, text, letters = dict[str, str](), "", "", iter(signature)
    for letter in letters:
        if letter == ":" and not key:
            key, text = text, ""
        elif letter == "|" and key:
            found[key], key, text = text, "", ""
        elif letter in "|:":
            raise ValueError(f"no signature of a measure: {signature!r}")
        else:
            text += next(letters, "") if letter == "\\" else letter
    if not key:
        raise ValueError(f"no signature of a measure: {signature!r}")
    return {**found, key: text}


@dataclass(frozen=True, slots=True)
class _Ratios:
    """One ratio for each slice, (slices,) each; NaN where undefined. `found` are the influences of its units."""

    count: list[float]
    n: list[float]
    value: list[float]
    low: list[float]
    high: list[float]
    references: Mapping[str, list[float]]
    units: list[int]
    groups: list[int]
    found: Influences


def _ratios(
    tabled: Tabled, lines: References, corrections: dict[object, Correction], counts: dict[object, _Counts]
) -> _Ratios:
    """Sum the terms of all units over the slices, with intervals.

    `corrections` and `counts` depend on denominators alone: metrics that have the same share them.
    """
    import numpy as np

    frame, (numerators, denominators) = tabled.frame, tabled.terms
    count, n = frame.sums(numerators), frame.sums(denominators)
    value, low, high = _divide(count, n), np.full_like(n, np.nan), np.full_like(n, np.nan)
    table = tabled.table()
    found = statistics.ratios(table)
    key = tabled.metric.unit, denominators.tobytes()
    if key not in counts:
        counts[key] = _counted(table)
    if tabled.bounded or not tabled.metric.percent:
        if key not in corrections:
            corrections[key] = statistics.corrected(found)
        estimates = statistics.clustered(found, corrections[key])
        low, high = _interval(tabled, estimates, binary=tabled.binary)
        # The same ratio, but for the order of its sums.
        low, high = np.minimum(low, value), np.maximum(high, value)
    levels = {}
    for name in references.names(tabled.metric):
        expected = np.where(denominators > 0, lines.terms(tabled.metric, name), 0.0)
        levels[name] = _divide(frame.sums(expected[0]), frame.sums(expected[1])).tolist()
    rows = (count.tolist(), n.tolist(), value.tolist(), low.tolist(), high.tolist())
    return _Ratios(*rows, levels, *counts[key], found)


def _interval(tabled: Tabled, estimates: Estimates, *, binary: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 95 % intervals: of fractions Wilson's, of other numbers Student's."""
    if tabled.metric.percent:
        return statistics.intervals(estimates, binary=binary)
    return statistics.student(estimates)


def _counted(table: Table) -> _Counts:
    """The numbers of units and of groups in each slice."""
    import numpy as np

    kept = table.denominator > 0
    places = table.slice[kept]
    size = int(table.group.max(initial=0)) + 1
    groups = np.unique(places.astype(np.int64) * size + table.group[kept]) // size
    return np.bincount(places, minlength=table.slices).tolist(), np.bincount(groups, minlength=table.slices).tolist()


def _terms(metric: Metric, frame: Frame) -> tuple[NDArray[np.float64], bool] | None:
    """Numerators and denominators, (2, units), 0 and 0 for a unit that is left out, and whether the metric is binary.

    None if all units are left out. The terms of a unit with several samples are means. UsageError for bad terms.
    """
    import numpy as np

    if not any(_applies(metric, frame.units)):
        return None
    units = frame.samples
    applies = _applies(metric, units)
    with usercode.guarded(f"metric '{metric.name}'", _expected(metric), function=metric.terms):
        terms = [metric.terms(unit) if here else LEFT_OUT for unit, here in zip(units, applies, strict=True)]
    binary = metric.binary
    if binary is None:
        binary = all(isinstance(numerator, bool) for numerator, denominator in terms if denominator)
    try:
        flat = np.fromiter(chain.from_iterable(terms), float)
    except (TypeError, ValueError):
        flat = np.empty(0)
    if flat.size != 2 * len(units):
        raise UsageError(f"metric '{metric.name}': its function must return (numerator, denominator)")
    numerators, denominators = flat.reshape(-1, 2).T
    good = (np.abs(numerators) <= MAX_VALUE) & (denominators <= MAX_VALUE) & (denominators >= 0)
    rule = "finite numbers and a denominator of at least 0 are needed"
    if binary:
        good &= (denominators == 0) | ((denominators == 1) & ((numerators == 0) | (numerators == 1)))
        rule = "a binary metric needs a numerator of 0 or 1 and a denominator of 0 or 1; say binary=False"
    if not good.all():
        bad = int(np.argmin(good))
        raise UsageError(f"metric '{metric.name}' gave {terms[bad]} for {units[bad][0].item.id}: {rule}")
    counted = denominators > 0
    return np.array([frame.means(np.where(counted, each, 0.0), counted) for each in (numerators, denominators)]), binary


def _expected(metric: Metric) -> str:
    """The face of a metric's function, for messages."""
    if metric.binary is not None:
        return "a function of the results of one unit that returns (numerator, denominator)"
    given = "two results" if metric.unit == "pair" else "one result"
    unit = "pair" if metric.unit == "pair" else "question"
    return f"a function of {given} that returns True, False, a finite number, or None to leave the {unit} out"


def _applies(metric: Metric, units: Sequence[Unit]) -> list[bool]:
    """Whether all questions of each unit are of the metric's kinds."""
    if metric.kinds is None:
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
            _number(ratios.value[i]),
            _number(ratios.low[i]),
            _number(ratios.high[i]),
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
    """The mean over the slices with a value, a reference where all of these have it."""
    defined = [i for i in tabled.over or () if ratios.n[i] > 0]
    lines = {name: _mean([values[i] for i in defined]) for name, values in ratios.references.items()}
    value, low, high = _mean([ratios.value[i] for i in defined]), None, None
    if (tabled.bounded or not tabled.metric.percent) and value is not None:
        found = statistics.clustered(statistics.mean_over(ratios.found, defined))
        (below,), (above,) = _interval(tabled, found, binary=False)
        if not isnan(below):
            low, high = min(value, float(below)), max(value, float(above))
    kept = {name: line for name, line in lines.items() if line is not None}
    name, n, percent = tabled.metric.name, float(len(defined)), bool(tabled.metric.percent)
    made = Measure(benchmark, name, value, low, high, n, None, "slices", {}, kept, signature)
    return [replace(made, groups=ratios.groups[0], percent=percent)]


def _mean(values: Sequence[float]) -> float | None:
    return _number(fsum(values) / len(values)) if values else None


def _number(value: float) -> float | None:
    return None if isnan(value) else value
