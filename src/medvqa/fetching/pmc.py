"""Files of articles in the open-data store of PubMed Central.

https://pmc.ncbi.nlm.nih.gov/tools/pmcaws/: a folder for each version of an article, such as PMC3284869.1/, with its
files. The version is not always 1, and an article may be missing.
"""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from medvqa.fetching.parts import FileAddress
from medvqa.fetching.web import NotFetched, Web

STORE = "https://pmc-oa-opendata.s3.amazonaws.com"
SCHEME = "pmc:"
"""Start of `OriginFile.at` for a file of an article: pmc:PMC3284869/FILE."""
MAX_LISTING = 2**24
MAX_PAGES = 20
ADDRESS = re.compile(r"pmc:(PMC[0-9]{1,12})/([^/\\]+)")
_ENTRY = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)
_FIELD = re.compile(r"<(Key|ETag|Size)>([^<]*)</\1>")
_NEXT = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the store: its key, its size in bytes (None if unknown) and its MD5 ("" if unknown)."""

    key: str
    size: int | None
    md5: str


class ArticleStore:
    """Looks up files of articles; the list of an article is asked for once."""

    def __init__(self, web: Web) -> None:
        """Ask by `web`."""
        self._web = web
        self._lists: dict[str, list[StoredFile]] = {}
        self._lock = threading.Lock()

    def source(self, at: str) -> FileAddress:
        """Return the address of pmc:ARTICLE/FILE, of the newest version that has the file (NotFetched)."""
        match = ADDRESS.fullmatch(at)
        if match is None:
            raise NotFetched(f"{at!r} is not an article's file")
        article, name = match.groups()
        look = f"look at {page(article)}"
        stored = self._list(article)
        if not stored:
            raise NotFetched(f"{article} is not in the store {STORE}; {look}")
        held: dict[int, StoredFile] = {}
        for file in stored:
            folder, _, rest = file.key.partition("/")
            version = folder.removeprefix(f"{article}.")
            if rest == name and version.isascii() and version.isdigit():
                held[int(version[:9])] = file
        if not held:
            raise NotFetched(f"{article} is in the store {STORE}, without {name}; {look}")
        newest = held[max(held)]
        digests = (f"md5:{newest.md5}",) if newest.md5 else ()
        return FileAddress(f"{STORE}/{quote(newest.key)}", newest.size, digests)

    def _list(self, article: str) -> list[StoredFile]:
        with self._lock:
            if article in self._lists:
                return self._lists[article]
        # The dot keeps PMC32848690 out of the list of PMC3284869.
        query = {"list-type": "2", "prefix": f"{article}."}
        stored: list[StoredFile] = []
        for _ in range(MAX_PAGES):
            content, _ = self._web.page(f"{STORE}/?{urlencode(query)}", MAX_LISTING)
            text = content.decode("utf-8", "replace")
            if "<ListBucketResult" not in text or not text.rstrip().endswith("</ListBucketResult>"):
                raise NotFetched(f"{self._web.mirrored(STORE)} does not list its files as S3 does")
            stored += [_stored(entry[1]) for entry in _ENTRY.finditer(text)]
            following = _NEXT.search(text)
            if following is None:
                break
            query["continuation-token"] = html.unescape(following[1])
        with self._lock:
            self._lists[article] = stored
        return stored


def page(article: str) -> str:
    """Return the address of an article's page."""
    return f"https://pmc.ncbi.nlm.nih.gov/articles/{article}/"


def _stored(entry: str) -> StoredFile:
    fields: Mapping[str, str] = {name: html.unescape(value) for name, value in _FIELD.findall(entry)}
    # The ETag of a file that was stored in one piece is its MD5; that of several pieces ends in their number.
    tag = fields.get("ETag", "").strip('"')
    size = fields.get("Size", "")
    return StoredFile(
        fields.get("Key", ""),
        int(size) if size.isascii() and size.isdigit() and len(size) < 19 else None,
        tag if re.fullmatch(r"[0-9a-f]{32}", tag) else "",
    )
