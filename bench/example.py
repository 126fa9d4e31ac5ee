"""The run that ships, made anew by one command: `python bench/example.py`.

Runs the README's first command as `--run=example` in a folder of its own. Copies run.json, results.jsonl,
selected.jsonl and prompts.jsonl into reports/example, and draws metrics.json, measures.csv, summary.md, junit.xml,
index.html and the README's picture from them (`--no-picture` leaves the picture out: it needs Chromium and playwright).
Takes a minute on two cores.

Times, dates and versions differ from run to run. What must not is checked by tests/session/test_example.py: questions,
what the model said, how it was read, and that the reports are those of these results.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).parents[1]
EXAMPLE, PICTURE = ROOT / "reports" / "example", ROOT / "docs" / "images" / "report.png"
SHOWN = "phantom-mediconfusion|1/1|ps"
"""The question of the picture."""
FILES = (
    "run.json",
    "results.jsonl",
    "selected.jsonl",
    "prompts.jsonl",
    "metrics.json",
    "measures.csv",
    "summary.md",
    "junit.xml",
    "index.html",
)
"""What ships of a run folder. The answers lie in a store of their own and are in results.jsonl too."""


def run(folder: Path, *arguments: str) -> Path:
    """Run the suite in an empty folder as a user would, without what this session was told; the run folder."""
    shutil.copytree(ROOT / "benchmark_tests", folder / "benchmark_tests")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    command = [sys.executable, "-m", "pytest", "benchmark_tests", "--run=example", "-p", "no:randomly", *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return folder / "reports" / "example"


def draw() -> None:
    """Draw the picture of the README: the top of the page and a question."""
    from page import CHROMIUM, FLAGS
    from PIL import Image
    from playwright.sync_api import sync_playwright

    address = (EXAMPLE / "index.html").as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))

        def opened(fragment: str) -> Any:
            tab = browser.new_context(viewport={"width": 1320, "height": 900}, reduced_motion="reduce").new_page()
            tab.goto(address + fragment)
            tab.wait_for_selector("html[data-ready]", state="attached")
            return tab

        top = Image.open(io.BytesIO(opened("").screenshot(clip={"x": 0, "y": 0, "width": 1320, "height": 640})))
        dialog = opened(f"#questions?{urlencode({'item': SHOWN})}").locator("dialog")
        dialog.locator("img").first.evaluate("image => image.decode()")
        below = Image.open(io.BytesIO(dialog.screenshot()))
        browser.close()
    whole = Image.new("RGB", (top.width, top.height + below.height), "white")
    whole.paste(top)
    whole.paste(below, ((top.width - below.width) // 2, top.height))
    whole.save(PICTURE, optimize=True)


def main() -> int:
    import harness  # Not above: a test imports this file from elsewhere.

    typed = harness.options(__doc__, no_picture=False)
    with tempfile.TemporaryDirectory() as temporary:
        made = run(Path(temporary), "-n", "2")
        shutil.rmtree(EXAMPLE, ignore_errors=True)
        EXAMPLE.mkdir(parents=True)
        for name in ("results.jsonl", "selected.jsonl", "prompts.jsonl"):
            shutil.copyfile(made / name, EXAMPLE / name)
        # Where the repository lies on this machine is nobody else's business.
        told = (made / "run.json").read_text().replace(f"{ROOT}/", "")
        (EXAMPLE / "run.json").write_text(told)
    # From these two all else is drawn, as anybody can draw it again.
    command = [sys.executable, "-m", "medvqa.cli", "report", "reports/example", "--images=inside"]
    subprocess.run(command, cwd=ROOT, check=True)
    for name in FILES:
        text = (EXAMPLE / name).read_text()
        if str(ROOT) in text or temporary in text:
            raise SystemExit(f"reports/example/{name} names a folder of this machine")
        print(f"{(EXAMPLE / name).stat().st_size / 1e3:8.0f} kB  reports/example/{name}")
    if not typed.no_picture:
        draw()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
