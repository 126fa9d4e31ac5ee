"""Two or more runs on the same questions: matched, compared, ranked. Gives no verdict.

Import `without` for the scores of one run without overlap: `medvqa leaks` alone needs it, and `likeness`.
"""

from __future__ import annotations

from medvqa.comparing.against_readers import AgainstReaders, ReadersPart
from medvqa.comparing.common import under_protocols
from medvqa.comparing.differing import Contrast, Difference, contrast, notes
from medvqa.comparing.paired import LEVEL, Compared, Flip, Paired, PairedPart
from medvqa.comparing.ranking import Costliest, Ranked, RankedPair, Ranking
from medvqa.comparing.robustness import ChangedMeasure, Robustness, robustness
from medvqa.comparing.scales import Scale, SlicedRuns
from medvqa.comparing.sides import Side, beside, gaps, load, load_beside, load_runs, named_apart, refusals
from medvqa.comparing.study import Study, Versus, compare, study
from medvqa.comparing.trend import Trend, TrendRow, trends

__all__ = [
    "LEVEL",
    "AgainstReaders",
    "ChangedMeasure",
    "Compared",
    "Contrast",
    "Costliest",
    "Difference",
    "Flip",
    "Paired",
    "PairedPart",
    "Ranked",
    "RankedPair",
    "Ranking",
    "ReadersPart",
    "Robustness",
    "Scale",
    "Side",
    "SlicedRuns",
    "Study",
    "Trend",
    "TrendRow",
    "Versus",
    "beside",
    "compare",
    "contrast",
    "gaps",
    "load",
    "load_beside",
    "load_runs",
    "named_apart",
    "notes",
    "refusals",
    "robustness",
    "study",
    "trends",
    "under_protocols",
]
