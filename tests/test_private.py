"""Names of patients: which files of a run may hold them, and which must not."""

import base64
import gzip
import os
import re
import stat
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image as Picture

from medvqa import records
from medvqa.cli import main
from medvqa.records import keyed
from medvqa.records.private import IGNORE, IGNORED, make_private

SUITE = """
import os
import pathlib

from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, AnswerError, Benchmark, Image, Item
from medvqa.protocols.prompts import Template

ASK = Template("ward/mc", "{question}\\n{options}", "{letter}. {text}\\n")
HERE = pathlib.Path(__file__).parent


def items(data):
    for n in range(40):
        image = Image(f"scans/SMITH_JOHN_{n}.png", str(HERE / "scan.png"))
        yield Item(f"DOE-JANE-{n:02}", "ward", "single_choice", f"Is this the spleen of PETER-PAN, {n}?",
                   {"A": "liver", "B": "spleen"}, ("A",), (image,), {"organ": ("liver", "heart")[n % 2: n % 2 + 1]},
                   pair_id=f"MRN-4711-{n // 2}", cluster_id=f"ROE-RICHARD-{n // 2}",
                   extra={"PatientName": "MUSTERMANN^ERIKA"})


class Clinic(Backend):
    name = title = "clinic"
    sends_to = None

    def secrets(self):
        return [os.environ["CLINIC_KEY"]]

    def fingerprint(self):
        return os.environ.get("WEIGHTS", "weights")

    def generate(self, prompts):
        for prompt in prompts:
            for image in prompt.images:
                image.pil()
        wrong = os.environ.get("WRONG", "").split()
        return [AnswerError(f"no {os.environ['CLINIC_KEY']}") if prompt.item[-2:] in os.environ.get("LOST", "").split()
                else Answer("B" if prompt.item[-2:] in wrong else "A", finish=os.environ["CLINIC_KEY"])
                for prompt in prompts]


def pytest_medvqa_benchmarks():
    return [Benchmark(name="ward", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates), dimensions=("organ",))]
"""
TEST = """
import pytest

@pytest.mark.vqa("ward")
def test_ward(item, evaluate):
    evaluate(item)
"""
SECRET = "sk-a-key-of-nobody-4711"
BASELINE_KEY = "7c" * 32
PLANTED = ("DOE-JANE", "SMITH_JOHN", "PETER-PAN", "MRN-4711", "ROE-RICHARD", "MUSTERMANN", SECRET, BASELINE_KEY)

# Planted words by the files of a run that may hold them; all other files hold none.
IDS = {"DOE-JANE"}
OWN: dict[str, set[str]] = {
    "results.jsonl": {"DOE-JANE", "SMITH_JOHN", "PETER-PAN", "MRN-4711", "ROE-RICHARD", "MUSTERMANN"},
    "index.html": {"DOE-JANE", "SMITH_JOHN", "PETER-PAN", "MRN-4711"},
    "selected.jsonl": IDS,
    "junit.xml": IDS,
}


@pytest.fixture
def ward(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A repository whose data name patients in ids, file names, questions, pairs, clusters and further fields."""
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "WRONG", "LOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLINIC_KEY", SECRET)
    monkeypatch.setenv(keyed.ENV_KEY, BASELINE_KEY)
    pytester.makeconftest(SUITE)
    pytester.makepyfile(test_ward=TEST)
    pytester.makefile(".ini", pytest="[pytest]\n")
    Picture.new("RGB", (32, 32), (200, 10, 10)).save(pytester.path / "scan.png")
    return pytester


def run(ward: pytest.Pytester, *arguments: str) -> tuple[int, str]:
    typed = ("-p", "no:randomly", "--model=clinic", "--benchmark=ward", *arguments)
    result = (
        ward.runpytest_subprocess(*typed) if any(word.startswith("-n") for word in typed) else ward.runpytest(*typed)
    )
    return int(result.ret), result.stdout.str() + result.stderr.str()


def folder(ward: pytest.Pytester, name: str) -> Path:
    return ward.path / "reports" / name


def planted(content: bytes) -> set[str]:
    """The planted words in a file's content, as it stands there or packed."""
    contents = [content]
    if content[:2] == b"\x1f\x8b":
        contents.append(gzip.decompress(content))
    for text in re.findall(rb">([A-Za-z0-9+/=]{200,})<", content):
        try:
            contents.append(zlib.decompress(base64.b64decode(text)))
        except (ValueError, zlib.error):
            continue
    return {word for word in PLANTED if any(word.encode() in each for each in contents)}


def files_in(path: Path) -> Iterator[Path]:
    return (file for file in sorted(path.rglob("*")) if file.is_file())


@pytest.mark.parametrize("spread", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["serial", "n2"])
def test_names_stay_in_the_files_that_may_hold_them(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spread: tuple[str, ...]
) -> None:
    code, output = run(ward, "--run=main", "-p", "no:cacheprovider", *spread)
    assert code == 0, output
    assert planted(output.encode()) == set()
    baseline = ward.path / "main.medvqa"
    capsys.readouterr()
    assert main(["baseline", str(folder(ward, "main")), "-o", str(baseline), "--no-responses"]) == 0
    assert planted("".join(capsys.readouterr()).encode()) == set()
    assert planted(baseline.read_bytes()) == set()
    monkeypatch.setenv("WEIGHTS", "others")
    monkeypatch.setenv("WRONG", "03 04 05")
    _, output = run(ward, "--run=next", f"--baseline={baseline}", "-p", "no:cacheprovider", *spread)
    assert "gate" in output
    found = {
        file.relative_to(ward.path / "reports"): planted(file.read_bytes()) for file in files_in(ward.path / "reports")
    }
    told = {str(file): words for file, words in found.items() if words - OWN.get(file.name, set())}
    print(told)
    assert not told
