"""The face for Python: a run evaluated, loaded and compared without pytest."""

import asyncio
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pandas as pd
import PIL.Image
import pytest

import medvqa
from medvqa.backend import Backend
from medvqa.cli import main
from medvqa.face import evaluating, frames, progress
from medvqa.items import Answer, DataError, Item, MedVQAError, Outcome, Result, Score, UsageError
from medvqa.records import run_record
from medvqa.records.lock import Lock
from medvqa.report import fields, rows
from medvqa.session.options import OLD_NAMES, OPTIONS, VISIBLE
from support import pages
from support.strangers import CONFTEST, TEST


def module(text: str) -> ModuleType:
    made = ModuleType("conftest")
    made.__file__ = "/somewhere/conftest.py"
    exec(text, vars(made))
    return made


SUITE = module(CONFTEST)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Always(Backend):
    """Says its argument, and counts the questions; at the tenth one it may do something else."""

    sends_to = None
    _asked: ClassVar[list[str]] = []
    _at_ten: ClassVar[Callable[[], object]] = lambda: None

    def generate(self, prompts: Any) -> list[Answer]:
        for prompt in prompts:
            self._asked.append(prompt.item)
            if len(self._asked) == 10:
                type(self)._at_ten()
        return [Answer(self.argument or "A") for _ in prompts]


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    Always._asked.clear()
    Always._at_ten = lambda: None


def slake(model: evaluating.GivenModel = "moody", **options: Any) -> medvqa.LoadedRun:
    return medvqa.evaluate(model, "slake", **{"run": "first", "plugins": [SUITE], **options})


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(MedVQAError) as caught:
        call()
    return str(caught.value)


# A run


def test_no_pytest_and_no_pandas_are_imported() -> None:
    code = (
        "import sys, medvqa; run = medvqa.evaluate('random', 'phantom-mediconfusion', limit=4, run='first')\n"
        "medvqa.load('reports/first'); repr(run); repr(medvqa.compare(run, 'reports/first'))\n"
        "print({'pytest', '_pytest', 'xdist', 'pandas', 'IPython', 'medvqa.plugin'} & {*sys.modules})\n"
        "sys.modules['pandas'] = None\n"
        "run.results"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
    last = "medvqa.image.MedVQAError: DataFrames need pandas: pip install 'pytest-medvqa[pandas]'"
    assert done.stderr.splitlines()[-1] == last


def test_a_run_equals_that_of_pytest_and_either_continues_the_other(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_slake=TEST)
    arguments = ("--model=moody", "--benchmark=slake", "-p", "no:benchmark", "-p", "no:randomly")
    assert pytester.runpytest_inprocess(*arguments, "--run=pytest").ret == 1
    run = medvqa.evaluate("moody", "slake", run="python", folder=pytester.path, plugins=[SUITE])
    reports = pytester.path / "reports"
    assert (run.folder, run.finished) == (Path("reports/python"), True)
    one, other = ((reports / name / "results.jsonl").read_text().splitlines() for name in ("pytest", "python"))
    assert sorted(map(_timeless, one)) == sorted(map(_timeless, other))
    one, other = (
        json.loads((reports / name / "metrics.json").read_text())["measures"] for name in ("pytest", "python")
    )
    assert one == other
    assert pytester.runpytest_inprocess(*arguments, "--run=python").ret == 1
    slake(run="pytest", folder=pytester.path)
    told = [run_record.read_run(reports / name).as_json()["sessions"][-1] for name in ("pytest", "python")]
    # Errors are asked again.
    assert [(each["asked"], each["reused"]) for each in told] == [(4, 20), (4, 20)]


def _timeless(line: str) -> str:
    return re.sub(r'"run":"\w+"|"seconds":[0-9.e-]+', "", line)


def test_a_model_is_a_spec_a_backend_or_its_class() -> None:
    assert slake("stubborn:A", run="spec").measures.value[0] == pytest.approx(8 / 24)
    assert slake(Always("B"), run="backend").measures.value[0] == pytest.approx(8 / 24)
    assert slake(Always, run="class").name == "class"
    assert run_record.read_run(Path("reports/backend")).as_json()["config"]["argument"] == "B"


def test_the_toy_is_no_default_for_data_of_ones_own() -> None:
    line = "no model was named, and phantom-vlm is the default for the phantom alone; this run asks slake. Type --model"
    assert line in error_of(lambda: medvqa.evaluate(benchmark="slake", samples=2, plugins=[SUITE]))
    assert not Path("reports").exists()


def test_a_benchmark_is_a_name_a_benchmark_or_several() -> None:
    (shipped,) = SUITE.pytest_medvqa_benchmarks()
    mine = replace(shipped, name="mine")
    one = medvqa.evaluate(Always, mine, run="first", progress=False)
    assert set(one.results.benchmark) == {"mine"}
    several = medvqa.evaluate(Always, [mine, "slake"], run="several", limit=6, plugins=[SUITE])
    assert Counter(several.results.benchmark) == {"mine": 6, "slake": 6}
    assert str(several.selection.benchmarks["mine"]["mc"]) == "6 of 24"
    assert "'mine'" in error_of(lambda: medvqa.load("reports/first"))
    assert medvqa.load("reports/first", benchmarks=[mine]).finished


def test_a_table_is_a_benchmark(tmp_path: Path) -> None:
    PIL.Image.new("RGB", (8, 8), (255, 0, 0)).save(tmp_path / "red.png")
    Path("questions.csv").write_text(
        "id,image,question,A,B,answer\n1,red.png,Red?,yes,no,A\n2,red.png,Blue?,yes,no,B\n"
    )
    questions = medvqa.table(tmp_path / "questions.csv", images=tmp_path)
    run = medvqa.evaluate(Always, questions, run="first", metrics=[long_answer])
    assert run.items.options[0] == {"A": "yes", "B": "no"}
    assert run.results.outcome.tolist() == ["correct", "wrong"]
    assert "long_answer" in set(run.measures.measure)
    assert medvqa.load("reports/first", benchmarks=[questions]).finished


def test_a_selection_is_told_everywhere() -> None:
    run = slake(Always, select="mri")
    assert "6 of 24" in repr(run)
    assert any("6 of 24" in warning for warning in run.warnings)
    assert run.measures[["selected", "of"]].drop_duplicates().values.tolist() == [[6, 24]]


def test_options_are_those_of_the_command_line() -> None:
    names = {name.replace("-", "_") for name in (*OPTIONS, *OLD_NAMES)}
    assert names < inspect.signature(medvqa.evaluate).parameters.keys()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limt": 3}, "evaluate() has no option 'limt'. Did you mean 'limit'?"),
        ({"select": 3}, "select=3: a text is expected"),
        ({"batch-size": 3}, "evaluate() has no option 'batch-size'. Did you mean 'batch_size'?"),
        ({"limit": "3"}, "limit='3': a whole number is expected"),
        ({"limit": True}, "limit=True: a whole number is expected"),
        ({"limit": 0}, "--limit=0: a whole number from 1 on is expected"),
        ({"limit": 10**13}, "--limit=10000000000000: a whole number of at most 1,000,000,000,000 is expected"),
        ({"samples": 10**13}, "--samples=10000000000000: a whole number of at most 10,000 is expected"),
        ({"margin": 10**400}, "margin=1000"),
        ({"data": "a\0b"}, "--data: a value holds a NUL character"),
        ({"judge_prompt": ["score:a\0b"]}, "--judge-prompt: a value holds a NUL character"),
        ({"technique": 3}, "technique=3: a text or a list of texts is expected"),
        ({"technique": ["mc", 3]}, "technique=3: a text is expected"),
        ({"fresh": 1}, "fresh=1: True or False is expected"),
        ({"max_cost": "1"}, "max_cost='1': a number is expected"),
        ({"judge": 3}, "judge=3: a spec such as 'hf:CHECKPOINT', or a subclass of medvqa.Backend is expected"),
        ({"run": "../up"}, "--run=../up: a run's name is a letter or digit"),
        ({"select": "nowhere"}, "nothing was asked: no question was selected"),
        ({"plugins": ["nowhere.py"]}, "plugins=['nowhere.py']: no such Python file"),
        ({"plugins": "nowhere.py"}, "plugins=['nowhere.py']: no such Python file"),
        ({"metrics": [len]}, "metrics: <built-in function len> is no metric; write @medvqa.metric above the function"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else "",
)
def test_an_option_that_does_not_fit_is_one_line(options: dict[str, Any], said: str) -> None:
    message = error_of(lambda: slake(Always, **options))
    assert message.startswith(said)
    assert "\n" not in message
    assert not Path("reports").exists()


def test_a_model_or_benchmark_of_another_type_is_refused() -> None:
    assert error_of(lambda: medvqa.evaluate(3)).startswith("model=3: a spec such as")  # type: ignore[arg-type]
    assert error_of(lambda: medvqa.evaluate("random", [3])).startswith("benchmark=3: a name or")  # type: ignore[list-item]
    assert error_of(lambda: medvqa.evaluate("random", [])) == "benchmark: none is given; name one, or leave it out"
    assert "give one of them another argument" in error_of(lambda: medvqa.evaluate(Always, "phantom", judge="always"))


def test_a_gate_gives_a_verdict() -> None:
    before = slake("stubborn:A", run="before")
    run = slake("stubborn:B", run="after", baseline=before, margin=5.0)
    assert run.verdict is not None
    assert run.verdict.outcome in ("FAIL", "INCONCLUSIVE")
    assert f"gate: {run.verdict.outcome}" in repr(run)
    assert f"gate: {run.verdict.outcome}" in run._repr_html_()
    assert before.verdict is None


def test_errors_in_a_row_end_a_run_which_says_so() -> None:
    run = slake("broken", max_errors=3)
    assert not run.finished
    assert run.warnings[0] == "unfinished: 3 of 24 questions have a result"
    assert re.fullmatch(r"stopped early: 3 errors in a row, .*RuntimeError: out of paper .*", run.warnings[1])
    assert repr(run).startswith("! stopped early")
    assert "unfinished" in run._repr_html_()


# Interrupted, and twice


def test_ctrl_c_stores_all_and_the_same_call_continues() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    Always._at_ten = lambda: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        slake(Always, batch_size=1)
    assert {number: signal.getsignal(number) for number in before} == before
    part = medvqa.load("reports/first", plugins=[SUITE])
    assert not part.finished
    assert repr(part).startswith("! unfinished: ")
    assert part.coverage.selected == 24
    assert 0 < len(part.results) < 24
    assert part.report().is_file()
    run = slake(Always, batch_size=1)
    assert run.finished
    assert len(run.results) == 24
    assert Counter(Always._asked).most_common(1)[0][1] == 1, "no question is asked twice"


def test_ctrl_c_while_reports_are_drawn_is_raised_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over models must not go on with the next one."""
    from medvqa import report

    draw = report.write
    monkeypatch.setattr(report, "write", lambda *given: signal.raise_signal(signal.SIGINT) or draw(*given))
    with pytest.raises(KeyboardInterrupt):
        slake(Always)
    assert medvqa.load("reports/first", plugins=[SUITE]).finished


class OnGpu(Backend):
    """Takes a GPU, and says as a reason of its failure which one it sees."""

    sends_to = None

    def places(self) -> tuple[str, ...]:
        return ("3",)

    def load(self) -> None:
        if self.argument:
            raise RuntimeError(f"no weights on {os.environ[VISIBLE]}")

    def generate(self, prompts: Any) -> list[Answer]:
        return [Answer("A" if os.environ[VISIBLE] == "3" else "?") for _ in prompts]


@pytest.mark.parametrize("before", ["7", None])
def test_an_exception_of_a_model_leaves_nothing_behind(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if before is None:
        monkeypatch.delenv(VISIBLE, raising=False)
    else:
        monkeypatch.setenv(VISIBLE, before)
    for _ in range(2):
        with pytest.raises(UsageError, match="RuntimeError: no weights on 3"):
            slake(OnGpu("broken"))
        assert os.environ.get(VISIBLE) == before
    model = OnGpu()
    for name in ("second", "third"):
        assert set(slake(model, run=name).results.answer) == {"A"}
        assert os.environ.get(VISIBLE) == before
        lock = Lock(Path("reports") / name)
        assert lock.acquire() is None, "nobody holds the run"
        lock.release()


def test_a_run_in_a_thread_and_in_a_running_loop() -> None:
    runs: list[medvqa.LoadedRun] = []
    thread = threading.Thread(target=lambda: runs.append(slake(Always, run="thread")))
    thread.start()
    thread.join()

    async def cell() -> None:
        runs.append(slake(Always, run="loop"))

    asyncio.run(cell())
    assert [(run.name, run.finished) for run in runs] == [("thread", True), ("loop", True)]


def test_reports_lie_where_pytest_would_put_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    run = slake(Always)
    assert run.folder == Path("../reports/first")
    assert (tmp_path / "reports/first/run.json").is_file()
    elsewhere = slake(Always, folder=tmp_path / "other")
    assert elsewhere.folder == tmp_path / "other/reports/first"


# Frames


def test_frames_have_the_documented_columns_and_types() -> None:
    run = slake()
    for frame, columns in ((run.results, fields.RESULT), (run.items, fields.ITEM)):
        assert list(frame.columns) == [*columns, "modality", "organ"]
        assert _types(frame, columns) == _declared(columns)
    assert list(run.measures.columns) == [*fields.MEASURE]
    assert _types(run.measures, fields.MEASURE) == _declared(fields.MEASURE)
    assert len(run.results) == len(run.items) == 24
    first = run.results.iloc[0]
    assert (first["item"], first.outcome, first.answer, first["modality"]) == ("q00", "correct", "A", "ct")
    assert run.results.outcome.value_counts().to_dict() == run.results.groupby("outcome").size().to_dict()
    failed = run.results[run.results.outcome == "error"]
    assert failed.answer.isna().all()
    assert failed.value.isna().all()
    assert set(failed.why) == {"the line was busy"}
    # Of several values the cell holds all.
    assert run.items.organ.str.get_dummies().columns.tolist() == ["heart", "liver"]
    assert run.items.organ[0] == "liver|heart"
    assert run.items.options[0] == {"A": "liver", "B": "spleen", "C": "kidney"}
    assert run.results.merge(run.items, on=["benchmark", "item"]).shape[0] == 24


def _declared(columns: fields.Fields) -> dict[str, str]:
    return {name: field.kind for name, field in columns.items()}


def _types(frame: pd.DataFrame, columns: Any) -> dict[str, str]:
    return {name: str(kind) for name, kind in frame.dtypes.items() if name in columns}


def test_measures_are_those_of_metrics_json() -> None:
    run = slake()
    told = json.loads(Path("reports/first/metrics.json").read_text())["measures"]
    names = ["measure", "value", "low", "high", "n", "count", "units", "groups", "random", "dimension", "slice"]
    there = run.measures[names].astype(object).where(run.measures[names].notna(), None).values.tolist()
    assert there == [
        [
            each["name"],
            *(each[name] for name in names[1:8]),
            each["references"].get("random"),
            *next(iter(each["slice"].items()), ("", "")),
        ]
        for each in told
    ]
    assert set(run.measures[run.measures.headline].measure) == {"accuracy"}
    assert run.measures.query("headline").n.tolist() == [20.0]


def test_types_do_not_depend_on_the_values() -> None:
    empty = frames.frame(rows.Rows(fields.RESULT, []))
    assert _types(empty, fields.RESULT) == _declared(fields.RESULT)
    item = Item("\ud800", "slake", "short_answer", "Q", tags={"kind": ("x",), "tag.kind": ("y",), "organ": ()})
    result = Result(
        "run", item, "", Answer("\ud800", {"A": -0.5}, usage={"input": 3, "cost": 0.1}), Score(1, "correct")
    )
    both = [replace(result, answer=None), result]
    tagged = rows._tagged(fields.RESULT, [rows._result(each) for each in both], [each.item for each in both])
    frame = frames.frame(tagged)
    assert _types(frame, fields.RESULT) == _declared(fields.RESULT)
    assert frame.answer[1] == "\ud800"
    assert frame.option_logprobs[1] == {"A": -0.5}
    assert (frame.input_tokens[1], frame.cost[1]) == (3.0, 0.1)
    # A tag does not hide a column, or another tag.
    assert frame.columns[-3:].tolist() == ["tag.tag.kind", "organ", "tag.kind"]
    assert frame.iloc[0][["tag.tag.kind", "tag.kind"]].tolist() == ["x", "y"]
    assert frame.organ.isna().all()


@medvqa.metric
def long_answer(result: Result) -> bool | None:
    return None if result.answer is None else len(result.answer.text) > 1


@medvqa.metric
def broken_metric(result: Result) -> float:
    return 1 / 0


def test_a_metric_of_ones_own_is_measured_and_one_that_fails_costs_only_itself() -> None:
    run = slake(metrics=[long_answer, broken_metric])
    assert run.measures.query("measure == 'long_answer' and dimension == ''").value.tolist() == [15 / 20]
    assert "broken_metric" not in set(run.measures.measure)
    assert any("broken_metric" in warning and "ZeroDivisionError" in warning for warning in run.warnings)
    again = medvqa.load("reports/first", plugins=[SUITE], metrics=[long_answer, broken_metric])
    pd.testing.assert_frame_equal(run.measures, again.measures)
    pd.testing.assert_frame_equal(run.results, again.results)
    assert repr(again) == repr(run)
    other = replace(long_answer, definition="another one")
    assert error_of(lambda: medvqa.load("reports/first", plugins=[SUITE], metrics=[long_answer, other])) == (
        "two metrics are called 'long_answer'; rename one of them"
    )


# Loading


def test_hostile_texts_are_printed_and_drawn_harmless() -> None:
    benchmark, results = pages.hostile()
    pages.write(Path("reports/first"), results)
    run = medvqa.load("reports/first", benchmarks=[benchmark])
    assert run.results.answer.str.contains("<script>", regex=False).any()
    html = run._repr_html_()
    assert "<script" not in html
    assert "<img" not in html
    assert "\x1b" not in repr(run) + html


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda folder: None, UsageError, "reports/bad is no run folder"),
        (lambda folder: folder.mkdir(), UsageError, "reports/bad is no run folder: run.json cannot be read"),
        (lambda folder: folder.write_bytes(b"\x00"), UsageError, "reports/bad is no run folder"),
        (lambda folder: _damaged(folder, "run.json", b"{"), UsageError, "reports/bad/run.json: damaged"),
        (lambda folder: _damaged(folder, "run.json", b'{"sessions": 3}'), UsageError, "reports/bad/run.json: field"),
        (lambda folder: _damaged(folder, "results.jsonl", None), UsageError, "reports/bad is no run folder: it has no"),
        (lambda folder: _damaged(folder, "gate.json", b"{"), UsageError, "reports/bad/gate.json cannot be read"),
    ],
    ids=["missing", "empty", "a-file", "torn", "types", "no-results", "gate"],
)
def test_a_folder_that_cannot_be_loaded_is_one_line(
    make: Callable[[Path], None], kind: type[MedVQAError], said: str
) -> None:
    Path("reports").mkdir()
    make(Path("reports/bad"))
    with pytest.raises(kind) as caught:
        medvqa.load("reports/bad")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def _damaged(folder: Path, name: str, content: bytes | None) -> None:
    pages.write(folder, pages.guesses()[:3])
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_bytes(content)


def test_a_torn_line_and_missing_questions_are_told() -> None:
    slake("stubborn:A")
    path = Path("reports/first/results.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[-2][:30])
    run = medvqa.load("reports/first", plugins=[SUITE])
    assert not run.finished
    assert run.warnings[0] == "unfinished: 22 of 24 questions have a result"
    assert any(warning.startswith("not read: ") for warning in run.warnings)
    assert len(run.coverage.missing) == 2
    assert len(run.results) == 22


def test_a_name_without_its_folder_and_a_baseline_file_are_told_apart() -> None:
    slake("stubborn:A")
    assert error_of(lambda: medvqa.load("first")) == "first is no run folder. Did you mean 'reports/first'?"
    assert error_of(lambda: medvqa.load("reports")).endswith("; runs in it: reports/first.")
    Path("conftest.py").write_text(CONFTEST)
    assert main(["baseline", "reports/first", "-o", "first.medvqa", "--plugin=conftest.py"]) == 0
    assert "medvqa.compare() takes it" in error_of(lambda: medvqa.load("first.medvqa"))
    assert medvqa.compare("first.medvqa", "reports/first", plugins=["conftest.py"]).unchanged


def test_run_folders_of_an_earlier_version_are_loaded(tmp_path: Path) -> None:
    kept = Path(__file__).parents[1] / "kept"
    # The suite writes beside its conftest.py.
    conftest = shutil.copy(kept / "suite/conftest.py", tmp_path)
    runs = {folder.name: medvqa.load(folder, plugins=[conftest]) for folder in (kept / "runs").iterdir()}
    assert {name for name, run in runs.items() if not run.finished} == {"killed", "killed-spread"}
    assert {name: run.verdict.outcome for name, run in runs.items() if run.verdict is not None} == {
        "other": "INCONCLUSIVE",
        "ruled": "INCONCLUSIVE",
        "same": "PASS",
        "worse": "FAIL",
    }
    assert "2/2" in runs["part1"].warnings[0]
    assert repr(runs["part1"]).startswith(f"! {runs['part1'].warnings[0]}\n")
    assert len(runs["merged"].results) == len(runs["whole"].results) == 36
    assert (len(runs["repeated"].results), len(runs["repeated"].items)) == (30, 10)
    assert set(runs["repeated"].results["sample"]) == {1, 2, 3}
    assert "max(gd,mc,ps)" in set(runs["techniques"].measures.technique)
    assert runs["judged"].results.judge.value_counts().to_dict() == {"rubric": 18}
    compared = medvqa.compare(kept / "main.medvqa", runs["worse"])
    assert compared.differences.query("headline").difference[0] < 0


# Comparing


def test_a_comparison_equals_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    slake("stubborn:A", run="before")
    slake("moody", run="after")
    Path("conftest.py").write_text(CONFTEST)
    arguments = ["compare", "reports/before", "reports/after", "--json=out.json", "--bootstrap", "--plugin=conftest.py"]
    assert main(arguments) == 0
    told = json.loads(Path("out.json").read_text())["comparisons"][0]
    compared = medvqa.compare("reports/before", "reports/after", bootstrap=True, plugins=["conftest.py"])
    assert (compared.baseline, compared.new, compared.unchanged) == ("before", "after", False)
    rows = compared.differences
    assert _types(rows, fields.DIFFERENCE) == _declared(fields.DIFFERENCE)
    assert len(rows) == len(told["measures"])
    plain = rows.astype(object).where(rows.notna(), None).to_dict("records")
    for row, each in zip(plain, told["measures"], strict=True):
        assert (row["measure"], row["technique"], row["headline"]) == (
            each["name"],
            each["technique"],
            each["headline"],
        )
        assert ({row["dimension"]: row["slice"]} if row["dimension"] else {}) == each["slice"]
        for name in fields.DIFFERENCE.keys() & each.keys() - {"slice"}:
            assert row[name] == each[name], name
        assert [row["bootstrap_low"], row["bootstrap_high"]] == (each["bootstrap"] or [None, None])
    sides = [
        (flip["name"], flip["unit"], flip["better"], result["item"], result["outcome"], result["response"])
        for flip in told["flips"]
        for result in flip["new"]
    ]
    flips = compared.flips[["measure", "unit", "better", "item", "new_outcome", "new_answer"]]
    assert list(flips.astype(object).where(flips.notna(), None).itertuples(index=False, name=None)) == sides
    assert _types(compared.flips, fields.FLIP) == _declared(fields.FLIP)
    (part,) = told["parts"]
    row = compared.parts.iloc[0]
    assert (row.matched, row.scored, row.new_errors) == (part["matched"], part["scored"], len(part["errors_new"]))
    shown = capsys.readouterr().out
    assert repr(compared).splitlines()[0] == shown.splitlines()[0] == "after against before"
    assert any("without an answer in after" in note for note in compared.notes)


def test_loaded_runs_know_their_benchmarks_and_metrics() -> None:
    before, after = slake("stubborn:A", run="before"), slake("stubborn:B", run="after")
    compared = medvqa.compare(before, after)
    (accuracy,) = compared.differences.query("headline and dimension == ''").to_dict("records")
    assert (accuracy["baseline"], accuracy["new"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert compared.differences.equals(medvqa.compare("reports/before", after).differences)
    assert medvqa.compare(before, before).unchanged
    assert "<table>" in compared._repr_html_()
    assert "accuracy" in repr(compared)


def test_runs_that_differ_in_several_settings_are_refused_with_each_difference() -> None:
    before = slake("stubborn:A", run="before")
    after = slake("stubborn:A", run="after", ablate="text-only", explain=True)
    said = error_of(lambda: medvqa.compare(before, after)).splitlines()
    assert said[0] == "these runs are not comparable:"
    assert "the image: left out in after, shown in before; the explanation: asked for in after" in said[1]
    assert said[-1] == "anyway=True compares them nevertheless, benchmark='NAME' one benchmark alone"
    compared = medvqa.compare(before, after, anyway=True)
    assert compared.notes[0].startswith("not comparable: 2 settings differ")
    assert "not comparable" in repr(compared)
    assert "not comparable" in compared._repr_html_()
    assert error_of(lambda: medvqa.compare(before, after, benchmark="nowhere")) == (
        "benchmark=nowhere: no run has it; there are: slake"
    )
    with pytest.raises(UsageError, match="no run folder"):
        medvqa.compare(before, "nowhere")


def test_a_part_is_not_compared_as_the_whole() -> None:
    before, after = slake("stubborn:A", run="before"), slake("stubborn:A", run="after", limit=6)
    compared = medvqa.compare(before, after)
    assert "6 of 24 items scored in both runs" in repr(compared)
    assert "after selected slake (mc): 6 of 24, by --limit=6" in compared.notes
    assert compared.parts.baseline_alone.tolist() == [18]


# Progress


def test_progress_is_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    slake(Always)
    assert capfd.readouterr() == ("", "")
    slake(Always, run="second", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) <= 10
    assert err.endswith("24/24 items  100 %  correct 8  wrong 16\n")


class _Terminal:
    def __init__(self) -> None:
        self.written = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None:
        pass


def test_progress_in_a_terminal_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown = progress.chosen(None)
    shown.say("data go to \x1b[31m")
    shown.show(Counter[Outcome]({"correct": 2}), 2)
    shown.close()
    message, *progress_lines = terminal.written.split("\r")
    assert message == "data go to \ufffd[31m\n"
    assert [line.strip() for line in progress_lines] == ["2/2 items  100 %  correct 2"] * 2
    assert terminal.written.endswith(" \n")


def test_progress_in_a_notebook_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[str] = []

    class Handle:
        def update(self, content: Any) -> None:
            displayed.append(content._repr_html_())

    def display(content: Any, display_id: bool = False) -> Handle:
        displayed.append(content._repr_html_())
        return Handle()

    shown = progress.NotebookDisplay(display)
    shown.say("<b>")
    shown.show(Counter[Outcome]({"correct": 2}), 2)
    shown.close()
    assert displayed == [
        "<p>&lt;b&gt;</p>",
        '<div><progress value="2" max="2"></progress> 2/2 items 100 % correct 2</div>',
        "<div>2/2 items 100 % correct 2</div>",
    ]


def test_damaged_data_are_an_error_before_anything_is_asked() -> None:
    broken = replace(SUITE.pytest_medvqa_benchmarks()[0], name="broken_data", items=lambda data: 1 / 0)
    with pytest.raises(DataError, match="ZeroDivisionError"):
        medvqa.evaluate(Always, broken)
    assert not Path("reports").exists()


# --- questions and published rows -------------------------------------------------------------------------------------


def test_questions_are_those_of_a_benchmark_or_of_a_group(tmp_path: Path) -> None:
    items = medvqa.questions("phantom-mediconfusion")
    assert (len(items), items[0].id, items[0].benchmark) == (72, "1/1", "phantom-mediconfusion")
    assert {item.benchmark for item in medvqa.questions("phantom")} > {"phantom-mediconfusion", "phantom-medlesionvqa"}
    with pytest.raises(UsageError, match="no benchmark 'nothing'"):
        medvqa.questions("nothing")
    with pytest.raises(UsageError, match=r"^--data=elsewhere: no such folder"):
        medvqa.questions("mediconfusion", data="elsewhere")


def test_published_rows_have_the_columns_of_the_table() -> None:
    rows = medvqa.published("mediconfusion", 10)
    assert [*rows.columns] == ["row", "Set acc.", "Indiv. acc.", "Confusion"]
    assert rows.set_index("row").loc["10"].tolist() == [23.30, 57.39, 68.00]
    assert medvqa.published("gmai-mmbench").equals(medvqa.published("gmai-mmbench", "2"))
    with pytest.raises(UsageError, match=r"^no paper 'mmbench'; there are: gmai-mmbench, medframeqa, mediconfusion"):
        medvqa.published("mmbench")
    with pytest.raises(UsageError, match=r"of MediConfusion there are those of: 1, 2, 5, 6, 8, 9, 10$"):
        medvqa.published("mediconfusion", 99)
