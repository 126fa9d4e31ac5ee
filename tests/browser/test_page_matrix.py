"""The questions of a comparison by run in Chromium: its counts are those of results.jsonl and of `medvqa compare`."""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from medvqa import comparing
from medvqa.items import SCORED_OUTCOMES, Result
from support import pages
from support.tabs import Tab, until

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

GMAI, CONFUSION = "phantom-gmai-mmbench", "phantom-mediconfusion"
Drawn = Callable[[str], pages.ComparedRuns]


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


def ask(page: Any, query: str) -> None:
    page.locator(".query-input").fill(query)
    page.locator(".query-input").press("Enter")


def listed(page: Any) -> int:
    return int(page.locator("#units-count").get_attribute("data-units"))


def preset(page: Any, term: str) -> int:
    return int(page.locator(f"[data-preset='{term}']").get_attribute("value"))


def go(page: Any, **fields: str) -> None:
    """Open the questions with these fields in the address, as a link does."""
    page.evaluate(
        "hash => { location.hash = hash }", "#questions?" + "&".join(f"{k}={quote(v)}" for k, v in fields.items())
    )


def exported(page: Any) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.locator("#csv").click()
    text = Path(download.value.path()).read_text("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize(
    ("name", "benchmark"),
    [("two runs", GMAI), ("five runs", GMAI), ("ten runs", CONFUSION), ("blank run", CONFUSION)],
)
def test_a_comparison_is_walked_from_all_wrong_to_one_answer_and_back(
    tab: Tab, compared_runs: Drawn, name: str, benchmark: str
) -> None:
    compared = compared_runs(name)
    units = Units(compared.runs, benchmark)
    names = [run.name for run in compared.runs]
    page = tab.open(compared.page, f"#questions?b={benchmark}")
    everything = listed(page)
    all_wrong = units.holding(lambda by_run: all(map(units.wrong, by_run)))
    assert preset(page, f"wrong_in:{len(names)}") == len(all_wrong) > 0
    same = units.holding(same_wrong_option)
    assert preset(page, "agree:wrong") == len(same)

    page.get_by_role("button", name="All wrong").click()
    assert listed(page) == len(all_wrong)
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
    assert listed(page) == len(all_wrong)
    page.go_back()
    until(page, "document.querySelector('.query-input').value === ''")
    assert listed(page) == everything


@pytest.mark.parametrize("name", ["two runs", "five runs", "ten runs", "blank run"])
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
    ask(page, "run4:correct run3:wrong")
    wrong = units.holding(lambda by_run: scored(by_run) and right(by_run[3]) and by_run[2][0].score.outcome == "wrong")
    assert {row["unit"] for row in exported(page)} == wrong
    ask(page, "right_in>=4")
    assert listed(page) == len(units.holding(lambda by_run: scored(by_run) and sum(map(right, by_run)) >= 4))
    ask(page, "modality:ct right_in:0")
    none = units.holding(lambda by_run: scored(by_run) and not any(map(right, by_run)) and "ct" in tags_of(by_run))
    assert listed(page) == len(none)
    page.locator(".query-input").fill("model-d")
    option = page.locator(".suggestions li").first
    sync_api.expect(option).to_contain_text("run4:")
    option.click()
    assert page.locator(".query-input").input_value() == "run4:"
    ask(page, "way:neither")
    assert "flip has no value neither. Values: worse, better, same, open." in page.locator(".problems").inner_text()


def tags_of(by_run: list[list[Result]]) -> set[str]:
    return {tag for results in by_run for result in results for tag in result.item.tags.get("modality", ())}


def test_old_links_open_the_flips_of_their_run(tab: Tab, compared_runs: Drawn) -> None:
    compared = compared_runs("five runs")
    page = tab.open(compared.page, f"#questions?run=model-c&b={GMAI}&measure=accuracy&q=way%3Aworse")
    until(page, "location.hash.includes('against=model-a')")
    (paired,) = [each for each in compared.said["comparisons"] if each["new"] == "model-c"]
    (measure,) = [m for m in paired["measures"] if not m["slice"] and (m["benchmark"], m["name"]) == (GMAI, "accuracy")]
    assert listed(page) == measure["lost"]
    page = tab.open(compared.page, f"#questions?run=model-c&b={GMAI}&measure=accuracy")
    until(page, "document.querySelector('.query-input').value === 'flip:worse,better'")
    assert listed(page) == measure["lost"] + measure["gained"]


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
