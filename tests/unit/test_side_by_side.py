"""Runs side by side: cells, means of groups of runs, and gaps to chance."""

from dataclasses import replace

import pytest

from medvqa.figures import Table, latex, terminal, texts
from medvqa.items import Measure
from medvqa.report import side_by_side
from medvqa.report.side_by_side import as_csv, as_table


def measure(value: float | None, chance: float | None, **slices: str) -> Measure:
    references = {} if chance is None else {"random": chance}
    return Measure("mine", "accuracy", value, None, None, 10, slice=slices, references=references)


OPEN = [measure(0.3, 0.25), measure(0.5, 0.25, task="disease_diagnosis"), measure(0.1, 0.2, task="bone")]
OTHER = [measure(0.5, 0.25), measure(0.8, 0.25, task="disease_diagnosis"), measure(0.4, 0.2, task="bone")]
SHORT = [measure(0.9, 0.25), measure(0.9, 0.25, task="bone"), measure(1.0, 0.1, kind="judgment")]


def table(**runs: list[Measure]) -> side_by_side.SideBySide:
    return side_by_side.side_by_side(runs, "accuracy", "task")


def values(row: side_by_side.SideRow) -> list[float | None]:
    return [figure.value for figure in row.figures]


def test_a_long_tag_is_clipped_where_people_read_it_and_the_numbers_stay() -> None:
    long = "x" * 200_000
    found = table(open=[*OPEN, replace(measure(0.5, 0.25, task=long), n=2, count=1)])
    shown = as_table(found)
    assert shown.headings[-1] == "x" * 59 + "…"
    assert len(terminal(shown)) < 400
    assert "1/2" in terminal(shown)
    (few,) = side_by_side.of_few(found)
    assert len(few) < 80
    assert "x" * 1000 in as_csv([found])
    drawn = terminal(Table("", texts(long, "n"), ((long, "1"),)))
    assert [line.split()[-1] for line in drawn.splitlines()] == ["n", "1"]


def test_a_row_for_each_run_and_a_column_for_each_value_in_the_order_of_names() -> None:
    found = table(open=OPEN, other=OTHER)
    assert found.columns == ("", "bone", "disease_diagnosis")
    assert {row.name: values(row) for row in found.rows} == {
        "open": [0.3, 0.1, 0.5],
        "other": [0.5, 0.4, 0.8],
        "chance": [0.25, 0.2, 0.25],
    }
    shown = as_table(found)
    assert shown.headings == ["run", "overall", "B", "DD"]
    assert shown.texts[-1] == ["chance", "25.00", "20.00", "25.00"]


def test_the_mean_of_a_group_is_unweighted_and_undefined_where_a_run_lacks_a_cell() -> None:
    groups = {"both": ["open", "other"], "all": ["other", "short"]}
    found = side_by_side.side_by_side({"open": OPEN, "other": OTHER, "short": SHORT}, "accuracy", "task", groups)
    both, everyone, _ = found.rows[-3:]
    assert (both.name, both.runs) == ("mean of both", 2)
    assert values(both) == pytest.approx((0.4, 0.25, 0.65))
    assert values(everyone) == pytest.approx((0.7, 0.65, None))
    assert as_table(found).texts[-2] == ["mean of all (2 runs)", "70.00", "65.00", "–"]


def gaps(groups: dict[str, list[str]] | None = None, **runs: list[Measure]) -> side_by_side.SideBySide:
    return side_by_side.side_by_side(runs, "accuracy", "task", groups, gap=True)


def test_gaps_are_to_the_chance_of_the_same_run_and_slice() -> None:
    """Insufficiency 1 of GMAI-MMBench: the mean of the models minus the row Random, task by task."""
    found = gaps({"both": ["open", "other"]}, open=OPEN, other=OTHER)
    assert [values(row) for row in found.rows] == [
        pytest.approx((0.05, -0.1, 0.25)),
        pytest.approx((0.25, 0.2, 0.55)),
        pytest.approx((0.15, 0.05, 0.4)),
    ]
    assert as_table(found).texts[0] == ["open", "+5.00", "-10.00", "+25.00"]
    (without,) = gaps(open=[measure(0.3, None), measure(0.5, None, task="bone")]).rows
    assert values(without) == [None, None]


def test_a_mean_gap_of_next_to_nothing_has_no_minus_sign() -> None:
    above = [measure(0.3, 0.25), measure(0.31, 0.25, task="bone")]
    found = gaps({"both": ["above", "below"]}, above=above, below=[measure(0.19999999, 0.25)])
    assert as_table(found).texts[-1][1] == "+0.00"


def test_the_row_of_chance_is_left_out_if_the_runs_differ_in_it() -> None:
    other = [measure(0.5, 0.5), *OTHER[1:]]
    assert [row.name for row in table(open=OPEN, other=other).rows] == ["open", "other"]
    chance = table(open=OPEN, short=SHORT).rows[-1]
    assert (chance.name, values(chance)) == ("chance", [0.25, None, None]), "bone differs, short has no diagnosis"


def test_few_units_are_counts_and_intervals_stand_beside_the_others() -> None:
    """One question of two is no 50.00 %, and a mean over such cells is none either."""
    whole = Measure("mine", "accuracy", 0.3, 0.2, 0.45, 60, count=18, references={"random": 0.25})
    rare = Measure(
        "mine", "accuracy", 0.5, None, None, 2, slice={"task": "bone"}, count=1, units=2, references={"random": 0.2}
    )
    runs = {"one": [whole, rare], "two": [whole, rare]}
    found = side_by_side.side_by_side(runs, "accuracy", "task", {"both": ["one", "two"]})
    assert as_table(found).texts[0] == ["one", "30.00", "1/2"]
    assert as_table(found).texts[2] == ["mean of both (2 runs)", "30.00", "–"]
    assert as_table(found, intervals=True).texts[0] == ["one", "30.00 (20.00–45.00)", "1/2"]
    found = gaps(one=[whole, rare])
    assert as_table(found, intervals=True).texts[0] == ["one", "+5.00 (-5.00 to +20.00)", "1/2"]
    assert as_csv([found]).splitlines()[1].split(",")[5:] == [
        "0.04999999999999999",
        "-0.04999999999999999",
        "0.2",
        "60",
    ]


def test_the_csv_holds_fractions() -> None:
    groups = {"both": ["open", "other"]}
    lines = as_csv([side_by_side.side_by_side({"open": OPEN, "other": OTHER}, "accuracy", "task", groups)]).splitlines()
    assert lines[:3] == [
        "run,runs,measure,dimension,slice,value,low,high,n",
        "open,1,accuracy,,,0.3,,,10",
        "open,1,accuracy,task,bone,0.1,,,10",
    ]
    assert lines[7].startswith("mean of both,2,accuracy,,,0.4")
    assert lines[-1] == "chance,1,accuracy,task,disease_diagnosis,0.25,,,"


def test_latex_has_the_texts_of_the_terminal() -> None:
    shown = as_table(table(open_1=OPEN))
    assert latex(shown).splitlines() == [
        "% accuracy by task, percent",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"run & overall & B & DD \\",
        r"\midrule",
        r"open\_1 & 30.00 & 10.00 & 50.00 \\",
        r"chance & 25.00 & 20.00 & 25.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
