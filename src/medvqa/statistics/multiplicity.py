"""Many tests at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def holm(p: ArrayLike, weight: ArrayLike | None = None) -> NDArray[np.float64]:
    """Adjusted p-values, (tests,): rejecting those up to alpha errs at all with probability at most alpha.

    Weighted by `weight` > 0, (tests,), by default equally. Source: Holm (1979), Scandinavian Journal of Statistics
    6:65: the tests are taken in the order of p / weight, and a test's p is multiplied by the sum of the weights that
    are left over its own. Raises ValueError for other shapes, other weights, and p outside of [0, 1].
    """
    import numpy as np

    p = np.asarray(p, float)
    weight = np.ones_like(p) if weight is None else np.asarray(weight, float)
    if p.ndim != 1 or p.shape != weight.shape or not (np.all((p >= 0) & (p <= 1)) and np.all(weight > 0)):
        raise ValueError("holm needs p-values in [0, 1] and positive weights, (tests,) each")
    order = np.argsort(p / weight, kind="stable")
    left = np.cumsum(weight[order][::-1])[::-1]
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * left / weight[order]), 1.0)
    return adjusted
