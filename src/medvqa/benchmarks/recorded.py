"""The record of a declared benchmark, apart from `table_files`: every command reads records, and few read tables."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

import msgspec

from medvqa import printing
from medvqa.benchmarks import languages

CHANGES = "changes.csv"
"""The file beside that of a revised benchmark which lists its changes."""


class Revision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What experts made a version of a benchmark of (`medvqa read revise`).

    `benchmark`, `version` and `data_sha256` (as in run.json) are those of the questions that they checked; `changes`
    counts what they changed, in words.
    """

    benchmark: str
    version: str
    data_sha256: str
    changes: str = ""


class RecordedFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The part of run.json about a declared benchmark, from which reports and scores are made without the file.

    `sha256` and `table_sha256` are digests of the two files. `slices` are those that were fixed before the run, with
    the number of values that each had. `version`: "" unless the file names one; `revision`: how it was made of another.
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
    version: str = ""
    revision: Revision | None = None

    @property
    def since(self) -> str:
        """The changes of a revised version: "5 questions changed, 2 removed since version 1: revised/changes.csv"."""
        if self.revision is None:
            return ""
        listed = f": {PurePosixPath(self.file).parent / CHANGES}" if self.file else ""
        return printing.line(f"{self.revision.changes} since version {self.revision.version}{listed}")

    @property
    def words(self) -> str:
        """The part of a signature about the words for yes and no, "" for the English ones alone."""
        language = self.language.partition("-")[0]
        label = language if language in languages.WORDS and language != "en" else ""
        if not (self.yes or self.no):
            return label
        content = "\0".join((*self.yes, "", *self.no)).encode(errors="surrogatepass")
        return f"{label or 'en'}+{hashlib.sha256(content).hexdigest()[:8]}"
