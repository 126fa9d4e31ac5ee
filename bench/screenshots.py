"""What a page looks like: `python bench/screenshots.py reports/RUN FOLDER`, or of a comparison `... FILE.html FOLDER`.

Writes light.png, dark.png, narrow.png (whole pages), item.png (the first question or flip, or that of `--item`) and
print.pdf. `python bench/screenshots.py --readme` draws the picture of the README from the example that ships: the top
of its page and the question of `--item`.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from urllib.parse import urlencode

from page import CHROMIUM, FLAGS
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

WIDE = {"width": 1320, "height": 900}
ROOT = Path(__file__).parents[1]
EXAMPLE, README = ROOT / "reports" / "example", ROOT / "docs" / "images" / "report.png"


def opened(browser: Browser, file: Path, scheme: str = "light", width: int = 1320, fragment: str = "") -> Page:
    tab = browser.new_context(
        color_scheme=scheme, viewport={**WIDE, "width": width}, reduced_motion="reduce"
    ).new_page()
    tab.goto(file.resolve().as_uri() + fragment)
    tab.wait_for_selector("html[data-ready]", state="attached")
    return tab


def everything(browser: Browser, file: Path, folder: Path, item: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, scheme, width in (("light", "light", 1320), ("dark", "dark", 1320), ("narrow", "light", 420)):
        tab = opened(browser, file, scheme, width)
        tab.screenshot(path=folder / f"{name}.png", full_page=True)
    opened(browser, file).pdf(path=folder / "print.pdf", format="A4")
    for name, scheme, width in (("item", "light", 1320), ("item-dark", "dark", 1320), ("item-narrow", "light", 420)):
        tab = opened(browser, file, scheme, width, f"#questions?{urlencode({'item': item})}" if item else "#questions")
        if item is None:
            tab.locator("[data-place]").first.click()
        tab.locator("dialog").wait_for()
        tab.screenshot(path=folder / f"{name}.png")


def readme(browser: Browser, file: Path, picture: Path, item: str) -> None:
    tab = opened(browser, file)
    top = Image.open(io.BytesIO(tab.screenshot(clip={"x": 0, "y": 0, "width": 1320, "height": 640})))
    tab = opened(browser, file, fragment=f"#questions?{urlencode({'item': item})}")
    tab.locator("dialog img").first.evaluate("image => image.decode()")
    below = Image.open(io.BytesIO(tab.locator("dialog").screenshot()))
    whole = Image.new("RGB", (top.width, top.height + below.height), "white")
    whole.paste(top)
    whole.paste(below, ((top.width - below.width) // 2, top.height))
    whole.save(picture, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, nargs="?", default=EXAMPLE, help="a run folder, or a page")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("screenshots"))
    parser.add_argument("--readme", type=Path, nargs="?", const=README, metavar="FILE")
    parser.add_argument("--item", metavar="BENCHMARK|ID|TECHNIQUE")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        file = options.page / "index.html" if options.page.is_dir() else options.page
        if options.readme is not None:
            readme(browser, file, options.readme, options.item or "phantom-mediconfusion|1/1|ps")
        else:
            everything(browser, file, options.folder, options.item)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
