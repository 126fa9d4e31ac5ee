"""Runs joined to one: parts have the measures of one piece, samples keep their origin, runs that differ are refused."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.cli import main
from medvqa.items import Answer, Item, Prompt, Result, Score, UsageError
from medvqa.protocols.protocol import Protocol
from medvqa.records import coverage, join, remaining, run_folder, selected, sent_prompts
from medvqa.records.join import Joined, RunPart
from medvqa.records.join import join as merge
from medvqa.records.run_folder import Recorder
from medvqa.records.run_record import RUN, SCHEMA
from support.laws import examples
from support.runs import record

ABOUT: dict[str, Any] = {
    "name": "first",
    "started": "2026-01-02T10:00:00+00:00",
    "finished": "2026-01-02T11:00:00+00:00",
    "model": {"name": "stubborn", "fingerprint": "f1"},
    "options": {"limit": None, "shard": None},
    "config": {"name": "stubborn:A", "backend": "stubborn", "argument": "A", "options": {}},
    "techniques": ["mc"],
    "extraction": "sound",
    "benchmarks": {
        "slake": {
            "items": 9,
            "data_sha256": "d1",
            "answers": "given",
            "signature": {"data": "d1", "extraction": "sound", "answers": "given"},
            "prompts": {"mc": "slake/mc@1"},
        }
    },
    "versions": {"python": "3.11.7", "pytest-medvqa": "0.1.0"},
}


def result(id: str, said: str | None = "A", outcome: str = "correct", **fields: Any) -> Result:
    item = Item(id, "slake", "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",))
    answer = None if said is None else Answer(said, seconds=random.random())
    return replace(Result("run", item, "0" * 64, answer, Score(1.0, outcome, ("A",))), **fields)  # type: ignore[arg-type]


def run(name: str, *results: Result, missing: tuple[str, ...] = (), **about: Any) -> RunPart:
    return RunPart(name, record({**ABOUT, "name": name, **about}), results, frozenset(missing))


def ids(results: tuple[Result, ...]) -> list[str]:
    return [each.item.id for each in results]


# --- what is joined ---------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 30), unique=True), min_size=1, max_size=4))
def test_the_results_are_the_union_sorted_by_key(parts: list[list[int]]) -> None:
    runs = [run(f"r{n}", *(result(f"q{id:02}") for id in part)) for n, part in enumerate(parts)]
    merged = merge(runs, "all")
    assert ids(merged.results) == sorted({f"q{id:02}" for part in parts for id in part})
    assert merged.complete
    assert merged.notes == ()


def test_how_long_an_answer_took_is_no_difference() -> None:
    merged = merge([run("a", result("q1")), run("b", result("q1"))], "all")
    assert len(merged.results) == 1


@pytest.mark.parametrize("turned", [False, True])
def test_an_answer_counts_before_an_error(turned: bool) -> None:
    failed = run("a", result("q1", None, "error"), result("q2", None, "error"))
    answered = run("b", result("q1"))
    merged = merge([answered, failed] if turned else [failed, answered], "all")
    assert [each.score.outcome for each in merged.results] == ["correct", "error"]
    assert not merged.complete, "one item has no answer yet"


def test_two_techniques_of_an_item_are_two_results() -> None:
    merged = merge([run("a", result("q1")), run("b", result("q1", "B", technique="gd"))], "all")
    assert [each.technique for each in merged.results] == ["gd", "mc"]


def test_missing_is_what_no_run_has() -> None:
    missing = ("slake/q1", "slake/q2")
    merged = merge([run("a", missing=missing), run("b", result("q1"), missing=("slake/q3",))], "all")
    assert merged.missing == ("slake/q2", "slake/q3")
    assert not merged.complete


def test_a_share_that_is_not_there_is_named() -> None:
    shares = [run(f"r{n}", result(f"q{n}"), options={"shard": f"{n}/3"}) for n in (1, 3)]
    merged = merge(shares, "all")
    assert coverage.cover(merged.about, (), ()).absent == ("shard 2/3 is missing",)
    assert not merged.complete
    assert merge([*shares, run("r2", options={"shard": "2/3"})], "all").complete


def test_the_command_of_a_missing_share_is_told() -> None:
    """Shards and questions that lack results are named with the options that ask them."""
    source = {"sessions": [{"shard_source": "SLURM_ARRAY_TASK_ID=0 of 0-7"}]}
    there = [run(f"qwen-{n}of8", result(f"q{n}"), options={"shard": f"{n}/8"}, **source) for n in (1, 2, 4)]
    keys = (result("q4").key, result("q5").key)
    there[2] = replace(there[2], keys=keys)
    assert remaining.to_type(merge(there, "qwen"), there) == [
        "to finish qwen-4of8 (1 of 2 questions): type its command with --shard=4/8 --run=qwen-4of8",
        "to run shards 3, 5-8 of 8: type the command of qwen-1of8 with --shard=N/8 --run=qwen-Nof8, for each number N",
        "or all in a shell: for N in 3 $(seq 5 8); do COMMAND --shard=$N/8 --run=qwen-${N}of8; done",
        "or as tasks of Slurm: MEDVQA_SHARDS=8 sbatch --array=2,4-7 FILE",
    ]
    merged = merge(there, "qwen")
    assert coverage.cover(merged.about, (), ()).absent == ("shards 3, 5-8 of 8 are missing",)
    by_hand = [run("part1", result("q1"), options={"shard": "1/2"})]
    lines = remaining.to_type(merge(by_hand, "all"), by_hand)
    assert lines == ["to run shard 2/2: type the command of part1 with --shard=2/2 --run=NAME"]
    whole = [run("a", result("q1"))]
    assert remaining.to_type(merge(whole, "all"), whole) == []


def test_a_billion_missing_shares_are_named_shortly() -> None:
    one = [run("s-1of999999999", result("q1"), options={"shard": "1/999999999"})]
    assert remaining.to_type(merge(one, "all"), one)[0].startswith("to run shards 2-999999999 of 999999999: ")
    odd = [run(f"s-{n}of999", result(f"q{n}"), options={"shard": f"{n}/999"}) for n in range(1, 1000, 2)]
    (line,) = remaining.to_type(merge(odd, "all"), odd)
    assert "shards 2, 4, 6" in line
    assert "200 and 399 others of 999" in line


def share_of(
    number: int, of: int, *benchmarks: str, how: tuple[str, ...] = (), known: tuple[str, ...] = (), more: int = 0
) -> RunPart:
    """A share that selected its question of each benchmark, of as many as there are shares and some `more`."""
    shard, own = f"{number}/{of}", f"s{number}of{of}"
    results = [replace(result(f"q{number}"), run=own) for _ in benchmarks]
    results = [replace(r, item=replace(r.item, benchmark=name)) for r, name in zip(results, benchmarks, strict=True)]
    about = {
        **ABOUT,
        "name": own,
        "options": {"shard": shard},
        "benchmarks": {name: {"questions": {"mc": of + more}} for name in {*benchmarks, *known}},
        "selection": {"how": [*how, f"--shard={shard}"], "questions": len(results)},
    }
    keys = tuple(each.key for each in results)
    return RunPart(own, record(about), tuple(results), keys=keys)


def test_results_of_another_run_are_not_joined() -> None:
    """As in files that were joined by hand: a merged run would not tell them any more."""
    one, two = share_of(1, 2, "slake"), share_of(2, 2, "slake")
    stranger = replace(two, results=(replace(two.results[0], run="stranger"),))
    with pytest.raises(UsageError, match="s2of2 cannot be merged: 1 of its results are those of run 'stranger'"):
        merge([one, stranger], "all")


def test_results_of_strangers_in_a_merged_run_are_told() -> None:
    merged = merge([share_of(1, 2, "slake"), share_of(2, 2, "slake")], "all")
    about = msgspec.structs.replace(merged.about, schema=SCHEMA)
    assert coverage.strangers(about, {"s1of2": 1, "s2of2": 1, "all": 3}) == ()
    assert coverage.strangers(about, {"s1of2": 1, "x": 2}) == ("2 of its results are those of run 'x'",)
    renamed = replace(share_of(1, 2, "slake"), name="moved")
    again = merge([renamed, share_of(2, 2, "slake")], "all").about
    assert [(part.name, part.names) for part in again.merged] == [("moved", ("s1of2",)), ("s2of2", ())]
    assert coverage.strangers(msgspec.structs.replace(again, schema=SCHEMA), {"s1of2": 1, "s2of2": 1}) == ()


def test_a_run_is_joined_once() -> None:
    """Its tokens and cost would count twice."""
    runs = [run(name, result(f"q{name}"), started=f"2026-01-0{name}") for name in ("1", "2")]
    with pytest.raises(UsageError, match="1 is named twice: leave one of them out"):
        merge([runs[0], runs[0]], "all")
    part = RunPart("all", merge(runs, "all").about, merge(runs, "all").results)
    with pytest.raises(UsageError, match="2 is in all and in 2: leave one of them out"):
        merge([part, runs[1]], "more")


def absent(merged: Joined) -> tuple[str, ...]:
    return coverage.cover(merged.about, (), ()).absent


def test_the_shares_of_each_benchmark_must_be_there() -> None:
    merged = merge([share_of(1, 2, "slake"), share_of(2, 2, "slake", "vqa-rad")], "all")
    assert absent(merged) == ("shard 1/2 of vqa-rad is missing",)
    assert not merged.complete
    again = merge([RunPart("all", merged.about, merged.results, keys=tuple(r.key for r in merged.results))], "again")
    assert absent(again) == absent(merged), "also of what was merged again"
    whole = merge([share_of(1, 2, "slake", "vqa-rad"), share_of(2, 2, "slake", "vqa-rad")], "all")
    assert whole.complete
    assert absent(whole) == ()


def test_a_share_of_a_benchmark_may_be_empty() -> None:
    shares = [share_of(1, 3, "slake", "vqa-rad"), share_of(2, 3, "slake", known=("vqa-rad",)), share_of(3, 3, "slake")]
    assert absent(merge(shares, "all")) == ("shard 3/3 of vqa-rad is missing",)
    # Of other tests, which know the benchmark and do not ask it, nothing is a share of it.
    one, other = share_of(1, 2, "slake", how=("a.py",), known=("vqa-rad",)), share_of(2, 2, "vqa-rad", how=("b.py",))
    assert absent(merge([one, other], "all")) == ("shard 2/2 of slake is missing", "shard 1/2 of vqa-rad is missing")


def test_shares_of_different_selections_are_refused() -> None:
    with pytest.raises(UsageError, match=r"slake was selected by -k even in s1of2 and by -k odd in s2of2\. Type the"):
        merge(
            [share_of(1, 2, "slake", how=("-k even",), more=2), share_of(2, 2, "slake", how=("-k odd",), more=2)], "all"
        )
    old = [run(f"r{n}", result(f"q{n}"), options={"shard": f"{n}/2", "limit": n * 5}) for n in (1, 2)]
    with pytest.raises(UsageError, match="slake was selected by --limit=5 in r1 and by --limit=10 in r2"):
        merge(old, "all")
    merge([share_of(1, 2, "slake", how=("-k a",)), share_of(2, 2, "vqa-rad", how=("-k b",))], "all")
    merge([share_of(1, 2, "slake", how=("-k a",)), share_of(1, 3, "slake", how=("-k b",))], "all")
    both = merge([share_of(1, 2, "slake"), share_of(2, 2, "slake", how=("--lf", "-k q2"))], "all")
    assert both.complete, "a share that was gone on with, of which nothing lacks"


def test_shares_that_one_run_asked_one_after_another_all_count() -> None:
    sessions = [{"options": {"shard": f"{n}/3"}} for n in (1, 2)]
    one = run("a", result("q1"), options={"shard": "2/3"}, sessions=[*sessions, {"rescored": {}}])
    assert coverage.cover(one.about, (), ()).absent == ("shard 3/3 is missing",)
    merged = merge([one, run("b", result("q2"), options={"shard": "3/3"})], "all")
    assert absent(merged) == ()
    assert merged.about.as_json()["merged"][0]["shards"] == ["1/3", "2/3"]


def test_a_run_that_did_not_end_is_named() -> None:
    killed = run("b", result("q1"))
    killed = replace(killed, about=record({k: v for k, v in killed.about.as_json().items() if k != "finished"}))
    merged = merge([run("a"), killed], "all")
    assert merged.notes == ("b did not end: its missing results are not known",)
    assert not merged.complete


def test_run_json_is_about_all_of_them() -> None:
    one = run("a", usage={"input": 1.0}, options={"limit": 9, "shard": "1/2"}, model={})
    other = run(
        "b",
        usage={"input": 2.0, "cost": 0.5},
        options={"limit": 9, "shard": "2/2"},
        started="2026-01-02T09:00:00+00:00",
        benchmarks={"vqa-rad": {"items": 3}},
    )
    about = merge([one, other], "all").about.as_json()
    assert about["name"] == "all"
    assert about["model"] == ABOUT["model"], "the first of them made none"
    assert about["options"] == {"limit": 9, "shard": None}
    assert about["usage"] == {"input": 3.0, "cost": 0.5}
    assert (about["started"], about["finished"]) == ("2026-01-02T09:00:00+00:00", "2026-01-02T11:00:00+00:00")
    assert list(about["benchmarks"]) == ["slake", "vqa-rad"]
    assert [(each["name"], each["shard"]) for each in about["merged"]] == [("a", "1/2"), ("b", "2/2")]


def test_what_was_left_out_or_unread_and_who_answered_is_that_of_all() -> None:
    slake, rad = {"slake": {"gd": {"judgment": 6}}}, {"vqa-rad": {"ps": {"open": 2}}}
    sessions = [{"asked": 1, "reused": 1}]
    runs = [
        run("a", sessions=sessions, unread_answers=[], served_by=["m 2"]),
        run("b", sessions=sessions, unread_answers=["line 2"], left_out=slake),
        run("c", unread_answers=["line 1", "line 2"], served_by=["m 1", "m 2"], left_out={**slake, **rad}),
    ]
    about = merge(runs, "all").about.as_json()
    assert about["left_out"] == {**slake, **rad}
    assert about["unread_answers"] == ["line 1", "line 2"]
    assert about["served_by"] == ["m 1", "m 2"]
    assert "sessions" not in about
    assert merge(runs[:1], "all").about.as_json()["unread_answers"] == []


# --- what is not ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"model": {"name": "other", "fingerprint": "f1"}}, "the model's name is 'stubborn' in a and 'other' in b"),
        ({"model": {"name": "stubborn", "fingerprint": "f2"}}, "the model's fingerprint is 'f1' in a and 'f2' in b"),
        ({"config": {"backend": "other"}}, "the model's backend is 'stubborn' in a and 'other' in b"),
        ({"techniques": ["gd"]}, "the techniques is mc in a and gd in b"),
        ({"extraction": "official"}, "the extraction is sound in a and official in b"),
        (
            {"benchmarks": {"slake": {"data_sha256": "d1", "prompts": {"mc": "slake/mc@2"}}}},
            "slake: the prompt of mc is slake/mc@1 in a and slake/mc@2 in b",
        ),
        (
            {"benchmarks": {"slake": {"data_sha256": "d1", "signature": {"answers": "category"}}}},
            "slake: the origin of the answer key is given in a and category in b",
        ),
        ({"benchmarks": {"slake": {"data_sha256": "d2"}}}, "slake: the data set is d1 in a and d2 in b"),
        # Left out of run.json if it is the default.
        ({"protocol": {"shots": 3}}, "--shots is not set in a and 3 in b"),
        ({"protocol": {"rotations": None}}, "--rotate is not set in a and all in b"),
        ({"protocol": {"combine": "vote"}}, "--combine is mean in a and vote in b"),
        ({"tags": {"dimensions": ["sign"]}}, "the tags of your own (--tags) is not set in a and sign in b"),
    ],
)
def test_another_configuration_is_refused_with_what_differs(about: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        merge([run("a"), run("b", **about)], "all")
    assert str(raised.value) == f"runs of different configurations: {message}"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"argument": "/there/tiny"}, "the model's argument is '/here/tiny' in a and '/there/tiny' in b"),
        ({"options": {"batch_size": 8}}, "the model's options is {} in a and {'batch_size': 8} in b"),
    ],
)
def test_argument_and_options_count_where_there_is_no_fingerprint(config: dict[str, Any], message: str) -> None:
    here = {"backend": "hf", "argument": "/here/tiny", "options": {}}

    def runs(fingerprint: str | None) -> list[RunPart]:
        model = {"name": "tiny", "fingerprint": fingerprint}
        return [run("a", result("q1"), config=here, model=model), run("b", config={**here, **config}, model=model)]

    assert merge(runs("f1"), "all").complete
    with pytest.raises(UsageError) as raised:
        merge(runs(None), "all")
    assert str(raised.value) == f"runs of different configurations: {message}"


def test_a_difference_to_any_of_the_runs_counts() -> None:
    """The first run may say nothing of a model that it never made."""
    with pytest.raises(UsageError, match="fingerprint is 'f1' in b and 'f2' in c"):
        merge([run("a", model={}), run("b"), run("c", model={"name": "stubborn", "fingerprint": "f2"})], "all")


def judged(judge: str | None, *, named: bool = True, **said: Any) -> dict[str, Any]:
    """What run.json says where a judge was, where none was (None), or where one was not yet `named`."""
    (slake,) = ABOUT["benchmarks"].values()
    signature = slake["signature"] | ({"judge": judge} if judge and named else {})
    return {
        "judge": judge and {"config": {"name": "j"}, "signature": {}, **({"identity": judge} if named else {})},
        "benchmarks": {"slake": {**slake, "judged": {"score": "score@1"}, "signature": signature, **said}},
    }


@pytest.mark.parametrize("would", [{"score": "score@1"}, {}], ids=["would", "never"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_judged_and_an_unjudged_share_are_not_joined(turned: bool, would: dict[str, str]) -> None:
    runs = [run("a", result("q1"), **judged("j@1")), run("b", result("q2"), **judged(None, judged=would))]
    one, other = "j@1 in a", "not recorded in b"
    with pytest.raises(UsageError) as raised:
        merge(runs[::-1] if turned else runs, "all")
    told = f"{other} and {one}" if turned else f"{one} and {other}"
    assert str(raised.value) == f"runs of different configurations: slake: the judge is {told}"


@pytest.mark.parametrize("turned", [False, True])
def test_a_share_whose_judge_was_never_made_is_joined(turned: bool) -> None:
    runs = [run("a", result("q1"), **judged("j@1")), run("b", result("q2"), **judged("j", named=False))]
    about = merge(runs[::-1] if turned else runs, "all").about.as_json()
    assert about["benchmarks"]["slake"]["signature"]["judge"] == "j@1"


def test_replies_of_a_judge_that_shares_none_go_with_the_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "judged" / "j").mkdir(parents=True)
        (tmp_path / name / "judged" / "j" / f"{name}.answers").write_text(name)
    join.write(merge([run("a"), run("b")], "all"), tmp_path / "all", [tmp_path / "a", tmp_path / "b"])
    assert sorted(path.name for path in (tmp_path / "all/judged/j").iterdir()) == ["a.answers", "b.answers"]


def test_prompts_are_joined_once_without_damaged_lines(tmp_path: Path) -> None:
    lines = [
        sent_prompts.line_of(Prompt(text, technique="mc"), digit * 64, result("1").item, public=True, keeps_shots=True)
        for digit, text in zip("abc", ["one", "two", "three"], strict=True)
    ]
    parts = [tmp_path / name for name in ("first", "old", "second")]
    for part in parts:
        part.mkdir()
    damaged = [lines[0].encode().replace(b"one", b"\xff"), lines[1][:-1].encode() + b',"text":1}']
    (parts[0] / sent_prompts.PROMPTS).write_bytes(b"\n".join([*damaged, lines[2].encode(), b""]))
    (parts[2] / sent_prompts.PROMPTS).write_text("\n".join([*lines, ""]))
    sent_prompts.join(tmp_path / "both", parts, {digit * 64 for digit in "abc"})
    written = (tmp_path / "both" / sent_prompts.PROMPTS).read_text().splitlines()
    assert sorted(written) == sorted(lines)
    sent_prompts.join(tmp_path / "early", [parts[1]], {"a" * 64})
    assert not (tmp_path / "early").exists(), "runs of earlier versions kept none"


def test_questions_that_a_killed_session_selected_stay_selected(tmp_path: Path) -> None:
    """Its keys lie in the file of the session alone."""
    for name in ("a", "b"):
        recorder = Recorder(tmp_path / name)
        recorder.append(run_folder.encode(result(f"q-{name}")))
        recorder.close()
        selected.select(tmp_path / name, "s1", [result(f"q-{name}").key, result("q-lost").key])
        run_folder.write_json(tmp_path / name / RUN, {**ABOUT, "name": name})
    selected.add_selected(tmp_path / "a")
    joined = merge([join.load(tmp_path / name) for name in ("a", "b")], "all")
    assert (joined.missing, joined.complete) == (("slake/q-lost",), False)
    join.write(joined, tmp_path / "all", [tmp_path / "a", tmp_path / "b"])
    assert [key.item for key in selected.selected(tmp_path / "all")] == ["q-a", "q-b", "q-lost"]
    assert coverage.coverage(tmp_path / "all").missing == joined.missing


def test_versions_are_told_and_no_obstacle() -> None:
    merged = merge([run("a"), run("b", versions={"python": "3.12.1", "pytest-medvqa": "0.1.0"})], "all")
    assert merged.notes == ("the runs had different versions of python: 3.11.7, 3.12.1",)
    assert merged.complete


@pytest.mark.parametrize(
    "other",
    [
        result("q1", "B", "wrong"),
        result("q1", "A", score=Score(0.0, "wrong")),
        result("q1", "A", prompt="1" * 64),
        result("q1", "A", answer=Answer("A", {"A": -0.1})),
    ],
)
def test_two_answers_to_one_question_are_an_error_that_names_it(other: Result) -> None:
    with pytest.raises(UsageError, match=r"of slake \(mc\) is correct \('A'\) in a and .* in b .*leave one"):
        merge([run("a", result("q1")), run("b", other)], "all")


# --- from folders -----------------------------------------------------------------------------------------


@pytest.fixture
def phantom(outside: None, pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(
        test_of_phantom="""
        import pytest

        @pytest.mark.vqa("phantom")
        def test_phantom(item, evaluate):
            evaluate(item)
        """
    )
    return pytester


def measures(folder: Path) -> str:
    return json.dumps(json.loads((folder / "metrics.json").read_text())["measures"])


@pytest.mark.slow
@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
@pytest.mark.parametrize("limit", [(), ("--limit=40",)], ids=["all", "limit"])
def test_the_measures_are_those_of_the_run_in_one_piece(
    phantom: pytest.Pytester, spread: tuple[str, ...], limit: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    reports = phantom.path / "reports"
    command = ("--model=random", "-p", "no:randomly", *limit, *spread)
    assert phantom.runpytest_subprocess(*command, "--run=whole").ret == 0
    for number in (1, 2, 3):
        assert phantom.runpytest_subprocess(*command, f"--run=part{number}", f"--shard={number}/3").ret == 0
    parts = [str(reports / f"part{number}") for number in (3, 1, 2)]
    assert main(["merge", *parts, "-o", "all"]) == 0
    assert measures(reports / "all") == measures(reports / "whole")
    whole = (reports / "whole" / "run.json").read_text()
    assert json.loads((reports / "all" / "run.json").read_text())["benchmarks"] == json.loads(whole)["benchmarks"]
    made, whole = ({path.name for path in (reports / name).iterdir()} for name in ("all", "whole"))
    assert made == whole
    assert capsys.readouterr().out.endswith(f"run folder: {reports / 'all'}\n")
    # And of two of them, what is missing is told.
    assert main(["merge", *parts[1:], "-o", str(phantom.path / "elsewhere" / "two")]) == 1
    assert "! shard 3/3 is missing" in capsys.readouterr().out
    assert (phantom.path / "elsewhere" / "two" / "metrics.json").exists()


def test_a_run_that_was_stopped_is_joined_with_what_it_lacked(
    phantom: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = phantom.path / "reports"
    common = ("--model=random", "--benchmark=phantom-mediconfusion", "-p", "no:randomly")
    assert phantom.runpytest_inprocess(*common, "--run=stopped", "-x").ret == 1
    main(["merge", str(reports / "stopped"), "-o", "still"])
    lacking = json.loads((reports / "still" / "metrics.json").read_text())["missing"]
    assert lacking
    assert "no result: phantom-mediconfusion/" in capsys.readouterr().out
    assert phantom.runpytest_inprocess(*common, "--run=whole").ret == 0
    assert main(["merge", str(reports / "stopped"), str(reports / "whole"), "-o", "all"]) == 0
    assert measures(reports / "all") == measures(reports / "whole")
    # A model without a fingerprint: the answers lie in the folders of the runs.
    assert phantom.runpytest_inprocess(*common, "--run=all").ret == 0
    last = json.loads((reports / "all" / "run.json").read_text())["sessions"][-1]
    assert (last["asked"], last["reused"] > 0) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reports/nosuch", "-o", "all"], "reports/nosuch is no run folder: run.json cannot be read"),
        (["reports/a", "-o", "a"], "reports/a is one of the runs: name another with -o"),
        (["reports/a", "-o", "b"], "reports/b exists, and was not merged: name another with -o"),
        (["reports/a", "-o", "reports/..x"], "-o=..x: a run's name is a letter or digit, then"),
        (["reports/a", "reports/b", "-o", "all"], "different configurations: the model's fingerprint is 'f1' in a"),
        (["reports/damaged", "-o", "all"], "metrics.json cannot be read: Input data was truncated"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_no_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "damaged"):
        Recorder(Path("reports", name)).close()
        model = {"name": "stubborn", "fingerprint": "f2" if name == "b" else "f1"}
        run_folder.write_json(Path("reports", name, "run.json"), {**ABOUT, "model": model})
    Path("reports", "damaged", "metrics.json").write_text("{")
    before = sorted(tmp_path.rglob("*"))
    assert main(["merge", *arguments]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert sorted(tmp_path.rglob("*")) == before


def test_shares_are_told_of_each_benchmark_and_of_each_session(
    phantom: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = phantom.path / "reports"
    one, both = "phantom-mediconfusion", "phantom-mediconfusion,phantom-medlesionvqa"
    common = ("--model=random", "-p", "no:randomly")

    def ask(name: str, shard: str, benchmarks: str, *how: str) -> None:
        done = phantom.runpytest_inprocess(*common, f"--run={name}", f"--benchmark={benchmarks}", *shard.split(), *how)
        assert done.ret == 0

    ask("ci1", "--shard=1/2", one)
    ask("ci2", "--shard=2/2", both)
    merged = str(reports / "ci")
    assert main(["merge", str(reports / "ci1"), str(reports / "ci2"), "-o", merged]) == 1
    assert "shard 1/2 of phantom-medlesionvqa is missing" in capsys.readouterr().out
    assert main(["baseline", merged, "-o", str(phantom.path / "b")]) == 4
    assert "shard 1/2 of phantom-medlesionvqa is missing" in capsys.readouterr().err
    ask("few1", "--shard=1/2", one, "--limit=6")
    ask("few2", "--shard=2/2", one, "--limit=10")
    assert main(["merge", str(reports / "few1"), str(reports / "few2"), "-o", "few"]) == 4
    assert f"{one} was selected by --limit=6 in few1 and by --limit=10 in few2" in capsys.readouterr().err
    assert not (reports / "few").exists()
    for number in (1, 2, 3):
        ask("s", f"--shard={number}/3", one)
    capsys.readouterr()
    assert main(["baseline", str(reports / "s"), "-o", str(phantom.path / "s.medvqa")]) == 0


def test_an_incomplete_merged_run_is_replaced(phantom: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """By a merge of the same runs and more; by nothing else, and not if somebody put a file there."""
    reports = phantom.path / "reports"
    common = ("--model=random", "--benchmark=phantom-mediconfusion", "-p", "no:randomly")
    for number in (1, 2):
        phantom.runpytest_inprocess(*common, f"--run=s-{number}of2", f"--shard={number}/2")
    one, two, merged = (str(reports / name) for name in ("s-1of2", "s-2of2", "s"))

    def refused(*runs: str) -> str:
        assert main(["merge", *runs, "-o", merged]) == 4
        return capsys.readouterr().err

    assert main(["merge", one, "-o", merged]) == 1
    assert "to run shard 2/2: type the command of s-1of2 with --shard=2/2 --run=s-2of2" in capsys.readouterr().out
    assert "reports/s exists, and was merged from s-1of2 too: name another with -o" in refused(two)
    assert "reports/s is one of the runs: name another with -o" in refused(one, merged)
    note = reports / "s" / "note.txt"
    note.touch()
    assert "reports/s exists, and holds note.txt, which medvqa merge does not write" in refused(one, two)
    note.unlink()
    before = sorted(reports.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join, "write", lambda *_: (_ for _ in ()).throw(UsageError("the disk is full")))
        assert "the disk is full" in refused(one, two)
    assert sorted(reports.iterdir()) == before
    assert (reports / "s" / "metrics.json").exists()
    assert main(["merge", one, two, "-o", merged]) == 0
    assert sorted(reports.iterdir()) == before
    capsys.readouterr()
    assert "reports/s exists, and is complete: name another with -o" in refused(one, two)


KILLED = """
import importlib, os, signal, sys
from medvqa.cli import main

module, name = sys.argv[1:3]
setattr(importlib.import_module(module), name, lambda *given: os.kill(os.getpid(), signal.SIGKILL))
main(sys.argv[3:])
"""


@pytest.mark.parametrize(
    ("module", "name"), [("medvqa.records.join", "write_run"), ("medvqa.report", "write"), ("os", "replace")]
)
def test_a_killed_merge_or_combine_is_repeated(
    phantom: pytest.Pytester, capsys: pytest.CaptureFixture[str], module: str, name: str
) -> None:
    """At any point: there is no folder of that name before all of it is written, and nothing is left of the first."""
    reports = phantom.path / "reports"
    common = ("--model=random", "--benchmark=phantom-mediconfusion", "--limit=4", "-p", "no:randomly")
    for number in (1, 2):
        phantom.runpytest_inprocess(*common, f"--run=s-{number}of2", f"--shard={number}/2")
    shards = [str(reports / f"s-{number}of2") for number in (1, 2)]
    assert main(["merge", shards[0], "-o", "s"]) == 1
    partial = measures(reports / "s")
    before = sorted(reports.iterdir())
    for words in (["merge", *shards, "-o", "s"], ["combine", shards[0], "-o", "vote"]):
        killed = subprocess.run([sys.executable, "-c", KILLED, module, name, *words], cwd=phantom.path, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert measures(reports / "s") == partial or words[0] == "combine"
        assert not (reports / "vote").exists()
        assert main(words) == 0
        assert measures(reports / words[-1])
        assert sorted(path for path in reports.iterdir() if path.name != "vote") == before
    capsys.readouterr()
    assert main(["combine", *shards[:1], "-o", "vote"]) == 4
    assert "reports/vote exists: name another with -o" in capsys.readouterr().err


KILLED_AT_EACH_CALL = """
import json, os, shutil, signal, sys
from pathlib import Path
from medvqa.cli import main

os.chdir(sys.argv[1])
words, start, name = sys.argv[2:], Path("start"), sys.argv[-1]

def kill_at(number):
    left = number
    def count(event, given):
        nonlocal left
        written = event == "open" and "reports" in str(given[0]) and given[2] & (os.O_WRONLY | os.O_RDWR)
        if written or event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)

def run(number):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        if number:
            kill_at(number)
        os._exit(main(words))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

seen, number, code = [], 0, None
main(words)  # imports everything
while code != 0:
    number += 1
    shutil.rmtree("reports")
    shutil.copytree(start, "reports")
    code = run(number)
    there = Path("reports", name, "metrics.json")
    first = json.loads(there.read_text())["results"]["number"] if there.exists() else 0
    again = run(0)
    last = json.loads(there.read_text())["results"]["number"]
    hidden = sorted(path.name for path in Path("reports").iterdir() if path.name.startswith("." + name))
    seen.append((code, first, again, last, hidden))
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["merge", "combine"])
def test_a_join_that_is_killed_at_any_call_is_repeated(phantom: pytest.Pytester, command: str) -> None:
    """At each call of the file system: the folder is as it was, whole, or for a moment not there."""
    reports = phantom.path / "reports"
    common = ("--model=random", "--benchmark=phantom-mediconfusion", "--limit=4", "-p", "no:randomly")
    for number in (1, 2):
        phantom.runpytest_inprocess(*common, f"--run=s-{number}of2", f"--shard={number}/2")
    shards = [f"reports/s-{number}of2" for number in (1, 2)]
    before, results = 0, len((reports / "s-1of2/results.jsonl").read_bytes().splitlines())
    if command == "merge":
        assert main(["merge", shards[0], "-o", "s"]) == 1
        before, results = results, results + len((reports / "s-2of2/results.jsonl").read_bytes().splitlines())
    shutil.copytree(reports, phantom.path / "start")
    words = [command, *(shards if command == "merge" else shards[:1]), "-o", "s"]
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_EACH_CALL, str(phantom.path), *words], check=True, stdout=subprocess.PIPE
    )
    *killed, (code, *_) = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert len(killed) > 20
    for at, (code, first, again, last, hidden) in enumerate(killed, 1):
        assert code == -signal.SIGKILL
        assert first in (before, 0, results), at
        assert again == (4 if first == results else 0), at
        assert last == results
        assert not hidden or first == results, at


def test_a_folder_that_another_process_makes_is_left_to_it(
    phantom: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("--model=random", "--benchmark=phantom-mediconfusion", "--limit=4", "-p", "no:randomly")
    phantom.runpytest_inprocess(*common, "--run=a")
    with join.making(phantom.path / "reports/s") as place:
        assert main(["merge", "reports/a", "-o", "s"]) == 4
        join.write(merge([join.load(Path("reports/a"))], "s"), place)
    assert "run '.s.making' is being written by another process" in capsys.readouterr().err
    assert sorted(path.name for path in Path("reports").iterdir() if path.name[0] != ".") == ["a", "s"]


@pytest.mark.parametrize("spread", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["serial", "n2"])
def test_an_empty_shard_is_recorded(
    phantom: pytest.Pytester, spread: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """It has exit code 0, and is not missing; but no question at all is exit code 5, as ever."""
    reports = phantom.path / "reports"
    common = ("--model=random", "--benchmark=phantom-mediconfusion", "--limit=2", "-p", "no:randomly", *spread)
    ask = phantom.runpytest_subprocess if spread else phantom.runpytest_inprocess
    assert ask(*common, "--run=whole").ret == 0
    for number in (1, 2):
        done = ask(*common, f"--run=s-{number}of2", f"--shard={number}/2")
        assert done.ret == 0
    done.stdout.fnmatch_lines(["shard 2/2 is empty: there are fewer groups*"])
    assert "to go on" not in done.stdout.str()
    capsys.readouterr()
    assert json.loads((reports / "s-2of2" / "run.json").read_text())["selection"]["questions"] == 0
    assert main(["merge", *(str(reports / f"s-{number}of2") for number in (1, 2)), "-o", "s"]) == 0
    assert measures(reports / "s") == measures(reports / "whole")
    assert "missing" not in capsys.readouterr().out
    assert ask(*common, "--run=none", "--shard=1/2", "-k", "nosuch").ret == 5
    assert not (reports / "none").exists()


def test_a_benchmark_that_is_not_known_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder(tmp_path / "a")
    own = result("q1")
    recorder.append(run_folder.encode(replace(own, item=replace(own.item, benchmark="own"))))
    recorder.close()
    run_folder.write_json(tmp_path / "a" / RUN, ABOUT)
    assert main(["merge", str(tmp_path / "a"), "-o", "w"]) == 4
    assert "holds results of benchmark 'own', which is not known here" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()


# --- answers that become samples -----------------------------------------------------------------------------

VOTE = Protocol(samples=1, combine="vote")
SIGNATURE = {"data": "d1", "extraction": "sound", "answers": "given"}


def about_samples(name: str, **changes: Any) -> dict[str, Any]:
    benchmark = {
        "data_sha256": "d1",
        "signature": SIGNATURE,
        "prompts": {"mc": "slake/mc@1"},
        "questions": {"mc": 2},
        "max_tokens": {"mc": {"single_choice": 32}},
    }
    return {
        "name": name,
        "started": f"2026-01-0{1 + len(name) % 9}T00:00:00+00:00",
        "finished": "2026-01-02T00:00:00+00:00",
        "model": {"name": "warm", "fingerprint": "f1"},
        "config": {"backend": "openai", "argument": "warm", "options": {}},
        "techniques": ["mc"],
        "extraction": "sound",
        "benchmarks": {"slake": {**benchmark, **changes.pop("benchmark", {})}},
        "usage": {"input": 10.0},
        **changes,
    }


def samples_of(name: str, samples: tuple[int, ...] = (0,), *, letter: str = "A", **changes: Any) -> RunPart:
    items = [Item(f"q{n}", "slake", "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",)) for n in range(2)]
    results = tuple(
        Result(
            name,
            item,
            "p",
            Answer(letter, seconds=0.1 * len(name) + sample),
            Score(1.0, "correct", ("A",)),
            sample=sample,
        )
        for item in items
        for sample in samples
    )
    repeat = len(samples) if samples != (0,) else None
    return RunPart(
        name,
        record(about_samples(name, repeat=repeat, **changes)),
        results,
        keys=tuple(result.key for result in results),
    )


def test_samples_are_numbered_in_the_order_of_the_runs() -> None:
    pooled = merge([samples_of("one", (1, 2)), samples_of("three"), samples_of("seven77", (1, 2, 3))], "all", VOTE)
    assert [(r.item.id, r.sample, r.run) for r in pooled.results if r.item.id == "q0"] == [
        ("q0", 1, "one"),
        ("q0", 2, "one"),
        ("q0", 3, "three"),
        ("q0", 4, "seven77"),
        ("q0", 5, "seven77"),
        ("q0", 6, "seven77"),
    ]
    assert (pooled.about.as_json()["repeat"], pooled.about.as_json()["protocol"]) == (6, {"combine": "vote"})
    assert pooled.about.as_json()["benchmarks"]["slake"]["signature"] == {**SIGNATURE, "repeat": "6", "combine": "vote"}
    origin = [(entry["name"], entry["samples"]) for entry in pooled.about.as_json()["merged"]]
    assert origin == [("one", {"1": 1, "2": 2}), ("three", {"0": 3}), ("seven77", {"1": 4, "2": 5, "3": 6})]
    assert pooled.about.as_json()["usage"] == {"input": 30.0}
    assert pooled.about.as_json()["selection"]["questions"] == 12
    assert pooled.complete
    assert pooled.missing == ()


@examples(40)
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_every_answer_becomes_one_sample(sizes: list[int]) -> None:
    runs = [samples_of("r" * (1 + n), tuple(range(1, size + 1)) or (0,)) for n, size in enumerate(sizes)]
    pooled = merge(runs, "all", VOTE)
    total = sum(max(size, 1) for size in sizes)
    assert pooled.about.as_json()["repeat"] == total
    assert len({result.key for result in pooled.results}) == len(pooled.results) == 2 * total
    for item in ("q0", "q1"):
        assert [r.sample for r in pooled.results if r.item.id == item] == list(range(1, total + 1))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"benchmark": {"data_sha256": "d2"}}, "slake: the data set is d1 in one and d2 in three"),
        (
            {"benchmark": {"prompts": {"mc": "slake/mc@2"}}},
            "slake: the prompt of mc is slake/mc@1 in one and slake/mc@2",
        ),
        ({"extraction": "official"}, "the extraction is sound in one and official in three"),
        ({"judge": {"identity": "echo@1"}}, "the judge's identity is not set in one and 'echo@1' in three"),
        ({"ablation": "blank"}, "the ablation is none in one and blank in three"),
        (
            {"benchmark": {"signature": {**SIGNATURE, "shots": "3"}}, "protocol": {"shots": 3}},
            "shots is not set in one and 3 in three",
        ),
        (
            {"benchmark": {"max_tokens": {"mc": {"single_choice": 8}}}},
            "slake: the token limit of mc is 32 in one and 8 in three",
        ),
    ],
)
def test_runs_that_differ_are_refused_by_the_difference(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError) as error:
        merge([samples_of("one"), samples_of("three", **changes)], "all", VOTE)
    assert str(error.value).startswith("these runs cannot be combined: ")
    assert line in str(error.value)


def test_models_may_differ_in_a_vote_alone() -> None:
    cold = {"model": {"name": "cold", "fingerprint": "f2"}, "benchmark": {"max_tokens": {"mc": {"single_choice": 8}}}}
    pooled = merge([samples_of("one"), samples_of("three", letter="B", **cold)], "all", VOTE)
    assert pooled.notes == ("these answers are those of 2 models: cold, warm",)
    assert pooled.about.as_json()["model"]["name"] == "warm + cold"
    assert pooled.about.as_json()["benchmarks"]["slake"]["signature"]["models"] == "warm+cold"
    with pytest.raises(UsageError, match="only --combine=vote takes answers of several models"):
        merge([samples_of("one"), samples_of("three", **cold)], "all", Protocol(samples=1))


def test_recordings_do_not_tell_their_model() -> None:
    recorded = [
        samples_of(
            name, letter=letter, model={"name": f"replay:{name}", "fingerprint": name}, config={"backend": "replay"}
        )
        for name, letter in (("one", "A"), ("three", "B"))
    ]
    pooled = merge(recorded, "all", Protocol(samples=1))
    assert pooled.notes == ("these answers are recordings: they do not tell whether one model gave them",)


def test_one_stored_answer_is_no_two_samples() -> None:
    one = samples_of("one", (1, 2))
    other = replace(samples_of("three", (1, 2)), results=tuple(replace(r, run="three") for r in one.results))
    with pytest.raises(
        UsageError, match="4 answers of three are stored answers that one has, too, so they are no further"
    ):
        merge([one, other], "all", VOTE)
    # Equal texts that took other times are answers of their own; a note says that they are equal.
    (note,) = merge([one, samples_of("three", (1, 2))], "all", VOTE).notes
    assert note.startswith("these runs gave equal answers to every question")


def test_other_questions_are_refused_and_missing_answers_are_named() -> None:
    one, three = samples_of("one"), samples_of("three", letter="B")
    fewer = replace(three, results=three.results[:1], keys=three.keys[:1])
    with pytest.raises(UsageError, match=r"1 of the questions of one are not in three; medvqa compare"):
        merge([one, fewer], "all", VOTE)
    lacking = replace(three, results=three.results[:1])
    pooled = merge([one, lacking], "all", VOTE)
    assert pooled.missing == ("slake/q1-sample2",)
    assert not pooled.complete
