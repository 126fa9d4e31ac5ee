"""What a session prints at its end on a terminal, and into a pipe."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from medvqa.report.terminal import can_draw
from support.strangers import CONFTEST, TEST

WIDE = 130
COMMAND = (sys.executable, "-m", "pytest", "--model=stubborn:A", "-p", "no:randomly", "-p", "no:benchmark")


def on_a_terminal(folder: Path, environment: dict[str, str]) -> str:
    """What the session prints on a terminal of its own."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(COMMAND, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.STDOUT):
        os.close(theirs)
        printed = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody writes there any more
                break
            if not more:
                break
            printed += more
    os.close(ours)
    return printed.decode()


@pytest.mark.slow
def test_a_terminal_gets_bars_and_a_pipe_does_not(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_slake.py").write_text(TEST)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    environment = kept | {"COLUMNS": str(WIDE), "PYTHONIOENCODING": "utf-8"}
    printed = on_a_terminal(tmp_path, environment)
    assert "━━━━━━┼" in printed
    assert max(len(line) for line in printed.splitlines() if "━" in line) <= WIDE
    assert not set("━┼") & set(on_a_terminal(tmp_path, environment | {"PYTHONIOENCODING": "ascii"}))
    piped = subprocess.run(COMMAND, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
    assert "slake" in piped
    assert not set("━┼") & set(piped)


@pytest.mark.parametrize(
    ("encoding", "can"), [("utf-8", True), ("cp437", False), ("ascii", False), (None, False), ("no-such", False)]
)
def test_bars_need_their_characters(encoding: str | None, can: bool) -> None:
    assert can_draw(encoding) is can
