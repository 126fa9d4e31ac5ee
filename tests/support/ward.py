"""A repository of two benchmarks with a scripted model, and readers of its runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medvqa.cli import main

WARD = '''
import os, pathlib
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("ward/mc", "{question}\\n{options}", "{letter}. {text}\\n")
OPTIONS = {"A": "liver", "B": "spleen", "C": "kidney"}


def items(data, name="ward"):
    for n in range(60):
        yield Item(f"q{n:02}", name, "single_choice", f"Question {n}?", OPTIONS, ("ABC"[n % 3],),
                   tags={"organ": ("liver", "heart")[n % 2: n % 2 + 1]})


class Scripted(Backend):
    """Answers right, but wrong to the items of WRONG and not at all to those of REFUSED; names its calls in a file."""

    name = title = "scripted"
    sends_to = None

    def load(self):
        self._wrong = set(os.environ.get("WRONG", "").split())
        self._refused = set(os.environ.get("REFUSED", "").split())

    def fingerprint(self):
        return os.environ.get("WEIGHTS", "weights")

    def generate(self, prompts):
        with open("asked", "a") as file:
            file.write("".join(f"{prompt.item}\\n" for prompt in prompts))
        return [Answer(self._said(prompt)) for prompt in prompts]

    def _said(self, prompt):
        if prompt.item in self._refused:
            return "I cannot assist with that."
        number = int(prompt.item[1:])
        return "ABC"[(number + (prompt.item in self._wrong)) % 3]


def pytest_medvqa_backends():
    return [Scripted]


def pytest_medvqa_benchmarks():
    def benchmark(name):
        return Benchmark(name=name, items=lambda data: items(data, name), prompt=ASK.prompt,
                         score=scoring.score_single_choice, metrics=(metrics.accuracy, *metrics.rates),
                         dimensions=("organ",))
    return [benchmark("ward"), benchmark("clinic")]
'''

TEST = """
import pytest

@pytest.mark.vqa("ward")
def test_ward(item, evaluate):
    evaluate(item)

@pytest.mark.vqa("clinic")
def test_clinic(item, evaluate):
    evaluate(item)
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    way = pytester.runpytest_subprocess if any(word.startswith("-n") for word in arguments) else pytester.runpytest
    return way("-p", "no:randomly", "-p", "no:benchmark", "-p", "no:html", *arguments)


def text(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


def folder(pytester: pytest.Pytester, name: str) -> Path:
    return pytester.path / "reports" / name


def record(pytester: pytest.Pytester, name: str, file: str = "run.json") -> Any:
    return json.loads((folder(pytester, name) / file).read_text())


def measure(pytester: pytest.Pytester, run_name: str, name: str) -> Mapping[str, Any]:
    measures = record(pytester, run_name, "metrics.json")["measures"]
    return next(entry for entry in measures if entry["name"] == name and not entry["slice"])


def verdict(pytester: pytest.Pytester, name: str) -> str | None:
    gate = record(pytester, name, "metrics.json")["gate"]
    return gate["outcome"] if gate else None


def medvqa(pytester: pytest.Pytester, command: str, *arguments: str) -> int:
    """Run a command of `medvqa` that knows the repository's benchmarks; return its exit code."""
    return main([command, f"--plugin={pytester.path / 'conftest.py'}", *arguments])
