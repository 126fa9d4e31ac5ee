"""The gate that options and pyproject.toml name for a run; `Run` stores its rules and lets it decide."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from msgspec import structs

from medvqa.comparing import gating
from medvqa.comparing.gating import Gate, Rules
from medvqa.comparing.gating.rules import FILE, TABLE
from medvqa.items import QuestionKey, UsageError
from medvqa.records import run_record
from medvqa.records.run_record import RUN
from medvqa.session.about import about
from medvqa.session.options import Options
from medvqa.session.plan import Plan

OFF = "off"
"""Value of --gate that runs without the rules of the repository."""


def prepare(plan: Plan, folder: Path) -> Gate | None:
    """Return the gate, or None without rules. UsageError and DataError for rules and baselines that cannot be used.

    Options override the tables of the project's pyproject.toml. `--gate=required` refuses a run without a gate;
    `--gate=off` runs without one.
    """
    options = plan.options
    if options.gate == OFF:
        _refuse_rules(plan)
        return None
    rules = rules_of(plan)
    if options.gate not in (None, "required"):
        raise UsageError(
            f"--gate={options.gate}: required, or nothing; what is gated say --baseline=RUN and {FILE}. "
            f"--gate={OFF} runs without the gate"
        )
    if not rules.active:
        if options.gate is not None:
            raise UsageError(f"--gate=required: there are no rules. {_looked(plan)}")
        return None
    if options.gate is not None and plan.shard is not None:
        raise UsageError(
            f"--gate=required: a shard alone (--shard={plan.shard}) gets no verdict. Leave out --gate=required here; "
            "then medvqa merge all shards, and medvqa gate the merged run: exit code 0 is PASS"
        )
    baselines = gating.load(rules, plan.project.cwd, folder)
    run = about(plan)
    if (folder / RUN).is_file():
        # The verdict is about the whole run, even if this session asks a part of it.
        before = run_record.read_run(folder).benchmarks
        earlier = {name: fields for name, fields in before.items() if name in plan.registry.benchmarks}
        run = structs.replace(run, benchmarks={**earlier, **run.benchmarks})
    gate = gating.prepare(rules, baselines, run, plan.registry.benchmarks)
    if gate is None and options.gate is not None:
        names = ", ".join(run.benchmarks) or "none"
        raise UsageError(
            f"--gate=required: {rules.read_from}, and no rule is about the benchmarks of this run ({names})"
        )
    return gate


def check_stop(plan: Plan, gate: Gate | None) -> None:
    """UsageError if --stop cannot be kept: it needs a baseline, and all questions of a run that its options select."""
    stop, before = plan.options.stop, "--stop=early"
    if stop is None:
        return
    if stop != "early":
        raise UsageError(f"--stop={stop}: early, or leave --stop out to ask every question")
    if gate is None or not gate.baselines:
        raise UsageError(f"{before}: worse than what? Name a run folder or a baseline file: --baseline=RUN")
    if plan.shard is not None:
        raise UsageError(f"{before}: a shard (--shard={plan.shard}) has no verdict of its own: leave one of them out")
    if plan.project.by_outcome:
        raise UsageError(f"{before}: questions chosen by how they ended before (--lf) are no fair sample: leave it out")
    if not gating.stopping(gate):
        raise UsageError(
            f"{before}: no gated measure is a mean over questions or pairs ("
            f"{', '.join(dict.fromkeys(target.metric.name for target in gate.targets))}). Leave --stop out, or gate "
            "another measure: medvqa help comparing"
        )


def check_same_questions(plan: Plan, before: Collection[QuestionKey], selected: Collection[QuestionKey]) -> None:
    """UsageError if --stop goes on with a run whose earlier sessions selected other questions.

    The evidence is that of one order of groups from the first one on. Of each other selection it begins anew, and so
    does the chance of a false stop.
    """
    if plan.options.stop is not None and set(before) != set(selected):
        raise UsageError(
            f"--stop=early: earlier sessions of this run selected {len(set(before)):,} questions, this one "
            f"{len(set(selected)):,}, by other options. Each selection has its own chance of a false stop: select the "
            "same questions again, name another run by --run=NAME, or leave --stop out"
        )


def _refuse_rules(plan: Plan) -> None:
    """UsageError if rules were typed beside --gate=off."""
    options = plan.options
    rules = {
        "baseline": options.baselines,
        "margin": options.margin,
        "gate-slices": options.gate_slices,
        "looks": options.looks,
        "inconclusive": options.inconclusive,
        "require": options.require,
        "stop": options.stop,
    }
    if typed := [f"--{name}" for name, value in rules.items() if value not in (None, ())]:
        raise UsageError(f"--gate={OFF}: the run has no gate, and {', '.join(typed)} are rules of one; leave one out")


def rules_of(plan: Plan) -> Rules:
    """Return the rules of the project's pyproject.toml, overridden by options (UsageError)."""
    return overridden(gating.read_rules(plan.project.root / FILE), plan.options)


def overridden(rules: Rules, options: Options) -> Rules:
    """Return rules with the typed ones over them (UsageError)."""
    return gating.typed_over(
        rules,
        baseline=options.baselines,
        margin=options.margin,
        slices=options.gate_slices,
        looks=options.looks,
        inconclusive=options.inconclusive,
        require=options.require,
    )


def _looked(plan: Plan) -> str:
    """Say where rules were searched, and how to add some."""
    path = plan.project.root / FILE
    problem = f"has no baseline and no floor in [{TABLE}]" if path.is_file() else "is not there"
    line = f"{path} {problem}, and no --baseline was typed."
    if other := unread(plan):
        line += f" {other}."
    line += " Write rules (medvqa help comparing), type --baseline=RUN, or start in the folder of the rules"
    line += " (pytest: --rootdir=DIR)"
    return line


def unread(plan: Plan) -> str | None:
    """Return why existing rules do not gate a run, as a sentence; None if there are none.

    They have no baseline and no floor, are about benchmarks that --benchmark left out, or lie above the root folder.
    """
    path = plan.project.root / FILE
    rules = gating.read_rules(path)
    if rules.active:
        names = ", ".join(dict.fromkeys(rule.benchmark for rule in rules.floor))
        return f"the floors of {path} are about {names}, and --benchmark names others"
    if rules.file:
        return f"[{TABLE}] of {path} names no baseline and no floor, and no --baseline was typed"
    other = gating.rules_above(plan.project.root)
    if other is None:
        return None
    return f"the rules of {other} are not read, since pytest's root folder is {plan.project.root}"
