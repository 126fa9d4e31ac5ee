"""The blocks of a summary in Chromium: sorting, groups, tabs, files, links and the way back; on a phone."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from support import sectioned
from support.tabs import Tab, until

pytestmark = pytest.mark.slow

CUT = """() => [...document.querySelectorAll(".data tbody data, .heat b, .said data")]
    .filter(each => each.checkVisibility() && each.closest(".scroll") === null)
    .filter(each => each.getBoundingClientRect().right > innerWidth)
    .map(each => each.textContent)"""


def values(table: Any) -> list[float]:
    """The values of the rows in sight, but for those of a few units."""
    return [float(v) for v in table.locator("td.main:not(.few) data").evaluate_all("a => a.map(e => e.value)") if v]


def test_tables_sort_in_their_groups_and_draw_all_on_one_axis(tab: Tab, blocks: Path) -> None:
    page = tab.open(blocks, "#slices")
    table = page.locator("#slices table")
    for _ in range(2):
        page.locator("#slices .more button").first.click()
    groups = table.locator("tbody").all()
    assert len(groups) == 2
    for group in groups:
        assert values(group) == sorted(values(group), reverse=True)
    few = groups[0].locator("tr:has(.few) th")
    last = groups[0].locator("tr th[scope=row]")
    assert last.all_inner_texts()[-len(few.all()) - 1] == few.inner_text(), "before the row without a value"
    table.get_by_role("button", name="accuracy").focus()
    page.keyboard.press("Enter")
    for group in groups:
        assert values(group) == sorted(values(group))
    assert last.all_inner_texts()[-2] == few.inner_text()
    table.get_by_role("button", name="Slice").click()
    names = [text.split("\n")[0] for text in last.all_inner_texts()]
    assert names == [f"value {k}" for k in range(15)], "numbers within names count"
    places = table.locator(".plot, .scale").evaluate_all(
        "a => [...new Set(a.map(e => e.getBoundingClientRect()).map(b => [b.left, b.width].map(Math.round).join()))]"
    )
    assert len(places) == 1, "every drawing is as wide, and begins at the same place"
    table.get_by_role("button", name="modality").click()
    assert groups[0].locator("tr").count() == 1


def test_a_choice_of_tabs_stands_in_one_place(tab: Tab, blocks: Path) -> None:
    page = tab.open(blocks, "#slices")
    section = page.locator("#slices")
    assert section.locator("table").count() == 1
    section.get_by_role("button", name="macro_accuracy").focus()
    page.keyboard.press("Space")
    assert section.locator("h3").all_inner_texts() == ["macro_accuracy by slice"]
    assert section.locator("table").count() == 1


def test_a_table_is_saved_with_its_numbers_in_full(tab: Tab, blocks: Path) -> None:
    page = tab.open(blocks, "#slices")
    with page.expect_download() as download:
        page.locator("#slices .offers button").click()
    assert download.value.suggested_filename == "accuracy-by-slice.csv"
    text = Path(download.value.path()).read_text("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    table = sectioned.slices("accuracy")
    assert [float(row["accuracy"]) if row["accuracy"] != "–" else None for row in rows] == [
        r[1].value for r in table.rows
    ]
    assert [row["slice"] for row in rows] == [row[0] for row in table.rows]
    assert rows[0]["accuracy_low"] == "0.0" or float(rows[0]["accuracy_low"]) == table.rows[0][1].low


def test_links_lead_to_their_questions_and_back_to_the_same_place(tab: Tab, blocks: Path) -> None:
    page = tab.open(blocks)
    page.locator("#failing .heat td a").first.scroll_into_view_if_needed()
    page.locator("#slices").get_by_role("button", name="macro_accuracy").click()
    page.locator("#changes summary").click()
    before = page.evaluate("scrollY")
    page.locator("#failing .heat td a").first.click()
    assert page.locator(".query-input").input_value() == "outcome:correct"
    assert page.locator(".summary").is_hidden()
    page.go_back()
    page.wait_for_selector("#failing")
    assert page.locator("#changes details").first.get_attribute("open") is not None, "folds stay as they were"
    assert page.locator("#slices h3").inner_text() == "macro_accuracy by slice"
    assert page.evaluate("scrollY") == pytest.approx(before, abs=200)
    page.locator("nav.jump").get_by_role("link", name="Method").click()
    assert page.locator("#method details").get_attribute("open") is not None, "a section that is asked for unfolds"
    until(page, "document.querySelector('#method').getBoundingClientRect().top < innerHeight")


def test_blocks_fit_a_phone(tab: Tab, blocks: Path) -> None:
    page = tab.open(blocks)
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(CUT) == []
    table = page.locator("#slices .data")
    assert table.locator("td.interval").first.is_hidden(), "intervals stand below their values"
    assert table.locator("td .below").first.is_visible()
    wide = page.locator("#failing .heat").nth(1)
    head = wide.locator("tbody th").first
    wide.locator("xpath=..").evaluate("each => { each.scrollLeft = 300; }")
    assert head.evaluate("each => Math.round(each.getBoundingClientRect().left)") < 20, "names of rows stay in sight"


def test_the_summary_is_drawn_before_the_questions_are_read(tab: Tab, blocks: Path) -> None:
    page = tab.open(blocks)
    marks = json.loads(
        page.evaluate("JSON.stringify(['summary', 'ready'].map(n => performance.getEntriesByName(n)[0].startTime))")
    )
    assert marks[0] < marks[1]


def test_sections_out_of_sight_are_drawn_for_paper_at_once(tab: Tab, blocks: Path) -> None:
    page = tab.page
    page.set_viewport_size({"width": 1320, "height": 200})
    page.add_init_script("window.requestIdleCallback = () => 0")
    page.goto(blocks.resolve().as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    page.wait_for_selector(".printed", state="attached")
    count = "document.querySelectorAll('.summary > section').length"
    before = page.evaluate(count)
    printed = page.evaluate(f"dispatchEvent(new Event('beforeprint')) && {count}")
    assert before < printed == page.locator("nav.jump a").count()
    assert page.locator(".undrawn").count() == 0
