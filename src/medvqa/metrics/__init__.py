"""Results -> measures: what is counted, over which units, in which slices, beside which reference lines."""

from __future__ import annotations

from medvqa.metrics.definitions import (
    abstained_rate,
    accuracy,
    choice_score,
    confusion,
    error_rate,
    exact_match,
    individual_accuracy,
    invalid_rate,
    macro_accuracy,
    macro_score,
    mean_score,
    metric,
    open_score,
    precision_mcls,
    rates,
    recall_mcls,
    refused_rate,
    set_accuracy,
    unparsed_rate,
)
from medvqa.metrics.frames import EVERYTHING, Frame
from medvqa.metrics.maxima import MAXIMA, maxima
from medvqa.metrics.measuring import Tabled, broken_pairs, latest, measures, parts, reading, signed, tables

__all__ = [
    "EVERYTHING",
    "MAXIMA",
    "Frame",
    "Tabled",
    "abstained_rate",
    "accuracy",
    "broken_pairs",
    "choice_score",
    "confusion",
    "error_rate",
    "exact_match",
    "individual_accuracy",
    "invalid_rate",
    "latest",
    "macro_accuracy",
    "macro_score",
    "maxima",
    "mean_score",
    "measures",
    "metric",
    "open_score",
    "parts",
    "precision_mcls",
    "rates",
    "reading",
    "recall_mcls",
    "refused_rate",
    "set_accuracy",
    "signed",
    "tables",
    "unparsed_rate",
]
