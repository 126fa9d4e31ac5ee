"""`medvqa agreement`: compare a judge's scores with those of people or of another judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medvqa import printing
from medvqa.cli.arguments import Arguments, Command, option, output, positional, seed, written_as
from medvqa.cli.common import write
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.judging.agreement import Judged


class AgreementArguments(Arguments):
    """Compare a judge's scores with those of people, or of another judge over the same answers.

    With --sample, write a sheet that people fill in.
    """

    runs: list[Path] = positional("a judged run folder, or two", "RUN")
    human: list[Path] = option(
        "scores by people: a CSV or XLSX file with the columns id and score, and rater if several people scored; "
        "or reviews exported by the page (repeatable: one file for each rater)",
        "FILE",
    )
    by: str | None = option(
        "show agreement by this lexicon dimension (default: ability, if the questions have it)", "DIMENSION"
    )
    min_agreement: float | None = option(
        "exit code 1 unless the lower bound of the 95 % interval is at least X",
        "X",
        low=0,
        above=True,
        high=1,
        hint=", as 0.9",
    )
    measure: str | None = option(
        "the measure that --min-agreement bounds: exact (exact agreement, the default), kappa or alpha",
        "NAME",
        choices=("exact", "kappa", "alpha"),
    )
    sample: int | None = option("write a sheet of N answers for people to score, blind to the judge", "N")
    output: Path | None = output("file of the sheet, .csv or .xlsx (default: RUN/agreement.csv)")
    json: Path | None = written_as("JSON", "all figures")
    keep: bool = option(
        "with --human: keep the corrected means in RUN/agreement.json; the reports of RUN show them from then on"
    )
    seed: int | None = seed("sheet with --sample")


def run(typed: AgreementArguments) -> tuple[str, int]:
    """Write a sheet for people, or return the figures, and 1 if they are too low."""
    from medvqa import files
    from medvqa.judging import agreement, correcting
    from medvqa.judging.templates import SCALE
    from medvqa.report import raters

    _check(typed)
    judged = [agreement.judged(folder) for folder in typed.runs]
    if typed.sample is not None:
        return _sheet(typed, judged[0], typed.sample), 0
    means: tuple[correcting.JudgedMean, ...] = ()
    if typed.human:
        people, notes = agreement.scores_of_people(typed.human, judged[0])
        ratings, means = agreement.judge_and_people(judged[0], people, notes), correcting.means(judged[0], people)
        if typed.keep:
            with files.writing(f"--keep: {judged[0].folder}"):
                correcting.keep(judged[0], people, means)
    else:
        ratings = agreement.two_judges(*judged)
    dimension = agreement.dimension_of(ratings.results, typed.by)
    agreements = agreement.agreements(ratings, dimension)
    content = {"scale": SCALE, "notes": ratings.notes, "agreements": agreements, "means": means}
    write("--json", typed.json, lambda: content)
    text = raters.text(agreements, dimension, ratings.notes, means)
    if typed.keep:
        kept = f"kept in {judged[0].folder / correcting.FILE}; medvqa report {judged[0].folder} shows it"
        text = f"{text}\n{printing.line(kept)}"
    if typed.min_agreement is None:
        return text, 0
    line, failed = raters.verdict(agreements[0], typed.measure or "exact", typed.min_agreement)
    return f"{text}\n{line}", int(failed)


def _check(typed: AgreementArguments) -> None:
    """Raise UsageError for arguments that contradict each other."""
    if len(typed.runs) > 2 or (len(typed.runs) == 2 and typed.human):
        raise UsageError("agreement compares one RUN with --human=FILE, or two RUNs with each other")
    if typed.sample is not None:
        if len(typed.runs) > 1 or typed.first_given("human", "min_agreement", "json", "keep"):
            raise UsageError(
                "--sample=N writes a sheet of one RUN; read it back with --human=FILE once it is filled in"
            )
        return
    if len(typed.runs) == 1 and not typed.human:
        raise UsageError(
            "agreement with whom? Name the scores of people with --human=FILE, or a second RUN; "
            "--sample=200 writes a sheet for people to fill in"
        )
    if typed.keep and not typed.human:
        raise UsageError("--keep keeps means that people's scores correct: name these with --human=FILE")
    if typed.output is not None:
        raise UsageError("--output names the sheet of --sample=N; --json=FILE has the figures written to a file")
    if typed.seed is not None:
        raise UsageError("--seed draws the sheet of --sample=N; figures and intervals need none")
    if typed.measure is not None and typed.min_agreement is None:
        raise UsageError("--measure says what --min-agreement=X is about, and that is missing")


def _sheet(typed: AgreementArguments, judged: Judged, number: int) -> str:
    from medvqa.judging import agreement
    from medvqa.judging.templates import SHOWN_SCALE

    path = typed.output or judged.folder / "agreement.csv"
    dimension = agreement.dimension_of(list(judged.scored.values()), typed.by)
    drawn = agreement.sample(judged, number, dimension, typed.seed or 0)
    agreement.write_sheet(path, drawn)
    strata = f"{dimension} and the judge's score" if dimension else "the judge's score"
    return (
        f"wrote {path}: {len(drawn):,} of {len(judged.scored):,} judged answers, stratified by {strata}\n"
        f"Each rater fills in the column score ({SHOWN_SCALE}) in a copy of their own, then:\n"
        f"medvqa agreement {judged.folder} --human=COPY"
    )


COMMAND = Command(AgreementArguments, run)
