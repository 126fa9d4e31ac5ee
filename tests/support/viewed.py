"""`medvqa view` as a process, and tabs that it serves."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self
from urllib.parse import quote

from support import processes

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


class View:
    """Serves a folder while its `with` block runs."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MEDVQA_"))}
        self.process: subprocess.Popen[str] = processes.Popen(
            [sys.executable, "-m", "medvqa.cli", "view", str(folder), "--no-browser", *arguments],
            cwd=folder.parent,
            env=environment | {"ITEMS": "48"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.address = self._told()
        """The address with the token."""
        self.origin = re.match(r"http://[^/]+", self.address).group()  # type: ignore[union-attr]

    def _told(self) -> str:
        said = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said += line
            if address := ADDRESS.search(line):
                return address.group()
        raise AssertionError(f"medvqa view told no address: {said}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Ctrl-C, and wait for the process."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
                raise

    def run(self, name: str, fragment: str = "") -> str:
        """The address of a run."""
        return f"{self.origin}/runs/{quote(name)}{fragment}"
