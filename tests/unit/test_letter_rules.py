"""Published rules of the neighbours for reading a letter, with their flaws."""

from __future__ import annotations

import pytest

from medvqa.scoring import Reader
from medvqa.scoring.letter_rules import medframeqa_rule, medxpertqa_rule, rexvqa_rule

OPTIONS = {"A": "growth", "B": "shrinkage. Of both", "C": "none", "D": "it's shifted"}
MX, MF, RX = medxpertqa_rule, medframeqa_rule, rexvqa_rule


@pytest.mark.parametrize(
    ("rule", "response", "letter"),
    [
        (MX, "C", "C"),
        (MX, "The answer is C, not D.", "C"),
        (MX, "B. Therefore, among A through D, the answer is C", "C"),
        (MX, "Among A through D, it is B", "B"),
        (MX, "I understand. So B", "B"),
        (MX, "A patient like this has C", "A"),
        (MX, "first A, then the answer is\nC", "A"),
        (MX, "c", ""),
        (MX, "ABC", ""),
        (MX, "", ""),
        (MF, "Answer: B or A", "B"),
        (MF, "Answer: A\nAnswer: D", "D"),
        (MF, "Answer: Certainly A", "C"),
        (MF, r"(A) (C) \boxed{B}", "B"),
        (MF, r"\boxed{Z} (C)", "C"),
        (MF, "(A) then (C)", "C"),
        (MF, "A. growth, or C. none", "C"),
        (MF, "the frames clearly show growth of it", "A"),
        (MF, "we saw growth first, and later came shrinkage there", "B"),
        (MF, "shows growth", ""),
        (MF, "A", ""),
        (MF, "", ""),
        (RX, "b", "B"),
        (RX, "Answer: C", "A"),
        (RX, "It is (C)", "C"),
        (RX, "none", ""),
        (RX, "Left", ""),
        (RX, "", ""),
    ],
)
def test_a_published_rule_reads_as_its_code_does(rule: Reader, response: str, letter: str) -> None:
    """Computed by the owners' code at the pinned commits."""
    reading = rule(response, OPTIONS)
    assert reading.letters == ((letter,) if letter else ())
    assert reading.status == ("read" if letter else "unparsed")


@pytest.mark.parametrize("rule", [MX, MF, RX])
def test_a_rule_survives_hostile_responses(rule: Reader) -> None:
    for response in ("\x00", "(" * 10_000, "Answer:" * 5000, "boxed{" * 5000, "\ud800", "answer is " * 5000):
        assert rule(response, OPTIONS).status in ("read", "unparsed")
    assert rule("A", {}).status == "unparsed"
