"""Addresses of files of the Hugging Face hub.

huggingface_hub knows the endpoint and the user's token. The bytes come by `parts`, as from any other server: one way to
continue, to check and to use a mirror. The headers of `resolve` are documented in huggingface_hub's
`get_hf_file_metadata`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlsplit

import msgspec

from medvqa.fetching.parts import FileAddress
from medvqa.fetching.web import NotFetched, Web, is_loopback
from medvqa.items import Origin, OriginFile

ENDPOINT = "https://huggingface.co"
HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MAX_LISTING = 2**24
MAX_PAGES = 20
MAX_LISTED = 100_000
"""Files of a folder; the largest known one has some hundred."""
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

    If the data set is gated, NotFetched names the terms to accept and the command to type.
    """
    revision = quote(origin.revision or "main", safe="")
    url = f"{hub.endpoint}/datasets/{quote(origin.hub)}/resolve/{revision}/{quote(path)}"
    token = _token(web, hub, url)
    try:
        headers = web.patiently(lambda: web.look(url, token=token))
    except NotFetched as error:
        raise _explained(error, web, hub, origin, path, token) from None
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


def pattern(at: str) -> re.Pattern[str]:
    """Return the expression of a path whose last part may have a *, which stands for any text without /."""
    return re.compile("[^/]+".join(map(re.escape, at.split("*"))))


def listed(web: Web, hub: Hub, origin: Origin, file: OriginFile) -> tuple[OriginFile, ...]:
    """Return the files of the origin's data set whose paths match `file.at`, with sizes and digests (NotFetched).

    https://huggingface.co/docs/hub/api: the tree of a folder, in pages.
    """
    folder = file.at.rpartition("/")[0]
    revision = quote(origin.revision or "main", safe="")
    url = f"{hub.endpoint}/api/datasets/{quote(origin.hub)}/tree/{revision}" + (f"/{quote(folder)}" if folder else "")
    token = _token(web, hub, url)
    known: list[_TreeEntry] = []
    query = ""
    for _ in range(MAX_PAGES):
        try:
            content, following = web.page(f"{url}{query}", MAX_LISTING, token=token)
            known += msgspec.json.decode(content, type=list[_TreeEntry])
        except NotFetched as error:
            raise _explained(error, web, hub, origin, file.at, token) from None
        except msgspec.MsgspecError:
            raise NotFetched(f"{web.named_host(url)} does not list the files of {origin.hub} as the hub does") from None
        if len(known) > MAX_LISTED:
            raise NotFetched(f"{web.named_host(url)} lists more than {MAX_LISTED:,} files in {folder or origin.hub}")
        if not following:
            break
        # The next page differs in its query alone: no other address is followed with the token.
        query = f"?{urlsplit(following).query}"
    expression = pattern(file.at)
    parent = file.to.rpartition("/")[0]
    matching = sorted((one for one in known if one.type == "file" and expression.fullmatch(one.path)), key=_path_of)
    if not matching:
        page = web.named(f"{hub.endpoint}/datasets/{origin.hub}")
        raise NotFetched(f"{origin.hub} has no files {file.at}; look at {page}")
    return tuple(
        replace(
            file,
            to=f"{parent}/{one.path.rpartition('/')[2]}",
            at=one.path,
            size=one.lfs.size if one.lfs else one.size,
            digest=f"sha256:{one.lfs.oid}" if one.lfs and HEX.fullmatch(one.lfs.oid) else "",
        )
        for one in matching
    )


class _LargeFile(msgspec.Struct):
    oid: str
    size: int


class _TreeEntry(msgspec.Struct):
    type: str
    path: str
    size: int = 0
    lfs: _LargeFile | None = None


def _path_of(entry: _TreeEntry) -> str:
    return entry.path


def _token(web: Web, hub: Hub, url: str) -> str:
    """Return the token if it may be sent: to the hub of the user's environment, not to a mirror, and not in clear."""
    encrypted = url.startswith("https:") or is_loopback(urlsplit(url).hostname or "")
    return hub.token if encrypted and web.mirrored(url) == url else ""


def _explained(error: NotFetched, web: Web, hub: Hub, origin: Origin, path: str, token: str) -> NotFetched:
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
        host = web.named_host(hub.endpoint)
        return NotFetched(f"{origin.hub} has no {path} on {host}: this {missing} does not exist; look at {page}")
    return error
