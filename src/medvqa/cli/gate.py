"""`medvqa gate`: the verdict on a run that exists, or with --plan what a gate could show."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, known_from
from medvqa.items import Benchmark, Item, UsageError
from medvqa.plugin.options import ENV_DATA

if TYPE_CHECKING:
    from medvqa.gating import Rules


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    gate = commands.add_parser(
        "gate",
        parents=[common],
        help="decide by the gate's rules whether a run got worse; exit code 10: it failed, 11: inconclusive",
    )
    gate.add_argument("run", nargs="?", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    gate.add_argument(
        "--baseline", action="append", default=[], metavar="RUN", help="a run folder or baseline file (repeatable)"
    )
    gate.add_argument("--margin", type=float, metavar="POINTS", help="the loss that must be ruled out (default: 2)")
    gate.add_argument(
        "--gate-slices", action="append", default=[], metavar="DIMENSION", help="guard each slice of it (repeatable)"
    )
    gate.add_argument("--looks", type=int, metavar="J", help="how often the baseline will be asked (default: 1)")
    gate.add_argument(
        "--inconclusive", metavar="pass|fail", help="an inconclusive verdict has exit code 11 (fail, default) or 0"
    )
    gate.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="a TOML file with tables [tool.medvqa.gate] (default: pyproject.toml here, if it is there)",
    )
    gate.add_argument(
        "--data", default=os.environ.get(ENV_DATA), metavar="DIR", help="where data sets lie, as for pytest"
    )
    planning = gate.add_argument_group("planning")
    planning.add_argument("--plan", action="store_true", help="print the chance of PASS, before there is a run")
    planning.add_argument(
        "--benchmark", action="append", default=[], metavar="NAME", help="plan for the units of this benchmark"
    )
    planning.add_argument(
        "--units", type=int, action="append", default=[], metavar="N", help="plan for so many units (repeatable)"
    )
    planning.add_argument(
        "--discordance", type=float, metavar="PERCENT", help="units that flip, either way (default: 15)"
    )
    planning.add_argument(
        "--deff", type=float, default=1.0, metavar="D", help="design effect of groups (default: 1, independent units)"
    )
    gate.set_defaults(command=run)


def run(options: argparse.Namespace) -> str | tuple[str, int]:
    """The plan, or the verdict and its exit code."""
    if options.plan:
        return _plan(options)
    planned = [name for name in ("benchmark", "units", "discordance") if getattr(options, name)]
    if planned:
        raise UsageError(f"--{planned[0]} belongs to --plan")
    if options.run is None:
        raise UsageError("name a run folder: medvqa gate reports/RUN --baseline=reports/MAIN; or plan one: --plan")
    return _decide(options)


def _decide(options: argparse.Namespace) -> tuple[str, int]:
    from medvqa import benchmarks, comparing, gating, records, report
    from medvqa.gating.rules import FILE, TABLE
    from medvqa.report.html import draw
    from medvqa.report.terminal import summary

    known = known_from(options.plugin)
    about = records.read_run(options.run)
    rules = _rules(options)
    if not rules.active and (stored := about.get("gate")):
        rules = gating.from_json(stored["rules"], f"{options.run / records.RUN}: gate")
        rules = gating.typed_over(rules, baseline=[each["path"] for each in stored["baselines"] if each["path"]])
    if not rules.active:
        raise UsageError(
            "there is nothing to decide. Name a run folder or a baseline file by --baseline=RUN, or floors in "
            f"[[{TABLE}.floor]] of {FILE}"
        )
    gate = gating.prepare(rules, gating.load(rules, Path()), about, known.benchmarks, known.metrics)
    if gate is None:
        raise UsageError(f"no rule is about what {options.run} asks ({', '.join(about.get('benchmarks', {}))})")
    side = comparing.load(options.run)
    if lack := gate.lacking([records.key(result)[:3] for result in side.results]):
        raise UsageError(lack)
    missing = list(about.get("missing", ()))
    if "finished" not in about and "merged" not in about:
        raise UsageError(f"{options.run} did not end: finish it by pytest --run={options.run.name}")
    decided = gating.decided(gate, options.run, side, missing)
    gating.write(options.run, decided)
    made = report.build(options.run, known.benchmarks, known.metrics)
    data = Path(options.data) if options.data is not None else None

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        there = benchmarks.is_found(benchmark, data)
        return benchmarks.load(benchmark, data or Path()) if there else None

    text = summary(report.write(made, draw(made, load, many="none")), width=100)
    return text, decided.verdict.exit_code


def _rules(options: argparse.Namespace) -> Rules:
    from medvqa import gating
    from medvqa.gating.rules import FILE

    if options.rules is not None and not options.rules.is_file():
        raise UsageError(f"--rules={options.rules}: no such file")
    return gating.typed_over(
        gating.read_rules(options.rules or Path(FILE)),
        baseline=options.baseline,
        margin=options.margin,
        slices=options.gate_slices,
        looks=options.looks,
        inconclusive=options.inconclusive,
    )


def _plan(options: argparse.Namespace) -> str:
    from medvqa import benchmarks, gating
    from medvqa.gating import planning
    from medvqa.report.tables import Table
    from medvqa.report.terminal import draw

    if options.run is not None:
        raise UsageError(f"--plan is for before there is a run, so without {options.run}")
    known = known_from(options.plugin)
    data = Path(options.data) if options.data is not None else None
    sizes = [(f"{units:,} units", units) for units in options.units]
    for name in options.benchmark:
        sizes += [
            (benchmark.name, planning.units_of(benchmark, benchmarks.load(benchmark, data or Path())))
            for benchmark in benchmarks.choose([name], known.benchmarks, data)
        ]
    for side in gating.load(gating.Rules(baseline=tuple(options.baseline)), Path()):
        for name in side.run.get("benchmarks", {}):
            items = [result.item for result in side.results if result.item.benchmark == name]
            if name in known.benchmarks:
                sizes.append((f"{name} of {side.name}", planning.units_of(known.benchmarks[name], items)))
    rows = planning.prospects(
        sizes or [(f"{units:,} units", units) for units in planning.SIZES],
        margin=(gating.DEFAULT_MARGIN if options.margin is None else options.margin) / 100,
        discordance=planning.DISCORDANCE if options.discordance is None else options.discordance / 100,
        deff=options.deff,
        looks=1 if options.looks is None else options.looks,
    )
    margin = f"{gating.DEFAULT_MARGIN if options.margin is None else options.margin:g}"
    columns = ("", "units", "PASS at no change", f"PASS at a loss of {margin}", "80 % pass a margin of", "80 % need")
    cells = tuple(
        (
            each.name,
            f"{each.units:,}",
            f"{100 * each.unchanged:.1f} %",
            f"{100 * each.at_margin:.1f} %",
            f"{100 * each.passable:.1f} points",
            f"{each.needed:,} units",
        )
        for each in rows
    )
    return draw(Table("", columns, cells, frozenset(range(1, len(columns))))).removesuffix("\n")
