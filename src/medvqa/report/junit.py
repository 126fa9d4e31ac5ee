"""junit.xml: a test suite per benchmark (and technique, if there are several), a test case per item.

gate.xml has a test case per rule of the gate: wrong answers are data, and only the gate makes a build red.
Both files keep to the schema of Jenkins' xUnit plugin, junit-10.xsd, which allows no properties in a test case.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from junitparser import Error, Failure, Skipped, TestCase

from medvqa import printing
from medvqa.comparing.gating import Ruling, Verdict
from medvqa.items import Outcome, Result
from medvqa.records import run_folder
from medvqa.report.build import Report

_DECLARATION = b"<?xml version='1.0' encoding='UTF-8'?>\n"


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
    kinds[Error] += bool(lines)
    yield _start("testsuites", "medvqa", kinds, tests + bool(lines), seconds)
    for part in report.parts:
        if not part.results:
            continue
        yield _start("testsuite", part.name, *_counts(part.results))
        for result in part.results:
            yield case(result).tostring()
        yield b"</testsuite>"
    if lines:
        yield _start("testsuite", "unfinished", Counter({Error: 1}), 1, 0.0)
        lacking = TestCase("all selected questions have a result", "medvqa")
        lacking.result = [Error(text("; ".join(lines)))]
        yield lacking.tostring() + b"</testsuite>"
    yield b"</testsuites>"


def render_gate(verdict: Verdict) -> bytes:
    """gate.xml in UTF-8: the suite `gate` with one case per rule."""
    cases = rules(verdict)
    kinds: Counter[type] = Counter(type(result) for case in cases for result in case.result)
    starts = [
        _start(tag, name, kinds, len(cases), 0.0) for tag, name in (("testsuites", "medvqa"), ("testsuite", "gate"))
    ]
    return b"".join([_DECLARATION, *starts, *(case.tostring() for case in cases), b"</testsuite></testsuites>"])


def _counts(results: Sequence[Result]) -> tuple[Counter[type], int, float]:
    """The number of cases by JUnit outcome, their total number, and their seconds."""
    kinds: Counter[type] = Counter(kind for result in results if (kind := _kind(result.score.outcome)) is not None)
    return kinds, len(results), sum(r.answer.seconds or 0.0 for r in results if r.answer is not None)


def _start(tag: str, name: str, kinds: Counter[type], tests: int, seconds: float) -> bytes:
    """The opening tag of a suite, or of all suites, with its counts."""
    counts = {"tests": tests, "errors": kinds[Error], "failures": kinds[Failure]}
    if tag == "testsuite":
        counts["skipped"] = kinds[Skipped]
    attributes = {"name": text(name), **counts, "time": f"{seconds:.3f}"}
    written = (f'{key}="{escape(str(value))}"' for key, value in attributes.items())
    return f"<{tag} {' '.join(written)}>".encode()


def _kind(outcome: Outcome) -> type[Error | Failure | Skipped] | None:
    """The JUnit class of an outcome: wrong answers are failures, unscored ones skipped, None passes."""
    if outcome in ("correct", "partial"):
        return None
    return Error if outcome == "error" else Skipped if outcome == "unscored" else Failure


def rules(verdict: Verdict) -> list[TestCase]:
    """One test case per rule. FAIL fails; INCONCLUSIVE fails, or is skipped if the options let it pass.

    A slice that is not gated is skipped. Without a verdict, one case ends in error.
    """
    if verdict.outcome is None:
        case = TestCase("verdict", "gate", 0.0)
        case.result = [Error(text("; ".join(verdict.blockers)), "blocked")]
        return [case]
    return [_rule(entry, verdict) for entry in verdict.entries]


def _rule(entry: Ruling, verdict: Verdict) -> TestCase:
    case = TestCase(text(entry.rule), "gate", 0.0)
    undecided = Failure if verdict.inconclusive == "fail" or entry.kind == "units" else Skipped
    kind = {"FAIL": Failure, "INCONCLUSIVE": undecided, "NOT GATED": Skipped}.get(entry.outcome)
    if kind is not None:
        case.result = [kind(text(entry.why), entry.outcome)]
    else:
        case.system_out = text(f"{entry.outcome}: {entry.why}")
    return case


def case(result: Result) -> TestCase:
    """One item as a test case; its properties are a JSON object in `system-out`."""
    seconds = result.answer.seconds if result.answer else None
    ways = [*([result.variant] if result.variant else []), *([f"sample {result.sample}"] if result.sample else [])]
    name = f"{result.item.id} ({', '.join(ways)})" if ways else result.item.id
    case = TestCase(text(name), text(result.item.benchmark), seconds or 0.0)
    outcome = result.score.outcome
    if (kind := _kind(outcome)) is not None:
        case.result = [kind(text(result.score.why), outcome)]
    case.system_out = _json(dict(run_folder.properties(result)))
    return case


def _json(value: Mapping[str, str]) -> str:
    """JSON that is safe in a log: escapes unprintable characters and CI commands.

    Jenkins attaches the files named by `[[ATTACHMENT|path]]` in a test's output; other CIs obey `##[...]`.
    """
    printable = json.dumps(value, ensure_ascii=False)
    if not printable.isprintable():
        printable = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in printable)
    return printable.replace("[[", "[\\u005b").replace("##", "#\\u0023")
