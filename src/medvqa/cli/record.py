"""`medvqa record`: the evaluation record of a run, for a file."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, output, run_folders
from medvqa.cli.common import known_and_named, write
from medvqa.items import UsageError


class RecordArguments(Arguments):
    """Write the evaluation record of a run: model, data, prompts, rules, results, errors, versions, limits.

    It is drawn from the run folder and a form. It claims no conformity with any law, standard or guideline; it says
    which items of STARD-AI and TRIPOD-LLM it has something for. With several runs, it is the record of the first, with
    comparisons to the others. The exit code is 1 if results are missing.
    """

    runs: list[Path] = run_folders("; the first is compared with the others")
    output: Path | None = output("the file, .html or .md (default: record.html in the run folder)")
    form: Path | None = option(
        "a TOML file with what no run knows: intended use, data source, consent, licences, operator, approver. If it "
        "does not exist, an empty form is written there",
        "FILE",
    )


def run(typed: RecordArguments) -> tuple[str, int]:
    """Write the record, and an empty form where none is; return lines, and 1 if results are missing."""
    from medvqa import comparing, memory, report
    from medvqa.report import comparison, drawn
    from medvqa.report.evaluation_record import of_run, read_form, template

    runs = list(dict.fromkeys(typed.runs))
    file = typed.output or runs[0] / "record.html"
    if file.suffix not in (".html", ".md"):
        raise UsageError(f"-o={file}: name a file that ends in .html or .md")
    form = read_form(typed.form)
    registry, _ = known_and_named(typed, typed.options().benchmarks, runs)
    compared: list[comparison.Section] = []
    with memory.no_cycle_search():
        own, *others = [report.build(folder, registry.benchmarks) for folder in runs]
        if others:
            pairs = [(0, place) for place in range(1, len(runs))]
            beside = comparing.load_beside(runs)
            study = comparing.study(beside, registry.benchmarks, pairs=pairs, units=False)
            compared = comparison.of_study(study, registry.benchmarks, comparison.Shown(flips=0))
        record = of_run(own, form, others, compared)
    write("-o", file, lambda: (comparison.as_markdown if file.suffix == ".md" else drawn.page)(record))
    lines = [*(f"! {line}" for line in record[0].notes[:-1]), f"record: {file}"]
    if typed.form is not None and not typed.form.exists():
        write("--form", typed.form, template)
        lines.append(f"{typed.form}: an empty form with {len(form)} fields; fill it in, and type this again")
    return "\n".join(lines), int(not own.covered.finished)


COMMAND = Command(RecordArguments, run, {"benchmark": "a benchmark of the runs, or the file that declares it"})
