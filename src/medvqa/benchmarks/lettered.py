"""Options and keys of rows whose options have letters, and MedEvalKit's prompt for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from medvqa import tables
from medvqa.benchmarks.table import LETTERS as LETTERS
from medvqa.benchmarks.table import MAX_IMAGES
from medvqa.items import of_data
from medvqa.protocols.prompts import Template

TOKENS = 512
"""Ours: MedEvalKit allows 8,192 new tokens, more than the context of some models."""

_PREFIX = re.compile(r"\s*([A-Z])\s*[.:)]\s*(.*)", re.DOTALL)


def listed(row: tables.TableRow, texts: Sequence[str], column: str) -> dict[str, str]:
    """Return the options of a list by letter (DataError for fewer than two or more than LETTERS)."""
    if not 2 <= len(texts) <= len(LETTERS):
        raise row.error(f"{len(texts)} options; a question has 2 to {len(LETTERS)}", column)
    return {letter: text.strip() for letter, text in zip(LETTERS, texts, strict=False)}


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


def medevalkit(name: str, option: str) -> Template:
    """Return MedEvalKit's prompt for choices, to the byte; `option`: how the kit writes an option of the data set.

    Source: `get_multiple_choice_prompt` in
    https://github.com/alibaba-damo-academy/MedEvalKit/blob/9b12e3b34232a8779cc1275417bf4f72f03d28e0/utils/question_formats.py
    """
    last = "Answer with the option's letter from the given choices directly."
    return Template(name, f"\nQuestion: {{question}}\nOptions: \n{{options}}{last}", f"{option}\n", max_tokens=TOKENS)
