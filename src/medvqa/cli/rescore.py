"""`medvqa rescore`: score stored answers again, by a judge or another rule, without asking the model."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, run_folder
from medvqa.cli.common import count_up, known_from, say


class RescoreArguments(Arguments):
    """Score the stored answers of a run again, by a judge or by another rule of extraction.

    The model is not asked. The run changes only when all answers have their new score.
    """

    run: Path = run_folder()


def run(typed: RescoreArguments) -> tuple[str, int]:
    """Rescore a run. Return its summary, and 1 if it is unfinished or has errors."""
    from medvqa.commands import redrawing, rescoring
    from medvqa.report.terminal import summary
    from medvqa.session.project import Project

    here, options, registry = Path.cwd(), typed.options(), known_from(typed, [typed.run])
    with redrawing.locked(typed.run, say):
        stopped = rescoring.rescore(
            typed.run,
            Project(here, here, registry, options),
            as_before=typed.raw["extraction"] is None,
            say=say,
            progress=count_up("results"),
        )
        if stopped is not None:
            return stopped, 1
        written = redrawing.redrawn(typed.run, registry, options.data)
        errors = any(result.score.outcome == "error" for part in written.parts for result in part.results)
        return summary(written, width=100, exits=False), int(errors or not written.covered.finished)


JUDGE: dict[str, str] = {
    "answers": "use the judge's replies in another run too: its name or folder; or share them in a place: a folder, "
    "s3://BUCKET/PREFIX, gs:// or az:// (repeatable; default: those of the run alone)",
    "fresh": "ask the judge everything again, without stored replies",
    "max-cost": "stop once judging has cost this sum, by the prices in the judge's config",
    "max-errors": "stop after N errors in a row (default: 50; 0: never)",
    **dict.fromkeys(("allow-upload", "trust-remote-code", "deadline"), ""),
}
"""Options of commands that ask a judge about stored answers."""
COMMAND = Command(
    RescoreArguments,
    run,
    {
        "judge": "",
        "ff-gap": "for answers by --technique=ff: the closest option is the answer if it leads by POINTS; without "
        "--judge, the stored replies are read again",
        **dict.fromkeys(("extract-with", "rules-first", "judge-prompt"), ""),
        "extraction": "the rule that reads answers, sound or official (default: the rule of the run)",
        **JUDGE,
        "data": "folder of the data sets, for images of the page (default: MEDVQA_DATA)",
    },
)
