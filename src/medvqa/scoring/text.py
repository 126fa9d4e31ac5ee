"""Clean a text of reasoning, invisible characters and markup, and find phrases in it.

All functions take time linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medvqa.scoring.words import CJK, compiled

HEAD, TAIL = 8_000, 24_000
"""Characters read at the two ends of a longer response, where answers stand."""

SEAL = "\ue003"
"""Marks an answer in machine-readable form: <answer>, boxed, JSON."""

_REASONING = compiled(r"<(/?)(?:think|thinking|thought|reasoning|reflection|analysis|scratchpad)\s*>", re.I)
# Soft hyphens, zero-width and direction marks; and private-use characters, which mark mentions later on.
_DELETED = dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), 0x2060, 0xFEFF, *range(0xE000, 0xF900)])
_UNIFIED = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u00b4\u02bc", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        "\r": "\n",
    }
)
_LATEX = compiled(r"\\(?:text|textbf|textrm|mathrm|mathbf|mathsf|bf|rm)\b\s?|\\[()\[\]]|\$")
_SEALED = compiled(
    r"""\\f?box(?:ed)?\s*[{\s]{0,4}(?P<boxed>[^{}\n]{1,300})
    |   (?P<tag></?(?:final_?)?(?:ans(?:wer)?|conclusion|choice|option|solution|prediction)>|\[/?answer\])
    |   ["'](?:[\w ]{0,20}[\s_])?
        (?:answers?|choice|option|prediction|selection|letter|diagnosis|(?:correct|selected)[ _](?:options|choices))
        (?:_?(?:letter|option|choice))?["']\s{0,3}:\s{0,3}
        (?P<json>\[[^\[\]]{0,300}\]|"[^"\n]{0,300}"|'[^'\n]{0,300}'|[A-Z]\b)""",
    re.I | re.X,
)
_MARKUP = (
    (compiled(r"^[ \t]*\d{1,2}[.)][ \t]+(?=[\[(]?[A-Z](?![^\W_]))", re.M), ""),  # "1. A", "2. C"
    (compiled(r"<\|[^<>|\n]{1,30}\|>|</?s>|\[/?INST\]"), "\n"),  # control tokens of chat templates
    (compiled(r"^[ \t]*(?:[-+*\u2022][ \t]+)?(?:\[[xX\u2713\u2714]\]|[\u2611\u2612\u25a0])[ \t]+", re.M), "\u2713 "),
    (compiled(r"^[ \t]*(?:[-+*\u2022][ \t]+)?(?:\[[ \t]?\]|[\u2610\u25a1])[ \t]+", re.M), "\u2717 "),
    (compiled(r"(?<=\w)[ \t]+[\u2610\u25a1](?=\s|$)"), " \u2717"),
    (compiled(r"</?(?:br|p|div|li)\b[^<>\n]{0,80}>", re.I), "\n"),
    (compiled(r"</?(?:b|i|u|em|strong|mark|code|span|center|h[1-6])\b[^<>\n]{0,80}>"), ""),  # "<B>" is an answer
    (compiled(r"^[ \t]*```\w*[ \t]*$", re.M), ""),
    (compiled(r'[*`~"]+'), ""),
    (compiled(rf"(?<![^\W_{CJK}])_+|_+(?![^\W_{CJK}])"), ""),
    (compiled(r"(?<!\w)'|'(?!\w)"), ""),
    (compiled(r"^[ \t#\u2022\u00b7\u2023]*(?:>(?![ \t]*\d)[ \t>#]*)*(?:[-+] )?[ \t]*", re.M), ""),  # not in "> 5 mm"
)
_ROW = compiled(r"^[ \t]*\|[^\n]*$", re.M)
_RULE = compiled(r"[\s|:\-]*")
_FIRST_NUMBERS = ("1", "2")
_NUMBERED = compiled(r"^[ \t]*\d{1,2}[.)][ \t]+(?=\S)", re.M)
_NUMBERED_INLINE = compiled(r"\([1-9]\)[ \t]*(?=[^\W\d_])")
_JUDGED = compiled(
    r"[*_ ]*(?:(?&judged)|[\u2713\u2714\u2705\u2611\u2717\u2718\u274c\u2716\u00d7]\ufe0f?)[*_ .]*",
    re.I,
)
_TOKEN = compiled(rf"[{CJK}]|(?:(?<!\w)-(?=\d))?[^\W_{CJK}]+|[<>\u2264\u2265=+%\u00b1]")
ARTICLES = frozenset({"a", "an", "the"})
_NO_NOUNS = frozenset({"alone", "and", "both", "only", "or"})


def plain(text: str) -> str:
    """Return `text` with full-width, circled and styled characters as plain ones, quotes and dashes unified."""
    return unicodedata.normalize("NFKC", text.translate(_DELETED)).translate(_UNIFIED).translate(_DELETED)


def visible(response: str) -> str:
    """Return the text of a response, in its lines, without reasoning and markup.

    If more than `HEAD` + `TAIL` characters remain, the middle is dropped. An answer in machine-readable form gets a
    line of its own, after `SEAL`.
    """
    text = without_reasoning(response)
    if len(text) > HEAD + TAIL:
        # Cut between lines or sentences: a cut within a sentence could turn "not B" into "B".
        head, tail = text[:HEAD], text[-TAIL:]
        head = head[: max(head.rfind("\n"), head.rfind(". ") + 1, 0)]
        tail = tail[min((at for at in (tail.find("\n"), tail.find(". ")) if at >= 0), default=TAIL) + 1 :]
        text = f"{head}\n\n{tail}"
    text = _SEALED.sub(_on_its_own_line, _LATEX.sub("", plain(text)))
    text = _ROW.sub(_row, text)
    if all(first in text for first in _FIRST_NUMBERS) and len(_NUMBERED.findall(text)) > 1:
        text = _NUMBERED.sub("", text)
    if "(1)" in text and "(2)" in text:
        text = _NUMBERED_INLINE.sub("", text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text.strip()


def without_reasoning(response: str) -> str:
    """Drop marked reasoning, even if its end is missing (cut off) or its start (which was in the prompt)."""
    kept: list[str] = []
    start, inside = 0, False
    for tag in _REASONING.finditer(response):
        if tag[1]:
            if not inside:
                kept.clear()
            start, inside = tag.end(), False
        elif not inside:
            kept.append(response[start : tag.start()])
            inside = True
    if not inside:
        kept.append(response[start:])
    return "\n".join(kept)


def _row(match: re.Match[str]) -> str:
    """Return a row of a table as a line: the first cell, a verdict ("yes", a tick) if any, the other cells."""
    if _RULE.fullmatch(match[0]):
        return ""
    first, *others = [cell.strip() for cell in match[0].strip().strip("|").split("|")]
    others.sort(key=lambda cell: _JUDGED.fullmatch(cell) is None)
    judged = bool(others) and _JUDGED.fullmatch(others[0]) is not None
    return f"{first}: {others[0]}. {'; '.join(others[1:])}" if judged else ": ".join([first, "; ".join(others)])


def _on_its_own_line(match: re.Match[str]) -> str:
    if tag := match["tag"]:
        return "\n" if "/" in tag else f"\n{SEAL}"
    return f"\n{SEAL}{(match['boxed'] or match['json']).strip('[] ')}\n"


def tokens(text: str) -> list[str]:
    """Return the words of `text` in lower case; a number with its minus; CJK characters and < > = + % alone."""
    return [match[0].casefold() for match in _TOKEN.finditer(text)]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place in a text and the names of the phrases there; several names may share a phrase."""

    start: int
    end: int
    names: frozenset[str]


def occurrences(text: str, phrases: Mapping[str, Iterable[str]]) -> list[Occurrence]:
    """Find phrases (by name) in `text` as whole words, ignoring case, punctuation and a leading article.

    A phrase within a longer one is not reported ("hemorrhage" in "no hemorrhage"). Overlapping phrases are one
    occurrence of several names.
    """
    names_of: dict[str, set[str]] = {}
    for name, variants in phrases.items():
        for variant in variants:
            words = tokens(plain(variant))
            if len(words) > 1 and words[0] in ARTICLES and len(words[1]) > 1 and words[1] not in _NO_NOUNS:
                del words[0]
            if words:
                names_of.setdefault(f" {' '.join(words)} ", set()).add(name)

    # Join the words by single spaces, so that `str.find` finds whole words in linear time.
    spans: list[tuple[int, int]] = []
    number_at: dict[int, int] = {}
    line = [" "]
    length = 0
    for match in _TOKEN.finditer(text):
        number_at[length] = len(spans)
        spans.append(match.span())
        line.append(match[0].casefold() + " ")
        length += len(line[-1])
    joined = "".join(line)

    places: list[tuple[int, int, frozenset[str]]] = []
    for phrase, names in names_of.items():
        at = joined.find(phrase)
        while at >= 0:
            first = number_at[at]
            last = first + phrase.count(" ") - 2
            places.append((spans[first][0], spans[last][1], frozenset(names)))
            at = joined.find(phrase, at + len(phrase) - 1)
    places.sort(key=lambda place: (place[0], -place[1]))

    separate: list[Occurrence] = []
    for start, end, place_names in places:
        if not separate or start >= separate[-1].end:
            separate.append(Occurrence(start, end, place_names))
        elif end > separate[-1].end:
            separate[-1] = Occurrence(separate[-1].start, end, separate[-1].names | place_names)
    return separate
