"""The checks before any answer of `medvqa view`: who asks, from which page, and how.

A page of another origin, a name that resolves to this machine, and other users of the machine must get nothing. The
address that is printed holds a token, which is exchanged for a cookie.
"""

from __future__ import annotations

import hmac
import re
import threading
from collections.abc import Iterable, Mapping

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from medvqa.items import MedVQAError
from medvqa.judging.reviews import MAX_FILE
from medvqa.view.shapes import Problem

LARGEST_BODY = MAX_FILE
"""Bytes of a body: reviews and readings are all that is sent here."""
HOLDER = "medvqa.holder"
"""The key of a passed request's scope with the reader whose cookie opened the door (`Tokens.holder`)."""
_POLICY = b"content-security-policy"
HEADERS = {
    _POLICY: b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    # Patients' data must not lie in the browser's cache.
    b"cache-control": b"no-store",
}
"""Headers of every answer."""
_TOO_LARGE = f"This is larger than {LARGEST_BODY:,} bytes."
_WRITTEN = re.compile(r"/api/(?:runs/.+/reviews|reading)")
_SITES = frozenset({b"same-origin", b"none"})
_MODES = frozenset({b"navigate", b"same-origin", b"cors", b"no-cors"})
_PAGE_DESTINATIONS = frozenset({b"document", b"empty", b"image", b"script", b"style"})
_API_DESTINATIONS = frozenset({b"document", b"empty", b"image"})


class Tokens:
    """The secrets that open the door: a lasting `token`, and one `ticket` that is good for one time.

    The ticket is for the command line of a browser, which other users of the machine can read. Each reader of a study
    has a token of their own.
    """

    def __init__(self, token: str | Mapping[str, str], ticket: str = "") -> None:
        """All are text of the URL-safe alphabet; `token` is one, or those of readers by code. "" is no ticket."""
        tokens = {"": token} if isinstance(token, str) else token
        self._holders = {each.encode("ascii"): holder for holder, each in tokens.items()}
        self.ticket = ticket.encode("ascii")
        self._used = not ticket
        self._lock = threading.Lock()

    def holder(self, cookie: bytes) -> str | None:
        """Return the reader whose cookie this is, "" for that of a server of runs; None if it opens nothing."""
        holders = self._holders.items()
        return next((holder for token, holder in holders if hmac.compare_digest(cookie, token)), None)

    def exchange(self, value: bytes) -> bytes | None:
        """Return the cookie for a token of an address, None for any other text; the ticket is used up by this."""
        if self.holder(value) is not None:
            return value
        with self._lock:
            opens = hmac.compare_digest(value, self.ticket) and not self._used
            self._used |= opens
        return next(iter(self._holders)) if opens else None


class TooLarge(MedVQAError):
    """A body has more bytes than `LARGEST_BODY`."""


class _RefusedRequest(Exception):
    """A request is answered here. `headers`: more headers of the answer."""

    def __init__(self, status: int, error: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(error)
        self.status = status
        self.headers = list(headers)


class Guard:
    """ASGI middleware that answers refused requests itself, and adds `HEADERS` to every answer."""

    def __init__(self, app: ASGIApp, port: int, tokens: Tokens, policy: bytes = HEADERS[_POLICY]) -> None:
        """`port`: the port of 127.0.0.1 at which the server is reached. `policy`: content security policy of pages."""
        self._app = app
        self._tokens = tokens
        self._headers = {**HEADERS, _POLICY: policy}
        self._cookie = f"medvqa-view-{port}".encode()
        names = [f"127.0.0.1:{port}", f"localhost:{port}"]
        if port == 80:
            names += ["127.0.0.1", "localhost"]  # Browsers leave the port of HTTP out.
        self._hosts = frozenset(name.encode() for name in names)
        self._home = names[0]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                kept = [(name, value) for name, value in message["headers"] if name.lower() not in HEADERS]
                message = {**message, "headers": [*kept, *self._headers.items()]}
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, _limited(receive), sent)
        except _RefusedRequest as refused:
            if not started:
                await _answer(scope, refused, sent)

    def _check(self, scope: Scope) -> None:
        """Raise _RefusedRequest unless a request may be passed on."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        host = _one(headers, b"host")
        if host not in self._hosts:
            raise _RefusedRequest(403, f"This server answers at http://{self._home} alone.")
        origin = _one(headers, b"origin")
        if origin not in (None, b"http://" + (host or b"")):
            raise _RefusedRequest(403, "Pages of other origins cannot read from this server.")
        self._check_fetch(headers, scope["path"])
        self._check_method(scope, origin)
        self._check_secret(scope, headers)

    def _check_fetch(self, headers: list[tuple[bytes, bytes]], path: str) -> None:
        """Check what a browser says about the page that asks: one on another port of this machine is `same-site`."""
        site, mode = _one(headers, b"sec-fetch-site"), _one(headers, b"sec-fetch-mode")
        destinations = _API_DESTINATIONS if path.startswith("/api/") else _PAGE_DESTINATIONS
        destination = _one(headers, b"sec-fetch-dest")
        if site is not None and site not in _SITES:
            raise _RefusedRequest(
                403,
                f"This was asked for by a page or a link elsewhere: type http://{self._home} into the address bar.",
            )
        if (mode is not None and mode not in _MODES) or (destination is not None and destination not in destinations):
            raise _RefusedRequest(403, "This address cannot be shown inside another page.")

    def _check_method(self, scope: Scope, origin: bytes | None) -> None:
        method = scope["method"]
        if method in ("GET", "HEAD"):
            return
        if method != "PUT" or not _WRITTEN.fullmatch(scope["path"]):
            raise _RefusedRequest(405, "Only reviews and readings can be written here.", [(b"allow", b"GET, HEAD")])
        if origin is None:
            raise _RefusedRequest(403, "Only a page of this server can write here.")
        length = _one(scope["headers"], b"content-length")
        if length is not None and (not length.isdigit() or int(length[:12]) > LARGEST_BODY):
            raise _RefusedRequest(413, _TOO_LARGE)

    def _check_secret(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> None:
        """Check the cookie; exchange a token for one."""
        cookies = _cookies(headers, self._cookie)
        known = next((value for value in cookies if self._tokens.holder(value) is not None), None)
        tokens = [part[6:] for part in scope["query_string"].split(b"&") if part.startswith(b"token=")]
        if scope["path"] == "/" and tokens:
            # The page is at a clean address, so that the token is in no history, bookmark or screenshot.
            # Another reader's address is exchanged in a browser that is known, too.
            cookie = (self._tokens.exchange(tokens[0]) if len(tokens) == 1 else None) or known
            if cookie is not None:
                value = self._cookie + b"=" + cookie + b"; HttpOnly; SameSite=Strict; Path=/"
                raise _RefusedRequest(303, "The address is /.", [(b"location", b"/"), (b"set-cookie", value)])
            raise _RefusedRequest(403, "This address is not valid: open the one that medvqa view printed.")
        if known is None:
            raise _RefusedRequest(403, "This browser is not known here: open the address that medvqa view printed.")
        scope[HOLDER] = self._tokens.holder(known)


def _one(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The value of a header, None without one; one that comes twice is refused."""
    values = [value for key, value in headers if key == name]
    if len(values) > 1:
        raise _RefusedRequest(400, "A header came twice.")
    return values[0] if values else None


def _cookies(headers: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    parts = (part.strip().partition(b"=") for key, value in headers if key == b"cookie" for part in value.split(b";"))
    return [value for key, _, value in parts if key == name]


def _limited(receive: Receive) -> Receive:
    """Count the bytes of a body that comes without its length, or with a wrong one."""
    read = 0

    async def limited() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > LARGEST_BODY:
            raise TooLarge(_TOO_LARGE)
        return message

    return limited


async def _answer(scope: Scope, refused: _RefusedRequest, send: Send) -> None:
    # A person reads the sentence; the app reads the shape.
    person = not scope["path"].startswith("/api/") and b"text/html" in (_first(scope["headers"], b"accept") or b"")
    body = str(refused).encode() if person else msgspec.json.encode(Problem(str(refused)))
    type = b"text/plain; charset=utf-8" if person else b"application/json"
    length = str(len(body)).encode()
    # A body that never comes would hold the connection, of which there are few.
    headers = [(b"content-type", type), (b"content-length", length), (b"connection", b"close"), *refused.headers]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _first(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    return next((value for key, value in headers if key == name), None)
