"""What a process of a pytest session is: its role, its names, and whether it has had to do with vqa items."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from medvqa import printing
from medvqa.items import MedVQAError, UsageError
from medvqa.plugin import options
from medvqa.session.options import Setting, occupied

if TYPE_CHECKING:
    from medvqa.plugin.state import State

STATE: pytest.StashKey[State] = pytest.StashKey()
MARKED: pytest.StashKey[set[str]] = pytest.StashKey()
"""The names in `vqa` marks of the tests that this process collected, or that its workers did."""
_NAMES: pytest.StashKey[tuple[str, str, str]] = pytest.StashKey()
_REFUSED = {
    "each": "each worker would ask every question",
    "worksteal": "a question that is taken from a worker may be in its batch already, and would be asked twice",
}
"""Ways of xdist to spread tests by which questions are asked more than once."""


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def has_state(config: pytest.Config) -> bool:
    """Whether this process has had to do with vqa items: then `config.stash[STATE]` is there."""
    return STATE in config.stash


def names_of(config: pytest.Config) -> tuple[str, str, str]:
    """The run, the session of the run, and the name of this process in it: a worker's id, or "main".

    The controller tells its workers the first two.
    """
    if _NAMES not in config.stash:
        told: dict[str, str] | None = getattr(config, "workerinput", None)
        if told is not None:
            config.stash[_NAMES] = told["medvqa_run"], told["medvqa_session"], told["workerid"]
        else:
            config.stash[_NAMES] = _run_name(config), secrets.token_hex(4), "main"
    return config.stash[_NAMES]


def _run_name(config: pytest.Config) -> str:
    typed = options.read(config)
    if typed.run is not None:
        return typed.run
    from medvqa.session.run import name_of

    return name_of(typed, setting_of(config))


def setting_of(config: pytest.Config) -> Setting:
    """Where the session takes place."""
    return Setting(
        root=config.rootpath,
        cwd=Path(config.invocation_params.dir),
        workers=_workers(config),
        stops_early=bool(config.getoption("maxfail")),
        collects_only=bool(config.option.collectonly),
        selects=_selects(config),
        by_outcome=bool(_option(config, "lf") or _option(config, "stepwise")),
    )


SHOWN_PATHS = 3
"""Paths and node ids that run.json repeats of those typed."""


def _selects(config: pytest.Config) -> tuple[str, ...]:
    """The options by which the user chose among the tests, as they are typed."""
    # A folder or package is where the tests are; a file, or a test, is a choice among them.
    paths = [each for each in config.option.file_or_dir if "::" in each or each.endswith(".py")]
    asked = options.read(config)
    more = [f"and {len(paths) - SHOWN_PATHS} more"] if len(paths) > SHOWN_PATHS else []
    pairs = [("-k", config.option.keyword), ("-m", config.option.markexpr)]
    flags = [("--lf", _option(config, "lf")), ("--sw", _option(config, "stepwise"))]
    valued = [
        *(("--deselect", each) for each in _option(config, "deselect") or ()),
        ("--limit", asked.limit),
        ("--shard", asked.shard),
    ]
    return (
        *(f'{name} "{value}"' if set(value) & set(" ()") else f"{name} {value}" for name, value in pairs if value),
        *(name for name, value in flags if value),
        *(f"{name}={value}" for name, value in valued if value is not None),
        *paths[:SHOWN_PATHS],
        *more,
    )


def _option(config: pytest.Config, name: str) -> Any:
    """The value of an option of a plugin of pytest's own, None where that plugin is blocked."""
    return config.getoption(name, None)


def _workers(config: pytest.Config) -> int:
    """How many workers xdist was asked for, 0 for a serial run. What --tx multiplies ("3*popen") counts once."""
    if config.getoption("dist", "no") == "no" or config.option.collectonly:
        return 0
    return len(config.getoption("tx", None) or ())


def spread_of(config: pytest.Config) -> str:
    """What `--dist` says, "no" in a serial run; xdist keeps it from workers, which the controller tells."""
    told: dict[str, str] = getattr(config, "workerinput", {})
    return told.get("medvqa_dist") or (str(config.option.dist) if _workers(config) else "no")


def check_spread(config: pytest.Config) -> None:
    """UsageError for a way of spreading tests by which questions are asked more than once."""
    spread = spread_of(config)
    if spread in _REFUSED:
        raise UsageError(f"--dist={spread}: {_REFUSED[spread]}. Type --dist=load")


def occupy(config: pytest.Config, place: str | None) -> None:
    """Show this process only the devices of its place, as long as the session lasts; None changes nothing."""
    if place is None:
        return
    stack = ExitStack()
    stack.enter_context(occupied(place))
    config.add_cleanup(stack.close)


def print_safely(config: pytest.Config) -> None:
    """Let the terminal reporter write printable text alone: it repeats answers, names, cells and messages."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not isinstance(reporter._tw._file, printing.PrintableStream):
        reporter._tw._file = printing.PrintableStream(
            reporter._tw._file, terminal=reporter.isatty or reporter.hasmarkup
        )


def usage_error(error: MedVQAError, config: pytest.Config) -> pytest.UsageError:
    """Return the error as pytest's own, which pytest prints as it is; with --tb=long, after tracebacks."""
    lines = [str(error)]
    if wants_tracebacks(config):
        from medvqa import usercode

        lines.insert(0, usercode.take_tracebacks())
    return pytest.UsageError(printing.lines("\n".join(filter(None, lines))))


def wants_tracebacks(config: pytest.Config) -> bool:
    """Whether --tb=long was typed: then errors of users' code are shown with their tracebacks."""
    return bool(config.getoption("tbstyle", None) == "long")
