"""Addresses of files of the Hugging Face hub.

huggingface_hub knows the endpoint, the user's token and whether the user is offline. The bytes and the lists come by
`web`, as from any other server: huggingface_hub follows a redirect from https to http, and the address of a list's next
page to any host with the token; it waits without end for a server that stalls, and has no limit for what it sends.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from email.message import Message
from urllib.parse import quote, urlsplit

import msgspec

from medvqa.backend import is_remote
from medvqa.benchmarks.origins import HUB
from medvqa.fetching.parts import FileAddress
from medvqa.fetching.web import NotFetched, Web, number, origin_of, shown
from medvqa.items import Origin, OriginFile

HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MAX_LISTED = 100_000
"""Files of a folder; the largest known one has some hundred."""
_NEXT = re.compile(r'<([^<>]*)>;\s*rel="?next')
INSTALL = "pip install 'pytest-medvqa[data]'"


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub that the user's environment names, and the user's token for it ("" without a login)."""

    endpoint: str = HUB
    token: str = field(default="", repr=False)
    offline: bool = False
    installed: bool = True

    @property
    def host(self) -> str:
        """The endpoint's host."""
        return urlsplit(self.endpoint).netloc

    def page(self, origin: Origin) -> str:
        """Return the address of the page of the origin's data set."""
        return f"{self.endpoint}/datasets/{quote(origin.hub)}"

    def token_for(self, web: Web, url: str) -> str:
        """Return the token if it may be sent: to this hub, not to a mirror, and not in clear."""
        encrypted = url.startswith("https:") or not is_remote(origin_of(url))
        return self.token if encrypted and web.mirrored(url) == url else ""


def from_environment() -> Hub:
    """Return the hub by HF_ENDPOINT, HF_HUB_OFFLINE and the login of `hf auth login`.

    Without huggingface_hub there is no token; public files need none.
    """
    try:
        from huggingface_hub import constants, get_token
    except ImportError:
        return Hub(os.environ.get("HF_ENDPOINT", "").rstrip("/") or HUB, installed=False)
    return Hub(constants.ENDPOINT.rstrip("/"), get_token() or "", constants.is_offline_mode())


def source(web: Web, hub: Hub, origin: Origin, path: str) -> FileAddress:
    """Return the address of a file of the origin's data set; NotFetched if the user is offline.

    The hub names size and digest as it sends the file.
    """
    if hub.offline:
        raise NotFetched(f"not asked for (HF_HUB_OFFLINE is set); from {shown(hub.page(origin))}")
    url = f"{hub.page(origin)}/resolve/{_revision(origin)}/{quote(path)}"
    return FileAddress(url, token=hub.token_for(web, url), described=described)


def described(headers: Message) -> tuple[int | None, str]:
    """Return the size and the digest of a file by the hub's headers, as in huggingface_hub's `get_hf_file_metadata`."""
    tag = (headers.get("X-Linked-Etag") or headers.get("ETag") or "").removeprefix("W/").strip('"')
    digest = f"{'sha256' if len(tag) == 64 else 'git'}:{tag}" if HEX.fullmatch(tag) else ""
    return number(headers.get("X-Linked-Size", "")), digest


def pattern(at: str) -> re.Pattern[str]:
    """Return the expression of a path whose last part may have a *, which stands for any text without /."""
    return re.compile("[^/]+".join(map(re.escape, at.split("*"))))


def listed(web: Web, hub: Hub, origin: Origin, file: OriginFile) -> list[OriginFile]:
    """Return the files of the origin's data set whose paths match `file.at`, with sizes and digests (NotFetched).

    https://huggingface.co/docs/hub/api: the tree of a folder, in pages.
    """
    folder, parent = file.at.rpartition("/")[0], file.to.rpartition("/")[0]
    url = f"{hub.endpoint}/api/datasets/{quote(origin.hub)}/tree/{_revision(origin)}/{quote(folder)}".rstrip("/")

    def following(_: bytes, headers: Message) -> str:
        # The next page differs in its query alone: no other address is followed with the token.
        link = _NEXT.search(headers.get("Link", ""))
        return f"{url}?{urlsplit(link[1]).query}" if link else ""

    known: list[_TreeEntry] = []
    try:
        for content in web.pages(url, following, token=hub.token_for(web, url)):
            known += msgspec.json.decode(content, type=list[_TreeEntry])
            if len(known) > MAX_LISTED:
                raise NotFetched(f"{web.named(url)} lists more than {MAX_LISTED:,} files")
    except NotFetched as error:
        raise explained(error, web, hub, origin, file.at) from None
    except msgspec.MsgspecError:
        raise NotFetched(f"{web.named(url)} does not list the files of {origin.hub} as the hub does") from None
    matching = {one.path: one for one in known if one.type == "file" and pattern(file.at).fullmatch(one.path)}
    if not matching:
        page = web.named(hub.page(origin))
        raise NotFetched(f"{origin.hub} has no files {file.at}; look at {page}")
    return [
        replace(
            file,
            to=f"{parent}/{path.rpartition('/')[2]}",
            at=path,
            size=one.lfs.size if one.lfs else one.size,
            digest=f"sha256:{one.lfs.oid}" if one.lfs and HEX.fullmatch(one.lfs.oid) else "",
        )
        for path, one in sorted(matching.items())
    ]


class _LargeFile(msgspec.Struct):
    oid: str
    size: int


class _TreeEntry(msgspec.Struct):
    type: str
    path: str
    size: int = 0
    lfs: _LargeFile | None = None


def _revision(origin: Origin) -> str:
    return quote(origin.revision or "main", safe="")


def explained(error: NotFetched, web: Web, hub: Hub, origin: Origin, path: str) -> NotFetched:
    """Return the hub's refusal of a file with the way out of it: the terms to accept, and the command to type."""
    page = hub.page(origin)
    if error.status in (401, 403):
        login = "log in (hf auth login)" if hub.installed else f"type {INSTALL}, log in (hf auth login)"
        terms = origin.terms or f"Its owners may ask you to accept terms on {shown(page)}"
        asked = "and try again" if hub.token_for(web, page) else f"{login} and try again"
        return NotFetched(f"the hub gives {origin.hub} only to accounts that its owners let in. {terms}; {asked}")
    if error.status == 404:
        missing = "file" if error.code in ("EntryNotFound", "") else "data set or revision"
        return NotFetched(f"{web.named(page)} has no {path}: this {missing} does not exist")
    return error
