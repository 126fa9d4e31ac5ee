"""The quality of confidences as tables, of one run and of two, for the terminal, Markdown and the page alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medvqa.figures import INTERVAL, UNITS, About, Column, Figure, Table, counted, number, texts
from medvqa.items import Result, Technique, replace
from medvqa.metrics.confidences import RISK, ROOT, SQUARE, ConfidenceQuality, Source, quality
from medvqa.protocols.protocol import Protocol
from medvqa.statistics.confidence import LEAST_DEVIATING, LEAST_GROUPS

SOURCES: Mapping[Source, str] = {
    "stated": "stated by the model",
    "option": "the chosen option's probability, among the options alone",
    "agreement": "share of a question's samples that chose as their vote",
    "for ranking": "the chosen option's share of likelihood, for ranking alone",
}
NAMES: Mapping[str, tuple[str, str]] = {
    "auroc": ("AUROC", "How often a right answer is surer than a wrong one: 0.5 is chance, 1 is best."),
    "aurc": ("AURC", "The error rate of the surest answers, averaged over thresholds: less is better."),
    "e_aurc": ("E-AURC", "AURC beyond what the number of errors makes inevitable: 0 is best."),
    "augrc": ("AUGRC", "The share of answers that are given and wrong, averaged over thresholds: less is better."),
    RISK: ("risk", "The error rate of the surest answers."),
    SQUARE: ("squared calibration error", "Its mean over bins, without bias: 0 is calibrated."),
    ROOT: ("calibration error", "How far confidence and share of right answers are apart: 0 is best."),
    "brier_score": ("Brier score", "Squared distance of confidence and score: 0 is best, 0.25 is always 50 %."),
    "log_loss": ("log loss", "Minus the logarithm of the probability that the truth was given: less is better."),
}
"""The names of measures for people, and their meaning."""
SHORT = ("auroc", "augrc", ROOT, "brier_score")
"""The measures in a terminal."""


def of_results(
    benchmark: str, technique: Technique, results: Sequence[Result], protocol: Protocol
) -> ConfidenceQuality | None:
    """Return the quality of the confidences of the results that the measures count; None without any.

    A run that asks for confidences has one even if none could be read.
    """
    source = protocol.confidence_source(technique)
    found = quality(benchmark, source, results) if source is not None and results else None
    return found if found is not None and (found.n or found.source == "stated") else None


def table(
    found: Sequence[tuple[tuple[str, ...], str, ConfidenceQuality]], names: Sequence[str], *, short: bool = False
) -> Table:
    """Return the measures of confidences, a row for each; no rows without any.

    `found`: the cells that name a part, under the columns `names`; its title; and the quality of its confidences.
    `short`: the measures in SHORT alone, and none of PS.
    """
    rows, about, notes = list[tuple[object, ...]](), list[About](), list[str]()
    shown = [own for own in found if not (short and own[2].source == "for ranking")]
    for named, title, each in shown:
        for name, figure in each.measures.items():
            heading, meaning = NAMES[name]
            if name == RISK and each.surest is not None:
                heading += f" at {number(each.surest[0])} % coverage"
            if name in SHORT or not (short or name == SQUARE):
                rows.append((*named, each.source, heading, figure, figure, figure))
                about.append(About(group=f"{title}: {SOURCES[each.source]}", note=meaning))
        notes += _notes(each, f"{title}: " if len(shown) > 1 else "", short=short)
    columns = (*texts(*names, "confidence", "measure"), Column("value", "stated"), INTERVAL, UNITS)
    return Table("Confidence", columns, tuple(rows), tuple(notes), about=tuple(about))


def _notes(found: ConfidenceQuality, of: str, *, short: bool) -> Iterator[str]:
    """Sentences on the answers that do not count, and on numbers that are read wrongly."""
    lacking = [f"{counted(found.unread, 'answers')} whose confidence could not be read"] if found.unread else []
    lacking += [f"{count:,} {outcome}" for outcome, count in found.left_out.items()]
    if lacking or not short:
        left_out = f"; left out: {', '.join(lacking)}" if lacking else ""
        counts = f"of {found.n:,} of {counted(found.answers, 'answers')}"
        yield f"{of}confidence is {SOURCES[found.source]}, {counts}{left_out}."
    measures = found.measures
    if 0 < found.groups < LEAST_GROUPS:
        few = f"{found.groups} groups of questions are independent, and {LEAST_GROUPS} are needed"
        yield f"{of}no intervals of areas, risk and calibration: {few}."
    elif found.n and measures["aurc"].low is None:
        yield f"{of}no intervals of areas: they need {LEAST_DEVIATING} groups with a right and with a wrong answer."
    square = measures[SQUARE].value if SQUARE in measures else None
    if square is not None and square < 0:
        yield f"{of}the calibration error is shown as 0; the estimate of its square, without bias, is {square:.2g}."


def compared_table(found: ConfidenceQuality, meaning: str) -> Table:
    """Return the paired differences of two runs' confidences; `meaning`: the effect that new minus baseline is."""
    rows, about = list[tuple[object, ...]](), list[About]()
    for name, figure in found.measures.items():
        before, after = (Figure(value, percent=False, digits=4) for value in found.sides[name])
        apart = replace(figure, sign=True, digits=4)
        rows.append((NAMES[name][0], before, after, apart, apart, apart))
        about.append(About(note=NAMES[name][1]))
    titles = ("baseline", "new", "difference")
    columns = (*texts("measure"), *(Column(title, "figure") for title in titles), INTERVAL, UNITS)
    title = (
        f"confidence ({SOURCES[found.source]}), {found.n:,} of {counted(found.answers, 'answers')} with one in both "
        f"runs: {meaning}new minus baseline, less is better but for AUROC; intervals two-sided, not adjusted, and no "
        "verdict of a gate"
    )
    return Table(title, columns, tuple(rows), about=tuple(about))
