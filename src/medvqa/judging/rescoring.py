"""Score stored results again, by another lead of closeness or another rule of extraction."""

from __future__ import annotations

from dataclasses import replace

from medvqa import scoring
from medvqa.items import OPTION_TECHNIQUES, Benchmark, Extraction, Result
from medvqa.judging.cases import case_of
from medvqa.judging.replies import JudgeReading, read
from medvqa.judging.scores import score as score_of
from medvqa.judging.settings import Settings
from medvqa.protocols import rotation


def led_by(result: Result, *, benchmark: Benchmark, settings: Settings) -> Result:
    """Score a free-form answer again by the lead (`gap`) of `settings`, from the judge's recorded replies.

    Errors and other results are returned unchanged.
    """
    judgement = result.judgement
    if result.answer is None or judgement is None or judgement.task != "closeness":
        return result
    score = scoring.by_rule(result.item, result.technique, result.answer, benchmark=benchmark)
    case = case_of(benchmark, result.item, result.technique, result.answer, score, settings)
    if case is None or not case.prompts:
        return result
    # A second reply exists only if the first was unreadable.
    readings = [read(case, 0, reply) for reply in reversed(judgement.replies)]
    readable = [reading for reading in readings if isinstance(reading, JudgeReading)]
    return replace(result, score=score_of(case, result.item, readable[:1], settings)) if readable else result


def rescored(
    result: Result, *, benchmark: Benchmark, extraction: Extraction, settings: Settings | None = None
) -> Result:
    """Score a result again by another rule of reading answers.

    Errors, options chosen by likelihood and judged results are returned unchanged.
    """
    if result.answer is None or result.judgement is not None or result.technique in OPTION_TECHNIQUES:
        return result
    item = rotation.as_shown(result.item, result.variant)
    score = scoring.by_rule(item, result.technique, result.answer, benchmark=benchmark, extraction=extraction)
    if settings is not None:
        case = case_of(benchmark, item, result.technique, result.answer, score, settings)
        if case is not None and not case.prompts:
            score = score_of(case, item, (), settings)
    return replace(result, score=rotation.score_back(score, result.item, result.variant))
