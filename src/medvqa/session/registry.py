"""Registry: the benchmarks, backends and metrics that a run can name, and the hooks for its end.

They are attributes of modules. Nothing registers itself on import.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from medvqa import backends, benchmarks, printing, scoring, tables, usercode
from medvqa.backend import Backend, usable
from medvqa.benchmarks import own, table_declaration, table_files
from medvqa.items import (
    AnswerError,
    Benchmark,
    DataError,
    Item,
    MedVQAError,
    Metric,
    Prompt,
    PromptFunction,
    PromptSource,
    Score,
    UsageError,
    applies,
)
from medvqa.metrics import SHIPPED as SHIPPED_METRICS
from medvqa.paper_tables import PaperTable
from medvqa.records import baseline_file

SHIPPED: tuple[ModuleType, ...] = (benchmarks, backends)
GROUP = "medvqa"
"""Entry points that name a module with benchmarks, backends, metrics and hooks."""

FinishedHook = Callable[..., object]
"""`pytest_medvqa_finished(run, verdict)`; a function may leave out either parameter."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Registry:
    """Benchmarks and backends by name, the metrics of every benchmark, and the hooks for the end of a run.

    `benchmarks` have these metrics in addition to their own, and show them among their headline measures.
    `origins` maps ("benchmarks", NAME), ("backends", NAME) and ("metrics", NAME) to the file that provides it.
    """

    benchmarks: Mapping[str, Benchmark]
    backends: Mapping[str, type[Backend]]
    metrics: Sequence[Metric]
    finished: Sequence[FinishedHook]
    origins: Mapping[tuple[str, str], str]
    models: Mapping[str, Backend] = field(default_factory=dict)
    """Models passed as objects, by the SPEC of --model=SPEC that names them."""

    @classmethod
    def of(cls, modules: Iterable[object] = (), installed: Sequence[ModuleType] | None = None) -> Registry:
        """Collect from the shipped rooms, from entry points (`installed`, default: `installed_modules()`), and modules.

        A module provides its `Metric` and `Benchmark` values, the subclasses of Backend that it defines, and what its
        functions `pytest_medvqa_benchmarks`, `_backends` and `_metrics` return. Attributes that begin with an
        underscore are hidden. An object counts once, whoever imports it. A metric that a benchmark names belongs to
        that benchmark alone. If two objects share a name, UsageError names both files. Exceptions of this code become
        a UsageError of one line.
        """
        packages = installed_modules() if installed is None else installed
        collected, seen = _Collected(), list[object]()
        for module in (*SHIPPED, *packages, *modules):
            if not any(module is other for other in seen):
                seen.append(module)
                collected.add(module)
        return collected.registry()

    def with_objects(self, *, models: Sequence[Backend] = (), benchmarks: Sequence[Benchmark] = ()) -> Registry:
        """Return the registry with models and benchmarks passed as objects; options name them as any other.

        A model is named by `spec_of(model)`, a benchmark by its name. UsageError if a name is taken by something else.
        """
        by_spec = {spec_of(model): model for model in models}
        for benchmark in benchmarks:
            own.check(benchmark)
        by_name = {benchmark.name: own.completed(benchmark) for benchmark in benchmarks}
        for name, benchmark in by_name.items():
            if self.benchmarks.get(name, benchmark).items != benchmark.items:
                raise UsageError(f"a benchmark is called '{name}' already; give yours another name")
        return replace(
            self._with(by_name.values()),
            backends={**self.backends, **{type(model).name: type(model) for model in models}},
            models={**self.models, **by_spec},
        )

    def with_files(self, names: Iterable[str], cwd: Path) -> tuple[Registry, list[str]]:
        """Return the registry with the benchmarks of the TOML files among `names`, and the names of all benchmarks.

        A path that is not absolute starts at `cwd`. UsageError for a file that is missing or wrong, whose benchmark has
        the name of another, or that is named without its ending.
        """
        declared: dict[str, Benchmark] = {}
        chosen = []
        for name in names:
            if not table_files.is_file(name):
                self._check_no_path(name, cwd)
                chosen.append(name)
                continue
            benchmark = table_files.read(cwd / os.path.expanduser(name), name)
            for taken in (declared.get(benchmark.name), *self._called(benchmark.name)):
                if taken is not None and _path(taken) != _path(benchmark):
                    raise UsageError(
                        f"{printing.line(name)}: a benchmark is called '{benchmark.name}' already; write another "
                        'name = "..." into the file'
                    )
            declared[benchmark.name] = benchmark
            chosen.append(benchmark.name)
        return self._with(declared.values()), list(dict.fromkeys(chosen))

    def with_runs(self, runs: Iterable[Path]) -> Registry:
        """Return the registry with the benchmarks of TOML files that run folders and baseline files recorded.

        A known benchmark of the same name counts. Anything that is no run is left out.
        """
        recorded: dict[str, Benchmark] = {}
        for run in runs:
            for name, fields in baseline_file.read_record(run).benchmarks.items():
                if name not in self.benchmarks and fields.declared is not None:
                    benchmark = table_files.recorded(name, fields.declared)
                    # A stranger's run beside one's own must not declare one's own data public.
                    public = benchmark.public and recorded.get(name, benchmark).public
                    recorded[name] = replace(benchmark, public=public)
        for benchmark in recorded.values():
            own.check(benchmark)
        return self._with(recorded.values())

    def _with(self, added: Iterable[Benchmark]) -> Registry:
        """The registry with these benchmarks, in place of others of their names."""
        usable = {benchmark.name: _with_metrics(guarded(own.completed(benchmark)), self.metrics) for benchmark in added}
        return replace(self, benchmarks=dict(sorted({**self.benchmarks, **usable}.items()))) if usable else self

    def _called(self, name: str) -> list[Benchmark]:
        """The benchmarks of a name, and of a group of that name."""
        return [benchmark for benchmark in self.benchmarks.values() if name in (benchmark.name, benchmark.group)]

    def _check_no_path(self, name: str, cwd: Path) -> None:
        """UsageError for an unknown benchmark whose name is that of a file without its ending, a table or a folder."""
        if not name or self._called(name):
            return
        shown, path = printing.line(name), cwd / os.path.expanduser(name)
        if os.path.isfile(f"{path}{table_declaration.ENDING}"):
            file = f"{shown}{table_declaration.ENDING}"
            raise UsageError(f"no benchmark '{shown}'; the file is named by --benchmark={file}")
        if "/" in name and os.path.isdir(path):
            raise UsageError(f"--benchmark={shown}: a folder; --data=DIR names the folder of the data sets")
        if path.suffix.lower() not in tables.ENDINGS:
            return
        if not os.path.isfile(path):
            raise UsageError(f"--benchmark={shown}: no such file")
        # `medvqa import` writes into the working folder.
        written = f"{path.stem}{table_declaration.ENDING}"
        kept = next((file for file in (name.removesuffix(path.name) + written, written) if (cwd / file).is_file()), "")
        file = printing.line(kept or written)
        do = "" if kept else f"type `medvqa import {printing.line(shlex.quote(name))}`, which checks it; "
        raise UsageError(f"--benchmark={shown}: a table; {do}the file that declares it is named: --benchmark={file}")

    def with_metrics(self, metrics: Iterable[Metric]) -> Registry:
        """The registry with more metrics of every benchmark (UsageError for a name that is taken by another metric)."""
        taken = {metric.name: metric for metric in self.metrics}
        for metric in metrics:
            if not isinstance(metric, Metric):
                raise UsageError(f"metrics: {metric!r} is no metric; write @medvqa.metric above the function")
            if taken.setdefault(metric.name, metric) != metric:
                raise UsageError(f"two metrics are called '{metric.name}'; rename one of them")
        every = tuple(taken.values())
        extended = {name: _with_metrics(benchmark, every) for name, benchmark in self.benchmarks.items()}
        return replace(self, metrics=every, benchmarks=extended)


def installed_modules() -> list[ModuleType]:
    """Return the modules that installed packages name by an entry point of the group `medvqa`.

    UsageError in one line that names the distribution of an entry point that cannot be loaded.
    """
    modules = []
    for entry in entry_points(group=GROUP):
        module = load_entry_point(entry)
        if not isinstance(module, ModuleType):
            raise UsageError(f"{named(entry)}: a module is expected, such as package.module without a colon")
        modules.append(module)
    return modules


def load_entry_point(entry: EntryPoint) -> Any:
    """Load an entry point; UsageError in one line that names its distribution."""
    with usercode.guarded(named(entry)):
        return entry.load()


def named(entry: EntryPoint) -> str:
    """Return how messages name an entry point: its distribution, group, name and value."""
    distribution = entry.dist.name if entry.dist is not None else "an unknown distribution"
    return f"package {distribution}, entry point {entry.group}: {entry.name} = {entry.value}"


def _with_metrics(benchmark: Benchmark, metrics: Sequence[Metric]) -> Benchmark:
    """A benchmark that computes and shows more metrics, after its own."""
    if not metrics:
        return benchmark
    own = benchmark.metrics
    return replace(
        benchmark,
        metrics=(*own, *(metric for metric in metrics if metric not in own)),
        headline=tuple(dict.fromkeys((*benchmark.headline, *(metric.name for metric in metrics)))),
    )


_FACES: Mapping[str, tuple[type[MedVQAError], str, tuple[type[Any], ...]]] = {
    "find": (UsageError, "a sequence of paths, empty if the data are not there", (Sequence,)),
    "elsewhere": (UsageError, "a path, or None", (Path, type(None))),
    "recover": (DataError, "an Item", (Item,)),
    "prompt": (DataError, "a Prompt", (Prompt,)),
    "applies": (UsageError, "True or False", (object,)),
    "score": (AnswerError, "a Score", (Score,)),
    "rule": (AnswerError, "a Score", (Score,)),
    "submission": (UsageError, "the path of the sheet", (Path,)),
    "published": (UsageError, "a PaperTable", (PaperTable,)),
}
"""The functions of a benchmark except `items`, which `benchmarks.load` guards. Each has the error that replaces its
exceptions, and its value in words and as types. DataError and AnswerError affect one question alone."""


def guarded(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark whose functions raise a MedVQAError of one line for any exception and any wrong value."""
    guard = partial(_guarded, benchmark.name)
    origin, owners = benchmark.origin, benchmark.owners
    if origin is not None:
        origin = replace(origin, find=guard("find", origin.find), elsewhere=guard("elsewhere", origin.elsewhere))
    if owners.rule is not None:
        owners = replace(owners, rule=replace(owners.rule, score=guard("rule", owners.rule.score)))
    owners = replace(
        owners,
        recover=guard("recover", owners.recover),
        submission=guard("submission", owners.submission),
        published=guard("published", owners.published),
    )
    return replace(
        benchmark,
        prompt=_guarded_prompt(guard, benchmark.prompt),
        prompts={name: _guarded_prompt(guard, prompt) for name, prompt in benchmark.prompts.items()},
        score=guard("score", benchmark.score),
        origin=origin,
        owners=owners,
    )


def _guarded_prompt(guard: Callable[..., Any], prompt: Any) -> Any:
    if isinstance(prompt, PromptFunction):
        defined = prompt.defined if prompt.defined is applies else guard("applies", prompt.defined)
        return replace(prompt, ask=guard("prompt", prompt.ask), defined=defined)
    return prompt if isinstance(prompt, PromptSource) else guard("prompt", prompt)


def _guarded(benchmark: str, name: str, function: Any) -> Any:
    """Return the function, guarded; None if there is none."""
    if function is None:
        return None
    raises, expected, types = _FACES[name]

    @wraps(function)
    def call(*arguments: Any) -> Any:
        # Six such calls answer a question: as `usercode.guarded`, a context manager, they took twice the time.
        try:
            value = function(*arguments)
            if not isinstance(value, types):
                raise TypeError(f"it returned a value of type {type(value).__name__}")
            if isinstance(value, Score):
                scoring.check(value)
            elif isinstance(value, Prompt) and not isinstance(value.text, str):
                raise TypeError(f"its text is of type {type(value.text).__name__}")
            return value
        except usercode.PASSING:
            raise
        except BaseException as error:
            what, wanted = f"benchmark '{benchmark}', {name}", f"{name} returns {expected}"
            raise raises(usercode.described(error, what, wanted, function)) from error

    return call


def call_finished(hook: FinishedHook, **arguments: object) -> None:
    """Call a hook with `run` and `verdict` if it takes them, as pytest calls hooks."""
    taken = inspect.signature(hook).parameters
    hook(**{name: value for name, value in arguments.items() if name in taken})


class _Collected:
    """The values that modules provide, and the file of each name."""

    def __init__(self) -> None:
        self._benchmarks: dict[str, Benchmark] = {}
        self._backends: dict[str, type[Backend]] = {}
        self._hooked: list[Metric] = []
        self._attributes: list[Metric] = []
        self._metric_files: list[tuple[Metric, str]] = []
        self._finished: list[FinishedHook] = []
        self._origins: dict[tuple[str, str], str] = {}
        self._own: set[str] = set()

    def add(self, module: object) -> None:
        """Take the values of a module (UsageError)."""
        file = _file(module)
        for benchmark in [*_returned(module, "benchmarks", Benchmark), *_values(module, Benchmark)]:
            if module not in SHIPPED:
                own.check(benchmark, f"{file}: ")
            if self._benchmarks.get(benchmark.name) is not benchmark:
                self._claim("benchmarks", benchmark.name, file)
                self._benchmarks[benchmark.name] = benchmark
                if module not in SHIPPED:
                    self._own.add(benchmark.name)
        for kind in [*_returned(module, "backends", None), *_defined(module)]:
            backend = kind if kind in _defined(module) else usable(kind, f"{file}: pytest_medvqa_backends")
            if self._backends.get(backend.name) is not backend:
                self._claim("backends", backend.name, file)
                self._backends[backend.name] = backend
        for metrics, into in (
            (_returned(module, "metrics", Metric), self._hooked),
            ([metric for metric in _values(module, Metric) if metric not in SHIPPED_METRICS], self._attributes),
        ):
            for metric in metrics:
                into.append(metric)
                self._metric_files.append((metric, file))
        hook = getattr(module, "pytest_medvqa_finished", None)
        if inspect.isroutine(hook) and hook not in self._finished:
            self._finished.append(hook)

    def registry(self) -> Registry:
        """Return the registry, with the defaults of benchmarks (UsageError for two metrics of one name)."""
        self._benchmarks = {name: own.completed(benchmark) for name, benchmark in self._benchmarks.items()}
        owned = [metric for benchmark in self._benchmarks.values() for metric in benchmark.metrics]
        metrics: list[Metric] = []
        for metric, file in self._metric_files:
            if metric in metrics or (metric in owned and metric not in self._hooked):
                continue
            self._claim("metrics", metric.name, file)
            self._refuse_taken(metric, file)
            metrics.append(metric)
        benchmarks = {
            name: _with_metrics(guarded(benchmark) if name in self._own else benchmark, metrics)
            for name, benchmark in sorted(self._benchmarks.items())
        }
        return Registry(
            benchmarks,
            self._backends,
            tuple(metrics),
            tuple(self._finished),
            self._origins,
        )

    def _refuse_taken(self, metric: Metric, file: str) -> None:
        """UsageError if a benchmark has another metric of that name."""
        for benchmark in self._benchmarks.values():
            if any(other.name == metric.name and other != metric for other in benchmark.metrics):
                raise UsageError(
                    f"{file}: benchmark '{benchmark.name}' has a metric '{metric.name}' already; write "
                    f'@medvqa.metric(name="another_name")'
                )

    def _claim(self, kind: str, name: str, here: str) -> None:
        """Note the file of a name; UsageError if the name is taken."""
        if (kind, name) in self._origins:
            earlier = self._origins[kind, name]
            where = f"both in {here}" if earlier == here else f"in {earlier} and in {here}"
            raise UsageError(f"two {kind} are called '{name}', {where}; rename one of them")
        self._origins[kind, name] = here


def _path(benchmark: Benchmark) -> str | None:
    return None if benchmark.declared is None else benchmark.declared.path


def spec_of(model: Backend) -> str:
    """The SPEC by which `--model=SPEC` names a model: BACKEND, or BACKEND:ARGUMENT."""
    name = type(model).name
    return f"{name}:{model.argument}" if model.argument else name


def _returned(module: object, name: str, kind: type[T] | None) -> list[T]:
    """The values that a hook of a module returns, [] without the hook (UsageError).

    With `kind`, they must be of that type.
    """
    hook = f"pytest_medvqa_{name}"
    function: Callable[[], Any] | None = getattr(module, hook, None)
    # A plugin may be an object with attributes of any name.
    if not inspect.isroutine(function):
        return []
    expected = f"a function without parameters that returns a list of {name}"
    with usercode.guarded(hook, expected, function=function):
        values = list(function())
    if kind is not None:
        for value in values:
            if not isinstance(value, kind):
                raise UsageError(
                    f"{_file(module)}: {hook} returned a value of type {type(value).__name__}; expected: {expected}"
                )
    return values


def _values(module: object, kind: type[T]) -> list[T]:
    """The attributes of a module that are of a type and not hidden by an underscore."""
    if not isinstance(module, ModuleType) or module in SHIPPED:
        return []
    return [value for name, value in vars(module).items() if isinstance(value, kind) and not name.startswith("_")]


def _defined(module: object) -> list[type[Backend]]:
    """Return the backends that a module defines, without imports. One that lacks a member is refused when chosen."""
    return [
        value
        for value in _values(module, type)
        if issubclass(value, Backend) and value.__module__ == vars(module)["__name__"]
    ]


def _file(module: object) -> str:
    named = module if isinstance(module, ModuleType) else type(module)
    return str(getattr(module, "__file__", None) or named.__name__)
