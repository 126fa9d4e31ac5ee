"""What was run, what is missing, and what a verdict may say: the points of issue 13.

Each test fails today for the reason that its point names, and is marked so. The change that makes it pass removes the
mark.
"""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from medvqa.cli import main
from medvqa.report import writing as report
from support import pages
from support.repositories import Repository, await_results, kill_group
from support.servers import Reply, Request, Server, completion
from support.ward import TEST, WARD, folder, measure, medvqa, record, run, text, verdict

SHARED = Path(__file__).parents[3] / "shared/reference/mediconfusion"

BENCHMARK_TEST = """
@pytest.mark.vqa("{1}")
def test_{0}(item, evaluate):
    evaluate(item)
"""
ASKED = ("--model=scripted", "--benchmark=ward")
EVEN = " ".join(f"q{n:02}" for n in range(0, 60, 2))
HALF_OF_EVEN = " ".join(f"q{n:02}" for n in range(0, 60, 4))


def point(number: int, why: str) -> pytest.MarkDecorator:
    """A point of issue 13 that does not hold yet."""
    return pytest.mark.xfail(strict=True, reason=f"issue 13, point {number}: {why}")


@pytest.fixture(autouse=True)
def _no_own_data(outside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LMUData", raising=False)


@pytest.fixture
def ward(pytester: pytest.Pytester) -> pytest.Pytester:
    """A repository with two benchmarks of sixty questions and a model that is wrong where a test says so."""
    pytester.makeconftest(WARD)
    pytester.makepyfile(test_ward=TEST)
    pytester.makefile(".ini", pytest="[pytest]\n")
    return pytester


def drop_lines(path: Path, keep: int) -> None:
    """Cut a file behind its first `keep` lines."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:keep]))


# --- 1. A part is told from the whole ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "chosen", "how"),
    [
        (("-k", "q0"), 10, "-k q0"),
        (("-m", "lexicon(organ='liver')"), 30, "lexicon(organ='liver')"),
        (("--limit=12",), 12, "--limit"),
        (("test_ward.py::test_ward[question-1]",), 1, "test_ward.py::test_ward[question-1]"),
    ],
)
def test_a_selection_stands_in_the_record_and_beside_each_headline_number(
    ward: pytest.Pytester, arguments: tuple[str, ...], chosen: int, how: str
) -> None:
    done = run(ward, *ASKED, "--run=part", *arguments)
    assert how in json.dumps(record(ward, "part")["selection"])
    assert f"{chosen} of 60" in text(done)
    assert f"{chosen} of 60" in (folder(ward, "part") / "summary.md").read_text()
    assert f"{chosen} of 60" in pages.Page((folder(ward, "part") / "index.html").read_text()).told


def test_a_run_of_what_failed_has_no_headline_numbers(ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRONG", EVEN)
    assert " accuracy " in text(run(ward, *ASKED, "--run=whole"))
    done = run(ward, *ASKED, "--run=again", "--lf")
    assert "30 of 60" in text(done)
    assert " accuracy " not in text(done)
    assert "accuracy" not in (folder(ward, "again") / "summary.md").read_text()


def test_wrong_answers_that_are_asked_again_do_not_lift_a_run(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", EVEN)
    run(ward, *ASKED, "--run=same")
    monkeypatch.setenv("WRONG", HALF_OF_EVEN)
    done = run(ward, *ASKED, "--run=same", "--lf", "--fresh")
    assert measure(ward, "same", "accuracy")["value"] == 0.5 or done.ret == 4


@pytest.mark.parametrize("part", [("--lf",), ("-k", "q0")])
def test_answers_to_a_part_that_was_asked_anew_are_no_answers_of_another_run(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, part: tuple[str, ...]
) -> None:
    monkeypatch.setenv("WRONG", EVEN)
    run(ward, *ASKED, "--run=first")
    monkeypatch.setenv("WRONG", HALF_OF_EVEN)
    run(ward, *ASKED, "--run=second", *part, "--fresh")
    asked = len((ward.path / "asked").read_text().splitlines())
    run(ward, *ASKED, "--run=second", *part)
    run(ward, *ASKED, "--run=third", "--answers=second", "--answers=first")
    assert len((ward.path / "asked").read_text().splitlines()) == asked, "the second run goes on with its own answers"
    assert measure(ward, "third", "accuracy")["value"] == 0.5


def test_a_run_of_what_failed_is_no_baseline(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WRONG", EVEN)
    run(ward, *ASKED, "--run=whole")
    run(ward, *ASKED, "--run=again", "--lf")
    assert record(ward, "again", "metrics.json")["measures"] == []
    assert medvqa(ward, "baseline", str(folder(ward, "again")), "-o", str(ward.path / "x.medvqa")) == 4
    assert "chosen by an earlier outcome" in "".join(capsys.readouterr())
    code = medvqa(ward, "gate", str(folder(ward, "whole")), f"--baseline={folder(ward, 'again')}")
    assert code != 0


def test_a_selection_stands_in_metrics_json_beside_each_signature(ward: pytest.Pytester) -> None:
    run(ward, *ASKED, "--run=part", "-k", "q0")
    run(ward, *ASKED, "--run=part", "-k", "q1")
    assert measure(ward, "part", "accuracy")["selection"] == {"chosen": 20, "of": 60, "how": ["-k q0", "-k q1"]}
    run(ward, *ASKED, "--run=part")
    assert "selection" not in measure(ward, "part", "accuracy"), "the whole was selected in the end"


def test_a_benchmark_of_which_nothing_was_selected_is_told(ward: pytest.Pytester) -> None:
    named = ("--benchmark=ward", "--benchmark=clinic")
    done = run(ward, "--model=scripted", *named, "--run=part", "test_ward.py::test_ward")
    assert "clinic: selected 0 of 60, by test_ward.py::test_ward." in text(done)


# --- 2. Completeness is stored and checked -----------------------------------------------------------------------


@pytest.fixture
def cut(ward: pytest.Pytester) -> Path:
    """A run whose results end behind the thirtieth line, and a whole one beside it as baseline."""
    run(ward, *ASKED, "--run=main")
    run(ward, *ASKED, "--run=cut")
    drop_lines(folder(ward, "cut") / "results.jsonl", 30)
    return folder(ward, "cut")


def test_results_that_were_cut_off_are_missing(
    ward: pytest.Pytester, cut: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    medvqa(ward, "report", str(cut))
    out = "".join(capsys.readouterr())
    assert "30 of 60" in out
    assert "30 of 60" in (cut / "summary.md").read_text()
    assert "30 of 60 questions have a result" in pages.Page((cut / "index.html").read_text()).told


@pytest.mark.parametrize("command", ["gate", "compare", "baseline", "merge"])
def test_a_run_with_missing_results_has_no_verdict(
    ward: pytest.Pytester, cut: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = str(folder(ward, "main"))
    arguments = {
        "gate": [str(cut), f"--baseline={baseline}"],
        "compare": [baseline, str(cut)],
        "baseline": [str(cut), "-o", str(ward.path / "cut.medvqa")],
        "merge": [str(cut), "-o", str(ward.path / "reports/merged")],
    }[command]
    capsys.readouterr()
    code = medvqa(ward, command, *arguments)
    assert code or command in ("compare", "merge")
    assert "30 of 60" in "".join(capsys.readouterr())


def test_a_share_is_no_whole(ward: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    run(ward, *ASKED, "--run=main")
    for number in (1, 2):
        run(ward, *ASKED, f"--run=share{number}", f"--shard={number}/3")
    baseline = f"--baseline={folder(ward, 'main')}"
    assert medvqa(ward, "gate", str(folder(ward, "share1")), baseline) != 0
    shares = [str(folder(ward, f"share{number}")) for number in (1, 2)]
    merged = str(ward.path / "reports/merged")
    medvqa(ward, "merge", *shares, "-o", merged)
    capsys.readouterr()
    assert medvqa(ward, "gate", merged, baseline) != 0
    assert "shard 3/3" in "".join(capsys.readouterr())


@pytest.mark.slow
def test_a_killed_run_that_goes_on_with_a_part_is_not_whole(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    assert repository.run("--model=slow:0", "--run=main", "--fresh")[0] == 0
    session = repository.start("--model=slow:30", "--run=killed")
    await_results(repository, "killed", 12, session)
    kill_group(session)
    repository.run("--model=slow:30", "--run=killed", "--limit=5")
    about = json.loads((repository.folder("killed") / "run.json").read_text())
    assert len(about["missing"]) == 40 - len(repository.results("killed")) > 0


@pytest.mark.slow
def test_a_killed_run_says_on_every_page_that_it_is_unfinished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = Repository(tmp_path / "repository")
    session = repository.start("--model=slow:30", "--run=killed")
    await_results(repository, "killed", 12, session)
    kill_group(session)
    killed = repository.folder("killed")
    main(["report", f"--plugin={repository.path / 'conftest.py'}", str(killed)])
    wanted = re.compile(r"unfinished: \d+ of 40")
    assert wanted.search("".join(capsys.readouterr()))
    assert wanted.search((killed / "summary.md").read_text())
    status = pages.Page((killed / "index.html").read_text()).block("head")["sections"][0]["blocks"][0]
    assert status["title"] == "Unfinished: the numbers will change"
    assert re.match(r"\d+ of 40 ", status["lines"][0])


def test_keys_that_are_lost_do_not_make_a_part_whole(ward: pytest.Pytester) -> None:
    run(ward, *ASKED, "--run=one")
    drop_lines(folder(ward, "one") / "results.jsonl", 30)
    (folder(ward, "one") / "selected.jsonl").unlink()
    done = run(ward, *ASKED, "--run=one", "-k", "q0")
    assert done.ret == 1
    assert "of 60 questions have a result" in text(done)
    assert run(ward, *ASKED, "--run=one").ret == 0


def test_results_of_another_run_are_no_results_of_this_one(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(ward, *ASKED, "--run=main")
    monkeypatch.setenv("WEIGHTS", "other")
    monkeypatch.setenv("WRONG", EVEN)
    run(ward, *ASKED, "--run=bad")
    main_lines = (folder(ward, "main") / "results.jsonl").read_bytes()
    with (folder(ward, "bad") / "results.jsonl").open("ab") as file:
        file.write(main_lines)
    assert medvqa(ward, "gate", str(folder(ward, "bad")), f"--baseline={folder(ward, 'main')}") == 1
    assert "60 of its results are those of run 'main'" in "".join(capsys.readouterr())
    assert medvqa(ward, "baseline", str(folder(ward, "bad")), "-o", str(ward.path / "x.medvqa")) == 4


def test_a_run_whose_folder_was_renamed_goes_on(ward: pytest.Pytester) -> None:
    run(ward, *ASKED, "--run=one", "-k", "q0")
    folder(ward, "one").rename(folder(ward, "two"))
    done = run(ward, *ASKED, "--run=two")
    assert done.ret == 0, text(done)
    assert record(ward, "two")["names"] == ["one"]


def test_a_merged_run_goes_on(ward: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        run(ward, *ASKED, f"--run=share{number}", f"--shard={number}/3")
    shares = [str(folder(ward, f"share{number}")) for number in (1, 2)]
    assert medvqa(ward, "merge", *shares, "-o", str(folder(ward, "merged"))) == 1
    done = run(ward, *ASKED, "--run=merged")
    assert done.ret == 0, text(done)
    assert [part["name"] for part in record(ward, "merged")["merged"]] == ["share1", "share2"]
    assert medvqa(ward, "report", str(folder(ward, "merged"))) == 0


@pytest.mark.slow
def test_a_session_that_is_killed_leaves_no_reports_of_an_earlier_one(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    assert repository.run("--model=slow:30", "--run=one", "-k", "q0000")[0] == 0
    assert (repository.folder("one") / "summary.md").exists()
    session = repository.start("--model=slow:30", "--run=one")
    await_results(repository, "one", 20, session)
    kill_group(session)
    assert not [path.name for path in repository.folder("one").glob("[mijs]*") if path.name in report.DRAWN]


# --- 3. A result that cannot be read back ------------------------------------------------------------------------


@pytest.fixture
def damaged(ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with thirty wrong answers, each of whose lines is damaged; a run that is all right is its baseline."""
    run(ward, *ASKED, "--run=main")
    monkeypatch.setenv("WEIGHTS", "other")
    monkeypatch.setenv("WRONG", EVEN)
    run(ward, *ASKED, "--run=damaged")
    results = folder(ward, "damaged") / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join("{}\n" if '"wrong"' in line else line for line in lines))
    return folder(ward, "damaged")


def test_unread_results_block_the_gate(damaged: Path, ward: pytest.Pytester) -> None:
    assert medvqa(ward, "gate", str(damaged), f"--baseline={folder(ward, 'main')}") == 1


def test_unread_results_are_counted_by_the_report(
    ward: pytest.Pytester, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert medvqa(ward, "report", str(damaged)) == 1
    assert "30 of 60" in "".join(capsys.readouterr())


@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
def test_what_a_model_says_and_cannot_be_read_back_is_missing(ward: pytest.Pytester, spread: tuple[str, ...]) -> None:
    """The model says of its wrong answers alone that they ended in a way that is no text."""
    source = WARD.replace(
        "[Answer(self._said(prompt)) for", "[Answer(self._said(prompt), finish=FINISH[prompt.item]) for"
    )
    numbers = "FINISH = {f'q{n:02}': None if n % 2 else 'stop' for n in range(60)}\n"
    ward.makeconftest(source.replace("OPTIONS = ", f"{numbers}OPTIONS = "))
    done = run(ward, *ASKED, "--run=odd", *spread)
    assert done.ret == 1, text(done)
    assert measure(ward, "odd", "accuracy")["n"] == 30
    assert record(ward, "odd")["sessions"][-1]["asked"] == 60


# --- 4. Stale answers --------------------------------------------------------------------------------------------


def test_stored_answers_of_a_server_give_no_verdict_on_its_new_weights(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's model is exchanged; its name, URL and what it says of itself stay."""
    shift = 0

    def script(number: int, request: Request) -> Reply:
        question = re.search(r"Question (\d+)\?", json.dumps(request.body))
        assert question
        return Reply({**completion("ABC"[(int(question[1]) + shift) % 3]), "system_fingerprint": None})

    monkeypatch.setenv("MEDVQA_KEY", "EMPTY")
    with Server(script) as server:
        (ward.path / "models").mkdir()
        (ward.path / "models/served.toml").write_text(
            f'backend = "openai"\nargument = "tiny"\n[options]\nbase_url = "{server.remote_url}"\n'
        )
        arguments = ("--model=served", "--benchmark=ward", "--allow-upload")
        assert run(ward, *arguments, "--run=main").ret == 0
        shift = 1
        asked = len(server.requests)
        done = run(ward, *arguments, "--baseline=reports/main", "--run=new")
        assert verdict(ward, "new") != "PASS"
        assert done.ret != 0
        assert len(server.requests) > asked


# --- 5. Denominators ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--benchmark=ward",), ("--benchmark=ward", "--benchmark=clinic", "-k", "q0")])
def test_units_that_leave_make_a_gate_inconclusive(ward: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    run(ward, "--model=scripted", "--benchmark=ward", "--benchmark=clinic", "--run=main")
    done = run(ward, "--model=scripted", "--baseline=reports/main", "--run=new", *arguments)
    assert verdict(ward, "new") == "INCONCLUSIVE"
    assert done.ret == 11


@pytest.mark.skipif(not SHARED.exists(), reason="the reference data are not here")
def test_pairs_that_are_refused_do_not_pass_a_gate_of_confusion(ward: pytest.Pytester) -> None:
    data = json.loads((SHARED / "dataset.json").read_text())
    (ward.path / "data/mediconfusion").mkdir(parents=True)
    shutil.copy(SHARED / "dataset.json", ward.path / "data/mediconfusion")
    ward.makepyfile(test_pairs=TEST.replace("ward", "mediconfusion").split('@pytest.mark.vqa("clinic")')[0])
    ward.makepyprojecttoml(
        '[tool.medvqa.gate.benchmarks.mediconfusion]\nmeasure = "confusion"\nmargin = 5\n[tool.pytest.ini_options]\n'
    )
    (ward.path / "pytest.ini").unlink()
    (ward.path / "test_ward.py").unlink()

    def model(name: str, refused: int) -> str:
        """Right, but "A" to both images of each fifth pair, and the first `refused` pairs are refused."""
        lines = []
        for number, (pair, row) in enumerate(data.items()):
            for image in (1, 2):
                said = "A" if number % 5 == 0 else row[f"im_{image}_correct"]
                said = "I cannot assist with that." if number < refused else said
                lines.append(json.dumps({"benchmark": "mediconfusion", "id": f"{pair}/{image}", "response": said}))
        (ward.path / name).write_text("\n".join(lines))
        return f"--model=replay:{name}"

    arguments = ("--data=data", "--benchmark=mediconfusion")
    run(ward, model("old.jsonl", 0), *arguments, "--run=main")
    done = run(ward, model("new.jsonl", 77), *arguments, "--run=new", "--baseline=reports/main")
    assert verdict(ward, "new") == "INCONCLUSIVE", text(done)


def test_rules_may_require_all_of_the_baseline(ward: pytest.Pytester) -> None:
    run(ward, *ASKED, "--run=main")
    (ward.path / "pytest.ini").unlink()
    ward.makepyprojecttoml(
        '[tool.medvqa.gate]\nbaseline = "reports/main"\nrequire = "all"\n[tool.pytest.ini_options]\n'
    )
    done = run(ward, *ASKED, "--run=new", "-k", "q0")
    assert done.ret == 11, text(done)
    assert "10 of 60" in text(done)


def test_a_required_gate_fails_where_no_rules_were_read(ward: pytest.Pytester) -> None:
    ward.makepyprojecttoml("[tool.medvqa.gate]\nmargin = 2\n")
    inner = ward.mkdir("inner")
    (inner / "pytest.ini").write_text("[pytest]\n")
    done = run(ward, *ASKED, "--gate=required", "--rootdir=inner", "-c", "inner/pytest.ini", "--confcutdir=.")
    assert done.ret == 4, text(done)
    assert "no rules" in text(done)


def test_the_summary_says_which_rules_were_read_from_where(ward: pytest.Pytester) -> None:
    run(ward, *ASKED, "--run=main")
    (ward.path / "pytest.ini").unlink()
    ward.makepyprojecttoml('[tool.medvqa.gate]\nbaseline = "reports/main"\n[tool.pytest.ini_options]\n')
    done = run(ward, *ASKED, "--run=new")
    assert re.search(r"rules .*pyproject\.toml", text(done))
    assert "pyproject.toml" in (folder(ward, "new") / "summary.md").read_text()


NO_QUESTION = """
import pytest

@pytest.mark.vqa("ward")
def test_ward(item{fixture}):
    pass
"""


@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
@pytest.mark.parametrize("fixture", [", evaluate", "", ", model"], ids=["evaluate", "item", "model"])
def test_tests_that_ask_nothing_end_in_exit_code_1(
    ward: pytest.Pytester, fixture: str, spread: tuple[str, ...]
) -> None:
    """Without a gate only if they could have asked: tests of the data, or with prompts of their own, need not."""
    run(ward, *ASKED, "--run=main")
    ward.makepyfile(test_ward=NO_QUESTION.replace("{fixture}", fixture))
    for gate in ((), ("--baseline=reports/main",)):
        done = run(ward, *ASKED, "--run=none", *gate, *spread)
        fails = bool(gate) or fixture == ", evaluate"
        assert done.ret == fails, text(done)
        line = "nothing was asked: 60 questions were selected, and no test called evaluate(item)"
        assert (line in text(done)) == fails


def test_a_gate_without_a_question_is_no_pass(ward: pytest.Pytester) -> None:
    run(ward, *ASKED, "--run=main")
    ward.makepyfile(test_ward="def test_other(): pass")
    done = run(ward, *ASKED, "--run=new", "--baseline=reports/main")
    assert done.ret == 1, text(done)
    assert "gate: no verdict: no test asks a question" in text(done)


def test_wrong_answers_that_may_fail_hide_no_other_failure(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", EVEN)
    ward.makepyfile(test_ward="import pytest\n@pytest.mark.xfail" + TEST.split("import pytest")[1])
    ward.makepyfile(test_more="def test_more(): assert False")
    assert run(ward, *ASKED, "--run=main").ret == 1


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ('[tool.medvqa.gates]\nbaseline = "reports/main"', "[tool.medvqa] has no key 'gates'"),
        ('[[tool.medvqa]]\n[tool.medvqa.gate]\nbaseline = "reports/main"', "tool.medvqa is not a table"),
        ("[tool.medvqa.gate]\nmargin = 2", "names no baseline and no floor"),
    ],
)
def test_rules_that_gate_nothing_are_told(ward: pytest.Pytester, rules: str, said: str) -> None:
    (ward.path / "pytest.ini").unlink()
    ward.makepyprojecttoml(f"{rules}\n[tool.pytest.ini_options]\n")
    assert said in text(run(ward, *ASKED, "--run=new"))


# --- 6. The wrong data -------------------------------------------------------------------------------------------


@pytest.fixture
def phantom(pytester: pytest.Pytester) -> pytest.Pytester:
    """A repository with the tests of the three benchmarks and the phantom."""
    names = ("phantom", "gmai-mmbench-val", "mediconfusion", "medlesionvqa-val")
    pytester.makepyfile(test_all="import pytest\n" + "\n".join(map(BENCHMARK_TEST.format, range(4), names)))
    pytester.makefile(".ini", pytest="[pytest]\n")
    return pytester


@pytest.mark.parametrize("content", ["", "data/mediconfusion/dataset.json", "tables/other.tsv"])
def test_a_data_folder_in_which_nothing_is_found_is_an_error(phantom: pytest.Pytester, content: str) -> None:
    """An empty folder, one that is a level too high, and one of other files."""
    wrong = phantom.mkdir("wrong")
    if content:
        (wrong / content).parent.mkdir(parents=True)
        (wrong / content).write_text("{}")
    done = run(phantom, "--model=random", "--data=wrong")
    assert done.ret == 4, text(done)
    for wanted in ("mediconfusion/dataset.json", "GMAI", "medlesionvqa"):
        assert wanted in text(done)


def test_a_data_folder_after_a_space_is_noticed(phantom: pytest.Pytester) -> None:
    elsewhere = phantom.path.parent / f"{phantom.path.name}-data"
    elsewhere.mkdir()
    (elsewhere / "test_foreign.py").write_text("def test_foreign(): pass\n")
    done = run(phantom, "--model=random", "--data", str(elsewhere))
    assert "--data=" in text(done)
    assert done.ret == 4


def test_a_home_folder_is_expanded(ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(ward.path))
    ward.mkdir("data")
    assert "no such folder" not in text(run(ward, *ASKED, "--data=~/data"))


def test_benchmarks_may_be_named_with_commas(ward: pytest.Pytester) -> None:
    done = run(ward, "--model=scripted", "--benchmark=ward,clinic", "--run=both")
    assert done.ret == 0, text(done)
    assert set(record(ward, "both")["benchmarks"]) == {"ward", "clinic"}


CELLS = {
    "index": "1",
    "image": "A" * 80,
    "question": "Which?",
    "A": "liver",
    "B": "spleen",
    "answer": "A",
    "category": "liver",
    "clinical VQA task": "Disease Diagnosis",
    "department": "Surgery",
    "perceptual granularity": "Image level",
    "modality": "CT",
    "original task": "",
}
TABLE = "\t".join(CELLS) + "\n" + "\t".join(CELLS.values()) + "\n"


def test_the_data_folder_of_the_other_harness_is_found(
    phantom: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = phantom.mkdir("LMUData") / "GMAI-MMBench_VAL.tsv"
    table.write_text(TABLE)
    monkeypatch.setenv("HOME", str(phantom.path))
    done = run(phantom, "--model=random", "--benchmark=gmai-mmbench-val")
    assert done.ret == 0, text(done)
    assert "LMUData" in text(done)


def test_a_local_table_beside_the_table_is_no_error(phantom: pytest.Pytester) -> None:
    data = phantom.path / "data/gmai-mmbench"
    data.mkdir(parents=True)
    (data / "GMAI-MMBench_VAL.tsv").write_text(TABLE)
    # What VLMEvalKit writes beside a large table: paths of unpacked images in the place of the images.
    local = TABLE.replace("\timage\t", "\timage_path\t").replace("A" * 80, "images/1.jpg")
    (data / "GMAI-MMBench_VAL_local.tsv").write_text(local)
    done = run(phantom, "--model=random", "--data=data", "--benchmark=gmai-mmbench-val")
    assert done.ret == 0, text(done)


def test_a_folder_without_tests_says_what_to_type(pytester: pytest.Pytester) -> None:
    done = run(pytester, "--model=random")
    assert "pytest --pyargs medvqa.suite.benchmark_tests" in text(done)


def test_an_adapter_that_is_no_plain_lora_must_be_merged(phantom: pytest.Pytester) -> None:
    adapter = phantom.mkdir("adapter")
    (adapter / "adapter_config.json").write_text('{"peft_type": "IA3", "base_model_name_or_path": "base"}')
    (adapter / "adapter_model.safetensors").write_bytes(b"\0" * 16)
    done = run(phantom, "--model=hf:adapter", "--benchmark=phantom")
    assert done.ret == 4
    assert "merge_and_unload" in text(done)


def test_a_recorded_run_names_its_technique(phantom: pytest.Pytester) -> None:
    run(phantom, "--model=random", "--benchmark=phantom-mediconfusion", "--technique=ps", "--run=scored")
    recorded = folder(phantom, "scored") / "results.jsonl"
    done = run(phantom, f"--model=replay:{recorded}", "--benchmark=phantom-mediconfusion")
    assert done.ret == 4, text(done)
    assert "--technique=ps" in text(done)


@pytest.mark.skipif(not SHARED.exists(), reason="the reference data are not here")
def test_missing_images_are_counted_before_the_model_loads(phantom: pytest.Pytester) -> None:
    (phantom.mkdir("data") / "mediconfusion").mkdir()
    shutil.copy(SHARED / "dataset.json", phantom.path / "data/mediconfusion")
    phantom.makeconftest(
        """
        from medvqa import Backend

        class Looks(Backend):
            name = title = "looks"
            sends_to = None

            def generate(self, prompts):
                return []

            def load(self):
                raise RuntimeError("the weights were loaded")

        def pytest_medvqa_backends():
            return [Looks]
        """
    )
    done = run(phantom, "--model=looks", "--data=data", "--benchmark=mediconfusion")
    assert "0 of 228 images" in text(done)
    assert "the weights were loaded" not in text(done)


# --- 7. SIGTERM and SIGHUP ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_run_writes_its_reports(tmp_path: Path, number: int, spread: tuple[str, ...]) -> None:
    repository = Repository(tmp_path / "repository", items=160)
    session = repository.start("--model=slow:20", "--run=ended", *spread)
    await_results(repository, "ended", 30, session)
    os.kill(session.pid, number)
    try:
        output, _ = session.communicate(timeout=10)
    finally:
        if session.poll() is None:
            kill_group(session)
    assert (repository.folder("ended") / "summary.md").exists()
    assert "to go on: pytest" in output
    before = len(repository.calls)
    repository.run("--model=slow:20", "--run=ended")
    sizes = [len(items) for _, items in repository.calls[before:]]
    assert max(sizes[:3]) > 1, "questions in flight are asked together again"


# --- 8. Two sessions at once -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_has_one_session_at_a_time(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    gate = tmp_path / "gate"
    gate.touch()
    repository.environment = {"GATE": str(gate)}
    session = repository.start("--model=slow:0", "--run=one")
    try:
        deadline = time.monotonic() + 60
        while not repository.calls and time.monotonic() < deadline:
            time.sleep(0.02)
        repository.environment = {}
        second = repository.start("--model=slow:0", "--run=one")
        try:
            output, _ = second.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            kill_group(second)
            raise
    finally:
        gate.unlink()
        session.communicate(timeout=60)
    assert second.returncode == 4
    assert len(re.findall(r"run 'one' .*", output)) == 1


@pytest.mark.slow
def test_worksteal_asks_no_question_twice(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository", items=400)
    code, output = repository.run("--model=slow:10", "--run=stolen", "-n2", "--dist=worksteal")
    assert code == 4
    assert "Type --dist=load" in output
    assert not repository.asked


# --- 9. Privacy by default ---------------------------------------------------------------------------------------


def test_data_of_ones_own_do_not_leave_the_machine(ward: pytest.Pytester) -> None:
    with Server(lambda number, request: Reply(completion("A"))) as server:
        (ward.path / "models").mkdir()
        (ward.path / "models/far.toml").write_text(
            f'backend = "openai"\nargument = "tiny"\n[options]\nbase_url = "{server.remote_url}"\n'
        )
        done = run(ward, "--model=far", "--benchmark=ward")
        assert done.ret == 4, text(done)
        assert "--allow-upload" in text(done)
        assert not server.requests


def test_thumbnails_of_data_of_ones_own_are_opt_in(ward: pytest.Pytester) -> None:
    from PIL import Image

    Image.new("RGB", (64, 64), (200, 10, 10)).save(ward.path / "patient.png")
    shown = f'images=(Image("patient.png", {str(ward.path / "patient.png")!r}),), tags='
    source = WARD.replace("Benchmark, Item", "Benchmark, Image, Item").replace("tags=", shown)
    ward.makeconftest(source)
    run(ward, *ASKED, "--run=private")
    page = pages.Page((folder(ward, "private") / "index.html").read_text())
    assert "are left out" in page.told
    assert not [name for name in page.blocks if name.startswith("images/")]


def test_reports_are_private_and_ignored_by_git(ward: pytest.Pytester) -> None:
    old = os.umask(0o022)
    try:
        run(ward, *ASKED, "--run=private")
    finally:
        os.umask(old)
    assert stat.S_IMODE((ward.path / "reports").stat().st_mode) == 0o700
    assert stat.S_IMODE(folder(ward, "private").stat().st_mode) == 0o700
    assert (ward.path / "reports/.gitignore").read_text().startswith("*")


@pytest.fixture
def named(ward: pytest.Pytester) -> pytest.Pytester:
    """The ward with ids and file names that tell who the patients are."""
    source = WARD.replace('f"q{n:02}", name', 'f"DOE-JANE-{n:02}", name').replace("prompt.item[1:]", "prompt.item[-2:]")
    ward.makeconftest(source)
    return ward


def test_a_baseline_without_responses_names_no_patient(named: pytest.Pytester) -> None:
    run(named, *ASKED, "--run=main")
    path = named.path / "main.medvqa"
    assert main(["baseline", str(folder(named, "main")), "-o", str(path), "--no-responses"]) == 0
    assert not list(_files_that_hold("DOE-JANE", path))


def test_what_is_passed_on_names_no_patient(named: pytest.Pytester) -> None:
    """Stored answers and the terminal hold no id; results, JUnit and page are the run's own and may."""
    done = run(named, *ASKED, "--run=main")
    assert "DOE-JANE" not in text(done)
    store = folder(named, "main") / "answers"
    assert store.is_dir()
    assert not list(_files_that_hold("DOE-JANE", store))
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def _files_that_hold(words: str, path: Path) -> Iterator[Path]:
    import gzip
    import zipfile

    for file in [path] if path.is_file() else [entry for entry in path.rglob("*") if entry.is_file()]:
        contents = [file.read_bytes()]
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                contents += [archive.read(name) for name in archive.namelist()]
        elif contents[0][:2] == b"\x1f\x8b":
            contents.append(gzip.decompress(contents[0]))
        if any(words.encode() in content for content in contents):
            yield file
