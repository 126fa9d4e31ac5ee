"""The list of runs, the history of an item and saved reviews of `medvqa view` in Chromium."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from medvqa import report
from medvqa.judging import reviews
from medvqa.records import run_folder, run_record
from medvqa.report import writing
from support import pages
from support.tabs import Tab, opened, until
from support.viewed import View

pytestmark = pytest.mark.slow

EVIL = "\u202eevil<b>?#"
NUMBERS = """[...document.querySelectorAll(".runs tbody tr")].map(row => [
    row.querySelector("th a").getAttribute("href"),
    [...row.querySelectorAll("data")].map(({ dataset: of, value }) =>
        [of.benchmark, of.technique, of.measure, Number(value)]),
])"""
VIOLATIONS = "axe.run().then(found => found.violations.map(({ id, nodes }) => [id, nodes[0].html]))"
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three comparable runs of three days, a gated one, an unfinished one, a hostile one and a broken one."""
    root = tmp_path_factory.mktemp("served") / "reports"
    for day, folder in enumerate(pages.several_runs(root, "mediconfusion"), 1):
        run = run_record.read_run(folder)
        run_folder.write_json(folder / "run.json", {**run.as_json(), "started": f"2026-01-0{day}T03:04:05+00:00"})
    guesses = [result for result in pages.guesses() if "mediconfusion" in result.item.benchmark]
    pages.gated(root / "gates")
    selection = {"questions": len(guesses), "how": [], "by_outcome": False, "benchmarks": {}}
    pages.write(root / "open", guesses[:9], selection=selection)
    pages.write(root / EVIL, guesses[:40], model={"name": EVIL})
    for folder in (*root.glob("*/run.json"), *root.glob("gates/*/run.json")):
        measured = report.build(folder.parent, pages.PHANTOM)
        run_folder.write_json(folder.parent / "metrics.json", writing.as_json(measured))
    (root / "broken").mkdir()
    (root / "broken" / "run.json").write_text("{")
    return root


@pytest.fixture(scope="module")
def view(reports: Path) -> Iterator[View]:
    with View(reports, "--noconftest") as made:
        yield made


@pytest.fixture
def tab(browser: object, view: View) -> Iterator[Tab]:
    """A tab that the server knows; its console stays clean."""
    made = Tab(browser, viewport={"width": 390, "height": 844}, color_scheme="dark", reduced_motion="reduce")
    opened(made.page, view.address)
    yield made
    made.context.close()
    assert made.said == []
    assert [url for url in made.asked if not url.startswith((view.origin, "data:", "blob:"))] == []


def test_the_list_has_the_numbers_of_each_run_and_leads_to_comparisons(tab: Tab, view: View, reports: Path) -> None:
    page = tab.page
    page.locator(".columns summary").click()
    for column in page.locator(".columns input").all():
        column.check()
    shown = dict(page.evaluate(NUMBERS))
    assert len(shown) == 8
    for name, least in (("first", 3), ("gates/change", 5)):
        measures = json.loads((reports / name / "metrics.json").read_text())["measures"]
        stored = {
            (each["benchmark"], each["technique"], each["name"]): each["value"]
            for each in measures
            if not each["slice"]
        }
        assert len(shown[f"/runs/{name}"]) >= least
        assert all(stored[tuple(key)] == value for *key, value in shown[f"/runs/{name}"])
    assert "\u202e" not in page.locator("main").inner_text()
    assert page.locator(".runs b").count() == 0
    assert "9 of" in page.locator(".runs tr.unfinished").inner_text()
    assert "damaged" in page.locator(".runs tr.unreadable").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".trend").count() >= 3
    assert "1 failed" in page.locator("#gates").inner_text()
    sort_by_a_measure(page)
    # By keyboard alone: choose two runs and open their comparison.
    for name in ("second", "first"):
        page.locator(f"[aria-label='Compare {name}']").focus()
        page.keyboard.press("Space")
    page.locator(".chosen a").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?run=second&run=first")


def sort_by_a_measure(page: Any) -> None:
    """A click on the heading of a measure, which narrow screens hide, puts the largest value first."""
    page.evaluate("document.querySelector('.runs thead .measured button').click()")
    measure = "document.querySelector('.runs thead .measured').cellIndex"
    values = page.evaluate(
        f"[...document.querySelectorAll('.runs tbody tr')].map(row => row.cells[{measure}].querySelector('data'))"
        ".filter(each => each).map(each => Number(each.value))"
    )
    assert values == sorted(values, reverse=True)
    assert len(values) >= 3


def test_the_filter_and_a_chart_lead_to_runs(tab: Tab, view: View) -> None:
    page = tab.page
    page.locator(".filters input").fill("other")
    assert page.locator(".runs tbody th").all_inner_texts() == ["second"]
    page.locator(".filters input").fill("")
    page.locator(".trend .numbers summary").first.click()
    page.locator(".trend .numbers a").first.click()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert "/runs/" in page.url


def test_the_pages_pass_axe(tab: Tab, view: View) -> None:
    for address in (view.origin, f"{view.origin}/history?benchmark=phantom-mediconfusion&id=1%2F1"):
        page = opened(tab.page, address)
        page.evaluate(AXE.read_text())
        found = page.evaluate(VIOLATIONS)
        assert found == []


def test_the_history_of_an_item_shows_each_answer_once(tab: Tab, view: View, reports: Path) -> None:
    result = run_folder.read(reports / "first").results[0]
    page = opened(
        tab.page, f"{view.origin}/history?benchmark={result.item.benchmark}&id={quote(result.item.id, safe='')}"
    )
    assert page.locator("h1").inner_text() == f"{result.item.benchmark} · {result.item.id}"
    assert page.locator(".question").count() == 1
    runs = page.locator("tbody th a").all_inner_texts()
    assert {"first", "second", "third", "gates/change"} <= set(runs)
    outcomes = page.locator("tbody .outcome").all_inner_texts()
    stored = {each.key: each.score.outcome for each in run_folder.read(reports / "second").results}
    assert outcomes[runs.index("second")] == stored[result.key]
    assert "broken" in page.locator(".notes").inner_text()


def test_reviews_are_saved_in_the_run_folder_for_all_tabs(tab: Tab, view: View, reports: Path) -> None:
    folder = reports / "first"
    results = run_folder.read(folder).results
    key = quote("|".join(results[0].key.names))
    page = opened(tab.page, view.run("first", f"#questions?b={results[0].item.benchmark}&item={key}"))
    page.locator(".review label", has_text="wrong key").first.click()
    page.locator(".review textarea").first.fill("left kidney")
    until(page, "document.querySelector('.review').textContent.includes('Saved in the run folder')")
    digest, keys = run_folder.answers_digest(results), {each.key for each in results}
    (review,) = reviews.read(folder / "reviews.jsonl", digest, keys)
    assert (review.key, review.tags, review.comment) == (results[0].key, ("wrong_key",), "left kidney")
    assert page.evaluate("Object.keys(localStorage).filter(name => name.includes('review'))") == []
    other = opened(tab.context.new_page(), view.run("first", "#review"))
    assert "left kidney" in other.locator("table.reviews").inner_text()
    page.locator(".review textarea").first.fill("right kidney")
    until(page, "document.querySelector('.review').textContent.includes('Saved in the run folder')")
    (review,) = reviews.read(folder / "reviews.jsonl", digest, keys)
    assert review.comment == "right kidney"
    assert (
        page.locator("a", has_text="This item in all runs")
        .first.get_attribute("href")
        .startswith("/history?benchmark=")
    )
