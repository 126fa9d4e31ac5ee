"""The logs of a run: whatever happens to its files, a whole line is found again, and no answer is another's."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import answers
from medvqa.engine import Limits, Stream
from medvqa.items import Answer, AnswerError, Image, Item, Judgement, Prompt, Query, Result, Score, Shot
from medvqa.protocols import prompts
from medvqa.records import log as log_module
from medvqa.records import recall
from medvqa.records.log import Log, LogReader, Unwritable, answer_key, check_folder, close_dead, read_log, scan
from medvqa.records.recall import OWN, LogFolder, Recalled
from medvqa.records.run_folder import RESULTS, encode
from medvqa.records.run_record import RunRecord
from medvqa.records.suspects import Suspects, bury, end_session
from medvqa.session.opening import Memory
from support.laws import examples
from support.logs import WRITER, Remembering, logs, session
from support.streams import Ahead
from support.stubs import backend

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ANSWERS = st.builds(
    Answer,
    text=TEXT,
    option_logprobs=st.none() | st.dictionaries(st.sampled_from("ABCD"), st.floats(-50, 0), max_size=4),
    seconds=st.none() | st.floats(0, 1e6),
    finish=TEXT,
    usage=st.none() | st.just({"input": 12.0, "cost": 0.01}),
)


def name(number: int) -> str:
    return f"{number:064x}"


def answers_of(store: Remembering, numbers: Sequence[int], *, look: bool = True) -> list[Answer | None]:
    found = store.recall([name(number) for number in numbers], look=look)
    return [recalled.answer if recalled is not None else None for recalled in found]


def files(run: Path) -> list[Path]:
    """The logs with a line."""
    return [path for path in logs(run) if path.stat().st_size]


# --- laws ---------------------------------------------------------------------------------------------------


@examples(40)
@given(
    batches=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.tuples(st.integers(0, 30), ANSWERS), max_size=6)), max_size=12
    )
)
def test_what_any_process_stored_every_process_finds(batches: list[tuple[int, list[tuple[int, Answer]]]]) -> None:
    with TemporaryDirectory() as folder:
        stores = [Remembering(Path(folder)) for _ in range(4)]
        said: dict[int, set[str]] = {}
        for process, batch in batches:
            stores[process].remember([name(number) for number, _ in batch], [answer for _, answer in batch])
            for number, answer in batch:
                said.setdefault(number, set()).add(repr(answer))
        for store in [*stores, Remembering(Path(folder))]:
            for number, answer in zip(range(31), answers_of(store, range(31)), strict=True):
                assert repr(answer) in said[number] if number in said else answer is None
            assert store.unread == ()
            store.close()


@examples(100)
@given(
    first=st.lists(ANSWERS, min_size=1, max_size=8),
    second=st.lists(ANSWERS, min_size=1, max_size=8),
    torn=st.integers(0, 400),
    flips=st.lists(st.tuples(st.booleans(), st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=3),
)
def test_damage_costs_the_lines_that_it_hits_and_never_makes_an_answer(
    first: list[Answer], second: list[Answer], torn: int, flips: list[tuple[bool, float, int]]
) -> None:
    """Two processes store; then the second file loses its end, and bytes of both are changed."""
    with TemporaryDirectory() as folder:
        given_answers = {}
        for offset, answers in ((0, first), (100, second)):
            store = Remembering(Path(folder), session(offset))
            for number, answer in enumerate(answers, offset):
                store.remember([name(number)], [answer])
                given_answers[number] = answer
            store.close()
        whole = [path.read_bytes().splitlines(keepends=True) for path in files(Path(folder))]
        contents = [bytearray(path.read_bytes()) for path in files(Path(folder))]
        del contents[1][max(len(contents[1]) - torn, 0) :]
        for which, where, change in flips:
            if contents[which]:
                contents[which][int(where * len(contents[which]))] ^= change
        for path, content in zip(files(Path(folder)), contents, strict=True):
            path.write_bytes(content)

        store = Remembering(Path(folder))
        found = dict(zip(given_answers, answers_of(store, list(given_answers)), strict=True))
        for lines, content in zip(whole, contents, strict=True):
            start = 0
            for line in lines:
                kept = content[start : start + len(line)] == line and (not start or content[start - 1 : start] == b"\n")
                start += len(line)
                if b" answer/" in line[:30]:
                    number = int(line.split(b"/")[1][:64], 16)
                    assert found[number] == (given_answers[number] if kept else None)
        damaged = sum(b"".join(lines) != bytes(content) for lines, content in zip(whole, contents, strict=True))
        whole_lines_lost = any(b"".join(lines).startswith(bytes(c)) for lines, c in zip(whole, contents, strict=True))
        assert damaged == 0 or store.unread or whole_lines_lost
        store.remember([name(500)], [Answer("goes on")])
        assert answers_of(Remembering(Path(folder)), [500]) == [Answer("goes on")]


@given(answer=ANSWERS)
def test_an_answer_survives_its_line(answer: Answer) -> None:
    with TemporaryDirectory() as folder:
        store = Remembering(Path(folder))
        store.remember([name(1)], [answer])
        assert answers_of(store, [1, 2]) == [answer, None]
        assert answers_of(Remembering(Path(folder)), [1]) == [answer]


# --- reading bytes ------------------------------------------------------------------------------------------

BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 9), ANSWERS), min_size=1, max_size=4), min_size=1, max_size=6)


def written(run: Path, batches: Sequence[Sequence[tuple[int, Answer]]], *, closed: bool) -> bytes:
    """The bytes of a log with an answer for each number, which may recur."""
    process = Remembering(run)
    for batch in batches:
        process.remember([name(number) for number, _ in batch], [answer for _, answer in batch])
    if closed:
        process.close()
    (path,) = files(run)
    return path.read_bytes()


def said(content: bytes) -> list[tuple[str, Answer]]:
    """The answers that a reader finds in the bytes of a log, in order."""
    reader, lines = scan(content)
    found = [(line[0].hex(), answer_of(reader, content, line)) for line in lines]
    return [(key, answer) for key, answer in found if answer is not None]


def answer_of(reader: LogReader, content: bytes, line: Any) -> Answer | None:
    key, start, length = line
    return log_module.answer_in(reader.identity or "", content[start : start + length], key.hex())


@examples(60)
@given(batches=BATCHES, closed=st.booleans(), data=st.data())
def test_a_log_cut_at_any_byte_has_all_answers_before(
    batches: list[list[tuple[int, Answer]]], closed: bool, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        content = written(Path(folder), batches, closed=closed)
    appended = [(name(number), answer) for batch in batches for number, answer in batch]
    assert said(content) == appended
    reader, _ = scan(content)
    assert (reader.closed is not None, reader.whole) == (closed, closed)
    cut = data.draw(st.integers(0, len(content) - 1))
    found = said(content[:cut])
    assert found == appended[: len(found)]
    reader, _ = scan(content[:cut])
    assert len(found) == content[: reader.size].count(b" answer/")
    assert reader.closed is None
    assert not reader.whole
    assert reader.torn == (not content[:cut].endswith(b"\n") and cut > 0)


@examples(60)
@given(batches=BATCHES, closed=st.booleans(), place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_a_damaged_byte_makes_no_answer_and_loses_none_before_it(
    batches: list[list[tuple[int, Answer]]], closed: bool, place: float, change: int
) -> None:
    with TemporaryDirectory() as folder:
        content = bytearray(written(Path(folder), batches, closed=closed))
    appended = [(name(number), answer) for batch in batches for number, answer in batch]
    where = int(place * len(content))
    before = bytes(content[:where]).rpartition(b"\n")[0].count(b" answer/")
    content[where] ^= change
    found = said(bytes(content))
    assert not scan(bytes(content))[0].whole
    if where > bytes(content).index(b"\n"):
        assert found[:before] == appended[:before]
    assert len(found) >= before - 1 or where <= len(content)
    for answer in found:
        assert answer in appended


@examples(40)
@given(batches=BATCHES, cuts=st.lists(st.floats(0, 1), max_size=4))
def test_a_log_that_grows_is_read_as_one_that_is_whole(
    batches: list[list[tuple[int, Answer]]], cuts: list[float]
) -> None:
    with TemporaryDirectory() as folder:
        content = written(Path(folder), batches, closed=True)
    reader, lines = LogReader(), []
    for end in (*sorted(int(cut * len(content)) for cut in cuts), len(content)):
        lines += reader.feed(content[reader.size : end])
    whole, all_lines = scan(content)
    assert lines == all_lines
    assert (reader.size, reader.lines, reader.whole) == (whole.size, whole.lines, True)


def test_a_line_that_holds_no_answer_hides_no_older_one(tmp_path: Path) -> None:
    """Its checksum is right: another version wrote it, which checked less."""
    process = Remembering(tmp_path)
    process.remember([name(1)], [Answer("A")])
    rest = f'answer/{name(1)} {{"text":1}}'.encode()
    with process.log.path.open("ab") as log:
        log.write(log_module.checksum(WRITER.identity, rest) + b" " + rest + b"\n")
    assert answers_of(process, [1]) == [Answer("A")]
    (line,) = process.unread
    assert line.startswith(f"{process.log.path} line 5: no answer: ")


def test_a_log_without_its_first_line_is_read_by_its_own_run_alone(tmp_path: Path) -> None:
    process = Remembering(tmp_path / "first")
    process.remember([name(1)], [Answer("A")])
    process.close()
    (path,) = files(tmp_path / "first")
    path.write_bytes(b"x" + path.read_bytes()[1:])
    again = Remembering(tmp_path / "first", session(2))
    assert answers_of(again, [1]) == [Answer("A")]
    assert again.unread == (f"{path} line 1: it does not say who wrote the log",)
    assert answers_of(Remembering(tmp_path / "second", sources=[source(tmp_path / "first")]), [1]) == [None]


def test_a_log_of_a_later_version_is_not_read(tmp_path: Path) -> None:
    process = Remembering(tmp_path, msgspec.structs.replace(WRITER, format=3))
    process.remember([name(1)], [Answer("A")])
    reader, lines = read_log(process.log.path)
    assert (lines, reader.problems) == ([], [(1, "a later version wrote it (3)")])


def test_the_log_of_a_dead_process_is_closed_and_says_so(tmp_path: Path) -> None:
    process = Remembering(tmp_path)
    process.remember([name(1)], [Answer("A")])
    with process.log.path.open("ab") as log:
        log.write(b"0123456789abcdef answer/")
    close_dead(process.log.path, read_log(process.log.path)[0])
    reader, lines = read_log(process.log.path)
    assert reader.closed is not None
    assert (reader.closed.died, reader.whole, len(lines)) == (True, True, 1)
    assert reader.problems == [(5, "the line is torn: its process was stopped while writing")]


# --- files that follow one another --------------------------------------------------------------------------


@examples(30)
@given(steps=st.lists(st.sampled_from(["begin", "end", "rotate"]), max_size=20))
def test_a_log_in_several_files_loses_nothing(steps: list[str]) -> None:
    with TemporaryDirectory() as folder:
        run = Path(folder)
        process, given_answers, flying = Remembering(run), dict[int, Answer](), dict[int, int]()
        for number, step in enumerate(steps):
            if step == "begin":
                process.log.begin(number, [name(number)])
                flying[number] = number
            elif step == "end" and flying:
                ended = flying.pop(min(flying))
                given_answers[ended] = Answer(str(ended))
                process.log.end(ended, [name(ended)], [given_answers[ended]])
            elif step == "rotate" and (path := process.log.rotate()) is not None:
                assert read_log(path)[0].whole
            known = {n: found for n, found in zip(range(20), answers_of(process, range(20)), strict=True) if found}
            assert known == given_answers
            last = files(run)[-1:]
            assert not last or not flying or set(read_log(last[0])[0].calls) == set(flying)
        process.close()
        assert all(read_log(path)[0].whole for path in files(run))
        end_session(run, complete=True)
        assert bool(logs(run)) == bool(given_answers)


# --- other runs ---------------------------------------------------------------------------------------------


def source(run: Path) -> LogFolder:
    return LogFolder(run.name, run / "answers")


def test_answers_of_another_run_are_found_where_it_is_named_and_not_copied(tmp_path: Path) -> None:
    first = Remembering(tmp_path / "first")
    first.remember([name(1), name(2)], [Answer("A"), Answer("B")])
    first.close()
    second = Remembering(tmp_path / "second", session(2), [source(tmp_path / "first")])
    second.remember([name(2)], [Answer("C")])
    found = second.recall([name(1), name(2), name(3)], look=True)
    assert found == [Recalled(Answer("A"), "first"), Recalled(Answer("C"), ""), None]
    assert b'"A"' not in second.log.path.read_bytes()
    second.close()
    third = Remembering(tmp_path / "second", session(3))
    assert third.recall([name(1), name(2)], look=True) == [None, Recalled(Answer("C"), OWN)]


@pytest.mark.parametrize("reuse", ["all", "here", "none"])
def test_the_first_line_says_who_may_use_the_answers(tmp_path: Path, reuse: Any) -> None:
    first = Remembering(tmp_path / "first", msgspec.structs.replace(WRITER, reuse=reuse))
    first.remember([name(1)], [Answer("A")])
    answer = None if reuse == "none" else Answer("A")
    assert answers_of(Remembering(tmp_path / "second", sources=[source(tmp_path / "first")]), [1]) == [answer]
    place = LogFolder("place", tmp_path / "first" / "answers", frozenset({"all"}))
    assert answers_of(Remembering(tmp_path / "third", sources=[place]), [1]) == [
        Answer("A") if reuse == "all" else None
    ]
    assert answers_of(Remembering(tmp_path / "first", session(2)), [1]) == [Answer("A")]


def test_what_another_run_goes_on_to_write_is_seen(tmp_path: Path) -> None:
    first = Remembering(tmp_path / "first")
    second = Remembering(tmp_path / "second", sources=[source(tmp_path / "first"), source(tmp_path / "not yet")])
    first.remember([name(1)], [Answer("A")])
    assert answers_of(second, [1]) == [Answer("A")]


# --- keys ---------------------------------------------------------------------------------------------------

PROMPT = Prompt(
    "Which?",
    images=(Image("a.png", digest="1" * 64),),
    system="Be brief.",
    shots=(Shot("What?", "B", (Image("s.png", digest="2" * 64),)),),
    benchmark="slake",
    item="q1",
    options={"A": "liver", "B": "spleen"},
)


def key(prompt: Prompt, sample: int = 0) -> str:
    return answer_key(prompt, prompts.digest(prompt), sample)


def test_everything_that_determines_an_answer_is_in_its_key() -> None:
    changes: list[dict[str, object]] = [
        {"text": "Which"},
        {"system": ""},
        {"images": (Image("a.png", digest="3" * 64),)},
        {"images": ()},
        {"shots": ()},
        {"shots": (Shot("What?", "A", PROMPT.shots[0].images),)},
        {"shots": (Shot("What?", "B", (Image("s.png", digest="4" * 64),)),)},
        {"benchmark": "other"},
        {"item": "q2"},
        {"kind": "multiple_response"},
        {"options": {"A": "liver", "B": "kidney"}},
        {"options": {"B": "liver", "A": "spleen"}},
        {"technique": "gd"},
    ]
    keys = [key(PROMPT), key(PROMPT, 1), *(key(replace(PROMPT, **change)) for change in changes)]
    assert len(set(keys)) == len(keys)


def test_names_and_places_of_files_are_not_in_a_key() -> None:
    moved = replace(PROMPT, images=(Image("b.png", path="/elsewhere", digest="1" * 64),), template="slake/mc@1")
    assert key(moved) == key(PROMPT)


def test_a_changed_image_file_of_the_same_name_has_a_new_key(tmp_path: Path) -> None:
    keys = []
    path = tmp_path / "a.png"
    for number, content in enumerate((b"one", b"two", b"one")):
        path.write_bytes(content)
        os.utime(path, (number, number))
        keys.append(key(prompts.pinned(replace(PROMPT, images=(Image("a.png", str(path)),)))))
    assert keys[0] == keys[2] != keys[1]


def test_an_image_that_cannot_be_read_has_its_name_for_a_digest(tmp_path: Path) -> None:
    missing = replace(PROMPT, images=(Image("a.png", str(tmp_path / "a.png")),))
    assert prompts.pinned(missing) == missing


@pytest.mark.parametrize(
    "change", [{"fingerprint": "weights 2"}, {"backend": "fast"}, {"fingerprint": None}, {"role": "judge"}]
)
def test_models_share_no_answers(tmp_path: Path, change: dict[str, str | None]) -> None:
    store = Remembering(tmp_path)
    store.remember([name(1)], [Answer("A")])
    (path,) = files(tmp_path)
    other = Remembering(tmp_path, msgspec.structs.replace(WRITER, **change))
    assert answers_of(other, [1]) == [None]
    # Not even when somebody moves a line.
    other.remember([name(2)], [Answer("B")])
    with other.log.path.open("ab") as log:
        log.writelines(line for line in path.read_bytes().splitlines(keepends=True) if b" answer/" in line)
    assert answers_of(other, [1, 2]) == [None, Answer("B")]
    assert len(other.unread) == 1


# --- sessions -----------------------------------------------------------------------------------------------


def test_an_answer_of_this_session_is_not_an_earlier_one(tmp_path: Path) -> None:
    old = Remembering(tmp_path)
    old.remember([name(1)], [Answer("A")])
    first, second = Remembering(tmp_path, session(2)), Remembering(tmp_path, session(2))
    first.remember([name(2)], [Answer("B")])
    found = second.recall([name(1), name(2)], look=True)
    assert [recalled.earlier for recalled in found if recalled is not None] == [True, False]


def test_fresh_knows_what_its_own_session_stored(tmp_path: Path) -> None:
    old = Remembering(tmp_path)
    old.remember([name(1), name(2)], [Answer("A")] * 2)
    fresh, beside = (Remembering(tmp_path, session(2), fresh=True) for _ in range(2))
    assert answers_of(fresh, [1, 2]) == [None, None]
    beside.remember([name(1)], [Answer("B")])
    assert answers_of(fresh, [1, 2]) == [Answer("B"), None]
    assert answers_of(Remembering(tmp_path), [1, 2]) == [Answer("B"), Answer("A")]


def test_what_a_session_asked_is_found_by_its_name(tmp_path: Path) -> None:
    for number in range(3):
        store = Remembering(tmp_path, session(number))
        store.remember([name(n) for n in range(number + 1)], [Answer(f"{number}", usage={"cost": 0.5})] * (number + 1))
        store.close()
    found = sorted((role, [a.text for a in said]) for role, said in recall.asked(tmp_path, {"session 0", "session 2"}))
    assert found == [("candidate", ["0"]), ("candidate", ["2", "2", "2"])]
    torn = files(tmp_path)[2]
    torn.write_bytes(b"".join(torn.read_bytes().splitlines(keepends=True)[:-2])[:-9])
    assert [len(said) for _, said in recall.asked(tmp_path, {"session 2"})] == [2]
    assert list(recall.asked(tmp_path / "none", {"session 2"})) == []


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from medvqa.items import Answer\n"
        "from support.logs import Remembering\n"
        "store = Remembering(pathlib.Path(sys.argv[1]))\n"
        "for n in range(300):\n"
        "    store.remember([f'{n:064x}', f'{n + 1000:064x}'], [Answer(str(n)), Answer(str(n + 1000))])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, env=environment)
    store = Remembering(tmp_path)
    numbers = [*range(300), *range(1000, 1300)]
    assert answers_of(store, numbers) == [Answer(str(n)) for n in numbers]


# --- disks --------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_nothing_is_written_behind_half_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Remembering(tmp_path)
    store.remember([name(1)], [Answer("A")])
    monkeypatch.setattr(store.log, "_file", os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(Unwritable, match=r"answers cannot be stored in .*: No space left on device"):
        store.remember([name(2)], [Answer("B")])
    store.remember([name(3)], [Answer("C")])
    assert len(files(tmp_path)) == 2
    assert answers_of(Remembering(tmp_path), [1, 2, 3]) == [Answer("A"), None, Answer("C")]


def test_a_write_that_is_cut_short_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Remembering(tmp_path)
    store.remember([name(1)], [Answer("A")])
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:-5]))
    with pytest.raises(Unwritable, match="No space left"):
        store.remember([name(2)], [Answer("B")])
    monkeypatch.undo()
    store.remember([name(3)], [Answer("C")])
    again = Remembering(tmp_path)
    assert answers_of(again, [1, 2, 3]) == [Answer("A"), None, Answer("C")]
    assert "torn" in again.unread[0]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unwritable, match=r"answers cannot be stored in .*file"):
        Remembering(tmp_path / "file" / "run")
    with pytest.raises(Unwritable, match=r"answers cannot be stored in .*: .*file is no folder"):
        check_folder(tmp_path / "file" / "run")
    with pytest.raises(Unwritable, match="answers cannot be stored in /proc/run"):
        Remembering(Path("/proc/run"))
    check_folder(tmp_path / "not" / "yet" / "there")
    assert not (tmp_path / "not").exists()


READ_ONLY = """
import os, pathlib, sys
from medvqa.records import log

folder = pathlib.Path(sys.argv[1])
if os.geteuid() == 0:  # who may write everywhere
    os.setuid(65534)
for act in (lambda: log.check_folder(folder), lambda: log.Log(folder, "gw0")):
    try:
        act()
    except log.Unwritable as error:
        print(error)
"""


def test_a_folder_that_may_only_be_read_is_told() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name) / "kept"
        (folder / "answers").mkdir(parents=True)
        for path in (Path(name), folder, folder / "answers"):
            path.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder)], capture_output=True, text=True, check=True
        )
        Path(name).chmod(0o755)
        folder.chmod(0o755)
    assert done.stdout.splitlines() == [
        f"answers cannot be stored in {folder / 'answers'}: {folder / 'answers'} cannot be written",
        f"answers cannot be stored in {folder / 'answers'}: Permission denied",
    ]


def test_a_folder_that_goes_away_is_told(tmp_path: Path) -> None:
    store = Remembering(tmp_path / "share")
    shutil.rmtree(tmp_path / "share")
    with pytest.raises(Unwritable, match="No such file or directory"):
        store.recall([name(1)], look=True)


def test_a_line_that_changes_after_it_was_indexed_is_not_believed(tmp_path: Path) -> None:
    Remembering(tmp_path).remember([name(1)], [Answer("A")])
    store = Remembering(tmp_path)
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"A"', b'"B"'))
    assert answers_of(store, [1]) == [None]


def test_what_others_write_is_seen_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = Remembering(tmp_path), Remembering(tmp_path)
    writer.remember([name(1)], [Answer("A")])
    assert answers_of(reader, [1], look=False) == [None]
    monkeypatch.setattr("medvqa.records.recall.time.monotonic", lambda: 1e12)
    assert answers_of(reader, [1], look=False) == [Answer("A")]


def test_lines_are_text_that_other_tools_can_read(tmp_path: Path) -> None:
    Remembering(tmp_path).remember([name(1)], [Answer("A naevus.")])
    head, _, line, _ = files(tmp_path)[0].read_text().splitlines()
    assert json.loads(head.split(" ", 2)[2])["fingerprint"] == "weights 1"
    assert line.split(" ", 2)[1] == f"answer/{name(1)}"
    assert json.loads(line.split(" ", 2)[2])["text"] == "A naevus."


# --- calls in flight --------------------------------------------------------------------------------------------


def begun(run: Path, process: str, named: str = "now") -> Log:
    """The log of a process of a session."""
    log = Log(run, process)
    log.begin_as(msgspec.structs.replace(WRITER, session=named))
    return log


def suspects(run: Path, named: str) -> Suspects:
    known = Suspects(run, named)
    known.refresh()
    return known


def test_what_was_in_flight_when_a_worker_died_is_suspected(tmp_path: Path) -> None:
    journal = begun(tmp_path, "gw1")
    journal.begin(1, ["a", "b"])
    journal.begin(2, ["c"])
    journal.end(1, [], [])
    assert bury(tmp_path, "now", "gw10") is None
    assert bury(tmp_path, "now", "gw1") == ("c",)
    assert bury(tmp_path, "now", "gw1") is None
    known = suspects(tmp_path, "now")
    assert [known.suspects(each) for each in "abc"] == [False, False, True]
    assert not known.kills("c")


def test_the_death_of_a_worker_that_asked_nothing_is_news_to_the_others(tmp_path: Path) -> None:
    """Its tests come to workers that may not have seen yet what it stored."""
    known = suspects(tmp_path, "now")
    journal = begun(tmp_path, "gw1")
    journal.begin(1, ["a"])
    journal.end(1, [], [])
    assert bury(tmp_path, "now", "gw1") == ()
    assert known.refresh()
    assert not known.suspects("a")


def die(run: Path, named: str, *keys: str) -> None:
    begun(run, "gw0", named).begin(1, keys)
    bury(run, named, "gw0")


def test_a_question_kills_when_a_worker_died_on_it_and_another_while_it_was_asked_alone(tmp_path: Path) -> None:
    die(tmp_path, "now", "a", "b", "c")
    known = suspects(tmp_path, "now")
    assert not any(known.kills(each) for each in "abc")
    assert not known.refresh()
    die(tmp_path, "now", "b")
    assert known.refresh()
    assert [known.kills(each) for each in "abcd"] == [False, True, False, False]


def test_one_that_was_asked_alone_twice_kills_too(tmp_path: Path) -> None:
    die(tmp_path, "now", "a")
    assert not suspects(tmp_path, "now").kills("a")
    die(tmp_path, "now", "a")
    assert suspects(tmp_path, "now").kills("a")


def test_sessions_that_were_stopped_blame_nobody_before_the_third_time(tmp_path: Path) -> None:
    for number, keys in enumerate((["a", "b"], ["a"])):
        begun(tmp_path, f"gw{number}").begin(1, keys)
        bury(tmp_path, "earlier")
    known = suspects(tmp_path, "now")
    assert (known.suspects("a"), known.kills("a")) == (True, False)
    die(tmp_path, "now", "a")
    assert suspects(tmp_path, "now").kills("a")


def stop(run: Path, *calls: str) -> None:
    """A session dies as a whole while these calls are in flight, each with a question for a letter."""
    journal = begun(run, "main")
    for number, keys in enumerate(calls, 1):
        journal.begin(number, list(keys))
    bury(run)


def test_what_many_calls_asked_when_a_session_died_is_asked_together_once_more(tmp_path: Path) -> None:
    stop(tmp_path, "a", "b", "c")
    assert not any(suspects(tmp_path, "now").suspects(each) for each in "abc")
    stop(tmp_path, "c", "d")
    assert [suspects(tmp_path, "now").suspects(each) for each in "abcd"] == [False, False, True, False]
    stop(tmp_path, "c")
    assert not suspects(tmp_path, "now").kills("c")
    stop(tmp_path, "c")
    assert suspects(tmp_path, "now").kills("c")


def test_what_one_call_asked_when_a_session_died_is_asked_alone(tmp_path: Path) -> None:
    stop(tmp_path, "abc")
    assert all(suspects(tmp_path, "now").suspects(each) for each in "abc")


def test_a_worker_that_died_with_many_calls_makes_all_of_them_suspects(tmp_path: Path) -> None:
    journal = begun(tmp_path, "gw0")
    journal.begin(1, ["a"])
    journal.begin(2, ["b"])
    bury(tmp_path, "now", "gw0")
    assert all(suspects(tmp_path, "now").suspects(each) for each in "ab")


def test_a_process_that_ends_in_order_makes_no_suspects(tmp_path: Path) -> None:
    journal = begun(tmp_path, "gw0")
    journal.begin(1, ["a", "b"])
    journal.begin(2, ["c"])
    journal.end(2, [], [])
    journal.close()
    assert bury(tmp_path, "now", "gw0") == ()
    assert not any(suspects(tmp_path, "now").suspects(each) for each in "abc")


def test_suspicion_ends_with_a_session_that_completes_the_run(tmp_path: Path) -> None:
    die(tmp_path, "now", "a", "b")
    begun(tmp_path, "gw1").close()
    end_session(tmp_path, complete=False)
    assert suspects(tmp_path, "next").suspects("a")
    end_session(tmp_path, complete=True)
    assert not suspects(tmp_path, "next").suspects("a")
    assert not (tmp_path / "answers" / "deaths").exists()


def test_a_torn_line_of_a_journal_was_not_asked_yet(tmp_path: Path) -> None:
    journal = begun(tmp_path, "gw0")
    journal.begin(1, ["a"])
    (path,) = files(tmp_path)
    with path.open("ab") as file:
        file.write(b'0123456789abcdef begin/2 ["ke')
    assert bury(tmp_path, "now", "gw0") == ("a",)


def test_a_line_of_which_a_full_disk_took_a_part_costs_no_more_than_itself(tmp_path: Path) -> None:
    journal = begun(tmp_path, "gw0")
    journal.begin(1, ["a"])
    (path,) = files(tmp_path)
    with path.open("ab") as file:
        file.write(b'0123456789abcdef begin/2 ["ke')
    journal.begin(3, ["b"])
    journal.begin(4, ["c"])
    assert bury(tmp_path, "now", "gw0") == ("a", "c")
    with (tmp_path / "answers" / "deaths").open("ab") as file:
        file.write(b'{"session":"no')
    die(tmp_path, "now", "d")
    die(tmp_path, "now", "e")
    known = suspects(tmp_path, "now")
    assert [known.suspects(each) for each in "abcde"] == [True, False, True, False, True]


def test_a_journal_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = begun(tmp_path, "gw0")
    monkeypatch.setattr(journal, "_file", os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(Unwritable, match="No space left"):
        journal.begin(1, ["a"])
    (tmp_path / "file").write_text("")
    with pytest.raises(Unwritable, match=r"answers cannot be stored in .*file"):
        begun(tmp_path / "file", "gw0")


# --- samples ------------------------------------------------------------------------------------------------


class Drawing:
    """A model whose every answer is new: its text is the number of the draw."""

    name = "drawing"
    capabilities = frozenset({"generate"})

    def __init__(self) -> None:
        self.draws = 0
        self.lost = False

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        if self.lost:
            raise KeyboardInterrupt
        self.draws += len(prompts)
        return [Answer(f"draw {self.draws - number}") for number in range(len(prompts))]


class Remembered(Memory):
    """The memory of a session's process."""

    def __init__(self, folder: Path, number: int) -> None:
        process = Remembering(folder, session(number))
        super().__init__(process.stored, process.log, Suspects(folder, f"session {number}"))


QUESTION = st.integers(0, 2)
NUMBERED = st.tuples(QUESTION, st.integers(0, 5))
RUNS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(0, 5), st.integers(1, 4)),
        st.tuples(st.just("killed"), st.integers(0, 5), st.integers(1, 4)),
        st.tuples(st.just("prompts"), st.lists(NUMBERED, min_size=1, max_size=6), st.integers(1, 4)),
    ),
    min_size=1,
    max_size=6,
)


@examples(60)
@given(runs=RUNS)
def test_no_draw_is_handed_out_as_two_samples(runs: list[tuple[str, Any, int]]) -> None:
    """Runs with more and fewer samples, killed runs, prompts of tests with and without numbers: one draw each.

    Every question, number and place among equal prompts of one call gets the draw that it got before; a killed run
    keeps the draws that were stored.
    """
    model, drawn = Drawing(), dict[tuple[int, int, int], str]()
    with TemporaryDirectory() as name:
        for number, (how, what, size) in enumerate(runs):
            memory = Remembered(Path(name), number)
            limits = Limits(batch_size=size, concurrency=1)
            if how == "prompts":
                asked = [(question, sample) for question, sample in what]
                stream = Stream(backend(model), _no_prompt, Ahead([]), limits, memory)
                answers = stream.generate([_prompt(question, sample) for question, sample in asked])
                counts = Counter[tuple[int, int]]()
                for key, answer in zip(asked, answers, strict=True):
                    assert isinstance(answer, Answer)
                    assert drawn.setdefault((*key, counts[key]), answer.text) == answer.text
                    counts[key] += 1
            else:
                samples = range(1, what + 1) if what else (0,)
                queries = [
                    Query(Item(str(q), "slake", "single_choice", f"q{q}"), sample=sample)
                    for sample in samples
                    for q in range(3)
                ]
                stream = Stream(backend(model), _numbered, Ahead(queries), limits, memory)
                for place, query in enumerate(queries):
                    model.lost = how == "killed" and place >= size
                    try:
                        reply = stream.answer(query)
                    except KeyboardInterrupt:
                        break
                    assert isinstance(reply.answer, Answer)
                    key = int(query.item.id), query.sample
                    assert drawn.setdefault((*key, 0), reply.answer.text) == reply.answer.text
            model.lost = False
            stream.close()
            memory.close()
    assert len(set(drawn.values())) == len(drawn)


def _prompt(question: int, sample: int) -> Prompt:
    return Prompt(f"q{question}", benchmark="slake", item=str(question), sample=sample)


def _numbered(query: Query) -> Prompt:
    return _prompt(int(query.item.id), query.sample)


def _no_prompt(query: Query) -> Prompt:
    raise AssertionError(query)


def test_a_session_of_five_samples_gives_three_of_them_to_one_of_three(tmp_path: Path) -> None:
    """And processes that ask at the same time store one draw each under their own samples."""
    stores = [Remembering(tmp_path, session(number)) for number in range(2)]
    prompts_of_five = [_prompt(1, sample) for sample in range(1, 6)]
    keys = [key(prompt, prompt.sample) for prompt in prompts_of_five]
    assert len(set(keys)) == 5
    assert key(_prompt(1, 0), 0) not in keys
    for process, store in enumerate(stores):
        mine = keys[process::2]
        store.remember(mine, [Answer(f"{process} {number}") for number in range(len(mine))])
    for store in [*stores, Remembering(tmp_path)]:
        found = [recalled.answer.text for recalled in store.recall(keys[:3], look=True) if recalled is not None]
        assert found == ["0 0", "1 0", "0 1"]


# --- answers that are in no log -----------------------------------------------------------------------------


def _result(text: str, *, replies: tuple[str, ...] = ()) -> Result:
    item = Item("1", benchmark="b", kind="short_answer", question="What?", answers=("a",))
    judgement = Judgement("judge", "t", "score", replies, asked=("d1", "d2"))
    return Result("run", item, "d", Answer(text), Score(1.0, "correct"), "gd", judgement)


def test_results_that_were_written_anew_tell_no_other_answer(tmp_path: Path) -> None:
    path, prompt = tmp_path / RESULTS, Prompt("", benchmark="b", item="1", technique="gd")
    path.write_bytes(encode(_result("one")) + b"\n")
    found = recall.ResultAnswers(tmp_path, "other", "candidate", RunRecord())
    answer = found.find("", prompt, "d", 0)
    assert answer is not None
    assert answer.text == "one"
    path.write_bytes(path.read_bytes().replace(b'"d"', b'"e"'))
    assert found.find("", prompt, "d", 0) is None


def test_a_result_with_fewer_replies_than_prompts_has_no_answer(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_bytes(encode(_result("one", replies=("7",))) + b"\n")
    found = recall.ResultAnswers(tmp_path, "other", "judge", RunRecord())
    prompt = Prompt("", benchmark="b", item="1")
    answer = found.find("", prompt, "d1", 0)
    assert answer is not None
    assert answer.text == "7"
    assert found.find("", prompt, "d2", 0) is None


def test_a_file_of_an_earlier_version_may_be_longer_than_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = log_module.LogHead(backend="b", model="b:m", fingerprint="f", run="run", session="s")
    model = hashlib.sha256(msgspec.json.encode((1, head.backend, head.fingerprint))).hexdigest()[:32]
    folder = tmp_path / "answers" / model
    folder.mkdir(parents=True)
    rests = [f"{name(number)} ".encode() + answers.encode(Answer("a" * 200)) for number in range(20)]
    sums = [hashlib.blake2b(rest, digest_size=8, key=model.encode()).hexdigest().encode() for rest in rests]
    lines = [one + b" " + rest + b"\n" for one, rest in zip(sums, rests, strict=True)]
    (folder / "main.answers").write_bytes(b"".join(lines))
    monkeypatch.setattr(recall, "BLOCK", 1000)
    found = recall.EarlierAnswers(tmp_path, head)
    assert all(found.find(name(number), Prompt(""), "", 0) for number in range(20))


# --- what is told ---------------------------------------------------------------------------------------------


def damaged(path: Path, number: int) -> None:
    """Flip a bit of the last byte of a line, from 1."""
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = lines[number - 1][:-1] + bytes([lines[number - 1][-1] ^ 1])
    path.write_bytes(b"\n".join(lines))


@pytest.mark.parametrize("own", [True, False])
def test_each_line_that_cannot_be_read_is_told_with_its_number(tmp_path: Path, own: bool) -> None:
    store = Remembering(tmp_path)
    store.remember([name(1), name(2)], [Answer("a"), Answer("b")])
    (path,) = files(tmp_path)
    identity = WRITER.identity
    rest = b"answer/no key " + answers.encode(Answer("c"))
    with path.open("ab") as file:
        file.write(log_module.checksum(identity, rest) + b" " + rest + b"\n" + b"half a li")
    damaged(path, 3)
    if own:
        found = Remembering(tmp_path, session(2))
    else:
        found = Remembering(tmp_path / "other", session(2), [LogFolder("one", tmp_path / "answers")])
    assert answers_of(found, [1, 2]) == [None, Answer("b")]
    assert sorted(found.unread) == [
        f"{path} line 3: the checksum does not match",
        f"{path} line 6: it holds an answer under no key",
        f"{path} line 7: {log_module.TORN}",
    ]


def test_a_log_of_another_run_that_does_not_say_who_wrote_it_is_told(tmp_path: Path) -> None:
    store = Remembering(tmp_path)
    store.remember([name(1)], [Answer("a")])
    (path,) = files(tmp_path)
    damaged(path, 1)
    found = Remembering(tmp_path / "other", session(2), [LogFolder("one", tmp_path / "answers")])
    assert answers_of(found, [1]) == [None]
    assert found.unread == (f"{path} line 1: it does not say who wrote the log",)


def test_a_line_that_is_too_long_costs_the_lines_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the own run as well as in another one: the run goes on."""
    store = Remembering(tmp_path)
    store.remember([name(1)], [Answer("a")])
    (path,) = files(tmp_path)
    with path.open("ab") as file:
        file.write(b"x" * 5000 + b"\n")
    monkeypatch.setattr(log_module, "BLOCK", 1000)
    for found in (
        Remembering(tmp_path, session(2)),
        Remembering(tmp_path / "other", session(2), [LogFolder("one", tmp_path / "answers")]),
    ):
        assert answers_of(found, [1]) == [Answer("a")]
        assert found.unread == (f"{path} line 5: longer than 1,000 bytes; no later line is read",)
    bury(tmp_path)
    assert log_module.is_closed(path)


def test_an_answer_that_no_file_holds_is_told(tmp_path: Path) -> None:
    store = Remembering(tmp_path)
    store.remember([name(1)], [Answer("a")])
    shutil.rmtree(tmp_path / "answers")
    with pytest.raises(Unwritable, match=r"answers cannot be stored in .*: No such file or directory"):
        store.remember([name(2)], [Answer("b")])


def test_a_named_run_that_is_removed_costs_nothing(tmp_path: Path) -> None:
    other = Remembering(tmp_path / "one")
    other.remember([name(1), name(2)], [Answer("a"), Answer("b")])
    found = Remembering(tmp_path / "two", session(2), [LogFolder("one", tmp_path / "one/answers")])
    assert answers_of(found, [1]) == [Answer("a")]
    shutil.rmtree(tmp_path / "one")
    assert answers_of(found, [1, 2, 3]) == [None, None, None], "they are asked again"


def test_models_without_a_fingerprint_are_told_apart_by_their_names(tmp_path: Path) -> None:
    """Run.json is lost, and the run's command is typed with another model."""
    nameless = msgspec.structs.replace(WRITER, fingerprint=None, reuse="none")
    Remembering(tmp_path, nameless).remember([name(1)], [Answer("a")])
    same = msgspec.structs.replace(nameless, session="session 2")
    assert answers_of(Remembering(tmp_path, same), [1]) == [Answer("a")]
    other = msgspec.structs.replace(same, model="slow:2")
    assert answers_of(Remembering(tmp_path, other), [1]) == [None]


@pytest.mark.parametrize("content", [b'{"session":"x","keys":["\xff"]}\n', b"[" * 100_000 + b"\n", b"null\n", None])
def test_deaths_that_cannot_be_read_stop_no_run(tmp_path: Path, content: bytes | None) -> None:
    """Written by a bad disk, or a folder of that name in somebody's run."""
    (tmp_path / "answers").mkdir()
    deaths = tmp_path / "answers" / "deaths"
    if content is None:
        deaths.mkdir()
    else:
        deaths.write_bytes(content)
    suspects = Suspects(tmp_path, "s")
    suspects.refresh()
    assert not suspects.suspects(name(1))
