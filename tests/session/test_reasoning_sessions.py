"""Reasoning, explanations, two turns and hidden thoughts, in whole sessions with a scripted server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from medvqa.cli import main
from medvqa.items import Result
from medvqa.records import baseline_file, run_folder
from medvqa.records.run_folder import RESULTS
from support import processes
from support.pages import Page
from support.servers import Reply, Request, Server, completion
from support.sessions import SPREAD, SPREAD_SLOWLY, run, text
from support.strangers import CONFTEST, TEST, asked_by

CONFIG = """
backend = "openai"
argument = "tiny"

[options]
base_url = "{url}"
temperature = 0.7
concurrency = 4
retries = 0
max_tokens = 16
"""
JUDGE = CONFIG.replace('"tiny"', '"judge"').replace("0.7", "0")
COT, EXPLAIN = "Reason step by step before you answer", "on the first line of your reply"


@pytest.fixture
def slake(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(asked_by(CONFTEST, '"mc", "ff"'))
    pytester.makepyfile(test_slake=TEST)
    return pytester


@contextmanager
def served(slake: pytest.Pytester, script: Callable[[Request], dict[str, Any]], delay: float = 0) -> Iterator[Server]:
    """A server with configs for a model and a judge; `script` maps a request to a completion."""
    with Server(lambda _, request: Reply(script(request), delay=delay)) as server:
        (slake.path / "models").mkdir(exist_ok=True)
        (slake.path / "models" / "tiny.toml").write_text(CONFIG.format(url=server.url))
        (slake.path / "models" / "judge.toml").write_text(JUDGE.format(url=server.url))
        yield server


def said(request: Request) -> str:
    """The text of the last turn."""
    return request.body["messages"][-1]["content"][-1]["text"]


def number(request: Request) -> int:
    """The number of the question that a request is about."""
    texts = [message["content"] for message in request.body["messages"] if message["role"] == "user"]
    return int(re.search(r"Question (\d+)\?", texts[0][-1]["text"])[1])  # type: ignore[index]


def results(slake: pytest.Pytester, name: str = "first") -> dict[str, Result]:
    return {result.item.id: result for result in run_folder.read(slake.path / "reports" / name).results}


def about(slake: pytest.Pytester, name: str = "first") -> dict[str, Any]:
    return json.loads((slake.path / "reports" / name / "run.json").read_text())


def killed_after(slake: pytest.Pytester, server: Server, count: int, *arguments: str) -> None:
    """Begin a run, and kill it with its workers after so many requests."""
    environment = {name: v for name, v in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *arguments]
    session = processes.Popen(
        command, cwd=slake.path, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    while len(server.requests) < count and session.poll() is None:
        time.sleep(0.005)
    os.killpg(session.pid, signal.SIGKILL)
    session.wait()


# --- reasoning before the answer ------------------------------------------------------------------------------------


def reasoning(request: Request) -> dict[str, Any]:
    """Reasons about wrong options first, and ends with the right line, without one, or cut off."""
    n = number(request)
    if n == 20:
        return completion("The answer is certainly C.")
    if n == 21:
        return completion("The answer is A.\nFinal answer: A", "length")
    if n == 22:
        return completion("The line\nFinal answer: B\nwas in the question.")
    return completion(f"I see A, B and C. The answer is A? No.\n\n**Final answer: {'ABC'[n % 3]}**")


@pytest.mark.parametrize("spread", SPREAD)
def test_the_final_line_alone_is_scored(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    with served(slake, reasoning) as server:
        done = run(slake, "--model=tiny", "--reasoning=cot", "--run=first", *spread)
    assert done.ret == 0, text(done)
    found = results(slake)
    assert Counter(result.score.outcome for result in found.values()) == {"correct": 21, "unparsed": 3}
    answer = found["q04"].answer
    assert answer is not None
    assert (answer.text, answer.whole[:5]) == ("B", "I see")
    assert {request.body["max_tokens"] for request in server.requests} == {2048}
    assert all(COT in said(request) for request in server.requests)
    run_about = about(slake)
    assert run_about["protocol"] == {"reasoning": "cot"}
    signature = run_about["benchmarks"]["slake"]["signature"]
    assert re.fullmatch(r"cot@[0-9a-f]{8}", signature["reasoning"])
    assert run_about["benchmarks"]["slake"]["prompts"]["mc"].endswith(f"+{signature['reasoning']}")
    assert run_about["benchmarks"]["slake"]["max_tokens"] == {"mc": {"single_choice": 2048}}
    shown = " ".join(text(done).split())
    assert "3 of 24 replies have no line that holds the answer" in shown
    assert "1 of 24 answers were cut off at 2048 tokens (finish=length)" in shown
    # Scored again, the same lines count.
    assert main(["rescore", str(slake.path / "reports" / "first"), f"--plugin={slake.path / 'conftest.py'}"]) == 0
    assert results(slake) == found


def test_the_limit_of_a_reasoned_answer_is_configured_apart(slake: pytest.Pytester) -> None:
    with served(slake, reasoning) as server:
        path = slake.path / "models" / "tiny.toml"
        path.write_text(path.read_text() + "\n[max_tokens]\nslake = 8\ncot = 900\n")
        assert run(slake, "--model=tiny", "--reasoning=cot", "--run=first", "-k", "q00").ret == 0
        assert run(slake, "--model=tiny", "--run=second", "-k", "q00").ret == 0
        assert run(slake, "--model=tiny", "--reasoning=cot", "--max-tokens=50", "--run=third", "-k", "q00").ret == 0
    assert [request.body["max_tokens"] for request in server.requests] == [900, 8, 50]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--reasoning=cot", "--technique=gd", "--benchmark=phantom"), "--reasoning=cot: technique 'gd' compares"),
        (("--explain", "--technique=ps", "--benchmark=phantom"), "--explain: technique 'ps' compares probabilities"),
        (("--explain", "--reasoning=cot"), "--explain and --reasoning=cot: both say how to answer; leave one out"),
        (("--reasoning=loud",), "no reasoning 'loud'; there are: cot, cot-2"),
        (
            ("--reasoning=cot-2", "--model=stubborn:A"),
            "--reasoning=cot-2: backend 'stubborn' takes one turn alone, and this needs two; those that take several: "
            "echo, hf, majority, openai, random, serve, vllm. A class of your own that sends Prompt.turns before the "
            "text declares converses = True",
        ),
    ],
)
def test_protocols_that_cannot_be_followed_are_refused(
    slake: pytest.Pytester, arguments: tuple[str, ...], line: str
) -> None:
    model = () if any(name.startswith("--model") for name in arguments) else ("--model=random",)
    done = run(slake, *model, *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert line in " ".join(text(done).split())


# --- answer, then explanation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_the_first_line_of_an_explained_answer_is_scored(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    def script(request: Request) -> dict[str, Any]:
        letter, cut = "ABC"[number(request) % 3], number(request) == 5
        return completion(f"{letter}\nIt is neither A nor B nor C.\nFinal answer: D", "length" if cut else "stop")

    with served(slake, script) as server:
        assert run(slake, "--model=tiny", "--explain", "--run=first", *spread).ret == 0
    found = results(slake)
    assert {result.score.outcome for result in found.values()} == {"correct"}
    assert all(EXPLAIN in said(request) for request in server.requests)
    answer = found["q05"].answer
    assert answer is not None
    assert (answer.text, answer.cut, "neither" in answer.whole) == ("C", True, True)
    page = Page((slake.path / "reports" / "first" / "index.html").read_text())
    folded = {row["item"]: row["answered"]["folded"] for row in page.results if "folded" in row["answered"]}
    assert folded.keys() == found.keys()
    whole = {"name": "Whole reply", "texts": ["A\nIt is neither A nor B nor C.\nFinal answer: D"]}
    assert [whole] in folded.values()


# --- two turns ------------------------------------------------------------------------------------------------------


def in_turns(request: Request) -> dict[str, Any]:
    messages = request.body["messages"]
    if len(messages) == 1:
        return completion(f"The answer is A. I think of question {number(request)}.")
    assert messages[1] == {"role": "assistant", "content": f"The answer is A. I think of question {number(request)}."}
    return completion("ABC"[number(request) % 3])


def turns(server: Server) -> Counter[tuple[int, int]]:
    """Requests by question and turn."""
    return Counter((number(request), len(request.body["messages"]) // 2 + 1) for request in server.requests)


@pytest.mark.parametrize("spread", SPREAD)
def test_the_last_reply_of_two_is_scored(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    with served(slake, in_turns) as server:
        done = run(slake, "--model=tiny", "--reasoning=cot-2", "--run=first", *spread)
        assert done.ret == 0, text(done)
        assert turns(server) == Counter({(n, turn): 1 for n in range(24) for turn in (1, 2)})
        # All answers are stored: going on asks nothing.
        assert run(slake, "--model=tiny", "--reasoning=cot-2", "--run=first").ret == 0
    assert len(server.requests) == 48
    found = results(slake)
    assert {result.score.outcome for result in found.values()} == {"correct"}
    answer = found["q07"].answer
    assert answer is not None
    assert answer.earlier == ("The answer is A. I think of question 7.",)
    assert answer.usage == {"input": 2000, "output": 20}
    assert about(slake)["usage"] == {"input": 48_000, "output": 480}
    second = [said(request) for request in server.requests if len(request.body["messages"]) > 1]
    assert set(second) == {"Therefore, among A through C, the answer is"}
    # A recording holds the last replies.
    recorded = slake.path / "reports" / "first" / "results.jsonl"
    assert run(slake, f"--model=replay:{recorded}", "--reasoning=cot-2", "--run=again").ret == 0
    assert {result.score.outcome for result in results(slake, "again").values()} == {"correct"}


TWO = """
text = "Q: {question}\\n{options}A: Let's think step by step."
then = ["Therefore, among {first} through {last}, the answer is"]
"""


def test_a_prompt_file_has_turns_of_its_own(slake: pytest.Pytester) -> None:
    (slake.path / "two.toml").write_text(TWO)
    with served(slake, in_turns) as server:
        assert run(slake, "--model=tiny", "--prompt=two.toml", "--run=first", "-k", "q01").ret == 0
    first, second = server.requests
    assert said(first) == "Q: Question 1?\nA. liver\nB. spleen\nC. kidney\nA: Let's think step by step."
    assert said(second) == "Therefore, among A through C, the answer is"
    assert results(slake)["q01"].score.outcome == "correct"
    for arguments, line in (
        (("--model=stubborn:A",), "--prompt=two: backend 'stubborn' takes one turn alone, and this needs two"),
        (("--model=tiny", "--explain"), "--prompt=two: it has turns of its own; leave --explain out"),
    ):
        done = run(slake, "--prompt=two.toml", *arguments)
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        assert line in " ".join(text(done).split())


@pytest.mark.slow
@pytest.mark.parametrize("spread", SPREAD)
def test_a_killed_run_in_two_turns_goes_on_and_loses_calls_in_flight_alone(
    slake: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    command = ("--model=tiny", "--reasoning=cot-2", "--run=first", *spread)
    with served(slake, in_turns, delay=0.05) as server:
        killed_after(slake, server, 21, *command)
        before = len(server.requests)
        assert run(slake, *command).ret == 0
    assert 21 <= before < 48
    asked = turns(server)
    assert set(asked) == {(n, turn) for n in range(24) for turn in (1, 2)}
    # Four questions are in flight in each process; each may have had both turns.
    assert asked.total() - 48 <= 2 * 4 * (2 if spread else 1)
    assert {result.score.outcome for result in results(slake).values()} == {"correct"}


# --- hidden thoughts ------------------------------------------------------------------------------------------------


def thinking(request: Request) -> dict[str, Any]:
    n = number(request) if "Question" in said(request) else 0
    if request.body["model"] == "judge":
        assert "secret thought" not in json.dumps(request.body)
        return completion("[Answer A]: 9\n[Answer B]: 1\n[Answer C]: 1")
    if n == 3:
        return completion("<think>a secret thought: the answer is A", "length")
    if n % 2:
        return completion("ABC"[n % 3], reasoning_content="a secret thought: the answer is <b>D</b>")
    return completion(f"<think>a secret thought: the answer is D</think>\n\n{'ABC'[n % 3]}")


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_thoughts_are_stored_and_shown_but_not_scored(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    with served(slake, thinking):
        assert run(slake, "--model=tiny", "--run=first", *spread).ret == 0
    found = results(slake)
    assert Counter(result.score.outcome for result in found.values()) == {"correct": 23, "unparsed": 1}
    answers = {name: result.answer for name, result in found.items() if result.answer is not None}
    assert all(answer.thoughts.startswith("a secret thought") for answer in answers.values())
    assert not any("secret" in answer.text for answer in answers.values())
    html = (slake.path / "reports" / "first" / "index.html").read_text()
    assert "secret thought" not in html, "texts of models are packed, and become text nodes alone"
    assert Page(html).results[1]["answered"]["folded"] == [
        {"name": "Hidden thoughts", "texts": ["a secret thought: the answer is <b>D</b>"]}
    ]
    baseline = slake.path / "b.medvqa"
    command = ["baseline", str(slake.path / "reports" / "first"), "-o", str(baseline), "--no-responses"]
    assert main(command) == 0
    _, kept = baseline_file.read_baseline(baseline)
    assert not any(result.answer and result.answer.thoughts for result in kept)


def test_the_judge_gets_no_thoughts(slake: pytest.Pytester) -> None:
    with served(slake, thinking) as server:
        command = ("--model=tiny", "--technique=ff", "--judge=judge", "--run=first", "-k", "q00 or q01")
        assert run(slake, *command).ret == 0
    assert {request.body["model"] for request in server.requests} == {"tiny", "judge"}


# --- judges and recordings ------------------------------------------------------------------------------------------


def test_the_judge_gets_the_line_alone(slake: pytest.Pytester) -> None:
    def script(request: Request) -> dict[str, Any]:
        if request.body["model"] == "judge":
            assert "kidney stone" in said(request)
            assert "At first" not in said(request)
            return completion("[Answer A]: 1\n[Answer B]: 1\n[Answer C]: 9")
        if number(request) == 1:
            return completion("At first I thought of a spleen.")
        return completion("At first I thought of a liver.\nFinal answer: a kidney stone")

    with served(slake, script) as server:
        command = ("--model=tiny", "--technique=ff", "--judge=judge", "--reasoning=cot", "--run=first")
        assert run(slake, *command, "-k", "q01 or q02").ret == 0
    found = results(slake)
    assert [request.body["model"] for request in server.requests].count("judge") == 1
    assert (found["q01"].score.outcome, found["q02"].score.outcome) == ("unparsed", "correct")
    assert found["q01"].score.why == "the reply has no line that holds the answer"


def test_recorded_replies_are_read_by_their_line(slake: pytest.Pytester) -> None:
    rows = [{"id": f"q{n:02}", "response": f"<think>A</think>A?\nFinal answer: {'ABC'[n % 3]}"} for n in range(24)]
    rows[4]["response"] = "B"
    (slake.path / "replies.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(slake, "--model=replay:replies.jsonl", "--reasoning=cot", "--run=first").ret == 0
    found = results(slake)
    assert Counter(result.score.outcome for result in found.values()) == {"correct": 23, "unparsed": 1}
    answer = found["q01"].answer
    assert answer is not None
    assert (answer.text, answer.whole) == ("B", rows[1]["response"])


@pytest.mark.parametrize(
    ("asked", "replayed", "advice"),
    [
        (["--ablate=text-only"], [], "was recorded with --ablate=text-only, which replayed answers cannot repeat"),
        (["--shots=2"], [], "was recorded with --shots=2, which replayed answers cannot repeat"),
        (["--reasoning=cot"], [], "was recorded with --reasoning=cot: add --reasoning=cot, so that its numbers"),
        ([], ["--explain"], "was recorded without --explain: leave out --explain, so that its numbers are named"),
        (["--prompt=mine.txt"], [], "was recorded with --prompt=mine: add --prompt=mine, so"),
        (["--reasoning=cot"], ["--reasoning=cot"], ""),
    ],
)
def test_a_run_is_replayed_as_it_was_asked(
    slake: pytest.Pytester, asked: list[str], replayed: list[str], advice: str
) -> None:
    (slake.path / "mine.txt").write_text("{question}\n{options}")
    assert run(slake, "--model=random", *asked, "--run=first").ret == 0
    result = run(slake, "--model=replay:reports/first/results.jsonl", *replayed, "--run=again")
    assert result.ret == (pytest.ExitCode.USAGE_ERROR if advice else 0)
    assert advice in text(result)


def test_python_asks_by_the_same_protocols(slake: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    import medvqa

    monkeypatch.chdir(slake.path)
    with served(slake, lambda request: completion(f"Because.\nFinal answer: {'ABC'[number(request) % 3]}")):
        done = medvqa.evaluate(model="tiny", benchmark="slake", plugins=["conftest.py"], reasoning="cot", limit=4)
    assert done.finished
    found = [*map(run_folder.decode, (done.folder / RESULTS).read_bytes().splitlines())]
    assert {result.score.outcome for result in found} == {"correct"}


# --- abstention and confidence --------------------------------------------------------------------------------------


def unsure(request: Request) -> dict[str, Any]:
    """Abstains from some questions, is too sure of some wrong answers, and twice states no confidence."""
    n = number(request)
    if n % 4 == 0:
        return completion("Cannot be determined\nConfidence: 95")
    if n in (1, 2):
        return completion(f"{'ABC'[n % 3]}\nConfidence: high" if n == 1 else "ABC"[n % 3])
    return completion(f"{'ABC'[(n + (n % 8 == 3)) % 3]}\n**Confidence: 80%**")


ASKED = ("--model=tiny", "--abstain", "--confidence", "--wrong-costs=2", "--run=first")


def values(slake: pytest.Pytester, name: str = "first") -> dict[str, float]:
    stored = json.loads((slake.path / "reports" / name / "metrics.json").read_text())["measures"]
    return {measure["name"]: measure["value"] for measure in stored if not measure["slice"]}


@pytest.mark.parametrize("spread", SPREAD)
def test_a_model_may_abstain_and_says_how_sure_it_is(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    with served(slake, unsure) as server:
        done = run(slake, *ASKED, *spread)
        assert done.ret == 0, text(done)
        # Room for a line more than the model's own 16 tokens.
        assert {request.body["max_tokens"] for request in server.requests} == {16 + 16 + 32}
        assert all("Cannot be determined" in said(request) for request in server.requests)
        asked, found = len(server.requests), results(slake)
        # The log has the replies as the model wrote them; they are read again.
        (slake.path / "reports" / "first" / RESULTS).unlink()
        assert run(slake, *ASKED, *spread).ret == 0
        assert len(server.requests) == asked
    assert results(slake) == found
    assert Counter(result.score.outcome for result in found.values()) == {"correct": 15, "wrong": 3, "abstained": 6}
    answer = found["q05"].answer
    assert answer is not None
    assert (answer.text, answer.whole, answer.confidence) == ("C", "C\n**Confidence: 80%**", 0.8)
    assert found["q01"].score.extracted == ("B",)
    expected = {
        "coverage": 18 / 24,
        "answered_accuracy": 15 / 18,
        "effective_reliability": (15 - 2 * 3) / 24,
        "brier_score": (13 * 0.2**2 + 3 * 0.8**2) / 16,
        "confidence_unread_rate": 2 / 18,
    }
    assert {name: values(slake)[name] for name in expected} == pytest.approx(expected)
    shown = " ".join(text(done).split())
    assert "slake (abstain, confidence)" in shown
    assert "2 of 18 answers that were read state no confidence that can be read; none is guessed." in shown
    assert "coverage 75.00" in shown
    run_about = about(slake)
    assert run_about["protocol"] == {"abstain": True, "confidence": True}
    assert run_about["wrong_costs"] == 2
    signature = run_about["benchmarks"]["slake"]["signature"]
    assert re.fullmatch(r"abstain@[0-9a-f]{8}", signature["abstain"])
    assert run_about["benchmarks"]["slake"]["prompts"]["mc"].endswith(
        f"+{signature['abstain']}+{signature['confidence']}"
    )


def test_what_was_read_survives_rescoring_replaying_and_another_cost(
    slake: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(slake, unsure):
        assert run(slake, *ASKED).ret == 0
    found, measured = results(slake), values(slake)
    plugin = f"--plugin={slake.path / 'conftest.py'}"
    folder = slake.path / "reports" / "first"
    assert main(["rescore", str(folder), plugin]) == 0
    assert (results(slake), values(slake)) == (found, measured)
    assert main(["report", str(folder), plugin, "--wrong-costs=5"]) == 0
    assert values(slake) == {**measured, "effective_reliability": pytest.approx((15 - 5 * 3) / 24)}
    assert 'the answer "Cannot be determined"' in Page((folder / "index.html").read_text()).told
    replayed = ("--model=replay:reports/first/results.jsonl", "--run=again")
    assert "add --abstain, add --confidence" in text(run(slake, *replayed))
    assert run(slake, *replayed, "--abstain", "--confidence", "--wrong-costs=2").ret == 0
    assert {id: result.score for id, result in results(slake, "again").items()} == {
        id: result.score for id, result in found.items()
    }
    assert values(slake, "again") == measured


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("--abstain", "--technique=gd", "--benchmark=phantom"), "--abstain: technique 'gd' compares probabilities"),
        (("--confidence", "--technique=ps", "--benchmark=phantom"), "--confidence: technique 'ps' compares prob"),
        (("--wrong-costs=2",), "--wrong-costs=2: it weighs wrong answers against none, and none is offered; add --ab"),
        (("--abstain", "--wrong-costs=0"), "--wrong-costs=0: a number above 0 is expected"),
        (("--abstain", "--wrong-costs=nan"), "--wrong-costs=nan: a number above 0 is expected"),
        (("--confidence", "--reasoning=cot-2"), "--confidence and --reasoning=cot-2: its second turn"),
    ],
)
def test_what_cannot_be_offered_or_asked_for_is_refused(
    slake: pytest.Pytester, typed: tuple[str, ...], message: str
) -> None:
    done = run(slake, "--model=random", *typed)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in " ".join(text(done).split())


def test_a_run_that_offered_nothing_has_no_effective_reliability(
    slake: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(slake, "--model=random", "--run=first").ret == 0
    plugin = f"--plugin={slake.path / 'conftest.py'}"
    assert main(["report", str(slake.path / "reports" / "first"), plugin, "--wrong-costs=2"]) == 4
    assert "was asked without --abstain" in capsys.readouterr().err


def test_an_open_answer_that_abstains_is_not_sent_to_the_judge(slake: pytest.Pytester) -> None:
    rows = [{"id": str(n), "question": f"Question {n}?", "answer": "liver"} for n in range(4)]
    (slake.path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (slake.path / "own.toml").write_text('name = "own"\nfile = "own.jsonl"\n')
    slake.makepyfile(test_own=TEST.replace("slake", "own"))

    def script(request: Request) -> dict[str, Any]:
        if request.body["model"] == "judge":
            return completion("<result>1.0</result>")
        return completion("Cannot be determined." if number(request) else "The liver.\nConfidence: 70")

    with served(slake, script) as server:
        done = run(slake, *ASKED, "--judge=judge", "--benchmark=own.toml")
        assert done.ret == 0, text(done)
        assert [request.body["model"] for request in server.requests].count("judge") == 1
    outcomes = {id: (result.score.outcome, result.judgement is None) for id, result in results(slake).items()}
    assert outcomes == {"0": ("correct", False), **{str(n): ("abstained", True) for n in (1, 2, 3)}}
    assert values(slake)["answered_accuracy"] == 1
    assert values(slake)["coverage"] == 0.25


# --- the model that ships -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["--reasoning=cot", "--reasoning=cot-2", "--explain", "--confidence"])
def test_the_model_that_ships_is_asked_by_each_protocol(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    pytest.importorskip("transformers", reason="needs transformers: pip install 'pytest-medvqa[hf]'")
    monkeypatch.chdir(pytester.path)
    command = ["run", "--benchmark=phantom-medlesionvqa", "--limit=4", "--technique=mc", "--run=first", protocol]
    assert main([*command, "--model=phantom-vlm"]) == 0
    found = run_folder.read(pytester.path / "reports" / "first").results
    assert len(found) == 4
    answers = [result.answer for result in found if result.answer is not None]
    assert len(answers) == 4
    if protocol == "--confidence":
        # It was never taught to state one.
        assert all(answer.confidence is None for answer in answers)
    elif protocol == "--reasoning=cot-2":
        assert all(len(answer.earlier) == 1 for answer in answers)
    else:
        assert all(answer.text in answer.whole for answer in answers)
        assert any(answer.whole for answer in answers)
