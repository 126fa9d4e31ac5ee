"""Intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def wilson(count: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's score interval without continuity correction: lower and upper bounds, fractions in [0, 1].

    `count` successes among `n` trials, arrays of one shape with 0 <= count <= n and n > 0; both may be fractional
    (effective sample sizes). `level` is the coverage, in (0, 1). Source: Newcombe (1998), Statistics in Medicine
    17:857, method 3; the same formula as `scipy.stats.binomtest(k, n).proportion_ci(level, "wilson")`, over arrays.
    Raises ValueError outside these ranges.
    """
    from statistics import NormalDist

    import numpy as np

    count, n = np.asarray(count, float), np.asarray(n, float)
    if not (0 < level < 1 and np.all(n > 0) and np.all(count >= 0) and np.all(count <= n)):
        raise ValueError("wilson needs 0 <= count <= n, n > 0 and a level between 0 and 1")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = count / n
    centre = (2 * count + z * z) / (2 * (n + z * z))
    half = z * np.sqrt(4 * count * (1 - share) + z * z) / (2 * (n + z * z))
    # Exact at the ends, where rounding would leave a bound a little beside 0 or 1.
    return np.where(count == 0, 0.0, centre - half), np.where(count == n, 1.0, centre + half)
