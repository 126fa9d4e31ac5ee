"""How many responses of tests/support/held_back.jsonl are read as expected: `python bench/reading.py [--show]`.

A row has options or a vocabulary, a response, how it ended, and what a careful reader takes it to say. The rules were
written by looking at the half "development" alone. `--show` prints the rows of it that are read otherwise.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medvqa.scoring import Reading, read_options, read_term

ROWS = Path(__file__).parents[1] / "tests/support/held_back.jsonl"
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


def main() -> None:
    """Print the share that is read as expected, and the number of wrong letters, of each half and of all."""
    verdicts = [(row, said, verdict(row, said)) for row in rows() for said in [reading(row)]]
    for half in (*HALVES, "all"):
        ended = [how for row, _, how in verdicts if half in (row["half"], "all")]
        right, wrong = ended.count("as expected"), ended.count("wrong letter")
        share = 100 * right / len(ended)
        print(f"{half:12} {right:4} of {len(ended):4} as expected ({share:.1f} %), {wrong} wrong letters")
    if "--show" in sys.argv[1:]:
        for row, said, how in verdicts:
            if how != "as expected" and row["half"] == "development":
                print(f"{how}: expected {row['expected']}, read {said.letters or said.status} ({said.why})")
                cut = "cut " if row["finish"] == "length" else ""
                print(f"    {row['response']!r} {cut}{[*row.get('options', {}).values()]}")


if __name__ == "__main__":
    main()
