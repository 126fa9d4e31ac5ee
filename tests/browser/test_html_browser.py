"""The page in a real browser: what a reader clicks works, and what a run holds can do nothing."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from medvqa import benchmarks, comparing, report
from medvqa.cli import main
from medvqa.data import lexicon
from medvqa.items import Judgement, SelfRanking
from medvqa.report import html
from support import pages

sync_api = pytest.importorskip("playwright.sync_api")

CHROMIUM = Path("/usr/bin/chromium")
BENCH = Path(__file__).parents[2] / "bench" / "page.py"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
AXE = "axe-core@4.14.1"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Chromium is not installed: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield launched
        launched.close()


class Tab:
    """A page that is open, with all that it said and asked for."""

    def __init__(self, browser: sync_api.Browser, **settings: object) -> None:
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.failed: dict[str, str | None] = {}
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("requestfailed", lambda request: self.failed.update({request.url: request.failure}))

    def open(self, file: Path, fragment: str = "") -> sync_api.Page:
        """Open a file and wait for its script."""
        self.page.goto(file.resolve().as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
        return self.page


@pytest.fixture
def tab(browser: sync_api.Browser) -> Iterator[Tab]:
    """A tab; the test fails when its page said something or asked for more than itself and its images."""
    made = Tab(browser, viewport={"width": 1320, "height": 900}, color_scheme="light")
    yield made
    made.context.close()
    assert made.said == []
    assert [url for url in made.asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture(scope="module")
def phantom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of the phantom, with images inside."""
    folder = pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses())
    made = report.build(folder, pages.PHANTOM)
    report.write(made, html.draw(made, lambda benchmark: benchmarks.load(benchmark, Path())))
    return folder / html.FILE


def button(page: sync_api.Page, column: str, name: str) -> sync_api.Locator:
    return page.get_by_role("region", name=column, exact=True).get_by_role("button", name=name)


def test_samples_of_a_question_are_one_question_in_the_tree(tab: Tab, phantom: Path, tmp_path: Path) -> None:
    """The numbers of the tree are those of the run that asked once; answers are counted beside them."""

    def told(page: sync_api.Page) -> list[str]:
        column = page.get_by_role("region", name="modality", exact=True)
        return [page.locator("#score").inner_text(), *column.locator(".n").all_inner_texts()]

    page = tab.open(phantom)
    once, questions = told(page), page.locator(".sum > span").first.inner_text()
    thrice = [replace(result, sample=k) for result in pages.guesses() for k in (1, 2, 3)]
    folder = pages.write(tmp_path / "thrice", thrice, repeat=3)
    report.write(report.build(folder, pages.PHANTOM))
    page = tab.open(folder / html.FILE)
    assert told(page) == once
    number = int(questions.split()[0])
    assert page.locator(".sum > span").first.inner_text() == f"{questions}, {3 * number} answers"


def test_the_tree_counts_scores_and_says_what_to_type(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    measures = json.loads((phantom.parent / "metrics.json").read_text())["measures"]
    told = {
        tuple(m["slice"].items()): m
        for m in measures
        if m["benchmark"] == "phantom-gmai-mmbench" and m["name"] == "accuracy"
    }
    score = page.locator("#score")
    assert score.inner_text() == f"{100 * told[()]['value']:.2f}"
    button(page, "modality", "CT").click()
    wanted = told[("modality", "ct"),]
    assert score.inner_text() == f"{100 * wanted['value']:.2f}"
    assert score.get_attribute("data-n") == f"{wanted['n']:g}"
    button(page, "granularity", "Contour Level").click()
    expression = lexicon.expression({"modality": "ct", "granularity": "contour_level"})
    assert page.locator("#expression").inner_text() == f'-m "{expression}"'
    command = page.locator("#command").inner_text()
    assert command == f'pytest --model=guesser --benchmark=phantom-gmai-mmbench --technique=mc -m "{expression}"'
    items = benchmarks.load(pages.PHANTOM["phantom-gmai-mmbench"], Path())
    expected = [i for i in items if {"ct", "contour_level"} <= {*i.tags["modality"], *i.tags["granularity"]}]
    assert expected
    assert page.locator(".items tbody tr").count() == len(expected)
    # Of the other columns only what is left under the branch stands there.
    departments = page.get_by_role("region", name="department", exact=True).get_by_role("button")
    assert departments.count() == len({value for item in expected for value in item.tags["department"]})
    page.get_by_role("button", name="Clear").click()
    assert page.locator("#expression").count() == 0


def test_one_technique_is_shown_at_a_time(tab: Tab, tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "several", pages.twice())
    made = report.write(report.build(folder, pages.PHANTOM))
    page = tab.open(folder / html.FILE)
    score = page.locator("#score")
    for technique in ("mc", "ps"):
        page.get_by_role("group", name="Technique").get_by_role("button", name=technique).click()
        (part,) = [p for p in made.parts if (p.benchmark.name, p.technique) == ("phantom-gmai-mmbench", technique)]
        assert score.inner_text() == f"{100 * part.headline[0].value:.2f}"
        command = page.locator("#command").inner_text()
        assert command == f"pytest --model=guesser --benchmark=phantom-gmai-mmbench --technique={technique}"
    page.locator(".items tbody tr").first.click()
    fragment = page.evaluate("location.hash")
    page.goto("about:blank")
    page = tab.open(folder / html.FILE, fragment)
    assert "ps" in page.locator("dialog dl").inner_text()
    assert page.locator("dialog article").count() == 1


def test_filters_search_and_paging(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    results = [r for r in pages.guesses() if r.item.benchmark == "phantom-gmai-mmbench"]
    wrong = [r for r in results if r.score.outcome == "wrong"]
    page.locator(".chips").get_by_role("button", name=re.compile("^wrong")).click()
    assert f"of {len(wrong)}" in page.locator(".pager").inner_text()
    page.locator("#search").fill("LYMPHOCYTES")
    found = [r for r in wrong if "lymphocytes" in (r.item.question + " ".join(r.item.options.values())).lower()]
    sync_api.expect(page.locator(".items tbody tr")).to_have_count(len(found))
    page.locator("#search").fill("no such words")
    page.wait_for_selector(".empty")
    page.get_by_role("button", name="Clear").click()
    assert page.locator(".items tbody tr").count() == 50
    page.get_by_role("button", name="Next").click()
    assert page.locator(".pager").inner_text().split("\n")[-2:] != []
    assert "51 to 100 of 143" in page.locator(".pager").inner_text()


def test_an_item_shows_all_that_is_known_of_it(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    page.locator(".items tbody tr").first.click()
    dialog = page.locator("dialog")
    shown = next(
        r for r in sorted(pages.guesses(), key=lambda r: r.item.id) if r.item.benchmark == "phantom-gmai-mmbench"
    )
    text = dialog.inner_text()
    assert shown.item.question in text
    assert shown.score.why in text
    assert shown.answer.text in text
    assert all(option in text for option in shown.item.options.values())
    right = dialog.locator(".options li.right")
    assert right.count() == len(shown.item.answers)
    width, height = dialog.locator("img").evaluate("e => [e.naturalWidth && e.clientWidth, e.clientHeight]")
    assert min(width, height) > 300
    page.keyboard.press("ArrowRight")
    assert dialog.locator("h2").inner_text() != f"phantom-gmai-mmbench · {shown.item.id}"
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert page.evaluate("document.activeElement.closest('.items') !== null")


def test_a_pair_stands_side_by_side(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    page.get_by_role("group", name="Benchmark").get_by_role("button", name="phantom-mediconfusion").click()
    page.locator(".items tbody tr").first.click()
    sides = page.locator("dialog article")
    assert sides.count() == 2
    left, right = (sides.nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] < right["x"]
    assert page.locator("dialog img").count() == 2


def test_a_permalink_leads_back(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    button(page, "modality", "X-ray").click()
    page.locator(".chips").get_by_role("button", name=re.compile("^correct")).click()
    page.locator(".items tbody tr").nth(1).click()
    question = page.locator("dialog .question").inner_text()
    fragment = page.evaluate("location.hash")
    page.goto("about:blank")
    page = tab.open(phantom, fragment)
    assert page.locator("dialog .question").inner_text() == question
    page.locator("#close").click()
    assert page.locator(".column [aria-pressed=true]").inner_text().startswith("X-ray")
    assert page.locator(".chips [aria-pressed=true]").inner_text().startswith("correct")
    # A row of a table and a field of the heat map lead to their items.
    page.locator(".heat td a").first.click()
    assert page.locator(".column [aria-pressed=true]").count() == 2


def test_tables_sort(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    table = page.locator("table.sortable").first

    def column(n: int) -> list[str]:
        return table.locator(f"tbody tr > *:nth-child({n})").all_inner_texts()

    names = column(1)
    table.locator("thead th").first.get_by_role("button").click()
    assert column(1) == sorted(names, key=str.lower)
    table.locator("thead th").nth(1).get_by_role("button").click()
    values = [float(each.get_attribute("value")) for each in table.locator("tbody td:nth-child(2) data").all()]
    assert values == sorted(values, reverse=True)
    assert table.locator("thead th").nth(1).get_attribute("aria-sort") == "descending"


def test_dark_and_light(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.locator("#theme").click()
    dark = page.evaluate(background)
    assert light != dark
    page.locator("#theme").click()
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(background) == light, "what was chosen by hand stays"


def exported(page: sync_api.Page, button: str = "#csv") -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.locator(button).click()
    text = Path(download.value.path()).read_text("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_what_is_filtered_is_exported(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom, "#b=phantom-gmai-mmbench&t.modality=ct")
    rows = exported(page)
    items = {
        i.id: i for i in benchmarks.load(pages.PHANTOM["phantom-gmai-mmbench"], Path()) if "ct" in i.tags["modality"]
    }
    assert {row["id"] for row in rows} == items.keys()
    assert all(row["question"] == items[row["id"]].question for row in rows)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    benchmark, results = pages.hostile()
    about = {"model": {"name": pages.HOSTILE[1], "revision": pages.HOSTILE[3]}}
    folder = pages.write(tmp_path_factory.mktemp("strange") / "run", pages.harmless(results), **about)
    (folder / html.FILE).write_bytes(html.render(report.build(folder, {"strange": benchmark})))
    return folder / html.FILE


def test_a_hostile_run_fires_nothing_and_asks_for_nothing(tab: Tab, strange: Path) -> None:
    page = tab.open(strange)
    assert page.locator(".items tbody tr").count() == len(pages.HOSTILE)
    for column in page.locator(".column").all():
        column.get_by_role("button").last.click()
        page.get_by_role("button", name="Clear").click()
    for row in range(len(pages.HOSTILE)):
        page.locator(".items tbody tr").nth(row).click()
        page.locator("dialog li, dialog dd, dialog .question").last.hover()
        page.keyboard.press("Escape")
    assert page.evaluate("window.pwned") is None
    assert page.locator("#app a:not([href^='#']), #app script, #app iframe, #app object, #app [onerror]").count() == 0
    named = "[...document.querySelectorAll('[title], [alt], [aria-label]')].map(e => e.title + e.alt + e.ariaLabel)"
    told = [page.evaluate("document.body.innerText"), *page.evaluate(named)]
    assert "\u202e" not in "".join(told)
    assert tab.asked == [strange.resolve().as_uri()]
    for row in exported(page):
        assert not [cell for cell in row.values() if cell.lstrip("\x00\x1b \t").startswith(("=", "+", "-", "@"))]


def test_the_policy_lets_nothing_else_run_or_load(browser: sync_api.Browser, phantom: Path) -> None:
    tab = Tab(browser)
    page = tab.open(phantom)
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.pwned = 1";
        document.body.append(script);
        const image = document.createElement("img");
        image.src = "https://example.org/x.png";
        document.body.append(image);
        document.body.setAttribute("onclick", "window.pwned = 2");
        document.body.click();
    }""")
    assert page.evaluate("fetch('https://example.org').then(() => 'fetched', () => 'refused')") == "refused"
    assert page.evaluate("window.pwned") is None
    assert len([line for line in tab.said if "Content Security Policy" in line]) >= 4
    assert tab.failed == {"https://example.org/x.png": "csp"}
    assert [url for url in tab.asked if url.startswith("http")] == [*tab.failed]
    tab.context.close()


def test_images_beside_the_page_are_shown_from_a_file(tab: Tab, phantom: Path, tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "folder", pages.guesses())
    made = report.build(folder, pages.PHANTOM)
    report.write(made, html.draw(made, lambda benchmark: benchmarks.load(benchmark, Path()), "folder"))
    page = tab.open(folder / html.FILE)
    page.locator(".items tbody tr").first.click()
    image = page.locator("dialog img")
    assert image.evaluate("async e => { await e.decode(); return e.naturalWidth; }") > 0
    assert any("/images/" in url for url in tab.asked)


def test_the_lexical_tree_alone_works_without_a_run(tab: Tab, tmp_path: Path) -> None:
    parts = [(benchmark, benchmarks.load(benchmark, Path())) for benchmark in pages.PHANTOM.values()]
    (tmp_path / "tree.html").write_bytes(html.lexicon_page(parts))
    page = tab.open(tmp_path / "tree.html")
    button(page, "task", "Counting").click()
    assert "pytest --model=MODEL" in page.locator("#command").inner_text()
    page.locator(".items tbody tr").first.click()
    assert page.locator("dialog .question").inner_text()
    assert page.locator("dialog").get_by_text("Response").count() == 0


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 26,000 items; beside it another, and the page that compares them."""
    folder = tmp_path_factory.mktemp("large") / "large"
    subprocess.run([sys.executable, str(BENCH), "--no-browser", f"--keep={folder}"], check=True)
    return folder


def test_a_page_of_26000_items_is_small_and_can_be_used(tab: Tab, large: Path) -> None:
    file = large / html.FILE
    assert file.stat().st_size < 15e6
    page = tab.open(file)
    assert "26,000" in page.locator(".branch").inner_text()
    button(page, "department", "Dermatology").click()
    page.locator(".chips").get_by_role("button", name=re.compile("^wrong")).click()
    page.locator(".items tbody tr").first.click()
    assert len(page.locator("dialog .response").inner_text()) >= 90


# ---- several runs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def versus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that compares three runs of the phantom."""
    reports = tmp_path_factory.mktemp("several")
    assert main(["report", *map(str, pages.several_runs(reports)), "-o", str(reports / "all.html")]) == 0
    return reports / "all.html"


@pytest.fixture(scope="module")
def compared(versus: Path) -> dict[str, comparing.Paired]:
    sides = [comparing.load(versus.parent / name) for name in ("first", "second", "third")]
    return {new.name: comparing.compare(new, sides[0], pages.PHANTOM) for new in sides[1:]}


def choose(page: sync_api.Page, group: str, name: str) -> None:
    page.get_by_role("group", name=group, exact=True).get_by_role("button", name=name, exact=True).click()


def total(page: sync_api.Page) -> int:
    return int(page.locator(".pager").inner_text().split(" of ")[1].split()[0].replace(",", ""))


def test_flips_are_chosen_filtered_and_searched(tab: Tab, versus: Path, compared: dict[str, comparing.Paired]) -> None:
    page = tab.open(versus)
    for run, paired in compared.items():
        choose(page, "Comparison", f"{run} against first")
        for benchmark, metric in (("phantom-mediconfusion", "set_accuracy"), ("phantom-gmai-mmbench", "accuracy")):
            choose(page, "Benchmark", benchmark)
            choose(page, "Measure", metric.replace("_", " "))
            flips = [f for f in paired.flips if (f.benchmark, f.metric) == (benchmark, metric)]
            assert total(page) == len(flips)
            page.get_by_role("group", name="Better or worse").get_by_role("button", name="worse").click()
            assert total(page) == sum(not flip.better for flip in flips)
            page.get_by_role("button", name="Clear", exact=True).click()
    ct = [flip for flip in flips if "ct" in flip.new[0].item.tags["modality"]]
    button(page, "modality", "CT").click()
    assert total(page) == len(ct)
    page.locator("#search").fill(ct[0].new[0].item.id)
    sync_api.expect(page.locator(".items a", has_text=re.compile(f"^{re.escape(ct[0].unit)}$"))).to_have_count(1)
    page.locator("#search").fill("no such words")
    page.wait_for_selector(".empty")


def test_a_flip_shows_both_responses_and_has_a_permalink(
    tab: Tab, versus: Path, compared: dict[str, comparing.Paired]
) -> None:
    page = tab.open(versus)
    choose(page, "Comparison", "third against first")
    choose(page, "Benchmark", "phantom-mediconfusion")
    choose(page, "Measure", "individual accuracy")
    first = page.locator(".items tbody tr").first
    unit = first.locator("a").inner_text()
    first.click()
    flip = next(f for f in compared["third"].flips if (f.metric, f.unit) == ("individual_accuracy", unit))
    sides = page.locator("dialog .side")
    assert sides.count() == 2 * len(flip.new) == 4
    for i, result in enumerate(each for both in zip(flip.baseline, flip.new, strict=True) for each in both):
        assert result.answer.text in sides.nth(i).locator(".response").inner_text()
        assert result.score.why in sides.nth(i).inner_text()
    left, right = (sides.nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] < right["x"]
    assert page.locator("dialog img").count() == 2
    title = page.locator("dialog h2").inner_text()
    fragment = page.evaluate("location.hash")
    page.goto("about:blank")
    page = tab.open(versus, fragment)
    assert page.locator("dialog h2").inner_text() == title
    page.keyboard.press("ArrowRight")
    assert page.locator("dialog h2").inner_text() != title
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert (
        page.get_by_role("group", name="Measure").locator("[aria-pressed=true]").inner_text() == "individual accuracy"
    )
    assert page.evaluate("document.activeElement.closest('.items') !== null")


def test_slices_of_a_comparison_sort(tab: Tab, versus: Path) -> None:
    page = tab.open(versus)
    table = page.locator("#comparison-1 details.slices table.sortable").first
    differences = table.locator("tbody td:nth-child(4) data")

    def values() -> list[float]:
        return [float(each.get_attribute("value")) for each in differences.all()]

    head = table.locator("thead th").nth(3)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    head.get_by_role("button").click()
    assert values() == sorted(values())
    table.locator("thead th").first.get_by_role("button").click()
    names = table.locator("tbody th").all_inner_texts()
    assert names == sorted(names, key=str.lower)


def test_measures_and_flips_are_exported(tab: Tab, versus: Path, compared: dict[str, comparing.Paired]) -> None:
    page = tab.open(versus)
    rows = exported(page, "#measures-csv")
    assert len(rows) == sum(len(paired.tables) for paired in compared.values())
    ranking = exported(page, "#ranking-csv")
    assert {row["run"] for row in ranking} == {"first", *compared}
    choose(page, "Comparison", "third against first")
    choose(page, "Benchmark", "phantom-medlesionvqa")
    rows = exported(page)
    flips = [f for f in compared["third"].flips if (f.benchmark, f.metric) == ("phantom-medlesionvqa", "mean_score")]
    assert {row["unit"]: row["way"] for row in rows} == {f.unit: "better" if f.better else "worse" for f in flips}
    assert {row["unit"]: row["response of new"] for row in rows} == {
        f.unit: re.sub("^(?=[=+@-])", "'", f.new[0].answer.text) for f in flips
    }


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    (folder / "1" / html.FILE).write_bytes(html.render(report.build(folder / "1", {"strange": benchmark})))
    return folder


@pytest.mark.parametrize("name", ["page.html", f"1/{html.FILE}"])
def test_thoughts_and_candidates_are_folded_and_harmless(tab: Tab, strangers: Path, name: str) -> None:
    page = tab.open(strangers / name)
    page.locator(".items tbody tr").first.click()
    folded = page.locator("dialog details.folded")
    sides = ["Whole reply", "Earlier replies", "Hidden thoughts", "Answers to select from (selected: 1)"]
    shown = [text.strip() for text in folded.locator("summary").all_inner_texts()]
    assert shown[:5] == [*sides, "Selecting reply"]
    thoughts = folded.nth(2).locator(".response")
    assert not thoughts.is_visible()
    folded.nth(2).locator("summary").click()
    assert thoughts.inner_text() == pages.HOSTILE[0]
    assert folded.nth(3).locator(".response").count() == len(pages.HOSTILE)
    assert page.evaluate("window.pwned") is None


def test_hostile_runs_fire_nothing_and_ask_for_nothing(tab: Tab, strangers: Path) -> None:
    file = strangers / "page.html"
    page = tab.open(file)
    units = (len(pages.HOSTILE) + 1) // 2  # pairs, and one question that is left over
    assert page.locator(".items tbody tr").count() == units
    for row in range(units):
        page.locator(".items tbody tr").nth(row).click()
        page.locator("dialog li, dialog dd, dialog .question").last.hover()
        page.keyboard.press("Escape")
    assert page.evaluate("window.pwned") is None
    assert page.locator("#app a:not([href^='#']), #app script, #app iframe, #app object, #app [onerror]").count() == 0
    assert "\u202e" not in page.evaluate("document.body.innerText")
    assert tab.asked == [file.resolve().as_uri()]
    for row in exported(page):
        assert not [cell for cell in row.values() if cell.lstrip("\x00\x1b \t").startswith(("=", "+", "-", "@"))]
    for row in exported(page, "#measures-csv"):
        for cell in row.values():
            with suppress(ValueError):
                # A number, which a spreadsheet only reads.
                float(cell)
                continue
            assert not cell.startswith(("=", "+", "-", "@"))


def test_what_a_hostile_judge_says_fires_nothing(tab: Tab, strangers: Path) -> None:
    page = tab.open(strangers / "1" / html.FILE)
    for row in range(len(pages.HOSTILE)):
        page.locator(".items tbody tr").nth(row).click()
        said = page.locator("dialog .judged").first
        assert said.locator(".response").count() == len(pages.HOSTILE)
        assert pages.HOSTILE[0] in said.inner_text()
        page.keyboard.press("Escape")
    assert page.evaluate("window.pwned") is None


def test_an_item_tells_what_a_judge_said(tab: Tab, tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "judged", pages.judged())
    made = report.write(report.build(folder, pages.PHANTOM))
    page = tab.open(folder / html.FILE, "#b=phantom-medlesionvqa")
    places = {r.item.id for part in made.parts for r in part.results if r.judgement}
    page.locator(".items tbody tr", has=page.locator(".mark")).first.click()
    dialog = page.locator("dialog")
    assert dialog.locator("h2").inner_text().split(" · ")[1] in places
    assert dialog.locator("header .mark").inner_text() == "scored by judge referee"
    judged = dialog.locator(".judged")
    assert "It names the finding." in judged.inner_text()
    assert "1.25 s" in judged.inner_text()
    assert "310 tokens input" in judged.inner_text()


def test_the_score_of_a_slice_has_its_interval_and_that_of_other_branches_none(tab: Tab, phantom: Path) -> None:
    page = tab.open(phantom)
    measures = json.loads((phantom.parent / "metrics.json").read_text())["measures"]
    told = {
        tuple(m["slice"].items()): m
        for m in measures
        if (m["benchmark"], m["name"]) == ("phantom-gmai-mmbench", "accuracy")
    }
    shown = page.locator("#interval")
    for slice, choice in (((), None), ((("modality", "ct"),), "CT")):
        if choice:
            button(page, "modality", choice).click()
        low, high = told[slice]["low"], told[slice]["high"]
        assert shown.inner_text() == f"95 % interval {100 * low:.2f}–{100 * high:.2f}"
    button(page, "granularity", "Contour Level").click()
    assert shown.count() == 0
    button(page, "granularity", "Contour Level").click()
    page.locator("#search").fill("liver")
    shown.wait_for(state="detached")


def test_a_comparison_of_26000_items_is_small_and_can_be_used(tab: Tab, large: Path) -> None:
    file = large.with_suffix(".html")
    assert file.stat().st_size < 15e6
    page = tab.open(file)
    before = total(page)
    assert before > 10_000
    button(page, "department", "Dermatology").click()
    assert 0 < total(page) < before
    page.get_by_role("group", name="Better or worse").get_by_role("button", name="worse").click()
    page.locator(".items tbody tr").first.click()
    responses = page.locator("dialog .response")
    assert responses.count() == 2
    assert min(map(len, responses.all_inner_texts())) >= 90
    assert responses.nth(0).inner_text() != responses.nth(1).inner_text()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("npm") is None:
        pytest.skip("npm, which fetches axe-core, is not installed")
    folder = tmp_path_factory.mktemp("axe")
    subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, check=True, capture_output=True)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = report.write(report.build(pages.gated(tmp_path_factory.mktemp("gated")), pages.PHANTOM))
    return made.folder / html.FILE


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = pages.write(tmp_path_factory.mktemp("judged") / "run", pages.judged())
    return report.write(report.build(folder, pages.PHANTOM)).folder / html.FILE


STATES = {
    "page": ("phantom", ""),
    "item": ("phantom", ""),
    "pair": ("phantom", "#b=phantom-mediconfusion"),
    "judged": ("judged", "#b=phantom-medlesionvqa"),
    "gate": ("gated", ""),
    "comparison": ("versus", ""),
    "flip": ("versus", "#b=phantom-mediconfusion"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_accessibility(
    browser: sync_api.Browser, request: pytest.FixtureRequest, axe: str, scheme: str, state: str
) -> None:
    name, fragment = STATES[state]
    tab = Tab(browser, color_scheme=scheme, viewport={"width": 1320, "height": 900})
    page = tab.open(request.getfixturevalue(name), fragment)
    page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
    if state in ("item", "pair", "flip"):
        page.locator(".items tbody tr").first.click()
    if state == "judged":
        page.locator(".items tbody tr", has=page.locator(".mark")).first.click()
    page.evaluate(axe)
    found = page.evaluate(
        "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.length, v.nodes[0].html, v.nodes[0].failureSummary]))"
    )
    tab.context.close()
    assert found == []


A4 = 186 * 96 / 25.4
"""CSS pixels between the margins of a printed page of 210 mm."""


@pytest.mark.parametrize("name", ["phantom", "gated", "judged", "versus"])
def test_nothing_of_a_printed_page_is_cut_off(
    browser: sync_api.Browser, request: pytest.FixtureRequest, name: str
) -> None:
    tab = Tab(browser, viewport={"width": int(A4), "height": 1000})
    page = tab.open(request.getfixturevalue(name))
    page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
    page.emulate_media(media="print")
    beyond = page.evaluate(
        """width => [...document.querySelectorAll("th, td, h2, h3, h4, p, li, svg")]
            .filter(each => each.checkVisibility())
            .map(each => [each.textContent.trim().slice(0, 40), Math.round(each.getBoundingClientRect().right)])
            .filter(([text, right]) => right > width + 1)""",
        A4,
    )
    printed = page.pdf(format="A4", print_background=True, prefer_css_page_size=True)
    tab.context.close()
    assert printed.startswith(b"%PDF")
    assert beyond == []
