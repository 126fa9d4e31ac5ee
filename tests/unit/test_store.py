"""The answer store: whatever happens to its files, a whole line is found again, and no answer is another's."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import records
from medvqa.engine import Limits, Stream
from medvqa.items import Answer, AnswerError, Image, Item, Prompt, Query, Shot
from medvqa.protocols import prompts
from medvqa.records import store as store_module
from medvqa.session.memory import Memory
from support.laws import examples
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
WRITER = records.Writer("slow", "slow:1", "weights 1", "run", "session 1")


def name(number: int) -> str:
    return f"{number:064x}"


def answers_of(store: records.Store, numbers: Sequence[int], *, look: bool = True) -> list[Answer | None]:
    found = store.recall([name(number) for number in numbers], look=look)
    return [recalled.answer if recalled is not None else None for recalled in found]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.answers"), key=lambda path: path.name)


# --- laws ---------------------------------------------------------------------------------------------------


@examples(40)
@given(
    batches=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.tuples(st.integers(0, 30), ANSWERS), max_size=6)), max_size=12
    )
)
def test_what_any_process_stored_every_process_finds(batches: list[tuple[int, list[tuple[int, Answer]]]]) -> None:
    with TemporaryDirectory() as folder:
        stores = [records.Store(Path(folder), WRITER) for _ in range(4)]
        said: dict[int, set[str]] = {}
        for process, batch in batches:
            stores[process].remember([name(number) for number, _ in batch], [answer for _, answer in batch])
            for number, answer in batch:
                said.setdefault(number, set()).add(repr(answer))
        for store in [*stores, records.Store(Path(folder), WRITER)]:
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
            store = records.Store(Path(folder), replace(WRITER, session=str(offset)))
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

        store = records.Store(Path(folder), WRITER)
        found = dict(zip(given_answers, answers_of(store, list(given_answers)), strict=True))
        for offset, lines, content in zip((0, 100), whole, contents, strict=True):
            start = len(lines[0])
            for number, line in enumerate(lines[1:], offset):
                kept = content[start : start + len(line)] == line and content[start - 1 : start] == b"\n"
                start += len(line)
                assert found[number] == (given_answers[number] if kept else None)
        damaged = sum(b"".join(lines) != bytes(content) for lines, content in zip(whole, contents, strict=True))
        whole_lines_lost = any(b"".join(lines).startswith(bytes(c)) for lines, c in zip(whole, contents, strict=True))
        assert damaged == 0 or store.unread or whole_lines_lost
        store.remember([name(500)], [Answer("goes on")])
        assert answers_of(records.Store(Path(folder), WRITER), [500]) == [Answer("goes on")]


@given(answer=ANSWERS)
def test_an_answer_survives_its_line(answer: Answer) -> None:
    with TemporaryDirectory() as folder:
        store = records.Store(Path(folder), WRITER)
        store.remember([name(1)], [answer])
        assert answers_of(store, [1, 2]) == [answer, None]
        assert answers_of(records.Store(Path(folder), WRITER), [1]) == [answer]


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
    return records.answer_key(prompt, prompts.digest(prompt), sample)


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


@pytest.mark.parametrize("change", [{"fingerprint": "weights 2"}, {"backend": "fast"}, {"fingerprint": None}])
def test_models_share_no_answers(tmp_path: Path, change: dict[str, str | None]) -> None:
    store = records.Store(tmp_path, WRITER)
    store.remember([name(1)], [Answer("A")])
    (path,) = files(tmp_path)
    other = records.Store(tmp_path, replace(WRITER, **change))
    assert answers_of(other, [1]) == [None]
    # Not even when somebody moves a file.
    (other.folder / path.name).write_bytes(path.read_bytes())
    assert answers_of(other, [1]) == [None]
    assert len(other.unread) == 2


# --- sessions -----------------------------------------------------------------------------------------------


def test_an_answer_of_this_session_is_not_an_earlier_one(tmp_path: Path) -> None:
    old = records.Store(tmp_path, WRITER)
    old.remember([name(1)], [Answer("A")])
    now = replace(WRITER, session="session 2")
    first, second = records.Store(tmp_path, now), records.Store(tmp_path, now)
    first.remember([name(2)], [Answer("B")])
    found = second.recall([name(1), name(2)], look=True)
    assert [recalled.earlier for recalled in found if recalled is not None] == [True, False]


def test_fresh_knows_what_its_own_session_stored(tmp_path: Path) -> None:
    old = records.Store(tmp_path, WRITER)
    old.remember([name(1), name(2)], [Answer("A")] * 2)
    now = replace(WRITER, session="session 2")
    fresh, beside = (records.Store(tmp_path, now, fresh=True) for _ in range(2))
    assert answers_of(fresh, [1, 2]) == [None, None]
    beside.remember([name(1)], [Answer("B")])
    assert answers_of(fresh, [1, 2]) == [Answer("B"), None]
    assert answers_of(records.Store(tmp_path, WRITER), [1, 2]) == [Answer("B"), Answer("A")]


def test_what_a_session_asked_is_found_by_its_name(tmp_path: Path) -> None:
    for number in range(3):
        store = records.Store(tmp_path, replace(WRITER, session=f"session {number}"))
        store.remember([name(n) for n in range(number + 1)], [Answer(f"{number}", usage={"cost": 0.5})] * (number + 1))
        store.close()
    found = sorted(
        (w.session, [a.text for a in said]) for w, said in records.answers_asked(tmp_path, {"session 0", "session 2"})
    )
    assert found == [("session 0", ["0"]), ("session 2", ["2", "2", "2"])]
    torn = files(tmp_path)[2]
    torn.write_bytes(torn.read_bytes()[:-9])
    assert [len(said) for _, said in records.answers_asked(tmp_path, {"session 2"})] == [2]
    assert list(records.answers_asked(tmp_path / "none", {"session 2"})) == []


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from medvqa import records\n"
        "from medvqa.items import Answer\n"
        "store = records.Store(pathlib.Path(sys.argv[1]), records.Writer('slow', 'slow:1', 'weights 1', 'run', 's'))\n"
        "for n in range(300):\n"
        "    store.remember([f'{n:064x}', f'{n + 1000:064x}'], [Answer(str(n)), Answer(str(n + 1000))])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    store = records.Store(tmp_path, WRITER)
    numbers = [*range(300), *range(1000, 1300)]
    assert answers_of(store, numbers) == [Answer(str(n)) for n in numbers]


# --- disks --------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_nothing_is_written_behind_half_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = records.Store(tmp_path, WRITER)
    store.remember([name(1)], [Answer("A")])
    monkeypatch.setattr(store, "_own", os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(records.Unwritable, match=r"answers cannot be stored in .*: No space left on device"):
        store.remember([name(2)], [Answer("B")])
    store.remember([name(3)], [Answer("C")])
    assert len(files(tmp_path)) == 2
    assert answers_of(records.Store(tmp_path, WRITER), [1, 2, 3]) == [Answer("A"), None, Answer("C")]


def test_a_write_that_is_cut_short_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = records.Store(tmp_path, WRITER)
    store.remember([name(1)], [Answer("A")])
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:-5]))
    with pytest.raises(records.Unwritable, match="No space left"):
        store.remember([name(2)], [Answer("B")])
    monkeypatch.undo()
    store.remember([name(3)], [Answer("C")])
    again = records.Store(tmp_path, WRITER)
    assert answers_of(again, [1, 2, 3]) == [Answer("A"), None, Answer("C")]
    assert "torn" in again.unread[0]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(records.Unwritable, match=r"answers cannot be stored in .*file"):
        records.Store(tmp_path / "file" / "store", WRITER)
    with pytest.raises(records.Unwritable, match=r"answers cannot be stored in .*: .*file is no folder"):
        records.check_folder(tmp_path / "file" / "store")
    with pytest.raises(records.Unwritable, match="answers cannot be stored in /proc/store"):
        records.Store(Path("/proc/store"), WRITER)
    records.check_folder(tmp_path / "not" / "yet" / "there")
    assert not (tmp_path / "not").exists()


READ_ONLY = """
import os, pathlib, sys
from medvqa import records

folder = pathlib.Path(sys.argv[1])
if os.geteuid() == 0:  # who may write everywhere
    os.setuid(65534)
for act in (lambda: records.Store(folder, records.Writer("slow", "slow:1", "weights 1", "run", "s")),
            lambda: records.check_folder(folder),
            lambda: records.Journal(folder, "gw0")):
    try:
        act()
    except records.Unwritable as error:
        print(error)
"""


def test_a_folder_that_may_only_be_read_is_told() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name) / "kept"
        (folder / WRITER.folder).mkdir(parents=True)
        for path in (Path(name), folder, folder / WRITER.folder):
            path.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder)], capture_output=True, text=True, check=True
        )
        Path(name).chmod(0o755)
        folder.chmod(0o755)
    assert done.stdout.splitlines() == [
        f"answers cannot be stored in {folder / WRITER.folder}: Permission denied",
        f"answers cannot be stored in {folder}: {folder} cannot be written",
        f"run folder {folder} cannot be written: Permission denied",
    ]


def test_a_folder_that_goes_away_is_told(tmp_path: Path) -> None:
    store = records.Store(tmp_path / "share", WRITER)
    store.folder.rmdir()
    with pytest.raises(records.Unwritable, match="No such file or directory"):
        store.recall([name(1)], look=True)
    with pytest.raises(records.Unwritable, match="No such file or directory"):
        store.remember([name(1)], [Answer("A")])


def test_a_line_that_changes_after_it_was_indexed_is_not_believed(tmp_path: Path) -> None:
    records.Store(tmp_path, WRITER).remember([name(1)], [Answer("A")])
    store = records.Store(tmp_path, WRITER)
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"A"', b'"B"'))
    assert answers_of(store, [1]) == [None]


def test_what_others_write_is_seen_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = records.Store(tmp_path, WRITER), records.Store(tmp_path, WRITER)
    writer.remember([name(1)], [Answer("A")])
    assert answers_of(reader, [1], look=False) == [None]
    monkeypatch.setattr(store_module.time, "monotonic", lambda: 1e12)
    assert answers_of(reader, [1], look=False) == [Answer("A")]


# --- the whole store ----------------------------------------------------------------------------------------


def test_contents_name_what_is_damaged(tmp_path: Path) -> None:
    store = records.Store(tmp_path, WRITER)
    store.remember([name(n) for n in range(3)], [Answer("A")] * 3)
    store.close()
    (path,) = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"\n") + 100] ^= 1
    path.write_bytes(content[:-4])
    (found,) = records.contents(tmp_path)
    assert (found.answers, found.size) == (1, len(content) - 4)
    assert found.writer is not None
    assert (found.writer.model, found.writer.run) == ("slow:1", "run")
    assert [problem.removeprefix(str(path)) for problem in found.problems] == [
        " line 2: the checksum does not match",
        " line 4: torn: its process was stopped while writing, or writes yet",
    ]
    records.remove([found])
    assert list(tmp_path.iterdir()) == []
    assert list(records.contents(tmp_path / "none")) == []


def test_lines_are_text_that_other_tools_can_read(tmp_path: Path) -> None:
    records.Store(tmp_path, WRITER).remember([name(1)], [Answer("A naevus.")])
    head, line = files(tmp_path)[0].read_text().splitlines()
    assert json.loads(head.split(" ", 2)[2])["fingerprint"] == "weights 1"
    assert line.split(" ", 2)[1] == name(1)
    assert json.loads(line.split(" ", 2)[2])["text"] == "A naevus."


# --- the journal --------------------------------------------------------------------------------------------


def suspects(run: Path, session: str) -> records.Suspects:
    known = records.Suspects(run, session)
    known.refresh()
    return known


def test_what_was_in_flight_when_a_worker_died_is_suspected(tmp_path: Path) -> None:
    journal = records.Journal(tmp_path, "gw1")
    journal.begin(1, ["a", "b"])
    journal.begin(2, ["c"])
    journal.end(1)
    assert records.bury(tmp_path, "now", "gw10") is None
    assert records.bury(tmp_path, "now", "gw1") == ("c",)
    assert records.bury(tmp_path, "now", "gw1") is None
    known = suspects(tmp_path, "now")
    assert [known.suspects(each) for each in "abc"] == [False, False, True]
    assert not known.kills("c")


def test_the_death_of_a_worker_that_asked_nothing_is_news_to_the_others(tmp_path: Path) -> None:
    """Its tests come to workers that may not have seen yet what it stored."""
    known = suspects(tmp_path, "now")
    journal = records.Journal(tmp_path, "gw1")
    journal.begin(1, ["a"])
    journal.end(1)
    assert records.bury(tmp_path, "now", "gw1") == ()
    assert known.refresh()
    assert not known.suspects("a")


def die(run: Path, session: str, *keys: str) -> None:
    records.Journal(run, "gw0").begin(1, keys)
    records.bury(run, session, "gw0")


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
        records.Journal(tmp_path, f"gw{number}").begin(1, keys)
        records.bury(tmp_path, "earlier")
    known = suspects(tmp_path, "now")
    assert (known.suspects("a"), known.kills("a")) == (True, False)
    die(tmp_path, "now", "a")
    assert suspects(tmp_path, "now").kills("a")


def stop(run: Path, *calls: str) -> None:
    """A session dies as a whole while these calls are in flight, each with a question for a letter."""
    journal = records.Journal(run, "main")
    for number, keys in enumerate(calls, 1):
        journal.begin(number, list(keys))
    records.bury(run)


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
    journal = records.Journal(tmp_path, "gw0")
    journal.begin(1, ["a"])
    journal.begin(2, ["b"])
    records.bury(tmp_path, "now", "gw0")
    assert all(suspects(tmp_path, "now").suspects(each) for each in "ab")


def test_a_process_that_ends_in_order_makes_no_suspects(tmp_path: Path) -> None:
    journal = records.Journal(tmp_path, "gw0")
    journal.begin(1, ["a", "b"])
    journal.begin(2, ["c"])
    journal.end(2)
    journal.close()
    assert records.bury(tmp_path, "now", "gw0") == ()
    assert not any(suspects(tmp_path, "now").suspects(each) for each in "abc")


def test_suspicion_ends_with_a_session_that_completes_the_run(tmp_path: Path) -> None:
    die(tmp_path, "now", "a", "b")
    records.Journal(tmp_path, "gw1").close()
    records.close_journals(tmp_path, complete=False)
    assert suspects(tmp_path, "next").suspects("a")
    records.close_journals(tmp_path, complete=True)
    assert not suspects(tmp_path, "next").suspects("a")
    assert not (tmp_path / "asking").exists()


def test_a_torn_line_of_a_journal_was_not_asked_yet(tmp_path: Path) -> None:
    journal = records.Journal(tmp_path, "gw0")
    journal.begin(1, ["a"])
    (path,) = (tmp_path / "asking").iterdir()
    with path.open("ab") as file:
        file.write(b'{"call":2,"ke')
    assert records.bury(tmp_path, "now", "gw0") == ("a",)


def test_a_line_of_which_a_full_disk_took_a_part_costs_no_more_than_itself(tmp_path: Path) -> None:
    journal = records.Journal(tmp_path, "gw0")
    journal.begin(1, ["a"])
    (path,) = (tmp_path / "asking").iterdir()
    with path.open("ab") as file:
        file.write(b'{"call":2,"ke')
    journal.begin(3, ["b"])
    journal.begin(4, ["c"])
    assert records.bury(tmp_path, "now", "gw0") == ("a", "c")
    with (tmp_path / "asking" / "deaths").open("ab") as file:
        file.write(b'{"session":"no')
    die(tmp_path, "now", "d")
    die(tmp_path, "now", "e")
    known = suspects(tmp_path, "now")
    assert [known.suspects(each) for each in "abcde"] == [True, False, True, False, True]


def test_a_journal_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = records.Journal(tmp_path, "gw0")
    monkeypatch.setattr(journal, "_file", os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(records.Unwritable, match="No space left"):
        journal.begin(1, ["a"])
    (tmp_path / "file").write_text("")
    with pytest.raises(records.Unwritable, match=r"run folder .* cannot be written"):
        records.Journal(tmp_path / "file", "gw0")


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
    """The memory of a session's process, over a store in a folder."""

    def __init__(self, folder: Path, session: str) -> None:
        writer = replace(WRITER, session=session)
        super().__init__(
            records.Store(folder / "store", writer),
            records.Journal(folder, "main"),
            records.Suspects(folder, session),
        )


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
            memory = Remembered(Path(name), f"session {number}")
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
    stores = [records.Store(tmp_path, replace(WRITER, session=str(number))) for number in range(2)]
    prompts_of_five = [_prompt(1, sample) for sample in range(1, 6)]
    keys = [key(prompt, prompt.sample) for prompt in prompts_of_five]
    assert len(set(keys)) == 5
    assert key(_prompt(1, 0), 0) not in keys
    for process, store in enumerate(stores):
        mine = keys[process::2]
        store.remember(mine, [Answer(f"{process} {number}") for number in range(len(mine))])
    for store in [*stores, records.Store(tmp_path, WRITER)]:
        found = [recalled.answer.text for recalled in store.recall(keys[:3], look=True) if recalled is not None]
        assert found == ["0 0", "1 0", "0 1"]
