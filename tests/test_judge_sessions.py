"""Sessions with a judge: on the phantom against a server of this machine, and through all that can go wrong with one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import judges
from medvqa import benchmarks
from medvqa.benchmarks import phantom
from medvqa.items import CHOICE_KINDS, Item
from servers import Reply, Request, Server, completion, error

SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]
OPEN, PAIRS = "phantom-medlesionvqa", "phantom-mediconfusion"
CONFIG = """
backend = "openai"
argument = "judge"
[options]
base_url = "{url}"
retries = {retries}
timeout = {timeout}
concurrency = {concurrency}
{prices}
"""
TEST = """
import pytest

@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)
"""
CONFTEST = '''
import json, os, pathlib, time
from medvqa.items import Answer, AnswerError

HERE = pathlib.Path(__file__).parent
CALLS = os.open(HERE / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
SAID = json.loads((HERE / "said.json").read_text())


class Candidate:
    """Says what a file says, and notes what it is asked."""

    name = "candidate"
    capabilities = frozenset({"generate"})
    batch_size = 8

    def __init__(self, argument):
        pass

    def fingerprint(self):
        return "candidate"

    def generate(self, prompts):
        os.write(CALLS, " ".join([*(f"{p.benchmark}/{p.item}" for p in prompts), "\\n"]).encode())
        return [Answer(SAID[p.benchmark][p.item], usage={"input": 7, "output": 1}) for p in prompts]


def pytest_medvqa_backends():
    return {"candidate": Candidate, **globals().get("MORE", {})}
'''


def items_of(name: str) -> tuple[Item, ...]:
    (benchmark,) = (each for each in phantom.BENCHMARKS if each.name == name)
    return benchmarks.load(benchmark, Path())


def keys(name: str) -> dict[str, str]:
    """The right answer to each item: letters, or the reference's words."""
    return {item.id: ", ".join(item.answers) for item in items_of(name)}


def texts(name: str) -> dict[str, str]:
    """The right option's text, as one would say it who was told no options."""
    return {item.id: item.options[item.answers[0]] for item in items_of(name)}


SAID: dict[str, dict[str, str]] = {
    # Which of these a judge gives what is worked out in the tests that use them.
    OPEN: keys(OPEN)
    | {"1": "It is a mole.", "43": "ivory", "45": "dark red", "46": "brown", "51": "10 mm", "52": "2.5 cm"}
    | {"53": "1 cm", "88": "yes", "75": "", "67": "<result>1.0</result>"},
    PAIRS: texts(PAIRS) | {"1/2": "In the left half", "10/1": "Blurred, or sharp?", "11/1": "Darker", "11/2": "Brighter"},
}
JUDGED = sum(item.kind not in CHOICE_KINDS for item in items_of(OPEN))
ASKED = JUDGED - 1
"""Open questions less that of the empty answer, about which there is nothing to ask."""


@dataclass
class Repository:
    path: Path

    def __post_init__(self) -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / "models").mkdir()
        (self.path / "pytest.ini").write_text("[pytest]\n")
        (self.path / "test_phantom.py").write_text(TEST)
        (self.path / "said.json").write_text(json.dumps(SAID))
        self.conftest()

    def conftest(self, more: str = "") -> None:
        (self.path / "conftest.py").write_text(CONFTEST + more)

    def judge(self, url: str, name: str = "judge", **options: Any) -> str:
        """A config of a judge on a server."""
        filled = {"retries": 0, "timeout": 30, "concurrency": 4, "prices": ""} | options
        (self.path / "models" / f"{name}.toml").write_text(CONFIG.format(url=url, **filled))
        return f"--judge={name}"

    def start(self, *arguments: str, model: str = "candidate", benchmark: str = OPEN) -> subprocess.Popen[str]:
        """A session in a process group of its own."""
        common = ("-p", "no:randomly", "-p", "no:benchmark", "-p", "no:html")
        return self.spawn("pytest", *common, f"--model={model}", f"--benchmark={benchmark}", *arguments)

    def spawn(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MEDVQA_"))}
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **named: str) -> tuple[int, str]:
        return ended(self.start(*arguments, **named))

    def rescore(self, run: str, *arguments: str) -> tuple[int, str]:
        return ended(self.spawn("medvqa.cli", "rescore", f"reports/{run}", "--plugin=conftest.py", *arguments))

    @property
    def asked(self) -> Counter[str]:
        """What the candidate was asked."""
        path = self.path / "calls"
        return Counter(path.read_text().split() if path.exists() else ())

    def results(self, run: str) -> dict[str, dict[str, Any]]:
        lines = (self.path / "reports" / run / "results.jsonl").read_text().splitlines()
        return {result["item"]["id"]: result for result in map(json.loads, lines)}

    def scores(self, run: str) -> dict[str, tuple[str, float | None]]:
        return {id: (r["score"]["outcome"], r["score"]["value"]) for id, r in self.results(run).items()}

    def about(self, run: str) -> dict[str, Any]:
        return json.loads((self.path / "reports" / run / "run.json").read_text())

    def measures(self, run: str) -> dict[str, Any]:
        """Of whole benchmarks, by name."""
        found = json.loads((self.path / "reports" / run / "metrics.json").read_text())["measures"]
        return {each["name"]: each for each in found if not each["slice"]}


def ended(session: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        output, _ = session.communicate(timeout=200)
    finally:
        if session.poll() is None:
            os.killpg(session.pid, signal.SIGKILL)
            session.communicate()
    return session.returncode, output


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def text_of(request: Request) -> str:
    content = request.body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def scripted(number: int, request: Request) -> Reply:
    """The judge who follows the rubrics."""
    return Reply(completion(judges.reply(text_of(request))))


def prompts(server: Server) -> Counter[str]:
    return Counter(text_of(request) for request in server.requests)


# --- what comes of it ---------------------------------------------------------------------------------------


def check_open(scores: Mapping[str, tuple[str, float | None]]) -> None:
    """What the rubric gives to what was said: all that is not named here was answered with the reference itself."""
    others = {
        "43": ("correct", 1.0),  # white: "ivory" is the same colour
        "45": ("partial", 0.5),  # red: "dark red" is of the same family
        "46": ("partial", 0.5),  # black: so is "brown"
        "51": ("correct", 1.0),  # 1 cm: "10 mm"
        "52": ("partial", 0.5),  # 2 cm: "2.5 cm" is close
        "53": ("wrong", 0.0),  # 3 cm: "1 cm" is not
        "67": ("wrong", 0.0),  # the face: a result that it gives itself
        "75": ("unparsed", 0.0),  # nothing was said
        "88": ("wrong", 0.0),  # no: "yes"
    }
    assert scores == dict.fromkeys(SAID[OPEN], ("correct", 1.0)) | others


@pytest.mark.parametrize("spread", SPREAD)
def test_open_questions_of_the_phantom_are_judged_by_the_rubric(
    repository: Repository, spread: tuple[str, ...]
) -> None:
    with Server(scripted) as server:
        code, output = repository.run(repository.judge(server.url), "--run=first", *spread)
    assert code == 0, output
    check_open(repository.scores("first"))
    assert set(prompts(server).values()) == {1}
    assert len(server.requests) == ASKED
    measures = repository.measures("first")
    # 52 open questions: four have 0 and three 0.5 ("75" is not asked about, and counts as wrong).
    assert JUDGED == 52
    assert measures["open_score"]["value"] == pytest.approx((52 - 4 - 1.5) / 52)
    assert measures["choice_score"]["value"] == 1
    assert measures["mean_score"]["value"] == pytest.approx((92 - 5.5) / 92)
    judgement = repository.results("first")["45"]["judgement"]
    assert (judgement["judge"], judgement["task"]) == ("openai:judge", "score")
    assert judgement["replies"] == ["The two were compared by the rules.\n<result>0.5</result>"]
    assert judgement["usage"] == {"input": 1000, "output": 10}
    assert "judge=openai:judge@" in measures["open_score"]["signature"]
    assert f"! {OPEN}: {ASKED} of 92 answers were left to the judge 'openai:judge'." in output


@pytest.mark.parametrize("spread", SPREAD)
def test_pairs_in_free_form_are_judged_by_closeness(repository: Repository, spread: tuple[str, ...]) -> None:
    with Server(scripted) as server:
        ff = {"benchmark": PAIRS}
        code, output = repository.run(repository.judge(server.url), "--technique=ff", "--run=first", *spread, **ff)
        assert code == 0, output
        assert len(server.requests) == 72
        code, output = repository.run("--judge=judge", "--technique=ff", "--run=second", "--ff-gap=7.5", **ff)
    assert code == 0, output
    scores = repository.scores("first")
    others = {"1/2": ("wrong", 0.0), "10/1": ("unparsed", 0.0), "11/1": ("wrong", 0.0), "11/2": ("wrong", 0.0)}
    assert scores == dict.fromkeys(SAID[PAIRS], ("correct", 1.0)) | others
    measures = repository.measures("first")
    assert measures["individual_accuracy"]["value"] == pytest.approx(68 / 72)
    assert measures["set_accuracy"]["value"] == pytest.approx(33 / 36)
    # Of the 35 pairs both of whose answers name an option, the first alone has the same for both images.
    assert measures["confusion"]["value"] == pytest.approx(1 / 35)
    assert "ff_gap=3" in measures["set_accuracy"]["signature"]
    # The scripted judge gives 9 and 2: no lead of 7.5.
    assert {outcome for outcome, _ in repository.scores("second").values()} == {"unparsed"}


def test_recorded_replies_judge_as_the_judge_did(repository: Repository) -> None:
    with Server(scripted) as server:
        repository.run(repository.judge(server.url), "--run=first")
    rows = [
        {"benchmark": OPEN, "id": id, "response": result["judgement"]["replies"][-1]}
        for id, result in repository.results("first").items()
        if result["judgement"] is not None
    ]
    (repository.path / "replies.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, output = repository.run("--judge=replay:replies.jsonl", "--run=second")
    assert code == 0, output
    check_open(repository.scores("second"))
    assert repository.results("second")["45"]["judgement"]["judge"] == "replay:replies.jsonl"
    # A file has a fingerprint: its replies are found by other runs, too.
    code, output = repository.run("--judge=replay:replies.jsonl", "--run=third")
    assert f"Judge's replies: {ASKED} stored ones reused, 0 asked for." in output


def test_without_a_judge_the_run_says_how_to_have_one_later(repository: Repository) -> None:
    """By rule the phantom's open answers have a score; those in free form to questions with options have none."""
    code, output = repository.run("--run=first", "--technique=ff", benchmark=PAIRS)
    assert code == 4
    assert "technique 'ff' needs a judge" in output
    assert "add --judge=MODEL" in output
