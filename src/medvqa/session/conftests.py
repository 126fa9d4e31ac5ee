"""Find and load the conftest.py files of a project, for commands and the server, which run without pytest."""

from __future__ import annotations

import configparser
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

from medvqa import usercode
from medvqa.items import UsageError
from medvqa.records.run_record import RUN
from medvqa.session.registry import Registry
from medvqa.session.root import pytest_table, root_of

CONFTEST = "conftest.py"
_INI_SECTIONS: Sequence[tuple[str, str | None]] = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", None),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)
"""Files that configure pytest, in its order, and the section of each; None: a table of TOML."""


def registry(
    plugins: Iterable[Path], *, noconftest: bool = False, say: Callable[[str], None] = lambda line: None
) -> Registry:
    """Return the registry of the shipped rooms, packages, conftest.py files and the files of --plugin (UsageError).

    `say` gets a line for each conftest.py that is not read.
    """
    named = list(plugins)
    for path in named:
        if not path.is_file():
            raise UsageError(f"--plugin={path}: no such Python file")
    named = [path.resolve() for path in named]
    own, skipped = ([], []) if noconftest else found(Path.cwd())
    for file, line in skipped:
        if file not in named:
            say(f"medvqa: {line}")
    modules = []
    for file in own:
        try:
            modules.append(load(file))
        except UsageError as error:
            raise UsageError(f"{error}. --noconftest leaves out conftest.py files") from error.__cause__
    # As with hooks of pytest, the innermost conftest.py and the last --plugin come first.
    return Registry.of(reversed([*modules, *(load(file) for file in named if file not in own)]))


def found(cwd: Path) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Return the conftest.py files of a project, outermost first, and the skipped ones with a reason.

    They lie in the root, the folders from there to `cwd`, and the folders of pytest's `testpaths`. Those in a run
    folder, or in the folder around one, are skipped: they may have come with somebody's run.
    """
    root = root_of(cwd)
    above = [folder for folder in (cwd, *cwd.parents) if folder.is_relative_to(root)][::-1]
    files, skipped = list[Path](), list[tuple[Path, str]]()
    for folder in dict.fromkeys([*above, *_test_folders(root)]):
        file = (folder / CONFTEST).resolve()
        if not file.is_file() or file in files:
            continue
        if (run := _run_in(folder)) is not None:
            why = f"it may have come with the run folder {run}; if you trust it: --plugin={file}"
            skipped.append((file, f"{file} is not read: {why}"))
        else:
            files.append(file)
    return files, skipped


def load(file: Path) -> ModuleType:
    """Import a Python file as pytest would: its folder, or the one above its package, is on sys.path.

    UsageError in one line if it does not exist or raises an exception.
    """
    file = file.resolve()
    folder, names = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    # Give each file a module name of its own: several may be called conftest.py.
    name = ".".join(names) if len(names) > 1 else f"medvqa_{file.stem}_{hashlib.sha256(bytes(file)).hexdigest()[:8]}"
    spec = util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{file}: no such Python file")
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    with usercode.guarded(""):
        spec.loader.exec_module(module)
    return module


def _run_in(folder: Path) -> Path | None:
    """Return the run folder that is this folder, or lies directly in it; None without one."""
    if (folder / RUN).is_file():
        return folder
    return next((file.parent for file in sorted(folder.glob(f"*/{RUN}"))), None)


def _test_folders(root: Path) -> list[Path]:
    """Return the folders that match pytest's `testpaths`, patterns relative to the root."""
    folders = []
    for pattern in _testpaths(root):
        try:
            folders += sorted(path for path in root.glob(pattern) if path.is_dir())
        except (NotImplementedError, ValueError, OSError):
            continue  # An absolute path or no pattern: pytest itself reports it.
    return [folder for folder in folders if folder.resolve().is_relative_to(root.resolve())]


def _testpaths(root: Path) -> list[str]:
    """Return `testpaths` of the first file that configures pytest; [] if it cannot be read."""
    for name, section in _INI_SECTIONS:
        if not (root / name).is_file():
            continue
        try:
            table = _toml_table(root / name) if section is None else _ini_section(root / name, section)
        except (OSError, ValueError, UsageError, configparser.Error):
            return []
        if table is not None:
            paths = table.get("testpaths", ())
            return paths.split() if isinstance(paths, str) else [str(path) for path in paths]
    return []


def _toml_table(file: Path) -> Mapping[str, Any] | None:
    tool = pytest_table(file)
    table: Mapping[str, Any] | None = tool.get("ini_options", tool) or None
    return table


def _ini_section(file: Path, section: str) -> Mapping[str, Any] | None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read(file, encoding="utf-8")
    if parser.has_section(section):
        return parser[section]
    return {} if file.name.endswith("pytest.ini") else None
