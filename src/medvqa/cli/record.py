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
    from medvqa import comparing, decode, memory, report
    from medvqa.records.coverage import METRICS, MetricsHead
    from medvqa.records.run_record import MAX_RUN
    from medvqa.report import comparison, record_pages
    from medvqa.report.evaluation_record import of_run
    from medvqa.report.record_parts import read_form, template

    runs = list(dict.fromkeys(typed.runs))
    file, lines = typed.output or runs[0] / "record.html", list[str]()
    if file.suffix not in (".html", ".md"):
        raise UsageError(f"-o={file}: name a file that ends in .html or .md")
    unwritten = typed.form if typed.form is not None and not typed.form.exists() else None
    form = read_form(None if unwritten is not None else typed.form)
    registry, _ = known_and_named(typed, typed.options().benchmarks, runs)
    compared: list[comparison.Section] = []
    with memory.no_cycle_search():
        own, *others = [report.build(folder, registry.benchmarks) for folder in runs]
        if others:
            pairs = [(0, place) for place in range(1, len(runs))]
            beside = comparing.load_beside(runs)
            study = comparing.study(beside, registry.benchmarks, pairs=pairs, units=False)
            compared = comparison.of_study(study, registry.benchmarks, comparison.Shown(flips=0))
        head = decode.stored(runs[0] / METRICS, MetricsHead, MAX_RUN, f"Type medvqa report {runs[0]}.")
        record = of_run(own, form, None if head is None else head.results, others, compared)
    drawn = comparison.as_markdown if file.suffix == ".md" else record_pages.as_html
    write("-o", file, lambda: drawn(record))
    write("--form", unwritten, template)
    if unwritten is not None:
        lines.append(f"{unwritten}: an empty form with {len(form)} fields; fill it in, and type this again")
    lines.append(f"record: {file}")
    return "\n".join([*(f"! {line}" for line in record[0].notes[:-1]), *lines]), int(not own.covered.finished)


COMMAND = Command(RecordArguments, run, {"benchmark": "a benchmark of the runs, or the file that declares it"})
