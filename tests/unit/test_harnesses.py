"""Rules of other harnesses: against what their own code read, and the misreadings that reports of ours name."""

import json
from pathlib import Path
from typing import Any

import pytest

from medvqa.benchmarks import harnesses, mediconfusion, pytest_medvqa_benchmarks, slake
from medvqa.benchmarks.harnesses import inspect_letters, inspect_line, lmms, lmms_normalised
from medvqa.items import Answer, Benchmark, Item, Result, Score

KEPT = json.loads((Path(__file__).parents[1] / "kept" / "harnesses.json").read_text("utf-8"))
CASES: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    (case["response"], KEPT["options"][case["options"]], dict(zip(KEPT["rules"], case["read"], strict=True)))
    for case in KEPT["cases"]
]
NAMED = {benchmark.name: benchmark for benchmark in pytest_medvqa_benchmarks()}


def result(response: str, options: dict[str, str] | None = None, key: str = "A", kind: str = "single_choice") -> Result:
    item = Item(id="1", benchmark="b", kind=kind, options=options or {}, answers=(key,))  # type: ignore[arg-type]
    return Result("r", item, "", Answer(response), Score(None, "unscored"))


def scored(benchmark: Benchmark, name: str, of: Result) -> Score:
    [rule] = [rule for rule in harnesses.rules_of(benchmark) if rule.name == name]
    assert of.answer is not None
    return rule.score(of, of.answer)


@pytest.mark.parametrize("name", [name for name in KEPT["rules"] if "VLMEvalKit" in name or "MMMU" in name])
def test_letters_are_read_as_the_harness_s_code_reads_them(name: str) -> None:
    for response, options, read in CASES:
        read_here = scored(mediconfusion.BENCHMARKS[0], name, result(response, options)).extracted
        # VLMEvalKit's Z stands for none of the options.
        assert "".join(read_here) == read[name].replace("Z", ""), (response, options)


def test_medevalkit_takes_the_option_that_its_code_takes() -> None:
    for response, options, read in CASES:
        # An option that is a letter is right by two keys.
        for key in options:
            of = scored(mediconfusion.BENCHMARKS[0], "MedEvalKit", result(response, options, key))
            assert (of.outcome == "correct") == (key in read["MedEvalKit"]), (response, options)


def test_inspect_reads_what_stands_behind_answer() -> None:
    for response, options, read in CASES:
        assert "".join(inspect_letters(response, options).letters) == read["Inspect, multiple_choice"], response
        several = inspect_letters(response, options, multiple=True)
        assert "".join(several.letters) == read["Inspect, several"], response
        line = inspect_line(response)
        assert (line == "yes", line == "no") == (read["Inspect, yes"], read["Inspect, no"]), response


def test_answers_are_compared_as_lmms_eval_does_for_slake() -> None:
    for response, _, read in CASES:
        assert lmms_normalised(response) == read["lmms-eval, SLAKE"], response


@pytest.mark.parametrize(
    ("response", "name", "read"),
    [
        ("A patient with cysts has a stone", "VLMEvalKit 2024-02", "A"),
        ("The answer is a stone", "VLMEvalKit 2026-06", "A"),
        ("MRA shows (nothing) at all here", "lmms-eval, MMMU", "A"),
        ("I cannot see the image", "MedEvalKit", "C"),
        ("", "MedEvalKit", "A"),
        ("C", "Inspect, multiple_choice", ""),
        ("ANSWER: C", "Inspect, multiple_choice", "C"),
    ],
)
def test_each_rule_keeps_the_misreadings_of_its_harness(response: str, name: str, read: str) -> None:
    options = {"A": "Mass", "B": "Cyst", "C": "Stone"}
    for key in options:
        score = scored(mediconfusion.BENCHMARKS[0], name, result(response, options, key))
        assert "".join(score.extracted) == read
        assert (score.outcome == "correct") == (key == read)


def test_counts_of_kits_are_rules_of_the_data_sets_that_have_them() -> None:
    benchmark = NAMED["vqa-rad"]
    no = {"key": "no", "kind": "judgment"}
    assert scored(benchmark, "MedEvalKit", result("the heart is abnormal", **no)).outcome == "correct"
    assert scored(benchmark, "LLaVA-Med 1.0, closed", result("no", **no)).outcome == "correct"
    assert scored(benchmark, "LLaVA-Med 1.0, closed", result("yes", **no)).outcome == "unscored"
    assert scored(benchmark, "Inspect, vqa_rad", result("No.", **no)).outcome == "unparsed"
    assert scored(benchmark, "Inspect, vqa_rad", result("ANSWER: No", **no)).outcome == "correct"
    chinese = next(benchmark for benchmark in slake.BENCHMARKS if "zh" in benchmark.name)
    assert scored(chinese, "lmms-eval, SLAKE", result("正常", key="是", kind="judgment")).outcome == "correct"
    assert all(rule.source for name in NAMED for rule in harnesses.rules_of(NAMED[name]))


def test_a_rule_that_is_the_owners_own_is_not_listed_twice() -> None:
    names = {rule.name for rule in harnesses.rules_of(NAMED["gmai-mmbench-val"])}
    assert not any(name.startswith("VLMEvalKit") for name in names)


@pytest.mark.parametrize("unit", ["ANSWER: ", "ANSWER:\n \n", "$", "$a", "**", "(", "(a)", "answer:x", " ", "a ", "（"])
def test_no_answer_takes_quadratic_time(unit: str) -> None:
    long = unit * 200_000
    options = {"A": "Mass", "B": "Cyst"}
    for name in ("Inspect, multiple_choice", "lmms-eval, MMMU"):
        scored(mediconfusion.BENCHMARKS[0], name, result(long, options))
    inspect_line(long)
    lmms_normalised(long)
    assert scored(mediconfusion.BENCHMARKS[0], "MedEvalKit", result(long, options)).outcome == "unscored"
    assert lmms(long, options).status in ("read", "unparsed")
