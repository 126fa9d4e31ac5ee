"""Describe a process of a pytest session: its role, names and setting."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from medvqa import printing
from medvqa.items import MedVQAError, UsageError
from medvqa.plugin import options
from medvqa.session.options import occupied
from medvqa.session.project import Project, reports_of

if TYPE_CHECKING:
    from medvqa.plugin.controller import Controller
    from medvqa.plugin.process_state import State
    from medvqa.session.ending import Ending
    from medvqa.session.registry import Registry

STATE: pytest.StashKey[State] = pytest.StashKey()
CONTROLLER: pytest.StashKey[Controller] = pytest.StashKey()
ENDING: pytest.StashKey[Ending] = pytest.StashKey()
"""The handling of signals in this process; there is one as soon as there is a State."""
MARKED: pytest.StashKey[set[str]] = pytest.StashKey()
"""The names in `vqa` marks of the tests that this process collected, or that its workers did."""
SHORT: pytest.StashKey[options.Short] = pytest.StashKey()
"""Which short options are medvqa's in this session."""
TERMINAL: pytest.StashKey[int] = pytest.StashKey()
"""A file descriptor of the standard output that pytest does not capture, in the process that the user started."""
_NAMES: pytest.StashKey[tuple[str, str, str]] = pytest.StashKey()
_REFUSED = {
    "each": "each worker would ask every question",
    "worksteal": "a question that is taken from a worker may be in its batch already, and would be asked twice",
}
"""Values of --dist that ask questions more than once -> reason."""


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def has_state(config: pytest.Config) -> bool:
    """Return whether this process has a State: it has collected vqa items, or checked the options."""
    return STATE in config.stash


def names_of(config: pytest.Config) -> tuple[str, str, str]:
    """Return the run, the session of the run, and the name of this process in it: a worker's id, or "main".

    The controller sends its workers the first two.
    """
    if _NAMES not in config.stash:
        workerinput: dict[str, str] | None = getattr(config, "workerinput", None)
        if workerinput is not None:
            config.stash[_NAMES] = workerinput["medvqa_run"], workerinput["medvqa_session"], workerinput["workerid"]
        else:
            config.stash[_NAMES] = _run_name(config), secrets.token_hex(4), "main"
    return config.stash[_NAMES]


def _run_name(config: pytest.Config) -> str:
    typed_options = options.read(config)
    if typed_options.run is not None:
        return typed_options.run
    from medvqa.session.run import name_of

    return name_of(typed_options, config.rootpath)


def collects_only(config: pytest.Config) -> bool:
    """Return whether the session runs no test: `--collect-only`, `--fixtures` or `--fixtures-per-test`."""
    names = ("collectonly", "showfixtures", "show_fixtures_per_test")
    return any(bool(_option(config, name)) for name in names)


def registry_of(config: pytest.Config) -> Registry:
    """Collect the registry of the shipped rooms, conftest.py files and plugins (UsageError)."""
    # Imported here: pytest loads this file in every repository.
    from medvqa.session.registry import Registry

    # Later plugins come first, as in pytest's hook calls.
    plugins = [plugin for _, plugin in reversed(config.pluginmanager.list_name_plugin()) if plugin is not None]
    return Registry.of(plugins)


def run_folder_of(config: pytest.Config) -> Path:
    """Return the run folder, defined even in a session without vqa items."""
    return reports_of(config.rootpath) / names_of(config)[0]


def project_of(config: pytest.Config) -> Project:
    """Return the project of the session: folders, names, options, workers and selection (UsageError)."""
    return Project(
        root=config.rootpath,
        cwd=Path(config.invocation_params.dir),
        registry=registry_of(config),
        options=options.read(config),
        workers=_workers(config),
        stops_early=bool(config.getoption("maxfail")),
        collects_only=collects_only(config),
        selects=_selects(config),
        by_outcome=bool(_option(config, "lf") or _option(config, "stepwise")),
    )


SHOWN_PATHS = 3
"""Most typed paths and node ids that run.json repeats."""


def _selects(config: pytest.Config) -> tuple[str, ...]:
    """Return the options that select tests, as they are typed."""
    # A file or a test is a selection; a folder or package is not.
    paths = [path for path in config.option.file_or_dir if "::" in path or path.endswith(".py")]
    typed_options = options.read(config)
    more = [f"and {len(paths) - SHOWN_PATHS} more"] if len(paths) > SHOWN_PATHS else []
    pairs = [("-k", config.option.keyword), ("-m", config.option.markexpr)]
    flags = [("--lf", _option(config, "lf")), ("--sw", _option(config, "stepwise"))]
    valued = [
        *(("--deselect", prefix) for prefix in _option(config, "deselect") or ()),
        ("--limit", typed_options.limit),
        ("--shard", typed_options.shard),
    ]
    return (
        *(f'{name} "{value}"' if set(value) & set(" ()") else f"{name} {value}" for name, value in pairs if value),
        *(name for name, value in flags if value),
        *(f"{name}={value}" for name, value in valued if value is not None),
        *paths[:SHOWN_PATHS],
        *more,
    )


def _option(config: pytest.Config, name: str) -> Any:
    """Return the value of an option of one of pytest's own plugins, None if that plugin is blocked."""
    return config.getoption(name, None)


def _workers(config: pytest.Config) -> int:
    """Return the number of xdist workers, 0 for a serial run. A multiple in --tx ("3*popen") counts once."""
    if config.getoption("dist", "no") == "no" or collects_only(config):
        return 0
    return len(config.getoption("tx", None) or ())


def spread_of(config: pytest.Config) -> str:
    """Return the value of `--dist`, "no" in a serial run. Workers get it from the controller, not from xdist."""
    workerinput: dict[str, str] = getattr(config, "workerinput", {})
    return workerinput.get("medvqa_dist") or (str(config.option.dist) if _workers(config) else "no")


def check_spread(config: pytest.Config) -> None:
    """Raise UsageError for a --dist that would ask questions more than once."""
    spread = spread_of(config)
    if spread in _REFUSED:
        raise UsageError(f"--dist={spread}: {_REFUSED[spread]}. Type --dist=load")


def occupy(config: pytest.Config, place: str | None) -> None:
    """Show this process only the devices of its place until the session ends; None changes nothing."""
    if place is None:
        return
    stack = ExitStack()
    stack.enter_context(occupied(place))
    config.add_cleanup(stack.close)


def print_safely(config: pytest.Config) -> None:
    """Make the output of the terminal reporter printable: it repeats answers, names, cells and messages."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not isinstance(reporter._tw._file, printing.PrintableStream):
        reporter._tw._file = printing.PrintableStream(
            reporter._tw._file, terminal=reporter.isatty or reporter.hasmarkup
        )


def short_of(config: pytest.Config) -> options.Short:
    """Return the short options. There are none if the plugin was loaded after the command line was read."""
    return config.stash.get(SHORT, options.Short())


def refusal(config: pytest.Config) -> str | None:
    """Return why no question must be asked in this session (`options.refusal`). Workers get it from the controller."""
    workerinput: dict[str, str | None] | None = getattr(config, "workerinput", None)
    return workerinput["medvqa_refusal"] if workerinput is not None else options.refusal(short_of(config), config)


def usage_error(error: MedVQAError, config: pytest.Config) -> pytest.UsageError:
    """Return the error as pytest.UsageError, which pytest prints unchanged; with --tb=long, after tracebacks."""
    lines = [str(error)]
    if wants_tracebacks(config):
        from medvqa import usercode

        lines.insert(0, usercode.take_tracebacks())
    return pytest.UsageError(printing.lines("\n".join(filter(None, lines))))


def wants_tracebacks(config: pytest.Config) -> bool:
    """Return whether --tb=long was typed: errors of users' code are then shown with tracebacks."""
    return bool(config.getoption("tbstyle", None) == "long")
