"""`--model=ray:MODEL`: a local pool of copies, started for the run; and options that contradict each other."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medvqa.cli import main
from medvqa.items import UsageError
from medvqa.session.options import Options
from medvqa.session.project import Project
from medvqa.session.registry import Registry
from medvqa.session.resolving import resolve

CONFTEST = '''
import os
import signal

import medvqa
from helping import letter


class OwnModel(medvqa.Backend):
    """`ownmodel:BENCHMARK/ITEM`: a question that kills its process."""

    sends_to = None
    batch_size = 8

    def fingerprint(self):
        return "own weights"

    def generate(self, prompts):
        if self.argument in {f"{prompt.benchmark}/{prompt.item}" for prompt in prompts}:
            os.kill(os.getpid(), signal.SIGKILL)
        return [medvqa.Answer(letter(prompt.images[0].pil().size)) for prompt in prompts]
'''
HELPING = "def letter(size):\n    return 'A' if size[0] > 8 else '?'\n"
POISON = "phantom-mediconfusion/1/1"


def alone(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run `medvqa` in a network of its own, with the loopback interface alone."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTEST_"))}
    environment |= {"HOME": str(home), "OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled"}
    return subprocess.run(
        [
            "unshare",
            "-rn",
            "sh",
            "-c",
            'ip link set lo up && exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "medvqa.cli",
            *words,
        ],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def can_be_alone() -> bool:
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0


def run_json(run: Path) -> Any:
    return json.loads((run / "run.json").read_text())


@pytest.mark.slow
def test_a_local_pool_answers_all_but_the_question_that_kills_its_process(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    if not can_be_alone():
        pytest.skip("no network of its own can be made here")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "helping.py").write_text(HELPING)
    typed = ["run", "--benchmark=phantom-mediconfusion", "--limit=40", "--technique=mc"]
    ended = alone(*typed, f"--model=ray:ownmodel:{POISON}", "--replicas=2", "--run=pool", home=tmp_path)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    lines = [json.loads(line) for line in (tmp_path / "reports/pool/results.jsonl").read_text().splitlines()]
    ids = Counter(line["item"]["id"] for line in lines)
    assert set(ids.values()) == {1}, "no item has two results"
    failed = [line for line in lines if line["score"]["outcome"] == "error"]
    assert [line["item"]["id"] for line in failed] == [POISON.partition("/")[2]]
    assert failed[0]["score"]["why"].startswith("the worker died twice on this question")
    assert {line["answer"]["text"] for line in lines if line not in failed} == {"A"}
    about = run_json(tmp_path / "reports/pool")
    assert about["config"]["backend"] == "ownmodel", "the answers are those of the model in the pool"
    assert about["engine"]["restarts"] == 2
    # A batch that waited at a lost copy is asked again, too.
    assert 2 <= about["engine"]["asked_again"] <= 4
    # A copy that was lost last may still be starting at the end.
    assert sum(about["engine"]["nodes"].values()) in (1, 2)
    assert about["engine"]["problems"] == []
    assert "pool: 2 replicas on 1 node at the end, 2 copies were lost" in ended.stdout
    assert "(raylet)" not in ended.stdout + ended.stderr
    # Without the pool, the same model reuses these answers.
    again = alone(*typed, "--model=ownmodel", "--run=alone", "--answers=pool", home=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    (session,) = run_json(tmp_path / "reports/alone")["sessions"]
    assert (session["reused"], session["asked"]) == (len(lines) - 1, 1)


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        (["--model=echo:A", "--replicas=2"], "--replicas=2: 'echo:A' is no pool; type --model=ray:echo:A"),
        (["--model=echo:A", "--ray-address=auto"], "--ray-address=auto: 'echo:A' is no pool; type"),
        (["--model=ray:echo:A", "--replicas=0"], "--replicas=0: a number of copies from 1 to 100,000, or auto"),
        (["--model=ray:echo:A", "--replicas=many"], "--replicas=many: a number of copies"),
        (["--model=ray"], "ray: 'ray' wraps another model: --model=ray:MODEL"),
    ],
)
def test_options_of_a_pool_that_contradict_each_other(
    typed: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--benchmark=phantom", *typed]) == 4
    assert why in capsys.readouterr().err


def test_a_pool_with_workers_is_refused(tmp_path: Path) -> None:
    options = Options.of({"model": "ray:echo:A", "benchmark": ["phantom"]}, tmp_path)
    with pytest.raises(UsageError) as raised:
        resolve(Project(tmp_path, tmp_path, Registry.of([], []), options, workers=2))
    assert str(raised.value) == (
        "--model=ray:echo:A with -n 2: one process feeds the whole pool, and each worker would start a pool of its "
        "own. Leave -n out, and type --replicas=2 for 2 copies"
    )
