"""Item -> Prompt by templates that are data: each has a name and a digest, and both are recorded.

A template's text is what the benchmark's owners send, to the byte; the benchmark's file holds it beside
a permalink to where it stands.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from functools import lru_cache

from medvqa import images
from medvqa.items import OPTION_TECHNIQUES, DataError, Image, Item, Prompt, Technique


@dataclass(frozen=True, slots=True)
class Template:
    """The text that is sent after the images.

    `text` holds the fields {question} and {options}; `option` is one line of {options} with the fields
    {letter} and {text}, its line end included. Only the template is formatted: braces in a question or an
    option are text. `max_tokens` is the limit of new tokens by which its owners ask; None: they name none.
    """

    name: str
    text: str
    option: str = ""
    system: str = ""
    max_tokens: int | None = None

    @property
    def label(self) -> str:
        """`name@digest`; the digest changes with every byte of the template."""
        content = "\0".join((self.text, self.option, self.system))
        return f"{self.name}@{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    def prompt(self, item: Item, technique: Technique = "mc") -> Prompt:
        """Fill the template with one item; images stay references."""
        options = "".join(self.option.format(letter=letter, text=text) for letter, text in item.options.items())
        return Prompt(
            text=self.text.format(question=item.question, options=options),
            images=item.images,
            system=self.system,
            benchmark=item.benchmark,
            item=item.id,
            kind=item.kind,
            options=item.options,
            technique=technique,
            template=self.label,
            max_tokens=self.max_tokens,
        )


def digest(prompt: Prompt) -> str:
    """SHA-256 (hex) of all that a model sees: texts, shots and images (by digest, by name while unknown).

    With a technique that scores options these too; else they are seen as far as the text holds them.
    """
    parts = [prompt.technique, prompt.system, prompt.text, *map(_seen, prompt.images)]
    for shot in prompt.shots:
        parts += [shot.text, shot.answer, *map(_seen, shot.images)]
    if prompt.technique in OPTION_TECHNIQUES:
        parts += [part for option in prompt.options.items() for part in option]
    return hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


def _seen(image: Image) -> str:
    content = image.digest or image.name
    return f"blank {content}" if image.blank else content


def pinned(prompt: Prompt) -> Prompt:
    """The prompt with the digest of every image that can be read, so that its own digest stands for their bytes.

    From then on `images.read` refuses a file that has changed. Where digests are known nothing is read.
    """
    shots = prompt.shots
    if all(image.digest for shown in (prompt.images, *(shot.images for shot in shots)) for image in shown):
        return prompt
    return replace(
        prompt,
        images=tuple(map(_pinned, prompt.images)),
        shots=tuple(replace(shot, images=tuple(map(_pinned, shot.images))) for shot in shots),
    )


def _pinned(image: Image) -> Image:
    if image.digest:
        return image
    try:
        status = os.stat(image.path)
        return replace(image, digest=_digest(image, status.st_size, status.st_mtime_ns))
    except (DataError, OSError):
        # A model that looks at it will say what is wrong; one that does not look needs no image.
        return image


@lru_cache(maxsize=4096)
def _digest(image: Image, size: int, modified: int) -> str:
    """Questions share images: each is read once, as long as its file stays as it is."""
    return images.digest(image)
