"""The shell of the page: every view in light, dark, on a phone and on paper, by keyboard, with a clean console.

A new view joins by a line in VIEWS.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, report
from medvqa.report import html
from medvqa.report.bundle.page_blocks import PageSection, TextBlock
from support import pages, sectioned
from support.tabs import Tab, text_of, until

GMAI = "phantom-gmai-mmbench"
ROOT = Path(__file__).parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
A4 = 186 * 96 / 25.4
"""CSS pixels between the margins of a printed page of 210 mm."""
WIDE, PHONE = {"width": 1320, "height": 900}, {"width": 390, "height": 844}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Shown:
    """A view: the fixture of its file, the fragment of its address, and what to do there before it is looked at.

    `within`: the part that axe looks at, where another view has looked at the rest.
    """

    file: str
    fragment: str
    before: Callable[[Any], None] = lambda page: None
    within: str = "html"


def unfold(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")


def keys(page: Any) -> None:
    page.get_by_role("button", name="Keys").click()
    page.wait_for_selector("#help")


def first_item(page: Any) -> None:
    page.locator("[data-place]").first.click()
    page.wait_for_selector("dialog#item section.review")


def first_flip(page: Any) -> None:
    page.locator("[data-place]").first.click()
    page.wait_for_selector("dialog[open] :is(.response, .answer-line)")


VIEWS = {
    "blocks": Shown("blocks", "#summary", unfold),
    "summary": Shown("phantom", "#summary", unfold, "main"),
    "gate": Shown("gated", "#gate", within="main"),
    "questions": Shown("phantom", "#questions"),
    "images": Shown("phantom", "#questions?layout=images"),
    "pairs": Shown("phantom", "#questions?b=phantom-mediconfusion&layout=pairs"),
    "item": Shown("phantom", "#questions", first_item, "#item"),
    "pair": Shown("phantom", "#questions?b=phantom-mediconfusion", first_item, "#item"),
    "review": Shown("phantom", "#review"),
    "comparison": Shown("committee", "#summary", within="main"),
    "flips": Shown("versus", "#questions"),
    "ten runs": Shown("ten", "#questions", within="main"),
    "flip": Shown("versus", "#questions?b=phantom-mediconfusion", first_flip, "dialog"),
    "tree": Shown("tree", "#questions"),
    "keys": Shown("phantom", "#review", keys, "#help"),
}


@pytest.fixture(scope="session")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with a gate."""
    made = report.write(report.build(pages.gated(tmp_path_factory.mktemp("gated")), pages.PHANTOM))
    return made.folder / html.FILE


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a lexical tree, without a run."""
    file = tmp_path_factory.mktemp("tree") / "lexicon.html"
    benchmark = pages.PHANTOM["phantom-gmai-mmbench"]
    file.write_bytes(html.lexicon_page([(benchmark, benchmarks.load(benchmark, Path()))]))
    return file


@pytest.fixture
def opened(request: pytest.FixtureRequest, tab: Tab) -> Callable[[str], Any]:
    def open_view(name: str) -> Any:
        view = VIEWS[name]
        page = tab.open(request.getfixturevalue(view.file), view.fragment)
        view.before(page)
        return page

    return open_view


BEYOND = """width => {
    const scrolls = each => {
        for (let at = each; at !== null; at = at.parentElement)
            if (/auto|scroll|hidden/.test(getComputedStyle(at).overflowX) && at.clientWidth > 1) return true;
        return false;
    };
    return [...document.querySelectorAll("th, td, h1, h2, h3, h4, p, li, dt, dd, button, label, svg, data, summary")]
        .filter(each => each.checkVisibility() && !scrolls(each.parentElement))
        .map(each => [each.tagName, each.textContent.trim().slice(0, 40), each.getBoundingClientRect().right])
        .filter(([, , right]) => right > width + 1);
}"""
"""Elements that reach beyond the right edge and are in no region that scrolls by itself."""

CUT = """() => [...document.querySelectorAll("data, .number, td.right, .big")]
    .filter(each => each.checkVisibility() && each.closest(".sr") === null && each.querySelector(".sr") === null)
    .filter(each => {
        for (let at = each; at !== null && at !== document.body; at = at.parentElement) {
            const style = getComputedStyle(at);
            if (style.overflowX === "hidden" && at.scrollWidth > at.clientWidth + 1) return true;
            if (/auto|scroll/.test(style.overflowX)) return false;
        }
        return false;
    })
    .map(each => each.textContent.trim().slice(0, 40))"""
"""Numbers whose digits are cut off."""


ALIKE = """() => {
    const seen = new Map();
    for (const row of document.querySelectorAll("tbody > tr")) {
        const classes = [row.closest("table"), row, ...row.cells].map(each => each.className);
        const kind = classes.join();
        seen.set(kind, (seen.get(kind) ?? 0) + 1);
        if (seen.get(kind) > 2) row.remove();
    }
}"""
"""Remove all rows of tables but two of each kind: they are drawn alike, and axe takes seconds for hundreds."""

LOOK = """([within, rules]) => axe.run(within, {
    rules: {"target-size": {enabled: true}},
    ...(rules.length > 0 ? {runOnly: {type: "rule", values: rules}} : {}),
}).then(found => found.violations.map(rule => [
    rule.id, rule.nodes.length, rule.nodes[0].html.slice(0, 300), rule.nodes[0].failureSummary.slice(0, 400)]))"""


def broken_rules(page: Any, within: str, *rules: str) -> list[Any]:
    """What axe finds, by all rules or these, with the one about the size of targets, which is off by default."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in web/")
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found: list[Any] = page.evaluate(LOOK, [within, rules])
    return found


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_can_be_used_in_light_and_dark_on_wide_screens_and_phones(
    opened: Callable[[str], Any], name: str
) -> None:
    page = opened(name)
    within = VIEWS[name].within
    wrong = {}
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        width = page.evaluate("innerWidth")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width, "the page scrolls sideways"
        assert page.evaluate(BEYOND, width) == []
        assert page.evaluate(CUT) == []
    page.evaluate(ALIKE)
    # All rules for each size and each scheme; in the other combinations, those that depend on both.
    for scheme, size, rules in (
        ("dark", PHONE, ()),
        ("light", PHONE, ("color-contrast", "target-size")),
        ("light", WIDE, ()),
        ("dark", WIDE, ("color-contrast",)),
    ):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        if found := broken_rules(page, within, *rules):
            wrong[f"{scheme}, {size['width']} pixels"] = found
    assert wrong == {}
    titles = page.locator("h1").evaluate_all("all => all.filter(each => each.checkVisibility()).length")
    assert titles == 1
    headings = page.locator("main h1, main h2, main h3, main h4")
    levels = headings.evaluate_all(
        "all => all.filter(each => each.checkVisibility()).map(each => Number(each.tagName[1]))"
    )
    assert levels[:1] in ([1], [])
    assert all(after - before <= 1 for before, after in pairwise(levels)), "a heading is left out"


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("keys", "item", "pair")])
def test_nothing_of_a_printed_view_is_cut_off(opened: Callable[[str], Any], name: str) -> None:
    page = opened(name)
    page.set_viewport_size({"width": int(A4), "height": 1000})
    page.emulate_media(media="print")
    beyond = page.evaluate(BEYOND.replace("auto|scroll|hidden", "none"), A4)
    assert beyond == []


def test_a_printed_run_has_its_summary_and_a_bounded_list_of_questions(tab: Tab, blocks: Path, tmp_path: Path) -> None:
    page = tab.open(blocks)
    folds = page.locator("main details")
    open_before = folds.evaluate_all("all => all.map(each => each.open)")
    printed = text_of(page.pdf(format="A4", print_background=True, prefer_css_page_size=True), tmp_path)
    text = "\n".join(printed)
    sections = page.locator(".summary > section:not(.screen) h2").all_inner_texts()
    assert sections
    lines = [line.strip() for line in text.splitlines()]
    places = [lines.index(name) for name in [*sections, "Questions"]]
    assert places == sorted(places), "sections are printed in the order of the page"
    assert "Differences" not in lines, "a section for screens alone is left out"
    assert "Notice 8." in text, "what limits the numbers is unfolded"
    assert "setting 11" in text, "a folded section is unfolded"
    assert "judge-a" not in text, "a folded block stays out"
    for control in ("Summary", "CSV", "Copy", "macro_accuracy", "Show 10 more rows", "Skip to content"):
        assert control not in text
    results = pages.guesses()
    assert f"60 answers of {len(results)}, those that are not correct first." in " ".join(text.split())
    assert f"{len(results) - 60} are left out" in " ".join(text.split())
    listed = [int(line.split(",")[0]) for line in lines[places[-1] :] if re.match(r"\d+, mc", line)]
    wrong = [int(r.item.id) for r in results if r.item.benchmark == GMAI and r.score.outcome != "correct"]
    assert listed == sorted(wrong)[: len(listed)], "ids are sorted as numbers"
    assert len(listed) == 60
    assert folds.evaluate_all("all => all.map(each => each.open)") == open_before
    assert page.locator("#printed-title").count() == 0, "the list is on paper only"


def test_paper_repeats_the_headings_of_tables_and_leaves_none_alone(tab: Tab, tmp_path: Path) -> None:
    """Wherever a page ends: the tables of the sample are moved down by another number of lines."""
    for before in range(0, 40, 8):
        drawn = sectioned.sections()
        lines = PageSection("before", "Before", [TextBlock("", tuple("One line." for _ in range(before)))])
        page = tab.open(sectioned.write(tmp_path / f"run{before}", [lines, *drawn]))
        printed = text_of(page.pdf(format="A4", prefer_css_page_size=True), tmp_path)
        titles = {"Slices", "accuracy by slice", "modality", "task", "Outcomes", "Calibration", "Latency", "Commands"}
        titles |= {
            "Where it fails",
            "Accuracy by modality and task",
            "A wide matrix",
            "Drawings",
            "Settings",
            "Questions",
        }
        for sheet in printed:
            last = [line.strip() for line in sheet.splitlines() if line.strip()][-1]
            assert last not in titles, f"{last} stands alone at the end of a page"
        for sheet, after in pairwise(printed):
            rows = [line for line in after.splitlines() if line.strip()]
            if any(re.match(r"\s*\d+, mc", line) for line in (sheet.splitlines()[-1:] + rows[1:2])):
                assert rows[0].split()[:2] == ["question", "text"]


def test_a_report_of_many_questions_is_at_most_eight_pages(tab: Tab, phantom: Path, tmp_path: Path) -> None:
    page = tab.open(phantom)
    assert 1 < len(text_of(page.pdf(format="A4", print_background=True, prefer_css_page_size=True), tmp_path)) <= 8


def test_a_committee_gets_one_to_three_pages(tab: Tab, committee: Path, tmp_path: Path) -> None:
    page = tab.open(committee)
    sections = page.locator(".summary > section:not(.screen) h2").all_inner_texts()
    printed = text_of(page.pdf(format="A4", print_background=True, prefer_css_page_size=True), tmp_path)
    assert 1 <= len(printed) <= 3
    lines = [line.strip() for sheet in printed for line in sheet.splitlines()]
    assert {*sections} <= {*lines}
    assert page.locator("main img").count() == 0


def test_the_keyboard_leads_everywhere(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("?")
    page.wait_for_selector("#help[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#help", state="detached")
    page.keyboard.press("/")
    page.wait_for_selector("[data-query]:focus")
    assert page.evaluate("location.hash").startswith("#questions")
    page.keyboard.type("j?/k")
    assert page.locator("[data-query]").input_value() == "j?/k", "keys are letters while somebody types"
    assert page.locator("dialog").count() == 0
    page.locator("[data-query]").fill("")
    page.wait_for_selector("[data-place='1']")
    page.locator("#main").focus()
    for key, place in (("j", "0"), ("j", "1"), ("k", "0"), ("ArrowDown", "1")):
        page.keyboard.press(key)
        page.wait_for_selector(f"[data-place='{place}']:focus")
    page.keyboard.press("Enter")
    title = page.locator("#item h2")
    title.wait_for()
    opened_first = title.inner_text()
    page.keyboard.press("j")
    until(page, "was => document.querySelector('#item h2').textContent !== was", opened_first)
    page.keyboard.press("k")
    until(page, "was => document.querySelector('#item h2').textContent === was", opened_first)
    page.keyboard.press("Escape")
    page.wait_for_selector("[data-place='1']:focus")


def test_the_theme_is_remembered(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate(background)
    assert light != dark
    page = tab.open(phantom, "#review")
    assert page.evaluate(background) == dark
    page.get_by_label("Theme").select_option("light")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(background) == light, "a choice counts more than the system's theme"
    page.get_by_label("Theme").select_option("system")
    assert page.evaluate(background) == dark


def test_a_printed_selection_says_how_it_was_made_and_what_is_left_out(tab: Tab, phantom: Path, tmp_path: Path) -> None:
    page = tab.open(phantom, "#questions?q=outcome%3Acorrect")
    text = " ".join("\n".join(text_of(page.pdf(format="A4"), tmp_path)).split())
    correct = [
        result
        for result in pages.guesses()
        if result.item.benchmark == "phantom-gmai-mmbench" and result.score.outcome == "correct"
    ]
    assert f"Selected by outcome:correct {min(60, len(correct))} answers of {len(correct)}" in text
    assert "wrong" not in text
    page.locator("[data-place]").first.click()
    page.wait_for_selector("dialog#item section.review")
    text = "\n".join(text_of(page.pdf(format="A4"), tmp_path))
    assert "Your review" in text
    assert "Selected by" not in text, "an open question is printed alone"
