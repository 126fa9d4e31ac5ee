"""The gate: each line of its table, the family of tests, and simulations of how often it errs."""

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.statistics import (
    Comparison,
    Design,
    MarginRule,
    SliceGuard,
    UnitTable,
    clopper_pearson,
    clustered,
    compare,
    decide,
    floor,
    intervals,
    level_of,
    mean_over,
    ratios,
    smallest_loss,
)
from support.laws import examples

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT.parent / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")


def compared(gained: int, lost: int, n: int, *, each: int = 1, level: float = 0.95) -> Comparison:
    """Independent groups of `each` units; the units of a group do not change together."""
    new = np.repeat([1.0, 0.0, 1.0], [gained, lost, n - gained - lost])
    old = np.repeat([0.0, 1.0, 1.0], [gained, lost, n - gained - lost])
    unit = np.arange(n)
    table = UnitTable(new, np.ones(n), unit, unit % (n // each), np.zeros(n, dtype=int))
    (found,) = compare(table, replace(table, numerator=old), binary=True, level=level)
    return found


def measured(right: int, n: int) -> Any:
    unit = np.arange(n)
    return clustered(ratios(UnitTable((unit < right).astype(float), np.ones(n), unit, unit, np.zeros(n, dtype=int))))


def rule(gained: int, lost: int, n: int, margin: float = 0.02, **more: Any) -> MarginRule:
    return MarginRule(name="accuracy", comparison=compared(gained, lost, n), margin=margin, **more)


def guard(gained: int, lost: int, n: int, name: str = "slice", **more: Any) -> SliceGuard:
    return SliceGuard(name=name, comparison=compared(gained, lost, n), **more)


# The baseline rule


def test_a_loss_that_is_shown_to_be_small_passes() -> None:
    decision = decide([rule(70, 72, 4000)])
    assert decision.outcome == "PASS"
    assert decision.verdicts[0].why == (
        "neither a loss nor a gain is shown (-0.5 to +0.4 points); a loss of 2 points or more is ruled out"
    )


def test_a_loss_that_is_shown_fails() -> None:
    (verdict,) = decide([rule(22, 45, 800)]).verdicts
    assert verdict.outcome == "FAIL"
    assert verdict.why == "a loss of 1.2 to 4.6 points is shown; 2 or more is not ruled out"
    assert verdict.p == verdict.adjusted


def test_a_loss_beyond_the_margin_is_called_so() -> None:
    (verdict,) = decide([rule(5, 60, 800)]).verdicts
    assert verdict.outcome == "FAIL"
    assert verdict.why.endswith(", all of it more than the margin of 2")


def test_what_is_not_shown_is_inconclusive_and_says_what_would_do() -> None:
    (verdict,) = decide([rule(13, 13, 176)]).verdicts
    assert verdict.outcome == "INCONCLUSIVE"
    assert verdict.why.startswith(
        "neither a loss nor a gain is shown (-5.0 to +5.0 points); a loss of 2 points or more"
    )
    low, high = clopper_pearson(26 * 175 / 176, 175, 0.9)
    least, most = (2297 * 176 / 26 * float(end) for end in (low, high))
    assert verdict.between == (pytest.approx(least, rel=0.01), pytest.approx(most, rel=0.01))
    assert verdict.why.endswith(
        f"{verdict.between[0]:,} to {verdict.between[1]:,} units would rule it out in 80 % of runs; there are 176"
    )
    assert (verdict.units, verdict.needed) == (176, 2297)
    assert verdict.passable == pytest.approx(0.0722, abs=5e-4)


def test_a_significant_loss_within_the_margin_passes() -> None:
    """Worse for sure, by less than the margin: that is what a margin says."""
    found = compared(300, 400, 20_000)
    assert found.high is not None
    assert found.high < 0
    assert decide([MarginRule(name="accuracy", comparison=found, margin=0.02)]).outcome == "PASS"


def test_a_fail_takes_five_discordant_groups() -> None:
    """One group of 40 units that all fell is one observation, whatever p says."""
    few = replace(compared(0, 4, 200), worse=0.001)
    assert decide([MarginRule(name="a", comparison=few, margin=0.001)]).outcome == "INCONCLUSIVE"
    enough = replace(few, discordant_groups=5)
    assert decide([MarginRule(name="a", comparison=enough, margin=0.001)]).outcome == "FAIL"


@pytest.mark.parametrize(
    ("chance", "baseline_low", "outcome"),
    [(0.25, 0.3, "PASS"), (0.25, 0.25, "INCONCLUSIVE"), (0.25, None, "INCONCLUSIVE"), (None, None, "PASS")],
)
def test_a_baseline_at_chance_proves_nothing(chance: float | None, baseline_low: float | None, outcome: str) -> None:
    (verdict,) = decide([rule(70, 72, 4000, chance=chance, baseline_low=baseline_low)]).verdicts
    assert verdict.outcome == outcome
    if outcome == "INCONCLUSIVE":
        own = "no lower bound" if baseline_low is None else "a lower bound of 25.0 %"
        assert verdict.why.endswith(
            "a loss of 2 points or more is ruled out, but the baseline is not shown to be above chance (25.0 %): it "
            f"has {own}. Gate against another baseline"
        )


def test_what_is_said_of_a_measure_of_which_less_is_better_is_in_its_own_terms() -> None:
    """The numbers of such a rule are those of 1 - measure, and its sentences those of the measure."""
    passing, open_, guessing = decide(
        [
            rule(70, 72, 4000, better="lower"),
            rule(13, 13, 176, better="lower"),
            rule(13, 13, 176, better="lower", chance=0.25, baseline_low=0.17),
        ]
    ).verdicts
    assert passing.why == (
        "neither a rise nor a fall is shown (-0.4 to +0.5 points); a rise of 2 points or more is ruled out"
    )
    assert "; a rise of 2 points or more is not ruled out" in open_.why
    assert guessing.why.endswith(
        "and the baseline is not shown to be below chance (75.0 %): it has an upper bound of 83.0 %. Gate against "
        "another baseline"
    )


def test_more_units_are_no_way_out_of_a_baseline_at_chance() -> None:
    """How many units would pass is said only where units are what is lacking."""
    for n, said in ((4000, "is ruled out, but the baseline"), (176, "is not ruled out, and the baseline")):
        (verdict,) = decide([rule(13, 13, n, chance=0.25, baseline_low=0.17)]).verdicts
        assert verdict.outcome == "INCONCLUSIVE"
        assert said in verdict.why
        assert verdict.why.endswith(
            "is not shown to be above chance (25.0 %): it has a lower bound of 17.0 %. Gate against another baseline"
        )
        assert (verdict.needed, verdict.passable, verdict.units) == (None, None, n)
    (verdict,) = decide([rule(13, 13, 176, chance=0.25, baseline_low=0.3)]).verdicts
    assert verdict.needed == 2297


def test_a_loss_from_a_baseline_at_chance_still_fails() -> None:
    assert decide([rule(10, 40, 800, chance=0.5, baseline_low=0.4)]).outcome == "FAIL"


def test_identical_responses_pass_however_few() -> None:
    unchanged = rule(0, 0, 3, unchanged=True)
    assert unchanged.comparison.low is None
    (verdict,) = decide([unchanged]).verdicts
    assert (verdict.outcome, verdict.why) == ("PASS", "no change: every response is the same as the baseline's")


def test_too_few_groups_are_inconclusive() -> None:
    (verdict,) = decide([rule(1, 1, 4)]).verdicts
    assert (verdict.outcome, verdict.why) == (
        "INCONCLUSIVE",
        "no bounds: 3 degrees of freedom; 4 are needed",
    )


@pytest.mark.parametrize("margin", [0.0, -0.02, float("nan")])
def test_a_margin_must_be_above_nothing(margin: float) -> None:
    with pytest.raises(ValueError, match="rule 'accuracy': the margin must be above 0"):
        rule(1, 1, 100, margin=margin)
    with pytest.raises(ValueError, match="rule 'slice': the margin must be above 0"):
        guard(1, 1, 100, margin=margin)


# Slices


def test_a_guard_passes_unless_it_fails() -> None:
    quiet, loud = decide([guard(3, 6, 60)]).verdicts[0], decide([guard(0, 20, 60)]).verdicts[0]
    assert (quiet.outcome, quiet.why) == (
        "PASS",
        "not shown to be worse; a true loss of 12.6 points would have been shown in 80 % of runs",
    )
    assert (loud.outcome, loud.needed) == ("FAIL", None)


def test_a_guard_with_a_margin_lets_a_small_loss_go() -> None:
    assert decide([guard(300, 400, 20_000)]).outcome == "FAIL"
    assert decide([guard(300, 400, 20_000, margin=0.02)]).outcome == "PASS"


@pytest.mark.parametrize(("n", "each", "gated"), [(30, 3, True), (29, 1, False), (36, 4, False)])
def test_slices_are_gated_by_size_alone(n: int, each: int, gated: bool) -> None:
    found = compared(0, n // 2, n, each=each)
    for one in (
        SliceGuard(name="slice", comparison=found),
        MarginRule(name="slice", comparison=found, margin=0.02, of_slice=True),
    ):
        decision = decide([one])
        assert (decision.verdicts[0].outcome != "NOT GATED") == gated
        if not gated:
            assert decision.outcome == "INCONCLUSIVE"
            assert decision.verdicts[0].why == f"{n} units in {n // each} groups; 30 in 10 are needed"
    assert decide([MarginRule(name="all", comparison=found, margin=0.02)]).verdicts[0].outcome != "NOT GATED"


def test_slices_that_are_not_gated_do_not_decide() -> None:
    decision = decide([rule(70, 72, 4000), guard(0, 20, 25)])
    assert [verdict.outcome for verdict in decision.verdicts] == ["PASS", "NOT GATED"]
    assert decision.outcome == "PASS"


def test_a_slice_with_a_margin_of_its_own_must_pass_it() -> None:
    own = replace(rule(8, 8, 100), of_slice=True)
    assert decide([rule(70, 72, 4000), own]).outcome == "INCONCLUSIVE"
    assert decide([rule(70, 72, 4000), replace(own, margin=0.2)]).outcome == "PASS"


def test_a_slice_without_degrees_of_freedom_is_not_gated_and_frees_its_share() -> None:
    """40 of its 60 units are one group: 2.2 degrees of freedom, however clear the loss is."""
    unit = np.arange(60)
    group = np.where(unit < 40, 0, unit)
    old = UnitTable((unit % 3 > 0).astype(float), np.ones(60), unit, group, np.zeros(60, dtype=int))
    (found,) = compare(replace(old, numerator=np.zeros(60)), old, binary=True)
    fallen = SliceGuard(name="joint", comparison=found)
    alone = decide([rule(70, 72, 4000), guard(3, 15, 60)]).verdicts[1]
    decision = decide([rule(70, 72, 4000), guard(3, 15, 60), fallen])
    assert [verdict.outcome for verdict in decision.verdicts] == ["PASS", "FAIL", "NOT GATED"]
    assert decision.verdicts[2].why == "2.1 degrees of freedom; 4 are needed"
    assert decision.verdicts[1].adjusted == alone.adjusted
    assert decide([fallen]).outcome == "INCONCLUSIVE", "where nothing is gated, nothing passes"


def test_the_questions_decide_what_is_gated_and_not_the_answers() -> None:
    """Of a measure that leaves out answers, few units may count; a guard without a test has shown nothing."""
    few, design = compared(0, 2, 3), Design(units=60, groups=60, df=59.0, unit="pair")
    (verdict,) = decide([SliceGuard(name="slice", comparison=few, design=design)]).verdicts
    assert (verdict.outcome, verdict.why) == ("INCONCLUSIVE", "no bounds: 2 degrees of freedom; 4 are needed")
    small = Design(units=60, groups=12, df=3.9, unit="pair")
    (verdict,) = decide([guard(0, 20, 60, design=small)]).verdicts
    assert (verdict.outcome, verdict.why) == ("NOT GATED", "3.9 degrees of freedom; 4 are needed")


def test_a_rule_on_the_whole_without_degrees_of_freedom_frees_its_share_and_stays_open() -> None:
    lone = decide([guard(3, 15, 60)]).verdicts[0]
    headline, floor_ = rule(1, 1, 4), floor("accuracy", measured(2, 3), 0.5, binary=True)
    decision = decide([headline, floor_, guard(3, 15, 60)])
    assert [verdict.outcome for verdict in decision.verdicts] == ["INCONCLUSIVE", "INCONCLUSIVE", "FAIL"]
    assert decision.verdicts[2].adjusted == lone.adjusted


@pytest.mark.parametrize(("n", "alpha"), [(60, 0.05), (100, 0.05 / 30), (400, 0.025)])
@pytest.mark.parametrize("flips", [0.0, 0.15])
def test_the_loss_that_a_guard_would_have_shown_is_shown_in_80_percent_of_runs(
    n: int, alpha: float, flips: float
) -> None:
    """Independent units of which so many flip, or as many as are lost."""
    from scipy.special import stdtr

    loss = smallest_loss(np.sqrt(flips / n), n - 1, n, 1.0, alpha)
    assert loss is not None
    lost = max((flips + loss) / 2, loss)
    draw = np.random.default_rng(n).multinomial(n, [lost - loss, lost, 1 - 2 * lost + loss], 20_000)
    b, c = draw[:, 0], draw[:, 1]
    statistic = (b - c) / np.sqrt(np.maximum(b + c, 1)) * np.sqrt((n - 1) / n)
    shown = np.mean((stdtr(n - 1, statistic) <= alpha) & (b + c >= 5))
    assert 0.75 < shown < 0.96


def test_units_that_decide_where_nothing_flipped() -> None:
    """So many units, of which none flips, have the margin for their bound."""
    (verdict,) = decide([rule(0, 0, 60)]).verdicts
    assert verdict.outcome == "INCONCLUSIVE"
    assert "If again no unit changed, about " in verdict.why
    assert verdict.needed is not None
    outcomes = [decide([rule(0, 0, n)]).outcome for n in (verdict.needed - 5, verdict.needed)]
    assert outcomes == ["INCONCLUSIVE", "PASS"]


def test_units_that_decide_a_floor() -> None:
    (verdict,) = decide([floor("accuracy", measured(630, 1000), 0.62, binary=True)]).verdicts
    assert verdict.needed is not None
    assert f"about {verdict.needed:,} units would decide in 80 % of runs; there are 1,000" in verdict.why
    # (1.645 + 0.842)^2 p (1 - p) / (p - limit)^2, by exact bounds a little more.
    assert verdict.needed == pytest.approx(2.487**2 * 0.63 * 0.37 / 0.01**2, rel=0.1)


# Floors


def test_floors() -> None:
    found = measured(630, 1000)
    high, low, between = (floor("accuracy", found, limit, binary=True) for limit in (0.55, 0.7, 0.62))
    verdicts = [decide([each]).verdicts[0] for each in (high, low, between)]
    assert [verdict.outcome for verdict in verdicts] == ["PASS", "FAIL", "INCONCLUSIVE"]
    assert verdicts[0].why == "63.0 % (60.4 to 65.5 %); less than 55 % is ruled out"


@examples(40)
@given(st.integers(0, 200), st.floats(0.01, 0.99), st.booleans())
def test_at_most_mirrors_at_least(right: int, limit: float, binary: bool) -> None:
    at_least = floor("a", measured(right, 200), limit, binary=binary)
    at_most = floor("a", measured(200 - right, 200), 1 - limit, binary=binary, at_most=True)
    assert at_most.p == pytest.approx(at_least.p, abs=1e-9)
    if abs(right / 200 - limit) > 1e-6:
        assert decide([at_least]).outcome == decide([at_most]).outcome


@pytest.mark.parametrize(
    ("limit", "at_most", "outcome"), [(0.63, False, "PASS"), (0.631, False, "FAIL"), (0.62, True, "FAIL")]
)
def test_a_point_floor_looks_at_the_estimate_alone(limit: float, at_most: bool, outcome: str) -> None:
    point = floor("accuracy", measured(630, 1000), limit, binary=True, at_most=at_most, point=True)
    (verdict,) = decide([point]).verdicts
    assert verdict.outcome == outcome
    assert verdict.adjusted is None


def test_an_undefined_measure_meets_no_floor() -> None:
    nothing = UnitTable(np.zeros(3), np.zeros(3), np.arange(3), np.arange(3), np.zeros(3, dtype=int))
    for point in (True, False):
        decision = decide([floor("accuracy", clustered(ratios(nothing)), 0.5, binary=True, point=point)])
        assert decision.outcome == "INCONCLUSIVE"
        assert decision.verdicts[0].why == "undefined; at least 50 % is required"
    few = floor("accuracy", measured(2, 3), 0.5, binary=True)
    assert decide([few]).verdicts[0].why == "no bounds: 2 degrees of freedom; 4 are needed"


def test_a_floor_fails_when_its_bound_does() -> None:
    """Alone, Holm changes nothing: p is below 5 % exactly where the upper bound is below the floor."""
    for right in range(80, 121):
        found = floor("accuracy", measured(right, 200), 0.55, binary=True)
        assert found.high is not None
        assert (decide([found]).outcome == "FAIL") == (found.high < 0.55)


# The family


def test_half_of_the_weight_goes_to_headlines_and_half_to_slices() -> None:
    headline = replace(rule(10, 20, 500), comparison=replace(compared(10, 20, 500), worse=0.03))
    slices = [SliceGuard(name=str(i), comparison=replace(compared(5, 5, 100), worse=0.9)) for i in range(15)]
    slices[0] = replace(slices[0], comparison=replace(slices[0].comparison, worse=0.001))
    verdicts = decide([headline, *slices]).verdicts
    assert verdicts[1].adjusted == pytest.approx(0.001 * 30)
    assert verdicts[1].outcome == "FAIL"
    # With the first slice gone, the headline has 1/2 of what is left, 1/2 + 14/30.
    assert verdicts[0].adjusted == pytest.approx(0.03 * (1 / 2 + 14 / 30) * 2)
    assert verdicts[0].outcome == "INCONCLUSIVE"
    assert decide([headline]).verdicts[0].adjusted == pytest.approx(0.03)


def test_floors_share_the_weight_of_headlines_and_point_floors_take_none() -> None:
    bad = measured(100, 200)
    one = floor("accuracy", bad, 0.58, binary=True)
    assert one.p is not None
    assert decide([one]).verdicts[0].adjusted == pytest.approx(one.p)
    two = decide([one, rule(13, 13, 176), floor("accuracy", bad, 0.4, binary=True, point=True)])
    assert two.verdicts[0].adjusted == pytest.approx(2 * one.p)


def test_what_is_not_gated_takes_no_weight() -> None:
    alone = decide([guard(3, 15, 60)]).verdicts[0]
    beside = decide([guard(3, 15, 60), *[guard(2, 8, 20) for _ in range(9)]]).verdicts[0]
    assert beside.adjusted == alone.adjusted == alone.p


def test_looks_divide_the_level() -> None:
    assert level_of(1) == 0.95
    assert level_of(5) == pytest.approx(0.99)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        level_of(0)
    with pytest.raises(ValueError, match=r"rule 'accuracy' has bounds of level 0.95; 2 looks need 0.975"):
        decide([rule(10, 22, 500)], looks=2)
    found = [
        MarginRule(name="a", comparison=compared(10, 22, 500, level=level_of(looks)), margin=0.01) for looks in (1, 5)
    ]
    assert [decide([each], looks=looks).outcome for each, looks in zip(found, (1, 5), strict=True)] == [
        "FAIL",
        "INCONCLUSIVE",
    ]


def test_one_failure_fails_and_one_open_rule_leaves_it_open() -> None:
    passing, open_, failing = rule(70, 72, 4000), rule(13, 13, 176), rule(5, 60, 800)
    assert decide([passing, passing]).outcome == "PASS"
    assert decide([passing, open_]).outcome == "INCONCLUSIVE"
    assert decide([passing, open_, failing]).outcome == "FAIL"
    assert decide([]).outcome == "INCONCLUSIVE"


counts = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(31, 300)).map(
    lambda drawn: (*drawn[:2], drawn[2] + drawn[0] + drawn[1])
)


@examples(40)
@given(st.lists(counts, min_size=1, max_size=5), st.randoms())
def test_the_order_of_rules_does_not_matter(drawn: list[tuple[int, int, int]], random: Any) -> None:
    rules = [guard(*each, name=str(i)) for i, each in enumerate(drawn)] + [rule(*drawn[0])]
    shuffled = random.sample(rules, len(rules))
    one, other = decide(rules), decide(shuffled)
    assert one.outcome == other.outcome
    assert {v.name: (v.outcome, v.why) for v in one.verdicts} == {v.name: (v.outcome, v.why) for v in other.verdicts}


@examples(40)
@given(counts, st.floats(0.001, 0.3), st.floats(0.001, 0.3))
def test_a_wider_margin_never_makes_it_worse(drawn: tuple[int, int, int], one: float, other: float) -> None:
    rank = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}
    narrow, wide = (rank[decide([rule(*drawn, margin=margin)]).outcome] for margin in sorted((one, other)))
    assert narrow <= wide


# Simulations: bench/gate.py with fewer runs


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = spec_from_file_location("bench_gate", ROOT / "bench" / "gate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks it up
    spec.loader.exec_module(module)
    return module


def test_counts_stand_for_independent_units(bench: ModuleType) -> None:
    """The simulations of one rule take a shortcut past `compare`."""
    for gained, lost, n in ((3, 7, 60), (0, 0, 30), (20, 5, 176)):
        (short,) = bench.counted(np.array([gained]), np.array([lost]), n)
        full = compared(gained, lost, n)
        for name in ("low", "high", "worse", "difference"):
            assert getattr(short, name) == pytest.approx(getattr(full, name), abs=1e-9)
        assert (short.gained, short.lost, short.discordant_groups) == (gained, lost, gained + lost)


def test_macro_averages_of_many_runs_are_compared_as_those_of_one(bench: ModuleType) -> None:
    """The simulations of macro averages take a shortcut past `mean_over` and `compare`."""
    draw = np.random.default_rng(0)
    design = bench.sliced((6, 10, 20, 40), 3, across=True)
    change = bench.changes(draw, design.group, 5, 0.1, 0.05, 0.3)
    right = bench.answers(draw, 0.8, design.group, 5, 0.3, 1).astype(float)
    influences = design.influences(right)
    found = intervals(clustered(influences, design.correction(influences)), binary=True)
    influences = design.influences(change)
    bounds = bench.macro_bounds(influences, design.correction(influences))
    unit = np.arange(len(design.slice))
    for i in range(5):
        table = UnitTable(right[i], np.ones(len(unit)), unit, design.group, design.slice, 4)
        one = intervals(clustered(mean_over(ratios(table), range(4))), binary=True)
        assert [float(each[0]) for each in one] == pytest.approx([float(each[i]) for each in found])
        before, after = (replace(table, numerator=(sign * change[i] <= 0).astype(float)) for sign in (1, -1))
        (full,) = compare(after, before, binary=True, over=range(4))
        assert (full.low, full.high) == pytest.approx([float(each[i]) for each in bounds])


@pytest.mark.slow
def test_how_often_macro_averages_are_covered_and_their_rule_errs(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("3, 3, 3, 100, 300", "5, 10, 20, 100, 300", "18 x 10")
    monkeypatch.setattr(bench, "SLICES", {name: bench.SLICES[name] for name in few})
    figures = list(bench.macro_averages(1000))
    assert len(figures) > 30
    assert [str(figure) for figure in figures if not figure.met] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", ["rule", "enumeration"])
def test_how_often_one_rule_errs(bench: ModuleType, part: str) -> None:
    figures = list(bench.PARTS[part](4000))
    assert len(figures) > 10
    assert [str(figure) for figure in figures if not figure.met] == []


@pytest.mark.slow
def test_how_often_guarded_departments_err(bench: ModuleType) -> None:
    """Without the design of 25 images a department and a correlation of 0.6, which misses the limit (61 %)."""
    figures = list(bench.departments(400, designs=((1, 0.0), (2, 0.6), (4, 0.3))))
    assert [str(figure) for figure in figures if not figure.met] == []


@pytest.mark.slow
@needs_reference
def test_coverage_on_the_graph_of_mediconfusion(bench: ModuleType) -> None:
    figures = list(bench.on_mediconfusion(1500, accuracies=(0.55, 0.85)))
    assert [str(figure) for figure in figures if not figure.met] == []


def test_naive_gates_are_caught_by_the_same_simulation(bench: ModuleType) -> None:
    """`Fail on any drop` and a bound that ignores groups miss the limits: the simulation can tell."""
    draw = np.random.default_rng(0)
    gained, lost, _ = draw.multinomial(176, [0.075, 0.075, 0.85], 2000).T
    assert not bench.Figure("fail on any drop", float(np.mean(gained < lost)), 2000, most=0.055).met
    images = np.repeat(np.arange(25), 4)
    levels = np.full(100, 0.6), np.full(100, 0.6)
    rights = bench.two_runs(draw, images, 0.9, 1000, levels, 0.5)
    alone = bench.compared(rights, np.arange(100), np.zeros(100, dtype=int))
    together = bench.compared(rights, images, np.zeros(100, dtype=int))
    wrong = [float(np.mean([each.worse < 0.05 for each in found])) for found in (alone, together)]
    assert not bench.Figure("without groups", wrong[0], 1000, most=0.055).met
    assert bench.Figure("with groups", wrong[1], 1000, most=0.055).met


def test_the_simulations_decide_as_the_gate_does(bench: ModuleType) -> None:
    """They leave out the sentences of a verdict."""
    found = [compared(gained, lost, 400, each=2) for gained, lost in ((0, 0), (0, 3), (3, 30), (9, 10), (40, 60))]
    for each in found:
        for margin in (0.02, 0.1):
            one = MarginRule(name="accuracy", comparison=each, margin=margin)
            assert bench.outcome(each, margin) == decide([one]).outcome


@pytest.mark.slow
@needs_reference
def test_how_often_a_rule_errs_where_questions_share_groups(bench: ModuleType) -> None:
    """Wrong PASS and wrong FAIL with one answer and with samples, from 20 x 30 to the graph of MediConfusion."""
    figures = list(bench.clusters(200))
    assert {figure.what.split(", ")[1] for figure in figures} >= {"20 x 30", "MediConfusion", "60 x 5", "10 x 10"}
    assert sum(figure.most < 1 for figure in figures) >= 150
    assert [str(figure) for figure in figures if not figure.met] == []
    usable = {figure.what: figure.share for figure in figures if "PASS at no change, margin 5" in figure.what}
    assert usable["right or wrong, 20 x 30, correlation 0.0: PASS at no change, margin 5"] > 0.8
    assert usable["right or wrong, MediConfusion, correlation 0.0: PASS at no change, margin 5"] > 0.4


@pytest.mark.slow
def test_how_often_intervals_cover_over_designs(bench: ModuleType) -> None:
    figures = list(bench.coverage(2000))
    assert [str(figure) for figure in figures if not figure.met] == []
