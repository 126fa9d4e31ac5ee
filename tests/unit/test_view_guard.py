"""The checks before any answer of `medvqa view`, called as ASGI calls them."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")

from medvqa.view import guard
from medvqa.view.guard import HEADERS, Guard, Tokens, TooLarge

PORT = 8123
HOST = b"127.0.0.1:8123"
TOKEN, TICKET = "t" * 43, "o" * 43
COOKIE = (b"cookie", b"other=1; medvqa-view-8123=" + TOKEN.encode())
REVIEWS = "/api/runs/a/b/reviews"
Headers = Iterable[tuple[bytes, bytes]]


class Reply(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes


async def _inner(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads the body and answers with its own careless headers."""
    body = b""
    while (message := await receive()).get("more_body"):
        body += message["body"]
    body += message["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"Cache-Control", b"public")]})
    await send({"type": "http.response.body", "body": b"passed " + body})


def asked(
    path: str = "/api/runs",
    headers: Headers = (COOKIE,),
    *,
    method: str = "GET",
    host: bytes | None = HOST,
    query: bytes = b"",
    body: Iterable[bytes] = (b"",),
    tokens: Tokens | None = None,
) -> Reply:
    """What the guard answers."""
    parts = list(body)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    named = [] if host is None else [(b"host", host)]
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": [*named, *headers]}
    asyncio.run(Guard(_inner, PORT, tokens or Tokens(TOKEN, TICKET))(scope, receive, send))  # type: ignore[arg-type]
    answer = dict(sent[0]["headers"])
    assert len(answer) == len(sent[0]["headers"])  # none twice
    assert HEADERS.items() <= answer.items()
    return Reply(sent[0]["status"], answer, b"".join(message.get("body", b"") for message in sent))


def passed(*more: tuple[bytes, bytes], **how: Any) -> bool:
    reply = asked(headers=[COOKIE, *more], **how)
    assert (reply.status == 200) == reply.body.startswith(b"passed")
    if reply.status != 200:
        assert json.loads(reply.body)["error"]
        assert TOKEN.encode() not in reply.body + b"".join(reply.headers.values())
    return reply.status == 200


@pytest.mark.parametrize("host", [HOST, b"localhost:8123"])
def test_its_own_pages_may_ask(host: bytes) -> None:
    own = (b"origin", b"http://" + host), (b"sec-fetch-site", b"same-origin"), (b"sec-fetch-mode", b"cors")
    assert passed(*own, (b"sec-fetch-dest", b"empty"), host=host)
    assert passed(host=host)


@given(st.one_of(st.none(), st.binary(), st.sampled_from([b"evil.example", b"127.0.0.1", b"127.0.0.1:8124"])))
def test_another_name_gets_nothing(host: bytes | None) -> None:
    # A name of an attacker that resolves to 127.0.0.1 comes as Host.
    assert not passed(host=host) or host in (HOST, b"localhost:8123")
    assert not passed((b"host", HOST))  # twice


@given(st.one_of(st.binary(), st.sampled_from([b"null", b"http://127.0.0.1:8124", b"https://127.0.0.1:8123"])))
def test_a_page_of_another_origin_gets_nothing(origin: bytes) -> None:
    assert not passed((b"origin", origin)) or origin == b"http://" + HOST
    assert not passed((b"origin", b"http://" + HOST), host=b"localhost:8123")


@pytest.mark.parametrize("site", [b"same-site", b"cross-site", b"", b"\xff"])
def test_a_page_on_another_port_gets_nothing(site: bytes) -> None:
    assert not passed((b"sec-fetch-site", site))


def test_no_address_is_part_of_another_page() -> None:
    for name in (b"iframe", b"object", b"embed", b"frame", b"worker"):
        assert not passed((b"sec-fetch-site", b"same-origin"), (b"sec-fetch-dest", name))
        assert not passed((b"sec-fetch-dest", name), path="/")
    assert not passed((b"sec-fetch-dest", b"script"))
    assert passed((b"sec-fetch-dest", b"script"), path="/app.js")
    assert not passed((b"sec-fetch-mode", b"websocket"))


@given(st.binary(max_size=80))
def test_only_the_cookie_opens(value: bytes) -> None:
    if value.strip() == TOKEN.encode():
        return
    for cookie in (b"medvqa-view-8123=" + value, b"medvqa-view-8124=" + TOKEN.encode(), value):
        if b"medvqa-view-8123=" + TOKEN.encode() not in cookie:
            assert asked(headers=[(b"cookie", cookie)]).status == 403
    assert asked(headers=[]).status == 403
    assert asked(headers=[], query=b"token=" + TOKEN.encode()).status == 403  # only at /


@given(st.binary(max_size=80).filter(lambda value: b"&" not in value))
def test_only_the_token_is_exchanged(value: bytes) -> None:
    tokens = Tokens(TOKEN, TICKET)
    assert asked("/", [], query=b"token=" + value, tokens=tokens).status == 403
    assert asked("/", [], query=b"token=%s&token=%s" % (value, TOKEN.encode()), tokens=tokens).status == 403
    reply = asked("/", [], query=b"a=1&token=" + TOKEN.encode(), tokens=tokens)
    assert (reply.status, reply.headers[b"location"]) == (303, b"/")
    assert reply.headers[b"set-cookie"] == COOKIE[1].partition(b"; ")[2] + b"; HttpOnly; SameSite=Strict; Path=/"
    # A bookmark of an old address leads to the page.
    assert asked("/", query=b"token=" + value, tokens=tokens).status == 303


def test_the_ticket_of_the_browser_is_good_for_one_time() -> None:
    tokens = Tokens(TOKEN, TICKET)
    query = b"token=" + TICKET.encode()
    assert asked(headers=[(b"cookie", b"medvqa-view-8123=" + TICKET.encode())], tokens=tokens).status == 403
    first = asked("/", [], query=query, tokens=tokens)
    assert first.status == 303
    assert TICKET.encode() not in b"".join(first.headers.values())
    assert asked("/", [], query=query, tokens=tokens).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", ""])
def test_only_reviews_are_written(method: str) -> None:
    own = b"origin", b"http://" + HOST
    assert not passed(own, method=method)
    assert not passed(own, method=method, path="/api/runs/reviews")
    assert passed(own, method=method, path=REVIEWS) == (method == "PUT")
    assert not passed(method=method, path=REVIEWS)  # without an origin


def test_a_body_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LARGEST_BODY", 10)
    own = b"origin", b"http://" + HOST
    assert passed(own, method="PUT", path=REVIEWS, body=[b"12345", b"67890"])
    for length in (b"11", b"9" * 400, b"-1", b"\xb2"):
        assert not passed(own, (b"content-length", length), method="PUT", path=REVIEWS)
    with pytest.raises(TooLarge):  # The application answers it.
        passed(own, method="PUT", path=REVIEWS, body=[b"123456", b"67890"])


def test_a_person_reads_a_sentence_and_the_app_a_shape() -> None:
    html = b"accept", b"text/html,application/xhtml+xml"
    assert asked("/runs/a", [html]).body.startswith(b"This browser is not known here")
    assert asked("/api/runs", [html]).headers[b"content-type"] == b"application/json"
    assert asked("/", [], method="HEAD").body == b""
