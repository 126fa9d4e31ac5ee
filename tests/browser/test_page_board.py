"""The summary of a comparison in Chromium: what stands where, any two runs, a phone, and a report on paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import pages
from support.tabs import Tab, text_of, until

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

Drawn = Callable[[str], pages.ComparedRuns]
SCREEN, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
CHOSEN = """both => {
    const { dataset } = document.querySelector("#differences");
    return `${dataset.new} ${dataset.baseline}` === both;
}"""
ROWS = """() => [...document.querySelectorAll("#differences tbody tr")].map(row => [
    row.dataset.benchmark, row.dataset.measure, row.className,
    ...["difference", "adjusted"].map(name => row.querySelector(`[data-number=${name}]`).value)])"""


def lowest(page: Any, selector: str) -> float:
    return max(page.locator(selector).evaluate_all("all => all.map(each => each.getBoundingClientRect().bottom)"))


@pytest.mark.parametrize("name", ["two runs", "five runs", "blank run"])
def test_the_first_screen_holds_the_result_and_the_leaderboard(tab: Tab, compared_runs: Drawn, name: str) -> None:
    compared = compared_runs(name)
    tab.page.set_viewport_size(SCREEN)
    page = tab.open(compared.page)
    assert lowest(page, "#result .vs-said > li") < 800
    if len(compared.runs) > 2:
        assert page.locator(".leaderboard tbody tr").count() == len(compared.runs)
        assert lowest(page, ".leaderboard tbody tr") < 800
        assert page.evaluate("document.documentElement.scrollHeight") < 4000
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_run_off_the_leaderboard_is_named_with_the_reason_and_its_effect(tab: Tab, compared_runs: Drawn) -> None:
    tab.page.set_viewport_size(SCREEN)
    page = tab.open(compared_runs("blank run beside others").page)
    assert page.locator(".leaderboard tbody tr").count() == 3
    for run in ("blank", "shown"):
        told = page.locator(f"[data-unranked={run}]").inner_text()
        assert told.startswith(f"Not ranked: {run}. It cannot be compared with model-a: phantom-mediconfusion: ")
    effects = page.locator("#effects")
    assert "Does it look at the picture?" in effects.inner_text()
    box = effects.locator(".scroll")
    assert box.evaluate("each => each.scrollWidth <= each.clientWidth"), "no column of the table is cut"
    row = effects.locator("tbody tr")
    number = {name: row.locator(f"[data-number={name}]").get_attribute("value") for name in ("difference", "adjusted")}
    shown = float(number["adjusted"]) <= 0.05
    assert ("not shown" in row.inner_text()) == (not shown)


def test_any_two_runs_are_chosen_by_the_lists_and_turned(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("five runs")
    boards = pages.Page(compared.page.read_text()).block("head")["comparison"]["boards"]
    page = tab.open(compared.page)
    run, against = page.locator("#differences .chooser select").all()
    run.select_option("3")
    until(page, CHOSEN, "model-d model-a")
    assert page.locator("#differences tr[data-slice]:not([data-slice=''])").count() > 10, "a pair with slices"
    assert "without slices" in against.locator("option[value='2']").inner_text()
    against.select_option("2")
    until(page, CHOSEN, "model-d model-c")
    assert page.locator("#differences-title").inner_text().strip() == "model-d against model-c"
    (wanted,) = {
        tuple(
            (board["benchmark"], board["measure"], pair["sure"], pair["difference"], pair["adjusted"])
            for board in boards
            for pair in board["pairs"]
            if (pair["new"], pair["baseline"]) == (3, 2)
        )
    }
    rows = [(*names, float(difference), float(adjusted)) for *names, difference, adjusted in page.evaluate(ROWS)]
    assert rows == list(wanted)
    assert len(rows) == 3
    bounds = page.locator("#differences td.quiet").first.inner_text().split(" to ")
    link = page.locator("#differences td a").first.get_attribute("href")
    assert "run=model-d&against=model-c" in link

    page.get_by_role("button", name="Swap").click()
    until(page, CHOSEN, "model-c model-d")
    turn = {"better": "worse", "worse": "better", "": ""}
    turned = [(*names, float(difference), float(adjusted)) for *names, difference, adjusted in page.evaluate(ROWS)]
    assert turned == [(name, measure, turn[sure], -difference, p) for name, measure, sure, difference, p in rows]
    minus = str.maketrans("+−-", "−++")
    assert page.locator("#differences td.quiet").first.inner_text().split(" to ") == [
        bound.translate(minus) for bound in reversed(bounds)
    ]
    page.reload()
    until(page, CHOSEN, "model-c model-d")


@pytest.mark.parametrize("name", ["five runs", "blank run beside others"])
def test_a_comparison_of_several_runs_is_a_report_of_three_pages(
    tab: Tab, compared_runs: Drawn, tmp_path: Path, name: str
) -> None:
    compared = compared_runs(name)
    page = tab.open(compared.page)
    folds = page.locator("main details")
    before = folds.evaluate_all("all => all.map(each => each.open)")
    sheets = text_of(page.pdf(format="A4"), tmp_path)
    assert 1 <= len(sheets) <= 3
    text = " ".join(" ".join(sheets).split())
    for heading in ("Result", "Leaderboard", "Slices by run", "Runs"):
        assert heading in text
    assert f"{len(compared.runs) - 1} runs against model-a" in text
    assert f"{compared.said['tests']} differences of all pairs of runs" in text, "the tests that p is corrected for"
    for note in page.locator("#result .notes li").all_inner_texts()[:3]:
        assert " ".join(note.split()) in text
    assert ("Does it look at the picture?" in text) == (name != "five runs")
    assert "Swap" not in text, "the differences of two runs stay out"
    assert folds.evaluate_all("all => all.map(each => each.open)") == before
    assert page.locator("main img").count() == 0
