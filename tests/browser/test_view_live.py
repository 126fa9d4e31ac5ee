"""Pages of `medvqa view` in Chromium: a session from its first answer to its end, many tabs, and runs of any size."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medvqa import report
from medvqa.records import run_folder
from medvqa.records.run_folder import Recorder
from support import pages
from support.repositories import Repository, await_results, kill_group
from support.tabs import Tab, opened, until
from support.viewed import View

pytestmark = pytest.mark.slow

ITEMS = 48
ANSWERED = "Number(document.querySelector('[data-far=answered]')?.value ?? -1)"
OUTCOMES = """Object.fromEntries([...document.querySelectorAll("[data-outcome]")].map(
    each => [each.dataset.outcome, Number(each.textContent.match(/[0-9]+$/)[0])]))"""
MEASURES = """[...document.querySelectorAll("#scorecard data[data-of]")].map(({ dataset: { of }, value }) =>
    [Object.fromEntries(of.split("; ").map(part => part.split(/=(.*)/).slice(0, 2))), Number(value)])"""
TURN = """state => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def tab(browser: object) -> Iterator[Tab]:
    """A tab whose console stays clean, and that asks for nothing but this computer."""
    made = Tab(browser, viewport={"width": 1320, "height": 900}, color_scheme="light")
    yield made
    made.context.close()
    assert made.said == []
    assert [url for url in made.asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))] == []


def leave(page: Any) -> None:
    """Ask for nothing any more: the console tells of a question that the end of the server cuts off."""
    page.goto("about:blank")


def shown_equals_stored(page: Any, folder: Path) -> None:
    """Every measure of the scorecard is that of metrics.json."""
    measures = json.loads((folder / "metrics.json").read_text())["measures"]
    stored = {(each["benchmark"], each["technique"], each["name"]): each for each in measures if not each["slice"]}
    # Chance and gaps stand beside the measures.
    shown = [(tuple(of.values()), value) for of, value in page.evaluate(MEASURES) if len(of) == 3]
    assert len(shown) > 0
    assert shown == [(of, stored[of]["value"]) for of, _ in shown]


def test_a_session_is_followed_from_its_first_answer_to_its_page(tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    held = Repository(tmp_path / "repository", ITEMS, {"FAILS": "q00003", "HOLDS": "q00040", "GATE": str(gate)})
    pages.write(held.path / "reports" / "before", pages.guesses()[:3])
    with View(held.path / "reports", f"--plugin={held.path / 'conftest.py'}") as view:
        page = opened(tab.page, view.address)
        assert "token" not in page.url
        session = held.start("--model=slow:60", "--run=first")
        try:
            await_results(held, "first", 1, session)
            gate.touch()
            # The list is told of the new run: nobody loads it again.
            page.locator("a[href='/runs/first']").first.click(timeout=30_000)
            page.wait_for_selector("[data-far=answered]")
            gate.unlink()
            seen = follow(page, 40)
            assert len(seen) > 2, seen
            assert page.evaluate(OUTCOMES) == dict(held.outcomes("first"))
            assert page.locator(".first-looked").inner_text().startswith("1 error")
            page.locator(".first-looked button").first.click()
            until(page, "document.querySelectorAll('.items tbody tr').length === 1")
            page.locator(".items .plain").first.click()
            assert "bad item" in page.locator("dialog .meta").inner_text()
            page.keyboard.press("Escape")
        finally:
            kill_group(session)
        until(page, "document.querySelector('[data-state]')?.dataset.state === 'unfinished'")
        assert "8 questions have no answer" in page.locator(".far").inner_text()

        # The run goes on, and its page comes by itself, as nobody reads the list any more.
        opened(page, view.run("first"))
        assert page.evaluate(ANSWERED) == 40
        held.environment.clear()
        code, output = held.run("--model=slow:60", "--run=first")
        assert code in (0, 1), output
        page.wait_for_selector("#scorecard data[data-of]", timeout=30_000)
        shown_equals_stored(page, held.folder("first"))
        assert "The session has ended" in page.locator(".served-news").inner_text()
        leave(page)


def follow(page: Any, end: int) -> list[int]:
    """The numbers of answers that a page shows until `end`: they only grow."""
    seen = [page.evaluate(ANSWERED)]
    while seen[-1] != end:
        until(page, f"before => {ANSWERED} !== before", seen[-1])
        seen.append(page.evaluate(ANSWERED))
        assert seen[-1] > seen[-2]
    return seen


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five finished runs that can be compared, and one that goes on."""
    reports = tmp_path_factory.mktemp("viewed") / "reports"
    first = pages.guesses()
    for n, name in enumerate(("first", "second", "third", "fourth", "fifth")):
        results = pages.changed(first, n, 0.2 * n) if n else first
        folder = pages.write(reports / name, results, model={"name": name})
        report.write(report.build(folder, pages.PHANTOM))
    pages.write(reports / "going on", first[:10], finished="")
    return reports


@pytest.fixture(scope="module")
def view(five: Path) -> Iterator[View]:
    with View(five) as served:
        yield served


def test_many_tabs_follow_a_session_and_hidden_ones_ask_rarely(browser: object, five: Path, view: View) -> None:
    context = Tab(browser).context
    tabs = [context.pages[0], *(context.new_page() for _ in range(7))]
    opened(tabs[0], view.address)
    for page in tabs:
        opened(page, view.run("going on"))
    recorder = Recorder(five / "going on")
    rest = iter(pages.guesses()[10:])

    def answer(number: int) -> None:
        for _ in range(number):
            recorder.append(run_folder.encode(next(rest)))

    answer(3)
    for page in tabs:
        until(page, f"{ANSWERED} === 13")
    asked: list[str] = []
    for page in tabs[:-1]:
        page.evaluate(TURN, "hidden")
        page.wait_for_timeout(100)
        page.on("request", lambda request: asked.append(request.url))
    answer(2)
    until(tabs[-1], f"{ANSWERED} === 15")
    tabs[-1].wait_for_timeout(3000)
    assert asked == [], "hidden tabs ask once a minute"
    tabs[0].evaluate(TURN, "visible")
    until(tabs[0], f"{ANSWERED} === 15")
    recorder.close()
    context.close()


def test_a_finished_run_is_walked_as_its_page(tab: Tab, five: Path, view: View) -> None:
    page = opened(tab.page, view.address)
    page.locator("a[href='/runs/first']").first.click()
    page.wait_for_selector("#scorecard data[data-of]")
    shown_equals_stored(page, five / "first")
    page.locator("nav a[href='#questions']").click()
    page.locator("[data-place]").first.click()
    page.wait_for_selector("dialog#item .response")
    until(page, "[...document.querySelectorAll('dialog img')].every(each => each.naturalWidth > 0)")
    assert page.locator("dialog img").first.get_attribute("src").startswith("/api/bundles/")
    page.locator("dialog a[href^='/history?']").first.click()
    until(page, "document.querySelectorAll('main [href^=\"/runs/\"]').length >= 5")
    assert page.title() != ""
    page.go_back()
    page.wait_for_selector("dialog#item .response")


@pytest.mark.parametrize("names", [("first", "second"), ("first", "second", "third", "fourth", "fifth")])
def test_runs_are_compared(tab: Tab, view: View, names: tuple[str, ...]) -> None:
    page = opened(tab.page, view.address)
    for name in names:
        page.get_by_label(f"Compare {name}", exact=True).check()
    page.locator("a.go").click()
    page.wait_for_selector("nav a[href='#questions']")
    page.wait_for_selector("html[data-ready]", state="attached")
    text = page.locator("main").inner_text()
    assert [name for name in names if name not in text] == []
    page.locator("nav a[href='#questions']").click()
    page.locator("[data-place]").first.click()
    page.wait_for_selector("dialog[open] .response")
    until(page, f"document.querySelectorAll('dialog[open] .response').length >= {len(names)}")


def test_130_000_answers_are_opened_and_paged(tab: Tab, tmp_path: Path) -> None:
    # One line written often: what is tested is their number.
    (result,) = pages.guesses()[:1]
    line, name = run_folder.encode(result), json.dumps(result.item.id).encode()
    assert line.count(name) >= 1
    folder = pages.write(tmp_path / "reports" / "large", [], finished="")
    with (folder / "results.jsonl").open("wb") as file:
        file.writelines(line.replace(name, b'"q%06d"' % n) + b"\n" for n in range(130_000))
    with View(tmp_path / "reports") as view:
        opened(tab.page, view.address)
        page = opened(tab.page, view.run("large"))
        assert page.evaluate(ANSWERED) == 130_000
        first = "document.querySelector('.items tbody th')?.innerText === '{}'"
        until(page, first.format("q129999"))
        page.get_by_role("button", name="Last", exact=True).click()
        until(page, first.format("q000049"))
        page.get_by_label("Item").fill("q012345")
        until(page, "document.querySelectorAll('.items tbody tr').length === 1")
        page.locator(".items .plain").first.click()
        page.wait_for_selector("dialog#item .question")
        leave(page)


def test_a_stranger_is_told_what_to_do(tab: Tab, view: View) -> None:
    # The console's line may come after the page.
    with tab.page.expect_console_message():
        tab.page.goto(f"{view.origin}/")
    assert "medvqa view" in tab.page.locator("body").inner_text()
    assert tab.page.locator("main a").count() == 0
    assert all("403" in line or "401" in line for line in tab.said)
    tab.said.clear()


def test_the_end_of_the_server_and_its_return_are_told(tab: Tab, five: Path) -> None:
    told = tab.page.locator(".connection .alert")
    with View(five) as view:
        page = opened(tab.page, view.address)
        view.end()
        page.get_by_text("The server has ended: start medvqa view again").wait_for()
        assert page.locator("main a[href='/runs/first']").count() >= 1, "what was shown stays"
    with View(five, f"--port={view.origin.rpartition(':')[2]}") as view:
        page.get_by_text("open the address that medvqa view printed").wait_for()
        other = opened(tab.context.new_page(), view.address)
        # The cookie is that of all tabs.
        told.wait_for(state="detached")
        other.close()
        leave(page)
    assert all("ERR_CONNECTION" in line or "ERR_INCOMPLETE" in line or "403" in line for line in tab.said)
    tab.said.clear()
