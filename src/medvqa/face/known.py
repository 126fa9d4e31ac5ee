"""The benchmarks, backends and metrics that a call of the face may name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from medvqa.backend import Backend
from medvqa.items import Benchmark, Metric, UsageError
from medvqa.session.registry import Registry

Extra: TypeAlias = "str | os.PathLike[str] | ModuleType"
"""A Python file or a module that defines benchmarks, backends or metrics."""


def known_with(
    *,
    benchmarks: Iterable[Benchmark] = (),
    metrics: Iterable[Metric] = (),
    backends: Iterable[type[Backend]] = (),
    plugins: Iterable[Extra] = (),
) -> Registry:
    """What ships, what the plugins define, and these values (UsageError if two benchmarks or backends share a name)."""
    registry = Registry.of([_module(extra) for extra in plugins])
    return replace(
        registry,
        benchmarks=_added("benchmarks", registry.benchmarks, {each.name: each for each in benchmarks}),
        backends=_added("backends", registry.backends, {each.name: each for each in backends}),
        metrics=(*registry.metrics, *metrics),
    )


def joined(registries: Iterable[Registry]) -> Registry:
    """Several registries as one; of two values with one name, that of the first registry."""
    first, *others = registries
    for other in others:
        first = replace(
            first,
            benchmarks={**other.benchmarks, **first.benchmarks},
            backends={**other.backends, **first.backends},
            metrics=tuple(dict.fromkeys([*first.metrics, *other.metrics])),
        )
    return first


def _added(kind: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in given.items():
        if known.get(name, value) is not value:
            raise UsageError(f"two {kind} are called '{name}': the one that was given, and one that is known already")
    return dict(sorted({**known, **given}.items()))


def _module(extra: Extra) -> ModuleType:
    """A module as it is, or that of a Python file, executed anew (UsageError)."""
    if isinstance(extra, ModuleType):
        return extra
    path = Path(extra)
    spec = util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"plugins={[str(extra)]!r}: no such Python file")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
