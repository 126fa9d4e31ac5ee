"""`medvqa.evaluate`: start a run from Python."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from medvqa import printing
from medvqa.backend import Backend, usable
from medvqa.decode import did_you_mean, shown
from medvqa.face import progress as showing
from medvqa.face.known import Extras, known_with
from medvqa.face.loaded import LoadedRun
from medvqa.items import Benchmark, MedVQAError, Metric, UsageError
from medvqa.session import door
from medvqa.session.options import OLD_NAMES, OPTIONS, Options, WrongValueError, names_of
from medvqa.session.project import Project
from medvqa.session.registry import Registry, spec_of
from medvqa.session.root import root_of
from medvqa.session.run import End

GivenModel: TypeAlias = "str | Backend | type[Backend]"
"""A spec as for --model, a backend, or its class."""
GivenPath: TypeAlias = "str | os.PathLike[str]"
GivenBenchmark: TypeAlias = "str | os.PathLike[str] | Benchmark"
"""A name, the path of a TOML file, or a benchmark."""
FIRST = ("model", "benchmark", "judge")
"""Options that `evaluate` also takes as objects."""
NAMES = tuple(known.replace("-", "_") for name in OPTIONS if name not in FIRST for known in names_of(name))
"""The other ones, as `evaluate` has them."""


def evaluate(
    model: GivenModel | None = None,
    benchmark: GivenBenchmark | Iterable[GivenBenchmark] | None = None,
    *,
    judge: GivenModel | None = None,
    select: str | None = None,
    folder: GivenPath | None = None,
    progress: bool | None = None,
    metrics: Iterable[Metric] = (),
    plugins: Extras = (),
    **options: Any,
) -> LoadedRun:
    """Ask a model the questions of benchmarks, and return the run.

    `model` and `judge` are each a spec as for --model ("qwen-vl", "hf:CHECKPOINT"), a backend, or a subclass of
    `medvqa.Backend`. `benchmark` is a name, a file such as "klinik.toml", a benchmark such as
    `medvqa.table(...)`, or several. Defaults are those of
    the command line. `select` selects questions by an expression, as --select does.

    `folder` holds models/ and reports/. Its default is pytest's root: the root of the project around the current
    folder. `pytest` and `medvqa run` there use the same run folder and stored answers, and give the same numbers.
    `run="NAME"` names the run folder. The same call continues an interrupted run.

    `progress` shows a bar in a notebook and a line in a terminal (None), a line elsewhere too (True), or nothing
    (False). `metrics` are computed for every benchmark. `plugins` are Python files or modules that define benchmarks,
    backends or metrics, such as ["conftest.py"]. No conftest.py is executed unless it is named.

    Other `options` are those of the command line, with _ for -: `limit=50`, `technique="gd"`, `max_cost=2.5`.

    Returns the run as `medvqa.load` does. It may be unfinished, for instance after errors in a row: see `finished` and
    `warnings`.

    Raises UsageError for bad options or a model that cannot be loaded, and DataError for data that cannot be read.
    After KeyboardInterrupt, all answers are stored and the reports written; then it is raised again.
    """
    cwd = Path.cwd()
    registry, raw_options = _given(
        known_with(metrics=metrics, plugins=plugins), _raw_options(options), model, judge, benchmark, cwd
    )
    root = root_of(cwd) if folder is None else Path(os.path.abspath(os.path.expanduser(folder)))
    with printing.printable_warnings():
        end = door.conduct(
            Project(root, cwd, registry, Options.of(raw_options, cwd)),
            showing.chosen(progress),
            select=None if select is None else _text("select", select),
        )
    if end.interrupted:
        raise KeyboardInterrupt(end.stopped)
    return _run(end, registry, cwd)


def _signature() -> inspect.Signature:
    """Return the signature of `evaluate` with every option by name, for completion in notebooks."""
    own = inspect.signature(evaluate)
    named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in NAMES]
    return own.replace(parameters=[*named, *options])


setattr(evaluate, "__signature__", _signature())  # noqa: B010 - mypy knows no such attribute


def _given(
    registry: Registry,
    raw_options: Mapping[str, Any],
    model: GivenModel | None,
    judge: GivenModel | None,
    benchmark: GivenBenchmark | Iterable[GivenBenchmark] | None,
    cwd: Path,
) -> tuple[Registry, dict[str, Any]]:
    """Return the registry with the given objects and files, and the options that name them (UsageError)."""
    objects = {name: _model(value, name) for name, value in (("model", model), ("judge", judge)) if value is not None}
    chosen_benchmarks = _benchmarks(benchmark)
    registry = registry.with_objects(
        models=[value for value in objects.values() if isinstance(value, Backend)],
        benchmarks=[entry for entry in chosen_benchmarks or () if isinstance(entry, Benchmark)],
    )
    named = {name: value if isinstance(value, str) else spec_of(value) for name, value in objects.items()}
    raw_options = {**raw_options, **named}
    if len(objects) == 2 and raw_options["model"] == raw_options["judge"] and not isinstance(model, str):
        raise UsageError(f"model and judge are both '{raw_options['model']}': give one of them another argument")
    if chosen_benchmarks is not None:
        names = [entry if isinstance(entry, str) else entry.name for entry in chosen_benchmarks]
        registry, raw_options["benchmark"] = registry.with_files(names, cwd)
    return registry, raw_options


def _run(end: End, registry: Registry, cwd: Path) -> LoadedRun:
    """Return the run that has ended; MedVQAError if there is no report."""
    if not (end.questions or end.asked):
        raise UsageError("nothing was asked: no question was selected")
    if end.report is None:
        raise MedVQAError(end.problem or end.stopped or "nothing was asked")
    # Notes repeat the path: a stored notebook should name no folder of this machine.
    near = cwd.is_relative_to(end.folder.parents[1]) or end.folder.is_relative_to(cwd)
    folder = Path(os.path.relpath(end.folder, cwd)) if near else end.folder
    stopped = [] if end.stopped is None else [f"stopped early: {end.stopped}"]
    # Warnings are shown with a mark of their own.
    notes = (note.removeprefix("! ") for note in end.notes)
    return LoadedRun(replace(end.report, folder=folder), registry, (*stopped, *notes))


def _model(model: GivenModel, option: str) -> str | Backend:
    """Return a spec or a backend (UsageError)."""
    if isinstance(model, type) and issubclass(model, Backend):
        return usable(model, f"{option}={model.__name__}")()
    if isinstance(model, str | Backend):
        return model
    raise UsageError(f"{option}={model!r}: a spec such as 'hf:CHECKPOINT', or a subclass of medvqa.Backend is expected")


def _benchmarks(benchmark: GivenBenchmark | Iterable[GivenBenchmark] | None) -> list[str | Benchmark] | None:
    if benchmark is None:
        return None
    given = [benchmark] if isinstance(benchmark, str | os.PathLike | Benchmark) else list(benchmark)
    chosen = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in given]
    for one in chosen:
        if not isinstance(one, str | Benchmark):
            raise UsageError(f"benchmark={one!r}: a name or a benchmark is expected, such as medvqa.table('FILE.csv')")
    if not chosen:
        raise UsageError("benchmark: none is given; name one, or leave it out")
    return chosen


def _raw_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their names on the command line, with values as argparse gives them (UsageError)."""
    rows = {name: OPTIONS[OLD_NAMES.get(name, name.replace("_", "-"))] for name in NAMES}
    raw_options = {}
    for name, value in options.items():
        if name not in rows:
            raise UsageError(f"evaluate() has no option {shown(name)}{did_you_mean(name, rows)}")
        if value is not None:
            if name in ("baseline", "answers"):
                value = [_folder(one) for one in (value if isinstance(value, list | tuple) else [value])]
            try:
                raw_options[rows[name].name] = rows[name].given(value)
            except WrongValueError as error:
                raise _wrong(name, error.value, error.expected) from None
    return raw_options


def _folder(run: Any) -> Any:
    return str(run.folder) if isinstance(run, LoadedRun) else run


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise _wrong(name, value, "a text")
    return os.fspath(value)


def _wrong(name: str, value: object, expected: str) -> UsageError:
    return UsageError(f"{name}={value!r}: {expected} is expected")
