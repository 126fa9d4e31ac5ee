"""Agreement of raters as tables, and the check of its lower bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medvqa import printing
from medvqa.figures import INTERVAL, Column, Figure, Table, number, numbers, terminal, texts
from medvqa.judging.coefficients import Agreement, Coefficient
from medvqa.judging.correcting import JudgedMean
from medvqa.judging.templates import SCALE
from medvqa.statistics.intervals import LEAST_DISCORDANT
from medvqa.tags import lexicon

CHECKED: Mapping[str, str] = {"exact": "exact agreement", "kappa": "kappa", "alpha": "alpha"}
"""Measures whose lower bound can be checked, and their names in messages."""
KEPT_AS_JUDGED = "measures, slices, comparisons and floors keep the judge's scores: only these means are corrected"
"""What corrected means leave as it is."""
MOST_NAMED = 4
"""Maximum number of raters named in one cell."""


def text(
    agreements: Sequence[Agreement], dimension: str | None, notes: Sequence[str], means: Sequence[JudgedMean] = ()
) -> str:
    """Return the tables of all answers and of the slices of a dimension, the corrected means, and notes."""
    whole = [agreement for agreement in agreements if not agreement.slice]
    parts = [agreement for agreement in agreements if agreement.slice]
    blocks = [terminal(_figures(("raters",), [(_names(agreement),) for agreement in whole], whole))]
    blocks.append(terminal(_confusion((), [()], whole[:1])))
    if dimension and parts:
        labels = [(lexicon.display(dimension, agreement.slice[dimension]),) for agreement in parts]
        blocks.append(printing.line(f"{_names(parts[0])} by {dimension}") + "\n")
        blocks += [terminal(draw((dimension,), labels, parts)) for draw in (_figures, _confusion)]
    if means:
        blocks.append("Means of the judged answers, corrected by people\n")
        blocks.append(terminal(_means(means)))
        notes = [*notes, *(note for mean in means for note in _notes(mean)), KEPT_AS_JUDGED]
    return "\n".join([*blocks, *(f"! {printing.line(note)}" for note in notes)]).removesuffix("\n")


def verdict(agreement: Agreement, measure: str, least: float) -> tuple[str, bool]:
    """Return the line of the check of a measure of CHECKED, and whether it failed. Without a lower bound it fails."""
    found: Coefficient = {"exact": agreement.exact, "kappa": agreement.kappa, "alpha": agreement.alpha}[measure]
    value, low = (number(one, percent=False, digits=3) for one in (found.value, found.low))
    name = printing.line(f"{CHECKED[measure]} of {_names(agreement)}")
    if found.value is None:
        return f"FAIL: {name} is undefined (all scores are one and the same); at least {least:g} is asked", True
    if found.low is None:
        return (
            f"FAIL: {name} is {value}, without an interval ({agreement.n:,} answers in "
            f"{agreement.groups:,} groups are too few or too alike); a lower bound of at least {least:g} is asked",
            True,
        )
    failed = found.low < least
    line = f"{name} is {value}, lower bound {low}; at least {least:g} is asked of the bound"
    return f"{'FAIL' if failed else 'PASS'}: {line}", failed


def _names(agreement: Agreement) -> str:
    if len(agreement.raters) > MOST_NAMED:
        return f"{len(agreement.raters)} raters"
    return " – ".join(agreement.raters)


def _figures(columns: Sequence[str], labels: Sequence[Sequence[str]], shown: Sequence[Agreement]) -> Table:
    """Tabulate the figures, a row for each agreement."""
    heading = [*texts(*columns), *numbers("n", "groups")]
    for name in ("exact %", "difference", "kappa", "alpha"):
        heading += [Column(name, "figure"), INTERVAL]
    rows = []
    for label, agreement in zip(labels, shown, strict=True):
        found = [agreement.exact.figure(percent=True)]
        found += [one.figure() for one in (agreement.difference, agreement.kappa, agreement.alpha)]
        rows.append((*label, agreement.n, agreement.groups, *(figure for figure in found for _ in range(2))))
    return Table("", tuple(heading), tuple(rows))


def _means(means: Sequence[JudgedMean]) -> Table:
    """Tabulate the means by the judge, by people and by both, and the judge's reliability."""
    heading = [*texts("benchmark", "technique"), *numbers("labelled", "of")]
    for name in ("judge %", "people %", "corrected %", "reliability"):
        heading += [Column(name, "figure"), INTERVAL]
    rows = []
    for judged in means:
        mean = judged.mean
        figures = [Figure(*ends, groups=mean.groups) for ends in (mean.judge, mean.people, mean.corrected)]
        figures.append(Figure(*mean.reliability, groups=mean.groups, percent=False, digits=2))
        doubled = (figure for figure in figures for _ in range(2))
        rows.append((judged.benchmark, judged.technique, mean.labelled, mean.n, *doubled))
    return Table("", tuple(heading), tuple(rows))


def _notes(judged: JudgedMean) -> Iterator[str]:
    """Yield sentences on what a corrected mean leaves out, and why it is people's alone."""
    name, mean = f"{judged.benchmark}, {judged.technique}", judged.mean
    if mean.tuning is None:
        yield (
            f"{name}: judge and people differ in {mean.disagreements} of {mean.groups:,} groups; fewer than "
            f"{LEAST_DISCORDANT} do not show the judge's error, so the mean is that of people's scores alone"
        )
    if judged.by_rule:
        scored = (
            "1 answer that rules scored is"
            if judged.by_rule == 1
            else f"{judged.by_rule:,} answers that rules scored are"
        )
        yield f"{name}: {scored} not in these means"


def _confusion(columns: Sequence[str], labels: Sequence[Sequence[str]], shown: Sequence[Agreement]) -> Table:
    """Count answers by the scores of the first and the second rater."""
    first, second = shown[0].raters
    scale = [f"{value:g}" for value in SCALE]
    heading = (*texts(*columns), *numbers(f"score of {first}", *(f"{value} by {second}" for value in scale)))
    rows = [
        (*label, value, *counts)
        for label, compared in zip(labels, shown, strict=True)
        for value, counts in zip(scale, compared.confusion, strict=True)
    ]
    return Table("", heading, tuple(rows))
