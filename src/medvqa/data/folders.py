"""Files of a data folder, and the folders that a user edits: tests of benchmarks, model configs, the phantom's data.

In the repository the latter stand at the top; the wheel carries them inside `medvqa.suite`, so that
`pytest --pyargs medvqa.suite.benchmark_tests` runs in any folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from medvqa.items import UsageError


def bundled(name: Literal["benchmark_tests", "models", "fixtures"]) -> Path:
    """The absolute path of a bundled folder: in `medvqa/suite`, or in the repository of an editable install.

    UsageError when it lies in neither, as in an installation that was not made from the wheel.
    """
    here = Path(__file__).resolve()
    candidates = (here.parents[1] / "suite" / name, here.parents[3] / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    tried = " and ".join(str(candidate) for candidate in candidates)
    raise UsageError(f"the folder '{name}' of pytest-medvqa is missing, tried {tried}; install pytest-medvqa again")


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts part_2 before part_10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part)


def files_with_word(folder: Path, ending: str, word: str) -> list[Path]:
    """The files of a folder with this ending whose names hold a word, as `val` in `GMAI_VAL.tsv`, in natural order."""
    found = (path for path in folder.glob(f"*{ending}") if path.is_file())
    return sorted(
        (path for path in found if word in re.split(r"[^a-z]+", path.stem.lower())), key=lambda path: natural(path.name)
    )
