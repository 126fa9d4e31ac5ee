"""Runs over two endpoints, servers in processes of their own, of which one is killed during the run."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from support import processes
from support.servers import Reply, Request, Server, completion, models

pytest.importorskip("openai")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SERVER = """
import sys, threading
sys.path.insert(0, {root!r})
from session.test_endpoint_sessions import served
with served(0.01) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
KILL_AFTER = 10


def letter(request: Request) -> str:
    content = request.body["messages"][-1]["content"]
    return "AB"[sha256(content[-1]["text"].encode()).digest()[0] % 2]


def served(delay: float) -> Server:
    server = Server(lambda number, request: Reply(completion(letter(request)), delay=delay))
    server.models = models("tiny", root="org/tiny")
    return server


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its URL."""
    command = [sys.executable, "-c", SERVER.format(root=str(ROOT))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def run(folder: Path, name: str, urls: str, **options: Any) -> subprocess.CompletedProcess[str]:
    alone = ("PYTEST_", "MEDVQA_", "OPENAI_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_", "all_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(alone)}
    command = [sys.executable, "-m", "medvqa.cli", "run", "--model=openai:tiny", "--benchmark=phantom-mediconfusion"]
    environment["OPENAI_BASE_URL"] = urls
    return processes.run(
        [*command, f"--run={name}"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def answers(folder: Path, name: str) -> list[tuple[str, str]]:
    lines = (folder / "reports" / name / "results.jsonl").read_text().splitlines()
    results = map(json.loads, lines)
    return sorted((result["item"]["id"], result["answer"]["text"]) for result in results)


def measures(folder: Path, name: str) -> Any:
    """The numbers of metrics.json; `run` has times and the name, `results` the digest of results with them."""
    return json.loads((folder / "reports" / name / "metrics.json").read_text()) | {"run": None, "results": None}


def test_a_server_is_killed_during_a_run(tmp_path: Path, other: tuple[subprocess.Popen[str], str]) -> None:
    process, url = other

    def script(number: int, request: Request) -> Reply:
        if number == KILL_AFTER:
            process.kill()
        return Reply(completion(letter(request)), delay=0.03)

    with Server(script) as server:
        server.models = models("tiny", root="org/tiny")
        done = run(tmp_path, "two", f"{server.url},{url}")
    assert done.returncode == 0, done.stdout + done.stderr
    with served(0) as single:
        assert run(tmp_path, "one", single.url).returncode == 0
    assert len(answers(tmp_path, "two")) == 72
    assert answers(tmp_path, "two") == answers(tmp_path, "one")
    assert Counter(item for item, _ in answers(tmp_path, "two")).most_common(1)[0][1] == 1
    assert measures(tmp_path, "two") == measures(tmp_path, "one")
    told = json.loads((tmp_path / "reports/two/run.json").read_text())["engine"]["endpoints"]
    assert told.keys() == {server.url, url}
    assert told[server.url]["answers"] + told[url]["answers"] == 72
    assert told[server.url]["left_out"] == 0
    assert (told[url]["left_out"], told[url]["state"]) == (1, "left out")
    assert told[url]["left_out_seconds"] > 0
    assert f"medvqa: endpoint {url} is left out, and its questions go to the others: " in done.stderr
    assert f"! endpoint {url} was left out once, " in done.stdout
    assert "endpoints" not in json.loads((tmp_path / "reports/one/run.json").read_text())["engine"]


def test_servers_of_different_models_are_refused_before_the_run(tmp_path: Path) -> None:
    with served(0) as one, served(0) as other:
        other.models = models("tiny", root="org/other")
        done = run(tmp_path, "mixed", f"{one.url} {other.url}")
        assert done.returncode == 4
        assert one.requests == other.requests == []
    assert f"--model=openai:tiny: its servers serve different models: {one.url} says root org/tiny, and" in done.stderr
    assert not (tmp_path / "reports/mixed").exists()
