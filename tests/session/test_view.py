"""`medvqa view` as a process: how it starts and ends, and what a hostile client gets."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import decompress

import pytest

from support import pages, processes
from support.viewed import View

pytest.importorskip("uvicorn")

SECRET = "a file beside the served folder"


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def problem(self) -> str:
        """The sentence of a refusal."""
        assert self.status >= 400
        return str(json.loads(self.body)["error"])


class Client:
    """Sends exactly what it is told, with the cookie of the server."""

    def __init__(self, view: View) -> None:
        self.port = int(view.origin.rpartition(":")[2])
        self.token = view.address.partition("token=")[2]
        self.cookie = {"Cookie": f"medvqa-view-{self.port}={self.token}"}

    def asked(
        self, path: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", body: bytes | None = None
    ) -> Reply:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, body, self.cookie if headers is None else headers)
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())

    def sent(self, content: bytes) -> bytes:
        """What comes back for some bytes."""
        with self.opened(content) as raw:
            received = b""
            while part := raw.recv(2**16):
                received += part
            return received

    def opened(self, content: bytes) -> socket.socket:
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        raw.sendall(content)
        return raw

    def head(self, path: str) -> bytes:
        """A request that may be answered."""
        lines = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Cookie: {self.cookie['Cookie']}")
        return "\r\n".join([*lines, "", ""]).encode()

    def stream(self) -> socket.socket:
        """A connection that was answered, and stays open."""
        raw = self.opened(self.head("/api/runs"))
        assert raw.recv(2**16).startswith(b"HTTP/1.1 200")
        return raw


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project") / "reports"
    for name in ("old", "group/new"):
        pages.write(folder / name, pages.guesses()[:6])
    (folder.parent / "secret").write_text(SECRET)
    (folder / "link").symlink_to(folder.parent)
    (folder.parent / "tmp").mkdir()
    return folder


@pytest.fixture(scope="module")
def view(reports: Path) -> Iterator[View]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(reports.parent / "tmp"))
        with View(reports) as served:
            yield served


@pytest.fixture
def client(view: View) -> Client:
    return Client(view)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return processes.run(
        [sys.executable, "-m", "medvqa.cli", "view", *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )


def test_the_address_leads_to_the_page(client: Client, view: View) -> None:
    first = client.asked(f"/?token={client.token}", {})
    assert (first.status, first.headers["location"]) == (303, "/")
    assert first.headers["set-cookie"].startswith(f"{client.cookie['Cookie']}; HttpOnly; SameSite=Strict")
    page = client.asked("/")
    assert page.status == 200
    assert "'self'" in page.headers["content-security-policy"]
    assert "server" not in page.headers
    text = page.body.decode()
    assert '<meta name="medvqa-view" content="1">' in text
    assert client.token not in text
    # Its policy allows nothing inside the page.
    assert re.findall(r"<(?:script|style)[^>]*>(?=[^<])| on\w+=| style=", text) == []
    for file in re.findall(r'(?:src|href)="(.*?)"', text):
        assert client.asked(file).status == 200
    names = {run["name"] for run in json.loads(client.asked("/api/runs").body)["runs"]}
    assert names == {"old", "group/new"}


def test_a_list_has_what_changed_since(client: Client, reports: Path) -> None:
    whole = json.loads(client.asked("/api/runs").body)
    again = json.loads(client.asked(f"/api/runs?since={whole['version']}").body)
    assert (again["partial"], again["runs"], again.get("gone", [])) == (True, [], [])
    os.utime(reports / "old" / "run.json")
    pages.write(reports / "later", pages.guesses()[:2])
    until = time.monotonic() + 20
    told: set[str] = set()
    while told != {"old", "later"} and time.monotonic() < until:
        answer = json.loads(client.asked(f"/api/runs?since={again['version']}").body)
        told = {run["name"] for run in answer["runs"]}
    assert told == {"old", "later"}
    shutil.rmtree(reports / "later")
    while not answer.get("gone") and time.monotonic() < until:
        answer = json.loads(client.asked(f"/api/runs?since={answer['version']}").body)
    assert answer["gone"] == ["later"]
    # Versions of a server that was started again are no versions of this one.
    for unknown in (1, answer["version"] + 10**9):
        assert not json.loads(client.asked(f"/api/runs?since={unknown}").body).get("partial")
    assert client.asked("/api/runs?since=x").problem.startswith("since=x: a whole number")


def test_bundles_are_drawn_once_and_read_block_by_block(client: Client, reports: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in reports.rglob("*")}
    drawn = client.asked("/api/bundle?run=old")
    key = json.loads(drawn.body)["key"]
    assert json.loads(client.asked("/api/bundle?run=old").body)["key"] == key
    block = client.asked(f"/api/bundles/{key}/head")
    assert block.headers["content-encoding"] == "deflate"
    head = json.loads(decompress(block.body))
    assert head["kind"] == "run"
    assert all(client.asked(f"/api/bundles/{key}/answers/{k}").status == 200 for k in range(head["answers"]))
    several = json.loads(client.asked("/api/bundle?run=old&run=group%2Fnew").body)
    assert json.loads(decompress(client.asked(f"/api/bundles/{several['key']}/head").body))["kind"] == "comparison"
    for wrong in ("0", "stderr", "../head", "%2e%2e/lock", "answers/-1", "images/" + "0" * 64 + ".png"):
        assert client.asked(f"/api/bundles/{key}/{wrong}").status == 404
    assert {path: path.stat().st_mtime_ns for path in reports.rglob("*")} == before
    (scratch,) = (reports.parent / "tmp").glob("medvqa-view-*")
    assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
    # What a killed server would leave has no text of a page.
    assert [path.name for path in scratch.parent.rglob("*")] == [scratch.name, "lock"]
    os.utime(reports / "old" / "results.jsonl", (1, 1))
    assert json.loads(client.asked("/api/bundle?run=old").body)["key"] != key
    assert client.asked("/api/bundle").problem == "0 runs are named: a page shows 1 to 20. medvqa report compares more."


def test_a_broken_run_costs_only_its_own_page(client: Client, reports: Path) -> None:
    broken = reports / "broken"
    broken.mkdir()
    (broken / "run.json").write_text('{"schema": 1, "name": "\x1b[31m"')
    (broken / "results.jsonl").write_text("{")
    assert "run.json" in client.asked("/api/bundle?run=broken").problem
    (reports / "linked").mkdir()
    for file in ("run.json", "results.jsonl"):
        (reports / "linked" / file).symlink_to(reports / "old" / file)
    assert client.asked("/api/bundle?run=linked").problem.startswith("results.jsonl is a symbolic link")
    assert client.asked("/api/bundle?run=old").status == 200


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/..",
            "/../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "//secret",
            "/app.js/",
            "/app.js%00",
            "/assets/app.js",
        ),
        *("/api", "/api/", "/api/runs/", "/api/nothing", "/api/runs/old", "/api/runs/old/results.jsonl"),
        *("/api/runs/../progress", "/api/runs/..%2f/progress", "/api/runs/%2e%2e/progress", "/api/runs/%00/progress"),
        *(
            "/api/runs/%2fetc/progress",
            "/api/runs//progress",
            "/api/runs/link/progress",
            "/api/runs/link/reports/old/items",
        ),
        *("/api/runs/old%ff/progress", "/api/runs/old/images/..%2f..%2fsecret", "/api/runs/old/images/" + "a" * 64),
        *("/api/bundles/../secret", "/api/bundles/%2e%2e/secret", "/api/bundle?run=link", "/api/bundle?run=../old"),
        "/api/history",
    ],
)
def test_no_path_leads_out_of_the_folder(client: Client, path: str) -> None:
    reply = client.asked(path)
    assert reply.status == 404
    assert reply.problem
    assert SECRET.encode() not in reply.body
    assert str(Path.cwd()).encode() not in reply.body


def test_strangers_get_nothing(client: Client) -> None:
    own = client.cookie
    for headers in (
        {},
        own | {"Host": "evil.example"},
        own | {"Host": f"127.0.0.1:{client.port + 1}"},
        own | {"Origin": f"http://127.0.0.1:{client.port + 1}"},
        own | {"Sec-Fetch-Site": "same-site"},
        {"Cookie": f"medvqa-view-{client.port}=\xe9\xff"},
        {"Cookie": f"medvqa-view-{client.port + 1}={client.token}"},
    ):
        for path in ("/", "/api/runs", "/api/runs?since=1", "/app.js", "/nothing"):
            assert client.asked(path, headers).status == 403
    assert client.asked("/?token=%C3%A9", {}).status == 403
    assert client.asked("/api/runs", method="DELETE").status == 405
    assert client.asked("/api/runs/old/reviews", method="PUT", body=b"").status == 403  # without an origin
    assert client.asked("/api/runs", own | {"Host": f"localhost:{client.port}"}).status == 200


def test_broken_requests_get_an_answer(client: Client) -> None:
    host = b"Host: 127.0.0.1:%d\r\n" % client.port
    for content in (
        b"\r\n\r\n\x00\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\n" + host + b"\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"X: " + b"x" * 2**17 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        with suppress(ConnectionResetError):  # The rest of a large head is not read.
            assert client.sent(content).startswith(b"HTTP/1.1 4")
    upgrade = b"GET /api/runs HTTP/1.1\r\n" + host + b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    assert client.sent(upgrade).startswith(b"HTTP/1.1 403")


def test_slow_and_many_clients_hold_nobody_up(client: Client, view: View) -> None:
    half = f"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n".encode()
    put = f"PUT /api/runs/old/reviews HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nContent-Length: 9000\r\n".encode()
    own = f"Cookie: {client.cookie['Cookie']}\r\nOrigin: http://127.0.0.1:{client.port}\r\n\r\n".encode()
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(client.stream())
            stack.enter_context(client.opened(put + own + b"{"))
        for _ in range(400):
            stack.enter_context(client.opened(half))
        assert client.asked("/api/runs").status == 200
        # The oldest of those that wait for their request are closed.
        assert len(os.listdir(f"/proc/{view.process.pid}/fd")) < 300


def test_a_refused_request_loses_its_connection(client: Client) -> None:
    """Bodies that never come, of requests without the cookie, kept the owner out."""
    head = f"PUT /api/runs/old/reviews HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nContent-Length: 9000\r\n\r\n{{"
    for _ in range(3):
        with client.opened(head.encode()) as pending:
            pending.settimeout(10)
            reply = b""
            while part := pending.recv(2**16):
                reply += part
            assert reply.startswith(b"HTTP/1.1 403")


def test_reviews_are_saved_unless_they_have_changed(client: Client, reports: Path) -> None:
    own = client.cookie | {"Origin": f"http://127.0.0.1:{client.port}"}
    saved = client.asked("/api/runs/old/reviews")
    assert (saved.status, saved.body) == (200, b"")
    stale = client.asked("/api/runs/old/reviews", own | {"If-Match": '"0"'}, method="PUT", body=b"")
    assert stale.status == 412
    tag = {"If-Match": saved.headers["etag"]}
    assert client.asked("/api/runs/old/reviews", own | tag, method="PUT", body=b"").status == 200
    assert client.asked("/api/runs/old/reviews", own | tag, method="PUT", body=b"\xff").status == 422
    assert client.asked("/api/runs/old/reviews", own | tag, method="PUT", body=b"{}").status == 422
    large = own | tag | {"Content-Length": str(2**30)}
    assert client.asked("/api/runs/old/reviews", large, method="PUT", body=b"").status == 413


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_open_connections(
    reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    view = View(reports)
    client = Client(view)
    assert client.asked("/api/bundle?run=old").status == 200
    with ExitStack() as stack:
        streams = [stack.enter_context(client.stream()) for _ in range(10)]
        stack.enter_context(client.opened(b"GET"))
        assert len(list(tmp_path.glob("medvqa-view-*"))) == 1
        began = time.monotonic()
        view.process.send_signal(number)
        said, _ = view.process.communicate(timeout=10)
        assert time.monotonic() - began < 2
        for stream in streams:
            while stream.recv(2**12):
                pass
    assert view.process.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert said.strip() == ""  # no line of an error, and no token


SLOW = """
import os, pathlib, sys, time
if sys.argv[0] == "-c":  # the process that draws
    pathlib.Path(__file__).with_name("drawing").write_text(str(os.getpid()))
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_drawing_outlives_it(reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "slow.py").write_text(SLOW)
    view = View(reports, f"--plugin={tmp_path / 'slow.py'}")
    client = Client(view)
    with client.opened(client.head("/api/bundle?run=old")):
        until = time.monotonic() + 20
        while not (pid := _written(tmp_path / "drawing")) and time.monotonic() < until:
            time.sleep(0.02)
        assert client.asked("/api/runs").status == 200  # Others do not wait for it.
        began = time.monotonic()
        view.process.send_signal(number)
        view.process.communicate(timeout=10)
        while _runs(int(pid)) and time.monotonic() < until:
            time.sleep(0.02)
        assert not _runs(int(pid))
        assert time.monotonic() - began < 3


def _written(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_cannot_be_served_says_what_to_type(tmp_path: Path, client: Client, reports: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, line in (
        ((), "reports is no folder: start a run by `medvqa run --model=...` or pytest, or type `medvqa view FOLDER`"),
        (("empty",), "empty has no runs: start one by `medvqa run --model=...` or pytest, or name the folder"),
        ((str(reports), f"--port={client.port}"), f"--port={client.port}: another program uses it; name another one"),
        (
            (str(reports), "--port=70000"),
            "--port=70000: a whole number of at most 65,535 is expected; leave --port out for a free one",
        ),
        ((str(reports), "--plugin=none.py"), "--plugin=none.py: no such Python file"),
    ):
        done = command(tmp_path, *arguments)
        assert done.returncode == 4
        assert done.stderr.startswith(f"medvqa: {line}")
        assert done.stdout == ""
