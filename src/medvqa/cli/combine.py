"""`medvqa combine`: combine the answers of recorded runs, by vote or by mean."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, output, run_folders
from medvqa.cli.common import known_from
from medvqa.items import UsageError


class CombineArguments(Arguments):
    """Combine the answers of recorded runs: the answers of each run become samples of one run.

    Without -o, print its measures. The exit code is 1 if answers are missing or ended in error.
    """

    runs: list[Path] = run_folders()
    samples: str | None = option(
        "print a table by the number of answers: of the first N answers to each question", "N,N"
    )
    output: Path | None = output(
        "write the answers as a new run: a name, which then lies beside the first RUN, or a path such as reports/NAME",
        "NAME",
    )


def run(typed: CombineArguments) -> tuple[str, int]:
    """Return tables or a summary, and 1 if anything is missing."""
    from medvqa import printing
    from medvqa.commands import joining
    from medvqa.figures import terminal
    from medvqa.report import sample_tables

    registry, options = known_from(typed, typed.runs), typed.options()
    joined, text = joining.combine(typed.runs, typed.output, registry, options.combine)
    texts, about, protocol = [text] if text else [], joined.about, joined.about.protocol
    if typed.output is None or typed.samples is not None:
        numbers = _numbers(typed.samples, protocol.samples or 1)
        tables = sample_tables.by_samples(joined.results, about, registry.benchmarks, protocol, numbers)
        texts += [f"{printing.line(table.title)}\n\n{terminal(table)}" for table in tables]
    return "\n".join(texts).rstrip("\n"), int(not joined.complete)


def _numbers(typed: str | None, most: int) -> list[int]:
    """Return the numbers of samples of a table's rows (UsageError)."""
    numbers = [str(most)] if typed is None else [text.strip() for text in typed.split(",")]
    for text in numbers:
        if not (text.isascii() and text.isdecimal() and int(text) >= 1):
            raise UsageError(f"--samples={typed}: whole numbers from 1 on are expected, such as --samples=1,10,100")
        if int(text) > most:
            raise UsageError(f"--samples={typed}: there are {most} answers to each question")
    return list(dict.fromkeys(map(int, numbers)))


COMMAND = Command(
    CombineArguments,
    run,
    {
        "combine": "vote (majority of the options, the default) or mean (average the scores)",
    },
)
