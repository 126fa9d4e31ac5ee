"""The addresses of the servers."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from medvqa.backend import is_remote
from medvqa.backends.openai.server_options import OpenAIOptions
from medvqa.items import UsageError

BASE_URL = "https://api.openai.com/v1"
MAX_PORT = 65535

_URL = re.compile(
    r"((https?)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?)"  # origin: scheme, host, port
    r"(/[A-Za-z0-9._~%/-]*)?"
)
_BETWEEN = re.compile(r"[,\s]+")
"""What separates URLs in OPENAI_BASE_URL. No URL contains it."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The URL of a server; `origin`: its scheme, host and port; `remote`: the host is another machine."""

    url: str
    origin: str
    remote: bool


def addresses(options: OpenAIOptions) -> tuple[ServerAddress, ...]:
    """Return the addresses of the options, else of OPENAI_BASE_URL, else OpenAI's own (UsageError)."""
    where, urls = "base_url", options.urls
    if not urls:
        where = "OPENAI_BASE_URL"
        urls = tuple(url for url in _BETWEEN.split(os.environ.get(where, "")) if url) or (BASE_URL,)
    named: dict[tuple[str, ...], ServerAddress] = {}
    for url in urls:
        match = _URL.fullmatch(url)
        if match is None:
            # Not shown: it may hold a password.
            raise UsageError(
                f"{where} is not like https://host/v1 (no user, password or query: a key is read from the environment)"
            )
        # The origin holds neither key nor password.
        origin, scheme, host, port, path = match.groups("")
        if port and not 0 < int(port) <= MAX_PORT:
            raise UsageError(f"{where}: {origin} has no port between 1 and {MAX_PORT}")
        if not all(host.rstrip(".").split(".")):
            raise UsageError(f"{where}: {origin} names no host: a part between its dots is empty")
        server = (host.lower(), port.lstrip("0") or {"http": "80", "https": "443"}[scheme], scheme, path.rstrip("/"))
        if server in named:
            raise UsageError(f"{where} names {url} twice: name each server once, and set concurrency higher")
        named[server] = ServerAddress(url, origin, is_remote(origin))
    return tuple(named.values())
