"""A server on this machine that speaks chat completions, as well or as badly as a test asks it to."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Reply:
    """`body` is sent as it is, or as JSON. `cut` bytes less than announced; a byte each `drip` seconds."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    cut: int = 0
    drip: float = 0


@dataclass
class Request:
    body: dict[str, Any]
    headers: Message
    at: float
    in_flight: int
    path: str = "/v1/chat/completions"


def completion(content: str | None = "A", finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny-2026",
        "system_fingerprint": "fp_1",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010},
    }


def scored(*candidates: tuple[str, float], content: str | None = None) -> dict[str, Any]:
    """A completion of one token, with the log-probabilities of the likeliest in their order."""
    told = [{"token": token, "logprob": logprob, "bytes": list(token.encode())} for token, logprob in candidates]
    made = completion(candidates[0][0] if content is None else content, "length")
    made["choices"][0]["logprobs"] = {"content": [{**told[0], "top_logprobs": told}], "refusal": None}
    return made


def models(*names: str, **fields: Any) -> Reply:
    """The list of models of a vLLM server, with further fields of each model."""
    return Reply({"object": "list", "data": [{"id": name, "owned_by": "vllm", **fields} for name in names]})


def error(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply({"error": {"message": message, "type": "x", "code": code}}, status, named)


class LocalServer(ThreadingHTTPServer):
    """Serves in threads while its `with` block runs; `most` is the most requests that were in flight."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.in_flight = self.most = 0
        self.connections: list[socket.socket] = []
        self.lock = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def die(self) -> None:
        """End as a killed process does: nobody listens any more, and open connections are reset."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the tests."""


class Server(LocalServer):
    """Answers the n-th request (from 0) with `script(n, request)`."""

    def __init__(self, script: Callable[[int, Request], Reply], port: int = 0) -> None:
        super().__init__(Handler, port)
        self.script = script
        self.requests: list[Request] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.models: Reply | None = None
        """The reply to GET /v1/models; None: 404."""
        self.pages: dict[str, Reply] = {}
        """Replies to GET by path."""
        self.asked_models = 0
        self.got: list[Message] = []
        """The headers of each GET."""
        # To the plugin a host that is not loopback, to Linux this machine.
        self.remote_url = f"http://0.0.0.0:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.asked_models += 1
            self.server.got.append(self.headers)
        reply = self.server.models if self.path == "/v1/models" else self.server.pages.get(self.path)
        self._send(reply or error(404, "no such page"))

    def do_POST(self) -> None:
        # Before it counts: a body that was cut off is no request.
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.in_flight += 1
            request = Request(body, self.headers, time.monotonic(), self.server.in_flight, self.path)
            number = len(self.server.requests)
            self.server.requests.append(request)
            self.server.most = max(self.server.most, self.server.in_flight)
        try:
            reply = self.server.script(number, request)
            time.sleep(reply.delay)
        finally:
            with self.server.lock:
                self.server.in_flight -= 1
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        content = content[: len(content) - reply.cut]
        if reply.drip:
            for byte in content:
                self.wfile.write(bytes([byte]))
                time.sleep(reply.drip)
        else:
            self.wfile.write(content)
        self.close_connection = bool(reply.cut)
