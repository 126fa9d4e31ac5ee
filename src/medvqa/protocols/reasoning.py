"""Ask for reasoning before the answer, or for an explanation after it, and find the answer's line in the reply.

The wording is ours: MedLesionVQA's chain-of-thought prompt and the question of GMAI-MMBench's case study are not
printed. The second turn of `COT_2` is MedXpertQA's (https://github.com/TsinghuaC3I/MedXpertQA, eval/prompts).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from medvqa.items import CHOICE_KINDS, KINDS, Answer, Kind, Prompt
from medvqa.protocols.prompts import turns
from medvqa.scoring import cut_off, without_reasoning

FORMS: Mapping[Kind, str] = {
    "single_choice": "the letter of the correct option",
    "multiple_response": "the letters of all correct options, separated by commas",
    "judgment": "yes or no",
    "fill_in_the_blank": "the words that fill the blank",
    "short_answer": "your answer, short and on that one line",
}
"""The content of the answer's line, by kind of question."""

FREE: Kind = "short_answer"
"""The form of free-form (FF) answers, whose prompts show no options."""


@dataclass(frozen=True)
class Instruction:
    """An instruction after the question, and the way to find the answer in the reply.

    `text` has the field {form}. `then` is the user's second turn, by kind of question, with the fields {first} and
    {last}: letters of options. `tokens` is the default limit of new tokens of each reply. `line` takes a reply and
    whether it is finished, and returns the content of the answer's line, None without one; without a function the
    whole reply is the answer.
    """

    name: str
    text: str
    tokens: int
    then: Mapping[Kind, str] = field(default_factory=dict)
    line: Callable[[str, bool], str | None] | None = None

    @cached_property
    def label(self) -> str:
        """`name@digest`; the digest changes with every byte that a model may see."""
        parts = (self.text, *(FORMS[kind] for kind in KINDS), *(self.then.get(kind, "") for kind in KINDS))
        return f"{self.name}@{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:8]}"

    def added(self, prompt: Prompt) -> Prompt:
        """Return the prompt with the instruction after its text, and the second turn."""
        kind = FREE if prompt.technique == "ff" else prompt.kind
        then = (self.then[kind],) if kind in self.then else ()
        return replace(
            prompt,
            text=f"{prompt.text.rstrip()}\n\n{self.text.format(form=FORMS[kind])}",
            template=f"{prompt.template}+{self.label}",
            max_tokens=self.tokens,
            then=(*prompt.then, *turns(then, prompt.options)),
        )

    def read(self, answer: Answer) -> Answer:
        """Return the answer with the content of its line as `text`, and the reply as `whole`.

        Without such a line `text` is empty, so that rules and judges find no answer. `finish` then stays; else a reply
        that was cut off after the line is marked by `cut` instead: its line is complete. A refusal that the server
        reports, and an answer that was read before, are returned as they are.
        """
        if self.line is None or answer.finish == "refusal" or answer.whole or answer.option_logprobs is not None:
            return answer
        cut = cut_off(answer)
        line = self.line(without_reasoning(answer.text), not cut)
        if line is None:
            return replace(answer, text="", whole=answer.text)
        finish, cut_after = ("stop", True) if cut else (answer.finish, answer.cut)
        return replace(answer, text=line, whole=answer.text, finish=finish, cut=cut_after)


_MARKS = " \t*_`#>"
_LABEL = r"[ \t*_`#>-]*{label}[ \t*_`]*[:\uff1a](?P<content>.*)"
_FINAL = re.compile(_LABEL.format(label="final answer"), re.I)
_ANSWER = re.compile(_LABEL.format(label="(?:final )?answer"), re.I)
_FENCE = re.compile(r"[ \t]*(?:`{3,}\w*|\*{2,})[ \t]*")


def final_line(reply: str, finished: bool = True) -> str | None:
    """Return the content of the line `Final answer: ...` that ends a reply; None without one.

    Only the end counts: the same words earlier in the reply may quote the question, the format or a first thought.
    Two final lines in a row with different contents are none. If the reply is not `finished`, the line counts only
    with a line end, and with nothing after it.

    >>> final_line("A or B? It is round.\\n\\n**Final answer: B**")
    'B'
    >>> final_line("Final answer: A\\nBut the margin is irregular.") is None
    True
    """
    lines = _lines(reply)
    if not lines or not (finished or reply.rstrip(" \t").endswith(("\n", "\r"))):
        return None
    contents: list[str] = []
    if len(lines) > 1 and not _FINAL.fullmatch(lines[-1]) and _content(_FINAL, lines[-2]) == "":
        contents.append(lines.pop().strip(_MARKS))
        lines.pop()
    while lines and (content := _content(_FINAL, lines[-1])) is not None:
        contents.append(content)
        lines.pop()
    return contents[0] if len(set(contents)) == 1 and contents[0] else None


def first_line(reply: str, finished: bool = True) -> str | None:
    """Return the first line of a reply, without a label `Answer:`; None if it is blank, or not finished.

    >>> first_line("Answer: B\\nThe border is irregular.")
    'B'
    """
    lines = _lines(reply if finished else reply[: reply.rfind("\n") + 1])
    if not lines:
        return None
    content = _content(_ANSWER, lines[0])
    if content == "":
        return lines[1].strip(_MARKS) or None if len(lines) > 1 else None
    return (lines[0].strip() if content is None else content) or None


def _content(label: re.Pattern[str], line: str) -> str | None:
    match = label.fullmatch(line)
    return None if match is None else match["content"].strip(_MARKS)


def _lines(reply: str) -> list[str]:
    """Return the lines of a reply that are neither blank nor a mark of a block."""
    return [line for line in reply.splitlines() if line.strip() and not _FENCE.fullmatch(line)]


COT = Instruction(
    "cot",
    "Reason step by step before you answer, whatever form of reply is asked for above. Then end your reply with one "
    'line that begins with "Final answer: ", followed by {form}. Write nothing after that line.',
    tokens=2048,
    line=final_line,
)
COT_2 = Instruction(
    "cot-2",
    "Do not answer yet, whatever form of reply is asked for above: first reason step by step about the question.",
    tokens=2048,
    then={
        **{kind: "Therefore, the answer is" for kind in KINDS if kind not in CHOICE_KINDS},
        "single_choice": "Therefore, among {first} through {last}, the answer is",
        "multiple_response": "Therefore, among {first} through {last}, the correct answers are",
    },
)
EXPLAIN = Instruction(
    "explain",
    "Write only {form} on the first line of your reply. Then explain this answer in a few sentences, from the second "
    "line on, whatever form of reply is asked for above.",
    tokens=1024,
    line=first_line,
)

INSTRUCTIONS: Mapping[str, Instruction] = {instruction.name: instruction for instruction in (COT, COT_2, EXPLAIN)}
"""The instructions by the value of --reasoning, and `explain`."""
