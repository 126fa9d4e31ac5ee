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
from support.tabs import Tab

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench" / "page.py"
GMAI, CONFUSION, LESION = "phantom-gmai-mmbench", "phantom-mediconfusion", "phantom-medlesionvqa"


@pytest.fixture(scope="module")
def compared(versus: Path) -> dict[str, comparing.Paired]:
    sides = [comparing.load(versus.parent / name) for name in ("first", "second", "third")]
    return {new.name: comparing.compare(new, sides[0], pages.PHANTOM) for new in sides[1:]}


def choose(page: Any, group: str, name: str) -> None:
    page.get_by_role("group", name=group, exact=True).get_by_role("button", name=name, exact=True).click()


def ask(page: Any, query: str) -> None:
    page.locator(".query-input").fill(query)
    page.locator(".query-input").press("Enter")


def total(page: Any) -> int:
    return int(page.locator("#flips-count").get_attribute("data-flips"))


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
    tab: Tab, versus: Path, compared: dict[str, comparing.Paired]
) -> None:
    page = tab.open(versus)
    known = {
        (name, c.benchmark, c.technique, c.metric, "; ".join(f"{k}={v}" for k, v in c.slice.items())): c
        for name, paired in compared.items()
        for c in paired.tables
    }
    sides = [comparing.load(versus.parent / name) for name in ("first", "second", "third")]
    ranked = {
        (row.name, ranking.benchmark, ranking.metric): row
        for ranking in comparing.rank(sides, pages.PHANTOM)
        for row in ranking.rows
    }
    told = set()
    for new, row, number, value in page.evaluate(NUMBERS):
        if "run" in row:
            place = ranked[row["run"], row["benchmark"], row["measure"]]
            if number != "difference":
                assert value == ("" if getattr(place, number) is None else f"{getattr(place, number)}")
            continue
        key = new, row["benchmark"], row["technique"], row["measure"], row["slice"]
        side = known[key].comparison if number in OF_UNITS else known[key].shown
        wanted = known[key].adjusted if number == "adjusted" else getattr(side, number)
        assert value == "" if wanted is None else float(value) == pytest.approx(wanted, abs=1e-12), (key, number)
        told.add(key)
    assert len(told) > 200
    assert page.locator(".vs-said data[data-number]").count() > 30


def test_a_slice_leads_to_its_flips_and_tables_sort(
    tab: Tab, versus: Path, compared: dict[str, comparing.Paired]
) -> None:
    page = tab.open(versus, "#comparison-2")
    fold = page.locator(
        "#comparison-2 details", has=page.get_by_role("heading", name="accuracy by modality", exact=True)
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
    assert page.locator(".query-input").input_value() == "way:worse modality:ct"
    wanted = [flip for flip in compared["third"].flips if (flip.benchmark, flip.metric) == (GMAI, "accuracy")]
    wanted = [flip for flip in wanted if not flip.better and "ct" in flip.new[0].item.tags["modality"]]
    assert sorted(page.locator(".list .c-id a").all_inner_texts()) == sorted(flip.unit for flip in wanted)
    page.go_back()
    assert table.is_visible(), "folds stay as they were"
    assert page.evaluate("scrollY") == pytest.approx(before, abs=200)


def test_flips_are_chosen_filtered_and_searched(tab: Tab, versus: Path, compared: dict[str, comparing.Paired]) -> None:
    page = tab.open(versus, "#questions")
    for run, paired in compared.items():
        choose(page, "Comparison", f"{run} against first")
        for benchmark, metric in ((CONFUSION, "set_accuracy"), (GMAI, "accuracy")):
            choose(page, "Benchmark", benchmark)
            choose(page, "Measure", metric.replace("_", " "))
            flips = [f for f in paired.flips if (f.benchmark, f.metric) == (benchmark, metric)]
            assert total(page) == len(flips)
            ask(page, "way:worse")
            assert total(page) == sum(not flip.better for flip in flips)
            page.get_by_role("button", name="Clear", exact=True).click()
    ct = [flip for flip in flips if "ct" in flip.new[0].item.tags["modality"]]
    facet = page.locator("details.facet", has=page.get_by_role("heading", name="modality", exact=True))
    facet.locator("summary").click()
    facet.get_by_role("button", name="CT").click()
    assert total(page) == len(ct)
    ask(page, "baseline:wrong new:correct")
    wrong = [f for f in flips if (f.baseline[0].score.outcome, f.new[0].score.outcome) == ("wrong", "correct")]
    assert total(page) == len(wrong)
    ask(page, f'"{ct[0].new[0].item.id}"')
    sync_api.expect(page.locator(".list .c-id a", has_text=ct[0].unit).first).to_be_visible()
    ask(page, f"id:{ct[0].unit}")
    assert page.locator(".list .c-id a").all_inner_texts() == [ct[0].unit]
    ask(page, '"no such words"')
    page.wait_for_selector(".empty")
    ask(page, "way:neither")
    assert "way has no value neither. Values: worse, better." in page.locator(".problems").inner_text()


def test_a_flip_shows_both_answers_and_has_a_permalink(
    tab: Tab, versus: Path, compared: dict[str, comparing.Paired]
) -> None:
    page = tab.open(versus, f"#questions?run=third&b={CONFUSION}&measure=individual_accuracy")
    link = page.locator(".list .c-id a").first
    unit = link.inner_text()
    link.click()
    flip = next(f for f in compared["third"].flips if (f.metric, f.unit) == ("individual_accuracy", unit))
    answers = page.locator("dialog .answer")
    assert answers.count() == 2 * len(flip.new) == 4
    for i, result in enumerate(each for both in zip(flip.baseline, flip.new, strict=True) for each in both):
        sync_api.expect(answers.nth(i).locator(".response").first).to_contain_text(result.answer.text)
        assert result.score.why in answers.nth(i).inner_text()
        assert ("first", "third")[i % 2] in answers.nth(i).inner_text()
    left, right = (answers.nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] < right["x"]
    assert page.locator("dialog img").count() == 2
    title = page.locator("dialog h2").inner_text()
    fragment = page.evaluate("location.hash")
    page.goto("about:blank")
    page = tab.open(versus, fragment)
    assert page.locator("dialog h2").inner_text() == title
    page.keyboard.press("ArrowRight")
    sync_api.expect(page.locator("dialog h2")).not_to_have_text(title)
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    chosen = page.get_by_role("group", name="Measure").locator("[aria-pressed=true]")
    assert chosen.inner_text() == "individual accuracy"
    assert page.evaluate("document.activeElement.closest('.list') !== null")
    page = tab.open(versus, f"#questions?run=third&b={CONFUSION}&item=nothing")
    assert "No flip of this measure has the id nothing" in page.locator("dialog").inner_text()


def test_measures_ranking_and_flips_are_exported(tab: Tab, versus: Path, compared: dict[str, comparing.Paired]) -> None:
    page = tab.open(versus)
    assert len(exported(page, "#measures-csv")) == sum(len(paired.tables) for paired in compared.values())
    assert {row["run"] for row in exported(page, "#ranking-csv")} == {"first", *compared}
    page = tab.open(versus, f"#questions?run=third&b={LESION}&measure=mean_score")
    rows = exported(page, "#csv")
    flips = [f for f in compared["third"].flips if (f.benchmark, f.metric) == (LESION, "mean_score")]
    assert {row["unit"]: row["way"] for row in rows} == {f.unit: "better" if f.better else "worse" for f in flips}
    responses = {f.unit: (f.baseline[0].answer.text, f.new[0].answer.text) for f in flips}
    for row in rows:
        for name, text in zip(("response of baseline", "response of new"), responses[row["unit"]], strict=True):
            assert row[name].lstrip("'") == text
        assert row["new run"] == "third"


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
    paired = comparing.compare(sides[1], sides[0], {"strange": benchmark})
    page = html.comparison_page(sides, [html.Versus(paired, (), pages.HOSTILE)], [], {"strange": benchmark})
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
    page.get_by_role("link", name="Flips", exact=True).click()
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
