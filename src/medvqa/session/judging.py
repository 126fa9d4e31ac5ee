"""The judge of a run: its model and its settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from medvqa import decode, judging, scoring
from medvqa.backend import ModelFacts, destinations
from medvqa.backends.reaching import routes
from medvqa.items import Answer, AnswerError, Benchmark, Item, Score, Technique, UsageError
from medvqa.protocols.protocol import NEEDS
from medvqa.records.run_record import RecordedConfig, RecordedJudge, RecordedSettings
from medvqa.session.chosen import Chosen, choose
from medvqa.session.options import Options
from medvqa.session.project import Project

MAX_PROMPT = 2**20
"""Bytes of a prompt's file."""
UNREADABLE = Answer("\N{WHITE SQUARE}")
"""An answer that no rule can read: if a judge is asked about any answer to a question, it is asked about this one."""


@dataclass(frozen=True)
class Judging:
    """The chosen judge, and its settings."""

    chosen: Chosen
    settings: judging.Settings

    @property
    def spec(self) -> str:
        """The value of `--judge`."""
        return self.chosen.spec

    def notice(self, names: Sequence[str]) -> str | None:
        """Return a line about data sent to the judge's server; None if nothing leaves this machine."""
        origins = destinations(self.chosen.backend)
        if not names or not origins:
            return None
        return (
            f"medvqa: questions, references and answers of {', '.join(names)} will be sent to {routes(origins)}, "
            "where the judge is; no images"
        )

    def recorded(self) -> RecordedJudge:
        """Return the judge in the run's record, as far as it is known before it is loaded."""
        config = self.chosen.answering
        return RecordedJudge(
            config=RecordedConfig(config.name, config.backend, config.argument, dict(config.options)),
            settings=RecordedSettings(
                gap=self.settings.gap,
                extract=self.settings.extract,
                rules_first=self.settings.rules_first,
                own_prompts=tuple(sorted(self.settings.prompts)),
            ),
            templates=self.settings.templates(),
            signature=self.settings.signature(),
        )

    def loaded(self, facts: ModelFacts) -> dict[str, Any]:
        """Return the judge's fields in run.json that are known once it is loaded."""
        return {
            "name": facts.title,
            "fingerprint": facts.fingerprint,
            "identity": self.signed(facts),
            "about": facts.about,
        }

    def signed(self, facts: ModelFacts) -> str:
        """Return the judge's name in signatures: its name, and 8 hex digits of a hash of its fingerprint or config."""
        config = self.chosen.answering
        inner = () if config.inner is None else (config.inner,)
        config_json = msgspec.json.encode([config.backend, config.argument, config.options, *inner], order="sorted")
        identifying = facts.fingerprint.encode() if facts.fingerprint else config_json
        return f"{facts.title}@{hashlib.sha256(identifying).hexdigest()[:8]}"


def judged(
    benchmark: Benchmark,
    items: Sequence[Item],
    techniques: Sequence[Technique],
    settings: judging.Settings | None = None,
) -> dict[str, str]:
    """Return the prompts of a judge about answers to these items, as task -> template; {} if it is not asked."""
    templates: dict[str, str] = {}
    for technique in techniques:
        if technique not in benchmark.techniques or NEEDS[technique] != "generate":
            continue
        firsts: dict[str, Item] = {}
        for item in items:
            if item.kind not in firsts and item.answers and benchmark.applies(item, technique):
                firsts[item.kind] = item
        for item in firsts.values():
            try:
                score = scoring.by_rule(item, technique, UNREADABLE, benchmark=benchmark)
            except AnswerError:
                # A user's scoring may fail on an answer that is made up.
                score = Score(0.0, "unparsed")
            case = judging.case_of(benchmark, item, technique, UNREADABLE, score, settings or judging.Settings())
            if case is not None:
                templates[case.task] = case.template
    return dict(sorted(templates.items()))


def resolve(project: Project, pool: Mapping[str, Any] | None = None) -> Judging | None:
    """Return the judge that --judge names; None without --judge. UsageError if it does not exist.

    `pool`: the typed options of a pool (`ray:`).
    """
    options = project.options
    if options.judge is None:
        for option, typed in (
            ("--ff-gap", options.ff_gap is not None),
            ("--extract-with", options.extract_with is not None),
            ("--rules-first", options.rules_first),
            ("--judge-prompt", bool(options.judge_prompts)),
        ):
            if typed:
                raise UsageError(f"{option} says how a judge judges, and there is none: add --judge=MODEL")
        return None
    chosen = choose(options.judge, "judge", project, pool)
    if not chosen.backend.reads:
        raise UsageError(
            f"--judge={options.judge}: '{chosen.config.backend}' does not read what it is asked, and a score is never "
            "guessed. Name a model that reads: a config of models/, or BACKEND:ARGUMENT such as --judge=openai:MODEL"
        )
    able = chosen.backend.capabilities
    if able is not None and "generate" not in able:
        raise UsageError(
            f"--judge={options.judge}: a judge has to generate text; this one has: "
            f"{', '.join(sorted(able)) or 'nothing'}"
        )
    return Judging(chosen, replace(settings_of(options, project.cwd), recorded=chosen.backend.judged()))


def settings_of(options: Options, beside: Path) -> judging.Settings:
    """Return the judge's settings; `beside` is the folder of relative file names (UsageError)."""
    if options.extract_with not in (None, "judge"):
        raise UsageError(f"--extract-with={options.extract_with}: write --extract-with=judge, or leave it out")
    return judging.Settings(
        gap=judging.Settings().gap if options.ff_gap is None else options.ff_gap,
        extract=options.extract_with is not None,
        rules_first=options.rules_first,
        prompts=_prompts(options.judge_prompts, beside),
    )


def _prompts(typed: Sequence[str], beside: Path) -> dict[str, str]:
    """Read the user's own prompts, by task."""
    prompts: dict[str, str] = {}
    for written in typed:
        where = f"--judge-prompt={written}"
        task, colon, name = written.partition(":")
        if task not in judging.TASKS or not (colon and name):
            raise UsageError(f"{where}: write TASK:FILE; tasks are {', '.join(judging.TASKS)}")
        if task in prompts:
            raise UsageError(f"{where}: there is one prompt for {task} already")
        path = beside / name
        if name in judging.variants(task) and not path.exists():
            prompts[task] = judging.shipped(f"{task}-{name}")
            continue
        try:
            content = decode.read(path, where, MAX_PROMPT)
        except UsageError as error:
            names = ", ".join(f"{task}:{variant}" for variant in judging.variants(task))
            raise UsageError(f"{error}; the prompts that ship are {names}" if names else str(error)) from None
        prompts[task] = decode.text_of(content, where)
    return prompts
