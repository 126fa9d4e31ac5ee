"""Token limits: where they come from, that they arrive, what they change in stored answers, and what they cut off."""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import configs
from medvqa.backend import loaded
from medvqa.backends import pytest_medvqa_backends
from medvqa.backends.openai import OpenAI, OpenAIOptions
from medvqa.benchmarks import gmai_mmbench, mediconfusion, phantom, pytest_medvqa_benchmarks
from medvqa.cli import main
from medvqa.items import (
    CHOICE_KINDS,
    KINDS,
    Benchmark,
    Image,
    Item,
    Kind,
    Prompt,
    Technique,
    TokenLimits,
    UsageError,
)
from medvqa.protocols import prompts
from medvqa.records import log
from support.pages import Page
from support.servers import Reply, Request, Server, completion, scored

PAIRS, CHOICES, OPEN = "phantom-mediconfusion", "phantom-gmai-mmbench", "phantom-medlesionvqa"
SUITE = """
import pytest

@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)
"""
KEY = "sk-test-0123456789abcdef"


@dataclass(frozen=True)
class Repository:
    """A repository of a suite file and a config for a local server."""

    pytester: pytest.Pytester
    url: str

    @property
    def path(self) -> Path:
        return self.pytester.path

    def config(self, options: str = "", more: str = "") -> None:
        (self.path / "models").mkdir(exist_ok=True)
        (self.path / "models/mine.toml").write_text(
            f'backend = "openai"\nargument = "tiny"\n{more}\n[options]\n'
            f'base_url = "{self.url}"\nkey_env = "OPENAI_API_KEY"\n{options}\n'
        )

    def run(self, *arguments: str, model: str = "mine") -> tuple[int, str]:
        done = self.pytester.runpytest_inprocess(
            f"--model={model}", "-p", "no:randomly", "-p", "no:benchmark", *arguments
        )
        return int(done.ret), done.stdout.str() + done.stderr.str()

    def told(self, run: str, name: str = "run.json") -> Any:
        return json.loads((self.path / "reports" / run / name).read_text())

    def text(self, run: str, name: str) -> str:
        return (self.path / "reports" / run / name).read_text()

    def measure(self, run: str, name: str) -> dict[str, Any]:
        (found,) = (m for m in self.told(run, "metrics.json")["measures"] if m["name"] == name and not m["slice"])
        return dict(found)


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Repository]:
    for name in os.environ:
        if name.startswith(("PYTEST_", "MEDVQA_", "OPENAI_")) and name != "PYTEST_CURRENT_TEST":
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "120")

    def made(url: str = "http://127.0.0.1:1/v1", options: str = "", more: str = "") -> Repository:
        pytester.makeini("[pytest]\n")
        pytester.makepyfile(test_questions=SUITE)
        one = Repository(pytester, url)
        one.config(options, more)
        return one

    return made


def limits(requests: Sequence[Request]) -> set[Any]:
    """What requests name as the limit of tokens; None: nothing."""
    return {request.body.get("max_tokens", request.body.get("max_completion_tokens")) for request in requests}


def answers(text: str = "A", finish: str = "stop") -> Callable[[int, Request], Reply]:
    return lambda number, request: Reply(completion(text, finish))


# --- stored answers ---------------------------------------------------------------------------------------

ITEM = Item(
    "1/1",
    "mediconfusion",
    "single_choice",
    "What is it?",
    {"A": "a cyst", "B": "an abscess"},
    ("A",),
    (Image("a.png", digest="ab" * 32),),
    pair_id="1",
)


def asked(benchmark: str, technique: Technique, kind: Kind = "single_choice") -> Prompt:
    """A benchmark's prompt without a limit, as every benchmark made it while 32 was the limit of all."""
    item = ITEM
    if benchmark != "mediconfusion":
        item = replace(ITEM, benchmark=benchmark, pair_id=None, id="7", kind=kind)
        item = item if kind in CHOICE_KINDS else replace(item, options={})
    (made,) = [each.prompt(item, technique) for each in pytest_medvqa_benchmarks() if each.name == benchmark]
    return replace(made, max_tokens=None) if hasattr(made, "max_tokens") else made


OLD_KEYS: list[tuple[str, Technique, Kind, str]] = [
    ("mediconfusion", "mc", KINDS[0], "e8c2a2c5d670b35d7f66ef712b579bd98cb30a2bf38e1929a12654ae662412c7"),
    ("mediconfusion", "gd", KINDS[0], "1e7666f42147935d45083088ef6ec26cdcd2a3cf3ce8f516e66d36e4529ae40f"),
    ("mediconfusion", "ps", KINDS[0], "71973119f95b7595697b2db39a3ba57c0030f451ce1146c60aad873d8d4369da"),
    ("mediconfusion", "ff", KINDS[0], "dae2023f731dc230e05f108ba8d086ad39be61f36abd65d94592fd1f33859972"),
    ("gmai-mmbench-val", "mc", KINDS[0], "bc6033fca088b8e33eebd6cba5f944b380e2db8942b51241a7fa390eccc2c525"),
    ("gmai-mmbench-val", "gd", KINDS[0], "b89748ea6ee0958766002a4fb3663be6ac003cfd31a5b61ee87778dbd9e4a57a"),
    ("gmai-mmbench-val", "ps", KINDS[0], "e5331ac7117e63bc7ed25393f81a3969258dd612e9ac5bd166fb4e2d3454db74"),
    ("gmai-mmbench-val", "mc", KINDS[1], "38270c815760f21119d8d5360ccb2517cf1b6a4a329b3020385b47a9dcc69a60"),
    ("medlesionvqa-val", "mc", KINDS[1], "dd347ad99ab26270a7b9edfec5c7b54e5d7df115d3fb1661f76900a4cde6f54c"),
    ("medlesionvqa-val", "mc", KINDS[2], "01fb2ecc101813cb673cae567176cf4d6f25982371c60b9bb070804b73ad705f"),
    ("medlesionvqa-val", "mc", KINDS[3], "77a046d620fa2fbe53f65bbd96a280bd27f86192b1a9ec6f5ff799ad7033aaa8"),
    ("medlesionvqa-val", "mc", KINDS[4], "6b596d665e6a18a98ab6c0a8f966dd2cf9aa7b4b4c6d11ff39ab83e979641f17"),
]
"""Keys of answers as they were while 32 tokens were the limit of all prompts."""


@pytest.mark.parametrize(("benchmark", "technique", "kind", "key"), OLD_KEYS)
def test_answers_that_were_stored_under_the_old_limit_have_their_keys(
    benchmark: str, technique: Technique, kind: Kind, key: str
) -> None:
    prompt = asked(benchmark, technique, kind)
    assert log.answer_key(prompt, prompts.digest(prompt)) == key


@pytest.mark.parametrize(
    ("options", "digest"),
    [
        ({}, "85356e9f70935692"),
        ({"max_tokens": 32}, "85356e9f70935692"),
        ({"max_tokens": 100}, "5cfea4673ef312f4"),
        ({"max_tokens": 1024}, "99c0870db147d6c0"),
        ({"reasoning": True}, "c46169ab7e50a3cf"),
        ({"reasoning": True, "max_tokens": 100}, "6adfd148a4df2a9c"),
        ({"temperature": 0.5}, "02aa26ba57b34599"),
    ],
)
def test_a_server_has_the_fingerprint_that_it_had(
    options: dict[str, Any], digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = loaded(
        OpenAI("tiny", OpenAIOptions(base_url="https://example.org/v1", key_env="OPENAI_API_KEY", **options))
    )
    assert model.fingerprint() == f"tiny@https://example.org/v1 {digest}"
    model.close()


def test_a_limit_is_in_the_key_of_an_answer() -> None:
    prompt = asked("mediconfusion", "mc")
    keys = [
        log.answer_key(each, prompts.digest(each))
        for each in (prompt, *(replace(prompt, max_tokens=number) for number in (0, 100, 256)))
    ]
    assert len(set(keys)) == len(keys)


# --- where a limit comes from, and that it arrives --------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "more", "arguments", "expected"),
    [
        pytest.param("", "", (), {PAIRS: {32}, CHOICES: {512}, OPEN: {512}}, id="benchmark"),
        pytest.param(
            "max_tokens = 64", "", (), {PAIRS: {64}, CHOICES: {64}, OPEN: {64}}, id="options", marks=pytest.mark.slow
        ),
        pytest.param(
            "max_tokens = 0",
            "",
            (),
            {PAIRS: {None}, CHOICES: {None}, OPEN: {None}},
            id="no limit",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "reasoning = true",
            "",
            (),
            {PAIRS: {4096}, CHOICES: {4096}, OPEN: {4096}},
            id="reasoning",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "max_tokens = 64",
            f"[max_tokens]\n{PAIRS} = 100\n{CHOICES} = {{mc = 0}}",
            (),
            {PAIRS: {100}, CHOICES: {None}, OPEN: {64}},
            id="benchmarks of the config",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "",
            "max_tokens = {phantom = 7}",
            (),
            {PAIRS: {7}, CHOICES: {7}, OPEN: {7}},
            id="group",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "max_tokens = 64",
            "max_tokens = {phantom = 7}",
            ("--max-tokens=300",),
            {PAIRS: {300}, CHOICES: {300}, OPEN: {300}},
            id="typed",
        ),
        pytest.param(
            "reasoning = true",
            "",
            ("--max-tokens=300",),
            {PAIRS: {300}, CHOICES: {300}, OPEN: {300}},
            id="typed, reasoning",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "",
            "",
            ("--max-tokens=0",),
            {PAIRS: {None}, CHOICES: {None}, OPEN: {None}},
            id="typed 0",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_limit_arrives_at_the_server(
    repository: Callable[..., Repository],
    options: str,
    more: str,
    arguments: tuple[str, ...],
    expected: dict[str, set[int | None]],
) -> None:
    with Server(answers()) as server:
        mine = repository(server.url, options, more)
        code, output = mine.run("--benchmark=phantom", "--limit=2", "--run=first", *arguments)
        assert code == 0, output
    about = mine.told("first")
    sent: dict[str, set[int | None]] = {PAIRS: set(), CHOICES: set(), OPEN: set()}
    for request in server.requests:
        text = request.body["messages"][-1]["content"][-1]["text"]
        name = PAIRS if text.endswith("Answer: ") else CHOICES if "\nOptions:\n" in text else OPEN
        sent[name] |= limits([request])
    assert sent == expected
    for name, numbers in expected.items():
        told = {limit or None for limit in about["benchmarks"][name]["max_tokens"]["mc"].values()}
        assert told == numbers, "run.json says what was in force"
    typed = next((int(each.partition("=")[2]) for each in arguments), None)
    assert about["options"]["max_tokens"] == typed
    assert "Token limits" in Page(mine.text("first", "index.html")).told


@pytest.mark.slow
def test_a_limit_is_no_matter_of_techniques_that_write_nothing(repository: Callable[..., Repository]) -> None:
    def script(number: int, request: Request) -> Reply:
        letters = scored(("A", -0.1), ("B", -3.0))
        return Reply(letters if request.body.get("logprobs") else completion("A"))

    with Server(script) as server:
        mine = repository(server.remote_url)
        arguments = (f"--benchmark={PAIRS}", "--technique=mc,gd", "--limit=4")
        assert mine.run(*arguments, "--run=first")[0] == 0
        asked_first = len(server.requests)
        assert asked_first == 8
        # The same limit, however it is said, finds the stored answers.
        arguments = (*arguments, "--answers=first")
        for name, same in (("typed", ("--max-tokens=32",)), ("config", ())):
            mine.config("max_tokens = 32" if name == "config" else "")
            assert mine.run(*arguments, *same, f"--run={name}")[0] == 0
            assert len(server.requests) == asked_first, name
        mine.config(more=f"[max_tokens]\n{PAIRS} = 32")
        assert mine.run(*arguments, "--run=table")[0] == 0
        assert len(server.requests) == asked_first
        # Another limit asks anew, but for what has no text.
        assert mine.run(*arguments, "--max-tokens=64", "--run=other")[0] == 0
        anew = server.requests[asked_first:]
        assert len(anew) == 4
        assert limits(anew) == {64}


CONFIG = configs.ModelConfig("mine", "openai", max_tokens={"mediconfusion": {"mc": 100, "ff": 0}, "phantom": 7})
MINE, PHANTOM = mediconfusion.BENCHMARKS[0], phantom.BENCHMARKS[0]


@pytest.mark.parametrize(
    ("typed", "benchmark", "technique", "limits", "asks", "limit"),
    [
        (300, MINE, "mc", TokenLimits(32), 32, 300),
        (0, MINE, "mc", TokenLimits(32), 32, 0),
        (None, MINE, "mc", TokenLimits(64, configured=True), 32, 100),
        (None, MINE, "ff", TokenLimits(32), 512, 0),
        (None, PHANTOM, "mc", TokenLimits(32), 512, 7),
        (None, gmai_mmbench.VAL, "mc", TokenLimits(64, configured=True), 512, 64),
        (None, gmai_mmbench.VAL, "mc", TokenLimits(0, configured=True), 512, 0),
        (None, gmai_mmbench.VAL, "mc", TokenLimits(32), 200, 200),
        (None, gmai_mmbench.VAL, "mc", TokenLimits(32), None, 512),
    ],
)
def test_the_first_that_names_a_limit_counts(
    typed: int | None, benchmark: Benchmark, technique: Technique, limits: TokenLimits, asks: int | None, limit: int
) -> None:
    """The user, the config for the benchmark, the config's options, the benchmark, and else 512."""
    prompt = Prompt("?", technique=technique, max_tokens=asks)
    assert configs.token_limit(typed, CONFIG, limits, benchmark, prompt) == limit


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model=mine", "--max-tokens=-1"), "--max-tokens=-1: a whole number from 0 on is expected; 0: no limit"),
        (
            ("--model=random", "--max-tokens=9"),
            "--max-tokens=9: backend 'random' takes no limit; those that do: hf, openai",
        ),
        (
            ("--model=phantom-vlm", "--max-tokens=9", "--technique=gd,ps"),
            "--max-tokens=9: technique 'gd, ps' writes no text that could be limited",
        ),
        (
            ("--model=phantom-vlm", "--max-tokens=0", "--technique=mc"),
            "--max-tokens=0: a checkpoint without a limit may write for ever; set a number of 1 or more",
        ),
    ],
)
def test_a_limit_that_cannot_hold_is_a_usage_error(
    pytester: pytest.Pytester, arguments: tuple[str, ...], message: str
) -> None:
    pytester.makepyfile(test_questions=SUITE)
    (pytester.path / "models").mkdir()
    (pytester.path / "models/mine.toml").write_text('backend = "openai"\nargument = "tiny"\n')
    done = pytester.runpytest_inprocess(f"--benchmark={PAIRS}", "-p", "no:randomly", *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in done.stdout.str() + done.stderr.str()


@pytest.mark.parametrize(
    ("backend", "said", "message"),
    [
        ("openai", {"mediconfusoin": 9}, "mine: [max_tokens]: no benchmark 'mediconfusoin'; known: "),
        ("openai", {"mediconfusoin": 9}, "Did you mean 'mediconfusion'?"),
        ("openai", {"mediconfusion": {"gd": 9}}, "[max_tokens]: no technique 'gd'; those that write text: mc, ff"),
        ("hf", {"mediconfusion": {"mc": 0}}, "mine: [max_tokens]: mediconfusion = 0: a checkpoint without a limit"),
        ("random", {"mediconfusion": 9}, "mine: [max_tokens]: backend 'random' takes no limit"),
    ],
)
def test_limits_of_a_config_are_checked(backend: str, said: dict[str, Any], message: str) -> None:
    config = configs.ModelConfig("mine", backend, "x", max_tokens=said)
    model = configs.make(config, {kind.name: kind for kind in pytest_medvqa_backends()})
    known = {each.name: each for each in mediconfusion.BENCHMARKS}
    with pytest.raises(UsageError) as raised:
        configs.check_token_limits(config, model.token_limits(), known)
    assert message in str(raised.value)


def test_limits_of_a_config_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('backend = "openai"\n[max_tokens]\nmediconfusion = -1\n')
    with pytest.raises(UsageError, match=r"Expected `int` >= 0 - at `.*max_tokens"):
        configs.resolve("mine", folders=[tmp_path], backends={kind.name: kind for kind in pytest_medvqa_backends()})


@pytest.mark.slow
def test_a_run_does_not_go_on_under_another_limit(repository: Callable[..., Repository]) -> None:
    with Server(answers()) as server:
        mine = repository(server.url)
        assert mine.run(f"--benchmark={OPEN}", "--limit=2", "--run=first")[0] == 0
        code, output = mine.run(f"--benchmark={OPEN}", "--limit=2", "--run=first", "--max-tokens=64")
        assert code == 4
        assert f"{OPEN}: the token limit of mc" in output
        # A run of an earlier version had 32 for all, and goes on with that.
        about = mine.told("first")
        for benchmark in about["benchmarks"].values():
            del benchmark["max_tokens"]
        (mine.path / "reports/first/run.json").write_text(json.dumps(about))
        code, output = mine.run(f"--benchmark={OPEN}", "--limit=2", "--run=first")
        assert code == 4
        assert "32" in output
        assert mine.run(f"--benchmark={OPEN}", "--limit=2", "--run=first", "--max-tokens=32")[0] == 0, "goes on"


@pytest.mark.slow
def test_the_limit_holds_for_prompts_of_a_tests_own_and_of_benchmarks_of_ones_own(
    repository: Callable[..., Repository],
) -> None:
    with Server(answers()) as server:
        mine = repository(server.url, more="[max_tokens]\nslake = 9")
        (mine.path / "conftest.py").write_text(
            """
from medvqa import metrics, scoring
from medvqa.items import Benchmark, Item, Prompt

def pytest_medvqa_benchmarks():
    item = Item("1", "slake", "single_choice", "Which?", {"A": "x", "B": "y"}, ("A",))
    return [Benchmark(name="slake", items=lambda data: [item], prompt=lambda item, technique: Prompt("Which?"),
                      score=scoring.score_single_choice, metrics=(metrics.accuracy,))]
"""
        )
        (mine.path / "test_questions.py").write_text(
            """
import pytest
from medvqa.items import Prompt

@pytest.mark.vqa("slake")
def test_slake(item, evaluate, model):
    evaluate(item)
    model.generate([Prompt("Describe."), Prompt("Describe.", max_tokens=40), Prompt("Describe.", benchmark="slake")])
"""
        )
        assert mine.run("--benchmark=slake", "--run=first")[0] == 0
        assert sorted(request.body["max_tokens"] for request in server.requests) == [9, 9, 40, 512]
        server.requests.clear()
        assert mine.run("--benchmark=slake", "--run=second", "--max-tokens=77")[0] == 0
        assert limits(server.requests) == {77}
        assert len(server.requests) == 4


@pytest.mark.slow
def test_a_stranger_declares_that_a_model_takes_a_limit(repository: Callable[..., Repository]) -> None:
    mine = repository()
    (mine.path / "conftest.py").write_text(
        """
from medvqa import Backend
from medvqa.items import Answer, TokenLimits

class Plain(Backend):
    name = title = "plain"
    sends_to = None

    def generate(self, prompts):
        return [Answer(f"A {prompt.max_tokens}") for prompt in prompts]

class Limited(Plain):
    def token_limits(self):
        return TokenLimits(100)

def pytest_medvqa_backends():
    return [Plain, Limited]
"""
    )
    for model, arguments, told in (
        ("plain", (), "A None"),
        ("limited", (), "A 32"),
        ("limited", ("--max-tokens=100",), "A None"),
        ("limited", ("--max-tokens=9",), "A 9"),
    ):
        name = "-".join(("run", model, *arguments)).replace("=", "-")
        mine.run(f"--benchmark={PAIRS}", "--limit=2", f"--run={name}", *arguments, model=f"{model}:x")
        assert f'"text":"{told}"' in mine.text(name, "results.jsonl"), (model, arguments)


# --- what is cut off --------------------------------------------------------------------------------------


def cut(number: int, request: Request) -> Reply:
    """Cut off for two of four questions, which the text of the request tells apart."""
    return Reply(completion("Let me look at each of them:", "length") if number % 2 else completion("A"))


def test_answers_that_were_cut_off_are_counted_and_shown(repository: Callable[..., Repository]) -> None:
    with Server(cut) as server:
        mine = repository(server.url, "concurrency = 1")
        code, output = mine.run(f"--benchmark={PAIRS}", "--limit=4", "--run=first", "--batch-size=1")
        assert code == 0, output
    line = (
        f"{PAIRS}: 2 of 4 answers were cut off at 32 tokens (finish=length). Raise the limit: --max-tokens=256, or in "
        "the model's config."
    )
    assert f"! {line}" in output.splitlines()
    assert "truncated" in output
    summary = mine.text("first", "summary.md").replace("\\", "")
    assert f"- {line}" in summary.splitlines()
    assert "| truncated |" in summary
    page = Page(mine.text("first", "index.html")).told
    assert "2 of 4 answers were cut off at 32 tokens" in page
    rate = mine.measure("first", "truncated_rate")
    assert (rate["value"], rate["count"], rate["n"]) == (0.5, 2, 4)
    told = mine.told("first", "metrics.json")
    assert told["truncated"] == {PAIRS: 2}


@pytest.mark.slow
def test_what_the_warning_proposes_helps(repository: Callable[..., Repository]) -> None:
    def script(number: int, request: Request) -> Reply:
        return Reply(completion("A", "stop" if request.body["max_tokens"] >= 256 else "length"))

    with Server(script) as server:
        mine = repository(server.url)
        _, output = mine.run(f"--benchmark={PAIRS}", "--limit=4", "--run=first")
        (typed,) = set(re.findall(r"--max-tokens=\d+", output))
        assert mine.measure("first", "truncated_rate")["value"] == 1
        code, output = mine.run(f"--benchmark={PAIRS}", "--limit=4", "--run=second", typed)
    assert code == 0, output
    assert "cut off" not in output
    assert "truncated" not in output
    assert mine.measure("second", "truncated_rate")["value"] == 0


@pytest.mark.slow
def test_limits_of_several_kinds_and_of_no_limit_are_told(repository: Callable[..., Repository]) -> None:
    with Server(answers("", "length")) as server:
        mine = repository(server.url)
        _, output = mine.run(f"--benchmark={PAIRS}", "--limit=2", "--run=first", "--max-tokens=0")
        assert (
            f"! {PAIRS}: 2 of 2 answers were cut off at the server's own limit (finish=length). Set one that suffices: "
            "--max-tokens=4096, or in the model's config." in output
        )
        _, output = mine.run(f"--benchmark={OPEN}", "--limit=4", "--run=open")
        assert "answers were cut off at 512 tokens (finish=length). Raise the limit: --max-tokens=2048" in output


@pytest.mark.slow
def test_answers_without_text_and_of_unknown_end_are_not_in_the_rate(
    repository: Callable[..., Repository], tmp_path: Path
) -> None:
    with Server(lambda number, request: Reply(scored(("A", -0.1), ("B", -3.0)))) as server:
        mine = repository(server.url)
        code, output = mine.run(f"--benchmark={PAIRS}", "--technique=gd", "--limit=4", "--run=letters")
        assert code == 0, output
    assert "cut off" not in output, "one token is all that was asked for"
    rate = mine.measure("letters", "truncated_rate")
    assert (rate["value"], rate["n"]) == (None, 0)
    ids = [json.loads(line)["item"]["id"] for line in mine.text("letters", "results.jsonl").splitlines()]
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text("".join(json.dumps({"id": each, "response": "A"}) + "\n" for each in ids))
    code, output = mine.run(f"--benchmark={PAIRS}", "--limit=4", "--run=again", model=f"replay:{recorded}")
    assert code == 0, output
    rate = mine.measure("again", "truncated_rate")
    assert (rate["value"], rate["n"]) == (None, 0), "nobody recorded how they ended"
    recorded.write_text("".join(json.dumps({"id": each, "response": "A", "finish": "length"}) + "\n" for each in ids))
    code, output = mine.run(f"--benchmark={PAIRS}", "--limit=4", "--run=cut", model=f"replay:{recorded}")
    assert code == 0, output
    assert mine.measure("cut", "truncated_rate")["value"] == 1
    line = (
        "4 of 4 answers were cut off (finish=length) before they were recorded. Record them again with a higher limit"
    )
    assert line in output
    assert "--max-tokens" not in output


@pytest.mark.slow
def test_a_folder_of_an_earlier_version_is_read(
    repository: Callable[..., Repository], capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(cut) as server:
        mine = repository(server.url, "concurrency = 1")
        mine.run(f"--benchmark={PAIRS}", "--limit=4", "--run=first", "--batch-size=1")
    about = mine.told("first")
    for benchmark in about["benchmarks"].values():
        del benchmark["max_tokens"]
    del about["options"]["max_tokens"], about["config"]["max_tokens"]
    (mine.path / "reports/first/run.json").write_text(json.dumps(about))
    (mine.path / "reports/first/metrics.json").unlink()
    assert main(["report", "reports/first"]) == 0
    assert "2 of 4 answers were cut off (finish=length), at a limit that is not recorded" in capsys.readouterr().out
    assert mine.measure("first", "truncated_rate")["value"] == 0.5


@pytest.mark.slow
def test_the_rate_can_be_gated(repository: Callable[..., Repository]) -> None:
    with Server(answers()) as server:
        mine = repository(server.url)
        assert mine.run(f"--benchmark={CHOICES}", "--run=base", "--limit=100")[0] == 0
        server.script = answers("A", "length")
        (mine.path / "pyproject.toml").write_text(
            f'[tool.medvqa.gate]\nmargin = 5\n[tool.medvqa.gate.benchmarks.{CHOICES}]\nmeasure = "truncated_rate"\n'
        )
        code, output = mine.run(f"--benchmark={CHOICES}", "--run=new", "--limit=100", "--baseline=reports/base")
    assert code == 10, output
    assert "truncated_rate" in output
