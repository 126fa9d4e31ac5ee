"""The backend `serve`: commands, fingerprints, and servers that end with the process that started them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from medvqa import configs
from medvqa.backend import destinations, loaded
from medvqa.backends import pytest_medvqa_backends
from medvqa.backends.openai import OpenAI, OpenAIOptions
from medvqa.backends.serve import Serve, ServeOptions, running
from medvqa.backends.serve.engine_commands import ENGINES, command_of
from medvqa.configs import ServerConfig
from medvqa.items import Answer, AnswerError, Prompt, UsageError

pytest.importorskip("openai")
PROGRAM = Path(__file__).parents[1] / "support/stand_in_server.py"
BACKENDS = {kind.name: kind for kind in pytest_medvqa_backends()}
STARTER = """
import os, sys, time
from pathlib import Path
from medvqa.backends.serve import Serve, ServeOptions
from medvqa.configs import ServerConfig
model = Serve("tiny", ServeOptions(server=ServerConfig(tuple(sys.argv[2:]), wait=30)))
service = model.start(Path(sys.argv[1]))
service.wait(lambda line: None)
if os.fork() == 0:
    time.sleep(20)  # It holds this process's end of the pipe to the watcher.
    os._exit(0)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _environment(outside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "VLLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-host")
    # A stand-in needs no GPU; tests that need some name them.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def command(*more: str) -> tuple[str, ...]:
    return (sys.executable, str(PROGRAM), "{model}", "{port}", "--gpus={gpus}", *more)


def model(*more: str, wait: float = 30, gpus: int = 1, ready: str = "", **options: Any) -> Serve:
    server = ServerConfig(command(*more), wait=wait, gpus=gpus, ready=ready)
    return Serve("tiny", ServeOptions(server=server, **options))


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., tuple[Serve, running.RunningServers]]]:
    """Starts a model's servers, with their logs in tmp_path/servers; they end with the test."""
    services = []

    def start(made: Serve) -> tuple[Serve, running.RunningServers]:
        services.append(made.start(tmp_path))
        return made, services[-1]

    yield start
    for service in services:
        service.close()


def pids(path: Path, number: int) -> list[int]:
    """The pids that a server and its forks noted, once there are so many."""
    until = time.monotonic() + 30
    while len(noted := path.read_text().split() if path.exists() else []) < number:
        assert time.monotonic() < until, noted
        time.sleep(0.05)
    return [int(pid) for pid in noted]


def gone(numbers: Sequence[int], seconds: float = 20) -> bool:
    """Whether all processes vanish in time; a zombie that nobody waits for is gone too."""
    until = time.monotonic() + seconds
    while left := [pid for pid in numbers if lives(pid)]:
        if time.monotonic() > until:
            return not left
        time.sleep(0.05)
    return True


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(UsageError) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said
    return said


# --- commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", "vllm serve org/m --host 127.0.0.1 --port 81 --tensor-parallel-size 2"),
        (
            "sglang",
            "python -m sglang.launch_server --model-path org/m --host 127.0.0.1 --port 81 --tensor-parallel-size 2",
        ),
        ("transformers", "transformers serve org/m --host 127.0.0.1 --port 81"),
    ],
)
def test_the_command_of_an_engine(engine: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    filled = command_of(f"{engine}:org/m", ServerConfig()).filled(81, 2)
    assert [Path(filled[0]).name, *filled[1:]] == words.split()
    assert command_of(f"{engine}:org/m", ServerConfig()).ready == "/health"
    assert command_of(f"{engine}:org/m", ServerConfig(ready="/up")).ready == "/up"


def test_a_command_of_ones_own_is_split_before_it_is_filled() -> None:
    server = ServerConfig("""run '{model}' --port={port} --limit='{"image": {gpus}}' '{"a": "{}"}'""")
    made = command_of("a b: c", server)
    assert made.filled(81, 2) == ["run", "a b: c", "--port=81", '--limit={"image": 2}', '{"a": "{}"}']
    assert made.ready == "/v1/models"


@pytest.mark.parametrize(
    ("argument", "words", "why"),
    [
        ("tiny", "run {modle} {port}", "command has {modle}; there are: model, port, gpus. Did you mean 'model'?"),
        ("tiny", "run {model}", "command has no {port}: "),
        ("tiny", "{model} {port}", "command names no program first"),
        ("tiny", "run '{port}", "command: No closing quotation"),
        ("tiny", "", "type --model=serve:ENGINE:NAME"),
        ("vllm:", "", "type --model=serve:ENGINE:NAME"),
        ("vlm:tiny", "", f"no engine 'vlm'; there are: {', '.join(ENGINES)}. Did you mean 'vllm'?"),
        ("tiny", "no-such-program {port}", "no program 'no-such-program' is on PATH"),
    ],
)
def test_a_command_that_cannot_be_used(argument: str, words: str, why: str) -> None:
    made = Serve(argument, ServeOptions(server=ServerConfig(words or ())))
    assert refusal(made.check).startswith(f"--model=serve:{argument}: ")
    assert why in refusal(made.check)


def test_the_table_of_a_config(tmp_path: Path) -> None:
    def refused(text: str) -> str:
        (tmp_path / "mine.toml").write_text(text)
        return refusal(lambda: configs.resolve("mine", folders=[tmp_path], backends=BACKENDS))

    table = '\n[server]\ncommand = "run {port}"\nwait = 5\n'
    assert "backend 'openai' starts no server: " in refused(f'backend = "openai"\nargument = "m"{table}')
    assert "line 4: Expected `float`" in refused(f'backend = "serve"{table}'.replace("5", '"long"'))
    assert "no key 'comand'" in refused(f'backend = "serve"{table}'.replace("command", "comand"))
    assert "`base_url` and `key_env` belong to" in refused(
        f'backend = "serve"\noptions.base_url = "http://h/v1"{table}'
    )
    (tmp_path / "mine.toml").write_text(f'backend = "serve"\nargument = "m"\noptions.concurrency = 3{table}')
    config = configs.resolve("mine", folders=[tmp_path], backends=BACKENDS)
    made = configs.make(config, BACKENDS)
    assert made.options == ServeOptions(concurrency=3, server=ServerConfig("run {port}", wait=5))
    assert configs.make(configs.config_of(made, "m"), BACKENDS).options == made.options
    assert configs.make(configs.as_judge(config, BACKENDS), BACKENDS).options.max_tokens == 1024


def test_it_sends_to_this_machine_alone_and_needs_no_server_before_the_run() -> None:
    made = model()
    made.check()
    made.preflight()
    assert destinations(made) == ()
    assert made.places() is None


# --- the life of servers ------------------------------------------------------------------------------------


def test_a_server_is_started_asked_and_ended(
    tmp_path: Path, started: Callable[..., tuple[Serve, running.RunningServers]]
) -> None:
    _, service = started(model("--slow=0.5", f"--pids={tmp_path / 'pids'}", ready="/health"))
    said: list[str] = []
    service.wait(said.append)
    service.wait(said.append)
    log = tmp_path / "servers/tiny-0.log"
    assert said[0].startswith("medvqa: starting a server for 'serve:tiny': ")
    assert said[0].endswith(f"; log: {log}")
    assert re.fullmatch(r"medvqa: 'serve:tiny' is ready after \d s", said[1])
    assert len(said) == 2
    # Another process, which knows what the first one tells.
    worker = model()
    worker.join(json.loads(json.dumps(service.told)))
    assert [answer.text for answer in loaded(worker).generate([Prompt("?")] * 3)] == ["A"] * 3  # type: ignore[union-attr]
    worker.close()
    (address,) = service.told["urls"]
    stranger = loaded(OpenAI("tiny", OpenAIOptions(base_url=address, retries=0)))
    (answer,) = stranger.generate([Prompt("?")])
    stranger.close()
    assert isinstance(answer, AnswerError)
    assert "wrong key" in str(answer)
    (key,) = worker.secrets()
    assert key == service.told["key"] != "sk-of-another-host"
    assert key not in f"{log.read_text()}{worker.about()}{worker.facts}"
    assert log.stat().st_mode & 0o77 == 0
    assert service.stop() == []
    service.close()
    assert gone(pids(tmp_path / "pids", 1), 1)


def test_a_server_for_each_group_of_gpus(
    tmp_path: Path, started: Callable[..., tuple[Serve, running.RunningServers]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5,7,8")
    made, service = started(model(gpus=2, concurrency=3))
    assert made.concurrency == 6
    service.wait(lambda line: None)
    made.join(service.told)
    assert len(set(service.told["urls"])) == 2
    logs = [path.read_text() for path in sorted((tmp_path / "servers").iterdir())]
    assert logs == ["GPUs: 2,3, more: 2\n", "GPUs: 5,7, more: 2\n"]
    made.load()
    assert all(isinstance(answer, Answer) for answer in made.generate([Prompt(str(n)) for n in range(20)]))
    assert [counted["answers"] > 0 for counted in made.status()["endpoints"].values()] == [True, True]
    made.close()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert refusal(model(gpus=2).check) == "--model=serve:tiny: a server takes 2 GPUs ([server] gpus), and here are 1"


@pytest.mark.parametrize(
    ("visible", "gpus"), [("", []), ("-1", []), ("0", ["0"]), ("1,-1,2", ["1"]), ("a, b", ["a", "b"])]
)
def test_visible_gpus(visible: str, gpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert running.visible_gpus() == gpus


def test_a_server_that_ends_before_it_is_ready(
    tmp_path: Path, started: Callable[..., tuple[Serve, running.RunningServers]]
) -> None:
    _, service = started(model("--fails"))
    assert refusal(lambda: service.wait(lambda line: None)) == (
        "'serve:tiny': its server ended before it was ready (exit status 3). Last lines of "
        f"{tmp_path}/servers/tiny-0.log: GPUs: , more: 1 | loading weights | CUDA error: \ufffd[31mno memory\ufffd[0m"
    )
    # An earlier session's lines are not this one's.
    _, service = started(Serve("tiny", ServeOptions(server=ServerConfig("sh -c 'kill -9 $$' {port}"))))
    assert refusal(lambda: service.wait(lambda line: None)).endswith(
        f"(signal SIGKILL). Last lines of {tmp_path}/servers/tiny-0.log: none"
    )


def test_a_server_that_takes_too_long(started: Callable[..., tuple[Serve, running.RunningServers]]) -> None:
    _, service = started(model("--slow=60", wait=0.5))
    said = refusal(lambda: service.wait(lambda line: None))
    assert said.startswith(
        "'serve:tiny': its server was not ready (/v1/models) after 0.5 s; set wait in [server] higher"
    )


def test_a_server_that_ends_during_the_run_is_told(
    started: Callable[..., tuple[Serve, running.RunningServers]],
) -> None:
    made, service = started(model("--answers=2", retries=0))
    service.wait(lambda line: None)
    made.join(service.told)
    made.load()
    made.generate([Prompt("?"), Prompt("!")])
    made.close()
    service._started[0].watcher.wait(10)
    said = service.stop()
    assert service.stop() == []
    assert said[0].startswith("! 'serve:tiny': its server ended during the run (exit status 9). Last lines of ")
    assert said[0].endswith("GPUs: , more: 1 | out of memory")


def test_a_model_that_no_run_has_started_starts_its_own_server(tmp_path: Path) -> None:
    made = loaded(model(f"--pids={tmp_path / 'pids'}"))
    folder = Path(made._own_folder)
    assert (folder / "servers/tiny-0.log").is_file()
    (answer,) = made.generate([Prompt("?")])
    assert isinstance(answer, Answer)
    made.close()
    assert gone(pids(tmp_path / "pids", 1), 1)
    assert not folder.exists()
    with pytest.raises(UsageError, match="exit status 3"):
        loaded(model("--fails"))


@pytest.mark.skipif(sys.platform != "linux", reason="orphans in groups of their own are found on Linux alone")
def test_all_forks_of_a_stubborn_server_end_with_it(
    tmp_path: Path, started: Callable[..., tuple[Serve, running.RunningServers]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "GRACE", 0.5)
    _, service = started(model("--forks", "--stubborn", f"--pids={tmp_path / 'pids'}"))
    service.wait(lambda line: None)
    noted = pids(tmp_path / "pids", 4)
    service.close()
    assert gone(noted, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans in groups of their own are found on Linux alone")
def test_all_forks_of_a_server_end_when_its_run_is_killed(tmp_path: Path) -> None:
    """Also if a fork of the run lives on, and holds the pipe to the watcher."""
    words = [sys.executable, "-c", STARTER, str(tmp_path), *command("--forks", f"--pids={tmp_path / 'pids'}")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        noted = pids(tmp_path / "pids", 4)
        run.kill()
        run.wait()
        assert gone(noted)
        os.killpg(run.pid, signal.SIGKILL)


# --- the identity of answers --------------------------------------------------------------------------------


def fingerprint(made: Serve) -> str | None:
    made.join({"urls": ["http://127.0.0.1:81/v1"], "key": "x" * 32})
    return made.fingerprint()


def test_the_fingerprint_holds_weights_command_and_options_but_no_port_and_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name, text in {"config.json": "{}", "model.safetensors": "weights"}.items():
        (folder / name).write_text(text)

    def made(**options: Any) -> Serve:
        return Serve(f"vllm:{folder}", ServeOptions(**options))

    first = fingerprint(made())
    assert first is not None
    assert made().identified() == "digests of its weights"
    assert first.startswith(f"{folder}@served ")
    moved = made()
    moved.join({"urls": ["http://127.0.0.1:82/v1", "http://127.0.0.1:83/v1"], "key": "y" * 32})
    assert moved.fingerprint() == first
    assert fingerprint(made(server=ServerConfig(gpus=2, wait=5))) == first
    assert fingerprint(made(server=ServerConfig(gpus=2, wait=5), concurrency=3)) == first
    assert fingerprint(made(temperature=1)) != first
    own = ServerConfig(("vllm", "serve", "{model}", "--port={port}", "--dtype=half"))
    assert fingerprint(Serve(str(folder), ServeOptions(server=own))) not in (first, None)
    (folder / "model.safetensors").write_text("others")
    assert fingerprint(made()) != first
    shutil.rmtree(folder)
    # Nothing is known of the weights.
    assert fingerprint(made()) is None
    assert made().identified() is None


def test_the_weights_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    refs = tmp_path / "models--org--m" / "refs"
    assert fingerprint(Serve("vllm:org/m")) is None
    refs.mkdir(parents=True)
    (refs / "main").write_text("a" * 40)
    one = Serve("vllm:org/m")
    assert fingerprint(one) is not None
    assert (one.identified(), one.about()["weights"]) == ("its commit", {"commit": "a" * 40})
    (refs / "main").write_text("b" * 40)
    assert fingerprint(Serve("vllm:org/m")) not in (fingerprint(one), None)
    # A command of one's own may take weights from elsewhere.
    own = ServerConfig("run {model} {port}")
    assert fingerprint(Serve("org/m", ServeOptions(server=own))) is None
    declared = Serve("org/m", ServeOptions(server=own, revision="2025-02"))
    assert fingerprint(declared) is not None
    assert declared.identified() == "revision 2025-02, as its config declares"
