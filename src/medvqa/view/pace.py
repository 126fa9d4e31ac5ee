"""How long answers took, and how many tokens they had, over the course of a run: plots of groups of answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from medvqa.report.bundle import axes
from medvqa.report.bundle.page_blocks import PlotBlock, PlotPoint, PlotSeries
from medvqa.view.run_index import RunIndex
from medvqa.view.shapes import Pace

GROUPS = 60
"""Most groups of answers that follow each other, with a point for each."""
HIGH = 0.95
"""The share of a group's answers that are not above its second point."""
_ACROSS = "answers, in the order in which they came"


def pace(index: RunIndex) -> Pace:
    """Return the plots of a run as it is now; none of a number that no answer has."""
    index.catch_up()
    answers = index.paces()
    titles = ("Seconds per answer", "seconds"), ("Tokens per answer", "tokens")
    columns = ([values[place] for values in answers] for place in range(len(titles)))
    plots = [_plot(*title, values) for title, values in zip(titles, columns, strict=True)]
    return Pace([plot for plot in plots if plot is not None])


def _plot(title: str, unit: str, values: Sequence[float | None]) -> PlotBlock | None:
    size = math.ceil(len(values) / GROUPS)
    middle, high = list[PlotPoint](), list[PlotPoint]()
    for start in range(0, len(values), max(size, 1)):
        group = sorted(value for value in values[start : start + size] if value is not None and 0 <= value < math.inf)
        if group:
            for points, value in ((middle, median(group)), (high, group[math.ceil(HIGH * len(group)) - 1])):
                label = f"answers {start + 1:,} to {min(start + size, len(values)):,}: {value:.3g} {unit}"
                points.append(PlotPoint(start + size / 2, value, label=label))
    if not middle:
        return None
    series = [PlotSeries("median", middle, "line"), PlotSeries(f"{100 * HIGH:.0f} % are below", high, "line")]
    if size == 1:
        series = [PlotSeries("answer", middle, "line")]
    x = axes.around([0, len(values)], is_percent=False)
    y = axes.around([0, *(point.y for point in high)], is_percent=False)
    return PlotBlock(title, _ACROSS, unit, x, y, series)
