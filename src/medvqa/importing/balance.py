"""How answers, kinds, options and tags are spread over the questions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medvqa.importing.table_warnings import spread
from medvqa.items import Item

LEAST_EXPECTED = 5.0
"""Expected answers of each letter below which no chi-square test is made (Cochran 1954, Biometrics 10:417)."""
RARE = 0.01
"""A p-value below which the positions of right options are called uneven."""


@dataclass(frozen=True, slots=True)
class LetterShare:
    """How often an option is the right one: `low` and `high` bound the 95 % interval of its share (exact).

    `expected` is the share if right options were placed by chance.
    """

    letter: str
    count: int
    n: int
    low: float
    high: float
    expected: float


@dataclass(frozen=True, slots=True)
class Balance:
    """Letters of single right options, answers to judgments, kinds, options a question and tags, with counts.

    `p` is that of the chi-square test of equal positions; None: not tested, since too few answers are expected.
    """

    letters: tuple[LetterShare, ...] = ()
    p: float | None = None
    judgments: tuple[tuple[str, int], ...] = ()
    kinds: tuple[tuple[str, int], ...] = ()
    options: tuple[tuple[int, int], ...] = ()
    tags: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


def balance_of(items: Sequence[Item], columns: Mapping[str, str]) -> Balance:
    """Return the balance of the questions; `columns` has the column of each tag."""
    single = [item for item in items if item.kind == "single_choice" and len(item.answers) == 1 and item.options]
    counts = Counter(item.answers[0] for item in single)
    expected: defaultdict[str, float] = defaultdict(float)
    for item in single:
        for letter in item.options:
            expected[letter] += 1 / len(item.options)
    names = dict.fromkeys(name for item in items for name in item.tags)
    return Balance(
        letters=tuple(_letter(letter, counts[letter], expected[letter], len(single)) for letter in sorted(expected)),
        p=_chi_square(counts, expected),
        judgments=tuple(spread(answer for item in items if item.kind == "judgment" for answer in item.answers)),
        kinds=tuple(spread(item.kind for item in items)),
        options=tuple(sorted(Counter(len(item.options) for item in items if item.options).items())),
        tags={
            columns.get(name, name): tuple(spread(value for item in items for value in item.tags.get(name, ())))
            for name in names
        },
    )


def _letter(letter: str, count: int, expected: float, n: int) -> LetterShare:
    from medvqa.statistics import clopper_pearson

    low, high = clopper_pearson(count, n, 0.975)
    return LetterShare(letter, count, n, float(low), float(high), expected / n)


def _chi_square(counts: Mapping[str, int], expected: Mapping[str, float]) -> float | None:
    """Pearson's test. With different numbers of options it is conservative: counts then vary less than multinomials."""
    from scipy.special import chdtrc

    if len(expected) < 2 or min(expected.values()) < LEAST_EXPECTED:
        return None
    statistic = sum((counts[letter] - share) ** 2 / share for letter, share in expected.items())
    return float(chdtrc(len(expected) - 1, statistic))
