"""The GitHub Action: well formed, and its steps do what they say in a user's repository."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


def test_it_is_a_composite_action() -> None:
    assert set(ACTION) == {"name", "description", "inputs", "runs"}
    assert ACTION["runs"]["using"] == "composite"
    for step in ACTION["runs"]["steps"]:
        assert ("run" in step) != ("uses" in step), step["name"]
        assert "run" not in step or step["shell"] == "bash", step["name"]
    assert all(set(each) == {"description", "default"} for each in ACTION["inputs"].values())


def test_it_names_its_inputs_and_no_others() -> None:
    names = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text()))
    assert names == set(ACTION["inputs"])


def test_no_input_is_a_part_of_a_script() -> None:
    assert [step["name"] for step in ACTION["runs"]["steps"] if EXPRESSION.search(step.get("run", ""))] == []


def test_no_step_uses_an_action_without_its_version() -> None:
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", each) for each in used)


@dataclass
class Done:
    code: int
    summary: str
    printed: str


def act(folder: Path, **inputs: str) -> Done:
    """Run the action's scripts as GitHub does, without the steps that use other actions."""
    values = {name: each["default"] for name, each in ACTION["inputs"].items()}
    values |= {"install": "false", **{name.replace("_", "-"): value for name, value in inputs.items()}}
    shutil.copytree(ROOT / "benchmark_tests", folder / "benchmark_tests")
    (folder / "pytest.ini").write_text("[pytest]\n")
    summary = folder.parent / "summary.md"
    summary.write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    environment["GITHUB_STEP_SUMMARY"] = str(summary)
    code, printed = 0, ""
    for step in ACTION["runs"]["steps"]:
        condition = step.get("if", "")
        if "run" not in step or not holds(condition, values) or (code and condition != "always()"):
            continue
        mine = {name: EXPRESSION.sub(lambda found: values[found[1].removeprefix("inputs.")], text)
                for name, text in step["env"].items()}  # fmt: skip
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=environment | mine,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        code = code or done.returncode
        printed += done.stdout + done.stderr
    return Done(code, summary.read_text(), printed)


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    if condition in ("", "always()"):
        return True
    found = re.fullmatch(r"inputs\.([a-z-]+) == '(.*)'", condition)
    assert found is not None, condition
    return bool(values[found[1]] == found[2])


@pytest.mark.slow
def test_the_phantom_gate_passes_as_written(tmp_path: Path) -> None:
    done = act(tmp_path / "checkout")
    assert done.code == 0, done.printed
    assert "## Gate: PASS against gate-baseline" in done.summary
    assert (tmp_path / "checkout/reports/gate/index.html").is_file()


@pytest.mark.slow
def test_a_model_that_cannot_be_told_apart_fails_and_is_summarised(tmp_path: Path) -> None:
    options = {"model": "random:1", "baseline_model": "random", "arguments": "-n 2 --gate-slices=kind"}
    done = act(tmp_path / "checkout", **options)
    assert done.code == 11, done.printed
    assert "## Gate: INCONCLUSIVE against gate-baseline (exit code 11)" in done.summary.replace("\\", "")
    lenient = act(tmp_path / "lenient", **options, inconclusive="pass")
    assert lenient.code == 0, lenient.printed


@pytest.mark.slow
def test_an_input_is_no_command(tmp_path: Path) -> None:
    done = act(tmp_path / "checkout", baseline="$(touch evil)", arguments="; touch worse", model="random")
    assert done.code == 4, done.printed
    assert done.summary == ""
    assert not (tmp_path / "checkout/evil").exists()
    assert not (tmp_path / "checkout/worse").exists()
