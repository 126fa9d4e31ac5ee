"""`medvqa classify`: sort the wrong answers of a run by kinds of errors, and let people correct the kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, run_folder, seed
from medvqa.cli.common import count_up, known_and_named, say
from medvqa.cli.rescore import JUDGE
from medvqa.items import UsageError

_NEED_JUDGE = ("taxonomy", "seed", "by", "partial", "no_images", "limit", "benchmark", "fresh")


class ClassifyArguments(Arguments):
    """Sort the wrong answers of a run by kinds of errors: by rule where one is certain, else by a judge.

    Writes errors.json and errors.csv, and adds the shares to the reports. The model is not asked.
    """

    run: Path = run_folder()
    taxonomy: str | None = option(
        "the tree of kinds: gmai-mmbench, medlesionvqa, or FILE.toml (default: the one of the benchmark's paper)",
        "TREE",
    )
    seed: int | None = seed("sample with --limit")
    by: str | None = option(
        "stratify the sample of --limit by this dimension (default: ability or task, else the benchmark's first)",
        "DIMENSION",
    )
    partial: bool = option("partly right answers count as wrong ones too")
    no_images: bool = option("show the judge no images")
    sheet: Path | None = option("write the kinds into a sheet for people to correct, .csv or .xlsx", "FILE")
    human: list[Path] = option(
        "read people's corrections from a filled-in sheet, or from reviews exported by the page (repeatable: one "
        "file for each person)",
        "FILE",
    )


def run(typed: ClassifyArguments) -> tuple[str, int]:
    """Classify a run. Return its shares, and 1 if the judge left answers without a readable reply."""
    from medvqa.commands import classifying, redrawing
    from medvqa.judging import taxonomy
    from medvqa.report.terminal import kinds_of_errors
    from medvqa.session.project import Project

    here, options = Path.cwd(), typed.options()
    registry, names = known_and_named(typed, options.benchmarks, [typed.run])
    options = replace(options, benchmarks=tuple(names))
    with redrawing.locked(typed.run, say):
        if options.judge is not None:
            request = classifying.Request(
                typed.taxonomy, typed.seed or 0, typed.by, partial=typed.partial, images=not typed.no_images
            )
            before, project = taxonomy.read(typed.run), Project(here, here, registry, options)
            stopped = classifying.classify(typed.run, request, project, say=say, progress=count_up("wrong answers"))
            if stopped is not None:
                return stopped, 1
            if before is not None and before.people is not None and not typed.human:
                raters = ", ".join(before.people.raters)
                say(
                    f"medvqa: the labels are new, without the corrections by {raters}: read them again with "
                    "--human=FILE"
                )
        elif needless := typed.first_given(*_NEED_JUDGE):
            raise UsageError(f"{needless} says how a judge classifies, and there is none: add --judge=MODEL")
        lines, unread = classifying.reviewed(typed.run, registry, typed.human, typed.sheet, say=say)
        written = redrawing.redrawn(typed.run, registry, options.data)
        return "\n".join([kinds_of_errors(written, full=True), *lines, f"run folder: {typed.run}"]), int(unread)


COMMAND = Command(
    ClassifyArguments,
    run,
    {
        "judge": "the model that tells the kinds: a config of models/, or BACKEND:ARGUMENT; without it, the kinds of "
        "an earlier classify are shown",
        "benchmark": "classify only the answers to this benchmark (repeatable, or NAME,NAME; default: all of the run)",
        "limit": "classify at most N wrong answers of each benchmark: a stratified sample (default: all)",
        **JUDGE,
        "data": "folder of the data sets, for the images that the judge sees (default: MEDVQA_DATA)",
    },
)
