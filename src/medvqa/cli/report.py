"""`medvqa report`: write the files of run folders anew."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, output, run_folders
from medvqa.cli.common import known_and_named
from medvqa.items import UsageError
from medvqa.session.options import listed


class ReportArguments(Arguments):
    """Write metrics.json, measures.csv, summary.md, junit.xml, gate.xml and index.html of run folders again.

    They are computed from the stored results. For several runs, a page is written that compares them. The exit code is
    1 if results are missing.
    """

    runs: list[Path] = run_folders("; the others are compared with the first")
    output: Path | None = output(
        "the page that compares several runs (default: NEW-against-BASELINE.html beside the first run)"
    )
    blank: Path | None = option(
        "the run that asked the same questions of the same model without the images (--ablate=blank): the reports "
        "show the gain of the image. It is kept in blank.json",
        "RUN",
    )
    equivalent: float | None = option(
        "of several runs: test whether they differ by less than POINTS, as medvqa compare does", "POINTS"
    )
    images: str | None = option(
        "images of index.html: inside (at most 16 MB), inside:N (at most N MB), folder (files beside the page) or none "
        "(default: inside for up to 400 images, else folder; none if the data are not declared public)",
        "{inside,inside:N,folder,none}",
    )


def run(typed: ReportArguments) -> tuple[str, int]:
    """Write the files of each folder, and the page that compares them; return summaries, and 1 if results are missing.

    UsageError for options that contradict each other.
    """
    from medvqa import benchmarks, memory, report
    from medvqa.commands import redrawing
    from medvqa.report import html
    from medvqa.report.terminal import summary

    options, runs = typed.options(), list(dict.fromkeys(typed.runs))
    registry, _ = known_and_named(typed, options.benchmarks, [*runs, *([typed.blank] if typed.blank else [])])
    if typed.images is not None:
        html.parse(typed.images)  # Refuse a wrong value before anything is read.
    if typed.output is not None and len(runs) < 2:
        raise UsageError("-o names the page that compares several runs: name a second RUN")
    if typed.equivalent is not None and len(runs) < 2:
        raise UsageError("--equivalent compares several runs: name a second RUN")
    if typed.blank is not None:
        if len(runs) > 1:
            raise UsageError(f"--blank={typed.blank} belongs to one run, and {len(runs)} are named: name one RUN")
        redrawing.write_gap(runs[0], typed.blank, registry)
    like = None if typed.raw["metric-like"] is None else listed(typed.raw["metric-like"])
    texts, pictures, unfinished = [], [], False
    for folder in runs:
        with memory.no_cycle_search():
            costs = options.wrong_costs
            built = report.build(folder, registry.benchmarks, like=like, wrong_costs=costs, data=options.data)
            if costs is not None and not built.run.protocol.abstain:
                raise UsageError(
                    f"--wrong-costs={costs:g}: {folder} was asked without --abstain, so no answer was left to the model"
                )
            if like:
                benchmarks.check_kits(like, [part.benchmark for part in built.parts], registry.benchmarks)
            unfinished |= not built.covered.finished
            pictures.append(redrawing.pictures_of(built, options.data, typed.images))
            texts.append(summary(report.write(built, pictures[-1]), width=100, exits=False))
    if len(runs) > 1:
        texts += redrawing.compared_page(runs, typed.output, registry, pictures, typed.equivalent)
    return "\n".join(texts), int(unfinished)


COMMAND = Command(
    ReportArguments,
    run,
    {
        "benchmark": "a benchmark of the runs, or the file that declares it, for images (repeatable)",
        "data": "folder of the data sets, for images (default: MEDVQA_DATA)",
        "metric-like": "show the counts of another evaluation kit too, flaws included: llava-med or medevalkit "
        "(repeatable, or KIT,KIT; default: those of the run)",
        "wrong-costs": "the cost K of a wrong answer in effective_reliability, for runs with --abstain (default: that "
        "of the run)",
    },
)
