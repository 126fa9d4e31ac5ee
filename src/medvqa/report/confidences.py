"""The quality of confidences as a table, of one run and of two, for the terminal, Markdown and the page alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medvqa.figures import INTERVAL, UNITS, About, Column, Figure, Table, counted, number, texts
from medvqa.items import CHOICE_KINDS, OPTION_TECHNIQUES, Result, Technique
from medvqa.metrics import confident
from medvqa.metrics.confidences import Source
from medvqa.metrics.confident import ConfidenceQuality, ConfidencesCompared, quality
from medvqa.protocols import voting
from medvqa.protocols.protocol import Protocol
from medvqa.statistics.confidence import LEAST_DEVIATING, LEAST_GROUPS

SOURCES: Mapping[Source, str] = {
    "stated": "stated by the model",
    "option": "the chosen option's probability, among the options alone",
    "agreement": "share of a question's samples that chose as their vote",
}
SHARES = "the chosen option's share of likelihood, for ranking alone"
"""The confidence of PS."""
NAMES: Mapping[str, tuple[str, str]] = {
    "auroc": ("AUROC", "How often a right answer is surer than a wrong one: 0.5 is chance, 1 is best."),
    "aurc": ("AURC", "The error rate of the surest answers, averaged over all thresholds: less is better."),
    "e_aurc": ("E-AURC", "AURC beyond what the number of errors makes inevitable: 0 is best."),
    "augrc": (
        "AUGRC",
        "The share of all answers that are given and wrong, averaged over all thresholds: less is better.",
    ),
    confident.SQUARE: ("squared calibration error", "Its mean over bins, without bias: 0 is calibrated."),
    confident.ROOT: (
        "calibration error",
        "How far confidence and share of right answers lie apart, over bins: 0 is best.",
    ),
    "brier_score": ("Brier score", "Squared distance of confidence and score: 0 is best, 0.25 is always 50 %."),
    "log_loss": ("log loss", "Minus the logarithm of the probability that the truth was given: less is better."),
}
"""The names of measures for people, and their meaning."""
SHORT = ("auroc", "augrc", confident.ROOT, "brier_score")
"""The measures in a terminal."""


def qualities(
    benchmark: str, technique: Technique, results: Sequence[Result], protocol: Protocol
) -> tuple[ConfidenceQuality, ...]:
    """Return the quality of the confidences of a technique's results, for each source that the run has.

    Answers are counted one by one; for agreement, the votes of each question's samples. People have no probabilities.
    """
    found: dict[Source, Sequence[Result]] = {}
    if technique in OPTION_TECHNIQUES:
        found["option"] = results
    elif not protocol.readers:
        if protocol.confidence:
            found["stated"] = results
        if len({result.sample for result in results}) > 1 and all(map(_votes, results)):
            ballots = voting.by_question(results).values()
            found["agreement"] = [voting.vote(own) for own in ballots if voting.has_all(own, protocol.complete)]
    all_of = (quality(benchmark, source, own) for source, own in found.items() if own)
    return tuple(each for each in all_of if each.n or each.source == "stated")


def source_of(found: ConfidenceQuality | ConfidencesCompared) -> str:
    """Return where the confidences are from, in words."""
    return SHARES if found.technique == "ps" else SOURCES[found.source]


def _votes(result: Result) -> bool:
    """Whether an answer names an option, or has none to name."""
    score = result.score
    return result.item.kind in CHOICE_KINDS and (bool(score.extracted) or score.outcome not in ("correct", "wrong"))


def table(
    found: Sequence[tuple[tuple[str, ...], str, ConfidenceQuality]], names: Sequence[str], *, short: bool = False
) -> Table:
    """Return the measures of confidences, a row for each; no rows without any.

    `found`: the cells that name a part, its title, and the quality of its confidences. `names`: the columns of these
    cells. `short`: the measures in SHORT alone.
    """
    rows, about, notes = list[tuple[object, ...]](), list[About](), list[str]()
    for named, title, each in found:
        for name, meaning, figure in _figures(each):
            if not short or name in SHORT:
                heading = NAMES[name][0] if name in NAMES else name
                shown = "for ranking" if each.technique == "ps" else each.source
                rows.append((*named, shown, heading, figure, figure, figure))
                about.append(About(group=f"{title}: {source_of(each)}", note=meaning))
        notes += _notes(each, f"{title}: " if len(found) > 1 else "", short=short)
    columns = (*texts(*names, "confidence", "measure"), Column("value", "stated"), INTERVAL, UNITS)
    return Table("Confidence", columns, tuple(rows), tuple(dict.fromkeys(notes)), about=tuple(about))


def _figures(found: ConfidenceQuality) -> Iterator[tuple[str, str, Figure]]:
    """The name, the meaning and the figure of each measure that people read."""
    for measure in found.measures:
        if measure.name != confident.SQUARE:
            bounds, percent = (measure.value, measure.low, measure.high), measure.name == confident.ROOT
            digits = None if percent else 3 if measure.name == "auroc" else 4
            figure = Figure(*bounds, found.n, "answers", groups=found.groups, percent=percent, digits=digits)
            yield measure.name, NAMES[measure.name][1], figure
        if measure.name == "augrc" and (risk := found.risk) is not None:
            figure = Figure(risk.risk, risk.low, risk.high, found.n, "answers", groups=found.groups)
            meaning = f"Errors if the surest answers alone are given, those with {number(risk.threshold)} % or more."
            yield f"risk at {number(risk.coverage)} % coverage", meaning, figure


def _notes(found: ConfidenceQuality, of: str, *, short: bool) -> Iterator[str]:
    """Sentences on the answers that do not count, and on numbers that are read wrongly."""
    kind = f"{of}confidence is {source_of(found)}"
    if not short or found.n < found.answers:
        yield f"{kind}, of {found.n:,} of {counted(found.answers, 'answers')}{_without(found)}."
    if 0 < found.groups < LEAST_GROUPS:
        yield f"{of}no intervals: {found.groups} groups of questions are independent, and {LEAST_GROUPS} are needed."
    elif found.n and found["aurc"].low is None:
        yield f"{of}no intervals of areas: they need {LEAST_DEVIATING} groups with a right and with a wrong answer."
    square = next((each.value for each in found.measures if each.name == confident.SQUARE), None)
    if square is not None and square < 0:
        yield f"{of}the calibration error is shown as 0; the estimate of its square, without bias, is {square:.2g}."


def _without(found: ConfidenceQuality) -> str:
    """The answers that do not count, in words."""
    lacking = [f"{counted(found.unread, 'answers')} whose confidence could not be read"] if found.unread else []
    lacking += [f"{number:,} {outcome}" for outcome, number in found.left_out.items()]
    return f"; left out: {', '.join(lacking)}" if lacking else ""


def compared_table(found: ConfidencesCompared, difference: str) -> Table:
    """Return the paired differences of two runs' confidences; `difference`: what new minus baseline is."""
    rows = []
    for measure in found.measures:
        value = (Figure(v, percent=False, digits=4) for v in (measure.baseline, measure.new))
        bounds = measure.difference, measure.low, measure.high
        apart = Figure(*bounds, found.n, "answers", groups=found.groups, percent=False, sign=True, digits=4)
        rows.append((NAMES[measure.name][0], *value, apart, apart, apart))
    columns = (
        *(*texts("measure"), Column("baseline", "figure"), Column("new", "figure"), Column("difference", "figure")),
        *(INTERVAL, UNITS),
    )
    title = (
        f"confidence ({source_of(found)}), {found.n:,} of {counted(found.answers, 'answers')} with one in both runs: "
        f"{difference}new minus baseline; intervals two-sided, not adjusted, and no verdict of a gate"
    )
    return Table(title, columns, tuple(rows))
