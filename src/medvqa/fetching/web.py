"""Requests to the owners' servers: http and https alone, patient, and a few at a time."""

from __future__ import annotations

import email.utils
import ipaddress
import random
import re
import ssl
import string
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException, HTTPResponse
from typing import TypeVar
from urllib.error import URLError
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from medvqa import __version__, printing
from medvqa.items import MedVQAError, UsageError

T = TypeVar("T")
AGENT = f"pytest-medvqa/{__version__} (medvqa fetch)"
MAX_REDIRECTS = 8
MOVED = 2**20
"""Bytes since the last failure after which tries are counted anew: a long download may be cut often."""
MAX_TRIES = 1000
TOLD = 4.0
"""Seconds of a wait that the user is told about."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_USER = re.compile("//[^/@]*@")
SLOWEST = 1000
"""Bytes a second below which a connection counts as broken."""
MAX_REASON = 200
"""Characters of a server's words in a message."""
NEXT = re.compile(r'<([^<>]*)>;\s*rel="?next')
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which another try may succeed."""


class NotFetched(MedVQAError):
    """A file that could not be had; the text is the reason.

    `again`: another try may succeed, after `wait` seconds at the earliest. `host`: all files of this host are affected,
    "" if only this one is. `status`: the server's, 0 without one; `headers` are those of its answer.
    """

    def __init__(
        self,
        reason: str,
        *,
        again: bool = False,
        wait: float = 0,
        host: str = "",
        status: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Take the reason and the attributes."""
        super().__init__(reason)
        self.again = again
        self.wait = wait
        self.host = host
        self.status = status
        self.headers = headers or {}


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
        parts = _split(base)
        if not host or "/" in host or parts is None:
            raise UsageError(
                f"--mirror={shown(value)}: write --mirror=URL in place of the hub, or --mirror=HOST=URL in place of "
                "another host, such as --mirror=https://hf-mirror.com"
            )
        mirrors[host.lower()] = base.rstrip("/")
    return mirrors


def shown(url: str) -> str:
    """Return a URL without its query, which may hold a signature, and without user and password."""
    return _USER.sub("//", url.partition("?")[0].partition("#")[0], count=1)


def is_loopback(host: str) -> bool:
    """Whether a host name or address stands for this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Web:
    """Opens URLs within the limits of `Manners`; `stop` ends every wait."""

    def __init__(
        self,
        manners: Manners,
        mirrors: Mapping[str, str] | None = None,
        *,
        stop: threading.Event | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Use a mirror for each host named in `mirrors`; `tell` takes a line about a long wait."""
        self.manners = manners
        self.stop = stop or threading.Event()
        self._mirrors = mirrors or {}
        self._tell = tell
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}
        self._lost: dict[str, str] = {}
        self._told: set[str] = set()

    def mirrored(self, url: str) -> str:
        """Return the URL at the mirror of its host, if there is one."""
        parts = _split(url)
        base = self._mirrors.get(parts.netloc.lower()) if parts else None
        if parts is None or base is None:
            return url
        return base + parts.path + (f"?{parts.query}" if parts.query else "")

    def named(self, url: str) -> str:
        """Return an address as `shown`, for errors; if a mirror is asked instead, the mirror's and the original."""
        at = self.mirrored(url)
        return shown(url) if at == url else f"{shown(at)} (mirror of {shown(url)})"

    def _where(self, asked: str, url: str) -> str:
        """Return the address that answered: `url`, after redirects from `asked`."""
        return self.named(asked) if url == self.mirrored(asked) else shown(url)

    def named_host(self, url: str) -> str:
        """Return the host of an address, for errors; if a mirror is asked instead, both hosts."""
        at, host = self.mirrored(url), urlsplit(url).netloc
        return host if at == url else f"{urlsplit(at).netloc} (mirror of {host})"

    def open(self, url: str, headers: Mapping[str, str] | None = None, *, token: str = "") -> HTTPResponse:
        """Return the answer to one GET, after redirects; its status is 200, 206 or 416 (NotFetched, Stopped).

        `token` is sent to the URL's own host alone, never to a redirect's.
        """
        asked = url
        url = self.mirrored(url)
        first = _origin(url)
        for _ in range(MAX_REDIRECTS + 1):
            response = self._request("GET", url, headers, token if _origin(url) == first else "")
            if response.status not in REDIRECTS:
                break
            url = self._next_url(url, response)
        else:
            response.close()
            raise NotFetched(f"{self.named(asked)} redirects more than {MAX_REDIRECTS} times")
        if response.status not in (200, 206, 416):
            response.close()
            raise refusal(url, response.status, response.headers, self._where(asked, url))
        return response

    def look(self, url: str, *, token: str = "") -> Message:
        """Return the headers of a HEAD request, following redirects within its host (NotFetched, Stopped).

        A redirect to another host ends the search: its own headers are returned.
        """
        asked = url
        url = self.mirrored(url)
        for _ in range(MAX_REDIRECTS + 1):
            with self._request("HEAD", url, None, token) as response:
                if response.status not in REDIRECTS:
                    break
                target = self._next_url(url, response)
                if _origin(target) != _origin(url):
                    return response.headers
                url = target
        else:
            raise NotFetched(f"{self.named(asked)} redirects more than {MAX_REDIRECTS} times")
        if response.status != 200:
            raise refusal(url, response.status, response.headers, self._where(asked, url))
        return response.headers

    def page(self, url: str, most: int, *, token: str = "") -> tuple[bytes, str]:
        """Return a short document and the address of its next page, "" without one (NotFetched, Stopped).

        It is tried several times.
        """

        def once() -> tuple[bytes, str]:
            with self.open(url, token=token) as response:
                content, started = b"", time.monotonic()
                try:
                    while len(content) <= most and (piece := response.read1(most + 1 - len(content))):
                        content += piece
                        passed = time.monotonic() - started
                        if passed > self.manners.timeout and len(content) < SLOWEST * passed:
                            raise NotFetched(f"{self.named(url)}: the connection is too slow", again=True)
                except (OSError, HTTPException) as error:
                    raise broken(url, error) from None
                cut = bool(response.length)
            if response.status != 200 or len(content) > most:
                raise NotFetched(f"{self.named(url)} does not answer with a list of files")
            if cut:
                raise NotFetched(f"{self.named(url)}: the connection was cut", again=True)
            following = NEXT.search(response.headers.get("Link", ""))
            return content, following[1] if following else ""

        return self.patiently(once)

    def patiently(self, call: Callable[[], T], moved: Callable[[], int] = lambda: 0) -> T:
        """Call until it succeeds, fails for good, or fails too often; wait longer after each failure.

        `moved` returns the bytes that are there: tries that get on are not counted.
        """
        failures = 0
        before = moved()
        for tries in range(MAX_TRIES):
            if self.stop.is_set():
                raise Stopped
            try:
                return call()
            except NotFetched as error:
                now = moved()
                failures = 1 if now - before >= MOVED else failures + 1
                before = now
                if not error.again:
                    self._lose(error)
                    raise
                if error.wait > self.manners.longest_wait:
                    self._lose(error)
                    raise NotFetched(f"{error}, and asks to wait {error.wait:,.0f} s", status=error.status) from None
                if failures >= self.manners.attempts or tries == MAX_TRIES - 1:
                    self._lose(error)
                    raise
                wait = min(self.manners.first_wait * 2 ** (failures - 1), self.manners.longest_wait)
                wait = max(error.wait, wait * random.uniform(0.75, 1))  # noqa: S311
                if wait >= TOLD and self._is_new(f"{error} {failures}"):
                    self._tell(f"{error}; trying again in {wait:.0f} s")
                self._wait(wait)
        raise AssertionError("the last try returns or raises")

    def _is_new(self, text: str) -> bool:
        """Return whether no other thread has told this: all wait for the same host."""
        with self._lock:
            new = text not in self._told
            self._told.add(text)
        return new

    def _lose(self, error: NotFetched) -> None:
        """Ask nothing more of a host that cannot be reached or wants to be left alone."""
        if error.host:
            with self._lock:
                self._lost.setdefault(error.host, str(error))

    def _wait(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Stopped

    def _request(self, method: str, url: str, headers: Mapping[str, str] | None, token: str) -> HTTPResponse:
        parts = _split(url)
        if parts is None:
            raise NotFetched(f"{shown(url)[:200]!r} is not an http or https address")
        host = parts.netloc
        with self._lock:
            if host in self._lost:
                raise NotFetched(self._lost[host])
            start = max(self._next.get(host, 0), time.monotonic())
            self._next[host] = start + self.manners.pause
        self._wait(max(0.0, start - time.monotonic()))
        request = urllib.request.Request(url, method=method, headers={"User-Agent": AGENT, **(headers or {})})  # noqa: S310
        request.add_header("Accept-Encoding", "identity")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            opened: HTTPResponse = _opener(parts.hostname or "").open(request, timeout=self.manners.timeout)
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
    host = urlsplit(url).netloc
    plain = {name.lower(): value for name, value in headers.items()}
    if status in (401, 403):
        return NotFetched(f"{host} refuses {where} ({status})", status=status, headers=plain)
    if status in (404, 410):
        return NotFetched(f"{where} does not exist ({status})", status=status, headers=plain)
    if status in BUSY:
        wait = _retry_after(headers.get("Retry-After", ""))
        whole = host if status in (429, 503) else ""
        return NotFetched(f"{host} is busy ({status})", again=True, wait=wait, host=whole, status=status, headers=plain)
    return NotFetched(f"{host} answers {status} for {where}", status=status, headers=plain)


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


def _split(url: str) -> SplitResult | None:
    """Return the parts of a http or https URL without user and password; None for anything else."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return None
    return parts if fine else None


def _origin(url: str) -> tuple[str, str]:
    parts = _split(url)
    return (parts.scheme, parts.netloc.lower()) if parts else ("", "")


def _retry_after(value: str) -> float:
    """Return the seconds of a Retry-After header, which are a number or a date; 0 if unreadable."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _opener(host: str) -> urllib.request.OpenerDirector:
    """Return an opener that knows http and https alone, and follows nothing by itself."""
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.ProxyHandler({} if is_loopback(host) else None))
    opener.add_handler(urllib.request.UnknownHandler())
    opener.add_handler(urllib.request.HTTPHandler())
    opener.add_handler(urllib.request.HTTPSHandler())
    return opener
