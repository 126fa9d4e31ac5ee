"""Put a new verdict of the gate into reports that exist, without drawing them again."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from medvqa import decode, files
from medvqa.comparing import Side
from medvqa.comparing.gating import Decided
from medvqa.records import run_folder
from medvqa.records.coverage import METRICS, Basis
from medvqa.records.run_record import MAX_RUN
from medvqa.records.selected import selected_bytes
from medvqa.report import bundle, gate, html, junit
from medvqa.report.writing import JUNIT, MEASURES

SUMMARY, XML = "summary.md", "gate.xml"
_OUTCOMES = re.compile(r"\| benchmark \|.* (items|answers) \| correct \|")
"""The head of the table of outcomes in summary.md, which the gate's section precedes."""


class _DrawnGate(msgspec.Struct):
    of: str


class _Drawn(msgspec.Struct):
    """The fields of metrics.json that tell what the reports were drawn from."""

    results: Basis
    run: dict[str, Any]
    gate: _DrawnGate | None = None


def put(folder: Path, side: Side, decided: Decided, before: Decided | None, public: Collection[str]) -> bool:
    """Put a verdict on `side` into the reports of its run folder; False if they must be drawn again, then none changes.

    `before`: the verdict in gate.json until now. `public`: benchmarks whose questions may be named. The reports must be
    of these results, this run.json and this version, must show the verdict before, if there was one, and none of the
    files that each run has may be missing (OSError).
    """
    try:
        content = files.read(folder / METRICS, MAX_RUN)
        drawn = msgspec.json.decode(content, type=_Drawn)
        fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        summary = _summary((folder / SUMMARY).read_text("utf-8"), gate.blocks(decided, folder.name, public))
        page = html.with_block((folder / html.FILE).read_bytes(), "head", lambda head: bundle.with_gate(head, decided))
    except (FileNotFoundError, *decode.ERRORS):
        return False
    shown = None if drawn.gate is None else drawn.gate.of
    was = None if before is None else before.verdict.of
    is_of_now = (drawn.results.digest, drawn.results.number) == (decided.digest, decided.number)
    finished = side.covered is not None and side.covered.finished == drawn.results.finished
    run = msgspec.json.decode(msgspec.json.encode(side.run.as_json()))
    whole = (folder / JUNIT).is_file() and (folder / MEASURES).is_file()
    current = is_of_now and finished and whole and drawn.run == run and drawn.results.keys == selected_bytes(folder)
    if not current or shown != was or shown not in (None, decided.verdict.of) or summary is None or page is None:
        return False
    run_folder.write_json(folder / METRICS, {**fields, "gate": decided.verdict})
    run_folder.write_atomic(folder / SUMMARY, summary.encode())
    run_folder.write_atomic(folder / XML, junit.render_gate(decided.verdict))
    run_folder.write_atomic(folder / html.FILE, page)
    return True


def _summary(text: str, section: list[str]) -> str | None:
    """Return summary.md with another section of the gate; None if the place of the section is not found."""
    parts = text.removesuffix("\n").split("\n\n")
    begins = [place for place, part in enumerate(parts) if part.startswith(gate.SECTION)]
    ends = [place + 1 for place, part in enumerate(parts) if part.startswith(gate.SECTION_END)]
    outcomes = [place for place, part in enumerate(parts) if _OUTCOMES.match(part)]
    if (len(begins), len(ends)) == (1, 1) and ends == outcomes[:1]:
        begin, end = begins[0], ends[0]
    elif begins or ends or len(outcomes) != 1:
        return None
    else:
        begin = end = outcomes[0]
    return "\n\n".join([*parts[:begin], *section, *parts[end:]]) + "\n"
