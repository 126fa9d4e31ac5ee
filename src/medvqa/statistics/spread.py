"""Standard deviations of a measure's values over prompts and samples, and a test of equal prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from medvqa.statistics.intervals import LEAST_DF, VARIES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Deviations(NamedTuple):
    """Three standard deviations in the unit of the values, 0 or more; None if there are too few values.

    `within_prompts`: root of the mean variance over the samples of a prompt; prompts with one value do not count.
    `between_prompts`: of the prompts' means. `all`: of all values. The sum of squares is divided by the number of
    values, not by one less. So `all`² is `within_prompts`² + `between_prompts`² if prompts have equally many values.
    """

    within_prompts: float | None
    between_prompts: float | None
    all: float | None


def deviations(values: NDArray[np.float64]) -> Deviations:
    """Return the standard deviations of values, (prompts, samples); NaN is a missing value.

    MediConfusion's Table 5 has such values: set accuracy in percent, 11 prompts, 10 samples. Its column "All Prompts"
    has another deviation, which no formula yields from the other columns (0.04 for GPT-4o).
    """
    import numpy as np

    present = ~np.isnan(values)
    counts = present.sum(axis=1)
    values, counts, present = values[counts > 0], counts[counts > 0], present[counts > 0]
    filled = np.where(present, values, 0.0)
    means = filled.sum(axis=1) / counts
    variances = (np.where(present, filled - means[:, None], 0.0) ** 2).sum(axis=1) / counts
    sampled = counts > 1
    within = float(np.sqrt(variances[sampled].mean())) if sampled.any() else None
    between = float(means.std()) if len(means) > 1 else None
    every = filled[present]
    return Deviations(within, between, float(every.std()) if every.size > 1 else None)


def equal_means(values: NDArray[np.float64], weight: NDArray[np.float64], group: NDArray[np.intp]) -> float | None:
    """Return the p-value of equal means over columns, (units, columns), all asked about the same units.

    Cochran's question (1950, Biometrika 37:256), for groups of units: the sum of the squared distances of the means
    from their mean, over its expectation under equal means, has an F distribution with Greenhouse and Geisser's
    degrees of freedom (1959, Psychometrika 24:95; Rao and Scott 1984, Annals of Statistics 12:46, second order). Unlike
    Wald's statistic it needs no more groups than columns. `weight` and `group` are of each unit, (units,). None with
    fewer than `LEAST_DF` degrees of freedom of the groups, and for fewer than two columns.
    """
    import numpy as np
    from scipy.special import fdtrc

    columns = values.shape[1]
    if columns < 2 or not len(values):
        return None
    share = weight / weight.sum()
    centred = values - values.mean(axis=1, keepdims=True)
    means = share @ centred
    _, place = np.unique(group, return_inverse=True)
    score = np.zeros((int(place.max()) + 1, columns))
    np.add.at(score, place, share[:, None] * (centred - means))
    of_group = np.bincount(place, share)
    df = 1 / float((of_group**2).sum()) - 1
    if df < LEAST_DF:
        return None
    # As CR2 with equal weights: no bias if units are independent.
    score /= np.sqrt(np.maximum(1 - of_group, VARIES))[:, None]
    variance = score.T @ score
    trace = float(np.trace(variance))
    if trace <= VARIES:
        return 1.0 if float((means**2).sum()) <= VARIES else 0.0
    freedom = trace**2 / float((variance**2).sum())
    return float(fdtrc(freedom, freedom * df, float((means**2).sum()) / trace))
