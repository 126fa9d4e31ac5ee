"""What cannot run is said once, in one line, before anything is collected or a worker starts."""

import os
import re
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from support import processes, strangers
from support.servers import Reply, Server, completion

HUB = pytest.mark.skipif(
    find_spec("transformers") is None or find_spec("torch") is None, reason="needs the extra hf: torch and transformers"
)
USAGE_ERROR = int(pytest.ExitCode.USAGE_ERROR)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/conftest.py").write_text(strangers.CONFTEST)
    (tmp_path / "suite/test_slake.py").write_text(strangers.TEST)
    return tmp_path / "suite"


def asked(suite: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A session in a process of its own, with an empty cache of the hub and without the outer session's variables."""
    alone = ("PYTEST_", "MEDVQA_", "HF_", "OPENAI_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    environment = {name: value for name, value in os.environ.items() if not name.startswith((*alone, "all_", "ALL_"))}
    environment |= {"HF_HOME": str(suite.parent / "hub"), "OMP_NUM_THREADS": "1", **variables}
    common = ("--benchmark=slake", "-p", "no:randomly", "-p", "no:benchmark")
    command = [sys.executable, "-m", "pytest", *common, *arguments]
    return processes.run(command, cwd=suite, env=environment, capture_output=True, text=True, check=False)


def refused(session: subprocess.CompletedProcess[str], suite: Path) -> str:
    """The one line of a session that was refused before it began."""
    assert session.returncode == USAGE_ERROR, session.stdout + session.stderr
    assert session.stdout == ""
    (line,) = (line for line in session.stderr.splitlines() if line)
    assert not (suite / "reports").exists()
    return line


def closed_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


class Hub(BaseHTTPRequestHandler):
    """A hub that gives no repository, one of the organization `gated` as its licence was not accepted."""

    def do_GET(self) -> None:
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        gated = self.path.startswith("/gated/")
        self.send_response(403 if gated else 404)
        self.send_header("X-Error-Code", "GatedRepo" if gated else "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@HUB
@pytest.mark.parametrize("workers", [pytest.param((), marks=pytest.mark.slow), ("-n2",)])
def test_weights_that_are_not_in_the_cache_while_offline(suite: Path, workers: tuple[str, ...]) -> None:
    line = refused(asked(suite, "--model=qwen-vl", *workers, HF_HUB_OFFLINE="1"), suite)
    assert line == (
        "ERROR: --model=hf:Qwen/Qwen3-VL-8B-Instruct: its weights are not in the cache, and HF_HUB_OFFLINE forbids to "
        "download them. Type `hf download Qwen/Qwen3-VL-8B-Instruct` where the hub can be reached, or name a folder: "
        "--model=hf:FOLDER"
    )


@HUB
@pytest.mark.slow
def test_a_hub_that_cannot_be_reached(suite: Path) -> None:
    endpoint = f"http://127.0.0.1:{closed_port()}"
    line = refused(asked(suite, "--model=qwen-vl", "-n2", HF_ENDPOINT=endpoint), suite)
    assert f"its weights are not in the cache, and {endpoint} cannot be reached (Connection refused). Type `hf " in line


@HUB
@pytest.mark.slow
@pytest.mark.parametrize(("name", "why"), [("org/nothing", "Repository Not Found"), ("gated/model", "gated repo")])
def test_a_repository_that_the_hub_does_not_give(suite: Path, name: str, why: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.paths = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        line = refused(asked(suite, f"--model=hf:{name}", "-n2", HF_ENDPOINT=endpoint), suite)
        server.shutdown()
    assert line.startswith(f"ERROR: --model=hf:{name}: {endpoint} does not give it: ")
    assert why in line
    # The hub's library may look up what it runs in, too.
    paths = [path for path in server.paths if name in path]  # type: ignore[attr-defined]
    assert paths == [f"/{name}/resolve/main/config.json"], "it is asked once"


class AdapterHub(Hub):
    """A hub with an adapter, whose base it does not have."""

    def do_GET(self) -> None:
        if not self.path.startswith("/org/lora/"):
            super().do_GET()
            return
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        content = b'{"peft_type": "LORA", "base_model_name_or_path": "org/nothing"}'
        there = self.path.endswith("adapter_config.json")
        self.send_response(200 if there else 404)
        self.send_header(*(("ETag", '"1"') if there else ("X-Error-Code", "EntryNotFound")))
        self.send_header("X-Repo-Commit", "1" * 40)
        self.send_header("Content-Length", str(len(content) if there else 0))
        self.end_headers()
        if there and self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET


@HUB
@pytest.mark.slow
@pytest.mark.skipif(find_spec("peft") is None, reason="needs the extra adapters: peft")
def test_an_adapter_whose_base_the_hub_does_not_give(suite: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), AdapterHub) as server:
        server.paths = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        line = refused(asked(suite, "--model=hf:org/lora", HF_ENDPOINT=endpoint), suite)
        server.shutdown()
    assert line.startswith(
        "ERROR: --model=hf:org/lora is an adapter, and its base cannot be used: --model=hf:org/nothing: "
        f"{endpoint} does not give it: "
    )
    assert {path.rpartition("/")[2] for path in server.paths} == {"config.json", "adapter_config.json"}  # type: ignore[attr-defined]


@HUB
@pytest.mark.slow
def test_a_folder_without_weights(suite: Path) -> None:
    (suite / "empty").mkdir()
    assert "empty/config.json: no model config" in refused(asked(suite, "--model=hf:empty", "-n2"), suite)
    (suite / "empty/config.json").write_text("{}")
    assert "empty: no weights; model.safetensors" in refused(asked(suite, "--model=hf:empty", "-n2"), suite)


@HUB
@pytest.mark.slow
def test_a_cache_that_holds_a_part_of_the_weights(suite: Path) -> None:
    snapshot = suite.parent / "hub/hub/models--org--half/snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs/main").write_text("0" * 40)
    (snapshot / "config.json").write_text("{}")
    line = refused(asked(suite, "--model=hf:org/half", HF_HUB_OFFLINE="1"), suite)
    assert "its weights are not in the cache, and HF_HUB_OFFLINE forbids" in line


@HUB
@pytest.mark.slow
def test_what_is_collected_alone_needs_no_weights(suite: Path) -> None:
    assert asked(suite, "--model=qwen-vl", "--collect-only", "-q", HF_HUB_OFFLINE="1").returncode == 0


@pytest.mark.parametrize("role", ["model", pytest.param("judge", marks=pytest.mark.slow)])
def test_a_server_that_refuses_connections(suite: Path, role: str) -> None:
    pytest.importorskip("openai")
    url = f"http://127.0.0.1:{closed_port()}"
    model = () if role == "model" else ("--model=stubborn:A",)
    line = refused(asked(suite, f"--{role}=openai:tiny", *model, "-n2", OPENAI_BASE_URL=f"{url}/v1"), suite)
    assert line == (
        f"ERROR: --{role}=openai:tiny: {url} cannot be reached (Connection refused). Start the server, or set base_url "
        "in the [options] of a config, or OPENAI_BASE_URL, to the address of another"
    )


@pytest.mark.slow
def test_a_server_that_is_slow_is_not_refused(suite: Path) -> None:
    """It accepts the connection late, and says nothing for longer than anybody would probe."""
    pytest.importorskip("openai")
    with Server(lambda number, request: Reply(completion(), delay=3 if number == 0 else 0)) as server:
        done = asked(suite, "--model=openai:tiny", "--limit=2", OPENAI_BASE_URL=server.url)
    assert done.returncode == 0, done.stdout
    assert len(server.requests) == 2, "no question was sent to probe it"


def test_a_full_backlog_is_not_refused(suite: Path) -> None:
    """The kernel of a server that is overrun lets connections wait."""
    pytest.importorskip("openai")
    from medvqa.backends.openai import OpenAI, OpenAIOptions

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        OpenAI("tiny", OpenAIOptions(base_url=f"http://127.0.0.1:{address[1]}/v1")).preflight()
        for each in waiting:
            each.close()


@pytest.mark.slow
def test_a_run_whose_answers_are_stored_needs_no_server(suite: Path) -> None:
    pytest.importorskip("openai")
    with Server(lambda *_: Reply(completion())) as server:
        first = asked(suite, "--model=openai:tiny", "--run=kept", OPENAI_BASE_URL=server.url)
    assert first.returncode == 0
    again = asked(suite, "--model=openai:tiny", "--run=kept", OPENAI_BASE_URL=server.url)
    assert again.returncode == 0, again.stdout + again.stderr
    with Server(lambda *_: Reply(completion())) as server:
        variables = {"OPENAI_BASE_URL": server.remote_url, "OPENAI_API_KEY": "none-is-needed"}
        assert asked(suite, "--model=openai:tiny", "--run=far", **variables).returncode == 0
    assert asked(suite, "--model=openai:tiny", "--run=other", "--answers=far", **variables).returncode == 0


@pytest.mark.slow
def test_images_that_are_not_there(suite: Path) -> None:
    """All of a benchmark's images are missing: a model that looks at them would end in errors alone."""
    pytest.importorskip("openai")
    lines = (Path(__file__).parents[2] / "fixtures/phantom/mediconfusion/dataset.json").read_bytes()
    (suite / "data/mediconfusion").mkdir(parents=True)
    (suite / "data/mediconfusion/dataset.json").write_bytes(lines)
    (suite / "test_slake.py").write_text(strangers.TEST.replace("slake", "mediconfusion"))
    with Server(lambda *_: Reply(completion())) as server:
        common = ("--data=data", "--benchmark=mediconfusion", "--limit=2")
        line = refused(asked(suite, *common, "--model=openai:tiny", OPENAI_BASE_URL=server.url), suite)
        assert re.search(r"mediconfusion: 0 of \d+ images are there, .*: mediconfusion/images/", line)
        assert asked(suite, *common, "--model=random").returncode == 0, "it does not look"
        unseen = asked(suite, *common, "--model=openai:tiny", "--ablate=text-only", OPENAI_BASE_URL=server.url)
        assert unseen.returncode == 0
