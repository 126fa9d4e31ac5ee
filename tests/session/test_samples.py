"""`--samples` with `--combine`: votes in whole runs, recorded runs combined, gates and comparisons."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import medvqa
from medvqa.benchmarks import pytest_medvqa_benchmarks as shipped
from medvqa.cli import main
from medvqa.items import UsageError
from medvqa.protocols.voting import ballot, by_question
from medvqa.records import run_folder
from support import processes
from support.pages import Page
from support.servers import Reply, Request, Server, completion
from support.sessions import SPREAD_SLOWLY, run, text, written

SHARED = Path(__file__).parents[3] / "shared"
REFERENCE = SHARED / "reference"
needs_shared = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")
PAIRS = "phantom-mediconfusion"
TEST = f"""
import pytest

@pytest.mark.vqa("{PAIRS}")
def test_pairs(item, evaluate):
    evaluate(item)
"""
CONFIG = """
backend = "openai"
argument = "warm"
[options]
base_url = "{url}"
temperature = 0.7
concurrency = 2
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_pairs=TEST)
    (pytester.path / "models").mkdir()
    return pytester


def by_seed(letters: str, delay: float = 0) -> Server:
    """A server that answers sample n, by its seed, with the n-th letter; ? is no option."""

    def script(number: int, request: Request) -> Reply:
        letter = letters[request.body["seed"] - 1]
        return Reply(completion("Hm." if letter == "?" else letter), delay=delay)

    return Server(script)


def configure(suite: pytest.Pytester, server: Server, name: str = "warm") -> str:
    (suite.path / "models" / f"{name}.toml").write_text(CONFIG.format(url=server.url))
    return f"--model={name}"


def measured(suite: pytest.Pytester, name: str) -> dict[str, Any]:
    measures = written(suite.path / "reports" / name)["measures"]
    return {measure["name"]: measure for measure in measures if not measure["slice"]}


def medvqa_says(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main(list(map(str, words)))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


# --- votes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_the_majority_of_five_samples_of_a_server_counts(suite: pytest.Pytester, spread: tuple[str, ...]) -> None:
    """A, B, A, A, B: every vote is A, as of a model that sees no image: set 0, individual 50, confusion 100 %."""
    with by_seed("ABAAB") as server:
        result = run(suite, configure(suite, server), "--samples=5", "--combine=vote", "--run=five", *spread)
    assert result.ret == 0, text(result)
    assert len(server.requests) == 5 * 72
    assert Counter(request.body["seed"] for request in server.requests) == dict.fromkeys(range(1, 6), 72)
    five = measured(suite, "five")
    assert (five["set_accuracy"]["count"], five["set_accuracy"]["n"]) == (0, 36)
    assert (five["individual_accuracy"]["count"], five["individual_accuracy"]["n"]) == (36, 72)
    assert (five["confusion"]["count"], five["confusion"]["n"]) == (36, 36)
    assert "|combine:vote|" in five["confusion"]["signature"]
    assert "|repeat:5|" in five["confusion"]["signature"]
    made = suite.path / "reports" / "five"
    about = json.loads((made / "run.json").read_text())
    assert (about["repeat"], about["protocol"]) == (5, {"combine": "vote"})
    line = "72 votes on 72 questions: 0 ties and 0 without a valid answer (both are invalid); 0 of 360 answers did not "
    name = f"{PAIRS} (vote of 5)"
    page = Page((made / "index.html").read_text())
    assert f"! {PAIRS}: {line}" in text(result)
    assert f"{name}  set_accuracy" in text(result)
    assert line in page.told
    assert "majority vote of 5 answers" in page.told
    assert line.replace("(", r"\(").replace(")", r"\)") in (made / "summary.md").read_text()
    assert written(made)["votes"] == {
        PAIRS: {"questions": 72, "ties": 0, "without": 0, "answers": 360, "silent": {}},
    }
    # The raw answers stay, in results.jsonl and on the page; their shares of the score are those of the votes.
    assert len(run_folder.read(made).results) == 360
    rows = page.results
    assert len(rows) == 360
    assert sum(row["terms"][0] for row in rows) == pytest.approx(36)
    assert any("A 3, B 2 of 5 votes" in why for why in (row["row"]["why"] for row in rows))


def test_ties_and_answers_without_an_option_are_invalid_and_counted(suite: pytest.Pytester) -> None:
    with by_seed("AB??") as server:
        result = run(suite, configure(suite, server), "--samples=4", "--combine=vote", "--run=four")
    assert result.ret == 0, text(result)
    four = measured(suite, "four")
    assert (four["invalid_rate"]["count"], four["unparsed_rate"]["count"]) == (72, 72)
    assert four["individual_accuracy"]["count"] == 0
    assert four["confusion"]["value"] is None
    silent = {"unparsed": 144}
    votes = written(suite.path / "reports" / "four")["votes"][PAIRS]
    assert votes == {"questions": 72, "ties": 72, "without": 0, "answers": 288, "silent": silent}
    assert (
        "72 ties and 0 without a valid answer (both are invalid); 144 of 288 answers did not vote (144 unparsed)"
        in text(result)
    )


@pytest.mark.parametrize("spread", [(), pytest.param(("-n2",), marks=pytest.mark.slow)])
def test_a_killed_vote_goes_on_without_asking_a_sample_twice(suite: pytest.Pytester, spread: tuple[str, ...]) -> None:
    with by_seed("ABBAB", delay=0.02) as server:
        model = configure(suite, server)
        words = [model, "--samples=5", "--combine=vote", "--run=killed", "-p", "no:randomly", *spread]
        session = processes.Popen(
            [sys.executable, "-m", "pytest", *words],
            cwd=suite.path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        results = suite.path / "reports" / "killed" / "results.jsonl"
        end = time.monotonic() + 60
        while not (results.exists() and results.read_bytes().count(b"\n") > 20):
            assert time.monotonic() < end
            time.sleep(0.02)
        session.send_signal(signal.SIGKILL)
        session.wait()
        time.sleep(0.3)
        asked = len(server.requests)
        assert asked < 360
        assert run(suite, *words[:4], *spread).ret == 0
        # Only calls in flight when it was killed are sent again, whose answers nobody got.
        sent = Counter(json.dumps(request.body, sort_keys=True) for request in server.requests)
        assert len(sent) == 360
        assert sum(sent.values()) - 360 <= 64
    killed = measured(suite, "killed")
    assert (killed["individual_accuracy"]["count"], killed["confusion"]["count"]) == (36, 36)
    stored = run_folder.read(suite.path / "reports" / "killed").results
    for samples in by_question(stored).values():
        assert dict(ballot(samples).votes) == {("B",): 3, ("A",): 2}


def test_more_samples_reuse_the_stored_ones_and_fewer_get_the_first(suite: pytest.Pytester) -> None:
    with by_seed("ABBAA") as server:
        model = configure(suite, server)
        # A server on this machine may serve anything: its answers are shared by runs only with a revision.
        config = suite.path / "models" / "warm.toml"
        config.write_text(config.read_text() + 'revision = "1"\n')
        for number, votes in ((5, {"A": 3, "B": 2}), (3, {"A": 1, "B": 2})):
            words = (f"--samples={number}", "--combine=vote", f"--run=of{number}", "-k", "cardiac")
            words = (*words, *([] if number == 5 else ["--answers=of5"]))
            assert run(suite, model, *words).ret == 0
            for samples in by_question(run_folder.read(suite.path / "reports" / f"of{number}").results).values():
                assert {choice: count for (choice,), count in ballot(samples).votes.items()} == votes
    sent = Counter(json.dumps(request.body, sort_keys=True) for request in server.requests)
    assert set(sent.values()) == {1}


def test_free_answers_are_not_voted_on(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", "--model=random", "--benchmark=phantom-medlesionvqa", "--samples=2", "--combine=vote", "--run=no")
    code, output = medvqa_says(capsys, *words)
    assert code == 4
    assert "--combine=vote: answers to " in output
    assert "of phantom-medlesionvqa choose no option that could be voted on" in " ".join(output.split())
    assert not Path("reports/no").exists()
    code, output = medvqa_says(capsys, *words, "--select=kind_single_choice or single_choice or multiple_response")
    assert code == 0, output
    assert "votes on " in output


# --- gate and comparison ------------------------------------------------------------------------------------


def test_votes_are_gated_and_compared_as_votes(suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    words = (f"--benchmark={PAIRS}", "--samples=3")
    for model, combine, name in (("random", "vote", "one"), ("random:7", "vote", "two"), ("random", "mean", "mean")):
        assert main(["run", f"--model={model}", *words, f"--combine={combine}", f"--run={name}"]) == 0
    capsys.readouterr()
    reports = suite.path / "reports"
    code, output = medvqa_says(capsys, "gate", reports / "two", f"--baseline={reports / 'one'}", "--margin=50")
    assert code in (0, 10, 11), output
    (entry,) = json.loads((reports / "two" / "gate.json").read_text("utf-8"))["verdict"]["entries"]
    assert entry["units"] == 36, "three answers are one vote"
    # A baseline file without responses keeps the options that votes need.
    assert main(["baseline", str(reports / "one"), "-o", "one.medvqa", "--no-responses"]) == 0
    code, again = medvqa_says(capsys, "gate", reports / "two", "--baseline=one.medvqa", "--margin=50")
    assert code in (0, 10, 11), again
    figures = [re.findall(r"[-+]\d+\.\d+", each) for each in (output, again)]
    assert figures[0] == figures[1] != []
    words = (f"--benchmark={PAIRS}", "--samples=3", "--combine=vote", "--baseline=one.medvqa", "--run=same")
    assert main(["run", "--model=random", *words]) in (0, 11)
    assert "gate: " in capsys.readouterr().out
    code, output = medvqa_says(capsys, "compare", reports / "one", reports / "two")
    assert code == 0
    sides = [measured(suite, name)["individual_accuracy"]["value"] for name in ("one", "two")]
    assert all(f"{100 * value:.2f}" in output for value in sides)
    # A vote and a mean are compared if this is their one difference, and not gated.
    code, output = medvqa_says(capsys, "compare", reports / "mean", reports / "one")
    assert code == 0
    assert "the answers: vote of 3 answers in one, mean of 3 answers in mean" in output
    code, output = medvqa_says(capsys, "gate", reports / "one", f"--baseline={reports / 'mean'}")
    assert code == 4
    assert f"{PAIRS}: the way to combine answers is vote in this run and mean in mean" in output
    assert medvqa.load(reports / "one").measures is not None


def test_a_vote_of_other_samples_is_another_measure(suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Means of two and of three answers estimate the same, votes do not."""
    for number in (2, 3):
        words = (f"--benchmark={PAIRS}", f"--samples={number}", "--combine=vote", f"--run=vote{number}")
        assert main(["run", "--model=random", "--select=cardiac", *words]) == 0
    capsys.readouterr()
    code, output = medvqa_says(capsys, "gate", "reports/vote3", "--baseline=reports/vote2")
    assert code == 4
    assert f"{PAIRS}: repeat is 3 in this run and 2 in vote2" in output
    code, output = medvqa_says(capsys, "compare", "reports/vote2", "reports/vote3")
    assert code == 0
    assert "the effect of vote of 3 answers instead of vote of 2 answers" in output


def test_an_error_among_the_samples_blocks_the_gate(suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """A vote of the other samples has a score; the run still lacks an answer."""

    def script(number: int, request: Request) -> Reply:
        return Reply({"error": {"message": "no"}}, 400) if request.body["seed"] == 2 else Reply(completion("A"))

    with by_seed("AAA") as server:
        assert (
            run(suite, configure(suite, server), "--samples=3", "--combine=vote", "--run=whole", "-k", "cardiac").ret
            == 0
        )
    with Server(script) as server:
        words = ("--samples=3", "--combine=vote", "--run=torn", "-k", "cardiac", "--max-errors=0")
        assert run(suite, configure(suite, server), *words).ret == 1
    torn = measured(suite, "torn")
    assert torn["individual_accuracy"]["count"] == measured(suite, "whole")["individual_accuracy"]["count"]
    code, output = medvqa_says(capsys, "gate", "reports/torn", "--baseline=reports/whole")
    assert code == 1
    assert "blocked: " in output
    code, output = medvqa_says(capsys, "gate", "reports/whole", "--baseline=reports/torn")
    assert code == 4
    assert "of its questions of" in output
    assert "ended in error" in output


def test_python_takes_the_options(suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"model": "random", "benchmark": PAIRS, "samples": 4, "limit": 20}
    voted = medvqa.evaluate(**options, combine="vote", run="voted")
    assert json.loads((voted.folder / "run.json").read_text())["protocol"] == {"combine": "vote"}
    with pytest.raises(UsageError, match=r"--combine=vote: it combines several answers; add --samples=N"):
        medvqa.evaluate(model="random", benchmark=PAIRS, combine="vote")
    # The earlier name of the option.
    assert medvqa.evaluate(model="random", benchmark=PAIRS, repeat=2, limit=20, run="old").finished
    assert json.loads(Path("reports/old/run.json").read_text())["repeat"] == 2
    capsys.readouterr()


@pytest.mark.slow
def test_a_checkpoint_that_samples_votes(suite: pytest.Pytester) -> None:
    checkpoint = Path(medvqa.__file__).parents[2] / "models" / "phantom-vlm"
    (suite.path / "models" / "drawing.toml").write_text(
        f'backend = "hf"\nargument = "{checkpoint}"\n[options]\ndevice = "cpu"\n'
        "generation = {do_sample = true, temperature = 2.0}\n"
    )
    result = run(suite, "--model=drawing", "--samples=3", "--combine=vote", "-k", "cardiac", "--run=drawn")
    assert result.ret == 0, text(result)
    results = run_folder.read(suite.path / "reports" / "drawn").results
    assert Counter(len(samples) for samples in by_question(results).values()) == {3: 8}
    votes = written(suite.path / "reports" / "drawn")["votes"][PAIRS]
    assert (votes["questions"], votes["answers"]) == (8, 24)


# --- recorded runs ------------------------------------------------------------------------------------------


@needs_shared
def test_two_recorded_runs_of_gpt_4o_vote_and_spread(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """At temperature 0 the two runs have 34 and 30 pairs, 195 and 189 questions, 17 and 20 invalid answers."""
    for name, file in (("first", "gpt4o_mc_predictions_run1.json"), ("second", "gpt4o_mc_predictions.json")):
        words = [f"--model=replay:{REFERENCE / 'mediconfusion' / file}", f"--data={REFERENCE}", f"--run={name}"]
        assert main(["run", *words, "--benchmark=mediconfusion", "--extraction=official"]) == 0
    capsys.readouterr()
    code, output = medvqa_says(capsys, "combine", "reports/first", "reports/second", "--combine=vote", "-o", "both")
    assert code == 0, output
    assert "these answers are recordings: they do not tell whether one model gave them" in output
    both = measured(pytester, "both")
    # By hand, from the two files: 26 pairs and 189 questions where every valid vote agrees on the right letter.
    results = run_folder.read(pytester.path / "reports" / "both").results
    right = {
        key.item for key, samples in by_question(results).items() if ballot(samples).winner == samples[0].item.answers
    }
    pairs = Counter(item.partition("/")[0] for item in right)
    assert both["individual_accuracy"]["count"] == len(right) == 189
    assert both["set_accuracy"]["count"] == sum(number == 2 for number in pairs.values()) == 26
    assert both["confusion"]["n"] == 151
    assert written(pytester.path / "reports" / "both")["votes"]["mediconfusion"] == {
        "questions": 352,
        "ties": 16,
        "without": 9,
        "answers": 704,
        "silent": {"unparsed": 37},
    }
    (spread,) = (s for s in written(pytester.path / "reports" / "both")["spread"] if s["name"] == "set_accuracy")
    assert spread["values"] == {"": [34 / 176, 30 / 176]}
    assert spread["sd_over_samples"] == pytest.approx(4 / 176 / 2**0.5)
    assert spread["components"]["items"] == 176
    assert "set_accuracy of single answers: twice as many pairs would narrow the interval by 29 %, " in output
    code, output = medvqa_says(capsys, "combine", "reports/both", "--samples=1,2")
    assert code == 0
    rows = [line.split() for line in output.splitlines() if re.match(r"\s*[12] +\d", line)]
    rows = [line.split() for line in output.splitlines() if re.match(r"\s*[12] +\d", line)]
    assert [(row[0], row[1], row[-2:]) for row in rows] == [
        ("1", "19.32", ["0", "17"]),
        ("2", "14.77", ["16", "9"]),
    ]
    about = json.loads((pytester.path / "reports" / "both" / "run.json").read_text())
    assert [(part["name"], part["samples"]) for part in about["merged"]] == [
        ("first", {"0": 1}),
        ("second", {"0": 2}),
    ]
    assert main(["compare", "reports/both", "reports/both"]) == 0
    assert main(["report", "reports/both"]) == 0
    capsys.readouterr()


@pytest.fixture
def recorded(suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> pytest.Pytester:
    """Runs `a` and `c` of one model, with three answers to each question."""
    for letters, name in (("AAB", "a"), ("BBB", "c")):
        with by_seed(letters) as server:
            model = configure(suite, server, name)
            assert run(suite, model, "--samples=3", f"--run={name}", "-k", "vascular or cardiac").ret == 0
    capsys.readouterr()
    return suite


def test_runs_of_several_models_vote_and_say_so(recorded: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Three answers of one model are A, A, B and three of another B: B wins by 4 to 2."""
    config = recorded.path / "models" / "c.toml"
    with by_seed("BBB") as server:
        config.write_text(CONFIG.format(url=server.url).replace('"warm"', '"cold"'))
        assert run(recorded, "--model=c", "--samples=3", "--run=d", "-k", "vascular or cardiac").ret == 0
    code, output = medvqa_says(capsys, "combine", "reports/a", "reports/d", "-o", "models")
    assert code == 0, output
    assert "! these answers are those of 2 models: openai:cold, openai:warm" in output
    assert f"{PAIRS} (vote of 6 by 2 models)" in output
    found = measured(recorded, "models")
    assert "|models:openai\\:warm+openai\\:cold|" in found["confusion"]["signature"]
    assert found["confusion"]["count"] == found["confusion"]["n"] > 0
    loaded = medvqa.load(recorded.path / "reports" / "models")
    assert "vote of 6 by 2 models" in repr(loaded)
    code, output = medvqa_says(capsys, "combine", "reports/a", "reports/d", "--combine=mean")
    assert code == 4
    assert (
        "these runs cannot be combined: the model's name is 'openai:warm' in a and 'openai:cold' in d; only " in output
    )


def test_what_cannot_be_combined_is_refused(recorded: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """A server with a revision counts as one model: the second run reuses the answers of the first."""
    config = recorded.path / "models" / "a.toml"
    with by_seed("ABB") as server:
        config.write_text(CONFIG.format(url=server.url) + 'revision = "1"\n')
        for name, more in (("e", ()), ("f", ("--answers=e",)), ("g", ("--fresh",))):
            words = ("--model=a", "--samples=2", f"--run={name}", "-k", "cardiac", *more)
            assert run(recorded, *words).ret == 0
        assert len(server.requests) == 2 * 2 * 8
        capsys.readouterr()
        for words, line in (
            (("reports/a", "reports/a"), "these runs cannot be combined: a is named twice"),
            (("reports/a", "--samples=4"), "--samples=4: there are 3 answers to each question"),
            (
                ("reports/a", "--samples=x"),
                "--samples=x: whole numbers from 1 on are expected, such as --samples=1,10,100",
            ),
            (("reports/a", "--combine=best"), "no way to combine 'best'; there are: mean, vote"),
            (("reports/a", "-o", "c"), "c exists: name another with -o"),
            (("reports/none",), "reports/none is no run folder"),
            (
                ("reports/a", "reports/e", "--combine=vote"),
                "of the questions of a are not in e; medvqa compare --json=FILE names",
            ),
            (
                ("reports/e", "reports/f"),
                "these runs cannot be combined: 16 answers of f are stored answers that e has, too, so they are no "
                "further samples. Ask in a run without --answers, or for more with --samples=N",
            ),
        ):
            code, output = medvqa_says(capsys, "combine", *words)
            assert code == 4, words
            assert line in output
        code, output = medvqa_says(capsys, "combine", "reports/e", "reports/g", "-o", "pooled")
        assert code == 0, output
        assert "these runs gave equal answers to every question: with one seed, a model's samples are copies" in output
        words = ("--model=a", "--samples=4", "--combine=vote", "--run=pooled", "-k", "cardiac")
        result = run(recorded, *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "run 'pooled' cannot go on: its answers were combined from other runs (medvqa combine)" in text(result)


def test_a_run_with_several_prompts_is_replayed_prompt_by_prompt(
    suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """One answer must not stand for several prompts."""
    (benchmark,) = (benchmark for benchmark in shipped() if benchmark.name == PAIRS)
    named = ",".join(list(benchmark.prompts)[1:3])
    words = (f"--benchmark={PAIRS}", "--samples=2", f"--prompt={named}", "--select=cardiac")
    assert main(["run", "--model=random", *words, "--run=asked"]) == 0
    assert main(["run", "--model=replay:reports/asked/results.jsonl", *words, "--run=again"]) == 0
    capsys.readouterr()
    asked, again = (
        {result.key: result.answer and result.answer.text for result in run_folder.read(Path("reports", name)).results}
        for name in ("asked", "again")
    )
    assert asked == again
    assert len({key.variant for key in asked}) == 2
    code, _ = medvqa_says(
        capsys,
        *("run", "--model=replay:reports/asked/results.jsonl", *words[:2], words[3], "--run=other", "--max-errors=0"),
    )
    assert code == 1
    whys = {result.score.why for result in run_folder.read(Path("reports/other")).results}
    assert any("without a variant; variants recorded: " in why for why in whys)


@pytest.mark.parametrize(
    ("protocol", "part"),
    [
        (("--samples=3", "--combine=vote"), "sample1"),
        (("--samples=3", "--combine=vote"), "sample1 or sample2"),
        (("--rotate=2",), "r1"),
        (("--prompt=1,2",), "short"),
    ],
)
def test_a_part_of_the_answers_does_not_pass_for_the_protocol(
    suite: pytest.Pytester, capsys: pytest.CaptureFixture[str], protocol: tuple[str, ...], part: str
) -> None:
    words = ("run", "--model=random", f"--benchmark={PAIRS}", *protocol)
    assert main([*words, "--run=whole"]) == 0
    assert main([*words, f"--select={part}", "--run=part"]) == 0
    shown = "".join(capsys.readouterr())
    assert "72 of 72 questions lack some of their answers" in shown
    assert f'selected 72 of 72, of some questions a part of the answers, by --select="{part}"' in shown
    assert "set_accuracy" in measured(suite, "whole")
    assert measured(suite, "part") == {}
    for new, baseline in (("part", "whole"), ("whole", "part")):
        code, output = medvqa_says(capsys, "gate", f"reports/{new}", f"--baseline=reports/{baseline}", "--margin=90")
        assert code not in (0, 10), output
        assert "PASS" not in output
