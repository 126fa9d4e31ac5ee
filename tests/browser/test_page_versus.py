"""The page of several runs in Chromium: its numbers are those of `medvqa.comparing`, and its flips can be explored."""

import csv
import io
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import comparing
from medvqa.items import Judgement, SelfRanking
from medvqa.report import html
from support import pages
from support.tabs import Tab, until

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench" / "page.py"
GMAI = "phantom-gmai-mmbench"


NAMES = ("first", "second", "third")


@pytest.fixture(scope="module")
def study(versus: Path) -> comparing.Study:
    return comparing.study([comparing.load(versus.parent / name) for name in NAMES], pages.PHANTOM)


@pytest.fixture(scope="module")
def compared(study: comparing.Study) -> dict[str, comparing.Paired]:
    return {each.paired.new.name: each.paired for each in study.versus}


def ask(page: Any, query: str) -> None:
    page.locator(".query-input").fill(query)
    page.locator(".query-input").press("Enter")


def total(page: Any) -> int:
    return int(page.locator("#units-count").get_attribute("data-units"))


def exported(page: Any, button: str) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.locator(button).click()
    text = Path(download.value.path()).read_text("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


NUMBERS = """() => [...document.querySelectorAll("[data-measure] data[data-number]")].map(each => {
    const row = each.closest("[data-measure]"), section = each.closest("[data-new]");
    return [section?.dataset.new ?? "", {...row.dataset}, each.dataset.number, each.value];
})"""
OF_UNITS = ("gained", "lost", "discordant_groups", "detectable")


def test_every_number_of_the_summary_is_that_of_comparing(
    tab: Tab, versus: Path, study: comparing.Study, compared: dict[str, comparing.Paired]
) -> None:
    page = tab.open(versus)
    known = {
        (name, c.benchmark, c.technique, c.metric, "; ".join(f"{k}={v}" for k, v in c.slice.items())): c
        for name, paired in compared.items()
        for c in paired.tables
    }
    ranked = {(row.name, ranking.benchmark, ranking.metric): row for ranking in study.rankings for row in ranking.rows}
    said = set()
    for run in NAMES[1:]:
        page.evaluate("hash => { location.hash = hash }", f"#differences?run={run}&against=first")
        until(page, "run => document.querySelector('#differences').dataset.new === run", run)
        for new, row, number, value in page.evaluate(NUMBERS):
            if "run" in row and number != "difference":
                place = ranked[row["run"], row["benchmark"], row["measure"]]
                assert value == ("" if getattr(place, number) is None else f"{getattr(place, number)}")
                continue
            key = row.get("run", new), row["benchmark"], row["technique"], row["measure"], row.get("slice", "")
            side = known[key].comparison if number in OF_UNITS else known[key].shown
            wanted = known[key].adjusted if number == "adjusted" else getattr(side, number)
            assert value == "" if wanted is None else float(value) == pytest.approx(wanted, abs=1e-12), (key, number)
            said.add(key)
    assert len(said) > 200


def test_a_slice_leads_to_its_flips_and_tables_sort(
    tab: Tab, versus: Path, compared: dict[str, comparing.Paired]
) -> None:
    page = tab.open(versus, "#differences?run=third&against=first")
    fold = page.locator(
        "#differences details", has=page.get_by_role("heading", name="accuracy by modality", exact=True)
    ).last
    table = fold.locator("table")
    fold.evaluate("each => (each.open = true)")
    differences = table.locator("tbody tr:not(.few) data[data-number=difference]")

    def values() -> list[float]:
        return [float(each.get_attribute("value")) for each in differences.all()]

    head = table.locator("thead th").nth(3)
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    table.locator("thead th").first.get_by_role("button").click()
    names = table.locator("tbody th").all_inner_texts()
    assert names == sorted(names, key=str.lower)
    row = table.locator("tbody tr[data-slice='modality=ct']")
    worse = row.locator("data[data-number=lost]")
    number = int(worse.get_attribute("value"))
    assert number > 0
    worse.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    worse.click()
    assert total(page) == number
    assert page.locator(".query-input").input_value() == "flip:worse modality:ct"
    wanted = [flip for flip in compared["third"].flips if (flip.benchmark, flip.metric) == (GMAI, "accuracy")]
    wanted = [flip for flip in wanted if not flip.better and "ct" in flip.new[0].item.tags["modality"]]
    assert sorted(page.locator(".list .c-id a").all_inner_texts()) == sorted(flip.unit for flip in wanted)
    page.go_back()
    assert table.is_visible(), "folds stay as they were"
    assert page.evaluate("scrollY") == pytest.approx(before, abs=200)


def test_measures_and_ranking_are_exported(tab: Tab, versus: Path, compared: dict[str, comparing.Paired]) -> None:
    page = tab.open(versus)
    assert len(exported(page, "#measures-csv")) == sum(len(paired.tables) for paired in compared.values())
    assert {row["run"] for row in exported(page, "#ranking-csv")} == {"first", *compared}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs whose every text is hostile, with judgements and texts beside the answers."""
    folder = tmp_path_factory.mktemp("strangers")
    benchmark, results = pages.hostile()
    said = Judgement(pages.HOSTILE[0], pages.HOSTILE[1], "options", pages.HOSTILE, 1.0, {pages.HOSTILE[3]: 1.0})
    ranking = SelfRanking(pages.HOSTILE, 1, pages.HOSTILE[2], pages.HOSTILE[1])
    beside = {"thoughts": pages.HOSTILE[0], "whole": pages.HOSTILE[3], "earlier": pages.HOSTILE}
    judged = [
        replace(result, judgement=said, ranking=ranking, answer=replace(result.answer, **beside))
        for result in pages.marked(results, right=True)
    ]
    sides = []
    for name, each in (("0", pages.marked(results, right=False)), ("1", judged)):
        run = pages.write(folder / name, each, model={"name": pages.HOSTILE[3]})
        sides.append(replace(comparing.load(run), name=pages.HOSTILE[int(name)]))
    study = comparing.study(sides, {"strange": benchmark})
    [versus] = study.versus
    told = replace(study, versus=(replace(versus, refusals=(), notes=pages.HOSTILE),))
    page = html.comparison_page(told, {"strange": benchmark})
    (folder / "page.html").write_bytes(page)
    return folder / "page.html"


def test_hostile_runs_fire_nothing_and_ask_for_nothing(tab: Tab, strangers: Path) -> None:
    page = tab.open(strangers)
    assert "\u202e" not in page.evaluate("document.body.innerText")
    for row in exported(page, "#measures-csv"):
        for cell in row.values():
            with suppress(ValueError):
                # A number, which a spreadsheet only reads.
                float(cell)
                continue
            assert not cell.startswith(("=", "+", "-", "@"))
    page.get_by_role("link", name="Questions", exact=True).click()
    units = (len(pages.HOSTILE) + 1) // 2  # pairs, and one question that is left over
    assert total(page) == units
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
    assert tab.asked == [strangers.resolve().as_uri()]


def test_a_judge_and_folded_texts_stand_beside_a_flipped_answer(tab: Tab, strangers: Path) -> None:
    page = tab.open(strangers, "#questions")
    page.locator(".list .c-id a").first.click()
    new = page.locator("dialog .answer").nth(1)
    said = new.locator(".judged")
    sync_api.expect(said.locator(".response")).to_have_count(len(pages.HOSTILE))
    assert pages.HOSTILE[0] in said.inner_text()
    folded = new.locator("details.folded")
    names = ["Whole reply", "Earlier replies", "Hidden thoughts", "Answers to select from (selected: 1)"]
    assert [text.strip() for text in folded.locator("summary").all_inner_texts()][:5] == [*names, "Selecting reply"]
    thoughts = folded.nth(2).locator(".response")
    assert not thoughts.is_visible()
    folded.nth(2).locator("summary").click()
    assert thoughts.inner_text() == pages.HOSTILE[0]
    assert folded.nth(3).locator(".response").count() == len(pages.HOSTILE)
    assert page.locator("dialog .answer").nth(0).locator(".judged, details.folded").count() == 0
    assert page.evaluate("window.pwned") is None


def test_a_comparison_of_26000_items_is_small_and_can_be_used(tab: Tab, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH), "--items", "26000", "--no-browser", "--keep", str(tmp_path / "large")]
    subprocess.run(command, check=True, capture_output=True)
    file = tmp_path / "large.html"
    assert file.stat().st_size < 15e6
    page = tab.open(file, "#questions")
    before = total(page)
    assert before > 10_000
    ask(page, "department:dermatology")
    assert 0 < total(page) < before
    ask(page, "department:dermatology way:worse")
    page.locator(".list .c-id a").first.click()
    responses = page.locator("dialog .response")
    sync_api.expect(responses).to_have_count(2)
    assert min(map(len, responses.all_inner_texts())) >= 90
    assert responses.nth(0).inner_text() != responses.nth(1).inner_text()
