"""Write the files of a run folder from a `Report`."""

from __future__ import annotations

from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from medvqa import files, memory, metrics
from medvqa.figures import csv
from medvqa.items import Measure, Result, Variant
from medvqa.records import run_folder
from medvqa.report import errors, html, junit, markdown
from medvqa.report.build import Part, Report
from medvqa.report.html import Pictures
from medvqa.report.tables import DEVIATIONS, REFERENCES

SCHEMA = 1
JUNIT, MEASURES = "junit.xml", "measures.csv"
"""The result of each question for CI; the measures as a table for spreadsheets."""
SPREAD = "spread.csv"
"""The values of each measure for each prompt and sample."""
DRAWN = ("metrics.json", MEASURES, SPREAD, "summary.md", JUNIT, "gate.xml", errors.CSV, html.FILE)
"""The files that `write` makes, except sheets."""


@memory.no_cycle_search()
def write(report: Report, pictures: Pictures | None = None) -> Report:
    """Write the files of DRAWN, and submission sheets.

    Without a verdict, gate.xml is removed; without several prompts or samples, spread.csv; without kinds of errors,
    errors.csv. If a benchmark's owners withhold the answer key, its sheet holds one answer to each question for
    them. `pictures`: the images of the page (`html.draw`), None for none. Returns the report with the paths of the
    sheets. UsageError if the folder cannot be written.
    """
    with files.writing(str(report.folder)):
        return _written(report, pictures)


def remove(folder: Path) -> None:
    """Remove the reports of a run folder before a new session outdates them (OSError)."""
    for name in DRAWN:
        (folder / name).unlink(missing_ok=True)


def _written(report: Report, pictures: Pictures | None) -> Report:
    sheets = tuple(
        part.benchmark.owners.submission(_sent(part), _folder(report, part))
        for part in report.parts
        if part.benchmark.owners.submission is not None and part.outcomes["unscored"]
    )
    report = replace(report, sheets=sheets)
    run_folder.write_json(report.folder / "metrics.json", as_json(report))
    run_folder.write_atomic(report.folder / MEASURES, as_csv(report).encode())
    if any(part.spreads for part in report.parts):
        run_folder.write_atomic(report.folder / SPREAD, spread_as_csv(report).encode())
    else:
        (report.folder / SPREAD).unlink(missing_ok=True)
    run_folder.write_atomic(report.folder / "summary.md", markdown.render(report).encode())
    run_folder.write_atomic(report.folder / JUNIT, junit.render(report))
    if report.gate is None:
        (report.folder / "gate.xml").unlink(missing_ok=True)
    else:
        run_folder.write_atomic(report.folder / "gate.xml", junit.render_gate(report.gate.verdict))
    if report.errors is None:
        (report.folder / errors.CSV).unlink(missing_ok=True)
    else:
        run_folder.write_atomic(report.folder / errors.CSV, errors.as_csv(report.errors).encode())
    run_folder.write_atomic(report.folder / html.FILE, html.pieces(report, pictures))
    return report


def _sent(part: Part) -> tuple[Result, ...]:
    """Return the vote on each question, else its first sample, with its options in the order of the data set."""
    results = part.results if part.votes is None else part.combined
    return tuple(r for r in results if r.sample <= 1 and not Variant.parse(r.variant).rotation)


def _folder(report: Report, part: Part) -> Path:
    """The folder of a part's sheet: a sub-folder per technique if the run has several."""
    return files.subfolder(report.folder, part.technique) if len(report.techniques) > 1 else report.folder


def as_csv(report: Report) -> str:
    """Return measures.csv: a row for each measure and slice, and one with the reason for each failed metric.

    Values of percentages are fractions, as in metrics.json; cells are empty where undefined.
    """
    numbers = ("value", "low", "high", "n", "unit", "count", "units", "groups")
    columns = ("benchmark", "technique", "measure", "dimension", "of", *numbers, *REFERENCES, "signature", "failed")
    values_of = attrgetter(*numbers)
    rows: list[tuple[object, ...]] = []
    for part in report.parts:
        about = (part.benchmark.name, part.technique)
        for measure in part.measures:
            place = next(iter(measure.slice.items()), ("", ""))
            lines = [measure.references.get(name) for name in REFERENCES]
            rows.append((*about, measure.name, *place, *values_of(measure), *lines, measure.signature, ""))
        for failed in part.failed:
            blank = [""] * (len(columns) - 4)
            rows.append((*about, failed.name, *blank, failed.why))
    return csv(columns, rows)


def spread_as_csv(report: Report) -> str:
    """Return spread.csv: a row for each measure, prompt and sample, and one with the standard deviations.

    Values of percentages are fractions, as in metrics.json; cells are empty where undefined.
    """
    columns = ("benchmark", "technique", "measure", "prompt", "sample", "value", *DEVIATIONS)
    rows: list[tuple[object, ...]] = []
    for part in report.parts:
        for spread in part.spreads:
            about = (part.benchmark.name, part.technique, spread.name)
            for prompt, values in spread.values.items():
                numbered = zip(spread.samples, values, strict=True)
                rows += [(*about, prompt, sample or "", value, *("" for _ in DEVIATIONS)) for sample, value in numbered]
            rows.append((*about, "", "", spread.mean, *(getattr(spread, name) for name in DEVIATIONS)))
    return csv(columns, rows)


def _spread(spread: metrics.Spread) -> dict[str, Any]:
    """A spread by its fields, with its mean."""
    written = {field.name: getattr(spread, field.name) for field in fields(spread)}
    if spread.components is None:
        del written["components"], written["unit"]
    if spread.equal is None:
        del written["equal"]
    return {**written, "mean": spread.mean, "sd_over_samples": spread.sd_over_samples}


def as_json(report: Report) -> dict[str, Any]:
    """Return the content of metrics.json."""

    def key(part: Part) -> str:
        return f"{part.benchmark.name} {part.technique}" if len(report.techniques) > 1 else part.benchmark.name

    failed = [
        {"benchmark": part.benchmark.name, "technique": part.technique, "name": metric.name, "why": metric.why}
        for part in report.parts
        for metric in part.failed
    ]
    confidences = [part.confidence.content for part in report.parts if part.confidence is not None]
    spreads = [_spread(spread) for part in report.parts for spread in part.spreads]
    return {
        "schema": SCHEMA,
        "run": report.run.as_json(),
        "results": report.basis,
        "measures": [measure for part in report.parts for measure in _measures(report, part)],
        **({"spread": spreads} if spreads else {}),
        **({"confidence": confidences} if confidences else {}),
        "gate": None if report.gate is None else report.gate.verdict,
        **({"blank": report.blank} if report.blank is not None else {}),
        "outcomes": {key(part): dict(part.outcomes) for part in report.parts if part.results},
        **({"votes": votes} if (votes := {key(part): part.votes for part in report.parts if part.votes}) else {}),
        "truncated": {key(part): len(part.truncated) for part in report.parts if part.truncated},
        "broken_pairs": {key(part): part.broken_pairs for part in report.parts if part.broken_pairs},
        **({"failed_metrics": failed} if failed else {}),
        "missing": report.covered.missing,
        **({"unfinished": report.covered.lines} if report.covered.lines else {}),
    }


def _measures(report: Report, part: Part) -> list[dict[str, Any]]:
    """The measures of a part by their fields, and the selection if it is a part of its benchmark."""
    names = [field.name for field in fields(Measure)]
    values_of, rows = attrgetter(*names), list[dict[str, Any]]()
    portion = report.selection.portion(part.benchmark.name, part.technique) if report.selected(part) else None
    for measure in part.measures:
        row = dict(zip(names, values_of(measure), strict=True))
        if measure.percent:
            del row["percent"]  # As in the files of earlier versions.
        if portion is not None:
            row["selection"] = {"chosen": portion.chosen, "of": portion.of, "how": report.selection.how}
        rows.append(row)
    return rows
