"""The three hooks by which benchmarks, backends and metrics enter, the shipped ones included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from medvqa.backend import Backend
    from medvqa.items import Benchmark, Metric


@pytest.hookspec
def pytest_medvqa_benchmarks() -> Sequence[Benchmark]:  # type: ignore[empty-body]
    """Return benchmarks, found by name in `--benchmark=NAME` and `@pytest.mark.vqa(NAME)`."""


@pytest.hookspec
def pytest_medvqa_backends() -> Sequence[type[Backend]]:  # type: ignore[empty-body]
    """Return ways of running a model: classes, each found by its `name` in `--model=NAME:ARGUMENT`."""


@pytest.hookspec
def pytest_medvqa_metrics() -> Sequence[Metric]:  # type: ignore[empty-body]
    """Return metrics that are computed for every benchmark, beside those that it names."""
