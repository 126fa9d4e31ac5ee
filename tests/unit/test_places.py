"""Places: whatever is closed and put when, readers get the same answers, and what is broken is no answer."""

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import configs
from medvqa.backends.baselines import Random
from medvqa.items import Answer, Benchmark, QuestionKey, UsageError
from medvqa.records import answer_places, exchange
from medvqa.records.address import Address
from medvqa.records.answer_places import MARKER, LogName, Place, PlaceReader, log_problem, open_place
from medvqa.records.bucket import Bucket, endpoint, open_bucket
from medvqa.records.exchange import Exchange, Outbox, left_beside
from medvqa.records.lock import Holder, Lock
from medvqa.records.log import Closed, Log, LogHead, checksum, close_dead, logs, read_log, scan
from medvqa.records.objects import BucketError, FolderObjects, ObjectExists, Objects, ObjectTooLarge, reduced
from medvqa.records.selected import store_selected
from medvqa.records.suspects import bury
from medvqa.session import uploads
from medvqa.session.chosen import Chosen
from medvqa.session.options import Options
from support.buckets import variables
from support.laws import examples

obstore = pytest.importorskip("obstore")
from obstore.store import MemoryStore  # noqa: E402

HEAD = LogHead(backend="slow", model="slow:1", fingerprint="weights 1", run="run", session="session 1", reuse="all")
MODEL = HEAD.identity
ADDRESS = Address("s3", "bucket", "answers")


def name(number: int) -> str:
    return f"{number:064x}"


def bucket(there: Objects | None = None) -> Place:
    return Place(str(ADDRESS), Bucket(ADDRESS, MemoryStore()) if there is None else there, None, "Check the keys")


def machine(folder: Path) -> Path:
    """A run folder on a machine of its own."""
    folder.mkdir(exist_ok=True)
    return folder / "reports" / "run"


def answer(run: Path, texts: Sequence[tuple[int, str]], *, closes: bool = True, **head: Any) -> Path:
    """Store answers in a run, as one process does."""
    log = Log(run, "main")
    log.begin_as(msgspec.structs.replace(HEAD, **head))
    for number, text in texts:
        log.begin(number, [name(number)])
        log.end(number, [name(number)], [Answer(text)])
    if closes:
        log.close()
    return log.path


def push(place: Place, run: Path, session: str = "later") -> tuple[int, int]:
    """Put the logs of a run as a later session does; the numbers of answers that are there, and of those left."""
    bury(run)
    outbox = Outbox(place, run, session)
    return outbox.put(), outbox.left()


def reader(place: Place, folder: Path, session: str = "reader") -> PlaceReader:
    made = PlaceReader(place, MODEL, session, folder)
    made.read()
    return made


def recalled(place: Place, folder: Path, count: int, session: str = "reader") -> dict[int, str]:
    """The answers that a later session finds in a place."""
    found = reader(place, folder, session).recall([name(number) for number in range(count)])
    return {number: each.text for number, each in enumerate(found) if each is not None}


def paths(place: Place, folder: str = "") -> list[str]:
    return [entry.name for page in place.objects.listed(folder, "", 5) for entry in page]


def raw(place: Place, path: str, content: bytes) -> None:
    assert isinstance(place.objects, Bucket)
    obstore.put(place.objects._store, path, content)


# --- objects and their names ----------------------------------------------------------------------------------


@examples(60)
@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=5), data=st.data())
def test_a_cut_or_changed_log_is_not_read(texts: list[str], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        whole = answer(Path(folder, "run"), [*enumerate(texts)]).read_bytes()
    assert log_problem(scan(whole)[0], MODEL) is None
    cut = data.draw(st.integers(0, len(whole) - 1))
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    for broken in (whole[:cut], whole[cut + 1 :], whole + whole[cut:], changed):
        assert log_problem(scan(broken)[0], MODEL) is not None
    assert log_problem(scan(whole)[0], "0" * 32) is not None


@given(st.text(max_size=80))
def test_only_our_names_are_names(text: str) -> None:
    parsed = LogName.parse(text)
    assert parsed is None or str(parsed) == text


def test_a_name_tells_no_process() -> None:
    made = LogName.of(Path("20260101T000000.000001-secret-0123456789abcdef.log"))
    assert LogName.parse(str(made)) == made
    assert str(made) == "z20260101T000000.000001-0123456789abcdef-0.log"
    for hostile in (f"../{made}", f"{made}\n", f"x/{made}", str(made).replace("2026", "２０２６")):
        assert LogName.parse(hostile) is None


@examples(40)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), max_size=12), st.integers(0, 30))
def test_a_list_goes_on_behind_names_that_are_no_paths(names: list[str], start: int) -> None:
    """As obstore fails: a page with such a name is lost, and no other; a list that goes on always comes to its end."""

    class Strict:
        def list(self, _: object, prefix: str, *, offset: str, chunk_size: int) -> Iterator[list[dict[str, Any]]]:
            left = sorted(path for path in all_paths if path > offset)
            for page in (left[at : at + 3] for at in range(0, len(left), 3)):
                for path in page:
                    if any(part in ("", ".", "..") or not part.isprintable() for part in path.split("/")):
                        raise InvalidPathError(f'Error parsing Path "answers/{path}": Encountered illegal character')
                yield [{"path": path, "size": 1} for path in page]

    class InvalidPathError(Exception):
        pass

    all_paths = {f"m/{text}" for text in names} | {f"m/z{number:02}" for number in range(start)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obstore, "list", Strict().list)
        found = [entry for page in Bucket(ADDRESS, None)._pages("m", "y~") for entry in page]
    listed, odd = ({entry.name for entry in found if (entry.size is None) is is_odd} for is_odd in (False, True))
    assert listed | odd <= all_paths
    if not any(name > "y~" for name in names):
        assert listed == {path for path in all_paths if path > "m/y~"}


# --- there and back -------------------------------------------------------------------------------------------


@examples(40)
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=20)), max_size=5), max_size=4),
    ends=st.lists(st.sampled_from(["closed", "killed", "torn"]), min_size=4, max_size=4),
    puts=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_however_logs_are_put_readers_get_the_same_answers(
    batches: list[list[tuple[int, str]]], ends: list[str], puts: list[bool]
) -> None:
    """Whatever was put when, by which session, and whether processes ended or were killed."""
    latest: dict[int, str] = {}
    with TemporaryDirectory() as folder:
        place, one = bucket(), machine(Path(folder, "one"))
        for number, (batch, end, put) in enumerate(zip(batches, ends, puts, strict=False)):
            texts = [(key, text.encode("utf-8", "replace").decode()) for key, text in batch]
            path = answer(one, texts, closes=end == "closed", session=f"session {number}")
            latest |= dict(texts)
            if end == "torn":
                with path.open("ab") as file:
                    file.write(b"0123456789abcdef half a li")
            if put:
                push(place, one, f"session {number + 1}")
        assert push(place, one)[1] == 0
        assert push(place, one) == push(place, one), "nothing is put twice"
        assert len(paths(place)) == sum(map(bool, batches))
        assert recalled(place, Path(folder), 10) == latest


def test_a_session_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    answer(one, [(0, "a")])
    assert push(place, one) == (1, 0)
    made = reader(place, tmp_path)
    answer(one, [(1, "b")])
    push(place, one)
    assert made.recall([name(1)]) == [None]
    got: list[str] = []
    get = Bucket._get
    monkeypatch.setattr(Bucket, "_get", lambda self, path, most: got.append(path) or get(self, path, most))
    assert made.read() == 1
    assert made.recall([name(0), name(1), name(2)]) == [Answer("a"), Answer("b"), None]
    assert made.used == 2
    assert len(got) == 1
    assert made.read() == 0


def test_logs_of_the_session_itself_are_not_read(tmp_path: Path) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    answer(one, [(0, "a")], session="mine")
    push(place, one)
    assert recalled(place, tmp_path, 1, "mine") == {}
    assert recalled(place, tmp_path, 1, "other") == {0: "a"}


def test_of_two_answers_the_later_one_counts(tmp_path: Path) -> None:
    """On every machine, whichever was put there last."""
    place = bucket()
    one, two = (machine(tmp_path / name) for name in ("one", "two"))
    for run, text in ((one, "earlier"), (two, "later")):
        answer(run, [(0, text)])
    for run in (two, one):
        push(place, run)
    assert recalled(place, tmp_path, 1) == {0: "later"}


def test_an_answer_that_does_not_decode_hides_no_older_one(tmp_path: Path) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    answer(one, [(0, "whole")])
    path = answer(one, [(0, "odd"), (1, "b")], closes=False)
    head, *lines = path.read_bytes().splitlines(keepends=True)
    rest = f"answer/{name(0)} ".encode() + b'{"text": 7}'
    lines[1] = checksum(MODEL, rest) + b" " + rest + b"\n"
    path.write_bytes(b"".join((head, *lines)))
    close_dead(path, read_log(path)[0])
    push(place, one)
    made = reader(place, tmp_path)
    assert [each and each.text for each in made.recall([name(0), name(1)])] == ["whole", "b"]
    assert len(made.unread) == 1
    assert made.unread[0].startswith(f"{place.name}/{MODEL}/")


def test_only_logs_for_other_runs_are_put(tmp_path: Path) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    answer(one, [(0, "a")], reuse="none")
    answer(one, [(1, "b")], reuse="here")
    assert push(place, one) == (0, 0)
    assert paths(place) == []


def test_a_log_that_just_began_is_put_once_it_is_closed(tmp_path: Path) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    log = Log(one, "main")
    outbox = Outbox(place, one, HEAD.session)
    assert outbox.put() == 0
    log.begin_as(HEAD)
    log.end(0, [name(0)], [Answer("a")])
    assert outbox.put() == 0
    log.close()
    assert outbox.put() == 1


def test_logs_of_killed_sessions_are_put_by_runs_beside_them(tmp_path: Path) -> None:
    """If these runs were to give their logs to that place, and nobody writes them any more."""
    place, elsewhere = bucket(), Place("s3://bucket/other", Bucket(ADDRESS, MemoryStore()), None, "")
    one, two = tmp_path / "reports/one", tmp_path / "reports/two"
    killed = answer(one, [(0, "a")], closes=False)
    Outbox(place, one, "session 1").put()  # the session begins, and is killed
    assert left_beside(two, place) == {one / "answers": [killed]}
    assert left_beside(two, elsewhere) == left_beside(one, place) == {}
    answer(two, [(1, "b")])
    assert push(place, two) == (1, 0), "the log was written just now"
    old = time.time() - 1000
    os.utime(killed, (old, old))
    assert push(elsewhere, two) == (1, 0), "nobody said that the other run's answers may go there"
    assert push(place, two) == (2, 0)
    assert left_beside(two, place) == {}
    assert recalled(place, tmp_path, 2) == {0: "a", 1: "b"}
    assert not read_log(killed)[0].closed, "a log of another run is not written"


# --- a place that is not as it should be ----------------------------------------------------------------------


def test_what_is_no_log_is_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    answer(one, [(0, "a"), (1, "b")])
    push(place, one)
    (path,) = paths(place)
    whole = place.objects.get(path, 10**6)
    foreign = answer(tmp_path / "foreign", [(0, "x")], fingerprint="weights 2").read_bytes()
    half, huge, nobody, other = (str(LogName(f"20260101T000000.000000-{token * 16}")) for token in "abcd")
    raw(place, f"{MODEL}/{half}", whole[: len(whole) // 2])
    raw(place, f"{MODEL}/{huge}", whole + bytes(10_000))
    raw(place, f"{MODEL}/{nobody}", b"".join(whole.splitlines(keepends=True)[1:]))
    raw(place, f"{MODEL}/{other}", foreign)
    for odd in ("notes.txt", f"deep/{half}", f"x{half}", "zoo"):
        raw(place, f"{MODEL}/{odd}", b"x")
    monkeypatch.setattr(answer_places, "MAX_LOG", len(whole) + 1000)
    made = reader(place, tmp_path)
    assert sorted(line.removeprefix(f"{place.name}/{MODEL}/") for line in made.unread) == [
        f"{half}: its end is missing",
        f"{huge}: larger than {len(whole) + 1000:,} bytes",
        f"{nobody}: it does not say who wrote it",
        f"{other}: it is a log of another model",
        "zoo: an odd name; it is skipped",
    ]
    assert [each and each.text for each in made.recall([name(0), name(1)])] == ["a", "b"]
    assert reader(place, tmp_path).unread == made.unread, "told again, as its questions would be asked again"


def test_an_answer_under_no_key_is_left_out(tmp_path: Path) -> None:
    """Whoever can write into a place can write a log with the right digests."""
    place, one = bucket(), machine(tmp_path / "one")
    path = answer(one, [(0, "a")], closes=False)
    rest = [f"answer/{key} {{}}".encode() for key in ("z" * 64, "short", "é" * 32)]
    content = path.read_bytes() + b"".join(checksum(MODEL, line) + b" " + line + b"\n" for line in rest)
    digest = hashlib.blake2b(content, digest_size=16, key=MODEL.encode()).hexdigest()
    end = b"closed " + msgspec.json.encode(Closed(digest=digest))
    content += checksum(MODEL, end) + b" " + end + b"\n"
    assert log_problem(scan(content)[0], MODEL) is None
    raw(place, f"{MODEL}/{LogName.of(path)}", content)
    assert recalled(place, tmp_path, 1) == {0: "a"}


def test_a_log_that_rotted_is_put_again(tmp_path: Path) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    answer(one, [(0, "a"), (1, "b")])
    push(place, one)
    (path,) = paths(place)
    whole = place.objects.get(path, 10**6)
    raw(place, path, whole.replace(b'"b"', b'"c"'))
    made = reader(place, tmp_path)
    assert made.unread == (f"{place.name}/{path}: its digest does not match",)
    assert made.recall([name(0)]) == [None]
    outbox = Outbox(place, one, "later")
    outbox.put()
    assert outbox.take_lines() == [f"{place.name}/{path} is not the log that was put there; it is put again"]
    assert paths(place) == [path, path.replace("-0.log", "-1.log")]
    assert recalled(place, tmp_path, 2) == {0: "a", 1: "b"}
    assert made.read() == 1
    assert made.recall([name(0)]) == [Answer("a")]
    assert push(place, one) == (2, 0)
    assert len(paths(place)) == 2


def test_of_too_many_logs_the_latest_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    for number in range(9):
        answer(one, [(number, "a")])
    push(place, one)
    for limit, most in (("MAX_LOGS", 5), ("MAX_READ", 1500)):
        with monkeypatch.context() as patch:
            patch.setattr(answer_places, limit, most)
            made = reader(place, tmp_path)
            assert made.recall([name(8), name(0)]) == [Answer("a"), None]
            assert "old logs are not read: there are too many, or too large ones" in made.unread[0]


def test_what_was_read_in_time_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a place that is large or slow; a line says how far it got, and others while it is read."""
    place, one = bucket(), machine(tmp_path / "one")
    for number in range(9):
        answer(one, [(number, "a")])
    push(place, one)
    get = Bucket._get
    slow = threading.Lock()

    def slowly(self: Bucket, path: str, most: int) -> bytes:
        with slow:
            time.sleep(0.1)
            return get(self, path, most)

    monkeypatch.setattr(Bucket, "_get", slowly)
    monkeypatch.setattr(answer_places, "PROGRESS", 0.05)
    said: list[str] = []
    made = PlaceReader(place, MODEL, "later", tmp_path)
    made.read(said.append, 0.5)
    found = sum(answer is not None for answer in made.recall([name(number) for number in range(9)]))
    assert 0 < found < 9
    assert said[0] == f"medvqa: {place.name}: 1 of 9 logs read"
    assert said[-1] == f"medvqa: {place.name}: {found} of 9 logs read in 0.5 s; the others are not"
    made.read(said.append)
    assert None not in made.recall([name(number) for number in range(9)])


def test_what_was_not_read_in_time_is_read_later_however_old_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later list begins shortly before the latest log."""
    place, one = bucket(), machine(tmp_path / "one")
    for number in range(3):
        answer(one, [(number, "a")])
    push(place, one)
    monkeypatch.setattr(answer_places, "LATE", timedelta(0))
    made = PlaceReader(place, MODEL, "later", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "_get", lambda *_: time.sleep(2))
        assert made.read(seconds=0.5) == 0
    assert made.read() == 3
    assert None not in made.recall([name(number) for number in range(3)])


class Faulty(Bucket):
    """A bucket whose puts fail: `before` or `after` the object is there."""

    def __init__(self, when: str) -> None:
        super().__init__(ADDRESS, MemoryStore())
        self.when = when
        self.puts = 0

    def put(self, name: str, content: bytes, seconds: float = 5.0) -> None:
        self.puts += 1
        if self.when != "before":
            super().put(name, content, seconds)
        if self.when:
            raise BucketError("status 503 (GenericError)")


def test_a_put_whose_reply_was_lost_is_no_second_object(tmp_path: Path) -> None:
    there = Faulty("after")
    place, one = bucket(there), machine(tmp_path / "one")
    answer(one, [(0, "a")])
    outbox = Outbox(place, one, "session 1")
    with pytest.raises(BucketError):
        outbox.put()
    there.when = ""
    outbox.put()
    assert (outbox.left(), len(paths(place))) == (0, 1)
    assert recalled(place, tmp_path, 1) == {0: "a"}


def test_another_object_of_our_name_costs_no_answer(tmp_path: Path) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    taken = f"{MODEL}/{LogName.of(answer(one, [(0, 'a')]))}"
    raw(place, taken, b"somebody else's")
    with pytest.raises(ObjectExists):
        place.objects.put(taken, b"x")
    assert push(place, one, "session 1") == (1, 0)
    made = reader(place, tmp_path)
    assert len(made.unread) == 1
    assert made.recall([name(0)]) == [Answer("a")]


def test_failed_puts_are_told_once_and_made_up_for(tmp_path: Path) -> None:
    there = Faulty("before")
    place, one = bucket(there), machine(tmp_path / "one")
    thread = Exchange(one, "session 1", [place], puts=True, first=0.02)
    answer(one, [(0, "a"), (1, "b")])
    thread.start()
    until(lambda: there.puts > 1)
    there.when = ""
    until(lambda: bool(paths(place)))
    assert thread.close() == 0
    assert thread.take_lines() == [
        f"medvqa: answers cannot be put into s3://bucket/answers: status 503 (GenericError). They are safe in "
        f"{one / 'answers'}; putting them is tried again",
        "medvqa: answers are put into s3://bucket/answers again",
    ]


def test_the_end_says_what_is_not_in_the_place(tmp_path: Path) -> None:
    there = Faulty("before")
    place, one = bucket(there), machine(tmp_path / "one")
    thread = Exchange(one, "session 1", [place], puts=True, first=60)
    thread.start()
    answer(one, [(0, "a"), (1, "b")])
    assert thread.close(by=time.monotonic() + 1.5) == 2
    told = thread.take_lines()[-1]
    assert told.startswith("medvqa: 2 answers are not in s3://bucket/answers. They are safe in")
    assert told.endswith("the next run beside it with --answers=s3://bucket/answers puts them")
    there.when = ""
    assert push(place, one) == (2, 0)


def test_a_place_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    answer(one, [(0, "a")])
    ends = threading.Event()
    monkeypatch.setattr(obstore, "put", lambda *_, **__: ends.wait(60))
    thread = Exchange(one, "session 1", [place], puts=True, first=60)
    thread.start()
    began = time.monotonic()
    assert thread.close(by=time.monotonic() + 1.5) == 1
    assert time.monotonic() - began < 30
    ends.set()


def test_a_log_that_is_too_long_stays_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, one = bucket(), machine(tmp_path / "one")
    for number, text in enumerate(("a", "b" * 5000, "c")):
        answer(one, [(number, text)])
    monkeypatch.setattr(exchange, "MAX_LOG", 4000)
    outbox = Outbox(place, one, "later")
    outbox.put()
    assert outbox.left() == 1
    assert "stays here: larger than 4,000 bytes" in outbox.take_lines()[0]
    assert recalled(place, tmp_path, 3) == {0: "a", 2: "c"}


def test_a_log_is_closed_in_time_and_others_are_read_again(tmp_path: Path) -> None:
    """5 s after the first answer, then every 60 s or 1 MiB; here in haste. So two machines see each other's answers."""
    place, runs = bucket(), [machine(tmp_path / name) for name in ("one", "two")]
    sides = []
    for run in runs:
        log = Log(run, "main")
        log.begin_as(msgspec.structs.replace(HEAD, session=run.parts[-3]))
        made = PlaceReader(place, MODEL, run.parts[-3], tmp_path)
        thread = Exchange(run, run.parts[-3], [place], puts=True, first=0.05, every=0.1)
        thread.add(log, [made])
        thread.start()
        sides.append((log, made, thread))
    for number, (log, _, _) in enumerate(sides):
        log.end(number, [name(number)], [Answer("abc"[number])])
    until(lambda: len(paths(place)) == 2)
    one = sides[0][0]
    one.end(2, [name(2)], [Answer("c")])
    until(lambda: len(paths(place)) == 3)
    until(lambda: sides[0][1].recall([name(1)]) == [Answer("b")])
    for log, _, thread in sides:
        log.close()
        assert thread.close() == 0
        assert thread.take_lines() == []
    assert len(paths(place)) == 3, "a log without an answer is not put"


def test_a_run_has_few_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand machines have at most 200,000: after the first hundred logs, times and sizes grow."""
    run, now = tmp_path / "reports/run", [0.0]
    log = Log(run, "main")
    log.begin_as(HEAD)
    thread = Exchange(run, HEAD.session, [], puts=False)
    thread.add(log, [])
    monkeypatch.setattr(exchange.time, "monotonic", lambda: now[0])
    sizes = []
    for number in range(12 * 60):
        log.end(number, [name(number)], [Answer("a")])
        now[0] += 60.0
        thread._rotate()
        sizes.append(len(logs(run / "answers")))
    assert sizes[90] == 91
    assert 150 < sizes[-1] < 200


def test_no_log_becomes_too_long_to_be_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "reports/run"
    for number in range(20):
        answer(run, [(number, "a")])
    log = Log(run, "main")
    log.begin_as(HEAD)
    monkeypatch.setattr(exchange, "MAX_LOG", 4000)
    monkeypatch.setattr(exchange, "OFTEN", 0)
    monkeypatch.setattr(exchange, "DOUBLED", 1)
    thread = Exchange(run, HEAD.session, [], puts=False, enough=1000)
    thread.add(log, [])
    log.end(1, [name(100)], [Answer("a" * 2500)])
    thread._rotate()
    assert read_log(log.path)[0].closed is not None


def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


# --- a folder as a place --------------------------------------------------------------------------------------


def test_a_folder_becomes_a_place_and_another_is_refused(tmp_path: Path) -> None:
    place = open_place(tmp_path / "place", {})
    assert not (tmp_path / "place").exists(), "nothing is made before the run is checked"
    assert not place.check()
    assert (tmp_path / "place" / MARKER).is_file()
    assert not open_place(f"file://{tmp_path}/place", {}).check()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").touch()
    (tmp_path / "file").touch()
    for named, told in (("full", "has other files"), ("run", "is the folder of a run"), ("file", "is no folder")):
        with pytest.raises(UsageError, match=told):
            open_place(tmp_path / named, {})
    with pytest.raises(UsageError) as error:
        open_place(tmp_path / "x\x1b[31m/y", {})
    assert str(error.value).isprintable()


def test_answers_go_through_a_folder_whatever_else_lies_there(tmp_path: Path) -> None:
    """Links, pipes, folders and odd names are named or passed over; none blocks the others."""
    one, folder = machine(tmp_path / "one"), tmp_path / "place"
    place = open_place(folder, {})
    place.check()
    answer(one, [(0, "a")])
    assert push(place, one) == (1, 0)
    (model,) = (path for path in folder.iterdir() if path.is_dir())
    (log,) = model.iterdir()
    for within in (folder, model):
        (within / "circle").symlink_to("circle")
        (within / "x\x1b").touch()
        (within / "zz\x1b[31m").touch()
        os.mkfifo(within / "pipe")
        (within / "folder").mkdir()
    secret = tmp_path / "secret.log"
    secret.write_bytes(log.read_bytes())
    linked = LogName("20260101T000000.000000-" + "a" * 16)
    (model / str(linked)).symlink_to(secret)
    assert open_place(folder, {}).check()
    made = reader(place, tmp_path)
    assert made.recall([name(0)]) == [Answer("a")]
    assert sorted(line.removeprefix(f"{place.name}/{MODEL}/") for line in made.unread) == [
        f"{linked}: an odd name; it is skipped",
        "zz\ufffd[31m: an odd name; it is skipped",
    ]
    answer(one, [(1, "b")])
    assert push(place, one) == (2, 0)
    assert not list(folder.rglob("*.tmp"))


def test_a_link_in_place_of_a_models_folder_is_not_followed(tmp_path: Path) -> None:
    one, folder, outside = machine(tmp_path / "one"), tmp_path / "place", tmp_path / "outside"
    place = open_place(folder, {})
    place.check()
    outside.mkdir()
    (folder / MODEL).symlink_to(outside)
    answer(one, [(0, "a")])
    with pytest.raises(BucketError):
        push(place, one)
    assert list(outside.iterdir()) == []
    assert reader(place, tmp_path).unread == (f"{place.name}/{MODEL}/: an odd name; it is skipped",)


@examples(30)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=40)), max_size=8))
def test_a_folder_creates_once_as_a_bucket_does(puts: list[tuple[str, bytes]]) -> None:
    with TemporaryDirectory() as folder:
        kinds: list[Objects] = [FolderObjects(Path(folder)), Bucket(ADDRESS, MemoryStore())]
        done = []
        for there in kinds:
            said: list[object] = []
            for short, content in puts:
                with suppress(ObjectExists):
                    there.put(f"m/{short}", content)
                    said.append(short)
            for short in "abcd":
                try:
                    said.append(there.get(f"m/{short}", 20))
                except ObjectTooLarge as error:
                    said.append(str(error))
                except BucketError as error:
                    said.append(type(error))
            said += [entry for page in there.listed("m", "a", 5) for entry in page]
            done.append(said)
    assert done[0] == done[1]


def test_an_error_repeats_nothing_that_may_hold_a_key() -> None:
    secret = "AKIAIOSFODNN7EXAMPLE"
    text = (
        f"Generic S3 error: Error performing PUT http://u:{secret}@host/b?X-Amz-Signature={secret} in 2s - Server "
        "returned non-2xx status code: 403 Forbidden: <Code>SignatureDoesNotMatch</Code>"
        f"<AWSAccessKeyId>{secret}</AWSAccessKeyId>\x1b[31m"
    )
    told = reduced(RuntimeError(text))
    assert told == "status 403, SignatureDoesNotMatch (RuntimeError)"
    assert reduced(ValueError(secret)) == "ValueError"
    assert reduced(ValueError(f"<Code>{secret}</Code>")) == "ValueError"


# --- addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s3a://bucket/x", "no store is reached by 's3a:'"),
        ("http://user:hunter2@host/x", "write s3://, gs://, az:// or file:///, or a folder"),
        ("s3:/bucket", "two slashes follow 's3:'"),
        (" s3://bucket/a", "an address begins with its scheme"),
        ("s3://key:hunter2@bucket/x", "keys are read from the environment alone"),
        ("s3://bucket/x?secret=hunter2", "options are read from the environment alone"),
        ("az://bucket/x#hunter2", "options are read from the environment alone"),
        ("s3://bucket/%2e%2e/x", "write the name itself"),
        ("s3://bucket/a\x1b[31m", "cannot be printed"),
        ("s3://bucket/" + "x" * 2000, "longer than 1,000"),
        ("s3:///x", "the name of a bucket"),
        ("s3://b ucket/x", "the name of a bucket"),
        ("gs://bucket/a/../b", "'.' or '..'"),
        ("gs://bucket//b", "is empty"),
        ("file://host/x", "after three slashes"),
        ("file:///", "after three slashes"),
        ("file:///a/../../etc", "'.' or '..'"),
    ],
)
def test_what_is_no_address_is_refused_without_a_key(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        Options.of({"answers": [text]}, tmp_path)
    assert told in str(error.value)
    assert "hunter2" not in str(error.value)
    assert str(error.value).isprintable()


def test_addresses_and_folders(tmp_path: Path) -> None:
    assert Options.of({"answers": ["s3://bucket/a/b/"]}, tmp_path).answers == ("s3://bucket/a/b",)
    assert Options.of({"answers": ["file:///srv/my answers"]}, tmp_path).answers == ("file:///srv/my answers",)
    for folder in ("./answers", "a/C:answers", "a/s3://b"):
        assert Options.of({"answers": [folder]}, tmp_path).answers == (str(tmp_path / folder),)
    for run in ("run", "C:answers", "x:y"):
        assert Options.of({"answers": [run]}, tmp_path).answers == (run,)


@pytest.mark.parametrize(
    "url",
    [
        *("http://key:hunter2@host:9000", "host:9000", "http://host/?x=hunter2", "http://127.0.0.1\\hunter2.example"),
        *("http://127.0.0.1:9000\\.hunter2", "http:///hunter2", "http://hunter２"),
        *("http://h%75nter2", "http:\\\\hunter2"),
    ],
)
def test_a_server_s_address_has_no_key(url: str) -> None:
    with pytest.raises(UsageError, match="AWS_ENDPOINT_URL") as error:
        open_bucket(ADDRESS, {"AWS_ENDPOINT_URL": url})
    assert "hunter2" not in str(error.value)


@dataclass
class Listener:
    """A server that refuses every request, and counts them."""

    url: str
    requests: list[bytes]


@contextmanager
def listening() -> Iterator[Listener]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = Listener(f"http://127.0.0.1:{server.getsockname()[1]}", [])

        def answer() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        listener.requests.append(connection.recv(1000))
                        connection.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield listener


KEYS = {
    "s3": {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"},
    "az": {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"},
    "gs": {"GOOGLE_BEARER_TOKEN": "t"},
}
EMULATED = {"AZURE_STORAGE_USE_EMULATOR": "on"}


def knows_base_url() -> bool:
    """Whether this version of obstore can be given another server for Google; earlier ones read none either."""
    from obstore.exceptions import UnknownConfigurationKeyError
    from obstore.store import GCSStore

    with suppress(UnknownConfigurationKeyError):
        return bool(GCSStore("bucket", base_url="http://127.0.0.1:1"))
    return False


@pytest.mark.parametrize(
    ("scheme", "one", "other", "more"),
    [
        ("s3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", {}),
        ("s3", "AWS_ENDPOINT_URL", "AWS_Endpoint", {}),
        ("s3", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", {}),
        ("s3", "AWS_ENDPOINT", "AWS_endpoint_url_s3", {}),
        ("az", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", {}),
        ("az", "AZURE_ENDPOINT", "AZURE_Storage_Endpoint", {}),
        ("az", "AZURE_ENDPOINT", "AZURITE_BLOB_STORAGE_URL", EMULATED),
        pytest.param(
            *("gs", "GOOGLE_BASE_URL", "GOOGLE_Base_Url", {}),
            marks=pytest.mark.skipif(not knows_base_url(), reason="obstore has no other server for Google"),
        ),
    ],
)
def test_answers_go_where_the_run_says_or_nowhere(scheme: str, one: str, other: str, more: dict[str, str]) -> None:
    """obstore reads the environment itself, and prefers other variables than a reader would."""
    address = Address.of(f"{scheme}://bucket/x")
    with listening() as said, listening() as second:
        with variables({**KEYS[scheme], **more, one: said.url, other: second.url}):
            with pytest.raises(UsageError, match="name different servers") as error:
                open_bucket(address, os.environ)
            with pytest.raises(UsageError, match="name different servers"):
                endpoint(address, os.environ)
        assert one in str(error.value)
        assert other in str(error.value)
        assert said.url not in str(error.value)
        for name in (one, other) if not more else (other,):
            with variables({**KEYS[scheme], **more, name: f"{said.url}/"}):
                assert endpoint(address, os.environ) == said.url
                count = len(said.requests)
                with pytest.raises(BucketError):
                    open_bucket(address, os.environ).put("name", b"answer", seconds=10)
                assert len(said.requests) > count
        with variables({**KEYS[scheme], **more, one: said.url, other: f"{said.url}/"}):
            assert endpoint(address, os.environ) == said.url
        assert second.requests == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(UsageError, match=r"pip install 'pytest-medvqa\[store\]'"):
        open_bucket(ADDRESS, {})


# --- where answers go, and private data -----------------------------------------------------------------------


def test_of_a_model_without_a_fingerprint_it_is_said_that_nothing_is_shared(tmp_path: Path) -> None:
    options = Options.of({"answers": [f"file://{tmp_path}"]}, tmp_path)

    class Named(Random):
        def fingerprint(self) -> str | None:
            return "weights"

    random = Chosen("random", "model", configs.ModelConfig("random", "random"), Random())
    replayed = replace(random, spec="replay:FILE", backend=Named())

    def said(*answering: Chosen) -> str | None:
        return uploads.kept_notice(options, ["ward"], answering)

    alone = f"answers are kept in the run folder alone, not in file://{tmp_path}"
    assert said(random) == f"medvqa: 'random' has no fingerprint: {alone}"
    kept = f"medvqa: answers to ward are kept in file://{tmp_path} too, if 'replay:FILE' has a fingerprint"
    assert said(replayed) == said(random, replayed) == kept


def test_answers_to_private_questions_stay_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "clinic": Benchmark(name="clinic", items=lambda _: ()),
        "open": Benchmark(name="open", items=lambda _: (), public=True),
    }
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)

    def check(answers: str, *names: str, **typed: bool) -> None:
        options = Options.of({"answers": [answers], **typed}, tmp_path)
        uploads.check_kept(options, names, known, tmp_path)

    with pytest.raises(UsageError, match=r"answers to clinic to another machine.*--allow-upload.*file:///FOLDER"):
        check("s3://bucket/x", "clinic", "open")
    check("s3://bucket/x", "open")
    check("s3://bucket/x", "clinic", **{"allow-upload": True})
    check("file:///srv/answers", "clinic")
    check("answers", "clinic")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio.clinic.example:9000")
    with pytest.raises(UsageError, match=r'allowed_hosts = \["minio.clinic.example:9000"\]'):
        check("s3://bucket/x", "clinic")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    check("s3://bucket/x", "clinic")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio.clinic.example:9000")
    (tmp_path / "pyproject.toml").write_text('[tool.medvqa]\nallowed_hosts = ["minio.clinic.example:9000"]\n')
    check("s3://bucket/x", "clinic")


def test_answers_of_earlier_sessions_to_private_questions_stay_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that asks public questions alone puts the logs of earlier ones, too."""
    known = {
        "clinic": Benchmark(name="clinic", items=lambda _: ()),
        "open": Benchmark(name="open", items=lambda _: (), public=True),
    }
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    run = tmp_path / "reports/run"

    def check(answers: str, **typed: bool) -> None:
        options = Options.of({"answers": [answers], **typed}, tmp_path)
        uploads.check_held(options, run, known, tmp_path)

    check("s3://bucket/x")
    answer(run, [(0, "a")], reuse="here")
    store_selected(run, [QuestionKey("clinic", "1", "mc"), QuestionKey("open", "1", "mc")])
    check("s3://bucket/x")
    answer(run, [(1, "b")], reuse="all")
    with pytest.raises(UsageError, match="answers to clinic to another machine"):
        check("s3://bucket/x")
    check("s3://bucket/x", **{"allow-upload": True})
    check("answers")
    known["clinic"] = replace(known["clinic"], public=True)
    check("s3://bucket/x")


def test_a_folder_of_a_disk_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for named in (f"file://{tmp_path}/disk/answers", tmp_path / "disk/answers"):
        with pytest.raises(UsageError, match="is the shared disk mounted"):
            open_place(named, {})
    assert not (tmp_path / "disk").exists()


# --- one that is broken, and the others ------------------------------------------------------------------------


def test_two_objects_of_one_log_hide_no_answer(tmp_path: Path) -> None:
    """A run folder was copied while its log was written, and both went on."""
    place, run = bucket(), tmp_path / "reports/run"
    path = answer(run, [(0, "a")], closes=False)
    copied = tmp_path / "copy/reports/run/answers"
    copied.mkdir(parents=True)
    (copied / path.name).write_bytes(path.read_bytes())
    log = path.open("ab")
    log.close()
    whole = tmp_path / "whole"
    whole.mkdir()
    for number, (source, texts) in enumerate([(copied.parent, 1), (run, 3)]):
        if number:
            made = Log(whole, "main")
            made.begin_as(HEAD)
            for key in range(3):
                made.begin(key, [name(key)])
                made.end(key, [name(key)], [Answer("a")])
            made.close()
            path.write_bytes(made.path.read_bytes())
        assert push(place, source)[0] == texts
    assert len(paths(place, MODEL)) == 2
    for _ in range(5):
        assert recalled(place, tmp_path, 3) == {0: "a", 1: "a", 2: "a"}
    outbox = Outbox(place, copied.parent, "again")
    outbox.put()
    assert outbox.take_lines() == [], "a copy that lacks answers is no damage"
    assert len(paths(place, MODEL)) == 2


class Refusing(Objects):
    """Fails for names with one of these texts."""

    def __init__(self, inner: Objects, *texts: str) -> None:
        self.inner, self.texts = inner, texts

    def _refuse(self, name: str) -> None:
        if any(text in name for text in self.texts):
            raise BucketError("status 403")

    def _put(self, name: str, content: bytes) -> None:
        self._refuse(name)
        self.inner._put(name, content)

    def _get(self, name: str, most: int) -> bytes:
        self._refuse(name)
        return self.inner._get(name, most)

    def _pages(self, folder: str, after: str) -> Iterator[Sequence[Any]]:
        return self.inner._pages(folder, after)


def test_a_log_that_cannot_be_put_or_read_blocks_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medvqa.records.objects.TRIES", 1)
    run, good = tmp_path / "reports/run", Bucket(ADDRESS, MemoryStore())
    first = answer(run, [(0, "a")])
    second = answer(run, [(1, "b")])
    token = first.stem.rpartition("-")[2]
    outbox = Outbox(bucket(Refusing(good, token)), run, "later")
    with pytest.raises(BucketError, match="403"):
        outbox.put()
    assert outbox.left() == 1
    assert recalled(bucket(good), tmp_path, 2) == {1: "b"}
    assert push(bucket(good), run) == (2, 0)
    refused = bucket(Refusing(good, token))
    made = reader(refused, tmp_path)
    assert [each and each.text for each in made.recall([name(0), name(1)])] == [None, "b"]
    assert len(made.unread) == 1
    assert token in made.unread[0]
    assert second.exists()
    with pytest.raises(Exception, match="cannot be read"):
        reader(bucket(Refusing(good, ".log")), tmp_path)


def test_logs_go_only_to_the_server_that_their_run_named(tmp_path: Path) -> None:
    """Consent for private data is for one server: another one gets nothing, whatever its bucket is called."""
    mine, theirs = bucket(), replace(bucket(), server="http://elsewhere.example:9000")
    one, two = tmp_path / "reports/one", tmp_path / "reports/two"
    answer(one, [(0, "a")])
    Outbox(mine, one, "session 1")._write_note(logs(one / "answers")[0])
    answer(two, [(1, "b")])
    assert left_beside(two, theirs) == {}
    assert push(theirs, two) == (1, 0)
    assert push(mine, two) == (2, 0)


def test_a_run_folder_from_elsewhere_is_given_to_no_place(tmp_path: Path) -> None:
    """It may hold any file: a note is valid in the folder in which it was written alone."""
    place, one, two = bucket(), tmp_path / "reports/one", tmp_path / "reports/two"
    answer(one, [(0, "a")])
    Outbox(place, one, "session 1")._write_note(logs(one / "answers")[0])
    copied = tmp_path / "reports/copied/answers"
    copied.mkdir(parents=True)
    for path in (one / "answers").iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    assert list(left_beside(two, place)) == [one / "answers"]


def test_a_live_run_is_not_taken_for_a_dead_one(tmp_path: Path) -> None:
    """A call may take long, and the clock of a file server may be behind."""
    place, one, two = bucket(), tmp_path / "reports/one", tmp_path / "reports/two"
    lock = Lock(one)
    lock.acquire()
    path = answer(one, [(0, "a")], closes=False)
    Outbox(place, one, "session 1").put()
    old = time.time() - 1000
    os.utime(path, (old, old))
    answer(two, [(1, "b")])
    assert push(place, two) == (1, 0)
    holder = msgspec.json.decode((one / ".lock").read_bytes(), type=Holder)
    lock.release()
    (one / ".lock").write_bytes(msgspec.json.encode(msgspec.structs.replace(holder, host="node7")))
    assert push(place, two) == (1, 0), "nobody knows whether a process of another machine lives"
    os.utime(path, (old - 4000, old - 4000))
    assert push(place, two) == (2, 0)


def test_what_cannot_be_read_beside_a_run_stops_nothing(tmp_path: Path) -> None:
    place, one, two = bucket(), tmp_path / "reports/one", tmp_path / "reports/two"
    answer(one, [(0, "a")])
    note = one / "answers" / exchange._note(place, one / "answers")
    note.mkdir()
    answer(two, [(1, "b")])
    assert left_beside(two, place) == {}
    assert push(place, two) == (1, 0)


def test_a_damaged_line_of_a_killed_log_is_told_by_its_readers(tmp_path: Path) -> None:
    place, run = bucket(), tmp_path / "reports/run"
    path = answer(run, [(0, "a"), (1, "b")], closes=False)
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2][:-1] + b"X"
    path.write_bytes(b"\n".join(lines) + b"torn")
    assert push(place, run) == (1, 0)
    made = reader(place, tmp_path)
    assert [each and each.text for each in made.recall([name(0), name(1)])] == [None, "b"]
    (told,) = made.unread
    assert told.endswith("line 3: the checksum does not match")


def test_a_clock_that_is_ahead_hides_no_later_log(tmp_path: Path) -> None:
    place, run = bucket(), tmp_path / "reports/run"
    path = answer(run, [(0, "a")])
    future = path.with_name("99991231T235959.000000-main-" + path.stem.rpartition("-")[2] + ".log")
    path.rename(future)
    assert push(place, run) == (1, 0)
    made = reader(place, tmp_path)
    answer(run, [(1, "b")])
    assert push(place, run) == (2, 0)
    made.read()
    assert [each and each.text for each in made.recall([name(0), name(1)])] == ["a", "b"]


def test_a_folder_that_may_not_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setattr(answer_places.Path, "exists", lambda path: refuse(path) if path.name == "run.json" else True)
    with pytest.raises(UsageError, match="place cannot be read: Permission denied"):
        open_place(folder, {})


def test_a_full_folder_keeps_no_half_written_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BucketError):
        FolderObjects(folder).put(f"{MODEL}/z", b"answers")
    assert [path.name for path in folder.rglob("*") if path.is_file()] == []


def test_servers_of_this_machine_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(url: str) -> str:
        return open_place(str(ADDRESS), {"AWS_ENDPOINT_URL": url} if url else {}).server

    assert of("http://127.0.0.1:9000") == of("http://localhost:9001/x") == answer_places.HERE
    assert of("https://minio.example:9000") == "minio.example:9000"
    assert of("") == ""


def test_a_log_that_cannot_be_put_keeps_back_no_log_of_another_run(tmp_path: Path) -> None:
    good = Bucket(ADDRESS, MemoryStore())
    one, two = tmp_path / "reports/one", tmp_path / "reports/two"
    answer(one, [(0, "a")])
    Outbox(bucket(good), one, "session 1")._write_note(logs(one / "answers")[0])
    token = answer(two, [(1, "b")]).stem.rpartition("-")[2]
    with pytest.raises(BucketError, match="403"):
        Outbox(bucket(Refusing(good, token)), two, "later").put()
    assert recalled(bucket(good), tmp_path, 2) == {0: "a"}
