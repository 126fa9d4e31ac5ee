"""The page of a reader: answers by mouse and keys are kept, exported, saved, and gone on with in another browser."""

import hashlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image

from medvqa.readings.reading_file import ReaderAnswer, ReaderStudy
from medvqa.report.bundle.head import VERSION
from medvqa.report.bundle.images import ImageHead
from medvqa.report.bundle.reading_page import ReadingHead, ReadingTask
from medvqa.report.html import page as frame
from support.tabs import Tab, opened, until

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
VIOLATIONS = """axe.run({rules: {"target-size": {enabled: true}}}).then(found => found.violations.map(rule => [
    rule.id, rule.nodes[0].html.slice(0, 300), rule.nodes[0].failureSummary.slice(0, 400)]))"""
WIDE, PHONE = {"width": 1320, "height": 900}, {"width": 390, "height": 844}
ZOOMED = {"width": 660, "height": 450}
HOSTILE = "<img src=x onerror=alert(1)></script>\u202e\u200b{{7*7}}"
OPTIONS = [("A", "Effusion"), ("B", "Pneumothorax"), ("C", "Neither")]

pytestmark = pytest.mark.slow


def picture(grey: int) -> tuple[ImageHead, bytes]:
    """An image with its file."""
    stream = io.BytesIO()
    Image.new("L", (64, 48), grey).save(stream, "PNG")
    source = f"images/{hashlib.sha256(stream.getvalue()).hexdigest()}.png"
    head = ImageHead(f"image {grey}", source, width=64, height=48, drawn_width=64, drawn_height=48, exact=True)
    return head, stream.getvalue()


def task(item: str, kind: Any = "single_choice", sitting: int = 1, **changed: Any) -> ReadingTask:
    given = {"question": f"What does {item} show?", "options": OPTIONS, "images": []} | changed
    return ReadingTask(benchmark="chest", item=item, kind=kind, sitting=sitting, **given)


def study(reader: str = "R1") -> ReaderStudy:
    digests = {"chest": "cd" * 32}
    return ReaderStudy(name="chest", plan="ab" * 32, benchmarks=digests, readers=("R1", "R2"), margin=5, reader=reader)


def drawn(tasks: list[ReadingTask], files: dict[str, bytes], reader: str = "R1", **changed: Any) -> bytes:
    head = ReadingHead(
        version=VERSION,
        kind="reading",
        task="answer",
        study=msgspec.to_builtins(study(reader)),
        tasks=tasks,
        **{"title": "Chest radiographs", "generator": "medvqa", "instructions": "As in the clinic."} | changed,
    )
    return b"".join(frame.draw("Chest radiographs", {"head": msgspec.json.encode(head), **files}))


def five() -> bytes:
    """Five questions of all kinds in two sittings."""
    one, two = picture(60), picture(200)
    tasks = [
        task("one", images=[one[0]]),
        task("two", "multiple_response", images=[one[0], two[0]]),
        task("three", "judgment", options=[("A", "Yes"), ("B", "No")]),
        task("four", "short_answer", 2, options=[], images=[two[0]]),
        task("five", sitting=2),
    ]
    return drawn(tasks, {head.source: content for head, content in (one, two)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "R1.html"
    path.write_bytes(five())
    return path


def heading(page: Any) -> str:
    return str(page.locator("h1").inner_text())


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name)


def reading(item: str, **given: Any) -> ReaderAnswer:
    return ReaderAnswer(reader="R1", benchmark="chest", item=item, **given)


def exported(page: Any, folder: Path) -> tuple[ReaderStudy, list[ReaderAnswer]]:
    """The lines of the file that the page exports, as `medvqa read import` takes them."""
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("^Export")).click()
    assert download.value.suggested_filename == "R1.jsonl"
    download.value.save_as(folder / "R1.jsonl")
    first, *lines = (folder / "R1.jsonl").read_bytes().splitlines()
    assert b'"readings":1' in first
    return msgspec.json.decode(first, type=ReaderStudy), [
        msgspec.json.decode(line, type=ReaderAnswer) for line in lines
    ]


def test_a_reader_answers_closes_the_tab_goes_on_and_exports_what_import_reads(
    tab: Tab, file: Path, tmp_path: Path
) -> None:
    page = tab.open(file)
    assert "5 in 2 sittings, 0 answered" in page.locator("dl.meta").inner_text()
    button(page, "Begin").click()
    assert heading(page) == "Question 1 of 5, sitting 1 of 2"
    assert page.locator(".frame img").evaluate_all("all => all.map(each => each.naturalWidth)") == [64]
    page.locator(".pick", has_text="Pneumothorax").click()
    page.get_by_label("4", exact=True).check()
    page.get_by_label("Comment").fill("rotated =1+1")
    button(page, "Next").click()
    assert page.locator(".frame").count() == 2
    page.keyboard.press("a")
    page.keyboard.press("C")
    page.keyboard.press("2")
    page.wait_for_timeout(400)

    # The tab is closed in the middle of the second question, and its page is opened anew.
    page.close()
    tab.page = tab.context.new_page()
    page = tab.open(file)
    button(page, "Continue with question 2").click()
    assert page.locator(".pick input:checked").count() == 2
    page.keyboard.press("Enter")
    page.keyboard.press("0")
    assert page.get_by_label("3", exact=True).is_disabled()
    page.keyboard.press("Enter")
    assert heading(page) == "Sitting 1 is done"
    button(page, "Go on with sitting 2").click()
    page.get_by_label("Your answer").fill("a nodule\nin the left lung")
    page.keyboard.press("Control+Enter")
    assert "how sure" in page.locator(".lack").inner_text()
    page.get_by_label("5 certain").check()
    button(page, "Back").click()
    assert heading(page) == "Question 3 of 5, sitting 1 of 2"
    assert page.get_by_label("Cannot be determined").is_checked()
    page.wait_for_timeout(1100)
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert heading(page) == "Question 5 of 5, sitting 2 of 2"
    button(page, "Next").click()
    button(page, "Leave it").click()
    assert heading(page) == "1 question is not complete"
    assert page.locator("ul.chips button").all_inner_texts() == ["Question 5"]

    first, lines = exported(page, tmp_path)
    assert first == study()
    assert [msgspec.structs.replace(line, seconds=None) for line in lines] == [
        reading("one", response="B", confidence=4, comment="rotated =1+1", place=1, sitting=1),
        reading("two", response="A,C", confidence=2, place=2, sitting=1),
        reading("three", cannot_tell=True, place=3, sitting=1),
        reading("four", response="a nodule\nin the left lung", confidence=5, place=4, sitting=2),
    ]
    seconds = {line.item: line.seconds or 0 for line in lines}
    assert all(0 < spent < 60 for spent in seconds.values())
    assert seconds["three"] > 1, "the time of a second look adds up"


def test_another_browser_goes_on_after_the_file_is_loaded_and_other_files_are_refused(
    browser: Any, tab: Tab, file: Path, tmp_path: Path
) -> None:
    page = tab.open(file)
    button(page, "Begin").click()
    page.keyboard.press("a")
    page.keyboard.press("3")
    button(page, "Pause").click()
    exported(page, tmp_path)
    other = Tab(browser)
    page = other.open(file)
    page.locator("input[type=file]").set_input_files(tmp_path / "R1.jsonl")
    assert "1 answer loaded." in page.locator("[role=status]").inner_text()
    button(page, "Continue with question 2").click()
    button(page, "Back").click()
    assert page.get_by_label("A Effusion").is_checked()
    page.keyboard.press("b")
    button(page, "Pause").click()
    page.locator("input[type=file]").set_input_files(tmp_path / "R1.jsonl")
    assert "1 question has another answer here." in page.locator(".pending").inner_text()
    button(page, "Keep mine").click()
    assert exported(page, tmp_path)[1][0].response == "B"
    strange = tmp_path / "strange.jsonl"
    for content, said in (
        (msgspec.json.encode(study("R2")), "strange.jsonl: it is of another reader: this page is of R1. Nothing was"),
        (b"id,reader\n", "its first line is no study"),
        (b"\xff\xfe\x00" * 9, "its first line is no study"),
    ):
        strange.write_bytes(content)
        page.locator("input[type=file]").set_input_files(strange)
        until(page, "said => document.querySelector('.files [role=status]').textContent.includes(said)", said)
    assert exported(page, tmp_path)[1][0].response == "B"
    assert other.said == []
    other.context.close()


def test_a_second_tab_stops_the_first_and_no_answer_is_lost(tab: Tab, file: Path, tmp_path: Path) -> None:
    first = tab.open(file)
    button(first, "Begin").click()
    first.keyboard.press("a")
    first.keyboard.press("3")
    first.wait_for_timeout(400)
    second = opened(tab.context.new_page(), file.resolve().as_uri())
    button(second, "Continue with question 1").click()
    second.keyboard.press("Enter")
    second.keyboard.press("b")
    second.wait_for_timeout(400)
    assert "Another tab" in first.get_by_role("alert").inner_text()
    assert second.get_by_role("alert").count() == 0
    button(first, "Go on in this tab").click()
    assert [line.response for line in exported(first, tmp_path)[1]] == ["A", "B"]


def test_hostile_texts_are_texts(tab: Tab, tmp_path: Path) -> None:
    options = [("A", HOSTILE), (HOSTILE[:9], "long letter")]
    asked = task(HOSTILE, question=HOSTILE, options=options, images=[ImageHead(name=HOSTILE, why=HOSTILE)])
    hostile = {"title": HOSTILE, "instructions": HOSTILE, "generator": HOSTILE}
    path = tmp_path / "hostile.html"
    path.write_bytes(drawn([asked], {}, HOSTILE, **hostile))
    page = tab.open(path)
    assert page.locator("main").inner_text().count("<img src=x onerror=alert(1)></script>⟨U+202E⟩⟨U+200B⟩") == 3
    button(page, "Begin").click()
    page.locator(".pick").nth(1).click()
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    with page.expect_download() as download:
        button(page, "Export 1 answer").click()
    assert download.value.suggested_filename == "-img-src-x-onerror-alert-1-script-7-7-.jsonl"
    download.value.save_as(tmp_path / "hostile.jsonl")
    line = msgspec.json.decode((tmp_path / "hostile.jsonl").read_bytes().splitlines()[1], type=ReaderAnswer)
    assert (line.reader, line.item, line.response) == (HOSTILE, HOSTILE, HOSTILE[:9])
    assert page.locator("main img, main script, main b").count() == 0
    # What the storage holds is checked like a file.
    page.evaluate("for (const key of Object.keys(localStorage)) if (key.includes('reading')) localStorage[key] = '[1'")
    page.reload()
    assert "cannot read" in page.get_by_role("alert").inner_text()


def screens(page: Any) -> Iterator[str]:
    """Show each screen of the page, by its name."""
    yield "start"
    button(page, "Begin").click()
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    yield "question"
    button(page, "Leave it").click()
    page.keyboard.press("b")
    yield "several images"
    for _ in range(4):
        page.keyboard.press("Enter")
    yield "pause"
    page.keyboard.press("Enter")
    page.keyboard.press("0")
    yield "text"
    for _ in range(3):
        page.keyboard.press("Enter")
    yield "end"
    button(page, "Keys").click()
    yield "keys"


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark"), (ZOOMED, "light")])
def test_every_screen_can_be_used_by_everybody_on_wide_screens_phones_and_at_200_percent(
    browser: Any, file: Path, size: dict[str, int], scheme: str
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in web/")
    tab = Tab(browser, viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = tab.open(file)
    page.evaluate(AXE.read_text())
    found = {}
    for name in screens(page):
        found[name] = page.evaluate(VIOLATIONS)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= size["width"], f"{name} scrolls sideways"
        assert page.locator("h1").count() == 1
        if name != "keys":
            assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    assert [name for name, broken in found.items() if broken] == [], found
    assert len(found) == 7
    assert tab.said == []
    tab.context.close()


def test_keys_that_are_letters_can_be_switched_off(tab: Tab, file: Path) -> None:
    page = tab.open(file)
    button(page, "Keys").click()
    page.get_by_label("Use keys that are single characters.").uncheck()
    page.keyboard.press("Escape")
    button(page, "Begin").click()
    page.keyboard.press("a")
    assert page.locator(".pick input:checked").count() == 0
    page.get_by_label("Comment").fill("x")
    page.keyboard.press("b")
    assert page.get_by_label("Comment").input_value() == "xb"


@dataclass
class Folder:
    """A stand-in for `medvqa view`: one file with a version."""

    content: bytes
    text: str = ""
    version: int = 0
    refuses: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, route: Any) -> None:
        asked = route.request
        path = asked.url.removeprefix("http://localhost:1")
        self.asked.append(f"{asked.method} {path}")
        headers = {"ETag": f'"{self.version}"', "Content-Type": "application/jsonl"}
        if path == "/":
            meta = b'<meta name="medvqa-view" content="1"></head>'
            served = self.content.replace(b"default-src &#x27;none&#x27;;", b"default-src 'none'; connect-src 'self';")
            assert served != self.content
            route.fulfill(body=served.replace(b"</head>", meta, 1), content_type="text/html; charset=utf-8")
        elif asked.method == "GET":
            route.fulfill(body=self.text, headers=headers)
        elif self.refuses:
            route.fulfill(status=422, body=json.dumps({"error": self.refuses}))
        elif asked.headers.get("if-match") != f'"{self.version}"':
            route.fulfill(status=412, body=json.dumps({"error": "changed"}))
        else:
            self.change(asked.post_data)
            route.fulfill(body="", headers={"ETag": f'"{self.version}"'})

    def change(self, text: str) -> None:
        self.text = text
        self.version += 1

    def responses(self) -> list[str]:
        return [msgspec.json.decode(line, type=ReaderAnswer).response for line in self.text.splitlines()[1:]]


def test_a_served_page_saves_beside_the_browser_and_asks_about_conflicts(browser: Any) -> None:
    folder = Folder(five())
    address = "http://localhost:1/"
    tab = Tab(browser)
    tab.context.route("**/*", folder.answer)
    page = opened(tab.page, address)
    button(page, "Begin").click()
    page.keyboard.press("a")
    page.keyboard.press("3")
    until(page, "document.querySelector('.steps').textContent.includes('Saved.')")
    page.wait_for_timeout(900)
    assert folder.responses() == ["A"]

    # Another browser has the answers at once, and goes on.
    other = Tab(browser)
    other.context.route("**/*", folder.answer)
    second = opened(other.page, address)
    button(second, "Continue with question 2").click()
    second.keyboard.press("b")
    button(second, "Back").click()
    second.keyboard.press("c")
    second.wait_for_timeout(1000)
    assert folder.responses() == ["C", "B"]

    # The first one changed the same answer: the reader chooses.
    page.keyboard.press("b")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "1 answer that you changed was changed elsewhere meanwhile" in alert.inner_text()
    button(page, "Take theirs").click()
    page.wait_for_timeout(1000)
    button(page, "Continue with question 1").click()
    assert page.get_by_label("C Neither").is_checked()
    assert folder.responses() == ["C", "B"]

    folder.refuses = "The study has no reader <b>R1</b>."
    page.keyboard.press("a")
    alert.wait_for()
    assert "are not saved: The study has no reader <b>R1</b>." in alert.inner_text()
    folder.refuses = ""
    button(page, "Try again").click()
    page.wait_for_timeout(1000)
    assert folder.responses() == ["A", "B"]
    assert [said for said in (*tab.said, *other.said) if "412" not in said and "422" not in said] == []
    tab.context.close()
    other.context.close()
