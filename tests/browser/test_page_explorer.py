"""The explorer in a real browser: filters count what metrics.json says, and hostile text stays text."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from medvqa import benchmarks, report
from medvqa.report import html
from medvqa.tags import lexicon
from support import pages
from support.tabs import Tab

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

GMAI, CONFUSION = "phantom-gmai-mmbench", "phantom-mediconfusion"


def measured(page: Path, benchmark: str, name: str) -> dict:
    measures = json.loads((page.parent / "metrics.json").read_text())["measures"]
    return {tuple(m["slice"].items()): m for m in measures if (m["benchmark"], m["name"]) == (benchmark, name)}


def value(page: object, dimension: str, name: str) -> object:
    """The button of a value in a facet, which is opened."""
    facet = page.locator("details.facet", has=page.get_by_role("heading", name=dimension, exact=True))
    if facet.get_attribute("open") is None:
        facet.locator("summary").click()
    return facet.get_by_role("button", name=re.compile(f"^{name}"))


def listed(page: object) -> int:
    return int(page.get_by_role("grid").get_attribute("aria-rowcount")) - 1


def query(page: object) -> object:
    return page.get_by_role("combobox", name="Query")


def asked(page: object, text: str) -> None:
    """Type a query and wait until it holds."""
    query(page).fill(text)
    query(page).press("Enter")


def exported(page: object) -> list[dict[str, str]]:
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


def test_one_technique_is_listed_at_a_time(tab: Tab, tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "several", pages.twice())
    made = report.write(report.build(folder, pages.PHANTOM))
    page = tab.open(folder / html.FILE, "#questions")
    score = page.locator("#score")
    page.get_by_text("Run this selection again").click()
    for technique in ("mc", "ps"):
        page.get_by_role("group", name="Technique").get_by_role("button", name=technique).click()
        (part,) = [p for p in made.parts if (p.benchmark.name, p.technique) == (GMAI, technique)]
        assert score.inner_text() == f"{100 * part.headline[0].value:.2f}"
        command = f"pytest --model=guesser --benchmark={GMAI} --technique={technique}"
        assert page.locator("#command").inner_text() == command
    asked(page, "technique:mc,ps")
    assert listed(page) == sum(r.item.benchmark == GMAI for r in pages.twice())
    assert score.count() == 0, "answers by two techniques have no common score"


def test_samples_of_a_question_are_one_question(tab: Tab, phantom: Path, tmp_path: Path) -> None:
    """The numbers are those of the run that asked once; answers are counted beside them."""

    def told(page: object) -> list[str]:
        value(page, "modality", "CT")
        counts = page.get_by_role("list", name="modality").locator(".n").all_inner_texts()
        return [page.locator("#score").inner_text(), *counts]

    page = tab.open(phantom, "#questions")
    once, questions = told(page), page.locator("#questions-count").inner_text()
    thrice = [replace(result, sample=k) for result in pages.guesses() for k in (1, 2, 3)]
    folder = pages.write(tmp_path / "thrice", thrice, repeat=3)
    report.write(report.build(folder, pages.PHANTOM))
    page = tab.open(folder / html.FILE, "#questions")
    assert told(page) == once
    assert page.locator(".sum").inner_text().startswith(f"{questions} questions, {3 * int(questions)} answers")
    asked(page, "sample:2")
    assert listed(page) == int(questions)


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
