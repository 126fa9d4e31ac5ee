"""--metric-like: counts of other kits, and nine traps of their scorers, each beside our own count.

The functions `lm_*` and `mk_*` state the kits' formulas again, in their own order of steps, as an oracle:
LLaVA-Med at ad758b687d4e, MedEvalKit at 9b12e3b34232, lmms-eval at 75571cfe0fa3, PathVQA at dd5180425138.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence
from difflib import SequenceMatcher

import pytest

from medvqa import benchmarks, metrics, scoring
from medvqa.benchmarks import path_vqa, slake, vqa_rad
from medvqa.items import Answer, Item, Judgement, Kit, Metric, Outcome, Result, Score, UsageError
from medvqa.metrics import kits
from medvqa.scoring import overlap

WORDS = [
    *("yes", "no", "abnormal", "normal", "know", "not", "left", "right", "lung", "liver", "the", "a", "an", "effusion"),
    *("x-ray", "two", "none", "isnt", "isn't", "don't", "dont", "3,5", "1.5", "mass.", "(small)", "pleural,", "heart;"),
    *("is/are", "answer:", "boxed", "final answer", "is", "north", "there", "yes.", "no,"),
]


def texts(number: int, seed: int, longest: int = 6) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, longest))) for _ in range(number)]


def closed(key: str, **more: object) -> Item:
    return Item("1", "b", "judgment", "?", answers=(key,), **more)  # type: ignore[arg-type]


def opened(key: str) -> Item:
    return Item("1", "b", "short_answer", "?", answers=(key,))


def answered(items: Sequence[Item], responses: Sequence[str]) -> list[Result]:
    """Results of a run without a judge."""
    return [
        Result(
            "r", Item(f"{n:03}", "b", item.kind, "?", item.options, item.answers), "", Answer(text), scored(item, text)
        )
        for n, (item, text) in enumerate(zip(items, responses, strict=True))
    ]


def scored(item: Item, text: str) -> Score:
    if item.kind == "single_choice":
        return scoring.score_single_choice(item, Answer(text))
    return path_vqa.closed_open.score(item, Answer(text))


def value(results: Sequence[Result], counted: Sequence[Metric], name: str) -> tuple[float | None, float]:
    """The value and the denominator of a metric over everything."""
    [metric] = [metric for metric in counted if metric.name == name]
    [measure] = [m for m in metrics.measures(results, [metric], (), benchmark="b", signature={}) if not m.slice]
    return measure.value, measure.n


LM = kits.llava_med(Kit())
MK = kits.medevalkit(Kit())
OURS = metrics.closed_and_open("answer")


# The kits' formulas


def lm_normalised(text: str) -> str:
    digits = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    numbers = {"zero": "0", **{word: str(number) for number, word in enumerate(digits)}}
    result = text
    for sign in ';/[]"{}()=+\\_-><@`,?!':
        beside = f"{sign} " in text or f" {sign}" in text or re.search(r"(\d)(\,)(\d)", text) is not None
        result = result.replace(sign, "") if beside else result.replace(sign, " ")
    result = re.sub(r"(?!<=\d)(\.)(?!\d)", "", result, count=int(re.UNICODE))
    words = [numbers.get(word, word) for word in result.lower().split()]
    contractions = {"isnt": "isn't", "dont": "don't"}
    return " ".join(contractions.get(word, word) for word in words if word not in ("a", "an", "the")).replace(",", "")


def lm_recall(reference: str, response: str) -> float:
    key, said = (lm_normalised(lm_normalised(text.lower())).split() for text in (reference, response))
    right = [word for word in said if word in key]
    return len(right) / (len(right) + len([word for word in key if word not in said])) if right else 0


def lm_nearest(reference: str, response: str, candidates: Sequence[str]) -> float:
    said = set(lm_normalised(lm_normalised(response.lower())).split())
    normal = [lm_normalised(text) for text in candidates]
    shares = [len(said & set(text.split())) / len(set(text.split())) if text else 0 for text in normal]
    return float(normal[shares.index(max(shares))] == lm_normalised(lm_normalised(reference.lower())))


def mk_parsed(response: str) -> str:
    response = response.lower()
    if "boxed" in response:
        box = re.search(r".*\\boxed\{([^{}]*)\}", response, re.S)
        response = box[1].strip() if box else "None"
    patterns = (
        "**answer**:",
        "**answer**",
        "*answer*:",
        "**answer:**",
        "answer is",
        "answer:",
        "答案:",
        "final answer",
    )
    for pattern in (*patterns, "final answer is"):
        response = response.split(pattern)[-1]
    return response


def mk_judgement(key: str, response: str) -> bool:
    said = mk_parsed(response).replace("\n", "").replace(".", "")
    return ("yes" in said) != ("no" in said) and key in said


@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_those_of_llava_med_on_generated_answers(seed: int) -> None:
    candidates = tuple(text or "heart" for text in texts(12, seed + 200, 2))
    references, responses = random.Random(seed).choices(candidates, k=150), texts(150, seed + 100)
    results = answered([opened(text) for text in references], responses)
    counted = kits.llava_med(Kit(training=lambda: candidates))
    recalls = [lm_recall(*pair) for pair in zip(references, responses, strict=True)]
    assert value(results, counted, "llava_med_open_recall") == (pytest.approx(sum(recalls) / 150), 150)
    hits = [lm_nearest(*pair, candidates) for pair in zip(references, responses, strict=True)]
    assert value(results, counted, "llava_med_open_accuracy") == (pytest.approx(sum(hits) / 150), 150)
    assert 0 < sum(hits) < 150

    keys = random.Random(seed).choices(["Yes", "No"], k=150)
    counts = []
    for key, response in zip(keys, responses, strict=True):
        said = lm_normalised(response.lower())
        if "yes" not in said and "no" not in said:
            counts.append(0)
        elif key.lower() in said:
            counts.append(1)
    results = answered([closed(key) for key in keys], responses)
    assert value(results, counted, "llava_med_closed_accuracy") == (
        pytest.approx(sum(counts) / len(counts)),
        len(counts),
    )


@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_those_of_medevalkit_on_generated_answers(seed: int) -> None:
    responses = texts(150, seed + 300)
    keys = random.Random(seed).choices(["Yes", "No"], k=150)
    right = [mk_judgement(key.lower(), response.strip()) for key, response in zip(keys, responses, strict=True)]
    results = answered([closed(key) for key in keys], responses)
    assert value(results, MK, "medevalkit_closed_accuracy") == (pytest.approx(sum(right) / 150), 150)
    assert 0 < sum(right) < 150

    references = [text or "mass" for text in texts(150, seed, 2)]
    results = answered([opened(text) for text in references], responses)
    said = [mk_parsed(response.strip()) for response in responses]
    exact = [text == key.lower().strip() for text, key in zip(said, references, strict=True)]
    assert value(results, MK, "medevalkit_open_em") == (pytest.approx(sum(exact) / 150), 150)
    sets = [(set(text.lower().split()), set(key.lower().split())) for text, key in zip(said, references, strict=True)]
    sets = [(first, second) for first, second in sets if first and second]
    precision = [len(first & second) / len(first) for first, second in sets]
    recall = [len(first & second) / len(second) for first, second in sets]
    f1 = [2 * p * r / (p + r) if p + r else 0 for p, r in zip(precision, recall, strict=True)]
    for printed, true in (("precision", f1), ("recall", precision), ("f1", recall)):
        assert value(results, MK, f"medevalkit_printed_{printed}") == (pytest.approx(sum(true) / len(sets)), len(sets))


# The traps


def test_trap_1_wrong_answers_leave_the_denominator_of_llava_med() -> None:
    results = answered([closed("yes")] * 4, ["yes", "no", "no", "No, it is not."])
    assert value(results, LM, "llava_med_closed_accuracy") == (1.0, 1)
    assert value(results, OURS, "closed_accuracy") == (0.25, 4)


@pytest.mark.parametrize("text", ["abnormal", "I know", "it is not", "nothing", "north"])
def test_trap_2_no_within_another_word(text: str) -> None:
    results = answered([closed("no")], [text])
    assert value(results, LM, "llava_med_closed_accuracy") == (1.0, 1)
    assert value(results, MK, "medevalkit_closed_accuracy") == (1.0, 1)
    assert value(results, OURS, "closed_accuracy") == (0.0, 1)
    assert results[0].score.outcome == "unparsed"


def test_trap_3_an_empty_answer_stands_for_the_first_candidate_and_exact_is_a_share_of_words() -> None:
    counted = kits.llava_med(Kit(training=lambda: ("Heart", "left lung", "lung")))
    results = answered([opened("heart")], [""])
    assert value(results, counted, "llava_med_open_accuracy") == (1.0, 1)
    assert value(results, OURS, "open_exact") == (0.0, 1)
    assert kits.Nearest(["heart", "left lung", "lung left"]).candidate("the lung left of it") == "left lung"
    results = answered([opened("left lung")], ["left lung left"])
    assert value(results, LM, "llava_med_open_exact") == (pytest.approx(2 / 3), 1)
    assert value(results, OURS, "open_exact") == (0.0, 1)
    # The owners of PathVQA return a text in place of a number for an empty answer; ours is 0.
    assert overlap.f1(opened("lung"), Answer("")) == 0.0
    assert "open_accuracy" not in " ".join(metric.name for metric in LM), "without training answers"


def test_trap_4_precision_recall_and_f1_are_swapped_and_tokens_are_sets() -> None:
    results = answered([opened("left lung")], ["lung lung and heart"])
    precision, recall = 1 / 3, 1 / 2
    f1 = 2 * precision * recall / (precision + recall)
    assert value(results, MK, "medevalkit_printed_precision")[0] == pytest.approx(f1)
    assert value(results, MK, "medevalkit_printed_recall")[0] == pytest.approx(precision)
    assert value(results, MK, "medevalkit_printed_f1")[0] == pytest.approx(recall)
    assert value(results, OURS, "open_f1")[0] == pytest.approx(2 * 1 / (4 + 2)), "a multiset: lung counts twice"
    assert value(answered([opened("lung")], [""]), MK, "medevalkit_printed_f1") == (None, 0), "there it fails"
    assert value(answered([opened("lung")], [""]), OURS, "open_f1") == (0.0, 1)


def judged(item: Item, text: str, score: float) -> Result:
    outcome: Outcome = "correct" if score == 1 else "partial" if score else "wrong"
    judgement = Judgement("judge", "judging/score@1", "score", ("<result>1</result>",))
    return Result("r", item, "", Answer(text), Score(score, outcome), judgement=judgement)


def test_trap_5_with_a_judge_medevalkit_loses_the_closed_answers_of_path_vqa() -> None:
    results = [*answered([closed("yes")], ["yes"]), judged(opened("lung"), "pulmonary", 1.0)]
    for benchmark, total in ((path_vqa.BENCHMARKS[0], 0.5), (vqa_rad.BENCHMARKS[0], 1.0)):
        counted = benchmark.owners.kits["medevalkit"](Kit(judged=True))
        assert value(results, counted, "medevalkit_total_accuracy") == (total, 2)
        assert value(results, counted, "medevalkit_open_accuracy") == (1.0, 1)
        assert value(results, benchmark.metrics, "closed_accuracy") == (1.0, 1)
        without = benchmark.owners.kits["medevalkit"](Kit())
        assert value(answered([closed("yes")], ["yes"]), without, "medevalkit_closed_accuracy") == (1.0, 1)


def test_slakes_closed_answers_are_left_out_if_medevalkit_would_count_them_twice() -> None:
    counted = slake.BENCHMARKS[0].owners.kits["medevalkit"]
    told = {judged: {metric.name for metric in counted(Kit(judged=judged))} for judged in (False, True)}
    assert told[False] - told[True] == {"medevalkit_total_accuracy", "medevalkit_closed_accuracy"}


@pytest.mark.parametrize("seed", range(3))
def test_trap_6_an_empty_answer_is_the_first_option(seed: int) -> None:
    item = Item("1", "b", "single_choice", "?", {"A": "cyst", "B": "stone"}, ("A",))
    results = answered([item, item, item], ["", "the stony one", "B"])
    counted = kits.medevalkit_choices(Kit(), line="{letter}.{text}")
    assert value(results, counted, "medevalkit_choice_accuracy") == (pytest.approx(1 / 3), 3)
    assert [result.score.outcome for result in results] == ["unparsed", "unparsed", "wrong"]
    shown = ["A.left lung", "B.right lung", "C.heart"]
    for text in texts(60, seed, 3):
        said = mk_parsed(text).strip().replace("\n", "").split(".")[0].split(":")[-1]
        if said in ("a", "b", "c"):
            continue
        ratios = [SequenceMatcher(None, option.lower(), mk_parsed(text).strip()).ratio() for option in shown]
        for place, key in enumerate("ABC"):
            assert kits.medevalkit_choice(shown, key, text) == (ratios.index(max(ratios)) == place), text


def test_trap_7_nothing_is_drawn_where_nothing_is_read() -> None:
    item = Item("1", "b", "single_choice", "?", {"A": "cyst", "B": "stone"}, ("A",))
    outcomes = {scoring.score_single_choice(item, Answer("I see a scan.")).outcome for _ in range(20)}
    assert outcomes == {"unparsed"}


LE_YES = {"是", "是的", "有", "包含", "可以", "能", "会", "正常", "yes", "yeah", "yep", "true"}
LE_NO = {"否", "不是", "没有", "无", "不包含", "不能", "不会", "不可以", "不正常", "异常", "no", "nope", "false"}


def le_normalised(text: str) -> str:
    text = re.sub(r"\([^)]*\)|（[^）]*）", " ", text.strip().lower())
    text = " ".join(text.translate({ord(sign): " " for sign in string.punctuation + "，。；：！？"}).split())
    return "yes" if text in LE_YES else "no" if text in LE_NO else text


@pytest.mark.parametrize(
    ("key", "text", "there", "ours"),
    [
        ("是的", "正常", True, "unparsed"),
        ("不正常", "没有", True, "unparsed"),
        ("存在", "是的", False, "correct"),
        ("包含", "有", True, "unparsed"),
        ("Lung", "lung (left) ", True, "wrong"),
        ("不包含", "不包含", True, "correct"),
    ],
)
def test_trap_8_lmms_eval_reads_chinese_yes_and_no_without_the_verb(
    key: str, text: str, there: bool, ours: str
) -> None:
    assert (le_normalised(key) == le_normalised(text)) is there
    assert scoring.score_closed(closed(key), Answer(text)).outcome == ours


def test_trap_9_our_judge_says_1_for_correct() -> None:
    from medvqa.judging import Settings, case_of, score
    from medvqa.judging.replies import JudgeReading, read

    benchmark, item, answer = vqa_rad.BENCHMARKS[0], opened("lung"), Answer("pulmonary")
    case = case_of(benchmark, item, "mc", answer, benchmark.score(item, answer), Settings())
    assert case is not None
    values = {}
    for reply in ("<result>1</result>", "<result>0</result>"):
        reading = read(case, 0, reply)
        assert isinstance(reading, JudgeReading)
        values[reply] = score(case, item, [reading], Settings()).outcome
    assert list(values.values()) == ["correct", "wrong"], "MedEvalKit's judge says 0 for correct"


# Labels


def test_names_definitions_and_signatures_name_the_kit() -> None:
    counted = (*LM, *MK, *kits.medevalkit_choices(Kit(), line="{letter}.{text}"))
    assert len({metric.name for metric in counted}) == len(counted)
    ours = {metric.name for benchmark in slake.BENCHMARKS for metric in benchmark.metrics}
    for metric in counted:
        kit = "llava-med" if metric.name.startswith("llava_med_") else "medevalkit"
        assert metric.definition.startswith(f"As {kit} counts, with its flaws: ")
        assert metrics.parts(metrics.signed(metric, {}))["like"] == f"{kit} {kits.COMMITS[kit]}"
        assert metric.name not in ours
    one, other = (
        metrics.signed(kits.llava_med(Kit(training=lambda names=names: names))[-1], {}) for names in (("a",), ("b",))
    )
    assert one != other, "the candidates are signed"


def test_kits_are_known_for_some_benchmarks() -> None:
    known = {benchmark.name: benchmark for benchmark in (*slake.BENCHMARKS, *path_vqa.BENCHMARKS)}
    benchmarks.check_kits(["llava-med", "medevalkit"], list(known.values()), known)
    with pytest.raises(UsageError, match=r"--metric-like=bleu: no such kit; there are: llava-med, medevalkit"):
        benchmarks.check_kits(["bleu"], list(known.values()), known)
    with pytest.raises(
        UsageError, match=r"--metric-like=llava-med: its counts are known for path-vqa-test.* not for slake-zh-test"
    ):
        benchmarks.check_kits(["llava-med"], [known["slake-zh-test"]], known)
