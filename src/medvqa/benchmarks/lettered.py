"""Parts that data sets with lettered options share: options and keys of rows, MedEvalKit's prompt, owners' rules.

The owners' rules for `--extraction=official` are copied with their flaws. None knows refusals: an answer without a
letter is `unparsed`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher

from medvqa import tables
from medvqa.benchmarks.table_declaration import LETTERS
from medvqa.items import Answer, DataWarning, Item, Score, of_data
from medvqa.protocols.prompts import Template
from medvqa.scoring import Reading, score_single_choice
from medvqa.tables.limits import MAX_IMAGES

TOKENS = 512
"""Ours: MedEvalKit allows 8,192 new tokens, more than the context of some models."""

PROBLEMS_SHOWN = 3
MAX_COMPARED = 2**24
"""Characters of an answer times those of an option. Above it the answer is `unparsed`: difflib would take minutes."""

_PREFIX = re.compile(r"\s*([A-Z])\s*[.:)]\s*(.*)", re.DOTALL)


def listed(row: tables.TableRow, texts: Sequence[str], column: str, *, strip: bool = True) -> dict[str, str]:
    """Return the options of a list by letter (DataError for fewer than two or more than LETTERS)."""
    if not 2 <= len(texts) <= len(LETTERS):
        raise row.error(f"{len(texts)} options; a question has 2 to {len(LETTERS)}", column)
    return {letter: text.strip() if strip else text for letter, text in zip(LETTERS, texts, strict=False)}


def unprefixed(row: tables.TableRow, texts: Sequence[str], column: str) -> dict[str, str]:
    """Return the options of a list whose texts begin with their letters, such as `A. liver`, without these.

    A list without any such prefix is taken as it is. DataError if some texts have none, or another letter than theirs.
    """
    matches = [_PREFIX.fullmatch(text) for text in texts]
    if not any(matches):
        return listed(row, texts, column)
    parts = [(match[1], match[2]) for match in matches if match]
    if [letter for letter, _ in parts] != list(LETTERS[: len(texts)]):
        raise row.error("the options' prefixes are not A, B, C ... in this order", column)
    return listed(row, [text for _, text in parts], column)


def check_count(row: tables.TableRow, images: Sequence[object], column: str) -> None:
    """Raise DataError for more images than a question may have."""
    if len(images) > MAX_IMAGES:
        raise row.error(f"{len(images)} images; a question has at most {MAX_IMAGES}", column)


def key(row: tables.TableRow, letter: str | None, options: Mapping[str, str], column: str) -> tuple[str, ...]:
    """Return the letter of the right option, () if it is withheld (DataError if it is none of the options)."""
    if letter is None:
        return ()
    if letter.strip() not in options:
        raise row.error(f"answer {of_data(repr(letter[:20]))} is none of its options {', '.join(options)}", column)
    return (letter.strip(),)


def warn_ambiguous(benchmark: str, problems: Sequence[str]) -> None:
    """Issue one DataWarning about rows without a usable key; each problem begins with the row's name.

    These questions are asked, and stay unscored.
    """
    if not problems:
        return
    first = "; ".join(problems[:PROBLEMS_SHOWN])
    more = f"; and {len(problems) - PROBLEMS_SHOWN:,} more" if len(problems) > PROBLEMS_SHOWN else ""
    have = "question has" if len(problems) == 1 else "questions have"
    warnings.warn(
        f"{benchmark}: {len(problems):,} {have} no usable answer key and will be unscored: {first}{more}",
        DataWarning,
        stacklevel=2,
    )


def medevalkit(name: str, option: str) -> Template:
    """Return MedEvalKit's prompt for choices, to the byte; `option`: how the kit writes an option of the data set.

    Source: `get_multiple_choice_prompt` in
    https://github.com/alibaba-damo-academy/MedEvalKit/blob/9b12e3b34232a8779cc1275417bf4f72f03d28e0/utils/question_formats.py
    """
    last = "Answer with the option's letter from the given choices directly."
    return Template(name, f"\nQuestion: {{question}}\nOptions: \n{{options}}{last}", f"{option}\n", max_tokens=TOKENS)


def scored_by(rule: Callable[[str, Mapping[str, str]], Reading]) -> Callable[[Item, Answer], Score]:
    """Return the scorer of a published rule, which reads a response by the options."""

    def read(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
        return rule(response, options)

    return lambda item, answer: score_single_choice(item, answer, read)


def bare(response: str) -> str:
    """Return a response without signs at its ends and between blanks, as MMMU's owners search it."""
    for sign in ",.!?;:'":
        response = response.strip(sign)
    return f" {response} "


def last(forms: Mapping[str, str], text: str) -> str:
    """Return the letter whose form comes last in a text, "" if none does."""
    places = {letter: text.rfind(form) for letter, form in forms.items() if form in text}
    return max(places, key=places.__getitem__, default="")


def published(letter: str, options: Mapping[str, str], why: str) -> Reading:
    """Return the reading of a published rule that takes a letter, "" for none; `why` says how it found it."""
    if letter in options:
        return Reading((letter,), "read", f"published rule: {why}: {letter}")
    return Reading((), "unparsed", f"published rule: {why}: none")


def similar(response: str, options: Mapping[str, str], *, form: str = "{text}") -> Reading:
    """Read `response` as the owners of PMC-VQA and OmniMedVQA do (`find_most_similar_index`).

    The option with the largest `difflib` ratio is chosen, the first of equals, whatever the answer says: "the kidneys"
    is the liver if no option is nearer. Each option is compared in the `form` that the owners write. An answer that
    shares no character with any option is `unparsed`; the owners count it as wrong, too.
    """
    texts = {letter: form.format(letter=letter, text=text) for letter, text in options.items()}
    if any(len(text) * len(response) > MAX_COMPARED for text in texts.values()):
        return Reading((), "unparsed", "most similar option: too long to compare")
    ratios = {letter: SequenceMatcher(None, text, response).ratio() for letter, text in texts.items()}
    letter = max(ratios, key=ratios.__getitem__, default="")
    if not letter or not ratios[letter]:
        return Reading((), "unparsed", "most similar option: nothing is similar")
    return Reading((letter,), "read", f"most similar option: {letter}")
