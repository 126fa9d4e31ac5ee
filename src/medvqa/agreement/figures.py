"""How far raters agree: exact agreement, mean absolute difference, Cohen's kappa and Krippendorff's alpha.

The estimates are those of scikit-learn (`cohen_kappa_score`, quadratic weights) and of `krippendorff` (`alpha`, level
"interval"). Both are functions of counts alone, so that the 10,000 samples of the bootstrap are drawn as sums of the
counts of groups and evaluated as arrays, by the same formulas (`figures_of`); calling the libraries for each would take
minutes. Tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from medvqa import statistics
from medvqa.agreement.ratings import CONSENSUS, SCALE, Ratings
from medvqa.items import Result, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEASURES = ("exact", "difference", "kappa", "alpha")
"""The figures of `Agreement`, in the order in which they are shown."""

DEFAULT_DIMENSION = "ability"

LEAST_GROUPS = 10
"""Groups under which there is no interval: their resamples tell too little."""

MOST_PAIRED = 5
"""Raters above which they are compared together and not in pairs as well: thirty would be 435 pairs."""

LEAST_DEFINED = 0.95
"""Share of the samples that must define a figure for it to have an interval."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its 95 % interval; None where undefined, or where there is no interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far raters agree on the answers that at least two of them scored.

    `exact` is the share of pairs of scores that are equal and `difference` their mean absolute difference, both in
    [0, 1]. `kappa` is Cohen's with quadratic weights, for two raters alone; `alpha` is Krippendorff's for interval
    data. Both are 1 at most, and undefined where all scores are one and the same. With more than two raters `exact` and
    `difference` are over pairs of raters, an answer weighing as many times as raters scored it, as in alpha. `n` counts
    answers, `groups` what is independent of them. `confusion` counts answers by the first rater's score (row) and the
    second's (column) on `SCALE`; () for more than two. `slice` is as in `Measure`.
    """

    raters: tuple[str, ...]
    n: int
    groups: int
    exact: Figure
    difference: Figure
    kappa: Figure
    alpha: Figure
    confusion: tuple[tuple[int, ...], ...] = ()
    slice: Mapping[str, str] = field(default_factory=dict)


def require() -> None:
    """UsageError when what computes kappa and alpha is not installed."""
    from importlib.util import find_spec

    if find_spec("sklearn") is None or find_spec("krippendorff") is None:
        raise UsageError("medvqa agreement needs scikit-learn and krippendorff: pip install 'pytest-medvqa[agreement]'")


def dimension_of(results: Sequence[Result], asked: str | None) -> str | None:
    """The lexicon dimension of the slices: the one that was asked for, else ability where there is one.

    UsageError for one that no answer has.
    """
    there = {name for result in results for name in result.item.tags}
    if asked is not None and asked not in there:
        raise UsageError(f"--by={asked}: no judged answer has this dimension; there are: {', '.join(sorted(there))}")
    return asked or (DEFAULT_DIMENSION if DEFAULT_DIMENSION in there else None)


def agreements(
    ratings: Ratings, dimension: str | None = None, *, replicates: int = statistics.REPLICATES, seed: int = 0
) -> tuple[Agreement, ...]:
    """Everything that is compared; the first is what `medvqa agreement` checks.

    The first rater with the consensus, or where there is none with the second, over everything and in each slice. Then
    the first with each of the others, the others in pairs (up to `MOST_PAIRED`), and all of these together where they
    are more than two. Two raters who scored no answer in common are left out.
    """
    first, *others = ratings.scores
    people = [name for name in others if name != CONSENSUS]
    compared: list[tuple[str, ...]] = [(first, name) for name in others]
    compared += combinations(people, 2) if len(people) <= MOST_PAIRED else []
    compared += [tuple(people)] if len(people) > 2 else []
    values = sorted({value for result in ratings.results for value in result.item.tags.get(dimension or "", ())})
    slices = [{dimension or "": value} for value in values]
    overall, *sliced = _agreement(ratings, compared[0], [{}, *slices], replicates, seed)
    rest = (each for raters in compared[1:] for each in _agreement(ratings, raters, [{}], replicates, seed))
    return overall, *sliced, *rest


def _agreement(
    ratings: Ratings, raters: Sequence[str], slices: Sequence[Mapping[str, str]], replicates: int, seed: int
) -> list[Agreement]:
    """The agreement of some raters in each slice; none where no two of them scored the same answer."""
    import numpy as np
    from scipy.sparse import csr_array

    codes = np.array(
        [[-1 if score is None else SCALE.index(score) for score in ratings.scores[name]] for name in raters]
    ).T
    used = np.flatnonzero((codes >= 0).sum(1) > 1)
    if not len(used):
        return []
    codes, results = codes[used], [ratings.results[i] for i in used]
    names = [_group(result) for result in results]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    group = np.array([numbers[name] for name in names], dtype=int)
    member = np.array(
        [[all(value in r.item.tags.get(key, ()) for key, value in each.items()) for r in results] for each in slices],
        dtype=bool,
    ).reshape(len(slices), len(results))

    size = len(SCALE) ** 2
    cells = counts_of(codes).reshape(len(results), size)
    place, unit = np.nonzero(member)
    rows = (place[:, None] * size + np.arange(size)).ravel()
    columns = np.repeat(group[unit], size)
    terms = csr_array((cells[unit].ravel(), (rows, columns)), shape=(len(slices) * size, len(numbers)))
    two = len(raters) == 2
    shape = (-1, len(slices), len(SCALE), len(SCALE))
    drawn = (figures_of(sums.reshape(shape), two=two) for sums in statistics.drawn_sums(terms, replicates, seed))
    samples = np.concatenate([np.empty((0, len(slices), len(MEASURES))), *drawn])
    return [
        Agreement(
            tuple(raters),
            n=int(inside.sum()),
            groups=len(set(group[inside].tolist())),
            **_figures(codes[inside], len(set(group[inside].tolist())), samples[:, i]),
            confusion=_table(cells[inside].sum(0)) if two else (),
            slice=slices[i],
        )
        for i, inside in enumerate(member)
    ]


def _group(result: Result) -> tuple[str, str]:
    """What an answer shares with those that are not independent of it: images, patients, cases, or its item."""
    item = result.item
    return item.benchmark, f"cluster {item.cluster_id}" if item.cluster_id is not None else f"item {item.id}"


def _table(cells: NDArray[np.float64]) -> tuple[tuple[int, ...], ...]:
    width = len(SCALE)
    return tuple(tuple(int(count) for count in cells[i * width : (i + 1) * width]) for i in range(width))


def counts_of(codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """What each answer adds to the table of scores, (answers, scale, scale), from codes (answers, raters), -1 for none.

    For two raters 1 in the cell of their scores. For more the answer's coincidences: each ordered pair of its m scores
    with the weight 1 / (m - 1) (Krippendorff 2019, Content Analysis, 12.3).
    """
    import numpy as np

    answers, raters = codes.shape
    counts = np.zeros((answers, len(SCALE), len(SCALE)))
    if raters == 2:
        counts[np.arange(answers), codes[:, 0], codes[:, 1]] = 1
        return counts
    of_answer = (codes[:, :, None] == np.arange(len(SCALE))).sum(1)
    pairs = of_answer[:, :, None] * of_answer[:, None, :] - of_answer[:, :, None] * np.eye(len(SCALE))
    return np.asarray(pairs / (of_answer.sum(1) - 1)[:, None, None])


def figures_of(counts: NDArray[np.float64], *, two: bool) -> NDArray[np.float64]:
    """The figures of tables of scores, (..., scale, scale) -> (..., measures) as in `MEASURES`; NaN where undefined.

    `two`: the tables have one rater in rows and the other in columns; else they hold coincidences, and have no kappa.
    Sources: Cohen (1968), Psychological Bulletin 70:213, with the weights (a - b)^2; Krippendorff (2019), 12.3.
    """
    import numpy as np

    apart = np.abs(np.subtract.outer(SCALE, SCALE))
    total = counts.sum((-2, -1))

    def ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.divide(numerator, denominator, out=np.full(total.shape, np.nan), where=denominator > 0)

    def expected(rows: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(((rows @ apart**2) * columns).sum(-1))

    seen = (counts * apart**2).sum((-2, -1))
    kappa = np.full(total.shape, np.nan)
    if two:
        kappa = 1 - ratio(seen * total, expected(counts.sum(-1), counts.sum(-2)))
    coincidences = counts + np.swapaxes(counts, -1, -2) if two else counts
    each, n = coincidences.sum(-1), coincidences.sum((-2, -1))
    alpha = 1 - ratio((coincidences * apart**2).sum((-2, -1)) * (n - 1), expected(each, each))
    exact = ratio(np.trace(counts, axis1=-2, axis2=-1), total)
    difference = ratio((counts * apart).sum((-2, -1)), total)
    return np.stack([exact, difference, kappa, alpha], axis=-1)


def estimates(codes: NDArray[np.intp]) -> dict[str, float | None]:
    """The figures of codes (answers, raters), -1 for none, by name; None where undefined.

    Kappa and alpha are computed by the libraries.
    """
    import numpy as np

    two = codes.shape[1] == 2
    by_counts = figures_of(counts_of(codes).sum(0), two=two).tolist()
    found = {name: None if np.isnan(value) else value for name, value in zip(MEASURES, by_counts, strict=True)}
    if found["kappa"] is not None:
        from sklearn.metrics import cohen_kappa_score

        first, second = codes.T
        labels = list(range(len(SCALE)))
        found["kappa"] = float(cohen_kappa_score(first, second, labels=labels, weights="quadratic"))
    if found["alpha"] is not None:
        import krippendorff

        values = np.where(codes < 0, np.nan, np.array(SCALE)[codes]).T
        found["alpha"] = float(krippendorff.alpha(values, level_of_measurement="interval"))
    return found


def _figures(codes: NDArray[np.intp], groups: int, samples: NDArray[np.float64]) -> dict[str, Figure]:
    """Estimates with percentile intervals of the samples, (replicates, measures).

    Where all scores agree every sample does too: there exact agreement has Wilson's interval, as every share of the
    house, and the others the bounds that follow when the rest of it disagrees by the whole scale.
    """
    import numpy as np

    found = estimates(codes) if len(codes) else dict.fromkeys(MEASURES)
    bounds = np.stack(statistics.percentile(samples), axis=-1)
    bounds[np.isnan(samples).mean(0) > 1 - LEAST_DEFINED] = np.nan
    if found["exact"] in (0, 1):
        low, high = (float(each) for each in statistics.wilson(found["exact"] * len(codes), len(codes)))
        bounds[0] = low, high
        if found["exact"] == 1:
            bounds[1] = 0, 1 - low
            for place, spread in enumerate(_spread(codes), 2):
                bounds[place] = (1 - (1 - low) / spread, 1) if spread else np.nan
    if groups < LEAST_GROUPS:
        bounds[:] = np.nan
    return {
        name: Figure(found[name], *(None if np.isnan(each) or found[name] is None else float(each) for each in ends))
        for name, ends in zip(MEASURES, bounds, strict=True)
    }


def _spread(codes: NDArray[np.intp]) -> tuple[float, float]:
    """The disagreement that chance would give, 1 being that of the ends of the scale: for kappa, and for alpha."""
    import numpy as np

    counts = counts_of(codes).sum(0)
    apart = np.subtract.outer(SCALE, SCALE) ** 2
    rows, columns = counts.sum(1), counts.sum(0)
    each = rows + columns if codes.shape[1] == 2 else rows
    kappa = float(rows @ apart @ columns / max(counts.sum() ** 2, 1))
    return kappa, float(each @ apart @ each / max(each.sum() * (each.sum() - 1), 1))
