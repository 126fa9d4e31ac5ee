"""The kinds of a run's wrong answers (`medvqa classify`), as tables and sentences.

Figures that papers print for other models are never shown beside them: GMAI-MMBench's examples were picked by hand, and
MedLesionVQA does not say how many answers its Figure 5(a) is about.
"""

from __future__ import annotations

from collections import Counter

from medvqa.figures import INTERVAL, Column, Table, csv, numbers, texts
from medvqa.items import Measure
from medvqa.judging import taxonomy
from medvqa.judging.taxonomy import Classified, ErrorShare, KindAgreement
from medvqa.report.build import Report
from medvqa.tags import lexicon

CSV = "errors.csv"
"""The labels of a run as a table for spreadsheets."""
STALE = (
    f"{taxonomy.FILE} belongs to other wrong answers than the run has now: repeat medvqa classify (stored replies are "
    "reused)."
)


def measure(share: ErrorShare) -> Measure:
    """Return a share as a measure, to be shown as one."""
    return Measure(
        share.benchmark,
        share.kind,
        share.value,
        share.low,
        share.high,
        share.n,
        share.count,
        "wrong answers",
        share.slice,
        units=share.n,
        groups=share.groups,
        signature=share.signature,
    )


def classified_of(share: ErrorShare) -> str:
    """Return how many of how many wrong answers were classified: "40 of 123"."""
    return f"{share.n:,} of {share.of:,}"


def shares_of(report: Report, dimension: str = "") -> list[ErrorShare]:
    """The shares of all kinds, or by a dimension those of the kinds that occur."""
    shares = report.error_shares
    return [s for s in shares if (dimension in s.slice and s.count if dimension else not s.slice)]


def table(report: Report, dimension: str = "") -> Table:
    """The share of every kind in each benchmark, or by a dimension those of the kinds that occur."""
    names = ["benchmark", *([dimension] if dimension else []), "kind of error"]
    columns = (
        *(*texts(*names), Column("%", "figure"), INTERVAL),
        *numbers("answers", "classified"),
    )
    rows = []
    for share in shares_of(report, dimension):
        shown = measure(share).figure
        place = [lexicon.display(dimension, share.slice[dimension])] if dimension else []
        rows.append((share.benchmark, *place, share.kind, shown, shown, share.count, classified_of(share)))
    title = f"Kinds of errors by {dimension}" if dimension else "Kinds of errors"
    return Table(title, columns, tuple(rows))


def dimension_tables(report: Report) -> list[Table]:
    """The shares of the kinds that occur, by technique and by the dimension of each benchmark."""
    return [table(report, dimension) for dimension in dimensions(report)]


def dimensions(report: Report) -> list[str]:
    """The dimensions to show: technique if there are several, then those by which samples are drawn."""
    classified = report.errors
    if classified is None:
        return []
    present = {dimension for share in report.error_shares for dimension in share.slice}
    wanted = [sample.by for sample in classified.samples.values()]
    wanted += [
        taxonomy.dimension_of(
            [result for part in report.parts for result in part.results if result.item.benchmark == name],
            next(part.benchmark.dimensions for part in report.parts if part.benchmark.name == name),
        )
        for name in classified.samples
    ]
    return [name for name in dict.fromkeys(["technique", *wanted]) if name in present]


def agreement(classified: Classified) -> Table:
    """The agreement of the judge with people; without rows if nobody reviewed its labels."""
    agreements = classified.people.agreements if classified.people is not None else ()
    rows = tuple(
        (
            found.benchmark,
            " – ".join(found.raters),
            "main kinds" if found.main else "all kinds",
            *(found.n, found.groups, *(found.exact.figure(percent=True),) * 2, *(found.kappa.figure(),) * 2),
        )
        for found in agreements
    )
    columns = (
        *(*texts("benchmark", "raters", "kinds"), *numbers("n", "groups")),
        *(Column("equal %", "figure"), INTERVAL),
        *(Column("kappa", "figure"), INTERVAL),
    )
    return Table("Agreement about kinds", columns, rows)


def confusion(found: KindAgreement) -> Table:
    """Count answers by the kinds that two raters gave, without kinds that neither gave."""
    counts = found.confusion
    used = [i for i in range(len(found.kinds)) if any(counts[i]) or any(row[i] for row in counts)]
    first, second = found.raters
    rows = tuple((found.kinds[i], *(counts[i][j] for j in used)) for i in used)
    columns = (Column(f"kind by {first}"), *numbers(*(f"{found.kinds[j]} by {second}" for j in used)))
    return Table(found.benchmark, columns, rows)


def lines(report: Report) -> list[str]:
    """Sentences that belong to the shares: by whom, of how many, what was left out."""
    classified = report.errors
    if classified is None:
        return [STALE] if report.errors_stale else []
    found = []
    for name, sample in classified.samples.items():
        tree = classified.trees[name]
        how = ""
        if sample.drawn < sample.wrong:
            stratified = f", stratified by {sample.by}" if sample.by else ""
            how = f", drawn by seed {classified.seed}{stratified}"
        source = f" ({tree.source})" if tree.source else ""
        found.append(
            f"{name}: {sample.drawn:,} of {sample.wrong:,} wrong answers were classified{how}, by the tree "
            f"{tree.label}{source}."
        )
        found.append(_by_whom(classified, name))
        if reasons := Counter(label.why for label in classified.labels if label.benchmark == name and not label.kind):
            listed = ", ".join(f"{count:,} ({why})" for why, count in reasons.items())
            found.append(f"{name}: unclassified, and counted in every share: {listed}.")
        if sample.left_out:
            listed = ", ".join(f"{count:,} {why}" for why, count in sample.left_out.items())
            found.append(f"{name}: no wrong answers in words, left out: {listed}.")
    return [*found, *_bare(report, classified)]


def _by_whom(classified: Classified, name: str) -> str:
    own = [label for label in classified.labels if label.benchmark == name]
    by = Counter(label.first_by for label in own)
    images = "which saw the images" if classified.judge.images else "which saw no image"
    line = f"{name}: {by['rule']:,} by rule, {by['judge']:,} by the judge '{classified.judge.name}', {images}"
    people = classified.people
    if people is None:
        return f"{line}."
    reviewed = [label for label in own if label.by == "people"]
    changed = sum(label.kind != label.first for label in reviewed)
    return f"{line}; {len(reviewed):,} of them reviewed and {changed:,} corrected by {', '.join(people.raters)}."


def _bare(report: Report, classified: Classified) -> list[str]:
    """A line if most responses that were judged explain nothing."""
    judged = {label.key for label in classified.labels if label.first_by == "judge"}
    results = [result for part in report.parts for result in part.results if result.key in judged]
    bare = sum(map(taxonomy.is_bare, results))
    if 2 * bare <= len(results):
        return []
    asked = report.run.protocol.explain
    hint = ", though the model was asked to explain (--explain)" if asked else "; ask for reasons (--explain)"
    return [
        f"{bare:,} of {len(results):,} judged responses have fewer than {taxonomy.BARE} words and explain nothing: a "
        f"judge can hardly tell why they are wrong{hint}."
    ]


def as_csv(classified: Classified) -> str:
    """Return errors.csv: a row for each classified answer."""
    columns = ("benchmark", "technique", "item", "variant", "sample", "answer", "outcome")
    kinds = ("kind", "by", "why", "first", "first_by")
    rows = ([getattr(label, name) for name in (*columns, *kinds)] for label in classified.labels)
    return csv((*columns, *kinds), rows)


def tags(classified: Classified) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the kinds by the key of each classified answer, with the kind around each, for filters."""
    return {
        tuple(map(str, label.key)): tuple(dict.fromkeys((taxonomy.main_kind(label.kind), label.kind)))
        if label.kind
        else (taxonomy.UNCLASSIFIED,)
        for label in classified.labels
    }
