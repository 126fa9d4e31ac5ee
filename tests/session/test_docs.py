"""The examples of the documentation run, page by page, and its links lead to a file and a heading.

A page is one session: its Python blocks share a namespace, and its console blocks run in a folder that looks like a
user's repository, with the installed wheel. Of a console block only the exit code is checked. `<!-- skip: next -->`
before a block leaves it out; test_commands.py types the commands of such blocks too.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

from support.installed import Door

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
WITH_COMMANDS = [page for page in PAGES if re.search(r"^ *```console$", page.read_text(), re.MULTILINE)]
WITHOUT_COMMANDS = [page for page in PAGES if page not in WITH_COMMANDS]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")


def name(page: Path) -> str:
    """The path of a page in the repository, as the id of its test."""
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub forms them."""
    text = re.sub(r"^ *(`{3,}).*?^ *\1`*$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    formed: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.*?)[ #]*$", text, re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        plain = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        again = (f"{plain}-{number}" for number in itertools.count(1))
        formed.add(plain if plain not in formed else next(anchor for anchor in again if anchor not in formed))
    return formed


def run_page(page: Path, folder: Path, door: Door | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples of a page in a folder that holds the suite; AssertionError names the block that fails."""
    shutil.copytree(ROOT / "benchmark_tests", folder / "benchmark_tests")
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = benchmark_tests\n")
    monkeypatch.chdir(folder)

    def run_console(example: Example) -> str | None:
        assert door is not None, "a page with commands needs the installed wheel"
        commands = [line[2:] for line in str(example.parsed).splitlines() if line.startswith(("$ ", "> "))]
        done = Door(folder, door.environment).type("\n".join(commands))
        return f"exit code {done.code}\n{done.output}" if done.code else None

    parsers = [CodeBlockParser("console", run_console), PythonCodeBlockParser(), SkipParser()]
    for example in Sybil(parsers).parse(page).examples():
        example.evaluate()


@pytest.mark.parametrize("page", WITHOUT_COMMANDS, ids=name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, tmp_path, None, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_examples_run_with_the_wheel(page: Path, tmp_path: Path, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    run_page(page, folder, door, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_a_file(page: Path) -> None:
    wrong = []
    for file, anchor in LINK.findall(page.read_text()):
        target = page.parent / file if file else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(f"{file}#{anchor}" if anchor else file)
    assert wrong == []


def test_anchors_are_formed_as_github_forms_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# Exact: `-m "lexicon(...)"`\n\n```sh\n# no heading\n```\n\n## [Ends](a.md) here\n\n## Ends here\n'
    )
    assert anchors(page) == {"exact--m-lexicon", "ends-here", "ends-here-1"}


@pytest.mark.slow
def test_the_readme_shows_what_its_first_command_prints(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the default model needs the extra hf")
    shutil.copytree(ROOT / "benchmark_tests", tmp_path / "benchmark_tests")
    shown = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert shown is not None
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    printed = subprocess.run(
        [sys.executable, "-m", "pytest", "benchmark_tests"],
        cwd=tmp_path,
        env=environment | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [line for line in shown[1].splitlines() if line not in printed.splitlines()] == []
