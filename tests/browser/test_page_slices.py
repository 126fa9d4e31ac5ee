"""Slices, map, calibration and method of a run's page in Chromium."""

import json
from pathlib import Path

import pytest

from support.tabs import Tab

pytestmark = pytest.mark.slow


def test_every_number_of_the_slices_is_that_of_metrics_json_and_tables_sort(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    stored = json.loads((phantom.parent / "metrics.json").read_text())["measures"]
    values = {
        (m["benchmark"], m["technique"], m["name"], "; ".join(f"{k}={v}" for k, v in m["slice"].items())): m["value"]
        for m in stored
    }
    shown = page.evaluate(
        "[...document.querySelectorAll('#slices data[data-measure]:not([data-spread])')].map(e => [e.dataset.benchmark,"
        " e.dataset.technique, e.dataset.measure, e.dataset.slice, e.value])"
    )
    assert len(shown) > 100
    for *identity, value in shown:
        measured = values[tuple(identity)]
        assert value == ("" if measured is None else value)
        assert measured is None or float(value) == measured
    table = page.locator("#slices .slicetable").first
    first = table.locator("tbody").nth(1).locator("tr:not(.group)")

    def numbers() -> list[float]:
        return [
            float(each)
            for each in first.locator("td.main:not(.thin) data[data-measure]").evaluate_all("a => a.map(e => e.value)")
        ]

    assert numbers() == sorted(numbers(), reverse=True)
    table.get_by_role("button", name="accuracy").click()
    assert numbers() == sorted(numbers())
    table.get_by_role("button", name="Slice").click()
    names = first.locator("th").all_inner_texts()
    assert names == sorted(names, key=str.lower)
    # One axis: every drawing of the table is as wide, and begins at the same place.
    places = table.locator(".plot, .scale").evaluate_all(
        "a => [...new Set(a.map(e => e.getBoundingClientRect()).map(b => [b.left, b.width].map(Math.round).join()))]"
    )
    assert len(places) == 1
    # Another measure is drawn with the keyboard.
    pairs = page.locator("#slices .part").nth(1)
    pairs.get_by_label("set accuracy").focus()
    page.keyboard.press("ArrowRight")
    assert pairs.locator(".slicetable").first.locator("thead th").nth(1).inner_text().startswith("individual accuracy")
    page.goto(page.url.partition("#")[0] + "#method")
    page.locator("#method dl").first.wait_for()
    assert "abc123" in page.locator("#method").inner_text()


def test_slices_fit_a_phone_and_paper(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cut = page.locator("#slices .slicetable:not(.published):not(.spread)").evaluate_all(
        "a => a.filter(t => t.getBoundingClientRect().right > innerWidth).length"
    )
    assert cut == 0
    page.set_viewport_size({"width": 1320, "height": 900})
    page.emulate_media(media="print")
    assert page.locator("#slices .slicetable thead th").first.evaluate("e => getComputedStyle(e).position") == "static"
