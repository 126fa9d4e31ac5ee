"""`--track` with the trackers themselves: `tox -e trackers`. MLflow keeps its runs in SQLite, and W&B is offline."""

import json
import os
import re
import struct
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("mlflow") is None or find_spec("wandb") is None:
    pytest.skip("needs MLflow and W&B: tox -e trackers", allow_module_level=True)

from mlflow import MlflowClient
from wandb.proto import wandb_internal_pb2

NUMBER = "phantom-mediconfusion/mc/set_accuracy"


def run(folder: Path, *typed: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`medvqa run` on the phantom's pairs, in a repository with one commit."""
    folder.mkdir(exist_ok=True)
    if not (folder / ".git").is_dir():
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=folder, check=True)
    command = [sys.executable, "-m", "medvqa.cli", "run", "--benchmark=phantom-mediconfusion", *typed]
    variables = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'runs.db'}", "WANDB_MODE": "offline"}
    ci = {"GITHUB_SERVER_URL": "https://name:key@example.org", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "7"}
    told = os.environ | variables | ci | environment
    return subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True)


def tracked(folder: Path) -> list[Any]:
    client = MlflowClient(f"sqlite:///{folder / 'runs.db'}")
    experiment = client.get_experiment_by_name("medvqa")
    return list(client.search_runs([experiment.experiment_id]))


def offline(folder: Path) -> list[Any]:
    """The records of W&B's file of a run that is not synchronised: a log of LevelDB behind a header of 7 bytes."""
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, at, part, records = file.read_bytes(), 7, b"", []
    while at < len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            records.append(wandb_internal_pb2.Record.FromString(part))
            part = b""
    return records


def test_both_get_the_numbers_and_no_answer(tmp_path: Path) -> None:
    done = run(tmp_path, "--model=echo:A", "--run=first", "--track=mlflow,wandb")
    assert done.returncode == 0, done.stderr
    (there,) = tracked(tmp_path)
    assert there.info.status == "FINISHED"
    assert there.data.metrics[NUMBER] == 0
    assert there.data.metrics[f"{NUMBER}/n"] == 36
    assert 0 < there.data.metrics[f"{NUMBER}/high"] < 0.2
    tags = there.data.tags
    assert (tags["medvqa.complete"], tags["medvqa.selection"], tags["medvqa.verdict"]) == ("True", "whole", "none")
    assert tags["medvqa.ci"] == "https://example.org/o/r/actions/runs/7", "neither user nor password"
    assert len(tags["medvqa.commit"]) == 40
    records = offline(tmp_path)
    (started,) = [record.run for record in records if record.HasField("run")]
    assert (started.project, started.display_name, started.run_id) == ("medvqa", "first", tags["medvqa.run"])
    assert started.host == ""
    summary = {update.key or update.nested_key[0]: update.value_json
               for record in records for update in record.summary.update}  # fmt: skip
    assert float(summary[NUMBER]) == 0
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "reports" not in path.parts)
    assert b"set_accuracy" in kept
    lines = (tmp_path / "reports/first/results.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["item"]["question"] for line in lines]
    assert [text for text in questions if text.encode() in kept] == []


def test_a_run_that_goes_on_is_one_run(tmp_path: Path) -> None:
    assert run(tmp_path, "--model=random", "--run=first", "--limit=10", "--track=mlflow").returncode == 0
    (before,) = tracked(tmp_path)
    assert before.data.tags["medvqa.selection"] == "phantom-mediconfusion mc: 10 of 72, by --limit=10"
    assert run(tmp_path, "--model=random", "--run=first", "--track=mlflow").returncode == 0
    (after,) = tracked(tmp_path)
    assert after.info.run_id == before.info.run_id
    assert (before.data.metrics[f"{NUMBER}/n"], after.data.metrics[f"{NUMBER}/n"]) == (5, 36)
    assert after.data.tags["medvqa.selection"] == "whole"


def test_a_server_that_is_away_holds_nobody_up(tmp_path: Path) -> None:
    began = time.monotonic()
    away = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}
    assert run(tmp_path, "--model=random", "--run=first", "--track=mlflow", **away).returncode == 0
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_a_tracker_that_fails_is_a_line_and_costs_nothing(tmp_path: Path, tracker: str) -> None:
    broken = {"MLFLOW_TRACKING_URI": "no-such-scheme://x", "WANDB_MODE": "no such mode"}
    done = run(tmp_path, "--model=random", "--run=first", f"--track={tracker}", **broken)
    assert done.returncode == 0, "the run stays as it is"
    assert re.search(r"^! .*pytest_medvqa_finished.*$", done.stdout + done.stderr, re.M), done.stdout + done.stderr
    assert (tmp_path / "reports/first/index.html").is_file()
