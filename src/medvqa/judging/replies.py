"""Read a judge's reply strictly: a reply in another form than requested is a complaint, never a guess."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from medvqa.items import Prompt
from medvqa.judging.cases import Case
from medvqa.judging.settings import HIGHEST, LOWEST
from medvqa.judging.templates import NONE, SCALE, filled
from medvqa.scoring import plain, without_reasoning

NO_KIND = "none"
"""Means "none of the kinds" in a reply, and in a person's sheet."""

_RESULT = re.compile(r"(</?result>)")
_KIND = re.compile(r"(</?kind>)")
_NUMBER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4})?")
_CLOSENESS = re.compile(r"^[ \t]*\[?(?:Answer )?([A-Z])\]?[ \t]*:(.*)$", re.M)
# The closeness of an option in another form: "A：2", "| A | 2 |", "A = 2", "Answer A (2)", "A: 2, B: 9".
_MENTION = re.compile(r"(?<!\w)([A-Z])(?=[^\w:=|(>-]{0,8}[:=|(>-])\W{1,12}([0-9]{1,2}(?:\.[0-9]{1,4})?)(?!\w)")
_MARKUP = re.compile(r"[*`]+")
_BETWEEN_LETTERS = re.compile(r"[\s,;.()\[\]、，]+|\band\b")


@dataclass(frozen=True, slots=True)
class JudgeReading:
    """The content of one reply: a `score`, the closeness of the answer to every option, the `letters` or the `kind`.

    `letters` are in option order, () if the judge finds no option in the answer. `kind` is a kind of error, "" if the
    judge finds none.
    """

    score: float | None = None
    closeness: Mapping[str, float] = field(default_factory=dict)
    letters: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a reply is unreadable, in one sentence for the judge and for people.

    It quotes only short numbers and letters of the reply, which may repeat parts of the judged answer.
    """

    why: str


def read(case: Case, index: int, reply: str, *, finished: bool = True) -> JudgeReading | Complaint:
    """Read the reply to one prompt of a case.

    Marked reasoning (<think>) is ignored. A score needs exactly one <result>...</result> with 0, 0.5 or 1. Two are a
    complaint even if equal, since one may be copied from the judged answer. Closeness needs exactly one line per
    option with a number from 1 to 10, and no other number for it in another form. Options need letters alone, or Z; one
    letter if one option is right. A benchmark's `extractor` replaces these rules for options. A kind needs exactly one
    <kind>...</kind> with a name of the case, or "none".

    `finished` False: the reply was cut off at a token limit, so its last letter or number is ignored or a complaint.
    """
    reply = without_reasoning(reply)
    options = case.prompts[index].options
    if case.task == "score":
        return _score(reply)
    if case.task == "closeness":
        return _closeness(reply, case.prompts[index].text, tuple(options), finished=finished)
    if case.task == "kind":
        return _kind(reply, case.kinds)
    if not finished:
        return Complaint("It was cut off before its end.")
    if case.extractor is not None:
        letters = case.extractor.read(reply, options)
        return Complaint("It names no option, or several.") if letters is None else JudgeReading(letters=letters)
    return _options(reply, tuple(options), single=case.prompts[index].kind == "single_choice")


def again(case: Case, index: int, reply: str, complaint: Complaint) -> Prompt:
    """Return the prompt for a second and last try after an unreadable reply.

    The judge does not see the reply again: it may repeat parts of the answer outside of any fence.
    """
    first = case.prompts[index]
    return replace(first, text=f"{first.text}\n\n{filled(case.again, {'complaint': complaint.why})}")


def _tagged(reply: str, tags: re.Pattern[str], name: str) -> str | Complaint:
    """Return the text within the one element of that name; `tags` splits a reply at its tags."""
    parts = tags.split(reply)
    written, opening, closing = parts[1::2], f"<{name}>", f"</{name}>"
    if written.count(opening) > 1 or written.count(closing) > 1:
        return Complaint(f"It has more than one {opening}.")
    if written != [opening, closing]:
        return Complaint(f"It has no {opening}...{closing}.")
    return parts[2]


def _score(reply: str) -> JudgeReading | Complaint:
    tagged = _tagged(reply, _RESULT, "result")
    if isinstance(tagged, Complaint):
        return tagged
    content = _MARKUP.sub("", tagged).strip()
    if not _NUMBER.fullmatch(content):
        return Complaint("What stands in <result>...</result> is no number.")
    if float(content) not in SCALE:
        return Complaint(f"{content} is not one of 0.0, 0.5 and 1.0.")
    return JudgeReading(score=float(content))


def _kind(reply: str, kinds: tuple[str, ...]) -> JudgeReading | Complaint:
    tagged = _tagged(reply, _KIND, "kind")
    if isinstance(tagged, Complaint):
        return tagged
    named = " ".join(_MARKUP.sub("", tagged).split()).casefold()
    if named == NO_KIND:
        return JudgeReading()
    found = [kind for kind in kinds if kind.casefold() == named]
    return (
        JudgeReading(kind=found[0]) if found else Complaint("What stands in <kind>...</kind> is no name of the list.")
    )


def _folded(line: str) -> str:
    """Return the letters and digits of a line, so that a restated line equals the one in the prompt."""
    return "".join(character for character in plain(line) if character.isalnum()).casefold()


def _closeness(reply: str, shown: str, letters: tuple[str, ...], *, finished: bool) -> JudgeReading | Complaint:
    """Read the line of each option, wherever it stands: before the explanation, or after a restated answer.

    A line cannot be told from a restated one, so two for one option are a complaint, equal or not. So is another number
    for an option in another form, unless its line stands in the prompt (`shown`), which marks only the right form.
    """
    lines = _MARKUP.sub("", reply)
    if not finished:
        lines = lines[: lines.rfind("\n") + 1]  # the last line may end in the "1" of "10"
    contents: dict[str, list[str]] = {letter: [] for letter in letters}
    for letter, content in _CLOSENESS.findall(lines):
        if letter in contents:
            contents[letter].append(content.strip().removesuffix("/10").rstrip())
    closeness: dict[str, float] = {}
    for letter, written in contents.items():
        numbers = [content for content in written if _NUMBER.fullmatch(content)]
        if len(numbers) > 1:
            return Complaint(f"It has more than one score for {letter}.")
        if not numbers:
            missing = f"It has no line with the score for {letter}."
            return Complaint(f"What follows {letter} is no number." if written else missing)
        closeness[letter] = float(numbers[0])
        if not LOWEST <= closeness[letter] <= HIGHEST:
            return Complaint(f"{numbers[0]} for {letter} is not on the scale of {LOWEST:g} to {HIGHEST:g}.")
    restated = set(map(_folded, shown.split("\n")))
    for line in lines.split("\n"):
        for letter, number in _MENTION.findall(plain(line)):
            other = letter in closeness and LOWEST <= float(number) <= HIGHEST and float(number) != closeness[letter]
            if other and _folded(line) not in restated:
                return Complaint(f"It gives {letter} another score in another form.")
    return JudgeReading(closeness=closeness)


def _options(reply: str, letters: tuple[str, ...], *, single: bool) -> JudgeReading | Complaint:
    chosen = _BETWEEN_LETTERS.sub("", _MARKUP.sub("", reply))
    if not re.fullmatch("[A-Z]{1,60}", chosen):
        return Complaint(f"It is something else than capital letters of options, or {NONE}.")
    if chosen == NONE:
        return JudgeReading()
    if unknown := [letter for letter in chosen if letter not in letters]:
        return Complaint(f"{unknown[0]} is no option, or does not stand alone.")
    if len(set(chosen)) < len(chosen):
        return Complaint("A letter occurs twice.")
    if single and len(chosen) > 1:
        return Complaint("It names more than one option, and exactly one is right.")
    return JudgeReading(letters=tuple(letter for letter in letters if letter in chosen))
