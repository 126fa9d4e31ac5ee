"""The addresses of the servers, and the key that goes to them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from medvqa.backend import is_remote
from medvqa.backends.openai.options import OpenAIOptions
from medvqa.items import UsageError

BASE_URL = "https://api.openai.com/v1"

_URL = re.compile(r"(https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)(?:/[A-Za-z0-9._~%/-]*)?")
_PORT = re.compile(r":([0-9]{1,5})$")
MAX_PORT = 65535
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
    made = tuple(_address(url, where) for url in urls)
    named: set[str] = set()
    for address in made:
        if (url := _normal(address)) in named:
            raise UsageError(f"{where} names {address.url} twice: name each server once, and set concurrency higher")
        named.add(url)
    return made


def _address(url: str, where: str) -> ServerAddress:
    match = _URL.fullmatch(url)
    if match is None:
        # Not shown: it may hold a password.
        raise UsageError(
            f"{where} is not like https://host/v1 (no user, password or query: a key is read from the environment)"
        )
    # The part that names the host holds neither key nor password.
    if (port := _PORT.search(match[1])) is not None and not 0 < int(port[1]) <= MAX_PORT:
        raise UsageError(f"{where}: {match[1]} has no port between 1 and {MAX_PORT}")
    if not all(_host(match[1]).rstrip(".").split(".")):
        raise UsageError(f"{where}: {match[1]} names no host: a part between its dots is empty")
    return ServerAddress(url, match[1], is_remote(match[1]))


def _host(origin: str) -> str:
    """Return the host of an origin, in lower case."""
    return _PORT.sub("", origin.partition("://")[2]).lower()


def _normal(address: ServerAddress) -> str:
    """Return a URL in the one form that names its server: lower case but for the path, and with its port."""
    origin = address.origin.lower()
    if _PORT.search(origin) is None:
        origin += ":443" if origin.startswith("https:") else ":80"
    return origin + address.url[len(address.origin) :].rstrip("/")


def origins(servers: Sequence[ServerAddress]) -> tuple[str, ...]:
    """Return the distinct origins of servers, in their order."""
    return tuple(dict.fromkeys(server.origin for server in servers))


def key_name(options: OpenAIOptions) -> str:
    """Return the name of the key's variable, "" for no key."""
    return options.key_env or ("" if options.urls else "OPENAI_API_KEY")


def key(options: OpenAIOptions) -> str:
    """Return the key, "" for none."""
    name = key_name(options)
    return os.environ.get(name, "").strip() if name else ""
