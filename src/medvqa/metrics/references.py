"""Compute reference lines: the values of random, constant and image-blind answers on the same units.

Made-up answers are scored and passed to `Metric.terms`, so no formula is written twice. Units of one class (same kind,
letters and key) get the same terms. Each class is computed once, so the work does not grow with the run.
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
Orders = Callable[[Item], int]
"""In how many orders of its options an item was asked."""
Trials = list[tuple[float, Unit]]
"""Made-up results of one unit with their probabilities; [] if the reference is not defined."""

RANDOM, MAJORITY, IMAGE_BLIND = "random", "majority", "image_blind"

_REFERABLE = frozenset(
    metric.terms
    for metric in (
        definitions.accuracy,
        definitions.individual_accuracy,
        definitions.set_accuracy,
        definitions.confusion,
        definitions.set_precision,
        definitions.precision_mcls,
        definitions.recall_mcls,
        definitions.exact_match,
        definitions.mean_score,
    )
)


def names(metric: Metric) -> tuple[str, ...]:
    """Return the names of a metric's references; () for rates and users' metrics.

    A class is computed once, so its terms must depend on kind, letters, key and score alone. A user's metric may read
    more.
    """
    if metric.terms not in _REFERABLE:
        return ()
    paired = metric.unit == "pair" or metric.terms is definitions.individual_accuracy.terms
    return (RANDOM, MAJORITY, IMAGE_BLIND) if paired else (RANDOM, MAJORITY)


def majority_answers(items: Iterable[Item]) -> dict[Kind, str]:
    """Return the most frequent key of each kind as an answer ("B", "A,C"), the alphabetically first of equals."""
    counts: dict[Kind, Counter[str]] = {}
    for (kind, answers), count in Counter((item.kind, item.answers) for item in items if item.answers).items():
        counts.setdefault(kind, Counter())[_text(kind, answers)] += count
    return {kind: min(texts, key=lambda text: (-texts[text], text)) for kind, texts in counts.items()}


def blind_pair(first: Item, second: Item) -> bool:
    """Return whether only the image tells two questions apart: same text, same two options, each the key of one.

    With two options, each constant answer is right once. With more, an image-blind model may be wrong twice.
    """
    return (
        first.kind == second.kind == "single_choice"
        and first.question == second.question
        and first.options == second.options
        and set(first.options) == {*first.answers, *second.answers}
    )


@dataclass(frozen=True, slots=True)
class References:
    """Trials by class of units; `classes`, (units,), is the class of each unit."""

    classes: NDArray[np.intp]
    trials: list[dict[str, Trials]]

    def terms(self, metric: Metric, name: str) -> NDArray[np.float64]:
        """Return each unit's expected numerator and denominator, (2, units); NaN if the reference is not defined."""
        import numpy as np

        table = np.full((2, len(self.trials)), np.nan)
        for i, trials in enumerate(self.trials):
            if trials[name]:
                terms = [(weight, metric.terms(unit)) for weight, unit in trials[name]]
                table[:, i] = [fsum(weight * term[part] for weight, term in terms) for part in (0, 1)]
        return table[:, self.classes]


def of_units(
    units: Sequence[Unit],
    blind: Sequence[bool],
    majority: dict[Kind, str],
    score: Scorer | None,
    orders: Orders = lambda item: 1,
) -> References:
    """Make up answers to the units; `blind`: True for a unit in a pair that only the image tells apart.

    `orders` returns in how many orders of its options an item was asked; it is right only if all answers are right.
    `score` is the benchmark's scoring. Without it, multiple response and open questions have no references. Questions
    that a judge scored have none either, unless they are single choice.
    """
    import numpy as np

    class_of_key: dict[object, int] = {}
    trials: list[dict[str, Trials]] = []
    classes = np.empty(len(units), dtype=np.intp)
    for i, unit in enumerate(units):
        # The score that a judge would give a made-up answer is unknown.
        judged = any(result.judgement is not None and result.judgement.task == "score" for result in unit)
        key = (blind[i], judged, *[_class(result.item) for result in unit])
        if key not in class_of_key:
            class_of_key[key] = len(trials)
            items = [result.item for result in unit]
            by_rule = None if judged else score
            counts = [orders(item) for item in items]
            rotated = max(counts) > 1
            trials.append(
                {
                    RANDOM: _random_in_orders(items, counts) if rotated else _random(items, by_rule),
                    # Constant letters name other options in each order.
                    MAJORITY: [] if rotated else _majority(items, majority, by_rule),
                    IMAGE_BLIND: _image_blind(items, by_rule) if blind[i] else [],
                }
            )
        classes[i] = class_of_key[key]
    return References(classes, trials)


def _class(item: Item) -> object:
    """Return the facts that determine the score of made-up letters; each open question is a class of its own."""
    if item.kind in CHOICE_KINDS:
        return item.kind, tuple(item.options), item.answers
    return item.benchmark, item.id


def _random(items: Sequence[Item], score: Scorer | None) -> Trials:
    """Try uniformly random, independent answers; of pairs, only single-choice ones, which need few trials."""
    if len(items) > 1 and any(item.kind != "single_choice" for item in items):
        return []
    answers = [
        (prod(weight for weight, _ in combined), tuple(text for _, text in combined))
        for combined in product(*(_random_answers(item) for item in items))
    ]
    return _trials(answers, items, score)


MOST_SEQUENCES = 64
"""Most sequences of choices of one item that are combined with those of the other item of its pair."""


def _random_in_orders(items: Sequence[Item], orders: Sequence[int]) -> Trials:
    """Try independent random letters in each order of the options, for single choices."""
    if any(item.kind != "single_choice" or not item.answers for item in items):
        return []
    if len(items) == 1:
        (item,), (count,) = items, orders
        chance = (len(item.answers) / len(item.options)) ** count
        right, wrong = _letter(item, item.answers[0]), Score(0.0, "wrong")
        return [
            (weight, (Result("", item, "", Answer(""), score),))
            for weight, score in ((chance, right), (1 - chance, wrong))
        ]
    if any(len(item.options) ** count > MOST_SEQUENCES for item, count in zip(items, orders, strict=True)):
        return []
    each = [list(product(item.options, repeat=count)) for item, count in zip(items, orders, strict=True)]
    weight = 1 / prod(map(len, each))
    return [
        (weight, tuple(_choice(item, choices) for item, choices in zip(items, combined, strict=True)))
        for combined in product(*each)
    ]


def _choice(item: Item, choices: Sequence[str]) -> Result:
    """Return the result of the letters chosen in each order: right only if all are."""
    if len(set(choices)) == 1:
        return Result("", item, "", Answer(choices[0]), _letter(item, choices[0]))
    return Result("", item, "", Answer(""), Score(0.0, "wrong", tuple(choices)))


def _majority(items: Sequence[Item], majority: dict[Kind, str], score: Scorer | None) -> Trials:
    return _trials([(1.0, tuple(majority.get(item.kind, "") for item in items))], items, score)


def _random_answers(item: Item) -> list[tuple[float, str]]:
    """Return each answer with its probability: one option of k, or a non-empty subset of the options.

    Of the 2^k - 1 subsets, those with equal numbers of right and of wrong letters get equal scores: one stands for all.
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
    """Try the same answer to both questions of a pair, each option equally often."""
    options = items[0].options
    return _trials([(1 / len(options), (letter,) * len(items)) for letter in options], items, score)


def _trials(answers: list[tuple[float, tuple[str, ...]]], items: Sequence[Item], score: Scorer | None) -> Trials:
    """Score made-up answers; [] if the key is withheld or an answer has no score."""
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
        # Neutral texts: an option's own text may equal another option's letter, unlike in the rest of its class.
        item = replace(item, options={letter: f"option {letter}" for letter in item.options})
    try:
        return Result("", item, "", answer, score(item, answer))
    except AnswerError:
        # A user's scoring may fail on made-up answers: then there is no reference.
        return Result("", item, "", answer, Score(None, "unscored"))


def _letter(item: Item, letter: str) -> Score:
    if letter not in item.options:
        return Score(0.0, "unparsed")
    return Score(1.0, "correct", (letter,)) if letter in item.answers else Score(0.0, "wrong", (letter,))


def _text(kind: Kind, answers: tuple[str, ...]) -> str:
    return ",".join(sorted(answers)) if kind in CHOICE_KINDS else answers[0]
