"""Judged means corrected by people's scores: laws, ppi-python's numbers, agreement.json, and the gate's sheet."""

import csv
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import report
from medvqa.cli import main
from medvqa.comparing import Side, gating
from medvqa.comparing.gating import BenchmarkRule, Rules
from medvqa.comparing.gating.preparing import with_sheet
from medvqa.items import Answer, Item, Judgement, Result, Score, UsageError
from medvqa.judging import agreement, correcting
from medvqa.records import run_folder
from medvqa.records.baseline_file import DIGESTS
from medvqa.records.run_folder import Recorder
from medvqa.report import raters
from medvqa.report.evaluation_record import _limits
from medvqa.report.notes import notes_of
from medvqa.statistics import LabelledScores, corrected_mean, reliability
from medvqa.statistics.clustered import clustered
from medvqa.statistics.prediction_powered import powered, tuning
from support import pages
from support.laws import examples
from support.runs import record


def drawn(seed: int, n: int, labelled: int, per_group: int, *, scale: int = 1, noise: float = 0.2) -> LabelledScores:
    """Scores on a scale of `scale` steps from 0 to 1; the judge errs upwards."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, scale + 1, n) / scale
    judge = np.where(draw.random(n) < noise, np.minimum(truth + 1 / scale, 1), truth)
    label = np.full(n, np.nan)
    kept = draw.choice(n, labelled, replace=False)
    label[kept] = truth[kept]
    return LabelledScores(judge, label, np.arange(n) // per_group)


SCORES = st.builds(
    drawn,
    seed=st.integers(0, 2**32),
    n=st.integers(150, 300),
    labelled=st.integers(60, 150),
    per_group=st.integers(1, 4),
    scale=st.sampled_from([1, 2, 7]),
)


# ppi-python


def fixed(seed: int, labelled: int, n: int, kind: str) -> LabelledScores:
    """The data sets that ppi-python was given: multiples of irrational numbers, without their whole part."""
    u = np.modf(np.arange(1, n + 1) * 0.6180339887498949 + seed * 0.1)[0]
    v = np.modf(np.arange(1, n + 1) * 0.7548776662466927 + seed * 0.3)[0]
    if kind == "binary":
        truth = (u < 0.6).astype(float)
        judge = np.where(truth == 1, v > 0.05, v < 0.3).astype(float)
    elif kind == "halves":
        truth = np.floor(3 * u) / 2
        judge = np.clip(truth + np.where(v < 0.2, 0.5, np.where(v > 0.9, -0.5, 0)), 0, 1)
    elif kind == "shares":
        truth, judge = u, 0.4 * u + 0.6 * v
    else:
        truth = (u < 0.5).astype(float)
        judge = np.where(v < 0.7, np.modf(7 * v)[0] < 0.5, truth).astype(float)
    label = np.where(np.arange(n) * 7 % n < labelled, truth, np.nan)
    return LabelledScores(judge, label, np.arange(n), stratified=False)


@pytest.mark.parametrize(
    ("seed", "labelled", "n", "kind", "estimate", "low", "high", "tuned"),
    [
        # ppi-python 0.2.3, numpy 2.4.6: ppi_mean_ci(alpha=0.05), lam=None, unlabelled = the other answers.
        (1, 120, 2000, "binary", 0.5871248540242227, 0.5236382468169474, 0.6506114612314979, 0.7115506473162428),
        (2, 100, 500, "halves", 0.5085555425768018, 0.4572151426015353, 0.5598959425520683, 0.7111085153603552),
        (3, 60, 900, "shares", 0.5081749851336901, 0.4468029743507107, 0.5695469959166695, 0.6846600010592869),
        (4, 80, 1000, "random", 0.5310807830783079, 0.4271835484556757, 0.6349780177009401, 0.2952839783978399),
    ],
)
def test_the_numbers_are_those_of_ppi_python(
    seed: int, labelled: int, n: int, kind: str, estimate: float, low: float, high: float, tuned: float
) -> None:
    scores = fixed(seed, labelled, n, kind)
    assert tuning(scores) * (1 - labelled / n) == pytest.approx(tuned, rel=1e-9)
    found = clustered(powered(scores, tuning(scores)))
    assert found.value[0] == pytest.approx(estimate, rel=1e-9)
    # Theirs divides squares by n, ours by n - 1; each of theirs is about the mean of its own part.
    error = np.sqrt(found.variance[0] * (labelled - 1) / labelled)
    assert error == pytest.approx((high - low) / 2 / 1.9599639845400545, rel=2e-3)
    _, ours, most = corrected_mean(scores).corrected
    assert ours is not None
    assert most is not None
    assert ours < low
    assert most > high


# Laws


@given(SCORES)
@examples(50)
def test_the_tuning_is_a_share_and_the_value_lies_in_its_interval(scores: LabelledScores) -> None:
    mean = corrected_mean(scores)
    assert 0 <= tuning(scores) <= 1
    for value, low, high in (mean.judge, mean.people, mean.corrected, mean.reliability):
        assert low is not None
        assert high is not None
        assert value is not None
        assert low - 1e-9 <= value <= high + 1e-9
    assert mean.labelled == np.isfinite(scores.label).sum()
    assert scores.known[2].mean() == pytest.approx(1)


@given(SCORES, st.randoms(use_true_random=False))
@examples(30)
def test_the_order_of_answers_and_the_names_of_groups_change_nothing(scores: LabelledScores, random: object) -> None:
    order = np.array(sorted(range(len(scores.judge)), key=lambda _: random.random()))  # type: ignore[attr-defined]
    moved = LabelledScores(scores.judge[order], scores.label[order], (scores.group.max() - scores.group)[order])
    one, other = corrected_mean(scores), corrected_mean(moved)
    for name in ("judge", "people", "corrected", "reliability"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-9)


@given(SCORES, st.floats(0.1, 0.5))
@examples(30)
def test_a_constant_added_to_the_judge_changes_nothing(scores: LabelledScores, constant: float) -> None:
    half = replace(scores, judge=scores.judge / 2)
    moved = replace(half, judge=half.judge + constant)
    assert tuning(moved) == pytest.approx(tuning(half), abs=1e-9)
    one, other = (clustered(powered(each, tuning(each))) for each in (half, moved))
    assert other.value[0] == pytest.approx(one.value[0], abs=1e-9)
    assert other.variance[0] == pytest.approx(one.variance[0], rel=1e-6)


@given(SCORES)
@examples(30)
def test_a_perfect_judge_is_as_good_as_labels_of_all(scores: LabelledScores) -> None:
    perfect = replace(scores, label=np.where(np.isnan(scores.label), np.nan, scores.judge))
    found, all_ = (clustered(powered(each, 1.0)) for each in (perfect, replace(perfect, label=perfect.judge)))
    assert found.value[0] == pytest.approx(perfect.judge.mean())
    assert found.variance[0] == pytest.approx(all_.variance[0], rel=1e-9)
    assert tuning(perfect) > 0.8
    if len(np.unique(perfect.judge)) < 4:
        assert tuning(perfect) == pytest.approx(1, abs=1e-2), "strata give the labelled answers the scores of all"


def test_labels_of_all_answers_leave_nothing_to_the_judge() -> None:
    scores = drawn(3, 300, 300, 2)
    mean = corrected_mean(scores)
    assert mean.corrected[0] == pytest.approx(scores.label.mean())
    assert mean.corrected[1:] == pytest.approx(mean.people[1:], abs=0.002)


def test_skipped_rows_of_one_score_are_weighed() -> None:
    """People who score three in four wrong answers and one in four right ones: their own mean is far off."""
    draw = np.random.default_rng(0)
    judge = (draw.random(4000) < 0.7).astype(float)
    truth = np.where(draw.random(4000) < 0.1, 1 - judge, judge)
    label = np.where(draw.random(4000) < np.where(judge == 1, 0.05, 0.15), truth, np.nan)
    assert np.nanmean(label) < truth.mean() - 0.15
    _, low, high = corrected_mean(LabelledScores(judge, label, np.arange(4000))).corrected
    assert low is not None
    assert high is not None
    assert low < truth.mean() < high
    assert high - low < 0.1


def test_scores_with_few_labels_join_the_one_with_the_most() -> None:
    judge = np.repeat([0.0, 0.3, 0.6, 1.0], [100, 10, 20, 70])
    label = np.full(200, np.nan)
    label[[*range(10), 100, *range(130, 137)]] = 0.0
    _, _, weight, _ = LabelledScores(judge, label, np.arange(200)).known
    # One label at 0.3, none at 0.6: they join 0, so 130 answers have 11 labels.
    assert weight * 200 / 18 == pytest.approx(np.repeat([130 / 11, 10.0], [11, 7]))


@pytest.mark.parametrize(("differ", "by_people"), [(4, True), (5, False)])
def test_few_disagreements_leave_the_labels_alone(differ: int, by_people: bool) -> None:
    judge = np.tile([0.0, 1.0], 500)
    label = np.full(1000, np.nan)
    label[:100] = judge[:100]
    label[: 2 * differ : 2] = 1.0
    mean = corrected_mean(LabelledScores(judge, label, np.arange(1000)))
    assert mean.disagreements == differ
    assert (mean.tuning is None) is by_people
    assert (mean.corrected == mean.people) is by_people
    grouped = corrected_mean(LabelledScores(judge, label, np.arange(1000) // 4))
    assert grouped.disagreements < differ, "disagreements of one group are one"


def test_few_groups_and_equal_scores_have_no_interval() -> None:
    few = corrected_mean(replace(drawn(1, 90, 45, 10, noise=0.4), group=np.arange(90) // 10))
    assert few.groups < 10
    assert few.corrected[1:] == few.people[1:] == few.reliability[1:] == (None, None)
    equal = LabelledScores(np.tile([0.0, 1.0], 50), np.ones(100), np.arange(100))
    assert reliability(equal) == (None, None, None)


@pytest.mark.parametrize(
    "wrong", [{"judge": np.array([2.0, 0.0])}, {"label": np.array([-1.0, 0.0])}, {"label": np.full(2, np.nan)}]
)
def test_scores_that_are_no_shares_are_refused(wrong: dict[str, np.ndarray]) -> None:
    given_ = {"judge": np.array([0.0, 1.0]), "label": np.array([0.0, 1.0]), "group": np.arange(2), **wrong}
    with pytest.raises(ValueError, match="from 0 to 1"):
        LabelledScores(**given_)


def test_reliability_is_sensitivity_plus_specificity_minus_one() -> None:
    # People: 60 right, 40 wrong; the judge sees 54 of the right ones and takes 8 of the wrong ones for right.
    label = np.repeat([1.0, 0.0], [60, 40])
    judge = np.concatenate([np.repeat([1.0, 0.0], [54, 6]), np.repeat([1.0, 0.0], [8, 32])])
    value, low, high = reliability(LabelledScores(judge, label, np.arange(100)))
    assert value == pytest.approx(0.9 + 0.8 - 1)
    assert low is not None
    assert high is not None
    assert low < 0.6
    assert high > 0.78
    perfect = reliability(LabelledScores(label, label, np.arange(100)))
    assert perfect[0] == 1
    assert perfect[1] is not None
    assert 0.8 < perfect[1] < 0.95, "no point, though all agree"


# Runs


def answered(n: int, value: float, *, judge: bool = True) -> Result:
    item = Item(f"q{n:03}", "lesions", "short_answer", "Which colour?", {}, ("dark red",), cluster_id=f"c{n // 2}")
    said = Judgement("gpt-4", "judging/score@1f2e3d4c", "score", ("<result>1</result>",)) if judge else None
    outcome = "correct" if value else "wrong"
    return Result("run", item, "", Answer(f"red {n}"), Score(value, outcome), "mc", said)


RIGHT = [n % 5 < 3 for n in range(300)]
"""By people; the judge takes a quarter of the wrong answers for right."""
RESULTS = tuple(answered(n, float(right or n % 8 == 0)) for n, right in enumerate(RIGHT))


def sheet(path: Path, places: Sequence[int] = range(0, 300, 3), results: Sequence[Result] = RESULTS) -> Path:
    rows = [(agreement.answer_id(results[n]), int(RIGHT[n])) for n in places]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "score"), *rows])
    return path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    recorder = Recorder(Path("reports/run"))
    for each in (*RESULTS, answered(300, 0.0, judge=False)):
        recorder.append(run_folder.encode(each))
    recorder.close()
    sheet(Path("anna.csv"))
    return Path("reports/run")


def test_agreement_prints_the_corrected_mean(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agreement", str(run), "--human=anna.csv", "--json=out.json"]) == 0
    printed = capsys.readouterr().out
    row = next(line.split() for line in printed.splitlines() if line.startswith("lesions "))
    assert row[:5] == ["lesions", "mc", "100", "300", f"{100 * np.mean([r.score.value for r in RESULTS]):.2f}"]
    assert "! lesions, mc: 1 answer that rules scored is not in these means" in printed
    assert raters.KEPT_AS_JUDGED in printed
    (found,) = json.loads(Path("out.json").read_text())["means"]
    assert (found["benchmark"], found["by_rule"], found["mean"]["labelled"]) == ("lesions", 1, 100)
    value, low, high = found["mean"]["corrected"]
    assert low < 0.6 < high
    assert value < found["mean"]["judge"][0]


def test_kept_means_are_those_of_these_scores(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert correcting.read(run) is None
    assert main(["agreement", str(run), "--human=anna.csv", "--keep"]) == 0
    assert capsys.readouterr().out.endswith(f"kept in {run}/agreement.json; medvqa report {run} shows it\n")
    kept = correcting.read(run)
    assert kept is not None
    (mean,) = kept.means
    assert (kept.judge, kept.raters, mean.mean.labelled, mean.mean.n) == ("gpt-4", ("anna",), 100, 300)
    assert kept.is_of((*RESULTS, answered(300, 1.0, judge=False))), "scores by rule are not in it"
    assert not kept.is_of((answered(0, 0.0), *RESULTS[1:]))
    (run / correcting.FILE).write_text("{}")
    with pytest.raises(UsageError, match=r"agreement\.json.* repeat medvqa agreement --keep"):
        correcting.read(run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reports/run", "reports/run", "--keep"), "--keep keeps means that people's scores correct"),
        (("--keep", "--sample=3", "reports/run"), "--sample=N writes a sheet of one RUN"),
    ],
)
def test_keep_needs_people(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], message: str
) -> None:
    assert main(["agreement", *arguments]) == 4
    assert message in capsys.readouterr().err


# The gate


def side(name: str = "main", results: Sequence[Result] = RESULTS, **about: object) -> Side:
    return Side(name, record({"name": name, **about}), tuple(results))


ASKED = {"lesions": ("mc",)}


def test_the_gate_takes_the_lower_end_of_the_reliability(run: Path) -> None:
    rules, notes = with_sheet(Rules(judge_sheet=("anna.csv",)), [side()], ASKED)
    assert not rules.judge_sheet
    found = correcting.means(
        agreement.judged_of(run, RESULTS), agreement.scores_of_people([Path("anna.csv")], agreement.judged(run))[0]
    )
    low = found[0].mean.reliability[1]
    assert low is not None
    assert rules.benchmarks["lesions"].judge_reliability == low
    assert notes[0].startswith("lesions: the judge's scores show 0.")
    assert "by 100 of 300 answers that people scored. The lower end counts" in notes[0]
    own = Rules(judge_sheet=("anna.csv",), benchmarks={"lesions": BenchmarkRule(judge_reliability=0.9)})
    assert with_sheet(own, [side()], ASKED)[0].benchmarks["lesions"].judge_reliability == 0.9
    assert "judge_sheet" not in rules.as_json(), "paths differ between machines; the reliability is stored"
    others, _ = with_sheet(Rules(judge_sheet=("anna.csv",)), [side()], {"lesions": ("ff",)})
    assert "lesions" not in others.benchmarks, "the judge's errors on another technique's answers tell nothing"


@pytest.mark.parametrize("written", ['"anna.csv"', '["anna.csv"]'])
def test_a_sheet_is_found_beside_its_rules(run: Path, written: str) -> None:
    Path("ci").mkdir()
    sheet(Path("ci/anna.csv"))
    Path("ci/pyproject.toml").write_text(f"[tool.medvqa.gate]\njudge_sheet = {written}\n")
    assert gating.read_rules(Path("ci/pyproject.toml")).judge_sheet == ("ci/anna.csv",)
    Path("both.toml").write_text('[tool.medvqa.gate]\njudge_sheet = "anna.csv"\njudge_reliability = 0.8\n')
    with pytest.raises(
        UsageError, match=r"both\.toml: .*judge_sheet gives the judge_reliability: write one of the two"
    ):
        gating.read_rules(Path("both.toml"))


def test_sheets_that_do_not_fit_are_refused(run: Path) -> None:
    def refused(message: str, *sides: Side, file: str = "anna.csv") -> None:
        with pytest.raises(UsageError, match=message):
            with_sheet(Rules(judge_sheet=(file,)), sides, ASKED)

    refused(r"judge_sheet = 'ben\.csv': no such file", side(), file="ben.csv")
    refused("none with responses: name its run folder by --baseline=RUN")
    refused("write judge_reliability in place of judge_sheet", side(responses=DIGESTS))
    other = [replace(each, answer=Answer("blue")) for each in RESULTS]
    refused(
        r"anna\.csv row 2: id k\w+ comes from a sheet, but main has no such answer: .*of another run: write judge_rel",
        side("main", other),
    )
    refused("judge_sheet: main: no answer was scored by a judge", side("main", [answered(0, 1.0, judge=False)]))
    sheet(Path("few.csv"), range(0, 12))
    refused(r"12 answers scored by people, in 6 groups, do not show .*: score more answers", side(), file="few.csv")
    Path("empty.csv").write_text(Path("anna.csv").read_text().replace(",1\n", ",\n").replace(",1\r\n", ",\r\n"))
    refused("score is missing; fill it in, or remove the row", side(), file="empty.csv")


# Reports


def test_reports_show_what_is_kept_of_their_scores(tmp_path: Path) -> None:
    folder = tmp_path / "judged"
    shutil.copytree(Path(__file__).parents[1] / "kept" / "runs" / "judged", folder)
    known = pages.PHANTOM
    lacks = "A judge scored answers; no agreement of its scores with people's is recorded."
    before = report.build(folder, known)
    assert lacks in _limits(before)
    assert not any("by the judge and" in note for note in notes_of(before))
    run = agreement.judged(folder)
    people = {"anna": {name: 1 - result.score.value for name, result in run.scored.items()}}
    correcting.keep(run, people, correcting.means(run, people))
    built = report.build(folder, known)
    assert lacks not in _limits(built)
    noted = "\n".join(notes_of(built))
    assert "phantom-medlesionvqa: the mean score of 18 judged answers is " in noted
    assert f"corrected by people; people scored 18 of them; {raters.KEPT_AS_JUDGED}." in noted
    # With few labels it may be that judge and people always differ, and still too few groups show its error.
    few = {"anna": dict(list(people["anna"].items())[:2])}
    correcting.keep(run, few, correcting.means(run, few))
    noted = "\n".join(notes_of(report.build(folder, known)))
    assert "by people alone, as they differ from it in 2 of 2 groups only; people scored 2 of them" in noted
    path = folder / correcting.FILE
    path.write_text(path.read_text().replace('"digest": "', '"digest": "f'))
    stale = report.build(folder, known)
    assert stale.agreement is None
    assert notes_of(stale)[0] == (
        "agreement.json belongs to other scores than the judge's now: repeat medvqa agreement --keep."
    )
