"""What a run can name: the shipped benchmarks, backends and metrics, and those of conftest.py files and plugins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from medvqa import backends, benchmarks
from medvqa.backend import Backend, usable
from medvqa.items import Benchmark, Metric, UsageError

SHIPPED: tuple[ModuleType, ...] = (benchmarks, backends)


@dataclass(frozen=True, slots=True)
class Registry:
    """Benchmarks and backends by name, and the metrics that every benchmark gets."""

    benchmarks: Mapping[str, Benchmark]
    backends: Mapping[str, type[Backend]]
    metrics: Sequence[Metric]
    models: Mapping[str, Backend] = field(default_factory=dict)
    """Models that were given as objects, by the SPEC of --model=SPEC that names them."""

    @classmethod
    def of(cls, modules: Iterable[object] = ()) -> Registry:
        """Call `pytest_medvqa_benchmarks`, `_backends` and `_metrics` of the shipped rooms and of each module.

        A module may lack any of the three. Subclasses of Backend that it defines need no hook; a name that begins with
        an underscore hides one. UsageError, which names both files, if two things share a name.
        """
        sources = [*SHIPPED, *(module for module in modules if module not in SHIPPED)]
        found_benchmarks: dict[str, Benchmark] = {}
        found_backends: dict[str, type[Backend]] = {}
        metrics: list[Metric] = []
        origins: dict[tuple[str, str], str] = {}
        for module in sources:
            for benchmark in _offered(module, "pytest_medvqa_benchmarks"):
                _claim(origins, "benchmarks", benchmark.name, module)
                found_benchmarks[benchmark.name] = benchmark
            for offered in _offered(module, "pytest_medvqa_backends"):
                kind = usable(offered, f"{_file(module)}: pytest_medvqa_backends")
                _claim(origins, "backends", kind.name, module)
                found_backends[kind.name] = kind
            for kind in _defined(module):
                if found_backends.get(kind.name) is not kind:
                    _claim(origins, "backends", kind.name, module)
                    found_backends[kind.name] = kind
            metrics += _offered(module, "pytest_medvqa_metrics")
        return cls(dict(sorted(found_benchmarks.items())), found_backends, tuple(metrics))

    def with_objects(self, *, models: Sequence[Backend] = (), benchmarks: Sequence[Benchmark] = ()) -> Registry:
        """The registry with models and benchmarks that Python code gives; options name them as any other.

        A model is named by `spec_of(model)`, a benchmark by its name. UsageError if a name is taken by something else.
        """
        given = {spec_of(model): model for model in models}
        by_name = {benchmark.name: benchmark for benchmark in benchmarks}
        for name, benchmark in by_name.items():
            if self.benchmarks.get(name, benchmark) != benchmark:
                raise UsageError(f"a benchmark is called '{name}' already; give yours another name")
        return replace(
            self,
            benchmarks=dict(sorted({**self.benchmarks, **by_name}.items())),
            backends={**self.backends, **{type(model).name: type(model) for model in models}},
            models={**self.models, **given},
        )


def spec_of(model: Backend) -> str:
    """The SPEC by which `--model=SPEC` names a model: BACKEND, or BACKEND:ARGUMENT."""
    name = type(model).name
    return f"{name}:{model.argument}" if model.argument else name


def _offered(module: object, name: str) -> Any:
    function: Callable[[], Any] | None = getattr(module, name, None)
    # A plugin may be an object that has an attribute of any name.
    return function() if inspect.isroutine(function) else ()


def _defined(module: object) -> list[type[Backend]]:
    """The backends that a module defines, and does not import; one that lacks a member is refused once it is chosen."""
    if not isinstance(module, ModuleType) or module in SHIPPED:
        return []
    return [
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Backend)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _claim(origins: dict[tuple[str, str], str], kind: str, name: str, module: object) -> None:
    """Note where a name comes from; UsageError if it is taken."""
    here = _file(module)
    if (kind, name) in origins:
        there = origins[kind, name]
        where = f"both in {here}" if there == here else f"in {there} and in {here}"
        raise UsageError(f"two {kind} are called '{name}', {where}; rename one of them")
    origins[kind, name] = here


def _file(module: object) -> str:
    named = module if isinstance(module, ModuleType) else type(module)
    return str(getattr(module, "__file__", None) or named.__name__)
