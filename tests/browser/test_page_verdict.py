"""The first screen, the scorecard and the gate in Chromium: every number is that of metrics.json."""

import json
from pathlib import Path

import pytest

from medvqa import comparing, report
from medvqa.comparing import blank
from medvqa.report import html
from support import pages
from support.tabs import CHROMIUM, Tab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Chromium is not installed: apt-get install chromium"),
]
DATA = "all => all.map(each => ({value: each.value, text: each.textContent, ...each.dataset}))"
PHONE = {"width": 390, "height": 844}


def beyond(tab: Tab) -> list[str]:
    """The texts that reach beyond the window, outside of boxes that scroll."""
    return tab.page.evaluate(
        """() => [...document.querySelectorAll("#verdict *, #scorecard *")]
            .filter(each => each.checkVisibility() && !each.closest(".sr, .scroll"))
            .filter(each => each.getBoundingClientRect().right > innerWidth + 1)
            .map(each => each.textContent.trim().slice(0, 60))"""
    )


def test_a_run_with_its_blank_run_tells_its_result_in_the_first_screen(tab: Tab, tmp_path: Path) -> None:
    shown, without = pages.ablated(tmp_path)
    blank.write(shown, blank.against(comparing.load(shown), comparing.load(without), pages.PHANTOM))
    report.write(report.build(shown, pages.PHANTOM))
    stored = json.loads((shown / "metrics.json").read_text())
    measures = {(m["benchmark"], m["technique"], m["name"]): m for m in stored["measures"] if not m["slice"]}
    gaps = {(g["benchmark"], g["technique"], g["name"]): g for g in stored["blank"]["gaps"]}
    page = tab.open(shown / html.FILE)

    seen = {"measure": 0, "said": 0, "reference": 0, "gap": 0, "outcome": 0}
    for each in page.locator("#verdict data, #scorecard data").evaluate_all(DATA):
        if "outcome" in each:
            assert int(each["value"]) == stored["outcomes"][each["part"]][each["outcome"]]
            seen["outcome"] += 1
            continue
        key = each["benchmark"], each["technique"], each["measure"]
        origin = each.get("said", "")
        if "gap" in each or origin.startswith(("gap", "blank")):
            field = each.get("gap") or {"blank": "blank", "gap": "value"}.get(origin, origin.removeprefix("gap_"))
            assert float(each["value"]) == gaps[key][field]
            seen["gap"] += 1
        elif "reference" in each or origin in measures[key]["references"]:
            assert float(each["value"]) == measures[key]["references"][each.get("reference") or origin]
            seen["reference"] += 1
        else:
            assert float(each["value"]) == measures[key][origin or "value"]
            seen["said" if origin else "measure"] += 1
    assert seen["measure"] == 11
    assert seen["said"] == 12
    assert min(seen.values()) > 10

    heights = page.locator(".result-line").evaluate_all("all => all.map(each => each.getBoundingClientRect().bottom)")
    assert max(heights) < 900, "all sentences stand in the first screen"
    link = page.locator(".outcomes td a").first
    assert link.get_attribute("href").endswith("q=outcome%3Acorrect")
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert beyond(tab) == []


def test_a_gate_shows_its_rules_with_their_reasons(tab: Tab, tmp_path: Path) -> None:
    folder = pages.gated(tmp_path)
    report.write(report.build(folder, pages.PHANTOM))
    stored = {e["rule"]: e for e in json.loads((folder / "metrics.json").read_text())["gate"]["entries"]}
    page = tab.open(folder / html.FILE)
    found = page.locator("#gate data").evaluate_all(DATA)
    assert len(found) > 20
    assert all(float(each["value"]) == stored[each["rule"]][each["number"]] for each in found)
    page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
    text = page.locator("#gate").inner_text()
    assert all(entry["rule"] in text and entry["why"] in text for entry in stored.values())
    page.locator(".states a").click()
    assert page.evaluate("location.hash") == "#gate"
    widths = page.locator(".rules tr.about th").evaluate_all("all => all.map(each => each.clientWidth)")
    assert min(widths) > 700, "a reason has the width of its table"
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert beyond(tab) == []
