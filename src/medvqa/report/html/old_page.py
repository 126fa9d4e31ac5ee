"""The page that compares runs: its template, content and policy."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from medvqa.items import OUTCOMES
from medvqa.report import comparison, gate, tables
from medvqa.report.bundle.texts import bounds, chance, label, points, shown, visible
from medvqa.report.html import pack

FILE = "index.html"
LIBRARIES = ("preact-10.29.8.js", "htm-3.1.1.js")
SCRIPTS = (*LIBRARIES, "common.js")
"""Scripts that every page runs before its own."""
LICENCES = ("preact-LICENSE.txt", "htm-LICENSE.txt")


def draw(name: str, data: Mapping[str, Any], *, folder: bool = False, **context: Any) -> bytes:
    """The page of this name: its template with the context, its script with the data; `folder` allows files."""
    style, script = _asset("page.css"), ";\n".join(map(_asset, (*SCRIPTS, f"{name}.js")))
    # A file has no origin that 'self' could surely mean, hence both.
    source = "data: file: 'self'" if folder else "data:"
    policy = (
        f"default-src 'none'; img-src {source}; style-src 'sha256-{_digest(style)}'; "
        f"script-src 'sha256-{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    text: str = _template(f"{name}.html").render(
        **context,
        data=pack.squeeze(data),
        style=style,
        script=script,
        policy=policy,
        licences=[_asset(name) for name in LICENCES],
    )
    return text.encode()


@cache
def _asset(name: str) -> str:
    """A file of this package, without the pointer to a source map that is not there."""
    text = resources.files(__package__).joinpath("assets", name).read_text("utf-8")
    return re.sub(r"\n//# sourceMappingURL=.*\n?", "\n", text)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template(name: str) -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {
        "label": label,
        "percent": tables.percent,
        "points": points,
        "after": str.removeprefix,
        "chance": chance,
        "shown": shown,
        "interval": tables.interval,
        "where": lambda measure: "; ".join(f"{k}={v}" for k, v in measure.slice.items()),
        "no_interval": tables.no_interval,
        "number": lambda number: f"{number:,g}",
    }
    environment.tests["few_units"] = tables.few
    environment.globals |= {
        "references": tables.REFERENCES,
        "outcomes": OUTCOMES,
        "few": tables.FEW,
        "bounds": bounds,
        "comparisons": comparison,
        "gates": gate,
    }
    return environment.get_template(name)
