"""The evaluation record in a browser: it asks for nothing, runs nothing, and prints all sections."""

from pathlib import Path

import pytest

from medvqa import report
from medvqa.report import drawn, evaluation_record
from support import pages
from support.tabs import Tab, text_of

pytestmark = pytest.mark.slow


def test_a_record_asks_for_nothing_and_prints_all_sections(tab: Tab, tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "first", pages.guesses())
    record = evaluation_record.of_run(
        report.build(folder, pages.PHANTOM), evaluation_record.read_form(None) | {"operator": pages.HOSTILE[0]}
    )
    file = tmp_path / "record.html"
    file.write_text(drawn.page(record))
    tab.page.goto(file.as_uri())
    assert tab.asked == [file.as_uri()]
    assert tab.page.evaluate("window.pwned") is None
    assert tab.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tab.page.emulate_media(color_scheme="dark")
    assert tab.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    printed = text_of(tab.page.pdf(prefer_css_page_size=True, print_background=True), tmp_path)
    whole = "\n".join(printed)
    assert [each.title for each in record if each.title not in whole] == []
    assert pages.HOSTILE[0] in whole
    assert sum("subject" in page and "in this record" in page for page in printed) > 2, "headings come again"
