"""`medvqa.evaluate`: start a run from Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

from medvqa import printing
from medvqa.backend import Backend, usable
from medvqa.decode import did_you_mean, shown
from medvqa.face import progress as showing
from medvqa.face.known import Extras, known_with
from medvqa.face.loaded import LoadedRun
from medvqa.items import Benchmark, MedVQAError, Metric, UsageError
from medvqa.session import door
from medvqa.session.options import OLD_NAMES, OPTIONS, Options, Setting
from medvqa.session.registry import Registry, spec_of
from medvqa.session.root import root_of

GivenModel: TypeAlias = "str | Backend | type[Backend]"
"""A spec as for --model, a backend, or its class."""
GivenPath: TypeAlias = "str | os.PathLike[str]"
GivenBenchmark: TypeAlias = "str | os.PathLike[str] | Benchmark"
"""A name, the path of a TOML file, or a benchmark."""
Several: TypeAlias = "str | Sequence[str]"

FIRST = ("model", "benchmark", "judge")
"""Options that `evaluate` also takes as objects."""


class EvaluateOptions(TypedDict, total=False):
    """Options of `medvqa.evaluate`: those of `pytest` and `medvqa run`, with _ for -. docs/running.md explains them."""

    data: GivenPath | None
    technique: Several | None
    ff_gap: float | None
    extract_with: str | None
    rules_first: bool | None
    judge_prompt: Several | None
    extraction: str | None
    metric_like: Several | None
    ablate: str | None
    prompt: Several | None
    samples: int | None
    repeat: int | None
    combine: str | None
    threshold: float | Sequence[float] | None
    shots: int | None
    shot_pool: GivenPath | None
    reasoning: str | None
    explain: bool | None
    rotate: str | None
    run: str | None
    answers: GivenPath | LoadedRun | Sequence[GivenPath | LoadedRun] | None
    fresh: bool | None
    tags: GivenPath | Sequence[GivenPath] | None
    limit: int | None
    shard: str | None
    allow_upload: bool | None
    trust_remote_code: bool | None
    max_cost: float | None
    batch_size: int | None
    concurrency: int | None
    ray_address: str | None
    replicas: int | str | None
    max_tokens: int | None
    deadline: float | None
    max_errors: int | None
    answers_from_category: bool | None
    baseline: GivenPath | LoadedRun | Sequence[GivenPath | LoadedRun] | None
    margin: float | None
    gate_slices: Several | None
    looks: int | None
    inconclusive: str | None
    require: str | None
    gate: str | None


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
    **options: Unpack[EvaluateOptions],
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
    display = showing.chosen(progress)
    try:
        with printing.printable_warnings():
            ended = door.conduct(
                Options.of(raw_options, cwd),
                Setting(root, cwd),
                registry,
                select=None if select is None else _text("select", select),
                say=display.say,
                on_progress=display.update,
            )
    finally:
        display.close()
    if ended.interrupted:
        raise KeyboardInterrupt(ended.stopped)
    return _run(ended, registry, cwd)


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


def _run(ended: door.Ended, registry: Registry, cwd: Path) -> LoadedRun:
    """Return the run that has ended; MedVQAError if there is no report."""
    if not (ended.questions or ended.finished.asked):
        raise UsageError("nothing was asked: no question was selected")
    report = ended.finished.report
    if report is None:
        raise MedVQAError(ended.finished.problem or ended.stopped or "nothing was asked")
    # Notes repeat the path: a stored notebook should name no folder of this machine.
    near = cwd.is_relative_to(ended.folder.parents[1]) or ended.folder.is_relative_to(cwd)
    folder = Path(os.path.relpath(ended.folder, cwd)) if near else ended.folder
    stopped = [] if ended.stopped is None else [f"stopped early: {ended.stopped}"]
    # Warnings are shown with a mark of their own.
    notes = (note.removeprefix("! ") for note in ended.notes)
    return LoadedRun(replace(report, folder=folder), registry, (*stopped, *notes))


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
    option_names = {name.replace("-", "_"): name for name in OPTIONS if name not in FIRST} | dict(OLD_NAMES)
    raw_options = {}
    for name, value in options.items():
        if name not in option_names:
            raise UsageError(f"evaluate() has no option {shown(name)}{did_you_mean(name, option_names)}")
        if value is not None:
            raw_options[option_names[name]] = _value(name, value, OPTIONS[option_names[name]])
    return raw_options


def _value(name: str, value: Any, how: Mapping[str, Any]) -> Any:
    """Return the value of one option; `how` is its row of OPTIONS. UsageError for a value of another type."""
    if how.get("action") == "append":
        single = (str, os.PathLike, LoadedRun) if how.get("type", str) is str else (int, float)
        several = [value] if isinstance(value, single) else value
        if not isinstance(several, list | tuple):
            raise _wrong(name, value, "a text or a list of texts")
        return [_single(name, entry, how.get("type", str)) for entry in several]
    if how.get("action") == "store_true":
        if not isinstance(value, bool):
            raise _wrong(name, value, "True or False")
        return value or None
    return _single(name, value, how.get("type", str))


def _single(name: str, value: Any, kind: Callable[[Any], Any]) -> Any:
    """Return one value of an option's type (UsageError)."""
    if kind is str:
        return _text(name, value)
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        raise _wrong(name, value, "a whole number" if kind is int else "a number")
    try:
        return kind(value) if isinstance(kind, type) else kind(str(value))
    except OverflowError:
        raise _wrong(name, value, "a number that a float can hold") from None


def _text(name: str, value: Any) -> str:
    if isinstance(value, LoadedRun) and name in ("baseline", "answers"):
        return str(value.folder)
    if not isinstance(value, str | os.PathLike):
        raise _wrong(name, value, "a text")
    return os.fspath(value)


def _wrong(name: str, value: object, expected: str) -> UsageError:
    return UsageError(f"{name}={value!r}: {expected} is expected")
