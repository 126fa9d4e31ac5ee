"""A run of MMMU Health at a server: images stand where their marks do, and the counts are right."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from medvqa.benchmarks.mmmu import SUBJECTS
from support.neighbours import CANARY, rows, write
from support.servers import Reply, Request, Server, completion
from support.sessions import folder, run, text, written

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'pytest-medvqa[data]'")
pytest.importorskip("openai", reason="needs openai: pip install 'pytest-medvqa[openai]'")

TEST = """
import pytest

@pytest.mark.vqa("{name}")
def test_it(item, evaluate):
    evaluate(item)
"""
CHOICE, OPEN, *_ = rows("mmmu")
FILE = "mmmu-health/{}/{}-00000-of-00001.parquet"
PHARMACY = [
    CHOICE,
    OPEN | {"image_1": {"grey": 30}},
    CHOICE
    | {"id": "validation_Pharmacy_3", "question": "Which is it?", "options": "['a', 'b']"}
    | {"image_1": {"grey": 40}, "image_2": {"grey": 50}},
]


def exams(split: str, **rows: Any) -> dict[str, Any]:
    """The files of a split: a question for each subject without rows."""
    return {
        FILE.format(subject, split): rows.get(subject, [CHOICE | {"id": f"{split}_{subject}_1"}])
        for subject in SUBJECTS
    }


def parts(request: Request) -> list[str]:
    """The parts of a message in order: texts, and the grey values of images."""
    shown = []
    for part in request.body["messages"][-1]["content"]:
        if part["type"] == "text":
            shown.append(part["text"])
            continue
        data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
        shown.append(str(PIL.Image.open(io.BytesIO(data)).convert("L").getpixel((0, 0))))
    return shown


def made(pytester: pytest.Pytester, url: str, name: str = "mmmu-health-val") -> None:
    pytester.makepyfile(test_exam=TEST.format(name=name))
    models = pytester.mkdir("models")
    (models / "served.toml").write_text(f'backend = "openai"\nargument = "tiny"\n[options]\nbase_url = "{url}"\n')


def reply(number: int, request: Request) -> Reply:
    """Right for three of the choices, empty for the others; right for the open question."""
    shown = "".join(parts(request))
    if "How many mg" in shown:
        return Reply(completion("0.50"))
    return Reply(completion("(A)" if "aspirin" in shown else ""))


def test_a_server_gets_images_at_their_marks_and_an_empty_answer_is_wrong(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    data = write(tmp_path, exams("validation", Pharmacy=PHARMACY), {})
    with Server(reply) as server:
        made(pytester, server.url)
        result = run(pytester, "--model=served", "--benchmark=mmmu-health-val", f"--data={data}", "--run=mmmu")
        asked = [parts(request) for request in server.requests]
        sent = json.dumps([request.body for request in server.requests])
    assert result.ret == 0, text(result)
    end = "\n\nAnswer with the option's letter from the given choices directly."
    assert ["Which drug does ", "10", " show?\n(A) aspirin\n(B) Crohn's drug\n(C) ", "20", end] in asked
    assert ["How many mg, by ", "30", "?\nAnswer the question using a single word or phrase."] in asked
    assert ["40", "50", f"Which is it?\n(A) a\n(B) b\n{end[1:]}"] in asked
    assert len(asked) == 7
    run_folder = folder(pytester)
    measures: Any = {m["name"]: m for m in written(run_folder)["measures"] if not m["slice"]}
    assert (measures["mean_score"]["count"], measures["mean_score"]["n"]) == (6, 7)
    assert (measures["accuracy"]["count"], measures["accuracy"]["n"]) == (5, 6)
    assert measures["unparsed_rate"]["count"] == 1
    everything = "".join(path.read_text() for path in run_folder.iterdir() if path.is_file())
    assert CANARY not in everything + sent
    assert "mmmu/mc@" in measures["accuracy"]["signature"]


def test_the_test_split_writes_a_submission(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    data = write(tmp_path, exams("test"), {})
    with Server(lambda number, request: Reply(completion("B"))) as server:
        made(pytester, server.url, "mmmu-health-test")
        result = run(pytester, "--model=served", "--benchmark=mmmu-health-test", f"--data={data}", "--run=mmmu")
    assert result.ret == 0, text(result)
    sheet = json.loads((folder(pytester) / "mmmu-health-test-submission.json").read_text())
    assert list(sheet.values()) == ["B"] * 5
    result.stdout.fnmatch_lines(["*mmmu-health-test-submission.json is the sheet to send to the benchmark's owners*"])
