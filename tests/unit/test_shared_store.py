"""The shared store: any split into segments gives back the same answers, and what is broken is no answer."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import configs, records
from medvqa.backends.baselines import Random
from medvqa.cli import main
from medvqa.items import Answer, Benchmark, MedVQAError, UsageError
from medvqa.records import segments, sharing
from medvqa.records.bucket import Bucket, BucketError, ObjectExists, reduced
from medvqa.records.segments import BrokenSegment, SegmentName
from medvqa.records.sharing import Outbox, Sharing, push
from medvqa.session import uploads
from medvqa.session.chosen import Chosen
from medvqa.session.options import Options
from support.buckets import variables
from support.laws import examples

obstore = pytest.importorskip("obstore")
from obstore.store import MemoryStore  # noqa: E402

WRITER = records.Writer("slow", "slow:1", "weights 1", "run", "session 1", started="2026-01-01T00:00:00+00:00")
MODEL = WRITER.folder
ADDRESS = records.Address("s3", "bucket", "answers")


def name(number: int) -> str:
    return f"{number:064x}"


def bucket(store: MemoryStore | None = None) -> Bucket:
    return Bucket(ADDRESS, MemoryStore() if store is None else store)


def machine(folder: Path, bucket: Bucket) -> records.SharedStore:
    folder.mkdir(exist_ok=True)
    return records.SharedStore(bucket, folder)


def answer(store: records.SharedStore, texts: Sequence[tuple[int, str]], session: str = "session 1") -> None:
    """Store answers on a machine, as one process does."""
    own = records.Store(store.local, replace(WRITER, session=session))
    for number, text in texts:
        own.remember([name(number)], [Answer(text)])
    own.close()


def recalled(store: records.SharedStore, count: int, session: str = "session 2") -> dict[int, str]:
    """The answers of a machine in a later session."""
    made = records.Store(store.local, replace(WRITER, session=session))
    found = made.recall([name(number) for number in range(count)])
    assert all(each is None or each.earlier for each in found)
    made.close()
    return {number: each.answer.text for number, each in enumerate(found) if each is not None}


def paths(bucket: Bucket) -> list[str]:
    return [entry.name for entry in bucket.list("", 1000, 5)]


def raw(bucket: Bucket, path: str, content: bytes) -> None:
    obstore.put(bucket._store, path, content)


# --- segments -------------------------------------------------------------------------------------------------


@examples(60)
@given(lines=st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=6), data=st.data())
def test_a_cut_or_changed_segment_is_not_read(lines: list[bytes], data: st.DataObject) -> None:
    head, body = b"about\n", b"".join(line + b"\n" for line in lines)
    whole = segments.segment(MODEL, head, body)
    assert segments.content(MODEL, whole) == head + body
    cut = data.draw(st.integers(0, len(whole) - 1))
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    for broken in (whole[:cut], whole[cut + 1 :], whole + whole[cut:], changed):
        with pytest.raises(BrokenSegment):
            segments.content(MODEL, broken)
    with pytest.raises(BrokenSegment):
        segments.content("0" * 32, whole)


@given(st.text(max_size=80))
def test_only_our_names_are_names(text: str) -> None:
    parsed = SegmentName.parse(text)
    assert parsed is None or str(parsed) == text


def test_a_name_holds_no_host() -> None:
    time, token = segments.file_of("20260101T000000.000001-secret-host-17-0a1b2c3d.answers") or ("", "")
    made = str(SegmentName(time, token, 17))
    assert SegmentName.parse(made) == SegmentName(time, token, 17)
    assert made.startswith("20260101T000000.000001-")
    assert "host" not in made
    for hostile in ("../" + made, made + "\n", "x/" + made, made.replace("2026", "２０２６")):
        assert SegmentName.parse(hostile) is None


# --- there and back -------------------------------------------------------------------------------------------


@examples(40)
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=20)), max_size=5), max_size=4),
    sizes=st.lists(st.integers(1, 2000), min_size=4, max_size=4),
    torn=st.booleans(),
)
def test_any_split_gives_back_the_same_answers(
    batches: list[list[tuple[int, str]]], sizes: list[int], torn: bool
) -> None:
    """Whatever was put when, by which session, and with or without notes of what was put before."""
    texts = [[(number, text.encode("utf-8", "replace").decode()) for number, text in batch] for batch in batches]
    with TemporaryDirectory() as folder:
        there = bucket()
        one, two = machine(Path(folder, "one"), there), machine(Path(folder, "two"), there)
        for batch, size in zip(texts, sizes, strict=False):
            answer(one, batch)
            Outbox(one, size).put()
        if torn:
            for path in one.local.glob("*/*.answers"):
                with path.open("ab") as file:
                    file.write(b"0123456789abcdef half a li")
        assert push(one) == (0, 0)
        assert records.fetch(two, MODEL, "a") == ()
        assert recalled(two, 10) == recalled(one, 10)


def test_a_session_reads_once_and_only_what_is_new(tmp_path: Path) -> None:
    there = bucket()
    one, two = machine(tmp_path / "one", there), machine(tmp_path / "two", there)
    answer(one, [(0, "a")])
    assert push(one) == (1, 0)
    records.fetch(two, MODEL, "first")
    answer(one, [(1, "b")])
    push(one)
    records.fetch(two, MODEL, "first")
    assert recalled(two, 3) == {0: "a"}
    records.fetch(two, MODEL, "second")
    assert recalled(two, 3) == {0: "a", 1: "b"}
    assert len(list(two.local.glob("*/*.answers"))) == 2
    answer(two, [(2, "c")])
    assert push(two) == (1, 0), "what was read is not put again"
    # What is deleted here is read again.
    records.remove(records.contents(two.local))
    records.fetch(two, MODEL, "third")
    assert recalled(two, 3) == {0: "a", 1: "b", 2: "c"}


def test_of_two_answers_the_later_one_counts(tmp_path: Path) -> None:
    """On every machine, whichever was read or written there last."""
    there = bucket()
    machines = [machine(tmp_path / name, there) for name in ("one", "two", "three")]
    for place, text in ((machines[0], "earlier"), (machines[1], "later")):
        answer(place, [(0, text)])
        time.sleep(1.1)  # a writer's time is in seconds
    for place in reversed(machines):
        push(place)
    for place in machines:
        records.fetch(place, MODEL, "a")
    assert [recalled(place, 1) for place in machines] == [{0: "later"}] * 3


def test_the_answers_of_a_session_are_told_from_others_in_one_file(tmp_path: Path) -> None:
    there = bucket()
    one, two = machine(tmp_path / "one", there), machine(tmp_path / "two", there)
    for number, session in enumerate(("first", "second", "first")):
        answer(one, [(number, session)], session)
    push(one)
    records.fetch(two, MODEL, "a")
    assert len(list(two.local.glob("*/*.answers"))) == 1
    asked = [(writer.session, len(answers)) for writer, answers in records.answers_asked(two.local, {"first"})]
    assert asked == [("first", 1), ("first", 1)]
    (file,) = records.contents(two.local)
    assert (file.answers, file.problems) == (3, ())


# --- a store that is not as it should be ----------------------------------------------------------------------


def test_what_is_no_segment_is_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = bucket()
    one, two = machine(tmp_path / "one", there), machine(tmp_path / "two", there)
    answer(one, [(0, "a"), (1, "b")])
    push(one)
    (path,) = paths(there)
    whole = there.get(path, 10**6)
    half, huge, nobody = (str(SegmentName("20260101T000000.000000", token * 16, 1)) for token in "abc")
    raw(there, f"{MODEL}/{half}", whole[: len(whole) // 2])
    raw(there, f"{MODEL}/{huge}", whole + bytes(10_000))
    raw(there, f"{MODEL}/{nobody}", segments.segment(MODEL, b"", whole.splitlines(keepends=True)[1]))
    for odd in ("notes.txt", f"deep/{half}", f"x{half}"):
        raw(there, f"{MODEL}/{odd}", b"x")
    monkeypatch.setattr(records.shared, "MAX_SEGMENT", len(whole) + 1000)
    unread = records.fetch(two, MODEL, "a")
    assert [line.removeprefix(f"{two.name}/{MODEL}/") for line in unread] == [
        f"{half}: its end is missing",
        f"{huge}: larger than {len(whole) + 1000:,} bytes",
        f"{nobody}: it does not say who wrote it",
    ]
    assert recalled(two, 2) == {0: "a", 1: "b"}
    assert records.fetch(two, MODEL, "b") == unread, "told again, as its questions would be asked again"


def test_too_much_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = bucket()
    one, two = machine(tmp_path / "one", there), machine(tmp_path / "two", there)
    answer(one, [(number, "a") for number in range(9)])
    Outbox(one, 10).put()
    for limit, told in (("MAX_SEGMENTS", "more than 5 segments"), ("MAX_FETCHED", "GB of one model's answers")):
        with monkeypatch.context() as patch:
            patch.setattr(records.shared, limit, 5)
            with pytest.raises(MedVQAError, match=told):
                records.fetch(two, MODEL, limit)
        with pytest.raises(MedVQAError, match=told):  # other processes of the session do not try again
            records.fetch(two, MODEL, limit)


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


def test_a_put_whose_reply_was_lost_is_no_second_segment(tmp_path: Path) -> None:
    there = Faulty("after")
    one, two = machine(tmp_path / "one", there), machine(tmp_path / "two", there)
    answer(one, [(0, "a")])
    outbox = Outbox(one)
    with pytest.raises(BucketError):
        outbox.put()
    there.when = ""
    outbox.put()
    assert (outbox.left(), len(paths(there))) == (0, 1)
    records.fetch(two, MODEL, "a")
    assert recalled(two, 1) == {0: "a"}


def test_another_object_of_our_name_costs_no_answer(tmp_path: Path) -> None:
    there = bucket()
    one, two = machine(tmp_path / "one", there), machine(tmp_path / "two", there)
    answer(one, [(0, "a")])
    (own,) = one.local.glob("*/*.answers")
    start = own.read_bytes().index(b"\n") + 1
    taken = f"{MODEL}/{SegmentName(*segments.file_of(own.name), start)}"  # type: ignore[misc]
    raw(there, taken, b"somebody else's")
    with pytest.raises(ObjectExists):
        there.put(taken, b"x")
    Outbox(one).put()
    assert len(records.fetch(two, MODEL, "a")) == 1
    assert recalled(two, 1) == {0: "a"}


def test_failed_puts_are_told_once_and_made_up_for(tmp_path: Path) -> None:
    there = Faulty("before")
    one = machine(tmp_path / "one", there)
    thread = Sharing(one, first=0.02, every=0.02)
    answer(one, [(0, "a"), (1, "b")])
    thread.start()
    until(lambda: there.puts > 1)
    there.when = ""
    until(lambda: bool(paths(there)))
    assert thread.close() == 0
    assert thread.take_lines() == [
        f"medvqa: answers cannot be put into s3://bucket/answers: status 503 (GenericError). They are safe in "
        f"{one.local}; putting them is tried again",
        "medvqa: answers are put into s3://bucket/answers again",
    ]


def test_the_end_says_what_is_not_in_the_store(tmp_path: Path) -> None:
    there = Faulty("before")
    one = machine(tmp_path / "one", there)
    thread = Sharing(one, first=60)
    thread.start()
    answer(one, [(0, "a"), (1, "b")])
    assert thread.close(by=time.monotonic() + 0.5) == 2
    told = thread.take_lines()[-1]
    assert told.startswith("medvqa: 2 answers are not in s3://bucket/answers. They are safe in")
    assert told.endswith("medvqa cache push --answers=s3://bucket/answers")
    there.when = ""
    assert push(one) == (2, 0)


def test_a_store_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = bucket()
    one = machine(tmp_path / "one", there)
    answer(one, [(0, "a")])
    ends = threading.Event()
    monkeypatch.setattr(obstore, "put", lambda *_, **__: ends.wait(60))
    thread = Sharing(one, first=60)
    thread.start()
    began = time.monotonic()
    assert thread.close(by=time.monotonic() + 0.3) == 1
    assert time.monotonic() - began < 30
    ends.set()


def test_an_answer_longer_than_a_segment_stays_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = machine(tmp_path / "one", there := bucket()), machine(tmp_path / "two", there)
    answer(one, [(0, "a"), (1, "b" * 5000), (2, "c")])
    monkeypatch.setattr(sharing, "MAX_SEGMENT", 4000)
    outbox = Outbox(one, 1000)
    outbox.put()
    assert outbox.left() == 1
    records.fetch(two, MODEL, "a")
    assert recalled(two, 3) == {0: "a", 2: "c"}


def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


def test_a_file_that_spoils_a_folder_is_told(tmp_path: Path) -> None:
    shared = records.open_bucket(records.Address.of(f"file://{tmp_path}"), {})
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(BucketError, match="a link there leads in a circle"):
        shared.list("", 10, 5)
    (tmp_path / "circle").unlink()
    (tmp_path / "x\x1b").touch()
    with pytest.raises(BucketError, match="a file there has a name that no object may have"):
        shared.list("", 10, 5)


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
        Options.of({"answers": text}, tmp_path)
    assert told in str(error.value)
    assert "hunter2" not in str(error.value)
    assert str(error.value).isprintable()


def test_addresses_and_folders(tmp_path: Path) -> None:
    assert Options.of({"answers": "s3://bucket/a/b/"}, tmp_path).answers == "s3://bucket/a/b"
    assert Options.of({"answers": "file:///srv/my answers"}, tmp_path).answers == "file:///srv/my answers"
    for folder in ("answers", "C:answers", "a/s3://b", "x:y"):
        assert Options.of({"answers": folder}, tmp_path).answers == tmp_path / folder
    one, two = (records.local_folder(records.Address.of(f"s3://bucket/{name}"), tmp_path) for name in "ab")
    assert one != two
    assert one.parent == two.parent == tmp_path / ".answers-shared"


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
        records.open_bucket(ADDRESS, {"AWS_ENDPOINT_URL": url})
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
    address = records.Address.of(f"{scheme}://bucket/x")
    with listening() as said, listening() as second:
        with variables({**KEYS[scheme], **more, one: said.url, other: second.url}):
            with pytest.raises(UsageError, match="name different servers") as error:
                records.open_bucket(address, os.environ)
            with pytest.raises(UsageError, match="name different servers"):
                records.endpoint(address, os.environ)
        assert one in str(error.value)
        assert other in str(error.value)
        assert said.url not in str(error.value)
        for name in (one, other) if not more else (other,):
            with variables({**KEYS[scheme], **more, name: f"{said.url}/"}):
                assert records.endpoint(address, os.environ) == said.url
                count = len(said.requests)
                with pytest.raises(records.BucketError):
                    records.open_bucket(address, os.environ).put("name", b"answer", seconds=10)
                assert len(said.requests) > count
        with variables({**KEYS[scheme], **more, one: said.url, other: f"{said.url}/"}):
            assert records.endpoint(address, os.environ) == said.url
        assert second.requests == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(UsageError, match=r"pip install 'pytest-medvqa\[store\]'"):
        records.open_bucket(ADDRESS, {})


# --- where answers go, and private data -----------------------------------------------------------------------


def test_of_a_model_without_a_fingerprint_it_is_said_that_nothing_is_shared(tmp_path: Path) -> None:
    options = Options.of({"answers": f"file://{tmp_path}"}, tmp_path)

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
        options = Options.of({"answers": answers, **typed}, tmp_path)
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


# --- the command ----------------------------------------------------------------------------------------------


def test_cache_knows_shared_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"--answers=file://{tmp_path}/shared"
    address = records.Address.of(url.partition("=")[2])
    local = records.local_folder(address, tmp_path / "reports")
    local.mkdir(parents=True)
    answer(records.SharedStore(bucket(), local), [(0, "a"), (1, "b")])
    assert main(["cache", "push", url]) == 0
    assert "2 answers were put" in capsys.readouterr().out
    monkeypatch.chdir(make_folder(tmp_path / "elsewhere"))
    assert main(["cache", "list", url]) == 0
    assert "2 answers" in capsys.readouterr().out
    assert main(["cache", "verify", url]) == 0
    assert main(["cache", "prune", url]) != 0
    assert main(["cache", "push"]) != 0
    assert "push where?" in capsys.readouterr().err


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_folder_of_a_disk_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is the shared disk mounted"):
        records.open_bucket(records.Address.of(f"file://{tmp_path}/disk/answers"), {})
    assert not (tmp_path / "disk").exists()
