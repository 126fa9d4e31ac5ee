"""Whole runs of a model whose server is started for the run: by every door, with workers, killed, and continued."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support import processes, slurm, tinies
from unit.test_serve_backend import gone, pids

pytest.importorskip("openai")
pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[1] / "support/stand_in_server.py"
CONFIG = """
backend = "serve"
argument = "tiny"
[server]
command = "{python} {program} {{model}} {{port}} --gpus={{gpus}} --pids=pids {more}"
wait = 60
"""
TEST = """
import pytest

@pytest.mark.vqa("phantom-mediconfusion")
def test_it(item, evaluate):
    evaluate(item)
"""
RUN = ("--model=mine", "--benchmark=phantom-mediconfusion")
MEDVQA = (sys.executable, "-m", "medvqa.cli", "run", *RUN)
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:benchmark", *RUN)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write(tmp_path)
    return tmp_path


def write(project: Path, *more: str) -> None:
    text = CONFIG.format(python=sys.executable, program=PROGRAM, more=" ".join(more))
    (project / "models/mine.toml").write_text(text)


def environment() -> Mapping[str, str]:
    alone = ("PYTEST_", "MEDVQA_", "OPENAI_", "VLLM_", "CUDA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(alone)}
    return kept | {"OPENAI_API_KEY": "sk-of-another-host", "CUDA_VISIBLE_DEVICES": ""}


def ran(project: Path, command: Sequence[str], *more: str) -> subprocess.CompletedProcess[str]:
    return processes.run([*command, *more], cwd=project, env=environment(), capture_output=True, text=True, check=False)


def answered(project: Path, name: str) -> dict[str, str]:
    lines = (project / "reports" / name / "results.jsonl").read_text().splitlines()
    return {line["item"]["id"]: line["answer"]["text"] for line in map(json.loads, lines)}


def record(project: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project / "reports" / name / "run.json").read_text())
    return found


@pytest.mark.parametrize("command", [MEDVQA, PYTEST, (*PYTEST, "-n2")], ids=["medvqa", "pytest", "workers"])
def test_a_run_starts_one_server_and_ends_it(project: Path, command: Sequence[str]) -> None:
    write(project, "--forks", "--slow=0.5")
    done = ran(project, command, "--run=one", "--limit=24")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("medvqa: starting a server for 'serve:tiny': ") == 1
    assert said.count("medvqa: 'serve:tiny' is ready after ") == 1
    noted = pids(project / "pids", 4)
    assert len(noted) == 4
    assert gone(noted, 1)
    assert set(answered(project, "one").values()) == {"A"}
    assert len(answered(project, "one")) == 24
    (log,) = (project / "reports/one/servers").iterdir()
    assert (log.name, log.read_text()) == ("tiny-0.log", "GPUs: , more: 1\n")
    found = record(project, "one")
    assert found["model"]["servers"] == 1
    assert found["config"]["options"]["command"].endswith("--slow=0.5")
    assert found["model"]["fingerprint"] is None
    # No address and no key is kept: the port is of this run alone.
    texts = [path.read_bytes() for path in (project / "reports/one").rglob("*") if path.is_file()]
    assert not any(re.search(rb"127\.0\.0\.1:\d|sk-of-another", text) for text in texts)
    # Readers of run folders do not mind the logs.
    assert ran(project, (sys.executable, "-m", "medvqa.cli", "report", "reports/one")).returncode == 0
    # The run goes on with another server.
    done = ran(project, command, "--run=one", "--limit=28")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(answered(project, "one")) == 28
    assert len(record(project, "one")["sessions"]) == 2
    assert log.read_text() == 2 * "GPUs: , more: 1\n"
    write(project, "--forks")
    done = ran(project, command, "--run=one", "--limit=30")
    assert done.returncode != 0
    assert "run 'one' cannot go on: " in done.stdout + done.stderr


def test_evaluate_starts_and_ends_a_server(project: Path) -> None:
    code = (
        "import medvqa; run = medvqa.evaluate('mine', 'phantom-mediconfusion', limit=4, run='face'); "
        "print(len(run.results))"
    )
    done = ran(project, (sys.executable, "-c", code))
    assert done.stdout.split() == ["4"], done.stdout + done.stderr
    assert gone(pids(project / "pids", 1), 1)


@pytest.mark.parametrize("command", [MEDVQA, (*PYTEST, "-n2")], ids=["medvqa", "workers"])
def test_a_server_that_fails_ends_the_run_before_its_first_question(project: Path, command: Sequence[str]) -> None:
    write(project, "--fails")
    done = ran(project, command, "--run=bad")
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 4, said
    assert (
        "'serve:tiny': its server ended before it was ready (exit status 3). Last lines of "
        f"{project}/reports/bad/servers/tiny-0.log: GPUs: , more: 1 | loading weights | CUDA error: \ufffd[31mno"
    ) in said
    assert [path.name for path in (project / "reports/bad").iterdir()] == ["servers"]
    # The name is free: nothing was asked.
    write(project)
    assert ran(project, command, "--run=bad", "--limit=2").returncode == 0


def test_a_server_that_dies_during_the_run_is_named_at_the_end(project: Path) -> None:
    write(project, "--answers=5")
    with (project / "models/mine.toml").open("a") as file:
        file.write("[options]\nretries = 0\nconcurrency = 1\n")
    done = ran(project, MEDVQA, "--run=dies", "--max-errors=3")
    assert "its server ended during the run (exit status 9). Last lines of" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("out of memory") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="orphans in groups of their own are found on Linux alone")
@pytest.mark.parametrize("command", [MEDVQA, (*PYTEST, "-n2")], ids=["medvqa", "workers"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_no_process_of_a_server_outlives_a_killed_run_which_goes_on_later(
    project: Path, command: Sequence[str], number: signal.Signals
) -> None:
    write(project, "--forks", "--pause=0.2")
    process = processes.Popen(
        [*command, "--run=killed", "--limit=40", "--concurrency=1"],
        cwd=project,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    results, until = project / "reports/killed/results.jsonl", time.monotonic() + 60
    while not (results.exists() and results.read_text().count("\n") >= 3):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    noted = pids(project / "pids", 4)
    os.kill(process.pid, number)
    process.wait()
    assert gone(noted)
    write(project, "--forks", "--pause=0.2")
    done = ran(project, command, "--run=killed", "--limit=40")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(answered(project, "killed")) == 40


def test_transformers_serve_answers_for_the_time_of_a_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped command, on a tiny checkpoint: its digests identify it."""
    checkpoint = tinies.llava(project / "tiny" / "llava")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = [word if word != "--model=mine" else f"--model=serve:transformers:{checkpoint}" for word in MEDVQA]
    done = ran(project, command, "--run=real", "--limit=6")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(answered(project, "real")) == 6
    assert all(answered(project, "real").values())
    found = record(project, "real")
    assert found["model"]["fingerprint"].startswith(f"{checkpoint}@served ")
    assert "model.safetensors" in found["model"]["weights"]
    # Its answers are those of the folder that it was started on, in whatever run.
    done = ran(project, command, "--run=again", "--limit=6", "--answers=real")
    assert done.returncode == 0, done.stdout + done.stderr
    assert answered(project, "again") == answered(project, "real")
    assert found["usage"]["output"] > 0
    assert "usage" not in record(project, "again")


def test_a_slurm_job_starts_servers_and_is_requeued(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page's files. The time limit comes while two servers answer: the job goes on with servers of its own."""
    page = Path(__file__).parents[2] / "docs/schedulers"
    config, script = ((page / name).read_text("utf-8") for name in ("qwen-served.toml", "served.sbatch"))
    for before, after in (("vqa-rad", "phantom-mediconfusion"), (" --data=/data", "")):
        assert before in script
        script = script.replace(before, after)
    (project / "served.sbatch").write_text(script)
    (project / "models/qwen-served.toml").write_text(config.replace("concurrency = 64", "concurrency = 1"))
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/activate").touch()
    commands = tmp_path_factory.mktemp("cluster") / "bin"
    slurm.install(commands)
    words = '"$2" "$6" --gpus="$8" --pids=pids --pause=0.2'
    (commands / "vllm").write_text(f'#!/bin/bash\nexec "{sys.executable}" "{PROGRAM}" {words}\n')
    (commands / "vllm").chmod(0o755)
    outer = {name: value for name, value in environment().items() if not name.startswith("SLURM_")}
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), outer["PATH"]])
    own = {"PATH": path, "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "STUB_LIMIT": "reports/qwen/results.jsonl"}
    subprocess.run(["sbatch", "served.sbatch"], cwd=project, env=outer | own, check=True, timeout=100)
    said = (project / "qwen-100.txt").read_text()
    assert json.loads((project / "job-100.json").read_text()) == [0], said
    assert said.count("medvqa: starting 2 servers for ") == 2, said
    assert "ended by SIGTERM" in said
    assert (len(record(project, "qwen")["sessions"]), record(project, "qwen")["missing"]) == (2, [])
    logs = sorted((project / "reports/qwen/servers").iterdir())
    assert [log.read_text() for log in logs] == [f"GPUs: {gpus}, more: 4\n" * 2 for gpus in ("0,1,2,3", "4,5,6,7")]
    assert gone(pids(project / "pids", 4), 1)
