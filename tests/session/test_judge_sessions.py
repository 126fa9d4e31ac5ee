"""Sessions with a judge: on the phantom against a server of this machine, and through all that can go wrong."""

import json
import os
import signal
import subprocess
import time
from collections import Counter

import pytest

from medvqa.cli import main
from medvqa.records import run_folder
from support import judges
from support.judged import (
    ASKED,
    JUDGED,
    OPEN,
    PAIRS,
    SAID,
    TEST,
    Repository,
    check_open,
    prompts,
    repository,
    scripted,
    text_of,
)
from support.servers import Reply, Request, Server, completion, error

__all__ = ["repository"]  # a fixture

SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]
# --- what comes of it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD)
def test_open_questions_of_the_phantom_are_judged_by_the_rubric(
    repository: Repository, spread: tuple[str, ...]
) -> None:
    with Server(scripted) as server:
        code, output = repository.run(repository.judge(server.url), "--run=first", *spread)
    assert code == 0, output
    check_open(repository.scores("first"))
    assert len(server.requests) == ASKED
    measures = repository.measures("first")
    # 56 open questions: four have 0 and three 0.5 ("75" is not asked about, and counts as wrong).
    assert JUDGED == 56
    assert measures["open_score"]["value"] == pytest.approx((56 - 4 - 1.5) / 56)
    assert measures["choice_score"]["value"] == 1
    assert measures["mean_score"]["value"] == pytest.approx((92 - 5.5) / 92)
    judgement = repository.results("first")["45"]["judgement"]
    assert (judgement["judge"], judgement["task"]) == ("openai:judge", "score")
    assert judgement["replies"] == ["The two were compared by the rules.\n<result>0.5</result>"]
    assert judgement["usage"] == {"input": 1000, "output": 10}
    assert "judge:openai\\:judge@" in measures["open_score"]["signature"]
    assert f"! {OPEN}: {ASKED} of 92 answers went to the judge 'openai:judge'." in output


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
    assert "ff_gap:3" in measures["set_accuracy"]["signature"]
    # The scripted judge gives 9 and 2: no lead of 7.5.
    assert {outcome for outcome, _ in repository.scores("second").values()} == {"unparsed"}


@pytest.mark.slow
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
    code, output = repository.run("--judge=replay:reports/first/results.jsonl", "--run=again")
    assert code == 0, output
    check_open(repository.scores("again"))
    # A recorded reply is to one answer, and to no other.
    code, output = repository.run("--judge=replay:reports/first/results.jsonl", "--run=other", model="echo:zebra")
    assert code == 2, output
    assert "50 errors in a row, the last: judge 'replay:results.jsonl' did not answer" in output
    assert {outcome for outcome, _ in repository.scores("other").values()} == {"error", "unparsed"}
    # A file has a fingerprint: its replies are found by runs that name this one.
    code, output = repository.run("--judge=replay:replies.jsonl", "--run=third", "--answers=second")
    assert f"Judge's replies: {ASKED} stored ones reused, 0 asked for." in output


def test_a_technique_that_needs_a_judge_says_so(repository: Repository) -> None:
    code, output = repository.run("--technique=ff", benchmark=PAIRS)
    assert code == 4
    assert "technique 'ff' needs a judge, which compares free answers with the options: add --judge=MODEL" in output


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["--ff-gap=2"], "--ff-gap says how a judge judges, and there is none: add --judge=MODEL"),
        (["--extract-with=judge"], "--extract-with says how"),
        (["--rules-first"], "--rules-first says how"),
        (["--judge-prompt=score:mine.txt"], "--judge-prompt says how"),
        (["--judge=echo:1", "--ff-gap=10"], "--ff-gap=10: a lead on the scale from 1 to 10 is 0 to 9 points"),
        (["--judge=echo:1", "--ff-gap=nan"], "--ff-gap=nan"),
        (
            ["--judge=echo:1", "--extract-with=rules"],
            "--extract-with=rules: write --extract-with=judge, or leave it out",
        ),
        (["--judge=random"], "--judge=random: 'random' does not read what it is asked, and a score is never guessed"),
        (["--judge=random:7", "--technique=ff"], "Name a model that reads: a config of models/, or BACKEND:ARGUMENT"),
        (["--judge=majority:"], "--judge=majority:: 'majority' does not read what it is asked"),
        (["--judge=nobody"], "no model 'nobody'"),
        (["--judge=echo"], "such as --judge=echo:A"),
        (["--judge=replay:none.jsonl"], "--judge=replay:none.jsonl: no such file"),
        (["--judge=mute:x"], "--judge=mute:x: a judge has to generate text; this one has: option_logprobs"),
        (["--judge=echo:1", "--judge-prompt=mine.txt"], "write TASK:FILE; tasks are score, closeness, options"),
        (["--judge=echo:1", "--judge-prompt=score:none.txt"], "--judge-prompt=score:none.txt: cannot be read"),
        (["--judge=echo:1", "--judge-prompt=score:mine.txt"], "judge prompt for 'score': the field {question}"),
        (["--judge=echo:1", "--judge-prompt=score:latin.txt"], "--judge-prompt=score:latin.txt line 1: not UTF-8"),
        (["--judge=echo:1", *["--judge-prompt=score:good.txt"] * 2], "there is one prompt for score already"),
        (["--judge=echo:1", "--max-cost=1"], "--max-cost=1: 'candidate' does not tell what its answers cost"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_asked(repository: Repository, typed: list[str], line: str) -> None:
    repository.conftest('class Mute(Candidate):\n    capabilities = {"option_logprobs"}\n')
    (repository.path / "mine.txt").write_text("Score it.")
    (repository.path / "good.txt").write_text("{question} {reference} {response}")
    (repository.path / "latin.txt").write_bytes(b"\xff{question} {reference} {response}")
    code, output = repository.run(*typed)
    assert code == 4, output
    assert line in output
    assert not repository.asked


def test_a_judge_elsewhere_gets_texts_alone_and_that_is_said(repository: Repository) -> None:
    repository.conftest("""
import dataclasses
from medvqa.benchmarks import phantom

def pytest_medvqa_benchmarks():
    return [dataclasses.replace(phantom.BENCHMARKS[2], name="kept", public=False)]
""")
    (repository.path / "test_recorded.py").write_text(TEST.replace('"phantom"', '"kept"'))
    (repository.path / "said.json").write_text(json.dumps({OPEN: SAID[OPEN], "kept": SAID[OPEN]}))
    with Server(scripted) as server:
        judge = repository.judge(server.remote_url)
        code, output = repository.run(judge, "--run=first", "--limit=12")
        assert code == 0, output
        origin = server.remote_url.removesuffix("/v1")
        assert f"medvqa: questions, references and answers of {OPEN} will be sent to {origin}, where" in output
        assert "the judge is; no images" in output
        assert "image" not in json.dumps([request.body for request in server.requests]).replace(
            "observing an image", ""
        )
        asked = len(server.requests)
        # A judge elsewhere has a fingerprint: its replies are found by another run.
        code, output = repository.run(judge, "--run=second", "--answers=first", "--limit=12")
        assert code == 0, output
        assert len(server.requests) == asked
        code, output = repository.run(judge, "--run=third", "--limit=12", "--fresh")
        assert len(server.requests) == 2 * asked
        code, output = repository.run(judge, "--run=fourth", benchmark="kept")
        assert code == 4
        assert f"--judge=judge would send to {origin} what is not declared public: up to" in output
        assert len(server.requests) == 2 * asked


# --- in the stream ------------------------------------------------------------------------------------------


def test_the_judge_is_asked_before_the_candidate_has_been_asked_everything(repository: Repository) -> None:
    repository.conftest("""
class Patient(Candidate):
    title = "patient"
    batch_size = 4
    _calls = 0

    def generate(self, prompts):
        Patient._calls += 1
        if Patient._calls > 1:
            # Nobody waits for these answers as long as the first have not been judged.
            end = time.monotonic() + 120
            while not (HERE / "judged").exists():
                if time.monotonic() > end:
                    return [AnswerError("the judge was not asked")] * len(prompts)
                time.sleep(0.01)
        return super().generate(prompts)


class Judge(Candidate):
    name = "judging"
    title = "judge"

    def generate(self, prompts):
        (HERE / "judged").write_text("")
        return [Answer("<result>1</result>") for _ in prompts]


""")
    code, output = repository.run("--judge=judging", "--run=first", model="patient")
    assert code == 0, output
    assert {result["score"]["outcome"] for result in repository.results("first").values()} <= {"correct", "unparsed"}


def test_costs_of_judging_stand_apart_and_count_towards_the_limit(repository: Repository) -> None:
    prices = "price_input = 1.0\nprice_output = 100.0"  # a reply costs 0.002
    with Server(scripted) as server:
        judge = repository.judge(server.url, prices=prices)
        code, output = repository.run(judge, "--run=first", "--limit=12")
        about = repository.about("first")
        asked = len(server.requests)
        assert about["usage"] == {"input": 7 * 12, "output": 12}
        assert about["judge_usage"] == pytest.approx(
            {"input": 1000 * asked, "output": 10 * asked, "cost": 0.002 * asked}
        )
        assert f"Used: 84 tokens input, 12 tokens output. Judging used: {1000 * asked:,} tokens input" in output
        assert about["sessions"][-1]["judge_asked"] == asked
        code, output = repository.run(judge, "--run=second", "--max-cost=0.0099", "--fresh")
    assert code == 2, output
    assert "the answers and their judging have cost 0.01: --max-cost=0.0099 is reached" in output
    assert 5 <= len(server.requests) - asked <= 5 + 2 * 4 + 8, (
        "what was in flight is paid for, and no more is asked ahead"
    )


# --- what can go wrong --------------------------------------------------------------------------------------


def test_an_outage_loses_no_answer_and_what_follows_asks_the_candidate_nothing(repository: Repository) -> None:
    with Server(lambda number, request: error(500, "down")) as server:
        judge = repository.judge(server.url)
        code, output = repository.run(judge, "--run=first", "--limit=12")
        assert code == 1, output
        results = repository.results("first")
        ended = Counter(result["score"]["outcome"] for result in results.values())
        judged = ended["error"]
        assert judged == len(server.requests) > 3
        whys = [result["score"]["why"] for result in results.values() if result["score"]["outcome"] == "error"]
        assert all(why.startswith("judge 'openai:judge' did not answer: ") and "down" in why for why in whys)
        assert all(result["answer"]["text"] is not None for result in results.values())
        assert f"the answers to {judged} of these are stored: medvqa rescore " in output
        server.script = scripted
        code, output = repository.run(judge, "--run=first", "--limit=12")
    assert code == 0, output
    assert len(server.requests) == 2 * judged
    assert repository.asked.total() == 12, "the candidate was asked once"
    expected = dict.fromkeys(SAID[OPEN], ("correct", 1.0))
    assert {id for id, score in repository.scores("first").items() if score == expected[id]} >= set(results) - {
        *("45", "46", "52", "53", "67", "75", "88")
    }


def test_a_judge_who_never_answers_ends_the_run(repository: Repository) -> None:
    with Server(lambda number, request: error(500, "down")) as server:
        code, output = repository.run(
            repository.judge(server.url), "--run=first", "--max-errors=3", "-k", "45 or 46 or 5"
        )
    assert code == 2, output
    assert "3 errors in a row, the last: judge 'openai:judge' did not answer" in output


def test_questions_that_no_judge_is_asked_about_do_not_hide_that_it_is_gone(repository: Repository) -> None:
    with Server(lambda number, request: error(500, "down")) as server:
        code, output = repository.run(repository.judge(server.url), "--run=first", "--max-errors=20")
    assert code == 2, output
    assert "20 errors in a row, the last: judge 'openai:judge' did not answer" in output


def test_a_technique_without_a_judge_is_compared_with_runs_that_had_none(repository: Repository) -> None:
    assert repository.run("--technique=mc", "--run=plain", benchmark=PAIRS)[0] == 0
    with Server(scripted) as server:
        judge = repository.judge(server.url)
        assert repository.run(judge, "--technique=mc,ff", "--run=both", benchmark=PAIRS)[0] == 0
    about = repository.about("both")["benchmarks"][PAIRS]
    assert about["judged_by"] == ["ff"]
    found = json.loads((repository.path / "reports/both/metrics.json").read_text())["measures"]
    signed = {each["technique"]: each["signature"] for each in found if each["name"] == "set_accuracy"}
    assert "ff_gap" in signed["ff"]
    assert "judge" not in signed["mc"]
    plain = repository.measures("plain")["set_accuracy"]
    assert plain["signature"] == signed["mc"]
    assert main(["compare", "reports/plain", "reports/both"]) == 0


def test_what_a_model_says_that_is_no_text_is_an_error_of_one_item(repository: Repository) -> None:
    repository.conftest("""

class Odd(Candidate):
    def generate(self, prompts):
        said = {"45": "\\ud800", "46": None}
        return [Answer(said[p.item]) if p.item in said else a for p, a in zip(prompts, super().generate(prompts))]
""")
    code, output = repository.run("--run=first", "-k", "45 or 46 or 47", model="odd")
    assert code == 1, output
    whys = [r["score"]["why"] for r in repository.results("first").values() if r["score"]["outcome"] == "error"]
    assert len(whys) == 2
    assert any("half a surrogate pair" in why for why in whys)
    assert any("NoneType" in why for why in whys)


@pytest.mark.slow
def test_busy_and_slow_judges_are_asked_again(repository: Repository) -> None:
    def script(number: int, request: Request) -> Reply:
        if number in (0, 3):
            return error(429, "slow down", Retry_After="0")
        # Longer than the timeout of the config, so that it is given up.
        return Reply(completion(judges.reply(text_of(request))), delay=1.5 if number == 2 else 0)

    with Server(script) as server:
        judge = repository.judge(server.url, retries=3, timeout=1)
        code, output = repository.run(judge, "--run=first", "--limit=12")
    assert code == 0, output
    asked = repository.about("first")["sessions"][-1]["judge_asked"]
    assert len(server.requests) >= asked + 3
    assert set(repository.scores("first").values()) <= {
        ("correct", 1.0),
        ("partial", 0.5),
        ("wrong", 0.0),
        ("unparsed", 0.0),
    }


def test_nonsense_is_complained_of_once(repository: Repository) -> None:
    def script(number: int, request: Request) -> Reply:
        text = text_of(request)
        again = "Your previous reply to this could not be used" in text
        return Reply(completion(judges.reply(text) if again else "<result>0.7</result>"))

    with Server(script) as server:
        code, output = repository.run(repository.judge(server.url), "--run=first", "--limit=12")
    assert code == 0, output
    judged = [result for result in repository.results("first").values() if result["judgement"]]
    assert len(server.requests) == 2 * len(judged)
    assert all(result["judgement"]["replies"][0] == "<result>0.7</result>" for result in judged)
    assert all(len(result["judgement"]["replies"]) == 2 for result in judged)
    assert all(result["judgement"]["usage"] == {"input": 2000, "output": 20} for result in judged)
    again = [text for text in prompts(server) if "0.7 is not one of 0.0, 0.5 and 1.0." in text]
    assert len(again) == len(judged)


@pytest.mark.slow
def test_nonsense_to_the_end_is_an_error_and_is_not_asked_for_for_ever(repository: Repository) -> None:
    with Server(lambda number, request: Reply(completion("I would rather not."))) as server:
        judge = repository.judge(server.url)
        totals = []
        for _ in range(4):
            code, output = repository.run(judge, "--run=first", "--limit=6")
            assert code == 1, output
            totals.append(len(server.requests))
        errors = [r for r in repository.results("first").values() if r["score"]["outcome"] == "error"]
        assert (
            "judge 'openai:judge' gave no reply that can be read, in 6 tries: It has no <result>"
            in (errors[0]["score"]["why"])
        )
        # Two tries in each of three sessions, then no more.
        assert totals == [2 * len(errors), 4 * len(errors), 6 * len(errors), 6 * len(errors)]
        server.script = scripted
        code, output = repository.run(judge, "--run=second", "--limit=6", "--fresh")
    assert code == 0, output


def test_a_reply_that_was_cut_off_says_what_to_do(repository: Repository) -> None:
    with Server(lambda number, request: Reply(completion("Let me think about", "length"))) as server:
        code, output = repository.run(repository.judge(server.url), "--run=first", "-k", "45")
        assert server.requests[0].body["max_tokens"] == 1024
        assert server.requests[0].body["temperature"] == 0
    assert code == 1
    assert "its reply was cut off: let it write more tokens" in output


# --- going on -----------------------------------------------------------------------------------------------


def test_a_run_does_not_go_on_under_another_judge(repository: Repository) -> None:
    one, other = "--judge=echo:<result>1</result>", "--judge=echo:<result>0</result>"
    assert repository.run(one, "--run=first", "--limit=6")[0] == 0
    changed = "the judge was 'echo:<result>1</result>' and is"
    for typed, why in (
        ([other], changed),
        ([], changed),
        ([one, "--rules-first"], "the judge's rules was not set and is"),
    ):
        code, output = repository.run("--run=first", *typed)
        assert code == 4
        assert f"run 'first' cannot go on: {why}" in output
        assert "medvqa rescore reports/first --judge=" in output
    # What changes nothing in this benchmark is no other judge, and what has nothing to judge needs none.
    assert repository.run(one, "--run=first", "--limit=8")[0] == 0
    code, output = repository.run("--run=first", "--limit=4", benchmark=PAIRS)
    assert code == 0, output
    about = repository.about("first")
    assert about["judge"]["name"] == "echo:<result>1</result>"
    assert "judge" in about["benchmarks"][OPEN]["signature"]
    assert "judge" not in about["benchmarks"][PAIRS]["signature"]


def test_a_run_that_has_a_judge_for_options_keeps_its_rule(repository: Repository) -> None:
    judge = ("--judge=echo:A", "--extract-with=judge")
    assert repository.run(*judge, "--run=first", "--limit=6", benchmark=PAIRS)[0] == 0
    code, output = repository.run(*judge, "--run=first", "--extraction=official", benchmark=PAIRS)
    assert code == 4
    assert "cannot go on with --extraction=official: by it other answers would be left to the judge" in output


def test_options_are_read_by_the_judge_where_rules_find_none(repository: Repository) -> None:
    said = SAID[PAIRS] | dict.fromkeys(SAID[PAIRS], "Hm.") | {"1/1": "A"}
    (repository.path / "said.json").write_text(json.dumps({PAIRS: said}))
    judge = ("--judge=echo:A", "--extract-with=judge")
    code, output = repository.run(*judge, "--run=first", "-k", "1/1 or 1/2 or 2/1", benchmark=PAIRS)
    assert code == 0, output
    results = repository.results("first")
    assert results["1/1"]["judgement"] is None
    assert results["1/2"]["judgement"]["task"] == "options"
    assert results["1/2"]["score"]["extracted"] == ["A"]
    assert "extract:judge" in repository.measures("first")["individual_accuracy"]["signature"]


BOTH = """
class Both(Candidate):
    title = "both"

    def generate(self, prompts):
        return [Answer("<result>1</result>", usage={"input": 7 if p.images else 100}) for p in prompts]


class Nameless(Both):
    title = "nameless"

    def fingerprint(self):
        return None


"""


@pytest.mark.parametrize(
    ("model", "judge"),
    [
        ("both", "both"),
        ("candidate", "nameless"),
        pytest.param("candidate", "both", marks=pytest.mark.slow),
        pytest.param("nameless", "nameless", marks=pytest.mark.slow),
    ],
)
def test_what_a_killed_session_used_counts_apart_for_model_and_judge(
    repository: Repository, model: str, judge: str
) -> None:
    repository.conftest(BOTH)
    command = (f"--judge={judge}", "--run=first")
    assert repository.run(*command, "--limit=12", model=model)[0] == 0
    told = ("asked", "reused", "judge_asked")
    used, before = ("usage", "judge_usage"), repository.about("first")
    assert all(before[each] for each in used)
    # As run.json is when a session is killed: of what it asked, the stored answers alone tell.
    (session,) = before["sessions"]
    kept = {name: session[name] for name in ("session", "started", "workers", "options")}
    without = {name: value for name, value in before.items() if name not in (*used, "finished")}
    run_folder.write_json(
        repository.path / "reports/first/run.json",
        {**without, "sessions": [{**kept, "asked": 0, "reused": 0}]},
    )
    assert repository.run(*command, "--limit=12", model=model)[0] == 0
    after = repository.about("first")
    assert [after[each] for each in used] == [before[each] for each in used]
    assert [after["sessions"][0][each] for each in told] == [session[each] for each in told]
    # And what is known to have been used stays, whatever becomes of the sessions that follow.
    assert repository.run("--run=first", "--limit=4", model=model, benchmark=PAIRS)[0] == 0
    assert repository.about("first")["judge_usage"] == before["judge_usage"]


def test_a_judge_that_was_asked_nothing_leaves_no_empty_folders(repository: Repository) -> None:
    repository.conftest(BOTH)
    assert repository.run("--judge=nameless", "--run=first", "--limit=4", benchmark=PAIRS)[0] == 0
    folders = [path for path in (repository.path / "reports/first").iterdir() if path.is_dir()]
    # The log of the model, and none of the judge.
    assert [path.name for path in folders for _ in path.iterdir()] == ["answers"]


def await_requests(server: Server, count: int, session: subprocess.Popen[str]) -> None:
    while len(server.requests) < count and session.poll() is None:
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
@pytest.mark.parametrize("after", [1, 17, 40])
def test_a_run_that_is_killed_and_goes_on_asks_the_judge_nothing_twice(
    repository: Repository, spread: tuple[str, ...], after: int
) -> None:
    def script(number: int, request: Request) -> Reply:
        reply = scripted(number, request)
        reply.delay = 0.02
        return reply

    with Server(script) as server:
        judge = repository.judge(server.url, concurrency=3)
        code, output = repository.run(judge, "--run=undisturbed")
        assert code == 0, output
        undisturbed = prompts(server)
        server.requests.clear()
        session = repository.start(judge, "--run=killed", "--fresh", *spread)
        await_requests(server, after, session)
        os.killpg(session.pid, signal.SIGKILL)
        session.communicate()
        before = len(server.requests)
        code, output = repository.run(judge, "--run=killed", *spread)
        assert code == 0, output
    twice = prompts(server) - undisturbed
    assert twice.total() <= 3 * (2 if spread else 1), "no more than was in flight"
    assert not undisturbed - prompts(server)
    assert before < len(server.requests)
    check_open(repository.scores("killed"))


@pytest.mark.slow
@pytest.mark.parametrize("poison", ["46", "45 53"])
def test_a_prompt_that_kills_the_judge_is_found_by_name(
    repository: Repository, poison: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge in this process, which dies with it: alone means alone of the candidate's questions, too."""
    repository.conftest("""
import signal

class Judge(Candidate):
    name = "judging"
    title = "judge"

    def generate(self, prompts):
        time.sleep(0.05)
        if {p.item for p in prompts} & set(os.environ.get("POISON", "").split()):
            os.kill(os.getpid(), signal.SIGKILL)
        return [Answer("<result>1</result>") for _ in prompts]

""")
    monkeypatch.setenv("POISON", poison)
    code, output = repository.run("--judge=judging", "--run=first", "-n2")
    assert code == 1, output
    results = repository.results("first")
    assert len(results) == 92
    errors = {id: r["score"]["why"] for id, r in results.items() if r["score"]["outcome"] == "error"}
    assert set(errors) == set(poison.split()), output
    assert all("the worker died twice on this question" in why for why in errors.values())
    monkeypatch.setenv("POISON", "")
    code, output = repository.run("--judge=judging", "--run=first", "-n2")
    assert code == 0, output
    assert repository.asked.total() <= 92 + 8 * 2 * 4, "what was in flight at each death"
