"""The gate: rules of files and of the command line, what may be compared, verdicts, and what a gate can show."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import comparing, metrics, scoring, statistics
from medvqa.cli import main
from medvqa.comparing import Side, gating
from medvqa.comparing.gating import Rules, deciding, planning
from medvqa.comparing.gating.designs import designs
from medvqa.items import Answer, Benchmark, Item, Judgement, Prompt, Result, Score, UsageError
from medvqa.judging.handed_in import answer_id
from medvqa.records import baseline_file, keyed, run_folder, run_record
from medvqa.records.coverage import Coverage
from medvqa.records.run_folder import Recorder
from medvqa.records.run_record import RUN, RunRecord
from medvqa.report import gate_plans
from medvqa.report.gate import headline
from medvqa.report.gate_plans import _losses
from support.laws import examples
from support.runs import record

OPTIONS = {"A": "liver", "B": "spleen", "C": "kidney", "D": "heart"}


def scored(item: Item, answer: Answer) -> Score:
    right = answer.text in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text,), f"chose {answer.text}")


SLAKE = Benchmark(
    name="slake",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=scored,
    metrics=(metrics.accuracy, metrics.macro_accuracy("modality"), *metrics.rates),
    dimensions=("modality",),
    public=True,
)
KNOWN = {"slake": SLAKE, "vqa-rad": replace(SLAKE, name="vqa-rad")}
ABOUT = {
    "items": 300,
    "data_sha256": "0" * 64,
    "answers": "given",
    "signature": {"data": "0" * 12, "extraction": "sound", "answers": "given"},
    "prompts": {"mc": "slake/mc@1f2e3d4c"},
}


def run_json(*names: str, **about: Any) -> RunRecord:
    names = names or ("slake",)
    content = {
        "name": "new",
        "model": {"name": "echo", "fingerprint": "1"},
        "extraction": "sound",
        "ablation": None,
        "techniques": ["mc"],
        "options": {"benchmark": []},
        "finished": "2026-01-01T00:00:00+00:00",
        "benchmarks": dict.fromkeys(names, ABOUT),
        **about,
    }
    return record(content)


def result(n: int, right: bool, *, benchmark: str = "slake", per_group: int = 1, **changes: Any) -> Result:
    """Question n: its key is A, and its modality one of four; `per_group` questions share a case."""
    tags = {"modality": (("ct", "mri", "oct", "rare")[3 if n < 8 else n % 3],)}
    item = Item(
        f"q{n:04}", benchmark, "single_choice", f"{n}?", OPTIONS, ("A",), (), tags, cluster_id=f"c{n // per_group}"
    )
    answer = Answer("A" if right else "B")
    made = Result("new", item, "0" * 64, answer, scored(item, answer))
    return replace(made, **changes)


def side(name: str, rights: Sequence[bool], **changes: Any) -> Side:
    results = tuple(result(n, right, **changes) for n, right in enumerate(rights))
    return Side(name, run_json(changes.get("benchmark", "slake")), results)


def model(n: int, accuracy: float, worse: Callable[[int], bool] = lambda n: False) -> list[bool]:
    """Right in that share of n questions, spread evenly, but wrong where it is worse."""
    return [int((i + 1) * accuracy) > int(i * accuracy) and not worse(i) for i in range(n)]


def flipped(lost: int, gained: int) -> list[bool]:
    """The model that is right in 70 %, but for so many questions that it lost, and gained."""
    rights = model(300, 0.7)
    places = [i for i, right in enumerate(rights) if right][-lost:] + [i for i, r in enumerate(rights) if not r][
        -gained:
    ]
    return [not right if i in places else right for i, right in enumerate(rights)]


def verdict(rules: Rules, new: Side, *baselines: Side, missing: Sequence[str] = ()) -> gating.Verdict:
    rules = replace(rules, baseline=tuple(each.name for each in baselines))
    gate = gating.prepare(rules, baselines, new.run, KNOWN)
    assert gate is not None
    there = len(new.results)
    return gating.decide(gate, replace(new, covered=Coverage(there + len(missing), there, tuple(missing))))


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    return path


# --- rules --------------------------------------------------------------------------------------------------


def test_rules_of_a_file(tmp_path: Path) -> None:
    path = toml(
        tmp_path,
        """
        [tool.medvqa.gate]
        baseline = "baselines/main.medvqa"
        margin = 3
        slices = ["modality"]
        judge_reliability = 0.8
        flip_icc = 0.3
        [tool.medvqa.gate.benchmarks.slake]
        measure = "accuracy"
        margin = 5
        [[tool.medvqa.gate.slice]]
        benchmark = "slake"
        dimension = "modality"
        value = "ct"
        margin = 8
        [[tool.medvqa.gate.floor]]
        benchmark = "slake"
        measure = "accuracy"
        at_least = 0.55
        """,
    )
    rules = gating.read_rules(path)
    assert rules.baseline == (str(tmp_path / "baselines/main.medvqa"),)
    assert (rules.margin, rules.slices, rules.judge_reliability, rules.looks) == (3, ("modality",), 0.8, 1)
    assert (rules.flip_icc, Rules().flip_icc) == (0.3, 0.1)
    assert rules.as_json()["flip_icc"] == 0.3
    assert gating.from_json(rules.as_json(), "run.json").flip_icc == 0.3
    assert rules.benchmarks == {"slake": gating.BenchmarkRule(measure="accuracy", margin=5)}
    assert rules.slice == (gating.SliceRule(benchmark="slake", dimension="modality", value="ct", margin=8),)
    assert rules.floor == (gating.Floor(benchmark="slake", measure="accuracy", at_least=0.55),)
    assert rules.active


@pytest.mark.parametrize("text", ["", "[project]\nname = 'x'", "[tool.medvqa]"])
def test_a_file_without_rules_has_none(tmp_path: Path, text: str) -> None:
    assert gating.read_rules(toml(tmp_path, text)) == Rules()
    assert gating.read_rules(tmp_path / "nowhere.toml") == Rules()
    assert not Rules().active


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = [", "pyproject.toml: not TOML: "),
        ("[tool.medvqa.gate]\nmargn = 2", "[tool.medvqa.gate]: no key 'margn'; there are: baseline, margin, slices"),
        ("[tool.medvqa.gate]\nmargn = 2", "Did you mean 'margin'?"),
        ("[tool.medvqa.gate]\nmargin = 'two'", "[tool.medvqa.gate]: Expected `float`, got `str` - at `$.margin`"),
        ("[tool.medvqa.gate]\nmargin = true", "[tool.medvqa.gate]: Expected `float`, got `bool`"),
        ("[tool.medvqa.gate]\nmargin = nan", "[tool.medvqa.gate]: margin = nan: points, more than 0 and at most 100"),
        ("[tool.medvqa.gate]\nmargin = 0", "[tool.medvqa.gate]: margin = 0: points, more than 0 and at most 100"),
        ("[tool.medvqa.gate]\nlooks = 0", "looks = 0: how often the gate is asked, at least 1"),
        ("[tool.medvqa.gate]\ninconclusive = 'maybe'", "Invalid enum value 'maybe'"),
        (
            "[tool.medvqa.gate]\nflip_icc = 1.1",
            "[tool.medvqa.gate]: flip_icc = 1.1: the correlation of the flips of a group, from 0 to 1",
        ),
        ("[tool.medvqa.gate]\nflip_icc = nan", "flip_icc = nan: the correlation of the flips of a group, from 0 to 1"),
        (
            "[tool.medvqa.gate]\njudge_reliability = 1.2",
            "judge_reliability = 1.2: a fraction, more than 0 and at most 1",
        ),
        (
            "[tool.medvqa.gate.benchmarks.slake]\nmetric = 'a'",
            "[tool.medvqa.gate.benchmarks.slake]: no key 'metric'; there are: measure, technique, margin",
        ),
        ("[tool.medvqa.gate]\nbenchmarks = 3", "[tool.medvqa.gate]: Expected `object`, got `int` - at `$.benchmarks`"),
        (
            "[tool.medvqa.gate]\nbenchmarks = {slake = 3}",
            "[tool.medvqa.gate.benchmarks.slake]: a table is needed, not 3",
        ),
        (
            "[[tool.medvqa.gate.floor]]\nbenchmark = 'slake'\nmeasure = 'accuracy'\natleast = 1",
            "[[tool.medvqa.gate.floor]] number 1: no key 'atleast'; there are: benchmark, measure, at_least, at_most",
        ),
        (
            "[[tool.medvqa.gate.floor]]\nbenchmark = 'slake'\nmeasure = 'accuracy'",
            "[[tool.medvqa.gate.floor]] number 1: one of at_least and at_most, a fraction such as 0.55",
        ),
        (
            "[[tool.medvqa.gate.floor]]\nbenchmark = 'slake'\nmeasure = 'accuracy'\nat_least = 55",
            "[[tool.medvqa.gate.floor]] number 1: at_least = 55: a fraction from 0 to 1, such as 0.55",
        ),
        (
            "[[tool.medvqa.gate.slice]]\nbenchmark = 'slake'\ndimension = 'modality'\nmargin = 3",
            "[tool.medvqa.gate]: Object missing required field `value` - at `$.slice[0]`",
        ),
    ],
)
def test_a_bad_rule_is_named_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        gating.read_rules(toml(tmp_path, text))
    assert str(tmp_path / "pyproject.toml") in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[tool.medvqa-gate]\nmargin = 2",
            "[tool.medvqa-gate] is not read, so its rules do nothing: write [tool.medvqa.gate]",
        ),
        ("[tool.medvqa_gate.benchmarks.slake]\nmargin = 2", "[tool.medvqa_gate] is not read"),
        ("[medvqa.gate]\nmargin = 2", "[medvqa.gate] is not read"),
        ("[[medvqa.gate]]\nmargin = 2", "[medvqa.gate] is not read"),
        ("[tool.pytest-medvqa.gate]\nmargin = 2", "[tool.pytest-medvqa.gate] is not read"),
        ("[tool.pytest.medvqa.gate]\nmargin = 2", "[tool.pytest.medvqa.gate] is not read"),
        ("[tool.MedVQA.Gate]\nmargin = 2", "[tool.MedVQA.Gate] is not read"),
        ("[tool.medqva.gate]\nmargin = 2", "[tool.medqva.gate] is not read"),
        ("[tool.medvqa.gate]\nmargin = 2\n[tool.medvqa-gates]\nmargin = 3", "[tool.medvqa-gates] is not read"),
        ("[tool.medvqa.gates]\nmargin = 2", "[tool.medvqa] has no key 'gates'; did you mean gate?"),
        ("[tool]\nmedvqa.gate = 2", "[tool.medvqa.gate]: a table is needed, not 2"),
        (
            "[[tool.medvqa.gate.floor]]\nbenchmark = 'slake'\nmeasure = 'accuracy'\nat_least = 0",
            "[[tool.medvqa.gate.floor]] number 1: at_least = 0: every run meets it. Write the fraction that",
        ),
        (
            "[[tool.medvqa.gate.floor]]\nbenchmark = 'slake'\nmeasure = 'error_rate'\nat_most = 1.0",
            "[[tool.medvqa.gate.floor]] number 1: at_most = 1: every run meets it",
        ),
    ],
)
def test_a_rule_without_effect_is_named_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        gating.read_rules(toml(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "pyproject.toml"))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[tool.pytest.ini_options]\nx = 1",
        "[tool.gate]\nx = 1",
        "[tool.medvqa]\n",
        "[[project.medvqa]]\nx = 1",
        "medvqa-gate = 1",
    ],
)
def test_other_tables_are_no_rules(tmp_path: Path, text: str) -> None:
    assert gating.read_rules(toml(tmp_path, text)) == Rules()


def test_an_empty_table_is_one(tmp_path: Path) -> None:
    rules = gating.read_rules(toml(tmp_path, "[tool.medvqa.gate]\n"))
    assert not rules.active
    assert rules.file.endswith("pyproject.toml"), "so that a run can say that it has no rules"
    (tmp_path / "inner").mkdir()
    assert gating.rules_above(tmp_path / "inner") == tmp_path / "pyproject.toml"


def test_what_is_typed_takes_the_place_of_the_file() -> None:
    rules = Rules(baseline=("a",), margin=3, slices=("modality",), looks=2)
    typed = gating.typed_over(rules, baseline=["b"], margin=5, slices=["task,department", "task"], inconclusive="pass")
    options = ("--baseline", "--margin", "--gate-slices", "--inconclusive")
    changes: dict[str, Any] = {"margin": 5, "slices": ("task", "department"), "inconclusive": "pass"}
    assert typed == replace(rules, baseline=("b",), typed=options, **changes)
    assert gating.typed_over(rules) == rules
    own = replace(rules, benchmarks={"slake": gating.BenchmarkRule(require="shared")})
    assert own.required("slake") == "shared"
    assert own.required("vqa-rad") == "baseline"
    assert gating.typed_over(own, require="all").required("slake") == "all"


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ({"margin": 2}, "--margin: worse than what? Name a run folder or a baseline file: --baseline=RUN"),
        ({"slices": ["task"]}, "--gate-slices: worse than what?"),
        ({"looks": 2}, "--looks: there is nothing to decide. Name a run folder or a baseline file by --baseline=RUN"),
        ({"baseline": ["a"], "margin": 0}, "--margin = 0: points, more than 0 and at most 100"),
        ({"baseline": ["a"], "looks": 0}, "--looks=0: how often the gate is asked, at least 1"),
        ({"baseline": ["a"], "inconclusive": "skip"}, "--inconclusive=skip: pass or fail"),
        ({"baseline": ["a"], "require": "some"}, "--require=some: baseline (every unit of the baseline must count), "),
        ({"require": "all"}, "--require: there is nothing to decide"),
    ],
)
def test_what_is_typed_must_have_a_meaning(typed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        gating.typed_over(Rules(), **typed)
    assert complaint in str(caught.value)


def test_the_digest_is_that_of_the_rules_wherever_the_baseline_lies() -> None:
    rules = Rules(baseline=("a",), margin=3, floor=(gating.Floor(benchmark="slake", measure="accuracy", at_least=0.5),))
    stored = json.loads(json.dumps(rules.as_json()))
    assert gating.from_json(stored, "run.json").digest == rules.digest == replace(rules, baseline=("b",)).digest
    assert replace(rules, margin=4).digest != rules.digest
    assert replace(rules, file="a", typed=("--margin",)).digest == rules.digest
    assert "require" not in stored, "rules of earlier versions keep their digest"
    strict = replace(rules, require="all", benchmarks={"slake": gating.BenchmarkRule(require="shared")})
    assert gating.from_json(json.loads(json.dumps(strict.as_json())), "run.json").required("slake") == "shared"
    assert strict.digest != rules.digest
    with pytest.raises(UsageError, match=r"run\.json: no key 'other'"):
        gating.from_json({**stored, "other": 1}, "run.json")


# --- rules without effect -----------------------------------------------------------------------------------

FLOOR = gating.Floor(benchmark="slake", measure="accuracy", at_least=0.5)
MAIN = side("main", model(300, 0.7))


def test_keys_without_effect_are_noted() -> None:
    own = {"slake": gating.BenchmarkRule(margin=3), "vqa-rad": gating.BenchmarkRule(margin=4)}
    gate = gating.prepare(Rules(floor=(FLOOR,), margin=5, slices=("modality",), benchmarks=own), (), run_json(), KNOWN)
    assert gate is not None
    assert gate.notes == (
        "[tool.medvqa.gate.benchmarks.vqa-rad] has no effect: this run does not ask vqa-rad",
        "without a baseline these keys of the rules have no effect: margin, slices, benchmarks.slake, "
        "benchmarks.vqa-rad",
    )
    gate = gating.prepare(Rules(floor=(FLOOR,)), (), run_json(), KNOWN)
    assert gate is not None
    assert gate.notes == ()


def test_a_margin_that_cannot_be_lost_is_noted() -> None:
    same = side("new", model(300, 0.7))
    told = "slake: accuracy against main, margin 99: no run can lose that much, as at most 70.0 points can be lost"
    assert [note.partition(";")[0] for note in verdict(Rules(margin=99), same, MAIN).notes if "lose" in note] == [told]
    assert not any("lose that much" in note for note in verdict(Rules(margin=69), same, MAIN).notes)
    assert verdict(Rules(margin=99), same, MAIN).outcome == "PASS", "identical answers pass by any margin"


# --- what may be compared -----------------------------------------------------------------------------------


def prepared(rules: Rules, run: RunRecord | None = None, *baselines: Side) -> gating.Gate | None:
    rules = replace(rules, baseline=tuple(each.name for each in baselines))
    return gating.prepare(rules, baselines, run or run_json(), KNOWN)


def changed(**changes: Any) -> dict[str, Any]:
    return {"slake": {**ABOUT, **changes}}


@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        ({"benchmarks": changed(signature={**ABOUT["signature"], "data": "1" * 12}, data_sha256="1" * 64)}, "data"),
        ({"benchmarks": changed(prompts={"mc": "slake/mc@00000000"})}, "slake/mc@00000000"),
        ({"benchmarks": changed(prompts={"gd": "slake/gd@00000000"}), "techniques": ["gd"]}, "gd"),
        (
            {
                "benchmarks": changed(signature={**ABOUT["signature"], "extraction": "official"}),
                "extraction": "official",
            },
            "official",
        ),
        ({"benchmarks": {"vqa-rad": ABOUT}}, "baseline main has none of the benchmarks of this run (vqa-rad)"),
        (
            {"benchmarks": dict.fromkeys(KNOWN, ABOUT)},
            "'vqa-rad' is in no baseline (main). Name others: --benchmark=slake",
        ),
    ],
)
def test_a_baseline_of_something_else_is_refused(run: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepared(Rules(), run_json(**run), MAIN)
    assert complaint in str(caught.value)
    assert "main" in str(caught.value)


def test_a_benchmark_that_the_user_left_out_is_no_reason_to_refuse() -> None:
    other = side("main", [True], benchmark="vqa-rad")
    both = replace(MAIN, run=run_json("slake", "vqa-rad"), results=MAIN.results + other.results)
    with pytest.raises(UsageError, match="vqa-rad"):
        prepared(Rules(), run_json(), both)
    assert prepared(Rules(), run_json(options={"benchmark": ["slake"]}), both) is not None


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        (
            Rules(slices=("modalty",)),
            "--gate-slices=modalty: no such dimension; there are: kind, modality. Did you mean",
        ),
        (
            Rules(benchmarks={"slak": gating.BenchmarkRule()}),
            "benchmarks.slak]: no benchmark 'slak'; known: slake, vqa-rad.",
        ),
        (
            Rules(benchmarks={"slake": gating.BenchmarkRule(measure="f1")}),
            "pyproject.toml: [tool.medvqa.gate.benchmarks.slake]: benchmark 'slake' has no measure 'f1'; it has: ",
        ),
        (
            Rules(benchmarks={"slake": gating.BenchmarkRule(technique="gd")}),
            "technique = 'gd', and this run asks by mc",
        ),
        (
            Rules(benchmarks={"slake": gating.BenchmarkRule(measure="macro_accuracy")}, slices=("modality",)),
            "measure = 'macro_accuracy' is an average over slices and has none of its own",
        ),
        (
            Rules(slice=(gating.SliceRule(benchmark="slake", dimension="organ", value="ct", margin=2),)),
            "[[tool.medvqa.gate.slice]] of slake: no dimension 'organ'; there are: kind, modality",
        ),
        (
            Rules(slice=(gating.SliceRule(benchmark="slake", dimension="modality", value="xray", margin=2),)),
            "no modality 'xray'; there are: ct, mri, oct, rare",
        ),
        (
            Rules(floor=(gating.Floor(benchmark="slake", measure="acuracy", at_least=0.5),)),
            "[[tool.medvqa.gate.floor]]: benchmark 'slake' has no measure 'acuracy'; it has: ",
        ),
        (
            Rules(floor=(gating.Floor(benchmark="vqa-rad", measure="accuracy", at_least=0.5),)),
            "has rules about 'vqa-rad', which this run does not ask. Name its data by --data=DIR",
        ),
    ],
)
def test_a_rule_about_what_does_not_exist_is_refused(rules: Rules, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepared(rules, None, MAIN)
    assert complaint in str(caught.value)


def test_one_technique_is_gated_and_must_be_named_where_there_are_several() -> None:
    prompts = {"mc": "slake/mc@1", "gd": "slake/gd@1"}
    run = run_json(benchmarks=changed(prompts=prompts), techniques=["mc", "gd"])
    with pytest.raises(UsageError) as caught:
        prepared(Rules(), run, replace(MAIN, run=run))
    assert "is asked by mc, gd, and one technique is gated" in str(caught.value)
    assert '[tool.medvqa.gate.benchmarks.slake] technique = "mc"' in str(caught.value)
    rules = Rules(benchmarks={"slake": gating.BenchmarkRule(technique="gd")})
    with pytest.raises(UsageError, match="baseline main has no answers to slake by technique 'gd'; it has: mc"):
        prepared(rules, run, replace(MAIN, run=run))
    both = MAIN.results + tuple(replace(each, technique="gd") for each in MAIN.results)
    gate = prepared(rules, run, replace(MAIN, run=run, results=both))
    assert gate is not None
    assert [target.technique for target in gate.targets] == ["gd"]


def test_a_gate_decides_on_a_brier_score_and_on_no_number_without_bounds() -> None:
    def sure(name: str, confidence: float) -> Side:
        results = [
            replace(each, answer=replace(each.answer, confidence=confidence if each.score.value else 1 - confidence))
            for each in side(name, model(300, 0.7)).results
            if each.answer is not None
        ]
        return Side(name, run_json(protocol={"confidence": True}), tuple(results))

    def by(measure: str, new: Side) -> gating.Verdict:
        return verdict(Rules(margin=2, benchmarks={"slake": gating.BenchmarkRule(measure=measure)}), new, main)

    main = sure("main", 0.9)
    assert by("brier_score", sure("new", 0.9)).outcome == "PASS"
    assert by("brier_score", sure("new", 0.5)).outcome == "FAIL"
    assert by("brier_score", sure("new", 1.0)).outcome == "PASS"
    with pytest.raises(UsageError, match="metric 'log_loss' is a mean of numbers, and the gate decides on percentages"):
        by("log_loss", main)


def test_a_baseline_with_errors_is_refused() -> None:
    failed = replace(MAIN.results[0], answer=None, score=Score(None, "error", (), "busy"))
    with pytest.raises(UsageError, match="1 of its questions of slake ended in error, the first: q0000"):
        prepared(Rules(), None, replace(MAIN, results=(failed, *MAIN.results[1:])))


def test_a_rule_about_a_benchmark_that_was_left_out_is_noted() -> None:
    rules = Rules(
        floor=tuple(gating.Floor(benchmark=name, measure="accuracy", at_least=0.5) for name in ("slake", "vqa-rad"))
    )
    gate = prepared(rules, run_json(options={"benchmark": ["slake"]}))
    assert gate is not None
    assert gate.notes == ("rules about vqa-rad are left out: --benchmark names others",)
    other = Rules(floor=rules.floor[1:])
    assert prepared(other, run_json(options={"benchmark": ["slake"]})) is None


def test_what_a_baseline_lacks_is_told_before_anything_is_asked() -> None:
    gate = prepared(Rules(), None, replace(MAIN, results=MAIN.results[:290]))
    assert gate is not None
    asked = [each.key.question for each in MAIN.results]
    assert gate.lacking(asked[:290]) is None
    lack = gate.lacking(asked)
    assert lack is not None
    assert lack.startswith("baseline main has no result for 10 of 300 questions of slake, the first: q0290.")


def test_a_baseline_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "reports/main").mkdir(parents=True)
    (tmp_path / "reports/main/run.json").write_text("{}")
    with pytest.raises(UsageError) as caught:
        gating.load(Rules(baseline=("reports/mian",)), tmp_path)
    assert "--baseline=reports/mian: no such run folder or baseline file; runs in " in str(caught.value)
    assert "reports: main. Did you mean 'main'? `medvqa baseline RUN -o FILE` writes a file" in str(caught.value)


# --- verdicts -----------------------------------------------------------------------------------------------


def test_identical_responses_pass_as_unchanged() -> None:
    found = verdict(Rules(), replace(MAIN, name="new"), MAIN)
    assert (found.outcome, found.exit_code) == ("PASS", 0)
    (entry,) = found.entries
    assert entry.unchanged
    assert entry.why == "no change: every response is the same as the baseline's"


def test_a_loss_within_the_margin_passes() -> None:
    new = side("new", model(300, 0.7, lambda i: i in (10, 20)))
    (entry,) = verdict(Rules(margin=5), new, MAIN).entries
    assert entry.outcome == "PASS"
    assert entry.rule == "slake: accuracy against main, margin 5"
    assert entry.low is not None
    assert entry.low > -0.05
    assert (entry.units, entry.items, entry.margin) == (300, 300, 0.05)


def by_patient(name: str, rights: Sequence[bool]) -> Side:
    """15 questions about each of 20 patients."""
    return side(name, rights, per_group=15)


def test_a_pass_names_the_declared_correlation_and_how_far_it_holds() -> None:
    main, new = by_patient("main", model(300, 0.7)), by_patient("new", flipped(2, 1))
    found = verdict(Rules(margin=5), new, main)
    (entry,) = found.entries
    assert (found.outcome, found.flip_icc, entry.groups) == ("PASS", 0.1, 20)
    assert headline(gating.Decided(verdict=found)) == "PASS against main, flip_icc 0.1"
    assert entry.holds_to is not None
    assert 0.1 < entry.holds_to < 1
    assert entry.why.endswith(f", up to a correlation of {int(100 * entry.holds_to) / 100:.2f} of the flips of a group")
    for icc, outcome in ((entry.holds_to - 0.01, "PASS"), (entry.holds_to + 0.01, "INCONCLUSIVE")):
        assert verdict(Rules(margin=5, flip_icc=icc), new, main).outcome == outcome
    far = verdict(Rules(margin=30), new, main)
    assert far.entries[0].holds_to == 1
    assert far.entries[0].why.endswith("is ruled out, at any correlation of the flips of a group")
    single = verdict(Rules(margin=5), side("new", flipped(2, 1)), MAIN)
    assert headline(gating.Decided(verdict=single)) == "PASS against main", "no group has two units"


def test_another_declared_correlation_is_a_change_of_the_rules() -> None:
    was, now = (prepared(Rules(flip_icc=icc), None, MAIN) for icc in (0.1, 0.0))
    assert was is not None
    assert now is not None
    assert gating.changed(was.stored(), now) == (
        "the rules were changed after the first answer: flip_icc was 0.1 and is 0.0"
    )
    rules = {k: v for k, v in was.stored().rules.items() if k != "flip_icc"}
    earlier = msgspec.structs.replace(was.stored(), rules=rules)
    assert gating.changed(earlier, was) is None, "rules of earlier versions have the default"


def test_a_loss_beyond_the_margin_fails() -> None:
    found = verdict(Rules(margin=2), side("new", model(300, 0.7, lambda i: i % 4 == 0)), MAIN)
    assert (found.outcome, found.exit_code) == ("FAIL", 10)
    (entry,) = found.entries
    assert entry.beyond
    assert entry.why.endswith("all of it more than the margin of 2")
    assert entry.adjusted is not None
    assert entry.adjusted <= 0.05
    assert (found.lost, found.gained) == (entry.lost, entry.gained)
    assert len(found.flips) == 5
    assert found.flips[0].baseline == ("A",)
    assert found.flips[0].new == ("B",)


def test_a_loss_that_cannot_be_told_is_inconclusive_and_says_what_could() -> None:
    new = side("new", flipped(lost=12, gained=10))
    found = verdict(Rules(margin=2), new, MAIN)
    assert (found.outcome, found.exit_code) == ("INCONCLUSIVE", 11)
    assert replace(found, inconclusive="pass").exit_code == 0
    (entry,) = found.entries
    assert entry.needed is not None
    assert entry.needed > 300
    least, most = re.search(
        r"([\d,]+) to ([\d,]+) questions would rule it out in 80 % of runs; there are 300", entry.why
    ).groups()  # type: ignore[union-attr]
    assert int(least.replace(",", "")) < entry.needed < int(most.replace(",", ""))
    assert not hasattr(entry, "passable"), "a margin that would pass invites to move the margin"


def test_a_baseline_at_chance_does_not_pass() -> None:
    guessing = side("main", model(300, 0.25))
    new = side("new", [r if i % 50 else not r for i, r in enumerate(model(300, 0.25))])
    (entry,) = verdict(Rules(margin=10), new, guessing).entries
    assert entry.outcome == "INCONCLUSIVE"
    assert "the baseline is not shown to be above chance (25.0 %)" in entry.why


def test_a_slice_fails_alone_and_small_ones_are_not_gated() -> None:
    # A third of the questions is worse by half of them: the whole, by a sixth, passes a wide margin.
    new = side("new", model(300, 0.7, lambda i: i >= 8 and i % 3 == 0 and i % 2 == 0))
    found = verdict(Rules(margin=25, slices=("modality",)), new, MAIN)
    by_slice = {entry.slice.get("modality"): entry for entry in found.entries}
    assert {name: entry.outcome for name, entry in by_slice.items()} == {
        None: "PASS",
        "ct": "FAIL",
        "mri": "PASS",
        "oct": "PASS",
        "rare": "NOT GATED",
    }
    assert found.outcome == "FAIL"
    assert by_slice["rare"].why == "8 questions in 8 groups; 30 in 10 are needed"
    assert [each.slice for each in found.worst] == [{"modality": "ct"}]


def test_a_slice_of_a_baseline_at_chance_does_not_pass_a_margin_of_its_own() -> None:
    """The whole is well above chance, and one slice of it guesses, of which one question in four is right."""
    guessing = side("main", [r if i % 3 else i % 12 == 0 for i, r in enumerate(model(300, 0.9))])
    new = replace(side("new", [bool(r.score.value) for r in guessing.results]), name="new")
    new = replace(new, results=tuple(replace(r, answer=Answer(r.answer.text + " ")) for r in new.results if r.answer))
    margins = tuple(
        gating.SliceRule(benchmark="slake", dimension="modality", value=value, margin=30) for value in ("ct", "mri")
    )
    found = verdict(Rules(margin=30, slice=margins), new, guessing)
    outcomes = {entry.slice.get("modality"): entry for entry in found.entries}
    assert {name: entry.outcome for name, entry in outcomes.items()} == {
        None: "PASS",
        "ct": "INCONCLUSIVE",
        "mri": "PASS",
    }
    assert "the baseline is not shown to be above chance (25.0 %)" in outcomes["ct"].why
    assert found.outcome == "INCONCLUSIVE"


def test_a_slice_with_a_margin_of_its_own_is_a_rule_and_no_guard() -> None:
    new = side("new", flipped(lost=6, gained=6))
    rules = Rules(slice=(gating.SliceRule(benchmark="slake", dimension="modality", value="ct", margin=1),))
    found = verdict(replace(rules, slices=("modality",), margin=20), new, MAIN)
    kinds = {entry.slice.get("modality"): (entry.kind, entry.outcome) for entry in found.entries}
    assert kinds["ct"] == ("slice", "INCONCLUSIVE")
    assert kinds["mri"] == ("slice guard", "PASS")
    assert kinds[None] == ("baseline", "PASS")


@pytest.mark.parametrize(
    ("floor", "outcome"),
    [
        ({"at_least": 0.60}, "PASS"),
        ({"at_least": 0.69}, "INCONCLUSIVE"),
        ({"at_least": 0.80}, "FAIL"),
        ({"at_least": 0.69, "point": True}, "PASS"),
        ({"at_least": 0.71, "point": True}, "FAIL"),
        ({"at_most": 0.80}, "PASS"),
        ({"at_most": 0.71}, "INCONCLUSIVE"),
        ({"at_most": 0.60}, "FAIL"),
    ],
)
def test_floors(floor: dict[str, Any], outcome: str) -> None:
    rules = Rules(floor=(gating.Floor(benchmark="slake", measure="accuracy", **floor),))
    found = verdict(rules, replace(MAIN, name="new"))
    (entry,) = found.entries
    assert (entry.outcome, found.outcome) == (outcome, outcome)
    assert entry.kind == ("point" if floor.get("point") else "floor")
    assert entry.value == pytest.approx(0.7)


def test_a_floor_of_a_macro_average() -> None:
    rules = Rules(floor=(gating.Floor(benchmark="slake", measure="macro_accuracy", at_least=0.3),))
    found = verdict(rules, replace(MAIN, name="new"))
    assert found.outcome == "PASS"
    # Bounds are those of the mean of slices, whose units vary less than right or wrong ones.
    (tabled,) = metrics.tables(MAIN.results, [metrics.macro_accuracy("modality")], ("modality",))
    mean = statistics.clustered(statistics.mean_over(statistics.ratios(tabled.table()), tabled.over or ()))
    low, high = statistics.bounds(mean, binary=False)
    (entry,) = found.entries
    assert (entry.low, entry.high) == (pytest.approx(low[0]), pytest.approx(high[0]))


def test_looks_divide_the_level() -> None:
    new = side("new", flipped(lost=14, gained=4))
    once, often = (verdict(Rules(margin=2, looks=looks), new, MAIN) for looks in (1, 50))
    assert once.outcome == "FAIL"
    assert often.outcome == "INCONCLUSIVE"
    assert often.level == pytest.approx(1 - 0.05 / 50)


def test_what_is_missing_blocks_a_verdict() -> None:
    new = replace(MAIN, name="new")
    found = verdict(Rules(), replace(new, results=new.results[1:]), MAIN, missing=["slake/q0000", "other/q1"])
    assert (found.outcome, found.exit_code, found.blockers) == (
        None,
        1,
        ("unfinished: 299 of 301 questions have a result", "slake/q0000: no result"),
    )


def test_errors_block_a_verdict() -> None:
    failed = replace(MAIN.results[3], answer=None, score=Score(None, "error", (), "busy"))
    for rules, baselines in (
        (Rules(), [MAIN]),
        (Rules(floor=(gating.Floor(benchmark="slake", measure="accuracy", at_least=0.1),)), []),
    ):
        new = replace(MAIN, name="new", results=(failed, *(r for r in MAIN.results if r.item.id != "q0003")))
        found = verdict(rules, new, *baselines)
        assert (found.outcome, found.blockers) == (None, ("slake/q0003: busy",))


def part(name: str, day: int, hour: int = 10, **more: Any) -> dict[str, Any]:
    return {"name": name, "shard": None, "started": f"2026-01-{day:02}T{hour:02}:00:00+00:00", **more}


def test_a_part_that_is_the_baseline_blocks_a_verdict() -> None:
    began = part("main", 2)["started"]
    base = replace(MAIN, run=record(MAIN.run, name="main", started=began))
    for merged in ([part("main", 2), part("x", 2)], [part("x", 2), {**part("y", 2), "merged": [part("main", 2)]}]):
        found = verdict(Rules(), replace(MAIN, name="new", run=record(MAIN.run, merged=merged)), base)
        assert found.outcome is None
        assert found.blockers == ("run main is a part of this run and the baseline: merge without it",)
    other = replace(MAIN, name="new", run=record(MAIN.run, merged=[part("main", 3), part("x", 2)]))
    assert verdict(Rules(), other, base).outcome == "PASS", "another run of that name"
    base = replace(base, run=record(base.run, merged=[part("a", 1), part("b", 1)]))
    found = verdict(
        Rules(),
        replace(MAIN, name="new", run=record(MAIN.run, merged=[part("a", 1), part("c", 1)])),
        base,
    )
    assert found.blockers == ("run a is a part of this run and baseline main: merge without it",)
    assert verdict(Rules(), replace(base, name="copy"), base).outcome == "PASS", "the same run"


@pytest.mark.parametrize(
    ("about", "identified"),
    [
        ({"model": {"name": "m", "fingerprint": None}}, False),
        ({"config": {"backend": "openai"}}, False),
        ({"config": {"backend": "openai", "options": {"revision": "r1"}}}, True),
        ({"config": {"backend": "hf"}}, True),
    ],
)
def test_parts_of_a_model_that_nothing_identifies_are_asked_within_a_day(
    about: dict[str, Any], identified: bool
) -> None:
    def decided(*merged: dict[str, Any]) -> gating.Verdict:
        new = replace(MAIN, name="new", run=record(MAIN.run, **about, merged=list(merged)))
        return verdict(Rules(), new, MAIN)

    found = decided(part("b", 3, 11), part("a", 2))
    assert found.outcome == ("PASS" if identified else None)
    if not identified:
        (line,) = found.blockers
        assert "more than 24 hours apart, a at 2026-01-02 10:00 and b at 2026-01-03 11:00 UTC. Declare a" in line
    found = decided(part("a", 2), part("b", 3))
    assert found.outcome == "PASS"
    told = "its parts were asked within a day, a at 2026-01-02 10:00 and b at 2026-01-03 10:00 UTC"
    assert any(told in note for note in found.notes) is not identified
    assert decided(part("a", 2), {"name": "b", "started": "yesterday"}).outcome == "PASS"


def test_what_the_baseline_does_not_have_blocks_a_verdict() -> None:
    found = verdict(Rules(), replace(MAIN, name="new"), replace(MAIN, results=MAIN.results[2:]))
    assert found.outcome is None
    assert found.blockers == ("slake/q0000: not in baseline main", "slake/q0001: not in baseline main")


# --- units that leave ---------------------------------------------------------------------------------------


def left(found: gating.Verdict) -> list[tuple[str, str]]:
    """The rules that units of somebody must count, and what became of them."""
    return [(entry.rule, entry.why) for entry in found.entries if entry.kind == "units"]


ASK_ALL = "Ask all, or decide on a part: --require=shared"


@pytest.mark.parametrize("require", ["baseline", "all"])
def test_questions_that_were_not_asked_give_no_pass(require: Any) -> None:
    found = verdict(Rules(require=require), replace(MAIN, name="new", results=MAIN.results[:100]), MAIN)
    assert (found.outcome, found.exit_code) == ("INCONCLUSIVE", 11)
    assert left(found)[0] == (
        "slake: accuracy on every question of main",
        f"100 of 300 questions count here: 200 not asked. {ASK_ALL}",
    )
    assert found.entries[0].outcome == "PASS"
    assert replace(found, inconclusive="pass").exit_code == 11, "that is about what the data leave open"


def test_a_part_is_decided_where_the_rules_say_so_and_the_number_stands_beside_the_verdict() -> None:
    new = replace(MAIN, name="new", results=MAIN.results[:100])
    for rules in (
        Rules(require="shared"),
        Rules(require="all", benchmarks={"slake": gating.BenchmarkRule(require="shared")}),
    ):
        found = verdict(rules, new, MAIN)
        assert found.outcome == "PASS"
        assert not left(found)
        assert found.entries[0].units == 100
        assert headline(gating.Decided(verdict=found)) == ("PASS against main on 100 of 300 questions of main (slake)")


def test_a_shown_loss_fails_though_questions_were_not_asked() -> None:
    worse = side("new", model(300, 0.7, lambda i: i % 4 == 0))
    found = verdict(Rules(), replace(worse, results=worse.results[:200]), MAIN)
    assert (found.outcome, found.exit_code) == ("FAIL", 10)
    assert left(found)


def test_a_run_of_more_than_the_baseline_was_asked_of_needs_a_whole_data_set_only_by_all() -> None:
    run = run_json(benchmarks=changed(questions={"mc": 400}))
    new, main_ = replace(MAIN, name="new", run=run), replace(MAIN, run=run)
    assert verdict(Rules(), new, main_).outcome == "PASS"
    found = verdict(Rules(require="all"), new, main_)
    assert left(found) == [
        ("slake: every question of the data set", f"300 of 400 questions count here: 100 not asked. {ASK_ALL}")
    ]


def test_a_benchmark_that_the_user_left_out_leaves_the_baseline() -> None:
    two = both("main", model(300, 0.7))
    new = replace(MAIN, name="new", run=record(MAIN.run, options={"benchmark": ["slake"]}))
    found = verdict(Rules(), new, two)
    assert found.outcome == "INCONCLUSIVE"
    assert left(found) == [
        ("vqa-rad: every question of main", f"0 of 300 questions count here: 300 not asked. {ASK_ALL}")
    ]
    shared = Rules(benchmarks={"vqa-rad": gating.BenchmarkRule(require="shared")})
    assert verdict(shared, new, two).outcome == "PASS"


def pairs(name: str, said: Callable[[int], tuple[str, str]]) -> Side:
    """Sixty pairs; a pair is right if "AB" is said of it."""
    results = []
    for n in range(60):
        for place, (letter, text) in enumerate(zip("AB", said(n), strict=True)):
            item = Item(f"p{n:02}/{place}", "slake", "single_choice", f"{n}?", OPTIONS, (letter,), pair_id=f"p{n:02}")
            answer = Answer(text)
            results.append(Result(name, item, "0" * 64, answer, scoring.score_single_choice(item, answer)))
    return Side(name, run_json(benchmarks=changed(questions={"mc": 120})), tuple(results))


CONFUSION = Rules(margin=20, benchmarks={"slake": gating.BenchmarkRule(measure="confusion")})


@pytest.mark.parametrize(("text", "reason"), [("I cannot assist with that.", "refused"), ("?", "unparsed")])
def test_pairs_that_a_measure_leaves_out_give_no_pass(text: str, reason: str) -> None:
    main_ = pairs("main", lambda n: ("A", "A" if n % 5 == 0 else "B"))
    new = pairs("new", lambda n: (text, "B") if n % 5 == 0 else ("A", "B"))
    rules = replace(CONFUSION, baseline=("main",))
    known = {"slake": replace(KNOWN["slake"], metrics=(metrics.accuracy, metrics.set_accuracy, metrics.confusion))}
    prepared_ = gating.prepare(rules, [main_], new.run, known)
    assert prepared_ is not None
    found = gating.decide(prepared_, new)
    assert found.outcome == "INCONCLUSIVE"
    assert left(found) == [
        ("slake: confusion on every pair of main", f"48 of 60 pairs count here: 12 {reason}"),
    ]
    # What the baseline left out itself may stay out.
    back = gating.prepare(replace(rules, baseline=("new",)), [replace(new, name="new")], main_.run, known)
    assert back is not None
    assert not left(gating.decide(back, main_))


def test_a_half_of_a_pair_is_no_pair() -> None:
    main_ = pairs("main", lambda n: ("A", "A" if n % 5 == 0 else "B"))
    known = {"slake": replace(KNOWN["slake"], metrics=(metrics.accuracy, metrics.set_accuracy, metrics.confusion))}
    made = gating.prepare(replace(CONFUSION, baseline=("main",)), [main_], main_.run, known)
    assert made is not None
    found = gating.decide(made, replace(main_, name="new", results=main_.results[1:]))
    assert left(found)[0][1].startswith("59 of 60 pairs count here: 1 not asked")


def test_questions_that_moved_to_another_slice_give_no_pass() -> None:
    moved = tuple(
        replace(each, item=replace(each.item, tags={"modality": ("mri",)}))
        if each.item.tags["modality"] == ("ct",)
        else each
        for each in MAIN.results
    )
    new = replace(MAIN, name="new", results=moved)
    assert verdict(Rules(), new, MAIN).outcome == "PASS"
    found = verdict(Rules(slices=("modality",)), new, MAIN)
    assert found.outcome == "INCONCLUSIVE"
    number = len([each for each in MAIN.results if each.item.tags["modality"] == ("ct",)])
    assert left(found) == [
        (
            "slake: modality on every question of main",
            f"{300 - number} of 300 questions count here: {number} in another modality than in main",
        )
    ]


def test_a_floor_without_a_baseline_is_about_the_whole_data_set() -> None:
    rules = Rules(floor=(gating.Floor(benchmark="slake", measure="accuracy", at_least=0.5, point=True),))
    run = run_json(benchmarks=changed(questions={"mc": 300}))
    whole = replace(MAIN, run=run)
    assert verdict(rules, whole).outcome == "PASS"
    part = replace(whole, results=MAIN.results[:100])
    found = verdict(rules, part)
    assert found.outcome == "INCONCLUSIVE"
    assert left(found)[0][0] == "slake: every question of the data set"
    assert verdict(replace(rules, require="shared"), part).outcome == "PASS"


def test_pairs_that_are_refused_do_not_meet_a_floor() -> None:
    known = {"slake": replace(KNOWN["slake"], metrics=(metrics.accuracy, metrics.set_accuracy, metrics.confusion))}
    rules = Rules(floor=(gating.Floor(benchmark="slake", measure="confusion", at_most=0.1, point=True),))
    new = pairs("new", lambda n: ("I cannot assist with that.", "B") if n % 5 == 0 else ("A", "B"))
    made = gating.prepare(rules, [], new.run, known)
    assert made is not None
    found = gating.decide(made, new)
    assert found.outcome == "INCONCLUSIVE"
    assert left(found) == [
        ("slake: confusion on every pair of this run", "48 of 60 pairs count here: 12 refused"),
    ]


def test_what_was_not_selected_is_not_told_of_a_run_without_a_verdict() -> None:
    new = replace(MAIN, name="new", results=MAIN.results[:2])
    found = verdict(Rules(), new, MAIN, missing=[f"slake/{each.item.id}" for each in MAIN.results[2:]])
    assert found.outcome is None
    assert found.entries == ()


def sampled(name: str, rights: Sequence[bool], *samples: int) -> Side:
    results = tuple(r for n in samples for r in side(name, rights, sample=n).results)
    return Side(name, run_json(repeat=len(samples) if samples != (0,) else None), results)


@pytest.mark.parametrize(("new", "base"), [((0,), (1, 2, 3)), ((1, 2, 3), (0,)), ((1, 2, 3), (1, 2, 3, 4, 5))])
def test_samples_of_an_answer_are_one_question(new: tuple[int, ...], base: tuple[int, ...]) -> None:
    rights = model(300, 0.7, lambda i: i in (11, 21))
    found = verdict(Rules(margin=5), sampled("new", rights, *new), sampled("main", model(300, 0.7), *base))
    assert found.outcome == "PASS"
    assert found.entries[0].units == 300
    assert found.entries[0].difference == pytest.approx(-2 / 300)
    assert found.notes == (
        f"samples of each question: {len(new)} in new and {len(base)} in main; their means are compared",
    )
    # Of two samples that the new run has not, neither is left out: the mean is that of all five.
    lucky = sampled("main", [False] * 300, *base)
    lucky = replace(lucky, results=lucky.results[:-300] + side("main", [True] * 300, sample=base[-1]).results)
    again = verdict(Rules(margin=5), sampled("new", rights, *new), lucky)
    assert again.entries[0].baseline_value == pytest.approx(1 / len(base))


def test_a_part_of_repeated_questions_counts_questions() -> None:
    new = sampled("new", model(100, 0.7), 1, 2)
    found = verdict(Rules(), new, sampled("main", model(300, 0.7), 1, 2))
    assert left(found)[0][1].startswith("100 of 300 questions count here: 200 not asked")


TWO = dict.fromkeys(("slake", "vqa-rad"), ABOUT)


def both(name: str, rights: Sequence[bool]) -> Side:
    parts = [side(name, rights, benchmark=benchmark).results for benchmark in TWO]
    return Side(name, run_json(benchmarks=TWO), (*parts[0], *parts[1]))


def test_a_measure_of_which_nothing_was_asked_is_inconclusive() -> None:
    main_ = both("main", model(300, 0.7))
    multiple = Item("m1", "vqa-rad", "multiple_response", "?", OPTIONS, ("A", "B"))
    more = replace(main_.results[0], item=multiple)
    new = replace(main_, name="new", results=(*main_.results[:300], more))
    found = verdict(Rules(margin=30), new, replace(main_, results=(*main_.results, more)))
    assert found.outcome == "INCONCLUSIVE"
    assert len(left(found)) == 1
    assert [(entry.rule, entry.outcome, entry.why) for entry in found.entries[1:] if entry.kind != "units"] == [
        (
            "vqa-rad: accuracy against main, margin 30",
            "INCONCLUSIVE",
            "none of its questions was asked",
        )
    ]


def test_a_slice_of_which_nothing_was_asked_is_inconclusive() -> None:
    rules = Rules(slice=(gating.SliceRule(benchmark="slake", dimension="modality", value="ct", margin=1),))
    chosen = tuple(each for each in MAIN.results if each.item.tags["modality"] != ("ct",))
    found = verdict(rules, replace(MAIN, name="new", results=chosen), MAIN)
    assert len(left(found)) == 1
    assert [(entry.slice, entry.outcome, entry.why) for entry in found.entries if entry.kind != "units"] == [
        ({}, "PASS", "no change: every response is the same as the baseline's"),
        ({"modality": "ct"}, "INCONCLUSIVE", "none of its questions was asked"),
    ]
    assert found.outcome == "INCONCLUSIVE"


def test_a_benchmark_of_which_nothing_was_asked_gives_no_pass() -> None:
    main_ = both("main", model(300, 0.7))
    found = verdict(Rules(), replace(main_, name="new", results=main_.results[:300]), main_)
    assert found.outcome == "INCONCLUSIVE"
    assert left(found)[0][0] == "vqa-rad: accuracy on every question of main"
    assert verdict(Rules(require="shared"), replace(main_, results=main_.results[:300]), main_).outcome == "PASS"
    assert "not gated, as none of its questions was asked: vqa-rad" in found.notes
    nothing = verdict(Rules(), replace(main_, name="new", results=()), main_)
    assert (nothing.outcome, nothing.exit_code) == (None, 1)
    assert nothing.blockers == ("no rule is about what was asked",)


def test_what_a_baseline_found_and_did_not_ask_blocks_where_it_is_asked() -> None:
    new, main_ = both("new", model(60, 0.7)), both("main", model(60, 0.7))
    main_ = replace(main_, results=main_.results[:60])
    found = verdict(Rules(), new, main_)
    assert found.outcome is None
    assert found.blockers[0] == "vqa-rad: baseline main was asked none of its questions"
    gate = prepared(Rules(), new.run, main_)
    assert gate is not None
    assert gate.lacking([each.key.question for each in main_.results]) is None


def test_a_benchmark_of_another_technique_is_no_target() -> None:
    run = run_json(benchmarks={"slake": ABOUT, "vqa-rad": {**ABOUT, "prompts": {}}})
    gate = prepared(Rules(), run, replace(MAIN, run=run))
    assert gate is not None
    assert [target.benchmark.name for target in gate.targets] == ["slake"]


JUDGE = {
    "config": {"name": "", "backend": "openai", "argument": "big", "options": {}},
    "settings": {"gap": 3, "extract": False, "rules_first": False},
}


def by_judge(name: str, identity: str | None, **about: Any) -> Side:
    told = {} if identity is None else {"judge": identity}
    run = run_json(
        judge={**JUDGE, **({} if identity is None else {"identity": identity}), **about},
        benchmarks=changed(signature={**ABOUT["signature"], "judging": "score@1", **told}),
    )
    return replace(judged(name, model(300, 0.7)), run=run)


def test_the_judge_is_compared_once_it_is_known() -> None:
    main_ = by_judge("main", "big@1", fingerprint="f")
    gate = prepared(Rules(), by_judge("new", None).run, main_)
    assert gate is not None
    assert gating.decide(gate, by_judge("new", "big@1")).outcome == "PASS"
    other = gating.decide(gate, by_judge("new", "big@2"))
    assert other.outcome is None
    assert other.blockers == ("slake: the judge is big@2 in new and big@1 in main",)
    with pytest.raises(UsageError, match="the judge is big@2 in this run and big@1 in main"):
        prepared(Rules(), by_judge("new", "big@2").run, main_)
    with pytest.raises(UsageError, match="the judge is not recorded in this run and big@1 in main"):
        prepared(Rules(), replace(by_judge("new", None), run=record(by_judge("new", None).run, judge=None)).run, main_)


def test_a_judge_without_a_fingerprint_is_told_by_its_config_before_anything_is_asked() -> None:
    main_ = by_judge("main", "big@1", fingerprint=None)
    run = by_judge("new", None).run
    assert prepared(Rules(), run, main_) is not None
    run = record(run, judge={**JUDGE, "config": {**JUDGE["config"], "argument": "small"}})
    with pytest.raises(UsageError, match="the judge's argument is 'small' in this run and 'big' in main"):
        prepared(Rules(), run, main_)
    assert prepared(Rules(), run, by_judge("main", "big@1", fingerprint="f")) is not None


def test_several_baselines_each_have_their_rule() -> None:
    worse = side("worse", model(300, 0.7, lambda i: i % 3 == 0))
    found = verdict(Rules(), worse, replace(worse, name="last"), MAIN)
    assert [(entry.baseline, entry.outcome) for entry in found.entries] == [("last", "PASS"), ("main", "FAIL")]
    assert found.outcome == "FAIL"


def judged(name: str, rights: Sequence[bool]) -> Side:
    return side(name, rights, judgement=Judgement("judge", "score@1", "score", ("1",)))


def test_a_judge_makes_the_margin_smaller_or_is_warned_of() -> None:
    new = judged("new", flipped(lost=4, gained=2))
    main_ = judged("main", model(300, 0.7))
    blind = verdict(Rules(margin=5), new, main_)
    assert "no human labels say how reliably" in blind.notes[0]
    assert "favour PASS" in blind.notes[0]
    assert blind.entries[0].margin == 0.05
    labelled = verdict(Rules(margin=5, judge_reliability=0.2), new, main_)
    assert labelled.entries[0].margin == pytest.approx(0.01)
    assert labelled.entries[0].asked_margin == 0.05
    assert (blind.outcome, labelled.outcome) == ("PASS", "INCONCLUSIVE")
    by_rule = verdict(Rules(margin=5, judge_reliability=0.2), side("new", model(300, 0.7, lambda i: i == 9)), MAIN)
    assert by_rule.entries[0].margin == 0.05, "what a rule scored has no judge's error"


def test_a_sheet_says_how_reliable_the_judge_is(tmp_path: Path) -> None:
    new, main_ = judged("new", flipped(lost=4, gained=2)), judged("main", model(300, 0.7))
    path = tmp_path / "anna.csv"
    rows = [(answer_id(r), 1 - r.score.value if n % 10 == 0 else r.score.value) for n, r in enumerate(main_.results)]
    path.write_text("\n".join(["id,score", *(f"{name},{value:g}" for name, value in rows)]))
    found = verdict(Rules(margin=5, judge_sheet=(str(path),)), new, main_)
    assert "300 of 300 answers that people scored. The lower end counts" in found.notes[0]
    assert "margins are multiplied by its reliability, 0." in found.notes[1]
    assert found.entries[0].asked_margin == 0.05
    assert 0.6 * 0.05 < found.entries[0].margin < 0.8 * 0.05, "90 % of both classes are right: the share is 0.8"
    gate = gating.prepare(Rules(baseline=("main",), judge_sheet=(str(path),)), [main_], new.run, KNOWN)
    assert gate is not None
    stored = gate.stored().rules
    assert stored["benchmarks"]["slake"]["judge_reliability"] * 0.05 == pytest.approx(found.entries[0].margin)
    again = gating.from_json(stored, "run.json")
    assert verdict(replace(again, margin=5), new, main_).entries[0].margin == found.entries[0].margin


def test_less_of_a_rate_is_better() -> None:
    rules = Rules(benchmarks={"slake": gating.BenchmarkRule(measure="unparsed_rate")})
    mumbling = Score(0.0, "unparsed", (), "")
    worse = replace(
        MAIN,
        name="new",
        results=tuple(
            replace(r, answer=Answer("?"), score=mumbling) if i % 3 == 0 else r for i, r in enumerate(MAIN.results)
        ),
    )
    found = verdict(replace(rules, slices=("modality",)), worse, MAIN)
    assert found.outcome == "FAIL"
    # What is shown is the measure itself, which rose; what became worse is lost.
    entry = found.entries[0]
    assert entry.better == "lower"
    assert (entry.value, entry.baseline_value) == (pytest.approx(1 / 3), 0)
    assert entry.difference == pytest.approx(1 / 3)
    assert entry.low is not None
    assert entry.high is not None
    assert 0.25 < entry.low < 1 / 3 < entry.high < 0.4
    assert entry.beyond
    assert (entry.gained, entry.lost) == (0, 100)
    assert [(each.slice["modality"], each.difference, each.better) for each in found.worst] == [("ct", 1.0, "lower")]
    (ct,) = (each for each in found.entries if each.slice.get("modality") == "ct")
    assert (ct.value, ct.difference, ct.better) == (1, 1, "lower")
    assert entry.why == "a rise of 29.0 to 38.0 points is shown, all of it more than the margin of 2"
    fewer = verdict(replace(rules, margin=5), replace(MAIN, name="new"), replace(worse, name="main"))
    assert fewer.entries[0].why == "a fall of 29.0 to 38.0 points is shown; a rise of 5 points or more is ruled out"
    assert (fewer.entries[0].difference, fewer.entries[0].gained) == (pytest.approx(-1 / 3), 100)


@examples(5)
@given(st.randoms(use_true_random=False))
def test_the_order_of_results_does_not_matter(random: Any) -> None:
    new = side("new", model(60, 0.7, lambda i: i % 7 == 0))
    main_ = side("main", model(60, 0.7))
    mixed = list(new.results)
    random.shuffle(mixed)
    assert verdict(Rules(), replace(new, results=tuple(mixed)), main_) == verdict(Rules(), new, main_)


# --- rules that change, and attempts ------------------------------------------------------------------------


def written(folder: Path, each: Side, **about: Any) -> Path:
    recorder = Recorder(folder)
    for line in each.results:
        recorder.append(run_folder.encode(line))
    recorder.close()
    run_folder.write_json(folder / RUN, {**each.run.as_json(), "name": folder.name, **about})
    return folder


def test_rules_that_were_changed_after_the_first_answer_show() -> None:
    gate = prepared(Rules(margin=2), None, MAIN)
    assert gate is not None
    stored = gate.stored()
    assert gating.changed(stored, gate) is None
    assert gating.changed(None, gate) == (
        "the rules were not stored before the first answer: decided when the answers were known, they could have been "
        "chosen to fit; --baseline, typed with the run, stores them before"
    )
    laxer = prepared(Rules(margin=9), None, replace(MAIN, name="other", results=MAIN.results[:200]))
    assert laxer is not None
    was, now = (gating.digest(MAIN.run, each) for each in (MAIN.results, MAIN.results[:200]))
    assert gating.changed(stored, laxer) == (
        "the rules were changed after the first answer: margin was 2.0 and is 9.0; "
        f"the baseline was main ({was}) and is other ({now})"
    )
    anew = prepared(Rules(margin=2), None, replace(MAIN, results=MAIN.results[:200]))
    assert anew is not None
    assert gating.changed(stored, anew) == (
        f"the rules were changed after the first answer: the baseline was main ({was}) and is main ({now}) "
        "(scored anew, or other benchmarks of it)"
    )


def test_a_folder_and_its_baseline_file_are_one_baseline(tmp_path: Path) -> None:
    folder = written(tmp_path / "reports/main", MAIN)
    baseline_file.write_baseline(tmp_path / "with", *_read(folder))
    baseline_file.write_baseline(tmp_path / "without", *_read(folder), responses=False)
    rules = Rules(baseline=("reports/main", "with", "without"))
    sides = gating.load(rules, tmp_path)
    assert len({gating.digest(each.run, each.results) for each in sides}) == 1
    assert [each.name for each in sides] == ["main"] * 3
    for each in sides:
        found = verdict(Rules(), replace(MAIN, name="new"), each)
        assert found.entries[0].unchanged


def test_flips_against_a_baseline_without_responses_name_letters_and_no_digests(tmp_path: Path) -> None:
    """Of what was read from an answer, such a file has the letters of options; of anything else, a digest."""
    saying = replace(MAIN.results[1], answer=Answer("the liver, as far as can be told " * 9))
    said = saying.answer
    assert said is not None
    saying = replace(saying, score=Score(1.0, "correct", (said.text,), ""))
    whole = replace(MAIN, results=(MAIN.results[0], saying, *MAIN.results[2:]))
    baseline_file.write_baseline(tmp_path / "without", record(whole.run, name="main"), whole.results, responses=False)
    (baseline,) = gating.load(Rules(baseline=("without",)), tmp_path)
    wrong = replace(MAIN.results[1], answer=Answer("no " * 90), score=Score(0.0, "wrong", ("no " * 90,), ""))
    right = next(i for i, each in enumerate(whole.results) if each.score.value and i != 1)
    new = [*whole.results]
    new[1], new[right] = wrong, replace(result(right, False), item=whole.results[right].item)
    found = verdict(Rules(), replace(MAIN, name="new", results=tuple(new)), baseline)
    flips = {flip.unit: flip for flip in found.flips}
    assert (flips["q0001"].baseline, flips["q0001"].new) == (("correct",), (("no " * 90)[:59] + "…",))
    assert (flips[f"q{right:04}"].baseline, flips[f"q{right:04}"].new) == (("A",), ("B",))
    told = verdict(Rules(), replace(MAIN, name="new", results=tuple(new)), whole)
    assert {flip.unit: flip for flip in told.flips}["q0001"].baseline == (said.text[:59] + "…",)


def _read(folder: Path) -> tuple[dict[str, Any], tuple[Result, ...]]:
    return run_record.read_run(folder), run_folder.read(folder).results


def passed(gate: gating.Gate, folder: Path, side: Side = MAIN) -> None:
    """Write a verdict into a run folder."""
    decided = gating.decided(gate, folder, side)
    gating.write(folder, replace(decided, verdict=replace(decided.verdict, outcome="PASS")))


def test_attempts_are_verdicts_against_one_baseline_among_the_runs_beside(tmp_path: Path) -> None:
    gate = prepared(Rules(), None, MAIN)
    assert gate is not None
    stored = {
        **gate.stored().as_json(),
        "baselines": [{"name": "main", "path": "x", "digest": gating.digest(MAIN.run, MAIN.results)}],
    }
    for name in ("one", "two"):
        passed(gate, written(tmp_path / "reports" / name, MAIN, gate=stored))
    written(tmp_path / "reports/other", MAIN)
    written(tmp_path / "reports/promised", MAIN, gate=stored)
    blocked = written(tmp_path / "reports/blocked", MAIN, gate=stored)
    decided = gating.decided(gate, blocked, MAIN)
    gating.write(blocked, replace(decided, verdict=replace(decided.verdict, outcome=None, blockers=("an error",))))
    (tmp_path / "reports/damaged").mkdir()
    (tmp_path / "reports/damaged/run.json").write_text("{")
    assert gating.decided(gate, tmp_path / "reports/one", MAIN).attempts == (2,)


def test_shares_and_parts_are_one_attempt_with_what_was_merged_and_asking_anew_is_another(tmp_path: Path) -> None:
    gate = prepared(Rules(), None, MAIN)
    assert gate is not None
    baselines = [{"name": "main", "path": "x", "digest": gating.digest(MAIN.run, MAIN.results)}]
    met = {"gate": {**gate.stored().as_json(), "baselines": baselines}}
    for number in (1, 2):
        written(tmp_path / f"reports/s{number}", MAIN, **met, options={"shard": f"{number}/2"})
    passed(gate, written(tmp_path / "reports/part", MAIN, **met))
    merged = {"merged": [{"name": name, "shard": None} for name in ("s1", "s2", "part")]}
    folder = written(tmp_path / "reports/all", MAIN, **met, **merged)
    all_ = replace(MAIN, run=record(MAIN.run, **merged))
    assert gating.decided(gate, folder, all_).attempts == (1,)
    passed(gate, folder, all_)
    sessions = [{"options": {"fresh": fresh}} for fresh in (True, False, True, True)]
    fresh = replace(MAIN, run=record(MAIN.run, sessions=sessions))
    passed(gate, written(tmp_path / "reports/fr", fresh, **met), fresh)
    assert gating.decided(gate, tmp_path / "reports/fr", fresh).attempts == (4,), "itself, twice anew, and `all`"
    assert gating.decided(gate, folder, all_).attempts == (4,)


def test_a_verdict_is_read_as_it_was_written(tmp_path: Path) -> None:
    gate = prepared(Rules(slices=("modality",)), None, MAIN)
    assert gate is not None
    (tmp_path / "new").mkdir()
    decided = gating.decided(gate, tmp_path / "new", side("new", model(300, 0.7, lambda i: i % 5 == 0)))
    gating.write(tmp_path / "new", decided)
    assert gating.read(tmp_path / "new") == decided
    assert gating.read(tmp_path) is None
    (tmp_path / "new" / gating.FILE).write_text("{}")
    with pytest.raises(UsageError, match=r"gate\.json cannot be read: .*Decide anew: medvqa gate"):
        gating.read(tmp_path / "new")


# --- designs ---


def paired(n: int, first: str, second: str) -> list[Result]:
    """Pair n, about one of ten patients: what is said to its two questions, of which the keys are A and B."""
    made = []
    for key, text in (("A", first), ("B", second)):
        item = Item(
            id=f"p{n}/{key}",
            benchmark="slake",
            kind="single_choice",
            question=f"{n}?",
            options={"A": "yes", "B": "no"},
            answers=(key,),
            tags={"modality": ("ct",)},
            pair_id=f"p{n}",
            cluster_id=f"c{n % 10}",
        )
        score = Score(float(text == key), "correct" if text == key else "wrong", (text,), "")
        score = score if text else Score(0.0, "unparsed")
        made.append(Result("new", item, "0" * 64, Answer(text), score))
    return made


def test_answers_do_not_choose_what_is_gated() -> None:
    """`confusion` counts pairs of valid answers: a model that mumbles would else decide by which rules it is judged."""
    clear = [each for n in range(40) for each in paired(n, "A", "B")]
    mumbled = [each for n in range(40) for each in paired(n, "A" if n < 3 else "", "A")]
    for metric in (metrics.confusion, metrics.set_accuracy, metrics.individual_accuracy):
        one, other = (designs(results, metric, ("modality",)) for results in (clear, mumbled))
        assert one == other
        assert one[()] == one[(("modality", "ct"),)]
        assert (one[()].units, one[()].groups, one[()].unit) == (40, 10, "pair")
        assert one[()].df == pytest.approx(9)
        assert one[()].together == pytest.approx(4)
    assert designs(mumbled, metrics.recall_mcls, ()) == {}, "of no question here"


def test_a_macro_average_has_the_design_of_its_slices() -> None:
    results = [result(n, True) for n in range(300)]
    metric = metrics.macro_accuracy("modality")
    made = designs(results, metric, ("modality",))
    (tabled,) = metrics.tables(results, [metric], ("modality",))
    mean = statistics.clustered(statistics.mean_over(statistics.ratios(tabled.table()), tabled.over or ()))
    assert list(made) == [()]
    assert (made[()].units, made[()].groups, made[()].df) == (300, 300, pytest.approx(mean.df[0]))


def test_a_guard_of_which_no_answer_counts_is_not_forgotten() -> None:
    """Both runs mumble in one slice, of which `confusion` is then undefined."""
    pairs = {"slake": replace(SLAKE, metrics=(metrics.confusion,), headline=("confusion",))}
    clear = [each for n in range(40) for each in paired(n, "A", "B" if n % 2 else "A")]
    mumbled = [each for n in range(40, 80) for each in paired(n, "", "A")]
    mumbled = [replace(each, item=replace(each.item, tags={"modality": ("mri",)})) for each in mumbled]
    base = replace(MAIN, results=(*clear, *mumbled))
    rules = Rules(baseline=("main",), slices=("modality",), margin=50)
    gate = gating.prepare(rules, [base], run_json(), pairs)
    assert gate is not None
    found = gating.decide(gate, replace(base, name="new"))
    entries = {entry.slice.get("modality"): (entry.kind, entry.outcome, entry.why) for entry in found.entries}
    assert entries["mri"] == ("slice guard", "INCONCLUSIVE", "undefined in both runs: none of its answers counts")
    assert entries["ct"][:2] == ("slice guard", "PASS")
    assert found.outcome == "INCONCLUSIVE"


def test_chance_is_the_lowest_line_of_a_measure() -> None:
    """Of pairs that only the image tells apart, a model that does not look gets none; all of it is confused."""
    pairs = replace(SLAKE, metrics=(metrics.set_accuracy, metrics.confusion))
    results = tuple(each for n in range(40) for each in paired(n, "A", "B" if n % 5 == 0 else "A"))
    base = replace(MAIN, results=results)
    for name, chance, low in (("set_accuracy", 0.0, 0.03), ("confusion", 0.0, 0.03)):
        target = gating.Target(pairs, {each.name: each for each in pairs.metrics}[name], "mc")
        found = deciding.chances_of(base, target)[()]
        assert found[0] == pytest.approx(chance)
        assert found[1] is not None
        assert found[1] > low


def test_questions_chosen_by_outcome_are_no_run_and_no_baseline() -> None:
    """A run of the questions that failed before could only get better, also if it holds every question."""
    failed = {"by_outcome": True, "every": False, "benchmarks": {"slake": {"mc": {"chosen": 300, "of": 300}}}}
    with pytest.raises(UsageError, match=r"against baseline main: its questions were chosen .* \(--lf\)"):
        prepared(Rules(), None, replace(MAIN, run=record(MAIN.run, selection=failed)))
    gate = prepared(Rules(), None, MAIN)
    assert gate is not None
    verdict = gating.decide(gate, replace(MAIN, name="new", run=record(MAIN.run, name="new", selection=failed)))
    assert verdict.outcome is None
    assert verdict.blockers == (
        "the run's questions were chosen by how they ended before: type its command without --lf",
    )


def test_chance_of_a_rotated_baseline_is_that_of_all_its_orders() -> None:
    """A baseline below 50 % is above chance if guessing both orders has 25 %."""
    about = MAIN.run.as_json()["benchmarks"]["slake"]
    rotated = replace(MAIN, run=record(MAIN.run, protocol={"rotations": 2}, benchmarks={"slake": about}))
    target = gating.Target(SLAKE, metrics.accuracy, "mc")
    plain, turned = (deciding.chances_of(side, target)[()][0] for side in (MAIN, rotated))
    assert (plain, turned) == (pytest.approx(1 / len(OPTIONS)), pytest.approx(1 / len(OPTIONS) ** 2))


# --- planning -----------------------------------------------------------------------------------------------


def test_the_plan_says_what_a_gate_could_show() -> None:
    small, large = planning.prospects([planning.independent(units, 0.02) for units in (176, 1500)])
    for found, margin, chance in ((small, 0.073, 0.165), (large, 0.025, 0.64)):
        assert found.passable == (pytest.approx(margin, rel=0.1),) * 2, "2.49 standard errors"
        assert found.needed == (pytest.approx(2319, rel=0.15),) * 2
        assert found.unchanged is not None
        assert found.unchanged[0] is found.unchanged[1], "units without groups have one end"
        assert found.unchanged[0].runs == 2000
        assert found.unchanged[0].passed == pytest.approx(chance, abs=0.04)
        assert found.unchanged[0].error == pytest.approx(2 * (chance * (1 - chance) / 2000) ** 0.5, abs=2e-3)
        assert found.chances is not None
        assert found.chances[1][0] <= 0.05 + 0.015


def outcomes_of_the_gate(layout: statistics.UnitLayout, margin: float, flips: float, loss: float, one: bool) -> float:
    """The share of gates that pass, run by run: a second simulation, which shares no code with the plan's."""
    draw, table, runs = np.random.default_rng(7), layout.table, 400
    groups, place = np.unique(table.group, return_inverse=True)
    passed = 0
    for _ in range(runs):
        rank = draw.random(len(groups))[place] if one else draw.random(len(place))
        fell, rose = rank < (flips + loss) / 2, rank > 1 - (flips - loss) / 2
        sides = [replace(table, numerator=np.where(wrong, 0.0, 1.0)) for wrong in (fell, rose)]
        (comparison,) = statistics.compare(*sides, binary=True)
        rule = statistics.MarginRule(name="", comparison=comparison, margin=margin)
        passed += statistics.decide([rule]).outcome == "PASS"
    return passed / runs


DESIGNS = {
    "MediConfusion's sizes": [26, 18, 12, 10, 8, 8, 7, 6, 6, 5, 5, 4, 4, 3, 3, 3, 2, 2, 2, 2, *([1] * 38)],
    "60 x 5": [5] * 60,
    "10 x 10": [10] * 10,
    "100 alone": [1] * 100,
    "30 x 20": [20] * 30,
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    "design", ["10 x 10", *(pytest.param(name, marks=pytest.mark.slow) for name in DESIGNS if name != "10 x 10")]
)
def test_the_planned_power_is_that_of_the_gate(design: str, together: bool) -> None:
    """Ten designs, 5 % flips: a normal approximation planned 64 % for ten groups of ten, of which 8 % pass."""
    layout = statistics.in_groups([group for group, size in enumerate(DESIGNS[design]) for _ in range(size)])
    for margin, loss in ((0.05, 0.0), (0.05, 0.05)):
        planned = statistics.simulated(layout, margin, 0.05, loss=loss, correlation=float(together))
        seen = outcomes_of_the_gate(layout, margin, 0.05, loss, together)
        error = 2 * (max(seen * (1 - seen), 0.01) / 400) ** 0.5
        assert planned.passed == pytest.approx(seen, abs=min(planned.error + error + 0.01, 0.05 + error))


def test_the_units_that_a_plan_asks_for_pass() -> None:
    layout = statistics.in_groups([unit // 4 for unit in range(120)])
    found = statistics.simulated(layout, 0.05, 0.1, correlation=0.3, runs=500)
    needed = statistics.units_to_pass(layout, 0.05, 0.1, correlation=0.3, passable=found.passable)
    larger = statistics.in_groups([unit // 4 for unit in range(needed)])
    assert statistics.simulated(larger, 0.05, 0.1, correlation=0.3, runs=500, seed=3).passed == pytest.approx(
        0.8, abs=0.08
    )


@pytest.mark.parametrize(("flips", "loss", "correlation"), [(0.05, 0.06, 0), (1.1, 0, 0), (0.1, 0, 1.5)])
def test_a_simulation_of_impossible_flips_is_refused(flips: float, loss: float, correlation: float) -> None:
    with pytest.raises(ValueError, match="a simulation needs units"):
        statistics.simulated(statistics.in_groups([0, 1]), 0.05, flips, loss=loss, correlation=correlation)


def test_the_plan_uses_the_groups_of_the_data() -> None:
    """100 cases of three questions: between 100 and 300 independent ones, and Student's distribution."""
    items = [result(n, True, per_group=3).item for n in range(300)]
    (planned,) = planning.of_data(SLAKE, items, Rules(margin=5))
    assert (planned.design.units, planned.design.groups, planned.design.unit) == (300, 100, "question")
    assert planned.design.df == pytest.approx(99)
    assert planned.design.together == pytest.approx(3)
    assert planned.chance == pytest.approx(0.25)
    (found,) = planning.prospects([planned])
    (alone,) = planning.prospects([planning.independent(100, 0.05)])
    assert found.chances is not None
    assert alone.chances is not None
    assert found.chances[0][0] < alone.chances[0][0] + 0.02 < found.chances[0][1]
    (typed,) = planning.prospects([planned], deff=3)
    assert typed.unchanged is not None
    assert found.unchanged is not None
    assert typed.unchanged == (found.unchanged[0],) * 2
    (clumped,) = planning.prospects([planning.independent(300, 0.05)], deff=3)
    assert clumped.unchanged is not None
    assert clumped.unchanged[0].passed == pytest.approx(typed.unchanged[0].passed, abs=0.05)


def test_the_plan_knows_which_slices_are_gated_and_their_share_of_the_error() -> None:
    items = [result(n, True).item for n in range(300)]
    rules = Rules(
        slices=("modality",), slice=(gating.SliceRule(benchmark="slake", dimension="modality", value="ct", margin=8),)
    )
    planned = planning.of_data(SLAKE, items, rules)
    assert [each.name for each in planned] == [
        "slake",
        "slake: modality ct",
        "modality mri",
        "modality oct",
        "modality rare",
    ]
    assert [each.margin for each in planned] == [0.02, 0.08, None, None, None]
    mri, _, rare = planning.guards(planned)
    assert rare.smallest is None
    assert rare.planned.why_not == "not gated: 8 questions in 8 groups; 30 in 10 are needed"
    # 5 % by halves, and one half by three slices that are gated.
    se = (0.15 / mri.planned.design.units) ** 0.5
    known = statistics.smallest_loss(se, mri.planned.design.df or 0.0, mri.planned.design.units, 1.0, 0.05 / 6)
    assert mri.smallest == (pytest.approx(known), pytest.approx(known))
    with pytest.raises(UsageError, match="--gate-slices=organ: no such dimension; there are: kind, modality"):
        planning.of_data(SLAKE, items, Rules(slices=("organ",)))


def test_the_plan_asks_the_baseline_to_be_above_chance_as_the_gate_does() -> None:
    for accuracy, above in ((0.7, True), (0.25, False)):
        base = side("main", model(300, accuracy))
        (planned,) = planning.of_baseline(SLAKE, base, Rules(margin=10))
        (entry,) = verdict(
            Rules(margin=10), replace(side("new", model(300, accuracy, lambda i: i == 299)), name="new"), base
        ).entries
        assert planned.above_chance is above
        assert ("above chance" in entry.why) is not above
        (found,) = planning.prospects([planned])
        assert found.chances is not None
        assert (found.chances[0] == (0.0, 0.0)) is not above


def test_two_runs_tell_the_design_effect_of_a_plan() -> None:
    """If all flips of a group go together, the plan is that of whole groups; if none do, that of single questions."""
    base = side("a", [True] * 300, per_group=5)
    for together, icc in ((True, 1.0), (False, 0.0)):
        flipped = {n for n in range(300) if (n // 5 % 6 == 0 if together else (n * 7) % 43 == 0)}
        new = side("b", [n not in flipped for n in range(300)], per_group=5)
        found = planning.flips_between((base, new), {"slake": SLAKE}, Rules(margin=10))["slake"]
        assert (found.units, found.flips, found.groups) == (300, len(flipped), 60)
        assert found.icc == pytest.approx(icc, abs=0.1)
        (plan,) = planning.of_baseline(SLAKE, base, Rules(margin=10))
        measured = replace(plan, flips=found)
        assert measured.correlations == (max(found.high or 0, 0), max(found.icc or 0, 0))
        assert measured.deffs == pytest.approx(tuple(1 + 4 * each for each in measured.correlations))
        assert plan.correlations == (1.0, 0.0)
        (known,), (typed,) = planning.prospects([measured]), planning.prospects([plan], deff=measured.deffs[1])
        assert known.unchanged is not None
        assert typed.unchanged is not None
        assert known.unchanged[1] == typed.unchanged[1]
    none = planning.flips_between((base, replace(base, name="b")), {"slake": SLAKE}, Rules(margin=10))["slake"]
    assert replace(plan, flips=none).correlations == (1.0, 0.0), "without a flip nothing is known"
    for flips, told in (
        (none, "tell no correlation within groups (0 of 300 questions in 60 groups)"),
        (found, "design"),
    ):
        printed = gate_plans.planned(planning.prospects([replace(plan, flips=flips)]), (), "a and b")
        assert told in " ".join(printed.split())
        assert (gate_plans.MEASURED in printed) is (flips is found), "no range is of a correlation that is unknown"


def test_two_runs_belong_to_a_plan_without_a_typed_design_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "--plan", "reports/x", "reports/y", "--deff=2"]) == 4
    assert "--deff and reports/x both tell the design effect: leave one out" in capsys.readouterr().err
    assert main(["gate", "reports/x", "reports/y"]) == 4
    assert "a gate decides on one run, not 2: leave out reports/y" in capsys.readouterr().err


def test_the_flips_of_runs_that_are_not_comparable_tell_nothing() -> None:
    other = side("b", model(60, 0.7))
    (own,) = other.run.benchmarks.values()
    changed = {"slake": msgspec.structs.replace(own, signature={**own.signature, "data": "other"})}
    other = replace(other, run=msgspec.structs.replace(other.run, benchmarks=changed))
    with pytest.raises(UsageError, match="the flips between these runs tell nothing of a gate:\n  "):
        planning.flips_between((side("a", model(60, 0.7)), other), {"slake": SLAKE}, Rules())


def test_the_plan_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "--plan", "--benchmark=phantom-mediconfusion", "--units=1500", "--margin=7.3"]) == 0
    printed = capsys.readouterr().out
    assert "phantom-mediconfusion" in printed
    assert "PASS at a loss of 7.3" in printed
    assert "simulated 2,000 times for each figure; two standard errors are at most" in printed
    assert "5.0 %" not in [cell.strip() for cell in printed.split("  ")], "a chance at the margin that nobody simulated"
    assert "PASS needs a baseline that is shown to be above chance: 0.0 %" in printed


def test_the_plan_follows_the_rules_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml(tmp_path, '[tool.medvqa.gate]\nmargin = 9\nslices = ["category"]\n')
    rules = f"--rules={tmp_path / 'pyproject.toml'}"
    assert main(["gate", "--plan", "--benchmark=phantom-mediconfusion", rules]) == 0
    printed = capsys.readouterr().out
    assert "PASS at a loss of 9" in printed
    assert "guarded slice" in printed
    assert main(["gate", "--plan", "--rules=none.toml"]) == 4
    assert "--rules=none.toml: no such file" in capsys.readouterr().err
    (tmp_path / "rules.toml").write_text('[[gate.floor]]\nbenchmark = "slake"\nmeasure = "accuracy"\nat_least = 0.9\n')
    assert main(["gate", "--plan", f"--rules={tmp_path / 'rules.toml'}"]) == 4
    assert "no table [tool.medvqa.gate], so the file has no rules; write them there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["gate"], "name a run folder: medvqa gate reports/RUN --baseline=reports/MAIN; or plan one: --plan"),
        (["gate", "reports/x", "--units=3"], "--units belongs to --plan"),
        (["gate", "reports/x", "--deff=3"], "--deff belongs to --plan"),
        (["gate", "--plan", "--inconclusive=pass"], "--inconclusive belongs to a verdict, and --plan gives none"),
        (["gate", "reports/x", "--plan"], "--plan is for before there is a run, so without reports/x"),
        (["gate", "--plan", "--margin=0"], "--margin=0: points, more than 0 and at most 100"),
        (
            ["gate", "--plan", "--discordance=1"],
            "--discordance=1: percent of units that flip either way, from the margin",
        ),
        (["gate", "--plan", "--deff=0.5"], "--deff=0.5: how many times the variance"),
        (["gate", "--plan", "--looks=0"], "--looks=0: how often the gate is asked, at least 1"),
        (["gate", "--plan", "--units=0"], "--units=0: at least 1"),
        (["gate", "--plan", "--benchmark=phantm"], "no benchmark 'phantm'"),
    ],
)
def test_what_cannot_be_planned(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 4
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("losses", "printed"),
    [
        ((0.779, 0.23), "77.9 to 23.0 points"),
        ((0.3, 0.3), "30.0 points"),
        ((1.095, 0.275), "over 100 to 27.5 points"),
        ((1.3, 1.1), "no loss"),
    ],
)
def test_a_plan_promises_no_loss_of_more_than_all_points(losses: tuple[float, float], printed: str) -> None:
    assert _losses(losses) == printed


# --- stopping early -----------------------------------------------------------------------------------------


EARLY = Rules(baseline=("main",), margin=5)


def watch(baseline: Side, new: Side, rules: Rules = EARLY, seed: str = "new") -> gating.Watch:
    gate = gating.prepare(rules, [baseline], new.run, KNOWN)
    assert gate is not None
    return gating.Watch(gate, [r.key for r in new.results], [r.item for r in new.results], seed)


def in_drawn_order(side: Side, seed: str = "new") -> list[Result]:
    order = gating.drawn([result.item for result in side.results], seed)
    return sorted(side.results, key=lambda result: order["slake", result.item.id])


def fed(watching: gating.Watch, results: Sequence[Result]) -> gating.Ruling | None:
    """The rule that stops a run whose results come in this order."""
    for one in results:
        watching.take([one], run_json())
    return next(iter(watching.stopped), None)


BASE = model(300, 0.7)
WORSE = [right and n % 3 > 0 for n, right in enumerate(BASE)]


def test_a_worse_run_is_stopped_with_the_part_that_shows_it() -> None:
    baseline, new = side("main", BASE), side("new", WORSE)
    stopped = fed(watch(baseline, new), in_drawn_order(new))
    assert stopped is not None
    assert (stopped.kind, stopped.outcome, stopped.planned, stopped.margin) == ("early", "FAIL", 300, 0.05)
    units = stopped.units or 0
    assert units < 150
    was, now = ([r.score.value or 0.0 for r in in_drawn_order(one)[:units]] for one in (baseline, new))
    assert stopped.baseline_value == pytest.approx(np.mean(was))
    assert stopped.value == pytest.approx(np.mean(now))
    assert stopped.lost == sum(a > b for a, b in zip(was, now, strict=True))
    differences = np.subtract(now, was)
    factors = np.log1p(-np.multiply.outer(differences + 0.05, statistics.STAKES) / 1.05)
    assert stopped.e_value == pytest.approx(float(statistics.e_values(factors.sum(axis=0))))
    assert (stopped.e_value or 0) >= 20
    expected = (
        f"a loss of more than 5 points is shown after {units} of 300 questions, in an order drawn before: e-value"
    )
    assert stopped.why.startswith(expected)


def test_an_equal_run_and_one_that_loses_less_than_the_margin_are_not_stopped() -> None:
    for rights in (BASE, [right and n % 30 > 0 for n, right in enumerate(BASE)]):
        new = side("new", rights)
        assert fed(watch(side("main", BASE), new), in_drawn_order(new)) is None


@given(st.randoms())
@examples(20)
def test_only_whole_groups_count_and_in_the_drawn_order_whichever_answer_comes_first(random: Any) -> None:
    baseline, new = (side(name, rights, per_group=3) for name, rights in (("main", BASE), ("new", WORSE)))
    ordered = in_drawn_order(new)
    (one,) = watched = [fed(watch(baseline, new), ordered)]
    assert one is not None
    cut = (one.units or 0) + 30
    shuffled = ordered[:cut]
    random.shuffle(shuffled)
    late = watch(baseline, new)
    late.take(shuffled, run_json())
    # All whole groups count at once: no fewer than where the first look would stop.
    assert (late.stopped[0].units or 0) >= (watched[0].units or 0)
    # A group whose answer is slow holds back all that follow, be they ever so bad.
    waiting = watch(baseline, new)
    waiting.take([result for result in ordered if result is not ordered[1]], run_json())
    assert waiting.stopped == ()


def test_groups_stay_together_and_other_questions_leave_the_order_as_it_is() -> None:
    new = side("new", BASE, per_group=3)
    order = [int(r.item.cluster_id[1:]) for r in in_drawn_order(new) if r.item.cluster_id]
    assert all(len(set(order[place : place + 3])) == 1 for place in range(0, 300, 3))
    assert order != sorted(order)
    part = [r.item.id for r in in_drawn_order(replace(new, results=new.results[:150]))]
    assert part == [r.item.id for r in in_drawn_order(new) if r.item.id in set(part)]
    assert [r.item.id for r in in_drawn_order(new, "other")] != [r.item.id for r in in_drawn_order(new)]


def test_an_answer_without_a_score_counts_as_right() -> None:
    baseline, new = side("main", [True] * 300), side("new", [False] * 300)
    failed = [replace(r, answer=None, score=Score(None, "error", why="timed out")) for r in in_drawn_order(new)]
    assert fed(watch(baseline, new), in_drawn_order(new)) is not None
    assert fed(watch(baseline, new), failed) is None
    stopped = fed(watch(baseline, new), [failed[0], *in_drawn_order(new)[1:]])
    assert stopped is not None
    assert "points; without a score, and counted as right: 1; a stop exaggerates it" in stopped.why
    two = fed(watch(baseline, new), [*failed[:2], *in_drawn_order(new)[2:]])
    assert two is not None
    assert "; without a score, and counted as right: 2;" in two.why


def test_judged_scores_stop_a_run_by_the_whole_margin_and_say_so() -> None:
    """A reliability that is too low would make the margin of the stop too small, and stop runs wrongly."""
    baseline, new = judged("main", BASE), judged("new", WORSE)
    known = replace(EARLY, judge_reliability=0.5)
    one, other = (fed(watch(baseline, new, rules), in_drawn_order(new)) for rules in (EARLY, known))
    assert one is not None
    assert other is not None
    assert (one.units, one.e_value, one.margin) == (other.units, other.e_value, other.margin)
    told = "; the whole margin counts, without judge_reliability, as a judge shows a part of a loss only"
    assert other.why == one.why.replace("; a stop exaggerates it", f"{told}; a stop exaggerates it")
    unjudged = fed(watch(side("main", BASE), side("new", WORSE), known), in_drawn_order(side("new", WORSE)))
    assert unjudged is not None
    assert told not in unjudged.why


def test_huge_evidence_at_one_look_is_said_shortly() -> None:
    baseline, new = side("main", [True] * 300), side("new", [False] * 300)
    watching = watch(baseline, new)
    watching.take(in_drawn_order(new), run_json())
    (stopped,) = watching.stopped
    assert (stopped.e_value or 0) > 1e20
    assert f"e-value {stopped.e_value:.3g}, where 20 stops a run" in stopped.why


def test_the_error_is_divided_by_rules_and_looks() -> None:
    baselines, new = [side("main", BASE), side("old", BASE)], side("new", WORSE)
    gate = gating.prepare(replace(EARLY, baseline=("main", "old"), looks=3), baselines, new.run, KNOWN)
    assert gate is not None
    both = gating.Watch(gate, [r.key for r in new.results], [r.item for r in new.results], "new")
    stopped = fed(both, in_drawn_order(new))
    assert stopped is not None
    assert (stopped.e_value or 0) >= 2 * 3 * 20
    assert "where 120 stops a run. At most 1.67 %" in stopped.why


def test_a_measure_that_is_no_mean_over_questions_stops_nothing() -> None:
    for measure, may in (("accuracy", True), ("macro_accuracy", False), ("unparsed_rate", True)):
        rules = replace(EARLY, benchmarks={"slake": gating.BenchmarkRule(measure=measure)})
        new = side("new", BASE)
        gate = gating.prepare(rules, [side("main", BASE)], new.run, KNOWN)
        assert gate is not None
        assert bool(gating.stopping(gate)) is may, measure


def test_a_rate_of_which_less_is_better_stops_a_run_that_has_more() -> None:
    rules = replace(EARLY, benchmarks={"slake": gating.BenchmarkRule(measure="unparsed_rate")})
    baseline, new = side("main", [True] * 300), side("new", [True] * 300)
    mute = [replace(r, score=Score(0.0, "unparsed")) for r in in_drawn_order(new)]
    assert fed(watch(baseline, new, rules), in_drawn_order(new)) is None
    stopped = fed(watch(baseline, new, rules), mute)
    assert stopped is not None
    assert (stopped.baseline_value, stopped.value, stopped.difference) == (0, 1, 1)


def test_a_verdict_of_a_stopped_run_is_of_that_rule_alone() -> None:
    baseline, new = side("main", BASE), side("new", WORSE)
    gate = gating.prepare(EARLY, [baseline], new.run, KNOWN)
    assert gate is not None
    watching = watch(baseline, new)
    stopped = fed(watching, in_drawn_order(new))
    part = replace(new, results=new.results[:100], covered=Coverage(300, 100, ("slake/q0100",)))
    found = gating.decide(gate, part, watching.stopped)
    assert (found.outcome, found.named, found.exit_code) == ("FAIL", "FAIL (stopped early)", 10)
    assert found.entries == (stopped,)
    assert "its command without --stop=early asks the rest" in found.notes[0]
    assert gating.decide(gate, part).outcome is None
    failed = replace(part.results[0], answer=None, score=Score(None, "error", why="timed out"))
    assert gating.decide(gate, replace(part, results=(failed, *part.results[1:])), watching.stopped).outcome == "FAIL"
    # Whatever else stands in the way of a verdict still does.
    other = replace(
        part, run=run_json(benchmarks={"slake": {**ABOUT, "signature": {**ABOUT["signature"], "judge": "x"}}})
    )
    assert gating.decide(gate, other, watching.stopped).outcome is None


def test_a_keyed_baseline_stops_a_run_as_its_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keyed.ENV_KEY, "4e" * 32)
    baseline, new = side("main", BASE, per_group=2), side("new", WORSE, per_group=2)
    how: Any = {"responses": False, "hidden": ["slake"], "key": keyed.own_key()}
    baseline_file.write_baseline(tmp_path / "main", baseline.run, list(baseline.results), **how)
    hashed = replace(comparing.load(tmp_path / "main"), name="main")
    assert hashed.results[0].item.id != baseline.results[0].item.id
    stopped = fed(watch(hashed, new), in_drawn_order(new))
    assert stopped is not None
    assert stopped == fed(watch(baseline, new), in_drawn_order(new))


def test_samples_of_a_question_count_as_their_mean_once_all_are_there() -> None:
    baseline = side("main", BASE)
    new = [replace(r, sample=sample) for r in side("new", WORSE).results for sample in (1, 2)]
    both = replace(side("new", WORSE), results=tuple(new))
    ordered = in_drawn_order(both)
    stopped = fed(watch(baseline, both), ordered)
    assert stopped is not None
    once = fed(watch(baseline, side("new", WORSE)), in_drawn_order(side("new", WORSE)))
    assert stopped == once
    halves = [result for result in ordered if result.sample == 1]
    assert fed(watch(baseline, both), halves) is None


def test_pairs_are_units_of_a_measure_over_pairs() -> None:
    def paired(name: str, right: Callable[[int], bool]) -> Side:
        made = [result(n, right(n)) for n in range(400)]
        items = [replace(r.item, pair_id=f"p{n // 2}", cluster_id=None) for n, r in enumerate(made)]
        return Side(name, run_json(), tuple(replace(r, item=item) for r, item in zip(made, items, strict=True)))

    def prepared_for(measure: str) -> gating.Gate:
        by_pair = {"slake": replace(SLAKE, metrics=(metrics.set_accuracy, metrics.confusion), headline=(measure,))}
        gate = gating.prepare(EARLY, [baseline], new.run, by_pair)
        assert gate is not None
        return gate

    baseline, new = paired("main", lambda n: True), paired("new", lambda n: n % 8 > 0)
    assert not gating.stopping(prepared_for("confusion")), "it leaves out pairs by their answers"
    watching = gating.Watch(
        prepared_for("set_accuracy"), [r.key for r in new.results], [r.item for r in new.results], "new"
    )
    stopped = fed(watching, in_drawn_order(new))
    assert stopped is not None
    assert (stopped.unit, stopped.planned) == ("pair", 200)
    assert f"after {stopped.units} of 200 pairs" in stopped.why
