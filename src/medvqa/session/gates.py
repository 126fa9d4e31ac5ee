"""The gate of a run: prepared before anything is collected, stored before anything is asked, decided at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medvqa import records
from medvqa.comparing import Side, gating
from medvqa.comparing.gating import Gate, Verdict
from medvqa.items import QuestionKey, UsageError
from medvqa.session.about import about
from medvqa.session.plan import Plan


def prepare(plan: Plan, folder: Path) -> Gate | None:
    """What is gated; None for nothing. UsageError and DataError for rules and baselines that cannot be used.

    Options go before the tables of the repository's pyproject.toml.
    """
    options = plan.options
    rules = gating.typed_over(
        gating.read_rules(plan.setting.root / gating.rules.FILE),
        baseline=options.baselines,
        margin=options.margin,
        slices=options.gate_slices,
        looks=options.looks,
        inconclusive=options.inconclusive,
    )
    if not rules.active:
        return None
    baselines = gating.load(rules, plan.setting.cwd)
    run = about(plan)
    if (folder / records.RUN).is_file():
        # The verdict is on the whole run, also if this session asks a part of it.
        before = records.read_run(folder).get("benchmarks", {})
        there = {name: fields for name, fields in before.items() if name in plan.registry.benchmarks}
        run["benchmarks"] = {**there, **run["benchmarks"]}
    return gating.prepare(rules, baselines, run, plan.registry.benchmarks, plan.registry.metrics)


def check(gate: Gate, plan: Plan, keys: Iterable[QuestionKey]) -> None:
    """UsageError if a baseline lacks a selected question of a benchmark; a test's own questions do not count."""
    known = {(name, item.id) for name in plan.benchmarks for item in plan.items(name)}
    if lack := gate.lacking({key.question for key in keys if (key.benchmark, key.item) in known}):
        raise UsageError(lack)


def promise(gate: Gate, plan: Plan, folder: Path) -> None:
    """Store the rules in run.json, unless the run has results already: a rule is settled before its answers are."""
    results = folder / records.RESULTS
    if results.is_file() and results.stat().st_size:
        return
    before = records.read_run(folder) if (folder / records.RUN).is_file() else {}
    if "gate" not in before:
        folder.mkdir(parents=True, exist_ok=True)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        run = {"name": folder.name, "started": started, **about(plan), **before, "gate": gate.stored()}
        records.write_json(folder / records.RUN, run)


def withdraw(folder: Path) -> None:
    """Remove what `promise` made if no session has begun; what workers left there stays."""
    with suppress(OSError):
        if (folder / records.RUN).is_file() and "sessions" not in records.read_run(folder):
            (folder / records.RUN).unlink()
            folder.rmdir()


def settle(
    gate: Gate | None, folder: Path, run: Mapping[str, Any], covered: records.Coverage, stored: records.Stored
) -> Verdict | None:
    """Decide, and write gate.json; None if nothing is gated."""
    if gate is None:
        return None
    decided = gating.decided(gate, folder, Side(folder.name, run, stored.results, covered))
    gating.write(folder, decided)
    return decided.verdict
