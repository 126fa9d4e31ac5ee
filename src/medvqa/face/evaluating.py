"""`medvqa.evaluate`: a run from Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

from medvqa import printing
from medvqa.backend import Backend, usable
from medvqa.face import progress as showing
from medvqa.face.known import Extras, known_with
from medvqa.face.loaded import LoadedRun
from medvqa.items import Benchmark, MedVQAError, Metric, UsageError
from medvqa.session import door
from medvqa.session.options import OPTIONS, Options, Setting
from medvqa.session.registry import Registry, spec_of
from medvqa.session.root import root_of

GivenModel: TypeAlias = "str | Backend | type[Backend]"
"""A spec as for --model, a backend, or its class."""
GivenPath: TypeAlias = "str | os.PathLike[str]"
Several: TypeAlias = "str | Sequence[str]"

FIRST = ("model", "benchmark", "judge")
"""Options that `evaluate` takes as objects, too."""


class EvaluateOptions(TypedDict, total=False):
    """Options of `medvqa.evaluate`: those of `pytest` and `medvqa run`, with _ for -. docs/running.md explains them."""

    data: GivenPath | None
    technique: Several | None
    ff_gap: float | None
    extract_with: str | None
    rules_first: bool | None
    judge_prompt: Several | None
    extraction: str | None
    ablate: str | None
    repeat: int | None
    run: str | None
    answers: GivenPath | None
    fresh: bool | None
    limit: int | None
    shard: str | None
    allow_upload: bool | None
    trust_remote_code: bool | None
    max_cost: float | None
    batch_size: int | None
    concurrency: int | None
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
    benchmark: str | Benchmark | Iterable[str | Benchmark] | None = None,
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

    `model` is a spec as for --model ("qwen-vl", "hf:CHECKPOINT"), a backend, or a subclass of `medvqa.Backend`; so is
    `judge`. `benchmark` is a name, a benchmark such as `medvqa.table(...)`, or several. Without them the defaults of
    the command line hold. `select` chooses questions by an expression, as --select does.

    `folder` is the folder that holds models/ and reports/ (default: the root of the project around the current folder,
    as of pytest). The run folder, the stored answers and the numbers are those of `pytest` and `medvqa run` there.
    `run="NAME"` names the run folder; the same call continues a run that was interrupted.

    `progress` shows a bar in a notebook and a line in a terminal (default), a line elsewhere too (True), or nothing
    (False). `metrics` are computed for every benchmark. `plugins` are Python files or modules that define benchmarks,
    backends or metrics, such as ["conftest.py"]: no conftest.py is executed unless it is named.

    Other `options` are those of the command line, with _ for -: `limit=50`, `technique="gd"`, `max_cost=2.5`.

    Returns the run as of `medvqa.load`. It may be unfinished, for instance after errors in a row: `finished` and
    `warnings` say so.

    Raises UsageError for options that do not fit and for a model that cannot be loaded, and DataError for data that
    cannot be read. KeyboardInterrupt is raised again after all answers are stored and the reports are written.
    """
    given = _given(options)
    registry = known_with(metrics=metrics, plugins=plugins)
    objects = {name: _model(value, name) for name, value in (("model", model), ("judge", judge)) if value is not None}
    chosen = _benchmarks(benchmark)
    registry = registry.with_objects(
        models=[value for value in objects.values() if isinstance(value, Backend)],
        benchmarks=[each for each in chosen or () if isinstance(each, Benchmark)],
    )
    given |= {name: value if isinstance(value, str) else spec_of(value) for name, value in objects.items()}
    if len(objects) == 2 and given["model"] == given["judge"] and not isinstance(model, str):
        raise UsageError(f"model and judge are both '{given['model']}': give one of them another argument")
    if chosen is not None:
        given["benchmark"] = [each if isinstance(each, str) else each.name for each in chosen]
    cwd = Path.cwd()
    root = root_of(cwd) if folder is None else Path(os.path.abspath(os.path.expanduser(folder)))
    shown = showing.chosen(progress)
    try:
        with printing.printable_warnings():
            ended = door.conduct(
                Options.of(given, cwd),
                Setting(root, cwd),
                registry,
                select=select,
                say=shown.say,
                on_progress=shown.update,
            )
    finally:
        shown.close()
    for line in ended.finished.failed_hooks:
        shown.say(f"! {line}")
    if ended.interrupted:
        raise KeyboardInterrupt(ended.stopped)
    return _run(ended, registry, cwd)


def _run(ended: door.Ended, registry: Registry, cwd: Path) -> LoadedRun:
    """The run that has ended; MedVQAError if there is no report."""
    if not ended.questions:
        raise UsageError("nothing was asked: no question was selected")
    report = ended.finished.report
    if report is None:
        raise MedVQAError(ended.finished.problem or ended.stopped or "nothing was asked")
    # Notes repeat the path, and a notebook that is kept should name no folder of this machine.
    near = cwd.is_relative_to(ended.folder.parents[1]) or ended.folder.is_relative_to(cwd)
    folder = Path(os.path.relpath(ended.folder, cwd)) if near else ended.folder
    stopped = [] if ended.stopped is None else [f"stopped early: {ended.stopped}"]
    return LoadedRun(replace(report, folder=folder), registry, (*stopped, *ended.notes))


def _model(given: GivenModel, option: str) -> str | Backend:
    """A spec or a backend (UsageError)."""
    if isinstance(given, type) and issubclass(given, Backend):
        return usable(given, f"{option}={given.__name__}")()
    if isinstance(given, str | Backend):
        return given
    raise UsageError(f"{option}={given!r}: a spec such as 'hf:CHECKPOINT', or a subclass of medvqa.Backend is expected")


def _benchmarks(given: str | Benchmark | Iterable[str | Benchmark] | None) -> list[str | Benchmark] | None:
    if given is None:
        return None
    several = [given] if isinstance(given, str | Benchmark) else list(given)
    for each in several:
        if not isinstance(each, str | Benchmark):
            raise UsageError(f"benchmark={each!r}: a name or a benchmark is expected, such as medvqa.table('FILE.csv')")
    if not several:
        raise UsageError("benchmark: none is given; name one, or leave it out")
    return several


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their names on the command line, with values as argparse gives them (UsageError)."""
    known = {name.replace("-", "_"): name for name in OPTIONS if name not in FIRST}
    given = {}
    for name, value in options.items():
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
            raise UsageError(f"evaluate() has no option '{name}'; {hint}")
        if value is not None:
            given[known[name]] = _value(name, value, OPTIONS[known[name]])
    return given


def _value(name: str, value: Any, how: Mapping[str, Any]) -> Any:
    """The value of one option; `how` is its row of OPTIONS (UsageError for a value of another type)."""
    if how.get("action") == "append":
        several = [value] if isinstance(value, str | os.PathLike | LoadedRun) else value
        if not isinstance(several, list | tuple):
            raise _wrong(name, value, "a text or a list of texts")
        return [_text(name, each) for each in several]
    if how.get("action") == "store_true":
        if not isinstance(value, bool):
            raise _wrong(name, value, "True or False")
        return value or None
    kind = how.get("type", str)
    if kind is str:
        return _text(name, value)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
        raise _wrong(name, value, "a number" if kind is float else "a whole number")
    return kind(value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, LoadedRun) and name == "baseline":
        return str(value.folder)
    if not isinstance(value, str | os.PathLike):
        raise _wrong(name, value, "a text")
    return os.fspath(value)


def _wrong(name: str, value: object, expected: str) -> UsageError:
    return UsageError(f"{name}={value!r}: {expected} is expected")
