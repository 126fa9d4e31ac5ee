"""The page of several runs in Chromium: its numbers lead to their questions, and nothing hostile does anything."""

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import comparing
from medvqa.items import Judgement
from medvqa.report import html
from support import pages
from support.tabs import Tab

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench" / "page.py"
GMAI = "phantom-gmai-mmbench"
Drawn = Callable[[str], pages.ComparedRuns]


def ask(page: Any, query: str) -> None:
    page.locator(".query-input").fill(query)
    page.locator(".query-input").press("Enter")


def listed(page: Any) -> int:
    return int(page.locator("#units-count").get_attribute("data-units"))


def exported(page: Any, button: str) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.locator(button).click()
    text = Path(download.value.path()).read_text("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


COUNTED = """section => [...document.querySelectorAll(`${section} td.right > a`)]
    .filter(each => each.hash.includes("flip%3A") || each.hash.includes("flip:"))
    .map(each => [each.hash, Number(each.querySelector("data").value)])"""
"""The links of a section to flips, each with the number of them."""


def test_the_numbers_of_flips_are_those_of_compare_and_lead_to_them_and_back(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("five runs")
    page = tab.open(compared.page)
    (paired,) = [each for each in compared.said["comparisons"] if each["new"] == "model-b"]
    section = page.locator(".summary > section", has=page.get_by_role("heading", name="model-b against model-a")).first
    name = f"#{section.get_attribute('id')}"
    page.evaluate("name => { location.hash = name; }", name)
    section.locator("table").first.wait_for()
    links = page.evaluate(COUNTED, name)
    assert len(links) > 10
    numbers = {measure[side] for measure in paired["measures"] for side in ("gained", "lost")}
    assert {number for _, number in links} <= numbers
    for link, number in [links[0], links[len(links) // 2], links[-1]]:
        anchor = section.locator(f"a[href='{link}']").first
        for fold in section.locator(f"details:has(a[href='{link}'])").all():
            fold.evaluate("each => { each.open = true; }")
        anchor.scroll_into_view_if_needed()
        before = page.evaluate("scrollY")
        anchor.click()
        page.wait_for_selector("#units-count")
        assert "flip:" in page.locator(".query-input").input_value()
        assert listed(page) == number
        page.go_back()
        anchor.wait_for()
        assert page.evaluate("scrollY") == pytest.approx(before, abs=200), "folds stay as they were"


def test_a_field_of_the_slices_leads_to_its_questions(tab: Tab, versus: Path) -> None:
    page = tab.open(versus)
    field = page.locator("#slices .heat td:not(.few) a").first
    n = int(field.locator("small").inner_text())
    field.click()
    page.wait_for_selector("#units-count")
    assert listed(page) == n > 0


def test_measures_and_ranking_are_exported(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("five runs")
    page = tab.open(compared.page)
    rows = exported(page, "#measures-csv")
    assert len(rows) == sum(len(each["measures"]) for each in compared.said["comparisons"])
    assert {row["run"] for row in exported(page, "#ranking-csv")} == {run.name for run in compared.runs}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs whose every text is hostile, with judgements and texts beside the answers."""
    folder = tmp_path_factory.mktemp("strangers")
    benchmark, results = pages.hostile()
    said = Judgement(pages.HOSTILE[0], pages.HOSTILE[1], "options", pages.HOSTILE, 1.0, {pages.HOSTILE[3]: 1.0})
    beside = {"thoughts": pages.HOSTILE[0], "whole": pages.HOSTILE[3], "earlier": pages.HOSTILE}
    judged = [
        replace(result, judgement=said, answer=replace(result.answer, **beside))
        for result in pages.marked(results, right=True)
    ]
    sides = []
    for name, each in (("0", pages.marked(results, right=False)), ("1", judged), ("2", results)):
        run = pages.write(folder / name, each, model={"name": pages.HOSTILE[3]})
        sides.append(replace(comparing.load(run), name=pages.HOSTILE[int(name)]))
    for name, number in (("two", 2), ("three", 3)):
        study = comparing.study(sides[:number], {"strange": benchmark})
        noted = replace(study, versus=tuple(replace(each, notes=pages.HOSTILE) for each in study.versus))
        (folder / f"{name}.html").write_bytes(html.comparison_page(noted, {"strange": benchmark}))
    return folder


@pytest.mark.parametrize("name", ["two", "three"])
def test_hostile_runs_fire_nothing_and_ask_for_nothing(tab: Tab, strangers: Path, name: str) -> None:
    file = strangers / f"{name}.html"
    page = tab.open(file)
    page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
    assert "\u202e" not in page.evaluate("document.body.innerText")
    for row in exported(page, "#measures-csv"):
        for cell in row.values():
            with suppress(ValueError):
                # A number, which a spreadsheet only reads.
                float(cell)
                continue
            assert not cell.startswith(("=", "+", "-", "@"))
    page.get_by_role("link", name="Questions", exact=True).click()
    page.wait_for_selector("#units-count")
    units = listed(page)
    assert units == (len(pages.HOSTILE) + 1) // 2, "pairs, and one question that is left over"
    page.locator(".list .c-id a").first.click()
    for _ in range(units):
        page.locator("dialog .question").last.hover()
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert page.evaluate("window.pwned") is None
    assert page.locator("#app a:not([href^='#']), #app script, #app iframe, #app object, #app [onerror]").count() == 0
    assert "\u202e" not in page.evaluate("document.body.innerText")
    for row in exported(page, "#csv"):
        assert not [cell for cell in row.values() if cell.lstrip("\x00\x1b \t").startswith(("=", "+", "-", "@"))]
    assert tab.asked == [file.resolve().as_uri()]


def test_a_judge_and_folded_texts_stand_beside_a_flipped_answer(tab: Tab, strangers: Path) -> None:
    page = tab.open(strangers / "two.html", "#questions?q=flip%3Abetter")
    page.locator(".list .c-id a").first.click()
    new = page.locator("dialog .answer").nth(1)
    said = new.locator(".judged")
    sync_api.expect(said.locator(".response")).to_have_count(len(pages.HOSTILE))
    assert pages.HOSTILE[0] in said.inner_text()
    folded = new.locator("details.folded")
    names = ["Whole reply", "Earlier replies", "Hidden thoughts"]
    assert [text.strip() for text in folded.locator("summary").all_inner_texts()][:3] == names
    thoughts = folded.nth(2).locator(".response")
    assert not thoughts.is_visible()
    folded.nth(2).locator("summary").click()
    assert thoughts.inner_text() == pages.HOSTILE[0]
    assert folded.nth(1).locator(".response").count() == len(pages.HOSTILE)
    assert page.locator("dialog .answer").nth(0).locator(".judged, details.folded").count() == 0
    assert page.evaluate("window.pwned") is None


def test_a_comparison_of_26000_items_is_small_and_can_be_used(tab: Tab, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH), "--items", "26000", "--runs", "2", "--no-browser", "--keep"]
    subprocess.run([*command, str(tmp_path / "large")], check=True, capture_output=True)
    file = tmp_path / "large-2-runs.html"
    assert file.stat().st_size < 15e6
    page = tab.open(file, "#questions")
    before = listed(page)
    assert before == 26_000
    ask(page, "flip:worse,better")
    assert 10_000 < listed(page) < before
    ask(page, "department:dermatology")
    assert 0 < listed(page) < before
    ask(page, "department:dermatology flip:worse")
    page.locator(".list .c-id a").first.click()
    responses = page.locator("dialog .response")
    sync_api.expect(responses).to_have_count(2)
    assert min(map(len, responses.all_inner_texts())) >= 90
    assert responses.nth(0).inner_text() != responses.nth(1).inner_text()
