"""Where a run fails, in Chromium: every number is that of metrics.json, and links lead to the answers they count."""

import json
from pathlib import Path

import pytest

from support.tabs import CHROMIUM, Tab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Chromium is not installed: apt-get install chromium"),
]
DATA = "all => all.map(each => ({value: each.value, text: each.textContent, ...each.dataset}))"
OUTSIDE = """() => [...document.querySelectorAll("#failing *")]
    .filter(each => each.checkVisibility() && !each.closest(".sr, .scroll"))
    .filter(each => each.getBoundingClientRect().right > innerWidth + 1)
    .map(each => each.textContent.trim().slice(0, 60))"""
CUT = """() => [...document.querySelectorAll("#failing .worst tbody data")]
    .filter(each => each.checkVisibility() && each.getBoundingClientRect().right > innerWidth)
    .map(each => each.textContent)"""


def test_numbers_are_those_of_metrics_json_and_links_lead_to_their_answers(tab: Tab, phantom: Path) -> None:
    stored = json.loads((phantom.parent / "metrics.json").read_text())
    measures = {
        (m["benchmark"], m["technique"], m["name"], "; ".join(f"{k}={v}" for k, v in m["slice"].items())): m
        for m in stored["measures"]
    }
    page = tab.open(phantom, "#failing")
    page.evaluate("document.querySelectorAll('#failing details').forEach(each => { each.open = true })")
    cells = page.locator("#failing data[data-measure]").evaluate_all(DATA)
    assert len(cells) > 60
    for cell in cells:
        measure = measures[cell["benchmark"], cell["technique"], cell["measure"], cell["slice"]]
        assert float(cell["value"]) == measure["value"]

    first = page.locator("#failing .confusion").first
    fields = first.locator("data[data-matrix]").evaluate_all(DATA)
    right = sum(int(field["value"]) for field in fields if field["correct"] == field["read"])
    accuracy = measures["phantom-gmai-mmbench", "mc", "accuracy", ""]
    assert (right, sum(int(field["value"]) for field in fields)) == (accuracy["count"], accuracy["n"])

    for link in ("#failing .confusion td a", "#failing .chip", "#failing .positions td a"):
        counted = page.locator(link).first.locator("data").get_attribute("value")
        page.locator(link).first.click()
        assert page.locator("#questions-count").get_attribute("data-answers") == counted
        page.go_back()
        page.wait_for_selector("#failing")
        page.evaluate("document.querySelectorAll('#failing details').forEach(each => { each.open = true })")

    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(CUT) == []
