"""Our copies of published rules against the owners' own code, where a folder with it is named.

The variable MEDVQA_PINNED names a folder with the owners' files (the commits are in the data sets' own
files): mmmu_eval_utils.py and example_outputs/ of MMMU,
omnimedvqa_medicalqa.py, pmc_vqa_test.py, medevalkit_utils.py, medxpertqa_utils.py and medframeqa_eval_process.py.
Without it the tests are skipped: the files are not ours to ship.
"""

import ast
import difflib
import json
import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medvqa.benchmarks import medframeqa, medxpertqa, mmmu, omnimedvqa, pmc_vqa
from medvqa.items import Answer, Benchmark, Item, Kit, Result, Score

ROOT = Path(__file__).parents[2]
PINNED = Path(os.environ.get("MEDVQA_PINNED", ROOT.parent / "shared" / "pinned"))
needs_pinned = pytest.mark.skipif(
    not (PINNED / "mmmu_eval_utils.py").is_file(), reason="MEDVQA_PINNED names no folder with the owners' scorers"
)
pytestmark = [pytest.mark.slow, needs_pinned]

OFFICIAL: dict[str, Any] = {
    benchmark.name: benchmark.owners.rule.score for file in (mmmu, omnimedvqa, pmc_vqa) for benchmark in file.BENCHMARKS
}
WORDS = (
    *("A", "B", "C", "D", "(A)", "(B)", "a", "b", "E", "Cyst", "cyst", "mass", "no", "normal", "abnormal", "the", "is"),
    *("answer", "Answer:", "answer is", "final answer", "**Answer:**", "so", "therefore", "could be", "=", "1,000"),
    *("0.5", ".50", "2e3", "-7", "12", "3.14159", "mg", "<answer>", "</answer>", "\\boxed{", "}", "B.", "A:Mass", "."),
    *(",", "!", ":", "\n", "\n\n", "答案:", "x", "CT", "MRI", "X-ray", "cyst of the liver", "None"),
)
TEXTS = ("Mass", "Cyst", "Stone", "Clip", "CT", "MRI", "normal", "abnormal", "1,000", "0.5 mg", "the liver", "B", "x")


def owned(file: str, *names: str, **extra: Any) -> dict[str, Any]:
    """Functions of the owners' file by name, without its imports."""
    tree = ast.parse((PINNED / file).read_text("utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    space: dict[str, Any] = {"re": re, "difflib": difflib, "random": random, **extra}
    exec(compile(tree, file, "exec"), space)
    return space


def responses(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return ["", " ", *(" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count))]


def drawn_options(draw: random.Random) -> dict[str, str]:
    return dict(zip("ABCD", draw.sample(TEXTS, draw.randint(2, 4)), strict=False))


def hits(items: Sequence[Item], said: Sequence[str], score: Callable[[Item, Answer], Any]) -> list[bool]:
    return [score(item, Answer(text)).outcome == "correct" for item, text in zip(items, said, strict=True)]


def choices(count: int, seed: int) -> list[Item]:
    draw = random.Random(seed)
    made = []
    for number in range(count):
        options = drawn_options(draw)
        made.append(Item(str(number), "b", "single_choice", "?", options, (draw.choice(list(options)),)))
    return made


def test_mmmu_counts_choices_as_its_owners_do_where_nothing_is_drawn() -> None:
    import numpy as np

    def none_drawn(letters: Sequence[str]) -> str:
        return ""

    theirs = owned("mmmu_eval_utils.py", "parse_multi_choice_response", np=np)
    theirs["random"] = type("Draw", (), {"choice": staticmethod(none_drawn)})
    said = responses(4000, 1)
    items = choices(len(said), 2)
    expected = [
        theirs["parse_multi_choice_response"](text, list(item.options), item.options) == item.answers[0]
        for item, text in zip(items, said, strict=True)
    ]
    assert hits(items, said, OFFICIAL["mmmu-health-val"]) == expected
    assert 200 < sum(expected) < 3800


def test_mmmu_counts_open_answers_as_its_owners_do() -> None:
    names = ("parse_open_response", "eval_open", "extract_numbers", "normalize_str", "check_is_number")
    theirs = owned("mmmu_eval_utils.py", *names, Dict=dict)
    said = responses(4000, 3)
    draw = random.Random(4)
    references = [tuple(draw.sample((*TEXTS, "0.50", "12", "-7", "3.141", "7"), draw.randint(1, 2))) for _ in said]
    items = [Item(str(n), "b", "short_answer", "?", {}, keys) for n, keys in enumerate(references)]
    expected = [
        theirs["eval_open"](list(keys), theirs["parse_open_response"](text))
        for keys, text in zip(references, said, strict=True)
    ]
    assert hits(items, said, mmmu.open_rule) == expected
    assert 200 < sum(expected) < 3800


@pytest.mark.parametrize(("model", "counts"), [("llava1.5_13b", [15, 12, 11, 8, 12]), ("qwen_vl", [9, 9, 5, 11, 13])])
def test_mmmus_own_example_outputs_have_its_own_counts(model: str, counts: list[int]) -> None:
    """58 and 47 of 150. In Qwen-VL's outputs the owners draw five options; here these answers are unparsed."""
    right, unparsed = [], 0
    for subject in mmmu.SUBJECTS:
        rows = json.loads((PINNED / "example_outputs" / model / subject / "output.json").read_text("utf-8"))
        scores = []
        for row in rows:
            keys = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
            options = row.get("index2ans", {})
            kind = "single_choice" if row["question_type"] == mmmu.CHOICE else "short_answer"
            item = Item(row["id"], "mmmu-health-val", kind, "?", options, tuple(keys))
            scores.append(OFFICIAL["mmmu-health-val"](item, Answer(row["response"])))
        right.append(sum(score.outcome == "correct" for score in scores))
        unparsed += sum(score.outcome == "unparsed" for score in scores)
    assert (right, unparsed) == (counts, 0 if model == "llava1.5_13b" else 5)


LETTERED = (
    *("A.", "F", "*C*", "E)", "A tumour", "boxed{B}", "boxed{F}", "The answer is", "Answer*", "Final Answer", "'", "a"),
    *("Certainly", "A through E", "I understand", "Therefore, among A through E, the answer is", "none of. these"),
)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("medxpertqa_utils.py", "answer_cleansing"),
        ("medframeqa_eval_process.py", "parse_multi_choice_response"),
    ],
)
def test_letters_are_read_as_the_owners_read_them(file: str, name: str) -> None:
    if not (PINNED / file).is_file():
        pytest.skip(f"MEDVQA_PINNED has no {file}")
    read: Any = owned(file, name, print=lambda *_: None, np=np)[name]
    options = {"A": "Mass", "B": "Cyst", "C": "none of. these", "D": "abnormal", "E": "x"}
    draw, trigger = random.Random(11), "Therefore, among {start} through {end}, the answer is"
    letters = []
    for _ in range(4000):
        text = " ".join(draw.choices((*WORDS, *LETTERED), k=draw.randint(0, 9)))
        if name == "answer_cleansing":
            sample = {"options": list(options), "label": ["A"]}
            # Their caller strips replies.
            letters.append("".join(read("zero_shot", trigger, text.strip(), "medxpertqa", "", sample)))
            ours = medxpertqa.medxpertqa_rule(text, options)
        else:
            listed = {letter: f"{letter}. {option}".split(". ")[1] for letter, option in options.items()}
            letters.append(read(text, list(options), listed, "1"))
            ours = medframeqa.medframeqa_rule(text, options)
        assert "".join(ours.letters) == letters[-1], text
    assert set(letters) == {"", *options}


def test_omnimedvqa_counts_as_its_owners_do() -> None:
    theirs = owned("omnimedvqa_medicalqa.py", "str_similarity", "find_most_similar_index", "MedicalEval")
    said = responses(2000, 5)
    items = choices(len(said), 6)
    rows = [
        {
            "model_pred": text,
            "gt_answer": item.options[item.answers[0]],
            **{f"option_{letter}": option for letter, option in item.options.items()},
        }
        for item, text in zip(items, said, strict=True)
    ]
    marked, share = theirs["MedicalEval"](rows)
    # An item that raises there has no mark, and counts as wrong.
    expected = [row.get("is_correct") == "yes" for row in marked]
    assert hits(items, said, OFFICIAL["omnimedvqa"]) == expected
    assert share == pytest.approx(sum(expected) / len(said))


def test_pmc_vqa_counts_as_its_owners_do() -> None:
    similar = owned("pmc_vqa_test.py", "str_similarity", "find_most_similar_index")["find_most_similar_index"]
    said = responses(2000, 7)
    items = choices(len(said), 8)
    expected = []
    for item, text in zip(items, said, strict=True):
        written = [f" {letter}:{option}" for letter, option in item.options.items()]
        label = written[list(item.options).index(item.answers[0])]
        expected.append(similar(written, text) == similar(written, label))
    assert hits(items, said, OFFICIAL["pmc-vqa-test-2"]) == expected


@pytest.mark.parametrize(
    ("benchmark", "form", "tagged"),
    [
        (pmc_vqa.BENCHMARKS[1], " {letter}:{text}", False),
        (omnimedvqa.BENCHMARKS[0], "{letter}. {text}", True),
        (medxpertqa.BENCHMARKS[0], "{letter}. {text}", True),
        (medframeqa.BENCHMARKS[0], "{letter}.{text}", False),
    ],
)
def test_medevalkit_counts_choices_as_its_code_does(benchmark: Benchmark, form: str, tagged: bool) -> None:
    def boxed(text: str) -> str:
        """mathruler's `extract_boxed_content`, by its definition: the last box with its braces closed."""
        start = text.rfind("\\boxed{")
        depth, content = 0, text[start + 7 :]
        for place, character in enumerate(content if start >= 0 else ""):
            depth += {"{": 1, "}": -1}.get(character, 0)
            if depth == -1:
                return content[:place].strip()
        return "None"

    names = ("judge_multi_choice", "parse_response", "find_most_similar_index", "str_similarity", "extract")
    theirs = owned("medevalkit_utils.py", *names, "get_content_between_a_b", extract_boxed_content=boxed)
    said = responses(3000, 9)
    items = choices(len(said), 10)
    (metric,) = benchmark.owners.kits["medevalkit"](Kit())
    counted, expected = [], []
    for item, text in zip(items, said, strict=True):
        options = [form.format(letter=letter, text=option) for letter, option in item.options.items()]
        read = theirs["extract"](text, "answer") if tagged else text
        expected.append(theirs["judge_multi_choice"](options, item.answers[0], read))
        (value, _) = metric.terms([Result("run", item, "", Answer(text), Score(None, "unscored"))])
        counted.append(value == 1)
    assert counted == expected
    assert expected[0] == (items[0].answers[0] == "A"), "an empty answer is A"
