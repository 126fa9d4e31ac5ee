"""Where the folders lie that a user edits: tests of benchmarks, model configs and the phantom's data.

In the repository they stand at the top; the wheel carries them inside `medvqa.suite`, so that
`pytest --pyargs medvqa.suite.benchmark_tests` runs in any folder.
"""

from __future__ import annotations

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
