"""The gate of a session: prepared before anything is collected, stored before anything is asked, decided at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from medvqa import records
from medvqa.comparing import Side, gating
from medvqa.comparing.gating import Gate, Verdict
from medvqa.items import UsageError
from medvqa.plugin.collected import Collected, queries
from medvqa.session.options import Options
from medvqa.session.plan import Plan


def rules_of(config: pytest.Config, options: Options) -> gating.Rules:
    """What was typed over the tables of the repository's pyproject.toml (UsageError)."""
    return gating.typed_over(
        gating.read_rules(config.rootpath / gating.rules.FILE),
        baseline=options.baselines,
        margin=options.margin,
        slices=options.gate_slices,
        looks=options.looks,
        inconclusive=options.inconclusive,
    )


def prepare(config: pytest.Config, plan: Plan, folder: Path) -> Gate | None:
    """What is gated, None for nothing. Raises UsageError and DataError for rules and baselines that cannot be used."""
    rules = rules_of(config, plan.options)
    if not rules.active:
        return None
    baselines = gating.load(rules, Path(config.invocation_params.dir))
    about = plan.about()
    if (folder / records.RUN).is_file():
        # The verdict is on the whole run, also where this session asks a part of it.
        before = records.read_run(folder).get("benchmarks", {})
        there = {name: said for name, said in before.items() if name in plan.known.benchmarks}
        about["benchmarks"] = {**there, **about["benchmarks"]}
    return gating.prepare(rules, baselines, about, plan.known.benchmarks, plan.known.metrics)


def check(gate: Gate, plan: Plan, collected: Collected) -> None:
    """UsageError where a baseline lacks a question that was collected."""
    asked = {query.key.question for query in queries(collected, plan)}
    if lack := gate.lacking(asked):
        raise UsageError(lack)


def promise(gate: Gate, plan: Plan, folder: Path) -> None:
    """Store the rules in run.json, unless the run has results already: what is decided later was settled before."""
    results = folder / records.RESULTS
    if results.is_file() and results.stat().st_size:
        return
    before = records.read_run(folder) if (folder / records.RUN).is_file() else {}
    if "gate" not in before:
        folder.mkdir(parents=True, exist_ok=True)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"name": folder.name, "started": started, **plan.about(), **before, "gate": gate.stored()}
        records.write_json(folder / records.RUN, about)


def withdraw(folder: Path) -> None:
    """Take away again what `promise` made, where no session has begun: what workers left there stays."""
    with suppress(OSError):
        if (folder / records.RUN).is_file() and "sessions" not in records.read_run(folder):
            (folder / records.RUN).unlink()
            folder.rmdir()


def settle(gate: Gate | None, folder: Path, run: Mapping[str, Any], missing: Sequence[str]) -> Verdict | None:
    """Decide, and write gate.json; None where nothing is gated."""
    if gate is None:
        return None
    decided = gating.decided(gate, folder, Side(folder.name, run, records.read(folder).results), missing)
    gating.write(folder, decided)
    return decided.verdict
