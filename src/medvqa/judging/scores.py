"""From what a judge said to a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medvqa.items import Answer, Item, Outcome, Score
from medvqa.judging.cases import Case
from medvqa.judging.replies import JudgeReading
from medvqa.judging.settings import Settings
from medvqa.scoring import clipped

_OUTCOMES: dict[float, Outcome] = {0.0: "wrong", 0.5: "partial", 1.0: "correct"}


def score(case: Case, item: Item, readings: Sequence[JudgeReading], settings: Settings) -> Score:
    """The score of an answer by the readings of a judge's replies, one for each prompt of the case.

    Score: the judge's 0, 0.5 or 1; a 0 for an answer that declines or says that it cannot be known has that outcome.
    Closeness: the option with the highest score, if it leads each other by at least `settings.gap`; else the answer
    names no option (`unparsed`, or refused, abstained), which counts as wrong and is invalid. Options: as if the answer
    were the letters; where the judge found none it stays as it was.
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
    told = ", ".join(f"{letter} {value:g}" for letter, value in reading.closeness.items())
    (first, highest), *others = sorted(reading.closeness.items(), key=lambda pair: -pair[1])
    second = others[0][1] if others else 0.0
    if highest > second and round(highest - second, 6) >= gap:  # 7.3 leads 4.3 by 3, in decimal
        return _chosen(case, item, (first,), f"closeness {told}")
    declined = f"; by rule: {case.otherwise.why}" if case.otherwise.outcome != "unparsed" else ""
    return replace(case.otherwise, why=f"no option leads by {gap:g}: closeness {told}{declined}")


def _chosen(case: Case, item: Item, letters: Sequence[str], how: str) -> Score:
    """As if the answer were these letters, which the texts of the options must not contradict."""
    if case.choose is None:
        raise ValueError("a case without its benchmark's scoring")
    unnamed = {letter: f"option {letter}" for letter in item.options}
    scored = case.choose(replace(item, options=unnamed), Answer(", ".join(letters)))
    named = ", ".join(f"{letter} ({clipped(item.options[letter])})" for letter in letters)
    keys = ", ".join(f"{letter} ({clipped(item.options.get(letter, ''))})" for letter in item.answers)
    why = f"{how}: {named}" if scored.outcome == "correct" else f"{how}: {named}; correct is {keys}"
    return replace(scored, why=why)
