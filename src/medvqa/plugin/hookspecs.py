"""The hooks that conftest.py files and plugins may have. `session.registry` reads them; pytest checks names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from medvqa.backend import Backend
    from medvqa.comparing.gating import Verdict
    from medvqa.items import Benchmark, Metric
    from medvqa.session.run import End


@pytest.hookspec
def pytest_medvqa_benchmarks() -> Sequence[Benchmark]:  # type: ignore[empty-body]
    """Return benchmarks. `--benchmark=NAME` and `@pytest.mark.vqa(NAME)` find them by name."""


@pytest.hookspec
def pytest_medvqa_backends() -> Sequence[type[Backend]]:  # type: ignore[empty-body]
    """Return subclasses of Backend. `--model=NAME:ARGUMENT` finds them by their `name`."""


@pytest.hookspec
def pytest_medvqa_metrics() -> Sequence[Metric]:  # type: ignore[empty-body]
    """Return metrics that are computed for every benchmark, in addition to its own."""


@pytest.hookspec
def pytest_medvqa_finished(run: End, verdict: Verdict | None) -> None:
    """Act at the end of a run, once its reports are written, in the process that the user started."""
