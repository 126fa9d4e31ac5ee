"""A repository whose sessions can be killed: its model writes down its questions, and may be slow or die."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import processes

CONFTEST = '''
import os, pathlib, shutil, signal, time
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, AnswerError, Benchmark, Item, OfficialRule, Owners
from medvqa.protocols.prompts import Template

ASK = Template("slow/mc", "{question}\\n{options}", "{letter}. {text}\\n")
OPTIONS = {"A": "liver", "B": "spleen", "C": "kidney"}
CALLS = pathlib.Path(__file__).with_name("calls")


def items(data):
    for n in range(int(os.environ["ITEMS"])):
        yield Item(f"q{n:05}", "slow", "single_choice", f"Question {n}?", OPTIONS, ("ABC"[n % 3],),
                   tags={"organ": ("liver", "heart")[n % 2: n % 2 + 1]})


class Slow(Backend):
    """Answers after some milliseconds; dies, fails or hangs at some questions."""

    name = title = "slow"
    sends_to = None
    batch_size = 8

    def fingerprint(self):
        return os.environ.get("FINGERPRINT", "slow weights")

    def generate(self, prompts):
        ids = [prompt.item for prompt in prompts]
        with open(CALLS, "ab", buffering=0) as file:
            file.write(" ".join([str(os.getpid()), *ids, "\\n"]).encode())
        time.sleep(float(self.argument or 0) / 1000 * len(prompts))
        if set(ids) & set(os.environ.get("POISON", "").split()):
            os.kill(os.getpid(), signal.SIGKILL)
        while os.path.exists(os.environ.get("GATE", "")):
            time.sleep(0.02)
        if set(ids) & set(os.environ.get("HOLDS", "").split()):
            time.sleep(300)
        if set(ids) & set(os.environ.get("LOSES", "").split()):
            shutil.rmtree("reports/first/answers")
        if set(ids) & set(os.environ.get("FAILS", "").split()):
            raise ValueError("bad item")
        usage = {"input": 3.0, "cost": 0.5} if "USAGE" in os.environ else None
        return [Answer("ABCAABC"[int(id[1:]) % 7], usage=usage) for id in ids]


class Nameless(Slow):
    name = title = "nameless"

    def fingerprint(self):
        return None


def pytest_medvqa_backends():
    return [Slow, Nameless]


def pytest_medvqa_benchmarks():
    return [Benchmark(name="slow", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      owners=Owners(rule=OfficialRule(
                          score=lambda item, answer: scoring.score_single_choice(item, Answer("A")),
                          note="Everything is A.")),
                      metrics=(metrics.accuracy, *metrics.rates), dimensions=("organ",), public=True)]
'''
TEST = """
import pytest

@pytest.mark.vqa("slow")
def test_slow(item, evaluate):
    evaluate(item)
"""


@dataclass
class Repository:
    """A stranger's repository, and what its model was asked so far."""

    path: Path
    items: int = 40
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / "conftest.py").write_text(CONFTEST)
        (self.path / "test_slow.py").write_text(TEST)
        (self.path / "pytest.ini").write_text("[pytest]\n")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A session in a process group of its own."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MEDVQA_"))}
        return processes.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:html", "-p", "no:benchmark", *arguments],
            cwd=self.path,
            env=environment | {"ITEMS": str(self.items)} | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """A whole session: exit code and output."""
        session = self.start(*arguments)
        try:
            output, _ = session.communicate(timeout=500)
        finally:
            if session.poll() is None:
                kill_group(session)
        return session.returncode, output

    @property
    def calls(self) -> list[tuple[int, list[str]]]:
        """Process and items of each call, in order."""
        path = self.path / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(line.split()[0]), line.split()[1:]) for line in lines]

    @property
    def asked(self) -> Counter[str]:
        return Counter(item for _, items in self.calls for item in items)

    def folder(self, run: str) -> Path:
        return self.path / "reports" / run

    def results(self, run: str) -> dict[str, dict[str, Any]]:
        """The last line of each item."""
        lines = (self.folder(run) / "results.jsonl").read_text().splitlines()
        return {result["item"]["id"]: result for line in lines if (result := decoded(line)) is not None}

    def lines(self, run: str) -> int:
        """How many results are written."""
        path = self.folder(run) / "results.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def outcomes(self, run: str) -> Counter[str]:
        return Counter(result["score"]["outcome"] for result in self.results(run).values())

    def measures(self, run: str) -> list[dict[str, Any]]:
        return json.loads((self.folder(run) / "metrics.json").read_text())["measures"]

    def session(self, run: str) -> dict[str, Any]:
        """What run.json says of the last session."""
        return json.loads((self.folder(run) / "run.json").read_text())["sessions"][-1]

    def stored(self, run: str = "first") -> list[Path]:
        """The logs of a run."""
        return sorted((self.folder(run) / "answers").glob("*.log"), key=lambda path: path.name)


def decoded(line: str) -> dict[str, Any] | None:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def await_calls(repository: Repository, count: int, session: subprocess.Popen[str]) -> None:
    """Wait until the model was called so often, or the session has ended."""
    while len(repository.calls) < count and session.poll() is None:
        time.sleep(0.02)


def await_results(repository: Repository, run: str, count: int, session: subprocess.Popen[str]) -> None:
    """Wait until so many results are written, or the session has ended."""
    while repository.lines(run) < count and session.poll() is None:
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return False


def kill_group(session: subprocess.Popen[str]) -> None:
    os.killpg(session.pid, signal.SIGKILL)
    session.communicate()
