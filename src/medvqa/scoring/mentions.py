"""Find the places where a response names options, by letter or by text, and mark them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from medvqa.scoring.text import SEAL, Occurrence, occurrences, tokens
from medvqa.scoring.words import CJK, compiled, word_set

FIRM, WEAK, TEXT = "\ue000", "\ue001", "\ue002"
"""Marks of mentions: an unambiguous letter, a bare capital, an option's text."""

Phrases = Mapping[str, Sequence[str]]
"""Letter of an option -> its text, then other phrases for it."""

_WORD = rf"[^\W{CJK}]"
_LETTER = compiled(
    rf"""(?:(?:\b(?&option)\ {{1,3}}|(?&option_unspaced))\s{{0,3}}(?P<named>))?
        (?P<open>[(\[{{<【「『]{{1,2}}\s{{0,3}})?
        (?<!{_WORD})(?<!{_WORD}['.\-])(?<!°)(?P<letter>[A-Za-z])(?!{_WORD})(?!['\-]{_WORD})(?!\.{_WORD}(?!{_WORD}))
        (?P<close>\s{{0,3}}[)\]}}>】」』]{{1,2}})?""",
    re.X | re.I,
)
_ONLY_LETTERS = compiled(r"(?:[\W_]{0,5}(?:and |or )?[A-Za-z](?![^\W_])){1,8}[\W_]{0,5}")
_LETTERS_IN_A_WORD = compiled(
    rf"(?:^|\n|{SEAL}|(?i:\b(?:answers?|options?|choices?|correct|select)(?: is| are)?:?)|"
    r"(?:答案|选项|選項)[是为為]?:?|[选選])"
    rf"\s{{0,3}}(?P<letters>[A-Z]{{2,26}})(?=\s{{0,3}}(?:[.,;!)\]]|$|\n|[{CJK}]))"
)
_FOLLOWS = compiled(rf"\s*(?:$|\n|[^\w\s'<{CJK}]|[{CJK}]|(?<=\s)(?&function_word)\b)", re.I)
_HEADS_LINE = compiled(
    r"\s{0,3}(?:[.,:;!)\-번]|$|\n)|\s+(?:(?&because)|rather|not|weil|da|car|parce|porque|perch[eé])\b",
    re.I,
)
_ENDS_CLAUSE = compiled(r"\s{0,3}(?:[.,;!)\]]|$|\n)")
_NOUN_GOES_ON = compiled(r" (?!(?&because)\b)[a-z]{2}")
_NEXT_WORD = compiled(r"[ \t]+(?P<word>[^\W_]+)")
_SPECIES = compiled(r"\.[ ](?!(?&function_word)\b)(?P<word>[a-z][\w-]*)")
_LABEL_AND_WORD = compiled(rf"[\s*{SEAL}]*[A-Za-z]\.[ ][a-z][\w-]*[.!\s*{SEAL}]*")
_COPULA = compiled(r"(?:[:=]|(?P<verb>\b(?:is|be|answer|choose|pick|select)))\s*$", re.I)
NEGATIVE = compiled(r"\s*\b(?&denies)(?:\b|(?=[^\x00-\x7f]))", re.I)
NOR = compiled(r"\b(?&nor)\b", re.I)
_FIGURE = compiled(r"\b(?&figure)\s*$", re.I)
_BEFORE_TEXT = compiled(r"[ \t]*[.):,\-]{0,2}\s{0,3}[(\[]?(?:(?:the|an?)\s)?", re.I)
_LISTED = compiled(
    r"\s*(?:[,;/|&+、:-]\s*)?"
    r"(?:\b(?:and also|also|and|or|both|as well as|und|oder|et|ou|y|o|u|e|и|или)\b\s*|[和与與及或と]\s*)?"
    r"(?:(?:la|el|le|les|die|der|the|options?|opción)\s)?",
    re.I,
)
_WORDS = compiled(r"[^\W\d_]")
_SINGULAR = compiled(r"\s+(?&singular)\b", re.I)
_OR = compiled(r"\b(?:or|oder|ou|o|u|или)\b|或|[-:]", re.I)

_AFTER_FULL_STOP = compiled(r"\.\s+(?:and|or|und|oder|et|ou|y|o|e|и|или)\s+(?:maybe |perhaps |possibly )?", re.I)
"""Joins letters that are written with a full stop each: "A. or B."."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One or several options named at one place (`start` to `end`) of the visible text.

    `label`: in the form of a label, such as "(B)", "B. its text" or "B" at the head of a line. `pure`: by letters only.
    `clash`: a letter with another option's text. `either`: alternatives. `lines`: it fills its lines.
    """

    start: int
    end: int
    names: frozenset[str]
    mark: str
    label: bool = False
    pure: bool = False
    clash: bool = False
    either: bool = False
    lines: bool = False


def find_mentions(text: str, phrases: Phrases, *, letters: bool) -> list[Mention]:
    """Return the places of `text` that name options, in order; a list of options is one place.

    `letters`: options are named by their letters, too. Texts equal to the letter of an
    option are then ignored: "B" means option B, even if it is the text of option A.
    """
    single = {name: "".join(tokens(texts[0])).upper() for name, texts in phrases.items()} if letters else {}
    single = {name: letter for name, letter in single.items() if letter in phrases}
    texts = occurrences(text, {name: texts for name, texts in phrases.items() if name not in single})
    mentions = [Mention(place.start, place.end, place.names, TEXT) for place in texts]
    if letters:
        if len(text) < 40 and _ONLY_LETTERS.fullmatch(text):
            text = text.upper()
        mentions += _single_letters(text, phrases, texts)
        mentions += _letters_in_a_word(text, phrases, texts)
    return _lists(text, _with_texts(text, sorted(mentions, key=lambda mention: mention.start), single))


def mark_up(text: str, mentions: Sequence[Mention]) -> tuple[str, dict[int, Mention]]:
    """Return `text` with the mark of each mention in its place, and the mentions by their position there."""
    pieces: list[str] = []
    places: dict[int, Mention] = {}
    length = read = 0
    for mention in mentions:
        pieces += text[read : mention.start], mention.mark
        length += mention.start - read
        places[length] = mention
        length += 1
        read = mention.end
    return "".join((*pieces, text[read:])), places


def _single_letters(text: str, phrases: Phrases, texts: Sequence[Occurrence]) -> list[Mention]:
    ahead = iter([*texts, Occurrence(len(text), len(text) + 1, frozenset())])
    place = next(ahead)
    mentions = []
    for match in _LETTER.finditer(text):
        at = match.start("letter")
        while place.end <= at:
            place = next(ahead)
        if at < place.start and (mention := _letter(text, phrases, match, place)) is not None:
            mentions.append(mention)
    return mentions


def _letter(text: str, phrases: Phrases, match: re.Match[str], following: Occurrence) -> Mention | None:
    """Return the mention if the context shows an option's letter, and not an article, a pronoun or part of a name."""
    letter = match["letter"].upper()
    if letter == "I" and letter not in phrases:
        return None
    start, end = match.span()
    before, after = text[max(0, start - 16) : start], text[end : end + 40]
    bracketed = bool(match["open"] and match["close"])
    if bracketed and (_FIGURE.search(before) or (match["letter"] == "s" and before[-1:].isalpha())):
        return None  # "figure (B)", "the answer(s)"
    heads_line = _opens_line(before)
    if match["open"] and not bracketed:
        start, heads_line = match.start("letter"), heads_line and "{" not in match["open"]
    firm = bracketed or match["named"] is not None
    label = bracketed or (heads_line and bool(match["close"] or _HEADS_LINE.match(after)))

    if match["letter"].islower():
        copula = _COPULA.search(before)
        if letter == "A" and copula and copula["verb"] and not after.strip(" "):
            return None  # cut off before its noun: "The answer is a"
        predicate = copula and (match["close"] or _ENDS_CLAUSE.match(after))
        if not (firm or predicate or (label and not after.startswith(","))):
            return None
    if not firm and not _may_be_label(text, phrases, letter, end, following, closed=bool(match["close"])):
        return None
    return Mention(start, end, frozenset(letter), FIRM if firm or label else WEAK, label=label, pure=True)


def _may_be_label(text: str, phrases: Phrases, letter: str, end: int, following: Occurrence, *, closed: bool) -> bool:
    """Return whether the words after a bare letter fit: its own text, the end of a clause, a function word."""
    after = text[end : end + 40]
    word = None if closed else _NEXT_WORD.match(after)
    if following.start - end <= 6 and _BEFORE_TEXT.fullmatch(text, end, following.start):
        article = word is not None and letter == "A" and after.strip()[0].islower()
        return letter in following.names or not article
    own = tokens(next(iter(phrases.get(letter, ())), ""))[:1]
    if word and not _FOLLOWS.match(after):
        return word["word"] in phrases or tokens(word["word"])[:1] == own
    species = None if closed else _SPECIES.match(after)  # "E. coli"
    if species is None or (words := tokens(species["word"])[:1]) == own:
        return True
    return _LABEL_AND_WORD.fullmatch(text) is not None and _may_be_text(words[0] if words else "", letter, phrases)


def _may_be_text(word: str, letter: str, phrases: Phrases) -> bool:
    """Return whether "B. word", as a whole response, may be option B in other words.

    Not if the word is of another option's text alone, or makes a Latin name with the letter: "E. coli", "A. carotis".
    """
    having = {name for name, texts in phrases.items() for text in texts if word in tokens(text)}
    return letter in having or not (having or word in word_set("latin"))


def _letters_in_a_word(text: str, phrases: Phrases, texts: Sequence[Occurrence]) -> list[Mention]:
    """Find "AC" for A and C, in option order, in the place of an answer only."""
    text_starts = {place.start for place in texts}
    order = list(phrases)
    mentions = []
    for match in _LETTERS_IN_A_WORD.finditer(text):
        letters = match["letters"]
        if match.start("letters") not in text_starts and list(letters) == [name for name in order if name in letters]:
            mentions.append(Mention(*match.span("letters"), frozenset(letters), FIRM, label=True, pure=True))
    return mentions


def _with_texts(text: str, mentions: Sequence[Mention], single: Mapping[str, str]) -> list[Mention]:
    """Join letters with the texts beside them: "B. pneumonia", "B (pneumonia)", "pneumonia (B)"."""
    joined: list[Mention] = []
    for mention in mentions:
        both = _joined(text, joined[-1], mention, single) if joined else None
        if both is None:
            joined.append(mention)
        else:
            joined[-1] = both
    return joined


def _joined(text: str, first: Mention, second: Mention, single: Mapping[str, str]) -> Mention | None:
    """Return a letter and a text as one mention if they belong together; `single`: texts that are letters."""
    gap = text[first.end : second.start]
    named = first.names & second.names
    article = gap == " " and text[first.start : first.end] == "A"
    if article and second.mark == TEXT and _NOUN_GOES_ON.match(text, second.end):
        return second  # "A CT scan shows ..." begins with an article, even if A is CT
    if first.pure and second.pure and gap.strip() in {".", ")", ":"}:
        named = frozenset(name for name in first.names if {single.get(name)} == second.names)
        if not named:
            return None
    elif first.pure and second.mark == TEXT and _BEFORE_TEXT.fullmatch(gap):
        # After a statement of B, "B. Pneumonia is unlikely" is a new sentence and no contradiction.
        close = "\n" not in gap and not gap.strip(" ([").startswith((",", "-"))
        if not named and not (close and (first.label or _ENDS_CLAUSE.match(text, second.end))):
            return None
    elif not (first.mark == TEXT and second.pure and second.label and not gap.strip(" ")):
        return None
    end = second.end
    if gap.rstrip().endswith(("(", "[")) and text[end : end + 1] in {")", "]"}:
        end += 1
    return Mention(first.start, end, named or first.names | second.names, FIRM, label=True, clash=not named)


def _lists(text: str, mentions: Sequence[Mention]) -> list[Mention]:
    """Join the mentions of a list: "A, C and D", or one below the other on lines of their own."""
    lists: list[Mention] = []
    for mention in mentions:
        mention = replace(mention, lines=_fills_line(text, mention))
        if lists and _continues(text, lists[-1], mention):
            first = lists.pop()
            mention = Mention(
                first.start,
                mention.end,
                first.names | mention.names,
                min(first.mark, mention.mark),
                label=first.label or mention.label,
                pure=first.pure and mention.pure,
                clash=first.clash or mention.clash,
                either=first.either or _OR.search(text, first.end, mention.start) is not None,
                lines=first.lines and mention.lines,
            )
        lists.append(mention)
    return lists


def _continues(text: str, first: Mention, second: Mention) -> bool:
    gap = text[first.end : second.start]
    with_text = first.mark == FIRM and not first.pure
    if (first.mark == TEXT) != (second.mark == TEXT) and not (with_text and _ENDS_CLAUSE.match(text, second.end)):
        return False
    if "\n" in gap:
        apart = not (first.names & second.names or gap.strip(" .:,;!\n"))
        return (first.lines or with_text) and second.lines and apart
    if not gap.strip():
        return TEXT not in (first.mark, second.mark)
    if second.mark == TEXT and ";" in gap and NEGATIVE.search(text, max(0, first.start - 16), first.start):
        return False
    if first.mark == TEXT and NOR.search(gap) and NEGATIVE.match(text, first.start, first.end):
        return False  # "no fracture or dislocation" names one option and denies the other
    if not _WORDS.search(gap) and _SINGULAR.match(text, second.end):
        return False  # "A, B is wrong"
    if first.pure and second.pure and _AFTER_FULL_STOP.fullmatch(gap):
        return True
    return len(gap) < 20 and _LISTED.fullmatch(gap) is not None


def _opens_line(before: str) -> bool:
    return (before.rstrip(f" \t{SEAL}") or "\n").endswith("\n")


def _fills_line(text: str, mention: Mention) -> bool:
    after = text[mention.end : mention.end + 8]
    return (
        _opens_line(text[max(0, mention.start - 8) : mention.start])
        and re.match(r"[ .:,;!]*(?:\n|$)", after) is not None
    )
