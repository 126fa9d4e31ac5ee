"""The run folder: whole lines, the last line of an item counts, torn lines are told."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.image import TextCell
from medvqa.items import KINDS, SCORED_OUTCOMES, Answer, Image, Item, QuestionKey, Result, Score, UsageError
from medvqa.records import configuration, run_folder, run_record
from medvqa.records.run_folder import Recorder
from support.laws import examples
from support.runs import record

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
        st.builds(Image, name=TEXT, cell=st.none() | st.builds(TextCell, st.integers(0, 2**40), st.integers(0, 2**30)))
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
    line = run_folder.encode(result)
    assert b"\n" not in line
    assert run_folder.decode(line) == result


def test_a_line_holds_no_path_of_the_machine() -> None:
    image = Image("slake/1.png", path="/home/someone/data/slake/1.png")
    assert b"someone" not in run_folder.encode(result("1", images=(image,)))


def test_the_last_line_of_an_item_counts_and_results_are_sorted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    for each in (result("2"), result("1", "wrong"), result("1", "correct")):
        recorder.append(run_folder.encode(each))
    recorder.close()
    stored = run_folder.read(tmp_path / "run")
    assert [(r.item.id, r.score.outcome) for r in stored.results] == [("1", "correct"), ("2", "correct")]
    assert stored.unread == ()


@given(
    st.lists(
        st.builds(
            Result,
            run=st.just("run"),
            item=st.builds(
                Item,
                id=st.sampled_from("12"),
                benchmark=st.just("slake"),
                kind=st.sampled_from(KINDS),
                options=st.permutations([("A", "a"), ("B", "b")]).map(dict),
                images=st.lists(st.builds(Image, name=st.sampled_from("xy")), max_size=2).map(tuple),
                answers=st.sampled_from([(), ("A",), ("A", "B")]),
                tags=st.just({}) | st.permutations([("organ", ("liver",)), ("view", ("ap", "pa"))]).map(dict),
                extra=st.sampled_from([{}, {"age": 1}, {"age": 1.0}, {"age": True}, {"age": [1]}]),
            ),
            prompt=st.just(""),
            answer=st.builds(Answer, text=TEXT, usage=st.sampled_from([None, {"input": 0.0}, {"input": -0.0}])),
            score=SCORES,
            sample=st.integers(0, 2),
        ),
        max_size=8,
    )
)
@examples(200)
def test_results_that_share_parts_are_those_of_their_lines(results: list[Result]) -> None:
    lines = [run_folder.encode(each) for each in results]
    held = [replace(r.item, images=tuple(replace(i, path=f"/data/{i.name}") for i in r.item.images)) for r in results]
    for shared in (run_folder.SharedResults(), run_folder.SharedResults(held[:1]), run_folder.SharedResults(held)):
        read = [shared(run_folder.decode(line)) for line in lines]
        assert [run_folder.encode(each) for each in read] == lines
        assert run_folder.decisive_digest(read) == run_folder.decisive_digest(map(run_folder.decode, lines))


def test_equal_parts_of_results_are_one_object(tmp_path: Path) -> None:
    recorder, extra = Recorder(tmp_path), {"tags": {"organ": ("liver",)}, "images": (Image("1.png", digest="0" * 64),)}
    for each in (result("1", **extra), replace(result("1", **extra), sample=1), result("2", **extra)):
        recorder.append(run_folder.encode(each))
    recorder.close()
    first, again, other = run_folder.read(tmp_path).results
    assert again.item is first.item
    assert other.item.tags is first.item.tags
    assert other.score.extracted is first.score.extracted
    assert again.score is first.score
    assert again.prompt is first.prompt
    assert again.variant is first.variant
    held = replace(first.item, images=(replace(first.item.images[0], path="/data/1.png"),))
    (beside, *_) = run_folder.read(tmp_path, run_folder.SharedResults([held])).results
    assert beside.item.options is held.options
    assert beside.item.images[0].digest is held.images[0].digest
    assert beside.item.images[0].path == ""


def test_lines_are_read_on_from_the_end_of_earlier_ones(tmp_path: Path) -> None:
    written = [run_folder.encode(result("1")), b"", b"torn", run_folder.encode(result("2"))]
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"\n".join(written) + b"\n")
    with path.open("rb") as file:
        first, torn, last = run_folder.lines(file, path)
        file.seek(last.start)
        assert file.read(last.length) == written[3] + b"\n"
        assert (first.start, torn.result, torn.number) == (0, None, 3)
        assert f"{path} line 3: " in torn.problem
        file.seek(torn.start)
        assert list(run_folder.lines(file, path, torn.start, torn.number - 1)) == [torn, last]


def test_the_digest_of_results_depends_on_the_last_lines_alone(tmp_path: Path) -> None:
    decisive = [result("1"), result("2", "wrong")]
    digest, number = run_folder.decisive_digest(decisive)
    assert number == 2
    assert run_folder.decisive_digest([result("2"), *decisive[::-1]]) == (digest, 2)
    (tmp_path / "results.jsonl").write_bytes(
        b"".join(run_folder.encode(each) + b"\n" for each in (result("2"), decisive[1], decisive[0]))
    )
    assert run_folder.decisive_digest(run_folder.read(tmp_path).results) == (digest, 2)
    others = (
        [decisive[0]],
        [result("1", "partial"), decisive[1]],
        [result("1", tags={"organ": ("liver",)}), decisive[1]],
    )
    assert len({digest, *(run_folder.decisive_digest(other)[0] for other in others)}) == 4


def test_the_mark_of_a_file_is_that_of_the_bytes_that_were_read(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"".join(run_folder.encode(result(str(number))) + b"\n" for number in range(40)))
    mark = run_folder.read(tmp_path).mark
    assert mark == run_folder.present_mark(tmp_path)
    assert mark.bytes == path.stat().st_size
    content = path.read_bytes()
    path.write_bytes(content + run_folder.encode(result("40")) + b"\n")
    assert run_folder.present_mark(tmp_path) != mark
    path.write_bytes(content[:-10] + b"x" * 9 + b"\n")
    assert run_folder.present_mark(tmp_path) != mark
    path.write_bytes(content)
    os.utime(path, (1, 1))
    assert run_folder.present_mark(tmp_path) == mark
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert run_folder.present_mark(tmp_path) is None


def test_an_empty_variant_is_not_written() -> None:
    """Lines are those of versions before there were variants, and theirs are read as empty."""
    plain = result("1")
    line = run_folder.encode(plain)
    assert line.endswith(b',"judgement":null,"sample":0}')
    assert run_folder.decode(line).variant == ""
    rotated = replace(plain, sample=2, variant="BA")
    assert run_folder.encode(rotated).endswith(b',"sample":2,"variant":"BA"}')
    assert run_folder.decode(run_folder.encode(rotated)) == rotated


def test_variants_of_a_question_are_kept_apart(tmp_path: Path) -> None:
    plain = result("1")
    recorder = Recorder(tmp_path / "run")
    for each in (replace(plain, variant="BA"), replace(plain, sample=2), plain):
        recorder.append(run_folder.encode(each))
    recorder.close()
    stored = run_folder.read(tmp_path / "run").results
    assert [each.key for each in stored] == [
        QuestionKey("slake", "1", "mc"),
        QuestionKey("slake", "1", "mc", "", 2),
        QuestionKey("slake", "1", "mc", "BA"),
    ]
    assert [each.key.name(technique=True) for each in stored] == ["slake/1-mc", "slake/1-mc-sample2", "slake/1-mc-BA"]
    assert [each.key.stored for each in stored][1:] == [("slake", "1", "mc", 2), ("slake", "1", "mc", "BA", 0)]
    assert len({each.key.question for each in stored}) == 1


def test_a_torn_last_line_is_told_and_costs_no_other(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.append(run_folder.encode(result("1")))
    recorder.close()
    with (tmp_path / "run" / "results.jsonl").open("ab") as file:
        file.write(run_folder.encode(result("2"))[:40])
    stored = run_folder.read(tmp_path / "run")
    assert [r.item.id for r in stored.results] == ["1"]
    assert "results.jsonl line 2" in stored.unread[0]
    assert "torn" in stored.unread[0]


@pytest.mark.parametrize("sample", [10**400, 2**63, -1])
def test_a_sample_that_no_table_can_hold_is_an_unread_line(tmp_path: Path, sample: int) -> None:
    line = json.dumps(json.loads(run_folder.encode(result("1"))) | {"sample": sample}).encode()
    (tmp_path / "results.jsonl").write_bytes(line + b"\n" + run_folder.encode(result("2")) + b"\n")
    stored = run_folder.read(tmp_path)
    assert [r.item.id for r in stored.results] == ["2"]
    assert len(stored.unread) == 1
    assert "line 1: " in stored.unread[0]


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from medvqa.records import run_folder\n"
        "recorder = run_folder.Recorder(pathlib.Path(sys.argv[1]))\n"
        "for n in range(1000):\n"
        "    recorder.append(b'{\"n\": %d}' % n)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "run")], check=False)
    lines = (tmp_path / "run" / "results.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(1000))


def test_a_recorder_goes_on_where_a_line_was_torn(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.append(run_folder.encode(result("1")))
    recorder.close()
    with (tmp_path / "run" / "results.jsonl").open("ab") as file:
        file.write(run_folder.encode(result("2"))[:40])
    recorder = Recorder(tmp_path / "run")
    recorder.append(run_folder.encode(result("3")))
    recorder.close()
    stored = run_folder.read(tmp_path / "run")
    assert [r.item.id for r in stored.results] == ["1", "3"]
    assert len(stored.unread) == 1
    assert stored.results == (result("1"), result("3"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"run folder .*file/run cannot be written: Not a directory"):
        Recorder(tmp_path / "file" / "run")


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "run")
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(recorder, "_file", full)
    with pytest.raises(OSError, match="No space left"):
        recorder.append(b"{}")


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "-x", "a" * 121, "nul\0", "tab\t", "é"])
def test_names_that_are_no_folder_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a run's name is"):
        run_folder.check_name(name, "--run")


def test_a_run_is_named_by_time_and_model(tmp_path: Path) -> None:
    when = "20260102-030405"
    assert run_folder.run_name("replay:/data/gpt 4o.json", when, tmp_path) == f"{when}-replay-gpt-4o.json"
    for name in (f"{when}-random", f"{when}-random-2", f"{when}-random-3"):
        assert run_folder.run_name("random", when, tmp_path) == name
        (tmp_path / name).mkdir()


@given(st.text(max_size=200))
def test_generated_run_names_are_valid(model: str) -> None:
    folder = Path("nosuchfolder")
    run_folder.check_name(run_folder.run_name(model, "20260101-000000", folder), "--run")


def test_what_is_no_run_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run folder: it has no results\.jsonl"):
        run_folder.read(tmp_path)
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        run_record.read_run(tmp_path)
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(UsageError, match=r"run\.json: damaged"):
        run_record.read_run(tmp_path)


def test_json_has_null_and_never_nan(tmp_path: Path) -> None:
    run_folder.write_json(tmp_path / "x.json", {"value": float("nan"), "low": float("inf")})
    assert json.loads((tmp_path / "x.json").read_text()) == {"value": None, "low": None}


@given(st.permutations([result(str(n)).item for n in range(5)]))
def test_the_data_digest_does_not_depend_on_order(items: list[Item]) -> None:
    assert run_folder.data_digest(items) == run_folder.data_digest(sorted(items, key=lambda item: item.id))


def test_the_data_digest_sees_every_part_of_a_question() -> None:
    plain = result("1").item
    changes = [
        {"question": "What?"},
        {"answers": ("B",)},
        {"options": {"A": "b", "B": "a"}},
        {"images": (Image("other.png"),)},
    ]
    items = [plain, *(replace(plain, **change) for change in changes)]
    assert len({run_folder.data_digest([item]) for item in items}) == 5


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
    before, after = (
        record({"config": {"backend": "x", "options": {}, **each}, "benchmarks": {}}) for each in (was, now)
    )
    told = [f"the model's argument was {was['argument']!r} and is {now['argument']!r}"]
    assert configuration.why_not_continued(before, after) == (told if differs else [])
