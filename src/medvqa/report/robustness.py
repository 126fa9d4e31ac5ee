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

MEAN = f"mean of 1 to {LEVELS}"
_CHANGED, _INTERVAL = frozenset({"image", "form", "reliance"}), replace(INTERVAL, name="difference")


def notes(found: Robustness) -> list[str]:
    """Return what a reader must know of the rows that are there, a sentence each."""
    kinds = {row.kind for row in found.changes}
    forms = {form for each in found.consistency for form in each.forms}
    said = {
        f"The clean run is {found.clean}. Differences are new minus clean, in points, paired on the questions that "
        "both runs scored.": kinds,
        "Retained: the measure as a share of the clean run's; undefined where this is not shown to be above 0.": (
            kinds & _CHANGED
        ),
        f"The mean of levels 1 to {LEVELS} is over the questions that all of these runs scored.": any(
            row.level is None for row in found.changes
        ),
        "Visual reliance: what remains without the right picture, where images were blank, withheld or swapped.": (
            "reliance" in kinds
        ),
        "Same answer: the share of questions with the same option, or the same normalised text. A refused, abstained "
        "or unparsed answer is the same as no other; these questions are counted apart.": found.consistency,
        "none_of_the_above takes the place of an option and has its letter: the same letter is the same answer.": any(
            form.partition(":")[0] == question_forms.NONE for form in forms
        ),
        "A left-right flip is a test of its own: answers to questions about a side are expected to change, so it is "
        "in no mean.": any(row.name == FLIP for row in found.changes),
        "Abstention: the clean run should answer. The control runs should abstain on questions that need their "
        "image. Refused and unparsed answers are no abstentions.": "abstention" in kinds,
        "Region masking describes how answers depend on pixels. It has no verdict, and is no part of a gate.": (
            "mask" in kinds
        ),
    }
    return [sentence for sentence, holds in said.items() if holds]


def tables(found: Robustness) -> Iterator[Table]:
    """Yield the tables of a clean run: one for each measure, then consistency, abstention and masks."""
    changed = [row for row in found.changes if row.kind in _CHANGED]
    for key in dict.fromkeys(map(_part, changed)):
        benchmark, technique, metric = key
        own = [row for row in changed if _part(row) == key]
        less = ", less is better" if own[0].compared.better == "lower" else ""
        yield _changes(f"{benchmark}, {technique}: {metric}{less}", own)
    if found.consistency:
        yield _consistency(found)
    yield from _of_kind(found, "abstention", "Abstention", "should answer: clean", "should abstain: control")
    yield from _of_kind(found, "mask", "Region masking", "without", "with")


def words(row: ChangedMeasure) -> str:
    """Name a change for people."""
    return LABELS.get(row.name, row.name)


def level(row: ChangedMeasure) -> str:
    """The level of a change; "" if it has none."""
    return MEAN if row.level is None else str(row.level or "")


def _part(row: ChangedMeasure) -> tuple[str, str, str]:
    return row.compared.benchmark, row.compared.technique, row.compared.metric


def _changes(title: str, rows: list[ChangedMeasure]) -> Table:
    kind: Kind = "figure" if all(row.compared.percent for row in rows) else "stated"
    columns = (
        *(*texts("change"), *numbers("level"), Column("clean %", kind, "clean")),
        *(Column("value %", kind, "value"), replace(INTERVAL, name="value")),
        *(Column("difference", "figure"), _INTERVAL, UNITS),
        *(Column("retained %", "figure", "retained"), replace(INTERVAL, name="retained")),
    )
    twice = len({(row.name, row.level) for row in rows}) < len(rows)

    def cells(row: ChangedMeasure) -> tuple[object, ...]:
        clean, _, change = row.compared.figures
        named = f"{words(row)} (visual reliance)" if row.kind == "reliance" else words(row)
        named += f" in {row.run}" if twice and row.level is not None else ""
        return (named, level(row), clean, *(row.value,) * 2, *(change,) * 3, *(row.retained,) * 2)

    return Table(title, columns, tuple(map(cells, rows)))


def _consistency(found: Robustness) -> Table:
    rows = [
        (each.benchmark, each.technique, " and ".join(each.forms), *(each.share,) * 3, each.invalid)
        for each in found.consistency
    ]
    columns = (
        *(*texts("benchmark", "technique", "form"), Column("same answer %", "figure"), INTERVAL, UNITS),
        *numbers("with an invalid answer"),
    )
    return Table("Consistency: same answer as in the clean run", columns, tuple(rows))


def _of_kind(found: Robustness, kind: str, title: str, before: str, after: str) -> Iterator[Table]:
    """Yield a table of all rows of a kind, if there are any."""
    rows = [row for row in found.changes if row.kind == kind]
    columns = (
        *(*texts("benchmark", "technique", "change", "measure"), Column(f"{before} %", "figure")),
        *(Column(f"{after} %", "figure"), Column("difference", "figure"), _INTERVAL, UNITS),
    )
    cells = [
        (*_part(row)[:2], words(row), _part(row)[2], *row.compared.figures, *(row.compared.figures[2],) * 2)
        for row in rows
    ]
    if rows:
        yield Table(title, columns, tuple(cells))
