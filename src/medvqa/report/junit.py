"""junit.xml: a test suite per benchmark (and technique, if there are several), a test case per item.

gate.xml has a test case per rule of the gate: wrong answers are data, and only the gate makes a build red.
Both files keep to the schema of Jenkins' xUnit plugin, junit-10.xsd, which allows no properties in a test case.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from typing import Literal

from medvqa import printing
from medvqa.comparing.gating import Ruling, Verdict
from medvqa.items import Outcome, Result
from medvqa.records import run_folder
from medvqa.report.build import Report

_DECLARATION = b"<?xml version='1.0' encoding='UTF-8'?>\n"
_ATTRIBUTE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#09;"}
)

Kind = Literal["error", "failure", "skipped"]
"""How a test case ends that has not passed: the tag of an element in it."""


def text(value: str) -> str:
    """Make a value safe for XML and for logs."""
    return printing.lines(value)


def render(report: Report) -> Iterator[bytes]:
    """Yield junit.xml in UTF-8, case by case: a whole tree would be the largest object in memory.

    Missing results are one case of their own, which ends in error.
    """
    yield _DECLARATION
    lines = report.covered.lines
    kinds, tests, seconds = _counts([result for part in report.parts for result in part.results])
    kinds["error"] += bool(lines)
    yield _start("testsuites", "medvqa", kinds, tests + bool(lines), seconds)
    for part in report.parts:
        if not part.results:
            continue
        yield _start("testsuite", part.name, *_counts(part.results))
        for result in part.results:
            yield _of_item(result).encode()
        yield b"</testsuite>"
    if lines:
        yield _start("testsuite", "unfinished", Counter({"error": 1}), 1, 0.0)
        yield _case("all selected questions have a result", "medvqa", None, "error", "; ".join(lines)).encode()
        yield b"</testsuite>"
    yield b"</testsuites>"


def render_gate(verdict: Verdict) -> bytes:
    """gate.xml in UTF-8: the suite `gate` with one case per rule. Without a verdict, one case ends in error."""
    kinds: list[Kind | None]
    if verdict.outcome is None:
        kinds, cases = ["error"], [_case("verdict", "gate", 0.0, "error", "; ".join(verdict.blockers), "blocked")]
    else:
        kinds = [_kind_of_rule(entry, verdict) for entry in verdict.entries]
        cases = [_of_rule(entry, kind) for entry, kind in zip(verdict.entries, kinds, strict=True)]
    starts = [
        _start(tag, name, Counter(kinds), len(cases), 0.0)
        for tag, name in (("testsuites", "medvqa"), ("testsuite", "gate"))
    ]
    return b"".join([_DECLARATION, *starts, "".join(cases).encode(), b"</testsuite></testsuites>"])


def _counts(results: Sequence[Result]) -> tuple[Counter[Kind | None], int, float]:
    """The number of cases by JUnit outcome, their total number, and their seconds."""
    kinds = Counter(_kind(result.score.outcome) for result in results)
    return kinds, len(results), sum(r.answer.seconds or 0.0 for r in results if r.answer is not None)


def _start(tag: str, name: str, kinds: Counter[Kind | None], tests: int, seconds: float) -> bytes:
    """The opening tag of a suite, or of all suites, with its counts."""
    counts = {"tests": tests, "errors": kinds["error"], "failures": kinds["failure"]}
    if tag == "testsuite":
        counts["skipped"] = kinds["skipped"]
    attributes = {"name": text(name), **counts, "time": f"{seconds:.3f}"}
    written = (f'{key}="{escape(str(value))}"' for key, value in attributes.items())
    return f"<{tag} {' '.join(written)}>".encode()


def _kind(outcome: Outcome) -> Kind | None:
    """The JUnit kind of an outcome: wrong answers are failures, unscored ones skipped, None passes."""
    if outcome in ("correct", "partial"):
        return None
    return "error" if outcome == "error" else "skipped" if outcome == "unscored" else "failure"


def _kind_of_rule(entry: Ruling, verdict: Verdict) -> Kind | None:
    """FAIL fails; INCONCLUSIVE fails, or is skipped if the options let it pass. A slice without a rule is skipped."""
    undecided: Kind = "failure" if verdict.inconclusive == "fail" or entry.kind == "units" else "skipped"
    kinds: dict[str, Kind] = {"FAIL": "failure", "INCONCLUSIVE": undecided, "NOT GATED": "skipped"}
    return kinds.get(entry.outcome)


def _of_rule(entry: Ruling, kind: Kind | None) -> str:
    said = "" if kind is not None else escape(text(f"{entry.outcome}: {entry.why}"), quote=False)
    return _case(entry.rule, "gate", 0.0, kind, entry.why, entry.outcome, said)


def _of_item(result: Result) -> str:
    """One item as a test case; its properties are a JSON object in `system-out`."""
    seconds = result.answer.seconds if result.answer else None
    ways = [*([result.variant] if result.variant else []), *([f"sample {result.sample}"] if result.sample else [])]
    name = f"{result.item.id} ({', '.join(ways)})" if ways else result.item.id
    kind, said = _kind(result.score.outcome), ", ".join([_property(*each) for each in run_folder.properties(result)])
    return _case(
        name, result.item.benchmark, seconds or 0.0, kind, result.score.why, result.score.outcome, f"{{{said}}}"
    )


def _case(
    name: str, classname: str, seconds: float | None, kind: Kind | None, why: str = "", type: str = "", said: str = ""
) -> str:
    """A test case that ended in a way, and why; None: it passed. `said`: its output, as it is written in XML."""
    content = "" if kind is None else f"<{kind}{_attributes(message=why, type=type)} />"
    if said:
        content += f"<system-out>{said}</system-out>"
    time = "" if seconds is None else str(float(seconds))
    start = f"<testcase{_attributes(name=name, classname=classname, time=time)}"
    return f"{start}>{content}</testcase>" if content else f"{start} />"


def _attributes(**values: str) -> str:
    """The attributes of an element, without empty ones."""
    return "".join([f' {name}="{_attribute(value)}"' for name, value in values.items() if value])


# Reasons and names of benchmarks repeat.
@lru_cache(maxsize=4096)
def _attribute(value: str) -> str:
    """A value that is safe for logs and in an attribute; line ends and tabs are escaped, so that they are kept."""
    return text(value).translate(_ATTRIBUTE)


# Tags repeat.
@lru_cache(maxsize=4096)
def _property(name: str, value: str) -> str:
    """A member of a JSON object that is safe in XML and in a log: without unprintable characters and CI commands.

    Jenkins attaches the files named by `[[ATTACHMENT|path]]` in a test's output; other CIs obey `##[...]`.
    """
    printable = json.dumps({name: value}, ensure_ascii=False)[1:-1]
    if not printable.isprintable():
        printable = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in printable)
    return escape(printable.replace("[[", "[\\u005b").replace("##", "#\\u0023"), quote=False)
