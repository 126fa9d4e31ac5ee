"""Ask a model what a row of a paper's main table needs: the benchmarks, the techniques, and what it cannot do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from medvqa import benchmarks, configs
from medvqa.benchmarks import origins
from medvqa.configs import ModelConfig
from medvqa.items import OPTION_TECHNIQUES, UsageError
from medvqa.paper_tables import PaperTable
from medvqa.protocols import naming, prompt_files
from medvqa.protocols.prompts import Templates
from medvqa.protocols.protocol import NEEDS
from medvqa.records import run_record
from medvqa.records.run_record import RUN
from medvqa.session.chosen import choose
from medvqa.session.door import tells_logprobs
from medvqa.session.options import Options
from medvqa.session.project import Project
from medvqa.session.registry import Registry


def completed(
    table: PaperTable,
    project: Project,
    *,
    extraction: str | None,
    select: str | None,
    say: Callable[[str], None],
) -> Project:
    """Return the project with the options of a run that gives a row of the table, those that were typed kept.

    `extraction`: the rule that was typed, None for that of the table. `say` gets lines about what is left out.
    UsageError for benchmarks that cannot give a row, and for open answers without a judge.
    """
    options, known = project.options, project.registry
    names = _benchmarks(table, options, known, say)
    _check_judge(table, options, names, known)
    options = replace(
        options,
        benchmarks=tuple(names),
        extraction=extraction or table.extraction,
        metric_like=options.metric_like or ((table.metric_like,) if table.metric_like else ()),
    )
    project = replace(project, options=options)
    techniques = options.techniques or _techniques(table, project, select, say)
    return replace(project, options=replace(options, techniques=techniques))


def _benchmarks(table: PaperTable, options: Options, known: Registry, say: Callable[[str], None]) -> Sequence[str]:
    """Return the benchmarks to ask about: those typed, else the paper's own whose data are found.

    A split that no column is of is asked about only where the others are not found. A line says so.
    """
    own, names = list(table.benchmarks.values()), options.benchmarks
    others = [name for name in names if name not in own]
    if others and len(names) > 1:
        raise UsageError(
            f"--benchmark={','.join(names)}: name benchmarks of the paper ({', '.join(own)}), or one other that "
            "stands in for them, such as phantom-mediconfusion"
        )
    for name in others:
        _check_measures(table, name, known)
    if names:
        return names
    found = {
        split: name
        for split, name in table.benchmarks.items()
        if name in known.benchmarks and benchmarks.is_found(known.benchmarks[name], options.data)
    }
    shown = {column.split for column in table.columns if column.measure}
    asked = [name for split, name in found.items() if split in shown]
    if left_out := [name for name in found.values() if asked and name not in asked]:
        say(f"medvqa: asked about {', '.join(asked)}; no column is of {', '.join(left_out)} (--benchmark asks it)")
    return asked or list(found.values()) or own[:1]


def _check_measures(table: PaperTable, name: str, known: Registry) -> None:
    """Raise UsageError if a benchmark or group that stands in for the paper's gives no figure of the table."""
    members = [each for each in known.benchmarks.values() if name in (each.name, each.group)]
    own = table.benchmarks.values()
    wanted = {column.measure for column in table.columns if column.measure}
    if not members or all(each.name in own for each in members):
        return
    if len(members) > 1 or wanted.isdisjoint(metric.name for metric in members[0].metrics):
        raise UsageError(
            f"--benchmark={name}: it cannot stand in for {', '.join(own)}. Name one benchmark with a measure of the "
            f"table: {', '.join(sorted(wanted))}"
        )


def _check_judge(table: PaperTable, options: Options, names: Sequence[str], known: Registry) -> None:
    """Raise UsageError if open answers would stay without a score, and the table needs it."""
    for name in names if table.needs_judge and options.judge is None else ():
        benchmark = known.benchmarks.get(name)
        if benchmark is not None and benchmark.judged and origins.needs_files(benchmark):
            raise UsageError(f"open answers to {name} need a judge: add --judge=MODEL")


def _techniques(table: PaperTable, project: Project, select: str | None, say: Callable[[str], None]) -> tuple[str, ...]:
    """Return the techniques of the table's columns that the model can be asked by; say which are left out.

    They depend on the model and its config, on the prompt that it is asked by, and for a model behind a server on its
    first answer: only that tells whether the server gives log-probabilities.
    """
    options = project.options
    if len(table.techniques) == 1:
        return tuple(table.techniques)
    if options.run is not None and (project.reports / options.run / RUN).is_file():
        return tuple(run_record.read_run(project.reports / options.run).techniques)
    chosen = choose(options.model, "model", project)
    backend = chosen.backend
    if backend.judged():
        return ("ff",)
    able = backend.capabilities or ("generate",)
    unknown = "not known before the model is loaded: type --technique" if backend.capabilities is None else ""
    without = [name for name in table.techniques if NEEDS[name] not in able]  # type: ignore[index]
    why = {name: unknown or f"the model has no {NEEDS[name]}" for name in without}  # type: ignore[index]
    why = _undefined(table, options, chosen.config, project.registry) | why
    if options.judge is None:
        why = {"ff": "add --judge=MODEL"} | why
    if backend.recorded:
        held = {technique for name in options.benchmarks for technique in backend.recorded_by(name)} or {"mc"}
        why = {name: "the file has no such answers" for name in table.techniques if name not in held} | why
    if options.samples is not None:
        why |= {name: "--samples cannot draw them" for name in table.techniques if name in OPTION_TECHNIQUES}
    remote = backend.sends_to is not None and not (backend.pools or backend.recorded)
    untold = remote and "gd" in table.techniques and "gd" not in why
    if untold and not tells_logprobs(project, select=select):
        why["gd"] = "the server told no log-probabilities"
    asked = [technique for technique in table.techniques if technique not in why]
    if why:
        left_out = ", ".join(f"{technique} ({reason})" for technique, reason in why.items())
        say(f"medvqa: asked by {', '.join(asked) or 'nothing'}; left out: {left_out}")
    return tuple(asked) or ("mc",)


def _undefined(table: PaperTable, options: Options, config: ModelConfig, known: Registry) -> dict[str, str]:
    """Return the techniques that the typed prompt, or the config's, does not define, with the reason."""
    why: dict[str, str] = {}
    if any(map(prompt_files.is_file, options.prompts)):
        return why
    for benchmark in known.benchmarks.values():
        if {benchmark.name, benchmark.group}.isdisjoint(options.benchmarks):
            continue
        for name in naming.asked(list(options.prompts) or configs.prompt_of(config, benchmark), benchmark):
            prompt = benchmark.prompts.get(name)
            if isinstance(prompt, Templates):
                without = [technique for technique in table.techniques if technique not in prompt.techniques]
                why.update(dict.fromkeys(without, f"prompt '{name}' has none"))
    return why
