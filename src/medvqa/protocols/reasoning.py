"""Ask for reasoning, an explanation or a confidence, or offer to abstain, and find each in the reply.

The wording is ours: MedLesionVQA's chain-of-thought prompt and the question of GMAI-MMBench's case study are not
printed, and Whitehead et al. (2022), Reliable Visual Question Answering, offer no answer in words. The second turn of
`COT_2` is MedXpertQA's (https://github.com/TsinghuaC3I/MedXpertQA, eval/prompts). Percentages are the scale of Xiong et
al. (2024), Can LLMs Express Their Uncertainty? (openreview gjeQKFxFpZ).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from medvqa.items import CHOICE_KINDS, KINDS, Answer, Item, Kind, Prompt
from medvqa.protocols.prompts import turns
from medvqa.scoring import cut_off, normalise, overlap, read_term, without_reasoning

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
    {last}: letters of options. `tokens` is the default limit of new tokens of each reply, 0 to leave the limit as it
    is; `room` is added to a limit that the user has not typed. `line` takes a reply and whether it is finished, and
    returns the content of the answer's line, None without one; without a function the whole reply is the answer.
    `rule` says in words how the reply is read beside that; change it whenever the same reply may be read otherwise.
    """

    name: str
    text: str
    tokens: int = 0
    room: int = 0
    then: Mapping[Kind, str] = field(default_factory=dict)
    line: Callable[[str, bool], str | None] | None = None
    rule: str = ""

    @cached_property
    def label(self) -> str:
        """`name@digest`; the digest changes with every byte that a model may see, and with `rule`."""
        parts = [self.text, *(FORMS[kind] for kind in KINDS), *(self.then.get(kind, "") for kind in KINDS)]
        parts += [self.rule] if self.rule else []
        return f"{self.name}@{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:8]}"

    def added(self, prompt: Prompt) -> Prompt:
        """Return the prompt with the instruction after its text, and the second turn."""
        kind = FREE if prompt.technique == "ff" else prompt.kind
        then = (self.then[kind],) if kind in self.then else ()
        return replace(
            prompt,
            text=f"{prompt.text.rstrip()}\n\n{self.text.format(form=FORMS[kind])}",
            template=f"{prompt.template}+{self.label}",
            max_tokens=self.tokens or prompt.max_tokens,
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
_CONFIDENCE = re.compile(_LABEL.format(label="confidence(?: score| level)?"), re.I)
_STATED = re.compile(r"(?!.*\b(?:[a-z]|yes|no|true|false)\b)[^:\uff1a]{0,20}", re.I)
"""The content of such a line that cannot hold an answer: short, without a letter of an option, or yes or no."""
_PERCENT = re.compile(
    r"(?P<number>[0-9]{1,3}(?:\.[0-9]{1,6})?)\s?(?P<sign>%|\uff05|percent|/\s?100|out of 100)?\.?", re.I
)
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
    contents = _ending(_FINAL, _lines(reply)) if finished or _ends_line(reply) else []
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


def read_confidence(answer: Answer) -> Answer:
    """Return the answer without the line `Confidence: ...` that ends it, and with the confidence that the line states.

    The line is taken off even if its content cannot be read, unless it may hold the answer. The confidence is then
    None, as for two such lines with different contents, and for a line that may have been cut off. A percentage may
    also stand behind the answer, at the end of its line.

    >>> read_confidence(Answer("B\\nConfidence: 85")).confidence
    0.85
    >>> read_confidence(Answer("B. Confidence: 85")).text
    'B.'
    """
    reply, cut = without_reasoning(answer.text), cut_off(answer)
    lines = _lines(reply)
    contents = _ending(_CONFIDENCE, lines, _STATED)
    if contents:
        # Cut the reply after the last line that is left.
        ends = accumulate(map(len, reply.splitlines(keepends=True)))
        said = [end for line, end in zip(reply.splitlines(), ends, strict=True) if _says(line)]
        text = reply[: said[len(lines) - 1]].rstrip() if lines else ""
        stated = _percent(contents[0]) if len(set(contents)) == 1 else None
    else:
        text, stated = _behind_answer(reply, lines)
        if stated is None:
            return answer
    confidence = stated if not cut or _ends_line(reply) else None
    finish, cut_after = ("stop", True) if cut else (answer.finish, answer.cut)
    return replace(answer, text=text, confidence=confidence, finish=finish, cut=cut_after)


def _behind_answer(reply: str, lines: Sequence[str]) -> tuple[str, float | None]:
    """Return a reply without the confidence that ends its last line, and the confidence; None if there is none.

    Only the word that was asked for counts, as it was written, once in the reply, and with a percentage.
    """
    before, label, after = reply.rpartition("Confidence")
    said = before.rstrip("([*_`")
    text = said.rstrip(" \t,;|")
    if not label or text in ("", said) or label not in lines[-1] or reply.lower().count("confidence") > 1:
        return reply, None
    # The rest of the last line: blank lines and marks of a block may follow.
    content = _content(_CONFIDENCE, label + after.splitlines()[0]) if after else None
    if content is None:
        return reply, None
    return text, _percent(content.rstrip(")]. ") if before.endswith(("(", "[")) else content)


def _percent(content: str) -> float | None:
    """Return a percentage as a fraction; None for other text, and for 0.9 or 1 without a sign, of an unknown scale."""
    match = _PERCENT.fullmatch(content)
    if match is None or (value := float(match["number"])) > 100 or (0 < value <= 1 and not match["sign"]):
        return None
    return value / 100


def abstains(item: Item, answer: Answer) -> bool:
    """Return whether the whole answer is the one that `ABSTAIN` offers.

    It is not if an option or a reference of the item says so too: then rules and judges read the answer.
    """
    if normalise(overlap.answered(answer.text)) not in _OFFERED:
        return False
    own = item.options.values() if item.options else item.answers
    return not any(normalise(text) in _OFFERED or read_term(text, {}).status == "abstained" for text in own)


def _ending(label: re.Pattern[str], lines: list[str], fits: re.Pattern[str] | None = None) -> list[str]:
    """Remove the lines with this label from the end of `lines`; return their contents, the last one first.

    Without `fits`, which every content must match, the content may stand on the line below a label.
    """
    contents: list[str] = []
    below = fits is None and len(lines) > 1 and not label.fullmatch(lines[-1])
    if below and _content(label, lines[-2]) == "":
        contents.append(lines.pop().strip(_MARKS))
        lines.pop()
    while lines and (content := _content(label, lines[-1])) is not None:
        if fits is not None and not fits.fullmatch(content):
            break
        contents.append(content)
        lines.pop()
    return contents


def _ends_line(reply: str) -> bool:
    return reply.rstrip(" \t").endswith(("\n", "\r"))


def _content(label: re.Pattern[str], line: str) -> str | None:
    match = label.fullmatch(line)
    return None if match is None else match["content"].strip(_MARKS)


def _lines(reply: str) -> list[str]:
    """Return the lines of a reply that are neither blank nor a mark of a block."""
    return [line for line in reply.splitlines() if _says(line)]


def _says(line: str) -> bool:
    return bool(line.strip()) and not _FENCE.fullmatch(line)


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

ABSTAIN = Instruction(
    "abstain",
    'If the question cannot be answered from what you are given, write "Cannot be determined" in the place of the '
    "answer, whatever form of reply is asked for above.",
    room=16,
)
_OFFERED = frozenset(f"{of}cannot be determined" for of in ("", "answer ", "it ", "this "))
"""The offered answer, normalised."""
CONFIDENCE = Instruction(
    "confidence",
    'Add one more line to the end of your reply, whatever is said above: "Confidence: ", followed by the probability '
    "that your answer is right, in percent, as a whole number from 0 to 100. Write nothing after that line.",
    room=32,
    rule='The reply ends with "Confidence: " and a percentage, on a line of its own or behind the answer.',
)

INSTRUCTIONS: Mapping[str, Instruction] = {instruction.name: instruction for instruction in (COT, COT_2, EXPLAIN)}
"""The instructions by the value of --reasoning, and `explain`."""
