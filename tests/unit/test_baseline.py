"""Baseline files: what they keep, and what a hostile one meets."""

import gzip
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import comparing
from medvqa.cli import main
from medvqa.comparing import Side
from medvqa.items import Answer, DataError, Image, Item, Judgement, MedVQAError, Result, Score, UsageError
from medvqa.records import baseline_file, keyed, run_folder, run_record
from medvqa.records.keyed import BaselineKey, find_key, own_key
from medvqa.records.run_folder import Recorder
from medvqa.records.selected import SELECTED
from support.runs import record

OPTIONS = {"A": "liver", "B": "spleen"}
RUN = record({"name": "first", "model": {"name": "echo"}, "finished": "2026-01-02T11:00:00+00:00"})


def result(n: int, text: str = "A") -> Result:
    item = Item(f"q{n}", "slake", "single_choice", f"{n}?", OPTIONS, ("A",), (Image("a.png", digest="12"),))
    score = Score(float(text == "A"), "correct" if text == "A" else "wrong", (text,), f"it said {text}")
    return Result("first", item, "digest", Answer(text, seconds=0.5), score)


def folder(path: Path, results: list[Result]) -> Path:
    recorder = Recorder(path)
    for each in results:
        recorder.append(run_folder.encode(each))
    recorder.close()
    run_record.write_run(path, RUN)
    return path


def test_a_run_comes_back_sorted(tmp_path: Path) -> None:
    baseline_file.write_baseline(tmp_path / "main", RUN, [result(2), result(1, "B")])
    assert baseline_file.read_baseline(tmp_path / "main") == (RUN, (result(1, "B"), result(2)))


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    baseline_file.write_baseline(tmp_path / "a", RUN, [result(2), result(1)])
    baseline_file.write_baseline(tmp_path / "b", RUN, [result(1), result(2)])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_without_responses_outcomes_and_equality_of_answers_stay(tmp_path: Path) -> None:
    secret = "the patient's name is Rose"
    item = replace(result(3).item, kind="short_answer", options={}, answers=("liver",))
    said = Judgement("judge", "t@1", "score", (f"it said {secret}",))
    open_answer = Result("first", item, "d", Answer(secret), Score(0.5, "partial", (secret,), secret), judgement=said)
    guessed = replace(result(4), answer=Answer(secret, {"A": -0.1234, "B": -2.0}))
    given_ = [result(1), result(2, "B"), open_answer, guessed]
    baseline_file.write_baseline(tmp_path / "main", RUN, given_, responses=False)
    run, kept = baseline_file.read_baseline(tmp_path / "main")
    unpacked = gzip.decompress((tmp_path / "main").read_bytes()).decode()
    assert secret not in unpacked
    assert "0.1234" not in unpacked
    assert [(each.score.value, each.score.outcome) for each in kept] == [
        (g.score.value, g.score.outcome) for g in given_
    ]
    assert kept[1].score.extracted == ("B",), "letters are needed for measures of pairs"
    assert [baseline_file.said(run, k) for k in kept] == [baseline_file.said(RUN, g) for g in given_]
    assert baseline_file.said(run, kept[0]) != baseline_file.said(run, kept[1])
    again = tmp_path / "again"
    baseline_file.write_baseline(again, run, kept, responses=False)
    assert again.read_bytes() == (tmp_path / "main").read_bytes(), "digests are not digested again"


def test_an_answer_that_looks_like_a_digest_is_an_answer() -> None:
    first = result(1)
    lookalike = replace(first, answer=Answer(baseline_file.response_digest(first.answer)))
    assert baseline_file.said(RUN, first) != baseline_file.said(RUN, lookalike)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_any_response_survives(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("any") / "main"
    given_ = tuple(replace(result(n), answer=Answer(text)) for n, text in enumerate(texts))
    baseline_file.write_baseline(path, RUN, given_)
    assert baseline_file.read_baseline(path) == (RUN, given_)


def packed(path: Path, *lines: bytes) -> Path:
    path.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines)))
    return path


def header(**changes: object) -> bytes:
    return json.dumps({"medvqa_baseline": 1, "responses": True, "results": 1, "run": RUN.as_json()} | changes).encode()


LINE = run_folder.encode(result(1))


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ((), "line 1: no header"),
        ((b"{}",), "line 1: no header"),
        ((b"[" * 100_000,), "line 1: no header"),
        ((header(medvqa_baseline=2), LINE), "line 1: version 2; this one reads version 1"),
        ((header(), b'{"run": 7}'), "line 2: "),
        ((header(run={"benchmarks": "slake"}), LINE), "line 1: field run.benchmarks: expected `object`, got `str`"),
        (
            (header(run={"benchmarks": {"slake": {"prompts": ["mc"]}}}), LINE),
            "line 1: field run.benchmarks.slake.prompts: ",
        ),
        ((header(run={"name": 7}), LINE), "line 1: field run.name: expected `str`, got `int`. "),
        ((header(results=2), LINE), "line 2: 2 results are announced, 1 there"),
        ((header(results=2), LINE, LINE), "line 3: results must be sorted and each there once, not slake/q1/mc"),
        ((header(),), "line 1: 1 results are announced, 0 there"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, lines: tuple[bytes, ...], complaint: str) -> None:
    path = packed(tmp_path / "main", *lines)
    with pytest.raises(DataError) as caught:
        baseline_file.read_baseline(path)
    assert str(caught.value).startswith(f"{path} {complaint}")


def test_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path / "main", header(results=3), LINE, LINE, LINE)
    for limit, complaint in (("MAX_LINE", "longer than"), ("MAX_BYTES", "larger than"), ("MAX_RESULTS", "more than")):
        with monkeypatch.context() as patch:
            patch.setattr(baseline_file, limit, 2 if limit == "MAX_RESULTS" else 300)
            with pytest.raises(DataError, match=complaint):
                baseline_file.read_baseline(path)


def test_nothing_is_written_that_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of both are the same; a line may have as many bytes as one of results.jsonl."""
    long = result(1, "A" * (2**24 + 1))
    baseline_file.write_baseline(tmp_path / "long", RUN, [long])
    assert baseline_file.read_baseline(tmp_path / "long") == (RUN, (long,))
    written = f"baseline file {tmp_path / 'main'} cannot be written: slake/q2/mc: "
    for limit, value, complaint in (
        ("MAX_LINE", 1000, f"{written}longer than 1000 bytes"),
        ("MAX_BYTES", 2000, f"{written}larger than 2000 bytes when unpacked"),
        ("MAX_RESULTS", 1, f"{written}more than 1 results"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(baseline_file, limit, value)
            with pytest.raises(UsageError) as caught:
                baseline_file.write_baseline(tmp_path / "main", RUN, [result(1), result(2, "A" * 2000)])
        assert str(caught.value) == f"{complaint}. Name the run folder itself by --baseline"
        assert not (tmp_path / "main").exists()


def test_a_torn_file_and_another_file(tmp_path: Path) -> None:
    whole = packed(tmp_path / "main", header(), LINE).read_bytes()
    (tmp_path / "torn").write_bytes(whole[:-20])
    (tmp_path / "text").write_text("hello")
    (tmp_path / "flipped").write_bytes(whole[:30] + bytes([whole[30] ^ 255]) + whole[31:])
    for name in ("torn", "text", "flipped"):
        with pytest.raises(DataError, match=rf"{name} line \d"):
            baseline_file.read_baseline(tmp_path / name)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        baseline_file.read_baseline(tmp_path / "nowhere")
    assert baseline_file.is_baseline(tmp_path / "torn")
    assert not baseline_file.is_baseline(tmp_path / "text")
    assert not baseline_file.is_baseline(tmp_path)


@given(st.binary(max_size=200))
def test_no_file_is_a_surprise(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "main"
    for each in (content, b"\x1f\x8b" + content, gzip.compress(header() + b"\n" + content)):
        path.write_bytes(each)
        with pytest.raises(MedVQAError):
            baseline_file.read_baseline(path)


def test_the_command_writes_a_smaller_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder(tmp_path / "first", [result(n) for n in range(50)])
    assert main(["baseline", str(run), "-o", str(tmp_path / "main.baseline")]) == 0
    assert "main.baseline: 50 results of run first, " in capsys.readouterr().out
    assert (tmp_path / "main.baseline").stat().st_size < (run / "results.jsonl").stat().st_size / 3
    assert main(["baseline", str(run), "-o", str(tmp_path / "b"), "--no-responses"]) == 0
    assert "without responses" in capsys.readouterr().out
    assert len(baseline_file.read_baseline(tmp_path / "b")[1]) == 50


def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder(tmp_path / "first", [result(1)])
    assert main(["baseline", str(run), "-o", str(tmp_path)]) == 4
    assert "a folder; name a file" in capsys.readouterr().err
    assert main(["baseline", str(tmp_path / "none"), "-o", str(tmp_path / "b")]) == 4
    assert "is no run folder" in capsys.readouterr().err
    for about, complaint in (
        (
            {"name": "first"},
            "unfinished: the run did not end, and its missing results are not known: finish it by pytest --run=first",
        ),
        ({**RUN.as_json(), "rescoring": True}, "and that was stopped: type medvqa rescore "),
    ):
        run_folder.write_json(run / run_record.RUN, about)
        assert main(["baseline", str(run), "-o", str(tmp_path / "b")]) == 4
        assert complaint in capsys.readouterr().err
    ended, killed = ({"name": "a", "finished": "2026-01-02T11:00:00+00:00"}, {"name": "b"})
    run_folder.write_json(run / run_record.RUN, {"name": "first", "merged": [ended, killed]})
    assert main(["baseline", str(run), "-o", str(tmp_path / "b")]) == 4
    assert "did not end" in capsys.readouterr().err
    run_folder.write_json(run / run_record.RUN, {"name": "first", "merged": [ended]})
    assert main(["baseline", str(run), "-o", str(tmp_path / "b")]) == 0
    (tmp_path / "b").unlink()
    run_folder.write_json(run / run_record.RUN, RUN)
    (run / "results.jsonl").open("ab").write(b"{torn")
    assert main(["baseline", str(run), "-o", str(tmp_path / "b")]) == 4
    assert "a line of its results cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_lines_that_were_not_read_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder(tmp_path / "first", [result(1)])
    key = result(1).key
    run_folder.write_json(run / run_record.RUN, {**RUN.as_json(), "selection": {"questions": 1}})
    (run / SELECTED).write_text(json.dumps([key.benchmark, key.item, key.technique, *key[3:]]) + "\n")
    for torn, told in (
        ("<<<<<<< ours\n", "1 line was not read: "),
        ("=======\n", "2 lines were not read, the first: "),
    ):
        with (run / "results.jsonl").open("a") as file:
            file.write(torn)
        assert main(["baseline", str(run), "-o", str(tmp_path / "b")]) == 0
        (line,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("! ")]
        assert line.startswith(f"! {told}")
        assert "line 2" in line


# --- keyed hashes ------------------------------------------------------------------------------------------

NAMES = ("DOE", "JANE", "MRN-4711", "spleen", "liver", "Rose")


def named(n: int, said: str = "A", kind: str = "single_choice") -> Result:
    """A result whose every text tells who the patient is."""
    closed = kind == "single_choice"
    item = Item(
        f"DOE-JANE-{n:02}",
        "ward",
        kind,  # type: ignore[arg-type]
        f"Has JANE DOE (MRN-4711) {n}?",
        OPTIONS if closed else {},
        ("A",) if closed else (f"Rose {n}",),
        (Image(f"DOE_JANE_{n}.png", digest="" if n % 2 else f"{n:064x}"),),
        {"organ": ("heart",)},
        pair_id=f"MRN-4711 {n // 2}",
        cluster_id="patient JANE DOE",
        extra={"PatientName": "DOE^JANE"},
    )
    right = said == item.answers[0]
    score = Score(float(right), "correct" if right else "wrong", (said,), f"JANE DOE: {said}")
    judgement = Judgement("judge", "t@1", "score", ("JANE DOE",), asked=("12",))
    return Result("main", item, f"{n:064x}", Answer(said), score, judgement=None if closed else judgement)


RESULTS = [named(1), named(2, "B"), named(3, "Rose 3", "short_answer"), named(4, "JANE", "short_answer")]
ABOUT = record(
    RUN,
    benchmarks={"ward": {"items": 4}},
    missing=["ward/DOE-JANE-09"],
    unread_answers=["/data/DOE_JANE/x line 1"],
    selection={"how": ["test_ward.py::test_ward[DOE-JANE-01]"]},
)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> BaselineKey:
    monkeypatch.setenv(keyed.ENV_KEY, "4e" * 32)
    return own_key()


def hidden(path: Path, key: BaselineKey, results: list[Result] = RESULTS) -> Path:
    baseline_file.write_baseline(path, ABOUT, results, responses=False, hidden=["ward"], key=key)
    return path


def test_a_keyed_baseline_holds_no_id_and_no_text(tmp_path: Path, key: BaselineKey) -> None:
    path = hidden(tmp_path / "main", key)
    content = gzip.decompress(path.read_bytes()).decode()
    assert not [name for name in NAMES if name in content]
    assert key.secret.hex() not in content
    run, results = baseline_file.read_baseline(path)
    assert run.as_json()["keyed"] == {"key": key.name, "benchmarks": ["ward"]}
    assert len(run.missing) == 1
    assert {each.score.outcome for each in results} == {"correct", "wrong"}
    assert {value for each in results for value in each.item.tags["organ"]} == {"heart"}, "slices stay"
    assert path.read_bytes() == hidden(tmp_path / "again", key).read_bytes()


def test_other_benchmarks_of_a_keyed_baseline_stay_plain(tmp_path: Path, key: BaselineKey) -> None:
    baseline_file.write_baseline(
        tmp_path / "both", RUN, [result(1), named(1)], responses=False, hidden=["ward"], key=key
    )
    _, results = baseline_file.read_baseline(tmp_path / "both")
    assert [each.item.id for each in results if each.item.benchmark == "slake"] == ["q1"]


def test_a_run_finds_its_questions_in_a_keyed_baseline(tmp_path: Path, key: BaselineKey) -> None:
    side = comparing.load(hidden(tmp_path / "main", key))
    assert side.key == key
    assert side.named(RESULTS[0].key) == next(
        each.key for each in side.results if each.item.id == key.of("ward", "DOE-JANE-01")
    )
    changed = [named(1), named(2, "A"), named(3, "other", "short_answer"), named(4, "JANE", "short_answer")]
    new = Side("new", RUN, tuple(changed))
    found = {each.item.id: each for each in side.revealed([new]).results}
    assert sorted(found) == [each.item.id for each in RESULTS]
    for before, after in zip(RESULTS, changed, strict=True):
        one = found[before.item.id]
        assert replace(one.item, extra={}, images=()) == replace(before.item, extra={}, images=())
        assert one.item.images == before.item.images
        same = baseline_file.said(side.run, one) == baseline_file.said(new.run, after)
        assert same == (before.answer == after.answer)


def test_a_question_that_changed_is_not_taken_for_the_same(tmp_path: Path, key: BaselineKey) -> None:
    side = comparing.load(hidden(tmp_path / "main", key))
    other = replace(RESULTS[0], item=replace(RESULTS[0].item, question="Another?"))
    found = {each.item.id: each for each in side.revealed([Side("new", RUN, (other,))]).results}
    assert found["DOE-JANE-01"].item.question == key.of("ward", RESULTS[0].item.question)


def test_without_its_key_a_baseline_is_an_error(
    tmp_path: Path, key: BaselineKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = hidden(tmp_path / "main", key)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.delenv(keyed.ENV_KEY)
    for there in ("there is no MEDVQA_BASELINE_KEY and no ", "MEDVQA_BASELINE_KEY holds the key "):
        with pytest.raises(UsageError) as caught:
            comparing.load(path)
        said = str(caught.value)
        assert there in said
        assert key.name in said
        assert "set MEDVQA_BASELINE_KEY" in said
        assert "5f" * 8 not in said
        monkeypatch.setenv(keyed.ENV_KEY, "5f" * 32)
    assert not (tmp_path / "nowhere").exists(), "reading makes no key"


def test_what_is_no_key_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keyed.ENV_KEY, "opensesame")
    with pytest.raises(UsageError, match="64 hexadecimal digits") as caught:
        own_key()
    assert "sesame" not in str(caught.value)
    assert "opensesame" not in repr(keyed.BaselineKey(b"opensesame", "here"))


def test_the_key_of_a_user_is_made_once_and_theirs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(keyed.ENV_KEY, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    old = os.umask(0)
    try:
        first = own_key()
    finally:
        os.umask(old)
    path = keyed.key_file()
    assert path.is_relative_to(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert own_key() == first
    assert find_key(first.name, "main") == first
    path.write_text("damaged")
    with pytest.raises(UsageError, match="holds no key"):
        own_key()


def test_a_key_that_cannot_be_kept_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(keyed.ENV_KEY, raising=False)
    (tmp_path / "data").write_text("a file")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(UsageError, match=r"cannot be stored in .* Set MEDVQA_BASELINE_KEY"):
        own_key()


@given(st.text(), st.text())
def test_hashes_are_equal_where_texts_are(one: str, other: str) -> None:
    key = keyed.BaselineKey(b"k" * 32, "here")
    assert (key.of("ward", one) == key.of("ward", other)) == (one == other)
    assert key.of("ward", one) != key.of("clinic", one)
