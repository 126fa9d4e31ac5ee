"""The verdict of the gate as a section of a page: each rule with its numbers and its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from medvqa.comparing.gating import Decided
from medvqa.figures import About
from medvqa.report import gate
from medvqa.report.bundle.page_blocks import HeadlineBlock, PageSection, State, TextBlock, section, table_block

GATE = "gate"
"""The id of its section."""
STATES: Mapping[str, State] = {"PASS": "good", "FAIL": "bad", "INCONCLUSIVE": "open", "": "bad"}


def gate_section(decided: Decided) -> PageSection:
    """The verdict with the rules that decide, then the slices that pass or are not gated, folded."""
    verdict = decided.verdict
    table = gate.table(verdict)
    rules = replace(table, about=tuple(About(note=entry.why) for entry in gate.listed(verdict)))
    moved = [
        f"Largest {what} by slice, in points: {gate.moved(slices)}."
        for what, slices in (("losses", verdict.worst), ("gains", verdict.best))
        if slices
    ]
    moved += [f"{'gained' if each.better else 'lost'}: {gate.flip(each)}" for each in verdict.flips]
    changes = TextBlock(f"Largest changes, exploratory: {gate.flips(verdict)}", tuple(moved), folded=True)
    slices = TextBlock("Slices", tuple(gate.quiet(verdict)), folded=True)
    blocks = [
        HeadlineBlock(
            f"Gate: {gate.headline(decided, exits=False)}",
            STATES[verdict.outcome or ""],
            (*verdict.blockers, *gate.remarks(decided)),
        ),
        table_block(rules),
        *(block for block in (slices, changes) if block.lines),
    ]
    return section(GATE, "Gate", blocks)
