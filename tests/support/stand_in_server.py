"""A server of chat completions as a program, in place of vLLM: `python stand_in_server.py MODEL PORT [options]`.

--pids=FILE: add the pids of the server and of its forks to a file. --forks: start a process in the server's group, one
in a session of its own, and an orphan in another. --fails: end with exit status 3. --stubborn: ignore SIGTERM.
--slow=SECONDS: be ready later. --answers=N: end after so many answers. --pause=SECONDS: wait before each answer.
As vLLM does, it asks for the key of VLLM_API_KEY everywhere except for /health.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

model, port = sys.argv[1:3]
options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[3:])
key = os.environ.get("VLLM_API_KEY", "")
answered = 0
lock = threading.Lock()


def note() -> None:
    """Note the pid of this process."""
    if "pids" in options:
        with open(options["pids"], "a") as file:
            file.write(f"{os.getpid()}\n")


def fork(*, own_session: bool, orphan: bool = False) -> None:
    """Start a process that sleeps; an orphan's parent ends at once."""
    pid = os.fork()
    if pid:
        if orphan:
            os.waitpid(pid, 0)
        return
    if own_session:
        os.setsid()
    if orphan and os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note()
    time.sleep(600)
    os._exit(0)


class Handler(BaseHTTPRequestHandler):
    """Answers "A" to every question."""

    protocol_version = "HTTP/1.1"

    def reply(self, status: int, value: object) -> None:
        """Send JSON."""
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """Answer /health and the list of models."""
        if self.path == "/health":
            self.reply(200, {})
        elif self.allowed():
            self.reply(200, {"object": "list", "data": [{"id": model, "object": "model", "root": model}]})

    def do_POST(self) -> None:
        """Answer a question."""
        global answered
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        if body["model"] != model:
            self.reply(404, {"error": {"message": f"no model {body['model']}"}})
            return
        time.sleep(float(options.get("pause", 0)))
        message = {"role": "assistant", "content": "A"}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.reply(200, {"id": "1", "object": "chat.completion", "model": model, "choices": choices, "usage": usage})
        with lock:
            answered += 1
            if answered == int(options.get("answers", -1)):
                print("out of memory", flush=True)
                os._exit(9)

    def allowed(self) -> bool:
        """Whether the request has the key."""
        if key and self.headers["Authorization"] != f"Bearer {key}":
            self.reply(401, {"error": {"message": "wrong key"}})
            return False
        return True

    def log_message(self, *args: object) -> None:
        """Log nothing."""


note()
print(f"GPUs: {os.environ.get('CUDA_VISIBLE_DEVICES')}, more: {options.get('gpus')}", flush=True)
if "fails" in options:
    print("loading weights\n\nCUDA error: \x1b[31mno memory\x1b[0m", flush=True)
    sys.exit(3)
if "stubborn" in options:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "forks" in options:
    fork(own_session=False)
    fork(own_session=True)
    fork(own_session=True, orphan=True)
time.sleep(float(options.get("slow", 0)))
ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
