"""Our counts like LLaVA-Med and MedEvalKit against the kits' own code, where a folder with it is named.

The variable MEDVQA_PINNED names a folder with the kits' files at the commits of `metrics/kits.py`:
llava_med_run_eval.py, llava_med_evaluate_metrics.py, llava_med_glossary.py, llava_med_utils.py; medevalkit_utils.py,
medevalkit_VQA_RAD.py, medevalkit_PATH_VQA.py, medevalkit_SLAKE.py; and mathruler_grader.py of the package mathruler.
Without it the tests are skipped: the files are not ours to ship.
"""

from __future__ import annotations

import ast
import collections
import difflib
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from medvqa import metrics
from medvqa.benchmarks import closed_open, path_vqa, slake, vqa_rad
from medvqa.items import Answer, Benchmark, Item, Kit, Result

PINNED = Path(os.environ.get("MEDVQA_PINNED", ""))
needs_pinned = pytest.mark.skipif(
    not (PINNED / "llava_med_run_eval.py").is_file(), reason="MEDVQA_PINNED names no folder with the kits' code"
)
pytestmark = [pytest.mark.slow, needs_pinned]

WORDS = (
    *("yes", "no", "Yes", "No.", "abnormal", "know", "not", "left", "right", "Lung", "lungs", "liver", "the", "a"),
    *("x-ray", "two", "none", "isnt", "isn't", "dont", "couldntve", "3,5", "1.5", "mass.", "(small)", "pleural,"),
    *("heart;", "is/are", "answer:", "Answer is", "final answer", "**Answer**:", "boxed", r"\boxed{lung}"),
    *(r"\boxed{yes}", r"\boxed{a {b} c}", r"\boxed{"),
    *("<answer>", "</answer>", "<answer>no</answer>", "\n", ".", "...", "是的", "答案:", "_", "e.g.", "4", "T2", "-"),
)  # fmt: skip


def texts(count: int, seed: int, longest: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


def functions(file: str, *names: str, **given: Any) -> dict[str, Any]:
    """Functions of a kit's file by name, methods too, without its imports."""
    tree = ast.parse((PINNED / file).read_text("utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names]
    tree.body = [*found]
    space: dict[str, Any] = {"re": re, "difflib": difflib, "os": os, "tqdm": lambda rows: rows, **given}
    exec(compile(tree, file, "exec"), space)
    return space


def values(results: Sequence[Result], benchmark: Benchmark, kit: str, setting: Kit) -> dict[str, float | None]:
    """The value of each measure of a kit over everything."""
    counted = benchmark.owners.kits[kit](setting)
    measured = metrics.measures(results, counted, (), benchmark="b", signature={})
    return {measure.name: measure.value for measure in measured if not measure.slice}


def results_of(benchmark: Benchmark, rows: Sequence[tuple[str, str, str]]) -> list[Result]:
    """Results of (kind, key, response)."""
    results = []
    for number, (kind, key, text) in enumerate(rows):
        item = Item(f"{number:05}", "b", kind, "?", answers=(key.strip(),))  # type: ignore[arg-type]
        results.append(Result("r", item, "", Answer(text), benchmark.score(item, Answer(text))))
    return results


@pytest.mark.parametrize("seed", range(3))
def test_llava_med_prints_what_we_count(seed: int) -> None:
    given: dict[str, Any] = {"defaultdict": collections.defaultdict}
    exec((PINNED / "llava_med_glossary.py").read_text("utf-8"), given)
    given |= functions("llava_med_utils.py", "split_sentence", **given)
    names = ("calculate_exactmatch", "similarity_candidate_prediction", "argmax", "calculate_f1score")
    given |= functions("llava_med_evaluate_metrics.py", *names, "calculate_appearance_with_normalization", **given)
    given |= {"collections": collections, "sentence_bleu": lambda **_: 0.0, "tabulate": lambda rows, headers: rows}
    evaluate = functions("llava_med_run_eval.py", "evaluate", **given)["evaluate"]

    candidates = tuple(texts(30, seed, 3))
    draw = random.Random(seed)
    rows = [("judgment", draw.choice(("Yes", "No")), text) for text in texts(1000, seed + 10, 8)]
    rows += [("short_answer", draw.choice(candidates), text) for text in ["", *texts(1000, seed + 20, 8)]]
    kinds = {"judgment": "CLOSED", "short_answer": "OPEN"}
    asked = [{"conversations": [{}, {"value": key.strip()}], "answer_type": kinds[kind]} for kind, key, _ in rows]
    said = [{"text": text, "question_id": number} for number, (_, _, text) in enumerate(rows)]
    printed = {name: value / 100 for name, value in evaluate(asked, said, {"0": list(candidates)})}
    benchmark = vqa_rad.BENCHMARKS[0]
    ours = values(results_of(benchmark, rows), benchmark, "llava-med", Kit(training=lambda: candidates))
    for name, column in (
        ("closed_accuracy", "yes/no accuracy"),
        ("open_recall", "recall"),
        ("open_accuracy", "open accuracy"),
        ("open_exact", "exact match score"),
    ):
        assert ours[f"llava_med_{name}"] == pytest.approx(printed[column], abs=1e-12), name
        assert 0 < printed[column] < 1, name


def medevalkit(file: str) -> Any:
    """MedEvalKit's `cal_metrics` of a data set; BLEU and ROUGE are 0."""
    given: dict[str, Any] = functions("mathruler_grader.py", "extract_boxed_content")
    given |= {"bleu": lambda *_: 0.0, "rouge": lambda *_: [{f"rouge-{n}": {"f": 0.0} for n in "12l"}]}
    names = ("parse_response", "judge_close_end_vqa", "judge_judgement", "judge_open_end_vqa", "calculate_f1")
    given |= functions("medevalkit_utils.py", *names, "get_content_between_a_b", "extract", **given)
    return functions(file, "cal_metrics", **given)["cal_metrics"]


@pytest.mark.parametrize(
    ("file", "benchmark"),
    [
        ("medevalkit_VQA_RAD.py", vqa_rad.BENCHMARKS[0]),
        ("medevalkit_PATH_VQA.py", path_vqa.BENCHMARKS[0]),
        ("medevalkit_SLAKE.py", slake.BENCHMARKS[0]),
    ],
    ids=("vqa-rad", "path-vqa", "slake"),
)
def test_medevalkit_prints_what_we_count(file: str, benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("use_llm_judge", raising=False)
    count = medevalkit(file)
    draw = random.Random(7)
    by_type = file == "medevalkit_SLAKE.py"
    keys = ["yes", "no", "Yes", "No", "Left", "T2", "是的"] if by_type else ["yes", "no", "Yes ", "NO"]
    rows = [("judgment", draw.choice(keys), text) for text in ["", *texts(1500, 8, 8)]]
    opened = [
        ("short_answer", key.strip() or "lung", text)
        for key, text in zip(texts(1500, 9, 2), texts(1500, 10, 6), strict=True)
    ]
    rows += [row for row in opened if by_type or closed_open.kind_of(row[1]) == "short_answer"]

    def sample(kind: str, key: str, text: str) -> dict[str, Any]:
        return {"response": text, "answer": key.strip() if by_type else key, "question": "?", "lang": "en",
                "answer_type": "OPEN" if kind == "short_answer" else "CLOSED"}  # fmt: skip

    whole = []
    for row in rows:
        try:
            count(None, [sample(*row), sample("short_answer", "x", "y"), sample("judgment", "yes", "yes")])
        except TypeError:
            assert row[0] == "short_answer", "it fails at an empty answer"
        else:
            whole.append(row)
    assert len(rows) > len(whole) > 0.9 * len(rows)
    printed, _ = count(None, [sample(*row) for row in whole])
    results = results_of(benchmark, rows)
    ours = values(
        [result for result, row in zip(results, rows, strict=True) if row in whole], benchmark, "medevalkit", Kit()
    )
    assert ours["medevalkit_closed_accuracy"] == pytest.approx(printed["close"]["acc"], abs=1e-12)
    # It divides this one by the number of open questions twice.
    twice = printed["open"]["acc"] * printed["open"]["total"]
    assert ours["medevalkit_open_accuracy"] == pytest.approx(twice, abs=1e-12)
    assert ours["medevalkit_open_em"] == pytest.approx(printed["open"]["em"], abs=1e-12)
    assert ours["medevalkit_total_accuracy"] == pytest.approx(printed["total metrics"]["acc"], abs=1e-12)
    for name in ("precision", "recall", "f1"):
        assert ours[f"medevalkit_printed_{name}"] == pytest.approx(printed["open"][name], abs=1e-12)
    assert 0 < printed["close"]["acc"] < 1
    assert printed["open"]["em"] > 0
