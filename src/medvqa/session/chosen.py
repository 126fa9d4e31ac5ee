"""A model or judge that was chosen: its config, and what its backend tells of it before it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from medvqa import configs
from medvqa.configs import ModelConfig
from medvqa.data import folders
from medvqa.items import BackendFactory, Model, Service, TokenLimits, UsageError
from medvqa.session.options import Setting


@dataclass(frozen=True)
class Chosen:
    """The config that `--model=SPEC` or `--judge=SPEC` names. `backends` are those that are known."""

    spec: str
    role: Literal["model", "judge"]
    config: ModelConfig
    backends: Mapping[str, BackendFactory]

    @property
    def factory(self) -> BackendFactory:
        """The backend."""
        return self.backends[self.config.backend]

    @property
    def given(self) -> tuple[Any, ...]:
        """What the backend's members are called with."""
        return configs.arguments(self.config, self.backends)

    def _told(self, name: str, default: Any = None) -> Any:
        with _named(self.role):
            tell = getattr(self.factory, name, None)
            return default if tell is None else tell(*self.given)

    def check(self) -> None:
        """UsageError for what the backend finds wrong before anything is collected."""
        self._told("check")

    def check_consent(self, *, trust_remote_code: bool) -> None:
        """UsageError if it needs code of its own that the user has not allowed."""
        needed = self._told("consent")
        if needed and not trust_remote_code:
            raise UsageError(f"'{self.spec}' {needed}. Read it; if you trust it, add --trust-remote-code")

    def preflight(self) -> None:
        """UsageError if it cannot run now. May ask the network, for a second or two."""
        self._told("preflight")

    def make(self) -> Model:
        """The model."""
        with _named(self.role):
            return configs.build(self.config, self.backends)

    @cached_property
    def service(self) -> Service | None:
        """What runs it, if that is something else than this process."""
        told: Service | None = self._told("service")
        return told

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Its keys."""
        return configs.secrets(self.config, self.backends)

    @property
    def capabilities(self) -> frozenset[str] | None:
        """What it can do; None if that is known only once it was made."""
        return configs.capabilities(self.config, self.backends)

    @property
    def token_limits(self) -> TokenLimits | None:
        """How it limits answers in words; None if it takes no limit."""
        return configs.token_limits(self.config, self.backends)

    @property
    def draws(self) -> bool:
        """Whether equal prompts may be answered differently."""
        return bool(self._told("draws", default=True))

    @property
    def samples(self) -> int:
        """How many numbered samples of each answer were recorded; 0 for none."""
        return int(self._told("samples") or 0)

    @property
    def judged(self) -> bool:
        """Whether it replays answers that were recorded with the scores of a judge."""
        return bool(self._told("judged"))

    @property
    def recorded(self) -> bool:
        """Whether its answers were given before the run."""
        return bool(getattr(self.factory, "recorded", False))

    @property
    def reads(self) -> bool:
        """Whether its answers come from the text of the prompt."""
        return bool(getattr(self.factory, "reads", True))

    @property
    def looks(self) -> bool:
        """Whether it looks at images."""
        return bool(getattr(self.factory, "looks", False))

    @property
    def size(self) -> int | None:
        """Bytes of its weights; None if unknown."""
        return configs.size(self.config, self.backends)

    @property
    def places(self) -> Sequence[str] | None:
        """Devices that can each hold one copy; None if it takes none."""
        told: Sequence[str] | None = self._told("places")
        return told

    def memory(self, place: str) -> int | None:
        """Bytes that a place holds; None if unknown."""
        measure: Callable[[str], int | None] = getattr(self.factory, "memory", lambda _: None)
        return measure(place)

    @property
    def path_name(self) -> str | None:
        """The last part of an argument that names a file or folder; None for any other."""
        return configs.path_name(self.config, self.backends)


def choose(
    spec: str, role: Literal["model", "judge"], setting: Setting, backends: Mapping[str, BackendFactory]
) -> Chosen:
    """Find the config that SPEC names: the repository's, or a bundled one (UsageError)."""
    places = [setting.root / "models", folders.bundled("models")]
    with _named(role):
        config = configs.resolve(spec, folders=places, backends=backends)
        if role == "judge" and (fitted := getattr(backends[config.backend], "as_judge", None)) is not None:
            config = replace(config, options=fitted(config.options))
    return Chosen(spec, role, config, backends)


@contextmanager
def _named(role: str) -> Iterator[None]:
    """Let errors of a judge say --judge where they say --model."""
    try:
        yield
    except UsageError as error:
        if role == "model":
            raise
        raise UsageError(str(error).replace("--model=", "--judge=")) from error
