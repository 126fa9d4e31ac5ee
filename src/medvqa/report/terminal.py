"""The report as text for a terminal."""

from __future__ import annotations

from dataclasses import replace

from rich.cells import cell_len

from medvqa import printing
from medvqa.figures import Column, Table, terminal, titled
from medvqa.items import Measure
from medvqa.report import errors, gate
from medvqa.report.build import Report
from medvqa.report.notes import answers_of, notes_of, usage_of
from medvqa.report.reader_tables import of_people
from medvqa.report.sentences import limits
from medvqa.report.tables import adds, by_prompt, confidence, headline, image_gain, outcomes, spread

WIDE = 110
"""Minimum width, in columns, for complete tables."""


BAR = 20
"""Columns of a bar, each of which is two steps of 2.5 %."""
GLYPHS = "━╾─┿┼"
"""Characters of a bar: filled, half filled, empty, and the level of chance within either."""


def can_draw(encoding: str | None) -> bool:
    """Whether a terminal with this encoding can show the characters of bars; None (unknown) cannot."""
    try:
        GLYPHS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


SCALE = f"0{'┼ random':^{BAR - 4}}100"


def bar(value: float, chance: float | None = None) -> str:
    """A fraction as `BAR` characters, with a mark at the level of chance."""
    steps = round(2 * BAR * min(max(value, 0.0), 1.0))
    full, half = divmod(steps, 2)
    cells = list("━" * full + "╾" * half + "─" * (BAR - full - half))
    if chance is not None:
        at = min(int(BAR * chance), BAR - 1)
        cells[at] = "┿" if at < full else "┼"
    return "".join(cells)


def _barred(table: Table, report: Report, width: int) -> Table:
    """The headline table with a bar in each row, if it fits the width."""
    bars = [bar for part in report.parts for bar in (*map(_bar, part.headline), *("" for _ in part.failed))]
    drawn = tuple((*row, bar) for row, bar in zip(table.rows, bars, strict=True))
    wider = replace(table, columns=(*table.columns, Column(SCALE)), rows=drawn)
    return wider if max(map(cell_len, terminal(wider).splitlines())) <= width else table


def _bar(measure: Measure) -> str:
    # Few units are shown as counts; a bar would turn them into a percentage again.
    if measure.figure.few or measure.value is None or not measure.percent:
        return ""
    return bar(measure.value, measure.references.get("random"))


def summary(report: Report, *, width: int, colour: bool = False, bars: bool = False, exits: bool = True) -> str:
    """The headline measures, outcomes, notes, verdict and run folder, as text.

    `bars` also draws the measures if the width allows it. `exits`: the command ends with the gate's exit code.
    """
    shown: tuple[Table, ...]
    if width >= WIDE:
        shown = (headline(report), outcomes(report))
    else:
        shown = (
            headline(report, ["random"]),
            outcomes(report, ["unparsed", "refused", "abstained", "unscored", "errors"]),
        )
    if bars:
        shown = (_barred(shown[0], report, width), shown[1])
    by_prompts = [by_prompt(part) for part in report.parts if part.prompts]
    shown = (shown[0], *by_prompts, *([spread(report)] if adds(report) else []), shown[1])
    lacking = [f"! {printing.line(line)}" for line in limits(report)]
    drawn = (terminal(table, colour=colour) for table in shown if table.rows)
    blocks = [*lacking, *([""] if lacking else []), f"{asked(report)}\n", *drawn]
    if (gain := image_gain(report)).rows:
        blocks.append(f"{printing.line(gain.title)}\n\n{terminal(gain, colour=colour)}")
    blocks += [f"{titled(people)}\n" for people in of_people(report)]
    if (sure := confidence(report, short=True)).rows:
        blocks.append(f"{titled(sure)}\n")
    notes = [f"! {printing.line(note)}" for note in notes_of(report)]
    usage = [line for line in (answers_of(report), usage_of(report)) if line]
    kinds = kinds_of_errors(report, colour=colour)
    ending = [*verdict(report, exits=exits), f"run folder: {report.folder}"]
    return "\n".join([*blocks, *notes, *usage, *([kinds] if kinds else []), *ending])


def asked(report: Report) -> str:
    """The model, the technique and the data of the numbers in one line."""
    model = report.run.model.name or "unknown"
    data = list(dict.fromkeys(part.benchmark.name for part in report.parts))
    technique = ", ".join(report.techniques)
    return printing.line(f"model {model}, technique {technique}, data {printing.some(data, 1) or 'none'}")


def kinds_of_errors(report: Report, *, colour: bool = False, full: bool = False) -> str:
    """The shares of the kinds of errors, with the sentences that belong to them; "" if there are none.

    `full` adds the shares by dimension and the tables of agreement with people.
    """
    notes = [f"! {printing.line(line)}" for line in errors.lines(report)]
    if report.errors is None:
        return "\n".join(notes)
    tables = [errors.table(report)]
    if full:
        people = report.errors.people
        agreements = people.agreements if people is not None else ()
        tables += [*errors.dimension_tables(report), errors.agreement(report.errors)]
        tables += [errors.confusion(found) for found in agreements if found.main]
    return "\n".join([*(terminal(table, colour=colour) for table in tables if table.rows), *notes])


def verdict(report: Report, *, exits: bool = True) -> list[str]:
    """The gate's verdict and reasons as lines; none without a gate."""
    return [] if report.gate is None else gate.lines(report.gate, exits=exits)
