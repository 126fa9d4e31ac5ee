"""The site: `tox run -e site`. docs/index.md lists its pages; the gallery is drawn by this project's own commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

import medvqa

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "reports" / "example"

project = "pytest-medvqa"
version = release = medvqa.__version__
copyright = "the authors of pytest-medvqa, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
nitpicky = True
# Types of the standard library and of other packages: a link to their documentation needs a network.
nitpick_ignore_regex = [("py:.*", r"(?!medvqa\.[A-Z]\w*$).*")]

html_theme = "furo"
html_title = project
html_copy_source = html_show_sphinx = False
# Summaries are fetched from the pages, which a browser refuses for a site that is opened as files.
html_show_search_summary = False
html_extra_path: list[str] = []
"""The folder of the gallery, once it is drawn."""

myst_heading_anchors = 4
smartquotes = False

# Docstrings are plain text with names between single backquotes.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"


def setup(app: Sphinx) -> None:
    """Let the parts that are made while the site is built be made."""
    app.connect("config-inited", _draw_gallery)
    app.connect("source-read", _follow)


def _draw_gallery(app: Sphinx, config: object) -> None:
    """Draw a run, a comparison and a gate in the folder gallery/, with the commands that the page names."""
    made = Path(tempfile.mkdtemp(prefix="medvqa-gallery-"))
    app.connect("build-finished", lambda *_: shutil.rmtree(made))
    commands = (
        "run --model=majority --run=majority --limit=100",
        "run --model=random --run=gated --limit=100 --baseline=reports/majority --margin=20",
        "report reports/majority reports/gated --output=comparison.html",
    )
    for command in commands:
        typed = [sys.executable, "-m", "medvqa.cli", *command.split()]
        done = subprocess.run(typed, cwd=made, capture_output=True, text=True, check=False)  # noqa: S603
        # 10 and 11 are verdicts of the gate.
        if done.returncode not in (0, 10, 11):
            raise RuntimeError(f"medvqa {command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    pages = made / "extra" / "gallery"
    pages.mkdir(parents=True)
    shutil.copy(EXAMPLE / "index.html", pages / "run.html")
    shutil.copy(made / "comparison.html", pages / "comparison.html")
    shutil.copy(made / "reports" / "gated" / "index.html", pages / "gate.html")
    html_extra_path.append(str(made / "extra"))


def _follow(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the table of contents to the home page, from its list; show paths of the repository as text."""
    if docname == "index":
        pages = re.findall(r"^- \[[^]]*\]\(([a-z-]+)\.md\)", source[0], re.MULTILINE)
        decisions = sorted(f"decisions/{path.stem}" for path in (ROOT / "docs" / "decisions").glob("*.md"))
        for caption, names in (("Pages", [*pages, "gallery", "api"]), ("Decisions", decisions)):
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", ""])
    source[0] = re.sub(r"(?<!!)\[([^]]*)\]\((?:\.\./)+[^)]*\)", r"\1", source[0])
