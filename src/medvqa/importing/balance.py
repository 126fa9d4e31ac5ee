"""How answers, kinds, options and tags are spread over the questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medvqa.importing.across import spread
from medvqa.importing.cases import TableCase

LEAST_EXPECTED = 5.0
"""Expected answers of each letter below which no chi-square test is made (Cochran 1954, Biometrics 10:417)."""


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


def balance_of(cases: Sequence[TableCase]) -> Balance:
    """Return the balance of the cases."""
    single = [case for case in cases if case.kind == "single_choice" and len(case.answers) == 1 and case.options]
    counts = Counter(case.answers[0] for case in single)
    expected: Counter[str] = Counter()
    for case in single:
        for letter in case.options:
            expected[letter] += 1 / len(case.options)  # type: ignore[assignment]
    names = dict.fromkeys(name for case in cases for name in case.tags)
    return Balance(
        letters=tuple(_letter(letter, counts[letter], expected[letter], len(single)) for letter in sorted(expected)),
        p=_chi_square(counts, expected),
        judgments=tuple(spread(answer for case in cases if case.kind == "judgment" for answer in case.answers)),
        kinds=tuple(spread(case.kind for case in cases)),
        options=tuple(sorted(Counter(len(case.options) for case in cases if case.options).items())),
        tags={name: tuple(spread(value for case in cases for value in case.tags.get(name, ()))) for name in names},
    )


def _letter(letter: str, count: int, expected: float, n: int) -> LetterShare:
    from medvqa.statistics import clopper_pearson

    low, high = clopper_pearson(count, n, 0.975)
    return LetterShare(letter, count, n, float(low), float(high), expected / n)


def _chi_square(counts: Counter[str], expected: Counter[str]) -> float | None:
    """Pearson's test. With different numbers of options it is conservative: counts then vary less than multinomials."""
    from scipy.special import chdtrc

    if len(expected) < 2 or min(expected.values()) < LEAST_EXPECTED:
        return None
    statistic = sum((counts[letter] - share) ** 2 / share for letter, share in expected.items())
    return float(chdtrc(len(expected) - 1, statistic))
