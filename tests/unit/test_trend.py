"""Trends: a measure of several runs by a number of each, such as the size of its model."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medvqa import comparing, metrics
from medvqa.cli import main
from medvqa.comparing import Side, Trend, trend
from medvqa.items import Answer, Benchmark, DataError, Item, Prompt, Result, Score, UsageError
from medvqa.report import comparison
from support.laws import examples
from support.runs import record

SLAKE = Benchmark(
    name="slake",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=lambda item, answer: Score(0.0, "wrong"),
    metrics=(metrics.accuracy,),
)
SIZES = {"small": 1e9, "middle": 7e9, "large": 13e9, "huge": 72e9}


def run(name: str, letters: str, groups: int = 0) -> Side:
    """A run with one letter for each question; A is right. Questions are in `groups`, 0: alone."""
    results = []
    for n, letter in enumerate(letters):
        cluster = f"c{n % groups}" if groups else None
        item = Item(f"q{n:03}", "slake", "single_choice", f"{n}?", {"A": "a", "B": "b"}, ("A",), cluster_id=cluster)
        score = Score(1.0, "correct", ("A",)) if letter == "A" else Score(0.0, "wrong", (letter,))
        results.append(Result(name, item, "", Answer(letter), score))
    return Side(name, record({"model": {"name": f"model {name}"}}), tuple(results))


def letters(draw: random.Random, share: float, number: int = 60) -> str:
    return "".join("A" if draw.random() < share else "B" for _ in range(number))


def runs(groups: int = 0) -> list[Side]:
    draw = random.Random(7)
    return [run(name, letters(draw, share), groups) for name, share in zip(SIZES, (0.3, 0.5, 0.4, 0.8), strict=True)]


def only(sides: list[Side]) -> Trend:
    (found,) = comparing.trends(sides, {"slake": SLAKE}, "parameters", SIZES)
    return found


def scores(sides: list[Side]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(runs, questions)."""
    return np.array([[result.score.value for result in side.results] for side in sides], dtype=float)


def test_the_slope_is_that_of_least_squares_and_its_interval_that_of_the_slopes_of_the_questions() -> None:
    """With equal weights the slope is the mean of the questions' own slopes, so its interval is that of a mean."""
    sides = runs()
    found, places, values = only(sides), np.log10(list(SIZES.values())), scores(sides)
    line = stats.linregress(places, values.mean(axis=1))
    assert found.slope.value == pytest.approx(line.slope)
    own = [stats.linregress(places, column).slope for column in values.T]
    low, high = stats.ttest_1samp(own, 0).confidence_interval(0.95)
    assert (found.slope.low, found.slope.high) == pytest.approx((low, high))
    half = line.stderr * stats.t.ppf(0.975, 2)
    assert (found.models.low, found.models.high) == pytest.approx((line.slope - half, line.slope + half))
    assert [row.name for row in found.rows] == list(SIZES)
    assert (found.items, found.scored) == (60, 60)


def test_questions_of_one_group_widen_the_interval_as_the_jackknife_of_groups_does() -> None:
    sides = runs(groups=12)
    found, places, values = only(sides), np.log10(list(SIZES.values())), scores(sides)
    of = np.arange(values.shape[1]) % 12
    without = [stats.linregress(places, values[:, of != group].mean(axis=1)).slope for group in range(12)]
    jackknife = 11 / 12 * np.sum((np.array(without) - np.mean(without)) ** 2)
    assert found.slope.low is not None
    assert found.slope.high is not None
    half = (found.slope.high - found.slope.low) / 2
    assert half == pytest.approx(stats.t.ppf(0.975, 11) * jackknife**0.5, rel=1e-6)


@given(st.permutations(range(4)), st.floats(0.001, 1000))
@examples(20)
def test_order_of_runs_and_unit_of_the_number_do_not_matter(order: list[int], unit: float) -> None:
    sides = runs()
    found = only(sides)
    scaled = {name: unit * size for name, size in SIZES.items()}
    (again,) = comparing.trends([sides[i] for i in order], {"slake": SLAKE}, "parameters", scaled)
    assert (again.slope.value, again.slope.low, again.slope.high) == pytest.approx(
        (found.slope.value, found.slope.low, found.slope.high)
    )
    assert [row.name for row in again.rows] == [row.name for row in found.rows]


def test_three_runs_have_no_interval_over_models_and_two_no_trend() -> None:
    found = only(runs()[:3])
    assert found.slope.low is not None
    assert found.models.low is None
    with pytest.raises(UsageError, match="a trend needs at least 3 runs, and 2 are named"):
        only(runs()[:2])
    with pytest.raises(UsageError, match="all runs have the same parameters"):
        comparing.trends(runs(), {"slake": SLAKE}, "parameters", dict.fromkeys(SIZES, 7.0))


def test_a_trend_is_on_the_questions_that_all_runs_have() -> None:
    sides = runs()
    shorter = Side("small", record(), sides[0].results[:50])
    found = only([shorter, *sides[1:]])
    assert (found.items, found.scored) == (50, 50)
    assert found.rows[0].figure.value == pytest.approx(scores([shorter]).mean())


def test_numbers_are_read_by_run_or_by_model(tmp_path: Path) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text("run,parameters\n" + "".join(f"{name},{size}\n" for name, size in SIZES.items()))
    assert trend.numbers(file, runs()) == ("parameters", SIZES)
    file.write_text("model;parameters\n" + "".join(f"model {name};{size:g}\n" for name, size in SIZES.items()))
    assert trend.numbers(file, runs()) == ("parameters", SIZES)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("run,x\nsmall,1\n", UsageError, "no run 'middle'; there are: small"),
        ("run,x,y\nsmall,1,2\n", UsageError, "one column of numbers beside 'run' is expected; there are: x, y"),
        ("run\nsmall\n", UsageError, "one column of numbers beside 'run' is expected; there are: none"),
        ("run,x\nsmall,big\n", DataError, "row 2, column 'x': no number: 'big'"),
        ("run,x\nsmall,0\n", DataError, "row 2, column 'x': 0 has no logarithm; numbers above 0 are needed"),
        ("run,x\nsmall,nan\n", DataError, "nan has no logarithm"),
        ("run,x\nsmall,1\nsmall,2\n", DataError, "row 3, column 'x': 'small' has 1 in an earlier row; keep one of"),
        ("name,x\nsmall,1\n", DataError, "run"),
    ],
)
def test_a_table_of_numbers_that_cannot_be_used_is_named(
    tmp_path: Path, content: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(error, match=message):
        trend.numbers(tmp_path / "x.csv", runs())


def test_the_table_is_sorted_and_says_that_it_is_an_association() -> None:
    found = only(runs())
    table = comparison.trend(found)
    assert table.headings == ["run", "parameters", "%", "95 % interval"]
    assert [row[:2] for row in table.rows] == [
        ("small", "1e+09"),
        ("middle", "7e+09"),
        ("large", "1.3e+10"),
        ("huge", "7.2e+10"),
    ]
    assert table.title.startswith("slake, mc: accuracy by parameters (60 items that all runs have). +")
    assert table.title.endswith("an association, for the models differ in more")


def test_compare_by_a_number_prints_the_trend_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from support import pages

    monkeypatch.chdir(tmp_path)
    folders = list(map(str, pages.several_runs(tmp_path, "phantom-mediconfusion")))
    names = [Path(folder).name for folder in folders]
    Path("sizes.csv").write_text("run,parameters\n" + "".join(f"{name},{10**n}\n" for n, name in enumerate(names)))
    assert main(["compare", *folders, "--by=sizes.csv", "--json=x.json", "--markdown=x.md"]) == 0
    printed = capsys.readouterr().out
    assert "Trend over parameters" in printed
    assert "difference in points" not in printed
    assert [each["metric"] for each in json.loads(Path("x.json").read_text())["trends"]] == [
        "set_accuracy",
        "individual_accuracy",
        "confusion",
    ]
    assert (
        "## Trend over parameters" in Path("x.md").read_text() or "# Trend over parameters" in Path("x.md").read_text()
    )
    assert main(["compare", *folders[:2], "--by=sizes.csv"]) == 4
    assert "a trend needs at least 3 runs" in capsys.readouterr().err
