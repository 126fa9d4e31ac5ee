"""Published rules that take the option most similar to the answer, for PMC-VQA, OmniMedVQA and MedEvalKit's tables.

They read every text as some option: "the kidneys" is the liver if no option is nearer. Use them only to reproduce
published numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from medvqa.scoring.extraction import Reading

MAX_COMPARED = 2**24
"""Characters of an answer times those of an option. Above it the answer is `unparsed`: difflib would take minutes."""

PMC_VQA, OMNIMEDVQA = " {letter}:{text}", "{text}"
"""How the owners write an option, which they compare with the answer."""

_LABELS = (
    *("**answer**:", "**answer**", "*answer*:", "**answer:**"),
    *("answer is", "answer:", "\u7b54\u6848:", "final answer", "final answer is"),
)
_LONGEST = 300


def similar_rule(
    response: str, options: Mapping[str, str], *, multiple: bool = False, form: str = OMNIMEDVQA
) -> Reading:
    """Read `response` as the owners of PMC-VQA and OmniMedVQA do (`find_most_similar_index`).

    The option with the largest `difflib` ratio is chosen, the first of equals, whatever the answer says. Each option is
    compared in the `form` that the owners write. An answer that shares no character with any option is `unparsed`; the
    owners count it as wrong, too. `multiple` changes nothing: the benchmarks have single choices only.

    Sources: src/MedVInT_TD/test.py of
    https://github.com/xiaoman-zhang/PMC-VQA/tree/1678ec2c97f0b2bf84591ddccd2e84932630e450 and
    MedicalEval/Question-answering_Score/utils/medicalqa.py of
    https://github.com/OpenGVLab/Multi-Modality-Arena/tree/bd2999a3be2bf4539a7e071cf2cfab5822f66417.
    """
    texts = {letter: form.format(letter=letter, text=text) for letter, text in options.items()}
    if any(len(text) * len(response) > MAX_COMPARED for text in texts.values()):
        return Reading((), "unparsed", "most similar option: too long to compare")
    letter = most_similar(response, texts)
    if not letter:
        return Reading((), "unparsed", "most similar option: nothing is similar")
    return Reading((letter,), "read", f"most similar option: {letter}")


def most_similar(response: str, texts: Mapping[str, str]) -> str:
    """Return the letter of the text that is most similar to a response, "" if nothing is similar."""
    best, most = "", 0.0
    for letter, text in texts.items():
        ratio = SequenceMatcher(None, text, response).ratio()
        if ratio > most:
            best, most = letter, ratio
    return best


def medevalkit_rule(
    response: str, options: Mapping[str, str], *, multiple: bool = False, form: str = "{letter}. {text}"
) -> Reading:
    r"""Read `response` as MedEvalKit does (`judge_multi_choice`), in the `form` that it shows options in.

    A letter that is the first or last paragraph counts. Else the content of `\boxed{}` or <answer> counts, and of it
    the text after a label such as "answer is". If the part before the first full stop, and after the last colon, is a
    letter or an option, it is chosen. Otherwise the most similar option is, and the first one if nothing is similar: an
    empty answer is A. `multiple` changes nothing.

    Two options with equal texts are told apart here, and not there. Without a content, `\boxed` is the text None, as
    there.

    Source: utils/utils.py of
    https://github.com/alibaba-damo-academy/MedEvalKit/tree/9b12e3b34232a8779cc1275417bf4f72f03d28e0.
    """
    letters = {letter.lower(): letter for letter in options}
    texts = {letter: form.format(letter=letter, text=options[letter]).lower() for letter in options}
    said = response.lower()
    paragraphs = said.split("\n\n")
    if paragraphs[0] in letters:
        said = paragraphs[0]
    elif (last := paragraphs[-1].split(".")[0]) in letters:
        said = last
    said = _labelled(said).strip().lower().replace("\n", "")
    part = said.split(".")[0].split(":")[-1]
    if part in letters:
        return Reading((letters[part],), "read", f"MedEvalKit: letter {letters[part]}")
    if equal := [letter for letter, text in texts.items() if text == part]:
        return Reading((equal[0],), "read", f"MedEvalKit: text of {equal[0]}")
    if any(len(text) * len(said) > MAX_COMPARED for text in texts.values()):
        return Reading((), "unparsed", "MedEvalKit: too long to compare")
    similar = most_similar(said, texts)
    chosen = similar or next(iter(options))
    return Reading((chosen,), "read", f"MedEvalKit: {'most similar option' if similar else 'first option'} {chosen}")


def _labelled(said: str) -> str:
    """The content of a box or a tag in a response, and the text after each label in turn."""
    if "boxed" in said:
        said = _boxed(said)
    elif "<answer>" in said:
        said = _tagged(said)
    for label in _LABELS:
        said = said.split(label)[-1]
    return said


def _boxed(said: str) -> str:
    start = said.rfind("\\boxed{")
    if start < 0:
        return "None"
    content = said[start + len("\\boxed{") :]
    depth = 0
    for place, character in enumerate(content):
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return content[:place].strip()
    return "None"


def _tagged(said: str) -> str:
    """The contents of all <answer> tags, one blank apart; the whole text without any content."""
    contents = []
    start = said.find("<answer>")
    while start >= 0 and (end := said.find("</answer>", start)) >= 0:
        contents.append(said[start + len("<answer>") : end])
        start = said.find("<answer>", end)
    return " ".join(contents).strip() or said
