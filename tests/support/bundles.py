"""A reader of bundles, as docs/decisions/0008-pages.md describes them: independent of the code that writes them."""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

FORMATS = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "f64": "d"}


class BundleReader:
    """The rows of a bundle, from its blocks as they are when inflated."""

    def __init__(self, blocks: Mapping[str, bytes]) -> None:
        self.head = json.loads(blocks["head"])
        assert self.head["version"] == 3
        names = ("words", "options", "lists", "images")
        self.tables = {name: json.loads(blocks[f"tables/{name}"]) for name in names}
        self.answers = [answer for k in range(self.head["answers"]) for answer in json.loads(blocks[f"answers/{k}"])]
        self.columns = {
            each["name"]: struct.unpack_from(
                f"<{each['length']}{FORMATS[each['type']]}", blocks["columns"], each["start"]
            )
            for each in self.head["columns"]
        }

    def listed(self, name: str, place: int) -> tuple[Any, ...]:
        """Element `place` of a column of lists."""
        offsets = self.columns[f"{name}.offsets"]
        return self.columns[f"{name}.values"][offsets[place] : offsets[place + 1]]

    def word(self, place: int) -> str:
        """A string."""
        return self.tables["words"][place]

    def options(self, place: int) -> list[tuple[str, str]]:
        """Letters and texts."""
        return [(letter, self.word(text)) for letter, text in self.tables["options"][place]]

    def flips(self, new: int, baseline: int) -> list[tuple[str, str, str, bool]]:
        """Of a comparison: benchmark, measure and id of each unit that flipped, and whether the new run is better."""
        found, runs = [], len(self.head["runs"])
        for place, scale in enumerate(self.head.get("scales", [])):
            values = self.columns[f"units/{place}.values"]
            for unit, start in enumerate(range(0, len(values), runs)):
                change = values[start + new] - values[start + baseline]
                if change < 0 or change > 0:
                    first = self.listed(f"units/{place}.questions", unit)[0]
                    pair = self.columns["questions.pair"][first]
                    name = self.word(self.columns["questions.id"][first] if pair < 0 else pair)
                    benchmark = self.head["benchmarks"][scale["benchmark"]]["name"]
                    found.append((benchmark, scale["measure"], name, (change > 0) != scale["lower"]))
        return found

    def row(self, r: int) -> dict[str, Any]:
        """A result, as `support.written.expected` has it."""
        head, columns, lists = self.head, self.columns, self.tables["lists"]
        q = columns["results.question"][r]
        answer = self.answers[r] if self.answers else {}
        tags = {}
        for d, dimension in enumerate(head["dimensions"]):
            places = self.listed(f"tags/{d}", q if dimension["of"] == "questions" else r)
            if places:
                tags[dimension["name"]] = [dimension["values"][place]["value"] for place in places]
        pair, seconds = columns["questions.pair"][q], columns["results.seconds"][r]
        row = {
            "key": {
                "benchmark": head["benchmarks"][columns["questions.benchmark"][q]]["name"],
                "item": self.word(columns["questions.id"][q]),
                "technique": head["techniques"][columns["results.technique"][r]],
                "variant": head["variants"][int(columns["results.variant"][r])],
                "sample": columns["results.sample"][r],
            },
            "kind": head["kinds"][columns["questions.kind"][q]],
            "text": self.word(columns["questions.text"][q]),
            "pair": None if pair < 0 else self.word(pair),
            "answers": tuple(lists[columns["questions.answers"][q]]),
            "options": self.options(columns["questions.options"][q]),
            "shown": self.options(columns["results.options"][r]),
            "right": tuple(lists[columns["results.answers"][r]]),
            "extracted": tuple(lists[columns["results.extracted"][r]]),
            "outcome": head["outcomes"][columns["results.outcome"][r]],
            "why": answer.get("why", ""),
            "finish": head["finishes"][int(columns["results.finish"][r])],
        }
        return {
            "row": row,
            "tags": tags,
            "images": [self.tables["images"][place]["name"] for place in self.listed("questions.images", q)],
            "seconds": None if math.isnan(seconds) else seconds,
            "response": answer.get("response"),
            "usage": answer.get("usage"),
        }
