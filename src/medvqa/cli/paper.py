"""`medvqa paper`: a model's row in the main table of a benchmark's paper."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa.cli.common import Commands, data_of, known_from, say
from medvqa.cli.run import add_run_options, lines_of
from medvqa.data import published
from medvqa.items import OPTION_TECHNIQUES, UsageError
from medvqa.session.options import OPTIONS, listed

if TYPE_CHECKING:
    from medvqa.configs import ModelConfig
    from medvqa.data.published import PaperTable
    from medvqa.report.build import Report
    from medvqa.session.project import Project
    from medvqa.session.registry import Registry

_NAMES = (*published.PAPERS, *published.NEIGHBOURS)
_EPILOG = """\
examples:
  medvqa paper mediconfusion --model=MODEL --judge=JUDGE --data=DIR     Table 1: MC, GD, PS, and FF with a judge
  medvqa paper gmai-mmbench --model=MODEL --data=DIR --answers-from-category
                                                                        Table 2: VAL, TEST and the tasks of TEST
  medvqa paper medlesionvqa --model=MODEL --judge=JUDGE --data=DIR      Table 2: each ability, micro and macro
  medvqa paper mediconfusion reports/RUN reports/OTHER                  the row of recorded runs; nothing is asked
  medvqa paper mediconfusion --model=random --benchmark=phantom-mediconfusion

Options of `medvqa run` are valid here, too. The exit codes are those of `medvqa run`.
"""


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "paper",
        parents=[common],
        description="Ask a model what a row of a paper's main table needs, in one run as with `medvqa run`, and print "
        "the row beside the published ones.\nWith RUN, print the row of recorded runs instead.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("paper", choices=_NAMES, metavar="PAPER", help=", ".join(_NAMES))
    parser.add_argument(
        "runs", nargs="*", type=Path, default=[], metavar="RUN", help="run folders, such as reports/RUN"
    )
    add_run_options(parser)
    parser.set_defaults(command=run)


def run(typed: argparse.Namespace) -> tuple[str, int]:
    """Return the row of recorded runs, or ask for it; with the exit code."""
    table = published.tables()[typed.paper]
    return _of_runs(table, typed) if typed.runs else _asked(table, typed)


def _of_runs(table: PaperTable, typed: argparse.Namespace) -> tuple[str, int]:
    from medvqa import report

    given = [name for name in (*OPTIONS, "select") if getattr(typed, name) is not None]
    if given:
        raise UsageError(f"--{given[0]}: runs are recorded and nothing is asked; leave it out, or leave out RUN")
    known = known_from(typed, typed.runs)
    reports = [report.build(folder, known.benchmarks) for folder in dict.fromkeys(typed.runs)]
    return _text(table, reports), 0


def _asked(table: PaperTable, typed: argparse.Namespace) -> tuple[str, int]:
    """Ask the model in one run."""
    from medvqa.session.display import StderrDisplay
    from medvqa.session.door import conduct
    from medvqa.session.options import Options
    from medvqa.session.project import Project
    from medvqa.session.root import root_of
    from medvqa.session.run import INTERRUPTED

    if typed.model is None:
        raise UsageError("medvqa paper: name --model=MODEL, or recorded runs")
    here, known = Path.cwd(), known_from(typed)
    project = Project(root_of(here), here, known, Options.of({}, here))
    raw: dict[str, Any] = dict(vars(typed))
    raw["benchmark"] = _benchmarks(table, typed, known)
    raw["extraction"] = typed.extraction or table.extraction
    raw["metric-like"] = raw["metric-like"] or ([table.metric_like] if table.metric_like else None)
    _check_judge(table, typed, known, raw["benchmark"])
    try:
        raw["technique"] = typed.technique or _techniques(table, raw, project)
        options = Options.of(raw, here)
        end = conduct(replace(project, options=options), StderrDisplay(), select=typed.select)
    except KeyboardInterrupt:
        return "interrupted before anything was asked", INTERRUPTED
    lines = lines_of(end, typed, options)
    if end.report is not None and end.report.parts:
        lines += ["", _text(table, [end.report])]
    return "\n".join(lines), end.exit_code


def _text(table: PaperTable, reports: Sequence[Report]) -> str:
    from medvqa import printing
    from medvqa.figures import terminal
    from medvqa.report import papers

    row = papers.row_of(table, reports)
    notes = [f"! {printing.line(line.removesuffix('.'))}." for line in papers.notes(table, row, reports)]
    return "\n".join([terminal(papers.beside(table, row)), terminal(papers.own(table, row)), *notes])


def _benchmarks(table: PaperTable, typed: argparse.Namespace, known: Registry) -> list[str]:
    """Return the benchmarks to ask about: those typed, else the paper's own whose data are found.

    A split that no column is of is asked about only where the others are not found. A line says so.
    """
    from medvqa import benchmarks

    own = list(table.benchmarks.values())
    if typed.benchmark:
        names = list(listed(typed.benchmark))
        others = [name for name in names if name not in own]
        if others and len(names) > 1:
            raise UsageError(
                f"--benchmark={','.join(names)}: name benchmarks of the paper ({', '.join(own)}), or one other that "
                "stands in for them, such as phantom-mediconfusion"
            )
        for name in others:
            _check_measures(table, name, known)
        return names
    data, _ = data_of(typed)
    found = {
        split: name for split, name in table.benchmarks.items() if benchmarks.is_found(known.benchmarks[name], data)
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


def _techniques(table: PaperTable, raw: Mapping[str, Any], project: Project) -> list[str]:
    """Return the techniques of the table's columns that the model can be asked by; say which are left out.

    They depend on the model and its config, on the prompt that it is asked by, and for a model behind a server on its
    first answer: only that tells whether the server gives log-probabilities.
    """
    from medvqa.protocols.protocol import NEEDS
    from medvqa.records import run_record
    from medvqa.records.run_record import RUN
    from medvqa.session.chosen import choose
    from medvqa.session.door import tells_logprobs
    from medvqa.session.options import Options

    if len(table.techniques) == 1:
        return list(table.techniques)
    if raw["run"] is not None and (project.reports / raw["run"] / RUN).is_file():
        return list(run_record.read_run(project.reports / raw["run"]).techniques)
    chosen = choose(raw["model"], "model", project)
    backend, names = chosen.backend, raw["benchmark"]
    if backend.judged():
        return ["ff"]
    able = backend.capabilities or ("generate",)
    unknown = "not known before the model is loaded: type --technique" if backend.capabilities is None else ""
    why: Mapping[str, str] = {
        technique: unknown or f"the model has no {NEEDS[technique]}"  # type: ignore[index]
        for technique in table.techniques
        if NEEDS[technique] not in able  # type: ignore[index]
    }
    why = {**_undefined(table, raw, chosen.config, project.registry), **why}
    if raw["judge"] is None:
        why = {"ff": "add --judge=MODEL", **why}
    if backend.recorded:
        held = {technique for name in names for technique in backend.recorded_by(name)} or {"mc"}
        why = {**{name: "the file has no such answers" for name in table.techniques if name not in held}, **why}
    if raw["samples"] is not None:
        why = {**why, **{name: "--samples cannot draw them" for name in table.techniques if name in OPTION_TECHNIQUES}}
    remote = backend.sends_to is not None and not (backend.pools or backend.recorded)
    if remote and "gd" in table.techniques and "gd" not in why:
        options = Options.of({**raw, "technique": ["gd"]}, project.cwd)
        if not tells_logprobs(replace(project, options=options), select=raw["select"]):
            why = {**why, "gd": "the server told no log-probabilities"}
    asked = [technique for technique in table.techniques if technique not in why]
    left_out = [f"{technique} ({reason})" for technique, reason in why.items()]
    if left_out:
        say(f"medvqa: asked by {', '.join(asked) or 'nothing'}; left out: {', '.join(left_out)}")
    return asked or ["mc"]


def _undefined(table: PaperTable, raw: Mapping[str, Any], config: ModelConfig, known: Registry) -> dict[str, str]:
    """Return the techniques that the typed prompt, or the config's, does not define, with the reason."""
    from medvqa import configs
    from medvqa.protocols import naming, prompt_files
    from medvqa.protocols.prompts import Templates

    why: dict[str, str] = {}
    for benchmark in known.benchmarks.values():
        if {benchmark.name, benchmark.group}.isdisjoint(raw["benchmark"]):
            continue
        typed = [name for name in listed(raw["prompt"] or ()) if not prompt_files.is_file(name)]
        if typed != list(listed(raw["prompt"] or ())):
            continue
        for name in naming.asked(typed or configs.prompt_of(config, benchmark), benchmark):
            prompt = benchmark.prompts.get(name)
            if isinstance(prompt, Templates):
                without = [technique for technique in table.techniques if technique not in prompt.techniques]
                why.update(dict.fromkeys(without, f"prompt '{name}' has none"))
    return why


def _check_judge(table: PaperTable, typed: argparse.Namespace, known: Registry, names: Iterable[str]) -> None:
    """Raise UsageError if open answers would stay without a score, and the table needs it."""
    for name in names if table.needs_judge else ():
        benchmark = known.benchmarks.get(name)
        if benchmark is not None and benchmark.judged and benchmark.files is not None and typed.judge is None:
            raise UsageError(f"medvqa paper {typed.paper}: open answers to {name} need a judge: add --judge=MODEL")
