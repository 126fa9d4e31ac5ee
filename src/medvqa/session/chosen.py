"""The chosen model or judge: its config, and its backend, which is not loaded yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from medvqa import configs
from medvqa.backend import Backend, loaded
from medvqa.benchmarks import folders
from medvqa.configs import ModelConfig
from medvqa.items import UsageError
from medvqa.records.run_record import REPLAY
from medvqa.session.project import Project

POOL = "ray"
"""The backend that --ray-address and --replicas belong to."""

WITH_COLUMNS = (REPLAY, "human")
"""The backends whose columns `--set` names."""


@dataclass(frozen=True)
class Chosen:
    """The config that `--model=SPEC` or `--judge=SPEC` names, and its backend."""

    spec: str
    role: Literal["model", "judge"]
    config: ModelConfig
    backend: Backend

    def check(self) -> None:
        """Raise UsageError if the backend's own check fails, before collection."""
        with _named(self.role):
            self.backend.check()

    def check_consent(self, *, trust_remote_code: bool) -> None:
        """Raise UsageError if the model runs code from the checkpoint without --trust-remote-code."""
        with _named(self.role):
            needed = self.backend.consent()
        if needed and not trust_remote_code:
            raise UsageError(f"'{self.spec}' {needed}. Read it; if you trust it, add --trust-remote-code")

    def preflight(self) -> None:
        """Raise UsageError if the model cannot run now. May use the network for a second or two."""
        with _named(self.role):
            self.backend.preflight()

    def load(self, concurrency: int | None = None) -> Backend:
        """Return the loaded backend; `concurrency` is the user's limit."""
        with _named(self.role):
            return loaded(self.backend, concurrency)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The keys of the backend."""
        return frozenset(self.backend.secrets())

    @property
    def answering(self) -> ModelConfig:
        """The config of the model whose answers are stored: behind a pool, that of the model that it holds.

        Its techniques, limits and prompts are those in force.
        """
        config, model = self.config, self.backend
        while model.pools and config.inner is not None:
            outer, config, model = config, config.inner, model.inner
            config = replace(config, techniques=outer.techniques, max_tokens=outer.max_tokens, prompts=outer.prompts)
        return config

    @property
    def path_name(self) -> str | None:
        """The last part of an argument that names a file or folder; None for any other."""
        model = self.backend
        while model.pools:
            model = model.inner
        return configs.path_name(self.answering, model)


def choose(
    spec: str,
    role: Literal["model", "judge"],
    project: Project,
    pool: Mapping[str, Any] | None = None,
) -> Chosen:
    """Find the config that SPEC names, in the project's models/ or among the shipped ones (UsageError).

    A model passed as an object is used unchanged, also as a judge. `pool`: the typed options of a pool (`ray:`).
    """
    registry = project.registry
    backends = registry.backends
    columns = columns_of(project.options.columns) if role == "model" else {}
    if spec in registry.models:
        model = registry.models[spec]
        for name, typed in (*((name, columns) for name in WITH_COLUMNS), (POOL, pool)):
            if typed and type(model).name == name:
                raise UsageError(f"'{spec}' was made with options of its own: give it {', '.join(typed)} there")
        if columns:
            raise _no_replay(project.options.columns[0], spec)
        return Chosen(spec, role, configs.config_of(model, spec), model)
    places = [project.root / "models", folders.bundled("models")]
    with _named(role):
        config = configs.resolve(spec, folders=places, backends=backends)
        if pool:
            config = configs.with_options(config, POOL, pool)
        if columns:
            named = [name for name in WITH_COLUMNS if name in configs.names(config)]
            if not named:
                raise _no_replay(project.options.columns[0], spec)
            config = configs.with_options(config, named[0], columns)
        if role == "judge":
            config = configs.as_judge(config, backends)
        return Chosen(spec, role, config, configs.make(config, backends))


def _no_replay(typed: str, spec: str) -> UsageError:
    return UsageError(f"--set={typed}: it needs --model=replay:FILE or human:FILE, not '{spec}'")


def columns_of(typed: Sequence[str]) -> dict[str, str]:
    """Return the columns by role of `ROLE=COLUMN` (UsageError)."""
    columns: dict[str, str] = {}
    for text in typed:
        role, sign, column = text.partition("=")
        if not sign or not role.strip():
            raise UsageError(f"--set={text}: write ROLE=COLUMN, such as --set id=question_id")
        if columns.setdefault(role.strip(), column) != column:
            raise UsageError(f"--set={text}: {role.strip()} is also set to '{columns[role.strip()]}'")
    return columns


@contextmanager
def _named(role: str) -> Iterator[None]:
    """Write --judge instead of --model in errors about a judge."""
    try:
        yield
    except UsageError as error:
        if role == "model":
            raise
        raise UsageError(str(error).replace("--model=", "--judge=")) from error
