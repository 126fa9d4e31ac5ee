"""Warnings that several rows show together: pairs, patients, duplicates, leaked answers, names of people."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from medvqa.benchmarks.table import TableQuestion
from medvqa.printing import folded
from medvqa.tables import is_blank, people
from medvqa.tables.problems import TableProblem, row_list

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
    return " ".join(re.findall(r"\w+", folded(text)))


def checked(cases: Sequence[TableQuestion], names: Mapping[str, str], images: Sequence[str]) -> Iterator[TableProblem]:
    """Yield warnings that several rows show together, and those about texts.

    `names` has the column of each role, "" for none, and `images` all columns of images.
    """
    yield from _pairs(cases, names["pair"])
    yield from _patients(cases, names)
    yield from _duplicates(cases, names)
    yield from _leaks(cases, names)
    yield from _without_image(cases, images)
    yield from _files(cases, names["image"])


def slices(cases: Sequence[TableQuestion], columns: Mapping[str, str]) -> Iterator[TableProblem]:
    """Yield a warning for each slice of fewer than two questions on average; `columns` has the column of each slice."""
    for name, column in columns.items():
        values = {value for case in cases for value in case.item.tags.get(name, ())}
        if len(values) > 1 and 2 * len(values) > len(cases):
            what = f"{len(values):,} different values for {len(cases):,} questions: slices of so few show nothing"
            do = f'write ranges into [slices] of the benchmark file, such as {{ column = "{column}", cuts = [18, 65] }}'
            yield TableProblem("slice_values", None, column, what, do, refused=False)


def files_of(case: TableQuestion) -> list[str]:
    """Return the paths of a question's images."""
    return [image.name for image in case.item.images if image.cell is None]


def _by(values: Iterable[tuple[K, TableQuestion]]) -> dict[K, list[TableQuestion]]:
    found: defaultdict[K, list[TableQuestion]] = defaultdict(list)
    for value, case in values:
        found[value].append(case)
    return found


def _rows(cases: Iterable[TableQuestion]) -> str:
    return row_list([case.number for case in cases])


def _pairs(cases: Sequence[TableQuestion], column: str) -> Iterator[TableProblem]:
    for pair in _by((case.item.pair_id, case) for case in cases if case.item.pair_id is not None).values():
        if len(pair) == 2 and pair[0].item.answers and _key(pair[0]) == _key(pair[1]):
            what = f"a pair with equal answers (rows {_rows(pair)})"
            do = "a confusing pair has the same question and other answers: correct one, or delete the pair's name"
            yield pair[0].warning("pair_equal", column, what, do)


def _key(case: TableQuestion) -> tuple[str, ...]:
    """The right answers as texts: a letter may stand for another text in each question."""
    return tuple(sorted(plain(case.item.options.get(answer, answer)) for answer in case.item.answers))


def _patients(cases: Sequence[TableQuestion], names: Mapping[str, str]) -> Iterator[TableProblem]:
    for role in ("patient", "case", "cluster"):
        spelled = _by(
            (re.sub(r"[\W_]+", "", plain(case.item.extra[role])) or case.item.extra[role], case)
            for case in cases
            if role in case.item.extra
        )
        for same in spelled.values():
            spellings = {case.item.extra[role] for case in same}
            # Names, which have no digit, are compared without differences of spelling.
            if len(spellings) > 1 and (role != "patient" or any(map(str.isdigit, "".join(spellings)))):
                what = f"one {role} in {len(spellings)} spellings (rows {_rows(same)}): letter case, blanks or signs"
                do = f"write the same spelling in all rows: each spelling counts as another {role}"
                yield same[0].warning("patient_spelling", names[role], what, do)


def _duplicates(cases: Sequence[TableQuestion], names: Mapping[str, str]) -> Iterator[TableProblem]:
    asked = _by(
        ((plain(case.item.question), tuple(image.key for image in case.item.images)), case)
        for case in cases
        if case.item.question.strip()
    )
    for same in asked.values():
        equal = _by(((tuple(sorted(map(plain, case.item.options.values()))), _key(case)), case) for case in same)
        for group in equal.values():
            for case in group[1:]:
                what = f"the same question, image and answer as {' '.join(map(str, group[0].row.place))}"
                yield case.warning("duplicate_row", "", what, "delete one of them")
        keys = {key for _, key in equal if key}
        if len(keys) > 1 and (same[0].item.images or len(same) == 2):
            by_options = _by((options, group[0]) for (options, key), group in equal.items() if key)
            if any(len(group) > 1 for group in by_options.values()):
                first = [group[0] for group in equal.values()]
                what = f"the same question and image with other answers (rows {_rows(first)})"
                yield same[0].warning("conflict", names["answer"], what, "correct one of them")


def _leaks(cases: Sequence[TableQuestion], names: Mapping[str, str]) -> Iterator[TableProblem]:
    for case in cases:
        item = case.item
        right = [plain(item.options.get(answer, answer)) for answer in item.answers]
        wrong = [plain(text) for letter, text in item.options.items() if letter not in item.answers]
        question = f" {plain(item.question)} "
        for text in right:
            if len(text) < LEAST_LEAKED and text.isascii():
                continue
            if len(text) < 2:
                continue
            # Names of options within the question ("liver or spleen?") leak nothing if all of them occur.
            if _holds(question, text) and item.options and not any(_holds(question, other) for other in wrong if other):
                what = "the question holds the right answer, and no other option"
                yield case.warning("leak_question", names["question"], what, "reword it")
            for file in files_of(case):
                stem = f" {plain(PurePosixPath(file.partition('?')[0]).stem.replace('_', ' '))} "
                if _holds(stem, text) and not any(_holds(stem, other) for other in wrong if other):
                    what = "the name of the image file holds the right answer"
                    do = "rename the file: error messages may show its name"
                    yield case.warning("leak_file", names["image"], what, do)


def _holds(text: str, part: str) -> bool:
    """Whether a text holds another by whole words; Chinese has no blanks between words."""
    return f" {part} " in text if part.isascii() else part in text


def _without_image(cases: Sequence[TableQuestion], columns: Sequence[str]) -> Iterator[TableProblem]:
    without = [
        case
        for case in cases
        if case.item.question.strip() and all(is_blank(case.row.values.get(column)) for column in columns)
    ]
    if not columns or not without or 2 * len(without) > len(cases):
        return
    column = columns[0]
    for case in without:
        about = " although its text is about one" if _ABOUT_IMAGE.search(case.item.question) else ""
        what = f"no image{about}; most other questions name one"
        yield case.warning("no_image", column, what, "name it, if it needs one")


def _files(cases: Sequence[TableQuestion], column: str) -> Iterator[TableProblem]:
    for case in cases:
        for doubt in sorted({people.suspected(file) for file in files_of(case)} - {""}):
            what = f"the name of the image file may hold {doubt} of a patient"
            do = "rename the file: error messages may show its name"
            yield case.warning("private_file", column, what, do)


def named(
    cases: Sequence[TableQuestion], names: Mapping[str, str], people_of: people.Names, options: str, tags: str
) -> Iterator[TableProblem]:
    """Yield a warning for each text that holds a name of `people_of`, or speaks of a person by a title.

    `names` has the column of each role, `options` and `tags` the first ones of these.
    """
    do = "write it without the name: models get it, and runs keep it"
    for case in cases:
        texts = (
            ("question", names["question"], [case.item.question], False),
            ("option", options, list(case.item.options.values()), False),
            ("answer", names["answer"], list(case.item.answers), False),
            ("tag", tags, [text for values in case.item.tags.values() for text in values], False),
            ("id", names["id"], [case.item.id], True),
            ("pair", names["pair"], [case.item.pair_id or ""], True),
            ("path of the image", names["image"], files_of(case), True),
        )
        for what, column, listed, within in texts:
            if any(people_of.count(text, within=within) for text in listed):
                told = f"the {what} holds a name that stands in a column of names"
                yield case.warning("private_name", column, told, do)
            elif not within and any(map(people.addressed, listed)):
                told = f"the {what} may hold the name of a person, after a title such as Frau or Mr"
                yield case.warning("private_name", column, told, do)


def spread(values: Iterable[str]) -> list[tuple[str, int]]:
    """Return values with their counts, the most frequent first."""
    return sorted(Counter(values).items(), key=lambda entry: (-entry[1], entry[0]))
