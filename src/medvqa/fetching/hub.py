"""Addresses of files of the Hugging Face hub.

huggingface_hub knows the endpoint and the user's token. The bytes come by `parts`, as from any other server: one way to
continue, to check and to use a mirror. The headers of `resolve` are documented in huggingface_hub's
`get_hf_file_metadata`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from medvqa.fetching.parts import FileAddress
from medvqa.fetching.web import NotFetched, Web, is_loopback
from medvqa.items import Origin

ENDPOINT = "https://huggingface.co"
HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
INSTALL = "pip install 'pytest-medvqa[data]'"


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub that the user's environment names, and the user's token for it ("" without a login)."""

    endpoint: str = ENDPOINT
    token: str = field(default="", repr=False)
    offline: bool = False
    installed: bool = True

    @property
    def host(self) -> str:
        """The endpoint's host."""
        return urlsplit(self.endpoint).netloc


def from_environment() -> Hub:
    """Return the hub by HF_ENDPOINT, HF_HUB_OFFLINE and the login of `hf auth login`.

    Without huggingface_hub there is no token; public files need none.
    """
    try:
        from huggingface_hub import constants, get_token
    except ImportError:
        return Hub(os.environ.get("HF_ENDPOINT", "").rstrip("/") or ENDPOINT, installed=False)
    return Hub(constants.ENDPOINT.rstrip("/"), get_token() or "", constants.is_offline_mode())


def source(web: Web, hub: Hub, origin: Origin, path: str) -> FileAddress:
    """Return the address of a file of the origin's data set, with the size and the digest that the hub names.

    NotFetched says what to accept or to type if the data set is gated.
    """
    revision = quote(origin.revision or "main", safe="")
    url = f"{hub.endpoint}/datasets/{quote(origin.hub)}/resolve/{revision}/{quote(path)}"
    # The token is the user's, for the hub that the user's environment names: no mirror gets it, and nobody in clear.
    encrypted = url.startswith("https:") or is_loopback(urlsplit(url).hostname or "")
    token = hub.token if encrypted and web.mirrored(url) == url else ""
    try:
        headers = web.patiently(lambda: web.look(url, token=token))
    except NotFetched as error:
        raise _explained(error, hub, origin, path, token) from None
    tag = headers.get("X-Linked-Etag") or headers.get("ETag") or ""
    tag = tag.removeprefix("W/").strip('"')
    digest = f"{'sha256' if len(tag) == 64 else 'git'}:{tag}" if HEX.fullmatch(tag) else ""
    size = headers.get("X-Linked-Size") or ("" if headers.get("Location") else headers.get("Content-Length")) or ""
    return FileAddress(
        url,
        int(size) if size.isascii() and size.isdigit() and len(size) < 19 else None,
        (digest,) if digest else (),
        token,
    )


def _explained(error: NotFetched, hub: Hub, origin: Origin, path: str, token: str) -> NotFetched:
    """Return the error with the way out of it."""
    code = error.headers.get("x-error-code", "")
    page = f"{hub.endpoint}/datasets/{origin.hub}"
    if error.status in (401, 403):
        login = "log in (hf auth login)" if hub.installed else f"type {INSTALL}, log in (hf auth login)"
        terms = origin.terms or f"Its owners may ask you to accept terms on {page}"
        asked = "and try again" if token else f"{login} and try again"
        return NotFetched(f"the hub gives {origin.hub} only to accounts that its owners let in. {terms}; {asked}")
    if error.status == 404:
        missing = "file" if code in ("EntryNotFound", "") else "data set or revision"
        return NotFetched(f"{origin.hub} has no {path} on {hub.host}: this {missing} does not exist; look at {page}")
    return error
