"""Record how other harnesses' own code reads answers.

    python tests/kept/harness_code.py VLMEVALKIT LMMS_EVAL MEDEVALKIT

It writes harnesses.json beside it, with which tests compare `benchmarks/harnesses.py`. The arguments are git folders of
the repositories, with the commits named there. inspect-ai 0.3.285 and inspect-evals 0.26.0 must be installed, such as
in an environment of its own. The code of the harnesses is run, and not kept.
"""

from __future__ import annotations

import ast
import asyncio
import copy
import json
import logging
import random
import subprocess
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

KEPT = Path(__file__).with_name("harnesses.json")
VLMEVALKIT = {
    "2024-02": "98e3733f7d5f37efa1587ab03ec349a863bdd149",
    "2025-08": "c3371551bb84a36b8012d277231059c901ffa2f7",
    "2026-06": "a67ace50033b1feed0e42c60749a9f5d0354c7d8",
}
LMMS_EVAL = "75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3"
MEDEVALKIT = "9b12e3b34232a8779cc1275417bf4f72f03d28e0"
CASES = 400
WORDS = (
    *("A", "B", "C", "D", "(A)", "(B)", "a", "b", "E", "A.", "B.", "B,", "**C**", "$D$", "MRA", "CTA", "Cyst", "cyst"),
    *(
        "mass",
        "no",
        "normal",
        "abnormal",
        "the",
        "is",
        "answer",
        "Answer:",
        "ANSWER:",
        "\nANSWER: B",
        "ANSWER: A and C",
    ),
    *("the answer is", "A, C", "so", "lesion", "of", "liver", ".", ",", "\n", "\n\n", ":", "(C).", "Z", "I", "cannot"),
    *("Cannot determine the answer", "yes", "No", "Yes.", "ANSWER: yes", "answer: no.", "正常", "没有", "有", "(left)"),
    *("x-ray", "X ray", "，", "。", "（右）", "Mass.", "correct answer is B", "ANSWER : (D)", "B and C"),
)
OPTIONS = (
    {"A": "Mass", "B": "Cyst", "C": "Stone", "D": "Clip"},
    {"A": "normal", "B": "abnormal"},
    {"A": "no lesion", "B": "lesion of the liver", "C": "B", "D": "the liver", "E": "cyst"},
)


def of_commit(repository: str, commit: str, path: str) -> dict[str, Any]:
    """Run the functions and constants of a file of a commit, without its imports; return its names."""
    text = subprocess.run(
        ["git", "-C", repository, "show", f"{commit}:{path}"], check=True, capture_output=True, text=True
    ).stdout
    tree = ast.parse(f"from __future__ import annotations\n{text}")
    first, *others = tree.body
    tree.body = [first, *(node for node in others if isinstance(node, ast.FunctionDef | ast.Assign))]
    names: dict[str, Any] = {
        **{name: import_module(name) for name in ("os", "re", "string", "random", "difflib")},
        "openai_llm": lambda *_: None,  # MedEvalKit's judge, which is not asked
        **{"cp": copy, "np": np, "lru_cache": lru_cache, "get_logger": logging.getLogger},
    }
    exec(compile(tree, path, "exec"), names)
    return names


def inspect_choice(response: str, options: dict[str, str], multiple: bool) -> str:
    from inspect_ai.solver._multiple_choice import parse_answers

    state: Any = SimpleNamespace(output=SimpleNamespace(completion=response), choices=list(options))
    return "".join(sorted(parse_answers(state, multiple)))


def inspect_closed(response: str, key: str) -> bool:
    from inspect_evals.vqa_rad.scorer import _exact_match_scorer

    state: Any = SimpleNamespace(output=SimpleNamespace(completion=response))
    target: Any = SimpleNamespace(target=[key])
    score: Any = asyncio.run(_exact_match_scorer()(state, target))
    return bool(score.value == "C")


def main() -> None:
    """Draw answers, let each harness read them, and write what it read."""
    vlmevalkit, lmms_eval, medevalkit = sys.argv[1:]
    matching = {
        version: of_commit(vlmevalkit, commit, "vlmeval/utils/matching_util.py")["can_infer"]
        for version, commit in VLMEVALKIT.items()
    }
    choices = of_commit(lmms_eval, LMMS_EVAL, "lmms_eval/tasks/_task_utils/mmmu_mcq_utils.py")
    slake = of_commit(lmms_eval, LMMS_EVAL, "lmms_eval/tasks/slake/utils.py")["normalize_answer"]
    judge = of_commit(medevalkit, MEDEVALKIT, "utils/utils.py")["judge_multi_choice"]
    choices["random"].choice = lambda _: ""  # a draw is recorded as nothing read
    draw = random.Random(7)
    cases = []
    for place in range(CASES):
        words = [draw.choice(WORDS) for _ in range(draw.randint(0, 9))]
        response, set_of = draw.choice((" ", " ", "\n")).join(words), place % len(OPTIONS)
        options = OPTIONS[set_of]
        read = {
            **{
                f"VLMEvalKit {version}": str(infer(response, dict(options)) or "")
                for version, infer in matching.items()
            },
            "lmms-eval, MMMU": choices["parse_mmmu_multi_choice_response"](response, list(options), options),
            "MedEvalKit": "".join(
                letter
                for letter in options
                if judge([f"{each}. {text}" for each, text in options.items()], letter, response)
            ),
            "Inspect, multiple_choice": inspect_choice(response, options, multiple=False),
            "Inspect, several": inspect_choice(response, options, multiple=True),
            "Inspect, yes": inspect_closed(response, "yes"),
            "Inspect, no": inspect_closed(response, "No"),
            "lmms-eval, SLAKE": slake(response),
        }
        cases.append({"response": response, "options": set_of, "read": list(read.values())})
    head = json.dumps({"rules": list(read), "options": OPTIONS}, ensure_ascii=False)[:-1]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    KEPT.write_text(f'{head}, "cases": [\n{lines}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main()
