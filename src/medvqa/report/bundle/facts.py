"""The command line of a run, and the files that declare its benchmarks."""

from __future__ import annotations

from medvqa.records.run_record import RunRecord

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
