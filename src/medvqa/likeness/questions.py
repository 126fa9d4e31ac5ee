"""The one rule of equal and nearly equal questions: those of a benchmark in a training set, and those of one table.

Texts are compared by their words: letters and digits of any script after Unicode's NFKC and case folding, each Chinese
or Japanese character a word of its own. Marks of images, such as `<image>`, are no words. Two texts are equal if they
have the same words in the same order. A text holds a question nearly if it has at least `ENOUGH` of the question's
distinct runs of three words, in any order and with any other words around: so a question is found within a
conversation or with its options. Questions of fewer than `LEAST` words are only compared for equality, since a few
common words occur in many texts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from math import ceil

ENOUGH = 0.9
"""Share of a question's runs of three words that a text must have to be nearly equal."""
LEAST = 8
"""Words of the shortest question that is compared for near equality."""
RUN = 3
LINES = 1000
"""Lines of a text that are compared by themselves; the others are compared as part of the whole."""
REMEMBERED = 100_000
"""Distinct texts whose matches are kept, since training sets repeat their questions."""
SHORT = 500
"""Characters of the longest text that is kept so."""

MOST = 50
"""Nearly equal questions that a text is reported for, the nearest: more share a form, and little else."""
MANY = 500
"""Candidates of a text from which on they are counted by numpy."""

# All repetitions are limited, so that a hostile text takes no longer than another.
_MARK = re.compile(
    r"<\s{0,3}/?\s{0,3}(?:image|img|video|vision|start_of_image)\w{0,20}[\s_-]{0,3}\d{0,6}\s{0,3}/?\s{0,3}>", re.I
)
_WORD = re.compile(r"[぀-ヿ㐀-䶿一-鿿가-힯豈-﫿]|[^\W_぀-ヿ㐀-䶿一-鿿가-힯豈-﫿]+")


def words(text: str) -> list[str]:
    """Return the words of a text, for comparisons."""
    return _WORD.findall(unicodedata.normalize("NFKC", _MARK.sub(" ", text)).casefold())


def runs(of: list[str]) -> set[str]:
    """Return the distinct runs of three words."""
    return {" ".join(of[i : i + RUN]) for i in range(len(of) - RUN + 1)}


class QuestionIndex:
    """The distinct questions of a benchmark, to look up texts in; `of` numbers the question of each text."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Index the questions."""
        import numpy as np

        places: dict[str, int] = {}
        self.of = [places.setdefault(" ".join(words(text)), len(places)) for text in texts]
        self._equal = {text: place for text, place in places.items() if text}
        self._runs = {
            place: found
            for text, place in self._equal.items()
            if len(split := text.split(" ")) >= LEAST and (found := runs(split))
        }
        by_run: dict[str, list[int]] = {}
        for place, found in self._runs.items():
            for run in found:
                by_run.setdefault(run, []).append(place)
        self._places = {run: np.array(places, dtype=np.intp) for run, places in by_run.items()}
        self._needed = np.full(len(places), np.inf)
        # A text with `needed` of n runs has one of any n - needed + 1 of them: the rarest are looked up.
        self._rare: dict[str, list[int]] = {}
        for place, found in self._runs.items():
            needed = ceil(ENOUGH * len(found))
            self._needed[place] = needed
            for run in sorted(found, key=lambda run: (len(by_run[run]), run))[: len(found) - needed + 1]:
                self._rare.setdefault(run, []).append(place)
        self._remembered: dict[str, tuple[tuple[int, float], ...]] = {}

    def __len__(self) -> int:
        """Return the number of distinct questions."""
        return len(self._equal)

    def matches(self, text: str) -> tuple[tuple[int, float], ...]:
        """Return the questions that a text is equal to, or holds: number and distance, sorted.

        The distance is 0 for an equal text or line, else the share of the question's runs that the text lacks, at most
        1 - ENOUGH. A question that a longer text holds whole has the distance 0, too: see `is_equal`.
        """
        if len(text) > SHORT:
            return self._matched(text)
        known = self._remembered.get(text)
        if known is None:
            known = self._matched(text)
            if len(self._remembered) < REMEMBERED:
                self._remembered[text] = known
        return known

    def near(self) -> Iterator[tuple[int, int]]:
        """Yield each pair of different questions of which one holds the other nearly."""
        seen: set[tuple[int, int]] = set()
        for text, place in self._equal.items():
            for other, _ in self.matches(text):
                pair = min(place, other), max(place, other)
                if place != other and pair not in seen:
                    seen.add(pair)
                    yield pair

    def is_equal(self, text: str, place: int) -> bool:
        """Whether a text, or one of its lines, is equal to the question."""
        return any(self._equal.get(line) == place for line in self._lines(text))

    def _lines(self, text: str) -> list[str]:
        lines = text.split("\n", LINES)[:LINES] if "\n" in text else []
        return [" ".join(words(line)) for line in (text, *lines)]

    def _matched(self, text: str) -> tuple[tuple[int, float], ...]:
        found = {self._equal[line]: 0.0 for line in self._lines(text) if line in self._equal}
        if self._rare:
            has = runs(words(text))
            near = ((place, self._lacks(place, has)) for place in self._candidates(has) if place not in found)
            nearest = sorted((lacks, place) for place, lacks in near if lacks is not None)[:MOST]
            found |= {place: lacks for lacks, place in nearest}
        return tuple(sorted(found.items()))

    def _candidates(self, has: set[str]) -> Collection[int]:
        """The questions that a text with these runs may hold."""
        import numpy as np

        rare = [self._rare[run] for run in has & self._rare.keys()]
        if sum(map(len, rare)) < MANY:
            return {place for places in rare for place in places}
        counts = np.bincount(np.concatenate([self._places[run] for run in has & self._places.keys()]))
        return np.flatnonzero(counts >= self._needed[: len(counts)]).tolist()

    def _lacks(self, place: int, has: set[str]) -> float | None:
        """The share of a question's runs that are not there, None if they are too many."""
        wanted = self._runs[place]
        count = len(wanted & has)
        return round(1 - count / len(wanted), 6) if count >= self._needed[place] else None
