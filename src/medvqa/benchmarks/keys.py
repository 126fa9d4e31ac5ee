"""Questions whose answer key is ambiguous: they are asked, stay unscored, and are named once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from medvqa.items import DataWarning

SHOWN = 3


def warn_ambiguous(benchmark: str, problems: Sequence[str]) -> None:
    """Issue one DataWarning about rows without a usable key; each problem begins with the row's name."""
    if not problems:
        return
    first = "; ".join(problems[:SHOWN])
    more = f"; and {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
    have = "question has" if len(problems) == 1 else "questions have"
    warnings.warn(
        f"{benchmark}: {len(problems):,} {have} no usable answer key and will be unscored: {first}{more}",
        DataWarning,
        stacklevel=2,
    )
