"""The published rules by which the benchmarks' owners read an answer, for `--extraction=official`.

They are kept as they are, flaws included, so that published numbers can be reproduced. None of them tells a
refusal from an answer it cannot read: what is not read is `unparsed`.
"""

from __future__ import annotations

from collections.abc import Mapping

from medvqa.scoring.extraction import Reading

_MEDICONFUSION_TOKENS = ("{}", "{}:", ".{}", ".{}:", "{}.", '{}")', '("{}":', '("{}")', '("{}").')

_GMAI_REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_GMAI_SPACES = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))


def mediconfusion_rule(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Read `response` as MediConfusion's answer cleaner does (`clean_up_manual`).

    A letter is chosen when one of nine exact tokens (`A`, `A:`, `.A`, `.A:`, `A.`, `A")`, `("A":`, `("A")`,
    `("A").`) stands between spaces or line ends; letters of several options make the answer invalid, and so
    does none. "(A)" and "**A**" are invalid, "A patient ..." is A. `multiple` changes nothing: the benchmark
    has single choices only.

    Source: https://github.com/AIF4S/MediConfusion/blob/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7/utils/answering.py
    (its two tokens with a line break never match, because line breaks are turned into spaces first).
    """
    tokens = set(response.replace("\n", " ").split(" "))
    found = [letter for letter in options if any(form.format(letter) in tokens for form in _MEDICONFUSION_TOKENS)]
    if len(found) == 1:
        return Reading((found[0],), "read", f"official token list: {found[0]}")
    return Reading((), "unparsed", f"official token list: {' and '.join(found) or 'no letter'}")


def gmai_rule(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Read `response` by the exact matching of VLMEvalKit, the harness that GMAI-MMBench's authors used.

    First letters (`can_infer_option`): after fourteen punctuation marks became spaces, exactly one option
    letter is among the words. Then texts (`can_infer_text`): exactly one option's text is contained in the
    response, in lower case and without regard to word borders. "A patient ..." is A, and "abnormal" contains
    "normal". `multiple` changes nothing: the harness reads one letter.

    What differs from a run of the harness: where nothing matches, it asks an LLM for the letter (which may
    answer Z, none) and after three failures draws a random option; here nothing is drawn, the answer is
    `unparsed`, as under the harness's own `exact_matching` policy. A letter Z or one of four known refusals
    is `unparsed` at once, without a look at the texts, as there. The environment variable VERBOSE, which
    makes the harness distrust the letter A in answers of more than three words, is not read. The paper's own
    numbers used ChatGPT-3.5-turbo-0613 as the extractor (supplement, D), so this rule approximates them.

    Source: https://github.com/open-compass/VLMEvalKit/blob/18fc37a5337e31eec9c104887728ad14e82a6a85/vlmeval/utils/matching_util.py
    (later versions also look at the position of the letter and at the length of the response).
    """
    if "Failed to obtain answer via API" not in response:
        if any(refusal in response for refusal in _GMAI_REFUSALS):
            return Reading((), "unparsed", "exact matching: a known refusal")
        words = set(response.translate(_GMAI_SPACES).split())
        found = [letter for letter in options if letter in words]
        if len(found) == 1:
            return Reading((found[0],), "read", f"exact matching: letter {found[0]}")
        if not found and "Z" in words:
            return Reading((), "unparsed", "exact matching: the letter Z")
    lowered = response.lower()
    found = [letter for letter, text in options.items() if text.lower() in lowered]
    if len(found) == 1:
        return Reading((found[0],), "read", f"exact matching: text of {found[0]}")
    return Reading(
        (), "unparsed", f"exact matching: {'texts of ' + ', '.join(found) if found else 'no letter or text'}"
    )
