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
    item: Item,
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
    rule = scorer(benchmark, extraction)
    try:
        if isinstance(answer, AnswerError):
            raise answer
        if prompt.technique in OPTION_TECHNIQUES:
            scored = score_likeliest(item, answer, prompt.options, prompt.technique, rule)
        else:
            scored = score or by_rule(item, prompt.technique, answer, benchmark=benchmark, extraction=extraction)
    except AnswerError as error:
        failed = Score(None, "error", why=str(error))
        return Result(run, item, digest, None, failed, prompt.technique, sample=prompt.sample)
    return Result(run, item, digest, answer, scored, prompt.technique, sample=prompt.sample)
