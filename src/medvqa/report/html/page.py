"""The page: a frame, the app that web/ builds, and the blocks of a bundle that the app draws."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from string import Template

from medvqa.comparing import Study
from medvqa.items import Benchmark, Item
from medvqa.report import bundle, history
from medvqa.report.build import Report
from medvqa.report.bundle.pictures import FOLDER, Pictures
from medvqa.report.bundle.several_runs import title
from medvqa.report.bundle.texts import visible
from medvqa.report.history import DatedMeasure

FILE = "index.html"
SCRIPT, STYLE, LICENCES, FRAME = "app.js", "app.css", "LICENSES.txt", "frame.html"
LEVEL = 4
"""Level of zlib: 6 takes more than twice the time, and makes pages smaller by a twentieth."""

_OPENS, _CLOSES = '<script type="application/octet-stream" id="block-{}">', "</script>"


def render(report: Report, pictures: Pictures | None = None) -> bytes:
    """The page of a run."""
    return b"".join(pieces(report, pictures))


def pieces(report: Report, pictures: Pictures | None = None) -> Iterator[bytes]:
    """The page of a run, block by block: a large one is never held whole."""
    pictures = pictures or Pictures("none", "Images are left out.")
    return draw(report.title, bundle.of_run(report, pictures), folder=pictures.mode == "folder")


def comparison_page(study: Study, benchmarks: Mapping[str, Benchmark], pictures: Pictures | None = None) -> bytes:
    """The page of several runs. `pictures` are those of items that flipped."""
    pictures = pictures or Pictures("none", "Images are left out.")
    return b"".join(draw(title(study), bundle.of_comparison(study, benchmarks, pictures)))


def lexicon_page(parts: Sequence[tuple[Benchmark, Sequence[Item]]]) -> bytes:
    """The page of the lexical trees of benchmarks, without a run."""
    return b"".join(draw("Lexical trees", bundle.of_tree(parts)))


def history_page(rows: Sequence[DatedMeasure], left_out: Sequence[str]) -> bytes:
    """The page of runs in the order of time."""
    return b"".join(draw("History", bundle.of_history(history.sections(rows, left_out))))


def policy(*, folder: bool = False, saves: bool = False) -> str:
    """The content security policy of a page, as for `draw`."""
    # A file has no origin that 'self' could surely mean, hence both.
    source = "data: file: 'self'" if folder else "data:"
    connects = " connect-src 'self';" if saves else ""
    return (
        f"default-src 'none';{connects} img-src {source}; style-src 'sha256-{_digest(_asset(STYLE))}'; "
        f"script-src 'sha256-{_digest(_asset(SCRIPT))}'; base-uri 'none'; form-action 'none'"
    )


def draw(title: str, blocks: bundle.Blocks, *, folder: bool = False, saves: bool = False) -> Iterator[bytes]:
    """A page that opens offline, in pieces.

    `folder` allows images in files beside it. `saves`: a page that a server of this machine sent may send back to it.
    """
    before, between, after = re.split(r"\$head|\$blocks", _asset(FRAME))
    texts = {
        "title": html.escape(visible(title)),
        "policy": html.escape(policy(folder=folder, saves=saves)),
        "style": _asset(STYLE),
        "script": _asset(SCRIPT),
        "licences": html.escape(_asset(LICENCES)),
    }
    yield Template(before).substitute(texts).encode("utf-8", "replace")
    # The script stands above all blocks but the head: it draws the summary while the browser reads the others.
    yield element("head", blocks["head"]).encode()
    yield Template(between).substitute(texts).encode("utf-8", "replace")
    others = {name: block for name, block in blocks.items() if name != "head"}
    # Zlib lets other threads run, so that large pages are packed by several cores.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield "\n".join(threads.map(element, others.keys(), others.values())).encode()
    yield Template(after).substitute(texts).encode("utf-8", "replace")


def element(name: str, block: bytes) -> str:
    """A block as an element of the page, in base64: no character of it means anything in HTML.

    It is deflated (zlib), except an image file.
    """
    packed = block if name.startswith(f"{FOLDER}/") else zlib.compress(block, LEVEL)
    content = base64.b64encode(packed).decode("ascii")
    return f"{_OPENS.format(html.escape(name))}{content}{_CLOSES}"


def with_block(page: bytes, name: str, change: Callable[[bytes], bytes | None]) -> bytes | None:
    """Return a page in which one block is changed; None if the page has no such block, or `change` returns None."""
    before, begin, rest = page.partition(_OPENS.format(name).encode())
    content, end, after = rest.partition(_CLOSES.encode())
    if not begin or not end:
        return None
    try:
        block = change(zlib.decompress(base64.b64decode(content, validate=True)))
    except (ValueError, zlib.error):
        return None
    return None if block is None else b"".join((before, element(name, block).encode(), after))


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text("utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
