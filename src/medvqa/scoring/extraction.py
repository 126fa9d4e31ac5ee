"""Reading the chosen options out of free text.

`read_options` goes through these steps. All of them are in `text`, `mentions` and `frames`, but the last one.

1. What is read (`text.visible`): marked reasoning is dropped, so is Markdown, LaTeX and HTML; full-width, circled and
   styled letters become plain. Of a long response both ends are read.
2. Which options it names (`mentions`), by letter or by text. Texts are whole words, the longest counts. A letter is an
   option's only where its surroundings allow that: not in "A patient", "vitamin B deficiency", "B-cell" or "E. coli".
   "A, C and D" is one mention; "B. pneumonia" is one, and a contradiction where pneumonia is another option.
3. What each mention says (`frames`): the phrases around it give it a weight, or deny it. Mentions in questions
   and conditions say nothing, and neither does a text whose sentence does not assert it of the image: a place
   ("below the spleen"), the past, a suspicion, a comparison, a rule ("typically shows").

   ======== ============================================================================================
   weight   mentions
   ======== ============================================================================================
   FINAL    <answer>B</answer>, \\boxed{B}, {"answer": "B"}, "final answer: B"
   STATED   "the answer is B", "B is correct", "I'd go with B", "so B"; a letter as the first or last words
   LABEL    "(B)", "B. its text", "B" at the head of a line; a text as the first or last words
   CLAIM    a text as a finding: "consistent with pneumonia"; a hedge: "it could be B"
   TEXT     a text that its sentence asserts less directly: "with pneumonia of the left lung"
   NAMED    a letter in passing, a common word ("no"), all options listed: no evidence
   ======== ============================================================================================

4. What is chosen. What stands before "wait, no" or "I was wrong" is dropped, and so is what a base model goes on
   to ask itself. The heaviest mentions that are left and not denied decide. They must agree; a later statement
   replaces an earlier one only if words between them say so ("but", "therefore", "final"). A choice that is
   denied afterwards is none.
   A walk through the options says nothing: labels in the order of the options that are announced ("let's analyze
   each option") or begin with the first one, until a statement or a return to an earlier option ends it.
   If the response was cut off, only explicit statements keep their weight ("the answer is B", not "B" or "so B" as
   the last words), and a list only if something follows it.
5. If nothing is chosen: `refused` or `abstained` by the first phrase that says so, else `unparsed`. Both also
   outweigh mentions below LABEL, but for a finding that comes later ("I am no doctor, but it looks like a nevus").
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
    NO_FINDING,
    PREDICATE,
    REFUSAL,
    REJECTIONS,
    RETRACTION,
    RUN_ON,
    UNDECIDED,
    Weight,
    asserted,
    elsewhere,
    is_place,
    negated,
)
from medvqa.scoring.mentions import FIRM, NEGATIVE, NOR, TEXT, WEAK, Mention, Phrases, find_mentions, mark_up
from medvqa.scoring.text import CJK, SEAL, occurrences, tokens, visible

_COMMON_WORDS = frozenset({"all", "both", "false", "no", "none", "not", "other", "true", "yes"})
_JUDGMENTS = frozenset({"correct", "false", "incorrect", "no", "not", "right", "true", "wrong", "yes"})
_SENTENCE_END = re.compile(r"[.!?;。！？；\n]")
_FULL_STOP = re.compile(r"[.!?。！？\n]")
_CLAUSE_END = re.compile(r"\s*(?:[.,;!()\]}\n。，；！번]|$|\s(?:because|since|as|due|based|given)\b)", re.I)
_ALSO = re.compile(r"\balso\b", re.I)
_MARKS = re.compile(f"[{FIRM}{WEAK}{TEXT}{SEAL}]")
_ABBREVIATION = re.compile(r"\b(?:vit|figs?|vs|e\.g|i\.e|dr|no|ca|cf|approx|st|resp|gr|v\.a|z\.n|z\.b|d\.h)\.$", re.I)
_ALONG = re.compile(
    r"[\s,]*(?:(?:and|or|nor|plus|&|as well as|with|und|oder|et|ou|y|e|o|и)\s)?(?:(?:an?|the|any)\s)?"
    r"(?:(?!is|are|in|of)[\w-]+\s){0,2}\s*",
    re.I,
)
_CLOSED_FORM = re.compile(r"(?:</\w{1,20}>|\[/\w{1,20}\]|[}\])])[\s`$]{0,20}\Z")
_BECAUSE = re.compile(r"\s?[,;]?\s(?:because|since|as|due|based|given)\b", re.I)
_CONTEXT = 120
_Heading = Literal["denies", "elsewhere", ""]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read. `letters` are in option order, () unless `status` is "read"; `why` is one line for people."""

    letters: tuple[str, ...]
    status: Literal["read", "refused", "abstained", "unparsed"]
    why: str


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A mention, its place in the marked-up text, and what it says by which rule.

    `explicit`: what it says counts also if the response was cut off later.
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

    If the response is not `finished`, because it was cut off at a token limit, only an explicit statement counts
    ("the answer is C"), and a list of several options only if something follows it.

    Never raises and never guesses: two answers to a single choice, a letter with another option's text, or an
    answer in passing are `unparsed`. `options` maps capital letters to texts, which may be empty, repeat or
    contain one another. Takes time linear in the response; of more than 32,000 characters beyond marked
    reasoning, the first 8,000 and the last 24,000 are read.
    """
    if response in options and finished:
        # What most models answer when asked for a letter: all the rules say the same, twenty times slower.
        return Reading((response,), "read", f'first words: "{response}"')
    phrases = {letter: (text,) for letter, text in options.items()}
    common = {
        letter
        for letter, text in options.items()
        if all(word in _COMMON_WORDS or word.isdigit() or (len(word) == 1 and word.isascii()) for word in tokens(text))
    }
    return _read(response, phrases, common, letters=True, multiple=multiple, finished=finished)


def read_term(response: str, vocabulary: Phrases, *, finished: bool = True) -> Reading:
    """Return the one term of `vocabulary` (term -> other ways to write it) that `response` gives as its answer.

    The rules are those of `read_options` without letters; `Reading.letters` holds the term.
    """
    phrases = {term: (term, *others) for term, others in vocabulary.items()}
    common = {term for term, ways in phrases.items() if all(_JUDGMENTS.issuperset(tokens(way)) for way in ways)}
    return _read(response, phrases, common, letters=False, multiple=False, finished=finished)


def _read(
    response: str, phrases: Phrases, common: AbstractSet[str], *, letters: bool, multiple: bool, finished: bool
) -> Reading:
    """Read what `phrases` name; those of the names in `common` say nothing in passing ("there is no mass")."""
    text = visible(response)
    cut = "" if finished else "the answer was cut off: "
    if not text:
        return Reading((), "unparsed", cut + ("nothing but reasoning" if response.strip() else "the response is empty"))
    mentions = find_mentions(text, phrases, letters=letters)
    marked, places = mark_up(text, mentions)
    evidence = _weighed(marked, places, phrases, common, multiple)
    taken_back, evidence = _still_held(marked, evidence)
    evidence = _without_walk(marked, evidence, list(phrases), multiple)
    if not finished and not (evidence and RUN_ON.search(marked, evidence[0].at)):
        closed_form = _CLOSED_FORM.search(response) is not None
        evidence = [_if_cut(item, marked, phrases, common, multiple, closed_form) for item in evidence]
    alive = [item for item in evidence if item.weight > Weight.NAMED and not item.denied]
    weight = max((item.weight for item in alive), default=Weight.NAMED)
    heaviest = [item for item in alive if item.weight == weight]
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
    if not alive and taken_back:
        problem = "an answer is taken back, and no other follows"
    return Reading((), "unparsed", cut + problem)


def _plurals(text: str, phrases: Phrases, chosen: AbstractSet[str]) -> str:
    """Name the options that a list of findings may mean by their plurals: "a plaque with papules"."""
    plurals = {name: [f"{way}s" for way in ways] for name, ways in phrases.items() if name not in chosen}
    return ", ".join(sorted({name for place in occurrences(text, plurals) for name in place.names}))


def _weighed(
    marked: str, places: Mapping[int, Mention], phrases: Phrases, common: AbstractSet[str], multiple: bool
) -> list[_Evidence]:
    """Say of each mention what the heaviest rule says that applies to it."""
    announced = [match.end() for match in ANNOUNCEMENT.finditer(marked)]
    framed: dict[int, tuple[Weight, str, bool]] = {}
    for frame in FRAMES:
        for match in frame.pattern.finditer(marked):
            at = match.start(match.lastgroup or 0)
            if bisect_left(announced, match.start()) != bisect_right(announced, at):
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
        weight, rule, explicit = max(framed.get(at, (*form, False)), (*form, False), key=lambda found: found[0])
        before = marked[max(0, at - _CONTEXT) : at]
        sentence = _SENTENCE_END.split(before)[-1]
        denied = at in rejected or negated(before, text=mention.mark == TEXT)
        if mention.mark == TEXT and evidence and _denied_along(marked, evidence[-1], at, phrases):
            denied = True
        end = _SENTENCE_END.search(marked, at + 1, at + 2 * _CONTEXT)
        asked = end is not None and end[0] in "?？" and weight < Weight.FINAL
        goes_on = DISCUSSION.match(marked, at + 1) or (mention.pure and PREDICATE.match(marked, at + 1))
        conditional = HYPOTHESIS.search(sentence) or CONDITION.match(marked, at + 1)
        if asked or conditional or (goes_on and weight <= Weight.LABEL):
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


def _is_number(ways: Sequence[str]) -> bool:
    return all(way.strip().isdigit() for way in ways)


def _of_the_image(item: _Evidence, last: _Evidence | None, marked: str, phrases: Phrases, multiple: bool) -> _Evidence:
    """Keep the weight of an option's text only where its sentence asserts it of the image.

    `last` is the mention before it, which may be of the same list. Of several options, all that a sentence asserts
    weigh the same.
    """
    before, after = marked[max(0, item.at - _CONTEXT) : item.at], marked[item.at + 1 : item.at + 1 + _CONTEXT]
    texts = [phrases[name][0] for name in item.names if name in phrases]
    in_passing = replace(item, weight=Weight.NAMED, rule="text in passing")
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
    """Whether an option is denied with the one before it: "no fracture or dislocation" with an option "no fracture"."""
    gap = marked[last.at + 1 : at] if at - last.at < 40 else "."
    if last.mention.mark != TEXT or not _ALONG.fullmatch(gap) or not NOR.search(gap):
        return False
    return all(NEGATIVE.match(phrases[name][0]) for name in last.names)


def _opens_line(before: str) -> bool:
    return before.rstrip(" \t([{")[-1:] in ("", "\n")


def _headings(marked: str) -> list[tuple[int, int, _Heading]]:
    """Return where lists under a heading are, such as "Not visible:", and what the heading says of them."""
    found: list[tuple[int, int, _Heading]] = []
    for match in HEADING.finditer(marked):
        heading = re.split(r"[.!?;]", match["heading"])[-1]
        blank = marked.find("\n\n", match.end() + 2)
        says: _Heading = ""
        if not _MARKS.search(heading):
            says = "denies" if DENIES.search(heading) else "elsewhere" if NO_FINDING.search(heading) else ""
        found.append((match.end(), blank if blank >= 0 else len(marked), says))
    return found


def _heading_of(headings: Sequence[tuple[int, int, _Heading]], at: int) -> _Heading:
    number = bisect_right(headings, at, key=lambda heading: heading[0]) - 1
    return headings[number][2] if number >= 0 and at < headings[number][1] else ""


def _with_list(marked: str, evidence: list[_Evidence]) -> list[_Evidence]:
    """Let a statement that opens a list of lines speak of all labels of the list: "I'd select: - A. ... - B. ..."."""
    found: list[_Evidence] = []
    for item in evidence:
        last = found[-1] if found else None
        if (
            last is not None
            and item.weight == Weight.LABEL
            and item.mention.mark != TEXT
            and last.weight == Weight.STATED
            and not last.denied
            and all(_opens_line(marked[max(0, one.at - 9) : one.at]) for one in (last, item))
            and marked.count("\n", last.at, item.at) == 1
        ):
            found[-1] = replace(last, rule="verdict")
            item = replace(item, weight=Weight.STATED, rule="verdict", explicit=last.explicit)
        found.append(item)
    return found


def _without_walk(marked: str, evidence: Sequence[_Evidence], order: Sequence[str], multiple: bool) -> list[_Evidence]:
    """Take their weight from the options that a response goes through, one after the other, before it answers.

    A walk is announced ("let's analyze each option"), or it begins with the first option at the head of a line and
    goes on with the next. Labels in the order of the options belong to it, and so do findings between them. What goes
    back to an earlier option is an answer, as is any statement.
    """
    announcement = ANNOUNCEMENT.search(marked)
    start = announcement.end() if announcement else None
    heads = [item for item in evidence if _opens_line(marked[max(0, item.at - 9) : item.at]) and len(item.names) == 1]
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
    """Return what a mention says if the response was cut off: explicit statements alone keep their weight."""
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
    if complete or (item.weight == Weight.FINAL and (closed_form or "\n" in rest)):
        return item
    closed = rest.strip(" \t*)]}")
    if multiple:
        goes_on = closed.strip(" .,;:()\n*-").casefold()
        begun = any(
            f"{name}. {way}".casefold().startswith(goes_on) or way.casefold().startswith(goes_on)
            for name, ways in phrases.items()
            for way in ways
        )
        line = _opens_line(marked[max(0, item.at - 9) : item.at]) and "\n\n" not in rest
        ended = re.match(r"\s*[)\]]?[.;。\n]", rest) or re.search(rf"\w\W|[{CJK}]", goes_on)
        return item if goes_on and ended and not begun and not line else replace(item, weight=Weight.NAMED)
    if item.mention.mark == TEXT and item.names.isdisjoint(common):
        return item if re.search(r"[.!?。\n]", rest) else replace(item, weight=Weight.NAMED)
    if closed:
        return item
    others = [way for name, ways in phrases.items() if name not in item.names for way in ways]
    begins = any(way.casefold().startswith(name.casefold()) for name in item.names for way in others)
    article = item.names == {"A"} and marked[: item.at].rstrip(" ([{")[-1:] in (":", "\n", "")
    stated = item.weight == Weight.FINAL or item.rule in ("answer", "heading")
    return item if stated and not begins and not article else replace(item, weight=Weight.NAMED)


def _by_form(
    marked: str, at: int, mention: Mention, phrases: Phrases, common: AbstractSet[str], multiple: bool
) -> tuple[Weight, str]:
    """What a mention says by its own form and its place."""
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
    if mention.label or (opens_line and (mention.pure or mention.mark == TEXT) and _CLAUSE_END.match(marked, at + 1)):
        return Weight.LABEL, "label" if mention.mark != TEXT else "text on its own"
    if mention.mark != TEXT:
        return Weight.NAMED, "letter in passing"
    if not mention.names <= common:
        return Weight.TEXT, "text"
    begins = opens_sentence and (_CLAUSE_END.match(marked, at + 1) or marked.startswith(" - ", at + 1))
    return (Weight.LABEL, "text on its own") if begins else (Weight.NAMED, "common word")


def _with_opening(marked: str, evidence: list[_Evidence], multiple: bool) -> list[_Evidence]:
    """Let letters that are the first words state the answer, unless they open a list of options."""
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
    labels = [item for item in others if item.weight == Weight.LABEL and item.mention.mark != TEXT and not item.denied]
    if not first.mention.pure and (multiple or any(item.names != first.names for item in labels)):
        return evidence
    return [replace(first, weight=Weight.STATED, rule="first words"), *others]


def _still_held(marked: str, evidence: list[_Evidence]) -> tuple[bool, list[_Evidence]]:
    """Drop what is taken back later, and what comes after a dialogue of the model's own begins."""
    given = [item.at for item in evidence if item.weight >= Weight.LABEL]
    if not given:
        return False, evidence
    run_on = next((match.start() for match in RUN_ON.finditer(marked, given[0])), len(marked))
    retraction = max((match.start() for match in RETRACTION.finditer(marked, given[0], run_on)), default=0)
    return retraction > 0, [item for item in evidence if retraction <= item.at < run_on]


def _agreed(marked: str, evidence: Sequence[_Evidence]) -> frozenset[str]:
    """Return the one answer, of several the last if it replaces the others, none if they disagree."""
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
    """Return all that is chosen: labels and verdicts speak of one option each, other statements of the whole answer."""
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
        lines = (
            last is not None
            and marked.count("\n", last.at, item.at) == 1
            and all(_opens_line(marked[max(0, one.at - 9) : one.at]) for one in (last, item))
        )
        own = last is not None and {last.rule, item.rule} <= {"text on its own", "last words"}
        if last and item.weight <= Weight.CLAIM and (lines or own or not _FULL_STOP.search(marked, last.at, item.at)):
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
    """Say what keeps `chosen` from being the answer, if anything does."""
    if not heaviest:
        return "no option is named as the answer"
    if not chosen:
        return f"several answers: {', '.join(dict.fromkeys('/'.join(sorted(item.names)) for item in heaviest))}"
    listed = "/".join(sorted(chosen))
    last = next(item for item in reversed(heaviest) if item.names & chosen)
    if any(item.mention.clash for item in heaviest if item.names & chosen):
        return f"a letter with another option's text: {listed}"
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
    # "It looks like a nevus, but I cannot tell" leaves it open; advice to see a doctor does not.
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
