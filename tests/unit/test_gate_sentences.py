"""The sentences of the gate, one by one: every kind of rule and verdict."""

from dataclasses import replace

import pytest

from medvqa.statistics.sentences import RuleVerdict

RULE = RuleVerdict(
    kind="margin",
    outcome="PASS",
    unit="pair",
    units=176,
    groups=60,
    df=17.2,
    value=0.6,
    baseline=0.6,
    low=-0.014,
    high=0.009,
    adjusted=0.4,
    discordant=9,
    margin=0.02,
)
GUARD = replace(RULE, kind="guard", margin=None, detectable=0.123)
FLOOR = RuleVerdict(kind="floor", outcome="PASS", unit="question", units=300, df=299.0, value=0.63, limit=0.55)
FLOOR = replace(FLOOR, low=0.604, high=0.655, needed=9800)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"unchanged": True}, "no change: every response is the same as the baseline's", id="unchanged"),
        pytest.param(
            {},
            "neither a loss nor a gain is shown (-1.4 to +0.9 points); a loss of 2 points or more is ruled out",
            id="0",
        ),
        pytest.param(
            {"holds_to": 0.2189},
            "neither a loss nor a gain is shown (-1.4 to +0.9 points); a loss of 2 points or more is ruled out, up to "
            "a correlation of 0.21 of the flips of a group",
            id="flips of a group",
        ),
        pytest.param(
            {"holds_to": 1.0},
            "neither a loss nor a gain is shown (-1.4 to +0.9 points); a loss of 2 points or more is ruled out, at any "
            "correlation of the flips of a group",
            id="flips of a group, any",
        ),
        pytest.param(
            {"holds_to": 1.0, "groups": 176},
            "neither a loss nor a gain is shown (-1.4 to +0.9 points); a loss of 2 points or more is ruled out",
            id="flips of single units",
        ),
        pytest.param(
            {"low": -0.014, "high": -0.002, "adjusted": 0.01},
            "a loss of 0.2 to 1.4 points is shown; 2 or more is ruled out",
            id="small loss",
        ),
        pytest.param(
            {"low": -0.014, "high": -0.002, "adjusted": 0.081},
            "a loss of 0.2 to 1.4 points is likely, not shown after correction for the other rules (adjusted p 0.081); "
            "2 or more is ruled out",
            id="small loss, Holm",
        ),
        pytest.param(
            {"low": 0.003, "high": 0.031},
            "a gain of 0.3 to 3.1 points is shown; a loss of 2 points or more is ruled out",
            id="gain",
        ),
        pytest.param(
            {"low": -0.0198, "high": 0.009},
            "neither a loss nor a gain is shown (-1.98 to +0.90 points); a loss of 2 points or more is ruled out",
            id="near the margin",
        ),
        pytest.param(
            {"margin": 0.016, "user_margin": 0.02},
            "neither a loss nor a gain is shown (-1.4 to +0.9 points); a loss of 1.6 (2, times the "
            "judge's reliability) "
            "points or more is ruled out",
            id="judge",
        ),
        pytest.param(
            {"margin": 0.07, "chance": 0.0, "baseline": 0.051, "baseline_low": 0.023},
            "neither a loss nor a gain is shown (-1.4 to +0.9 points); a loss of 7 points or more is ruled out (the "
            "baseline is only 5.1 points from chance)",
            id="margin beyond chance",
        ),
        pytest.param(
            {"outcome": "FAIL", "low": -0.03, "high": -0.004, "adjusted": 0.01},
            "a loss of 0.4 to 3.0 points is shown; 2 or more is not ruled out",
            id="fail",
        ),
        pytest.param(
            {"outcome": "FAIL", "low": -0.09, "high": -0.041, "adjusted": 0.001},
            "a loss of 4.1 to 9.0 points is shown, all of it more than the margin of 2",
            id="fail beyond",
        ),
        pytest.param(
            {"outcome": "FAIL", "low": -0.03, "high": -0.004, "adjusted": 0.01, "better": "lower"},
            "a rise of 0.4 to 3.0 points is shown; 2 or more is not ruled out",
            id="fail, less is better",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": -0.05, "high": 0.03, "needed": 2297},
            "neither a loss nor a gain is shown (-5.0 to +3.0 points); a loss of 2 points or more "
            "is not ruled out. With "
            "no true change, about 2,297 pairs would rule it out in 80 % of runs; there are 176",
            id="open",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": -0.05, "high": 0.03, "needed": 2297, "better": "lower"},
            "neither a rise nor a fall is shown (-3.0 to +5.0 points); a rise of 2 points or more "
            "is not ruled out. With "
            "no true change, about 2,297 pairs would rule it out in 80 % of runs; there are 176",
            id="open, less is better",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": -0.05, "high": 0.03, "needed": 2297, "between": (1700, 3000)},
            "neither a loss nor a gain is shown (-5.0 to +3.0 points); a loss of 2 points or more "
            "is not ruled out. With "
            "no true change, 1,700 to 3,000 pairs would rule it out in 80 % of runs; there are 176",
            id="open, a range",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": -0.03, "high": -0.002, "adjusted": 0.12, "needed": 160},
            "a loss of 0.2 to 3.0 points is likely, not shown after correction for the other rules (adjusted p "
            "0.120); 2 or more is not "
            "ruled out. With no true change, the 176 pairs here rule it out in 80 % of runs",
            id="open, enough pairs",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": -0.03, "high": -0.002, "adjusted": 0.01, "discordant": 1, "needed": 900},
            "a loss of 0.2 to 3.0 points is likely, not shown (1 group changed; 5 are needed); 2 or more is not ruled "
            "out. With no true change, about 900 pairs would rule it out in 80 % of runs; there are 176",
            id="open, one group",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": -0.07, "high": 0.07, "discordant": 0, "needed": 133, "units": 36},
            "neither a loss nor a gain is shown (-7.0 to +7.0 points); a loss of 2 points or more is not ruled out. If "
            "again no pair changed, about 133 pairs would rule it out; there are 36",
            id="open, nothing flipped",
        ),
        pytest.param(
            {
                **{"outcome": "INCONCLUSIVE", "low": -0.07, "high": 0.07, "discordant": 0, "needed": 133},
                **{"between": (133, 970), "units": 36},
            },
            "neither a loss nor a gain is shown (-7.0 to +7.0 points); a loss of 2 points or more is not ruled out. If "
            "again no pair changed, about 133 pairs would rule it out, else up to 970; there are 36",
            id="open, nothing flipped, a range",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "chance": 0.25, "baseline_low": 0.17},
            "neither a loss nor a gain is shown (-1.4 to +0.9 points); a loss of 2 points or more "
            "is ruled out, but the "
            "baseline is not shown to be above chance (25.0 %): it has a lower bound of 17.0 %. Gate against another "
            "baseline",
            id="chance",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": -0.05, "chance": 0.25, "baseline_low": None, "needed": 2297},
            "neither a loss nor a gain is shown (-5.0 to +0.9 points); a loss of 2 points or more "
            "is not ruled out, and "
            "the baseline is not shown to be above chance (25.0 %): it has no lower bound. Gate "
            "against another baseline",
            id="chance, no bound",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": None, "high": None, "df": 3.99},
            "no bounds: 3.9 degrees of freedom; 4 are needed",
            id="few groups",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": None, "high": None, "df": None},
            "no bounds: no degrees of freedom; 4 are needed",
            id="one group",
        ),
        pytest.param(
            {"outcome": "INCONCLUSIVE", "low": None, "high": None, "value": None},
            "undefined in this run: no pair counts there",
            id="undefined",
        ),
    ],
)
def test_a_rule_with_a_margin(changes: dict[str, object], expected: str) -> None:
    assert replace(RULE, **changes).why == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "not shown to be worse; a true loss of 12.3 points would have been shown in 80 % of runs"),
        (
            {"better": "lower"},
            "not shown to be worse; a true rise of 12.3 points would have been shown in 80 % of runs",
        ),
        (
            {"low": -0.1, "high": -0.01, "adjusted": 0.12},
            "not shown to be worse after correction for the other rules (adjusted p 0.120); a true loss of 12.3 "
            "points would have been "
            "shown in 80 % of runs",
        ),
        (
            {"low": -0.1, "high": -0.01, "discordant": 4, "adjusted": 0.01},
            "not shown to be worse (4 groups changed; 5 are needed); a true loss of 12.3 points "
            "would have been shown in "
            "80 % of runs",
        ),
        (
            {"detectable": 0.45, "baseline": 0.4},
            "not shown to be worse; no loss could have been shown: it would take 45.0 points, and "
            "only 40.0 can be lost",
        ),
        ({"unchanged": True}, "no change: every response is the same as the baseline's"),
        (
            {"outcome": "FAIL", "low": -0.3, "high": -0.02, "adjusted": 0.01},
            "a loss of 2.0 to 30.0 points is shown",
        ),
        (
            {"margin": 0.02},
            "neither a loss nor a gain is shown (-1.4 to +0.9 points); a loss of 2 points or more is ruled out",
        ),
        (
            {"outcome": "NOT GATED", "units": 8, "groups": 1},
            "8 pairs in 1 group; 30 in 10 are needed",
        ),
        ({"outcome": "NOT GATED", "df": 3.0}, "3 degrees of freedom; 4 are needed"),
        (
            {"outcome": "INCONCLUSIVE", "low": None, "high": None, "df": 2.16},
            "no bounds: 2.1 degrees of freedom; 4 are needed",
        ),
    ],
)
def test_a_guard(changes: dict[str, object], expected: str) -> None:
    assert replace(GUARD, **changes).why == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "63.0 % (60.4 to 65.5 %); less than 55 % is ruled out"),
        ({"outcome": "FAIL", "limit": 0.7}, "63.0 % (60.4 to 65.5 %); 70 % or more is ruled out"),
        (
            {"outcome": "INCONCLUSIVE", "limit": 0.62},
            "63.0 % (60.4 to 65.5 %); both 62 % or more and less than 62 % are possible. If 63.0 % is the true value, "
            "about 9,800 questions would decide in 80 % of runs; there are 300",
        ),
        (
            {"outcome": "INCONCLUSIVE", "limit": 0.7, "adjusted": 0.08},
            "63.0 % (60.4 to 65.5 %); 70 % or more is unlikely, not ruled out after correction for the other rules "
            "(adjusted p 0.080)",
        ),
        ({"at_most": True, "limit": 0.7}, "63.0 % (60.4 to 65.5 %); more than 70 % is ruled out"),
        ({"at_most": True, "outcome": "FAIL", "limit": 0.5}, "63.0 % (60.4 to 65.5 %); 50 % or less is ruled out"),
        ({"kind": "point"}, "63.0 %; at least 55 % is required"),
        ({"kind": "point", "outcome": "FAIL", "limit": 0.6301}, "63.00 %; at least 63.01 % is required"),
        ({"outcome": "INCONCLUSIVE", "value": None, "at_most": True}, "undefined; at most 55 % is required"),
        ({"outcome": "INCONCLUSIVE", "low": None, "df": 2.0}, "no bounds: 2 degrees of freedom; 4 are needed"),
    ],
)
def test_a_floor(changes: dict[str, object], expected: str) -> None:
    assert replace(FLOOR, **changes).why == expected
