"""`medvqa help` prints the pages of the documentation, and every message that names a page names one that is there."""

import re
import sys
from pathlib import Path

import pytest

from medvqa.cli import help, main
from medvqa.cli.dispatch import MODULES
from medvqa.perturbing import catalogue
from medvqa.protocols import question_forms
from medvqa.session.options import OPTIONS, SELECT

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMED = re.compile(r"medvqa help ([a-z][a-z-]*)")


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The pages that the command lists."""
    assert main(["help"]) == 0
    return re.findall(r"^([a-z-]+)  +\S", capsys.readouterr().out, re.MULTILINE)


def test_every_page_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(listed(capsys)) == sorted({path.stem for path in DOCS.glob("*.md")} - {"index"})


def test_a_page_is_printed_with_links_as_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for name in listed(capsys):
        assert main(["help", name]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("# ")
        assert "<!--" not in shown
        assert (
            re.findall(r"\]\((?!https?:)[^)\s]*\)", re.sub(r"`{3}.*?`{3}|`[^`\n]*`", "", shown, flags=re.DOTALL)) == []
        )


def test_links_become_commands_and_paths(tmp_path: Path) -> None:
    (tmp_path / "a.sbatch").touch()
    markdown = "[Data](data.md#leaks), [a](a.sbatch), [b](b/c.md), [web](https://a.org/b)\n<!-- c -->\n![d](d.png)\n"
    assert help.readable(markdown, tmp_path) == (
        f"Data (`medvqa help data`), a (`{tmp_path / 'a.sbatch'}`), b, [web](https://a.org/b)\nd"
    )


def test_a_command_stands_after_the_word_and_once_in_brackets(tmp_path: Path) -> None:
    markdown = "a [gate](b.md)'s margin (see [Data](c.md), [d](d.md)).\n- the [model](m.md)s (one)\n- (b ([e](e.md)))"
    assert help.readable(markdown, tmp_path) == (
        "a gate's (`medvqa help b`) margin (see Data, `medvqa help c`, d, `medvqa help d`).\n"
        "- the models (`medvqa help m`) (one)\n- (b (e, `medvqa help e`))"
    )


def test_a_page_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["help", "data.md"]) == 0
    shown = capsys.readouterr().out
    assert "# " not in shown.splitlines()[0]
    assert shown.endswith("\n")
    assert not shown.endswith("\n\n")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("dta", "no page 'dta'; there are: start, data"),
        ("gpus", "Did you mean 'gpus-and-servers'?"),
        ("run", "no page 'run'; medvqa run --help explains the command"),
        ("../README", "no page '../README'"),
    ],
)
def test_a_page_that_is_not_there(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", typed]) == 4
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert said in shown.err


def test_messages_and_files_that_ship_name_pages_that_are_there() -> None:
    there = {path.stem for path in DOCS.glob("*.md")} | {"help"}
    files = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".toml", ".txt")]
    files += [*(ROOT / "models").glob("*.toml"), ROOT / "action.yml", *DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    named = {(path.name, name) for path in files for name in NAMED.findall(path.read_text("utf-8"))}
    assert {(file, name) for file, name in named if name not in there} == set()
    assert len({name for _, name in named}) > 5
    assert {row.page for row in (*OPTIONS.values(), SELECT) if row.page} <= {f"{name}.md" for name in there}
    assert "help" in MODULES


def test_the_page_of_an_option_names_it() -> None:
    rows = [row for row in (*OPTIONS.values(), SELECT) if row.page]
    assert [row.name for row in rows if f"--{row.name}" not in (DOCS / row.page).read_text("utf-8")] == []


def test_the_page_about_robustness_names_every_change() -> None:
    page = (DOCS / "robustness.md").read_text("utf-8")
    names = {name.partition(":")[0] for name in (*catalogue.changes(), *question_forms.FORMS)}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", page)] == []


def test_no_message_names_a_page_by_its_path() -> None:
    """The path is that of the repository, which a user of the wheel does not have. Docstrings and comments may."""
    strings = re.compile(r"""(?<!"")"[^"\n]*\bdocs/[a-z-]+\.md[^"\n]*\"""")
    wrong = [
        f"{path.name}: {found}"
        for path in (ROOT / "src").rglob("*.py")
        for found in strings.findall(re.sub(r'"{3}.*?"{3}|^ *#.*$', "", path.read_text("utf-8"), flags=re.M | re.S))
    ]
    assert wrong == []
