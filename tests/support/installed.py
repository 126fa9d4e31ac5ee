"""The project as a stranger gets it: the wheel, installed into an environment of its own, and an empty folder."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
NOT_A_STRANGERS = ("anyio", "benchmark", "html", "hypothesispytest", "metadata", "randomly", "rerunfailures", "timeout")
"""Plugins of pytest that only these tests need: without them, a session starts in five sixths of the time."""


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code, and both of its streams in one text."""

    code: int
    output: str


@dataclass(frozen=True)
class Door:
    """An empty folder, and the environment into which the wheel is installed."""

    folder: Path
    environment: Path

    def write(self, name: str, text: str) -> Path:
        """Write a file of the folder, less the indentation of its lines; return its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def picture(self, name: str, colour: tuple[int, int, int], size: tuple[int, int] = (8, 8)) -> Path:
        """Write an image of one colour, in the format that its name ends with; return its path."""
        import PIL.Image

        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("RGB", size, colour).save(path)
        return path

    def run(self, command: str, **variables: str) -> Done:
        """Run a command in the folder as a user types it; `variables` are added to its environment."""
        first, *others = shlex.split(command)
        return self._run([str(self.environment / "bin" / first), *others], variables)

    def type(self, lines: str, **variables: str) -> Done:
        """Run lines of a shell in the folder, as `run`; the first line that fails ends them."""
        return self._run(["bash", "-euo", "pipefail", "-c", lines], variables)

    def _run(self, arguments: Sequence[str], variables: Mapping[str, str]) -> Done:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MEDVQA_", "PYTEST_"))}
        own |= {"PATH": f"{self.environment / 'bin'}:{own.get('PATH', '')}", "HOME": str(self.environment)}
        own |= {"OMP_NUM_THREADS": "1", "COLUMNS": "120", **variables}
        own.pop("PYTHONPATH", None)
        without = [f"-p no:{name}" for name in NOT_A_STRANGERS]
        own["PYTEST_ADDOPTS"] = " ".join([*without, variables.get("PYTEST_ADDOPTS", "")])
        done = subprocess.run(
            arguments,
            cwd=self.folder,
            env=own,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
        )
        return Done(done.returncode, done.stdout)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; everything else comes from the environment that runs the tests."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return _install(tmp_path_factory.mktemp("installed"))
    folder = tmp_path_factory.getbasetemp().parent / "installed"  # the workers share it
    with FileLock(f"{folder}.lock"):
        return folder / "environment" if folder.exists() else _install(folder)


def _install(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT], check=True)
    [wheel] = folder.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    # Files ending in .pth are not read in a folder that such a file adds: the editable install stays out.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    script = "import runpy\nrunpy.run_module('pytest', run_name='__main__', alter_sys=True)\n"
    (environment / "bin" / "pytest").write_text(f"#!{python}\n{script}")
    (environment / "bin" / "pytest").chmod(0o755)
    return environment


@pytest.fixture
def door(installed: Path, tmp_path: Path) -> Door:
    """An empty folder in which commands are run from the installed wheel."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    return Door(folder, installed)
