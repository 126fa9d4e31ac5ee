"""The counts behind published percentages, and `medvqa explain` on recorded runs of GPT-4o."""

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.benchmarks import published, pytest_medvqa_benchmarks
from medvqa.cli import main
from medvqa.paper_tables import counts_behind
from support.laws import examples

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
RECORDED = REFERENCE / "mediconfusion"
needs_shared = pytest.mark.skipif(not RECORDED.is_dir(), reason="the reference data are not beside the repository")
TABLES = published.tables(pytest_medvqa_benchmarks())


# --- counts behind a percentage ---------------------------------------------------------------------------------------


def rounded(count: int, n: int, digits: int, how: str) -> float:
    # 60 digits: no fraction of a count below 10,000 looks like a half before it is one
    exact = Decimal(100 * count * 10**60 // n) / Decimal(10**60) if (100 * count) % n else Decimal(100 * count // n)
    return float(exact.quantize(Decimal(1).scaleb(-digits), how))


@examples(200)
@given(st.integers(1, 9_999), st.integers(0, 3), st.data())
def test_all_counts_whose_rounding_gives_the_figure_are_listed_and_no_other(
    n: int, digits: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, n))
    how = data.draw(st.sampled_from([ROUND_HALF_UP, ROUND_HALF_DOWN]))
    figure = rounded(count, n, digits, how)
    expected = [
        other
        for other in range(max(0, count - n // 2 - 2), min(n, count + n // 2 + 2) + 1)
        if figure in (rounded(other, n, digits, ROUND_HALF_UP), rounded(other, n, digits, ROUND_HALF_DOWN))
    ]
    assert count in expected
    assert list(counts_behind(figure, digits, n)) == expected


@pytest.mark.parametrize(
    ("percent", "digits", "n", "counts"),
    [
        (18.75, 2, 176, [33]),
        (56.25, 2, 352, [198]),
        (56.2, 1, 10_000, list(range(5615, 5626))),
        (35.9, 2, 352, []),
        (0.0, 2, 176, [0]),
        (100.0, 2, 3, [3]),
        (12.5, 1, 8, [1]),
    ],
)
def test_the_counts_behind_known_figures(percent: float, digits: int, n: int, counts: list[int]) -> None:
    assert list(counts_behind(percent, digits, n)) == counts


@pytest.mark.parametrize("name", TABLES)
def test_each_published_figure_is_a_count_of_its_units_but_for_known_slips(name: str) -> None:
    table = TABLES[name]
    for row in table.rows:
        for place, column in enumerate(table.columns):
            n, value = row.n[place] if row.n else column.n, row.values[place]
            if n is not None and value is not None:
                assert counts_behind(value, table.digits(row), n) or column.technique in row.doubtful, (
                    row.name,
                    column,
                )


@pytest.mark.parametrize("name", TABLES)
def test_what_a_paper_says_has_a_source(name: str) -> None:
    table = TABLES[name]
    for said in (*table.said, *(said for row in table.rows for said in row.said)):
        assert said.value
        assert said.source
        assert "github.com" not in said.source or "/blob/" in said.source


# --- medvqa explain ---------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The two recorded runs of GPT-4o, as reports/second and reports/first."""
    monkeypatch.chdir(tmp_path)
    for name, file in (("first", "gpt4o_mc_predictions_run1"), ("second", "gpt4o_mc_predictions")):
        path = f"--model=replay:{RECORDED / file}.json"
        assert main(["run", path, "--benchmark=mediconfusion", f"--data={REFERENCE}", f"--run={name}"]) == 0
    capsys.readouterr()
    return tmp_path


def explained(*words: str) -> Mapping[str, Any]:
    assert main(["explain", *words, "--json=explained.json"]) == 0
    [part] = json.loads(Path("explained.json").read_text())["parts"]
    return part  # type: ignore[no-any-return]


@needs_shared
def test_the_recorded_runs_of_gpt_4o_are_counted_by_every_rule(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = {}
    for name, file in (("first", "gpt4o_mc_scores_run1"), ("second", "gpt4o_mc_scores")):
        part = explained(f"reports/{name}", f"--data={REFERENCE}")
        by_rule = {rule["rule"]: {of["measure"]: of["count"] for of in rule["measures"]} for rule in part["rules"]}
        official = json.loads((RECORDED / f"{file}.json").read_text())
        assert by_rule["official (owners)"] == {
            "set_accuracy": official["set_score"]["total"],
            "individual_accuracy": official["individual_score"]["total"],
            "confusion": official["confused"]["total"],
        }
        pairs[name] = {rule: counts["set_accuracy"] for rule, counts in by_rule.items()}
        every, some = ({of["measure"]: of["count"] for of in part[which]} for which in ("every_rule", "any_rule"))
        readers = [count for rule, count in pairs[name].items() if "Inspect" not in rule]
        assert every["set_accuracy"] <= min(readers) <= max(readers) <= some["set_accuracy"]
    # MedEvalKit takes refusals as the most similar option; the others read a letter in one answer more, or in none.
    assert (pairs["first"]["MedEvalKit"], pairs["second"]["MedEvalKit"]) == (39, 35)
    assert (pairs["first"]["lmms-eval, MMMU"], pairs["first"]["VLMEvalKit 2026-06"]) == (35, 34)
    assert pairs["second"]["VLMEvalKit 2024-02"] == 30
    page = (Path(__file__).parents[2] / "docs" / "harnesses.md").read_text("utf-8")
    for shown_as, rule in (
        ("this project's, and the owners'", "sound (this project)"),
        ("VLMEvalKit of 2024-02", "VLMEvalKit 2024-02"),
        ("VLMEvalKit of 2025-08 and 2026-06", "VLMEvalKit 2026-06"),
        ("lmms-eval, as it reads MMMU", "lmms-eval, MMMU"),
        ("MedEvalKit", "MedEvalKit"),
        ("Inspect", "Inspect, multiple_choice"),
    ):
        assert f"| {shown_as} | {pairs['first'][rule]:g} | {pairs['second'][rule]:g} |" in page
    shown = capsys.readouterr().out
    assert "MedEvalKit                203/352  57.67  39/176 (22.16)" in shown
    assert "Inspect, multiple_choice can read none of these answers" in shown


@needs_shared
def test_a_run_beside_the_published_row(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = explained("reports/second", "--published=GPT-4o")
    compared = {of["aspect"]: of["status"] for of in part["compared"]}
    same = [aspect for aspect, status in compared.items() if status == "same"]
    assert same == ["technique", "metric", "questions", "judge"]
    assert [aspect for aspect, status in compared.items() if status == "different"] == ["extraction"]
    assert compared["temperature"] == compared["prompt"] == compared["model"] == compared["data"] == "unknown"
    of_set, of_each, confusion = part["counts"]
    assert (of_set["counts"], of_set["n"], of_set["low"], of_set["high"]) == ([33], 176, 18.745, 18.755)
    assert (of_each["counts"], confusion["counts"], confusion["n"]) == ([198], [], None)
    assert (of_set["nearest"], of_set["remainder"]) == (["MedEvalKit"], -2)
    shown = " ".join(capsys.readouterr().out.split())
    for line in (
        "set MC: published 18.75 %, that is 18.745 to 18.755 % before rounding: 33 of 176 pairs; the run has 30/",
        "set MC: nearest of 8 rules: MedEvalKit. 2 pairs fewer (1.14 points) stand in the paper: no rule explains",
        "unknown model: run unknown; published 4o (release 20240513) [Table 3]",
        "different extraction: run sound; published the owners' rule (official)",
        "from run to run, set_accuracy: 34 (19.32 %), 30 (17.05 %) of 176; two recorded runs of GPT-4o at temp",
        "recorded answers do not say how they were asked for",
    ):
        assert line in shown
    assert "reproduc" not in shown
    assert "explains 6" not in shown


@needs_shared
def test_agreement_with_a_rule_is_said_to_be_possible_by_chance(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TABLES["mediconfusion"]
    row = next(row for row in table.rows if row.name == "GPT-4o")
    values = [19.89 if column.title == "set MC" else None for column in table.columns]
    fitting = {**TABLES, "mediconfusion": replace(table, rows=(replace(row, values=tuple(values)),))}
    monkeypatch.setattr(published, "tables", lambda _: fitting)
    assert main(["explain", "reports/first", "--published=GPT-4o"]) == 0
    shown = capsys.readouterr().out
    assert "set MC: 2 of 8 rules give the published count: VLMEvalKit 2024-02, lmms-eval, MMMU; with so many" in shown
    assert "one may agree by chance" in shown


@needs_shared
def test_a_part_of_the_questions_is_said_to_be_one(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"--model=replay:{RECORDED}/gpt4o_mc_predictions.json"
    assert main(["run", path, "--benchmark=mediconfusion", f"--data={REFERENCE}", "--limit=20", "--run=some"]) == 0
    capsys.readouterr()
    part = explained("reports/some", "--published=GPT-4o")
    shown = capsys.readouterr().out
    assert part["counts"][0]["remainder"] is None
    assert "different questions: run 20; published 352" in " ".join(shown.split())
    assert "selected 20 of 352" in shown
    assert "set MC: the run has 10 pairs, the published figure 176; their counts are not compared" in shown


@needs_shared
def test_errors_say_what_to_type(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "reports/second", "--published=GPT4o"]) == 4
    assert "Did you mean 'GPT-4o'?" in capsys.readouterr().err
    assert main(["explain", "reports/second", "--published=Random guessing"]) == 4
    assert "the row has no figure of the measures of reports/second" in capsys.readouterr().err
    common = ["run", "--model=random", "--benchmark=phantom-mediconfusion", "--limit=4", "--run=several", "--samples=2"]
    assert main([*common, "--combine=vote"]) == 0
    assert main(["explain", "reports/several"]) == 4
    assert "has several answers to a question: explain a run with one" in capsys.readouterr().err


def own_run(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, recorded: str) -> None:
    """Score recorded answers to two questions of one's own, as reports/own."""
    monkeypatch.chdir(folder)
    Path("own.csv").write_text("id,question,A,B,answer\ns1,Which?,cyst,stone,A\ns2,Which?,cyst,stone,A\n")
    Path("own.toml").write_text('file = "own.csv"\n')
    Path(file).write_text(recorded)
    assert main(["run", f"--model=replay:{file}", "--benchmark=own.toml", "--run=own"]) == 0


def test_questions_of_private_data_are_named_in_the_json_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_run(tmp_path, monkeypatch, "said.csv", "id,response\ns1,A\ns2,I see no cyst in the image\n")
    capsys.readouterr()
    part = explained("reports/own")
    medevalkit = next(rule for rule in part["rules"] if rule["rule"] == "MedEvalKit")
    shown = capsys.readouterr().out
    assert medevalkit["differing"] == ["s2"]
    assert "s2" not in shown
    assert "own is of data that are not declared public: --json=FILE names the questions" in shown


def test_the_scores_in_a_replayed_log_stand_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = "index,question,prediction,hit,log\ns1,Which?,A,1,x\ns2,Which?,I see no cyst in the image,1,x\n"
    own_run(tmp_path, monkeypatch, "said.csv", log)
    theirs = next(rule for rule in explained("reports/own")["rules"] if "its own log" in rule["rule"])
    assert (theirs["rule"], theirs["right"], theirs["differing"]) == ("VLMEvalKit, its own log", 2, ["s2"])
    assert theirs["source"] == "said.csv VLMEvalKit hit"
    Path("said.csv").write_text(log.replace("1,x", "0,x"))  # another file than the run's
    assert not [rule for rule in explained("reports/own")["rules"] if "its own log" in rule["rule"]]
    Path("said.csv").unlink()
    assert explained("reports/own")["rules"]


def test_hostile_options_of_a_recorded_model_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_run(tmp_path, monkeypatch, "said.csv", "index,question,prediction,hit,log\ns1,Which?,A,1,x\ns2,Which?,A,1,x\n")
    record = tmp_path / "reports/own/run.json"
    run = json.loads(record.read_text())
    run["config"]["options"] = {"id": 5}
    record.write_text(json.dumps(run))
    assert main(["explain", "reports/own"]) == 4
    assert "run.json: field config.options: Expected `str | null`, got `int`" in capsys.readouterr().err


def test_the_scores_that_medevalkit_wrote_are_those_of_its_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = Path(__file__).parents[1] / "kept" / "harness_logs" / "results.json"
    main(["run", f"--model=replay:{log}", "--benchmark=phantom-gmai-mmbench", "--run=logged"])
    differing = {of["rule"]: of["differing"] for of in explained("reports/logged")["rules"]}
    assert differing["MedEvalKit, its own log"] == differing["MedEvalKit"] != []
