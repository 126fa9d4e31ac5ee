"""Runs side by side: cells, means of groups of runs, and gaps to chance."""

from dataclasses import replace

import pytest

from medvqa.figures import Table, terminal, texts
from medvqa.items import Measure
from medvqa.report import side_by_side
from medvqa.report.side_by_side import SideRow, above_chance, as_csv, as_text, with_means


def measure(value: float | None, chance: float | None, **slices: str) -> Measure:
    references = {} if chance is None else {"random": chance}
    return Measure("mine", "accuracy", value, None, None, 10, slice=slices, references=references)


OPEN = [measure(0.3, 0.25), measure(0.5, 0.25, task="disease_diagnosis"), measure(0.1, 0.2, task="bone")]
OTHER = [measure(0.5, 0.25), measure(0.8, 0.25, task="disease_diagnosis"), measure(0.4, 0.2, task="bone")]
SHORT = [measure(0.9, 0.25), measure(0.9, 0.25, task="bone"), measure(1.0, 0.1, kind="judgment")]


def table(**runs: list[Measure]) -> side_by_side.SideBySide:
    return side_by_side.side_by_side(runs, "accuracy", "task")


def test_a_long_tag_is_clipped_where_people_read_it_and_the_numbers_stay() -> None:
    long = "x" * 200_000
    found = table(open=[*OPEN, measure(0.125, 0.25, task=long)])
    shown = as_text(found)
    assert shown.headings[-1] == "x" * 59 + "…"
    assert len(terminal(shown)) < 400
    assert "12.50" in terminal(shown)
    (few,) = side_by_side.of_few({"open": [replace(measure(0.5, None, task=long), n=2, count=1)]}, found)
    assert len(few) < 80
    assert "x" * 1000 in as_csv([found])
    drawn = terminal(Table("", texts(long, "n"), ((long, "1"),)))
    assert [line.split()[-1] for line in drawn.splitlines()] == ["n", "1"]


def test_a_row_for_each_run_and_a_column_for_each_value_in_the_order_of_names() -> None:
    found = table(open=OPEN, other=OTHER)
    assert found.columns == ("", "bone", "disease_diagnosis")
    assert found.rows == (SideRow("open", (0.3, 0.1, 0.5)), SideRow("other", (0.5, 0.4, 0.8)))
    assert found.random == SideRow("chance", (0.25, 0.2, 0.25))
    shown = as_text(found)
    assert shown.headings == ["run", "overall", "B", "DD"]
    assert shown.texts[-1] == ["chance", "25.00", "20.00", "25.00"]


def test_the_mean_of_a_group_is_unweighted_and_undefined_where_a_run_lacks_a_cell() -> None:
    found = with_means(
        table(open=OPEN, other=OTHER, short=SHORT), {"both": ["open", "other"], "all": ["other", "short"]}
    )
    both, everyone = found.rows[-2:]
    assert (both.name, both.runs) == ("mean of both", 2)
    assert both.values == pytest.approx((0.4, 0.25, 0.65))
    assert everyone.values == pytest.approx((0.7, 0.65, None))
    assert as_text(found).texts[-2] == ["mean of all (2 runs)", "70.00", "65.00", "–"]


def test_gaps_are_to_the_chance_of_the_same_run_and_slice() -> None:
    """Insufficiency 1 of GMAI-MMBench: the mean of the models minus the row Random, task by task."""
    runs = {"open": OPEN, "other": OTHER}
    found = with_means(above_chance(table(**runs), runs), {"both": ["open", "other"]})
    assert [row.values for row in found.rows] == [
        pytest.approx((0.05, -0.1, 0.25)),
        pytest.approx((0.25, 0.2, 0.55)),
        pytest.approx((0.15, 0.05, 0.4)),
    ]
    assert found.random is None
    assert as_text(found).texts[0] == ["open", "+5.00", "-10.00", "+25.00"]
    without = {"open": [measure(0.3, None), measure(0.5, None, task="bone")]}
    assert above_chance(table(**without), without).rows == (SideRow("open", (None, None)),)


def test_a_mean_gap_of_next_to_nothing_has_no_minus_sign() -> None:
    runs = {"above": [measure(0.3, 0.25), measure(0.31, 0.25, task="bone")], "below": [measure(0.19999999, 0.25)]}
    found = with_means(above_chance(table(**runs), runs), {"both": ["above", "below"]})
    assert as_text(found).texts[-1][1] == "+0.00"


def test_the_row_of_chance_is_left_out_if_the_runs_differ_in_it() -> None:
    other = [measure(0.5, 0.5), *OTHER[1:]]
    assert table(open=OPEN, other=other).random is None
    (chance,) = [row for row in (table(open=OPEN, short=SHORT).random,) if row]
    assert chance.values == (0.25, None, None), "bone differs, and short has no disease diagnosis"


def test_few_units_are_counts_and_intervals_stand_beside_the_others() -> None:
    """One question of two is no 50.00 %, and a mean over such cells is none either."""
    whole = Measure("mine", "accuracy", 0.3, 0.2, 0.45, 60, count=18, references={"random": 0.25})
    rare = Measure("mine", "accuracy", 0.5, None, None, 2, slice={"task": "bone"}, count=1, units=2)
    found = with_means(table(one=[whole, rare], two=[whole, rare]), {"both": ["one", "two"]})
    assert as_text(found).texts[0] == ["one", "30.00", "1/2"]
    assert as_text(found).texts[2] == ["mean of both (2 runs)", "30.00", "–"]
    assert as_text(found, intervals=True).texts[0] == ["one", "30.00 (20.00–45.00)", "1/2"]
    runs = {"one": [whole, rare]}
    gaps = above_chance(table(**runs), runs)
    assert as_text(gaps, intervals=True).texts[0] == ["one", "+5.00 (-5.00 to +20.00)", "1/2"]
    assert as_csv([gaps]).splitlines()[1].split(",")[5:] == [
        pytest.approx("0.04999999999999999"), "-0.04999999999999999", "0.2", "60"
    ]  # fmt: skip


def test_the_csv_holds_fractions() -> None:
    lines = as_csv([with_means(table(open=OPEN, other=OTHER), {"both": ["open", "other"]})]).splitlines()
    assert lines[:3] == [
        "run,runs,measure,dimension,slice,value,low,high,n",
        "open,1,accuracy,,,0.3,,,10",
        "open,1,accuracy,task,bone,0.1,,,10",
    ]
    assert lines[7].startswith("mean of both,2,accuracy,,,0.4")
