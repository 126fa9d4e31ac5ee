"""The record of a declared benchmark, apart from `table_files`: every command reads records, and few read tables."""

from __future__ import annotations

import hashlib

import msgspec

from medvqa.benchmarks import languages


class RecordedFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The part of run.json about a declared benchmark, from which reports and scores are made without the file.

    `sha256` and `table_sha256` are digests of the two files. `slices` are those that were fixed before the run, with
    the number of values that each had.
    """

    sha256: str = ""
    file: str = ""
    table_sha256: str = ""
    title: str = ""
    language: str = ""
    licence: str = ""
    public: bool = False
    dimensions: list[str] = []
    slices: dict[str, int] = {}
    yes: list[str] = []
    no: list[str] = []

    @property
    def words(self) -> str:
        """The part of a signature about the words for yes and no, "" for the English ones alone."""
        language = self.language.partition("-")[0]
        label = language if language in languages.WORDS and language != "en" else ""
        if not (self.yes or self.no):
            return label
        content = "\0".join((*self.yes, "", *self.no)).encode(errors="surrogatepass")
        return f"{label or 'en'}+{hashlib.sha256(content).hexdigest()[:8]}"
