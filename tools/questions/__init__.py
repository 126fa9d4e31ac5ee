"""The phantom's questions about synthetic scenes, as rows of the three benchmarks' formats.

Every question can be answered from its picture and from nothing else: for each question text the answers
go evenly through what it could be, and so do the letters. A model that does not look is right as often as
chance has it. Exceptions are MedLesionVQA's text-only questions, which have no picture.

Labels, tasks, departments, modalities, categories, lesions and diseases are those of the benchmarks'
lexicons; tasks and departments of a GMAI-MMBench label are looked up in its tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from numpy.random import Generator

SHIPPED_SEED = 0
"""Reserved: these are the questions that ship. Whoever trains on such scenes starts from another seed."""

LETTERS = "ABCDE"


def single_choices(
    rng: Generator, pool: Sequence[str], count: int, size: int
) -> Iterator[tuple[str, dict[str, str], str]]:
    """So many (right option, options by letter, its letter): both go evenly through the pool and the letters."""
    for number in range(count):
        right = pool[number % len(pool)]
        letter = LETTERS[(number + number // len(pool)) % size]
        others = rng.permutation([option for option in pool if option != right]).tolist()
        yield right, arranged(rng, [right], others[: size - 1], letter), letter


def multiple_responses(
    rng: Generator, pool: Sequence[str], size: int
) -> Iterator[tuple[tuple[str, ...], dict[str, str], str]]:
    """Every way to choose so many of the pool: (right options, options by letter, their letters like "A,C").

    The right letters, too, are once each way to choose.
    """
    letters = list(combinations(LETTERS[: len(pool)], size))
    for right, number in zip(combinations(pool, size), rng.permutation(len(letters)), strict=True):
        others = [option for option in pool if option not in right]
        yield right, arranged(rng, right, others, letters[number]), ",".join(letters[number])


def arranged(rng: Generator, right: Sequence[str], wrong: Sequence[str], letters: Sequence[str]) -> dict[str, str]:
    """Options A, B ... with the right ones, in any order, at these letters."""
    right_ones, wrong_ones = iter(rng.permutation(right).tolist()), iter(rng.permutation(wrong).tolist())
    names = LETTERS[: len(right) + len(wrong)]
    return {letter: next(right_ones if letter in letters else wrong_ones) for letter in names}
