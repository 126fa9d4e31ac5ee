"""Ask for roles of columns that cannot be told, or say which option to type."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from medvqa.importing.roles import Guess, RoleQuestion, describe, guess
from medvqa.importing.sheet import Sheet
from medvqa.items import UsageError

MOST = 30
"""Columns that a question lists."""
TIMES = 3
"""Answers to a question that are neither a number nor a name of a column, after which it is given up."""

EXPLAINED = {
    "question": "the text of the question",
    "answer": "the right answer",
    "image": "the path of the image",
    "id": "the id of the question",
    "options": "the options, all in one cell",
    "kind": "the kind of the question",
    "pair": "the name of a pair of confusing questions",
    "patient": "the patient, to group questions",
    "case": "the case, to group questions",
    "cluster": "the group of questions",
}


def completed(sheet: Sheet, typed: Sequence[str], *, with_images: bool, ask: Callable[[str], str] | None) -> Guess:
    """Return the roles of all columns.

    `ask` shows a text and returns the answer. Without it, a role that cannot be told is a UsageError with the option to
    type. `typed` and `with_images` are as in `guess`.
    """
    known = list(typed)
    found = guess(sheet, known, with_images=with_images)
    while found.questions:
        if ask is None:
            raise UsageError(refusal(sheet, found.questions))
        known.append(_answer(sheet, found.questions[0], ask))
        found = guess(sheet, known, with_images=with_images)
    return found


def refusal(sheet: Sheet, questions: Sequence[RoleQuestion]) -> str:
    """Return the line that says which columns cannot be told, and what to type."""
    whys = []
    for question in questions:
        listed = ", ".join(f"'{sheet.shown(place)}'" for place in question.candidates[:MOST])
        whys.append(f"{question.why}{f' ({listed})' if listed else ''}")
    options = []
    for question in questions:
        alone = sheet.shown(question.candidates[0]) if len(question.candidates) == 1 else "COLUMN"
        options.append(f"--set {shlex.quote(f'{question.role}={alone}')}")
    return f"{sheet.name}: {'; '.join(whys)}. Type {' '.join(options)}"


def _answer(sheet: Sheet, question: RoleQuestion, ask: Callable[[str], str]) -> str:
    """Ask one question; return `ROLE=COLUMN` (UsageError after TIMES wrong answers)."""
    role, candidates = question.role, question.candidates[:MOST]
    needed = role in ("question", "answer")
    lines = [f"Which column has {EXPLAINED.get(role, role)}? ({question.why})"]
    lines += [
        f"  {number}  {sheet.shown(place)} ({describe(sheet, place)})" for number, place in enumerate(candidates, 1)
    ]
    lines += [] if needed else ["  0  none"]
    names = [sheet.columns[place].casefold() for place in candidates]
    again: list[str] = []
    for _ in range(TIMES):
        reply = ask("\n".join([*again, *lines, "Number: "])).strip()
        if names.count(reply.casefold()) == 1:
            reply = str(names.index(reply.casefold()) + 1)
        if reply.isascii() and reply.isdecimal() and len(reply) < 4:
            if 1 <= int(reply) <= len(candidates):
                return f"{role}={sheet.columns[candidates[int(reply) - 1]]}"
            if int(reply) == 0 and not needed:
                return f"{role}="
        again = [f"Type a number from {int(needed)} to {len(candidates)}, or the name of a column."]
    raise UsageError(f"{refusal(sheet, [question])}, or answer with a number")
