"""Files of a data folder, and folders that ship: tests of benchmarks, model configs, the phantom's data, documentation.

In the repository the latter are at the top. The wheel has them in `medvqa.suite`, so that
`pytest --pyargs medvqa.suite.benchmark_tests` runs in any folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from medvqa import printing
from medvqa.items import UsageError

LMU_DATA = "LMUData"
"""VLMEvalKit's environment variable, and the folder's name in the home folder."""
NEIGHBOURS = 50
"""Folders inside of a data folder that are searched for data sets, one level down."""
SHOWN = 8
"""Entries of a folder that a message names."""


def bundled(name: Literal["benchmark_tests", "docs", "fixtures", "models"]) -> Path:
    """Return the absolute path of a bundled folder: in `medvqa/suite`, or in the repository of an editable install.

    UsageError if it is in neither, as in an installation without the wheel.
    """
    here = Path(__file__).resolve()
    candidates = (here.parents[1] / "suite" / name, here.parents[3] / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    tried = " and ".join(str(candidate) for candidate in candidates)
    raise UsageError(f"the folder '{name}' of pytest-medvqa is missing, tried {tried}; install pytest-medvqa again")


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that puts part_2 before part_10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part)


def files_with_word(folder: Path, ending: str, word: str) -> list[Path]:
    """Return files with this ending and a word in their names, as `val` in `GMAI_VAL.tsv`, in natural order."""
    paths = (path for path in folder.glob(f"*{ending}") if path.is_file())
    return sorted(
        (path for path in paths if word in re.split(r"[^a-z]+", path.stem.lower())), key=lambda path: natural(path.name)
    )


def lmu_data() -> Path | None:
    """Return the folder where VLMEvalKit keeps its tables: the variable LMUData, else ~/LMUData; None if there is none.

    https://github.com/open-compass/VLMEvalKit/blob/895762d302b923d9d1f24ac16a7a2cbc461bb1cf/vlmeval/smp/file.py
    """
    named = os.environ.get(LMU_DATA)
    folder = named if named and os.path.exists(named) else os.path.expanduser(f"~/{LMU_DATA}")
    return Path(os.path.realpath(folder)) if os.path.isdir(folder) else None


def neighbours(data: Path) -> Iterator[Path]:
    """Yield folders near a data folder: its `data`, its parent and its other subfolders; for a file, both parents.

    Hidden folders are left out. The folders need not exist.
    """
    yield data / "data"
    yield data.parent
    if os.path.isfile(data):
        yield data.parent.parent
        return
    try:
        inner = sorted(name for name in os.listdir(data) if not name.startswith("."))
    except OSError:
        return
    yield from [data / name for name in inner if os.path.isdir(data / name)][:NEIGHBOURS]


def content(folder: Path) -> str:
    """Return the content of a folder as one line for a message."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if not names:
        return "it is empty"
    shown = [printing.line(name[:100]) + "/" * os.path.isdir(folder / name) for name in names[:SHOWN]]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"it holds {', '.join(shown)}{more}"
