"""Score answers by rule: read options or terms of a closed vocabulary from free text, and give them a value.

Every scorer takes an item and its answer and returns a `Score`; scorers keep no state.
"""

from medvqa.printing import clipped
from medvqa.scoring import overlap, rules
from medvqa.scoring.choices import (
    Reader,
    cut_off,
    score_multiple_choice,
    score_partial_credit,
    score_single_choice,
)
from medvqa.scoring.closed import is_yes_or_no, score_closed
from medvqa.scoring.extraction import Reading, read_options, read_term
from medvqa.scoring.likelihoods import likeliest, score_likeliest
from medvqa.scoring.mmmu import mmmu_rule, score_mmmu_open, score_short_answer
from medvqa.scoring.official import GMAI_VERSIONS, gmai_choice, gmai_rule, mediconfusion_rule
from medvqa.scoring.open_answers import normalise, score_closed_vocabulary, unscored
from medvqa.scoring.results import by_rule, check, result
from medvqa.scoring.rules import scorer
from medvqa.scoring.similar import OMNIMEDVQA, PMC_VQA, similar_rule
from medvqa.scoring.text import plain, without_reasoning

__all__ = [
    "GMAI_VERSIONS",
    "OMNIMEDVQA",
    "PMC_VQA",
    "Reader",
    "Reading",
    "by_rule",
    "check",
    "clipped",
    "cut_off",
    "gmai_choice",
    "gmai_rule",
    "is_yes_or_no",
    "likeliest",
    "mediconfusion_rule",
    "mmmu_rule",
    "normalise",
    "overlap",
    "plain",
    "read_options",
    "read_term",
    "result",
    "rules",
    "score_closed",
    "score_closed_vocabulary",
    "score_likeliest",
    "score_mmmu_open",
    "score_multiple_choice",
    "score_partial_credit",
    "score_short_answer",
    "score_single_choice",
    "scorer",
    "similar_rule",
    "unscored",
    "without_reasoning",
]
