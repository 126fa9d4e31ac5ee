"""Check whether a judge may be asked about the stored answers of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medvqa.items import Benchmark
from medvqa.session import checks, uploads
from medvqa.session.chosen import Chosen
from medvqa.session.options import Options


def check_judge(
    judge: Chosen, options: Options, folder: Path, sent: Mapping[str, str], known: Mapping[str, Benchmark], root: Path
) -> str | None:
    """Raise UsageError if the judge may not be asked; return a line about places that keep its replies, or None.

    `sent`: the data that it is asked about, by benchmark, such as "60 questions". `root`: the folder of the project.
    """
    judge.check_consent(trust_remote_code=options.trust_remote_code)
    judge.check()
    checks.check_cost(options.max_cost, [judge])
    if not options.allow_upload:
        uploads.check_sent(judge, sent, known, root)
    uploads.check_kept(options, list(sent), known, root)
    uploads.check_held(options, folder, known, root)
    return uploads.kept_notice(options, list(sent), [judge])
