"""The quality of confidences as tables, of one run and of two, for the terminal, Markdown and the page alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medvqa.figures import INTERVAL, UNITS, About, Column, Figure, Table, counted, number, texts
from medvqa.items import CHOICE_KINDS, OPTION_TECHNIQUES, Result, Technique
from medvqa.metrics.confidences import Source
from medvqa.metrics.confident import RISK, ROOT, SQUARE, ConfidenceQuality, quality
from medvqa.protocols import voting
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


def qualities(
    benchmark: str, technique: Technique, results: Sequence[Result], protocol: Protocol
) -> tuple[ConfidenceQuality, ...]:
    """Return the quality of the confidences of a technique's results, for each source that the run has.

    Answers are counted one by one; for agreement, the votes of each question's samples. People have no probabilities,
    and answers in several orders of the options are folded into one.
    """
    if protocol.readers or protocol.rotations != 0:
        return ()
    found: dict[Source, Sequence[Result]] = {}
    if technique in OPTION_TECHNIQUES:
        found["for ranking" if technique == "ps" else "option"] = results
    else:
        if protocol.confidence:
            found["stated"] = results
        if len({result.sample for result in results}) > 1 and all(map(_can_vote, results)):
            ballots = voting.by_question(results).values()
            found["agreement"] = [voting.vote(own) for own in ballots if voting.has_all(own, protocol.complete)]
    all_of = (quality(benchmark, source, own) for source, own in found.items() if own)
    return tuple(each for each in all_of if each.n or each.source == "stated")


def _can_vote(result: Result) -> bool:
    """Whether an answer names an option, or has none to name."""
    score = result.score
    return result.item.kind in CHOICE_KINDS and (bool(score.extracted) or score.outcome not in ("correct", "wrong"))


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
        for measure in each.measures:
            heading, meaning = NAMES[measure.name]
            if measure.coverage is not None:
                heading += f" at {number(measure.coverage)} % coverage"
            if measure.name in SHORT or not (short or measure.name == SQUARE):
                percent, digits = measure.name in (ROOT, RISK), 3 if measure.name == "auroc" else 4
                bounds = (measure.value, measure.low, measure.high, each.n, "answers")
                figure = Figure(*bounds, groups=each.groups, percent=percent, digits=None if percent else digits)
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
    measures = found.by_name
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
    rows = []
    for measure in found.measures:
        value = (Figure(side, percent=False, digits=4) for side in (measure.baseline, measure.new))
        bounds = (measure.value, measure.low, measure.high, found.n, "answers")
        apart = Figure(*bounds, groups=found.groups, percent=False, sign=True, digits=4)
        rows.append((NAMES[measure.name][0], *value, apart, apart, apart))
    titles = ("baseline", "new", "difference")
    columns = (*texts("measure"), *(Column(title, "figure") for title in titles), INTERVAL, UNITS)
    title = (
        f"confidence ({SOURCES[found.source]}), {found.n:,} of {counted(found.answers, 'answers')} with one in both "
        f"runs: {meaning}new minus baseline; intervals two-sided, not adjusted, and no verdict of a gate"
    )
    return Table(title, columns, tuple(rows))
