"""What Jenkins asks of a JUnit file: the rules of jenkinsci/xunit-plugin's junit-10.xsd, as far as we write it.

Written anew after the schema, which forbids more than the usual readers do: no properties in a test case, no count of
skipped cases on `testsuites`, and times with at most three decimals.
"""

import re
from dataclasses import dataclass
from xml.etree.ElementTree import Element

TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?")


@dataclass(frozen=True)
class Rule:
    """The children, needed and further attributes of an element; `text`: whether it may hold text."""

    children: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    further: frozenset[str] = frozenset()
    text: bool = False


ENDED = Rule(further=frozenset({"type", "message"}), text=True)
SUITES = {"testsuite", "properties", "testcase", "system-out", "system-err"}
RULES = {
    "testsuites": Rule(frozenset({"testsuite"}), further=frozenset({"name", "time", "tests", "failures", "errors"})),
    "testsuite": Rule(
        frozenset(SUITES),
        frozenset({"name", "tests", "failures", "errors"}),
        frozenset(
            ["group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url", "version"]
        ),
    ),
    "properties": Rule(frozenset({"property"})),
    "property": Rule(needed=frozenset({"name", "value"})),
    "testcase": Rule(
        frozenset({"skipped", "error", "failure", "system-out", "system-err"}),
        frozenset({"name"}),
        frozenset({"time", "classname", "group"}),
    ),
    "skipped": ENDED,
    "error": ENDED,
    "failure": ENDED,
    "system-out": Rule(text=True),
    "system-err": Rule(text=True),
}


def faults(root: Element) -> list[str]:
    """What the schema forbids in a document, a line each."""
    if root.tag not in ("testsuites", "testsuite"):
        return [f"the root is {root.tag}"]
    return [fault for element in root.iter() for fault in _of(element)]


def _of(element: Element) -> list[str]:
    rule = RULES.get(element.tag)
    if rule is None:
        return [f"no element {element.tag}"]
    names = set(element.attrib)
    found = [f"{element.tag}: no child {child.tag}" for child in element if child.tag not in rule.children]
    found += [f"{element.tag}: needs {name}" for name in sorted(rule.needed - names)]
    found += [f"{element.tag}: no attribute {name}" for name in sorted(names - rule.needed - rule.further)]
    if element.tag in ("testsuites", "testsuite") and not TIME.fullmatch(element.get("time", "")):
        found.append(f"{element.tag}: time {element.get('time')}")
    texts = [element.text, *(child.tail for child in element)]
    if not rule.text and any(text and text.strip() for text in texts):
        found.append(f"{element.tag}: holds text")
    return found
