"""The benchmarks, backends and metrics that a call of the face may name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from medvqa.items import Benchmark, Metric, UsageError
from medvqa.session import project
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
    """What ships, what the plugins define, and these values (UsageError if two benchmarks share a name)."""
    several = [plugins] if isinstance(plugins, str | os.PathLike) else plugins
    registry = Registry.of([_module(extra) for extra in several])
    return registry.with_objects(benchmarks=list(benchmarks)).with_metrics(metrics)


def joined(registries: Iterable[Registry]) -> Registry:
    """Several registries as one; of two values with one name, that of the first registry."""
    first, *others = registries
    for other in others:
        first = replace(
            first,
            benchmarks={**other.benchmarks, **first.benchmarks},
            backends={**other.backends, **first.backends},
        ).with_metrics(other.metrics)
    return first


def _module(extra: Extra) -> ModuleType:
    """A module as it is, or that of a Python file, which is executed (UsageError)."""
    if isinstance(extra, ModuleType):
        return extra
    if not Path(extra).is_file():
        raise UsageError(f"plugins={[os.fspath(extra)]!r}: no such Python file")
    return project.load(Path(extra))
