"""Item -> Prompt by templates, which are data with a recorded name and digest.

A template's text equals the prompt of the benchmark's owners, to the byte; the benchmark's file has a permalink to it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from medvqa.items import (
    CHOICE_KINDS,
    OPTION_TECHNIQUES,
    ORDERS,
    TECHNIQUES,
    Image,
    Item,
    Kind,
    Order,
    Prompt,
    PromptSource,
    Shot,
    Technique,
    UsageError,
    replace,
)

SHOWING: tuple[Technique, ...] = ("mc", "gd")
"""Techniques that show the options under letters."""
FIELDS = ("question", "options")
"""The fields of a template's text."""
OPTION_FIELDS = ("letter", "text")
"""The fields of its line for each option, and of the answer of a solved example."""
TURN_FIELDS = ("first", "last")
"""The fields of a further turn."""
FIELDS_HELP = "Its fields are {question} and {options}; a brace that stands for itself is written twice: {{ or }}"
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """A template for the text sent with the images.

    `text` holds the fields {question} and {options}; `option` is one line of {options} with the fields
    {letter} and {text}, its line end included. Only the template is formatted: braces in a question or an
    option are text. `max_tokens` is the owners' limit of new tokens, None if they set none. `order` is as in `Prompt`.
    `then` holds the user's further turns, with the fields {first} and {last}: the letters of the first and the last
    option.
    """

    name: str
    text: str
    option: str = ""
    system: str = ""
    max_tokens: int | None = None
    order: Order = ORDERS[0]
    then: tuple[str, ...] = ()
    label: str = field(init=False, repr=False, compare=False)
    """`name@digest`; the digest changes with every byte of the template."""

    def __post_init__(self) -> None:
        """Compute the label once, as every prompt has it."""
        order = [] if self.order == ORDERS[0] else [self.order]
        content = "\0".join((self.text, self.option, self.system, *order, *self.then))
        object.__setattr__(self, "label", f"{self.name}@{hashlib.sha256(content.encode()).hexdigest()[:8]}")

    def prompt(self, item: Item, technique: Technique = "mc") -> Prompt:
        """Fill the template with one item; images stay references."""
        options = "".join([self.option.format(letter=letter, text=text) for letter, text in item.options.items()])
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
            order=self.order,
            then=turns(self.then, item.options),
        )

    def about(self) -> dict[str, str]:
        """Return the parts that a model sees, for run.json; empty ones and the default order are left out."""
        parts = {"text": self.text, "option": self.option, "system": self.system}
        parts |= {} if self.order == ORDERS[0] else {"order": self.order}
        return {name: value for name, value in {**parts, "then": "\n".join(self.then)}.items() if value}


@dataclass(frozen=True, slots=True)
class Templates(PromptSource):
    """A named prompt: a template for each technique that the prompt defines, such as a value of `Benchmark.prompts`.

    `by_kind` replaces the templates of MC and GD for questions of these kinds.
    """

    name: str
    by_technique: Mapping[Technique, Template]
    by_kind: Mapping[Kind, Template] = field(default_factory=dict)

    @property
    def all(self) -> tuple[Template, ...]:
        """All templates."""
        return (*self.by_technique.values(), *self.by_kind.values())

    @property
    def converses(self) -> bool:
        """Whether any template has further turns."""
        return any(template.then for template in self.all)

    @property
    def techniques(self) -> tuple[Technique, ...]:
        """The techniques that the prompt defines."""
        return tuple(technique for technique in TECHNIQUES if technique in self.by_technique)

    def __call__(self, item: Item, technique: Technique) -> Prompt:
        """Return the prompt of a question; UsageError for a technique without a template, or without its options."""
        if technique not in self.by_technique:
            raise UsageError(
                f"prompt '{self.name}' is not defined for technique '{technique}'; it has: {', '.join(self.techniques)}"
            )
        template = self.by_technique[technique]
        if technique in SHOWING:
            template = self.by_kind.get(item.kind, template)
            if item.kind in CHOICE_KINDS and "{options}" not in template.text:
                raise UsageError(
                    f"prompt '{self.name}' shows no options, and benchmark '{item.benchmark}' has questions of kind "
                    f"{item.kind}: add {{options}} to its text"
                )
        return template.prompt(item, technique)

    def about(self, technique: Technique) -> dict[str, dict[str, str]]:
        """Return the templates of a technique for run.json, by label."""
        kinds = self.by_kind.values() if technique in SHOWING else ()
        return {template.label: template.about() for template in (self.by_technique[technique], *kinds)}


def wrong_field(text: str, known: Collection[str] = FIELDS, needed: str | None = FIELDS[0]) -> tuple[int, str] | None:
    """Return the place and the problem of the first field that a template cannot have; None if there is none.

    `known`: the fields that it may have; `needed`: the one that it must have.
    """
    names = []
    for match in _BRACES.finditer(text):
        if match[0] in ("{{", "}}"):
            continue
        if match[1] is None:
            return match.start(), f"has a single {match[0]}"
        if match[1] not in known:
            return match.start(), f"has the field {match[0]}"
        names.append(match[1])
    return None if needed is None or needed in names else (len(text), f"has no field {{{needed}}}")


def turns(texts: Collection[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """Fill the fields {first} and {last} of further turns with the letters of the options; "" without options."""
    if not texts:
        return ()
    letters = list(options) or [""]
    return tuple(text.format(first=letters[0], last=letters[-1]) for text in texts)


def digest(prompt: Prompt) -> str:
    """Return the SHA-256 (hex) of everything that a model sees: texts, shots and images (`Image.key`).

    Options are included for techniques that score them; otherwise a model sees only the options in the text.
    """
    parts = [prompt.technique, prompt.system, prompt.text, *(image.key for image in prompt.images)]
    for shot in prompt.shots:
        end = [] if shot.end == Shot("", "").end else ["end", shot.end]
        parts += [shot.text, shot.answer, *end, *(image.key for image in shot.images)]
    if prompt.order != ORDERS[0]:
        parts.append(prompt.order)
    if prompt.technique in OPTION_TECHNIQUES:
        parts += [part for option in prompt.options.items() for part in option]
    if prompt.turns or prompt.then:
        parts += ["turns", *(part for turn in prompt.turns for part in (turn.text, turn.reply)), "then", *prompt.then]
    return hashlib.sha256("\0".join([f"{len(part)}:{part}" for part in parts]).encode()).hexdigest()


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
