"""What was asked for of judging, resolved: which model judges, by which settings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from medvqa import configs, engine, files, judging, records, scoring
from medvqa.configs import ModelConfig
from medvqa.items import Answer, BackendFactory, Benchmark, Item, Model, Service, Technique, UsageError
from medvqa.protocols.techniques import NEEDS

MAX_PROMPT = 2**20
"""Bytes of a prompt's file."""
SAID = Answer("\N{WHITE SQUARE}")
"""An answer that no rule can read, by which is told whether a judge would be asked."""


@dataclass(frozen=True, slots=True)
class Typed:
    """The options of judging as they were typed; None for what was not."""

    judge: str | None = None
    gap: float | None = None
    extract_with: str | None = None
    rules_first: bool = False
    prompts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judging:
    """The judge's config, and how it judges. `backends` are those that are known."""

    spec: str
    config: ModelConfig
    settings: judging.Settings
    backends: Mapping[str, BackendFactory]

    @property
    def _factory(self) -> BackendFactory:
        return self.backends[self.config.backend]

    def check(self, *, trust_remote_code: bool) -> None:
        """What can be told of the judge without making it (UsageError, DataError)."""
        with _as_judge():
            given = configs.arguments(self.config, self.backends)
            consent = getattr(self._factory, "consent", None)
            needed = consent(*given) if consent is not None else None
            if needed and not trust_remote_code:
                raise UsageError(f"'{self.spec}' {needed}. Read it; if you trust it, add --trust-remote-code")
            check = getattr(self._factory, "check", None)
            if check is not None:
                check(*given)

    def preflight(self) -> None:
        """Raise UsageError if the judge cannot run now; it may ask the network."""
        with _as_judge():
            look = getattr(self._factory, "preflight", None)
            if look is not None:
                look(*configs.arguments(self.config, self.backends))

    @property
    def service(self) -> Service | None:
        """What runs the judge, where that is something else than this process."""
        tell = getattr(self._factory, "service", None)
        with _as_judge():
            told: Service | None = tell(*configs.arguments(self.config, self.backends)) if tell is not None else None
        return told

    def notice(self, names: Sequence[str]) -> str | None:
        """What leaves this machine for the judge when answers of these benchmarks are judged, None for nothing."""
        service = self.service
        if not names or service is None or not service.remote:
            return None
        return (
            f"medvqa: questions, references and answers of {', '.join(names)} will be sent to {service.origin}, "
            "where the judge is; no images"
        )

    def make(self) -> Model:
        """The judge."""
        with _as_judge():
            return configs.build(self.config, self.backends)

    def about(self) -> dict[str, Any]:
        """What run.json says of the judge, as far as it is known before it is made."""
        return {
            "config": {
                "name": self.config.name,
                "backend": self.config.backend,
                "argument": self.config.argument,
                "options": self.config.options,
            },
            "settings": {
                "gap": self.settings.gap,
                "extract": self.settings.extract,
                "rules_first": self.settings.rules_first,
                "own_prompts": sorted(self.settings.prompts),
            },
            "templates": self.settings.templates(),
            "signature": self.settings.signature(),
        }

    @property
    def secrets(self) -> frozenset[str]:
        """The judge's keys."""
        return configs.secrets(self.config, self.backends)

    def told(self, model: Model) -> dict[str, Any]:
        """What run.json says of the judge once it is made (UsageError for wrong types)."""
        found = engine.identify(model, self.secrets)
        return {
            "name": found.name,
            "fingerprint": found.fingerprint,
            "identity": self.identity(found.name, found.fingerprint),
            "about": found.about,
        }

    def identity(self, name: str, fingerprint: str | None) -> str:
        """What names the judge in signatures: its name and 8 hex digits over its fingerprint, or over its config."""
        config = self.config
        known = fingerprint or msgspec.json.encode([config.backend, config.argument, config.options], order="sorted")
        digest = hashlib.sha256(known.encode() if isinstance(known, str) else known).hexdigest()
        return f"{name}@{digest[:8]}"

    def store(self, model: Model, shared: Path, folder: Path, session: str, *, fresh: bool) -> records.Store:
        """The replies of earlier sessions: in the store that runs share, or in the run's own folder (Unwritable).

        The own folder tells judges without a fingerprint apart by their configs.
        """
        found = engine.identify(model, self.secrets)
        fingerprint, identity = found.fingerprint, self.identity(found.name, found.fingerprint)
        backend = self.config.backend if fingerprint is not None else f"{self.config.backend} {identity}"
        writer = records.Writer(backend, found.name, fingerprint, folder.name, session, role="judge")
        store = records.own_folder(folder, records.OWN_REPLIES) if fingerprint is None else shared
        return records.Store(store, writer, fresh=fresh)


def judged(
    benchmark: Benchmark, items: Sequence[Item], techniques: Sequence[Technique], settings: judging.Settings
) -> dict[str, str]:
    """What a judge would be asked about answers to these items, by task the prompt's template; {} for nothing."""
    found: dict[str, str] = {}
    for technique in techniques:
        if technique not in benchmark.techniques or NEEDS[technique] != "generate":
            continue
        firsts = {item.kind: item for item in reversed(items) if item.answers and benchmark.applies(item, technique)}
        for item in firsts.values():
            score = scoring.by_rule(item, technique, SAID, benchmark=benchmark)
            case = judging.case_of(benchmark, item, technique, SAID, score, settings)
            if case is not None:
                found[case.task] = case.template
    return dict(sorted(found.items()))


def resolve(
    typed: Typed, *, folders: Sequence[Path], backends: Mapping[str, BackendFactory], beside: Path
) -> Judging | None:
    """The judge that was asked for, None where none was; UsageError for what does not exist.

    `folders` hold configs; `beside` is where names of files begin.
    """
    if typed.judge is None:
        for option, given in (
            ("--ff-gap", typed.gap is not None),
            ("--extract-with", typed.extract_with is not None),
            ("--rules-first", typed.rules_first),
            ("--judge-prompt", bool(typed.prompts)),
        ):
            if given:
                raise UsageError(f"{option} says how a judge judges, and there is none: add --judge=MODEL")
        return None
    with _as_judge():
        config = configs.resolve(typed.judge, folders=folders, backends=backends)
        factory = backends[config.backend]
        fitted = getattr(factory, "as_judge", None)
        config = replace(config, options=fitted(config.options)) if fitted is not None else config
    if not getattr(factory, "reads", True):
        raise UsageError(
            f"--judge={typed.judge}: '{config.backend}' does not read what it is asked, and a score is never guessed. "
            "Name a model that reads: a config of models/, or BACKEND:ARGUMENT such as --judge=openai:MODEL"
        )
    able = configs.capabilities(config, backends)
    if able is not None and "generate" not in able:
        raise UsageError(
            f"--judge={typed.judge}: a judge has to generate text; this one has: {', '.join(sorted(able)) or 'nothing'}"
        )
    judged = getattr(factory, "judged", None)
    with _as_judge():
        recorded = judged is not None and judged(*configs.arguments(config, backends))
    return Judging(typed.judge, config, replace(settings(typed, beside), recorded=recorded), backends)


def settings(typed: Typed, beside: Path) -> judging.Settings:
    """How the judge judges (UsageError)."""
    if typed.extract_with not in (None, "judge"):
        raise UsageError(f"--extract-with={typed.extract_with}: only judge can be named")
    return judging.Settings(
        gap=judging.Settings().gap if typed.gap is None else typed.gap,
        extract=typed.extract_with is not None,
        rules_first=typed.rules_first,
        prompts=_prompts(typed.prompts, beside),
    )


def _prompts(typed: Sequence[str], beside: Path) -> dict[str, str]:
    """Prompts of the user's own, by task."""
    found: dict[str, str] = {}
    for each in typed:
        task, colon, name = each.partition(":")
        if task not in judging.TASKS or not (colon and name):
            raise UsageError(f"--judge-prompt={each}: write TASK:FILE; tasks are {', '.join(judging.TASKS)}")
        if task in found:
            raise UsageError(f"--judge-prompt={each}: there is one prompt for {task} already")
        path = beside / name
        try:
            with files.reading(path) as file:
                content = file.read(MAX_PROMPT + 1)
            if len(content) > MAX_PROMPT:
                raise UsageError(f"--judge-prompt={each}: larger than {MAX_PROMPT} bytes")
            found[task] = content.decode()
        except OSError as error:
            raise UsageError(f"--judge-prompt={each}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"--judge-prompt={each}: not UTF-8 text: {error}") from None
    return found


@contextmanager
def _as_judge() -> Iterator[None]:
    """Backends say what to type for a model; for a judge it is typed elsewhere."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).replace("--model=", "--judge=")) from error
