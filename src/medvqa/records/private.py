"""Private folders and private names: the files of a run may identify patients."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from medvqa import files
from medvqa.items import Image, Item, Result, replace
from medvqa.medical import views
from medvqa.protocols.shots import SOURCES
from medvqa.tables import people

REPORTS = "reports"
"""The folder of run folders; git is kept from it."""
IGNORE = ".gitignore"
IGNORED = b"*\n# Runs hold questions and answers. Change this file as you like: it is written once.\n"
DIGITS = 12
"""Hexadecimal digits of an image's digest in its pseudonym."""
LEAST_QUOTED = 12
"""Characters of a question that a reason does not quote by chance."""
_FOLDER = "a folder"
"""In place of the path of a folder of images."""
_PSEUDONYM = re.compile(rf"sha256-[0-9a-f]{{{DIGITS}}}|unread-\d{{1,3}}")


def make_private(folder: Path) -> None:
    """Create a folder for a run or for answers, readable by its owner alone, and keep it out of git (OSError).

    Missing folders above it are made alike; folders that are there stay as they are. A folder above it that is made
    here or is called reports gets a .gitignore, unless it has one.
    """
    above = folder.parent
    created = not above.exists()
    files.private_folder(folder)
    if created or above.name == REPORTS:
        # A folder that cannot be written is no reason to stop: its runs are private nevertheless.
        with suppress(OSError):
            files.write_new(above / IGNORE, IGNORED, mode=0o644)


def is_pseudonym(image: Image) -> bool:
    """Whether an image of a result has a pseudonym in place of its name."""
    return _PSEUDONYM.fullmatch(image.file) is not None


@dataclass(frozen=True)
class Pseudonyms:
    """Names in place of files, patients and groups in the results of a benchmark that is not declared public.

    An image is called by the first digits of its SHA-256, or by its place in the question if it was not read. Patients,
    cases and groups have numbers. All of these follow from the data alone, so that workers, shards and later
    sessions give the same names; nobody can guess a file's name or a patient's number and check it.
    `digests`: whether files are read for their digests.
    """

    groups: Mapping[str, str]
    sources: Mapping[str, str]
    digests: bool

    @classmethod
    def of(cls, items: Iterable[Item], *, digests: bool) -> Pseudonyms:
        """Return the pseudonyms of a benchmark with these items."""
        groups: dict[str, None] = {}
        sources: dict[str, None] = {}
        for item in items:
            groups |= {item.cluster_id: None} if item.cluster_id is not None else {}
            sources |= dict.fromkeys(source_texts(item.extra))
        return cls(_numbered("group", groups), _numbered("source", sources), digests)

    def hidden(self, result: Result) -> Result:
        """Return the result without names of files, patients and groups.

        The reason of an error has none of these either, nor the question and its id.
        """
        item = result.item
        images = tuple(self._image(image, place) for place, image in enumerate(item.images, 1))
        # Errors quote stems and folders, too. The reason of a score quotes options, and one may be called as a file is.
        failed = result.score.outcome in ("error", "unscored")
        folders, named = list[PurePath](), list[tuple[str, str]]()
        for image, other in zip(item.images, images, strict=True):
            of_file = (image.path, image.name, image.file, *_parts(image, stems=failed))
            named += [(name, other.name if name == image.name else other.file) for name in of_file]
            folders += [PurePath(image.path).parent, *PurePath(image.file).parents] if failed else []
        if failed:
            named += [(name, "[id]") for name in (item.id, item.pair_id) if name]
            named += [(text, "[patient]") for text in source_texts(item.extra)]
        names = {spelled: _FOLDER for folder in folders if folder.name for spelled in _spelled(str(folder))}
        for own, word in named:
            # A short number may be another one of the message: HTTP 429.
            if own and (len(own) > 3 or not own.isdecimal()):
                for spelled in _spelled(own):
                    names.setdefault(spelled, word)
        if item.cluster_id is not None:
            item = replace(item, cluster_id=self.groups.get(item.cluster_id, "group"))
        extra = _with_sources(item.extra, lambda text: self.sources.get(text, "source"))
        why = _without_question(result.score.why, item.question) if failed else result.score.why
        why = _without(why, names)
        why = _without_words(why, item) if failed else why
        return replace(
            result,
            item=replace(item, images=images, extra=extra),
            score=replace(result.score, why=why),
        )

    def hidden_text(self, item: Item, text: str) -> str:
        """Return a text that was made of an item, such as its prompt, without names of its files and its patient."""
        files_named = (
            (name, shown.file)
            for place, image in enumerate(item.images, 1)
            if (shown := self._image(image, place))
            for name in (image.path, image.name, image.file, *_parts(image, stems=False))
        )
        named = (*files_named, *((text, self.sources.get(text, "source")) for text in source_texts(item.extra)))
        # The question itself is recorded as it is.
        kept = (item.question, *item.options.values())
        names = {own: word for own, word in named if len(own) > 3 and not any(own in each for each in kept)}
        return _without(text, names)

    def _image(self, image: Image, place: int) -> Image:
        known = image.pinned() if self.digests else image
        _, parts = views.split(image.name)
        name = f"sha256-{known.digest[:DIGITS]}" if known.digest else f"unread-{place}"
        return replace(known, name=f"{name}?{parts}" if parts else name)


def _parts(image: Image, *, stems: bool) -> Iterator[str]:
    """Yield the last part of an image's path, and with `stems` the same without its ending."""
    for text in (image.path, image.file):
        name = PurePath(text).name
        yield name
        stem = name.removesuffix(".gz").rpartition(".")[0]
        if stems and len(stem) > 3:
            yield stem


def _spelled(name: str) -> Iterator[str]:
    """Yield the ways in which an exception may write a name: in both forms of Unicode, and escaped."""
    for form in dict.fromkeys((name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")))):
        yield form
        yield from (json.dumps(form)[1:-1], repr(form)[1:-1], ascii(form)[1:-1], quote(form), quote(form, safe=""))
        yield repr(os.fsencode(form))[2:-1]


def _without_question(text: str, question: str) -> str:
    """Replace a question that a text quotes, also one that is cut off or has other white space."""
    first, *rest = question.split() or [""]
    if len(question) < LEAST_QUOTED or (found := re.search(re.escape(first), text)) is None:
        return text
    end = found.end()
    for word in rest:
        more = re.compile(rf"\s+{re.escape(word)}").match(text, end)
        if more is None:
            end = len(text) if word.startswith(text[end:].strip()) else end
            break
        end = more.end()
    quoted = end - found.start() >= LEAST_QUOTED
    return f"{text[: found.start()]}[question]{text[end:]}" if quoted else text


def _without_words(text: str, item: Item) -> str:
    """Replace words of the item's files and ids that may be names of people, however they are spelled and joined."""
    named = filter(people.suspected, (*(image.file for image in item.images), item.id, item.pair_id or ""))
    names = {word for name in named for word in people.telling(name)} - set(people.words(item.benchmark))
    return people.without(text, names) if names else text


def _without(text: str, names: Mapping[str, str]) -> str:
    """Replace names in a text, in any case; one without a folder only as a word."""
    if not (text and names):
        return text
    folded = {name.casefold(): other for name, other in names.items()}
    pattern = "|".join(
        re.escape(name) if "/" in name else rf"(?<!\w){re.escape(name)}(?!\w)"
        for name in sorted(names, key=len, reverse=True)
    )
    return re.sub(pattern, lambda match: folded.get(match[0].casefold(), _FOLDER), text, flags=re.IGNORECASE)


def _numbered(word: str, names: Iterable[str]) -> dict[str, str]:
    """Number names in their order, so that numbers sort as names do; last those without a digit, as they come.

    These may be names of people, and their place in the alphabet would tell whose each is.
    """
    ordered = sorted(names, key=lambda name: name if any(map(str.isdigit, name)) else chr(0x10FFFF))
    return {name: f"{word} {place:0{len(str(len(ordered)))}}" for place, name in enumerate(ordered, 1)}


def source_texts(extra: Mapping[str, Any]) -> list[str]:
    """Return the texts of the fields that name a patient or a case."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    _with_sources(extra, note)
    return texts


def _with_sources(extra: Mapping[str, Any], other: Callable[[str], str]) -> dict[str, Any]:
    """Return `extra` with other texts in the fields that name a patient or a case, there and one level below."""

    def changed(key: object, value: Any) -> Any:
        if value is None or isinstance(value, Mapping) or not _names_source(key):
            return value
        return [other(str(text)) for text in value] if isinstance(value, list | tuple) else other(str(value))

    return {
        key: {inner: changed(inner, part) for inner, part in value.items()}
        if isinstance(value, Mapping)
        else changed(key, value)
        for key, value in extra.items()
    }


def _names_source(key: object) -> bool:
    plain = re.sub(r"[\W_]+", "", str(key).casefold())
    return plain.removesuffix("id") in SOURCES or plain.startswith("patient")
