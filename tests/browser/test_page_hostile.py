"""Pages in Chromium: what a run, an address or the browser's storage holds can do nothing; images beside the page."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, report
from medvqa.items import Judgement, Result
from medvqa.report import html
from support import pages, sectioned
from support.tabs import Tab

pytestmark = pytest.mark.slow

NAMES = ("__proto__", "constructor", "hasOwnProperty", "valueOf")
PLANTED = """() => {
    const app = document.querySelector("#app");
    const named = [...document.querySelectorAll("[title], [alt], [aria-label], [placeholder]")]
        .map(each => [each.title, each.alt, each.ariaLabel, each.placeholder].join(" "));
    return {
        pwned: window.pwned ?? null,
        elements: app.querySelectorAll(
            "script, iframe, object, embed, base, form, a:not([href^='#']), [onerror], [onmouseover], [srcdoc]").length,
        sources: [...app.querySelectorAll("[src]")].map(each => each.getAttribute("src"))
            .filter(each => !/^(data:image\\/(png|jpeg|webp);base64,|images\\/[0-9a-f]{64}\\.)/.test(each)),
        turned: /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText + named.join("")),
        polluted: Object.keys(Object.prototype).length + Object.keys(Array.prototype).length,
        alerts: [...document.querySelectorAll("body > [role=alert]")].map(each => each.textContent),
    };
}"""
NOTHING = {"pwned": None, "elements": 0, "sources": [], "turned": False, "polluted": 0, "alerts": []}


def strange() -> list[Result]:
    """Results whose texts are all hostile: of questions, answers, judges, thoughts and tags."""
    words = pages.HOSTILE
    said = Judgement(words[0], words[1], "options", words, 1.0, {words[3]: 1.0, "__proto__": 2.0})
    beside = {"thoughts": words[0], "whole": words[3], "earlier": words}
    named = dict.fromkeys(NAMES, NAMES)
    results = pages.hostile()[1]
    return [
        replace(
            result,
            item=replace(result.item, tags={**result.item.tags, **named}),
            judgement=said,
            answer=replace(result.answer, **beside),
        )
        for result in results
    ]


def test_a_hostile_run_address_and_storage_do_nothing(tab: Tab, tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "run", pages.harmless(strange()), model={"name": pages.HOSTILE[1]})
    made = report.build(folder, {"strange": pages.hostile()[0]})
    file = folder / html.FILE
    file.write_bytes(html.render(made, html.draw(made, lambda benchmark: [], "inside")))
    opened = file.resolve().as_uri()
    stored = json.dumps([*pages.HOSTILE, "null", "[]", '{"__proto__":{"pwned":1}}', "{", "9" * 400])
    # Whatever name the app asks for holds a hostile value.
    tab.page.add_init_script(
        f"{{ const held = {stored}; let next = 0; Storage.prototype.getItem = () => held[next++ % held.length]; }}"
    )
    page = tab.open(file, "#summary")
    page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
    assert page.evaluate(PLANTED) == NOTHING
    for layout in ("", "images", "pairs"):
        page.goto(f"{opened}#questions?layout={layout}")
        page.wait_for_selector("#questions")
        assert page.evaluate(PLANTED) == NOTHING
    page.goto(f"{opened}#review")
    assert page.evaluate(PLANTED) == NOTHING
    keys = page.evaluate(
        "all => all.map(id => '#questions?item=' + encodeURIComponent('strange|' + "
        "id.replaceAll('%', '%25').replaceAll('|', '%7C') + '|mc'))",
        list(pages.HOSTILE[::2]),
    )
    for key in keys:  # each of a pair
        page.goto(opened + key)
        page.wait_for_selector("dialog[open]")
        page.evaluate("document.querySelectorAll('dialog details').forEach(each => (each.open = true))")
        assert page.evaluate(PLANTED) == NOTHING, key
        assert "Unknown item" not in page.locator("dialog h2").inner_text(), key
    texts = (*pages.HOSTILE, *NAMES, "%", "%E0%A4%A", "\x00", "9" * 5000, "outcome:__proto__", '"' * 999, "(" * 999)
    for text in texts:
        for fragment in (
            text,
            f"questions?q={text}&sort={text}&layout={text}&b={text}&technique={text}",
            f"x?item={text}",
        ):
            page.evaluate("hash => { location.hash = hash; }", fragment)
            assert page.evaluate(PLANTED) == NOTHING, fragment
    assert [url for url in tab.asked if not url.startswith((opened, "data:"))] == []


def test_hostile_sections_do_nothing(tab: Tab, tmp_path: Path) -> None:
    texts = (*pages.HOSTILE, *NAMES, "//example.org", "/\\\\example.org", "https://example.org", "#review")
    page = tab.open(sectioned.write(tmp_path / "run", sectioned.hostile(texts)))
    for _ in range(2):
        page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
        assert page.evaluate(PLANTED) == NOTHING
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        # Every button of the summary: headings, groups, tabs, files, copies.
        page.evaluate("document.querySelectorAll('.summary button').forEach(each => each.click())")
    file = page.url.partition("#")[0]
    assert [url for url in tab.asked if not url.startswith((file, "data:", "blob:"))] == []


def test_the_policy_lets_nothing_else_run_or_load(browser: Any, phantom: Path) -> None:
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


def test_images_beside_the_page_are_shown_and_one_that_is_missing_says_so(browser: Any, tmp_path: Path) -> None:
    results = [result for result in pages.guesses() if result.item.benchmark == "phantom-mediconfusion"][:2]
    folder = pages.write(tmp_path / "folder", results)
    made = report.build(folder, pages.PHANTOM)
    drawn = html.draw(made, lambda benchmark: benchmarks.load(benchmark, Path()), "folder")
    report.write(made, drawn)
    first, second = (drawn.of(result.item)[0] for result in results)
    assert first.source != second.source
    (folder / second.source).unlink()
    tab = Tab(browser, viewport={"width": 1320, "height": 900})
    page = tab.open(folder / html.FILE, "#questions?layout=images")
    image = page.locator("img.thumb")
    page.wait_for_selector(".no-picture")
    assert image.count() == 1
    assert image.evaluate("async e => { await e.decode(); return [e.naturalWidth, e.naturalHeight]; }") == [
        first.width,
        first.height,
    ]
    told = page.locator(".no-picture").inner_text()
    assert second.name in told
    assert "send the folder images too" in told
    page.goto(
        (folder / html.FILE).resolve().as_uri() + f"#questions?item=phantom-mediconfusion|{results[1].item.id}|mc"
    )
    missing = page.locator("dialog .missing, dialog .no-picture")
    missing.wait_for()
    assert second.name in missing.inner_text()
    assert "send the folder images too" in missing.inner_text()
    assert {Path(url).name for url in tab.failed} == {Path(second.source).name}
    tab.context.close()
