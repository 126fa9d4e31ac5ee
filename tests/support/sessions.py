"""Sessions in a stranger's repository, serial and spread over workers, and readers of what they write."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medvqa.items import QuestionKey
from medvqa.records.run_folder import read

SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2")]
SPREAD_SLOWLY = [SPREAD[0], pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]
"""For tests of many cases, of which one or two are spread elsewhere in the fast tier too."""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Workers need processes of their own; without them a session within this one is much faster."""
    way = pytester.runpytest_subprocess if "-n2" in arguments else pytester.runpytest_inprocess
    return way("-p", "no:randomly", "-p", "no:benchmark", *arguments)


def folder(pytester: pytest.Pytester) -> Path:
    (found,) = (path for path in (pytester.path / "reports").iterdir() if not path.name.startswith("."))
    return found


def written(run_folder: Path) -> dict[str, Any]:
    return json.loads((run_folder / "metrics.json").read_text())


def others(root: Path, run: str) -> list[str]:
    """What names the answers of all other runs of a repository."""
    runs = sorted((root / "reports").glob("*/run.json"))
    return [f"--answers={path.parent.name}" for path in runs if path.parent.name != run]


def another(run_folder: Path, name: str) -> Path:
    """A run with the same answers, given in other sessions: no run is its own baseline."""
    copy = shutil.copytree(run_folder, run_folder.with_name(name))
    told = json.loads((copy / "run.json").read_text())
    told |= {"name": name, "sessions": [session | {"session": "0" * 32} for session in told["sessions"]]}
    (copy / "run.json").write_text(json.dumps(told))
    lines = (copy / "results.jsonl").read_text().splitlines()
    (copy / "results.jsonl").write_text("".join(json.dumps(json.loads(line) | {"run": name}) + "\n" for line in lines))
    return copy


def outcomes(run_folder: Path) -> Counter[str]:
    lines = (run_folder / "results.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["score"]["outcome"] for line in lines)


def keys(run_folder: Path) -> list[QuestionKey]:
    return [result.key for result in read(run_folder).results]


def text(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()
