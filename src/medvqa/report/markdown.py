"""summary.md: a summary for a pull request."""

from __future__ import annotations

from medvqa.figures import Table
from medvqa.figures import markdown as grid
from medvqa.printing import markdown as escape
from medvqa.report import errors, gate
from medvqa.report.build import Report
from medvqa.report.notes import notes_of, usage_of
from medvqa.report.reader_tables import of_people
from medvqa.report.sentences import limits, sentences
from medvqa.report.tables import adds, components, headline, image_gain, outcomes, sliced_tables, spread


def render(report: Report) -> str:
    """The summary of a run."""
    run = report.run
    blocks = [
        f"# {escape(report.title)}",
        *(f"**{escape(line)}**" for line in limits(report)),
        f"Model {escape(str(run.model.name or 'unknown'))}, "
        f"technique {', '.join(report.techniques)}, extraction: {escape(report.extraction)}.",
        "\n".join(f"- {escape(sentence.text)}" for sentence in sentences(report)),
        grid(headline(report)),
        *([f"{escape(gain.title)}:", grid(gain)] if (gain := image_gain(report)).rows else []),
        *(block for people in of_people(report) for block in _titled(people)),
        *([grid(spread(report))] if adds(report) else []),
        *([] if report.gate is None else gate.blocks(report.gate, report.folder.name, report.public)),
        grid(outcomes(report)),
    ]
    if (parts := components(report)).rows:
        blocks += [f"## {escape(parts.title)}", grid(parts)]
    if usage := usage_of(report):
        blocks.append(escape(usage))
    if notes := notes_of(report):
        blocks.append("\n".join(f"- {escape(note)}" for note in notes))
    blocks += _errors(report)
    for table in sliced_tables(report):
        blocks += [f"## {escape(table.title)}", grid(table)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _titled(table: Table) -> list[str]:
    notes = "\n".join(f"- {escape(note)}" for note in table.notes)
    return [f"{escape(table.title)}:", grid(table), notes]


def _errors(report: Report) -> list[str]:
    """The kinds of the wrong answers: shares, sentences, agreement with people."""
    notes = errors.lines(report)
    if not notes:
        return []
    blocks = ["## Kinds of errors"]
    if report.errors is not None:
        blocks += [grid(table) for table in (errors.table(report), errors.agreement(report.errors)) if table.rows]
    blocks.append("\n".join(f"- {escape(line)}" for line in notes))
    for table in errors.dimension_tables(report):
        blocks += [f"### {escape(table.title)}", grid(table)]
    return blocks
