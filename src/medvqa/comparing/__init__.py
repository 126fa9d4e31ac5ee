"""Two or more runs on the same questions: matched, compared, ranked. Gives no verdict."""

from __future__ import annotations

from medvqa.comparing.paired import Compared, Flip, Paired, Part, compare
from medvqa.comparing.sides import Side, load, refusals

__all__ = ["Compared", "Flip", "Paired", "Part", "Side", "compare", "load", "refusals"]
