"""Whether a judge can be trusted: its scores beside those of people, or of another judge.

`ratings` reads who gave which answer which score, `figures` computes how far they agree, `sampling` draws the answers
that people are to score and writes them down without the judge's score.
"""

from __future__ import annotations

from medvqa.judging.agreement.figures import MEASURES, Agreement, Figure, agreements, dimension_of
from medvqa.judging.agreement.ratings import (
    SCALE,
    Judged,
    Ratings,
    answer_id,
    beside,
    judged,
    scores_of_people,
    two_judges,
)
from medvqa.judging.agreement.sampling import COLUMNS, sample, write_sheet

__all__ = [
    "COLUMNS",
    "MEASURES",
    "SCALE",
    "Agreement",
    "Figure",
    "Judged",
    "Ratings",
    "agreements",
    "answer_id",
    "beside",
    "dimension_of",
    "judged",
    "sample",
    "scores_of_people",
    "two_judges",
    "write_sheet",
]
