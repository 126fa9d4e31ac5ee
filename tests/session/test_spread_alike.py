"""However a run is spread, its numbers are those of one process: the phantom's questions, by every way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from support import buckets, clusters, processes, servers

pytestmark = pytest.mark.slow

TESTS = """
import pytest

@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)
"""
CONFTEST = '''
import hashlib
import os
import time
from pathlib import Path

from medvqa import Backend
from medvqa.items import Answer


class Drawn(Backend):
    """Draws its answers from the text of the prompt; a batch takes as many milliseconds as PACE says."""

    name = title = "drawn"
    sends_to = None

    def draws(self):
        return True

    def fingerprint(self):
        return "drawn 1"

    def generate(self, prompts):
        with open("asked", "a") as file:
            file.write("".join(f"{prompt.benchmark} {prompt.item}\\n" for prompt in prompts))
        time.sleep(float(os.environ.get("PACE", 0)) / 1000)
        return [Answer("ABCD"[hashlib.sha256(prompt.text.encode()).digest()[0] % 4]) for prompt in prompts]


def pytest_medvqa_backends():
    return [Drawn]
'''


class Project:
    """A folder with the backend above, in which runs are started."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        for name, text in (("conftest.py", CONFTEST), ("pytest.ini", "[pytest]\n"), ("test_questions.py", TESTS)):
            (path / name).write_text(text)

    def medvqa(self, *words: str, code: int = 0) -> None:
        self._end(["-m", "medvqa.cli", *words], code)

    def pytest(self, *words: str, code: int = 0) -> None:
        self._end(["-m", "pytest", "-p", "no:randomly", "-p", "no:benchmark", "-q", *words], code)

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command in the background, in a process group of its own."""
        return processes.Popen(
            [sys.executable, "-m", "medvqa.cli", *words],
            cwd=self.path,
            env=_environment() | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _end(self, words: list[str], code: int) -> None:
        done = processes.run(
            [sys.executable, *words], cwd=self.path, env=_environment(), capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr

    def asked(self) -> list[str]:
        path = self.path / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def measures(self, run: str) -> Any:
        return json.loads((self.path / "reports" / run / "metrics.json").read_text())["measures"]


def _environment() -> dict[str, str]:
    alone = ("PYTEST_", "MEDVQA_")
    return {name: value for name, value in os.environ.items() if not name.startswith(alone)}


MOTO = Path(__file__).parents[2] / ".tox/counterparts/bin/moto_server"
"""Without it, the object store is a folder."""
ASKED = ("run", "--benchmark=phantom", "--model=drawn")


def serially(project: Project) -> Any:
    project.medvqa(*ASKED, "--run=one")
    return project.measures("one")


def by_two_workers(project: Project) -> Any:
    project.pytest("-n2", "--model=drawn", "--run=two")
    return project.measures("two")


def by_ray(project: Project) -> Any:
    pytest.importorskip("ray", reason="needs ray: pip install 'pytest-medvqa[ray]'")
    command = [sys.executable, "-m", "medvqa.cli", "run", "--benchmark=phantom", "--model=ray:drawn", "--run=ray"]
    try:
        with clusters.cluster({"num_cpus": 2}) as cluster:
            done = cluster.run([*command, f"--ray-address={cluster.address}"], cwd=project.path)
    except clusters.NoNamespace as reason:
        pytest.skip(str(reason))
    assert done.returncode == 0, done.stdout + done.stderr
    return project.measures("ray")


def over_two_endpoints(project: Project) -> Any:
    """Two servers that draw as the backend does. Each gets some of the questions."""

    def reply(number: int, request: servers.Request) -> servers.Reply:
        (text,) = (part["text"] for part in request.body["messages"][-1]["content"] if part["type"] == "text")
        return servers.Reply(servers.completion("ABCD"[sha256(text.encode()).digest()[0] % 4]))

    (project.path / "models").mkdir()
    with servers.Server(reply) as one, servers.Server(reply) as other:
        config = f'backend = "openai"\nargument = "tiny"\n[options]\nbase_url = ["{one.url}", "{other.url}"]\n'
        (project.path / "models" / "twice.toml").write_text(config)
        project.medvqa("run", "--benchmark=phantom", "--model=twice", "--run=endpoints")
    assert one.requests
    assert other.requests
    return project.measures("endpoints")


def as_three_merged_shards(project: Project) -> Any:
    shards = [f"shard{number}" for number in (1, 2, 3)]
    for number, name in enumerate(shards, 1):
        project.medvqa(*ASKED, f"--shard={number}/3", f"--run={name}")
    project.medvqa("merge", *(f"reports/{name}" for name in shards), "-o", "merged")
    return project.measures("merged")


def as_two_preempted_halves(project: Project) -> Any:
    """Each half is asked in a folder of its own; what they share is an object store."""
    pytest.importorskip("obstore", reason="needs obstore: pip install 'pytest-medvqa[store]'")
    other = Project(project.path / "other")
    with ExitStack() as stack:
        variables: dict[str, str] = {}
        url = f"file://{project.path}/store"
        if "COUNTERPARTS" in os.environ or MOTO.exists():
            bucket = stack.enter_context(buckets.moto())
            url, variables = bucket.url, dict(bucket.environment)
            stack.enter_context(buckets.variables(variables))
        first = project.start(*ASKED, "--run=halves", f"--answers={url}", "--batch-size=4", PACE="60", **variables)
        try:
            clusters.wait_until(lambda: len(project.asked()) > 60 or first.poll() is not None, "half is asked")
            first.send_signal(signal.SIGTERM)
            printed, _ = first.communicate(timeout=clusters.PATIENCE)
        finally:
            first.kill()
        assert first.returncode == 2, printed
        other.medvqa(*ASKED, "--run=halves", f"--answers={url}")
    # At most the batch in flight at the signal is asked twice.
    assert len(set(project.asked()) & set(other.asked())) <= 4
    assert other.asked()
    return other.measures("halves")


WAYS: dict[str, Callable[[Project], Any]] = {
    "-n 2": by_two_workers,
    "ray": by_ray,
    "endpoints": over_two_endpoints,
    "shards": as_three_merged_shards,
    "halves": as_two_preempted_halves,
}


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    return serially(Project(tmp_path_factory.mktemp("serial") / "project"))


@pytest.mark.parametrize("way", WAYS)
def test_measures_are_those_of_one_process(way: str, serial: Any, tmp_path: Path) -> None:
    measures = WAYS[way](Project(tmp_path / "project"))

    assert len(measures) > 20
    assert measures == serial
