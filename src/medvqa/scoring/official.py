"""The published rules of the benchmarks' owners for reading an answer, for `--extraction=official`.

They are copied with their flaws, so that published numbers can be reproduced. None of them detects refusals: every
answer without a letter is `unparsed`.
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

    A letter is chosen if one of nine exact tokens (`A`, `A:`, `.A`, `.A:`, `A.`, `A")`, `("A":`, `("A")`,
    `("A").`) stands between spaces or line ends. Letters of several options, or of none, make the answer invalid.
    "(A)" and "**A**" are invalid, "A patient ..." is A. `multiple` changes nothing: the benchmark has single
    choices only.

    Source: https://github.com/AIF4S/MediConfusion/blob/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7/utils/answering.py
    (its two tokens with a line break never match, because it first turns line breaks into spaces).
    """
    tokens = set(response.replace("\n", " ").split(" "))
    letters = [letter for letter in options if any(form.format(letter) in tokens for form in _MEDICONFUSION_TOKENS)]
    if len(letters) == 1:
        return Reading((letters[0],), "read", f"official token list: {letters[0]}")
    return Reading((), "unparsed", f"official token list: {' and '.join(letters) or 'no letter'}")


def gmai_rule(
    response: str, options: Mapping[str, str], *, multiple: bool = False, version: str = GMAI_VERSIONS[-1]
) -> Reading:
    """Read `response` by the exact matching of VLMEvalKit, the harness of GMAI-MMBench's authors.

    First by letter (`can_infer_option`): fourteen punctuation marks become spaces, and exactly one option letter must
    be among the words. Then by text (`can_infer_text`): the response must contain exactly one option's text, in any
    case and across word borders ("abnormal" contains "normal"). `multiple` changes nothing: the harness reads one
    letter. The versions differ:

    - 2024-02: as above, anywhere in the response. "A patient ..." is A.
    - 2025-08: the letter must first occur among the last four words. Texts are searched only if the response is at
      most twice as long as all options together.
    - 2026-06: if the words give no letter, one of A to D after "answer is" counts, in either case. "The answer is
      a tumour ..." is A.

    Differences from a run of the harness: if nothing matches, the harness asks an LLM for the letter (or Z for none).
    After three failures it draws a random option. Here the answer is `unparsed`, as under the harness's
    `exact_matching` policy. As there, a letter Z or one of four known refusals is `unparsed` before texts are searched.
    The environment variable VERBOSE is ignored; it makes the harness distrust the letter A in answers of more than
    three words. The paper's numbers used ChatGPT-3.5-turbo-0613 as the extractor (supplement, D), so this rule
    approximates them.

    Source: vlmeval/utils/matching_util.py of https://github.com/open-compass/VLMEvalKit/tree/COMMIT, where COMMIT is
    98e3733f7d5f37efa1587ab03ec349a863bdd149 for 2024-02 (that of the months in which the benchmark was published),
    c3371551bb84a36b8012d277231059c901ffa2f7 for 2025-08, and a67ace50033b1feed0e42c60749a9f5d0354c7d8 for 2026-06.
    """
    chosen, why = gmai_choice(response, options, version)
    return Reading((chosen,) if chosen in options else (), "read" if chosen in options else "unparsed", why)


def gmai_choice(response: str, options: Mapping[str, str], version: str = GMAI_VERSIONS[-1]) -> tuple[str, str]:
    """Return the result of `gmai_rule` and the reason: a letter of `options`, "Z" for none of them, "" if unreadable.

    The harness reads both the answers of models and the replies of its extractor in this way.
    """
    if version not in GMAI_VERSIONS:
        raise ValueError(f"no version {version!r}; there are: {', '.join(GMAI_VERSIONS)}")
    if "Failed to obtain answer via API" not in response:
        if any(refusal in response for refusal in _GMAI_REFUSALS):
            return "Z", "exact matching: a known refusal"
        words = response.translate(_GMAI_SPACES).split()
        letters = [letter for letter in options if letter in words]
        if len(letters) == 1 and (version < "2025-08" or words.index(letters[0]) > len(words) - 5):
            return letters[0], f"exact matching: letter {letters[0]}"
        if not letters and "Z" in words:
            return "Z", "exact matching: the letter Z"
        stated = _GMAI_STATEMENT.search(response) if version >= "2026-06" else None
        if stated and stated[1].upper() in options:
            return stated[1].upper(), f"exact matching: the answer is {stated[1].upper()}"
    lowered = response.lower()
    if version >= "2025-08" and len(lowered) > 2 * sum(map(len, options.values())):
        return "", "exact matching: no letter, and too long for a text"
    letters = [letter for letter, text in options.items() if text.lower() in lowered]
    if len(letters) == 1:
        return letters[0], f"exact matching: text of {letters[0]}"
    return "", f"exact matching: {'texts of ' + ', '.join(letters) if letters else 'no letter or text'}"
