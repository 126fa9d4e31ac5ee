"""Runs with changed images or questions beside their clean run, by models whose robustness is known."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import medvqa
from medvqa import comparing, statistics
from medvqa.cli import main
from medvqa.comparing import ChangedMeasure, Robustness, Side
from medvqa.report import comparison
from medvqa.report import robustness as report_of
from medvqa.report.bundle import several_runs
from medvqa.report.bundle.page_blocks import PlotBlock
from medvqa.statistics import UnitTable
from support import robust
from support.laws import examples

KNOWN = {"ward": robust.WARD}
NUMBER = 120
ALL = {"": robust.CLEAN, **robust.CURVE, **robust.FORMS}


def found_in(sides: Sequence[Side]) -> Robustness:
    (found,) = comparing.robustness(sides, KNOWN)
    return found


def answered(texts: str, perturb: str = "", ablation: str = "", name: str = "", **about: Any) -> Side:
    """A run by the answer to each question: R is refused, T abstained, ? unparsed, E an error; `-` is not asked."""
    asked = zip(robust.items(len(texts), 1), texts, strict=True)
    results = [robust.result(item, text) for item, text in asked if text != "-"]
    return robust.side(name or perturb or ablation or "clean", results, perturb, ablation, **about)


def rows_of(found: Robustness) -> dict[tuple[str, int | None], ChangedMeasure]:
    return {(row.name, row.level): row for row in found.changes}


@pytest.fixture(scope="module")
def sides() -> list[Side]:
    return robust.runs(ALL, NUMBER, 2, np.random.default_rng(1))


# ---- the known curve ---------------------------------------------------------------------------------------------


def test_intervals_hold_the_known_curve_and_consistency(sides: list[Side]) -> None:
    """One draw; bench/robustness.py counts how often."""
    found = found_in(sides)
    rows = rows_of(found)
    for level in (*range(1, 6), None):
        truth = robust.MEAN if level is None else robust.CURVE[f"gaussian_noise:{level}"]
        row = rows["gaussian_noise", level]
        change = row.compared.shown
        assert change.low is not None
        assert change.high is not None
        assert change.low < truth - robust.CLEAN < change.high
        for figure, value in ((row.value, truth), (row.retained, truth / robust.CLEAN)):
            assert figure.low is not None
            assert figure.high is not None
            assert figure.low < value < figure.high
    values = [rows["gaussian_noise", level].value.value or 0.0 for level in range(1, 6)]
    assert rows["gaussian_noise", None].value.value == pytest.approx(np.mean(values))
    every = found.consistency[-1]
    assert every.forms == ("false_premise", "irrelevant_context:3", "typos:3")
    truth = robust.consistency(robust.CLEAN, *robust.FORMS.values())
    assert every.share.low is not None
    assert every.share.high is not None
    assert every.share.low < truth < every.share.high


def test_a_model_of_known_robustness_through_the_public_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ward = robust.pictured(tmp_path, NUMBER)
    options = {"": {}, "noise": {"perturb": "gaussian_noise:5"}, "blank": {"ablate": "blank"}}
    for name, option in options.items():
        medvqa.evaluate(robust.KnownModel, ward, run=name or "clean", folder=tmp_path, progress=False, **option)
    runs = comparing.load_runs(tmp_path / "reports" / (name or "clean") for name in options)
    (found,) = comparing.robustness(runs, {"ward": ward})
    noise, blank = found.changes
    assert (noise.kind, noise.level, blank.kind, blank.name) == ("image", 5, "visual reliance", "blank")
    for row in (noise, blank):
        assert row.compared.shown.units == NUMBER
        assert row.value.low is not None
        assert row.value.high is not None
        assert row.value.low < 0.5 < row.value.high
        assert row.retained.high is not None
        assert row.retained.high < 1


def test_the_difference_is_that_of_the_comparison_of_two_runs(sides: list[Side]) -> None:
    by_name = {side.name: side for side in sides}
    found = found_in(sides)
    assert {row.baseline for row in found.changes} == {"clean"}
    for row in found.changes:
        if row.level is not None:
            wanted = comparing.compare(by_name[row.run], sides[0], KNOWN)
            assert wanted.difference is not None
            assert wanted.difference.line("NEW", "BASE").startswith("the perturbation: ")
            (accuracy,) = (each for each in wanted.tables if each.metric == "accuracy" and not each.slice)
            assert replace(row.compared, adjusted=None) == replace(accuracy, adjusted=None)


def test_retained_is_the_ratio_with_the_wider_bounds_of_its_equation() -> None:
    draw = np.random.default_rng(5)
    clean, new = (draw.random(80) < share for share in (0.8, 0.4))
    numbers = np.arange(80)
    tables = tuple(
        UnitTable(each.astype(float), np.ones(80), numbers, numbers // 2, np.zeros(80, int)) for each in (new, clean)
    )
    (compared,) = statistics.compare(*tables, binary=True, level=0.975)
    alone = tuple(statistics.estimate(table, binary=True).figure() for table in tables)
    share = statistics.retained(tables, alone, compared)
    b = clean.mean()
    assert share.value == pytest.approx(new.mean() / b)

    def bound(of: Any, end: float, near: float, far: float) -> float:
        """The root of the equation; with groups of one size and equal weights, CR2 is proportional to their sums."""
        x, sums = of.mean(), [(each - each.mean()).reshape(40, 2).sum(axis=1) for each in (of, clean.astype(float))]
        r = (sums[0] @ sums[1]) / np.sqrt((sums[0] @ sums[0]) * (sums[1] @ sums[1]))

        def apart(q: float) -> float:
            return float((x - q * b) ** 2 - (x - end) ** 2 - q**2 * near**2 + 2 * r * q * abs(x - end) * near)

        return float(brentq(apart, *sorted((x / b, far))))

    low, high, own = alone[1].low, alone[1].high, alone[0]
    assert compared.high < 0
    lows = 1 + bound(new - clean.astype(float), compared.low, b - low, -1.5), bound(new, own.low, high - b, 0.0)
    highs = 1 + bound(new - clean.astype(float), compared.high, high - b, 0.0), bound(new, own.high, b - low, 1.5)
    assert (share.low, share.high) == pytest.approx((min(lows), max(highs)), abs=1e-9)


def test_no_right_answer_does_not_show_that_nothing_remains() -> None:
    (row,) = found_in([answered("AAAB" * 10), answered("B" * 40, "contrast_down:5")]).changes
    assert (row.retained.value, row.retained.low) == (0, 0)
    assert row.value.high is not None
    assert row.retained.high is not None
    assert row.retained.high > row.value.high / 0.75


# ---- laws --------------------------------------------------------------------------------------------------------


@examples(60)
@given(st.lists(st.sampled_from("AAAB"), min_size=12, max_size=40))
def test_a_run_that_answers_equally_retains_all(texts: list[str]) -> None:
    (row,) = found_in([answered("".join(texts)), answered("".join(texts), "contrast_down:1")]).changes
    if row.retained.value is not None:
        assert row.retained.value == 1
        assert row.retained.low is not None
        assert row.retained.high is not None
        # As for the difference, no change in a sample does not show that nothing changes.
        assert row.retained.low < 1 < row.retained.high


PAIRED = st.lists(st.tuples(st.sampled_from("AAAB"), st.sampled_from("AABBR")), min_size=20, max_size=60)


@examples(120)
@given(PAIRED)
def test_retained_holds_values_on_both_sides_of_1_exactly_if_the_difference_holds_0(
    pairs: list[tuple[str, str]],
) -> None:
    clean, new = ("".join(texts) for texts in zip(*pairs, strict=True))
    (row,) = found_in([answered(clean), answered(new, "contrast_down:1")]).changes
    share, change = row.retained, row.compared.shown
    if share.low is not None and share.high is not None and change.low is not None and change.high is not None:
        assert (share.low >= 1, share.high <= 1) == (change.low >= 0, change.high <= 0)
        assert 0 <= share.low <= (share.value or 0.0) <= share.high


@examples(30)
@given(st.permutations(range(len(ALL))))
def test_the_order_of_runs_does_not_matter(order: list[int]) -> None:
    few = robust.runs(ALL, 24, 2, np.random.default_rng(2))
    assert found_in([few[place] for place in order]) == found_in(few)


@examples(60)
@given(st.lists(st.tuples(*[st.sampled_from("AABBR?")] * 3), min_size=12, max_size=40))
def test_consistency_over_all_forms_is_at_most_that_of_each(triples: list[tuple[str, str, str]]) -> None:
    clean, *forms = ("".join(texts) for texts in zip(*triples, strict=True))
    sides = [answered(clean), answered(forms[0], "typos:1"), answered(forms[1], "paraphrase:a.csv@00112233")]
    *single, every = found_in(sides).consistency
    assert [each.forms for each in single] == [("paraphrase:a.csv",), ("typos:1",)]
    assert all((every.share.value or 0.0) <= (each.share.value or 0.0) for each in single)
    assert all(every.invalid >= each.invalid for each in single)
    same = [len(set(own)) == 1 and own[0] in "AB" for own in triples]
    assert every.share.value == pytest.approx(np.mean(same))
    assert every.invalid == sum(not {*own} <= {*"AB"} for own in triples)


# ---- what is compared ---------------------------------------------------------------------------------------------


def test_retained_is_undefined_unless_the_clean_run_is_shown_above_0() -> None:
    for clean in ("B" * 30, "A" + "B" * 29):
        (row,) = found_in([answered(clean), answered("A" * 30, "contrast_down:1")]).changes
        assert (row.retained.value, row.retained.low, row.retained.high) == (None, None, None)
    few = found_in([answered("A" * 8), answered("AAAAAABB", "contrast_down:1")]).changes[0]
    assert (few.value.text, few.retained.value) == ("6/8", None)
    known = {"ward": replace(robust.WARD, headline=("invalid_rate",))}
    sides = [answered("AR" * 15), answered("A" * 30, "contrast_down:1")]
    (row,) = comparing.robustness(sides, known)[0].changes
    assert (row.compared.shown.baseline, row.retained.value) == (0.5, None)


def test_the_mean_needs_every_level_and_is_over_the_questions_of_all() -> None:
    right = ["A" * 20, "A" * 20, "A" * 10 + "B" * 10, "A" * 5 + "B" * 15, "B" * 18 + "--"]
    levels = [answered(texts, f"motion_blur:{level}") for level, texts in enumerate(right, 1)]
    assert {row.level for row in found_in([answered("A" * 20), *levels[:4]]).changes} == {1, 2, 3, 4}
    rows = rows_of(found_in([answered("A" * 20), *levels]))
    mean = rows["motion_blur", None].compared.shown
    assert (mean.units, rows["motion_blur", 5].compared.shown.units, mean.baseline) == (18, 18, 1.0)
    assert mean.new == pytest.approx((1 + 1 + 10 / 18 + 5 / 18 + 0) / 5)
    assert rows["motion_blur", 1].compared.shown.units == 20


def test_a_changed_run_stands_beside_the_clean_run_of_its_model_alone() -> None:
    texts = "AB" * 15
    changes = "", "contrast_down:1"
    other = [answered(texts, perturb, name=f"other {perturb}", model="other") for perturb in changes]
    own = [answered(texts), answered(texts, "contrast_down:1"), answered(texts, ablation="blank")]
    found = comparing.robustness([*other, *own], KNOWN)
    assert [(each.clean, [row.run for row in each.changes]) for each in found] == [
        ("other ", ["other contrast_down:1"]),
        ("clean", ["contrast_down:1", "blank"]),
    ]
    assert not comparing.robustness(own[1:], KNOWN)
    twice = comparing.robustness([own[0], replace(own[0], name="again"), own[1]], KNOWN)
    assert [each.clean for each in twice] == ["clean"]


def test_a_flip_is_no_form_and_has_its_own_row() -> None:
    sides = [answered("A" * 12), answered("B" * 12, "flip"), answered("A" * 12, "typos:3")]
    found = found_in(sides)
    assert [(each.forms, each.share.value) for each in found.consistency] == [(("typos:3",), 1.0), (("flip",), 0.0)]
    assert any(
        note.startswith("A left-right flip is a test of its own") for section in text_of(sides) for note in section
    )


def test_a_form_of_few_questions_cuts_no_other_and_is_named_beside_all_together() -> None:
    sides = [answered("A" * 12), answered("A" * 6 + "B" * 6, "typos:3"), answered("AB" + "-" * 10, "paraphrase:a.csv")]
    found = found_in(sides)
    assert [(each.forms, each.share.value, each.share.n) for each in found.consistency] == [
        (("paraphrase:a.csv",), 0.5, 2),
        (("typos:3",), 0.5, 12),
        (("paraphrase:a.csv", "typos:3"), 0.5, 2),
    ]
    told = (
        "ward, mc: the same answer in all forms is counted on the 2 questions that all forms asked; paraphrase:a.csv "
        "asked the fewest, 2."
    )
    assert told in report_of.notes(found)
    assert any(told in section for section in text_of(sides))
    equal = [*sides[:2], answered("A" * 12, "typos:1")]
    assert not any("asked the fewest" in note for note in report_of.notes(found_in(equal)))


def text_of(sides: Sequence[Side]) -> list[tuple[str, ...]]:
    return [section.notes for section in comparison.of_study(comparing.study(sides, KNOWN), KNOWN)]


def test_runs_without_a_score_in_common_have_rows_without_numbers() -> None:
    found = found_in([answered("A" * 12 + "E" * 12), answered("E" * 12 + "A" * 12, "typos:1")])
    (row,), (same,) = found.changes, found.consistency
    assert (row.value.value, row.compared.shown.difference, row.retained.value) == (None, None, None)
    assert (same.share.value, same.share.n, same.invalid) == (None, 0, 0)
    (table, _) = report_of.tables(found)
    assert table.texts[0][3:6] == ["\u2013", "\u2013", ""]


def test_consistency_of_several_answers_is_the_share_of_samples() -> None:
    def sampled(perturb: str, *samples: str) -> Side:
        asked = robust.items(len(samples[0]), 1)
        results = [
            replace(robust.result(item, text), sample=sample)
            for sample, texts in enumerate(samples, 1)
            for item, text in zip(asked, texts, strict=True)
        ]
        return robust.side(perturb or "clean", results, perturb)

    found = found_in([sampled("", "A" * 12, "B" * 12), sampled("typos:1", "A" * 12, "B" * 6 + "A" * 3 + "R" * 3)])
    (same,) = found.consistency
    assert (same.share.value, same.share.n, same.invalid) == (0.75, 12, 3)


def test_abstention_on_withheld_and_swapped_images_is_beside_the_clean_run() -> None:
    sides = [
        answered("A" * 16 + "TTTR", abstain=True),
        answered("T" * 15 + "AAR??", ablation="text-only", abstain=True),
        answered("T" * 6 + "A" * 14, ablation="shuffle", abstain=True),
    ]
    found = found_in(sides)
    rows = {(row.name, row.compared.metric): row.compared.shown for row in found.changes if row.kind == "abstention"}
    wanted = {
        ("shuffle", "abstained_rate"): (3, 6),
        ("shuffle", "refused_rate"): (1, 0),
        ("shuffle", "unparsed_rate"): (0, 0),
        ("text-only", "abstained_rate"): (3, 15),
        ("text-only", "refused_rate"): (1, 1),
        ("text-only", "unparsed_rate"): (0, 2),
    }
    counts = {key: (round(20 * (row.baseline or 0)), round(20 * (row.new or 0))) for key, row in rows.items()}
    assert counts == wanted
    abstained = rows["text-only", "abstained_rate"]
    assert abstained.low is not None
    assert abstained.low > 0
    without_offer = [answered("AB" * 10), answered("T" * 20, ablation="text-only")]
    assert {row.kind for row in found_in(without_offer).changes} == {"visual reliance"}


def test_masks_are_compared_with_each_other_on_the_questions_of_both() -> None:
    sides = [
        answered("A" * 24),
        answered("A" * 8 + "B" * 12 + "----", "mask_region:blur"),
        answered("--" + "A" * 16 + "BB" + "----", "mask_elsewhere:blur"),
        answered("A" * 24, "mask_region:black"),
    ]
    rows = rows_of(found_in(sides))
    assert {(name, row.compared.shown.units) for (name, _), row in rows.items()} == {
        ("mask_region:blur", 20),
        ("mask_elsewhere:blur", 18),
        ("mask_elsewhere:blur - mask_region:blur", 18),
        ("mask_region:black", 24),
    }
    apart = rows["mask_elsewhere:blur - mask_region:blur", 0]
    assert (apart.run, apart.baseline) == ("mask_elsewhere:blur", "mask_region:blur")
    assert apart.compared.shown.difference == pytest.approx(16 / 18 - 6 / 18)
    assert apart.compared.shown.low is not None
    assert apart.compared.shown.low > 0
    said = " ".join(note for notes in text_of(sides) for note in notes)
    assert "It has no verdict, and is no part of a gate" in said
    assert "faithful" not in said
    assert "looks" not in said


# ---- where it shows ------------------------------------------------------------------------------------------------


def test_perturbed_runs_are_compared_with_the_clean_run_and_not_ranked(sides: list[Side]) -> None:
    other = replace(sides[0], name="other")
    study = comparing.study([sides[0], other, *sides[1:]], KNOWN)
    assert study.board == (0, 1)
    assert not study.apart
    assert {versus.paired.baseline.name for versus in study.versus} == {"clean"}
    blank = answered("AB" * (NUMBER // 2), ablation="blank")
    beside = comparing.study([sides[0], sides[1], blank], KNOWN)
    assert (beside.board, beside.rankings, dict(beside.apart)) == ((0,), (), {})
    shuffled = answered("AB" * (NUMBER // 2), ablation="shuffle")
    ranked = comparing.study([sides[0], other, blank, shuffled], KNOWN)
    assert (ranked.board, dict(ranked.apart)) == ((0, 1), {})
    assert {row.name for each in ranked.rankings for row in each.rows} == {"clean", "other"}
    both = answered("AB" * (NUMBER // 2), "contrast_down:1", "blank", name="both")
    assert comparing.contrast(both, sides[0]).refusals == (
        "2 settings differ, so no effect can be told: the image: blank in both, shown in clean; the perturbation: "
        "contrast_down:1 in both, none in clean",
    )


def test_terminal_files_and_page_say_the_same(sides: list[Side]) -> None:
    study = comparing.study([*sides, answered("AB" * (NUMBER // 2), ablation="blank")], KNOWN)
    section = next(each for each in comparison.of_study(study, KNOWN) if each.title == "Robustness of clean")
    changes, same = section.tables
    assert changes.title == "ward, mc: accuracy"
    assert [row[:3] for row in changes.texts] == [
        *(["image", "gaussian_noise", level] for level in ("1", "2", "3", "4", "5", "mean")),
        *(["form", *named] for named in (("false_premise", ""), ("irrelevant_context", "3"), ("typos", "3"))),
        ["visual reliance", "blank", ""],
    ]
    (page,) = (each for each in several_runs.sections(study, KNOWN) if each.id == "robustness")
    plot = next(block for block in page.blocks if isinstance(block, PlotBlock))
    assert [series.title for series in plot.series] == ["clean", "gaussian noise", "irrelevant context", "typos"]
    rows = rows_of(study.robustness[0])
    for place, point in enumerate(plot.series[1].points, 1):
        figure = rows["gaussian_noise", place].value
        assert (point.y, point.low, point.high) == (figure.value, figure.low, figure.high)
    told = json.loads(json.dumps(comparison.as_json(study)["robustness"]))
    assert len(told["changes"]) == len(changes.rows)
    assert [row["form"] for row in told["consistency"]] == [row[3] for row in same.rows]
    lines = list(csv.DictReader(io.StringIO(report_of.as_csv(study.robustness))))
    assert [line["change"] for line in lines] == [row[1] for row in changes.texts]
    for line, row, wanted in zip(lines, told["changes"], study.robustness[0].changes, strict=True):
        numbers = (
            wanted.compared.shown.baseline,
            wanted.value.low,
            wanted.compared.shown.difference,
            wanted.retained.high,
        )
        names = "baseline", "value_low", "difference", "retained_high"
        assert tuple(row[name] for name in names) == pytest.approx(numbers)
        assert tuple(float(line[name]) for name in names) == pytest.approx(numbers)


def test_the_command_writes_a_table_of_changes_beside_that_of_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ("random", "phantom-mediconfusion")
    for name, option in {"clean": {}, "noisy": {"perturb": "gaussian_noise:1"}}.items():
        medvqa.evaluate(*asked, run=name, folder=tmp_path, progress=False, limit=8, **option)
    runs = ["reports/clean", "reports/noisy"]
    assert main(["compare", *runs, "--csv=x.csv", "--markdown=x.md", "--json=x.json", "--flips=0"]) == 0
    assert "Robustness of clean" in capsys.readouterr().out
    assert "## Robustness of clean" in Path("x.md").read_text()
    (line, *_) = csv.DictReader(io.StringIO(Path("x.robustness.csv").read_text()))
    assert (line["new_run"], line["baseline_run"], line["change"], line["level"]) == (
        "noisy",
        "clean",
        "gaussian_noise",
        "1",
    )
    assert json.loads(Path("x.json").read_text())["robustness"]["changes"][0]["new_run"] == "noisy"
