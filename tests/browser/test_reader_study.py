"""Four readers answer a study in Chromium, each in a way of their own; its files end in the right table."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from medvqa import report
from medvqa.cli import main
from medvqa.session import conftests
from support.tabs import Tab, opened, until
from support.viewed import ADDRESS, View

pytestmark = pytest.mark.slow
WARD = """
from medvqa import Benchmark, Item

def items(data):
    for n in range(8):
        yield Item(f"q{n}", "", "single_choice", f"Question {n}?", {"A": "left", "B": "right"}, ("AB"[n % 2],))

ward = Benchmark(name="ward", items=items, public=True)
"""
PLAN = 'name = "Study"\nbenchmarks = ["ward"]\nreaders = ["R1", "R2", "R3", "R4"]\nsitting = 4\n'
WRONG: Mapping[str, set[int]] = {"R1": set(), "R2": {0, 3}, "R3": {3}, "R4": set(range(1, 8))}
"""The questions that each reader answers wrong: R4 disagrees with the others."""
ANSWERED = """all => fetch('/api/reading').then(reply => reply.text())
    .then(text => Math.max(0, text.split('\\n').filter(Boolean).length - 1) === all)"""


def answer(page: Any, reader: str, number: int) -> None:
    """Answer so many questions by keys, from the one that is shown."""
    for _ in range(number):
        if "is done" in page.locator("h1").inner_text():
            page.get_by_role("button", name=re.compile("^Go on with")).click()
        match = re.search(r"Question (\d)\?", page.locator("main").inner_text())
        assert match is not None
        question = int(match[1])
        page.keyboard.press("ab"[(question + (question in WRONG[reader])) % 2])
        page.keyboard.press("4")
        page.keyboard.press("Enter")


def begin(page: Any) -> None:
    page.get_by_role("button", name=re.compile("^(Begin|Continue)")).first.click()


def export(page: Any, path: Path) -> None:
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("^Export")).first.click()
    download.value.save_as(path)


def test_four_readers_end_in_the_right_table(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conftest.py").write_text(WARD)
    (tmp_path / "plan.toml").write_text(PLAN)
    assert main(["read", "plan.toml"]) == 0
    tabs: list[Tab] = []

    def tab(show: Callable[[Any], Any]) -> Any:
        tabs.append(Tab(browser))
        return show(tabs[-1].page)

    with View(tmp_path / "plan") as view:
        assert view.process.stdout is not None
        addresses = [view.address]
        while len(addresses) < 4:
            addresses += ADDRESS.findall(view.process.stdout.readline())

        # R1 reads at the served page, from the first question to the last.
        page = tab(lambda page: opened(page, addresses[0]))
        begin(page)
        answer(page, "R1", 8)
        until(page, ANSWERED, 8)

        # R2 starts at home, and goes on in the middle in another browser, from the file that was exported.
        home = tab(lambda page: opened(page, (tmp_path / "plan" / "R2.html").as_uri()))
        begin(home)
        answer(home, "R2", 4)
        export(home, tmp_path / "half.jsonl")
        page = tab(lambda page: opened(page, (tmp_path / "plan" / "R2.html").as_uri()))
        page.locator("input[type=file]").set_input_files(tmp_path / "half.jsonl")
        begin(page)
        answer(page, "R2", 4)
        export(page, tmp_path / "R2.jsonl")

        # R3 closes the tab after three questions; a browser that knows nothing goes on from what the server has.
        page = tab(lambda page: opened(page, addresses[2]))
        begin(page)
        answer(page, "R3", 3)
        until(page, ANSWERED, 3)
        tabs[-1].context.close()
        page = tab(lambda page: opened(page, addresses[2]))
        begin(page)
        answer(page, "R3", 5)
        until(page, ANSWERED, 8)

        # R4 disagrees with the others.
        page = tab(lambda page: opened(page, addresses[3]))
        begin(page)
        answer(page, "R4", 8)
        until(page, ANSWERED, 8)
    assert [said for each in tabs for said in each.said] == []
    capsys.readouterr()
    assert main(["read", "import", "plan", "R2.jsonl", "--study=plan"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("wrote plan/readings.jsonl: 32 readings of 4 readers\n")
    assert [f"  R{n}: 8 of 8 questions" in said for n in (1, 2, 3, 4)] == [True] * 4
    assert main(["run", "--benchmark=ward", "--model=human:plan/readings.jsonl", "--run=people"]) == 0

    from medvqa.report import reader_tables

    registry = conftests.registry((), noconftest=False, say=print)
    made = report.build(tmp_path / "reports" / "people", registry.benchmarks)
    (readers,) = reader_tables.of_people(made)
    score = [column.name for column in readers.columns].index("score")
    rows = {row[1]: round(100 * row[score].value, 4) for row in readers.rows}
    mean = 100 * (8 + 6 + 7 + 1) / 32
    assert rows == {"R1": 100, "R2": 75, "R3": 87.5, "R4": 12.5, "mean of readers": mean, "panel majority": 87.5} | {
        "mean of readers, these alone": mean
    }
    assert any("Krippendorff's alpha" in note for note in readers.notes)
    measures = json.loads((tmp_path / "reports" / "people" / "metrics.json").read_text())["measures"]
    (accuracy,) = [each["value"] for each in measures if each["name"] == "accuracy" and each["slice"] == {}]
    assert accuracy == pytest.approx(mean / 100)
    for each in tabs:
        each.context.close()
