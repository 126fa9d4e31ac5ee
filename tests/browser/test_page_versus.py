"""The page of several runs in Chromium: its numbers lead to their questions, and nothing hostile does anything."""

import csv
import io
import re
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


NUMBERS = """[...document.querySelectorAll(".summary data[data-of*='field=']")].map(each => [
    Object.fromEntries(each.dataset.of.split("; ").map(part => part.split(/=(.*)/))),
    each.value,
])"""


@pytest.mark.parametrize("name", ["two runs", "committee", "blank run"])
def test_every_number_of_two_runs_is_that_of_compare(tab: Tab, compared_runs: Drawn, name: str) -> None:
    compared = compared_runs(name)
    measures = {
        (each["new"], each["baseline"], row["benchmark"], row["technique"], row["name"], *row["slice"].items()): row
        for each in compared.said["comparisons"]
        for row in each["measures"]
    }
    told = 0
    for number in range(1, len(compared.said["comparisons"]) + 1):
        page = tab.open(compared.page, f"#pair-{number}")
        page.wait_for_selector(f"#pair-{number} table")
        for of, value in page.evaluate(NUMBERS):
            place = [tuple(of["slice"].split("=", 1))] if "slice" in of else []
            key = (of["new"], of["baseline"], of["benchmark"], of["technique"], of["measure"], *place)
            if key in measures:
                wanted = measures[key][of["field"]]
                assert (value == "") == (wanted is None), of
                assert wanted is None or float(value) == pytest.approx(wanted, abs=1e-12), of
                told += 1
    assert told > 30 * len(compared.said["comparisons"])


def test_a_slice_leads_to_its_flips_and_back(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("five runs")
    page = tab.open(compared.page, "#pair-1")
    pair = page.locator("#pair-1")
    assert "model-b against model-a" in pair.inner_text()
    pair.get_by_role("button", name="modality", exact=True).click()
    row = pair.locator("tbody tr", has=page.get_by_role("rowheader", name="CT", exact=True))
    better = row.locator("a", has_text=re.compile("^[0-9]+$")).first
    number = int(better.inner_text())
    better.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    better.click()
    assert page.locator(".query-input").input_value() == "flip:better modality:ct"
    (paired,) = [each for each in compared.said["comparisons"] if each["new"] == "model-b"]
    flips = [flip for flip in paired["flips"] if (flip["benchmark"], flip["name"]) == (GMAI, "accuracy")]
    tagged = {
        result.item.id
        for result in comparing.load(compared.runs[0]).results
        if result.item.benchmark == GMAI and "ct" in result.item.tags.get("modality", ())
    }
    gained = {flip["unit"] for flip in flips if flip["better"]} & tagged
    assert listed(page) == len(gained) == number > 0
    assert set(page.locator(".list .c-id a").all_inner_texts()) == gained
    page.go_back()
    assert row.is_visible(), "folds and tabs stay as they were"
    assert page.evaluate("scrollY") == pytest.approx(before, abs=200)


def test_a_field_of_the_slices_leads_to_its_questions(tab: Tab, versus: Path) -> None:
    page = tab.open(versus)
    for column in (0, 2):
        field = page.locator("#slices .heat tbody tr").first.locator("td").nth(column).locator("a")
        n = int(field.locator("small").inner_text())
        field.click()
        assert re.fullmatch("task:[a-z_]+", page.locator(".query-input").input_value())
        assert listed(page) == n > 0
        page.go_back()
        page.wait_for_selector("#slices")


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
