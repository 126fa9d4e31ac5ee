"""A browser and its tabs."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from medvqa import benchmarks, report
from medvqa.cli import main
from medvqa.report import html
from support import pages, sectioned
from support.tabs import CHROMIUM, FLAGS, Tab


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Chromium, started once for each file: while it runs, playwright's event loop allows no other one."""
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def tab(browser: object) -> Iterator[Tab]:
    """A tab; the test fails when its page said something or asked for more than itself and its images."""
    made = Tab(browser, viewport={"width": 1320, "height": 900}, color_scheme="light")
    yield made
    made.context.close()
    assert made.said == []
    assert [url for url in made.asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture(scope="session")
def phantom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of the phantom, with images inside."""
    folder = pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses())
    made = report.build(folder, pages.PHANTOM)
    report.write(made, html.draw(made, lambda benchmark: benchmarks.load(benchmark, Path())))
    return folder / html.FILE


@pytest.fixture(scope="session")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every kind of block."""
    return sectioned.write(tmp_path_factory.mktemp("blocks") / "run", sectioned.sections())


@pytest.fixture(scope="session")
def versus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that compares three runs of the phantom, with images inside."""
    reports = tmp_path_factory.mktemp("several")
    assert main(["report", *map(str, pages.several_runs(reports)), "-o", str(reports / "all.html")]) == 0
    return reports / "all.html"


@pytest.fixture(scope="session")
def compared_runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], pages.ComparedRuns]:
    """Comparisons by name: the page, its runs and what `medvqa compare` says. Each is drawn when first asked for."""

    @cache
    def drawn(name: str) -> pages.ComparedRuns:
        reports = tmp_path_factory.mktemp(name.replace(" ", "-"))
        runs = pages.COMPARED[name](reports)
        assert main(["report", *map(str, runs), "-o", str(reports / "all.html")]) == 0
        assert main(["compare", *map(str, runs), "--json", str(reports / "all.json")]) == 0
        return pages.ComparedRuns(reports / "all.html", runs, json.loads((reports / "all.json").read_text()))

    return drawn


@pytest.fixture(scope="session")
def ten(compared_runs: Callable[[str], pages.ComparedRuns]) -> Path:
    """The page that compares ten runs."""
    return compared_runs("ten runs").page


@pytest.fixture(scope="session")
def committee(compared_runs: Callable[[str], pages.ComparedRuns]) -> Path:
    """The page that compares five models, two of them without the images too."""
    return compared_runs("committee").page
