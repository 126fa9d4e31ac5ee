"""Tables of the runs whose images or questions were changed, beside their clean run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from medvqa.comparing import ChangedMeasure, Robustness
from medvqa.comparing.robustness import FLIP
from medvqa.figures import INTERVAL, UNITS, Column, Kind, Table, numbers, texts
from medvqa.perturbing import LEVELS
from medvqa.protocols import question_forms
from medvqa.protocols.ablation import LABELS


def notes(found: Robustness) -> list[str]:
    """Return what a reader must know of the rows that are there, a sentence each."""
    kinds, names = {row.kind for row in found.changes}, {row.name.partition(":")[0] for row in found.changes}
    said = {
        f"The clean run is {found.clean}. Differences are in points, paired on the questions that both runs scored. "
        "Retained: the measure as a share of the clean run's, undefined where this is not shown to be above 0. Means "
        "of levels are over the questions that all of these runs scored.": True,
        "Visual reliance: what remains without the right picture, where images were blank, withheld or swapped.": (
            "reliance" in kinds
        ),
        "Same answer: the same option, or the same normalised text. A refused, abstained or unparsed answer is the "
        "same as no other; these questions are counted apart.": bool(found.consistency),
        "none_of_the_above takes the place of an option and has its letter: the same letter is the same answer.": (
            question_forms.NONE in names
        ),
        "A left-right flip is a test of its own: answers to questions about a side are expected to change, so it is "
        "in no mean.": FLIP in names,
        "Abstention: the baseline should answer. The runs with blank, withheld or swapped images should abstain on "
        "questions that need their image. Refused and unparsed answers are no abstentions.": "abstention" in kinds,
        "Region masking describes how answers depend on pixels. It has no verdict, and is no part of a gate.": (
            "mask" in kinds
        ),
    }
    return [sentence for sentence, holds in said.items() if holds]


def tables(found: Robustness) -> Iterator[Table]:
    """Yield a table of changes for each measure, then that of consistency."""
    for key in dict.fromkeys(row.compared.key for row in found.changes):
        rows = [row for row in found.changes if row.compared.key == key]
        less = ", less is better" * (rows[0].compared.better == "lower" and rows[0].kind != "abstention")
        yield _changes("{}, {}: {}".format(*key) + less, rows)
    if found.consistency:
        columns = (
            *(*texts("benchmark", "technique", "form"), Column("same answer %", "figure"), INTERVAL, UNITS),
            *numbers("with an invalid answer"),
        )
        same = [
            (each.benchmark, each.technique, " and ".join(each.forms), *(each.share,) * 3, each.invalid)
            for each in found.consistency
        ]
        yield Table("Consistency: same answer as in the clean run", columns, tuple(same))


def _changes(title: str, rows: list[ChangedMeasure]) -> Table:
    kind: Kind = "figure" if all(row.compared.percent for row in rows) else "stated"
    columns = (
        *(*texts("change"), *numbers("level"), Column("baseline %", kind, "baseline")),
        *(Column("value %", kind, "value"), replace(INTERVAL, name="value")),
        *(Column("difference", "figure"), replace(INTERVAL, name="difference"), UNITS),
        *(Column("retained %", "figure", "retained"), replace(INTERVAL, name="retained")),
    )
    twice = len({(row.name, row.level) for row in rows}) < len(rows)

    def cells(row: ChangedMeasure) -> tuple[object, ...]:
        before, _, change = row.compared.figures
        named = LABELS.get(row.name, row.name) + " (visual reliance)" * (row.kind == "reliance")
        level = f"mean of 1 to {LEVELS}" if row.level is None else row.level or ""
        named += f" in {row.run}" * (twice and row.level is not None)
        return (named, level, before, *(row.value,) * 2, *(change,) * 3, *(row.retained,) * 2)

    return Table(title, columns, tuple(map(cells, rows)))
