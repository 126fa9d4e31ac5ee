"""What a process of a session is: its role, and its state once something needed one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from medvqa import printing
from medvqa.items import MedVQAError
from medvqa.session import options

if TYPE_CHECKING:
    from medvqa.plugin.controller import Controller
    from medvqa.session.asker import State

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable that says which GPUs a process sees; CUDA reads it when it is first used."""
CONTROLLER: pytest.StashKey[Controller] = pytest.StashKey()
_STATE: pytest.StashKey[State] = pytest.StashKey()


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def occupy(config: pytest.Config, place: str | None) -> None:
    """Let this process see the devices of its place alone, for as long as the session lasts; None: as it is."""
    if place is None:
        return
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = place
    config.add_cleanup(lambda: _restore(before))


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(VISIBLE, None)
    else:
        os.environ[VISIBLE] = before


def has_state(config: pytest.Config) -> bool:
    """Whether this process has had to do with vqa items."""
    return _STATE in config.stash


def print_safely(config: pytest.Config) -> None:
    """Let the terminal reporter write what is printable alone: it repeats answers, names, cells and messages."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not isinstance(reporter._tw._file, printing.PrintableStream):
        reporter._tw._file = printing.PrintableStream(
            reporter._tw._file, terminal=reporter.isatty or reporter.hasmarkup
        )


def usage_error(error: MedVQAError) -> pytest.UsageError:
    """The error as pytest's own, which pytest prints as it is, without its reporter."""
    return pytest.UsageError(printing.lines(str(error)))


def state_of(config: pytest.Config) -> State:
    """The state of this process, made when it is first needed (UsageError, DataError)."""
    if not has_state(config):
        print_safely(config)
        from medvqa.session.asker import State

        told: dict[str, str] | None = getattr(config, "workerinput", None)
        if told is not None:
            names = told["medvqa_run"], told["medvqa_session"], told["workerid"]
        else:
            names = config.stash[CONTROLLER].run, config.stash[CONTROLLER].session, "main"
        config.stash[_STATE] = State(config, options.read(config), *names)
    return config.stash[_STATE]
