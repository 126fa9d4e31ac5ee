"""Compare the words of an open answer with its references: exact match, token recall and F1.

The definitions are those of SQuAD (Rajpurkar et al. 2016): texts are normalised, and tokens are a multiset, so that a
repeated word counts at most as often as it stands in the reference. Of several references the best one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from medvqa.items import Answer, Item
from medvqa.scoring.open_answers import normalise
from medvqa.scoring.text import SEAL, visible

NORMALISATION = "words-1"
"""The name of `answered` and `normalise` in signatures: words in lower case without punctuation and articles, CJK
characters alone. Raise the number when the same text may give other words."""

TOKENS = "multiset"
"""How tokens are counted, in signatures."""

Words = Sequence[str]


def answered(text: str) -> str:
    r"""Return the answer in a response: without reasoning and markup, and only the last sealed answer if there is one.

    >>> answered("<think>Is it the liver?</think>It is \\boxed{spleen}.")
    'spleen'
    """
    shown = visible(text)
    return shown.rpartition(SEAL)[2].partition("\n")[0].strip() if SEAL in shown else shown


def exact(item: Item, answer: Answer) -> float | None:
    """Return 1 if the words of the whole answer are those of a reference, else 0; None without a reference."""
    return _best(item, answer, lambda said, reference: float(said == reference))


def recall(item: Item, answer: Answer) -> float | None:
    """Return the share of the reference's tokens that the answer has; None without a reference."""
    return _best(item, answer, lambda said, reference: _common(said, reference) / len(reference))


def f1(item: Item, answer: Answer) -> float | None:
    """Return the harmonic mean of the precision and the recall of tokens; None without a reference."""
    return _best(item, answer, lambda said, reference: 2 * _common(said, reference) / (len(said) + len(reference)))


def _best(item: Item, answer: Answer, compare: Callable[[Words, Words], float]) -> float | None:
    """Compare the answer with the references that have words; a refusal reported by the server has none."""
    said = [] if answer.finish == "refusal" else normalise(answered(answer.text)).split()
    return max((compare(said, words) for key in item.answers if (words := normalise(key).split())), default=None)


def _common(said: Words, reference: Words) -> int:
    return (Counter(said) & Counter(reference)).total()
