"""The page of pytest-html, if a user has it: outcome and what was read in columns of their own."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.sessions import SPREAD_SLOWLY
from support.strangers import CONFTEST, TEST

pytestmark = pytest.mark.usefixtures("outside")

pytest.importorskip("pytest_html")

HOSTILE = """
import pytest
from medvqa import Backend, metrics
from medvqa.items import Answer, Benchmark, Item, Prompt, Score

BAD = "<img src=x onerror=alert(1)>"


def items(data):
    yield Item(BAD, "bad", "single_choice", BAD, {"A": BAD, "B": "b"}, ("A",))
    yield Item("good", "bad", "single_choice", "?", {"A": "a", "B": "b"}, ("A",))


class Bad(Backend):
    sends_to = None

    def generate(self, prompts):
        return [Answer(BAD) for _ in prompts]


def pytest_medvqa_benchmarks():
    return [Benchmark(name="bad", items=items, prompt=lambda item, technique: Prompt("?"),
                      score=lambda item, answer: Score(1.0, "correct", (answer.text,), BAD),
                      metrics=(metrics.accuracy,))]


def pytest_medvqa_backends():
    return [Bad]
"""


class Blob(HTMLParser):
    """What the script of pytest-html draws its table from, and the headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tests: dict[str, list[dict]] = {}
        self.columns: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "data-jsonblob" in given:
            self.tests = json.loads(given["data-jsonblob"])["tests"]
        if tag == "th":
            self.columns.append(given.get("data-column-type", ""))


def page(pytester: pytest.Pytester, *arguments: str) -> Blob:
    command = ("--html=page.html", "--self-contained-html", "-p", "no:randomly", "-p", "no:benchmark", *arguments)
    way = pytester.runpytest_subprocess if "-n2" in arguments else pytester.runpytest_inprocess
    way(*command)
    return Blob(Path("page.html").read_text())


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_outcome_and_what_was_read_stand_in_columns(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_slake=TEST, test_zzz="def test_else(): pass")
    made = page(pytester, "--model=stubborn:A", "--run=first", *spread)
    results = {
        line["item"]["id"]: line["score"]
        for line in map(json.loads, Path("reports", "first", "results.jsonl").read_text().splitlines())
    }
    assert made.columns[-2:] == ["outcome", "extracted"]
    told = {name.partition("[")[2].rstrip("]"): tests for name, tests in made.tests.items() if "[" in name}
    assert told.keys() == results.keys()
    assert len(results) == 24
    for name, score in results.items():
        (row,) = told[name]
        assert (row["outcome"], row["extracted"]) == (score["outcome"], ",".join(score["extracted"]))
        assert row["resultsTableRow"][-2:] == [
            f'<td class="col-outcome">{score["outcome"]}</td>',
            f'<td class="col-extracted">{",".join(score["extracted"])}</td>',
        ]
        assert row["result"] == ("Passed" if score["outcome"] == "correct" else "Failed")
    assert {len(row["resultsTableRow"]) for tests in made.tests.values() for row in tests} <= {4, 6}


def test_a_session_without_items_keeps_the_page_as_it_is(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_else(): pass")
    made = page(pytester)
    assert made.columns == ["result", "testId", "duration", ""]
    ((row,),) = made.tests.values()
    assert len(row["resultsTableRow"]) == 4


def test_what_a_model_says_stays_text(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(HOSTILE)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.vqa("bad")
        def test_bad(item, evaluate):
            evaluate(item)
        """
    )
    made = page(pytester, "--model=bad:", "--benchmark=bad")
    rows = [row for tests in made.tests.values() for row in tests]
    assert len(rows) == 2
    for row in rows:
        assert not any("<img" in cell for cell in row["resultsTableRow"])
        assert row["extracted"] == "&lt;img src=x onerror=alert(1)&gt;"
