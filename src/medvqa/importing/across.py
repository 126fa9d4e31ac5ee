"""Mistakes that show in several rows: ids, pairs, patients, duplicates, leaked answers."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from medvqa.importing.cases import TableCase
from medvqa.importing.mistakes import Mistake, row_list
from medvqa.tables import people

K = TypeVar("K", bound=Hashable)

_ABOUT_IMAGE = re.compile(
    r"\b(?:image|picture|scan|photo|figure|x-ray|radiograph|shown|bild|aufnahme|abbildung|gezeigt|dargestellt)\b"
    r"|图|影像|片",
    re.I,
)
LEAST_LEAKED = 4
"""Letters of an answer that is looked for in questions and file names: shorter ones occur by chance."""


def plain(text: str) -> str:
    """Return a text for comparison: lower case, one form of width, words joined by blanks."""
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def checked(cases: Sequence[TableCase], names: Mapping[str, str]) -> Iterator[Mistake]:
    """Yield the mistakes that several rows show together; `names` has the column of each role, "" for none."""
    yield from _ids(cases, names["id"])
    yield from _pairs(cases, names)
    yield from _patients(cases, names)
    yield from _duplicates(cases, names)
    yield from _leaks(cases, names)
    yield from _without_image(cases, names["image"])
    yield from _files(cases, names["image"])


def slices(cases: Sequence[TableCase], columns: Iterable[str]) -> Iterator[Mistake]:
    """Yield a warning for each column of slices that hold fewer than two questions on average."""
    for column in columns:
        values = {value for case in cases for value in case.tags.get(column, ())}
        if len(values) > 1 and 2 * len(values) > len(cases):
            what = f"{len(values):,} different values for {len(cases):,} questions: slices of so few show nothing"
            do = f'write ranges into [slices] of the benchmark file, such as {{ column = "{column}", cuts = [18, 65] }}'
            yield Mistake("slice_values", None, column, what, do, refused=False)


def _by(values: Iterable[tuple[K, TableCase]]) -> dict[K, list[TableCase]]:
    found: defaultdict[K, list[TableCase]] = defaultdict(list)
    for value, case in values:
        found[value].append(case)
    return found


def _rows(cases: Iterable[TableCase]) -> str:
    return row_list([case.row for case in cases])


def _ids(cases: Sequence[TableCase], column: str) -> Iterator[Mistake]:
    for same in _by((case.id, case) for case in cases if case.id).values():
        for case in same[1:]:
            what = f"the id of row {same[0].row}"
            yield Mistake("duplicate_id", case.row, column, what, "write an id that no other row has")


def _pairs(cases: Sequence[TableCase], names: Mapping[str, str]) -> Iterator[Mistake]:
    column = names["pair"]
    for pair in _by((case.pair, case) for case in cases if case.pair).values():
        if len(pair) != 2:
            count = f"{len(pair)} question{'s' * (len(pair) > 1)}"
            what = f"a pair of {count} (rows {_rows(pair)})" if len(pair) > 1 else f"a pair of {count}"
            yield Mistake("pair_size", pair[0].row, column, what, "a pair has 2: correct the name of the pair")
        elif pair[0].answers and _key(pair[0]) == _key(pair[1]):
            what = f"a pair with equal answers (rows {_rows(pair)})"
            do = "a confusing pair has the same question and other answers: correct one, or delete the pair's name"
            yield Mistake("pair_equal", pair[0].row, column, what, do, refused=False)


def _key(case: TableCase) -> tuple[str, ...]:
    """The right answers as texts: a letter may stand for another text in each question."""
    return tuple(sorted(plain(case.options.get(answer, answer)) for answer in case.answers))


def _patients(cases: Sequence[TableCase], names: Mapping[str, str]) -> Iterator[Mistake]:
    for role in ("patient", "case", "cluster"):
        spelled = _by(
            ((re.sub(r"[\W_]+", "", plain(case.links[role])) or case.links[role]), case)
            for case in cases
            if role in case.links
        )
        for same in spelled.values():
            spellings = {case.links[role] for case in same}
            if len(spellings) > 1:
                what = f"one {role} in {len(spellings)} spellings (rows {_rows(same)}): letter case, blanks or signs"
                do = f"write the same spelling in all rows: each spelling counts as another {role}"
                yield Mistake("patient_spelling", same[0].row, names[role], what, do, refused=False)


def _duplicates(cases: Sequence[TableCase], names: Mapping[str, str]) -> Iterator[Mistake]:
    asked = _by(
        ((plain(case.question), case.files, tuple(image.key for image in case.images)), case)
        for case in cases
        if case.question
    )
    for same in asked.values():
        equal = _by(((tuple(sorted(map(plain, case.options.values()))), _key(case)), case) for case in same)
        for group in equal.values():
            for case in group[1:]:
                what = f"the same question, image and answer as row {group[0].row}"
                yield Mistake("duplicate_row", case.row, "", what, "delete one of them", refused=False)
        keys = {key for _, key in equal if key}
        if len(keys) > 1 and (same[0].files or same[0].images or len(same) == 2):
            by_options = _by((options, group[0]) for (options, key), group in equal.items() if key)
            if any(len(group) > 1 for group in by_options.values()):
                first = [group[0] for group in equal.values()]
                what = f"the same question and image with other answers (rows {_rows(first)})"
                yield Mistake("conflict", same[0].row, names["answer"], what, "correct one of them", refused=False)


def _leaks(cases: Sequence[TableCase], names: Mapping[str, str]) -> Iterator[Mistake]:
    for case in cases:
        right = [plain(case.options.get(answer, answer)) for answer in case.answers]
        wrong = [plain(text) for letter, text in case.options.items() if letter not in case.answers]
        question = f" {plain(case.question)} "
        for text in right:
            if len(text) < LEAST_LEAKED and text.isascii():
                continue
            if len(text) < 2:
                continue
            # Names of options within the question ("liver or spleen?") leak nothing if all of them occur.
            if _holds(question, text) and case.options and not any(_holds(question, other) for other in wrong if other):
                what = "the question holds the right answer, and no other option"
                yield Mistake("leak_question", case.row, names["question"], what, "reword it", refused=False)
            for file in case.files:
                stem = f" {plain(PurePosixPath(file.partition('?')[0]).stem.replace('_', ' '))} "
                if _holds(stem, text) and not any(_holds(stem, other) for other in wrong if other):
                    what = "the name of the image file holds the right answer"
                    do = "rename the file: error messages may show its name"
                    yield Mistake("leak_file", case.row, names["image"], what, do, refused=False)


def _holds(text: str, part: str) -> bool:
    """Whether a text holds another by whole words; Chinese has no blanks between words."""
    return f" {part} " in text if part.isascii() else part in text


def _without_image(cases: Sequence[TableCase], column: str) -> Iterator[Mistake]:
    without = [case for case in cases if case.question and not case.named]
    if not column or not without or 2 * len(without) > len(cases):
        return
    for case in without:
        about = " although its text is about one" if _ABOUT_IMAGE.search(case.question) else ""
        what = f"no image{about}; most other questions name one"
        yield Mistake("no_image", case.row, column, what, "name it, if it needs one", refused=False)


def _files(cases: Sequence[TableCase], column: str) -> Iterator[Mistake]:
    for case in cases:
        for doubt in sorted({people.suspected(file) for file in case.files} - {""}):
            what = f"the name of the image file may hold {doubt} of a patient"
            do = "rename the file: error messages may show its name"
            yield Mistake("private_file", case.row, column, what, do, refused=False)


def named(
    cases: Sequence[TableCase], names: Mapping[str, str], people_of: people.Names, options: str, tags: str
) -> Iterator[Mistake]:
    """Yield a warning for each text that holds a name of `people_of`, or speaks of a person by a title.

    `names` has the column of each role, `options` and `tags` the first ones of these.
    """
    do = "write it without the name: models get it, and runs keep it"
    for case in cases:
        texts = (
            ("question", names["question"], [case.question], False),
            ("option", options, list(case.options.values()), False),
            ("answer", names["answer"], list(case.answers), False),
            ("tag", tags, [text for values in case.tags.values() for text in values], False),
            ("id", names["id"], [case.id], True),
            ("pair", names["pair"], [case.pair], True),
            ("path of the image", names["image"], list(case.files), True),
        )
        for what, column, listed, within in texts:
            if any(people_of.count(text, within=within) for text in listed):
                told = f"the {what} holds a name that stands in a column of names"
                yield Mistake("private_name", case.row, column, told, do, refused=False)
            elif not within and any(map(people.addressed, listed)):
                told = f"the {what} may hold the name of a person, after a title such as Frau or Mr"
                yield Mistake("private_name", case.row, column, told, do, refused=False)


def spread(values: Iterable[str]) -> list[tuple[str, int]]:
    """Return values with their counts, the most frequent first."""
    return sorted(Counter(values).items(), key=lambda entry: (-entry[1], entry[0]))
