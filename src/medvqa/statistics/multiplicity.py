"""Correction for multiple tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def holm(p: ArrayLike, weight: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return adjusted p-values, (tests,): rejecting those up to alpha keeps the family-wise error at alpha or less.

    `weight` > 0, (tests,), is equal by default. Source: Holm (1979), Scandinavian Journal of Statistics 6:65: in the
    order of p / weight, multiply every p by the sum of the remaining weights over its own. Raises ValueError for other
    shapes, other weights, and p outside of [0, 1].
    """
    import numpy as np

    p = np.asarray(p, float)
    weight = np.ones_like(p) if weight is None else np.asarray(weight, float)
    if p.ndim != 1 or p.shape != weight.shape or not (np.all((p >= 0) & (p <= 1)) and np.all(weight > 0)):
        raise ValueError("holm needs p-values in [0, 1] and positive weights, (tests,) each")
    order = np.argsort(p / weight, kind="stable")
    remaining = np.cumsum(weight[order][::-1])[::-1]
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * remaining / weight[order]), 1.0)
    return adjusted
