"""The explorer in Chromium: filters count what metrics.json, results.jsonl and `medvqa compare` say."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from medvqa import benchmarks, comparing, report
from medvqa.items import SCORED_OUTCOMES, Result
from medvqa.report import html
from medvqa.tags import lexicon
from support import pages
from support.tabs import Tab, until

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

GMAI, CONFUSION = "phantom-gmai-mmbench", "phantom-mediconfusion"
Drawn = Callable[[str], pages.ComparedRuns]


def measured(page: Path, benchmark: str, name: str) -> dict:
    measures = json.loads((page.parent / "metrics.json").read_text())["measures"]
    return {tuple(m["slice"].items()): m for m in measures if (m["benchmark"], m["name"]) == (benchmark, name)}


def value(page: Any, dimension: str, name: str) -> Any:
    """The button of a value in a facet, which is opened."""
    facet = page.locator("details.facet", has=page.get_by_role("heading", name=dimension, exact=True))
    if facet.get_attribute("open") is None:
        facet.locator("summary").click()
    return facet.get_by_role("button", name=re.compile(f"^{name}"))


def listed(page: Any) -> int:
    return int(page.get_by_role("grid").get_attribute("aria-rowcount")) - 1


def query(page: Any) -> Any:
    return page.get_by_role("combobox", name="Query")


def asked(page: Any, text: str) -> None:
    """Type a query and wait until it holds."""
    query(page).fill(text)
    query(page).press("Enter")


def exported(page: Any) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.locator("#csv").click()
    text = Path(download.value.path()).read_text("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_facets_count_score_and_say_what_to_type(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom, "#questions")
    told = measured(phantom, GMAI, "accuracy")
    score, interval = page.locator("#score"), page.locator("#interval")
    assert score.inner_text() == f"{100 * told[()]['value']:.2f}"
    for cell in page.locator("data[data-facet]").all():
        at = {name: cell.get_attribute(f"data-{name}") for name in ("facet", "value", "sum", "n")}
        measure = told.get(((at["facet"], at["value"]),), {"n": 0, "count": 0})
        assert (float(at["n"]), float(at["sum"])) == (measure["n"], pytest.approx(measure["count"], abs=1e-9))
    for slice, text in (((), ""), ((("modality", "ct"),), "modality:ct")):
        if text:
            value(page, "modality", "CT").click()
            assert query(page).input_value() == text
        assert score.get_attribute("data-n") == f"{told[slice]['n']:g}"
        low, high = told[slice]["low"], told[slice]["high"]
        assert interval.inner_text() == f"95 % interval {100 * low:.2f}–{100 * high:.2f}"
    value(page, "granularity", "Contour Level").click()
    assert interval.count() == 0
    expression = lexicon.expression({"modality": "ct", "granularity": "contour_level"})
    page.get_by_text("Run this selection again").click()
    assert page.locator("#expression").inner_text() == f'-m "{expression}"'
    command = f'pytest --model=guesser --benchmark={GMAI} --technique=mc -m "{expression}"'
    assert page.locator("#command").inner_text() == command
    items = benchmarks.load(pages.PHANTOM[GMAI], Path())
    expected = [i for i in items if {"ct", "contour_level"} <= {*i.tags["modality"], *i.tags["granularity"]}]
    assert 0 < listed(page) == len(expected)
    # Facets without a term hold only the values that are left.
    departments = page.get_by_role("list", name="department").get_by_role("button")
    assert departments.count() == len({value for item in expected for value in item.tags["department"]})
    assert {row["id"] for row in exported(page)} == {item.id for item in expected}
    page.go_back()
    assert query(page).input_value() == "modality:ct"
    page.get_by_role("button", name="Clear", exact=True).click()
    assert page.locator("#expression").count() == 0
    assert listed(page) == len(items)


def test_the_query_line_selects_sorts_searches_and_names_what_is_unknown(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom, f"#questions?b={GMAI}")
    results = [r for r in pages.guesses() if r.item.benchmark == GMAI]
    outcomes = page.locator(".c-outcome .outcome")
    assert outcomes.first.inner_text() == "wrong", "what went wrong stands first"
    asked(page, "outcome:wrong LYMPHOCYTES")
    wrong = [r for r in results if r.score.outcome == "wrong"]
    found = [r for r in wrong if "lymphocytes" in (r.item.question + " ".join(r.item.options.values())).lower()]
    assert 0 < listed(page) == len(found)
    assert page.locator(".list mark").first.inner_text().lower() == "lymphocytes"
    assert page.locator("#interval").count() == 0
    asked(page, "seconds>0.5 -outcome:correct")
    slow = [r.answer.seconds for r in results if r.answer.seconds > 0.5 and r.score.outcome != "correct"]
    assert listed(page) == len(slow)
    page.get_by_role("columnheader", name="Time").get_by_role("button").click()
    assert page.get_by_role("columnheader", name="Time").get_attribute("aria-sort") == "descending"
    assert page.locator(".row .c-seconds").nth(1).inner_text() == f"{max(slow):.3g} s"
    # An unknown name is told, with the known ones and texts that mend it.
    asked(page, "modality:xray")
    alert = page.get_by_role("alert")
    assert "modality has no value xray. Values: x_ray, " in alert.inner_text()
    assert page.get_by_role("grid").count() == 0
    alert.get_by_role("button", name="Use modality:x_ray").click()
    assert listed(page) == sum("x_ray" in r.item.tags["modality"] for r in results)
    asked(page, "modality:x_ray no-such-words")
    assert "Alone" in page.locator(".empty").inner_text()
    page.locator(".empty").get_by_role("button", name="Remove it").nth(1).click()
    assert query(page).input_value() == "modality:x_ray"
    # Suggestions are chosen by keys, and told to screen readers.
    box = query(page)
    box.fill("")
    box.press_sequentially("outc")
    assert box.get_attribute("aria-expanded") == "true"
    box.press("ArrowDown")
    assert page.locator(f"[id='{box.get_attribute('aria-activedescendant')}']").inner_text().startswith("outcome:")
    box.press("Enter")
    box.press_sequentially("wr")
    box.press("ArrowDown")
    box.press("Enter")
    assert box.input_value().strip() == "outcome:wrong"
    sync_api.expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", str(len(wrong) + 1))
    box.press("Escape")
    # Escape leaves the line, j enters the list, arrow keys walk it; Enter opens the item, whose address can be sent.
    page.keyboard.press("j")
    assert page.locator(".row:has(:focus)").get_attribute("aria-rowindex") == "2"
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    # The row of the last key gets the focus once it is drawn.
    sync_api.expect(page.locator(".row:has(:focus)")).to_have_attribute("aria-rowindex", str(len(wrong)))
    page.keyboard.press("Enter")
    assert "item=" in page.evaluate("location.hash")


def test_pairs_are_units_with_a_verdict(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom, f"#questions?b={CONFUSION}&layout=pairs")
    told = page.locator("#pairs-sum")
    for name, count, n in (("set_accuracy", "right", "scored"), ("confusion", "confused", "valid")):
        measure = measured(phantom, CONFUSION, name)[()]
        assert float(told.get_attribute(f"data-{count}")) == measure["count"]
        assert float(told.get_attribute(f"data-{n}")) == measure["n"]
    assert page.locator(".row .c-pair").nth(1).inner_text().startswith("confused")
    pairs = listed(page)
    value(page, "pair", "confused").click()
    assert listed(page) == int(told.get_attribute("data-confused")) < pairs
    members = page.locator(".members").first
    assert members.locator(".outcome").count() == 2
    page.get_by_role("group", name="Layout").get_by_role("button", name="Images").click()
    assert page.locator(".card img").first.evaluate("async e => { await e.decode(); return e.naturalWidth; }") > 0


def test_a_hostile_run_fires_nothing_and_asks_for_nothing(tab: Tab, tmp_path: Path) -> None:
    benchmark, results = pages.hostile()
    folder = pages.write(tmp_path / "run", pages.harmless(results), model={"name": pages.HOSTILE[1]})
    file = folder / html.FILE
    file.write_bytes(html.render(report.build(folder, {"strange": benchmark})))
    page = tab.open(file, "#questions")
    assert listed(page) == len(pages.HOSTILE)
    for facet in page.locator("details.facet").all():
        if facet.get_attribute("open") is None:
            facet.locator("summary").click()
        facet.locator("ul button").last.click()
        assert page.get_by_role("alert").count() == 0, query(page).input_value()
        page.get_by_role("button", name="Clear", exact=True).click()
    for text in pages.HOSTILE:
        asked(page, text)
    asked(page, "")
    for layout in ("Images", "Pairs", "Table"):
        page.get_by_role("group", name="Layout").get_by_role("button", name=layout).click()
    assert page.evaluate("window.pwned") is None
    assert page.locator("#app a:not([href^='#']), #app script, #app iframe, #app object, #app [onerror]").count() == 0
    named = "[...document.querySelectorAll('[title], [alt], [aria-label]')].map(e => e.title + e.alt + e.ariaLabel)"
    told = [page.evaluate("document.body.innerText"), *page.evaluate(named)]
    assert "\u202e" not in "".join(told)
    assert tab.asked == [f"{file.resolve().as_uri()}#questions"] or tab.asked == [file.resolve().as_uri()]
    for row in exported(page):
        assert not [cell for cell in row.values() if cell.lstrip("\x00\x1b \t").startswith(("=", "+", "-", "@"))]


def test_the_lexical_tree_alone_is_listed_without_a_run(tab: Tab, tmp_path: Path) -> None:
    parts = [(benchmark, benchmarks.load(benchmark, Path())) for benchmark in pages.PHANTOM.values()]
    (tmp_path / "tree.html").write_bytes(html.lexicon_page(parts))
    page = tab.open(tmp_path / "tree.html")
    value(page, "task", "Counting").click()
    page.get_by_text("Run this selection again").click()
    assert "pytest --model=MODEL" in page.locator("#command").inner_text()
    assert listed(page) == sum("counting" in item.tags["task"] for item in parts[0][1])
    assert page.get_by_role("columnheader", name="Response").count() == 0
    page.goto((tmp_path / "tree.html").resolve().as_uri() + "#questions?item=phantom-mediconfusion|11/2")
    dialog = page.locator("dialog[open]")
    assert "mediconfusion/images/19.jpg" in dialog.inner_text()
    assert "this page has no images" in dialog.inner_text()
    assert dialog.locator("h3").count() == 0, "no answer, no score"


# ---- several runs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Units:
    """The units of one measure, read from the run folders."""

    runs: Sequence[Path]
    benchmark: str

    @cached_property
    def results(self) -> dict[str, list[list[Result]]]:
        """The results of each unit by run: of a question that a choice answers, or of a pair of questions."""
        found: dict[str, list[list[Result]]] = defaultdict(lambda: [[] for _ in self.runs])
        for place, run in enumerate(self.runs):
            for result in comparing.load(run).results:
                if result.item.benchmark == self.benchmark and result.item.kind == "single_choice":
                    found[result.item.pair_id or result.item.id][place].append(result)
        return found

    def holding(self, holds: Callable[[list[list[Result]]], bool]) -> set[str]:
        return {unit for unit, by_run in self.results.items() if holds(by_run)}

    @property
    def size(self) -> int:
        """The number of questions of a unit."""
        return max(len(results) for by_run in self.results.values() for results in by_run)

    def wrong(self, results: list[Result]) -> bool:
        """Whether a run scored all questions of a unit, and not all of them are correct."""
        outcomes = [result.score.outcome for result in results]
        return len(outcomes) == self.size and set(outcomes) <= SCORED_OUTCOMES and set(outcomes) != {"correct"}


def same_wrong_option(by_run: list[list[Result]]) -> bool:
    by_question: dict[str, list[Result]] = defaultdict(list)
    for result in (result for results in by_run for result in results):
        by_question[result.item.id].append(result)
    return any(
        len(results) == len(by_run)
        and {result.score.outcome for result in results} == {"wrong"}
        and len({result.score.extracted for result in results}) == 1
        for results in by_question.values()
    )


def units_listed(page: Any) -> int:
    return int(page.locator("#units-count").get_attribute("data-units"))


def preset(page: Any, term: str) -> int:
    return int(page.locator(f"[data-preset='{term}']").get_attribute("value"))


def go(page: Any, **fields: str) -> None:
    """Open the questions with these fields in the address, as a link does."""
    page.evaluate(
        "hash => { location.hash = hash }", "#questions?" + "&".join(f"{k}={quote(v)}" for k, v in fields.items())
    )


@pytest.mark.parametrize(("name", "benchmark"), [("two runs", GMAI), ("ten runs", CONFUSION), ("blank run", CONFUSION)])
def test_a_comparison_is_walked_from_all_wrong_to_one_answer_and_back(
    tab: Tab, compared_runs: Drawn, name: str, benchmark: str
) -> None:
    compared = compared_runs(name)
    units = Units(compared.runs, benchmark)
    names = [run.name for run in compared.runs]
    page = tab.open(compared.page, f"#questions?b={benchmark}")
    everything = units_listed(page)
    all_wrong = units.holding(lambda by_run: all(map(units.wrong, by_run)))
    assert preset(page, f"wrong_in:{len(names)}") == len(all_wrong) > 0
    same = units.holding(same_wrong_option)
    assert preset(page, "agree:wrong") == len(same)

    page.get_by_role("button", name="All wrong").click()
    assert units_listed(page) == len(all_wrong)
    rows = {row["unit"]: row for row in exported(page)}
    assert rows.keys() == all_wrong
    for unit, row in rows.items():
        for run, results in zip(names, units.results[unit], strict=True):
            assert row[f"outcome of {run}"] == "; ".join(result.score.outcome for result in results)
            said = [result.answer.text for result in results if result.answer]
            assert row[f"response of {run}"] == "\n\n".join(filter(None, said))
            assert float(row[f"value of {run}"]) == 0
        assert (row["right in"], row["wrong in"]) == ("0", str(len(names)))

    page.locator("#main").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    heading = page.locator("dialog h2")
    heading_before = heading.inner_text().strip()
    unit = heading_before.split()[-1]
    assert unit in all_wrong
    answers = page.locator("dialog .answer" if len(names) == 2 else "dialog .answer-line")
    assert answers.count() == len(names) * units.size
    for run, results in zip(names, units.results[unit], strict=True):
        lines = answers.filter(has_text=run).all_inner_texts()
        assert len(lines) == len(results)
        for line, result in zip(lines, results, strict=True):
            assert result.score.outcome in line
            assert result.answer is None or result.answer.text in line
    page.keyboard.press("ArrowRight")
    until(page, "before => document.querySelector('dialog h2').innerText.trim() !== before", heading_before)
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert page.evaluate("document.activeElement.closest('.list') !== null")
    page.go_back()  # The open answer was an entry of its own.
    assert units_listed(page) == len(all_wrong)
    page.go_back()
    until(page, "document.querySelector('.query-input').value === ''")
    assert units_listed(page) == everything


@pytest.mark.parametrize("name", ["five runs", "blank run"])
def test_every_number_of_flips_is_that_of_the_comparison(tab: Tab, compared_runs: Drawn, name: str) -> None:
    compared = compared_runs(name)
    page = tab.open(compared.page, "#questions")
    said = 0
    for paired in compared.said["comparisons"]:
        for measure in paired["measures"]:
            if not measure["headline"] or measure["slice"] or measure["name"] == "macro_score":
                continue
            both = {"run": paired["new"], "against": paired["baseline"]}
            go(page, b=measure["benchmark"], measure=measure["name"], **both)
            until(page, SHOWN, [paired["new"], paired["baseline"], measure["name"].replace("_", " ")])
            counts = preset(page, "flip:worse"), preset(page, "flip:better")
            # Of a value that is to be low, a loss is better.
            ways = ("gained", "lost") if measure["better"] == "lower" else ("lost", "gained")
            assert counts == tuple(measure[way] for way in ways), (both, measure["name"])
            said += 1
    assert said >= len(compared.said["comparisons"])


SHOWN = """names => {
    const shown = [...document.querySelectorAll(".sum strong")].map(each => each.innerText);
    return shown[1] === names[0] && shown[2] === names[1] && shown[0] === names[2];
}"""
"""Whether two runs and a measure are those that are shown."""


def test_any_two_runs_can_be_chosen_and_the_query_names_runs_by_number(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("five runs")
    units = Units(compared.runs, GMAI)
    page = tab.open(compared.page, f"#questions?b={GMAI}")
    page.get_by_label("New run").select_option("3")
    page.get_by_label("Baseline").select_option("2")
    assert "run=model-d&against=model-c" in page.evaluate("location.hash")

    def right(results: list[Result]) -> bool:
        return {result.score.outcome for result in results} == {"correct"}

    def scored(by_run: list[list[Result]]) -> bool:
        return all(results and results[0].score.outcome in SCORED_OUTCOMES for results in by_run)

    gained = units.holding(lambda by_run: scored(by_run) and right(by_run[3]) and not right(by_run[2]))
    assert preset(page, "flip:better") == len(gained) > 0
    page.get_by_role("button", name="Better", exact=True).click()
    assert {row["unit"] for row in exported(page)} == gained
    asked(page, "run4:correct run3:wrong")
    wrong = units.holding(lambda by_run: scored(by_run) and right(by_run[3]) and by_run[2][0].score.outcome == "wrong")
    assert {row["unit"] for row in exported(page)} == wrong
    asked(page, "right_in>=4")
    assert units_listed(page) == len(units.holding(lambda by_run: scored(by_run) and sum(map(right, by_run)) >= 4))
    asked(page, "modality:ct right_in:0")
    none = units.holding(lambda by_run: scored(by_run) and not any(map(right, by_run)) and "ct" in tags_of(by_run))
    assert units_listed(page) == len(none)
    page.locator(".query-input").fill("model-d")
    option = page.locator(".suggestions li").first
    sync_api.expect(option).to_contain_text("run4:")
    option.click()
    assert page.locator(".query-input").input_value() == "run4:"
    asked(page, "way:neither")
    assert "flip has no value neither. Values: worse, better, same, open." in page.locator(".problems").inner_text()


def tags_of(by_run: list[list[Result]]) -> set[str]:
    return {tag for results in by_run for result in results for tag in result.item.tags.get("modality", ())}


def test_old_links_open_the_flips_of_their_run(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("five runs")
    page = tab.open(compared.page, f"#questions?run=model-c&b={GMAI}&measure=accuracy&q=way%3Aworse")
    until(page, "location.hash.includes('against=model-a')")
    (paired,) = [each for each in compared.said["comparisons"] if each["new"] == "model-c"]
    (measure,) = [m for m in paired["measures"] if not m["slice"] and (m["benchmark"], m["name"]) == (GMAI, "accuracy")]
    assert units_listed(page) == measure["lost"]
    page = tab.open(compared.page, f"#questions?run=model-c&b={GMAI}&measure=accuracy")
    until(page, "document.querySelector('.query-input').value === 'flip:worse,better'")
    assert units_listed(page) == measure["lost"] + measure["gained"]


def test_a_pair_of_questions_shows_both_runs_side_by_side_and_has_a_permalink(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("blank run")
    units = Units(compared.runs, CONFUSION)
    page = tab.open(compared.page, f"#questions?b={CONFUSION}&measure=individual_accuracy&q=flip%3Aworse,better")
    link = page.locator(".list .c-id a").first
    unit = link.inner_text()
    link.click()
    answers = page.locator("dialog .answer")
    results = [result for both in zip(*units.results[unit], strict=True) for result in both]
    assert answers.count() == len(results) == 4
    for i, result in enumerate(results):
        assert result.score.why in answers.nth(i).inner_text()
        assert compared.runs[i % 2].name in answers.nth(i).inner_text()
    left, right = (answers.nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] < right["x"]
    assert page.locator("dialog img").count() == 2
    title = page.locator("dialog h2").inner_text()
    fragment = page.evaluate("location.hash")
    page.goto("about:blank")
    page = tab.open(compared.page, fragment)
    assert page.locator("dialog h2").inner_text() == title
    page = tab.open(compared.page, f"#questions?b={CONFUSION}&item=nothing")
    assert "No pair of this measure has the id nothing" in page.locator("dialog").inner_text()
