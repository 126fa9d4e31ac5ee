"""The record of a declared benchmark, apart from `table_files`: every command reads records, and few read tables."""

from __future__ import annotations

import hashlib

import msgspec

from medvqa.benchmarks import languages


class Revision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a version of a benchmark was made of, by experts who checked its questions (`medvqa read revise`).

    `benchmark`, `version` and `data_sha256` (as in run.json) are those of the questions that they checked. `changed`
    and `removed` count questions, and `changes` is the file that lists them.
    """

    benchmark: str
    version: str
    data_sha256: str
    changed: int = 0
    removed: int = 0
    changes: str = ""

    @property
    def since(self) -> str:
        """The changes in words, such as "5 questions changed, 2 removed since version 1: revised/changes.csv"."""
        changed = "1 question" if self.changed == 1 else f"{self.changed:,} questions"
        listed = f": {self.changes}" if self.changes else ""
        return f"{changed} changed, {self.removed:,} removed since version {self.version}{listed}"


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
    def words(self) -> str:
        """The part of a signature about the words for yes and no, "" for the English ones alone."""
        language = self.language.partition("-")[0]
        label = language if language in languages.WORDS and language != "en" else ""
        if not (self.yes or self.no):
            return label
        content = "\0".join((*self.yes, "", *self.no)).encode(errors="surrogatepass")
        return f"{label or 'en'}+{hashlib.sha256(content).hexdigest()[:8]}"
