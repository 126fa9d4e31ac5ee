"""Runs on a Ray cluster of three nodes, with lost processes, lost nodes and new ones (support.clusters)."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import medvqa
from support import clusters, processes

pytest.importorskip("ray", reason="needs ray: pip install 'pytest-medvqa[ray]'")
pytestmark = pytest.mark.slow

LIMIT = 80
SIZE = 4
SLOW = 5.0
"""Seconds of a batch, until something has happened."""
POISON = 17
"""The place of the question that kills its process."""
TESTS = """
import pytest

@pytest.mark.vqa("phantom-gmai-mmbench")
def test_phantom(item, evaluate):
    evaluate(item)
"""
CONFTEST = '''
import hashlib
import os
import signal
import time
from pathlib import Path

from medvqa import Backend
from medvqa.items import Answer


class Drawn(Backend):
    """Draws its answers, and notes the batches that it begins; each takes as many seconds as the file `pace` says."""

    name = title = "drawn"
    sends_to = None

    def draws(self):
        return True

    def fingerprint(self):
        return "drawn 1"

    def generate(self, prompts):
        with open("asked", "a") as file:
            file.write(" ".join([str(os.getpid()), *(prompt.item for prompt in prompts)]) + "\\n")
        start = time.monotonic()
        while time.monotonic() < start + float(Path("pace").read_text() or 0):
            time.sleep(0.02)
        for prompt in prompts:
            if Path("poison").exists() and prompt.item == Path("poison").read_text():
                os.kill(os.getpid(), signal.SIGKILL)
        return [Answer(self._letter(prompt)) for prompt in prompts]

    def _letter(self, prompt):
        seen = b"".join(image.read() for image in prompt.images)
        return "ABCD"[hashlib.sha256(prompt.text.encode() + seen).digest()[0] % 4]


def pytest_medvqa_backends():
    return [Drawn]
'''


@pytest.fixture(scope="module")
def cluster() -> Iterator[clusters.RayCluster]:
    try:
        with clusters.cluster() as started:
            yield started
    except clusters.NoNamespace as reason:
        pytest.skip(str(reason))


class Folder:
    """A project with the backend above; runs of it are started in the namespace of the cluster."""

    printed = ""
    """What the last run that was disturbed has printed."""

    def __init__(self, path: Path, cluster: clusters.RayCluster) -> None:
        self.path = path
        self.cluster = cluster
        for name, text in (("conftest.py", CONFTEST), ("pytest.ini", "[pytest]\n"), ("test_questions.py", TESTS)):
            (path / name).write_text(text)
        self.pace(0)

    def pace(self, seconds: float) -> None:
        """Let batches take so long from now on, also those that are computed."""
        (self.path / "new").write_text(str(seconds))
        (self.path / "new").rename(self.path / "pace")

    def command(self, model: str, run: str, *arguments: str, door: Sequence[str] = ("medvqa", "run")) -> list[str]:
        what = (f"--model={model}", f"--limit={LIMIT}", f"--batch-size={SIZE}", f"--run={run}", *arguments)
        if model.startswith("ray:") and not any(argument.startswith("--ray-address") for argument in arguments):
            what = (*what, f"--ray-address={self.cluster.address}")
        if door == ("pytest",):
            return [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:benchmark", *what]
        return [sys.executable, "-m", "medvqa.cli", "run", "--benchmark=phantom-gmai-mmbench", *what]

    def run(self, model: str, run: str, *arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run in the namespace; without ray outside of it, where processes start warm."""
        command = self.command(model, run, *arguments, **how)
        if model.startswith("ray:"):
            return self.cluster.run(command, cwd=self.path)
        return processes.run(command, cwd=self.path, capture_output=True, text=True)

    def asked(self) -> list[tuple[int, list[str]]]:
        """The batches that were begun: the process, and its questions."""
        path = self.path / "asked"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [(int(pid), items) for pid, *items in (line.split() for line in lines if line.endswith("\n"))]

    def read(self, run: str, name: str = "run.json") -> Any:
        return json.loads((self.path / "reports" / run / name).read_text())

    def results(self, run: str) -> dict[str, dict[str, Any]]:
        """The lines of results.jsonl by item; none has two."""
        path = self.path / "reports" / run / "results.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        read = {line["item"]["id"]: line for line in lines}
        assert len(read) == len(lines)
        return read

    def errors(self, run: str) -> dict[str, dict[str, Any]]:
        """The results without an answer, by item."""
        return {item: line for item, line in self.results(run).items() if line["score"]["outcome"] == "error"}

    def texts(self, run: str) -> dict[str, str]:
        """The answers by item; none is missing."""
        results = self.results(run)
        assert len(results) == LIMIT
        return {item: line["answer"]["text"] for item, line in results.items()}

    def start(self, model: str, run: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a run in the background."""
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return self.cluster.popen(self.command(model, run, *arguments), cwd=self.path, **pipes)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """A slow run, until its end, which the `with` block brings about."""
        self.pace(SLOW)
        process = self.start("ray:drawn", "first")
        try:
            yield process
            self.printed, _ = process.communicate(timeout=clusters.PATIENCE)
        finally:
            process.kill()
            self.pace(0)

    def await_copies(self, count: int, process: subprocess.Popen[str]) -> None:
        """Wait until so many living actors have been asked."""

        def are_asked() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"ended too early: {process.communicate()[0]}")
            return len({pid for pid, _ in self.asked()} & set(self.cluster.actors())) >= count

        clusters.wait_until(are_asked, f"{count} copies are asked")


@pytest.fixture
def folder(tmp_path: Path, cluster: clusters.RayCluster) -> Iterator[Folder]:
    yield Folder(tmp_path, cluster)
    clusters.wait_until(lambda: not cluster.actors(), "no actor outlives its run")


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory, cluster: clusters.RayCluster) -> Folder:
    """A project beside the other, for runs without ray."""
    return Folder(tmp_path_factory.mktemp("alone"), cluster)


def test_pytest_gives_the_answers_of_one_process(folder: Folder, alone: Folder) -> None:
    """Images travel as bytes; each of three nodes holds a copy, and no question is asked twice."""
    spread, single = folder.run("ray:drawn", "first", door=("pytest",)), alone.run("drawn", "first")

    assert single.returncode == 0, single.stdout + single.stderr
    assert f"{LIMIT} items" in spread.stdout, spread.stdout + spread.stderr
    assert folder.texts("first") == alone.texts("first")
    assert folder.read("first", "metrics.json")["measures"] == alone.read("first", "metrics.json")["measures"]
    engine = folder.read("first")["engine"]
    assert (engine["replicas"], len(engine["nodes"]), engine["asked_again"]) == (3, 3, 0)
    assert "pool: 3 replicas on 3 nodes" in spread.stdout
    assert sorted(item for _, items in folder.asked() for item in items) == sorted(folder.texts("first"))


def test_a_killed_actor_puts_one_batch_under_suspicion(folder: Folder) -> None:
    """Of its batches only the one that it computed is asked one by one; no question has two results."""
    with folder.running() as process:
        folder.await_copies(3, process)
        killed, suspect = folder.asked()[-1]
        os.kill(killed, signal.SIGKILL)
        folder.pace(0)

    assert process.returncode == 0, folder.printed
    texts, asked = folder.texts("first"), folder.asked()
    counts = Counter(item for _, items in asked for item in items)
    assert [items for pid, items in asked if pid == killed][-1] == suspect
    assert sorted(item for item in texts if counts[item] > 1) == sorted(suspect)
    assert sorted(items for _, items in asked if len(items) == 1) == sorted([item] for item in suspect)
    assert not folder.errors("first")
    engine = folder.read("first")["engine"]
    # Beside the batch that it computed, one may have waited there.
    assert engine["asked_again"] in (1, 2)
    assert engine["restarts"] == 1
    assert "1 copy was lost and started again" in folder.printed


def test_a_question_that_kills_its_process_is_one_error(folder: Folder, alone: Folder) -> None:
    alone.run("drawn", "first")
    items = list(alone.texts("first"))
    poison = items[POISON]
    (folder.path / "poison").write_text(poison)

    run = folder.run("ray:drawn", "first")

    results, errors = folder.results("first"), folder.errors("first")
    assert list(errors) == [poison], run.stdout + run.stderr
    assert "the worker died twice on this question, the second time when it was asked alone" in str(errors[poison])
    assert sorted(results) == sorted(items)
    assert [len(items) for _, items in folder.asked() if poison in items] == [SIZE, 1]


def test_nodes_come_and_go(folder: Folder) -> None:
    """A lost node puts no question under suspicion; copies grow with new nodes."""
    cluster = folder.cluster
    with folder.running() as process:
        folder.await_copies(3, process)
        cluster.kill_node(cluster.nodes[-1])
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        folder.await_copies(4, process)
        folder.pace(0)
    cluster.kill_node(cluster.nodes[-1])

    assert process.returncode == 0, folder.printed
    assert len(folder.texts("first")) == LIMIT
    assert not folder.errors("first")
    assert {len(items) for _, items in folder.asked()} == {SIZE}
    engine = folder.read("first")["engine"]
    assert (engine["replicas"], len(engine["nodes"])) == (4, 4)
    assert engine["asked_again"] in (1, 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_signals_end_the_run_and_its_actors(folder: Folder, number: signal.Signals) -> None:
    """The same command with another number of copies, or without ray, goes on."""
    with folder.running() as process:
        folder.await_copies(3, process)
        folder.pace(0.2)
        clusters.wait_until(lambda: len(folder.results("first")) > SIZE, "there are results")
        folder.pace(SLOW)
        process.send_signal(number)
    assert process.returncode == 2, folder.printed
    assert "Traceback" not in folder.printed
    clusters.wait_until(lambda: not folder.cluster.actors(), "no actor is left")
    before = len(folder.results("first"))
    assert 0 < before < LIMIT

    if number == signal.SIGINT:
        again = folder.run("ray:drawn", "first", "--replicas=1")
        assert folder.read("first")["engine"]["replicas"] == 1
    else:
        again = folder.run("drawn", "first")

    assert again.returncode == 0, again.stdout + again.stderr
    assert len(folder.texts("first")) == LIMIT
    # Batches in flight at the signal were begun in vain.
    counts = Counter(item for _, items in folder.asked() for item in items)
    assert sum(count > 1 for count in counts.values()) <= 3 * SIZE


def test_a_tiny_checkpoint_gives_the_same_answers(folder: Folder, alone: Folder) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install 'pytest-medvqa[hf]'")
    from support import tinies

    checkpoint = tinies.qwen2_vl(folder.path / "tiny")
    spread = folder.run(f"ray:hf:{checkpoint}", "tiny", "--limit=8", "--max-tokens=6", "--replicas=2")
    # Within this process, which has imported torch already.
    how: dict[str, Any] = {"batch_size": SIZE, "max_tokens": 6, "run": "tiny", "progress": False}
    medvqa.evaluate(f"hf:{checkpoint}", "phantom-gmai-mmbench", limit=8, folder=alone.path, **how)

    assert spread.returncode == 0, spread.stdout + spread.stderr
    texts = [{item: line["answer"]["text"] for item, line in side.results("tiny").items()} for side in (folder, alone)]
    assert len(texts[0]) == 8
    assert len(set(texts[0].values())) > 1
    assert texts[0] == texts[1]
    prints = [side.read("tiny")["model"].get("fingerprint") for side in (folder, alone)]
    assert prints[0] == prints[1] is not None


def test_what_cannot_be_had_is_said_before_the_run(folder: Folder) -> None:
    """A cluster that is not there, and a copy that fits on no node."""
    nothing = folder.run("ray:drawn", "first", "--ray-address=127.0.0.1:9")
    (folder.path / "models").mkdir()
    config = 'backend = "drawn"\n[resources]\ngpus = 2\n'
    (folder.path / "models" / "large.toml").write_text(config)
    large = folder.run("ray:large", "first")

    assert nothing.returncode == large.returncode == 4
    assert "no cluster answers at 127.0.0.1:9" in nothing.stdout + nothing.stderr
    said = large.stdout + large.stderr
    assert "fits on no node: it takes CPU 1, GPU 2, and 127.0.0.1 has CPU 1" in said
    assert not folder.asked()
