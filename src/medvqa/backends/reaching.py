"""Whether a server can be reached, told by one connection that sends nothing."""

from __future__ import annotations

import os
import socket
import threading
import urllib.request
from collections.abc import Iterable
from urllib.parse import urlsplit

SECONDS = 2.0
"""How long a connection may take before it is known to be slow."""


def refusal(url: str, *, seconds: float = SECONDS) -> OSError | None:
    """Return why no connection to the server of a URL can be opened, None if it can; TimeoutError if it is slow.

    Nothing is sent. The name is looked up too, in a thread of its own, since looking up has no time-out.
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


def proxied(url: str) -> bool:
    """Whether requests for a URL go through a proxy of the environment: a connection of our own then tells nothing."""
    return proxy(url) is not None


def proxy(url: str) -> str | None:
    """Return the origin of the environment's proxy for a URL, without user and password; None if there is none."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named or urllib.request.proxy_bypass(parts.netloc):
        return None
    scheme, _, rest = named.rpartition("://")
    return f"{scheme or 'http'}://{rest.rpartition('@')[2].split('/')[0]}"


def reason(error: OSError) -> str:
    """The words of an error of the network, without its number."""
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error))


def routes(origins: Iterable[str]) -> str:
    """Name origins, each with the proxy of the environment through which requests for it go."""
    named = ((origin, proxy(origin)) for origin in origins)
    return " and ".join(f"{origin} (through the proxy {via})" if via else origin for origin, via in named)
