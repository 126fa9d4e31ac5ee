"""Published numbers, reproduced by the whole path: files, replay, extraction, scores, measures.

MediConfusion: a recorded run of GPT-4o with its owners' official totals. GMAI-MMBench: the paper's Table 2 from
generated responses that hold each model's number of right answers.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from medvqa import engine, metrics, scoring
from medvqa.backends.replay import Replay
from medvqa.benchmarks import gmai_mmbench, load
from medvqa.cli import main
from medvqa.items import Benchmark, Item, Query, Result
from medvqa.metrics import parts
from medvqa.protocols import prompts
from medvqa.tags import lexicon
from support.sessions import SPREAD_SLOWLY

SHARED = Path(__file__).parents[3] / "shared"
REFERENCE = SHARED / "reference"
needs_shared = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")

TEST = """
import pytest

@pytest.mark.vqa("mediconfusion")
def test_mediconfusion(item, evaluate):
    evaluate(item)
"""


@needs_shared
@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_the_official_numbers_of_a_recorded_run_come_out_exactly(
    pytester: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    folder = REFERENCE / "mediconfusion"
    pytester.makepyfile(TEST)
    way = pytester.runpytest_subprocess if spread else pytester.runpytest_inprocess
    result = way(
        f"--model=replay:{folder / 'gpt4o_mc_predictions.json'}",
        "--benchmark=mediconfusion",
        f"--data={REFERENCE}",
        "--extraction=official",
        "--run=gpt-4o",
        *("-p", "no:randomly"),
        *spread,
    )
    assert result.ret == 0
    measures = json.loads((pytester.path / "reports" / "gpt-4o" / "metrics.json").read_text())["measures"]
    counts = {
        (m["name"], m["slice"].get("category")): (m["count"], m["n"])
        for m in measures
        if m["slice"].keys() <= {"category"}
    }
    assert counts["set_accuracy", None] == (30, 176)
    assert counts["individual_accuracy", None] == (189, 352)
    assert counts["confusion", None] == (116, 157)
    assert counts["invalid_rate", None] == (20, 352)
    intervals = {m["name"]: (m["value"], m["low"], m["high"]) for m in measures if not m["slice"]}
    assert intervals["set_accuracy"] == pytest.approx((0.1705, 0.112, 0.251), abs=5e-4)
    assert intervals["individual_accuracy"] == pytest.approx((0.5369, 0.498, 0.576), abs=5e-4)
    official = json.loads((folder / "gpt4o_mc_scores.json").read_text())
    names = {"set_score": "set_accuracy", "individual_score": "individual_accuracy", "confused": "confusion"}
    names |= {"invalid": "invalid_rate"}
    checked = 0
    for theirs, ours in names.items():
        for category, count in official[theirs].items():
            if category != "total":
                assert counts[ours, category.lower().replace(" ", "_")][0] == count, (ours, category)
                checked += 1
    for category, count in official["valids"].items():
        if category != "total":
            assert counts["confusion", category.lower().replace(" ", "_")][1] == count, category
    assert checked == 4 * 9
    # The columns Valid pairs, Precision and Precision total of `print_score`: its key `valid_pairs` is the last.
    assert counts["valid_pairs", None] == (157, 176)
    assert counts["set_precision", None] == (30, 41)
    for category, different in official["valid_pairs"].items():
        name = None if category == "total" else category.lower().replace(" ", "_")
        assert counts["valid_pairs", name][0] == official["valids"][category]
        assert counts.get(("set_precision", name), (0, 0)) == (official["set_score"][category], different)
    assert round(100 * intervals["set_precision"][0], 2) == 73.17
    similar = {m["slice"]["biomedclip_similarity"]: m["n"] for m in measures if "biomedclip_similarity" in m["slice"]}
    assert similar.keys() == {"0_90_to_0_91", "0_91_to_0_92", "0_92_and_above"}


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("gaps", ["2", pytest.param("124", marks=pytest.mark.slow)])
def test_the_free_form_answers_of_a_recorded_run_have_the_scores_that_were_recorded(
    pytester: pytest.Pytester, gaps: str
) -> None:
    """Their `gpt_reason` file: set, individual, confusion and invalid of the owners' table, and those of other gaps."""
    folder = REFERENCE / "mediconfusion"
    pytester.makepyfile(TEST)
    common = (f"--model=replay:{folder / 'gpt4o_ff_predictions.json'}", "--benchmark=mediconfusion")
    common += (f"--data={REFERENCE}", "-p", "no:randomly", "-p", "no:benchmark")

    def totals(name: str) -> tuple[float, ...]:
        written = json.loads((pytester.path / "reports" / name / "metrics.json").read_text())["measures"]
        found = {each["name"]: each for each in written if not each["slice"]}
        assert found["individual_accuracy"]["n"] == found["invalid_rate"]["n"] == 352
        confusion = found["confusion"]
        return (
            *(found[each]["count"] for each in ("set_accuracy", "individual_accuracy")),
            *(confusion["count"], confusion["n"], found["invalid_rate"]["count"]),
        )

    assert pytester.runpytest_inprocess(*common, "--technique=ff", "--run=ff").ret == 0
    assert totals("ff") == (5, 85, 43, 51, 202)
    written = json.loads((pytester.path / "reports/ff/metrics.json").read_text())["measures"]
    official = json.loads((folder / "gpt4o_ff_scores.json").read_text())
    names = {"set_score": "set_accuracy", "individual_score": "individual_accuracy", "confused": "confusion"}
    for theirs, ours in (names | {"invalid": "invalid_rate"}).items():
        found = {m["slice"]["category"]: m["count"] for m in written if m["name"] == ours and "category" in m["slice"]}
        assert found == {k.lower().replace(" ", "_"): n for k, n in official[theirs].items() if k != "total"}
    signature = parts(next(each["signature"] for each in written if each["name"] == "set_accuracy"))
    assert signature["judge"].startswith("replay:gpt4o_ff_predictions.json@")
    assert signature["judge_prompts"] == "recorded/closeness"
    assert signature["ff_gap"] == "3"
    line = json.loads((pytester.path / "reports/ff/results.jsonl").read_text().splitlines()[0])
    assert line["judgement"]["judge"] == "replay:gpt4o_ff_predictions.json"
    assert line["judgement"]["replies"][0].startswith("A: 3\nB: 2\nYour explanation: The AI assistant's response")
    # Another gap, by a session and by scoring the run again, where the replies are recorded.
    expected = {"1": (12, 134, 72, 93, 109), "2": (8, 98, 50, 61, 181), "4": (4, 71, 32, 38, 227)}
    assert pytester.runpytest_inprocess(*common, "--technique=ff", "--run=two", "--ff-gap=2").ret == 0
    assert totals("two") == expected["2"]
    for gap in gaps:
        assert main(["rescore", "reports/ff", f"--ff-gap={gap}"]) == 0
        assert totals("ff") == expected[gap]
    about = json.loads((pytester.path / "reports/ff/run.json").read_text())
    assert about["benchmarks"]["mediconfusion"]["signature"]["ff_gap"] == gaps[-1]
    assert about["judge"]["settings"]["gap"] == int(gaps[-1])
    assert main(["rescore", "reports/ff", "--ff-gap=3"]) == 0
    assert totals("ff") == (5, 85, 43, 51, 202)


@needs_shared
@pytest.mark.parametrize("technique", [(), ("--technique=mc",), ("--technique=mc,ff",), ("--technique=gd",)])
def test_free_form_answers_are_never_scored_as_another_technique(
    pytester: pytest.Pytester, technique: tuple[str, ...]
) -> None:
    pytester.makepyfile(TEST)
    file = REFERENCE / "mediconfusion/gpt4o_ff_predictions.json"
    result = pytester.runpytest_inprocess(
        f"--model=replay:{file}", "--benchmark=mediconfusion", f"--data={REFERENCE}", *technique
    )
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line]
    assert line == (
        f"ERROR: '{file}' holds free-form answers (ff) with the closeness scores of a judge, and no others: "
        "type --technique=ff"
    )
    assert not (pytester.path / "reports").exists()


@needs_shared
def test_the_first_recorded_run_has_its_totals_and_counts(pytester: pytest.Pytester) -> None:
    """A second run of the same model, 34 / 195 / 115 of 160 / 17; its log-probabilities are of no option."""
    folder = REFERENCE / "mediconfusion"
    pytester.makepyfile(TEST)
    result = pytester.runpytest_inprocess(
        f"--model=replay:{folder / 'gpt4o_mc_predictions_run1.json'}",
        *("--benchmark=mediconfusion", f"--data={REFERENCE}", "--extraction=official", "--run=one"),
        *("-p", "no:randomly", "-p", "no:benchmark"),
    )
    assert result.ret == 0
    written = json.loads((pytester.path / "reports/one/metrics.json").read_text())["measures"]
    official = json.loads((folder / "gpt4o_mc_scores_run1.json").read_text())
    names = {"set_score": "set_accuracy", "individual_score": "individual_accuracy", "confused": "confusion"}
    for theirs, ours in (names | {"invalid": "invalid_rate"}).items():
        named = [m for m in written if m["name"] == ours and m["slice"].keys() <= {"category"}]
        found = {m["slice"].get("category", "total"): m for m in named}
        counts = {category: found[category.lower().replace(" ", "_")]["count"] for category in official[theirs]}
        assert counts == official[theirs]
        if ours == "confusion":
            valid = {category: found[category.lower().replace(" ", "_")]["n"] for category in official["valids"]}
            assert valid == official["valids"]
    lines = (pytester.path / "reports/one/results.jsonl").read_text().splitlines()
    assert all(json.loads(line)["answer"]["option_logprobs"] is None for line in lines)


PHRASINGS = (
    "{letter}",
    "({letter})",
    "**{letter}**.",
    "{letter}. {text}",
    "Answer: {letter}",
    "The correct answer is {letter}.",
    "The answer is ({letter}) {text}.",
    "Based on the image, I would choose option {letter}.",
    "The image was acquired in a routine examination. The finding is typical.\n\nFinal answer: {letter}",
    r"\boxed{{{letter}}}",
    '{{"answer": "{letter}"}}',
    "<answer>{letter}</answer>",
    "<think>It could be {other}, but the margin speaks against it.</think>{letter}",
    "{text}",
    "答案：{letter}",
)


def table_two(folder: Path, counts: dict[str, int], names: dict[str, str]) -> None:
    """A VAL file with the given number of items in each task; one pixel serves as every image."""
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    columns = ("index", "image", "question", "A", "B", "C", "D", "answer", "category")
    columns += ("clinical VQA task", "department", "perceptual granularity", "modality", "original task")
    options = ("polyp", "ulcer", "naevus", "abscess")
    with (folder / "GMAI-MMBench_VAL.tsv").open("w") as file:
        file.write("\t".join(columns) + "\n")
        index = 0
        for task, count in counts.items():
            for _ in range(count):
                image = pixel if index == 0 else "0"
                answer = "ABCD"[index % 4]
                cells = (str(index), image, f"What is shown in image {index}?", *options, answer, options[index % 4])
                file.write("\t".join((*cells, names[task], "Dermatology", "Image level", "CT", "made")) + "\n")
                index += 1


def responses(items: list[Item], right: dict[str, int]) -> Iterator[str]:
    """One JSON line an item: as many right answers in each task as were told, in phrasings that vary."""
    draw = random.Random(0)
    left = dict(right)
    for item in items:
        (task,), (answer,) = item.tags["task"], item.answers
        is_right = left[task] > 0
        left[task] -= is_right
        letter = answer if is_right else draw.choice([each for each in item.options if each != answer])
        other = draw.choice([each for each in item.options if each != letter])
        said = draw.choice(PHRASINGS).format(letter=letter, other=other, text=item.options[letter])
        yield json.dumps({"id": item.id, "response": said})


@dataclass(frozen=True)
class TableTwo:
    """The paper's Table 2: the number of items in each task, the models' rows, and a benchmark of as many items."""

    counts: dict[str, int]
    rows: dict[str, Any]
    names: dict[str, str]
    benchmark: Benchmark
    items: list[Item]


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> TableTwo:
    reference = REFERENCE / "gmai-mmbench"
    counts: dict[str, int] = json.loads((reference / "test_counts.json").read_text())["counts"]
    rows: dict[str, Any] = json.loads((reference / "paper_tables.json").read_text())["table2_tasks"]
    tasks = lexicon.gmai_mmbench().dimensions["task"]
    names = {short: tasks.values[slug] for slug, shorts in tasks.abbreviations.items() for short in shorts}
    data = tmp_path_factory.mktemp("data")
    (data / "gmai-mmbench").mkdir()
    table_two(data / "gmai-mmbench", counts, names)
    benchmark = next(b for b in gmai_mmbench.BENCHMARKS if b.name == "gmai-mmbench-val")
    return TableTwo(counts, rows, names, benchmark, list(load(benchmark, data)))


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("model", ["Random", "Med-Flamingo", "LLaVA-Med", "Qilin-Med-VL-Chat", "RadFM", "MedDr"])
def test_table_two_of_gmai_mmbench_comes_out(paper: TableTwo, tmp_path: Path, model: str) -> None:
    assert len(paper.items) == 20_602
    row, benchmark = paper.rows[model], paper.benchmark
    right = {lexicon.slug(paper.names[task]): round(row[task] * count / 100) for task, count in paper.counts.items()}
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text("\n".join(responses(paper.items, right)) + "\n")
    asked = [benchmark.prompt(item, "mc") for item in paper.items]
    answered = zip(paper.items, asked, engine.ask(Replay(str(recorded)), asked), strict=True)
    results: list[Result] = [
        scoring.result(Query(item), prompt, answer, benchmark=benchmark, run="t", digest=prompts.digest(prompt))
        for item, prompt, answer in answered
    ]
    measures = metrics.measures(
        results, [metrics.accuracy], [], benchmark=benchmark.name, signature={}, score=benchmark.score
    )
    (overall,) = (m for m in measures if m.name == "accuracy" and not m.slice)
    assert overall.value is not None
    assert abs(100 * overall.value - row["test"]) <= 0.01
