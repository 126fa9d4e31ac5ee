"""The section on confidences: their measures, a reliability diagram, and the risk of answering only the surest."""

from __future__ import annotations

import math
from typing import Literal

from medvqa import statistics
from medvqa.figures import FEW, Figure, counted, defined, number
from medvqa.metrics.confidences import ROOT, ConfidenceQuality, Rated
from medvqa.report import tables
from medvqa.report.build import Part, Report
from medvqa.report.bundle.axes import PERCENT
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
from medvqa.report.bundle.scorecard import grouped
from medvqa.report.confidences import SOURCES
from medvqa.report.sentences import title
from medvqa.statistics.confidence import binned

MOST_POINTS = 40
"""Points of a curve: of more blocks of equal confidence, some are drawn, and a line through them."""


def confidence_section(report: Report) -> PageSection:
    """The quality of confidences by part and source; no blocks without any."""
    table = tables.confidence(report)
    blocks: list[Block | None] = [table_block(grouped(table, len(tables.naming(report)) + 1))]
    blocks += [] if table.rows else [NoticeBlock(note) for note in table.notes]
    for part in report.parts:
        if (found := part.confidence) is None:
            continue
        tabs = (f"{title(report, part)}: {SOURCES[found.source]}",)
        if found.n and found.rated.probability:
            blocks.append(reliability(found, tabs))
        if found.n >= FEW:
            blocks.append(risks(found, offered(part), tabs))
    return section("confidence", "Confidence", blocks)


def reliability(found: ConfidenceQuality, tabs: tuple[str, ...] = ()) -> PlotBlock:
    """A diagram of confidences that are probabilities: the share of right answers in bins of equal mass."""
    return PlotBlock(
        f"Reliability: calibration error {found.measures[ROOT].stated}, {counted(found.n, 'answers')}",
        "mean confidence %",
        "correct %",
        PERCENT,
        PERCENT,
        [PlotSeries("share of correct answers; all intervals together hold in 95 % of runs", points_of(found.rated))],
        diagonal=True,
        notes=(
            "Bins of equal numbers of answers; equal confidences share a bin. A bin whose interval misses the dashed "
            "line is not calibrated. Hollow: a bin of few answers, without an interval.",
        ),
        tabs=tabs,
    )


def points_of(rated: Rated) -> list[PlotPoint]:
    """Return a point for each bin, called over- or underconfident if its interval misses the confidence.

    Intervals are Clopper and Pearson's over groups, of level 1 - 0.05 / bins, so that all of them hold in 95 % of runs:
    of ten intervals of 95 %, some leaves out the confidence of a calibrated model in 20 to 32 % of runs.
    """
    import numpy as np

    places = binned(rated.confidence, len(np.unique(rated.group)))
    questions = {key: k for k, key in enumerate(dict.fromkeys(result.key.question for result in rated.results))}
    unit = np.array([questions[result.key.question] for result in rated.results], dtype=np.intp)
    terms = rated.correct, np.ones_like(rated.correct), unit, rated.group, places
    table, _ = statistics.by_unit(statistics.UnitTable(*terms, int(places.max()) + 1))
    single = len(table.unit) == len(unit) and bool(np.isin(rated.correct, (0, 1)).all())
    shares = statistics.estimate(table, binary=single)
    judged = (shares.units >= FEW) & ~np.isnan(shares.low)
    low, high = shares.bounds(1 - 0.025 / max(int(judged.sum()), 1))
    points = list[PlotPoint]()
    for k in range(table.slices):
        inside = places == k
        size, right = int(inside.sum()), math.fsum(rated.correct[inside])
        sure, value = math.fsum(rated.confidence[inside]) / size, right / size
        bounds = (defined(min(low[k], value)), defined(max(high[k], value))) if judged[k] else (None, None)
        counts = int(shares.units[k]), int(shares.groups[k])
        correct = Figure(value, *bounds, size, "answers", right, *counts)
        verdict = "overconfident" if sure > high[k] else "underconfident" if sure < low[k] else ""
        shown = f"confidence {number(sure)} %, correct {correct.stated}"
        said = filter(None, (shown, correct.interval, correct.counted, verdict if judged[k] else ""))
        points.append(PlotPoint(sure, value, *bounds, ", ".join(said)))
    return points


def offered(part: Part) -> PlotPoint | None:
    """The coverage and the errors of a run that offered to abstain: a point, no curve, as the model was asked once."""
    own = {measure.name: measure.value for measure in part.measures if not measure.slice}
    share, right = own.get("coverage"), own.get("answered_accuracy")
    return None if share is None or right is None else PlotPoint(share, 1 - right, label=_said(share, 1 - right))


def _said(share: float, risk: float) -> str:
    return f"answered {number(share)} %, wrong {number(risk)} %"


def risks(found: ConfidenceQuality, abstention: PlotPoint | None, tabs: tuple[str, ...] = ()) -> PlotBlock:
    """The errors among the surest answers at each share of answers that a threshold can reach.

    Shares are of all answers with a score, so that `abstention` has the same axis. Few of the surest answers are not
    drawn: their error rate says little.
    """
    import numpy as np

    curve, measures = found.rated.curve, found.measures
    kept = np.flatnonzero(curve.coverage * found.n >= FEW - 0.5)
    drawn: Literal["points", "line"] = "points" if len(kept) <= MOST_POINTS else "line"
    kept = kept[np.unique(np.linspace(0, len(kept) - 1, MOST_POINTS).round().astype(np.intp))]
    scored = found.answers - found.left_out.get("unscored", 0) - found.left_out.get("error", 0)
    points = list[PlotPoint]()
    for coverage, risk, threshold in zip(*(each[kept].tolist() for each in curve), strict=True):
        share, given = coverage * found.n / scored, found.rated.risk(threshold)
        interval, least = Figure(risk, given.low, given.high).interval, f"confidence {number(threshold)} % or more"
        label = ", ".join(filter(None, (_said(share, risk), interval, least)))
        points.append(PlotPoint(share, risk, given.low, given.high, label))
    series = [PlotSeries("the surest answers, 95 % interval", points, drawn)]
    series += [] if abstention is None else [PlotSeries("abstention, as the model was asked", [abstention])]
    areas = (measures[name].text for name in ("aurc", "augrc"))
    return PlotBlock(
        f"Risk and coverage: AURC {next(areas)}, AUGRC {next(areas)}, {counted(found.n, 'answers')}",
        "answered, % of all answers with a score",
        "wrong, % of answered",
        PERCENT,
        PERCENT,
        series,
        notes=(
            f"Each point is a threshold: equal confidences are given together. Fewer than {FEW} answers are not drawn.",
        ),
        tabs=tabs,
    )
