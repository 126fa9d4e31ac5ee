"""How fast options are read out of a megabyte of text: `python bench/extraction.py`, in MB of CPU time per second."""

from __future__ import annotations

import random
import time

from medvqa.scoring import read_options

GOAL = 1.0
"""MB per second of CPU time, for any text."""
MEGABYTE = 1_000_000
OPTIONS = {"A": "melanoma", "B": "nevus", "C": "basal cell carcinoma", "D": "no nevus", "E": "vascular lesion"}
UNITS = (
    *(
        "a",
        "A ",
        "B x ",
        "B. ",
        "(B",
        "(",
        " ",
        "\n",
        "*",
        "_",
        "> ",
        "- A\n",
        "A\n",
        "A,",
        "A and ",
        "'",
        '"',
        "\t",
        "<",
        "[ ",
    ),
    *(
        "the answer is ",
        "answer ",
        "answer: B\n",
        "answer\n",
        "B is the most ",
        "B is correct. ",
        "so the ",
        "not A but ",
        "if ",
    ),
    *(
        "<think>",
        "</think>",
        "<think></think>",
        "<answer>",
        "<br ",
        "\\boxed{",
        "\\boxed{B}",
        '"answer": ',
        '{"answer": "B"}',
    ),
    *(
        '"answer": [',
        "nevus ",
        "no nevus, ",
        "wait, no ",
        "cannot ",
        "答案是",
        "选B",
        "Ｂ",
        "\ufdfa",
        "a\u0301",
        "B\nQuestion: ",
    ),
)


def seconds(response: str, *, multiple: bool) -> float:
    """CPU time of one reading."""
    start = time.process_time()
    read_options(response, OPTIONS, multiple=multiple)
    return time.process_time() - start


def main() -> None:
    draw = random.Random(0)
    texts = {repr(unit): unit * (MEGABYTE // len(unit)) for unit in UNITS}
    texts["random letters and marks"] = "".join(draw.choices("AB ab.,()*\n:isnot", k=MEGABYTE))
    texts["random characters"] = "".join(chr(draw.randrange(1, 0xD800)) for _ in range(MEGABYTE))
    slowest = 0.0
    for name, text in texts.items():
        taken = max(seconds(text, multiple=multiple) for multiple in (False, True))
        slowest = max(slowest, taken)
        print(f"{len(text) / MEGABYTE / taken:8.1f} MB/s  {name}")
    typical = "The border is regular, so the answer is B. nevus."
    start = time.process_time()
    for _ in range(1000):
        read_options(typical, OPTIONS)
    print(f"{time.process_time() - start:8.3f} ms for {typical!r}")
    print(f"{1 / slowest:8.1f} MB/s at worst, goal {GOAL}")


if __name__ == "__main__":
    main()
