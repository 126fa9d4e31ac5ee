"""Turn an answer into a `Result`, by rule."""

from __future__ import annotations

from medvqa.items import (
    CHOICE_KINDS,
    OPTION_TECHNIQUES,
    OUTCOMES,
    SCORED_OUTCOMES,
    Answer,
    AnswerError,
    Benchmark,
    Extraction,
    Item,
    Outcome,
    Prompt,
    Query,
    ReaderNote,
    Result,
    Score,
    Technique,
)
from medvqa.printing import clipped
from medvqa.scoring.likelihoods import score_likeliest
from medvqa.scoring.rules import scorer


def check(score: Score) -> None:
    """TypeError or ValueError for a score that is not as `Score` says; scoring of a user's own may return anything."""
    value, scored = score.value, score.outcome in SCORED_OUTCOMES
    if score.outcome not in OUTCOMES:
        raise ValueError(f"outcome is {clipped(repr(score.outcome))}; there are: {', '.join(OUTCOMES)}")
    if scored != (value is not None):
        raise ValueError(f"value is {clipped(repr(value))} and the outcome '{score.outcome}'; None is for {_NO_VALUE}")
    if scored and not (isinstance(value, int | float) and 0 <= value <= 1):
        raise ValueError(f"value is {clipped(repr(value))}; a number from 0 to 1 is expected")
    texts = score.extracted
    if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"extracted is {clipped(repr(texts))}; a tuple of texts is expected")
    if not isinstance(score.why, str):
        raise TypeError(f"why is {clipped(repr(score.why))}; a text is expected")


_NO_VALUE = " and ".join(outcome for outcome in OUTCOMES if outcome not in SCORED_OUTCOMES)


def of_people(noted: ReaderNote) -> Score | None:
    """Return the score that people gave, or that of a reader who cannot tell; None if a rule or a judge scores."""
    if noted.cannot_tell:
        return Score(0.0, "abstained", (), "the reader said that it cannot be determined")
    if noted.score is None:
        return None
    outcome: Outcome = "correct" if noted.score == 1 else "partial" if noted.score > 0 else "wrong"
    return Score(noted.score, outcome, (), "given by people")


def by_rule(
    item: Item, technique: Technique, answer: Answer, *, benchmark: Benchmark, extraction: Extraction = "sound"
) -> Score:
    """Return the score of an answer in words, without a judge.

    A free-form (FF) answer to a question with options names no option: it stays `unscored` for a judge.
    """
    if answer.noted is not None and (given := of_people(answer.noted)) is not None:
        return given
    if technique == "ff" and item.kind in CHOICE_KINDS:
        return Score(None, "unscored", (), "a judge has to compare it with each option")
    return scorer(benchmark, extraction)(item, answer)


def result(
    query: Query,
    prompt: Prompt,
    answer: Answer | AnswerError,
    *,
    benchmark: Benchmark,
    run: str,
    digest: str,
    extraction: Extraction = "sound",
) -> Result:
    """Return the result of one answer, with outcome `error` if there is none or its log-probabilities are invalid.

    `digest` is the prompt's.
    """
    item, technique = query.item, query.technique
    rule = scorer(benchmark, extraction)
    scored_answer: Answer | None = None
    try:
        if isinstance(answer, AnswerError):
            raise answer
        if technique in OPTION_TECHNIQUES:
            scored = score_likeliest(item, answer, prompt.options, technique, rule)
        else:
            scored = by_rule(item, technique, answer, benchmark=benchmark, extraction=extraction)
        scored_answer = answer
    except AnswerError as error:
        scored = Score(None, "error", why=str(error))
    return Result(run, item, digest, scored_answer, scored, technique, sample=query.sample, variant=query.variant.name)
