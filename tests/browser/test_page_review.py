"""Reviews: what a reader tags on the page is there again, and the commands read what the page exports."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import report
from medvqa.cli import main
from medvqa.items import Result
from medvqa.report import html
from support import pages
from support.tabs import Tab

pytestmark = pytest.mark.slow


def link(result: Result) -> str:
    return f"#questions?item={result.item.benchmark}%7C{result.item.id}%7Cmc"


def again(tab: Tab, file: Path, fragment: str) -> Any:
    """Close the page and open it anew."""
    tab.page.goto("about:blank")
    return tab.open(file, fragment)


def on_scale(result: Result) -> Result:
    """The result with a judge's score that people can give too."""
    return result if result.judgement is None else replace(result, score=replace(result.score, value=0.5))


def review(page: Any, hash: str, *, tags: tuple[str, ...] = (), score: str = "", comment: str = "") -> None:
    """Open an item and review it."""
    page.evaluate("to => (location.hash = to)", hash)
    panel = page.locator("dialog section.review").first
    panel.wait_for()
    for tag in tags:
        panel.get_by_label(tag, exact=True).check()
    if score:
        panel.get_by_role("radio", name=score, exact=True).check()
    if comment:
        panel.get_by_label("Comment").fill(comment)
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")


def test_reviews_are_kept_exported_and_read_by_the_commands(
    tab: Tab, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = [on_scale(result) for result in pages.judged() if result.item.benchmark != "phantom-mediconfusion"]
    folder = pages.write(tmp_path / "reports" / "night", results)
    judge = "--judge=echo:<kind>lack of knowledge</kind>"
    assert main(["classify", str(folder), judge, "--benchmark=phantom-gmai-mmbench", "--no-images"]) == 0
    file = folder / html.FILE
    wrong = [r for r in results if r.item.benchmark == "phantom-gmai-mmbench" and r.score.outcome == "wrong"]
    scored = [r for r in results if r.judgement is not None]

    page = tab.open(file)
    review(page, link(wrong[0]), tags=("perception",), comment="The left kidney is empty.")
    review(page, link(wrong[1]), tags=("wrong key", "image quality"))
    for result in scored[:3]:
        review(page, link(result), score="1")
    page = again(tab, file, link(wrong[0]))
    panel = page.locator("dialog section.review").first
    assert panel.get_by_label("perception", exact=True).is_checked()
    assert panel.get_by_label("Comment").input_value() == "The left kidney is empty."
    page = again(tab, file, "#review")
    assert page.locator("table.reviews tbody tr").count() == 5
    assert page.get_by_role("navigation", name="Views").inner_text().split()[-1] == "5"
    with page.expect_download() as download:
        page.get_by_role("button", name="Export 5 reviews").click()
    assert download.value.suggested_filename == "reviews-of-night.jsonl"
    exported = tmp_path / "anna.jsonl"
    download.value.save_as(exported)
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert {key for line in lines for key in line} == {
        *("review", "run", "benchmark", "item", "technique", "variant", "sample", "tags", "comment", "score")
    }

    capsys.readouterr()
    assert main(["classify", str(folder), f"--human={exported}"]) == 0
    said = capsys.readouterr()
    assert "tags: wrong_key 1, perception 1, image_quality 1; answers with a kind by their tags: 1;" in said.err
    labels = json.loads((folder / "errors.json").read_text())["labels"]
    (corrected,) = [label for label in labels if label["by"] == "people"]
    assert (corrected["item"], corrected["kind"]) == (wrong[0].item.id, "perceptual error")
    assert main(["agreement", str(folder), f"--human={exported}"]) == 0
    assert "referee – anna" in capsys.readouterr().out

    # The page that classify drew again has the same answers: reviews are still there, and can be imported elsewhere.
    page = again(tab, file, "#review")
    assert page.locator("table.reviews tbody tr").count() == 5
    page.get_by_role("button", name="Delete all").click()
    page.get_by_role("button", name="Delete 5 reviews").click()
    assert page.locator("table.reviews").count() == 0
    page.locator("input[type=file]").set_input_files(exported)
    page.get_by_text("5 reviews imported.").wait_for()
    other = pages.write(tmp_path / "reports" / "other", results[:20])
    report.write(report.build(other, pages.PHANTOM))
    page = again(tab, other / html.FILE, "#review")
    assert page.locator("table.reviews").count() == 0, "another run has reviews of its own"
    page.locator("input[type=file]").set_input_files(exported)
    page.get_by_text("line 1: the review is of another run").wait_for()
