"""The item view in Chromium: images to judge by, dialog, prompt, hostile texts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from medvqa import benchmarks, report
from medvqa.items import Item, Judgement, Result
from medvqa.protocols import prompts
from medvqa.report import html
from support import pages
from support.tabs import Tab, until

pytestmark = pytest.mark.slow

PAIRS, GMAI = "phantom-mediconfusion", "phantom-gmai-mmbench"
POINT = """([x, y]) => {
    const image = document.querySelector("dialog .frame img"), box = image.getBoundingClientRect();
    return [(x - box.left) / box.width * image.naturalWidth, (y - box.top) / box.height * image.naturalHeight];
}"""
"""The pixel of the first image at a place of the window."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = [prompts.pinned(pages.PHANTOM[r.item.benchmark].prompt(r.item, "mc")) for r in pages.guesses()]
    sent = [replace(r, prompt=prompts.digest(prompt)) for r, prompt in zip(pages.guesses(), asked, strict=True)]
    folder = pages.write(tmp_path_factory.mktemp("items") / "first", sent)
    pages.keep_prompts(folder, sent, asked)
    made = report.build(folder, pages.PHANTOM)
    report.write(made, html.draw(made, lambda benchmark: benchmarks.load(benchmark, Path())))
    return folder / html.FILE


@pytest.fixture(scope="module")
def opened(browser: object, drawn: Path) -> Iterator[Any]:
    tab = Tab(browser, viewport={"width": 1320, "height": 900}, color_scheme="light", has_touch=True)
    yield tab.open(drawn)
    tab.context.close()
    assert tab.said == []
    assert [url for url in tab.asked if not url.startswith(("file:", "data:"))] == []


def show(page: Any, benchmark: str, item: str) -> Any:
    """Open an item by its address; return its dialog."""
    key = quote(f"{benchmark}|{item}|mc", safe="")
    page.evaluate(f"location.hash = '#questions?b={benchmark}&item={key}'")
    dialog = page.locator("dialog[open]")
    dialog.wait_for()
    until(page, "document.querySelectorAll('dialog .frame img:not(.waiting)').length > 0")
    return dialog


def scales(dialog: Any) -> list[float]:
    """The shown scales of all images, in percent."""
    return [float(text.removesuffix(" %")) for text in dialog.locator(".scale").all_inner_texts()]


def boxes(page: Any) -> list[list[float]]:
    """Places and sizes of all images within their frames."""
    found: list[list[float]] = page.locator("dialog .frame img").evaluate_all(
        "all => all.map(({style: s}) => [s.left, s.top, s.width, s.height].map(parseFloat))"
    )
    return found


def item_of(benchmark: str, **fields: object) -> Item:
    return next(r.item for r in pages.guesses() if r.item.benchmark == benchmark)


def test_an_image_is_zoomed_towards_the_pointer_moved_and_made_native(opened: Any) -> None:
    page, item = opened, item_of(GMAI)
    dialog = show(page, GMAI, item.id)
    frame = dialog.locator(".frame")
    box = frame.bounding_box()
    fitted = boxes(page)
    assert min(fitted[0][2:]) > 300
    at = [round(box["x"] + box["width"] * 0.4), round(box["y"] + box["height"] * 0.45)]
    page.mouse.move(*at)
    before = page.evaluate(POINT, at)
    page.mouse.wheel(0, -400)
    until(page, "document.querySelector('dialog .frame').classList.contains('near')")
    assert page.evaluate(POINT, at) == pytest.approx(before, abs=0.05), "the pixel under the pointer stays there"
    left, top, *_ = boxes(page)[0]
    page.mouse.down()
    page.mouse.move(at[0] + 30, at[1] + 20)
    page.mouse.up()
    assert boxes(page)[0][:2] == pytest.approx([left + 30, top + 20], abs=0.05)
    frame.focus()
    page.keyboard.press("ArrowRight")
    assert boxes(page)[0][0] == pytest.approx(left - 10, abs=0.05), "an arrow key moves the image, not to the next item"
    assert dialog.locator("h2").inner_text() == f"{GMAI} · {item.id}"
    scale = scales(dialog)
    page.keyboard.press("+")
    assert scales(dialog)[0] == pytest.approx(scale[0] * 1.25, rel=0.01)
    page.keyboard.press("1")
    assert scales(dialog) == [100]
    natural = page.locator("dialog .frame img").evaluate("e => [e.naturalWidth, e.naturalHeight]")
    assert boxes(page)[0][2:] == natural
    dialog.get_by_role("button", name="1:1").click()
    assert boxes(page)[0][2:] == natural, "the screen of this test has one pixel for each CSS pixel"
    assert dialog.locator("figcaption").inner_text().endswith(f"{natural[0]} × {natural[1]} pixels")
    frame.dblclick(position={"x": 100, "y": 100})
    assert boxes(page) == fitted, "a double click shows the whole image again"
    frame.dblclick(position={"x": 100, "y": 100})
    assert scales(dialog)[0] > 200
    assert page.locator("dialog .frame img").evaluate("e => e.style.imageRendering") == "pixelated"
    dialog.get_by_label("Brightness").fill("150")
    dialog.get_by_label("Contrast").fill("80")
    assert page.locator("dialog .light").evaluate("e => e.style.filter") == "brightness(150%) contrast(80%)"
    dialog.get_by_role("button", name="Reset").click()
    assert page.locator("dialog .light").evaluate("e => e.style.filter") == ""
    assert boxes(page) == fitted


def test_two_fingers_zoom_and_one_moves(opened: Any) -> None:
    page = opened
    dialog = show(page, GMAI, item_of(GMAI).id)
    box = dialog.locator(".frame").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = scales(dialog)[0]
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        fingers = [{"x": px, "y": py, "id": number} for number, (px, py) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    touch("touchStart", (x - 40, y), (x + 40, y))
    touch("touchMove", (x - 60, y), (x + 60, y))
    touch("touchMove", (x - 80, y), (x + 80, y))
    touch("touchEnd")
    page.wait_for_timeout(50)
    assert scales(dialog)[0] == pytest.approx(2 * before, rel=0.05)
    left, top, *_ = boxes(page)[0]
    touch("touchStart", (x, y))
    touch("touchMove", (x + 20, y + 10))
    touch("touchMove", (x + 40, y + 20))
    touch("touchEnd")
    page.wait_for_timeout(50)
    assert boxes(page)[0][:2] == pytest.approx([left + 40, top + 20], abs=1)


def test_the_images_of_a_pair_move_in_step_until_they_are_unlinked(opened: Any) -> None:
    page = opened
    dialog = show(page, PAIRS, "1/1")
    first, second = dialog.locator("article").all()
    left, right = first.bounding_box(), second.bounding_box()
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] < right["x"]
    until(page, "document.querySelectorAll('dialog .frame img:not(.waiting)').length === 2")
    frames = dialog.locator(".frame")
    frames.first.focus()
    for key in ("+", "+", "+", "+", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    one, other = boxes(page)
    assert one == pytest.approx(other, abs=0.01)
    assert scales(dialog)[0] == scales(dialog)[1]
    dialog.get_by_label("In step").uncheck()
    frames.nth(1).focus()
    page.keyboard.press("0")
    assert boxes(page)[0] == one
    assert boxes(page)[1] != other
    dialog.get_by_role("button", name="Full window").click()
    assert frames.first.bounding_box()["height"] > 600
    page.keyboard.press("Escape")
    assert dialog.count() == 1, "Escape leaves the full window first"
    assert frames.first.bounding_box()["height"] < 600


def test_a_dialog_closes_by_its_button_escape_the_backdrop_and_back(opened: Any) -> None:
    page = opened
    page.evaluate("location.hash = '#questions?b=phantom-gmai-mmbench'")
    dialog = page.locator("dialog")
    rows = page.locator(".list [data-place]")

    def row() -> Any:
        return page.evaluate("document.activeElement.dataset.place ?? null")

    for close in ("button", "escape", "backdrop", "back"):
        rows.nth(1).click()
        dialog.wait_for()
        assert "item=" in page.evaluate("location.hash")
        if close == "button":
            dialog.get_by_role("button", name="Close").click()
        elif close == "escape":
            page.keyboard.press("Escape")
        elif close == "backdrop":
            page.mouse.click(8, 450)
        else:
            page.go_back()
        dialog.wait_for(state="detached")
        assert "item=" not in page.evaluate("location.hash")
        assert row() == "1", f"the focus is back at its row after {close}"
    rows.nth(1).click()
    ids = [page.locator(".list [data-place]").nth(place).inner_text() for place in (1, 2)]
    assert dialog.locator("h2").inner_text().endswith(ids[0])
    page.keyboard.press("ArrowRight")
    assert dialog.locator("h2").inner_text().endswith(ids[1])
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert row() == "2", "the focus is at the item that was shown last"


def test_an_item_has_its_question_answer_score_and_exact_prompt(opened: Any) -> None:
    page = opened
    shown = next(r for r in pages.guesses() if r.item.benchmark == GMAI)
    dialog = show(page, GMAI, shown.item.id)
    text = dialog.inner_text()
    for part in (shown.item.question, shown.score.why, shown.answer.text, *shown.item.options.values()):
        assert part in text
    assert dialog.locator(".options li.right").count() == len(shown.item.answers)
    assert "✓ correct" in dialog.locator(".options li.right").first.inner_text()
    dialog.get_by_text("The exact prompt").click()
    asked = pages.PHANTOM[GMAI].prompt(shown.item, "mc")
    message = dialog.locator(".message").last
    message.wait_for()
    assert message.locator(".response").evaluate("e => e.textContent") == asked.text
    assert shown.item.images[0].name in message.inner_text()


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    benchmark, results = pages.hostile()
    hostile = pages.HOSTILE
    said = Judgement(hostile[0], hostile[1], "options", hostile, 1.0, {hostile[3]: 1.0})
    beside = {"thoughts": hostile[0], "whole": hostile[3], "earlier": hostile, "served_by": hostile[1]}
    made = [replace(sent_by(benchmark, r), judgement=said, answer=replace(r.answer, **beside)) for r in results]
    folder = pages.write(tmp_path_factory.mktemp("strangers") / "1", made, model={"name": hostile[3]})
    pages.keep_prompts(folder, made, (benchmark.prompt(r.item, "mc") for r in made))
    (folder / html.FILE).write_bytes(html.render(report.build(folder, {"strange": benchmark})))
    return folder / html.FILE


def sent_by(benchmark: Any, result: Result) -> Result:
    return replace(result, prompt=prompts.digest(benchmark.prompt(result.item, "mc")))


def test_a_hostile_item_fires_nothing_and_asks_for_nothing(tab: Tab, strangers: Path) -> None:
    page = tab.open(strangers, "#questions?b=strange")
    rows = page.locator(".list [data-place]")
    dialog = page.locator("dialog")
    for place in range(2):
        rows.nth(place).click()
        dialog.wait_for()
        for fold in dialog.locator("details > summary").all():
            fold.click()
        until(page, "!document.querySelector('dialog').innerText.includes('Reading the')")
        assert dialog.locator(".judged").first.locator(".response").count() == len(pages.HOSTILE)
        names = {name.strip() for name in dialog.locator("details.folded > summary").all_inner_texts()}
        assert names >= {"Earlier replies", "Hidden thoughts", "The exact prompt"}
        assert pages.HOSTILE[0] in dialog.inner_text()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
    for item in (*pages.HOSTILE[:3], "strange|nothing|mc"):
        page.evaluate("text => { location.hash = '#questions?item=' + encodeURIComponent(text); }", item)
        page.get_by_role("alert").wait_for()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
    assert page.evaluate("window.pwned") is None
    assert page.locator("#app a:not([href^='#']), #app script, #app iframe, #app object, #app [onerror]").count() == 0
    assert "\u202e" not in page.evaluate("document.body.innerText")
    assert tab.asked[1:] == []


def test_an_image_file_that_is_missing_has_its_name_in_its_place(tab: Tab, drawn: Path, tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "first", [r for r in pages.guesses() if r.item.benchmark == PAIRS][:2])
    made = report.build(folder, pages.PHANTOM)
    report.write(made, html.draw(made, lambda benchmark: benchmarks.load(benchmark, Path()), "folder"))
    first, *_ = sorted((folder / "images").iterdir())
    first.unlink()
    key = quote(f"{PAIRS}|1/1|mc", safe="")
    page = tab.open(folder / html.FILE, f"#questions?item={key}")
    missing = page.locator("dialog .missing")
    missing.wait_for()
    name = f"{PAIRS.removeprefix('phantom-')}/images/"
    assert name in missing.inner_text()
    assert page.locator("dialog .frame img").count() == 1
    tab.said.clear()  # Chromium tells of the file that is not there.
