"""Tables of the runs whose images or questions were changed, beside their clean run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from medvqa.comparing import Robustness
from medvqa.comparing.robustness import FLIP, RATES, Consistency
from medvqa.figures import INTERVAL, UNITS, Column, Table, counted, csv, numbers, texts

NAMES = 3
"""The columns that name a measure."""


def notes(found: Robustness) -> list[str]:
    """Return what a reader must know of the rows that are there, a sentence each."""
    kinds = {row.kind for row in found.changes}
    said = {
        f"The clean run is {found.clean}. Differences are in points, paired on the questions that both runs scored. "
        "Retained: the measure as a share of the clean run's, undefined where this is not shown to be above 0. Means "
        "of levels are over the questions that all of these runs scored.": True,
        "Visual reliance: what remains without the right picture, where images were blank, withheld or swapped.": (
            "visual reliance" in kinds
        ),
        "Same answer: the same letter, also where none_of_the_above replaced the option, or the same text. A refused, "
        "abstained or unparsed answer is the same as no other, and counted apart.": bool(found.consistency),
        "A left-right flip is a test of its own: answers to questions about a side are expected to change, so it is "
        "in no mean.": any(row.name == FLIP for row in found.changes),
        "Abstention: the baseline should answer. The runs with blank, withheld or swapped images should abstain on "
        "questions that need their image. Refused and unparsed answers are no abstentions.": "abstention" in kinds,
        "Region masking describes how answers depend on pixels. It has no verdict, and is no part of a gate.": (
            "mask" in kinds
        ),
    }
    return [*(sentence for sentence, holds in said.items() if holds), *_fewest(found.consistency)]


def _fewest(found: Sequence[Consistency]) -> Iterator[str]:
    """Yield which form leaves few questions to all forms together, of each part whose forms have unequal numbers."""
    for every in found:
        part = every.benchmark, every.technique
        one = {
            own.forms[0]: own.share.n or 0
            for own in found
            if (own.benchmark, own.technique) == part and len(own.forms) == 1
        }
        asked = {form: one[form] for form in every.forms}
        if len(asked) > 1 and (every.share.n or 0) < max(asked.values()):
            yield (
                f"{every.benchmark}, {every.technique}: the same answer in all forms is counted on the "
                f"{counted(every.share.n or 0, 'questions')} that all forms asked; {min(asked, key=asked.__getitem__)} "
                f"asked the fewest, {min(asked.values()):,}."
            )


def tables(found: Robustness) -> Iterator[Table]:
    """Yield a table of changes for each measure, then that of consistency."""
    full, lower = changes([found]), {row.compared.key for row in found.changes if row.compared.better == "lower"}
    for key in dict.fromkeys(row[:NAMES] for row in full.rows):
        title = "{}, {}: {}".format(*key) + ", less is better" * (
            key in lower and key[2] not in {rate.name for rate in RATES}
        )
        own = replace(full, title=title, rows=tuple(row for row in full.rows if row[:NAMES] == key))
        yield own.at(range(NAMES + 2, len(own.columns)))
    if found.consistency:
        yield consistency([found])


def changes(found: Sequence[Robustness]) -> Table:
    """Return the changes of clean runs: a row for each measure of each."""
    columns = (
        *texts("benchmark", "technique", "measure", "new run", "baseline run", "kind", "change"),
        *(*numbers("level"), Column("baseline %", "figure", "baseline")),
        *(Column("value %", "figure", "value"), replace(INTERVAL, name="value")),
        *(Column("difference", "figure"), replace(INTERVAL, name="difference"), UNITS),
        *(Column("retained %", "figure", "retained"), replace(INTERVAL, name="retained")),
    )
    rows = [
        (
            *(*row.compared.key, row.run, row.baseline, row.kind, row.name),
            *("mean" if row.level is None else row.level or "", row.compared.figures[0]),
            *(*(row.value,) * 2, *(row.compared.figures[2],) * 3, *(row.retained,) * 2),
        )
        for each in found
        for row in each.changes
    ]
    return Table("changes", columns, tuple(rows))


def consistency(found: Sequence[Robustness]) -> Table:
    """Return the consistency of clean runs over forms of the questions."""
    columns = (
        *(*texts("clean run", "benchmark", "technique", "form"), Column("same answer %", "figure"), INTERVAL, UNITS),
        *numbers("with an invalid answer"),
    )
    rows = [
        (each.clean, own.benchmark, own.technique, " and ".join(own.forms), *(own.share,) * 3, own.invalid)
        for each in found
        for own in each.consistency
    ]
    return Table("Consistency: same answer as in the clean run", columns, tuple(rows))


def as_csv(found: Sequence[Robustness]) -> str:
    """Return the changes of clean runs: numbers in full, fractions."""
    return csv(changes(found).names, changes(found).values)


def as_json(found: Sequence[Robustness]) -> dict[str, Any]:
    """Return the fields of a file of JSON about changed runs; {} without any."""
    named = {"changes": changes(found), "consistency": consistency(found)}
    rows = {key: [dict(zip(table.names, row, strict=True)) for row in table.values] for key, table in named.items()}
    return {"robustness": rows} if found else {}
