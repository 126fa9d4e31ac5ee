"""Read judgments of which a term fills a clause, as in "是的，有积液", "答案是没有" or "Die Aussage ist falsch".

In Chinese nothing else counts: "没有" (no) holds "有" (yes), and "是" (yes) joins subject and object in most sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from medvqa.scoring.extraction import Reading
from medvqa.scoring.text import plain, tokens, visible
from medvqa.scoring.words import CJK

_CLAUSE = re.compile(r"([^,.;:!?。、\n]+)(\??)")
_ANSWER = re.compile(
    r"\s*(?:(?:最终|最後|最后)?(?:答案|回答|结论|結論|判断结果)(?:应该|應該)?[是为為]?"
    r"|(?:das|dies|es|(?:die|diese) (?:aussage|behauptung|antwort))(?: ist)? )",
    re.I,
)


def is_unspaced(text: str) -> bool:
    """Return whether a text has a character of a script without spaces."""
    return re.search(f"[{CJK}]", text) is not None


def read_clause(response: str, vocabulary: Mapping[str, Sequence[str]]) -> Reading | None:
    """Return the one term of `vocabulary` (term -> synonyms) that fills a clause of the response.

    None if no clause is a term, or if several terms are. Questions are left out.
    """
    named = {_words(text): term for term, texts in vocabulary.items() for text in (term, *texts)}
    read: dict[str, str] = {}
    for match in _CLAUSE.finditer(visible(response)):
        clause, asks = match.groups()
        if asks:
            continue
        term = named.get(_words(clause)) or named.get(_words(_ANSWER.sub("", clause, count=1)))
        if term is not None:
            read.setdefault(term, clause.strip())
    if len(read) != 1:
        return None
    ((term, clause),) = read.items()
    return Reading((term,), "read", f'a clause: "{clause}"')


def _words(text: str) -> str:
    return " ".join(tokens(plain(text)))
