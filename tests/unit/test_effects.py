"""The views of a comparison of several runs: effects of one setting, boards, and slices by run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import comparing
from medvqa.cli import main
from medvqa.comparing import Ranked, Ranking, Side, Study
from medvqa.figures import FEW, Figure
from medvqa.report import bundle, html
from medvqa.report.bundle import boards
from support import pages
from support.runs import record

ABOUT = {name: {"signature": {"extraction": "sound"}, "prompts": {"mc": "x@1"}} for name in pages.PHANTOM}
BLANK: Mapping[str, Any] = {
    name: {**entry, "signature": {"extraction": "sound", "ablation": "blank"}} for name, entry in ABOUT.items()
}

PHANTOM = "phantom-mediconfusion"
SIDES = tuple(Side(name, record(), ()) for name in "ABC")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A model and its blank run, another model and its blank run."""
    folder = tmp_path_factory.mktemp("runs")
    first = [result for result in pages.guesses() if "mediconfusion" in result.item.benchmark]
    good = pages.changed(pages.marked(first, right=True), 3, 0.1, 0.1)
    weak = pages.changed(first, 4, 0.6)
    return [
        pages.write(folder / "A", good, model={"name": "A"}, benchmarks=ABOUT),
        pages.write(folder / "A-blank", first, model={"name": "A"}, benchmarks=BLANK),
        pages.write(folder / "B", weak, model={"name": "B"}, benchmarks=ABOUT),
        pages.write(folder / "B-blank", first, model={"name": "B"}, benchmarks=BLANK),
    ]


@pytest.fixture(scope="module")
def study(runs: list[Path]) -> Study:
    return comparing.study([comparing.load(run) for run in runs], pages.PHANTOM)


@pytest.fixture(scope="module")
def view(study: Study) -> dict[str, Any]:
    blocks = bundle.of_comparison(study, pages.PHANTOM, html.Pictures("none", "No images."))
    comparison: dict[str, Any] = json.loads(blocks["head"])["comparison"]
    return comparison


def said(pair: Mapping[str, Any]) -> str:
    (part,) = pair["parts"]
    return "".join(word["text"] for word in part["sentence"]["words"])


def test_an_effect_is_said_as_the_gain_of_the_image_with_its_bounds(view: dict[str, Any]) -> None:
    pairs = view["pairs"]
    assert [(pair["new"], pair["baseline"], pair.get("setting", "")) for pair in pairs] == [
        (1, 0, "ablate"),
        (2, 0, ""),
        (3, 2, "ablate"),
    ]
    assert [pair.get("question", "") for pair in pairs] == [
        "Does it look at the picture?",
        "",
        "Does it look at the picture?",
    ]
    (part,) = pairs[0]["parts"]
    first = part["rows"][0]
    # The blank run is the new one: its loss is the gain of the image.
    assert first["sure"] == "worse"
    shown, blank, gain, low, high = (
        f"{100 * value:.2f}"
        for value in (first["baseline"], first["new"], -first["difference"], -first["high"], -first["low"])
    )
    assert said(pairs[0]).startswith(
        f"Set accuracy with the image {shown} %, with a blank one {blank} % of 36 pairs: the image gains {gain} points "
        f"(95 % interval {low} to {high}); p {first['adjusted']:.3f}, "
        f"corrected for {view['tests']} tests."
    )
    assert "no gain of the image is shown" in said(pairs[2])


def test_a_board_has_the_difference_of_every_two_runs(view: dict[str, Any], study: Study) -> None:
    assert view["tests"] == study.tests == 9
    for board, ranking in zip(view["boards"], study.rankings, strict=True):
        (shown,), (pair,) = board["pairs"], ranking.pairs
        seen = pair.compared.shown
        assert (shown["new"], shown["baseline"]) == (2, 0)
        assert (shown["difference"], shown["low"], shown["high"]) == (seen.difference, seen.low, seen.high)
        assert shown["adjusted"] == pair.compared.adjusted
        assert shown["shown"] == f"{100 * seen.difference:+.2f}".replace("-", "\u2212")
        assert (shown["sure"] != "") == (shown["adjusted"] <= 0.05)
        leader, other = (("A", "B")[row["run"] // 2] for row in board["rows"])
        measure = board["measure"].replace("_", " ")
        if shown.get("sure", ""):
            assert board["sentence"].startswith(f"By {measure}, {leader} leads with ")
            assert board["sentence"].endswith(f"%, better than {other}.")
        else:
            assert board["sentence"] == f"By {measure}, no difference between any two runs of the leaderboard is shown."


def test_a_board_names_those_that_may_be_as_good_as_its_first() -> None:
    """Of three runs, the third is shown to be worse than the first, and the second is not."""
    rows = [
        Ranked("A", Figure(0.9, 0.8, 1.0), 1, 1, 2),
        Ranked("B", Figure(0.8, 0.7, 0.9), 2, 1, 3),
        Ranked("C", Figure(0.5, 0.4, 0.6), 3, 2, 3),
    ]

    def sentence(*ranked: Ranked) -> str:
        ranking = Ranking("single", "mc", "accuracy", "higher", 9, 9, 9, ranked, ())
        (board,) = boards.boards(Study(SIDES, SIDES, (0, 1, 2), (), (ranking,)), {"single": pages.PHANTOM[PHANTOM]})
        return board.sentence

    assert sentence(*rows) == "By accuracy, A leads with 90.00 %; B (80.00 %) may be as good."
    alone = [replace(rows[0], worst=1), replace(rows[1], best=2), rows[2]]
    assert sentence(*alone) == "By accuracy, A leads with 90.00 %, better than each other run."
    second = [rows[0], replace(rows[1], best=2, worst=2), replace(rows[2], best=3)]
    assert sentence(*second) == "By accuracy, A leads with 90.00 %; for each other run, a better one is shown."
    equal = [replace(row, best=1, worst=3) for row in rows]
    assert sentence(*equal) == "By accuracy, no difference between any two runs is shown."


def test_a_matrix_marks_a_slice_as_the_comparison_does(view: dict[str, Any], study: Study) -> None:
    paired = study.versus[1].paired
    told = 0
    for matrix in view["matrices"]:
        measure = view["scales"][matrix["scale"]]["measure"]
        for row in matrix["rows"]:
            own, other = row["cells"]
            (wanted,) = (
                each
                for each in paired.tables
                if each.metric == measure and each.slice == {matrix["dimension"]: row["value"]}
            )
            assert (own["run"], other["run"], own.get("difference")) == (0, 2, None)
            assert (own["value"], other["value"]) == pytest.approx((wanted.shown.baseline, wanted.shown.new))
            assert (other["difference"], other.get("adjusted")) == (wanted.shown.difference, wanted.adjusted)
            assert other["few"] == (other["n"] < FEW)
            sure = wanted.adjusted is not None and wanted.adjusted <= 0.05 and not other["few"]
            assert (other.get("sure", "") != "") == sure
            told += 1
    assert told > 10


def test_medvqa_compare_compares_what_is_comparable_and_names_the_rest(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], study: Study
) -> None:
    results = [result for result in pages.guesses() if "mediconfusion" in result.item.benchmark]
    official = {name: {**entry, "signature": {"extraction": "official"}} for name, entry in ABOUT.items()}
    odd = pages.write(tmp_path / "odd", results, benchmarks=official)
    file = tmp_path / "all.json"
    assert main(["compare", *map(str, runs), str(odd), f"--json={file}"]) == 0
    printed = capsys.readouterr().out
    for line in ("A-blank against A (the image", "B against A\n", "B-blank against B (the image", "odd against A\n"):
        assert line in printed
    assert "! not comparable: phantom-mediconfusion: the extraction is official in odd and sound in A" in printed
    assert "p by Holm over all 9 tests of headline measures and pairs of runs" in printed
    written = json.loads(file.read_text())
    assert written["tests"] == 9
    assert [(each["new"], each["baseline"], bool(each["measures"])) for each in written["comparisons"]] == [
        ("A-blank", "A", True),
        ("B", "A", True),
        ("B-blank", "B", True),
        ("odd", "A", False),
    ]
    numbers = [measure["adjusted"] for each in written["comparisons"] for measure in each["measures"]]
    assert numbers == [measure.adjusted for versus in study.versus for measure in versus.paired.tables]
    assert main(["compare", str(runs[0]), str(runs[3])]) == 4
    assert "2 settings differ" in capsys.readouterr().err
