"""What a process of a session is: its role, and its state once something needed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from medvqa.plugin import options

if TYPE_CHECKING:
    from medvqa.plugin.controller import Controller
    from medvqa.plugin.state import State

CONTROLLER: pytest.StashKey[Controller] = pytest.StashKey()
_STATE: pytest.StashKey[State] = pytest.StashKey()


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def has_state(config: pytest.Config) -> bool:
    """Whether this process has had to do with vqa items."""
    return _STATE in config.stash


def state_of(config: pytest.Config) -> State:
    """The state of this process, made when it is first needed (UsageError, DataError)."""
    if not has_state(config):
        from medvqa.plugin.state import State

        told: dict[str, str] | None = getattr(config, "workerinput", None)
        run = told["medvqa_run"] if told is not None else config.stash[CONTROLLER].run
        config.stash[_STATE] = State(config, options.read(config), run)
    return config.stash[_STATE]
