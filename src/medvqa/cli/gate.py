"""`medvqa gate`: decide on an existing run, or with --plan, print the chance of PASS."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa import printing
from medvqa.cli.common import Commands, data_of, known_from
from medvqa.items import Benchmark, Item, UsageError
from medvqa.session.options import listed

if TYPE_CHECKING:
    from medvqa.comparing.gating import Decided, Rules, Tried
    from medvqa.comparing.gating.planning import Guarded, Planned, Prospect
    from medvqa.statistics import Simulated


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    gate = commands.add_parser(
        "gate",
        parents=[common],
        description="Decide by the rules of the gate whether a run is worse than its baseline. Exit code 0: PASS, 10: "
        "FAIL, 11: INCONCLUSIVE, 1: no verdict. With --plan, print the chance of PASS before there is a run.",
    )
    gate.add_argument("run", nargs="?", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    gate.add_argument(
        "--baseline",
        action="append",
        default=[],
        metavar="RUN",
        help="compare with this run folder or baseline file (repeatable)",
    )
    gate.add_argument("--margin", type=float, metavar="POINTS", help="the loss that must be ruled out (default: 2)")
    gate.add_argument(
        "--gate-slices",
        action="append",
        default=[],
        metavar="DIMENSION",
        help="guard each slice of this lexicon dimension too (repeatable)",
    )
    gate.add_argument(
        "--looks",
        type=int,
        metavar="J",
        help="how many runs will be compared with this baseline; they share the 5 %% of error (default: 1)",
    )
    gate.add_argument(
        "--inconclusive", metavar="pass|fail", help="an inconclusive verdict has exit code 11 (fail, default) or 0"
    )
    gate.add_argument(
        "--require",
        metavar="all|baseline|shared",
        help="the questions that a PASS needs: all of the baseline (baseline, the default), the whole data set too "
        "(all), or only those of both runs (shared)",
    )
    gate.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="a TOML file with a table [tool.medvqa.gate] (default: pyproject.toml of this folder, if there is one)",
    )
    gate.add_argument("--data", metavar="DIR", help="folder of the data sets (default: MEDVQA_DATA)")
    gate.add_argument(
        "--replace",
        action="store_true",
        help="let this verdict take the place of a FAIL on the same results; the verdict then names that FAIL",
    )
    gate.add_argument(
        "--required",
        action="store_true",
        help="decide nothing: exit with 0 only if the last session of RUN left a verdict that lets it pass. The step "
        "that decides in CI",
    )
    planning = gate.add_argument_group("planning")
    planning.add_argument("--plan", action="store_true", help="print the chance of PASS; no RUN is needed")
    planning.add_argument(
        "--selftest",
        action="store_true",
        help="decide on copies of the baseline that are worse by the margin, and print which rules FAIL and which "
        "cannot; RUN is needed for floors without a baseline",
    )
    planning.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="NAME",
        help="plan for the questions or pairs of this benchmark",
    )
    planning.add_argument(
        "--units", type=int, action="append", default=[], metavar="N", help="plan for N questions or pairs (repeatable)"
    )
    planning.add_argument(
        "--discordance",
        type=float,
        metavar="PERCENT",
        help="questions or pairs whose score changes between two runs, either way (default: 15)",
    )
    planning.add_argument(
        "--deff",
        type=float,
        metavar="D",
        help="design effect of groups (default: a range, from groups that change together to independent questions)",
    )
    gate.set_defaults(command=run)


def run(options: argparse.Namespace) -> str | tuple[str, int]:
    """Return the plan, or the verdict and its exit code."""
    if options.required and (options.plan or options.selftest):
        other = "plan" if options.plan else "selftest"
        raise UsageError(f"--required reads the verdict of a run, and --{other} gives none: leave one out")
    if options.plan:
        return _plan(options)
    if options.selftest:
        return _selftest(options)
    planned = [name for name in ("benchmark", "units", "discordance", "deff") if getattr(options, name)]
    if planned:
        raise UsageError(f"--{planned[0]} belongs to --plan")
    if options.run is None:
        raise UsageError("name a run folder: medvqa gate reports/RUN --baseline=reports/MAIN; or plan one: --plan")
    return _required(options) if options.required else _decide(options)


NO_RULES = (
    "Name a run folder or a baseline file by --baseline=RUN, or floors in [[tool.medvqa.gate.floor]] of pyproject.toml"
)
SHOWN = 8
"""Slices that a line names."""
DECIDING = ("baseline", "margin", "gate_slices", "looks", "inconclusive", "require", "rules", "data", "replace")
"""Options of a verdict that is decided now."""


def _required(options: argparse.Namespace) -> tuple[str, int]:
    """Return the verdict of the run's last session, and 0 only if it lets the run pass; nothing is decided."""
    from medvqa import comparing
    from medvqa.comparing import gating
    from medvqa.report.terminal import verdict_lines

    if typed := [name.replace("_", "-") for name in DECIDING if getattr(options, name) not in (None, [], False)]:
        raise UsageError(
            f"--required reads the verdict of the run's last session, and decides none: leave out --{typed[0]}"
        )
    decided = gating.read(options.run)
    if decided is None:
        return f"gate: no verdict: {options.run} has none. A session that dies, or is not gated, leaves none", 1
    side = comparing.load(options.run)
    if why := gating.not_current(decided, side.run, gating.digest(side.run, side.results)):
        return f"gate: no verdict: {why}", 1
    return "\n".join(verdict_lines(decided)), decided.verdict.exit_code


def _decide(options: argparse.Namespace) -> tuple[str, int]:
    from medvqa import comparing
    from medvqa.comparing import gating
    from medvqa.records import run_record
    from medvqa.records.coverage import ended
    from medvqa.records.run_record import RUN

    registry = known_from(options, [options.run])
    about = run_record.read_run(options.run)
    rules = _rules(options)
    if not rules.active and (stored := about.gate) is not None:
        rules = gating.from_json(stored.rules, f"{options.run / RUN}: gate")
        paths = tuple(baseline.path for baseline in stored.baselines if baseline.path)
        file = os.path.relpath(options.run / RUN) if stored.file is None else stored.file
        rules = replace(rules, baseline=paths, file=file, typed=stored.typed)
    if not rules.active:
        read = "" if options.rules is None else f"--rules={options.rules} has no baseline and no floor, and "
        raise UsageError(f"{read}there is nothing to decide. {NO_RULES}")
    gate = gating.prepare(rules, gating.load(rules, Path(), options.run), about, registry.benchmarks)
    if gate is None:
        raise UsageError(f"no rule is about what {options.run} asks ({', '.join(about.benchmarks)})")
    side = comparing.load(options.run)
    if lack := gate.lacking([result.key.question for result in side.results]):
        raise UsageError(lack)
    if not ended(about):
        raise UsageError(f"{options.run} did not end: finish it by pytest --run={options.run.name}")
    decided = gating.decided(gate, options.run, side)
    if not options.replace and (fail := gating.standing_fail(options.run, decided)) is not None:
        raise UsageError(
            f"{options.run} has a {fail.named}, and by these rules the same results would get {decided.named}. A FAIL "
            "stands: add --replace to replace it all the same; the new verdict will name it"
        )
    decided = gating.with_history(options.run, decided)
    try:
        gating.write(options.run, decided)
        return _reported(options, registry.benchmarks), decided.verdict.exit_code
    except (OSError, UsageError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        return _unwritten(options.run, decided, cause), decided.verdict.exit_code or 1


def _reported(options: argparse.Namespace, known: Mapping[str, Benchmark]) -> str:
    """Draw the reports of the run; return the summary. UsageError with an OSError as its cause if they cannot be."""
    from medvqa import benchmarks, report
    from medvqa.report.html import draw
    from medvqa.report.terminal import summary

    built = report.build(options.run, known)
    data, _ = data_of(options)

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        return benchmarks.load_found(benchmark, data)

    return summary(report.write(built, draw(built, load, many="none")), width=100)


def _unwritten(folder: Path, decided: Decided, error: OSError) -> str:
    """Return the lines of a verdict that cannot be stored, after taking away an earlier one and its reports."""
    from medvqa import report
    from medvqa.comparing import gating
    from medvqa.report.terminal import verdict_lines

    before = gating.read_if_whole(folder)
    stays = ""
    if before is not None and before.verdict != decided.verdict:
        stays = f"; {folder / gating.FILE} still holds an earlier one, {before.named}"
        # A FAIL is never lost.
        if before.verdict.outcome != "FAIL":
            with suppress(OSError):
                gating.remove(folder)
                stays = f"; the earlier one, {before.named}, was removed"
    with suppress(OSError):
        report.remove(folder)
    kept = "its reports are" if before is not None and before.verdict == decided.verdict else "this verdict is"
    why = f"! {folder} cannot be written ({error.strerror or error}): {kept} not stored{stays}"
    return "\n".join([*verdict_lines(decided), printing.line(why)])


def _read(options: argparse.Namespace) -> Rules:
    """Return the rules of --rules, else of this folder's pyproject.toml (UsageError)."""
    from medvqa.comparing import gating
    from medvqa.comparing.gating.rules import FILE, TABLE

    if options.rules is None:
        return gating.read_rules(Path(FILE))
    if not options.rules.is_file():
        raise UsageError(f"--rules={options.rules}: no such file")
    rules = gating.read_rules(options.rules)
    if not rules.file:
        raise UsageError(f"--rules={options.rules}: no table [{TABLE}], so the file has no rules; write them there")
    return rules


def _rules(options: argparse.Namespace) -> Rules:
    from medvqa.comparing import gating

    return gating.typed_over(
        _read(options),
        baseline=options.baseline,
        margin=options.margin,
        slices=options.gate_slices,
        looks=options.looks,
        inconclusive=options.inconclusive,
        require=options.require,
    )


def _selftest(options: argparse.Namespace) -> tuple[str, int]:
    """Return how the rules decide on worse copies of each baseline, and 1 if one cannot FAIL or lets them pass."""
    from medvqa import comparing
    from medvqa.comparing import gating

    rules = _rules(options)
    if not rules.active:
        raise UsageError(f"--selftest: there are no rules. {NO_RULES}")
    if rules.baseline and options.run is not None:
        raise UsageError(f"--selftest answers the questions of the baseline: leave out {options.run}")
    if not rules.baseline and options.run is None:
        raise UsageError("--selftest: floors without a baseline need questions: medvqa gate reports/RUN --selftest")
    known = known_from(options, map(Path, rules.baseline or [options.run])).benchmarks
    blocks, sound = [], True
    for path in rules.baseline or (None,):
        own = rules if path is None else replace(rules, baseline=(path,))
        source = comparing.load(options.run) if path is None else gating.load(own, Path())[0]
        tried, notes = gating.selftest(own, source, known)
        dimensions = [name for name in own.slices if not any(t.can_fail and name in t.ruling.slice for t in tried)]
        sound &= not dimensions and all(t.sound for t in tried if t.ruling.kind != "slice guard")
        blocks += [_tried(tried), *notes]
        blocks += [f"no slice of {name} can FAIL: the guard does nothing" for name in dimensions]
    return "\n".join(blocks), 0 if sound else 1


def _tried(tried: Sequence[Tried]) -> str:
    """Return the rules' decisions on worse copies as a table, with the rules that do not do their work below it."""
    from medvqa.figures import Column, Table, numbers, terminal

    counted = ("FAIL", "INCONCLUSIVE", "PASS")
    columns = (*(Column("rule"), *numbers("copies worse by", *counted, "exit code 0", "FAILs a loss of", "at worst")),)
    rows, lines, guards = [], [], []
    for row in tried:
        if row.ruling.kind == "slice guard" and row.can_fail:
            guards.append(" ".join(*row.ruling.slice.items()))
        elif row.ruling.kind != "slice guard":
            counts: list[int | None] = [None] * 4
            if row.outcomes is not None:
                counts = [*(row.outcomes.get(name, 0) for name in counted), row.passed]
            losses = ["" if loss is None else f"{100 * loss:.3g} points" for loss in (row.worse_by, row.fails_from)]
            worst = "FAIL" if row.can_fail else row.ruling.outcome
            rows.append((row.ruling.rule, losses[0], *counts, losses[1], worst))
        if not row.can_fail:
            lines.append(f"cannot FAIL: {row.ruling.rule}: {row.ruling.why}")
        if row.passed and row.outcomes is not None:
            lines.append(
                f"lets pass what it should stop: {row.ruling.rule}: exit code 0 on {row.passed} of "
                f"{sum(row.outcomes.values())} copies that are worse by its margin"
            )
    if guards:
        lines.insert(0, f"FAILs if all answers of the slice are wrong: {printing.some(guards, SHOWN)}")
    return "\n".join([terminal(Table("", columns, tuple(rows))), *lines])


def _plan(options: argparse.Namespace) -> str:
    from medvqa import benchmarks
    from medvqa.comparing import gating
    from medvqa.comparing.gating import planning

    if options.run is not None:
        raise UsageError(f"--plan is for before there is a run, so without {options.run}")
    if options.inconclusive is not None:
        raise UsageError("--inconclusive belongs to a verdict, and --plan gives none")
    if options.require is not None:
        raise UsageError("--require belongs to a verdict, and --plan gives none")
    data, typed = data_of(options)
    rules = _rules_of_plan(options)
    registry = known_from(options, map(Path, rules.baseline))
    planned = [planning.independent(units, rules.margin / 100) for units in options.units]
    named = listed(options.benchmark)
    for benchmark in benchmarks.choose(named, registry.benchmarks, data, typed) if named else ():
        folder = benchmarks.folder_of(benchmark, data) or data or Path()
        planned += planning.of_data(benchmark, benchmarks.load(benchmark, folder), rules)
    if options.baseline or not planned:
        for side in gating.load(rules, Path()):
            for name in side.run.benchmarks:
                if name in registry.benchmarks and name in side.asked:
                    planned += planning.of_baseline(registry.benchmarks[name], side, rules)
    planned = planned or [planning.independent(units, rules.margin / 100) for units in planning.SIZES]
    discordance = planning.DISCORDANCE if options.discordance is None else options.discordance / 100
    chosen: dict[str, Any] = {"discordance": discordance, "deff": options.deff, "looks": rules.looks}
    return _drawn(planning.prospects(planned, icc=rules.flip_icc, **chosen), planning.guards(planned, **chosen))


def _rules_of_plan(options: argparse.Namespace) -> Rules:
    """Return the rules of the file, overridden by options. A plan needs no baseline."""

    rules = _read(options)
    typed = {
        "baseline": tuple(options.baseline),
        "margin": options.margin,
        "looks": options.looks,
        "slices": tuple(dict.fromkeys(name for names in options.gate_slices for name in names.split(",") if name)),
    }
    if options.margin is not None:
        # A typed margin applies to all benchmarks of the plan.
        own = {name: replace(rule, margin=None) for name, rule in rules.benchmarks.items()}
        rules = replace(rules, benchmarks=own)
    return replace(rules, **{name: value for name, value in typed.items() if value not in (None, ())})


def _drawn(prospects: Sequence[Prospect], guards: Sequence[Guarded]) -> str:
    """Return the plan as tables: rules with a margin, the chance levels of their baselines, and guards."""
    from medvqa.figures import Column, Table, numbers, terminal

    margins = {prospect.planned.margin for prospect in prospects}
    same = len(margins) == 1
    loss = f"{100 * (next(iter(margins)) or 0):g}" if same else "it"
    designed = ("units", "groups", "df")
    columns = (
        *(Column(""), *numbers(*designed, *([] if same else ["margin"]))),
        *numbers("PASS at no change", f"PASS at a loss of {loss}", "80 % pass a margin of", "80 % need"),
    )
    cells = []
    for row in prospects:
        first = [*_design(row.planned), *([] if same else [f"{100 * (row.planned.margin or 0):g}"])]
        if row.chances is None or row.passable is None or row.needed is None:
            cells.append((*first, row.planned.why_not, "", "", ""))
            continue
        unchanged, at_margin = row.chances
        cells.append(
            (
                *first,
                _range(unchanged, "%"),
                _range(at_margin, "%"),
                "none" if min(row.passable) > 1 else _losses(row.passable),
                _span([f"{units:,.0f}" for units in row.needed], f"{row.planned.design.unit}s"),
            )
        )
    blocks = [terminal(Table("", columns, tuple(cells)))]
    chances = [_chance(row.planned) for row in prospects if row.planned.chance is not None]
    if chances:
        blocks.append("\n".join(chances) + "\n")
    if guards:
        shown = tuple(
            (
                *_design(row.planned),
                row.planned.why_not if row.smallest is None else _losses(row.smallest),
            )
            for row in guards
        )
        names = (Column("guarded slice"), *numbers(*designed, "shows a true loss of, in 80 % of runs"))
        blocks.append(terminal(Table("", names, shown)))
    plans = [*(row.planned for row in prospects), *(row.planned for row in guards)]
    if any(planned.design.together > 1 for planned in plans):
        blocks.append(
            "ranges: the first figure is for groups whose units flip together, the second for independent units\n"
        )
    runs = [end for row in prospects for ends in (row.unchanged, row.at_margin) for end in ends or ()]
    if runs:
        blocks.append(_errors(runs))
    return "\n".join(blocks).removesuffix("\n")


def _errors(simulated: Sequence[Simulated]) -> str:
    """Say how often the gate was simulated, and how exact its chances of PASS are."""
    least, most = min(each.runs for each in simulated), max(each.runs for each in simulated)
    runs = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    error = max(each.error for each in simulated)
    return (
        f"chances of PASS: the gate itself, simulated {runs} times for each figure; two standard errors are at most "
        + (f"{_tenths(error)} points\n")
    )


def _design(planned: Planned) -> tuple[str | int, ...]:
    from math import isfinite

    from medvqa.figures import freedom

    design = planned.design
    df = "" if design.df is None or not isfinite(design.df) else freedom(design.df)
    return planned.name, design.units, design.groups, df


def _losses(values: tuple[float, float]) -> str:
    """Describe the losses that a guard would show. No loss exceeds 100 points: beyond that, it would show none."""
    if min(values) > 1:
        return "no loss"
    return f"over 100 to {_tenths(values[1])} points" if values[0] > 1 else _range(values, "points")


def _range(values: tuple[float, float], unit: str) -> str:
    return _span([_tenths(value) for value in values], unit)


def _span(texts: Sequence[str], unit: str) -> str:
    """Return a figure, or two if they differ as printed, with the unit once."""
    return f"{' to '.join(dict.fromkeys(texts))} {unit}"


def _tenths(fraction: float) -> str:
    from medvqa.figures import number

    return number(fraction, digits=1)


def _chance(planned: Planned) -> str:
    side, end, chance, bound = "above", "a lower", planned.chance or 0.0, planned.baseline_low
    if planned.better == "lower":
        side, end, chance, bound = "below", "an upper", 1 - chance, None if bound is None else 1 - bound
    if not planned.known:
        return f"{planned.name}: PASS needs a baseline that is shown to be {side} chance: {_tenths(chance)} %"
    own = f"no {end.split()[1]} bound" if bound is None else f"{end} bound of {_tenths(bound)} %"
    shown = side if planned.above_chance else f"not shown to be {side}"
    return f"{planned.name}: {shown} chance: {_tenths(chance)} %, with {own}"
