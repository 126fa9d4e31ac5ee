"""`transformers serve`, a real server of chat completions, on a tiny checkpoint that is built here."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from medvqa.backend import loaded
from medvqa.backends.openai import OpenAI, OpenAIOptions
from medvqa.items import Answer, AnswerError, Image, Prompt
from support import tinies

pytestmark = pytest.mark.slow

STARTS_WITHIN = 120
"""Seconds."""
CONFIG = """
backend = "openai"
argument = "{checkpoint}"
[options]
base_url = "{url}"
concurrency = 2
"""
TEST = """
import pytest

@pytest.mark.vqa("phantom-mediconfusion")
def test_it(item, evaluate):
    evaluate(item)
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tinies.llava(tmp_path_factory.mktemp("tiny") / "llava")


@pytest.fixture(scope="module")
def url(checkpoint: Path) -> Iterator[str]:
    """The address of a server that has the checkpoint in memory and reaches nothing."""
    command = shutil.which("transformers", path=str(Path(sys.executable).parent))
    assert command is not None
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    where = [str(checkpoint), "--host=127.0.0.1", f"--port={port}", "--device=cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    log = checkpoint.parent / "log"
    with log.open("w") as said:
        server = subprocess.Popen([command, "serve", *where], env=environment, stdout=said, stderr=said)
    try:
        end = time.monotonic() + STARTS_WITHIN
        while not _is_up(f"http://127.0.0.1:{port}/health"):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(60)


def _is_up(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def test_it_answers_questions_of_the_phantom_with_their_images(
    pytester: pytest.Pytester, url: str, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (pytester.path / "models").mkdir()
    (pytester.path / "models/mine.toml").write_text(CONFIG.format(checkpoint=checkpoint, url=url))
    pytester.makepyfile(test_it=TEST)
    runs = {}
    for run, spread in (("serial", ()), ("spread", ("-n2",))):
        common = ("--model=mine", "--benchmark=phantom-mediconfusion", "--limit=8", f"--run={run}")
        done = pytester.runpytest_subprocess(*common, *spread, "-p", "no:randomly", "-p", "no:benchmark")
        assert done.ret == 0, done.stdout.str()
        folder = pytester.path / "reports" / run
        lines = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
        runs[run] = {line["item"]["id"]: line["answer"] for line in lines}
        assert json.loads((folder / "run.json").read_text())["served_by"] == [f"{checkpoint}@main"]
    assert len(runs["serial"]) == 8
    assert {key: said["text"] for key, said in runs["serial"].items()} == {
        key: said["text"] for key, said in runs["spread"].items()
    }
    for said in runs["serial"].values():
        assert said["text"]
        assert 1 <= said["usage"]["output"] <= 32


def test_an_image_takes_tokens(url: str, checkpoint: Path) -> None:
    images = sorted((Path(__file__).parents[2] / "fixtures/phantom/medlesionvqa/images").glob("*.png"))[:3]
    model = loaded(OpenAI(str(checkpoint), OpenAIOptions(base_url=url)))
    answers = model.generate([Prompt("Which?", (Image(path.name, str(path)),)) for path in images] + [Prompt("Which?")])
    model.close()
    seen = [answer for answer in answers if isinstance(answer, Answer)]
    assert len(seen) == 4, answers
    read = [answer.usage["input"] for answer in seen if answer.usage is not None]
    assert read[0] == read[1] == read[2] > read[3]


def test_it_ignores_that_log_probabilities_are_asked_for_and_the_error_says_so(url: str, checkpoint: Path) -> None:
    model = loaded(OpenAI(str(checkpoint), OpenAIOptions(base_url=url)))
    (answer,) = model.generate([Prompt("Which?", options={"A": "liver", "B": "spleen"}, technique="gd")])
    model.close()
    assert isinstance(answer, AnswerError)
    assert str(answer) == (
        f"{url.removesuffix('/v1')}: the server told no log-probabilities (`transformers serve`, for one, "
        "ignores that they are asked for): ask by --technique=mc"
    )
