"""Readings of people as a model: `human:FILE`. The readers of a question are its samples."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path

from medvqa import files
from medvqa.backend import Backend, Readers
from medvqa.items import Answer, AnswerError, DataError, DataWarning, Item, Prompt, ReaderNote, UsageError, of_data
from medvqa.readings.reading_file import ReaderAnswer, ReaderStudy, ReadingColumns
from medvqa.tables import limits

_Key = tuple[str, str, str]
"""Reader, benchmark ("" if the file does not say) and id of the question."""


class Human(Backend):
    """`human:FILE`: the readings of a reader study, or of a table of readings."""

    capabilities = frozenset({"generate"})
    sends_to = None
    looks = False
    recorded = True
    argument_is_path = True
    Options = ReadingColumns
    options: ReadingColumns

    @property
    def title(self) -> str:
        """The file without its folder."""
        return f"human:{Path(self.argument).name}" if self.argument else "human"

    @cached_property
    def _digest(self) -> str:
        where, path = f"--model=human:{self.argument}", Path(self.argument)
        if not self.argument:
            raise UsageError("--model=human: it needs a file of readings: --model=human:FILE")
        if not os.path.isfile(path):
            raise UsageError(f"{where}: {'a folder, and no file' if os.path.isdir(path) else 'no such file'}")
        if path.stat().st_size > limits.MAX_BYTES:
            raise limits.larger(str(path), limits.MAX_BYTES)
        try:
            with files.reading(path) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(f"{where}: cannot be read: {error.strerror}") from None

    @cached_property
    def _content(self) -> tuple[ReaderStudy, tuple[ReaderAnswer, ...]]:
        """The study, and its readings that hold an answer (DataError)."""
        study, readings = _read(Path(self.argument), self._digest, self.options)
        if study.task != "answer":
            raise DataError(f"{self.argument}: opinions of a review, and no readings: type medvqa read revise FILE")
        return study, readings

    @cached_property
    def _readings(self) -> dict[_Key, ReaderAnswer]:
        return {(reading.reader, reading.benchmark, reading.item): reading for reading in self._content[1]}

    @cached_property
    def _readers(self) -> Readers:
        study, readings = self._content
        codes = tuple(sorted({reading.reader for reading in readings}))
        read: dict[str, set[tuple[str, str]]] = {code: set() for code in codes}
        for reading in readings:
            read[reading.reader].add((reading.benchmark, reading.item))
        return Readers(
            codes=codes,
            read=tuple(map(frozenset, read.values())),
            planned=study.readers if study.plan else (),
            assigned=study.assigned,
            margin=study.margin,
            plan=study.plan,
        )

    def check(self) -> None:
        """Raise UsageError or DataError for a file that cannot be used."""
        _ = self._content

    def readers(self) -> Readers:
        """The people of the file (UsageError, DataError)."""
        return self._readers

    def samples(self) -> int:
        """The number of readers."""
        return len(self._readers.codes)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file in hex, with that of the typed columns, if there are some."""
        columns = "" if self.options == ReadingColumns() else hashlib.sha256(repr(self.options).encode()).hexdigest()
        return f"{self._digest}-{columns[:16]}" if columns else self._digest

    def identified(self) -> str:
        """The readings are those of the file."""
        return "the digest of its file"

    def fit(self, items: Iterable[Item]) -> None:
        """Warn (DataWarning) of readings of questions that the benchmarks of the run do not have."""
        known = {(item.benchmark, item.id) for item in items}
        benchmarks, ids = {benchmark for benchmark, _ in known}, {item_id for _, item_id in known}
        unknown = [
            reading.item
            for reading in self._content[1]
            if (reading.item not in ids if not reading.benchmark else (reading.benchmark, reading.item) not in known)
            and (not reading.benchmark or reading.benchmark in benchmarks)
        ]
        if unknown:
            listed = list(map(of_data, dict.fromkeys(unknown)))
            shown = ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
            number = "1 reading" if len(unknown) == 1 else f"{len(unknown):,} readings"
            message = f"{self.argument} has {number} of questions not in the benchmarks of this run: {shown}"
            warnings.warn(message, DataWarning, stacklevel=2)

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Look up the reading of each prompt's question by the reader of its sample."""
        return list(map(self._answer, prompts))

    def _answer(self, prompt: Prompt) -> Answer | AnswerError:
        codes = self._readers.codes
        code = codes[prompt.sample - 1] if 0 < prompt.sample <= len(codes) else ""
        for benchmark in (prompt.benchmark, ""):
            if (reading := self._readings.get((code, benchmark, prompt.item))) is not None:
                noted = ReaderNote(
                    *(reading.score, reading.cannot_tell, reading.confidence, reading.comment, reading.arm)
                )
                return Answer(reading.response, seconds=reading.seconds, noted=noted)
        return AnswerError(f"{self.argument} has no reading of {prompt.item} by reader {prompt.sample}")


@lru_cache(maxsize=2)
def _read(path: Path, digest: str, columns: ReadingColumns) -> tuple[ReaderStudy, tuple[ReaderAnswer, ...]]:
    """The content of a file; each state of a file is read once per process."""
    # Import lazily: other models need no names of columns.
    from medvqa.readings import foreign

    study, lines = foreign.read_any(path, columns)
    answered = [
        line
        for line in lines
        if isinstance(line, ReaderAnswer) and (line.response.strip() or line.cannot_tell or line.score is not None)
    ]
    if study.task == "answer" and not answered:
        raise DataError(f"{path}: no readings that hold an answer")
    return study, tuple(answered)
