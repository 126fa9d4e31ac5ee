"""summary.md: a summary for a pull request."""

from __future__ import annotations

from collections.abc import Iterable

from medvqa.figures import markdown as grid
from medvqa.printing import markdown as escape
from medvqa.report import errors, gate
from medvqa.report.build import Report
from medvqa.report.notes import notes_of, usage_of
from medvqa.report.reader_tables import of_people
from medvqa.report.sentences import limits, sentences
from medvqa.report.tables import adds, components, confidence, headline, image_gain, outcomes, sliced_tables, spread


def render(report: Report) -> str:
    """The summary of a run."""
    run = report.run
    blocks = [
        f"# {escape(report.title)}",
        *(f"**{escape(line)}**" for line in limits(report)),
        f"Model {escape(str(run.model.name or 'unknown'))}, "
        f"technique {', '.join(report.techniques)}, extraction: {escape(report.extraction)}.",
        listed(sentence.text for sentence in sentences(report)),
        grid(headline(report)),
        *([f"{escape(gain.title)}:", grid(gain)] if (gain := image_gain(report)).rows else []),
        *(f"{escape(people.title)}:\n\n{grid(people)}\n\n{listed(people.notes)}" for people in of_people(report)),
        *_confidence(report),
        *([grid(spread(report))] if adds(report) else []),
        *([] if report.gate is None else gate.blocks(report.gate, report.folder.name, report.public)),
        grid(outcomes(report)),
    ]
    if (parts := components(report)).rows:
        blocks += [f"## {escape(parts.title)}", grid(parts)]
    if usage := usage_of(report):
        blocks.append(escape(usage))
    if notes := notes_of(report):
        blocks.append(listed(notes))
    blocks += _errors(report)
    for table in sliced_tables(report):
        blocks += [f"## {escape(table.title)}", grid(table)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def listed(notes: Iterable[str]) -> str:
    """Return sentences as a list."""
    return "\n".join(f"- {escape(note)}" for note in notes)


def _confidence(report: Report) -> list[str]:
    """The quality of confidences."""
    sure = confidence(report)
    return [f"{escape(sure.title)}:", grid(sure), listed(sure.notes)] if sure.rows or sure.notes else []


def _errors(report: Report) -> list[str]:
    """The kinds of the wrong answers: shares, sentences, agreement with people."""
    notes = errors.lines(report)
    if not notes:
        return []
    blocks = ["## Kinds of errors"]
    if report.errors is not None:
        blocks += [grid(table) for table in (errors.table(report), errors.agreement(report.errors)) if table.rows]
    blocks.append(listed(notes))
    for table in errors.dimension_tables(report):
        blocks += [f"### {escape(table.title)}", grid(table)]
    return blocks
