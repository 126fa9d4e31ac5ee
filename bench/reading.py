"""How many responses of held_back.jsonl are read as expected: `python bench/reading.py [--show] [--forms]`.

The rules that other evaluation programs publish read the same single choices below.

A row has options or a vocabulary, a response, how it ended, and what a careful reader takes it to say. The rules were
written by looking at the half "development" alone. `--show` prints the rows of it that are read otherwise, and
`--forms` what each rule reads in a few forms of answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from medvqa.benchmarks.gmai_mmbench import gmai_rule
from medvqa.benchmarks.harnesses import inspect_letters, lmms
from medvqa.benchmarks.medframeqa import medframeqa_rule
from medvqa.benchmarks.mediconfusion import mediconfusion_rule
from medvqa.benchmarks.medxpertqa import medxpertqa_rule
from medvqa.benchmarks.mmmu import mmmu_rule
from medvqa.benchmarks.rexvqa import rexvqa_rule
from medvqa.metrics.kits import medevalkit_choice
from medvqa.scoring import Reading, read_options, read_term

ROWS = Path(__file__).parents[1] / "tests/support/held_back.jsonl"
OTHERS: Mapping[str, Callable[[str, Mapping[str, str]], Reading]] = {
    "VLMEvalKit 2024-02": partial(gmai_rule, version="2024-02"),
    "VLMEvalKit 2025-08": partial(gmai_rule, version="2025-08"),
    "VLMEvalKit 2026-06": partial(gmai_rule, version="2026-06"),
    "lmms-eval, MMMU": lmms,
    "Inspect": inspect_letters,
    "MediConfusion": mediconfusion_rule,
    "MMMU": mmmu_rule,
    "MedXpertQA": medxpertqa_rule,
    "MedFrameQA": medframeqa_rule,
    "ReXVQA": rexvqa_rule,
}
"""Published rules without the random option or the language model that some of them ask where they read nothing."""
FORMS = (
    *("B", "(B)", "**B**", "B. cyst", "The answer is B.", "ANSWER: B", "A patient like this has a cyst"),
    *("The answer is a cyst", "MRA shows no abnormality here at all", "I cannot view images", ""),
)
"""Responses for `--forms`, to a question with these options."""
FORM_OPTIONS = {"A": "mass", "B": "cyst", "C": "normal"}
HALVES = ("development", "held back", "later", "misleading")


def rows() -> Iterator[dict[str, Any]]:
    """Yield the responses and what they say."""
    with ROWS.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def reading(row: Mapping[str, Any]) -> Reading:
    """Read the response of a row."""
    finished = row["finish"] != "length"
    if "vocabulary" in row:
        return read_term(row["response"], row["vocabulary"], finished=finished)
    return read_options(row["response"], row["options"], multiple=row.get("multiple", False), finished=finished)


def verdict(row: Mapping[str, Any], said: Reading) -> str:
    """Return "as expected", "missed" (nothing is read, or another reason is given), or "wrong letter"."""
    expected = row["expected"]
    if said.status != "read":
        return "as expected" if said.status == expected else "missed"
    return "as expected" if list(said.letters) == expected else "wrong letter"


def letters_of(name: str, row: Mapping[str, Any]) -> list[str]:
    """Return the letters that a rule reads from a single choice."""
    options, response = row["options"], row["response"]
    if name == "MedEvalKit":  # it tells only whether a letter is its reading, and always has one
        shown = [f"{letter}. {text}" for letter, text in options.items()]
        return [letter for letter in options if medevalkit_choice(shown, letter, response)]
    return list(reading(row).letters if name == "ours" else OTHERS[name](response, options).letters)


def by_others(name: str, row: Mapping[str, Any]) -> str:
    """Return "right letter", "wrong letter" or "nothing": the reading of a single choice by a published rule."""
    letters, expected = letters_of(name, row), row["expected"]
    return "nothing" if not letters else "right letter" if letters == expected else "wrong letter"


def compare() -> None:
    """Print the letters that each rule reads from the single choices."""
    single = [row for row in rows() if "options" in row and not row.get("multiple")]
    with_letter = sum(isinstance(row["expected"], list) for row in single)
    print(f"\n{len(single)} single choices, {with_letter} of which choose an option:")
    for name in ("ours", *OTHERS, "MedEvalKit"):
        ended = [by_others(name, row) for row in single]
        right, wrong = ended.count("right letter"), ended.count("wrong letter")
        print(f"{name:19} {right:4} right letters ({100 * right / with_letter:.1f} %), {wrong:4} wrong letters")


def forms() -> None:
    """Print what each rule reads in a few forms of answers."""
    for response in FORMS:
        row = {"options": FORM_OPTIONS, "response": response, "finish": "stop"}
        read = {name: "".join(letters_of(name, row)) or "-" for name in ("ours", *OTHERS, "MedEvalKit")}
        print(f"{response!r}: {', '.join(f'{name} {letters}' for name, letters in read.items())}")


def main() -> None:
    """Print the share that is read as expected, and the number of wrong letters, of each half and of all."""
    verdicts = [(row, said, verdict(row, said)) for row in rows() for said in [reading(row)]]
    for half in (*HALVES, "all"):
        ended = [how for row, _, how in verdicts if half in (row["half"], "all")]
        right, wrong = ended.count("as expected"), ended.count("wrong letter")
        share = 100 * right / len(ended)
        print(f"{half:12} {right:4} of {len(ended):4} as expected ({share:.1f} %), {wrong} wrong letters")
    compare()
    if "--forms" in sys.argv[1:]:
        forms()
    if "--show" in sys.argv[1:]:
        for row, said, how in verdicts:
            if how != "as expected" and row["half"] == "development":
                print(f"{how}: expected {row['expected']}, read {said.letters or said.status} ({said.why})")
                cut = "cut " if row["finish"] == "length" else ""
                print(f"    {row['response']!r} {cut}{[*row.get('options', {}).values()]}")


if __name__ == "__main__":
    main()
