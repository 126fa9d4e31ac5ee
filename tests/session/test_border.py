"""What a model gives is checked where it enters: an odd answer costs its own item, never a batch, run or store."""

import json
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest

from medvqa import backend, configs, engine
from medvqa.backend import Backend
from medvqa.backends.replay import Replay
from medvqa.configs import ModelConfig
from medvqa.items import Answer, AnswerError, Item, Prompt, Result, Score, UsageError
from medvqa.records import baseline_file, log, recall, run_folder
from medvqa.records import log as log_module
from medvqa.records.log import LogHead
from medvqa.records.recall import OWN, Recalled
from support import pages, processes
from support.logs import WRITER, Remembering, logs
from support.runs import record

OPTIONS = {"A": "liver", "B": "spleen"}
NAME = "0" * 64


class Text(str):
    """A text of another class."""


@dataclass(frozen=True, slots=True)
class Longer(Answer):
    """An answer with a field that no store keeps."""

    mood: str = ""


class Same(Answer):
    """An answer of another class, without fields of its own."""


class Gives(Backend):
    """Gives what it was told to."""

    name = "odd"
    capabilities = frozenset({"generate", "option_logprobs"})
    sends_to = None
    _given: Any = ()

    def generate(self, prompts: Sequence[Prompt]) -> Any:
        return self._given


def gives(given: Any) -> Gives:
    made = Gives()
    made._given = given
    return made


def batch_of(odd: object, technique: Any = "mc") -> list[Answer | AnswerError]:
    """What becomes of a batch of eight whose fourth answer is odd."""
    good = Answer("A", {"A": -0.1, "B": -2.5} if technique == "gd" else None, seconds=0.5)
    given = [odd if number == 3 else good for number in range(8)]
    said = engine.ask(gives(given), [Prompt(str(n), options=OPTIONS, technique=technique) for n in range(8)])
    assert [answer for number, answer in enumerate(said) if number != 3] == [good] * 7
    return said


def kept(folder: Path, answer: Answer) -> Answer | None:
    """An answer as another process finds it in the store."""
    store = Remembering(folder, odd("one"))
    store.remember([NAME], [answer])
    store.close()
    (found,) = Remembering(folder, odd("one")).recall([NAME])
    return None if found is None else found.answer


ODD = {
    "no finish": (Answer("A", finish=None), "finish is of type NoneType; a text is expected"),  # type: ignore[arg-type]
    "finish": (Answer("A", finish=7), "finish is of type int; a text is expected"),  # type: ignore[arg-type]
    "served_by": (Answer("A", served_by=b"x"), "served_by is of type bytes; a text is expected"),  # type: ignore[arg-type]
    "seconds as a text": (
        Answer("A", seconds="1"),  # type: ignore[arg-type]
        "seconds is of type str; a finite number of 0 or more is expected",
    ),
    "negative seconds": (Answer("A", seconds=-1.0), "seconds is -1.0; a finite number of 0 or more is expected"),
    "NaN seconds": (Answer("A", seconds=nan), "seconds is nan; a finite number of 0 or more is expected"),
    "seconds without end": (Answer("A", seconds=inf), "seconds is inf; a finite number of 0 or more is expected"),
    "true seconds": (Answer("A", seconds=True), "seconds is of type bool; a finite number"),
    "huge seconds": (Answer("A", seconds=10**400), "seconds is .*; a finite number of 0 or more is expected"),
    "inexact seconds": (Answer("A", seconds=2**53 + 1), "seconds is 9007199254740993; a number that a double holds"),
    "NaN usage": (Answer("A", usage={"input": nan}), r"usage\['input'\] is nan; a finite number of 0 or more"),
    "inf usage": (Answer("A", usage={"cost": inf}), r"usage\['cost'\] is inf; a finite number of 0 or more"),
    "usage without a number": (
        Answer("A", usage={"input": None}),  # type: ignore[dict-item]
        r"usage\['input'\] is of type NoneType",
    ),
    "usage as a text": (Answer("A", usage={"input": "3"}), r"usage\['input'\] is of type str"),  # type: ignore[dict-item]
    "usage by numbers": (Answer("A", usage={1: 2.0}), "a key of usage is of type int; a text is expected"),  # type: ignore[dict-item]
    "usage that is no mapping": (
        Answer("A", usage=[("input", 3)]),  # type: ignore[arg-type]
        "usage is of type list; a mapping of texts to numbers is expected",
    ),
    "surrogate in finish": (Answer("A", finish="\ud800"), "finish has half a surrogate pair, which is no Unicode text"),
    "surrogate in served_by": (Answer("A", served_by="x\udfff"), "served_by has half a surrogate pair"),
    "surrogate in a key": (Answer("A", usage={"\ud800": 1.0}), "a key of usage has half a surrogate pair"),
    "further fields": (Longer("A", mood="hm"), "Longer has fields that Answer lacks, so they would be lost: mo"),
    "array": (Answer("A", seconds=np.array([1.0])), "seconds is of type ndarray; a finite number"),  # type: ignore[arg-type]
}

ODD_LOGPROBS = {
    "above 0": ({"A": 0.7, "B": -1.0}, r"option_logprobs\['A'\] is 0.7; a natural logarithm of a probability, at most"),
    "NaN": ({"A": nan, "B": -1.0}, r"option_logprobs\['A'\] is nan"),
    "inf": ({"A": inf, "B": -1.0}, r"option_logprobs\['A'\] is inf"),
    "text": ({"A": "-1", "B": -1.0}, r"option_logprobs\['A'\] is of type str"),
    "None": ({"A": None, "B": -1.0}, r"option_logprobs\['A'\] is of type NoneType"),
    "a key that is no option": (
        {"A": -1.0, "C": -1.0},
        "the model gave a log-probability of 'C', which is none of A, B",
    ),
    "a number for a key": ({1: -1.0}, "a key of option_logprobs is of type int; a text is expected"),
    "surrogate": ({"\ud800": -1.0}, "a key of option_logprobs has half a surrogate pair"),
    "a list": ([-1.0, -2.0], "option_logprobs is of type list; a mapping of texts to numbers is expected"),
    "all impossible": ({"A": -inf, "B": -inf}, "all log-probabilities from the model are -inf"),
    "none": (None, "the model gave no log-probabilities, but technique 'gd' needs them"),
}

EQUAL = {
    "str of another class": (Answer(Text("B")), Answer("B")),
    "numpy text": (Answer(np.str_("B"), finish=np.str_("length")), Answer("B", finish="length")),
    "float64": (Answer("B", seconds=np.float64(0.1)), Answer("B", seconds=0.1)),
    "float32": (Answer("B", seconds=np.float32(0.5)), Answer("B", seconds=0.5)),  # type: ignore[arg-type]
    "int64": (Answer("B", usage={"input": np.int64(7)}), Answer("B", usage={"input": 7.0})),  # type: ignore[dict-item]
    "other mapping": (
        Answer("B", usage=MappingProxyType(OrderedDict(input=7))),
        Answer("B", usage={"input": 7.0}),
    ),
    "subclass": (Same("B"), Answer("B")),
}


@pytest.mark.parametrize(("odd", "why"), ODD.values(), ids=ODD)
def test_an_odd_answer_costs_its_item_alone(odd: Answer, why: str) -> None:
    error = batch_of(odd)[3]
    assert isinstance(error, AnswerError)
    with pytest.raises(AnswerError, match=f"model 'odd' gave an answer that cannot be kept: {why}"):
        raise error


@pytest.mark.parametrize(("logprobs", "why"), ODD_LOGPROBS.values(), ids=ODD_LOGPROBS)
def test_odd_log_probabilities_cost_their_item_alone(logprobs: Any, why: str) -> None:
    error = batch_of(Answer("", logprobs), "gd")[3]
    assert isinstance(error, AnswerError)
    with pytest.raises(AnswerError, match=why):
        raise error


@pytest.mark.parametrize(("odd", "plain"), EQUAL.values(), ids=EQUAL)
def test_what_loses_nothing_is_converted(tmp_path: Path, odd: Answer, plain: Answer) -> None:
    answer = batch_of(odd)[3]
    assert isinstance(answer, Answer)
    assert type(answer) is Answer
    assert type(answer.text) is type(answer.finish) is str
    assert type(answer.seconds) is float
    assert (answer.text, answer.finish, answer.usage) == (plain.text, plain.finish, plain.usage)
    assert plain.seconds in (None, answer.seconds)
    assert kept(tmp_path, answer) == answer


def test_an_error_of_any_text_can_be_written() -> None:
    error = batch_of(AnswerError("no file \udcff", "here"))[3]
    str(error).encode()
    (failed,) = engine.ask(Raises(), [Prompt("?")])
    str(failed).encode()
    assert str(failed).endswith(": OSError: no file \\udcff")


class Raises(Gives):
    def generate(self, prompts: Sequence[Prompt]) -> Any:
        raise OSError("no file \udcff")


# --- an option that is impossible ---------------------------------------------------------------------------

IMPOSSIBLE = Answer("", {"A": -inf, "B": -3.25}, seconds=0.5)


def test_an_impossible_option_comes_back_as_such(tmp_path: Path) -> None:
    assert batch_of(IMPOSSIBLE, "gd")[3] == IMPOSSIBLE
    assert kept(tmp_path, IMPOSSIBLE) == IMPOSSIBLE
    item = Item("1", "slake", "single_choice", "Which?", OPTIONS, ("B",))
    result = Result("run", item, NAME, IMPOSSIBLE, Score(1.0, "correct", ("B",)), "gd")
    line = run_folder.encode(result)
    assert json.loads(line)["answer"]["option_logprobs"] == {"A": "-inf", "B": -3.25}
    assert run_folder.decode(line) == result
    path = tmp_path / "results.jsonl"
    path.write_bytes(line + b"\n")
    (recorded,) = Replay(str(path)).generate([Prompt("?", item="1", benchmark="slake", technique="gd")])
    assert recorded == IMPOSSIBLE
    baseline = tmp_path / "main.medvqa"
    baseline_file.write_baseline(baseline, record(name="run"), [result])
    assert baseline_file.read_baseline(baseline)[1] == (result,)


@pytest.mark.parametrize("technique", ["gd", "ps"])
def test_the_option_that_is_possible_is_chosen(technique: Any) -> None:
    from medvqa import scoring

    item = Item("1", "slake", "single_choice", "Which?", OPTIONS, ("B",))
    score = scoring.score_likeliest(item, IMPOSSIBLE, OPTIONS, technique, scoring.score_single_choice)
    assert (score.outcome, score.extracted) == ("correct", ("B",))
    with pytest.raises(AnswerError, match="all log-probabilities from the model are -inf"):
        scoring.score_likeliest(item, Answer("", {"A": -inf}), OPTIONS, technique, scoring.score_single_choice)


# --- what earlier versions stored ---------------------------------------------------------------------------

POISON = {
    "no finish": b'{"text":"A","finish":null}',
    "seconds as a text": b'{"text":"A","seconds":"1"}',
    "NaN in usage": b'{"text":"A","usage":{"input":null}}',
    "an infinity of either sign": b'{"text":"A","option_logprobs":{"A":null,"B":-1.0}}',
    "negative seconds": b'{"text":"A","seconds":-1.0}',
    "no probability": b'{"text":"A","option_logprobs":{"A":3.0}}',
    "no JSON": b'{"text":"A"',
    "no UTF-8": b'{"text":"\xff"}',
    "a list": b"[]",
    "deep": b"[" * 100_000,
}


def odd(session: str) -> LogHead:
    return msgspec.structs.replace(WRITER, backend="odd", model="odd", fingerprint="weights", session=session)


def poison(folder: Path, content: bytes, key: str = f"answer/{NAME}") -> Path:
    """Write an answer with a checksum that matches, as a version did that checked nothing else."""
    (path,) = (path for path in logs(folder) if path.stat().st_size)
    head = log.head_at(path)
    assert head is not None
    line = log_module._line(head.identity, key, content)
    with path.open("ab") as file:
        file.write(line)
    return path


@pytest.mark.parametrize("content", POISON.values(), ids=POISON)
def test_a_stored_line_that_holds_no_answer_is_damaged(tmp_path: Path, content: bytes) -> None:
    kept(tmp_path, Answer("B"))
    path = poison(tmp_path, content)
    store = Remembering(tmp_path, odd("two"))
    (recalled,) = store.recall([NAME])
    assert recalled == Recalled(Answer("B"), OWN), "it hides no older one"
    assert any(f"{path.name} line 6: " in line for line in store.unread)
    assert [len(answers) for _, answers in recall.asked(tmp_path, {"one"})] == [1]


@pytest.mark.parametrize("content", [b"{}", b'{"role":3}', b"\xff"])
def test_a_first_line_that_names_nobody_is_damaged(tmp_path: Path, content: bytes) -> None:
    kept(tmp_path, Answer("B"))
    (path,) = (path for path in logs(tmp_path) if path.stat().st_size)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(log_module._line(odd("one").identity, "head", content) + b"".join(lines[1:]))
    store = Remembering(tmp_path, odd("two"))
    assert store.recall([NAME])[0] is not None
    assert [problem.split(": ")[0] for problem in store.unread] == [f"{path} line 1"]


# --- sessions -----------------------------------------------------------------------------------------------

CONFTEST = '''
import os, pathlib
from math import inf, nan

from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, AnswerError, Benchmark, Item, PromptFunction
from medvqa.protocols.prompts import Template

ASK = Template("slake/mc", "{question}\\n{options}", "{letter}. {text}\\n")
OPTIONS = {"A": "liver", "B": "spleen"}
CALLS = pathlib.Path(__file__).with_name("calls")


def items(data):
    return [Item(f"q{n}", "slake", "single_choice", f"Question {n}?", OPTIONS, ("AB"[n % 2],)) for n in range(8)]


def env(name, default):
    return eval(os.environ.get(name, default))


class Odd(Backend):
    name = title = "odd"
    sends_to = None
    capabilities = env("ABLE", "frozenset({'generate', 'option_logprobs'})")
    batch_size = 8

    def fingerprint(self):
        return env("FINGERPRINT", "'weights'")

    def generate(self, prompts):
        with open(CALLS, "ab", buffering=0) as file:
            file.write(" ".join([*(prompt.item for prompt in prompts), "\\n"]).encode())
        return [env("ODD", "Answer('A')") if prompt.item == "q3" else Answer("A") for prompt in prompts]


class Declared(Odd):
    """As the protocol writes it."""

    @property
    def capabilities(self):
        return frozenset({"generate"})


def pytest_medvqa_backends():
    return [Odd, Declared]


def pytest_medvqa_benchmarks():
    return [Benchmark(name="slake", items=items, prompt=PromptFunction(ASK.prompt, ("mc", "gd")),
                      score=scoring.score_single_choice, metrics=(metrics.accuracy, *metrics.rates))]
'''
TEST = """
import pytest

@pytest.mark.vqa("slake")
def test_slake(item, evaluate):
    evaluate(item)
"""
SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]


@dataclass
class Repository:
    """A stranger's repository with a model that is told by the environment how odd it is."""

    path: Path

    def pytest(self, *arguments: str, run: str = "r", model: str = "odd", **environment: str) -> tuple[int, str]:
        typed = ["pytest", "-p", "no:randomly", "-p", "no:html", "-p", "no:benchmark", f"--model={model}"]
        return self.call(*typed, f"--run={run}", "--benchmark=slake", *arguments, **environment)

    def call(self, *arguments: str, **environment: str) -> tuple[int, str]:
        known = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MEDVQA_"))}
        called = processes.run(
            [sys.executable, "-m", *arguments],
            cwd=self.path,
            env=known | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return called.returncode, called.stdout

    def about(self, run: str) -> dict[str, Any]:
        return json.loads((self.path / "reports" / run / "run.json").read_text())

    def scores(self, run: str = "r") -> dict[str, tuple[str, str]]:
        """Outcome and reason of each item."""
        lines = (self.path / "reports" / run / "results.jsonl").read_text().splitlines()
        results = [json.loads(line) for line in lines]
        return {each["item"]["id"]: (each["score"]["outcome"], each["score"]["why"]) for each in results}

    @property
    def asked(self) -> list[list[str]]:
        """The items of each call."""
        path = self.path / "calls"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_slake.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return Repository(folder)


@pytest.mark.parametrize("spread", SPREAD)
def test_one_of_eight_is_odd(repository: Repository, spread: tuple[str, ...]) -> None:
    code, printed = repository.pytest(*spread, ODD="Answer('A', usage={'input': nan})")
    assert code == 1, printed
    assert "Traceback" not in printed
    scores = repository.scores()
    assert {outcome for item, (outcome, _) in scores.items() if item != "q3"} == {"correct", "wrong"}
    assert scores["q3"][0] == "error"
    assert "usage['input'] is nan" in scores["q3"][1]
    asked = len(repository.asked)
    code, printed = repository.pytest(*spread, "--answers=r", run="again")
    assert code == 0, printed
    assert repository.asked[asked:] == [["q3"]]
    assert repository.about("again")["unread_answers"] == [], "what was refused is not on disk"


@pytest.mark.parametrize("spread", SPREAD)
def test_a_poisoned_store_costs_what_is_asked_again(repository: Repository, spread: tuple[str, ...]) -> None:
    assert repository.pytest(run="first")[0] == 0
    first = repository.path / "reports" / "first"
    (path,) = logs(first)
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b" answer/" in line)
    _, key, _ = lines[place].split(b" ", 2)
    # The whole answer is gone, in the log and in the results.
    path.write_bytes(b"".join(lines[:place] + lines[place + 1 :]))
    (first / "results.jsonl").unlink()
    poison(first, b'{"text":"A","finish":null,"usage":{"input":null}}', key.decode())
    code, printed = repository.pytest(*spread, "--answers=first", run="second")
    assert code == 0, printed
    assert f"{path.name} line {len(lines)}: " in json.dumps(repository.about("second")["unread_answers"])
    assert [len(call) for call in repository.asked[1:]] == [1]
    assert "error" not in {outcome for outcome, _ in repository.scores("second").values()}


def test_an_impossible_option_survives_a_run_and_its_report(repository: Repository) -> None:
    odd = {"ODD": "Answer('', {'A': -inf, 'B': -0.5})"}
    _, printed = repository.pytest("--technique=gd", "--max-errors=0", **odd)
    assert repository.scores()["q3"][0] == "correct", printed
    asked = len(repository.asked)
    repository.pytest("--technique=gd", "--max-errors=0", "--answers=r", run="again", **odd)
    assert "q3" not in {item for call in repository.asked[asked:] for item in call}
    assert repository.scores("again")["q3"][0] == "correct"
    page = pages.Page((repository.path / "reports" / "again" / "index.html").read_text())
    # In JavaScript null is 0, the logarithm of 1: the page must not have it.
    assert [row["answered"]["logprobs"] for row in page.results if "logprobs" in row["answered"]] == [{"B": -0.5}]


STRANGE: dict[str, tuple[dict[str, Any], str]] = {
    "fingerprint": (
        {"fingerprint": lambda self: 5},
        "fingerprint() gave a value of type int; a text or None is expected",
    ),
    "empty fingerprint": ({"fingerprint": lambda self: ""}, "fingerprint() gave an empty text"),
    "fingerprint that is no method": ({"fingerprint": "weights"}, "fingerprint is of type str; a method is expected"),
    "about": (
        {"about": lambda self: [1]},
        "about() gave a value of type list; a mapping of texts to JSON values is expected",
    ),
    "about of arrays": ({"about": lambda self: {"x": np.zeros(2)}}, "about() gave what is no JSON value"),
    "about by objects": ({"about": lambda self: {object(): 1}}, "about() gave what is no JSON value"),
    "about with a surrogate": ({"about": lambda self: {"x": "\ud800"}}, "about() gave what is no JSON value"),
    "name": ({"name": 7}, "name is of type int; a text is expected"),
    "no name": ({"name": ""}, "name is an empty text"),
    "surrogate in the name": ({"name": "\ud800"}, "name has half a surrogate pair"),
    "a text of capabilities": ({"capabilities": "generate"}, "capabilities is of type str; a set of texts is expected"),
    "no capabilities": ({"capabilities": None}, "capabilities is of type NoneType; a set of texts is expected"),
    "numbers as capabilities": (
        {"capabilities": {1}},
        "capabilities has a value of type int; a set of texts is expected",
    ),
    "batch size": ({"batch_size": "8"}, "batch_size is '8'; a whole number of 1 or more is expected"),
    "batch size below 1": ({"batch_size": -1}, "batch_size is -1; a whole number of 1 or more is expected"),
    "concurrency": ({"concurrency": 1.5}, "concurrency is 1.5; a whole number of 1 or more is expected"),
    "patience": ({"patience": nan}, "patience is nan; seconds, 0 or more, are expected"),
}


@pytest.mark.parametrize(("changes", "why"), STRANGE.values(), ids=STRANGE)
def test_a_strange_model_is_one_line(changes: dict[str, Any], why: str) -> None:

    def make() -> None:
        made = type("Made", (Gives,), changes)
        model = backend.loaded(configs.make(ModelConfig("odd", "odd"), {"odd": made}))
        engine.Limits.of(model)

    with pytest.raises(UsageError) as refused:
        make()
    assert "\n" not in str(refused.value)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"FINGERPRINT": "5"}, "fingerprint() gave a value of type int; a text or None is expected"),
        ({"ABLE": "'generate'"}, "capabilities is of type str; a set of texts is expected"),
    ],
)
def test_a_strange_model_is_told_before_anything_is_asked(
    repository: Repository, environment: dict[str, str], why: str
) -> None:
    code, printed = repository.pytest(**environment)
    assert code not in (0, 3), printed
    assert "Traceback" not in printed
    assert "INTERNALERROR" not in printed
    assert why in " ".join(printed.split()), printed
    assert repository.asked == []


def test_capabilities_may_be_a_property_as_the_protocol_writes_them(repository: Repository) -> None:
    code, printed = repository.pytest(model="declared")
    assert code == 0, printed
