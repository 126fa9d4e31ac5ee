"""Score questions that are answered by text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from medvqa.items import Answer, Item, Score
from medvqa.printing import clipped
from medvqa.scoring.choices import cut_off, reading_of, right_or_wrong
from medvqa.scoring.clauses import is_unspaced, read_clause
from medvqa.scoring.extraction import Reading, read_term
from medvqa.scoring.text import ARTICLES, plain, tokens
from medvqa.scoring.words import word_set


def normalise(text: str) -> str:
    """Return `text` normalised for comparison: words in lower case, one space apart, no punctuation or articles.

    Full-width and styled characters become plain ones. The signs < > = + % are words, and so is every
    Chinese, Japanese or Korean character; a minus belongs to its number. A text of articles only keeps them.

    >>> normalise("The  *Basal-cell* carcinoma.")
    'basal cell carcinoma'
    """
    words = tokens(plain(text))
    return " ".join([word for word in words if word not in ARTICLES] or words)


def score_closed_vocabulary(
    item: Item, answer: Answer, vocabulary: Mapping[str, Sequence[str]], *, common: bool = False
) -> Score:
    """Return 1 if the one term of `vocabulary` in `answer` is among `item.answers`, else 0.

    `vocabulary` maps terms to synonyms. The response must name one term as a whole phrase, not denied; several are
    `unparsed`. Statements outweigh mentions in passing as in `read_options` ("not red but blue", "the answer is
    blue"). In judgments "true" and "correct" mean "yes", "false" and "incorrect" mean "no", if "yes" and "no" are
    terms. `common`: the terms are frequent words, such as "ja", which are no evidence in passing; Chinese ones must
    fill a clause. `Score.extracted` holds the term, normalised.
    """
    if item.kind == "judgment":
        ways = {name: word_set(name) for name in ("yes", "no")}
        vocabulary = {term: (*more, *ways.get(normalise(term), ())) for term, more in vocabulary.items()}
    reading = reading_of(answer, lambda text: _read(text, vocabulary, finished=not cut_off(answer), common=common))
    if reading.status != "read":
        return Score(0.0 if item.answers else None, reading.status if item.answers else "unscored", (), reading.why)
    [term] = reading.letters
    extracted = (normalise(term),)
    if not item.answers:
        return Score(None, "unscored", extracted, f"no answer key; {reading.why}")
    names = {normalise(name) for name in (term, *vocabulary[term])}
    right = not names.isdisjoint(map(normalise, item.answers))
    return right_or_wrong(item, right, extracted, f"said {clipped(term)}")


def _read(text: str, vocabulary: Mapping[str, Sequence[str]], *, finished: bool, common: bool) -> Reading:
    """Read the one term of a vocabulary from a text."""
    if not common:
        return read_term(text, vocabulary, finished=finished)
    # The end of an answer that was cut off is no whole clause.
    clause = read_clause(text, vocabulary) if finished else None
    if any(map(is_unspaced, chain.from_iterable(vocabulary.values()))):
        spaced = {term: [word for word in words if not is_unspaced(word)] for term, words in vocabulary.items()}
        return clause or read_term(text, spaced, finished=finished, common=True)
    reading = read_term(text, vocabulary, finished=finished, common=True)
    return clause if clause is not None and reading.status == "unparsed" else reading


def unscored(item: Item, answer: Answer) -> Score:
    """Leave an open or free-form (FF) answer to a judge: outcome `unscored`, no value."""
    reference = "the options" if item.options else clipped(" or ".join(item.answers))
    return Score(
        None, "unscored", (), f"a judge has to compare it with {reference}" if item.answers else "no answer key"
    )
