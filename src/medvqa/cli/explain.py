"""`medvqa explain`: how other harnesses' rules count the answers of a run, and what a published row leaves open."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from medvqa.cli.arguments import DATA, Arguments, Command, option, run_folder, written_as
from medvqa.cli.common import known_from, write


class ExplainArguments(Arguments):
    """Count the answers of a run by the rules of its benchmark's owners and of other harnesses.

    With --published, list what is the same, different and unknown between the run and a row of the benchmark's paper,
    and the counts that the row's percentages may stand for. Nothing is asked, and no number is said to be confirmed.
    """

    run: Path = run_folder()
    published: str = option(
        "a row of the published figures, such as GPT-4o; `medvqa paper` lists them", "ROW", default=""
    )
    json: Path | None = written_as("JSON", "everything, with all questions that a rule scores otherwise,")


def run(typed: ExplainArguments) -> str:
    """Return the explanation as text (UsageError)."""
    from medvqa import report
    from medvqa.benchmarks import published
    from medvqa.report import explained

    known = known_from(typed, [typed.run]).benchmarks
    tables = published.tables(known.values())
    like = sorted({table.metric_like for table in tables.values() if table.metric_like})
    built = report.build(typed.run, known, like=like if typed.published else None, data=typed.options().data)
    parts = explained.explain(built, tables, typed.published)
    write("--json", typed.json, lambda: {"schema": 1, "parts": [asdict(part) for part in parts]})
    return "\n\n".join(map(explained.text, parts))


COMMAND = Command(ExplainArguments, run, DATA)
