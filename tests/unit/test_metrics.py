"""Results -> measures: published totals, the laws of counting, and the levels that need no model."""

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import isfinite
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, norm, t
from statsmodels.stats.proportion import proportion_confint

import medvqa
from medvqa import metrics, statistics
from medvqa.items import (
    OUTCOMES,
    TECHNIQUES,
    Answer,
    Benchmark,
    FailedMetric,
    Item,
    Measure,
    Metric,
    Outcome,
    Result,
    Score,
    Technique,
    UsageError,
)
from medvqa.protocols import added_measures, voting
from medvqa.protocols.protocol import Protocol
from medvqa.tags import selection
from support.laws import examples

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")

EVERY = (
    metrics.accuracy,
    metrics.macro_accuracy("task"),
    metrics.precision_mcls,
    metrics.recall_mcls,
    metrics.exact_match,
    metrics.set_accuracy,
    metrics.individual_accuracy,
    metrics.confusion,
    metrics.set_precision,
    metrics.valid_pairs,
    metrics.mean_score,
    metrics.macro_score("task"),
    *metrics.rates,
)
ITEM_METRICS = (metrics.accuracy, metrics.precision_mcls, metrics.recall_mcls, metrics.exact_match, metrics.mean_score)
PAIRED = (metrics.set_accuracy, metrics.individual_accuracy, metrics.confusion, metrics.invalid_rate)


def credit(item: Item, answer: Answer) -> Score:
    """MedLesionVQA's rule: nothing for a wrong letter, else the share of the right ones; open answers by their text."""
    chosen = tuple(sorted(answer.text.split(","))) if answer.text else ()
    if not item.answers:
        return Score(None, "unscored", chosen)
    if not chosen or (item.options and not set(chosen) <= set(item.options)):
        return Score(0.0, "unparsed")
    if not set(chosen) <= set(item.answers):
        return Score(0.0, "wrong", chosen)
    value = len(chosen) / len(item.answers) if item.options else 1.0
    return Score(value, "correct" if value == 1 else "partial", chosen)


def single(id: str, answers: str = "A", options: str = "AB", **changes: Any) -> Item:
    letters = {letter: f"finding {letter}" for letter in options}
    return Item(id, "slake", "single_choice", "Which?", letters, tuple(answers), **changes)


def multiple(id: str, answers: str, options: str = "ABCD", **changes: Any) -> Item:
    return replace(single(id, answers, options, **changes), kind="multiple_response")


def pair(id: str, tags: Sequence[dict[str, tuple[str, ...]]] = ({}, {}), keys: str = "AB") -> list[Item]:
    return [single(f"{id}/{i + 1}", keys[i], tags=tags[i], pair_id=id) for i in (0, 1)]


def said(item: Item, text: str) -> Result:
    return Result("run", item, "", Answer(text), credit(item, Answer(text)))


def ended(item: Item, outcome: Outcome) -> Result:
    value = {"unscored": None, "error": None, "correct": 1.0, "partial": 0.5}.get(outcome, 0.0)
    letters = {"correct": item.answers, "wrong": tuple(set(item.options) - set(item.answers))[:1]}
    return Result("run", item, "", None, Score(value, outcome, letters.get(outcome, ())))


def measured(
    results: Sequence[Result], chosen: Sequence[Metric] = EVERY, dimensions: Sequence[str] = (), **known: Any
) -> list[Measure]:
    return metrics.measures(
        results, chosen, dimensions, benchmark="slake", signature=known.get("signature", {}), score=credit
    )


def overall(results: Sequence[Result], metric: Metric) -> Measure:
    (found,) = [measure for measure in measured(results, [metric]) if not measure.slice]
    return found


def at(results: Sequence[Result], metric: Metric, dimension: str, value: str) -> Measure:
    (found,) = [measure for measure in measured(results, [metric]) if measure.slice == {dimension: value}]
    return found


# Published numbers


def answered(technique: Technique, both: int, same: int, neither: int, invalid: int, half: int = 0) -> list[Measure]:
    """A model's measures where so many pairs are right, have one answer for both, the wrong one for each, or no letter.

    Of the pairs with an invalid answer `half` have the other one right.
    """
    texts = ["AB"] * both + ["AA"] * same + ["BA"] * neither + ["A "] * half + ["  "] * (invalid - half)
    results = [
        replace(said(item, letter.strip()), technique=technique)
        for n, pair_texts in enumerate(texts)
        for item, letter in zip(pair(str(n)), pair_texts, strict=True)
    ]
    return [replace(each, technique=technique) for each in measured(results, PAIRED)]


@needs_reference
def test_instructblip_s_row_of_table_one_and_its_maxima_come_out() -> None:
    """Its best set accuracy is MC's and its best individual accuracy GD's: each is a maximum of its own."""
    row = json.loads((REFERENCE / "mediconfusion" / "paper_table1.json").read_text())["table1"]["InstructBLIP"]
    runs: dict[Technique, list[Measure]] = {
        "mc": answered("mc", both=22, same=139, neither=12, invalid=3),
        "gd": answered("gd", both=14, same=159, neither=3, invalid=0),
        "ff": answered("ff", both=5, same=41, neither=1, invalid=129, half=18),
        "ps": answered("ps", both=6, same=166, neither=4, invalid=0),
    }
    for name, published in zip(("set_accuracy", "individual_accuracy", "confusion"), row, strict=True):
        found = {m.technique: m.value for run in runs.values() for m in run if m.name == name and not m.slice}
        assert [round(100 * (found[technique] or 0), 2) for technique in runs] == published, name
    every = [measure for run in runs.values() for measure in run]
    best = [m for m in metrics.maxima(every, signature={"data": "d"}) if not m.slice]
    assert [(m.name, round(100 * (m.value or 0), 2), m.count, m.n) for m in best] == [
        ("best_set_accuracy", 12.50, 22, 176),
        ("best_individual_accuracy", 53.12, 187, 352),
    ]
    for measure in best:
        assert measure.technique == "max(ff,gd,mc,ps)"
        assert (measure.low, measure.high, measure.references) == (None, None, {})
        assert metrics.parts(measure.signature)["technique"] == "max(ff,gd,mc,ps)"
        assert metrics.parts(measure.signature)["data"] == "d"
    assert metrics.maxima(runs["mc"], signature={}) == [], "one technique has no maximum"
    assert metrics.maxima([m for m in every if m.name == "confusion"], signature={}) == []


@given(
    st.lists(st.lists(st.sampled_from(["AB", "AA", "BB", "BA", "A "]), min_size=1, max_size=6), min_size=2, max_size=3)
)
def test_a_maximum_is_one_of_its_values_and_none_is_larger(runs: list[list[str]]) -> None:
    every: list[Measure] = []
    for technique, texts in zip(TECHNIQUES, runs, strict=False):
        results = []
        for n, letters in enumerate(texts):
            tags: list[dict[str, tuple[str, ...]]] = [{"category": ("abc"[n % 3],)}, {"category": ("a",)}]
            results += [said(item, text.strip()) for item, text in zip(pair(str(n), tags), letters, strict=True)]
        every += [replace(each, technique=technique) for each in measured(results, PAIRED, ("category",))]
    best = {(m.name, *m.slice.values()): m.value for m in metrics.maxima(every, signature={})}
    for name in ("set_accuracy", "individual_accuracy"):
        slices = {tuple(m.slice.values()) for m in every if m.name == name}
        for labels in slices:
            values = [m.value for m in every if m.name == name and tuple(m.slice.values()) == labels]
            assert best[f"best_{name}", *labels] == max(value for value in values if value is not None)


@pytest.fixture(scope="module")
def gpt4o() -> list[Result]:
    return recorded("gpt4o_mc_predictions.json")


def recorded(predictions: str) -> list[Result]:
    """GPT-4o's answers to MediConfusion, as its owners' own cleaner read them: the score of a chosen letter is 10."""
    folder = REFERENCE / "mediconfusion"
    pairs = json.loads((folder / "dataset.json").read_text())
    named = json.loads((folder / "image_dict.json").read_text()).values()
    article = {each["local"]: Path(each["dlink"]).name for each in named}
    clusters = selection.components([article[data[f"im_{i}_local"]] for i in (1, 2)] for data in pairs.values())
    answers = json.loads((folder / predictions).read_text())
    results = []
    for id, data in pairs.items():
        for image in ("1", "2"):
            item = Item(
                f"{id}/{image}",
                "mediconfusion",
                "single_choice",
                data["question"],
                {"A": data["option_A"], "B": data["option_B"]},
                (data[f"im_{image}_correct"],),
                tags={"category": tuple(data[f"category_{image}"])},
                pair_id=id,
                cluster_id=clusters[article[data[f"im_{image}_local"]]],
            )
            scores = answers[id]["answer"][f"im{image}"]["answer"]
            results.append(said(item, ",".join(letter for letter in "AB" if scores[letter] == 10)))
    return results


@needs_reference
def test_the_official_totals_come_out(gpt4o: list[Result]) -> None:
    found = {metric.name: overall(gpt4o, metric) for metric in PAIRED}
    assert {name: (measure.count, measure.n, measure.unit) for name, measure in found.items()} == {
        "set_accuracy": (30, 176, "pairs"),
        "individual_accuracy": (189, 352, "items"),
        "confusion": (116, 157, "pairs"),
        "invalid_rate": (20, 352, "items"),
    }


@needs_reference
def test_the_official_counts_of_every_category_come_out(gpt4o: list[Result]) -> None:
    official = json.loads((REFERENCE / "mediconfusion" / "gpt4o_mc_scores.json").read_text())
    slots = json.loads((REFERENCE / "mediconfusion" / "stats.json").read_text())["image_slots_per_category"]
    counts, units = {}, {}
    for measure in measured(gpt4o, PAIRED, ("category",)):
        if "category" in measure.slice:
            counts[measure.name, measure.slice["category"]] = (measure.count, measure.n)
            units[measure.name] = measure.unit
    expected = {}
    for category, size in slots.items():
        expected["set_accuracy", category] = (official["set_score"][category], size)
        expected["individual_accuracy", category] = (official["individual_score"][category], size)
        expected["confusion", category] = (official["confused"][category], official["valids"][category])
        expected["invalid_rate", category] = (official["invalid"][category], size)
    assert counts == expected
    assert units["set_accuracy"] == units["confusion"] == "image slots"
    assert units["individual_accuracy"] == "items"


@needs_reference
def test_the_intervals_of_a_recorded_run_are_those_of_its_58_groups(gpt4o: list[Result]) -> None:
    in_set, alone = overall(gpt4o, metrics.set_accuracy), overall(gpt4o, metrics.individual_accuracy)
    assert (in_set.value, in_set.low, in_set.high) == pytest.approx((0.1705, 0.112, 0.251), abs=5e-4)
    assert (alone.value, alone.low, alone.high) == pytest.approx((0.5369, 0.498, 0.576), abs=5e-4)
    (table,) = metrics.tables(gpt4o, [metrics.set_accuracy], ())
    found = statistics.clustered(statistics.ratios(table.table()))
    assert (found.groups[0], round(float(found.df[0]), 1)) == (58, 16.7)


@needs_reference
def test_the_flips_between_two_recorded_runs_do_not_go_together_within_groups(gpt4o: list[Result]) -> None:
    """12 of 176 pairs flip; with groups at random the correlation has a standard deviation of 0.16."""
    tables = [
        metrics.tables(run, [metrics.set_accuracy], ())[0].table()
        for run in (gpt4o, recorded("gpt4o_mc_predictions_run1.json"))
    ]
    one, other = (statistics.by_unit(table.in_slice(0))[0] for table in tables)
    change = statistics.own_values(one) - statistics.own_values(other)
    found = statistics.flip_correlation(change, one.group)
    assert (found.units, found.flips, found.groups) == (176, 12, 58)
    assert found.icc == pytest.approx(-0.11, abs=0.005)
    draw = np.random.default_rng(0)
    shuffled = [statistics.flip_correlation(draw.permutation(change), one.group).icc or 0 for _ in range(500)]
    assert np.std(shuffled) == pytest.approx(0.16, abs=0.01)


@needs_reference
def test_the_published_reference_lines_of_pairs_come_out(gpt4o: list[Result]) -> None:
    lines = {metric.name: overall(gpt4o, metric).references for metric in PAIRED}
    assert lines["set_accuracy"] == {"random": 0.25, "majority": 0.0, "image_blind": 0.0}
    assert lines["individual_accuracy"] == {"random": 0.5, "majority": 0.5, "image_blind": 0.5}
    assert lines["confusion"] == {"random": 0.5, "majority": 1.0, "image_blind": 1.0}
    assert lines["invalid_rate"] == {}


@needs_reference
@pytest.mark.parametrize("models", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_the_published_overall_of_table_2_is_the_micro_average(models: int) -> None:
    folder = REFERENCE / "gmai-mmbench"
    counts: dict[str, int] = json.loads((folder / "test_counts.json").read_text())["counts"]
    rows: dict[str, dict[str, float]] = json.loads((folder / "paper_tables.json").read_text())["table2_tasks"]
    off, macro_off = [], []
    for row in list(rows.values())[:models]:
        results = []
        for task, n in counts.items():
            right = round(row[task] * n / 100)
            results += [
                ended(single(f"{task}-{i}", tags={"task": (task,)}), "correct" if i < right else "wrong")
                for i in range(n)
            ]
        found = metrics.measures(
            results, (metrics.accuracy, metrics.macro_accuracy("task")), (), benchmark="gmai", signature={}
        )
        micro, macro = (measure for measure in found if not measure.slice)
        assert micro.value is not None
        assert macro.value is not None
        assert (micro.n, macro.n, macro.unit) == (20_602, 18, "slices")
        off.append(abs(100 * micro.value - row["test"]))
        macro_off.append(abs(100 * macro.value - row["test"]))
    assert max(off) < 0.01
    assert min(macro_off) > 0.1


# Table 12 of GMAI-MMBench

LEVELS = ("contour_level", "mask_level", "image_level", "box_level")


def at_level(level: str, right: int, n: int) -> list[Result]:
    return [
        ended(single(f"{level}-{i}", tags={"granularity": (level,)}), "correct" if i < right else "wrong")
        for i in range(n)
    ]


@needs_reference
def test_the_overall_of_table_12_comes_out_where_the_row_is_legible() -> None:
    """26 of 41 rows; in the others the OCR of the paper misread a digit."""
    rows = json.loads((REFERENCE / "gmai-mmbench" / "paper_tables.json").read_text())["table12"]
    columns = dict(zip(LEVELS, ("seg_contour", "seg_mask", "cls2d_image", "det2d_box"), strict=True))
    weights = dict(metrics.table12_overall.weights)
    overall = {
        name: sum(weights[level] * row[column] for level, column in columns.items()) / sum(weights.values())
        for name, row in rows.items()
    }
    assert sum(weights.values()) == 25_831
    assert (round(overall["GPT-40"], 2), round(overall["Random"], 2)) == (53.88, 25.88)
    agreeing = [name for name, row in rows.items() if abs(overall[name] - row["overall_test"]) < 0.02]
    assert (len(agreeing), len(rows)) == (26, 41)


def test_the_overall_of_table_12_weighs_the_levels_as_the_paper_counts_them() -> None:
    """(5587 / 2 + 5587 / 4 + 12942 * 3 / 4 + 0) / 25831, whatever the numbers of questions."""
    shares = ((20, 40), (10, 40), (30, 40), (0, 20))
    results = [result for level, share in zip(LEVELS, shares, strict=True) for result in at_level(level, *share)]
    found = overall(results, metrics.table12_overall)
    assert found.value == pytest.approx(13_896.75 / 25_831)
    assert (found.n, found.unit, found.count, found.slice) == (4, "slices", None, {})
    assert found.references["random"] == pytest.approx(0.5)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    signature = metrics.parts(found.signature)
    assert signature["mean_over"] == "granularity"
    assert signature["weights"] == "contour_level=5587+mask_level=5587+image_level=12942+box_level=1715"


def test_the_overall_of_table_12_needs_all_four_levels() -> None:
    three = [result for level in LEVELS[:3] for result in at_level(level, 1, 2)]
    assert measured(three, [metrics.table12_overall]) == []
    unscored = [ended(single("box", tags={"granularity": ("box_level",)}), "error")]
    found = overall([*three, *unscored], metrics.table12_overall)
    assert (found.value, found.low, found.high, found.n) == (None, None, None, 3)


# MediConfusion's score table


@needs_reference
@pytest.mark.parametrize(("run", "precision", "valid"), [("", (30, 41), (157, 176)), ("_run1", (34, 45), (160, 176))])
def test_the_columns_precision_and_valid_pairs_of_the_owners_table_come_out(
    run: str, precision: tuple[int, int], valid: tuple[int, int]
) -> None:
    """`print_score` prints `valids` as "Valid pairs" and `valid_pairs` as "Precision total", by category in slots."""
    results = recorded(f"gpt4o_mc_predictions{run}.json")
    official = json.loads((REFERENCE / "mediconfusion" / f"gpt4o_mc_scores{run}.json").read_text())
    slots = json.loads((REFERENCE / "mediconfusion" / "stats.json").read_text())["image_slots_per_category"]
    found = measured(results, (metrics.set_precision, metrics.valid_pairs), ("category",))
    counted = {
        (each.name, each.slice.get("category", "total")): (each.count, each.n)
        for each in found
        if "kind" not in each.slice
    }
    assert counted["set_precision", "total"] == precision
    assert counted["valid_pairs", "total"] == valid
    for category, size in slots.items():
        different = official["valid_pairs"][category]
        # Without such a pair the precision is undefined; the owners print 0.
        expected = (official["set_score"][category], different) if different else None
        assert counted.get(("set_precision", category)) == expected
        assert counted["valid_pairs", category] == (official["valids"][category], size)
    if not run:
        (whole,) = [each for each in found if each.name == "set_precision" and not each.slice]
        assert round(100 * (whole.value or 0), 2) == 73.17
        assert whole.references == {"random": 0.5}


def test_precision_is_undefined_without_a_pair_of_different_answers() -> None:
    results = [said(item, "A") for item in pair("1")] + [said(item, "") for item in pair("2")]
    assert (overall(results, metrics.set_precision).value, overall(results, metrics.valid_pairs).value) == (None, 0.5)


# Crossed dimensions


def test_crossed_dimensions_have_a_slice_for_each_combination() -> None:
    tags: list[dict[str, tuple[str, ...]]] = [
        {"ability": ("lesion",), "type": ("judgment",)},
        {"ability": ("lesion", "region"), "type": ("judgment",)},
        {"ability": ("region",), "type": ("choice",)},
        {"ability": ("region",)},
    ]
    results = [said(single(str(i), tags=of), "AABA"[i]) for i, of in enumerate(tags)]
    found = {
        each.slice["ability+type"]: (each.count, each.n)
        for each in measured(results, [metrics.accuracy], ("ability", "ability+type"))
        if "ability+type" in each.slice
    }
    assert found == {"lesion+judgment": (2, 2), "region+judgment": (1, 1), "region+choice": (0, 1)}
    assert all("ability+type" not in each.slice for each in measured(results, [metrics.accuracy], ("ability",)))
    by_kind = measured(results, [metrics.accuracy], ("ability+kind",))
    assert {each.slice["ability+kind"] for each in by_kind if "ability+kind" in each.slice} == {
        "lesion+single_choice",
        "region+single_choice",
    }


# What each metric counts


@pytest.mark.parametrize(
    ("technique", "finish", "outcome", "terms"),
    [
        ("mc", "length", "unparsed", (1, 1)),
        ("mc", "length", "correct", (1, 1)),
        ("ff", "length", "unscored", (1, 1)),
        ("mc", "max_tokens", "unparsed", (1, 1)),
        ("mc", "MAX_TOKENS", "correct", (1, 1)),
        ("mc", "stop", "correct", (0, 1)),
        ("mc", "refusal", "refused", (0, 1)),
        ("mc", "", "correct", (0, 0)),
        ("gd", "length", "correct", (0, 0)),
        ("ps", "stop", "correct", (0, 0)),
    ],
)
def test_truncated_answers_are_those_in_words_that_were_cut_off(
    technique: Technique, finish: str, outcome: Outcome, terms: tuple[float, float]
) -> None:
    """Whether it has a score does not matter, and how an answer without words or of unknown end ended is not told."""
    result = replace(ended(single(outcome), outcome), technique=technique, answer=Answer("A", finish=finish))
    assert metrics.truncated_rate.terms([result]) == terms
    assert metrics.truncated_rate.terms([replace(result, answer=None)]) == (0, 0)


@pytest.mark.parametrize(
    ("metric", "counted", "n"),
    [
        (metrics.accuracy, {"correct"}, 6),
        (metrics.invalid_rate, {"refused", "abstained", "unparsed"}, 6),
        (metrics.refused_rate, {"refused"}, 6),
        (metrics.abstained_rate, {"abstained"}, 6),
        (metrics.unparsed_rate, {"unparsed"}, 6),
        (metrics.error_rate, {"error"}, 8),
    ],
)
def test_invalid_answers_stay_in_the_denominator_and_answers_without_a_value_do_not(
    metric: Metric, counted: set[Outcome], n: int
) -> None:
    results = [ended(single(outcome), outcome) for outcome in OUTCOMES]
    found = overall(results, metric)
    assert (found.count, found.n) == (len(counted), n)
    for result in results:
        alone = overall([result], metric)
        assert alone.count == (result.score.outcome in counted)


@pytest.mark.parametrize(
    ("text", "precision", "recall", "exact"),
    [
        ("A,C", 1, 1, 1),
        ("A", 1, 1 / 2, 0),
        ("A,B", 1 / 2, 1 / 2, 0),
        ("A,B,C", 2 / 3, 1, 0),
        ("B", 0, 0, 0),
        ("", 0, 0, 0),
    ],
)
def test_formulas_two_and_three_of_gmai_mmbench(text: str, precision: float, recall: float, exact: float) -> None:
    results = [said(multiple("q", "AC"), text), ended(multiple("lost", "AC"), "error")]
    chosen = (metrics.precision_mcls, metrics.recall_mcls, metrics.exact_match)
    assert [overall(results, metric).value for metric in chosen] == [precision, recall, exact]
    assert [overall(results, metric).n for metric in chosen] == [1, 1, 1]


def test_single_choice_and_multiple_response_are_kept_apart() -> None:
    results = [said(single("1"), "A"), said(multiple("2", "AB"), "A")]
    assert overall(results, metrics.accuracy).n == 1
    assert overall(results, metrics.recall_mcls).value == 0.5
    assert overall(results, metrics.mean_score).value == 0.75
    assert at(results, metrics.mean_score, "kind", "multiple_response").value == 0.5


@pytest.mark.parametrize(
    ("first", "second", "in_set", "confused"),
    [
        ("A", "B", 1, 0),
        ("A", "A", 0, 1),
        ("B", "A", 0, 0),
        ("A", "", 0, None),
        ("", "", 0, None),
    ],
)
def test_pairs(first: str, second: str, in_set: int, confused: int | None) -> None:
    results = [said(item, text) for item, text in zip(pair("7"), (first, second), strict=True)]
    assert overall(results, metrics.set_accuracy).value == in_set
    found = overall(results, metrics.confusion)
    assert (found.value, found.n) == (confused, 0 if confused is None else 1)


@pytest.mark.parametrize("outcome", ["error", "unscored"])
def test_a_pair_with_a_member_without_value_is_left_out(outcome: Outcome) -> None:
    whole, (one, other) = pair("1"), pair("2")
    results = [said(whole[0], "A"), said(whole[1], "B"), ended(one, outcome), said(other, "A")]
    assert (overall(results, metrics.set_accuracy).count, overall(results, metrics.set_accuracy).n) == (1, 1)
    assert overall(results, metrics.confusion).n == 1
    assert overall(results, metrics.individual_accuracy).n == 3


def test_a_broken_pair_is_named_and_left_out_of_pair_metrics() -> None:
    whole, (one, _) = pair("1"), pair("2")
    results = [said(whole[0], "A"), said(whole[1], "B"), said(one, "A"), said(single("alone"), "A")]
    assert metrics.broken_pairs(results) == ("2",)
    assert overall(results, metrics.set_accuracy).n == 1
    assert overall(results, metrics.individual_accuracy).n == 3


def test_the_macro_average_is_the_mean_over_slices_with_a_value() -> None:
    tasks = {"a": "AAAA", "b": "AB"}
    results = [
        said(single(f"{task}{i}", tags={"task": (task,)}), text)
        for task, texts in tasks.items()
        for i, text in enumerate(texts)
    ]
    results += [ended(single("lost", tags={"task": ("c",)}), "error"), said(single("untagged"), "B")]
    found = overall(results, metrics.macro_accuracy("task"))
    assert (found.value, found.n, found.unit, found.low, found.high) == (0.75, 2, "slices", None, None)
    assert overall(results, metrics.accuracy).value == 5 / 7
    assert measured(results, [metrics.macro_accuracy("organ")]) == []


# Slices


def test_slices_are_in_order_and_cover_every_dimension_and_the_kind() -> None:
    tags = {"organ": ("lung", "heart"), "task": ("b",)}
    results = [said(single("1", tags=tags), "A"), said(multiple("2", "AB", tags={"task": ("a",)}), "A,B")]
    found = [measure.slice for measure in measured(results, [metrics.mean_score], ("task", "modality"))]
    assert found == [
        {},
        {"task": "a"},
        {"task": "b"},
        {"kind": "multiple_response"},
        {"kind": "single_choice"},
        {"organ": "heart"},
        {"organ": "lung"},
    ]


def test_a_value_that_is_repeated_counts_once() -> None:
    assert at([said(single("1", tags={"task": ("a", "a")}), "A")], metrics.accuracy, "task", "a").n == 1


def test_a_pair_counts_in_a_category_once_for_each_of_its_images_there() -> None:
    categories = [{"category": ("cerebral", "vascular")}, {"category": ("cerebral",)}]
    results = [said(item, text) for item, text in zip(pair("1", categories), "AB", strict=True)]
    assert overall(results, metrics.set_accuracy).n == 1
    assert at(results, metrics.set_accuracy, "category", "cerebral").n == 2
    assert at(results, metrics.set_accuracy, "category", "vascular").n == 1
    assert at(results, metrics.individual_accuracy, "category", "vascular").n == 1


def test_two_image_slots_of_a_pair_do_not_narrow_its_interval() -> None:
    here = {"category": ("cerebral",)}
    results = [
        said(item, text)
        for i, answers in enumerate(["AB", "AA", "BB", "AB", "AA", "BA", "AB"])
        for item, text in zip(pair(str(i), [here, here]), answers, strict=True)
    ]
    whole, slots = overall(results, metrics.set_accuracy), at(results, metrics.set_accuracy, "category", "cerebral")
    assert slots.n == 2 * whole.n
    assert slots.low is not None
    assert (slots.value, slots.low, slots.high) == pytest.approx((whole.value, whole.low, whole.high))


def test_units_that_are_right_or_wrong_have_wilson_s_interval_at_their_effective_number() -> None:
    """7 of 10 independent: deff 10/9, 9 degrees of freedom, n* = 9 (1.95996 / 2.26216)^2 = 6.7561, Wilson of 0.7 n*."""
    results = [said(single(str(i)), "A" if i < 7 else "B") for i in range(10)]
    found, n = overall(results, metrics.accuracy), 9 * (norm.ppf(0.975) / t.ppf(0.975, 9)) ** 2
    assert (found.low, found.high) == pytest.approx(proportion_confint(0.7 * n, n, method="wilson"))
    assert (found.low, found.high) == pytest.approx((0.3422, 0.9128), abs=5e-5)


def wilsons(value: float, variance: float, df: float) -> tuple[float, float]:
    """Wilson's interval at n* = r (1 - r) / V (z / t)^2."""
    n = value * (1 - value) / variance * (norm.ppf(0.975) / t.ppf(0.975, df)) ** 2
    low, high = proportion_confint(value * n, n, method="wilson")
    return float(low), float(high)


def test_partial_credit_has_wilson_s_interval_at_its_own_variance() -> None:
    """5 of 10 right, as accuracy has; with halves in place of the wrong answers the variance is a quarter."""
    rows = [said(single(str(i)), "A" if i < 5 else "B") for i in range(10)]
    halves = [*rows[:5], *(replace(each, score=Score(0.5, "partial")) for each in rows[5:])]
    for results in (rows, halves):
        scores = [each.score.value or 0.0 for each in results]
        found = overall(results, metrics.mean_score)
        assert (found.low, found.high) == pytest.approx(wilsons(mean(scores), stdev(scores) ** 2 / 10, 9))


def test_questions_that_share_an_image_count_as_one_observation() -> None:
    """Of each group all answers are right, or all wrong: as good as one answer of each."""
    alone = [said(single(str(i)), "A" if i < 7 else "B") for i in range(10)]
    shared = [
        said(single(f"{i}-{n}", cluster_id=f"image {i}"), "A" if i < 7 else "B") for i in range(10) for n in range(4)
    ]
    one, four = overall(alone, metrics.accuracy), overall(shared, metrics.accuracy)
    assert four.n == 40
    assert (four.low, four.high) == pytest.approx((one.low, one.high))


def test_both_questions_of_a_pair_are_one_observation_even_where_their_clusters_differ() -> None:
    results = []
    for i, answers in enumerate(["AB", "AA", "BB", "AB", "AA", "BA", "AB"]):
        items = [replace(item, cluster_id=f"{i}-{n}") for n, item in enumerate(pair(str(i)))]
        results += [said(item, text) for item, text in zip(items, answers, strict=True)]
    for metric in (metrics.individual_accuracy, metrics.set_accuracy, metrics.invalid_rate):
        named = overall(results, metric)
        bare = overall([replace(each, item=replace(each.item, cluster_id=None)) for each in results], metric)
        assert (named.low, named.high) == (bare.low, bare.high)
        assert named.low is not None
    # 9 of 14 right: the pairs' means are 1, .5, .5, 1, .5, 0, 1. As 3 are equal, 4 deviate: too few for their variance
    # of 0.5 / 4 to count, so that seven pairs are taken for seven right or wrong ones.
    found = overall(results, metrics.individual_accuracy)
    assert found.value == pytest.approx(9 / 14)
    assert (found.low, found.high) == pytest.approx(wilsons(9 / 14, 9 / 14 * 5 / 14 / 7, 6))


def test_a_macro_average_has_the_interval_of_its_slices_together() -> None:
    """Slices of 8 and 16 independent units: V = (V1 + V2) / 4, V = r (1 - r) / (n - 1) of each."""
    tasks = {"a": "AAAAABBB", "b": "AAAAAAAAAAAABBBB"}
    results = [
        said(single(f"{task}{i}", tags={"task": (task,)}), text)
        for task, texts in tasks.items()
        for i, text in enumerate(texts)
    ]
    found = overall(results, metrics.macro_accuracy("task"))
    first, second = 5 / 8 * 3 / 8 / 7, 3 / 4 / 4 / 15
    # Under the working model of equal variances: 1/8 and 1/16, with 7 and 15 degrees of freedom.
    df = (1 / 8 + 1 / 16) ** 2 / ((1 / 8) ** 2 / 7 + (1 / 16) ** 2 / 15)
    assert found.value == (5 / 8 + 3 / 4) / 2
    variance = (first + second) / 4 * (t.ppf(0.975, df) / norm.ppf(0.975)) ** 2
    low, high = 1 - one_more(1 - found.value, variance, 1 / 16), one_more(found.value, variance, 1 / 16)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert metrics.parts(found.signature)["interval"] == "cr2-fay-feuer"


def one_more(value: float, variance: float, count: float) -> float:
    """The upper bound of a macro average as if one more right answer, of this weight, had been seen."""
    mean = (value + count) / (1 + count)
    n = mean * (1 - mean) * (1 + count) ** 2 * (1 + 2 * count) / (variance + count**2 * (1 - value)) - 1
    return float(beta.ppf(0.975, n * mean, n * (1 - mean)))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_groups_have_no_interval(count: int) -> None:
    """So many independent units have count - 1 degrees of freedom, and 4 are needed."""
    results = [said(single(str(i), cluster_id=str(i % count)), "AB"[i % 3 > 0]) for i in range(40)]
    found = overall(results, metrics.accuracy)
    assert (found.low, found.high) == (None, None)


def test_samples_of_one_question_are_averaged_before_anything_is_counted() -> None:
    """4 samples of each of 10 questions: 10 observations, not 40, and their means and variance."""
    right = [4, 4, 3, 3, 2, 2, 1, 0, 4, 1]
    results = [
        replace(said(single(str(i)), "A" if n <= count else "B"), sample=n)
        for i, count in enumerate(right)
        for n in range(1, 5)
    ]
    found = overall(results, metrics.accuracy)
    means = [count / 4 for count in right]
    assert (found.value, found.n) == (pytest.approx(mean(means)), 10)
    assert (found.low, found.high) == pytest.approx(wilsons(mean(means), stdev(means) ** 2 / 10, 9))
    assert measured([*results, *results]) == measured(results)


def test_a_sample_that_ended_in_error_is_left_out_of_its_question() -> None:
    results = [replace(said(single(str(i)), "A"), sample=n) for i in range(10) for n in (1, 2)]
    lost = replace(results[0], answer=None, score=Score(None, "error"))
    found = overall([lost, *results[1:]], metrics.accuracy)
    assert (found.value, found.n) == (1, 10)


def test_of_a_pair_the_samples_with_one_number_are_together() -> None:
    texts = [("AA", "AB"), ("AB", "BB"), ("AA", "BB"), ("BB", "AA"), ("AB", "AB"), ("AA", "AA")]
    results = [
        replace(said(item, text), sample=n)
        for i, samples in enumerate(texts)
        for item, said_of in zip(pair(str(i)), samples, strict=True)
        for n, text in enumerate(said_of, 1)
    ]
    results.append(replace(said(pair("0")[0], "A"), sample=3))
    found = overall(results, metrics.set_accuracy)
    # Sample by sample: (A, A), (A, B) | (A, B), (B, B) | both right twice | never | (A, A), (B, B) | (A, A) twice.
    assert (found.count, found.n) == (0.5 + 0.5 + 1, 6)
    assert metrics.broken_pairs(results) == ()


def test_one_wrong_sample_in_a_hundred_is_no_certainty() -> None:
    """40 questions asked three times: the interval is no narrower than that of 40 right answers."""
    rows = [
        replace(said(single(f"q{i}"), "B" if (i, k) == (7, 1) else "A"), sample=k) for i in range(40) for k in range(3)
    ]
    found = overall(rows, metrics.accuracy)
    assert found.value == pytest.approx(119 / 120)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.92
    assert found.value < found.high < 1


def test_a_signature_names_the_interval() -> None:
    (found, *_) = measured([said(single("1"), "A")], [metrics.accuracy])
    assert metrics.parts(found.signature)["interval"] == "cr2-wilson-2"


def test_a_metric_that_leaves_0_to_1_has_no_interval() -> None:
    @metrics.ratio(binary=False)
    def words(results: Sequence[Result]) -> tuple[float, float]:
        """Mean number of words."""
        return float(results[0].item.id), 1.0

    found = overall([said(single(str(i)), "A") for i in range(20)], words)
    assert (found.value, found.low, found.high) == (9.5, None, None)


def test_what_applies_to_nothing_is_left_out_and_what_is_undefined_is_null() -> None:
    assert measured([]) == []
    withheld = [said(single(str(i), "", tags={"task": ("a",)}), "A") for i in range(3)]
    found = {measure.name: measure for measure in measured(withheld)}
    assert (found["accuracy"].value, found["accuracy"].n, found["accuracy"].references) == (None, 0, {})
    assert (found["macro_accuracy"].value, found["macro_accuracy"].n) == (None, 0)
    assert not {"precision_mcls", "set_accuracy", "confusion"} & set(found)
    assert {measure.name for measure in measured(withheld) if measure.slice} == {"error_rate", "truncated_rate"}


# Laws

drawn_tags = st.fixed_dictionaries(
    {"task": st.lists(st.sampled_from("xyz"), max_size=2).map(tuple)},
    optional={"organ": st.lists(st.sampled_from(["lung", "heart"]), min_size=1, max_size=1).map(tuple)},
)


@st.composite
def runs(draw: st.DrawFn) -> list[Result]:
    """Results of single-choice, multiple-response and open questions, in and out of pairs, of every outcome."""
    results = []
    for n in range(draw(st.integers(1, 12))):
        sort = draw(st.sampled_from(["single", "multiple", "open", "pair"]))
        if sort == "pair":
            items = pair(f"p{n}", [draw(drawn_tags), draw(drawn_tags)], draw(st.sampled_from(["AB", "BA", "AA"])))
            items = items[: draw(st.sampled_from([1, 2, 2]))]
        elif sort == "open":
            open_item = Item(
                f"o{n}", "slake", "short_answer", "Why?", answers=(draw(st.sampled_from(["pus", "oedema"])),)
            )
            items = [replace(open_item, tags=draw(drawn_tags))]
        else:
            options = "ABCDE"[: draw(st.integers(2, 5))]
            key = draw(st.lists(st.sampled_from(options), min_size=1, max_size=5, unique=True))
            make, answers = (single, key[0]) if sort == "single" else (multiple, "".join(sorted(key)))
            items = [make(f"{sort}{n}", answers, options, tags=draw(drawn_tags))]
        for item in items:
            if draw(st.booleans()):
                allowed = list(item.options) or ["pus", "oedema"]
                results.append(said(item, ",".join(draw(st.lists(st.sampled_from(allowed), max_size=3, unique=True)))))
            else:
                results.append(ended(item, draw(st.sampled_from(OUTCOMES))))
    return results


@given(runs(), st.randoms(use_true_random=False))
def test_the_order_of_results_does_not_matter_to_the_last_bit(results: list[Result], draw: random.Random) -> None:
    shuffled = draw.sample(results, len(results))
    assert repr(measured(shuffled)) == repr(measured(results))


@given(runs(), st.sampled_from(OUTCOMES))
def test_the_last_result_of_an_item_counts(results: list[Result], outcome: Outcome) -> None:
    earlier = [ended(result.item, outcome) for result in results]
    assert measured([*earlier, *results]) == measured(results)
    assert metrics.latest([*earlier, *results]) == metrics.latest(results)


@given(runs())
def test_every_number_is_in_its_range_or_null(results: list[Result]) -> None:
    for measure in measured(results):
        if measure.value is None:
            assert measure.n == 0
            assert (measure.low, measure.high, measure.references) == (None, None, {})
            continue
        assert 0 <= measure.value <= 1
        assert measure.n > 0
        assert measure.count is None or measure.value == measure.count / measure.n
        if measure.low is not None:
            assert measure.high is not None
            assert 0 <= measure.low <= measure.value <= measure.high <= 1
        assert all(isfinite(line) and -1e-12 <= line <= 1 + 1e-12 for line in measure.references.values())
        json.dumps(measure.value, allow_nan=False)


@given(runs())
def test_the_kinds_share_out_the_items(results: list[Result]) -> None:
    found = measured(results, [metrics.error_rate, metrics.mean_score])
    for name in ("error_rate", "mean_score"):
        whole = next(measure for measure in found if measure.name == name and not measure.slice)
        parts = [measure for measure in found if measure.name == name and "kind" in measure.slice]
        assert sum(measure.n for measure in parts) == whole.n
    assert next(measure for measure in found if measure.name == "error_rate" and not measure.slice).n == len(results)


@given(st.lists(st.tuples(st.sampled_from(["", "A", "B"]), st.sampled_from(["", "A", "B"])), min_size=1, max_size=20))
def test_a_set_is_never_easier_than_its_questions(answers: list[tuple[str, str]]) -> None:
    results = [
        said(item, text) for i, texts in enumerate(answers) for item, text in zip(pair(str(i)), texts, strict=True)
    ]
    in_set, alone = overall(results, metrics.set_accuracy).value, overall(results, metrics.individual_accuracy).value
    assert in_set is not None
    assert alone is not None
    assert in_set <= alone


@given(runs())
def test_invalid_answers_are_the_refused_the_abstained_and_the_unparsed(results: list[Result]) -> None:
    invalid, *parts = (overall(results, metric).count for metric in metrics.rates[:4])
    assert invalid == sum(part or 0 for part in parts)


# References


def answers_to(item: Item) -> list[str]:
    """Every answer that a guesser may give."""
    letters = list(item.options)
    if item.kind == "single_choice":
        return letters
    return [",".join(chosen) for size in range(1, len(letters) + 1) for chosen in combinations(letters, size)]


def question(drawn: tuple[bool, list[str], int], id: str) -> Item:
    several, key, size = drawn
    options = "ABCD"[: max(size, *("ABCD".index(letter) + 1 for letter in key))]
    return multiple(id, "".join(sorted(key)), options) if several else single(id, key[0], options)


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.sampled_from("ABCD"), min_size=1, unique=True), st.integers(2, 4)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(ITEM_METRICS),
)
def test_the_random_reference_is_the_mean_over_all_answers(
    drawn: list[tuple[bool, list[str], int]], metric: Metric
) -> None:
    items = [question(each, str(i)) for i, each in enumerate(drawn)]
    items = [item for item in items if metric.kinds is None or item.kind in metric.kinds]
    means = []
    for item in items:
        values = [metric.terms([said(item, text)])[0] for text in answers_to(item)]
        means.append(sum(values) / len(values))
    if items:
        expected = sum(means) / len(means)
        assert overall([said(item, "A") for item in items], metric).references["random"] == pytest.approx(expected)


@pytest.mark.parametrize(("size", "right"), [(2, 1), (4, 1), (5, 3), (6, 6), (20, 7)])
def test_the_closed_forms_of_a_random_answer(size: int, right: int) -> None:
    letters = "ABCDEFGHIJKLMNOPQRST"[:size]
    one, several = [said(single("1", "A", letters), "A")], [said(multiple("1", letters[:right], letters), "A")]
    subsets = 2**size - 1
    assert overall(one, metrics.accuracy).references["random"] == pytest.approx(1 / size)
    assert overall(several, metrics.precision_mcls).references["random"] == pytest.approx(right / size)
    assert overall(several, metrics.recall_mcls).references["random"] == pytest.approx(2 ** (size - 1) / subsets)
    assert overall(several, metrics.exact_match).references["random"] == pytest.approx(1 / subsets)
    assert overall(several, metrics.mean_score).references["random"] == pytest.approx(2 ** (right - 1) / subsets)


@given(st.integers(2, 4), st.integers(2, 4))
def test_the_random_reference_of_pairs_is_the_mean_over_all_pairs_of_answers(first: int, second: int) -> None:
    items = [single("1", "A", "ABCD"[:first], pair_id="p"), single("2", "B", "ABCD"[:second], pair_id="p")]
    tried = [[said(items[0], a), said(items[1], b)] for a, b in product(answers_to(items[0]), answers_to(items[1]))]
    for metric in (metrics.set_accuracy, metrics.confusion):
        expected = sum(metric.terms(results)[0] for results in tried) / len(tried)
        assert overall(tried[0], metric).references["random"] == pytest.approx(expected)


def test_pairs_of_several_options_have_no_random_reference() -> None:
    """Which letters are chosen tells two answers apart, and so one subset may not stand for others of its size."""
    results = [said(multiple(f"p/{i}", key, pair_id="p"), "A") for i, key in enumerate(["AB", "CD"])]
    assert "random" not in overall(results, metrics.confusion).references
    assert "random" in overall(results, metrics.individual_accuracy).references


def test_the_majority_answer_is_the_most_frequent_key_of_the_whole_run() -> None:
    keys = {"x": "AABB", "y": "BCC"}  # A and C twice, B three times
    results = [
        said(single(f"{task}{i}", key, "ABC", tags={"task": (task,)}), "A")
        for task, letters in keys.items()
        for i, key in enumerate(letters)
    ]
    assert overall(results, metrics.accuracy).references["majority"] == pytest.approx(3 / 7)
    assert at(results, metrics.accuracy, "task", "y").references["majority"] == pytest.approx(1 / 3)
    macro = overall(results, metrics.macro_accuracy("task")).references
    assert macro == pytest.approx({"random": 1 / 3, "majority": (2 / 4 + 1 / 3) / 2})


def test_of_equally_frequent_keys_the_first_in_the_alphabet_is_the_majority() -> None:
    results = [said(single(str(i), key, "ABC", tags={"key": (key,)}), "A") for i, key in enumerate("CB")]
    lines = {key: at(results, metrics.accuracy, "key", key).references["majority"] for key in "BC"}
    assert lines == {"B": 1, "C": 0}


def test_a_majority_answer_that_is_no_option_is_wrong_and_confuses_nothing() -> None:
    results = [said(item, "A") for item in pair("1")] + [said(single(str(i), "E", "ABCDE"), "A") for i in range(3)]
    assert overall(results, metrics.set_accuracy).references["majority"] == 0
    assert set(overall(results, metrics.confusion).references) == {"random", "image_blind"}


def test_the_majority_answer_to_several_options_gets_the_credit_of_the_benchmark() -> None:
    results = [said(multiple(str(i), key), "A") for i, key in enumerate(["AC", "AC", "ABC", "B"])]
    found = {metric: overall(results, metric).references["majority"] for metric in ITEM_METRICS[1:]}
    assert found[metrics.mean_score] == pytest.approx((1 + 1 + 2 / 3 + 0) / 4)
    assert found[metrics.precision_mcls] == pytest.approx((1 + 1 + 1 + 0) / 4)
    assert found[metrics.exact_match] == pytest.approx(2 / 4)


def test_an_option_that_is_called_like_a_letter_does_not_spoil_the_reference() -> None:
    def reads_texts(item: Item, answer: Answer) -> Score:
        by_text = {text: letter for letter, text in item.options.items()}
        return credit(item, Answer(",".join(by_text.get(letter, letter) for letter in answer.text.split(","))))

    item = replace(multiple("1", "A", "AB"), options={"A": "B", "B": "A"})
    found = metrics.measures(
        [said(item, "A")], [metrics.exact_match], (), benchmark="slake", signature={}, score=reads_texts
    )
    assert found[0].references["majority"] == 1


def test_open_questions_have_a_majority_but_no_random_answer() -> None:
    results = [
        said(Item(str(i), "slake", "judgment", "Is it?", answers=(key,)), "yes")
        for i, key in enumerate(["no", "no", "yes"])
    ]
    assert overall(results, metrics.mean_score).references == pytest.approx({"majority": 2 / 3})
    mixed = [*results, said(single("9"), "A")]
    assert "random" not in overall(mixed, metrics.mean_score).references
    assert at(mixed, metrics.mean_score, "kind", "single_choice").references["random"] == 0.5


def test_references_are_over_the_units_that_the_measure_counts() -> None:
    results = [said(single("1", "A", "AB"), "A"), ended(single("2", "B", "ABCD"), "error")]
    assert overall(results, metrics.accuracy).references == {"random": 0.5, "majority": 1.0}


def test_an_image_blind_line_needs_a_pair_that_only_the_image_tells_apart() -> None:
    def lines(first: Item, second: Item) -> set[str]:
        results = [said(first, "A"), said(second, "B")]
        return set(overall(results, metrics.set_accuracy).references)

    one, other = pair("1")
    assert lines(one, other) == {"random", "majority", "image_blind"}
    assert lines(one, replace(other, question="And this?")) == {"random", "majority"}
    assert lines(one, replace(other, options={"A": "x", "B": "y"})) == {"random", "majority"}
    assert lines(*pair("1", keys="AA")) == {"random", "majority"}
    assert lines(*(replace(item, options={"A": "x", "B": "y", "C": "z"}) for item in pair("1"))) == {
        "random",
        "majority",
    }
    broken = [said(one, "A"), said(other, "A"), said(pair("2")[0], "A")]
    assert overall(broken[:2], metrics.individual_accuracy).references["image_blind"] == 0.5
    assert "image_blind" not in overall(broken, metrics.individual_accuracy).references


def test_without_the_scoring_only_single_choice_has_references() -> None:
    results = [said(single("1"), "A"), said(multiple("2", "AB"), "A")]
    found = metrics.measures(results, ITEM_METRICS, (), benchmark="slake", signature={})
    lines = {measure.name: set(measure.references) for measure in found if not measure.slice}
    assert lines["accuracy"] == {"random", "majority"}
    assert lines["recall_mcls"] == lines["mean_score"] == set()


# A stranger's metric, and signatures


def test_a_metric_is_a_decorated_function() -> None:
    @metrics.ratio(binary=False, kinds=["single_choice"])
    def seconds(results: Sequence[Result]) -> tuple[float, float]:
        """Mean seconds of an answer.

        More about it.
        """
        return (results[0].answer.seconds or 0.0, 1.0) if results[0].answer else (0.0, 0.0)

    assert (seconds.name, seconds.definition, seconds.unit) == ("seconds", "Mean seconds of an answer.", "item")
    results = [replace(said(single(str(i)), "A"), answer=Answer("A", seconds=i)) for i in (1, 2, 6)]
    found = overall(results, seconds)
    assert (found.value, found.low, found.references) == (3.0, None, {})


def test_metrics_that_share_a_function_are_kept_apart() -> None:
    several = replace(metrics.accuracy, name="several", kinds=frozenset({"multiple_response"}))
    plain = replace(metrics.accuracy, name="plain", binary=False)
    results = [said(single("1"), "A"), said(multiple("2", "AB"), "A"), said(multiple("3", "AB"), "A,B")]
    results += [said(single(f"more {i}"), "AB"[i % 2]) for i in range(9)]
    found = {
        measure.name: measure for measure in measured(results, [metrics.accuracy, several, plain]) if not measure.slice
    }
    assert {name: measure.n for name, measure in found.items()} == {"accuracy": 10, "several": 2, "plain": 10}
    assert found["accuracy"].value == found["plain"].value


@pytest.mark.parametrize(
    ("binary", "terms", "message"),
    [
        (True, (0.5, 1.0), "a binary metric needs a numerator of 0 or 1"),
        (True, (1.0, 2.0), "say binary=False"),
        (False, (float("nan"), 1.0), "finite numbers"),
        (False, (1.0, -1.0), "a denominator of at least 0"),
        (False, 0.5, "must return (numerator, denominator)"),
        (False, (1.0, 2.0, 3.0), "must return (numerator, denominator)"),
        (False, None, "must return (numerator, denominator)"),
        (False, "ab", "must return (numerator, denominator)"),
    ],
)
def test_bad_terms_are_named(binary: bool, terms: Any, message: str) -> None:
    broken = metrics.ratio("broken", binary=binary)(lambda results: terms)
    with pytest.raises(UsageError) as caught:
        measured([said(single("q1"), "A"), said(single("q2"), "A")], [broken])
    assert "metric 'broken'" in str(caught.value)
    assert message in str(caught.value)


def test_the_item_with_bad_terms_is_named() -> None:
    broken = metrics.ratio("broken")(lambda results: (0.0, 1.0) if results[0].item.id == "q1" else (2.0, 1.0))
    with pytest.raises(UsageError, match=r"gave \(2.0, 1.0\) for q2"):
        measured([said(single("q1"), "A"), said(single("q2"), "A")], [broken])


@given(st.dictionaries(st.text("ab|:\\ ", min_size=1).filter(lambda key: key != "v"), st.text("ab|:\\ ")))
def test_a_signature_can_be_read_back(signature: dict[str, str]) -> None:
    (found, *_) = measured([said(single("1"), "A")], [metrics.accuracy], signature=signature)
    parts = metrics.parts(found.signature)
    assert {key: parts[key] for key in signature} == signature
    assert set(parts) - set(signature) == {"interval", "metric", "unit", "kinds", "v"}


def test_a_signature_is_read_with_its_escapes() -> None:
    assert metrics.parts(r"data:a\|b\:c\\|v:2") == {"data": "a|b:c\\", "v": "2"}
    for damaged in ("", "v", "a:b:c", "a:b|c", "a|b:c"):
        with pytest.raises(ValueError, match="no signature of a measure"):
            metrics.parts(damaged)


def test_a_signature_tells_technique_definition_and_dimension() -> None:
    results = [said(single("1", tags={"task": ("a",), "organ": ("b",)}), "A")]
    redefined = replace(metrics.accuracy, definition="Something else.")
    chosen = (metrics.accuracy, redefined, metrics.macro_accuracy("task"), metrics.macro_accuracy("organ"))
    signatures = [
        measure.signature
        for technique in ("mc", "ps")
        for measure in measured(results, chosen, signature={"technique": technique})
        if not measure.slice
    ]
    assert len(set(signatures)) == 8
    assert signatures[0].startswith("interval:cr2-wilson-2|kinds:single_choice|metric:accuracy@")
    assert signatures[0].endswith("|technique:mc|unit:item|v:2")


# --- metrics of users ---------------------------------------------------------------------------------------


def measures_of(metric: Metric, *results: Result) -> tuple[list[Measure], list[FailedMetric]]:
    failed: list[FailedMetric] = []
    return metrics.measures(results, [metric], [], benchmark="slake", signature={}, failed=failed), failed


def replied(number: int, text: str | None, pair: str | None = None) -> Result:
    item = Item(f"q{number:02}", "slake", "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",), pair_id=pair)
    answer = None if text is None else Answer(text)
    return Result("run", item, "", answer, Score(None, "error") if text is None else Score(1.0, "correct", ("A",)))


def test_a_table_of_one_dimension_alone_is_that_part_of_the_whole_table() -> None:
    plain = [replied(n, "A") for n in range(9)]
    tags = [{"organ": ("liver", "lung")[: 1 + n % 2], "view": ("ap",)} for n in range(9)]
    results = [replace(r, item=replace(r.item, tags=own)) for r, own in zip(plain, tags, strict=True)]
    (whole,) = metrics.tables(results, [metrics.accuracy], ["organ"])
    (alone,) = metrics.tables(results[::-1], [metrics.accuracy], ["organ"], alone=True)
    assert list(alone.frame.slices) == [("", ""), ("organ", "liver"), ("organ", "lung")]
    assert list(whole.frame.slices[:3]) == list(alone.frame.slices)
    for terms in (0, 1):
        assert whole.frame.sums(whole.terms[terms])[:3].tolist() == alone.frame.sums(alone.terms[terms]).tolist()


def test_a_function_that_returns_true_and_false_is_a_share() -> None:
    @medvqa.metric
    def long_answer(result: Result) -> bool | None:
        """Answers of more than three characters."""
        return None if result.answer.text == "skip" else len(result.answer.text) > 3

    texts = ["long text", "A", "A", "skip", None, *["long text"] * 7]
    (found, *_), failed = measures_of(long_answer, *(replied(n, text) for n, text in enumerate(texts)))
    assert (found.name, found.value, found.n, found.percent, failed) == ("long_answer", 0.8, 10, True, [])
    assert found.low is not None
    assert 0 < found.low < 0.8
    assert "interval:cr2-wilson-2" in found.signature
    assert long_answer.definition == "Answers of more than three characters."


def test_a_function_that_returns_numbers_is_a_mean_with_students_interval() -> None:
    """With independent questions, the interval is the textbook one."""

    @medvqa.metric(name="length in characters", better="lower")
    def length(result: Result) -> float:
        return len(result.answer.text)

    lengths = [312, 5, 40, 77, 1000, 2, 13, 600, 44, 90, 8, 120]
    (found, *_), _ = measures_of(length, *(replied(n, "x" * size) for n, size in enumerate(lengths)))
    half = t.ppf(0.975, 11) * np.std(lengths, ddof=1) / 12**0.5
    assert (found.name, found.percent) == ("length in characters", False)
    assert (found.value, found.low, found.high) == pytest.approx(
        (np.mean(lengths), np.mean(lengths) - half, np.mean(lengths) + half)
    )
    assert "interval:cr2-student" in found.signature


def test_a_metric_of_pairs_gets_two_results() -> None:
    same = medvqa.metric(unit="pair")(lambda first, second: first.answer.text == second.answer.text)
    results = [replied(n, "AB"[n % 4 == 0], f"p{n // 2}") for n in range(8)]
    (found, *_), _ = measures_of(same, *results)
    assert (found.name, found.value, found.n) == ("<lambda>", 0.5, 4)


@pytest.mark.parametrize(
    ("returns", "why"),
    [
        (lambda result: result.answer.nosuch, "AttributeError: 'Answer' object has no attribute 'nosuch'"),
        (lambda result: "many", "TypeError: it returned a value of type str"),
        (lambda result: float("nan"), "ValueError: it returned nan"),
        (lambda result: float("-inf"), "ValueError: it returned -inf"),
        (lambda result: 10**400, "OverflowError: "),
        (lambda result: -1e308, "ValueError: it returned -1e+308, and 1e+50 is the most"),
        (lambda result: [][0], "IndexError: list index out of range"),
        (lambda result: pytest.skip("not today"), "Skipped: not today"),
        (lambda result: sys.exit(0), "SystemExit: 0"),
    ],
    ids=["attribute", "text", "nan", "infinite", "huge", "large", "index", "skips", "exits"],
)
def test_a_failing_function_costs_its_measure(returns: Callable[[Result], object], why: str) -> None:
    found, (failed,) = measures_of(medvqa.metric(name="mine")(returns), replied(1, "A"))
    line = returns.__code__.co_firstlineno
    assert found == []
    assert failed.name == "mine"
    assert re.match(rf"metric 'mine': \S*test_metrics\.py:{line}: {re.escape(why)}", failed.why)
    assert failed.why.endswith(
        "expected: a function of one result that returns True, False, a finite number, or None "
        "to leave the question out"
    )
    with pytest.raises(UsageError, match=r"^metric 'mine': "):
        metrics.tables([replied(1, "A")], [medvqa.metric(name="mine")(returns)], [])


def test_the_largest_numbers_have_an_interval() -> None:
    largest = medvqa.metric(name="mine")(lambda result: 1e50 if result.answer.text == "A" else -1e50)
    (found, *_), failed = measures_of(largest, *[replied(n, "AB"[n % 3 == 0]) for n in range(12)])
    assert (found.value, list(failed)) == (pytest.approx(1e50 / 3), [])
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_endless_recursion_is_a_failure_and_being_stopped_is_none() -> None:
    def deep(result: Result) -> bool:
        return deep(result)

    _, (failed,) = measures_of(medvqa.metric(deep), replied(1, "A"))
    assert "RecursionError: maximum recursion depth exceeded" in failed.why

    def stopped(result: Result) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measures_of(medvqa.metric(stopped), replied(1, "A"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": " "}, "name=... must be printable text"),
        ({"name": "a\x1bb"}, "name=... must be printable text"),
        ({"unit": "pairs"}, "unit='pairs'; there are: item, pair"),
        ({"better": "up"}, "better='up'; there are: higher, lower"),
        ({"kinds": ["choice"]}, "no kind 'choice'; there are: single_choice, "),
    ],
)
def test_options_of_a_metric_are_checked_where_it_is_defined(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        medvqa.metric(**options)(lambda result: True)
    assert re.match(r"\S*test_metrics\.py:\d+: metric ", str(caught.value))


# --- abstention and confidence --------------------------------------------------------------------------------------

ASKED = Benchmark(name="slake", items=lambda data: [], metrics=(metrics.accuracy, *metrics.rates))


def ended_as(*outcomes: Outcome, confidences: Sequence[float | None] = ()) -> list[Result]:
    """One answer for each outcome; a partial one has half of the score."""
    values: dict[Outcome, float | None] = {"correct": 1.0, "partial": 0.5, "unscored": None, "error": None}
    padded = [*confidences, *[None] * len(outcomes)]
    return [
        Result(
            "r",
            single(f"q{n}"),
            "",
            None if outcome == "error" else Answer("", confidence=padded[n]),
            Score(values.get(outcome, 0.0), outcome),
        )
        for n, outcome in enumerate(outcomes)
    ]


def added(results: Sequence[Result], *protocols: Protocol, cost: float | None = None) -> dict[str, float | None]:
    """The measures over everything that the protocols add."""
    technique = results[0].technique
    of = added_measures.under(ASKED, protocols, [technique], [cost])
    found = metrics.measures(results, of.metrics, (), benchmark="slake", signature={})
    own = {metric.name for metric in ASKED.metrics}
    return {each.name: each.value for each in found if not each.slice and each.name not in own}


def test_coverage_and_what_was_answered_tell_abstentions_from_errors() -> None:
    outcomes: tuple[Outcome, ...] = ("correct", "correct", "partial", "wrong", "abstained", "refused", "unparsed")
    values = added(ended_as(*outcomes, "error", "unscored"), Protocol(abstain=True), cost=2)
    assert values == {
        "coverage": 4 / 7,
        "answered_accuracy": 2.5 / 4,
        # Wrong and unparsed cost 2 each; abstained and refused cost nothing.
        "effective_reliability": pytest.approx((2.5 - 4) / 7),
    }


@examples(100)
@given(st.lists(st.sampled_from(["correct", "wrong"]), min_size=1, max_size=40), st.booleans())
def test_at_full_coverage_the_accuracy_of_what_was_answered_is_the_accuracy(
    outcomes: list[Outcome], grouped: bool
) -> None:
    answers = ended_as(*outcomes)
    if grouped:
        answers = [replace(each, item=replace(each.item, cluster_id=str(n // 3))) for n, each in enumerate(answers)]
    both = metrics.accuracy, metrics.answered_accuracy

    def of(results: Sequence[Result], *of_them: Metric) -> list[Measure]:
        found = metrics.measures(results, of_them, (), benchmark="slake", signature={})
        return [measure for measure in found if not measure.slice]

    accuracy, answered = of(answers, *both)
    assert (answered.name, answered.value, answered.low, answered.high, answered.n) == (
        *("answered_accuracy", accuracy.value, accuracy.low, accuracy.high, accuracy.n),
    )
    # A partial score is no share: its interval is that of a mean.
    partial = ended_as(*["correct", "wrong", "partial"] * 8)
    average, part = of(partial, metrics.mean_score, metrics.answered_accuracy)
    assert (part.low, part.high) == (average.low, average.high)


@examples(200)
@given(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=20), st.floats(0.01, 100))
def test_effective_reliability_is_what_whitehead_et_al_define(outcomes: list[Outcome], cost: float) -> None:
    results = ended_as(*outcomes)
    values = added(results, Protocol(abstain=True), cost=cost)
    scored = [result for result in results if result.score.value is not None]
    if not scored:
        assert values["effective_reliability"] is None
        return
    counts = {outcome: sum(result.score.outcome == outcome for result in scored) for outcome in OUTCOMES}
    worth = counts["correct"] + counts["partial"] / 2 - cost * (counts["wrong"] + counts["unparsed"])
    assert values["effective_reliability"] == pytest.approx(worth / len(scored))
    invalid = counts["refused"] + counts["abstained"] + counts["unparsed"]
    assert values["coverage"] == pytest.approx(1 - invalid / len(scored))


def test_only_runs_that_offer_to_abstain_have_these_measures_and_signatures_name_the_cost() -> None:
    assert added_measures.under(ASKED, [Protocol()], ["mc"], [None]) is ASKED
    both = [Protocol(), Protocol(abstain=True)]
    one = added_measures.under(ASKED, both, ["mc"], [None, 2])
    assert one.headline == (*ASKED.headline, "coverage", "answered_accuracy", "effective_reliability")
    assert added_measures.under(one, both, ["mc"], [None, 3]) is one
    assert "effective_reliability" not in added_measures.under(ASKED, both, ["mc"], [2, 3]).headline
    signed = {metrics.signed(metrics.effective_reliability(cost), {}) for cost in (1, 1.5)}
    assert len(signed) == 2
    assert any("wrong_costs:1.5" in each for each in signed)
    assert "with -1.5 for 0 or unparsed" in metrics.effective_reliability(1.5).definition


def test_confidences_are_scored_against_the_score_and_unread_ones_counted() -> None:
    outcomes: tuple[Outcome, ...] = ("correct", "wrong", "partial", "correct", "abstained", "unparsed", "unscored")
    results = ended_as(*outcomes, confidences=[0.8, 1.0, 0.5, None, 0.9, 0.9, 0.9])
    assert added(results, Protocol(confidence=True)) == {
        "brier_score": pytest.approx((0.2**2 + 1 + 0) / 3),
        # A certain wrong answer costs what half a percent does.
        "log_loss": pytest.approx(-(np.log(0.8) + np.log(0.005) + np.log(0.5)) / 3),
        "confidence_unread_rate": 1 / 5,
    }


def test_options_and_votes_have_confidences_and_likelihoods_have_none() -> None:
    given = {"A": float(np.log(0.6)), "B": float(np.log(0.2)), " A": 0.0}
    by_option = Result("r", single("q"), "", Answer("", given), Score(1.0, "correct", ("A",)), "gd")
    assert metrics.confidence_of(by_option) == pytest.approx(0.75)
    assert added([by_option], Protocol()) == {
        "brier_score": pytest.approx(0.0625),
        "log_loss": pytest.approx(-np.log(0.75)),
    }
    assert metrics.confidence_of(replace(by_option, technique="ps")) is None
    assert added([replace(by_option, technique="ps")], Protocol()) == {}
    impossible = replace(by_option, answer=Answer("", {" A": -0.1, "A": -np.inf}))
    assert metrics.confidence_of(impossible) is None

    def chose(letter: str, sample: int) -> Result:
        score = Score(float(letter == "A"), "correct" if letter == "A" else "wrong", (letter,))
        return Result("r", single("q"), "", Answer(letter), score if letter else Score(0.0, "abstained"), sample=sample)

    voted = voting.vote([chose(letter, n) for n, letter in enumerate(["A", "A", "B", ""], 1)])
    assert metrics.confidence_of(voted) == 0.5
    assert metrics.confidence_of(voting.vote([chose("A", 1), chose("B", 2)])) is None


@pytest.mark.parametrize(
    ("fields", "technique", "source"),
    [
        ({"confidence": True}, "mc", "stated"),
        ({"samples": 5, "combine": "vote"}, "ff", "agreement"),
        ({}, "gd", "option"),
        ({}, "mc", None),
        ({}, "ps", "for ranking"),
        ({"rotations": None}, "gd", None),
        ({"samples": 5, "combine": "vote", "readers": True}, "mc", None),
    ],
)
def test_a_protocol_tells_where_confidences_come_from(fields: dict[str, Any], technique: str, source: Any) -> None:
    protocol = Protocol(**fields)
    assert protocol.confidence_source(technique) == source
    of = added_measures.under(ASKED, [protocol], [technique], [])
    # Nobody asked GD or votes for confidences: they are no headline measures.
    stated = ("brier_score", "log_loss", "confidence_unread_rate") if source == "stated" else ()
    assert of.headline == (*ASKED.headline, *stated)
    signs = {dict(metric.signs).get("confidence") for metric in of.metrics} - {None}
    # PS has numbers to rank by, and no probabilities.
    assert signs == ({source} if source not in (None, "for ranking") else set())
    assert added_measures.under(ASKED, [protocol, Protocol(abstain=True)], ["ps"], []).metrics[-1].name != "log_loss"


@examples(200)
@given(st.lists(st.sampled_from(["correct", "wrong", "abstained", "unparsed"]), min_size=8, max_size=60))
def test_the_interval_of_a_reliability_stays_within_what_it_can_be(outcomes: list[Outcome]) -> None:
    results = ended_as(*outcomes)
    (found,) = metrics.measures(results, [metrics.effective_reliability(3)], (), benchmark="slake", signature={})[:1]
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert -3 <= found.low <= found.value <= found.high <= 1
    # Equal answers are no certainty.
    assert found.low < found.high
