"""Check whether a server is reachable, by one connection that sends nothing."""

from __future__ import annotations

import os
import socket
import threading
import urllib.request
from collections.abc import Iterable
from urllib.parse import urlsplit

SECONDS = 2.0
"""Seconds after which a connection counts as slow."""


def refusal(url: str, *, seconds: float = SECONDS) -> OSError | None:
    """Return the error of a connection to a URL's server, None if it opens; TimeoutError if it is slow.

    Sends nothing. A separate thread also looks up the name, because name look-up has no time-out.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    failed: list[OSError | None] = []

    def connect() -> None:
        try:
            socket.create_connection((parts.hostname or "", port), seconds).close()
            failed.append(None)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=connect, daemon=True, name="medvqa-preflight")
    thread.start()
    thread.join(2 * seconds)
    return failed[0] if failed else TimeoutError("timed out")


def proxy(url: str) -> str | None:
    """Return the origin of the environment's proxy for a URL, without user and password; None if there is none.

    Behind a proxy, a direct connection proves nothing.
    """
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named or urllib.request.proxy_bypass(parts.netloc):
        return None
    scheme, _, rest = named.rpartition("://")
    return f"{scheme or 'http'}://{rest.rpartition('@')[2].split('/')[0]}"


def reason(error: OSError) -> str:
    """The message of a network error, without its number."""
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error))


def routes(origins: Iterable[str]) -> str:
    """Name origins, each with the proxy of the environment through which requests for it go."""
    named = ((origin, proxy(origin)) for origin in origins)
    return " and ".join(f"{origin} (through the proxy {via})" if via else origin for origin, via in named)
