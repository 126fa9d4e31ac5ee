"""Turn a judge's readings into a score, and score stored results again by another lead or rule of extraction."""

from __future__ import annotations

from collections.abc import Sequence

from medvqa import scoring
from medvqa.items import OPTION_TECHNIQUES, Answer, Benchmark, Extraction, Item, Outcome, Result, Score, replace
from medvqa.judging.cases import Case, case_of
from medvqa.judging.replies import JudgeReading, read
from medvqa.judging.settings import Settings
from medvqa.printing import clipped
from medvqa.protocols import rotation
from medvqa.protocols.question_forms import offered

_OUTCOMES: dict[float, Outcome] = {0.0: "wrong", 0.5: "partial", 1.0: "correct"}


def score(case: Case, item: Item, readings: Sequence[JudgeReading], settings: Settings) -> Score:
    """Return the score of an answer from the readings of a judge's replies, one per prompt of the case.

    Task score: the judge's 0, 0.5 or 1; a 0 for a refusing or abstaining answer keeps that outcome. Task closeness: the
    option with the highest score, if it leads all others by at least `settings.gap`; else the answer names no option
    (`unparsed`, or refused, abstained), is invalid and counts as wrong. Task options: the letters are scored as the
    answer; without letters the score by rule stands.
    """
    if not case.prompts:
        return case.otherwise
    (reading,) = readings
    if case.task == "score":
        return _scored(case, item, reading)
    if case.task == "closeness":
        return _closest(case, item, reading, settings.gap)
    if not reading.letters:
        return replace(case.otherwise, why=f"the judge found no option in it; by rule: {case.otherwise.why}")
    return _chosen(case, item, reading.letters, "the judge read it")


def _scored(case: Case, item: Item, reading: JudgeReading) -> Score:
    if reading.score is None:
        raise ValueError("a reading of another task")
    why = f"the judge gives {reading.score:g}; the reference is {clipped(' or '.join(item.answers))}"
    outcome = _OUTCOMES[reading.score]
    if outcome == "wrong" and case.otherwise.outcome in ("refused", "abstained"):
        return replace(case.otherwise, why=f"{why}; by rule: {case.otherwise.why}")
    return Score(reading.score, outcome, (), why)


def _closest(case: Case, item: Item, reading: JudgeReading, gap: float) -> Score:
    listed = ", ".join(f"{letter} {value:g}" for letter, value in reading.closeness.items())
    (first, highest), *others = sorted(reading.closeness.items(), key=lambda pair: -pair[1])
    second = others[0][1] if others else 0.0
    if highest > second and round(highest - second, 6) >= gap:  # 7.3 leads 4.3 by 3, in decimal
        return _chosen(case, item, (first,), f"closeness {listed}")
    declined = f"; by rule: {case.otherwise.why}" if case.otherwise.outcome != "unparsed" else ""
    return replace(case.otherwise, why=f"no option leads by {gap:g}: closeness {listed}{declined}")


def _chosen(case: Case, item: Item, letters: Sequence[str], how: str) -> Score:
    """Score the letters as the answer; options get neutral texts, which cannot contradict the letters."""
    if case.choose is None:
        raise ValueError("a case without its benchmark's scoring")
    unnamed = {letter: f"option {letter}" for letter in item.options}
    scored = case.choose(replace(item, options=unnamed), Answer(", ".join(letters)))
    named = ", ".join(f"{letter} ({clipped(item.options[letter])})" for letter in letters)
    keys = ", ".join(f"{letter} ({clipped(item.options.get(letter, ''))})" for letter in item.answers)
    why = f"{how}: {named}" if scored.outcome == "correct" else f"{how}: {named}; correct is {keys}"
    return replace(scored, why=why)


def led_by(result: Result, *, benchmark: Benchmark, settings: Settings) -> Result:
    """Score a free-form answer again by the lead (`gap`) of `settings`, from the judge's recorded replies.

    Errors and other results are returned unchanged.
    """
    judgement = result.judgement
    if result.answer is None or judgement is None or judgement.task != "closeness":
        return result
    by_rule = scoring.by_rule(result.item, result.technique, result.answer, benchmark=benchmark)
    case = case_of(benchmark, result.item, result.technique, result.answer, by_rule, settings)
    if case is None or not case.prompts:
        return result
    # A second reply exists only if the first was unreadable.
    readings = [read(case, 0, reply) for reply in reversed(judgement.replies)]
    readable = [reading for reading in readings if isinstance(reading, JudgeReading)]
    return replace(result, score=score(case, result.item, readable[:1], settings)) if readable else result


def rescored(
    result: Result, *, benchmark: Benchmark, extraction: Extraction, settings: Settings | None = None, perturb: str = ""
) -> Result:
    """Score a result again by another rule of reading answers; `perturb` is that of its run's protocol.

    Errors, options chosen by likelihood and judged results are returned unchanged.
    """
    if result.answer is None or result.judgement is not None or result.technique in OPTION_TECHNIQUES:
        return result
    item = rotation.as_shown(offered(result.item, perturb), result.variant)
    found = scoring.by_rule(item, result.technique, result.answer, benchmark=benchmark, extraction=extraction)
    if settings is not None:
        case = case_of(benchmark, item, result.technique, result.answer, found, settings)
        if case is not None and not case.prompts:
            found = score(case, item, (), settings)
    return replace(result, score=rotation.score_back(found, result.item, result.variant))
