"""Collect the benchmarks, backends and metrics that a call from Python may name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from medvqa.items import Benchmark, Metric, UsageError
from medvqa.session import conftests
from medvqa.session.registry import Registry

Extra: TypeAlias = "str | os.PathLike[str] | ModuleType"
"""A Python file or a module that defines benchmarks, backends or metrics."""
Extras: TypeAlias = "str | os.PathLike[str] | Iterable[Extra]"
"""A Python file, or several files and modules."""


def known_with(
    *,
    benchmarks: Iterable[Benchmark] = (),
    metrics: Iterable[Metric] = (),
    plugins: Extras = (),
) -> Registry:
    """Return the shipped registry with the plugins' and these values (UsageError if two benchmarks share a name)."""
    several = [plugins] if isinstance(plugins, str | os.PathLike) else plugins
    registry = Registry.of([_module(extra) for extra in several])
    return registry.with_objects(benchmarks=list(benchmarks)).with_metrics(metrics)


def joined(registries: Iterable[Registry]) -> Registry:
    """Join registries. Of two values with one name, that of the first registry counts."""
    registry, *others = registries
    for other in others:
        registry = replace(
            registry,
            benchmarks={**other.benchmarks, **registry.benchmarks},
            backends={**other.backends, **registry.backends},
        ).with_metrics(other.metrics)
    return registry


def _module(extra: Extra) -> ModuleType:
    """Return a module unchanged; execute a Python file and return its module (UsageError)."""
    if isinstance(extra, ModuleType):
        return extra
    if not Path(extra).is_file():
        raise UsageError(f"plugins={[os.fspath(extra)]!r}: no such Python file")
    return conftests.load(Path(extra))
