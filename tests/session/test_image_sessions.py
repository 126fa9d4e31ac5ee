"""What a backend of one's own sees, and what it can get at when the picture is taken away."""

import hashlib
import json
import sys
from typing import Any

import PIL.Image
import pytest

from medvqa.items import Image, Prompt
from medvqa.protocols import prompts

SUITE = '''
import json
import sys
from dataclasses import asdict
from pathlib import Path

from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, Benchmark, Image, Item, MedVQAError
from medvqa.protocols.prompts import Template

ASK = Template("drawn/mc", "{question}\\n{options}", "{letter}. {text}\\n")
HERE = Path(__file__).parent


def drawn(data):
    for n in range(4):
        yield Item(f"q{n}", "drawn", "single_choice", "Which?", {"A": "red", "B": "blue"}, ("A",),
                   (Image(f"pictures/{n}.png", str(data / f"pictures/{n}.png")),))


class Spy(Backend):
    """Writes down what it gets by each way that leads to an image, and the items that it was fitted on."""

    name = title = "spy"
    sends_to = None

    _fitted = ()

    def fingerprint(self):
        return "spy 1"

    def fit(self, items):
        self._fitted = [asdict(image) for item in items for image in item.images]

    def generate(self, prompts):
        with (HERE / "seen.jsonl").open("a") as file:
            for prompt in prompts:
                seen = [self._spied(image) for image in prompt.images]
                file.write(json.dumps({"item": prompt.item, "images": seen, "fitted": self._fitted}) + "\\n")
        return [Answer("A") for _ in prompts]

    def _spied(self, image):
        found = {"name": image.name, "digest": image.digest, "colour": image.pil().getpixel((0, 0)),
                 "size": image.pil().size, "opened": []}
        for path in (image.path, HERE / "data" / image.name, image.name):
            if str(path) and Path(path).is_file():
                found["opened"].append(Path(path).name)
        found["cell"] = image.cell
        return found


def pytest_medvqa_backends():
    return [Spy]


def pytest_medvqa_benchmarks():
    return [Benchmark(name="drawn", items=drawn, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy,))]
'''
TEST = """
import pytest

@pytest.mark.vqa("drawn")
def test_drawn(item, evaluate):
    evaluate(item)
"""
GREY = [127, 127, 127]


@pytest.fixture
def suite(outside: None, pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(SUITE)
    pytester.makepyfile(test_pictures=TEST)
    (pytester.path / "data/pictures").mkdir(parents=True)
    for n in range(4):
        PIL.Image.new("RGB", (8 + n, 6), (10 * n, 200, 0)).save(pytester.path / f"data/pictures/{n}.png")
    return pytester


def seen(suite: pytest.Pytester, *arguments: str, run: str = "spied") -> dict[str, dict[str, Any]]:
    """What the model saw, by item."""
    (suite.path / "seen.jsonl").write_text("")
    options = ("--model=spy", "--benchmark=drawn", "--data=data", f"--run={run}", "-p", "no:randomly")
    assert suite.runpytest_inprocess(*options, "-p", "no:benchmark", *arguments).ret == 0
    return {line["item"]: line for line in map(json.loads, (suite.path / "seen.jsonl").read_text().splitlines())}


def recorded(suite: pytest.Pytester, run: str = "spied") -> list[dict[str, Any]]:
    lines = (suite.path / "reports" / run / "results.jsonl").read_text().splitlines()
    return sorted(map(json.loads, lines), key=lambda line: line["item"]["id"])


def sha256(suite: pytest.Pytester, n: int) -> str:
    return hashlib.sha256((suite.path / f"data/pictures/{n}.png").read_bytes()).hexdigest()


def test_without_ablation_the_picture_is_there(suite: pytest.Pytester) -> None:
    for n, line in enumerate(seen(suite).values()):
        (image,) = line["images"]
        assert (image["colour"], image["size"]) == ([10 * n, 200, 0], [8 + n, 6])
        assert image["opened"] == [f"{n}.png", f"{n}.png"]
        assert len(line["fitted"]) == 4


def test_a_blank_picture_keeps_its_size_and_leads_nowhere(suite: pytest.Pytester) -> None:
    lines = seen(suite, "--ablate=blank")
    assert len(lines) == 4
    for n, line in enumerate(lines.values()):
        (image,) = line["images"]
        assert (image["colour"], image["size"]) == (GREY, [8 + n, 6])
        assert image["opened"] == []
        assert image["cell"] is None
        assert str(n) not in image["name"]
        assert image["digest"] != sha256(suite, n), "a cache by digest would find the picture"
        assert line["fitted"] == []
    for n, line in enumerate(recorded(suite)):
        (image,) = line["item"]["images"]
        assert (image["name"], image["digest"]) == (f"sha256-{sha256(suite, n)[:12]}", sha256(suite, n)), (
            "the item's own"
        )


def test_an_answer_to_a_blank_picture_has_the_key_that_it_had(suite: pytest.Pytester) -> None:
    """Answers that were stored before pictures were taken out of the reference are found again."""
    seen(suite, "--ablate=blank")
    for n, line in enumerate(recorded(suite)):
        # Written out as prompts.digest had it: technique, system prompt, text, "blank" and the digest of the image.
        parts = ["mc", "", "Which?\nA. red\nB. blue\n", f"blank {sha256(suite, n)}"]
        assert line["prompt"] == hashlib.sha256("\0".join(f"{len(p)}:{p}" for p in parts).encode()).hexdigest()
    assert seen(suite, "--ablate=blank", "--answers=spied", run="again") == {}, "all answers are stored"
    assert len(seen(suite, "--answers=spied", run="whole")) == 4, "and are none to the pictures themselves"


def test_a_withheld_picture_is_gone(suite: pytest.Pytester) -> None:
    for line in seen(suite, "--ablate=text-only").values():
        assert line["images"] == line["fitted"] == []


def test_of_shuffled_pictures_only_the_other_one_is_visible(suite: pytest.Pytester) -> None:
    shown = {}
    for n, (_, line) in enumerate(sorted(seen(suite, "--ablate=shuffle").items())):
        (image,) = line["images"]
        assert line["fitted"] == []
        other = shown[n] = image["colour"][0] // 10
        assert other != n
        assert image["opened"] == [f"{other}.png"] * 2
        assert image["name"] == f"pictures/{other}.png"
    assert sorted(shown.values()) == [0, 1, 2, 3]


def test_a_picture_that_cannot_be_read_is_an_error_of_its_question_alone(suite: pytest.Pytester) -> None:
    (suite.path / "data/pictures/2.png").write_bytes(b"")
    options = ("--model=spy", "--benchmark=drawn", "--data=data", "--run=spied", "-p", "no:randomly")
    suite.runpytest_inprocess(*options, "-p", "no:benchmark", "--ablate=blank")
    scores = [line["score"] for line in recorded(suite)]
    assert [score["outcome"] for score in scores] == ["correct", "correct", "error", "correct"]
    assert "image unread-1: the file cannot be read, so the blank image has no size" in scores[2]["why"]


def test_the_digest_of_a_blank_prompt_is_the_one_of_before() -> None:
    image = Image("1.png", digest="ab" * 32)
    prompt = Prompt("Which?", (image.blanked(),))
    assert prompts.digest(prompt) == (
        hashlib.sha256(f"2:mc\x000:\x006:Which?\x0070:blank {'ab' * 32}".encode()).hexdigest()
    )


def test_sixteen_bits_are_an_error_until_the_benchmark_declares_a_window(suite: pytest.Pytester) -> None:
    for n in range(4):
        raw = PIL.Image.new("I;16", (8 + n, 6), 1024 * n)
        raw.save(suite.path / f"data/pictures/{n}.png")
    options = ("--model=spy", "--benchmark=drawn", "--data=data", "-p", "no:randomly", "-p", "no:benchmark")
    suite.runpytest_inprocess(*options, "--run=refused")
    for n, line in enumerate(recorded(suite, "refused")):
        assert line["score"]["outcome"] == "error"
        assert f"image sha256-{sha256(suite, n)[:12]}: 16 bits a channel" in line["score"]["why"]
        assert "window=(0, 4095)" in line["score"]["why"]
    declared = SUITE.replace('{n}.png")),))', '{n}.png"), window=(0, 4096)),))')
    assert declared != SUITE
    suite.makeconftest(declared)
    for n, line in enumerate(seen(suite, run="declared").values()):
        assert line["images"][0]["colour"] == [round(63.75 * n)] * 3


def test_a_reader_that_is_not_installed_is_told_before_the_first_question(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydicom", None)
    suite.makeconftest(SUITE.replace("{n}.png", "{n}.dcm"))
    for n in range(4):
        (suite.path / f"data/pictures/{n}.dcm").write_bytes(bytes(128) + b"DICM")
    options = ("--benchmark=drawn", "--data=data", "--model=spy", "-p", "no:randomly", "-p", "no:benchmark")
    refused = suite.runpytest_inprocess(*options)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    line = "drawn: DICOM files need pydicom: pip install 'pytest-medvqa[dicom]'; or ask without images"
    assert line in "".join((*refused.outlines, *refused.errlines))
    assert not (suite.path / "seen.jsonl").exists()
    assert suite.runpytest_inprocess(*options, "--ablate=text-only").ret == 0
