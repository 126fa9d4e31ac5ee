"""junit.xml: one test suite a benchmark, one test case an item."""

from __future__ import annotations

import re

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite

from medvqa import records
from medvqa.items import Result
from medvqa.report.build import Report

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(value: str) -> str:
    """A value that XML 1.0 can hold: other characters become U+FFFD (which is visible, unlike none)."""
    return _NOT_XML.sub("\ufffd", value)


def render(report: Report) -> bytes:
    """The document, in UTF-8."""
    document = JUnitXml("medvqa")
    for part in report.parts:
        suite = TestSuite(part.benchmark.name)
        suite.add_testcases([case(result) for result in part.results])
        document.add_testsuite(suite)
    document.update_statistics()
    content: bytes = document.tostring()
    return content


def case(result: Result) -> TestCase:
    """One item as a test case: wrong answers are failures, unscored ones skipped."""
    seconds = result.answer.seconds if result.answer else None
    made = TestCase(text(result.item.id), text(result.item.benchmark), seconds or 0.0)
    listed = Properties()
    for name, value in records.properties(result):
        listed.add_property(Property(text(name), text(value)))
    made.append(listed)
    outcome, why = result.score.outcome, text(result.score.why)
    if outcome == "error":
        made.result = [Error(why, "error")]
    elif outcome == "unscored":
        made.result = [Skipped(why, "unscored")]
    elif outcome not in ("correct", "partial"):
        made.result = [Failure(why, outcome)]
    return made
