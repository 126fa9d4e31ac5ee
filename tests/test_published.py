"""Published numbers, reproduced by the whole path: files, replay, extraction, scores, measures.

MediConfusion: a recorded run of GPT-4o with its owners' official totals. GMAI-MMBench: the paper's Table 2 from
generated responses that hold each model's number of right answers.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medvqa import engine, metrics
from medvqa.backends.replay import Replay
from medvqa.benchmarks import gmai_mmbench, load
from medvqa.items import Item, Result

SHARED = Path(__file__).parents[2] / "shared"
REFERENCE = SHARED / "reference"
needs_shared = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")

TEST = """
import pytest

@pytest.mark.vqa("mediconfusion")
def test_mediconfusion(item, evaluate):
    evaluate(item)
"""


@needs_shared
@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
def test_the_official_numbers_of_a_recorded_run_come_out_exactly(
    pytester: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    folder = REFERENCE / "mediconfusion"
    pytester.makepyfile(TEST)
    result = pytester.runpytest_subprocess(
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
    assert intervals["set_accuracy"] == pytest.approx((0.1705, 0.111, 0.253), abs=5e-4)
    assert intervals["individual_accuracy"] == pytest.approx((0.5369, 0.496, 0.577), abs=5e-4)
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


@needs_shared
def test_table_two_of_gmai_mmbench_comes_out(tmp_path: Path) -> None:
    from medvqa import lexicon

    reference = REFERENCE / "gmai-mmbench"
    counts: dict[str, int] = json.loads((reference / "test_counts.json").read_text())["counts"]
    table: dict[str, Any] = json.loads((reference / "paper_tables.json").read_text())["table2_tasks"]
    tasks = lexicon.gmai_mmbench().dimensions["task"]
    names = {short: tasks.values[slug] for slug, shorts in tasks.abbreviations.items() for short in shorts}
    folder = tmp_path / "gmai-mmbench"
    folder.mkdir()
    table_two(folder, counts, names)
    benchmark = next(b for b in gmai_mmbench.BENCHMARKS if b.name == "gmai-mmbench-val")
    items = list(load(benchmark, tmp_path))
    assert len(items) == 20_602
    differences = {}
    for model in ("Random", "Med-Flamingo", "LLaVA-Med", "Qilin-Med-VL-Chat", "RadFM", "MedDr"):
        row = table[model]
        right = {lexicon.slug(names[task]): round(row[task] * count / 100) for task, count in counts.items()}
        recorded = tmp_path / f"{model}.jsonl"
        recorded.write_text("\n".join(responses(items, right)) + "\n")
        replay = Replay(str(recorded))
        prompts = [benchmark.prompt(item, "mc") for item in items]
        answered = zip(items, prompts, engine.ask(replay, prompts), strict=True)
        results: list[Result] = [engine.result(*each, benchmark=benchmark, run="t") for each in answered]
        measures = metrics.measures(
            results, [metrics.accuracy], [], benchmark=benchmark.name, signature={}, score=benchmark.score
        )
        (overall,) = (m for m in measures if m.name == "accuracy" and not m.slice)
        assert overall.value is not None
        differences[model] = abs(100 * overall.value - row["test"])
    assert max(differences.values()) <= 0.01, differences
