"""The documentation's examples run, page by page, and its links lead to something.

A page is one session: its Python blocks share a namespace, and its console blocks run in a folder that
looks like a user's repository. Of a console block only the exit code is checked; `<!-- skip: next -->`
before a block leaves it out.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

from support import processes

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")
ASK_THE_DEFAULT_MODEL = {"README.md", "models.md", "phantom.md"}
on_every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
on_every_page_or_slowly = pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=pytest.mark.slow if page.name in ASK_THE_DEFAULT_MODEL else (), id=str(page.relative_to(ROOT))
        )
        for page in PAGES
    ],
)


@cache
def warm_commands() -> tuple[processes.Parent, Path]:
    """Return a parent of processes that has loaded the default model, and a folder with commands that it starts."""
    parent = processes.Parent.start("--benchmark=phantom", "--limit=2")
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    processes.lay_commands(folder)
    return parent, folder


def run_console(example: Example) -> str | None:
    """Run the lines that start with "$ " (continued by "> "); what went wrong, None when nothing did."""
    commands = [line[2:] for line in str(example.parsed).splitlines() if line.startswith(("$ ", "> "))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    environment["PYTHONPATH"] = str(ROOT)
    parent, folder = warm_commands()
    environment["PATH"] = os.pathsep.join((str(folder), str(Path(sys.executable).parent), environment["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
        env=environment | {"WARM_PARENT": str(parent.control.fileno())},
        pass_fds=[parent.control.fileno()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return f"exit code {done.returncode}\n{done.stdout}{done.stderr}" if done.returncode else None


EXAMPLES = Sybil([CodeBlockParser("console", run_console), PythonCodeBlockParser(), SkipParser()])


@on_every_page_or_slowly
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "benchmark_tests", tmp_path / "benchmark_tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = benchmark_tests\n")
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES.parse(page).examples():
        example.evaluate()


@on_every_page
def test_links_lead_to_something(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


@pytest.mark.slow
def test_the_readme_shows_what_its_first_command_prints(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the default model needs the extra hf")
    shutil.copytree(ROOT / "benchmark_tests", tmp_path / "benchmark_tests")
    shown = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert shown is not None
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    printed = processes.run(
        [sys.executable, "-m", "pytest", "benchmark_tests"],
        cwd=tmp_path,
        env=environment | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [line for line in shown[1].splitlines() if line not in printed.splitlines()] == []
