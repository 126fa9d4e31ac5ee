"""Verdicts of the gate on runs that exist, and plans of gates before there is a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from medvqa import comparing, memory, printing, report
from medvqa.commands.redrawing import redrawn
from medvqa.comparing import gating
from medvqa.comparing.gating import Decided, Rules, planning
from medvqa.comparing.gating.rules import FILE, TABLE
from medvqa.items import Benchmark, Item, UsageError
from medvqa.records import run_record
from medvqa.records.coverage import ended
from medvqa.records.run_record import RUN
from medvqa.report import gate_plans, verdict_files
from medvqa.report.gate import lines
from medvqa.session import gates
from medvqa.session.options import Options
from medvqa.session.registry import Registry

NO_RULES = (
    "Name a run folder or a baseline file by --baseline=RUN, or floors in [[tool.medvqa.gate.floor]] of pyproject.toml"
)


def rules_in(file: Path | None) -> Rules:
    """Return the rules of a file, else of this folder's pyproject.toml (UsageError)."""
    if file is None:
        return gating.read_rules(Path(FILE))
    if not file.is_file():
        raise UsageError(f"--rules={file}: no such file")
    rules = gating.read_rules(file)
    if not rules.file:
        raise UsageError(f"--rules={file}: no table [{TABLE}], so the file has no rules; write them there")
    return rules


def rules_of(file: Path | None, options: Options) -> Rules:
    """Return the rules of `rules_in` with the typed options over them (UsageError)."""
    return gates.overridden(rules_in(file), options)


def required(run: Path) -> tuple[str, int]:
    """Return the verdict of a run's last session, and 0 only if it lets the run pass; nothing is decided."""
    decided = gating.read(run)
    if decided is None and not run.is_dir():
        return f"gate: no verdict: there is no folder {run}{run_record.runs_beside(run)}", 1
    if decided is None:
        return f"gate: no verdict: {run} has none. A session that dies, or is not gated, leaves none", 1
    side = comparing.load(run)
    if why := gating.not_current(decided, side.run, gating.digest(side.run, side.results)):
        return f"gate: no verdict: {why}", 1
    return "\n".join(lines(decided)), decided.verdict.exit_code


@memory.no_cycle_search()
def decide(run: Path, file: Path | None, options: Options, registry: Registry, *, replaces: bool) -> tuple[str, int]:
    """Decide by the typed rules, else by those of the run; store the verdict, and return its lines and exit code.

    A FAIL on the same results stands unless `replaces` (UsageError).
    """
    about, rules = run_record.read_run(run), rules_of(file, options)
    if not rules.active and (stored := about.gate) is not None:
        rules = gating.from_json(stored.rules, f"{run / RUN}: gate")
        paths = tuple(baseline.path for baseline in stored.baselines if baseline.path)
        source = os.path.relpath(run / RUN) if stored.file is None else stored.file
        rules = replace(rules, baseline=paths, file=source, typed=stored.typed)
    if not rules.active:
        read = "" if file is None else f"--rules={file} has no baseline and no floor, and "
        raise UsageError(f"{read}there is nothing to decide. {NO_RULES}")
    gate = gating.prepare(rules, gating.load(rules, Path(), run), about, registry.benchmarks)
    if gate is None:
        raise UsageError(f"no rule is about what {run} asks ({', '.join(about.benchmarks)})")
    side = comparing.load(run)
    if lack := gate.lacking([result.key.question for result in side.results]):
        raise UsageError(lack)
    if not ended(about):
        raise UsageError(f"{run} did not end: finish it by pytest --run={run.name}")
    decided = gating.decided(gate, run, side)
    if not replaces and (fail := gating.standing_fail(run, decided)) is not None:
        raise UsageError(
            f"{run} has a {fail.named}, and by these rules the same results would get {decided.named}. A FAIL "
            "stands: add --replace to replace it all the same; the new verdict will name it"
        )
    before, decided = gating.read_if_whole(run), gating.with_history(run, decided)
    public = {name for name, benchmark in registry.benchmarks.items() if benchmark.public}
    try:
        gating.write(run, decided)
        if not verdict_files.put(run, side, decided, before, public):
            redrawn(run, registry, options.data)
        unread = [f"! not read: {line}" for line in side.unread]
        return "\n".join([*lines(decided), *unread, f"run folder: {run}"]), decided.verdict.exit_code
    except (OSError, UsageError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        return _unwritten(run, decided, cause), decided.verdict.exit_code or 1


def _unwritten(folder: Path, decided: Decided, error: OSError) -> str:
    """Return the lines of a verdict that cannot be stored, after taking away an earlier one and its reports."""
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
    return "\n".join([*lines(decided), printing.line(why)])


def selftest(rules: Rules, run: Path | None, known: Mapping[str, Benchmark]) -> tuple[str, int]:
    """Return how the rules decide on worse copies of each baseline, and 1 if one cannot FAIL or lets them pass.

    Rules of floors alone decide on copies of `run`.
    """
    blocks, sound = list[str](), True
    for path in rules.baseline or (None,):
        own = rules if path is None else replace(rules, baseline=(path,))
        source = comparing.load(run) if path is None and run is not None else gating.load(own, Path())[0]
        tried, notes = gating.selftest(own, source, known)
        dimensions = [name for name in own.slices if not any(t.can_fail and name in t.ruling.slice for t in tried)]
        sound &= not dimensions and all(t.sound for t in tried if t.ruling.kind != "slice guard")
        blocks += [gate_plans.tried(tried), *notes]
        blocks += [f"no slice of {name} can FAIL: the guard does nothing" for name in dimensions]
    return "\n".join(blocks), 0 if sound else 1


def planned_rules(file: Path | None, options: Options) -> Rules:
    """Return the rules of a plan: those of `rules_in`, overridden by options. A plan needs no baseline (UsageError)."""
    rules = rules_in(file)
    if options.margin is not None:
        # A typed margin applies to all benchmarks of the plan.
        own = {name: replace(rule, margin=None) for name, rule in rules.benchmarks.items()}
        rules = replace(rules, benchmarks=own, margin=options.margin)
    return replace(
        rules,
        baseline=options.baselines or rules.baseline,
        looks=rules.looks if options.looks is None else options.looks,
        slices=options.gate_slices or rules.slices,
    )


def plan(
    rules: Rules,
    questions: Mapping[str, Sequence[Item]],
    units: Sequence[int],
    known: Mapping[str, Benchmark],
    *,
    by_baseline: bool,
    discordance: float | None,
    deff: float | None,
    runs: Sequence[Path] = (),
) -> str:
    """Return the chance of PASS for numbers of units, for the questions of benchmarks, and for those of the baselines.

    The baselines of `rules` count `by_baseline`, or if nothing else is planned. `discordance` in percent. `runs`: two
    runs whose flips tell the design effect of their benchmarks; their questions are planned if nothing else is.
    """
    sides = comparing.named_apart(comparing.load_runs(runs), list(map(str, runs)))
    flips = planning.flips_between((sides[0], sides[1]), known, rules) if sides else {}
    planned = [planning.independent(number, rules.margin / 100) for number in units]
    for name, items in questions.items():
        planned += [replace(plan, flips=flips.get(name)) for plan in planning.of_data(known[name], items, rules)]
    if by_baseline or not planned:
        for side in gating.load(rules, Path()) or sides[:1]:
            for name in side.run.benchmarks:
                if name in known and name in side.asked:
                    own = planning.of_baseline(known[name], side, rules)
                    planned += [replace(plan, flips=flips.get(name)) for plan in own]
    planned = planned or [planning.independent(number, rules.margin / 100) for number in planning.SIZES]
    if sides and all(plan.flips is None for plan in planned):
        told = ", ".join(flips) or "none"
        raise UsageError(
            f"the flips between {sides[0].name} and {sides[1].name} tell of these benchmarks: {told}; what is planned "
            "is about none of them. Leave both runs out, or plan one of theirs (--benchmark=NAME)"
        )
    share = planning.DISCORDANCE if discordance is None else discordance / 100
    return gate_plans.planned(
        planning.prospects(planned, icc=rules.flip_icc, discordance=share, deff=deff, looks=rules.looks),
        planning.guards(planned, discordance=share, deff=deff, looks=rules.looks),
        between=" and ".join(side.name for side in sides),
    )
