"""Ask questions in another form: misspelt, paraphrased, behind a false or an irrelevant sentence, without an option.

A form changes the question, or the text of one option, before a prompt is made of the item; letters and key stay. It
depends on the question alone, so that every process makes the same one, and each level holds the changes of the levels
below it. A question that a form cannot change is not asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b, sha256
from pathlib import Path
from typing import NamedTuple

from medvqa import tables
from medvqa.items import Item, Result, Technique, UsageError, replace
from medvqa.perturbing import DEFAULT_LEVEL, LEVELS
from medvqa.printing import line
from medvqa.protocols.prompts import SHOWING
from medvqa.tags import lexicon
from medvqa.tags.own_tags import QuestionRow

TYPOS, PARAPHRASE, PREMISE = "typos", "paraphrase", "false_premise"
CONTEXT, NONE = "irrelevant_context", "none_of_the_above"
WRONG = "wrong"


class FormKind(NamedTuple):
    """What people read of a form: its title, how it shows, what questions must have; and the column of its file."""

    title: str
    shows: str
    needs: str
    column: str = ""


FORMS: Mapping[str, FormKind] = {
    TYPOS: FormKind(
        "typing errors",
        "in 10 % of the longer words for each level",
        "words of four letters or more, in an alphabet with capital letters",
    ),
    PARAPHRASE: FormKind("paraphrased", "in the words of a file", "rows in the file", "question"),
    PREMISE: FormKind(
        "false premise",
        "a false statement before the question",
        "tags such as modality or body_region, or a file of premises: --perturb=false_premise:FILE",
        "premise",
    ),
    CONTEXT: FormKind("irrelevant context", "one sentence before the question for each level", "a text"),
    NONE: FormKind(
        "none of the other answers",
        "in place of an option",
        "single choices with one right option, and none like 'all of the above', by technique mc or gd",
    ),
}
OTHER = "None of the other answers"
"""As in Bedi 2025 (doi 10.1001/jamanetworkopen.2025.26021). Unlike "none of the above", it may be the first option."""
PREMISES = ("modality", "image_type", "body_region", "body_system", "organ", "department")
"""The dimensions of tags that false premises contradict; a question gets a premise of the first that it has."""
NAMELESS = frozenset({"none", "n_a", "other", "others", "unknown"})
"""Values of tags that no premise names."""
SENTENCES = (
    "The request was entered on a Tuesday.",
    "The contact details were checked at the front desk.",
    "The waiting room has new chairs.",
    "The parking area of the building was full that morning.",
    "The report will be filed under the usual reference number.",
)
"""Irrelevant context: the first sentences, as many as the level. None tells of a person, a place or a finding."""

Premises = Mapping[str, Sequence[str]]
"""The values of a benchmark's tags, for the dimensions of `PREMISES`."""

_TOKEN = re.compile(r"<[^<>]*>|\S+")
_WORD = re.compile(r"[^\w<>]*([^\W\d_]{4,})[^\w<>]*")
_REFERS = re.compile(
    r"(none|all|both|neither|any|either)( of)?( the| these| those| them)?( above| others?)?( options?| answers?)?[.]?"
    r"|[A-Z] and [A-Z]",
    re.IGNORECASE,
)
_DIGEST = re.compile(r"@[0-9a-f]{8}\Z")

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
# Keys are one apart, and each row stands half a key to the right of the row above it.
_PLACES = {letter: complex(place + row / 2, row) for row, keys in enumerate(_ROWS) for place, letter in enumerate(keys)}
KEYBOARD = {one: "".join(key for key in _PLACES if 0 < abs(_PLACES[one] - _PLACES[key]) < 1.2) for one in _PLACES}
"""The letters next to each letter on a QWERTY keyboard."""


@dataclass(frozen=True, slots=True)
class FormText(QuestionRow):
    """A row of a form's file: the text for one question, or for both questions of a pair."""

    text: str


@dataclass(frozen=True)
class QuestionForm:
    """A form as `--perturb` names it.

    `level`: 1 to LEVELS, 0 for a form without levels. `of`: "wrong", or the form's file. `rows`: those of the file,
    by benchmark and id.
    """

    name: str
    level: int = 0
    of: str = ""
    rows: Mapping[tuple[str, str], FormText] = field(default_factory=dict)

    @cached_property
    def canonical(self) -> str:
        """The form, with a digest of the texts of its file, such as "typos:3" or "paraphrase:file.csv@1f2e3d4c"."""
        value, texts = self.of or str(self.level or ""), sorted((*key, row.text) for key, row in self.rows.items())
        digest = f"@{sha256(repr(texts).encode(errors='surrogatepass')).hexdigest()[:8]}" if texts else ""
        return f"{self.name}{':' if value else ''}{value}{digest}"

    def changes(self, item: Item, technique: Technique, tags: Premises) -> bool:
        """Return whether the form changes a question asked by a technique; `tags` as in `formed`."""
        if self.name == NONE:
            return technique in SHOWING and offered(item, self.canonical) is not item
        if self.name == TYPOS:
            return any(True for _ in _longer_words(item.question))
        return self.formed(item, tags) is not item

    def formed(self, item: Item, tags: Premises) -> Item:
        """Return the item in this form, the item itself if the form cannot change it.

        `tags`: the values of its benchmark (`premises_of`), from which a false premise is drawn.
        """
        if self.name == NONE:
            return offered(item, self.canonical)
        if self.name == TYPOS:
            question = _misspelt(item, self.level)
        elif self.name == CONTEXT:
            question = " ".join((*SENTENCES[: self.level], item.question))
        elif self.rows:
            keys = ((benchmark, id) for id in (item.id, item.pair_id or "") for benchmark in (item.benchmark, ""))
            if (row := next((self.rows[key] for key in keys if key in self.rows), None)) is None:
                return item
            question = row.text if self.name == PARAPHRASE else f"{row.text} {item.question}"
        else:
            question = _behind_premise(item, tags)
        return item if question == item.question else replace(item, question=question)


def is_form(typed: str) -> bool:
    """Return whether a value of `--perturb`, typed or recorded, names a form of questions."""
    return _parts(typed)[0] in FORMS


def _parts(perturb: str) -> tuple[str, str, str]:
    """Return the name of a form, what follows it, and the digest at its end, such as "@1f2e3d4c"; "" without one."""
    stated = _DIGEST.search(perturb)
    name, _, value = perturb[: stated.start() if stated else None].partition(":")
    return name, value, stated[0] if stated else ""


def parse(typed: str, folder: Path) -> QuestionForm:
    """Return the form (`is_form`) that `--perturb` names; its file is sought from `folder` (UsageError, DataError).

    The form may be written as it is recorded, with a digest, which must then be that of its texts.
    """
    shown = f"--perturb={line(typed)}"
    name, value, stated = _parts(typed)
    form = QuestionForm(name, of=value)
    if name == PARAPHRASE or (name == PREMISE and ":" in typed):
        if not value:
            raise UsageError(f"{shown}: name a table with the columns id and {FORMS[name].column}: {name}:FILE")
        form = _read(name, value, folder, shown)
    elif name == NONE and value not in ("", WRONG):
        raise UsageError(f"{shown}: {NONE} replaces the right option, and {NONE}:{WRONG} a wrong one")
    elif name in (TYPOS, CONTEXT):
        if ":" in typed and not re.fullmatch(f"[1-{LEVELS}]", value):
            raise UsageError(f"{shown}: levels are 1 to {LEVELS}; type --perturb={name}:{DEFAULT_LEVEL}")
        form = QuestionForm(name, int(value or DEFAULT_LEVEL))
    if not form.canonical.endswith(stated):
        raise UsageError(f"{shown}: its texts are others now; leave out {stated}")
    return form


def _read(name: str, value: str, folder: Path, shown: str) -> QuestionForm:
    """Read the table of a form (UsageError, DataError)."""
    path, column = Path(os.path.abspath(folder / value)), FORMS[name].column
    if not path.is_file():
        raise UsageError(f"{shown}: no such file")
    rows: dict[tuple[str, str], FormText] = {}
    hint = f"; {name} reads a table (CSV, TSV, XLSX or JSON) with the columns id and {column}"
    for row in tables.read(path, name=line(path.name), needed=[("id", column)], fold=True, hint=hint):
        one = FormText(row.where, row.identifier("id"), row.text("benchmark").strip(), row.text(column).strip())
        if not one.text:
            raise row.error("blank", column)
        if rows.setdefault((one.benchmark, one.id), one) is not one:
            raise row.error("this id has a row already; write another wording of a question into another file", "id")
    # A folder elsewhere may name a person.
    of = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
    return QuestionForm(name, of=line(of), rows=rows)


def label(perturb: str) -> str:
    """Return a recorded form in few words for titles: "typing errors, level 3"; "" for a change of images."""
    if not is_form(perturb):
        return ""
    name, value, _ = _parts(line(perturb))
    if name == NONE:
        return f"{FORMS[name].title} for a {WRONG if value else 'right'} option"
    return f"{FORMS[name].title}{', level ' if value.isdecimal() else ': ' if value else ''}{value}"


def described(perturb: str) -> str:
    """Return a recorded form in a sentence for people; "" for a change of images."""
    if not is_form(perturb):
        return ""
    return f"{label(perturb)} ({FORMS[_parts(perturb)[0]].shows}); questions that cannot be changed so are not asked"


def as_offered(results: tuple[Result, ...], perturb: str) -> tuple[Result, ...]:
    """Return recorded results with their items as `offered`, for people to read and for rules that read options."""
    if perturb.partition(":")[0] != NONE:
        return results
    return tuple(replace(result, item=offered(result.item, perturb)) for result in results)


def offered(item: Item, perturb: str) -> Item:
    """Return the item with its options as `perturb` shows them; the question stays the data set's.

    In a single choice with one right answer, the text of an option becomes `OTHER`: that of the right one, which
    stays right, or that of a wrong one, drawn by the question. Questions with an option about other options, such as
    "all of the above", stay as they are.
    """
    if perturb.partition(":")[0] != NONE or item.kind != "single_choice" or len(item.answers) != 1:
        return item
    wrong = [letter for letter in item.options if letter not in item.answers]
    if not wrong or len(wrong) == len(item.options) or any(map(_REFERS.fullmatch, item.options.values())):
        # The item itself is shown so already, or cannot be.
        return item
    letter = wrong[draw(item, NONE) % len(wrong)] if perturb.endswith(f":{WRONG}") else item.answers[0]
    return replace(item, options={**item.options, letter: OTHER})


def premises_of(items: Iterable[Item]) -> Premises:
    """Return the values from which false premises of one benchmark's questions are drawn."""
    tags = [item.tags for item in items]
    return {name: sorted({value for own in tags for value in own.get(name, ())}) for name in PREMISES}


def _behind_premise(item: Item, tags: Premises) -> str:
    """Put a premise before the question, by the first dimension of which the benchmark has unrelated values."""
    for dimension in filter(item.tags.get, PREMISES):
        related = {*NAMELESS, *lexicon.with_broader(dimension, item.tags[dimension])}
        if others := [one for one in tags[dimension] if related.isdisjoint(lexicon.with_broader(dimension, [one]))]:
            named = lexicon.display(dimension, others[draw(item, PREMISE) % len(others)])
            return f"The {dimension} here is {named}.".replace("_", " ") + f" {item.question}"
    return item.question


def _misspelt(item: Item, level: int) -> str:
    """Return the question with typing errors: a key beside, a swap, a drop or a double.

    They are in a tenth of the words that may have one for each level, and in at least one. The first letter of a word
    stays.
    """
    words, question = list(_longer_words(item.question)), item.question
    chosen = sorted(range(len(words)), key=lambda word: draw(item, TYPOS, "word", str(word)))
    for word in sorted(chosen[: -(-level * len(words) // 10)], reverse=True):
        start, end = words[word]
        question = question[:start] + _mistyped(question[start:end], draw(item, TYPOS, str(word))) + question[end:]
    return question


def _longer_words(question: str) -> Iterator[tuple[int, int]]:
    """Yield where words start and end that may have a typing error.

    They have at least four letters, all but the first in lower case; so numbers, abbreviations, letters of options,
    marks such as <image 1>, and scripts without letter case are none. Nor is a word after a number, perhaps a unit.
    """
    before = ""
    for token in _TOKEN.finditer(question):
        match = _WORD.fullmatch(token[0])
        cased = match and match[1][1:].islower() and all(letter.lower() != letter.upper() for letter in match[1])
        if match and cased and not before[-1:].isdigit():
            yield token.start() + match.start(1), token.start() + match.end(1)
        before = token[0]


def _mistyped(word: str, number: int) -> str:
    places = range(1, len(word))
    ways = (
        [word[:i] + key + word[i + 1 :] for i in places for key in KEYBOARD.get(word[i], "")],
        [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in places[:-1] if word[i] != word[i + 1]],
        [word[:i] + word[i + 1 :] for i in places],
        [word[:i] + word[i] + word[i:] for i in places],
    )
    possible = [way for way in ways if way]
    way = possible[number % len(possible)]
    return way[number // len(possible) % len(way)]


def draw(item: Item, *parts: str) -> int:
    """Return a whole number of 64 bits that the question and `parts` determine."""
    text = "\0".join((item.benchmark, item.id, *parts))
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())
