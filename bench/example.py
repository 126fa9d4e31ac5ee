"""The run that ships, made anew by one command: `python bench/example.py`.

Runs the README's first command as `--run=example` in a folder of its own. Copies run.json, results.jsonl and
selected.jsonl into reports/example, and draws metrics.json, measures.csv, summary.md, junit.xml, index.html and the
README's picture from them (`--no-picture` leaves the picture out: it needs Chromium and playwright). Takes a minute on
two cores.

Times, dates and versions differ from run to run. What must not is checked by tests/session/test_example.py: questions,
what the model said, how it was read, and that the reports are those of these results.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "reports" / "example"
FILES = (
    "run.json",
    "results.jsonl",
    "selected.jsonl",
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-picture", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        made = run(Path(temporary), "-n", "2")
        shutil.rmtree(EXAMPLE, ignore_errors=True)
        EXAMPLE.mkdir(parents=True)
        for name in ("results.jsonl", "selected.jsonl"):
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
    if not options.no_picture:
        subprocess.run([sys.executable, ROOT / "bench" / "screenshots.py", "--readme"], check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
