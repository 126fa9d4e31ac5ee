"""Rotate the options of a question, and map answers back to the letters of the data set.

In rotation `shift`, the text of the option at place p stands at place p - shift, cyclically. The letters stay in
their order. A model that prefers a letter or a place gives other options in other rotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from medvqa.items import (
    CHOICE_KINDS,
    INVALID_OUTCOMES,
    SCORED_OUTCOMES,
    Answer,
    Item,
    QuestionKey,
    Result,
    Score,
    Technique,
    UsageError,
    Variant,
    replace,
)
from medvqa.protocols.prompts import SHOWING


def check(techniques: Iterable[Technique]) -> None:
    """Raise UsageError if none of the techniques shows letters."""
    techniques = list(techniques)
    if set(SHOWING).isdisjoint(techniques):
        raise UsageError(
            f"--rotate: technique '{', '.join(techniques)}' shows no option letters, so there is nothing to rotate; "
            f"those that do: {', '.join(SHOWING)}"
        )


def shifts(item: Item, technique: str, rotations: int | None) -> tuple[int | None, ...]:
    """Return the shifts that a question is asked with; (None,) if it is asked once, without rotation.

    `rotations` is as in `Protocol`: 0 for none, None for all. A question is rotated if the technique shows its options
    under letters. With fewer options than `rotations`, each rotation is asked once.
    """
    count = len(item.options)
    if rotations == 0 or technique not in SHOWING or item.kind not in CHOICE_KINDS or count < 2:
        return (None,)
    return tuple(range(count if rotations is None else min(rotations, count)))


def orders(technique: str, rotations: int | None) -> Callable[[Item], int]:
    """Return a function from an item to the number of orders that it is asked in."""
    return lambda item: len(shifts(item, technique, rotations))


def shown(options: Iterable[str], shift: int) -> dict[str, str]:
    """Map the letters of the data set to the letters under which their texts are shown."""
    letters = list(options)
    return {letters[(place + shift) % len(letters)]: letter for place, letter in enumerate(letters)}


def rotated(item: Item, shift: int | None) -> Item:
    """Return the item as it is shown: texts of options shifted under the letters, and the key in shown letters."""
    if not shift or not item.options:
        return item
    to = shown(item.options, shift)
    texts = {to[letter]: text for letter, text in item.options.items()}
    answers = tuple(sorted(to.get(answer, answer) for answer in item.answers))
    return replace(item, options={letter: texts[letter] for letter in item.options}, answers=answers)


def score_back(score: Score, item: Item, variant: str) -> Score:
    """Return the score of an answer to `item` as a recorded variant shows it, in the letters of the data set."""
    shift = Variant.parse(variant).rotation
    if not shift:
        return score
    of = _original(item, shift)
    mapped = {of.get(letter, letter) for letter in score.extracted}
    extracted = (*(letter for letter in item.options if letter in mapped), *sorted(mapped - item.options.keys()))
    return replace(score, extracted=extracted, why=f"in the order {_name(shift)}: {score.why}")


def result_back(result: Result, item: Item, shift: int | None) -> Result:
    """Return the result of a question as shown in the terms of the data set's `item`.

    Log-probabilities are by the data set's letters then; the text of the answer stays as the model wrote it.
    """
    if not shift:
        return result if result.item is item else replace(result, item=item)
    answer = _relettered(result.answer, _original(item, shift))
    return replace(result, item=item, answer=answer, score=score_back(result.score, item, result.variant))


def result_shown(result: Result) -> Result:
    """Return a result with item, chosen letters and log-probabilities as the model saw them, for people to read."""
    shift = Variant.parse(result.variant).rotation
    if not shift:
        return result
    to = shown(result.item.options, shift)
    score = replace(result.score, extracted=tuple(to.get(letter, letter) for letter in result.score.extracted))
    return replace(result, item=rotated(result.item, shift), score=score, answer=_relettered(result.answer, to))


def answer_shown(answer: Answer | None, options: Iterable[str], variant: str) -> Answer | None:
    """Return a recorded answer with log-probabilities by the letters that its variant showed."""
    shift = Variant.parse(variant).rotation
    return _relettered(answer, shown(options, shift)) if shift else answer


def as_shown(item: Item, variant: str) -> Item:
    """Return the item as a recorded variant shows it."""
    return rotated(item, Variant.parse(variant).rotation)


def _original(item: Item, shift: int) -> dict[str, str]:
    return {shown_letter: letter for letter, shown_letter in shown(item.options, shift).items()}


def _relettered(answer: Answer | None, to: Mapping[str, str]) -> Answer | None:
    if answer is None or answer.option_logprobs is None:
        return answer
    moved = {to.get(letter, letter): value for letter, value in answer.option_logprobs.items()}
    return replace(answer, option_logprobs={letter: moved[letter] for letter in sorted(moved)})


def _name(shift: int | None) -> str:
    return Variant(rotation=shift).name


@dataclass(frozen=True, slots=True)
class Rotations:
    """The results of one question in all its rotations, for one prompt and one sample, in order of the rotations."""

    results: tuple[Result, ...]

    @property
    def valid(self) -> bool:
        """Whether each answer names an option."""
        return all(result.score.outcome in SCORED_OUTCOMES - INVALID_OUTCOMES for result in self.results)

    @property
    def consistent(self) -> bool:
        """Whether each answer names the same options."""
        return self.valid and len({frozenset(result.score.extracted) for result in self.results}) == 1

    @property
    def folded(self) -> Result:
        """One result for the question: right only if it is right in every rotation.

        Without a score in any rotation there is none. An invalid answer in any rotation makes it invalid. Else the
        worst rotation counts. If single choices differ, `extracted` holds the choice of each rotation, so that two
        images are confused only if they get the same choices.
        """
        worst = min(self.results, key=_rank)
        name = Variant(Variant.parse(worst.variant).prompt).name
        score = worst.score
        choices = ", ".join(
            f"{_name(Variant.parse(r.variant).rotation)}: {','.join(r.score.extracted) or r.score.outcome}"
            for r in self.results
        )
        if self.consistent:
            why, text = f"in all {len(self.results)} rotations: {score.why}", ", ".join(score.extracted)
        else:
            why, text = f"rotations differ ({choices}): {score.why}", choices
            if self.valid and worst.item.kind == "single_choice":
                score = replace(score, extracted=tuple(letter for r in self.results for letter in r.score.extracted))
        # In the letters of the data set; how an answer ended is known of each rotation alone.
        answer = None if worst.answer is None else Answer(text, finish="")
        return replace(worst, prompt="", answer=answer, score=replace(score, why=why), variant=name)


def _rank(result: Result) -> tuple[int, float]:
    """Order results from the worst: without a score, invalid, not right by value, right."""
    outcome = result.score.outcome
    if outcome not in SCORED_OUTCOMES:
        return (0 if outcome == "error" else 1), 0.0
    if outcome in INVALID_OUTCOMES:
        return 2, 0.0
    return (4 if outcome == "correct" else 3), result.score.value or 0.0


def grouped(results: Iterable[Result], rotations: int | None) -> tuple[list[Rotations], list[Result], list[Result]]:
    """Return the questions with all their rotations, the results without rotation, and those that lack a rotation.

    `rotations` is as in `Protocol`. The last result of a key counts.
    """
    last = {result.key: result for result in results}
    whole: list[Rotations] = []
    single: list[Result] = []
    incomplete: list[Result] = []

    def place(result: Result) -> tuple[QuestionKey, int]:
        variant = Variant.parse(result.variant)
        name = Variant(variant.prompt).name
        return result.key._replace(variant=name), -1 if variant.rotation is None else variant.rotation

    placed = sorted(((*place(result), result) for result in last.values()), key=lambda entry: entry[:2])
    for _, entries in groupby(placed, key=lambda entry: entry[0]):
        members = list(entries)
        answers = tuple(result for _, _, result in members)
        asked = [shift for _, shift, _ in members]
        due = shifts(answers[0].item, answers[0].technique, rotations)
        if asked != [-1 if shift is None else shift for shift in due]:
            incomplete += answers
        elif asked == [-1]:
            single += answers
        else:
            whole.append(Rotations(answers))
    return whole, single, incomplete


def folded(results: Iterable[Result], rotations: int | None) -> list[Result]:
    """Return one result for each question, prompt and sample, sorted by key; questions without all rotations drop out.

    Questions asked once, such as those without options, stay as they are.
    """
    whole, single, _ = grouped(results, rotations)
    return sorted([*(group.folded for group in whole), *single], key=lambda result: result.key)
