"""Confidences: areas, calibration and their intervals; what counts and what is left out; tables, page and compare."""

from __future__ import annotations

import json
import random
import re
from math import exp, log, log1p, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from medvqa import comparing, metrics, report
from medvqa.benchmarks import slake
from medvqa.comparing.gating.preparing import metric_of
from medvqa.figures import Figure
from medvqa.items import Answer, Item, Result, Score, UsageError, replace
from medvqa.metrics.confidences import CURVES, RISK, ROOT, SQUARE, Rated, compared, confidence_of, quality, ranking_of
from medvqa.protocols import combining
from medvqa.protocols.protocol import Protocol
from medvqa.records import run_folder
from medvqa.report import comparison, confidences, terminal, writing
from medvqa.report.bundle import confidence as page
from medvqa.report.bundle import several_runs
from medvqa.report.bundle.page_blocks import PlotBlock, PlotPoint, TableBlock
from medvqa.statistics import confidence as curves
from support import pages
from support.laws import examples

Floats = NDArray[np.float64]
AUROC, AURC, E_AURC, AUGRC = range(4)
answered = st.lists(st.tuples(st.integers(0, 6), st.sampled_from((0.0, 1.0))), min_size=1, max_size=30)
partly = st.lists(st.tuples(st.integers(0, 6), st.sampled_from((0.0, 0.25, 0.5, 1.0))), min_size=1, max_size=30)


def arrays(rows: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    confidence, correct = np.array(rows, dtype=float).T
    return confidence, correct


def values(confidence: Floats, correct: Floats) -> list[float]:
    return [float(each.mean()) for each in curves.areas(confidence, correct)]


def scripted(seed: int, n: int, *, clusters: bool = False, shift: float = 0.0, ties: bool = False):
    """Confidences of a model that is right `shift` less often than it says, its scores, and the groups."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 11, n) if clusters else np.ones(n, dtype=int)
    group = np.repeat(np.arange(n), sizes)[:n]
    confidence = 0.15 + 0.85 * draw.beta(3, 1.5, n)
    confidence = confidence.round(1) if ties else confidence
    # Answers of a group share a part of their luck.
    luck = np.where(draw.random(n) < 0.3, draw.random(n)[group], draw.random(n))
    return confidence, (luck < confidence - shift).astype(float), group


# ---- areas -----------------------------------------------------------------------------------------------------------


@given(partly)
@examples(200)
def test_areas_are_those_of_their_definitions(rows: list[tuple[float, float]]) -> None:
    confidence, correct = arrays(rows)
    loss, n = 1 - correct, len(correct)
    auroc, aurc, e_aurc, augrc = values(confidence, correct)
    assert aurc == pytest.approx(np.mean([loss[confidence >= least].mean() for least in confidence]))
    ascending = np.sort(loss)
    assert e_aurc == pytest.approx(aurc - np.mean([ascending[:k].mean() for k in range(1, n + 1)]), abs=1e-12)
    assert e_aurc > -1e-12
    below = [(confidence < one).mean() + (confidence == one).mean() / 2 for one in confidence]
    assert augrc == pytest.approx(float(loss @ below) / n)
    risk = float(loss.mean())
    if 0 < risk < 1:
        assert augrc == pytest.approx(risk**2 / 2 + risk * (1 - risk) * (1 - auroc))
        if set(correct) <= {0.0, 1.0}:
            assert auroc == pytest.approx(roc_auc_score(correct, confidence))
    else:
        assert np.isnan(auroc)


@given(partly, st.randoms(use_true_random=False))
@examples(100)
def test_the_order_of_answers_and_a_monotone_transform_change_nothing(
    rows: list[tuple[float, float]], draw: random.Random
) -> None:
    confidence, correct = arrays(rows)
    found = values(confidence, correct)
    shuffled = draw.sample(rows, len(rows))
    assert values(*arrays(shuffled)) == pytest.approx(found, nan_ok=True)
    assert values(np.exp(3 * confidence) - 7, correct) == pytest.approx(found, nan_ok=True)
    reversed_auroc = values(-confidence, correct)[AUROC]
    assert reversed_auroc == pytest.approx(1 - found[AUROC], nan_ok=True)
    constant = values(np.zeros(len(rows)), correct)
    assert constant[AURC] == pytest.approx(1 - correct.mean())
    assert np.isnan(constant[AUROC]) or constant[AUROC] == pytest.approx(0.5)


@given(answered)
@examples(50)
def test_a_curve_has_a_point_for_each_threshold(rows: list[tuple[float, float]]) -> None:
    confidence, correct = arrays(rows)
    curve = curves.curve(confidence, correct)
    assert curve.coverage[-1] == 1
    assert curve.threshold.tolist() == sorted(set(confidence), reverse=True)
    for coverage, risk, threshold in zip(*curve, strict=True):
        given_answers = confidence >= threshold
        assert (coverage, risk) == (
            pytest.approx(given_answers.mean()),
            pytest.approx(1 - correct[given_answers].mean()),
        )


def test_contributions_are_the_derivatives_of_the_areas() -> None:
    """Leaving out one of 400 answers changes each area by its contribution, to first order."""
    confidence, correct, _ = scripted(3, 400, ties=True)
    correct[:40] = 0.5
    found = curves.areas(confidence, correct)
    kept = ~np.eye(400, dtype=bool)
    without = np.array([values(confidence[own], correct[own]) for own in kept]).T
    own = found.mean(axis=1, keepdims=True)
    jackknifed = own + 399 * (own - without)
    for one, other in zip(found, jackknifed, strict=True):
        assert np.corrcoef(one, other)[0, 1] > 0.999
        assert one.std() == pytest.approx(other.std(), rel=0.02)


# ---- calibration -----------------------------------------------------------------------------------------------------


def test_the_calibration_error_is_kumars_where_each_bin_has_one_confidence() -> None:
    """Of uncertainty-calibration 0.1.4: `get_calibration_error(confidence, correct, p=2, debias=True)`."""
    draw = np.random.default_rng(7)
    confidence = draw.choice([0.55, 0.65, 0.75, 0.85, 0.95], 400)
    correct = (draw.random(400) < confidence - 0.08).astype(float)
    found = curves.calibration(confidence, correct, np.arange(400))
    assert sqrt(found.value or 0) == pytest.approx(0.09617484604428846)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
@examples(100)
def test_the_square_is_the_mean_product_of_two_groups_gaps(rows: list[tuple[int, bool, int]]) -> None:
    confidence, correct, group = np.array(rows, dtype=float).T
    confidence, group = confidence / 4, group.astype(np.intp)
    found = curves.calibration(confidence, correct, group)
    bins, gap, total = curves.binned(confidence, len(set(group))), confidence - correct, 0.0
    for k in set(bins.tolist()):
        inside = np.flatnonzero(bins == k)
        products = [gap[i] * gap[j] for i in inside for j in inside if group[i] != group[j]]
        if not products:
            assert found.value is None
            return
        total += len(inside) / len(bins) * float(np.mean(products))
    assert found.value == pytest.approx(total, abs=1e-12)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=300), st.integers(1, 300))
@examples(100)
def test_bins_keep_equal_confidences_together_and_none_is_small(numbers: list[int], groups: int) -> None:
    confidence = np.array(numbers, dtype=float)
    bins = curves.binned(confidence, groups)
    assert len({(one, place) for one, place in zip(numbers, bins.tolist(), strict=True)}) == len(set(numbers))
    order = np.argsort(confidence, kind="stable")
    assert (np.diff(bins[order]) >= 0).all()
    count = max(1, min(curves.BINS, groups // curves.GROUPS_OF_BIN))
    sizes = np.bincount(bins)
    assert len(sizes) <= count
    assert sizes.min() >= len(numbers) / count / 2 - 1e-9 or len(sizes) == 1


# ---- intervals -------------------------------------------------------------------------------------------------------

TRUTHS = {shift: values(*scripted(0, 400_000, shift=shift)[:2]) for shift in (0.0, 0.1)}


@pytest.mark.parametrize("clusters", [False, True])
@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_intervals_hold_the_truth_of_a_scripted_model(shift: float, clusters: bool) -> None:
    """`bench/confidence.py` has all designs; here 60 runs, of which 4 or more miss the truth too often by bad luck."""
    held, differs, runs = np.zeros(5), np.zeros(5), 60
    for seed in range(1, runs + 1):
        confidence, correct, group = scripted(seed, 300, clusters=clusters, shift=shift)
        other = scripted(seed + 1000, 300, clusters=clusters, shift=shift)[:2]
        terms = curves.areas(confidence, correct)
        found = [*(curves.averaged(each, group, (0, 1)) for each in terms)]
        found.append(curves.calibration(confidence, correct, group))
        apart = [curves.averaged(each, group) for each in terms - curves.areas(*other)]
        apart.append(curves.calibration_difference((confidence, correct), other, group))
        truths = [*TRUTHS[shift], shift**2]
        for k, (own, change, truth) in enumerate(zip(found, apart, truths, strict=True)):
            assert None not in (*own, *change)
            held[k] += own.low <= truth + 0.001 and truth - 0.001 <= own.high
            differs[k] += not change.low <= 0 <= change.high
    assert held.min() >= 0.86 * runs
    assert differs.max() <= 0.14 * runs


def test_the_interval_of_a_calibrated_run_is_as_wide_as_the_square_varies() -> None:
    """On average it ends between one and two times the largest square that such runs have in 97.5 %."""
    runs = [curves.calibration(*scripted(seed, 300)) for seed in range(100)]
    spread = np.quantile([run.value for run in runs], 0.975)
    assert spread < np.mean([run.high for run in runs]) < 2 * spread


def test_a_grouped_run_has_wider_intervals_and_few_groups_have_none() -> None:
    confidence, correct, _ = scripted(1, 300)
    apart, together = np.arange(300), np.arange(300) // 10
    doubled = np.repeat(confidence, 2), np.repeat(correct, 2)
    for k, each in enumerate(curves.areas(confidence, correct)):
        single = curves.averaged(each, apart, (0, 1))
        twice = curves.averaged(curves.areas(*doubled)[k], np.repeat(apart, 2), (0, 1))
        # Answers that are there twice, in one group, say nothing new.
        assert twice[1:] == pytest.approx(single[1:], abs=2e-3)
    assert curves.averaged(each, together, (0, 1)).low is not None
    few = np.arange(300) // 25
    assert curves.averaged(each, few, (0, 1))[1:] == (None, None)
    assert curves.calibration(confidence, correct, few)[1:] == (None, None)
    assert curves.calibration_difference((confidence, correct), (confidence, correct), few) == (0.0, None, None)
    assert curves.averaged(np.empty(0), np.empty(0, dtype=np.intp)) == (None, None, None)


def test_a_large_run_far_from_calibrated_has_a_narrow_interval() -> None:
    confidence, correct, group = scripted(5, 26_000, shift=0.3)
    found = curves.calibration(confidence, correct, group)
    assert [sqrt(end or 0) for end in found] == pytest.approx([0.3, 0.3, 0.3], abs=0.02)


# ---- answers that count ----------------------------------------------------------------------------------------------


def said(number: int, confidence: float | None, outcome: str = "correct", **about: object) -> Result:
    """An answer with a stated confidence."""
    item = Item(f"{number:04}", "b", "single_choice", "?", {"A": "a", "B": "b"}, ("A",))
    value = None if outcome in ("unscored", "error") else float(outcome == "correct")
    letters = {"correct": ("A",), "wrong": ("B",)}.get(outcome, ())
    answer = None if outcome == "error" else Answer("A", confidence=confidence)
    return replace(Result("r", item, "", answer, Score(value, outcome, letters), "mc"), **about)


def sure(probability: float, right: bool, outcome: str = "", name: str = "q", **about: object) -> Result:
    """An answer by GD, whose chosen option has this probability."""
    item = Item(name, "b", "single_choice", "?", {"A": "a", "B": "b"}, ("A",), **about)
    logprobs = {"A": log(probability) - 5, "B": log1p(-probability) - 5, " A": -1.0}
    score = Score(float(right), outcome or ("correct" if right else "wrong"), ("A",))
    return Result("r", item, "", Answer("", logprobs), score, "gd")


def mixed(seed: int, n: int = 200) -> list[Result]:
    """Answers of an overconfident model, some of them without an option or a confidence."""
    draw, made = random.Random(seed), list[Result]()
    for number in range(n):
        confidence = draw.choice([0.5, 0.6, 0.7, 0.8, 0.9, 0.99])
        outcome = "correct" if draw.random() < confidence - 0.1 else "wrong"
        other = {3: "abstained", 7: "refused", 11: "unparsed", 13: "unscored", 17: "error"}.get(number % 20)
        made.append(said(number, None if number % 20 == 5 else confidence, other or outcome))
    return made


def test_answers_without_an_option_and_unread_confidences_are_counted_apart() -> None:
    found = quality("b", "stated", mixed(1))
    assert (found.n, found.answers, found.unread) == (140, 200, 10)
    assert found.left_out == {"refused": 10, "abstained": 10, "unparsed": 10, "unscored": 10, "error": 10}
    assert {*found.measures} == {*CURVES, "brier_score", "log_loss"}
    shuffled = random.Random(2).sample(mixed(1), 200)
    assert quality("b", "stated", shuffled).measures == found.measures
    kept = [result for result in mixed(1) if confidence_of(result) is not None]
    assert quality("b", "stated", kept).measures == found.measures
    brier = [(0 if r.answer is None else r.answer.confidence or 0) - (r.score.value or 0) for r in kept]
    assert found.measures["brier_score"].value == pytest.approx(np.mean(np.square(brier)))
    # The scorecard has the same numbers, with the same intervals.
    for metric in (metrics.brier_score, metrics.log_loss):
        shown, *_ = metrics.measures(kept, [metric], (), benchmark="b", signature={})
        own = found.measures[metric.name]
        assert (own.value, own.low, own.high) == pytest.approx((shown.value, shown.low, shown.high))
    assert found.measures[ROOT].value == pytest.approx(sqrt(found.measures[SQUARE].value or 0))
    none = quality("b", "stated", [said(1, None), said(2, None, "refused")])
    assert (none.n, none.unread, none.measures) == (0, 1, {})


def test_the_risk_is_that_of_the_surest_answers_that_a_threshold_reaches() -> None:
    results = [said(k, 0.9 if k < 50 else 0.6, "wrong" if k % 10 == 0 else "correct") for k in range(100)]
    found = quality("b", "stated", results)
    risk = found.measures[RISK]
    assert (found.surest, risk.value) == ((0.5, 0.9), 0.1)
    assert 0 < (risk.low or 0) < 0.1
    alike = quality("b", "stated", [said(k, 0.9) for k in range(30)])
    assert RISK not in alike.measures, "all answers are one block, so no threshold answers 80 % of them"


def test_likelihoods_rank_and_are_no_probabilities() -> None:
    answers = [sure(0.5 + k / 200, k % 3 > 0, name=f"{k:03}") for k in range(90)]
    ranked = [replace(each, technique="ps") for each in answers]
    gd, ps = (confidences.of_results("b", own[0].technique, own, Protocol()) for own in (answers, ranked))
    assert [*ps.measures] == ["auroc", "aurc", "e_aurc", "augrc", RISK]
    assert ps.measures.items() == dict([*gd.measures.items()][:5]).items()
    assert confidence_of(replace(answers[0], technique="ps")) is None
    assert ranking_of(replace(answers[20], technique="ps")) == pytest.approx(0.6)
    assert (gd.content["source"], ps.content["source"]) == ("option", "for ranking")
    both = [((each.technique,), "B", each) for each in (gd, ps)]
    tables = [confidences.table(both, ["technique"], short=short) for short in (False, True)]
    assert [{row[0] for row in table.rows} for table in tables] == [{"gd", "ps"}, {"gd"}]


def test_areas_of_few_wrong_answers_have_no_intervals() -> None:
    rare = quality("b", "stated", [said(k, 0.5 + k / 400, "wrong" if k % 40 == 0 else "correct") for k in range(200)])
    assert [rare.measures[name].low for name in ("auroc", "aurc", "augrc")] == [None] * 3
    assert rare.measures[ROOT].low is not None
    assert rare.measures["brier_score"].low is not None
    (note,) = confidences.table([(("b",), "B", rare)], ["benchmark"], short=True).notes
    assert note == "no intervals of areas: they need 10 groups with a right and with a wrong answer."


# ---- sources ---------------------------------------------------------------------------------------------------------


def test_each_source_of_a_run_has_its_measures() -> None:
    def of(technique, results, **protocol):
        found = confidences.of_results("b", technique, results, Protocol(**protocol))
        return None if found is None else (found.source, found.n, found.answers)

    stated = mixed(1)
    assert of("mc", stated) is None
    assert of("mc", stated, confidence=True) == ("stated", 140, 200)
    assert of("mc", [said(1, None)], confidence=True) == ("stated", 0, 1)
    assert of("mc", [], confidence=True) is None
    assert of("mc", stated, confidence=True, rotations=None) is None, "orders are folded into one answer"
    assert of("gd", [sure(0.9, True)]) == ("option", 1, 1)
    assert of("gd", [replace(sure(0.9, True), answer=Answer("A"))]) is None
    votes = [said(k, None, "correct" if s < 4 or k % 2 else "wrong", sample=s) for k in range(20) for s in range(1, 6)]
    voting = {"samples": 5, "combine": "vote"}
    voted = combining.combined(votes, Protocol(**voting))
    assert of("mc", voted, **voting) == ("agreement", 20, 20)
    assert of("mc", votes, samples=5) is None, "nobody asked how far samples agree"
    assert of("mc", voted, **voting, readers=True) is None
    found = confidences.of_results("b", "mc", voted, Protocol(**voting))
    assert {round(float(each), 2) for each in found.rated.confidence} == {0.6, 1.0}


# ---- reliability -----------------------------------------------------------------------------------------------------


def points_of(results: list[Result]) -> list[PlotPoint]:
    return page.points_of(Rated.of(sorted(results, key=lambda result: result.key)))


def test_a_reliability_diagram_has_bins_of_equal_mass() -> None:
    results = [sure(0.95, True), sure(0.95, False, name="r"), sure(0.65, True, name="s")]
    (alone,) = points_of(results)
    assert (alone.x, alone.y) == (pytest.approx(0.85), pytest.approx(2 / 3))
    assert alone.label == "confidence 85.00 %, correct 2/3, 3 answers"
    many = points_of([sure(0.5 + k / 1000, k % 4 > 0, name=f"{k:04}") for k in range(400)])
    assert [re.search(r"(\d+) answers", point.label)[1] for point in many] == ["40"] * 10
    assert all(point.low is not None for point in many)


@given(st.lists(st.tuples(st.floats(0.5, 0.999), st.booleans()), min_size=1, max_size=40))
@examples(30)
def test_the_points_of_a_diagram_lie_within_their_intervals(answers: list[tuple[float, bool]]) -> None:
    points = points_of([sure(*answer, name=str(k)) for k, answer in enumerate(answers)])
    assert sum(int(re.search(r"(\d+) answers?", point.label)[1]) for point in points) == len(answers)
    for point in points:
        assert 0 <= point.x <= 1
        if point.low is not None and point.high is not None:
            assert 0 <= point.low <= point.y <= point.high <= 1


def test_a_bin_has_an_interval_over_groups_and_a_verdict_only_beside_it() -> None:
    apart = [sure(0.95, k < 20, name=str(k)) for k in range(40)]
    (alone,) = points_of(apart)
    assert alone.label.endswith(", 40 answers, overconfident")
    (grouped,) = points_of([sure(0.95, k < 20, name=str(k), cluster_id=str(k // 4)) for k in range(40)])
    assert grouped.y == alone.y
    assert grouped.high - grouped.low > alone.high - alone.low
    (few,) = points_of(apart[:9])
    assert (few.low, few.high, few.label) == (None, None, "confidence 95.00 %, correct 9/9, 9 answers")
    (few_groups,) = points_of([sure(0.95, k < 20, name=str(k), cluster_id=str(k // 10)) for k in range(40)])
    assert "no interval: 4 independent groups" in few_groups.label
    (under,) = points_of([sure(0.55, True, name=str(k)) for k in range(40)])
    assert under.label.endswith("underconfident")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_calibrated_model_seldom_gets_a_word_in_any_of_its_bins(seed: int) -> None:
    """Each interval at 95 % called some bin over- or underconfident in 20 to 32 of 100 calibrated models."""
    draw, times, wrong = random.Random(seed), 100, 0
    for _ in range(times):
        chances = [draw.betavariate(4, 1.5) if seed else draw.uniform(0.5, 0.999) for _ in range(200)]
        chances = [min(max(chance, 0.001), 0.999) for chance in chances]
        answers = [
            sure(chance, draw.random() < chance, name=str(k)) if chance >= 0.5
            else sure(1 - chance, draw.random() < 1 - chance, name=str(k))
            for k, chance in enumerate(chances)
        ]  # fmt: skip
        wrong += any(point.label.endswith("confident") for point in points_of(answers))
    assert wrong / times <= 0.05 + 2 * (0.05 * 0.95 / times) ** 0.5


def test_samples_of_a_question_are_one_unit_of_a_bin() -> None:
    once = [sure(0.95, k % 2 == 0, name=str(k)) for k in range(30)]
    thrice = [replace(result, sample=s) for result in once for s in (1, 2, 3)]
    (single,), (sampled,) = map(points_of, (once, thrice))
    assert (single.label.split(", ")[-2], sampled.label.split(", ")[-2]) == ("30 answers", "90 answers")
    assert (sampled.low, sampled.high) == (pytest.approx(single.low, abs=0.02), pytest.approx(single.high, abs=0.02))


# ---- tables, page, files ---------------------------------------------------------------------------------------------


def run(folder: Path, shift: float, seed: int, **protocol: object) -> Path:
    """A run of the phantom's single-choice questions with stated confidences; some answers are not given."""
    draw, made = random.Random(seed), list[Result]()
    for guess in pages.guesses():
        if guess.item.kind == "single_choice":
            confidence, luck = draw.choice([0.5, 0.6, 0.7, 0.8, 0.9, 0.99]), draw.random()
            right = draw.random() < confidence - shift
            outcome = "abstained" if luck < 0.1 else "correct" if right else "wrong"
            letters = guess.item.answers if right else tuple({*guess.item.options} - {*guess.item.answers})[:1]
            answer = Answer("A", confidence=None if luck > 0.95 else confidence)
            score = Score(float(outcome == "correct"), outcome, () if outcome == "abstained" else letters)
            made.append(replace(guess, answer=answer, score=score, technique="mc"))
    return pages.write(folder, made, protocol={"confidence": True, "abstain": True, **protocol})


def test_the_numbers_are_the_same_in_files_summaries_and_on_the_page(tmp_path: Path) -> None:
    built = report.build(run(tmp_path / "run", 0.1, 1), pages.PHANTOM)
    writing.write(built)
    stored = json.loads((tmp_path / "run" / "metrics.json").read_text())["confidence"]
    assert [(each["benchmark"], each["source"]) for each in stored] == [
        ("phantom-gmai-mmbench", "stated"),
        ("phantom-mediconfusion", "stated"),
    ]
    first = stored[0]
    assert first["answers"] == first["n"] + built.parts[0].confidence.unread + first["left_out"]["abstained"]
    auroc = {each["name"]: each for each in first["measures"]}["auroc"]
    shown = Figure(auroc["value"], auroc["low"], auroc["high"], percent=False, digits=3)
    summary = (tmp_path / "run" / "summary.md").read_text()
    assert f"| stated | AUROC | {shown.text} | {shown.interval} | {first['n']} answers |" in summary
    assert "whose confidence could not be read" in summary
    text = terminal.summary(built, width=200)
    assert re.search(rf"stated +AUROC +{shown.text} +{shown.interval}", text)
    assert "E-AURC" not in text
    section = page.confidence_section(built)
    table, reliability, risks, *_ = section.blocks
    assert [type(block) for block in (table, reliability, risks)] == [TableBlock, PlotBlock, PlotBlock]
    assert [(column.title, column.units) for column in table.columns] == [("measure", ""), ("value", "n")]
    assert table.rows[0].cells[1].shown == shown.text
    assert (reliability.diagonal, reliability.series[0].drawn) == (True, "points")
    assert "confidence" in [each.id for each in report.bundle.sections_of(built, "", [])]


def test_an_offer_to_abstain_is_a_point_beside_the_curve(tmp_path: Path) -> None:
    built = report.build(run(tmp_path / "run", 0.1, 1), pages.PHANTOM)
    part = built.parts[0]
    own = {measure.name: measure.value for measure in part.measures if not measure.slice}
    risks = page.confidence_section(built).blocks[2]
    curve, offer = risks.series
    (point,) = offer.points
    assert (point.x, point.y) == (pytest.approx(own["coverage"]), pytest.approx(1 - own["answered_accuracy"]))
    assert offer.drawn == "points"
    # Both have one axis: the curve ends where all answers with a confidence are given.
    assert curve.points[-1].x == pytest.approx(part.confidence.n / part.confidence.answers)
    assert curve.points[-1].x < point.x
    plain = report.build(run(tmp_path / "plain", 0.1, 1, abstain=False), pages.PHANTOM)
    assert len(page.confidence_section(plain).blocks[2].series) == 1


def test_a_curve_of_many_thresholds_is_a_line_through_some_of_them() -> None:
    many = page.risks(
        quality("b", "option", [sure(0.5 + k / 1000, k % 4 > 0, name=f"{k:04}") for k in range(400)]), None
    )
    (series,) = many.series
    assert (series.drawn, len(series.points)) == ("line", page.MOST_POINTS)
    assert series.points[0].x == pytest.approx(10 / 400)
    assert series.points[-1].x == 1
    few = page.risks(quality("b", "stated", mixed(1)), None)
    assert few.series[0].drawn == "points"
    # All answers with a score: 10 unscored ones and 10 errors are none.
    assert few.series[0].points[-1].x == pytest.approx(140 / 180)


def test_a_run_without_any_readable_confidence_says_so_on_its_page(tmp_path: Path) -> None:
    results = [replace(each, answer=Answer("A"), technique="mc") for each in pages.guesses()[:40]]
    built = report.build(pages.write(tmp_path / "run", results, protocol={"confidence": True}), pages.PHANTOM)
    (notice,) = page.confidence_section(built).blocks
    assert re.match(r"confidence is stated by the model, of 0 of 40 answers; left out: \d+ answers whose", notice.text)
    without = report.build(pages.write(tmp_path / "none", results), pages.PHANTOM)
    assert page.confidence_section(without).blocks == []
    assert "confidence" not in writing.as_json(without)


# ---- two runs --------------------------------------------------------------------------------------------------------


def test_two_runs_are_compared_over_the_answers_with_a_confidence_in_both(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, shift, seed) for name, shift, seed in (("old", 0.0, 2), ("new", 0.2, 1))]
    study = comparing.study(comparing.load_runs(paths), pages.PHANTOM)
    (versus,) = study.versus
    found = versus.paired.confidences[0]
    sides = [{r.item.id: r for r in each.results if r.item.benchmark == found.benchmark} for each in study.sides]
    both = [key for key in sorted(sides[0]) if all(ranking_of(side[key]) is not None for side in sides)]
    assert (found.n, found.answers) == (len(both), len(sides[0]))
    old, new = (Rated.of([side[key] for key in both]) for side in sides)
    for name, one, other in zip(
        curves.AREAS, *(values(each.confidence, each.correct) for each in (old, new)), strict=True
    ):
        measure = found.measures[name]
        assert found.sides[name] == (pytest.approx(one), pytest.approx(other))
        assert measure.value == pytest.approx(other - one)
        assert measure.low < measure.value < measure.high
    assert found.measures["augrc"].low > 0
    text = comparison.text(comparison.of_study(study, pages.PHANTOM), None)
    assert f"confidence (stated by the model), {len(both)} of {len(sides[0])} answers with one in both runs" in text
    assert "no verdict of a gate" in text
    stored = comparison.as_json(study)["comparisons"][0]["confidence"]
    assert [each["name"] for each in stored[0]["measures"]] == [*curves.AREAS, SQUARE]


def test_a_measure_that_leaves_answers_out_says_how_many_count_in_each_run(tmp_path: Path) -> None:
    """The difference is that of both runs' own measures; its bounds are those of a difference of ratios."""
    paths = [run(tmp_path / name, shift, seed) for name, shift, seed in (("old", 0.0, 2), ("new", 0.2, 1))]
    study = comparing.study(comparing.load_runs(paths), pages.PHANTOM)
    rows = {row.metric: row for row in study.versus[0].paired.tables if not row.slice and "gmai" in row.benchmark}
    sides = [[r for r in side.results if r.item.benchmark == rows["accuracy"].benchmark] for side in study.sides]
    for name, metric in (("brier_score", metrics.brier_score), ("answered_accuracy", metrics.answered_accuracy)):
        old, new = (metrics.measures(own, [metric], (), benchmark="b", signature={})[0] for own in sides)
        before, after, change = rows[name].figures
        assert (before.value, before.n) == pytest.approx((old.value, old.n))
        assert (after.value, after.n) == pytest.approx((new.value, new.n))
        assert old.n != new.n
        assert change.value == pytest.approx(new.value - old.value)
        assert change.counted == f"{change.n:.0f} items ({old.n:.0f} and {new.n:.0f})"
        assert change.low < change.value < change.high
        text = comparison.text(comparison.of_study(study, pages.PHANTOM), None)
        assert change.counted in text
        (stored,) = (
            each
            for each in comparison.as_json(study)["comparisons"][0]["measures"]
            if (each["benchmark"], each["name"], each["slice"]) == (rows[name].benchmark, name, {})
        )
        assert stored["counted"] == {"new": new.n, "baseline": old.n}
    assert rows["coverage"].figures[2].unit == "items"
    assert "count in baseline and new run, each measured over its own" in text
    section = next(each for each in several_runs.sections(study, pages.PHANTOM) if each.id == "pair-1")
    table, confidence, *_ = (block for block in section.blocks if isinstance(block, TableBlock))
    assert "Numbers in brackets count in baseline and new run" in table.notes[0]
    assert not comparison.of_own([rows["coverage"]])
    # AURC is better if less, which a difference alone does not tell.
    assert [row.note for row in confidence.rows][:2] == [confidences.NAMES[name][1] for name in ("auroc", "aurc")]
    assert "less is better but for AUROC" in text
    # If either run counts few units, all three are shown as counts.
    few = replace(rows["answered_accuracy"].comparison, counted=(40, 8), baseline=0.75, new=0.5, units=45)
    before, after, change = replace(rows["answered_accuracy"], comparison=few).figures
    assert (before.text, after.text, change.text) == ("6/8", "20/40", "")


def test_runs_without_confidences_of_one_kind_are_not_compared_by_them(tmp_path: Path) -> None:
    one = run(tmp_path / "one", 0.0, 1)
    plain = run(tmp_path / "plain", 0.0, 2, confidence=False)
    study = comparing.study(comparing.load_runs([one, plain]), pages.PHANTOM, anyway=True)
    assert study.versus[0].paired.confidences == ()
    assert "confidence" not in comparison.as_json(study)["comparisons"][0]


def test_samples_with_equal_numbers_are_beside_each_other() -> None:
    one = [said(k, 0.5 + (k + s) / 100, "wrong" if k % 3 else "correct", sample=s) for k in range(20) for s in (1, 2)]
    found = compared("b", "stated", [(each, each) for each in one])
    assert (found.n, found.groups) == (40, 20)
    assert all(each.value == 0 for each in found.measures.values() if each.value is not None)
    assert compared("b", "stated", [(said(1, None), said(1, 0.5))]) is None


@pytest.mark.parametrize("name", ["auroc", "AUGRC", "e-aurc", "calibration_error"])
def test_curves_and_the_calibration_error_are_not_gated(name: str) -> None:
    benchmark = slake.BENCHMARKS[0]
    with pytest.raises(UsageError, match="is no mean over questions, and cannot be gated") as error:
        metric_of(benchmark, name, "[tool.medvqa.gate]")
    assert "Gate brier_score or log_loss" in str(error.value)
    with pytest.raises(UsageError, match="has no measure 'area'"):
        metric_of(benchmark, "area", "[tool.medvqa.gate]")


def test_log_likelihoods_of_equal_size_are_chance() -> None:
    """Three options with equal log-probabilities, in any unit, have a third of the probability each."""
    item = Item("q", "b", "single_choice", "?", {"A": "a", "B": "b", "C": "c"}, ("A",))
    result = Result("r", item, "", Answer("", dict.fromkeys("ABC", -exp(5))), Score(1.0, "correct", ("A",)), "gd")
    assert ranking_of(result) == pytest.approx(1 / 3)


@pytest.mark.parametrize("samples", [1, 3])
def test_the_brier_score_and_the_log_loss_are_those_of_the_measures(tmp_path: Path, samples: int) -> None:
    path = run(tmp_path / "run", 0.1, 1, **({"samples": samples} if samples > 1 else {}))
    if samples > 1:
        made = [replace(each, sample=k) for each in run_folder.read(path).results for k in range(1, samples + 1)]
        kept = [each for number, each in enumerate(made) if number % 7]
        path = pages.write(tmp_path / "sampled", kept, protocol={"confidence": True, "samples": samples})
    for part in report.build(path, pages.PHANTOM).parts:
        measured = {each.name: (each.value, each.low, each.high) for each in part.measures if not each.slice}
        stated = part.confidence.measures
        for name in ("brier_score", "log_loss"):
            assert (stated[name].value, stated[name].low, stated[name].high) == measured[name]
        assert None not in measured["brier_score"]
