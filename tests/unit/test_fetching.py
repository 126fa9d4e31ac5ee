"""Downloads: from servers that fail in every way, into a data folder that nothing leaves."""

import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import socket
import ssl
import tarfile
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from email.message import Message
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast
from urllib.error import URLError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import figures
from medvqa.benchmarks import gmai_mmbench, mediconfusion, medlesionvqa, phantom
from medvqa.fetching import archives, fetch, hub, manifest, parts, pmc, progress, summary, web
from medvqa.fetching.fetch import Fetched
from medvqa.fetching.web import Manners, NotFetched
from medvqa.items import Benchmark, DataError, Origin, OriginFile, UsageError
from support.laws import examples
from support.stores import Asked, FileServer, Sent, ranged

QUICK = Manners(timeout=0.3, attempts=3, first_wait=0.01, longest_wait=2, pause=0, jobs=4)
CONTENT = bytes(range(256)) * 400
JPEG = b"\xff\xd8\xff\xe0 a picture"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


MD5 = (f"md5:{md5(CONTENT)}",)


def receive(server: FileServer, target: Path, *, most: int = 2**30, manners: Manners = QUICK, **more: Any) -> str:
    """Receive a file of the server to its place."""
    source = parts.FileAddress(f"{server.url}/file.bin", **more)
    return parts.receive(web.Web(manners), source, target, most=most, report=lambda done, size: None)


def reason(server: FileServer, target: Path, **more: Any) -> str:
    """Return why a file of the server cannot be had."""
    with pytest.raises(NotFetched) as failed:
        receive(server, target, **more)
    return str(failed.value)


def listed(visits: web.Web, url: str) -> list[bytes]:
    """Return a list of one page."""
    return list(visits.pages(url, lambda content, headers: ""))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "file.bin"


@contextmanager
def saying(*pieces: bytes, pause: float = 0) -> Iterator[str]:
    """A server that answers every request with these bytes, which need not be HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.recv(2**16)
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(pause)

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


# --- one file that arrives ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("digests", [(f"sha256:{sha256(CONTENT)}",), MD5, ()])
def test_a_file_arrives_whole_under_its_name(target: Path, digests: tuple[str, ...]) -> None:
    with FileServer(lambda n, asked: ranged(CONTENT, asked)) as server:
        assert receive(server, target, digests=digests) == sha256(CONTENT)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert server.asked[0].headers["User-Agent"].startswith("pytest-medvqa/")
    assert server.asked[0].headers["Accept-Encoding"] == "identity"


def test_a_blob_of_git_is_checked_by_its_name(target: Path) -> None:
    name = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
    with FileServer(lambda n, asked: ranged(CONTENT, asked)) as server:
        receive(server, target, digests=(f"git:{name}",))
        assert "its git is" in reason(server, target.with_name("b"), digests=(f"git:{'0' * 40}",))


HALF = len(CONTENT) // 2


def halves(n: int, asked: Asked, **more: Any) -> Sent:
    """Cut the first two answers in half."""
    whole = ranged(CONTENT, asked, **more)
    return replace(whole, cut=len(whole.body) // 2 if n < 2 else 0)


@pytest.mark.parametrize(
    ("script", "starts"),
    [
        (halves, [0, HALF, HALF + HALF // 2]),
        (lambda n, asked: halves(n, asked, chunked=True), [0, HALF, HALF + HALF // 2]),
        # It knows no ranges.
        (lambda n, asked: Sent(CONTENT, cut=100 * (n == 0), headers={"ETag": '"1"'}), [0, len(CONTENT) - 100]),
        # No name of a version, and a weak one.
        (lambda n, asked: replace(ranged(CONTENT, asked, etag=""), cut=100 * (n == 0)), [0, 0]),
        (lambda n, asked: Sent(CONTENT, cut=5 * (n == 0), headers={"ETag": 'W/"1"'}), [0, 0]),
        # It stalls.
        (lambda n, asked: ranged(CONTENT, asked, drip=0.6 * (n == 0), piece=50_000), [0, 50_000]),
    ],
)
def test_a_connection_that_is_cut_goes_on_where_it_ended_if_the_version_has_a_name(
    target: Path, script: Callable[[int, Asked], Sent], starts: list[int]
) -> None:
    with FileServer(script) as server:
        assert receive(server, target) == sha256(CONTENT)
    assert [asked.start for asked in server.asked] == starts
    assert [asked.headers["If-Range"] for asked in server.asked] == ['"1"' if start else None for start in starts]


def test_a_file_that_is_cut_for_ever_is_given_up_and_its_part_kept(target: Path) -> None:
    with FileServer(lambda n, asked: replace(ranged(CONTENT, asked), cut=len(CONTENT) - asked.start - 10)) as server:
        assert "the connection was cut after 30 of 102,400 bytes" in reason(server, target)
    assert not target.exists()
    assert target.with_name("file.bin.part").stat().st_size == 30


def test_tries_that_get_on_are_not_counted(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MOVED", 10)
    with FileServer(
        lambda n, asked: replace(ranged(CONTENT[:100], asked), cut=max(0, 100 - asked.start - 12))
    ) as server:
        assert receive(server, target) == sha256(CONTENT[:100])
    assert len(server.asked) == 9


@pytest.mark.parametrize("respects_if_range", [True, False])
def test_versions_of_a_file_are_never_mixed(target: Path, respects_if_range: bool) -> None:
    other = CONTENT[::-1]

    def script(n: int, asked: Asked) -> Sent:
        if n == 0:
            return replace(ranged(CONTENT, asked, '"old"'), cut=500)
        if not respects_if_range and "If-Range" in asked.headers:
            del asked.headers["If-Range"]
        return ranged(other, asked, '"new"')

    with FileServer(script) as server:
        assert receive(server, target) == sha256(other)


@pytest.mark.parametrize(
    ("part", "size", "starts"),
    [
        (CONTENT[:1000], len(CONTENT), [1000]),
        # Whole by the release, and by the server.
        (CONTENT, len(CONTENT), []),
        (CONTENT, None, [len(CONTENT)]),
        # Wrong ones.
        (b"\0" * 1000, len(CONTENT), [1000, 0]),
        (CONTENT + b"more", len(CONTENT), [0]),
    ],
)
def test_a_part_of_an_earlier_call_is_continued_or_forgotten(
    target: Path, part: bytes, size: int | None, starts: list[int]
) -> None:
    target.with_name("file.bin.part").write_bytes(part)
    target.with_name("file.bin.part.json").write_text('{"url": 3')
    with FileServer(lambda n, asked: ranged(CONTENT, asked)) as server:
        receive(server, target, size=size, digests=MD5)
    assert [asked.start for asked in server.asked] == starts
    assert target.read_bytes() == CONTENT


def test_a_part_of_a_later_process_is_continued_without_a_digest(target: Path) -> None:
    with FileServer(lambda n, asked: replace(ranged(CONTENT, asked), cut=500 * (n == 0))) as server:
        reason(server, target, manners=replace(QUICK, attempts=1))
        assert receive(server, target) == sha256(CONTENT)
    assert [asked.start for asked in server.asked] == [0, len(CONTENT) - 500]


def test_a_page_for_a_login_leaves_the_part(target: Path) -> None:
    page = Sent(b"<html>", headers={"Content-Type": "text/html"})
    answers = [replace(ranged(CONTENT, Asked("GET", "", Message(), 0)), cut=500), page]
    with FileServer(lambda n, asked: answers[n] if n < len(answers) else ranged(CONTENT, asked)) as server:
        assert "is a web page" in reason(server, target)
        assert receive(server, target) == sha256(CONTENT)
    assert [asked.start for asked in server.asked] == [0, *[len(CONTENT) - 500] * 2]


def test_a_part_that_is_a_link_is_not_written_through(target: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    target.with_name("file.bin.part").symlink_to(precious)
    with FileServer(lambda n, asked: ranged(CONTENT, asked)) as server, pytest.raises(OSError, match="symbolic link"):
        receive(server, target)
    assert precious.read_text() == "precious"


def test_one_process_at_a_time_receives_a_file(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with FileServer(lambda n, asked: ranged(CONTENT, asked)) as server:
        with parts.PartFile(target) as part:
            part.write(b"x")
            assert reason(server, target) == "another medvqa fetch is receiving it"
        monkeypatch.setattr("fcntl.flock", refuse)
        assert receive(server, target) == sha256(CONTENT), "a file system without locks will do"


# --- one file that does not -------------------------------------------------------------------------------------

PAGE = b"\n<!DOCTYPE html><html>Please log in</html>"
PACKED = Sent(gzip.compress(CONTENT), headers={"Content-Encoding": "gzip"})


def moved(location: str) -> Sent:
    return Sent(b"", 302, {"Location": location})


@pytest.mark.parametrize(
    ("answer", "source", "words", "tries"),
    [
        (Sent(b"no", 403), {}, "refuses", 1),
        (Sent(b"no", 404), {}, "does not exist (404)", 1),
        (Sent(b"no", 410), {}, "does not exist (410)", 1),
        (Sent(b"no", 418), {}, "answers 418", 1),
        (Sent(b"", 204), {}, "answers 204", 1),
        (Sent(b"no", 429), {}, "is busy (429)", 3),
        (Sent(b"no", 500), {}, "is busy (500)", 3),
        (Sent(b"no", 503), {}, "is busy (503)", 3),
        (Sent(CONTENT), {"size": 7}, "has 102,400 bytes, and the release 7", 1),
        # A part of an earlier call could be to blame for a wrong digest.
        (Sent(CONTENT), {"digests": ("md5:00",)}, f"its md5 is {md5(CONTENT)}, expected 00", 2),
        (Sent(PAGE, headers={"Content-Type": "text/html"}), {}, "is a web page, not the file", 1),
        (Sent(PAGE), {}, "is a web page, not the file", 2),
        (Sent(CONTENT, chunked=True), {"most": 1000}, "sends more than 1,000 bytes", 1),
        (Sent(CONTENT), {"most": 1000}, "has 102,400 bytes, and 1,000 are allowed", 1),
        (Sent(CONTENT), {"size": 7, "digests": MD5}, "has 102,400 bytes, and the release 7", 1),
        (Sent(CONTENT, chunked=True), {"size": 7}, "sends more than 7 bytes", 1),
        (Sent(CONTENT, announced=None), {}, "does not say how long it is", 1),
        (PACKED, {}, "sends it compressed", 1),
        (moved("/file.bin"), {}, "redirects more than 8 times", 9),
        (moved("file:///etc/passwd"), {}, "redirects to 'file:///etc/passwd'", 1),
        (moved("ftp://127.0.0.1/x"), {}, "redirects to 'ftp://127.0.0.1/x'", 1),
        (moved("http://user:password@127.0.0.1/"), {}, "only https, or http from http, is followed", 1),
        (moved("http://[::1"), {}, "redirects nowhere", 1),
        (moved(""), {}, "redirects nowhere", 1),
        (moved("data:text/plain,x"), {}, "only https", 1),
    ],
)
def test_a_file_that_cannot_be_had_leaves_a_reason_and_nothing_else(
    target: Path, answer: Sent, source: dict[str, Any], words: str, tries: int
) -> None:
    with FileServer(lambda n, asked: answer) as server:
        assert words in reason(server, target, **source)
    assert len(server.asked) == tries
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.zip", "a.parquet", "a.gz"])
def test_a_file_begins_as_its_kind_does(tmp_path: Path, name: str) -> None:
    with FileServer(lambda n, asked: Sent(b"GIF89a something else")) as server:
        assert f"is not a {name[2:]} file" in reason(server, tmp_path / name)


def test_a_file_without_length_is_whole_by_its_digest(target: Path) -> None:
    with FileServer(lambda n, asked: Sent(CONTENT, announced=None)) as server:
        assert receive(server, target, digests=MD5) == sha256(CONTENT)


def test_a_full_disk_is_noticed_before_the_file_is_received(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROOM", 2**62)
    with FileServer(lambda n, asked: ranged(CONTENT, asked)) as server:
        assert "it needs 102,400 bytes, and 0 are free" in reason(server, target)


def test_a_connection_that_drips_is_too_slow(target: Path) -> None:
    with FileServer(lambda n, asked: ranged(CONTENT[:20], asked, drip=0.015)) as server:
        receive(server, target, most=100, manners=replace(QUICK, timeout=0.1, attempts=9))
    assert len(server.asked) > 1


def test_a_list_that_trickles_is_given_up() -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b"x"] * 100, pause=0.05) as url:
        start = time.monotonic()
        with pytest.raises(NotFetched, match="the connection is too slow"):
            listed(web.Web(replace(QUICK, attempts=1)), f"{url}/list")
        assert time.monotonic() - start < 3


def test_a_reply_that_is_no_http_is_not_quoted_whole() -> None:
    with saying(b"\x1b]0;title\x07" + b"A" * 60_000 + b"\r\n\r\n") as url, pytest.raises(NotFetched) as failed:
        web.Web(QUICK).open(f"{url}/file.bin")
    assert len(str(failed.value)) < 300
    assert str(failed.value).isprintable()


# --- hosts ------------------------------------------------------------------------------------------------------


def test_a_busy_server_is_asked_again_when_it_says(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(web.Web, "_wait", lambda self, seconds: waits.append(seconds))

    def script(n: int, asked: Asked) -> Sent:
        return Sent(b"", 429, {"Retry-After": "2"}) if n == 0 else ranged(CONTENT, asked)

    with FileServer(script) as server:
        receive(server, target)
    assert max(waits) == 2


def test_a_long_wait_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(web.Web, "_wait", lambda self, seconds: None)
    with FileServer(lambda n, asked: Sent(b"", 503, {"Retry-After": "9"})) as server:
        visits = web.Web(replace(QUICK, longest_wait=10), tell=told.append)
        for path in "ab":
            with pytest.raises(NotFetched):
                visits.patiently(lambda path=path: visits.open(f"{server.url}/{path}"))  # type: ignore[misc]
    assert told == [f"{server.url.removeprefix('http://')} is busy (503); trying again in 9 s"] * 2, "two waits"


def test_a_server_that_wants_to_be_left_alone_is_asked_nothing_more() -> None:
    with FileServer(lambda n, asked: Sent(b"", 429, {"Retry-After": "86400"})) as server:
        visits = web.Web(QUICK)
        for _ in range(3):
            with pytest.raises(NotFetched, match=r"is busy \(429\)"):
                visits.patiently(lambda: visits.open(f"{server.url}/a"))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7), ("", 0), ("soon", 0), ("-5", 0), ("Fri, 31 Dec 1999 23:59:59 GMT", 0), ("9" * 40, 999999999)],
)
def test_a_wait_that_a_server_asks_for_is_read(value: str, seconds: float) -> None:
    assert web._retry_after(value) == seconds
    later = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 3600))
    assert 3000 < web._retry_after(later) < 3700


def test_a_host_that_cannot_be_reached_is_asked_a_few_times_for_all_files() -> None:
    visits = web.Web(QUICK)
    for _ in range(5):
        with pytest.raises(NotFetched, match=r"127\.0\.0\.1:9 cannot be reached: Connection refused"):
            visits.patiently(lambda: visits.open("http://127.0.0.1:9/file"))
    begun = time.monotonic()
    with pytest.raises(NotFetched):
        visits.patiently(lambda: visits.open("http://127.0.0.1:9/other"))
    assert time.monotonic() - begun < 0.5


def test_an_unknown_certificate_is_explained() -> None:
    failed = ssl.SSLCertVerificationError(1, "certificate verify failed")
    failed.verify_message = "self-signed certificate"
    error = web.broken("https://hub.hospital/x", URLError(failed))
    assert str(error).startswith("the certificate of hub.hospital is not trusted (self-signed certificate); if your ")
    assert not error.again


@pytest.mark.parametrize(
    ("location", "tokens"),
    [("OTHER/far?Signature=secret", ["Bearer hf_secret", None]), ("/new", ["Bearer hf_secret"] * 2)],
)
def test_a_redirect_keeps_the_token_within_its_host_alone(target: Path, location: str, tokens: list[str]) -> None:
    def script(n: int, asked: Asked) -> Sent:
        there = location.replace("OTHER", server.other_url)
        return moved(there) if asked.path == "/file.bin" else ranged(CONTENT, asked)

    with FileServer(script) as server:
        receive(server, target, token="hf_secret")
    assert [asked.headers["Authorization"] for asked in server.asked] == tokens


def test_a_redirect_from_https_to_http_is_refused() -> None:
    response = SimpleNamespace(headers={"Location": "http://example.org/file"}, close=lambda: None)
    with pytest.raises(NotFetched, match=r"redirects to 'http://example\.org/file'"):
        web.Web(QUICK)._next_url("https://example.org/file", cast(Any, response))


@pytest.mark.parametrize(
    "url",
    ["ftp://example.org/x", "file:///etc/passwd", "http://", "https://me:secret@b/", "http://[", "x"],
)
def test_only_http_and_https_are_opened_and_no_password_is_shown(url: str) -> None:
    with pytest.raises(NotFetched, match="is not an http or https address") as failed:
        web.Web(QUICK).open(url)
    assert "secret" not in str(failed.value)


def test_no_password_of_the_hub_is_shown() -> None:
    user = hub.Hub("https://me:secret@hub.example", offline=True)
    with pytest.raises(NotFetched, match=r"from https://hub\.example/datasets/owner/stars") as failed:
        hub.source(web.Web(QUICK), user, Origin(hub="owner/stars"), "a.bin")
    refused = NotFetched("", status=401)
    explained = hub.explained(refused, web.Web(QUICK), user, Origin(hub="owner/stars"), "a.bin")
    assert "secret" not in f"{failed.value} {explained}"


def test_requests_to_a_host_keep_a_distance() -> None:
    with FileServer(lambda n, asked: Sent(b"x")) as server:
        visits = web.Web(replace(QUICK, pause=0.05))
        began = time.monotonic()
        for _ in range(4):
            listed(visits, f"{server.url}/x")
        assert time.monotonic() - began >= 0.15


def test_a_mirror_takes_the_place_of_a_host() -> None:
    mirrors = web.mirrors_of(["http://mirror/hub/", "store.example=http://other:8/s?x"], "huggingface.co")
    visits = web.Web(QUICK, mirrors)
    assert visits.mirrored("https://huggingface.co/datasets/a?b=1") == "http://mirror/hub/datasets/a?b=1"
    assert visits.mirrored("https://example.org/a") == "https://example.org/a"
    assert visits.named("https://example.org/a?b=1") == "https://example.org/a"


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (Sent(b"y" * 9), "has 9 bytes, and the release 8"),
        (Sent(b"y" * 8), "has the wrong content"),
        (Sent(b"", status=404), "does not exist (404)"),
    ],
)
def test_an_error_names_the_mirror_and_the_original(target: Path, sent: Sent, told: str) -> None:
    address = "https://store.example/x.bin"
    source = parts.FileAddress(address, size=8, digests=("sha256:" + "0" * 64,))
    with FileServer(lambda n, asked: sent) as server:
        visits = web.Web(QUICK, {"store.example": server.url})
        with pytest.raises(NotFetched) as error:
            parts.receive(visits, source, target, most=99, report=lambda size, total: None)
    assert f"{server.url}/x.bin (mirror of {address}) {told}" in str(error.value)


@pytest.mark.parametrize(
    "value", ["", "mirror", "ftp://mirror", "host=", "host=ftp://x", "a/b=http://x", "http://me:secret@x"]
)
def test_a_mirror_is_an_address(value: str) -> None:
    with pytest.raises(UsageError, match="write --mirror=URL in place of the hub") as refused:
        web.mirrors_of([value], "huggingface.co")
    assert "secret" not in str(refused.value)


# --- the hub ----------------------------------------------------------------------------------------------------

ORIGIN = Origin(
    licence="CC0 1.0",
    home="https://example.org/stars",
    hub="owner/stars",
    terms="Accept the terms on https://hub/stars",
)


def of_hub(
    script: Callable[[int, Asked], Sent], target: Path, origin: Origin = ORIGIN, **more: Any
) -> tuple[FileServer, str]:
    """Receive "data/a b.bin" from a hub, and return its server and the reason why it cannot be had."""
    with FileServer(script) as server:
        named = hub.Hub(server.url, **{"token": "hf_secret", **more})
        visits = web.Web(QUICK)
        source = hub.source(visits, named, origin, "data/a b.bin")
        assert "hf_secret" not in repr(source) + repr(named)
        try:
            parts.receive(visits, source, target, most=10**6, report=lambda done, size: None)
        except NotFetched as error:
            return server, str(hub.explained(error, visits, named, origin, "a"))
    return server, ""


def linked(content: bytes, size: int) -> dict[str, str]:
    return {"X-Linked-Etag": f'"{sha256(content)}"', "X-Linked-Size": str(size)}


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (linked(CONTENT, len(CONTENT)), ""),
        (linked(b"", len(CONTENT)), "has the wrong content: its sha256 is"),
        (linked(CONTENT, 7), "has 102,400 bytes, and the release 7"),
        ({}, ""),
    ],
)
def test_the_hub_names_size_and_digest_of_a_large_file(target: Path, headers: dict[str, str], words: str) -> None:
    def script(n: int, asked: Asked) -> Sent:
        lies = linked(b"a lie of the other host", 3)
        there = {"Location": f"http://localhost:{asked.headers['Host'].rpartition(':')[2]}/x?Signature=s"}
        if asked.path.startswith("/x"):
            return replace(ranged(CONTENT, asked), headers=lies)
        return Sent(b"", 302, headers | there)

    server, told = of_hub(script, target)
    assert words in told
    assert server.asked[0].path == "/datasets/owner/stars/resolve/main/data/a%20b.bin"
    assert [asked.headers["Authorization"] for asked in server.asked[:2]] == ["Bearer hf_secret", None]


def test_the_hub_names_the_blob_of_a_small_file(target: Path) -> None:
    name = hashlib.sha1(b"blob 3\0abc").hexdigest()
    for tag, words in ((name, ""), ("a" * 40, "its git is")):
        headers = {"ETag": f'W/"{tag}"'}
        server, told = of_hub(lambda n, a, h=headers: Sent(b"abc", headers=h), target, replace(ORIGIN, revision="v1/x"))
        assert words in told
    assert server.asked[0].path == "/datasets/owner/stars/resolve/v1%2Fx/data/a%20b.bin"


def test_a_part_of_a_file_of_the_hub_is_continued_by_its_digest(target: Path) -> None:
    target.with_name("file.bin.part").write_bytes(CONTENT[:1000])

    def script(n: int, asked: Asked) -> Sent:
        sent = ranged(CONTENT, asked)
        return replace(sent, headers=sent.headers | linked(CONTENT, len(CONTENT)))

    server, told = of_hub(script, target)
    assert ([asked.start for asked in server.asked], told) == ([1000], "")
    # Without a digest nobody would know whether it is of one version.
    for part in (CONTENT[:1000], CONTENT):
        target.with_name("file.bin.part").write_bytes(part)
        server, told = of_hub(lambda n, asked: ranged(CONTENT, asked), target)
        assert ([asked.start for asked in server.asked], told) == ([len(part), 0], "")


@pytest.mark.parametrize(
    ("status", "code", "have", "words"),
    [
        (401, "GatedRepo", {"token": ""}, "log in (hf auth login) and try again"),
        (401, "GatedRepo", {"token": "", "installed": False}, "type pip install 'pytest-medvqa[data]'"),
        (403, "GatedRepo", {}, "Accept the terms on https://hub/stars; and try again"),
        (404, "EntryNotFound", {}, "this file does not exist"),
        (404, "RepoNotFound", {}, "this data set or revision does not exist"),
    ],
)
def test_the_hub_says_no_and_the_message_what_to_do(
    target: Path, status: int, code: str, have: dict[str, Any], words: str
) -> None:
    _, told = of_hub(lambda n, asked: Sent(b"", status, {"X-Error-Code": code}), target, **have)
    assert words in told
    assert "hf_secret" not in told


def test_a_mirror_and_a_stranger_in_clear_never_get_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    mirrored = web.Web(QUICK, {"huggingface.co": "http://mirror"})
    assert hub.source(mirrored, hub.Hub(token="hf_secret"), ORIGIN, "a").token == ""
    monkeypatch.setattr(hub, "is_remote", lambda origin: True)
    assert hub.source(web.Web(QUICK), hub.Hub("http://127.0.0.1", "hf_secret"), ORIGIN, "a").token == ""


def test_the_environment_names_hub_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://hub.hospital/")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_secret")
    assert hub.from_environment().endpoint == "https://hub.hospital"
    assert hub.from_environment().token == "hf_secret"


def test_without_huggingface_hub_public_files_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert hub.from_environment() == hub.Hub("https://huggingface.co", "", installed=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.hospital/")
    assert hub.from_environment().endpoint == "https://hub.hospital"


# --- the store of articles --------------------------------------------------------------------------------------


def listing(*files: tuple[str, bytes], more: str = "") -> Sent:
    """Answer as S3 does; `more` is the token of the next page."""
    entries = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-01-01</LastModified><ETag>&quot;{md5(content)}&quot;</ETag>"
        f"<Size>{len(content)}</Size></Contents>"
        for key, content in files
    )
    following = f"<NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    text = f'<?xml version="1.0"?><ListBucketResult xmlns="s3">{entries}{following}</ListBucketResult>'
    return Sent(text.encode(), headers={"Content-Type": "application/xml"})


def stored(script: Callable[[int, Asked], Sent], at: str = "pmc:PMC12/f.jpg") -> tuple[parts.FileAddress, FileServer]:
    with FileServer(script) as server:
        visits = web.Web(QUICK, {"pmc-oa-opendata.s3.amazonaws.com": server.url})
        store = pmc.ArticleStore(visits)
        store.source(at)
        return store.source(at), server


def test_the_newest_version_that_has_the_file_is_taken() -> None:
    files = [("PMC12.2/f.jpg", b"old"), ("PMC12.10/f.jpg", JPEG), ("PMC12.11/g.jpg", b"g"), ("PMC12.x/f.jpg", b"x")]
    source, server = stored(lambda n, asked: listing(*files))
    assert source.url == "https://pmc-oa-opendata.s3.amazonaws.com/PMC12.10/f.jpg"
    assert (source.size, source.digests) == (len(JPEG), (f"md5:{md5(JPEG)}",))
    assert [asked.path for asked in server.asked] == ["/?list-type=2&prefix=PMC12."], "asked once"


def test_a_long_list_has_pages() -> None:
    pages = [listing(("PMC12.1/a.jpg", b"a"), more="1+&amp;/="), listing(("PMC12.1/f.jpg", JPEG))]
    source, server = stored(lambda n, asked: pages[n])
    assert source.url.endswith("/PMC12.1/f.jpg")
    assert server.asked[1].path.endswith("&continuation-token=1%2B%26%2F%3D")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (listing(), "PMC12 is not in the store https://pmc-oa-opendata.s3.amazonaws.com; look at https://pmc.ncbi"),
        (listing(("PMC12.1/g.jpg", b"g")), "PMC12 is in the store https://pmc-oa-opendata.s3.amazonaws.com, without"),
        (listing(("PMC12.1/x/f.jpg", b"g")), "without f.jpg"),
        (Sent(listing(("PMC12.1/g.jpg", b"g")).body[:-20]), "does not list its files as S3 does"),
        (replace(listing(("PMC12.1/g.jpg", b"g")), cut=9), "the connection was cut"),
        (Sent(b"<html>blocked</html>"), "does not list its files as S3 does"),
        (Sent(b"", 404), "does not exist (404)"),
        (Sent(b"x" * 2**17), "does not answer with a list of files"),
    ],
)
def test_an_article_may_be_missing(answer: Sent, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_LISTING", 2**16)
    with pytest.raises(NotFetched) as failed:
        stored(lambda n, asked: answer)
    assert words in str(failed.value)


def test_a_file_of_several_pieces_has_no_md5() -> None:
    text = b"<ListBucketResult><Contents><Key>PMC12.1/f.jpg</Key><ETag>&quot;ab-2&quot;</ETag></Contents>"
    source, _ = stored(lambda n, asked: Sent(text + b"</ListBucketResult>"))
    assert (source.size, source.digests) == (None, ())


@pytest.mark.parametrize("at", ["pmc:PMC12/../f", "pmc:PMC12/a/b", "pmc:12/f", "pmc:PMCx/f", "pmc:PMC12/"])
def test_the_address_of_an_articles_file_is_checked(at: str) -> None:
    with pytest.raises(NotFetched, match="is not an article's file"):
        pmc.ArticleStore(web.Web(QUICK)).source(at)


# --- archives ---------------------------------------------------------------------------------------------------


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def taped(path: Path, *members: tarfile.TarInfo | tuple[str, bytes], packed: str = "gz") -> Path:
    with tarfile.open(path, f"w:{packed}") as archive:
        for member in members:
            if isinstance(member, tuple):
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
            else:
                archive.addfile(member)
    return path


def unpacked(archive: Path) -> dict[str, bytes]:
    folder = archive.parent / "out"
    count = archives.unpack(archive, folder, lambda done, total: None)
    files = contents(folder)
    assert count == len(files)
    return files


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("packed", ["zip", "", "gz", "bz2", "xz"])
def test_an_archive_is_unpacked(tmp_path: Path, packed: str) -> None:
    members = [("imgs/xmlab1/a.jpg", JPEG), ("./b", b"b")]
    made = zipped(tmp_path / "a", ("imgs/", b""), *members)
    archive = made if packed == "zip" else taped(tmp_path / "a.tar", EMPTY, *members, packed=packed)
    for _ in range(2):
        assert unpacked(archive) == {"imgs/xmlab1/a.jpg": JPEG, "b": b"b"}


@pytest.mark.parametrize(
    "name",
    [
        *(".medvqa-fetch.jsonl", "../x", "a/../../x", "/etc/x", "a\\..\\x", "C:/x", "..", "a/\x1b[31m"),
        *("d/" * 30 + "x", "n" * 300),
    ],
)
@pytest.mark.parametrize("make", [zipped, taped])
def test_no_name_in_an_archive_leads_out(tmp_path: Path, name: str, make: Callable[..., Path]) -> None:
    archive = make(tmp_path / "archive", ("fine", b"fine"), (name, b"x"))
    with pytest.raises(NotFetched, match=r"leads out of the folder or is no name of a file; nothing was unpacked"):
        unpacked(archive)
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_no_link_or_device_is_unpacked(tmp_path: Path, kind: bytes) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = kind, "/etc/passwd"
    with pytest.raises(NotFetched, match="is a link or a device; nothing was unpacked"):
        unpacked(taped(tmp_path / "a.tgz", link))
    info = zipfile.ZipInfo("link")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    with pytest.raises(NotFetched, match="is a link or a device"):
        unpacked(zipped(tmp_path / "a.zip", (info, b"/etc/passwd")))


def damaged(content: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return write


def long_header(path: Path) -> Path:
    long = tarfile.TarInfo("a")
    long.pax_headers = {"comment": "x" * 10**6}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(long)
    return path


def wrong_crc(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("c", b"right content")
    path.write_bytes(path.read_bytes().replace(b"right", b"wrong"))
    return path


EMPTY = tarfile.TarInfo("images")
EMPTY.type = tarfile.DIRTYPE


@pytest.mark.parametrize(
    ("make", "limits", "words"),
    [
        (lambda path: zipped(path, ("A.jpg", JPEG), ("a.jpg", JPEG)), {}, "occurs twice"),
        (lambda path: zipped(path, ("a", bytes(10**6))), {"SLACK": 1000}, "100 times its size"),
        (lambda path: taped(path, ("a", bytes(10**6))), {"SLACK": 1000}, "100 times its size"),
        (lambda path: zipped(path, *((str(n), b"") for n in range(3))), {"MAX_FILES": 2}, "more than 2 entries"),
        (long_header, {"MAX_PIECE": 2**16}, "a header is too long"),
        (
            lambda path: zipped(path, *((f"{n:0200}", b"") for n in range(1000))),
            {"MAX_LISTING": 2**17},
            "a header is too long",
        ),
        (lambda path: zipped(path, ("images/", b"")), {}, "no file is in it"),
        (lambda path: taped(path, EMPTY), {}, "no file is in it"),
        (wrong_crc, {}, "Bad CRC-32"),
        *(
            (damaged(content), {}, "is damaged or no archive")
            for content in (b"", b"nothing", b"PK\x03\x04 cut", b"\x1f\x8b cut", b"BZh9 cut", b"\xfd7zXZ\0cut")
        ),
    ],
)
def test_a_bad_archive_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], limits: dict[str, int], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(archives, name, limit)
    with pytest.raises(NotFetched, match=words):
        unpacked(make(tmp_path / "archive"))
    assert contents(tmp_path / "out") == {}


def test_headers_of_a_tar_are_not_kept(tmp_path: Path) -> None:
    """14 MB of headers that are packed well took 3 GB, those of the whole archive more than the memory."""
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(30):
            entry = tarfile.TarInfo(f"d/{number}")
            entry.pax_headers = {"comment": "x" * 900_000, "uname": "x" * 100_000}
            archive.addfile(entry)
    tracemalloc.start()
    try:
        assert archives.unpack(tmp_path / "a.tar", tmp_path / "out", lambda done, total: None) == 30
        assert tracemalloc.get_traced_memory()[1] < 12 * 2**20
    finally:
        tracemalloc.stop()
    with tarfile.open(tmp_path / "b.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(1200):
            archive.fileobj.write(tarfile.TarInfo.create_pax_global_header({f"k{number}": "x"}))  # type: ignore[union-attr]
    with pytest.raises(NotFetched, match="is damaged or no archive"):
        unpacked(tmp_path / "b.tar")


@examples(100)
@given(st.sampled_from(["zip", "", "gz", "bz2", "xz"]), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4))))
def test_any_damage_to_an_archive_is_one_kind_of_error(packed: str, damage: list[tuple[float, bytes]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "archive"
        members = [("d/a.txt", b"a" * 70), ("d/b.txt", b"b" * 70)]
        archive = zipped(path, *members) if packed == "zip" else taped(path, *members, packed=packed)
        content = bytearray(archive.read_bytes())
        for where, what in damage:
            place = int(where * (len(content) - 1))
            content[place : place + len(what) or None] = what
            content = content or bytearray(b"x")
        archive.write_bytes(content)
        with suppress(NotFetched):
            archives.unpack(archive, Path(folder) / "out", lambda done, total: None)
        assert {path.name for path in Path(folder).iterdir()} <= {"archive", "out"}


@pytest.mark.parametrize("packed", ["", "gz", "xz"])
@pytest.mark.parametrize(
    "harm", ["cut between files", "cut in a header", "cut before the end", "hole", "damaged header"]
)
def test_a_tar_that_does_not_end_as_one_is_damaged(tmp_path: Path, packed: str, harm: str) -> None:
    """Python's reader takes all of these for whole archives of fewer files."""
    whole = taped(
        tmp_path / "whole.tar", ("a", b"a" * 700), ("b", b"b" * 700), ("c", b"c" * 700), packed=""
    ).read_bytes()
    header = 3 * 512  # of b, after the header and two blocks of a
    content = {
        "cut between files": whole[:header],
        "cut in a header": whole[: header + 100],
        "cut before the end": whole[: 3 * header],
        "hole": whole[:header] + bytes(header) + whole[2 * header :],
        "damaged header": whole[:header] + b"x" * 512 + whole[header + 512 :],
    }[harm]
    pack = {"": bytes, "gz": gzip.compress, "xz": lzma.compress}[packed]
    (tmp_path / "a.tar").write_bytes(pack(content))
    with pytest.raises(NotFetched, match=r"is damaged or no archive: it (is cut off|has a hole)"):
        unpacked(tmp_path / "a.tar")
    assert not (tmp_path / "out").exists()
    (tmp_path / "lone.tar").write_bytes(pack(whole[: 3 * header + 512]))
    assert len(unpacked(tmp_path / "lone.tar")) == 3, "some writers end a tar with one block of zeros"


@pytest.mark.parametrize("make", [zipped, taped])
def test_unpacking_goes_on_and_overwrites_nothing_else(tmp_path: Path, make: Callable[..., Path]) -> None:
    archive = make(tmp_path / "archive", ("a", b"a"), ("b", b"b"))
    unpacked(archive)
    before = (tmp_path / "out" / "a").stat().st_mtime_ns
    (tmp_path / "out" / "b").unlink()
    assert unpacked(archive) == {"a": b"a", "b": b"b"}
    assert (tmp_path / "out" / "a").stat().st_mtime_ns == before
    for mine in (b"mine", b"c"):
        (tmp_path / "out" / "b").write_bytes(mine)
        with pytest.raises(NotFetched, match="is in the way"):
            unpacked(archive)
        assert (tmp_path / "out" / "b").read_bytes() == mine


def test_a_folder_that_is_a_link_is_not_unpacked_into(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "imgs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        unpacked(zipped(tmp_path / "a.zip", ("imgs/a.jpg", JPEG)))
    assert list((tmp_path / "elsewhere").iterdir()) == []


# --- benchmarks -------------------------------------------------------------------------------------------------


def stars(*files: OriginFile, read: str = "stars/*.bin", **more: Any) -> Benchmark:
    """Return a benchmark of these files."""
    told = {"licence": "CC0 1.0", "home": "https://example.org", "hub": "owner/stars", "reads": (read,)}
    return Benchmark(name="stars", items=lambda data: [], origin=Origin(**{**told, "files": files, **more}))


def get(data: Path, *files: OriginFile, **more: Any) -> Fetched:
    """Fetch a benchmark of these files."""
    return fetch.fetch([stars(*files)], data, **{"manners": QUICK, **more})


Held = dict[str, Sent | bytes]
Shelf = tuple[FileServer, Held]


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    """A server with files by path, and the files."""
    held: Held = {}

    def script(n: int, asked: Asked) -> Sent:
        found = held.get(asked.path, Sent(b"", 404))
        return found if isinstance(found, Sent) else ranged(found, asked)

    with FileServer(script) as server:
        yield server, held


NOWHERE = "http://127.0.0.1:9/"


def test_a_benchmark_arrives_and_is_there_the_next_time(tmp_path: Path, shelf: Shelf) -> None:
    server, held = shelf
    held |= {"/a.bin?signed": CONTENT, "/b.bin": b"b"}
    benchmark = stars(
        OriginFile(to="stars/a.bin", at=f"{server.url}/a.bin?signed", size=len(CONTENT), digest=MD5[0]),
        OriginFile(to="stars/deep/b.bin", at=f"{server.url}/b.bin"),
    )
    done = fetch.fetch([benchmark], tmp_path, manners=QUICK)
    assert (sorted(done.received), done.lacking) == (["stars/a.bin", "stars/deep/b.bin"], {})
    text = summary.text([benchmark], tmp_path, done)
    assert text.startswith(
        f"stars: complete, 2 files, 102 kB in {tmp_path}, 2 of them fetched now\n1 file has no published"
    )
    notes = manifest.read(tmp_path / "stars")
    assert notes["a.bin"].checked == MD5[0]
    assert notes["a.bin"].source == f"{server.url}/a.bin", "no signature"
    assert notes["deep/b.bin"].sha256 == sha256(b"b")
    before = len(server.asked)
    again = fetch.fetch([benchmark], tmp_path, manners=QUICK)
    assert (again.received, again.lacking, len(again.notes)) == (set(), {}, 2)
    assert len(server.asked) == before
    assert "0 of them fetched now" in summary.text([benchmark], tmp_path, again)


@pytest.mark.parametrize("small", [10, 2**28])
def test_a_file_that_changed_is_named_and_left_alone(
    tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    server, held = shelf
    held |= {"/a.bin": CONTENT, "/b.bin": CONTENT}
    files = (
        OriginFile(to="stars/a.bin", at=f"{server.url}/a.bin", digest=f"md5:{md5(CONTENT).upper()}"),
        OriginFile(to="stars/b.bin", at=f"{server.url}/b.bin"),
    )
    get(tmp_path, *files)
    # A large file is read again only if it changed.
    monkeypatch.setattr(manifest, "LARGE", small)
    read: list[str] = []
    digests_of = manifest.digests_of
    monkeypatch.setattr(manifest, "digests_of", lambda path, *more: read.append(path.name) or digests_of(path, *more))
    assert get(tmp_path, *files).lacking == {}
    assert read == ([] if small == 10 else ["a.bin", "b.bin"])
    changed = CONTENT[:-1] + b"x"
    for name in ("a.bin", "b.bin"):
        (tmp_path / "stars" / name).write_bytes(changed)
    first, second = get(tmp_path, *files).lacking.values()
    assert f"is not the released file: its md5 is {md5(changed)}, not {md5(CONTENT)}; move it away" in first
    assert "has changed since 20" in second
    assert (tmp_path / "stars" / "a.bin").read_bytes() == changed


def test_a_file_of_the_wrong_size_or_kind_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "stars" / "b").mkdir(parents=True)
    (tmp_path / "stars" / "a").write_bytes(b"short")
    first, second = get(tmp_path, *(OriginFile(to=f"stars/{n}", at=NOWHERE, size=7) for n in "ab")).lacking.values()
    assert "has 5 bytes, and the release 7; move it away to fetch it again" in first
    assert "is in the way: it is not a file" in second


def test_released_files_under_other_names_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [OriginFile(to=f"stars/{n}.bin", at=NOWHERE, digest=f"md5:{md5(b'%d' % n)}") for n in range(3)]
    (tmp_path / "stars").mkdir()
    (tmp_path / "stars" / "mine.bin").write_bytes(b"mine")
    for n in range(3):
        (tmp_path / "stars" / f"mine-{2 - n}.bin").write_bytes(b"%d" % n)
    for _ in range(2):
        done = get(tmp_path, *files)
        found = {to: note.to for to, note in done.notes.items()}
        assert (done.lacking, found) == ({}, {f"stars/{n}.bin": f"mine-{2 - n}.bin" for n in range(3)})
        monkeypatch.setattr(manifest, "digests_of", lambda *_: pytest.fail("was read again"))


def test_another_tools_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lmu = tmp_path / "LMUData"
    (lmu / "stars").mkdir(parents=True)
    (lmu / "stars" / "a.bin").write_bytes(b"a")
    file = OriginFile(to="stars/a.bin", at=NOWHERE, digest=f"md5:{md5(b'a')}")
    benchmark = stars(file, elsewhere=lambda: lmu)
    assert len(fetch.fetch([benchmark], tmp_path / "data", manners=QUICK).lacking) == 1
    assert f"--from={lmu} takes them" in capsys.readouterr().err
    assert fetch.fetch([benchmark], tmp_path / "data", folders=[lmu], manners=QUICK).lacking == {}
    assert capsys.readouterr().err == ""


def test_a_second_place_is_asked_if_the_first_has_the_wrong_file(tmp_path: Path, shelf: Shelf) -> None:
    server, held = shelf
    held |= {"/wrong.bin": b"b", "/right.bin": b"a"}
    also = ("from:x", f"{server.url}/right.bin")
    file = OriginFile(to="stars/a.bin", at=f"{server.url}/wrong.bin", digest=f"md5:{md5(b'a')}", also=also)
    done = get(tmp_path, file)
    assert (done.lacking, (tmp_path / "stars/a.bin").read_bytes()) == ({}, b"a")
    held["/right.bin"] = Sent(b"", 404)
    (tmp_path / "stars/a.bin").unlink()
    (told,) = get(tmp_path, file).lacking.values()
    assert told.startswith(f"{server.url}/wrong.bin has the wrong content")
    assert told.endswith(f"; {server.url}/right.bin does not exist (404)")


def test_files_of_a_folder_need_no_server(tmp_path: Path) -> None:
    usb = tmp_path / "usb"
    held = {"PMC12.3/f.jpg": JPEG, "roco/2.jpg": JPEG + b"2", "c.bin": CONTENT, "d.bin": b"d", "f.jpg": b"no"}
    for name, content in held.items():
        (usb / name).parent.mkdir(parents=True, exist_ok=True)
        (usb / name).write_bytes(content)
    files = (
        OriginFile(to="stars/1.jpg", at="pmc:PMC12/f.jpg"),
        OriginFile(to="stars/2.jpg", at="pmc:PMC13/f.jpg", also=("from:roco/2.jpg",)),
        OriginFile(to="stars/c.bin", at="https://example.org/x/c.bin?y", digest=MD5[0]),
        # Another digest, size and kind.
        OriginFile(to="stars/d.bin", at=NOWHERE, digest=f"md5:{md5(b'e')}"),
        OriginFile(to="stars/e.bin", at=f"{NOWHERE}c.bin", size=3),
        OriginFile(to="stars/f.jpg", at=NOWHERE),
    )
    data = tmp_path / "data"
    assert [*get(data, *files, folders=[usb], offline=True).lacking] == ["stars/d.bin", "stars/e.bin", "stars/f.jpg"]
    reasons = get(data, *files, folders=[usb]).lacking.values()
    assert all("127.0.0.1:9 cannot be reached" in told for told in reasons)
    assert contents(data / "stars").keys() - {manifest.NAME} == {"1.jpg", "2.jpg", "c.bin"}


def test_offline_lists_the_missing_files_and_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (
        OriginFile(to="stars/a.bin", at="a.bin"),
        OriginFile(to="stars/b.bin", at="https://example.org/b.bin?key=1"),
        OriginFile(to="stars/c.jpg", at="pmc:PMC12/f.jpg"),
    )
    assert [*get(tmp_path / "data", *files, offline=True).lacking.values()] == [
        "not asked for (offline); from https://huggingface.co/datasets/owner/stars",
        "not asked for (offline); from https://example.org/b.bin",
        "not asked for (offline); from PubMed Central's open-data store, https://pmc-oa-opendata.s3.amazonaws.com",
    ]
    assert not (tmp_path / "data").exists()
    monkeypatch.setattr(hub, "from_environment", lambda: hub.Hub(NOWHERE, offline=True))
    (told,) = get(tmp_path, files[0]).lacking.values()
    assert told.startswith("not asked for (HF_HUB_OFFLINE is set); from ")


def test_another_version_on_the_hub_is_noticed_before_it_is_received(
    tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, held = shelf
    monkeypatch.setattr(hub, "from_environment", lambda: hub.Hub(server.url))
    tag = {"X-Linked-Etag": f'"{"b" * 64}"', "X-Linked-Size": "5"}
    held["/datasets/owner/stars/resolve/main/a"] = Sent(b"12345", headers=tag)
    monkeypatch.setattr(parts.PartFile, "write", lambda self, content: pytest.fail("was received"))
    released = OriginFile(to="stars/a", at="a", digest=f"sha256:{'a' * 64}"), OriginFile(to="stars/b", at="a", size=7)
    first, second = get(tmp_path, *released).lacking.values()
    assert "is another version: its sha256:bbbb" in first
    assert second.endswith("has 5 bytes, and the release 7")


@pytest.mark.parametrize("to", ["../a", "/etc/a", "stars/../../a", "stars//a", "a\\b", "stars/\n", "", "stars/.", "."])
def test_nothing_is_written_or_looked_at_outside_of_the_data_folder(tmp_path: Path, to: str, shelf: Shelf) -> None:
    server, held = shelf
    held["/a"] = b"a"
    (tmp_path / "a").write_bytes(b"a")
    for offline in (True, False):
        done = get(tmp_path / "data", OriginFile(to=to, at=f"{server.url}/a"), offline=offline)
        assert (done.received, done.notes, len(done.lacking)) == (set(), {}, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "data"]


def test_a_folder_that_is_a_link_is_not_written_through(tmp_path: Path, shelf: Shelf) -> None:
    server, held = shelf
    held["/a"] = b"a"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "stars").symlink_to(tmp_path / "elsewhere")
    (told,) = get(tmp_path / "data", OriginFile(to="stars/a", at=f"{server.url}/a")).lacking.values()
    assert "is a symbolic link" in told
    assert list((tmp_path / "elsewhere").iterdir()) == []


def tree(*files: tuple[str, bytes], following: str = "") -> Sent:
    """Answer as the hub does when it lists a folder."""
    entries = [{"type": "directory", "path": "data/deep", "oid": "0" * 40, "size": 0}]
    for path, content in files:
        lfs = {"oid": sha256(content), "size": len(content), "pointerSize": 130}
        entries.append({"type": "file", "path": path, "oid": "0" * 40, "size": len(content), "lfs": lfs})
    link = {"Link": f'<{following}>; rel="next"'} if following else {}
    return Sent(json.dumps(entries).encode(), headers={"Content-Type": "application/json", **link})


PARQUET = b"PAR1 rows PAR1"
PARTS = OriginFile(to="stars/data/*.parquet", at="data/*.parquet")
PATTERN = stars(PARTS, read="stars/data/*.parquet")


def test_a_pattern_stands_for_the_files_that_the_hub_lists(
    tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, held = shelf
    monkeypatch.setattr(hub, "from_environment", lambda: hub.Hub(server.url, "hf_secret"))
    base = "/api/datasets/owner/stars/tree/main/data"
    held[base] = tree(
        ("data/a.parquet", PARQUET), ("data/readme.md", b"no"), following="https://evil.example/?cursor=2"
    )
    held[f"{base}?cursor=2"] = tree(("data/b.parquet", PARQUET), ("data/deep/c.parquet", b"no"))
    for name in "ab":
        held[f"/datasets/owner/stars/resolve/main/data/{name}.parquet"] = PARQUET
    for asked in (4, 0):  # two pages and two files; then nothing, as all are there
        before = len(server.asked)
        done = fetch.fetch([PATTERN], tmp_path, manners=QUICK)
        assert (sorted(done.notes), done.lacking) == (["stars/data/a.parquet", "stars/data/b.parquet"], {})
        assert len(server.asked) - before == asked
        assert "stars: complete, 2 files" in summary.text([PATTERN], tmp_path, done)
    (tmp_path / "stars/data/b.parquet").unlink()
    assert [*fetch.fetch([PATTERN], tmp_path, offline=True).lacking] == ["stars/data/b.parquet"]
    (tmp_path / "stars/data/a.parquet").write_bytes(PARQUET[::-1])
    first, _ = fetch.fetch([PATTERN], tmp_path, offline=True).lacking.values()
    assert "is not the released file: its sha256 is" in first


def test_a_pattern_without_the_hub(tmp_path: Path) -> None:
    done = fetch.fetch([PATTERN], tmp_path / "data", offline=True)
    assert done.lacking == {"stars/data/*.parquet": "it comes from https://huggingface.co/datasets/owner/stars"}
    assert summary.text([PATTERN], tmp_path, done).startswith("stars: not there")
    (tmp_path / "usb/data").mkdir(parents=True)
    (tmp_path / "usb/data/a.parquet").write_bytes(PARQUET)
    done = fetch.fetch([PATTERN], tmp_path / "data", folders=[tmp_path / "usb"], offline=True)
    assert (done.lacking, list(done.received)) == ({}, ["stars/data/a.parquet"])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (tree(("data/../../a.parquet", b"x"), ("data/x.txt", b"x")), "owner/stars has no files data/*.parquet"),
        (Sent(b'{"error": "no"}'), "does not list the files of owner/stars as the hub does"),
        (Sent(b'[{"path": 3}]'), "does not list the files of owner/stars as the hub does"),
        (Sent(b"", 404, {"X-Error-Code": "RepoNotFound"}), "this data set or revision does not exist"),
        (Sent(b"", 401, {"X-Error-Code": "GatedRepo"}), "only to accounts that its owners let in"),
    ],
)
def test_a_hub_that_lists_nothing(
    answer: Sent, words: str, tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, held = shelf
    monkeypatch.setattr(hub, "from_environment", lambda: hub.Hub(server.url))
    held["/api/datasets/owner/stars/tree/main/data"] = answer
    (tmp_path / "stars/data").mkdir(parents=True)
    (tmp_path / "stars/data/mine.parquet").write_bytes(PARQUET)
    done = fetch.fetch([PATTERN], tmp_path, manners=QUICK)
    (told,) = done.lacking.values()
    assert words in told
    assert summary.text([PATTERN], tmp_path, done).startswith("stars: incomplete, 1 of 1 file")


def test_an_archive_is_fetched_and_unpacked_once(tmp_path: Path, shelf: Shelf) -> None:
    server, held = shelf
    held["/imgs.zip"] = zipped(tmp_path / "imgs.zip", ("x/1.jpg", JPEG)).read_bytes()
    file = OriginFile(to="stars/imgs.zip", at=f"{server.url}/imgs.zip", unpack="stars/imgs")
    data = tmp_path / "data"
    assert get(data, file).lacking == {}
    assert (data / "stars/imgs/x/1.jpg").read_bytes() == JPEG
    assert manifest.read(data / "stars")["imgs.zip"].unpacked == 1
    (data / "stars/imgs.zip").unlink()
    assert get(data, file).lacking == {}, "the archive is not needed any more"
    assert len(server.asked) == 1
    (data / "stars/imgs/x/1.jpg").unlink()
    assert get(data, file).lacking == {}
    assert len(server.asked) == 2, "its files were removed"
    (data / "stars/imgs/x/1.jpg").unlink()
    assert get(data, file, offline=True).lacking == {}
    assert (data / "stars/imgs/x/1.jpg").read_bytes() == JPEG
    # An archive that the user has put there.
    (tmp_path / "own/stars").mkdir(parents=True)
    (data / "stars/imgs.zip").rename(tmp_path / "own/stars/imgs.zip")
    assert get(tmp_path / "own", file, offline=True).lacking == {}
    assert (tmp_path / "own/stars/imgs/x/1.jpg").exists()


def test_a_few_files_are_received_at_a_time(tmp_path: Path) -> None:
    with FileServer(lambda n, asked: Sent(asked.path.encode(), delay=0.02)) as server:
        done = get(tmp_path, *(OriginFile(to=f"stars/{n}", at=f"{server.url}/{n}") for n in range(12)))
    assert (len(done.received), done.lacking) == (12, {})
    assert 2 <= server.most <= 4


def test_an_error_in_a_thread_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(parts, "receive", fail)
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        get(tmp_path, OriginFile(to="stars/a", at=NOWHERE))


def test_an_interruption_keeps_the_parts(tmp_path: Path) -> None:
    def script(n: int, asked: Asked) -> Sent:
        if n == 3:
            threading.Timer(0.1, os.kill, (os.getpid(), 2)).start()
        return ranged(CONTENT, asked, drip=0.02, piece=2000)

    with (
        FileServer(script) as server,
        pytest.raises(KeyboardInterrupt, match="type the same command again to go on"),
    ):
        get(tmp_path, *(OriginFile(to=f"stars/{n}", at=f"{server.url}/{n}") for n in range(9)))
    assert len([*(tmp_path / "stars").glob("*.part")]) == 4


def test_shared_files_are_fetched_once() -> None:
    first = stars(OriginFile(to="stars/a", at="a"))
    both = first, replace(first, name="stars-zh")
    (wish,) = fetch.wishes_of(both)
    assert wish.benchmarks == both


def test_a_release_names_digests_that_can_be_computed() -> None:
    assert manifest.released(OriginFile(to="a", at="a", digest="MD5:AB")).digest == "md5:ab"
    with pytest.raises(DataError, match="stars/a: the digest 'crc:1' is neither md5:HEX nor sha256:HEX"):
        fetch.wishes_of([stars(OriginFile(to="stars/a", at="a", digest="crc:1"))])


def test_benchmarks_without_files_to_fetch(tmp_path: Path) -> None:
    own = Benchmark(name="own", items=lambda data: [], origin=Origin(find=lambda data: []))
    held = Benchmark(name="held", items=lambda data: [], origin=Origin(find=lambda data: [tmp_path]))
    chosen = [phantom.BENCHMARKS[0], medlesionvqa.BENCHMARKS[0], own, held]
    text = summary.text(chosen, tmp_path, fetch.fetch(chosen, tmp_path, manners=QUICK))
    assert "phantom-gmai-mmbench: needs no files from elsewhere; nothing to fetch" in text
    assert "medlesionvqa-val: No public release was found. Its owners give it on request" in text
    assert "own: its `origin` names no files" in text
    assert f"held: is there, in {tmp_path}" in text


def test_equal_reasons_are_one_line(tmp_path: Path) -> None:
    done = Fetched(lacking={f"f{n}": "no network" for n in range(5)})
    assert summary.text([], tmp_path, done).endswith("Could not be had:\n  f0, f1, f2 and 2 more: no network")


def test_a_data_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the data folder cannot be made"):
        fetch.fetch([], tmp_path / "file" / "data")


# --- the list of received files ---------------------------------------------------------------------------------


def test_a_damaged_list_gives_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = manifest.FileNote("a", 1, "x", 2, unpacked=3)
    manifest.write(tmp_path, note)
    odd = [json.dumps({"to": f"odd{n}", "size": n, "sha256": "", "modified": 1}) for n in (10**400, -1, 2**63)]
    with (tmp_path / manifest.NAME).open("ab") as file:
        file.write("\n".join(odd).encode())
        file.write(b'\n[]\n{"to": 3}\n\xff\n{"to": "b"}\n' + b"[" * 5000 + b'\n{"to": "c", "size"')
    manifest.write(tmp_path, replace(note, size=7))
    assert json.loads((tmp_path / manifest.NAME).read_text("utf-8", "replace").splitlines()[-1])["unpacked"] == 3
    assert manifest.read(tmp_path) == {"a": replace(note, size=7)}
    monkeypatch.setattr(manifest, "MAX_LINES", 1)
    assert manifest.read(tmp_path) == {"a": note}


@pytest.mark.parametrize("content", [None, b"x" * 2**17, b"{}\n"])
def test_a_list_may_be_missing_or_hostile(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / manifest.NAME).write_bytes(content)
    assert manifest.read(tmp_path) == {}


def test_a_read_only_folder_keeps_no_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stars" / manifest.NAME).mkdir(parents=True)
    (tmp_path / "stars" / "a").write_bytes(b"a")
    assert get(tmp_path, OriginFile(to="stars/a", at="a")).lacking == {}
    assert f"{manifest.NAME} cannot be written" in capsys.readouterr().err


# --- the three benchmarks ---------------------------------------------------------------------------------------


def test_the_origins_of_the_three_benchmarks() -> None:
    val, test = (benchmark.origin for benchmark in gmai_mmbench.BENCHMARKS)
    assert val is not None
    assert test is not None
    assert (len(val.files), len(test.files)) == (1, 11)
    assert all(file.digest.startswith("md5:") for file in (*val.files, *test.files))
    assert test.files[10].digest == "md5:d08dc813f0eb6bbab63cae2a9d113c4b"
    images = mediconfusion.ORIGIN.files[1:]
    assert [file.to for file in images] == [f"mediconfusion/images/{n}.jpg" for n in range(20000, 20228)]
    assert all(pmc.ADDRESS.fullmatch(file.at) for file in images)
    assert len({file.at for file in images}) == 228
    assert {benchmark.origin for benchmark in phantom.BENCHMARKS} == {phantom.ORIGIN}
    easy = mediconfusion.variant("easy").origin
    assert easy is not None
    assert not easy.files
    assert not phantom.ORIGIN.files


def test_a_known_pair_of_image_and_article() -> None:
    by_name = {file.to: file for file in mediconfusion.ORIGIN.files}
    file = by_name["mediconfusion/images/20192.jpg"]
    assert file.at == "pmc:PMC3284869/1752-1947-6-45-2.jpg"
    assert "from:train/radiology/images/ROCO_28778.jpg" in file.also


# --- progress ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "–"),
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (222311, "222 kB"),
        (9342000000, "9.3 GB"),
    ],
)
def test_sizes_for_people(size: int | None, text: str) -> None:
    assert figures.data_size(size) == text


def test_lines_come_now_and_then_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.show() as bars:
        bars.expect(2)
        bars.received("a", 5, 10)
        monkeypatch.setattr(progress, "EVERY", 0)
        bars.received("a\x1b[31m", 1000, 2000)
        bars.ended("a")
    assert capsys.readouterr().err.splitlines() == [
        "  0 of 2 files, 1.0 kB; a\ufffd[31m: 1.0 kB of 2.0 kB",
        "  1 of 2 files, 1.0 kB",
    ]


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress.show() as bars:
        bars.expect(1)
        bars.received("[a]", 5, None)
        bars.received("[a]", 10, 20)
        bars.tell("waits [b]")
        bars.ended("[a]")
    assert "medvqa: waits [b]" in capsys.readouterr().err


# --- laws -------------------------------------------------------------------------------------------------------

FAULTS = st.sampled_from(["fine", "cut", "whole", "other", "ignored", "busy", "page", "lost", "short", "long", "stale"])


@examples(150)
@given(st.lists(FAULTS, max_size=12), st.sampled_from(["", "digest", "hub"]), st.integers(0, 3000))
def test_a_file_under_its_name_is_one_version_whatever_a_server_does(faults: list[str], known: str, held: int) -> None:
    versions = [CONTENT[:3000], CONTENT[1000:3500]]

    def script(n: int, asked: Asked) -> Sent:
        fault = faults[n] if n < len(faults) else "fine"
        now = "other" in faults[: n + 1] and known != "digest"
        content, etag = versions[now], f'"{int(now)}"'
        if fault == "ignored":
            del asked.headers["If-Range"]
        sent = ranged(content, asked, etag)
        sent = Sent(content, headers=sent.headers) if fault == "whole" else sent
        sent.headers |= linked(content, len(content)) if known == "hub" else {}
        if fault == "page":
            return Sent(b"<html>", headers={"Content-Type": "text/html"})
        if fault == "stale":
            return replace(sent, headers=sent.headers | {"ETag": '"stale"'})
        return {
            "cut": replace(sent, cut=len(sent.body) * 2 // 3),
            "busy": Sent(b"", 503),
            "lost": replace(sent, cut=len(sent.body)),
            "short": replace(sent, announced=len(sent.body) // 2),
            "long": replace(sent, announced=len(sent.body) + 100),
        }.get(fault, sent)

    quick = Manners(timeout=2, attempts=4, first_wait=0, longest_wait=0, pause=0)
    with TemporaryDirectory() as folder, FileServer(script) as server:
        target = Path(folder) / "file.bin"
        if known:
            target.with_name("file.bin.part").write_bytes(versions[0][:held])
        digests = (f"md5:{md5(versions[0])}",) if known == "digest" else ()
        more: dict[str, Any] = {"described": hub.described} if known == "hub" else {}
        try:
            receive(server, target, manners=quick, most=10**6, digests=digests, **more)
        except NotFetched:
            assert not target.exists()
        else:
            # Without a digest, a length that is a lie cannot be told.
            believed = [] if known else [version[: len(version) // 2] for version in versions]
            assert target.read_bytes() in [*versions[: 1 if digests else 2], *believed]
