"""Questions that are equal, or nearly equal, to texts of a training set.

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
from collections import Counter
from collections.abc import Iterable
from math import ceil

ENOUGH = 0.8
"""Share of a question's runs of three words that a text must have to be nearly equal."""
LEAST = 8
"""Words of the shortest question that is compared for near equality."""
RUN = 3
LINES = 1000
"""Lines of a text that are compared by themselves; the others are compared as part of the whole."""
REMEMBERED = 200_000
"""Distinct texts whose matches are kept, since training sets repeat their questions."""
SHORT = 500
"""Characters of the longest text that is kept so."""

_MARK = re.compile(r"<\s*/?\s*(?:image|img|video|vision|start_of_image)\w*(?:[\s_-]*\d+)?\s*/?\s*>", re.I)
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
        places: dict[str, int] = {}
        self.of = [places.setdefault(" ".join(words(text)), len(places)) for text in texts]
        self._equal = {text: place for text, place in places.items() if text}
        self._runs = {
            place: found
            for text, place in self._equal.items()
            if len(split := text.split(" ")) >= LEAST and (found := runs(split))
        }
        frequency = Counter(run for found in self._runs.values() for run in found)
        # A text with `needed` of n runs has one of any n - needed + 1 of them: the rarest are looked up.
        self._rare: dict[str, list[int]] = {}
        for place, found in self._runs.items():
            needed = ceil(ENOUGH * len(found))
            for run in sorted(found, key=lambda run: (frequency[run], run))[: len(found) - needed + 1]:
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
            candidates = {place for run in has & self._rare.keys() for place in self._rare[run]}
            for place in candidates - found.keys():
                wanted = self._runs[place]
                share = len(wanted & has) / len(wanted)
                if share >= ENOUGH:
                    found[place] = round(1 - share, 6)
        return tuple(sorted(found.items()))
