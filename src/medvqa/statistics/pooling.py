"""Partial pooling: the rates of the slices of one dimension, each estimated with the help of the others.

The model, for slices s with the rate r_s at n_s effective units:

    rate_s ~ Beta(mean k, (1 - mean) k),  k = 1 / spread² - 1
    n_s r_s right of n_s ~ binomial(rate_s), for numbers with parts too

`spread` is the standard deviation of the slices' rates over its largest value, sqrt(mean (1 - mean)): at a mean of
0.7, a spread of 0.1 is 4.6 points. Priors: mean and spread are uniform from 0 to 1 (flat in the standard deviation, as
advised by Gelman 2006, Bayesian Analysis 1:515, for three groups or more).

The beta distribution makes the likelihood of mean and spread a product of beta functions, and the rate of a slice, at
given mean and spread, beta distributed again (Gelman et al. 2013, Bayesian Data Analysis, section 5.3). What is left is
an integral over two numbers, by Gauss and Legendre's nodes in the ranges that hold the mass.

Pooling assumes that slices are alike before the data: it hides one that is much worse (`bench/promises/pooled.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvqa.statistics.clustered import EQUAL, Estimates
from medvqa.statistics.intervals import LEAST_DF, design_effect, effective

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Grid = tuple[Floats, Floats, Floats]

LEAST_SLICES = 3
"""Fewest slices that are pooled: fewer do not show how slices differ."""
NODES = 16
"""Nodes for each of the two integrals."""
DEPTH = 12.0
"""Nodes with a likelihood below exp(-DEPTH) of the largest one hold no mass."""
SMALLER = 0.8
"""A range of nodes is narrowed as long as it becomes smaller than this part of itself."""
STEPS = 20
"""Steps of the search for the ends of an interval, each of which halves the range."""


@dataclass(frozen=True, slots=True, eq=False)
class PooledRates:
    """The posterior mean of each slice's rate and the ends of its central interval of 95 %, (slices,) each.

    The ends are right to 0.004: at a given spread, the rate is taken as beta distributed.
    """

    value: Floats
    low: Floats
    high: Floats


def effective_units(precision: Estimates, *, binary: bool) -> Floats:
    """Return the number of independent units that are as informative as those of each slice, (slices,); 0: no unit.

    It is that of intervals (`intervals.effective`); with too few degrees of freedom for an interval it is n / deff, so
    that a slice that is one group is one unit. If every unit is a group, it is n.
    """
    import numpy as np

    alone = np.abs(precision.effective_groups - precision.n) < EQUAL * np.maximum(precision.n, 1)
    few = ~(precision.df >= LEAST_DF)
    n = np.where(
        few, precision.n / design_effect(precision, binary=binary), effective(precision, 0.975, binary=binary)[1]
    )
    # A variance that is estimated from n single units would cost one of them; that of the binomial is known.
    return np.where(alone, precision.n, n)


def pooled(rate: Floats, n: Floats) -> PooledRates:
    """Return the partially pooled rates of slices with these rates, from 0 to 1, at `n` effective units, (slices,).

    The order of the slices does not matter. Raises ValueError for other values, and for fewer than LEAST_SLICES.
    """
    import numpy as np

    if len(rate) < LEAST_SLICES or not (np.all(n > 0) and np.all((rate >= 0) & (rate <= 1))):
        raise ValueError(f"pooling needs rates from 0 to 1 of {LEAST_SLICES} slices or more, each with units")
    # Slices with equal data have equal results.
    cells, place, times = np.unique(
        np.stack([n * rate, n * (1 - rate)]), axis=1, return_inverse=True, return_counts=True
    )
    (right, wrong), place = cells[:, :, None], place.reshape(-1)
    a, b, weight = _posterior(right, wrong, times.astype(float))
    a, b, of_spread = a + right[:, None], b + wrong[:, None], weight.sum(axis=1)
    # At each spread a beta distribution with the mean and the variance over all means: a sum of narrow ones has steps.
    share = weight / of_spread[:, None]
    each = a / (a + b)
    mean = (each * share).sum(axis=2)
    square = ((each * (1 - each) / (a + b + 1) + each**2) * share).sum(axis=2)
    k = mean * (1 - mean) / np.maximum(square - mean**2, 1e-12) - 1
    a, b = mean * k, (1 - mean) * k
    low, high = (_quantile(level, a, b, of_spread) for level in (0.025, 0.975))
    return PooledRates((mean @ of_spread)[place], low[place], high[place])


def _quantile(level: float, a: Floats, b: Floats, weight: Floats) -> Floats:
    """Return the quantile of each slice's mixture of beta distributions, by halving its range."""
    import numpy as np
    from scipy.special import betainc

    low, high = np.zeros(len(a)), np.ones(len(a))
    for _ in range(STEPS):
        at = (low + high) / 2
        above = betainc(a, b, at[:, None]) @ weight < level
        low, high = np.where(above, at, low), np.where(above, high, at)
    return (low + high) / 2


def _posterior(right: Floats, wrong: Floats, times: Floats) -> Grid:
    """Return the slices' beta distributions before their data, a and b, at nodes, and the nodes' weights.

    `right`, `wrong`: (slices, 1), each slice `times`; the result is (spreads, means). The nodes of the spread are even
    in its root, as small spreads matter most; at each of them, the mean has nodes of its own.
    """
    import numpy as np
    from scipy.special import logsumexp

    node, width = np.polynomial.legendre.leggauss(NODES)
    root = np.array([[0.0, 1.0]])
    while True:
        at = _places(root, node)[0]
        k = 1 / at[:, None] ** 4 - 1
        box = np.repeat([[0.0, 1.0]], NODES, axis=0)
        while True:
            mean = _places(box, node)
            log = _log_likelihood(mean * k, (1 - mean) * k, right, wrong, times)
            smaller = _around(log, mean, box)
            if np.all(np.diff(smaller) > SMALLER * np.diff(box)):
                break
            box = smaller
        log += np.log(width) + np.log(np.diff(box)) + np.log(2 * at)[:, None]
        smaller = _around(logsumexp(log, axis=1)[None, :], at[None, :], root)
        if np.all(np.diff(smaller) > SMALLER * np.diff(root)):
            break
        root = smaller
    weight = np.exp(log - log.max()) * width[:, None]
    return mean * k, (1 - mean) * k, weight / weight.sum()


def _places(box: Floats, node: Floats) -> Floats:
    """Return the nodes in each box, (boxes, nodes)."""
    places: Floats = box.mean(axis=1, keepdims=True) + (box[:, 1:] - box[:, :1]) / 2 * node
    return places


def _log_likelihood(a: Floats, b: Floats, right: Floats, wrong: Floats, times: Floats) -> Floats:
    """Return the logarithm of the likelihood of the slices at each a and b, which have one shape."""
    from scipy.special import betaln

    terms: Floats = betaln(a.ravel() + right, b.ravel() + wrong) - betaln(a.ravel(), b.ravel())
    return (times @ terms).reshape(a.shape)


def _around(log: Floats, at: Floats, box: Floats) -> Floats:
    """Return each box, (boxes, 2), from the node before the first one with mass to the node behind the last one."""
    import numpy as np

    near = log > log.max(axis=1, keepdims=True) - DEPTH
    edges = np.concatenate([box[:, :1], at, box[:, 1:]], axis=1)
    first, last = near.argmax(axis=1), near.shape[1] - 1 - near[:, ::-1].argmax(axis=1)
    return np.take_along_axis(edges, np.stack([first, last + 2], axis=1), axis=1)
