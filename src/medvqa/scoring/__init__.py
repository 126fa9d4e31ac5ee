"""Score answers by rule: read options or terms of a closed vocabulary from free text, and give them a value.

Every scorer takes an item and its answer and returns a `Score`; scorers keep no state.
"""

from medvqa.scoring import overlap, rules
from medvqa.scoring.choices import (
    Reader,
    cut_off,
    reading_of,
    right_or_wrong,
    score_multiple_choice,
    score_partial_credit,
    score_single_choice,
)
from medvqa.scoring.closed import is_yes_or_no, score_closed
from medvqa.scoring.extraction import Reading, read_options, read_term
from medvqa.scoring.likelihoods import likeliest, score_likeliest
from medvqa.scoring.open_answers import normalise, score_closed_vocabulary, unscored
from medvqa.scoring.results import by_rule, check, of_people, result
from medvqa.scoring.rules import scorer
from medvqa.scoring.short_answers import score_short_answer, value_of
from medvqa.scoring.text import plain, without_reasoning

__all__ = [
    "Reader",
    "Reading",
    "by_rule",
    "check",
    "cut_off",
    "is_yes_or_no",
    "likeliest",
    "normalise",
    "of_people",
    "overlap",
    "plain",
    "read_options",
    "read_term",
    "reading_of",
    "result",
    "right_or_wrong",
    "rules",
    "score_closed",
    "score_closed_vocabulary",
    "score_likeliest",
    "score_multiple_choice",
    "score_partial_credit",
    "score_short_answer",
    "score_single_choice",
    "scorer",
    "unscored",
    "value_of",
    "without_reasoning",
]
