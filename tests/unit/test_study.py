"""Several runs as one comparison: pairs, board, one set of questions, one family, and the units behind the numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from medvqa import comparing, metrics
from medvqa.comparing import Compared, Side, Study
from medvqa.items import Answer, Benchmark, Image, Item, Prompt, Result, Score, UsageError
from medvqa.report.bundle import several_runs as pages_of
from support.laws import examples
from support.runs import record


def score(item: Item, answer: Answer) -> Score:
    right = answer.text in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text,))


SINGLE = Benchmark(
    name="single",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=score,
    metrics=(metrics.accuracy, metrics.macro_accuracy("organ"), metrics.invalid_rate),
    headline=("accuracy", "macro_accuracy", "invalid_rate"),
    dimensions=("organ",),
)
PAIRS = replace(
    SINGLE,
    name="pairs",
    metrics=(metrics.set_accuracy, metrics.individual_accuracy, metrics.confusion),
    headline=("set_accuracy", "individual_accuracy", "confusion"),
)
KNOWN = {"single": SINGLE, "pairs": PAIRS}


def question(n: int, benchmark: str, part: int = 0) -> Item:
    """A question about its own image; with a `part`, one of the two of a pair."""
    tags = {"organ": (("lung", "heart", "liver")[n % 3],)}
    paired: dict[str, Any] = {"id": f"{n}/{part}", "pair_id": str(n), "answers": ("AB"[part - 1],)} if part else {}
    item = Item(f"q{n:03}", benchmark, "single_choice", f"Which? {n}", {"A": "a", "B": "b"}, ("A",), (), tags)
    return replace(item, images=(Image(f"{n}-{part}.png", digest=f"{n}-{part}"),), **paired)


def results(texts: Sequence[str], benchmark: str = "single") -> list[Result]:
    """An answer for each letter: E ends in error, `-` is not asked, other letters than A and B are unparsed."""
    items = [question(n, benchmark) for n in range(len(texts))]
    if benchmark == "pairs":
        items = [question(n // 2, benchmark, 1 + n % 2) for n in range(len(texts))]
    return [
        Result("run", item, "", None, Score(None, "error"))
        if text == "E"
        else Result(
            "run", item, "", Answer(text), score(item, Answer(text)) if text in "AB" else Score(0.0, "unparsed")
        )
        for item, text in zip(items, texts, strict=True)
        if text != "-"
    ]


def side(name: str, answers: Sequence[Result], *, model: str = "", **signature: str) -> Side:
    about = {"signature": {"data": "1", **signature}, "prompts": {"mc": "plain@1"}}
    run = {
        "model": {"name": model or name, "fingerprint": model or name},
        "benchmarks": dict.fromkeys({result.item.benchmark for result in answers}, about),
    }
    return Side(name, record(run), tuple(metrics.latest(answers)))


def derived(study: Study, new: int, baseline: int, compared: Compared) -> tuple[int, int]:
    """The flips of a measure from the values of its units, as the page derives them: better and worse."""
    key = compared.benchmark, compared.technique, compared.metric
    (scale,) = [each for each in study.scales if (each.benchmark, each.technique, each.metric) == key]
    change = scale.values[:, new] - scale.values[:, baseline]
    rose, fell = int((change > 0).sum()), int((change < 0).sum())
    return (rose, fell) if scale.better == "higher" else (fell, rose)


LETTERS = st.sampled_from("AAABBBE-x")


@examples(60)
@given(st.data())
def test_flips_that_the_page_derives_are_those_of_the_comparison(data: st.DataObject) -> None:
    """Runs that lack questions or scores, with a run off the board, by items and by pairs."""
    runs = data.draw(st.integers(2, 4))
    number = data.draw(st.sampled_from([6, 12]))

    def drawn(name: str, **about: str) -> Side:
        texts = [data.draw(st.lists(LETTERS, min_size=number, max_size=number)) for _ in KNOWN]
        answers = [result for text, kind in zip(texts, KNOWN, strict=True) for result in results(text, kind)]
        return side(name, [*answers, *results(["A"], "single")], **about)

    sides = [drawn(f"m{i}") for i in range(runs)]
    sides += [drawn("blank", model="m0", ablation="blank"), drawn("blank1", model="m1", ablation="blank")][
        : data.draw(st.integers(0, 2))
    ]
    study = comparing.study(sides, KNOWN)
    places = {each.name: place for place, each in enumerate(sides)}
    checked = [(v.paired.new.name, v.paired.baseline.name, m) for v in study.versus for m in v.paired.tables]
    checked += [(pair.new, pair.baseline, pair.compared) for ranking in study.rankings for pair in ranking.pairs]
    for new, baseline, measure in checked:
        if measure.headline and not measure.slice and not measure.metric.startswith("macro"):
            own = measure.comparison
            assert derived(study, places[new], places[baseline], measure) == (own.gained, own.lost), (new, baseline)
    keys = [{result.key.question for result in each.results} for each in study.aligned]
    assert all(set(unit) <= set().union(*keys) for scale in study.scales for unit in scale.units)


def shown_pairs(study: Study) -> list[tuple[str, str]]:
    return [(versus.paired.new.name, versus.paired.baseline.name) for versus in study.versus if not versus.refusals]


def ran(name: str, right: float, *, number: int = 60, seed: int = 0, **about: str) -> Side:
    draw = random.Random(f"{name} {seed}")
    return side(name, results("".join("A" if draw.random() < right else "B" for _ in range(number))), **about)


def test_each_run_is_compared_with_the_first_or_with_the_run_from_which_it_differs_in_one_setting() -> None:
    a, b = ran("A", 0.9), ran("B", 0.6)
    blanks = [ran(f"{name}-blank", 0.5, model=name, ablation="blank") for name in "AB"]
    study = comparing.study([a, blanks[0], b, blanks[1]], KNOWN)
    assert shown_pairs(study) == [("A-blank", "A"), ("B", "A"), ("B-blank", "B")]
    assert study.board == (0, 2)
    # Runs without their images are no rivals, so nobody misses them on the board.
    assert study.apart == {}
    assert {row.name for ranking in study.rankings for row in ranking.rows} == {"A", "B"}
    assert [versus.paired.difference is not None for versus in study.versus] == [True, False, True]
    # Three headline measures, of one pair of the board and two effects; macro and micro averages are both defined.
    assert study.tests == 3 * 3
    # Without the runs that show images, the blank runs are comparable with each other alone.
    lone = comparing.study([a, blanks[1], ran("C-blank", 0.5, model="C", ablation="blank")], KNOWN)
    assert shown_pairs(lone) == [("B-blank", "C-blank")]
    assert (lone.board, lone.rankings) == ((0,), ())


def test_runs_that_no_other_run_is_comparable_with_are_named_with_the_reasons() -> None:
    other = ran("other", 0.5)
    other.run.benchmarks["single"].signature["data"] = "2"
    study = comparing.study([ran("A", 0.9), ran("B", 0.6), other], KNOWN)
    assert study.versus[1].refusals == ("single: the data set is 2 in other and 1 in A",)
    assert study.versus[1].paired.parts == study.versus[1].paired.tables == ()
    assert study.board == (0, 1)
    assert study.apart == {2: study.versus[1].refusals}
    anyway = comparing.study([ran("A", 0.9), ran("B", 0.6), other], KNOWN, anyway=True)
    assert anyway.versus[1].paired.parts
    assert (anyway.board, anyway.apart) == ((0, 1, 2), {})


@examples(40)
@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from(["", "blank", "3", "5"])), min_size=2, max_size=6))
def test_runs_of_a_board_are_comparable_with_each_other(kinds: list[tuple[str, str]]) -> None:
    """The rule in other words: runs that differ in no setting; then each whose addition keeps all pairs comparable."""
    signatures = {"": {}, "blank": {"ablation": "blank"}, "3": {"shots": "3"}, "5": {"shots": "5"}}
    sides = [side(f"{n}", results("AB"), model=model, **signatures[kind]) for n, (model, kind) in enumerate(kinds)]
    study = comparing.study(sides, KNOWN)
    (first, setting), expected = kinds[0], [0]
    expected += [n for n, (_, kind) in enumerate(kinds) if n and kind == setting]
    for n, (model, kind) in enumerate(kinds):
        if kind != setting and model == first:
            others = [kinds[other] for other in expected]
            # Comparable: the same setting, or the same model with another value of one setting.
            shows = "blank" not in (kind, setting)
            if shows and all(kind == k or model == m for m, k in others):
                expected.append(n)
    assert study.board == tuple(sorted(expected))


def test_runs_without_a_common_question_are_not_compared() -> None:
    """A baseline that shares no question with the others leaves them a leaderboard of their own."""
    apart = side(
        "apart", [replace(each, item=replace(each.item, id=f"x{each.item.id}")) for each in results("AB" * 20)]
    )
    others = [side("B", results("AB" * 20)), side("C", results("AA" * 20)), side("D", results("BB" * 20))]
    study = comparing.study([apart, *others], KNOWN)
    assert study.board == (1, 2, 3)
    assert study.apart == {0: ("apart and B share no question",)}
    assert {v.paired.baseline.name for v in study.versus if not v.refusals} == {"B", "C"}
    (ranking, *_) = study.rankings
    assert (ranking.asked, ranking.scored, len(ranking.rows)) == (40, 40, 3)
    assert pages_of.title(study) == "4 runs"
    assert pages_of.comparison_name(study) == "4-runs.html"
    assert pages_of.title(comparing.study(others, KNOWN)) == "2 runs against B"


def test_a_board_has_one_set_of_questions_and_names_the_run_that_costs_most() -> None:
    sides = [side("A", results("AB" * 30)), side("B", results("A" * 60)), side("C", results("B" * 20 + "E" * 40))]
    sides.append(side("A-blank", results("B" * 60), model="A", ablation="blank"))
    study = comparing.study(sides, KNOWN)
    (ranking, *_) = study.rankings
    assert (ranking.asked, ranking.items, ranking.scored) == (60, 60, 20)
    assert ranking.costliest == comparing.Costliest("C", 60)
    by_pair = {(v.paired.new.name, v.paired.baseline.name): v.paired for v in study.versus}
    accuracy = {
        pair: next(each for each in paired.tables if each.metric == "accuracy" and not each.slice).comparison
        for pair, paired in by_pair.items()
    }
    assert {pair: each.units for pair, each in accuracy.items()} == {
        ("B", "A"): 20,
        ("C", "A"): 20,
        ("A-blank", "A"): 60,
    }
    assert {(part.runs, part.scored) for part in by_pair["B", "A"].parts} == {(3, 20)}
    assert {(part.runs, part.scored) for part in by_pair["A-blank", "A"].parts} == {(2, 60)}
    values = {row.name: row.figure.value for row in ranking.rows}
    assert (values["A"], values["B"], values["C"]) == (0.5, 1.0, 0.0)
    assert {value.n for sliced in study.sliced for run in sliced.values.values() for value in run} <= {6, 7}


def test_p_values_of_headline_measures_are_one_family_and_those_of_slices_one_for_each_measure_and_dimension() -> None:
    sides = [ran(name, right) for name, right in (("A", 0.5), ("B", 0.7), ("C", 0.9))]
    sides.append(ran("A-blank", 0.3, model="A", ablation="blank"))
    study = comparing.study(sides, KNOWN)
    board = {
        (pair.new, pair.baseline, ranking.metric): pair.compared for ranking in study.rankings for pair in ranking.pairs
    }
    effect = {
        ("A-blank", "A", each.metric): each
        for each in study.versus[2].paired.tables
        if each.headline and not each.slice
    }
    family = [each for each in [*board.values(), *effect.values()] if each.p is not None]
    assert study.tests == len(family) > 9
    expected = multipletests([each.p for each in family], method="holm")[1]
    assert [each.adjusted for each in family] == pytest.approx(list(expected))
    for versus in study.versus[:2]:
        for each in versus.paired.tables:
            if each.headline and not each.slice:
                assert board[versus.paired.new.name, "A", each.metric] == each
    organs = [each for v in study.versus for each in v.paired.tables if "organ" in each.slice and each.p is not None]
    organs = [each for each in organs if each.metric == "accuracy"]
    assert len(organs) == 9
    expected = multipletests([each.p for each in organs], method="holm")[1]
    assert [each.adjusted for each in organs] == pytest.approx(list(expected))


def test_possible_ranks_follow_from_the_adjusted_p_of_the_family() -> None:
    study = comparing.study([ran(name, right) for name, right in (("A", 0.1), ("B", 0.6), ("C", 0.95))], KNOWN)
    for ranking in study.rankings:
        for row in ranking.rows:
            better = worse = 0
            for pair in ranking.pairs:
                own = pair.compared
                if row.name in (pair.new, pair.baseline) and own.adjusted is not None and own.adjusted <= 0.05:
                    sign = 1 if row.name == pair.new else -1
                    worse += sign * (own.comparison.difference or 0) > 0
                    better += sign * (own.comparison.difference or 0) < 0
            assert (row.best, row.worst) == (1 + better, 3 - worse)


def test_values_of_slices_are_those_of_the_measures_of_a_run() -> None:
    sides = [ran(name, right) for name, right in (("A", 0.5), ("B", 0.7), ("C", 0.9))]
    study = comparing.study(sides, KNOWN)
    told = {
        (s.metric, s.dimension, value, run): (own.value, own.low, own.high, own.n)
        for s in study.sliced
        for value, figures in s.values.items()
        for run, own in zip(s.runs, figures, strict=True)
    }
    wanted = {
        (m.name, dimension, value, place): (m.value, m.low, m.high, m.n)
        for place, each in enumerate(sides)
        for m in metrics.measures(each.results, SINGLE.metrics, ("organ",), benchmark="single", signature={})
        for dimension, value in m.slice.items()
        if dimension == "organ"
    }
    assert told.keys() == wanted.keys()
    for key, numbers in told.items():
        assert numbers == pytest.approx(wanted[key]), key


def test_two_runs_are_compared_as_by_compare() -> None:
    """A study of two runs adds nothing, and takes nothing away."""
    texts = ("AABBAB-EAx" * 6, "ABBAB-AEBx" * 6)
    old, new = (side(name, [*results(text), *results(text, "pairs")]) for name, text in zip("on", texts, strict=True))
    study = comparing.study([old, new], KNOWN)
    assert (study.versus[0].paired, study.rankings, study.sliced) == (comparing.compare(new, old, KNOWN), (), ())


def test_questions_with_one_id_and_other_content_have_keys_of_their_own() -> None:
    def asked(name: str, *texts: str) -> Side:
        items = [Item(f"q{n}", "single", "single_choice", text, {"A": "a"}, ("A",)) for n, text in enumerate(texts)]
        return side(name, [Result("run", item, "", Answer("A"), score(item, Answer("A"))) for item in items])

    study = comparing.study([asked("A", "one", "two"), asked("B", "two", "new"), asked("C", "new", "one")], KNOWN)
    by_run = [{result.item.id: result.item.question for result in each.results} for each in study.aligned]
    assert by_run == [
        {"q0": "one", "q1": "two"},
        {"q1": "two", "q1 in B": "new"},
        {"q0": "one", "q1 in B": "new"},
    ]
    assert study.versus[0].paired.parts[0].unmatched_new == ("q1 in B",)


@pytest.mark.parametrize("runs", [2, 4])
@pytest.mark.parametrize("margin", [15, 30, 45])
def test_runs_are_alike_just_if_the_90_percent_interval_lies_within_the_margin(runs: int, margin: float) -> None:
    """Of two runs and of several: the verdict is that of the interval which stands beside it."""
    sides = [ran(name, right) for name, right in (("A", 0.5), ("B", 0.55), ("C", 0.9), ("D", 0.52))[:runs]]
    study = comparing.study(sides, KNOWN, equivalent=margin)
    narrow = comparing.study(sides, KNOWN, level=0.95)
    rows = [row for versus in study.versus for row in versus.paired.tables]
    beside = [row for versus in narrow.versus for row in versus.paired.tables]
    for row, other in zip(rows, beside, strict=True):
        assert (row.equivalence is None) == (bool(row.slice) or not row.headline)
        if row.equivalence is not None:
            low, high = other.shown.low, other.shown.high
            assert (row.equivalence.margin, row.equivalence.low, row.equivalence.high) == (margin / 100, low, high)
            within = low is not None and high is not None and -margin < 100 * low and 100 * high < margin
            assert row.alike == (within and not row.figures[0].few)
    pairs = [pair.compared for ranking in study.rankings for pair in ranking.pairs]
    assert all(own.alike == (own.equivalence is not None and own.equivalence.shown) for own in pairs)


def test_a_ranking_tells_for_each_run_which_others_differ_are_alike_or_open() -> None:
    sides = [ran(name, right) for name, right in (("A", 0.1), ("B", 0.6), ("C", 0.95), ("D", 0.93))]
    study = comparing.study(sides, KNOWN, equivalent=45)
    seen = set()
    for ranking in study.rankings:
        by_name = {row.name: row for row in ranking.rows}
        for pair in ranking.pairs:
            new, old, own = by_name[pair.new], by_name[pair.baseline], pair.compared
            better = own.differs and (own.comparison.difference or 0) > 0
            worse = own.differs and not better
            seen.add((own.differs, own.alike))
            assert (old.name in new.better_than, new.name in old.worse_than) == (better, better)
            assert (old.name in new.worse_than, new.name in old.better_than) == (worse, worse)
            assert (old.name in new.alike, new.name in old.alike) == (own.alike, own.alike)
            assert (old.name in new.open) == (new.name in old.open) == (not own.differs and not own.alike)
    assert {(True, False), (False, True)} <= seen


@pytest.mark.parametrize("points", [0, -1, 100, float("nan")])
def test_a_margin_of_likeness_that_is_none_is_refused(points: float) -> None:
    with pytest.raises(UsageError, match=r"equivalent=\S+: the difference that does not matter, in points"):
        comparing.study([ran("A", 0.5), ran("B", 0.6)], KNOWN, equivalent=points)
