"""The prompts of a judge: data files with a digest, the project's or the user's.

A file is UTF-8 text. Lines like `=== system ===` begin a section: `about` (the source; not sent), `system`, `prompt`,
and `again`, added after an unreadable reply. Text before the first such line, or a file without sections, is the
prompt. Fields are words in braces, and one that is not known is an error; all other braces are text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal, get_args

from medvqa.decode import did_you_mean
from medvqa.items import UsageError
from medvqa.protocols import prompts

Task = Literal["score", "closeness", "options"]
TASKS: tuple[Task, ...] = get_args(Task)
"""The tasks of scoring. The task "kind" (`medvqa.judging.taxonomy`) finds the kind of a wrong answer."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "score": ("question", "reference", "response"),
    "closeness": ("question", "options", "response"),
    "options": ("question", "options", "response"),
    "kind": ("question", "options", "reference", "response", "kinds"),
}
"""Required fields in the prompt of a task; their values are fenced."""

OTHER_FIELDS: Mapping[str, tuple[str, ...]] = {
    "score": ("fence",),
    "closeness": ("fence", "number", "names", "format"),
    "options": ("fence", "letters"),
    "kind": ("fence", "image"),
}
"""Optional fields of a prompt: `fence` is the name of the tag around data; docs/scoring.md describes the others."""

SCALE = (0.0, 0.5, 1.0)
"""Scores of an open answer: wrong, partly right, right (MedLesionVQA, A.5.1)."""
SHOWN_SCALE = ", ".join(f"{score:g}" for score in SCALE)

NONE = "Z"
"""Means "no option" in replies, as in the prompts of MedLesionVQA and of GMAI-MMBench's harness."""

_HEADING = re.compile(r"^=== (\w+) ===[ \t]*\n", re.M)
_SECTIONS = frozenset({"about", "system", "prompt", "again"})
_FIELD = re.compile(r"\{(\w+)\}")
_AGAIN = "Your previous reply to this could not be used: {complaint} Reply again, in the format that was asked for."


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """The prompt of a task. `label` is `judging/TASK@digest`; the digest changes with every byte of the file."""

    label: str
    prompt: str
    system: str = ""
    again: str = _AGAIN


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put values into the fields of a text, in one pass: braces within a value, and unknown fields, are text."""
    return _FIELD.sub(lambda field: values.get(field[1], field[0]), text)


@lru_cache(maxsize=32)
def parse(task: str, text: str) -> JudgePrompt:
    """Return the template in a file's text; UsageError for unknown, missing or repeated sections and fields."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    label = prompts.Template(f"judging/{task}", text).label
    first, *others = _HEADING.split(text)
    sections = dict(zip(others[::2], (part.strip("\n") for part in others[1::2]), strict=True))
    if unknown := sorted(sections.keys() - _SECTIONS):
        raise UsageError(
            f"judge prompt for '{task}': no section '{unknown[0]}'{did_you_mean(unknown[0], sorted(_SECTIONS))}"
        )
    if len(others) != 2 * len(sections):
        raise UsageError(f"judge prompt for '{task}': a section occurs twice")
    if first.strip() and "prompt" in sections:
        raise UsageError(f"judge prompt for '{task}': text stands before the section 'prompt'")
    prompt = sections.get("prompt", first.strip("\n"))
    if missing := [name for name in FIELDS[task] if f"{{{name}}}" not in prompt]:
        raise UsageError(
            f"judge prompt for '{task}': the field {{{missing[0]}}} is missing; "
            f"it needs {', '.join(f'{{{name}}}' for name in FIELDS[task])}"
        )
    if twice := [name for name in FIELDS[task] if prompt.count(f"{{{name}}}") > 1]:
        raise UsageError(f"judge prompt for '{task}': the field {{{twice[0]}}} occurs twice")
    for name, part in {**sections, "prompt": prompt}.items():
        _check_fields(task, name, part)
    return JudgePrompt(label, prompt, sections.get("system", ""), sections.get("again", _AGAIN))


def _check_fields(task: str, section: str, text: str) -> None:
    """UsageError for a field that nothing fills: a misspelt one would be sent as it is written."""
    if section == "about":
        return
    known = [*FIELDS[task], *OTHER_FIELDS[task], *(["complaint"] if section == "again" else [])]
    for name in _FIELD.findall(text):
        if name not in known:
            raise UsageError(
                f"judge prompt for '{task}': the section '{section}' has no field {{{name}}}"
                f"{did_you_mean(name, known)} Write {{ {name} }} for text in braces"
            )


def variants(task: Task) -> list[str]:
    """Return the names of further shipped prompts for a task, as in `--judge-prompt=score:without-rubric`."""
    names = (file.name for file in (resources.files(__package__) / "prompts").iterdir())
    return sorted(name.removeprefix(f"{task}-").removesuffix(".txt") for name in names if name.startswith(f"{task}-"))


@lru_cache(maxsize=8)
def shipped(name: str) -> str:
    """Return the text of a shipped prompt; `name` is a task, or an `Extractor.prompt`."""
    return (resources.files(__package__) / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
