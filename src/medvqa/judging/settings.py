"""What a user may change about judging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from medvqa.items import OPTION_TECHNIQUES, Benchmark, Extractor, Technique, UsageError
from medvqa.judging.templates import TASKS, JudgePrompt, Task, parse, shipped

LOWEST, HIGHEST = 1.0, 10.0
"""The scale of closeness."""

RECORDED = "recorded"
"""Stands for "judging" in the names of templates of replies that were recorded without their prompts."""

VERSION = "1"
"""Version of fences, limits and reading, part of every signature: raised when the same prompt files may be sent or
read otherwise."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How answers are judged; part of the signature of every measure of a judged run.

    `gap` is the lead in closeness (inclusive) by which an option is the answer, 0 to 9. `extract` lets the judge read
    options where rules found none. `rules_first` lets rules decide what they are certain of. `prompts` holds the
    user's own prompts: the text of a file by task. `recorded`: replies are from a file that does not tell by which
    prompt they were had; templates are then called `recorded/TASK`. Raises UsageError for what cannot be used.
    """

    gap: float = 3.0
    extract: bool = False
    rules_first: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    recorded: bool = False

    def __post_init__(self) -> None:
        """Check everything before anything is asked."""
        if not 0 <= self.gap <= HIGHEST - LOWEST:
            raise UsageError(f"--ff-gap={self.gap:g}: a lead on the scale from 1 to 10 is 0 to 9 points")
        if unknown := sorted(set(self.prompts) - set(TASKS)):
            raise UsageError(f"--judge-prompt: no task '{unknown[0]}'; there are: {', '.join(TASKS)}")
        for task in TASKS:
            self.template(task)

    def template(self, task: Task, extractor: Extractor | None = None) -> JudgePrompt:
        """The template in force for a task: the user's own, that of a benchmark's owners, or the project's."""
        if task in self.prompts:
            template = parse(task, self.prompts[task])
        else:
            template = parse(task, shipped(task if extractor is None else extractor.prompt))
        return replace(template, label=f"{RECORDED}/{task}") if self.recorded else template

    def templates(self) -> dict[str, str]:
        """`judging/TASK@digest` of the text in force, by task."""
        return {task: self.template(task).label for task in TASKS}

    def signature(self, benchmark: Benchmark | None = None, technique: Technique | None = None) -> dict[str, str]:
        """What enters a measure's signature beside the judge's name and fingerprint.

        For a benchmark, or a technique of it, only what can change its numbers: a prompt that is never sent keeps no
        two runs apart. {} where no judge is asked, so that the judge's name does not belong there either.
        """
        found: dict[str, str] = {}
        used: list[JudgePrompt] = []
        if technique in OPTION_TECHNIQUES:
            return found
        if benchmark is None or benchmark.judged:
            used.append(self.template("score"))
            if self.rules_first:
                found["rules"] = "first"
        if technique in (None, "ff") and (benchmark is None or "ff" in benchmark.techniques):
            used.append(self.template("closeness"))
            found["ff_gap"] = f"{self.gap:g}"
        if self.extract and technique != "ff":
            used.append(self.template("options"))
            if benchmark is not None and benchmark.extractor is not None:
                used.append(self.template("options", benchmark.extractor))
            found["extract"] = "judge"
        if used:
            found["judge_prompts"] = "+".join(sorted({template.label for template in used}))
            found["judging"] = VERSION
        return found
