"""What the three hooks bring: the shipped benchmarks, backends and metrics, and a stranger's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import ModuleType

import pytest

from medvqa import backends, benchmarks
from medvqa.backend import Backend, usable
from medvqa.items import Benchmark, Metric, UsageError
from medvqa.plugin import hookspecs


@dataclass(frozen=True, slots=True)
class Known:
    """Benchmarks and backends by name, and the metrics that every benchmark gets."""

    benchmarks: Mapping[str, Benchmark]
    backends: Mapping[str, type[Backend]]
    metrics: Sequence[Metric]


def gather(pluginmanager: pytest.PytestPluginManager) -> Known:
    """Call the hooks, the shipped rooms among those that answer; UsageError when two things share a name."""
    for room in (benchmarks, backends):
        if not pluginmanager.is_registered(room):
            pluginmanager.register(room, room.__name__)
    hook = pluginmanager.hook
    found: dict[str, type[Backend]] = {}
    for offered in chain.from_iterable(hook.pytest_medvqa_backends()):
        kind = usable(offered, "pytest_medvqa_backends")
        if kind.name in found:
            raise UsageError(f"two backends are called '{kind.name}'; rename one of them")
        found[kind.name] = kind
    return Known(
        benchmarks=benchmarks.by_name(chain.from_iterable(hook.pytest_medvqa_benchmarks())),
        backends=found,
        metrics=tuple(chain.from_iterable(hook.pytest_medvqa_metrics())),
    )


def gather_from(modules: Mapping[str, ModuleType]) -> Known:
    """What is known outside of a test session: what the project ships, and what the named modules bring."""
    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)
    for name, module in modules.items():
        manager.register(module, name)
    return gather(manager)
