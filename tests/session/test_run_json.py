"""run.json with wrong types, field by field: every command reads it or says in one line what is wrong, and where."""

import copy
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import phantom
from medvqa.cli import main
from medvqa.items import Answer, Benchmark, DataError, Item, Judgement, Result, Score, UsageError
from medvqa.records import baseline_file, configuration, run_folder, run_record
from medvqa.records.run_folder import Recorder
from medvqa.records.run_record import RecordError
from medvqa.session import gates
from medvqa.session.delivery import Delivery
from medvqa.session.opening import Process
from medvqa.session.plan import Plan
from medvqa.session.run import Run
from support.runs import record

OPEN, PAIRS = "phantom-medlesionvqa", "phantom-mediconfusion"
KNOWN: Mapping[str, Benchmark] = {each.name: each for each in phantom.BENCHMARKS}
TIME = "2026-01-02T10:00:00+00:00"
CONFIG = {"name": "stubborn", "backend": "echo", "argument": "A", "options": {}, "path": "A"}
CONFIG |= {"max_tokens": {PAIRS: 64}, "own_max_tokens": 32}
OPTIONS = {"model": "echo:A", "benchmark": [], "technique": [], "judge": None, "ablate": None, "limit": 5}
OPTIONS |= {"shard": "1/1", "fresh": False, "batch_size": None, "concurrency": None, "deadline": None}
OPTIONS |= {"max_errors": 50, "answers_from_category": False, "max_tokens": None}


def said_of(name: str, judge: Mapping[str, str]) -> dict[str, Any]:
    return {
        "items": 9,
        "data_sha256": "d1" * 32,
        "answers": "given",
        "judged": {"score": "judging/score@1"},
        "judged_by": ["mc"],
        "signature": {"data": "d1", "extraction": "sound", "answers": "given", **judge},
        "prompts": {"mc": f"{name}/mc@1"},
        "kinds": ["short_answer", "single_choice"],
        "questions": {"mc": 9},
        "read_by": {"short_answer": "sound", "single_choice": "sound"},
        "max_tokens": {"mc": {"short_answer": 256, "single_choice": 32}},
    }


ABOUT: dict[str, Any] = {
    "name": "first",
    "started": TIME,
    "finished": "2026-01-02T11:00:00+00:00",
    "model": {"name": "stubborn", "fingerprint": "f1", "checkpoint": "x/y", "settings": {"dtype": "bf16"}},
    "options": OPTIONS,
    "config": CONFIG,
    "techniques": ["mc"],
    "repeat": None,
    "judge": {
        "config": CONFIG,
        "settings": {"gap": 3.0, "extract": False, "rules_first": False, "own_prompts": []},
        "templates": {"score": "judging/score@1"},
        "signature": {"template": "judging/score@1"},
        "name": "judge",
        "fingerprint": "j1",
        "identity": "judge@1",
        "about": {},
        "batch_size": 1,
        "concurrency": 4,
    },
    "extraction": "sound",
    "ablation": None,
    "benchmarks": {name: said_of(name, {"judge": "judge@1"}) for name in (OPEN, PAIRS)},
    "versions": {"python": "3.11.7", "pytest-medvqa": "0.1.0"},
    "sessions": [
        {"session": "a1", "started": TIME, "workers": 0, "options": OPTIONS, "asked": 1, "reused": 2},
        {
            "session": "b2",
            "started": TIME,
            "finished": TIME,
            "workers": 2,
            "options": OPTIONS,
            "asked": 3,
            "reused": 4,
            "judge_asked": 1,
            "judge_reused": 1,
            "usage": {"input": 3},
            "judge_usage": {"input": 3},
        },
    ],
    "engine": {"batch_size": 8, "concurrency": 1},
    "unread_answers": ["x line 3: torn"],
    "missing": [],
    "selection": {
        "how": ["-k liver"],
        "by_outcome": False,
        "questions": 0,
        "benchmarks": {OPEN: {"mc": {"chosen": 3, "of": 9}}},
    },
    "usage": {"input": 12, "output": 3.5, "cost": 0.25},
    "judge_usage": {"input": 12},
    "left_out": {PAIRS: {"gd": {"short_answer": 2}}},
    "served_by": ["tiny"],
    "merged": [{"name": "part", "shard": "1/1", "started": TIME, "finished": TIME, "usage": {"input": 1}}],
    "gate": {
        "digest": "0" * 12,
        "rules": {"margin": 2.0, "floor": [{"benchmark": PAIRS, "measure": "set_accuracy", "at_least": 0.1}]},
        "baselines": [{"name": "first", "path": "baseline", "digest": "0" * 12}],
    },
}

VALUES: Mapping[str, Any] = {
    "null": None,
    "number": 7,
    "fraction": -0.5,
    "text": "odd \x1b[31m",
    "list": [1, "a", None],
    "object": {"a": {"b": 1}},
    "bool": True,
    "huge": 10**40,
    "missing": ...,
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values within a JSON value, but for itself."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inside:
        yield (*path, name)
        yield from places(each, (*path, name))


def changed(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """run.json with another value at a place, or without it."""
    made = copy.deepcopy(ABOUT)
    inner: Any = made
    for name in place[:-1]:
        inner = inner[name]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return made


Case = tuple[tuple[Any, ...], str]
"""The path of a value in run.json, and the name of what stands there instead."""
CASES: list[Case] = [(place, name) for place in places(ABOUT) for name in VALUES]


def result(item: Item, said: str, value: float) -> Result:
    judged = item.kind == "short_answer"
    judgement = Judgement("judge", "judging/score@1", "score", (f"<result>{value}</result>",)) if judged else None
    score = Score(value, "correct" if value == 1 else "wrong", (said,), "why")
    return Result("first", item, "0" * 64, Answer(said, usage={"input": 1}), score, "mc", judgement)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a run, a second one to compare it with, and its baseline file."""
    root = tmp_path_factory.mktemp("repository")
    chosen = [item for item in benchmarks.load(KNOWN[OPEN], Path()) if item.kind == "short_answer"][:3]
    chosen += benchmarks.load(KNOWN[PAIRS], Path())[:4]
    for name in ("first", "baseline"):
        recorder = Recorder(root / name)
        for number, item in enumerate(chosen):
            recorder.append(run_folder.encode(result(item, "A", float(number % 2))))
        recorder.close()
        merged = [{**ABOUT["merged"][0], "name": f"part of {name}"}]
        run_folder.write_json(root / name / "run.json", {**ABOUT, "name": name, "merged": merged})
    return root


def commands(root: Path) -> Mapping[str, list[str]]:
    first, baseline, out = (str(root / name) for name in ("first", "baseline", "out"))
    return {
        "report": ["report", first, "--images=none"],
        "compare": ["compare", first, baseline],
        "reverse": ["compare", baseline, first],
        "gate": ["gate", first, f"--rules={root / 'none.toml'}"],
        "against": ["gate", baseline, f"--baseline={first}", f"--rules={root / 'none.toml'}"],
        "baseline": ["baseline", first, "-o", str(root / "file.medvqa")],
        "merge": ["merge", first, baseline, "-o", out],
        "rescore": ["rescore", first, "--extraction=sound"],
        "agreement": ["agreement", first, "--sample=2", "-o", str(root / "sheet.csv")],
    }


def resumes(folder: Path) -> None:
    """What a session does with the run.json of the run that it goes on with."""
    before = run_record.read_run(folder)
    now = record(ABOUT)
    configuration.why_not_continued(before, now)
    assert before.judged_by_rule in (True, False)
    registry = SimpleNamespace(benchmarks=KNOWN, metrics=(), finished=())
    registry.with_runs = lambda folders: registry
    plan: Any = SimpleNamespace(
        registry=registry,
        extraction="sound",
        judge=None,
        name_of=lambda key: key.item,
        options=SimpleNamespace(answers=None, data=None, shard_source="", max_cost=None, stop=None, gate=gates.OFF),
        project=SimpleNamespace(collects_only=False, selects=(), by_outcome=False),
        shard=None,
        benchmarks={},
        has_every_answer=lambda selected: False,
    )
    plan.reads_anew = partial(Plan.reads_anew, plan)
    with patch("medvqa.session.about.about", lambda _: now):
        run = Run(plan, Process(folder, "c3", "main"))
        run.take(Delivery([], []))
        if (problem := run.finish().problem) is not None:
            raise UsageError(problem)


@pytest.fixture(autouse=True)
def _stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go back to the folder from which `check` goes away."""
    monkeypatch.chdir(Path.cwd())


def check(template: Path, root: Path, run: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run every command on a changed run.json; the complaints of those that refuse it."""
    refused = []
    os.chdir(root)
    (root / "none.toml").write_text("[tool.medvqa.gate]\n")
    for name, typed in commands(root).items():
        for folder in ("first", "baseline", "out"):
            shutil.rmtree(root / folder, ignore_errors=True)
        for folder in ("first", "baseline"):
            shutil.copytree(template / folder, root / folder)
        (root / "first" / "run.json").write_text(json.dumps(run))
        code = main(typed)
        printed = capsys.readouterr()
        if code == 4:
            assert len(printed.err.strip().splitlines()) == 1 or "comparable" in printed.err, (name, printed.err)
            refused.append(printed.err)
    shutil.rmtree(root / "first")
    shutil.copytree(template / "first", root / "first")
    (root / "first" / "run.json").write_text(json.dumps(run))
    try:
        resumes(root / "first")
    except (UsageError, DataError) as error:
        refused.append(str(error))
    return refused


def wrong(run: dict[str, Any]) -> str | None:
    """Why run.json is refused."""
    try:
        run_record.record_of(run)
    except RecordError as error:
        return str(error)
    return None


@cache
def shared_out() -> tuple[list[Case], list[Case]]:
    """The cases that are refused, and those that are taken; not for every process that only collects this file."""
    refused = [case for case in CASES if wrong(changed(case[0], VALUES[case[1]])) is not None]
    return refused, [case for case in CASES if case not in refused]


def fuzz(cases: Sequence[Case], one: Callable[[dict[str, Any]], object]) -> None:
    failed: dict[str, str] = {}
    for place, name in cases:
        try:
            one(changed(place, VALUES[name]))
        except Exception as error:  # noqa: BLE001 - all of them are counted
            failed[f"{'.'.join(map(str, place))} = {name}"] = f"{type(error).__name__}: {error}"
    assert failed == {}


def test_the_run_itself_is_read_by_every_command(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(template, tmp_path, ABOUT, capsys) == []


@pytest.mark.parametrize("step", [90, pytest.param(10, marks=pytest.mark.slow)])
def test_what_is_taken_ends_in_no_traceback(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], step: int
) -> None:
    _, taken = shared_out()
    fuzz(taken[::step], lambda run: check(template, tmp_path, run, capsys))


def test_what_is_refused_is_one_line_of_every_command(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused, _ = shared_out()
    assert len(refused) > 1000

    def one(run: dict[str, Any]) -> None:
        assert len(check(template, tmp_path, run, capsys)) == len(commands(tmp_path)) + 1

    fuzz(refused[::120], one)


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        (("benchmarks",), ["a"], "benchmarks"),
        (("benchmarks", OPEN, "items"), "9", f"benchmarks.{OPEN}.items"),
        (("judge", "settings", "gap"), "3", "judge.settings.gap"),
        (("usage", "input"), None, "usage.input"),
        (("sessions", 1, "asked"), {}, "sessions[1].asked"),
        (("ablation",), [], "ablation"),
        (("extraction",), "loose", "extraction"),
        (("repeat",), -3, "repeat"),
        (("options", "shard"), 3, "options.shard"),
        (("benchmarks", OPEN, "max_tokens"), {"mc": 32}, f"benchmarks.{OPEN}.max_tokens.mc"),
        (("benchmarks", OPEN, "kinds"), "single_choice", f"benchmarks.{OPEN}.kinds"),
        (("benchmarks", OPEN, "read_by"), ["sound"], f"benchmarks.{OPEN}.read_by"),
        (("config", "own_max_tokens"), "32", "config.own_max_tokens"),
    ],
)
def test_the_line_names_file_field_and_remedy(
    template: Path, tmp_path: Path, place: tuple[Any, ...], value: Any, field: str
) -> None:
    shutil.copytree(template / "first", tmp_path / "first")
    path = tmp_path / "first" / "run.json"
    path.write_text(json.dumps(changed(place, value)))
    with pytest.raises(UsageError) as refused:
        run_record.read_run(path.parent)
    line = str(refused.value)
    assert line.startswith(f"{path}: field {field}: expected ")
    assert "move the file away" in line
    assert "--run=first" in line


@pytest.mark.parametrize("extraction", ["sound", "official", "official:2025-08", "official:2031-01"])
def test_a_rule_may_have_a_version(extraction: str) -> None:
    assert wrong(changed(("extraction",), extraction)) is None


@pytest.mark.parametrize(
    "content", [b'{"a":' + b"[" * 100_000, b'{"name": "\xff"}', b"[]", b"null", b"", b'{"name": 1e999}']
)
def test_what_is_no_json_object_is_damaged(template: Path, tmp_path: Path, content: bytes) -> None:
    shutil.copytree(template / "first", tmp_path / "first")
    (tmp_path / "first" / "run.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"run\.json: .*move the file away"):
        run_record.read_run(tmp_path / "first")


OLD = ("judge", "judge_usage", "ablation", "repeat", "merged", "gate", "served_by", "left_out", "sessions", "missing")
OLD += ("selection",)


def test_fields_that_an_old_run_lacks_have_defaults(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {name: value for name, value in ABOUT.items() if name not in OLD}
    old["gate"] = ABOUT["gate"]
    for said in old["benchmarks"].values():
        assert said
    assert check(template, tmp_path, old, capsys) == []


def test_fields_that_nobody_knows_stay(template: Path, tmp_path: Path) -> None:
    shutil.copytree(template / "first", tmp_path / "first")
    (tmp_path / "first" / "run.json").write_text(json.dumps({**ABOUT, "later": [1, {"x": None}]}))
    assert run_record.read_run(tmp_path / "first").as_json()["later"] == [1, {"x": None}]
    assert main(["rescore", str(tmp_path / "first"), "--extraction=sound"]) == 0
    assert run_record.read_run(tmp_path / "first").as_json()["later"] == [1, {"x": None}]


@pytest.mark.parametrize("line", [b'{"item":{"extra":{"a":' + b"[" * 100_000, b'{"run": "\xff"}'])
def test_a_line_of_results_that_is_none_is_told_and_costs_no_other(
    template: Path, tmp_path: Path, line: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(template / "first", tmp_path / "first")
    results = tmp_path / "first" / "results.jsonl"
    with results.open("ab") as file:
        file.write(line + b"\n")
    stored = run_folder.read(tmp_path / "first")
    assert (len(stored.results), len(stored.unread)) == (7, 1)
    assert main(["report", str(tmp_path / "first")]) == 1, "nobody knows what it held"
    assert "not read: " in capsys.readouterr().out
    results.write_bytes(line + b"\n")
    deep = run_folder.read(tmp_path / "first")
    assert (deep.results, len(deep.unread)) == ((), 1)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"score": {"value": 70.0, "outcome": "correct"}}, "the score is 70.0; a number from 0 to 1 is expected"),
        ({"score": {"value": -1e308, "outcome": "wrong"}}, "the score is -1e+308; a number from 0 to 1 is expected"),
        ({"score": {"value": None, "outcome": "correct"}}, "the score is None and the outcome 'correct'"),
        ({"score": {"value": 1.0, "outcome": "unscored"}}, "the score is 1.0 and the outcome 'unscored'"),
        ({"item": {"id": "q", "benchmark": OPEN, "question": "?"}}, "the item has no kind"),
    ],
)
def test_a_line_of_results_that_no_run_writes_is_not_counted(
    template: Path, tmp_path: Path, changes: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(template / "first", tmp_path / "first")
    results = tmp_path / "first" / "results.jsonl"
    first, *others = results.read_text().splitlines()
    results.write_text("\n".join([json.dumps(json.loads(first) | changes), *others]) + "\n")
    stored = run_folder.read(tmp_path / "first")
    assert (len(stored.results), [line.partition(": ")[2] for line in stored.unread]) == (6, [why])
    assert main(["report", str(tmp_path / "first")]) == 1
    assert f"not read: {results} line 1: {why}" in capsys.readouterr().out


@pytest.mark.parametrize("extra", [{}, {"vocabulary": 7}, {"vocabulary": {"liver": 7}}])
def test_an_item_without_what_its_scoring_needs_is_one_line(
    template: Path, tmp_path: Path, extra: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(template / "first", tmp_path / "first")
    results = tmp_path / "first" / "results.jsonl"
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    for line in lines:
        line["item"]["extra"], line["judgement"] = extra, None
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["report", str(tmp_path / "first")]) == 0
    assert main(["rescore", str(tmp_path / "first"), "--extraction=sound"]) == 4
    assert re.fullmatch(r"medvqa: .*: extra field 'vocabulary': .*\n", capsys.readouterr().err)


@pytest.mark.parametrize("content", [b'{"missing": ["\xff"]}'])
def test_metrics_of_wrong_types_are_one_line(
    template: Path, tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "baseline"):
        shutil.copytree(template / name, tmp_path / name)
    (tmp_path / "first" / "metrics.json").write_bytes(content)
    assert main(["merge", str(tmp_path / "first"), str(tmp_path / "baseline"), "-o", str(tmp_path / "out")]) == 4
    assert "metrics.json" in capsys.readouterr().err


def write_header(path: Path, run: Mapping[str, Any]) -> None:
    """Write the first line of a baseline file, which a run of wrong types has none of."""
    header = {"medvqa_baseline": 1, "responses": True, "results": 0, "run": run}
    path.write_bytes(gzip.compress(json.dumps(header).encode() + b"\n"))


def test_a_baseline_file_of_wrong_types_is_one_line(tmp_path: Path) -> None:
    run = changed(("benchmarks", OPEN, "judged_by"), 7)
    path = tmp_path / "main.medvqa"
    write_header(path, run)
    with pytest.raises(DataError, match=rf"main\.medvqa line 1: field run\.benchmarks\.{OPEN}\.judged_by: expected"):
        baseline_file.read_baseline(path)


TEST = """
import pytest

@pytest.mark.vqa("phantom-mediconfusion")
def test_phantom(item, evaluate):
    evaluate(item)
"""


@pytest.mark.slow
def test_a_run_goes_on_or_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "test_asked.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    call = partial(
        subprocess.run,
        [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:html", "--model=echo:A", "--run=r", "-q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert call().returncode == 0
    path = tmp_path / "reports" / "r" / "run.json"
    run = json.loads(path.read_text())
    typed = run_record.record_of(run)
    assert not typed.unknown, "what is written has a type"
    assert not typed.config.unknown
    assert not typed.benchmarks[PAIRS].unknown
    path.write_text(json.dumps({**run, "sessions": {"a": 1}}))
    refused = call()
    assert refused.returncode == 4
    assert "run.json: field sessions: expected " in refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr
    path.unlink()
    assert call().returncode == 0, "the remedy that the line names"
