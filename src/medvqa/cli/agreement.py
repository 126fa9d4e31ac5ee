"""`medvqa agreement`: compare a judge's scores with those of people or of another judge."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.figures import Table
    from medvqa.judging.agreement import Agreement, Coefficient, Judged

CHECKED = {"exact": "exact agreement", "kappa": "kappa", "alpha": "alpha"}
"""Values of --measure, and their names in messages."""

MOST_NAMED = 4
"""Maximum number of raters named in one cell."""


def add(commands: Commands, _: argparse.ArgumentParser) -> None:
    """Add the command."""
    agreement = commands.add_parser(
        "agreement",
        help="compare a judge's scores with those of people or of another judge",
        description="Compare a judge's scores with those of people, or of another judge over the same answers. With "
        "--sample, write a sheet that people fill in.",
    )
    agreement.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a judged run folder, or two")
    agreement.add_argument(
        "--human",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="scores by people: a CSV or XLSX file with the columns id and score, and rater if several people scored; "
        "or reviews exported by the page (repeatable: one file for each rater)",
    )
    agreement.add_argument(
        "--by",
        metavar="DIMENSION",
        help="show agreement by this lexicon dimension (default: ability, if the questions have it)",
    )
    agreement.add_argument(
        "--min-agreement",
        type=float,
        metavar="X",
        help="exit code 1 unless the lower bound of the 95 %% interval is at least X",
    )
    agreement.add_argument(
        "--measure", choices=list(CHECKED), help="the measure that --min-agreement bounds (default: exact agreement)"
    )
    agreement.add_argument(
        "--sample", type=int, metavar="N", help="write a sheet of N answers for people to score, blind to the judge"
    )
    agreement.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file of the sheet, .csv or .xlsx (default: RUN/agreement.csv)",
    )
    agreement.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    agreement.add_argument("--seed", type=int, metavar="N", help="draw another sheet with --sample (default: 0)")
    agreement.set_defaults(command=run)


def run(options: argparse.Namespace) -> tuple[str, bool]:
    """Write a sheet for people, or return the figures and whether they are too low."""
    from medvqa.judging import agreement

    _check(options)
    judged = [agreement.judged(folder) for folder in options.runs]
    if options.sample is not None:
        return _sheet(options, judged[0]), False
    if options.human:
        ratings = agreement.judge_and_people(judged[0], *agreement.scores_of_people(options.human, judged[0]))
    else:
        ratings = agreement.two_judges(*judged)
    dimension = agreement.dimension_of(ratings.results, options.by)
    agreements = agreement.agreements(ratings, dimension)
    if options.json is not None:
        from medvqa.records import run_folder

        content = {"scale": agreement.SCALE, "notes": ratings.notes, "agreements": agreements}
        try:
            run_folder.write_json(options.json, content)
        except OSError as error:
            raise UsageError(f"--json={options.json}: cannot be written: {error.strerror}") from error
    text = _text(agreements, dimension, ratings.notes)
    if options.min_agreement is None:
        return text, False
    line, failed = _verdict(agreements[0], options.measure or "exact", options.min_agreement)
    return f"{text}\n{line}", failed


def _check(options: argparse.Namespace) -> None:
    if len(options.runs) > 2 or (len(options.runs) == 2 and options.human):
        raise UsageError("agreement compares one RUN with --human=FILE, or two RUNs with each other")
    if options.sample is not None:
        if len(options.runs) > 1 or options.human or options.min_agreement is not None or options.json is not None:
            raise UsageError(
                "--sample=N writes a sheet of one RUN; read it back with --human=FILE once it is filled in"
            )
        return
    if len(options.runs) == 1 and not options.human:
        raise UsageError(
            "agreement with whom? Name the scores of people with --human=FILE, or a second RUN; "
            "--sample=200 writes a sheet for people to fill in"
        )
    if options.output is not None:
        raise UsageError("--output names the sheet of --sample=N; --json=FILE has the figures written to a file")
    if options.seed is not None:
        raise UsageError("--seed draws the sheet of --sample=N; figures and intervals need none")
    if options.measure is not None and options.min_agreement is None:
        raise UsageError("--measure says what --min-agreement=X is about, and that is missing")
    if options.min_agreement is not None and not 0 < options.min_agreement <= 1:
        raise UsageError(f"--min-agreement={options.min_agreement:g}: from above 0 to 1, as 0.9")


def _sheet(options: argparse.Namespace, judged: Judged) -> str:
    from medvqa.judging import agreement

    path = options.output or judged.folder / "agreement.csv"
    dimension = agreement.dimension_of(list(judged.scored.values()), options.by)
    drawn = agreement.sample(judged, options.sample, dimension, options.seed or 0)
    agreement.write_sheet(path, drawn)
    scale = ", ".join(f"{value:g}" for value in agreement.SCALE)
    strata = f"{dimension} and the judge's score" if dimension else "the judge's score"
    return (
        f"wrote {path}: {len(drawn):,} of {len(judged.scored):,} judged answers, stratified by {strata}\n"
        f"Each rater fills in the column score ({scale}) in a copy of their own, then:\n"
        f"medvqa agreement {judged.folder} --human=COPY"
    )


def _text(agreements: Sequence[Agreement], dimension: str | None, notes: Sequence[str]) -> str:
    from medvqa import printing
    from medvqa.figures import terminal

    whole = [agreement for agreement in agreements if not agreement.slice]
    parts = [agreement for agreement in agreements if agreement.slice]
    blocks = [terminal(_figures(("raters",), [(_names(agreement),) for agreement in whole], whole))]
    blocks.append(terminal(_confusion((), [()], whole[:1])))
    if dimension and parts:
        from medvqa.data import lexicon

        labels = [(lexicon.display(dimension, agreement.slice[dimension]),) for agreement in parts]
        blocks += [
            printing.line(f"{_names(parts[0])} by {dimension}") + "\n",
            terminal(_figures((dimension,), labels, parts)),
        ]
        blocks.append(terminal(_confusion((dimension,), labels, parts)))
    return "\n".join([*blocks, *(f"! {printing.line(note)}" for note in notes)]).removesuffix("\n")


def _names(agreement: Agreement) -> str:
    if len(agreement.raters) > MOST_NAMED:
        return f"{len(agreement.raters)} raters"
    return " – ".join(agreement.raters)


def _figures(columns: Sequence[str], labels: Sequence[Sequence[str]], shown: Sequence[Agreement]) -> Table:
    """Tabulate the figures, a row for each agreement."""
    from medvqa.figures import Column, Table, numbers, texts

    heading = [*texts(*columns), *numbers("n", "groups")]
    for name in ("exact %", "difference", "kappa", "alpha"):
        heading += [Column(name, "figure"), Column("95 % interval", "interval")]
    rows = []
    for label, agreement in zip(labels, shown, strict=True):
        found = [agreement.exact.figure(percent=True)]
        found += [one.figure() for one in (agreement.difference, agreement.kappa, agreement.alpha)]
        rows.append((*label, agreement.n, agreement.groups, *(figure for figure in found for _ in range(2))))
    return Table("", tuple(heading), tuple(rows))


def _confusion(columns: Sequence[str], labels: Sequence[Sequence[str]], shown: Sequence[Agreement]) -> Table:
    """Count answers by the scores of the first and the second rater."""
    from medvqa.figures import Table, numbers, texts
    from medvqa.judging import agreement

    first, second = shown[0].raters
    scale = [f"{value:g}" for value in agreement.SCALE]
    heading = (*texts(*columns), *numbers(f"score of {first}", *(f"{value} by {second}" for value in scale)))
    rows = [
        (*label, value, *counts)
        for label, compared in zip(labels, shown, strict=True)
        for value, counts in zip(scale, compared.confusion, strict=True)
    ]
    return Table("", heading, tuple(rows))


def _verdict(agreement: Agreement, measure: str, least: float) -> tuple[str, bool]:
    """Return the line of the check, and whether it failed. Without a lower bound it fails."""
    from medvqa import printing
    from medvqa.figures import number

    found: Coefficient = getattr(agreement, measure)
    value, low = (number(one, percent=False, digits=3) for one in (found.value, found.low))
    name = printing.line(f"{CHECKED[measure]} of {_names(agreement)}")
    if found.value is None:
        return f"FAIL: {name} is undefined (all scores are one and the same); at least {least:g} is asked", True
    if found.low is None:
        return (
            f"FAIL: {name} is {value}, without an interval ({agreement.n:,} answers in "
            f"{agreement.groups:,} groups are too few or too alike); a lower bound of at least {least:g} is asked",
            True,
        )
    line = f"{name} is {value}, lower bound {low}; at least {least:g} is asked of the bound"
    failed = found.low < least
    return f"{'FAIL' if failed else 'PASS'}: {line}", failed
