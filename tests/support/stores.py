"""A server on this machine that gives files away, as well or as badly as a test asks it to."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.servers import LocalServer


@dataclass
class Sent:
    """An answer: `cut` bytes less than announced; `announced` instead of the real length, None for no length.

    `drip`: a piece of `piece` bytes each so many seconds. `chunked`: in chunks, which a cut leaves without end.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0
    announced: int | None = -1
    chunked: bool = False
    drip: float = 0
    piece: int = 1
    delay: float = 0


@dataclass
class Asked:
    method: str
    path: str
    headers: Message
    at: float

    @property
    def start(self) -> int:
        """The first byte that was asked for."""
        return int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").rstrip("-"))


def ranged(content: bytes, asked: Asked, etag: str = '"1"', **more: Any) -> Sent:
    """Answer as a good server does: the rest of the file, or all of it if the version is another one."""
    headers = {"ETag": etag, "Accept-Ranges": "bytes"} if etag else {}
    start = asked.start
    if not start or asked.headers.get("If-Range", etag) != etag:
        return Sent(content, headers=headers, **more)
    if start >= len(content):
        return Sent(b"", 416, {"Content-Range": f"bytes */{len(content)}"})
    headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
    return Sent(content[start:], 206, headers, **more)


class FileServer(LocalServer):
    """Answers the n-th request (from 0) with `script(n, asked)`."""

    def __init__(self, script: Callable[[int, Asked], Sent]) -> None:
        super().__init__(FileHandler)
        self.script = script
        self.asked: list[Asked] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        # The same machine under the name of another host.
        self.other_url = f"http://localhost:{self.server_port}"


class FileHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        with self.server.lock:
            asked = Asked(self.command, self.path, self.headers, time.monotonic())
            number = len(self.server.asked)
            self.server.asked.append(asked)
            self.server.in_flight += 1
            self.server.most = max(self.server.most, self.server.in_flight)
        try:
            self._answer(self.server.script(number, asked))
        finally:
            with self.server.lock:
                self.server.in_flight -= 1

    do_HEAD = do_GET

    def _answer(self, sent: Sent) -> None:
        time.sleep(sent.delay)
        self.send_response(sent.status)
        headers = {"Content-Type": "application/octet-stream", **sent.headers}
        if sent.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif sent.announced is not None:
            headers["Content-Length"] = str(len(sent.body) if sent.announced < 0 else sent.announced)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = bool(sent.cut) or sent.announced is None or sent.chunked or sent.announced >= 0
        if self.command == "HEAD":
            return
        body = sent.body[: len(sent.body) - sent.cut]
        size = sent.piece if sent.drip else max(1, len(body))
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if sent.chunked else piece)
            time.sleep(sent.drip)
        if sent.chunked and not sent.cut:
            self.wfile.write(b"0\r\n\r\n")
