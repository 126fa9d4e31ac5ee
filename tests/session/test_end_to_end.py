"""The shipped suite on small data: withheld keys, missing images, bad files, replay, pairs that a filter breaks."""

import base64
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from support.sessions import SPREAD_SLOWLY

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
CUT = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()
COLUMNS = ("index", "image", "question", "A", "B", "C", "answer", "category", "clinical VQA task", "department")
COLUMNS += ("perceptual granularity", "modality", "original task")
TAGS = ("Disease Diagnosis", "Dermatology", "Image level", "Dermoscopy", "made")

SUITE = """
import pytest

@pytest.mark.vqa("gmai-mmbench")
def test_gmai(item, evaluate):
    evaluate(item)

@pytest.mark.vqa("mediconfusion")
def test_mediconfusion(item, evaluate):
    evaluate(item)

@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)
"""
LOOKING = """
from medvqa import Answer, Backend

class Looking(Backend):
    name = title = "looking"
    sends_to = None

    def generate(self, prompts):
        for prompt in prompts:
            for image in prompt.images:
                image.pil()
        return [Answer("A") for _ in prompts]

def pytest_medvqa_backends():
    return [Looking]
"""


@pytest.fixture
def suite(outside: None, pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_questions=SUITE)
    pytester.makeconftest(LOOKING)
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    way = pytester.runpytest_subprocess if "-n2" in arguments else pytester.runpytest_inprocess
    return way("--run=it", "-p", "no:randomly", "-p", "no:benchmark", *arguments)


def folder(pytester: pytest.Pytester) -> Path:
    return pytester.path / "reports" / "it"


def outcomes(pytester: pytest.Pytester) -> Counter[str]:
    lines = (folder(pytester) / "results.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["score"]["outcome"] for line in lines)


def overall(pytester: pytest.Pytester) -> dict[str, Any]:
    measures = json.loads((folder(pytester) / "metrics.json").read_text())["measures"]
    return {measure["name"]: measure for measure in measures if not measure["slice"]}


def text(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


def gmai(data: Path, name: str, rows: int = 6, withheld: bool = False, **cells: str) -> Path:
    """A table of GMAI-MMBench; `cells` replace those of the last row."""
    columns = [column for column in COLUMNS if not (withheld and column == "answer")]
    lines = ["\t".join(columns)]
    for n in range(rows):
        row = dict(zip(COLUMNS, (str(n), PIXEL, f"What is in image {n}?", "naevus", "wart", "cyst"), strict=False))
        row |= {"answer": "ABC"[n % 3], "category": ("naevus", "wart", "cyst")[n % 3]}
        row |= dict(zip(COLUMNS[-5:], TAGS, strict=True))
        if n == rows - 1:
            row |= cells
        lines.append("\t".join(row[column] for column in columns))
    path = data / "gmai-mmbench" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def mediconfusion(data: Path, pairs: int = 4) -> None:
    plain = {"category_1": ["Cerebral"], "category_2": ["Vascular"], "question": "What is it?", "option_A": "a stent"}
    plain |= {"option_B": "a clip", "im_1_correct": "A", "im_2_correct": "B", "im_1": "x.jpg", "im_2": "y.jpg"}
    table = {str(10001 + n): {**plain, "im_1_local": 2 * n, "im_2_local": 2 * n + 1} for n in range(pairs)}
    path = data / "mediconfusion" / "dataset.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(table))


# --- data that are there in part ---------------------------------------------------------------------------


def test_data_that_are_there_in_part_are_told(suite: pytest.Pytester, tmp_path: Path) -> None:
    gmai(tmp_path, "GMAI-MMBench_VAL.tsv")
    (tmp_path / "mediconfusion").mkdir()
    (tmp_path / "mediconfusion/dataset.json.part").write_text("{")
    result = run(suite, f"--data={tmp_path}", "--model=echo:A")
    assert result.ret == 0
    assert (
        f"medvqa: mediconfusion is not evaluated: {tmp_path}/mediconfusion is there, and nothing in it is read: looked "
        "for mediconfusion/dataset.json or mediconfusion/dataset.csv; it holds dataset.json.part"
    ) in text(result)
    assert "gmai-mmbench-val: the data hold 6 of the release's 4,550 questions." in text(result)
    assert json.loads((folder(suite) / "run.json").read_text())["benchmarks"]["gmai-mmbench-val"]["release"] == 4550


def test_missing_parts_of_test_end_the_session_before_anything_is_asked(suite: pytest.Pytester, tmp_path: Path) -> None:
    gmai(tmp_path, "GMAI_mm_bench_TEST_part_1.tsv", withheld=True)
    result = run(suite, f"--data={tmp_path}", "--model=echo:A")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "gmai-mmbench-test: GMAI_mm_bench_TEST_part_2.tsv and 9 more are not there" in text(result)


# --- withheld keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_withheld_keys_end_unscored_and_give_the_sheet(
    suite: pytest.Pytester, tmp_path: Path, spread: tuple[str, ...]
) -> None:
    gmai(tmp_path, "GMAI_TEST.tsv", withheld=True)
    result = run(suite, f"--data={tmp_path}", "--benchmark=gmai-mmbench-test", "--model=echo:A", *spread)
    assert result.ret == 0
    assert outcomes(suite) == {"unscored": 6}
    assert overall(suite)["accuracy"]["value"] is None
    (sheet,) = folder(suite).glob("*.xlsx")
    result.stdout.fnmatch_lines([f"! {sheet.name} is the sheet to send to the benchmark's owners."])
    rows = list(openpyxl.load_workbook(sheet).active.values)
    assert len(rows) == 7
    assert {row[rows[0].index("prediction")] for row in rows[1:]} == {"A"}


def test_keys_recovered_from_another_column_are_labelled_everywhere(suite: pytest.Pytester, tmp_path: Path) -> None:
    gmai(tmp_path, "GMAI_TEST.tsv", withheld=True)
    arguments = (f"--data={tmp_path}", "--benchmark=gmai-mmbench-test", "--model=echo:A", "--answers-from-category")
    result = run(suite, *arguments)
    assert result.ret == 0
    assert outcomes(suite) == {"correct": 2, "wrong": 4}
    assert "|answers:category|" in f"|{overall(suite)['accuracy']['signature']}|"
    said = "the answer key was recovered from the column 'category', not given by its owners"
    assert said in text(result)
    assert said in (folder(suite) / "summary.md").read_text().replace("\\", "")
    assert not list(folder(suite).glob("*.xlsx"))


# --- images -----------------------------------------------------------------------------------------------


@pytest.fixture
def incomplete(tmp_path: Path) -> Path:
    """Data of eight images, of which the last is missing and another is a folder."""
    mediconfusion(tmp_path)
    images = tmp_path / "mediconfusion/images"
    (images / "6.jpg").mkdir(parents=True)
    for number in range(6):
        (images / f"{number}.jpg").write_bytes(base64.b64decode(PIXEL))
    return tmp_path


def test_a_run_of_which_images_are_missing_is_refused(suite: pytest.Pytester, incomplete: Path) -> None:
    result = run(suite, f"--data={incomplete}", "--model=looking:x", "--shard=1/2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = "mediconfusion: 6 of 8 images are there, the first that is missing: mediconfusion/images/6.jpg"
    assert said in text(result)
    assert f"(medvqa fetch mediconfusion --data={incomplete})" in text(result)
    assert "or select questions" in text(result)
    shutil.rmtree(incomplete / "mediconfusion/images")
    nothing = run(suite, f"--data={incomplete}", "--model=looking:x", "-k", "10001")
    assert nothing.ret == pytest.ExitCode.USAGE_ERROR
    assert "mediconfusion: 0 of 8 images are there" in text(nothing)


def test_a_missing_image_is_an_error_of_its_item_where_a_part_is_selected(
    suite: pytest.Pytester, incomplete: Path
) -> None:
    result = run(suite, f"--data={incomplete}", "--model=looking:x", "-k", "10004 or 10003")
    assert result.ret == 1
    assert outcomes(suite) == {"error": 2, "correct": 1, "wrong": 1}
    assert "medvqa: mediconfusion: 2 of 8 images are missing; questions about them end in errors" in text(result)
    assert "the first: 10004/1: image mediconfusion/images/6.jpg: no such file" in text(result)


def test_a_missing_image_is_no_error_for_a_model_that_needs_none(suite: pytest.Pytester, tmp_path: Path) -> None:
    mediconfusion(tmp_path)
    assert run(suite, f"--data={tmp_path}", "--model=echo:A").ret == 0
    assert outcomes(suite) == {"correct": 4, "wrong": 4}


@pytest.mark.parametrize(("cell", "message"), [("!not base64!" * 9, "base64"), ("QUJD" * 40, "image"), (CUT, "image")])
def test_a_bad_image_costs_its_item_and_no_other(
    suite: pytest.Pytester, tmp_path: Path, cell: str, message: str
) -> None:
    gmai(tmp_path, "GMAI-MMBench_VAL.tsv", image=cell)
    result = run(suite, f"--data={tmp_path}", "--model=looking:x")
    assert result.ret == 1
    assert outcomes(suite) == {"error": 1, "correct": 2, "wrong": 3}
    assert re.search(rf"GMAI-MMBench_VAL\.tsv row 6.*{message}", text(result))


# --- bad files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"answer": "Z"}, r"row 6 \(line 7\), index '5': answer 'Z' is none of its options"),
        ({"index": "0"}, r"row 6 \(line 7\): index '0' is also that of row 1"),
        ({"image": "99"}, r"row 6.*99"),
    ],
)
def test_a_bad_file_is_one_line_before_collection(
    suite: pytest.Pytester, tmp_path: Path, cells: dict[str, str], message: str, spread: tuple[str, ...]
) -> None:
    gmai(tmp_path, "GMAI-MMBench_VAL.tsv", **cells)
    result = run(suite, f"--data={tmp_path}", "--model=echo:A", *spread)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.startswith("ERROR")]
    assert re.search(r"GMAI-MMBench_VAL\.tsv " + message, line), line
    assert "collected" not in text(result)


# --- replay -----------------------------------------------------------------------------------------------


def test_recorded_answers_of_another_run_are_scored_again(suite: pytest.Pytester, tmp_path: Path) -> None:
    run(suite, "--model=random", "--benchmark=phantom", "--limit=20")
    first = (folder(suite) / "metrics.json").read_text()
    (suite.path / "reports" / "it").rename(suite.path / "reports" / "first")
    result = run(suite, "--model=replay:reports/first/results.jsonl", "--benchmark=phantom", "--limit=20")
    assert result.ret == 0
    again = (folder(suite) / "metrics.json").read_text()
    assert json.loads(first)["measures"] == json.loads(again)["measures"]


def test_a_recorded_answer_that_is_missing_is_an_error_of_its_item(suite: pytest.Pytester, tmp_path: Path) -> None:
    mediconfusion(tmp_path)
    recorded = [{"id": f"{10001 + n}/{side}", "response": "A"} for n in range(4) for side in (1, 2)]
    recorded[2] = {"id": "99999/1", "response": "A"}
    (suite.path / "recorded.jsonl").write_text("\n".join(map(json.dumps, recorded)))
    result = run(suite, f"--data={tmp_path}", "--model=replay:recorded.jsonl")
    assert result.ret == 1
    assert outcomes(suite)["error"] == 1
    assert "has no answer for 10002/1" in text(result)
    assert "99999/1" in text(result), "an answer to an unknown item is a warning"
    assert overall(suite)["set_accuracy"]["n"] == 3
    assert overall(suite)["error_rate"]["count"] == 1


# --- pairs ------------------------------------------------------------------------------------------------


def test_pairs_that_a_filter_breaks_are_counted_and_named(suite: pytest.Pytester, tmp_path: Path) -> None:
    mediconfusion(tmp_path)
    result = run(suite, f"--data={tmp_path}", "--model=echo:A", "-m", "lexicon(category='cerebral')")
    assert result.ret == 0
    said = "mediconfusion: 4 pairs have only one question in this run, left out of pair measures: 10001, 10002, 10003"
    result.stdout.fnmatch_lines([f"! {said}*"])
    assert "set_accuracy" not in overall(suite)
    assert json.loads((folder(suite) / "metrics.json").read_text())["broken_pairs"] == {
        "mediconfusion": ["10001", "10002", "10003", "10004"]
    }


def test_the_phantom_is_what_is_left_when_no_data_are_found(suite: pytest.Pytester) -> None:
    result = run(suite, "--limit=12", "--model=random")
    assert result.ret == 0
    assert sum(outcomes(suite).values()) == 36
    about = json.loads((folder(suite) / "run.json").read_text())
    assert list(about["benchmarks"]) == ["phantom-gmai-mmbench", "phantom-mediconfusion", "phantom-medlesionvqa"]
    assert about["model"]["name"] == "random"


def test_one_member_of_a_group_may_be_asked_for(suite: pytest.Pytester) -> None:
    assert run(suite, "--benchmark=phantom-mediconfusion", "--model=echo:A").ret == 0
    measures = overall(suite)
    assert measures["set_accuracy"]["value"] == 0
    assert measures["individual_accuracy"]["value"] == 0.5
    assert measures["confusion"]["value"] == 1


# --- techniques and ablations -----------------------------------------------------------------------------

SEEING = """
from hashlib import sha256

from medvqa import Answer, Backend

class Seeing(Backend):
    name = title = "seeing"
    sends_to = None

    def generate(self, prompts):
        return [Answer(" ".join(map(self._look, prompt.images)) or "nothing") for prompt in prompts]

    def _look(self, image):
        picture = image.pil()
        grey = picture.getextrema() == ((127, 127),) * 3
        return f"{picture.size} {'grey' if grey else sha256(picture.tobytes()).hexdigest()}"

def pytest_medvqa_backends():
    return [Seeing]
"""


@pytest.fixture
def phantom(suite: pytest.Pytester) -> pytest.Pytester:
    suite.makepyfile(test_questions="import pytest\n\n" + SUITE[SUITE.index('@pytest.mark.vqa("phantom")') :])
    return suite


@pytest.mark.slow
def test_several_techniques_measure_the_same_serially_and_spread(phantom: pytest.Pytester) -> None:
    found = []
    for spread in ((), ("-n2",)):
        result = run(phantom, "--model=random", "--technique=mc,gd,ps", *spread)
        assert result.ret == 0
        written = json.loads((folder(phantom) / "metrics.json").read_text())
        assert written["missing"] == []
        found.append((written["measures"], written["outcomes"], written["run"]["left_out"]))
        folder(phantom).rename(phantom.path / f"run{len(found)}")
    assert found[0] == found[1]
    measures, outcomes, left_out = found[0]
    assert {name: sum(counts.values()) for name, counts in outcomes.items() if "mediconfusion" in name} == {
        f"phantom-mediconfusion {technique}": 72 for technique in ("mc", "gd", "ps")
    }
    assert left_out["phantom-gmai-mmbench"] == {"gd": {"multiple_response": 40}, "ps": {"multiple_response": 40}}
    assert left_out["phantom-medlesionvqa"]["ps"] == {"multiple_response": 36}
    assert sum(left_out["phantom-medlesionvqa"]["gd"].values()) == 92
    sets = {m["technique"]: m["value"] for m in measures if m["name"] == "set_accuracy" and not m["slice"]}
    (best,) = [m for m in measures if m["name"] == "best_set_accuracy" and not m["slice"]]
    assert best["value"] == max(sets.values())
    assert best["technique"] == "max(gd,mc,ps)"


def test_a_group_is_asked_as_far_as_it_can_be_and_a_benchmark_that_was_named_must(phantom: pytest.Pytester) -> None:
    assert run(phantom, "--model=random", "--technique=gd", "--benchmark=phantom", "--limit=4").ret == 0
    assert outcomes(phantom).total() == 8
    folder(phantom).rename(phantom.path / "first")
    result = run(phantom, "--model=random", "--technique=gd", "--benchmark=phantom-medlesionvqa")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "benchmark 'phantom-medlesionvqa' has no technique 'gd'; it has: mc, ps" in text(result)


def seen(pytester: pytest.Pytester, *arguments: str) -> dict[str, str]:
    """What the model saw of each question's images."""
    assert run(pytester, "--model=seeing:x", "--benchmark=phantom-mediconfusion", *arguments).ret == 0
    lines = map(json.loads, (folder(pytester) / "results.jsonl").read_text().splitlines())
    said = {line["item"]["id"]: line["answer"]["text"] for line in lines}
    folder(pytester).rename(pytester.path / f"run{'-'.join(arguments)}")
    return said


def test_a_model_sees_what_an_ablation_says(phantom: pytest.Pytester) -> None:
    phantom.makeconftest(SEEING)
    whole = seen(phantom)
    assert seen(phantom, "--ablate=text-only") == dict.fromkeys(whole, "nothing")
    sizes = {name: said.rpartition(" ")[0] for name, said in whole.items()}
    assert seen(phantom, "--ablate=blank") == {name: f"{size} grey" for name, size in sizes.items()}
    shuffled = seen(phantom, "--ablate=shuffle")
    assert Counter(shuffled.values()) == Counter(whole.values())
    for name, said in shuffled.items():
        pair = name.partition("/")[0]
        assert said not in {whole[f"{pair}/1"], whole[f"{pair}/2"]}
    part = seen(phantom, "--ablate=shuffle", "--limit=10")
    assert len(part) == 10
    assert part == {name: shuffled[name] for name in part}, "a selection does not change who sees what"


def test_images_that_all_are_one_cannot_be_shuffled(suite: pytest.Pytester, tmp_path: Path) -> None:
    gmai(tmp_path, "GMAI-MMBench_VAL.tsv")
    result = run(suite, "--model=random", f"--data={tmp_path}", "--ablate=shuffle")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--ablate=shuffle: 6 of the 6 questions of gmai-mmbench-val with images share their images" in text(result)
