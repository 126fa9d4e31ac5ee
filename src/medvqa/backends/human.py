"""Readings of people as a model: `human:FILE`. The readers of a question are its samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from medvqa import printing
from medvqa.backend import Readers
from medvqa.backends.answer_file import AnswerFile
from medvqa.items import Answer, AnswerError, DataError, DataWarning, Item, Prompt, ReaderNote, of_data
from medvqa.readings.reading_file import ReaderAnswer, ReaderStudy, ReadingColumns

_Key = tuple[str, str, str]


class Human(AnswerFile):
    """`human:FILE`: the readings of a reader study, or of a table of readings."""

    capabilities = frozenset({"generate"})
    Options = ReadingColumns
    options: ReadingColumns

    def _read(self) -> tuple[Readers, dict[_Key, ReaderAnswer]]:
        """The people of the file, and their readings by reader, benchmark ("" if the file does not say) and id."""
        return _content(self._path, self._digest, self.options)

    def check(self) -> None:
        """Raise UsageError or DataError for a file that cannot be used."""
        self.readers()

    def readers(self) -> Readers:
        """The people of the file (UsageError, DataError)."""
        return self._read()[0]

    def samples(self) -> int:
        """The number of readers."""
        return len(self.readers().codes)

    def fit(self, items: Iterable[Item]) -> None:
        """Warn (DataWarning) of readings of questions that the benchmarks of the run do not have, and of codes."""
        items, readings = tuple(items), self._read()[1]
        known = {key for item in items for key in ((item.benchmark, item.id), ("", item.id))}
        of_run = {benchmark for benchmark, _ in known}
        unknown = [item for _, name, item in readings if (name, item) not in known and name in of_run]
        if unknown:
            number = "1 reading" if len(unknown) == 1 else f"{len(unknown):,} readings"
            shown = printing.some(list(map(of_data, dict.fromkeys(unknown))), 5)
            message = f"{self.argument} has {number} of questions not in the benchmarks of this run: {shown}"
            warnings.warn(message, DataWarning, stacklevel=2)
        options = {item.id: {*item.options, *item.options.values()} for item in items if item.options}
        told = {reading.response for reading in readings.values() if reading.item in options} - {""}
        if told and all(map(str.isdecimal, told)) and not told & set().union(*options.values()):
            message = f"{self.argument}: responses are numbers, and no options: export labels, not codes"
            warnings.warn(message, DataWarning, stacklevel=2)

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Look up the reading of each prompt's question by the reader of its sample."""
        return list(map(self._answer, prompts))

    def _answer(self, prompt: Prompt) -> Answer | AnswerError:
        people, readings = self._read()
        code = next(iter(people.codes[prompt.sample - 1 : prompt.sample]), "")
        for benchmark in (prompt.benchmark, ""):
            if (found := readings.get((code, benchmark, prompt.item))) is not None:
                noted = ReaderNote(found.score, found.cannot_tell, found.confidence, found.comment, found.arm)
                return Answer(found.response, seconds=found.seconds, noted=noted)
        return AnswerError(f"{self.argument} has no reading of {prompt.item} by reader {prompt.sample}")


@lru_cache(maxsize=2)
def _content(path: Path, digest: str, columns: ReadingColumns) -> tuple[Readers, dict[_Key, ReaderAnswer]]:
    """What `Human` reads; each state of a file is read once per process (DataError)."""
    # Import lazily: other models need no names of columns.
    from medvqa.readings import foreign

    study, lines = foreign.read_any(path, columns)
    if study.task != "answer":
        raise DataError(f"{path}: opinions of a review, and no readings: type medvqa read revise FILE")
    if study.reader:
        raise DataError(
            f"{path}: the export of a reader's page, with codes in place of ids: type medvqa read import FILE... "
            "--study FOLDER"
        )
    readings = {
        (line.reader, line.benchmark, line.item): line
        for line in lines
        if isinstance(line, ReaderAnswer) and (line.response.strip() or line.cannot_tell or line.score is not None)
    }
    if not readings:
        raise DataError(f"{path}: no readings that hold an answer")
    read: dict[str, set[tuple[str, str]]] = {}
    for code, benchmark, item in readings:
        read.setdefault(code, set()).add((benchmark, item))
    codes, planned = tuple(sorted(read)), study if study.plan else ReaderStudy()
    people = Readers(
        codes=codes,
        read=tuple(frozenset(read[code]) for code in codes),
        planned=planned.readers,
        assigned=planned.assigned,
        margin=planned.margin,
        plan=planned.plan,
    )
    return people, readings
