"""The gate of a session: prepared before anything is collected, stored before anything is asked, decided at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from medvqa import gating, records
from medvqa.comparing import Side
from medvqa.gating import Gate, Verdict
from medvqa.items import Query, UsageError
from medvqa.plugin.options import Options
from medvqa.plugin.plan import Plan


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


def prepare(config: pytest.Config, plan: Plan) -> Gate | None:
    """What is gated, None for nothing. Raises UsageError and DataError for rules and baselines that cannot be used."""
    rules = rules_of(config, plan.options)
    if not rules.active:
        return None
    baselines = gating.load(rules, Path(config.invocation_params.dir))
    gate = gating.prepare(rules, baselines, plan.about(), plan.known.benchmarks, plan.known.metrics)
    if gate is not None and not _selects(config, plan.options):
        asked = [
            Query(item, technique).key
            for name in plan.benchmarks
            for item in plan.items(name)
            for technique in plan.techniques
            if plan.asks(Query(item, technique))
        ]
        if lack := gate.lacking(asked):
            raise UsageError(lack)
    return gate


def _selects(config: pytest.Config, options: Options) -> bool:
    """Whether the user asks a part of the questions: which of them, collecting will tell."""
    typed = (options.limit, options.shard, config.option.keyword, config.option.markexpr, config.option.deselect)
    return any(typed) or bool(config.getoption("lf", False)) or any("::" in argument for argument in config.args)


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
    """Take the folder away again that `promise` made, where nothing was asked."""
    with suppress(OSError):
        if [each.name for each in folder.iterdir()] == [records.RUN]:
            (folder / records.RUN).unlink()
            folder.rmdir()


def settle(gate: Gate | None, folder: Path, run: Mapping[str, Any], missing: Sequence[str]) -> Verdict | None:
    """Decide, and write gate.json; None where nothing is gated."""
    if gate is None:
        return None
    decided = gating.decided(gate, folder, Side(folder.name, run, records.read(folder).results), missing)
    gating.write(folder, decided)
    return decided.verdict
