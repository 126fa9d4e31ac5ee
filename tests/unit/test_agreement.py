"""Agreement of a judge with people: known answers, laws, what is read and refused, and the sheet that is blind."""

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.stats import t

from medvqa import statistics, tables
from medvqa.cli import main
from medvqa.items import Answer, DataError, Item, Judgement, Result, Score, UsageError
from medvqa.judging import agreement
from medvqa.judging.coefficients import MEASURES, Agreement, Ratings, _chance, _ratio, alpha, cohen, counts_of
from medvqa.judging.templates import SCALE
from medvqa.records import run_folder
from medvqa.records.run_folder import Recorder
from support.laws import examples

APART = np.subtract.outer(SCALE, SCALE) ** 2
TABLES = st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=3, max_size=3).map(np.array)
CODES = (
    st.integers(2, 4)
    .flatmap(
        lambda raters: st.lists(st.lists(st.integers(-1, 2), min_size=raters, max_size=raters), min_size=1, max_size=30)
    )
    .map(np.array)
)


def result(
    name: str,
    value: float | None = 1.0,
    *,
    response: str = "red",
    judge: str = "gpt-4",
    technique: str = "mc",
    benchmark: str = "lesions",
    cluster: str | None = None,
    tags: Mapping[str, tuple[str, ...]] | None = None,
    task: str | None = "score",
    sample: int = 0,
) -> Result:
    """A result of a judge, or found by rule (`task` None)."""
    item = Item(
        name, benchmark, "short_answer", "Which colour?", {}, ("dark red",), tags=tags or {}, cluster_id=cluster
    )
    outcome = "error" if value is None else {0.0: "wrong", 1.0: "correct"}.get(value, "partial")
    judgement = Judgement(judge, "judging/score@1f2e3d4c", task, ("<result>1</result>",)) if task else None
    return Result("run", item, "", Answer(response), Score(value, outcome), technique, judgement, sample)


def write(folder: Path, results: Sequence[Result]) -> Path:
    recorder = Recorder(folder)
    for each in results:
        recorder.append(run_folder.encode(each))
    recorder.close()
    return folder


def scores(path: Path, rows: Sequence[Sequence[object]], columns: Sequence[str] = ("id", "score")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def rated(table: Sequence[Sequence[int]], **fields: object) -> Ratings:
    """The scores of a judge (rows) and a person (columns) of a table of counts."""
    cells = [(i, j) for i in range(3) for j in range(3) for _ in range(table[i][j])]
    results = tuple(result(f"q{n:05}", SCALE[i], **fields) for n, (i, _) in enumerate(cells))
    return Ratings(results, {"judge": tuple(SCALE[i] for i, _ in cells), "anna": tuple(SCALE[j] for _, j in cells)})


def values(found: Agreement) -> dict[str, float | None]:
    return {name: getattr(found, name).value for name in MEASURES}


def of_table(table: Sequence[Sequence[int]]) -> dict[str, float | None]:
    (found,) = agreement.agreements(rated(table))
    return values(found)


# Known answers


def test_a_table_by_hand() -> None:
    # Rows 10, 10, 10, columns 9, 11, 10. Squared steps: 2 + 1 + 1 + 2 of one step, 1 of two (4): 10.
    # By chance: (10*11 + 10*10*4 + 10*9 + 10*10 + 10*9*4 + 10*11) / 30 = 39. Kappa 1 - 10/39.
    table = [[7, 2, 1], [1, 8, 1], [1, 1, 8]]
    found = of_table(table)
    assert found["exact"] == pytest.approx(23 / 30)
    assert found["difference"] == pytest.approx((5 * 0.5 + 2 * 1) / 30)
    assert found["kappa"] == pytest.approx(1 - (5 * 1 + 2 * 4) / 39)
    # Of 60 scores 19 are 0, 21 are 0.5, 20 are 1: pairs by chance 2 (19*21 + 21*20 + 4*19*20) / 59.
    assert found["alpha"] == pytest.approx(1 - 2 * (5 + 2 * 4) / (2 * (19 * 21 + 21 * 20 + 4 * 19 * 20) / 59))


def test_gwet_s_abstractors_have_the_published_kappas() -> None:
    """Gwet (2014), Handbook of Inter-Rater Reliability: irrCAC's cont3x3abstractors, quadratic kappa 0.8922."""
    assert of_table([[13, 0, 0], [0, 20, 7], [0, 4, 56]])["kappa"] == pytest.approx(0.8921569, abs=5e-8)


def test_krippendorff_s_canonical_example() -> None:
    """Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, D: four observers with gaps, interval 0.849."""
    rows = ["123321412---", "1233224125-3", "-3332342251-", "12332441251-"]
    codes = np.array([[-1 if cell == "-" else int(cell) - 1 for cell in row] for row in rows]).T
    assert alpha(codes[(codes >= 0).sum(1) > 1]) == pytest.approx(0.849, abs=5e-4)


def test_the_figures_of_the_paper_belong_together() -> None:
    """MedLesionVQA, A.5.3: 91.43 % equal, 6.45 % half a point apart and 2.12 % a whole one, on 18,344 questions.

    The mean difference is 0.053, and the "consistency of 95 %" is 1 minus it. Kappa is not a function of these.
    """
    halves, whole = round(0.0645 * 18_344), round(0.0212 * 18_344)
    equal = 18_344 - halves - whole
    found = of_table([[equal // 2, halves, whole], [0, 0, 0], [0, 0, equal - equal // 2]])
    exact, difference = found["exact"], found["difference"]
    assert round(exact, 4) == 0.9143
    assert round(difference, 3) == 0.053
    assert round(1 - difference, 3) == 0.947


def test_scores_of_a_rescoring_that_was_stopped_are_not_compared(tmp_path: Path) -> None:
    write(tmp_path / "run", [result("q1"), result("q2")])
    assert len(agreement.judged(tmp_path / "run").scored) == 2
    run_folder.write_json(tmp_path / "run" / "run.json", {"name": "run", "rescoring": True})
    with pytest.raises(UsageError, match="and that was stopped: type medvqa rescore"):
        agreement.judged(tmp_path / "run")


def test_what_is_undefined_is_none() -> None:
    assert of_table([[0, 0, 0], [0, 7, 0], [0, 0, 0]]) == {"exact": 1, "difference": 0, "kappa": None, "alpha": None}


# Laws


def beyond_chance(codes: np.ndarray, *, pooled: bool) -> float | None:
    """1 - D / E by the terms of the intervals; None if there is no disagreement by chance."""
    counts = counts_of(codes)
    paired = counts + np.swapaxes(counts, 1, 2) if pooled and codes.shape[1] == 2 else counts
    chance, _ = _chance(paired, APART)
    larger = paired.sum() / (paired.sum() - 1) if pooled else 1
    disagreement = _ratio(counts, APART, np.arange(len(codes))).value[0]
    return float(1 - disagreement / (chance * larger)) if chance else None


def close(value: float | None) -> object:
    return value if value is None else pytest.approx(value, rel=0, abs=1e-12)


@given(CODES)
@example(np.array([[1, 1, 1], [1, -1, 1]]))
@example(np.array([[0, 0, 2, -1]]))
@example(np.array([[1, 1]] * 7))
@example(np.array([[0, 1]] * 5))
@examples(300)
def test_the_intervals_are_about_the_coefficients_of_the_libraries(codes: np.ndarray) -> None:
    codes = codes[(codes >= 0).sum(1) > 1]
    assume(len(codes))
    assert alpha(codes) == close(beyond_chance(codes, pooled=True))
    if codes.shape[1] == 2:
        assert cohen(*codes.T, 3) == close(beyond_chance(codes, pooled=False))


def truth_of(chances: np.ndarray) -> dict[str, float]:
    """The figures of infinitely many answers."""
    rows, columns = chances.sum(1), chances.sum(0)
    both = (rows + columns) / 2
    observed = (chances * APART).sum()
    figures = (np.trace(chances), (chances * APART**0.5).sum(), rows @ APART @ columns, both @ APART @ both)
    return dict(zip(MEASURES, (*figures[:2], *(1 - observed / chance for chance in figures[2:])), strict=True))


# Intervals


def test_intervals_cover_the_estimate() -> None:
    (found,) = agreement.agreements(rated([[20, 3, 1], [2, 20, 3], [1, 2, 28]]))
    for name in MEASURES:
        figure = getattr(found, name)
        assert figure.low < figure.value < figure.high
    assert found.exact.low == pytest.approx(0.85 - 1.96 * (0.85 * 0.15 / 80) ** 0.5, abs=0.02)


def test_groups_that_are_all_alike_have_wider_intervals() -> None:
    """Twenty answers of one image that agree or disagree together say as much as one."""
    alone = [result(f"q{n:04}") for n in range(400)]
    together = [result(f"q{n:04}", cluster=f"image {n // 20}") for n in range(400)]
    judge = (1.0,) * 400
    people = tuple(0.0 if n // 20 % 5 == 0 else 1.0 for n in range(400))
    width = []
    for results in (alone, together):
        (found,) = agreement.agreements(Ratings(tuple(results), {"judge": judge, "anna": people}))
        width.append(found.exact.high - found.exact.low)
        assert found.exact.value == 0.8
        assert found.groups == (400 if results is alone else 20)
    assert width[1] == pytest.approx(width[0] * 20**0.5, rel=0.15)


def test_where_all_agree_the_interval_is_no_point() -> None:
    (found,) = agreement.agreements(rated([[100, 0, 0], [0, 0, 0], [0, 0, 100]]))
    low = 1 / (1 + t.ppf(0.975, 199) ** 2 / 200)  # Wilson's with no failure in 200 (z / t)^2
    assert (found.exact.low, found.exact.high) == (pytest.approx(low), 1)
    assert (found.difference.low, found.difference.high) == (0, pytest.approx(1 - low))
    assert (found.kappa.low, found.kappa.high) == (pytest.approx(1 - (1 - low) / 0.5), 1)
    assert found.alpha.low == pytest.approx(1 - (1 - low) / (2 * 200 * 200 / (400 * 399)))


def test_full_agreement_in_groups_counts_the_groups() -> None:
    """60 answers about 30 images: nothing says that the two answers about an image are independent."""
    results = tuple(result(f"q{n:03}", cluster=f"c{n // 2}") for n in range(60))
    alike = tuple(SCALE[n % 3] for n in range(60))
    (found,) = agreement.agreements(Ratings(results, {"judge": alike, "anna": alike}))
    assert found.exact.low == pytest.approx(1 / (1 + t.ppf(0.975, 29) ** 2 / 30))


@given(TABLES.filter(lambda table: table.sum() > 20), st.integers(2, 3))
def test_the_linear_terms_are_the_derivatives(table: np.ndarray, raters: int) -> None:
    """One more answer of a kind changes disagreement and chance as the variance of kappa and alpha takes it."""
    first, second = (np.repeat(each.ravel(), table.ravel()) for each in np.indices((3, 3)))
    assume(len({*first, *second}) > 1)
    codes = np.array([first, second, np.roll(second, 1)][:raters]).T
    counts = counts_of(codes)
    chance, by_answer = _chance(counts, APART)
    assert float((counts.sum((1, 2)) * by_answer).sum()) == pytest.approx(0, abs=1e-8)
    more = counts.sum(0) + 1e-6 * counts[0]
    moved = more.sum(1) @ APART @ more.sum(0) / more.sum() ** 2
    share = counts[0].sum() / counts.sum()
    assert (moved - chance) / 1e-6 == pytest.approx(share * by_answer[0], abs=1e-5)


def test_few_groups_have_no_interval() -> None:
    (found,) = agreement.agreements(rated([[3, 1, 0], [0, 2, 0], [0, 0, 3]]))
    assert found.n == found.groups == 9
    assert all(getattr(found, name).low is None and getattr(found, name).high is None for name in MEASURES)


def test_one_score_that_differs_says_next_to_nothing_of_kappa() -> None:
    (found,) = agreement.agreements(rated([[0, 0, 0], [0, 0, 0], [0, 1, 30]]))
    assert found.kappa.value == 0
    assert (found.kappa.low, found.kappa.high) == (-1, pytest.approx(0.8, abs=0.2))
    assert found.exact.low > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("together", [1, 4])
def test_intervals_cover_nearly_as_often_as_they_say(together: int) -> None:
    """160 answers, of which `together` in a group have the same luck: 95 % is asked, and little less is had."""
    draw = np.random.default_rng(0)
    chances = np.array([[0.30, 0.02, 0.01], [0.03, 0.25, 0.03], [0.01, 0.04, 0.31]])
    truth = truth_of(chances)
    results = tuple(result(f"q{n:03}", cluster=f"c{n // together}") for n in range(160))
    times, covered = 400, Counter[str]()
    for _ in range(times):
        cells = np.repeat(draw.choice(9, 160 // together, p=chances.ravel()), together)
        first, second = (tuple(SCALE[code] for code in codes) for codes in np.divmod(cells, 3))
        ratings = Ratings(results, {"judge": first, "anna": second})
        (found,) = agreement.agreements(ratings)
        covered.update(
            name for name in MEASURES if getattr(found, name).low <= truth[name] <= getattr(found, name).high
        )
    print({name: covered[name] / times for name in MEASURES})
    assert min(covered[name] for name in MEASURES) > 0.88 * times


@pytest.mark.parametrize(
    ("n", "together"),
    [
        (73, 1),
        pytest.param(100, 1, marks=pytest.mark.slow),
        pytest.param(160, 1, marks=pytest.mark.slow),
        (160, 4),
    ],
)
def test_lower_bounds_are_right_where_raters_agree_nearly_always(n: int, together: int) -> None:
    """Kappa .95, exact agreement .965: percentile intervals were right in as few as 79 % of the samples."""
    draw = np.random.default_rng(n)
    chances = np.array([[0.2900, 0.0044, 0.0087], [0.0044, 0.0484, 0.0044], [0.0087, 0.0044, 0.6266]])
    truth = truth_of(chances)
    assert truth["kappa"] == pytest.approx(0.95, abs=0.01)
    times, safe = 150, Counter[str]()
    results = tuple(result(f"q{i:03}", cluster=f"c{i // together}") for i in range(n))
    for _ in range(times):
        shared = np.repeat(draw.choice(9, -(-n // together), p=chances.ravel()), together)[:n]
        cells = np.where(draw.random(n) < 0.8 * (together > 1), shared, draw.choice(9, n, p=chances.ravel()))
        first, second = (tuple(SCALE[code] for code in codes) for codes in np.divmod(cells, 3))
        (found,) = agreement.agreements(Ratings(results, {"judge": first, "anna": second}))
        safe.update(name for name in ("exact", "kappa", "alpha") if getattr(found, name).low <= truth[name])
        safe["difference"] += found.difference.high >= truth["difference"]
    print({name: safe[name] / times for name in MEASURES})
    assert min(safe[name] for name in MEASURES) >= 0.92 * times


def test_exact_agreement_has_the_interval_of_any_other_share() -> None:
    """CR2 over the groups and Wilson's at the effective number, as accuracy has."""
    group = [n // 4 for n in range(120)]
    agree = [n % 7 != 0 for n in range(120)]
    results = tuple(result(f"q{n:03}", cluster=f"c{group[n]}") for n in range(120))
    people = tuple(1.0 if same else 0.5 for same in agree)
    (found,) = agreement.agreements(Ratings(results, {"judge": (1.0,) * 120, "anna": people}))
    ones = np.ones(120)
    share = statistics.UnitTable(
        np.array(agree, float), ones, np.arange(120), np.array(group), np.zeros(120, dtype=int)
    )
    (low,), (high,) = statistics.intervals(statistics.clustered(statistics.ratios(share)), binary=True)
    assert (found.exact.low, found.exact.high) == (pytest.approx(low), pytest.approx(high))


# Runs and people


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with sixty judged answers of two abilities, one without a judge and one that failed."""
    monkeypatch.chdir(tmp_path)
    judged = [
        result(f"q{n:02}", SCALE[n % 3], cluster=f"c{n // 2}", tags={"ability": (("color", "size")[n % 2],)})
        for n in range(60)
    ]
    return write(Path("reports/run"), [*judged, result("ruled", task=None), result("failed", None)])


def judge_of(run: Path) -> dict[str, float]:
    return {r.item.id: r.score.value for r in run_folder.read(run).results if r.judgement and r.score.value is not None}


def test_a_judge_and_one_person(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores(Path("anna.csv"), [(name, 1.0 if name == "q00" else value) for name, value in judge_of(run).items()])
    assert main(["agreement", str(run), "--human=anna.csv", "--json=out.json"]) == 0
    printed = capsys.readouterr().out
    row = next(line.split() for line in printed.splitlines() if line.startswith("gpt-4 – anna "))
    assert row[3:6] == ["60", "30", "98.33"]
    assert re.search(r"^ +0 +19 +0 +1$", printed, re.M)
    assert "gpt-4 – anna by ability" in printed
    assert re.search(r"^color +30 +30 +96\.67 ", printed, re.M)
    assert re.search(r"^size +30 +30 +100\.00 ", printed, re.M)
    content = json.loads(Path("out.json").read_text())
    overall, color, size = content["agreements"]
    assert overall["raters"] == ["gpt-4", "anna"]
    assert overall["confusion"] == [[19, 0, 1], [0, 20, 0], [0, 0, 20]]
    assert overall["difference"]["value"] == pytest.approx(1 / 60)
    assert [color["slice"], size["slice"]] == [{"ability": "color"}, {"ability": "size"}]
    assert "NaN" not in Path("out.json").read_text()


def test_several_raters_in_files_and_in_a_column_are_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = judge_of(run)
    opinions = {
        "anna": dict(judge),
        "ben": judge | {"q00": 1.0},
        "chen": {name: judge[name] for name in list(judge)[30:]} | {"q59": 0.0},
    }
    for rater, given_scores in opinions.items():
        scores(Path(f"{rater}.csv"), list(given_scores.items()))
    rows = [(name, value, rater) for rater, given_scores in opinions.items() for name, value in given_scores.items()]
    scores(Path("all.csv"), rows, ("ID", "Score", "Rater"))
    printed = []
    for files in (["--human=anna.csv", "--human=ben.csv", "--human=chen.csv"], ["--human=all.csv"]):
        assert main(["agreement", str(run), *files]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    names = [line.split("  ")[0] for line in printed[0].splitlines()[1:9]]
    assert names == [
        *("gpt-4 – consensus", "gpt-4 – anna", "gpt-4 – ben", "gpt-4 – chen"),
        *("anna – ben", "anna – chen", "ben – chen", "anna – ben – chen"),
    ]


def test_the_consensus_is_the_lower_median_of_whoever_scored(run: Path) -> None:
    people = {
        "anna": {"a": 0.0, "b": 0.5, "c": 1.0, "d": 1.0},
        "ben": {"a": 0.5, "b": 1.0, "c": 1.0},
        "chen": {"a": 1.0, "d": 0.0},
    }
    judged = agreement.judged(write(Path("reports/few"), [result(name) for name in "abcde"]))
    ids = {r.item.id: name for name, r in judged.scored.items()}
    given_scores = {rater: {ids[k]: v for k, v in each.items()} for rater, each in people.items()}
    ratings = agreement.judge_and_people(judged, given_scores)
    assert [r.item.id for r in ratings.results] == ["a", "b", "c", "d"]
    assert ratings.scores["consensus"] == (0.5, 0.5, 1.0, 0.0)
    assert ratings.scores["chen"] == (1.0, None, None, 0.0)
    assert list(ratings.scores) == ["gpt-4", "consensus", "anna", "ben", "chen"]


def test_raters_without_an_answer_in_common_are_not_compared(run: Path) -> None:
    judged = agreement.judged(run)
    first, second, *_ = judged.scored
    found = agreement.agreements(agreement.judge_and_people(judged, {"anna": {first: 1.0}, "ben": {second: 1.0}}))
    assert [each.raters for each in found] == [("gpt-4", "consensus"), ("gpt-4", "anna"), ("gpt-4", "ben")]


def test_answers_that_the_judge_left_out_are_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores(Path("anna.csv"), [*judge_of(run).items(), ("failed", 0), ("ruled", "1")])
    assert main(["agreement", str(run), "--human=anna.csv"]) == 0
    assert "! 2 answers that people scored have no score by the judge, and are left out: failed, ruled" in (
        capsys.readouterr().out
    )


def test_many_raters_are_compared_together(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(name, value, f"rater {n}") for name, value in judge_of(run).items() for n in range(6)]
    scores(Path("all.csv"), rows, ("id", "score", "rater"))
    assert main(["agreement", str(run), "--human=all.csv"]) == 0
    printed = capsys.readouterr().out
    assert [line.split("  ")[0] for line in printed.splitlines()[1:9]] == [
        *("gpt-4 – consensus", *(f"gpt-4 – rater {n}" for n in range(6)), "6 raters"),
    ]


def test_benchmarks_have_groups_of_their_own() -> None:
    results = [result(str(n), benchmark=name, cluster="1") for name in ("a", "b") for n in range(5)]
    ones = (1.0,) * 10
    (found,) = agreement.agreements(Ratings(tuple(results), {"judge": ones, "anna": ones}))
    assert (found.n, found.groups) == (10, 2)


@given(st.lists(st.lists(st.sampled_from(["id", "score", "q01", "0.5", "", "=1", "x" * 99]) | st.text())))
def test_whatever_people_hand_in_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "hostile"
    judged = agreement.judged(folder if folder.exists() else write(folder, [result("q01")]))
    path = folder / "x.csv"
    with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        csv.writer(file).writerows([["id", "score"], *rows])
    with suppress(DataError):
        found, _ = agreement.scores_of_people([path], judged)
        assert {value for each in found.values() for value in each.values()} <= set(SCALE)


@pytest.mark.parametrize("written", ["0,5", "0.50", " .5 ", "5e-1"])
def test_ways_to_write_a_score(run: Path, written: str) -> None:
    scores(Path("anna.csv"), [("q01", written)])
    found, notes = agreement.scores_of_people([Path("anna.csv")], agreement.judged(run))
    assert [list(each.values()) for each in found.values()] == [[0.5]]
    assert notes == []


def test_a_spreadsheet_with_semicolons_is_read(run: Path) -> None:
    Path("anna.csv").write_text('\ufeffid;score;remark\r\nq01;0,5;"a, b"\r\nq02;1;\r\n', encoding="utf-8")
    found, _ = agreement.scores_of_people([Path("anna.csv")], agreement.judged(run))
    assert list(found["anna"].values()) == [0.5, 1.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("q01", 1), ("nosuch", 1)], "row 3: reports/run has no item 'nosuch'"),
        ([("q01", 0.7)], "row 2: score '0.7' is not on the scale 0, 0.5, 1"),
        ([("q01", "nan")], "row 2: score 'nan' is not on the scale"),
        ([("q01", "inf")], "row 2: score 'inf' is not on the scale"),
        ([("q01", "right")], "row 2: score 'right' is not on the scale"),
        ([("q01", "-1")], "row 2: score '-1' is not on the scale"),
        ([("q01", "100")], "row 2: score '100' is not on the scale"),
        ([("q01", "")], "row 2: score is missing; fill it in, or remove the row"),
        ([("", 1)], "row 2, column 'id': blank"),
        (
            [("q01", 1), ("q02", 1), ("q01", 0)],
            "row 4: anna gives this answer a second score, after anna.csv row 2; keep",
        ),
        ([("k0123456789abcdef", 1)], "row 2: id k0123456789abcdef comes from a sheet, but reports/run has no such"),
        ([], "anna.csv: no rows; scores by people are a table"),
        ([("q01",)], "row 2: only 1 cells where the first line has 2; the file ends here, it may be truncated"),
    ],
)
def test_a_bad_row_is_named(
    run: Path, capsys: pytest.CaptureFixture[str], rows: list[tuple[object, ...]], message: str
) -> None:
    scores(Path("anna.csv"), rows)
    assert main(["agreement", str(run), "--human=anna.csv"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("medvqa: anna.csv")
    assert message in line


def test_bad_files_are_named(run: Path) -> None:
    judged = agreement.judged(run)
    scores(Path("x.csv"), [("q01", 1)], ("question", "score"))
    with pytest.raises(
        DataError, match=r"x\.csv: missing column id; found: question, score; scores by people are a table"
    ):
        agreement.scores_of_people([Path("x.csv")], judged)
    with pytest.raises(UsageError, match=r"--human=nosuch\.csv: no such file"):
        agreement.scores_of_people([Path("nosuch.csv")], judged)
    Path("x.csv").write_bytes("id,score\nq01,1\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"x\.csv line 1: not UTF-8: invalid start byte; scores by people are a table"):
        agreement.scores_of_people([Path("x.csv")], judged)
    scores(Path("x.csv"), [("q01", 1, " ")], ("id", "score", "rater"))
    with pytest.raises(DataError, match="row 2: rater is blank"):
        agreement.scores_of_people([Path("x.csv")], judged)
    scores(Path("consensus.csv"), [("q01", 1)])
    with pytest.raises(DataError, match="row 2: the rater has the same name as the judge or the consensus, 'cons"):
        agreement.scores_of_people([Path("consensus.csv")], judged)


def test_one_rater_s_two_files_may_not_score_an_answer_twice(run: Path) -> None:
    files = [scores(Path(f"{name}.csv"), [("q01", 1, "anna")], ("id", "score", "rater")) for name in "ab"]
    with pytest.raises(DataError, match=r"b\.csv row 2: anna gives this answer a second score, after a\.csv row 2"):
        agreement.scores_of_people(files, agreement.judged(run))


def test_files_of_one_name_are_two_raters(run: Path) -> None:
    for name in ("anna", "ben"):
        Path(name).mkdir()
        scores(Path(name, "sheet.csv"), [("q01", 1)])
    found, _ = agreement.scores_of_people([Path("anna/sheet.csv"), Path("ben/sheet.csv")], agreement.judged(run))
    assert list(found) == ["anna/sheet.csv", "ben/sheet.csv"]


def test_items_of_one_id_are_told_apart_by_columns(run: Path) -> None:
    judged = agreement.judged(
        write(
            Path("reports/two"),
            [result("1", 0.0), result("1", 1.0, benchmark="other"), result("1", 0.5, technique="ff")],
        )
    )
    scores(Path("x.csv"), [("1", 1)])
    with pytest.raises(
        DataError, match="row 2: reports/two has several items '1'; choose one in columns benchmark and tech"
    ):
        agreement.scores_of_people([Path("x.csv")], judged)
    columns = ("id", "score", "benchmark", "technique")
    scores(Path("x.csv"), [("1", 1, "other", ""), ("1", 0, "lesions", "ff")], columns)
    found, _ = agreement.scores_of_people([Path("x.csv")], judged)
    assert [judged.scored[name].score.value for name in found["x"]] == [1.0, 0.5]
    scores(Path("x.csv"), [("1", 1, "other", "ff")], columns)
    with pytest.raises(DataError, match="has no item '1' of other, ff; there is: lesions, ff; lesions, mc; other, mc"):
        agreement.scores_of_people([Path("x.csv")], judged)


def repeated(folder: Path, responses: Sequence[str], *, items: int = 12, judge: str = "gpt-4") -> Path:
    """A run that asked each question once for each of the responses."""
    results = [
        result(f"q{n:02}", SCALE[(n + len(response)) % 3], response=response, judge=judge, sample=number)
        for n in range(items)
        for number, response in enumerate(responses, 1)
    ]
    return write(folder, results)


def test_samples_are_told_apart_by_a_column(tmp_path: Path) -> None:
    judged = agreement.judged(repeated(tmp_path / "run", ["red", "blue", "red"]))
    file = scores(tmp_path / "x.csv", [("q01", 1)])
    message = "has several items 'q01'; choose one in columns benchmark, technique and sample: lesions, mc, sample 1; "
    with pytest.raises(DataError, match=f"{message}lesions, mc, sample 2; lesions, mc, sample 3$"):
        agreement.scores_of_people([file], judged)
    scores(file, [("q01", 0, 3), ("q01", 1, "2.0"), ("q02", 0.5, 1)], ("id", "score", "sample"))
    found, _ = agreement.scores_of_people([file], judged)
    assert [(judged.scored[name].item.id, judged.scored[name].answer.text, s) for name, s in found["x"].items()] == [
        ("q01", "red", 0.0),
        ("q01", "blue", 1.0),
        ("q02", "red", 0.5),
    ]
    scores(file, [("q01", 0, 4)], ("id", "score", "sample"))
    with pytest.raises(DataError, match="has no item 'q01' of sample 4; there is: lesions, mc, sample 1; "):
        agreement.scores_of_people([file], judged)
    scores(file, [("q01", 0, 1), ("q01", 0, 3)], ("id", "score", "sample"))
    with pytest.raises(DataError, match=r"after .*x\.csv row 2; keep one of them: samples 1, 3 are the same response"):
        agreement.scores_of_people([file], judged)


def test_a_sample_that_the_judge_did_not_score_is_not_passed_over(tmp_path: Path) -> None:
    results = [result("1", None, response="blue", sample=1), result("1", 1.0, sample=2), result("2", 1.0, sample=1)]
    judged = agreement.judged(write(tmp_path / "run", results))
    file = scores(tmp_path / "x.csv", [("1", 1)])
    with pytest.raises(DataError, match="choose one in columns benchmark, technique and sample"):
        agreement.scores_of_people([file], judged)


def test_samples_with_one_response_are_one_answer(tmp_path: Path) -> None:
    """The first that was scored stands for them; a row of the data set's id needs no number then."""
    results = [result("1", None, sample=1), result("1", 0.5, sample=2), result("1", 1.0, sample=3)]
    judged = agreement.judged(write(tmp_path / "run", results))
    assert [each.score.value for each in judged.scored.values()] == [0.5]
    assert judged.results == judged.scored
    found, _ = agreement.scores_of_people([scores(tmp_path / "x.csv", [("1", 1)])], judged)
    assert found == {"x": dict.fromkeys(judged.scored, 1.0)}


def test_people_are_given_a_response_once_however_often_it_was_drawn(tmp_path: Path) -> None:
    judged = agreement.judged(repeated(tmp_path / "run", ["red", "blue", "red"]))
    for number in (20, 999):
        drawn = [(r.item.id, r.answer.text) for r in agreement.sample(judged, number, None)]
        assert len(drawn) == min(number, 24)
        assert len(set(drawn)) == len(drawn)


def test_a_repeated_and_a_single_run_have_the_answers_in_common_that_are_the_same(tmp_path: Path) -> None:
    once = agreement.judged(write(tmp_path / "once", [result(f"q{n:02}", SCALE[n % 3]) for n in range(12)]))
    thrice = agreement.judged(repeated(tmp_path / "thrice", ["blue", "red", "red"], judge="qwen"))
    ratings = agreement.two_judges(once, thrice)
    assert [each.item.id for each in ratings.results] == [f"q{n:02}" for n in range(12)]
    assert ratings.notes == ()
    (note,) = agreement.two_judges(thrice, once).notes
    assert note.startswith(f"12 judged answers of {thrice.folder} have another response in {once.folder}: q00")


def test_a_run_without_a_judge_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "run", [result("1", task=None), result("2", 1.0, task="closeness")])
    assert main(["agreement", str(folder), "--sample=3"]) == 4
    assert f"medvqa rescore {folder} --judge=MODEL" in capsys.readouterr().err


def test_a_score_off_the_scale_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a score of the judge, 0\.7, is not on the scale 0, 0\.5, 1"):
        agreement.judged(write(tmp_path / "run", [result("1", 0.7)]))


# Two judges


def test_two_judges_over_the_same_responses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = [result(f"q{n:02}", SCALE[n % 3]) for n in range(30)]
    second = [result(f"q{n:02}", SCALE[n % 2], judge="qwen") for n in range(27)]
    second += [result("q27", None, judge="qwen"), result("q28", 1.0, judge="qwen", response="blue")]
    second += [result("extra", 1.0, judge="qwen")]
    one, other = write(tmp_path / "one", first), write(tmp_path / "other", second)
    assert main(["agreement", str(one), str(other)]) == 0
    printed = capsys.readouterr().out
    row = next(line.split() for line in printed.splitlines() if line.startswith("gpt-4 – qwen "))
    expected = sum(SCALE[n % 3] == SCALE[n % 2] for n in range(27)) / 27
    assert row[3:6] == ["27", "27", f"{100 * expected:.2f}"]
    assert f"! 1 judged answers of {one} were not scored by a judge in {other}: q27" in printed
    assert f"! 1 judged answers of {one} have another response in {other}: q28" in printed
    assert f"! 1 judged answers of {one} are not in {other}: q29" in printed
    assert f"! 1 judged answers of {other} are not in {one}: extra" in printed
    assert len([line for line in printed.splitlines() if line.startswith("!")]) == 4


def test_one_judge_twice_is_named_by_its_runs(tmp_path: Path) -> None:
    runs = [agreement.judged(write(tmp_path / name, [result("1")])) for name in ("one", "two")]
    assert list(agreement.two_judges(*runs).scores) == ["gpt-4 (one)", "gpt-4 (two)"]
    with pytest.raises(UsageError, match="have no judged answer in common: same item, same response"):
        agreement.two_judges(runs[0], agreement.judged(write(tmp_path / "three", [result("1", response="blue")])))


# The check


def test_a_seed_draws_a_sheet_and_nothing_else(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores(Path("anna.csv"), [("q01", 1)])
    assert main(["agreement", str(run), "--human=anna.csv", "--seed=3"]) == 4
    assert "--seed draws the sheet of --sample=N" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "arguments", "code", "line"),
    [
        (0, ["--min-agreement=0.85"], 0, "PASS: exact agreement of gpt-4 – anna is 1.000, lower bound 0.878"),
        (0, ["--min-agreement=0.9"], 1, "FAIL: exact agreement of gpt-4 – anna is 1.000, lower bound 0.878"),
        (6, ["--min-agreement=0.9"], 1, "FAIL: exact agreement of gpt-4 – anna is 0.900, lower bound 0.7"),
        (6, ["--min-agreement=0.7"], 0, "PASS: exact agreement"),
        (12, ["--min-agreement=0.6", "--measure=kappa"], 0, "PASS: kappa of gpt-4 – anna is 0.8"),
        (6, ["--min-agreement=0.95", "--measure=alpha"], 1, "FAIL: alpha of gpt-4 – anna is 0.9"),
    ],
)
def test_the_check_is_of_the_lower_bound(
    run: Path, capsys: pytest.CaptureFixture[str], wrong: int, arguments: list[str], code: int, line: str
) -> None:
    judge = list(judge_of(run).items())
    scores(Path("anna.csv"), [(name, 0.5 if n < wrong else value) for n, (name, value) in enumerate(judge)])
    if wrong:  # of the first n every third is 0.5 already
        scores(
            Path("anna.csv"),
            [(name, abs(value - 0.5) if n < wrong else value) for n, (name, value) in enumerate(judge)],
        )
    assert main(["agreement", str(run), "--human=anna.csv", *arguments]) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith(line)


def test_what_cannot_be_told_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "run", [result(f"q{n:02}") for n in range(20)])
    sheet = scores(tmp_path / "anna.csv", [(f"q{n:02}", 1) for n in range(20)])
    assert main(["agreement", str(run), f"--human={sheet}", "--min-agreement=0.5", "--measure=kappa"]) == 1
    printed = capsys.readouterr().out
    assert "FAIL: kappa of gpt-4 – anna is undefined (all scores are one and the same)" in printed
    assert re.search(r"gpt-4 – anna .* – +–", printed)
    assert "nan" not in printed.lower()
    scores(sheet, [(f"q{n:02}", 1) for n in range(9)])
    assert main(["agreement", str(run), f"--human={sheet}", "--min-agreement=0.5"]) == 1
    assert "is 1.000, without an interval (9 answers in 9 groups are too few or too alike)" in capsys.readouterr().out


# The sheet


def many(tmp_path: Path) -> Path:
    spread = {("color", 0.0): 300, ("color", 1.0): 100, ("size", 0.5): 90, ("size", 1.0): 7, ("size", 0.0): 3}
    names = (f"q{n:04}" for n in range(500))
    results = [
        result(next(names), value, tags={"ability": (ability,)})
        for (ability, value), count in spread.items()
        for _ in range(count)
    ]
    return write(tmp_path / "run", results)


@given(number=st.integers(1, 500), seed=st.integers(0, 10**6))
@examples(30)
def test_every_stratum_has_its_share_in_a_sample(
    tmp_path_factory: pytest.TempPathFactory, number: int, seed: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "strata"
    judged = agreement.judged(folder / "run" if folder.exists() else many(folder))
    drawn = agreement.sample(judged, number, "ability", seed)
    assert len({r.item.id for r in drawn}) == number
    strata = Counter((*r.item.tags["ability"], r.score.value) for r in judged.scored.values())
    found = Counter((*r.item.tags["ability"], r.score.value) for r in drawn)
    for stratum, count in strata.items():
        assert abs(found[stratum] - number * count / 500) < 1


def test_a_sample_depends_on_its_seed_alone(tmp_path: Path) -> None:
    judged = agreement.judged(many(tmp_path))
    drawn = [[r.item.id for r in agreement.sample(judged, 50, "ability", seed)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(agreement.sample(judged, 9999, "ability")) == 500


def test_every_answer_has_the_same_chance(tmp_path: Path) -> None:
    judged = agreement.judged(many(tmp_path))
    drawn = Counter(r.item.id for seed in range(400) for r in agreement.sample(judged, 100, "ability", seed))
    assert len(drawn) == 500
    # 400 draws with the chance 1/5: 80 each, with a standard deviation of 8.
    assert 80 - 5 * 8 < min(drawn.values()) <= max(drawn.values()) < 80 + 5 * 8


@pytest.mark.parametrize("name", ["sheet.csv", "sheet.xlsx"])
def test_a_sheet_that_is_filled_in_is_read_back(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["agreement", str(run), "--sample=24", f"--output={name}"]) == 0
    assert f"wrote {name}: 24 of 60 judged answers, stratified by ability and the judge's score" in (
        capsys.readouterr().out
    )
    judged = agreement.judged(run)
    rows = [list(row.values.values()) for row in tables.read(Path(name))]
    header = agreement.COLUMNS
    assert tuple(next(tables.read(Path(name))).values) == header
    filled = [[*row[:4], f"{judged.scored[str(row[0])].score.value:g}", ""] for row in rows]
    Path("filled").mkdir()
    if name.endswith("csv"):
        scores(Path("filled", name), filled, header)
    else:
        book = openpyxl.Workbook()
        for row in (header, *[[*row[:4], float(row[4]), ""] for row in filled]):
            book.active.append(row)
        book.save(Path("filled", name))
    assert main(["agreement", str(run), f"--human=filled/{name}"]) == 0
    assert re.search(r"^gpt-4 – sheet +24 +\d+ +100\.00 ", capsys.readouterr().out, re.M)


def test_a_sheet_is_blind(run: Path) -> None:
    """Two judges of opposite opinion over the same answers get the same sheet."""
    other = write(
        Path("reports/other"),
        [
            result(r.item.id, 1 - r.score.value, tags=r.item.tags, judge="strict")
            for r in run_folder.read(run).results
            if r.judgement and r.score.value is not None
        ],
    )
    for folder, name in ((run, "one.csv"), (other, "two.csv")):
        assert main(["agreement", str(folder), "--sample=60", "-o", name]) == 0
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()
    text = Path("one.csv").read_text()
    assert "gpt-4" not in text
    assert "<result>" not in text
    order = [judge_of(run)[r.item.id] for r in agreement.sample(agreement.judged(run), 60, "ability")]
    assert sorted(order) != order != [r.score.value for r in agreement.judged(run).scored.values()]


HOSTILE = [
    '=HYPERLINK("http://x","y")',
    "+1+1",
    "-2 mm",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1",
    "＝1+1",
    "\x00=1+1",
    'a","=1+1',
    "a\r\n=1+1",
    "'=1",
    "x" * 32_767 + "=1",
    "=" + "x" * 40_000,
    "\u202e=1",
    "",
]


@pytest.mark.parametrize("name", ["sheet.csv", "sheet.xlsx"])
def test_no_cell_of_a_sheet_is_a_formula(tmp_path: Path, name: str) -> None:
    results = [result(f"={n}", response=text) for n, text in enumerate(HOSTILE)]
    agreement.write_sheet(tmp_path / name, results)
    if name.endswith("xlsx"):
        cells = [cell for row in openpyxl.load_workbook(tmp_path / name).active.iter_rows(min_row=2) for cell in row]
        assert {cell.data_type for cell in cells if cell.value is not None} == {"s"}
        assert all(cell.quotePrefix for cell in cells if cell.value is not None)
        return
    with (tmp_path / name).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, strict=True))[1:]
    assert len(rows) == len(HOSTILE)
    assert [
        cell for row in rows for cell in row if cell.startswith(tuple("=+-@\t\r\n＝＋－＠")) or len(cell) > 32_767
    ] == []
    assert rows[2][3] == "'-2 mm"


def test_an_item_s_own_id_may_be_that_of_a_formula(tmp_path: Path) -> None:
    judged = agreement.judged(write(tmp_path / "run", [result("=1"), result("-2")]))
    sheet = scores(tmp_path / "anna.csv", [("=1", 1), ("'-2", 0)])
    found, _ = agreement.scores_of_people([sheet], judged)
    assert {judged.scored[name].item.id: score for name, score in found["anna"].items()} == {"=1": 1.0, "-2": 0.0}


def test_a_sheet_is_never_overwritten(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agreement", str(run), "--sample=5"]) == 0
    before = (run / "agreement.csv").read_bytes()
    assert main(["agreement", str(run), "--sample=6"]) == 4
    assert "exists and may contain scores: name another file with --output" in capsys.readouterr().err
    assert (run / "agreement.csv").read_bytes() == before


def test_a_sheet_of_other_responses_is_told(run: Path, tmp_path: Path) -> None:
    main(["agreement", str(run), "--sample=5", "-o", "sheet.csv"])
    changed = [result(r.item.id, 1.0, response="blue") for r in run_folder.read(run).results]
    first = next(tables.read(Path("sheet.csv"))).values
    scores(Path("sheet.csv"), [[*list(first.values())[:4], "1", ""]], list(first))
    with pytest.raises(DataError, match=r"row 2: id k[0-9a-f]{16} comes from a sheet, but reports/changed has no such"):
        agreement.scores_of_people([Path("sheet.csv")], agreement.judged(write(Path("reports/changed"), changed)))


# What is asked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN"], "agreement with whom? Name the scores of people with --human=FILE, or a second RUN; --sample=200"),
        (["RUN", "RUN", "RUN"], "agreement compares one RUN with --human=FILE, or two RUNs with each other"),
        (["RUN", "RUN", "--human=x.csv"], "agreement compares one RUN with --human=FILE, or two RUNs"),
        (["RUN", "--sample=5", "--human=x.csv"], "--sample=N writes a sheet of one RUN; read it back with --human"),
        (["RUN", "--sample=0"], "--sample=0: draw at least one answer"),
        (["RUN", "--sample=5", "-o", "x.ods"], "--output=x.ods: a sheet is a .csv or an .xlsx file"),
        (["RUN", "--sample=5", "-o", "no/x.csv"], "--output=no/x.csv: cannot be written: No such file or directory"),
        (
            ["RUN", "--human=x.csv", "-o", "y.csv"],
            "--output names the sheet of --sample=N; --json=FILE has the figures",
        ),
        (["RUN", "RUN"], "reports/run and reports/run are the same run; name two, or --human=FILE"),
        (["RUN", "--human=ok.csv", "--json=no/x.json"], "--json=no/x.json: cannot be written: No such file"),
        (["RUN", "--human=x.csv", "--measure=kappa"], "--measure says what --min-agreement=X is about"),
        (
            ["RUN", "--human=x.csv", "--min-agreement=90"],
            "--min-agreement=90: a number of at most 1 is expected, as 0.9",
        ),
        (["RUN", "--human=x.csv", "--min-agreement=nan"], "--min-agreement=nan: a number above 0 is expected, as 0.9"),
        (["RUN", "--sample=5", "--by=nosuch"], "--by=nosuch: no judged answer has this dimension; there are: ability"),
        (["reports/nosuch", "--sample=5"], "reports/nosuch is no run folder"),
    ],
)
def test_what_is_wrong_is_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    scores(Path("ok.csv"), [("q01", 1)])
    assert main(["agreement", *(str(run) if each == "RUN" else each for each in arguments)]) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert message in line


def test_another_dimension(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tags = [{"disease": ("acne", "eczema")}, {"disease": ("acne",)}, {}]
    folder = write(Path("reports/tags"), [result(f"q{n}", tags=tags[n % 3]) for n in range(30)])
    scores(Path("anna.csv"), [(f"q{n}", 1) for n in range(30)])
    assert main(["agreement", str(folder), "--human=anna.csv"]) == 0
    assert "by disease" not in capsys.readouterr().out
    assert main(["agreement", str(folder), "--human=anna.csv", "--by=disease", "--json=out.json"]) == 0
    found = json.loads(Path("out.json").read_text())["agreements"]
    assert [(each["slice"], each["n"]) for each in found] == [
        ({}, 30),
        ({"disease": "acne"}, 20),
        ({"disease": "eczema"}, 10),
    ]


def test_names_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "run", [result(f"q{n}\x1b[2J", judge="g\x1b[31mpt") for n in range(12)])
    rows = [(f"q{n}\x1b[2J", 1, "an\x1b[0mna") for n in range(11)]
    sheet = scores(tmp_path / "x.csv", rows, ("id", "score", "rater"))
    assert main(["agreement", str(run), f"--human={sheet}", "--min-agreement=0.5"]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("package", "needs"), [("sklearn", "kappa needs scikit-learn"), ("krippendorff", "alpha needs krippendorff")]
)
def test_without_the_extra_it_says_what_to_install(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str, needs: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "sklearn.metrics", raising=False)
    scores(Path("anna.csv"), [("q01", 1), ("q02", 0)])
    assert main(["agreement", str(run), "--human=anna.csv", "--min-agreement=0.9"]) == 4
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"medvqa: {needs}: pip install 'pytest-medvqa[agreement]'\n")


@given(st.text(max_size=30), st.text(max_size=30))
def test_an_answer_s_name_says_nothing_of_its_score(response: str, judge: str) -> None:
    names = {agreement.answer_id(result("1", value, response=response, judge=judge)) for value in (0.0, 0.5, 1.0, None)}
    assert len(names) == 1
    assert names != {agreement.answer_id(result("1", response=response + "x"))}


def test_the_page_shows_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[2] / "docs/scoring.md").read_text()
    page = text.partition("### Compare a judge with people")[2]
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    for language, block in re.findall(r"```(python|console)\n(.*?)```", page, re.S)[:4]:
        if language == "python":
            exec(block, session)
            continue
        command, *shown = block.splitlines()
        assert main(command.removeprefix("$ medvqa ").split()) == 0
        printed = capsys.readouterr().out.splitlines()
        assert printed[: len(shown)] == shown
    assert shown
