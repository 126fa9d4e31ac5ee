"""`--prompt`: named prompts, files and all of them, from the request to the page; killed and continued."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks
from medvqa.backends.openai import data_url
from medvqa.cli import main
from medvqa.records import run_folder
from support import processes
from support.pages import Page
from support.repositories import kill_group
from support.servers import Reply, Request, Server, completion
from support.sessions import SPREAD_SLOWLY, run, text

BENCHMARK = next(b for b in benchmarks.pytest_medvqa_benchmarks() if b.name == "phantom-mediconfusion")
ELEVEN = BENCHMARK.owners.paper_prompts
PAIRS = 10
QUESTIONS = f"--limit={2 * PAIRS}"
TEST = """
import pytest

@pytest.mark.vqa("phantom-mediconfusion")
def test_phantom(item, evaluate):
    evaluate(item)
"""
CONFIG = """backend = "openai"
argument = "tiny"
[options]
base_url = "{url}"
revision = "1"
{options}
"""


def asked(request: Request) -> tuple[str, str, list[str], str]:
    """System prompt, text, the types of the parts in their order, and the image's URL of a request."""
    system = "".join(m["content"] for m in request.body["messages"] if m["role"] == "system")
    (user,) = (m["content"] for m in request.body["messages"] if m["role"] == "user")
    types = [part["type"] for part in user]
    written = next(part["text"] for part in user if part["type"] == "text")
    return system, written, types, next(part["image_url"]["url"] for part in user if part["type"] == "image_url")


class Knower:
    """Answers both questions of the first k pairs right if asked by prompt k, and those of all other pairs by A.

    The first pairs are those that it met first. With `sample`, prompt k knows k pairs in sample 1, none in sample 2.
    """

    def __init__(self) -> None:
        items = benchmarks.load(BENCHMARK, Path())
        self.keys = {(item.question, data_url(item.images[0], None, 5 * 2**20)): item for item in items}
        self.pairs: dict[str | None, int] = {}
        self.texts = {name: self.filled(name) for name in ELEVEN}
        self.lock = threading.Lock()
        for item in sorted(items, key=lambda item: item.id):
            self.pairs.setdefault(item.pair_id, len(self.pairs))

    def filled(self, name: str) -> Mapping[str, str]:
        """The texts of a prompt, each with the id of its question."""
        ask = BENCHMARK.prompts[name]
        assert callable(ask)
        return {ask(item, "mc").text: item.question for item in benchmarks.load(BENCHMARK, Path())}

    def __call__(self, number: int, request: Request) -> Reply:
        _, written, _, url = asked(request)
        name = next(name for name, texts in self.texts.items() if written in texts)
        item = self.keys[self.texts[name][written], url]
        known = ELEVEN.index(name) if request.body.get("seed", 1) == 1 else 0
        right = self.rank(item.pair_id) < known
        return Reply(completion(item.answers[0] if right else "A"))

    def rank(self, pair: str | None) -> int:
        """The place of a pair among those that the run selected."""
        return self.chosen.index(pair)

    chosen: list[str | None]


@pytest.fixture(scope="module")
def knower() -> Knower:
    return Knower()


@pytest.fixture
def stranger(pytester: pytest.Pytester) -> pytest.Pytester:
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "MEDVQA_"))]:
        pytester._monkeypatch.delenv(name)
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_questions=TEST)
    (pytester.path / "models").mkdir()
    return pytester


def configure(stranger: pytest.Pytester, server: Server, options: str = "", more: str = "") -> None:
    (stranger.path / "models/mine.toml").write_text(CONFIG.format(url=server.url, options=options) + more)


def choose(knower: Knower, stranger: pytest.Pytester) -> None:
    """Learn which pairs --limit selects."""
    run(stranger, "--model=random", "--technique=mc", "--benchmark=phantom-mediconfusion", QUESTIONS, "--run=chosen")
    knower.chosen = sorted({r.item.pair_id for r in run_folder.read(stranger.path / "reports/chosen").results})
    assert len(knower.chosen) == PAIRS


def told(stranger: pytest.Pytester, name: str, file: str = "metrics.json") -> Any:
    return json.loads((stranger.path / "reports" / name / file).read_text())


COMMON = ("--model=mine", "--benchmark=phantom-mediconfusion", QUESTIONS)


def check_all(stranger: pytest.Pytester, name: str) -> None:
    """Prompt k has k of 10 pairs right."""
    metrics = told(stranger, name)
    values = {
        m["slice"]["prompt"]: m["value"]
        for m in metrics["measures"]
        if m["name"] == "set_accuracy" and list(m["slice"]) == ["prompt"]
    }
    assert values == pytest.approx({name: k / PAIRS for k, name in enumerate(ELEVEN)})
    assert list(values) == list(ELEVEN)
    (whole,) = (m for m in metrics["measures"] if m["name"] == "set_accuracy" and not m["slice"])
    assert whole["value"] == pytest.approx(0.5), "the plain mean over prompts"
    assert whole["n"] == PAIRS, "pairs, not answers"
    spread = next(s for s in metrics["spread"] if s["name"] == "set_accuracy")
    assert spread["sd_within_prompts"] is None
    assert spread["sd_between_prompts"] == pytest.approx(sqrt(10) / PAIRS)
    assert spread["sd_all"] == pytest.approx(sqrt(10) / PAIRS)
    assert spread["mean"] == pytest.approx(0.5)


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_all_asks_by_the_eleven_and_reports_each(
    stranger: pytest.Pytester, knower: Knower, spread: tuple[str, ...]
) -> None:
    choose(knower, stranger)
    with Server(knower) as server:
        configure(stranger, server)
        result = run(stranger, *COMMON, "--prompt=all", "--run=all", *spread)
        assert result.ret == 0, text(result)
        assert len(server.requests) == 11 * 2 * PAIRS
        assert {asked(request)[0] for request in server.requests} == {
            "You are a helpful assitant expert in medical domain."
        }
    check_all(stranger, "all")
    folder = stranger.path / "reports/all"
    about = told(stranger, "all", "run.json")
    of_benchmark = about["benchmarks"]["phantom-mediconfusion"]
    assert about["protocol"] == {"prompts": ["all"]}
    assert of_benchmark["asked_by"] == list(ELEVEN)
    assert len(of_benchmark["templates"]) == 11
    template, texts = next(iter(of_benchmark["templates"].items()))
    assert template.startswith("mediconfusion/1-short@")
    assert texts["text"].startswith("Answer the following question about the image.\nQuestion: {question}\n{options}")
    results = run_folder.read(folder).results
    assert Counter(r.variant for r in results) == dict.fromkeys(ELEVEN, 2 * PAIRS)
    with (folder / "measures.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["dimension"], row["of"]) == ("prompt", "3-careful")]
    assert {row["measure"]: float(row["value"]) for row in rows}["set_accuracy"] == pytest.approx(0.3)
    with (folder / "spread.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "set_accuracy"]
    assert [row["prompt"] for row in rows] == [*ELEVEN, ""]
    assert float(rows[-1]["sd_between_prompts"]) == pytest.approx(sqrt(10) / PAIRS)
    # The terminal, the summary and the page.
    shown = text(result)
    assert re.search(r"^10-important +100\.00 +[\d.–]+ +100\.00 +[\d.–]+ +0\.00 +[\d.–]+$", shown, re.MULTILINE)
    assert "sd between prompts" in shown
    summary = (folder / "summary.md").read_text()
    assert "## phantom-mediconfusion by prompt" in summary
    assert "| 7-one-line | 70.00 |" in summary
    assert "| phantom-mediconfusion | set\\_accuracy | 50.00 | 31.62 | 31.62 | 11 | 1 |" in summary
    page = Page((folder / "index.html").read_text())
    rows = page.results
    assert {row["variant"] for row in rows} == set(ELEVEN)
    (dimension,) = (each for each in page.block("head")["dimensions"] if each["name"] == "prompt")
    assert {value["value"] for value in dimension["values"]} == set(ELEVEN)
    assert {value["select"] for value in dimension["values"]} == {None}, "pytest selects no prompt by -m"
    of_one = [row["terms"][2:] for row in rows if row["variant"] == "5-a-or-b"]
    assert [sum(values) for values in zip(*of_one, strict=True)] == [15, 20], "counts of one prompt are whole"
    whole = [sum(values) for values in zip(*(row["terms"][:2] for row in rows), strict=True)]
    assert whole == pytest.approx([15, 20]), "over all prompts, each question counts once"


def test_samples_and_prompts_have_three_deviations(stranger: pytest.Pytester, knower: Knower) -> None:
    choose(knower, stranger)
    with Server(knower) as server:
        configure(stranger, server, "temperature = 0.7")
        result = run(stranger, *COMMON, "--prompt=2,4", "--samples=2", "--run=both")
        assert result.ret == 0, text(result)
        assert len(server.requests) == 2 * 2 * 2 * PAIRS
    spread = next(s for s in told(stranger, "both")["spread"] if s["name"] == "set_accuracy")
    assert spread["values"] == {"2-options-last": [0.2, 0.0], "4-expert": [0.4, 0.0]}
    assert spread["samples"] == [1, 2]
    assert spread["mean"] == pytest.approx(0.15)
    assert spread["sd_within_prompts"] == pytest.approx(sqrt((0.1**2 + 0.2**2) / 2))
    assert spread["sd_between_prompts"] == pytest.approx(0.05)
    assert spread["sd_all"] == pytest.approx(sqrt((0.1**2 + 0.2**2) / 2 + 0.05**2))
    shown = text(result)
    assert "sd within prompts" in shown
    assert "4-expert" in shown


@pytest.mark.slow
@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
def test_a_killed_run_over_all_prompts_goes_on(
    stranger: pytest.Pytester, knower: Knower, spread: tuple[str, ...]
) -> None:
    choose(knower, stranger)
    reached = threading.Event()

    def script(number: int, request: Request) -> Reply:
        if number >= 100:
            reached.set()
        return knower(number, request)

    with Server(script) as server:
        configure(stranger, server, "concurrency = 2")
        command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *COMMON, "--prompt=all", "--run=killed"]
        session = processes.Popen([*command, *spread], cwd=stranger.path, start_new_session=True)
        reached.wait(120)
        kill_group(session)
        before = len(server.requests)
        result = run(stranger, *COMMON, "--prompt=all", "--run=killed", *spread)
        assert result.ret == 0, text(result)
        repeated = sum(Counter(asked(request)[1:2] + asked(request)[3:] for request in server.requests).values()) - 220
        assert 100 < before < 220
        assert repeated <= 8, "only calls in flight are asked again"
    check_all(stranger, "killed")
    check_kept(stranger.path / "reports/killed", server.requests)


def check_kept(folder: Path, requests: list[Request]) -> None:
    """Each prompt that was sent is kept once, with the texts that were sent."""
    digests = {result.prompt for result in run_folder.read(folder).results}
    lines = [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]
    assert Counter(line["digest"] for line in lines) == Counter(digests)
    assert {(line.get("system", ""), line["text"]) for line in lines} == {asked(request)[:2] for request in requests}


def test_prompts_are_kept_once_whatever_asks_again(stranger: pytest.Pytester, knower: Knower) -> None:
    """With samples and workers, in a session that goes on, and in a run that is merged."""
    choose(knower, stranger)
    with Server(knower) as server:
        configure(stranger, server, "temperature = 0.5")
        for shard in "12":
            typed = (*COMMON, "--prompt=4-expert", f"--shard={shard}/2", "--samples=2", f"--run=s{shard}")
            assert run(stranger, *typed, "-n2").ret == 0
            (stranger.path / f"reports/s{shard}/results.jsonl").unlink()
            path = stranger.path / f"reports/s{shard}/prompts.jsonl"
            if shard == "1":
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:-9])
            assert run(stranger, *typed).ret == 0
        assert main(["merge", "reports/s1", "reports/s2", "-o", "reports/both"]) == 0
        merged = stranger.path / "reports/both"
        assert len((merged / "prompts.jsonl").read_bytes().splitlines()) == 2 * PAIRS
        check_kept(merged, server.requests)


def test_a_named_prompt_sends_its_text_order_and_system(stranger: pytest.Pytester) -> None:
    with Server(lambda number, request: Reply(completion("A"))) as server:
        configure(stranger, server)
        arguments = (*COMMON[:2], "--limit=2")
        assert run(stranger, *arguments, "--prompt=llava", "--run=llava").ret == 0
        assert run(stranger, *arguments, "--prompt=4", "--run=expert").ret == 0
        assert run(stranger, *arguments, "--prompt=default", "--run=named").ret == 0
        assert run(stranger, *arguments, "--run=own", "--answers=named").ret == 0
        assert run(stranger, *arguments, "--prompt=0", "--run=original", "--answers=named").ret == 0
        llava, expert, own = (asked(server.requests[place]) for place in (0, 2, 4))
        assert len(server.requests) == 6, "the benchmark's own prompt, named or not, has one stored answer"
    assert llava[0] == ""
    assert llava[1].endswith('#answer: ("')
    assert llava[2] == ["text", "image_url"]
    assert expert[1].startswith("You are an expert radiologist AI")
    assert expert[2] == own[2] == ["image_url", "text"]
    signatures = {
        name: {m["signature"] for m in told(stranger, name)["measures"]}
        for name in ("llava", "expert", "named", "own", "original")
    }
    assert signatures["named"] == signatures["own"] == signatures["original"]
    assert all("prompt:mediconfusion/owners-mc-text-first@" in signature for signature in signatures["llava"])
    assert all("prompt:mediconfusion/4-expert@" in signature for signature in signatures["expert"])
    assert {r.variant for r in run_folder.read(stranger.path / "reports/expert").results} == {""}
    assert told(stranger, "expert", "run.json")["protocol"] == {"prompts": ["4-expert"]}
    assert "protocol" not in told(stranger, "own", "run.json")
    assert "asked_by" not in told(stranger, "own", "run.json")["benchmarks"]["phantom-mediconfusion"]


def test_a_models_config_names_the_prompt_it_is_asked_by(stranger: pytest.Pytester) -> None:
    with Server(lambda number, request: Reply(completion("A"))) as server:
        configure(stranger, server, more='[prompts]\nphantom = "owners-default"\n')
        arguments = (*COMMON[:2], "--limit=2")
        assert run(stranger, *arguments, "--run=config").ret == 0
        assert asked(server.requests[0])[1].endswith('#answer: ("')
        assert run(stranger, *arguments, "--run=typed", "--prompt=default").ret == 0
        assert asked(server.requests[2])[1].endswith("\nAnswer: ")
        about = told(stranger, "config", "run.json")
        assert about["config"]["prompts"] == {"phantom": "owners-default"}
        assert about["benchmarks"]["phantom-mediconfusion"]["asked_by"] == ["owners-default"]
        configure(stranger, server, more='[prompts]\nphantm = "owners-default"\n')
        result = run(stranger, *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "mine: [prompts]: no benchmark 'phantm'" in text(result)
        assert "Did you mean 'phantom'?" in text(result)


FILE = """Look at the picture.
{question}
{options}
Letter:
"""


def test_a_file_of_ones_own_applies_to_any_benchmark(stranger: pytest.Pytester) -> None:
    (stranger.path / "prompts").mkdir()
    (stranger.path / "prompts/mine.txt").write_text(FILE)
    with Server(lambda number, request: Reply(completion("A"))) as server:
        configure(stranger, server)
        arguments = ("--model=mine", "--limit=2", "--prompt=prompts/mine.txt,default")
        result = run(stranger, *arguments, "--benchmark=phantom-mediconfusion", "--run=mine")
        assert result.ret == 0, text(result)
        texts = sorted(asked(request)[1] for request in server.requests)
        assert len(texts) == 4
        assert texts[-1].startswith("Look at the picture.\n")
        assert texts[-1].endswith("\nLetter:")
        about = told(stranger, "mine", "run.json")
        assert about["protocol"] == {"prompts": ["mine", "default"]}
        templates = about["benchmarks"]["phantom-mediconfusion"]["templates"]
        assert [entry["text"] for entry in templates.values()] == [
            "Look at the picture.\n{question}\n{options}Letter:",
        ]
        # Under a changed text, the run does not go on.
        (stranger.path / "prompts/mine.txt").write_text(FILE + "?")
        result = run(stranger, *arguments, "--benchmark=phantom-mediconfusion", "--run=mine")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "run 'mine' cannot go on: phantom-mediconfusion: the prompt of mc was" in text(result)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--benchmark=phantom-mediconfusion", "--prompt=shrot"),
            "--prompt=shrot: benchmark 'phantom-mediconfusion' has no prompt of that name. Did you mean '1-short'?",
        ),
        (
            ("--benchmark=phantom-gmai-mmbench", "--prompt=all"),
            "--prompt=all: benchmark 'phantom-gmai-mmbench' has no named prompts; it has: default",
        ),
        (
            ("--benchmark=phantom-gmai-mmbench", "--prompt=4"),
            "--prompt=4: benchmark 'phantom-gmai-mmbench' has no prompt of that name; it has: default",
        ),
        (
            ("--benchmark=phantom-mediconfusion", "--prompt=all", "--technique=ps"),
            "--prompt=0-original: benchmark 'phantom-mediconfusion' has no such prompt for technique 'ps', only for "
            "mc; prompts of ps: default, owners-default, deepseek, llava-med, llava, llama, molmo",
        ),
        (
            ("--benchmark=phantom-mediconfusion", "--prompt=prompts/gone.txt"),
            "--prompt=prompts/gone.txt: cannot be read: No such file or directory",
        ),
        (
            ("--benchmark=phantom-mediconfusion", "--prompt=wrong.txt"),
            "--prompt=wrong.txt, line 2: the text has the field {answers}",
        ),
        (
            ("--benchmark=phantom-mediconfusion", "--prompt=4-expert.txt"),
            "--prompt: benchmark 'phantom-mediconfusion' has a prompt '4-expert' already; rename the file, or type "
            "--prompt=4-expert for the benchmark's",
        ),
        (
            ("--benchmark=phantom-mediconfusion", "--prompt=bare.txt"),
            "prompt 'bare' shows no options, and benchmark 'phantom-mediconfusion' has questions of kind "
            "single_choice: add {options} to its text",
        ),
        (("--benchmark=phantom-mediconfusion", "--prompt="), "--prompt: a value is empty"),
    ],
)
def test_a_prompt_that_cannot_be_asked_is_refused(
    stranger: pytest.Pytester, arguments: tuple[str, ...], line: str
) -> None:
    (stranger.path / "wrong.txt").write_text("{question}\n{answers}\n")
    (stranger.path / "4-expert.txt").write_text("{question}\n{options}\n")
    (stranger.path / "bare.txt").write_text("{question}\n")
    result = run(stranger, "--model=random", "--technique=mc", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert line in text(result)
    assert not (stranger.path / "reports").exists()


def test_the_phantoms_own_model_is_asked_by_each_prompt_of_its_technique(stranger: pytest.Pytester) -> None:
    result = run(
        stranger,
        *("--model=phantom-vlm", "--benchmark=phantom-mediconfusion", "--limit=4"),
        *("--prompt=default,llava,llama", "--run=vlm"),
    )
    assert result.ret == 0, text(result)
    results = run_folder.read(stranger.path / "reports/vlm").results
    assert Counter(r.variant for r in results) == {"default": 4, "llava": 4, "llama": 4}
    assert {r.technique for r in results} == {"ps"}
    assert len({r.prompt for r in results}) == 12


def test_runs_by_different_prompts_are_compared_with_a_line(
    stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    common = ("--model=random", "--technique=mc", "--benchmark=phantom-mediconfusion")
    run(stranger, *common, "--run=own")
    run(stranger, *common, "--prompt=4", "--run=expert")
    monkeypatch.chdir(stranger.path)
    capsys.readouterr()
    main(["compare", "reports/own", "reports/expert"])
    shown = "".join(capsys.readouterr())
    assert "the prompt" in shown
    assert "4-expert" in shown
