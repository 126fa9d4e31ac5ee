"""Reading the chosen options out of free text.

`read_options` goes through these steps. All of them are in `text`, `mentions` and `frames`, but the last one.

1. What is read (`text.visible`): marked reasoning is dropped, so is Markdown, LaTeX and HTML; full-width, circled and
   styled letters become plain. Of a long response both ends are read.
2. Which options it names (`mentions`), by letter or by text. Texts are whole words, the longest counts. A letter is an
   option's only where its surroundings allow that: not in "A patient", "vitamin B deficiency", "B-cell" or "E. coli".
   "A, C and D" is one mention; "B. pneumonia" is one, and a contradiction where pneumonia is another option.
3. What each mention says (`frames`): the phrases around it give it a weight, or deny it. Mentions in questions
   and conditions say nothing.

   ======== ============================================================================================
   weight   mentions
   ======== ============================================================================================
   FINAL    <answer>B</answer>, \\boxed{B}, {"answer": "B"}, "final answer: B"
   STATED   "the answer is B", "B is correct", "I'd go with B", "so B"; a letter as the first or last words
   LABEL    "(B)", "B. its text", "B" at the head of a line; a text as the first or last words
   CLAIM    a text as a finding: "consistent with pneumonia"; a hedge: "it could be B"
   TEXT     a text in passing: "with pneumonia of the left lung"
   NAMED    a letter in passing, a common word ("no"), all options listed: no evidence
   ======== ============================================================================================

4. What is chosen. What stands before "wait, no" or "I was wrong" is dropped, and so is what a base model goes on
   to ask itself. The heaviest mentions that are left and not denied decide. They must agree; a later statement
   replaces an earlier one only if words between them say so ("but", "therefore", "final"). A choice that is
   denied afterwards is none.
5. If nothing is chosen: `refused` or `abstained` by the first phrase that says so, else `unparsed`. Both also
   outweigh mentions below LABEL, but for a finding that comes later ("I am no doctor, but it looks like a nevus").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal

from medvqa.scoring.frames import (
    ABSTENTION,
    CONDITION,
    CUE,
    DISCUSSION,
    FRAMES,
    HYPOTHESIS,
    PREDICATE,
    REFUSAL,
    REJECTIONS,
    RETRACTION,
    RUN_ON,
    Weight,
    negated,
)
from medvqa.scoring.mentions import FIRM, TEXT, WEAK, Mention, Phrases, find_mentions, mark_up
from medvqa.scoring.text import SEAL, tokens, visible

_COMMON_WORDS = frozenset({"all", "both", "false", "no", "none", "not", "other", "true", "yes"})
_JUDGMENTS = frozenset({"correct", "false", "incorrect", "no", "not", "right", "true", "wrong", "yes"})
_SENTENCE_END = re.compile(r"[.!?;。！？；\n]")
_CLAUSE_END = re.compile(r"\s*(?:[.,;!()\]}\n。，；！]|$|\s(?:because|since|as|due|based|given)\b)", re.I)
_ALSO = re.compile(r"\balso\b", re.I)
_MARKS = re.compile(f"[{FIRM}{WEAK}{TEXT}{SEAL}]")
_ABBREVIATION = re.compile(r"\b(?:vit|figs?|vs|e\.g|i\.e|dr|no|ca|cf|approx|st|resp|gr)\.$", re.I)
_CONTEXT = 120


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read. `letters` are in option order, () unless `status` is "read"; `why` is one line for people."""

    letters: tuple[str, ...]
    status: Literal["read", "refused", "abstained", "unparsed"]
    why: str


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A mention, its place in the marked-up text, and what it says by which rule."""

    at: int
    mention: Mention
    weight: Weight
    rule: str
    denied: bool

    @property
    def names(self) -> frozenset[str]:
        return self.mention.names


def read_options(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Return the letters of `options` that `response` chooses: one, or any number if `multiple`.

    Never raises and never guesses: two answers to a single choice, a letter with another option's text, or an
    answer in passing are `unparsed`. `options` maps capital letters to texts, which may be empty, repeat or
    contain one another. Takes time linear in the response; of more than 32,000 characters beyond marked
    reasoning, the first 8,000 and the last 24,000 are read.
    """
    if response in options:
        # What most models answer when asked for a letter: all the rules say the same, twenty times slower.
        return Reading((response,), "read", f'first words: "{response}"')
    phrases = {letter: (text,) for letter, text in options.items()}
    common = {
        letter
        for letter, text in options.items()
        if all(word in _COMMON_WORDS or word.isdigit() or (len(word) == 1 and word.isascii()) for word in tokens(text))
    }
    return _read(response, phrases, common, letters=True, multiple=multiple)


def read_term(response: str, vocabulary: Phrases) -> Reading:
    """Return the one term of `vocabulary` (term -> other ways to write it) that `response` gives as its answer.

    The rules are those of `read_options` without letters; `Reading.letters` holds the term.
    """
    phrases = {term: (term, *others) for term, others in vocabulary.items()}
    common = {term for term, ways in phrases.items() if all(_JUDGMENTS.issuperset(tokens(way)) for way in ways)}
    return _read(response, phrases, common, letters=False, multiple=False)


def _read(response: str, phrases: Phrases, common: AbstractSet[str], *, letters: bool, multiple: bool) -> Reading:
    """Read what `phrases` name; those of the names in `common` say nothing in passing ("there is no mass")."""
    text = visible(response)
    if not text:
        return Reading((), "unparsed", "nothing but reasoning" if response.strip() else "the response is empty")
    mentions = find_mentions(text, phrases, letters=letters)
    marked, places = mark_up(text, mentions)
    evidence = _weighed(marked, places, phrases, common, multiple)
    taken_back, evidence = _still_held(marked, evidence)
    alive = [item for item in evidence if item.weight > Weight.NAMED and not item.denied]
    weight = max((item.weight for item in alive), default=Weight.NAMED)
    heaviest = [item for item in alive if item.weight == weight]
    chosen = _union(marked, heaviest, phrases.keys()) if multiple else _agreed(marked, heaviest)
    problem = _problem(marked, evidence, heaviest, chosen, phrases, multiple)
    if problem is None:
        last = next(item for item in reversed(heaviest) if item.names & chosen)
        excerpt = text[max(0, last.mention.start - 30) : last.mention.end + 10]
        return Reading(tuple(n for n in phrases if n in chosen), "read", f'{last.rule}: "{_line(excerpt)}"')
    if weight < Weight.STATED and (disclaimer := _disclaimer(marked)):
        return disclaimer
    if not alive and taken_back:
        problem = "an answer is taken back, and no other follows"
    return Reading((), "unparsed", problem)


def _weighed(
    marked: str, places: Mapping[int, Mention], phrases: Phrases, common: AbstractSet[str], multiple: bool
) -> list[_Evidence]:
    """Say of each mention what the heaviest rule says that applies to it."""
    framed: dict[int, tuple[Weight, str]] = {}
    for frame in FRAMES:
        for match in frame.pattern.finditer(marked):
            at = match.start(match.lastgroup or 0)
            weight = frame.text_weight if marked[at] == TEXT else frame.weight
            if at not in framed or weight > framed[at][0]:
                framed[at] = weight, frame.name
    rejected = {match.start(match.lastgroup or 0) for pattern in REJECTIONS for match in pattern.finditer(marked)}
    evidence = []
    for at, mention in places.items():
        by_form = _by_form(marked, at, mention, phrases, common, multiple)
        weight, rule = max(framed.get(at, by_form), by_form, key=lambda found: found[0])
        before = marked[max(0, at - _CONTEXT) : at]
        sentence = _SENTENCE_END.split(before)[-1]
        end = _SENTENCE_END.search(marked, at + 1, at + 2 * _CONTEXT)
        asked = end is not None and end[0] in "?？" and weight < Weight.FINAL
        goes_on = DISCUSSION.match(marked, at + 1) or (mention.pure and PREDICATE.match(marked, at + 1))
        conditional = HYPOTHESIS.search(sentence) or CONDITION.match(marked, at + 1)
        if asked or conditional or (goes_on and weight <= Weight.LABEL):
            weight = Weight.NAMED
        denied = at in rejected or negated(before, text=mention.mark == TEXT)
        evidence.append(_Evidence(at, mention, weight, rule, denied))
    return _with_opening(marked, evidence, multiple)


def _by_form(
    marked: str, at: int, mention: Mention, phrases: Phrases, common: AbstractSet[str], multiple: bool
) -> tuple[Weight, str]:
    """What a mention says by its own form and its place."""
    if len(phrases) > 1 and mention.names >= phrases.keys() and not (mention.pure and multiple):
        return Weight.NAMED, "list of all options"
    if not (mention.clash or mention.names <= phrases.keys()):
        return Weight.NAMED, "no option"
    before = marked[max(0, at - 9) : at].rstrip(" ([{")
    opens_sentence = before[-1:] in ("", ".", "!", "?", "\n", "。") and not _ABBREVIATION.search(before)
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
    begins = opens_sentence and _CLAUSE_END.match(marked, at + 1)
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
    single = [item for item in evidence if item.rule == "verdict" or item.weight == Weight.LABEL]
    union = frozenset[str]().union(*(item.names for item in single))
    statements = [item for item in evidence if item not in single]
    if statements:
        whole = _agreed(marked, statements)
        return whole if union <= whole else frozenset()
    all_listed = len(evidence) > 1 and union >= names and evidence[0].weight == Weight.LABEL
    return frozenset() if all_listed else union


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
