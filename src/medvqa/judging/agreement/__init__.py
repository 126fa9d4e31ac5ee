"""Compare a judge's scores with those of people, or of another judge.

`ratings` reads the scores of all raters, `coefficients` computes their agreement, `sampling` draws answers for people
to score and writes a sheet without the judge's scores.
"""

from __future__ import annotations

from medvqa.judging.agreement.coefficients import MEASURES, Agreement, Coefficient, agreements, dimension_of, nominal
from medvqa.judging.agreement.ratings import (
    SCALE,
    Judged,
    Ratings,
    answer_id,
    judge_and_people,
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
    "Coefficient",
    "Judged",
    "Ratings",
    "agreements",
    "answer_id",
    "dimension_of",
    "judge_and_people",
    "judged",
    "nominal",
    "sample",
    "scores_of_people",
    "two_judges",
    "write_sheet",
]
