"""Closed questions by whole words, open ones by their tokens: hand-computed cases."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from medvqa import metrics
from medvqa.items import Answer, Item, Metric, Result
from medvqa.scoring import overlap, score_closed, unscored
from medvqa.scoring.closed import CHINESE, side_of


def closed(*keys: str) -> Item:
    return Item("1", "b", "judgment", "Is there an effusion?", answers=keys)


def opened(*keys: str) -> Item:
    return Item("1", "b", "short_answer", "Where is the effusion?", answers=keys)


def scored(item: Item, text: str, finish: str = "stop") -> str:
    return score_closed(item, Answer(text, finish=finish)).outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("No", "correct"),
        ("no.", "correct"),
        ("**No**, there is no effusion.", "correct"),
        ("The answer is no.", "correct"),
        ("<think>Yes? Perhaps.</think> no", "correct"),
        ("Yes", "wrong"),
        ("yes, but no large one", "wrong"),
        ("abnormal", "unparsed"),
        ("I know it is not.", "unparsed"),
        ("nothing in the north", "unparsed"),
        ("Yes and no", "unparsed"),
        ("", "unparsed"),
        ("I cannot answer that.", "refused"),
    ],
)
def test_yes_and_no_are_whole_words(text: str, outcome: str) -> None:
    assert scored(closed("No"), text) == outcome


@pytest.mark.parametrize(
    ("key", "text", "outcome"),
    [
        ("不包含", "不包含", "correct"),
        ("不包含", "不包含。", "correct"),
        ("不包含", "包含", "wrong"),
        ("包含", "不包含", "wrong"),
        ("包含", "是的，图中包含肝脏", "correct"),
        ("没有", "不是", "correct"),
        ("没有", "No", "correct"),
        ("有", "没有", "wrong"),
        ("有", "没有有", "unparsed"),
        ("存在", "存在", "correct"),
        ("可以", "不可以", "wrong"),
        ("是的", "是", "correct"),
        ("是的", "不是", "wrong"),
        ("不正常", "异常", "correct"),
        ("不正常", "正常", "wrong"),
        ("不正常", "是的", "unparsed"),
        ("包含", "没有", "unparsed"),
        ("包含", "是的。不包含", "unparsed"),
        ("不正常", "yes", "unparsed"),
        ("不包含", "答案是不包含", "correct"),
        ("不包含", "最终答案：不包含。", "correct"),
        ("不包含", "<think>包含</think>不包含", "correct"),
        ("不包含", r"\boxed{不包含}", "correct"),
        ("包含", "包含吗？不包含。", "wrong"),
        ("包含", "图中包含肝脏", "unparsed"),
        ("包含", "", "unparsed"),
        ("包含", "无法判断", "abstained"),
    ],
)
def test_chinese_yes_and_no_follow_the_verb(key: str, text: str, outcome: str) -> None:
    assert scored(closed(key), text) == outcome


def test_each_chinese_answer_has_one_side() -> None:
    words = [word for sides in CHINESE.values() for side in sides for word in side]
    assert len(words) == len(set(words))
    assert {side_of(word) is not None for word in words} == {True}
    assert side_of("肝脏") is None


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Left", "correct"),
        (" the LEFT. ", "correct"),
        (r"It is \boxed{left}.", "correct"),
        ("right", "wrong"),
        ("left lung", "wrong"),
        ("left or right", "wrong"),
        ("cleft", "wrong"),
        ("", "unparsed"),
        ("I cannot tell", "abstained"),
    ],
)
def test_one_of_two_things_is_an_exact_match_of_the_whole_answer(text: str, outcome: str) -> None:
    assert scored(closed("Left"), text) == outcome


def test_a_key_is_no_refusal_and_a_cut_answer_is_no_answer() -> None:
    assert scored(closed("cannot tell"), "Cannot tell.") == "correct"
    assert scored(closed("Left"), "left", "length") == "unparsed"
    assert scored(closed("包含"), "包含", "length") == "unparsed"
    assert scored(closed("Left"), "left", "refusal") == "refused"
    assert score_closed(closed(), Answer("left")).outcome == "unscored"


@pytest.mark.parametrize(
    ("reference", "text", "exact", "recall", "f1"),
    [
        ("left lung", "The left lung.", 1, 1, 1),
        ("left lung", "lung", 0, Fraction(1, 2), Fraction(2, 3)),
        ("left lung", "lung lung lung", 0, Fraction(1, 2), Fraction(2, 5)),
        ("left lung", "the left lung is affected", 0, 1, Fraction(2, 3)),
        ("left lung", "lung left", 0, 1, 1),
        ("right lung, right heart", "right", 0, Fraction(1, 4), Fraction(2, 5)),
        ("right lung, right heart", "right right", 0, Fraction(1, 2), Fraction(2, 3)),
        ("x-ray", "X Ray", 1, 1, 1),
        ("lung", "lungs", 0, 0, 0),
        ("lung", "", 0, 0, 0),
        ("2", "2", 1, 1, 1),
        ("肺部", "肺", 0, Fraction(1, 2), Fraction(2, 3)),
        ("lung", "<think>the heart?</think>lung", 1, 1, 1),
        ("lung", "<think>lung", 0, 0, 0),
    ],
)
def test_open_answers_by_hand(reference: str, text: str, exact: float, recall: float, f1: float) -> None:
    item, answer = opened(reference), Answer(text)
    assert overlap.exact(item, answer) == exact
    assert overlap.recall(item, answer) == pytest.approx(float(recall))
    assert overlap.f1(item, answer) == pytest.approx(float(f1))


def test_the_best_of_several_references_counts_and_none_leaves_the_question_out() -> None:
    assert overlap.recall(opened("heart", "left lung"), Answer("lung")) == 0.5
    assert overlap.recall(opened("?!", "lung"), Answer("lung")) == 1
    assert overlap.recall(opened("?!"), Answer("lung")) is None
    assert overlap.exact(opened(), Answer("lung")) is None


def of(results: list[Result], metric: Metric) -> tuple[float | None, float]:
    [measure] = [m for m in metrics.measures(results, [metric], (), benchmark="b", signature={}) if not m.slice]
    return measure.value, measure.n


def test_closed_and_open_questions_are_measured_apart() -> None:
    answered = [("1", closed("yes"), "yes"), ("2", closed("no"), "abnormal"), ("3", opened("left lung"), "lung"),
                ("4", opened("liver"), "Liver"), ("5", opened(), "liver")]  # fmt: skip
    results = [
        Result("r", replace(item, id=name), "", Answer(text), (score_closed if item.kind == "judgment" else unscored)(
            item, Answer(text)))
        for name, item, text in answered
    ]  # fmt: skip
    results.append(Result("r", replace(opened("liver"), id="6"), "", None, unscored(opened("liver"), Answer(""))))
    accuracy, recall, f1, exact, judged = metrics.closed_and_open("answer_type")
    assert of(results, accuracy) == (0.5, 2)
    assert of(results, recall) == (0.75, 2)
    assert of(results, f1) == (pytest.approx((2 / 3 + 1) / 2), 2)
    assert of(results, exact) == (0.5, 2)
    assert of(results, judged) == (None, 0), "shared words are no score"
    assert {result.score.outcome for result in results if result.item.kind == "short_answer"} == {"unscored"}


def test_signatures_name_how_closed_is_told_and_how_tokens_are_counted() -> None:
    by_type, by_answer = (
        {metric.name: metrics.parts(metrics.measuring.signed(metric, {})) for metric in metrics.closed_and_open(by)}
        for by in ("answer_type", "answer")
    )
    assert by_type["open_recall"]["closed"] == "answer_type"
    assert by_type["open_recall"]["tokens"] == "multiset"
    assert by_type["open_recall"]["normalise"] == overlap.NORMALISATION
    assert by_type["closed_accuracy"]["kinds"] == "judgment"
    for name, parts in by_type.items():
        changed = {key for key, value in parts.items() if by_answer[name][key] != value}
        assert changed == {"closed"}, name
