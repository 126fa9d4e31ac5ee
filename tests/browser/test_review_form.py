"""The page of an expert who checks questions: the key, corrections, ratings; the adjudicator; what `revise` takes."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medvqa.items import Item
from medvqa.readings import revision
from medvqa.readings.reading_file import Opinion, ReaderStudy
from medvqa.report.bundle.head import VERSION
from medvqa.report.bundle.reading_page import CheckedKey, ReadingHead, ReadingTask
from medvqa.report.html import page as frame
from support.tabs import Tab

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
VIOLATIONS = "axe.run().then(found => found.violations.map(rule => [rule.id, rule.nodes[0].html.slice(0, 300)]))"
HOSTILE = "<img src=x onerror=alert(1)></script>\u202e"
ITEMS = [
    Item("q-1", "chest", "single_choice", "Which side?", {"A": "left", "B": "right"}, ("A",)),
    Item("q-2", "chest", "multiple_response", "Which signs?", {"A": "air", "B": "fluid", "C": "none"}, ("A", "B")),
    Item("q-3", "chest", "short_answer", HOSTILE, {}, ("a nodule",)),
]

pytestmark = pytest.mark.slow


def page_of(folder: Path, opinions: tuple[str, ...] = ()) -> Path:
    tasks = [
        ReadingTask(
            benchmark=item.benchmark,
            item=item.id,
            kind=item.kind,
            question=item.question,
            options=list(item.options.items()),
            images=[],
            sitting=1,
            checked=CheckedKey(list(item.answers), opinions),
        )
        for item in ITEMS
    ]
    study = msgspec.to_builtins(ReaderStudy(task="review", name="chest", plan="ab" * 32, reader="R1"))
    head = ReadingHead(VERSION, "reading", "Chest", "medvqa", "review", study, "Check each question.", tasks)
    path = folder / "R1.html"
    path.write_bytes(b"".join(frame.draw("Chest", {"head": msgspec.json.encode(head)})))
    return path


def exported(page: Any, folder: Path) -> list[Opinion]:
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("^Export")).click()
    download.value.save_as(folder / "R1.jsonl")
    lines = (folder / "R1.jsonl").read_bytes().splitlines()[1:]
    return [msgspec.structs.replace(msgspec.json.decode(line, type=Opinion), seconds=None) for line in lines]


def test_an_expert_corrects_rates_closes_the_tab_and_exports_what_revise_takes(tab: Tab, tmp_path: Path) -> None:
    file = page_of(tmp_path)
    page = tab.open(file)
    page.get_by_role("button", name="Begin").click()
    assert "A. left (key)" in page.get_by_label("Options", exact=True).inner_text()
    page.keyboard.press("c")
    page.get_by_label("Text of option B").fill("both")
    page.get_by_label("B is right").check()
    page.get_by_label("Question", exact=True).fill("Which lung?")
    page.keyboard.press("Control+Enter")
    assert "A reason is needed." in page.locator(".lack").inner_text()
    page.get_by_label("Reason (needed)").fill("no side is shown")
    page.get_by_label("4", exact=True).check()
    page.wait_for_timeout(400)

    page.close()
    tab.page = tab.context.new_page()
    page = tab.open(file)
    page.get_by_role("button", name="Continue with question 1").click()
    assert page.get_by_label("Text of option B").input_value() == "both"
    page.keyboard.press("Enter")
    page.keyboard.press("a")
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    page.keyboard.press("c")
    page.get_by_label("Key: one accepted answer a line").fill("a nodule\na mass")
    page.get_by_label("Reason (needed)").fill(HOSTILE)
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Leave it").click()
    assert page.locator("h1").inner_text() == "1 question is not complete"

    lines = exported(page, tmp_path)
    common = {"reader": "R1", "benchmark": "chest", "sitting": 1}
    assert lines == [
        Opinion(
            **common,
            item="q-1",
            decision="correct",
            rating=4,
            question="Which lung?",
            options={"B": "both"},
            answers=("B",),
            reason="no side is shown",
            place=1,
        ),
        Opinion(**common, item="q-2", decision="accept", rating=10, place=2),
        Opinion(**common, item="q-3", decision="correct", answers=("a nodule", "a mass"), reason=HOSTILE, place=3),
    ]
    kept, changes = revision.revised(ITEMS, lines)
    assert [change.id for change in changes] == ["q-1", "q-1", "q-1", "q-3"]
    assert kept[0].options == {"A": "left", "B": "both"}
    assert page.locator("main img, main script").count() == 0


def test_an_adjudicator_reads_both_opinions_and_decides(tab: Tab, tmp_path: Path) -> None:
    said = revision.said(
        [Opinion("R1", "chest", "q-1", "reject", reason=HOSTILE), Opinion("R2", "chest", "q-1", "accept", rating=8)]
    )
    page = tab.open(page_of(tmp_path, said))
    page.get_by_role("button", name="Begin").click()
    shown = page.get_by_label("Opinions").inner_text()
    assert "Reviewer 1: reject. Reason: <img src=x onerror=alert(1)>" in shown
    assert "Reviewer 2: accept, 8 of 10" in shown
    assert page.locator("main img, main script").count() == 0
    page.keyboard.press("r")
    page.get_by_label("Reason (needed)").fill("as reviewer 1")
    page.keyboard.press("Control+Enter")
    assert page.locator("h1").inner_text() == "Question 2 of 3"
    page.get_by_role("button", name="Pause").click()
    assert exported(page, tmp_path) == [
        Opinion("R1", "chest", "q-1", "reject", reason="as reviewer 1", final=True, place=1, sitting=1)
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1320, "light"), (390, "dark")])
def test_everybody_can_use_the_form(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in web/")
    tab = Tab(browser, viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce")
    page = tab.open(page_of(tmp_path, ("Reviewer 1: accept", "Reviewer 2: reject")))
    page.evaluate(AXE.read_text())
    page.get_by_role("button", name="Begin").click()
    for _ in ITEMS:
        page.keyboard.press("c")
        assert page.evaluate(VIOLATIONS) == []
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        page.get_by_role("button", name="Next").click()
        page.get_by_role("button", name="Leave it").click()
    assert tab.said == []
    tab.context.close()
