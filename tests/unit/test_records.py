"""The run folder: whole lines, the last line of an item counts, torn lines are told."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import records
from medvqa.items import KINDS, SCORED_OUTCOMES, Answer, Image, Item, QuestionKey, Result, Score, UsageError
from support.laws import examples

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
LETTERS = st.dictionaries(st.sampled_from("ABCDE"), TEXT, max_size=5)
ITEMS = st.builds(
    Item,
    id=TEXT,
    benchmark=TEXT,
    kind=st.sampled_from(KINDS),
    question=TEXT,
    options=LETTERS,
    answers=st.tuples(TEXT),
    images=st.tuples(
        st.builds(Image, name=TEXT, start=st.integers(0, 2**40), length=st.none() | st.integers(0, 2**30))
    ),
    tags=st.dictionaries(TEXT, st.tuples(TEXT, TEXT), max_size=3),
    pair_id=st.none() | TEXT,
    cluster_id=st.none() | TEXT,
    extra=st.dictionaries(TEXT, TEXT | st.integers(-(2**53), 2**53) | st.none(), max_size=3),
)
TEXTS_OF_SCORE = {"extracted": st.tuples(TEXT), "why": TEXT}
SCORES = st.builds(
    Score, value=st.floats(0, 1), outcome=st.sampled_from(sorted(SCORED_OUTCOMES)), **TEXTS_OF_SCORE
) | st.builds(Score, value=st.none(), outcome=st.sampled_from(["unscored", "error"]), **TEXTS_OF_SCORE)
RESULTS = st.builds(
    Result,
    run=TEXT,
    item=ITEMS,
    prompt=TEXT,
    answer=st.none() | st.builds(Answer, text=TEXT, seconds=st.none() | st.floats(0, 1e6)),
    score=SCORES,
    sample=st.integers(0, 5),
    variant=TEXT,
)


def result(item_id: str, outcome: str = "correct", **fields: object) -> Result:
    item = Item(item_id, "slake", "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",), **fields)
    return Result("run", item, "0" * 64, Answer("A"), Score(1.0, outcome, ("A",)))


@given(RESULTS)
@examples(100)
def test_a_result_survives_its_line(result: Result) -> None:
    line = records.encode(result)
    assert b"\n" not in line
    assert records.decode(line) == result


def test_a_line_holds_no_path_of_the_machine() -> None:
    image = Image("slake/1.png", path="/home/someone/data/slake/1.png")
    assert b"someone" not in records.encode(result("1", images=(image,)))


def test_the_last_line_of_an_item_counts_and_results_are_sorted(tmp_path: Path) -> None:
    recorder = records.Recorder(tmp_path / "run")
    for each in (result("2"), result("1", "wrong"), result("1", "correct")):
        recorder.append(records.encode(each))
    recorder.close()
    stored = records.read(tmp_path / "run")
    assert [(r.item.id, r.score.outcome) for r in stored.results] == [("1", "correct"), ("2", "correct")]
    assert stored.unread == ()


def test_the_digest_of_results_depends_on_the_last_lines_alone(tmp_path: Path) -> None:
    decisive = [result("1"), result("2", "wrong")]
    digest, number = records.decisive_digest(decisive)
    assert number == 2
    assert records.decisive_digest([result("2"), *decisive[::-1]]) == (digest, 2)
    (tmp_path / "results.jsonl").write_bytes(
        b"".join(records.encode(each) + b"\n" for each in (result("2"), decisive[1], decisive[0]))
    )
    assert records.decisive_digest(records.read(tmp_path).results) == (digest, 2)
    others = (
        [decisive[0]],
        [result("1", "partial"), decisive[1]],
        [result("1", tags={"organ": ("liver",)}), decisive[1]],
    )
    assert len({digest, *(records.decisive_digest(other)[0] for other in others)}) == 4


def test_the_mark_of_a_file_is_that_of_the_bytes_that_were_read(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"".join(records.encode(result(str(number))) + b"\n" for number in range(40)))
    mark = records.read(tmp_path).mark
    assert mark == records.present_mark(tmp_path)
    assert mark.bytes == path.stat().st_size
    content = path.read_bytes()
    path.write_bytes(content + records.encode(result("40")) + b"\n")
    assert records.present_mark(tmp_path) != mark
    path.write_bytes(content[:-10] + b"x" * 9 + b"\n")
    assert records.present_mark(tmp_path) != mark
    path.write_bytes(content)
    os.utime(path, (1, 1))
    assert records.present_mark(tmp_path) == mark
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert records.present_mark(tmp_path) is None


def test_an_empty_variant_is_not_written() -> None:
    """Lines are those of versions before there were variants, and theirs are read as empty."""
    plain = result("1")
    line = records.encode(plain)
    assert line.endswith(b',"judgement":null,"sample":0}')
    assert records.decode(line).variant == ""
    rotated = replace(plain, sample=2, variant="BA")
    assert records.encode(rotated).endswith(b',"sample":2,"variant":"BA"}')
    assert records.decode(records.encode(rotated)) == rotated


def test_variants_of_a_question_are_kept_apart(tmp_path: Path) -> None:
    plain = result("1")
    recorder = records.Recorder(tmp_path / "run")
    for each in (replace(plain, variant="BA"), replace(plain, sample=2), plain):
        recorder.append(records.encode(each))
    recorder.close()
    stored = records.read(tmp_path / "run").results
    assert [each.key for each in stored] == [
        QuestionKey("slake", "1", "mc"),
        QuestionKey("slake", "1", "mc", "", 2),
        QuestionKey("slake", "1", "mc", "BA"),
    ]
    assert [each.key.name(technique=True) for each in stored] == ["slake/1-mc", "slake/1-mc-sample2", "slake/1-mc-BA"]
    assert [each.key.stored for each in stored][1:] == [("slake", "1", "mc", 2), ("slake", "1", "mc", "BA", 0)]
    assert len({each.key.question for each in stored}) == 1


def test_a_torn_last_line_is_told_and_costs_no_other(tmp_path: Path) -> None:
    recorder = records.Recorder(tmp_path / "run")
    recorder.append(records.encode(result("1")))
    recorder.close()
    with (tmp_path / "run" / "results.jsonl").open("ab") as file:
        file.write(records.encode(result("2"))[:40])
    stored = records.read(tmp_path / "run")
    assert [r.item.id for r in stored.results] == ["1"]
    assert "results.jsonl line 2" in stored.unread[0]
    assert "torn" in stored.unread[0]


@pytest.mark.parametrize("sample", [10**400, 2**63, -1])
def test_a_sample_that_no_table_can_hold_is_an_unread_line(tmp_path: Path, sample: int) -> None:
    line = json.dumps(json.loads(records.encode(result("1"))) | {"sample": sample}).encode()
    (tmp_path / "results.jsonl").write_bytes(line + b"\n" + records.encode(result("2")) + b"\n")
    stored = records.read(tmp_path)
    assert [r.item.id for r in stored.results] == ["2"]
    assert len(stored.unread) == 1
    assert "line 1: " in stored.unread[0]


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from medvqa import records\n"
        "recorder = records.Recorder(pathlib.Path(sys.argv[1]))\n"
        "for n in range(1000):\n"
        "    recorder.append(b'{\"n\": %d}' % n)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "run")], check=False)
    lines = (tmp_path / "run" / "results.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(1000))


def test_a_recorder_goes_on_where_a_line_was_torn(tmp_path: Path) -> None:
    recorder = records.Recorder(tmp_path / "run")
    recorder.append(records.encode(result("1")))
    recorder.close()
    with (tmp_path / "run" / "results.jsonl").open("ab") as file:
        file.write(records.encode(result("2"))[:40])
    recorder = records.Recorder(tmp_path / "run")
    recorder.append(records.encode(result("3")))
    recorder.close()
    stored = records.read(tmp_path / "run")
    assert [r.item.id for r in stored.results] == ["1", "3"]
    assert len(stored.unread) == 1
    assert [line for line, _ in records.lines(tmp_path / "run")] == [records.encode(result(n)) for n in "13"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"run folder .*file/run cannot be written: Not a directory"):
        records.Recorder(tmp_path / "file" / "run")


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = records.Recorder(tmp_path / "run")
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(recorder, "_file", full)
    with pytest.raises(OSError, match="No space left"):
        recorder.append(b"{}")


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "-x", "a" * 121, "nul\0", "tab\t", "é"])
def test_names_that_are_no_folder_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a run's name is"):
        records.check_name(name, "--run")


def test_a_run_is_named_by_time_and_model(tmp_path: Path) -> None:
    when = "20260102-030405"
    assert records.run_name("replay:/data/gpt 4o.json", when, tmp_path) == f"{when}-replay-gpt-4o.json"
    for name in (f"{when}-random", f"{when}-random-2", f"{when}-random-3"):
        assert records.run_name("random", when, tmp_path) == name
        (tmp_path / name).mkdir()


@given(st.text(max_size=200))
def test_generated_run_names_are_valid(model: str) -> None:
    folder = Path("nosuchfolder")
    records.check_name(records.run_name(model, "20260101-000000", folder), "--run")


def test_what_is_no_run_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run folder: it has no results\.jsonl"):
        records.read(tmp_path)
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        records.read_run(tmp_path)
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(UsageError, match=r"run\.json: damaged"):
        records.read_run(tmp_path)


def test_json_has_null_and_never_nan(tmp_path: Path) -> None:
    records.write_json(tmp_path / "x.json", {"value": float("nan"), "low": float("inf")})
    assert json.loads((tmp_path / "x.json").read_text()) == {"value": None, "low": None}


@given(st.permutations([result(str(n)).item for n in range(5)]))
def test_the_data_digest_does_not_depend_on_order(items: list[Item]) -> None:
    assert records.data_digest(items) == records.data_digest(sorted(items, key=lambda item: item.id))


def test_the_data_digest_sees_every_part_of_a_question() -> None:
    plain = result("1").item
    changes = [
        {"question": "What?"},
        {"answers": ("B",)},
        {"options": {"A": "b", "B": "a"}},
        {"images": (Image("other.png"),)},
    ]
    items = [plain, *(replace(plain, **change) for change in changes)]
    assert len({records.data_digest([item]) for item in items}) == 5


@pytest.mark.parametrize(
    ("was", "now", "differs"),
    [
        ({"argument": "<a>1</a>"}, {"argument": "<a>2</a>"}, True),
        ({"argument": "org/tiny"}, {"argument": "other/tiny"}, True),
        ({"argument": "/here/tiny", "path": "tiny"}, {"argument": "/there/tiny", "path": "tiny"}, False),
        ({"argument": "/here/tiny", "path": "tiny"}, {"argument": "/here/huge", "path": "huge"}, True),
        ({"argument": "/here/tiny", "path": "tiny"}, {"argument": "org/tiny"}, True),
        ({"argument": "/here/tiny"}, {"argument": "/here/tiny", "path": "tiny"}, False),
        ({"argument": "/here/tiny"}, {"argument": "/there/tiny", "path": "tiny"}, True),
        ({"argument": "/here/tiny", "path": "tiny"}, {"argument": "/here/tiny"}, False),
    ],
)
def test_of_an_argument_that_is_a_path_the_last_part_counts(
    was: dict[str, str], now: dict[str, str], differs: bool
) -> None:
    before, after = ({"config": {"backend": "x", "options": {}, **each}, "benchmarks": {}} for each in (was, now))
    told = [f"the model's argument was {was['argument']!r} and is {now['argument']!r}"]
    assert records.differences(before, after) == (told if differs else [])


# What was selected, and what of it is there


def keys(*names: str) -> list[QuestionKey]:
    return [QuestionKey("slake", name, "mc") for name in names]


TOLD = {"techniques": ["mc"], "finished": "2026-01-02", "benchmarks": {"slake": {"questions": {"mc": 9}}}}


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_coverage_is_complete_if_every_selected_question_has_a_result(selected: set[int], there: set[int]) -> None:
    wanted, have = (keys(*map(str, numbers)) for numbers in (selected, there))
    covered = records.cover(TOLD, wanted, have)
    lack = selected - there
    assert covered.complete == (not lack)
    assert len(covered.missing) == len(lack)
    if selected:
        assert (covered.selected, covered.there) == (len(selected), len(selected & there))
    assert bool(covered.lines) == bool(lack)


def test_keys_that_are_lost_leave_a_run_unfinished() -> None:
    told = {**TOLD, "selection": {"questions": 3}}
    covered = records.cover(told, (), keys("1", "2"))
    assert covered.lines == ("unfinished: 2 of 3 questions have a result",)
    assert records.cover(told, keys("4"), keys("1", "2", "3")).missing == ("slake/4",)
    assert records.cover(told, (), keys("1", "2", "3")).complete, "a folder that was copied in part"


@pytest.mark.parametrize("content", [b"damaged", b'["\xff", "1", "mc", "", 0]', b"[" * 100_000])
def test_a_damaged_file_of_keys_is_told_and_costs_no_report(tmp_path: Path, content: bytes) -> None:
    records.Recorder(tmp_path).close()
    records.write_json(tmp_path / records.RUN, {**TOLD, "selection": {"questions": 3}})
    (tmp_path / records.SELECTED).write_bytes(content)
    covered = records.coverage(tmp_path)
    assert covered.selected == 3
    assert f"{tmp_path / records.SELECTED}: damaged" in covered.reasons[-1]


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({}, "unfinished: the run did not end, and its missing results are not known"),
        (
            {"merged": [{"finished": "2026-01-02"}, {}]},
            "unfinished: the run did not end, and its missing results are not known",
        ),
        ({"finished": "x", "missing": ["slake/1"]}, "unfinished: 1 question has no result"),
        ({"finished": "x", "options": {"shard": "2/3"}}, "shards 1, 3 of 3 are missing"),
    ],
)
def test_what_a_run_of_an_earlier_version_lacks_is_told(told: dict[str, Any], reason: str) -> None:
    covered = records.cover(told, (), ())
    assert covered.lines[0] == reason
    assert not covered.complete
    assert records.cover({"finished": "x"}, (), ()).complete


def test_a_share_of_a_billion_is_told_in_few_words() -> None:
    told = {"finished": "x", "options": {"shard": "1/999999999"}}
    assert records.cover(told, (), ()).absent == ("shards 2-999999999 of 999999999 are missing",)


def test_a_selection_counts_items_and_tells_how_they_were_chosen() -> None:
    twice = [QuestionKey("slake", name, "mc", sample=sample) for name in "ab" for sample in (1, 2)]
    run = {"benchmarks": {"slake": {"questions": {"mc": 9}}, "other": {"questions": {"mc": 4}}, "old": {}}}
    chosen = records.select_from(twice, run, ["-k a", "-k a", "--limit=2"])
    assert records.Selection.of({"selection": chosen.as_json()}) == chosen
    assert chosen.line("slake", "mc") == "2 of 9, by -k a --limit=2"
    assert chosen.line("other", "mc") == "0 of 4, by -k a --limit=2"
    assert chosen.line("old", "mc") == ""
    assert (chosen.questions, chosen.whole, chosen.ranked_by_outcome) == (4, False, False)
    failed = records.select_from(twice, run, ["--lf"], by_outcome=True)
    assert failed.ranked_by_outcome
    nine = [QuestionKey("slake", str(number), "mc") for number in range(9)]
    whole = records.select_from(nine, {"benchmarks": {"slake": {"questions": {"mc": 9}}}}, ["--lf"], by_outcome=True)
    assert whole.whole
    assert not whole.ranked_by_outcome
    assert whole.line("slake", "mc") == ""
    assert "every" not in whole.as_json()


def test_a_selection_of_some_samples_is_no_whole() -> None:
    """With --lf, each question may have a wrong sample, so that every item is there."""
    nine = [QuestionKey("slake", str(number), "mc", sample=1) for number in range(9)]
    run = {"benchmarks": {"slake": {"questions": {"mc": 9}}}}
    part = records.select_from(nine, run, ["--lf"], by_outcome=True, every=False)
    assert records.Selection.of({"selection": part.as_json()}) == part
    assert (part.whole, part.ranked_by_outcome) == (False, True)
    assert part.line("slake", "mc") == "9 of 9, of some questions a part of the answers, by --lf"
