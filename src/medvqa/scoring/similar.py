"""The published rule of PMC-VQA and OmniMedVQA: take the option most similar to the answer.

It reads every text as some option: "the kidneys" is the liver if no option is nearer. Use it only to reproduce
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


def similar_rule(
    response: str, options: Mapping[str, str], *, multiple: bool = False, form: str = OMNIMEDVQA
) -> Reading:
    """Read `response` as the owners of PMC-VQA and OmniMedVQA do (`find_most_similar_index`).

    The option with the largest `difflib` ratio is chosen, the first of equals, whatever the answer says. Each option is
    compared in the `form` that the owners write. An answer that shares no character with any option is `unparsed`; the
    owners count it as wrong, too. PMC-VQA's code compares the last character of its model's one token; here it is the
    whole response. `multiple` changes nothing: the benchmarks have single choices only.

    Sources: src/MedVInT_TD/test.py of
    https://github.com/xiaoman-zhang/PMC-VQA/tree/1678ec2c97f0b2bf84591ddccd2e84932630e450 and
    MedicalEval/Question-answering_Score/utils/medicalqa.py of
    https://github.com/OpenGVLab/Multi-Modality-Arena/tree/bd2999a3be2bf4539a7e071cf2cfab5822f66417.
    """
    texts = {letter: form.format(letter=letter, text=text) for letter, text in options.items()}
    if any(len(text) * len(response) > MAX_COMPARED for text in texts.values()):
        return Reading((), "unparsed", "most similar option: too long to compare")
    letter = _most_similar(response, texts)
    if not letter:
        return Reading((), "unparsed", "most similar option: nothing is similar")
    return Reading((letter,), "read", f"most similar option: {letter}")


def _most_similar(response: str, texts: Mapping[str, str]) -> str:
    """Return the letter of the text that is most similar to a response, "" if nothing is similar."""
    best, most = "", 0.0
    for letter, text in texts.items():
        ratio = SequenceMatcher(None, text, response).ratio()
        if ratio > most:
            best, most = letter, ratio
    return best
