"""The user's settings for judging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from medvqa.decode import did_you_mean
from medvqa.items import OPTION_TECHNIQUES, Benchmark, Extractor, Technique, UsageError
from medvqa.judging.templates import TASKS, JudgePrompt, Task, parse, shipped

LOWEST, HIGHEST = 1.0, 10.0
"""The scale of closeness."""

RECORDED = "recorded"
"""Replaces "judging" in the names of templates if replies were recorded without their prompts."""

VERSION = "1"
"""Version of fences, limits and reading, part of every signature. Raise it when prompts from the same files, or the
reading of replies, may change."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for judging, part of the signature of every measure of a judged run.

    `gap` is the lead in closeness (inclusive) that makes an option the answer, 0 to 9. `extract` lets the judge read
    options if rules find none. `rules_first` lets rules score an answer if they are certain. `prompts` maps tasks
    to the texts of the user's own prompt files. `recorded`: replies come from a file without their prompts; templates
    are then called `recorded/TASK`. Raises UsageError for invalid settings.
    """

    gap: float = 3.0
    extract: bool = False
    rules_first: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    recorded: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for invalid settings, before a prompt is sent."""
        if not 0 <= self.gap <= HIGHEST - LOWEST:
            raise UsageError(f"--ff-gap={self.gap:g}: a lead on the scale from 1 to 10 is 0 to 9 points")
        if unknown := sorted(set(self.prompts) - set(TASKS)):
            raise UsageError(f"--judge-prompt: no task '{unknown[0]}'{did_you_mean(unknown[0], TASKS)}")
        for task in TASKS:
            self.template(task)

    def template(self, task: Task, extractor: Extractor | None = None) -> JudgePrompt:
        """Return the template for a task: the user's own, else the benchmark owners', else the project's."""
        if task in self.prompts:
            template = parse(task, self.prompts[task])
        else:
            template = parse(task, shipped(task if extractor is None else extractor.prompt))
        return replace(template, label=f"{RECORDED}/{task}") if self.recorded else template

    def templates(self) -> dict[str, str]:
        """Return `judging/TASK@digest` of the template in force, by task."""
        return {task: self.template(task).label for task in TASKS}

    def signature(self, benchmark: Benchmark | None = None, technique: Technique | None = None) -> dict[str, str]:
        """Return the part of a measure's signature about judging, without the judge's name and fingerprint.

        For a benchmark, or a technique of it, only settings that can change its numbers count: prompts that are never
        sent do not distinguish runs. {} if no judge is used; then the signature has no judge's name either.
        """
        parts: dict[str, str] = {}
        used: list[JudgePrompt] = []
        if technique in OPTION_TECHNIQUES:
            return parts
        if benchmark is None or benchmark.judged:
            used.append(self.template("score"))
            if self.rules_first:
                parts["rules"] = "first"
        if technique in (None, "ff") and (benchmark is None or "ff" in benchmark.techniques):
            used.append(self.template("closeness"))
            parts["ff_gap"] = f"{self.gap:g}"
        if self.extract and technique != "ff":
            used.append(self.template("options"))
            if benchmark is not None and benchmark.owners.extractor is not None:
                used.append(self.template("options", benchmark.owners.extractor))
            parts["extract"] = "judge"
        if used:
            parts["judge_prompts"] = "+".join(sorted({template.label for template in used}))
            parts["judging"] = VERSION
        return parts
