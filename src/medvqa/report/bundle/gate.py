"""The verdict of the gate as a section of a page: each rule with its numbers and its reason."""

from __future__ import annotations

from collections.abc import Mapping

from medvqa.comparing.gating import Decided
from medvqa.report import gate
from medvqa.report.bundle.page_blocks import (
    HeadlineBlock,
    NamedFact,
    PageSection,
    State,
    TextBlock,
    section,
    table_block,
)

GATE = "gate"
"""The id of its section."""
STATES: Mapping[str, State] = {"PASS": "good", "FAIL": "bad", "INCONCLUSIVE": "open", "": "bad"}


def gate_section(decided: Decided) -> PageSection:
    """The verdict with the rules that decide, then the slices that pass or are not gated, folded."""
    verdict = decided.verdict
    moved = [
        f"Largest {what} by slice, in points: {gate.moved(slices)}."
        for what, slices in (("losses", verdict.worst), ("gains", verdict.best))
        if slices
    ]
    moved += [f"{'gained' if each.better else 'lost'}: {gate.flip(each)}" for each in verdict.flips]
    changes = TextBlock(f"Largest changes, exploratory: {gate.flips(verdict)}", tuple(moved), folded=True)
    small = tuple(NamedFact(gate.name(entry), entry.why) for entry in gate.small(verdict))
    blocks = [
        HeadlineBlock(
            f"Gate: {gate.headline(decided, exits=False)}",
            STATES[verdict.outcome or ""],
            (*verdict.blockers, *gate.remarks(decided)),
        ),
        table_block(gate.table(gate.listed(verdict))),
        table_block(gate.table(gate.passed(verdict), "Slices not shown to be worse"), folded=True),
        TextBlock("Slices that are not gated", facts=small, folded=True) if small else None,
        changes if moved else None,
    ]
    return section(GATE, "Gate", blocks)
