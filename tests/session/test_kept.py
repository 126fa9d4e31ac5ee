"""Runs, answers and baselines of an earlier version (tests/kept) are drawn, compared, gated and continued as then.

What is drawn on purpose otherwise is drawn anew by `python tests/kept/make.py --expected`, whose text says when.
"""

import difflib
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from kept import drawing
from medvqa.records import log
from support import processes

pytestmark = pytest.mark.usefixtures("outside")

ROOT = Path(__file__).parents[2]
DIGITS = ("numpy", "pillow", "rich", "scipy")
"""Other versions of these draw other images, or other last digits."""
ENDED = [pytest.param(run, marks=[pytest.mark.slow] if run == "spread" else [], id=run) for run in drawing.ENDED]


def pinned(name: str) -> bool:
    (wanted,) = re.findall(rf"^{name}==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    try:
        return version(name).partition("+")[0] == wanted.partition("+")[0]
    except PackageNotFoundError:
        return False


EXACT = pytest.mark.skipif(
    not all(map(pinned, DIGITS)), reason=f"equal to the byte with the {', '.join(DIGITS)} of constraints.txt"
)
SAME_TORCH = pytest.mark.skipif(
    not all(map(pinned, ("torch", "transformers"))), reason="the fingerprint of a checkpoint names their versions"
)


# --- drawn again ----------------------------------------------------------------------------------------------------


@EXACT
@pytest.mark.parametrize("case", drawing.CASES)
def test_what_is_drawn_from_kept_runs_is_equal_to_the_byte(case: str, tmp_path: Path) -> None:
    drawing.lay_suite(tmp_path)
    drawing.lay_runs(tmp_path, [*drawing.MADE, "merged"], logs=("judged",))
    found, wanted = drawing.draw(tmp_path, case), drawing.expected(case)
    assert found.keys() == wanted.keys()
    for name, content in found.items():
        assert content == wanted[name], difference(name, wanted[name], content)


def difference(name: str, wanted: bytes, found: bytes) -> str:
    """The first lines that differ."""
    lines = difflib.unified_diff(
        wanted.decode().splitlines(), found.decode().splitlines(), f"kept {name}", f"drawn {name}", lineterm="", n=1
    )
    return "\n".join(line[:300] for _, line in zip(range(40), lines, strict=False))


def test_kept_files_are_small_and_name_no_machine() -> None:
    files = [path for path in drawing.HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 1_900_000
    assert {path.name for path in drawing.RUNS.iterdir()} == {*drawing.MADE, "merged"}
    assert {path.name for path in drawing.EXPECTED.iterdir()} == {
        *drawing.CASES,
        *(f"session-{run}" for run in drawing.ENDED),
    }
    told = [path for path in files if path.suffix in (".json", ".jsonl", ".answers", ".log")]
    assert len(told) > 40
    for path in told:
        text = path.read_text("utf-8")
        assert not re.search(r"/(tmp|home|root|work|Users)/", text), path
        dates = set(re.findall(r"\d{4}-\d\d-\d\dT\d\d", text))
        # The logs of other harnesses stay as these wrote them.
        assert path.parent.name == "harness_logs" or {date[:10] for date in dates} <= {drawing.DATE}, path


# --- made anew ------------------------------------------------------------------------------------------------------


def session(pytester: pytest.Pytester, run: str, typed: Sequence[str] = ()) -> tuple[int, str]:
    """Type what made a kept run, or what is given, in a repository laid out before; exit code and output."""
    if run == "ruled":
        shutil.copy(pytester.path / "rules.toml", pytester.path / "pyproject.toml")
    arguments = [f"--run={run}", *(typed or drawing.MADE[run])]
    if "-n2" not in arguments:
        made = pytester.runpytest_inprocess(*arguments)
        return int(made.ret), made.stdout.str()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    done = processes.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=pytester.path, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout


def calls(root: Path) -> list[list[str]]:
    """The items of each call of the model, and `judge` for each prompt of the judge."""
    path = root / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[1:] for line in lines]


def asked(root: Path) -> Counter[str]:
    return Counter(item for items in calls(root) for item in items)


def check_equal(root: Path, run: str) -> None:
    """A run that was made anew has the results, the facts and the measures of the kept one."""
    folder = root / "reports" / run
    assert drawing.results_of(folder) == drawing.results_of(drawing.RUNS / run)
    made, kept = drawing.run_of(folder), drawing.run_of(drawing.RUNS / run)
    for about in (made, kept):
        if rules := about.get("gate"):
            # The kept runs were made before rules fixed a correlation of flips.
            del rules["digest"]
            rules["rules"].pop("flip_icc", None)
    assert made == kept
    check_measures(folder, f"report-{run}", f"reports/{run}/metrics.json")


def check_measures(folder: Path, case: str, name: str) -> None:
    if all(map(pinned, DIGITS)):
        wanted = drawing.comparable(json.loads(drawing.expected(case)[name]))
        found = drawing.comparable(json.loads((folder / "metrics.json").read_text("utf-8")))
        for gate in filter(None, (found["gate"], wanted["gate"])):
            # A kept verdict has the words and the bounds of its version, which knew no correlation of flips.
            for part in ("rules", "flip_icc", "notes", "read_from"):
                gate.pop(part, None)
            for entry in gate["entries"]:
                for part in ("why", "low", "high", "p", "adjusted", "needed", "detectable", "df", "holds_to"):
                    del entry[part]
        for part in ("measures", "gate", "outcomes", "missing"):
            assert found[part] == wanted[part], part


@pytest.mark.parametrize("run", ENDED)
def test_a_run_made_anew_equals_the_kept_one(run: str, pytester: pytest.Pytester) -> None:
    drawing.lay_suite(pytester.path)
    drawing.lay_runs(pytester.path, () if run == "main" else ("main",))
    code, output = session(pytester, run)
    assert code == drawing.EXIT.get(run, 0)
    check_equal(pytester.path, run)
    assert drawing.session_of(pytester.path, run, output) == drawing.expected(f"session-{run}")
    reports = pytester.path / "reports"
    kept = drawing.answers_of(drawing.LOGS / run) | drawing.answers_of(drawing.RUNS / run)
    assert drawing.answers_of(reports / run) == kept
    assert kept


@pytest.mark.parametrize("run", [*ENDED, pytest.param("vlm", marks=[pytest.mark.slow, SAME_TORCH], id="vlm")])
def test_all_stored_answers_of_a_kept_run_are_reused(run: str, pytester: pytest.Pytester) -> None:
    """The results are lost, and are made of stored answers again: of logs, or of files of earlier versions."""
    drawing.lay_suite(pytester.path)
    drawing.lay_runs(pytester.path, (run,), logs=[run] if (drawing.LOGS / run).exists() else [])
    folder = pytester.path / "reports" / run
    (folder / "results.jsonl").unlink()
    code, _ = session(pytester, run)
    assert code == drawing.EXIT.get(run, 0)
    last = json.loads((folder / "run.json").read_text("utf-8"))["sessions"][-1]
    lines = [json.loads(line) for line in drawing.results_of(drawing.RUNS / run)]
    errors = Counter(line["item"]["id"] for line in lines if line["answer"] is None)
    assert asked(pytester.path) == errors, "an error is no answer, and is asked about again"
    assert (last["asked"], last["reused"]) == (errors.total(), len(lines) - errors.total())
    assert last.get("judge_asked", 0) == 0
    assert drawing.results_of(folder) == drawing.results_of(drawing.RUNS / run)
    check_measures(folder, f"report-{run}", f"reports/{run}/metrics.json")


@pytest.mark.parametrize("run", [*ENDED, *drawing.KILLED])
def test_a_kept_run_without_logs_goes_on_from_its_results(run: str, pytester: pytest.Pytester) -> None:
    """Runs of earlier versions kept their answers in a folder beside all runs, which is not read any more."""
    drawing.lay_suite(pytester.path)
    drawing.lay_runs(pytester.path, (run,))
    kept = [json.loads(line) for line in drawing.results_of(drawing.RUNS / run)]
    answered = {line["item"]["id"] for line in kept if line["answer"] is not None}
    session(pytester, run, drawing.TEXT if run in drawing.KILLED else ())
    assert not answered & asked(pytester.path).keys()
    last = json.loads((pytester.path / "reports" / run / "run.json").read_text("utf-8"))["sessions"][-1]
    assert last["reused"] == sum(line["answer"] is not None for line in kept)
    assert last.get("judge_asked", 0) == 0
    if run in ENDED:
        assert drawing.results_of(pytester.path / "reports" / run) == drawing.results_of(drawing.RUNS / run)


def test_answers_of_a_server_are_stored_under_the_fingerprint_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all that was paid for is asked again. How a backend is made may change, and the two texts may not.

    They changed once, with version 2 of how images are encoded.
    """
    pytest.importorskip("openai", reason="needs openai: pip install 'pytest-medvqa[openai]'")
    from medvqa.backends.openai import OpenAI, OpenAIOptions

    monkeypatch.setenv("KEPT_KEY", "none")
    url, key = "https://api.example.org/v1", "KEPT_KEY"
    plain = OpenAI("large", OpenAIOptions(base_url=url, key_env=key))
    tuned = OpenAI("large", OpenAIOptions(base_url=url, key_env=key, reasoning=True, system="Be brief.", timeout=9))
    try:
        plain.load()
        tuned.load()
        assert plain.fingerprint() == "large@https://api.example.org/v1 85356e9f70935692"
        assert tuned.fingerprint() == "large@https://api.example.org/v1 34921456a3976559"
    finally:
        plain.close()
        tuned.close()


# --- killed runs ----------------------------------------------------------------------------------------------------


def results_but_run(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in drawing.results_of(folder)]
    return [{name: value for name, value in line.items() if name != "run"} for line in lines]


GOING_ON = [
    pytest.param(run, spread, id=f"{run}-{'on-two' if spread else 'alone'}", marks=[pytest.mark.slow] if spread else [])
    for run in drawing.KILLED
    for spread in ((), ("-n2",))
]


@pytest.mark.parametrize(("run", "spread"), GOING_ON)
def test_a_killed_run_goes_on_and_asks_nothing_twice(
    run: str, spread: tuple[str, ...], pytester: pytest.Pytester
) -> None:
    drawing.lay_suite(pytester.path)
    drawing.lay_runs(pytester.path, (run,), logs=(run,))
    folder = pytester.path / "reports" / run
    stored = len(drawing.answers_of(drawing.LOGS / run))
    known = {line["item"]["id"] for line in results_but_run(folder) if line["answer"] is not None}
    assert 0 < len(known) <= stored < 34
    assert any(log.read_log(path)[0].calls for path in log.logs(folder / "answers")), "a call was in flight"
    code, _ = session(pytester, run, (*drawing.TEXT, "--batch-size=3", *spread))
    assert code == drawing.EXIT["whole"]
    now = asked(pytester.path)
    assert set(now.values()) == {1}
    assert now.total() == 36 - stored
    assert not known & now.keys()
    assert [drawing.KILLED[run]] in calls(pytester.path), "what was asked when the run died is asked alone"
    last = json.loads((folder / "run.json").read_text("utf-8"))["sessions"][-1]
    assert (last["asked"], last["reused"]) == (36 - stored, stored)
    assert results_but_run(folder) == results_but_run(drawing.RUNS / "whole")
    if all(map(pinned, DIGITS)):
        measures = json.loads(drawing.expected("report-whole")["reports/whole/metrics.json"])["measures"]
        assert json.loads((folder / "metrics.json").read_text("utf-8"))["measures"] == measures
    assert not (folder / "answers" / "deaths").exists()
