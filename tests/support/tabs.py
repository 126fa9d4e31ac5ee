"""A tab of Chromium that keeps what its page said and asked for."""

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


class Tab:
    """A page that is open, with all that it said and asked for."""

    def __init__(self, browser: Any, **settings: object) -> None:
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.failed: dict[str, str | None] = {}
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("requestfailed", lambda request: self.failed.update({request.url: request.failure}))

    def open(self, file: Path, fragment: str = "") -> Any:
        """Open a file and wait for its script."""
        return opened(self.page, file.resolve().as_uri() + fragment)


def opened(page: Any, address: str) -> Any:
    """Open an address and wait for its script, and for the rest of the summary."""
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
    page.wait_for_selector(".undrawn", state="detached", timeout=60_000)
    return page


def text_of(pdf: bytes, folder: Path) -> list[str]:
    """The text of each page of a PDF."""
    file = folder / "page.pdf"
    file.write_bytes(pdf)
    if shutil.which("pdftotext"):
        done = subprocess.run(["pdftotext", "-layout", str(file), "-"], check=True, capture_output=True)
        return done.stdout.decode().split("\f")[:-1]
    pypdf = pytest.importorskip("pypdf", reason="neither pdftotext (poppler-utils) nor pypdf is installed")
    return [each.extract_text() for each in pypdf.PdfReader(file).pages]


def until(page: Any, expression: str, argument: object = None, seconds: float = 30) -> None:
    """Wait until an expression is true. `page.wait_for_function` would need a policy that allows `eval`."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression, argument):
        assert time.monotonic() < end, f"not true within {seconds:g} s: {expression}"
        page.wait_for_timeout(20)
