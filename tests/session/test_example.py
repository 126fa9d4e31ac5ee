"""The run that ships: its reports are those of its results, and the suite gives these results again."""

import csv
import json
import re
import runpy
import shutil
from math import isclose
from pathlib import Path

import pytest

from medvqa import benchmarks, report
from medvqa.cli import main
from medvqa.items import Result
from medvqa.records import run_folder
from medvqa.records.run_record import RUN
from medvqa.report import html
from support import pages

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "reports" / "example"
DRAWN = ("metrics.json", "measures.csv", "summary.md", "junit.xml")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, its reports drawn anew."""
    folder = tmp_path_factory.mktemp("reports") / "example"
    folder.mkdir()
    for name in (RUN, "results.jsonl", "selected.jsonl"):
        shutil.copyfile(EXAMPLE / name, folder / name)
    made = report.build(folder, pages.PHANTOM)
    report.write(made, html.draw(made, lambda benchmark: benchmarks.load(benchmark, Path()), "thumbs"))
    return folder


def same(one: object, other: object) -> bool:
    """Whether two values are equal, numbers nearly: quantiles of other versions of SciPy differ in the ninth digit."""
    if isinstance(one, float | int) and isinstance(other, float | int):
        return isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def number(text: str) -> object:
    """A number if the text is one, else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def content(path: Path) -> object:
    text = path.read_text("utf-8")
    if path.suffix == ".csv":
        return [list(map(number, row)) for row in csv.reader(text.splitlines())]
    return json.loads(text) if path.suffix == ".json" else text


@pytest.mark.parametrize("name", DRAWN)
def test_its_reports_are_those_of_its_results(drawn: Path, name: str) -> None:
    again = "draw it again: medvqa report reports/example --images=thumbs"
    assert same(content(drawn / name), content(EXAMPLE / name)), again


def test_its_page_shows_these_numbers_answers_and_images(drawn: Path) -> None:
    shipped, made = (pages.Page((folder / html.FILE).read_text()) for folder in (EXAMPLE, drawn))
    assert same(*(page.block("head")["sections"] for page in (shipped, made)))
    assert same(shipped.results, made.results)
    assert len(shipped.results) == 231
    # Other versions of Pillow encode the same pixels as other bytes.
    images = [[name for name in page.blocks if name.startswith("images/")] for page in (shipped, made)]
    assert len(images[0]) == len(images[1]) > 50


def test_the_readme_shows_what_a_terminal_says_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    assert main(["report", str(tmp_path / "example")]) == 0
    shown = re.search(r"```text\n(model .*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown
    assert shown[1] in "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())


def test_it_names_no_folder_of_the_machine_that_made_it() -> None:
    for name in (RUN, *DRAWN):
        assert re.findall(r"[\"\s:](/[\w.-]+/[^\"\s]*)", (EXAMPLE / name).read_text()) == []


def test_it_holds_the_whole_phantom_that_ships() -> None:
    about = json.loads((EXAMPLE / RUN).read_text())
    assert not about["missing"]
    for name, benchmark in pages.PHANTOM.items():
        assert about["benchmarks"][name]["data_sha256"] == run_folder.data_digest(benchmarks.load(benchmark, Path()))


def said(result: Result) -> tuple[object, ...]:
    answer = result.answer
    assert answer is not None
    logprobs = {letter: pytest.approx(value, abs=1e-2) for letter, value in (answer.option_logprobs or {}).items()}
    return result.key, answer.text, logprobs, result.score.outcome, result.score.extracted


@pytest.mark.slow
def test_the_suite_gives_these_results_again(tmp_path: Path) -> None:
    run = runpy.run_path(str(ROOT / "bench" / "example.py"))["run"]
    anew = run_folder.read(run(tmp_path)).results
    assert [said(result) for result in run_folder.read(EXAMPLE).results] == [said(result) for result in anew]
