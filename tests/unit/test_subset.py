"""Cheap subsets: laws of the draw and of the estimate, suspect keys, and the command on runs of the phantom."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.cli import main
from medvqa.commands import subsetting
from medvqa.items import Answer, Item, Result, Score
from medvqa.records import run_folder
from medvqa.statistics import subset
from support import pages
from support.laws import examples

PHANTOM = "--benchmark=phantom-mediconfusion"


def scores_of(seed: int, models: int, units: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    hard = draw.standard_normal(units)
    return np.array(
        [draw.random(units) < 1 / (1 + np.exp(hard - draw.standard_normal())) for _ in range(models)], float
    )


def estimated(part: subset.Subset, new: np.ndarray) -> subset.Whole:
    residual = (new - part.slope * part.predicted)[part.drawn]
    strata = np.bincount(part.stratum)
    return subset.whole(residual, part.stratum[part.drawn], strata, part.slope * part.predicted.mean())


DRAWS = st.tuples(st.integers(0, 999), st.integers(2, 6), st.integers(30, 90), st.integers(10, 30))


@given(DRAWS)
@examples(40)
def test_a_draw_has_its_size_and_two_of_each_stratum(drawn: tuple[int, int, int, int]) -> None:
    seed, models, units, number = drawn
    scores = scores_of(seed, models, units)
    part = subset.draw(scores, number, seed)
    assert part.drawn.sum() == number
    assert np.bincount(part.stratum[part.drawn], minlength=part.stratum.max() + 1).min() >= 2
    np.testing.assert_array_equal(part.drawn, subset.draw(scores, number, seed).drawn)
    found = estimated(part, scores[0])
    assert 0 <= found.low <= found.value <= found.high <= 1


@given(st.integers(0, 999))
@examples(20)
def test_the_whole_drawn_is_the_whole_value(seed: int) -> None:
    scores = scores_of(seed, 4, 20)
    found = estimated(subset.draw(scores[:3], 20), scores[3])
    assert found.value == pytest.approx(scores[3].mean())
    assert found.error == 0
    assert found.low == pytest.approx(found.high)


def test_the_estimate_has_no_bias_and_the_expected_error_is_the_true_one() -> None:
    scores = scores_of(5, 6, 120)
    errors, expected = [], []
    for seed in range(400):
        found = estimated(subset.draw(scores[:5], 40, seed), scores[5])
        errors.append(found.value - scores[5].mean())
        expected.append(found.error)
    assert abs(np.mean(errors)) < 3 * np.std(errors) / 20
    assert np.mean(np.square(expected)) == pytest.approx(np.mean(np.square(errors)), rel=0.25)


def test_one_stratum_without_prediction_is_a_simple_random_sample() -> None:
    values = np.array([1.0, 0, 1, 1, 0, 1, 1, 0, 1, 1])
    zeros = np.zeros(10, int)
    found = subset.whole(values, zeros, np.array([40]), 0.0)
    assert found.value == pytest.approx(0.7)
    assert found.error == pytest.approx(np.sqrt((1 - 10 / 40) * values.var(ddof=1) / 10))
    assert found.high == pytest.approx(min(0.7 + 2.2621572 * found.error, 1))
    # All predictions are right: the wrong ones among the other questions are not seen, but bounded.
    seen = subset.whole(np.zeros(30), np.zeros(30, int), np.array([300]), 0.5)
    assert seen.error == pytest.approx(np.sqrt(0.9 * (2 / 34) * (32 / 34) / 30))
    with pytest.raises(ValueError, match="two drawn"):
        subset.whole(values, np.array([1, *zeros[1:]]), np.array([20, 20]), 0.0)


def test_models_that_agree_predict_each_other() -> None:
    hard = np.tile(scores_of(1, 1, 100), (4, 1))
    part = subset.draw(hard, 20)
    assert part.slope == pytest.approx(1)
    assert part.error == pytest.approx(0, abs=1e-9)
    assert part.random_error > 0.05
    with pytest.raises(ValueError, match="at least two models"):
        subset.draw(hard[:1], 20)


def test_a_wrong_key_correlates_negatively() -> None:
    draw = np.random.default_rng(3)
    skill = np.linspace(0.2, 0.9, 8)
    scores = (draw.random((8, 60)) < skill[:, None]).astype(float)
    scores[:, 7] = skill < 0.6
    found = subset.rest_correlations(scores)
    assert int(np.nanargmin(found)) == 7
    rest = np.delete(scores, 7, 1).sum(axis=1)
    assert found[7] == pytest.approx(np.corrcoef(scores[:, 7], rest)[0, 1])
    assert np.isnan(subset.rest_correlations(scores[:4])).all()


# the command


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five finished runs, part1 of some questions, and a run of another benchmark."""
    folder = tmp_path_factory.mktemp("subset")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, model in {"a": "random", "b": "echo:A", "c": "majority", "d": "random:2", "e": "echo:B"}.items():
            assert main(["run", PHANTOM, f"--model={model}", f"--run={name}"]) == 0
        assert main(["run", PHANTOM, "--model=random", "--run=part", "--limit=20"]) == 0
        assert main(["run", "--benchmark=phantom-gmai-mmbench", "--model=random", "--run=other"]) == 0
    return folder


@pytest.fixture
def here(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(runs, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


FIVE = [f"reports/{name}" for name in "abcde"]


def test_a_subset_is_drawn_asked_and_estimates_the_whole(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subset", *FIVE, "--size=30", "-o", "s.csv", "--seed=4"]) == 0
    printed = capsys.readouterr().out
    assert "15 of 36 units of set_accuracy" in printed
    assert "keys to review" in printed
    rows = list(csv.DictReader(Path("s.csv").read_text().splitlines()))
    assert len(rows) == 15
    content = json.loads(Path("s.json").read_text())
    assert [unit["id"] for unit in content["units"]] == [row["id"] for row in rows]
    assert sum(content["strata"]) == 36
    ask = ["run", PHANTOM, "--model=random:7", "--tags=s.csv", "--select=lexicon(subset='drawn')", "--run=new"]
    assert main(ask) == 0
    assert "30 of 72" in capsys.readouterr().out
    assert main(["subset", "s.csv", "--of=reports/new"]) == 0
    of_part = capsys.readouterr().out
    assert "set_accuracy of new, whole benchmark estimated" in of_part
    assert "runs that drew the subset" not in of_part
    assert "an estimate, never the benchmark's number" in of_part
    # A run of the whole has the drawn questions too, and the estimate does not know the others.
    assert main([*ask[:3], "--run=all"]) == 0
    capsys.readouterr()
    assert main(["subset", "s.json", "--of=reports/all"]) == 0
    assert capsys.readouterr().out == of_part.replace(" of new,", " of all,")
    assert main(["subset", "s.json", "--of=reports/a"]) == 0
    assert "! a was one of the runs that drew the subset" in capsys.readouterr().out


def test_a_measure_of_questions_draws_single_ones(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subset", *FIVE[:3], "--size=40", "--measure=individual_accuracy", PHANTOM]) == 0
    printed = capsys.readouterr().out
    assert "40 of 72 units of individual_accuracy" in printed
    assert "no keys were checked: at least 5 runs" in printed
    drawn = [row["id"] for row in csv.DictReader(Path("subset.csv").read_text().splitlines())]
    assert len({*drawn}) == 40
    assert {*drawn} < {result.item.id for result in run_folder.read(Path("reports/a")).results}


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["reports/a", "--size=30"], "two runs at least"),
        (["reports/a", "reports/other", "--size=30"], "one benchmark and technique is expected"),
        (["reports/a", "reports/b"], "type how many questions to draw"),
        (["reports/a", "reports/part", "--size=30"], "part: a finished run on the whole benchmark is needed"),
        (["reports/a", "reports/b", "--size=73"], "type a number from 20 to 72"),
        (["reports/a", "reports/b", "--size=19"], "type a number from 20 to 72"),
        (["reports/a", "reports/b", "--size=30", "--measure=confusions"], "--measure=confusions: no mean of scores"),
        (["reports/a", "reports/b", "--size=30", "-o", "x.json"], "a new table such as subset.csv is expected"),
        (["x.csv", "--of=reports/a", "--size=3"], "--size is for drawing one"),
        (["x.csv", "y.csv", "--of=reports/a"], "name one file of a subset"),
        (["x.csv", "--of=reports/a"], "x.json: cannot be read"),
        ([".", "--of=reports/a"], ".: a folder; name the file of a subset"),
        (["/", "--of=reports/a"], "/: a folder; name the file of a subset"),
        (["reports/a", "--of=reports/a"], "reports/a: a folder; name the file of a subset"),
        (["reports/a", "reports/b", "--size=30", "-o", "."], ".: a folder; name the file of a subset"),
    ],
)
def test_what_cannot_be_drawn(here: Path, capsys: pytest.CaptureFixture[str], typed: list[str], told: str) -> None:
    assert main(["subset", *typed]) == 4
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_damaged_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subset", *FIVE, "--size=30", "-o", "s.csv"]) == 0
    content = json.loads(Path("s.json").read_text())
    units, many = content["units"], len(content["strata"])
    for fields, told in (
        ({"units": [], "strata": []}, "the file of the subset is damaged"),
        ({"strata": [2**70] * many}, "s.json: Expected"),
        ({"strata": [0] * many}, "the file of the subset is damaged"),
        ({"units": [units[0] | {"stratum": 10**12}, *units[1:]]}, "the file of the subset is damaged"),
        ({"units": [units[0] | {"stratum": -1}, *units[1:]]}, "s.json: Expected"),
        ({"units": [units[0] | {"predicted": 1e308}, *units[1:]]}, "s.json: Expected"),
        ({"units": [units[1], *units[1:]]}, "the file of the subset is damaged"),
        ({"slope": 1e308}, "s.json: Expected"),
        ({"slope": -5.0}, "s.json: Expected"),
        ({"mean": 7.0}, "s.json: Expected"),
    ):
        Path("s.json").write_text(json.dumps(content | fields))
        capsys.readouterr()
        assert main(["subset", "s.csv", "--of=reports/a"]) == 4, fields
        assert told in " ".join(capsys.readouterr().err.split())


def changed(run: str, name: str, **fields: object) -> None:
    path = Path("reports", run, "run.json")
    about = json.loads(path.read_text())
    about["benchmarks"]["phantom-mediconfusion"] |= fields
    copy = shutil.copytree(path.parent, Path("reports", name))
    (copy / "run.json").write_text(json.dumps(about | {"name": name}))
    lines = (copy / "results.jsonl").read_text()
    (copy / "results.jsonl").write_text(lines.replace(f'{{"run":"{run}"', f'{{"run":"{name}"'))


def test_runs_of_other_questions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed("b", "moved", data_sha256="0" * 64)
    assert main(["subset", "reports/a", "reports/moved", "--size=30"]) == 4
    assert "the runs asked different questions of phantom-mediconfusion: a, moved" in capsys.readouterr().err
    assert main(["subset", "reports/a", "reports/b", "--size=30"]) == 0
    assert main(["subset", "subset.csv", "--of=reports/moved"]) == 4
    assert "moved asked other questions than those" in capsys.readouterr().err
    assert main(["subset", "subset.csv", "--of=reports/part"]) == 4
    assert "units of the subset" in capsys.readouterr().err
    content = json.loads(Path("subset.json").read_text())
    Path("subset.json").write_text(json.dumps(content | {"technique": "gd"}))
    assert main(["subset", "subset.csv", "--of=reports/a"]) == 4
    assert "a has no answers by gd, as the runs that drew the subset have" in capsys.readouterr().err
    Path("subset.json").write_text(json.dumps(content | {"strata": [36]}))
    assert main(["subset", "subset.csv", "--of=reports/a"]) == 4
    assert "damaged" in capsys.readouterr().err


def test_an_unfinished_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = here / "reports/b/results.jsonl"
    results.write_text("".join(results.read_text().splitlines(keepends=True)[5:]))
    assert main(["subset", "reports/a", "reports/b", "--size=30"]) == 4
    assert "b: a finished run on the whole benchmark is needed: unfinished" in capsys.readouterr().err


def test_keys_that_better_runs_miss_are_listed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subset", *FIVE, "--size=30", "--measure=individual_accuracy"]) == 0
    suspects = json.loads(Path("subset.json").read_text())["suspects"]
    assert suspects
    assert all(one["key"] != one["answer"] and one["answer"] and one["correlation"] < 0 for one in suspects)
    printed = capsys.readouterr().out
    assert f"{len(suspects)} keys to review" in printed
    assert suspects[0]["id"] in printed


def test_what_is_said_of_private_data_of_all_questions_and_of_one_key(here: Path) -> None:
    assert main(["subset", *FIVE, "--size=30", "--measure=individual_accuracy"]) == 0
    part = subsetting.read(Path("subset.csv"))
    known = pages.PHANTOM[part.benchmark]
    for public in (True, False):
        printed = subsetting.text(part, Path("subset.csv"), {part.benchmark: replace(known, public=public)})
        assert ("! these files hold ids, keys and answers of data that are not public" in printed) is not public
        assert (part.suspects[0].id in printed) is public
    for error, random_error, told in ((0.1, 0.1, True), (0.0, 0.0, False)):
        drawn = replace(part, error=error, random_error=random_error)
        printed = subsetting.text(drawn, Path("subset.csv"), pages.PHANTOM)
        assert ("these runs do not predict each other" in printed) is told, "a draw of all has no error"
    one = replace(part, suspects=part.suspects[:1])
    assert "\n1 key to review, in" in subsetting.text(one, Path("subset.csv"), pages.PHANTOM)


def answered(run: int, number: int, said: str, key: str = "A") -> Result:
    item = Item(f"q{number}", "ward", "single_choice", "?", {"A": "yes", "B": "no"}, (key,))
    score = Score(float(said == key), "correct" if said == key else "wrong", (said,))
    return Result(f"run{run}", item, "p", Answer(said), score)


def test_the_better_half_of_the_runs_tells_a_wrong_key() -> None:
    # Run k knows the first 4 (k + 1) questions. The key of q24 is wrong: the better half says B.
    runs = [[answered(k, n, "A" if n < 4 * (k + 1) else "B") for n in range(24)] for k in range(6)]
    asked = [[*own, answered(k, 24, "B" if k >= 3 else "A")] for k, own in enumerate(runs)]
    (suspect,) = subsetting._suspects(asked)
    assert (suspect.id, suspect.key, suspect.answer) == ("q24", "A", "B")
    assert suspect.correlation < -0.5
    # An answer that could not be read is no other answer.
    mute = replace(answered(0, 24, "B"), score=Score(0.0, "unparsed"))
    assert subsetting._suspects([[*own[:-1], mute if k > 2 else own[-1]] for k, own in enumerate(asked)]) == ()
    # One of the better runs keeps to the key.
    asked[4][-1] = answered(4, 24, "A")
    assert subsetting._suspects(asked) == ()
    assert subsetting._suspects(asked[1:5]) == ()


def test_an_open_question_is_no_suspect_because_of_how_its_key_is_written() -> None:
    def open_answer(run: int, said: str) -> Result:
        item = Item("q24", "ward", "open", "?", {}, ("The Lung", "Lungs"))
        score = Score(float(said == "lung"), "correct" if said == "lung" else "wrong", (said,))
        return Result(f"run{run}", item, "p", Answer(said), score)

    # Run k knows the first 4 (k + 1) questions; most know the open one, and the best run does not.
    runs = [[answered(k, n, "A" if n < 4 * (k + 1) else "B") for n in range(24)] for k in range(6)]
    assert (
        subsetting._suspects([[*own, open_answer(k, "heart" if k == 5 else "lung")] for k, own in enumerate(runs)])
        == ()
    )
    weak = [[*own, open_answer(k, "lung" if k == 0 else "heart")] for k, own in enumerate(runs)]
    (suspect,) = subsetting._suspects(weak)
    assert (suspect.key, suspect.answer) == ("The Lung or Lungs", "heart")
