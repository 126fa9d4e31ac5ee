"""Turn an answer into a `Result`, by rule."""

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

    A free-form (FF) answer to a question with options names no option: it stays `unscored` for a judge.
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
    """Return the result of one answer, with outcome `error` if there is none or its log-probabilities are invalid.

    `digest` is the prompt's. `score` replaces the score by rule, if it is already known.
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
            scored = score or by_rule(item, technique, answer, benchmark=benchmark, extraction=extraction)
        scored_answer = answer
    except AnswerError as error:
        scored = Score(None, "error", why=str(error))
    return Result(run, item, digest, scored_answer, scored, technique, sample=query.sample, variant=query.variant)
