"""The summary of a comparison in Chromium: its numbers are those of `medvqa compare`, and lead to their questions."""

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
from support.tabs import Tab, until

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


NUMBERS = """within => [...document.querySelectorAll(within + " data[data-number]")].map(each => {
    const row = each.closest("[data-measure]"), pair = each.closest("[data-new]");
    return [pair?.dataset.new ?? "", pair?.dataset.baseline ?? "", {...row.dataset}, each.dataset.number, each.value];
})"""
TURNED = {"gained": "lost", "lost": "gained"}


class Said:
    """What `medvqa compare --json` said, by what a number of the page names."""

    def __init__(self, said: Any) -> None:
        self.measures = {
            (each["new"], each["baseline"], *self.key(measure)): measure
            for each in said["comparisons"]
            for measure in each["measures"]
        }
        self.ranked = {
            (row["name"], ranking["benchmark"], ranking["technique"], ranking["name"]): row
            for ranking in said.get("rankings", ())
            for row in ranking["runs"]
        }

    @staticmethod
    def key(measure: Any) -> tuple[str, ...]:
        sliced = "; ".join(f"{name}={value}" for name, value in measure["slice"].items())
        return measure["benchmark"], measure["technique"], measure["name"], sliced

    def number(self, new: str, baseline: str, row: dict[str, str], number: str) -> float | None:
        own = row["benchmark"], row["technique"], row["measure"]
        if "run" in row and number != "difference":
            return self.ranked[row["run"], *own][number]
        names = (row["run"], self.first) if "run" in row else (new, baseline)
        measure = self.measures[*names, *own, row.get("slice", "")]
        # What gets better or worse of a value that is to be low is the other way round.
        return measure[TURNED.get(number, number) if measure["better"] == "lower" else number]

    @property
    def first(self) -> str:
        return next(baseline for _, baseline, *_ in self.measures)


SHOWN = """pair => {
    const {new: run, baseline} = document.querySelector("#differences").dataset;
    return run === pair[0] && baseline === pair[1];
}"""
"""Whether the differences of two runs are shown."""


def check(said: Said, page: Any, within: str) -> int:
    """Check all numbers of a part of the page, and return how many there are."""
    numbers = page.evaluate(NUMBERS, within)
    for new, baseline, row, number, value in numbers:
        wanted = said.number(new, baseline, row, number)
        told = (new, baseline, row, number, value, wanted)
        assert (value == "") == (wanted is None), told
        assert wanted is None or float(value) == pytest.approx(wanted, abs=1e-12), told
    return len(numbers)


@pytest.mark.parametrize("name", ["two runs", "committee", "blank run"])
def test_every_number_of_the_summary_is_that_of_compare(tab: Tab, compared_runs: Drawn, name: str) -> None:
    compared = compared_runs(name)
    said = Said(compared.said)
    page = tab.open(compared.page)
    several = len(compared.runs) > 2
    if not several:
        assert check(said, page, "#result") >= 5
    else:
        assert check(said, page, "#ranking .leaderboard") == 5 * 3 + 4 * 3, "values, and differences from the first run"
        further = page.locator("#ranking select option").evaluate_all("all => all.map(each => each.value)")[1:]
        for measure in further:
            page.locator("#ranking select").select_option(measure)
            assert check(said, page, "#ranking .leaderboard") == 5 * 3 + 4 * 3
        assert check(said, page, "#ranking .board") == 5 * 8 * 3 - 8, "rank, value, and difference from the first run"
        assert check(said, page, "#effects") == 2 * 3 * 6
    for paired in compared.said["comparisons"]:
        if several:
            pair = [paired["new"], paired["baseline"]]
            page.evaluate("hash => { location.hash = hash }", "#differences?run={}&against={}".format(*pair))
            until(page, SHOWN, pair)
        told = check(said, page, "#differences")
        assert told > 100, paired["new"]


def test_a_slice_leads_to_its_flips_and_back_and_tables_sort(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("five runs")
    page = tab.open(compared.page, "#differences?run=model-b&against=model-a")
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
    better = row.locator("data[data-number=gained]")
    number = int(better.get_attribute("value"))
    assert number > 0
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
    assert listed(page) == len(gained) == number
    assert set(page.locator(".list .c-id a").all_inner_texts()) == gained
    page.go_back()
    assert table.is_visible(), "folds stay as they were"
    assert page.evaluate("scrollY") == pytest.approx(before, abs=200)


def test_a_field_of_the_slices_leads_to_its_questions(tab: Tab, versus: Path) -> None:
    page = tab.open(versus)
    for run in ("first", "third"):
        field = page.locator(f"#slices td a:has(data[data-run='{run}'])").first
        n = int(field.locator("data").get_attribute("data-n"))
        name, _, value = field.locator("data").get_attribute("data-slice").partition("=")
        field.click()
        assert page.locator(".query-input").input_value() == f"{name}:{value}"
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
