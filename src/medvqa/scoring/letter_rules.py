"""Published rules of three neighbours for reading a letter, for `--extraction=official`; copied with their flaws.

None of them knows refusals: an answer without a letter is `unparsed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from medvqa.scoring.extraction import Reading

_TRIGGER = "Therefore, among A through {last}, the answer is"
_UNWANTED = ("I understand", "A through J", "A through E", "A through D")

_BOXED = re.compile(r"boxed\{([A-Z])\}")
_MARKERS = ("Answer:", "Answer*", "Final Answer", "final answer")
_STRIPPED = ",.!?;:'"
_FEW_WORDS = 5


def medxpertqa_rule(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Read `response` as MedXpertQA's `answer_cleansing` does for its zero-shot prompts.

    The text after the trigger of the second turn counts, if it is repeated; else that after " answer is "; else all.
    In it, the first option letter that is a word in capitals is chosen. "A tumour" is A. For the prompt of one turn
    the owners look for its own trigger, which ends in " answer is", too. `multiple` changes nothing.

    Source: https://github.com/TsinghuaC3I/MedXpertQA/blob/f21247d3ccf3b14826ff2aa7fa06e1a46d64058c/eval/utils.py
    """
    text = response.strip()
    for mark in (_TRIGGER.format(last=max(options, default="A")), " answer is "):
        parts = text.split(mark)
        if len(parts) > 1:
            text = parts[1].strip()
            break
    for phrase in _UNWANTED:
        text = text.replace(phrase, "")
    found = re.search(rf"\b({'|'.join(map(re.escape, options))})\b", text) if options else None
    return _reading(found[1] if found else "", options, "first capital letter")


def medframeqa_rule(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    r"""Read `response` as MedFrameQA's `parse_multi_choice_response` does.

    In this order: the first `boxed{X}`; after the last "Answer:" (or another marker), the first capital that is an
    option's letter, even within a word; the last "(X)"; the last "X."; in more than five words, the option's text that
    comes last. An option's text ends at its first ". ". `multiple` changes nothing.

    Source: https://github.com/haojinw0027/MedFrameQA/blob/e83fbe3b97a3297beebc997108469bd73b535d0d/src/eval_process.py
    """
    for letter in _BOXED.findall(response):
        if letter in options:
            return _reading(letter, options, "boxed letter")
    marker = next((marker for marker in _MARKERS if marker in response), "")
    stated = response.rpartition(marker)[2].strip() if marker else ""
    if letter := min((letter for letter in options if letter in stated), key=stated.find, default=""):
        return _reading(letter, options, f"first letter after {marker}")
    text = response
    for mark in _STRIPPED:
        text = text.strip(mark)
    text = f" {text} "
    for form, name in (("({})", "letter in brackets"), ("{}.", "letter with a full stop")):
        places = {letter: text.rfind(form.format(letter)) for letter in options if form.format(letter) in text}
        if places:
            return _reading(max(places, key=places.__getitem__), options, f"last {name}")
    if len(text.split()) > _FEW_WORDS:
        lowered = text.lower()
        texts = {letter: option.split(". ")[0].lower() for letter, option in options.items()}
        places = {letter: lowered.rfind(option) for letter, option in texts.items() if option in lowered}
        if places:
            return _reading(max(places, key=places.__getitem__), options, "text of the option that comes last")
    return _reading("", options, "no letter or text")


def rexvqa_rule(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Read `response` as the example script of ReXVQA's owners does: the first A, B, C or D in it, in either case.

    It may be within a word: "Based on the image, C" is B, and "Answer: C" is A. `multiple` changes nothing.

    Source: https://github.com/rajpurkarlab/ReXrank/blob/0a18a41e580992ac7cd32a8a9463009654f0d390/example_files/medgemma_inference.py
    (`evaluate_results`).
    """
    letter = next((letter for letter in response.strip().upper() if letter in "ABCD"), "")
    return _reading(letter, options, "first letter of A to D")


def _reading(letter: str, options: Mapping[str, str], why: str) -> Reading:
    if letter in options:
        return Reading((letter,), "read", f"published rule: {why}: {letter}")
    return Reading((), "unparsed", f"published rule: {why}: none")
