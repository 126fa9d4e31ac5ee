"""`medvqa rescore`: what the model said is scored again, and the model is asked nothing."""

import json
import shutil
from pathlib import Path

import pytest

from medvqa.cli import main
from support import judges
from support.judged import ASKED, OPEN, PAIRS, Repository, check_open, prompts, repository, scripted, text_of
from support.servers import Reply, Request, Server, completion, error

__all__ = ["repository"]  # a fixture

WITHHELD = """
import dataclasses
from medvqa.benchmarks import phantom
from medvqa.scoring import unscored

def pytest_medvqa_benchmarks():
    # As MedLesionVQA itself: without a rule for open answers.
    return [dataclasses.replace(phantom.BENCHMARKS[2], name="open", score=score)]

def score(item, answer):
    return phantom.BENCHMARKS[2].score(item, answer) if item.options else unscored(item, answer)
"""


@pytest.mark.slow
def test_open_answers_wait_for_a_judge_who_comes_later(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.conftest(WITHHELD)
    said = json.loads((repository.path / "said.json").read_text())
    (repository.path / "said.json").write_text(json.dumps({"open": said[OPEN]}))
    (repository.path / "test_drawn.py").write_text(
        (repository.path / "test_drawn.py").read_text().replace('"phantom"', '"open"')
    )
    code, output = repository.run("--run=first", benchmark="open")
    assert code == 0, output
    assert "! open: 56 of 92 answers are stored and unscored: 56 wait for a judge (medvqa rescore " in output
    assert "the model is not asked again)." in output
    asked = repository.asked.total()
    lines = (repository.path / "reports/first/results.jsonl").read_text().count("\n")
    with Server(scripted) as server:
        assert repository.rescore("first", repository.judge(server.url)) == 0
        assert len(server.requests) == ASKED
        check_open(repository.scores("first"))
        shown = capsys.readouterr().out
        assert "mean_score" in shown
        assert f"! open: {ASKED} of 92 answers went to the judge 'openai:judge'." in shown
        assert f"Judging used: {1000 * ASKED:,} tokens input" in shown
        # What did not change is not written again.
        assert (repository.path / "reports/first/results.jsonl").read_text().count("\n") == lines + 56
        about = repository.about("first")
        assert about["judge"]["name"] == "openai:judge"
        assert about["benchmarks"]["open"]["signature"]["judge"].startswith("openai:judge@")
        assert about["sessions"][-1]["judge_asked"] == ASKED
        assert about["judge_usage"] == {"input": 1000 * ASKED, "output": 10 * ASKED}
        assert "rescoring" not in about
        assert repository.measures("first")["open_score"]["value"] == pytest.approx((56 - 5.5) / 56)
        # All replies are there: a second time asks nobody anything, and a run that goes on under this judge neither.
        assert repository.rescore("first", "--judge=judge") == 0
        assert repository.run("--run=first", "--judge=judge", benchmark="open")[0] == 0
        assert len(server.requests) == ASKED
        assert repository.rescore("first", "--judge=judge", "--fresh") == 0
        assert len(server.requests) == 2 * ASKED
    assert repository.asked.total() == asked


def test_another_gap_asks_nothing(repository: Repository) -> None:
    with Server(scripted) as server:
        judge = repository.judge(server.url)
        assert repository.run(judge, "--technique=ff", "--run=first", "--limit=8", benchmark=PAIRS)[0] == 0
        before, asked = repository.scores("first"), len(server.requests)
        assert repository.rescore("first", judge, "--ff-gap=7.5") == 0
        assert {outcome for outcome, _ in repository.scores("first").values()} == {"unparsed"}
        assert "ff_gap:7.5" in repository.measures("first")["set_accuracy"]["signature"]
        assert repository.rescore("first", judge) == 0
        assert repository.scores("first") == before
        assert len(server.requests) == asked


def test_a_judge_who_falls_ill_leaves_the_run_as_it_was(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(number: int, request: Request) -> Reply:
        return error(500, "ill") if number >= 20 else scripted(number, request)

    assert repository.run("--judge=echo:<result>1</result>", "--run=first")[0] == 0
    folder = repository.path / "reports/first"
    before = {name: (folder / name).read_bytes() for name in ("results.jsonl", "run.json", "metrics.json")}
    with Server(script) as server:
        judge = repository.judge(server.url)
        assert repository.rescore("first", judge, "--max-errors=3") == 1
        shown = capsys.readouterr()
        assert "3 errors in a row, the last: judge 'openai:judge' did not answer" in shown.err
        assert "reports/first is as it was." in shown.out
        assert {name: (folder / name).read_bytes() for name in before} == before
        assert len(server.requests) >= 23
        answered = {text_of(request) for request in server.requests[:20]}
        server.script, server.requests[:] = scripted, []
        assert repository.rescore("first", judge) == 0
        check_open(repository.scores("first"))
        assert len(server.requests) == ASKED - 20
        assert answered - prompts(server).keys(), "what was answered is not asked again"


def test_a_judge_who_cannot_be_reached_takes_no_score_away(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.run("--judge=echo:<result>1</result>", "--run=first")[0] == 0
    before = repository.scores("first")
    with Server(lambda number, request: error(500, "ill")) as server:
        assert repository.rescore("first", repository.judge(server.url), "--max-errors=0") == 1
    assert "results that have a score got no answer of the judge, the first: judge 'openai:judge' did not answer" in (
        capsys.readouterr().out
    )
    assert repository.scores("first") == before


def test_an_error_of_a_judge_of_private_answers_quotes_no_question(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.conftest(WITHHELD.replace("[2], name", "[2], public=False, name"))
    said = json.loads((repository.path / "said.json").read_text())
    (repository.path / "said.json").write_text(json.dumps({"open": said[OPEN]}))
    test = repository.path / "test_drawn.py"
    test.write_text(test.read_text().replace('"phantom"', '"open"'))
    assert repository.run("--run=first", benchmark="open")[0] == 0
    stored = (repository.path / "reports/first/results.jsonl").read_text().splitlines()
    questions = {json.loads(line)["item"]["question"] for line in stored}

    def quoting(number: int, request: Request) -> Reply:
        return error(400, f"cannot judge: {next(text for text in questions if text in text_of(request))}")

    with Server(quoting) as server:
        assert repository.rescore("first", repository.judge(server.url), "--max-errors=3") == 1
        assert len(server.requests) >= 3
    shown = "".join(capsys.readouterr())
    assert "cannot judge: " in shown
    assert not [question for question in questions if question in shown]


def test_what_needed_no_judge_keeps_its_score_by_rule(repository: Repository) -> None:
    """Empty answers in free form are `unparsed`, and no judge was asked; without one they are so still."""
    with Server(scripted) as server:
        judge = repository.judge(server.url)
        said = json.loads((repository.path / "said.json").read_text())
        for name in list(said[PAIRS])[:5]:
            said[PAIRS][name] = ""
        (repository.path / "said.json").write_text(json.dumps(said))
        assert repository.run(judge, "--technique=ff", "--run=first", benchmark=PAIRS)[0] == 0
    before = repository.scores("first")
    assert sum(outcome == "unparsed" for outcome, _ in before.values()) >= 5
    assert repository.rescore("first") == 0
    assert repository.scores("first") == before


def test_another_lead_needs_no_judge_where_its_replies_are_recorded(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(scripted) as server:
        judge = repository.judge(server.url)
        assert repository.run(judge, "--technique=ff", "--run=first", benchmark=PAIRS)[0] == 0
        before, asked = repository.scores("first"), len(server.requests)
        assert repository.rescore("first", "--ff-gap=9") == 0
        assert repository.scores("first") != before
        assert "ff_gap:9" in repository.measures("first")["set_accuracy"]["signature"]
        apart = repository.scores("first")
        assert repository.rescore("first", judge, "--ff-gap=9") == 0
        assert repository.scores("first") == apart, "as the judge itself has it by that lead"
        assert repository.rescore("first", "--ff-gap=3") == 0
        assert repository.scores("first") == before
        assert len(server.requests) == asked
    capsys.readouterr()
    assert repository.rescore("first", "--ff-gap=10") == 4
    assert "--ff-gap=10: a lead on the scale from 1 to 10 is 0 to 9 points" in capsys.readouterr().err


@pytest.mark.slow
def test_errors_of_a_judge_are_made_good(repository: Repository) -> None:
    with Server(lambda number, request: Reply(completion("Hm."))) as server:
        judge = repository.judge(server.url)
        assert repository.run(judge, "--run=first", "--limit=6")[0] == 1
        assert repository.rescore("first", judge) == 1, "they are errors still"
        server.script = lambda number, request: Reply(completion(judges.reply(text_of(request))))
        assert repository.rescore("first", judge) == 0
    assert "error" not in {outcome for outcome, _ in repository.scores("first").values()}


def test_a_run_that_is_unfinished_is_so_when_it_was_scored_again(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.run("--run=first", "--limit=8", benchmark=PAIRS)[0] == 0
    assert repository.rescore("first") == 0
    results = repository.path / "reports/first/results.jsonl"
    results.write_text("".join(results.read_text().splitlines(keepends=True)[1:]))
    assert repository.rescore("first") == 1
    assert "unfinished" in capsys.readouterr().out
    assert main(["report", str(repository.path / "reports/first")]) == 1


def test_without_a_judge_rules_score_anew(repository: Repository) -> None:
    said = json.loads((repository.path / "said.json").read_text())
    (repository.path / "said.json").write_text(json.dumps({PAIRS: dict.fromkeys(said[PAIRS], "It is A (left).")}))
    assert repository.run("--run=first", "--limit=8", benchmark=PAIRS)[0] == 0
    before = repository.scores("first")
    assert repository.rescore("first", "--extraction=official") == 0
    assert repository.about("first")["extraction"] == "official"
    official = repository.measures("first")["individual_accuracy"]
    assert "extraction:official" in official["signature"]
    assert repository.rescore("first", "--extraction=sound") == 0
    assert repository.scores("first") == before
    assert repository.asked.total() == 8


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["--judge=nobody"], "no model 'nobody'"),
        (["--rules-first"], "--rules-first says how a judge judges, and there is none: add --judge=MODEL"),
        (["--ff-gap=2"], "--ff-gap=2: no judge has compared answers of reports/first with their options; add --judge="),
        (["--judge=echo:1", "--max-cost=1"], "does not tell what its answers cost; give price_input"),
        (["--extraction=official"], "no published rule reads answers to phantom-medlesionvqa"),
    ],
)
def test_what_cannot_be_is_told(
    repository: Repository, capsys: pytest.CaptureFixture[str], typed: list[str], line: str
) -> None:
    assert repository.run("--run=first", "--limit=2")[0] == 0
    capsys.readouterr()
    assert repository.rescore("first", *typed) == 4
    assert line in capsys.readouterr().err


def test_what_is_no_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescore", str(tmp_path)]) == 4
    assert "is no run folder" in capsys.readouterr().err


def test_a_run_that_was_stopped_while_it_was_written_is_not_gone_on_with(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.run("--run=first", "--limit=2")[0] == 0
    path = repository.path / "reports/first/run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rescoring": True}))
    code, output = repository.run("--run=first", "--limit=2")
    assert code == 4
    assert "it was being scored again, and that was stopped: type medvqa rescore reports/first once more" in output
    assert repository.rescore("first") == 0
    assert repository.run("--run=first", "--limit=2")[0] == 0


@pytest.mark.slow
def test_a_judge_is_compared_with_itself_without_the_rubric(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run judged by Table 10, its copy judged by Figure 3(b), and their agreement."""

    def strict(number: int, request: Request) -> Reply:
        """Without the rubric, half credit is none."""
        reply = judges.reply(text_of(request).replace("Correct answer:", "Reference answer:"))
        has_rubric = "Supplementary scoring rules" in text_of(request)
        return Reply(completion(reply if has_rubric else reply.replace("<result>0.5<", "<result>0.0<")))

    with Server(strict) as server:
        judge = repository.judge(server.url)
        assert repository.run(judge, "--run=rubric")[0] == 0
        shutil.copytree(repository.path / "reports/rubric", repository.path / "reports/plain")
        assert repository.rescore("plain", judge, "--judge-prompt=score:without-rubric") == 0
    capsys.readouterr()
    assert main(["agreement", "reports/rubric", "reports/plain", "--json=agreement.json"]) == 0
    assert "openai:judge (rubric) – openai:judge (plain)" in capsys.readouterr().out
    overall = json.loads((repository.path / "agreement.json").read_text())["agreements"][0]
    half = sum(value == 0.5 for _, value in repository.scores("rubric").values() if value is not None)
    assert overall["confusion"][1] == [half, 0, 0]
    assert half > 0
    assert overall["exact"]["value"] == pytest.approx(1 - half / overall["n"])
    assert overall["difference"]["value"] == pytest.approx(half / 2 / overall["n"])
    labels = [repository.about(run)["benchmarks"][OPEN]["signature"]["judge_prompts"] for run in ("rubric", "plain")]
    assert labels[0] != labels[1]


def test_a_prompt_that_ships_is_named_and_others_are_listed(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.run("--run=first")[0] == 0
    assert repository.rescore("first", "--judge=echo:1", "--judge-prompt=score:rubric") == 4
    message = capsys.readouterr().err
    assert "--judge-prompt=score:rubric: cannot be read: No such file or directory; " in message
    assert "the prompts that ship are score:without-rubric" in message
