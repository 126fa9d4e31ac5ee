"""How names, tags and hostile text are shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from urllib.parse import urlencode

from medvqa.items import Benchmark
from medvqa.report.build import Part, Report
from medvqa.tags import lexicon

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Characters that are not seen, or that turn the direction of text. web/src/text.ts has the same."""


def visible(text: str) -> str:
    """Text whose control characters, among them those that turn its direction, are named instead of obeyed."""
    return HIDDEN.sub(lambda match: f"\u27e8U+{ord(match[0]):04X}\u27e9", text)


def label(name: str) -> str:
    """A name of ours for people: `set_accuracy` -> `set accuracy`."""
    return name.replace("_", " ")


def titled(benchmark: Benchmark, technique: str, techniques: Collection[str]) -> str:
    """The title of a benchmark, with the technique if several are compared on it."""
    named = benchmark.title or benchmark.name
    return f"{named}, {technique}" if len(techniques) > 1 else named


def title_of(dimension: str, value: str) -> str:
    """A tag for people: as the benchmark prints it, else with spaces."""
    shown = lexicon.display(dimension, value)
    return label(shown) if shown == value else shown


Linker = partial[str]
"""`questions` of one benchmark and technique: makes a link of a query line."""


def linker(part: Part, report: Report) -> Linker:
    """Return a function from a query line to the fragment that shows its questions of a part.

    A part that holds maxima over techniques has no results of its own: all techniques are listed.
    """
    several = len(report.techniques) > 1
    technique = part.technique if part.results else ",".join(report.techniques)
    return partial(questions, part.benchmark.name, technique if several else "")


def questions(benchmark: str, technique: str = "", line: str = "", *, unit: str = "") -> str:
    """The fragment that shows the questions of a query line, as asked by one technique, or by several ("gd,ps").

    `unit`: what is counted, as the explorer shows pairs side by side.
    """
    several = f"technique:{technique}" if "," in technique else ""
    fields = {
        "b": benchmark,
        "technique": "" if several else technique,
        "q": " ".join(filter(None, (several, line))),
        "layout": "pairs" if unit == "pairs" else "",
    }
    return "#questions?" + urlencode({name: value for name, value in fields.items() if value})


def link_of_runs(runs: tuple[str, str], measure: tuple[str, str, str], query: str) -> str:
    """The fragment that shows the questions of a comparison: of a run against another, "" for any, by a measure.

    `measure`: its benchmark, technique and name.
    """
    fields = zip(("run", "against", "b", "technique", "measure", "q"), (*runs, *measure, query), strict=True)
    return "#questions?" + urlencode({name: value for name, value in fields if value})


BARE = re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Fields and values that the query line takes without quotation marks."""
FIELDS = frozenset(
    {
        *("outcome", "pair", "technique", "rotation", "sample", "is", "tag", "id", "seconds", "confidence"),
        *("read", "read_text", "key", "key_text"),
        *("flip", "way", "agree", "right_in", "wrong_in", "scored_in", "new", "baseline"),
    }
)
"""Fields of the query line that are no dimensions; a dimension of such a name is the field `tag_NAME`."""


def query_of(dimension: str, value: str) -> str:
    """The query line that selects by a tag, or by each of two that are crossed."""
    return query(
        {
            f"tag_{name}" if lexicon.slug(name) in FIELDS else name: single
            for name, single in lexicon.uncrossed(dimension, value).items()
        }
    )


def query(terms: Mapping[str, str]) -> str:
    """The query line that selects by all of these fields: `outcome:wrong "kind of error":"lack of knowledge"`."""
    return " ".join(f"{_typed(name)}:{_typed(value)}" for name, value in terms.items())


def _typed(text: str) -> str:
    return text if BARE.fullmatch(text) else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
