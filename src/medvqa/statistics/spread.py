"""Standard deviations of a measure's values over prompts and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
