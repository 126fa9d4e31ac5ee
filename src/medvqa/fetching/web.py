"""Requests to the owners' servers: http and https alone, patient, and a few at a time."""

from __future__ import annotations

import email.utils
import random
import re
import ssl
import string
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from functools import partial
from http.client import HTTPException, HTTPResponse
from typing import TypeVar
from urllib.error import URLError
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from medvqa import __version__, printing
from medvqa.backend import is_remote
from medvqa.items import MedVQAError, UsageError

T = TypeVar("T")
AGENT = f"pytest-medvqa/{__version__} (medvqa fetch)"
CHUNK = 2**18
MAX_REDIRECTS = 8
MOVED = 2**20
"""Bytes since the last failure after which tries are counted anew: a long download may be cut often."""
MAX_TRIES = 1000
TOLD = 4.0
"""Seconds of a wait that the user is told about."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
SLOWEST = 1000
"""Bytes a second below which a connection counts as broken."""
MAX_REASON = 200
"""Characters of a server's words in a message."""
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which another try may succeed."""
MAX_LISTING = 2**24
"""Bytes of a page of a list."""
MAX_PAGES = 20
_USER = re.compile("//[^/@]*@")


class NotFetched(MedVQAError):
    """A file that could not be had; the text is the reason.

    `again`: another try may succeed, after `wait` seconds at the earliest. `host`: all files of this host are affected,
    "" if only this one is. `status` and `code` are the server's, 0 and "" without one.
    """

    def __init__(
        self, reason: str, *, again: bool = False, wait: float = 0, host: str = "", status: int = 0, code: str = ""
    ) -> None:
        """Take the reason and the attributes."""
        super().__init__(reason)
        self.again, self.wait, self.host, self.status, self.code = again, wait, host, status, code


class Stopped(Exception):
    """The user has stopped the download."""


@dataclass(frozen=True, slots=True)
class Manners:
    """How a server is treated: times in seconds.

    `timeout`: without a byte, the connection counts as broken. `attempts` on end that may fail; the wait after the
    first is `first_wait` and doubles, up to `longest_wait`. `pause` lies between two requests to a host, `jobs` files
    are received at a time.
    """

    timeout: float = 60
    attempts: int = 6
    first_wait: float = 1
    longest_wait: float = 300
    pause: float = 0.2
    jobs: int = 4


def mirrors_of(typed: list[str], standard: str) -> dict[str, str]:
    """Return the base URL that stands for each host, from values such as URL (for the `standard` host) and HOST=URL.

    UsageError for a value that is neither.
    """
    mirrors = {}
    for value in typed:
        host, _, base = value.partition("=") if "://" not in value.partition("=")[0] else (standard, "", value)
        if not host or "/" in host or _split(base) is None:
            raise UsageError(
                f"--mirror={shown(value)}: write --mirror=URL in place of the hub, or --mirror=HOST=URL in place of "
                "another host, such as --mirror=https://hf-mirror.com"
            )
        mirrors[host.lower()] = base.rstrip("/")
    return mirrors


def shown(url: str) -> str:
    """Return a URL without its query, which may hold a signature, and without user and password."""
    return _USER.sub("//", url.partition("?")[0].partition("#")[0], count=1)


@dataclass(slots=True)
class Web:
    """Opens URLs within the limits of `manners`; `stop` ends every wait.

    `mirrors` are base URLs by the host whose place they take. `tell` takes a line about a long wait.
    """

    manners: Manners
    mirrors: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = field(default=lambda text: None, kw_only=True)
    stop: threading.Event = field(default_factory=threading.Event, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _next: dict[str, float] = field(default_factory=dict, init=False)
    _lost: dict[str, str] = field(default_factory=dict, init=False)
    _told: set[str] = field(default_factory=set, init=False)

    def mirrored(self, url: str) -> str:
        """Return the URL at the mirror of its host, if there is one."""
        parts = _split(url)
        base = self.mirrors.get(parts.netloc.lower()) if parts else None
        if parts is None or base is None:
            return url
        return base + parts.path + (f"?{parts.query}" if parts.query else "")

    def named(self, url: str) -> str:
        """Return an address as `shown`, for errors; if a mirror is asked instead, the mirror's and the original."""
        at = self.mirrored(url)
        return shown(url) if at == url else f"{shown(at)} (mirror of {shown(url)})"

    def open(
        self, url: str, headers: Mapping[str, str] | None = None, *, token: str = ""
    ) -> tuple[HTTPResponse, Message]:
        """Return the answer to one GET, after redirects, and the last headers of the URL's own host.

        The status is 200, 206 or 416 (NotFetched, Stopped). `token` is sent to the URL's own host alone, never to a
        redirect's.
        """
        at = first = self.mirrored(url)
        own = Message()
        for _ in range(MAX_REDIRECTS + 1):
            is_own = origin_of(at) == origin_of(first)
            response = self._request(at, headers, token if is_own else "")
            own = response.headers if is_own else own
            if response.status not in REDIRECTS:
                break
            at = self._next_url(at, response)
        else:
            raise NotFetched(f"{self.named(url)} redirects more than {MAX_REDIRECTS} times")
        if response.status not in (200, 206, 416):
            response.close()
            raise refusal(at, response.status, response.headers, self.named(url) if at == first else shown(at))
        return response, own

    def chunks(self, response: HTTPResponse, url: str) -> Iterator[bytes]:
        """Yield a body as it comes; NotFetched for a connection that breaks or brings next to nothing a minute."""
        since, came = time.monotonic(), 0
        while not self.stop.is_set():
            try:
                chunk = response.read1(CHUNK)
            except (OSError, HTTPException) as error:
                # One file's connection: the host itself may be well.
                raise NotFetched(str(broken(self.mirrored(url), error)), again=True) from None
            if not chunk:
                return
            yield chunk
            came += len(chunk)
            if (passed := time.monotonic() - since) >= self.manners.timeout:
                if came < SLOWEST * passed:
                    raise NotFetched(f"{self.named(url)}: the connection is too slow", again=True)
                since, came = time.monotonic(), 0
        raise Stopped

    def pages(self, url: str, following: Callable[[bytes, Message], str], *, token: str = "") -> Iterator[bytes]:
        """Yield the pages of a list (NotFetched, Stopped).

        `following` takes a page with its headers and returns the address of the next one, "" after the last.
        """
        for _ in range(MAX_PAGES):
            content, headers = self.patiently(partial(self._page, url, token))
            yield content
            if not (url := following(content, headers)):
                return

    def _page(self, url: str, token: str) -> tuple[bytes, Message]:
        response, _ = self.open(url, token=token)
        content = b""
        with response:
            announced = response.length
            for chunk in self.chunks(response, url):
                content += chunk
                if len(content) > MAX_LISTING:
                    break
        if response.status != 200 or len(content) > MAX_LISTING:
            raise NotFetched(f"{self.named(url)} does not answer with a list of files")
        if announced is not None and len(content) < announced:
            raise NotFetched(f"{self.named(url)}: the connection was cut", again=True)
        return content, response.headers

    def patiently(self, call: Callable[[], T], moved: Callable[[], int] = lambda: 0) -> T:
        """Call until it succeeds, fails for good, or fails too often; wait longer after each failure.

        `moved` returns the bytes that are there: tries that get on are not counted.
        """
        failures, tries, before = 0, 0, moved()
        while True:
            try:
                return call()
            except NotFetched as error:
                now, tries = moved(), tries + 1
                failures, before = 1 if now - before >= MOVED else failures + 1, now
                asked_wait = error.again and error.wait > self.manners.longest_wait
                if not error.again or asked_wait or failures >= self.manners.attempts or tries == MAX_TRIES:
                    # Nothing more is asked of a host that cannot be reached or wants to be left alone.
                    if error.host:
                        self._lost.setdefault(error.host, str(error))
                    if asked_wait:
                        raise NotFetched(f"{error}, and asks to wait {error.wait:,.0f} s") from None
                    raise
                wait = min(self.manners.first_wait * 2 ** (failures - 1), self.manners.longest_wait)
                wait = max(error.wait, wait * random.uniform(0.75, 1))  # noqa: S311
                # Several threads may wait for the same host.
                if wait >= TOLD and (told := f"{error} {failures}") not in self._told:
                    self._told.add(told)
                    self.tell(f"{error}; trying again in {wait:.0f} s")
                self._wait(wait)

    def _wait(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Stopped

    def _request(self, url: str, headers: Mapping[str, str] | None, token: str) -> HTTPResponse:
        parts = _split(url)
        if parts is None:
            raise NotFetched(f"{shown(url)[:200]!r} is not an http or https address")
        host = parts.netloc
        if host in self._lost:
            raise NotFetched(self._lost[host])
        with self._lock:
            start = max(self._next.get(host, 0), time.monotonic())
            self._next[host] = start + self.manners.pause
        self._wait(max(0.0, start - time.monotonic()))
        sent = {"User-Agent": AGENT, "Accept-Encoding": "identity", **(headers or {})}
        sent |= {"Authorization": f"Bearer {token}"} if token else {}
        try:
            request = urllib.request.Request(url, headers=sent)  # noqa: S310
            opened: HTTPResponse = _opener(url).open(request, timeout=self.manners.timeout)
        except (OSError, HTTPException) as error:
            raise broken(url, error) from None
        except ValueError:
            raise NotFetched(f"{shown(url)[:200]!r} is not an http or https address") from None
        return opened

    def _next_url(self, url: str, response: HTTPResponse) -> str:
        """Return the target of a redirect, and close the answer; NotFetched for another scheme."""
        response.close()
        location = quote(response.headers.get("Location", ""), safe=string.punctuation, encoding="latin-1")
        try:
            target = urljoin(url, location)
        except ValueError:
            target = ""
        parts = _split(target)
        if not location or parts is None or (url.startswith("https:") and parts.scheme != "https"):
            where = f"to {shown(target)[:200]!r}" if target and location else "nowhere"
            raise NotFetched(f"{shown(url)} redirects {where}; only https, or http from http, is followed")
        return target


def refusal(url: str, status: int, headers: Message, where: str) -> NotFetched:
    """Return the error for a status that is no success; `where` is the address as it is shown."""
    host, again, code = urlsplit(url).netloc, status in BUSY, headers.get("X-Error-Code", "")
    if status in (401, 403):
        words = f"{host} refuses {where} ({status})"
    elif status in (404, 410):
        words = f"{where} does not exist ({status})"
    else:
        words = f"{host} is busy ({status})" if again else f"{host} answers {status} for {where}"
    wait = _retry_after(headers.get("Retry-After", "")) if again else 0
    whole = host if status in (429, 503) else ""
    return NotFetched(words, again=again, wait=wait, host=whole, status=status, code=code)


def broken(url: str, error: OSError | HTTPException) -> NotFetched:
    """Return the error for a connection that failed."""
    host = urlsplit(url).netloc
    inner = error.reason if isinstance(error, URLError) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return NotFetched(
            f"the certificate of {host} is not trusted ({inner.verify_message}); if your network has a certificate of "
            "its own, name it by the variable SSL_CERT_FILE",
            host=host,
        )
    if isinstance(inner, TimeoutError):
        return NotFetched(f"{host} does not answer", again=True, host=host)
    text = (inner.strerror if isinstance(inner, OSError) else "") or str(inner) or type(inner).__name__
    # A reply that is no HTTP is quoted whole by the library.
    return NotFetched(f"{host} cannot be reached: {printing.line(text)[:MAX_REASON]}", again=True, host=host)


def number(text: str) -> int | None:
    """Return the size that a server writes, None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _split(url: str) -> SplitResult | None:
    """Return the parts of a http or https URL without user and password; None for anything else."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return None
    return parts if fine else None


def origin_of(url: str) -> str:
    """Return the scheme, the host and the port of a URL."""
    parts = _split(url)
    return f"{parts.scheme}://{parts.netloc.lower()}" if parts else ""


def _retry_after(value: str) -> float:
    """Return the seconds of a Retry-After header, which are a number or a date; 0 if unreadable."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Return an opener that knows http and https alone, and follows nothing by itself."""
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.ProxyHandler(None if is_remote(origin_of(url)) else {}))
    opener.add_handler(urllib.request.UnknownHandler())
    opener.add_handler(urllib.request.HTTPHandler())
    opener.add_handler(urllib.request.HTTPSHandler())
    return opener
