"""Two runs and more on the same questions: what is matched, what is compared, and what forbids it."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, t
from statsmodels.stats.multitest import multipletests

from medvqa import comparing, metrics, statistics
from medvqa.comparing import Compared, Paired, Side
from medvqa.items import Answer, Benchmark, Image, Item, Outcome, Prompt, Result, Score, UsageError
from medvqa.records import baseline_file, run_folder
from medvqa.records.run_folder import DISTRIBUTION, Recorder
from medvqa.records.run_record import RUN
from medvqa.tags import selection
from support.laws import examples
from support.runs import record

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"


def scored(item: Item, answer: Answer) -> Score:
    if answer.text not in item.options:
        return Score(0.0, "unparsed")
    right = answer.text in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text,))


@metrics.ratio(binary=False)
def words(results: Sequence[Result]) -> tuple[float, float]:
    """Mean number of words of an answer."""
    answer = results[0].answer
    return (float(len(answer.text.split())), 1.0) if answer else (0.0, 0.0)


SLAKE = Benchmark(
    name="slake",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=scored,
    metrics=(metrics.accuracy, metrics.macro_accuracy("organ"), metrics.mean_score, *metrics.rates),
    headline=("accuracy", "macro_accuracy"),
    dimensions=("organ", "modality"),
)
PAIRS = replace(
    SLAKE,
    name="pairs",
    metrics=(metrics.set_accuracy, metrics.individual_accuracy, metrics.confusion, metrics.invalid_rate),
    headline=("set_accuracy", "individual_accuracy", "confusion"),
)
KNOWN = {"slake": SLAKE, "pairs": PAIRS}


def question(n: int, **changes: Any) -> Item:
    tags = {"organ": ("lung", "heart", "liver")[n % 3 : n % 3 + 1], "modality": (("ct", "mri")[n % 2],)}
    plain = Item(f"q{n:03}", "slake", "single_choice", f"Which? {n}", {"A": "a", "B": "b"}, ("A",), (), tags)
    return replace(plain, **changes)


def couple(n: int, **changes: Any) -> list[Item]:
    """The two questions of a pair, of which nothing but the picture and the key differ."""
    return [
        replace(
            question(n, id=f"{n}/{i}", benchmark="pairs", answers=("AB"[i - 1],), pair_id=str(n)),
            images=(Image(f"{n}-{i}.png", digest=f"{n}-{i}"),),
            **changes,
        )
        for i in (1, 2)
    ]


def said(item: Item, text: str, sample: int = 0) -> Result:
    return Result("run", item, "", Answer(text), scored(item, Answer(text)), sample=sample)


def ended(item: Item, outcome: Outcome) -> Result:
    return Result("run", item, "", None if outcome == "error" else Answer("?"), Score(None, outcome))


def side(name: str, results: Sequence[Result], **about: Any) -> Side:
    return Side(name, record(about), tuple(metrics.latest(results)))


def answers(name: str, texts: str, **changes: Any) -> Side:
    """A run with one letter for each question; A is right."""
    return side(name, [said(question(n, **changes), text) for n, text in enumerate(texts)])


def pairs(name: str, texts: Sequence[str], **changes: Any) -> Side:
    """A run with two letters for each pair; AB is right."""
    return side(
        name,
        [
            said(item, letter)
            for n, both in enumerate(texts)
            for item, letter in zip(couple(n, **changes), both, strict=True)
        ],
    )


def compared(new: Side, baseline: Side, **options: Any) -> Paired:
    return comparing.compare(new, baseline, KNOWN, **options)


def of(paired: Paired, metric: str, **where: str) -> Compared:
    (found,) = [each for each in paired.tables if each.metric == metric and each.slice == where]
    return found


# Intervals


@pytest.mark.parametrize("seed", range(6))
def test_the_interval_of_a_difference_excludes_0_exactly_if_the_two_sided_p_is_small(seed: int) -> None:
    draw = random.Random(seed)
    old = "".join(draw.choices("AB", k=90))
    new = "".join(draw.choices("AB", [0.7, 0.3])[0] if draw.random() < 0.4 else letter for letter in old)
    found = compared(answers("new", new), answers("old", old))
    excludes = []
    for measure in found.tables:
        low, high = measure.shown.low, measure.shown.high
        if measure.metric == "accuracy" and measure.p is not None and low is not None and high is not None:
            excludes.append(low > 0 or high < 0)
            assert excludes[-1] == (measure.p < 0.05), (low, high, measure.p)
    assert len(excludes) >= 6, "all questions and the slices"
    assert found.coverage == 0.95


# Matching


def test_variants_of_a_question_are_averaged() -> None:
    asked = [replace(said(question(n), "A"), variant=variant) for n in range(20) for variant in ("", "BA")]
    worse = [replace(each, answer=Answer("B"), score=scored(each.item, Answer("B"))) for each in asked]
    changed = [one if one.variant else other for one, other in zip(asked, worse, strict=True)]
    paired = compared(side("new", changed), side("old", asked))
    (part,) = paired.parts
    assert (part.matched, part.scored, part.unmatched_new) == (20, 20, ())
    table = of(paired, "accuracy")
    assert (table.shown.new, table.shown.baseline, table.shown.lost) == (0.5, 1.0, 20)


def test_items_are_matched_by_what_was_asked_and_not_by_their_ids() -> None:
    items = [question(n) for n in range(4)]
    renamed = [
        replace(items[0], id="other"),
        items[1],
        replace(items[2], question="Another?"),
        replace(items[3], answers=("B",)),
    ]
    found = compared(side("new", [said(i, "A") for i in renamed]), side("old", [said(i, "A") for i in items]))
    (part,) = found.parts
    assert part.matched == 2
    assert part.unmatched_new == part.unmatched_baseline == ("q002", "q003")
    assert of(found, "accuracy").comparison.units == 2
    assert not found.unchanged, "each run has items of its own"


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {"A": "a", "B": "c"}},
        {"options": {"B": "b", "A": "a"}},
        {"kind": "multiple_response"},
        {"images": (Image("x.png", digest="2"),)},
        {"images": (Image("y.png"),)},
    ],
    ids=["text of an option", "order of options", "kind", "other image", "image without digest"],
)
def test_another_option_kind_or_image_is_another_question(changes: dict[str, Any]) -> None:
    item = question(0, images=(Image("x.png", digest="1"),))
    found = compared(side("new", [said(replace(item, **changes), "A")]), side("old", [said(item, "A")]))
    assert found.parts[0].matched == 0
    (part,) = found.parts
    assert (len(part.unmatched_new), len(part.unmatched_baseline)) == (1, 1)


def test_an_image_under_another_name_is_the_same_image() -> None:
    one, other = (question(0, images=(Image(name, digest="1"),)) for name in ("a.png", "b/a.jpg"))
    assert compared(side("new", [said(one, "A")]), side("old", [said(other, "A")])).parts[0].matched == 1


def test_of_questions_that_are_asked_twice_those_with_one_id_belong_together() -> None:
    asked = [question(0, id=id) for id in ("a", "b", "c")]
    again = [question(0, id=id) for id in ("b", "c", "d")]
    new, old = side("new", [said(i, i.id.upper()) for i in asked]), side("old", [said(i, i.id.upper()) for i in again])
    found = compared(new, old)
    (part,) = found.parts
    assert (part.matched, part.unmatched_new, part.unmatched_baseline) == (3, (), ())
    (flip,) = found.flips
    assert (flip.unit, flip.baseline[0].answer, flip.better) == ("a", Answer("D"), True)


def test_tags_pairs_and_groups_are_those_of_the_new_run() -> None:
    new = side("new", [said(question(n, tags={"organ": ("brain",)}, cluster_id=f"c{n // 2}"), "A") for n in range(12)])
    found = compared(new, answers("old", "A" * 11 + "B"))
    assert {tuple(each.slice.items()) for each in found.tables} == {
        (),
        (("organ", "brain"),),
        (("kind", "single_choice"),),
    }
    assert of(found, "accuracy", organ="brain").comparison.groups == 6
    assert found.flips[0].baseline[0].item.cluster_id == "c5"


@pytest.mark.parametrize("coarse_is_new", [True, False])
def test_groups_that_two_runs_name_otherwise_are_joined(coarse_is_new: bool) -> None:
    """An old run keeps the groups that were recorded: of two groupings what either joins counts as joined."""
    fine = [said(question(n, cluster_id=f"fine {n}"), "AB"[n % 2]) for n in range(12)]
    coarse = [said(question(n, cluster_id=f"coarse {n // 3}"), "BA"[n % 2]) for n in range(12)]
    new, old = (coarse, fine) if coarse_is_new else (fine, coarse)
    found = compared(side("new", new), side("old", old))
    joined = compared(side("new", coarse), side("old", coarse[:2] + [said(r.item, "B") for r in coarse[2:]]))
    assert of(found, "accuracy").comparison.groups == of(joined, "accuracy").comparison.groups == 4
    assert {flip.baseline[0].item.cluster_id for flip in found.flips} == (
        {f"coarse {n}" for n in range(4)} if coarse_is_new else {"fine 0", "fine 3", "fine 6", "fine 10"}
    )


def test_groups_that_cross_each_other_become_one() -> None:
    new = [said(question(n, cluster_id=f"c{n // 2}"), "A") for n in range(6)]
    old = [said(question(n, cluster_id=f"c{(n + 1) // 2}" if n else None), "AB"[n % 2]) for n in range(6)]
    assert of(compared(side("new", new), side("old", old)), "accuracy").comparison.groups == 1


def test_what_was_not_answered_is_named() -> None:
    items = [question(n) for n in range(5)]
    new = side("new", [ended(items[0], "error"), ended(items[1], "unscored"), *(said(i, "A") for i in items[2:])])
    old = side(
        "old", [said(items[0], "A"), said(items[1], "A"), ended(items[2], "error"), *(said(i, "A") for i in items[3:])]
    )
    found = compared(new, old)
    (part,) = found.parts
    assert (part.errors_new, part.errors_baseline) == (("q000", "q001"), ("q002",))
    withheld = [ended(item, "unscored") for item in items]
    (part,) = compared(side("new", withheld), side("old", withheld)).parts
    assert (part.errors_new, part.errors_baseline) == ((), ())


def test_each_technique_is_compared_with_itself() -> None:
    results = [said(question(n), "A") for n in range(6)]
    likely = [replace(result, technique="gd") for result in results]
    found = compared(side("new", [*results, *likely]), side("old", [*results, *likely[:5]]))
    assert [(part.technique, part.matched, part.unmatched_new) for part in found.parts] == [
        ("mc", 6, ()),
        ("gd", 5, ("q005",)),
    ]
    assert found.of("slake", "gd") == found.parts[1]
    with pytest.raises(KeyError):
        found.of("slake", "ps")
    only = compared(side("new", results), side("old", likely))
    assert [(part.technique, part.matched) for part in only.parts] == [("mc", 6)], "the technique is the difference"
    assert only.difference is not None
    assert only.difference.line("new", "old") == "the technique: mc in new, gd in old"


def test_a_benchmark_that_nobody_knows_is_a_usage_error() -> None:
    stranger = answers("run", "AB", benchmark="vqa-rad")
    with pytest.raises(UsageError, match="benchmark 'vqa-rad', which is not known here; known: pairs, slake"):
        compared(stranger, stranger)


# The numbers


def test_right_and_wrong_answers_are_compared_by_tango_s_interval() -> None:
    """3 of 10 gained, 1 lost: V = sum (d - 0.2)^2 / 90 = 0.04, deff = 0.04 / 0.036, n* = 9 (z / t)^2, 9 df."""
    found = of(compared(answers("new", "AAAAABBBBB"), answers("old", "BBBAABABBB")), "accuracy")
    seen = found.comparison
    assert (seen.baseline, seen.new, seen.difference) == pytest.approx((0.3, 0.5, 0.2))
    assert (seen.gained, seen.lost, seen.discordant_groups, seen.units, seen.groups) == (3, 1, 4, 10, 10)
    n = 9 * (norm.ppf(0.975) / t.ppf(0.975, 9)) ** 2
    low, high = statistics.tango(0.3 * n, 0.1 * n, n, 0.975)
    assert (seen.method, seen.low, seen.high) == ("tango", pytest.approx(float(low)), pytest.approx(float(high)))
    assert seen.mcnemar == pytest.approx(binomtest(3, 4).pvalue)
    assert seen.detectable == pytest.approx(2.802 * 0.2, abs=1e-3)
    assert found.p == pytest.approx(2 * t.sf(0.2 * 9**0.5 / 0.4**0.5, 9))
    assert (found.resampled, found.headline, found.counted) == (None, True, "items")


def test_a_macro_average_is_compared_over_its_slices() -> None:
    found = of(compared(answers("new", "ABABABABABAB"), answers("old", "BBABABABABAA")), "macro_accuracy")
    values = [metrics.measures(run.results, SLAKE.metrics, (), benchmark="slake", signature={}) for run in (
        answers("new", "ABABABABABAB"), answers("old", "BBABABABABAA"))]  # fmt: skip
    new, old = (next(m.value for m in each if m.name == "macro_accuracy") for each in values)
    assert (found.comparison.new, found.comparison.baseline) == pytest.approx((new, old))
    assert (found.slice, found.comparison.method) == ({}, "counts")


def test_of_what_should_be_low_more_is_worse() -> None:
    new, old = ["AA"] * 5 + ["AB"] * 7, ["AB"] * 9 + ["BB"] * 3
    found = of(compared(pairs("new", new), pairs("old", old)), "confusion")
    assert found.better == "lower"
    assert (found.shown.baseline, found.shown.new, found.shown.difference) == pytest.approx((3 / 12, 5 / 12, 2 / 12))
    assert (found.shown.gained, found.shown.lost) == (5, 3)
    assert found.comparison.difference == pytest.approx(-2 / 12)
    assert (found.comparison.gained, found.comparison.lost) == (3, 5)
    assert (found.shown.low, found.shown.high) == (-(found.comparison.high or 0), -(found.comparison.low or 0))
    assert found.comparison.worse is not None
    assert found.comparison.worse < 0.5, "the p-value of 'not worse' is small where it is worse"
    assert of(compared(pairs("new", new), pairs("old", old)), "invalid_rate").better == "lower"


def test_a_metric_that_leaves_0_to_1_is_compared_in_its_own_units() -> None:
    """Differences 1, 2, 1, 2 ...: mean 1.5, standard error 0.5 / sqrt(11)."""
    new, old = (
        side(name, [said(question(n), "x " * (5 + extra * (1 + n % 2))) for n in range(12)])
        for name, extra in (("new", 1), ("old", 0))
    )
    known = {name: replace(each, metrics=(*each.metrics, words)) for name, each in KNOWN.items()}
    seen = of(comparing.compare(new, old, known), "words").comparison
    half = t.ppf(0.975, 11) * 0.5 / 11**0.5
    assert (seen.baseline, seen.new, seen.difference) == pytest.approx((5, 6.5, 1.5))
    assert (seen.low, seen.high) == pytest.approx((1.5 - half, 1.5 + half))


def test_slices_are_adjusted_by_holm_within_dimension_and_measure() -> None:
    draw = random.Random(3)
    new, old = ("".join(draw.choice("AAAB") for _ in range(90)), "".join(draw.choice("AAB") for _ in range(90)))
    found = compared(answers("new", new), answers("old", old))
    for metric in ("accuracy", "mean_score"):
        for dimension, size in (("organ", 3), ("modality", 2)):
            family = [each for each in found.tables if each.metric == metric and dimension in each.slice]
            assert len(family) == size
            expected = multipletests([each.p for each in family], method="holm")[1]
            assert [each.adjusted for each in family] == pytest.approx(list(expected))


def test_samples_of_a_question_are_one_unit_whatever_their_number() -> None:
    letters = ["AAA", "AAB", "ABB", "BBB", "ABA", "BAB"] * 2
    new = side(
        "new", [said(question(n), letter, k) for n, each in enumerate(letters) for k, letter in enumerate(each, 1)]
    )
    seen = of(compared(new, answers("old", "ABABABABABAB")), "accuracy").comparison
    values = [each.count("A") / 3 for each in letters]
    assert (seen.units, seen.new, seen.baseline, seen.method) == (12, pytest.approx(sum(values) / 12), 0.5, "score")
    assert seen.mcnemar is None


def test_the_bootstrap_is_near_the_bounds_and_the_same_every_time() -> None:
    draw = random.Random(1)
    new, old = ("".join(draw.choice("AAB") for _ in range(400)), "".join(draw.choice("AB") for _ in range(400)))
    first, second = (compared(answers("new", new), answers("old", old), bootstrap=True) for _ in range(2))
    for metric in ("accuracy", "macro_accuracy"):
        found = of(first, metric)
        assert found.resampled == of(second, metric).resampled
        assert found.resampled == pytest.approx((found.comparison.low, found.comparison.high), abs=0.01)
    assert of(first, "mean_score").resampled is None, "no headline measure"
    assert of(first, "accuracy", organ="lung").resampled is not None


def test_the_bootstrap_of_what_should_be_low_is_of_the_measure_itself() -> None:
    found = of(
        compared(pairs("new", ["AA"] * 40 + ["AB"] * 60), pairs("old", ["AB"] * 100), bootstrap=True), "confusion"
    )
    assert found.resampled == pytest.approx((0.305, 0.495), abs=0.02)


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")
def test_a_recorded_run_against_a_constant_answer_has_the_groups_of_shared_images() -> None:
    folder = REFERENCE / "mediconfusion"
    data = json.loads((folder / "dataset.json").read_text())
    recorded = json.loads((folder / "gpt4o_mc_predictions.json").read_text())
    clusters = selection.components([pair["im_1_local"], pair["im_2_local"]] for pair in data.values())
    runs: dict[str, list[Result]] = {"gpt-4o": [], "always-a": []}
    for id, pair in data.items():
        for image in "12":
            options = {"A": pair["option_A"], "B": pair["option_B"]}
            item = Item(
                f"{id}/{image}", "pairs", "single_choice", pair["question"], options, (pair[f"im_{image}_correct"],)
            )
            local = pair[f"im_{image}_local"]
            item = replace(item, images=(Image(local),), pair_id=id, cluster_id=clusters[local])
            scores = recorded[id]["answer"][f"im{image}"]["answer"]
            runs["gpt-4o"].append(said(item, "".join(letter for letter in "AB" if scores[letter] == 10)))
            runs["always-a"].append(said(item, "A"))
    found = compared(side("gpt-4o", runs["gpt-4o"]), side("always-a", runs["always-a"]))
    seen = of(found, "set_accuracy").comparison
    assert (seen.groups, seen.units, seen.gained, seen.lost, seen.mcnemar) == (60, 176, 30, 0, None)
    assert (seen.new, seen.baseline) == (pytest.approx(30 / 176), 0)
    assert (seen.low or 0) > 0.08


# Flips


def test_flips_are_the_units_that_changed_with_both_responses() -> None:
    found = compared(answers("new", "ABBA?"), answers("old", "AABBB"))
    assert [(f.metric, f.unit, f.better) for f in found.flips] == [
        ("accuracy", "q001", False),
        ("accuracy", "q003", True),
    ]
    gained = found.flips[1]
    assert [(r.answer and r.answer.text, r.score.outcome) for r in (*gained.new, *gained.baseline)] == [
        ("A", "correct"),
        ("B", "wrong"),
    ]


def test_a_pair_flips_as_one() -> None:
    found = compared(pairs("new", ["AB", "AA", "BB", "BA"]), pairs("old", ["AA", "AB", "AA", "BA"]))
    assert [(f.metric, f.unit, f.better) for f in found.flips] == [
        ("set_accuracy", "0", True),
        ("set_accuracy", "1", False),
        ("individual_accuracy", "0", True),
        ("individual_accuracy", "1", False),
        ("confusion", "0", True),
        ("confusion", "1", False),
    ]
    assert [[r.item.id for r in f.new] for f in found.flips[:2]] == [["0/1", "0/2"], ["1/1", "1/2"]]


letters = st.lists(st.sampled_from(["AB", "AA", "BB", "BA", "A?", "??"]), min_size=1, max_size=14)


@given(letters, st.randoms(use_true_random=False))
@examples(25)
def test_as_many_units_flip_as_are_counted(new: list[str], draw: random.Random) -> None:
    old = [draw.choice(["AB", "AA", "BA", "?B"]) for _ in new]
    found = compared(pairs("new", new), pairs("old", old))
    flips = Counter((flip.metric, flip.better) for flip in found.flips)
    for metric in PAIRS.headline:
        seen = of(found, metric).comparison
        assert (flips[metric, True], flips[metric, False]) == (seen.gained, seen.lost)


# Laws


def numbers(paired: Paired) -> list[tuple[Any, ...]]:
    return [(each.metric, each.slice, each.shown, each.p, each.adjusted) for each in paired.tables]


@given(letters, st.randoms(use_true_random=False))
@examples(25)
def test_swapping_the_runs_negates_difference_and_bounds(new: list[str], draw: random.Random) -> None:
    old = [draw.choice(["AB", "AA", "BA", "?B"]) for _ in new]
    clusters = [str(draw.randrange(6)) for _ in new]
    one, other = (
        side(
            name,
            [
                replace(r, item=replace(r.item, cluster_id=clusters[i // 2]))
                for i, r in enumerate(pairs(name, texts).results)
            ],
        )
        for name, texts in (("one", new), ("other", old))
    )
    there, back = compared(one, other), compared(other, one)
    for ahead, behind in zip(there.tables, back.tables, strict=True):
        a, b = ahead.shown, behind.shown
        assert (ahead.metric, ahead.slice, a.new, a.baseline) == (behind.metric, behind.slice, b.baseline, b.new)
        assert (a.gained, a.lost, a.units, a.groups, a.mcnemar) == (b.lost, b.gained, b.units, b.groups, b.mcnemar)
        for value, mirrored in ((a.difference, b.difference), (a.low, b.high), (a.high, b.low)):
            assert (value is None) == (mirrored is None)
            assert value is None or mirrored is None or value == pytest.approx(-mirrored, abs=1e-9)
        assert ahead.p == (None if behind.p is None else pytest.approx(behind.p))


@given(letters, st.randoms(use_true_random=False))
@examples(15)
def test_the_order_of_results_does_not_matter(new: list[str], draw: random.Random) -> None:
    one, other = pairs("one", new), pairs("other", ["AB"] * len(new))
    shuffled = [replace(run, results=tuple(draw.sample(run.results, len(run.results)))) for run in (one, other)]
    assert repr(numbers(compared(*shuffled))) == repr(numbers(compared(one, other)))


@given(letters)
@examples(15)
def test_a_run_compared_with_itself_is_unchanged(texts: list[str]) -> None:
    run = pairs("run", texts)
    found = compared(run, run)
    assert found.unchanged
    assert found.flips == ()
    assert not any((*part.unmatched_new, *part.errors_new, *part.errors_baseline) for part in found.parts)
    assert {each.comparison.difference for each in found.tables} <= {0.0, None}


@given(letters, st.randoms(use_true_random=False))
@examples(15)
def test_bounds_contain_the_difference(new: list[str], draw: random.Random) -> None:
    found = compared(pairs("new", new), pairs("old", [draw.choice(["AB", "AA", "B?"]) for _ in new]))
    for each in found.tables:
        seen = each.shown
        if seen.low is not None and seen.difference is not None and seen.high is not None:
            assert seen.low - 1e-9 <= seen.difference <= seen.high + 1e-9
            assert -1 <= seen.low <= seen.high <= 1


def test_unchanged_takes_the_same_responses_and_the_same_scores() -> None:
    run = answers("run", "ABAB")

    def changed(**changes: Any) -> bool:
        first, *others = run.results
        return compared(replace(run, results=(replace(first, **changes), *others)), run).unchanged

    assert changed()
    assert changed(run="another name", prompt="another digest")
    assert changed(answer=Answer("A", seconds=9.0, usage={"input": 3}))
    assert not changed(answer=Answer("A."))
    assert not changed(answer=Answer("A", option_logprobs={"A": -0.1}))
    assert not changed(score=Score(0.0, "wrong", ("A",))), "a judge may take another view of one response"
    assert not changed(answer=None, score=Score(None, "error"))


# What forbids a verdict


def about(**changes: Any) -> dict[str, Any]:
    signature = {"data": "1f2e3d4c5b6a", "extraction": "sound", "answers": "given"} | changes.pop("signature", {})
    prompts = {"mc": "slake/mc@1111", **changes.pop("prompts", {})}
    return {"benchmarks": {"slake": {"signature": signature, "prompts": prompts}}, "versions": {}, **changes}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"signature": {"data": "999"}}, "slake: the data set is 999 in new and 1f2e3d4c5b6a in old"),
        (
            {"signature": {"extraction": "official"}},
            "slake: the extraction is official in new and sound in old",
        ),
        (
            {"signature": {"answers": "category"}},
            "slake: the origin of the answer key is category in new and given in old",
        ),
        (
            {"signature": {"ablation": "blank"}},
            "slake: the ablation is blank in new and none in old",
        ),
        ({"signature": {"judge": "m@1"}}, "slake: the judge is m@1 in new and not recorded in old"),
        ({"signature": {"gap": "2"}}, "slake: gap is 2 in new and not recorded in old"),
        ({"prompts": {"mc": "slake/mc@2"}}, "slake: the prompt of mc is slake/mc@2 in new and slake/mc@1111 in old"),
    ],
)
def test_runs_that_were_asked_or_scored_otherwise_are_refused(changes: dict[str, Any], line: str) -> None:
    results = [said(question(n), "A") for n in range(3)]
    old = side("old", results, **about())
    assert comparing.refusals(side("new", results, **about()), old) == []
    assert comparing.refusals(side("new", results, **about(**changes)), old) == [line]


def test_another_edition_of_the_reading_rules_is_noted() -> None:
    results = [said(question(n), "A") for n in range(3)]
    old, new = side("old", results, **about()), side("new", results, **about(reading_rules=2))
    assert comparing.refusals(new, old) == []
    (note,) = (line for line in comparing.sides.notes(new, old) if "edition" in line)
    assert note == (
        "answers were read by edition 2 of the rules in new and by edition 1 in old, so some of the same answers may "
        "have other scores. `medvqa rescore` reads those of old anew"
    )
    likely = [replace(result, technique="ps") for result in results]
    new, old = replace(new, results=tuple(likely)), replace(old, results=tuple(likely))
    assert not any("edition" in line for line in comparing.sides.notes(new, old)), "no text was read"


def test_what_the_baseline_has_alone_is_refused_and_what_the_new_run_has_alone_is_noted() -> None:
    results = [said(question(n), "A") for n in range(3)]
    likely = [replace(result, technique="gd") for result in results]
    more = pairs("", ["AB"]).results
    small, large = side("small", results), side("large", [*results, *likely, *more])
    assert comparing.refusals(small, large) == [
        "pairs is in large alone",
        "slake: the technique is mc in small and mc, gd in large",
    ]
    assert comparing.refusals(small, side("other", likely)) == ["slake: the technique is mc in small and gd in other"]
    assert comparing.refusals(large, small) == []
    assert comparing.notes(large, small) == [
        "pairs is in large alone, and not compared",
        "slake: technique gd is in large alone, and not compared",
    ]
    assert comparing.refusals(small, large.only({"slake"})) == [
        "slake: the technique is mc in small and mc, gd in large"
    ]
    assert large.only({"slake"}).asked == {"slake": ("mc", "gd")}


def test_scores_of_another_version_are_noted() -> None:
    results = [said(question(0), "A")]
    new, old = (side(name, results, versions={DISTRIBUTION: name}) for name in ("2.0", "1.0"))
    (note,) = comparing.notes(new, old)
    assert note == "answers were scored by pytest-medvqa 2.0 in 2.0 and 1.0 in 1.0; their rules may differ"


def test_another_number_of_samples_is_noted_and_compared() -> None:
    results = [said(question(0), "A")]
    new, old = side("new", results, **about(repeat=5, signature={"repeat": "5"})), side("old", results, **about())
    assert comparing.refusals(new, old) == []
    assert comparing.notes(new, old) == ["samples of each question: 5 in new and 1 in old; their means are compared"]


def test_a_side_is_read_from_a_run_folder(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    for result in answers("run", "AB").results:
        recorder.append(run_folder.encode(result))
    recorder.close()
    run_folder.write_json(tmp_path / "run" / "run.json", about())
    found = comparing.load(tmp_path / "run")
    assert (found.name, found.run, len(found.results)) == ("run", record(about()), 2)
    with pytest.raises(UsageError, match="is no run folder"):
        comparing.load(tmp_path)


# Rankings


def test_runs_are_ranked_by_the_items_that_all_have() -> None:
    draw = random.Random(5)
    texts = {"weak": "B" * 60 + "A" * 20, "good": "A" * 70 + "B" * 10, "same": "B" * 2 + "A" * 68 + "B" * 10}
    runs = [answers(name, letters) for name, letters in texts.items()]
    runs.append(replace(answers("short", "A" * 40), name="short"))
    draw.shuffle(runs)
    ranking, macro = comparing.study(runs, KNOWN).rankings
    assert (ranking.metric, ranking.items, ranking.better, macro.metric) == ("accuracy", 40, "higher", "macro_accuracy")
    assert [(row.name, row.rank, row.best, row.worst, row.figure.value) for row in ranking.rows] == [
        ("good", 1, 1, 3, 1.0),
        ("short", 1, 1, 3, 1.0),
        ("same", 3, 1, 3, 38 / 40),
        ("weak", 4, 4, 4, 0.0),
    ]
    assert len(ranking.pairs) == 6
    assert all(0 <= (pair.compared.adjusted or 0) <= 1 for pair in ranking.pairs)
    low, high = ranking.rows[2].figure.low, ranking.rows[2].figure.high
    (measure, *_) = metrics.measures(
        answers("", texts["same"][:40]).results, [metrics.accuracy], (), benchmark="slake", signature={}
    )
    assert (low, high) == pytest.approx((measure.low, measure.high))


def test_less_confusion_is_the_better_place() -> None:
    runs = [pairs("none", ["AB"] * 24), pairs("all", ["AA"] * 24), pairs("half", ["AA", "AB"] * 12)]
    ranking = next(each for each in comparing.study(runs, KNOWN).rankings if each.metric == "confusion")
    assert [(row.name, row.figure.value) for row in ranking.rows] == [("none", 0.0), ("half", 0.5), ("all", 1.0)]
    assert (ranking.rows[0].best, ranking.rows[2].best, ranking.rows[2].worst) == (1, 3, 3)


def test_too_few_groups_leave_every_place_open() -> None:
    ranking, _ = comparing.study([answers("a", "AAAA"), answers("b", "BBBB"), answers("c", "ABAB")], KNOWN).rankings
    assert [(row.best, row.worst, row.figure.low) for row in ranking.rows] == [(1, 3, None)] * 3
    assert {pair.compared.adjusted for pair in ranking.pairs} == {None}


def test_a_run_that_is_half_scored_is_no_side(tmp_path: Path) -> None:
    about = {"name": "first", "rescoring": True}
    Recorder(tmp_path / "first").close()
    run_folder.write_json(tmp_path / "first" / RUN, about)
    baseline_file.write_baseline(tmp_path / "file", record(about), [])
    for path, folder in ((tmp_path / "first", tmp_path / "first"), (tmp_path / "file", "reports/first")):
        with pytest.raises(UsageError) as raised:
            comparing.load(path)
        assert str(raised.value) == (
            f"{path}: its run was being scored again, and that was stopped: type medvqa rescore {folder} once more"
        )


# What one run alone has scored (issue 11, point 7)


def half_answered(name: str, items: int, answered: int, right: int) -> Side:
    """A run that answers the first `answered` of its questions, the first `right` of them right."""
    return side(
        name,
        [said(question(n), "A" if n < right else "B") for n in range(answered)]
        + [ended(question(n), "error") for n in range(answered, items)],
    )


@pytest.mark.parametrize("turned", [False, True])
def test_runs_are_compared_on_what_both_have_scored(turned: bool) -> None:
    """Two hundred answers of three hundred are compared with the same two hundred."""
    sides = [half_answered("new", 300, 200, 160), half_answered("old", 300, 300, 160)]
    found = compared(*reversed(sides) if turned else sides)
    accuracy = of(found, "accuracy").comparison
    assert (accuracy.new, accuracy.baseline, accuracy.difference) == (0.8, 0.8, 0.0)
    assert accuracy.units == 200
    assert (found.parts[0].scored, found.parts[0].matched) == (200, 300)
    assert {each.comparison.units for each in found.tables if each.metric == "accuracy" and "organ" in each.slice} <= {
        66,
        67,
    }
    errors = of(found, "error_rate").shown
    assert sorted([errors.new, errors.baseline]) == pytest.approx([0.0, 1 / 3]), "errors are counted over all questions"


def test_a_pair_is_compared_where_both_runs_have_scored_both_questions() -> None:
    old = pairs("old", ["AB"] * 30)
    kept = [result for result in pairs("new", ["AB"] * 20 + ["BA"] * 10).results if result.item.id != "25/1"]
    (lost,) = [item for item in couple(25) if item.id == "25/1"]
    found = compared(side("new", [*kept, ended(lost, "error")]), old)
    assert of(found, "set_accuracy").comparison.units == 29
    assert of(found, "set_accuracy").comparison.lost == 9
    # Of the pair that lacks an answer, the other question stays.
    assert of(found, "individual_accuracy").comparison.new == 40 / 59


def test_an_invalid_pair_stays_in_the_denominator_of_the_other_run() -> None:
    """`confusion` leaves invalid pairs out of one run; that is an answer, and no missing one."""
    found = compared(pairs("new", ["??"] * 10 + ["AB"] * 20), pairs("old", ["AA"] * 15 + ["AB"] * 15))
    confusion = of(found, "confusion").shown
    assert (confusion.baseline, confusion.new) == (0.5, 0.0)
    assert found.parts[0].scored == 60


def test_runs_are_ranked_by_what_all_have_scored() -> None:
    sides = [half_answered("a", 300, 200, 160), half_answered("b", 300, 300, 160), half_answered("c", 300, 290, 100)]
    ranking = comparing.study(sides, KNOWN).rankings[0]
    assert {row.name: row.figure.value for row in ranking.rows} == {"a": 0.8, "b": 0.8, "c": 0.5}
    assert (ranking.scored, ranking.items) == (200, 300)


# One family (issue 11, point 11)


def test_headline_measures_of_a_comparison_are_one_family() -> None:
    generator = random.Random(7)
    texts = ["".join(generator.choice("AB") for _ in range(2)) for _ in range(120)]
    both = {"slake": "".join(generator.choices("AB", (7, 3), k=90)), "other": "".join(generator.choices("AB", k=90))}
    new = side("new", [*pairs("new", texts).results, *answers("new", both["slake"]).results])
    old = side("old", [*pairs("old", ["AB"] * 60 + texts[60:]).results, *answers("old", both["other"]).results])
    found = compared(new, old)
    headline = [each for each in found.tables if each.headline and not each.slice and each.p is not None]
    assert {each.benchmark for each in headline} == {"slake", "pairs"}
    expected = multipletests([each.p for each in headline], method="holm")[1]
    assert [each.adjusted for each in headline] == pytest.approx(list(expected))
    assert any(each.adjusted != each.p for each in headline)


@pytest.mark.parametrize(
    ("now", "was", "note"),
    [
        ({"single_choice": 256}, {"single_choice": 32}, ["slake: the token limit of mc is 256 in new and 32 in old"]),
        ({"single_choice": 0}, {"single_choice": 32}, ["slake: the token limit of mc is none in new and 32 in old"]),
        ({"single_choice": 32}, {"single_choice": 32}, []),
        ({"single_choice": 512}, None, []),
    ],
)
def test_another_limit_of_tokens_is_told(now: Any, was: Any, note: list[str]) -> None:
    def run(limits: Any) -> dict[str, Any]:
        told = about()
        if limits is not None:
            told["benchmarks"]["slake"]["max_tokens"] = {"mc": limits}
        return told

    results = answers("x", "AB").results
    assert comparing.notes(side("new", results, **run(now)), side("old", results, **run(was))) == note


# Runs that differ in one setting

MODEL = {"model": {"name": "m", "fingerprint": "f1"}}


def asked(name: str, texts: str = "AB" * 6, **changes: Any) -> Side:
    """A run of one model, with settings in its signature."""
    return replace(answers(name, texts), run=record(about(**{**MODEL, **changes})))


ONE_SETTING = [
    pytest.param(
        {"signature": {"ablation": "blank"}},
        "the image: blank in new, shown in old",
        "the gain of the image, with the sign reversed",
        "the gain of the image",
        id="image",
    ),
    pytest.param(
        {"signature": {"shots": "3"}},
        "the shots: 3 shots in new, 0 shots in old",
        "the gain of 3 shots",
        "the gain of 3 shots, with the sign reversed",
        id="shots",
    ),
    pytest.param(
        {"signature": {"shots": "2", "pool": "leave-group-out by category"}},
        "the shots: 2 shots in new, 0 shots in old",
        "the gain of 2 shots",
        "the gain of 2 shots, with the sign reversed",
        id="own pool",
    ),
    pytest.param(
        {"signature": {"shots": "1", "pool": "pool.jsonl"}},
        "the shots: 1 shot from pool.jsonl in new, 0 shots in old",
        "the gain of 1 shot from pool.jsonl",
        "the gain of 1 shot from pool.jsonl, with the sign reversed",
        id="pool",
    ),
    pytest.param(
        {"signature": {"reasoning": "cot"}},
        "the reasoning: cot in new, none in old",
        "the gain of reasoning (cot)",
        "the gain of reasoning (cot), with the sign reversed",
        id="reasoning",
    ),
    pytest.param(
        {"signature": {"explain": "yes"}},
        "the explanation: asked for in new, not asked for in old",
        "the gain of an explanation",
        "the gain of an explanation, with the sign reversed",
        id="explain",
    ),
    pytest.param(
        {
            "signature": {"abstain": "abstain@b09bbb8b"},
            "protocol": {"abstain": True},
            "prompts": {"mc": "slake/mc@1111+abstain@b09bbb8b"},
        },
        "the offer to abstain: made in new, not made in old",
        "the gain of an offer to abstain",
        "the gain of an offer to abstain, with the sign reversed",
        id="abstain",
    ),
    pytest.param(
        {
            "signature": {"confidence": "confidence@b09bbb8b"},
            "protocol": {"confidence": True},
            "prompts": {"mc": "slake/mc@1111+confidence@b09bbb8b"},
        },
        "the confidence: asked for in new, not asked for in old",
        "the gain of being asked for a confidence",
        "the gain of being asked for a confidence, with the sign reversed",
        id="confidence",
    ),
    pytest.param(
        {"signature": {"repeat": "10", "combine": "vote"}, "repeat": 10},
        "the answers: vote of 10 answers in new, one answer in old",
        "the effect of vote of 10 answers instead of one answer",
        "the effect of one answer instead of vote of 10 answers",
        id="vote",
    ),
    pytest.param(
        {"signature": {"rotations": "all"}},
        "the order of options: every order in new, the data set's order in old",
        "the effect of every order instead of the data set's order",
        "the effect of the data set's order instead of every order",
        id="rotations",
    ),
    pytest.param(
        {"prompts": {"mc": "slake/mc@2"}},
        "the prompt: slake/mc@2 in new, slake/mc@1111 in old",
        "the effect of the prompt slake/mc@2 instead of slake/mc@1111",
        "the effect of the prompt slake/mc@1111 instead of slake/mc@2",
        id="prompt",
    ),
    pytest.param(
        {"prompts": {"mc": "slake/short@2"}, "protocol": {"prompts": ["short"]}},
        "the prompt: short in new, the benchmark's own in old",
        "the effect of the prompt short instead of the benchmark's own",
        "the effect of the prompt the benchmark's own instead of short",
        id="named prompt",
    ),
    pytest.param(
        {"signature": {"reasoning": "cot@b09bbb8b"}, "prompts": {"mc": "slake/mc@1111+cot@b09bbb8b"}},
        "the reasoning: cot in new, none in old",
        "the gain of reasoning (cot)",
        "the gain of reasoning (cot), with the sign reversed",
        id="reasoning in the prompt",
    ),
]


@pytest.mark.parametrize(("changes", "line", "effect", "reverse"), ONE_SETTING)
def test_runs_that_differ_in_one_setting_are_compared_and_the_setting_is_named(
    changes: dict[str, Any], line: str, effect: str, reverse: str
) -> None:
    new, old = asked("new", "AAAAAABBBBBB", **changes), asked("old", "ABABABABABAB")
    assert comparing.contrast(new, old).refusals == ()
    paired = compared(new, old)
    assert paired.difference is not None
    assert (paired.difference.line("new", "old"), paired.difference.effect) == (line, effect)
    turned = compared(old, new)
    assert turned.difference is not None
    assert turned.difference.effect == reverse
    one, other = (of(each, "accuracy").comparison for each in (paired, turned))
    assert (one.gained, one.lost) == (other.lost, other.gained) == (3, 3)


@pytest.mark.parametrize("changes", [case.values[0] for case in ONE_SETTING], ids=[case.id for case in ONE_SETTING])
def test_a_gate_refuses_runs_that_differ_in_one_setting(changes: dict[str, Any]) -> None:
    new, old = asked("new", **changes), asked("old")
    assert comparing.refusals(new, old)
    assert comparing.refusals(old, new)


def test_runs_with_and_without_an_offer_to_abstain_are_compared_by_what_they_answered() -> None:
    abstained = Score(0.0, "abstained")
    new, old = asked("new", "AAAAAABBBBBB", protocol={"abstain": True}, wrong_costs=2), asked("old", "ABABABABABAB")
    changed = [replace(result, score=abstained) for result in new.results[6:]]
    paired = compared(replace(new, results=(*new.results[:6], *changed)), old)
    gains = {name: of(paired, name).comparison for name in ("coverage", "answered_accuracy", "effective_reliability")}
    assert {name: each.difference for name, each in gains.items()} == {
        "coverage": pytest.approx(-0.5),
        "answered_accuracy": pytest.approx(0.5),
        "effective_reliability": pytest.approx(0.5 - (0.5 - 2 * 0.5)),
    }
    # Runs that price wrong answers otherwise have no such measure in common.
    other = asked("other", "ABABABABABAB", protocol={"abstain": True}, wrong_costs=1)
    assert not [each for each in compared(new, other).tables if each.metric == "effective_reliability"]


def test_the_mean_of_samples_is_named_and_no_obstacle_for_a_gate() -> None:
    new, old = asked("new", repeat=5, signature={"repeat": "5"}), asked("old")
    difference = comparing.contrast(new, old).difference
    assert difference is not None
    assert difference.line("new", "old") == "the answers: mean of 5 answers in new, one answer in old"
    assert comparing.refusals(new, old) == []


def test_two_settings_are_refused_in_a_line_that_names_both() -> None:
    new, old = asked("new", signature={"ablation": "blank", "shots": "3"}), asked("old")
    assert comparing.contrast(new, old) == comparing.Contrast(
        None,
        (
            "2 settings differ, so no effect can be told: the image: blank in new, shown in old; the shots: 3 shots in "
            "new, 0 shots in old",
        ),
    )


def test_another_model_is_a_second_difference() -> None:
    new = asked("new", signature={"ablation": "blank"}, model={"name": "other", "fingerprint": "f2"})
    assert comparing.contrast(new, asked("old")).refusals[-1] == (
        "2 settings differ, so no effect can be told: the model: other in new, m in old; the image: blank in new, "
        "shown in old"
    )
    plain = asked("new", model={"name": "other", "fingerprint": "f2"})
    assert comparing.contrast(plain, asked("old")) == comparing.Contrast(None, ())


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ({"model": {"name": "m"}}, {"model": {"name": "m"}}, True),
        ({"model": {"name": "m"}}, {"model": {"name": "n"}}, False),
        (
            {"model": {"name": "m"}, "config": {"options": {"temperature": 0}}},
            {"model": {"name": "m"}, "config": {"options": {"temperature": 1}}},
            False,
        ),
        (
            {"model": {"name": "m", "fingerprint": "x"}, "config": {"argument": "a"}},
            {"model": {"name": "m", "fingerprint": "x"}, "config": {"argument": "b"}},
            True,
        ),
    ],
)
def test_a_model_is_the_same_by_its_fingerprint_or_else_by_its_config(
    ours: dict[str, Any], theirs: dict[str, Any], same: bool
) -> None:
    new, old = asked("new", signature={"ablation": "blank"}, **ours), asked("old", **theirs)
    assert (comparing.contrast(new, old).refusals == ()) is same


@pytest.mark.parametrize("part", [{"data": "999"}, {"extraction": "official"}, {"answers": "category"}, {"judge": "j"}])
def test_data_extraction_key_and_judge_never_differ(part: dict[str, str]) -> None:
    contrast = comparing.contrast(asked("new", signature={"ablation": "blank", **part}), asked("old"))
    assert contrast.difference is None
    assert len(contrast.refusals) == 2


def test_a_typed_token_limit_is_a_difference_and_one_that_comes_with_a_setting_is_not() -> None:
    def limited(name: str, limit: int, typed: int | None = None, **signature: str) -> Side:
        run = about(**MODEL, signature=signature, options={"max_tokens": typed})
        run["benchmarks"]["slake"]["max_tokens"] = {"mc": {"single_choice": limit}}
        return replace(answers(name, "AB" * 6), run=record(run))

    new, old = limited("new", 512, 512), limited("old", 32)
    difference = comparing.contrast(new, old).difference
    assert difference is not None
    assert difference.line("new", "old") == "the token limit: 512 tokens in new, 32 tokens in old"
    budget = comparing.contrast(limited("new", 512, reasoning="cot"), old)
    assert budget.difference is not None
    assert budget.difference.setting == "reasoning"
    both = comparing.contrast(limited("new", 512, 512, reasoning="cot"), old)
    assert both.refusals[-1].endswith("the token limit: 512 tokens in new, default in old")


def test_another_instruction_to_reason_is_named_with_its_digest() -> None:
    new, old = (
        asked(name, signature={"reasoning": f"cot@{digest}"}) for name, digest in (("new", "0" * 8), ("old", "1" * 8))
    )
    difference = comparing.contrast(new, old).difference
    assert difference is not None
    assert difference.line("new", "old") == "the reasoning: cot@00000000 in new, cot@11111111 in old"


def test_another_template_beside_an_instruction_is_a_second_difference() -> None:
    new = asked("new", signature={"reasoning": "cot@b09bbb8b"}, prompts={"mc": "slake/mc@2222+cot@b09bbb8b"})
    assert "2 settings differ" in comparing.contrast(new, asked("old")).refusals[-1]


def test_a_technique_that_is_the_difference_is_not_said_to_be_in_one_run_alone() -> None:
    results = [said(question(n), "A") for n in range(3)]
    new, old = side("new", [replace(result, technique="gd") for result in results]), side("old", results)
    assert comparing.notes(new, old) == []


def test_a_technique_among_several_is_refused() -> None:
    results = [said(question(n), "A") for n in range(3)]
    likely = [replace(result, technique="gd") for result in results]
    assert comparing.contrast(side("new", results), side("old", [*results, *likely])).refusals == (
        "slake: the technique is mc in new and mc, gd in old",
    )


def test_a_ranking_names_the_setting_of_each_run() -> None:
    runs = [asked("old"), asked("taught", "B" * 12, signature={"shots": "3"}), asked("again", "A" * 12)]
    (accuracy, *_) = comparing.study(runs, KNOWN).rankings
    assert {row.name: row.differs for row in accuracy.rows} == {"old": "", "taught": "3 shots", "again": ""}


@given(st.text("AB", min_size=12, max_size=12), st.text("AB", min_size=12, max_size=12))
@examples(20)
def test_the_gain_of_the_image_is_the_paired_difference_of_the_two_runs(shown: str, blank: str) -> None:
    ablated, plain = asked("blank", blank, signature={"ablation": "blank"}), asked("shown", shown)
    named, unnamed = compared(plain, ablated), compared(plain, asked("other", blank))
    assert unnamed.difference is None
    assert named.tables == unnamed.tables
