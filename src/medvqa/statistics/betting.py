"""Evidence at any time that a run is worse than its baseline by more than a margin.

Groups of units arrive in a random order. A unit has a paired difference (new minus baseline) in [-1, 1], and a group
counts with the sum of its units' differences, so that groups of different size weigh by their units. A bettor stakes
on a loss: under "the mean loss is at most the margin" no stake gains on average, so the wealth is an e-value at any
time, and it ever reaches 1 / alpha with a chance of at most alpha (Ville's inequality). The bounded bets are those of
Waudby-Smith and Ramdas (2024, JRSS B 86:1, arXiv 2010.09686), here for sums over groups.

The claim is about questions like these, as are the gate's other claims: groups count as drawn with replacement. The
variant without replacement (the same authors, 2020, arXiv 2006.04347) would claim that the finished run loses more than
the margin, which chance alone brings about in half of the runs that truly lose just the margin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STAKES = (0.15, 0.4, 0.9)
"""The stakes, as shares of the largest one that cannot lose all. The first two are best for losses of 4 and 10 points
of single questions of which a quarter flip; the last one for large losses, and where groups differ in size."""
SHARES = (0.25, 0.5, 0.25)
"""The shares of the wealth that each stake begins with."""


def log_factors(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], *, margin: float, largest: int
) -> NDArray[np.float64]:
    """Return the logarithms of the factors by which groups multiply the wealth of each stake: (..., groups, stakes).

    `sums`: the groups' sums of differences; `sizes`: their units; both (..., groups). `margin`: the loss that is
    allowed, a fraction of at least 0. `largest`: the units of the largest group, known before the first answer.
    ValueError for a group above it, or a sum beyond its size.
    """
    import numpy as np

    if not (np.all(sizes <= largest) and np.all(np.abs(sums) <= sizes + 1e-9)):
        raise ValueError(f"groups have at most {largest} units, with a difference from -1 to 1 each")
    # A group gains at most `largest * (1 + margin)` on the margin: a stake of less than 1 leaves some wealth.
    beyond = (sums + margin * sizes) / (largest * (1 + margin))
    return np.log1p(-np.asarray(STAKES) * beyond[..., None])


def e_values(log_wealth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the wealth over all stakes, (...,), from the sums of `log_factors` for each, (..., stakes)."""
    import numpy as np

    # Floats end at e^709.
    wealth: NDArray[np.float64] = np.exp(np.minimum(log_wealth, 700)) @ np.asarray(SHARES)
    return wealth
