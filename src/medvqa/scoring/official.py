"""The published rules by which the benchmarks' owners read an answer, for `--extraction=official`.

They are kept as they are, flaws included, so that published numbers can be reproduced. None of them tells a
refusal from an answer it cannot read: what is not read is `unparsed`.
"""

from __future__ import annotations

import re
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
_GMAI_STATEMENT = re.compile(r"answer\s+is\s+\**([A-D])", re.I)

GMAI_VERSIONS = ("2024-02", "2025-08", "2026-06")
"""Versions of `gmai_rule`, by the month in which VLMEvalKit changed its rule, the oldest first."""


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


def gmai_rule(
    response: str, options: Mapping[str, str], *, multiple: bool = False, version: str = GMAI_VERSIONS[-1]
) -> Reading:
    """Read `response` by the exact matching of VLMEvalKit, the harness that GMAI-MMBench's authors used.

    First letters (`can_infer_option`): after fourteen punctuation marks became spaces, exactly one option
    letter is among the words. Then texts (`can_infer_text`): exactly one option's text is contained in the
    response, in lower case and without regard to word borders. "abnormal" contains "normal". `multiple` changes
    nothing: the harness reads one letter. What the versions differ in:

    - 2024-02: as above, wherever the letter stands. "A patient ..." is A.
    - 2025-08: the letter must first occur among the last four words, and texts are looked for only in a response of
      at most twice the length of all options together.
    - 2026-06: where the words give no letter, one of A to D after "answer is" counts, in either case. "The answer is
      a tumour ..." is A.

    What differs from a run of the harness: where nothing matches, it asks an LLM for the letter (which may
    answer Z, none) and after three failures draws a random option; here nothing is drawn, the answer is
    `unparsed`, as under the harness's own `exact_matching` policy. A letter Z or one of four known refusals
    is `unparsed` at once, without a look at the texts, as there. The environment variable VERBOSE, which
    makes the harness distrust the letter A in answers of more than three words, is not read. The paper's own
    numbers used ChatGPT-3.5-turbo-0613 as the extractor (supplement, D), so this rule approximates them.

    Source: vlmeval/utils/matching_util.py of https://github.com/open-compass/VLMEvalKit/tree/COMMIT, where COMMIT is
    98e3733f7d5f37efa1587ab03ec349a863bdd149 for 2024-02 (that of the months in which the benchmark was published),
    c3371551bb84a36b8012d277231059c901ffa2f7 for 2025-08, and a67ace50033b1feed0e42c60749a9f5d0354c7d8 for 2026-06.
    """
    chosen, why = gmai_choice(response, options, version)
    return Reading((chosen,) if chosen in options else (), "read" if chosen in options else "unparsed", why)


def gmai_choice(response: str, options: Mapping[str, str], version: str = GMAI_VERSIONS[-1]) -> tuple[str, str]:
    """What `gmai_rule` finds, and why: a letter of `options`, "Z" for none of them, or "" for nothing that it can read.

    So the harness reads both what a model answers and what the model replies that it asks about an answer.
    """
    if version not in GMAI_VERSIONS:
        raise ValueError(f"no version {version!r}; there are: {', '.join(GMAI_VERSIONS)}")
    if "Failed to obtain answer via API" not in response:
        if any(refusal in response for refusal in _GMAI_REFUSALS):
            return "Z", "exact matching: a known refusal"
        words = response.translate(_GMAI_SPACES).split()
        found = [letter for letter in options if letter in words]
        if len(found) == 1 and (version < "2025-08" or words.index(found[0]) > len(words) - 5):
            return found[0], f"exact matching: letter {found[0]}"
        if not found and "Z" in words:
            return "Z", "exact matching: the letter Z"
        stated = _GMAI_STATEMENT.search(response) if version >= "2026-06" else None
        if stated and stated[1].upper() in options:
            return stated[1].upper(), f"exact matching: the answer is {stated[1].upper()}"
    lowered = response.lower()
    if version >= "2025-08" and len(lowered) > 2 * sum(map(len, options.values())):
        return "", "exact matching: no letter, and too long for a text"
    found = [letter for letter, text in options.items() if text.lower() in lowered]
    if len(found) == 1:
        return found[0], f"exact matching: text of {found[0]}"
    return "", f"exact matching: {'texts of ' + ', '.join(found) if found else 'no letter or text'}"
