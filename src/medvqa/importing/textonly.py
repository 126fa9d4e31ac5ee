"""Accuracy without images: the most frequent answer, the longest option, and a model of words.

The model of words is a conditional logit over the options of each question (McFadden 1974): the score of an option is
a sum of weights of its words, of pairs of a word of the question and the option's text, of its place and of its length.
Weights have an L2 penalty and are fitted on the other groups (`FOLDS` folds): questions of one patient or image are
never in both parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medvqa.benchmarks.table_declaration import LETTERS
from medvqa.importing.table_warnings import plain
from medvqa.items import Item

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDS = 5
BASELINES = 6
"""Baselines of a report, for the level of `above_chance`."""
JUDGED = ("yes", "no")
PENALTY = 1.0
"""The weight of the squared weights."""
LEAST = 20
"""Questions below which the model of words is not fitted."""
MAX_QUESTIONS = 5_000
"""Questions of a sample on which the model of words is fitted."""
MAX_WORDS = 60
"""Words of a question, or of an option, that count."""


@dataclass(frozen=True, slots=True)
class TextBaseline:
    """A way to answer without images: `low` and `high` bound its 95 % interval, None without one.

    `chance` is the accuracy of guessing, `value` that of the baseline on `n` questions. `above_chance`: the interval
    lies above chance even at a level that allows for all baselines and, for a letter, for all letters (Bonferroni).
    """

    name: str
    value: float
    low: float | None
    high: float | None
    chance: float
    n: int
    above_chance: bool


@dataclass(frozen=True, slots=True)
class _TextQuestion:
    """A question with a single right answer: the texts of its options, and the place of the right one."""

    question: str
    texts: tuple[str, ...]
    right: int
    group: int


def baselines(items: Sequence[Item], groups: Sequence[int]) -> list[TextBaseline]:
    """Return the baselines of the questions with one right option, and of those answered by yes or no."""
    asked = [one for item, group in zip(items, groups, strict=True) if (one := _asked(item, group)) is not None]
    judged = [one for one in asked if one.texts == JUDGED]
    choices = [one for one in asked if one.texts != JUDGED]
    return [*_of_choices(choices), *_of_judgments(judged)]


def _of_judgments(asked: Sequence[_TextQuestion]) -> list[TextBaseline]:
    import numpy as np

    if not asked:
        return []
    group = np.array([one.group for one in asked])
    right = np.array([one.right for one in asked])
    usual = int(2 * right.sum() > len(right))
    found = [_measured(f"always {JUDGED[usual]}", right == usual, group, 0.5, tries=2)]
    return [*found, *_of_words(asked, "words of questions for yes or no")]


def _of_choices(asked: Sequence[_TextQuestion]) -> list[TextBaseline]:
    import numpy as np

    if not asked:
        return []
    chance = _chance(asked)
    group = np.array([one.group for one in asked])
    right = np.array([one.right for one in asked])
    places = Counter(one.right for one in asked)
    usual = min(places, key=lambda place: (-places[place], place))
    widest = max(len(one.texts) for one in asked)
    longest = np.array([max(range(len(one.texts)), key=lambda i: (len(one.texts[i]), -i)) for one in asked])
    found = [
        _measured(f"always {LETTERS[usual]}", right == usual, group, chance, tries=widest),
        _measured("the longest option", right == longest, group, chance),
    ]
    if (fold := _folds(group)) is not None:
        often = _often(asked, fold)
        found.append(_measured("the option that is right most often elsewhere", right == often, group, chance))
    return [*found, *_of_words(asked, "words of question and options")]


def _of_words(asked: Sequence[_TextQuestion], name: str) -> list[TextBaseline]:
    """The model of words, on a sample of the questions if they are many; [] with few questions or groups."""
    import numpy as np

    if len(asked) > MAX_QUESTIONS:
        drawn = np.sort(np.random.default_rng(0).choice(len(asked), MAX_QUESTIONS, replace=False))
        asked = [asked[i] for i in drawn]
    group = np.array([one.group for one in asked])
    fold = _folds(group)
    if len(asked) < LEAST or fold is None:
        return []
    right = np.array([one.right for one in asked])
    return [_measured(name, right == _predicted(asked, fold), group, _chance(asked))]


def _chance(asked: Sequence[_TextQuestion]) -> float:
    return sum(1 / len(one.texts) for one in asked) / len(asked)


def _folds(group: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """The fold of each question, drawn by groups; None with too few groups."""
    import numpy as np

    names, number = np.unique(group, return_inverse=True)
    if len(names) < 2 * FOLDS:
        return None
    fold: NDArray[np.intp] = (np.random.default_rng(0).permutation(len(names)) % FOLDS)[number]
    return fold


def _asked(item: Item, group: int) -> _TextQuestion | None:
    if item.kind == "judgment" and item.answers in (("yes",), ("no",)):
        return _TextQuestion(plain(item.question), JUDGED, JUDGED.index(item.answers[0]), group)
    if item.kind == "single_choice" and len(item.answers) == 1 and len(item.options) > 1:
        letters = list(item.options)
        texts = tuple(plain(text) for text in item.options.values())
        return _TextQuestion(plain(item.question), texts, letters.index(item.answers[0]), group)
    return None


def _measured(
    name: str, right: NDArray[np.bool_], group: NDArray[np.intp], chance: float, *, tries: int = 1
) -> TextBaseline:
    low, high = interval(right, group)
    least, _ = interval(right, group, level=1 - 0.05 / (BASELINES * tries))
    return TextBaseline(name, float(right.mean()), low, high, chance, len(right), least is not None and least > chance)


def interval(
    right: NDArray[np.bool_], group: NDArray[np.intp], level: float = 0.95
) -> tuple[float | None, float | None]:
    """Return the interval of an accuracy over groups, as reports have it; None with too few groups."""
    import numpy as np

    from medvqa import statistics

    count = len(right)
    numbers = np.unique(group, return_inverse=True)[1].astype(np.intp)
    table = statistics.UnitTable(
        right.astype(float), np.ones(count), np.arange(count, dtype=np.intp), numbers, np.zeros(count, dtype=np.intp)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = statistics.estimate(table, binary=True, level=level).figure()
    return accuracy.low, accuracy.high


def _often(asked: Sequence[_TextQuestion], fold: NDArray[np.intp]) -> NDArray[np.intp]:
    """The option whose text is right most often in the other folds."""
    import numpy as np

    whole = Counter(one.texts[one.right] for one in asked)
    own = Counter((int(part), one.texts[one.right]) for part, one in zip(fold, asked, strict=True))
    return np.array(
        [
            max(range(len(one.texts)), key=lambda i: (whole[one.texts[i]] - own[int(part), one.texts[i]], -i))
            for part, one in zip(fold, asked, strict=True)
        ]
    )


def _predicted(asked: Sequence[_TextQuestion], fold: NDArray[np.intp]) -> NDArray[np.intp]:
    """The option that the model of words chooses for each question, fitted on the other folds."""
    import numpy as np

    features, starts = _features(asked)
    chosen = np.zeros(len(asked), dtype=np.intp)
    right = np.array([one.right for one in asked])
    for part in np.unique(fold):
        scores = features @ _fitted(features, starts, right, fold != part)
        for i in np.flatnonzero(fold == part):
            chosen[i] = int(np.argmax(scores[starts[i] : starts[i + 1]]))
    return chosen


def _features(asked: Sequence[_TextQuestion]) -> tuple[Any, NDArray[np.intp]]:
    """A sparse matrix with a row for each option, and the first row of each question (and the end)."""
    import numpy as np
    from scipy.sparse import csr_array

    number: dict[tuple[str, ...], int] = {}
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    starts = [0]
    for one in asked:
        words = set(one.question.split()[:MAX_WORDS])
        longest = max(map(len, one.texts)) or 1
        for place, text in enumerate(one.texts):
            named: list[tuple[tuple[str, ...], float]] = [(("place", str(place)), 1.0), (("text", text), 1.0)]
            named.append((("length",), len(text) / longest))
            named += [(("word", word), 1.0) for word in set(text.split()[:MAX_WORDS])]
            named += [(("pair", word, text), 0.5) for word in words]
            for name, value in named:
                rows.append(starts[-1] + place)
                columns.append(number.setdefault(name, len(number)))
                values.append(value)
        starts.append(starts[-1] + len(one.texts))
    matrix = csr_array((values, (rows, columns)), shape=(starts[-1], len(number)))
    # What occurs once is learnt from no other question.
    often = np.bincount(columns, minlength=len(number)) > 1
    return matrix[:, np.flatnonzero(often)], np.array(starts)


def _fitted(
    features: Any, starts: NDArray[np.intp], right: NDArray[np.intp], kept: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The weights of a conditional logit with an L2 penalty, on the questions that are kept."""
    import numpy as np
    from scipy.optimize import minimize

    sizes = np.diff(starts)
    mask = np.repeat(kept, sizes)
    X = features[np.flatnonzero(mask)]
    firsts = np.concatenate([[0], np.cumsum(sizes[kept])[:-1]])
    of = np.repeat(np.arange(len(firsts)), sizes[kept])
    target = firsts + right[kept]

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = X @ weights
        scores = scores - np.maximum.reduceat(scores, firsts)[of]
        powers = np.exp(scores)
        total = np.add.reduceat(powers, firsts)
        slope = powers / total[of]
        slope[target] -= 1
        value = float(np.sum(np.log(total) - scores[target]) + PENALTY / 2 * weights @ weights)
        return value, X.T @ slope + PENALTY * weights

    fitted: NDArray[np.float64] = minimize(
        loss, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 60, "maxcor": 5}
    ).x
    return fitted
