"""`medvqa gate`: decide on an existing run, or with --plan, print the chance of PASS."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import DATA, Arguments, Command, option, positional
from medvqa.cli.common import known_and_named, known_from, questions_of
from medvqa.items import UsageError

DECIDING = ("baseline", "margin", "gate-slices", "looks", "inconclusive", "require", "rules", "data", "replace")
"""Options of a verdict that is decided now."""


class GateArguments(Arguments):
    """Decide by the rules of the gate whether a run is worse than its baseline.

    Exit code 0: PASS, 10: FAIL, 11: INCONCLUSIVE, 1: no verdict. With --plan, print the chance of PASS before there is
    a run.
    """

    runs: list[Path] = positional(
        "a run folder, such as reports/RUN; with --plan none, or two runs whose flips tell the design effect",
        "RUN",
        least=0,
    )
    rules: Path | None = option(
        "a TOML file with a table [tool.medvqa.gate] (default: pyproject.toml of this folder, if there is one)", "FILE"
    )
    replace: bool = option(
        "let this verdict take the place of a FAIL on the same results; the verdict then names that FAIL"
    )
    required: bool = option(
        "decide nothing: exit with 0 only if the last session of RUN left a verdict that lets it pass. The step "
        "that decides in CI"
    )
    plan: bool = option(
        "print the chance of PASS; no RUN is needed. Two runs of much the same model tell how their flips go together "
        "within groups",
        section="planning",
    )
    selftest: bool = option(
        "decide on copies of the baseline that are worse by the margin, and print which rules FAIL and which "
        "cannot; RUN is needed for floors without a baseline",
        section="planning",
    )
    units: list[int] = option("plan for N questions or pairs (repeatable)", "N", section="planning")
    discordance: float | None = option(
        "questions or pairs whose score changes between two runs, either way (default: 15)",
        "PERCENT",
        section="planning",
    )
    deff: float | None = option(
        "design effect of groups (default: a range, from groups that change together to independent questions)",
        "D",
        section="planning",
    )


def run(typed: GateArguments) -> tuple[str, int]:
    """Return the plan, or the verdict and its exit code."""
    from medvqa.commands import verdicts

    if typed.required and (typed.plan or typed.selftest):
        other = "plan" if typed.plan else "selftest"
        raise UsageError(f"--required reads the verdict of a run, and --{other} gives none: leave one out")
    if typed.plan:
        return _plan(typed), 0
    if len(typed.runs) > 1:
        raise UsageError(f"a gate decides on one run, not {len(typed.runs)}: leave out {typed.runs[1]}")
    if typed.selftest:
        return _selftest(typed)
    if planned := typed.first_given("benchmark", "units", "discordance", "deff"):
        raise UsageError(f"{planned} belongs to --plan")
    if not typed.runs:
        raise UsageError("name a run folder: medvqa gate reports/RUN --baseline=reports/MAIN; or plan one: --plan")
    (run,) = typed.runs
    if not typed.required:
        registry = known_from(typed, [run])
        return verdicts.decide(run, typed.rules, typed.options(), registry, replaces=typed.replace)
    if deciding := typed.first_given(*DECIDING):
        raise UsageError(
            f"--required reads the verdict of the run's last session, and decides none: leave out {deciding}"
        )
    return verdicts.required(run)


def _selftest(typed: GateArguments) -> tuple[str, int]:
    from medvqa.commands import verdicts

    run = typed.runs[0] if typed.runs else None
    rules = verdicts.rules_of(typed.rules, typed.options())
    if not rules.active:
        raise UsageError(f"--selftest: there are no rules. {verdicts.NO_RULES}")
    if rules.baseline and run is not None:
        raise UsageError(f"--selftest answers the questions of the baseline: leave out {run}")
    if not rules.baseline and run is None:
        raise UsageError("--selftest: floors without a baseline need questions: medvqa gate reports/RUN --selftest")
    runs = map(Path, rules.baseline) if run is None else [run]
    return verdicts.selftest(rules, run, known_from(typed, runs).benchmarks)


def _plan(typed: GateArguments) -> str:
    from medvqa.commands import verdicts

    if typed.runs and len(set(typed.runs)) != 2:
        raise UsageError(
            f"--plan is for before there is a run, so without {typed.runs[0]}; or with two runs of much the same "
            "model, whose flips tell the design effect"
        )
    if typed.runs and typed.deff is not None:
        raise UsageError(f"--deff and {typed.runs[0]} both tell the design effect: leave one out")
    if verdict := typed.first_given("inconclusive", "require"):
        raise UsageError(f"{verdict} belongs to a verdict, and --plan gives none")
    options = typed.options()
    rules = verdicts.planned_rules(typed.rules, options)
    registry, named = known_and_named(typed, options.benchmarks, [*map(Path, rules.baseline), *typed.runs])
    loaded = questions_of(options, named, registry.benchmarks) if named else {}
    return verdicts.plan(
        rules,
        {name: items for name, (items, _) in loaded.items()},
        typed.units,
        registry.benchmarks,
        by_baseline=bool(options.baselines),
        discordance=typed.discordance,
        deff=typed.deff,
        runs=typed.runs,
    )


COMMAND = Command(
    GateArguments,
    run,
    {
        "baseline": "compare with this run folder or baseline file (repeatable)",
        **dict.fromkeys(("margin", "gate-slices", "looks", "inconclusive", "require"), ""),
        "benchmark": "with --plan: plan for the questions or pairs of this benchmark (repeatable)",
        **DATA,
    },
)
