"""The PubMed Central articles of MediConfusion's images: images of one article may show one patient."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from medvqa.data import tables

ARTICLES = Path(__file__).parent / "mediconfusion" / "articles.csv"
"""228 images of 219 articles: data/image_dict.json of https://github.com/AIF4S/MediConfusion at commit
35cc5f97566438e00b86c8151649c220c34c0aad."""


@cache
def articles() -> Mapping[tuple[str, str], str]:
    """Return the article of each image of the release, by its number and its path in ROCO."""
    return {(row.text("image"), row.text("roco")): row.text("article") for row in tables.read(ARTICLES)}


def links(image: str, roco: str) -> list[str]:
    """Return the texts that an image shares with others: its name, and its article if it is in the release.

    Number and path must both agree, so that other data with the same numbers are not mistaken for the release.
    """
    article = articles().get((PurePosixPath(image).stem, roco))
    # "~" sorts behind letters: the smallest member names a component, and must be an image.
    return [image] if article is None else [image, f"~{article}"]
