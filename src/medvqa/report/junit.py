"""junit.xml: one test suite a benchmark (and technique, if there are several), one test case an item.

The gate's verdict is gate.xml, with one test case a rule: wrong answers are data, and only the gate makes a build red.
Both files keep to the schema of Jenkins' xUnit plugin, junit-10.xsd, which allows no properties in a test case.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import quoteattr

from junitparser import Error, Failure, Skipped, TestCase

from medvqa import printing, records
from medvqa.comparing.gating import Ruling, Verdict
from medvqa.items import Outcome, Result
from medvqa.report.build import Report

_DECLARATION = b"<?xml version='1.0' encoding='UTF-8'?>\n"


def text(value: str) -> str:
    """A value that XML can hold, and that a log may print."""
    return printing.lines(value)


def render(report: Report) -> Iterator[bytes]:
    """junit.xml, in UTF-8, case by case: as one tree it would be the largest thing in memory.

    What a run lacks is a case of its own, which ends in error.
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
    """gate.xml: the suite `gate` with one case a rule, in UTF-8."""
    cases = rules(verdict)
    kinds: Counter[type] = Counter(type(found) for each in cases for found in each.result)
    starts = [
        _start(tag, name, kinds, len(cases), 0.0) for tag, name in (("testsuites", "medvqa"), ("testsuite", "gate"))
    ]
    return b"".join([_DECLARATION, *starts, *(each.tostring() for each in cases), b"</testsuite></testsuites>"])


def _counts(results: Sequence[Result]) -> tuple[Counter[type], int, float]:
    """How many cases ended in what, how many there are, and their seconds."""
    kinds: Counter[type] = Counter(kind for result in results if (kind := _kind(result.score.outcome)) is not None)
    return kinds, len(results), sum(r.answer.seconds or 0.0 for r in results if r.answer is not None)


def _start(tag: str, name: str, kinds: Counter[type], tests: int, seconds: float) -> bytes:
    """The opening tag of a suite, or of all suites, with its counts."""
    counts = {"tests": tests, "errors": kinds[Error], "failures": kinds[Failure]}
    if tag == "testsuite":
        counts["skipped"] = kinds[Skipped]
    attributes = {"name": text(name), **counts, "time": f"{seconds:.3f}"}
    return f"<{tag} {' '.join(f'{key}={quoteattr(str(value))}' for key, value in attributes.items())}>".encode()


def _kind(outcome: Outcome) -> type[Error | Failure | Skipped] | None:
    """What an outcome is to JUnit: wrong answers are failures, unscored ones skipped."""
    if outcome in ("correct", "partial"):
        return None
    return Error if outcome == "error" else Skipped if outcome == "unscored" else Failure


def rules(verdict: Verdict) -> list[TestCase]:
    """One test case a rule: failed by FAIL, and by INCONCLUSIVE unless that passes the gate; else that is skipped.

    So is a slice that is too small to be gated. Where there is no verdict, one case ends in error.
    """
    if verdict.outcome is None:
        made = TestCase("verdict", "gate", 0.0)
        made.result = [Error(text("; ".join(verdict.blockers)), "blocked")]
        return [made]
    return [_rule(entry, verdict) for entry in verdict.entries]


def _rule(entry: Ruling, verdict: Verdict) -> TestCase:
    made = TestCase(text(entry.rule), "gate", 0.0)
    undecided = Failure if verdict.inconclusive == "fail" or entry.kind == "units" else Skipped
    kind = {"FAIL": Failure, "INCONCLUSIVE": undecided, "NOT GATED": Skipped}.get(entry.outcome)
    if kind is not None:
        made.result = [kind(text(entry.why), entry.outcome)]
    else:
        made.system_out = text(f"{entry.outcome}: {entry.why}")
    return made


def case(result: Result) -> TestCase:
    """One item as a test case; its properties are a JSON object in `system-out`."""
    seconds = result.answer.seconds if result.answer else None
    name = f"{result.item.id} (sample {result.sample})" if result.sample else result.item.id
    made = TestCase(text(name), text(result.item.benchmark), seconds or 0.0)
    outcome = result.score.outcome
    if (kind := _kind(outcome)) is not None:
        made.result = [kind(text(result.score.why), outcome)]
    made.system_out = _json(dict(records.properties(result)))
    return made


def _json(value: Mapping[str, str]) -> str:
    """JSON that may stand in a log: what is not printable is escaped, and so is what a CI would obey.

    Jenkins attaches the files that `[[ATTACHMENT|path]]` names in the output of a test; others obey `##[...]`.
    """
    printable = json.dumps(value, ensure_ascii=False)
    if not printable.isprintable():
        printable = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in printable)
    return printable.replace("[[", "[\\u005b").replace("##", "#\\u0023")
