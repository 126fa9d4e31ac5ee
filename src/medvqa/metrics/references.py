"""Levels that need no model: what random, constant and image-blind answers would have got on the same units.

No formula of a metric is written twice: answers are made up, scored, and fed through `Metric.terms`. Units of one
class (same kind, letters and key) fare alike, so a class is tried once and the work does not grow with the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import comb, fsum, prod
from typing import TYPE_CHECKING

from medvqa.items import CHOICE_KINDS, SCORED_OUTCOMES, Answer, AnswerError, Item, Kind, Metric, Result, Score
from medvqa.metrics import definitions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Unit = tuple[Result, ...]
Scorer = Callable[[Item, Answer], Score]
Trials = list[tuple[float, Unit]]
"""Made-up results of one unit with their probabilities; [] where the reference is not defined."""

RANDOM, MAJORITY, IMAGE_BLIND = "random", "majority", "image_blind"

_REFERABLE = frozenset(
    metric.terms
    for metric in (
        definitions.accuracy,
        definitions.individual_accuracy,
        definitions.set_accuracy,
        definitions.confusion,
        definitions.precision_mcls,
        definitions.recall_mcls,
        definitions.exact_match,
        definitions.mean_score,
    )
)


def names(metric: Metric) -> tuple[str, ...]:
    """The references that a metric has: none for rates, and none for a stranger's metric.

    What is tried once for a class must depend on kind, letters, key and score alone, which is not known of a
    stranger's metric.
    """
    if metric.terms not in _REFERABLE:
        return ()
    paired = metric.unit == "pair" or metric.terms is definitions.individual_accuracy.terms
    return (RANDOM, MAJORITY, IMAGE_BLIND) if paired else (RANDOM, MAJORITY)


def majority_answers(items: Iterable[Item]) -> dict[Kind, str]:
    """The most frequent key of each kind as an answer's text ("B", "A,C"); the alphabetically first of several."""
    counts: dict[Kind, Counter[str]] = {}
    for (kind, answers), count in Counter((item.kind, item.answers) for item in items if item.answers).items():
        counts.setdefault(kind, Counter())[_text(kind, answers)] += count
    return {kind: min(texts, key=lambda text: (-texts[text], text)) for kind, texts in counts.items()}


def blind_pair(first: Item, second: Item) -> bool:
    """Whether nothing but the image tells two questions apart: same text, same two options, each the key of one.

    With two options each constant answer is right once; with more, an image-blind model may also be wrong twice.
    """
    return (
        first.kind == second.kind == "single_choice"
        and first.question == second.question
        and first.options == second.options
        and set(first.options) == {*first.answers, *second.answers}
    )


@dataclass(frozen=True, slots=True)
class References:
    """Trials by class of units; `classes` has the shape (units,)."""

    classes: NDArray[np.intp]
    trials: list[dict[str, Trials]]

    def terms(self, metric: Metric, name: str) -> NDArray[np.float64]:
        """Expected numerator and denominator of each unit, shape (2, units); NaN where the reference is not defined."""
        import numpy as np

        table = np.full((2, len(self.trials)), np.nan)
        for i, trials in enumerate(self.trials):
            if trials[name]:
                terms = [(weight, metric.terms(unit)) for weight, unit in trials[name]]
                table[:, i] = [fsum(weight * term[part] for weight, term in terms) for part in (0, 1)]
        return table[:, self.classes]


def of_units(
    units: Sequence[Unit], blind: Sequence[bool], majority: dict[Kind, str], score: Scorer | None
) -> References:
    """Make up answers to the units; `blind` says which are, or belong to, pairs that only the image tells apart.

    `score` is needed for multiple response, whose credit each benchmark defines, and for open questions; a right
    letter is right for all. None leaves these two without references, and a judge the open questions that it scored.
    """
    import numpy as np

    seen: dict[object, int] = {}
    trials: list[dict[str, Trials]] = []
    classes = np.empty(len(units), dtype=np.intp)
    for i, unit in enumerate(units):
        # What a judge would have given a made-up answer is not known.
        judged = any(result.judgement is not None and result.judgement.task == "score" for result in unit)
        key = (blind[i], judged, *[_class(result.item) for result in unit])
        if key not in seen:
            seen[key] = len(trials)
            items = [result.item for result in unit]
            by_rule = None if judged else score
            trials.append(
                {
                    RANDOM: _random(items, by_rule),
                    MAJORITY: _trials([(1.0, tuple(majority.get(item.kind, "") for item in items))], items, by_rule),
                    IMAGE_BLIND: _image_blind(items, by_rule) if blind[i] else [],
                }
            )
        classes[i] = seen[key]
    return References(classes, trials)


def _class(item: Item) -> object:
    """What the score of made-up letters depends on; an open question is a class of its own."""
    if item.kind in CHOICE_KINDS:
        return item.kind, tuple(item.options), item.answers
    return item.benchmark, item.id


def _random(items: Sequence[Item], score: Scorer | None) -> Trials:
    """Uniformly random, independent answers; for pairs of single-choice questions only, where the trials are few."""
    if len(items) > 1 and any(item.kind != "single_choice" for item in items):
        return []
    answers = [
        (prod(weight for weight, _ in combined), tuple(text for _, text in combined))
        for combined in product(*(_random_answers(item) for item in items))
    ]
    return _trials(answers, items, score)


def _random_answers(item: Item) -> list[tuple[float, str]]:
    """Each answer with its probability: one option of k, or a subset of the options that is not empty.

    Of the 2^k - 1 subsets, those with as many right and as many wrong letters fare alike: one stands for all.
    """
    if item.kind == "single_choice":
        return [(1 / len(item.options), letter) for letter in item.options]
    if item.kind != "multiple_response":
        return []
    right = [letter for letter in item.options if letter in item.answers]
    wrong = [letter for letter in item.options if letter not in item.answers]
    return [
        (comb(len(right), i) * comb(len(wrong), j) / (2 ** len(item.options) - 1), ",".join(right[:i] + wrong[:j]))
        for i in range(len(right) + 1)
        for j in range(len(wrong) + 1)
        if i + j
    ]


def _image_blind(items: Sequence[Item], score: Scorer | None) -> Trials:
    """The same answer to both questions of a pair, either option equally often."""
    options = items[0].options
    return _trials([(1 / len(options), (letter,) * len(items)) for letter in options], items, score)


def _trials(answers: list[tuple[float, tuple[str, ...]]], items: Sequence[Item], score: Scorer | None) -> Trials:
    """Score made-up answers; none where the key is withheld or an answer has no score."""
    trials = []
    for weight, texts in answers:
        unit = tuple(_result(item, text, score) for item, text in zip(items, texts, strict=True))
        if any(result.score.outcome not in SCORED_OUTCOMES for result in unit):
            return []
        trials.append((weight, unit))
    return trials


def _result(item: Item, text: str, score: Scorer | None) -> Result:
    answer = Answer(text)
    if not item.answers:
        return Result("", item, "", answer, Score(None, "unscored"))
    if item.kind == "single_choice":
        return Result("", item, "", answer, _letter(item, text))
    if score is None:
        return Result("", item, "", answer, Score(None, "unscored"))
    if item.kind in CHOICE_KINDS:
        # An option may be called like another's letter, which would stand for the whole class.
        item = replace(item, options={letter: f"option {letter}" for letter in item.options})
    try:
        return Result("", item, "", answer, score(item, answer))
    except AnswerError:
        # A user's scoring may fail on answers that are made up: there is no reference then.
        return Result("", item, "", answer, Score(None, "unscored"))


def _letter(item: Item, letter: str) -> Score:
    if letter not in item.options:
        return Score(0.0, "unparsed")
    return Score(1.0, "correct", (letter,)) if letter in item.answers else Score(0.0, "wrong", (letter,))


def _text(kind: Kind, answers: tuple[str, ...]) -> str:
    return ",".join(sorted(answers)) if kind in CHOICE_KINDS else answers[0]
