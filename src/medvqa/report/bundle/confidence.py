"""The section on confidences: their measures, a reliability diagram, and the risk of answering only the surest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from medvqa import statistics
from medvqa.figures import FEW, Figure, counted, defined, number
from medvqa.items import INVALID_OUTCOMES
from medvqa.metrics import confident
from medvqa.metrics.confident import ConfidenceQuality, Rated
from medvqa.report import confidences, tables
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
from medvqa.report.sentences import title
from medvqa.statistics import confidence as curves

MOST_POINTS = 40
"""Points of a curve: of more blocks of equal confidence, some are drawn, and a line through them."""


def confidence_section(report: Report) -> PageSection:
    """The quality of confidences by part and source; no blocks without any."""
    table = tables.confidence(report)
    blocks: list[Block | None] = [table_block(grouped(table, len(tables.naming(report)) + 1))]
    if not table.rows:
        blocks += [NoticeBlock(note) for note in table.notes]
    for part in report.parts:
        for found in part.confidences:
            if found.rated is not None and found.n:
                tabs = (f"{title(report, part)}: {confidences.source_of(found)}",)
                blocks += [
                    *reliability(found, found.rated, tabs),
                    risks(found, found.rated, offered(report, part), tabs),
                ]
    return section("confidence", "Confidence", blocks)


# ---- reliability -----------------------------------------------------------------------------------------------------


def reliability(found: ConfidenceQuality, rated: Rated, tabs: tuple[str, ...] = ()) -> Iterator[PlotBlock]:
    """A diagram of confidences that are probabilities: the share of right answers in bins of equal mass.

    The intervals are Clopper and Pearson's over independent groups, of level 1 - 0.05 / bins, so that all of them hold
    in 95 % of runs: of ten intervals of 95 %, some leaves out the confidence of a calibrated model in 20 to 32 % of
    runs. A bin is called over- or underconfident by the same interval.
    """
    if not rated.probability:
        return
    error = found[confident.ROOT]
    yield PlotBlock(
        f"Reliability: calibration error {Figure(error.value, error.low, error.high).stated}, "
        f"{counted(found.n, 'answers')}",
        "mean confidence %",
        "correct %",
        PERCENT,
        PERCENT,
        [PlotSeries("share of correct answers, intervals that hold together", _bins(rated))],
        diagonal=True,
        notes=(
            "Bins of equal numbers of answers; equal confidences share a bin. All intervals together hold in 95 % of "
            "runs: a bin whose interval misses the dashed line is not calibrated. Hollow: a bin of few answers, "
            "without an interval.",
        ),
        tabs=tabs,
    )


def _bins(rated: Rated) -> list[PlotPoint]:
    """Return a point for each bin."""
    import numpy as np

    places = curves.binned(rated.confidence, len(np.unique(rated.group)))
    count = int(places.max()) + 1
    questions = {key: k for k, key in enumerate(dict.fromkeys(result.key.question for result in rated.results))}
    unit = np.array([questions[result.key.question] for result in rated.results], dtype=np.intp)
    ones = np.ones_like(rated.correct)
    table, _ = statistics.by_unit(statistics.UnitTable(rated.correct, ones, unit, rated.group, places, count))
    single = len(table.unit) == len(unit) and bool(np.isin(rated.correct, (0, 1)).all())
    shares = statistics.estimate(table, binary=single)
    judged = (shares.units >= FEW) & ~np.isnan(shares.low)
    low, high = shares.bounds(1 - 0.025 / max(int(judged.sum()), 1))
    points = list[PlotPoint]()
    for k in range(count):
        inside = places == k
        size, right = int(inside.sum()), math.fsum(rated.correct[inside])
        sure, value = math.fsum(rated.confidence[inside]) / size, right / size
        bounds = (defined(min(low[k], value)), defined(max(high[k], value))) if judged[k] else (None, None)
        correct = Figure(
            *(value, *bounds, size, "answers", right), units=int(shares.units[k]), groups=int(shares.groups[k])
        )
        verdict = ""
        if judged[k] and not correct.few:
            verdict = "overconfident" if sure > high[k] else "underconfident" if sure < low[k] else ""
        shown = f"confidence {number(sure)} %, correct {correct.stated}"
        said = filter(None, (shown, correct.interval, correct.counted, verdict))
        points.append(PlotPoint(sure, value, *((None, None) if correct.few else bounds), ", ".join(said)))
    return points


# ---- risk and coverage -----------------------------------------------------------------------------------------------


def offered(report: Report, part: Part) -> PlotPoint | None:
    """The answers of a run that offered to abstain, as one point: their share of all scored answers, and their errors.

    None for a run without `--abstain`, or without an answer. It is no curve: the model was asked once.
    """
    scored = [result for result in part.results if result.score.value is not None]
    given = [1 - (each.score.value or 0) for each in scored if each.score.outcome not in INVALID_OUTCOMES]
    if not report.run.protocol.abstain or not given:
        return None
    share, risk = len(given) / len(scored), math.fsum(given) / len(given)
    return PlotPoint(
        share, risk, label=f"abstention was offered: {_said(share, risk)} of {counted(len(given), 'answers')}"
    )


def _said(share: float, risk: float) -> str:
    return f"answered {number(share)} %, wrong {number(risk)} %"


def risks(
    found: ConfidenceQuality, rated: Rated, abstention: PlotPoint | None, tabs: tuple[str, ...] = ()
) -> PlotBlock | None:
    """The errors among the surest answers at each share of answers that a threshold can reach; None for few answers.

    Shares are of all answers with a score, so that the point of `abstention` has the same axis. Few of the surest
    answers are not drawn: their error rate says little.
    """
    import numpy as np

    if found.n < FEW:
        return None
    curve = curves.curve(rated.confidence, rated.correct)
    kept = np.flatnonzero(curve.coverage * found.n >= FEW - 0.5)
    every = len(kept) <= MOST_POINTS
    if not every:
        kept = kept[np.unique(np.linspace(0, len(kept) - 1, MOST_POINTS).round().astype(np.intp))]
    scored = found.answers - found.left_out.get("unscored", 0) - found.left_out.get("error", 0)
    points = list[PlotPoint]()
    for coverage, risk, threshold in zip(*(each[kept].tolist() for each in curve), strict=True):
        given = rated.confidence >= threshold
        interval = curves.estimated(1 - rated.correct[given], rated.group[given])
        share, least = coverage * found.n / scored, f"confidence {number(threshold)} % or more"
        said = filter(None, (_said(share, risk), Figure(risk, interval.low, interval.high).interval, least))
        points.append(PlotPoint(share, risk, interval.low, interval.high, ", ".join(said)))
    drawn: Literal["points", "line"] = "points" if every else "line"
    series = [PlotSeries("the surest answers, 95 % interval", points, drawn)]
    if abstention is not None:
        series.append(PlotSeries("abstention, as the model was asked", [abstention]))
    aurc, augrc = (Figure(found[name].value, percent=False, digits=4).text for name in ("aurc", "augrc"))
    return PlotBlock(
        f"Risk and coverage: AURC {aurc}, AUGRC {augrc}, {counted(found.n, 'answers')}",
        "answered, % of all answers with a score",
        "wrong, % of answered",
        PERCENT,
        PERCENT,
        series,
        notes=(
            f"Each point is a threshold: answers with equal confidences are given together. Fewer than {FEW} answers "
            "are not drawn.",
        ),
        tabs=tabs,
    )
