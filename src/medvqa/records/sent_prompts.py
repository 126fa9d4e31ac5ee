"""prompts.jsonl: the text of each prompt that a run sent, once under its digest, without the content of images.

The controller appends a prompt before the first result that names its digest, so no death of a process loses one whose
result is there. A file that is lost is written again as far as a later session of the run asks its questions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from medvqa import files
from medvqa.items import OPTION_TECHNIQUES, ORDERS, Image, Item, Prompt, Shot
from medvqa.records.log import JSON_ERRORS
from medvqa.records.private import DIGITS
from medvqa.records.run_folder import MAX_LINE, Recorder

PROMPTS = "prompts.jsonl"
_BEGINS = b'{"digest":"'
_DIGEST = slice(len(_BEGINS), len(_BEGINS) + 64)
"""Where a line has its digest."""


class SentShot(msgspec.Struct, frozen=True, omit_defaults=True):
    """A solved example; `images` are names."""

    text: str
    answer: str
    end: str = Shot("", "").end
    images: tuple[str, ...] = ()


class KeptPrompt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A prompt as it was sent; `digest` is that of `protocols.prompts`.

    `images`: places among the images of the question, and names of other images; None for those of the question in
    their order. `blank`: grey images took their place. `compared`: the continuations whose probabilities were compared.
    `turns`: texts and replies before `text`; `then`: the user's further texts, each sent after a reply. `withheld`: the
    number of solved examples that are not kept, since their data are not declared public.
    """

    digest: str
    text: str
    system: str = ""
    order: str = ORDERS[0]
    images: tuple[int | str, ...] | None = None
    blank: bool = False
    compared: tuple[str, ...] = ()
    turns: tuple[tuple[str, str], ...] = ()
    then: tuple[str, ...] = ()
    shots: tuple[SentShot, ...] = ()
    withheld: int = 0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(KeptPrompt).decode


def line_of(prompt: Prompt, digest: str, item: Item, *, public: bool, keeps_shots: bool) -> str:
    """Return the line of a prompt about `item`.

    `public`: images may be named. `keeps_shots`: the data of solved examples may be in the run folder.
    """
    blank = prompt.images != () and all(image.blank for image in prompt.images)
    places = [_place(image, item.images, public=public) for image in prompt.images]
    own = [*range(len(item.images))]
    kept = KeptPrompt(
        digest,
        prompt.text,
        prompt.system,
        prompt.order,
        # Grey images have no names: as many as the question has stand for its own.
        None if places == own or (blank and len(places) == len(own)) else tuple(places),
        blank,
        _compared(prompt) if prompt.technique in OPTION_TECHNIQUES else (),
        tuple((turn.text, turn.reply) for turn in prompt.turns) if prompt.turns else (),
        prompt.then,
        tuple(_shot(shot, public=public) for shot in prompt.shots) if prompt.shots and keeps_shots else (),
        0 if keeps_shots else len(prompt.shots),
    )
    return _encode(kept).decode()


def _compared(prompt: Prompt) -> tuple[str, ...]:
    return tuple(prompt.options if prompt.technique == "gd" else prompt.options.values())


def _shot(shot: Shot, *, public: bool) -> SentShot:
    return SentShot(shot.text, shot.answer, shot.end, tuple(_name(image, public=public) for image in shot.images))


def _place(image: Image, own: Sequence[Image], *, public: bool) -> int | str:
    """Return the place of an image among those of the question, else its name."""
    places = (place for place, other in enumerate(own) if other.name == image.name)
    return next(places, _name(image, public=public))


def _name(image: Image, *, public: bool) -> str:
    digest = image.digest.removeprefix("blank ")[:DIGITS]
    return image.name if public else f"sha256-{digest}" if digest else "not read"


class PromptRecorder:
    """Appends prompts to a run folder, each digest once; closed by `close`."""

    def __init__(self, folder: Path) -> None:
        """Open the file, and note the prompts that it has (UsageError)."""
        with files.writing(f"run folder {folder}"):
            self._known = {digest for digest, _ in _places(folder)}
        self._recorder = Recorder(folder, PROMPTS)

    def append(self, lines: Iterable[str]) -> None:
        """Append those lines of `line_of` whose digests are new (OSError)."""
        for line in lines:
            encoded = line.encode()
            if (digest := encoded[_DIGEST]) not in self._known:
                self._recorder.append(encoded)
                self._known.add(digest)

    def close(self) -> None:
        """Close the file."""
        self._recorder.close()


class KeptPrompts:
    """The prompts of a run folder by their digests; each is read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        """Note where each prompt begins. If the file is missing or cannot be read, no prompt is kept."""
        self._file: BinaryIO | None = None
        self._places: dict[bytes, int] = {}
        with suppress(OSError):
            self._places = dict(_places(folder))
            self._file = files.reading(folder / PROMPTS) if self._places else None

    def get(self, digest: str) -> KeptPrompt | None:
        """Return a prompt; None if it was not kept, or its line is damaged."""
        place = self._places.get(digest.encode())
        if place is None or self._file is None:
            return None
        try:
            self._file.seek(place)
            kept = _decode(self._file.readline(MAX_LINE))
        except (OSError, *JSON_ERRORS):
            return None
        return kept if kept.digest == digest else None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _places(folder: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the digest of each whole line, and where the line begins; none without the file (OSError)."""
    path, place = folder / PROMPTS, 0
    try:
        file = files.reading(path)
    except FileNotFoundError:
        return
    with file:
        for _, line in files.lines(file, path, MAX_LINE):
            if line.startswith(_BEGINS) and line.endswith(b"}\n"):
                yield line[_DIGEST], place
            place += len(line)


def join(folder: Path, parts: Iterable[Path], digests: Collection[str]) -> None:
    """Write the prompts with these digests of several run folders into a new one (UsageError, OSError).

    Damaged lines are left out. If no run kept prompts, as earlier versions did not, none is written.
    """
    paths = [path for part in parts if (path := part / PROMPTS).is_file()]
    if not paths:
        return
    recorder, wanted = PromptRecorder(folder), {digest.encode() for digest in digests}
    try:
        for path in paths:
            with files.reading(path) as file:
                lines = (line for _, line in files.lines(file, path, MAX_LINE) if line[_DIGEST] in wanted)
                recorder.append(line[:-1].decode() for line in lines if _is_whole(line))
    finally:
        recorder.close()


def _is_whole(line: bytes) -> bool:
    try:
        return line.startswith(_BEGINS) and line.endswith(b"}\n") and bool(_decode(line))
    except JSON_ERRORS:
        return False
