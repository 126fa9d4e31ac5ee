"""The site that `tox run -e site` builds: it loads nothing from another host, and its search needs no server."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import medvqa
from support.tabs import CHROMIUM, FLAGS, Tab

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PAGES = re.findall(r"^- \[[^]]*\]\(([a-z-]+)\.md\)", (ROOT / "docs/index.md").read_text("utf-8"), re.MULTILINE)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built: tox run -e site"),
]


class Loads(HTMLParser):
    """The addresses that a page loads, of which a link that a reader follows is none."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ("src", "srcset", "data", "poster") if tag != "link" else ("href",)
        self.urls += [value or "" for name, value in attrs if name in names]


def test_nothing_is_loaded_from_another_host() -> None:
    urls = {url for page in SITE.rglob("*.html") for url in Loads(page).urls}
    for style in SITE.rglob("*.css"):
        text = style.read_text("utf-8")
        urls |= set(re.findall(r"url\([\"']?([^\"')]+)", text)) | set(re.findall(r"@import\s+[\"']([^\"']+)", text))
    assert len(urls) > 20
    assert [url for url in urls if re.match(r"(?:https?:)?//", url)] == []


def test_every_page_and_public_name_is_on_the_site() -> None:
    assert len(PAGES) == 18
    assert [name for name in (*PAGES, "index", "gallery", "api") if not (SITE / f"{name}.html").is_file()] == []
    names = (SITE / "api.html").read_text("utf-8")
    assert [name for name in medvqa._WHERE if f'id="medvqa.{name}"' not in names] == []
    assert 'id="medvqa.Backend.generate"' in names


def test_the_gallery_shows_a_run_a_comparison_and_a_gate() -> None:
    shown = (SITE / "gallery.html").read_text("utf-8")
    for name in ("run", "comparison", "gate"):
        assert f'href="gallery/{name}.html"' in shown
        assert (SITE / "gallery" / f"{name}.html").stat().st_size > 100_000
    assert (SITE / "gallery/run.html").read_bytes() == (ROOT / "reports/example/index.html").read_bytes()


def test_the_search_works_without_a_network() -> None:
    """On files, without a server: the tab asks for files alone, and says nothing."""
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        tab = Tab(browser)
        tab.page.goto((SITE / "index.html").as_uri())
        tab.page.locator("input[name=q]").first.fill("exit code")
        tab.page.locator("input[name=q]").first.press("Enter")
        tab.page.wait_for_selector("#search-results ul.search li", timeout=30_000)
        assert "Reference" in tab.page.locator("#search-results").inner_text()
        for name in ("comparison", "gate"):
            tab.open(SITE / "gallery" / f"{name}.html")
        tab.page.goto((SITE / "gallery.html").as_uri())
        assert tab.page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        browser.close()
    assert tab.said == []
    assert [url for url in tab.asked if not url.startswith(("file:", "data:", "blob:"))] == []
