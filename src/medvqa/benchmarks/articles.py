"""The PubMed Central articles of MediConfusion's images: images of one article may show one patient."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ARTICLES = Path(__file__).parent / "published_rows" / "mediconfusion-articles.csv"
"""228 images of 219 articles, with the names of their files: data/image_dict.json of
https://github.com/AIF4S/MediConfusion at commit 35cc5f97566438e00b86c8151649c220c34c0aad."""


class ReleasedImage(NamedTuple):
    """An image of the release: its number, its path in ROCO, its article, and the file's name in the article."""

    image: str
    roco: str
    article: str
    file: str


@cache
def released() -> tuple[ReleasedImage, ...]:
    """Return the images of the release, by number."""
    with ARTICLES.open(encoding="utf-8", newline="") as file:
        return tuple(ReleasedImage(**row) for row in csv.DictReader(file))


@cache
def articles() -> Mapping[tuple[str, str], str]:
    """Return the article of each image of the release, by its number and its path in ROCO."""
    return {(one.image, one.roco): one.article for one in released()}


def links(image: str, roco: str) -> list[str]:
    """Return the texts that an image shares with others: its name, and its article if it is in the release.

    Number and path must both agree, so that other data with the same numbers are not mistaken for the release.
    """
    article = articles().get((PurePosixPath(image).stem, roco))
    # "~" sorts behind letters: the smallest member names a component, and must be an image.
    return [image] if article is None else [image, f"~{article}"]
