"""junit.xml: one test suite a benchmark (and technique, if there are several), one test case an item.

A gate has a suite of its own, `gate`, with one test case a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import quoteattr

from junitparser import Error, Failure, Properties, Property, Skipped, TestCase

from medvqa import printing, records
from medvqa.gating import Entry, Verdict
from medvqa.items import Outcome, Result
from medvqa.report import gate
from medvqa.report.build import Report


def text(value: str) -> str:
    """A value that XML can hold, and that a log may print."""
    return printing.lines(value)


def render(report: Report) -> Iterator[bytes]:
    """The document, in UTF-8, case by case: as one tree it would be the largest thing in memory."""
    yield b"<?xml version='1.0' encoding='UTF-8'?>\n"
    verdict = report.gate.verdict if report.gate is not None else None
    cases = [] if verdict is None else rules(verdict)
    results = [result for part in report.parts for result in part.results]
    yield _start("testsuites", "medvqa", results, cases)
    for part in report.parts:
        if not part.results:
            continue
        yield _start("testsuite", part.name, part.results)
        for result in part.results:
            yield case(result).tostring()
        yield b"</testsuite>"
    if cases:
        yield _start("testsuite", "gate", (), cases)
        for each in cases:
            yield each.tostring()
        yield b"</testsuite>"
    yield b"</testsuites>"


def _start(tag: str, name: str, results: Sequence[Result], cases: Sequence[TestCase] = ()) -> bytes:
    """The opening tag of a suite, or of all suites, with its counts."""
    kinds: Counter[type] = Counter(kind for result in results if (kind := _kind(result.score.outcome)) is not None)
    kinds.update(type(found) for each in cases for found in each.result)
    seconds = sum(result.answer.seconds or 0.0 for result in results if result.answer is not None)
    counts = {
        "tests": len(results) + len(cases),
        "errors": kinds[Error],
        "failures": kinds[Failure],
        "skipped": kinds[Skipped],
    }
    attributes = {"name": text(name), **counts, "time": round(seconds, 3)}
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


def _rule(entry: Entry, verdict: Verdict) -> TestCase:
    made = TestCase(text(entry.rule), "gate", 0.0)
    undecided = Failure if verdict.inconclusive == "fail" else Skipped
    kind = {"FAIL": Failure, "INCONCLUSIVE": undecided, "NOT GATED": Skipped}.get(entry.outcome)
    if kind is not None:
        made.result = [kind(text(gate.rule(entry)), entry.outcome)]
    return made


def case(result: Result) -> TestCase:
    """One item as a test case."""
    seconds = result.answer.seconds if result.answer else None
    name = f"{result.item.id} (sample {result.sample})" if result.sample else result.item.id
    made = TestCase(text(name), text(result.item.benchmark), seconds or 0.0)
    listed = Properties()
    for name, value in records.properties(result):
        listed.add_property(Property(text(name), text(value)))
    made.append(listed)
    outcome = result.score.outcome
    if (kind := _kind(outcome)) is not None:
        made.result = [kind(text(result.score.why), outcome)]
    return made
