"""Read the chosen options from free text.

`read_options` takes these steps, the first three in `text`, `mentions` and `frames`.

1. Clean the response (`text.visible`). Marked reasoning, Markdown, LaTeX and HTML are dropped; full-width, circled and
   styled letters become plain. Only the two ends of a long response are read.
2. Find mentions of options (`mentions`), by letter or by text. Texts match whole words; the longest match counts.
   Letters count only in a fitting context: not in "A patient", "vitamin B deficiency", "B-cell" or "E. coli".
   "B. effusion", as a whole response, is B unless the word is of another option or makes a Latin name.
   "A, C and D" is one mention. So is "B. pneumonia"; it is a contradiction if pneumonia is another option.
3. Weigh the mentions (`frames`): the surrounding phrases give a weight, or deny the option. Mentions in questions and
   conditions have none. A text needs a sentence that asserts it of the image. A place ("below the spleen"), the past, a
   suspicion, a comparison or a general rule ("typically shows") asserts nothing.

   ======== ============================================================================================
   weight   mentions
   ======== ============================================================================================
   FINAL    <answer>B</answer>, \\boxed{B}, {"answer": "B"}, "final answer: B"
   STATED   "the answer is B", "B is correct", "I'd go with B", "so B"; a letter as the first or last words
   LABEL    "(B)", "B. its text", "B" at the head of a line; a text as the first or last words
   CLAIM    a text as a finding: "consistent with pneumonia"; a hedge: "it could be B"
   TEXT     a text asserted less directly: "with pneumonia of the left lung"
   NAMED    a letter in passing, a common word ("no"), all options listed: no evidence
   ======== ============================================================================================

4. Choose. Mentions before "wait, no" or "I was wrong" are dropped, as are questions that a base model goes on to ask
   itself. The heaviest remaining mentions that are not denied decide. They must agree; a later statement replaces an
   earlier one only after a word such as "but", "therefore" or "final". An option denied after its choice is not chosen.
   Labels in a walk through the options are no evidence. A walk is announced ("let's analyze each option") or begins
   with the first option. It follows their order, and ends with a statement or a return to an earlier option.
   If the response was cut off, only explicit statements keep their weight: "the answer is B", not "B" or "so B" as
   the last words. A list keeps it only if text follows.
5. If no option is chosen, the first refusing or abstaining phrase gives `refused` or `abstained`; without one the
   answer is `unparsed`. Such phrases also outweigh mentions below LABEL, except a finding that comes later ("I am no
   doctor, but it looks like a nevus").
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal

from medvqa.scoring.frames import (
    ABSTENTION,
    ALTERNATIVE,
    ANNOUNCEMENT,
    CONDITION,
    CUE,
    DENIES,
    DISCUSSION,
    EXPLANATION,
    FRAMES,
    HEADING,
    HYPOTHESIS,
    LIST_NUMBER,
    NO_FINDING,
    PREDICATE,
    RANKING,
    REFUSAL,
    REJECTIONS,
    RETRACTION,
    RUN_ON,
    UNDECIDED,
    WOULD,
    WOULD_IF,
    Weight,
    asserted,
    elsewhere,
    is_place,
    negated,
    of_somebody_else,
    state_weight,
)
from medvqa.scoring.mentions import FIRM, NEGATIVE, NOR, TEXT, WEAK, Mention, Phrases, find_mentions, mark_up
from medvqa.scoring.text import SEAL, occurrences, tokens, visible
from medvqa.scoring.words import CJK, compiled, word_set

_SENTENCE_END = compiled(r"[.!?;。\n]")
_FULL_STOP = compiled(r"[.!?。\n]")
_CLAUSE_END = compiled(r"\s*(?:[.,;!()\]}\n。번]|$|\s(?&because)\b)", re.I)
_ALSO = compiled(r"\balso\b", re.I)
_MARKS = compiled(f"[{FIRM}{WEAK}{TEXT}{SEAL}]")
_ABBREVIATION = compiled(r"\b(?:vit|figs?|vs|e\.g|i\.e|dr|no|ca|cf|approx|st|resp|gr|v\.a|z\.n|z\.b|d\.h)\.$", re.I)
_ALONG = compiled(
    r"[\s,]*(?:(?:and|or|nor|plus|&|as well as|with|und|oder|et|ou|y|e|o|и)\s)?(?:(?:an?|the|any)\s)?"
    r"(?:(?!is|are|in|of)[\w-]+\s){0,2}\s*",
    re.I,
)
_CLOSED_FORM = compiled(r"(?:</\w{1,20}>|\[/\w{1,20}\]|[}\])])[\s`$]{0,20}\Z")
_BECAUSE = compiled(r"\s?[,;]?\s(?&because)\b", re.I)
_CONTEXT = 120
_COMMENTED = compiled(rf"\s?\([^()\n]{{1,30}}\)\s?[,;]\s?[{FIRM}{WEAK}]\s?\(")
_NAMED_AS = compiled(rf"(?P<letter>[{FIRM}{WEAK}])\s(?:is|=)\s(?:an?\s)?(?P<text>{TEXT})\s?[?.,;]")
_Heading = Literal["denies", "elsewhere", ""]


@dataclass(frozen=True, slots=True)
class Reading:
    """The options read: `letters` in option order, () unless `status` is "read"; `why` is one line for people."""

    letters: tuple[str, ...]
    status: Literal["read", "refused", "abstained", "unparsed"]
    why: str


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A mention with its place in the marked-up text, its weight, and the rule that gave the weight.

    `explicit`: it keeps its weight if the response was cut off later.
    """

    at: int
    mention: Mention
    weight: Weight
    rule: str
    denied: bool
    explicit: bool = False

    @property
    def names(self) -> frozenset[str]:
        return self.mention.names


def read_options(
    response: str, options: Mapping[str, str], *, multiple: bool = False, finished: bool = True
) -> Reading:
    """Return the letters of `options` that `response` chooses: one, or any number if `multiple`.

    `finished` False: the response was cut off at a token limit. Then only an explicit statement counts
    ("the answer is C"), and a list of several options only if text follows it.

    Never raises and never guesses: two answers to a single choice, a letter with another option's text, or an
    answer in passing are `unparsed`. `options` maps capital letters to texts, which may be empty, repeat or
    contain one another. Takes time linear in the response. Of more than 32,000 characters (without marked
    reasoning), only the first 8,000 and the last 24,000 are read.
    """
    if response in options and finished:
        # A shortcut for the most frequent response, a single letter: same result, twenty times faster.
        return Reading((response,), "read", f'first words: "{response}"')
    phrases = {letter: (text,) for letter, text in options.items()}
    common_words = word_set("common")
    common = {
        letter
        for letter, text in options.items()
        if all(word in common_words or word.isdigit() or (len(word) == 1 and word.isascii()) for word in tokens(text))
    }
    return _read(response, phrases, common, letters=True, multiple=multiple, finished=finished)


def read_term(response: str, vocabulary: Phrases, *, finished: bool = True, common: bool = False) -> Reading:
    """Return the one term of `vocabulary` (term -> synonyms) that `response` gives as its answer.

    Follows the rules of `read_options` without letters; `Reading.letters` holds the term. `common`: no term is evidence
    in passing; by default, this holds for English yes and no.
    """
    phrases = {term: (term, *synonyms) for term, synonyms in vocabulary.items()}
    words = {word for text in word_set("yes") | word_set("no") for word in tokens(text)}
    judgments = {term for term, texts in phrases.items() if all(words.issuperset(tokens(text)) for text in texts)}
    return _read(
        response, phrases, phrases.keys() if common else judgments, letters=False, multiple=False, finished=finished
    )


def _read(
    response: str, phrases: Phrases, common: AbstractSet[str], *, letters: bool, multiple: bool, finished: bool
) -> Reading:
    """Read names of `phrases`; phrases of names in `common` are no evidence in passing ("there is no mass")."""
    text = visible(response)
    cut = "" if finished else "the answer was cut off: "
    if not text:
        return Reading((), "unparsed", cut + ("nothing but reasoning" if response.strip() else "the response is empty"))
    mentions = find_mentions(text, phrases, letters=letters)
    marked, places = mark_up(text, mentions)
    evidence = _weighed(marked, places, phrases, common, multiple)
    retracted, evidence = _without_retracted(marked, evidence)
    evidence = _without_walk(marked, evidence, list(phrases), multiple)
    if not finished and not (evidence and RUN_ON.search(marked, evidence[0].at)):
        closed_form = _CLOSED_FORM.search(response) is not None
        evidence = [_if_cut(item, marked, phrases, common, multiple, closed_form) for item in evidence]
    candidates = [item for item in evidence if item.weight > Weight.NAMED and not item.denied]
    weight = max((item.weight for item in candidates), default=Weight.NAMED)
    heaviest = [item for item in candidates if item.weight == weight]
    chosen = _union(marked, heaviest, phrases.keys()) if multiple else _agreed(marked, heaviest)
    problem = _problem(marked, evidence, heaviest, chosen, phrases, multiple)
    if problem is None and multiple and weight <= Weight.CLAIM and (others := _plurals(text, phrases, chosen)):
        problem = f"the plural of an option beside others: {others}"
    if problem is None:
        last = next(item for item in reversed(heaviest) if item.names & chosen)
        excerpt = text[max(0, last.mention.start - 30) : last.mention.end + 10]
        return Reading(tuple(n for n in phrases if n in chosen), "read", f'{last.rule}: "{_line(excerpt)}"')
    if weight < Weight.STATED and (disclaimer := _disclaimer(marked)):
        return disclaimer
    if not candidates and retracted:
        problem = "an answer is taken back, and no other follows"
    return Reading((), "unparsed", cut + problem)


def _plurals(text: str, phrases: Phrases, chosen: AbstractSet[str]) -> str:
    """Name the options that a list of findings may mean by their plurals: "a plaque with papules"."""
    plurals = {name: [f"{text}s" for text in texts] for name, texts in phrases.items() if name not in chosen}
    return ", ".join(sorted({name for place in occurrences(text, plurals) for name in place.names}))


def _weighed(
    marked: str, places: Mapping[int, Mention], phrases: Phrases, common: AbstractSet[str], multiple: bool
) -> list[_Evidence]:
    """Return every mention with the weight of the heaviest rule that applies to it."""
    if not places:
        return []
    announcements = [match.end() for match in ANNOUNCEMENT.finditer(marked)]
    framed: dict[int, tuple[Weight, str, bool]] = {}
    for frame in FRAMES:
        for match in frame.pattern.finditer(marked):
            at = match.start(match.lastgroup or 0)
            if bisect_left(announcements, match.start()) != bisect_right(announcements, at):
                continue  # "To find the answer, let's analyze each option: A ..."
            weight = frame.text_weight if marked[at] == TEXT else frame.weight
            if frame.name == "number" and not all(
                _is_number(phrases[name]) for name in places[at].names & phrases.keys()
            ):
                continue
            if at not in framed or weight > framed[at][0]:
                framed[at] = weight, frame.name, frame.explicit
    rejected = {match.start(match.lastgroup or 0) for pattern in REJECTIONS for match in pattern.finditer(marked)}
    headings = _headings(marked)
    evidence: list[_Evidence] = []
    for at, mention in places.items():
        form = _by_form(marked, at, mention, phrases, common, multiple)
        weight, rule, explicit = max(framed.get(at, (*form, False)), (*form, False), key=lambda candidate: candidate[0])
        before = marked[max(0, at - _CONTEXT) : at]
        sentence = _SENTENCE_END.split(before)[-1]
        denied = at in rejected or negated(before, text=mention.mark == TEXT)
        if mention.mark == TEXT and evidence and _denied_along(marked, evidence[-1], at, phrases):
            denied = True
        end = _SENTENCE_END.search(marked, at + 1, at + 2 * _CONTEXT)
        in_question = end is not None and end[0] == "?" and weight < Weight.FINAL
        discussed = DISCUSSION.match(marked, at + 1) or (mention.pure and PREDICATE.match(marked, at + 1))
        conditional = HYPOTHESIS.search(sentence) or CONDITION.match(marked, at + 1) or WOULD_IF.match(marked, at + 1)
        stated = Weight.NAMED < weight < Weight.FINAL and rule not in ("first words", "label")
        foreign = stated and of_somebody_else(before, marked[at + 1 : at + 1 + _CONTEXT])
        if in_question or conditional or foreign or (discussed and weight <= Weight.LABEL):
            weight = Weight.NAMED
        item = _Evidence(at, mention, weight, rule, denied, explicit)
        if mention.mark == TEXT and Weight.NAMED < weight <= Weight.LABEL and rule not in ("hedge", "number"):
            item = _of_the_image(item, evidence[-1] if evidence else None, marked, phrases, multiple)
        heading = _heading_of(headings, at)
        if item.weight <= Weight.LABEL and _opens_line(before):
            if heading == "denies":
                item = replace(item, denied=True)
            elif heading == "elsewhere":
                item = replace(item, weight=Weight.NAMED)
        evidence.append(item)
    return _with_opening(marked, _with_list(marked, evidence) if multiple else evidence, multiple)


def _is_number(texts: Sequence[str]) -> bool:
    return all(text.strip().isdigit() for text in texts)


def _of_the_image(item: _Evidence, last: _Evidence | None, marked: str, phrases: Phrases, multiple: bool) -> _Evidence:
    """Drop the weight of an option's text unless its sentence asserts it of the image.

    `last` is the previous mention, perhaps of the same list. In a multiple choice, all asserted texts weigh the same.
    """
    before, after = marked[max(0, item.at - _CONTEXT) : item.at], marked[item.at + 1 : item.at + 1 + _CONTEXT]
    texts = [phrases[name][0] for name in item.names if name in phrases]
    in_passing = replace(item, weight=Weight.NAMED, rule="text in passing")
    if item.weight > (most := state_weight(texts, before, after)):
        item = replace(item, weight=most, rule="text")
    if elsewhere(before, after) or (ALTERNATIVE.match(after) and not all(map(NEGATIVE.match, texts))):
        return in_passing
    if item.weight == Weight.TEXT:
        along = (
            last is not None
            and last.mention.mark == TEXT
            and last.weight > Weight.NAMED
            and _ALONG.fullmatch(marked, last.at + 1, item.at)
        )
        if not (along or asserted(before, after) or any(map(is_place, texts))):
            return in_passing
    return replace(item, weight=Weight.CLAIM) if multiple else item


def _denied_along(marked: str, last: _Evidence, at: int, phrases: Phrases) -> bool:
    """Return whether the previous denial covers this option: "no fracture or dislocation" for option "no fracture"."""
    gap = marked[last.at + 1 : at] if at - last.at < 40 else "."
    if last.mention.mark != TEXT or not _ALONG.fullmatch(gap) or not NOR.search(gap):
        return False
    return all(NEGATIVE.match(phrases[name][0]) for name in last.names)


def _opens_line(before: str) -> bool:
    return before.rstrip(" \t([{")[-1:] in ("", "\n")


def _headings(marked: str) -> list[tuple[int, int, _Heading]]:
    """Return start, end and meaning of every list under a heading such as "Not visible:"."""
    headings: list[tuple[int, int, _Heading]] = []
    for match in HEADING.finditer(marked):
        heading = re.split(r"[.!?;]", match["heading"])[-1]
        blank = marked.find("\n\n", match.end() + 2)
        meaning: _Heading = ""
        if not _MARKS.search(heading):
            meaning = "denies" if DENIES.search(heading) else "elsewhere" if NO_FINDING.search(heading) else ""
        headings.append((match.end(), blank if blank >= 0 else len(marked), meaning))
    return headings


def _heading_of(headings: Sequence[tuple[int, int, _Heading]], at: int) -> _Heading:
    number = bisect_right(headings, at, key=lambda heading: heading[0]) - 1
    return headings[number][2] if number >= 0 and at < headings[number][1] else ""


def _with_list(marked: str, evidence: list[_Evidence]) -> list[_Evidence]:
    """Extend a statement that opens a list of lines to all labels of the list: "I'd select: - A. ... - B. ..."."""
    extended: list[_Evidence] = []
    for item in evidence:
        last = extended[-1] if extended else None
        if (
            last is not None
            and item.weight == Weight.LABEL
            and item.mention.mark != TEXT
            and last.weight == Weight.STATED
            and not last.denied
            and _open_lines(marked, last, item)
            and marked.count("\n", last.at, item.at) == 1
        ):
            extended[-1] = replace(last, rule="verdict")
            item = replace(item, weight=Weight.STATED, rule="verdict", explicit=last.explicit)
        extended.append(item)
    return extended


def _open_lines(marked: str, *evidence: _Evidence) -> bool:
    return all(_opens_line(marked[max(0, item.at - 9) : item.at]) for item in evidence)


def _without_walk(marked: str, evidence: Sequence[_Evidence], order: Sequence[str], multiple: bool) -> list[_Evidence]:
    """Drop the weight of options that the response discusses one after the other before it answers.

    A walk is announced ("let's analyze each option"), or begins with the first option at the head of a line and
    continues with the next. Labels in option order belong to it, as do findings between them. A statement, or a return
    to an earlier option, is an answer.
    """
    announcement = ANNOUNCEMENT.search(marked)
    start = announcement.end() if announcement else None
    heads = [item for item in evidence if _open_lines(marked, item) and len(item.names) == 1]
    if start is None and not multiple:
        begins = next((item for item in heads if item.names == {order[0]}), None) if order else None
        later = [item for item in heads if begins and item.at > begins.at]
        if begins and later and later[0].names == set(order[1:2]) and begins.weight <= Weight.LABEL:
            start = begins.at
    if start is None:
        return list(evidence)
    kept: list[_Evidence] = []
    reached = -1
    for item in evidence:
        place = order.index(next(iter(item.names))) if len(item.names) == 1 and item.names <= set(order) else None
        light = item.weight <= Weight.LABEL or (item.rule in ("last words", "first words") and not item.explicit)
        if item.at >= start and light:
            if item.weight < Weight.LABEL and not _opens_sentence(marked, item.at):
                item = replace(item, weight=Weight.NAMED) if reached >= 0 else item
            elif place is not None and (place == 0 if reached < 0 else place >= reached):
                ends = place == reached == len(order) - 1 and item.mention.pure and item.rule == "last words"
                item = item if ends else replace(item, weight=Weight.NAMED, rule="one of the options that it discusses")
                reached = max(reached, place)
            elif reached >= 0 and item.weight < Weight.LABEL:
                item = replace(item, weight=Weight.NAMED)
        kept.append(item)
    return kept


def _opens_sentence(marked: str, at: int) -> bool:
    return marked[max(0, at - 9) : at].rstrip(" ([{")[-1:] in ("", ".", "!", "?", "\n", "。", ":")


def _if_cut(
    item: _Evidence, marked: str, phrases: Phrases, common: AbstractSet[str], multiple: bool, closed_form: bool
) -> _Evidence:
    """Return a mention of a cut response: only explicit statements keep their weight."""
    rest = marked[item.at + 1 :][: 2 * _CONTEXT]
    complete = EXPLANATION.match(rest) is not None
    opens = not marked[: item.at].strip(" ([{")
    if item.rule == "first words" or (opens and item.weight == Weight.LABEL):
        judgment = item.mention.mark == TEXT and item.names <= common and rest.lstrip()[:1] in (",", ".")
        alone = item.mention.pure and (rest.lstrip(" )]}.*")[:1] == "\n" or _BECAUSE.match(rest))
        explicit = complete or ((judgment or alone) and len(rest.strip()) > 1)
        item = replace(item, weight=max(item.weight, Weight.STATED) if explicit else Weight.NAMED)
    else:
        explicit = complete or item.explicit
    if item.weight < Weight.STATED or not explicit or (rest.strip() and UNDECIDED.match(rest)):
        return replace(item, weight=Weight.NAMED)
    if WOULD.match(rest):  # a condition may follow: "A would be my guess if ..."
        return replace(item, weight=Weight.NAMED)
    if complete or (item.weight == Weight.FINAL and (closed_form or "\n" in rest)):
        return item
    closed = rest.strip(" \t*)]}")
    if multiple:
        following = closed.strip(" .,;:()\n*-").casefold()
        begins_option = any(
            f"{name}. {text}".casefold().startswith(following) or text.casefold().startswith(following)
            for name, texts in phrases.items()
            for text in texts
        )
        in_list = _open_lines(marked, item) and "\n\n" not in rest
        ended = re.match(r"\s*[)\]]?[.;。\n]", rest) or re.search(rf"\w\W|[{CJK}]", following)
        kept = following and ended and not begins_option and not in_list
        return item if kept else replace(item, weight=Weight.NAMED)
    if item.mention.mark == TEXT and item.names.isdisjoint(common):
        return item if re.search(r"[.!?。\n]", rest) else replace(item, weight=Weight.NAMED)
    if closed:
        return item
    others = [text for name, texts in phrases.items() if name not in item.names for text in texts]
    begins = any(text.casefold().startswith(name.casefold()) for name in item.names for text in others)
    article = item.names == {"A"} and marked[: item.at].rstrip(" ([{")[-1:] in (":", "\n", "")
    stated = item.weight == Weight.FINAL or item.rule in ("answer", "heading")
    return item if stated and not begins and not article else replace(item, weight=Weight.NAMED)


def _by_form(
    marked: str, at: int, mention: Mention, phrases: Phrases, common: AbstractSet[str], multiple: bool
) -> tuple[Weight, str]:
    """Return weight and rule of a mention by its own form and place."""
    if len(phrases) > 1 and mention.names >= phrases.keys() and not (mention.pure and multiple):
        return Weight.NAMED, "list of all options"
    if not (mention.clash or mention.names <= phrases.keys()):
        return Weight.NAMED, "no option"
    before = marked[max(0, at - 9) : at].rstrip(" ([{")
    opens_sentence = before[-1:] in ("", ".", "!", "?", ";", "\n", "。") and not _ABBREVIATION.search(before)
    is_last = len(marked) - at < 20 and not marked[at + 1 :].strip(" .!\n)")
    if at > 0 and is_last and opens_sentence:
        return (Weight.LABEL if mention.mark == TEXT else Weight.STATED), "last words"
    opens_line = before[-1:] in ("", "\n")
    numeral = all(_is_number(phrases[name]) for name in mention.names & phrases.keys())
    if numeral and opens_line and mention.mark == TEXT and LIST_NUMBER.match(marked, at + 1):
        return Weight.NAMED, "number of a list"
    if mention.label or (opens_line and (mention.pure or mention.mark == TEXT) and _CLAUSE_END.match(marked, at + 1)):
        return Weight.LABEL, "label" if mention.mark != TEXT else "text on its own"
    if mention.mark != TEXT:
        return Weight.NAMED, "letter in passing"
    if not mention.names <= common:
        return Weight.TEXT, "text"
    begins = opens_sentence and (_CLAUSE_END.match(marked, at + 1) or marked.startswith(" - ", at + 1))
    return (Weight.LABEL, "text on its own") if begins else (Weight.NAMED, "common word")


def _with_opening(marked: str, evidence: list[_Evidence], multiple: bool) -> list[_Evidence]:
    """Treat letters as the first words as a statement, unless they open a list of options."""
    if not evidence:
        return []
    first, *others = evidence
    if (
        first.weight != Weight.LABEL
        or first.mention.mark == TEXT
        or marked[: first.at].strip(" ([{")
        or not _CLAUSE_END.match(marked, first.at + 1)
    ):
        return evidence
    if _COMMENTED.match(marked, first.at + 1):  # "A (possible), B (definite)"
        return [replace(first, weight=Weight.NAMED, rule="one of several with a comment each"), *others]
    labels = [item for item in others if item.weight == Weight.LABEL and item.mention.mark != TEXT and not item.denied]
    if not first.mention.pure and (multiple or any(item.names != first.names for item in labels)):
        return evidence
    return [replace(first, weight=Weight.STATED, rule="first words"), *others]


def _without_retracted(marked: str, evidence: list[_Evidence]) -> tuple[bool, list[_Evidence]]:
    """Drop mentions before a retraction and after the start of the model's own dialogue; say whether one retracts."""
    answers_at = [item.at for item in evidence if item.weight >= Weight.LABEL]
    if not answers_at:
        return False, evidence
    run_on = next((match.start() for match in RUN_ON.finditer(marked, answers_at[0])), len(marked))
    retraction = max((match.start() for match in RETRACTION.finditer(marked, answers_at[0], run_on)), default=0)
    return retraction > 0, [item for item in evidence if retraction <= item.at < run_on]


def _agreed(marked: str, evidence: Sequence[_Evidence]) -> frozenset[str]:
    """Return the one answer: the last if it replaces the others, none if they disagree."""
    if not evidence:
        return frozenset()
    last = evidence[-1]
    other = max((number for number, item in enumerate(evidence) if item.names != last.names), default=None)
    if other is None:
        return last.names
    start, end = evidence[other].at + 1, evidence[other + 1].at
    replaced = CUE.search(marked, start, end) and not _ALSO.search(marked, start, end + 20)
    return last.names if last.weight >= Weight.STATED and replaced else frozenset()


def _union(marked: str, evidence: Sequence[_Evidence], names: AbstractSet[str]) -> frozenset[str]:
    """Return all chosen options: a label or verdict names one of them, any other statement the whole answer."""
    single = [
        item
        for item in evidence
        if item.rule == "verdict"
        or item.weight == Weight.LABEL
        or (item.rule == "presence" and item.mention.mark != TEXT)
    ]
    union = frozenset[str]().union(*(item.names for item in single))
    statements = [item for item in evidence if item not in single]
    if statements:
        whole = _agreed(marked, _by_sentence(marked, statements))
        return whole if union <= whole else frozenset()
    all_listed = len(evidence) > 1 and union >= names and evidence[0].weight == Weight.LABEL
    return frozenset() if all_listed else union


def _by_sentence(marked: str, statements: Sequence[_Evidence]) -> list[_Evidence]:
    """Join the findings of one sentence: "a plaque with silvery scale"."""
    joined: list[_Evidence] = []
    for item in statements:
        last = joined[-1] if joined else None
        lines = last is not None and marked.count("\n", last.at, item.at) == 1 and _open_lines(marked, last, item)
        alone = last is not None and {last.rule, item.rule} <= {"text on its own", "last words"}
        if last and item.weight <= Weight.CLAIM and (lines or alone or not _FULL_STOP.search(marked, last.at, item.at)):
            mention = replace(item.mention, names=last.names | item.names)
            item = replace(item, mention=mention)
            joined.pop()
        joined.append(item)
    return joined


def _problem(
    marked: str,
    evidence: Sequence[_Evidence],
    heaviest: Sequence[_Evidence],
    chosen: frozenset[str],
    phrases: Phrases,
    multiple: bool,
) -> str | None:
    """Return why `chosen` is not the answer, None if it is."""
    if not heaviest:
        return "no option is named as the answer"
    if not chosen:
        return f"several answers: {', '.join(dict.fromkeys('/'.join(sorted(item.names)) for item in heaviest))}"
    listed = "/".join(sorted(chosen))
    last = next(item for item in reversed(heaviest) if item.names & chosen)
    if any(item.mention.clash for item in heaviest if item.names & chosen):
        return f"a letter with another option's text: {listed}"
    mentioned = {item.at: item.mention for item in evidence}
    for match in _NAMED_AS.finditer(marked):
        letter, named = mentioned.get(match.start("letter")), mentioned.get(match.start("text"))
        if letter and named and letter.pure and not letter.names & named.names and letter.names & chosen:
            return f"a letter with another option's text: {listed}"
    if multiple and RANKING.search(marked):
        return f"a ranking of the options: {listed}"
    if last.mention.either or (len(chosen) > 1 and not multiple):
        return f"several answers: {listed}"
    if not chosen <= phrases.keys():
        return f"names no option: {listed}"
    if any(
        item.denied and item.mention.mark != TEXT and item.at > last.at and item.names & chosen for item in evidence
    ):
        return f"both chosen and denied: {listed}"
    if last.rule == "hedge" and any(item.at > last.at and not item.denied and item.names - chosen for item in evidence):
        return f"a possibility, with another option after it: {listed}"
    # "It looks like a nevus, but I cannot tell" is no answer; with advice to see a doctor it is one.
    in_passing = last.weight < Weight.CLAIM and (ABSTENTION.search(marked) or REFUSAL.search(marked))
    if in_passing or (last.weight == Weight.CLAIM and ABSTENTION.search(marked, last.at)):
        return f"named, but not as the answer: {listed}"
    return None


def _disclaimer(marked: str) -> Reading | None:
    abstention, refusal = ABSTENTION.search(marked), REFUSAL.search(marked)
    if abstention and not (refusal and refusal.start() < abstention.start()):
        return Reading((), "abstained", f'says "{_line(marked[abstention.start() : abstention.end() + 40])}"')
    if refusal:
        return Reading((), "refused", f'says "{_line(marked[refusal.start() : refusal.end() + 40])}"')
    return None


def _line(text: str) -> str:
    return " ".join(_MARKS.sub("...", text).split())
