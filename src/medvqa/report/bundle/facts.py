"""The command line of a run, and the meanings of its measures, in words."""

from __future__ import annotations

from medvqa.records.run_record import RunRecord
from medvqa.report.build import Report
from medvqa.report.bundle.texts import label

FROM_CATEGORY = "--answers-from-category"
"""An option that applies only to benchmarks with a recoverable key."""


def command(run: RunRecord) -> list[str]:
    """The command that would start a similar run of the same model."""
    model = run.options.model or run.model.name or "MODEL"
    typed = ["pytest", f"--model={model}"]
    asked = [f"{option}={value}" if value else option for option, value in run.protocol.typed().items()]
    if run.ablation:
        # Behind the prompt, which stands first.
        asked.insert(sum(word.startswith("--prompt=") for word in asked), f"--ablate={run.ablation}")
    typed += asked
    if run.extraction != "sound":
        typed.append(f"--extraction={run.extraction}")
    if run.options.answers_from_category:
        typed.append(FROM_CATEGORY)
    return typed


def declaring_files(run: RunRecord) -> dict[str, str]:
    """The files that declare benchmarks of a run, by benchmark: `--benchmark` takes the file in place of the name."""
    declared = {name: fields.declared for name, fields in run.benchmarks.items()}
    return {name: fields.file for name, fields in declared.items() if fields is not None and fields.file}


def meanings(report: Report) -> list[tuple[str, str]]:
    """The definitions of the headline measures, and of image slots if a slice counts them, as (name, text) pairs."""
    rows = {}
    for part in report.parts:
        shown = {measure.name for measure in part.headline}
        for metric in part.benchmark.metrics:
            if metric.name in shown:
                macro = f"Mean over the values of {label(metric.mean_over)}, of: " if metric.mean_over else ""
                rows[metric.name] = macro + metric.definition
        if any(measure.unit == "image slots" for measure in part.measures):
            rows["image_slots"] = "Unit of pair measures in slices: a pair counts once for each of its images there."
    return list(rows.items())
