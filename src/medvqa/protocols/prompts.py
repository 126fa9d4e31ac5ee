"""Item -> Prompt by templates, which are data with a recorded name and digest.

A template's text equals the prompt of the benchmark's owners, to the byte; the benchmark's file has a permalink to it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from medvqa.items import OPTION_TECHNIQUES, Image, Item, Prompt, Technique


@dataclass(frozen=True, slots=True)
class Template:
    """A template for the text sent after the images.

    `text` holds the fields {question} and {options}; `option` is one line of {options} with the fields
    {letter} and {text}, its line end included. Only the template is formatted: braces in a question or an
    option are text. `max_tokens` is the owners' limit of new tokens, None if they set none.
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
    """Return the SHA-256 (hex) of everything that a model sees: texts, shots and images (`Image.key`).

    Options are included for techniques that score them; otherwise a model sees only the options in the text.
    """
    parts = [prompt.technique, prompt.system, prompt.text, *(image.key for image in prompt.images)]
    for shot in prompt.shots:
        parts += [shot.text, shot.answer, *(image.key for image in shot.images)]
    if prompt.technique in OPTION_TECHNIQUES:
        parts += [part for option in prompt.options.items() for part in option]
    if prompt.turns or prompt.then:
        parts += ["turns", *(part for turn in prompt.turns for part in (turn.text, turn.reply)), "then", *prompt.then]
    return hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


def pinned(prompt: Prompt) -> Prompt:
    """Return the prompt with the digest of every readable image, so that `digest` covers the images' bytes.

    Afterwards `Image.read` refuses a changed file. Files with a known digest are not read.
    """
    shots = prompt.shots
    if all(image.digest for images in (prompt.images, *(shot.images for shot in shots)) for image in images):
        return prompt
    return replace(
        prompt,
        images=tuple(map(Image.pinned, prompt.images)),
        shots=tuple(replace(shot, images=tuple(map(Image.pinned, shot.images))) for shot in shots),
    )
