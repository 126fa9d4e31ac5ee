"""Files of articles in the open-data store of PubMed Central.

https://pmc.ncbi.nlm.nih.gov/tools/pmcaws/: a folder for each version of an article, such as PMC3284869.1/, with its
files. The version is not always 1, and an article may be missing.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import quote, urlencode

from medvqa.fetching.parts import FileAddress
from medvqa.fetching.web import NotFetched, Web, number

STORE = "https://pmc-oa-opendata.s3.amazonaws.com"
SCHEME = "pmc:"
"""Start of `OriginFile.at` for a file of an article: pmc:PMC3284869/FILE."""
ADDRESS = re.compile(r"pmc:(PMC[0-9]{1,12})/([^/\\]+)")
_ENTRY = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)
_FIELD = re.compile(r"<(Key|ETag|Size)>([^<]*)</\1>")
_NEXT = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")


@dataclass(frozen=True, slots=True)
class ArticleStore:
    """Looks up files of articles by `web`; the list of an article is asked for once."""

    web: Web
    lists: dict[str, dict[str, FileAddress]] = field(default_factory=dict)

    def source(self, at: str) -> FileAddress:
        """Return the address of pmc:ARTICLE/FILE, of the newest version that has the file (NotFetched)."""
        match = ADDRESS.fullmatch(at)
        if match is None:
            raise NotFetched(f"{at!r} is not an article's file")
        article, name = match.groups()
        look = f"look at https://pmc.ncbi.nlm.nih.gov/articles/{article}/"
        if article not in self.lists:
            self.lists[article] = self._listed(article)
        if not (stored := self.lists[article]):
            raise NotFetched(f"{article} is not in the store {STORE}; {look}")
        key = re.compile(rf"{article}\.([0-9]{{1,9}})/{re.escape(name)}")
        held = {int(match[1]): file for path, file in stored.items() if (match := key.fullmatch(path))}
        if not held:
            raise NotFetched(f"{article} is in the store {STORE}, without {name}; {look}")
        return held[max(held)]

    def _listed(self, article: str) -> dict[str, FileAddress]:
        """Return the files of an article by their keys (NotFetched)."""
        # The dot keeps PMC32848690 out of the list of PMC3284869.
        first = f"{STORE}/?{urlencode({'list-type': '2', 'prefix': f'{article}.'})}"

        def following(content: bytes, _: Message) -> str:
            token = _NEXT.search(content.decode("utf-8", "replace"))
            return f"{first}&{urlencode({'continuation-token': html.unescape(token[1])})}" if token else ""

        stored: dict[str, FileAddress] = {}
        for content in self.web.pages(first, following):
            text = content.decode("utf-8", "replace")
            if "<ListBucketResult" not in text or not text.rstrip().endswith("</ListBucketResult>"):
                raise NotFetched(f"{self.web.mirrored(STORE)} does not list its files as S3 does")
            for entry in _ENTRY.finditer(text):
                about = {name: html.unescape(value) for name, value in _FIELD.findall(entry[1])}
                key, tag = about.get("Key", ""), about.get("ETag", "").strip('"')
                # The ETag of a file stored in one piece is its MD5; that of several pieces ends in their number.
                digests = (f"md5:{tag}",) if re.fullmatch(r"[0-9a-f]{32}", tag) else ()
                stored[key] = FileAddress(f"{STORE}/{quote(key)}", number(about.get("Size", "")), digests)
        return stored
