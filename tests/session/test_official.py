"""`--extraction=official`: the owners' rules where they published one, versions of them, and ours elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, engine, judging
from medvqa.backend import Backend
from medvqa.benchmarks import gmai_mmbench, phantom
from medvqa.cli import main
from medvqa.items import Answer, Item
from medvqa.metrics import parts
from medvqa.report.markdown import escape

GMAI, PAIRS, LESIONS = "phantom-gmai-mmbench", "phantom-mediconfusion", "phantom-medlesionvqa"
SUITE = """
import pytest

@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)
"""


def items_of(name: str) -> tuple[Item, ...]:
    (benchmark,) = (each for each in phantom.BENCHMARKS if each.name == name)
    return benchmarks.load(benchmark, Path())


@pytest.fixture
def answers(outside: None, pytester: pytest.Pytester) -> Path:
    """Every question of the phantom answered right, as models do: "A, C" for several letters."""
    pytester.makepyfile(SUITE)
    path = pytester.path / "answers.jsonl"
    rows = [
        {"id": item.id, "benchmark": name, "response": ", ".join(item.answers)}
        for name in (GMAI, PAIRS, LESIONS)
        for item in items_of(name)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def session(pytester: pytest.Pytester, answers: Path, *arguments: str) -> tuple[int, str]:
    made = pytester.runpytest_inprocess(
        "-p", "no:randomly", "-p", "no:benchmark", "--run=first", f"--model=replay:{answers}", *arguments
    )
    return int(made.ret), made.stdout.str() + made.stderr.str()


def about(pytester: pytest.Pytester) -> dict[str, Any]:
    return json.loads((pytester.path / "reports/first/run.json").read_text())


def measures(pytester: pytest.Pytester, benchmark: str) -> dict[str, dict[str, Any]]:
    found = json.loads((pytester.path / "reports/first/metrics.json").read_text())["measures"]
    return {each["name"]: each for each in found if not each["slice"] and each["benchmark"] == benchmark}


def extraction(measure: dict[str, Any]) -> str:
    return parts(measure["signature"])["extraction"]


OURS = (
    "scored by this project's rule, as their owners published none: phantom-gmai-mmbench (multiple_response), "
    "phantom-medlesionvqa (fill_in_the_blank, judgment, multiple_response, short_answer)."
)


def test_the_official_rule_reads_what_it_is_for_and_ours_the_rest(pytester: pytest.Pytester, answers: Path) -> None:
    code, output = session(pytester, answers, "--extraction=official", "--limit=30")
    assert code == 0, output
    single, several = measures(pytester, GMAI)["accuracy"], measures(pytester, GMAI)["precision_mcls"]
    assert (single["value"], several["value"]) == (1, 1)
    assert measures(pytester, GMAI)["exact_match"]["value"] == 1
    assert measures(pytester, PAIRS)["set_accuracy"]["value"] == 1
    assert measures(pytester, LESIONS)["mean_score"]["value"] == 1
    assert extraction(single).startswith("official 2026-06 (")
    assert "VLMEvalKit" in extraction(single)
    assert extraction(several) == "sound"
    both = extraction(measures(pytester, GMAI)["invalid_rate"])
    assert both == f"multiple_response: sound; single_choice: {extraction(single)}"
    assert extraction(measures(pytester, LESIONS)["mean_score"]) == "sound"
    assert OURS in " ".join(output.split())
    assert escape(OURS) in (pytester.path / "reports/first/summary.md").read_text()
    told = about(pytester)
    assert told["extraction"] == "official:2026-06"
    assert told["benchmarks"][GMAI]["read_by"]["multiple_response"] == "sound"


def test_a_run_is_scored_again_by_the_official_rule_where_there_is_one(
    pytester: pytest.Pytester, answers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session(pytester, answers, "--limit=30")[0] == 0
    capsys.readouterr()
    assert main(["rescore", "reports/first", "--extraction=official"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert OURS in shown
    assert measures(pytester, GMAI)["precision_mcls"]["value"] == 1
    assert extraction(measures(pytester, GMAI)["precision_mcls"]) == "sound"
    assert extraction(measures(pytester, GMAI)["accuracy"]).startswith("official 2026-06 (")
    assert main(["rescore", "reports/first", "--extraction=sound"]) == 0
    assert "read_by" not in about(pytester)["benchmarks"][GMAI]
    assert extraction(measures(pytester, GMAI)["invalid_rate"]) == "sound"


def test_without_any_published_rule_it_is_a_usage_error(
    pytester: pytest.Pytester, answers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = session(pytester, answers, "--extraction=official", f"--benchmark={LESIONS}")
    assert code == 4
    line = f"--extraction=official: no published rule reads answers to {LESIONS}; leave it out"
    assert line in output
    assert session(pytester, answers, f"--benchmark={LESIONS}")[0] == 0
    capsys.readouterr()
    assert main(["rescore", "reports/first", "--extraction=official"]) == 4
    assert line in capsys.readouterr().err


def test_a_benchmark_whose_questions_the_rule_does_not_read_is_a_usage_error(
    pytester: pytest.Pytester, answers: Path
) -> None:
    """All its questions here have several right options, and the harness reads one letter."""
    pytester.makeconftest(
        """
        import dataclasses
        from medvqa.benchmarks import phantom

        def several(data):
            return [item for item in phantom.BENCHMARKS[0].items(data) if item.kind == "multiple_response"]

        def pytest_medvqa_benchmarks():
            return [dataclasses.replace(phantom.BENCHMARKS[0], name="several", items=several)]
        """
    )
    code, output = session(pytester, answers, "--extraction=official", "--benchmark=several")
    assert code == 4
    assert "--extraction=official: no published rule reads answers to several; leave it out" in output


# Versions of the harness


LUNGS = {"A": "left lung", "B": "right lung", "C": "both lungs", "D": "no lung", "E": "none of the above"}
LONG = (
    "The picture shows, in my careful opinion and after a long look at it, the right lung of this patient, and nothing "
    "else that would matter here at all."
)
# What `can_infer` of vlmeval/utils/matching_util.py returned at commits 98e3733, c337155 and a67ace5, "-" for False.
VERSIONS = ("2024-02", "2025-08", "2026-06")
DERIVED: Sequence[tuple[str, str]] = (
    ("B", "BBB"),
    ("**B**.", "BBB"),
    ("The answer is B.", "BBB"),
    ("B\n\nThe lung is clear and the heart is of normal size.", "B--"),
    ("The correct answer is **B**. Here's why: the left lung is clear, and so A is wrong.", "AAB"),
    ("A patient with a cough", "A--"),
    ("It shows a right lung.", "BBB"),
    ("Answer: E. The answer is E because nothing else fits here.", "E--"),
    ("The answer is A normal variant that everybody knows well", "A-A"),
    ("Both A and B", "---"),
    (LONG, "B--"),
    ("Sorry, I can't help with images of people yet.", "ZZZ"),
    ("Cannot determine the answer", "ZZZ"),
    ("Z", "ZZZ"),
    ("Failed to obtain answer via API. The answer is B", "---"),
    ("the answer is c", "--C"),
    ("I think the answer is D) no lung", "DDD"),
    ("B is the letter that I would choose", "B--"),
    ("A, B, C or D?", "---"),
    ("answer is about the left lung", "AAA"),
    ("B B B B B and so on", "B--"),
    ("The answer is F. The answer is B, I mean, after all of this", "B-B"),
    ("My answer is B; its opposite, C, is wrong", "--B"),
    ("E is what I take to be right here", "E--"),
    ("b", "---"),
    ("", "---"),
)


@pytest.mark.parametrize(("response", "letters"), DERIVED)
def test_each_version_reads_as_the_harness_did(response: str, letters: str) -> None:
    read = [gmai_mmbench.gmai_rule(response, LUNGS, version=version) for version in VERSIONS]
    assert "".join("".join(each.letters) or "-" for each in read) == letters.replace("Z", "-")
    assert gmai_mmbench.gmai_rule(response, LUNGS) == read[-1]
    assert [gmai_mmbench.gmai_choice(response, LUNGS, version)[0] or "-" for version in VERSIONS] == list(letters)


@pytest.mark.parametrize(
    ("typed", "recorded", "outcome"),
    [
        ("official", "official:2026-06", "unparsed"),
        ("official:2025-08", "official:2025-08", "unparsed"),
        ("official:2024-02", "official:2024-02", "correct"),
    ],
)
def test_a_version_is_chosen_and_recorded(
    pytester: pytest.Pytester, answers: Path, typed: str, recorded: str, outcome: str
) -> None:
    """A letter far from the end of the response: only the oldest version takes it."""
    said = "it is, which nobody who looks at it could ever doubt"
    rows = [{"id": each.id, "response": f"{each.answers[0]} {said}"} for each in items_of(GMAI)]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, output = session(pytester, answers, f"--benchmark={GMAI}", f"--extraction={typed}", "--limit=20")
    assert code == 0, output
    assert about(pytester)["extraction"] == recorded
    lines = (pytester.path / "reports/first/results.jsonl").read_text().splitlines()
    results = [result for result in map(json.loads, lines) if result["item"]["kind"] == "single_choice"]
    assert {result["score"]["outcome"] for result in results} == {outcome}
    assert extraction(measures(pytester, GMAI)["accuracy"]).startswith(f"official {recorded[9:]} (")
    assert main(["rescore", "reports/first"]) == 0
    assert about(pytester)["extraction"] == recorded, "scored again by the version that it was read by"
    assert main(["rescore", "reports/first", "--extraction=official:2024-02"]) == 0
    assert about(pytester)["extraction"] == "official:2024-02"
    assert measures(pytester, GMAI)["accuracy"]["value"] == 1


@pytest.mark.parametrize("typed", ["official:2025-07", "official:", "sound:2025-08", "nosuch"])
def test_another_version_is_a_usage_error_that_lists_what_exists(
    pytester: pytest.Pytester, answers: Path, capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    code, output = session(pytester, answers, f"--extraction={typed}", f"--benchmark={GMAI}")
    assert code == 4
    there = "there are: sound, official, official:2024-02, official:2025-08, official:2026-06"
    assert f"no extraction '{typed}'; {there}" in output
    assert session(pytester, answers, f"--benchmark={GMAI}", "--limit=2")[0] == 0
    capsys.readouterr()
    assert main(["rescore", "reports/first", f"--extraction={typed}"]) == 4
    assert f"no extraction '{typed}'; {there}" in capsys.readouterr().err


def test_a_run_from_before_versions_were_named_is_of_the_first(pytester: pytest.Pytester, answers: Path) -> None:
    assert session(pytester, answers, "--extraction=official:2024-02", f"--benchmark={GMAI}", "--limit=4")[0] == 0
    path = pytester.path / "reports/first/run.json"
    told = json.loads(path.read_text())
    told["extraction"] = "official"
    del told["benchmarks"][GMAI]["read_by"]
    path.write_text(json.dumps(told))
    assert main(["report", "reports/first"]) == 0
    assert main(["rescore", "reports/first"]) == 0
    assert about(pytester)["extraction"] == "official:2024-02"


# The harness's extraction by a model


ITEM = Item("1", "gmai-mmbench-val", "single_choice", "Which lung is it", LUNGS, ("B",))
EXTRACTING = judging.Settings(extract=True)


def case(response: str = "I like this picture.", item: Item = ITEM, settings: judging.Settings = EXTRACTING) -> Any:
    answer = Answer(response)
    return judging.case_of(gmai_mmbench.VAL, item, "mc", answer, gmai_mmbench.VAL.score(item, answer), settings)


def test_a_judge_of_gmai_is_asked_by_the_harness_s_prompt() -> None:
    text = case().prompts[0].text
    assert text.startswith(
        "You are an AI assistant who will help me to match an answer with several options of a single-choice question. "
        "You are provided with a question, several options, and an answer, and you need to find which option is most "
        "similar to the answer. If the meaning of all options are significantly different from the answer, output Z. "
        "Your should output a single uppercase character in A, B, C, D (if they are valid options), and Z. \n"
    )
    assert "Answer: a cute teddy bear\nYour output: A\nExample 2: \n" in text
    assert text.endswith("Your output: ")
    assert "There are several options: \n" in text
    assert case().template != judging.Settings().templates()["options"]
    several = Item("2", "gmai-mmbench-val", "multiple_response", "Which?", LUNGS, ("A", "B"))
    assert case(item=several).template == judging.Settings().templates()["options"]
    signed = EXTRACTING.signature(gmai_mmbench.VAL)["judge_prompts"]
    assert set(signed.split("+")) == {case().template, case(item=several).template}
    own = judging.Settings(extract=True, prompts={"options": "{question} {options} {response}"})
    assert case(settings=own).prompts[0].text.startswith("<data-"), "a prompt of the user's own goes first"


def test_a_reply_is_read_as_the_harness_reads_it_and_never_drawn() -> None:
    """None: a complaint, after which the judge is asked once more."""
    said: dict[str, str | None] = {"B": "B", "(B)": "B", "right lung": "B", "Z": "", "Cannot determine the answer": ""}
    said |= {"The answer is B, without any doubt in my mind about it": "B", "A or B": None, "I do not know": None}
    for reply, letters in said.items():
        read = judging.read(case(), 0, reply)
        assert ("".join(read.letters) if isinstance(read, judging.JudgeReading) else None) == letters, reply


class Said(Backend):
    """A judge who always says the same."""

    sends_to = None
    title = "said"

    def generate(self, prompts: Sequence[Any]) -> list[Answer]:
        return [Answer(self.argument) for _ in prompts]


def test_an_unreadable_reply_leaves_the_answer_unparsed() -> None:
    outcomes = {}
    for reply in ("B", "Z", "A or B"):
        model = Said(reply)
        judge = engine.Judge(model, EXTRACTING, engine.Limits.of(model))
        answer = Answer("I like this picture.")
        try:
            score = gmai_mmbench.VAL.score(ITEM, answer)
            pending = judge.begin(gmai_mmbench.VAL, ITEM, "mc", answer, score)
            assert pending is not None
            judged = judge.finish(pending)
        finally:
            judge.close()
        assert judged.judgement is not None
        assert judged.judgement.template == case().template
        outcomes[reply] = judged.score.outcome, judged.score.value, judged.score.extracted
    assert outcomes == {"B": ("correct", 1, ("B",)), "Z": ("unparsed", 0, ()), "A or B": ("unparsed", 0, ())}
