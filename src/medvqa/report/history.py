"""Runs in the order of time: the headline measures of each, with the gate's decision, as rows, a table and a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import msgspec

from medvqa.comparing.sides import settings_of
from medvqa.figures import INTERVAL, UNITS, Table, of_measure, texts
from medvqa.items import Measure
from medvqa.records.configuration import ConfigurationDifference, DataVersion, RunSetting
from medvqa.records.run_record import RunRecord
from medvqa.report.build import Part, Report
from medvqa.report.bundle import axes
from medvqa.report.bundle.axes import Axis, Tick
from medvqa.report.bundle.page_blocks import (
    Block,
    NoticeBlock,
    PageSection,
    PlotBlock,
    PlotPoint,
    PlotSeries,
    section,
    table_block,
)
from medvqa.report.bundle.texts import label

LONGEST = 12
"""Characters of a commit in a table."""


@dataclass(frozen=True, slots=True)
class DatedMeasure:
    """One headline measure of one run.

    `part`: what was selected, or is missing; "" if the number is of the whole benchmark. `gate`: its decision, "" if
    there was none.
    """

    report: Report
    measure: Measure
    part: str
    gate: str

    @property
    def run(self) -> RunRecord:
        """The record of the run."""
        return self.report.run

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.report.folder.name

    @property
    def alike(self) -> tuple[str, ...]:
        """What is equal in comparable numbers."""
        own = self.measure
        return own.benchmark, own.technique, own.name, repr(self.settings), self.part

    @property
    def settings(self) -> dict[str, str]:
        """The settings that comparable numbers share."""
        return settings_of(self.measure.signature)


def rows(reports: Iterable[Report]) -> list[DatedMeasure]:
    """Return the headline measures of all runs, in the order in which the runs began."""
    ordered = sorted(reports, key=lambda report: (report.run.started, report.folder.name))
    return [_row(report, part, one) for report in ordered for part in report.parts for one in part.headline]


def _row(report: Report, part: Part, measure: Measure) -> DatedMeasure:
    gate = "" if report.gate is None else report.gate.verdict.named
    return DatedMeasure(report, measure, "; ".join(filter(None, (report.selected(part), *report.covered.lines))), gate)


def json_lines(history: Sequence[DatedMeasure]) -> str:
    """Return a line of JSON for each row: values are fractions, and null where undefined."""
    return "".join(msgspec.json.encode(_as_json(each)).decode() + "\n" for each in history)


def _as_json(each: DatedMeasure) -> dict[str, Any]:
    run, measure, gate, last = each.run, each.measure, each.report.gate, each.run.last_session
    return {
        "run": each.name,
        "started": run.started,
        "finished": run.finished,
        "model": run.model_name,
        "fingerprint": run.model.fingerprint,
        "benchmark": measure.benchmark,
        "technique": measure.technique,
        "name": measure.name,
        "value": measure.value,
        "low": measure.low,
        "high": measure.high,
        "n": measure.n,
        "unit": measure.unit,
        "signature": measure.signature,
        "part": each.part,
        "gate": each.gate,
        "baselines": [] if gate is None else [baseline.name for baseline in gate.verdict.baselines],
        "commit": last.commit,
        "ci": last.ci,
        "hardware": last.hardware,
        "usage": run.usage,
    }


def by_measure(history: Sequence[DatedMeasure]) -> list[list[DatedMeasure]]:
    """Return the rows of each measure, in the order of the first."""
    found: dict[tuple[str, ...], list[DatedMeasure]] = {}
    for each in history:
        found.setdefault(each.alike[:3], []).append(each)
    return list(found.values())


def table(history: Sequence[DatedMeasure]) -> Table:
    """Return the runs of one measure as a table."""
    measure = history[0].measure
    columns = (
        *texts("run", "began", "model"),
        of_measure(label(measure.name), percent=measure.percent),
        INTERVAL,
        UNITS,
        *texts("gate", "commit", "settings", "part"),
    )
    models = len({each.run.model_name for each in history})
    settings = list(dict.fromkeys(each.alike[3] for each in history))
    cells = tuple(
        (
            each.name,
            each.run.started[:10],
            each.run.model_name if models > 1 else "",
            *[each.measure.figure] * 3,
            each.gate,
            each.run.last_session.commit[:LONGEST],
            str(1 + settings.index(each.alike[3])) if len(settings) > 1 else "",
            each.part,
        )
        for each in history
    )
    kept = [k for k, column in enumerate(columns) if column.kind != "text" or any(row[k] for row in cells)]
    title = " ".join(filter(None, (measure.benchmark, measure.technique, label(measure.name))))
    return Table(title, columns, cells, _notes(history)).at(kept)


def _notes(history: Sequence[DatedMeasure]) -> tuple[str, ...]:
    """Say that numbers are not to be compared, and the settings that differ."""
    if len({each.alike for each in history}) == 1:
        return ()
    settings = [each.settings for each in history]
    names = dict.fromkeys(name for own in settings for name in own)
    differing = [name for name in names if len({own.get(name) for own in settings}) > 1]
    what = f" Settings differ in: {', '.join(differing)}." if differing else ""
    line = f"Runs of different settings or parts stand apart: their numbers are not to be compared.{what}"
    name = history[0].measure.benchmark
    # Of each version, the first run that has it.
    versions = {DataVersion.of(each.run.benchmark(name)): each.name for each in reversed(history)}
    apart = (
        ConfigurationDifference(RunSetting("signature", "data", name), new, old).between(versions[new], versions[old])
        for new, old in pairwise(versions)
        if new.declared.revision or old.declared.revision
    )
    return (line, *apart)


def sections(history: Sequence[DatedMeasure], left_out: Sequence[str]) -> list[PageSection]:
    """Return a section for each measure: its plot over time, and its table."""
    notices: list[Block] = [NoticeBlock(line) for line in left_out]
    first = [section("left-out", "Left out", notices)] if notices else []
    measures = by_measure(history)
    return [*first, *(_section(f"measure-{at}", each) for at, each in enumerate(measures, 1))]


def _section(id: str, history: Sequence[DatedMeasure]) -> PageSection:
    drawn = table(history)
    return section(id, drawn.title, [_plot(history), table_block(replace(drawn, title=""))])


def _plot(history: Sequence[DatedMeasure]) -> PlotBlock:
    """Return the values with their intervals, run by run; those that can be compared are one series."""
    measure, groups = history[0].measure, dict[tuple[str, ...], list[PlotPoint]]()
    titles = _titles({each.alike: each for each in reversed(history)})
    for at, each in enumerate(history, 1):
        figure = each.measure.figure
        said = f"{each.name}: {figure.stated}" + (f", gate {each.gate}" if each.gate else "")
        point = PlotPoint(at, figure.value, figure.low, figure.high, said)
        groups.setdefault(each.alike, []).append(point)
    series = [PlotSeries(titles[alike], points) for alike, points in groups.items()]
    step = max(1, len(history) // 8)
    ticks = [Tick(at, each.run.started[5:10]) for at, each in enumerate(history, 1) if (at - 1) % step == 0]
    values = [value for each in history for f in [each.measure.figure] for value in (f.value, f.low, f.high)]
    up = f"{label(measure.name)} %" if measure.percent else label(measure.name)
    across = Axis(0.5, len(history) + 0.5, ticks)
    return PlotBlock(
        "", "run, by the day it began", up, across, axes.around(values, is_percent=measure.percent), series
    )


def _titles(groups: Mapping[tuple[str, ...], DatedMeasure]) -> dict[tuple[str, ...], str]:
    """Name each series by what sets it apart: part, images, prompts; a number where these are equal; "" for one."""
    if len(groups) == 1:
        return dict.fromkeys(groups, "")
    named = {
        alike: ", ".join(filter(None, (first.part, first.report.label))) or "whole benchmark"
        for alike, first in groups.items()
    }
    several = Counter(named.values())
    same: Counter[str] = Counter()
    for alike, title in named.items():
        same[title] += 1
        named[alike] = f"{title}, settings {same[title]}" if several[title] > 1 else title
    return named
