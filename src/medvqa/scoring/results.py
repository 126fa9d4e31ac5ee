"""From an answer to a `Result`, by rule."""

from __future__ import annotations

from medvqa.items import (
    CHOICE_KINDS,
    OPTION_TECHNIQUES,
    Answer,
    AnswerError,
    Benchmark,
    Extraction,
    Item,
    Prompt,
    Query,
    Result,
    Score,
    Technique,
)
from medvqa.scoring.likelihoods import score_likeliest
from medvqa.scoring.rules import scorer


def by_rule(
    item: Item, technique: Technique, answer: Answer, *, benchmark: Benchmark, extraction: Extraction = "sound"
) -> Score:
    """Return the score of an answer in words, without a judge.

    An answer in free form (FF) to a question with options names none of them: it stays `unscored` for a judge.
    """
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
    score: Score | None = None,
) -> Result:
    """Score one answer. Outcome `error`: there is no answer, or its log-probabilities are not numbers.

    `digest` is the prompt's. `score` is the answer's, if it is known already.
    """
    item, technique = query.item, query.technique
    rule = scorer(benchmark, extraction)
    given: Answer | None = None
    try:
        if isinstance(answer, AnswerError):
            raise answer
        if technique in OPTION_TECHNIQUES:
            scored = score_likeliest(item, answer, prompt.options, technique, rule)
        else:
            scored = score or by_rule(item, technique, answer, benchmark=benchmark, extraction=extraction)
        given = answer
    except AnswerError as error:
        scored = Score(None, "error", why=str(error))
    return Result(run, item, digest, given, scored, technique, sample=query.sample, variant=query.variant)
