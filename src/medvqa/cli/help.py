"""`medvqa help`: print a page of the documentation, which the wheel carries."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from medvqa.benchmarks import folders
from medvqa.cli import dispatch
from medvqa.cli.arguments import Arguments, Command, help_width, positional
from medvqa.decode import did_you_mean, shown
from medvqa.items import UsageError

_ENTRY = re.compile(r"^- \[[^]]*\]\(([a-z-]+)\.md\): (.*)$", re.MULTILINE)
"""A page in docs/index.md: its name, and what it is about."""
_LINK = re.compile(r"!?\[([^]]*)\]\((?!https?:)([^)\s]*)\)((?:['’]?\w+)?)")
"""A link: its text, its target, and the end of the word that follows, as in "[gate](comparing.md)'s"."""
_PART = re.compile(r"\n\n|\n *- |\|")
"""What parts sentences: the end of a paragraph, of a row of a list, of a cell."""


class HelpArguments(Arguments):
    """Print a page of the documentation, or list the pages.

    `medvqa COMMAND --help` explains a command, `medvqa options` the options of runs.
    """

    page: str | None = positional("a page, such as start (default: list the pages)", "PAGE", least=0)


def run(typed: HelpArguments) -> str:
    """Return a page, as text for a pipe; on a terminal, print it with colours first (UsageError)."""
    folder = folders.bundled("docs")
    about = dict(_ENTRY.findall((folder / "index.md").read_text("utf-8")))
    if typed.page is None:
        width = max(map(len, about))
        return "\n".join([*(f"{name:<{width}}  {line}" for name, line in about.items()), "", "Type medvqa help PAGE."])
    name = typed.page.removesuffix(".md")
    if name not in about:
        command = f"; medvqa {name} --help explains the command" if name in dispatch.MODULES else ""
        raise UsageError(f"no page {shown(name)}{command or did_you_mean(name, about)}")
    text = readable(Path(folder, f"{name}.md").read_text("utf-8"), folder)
    return _drawn(text) if sys.stdout.isatty() else text


def readable(markdown: str, folder: Path) -> str:
    """Return a page without what only a browser follows.

    A link to another page becomes the command that prints it, one to a file that is there the path.
    """

    def link(match: re.Match[str]) -> str:
        text, target, ending = match.groups()
        name = target.partition("#")[0]
        file = folder / name
        if name.endswith(".md") and "/" not in name:
            place = f"`medvqa help {name.removesuffix('.md')}`"
        elif name and not name.endswith(".md") and file.is_file():
            place = f"`{file}`"
        else:
            return f"{text}{ending}"
        before = _PART.split(match.string[: match.start()])[-1]
        within = before.count("(") > before.count(")")
        return f"{text}{ending}, {place}" if within else f"{text}{ending} ({place})"

    return _LINK.sub(link, re.sub(r"<!--.*?-->\n?", "", markdown, flags=re.DOTALL)).strip()


def _drawn(text: str) -> str:
    """Print a page on the terminal, but for the last end of line, which is printed after what a command returns."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=help_width())
    with console.capture() as drawn:
        console.print(Markdown(text))
    sys.stdout.write(drawn.get().rstrip("\n"))
    return ""


COMMAND = Command(HelpArguments, run)
