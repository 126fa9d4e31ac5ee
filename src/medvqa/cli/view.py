"""`medvqa view`: show run folders in the browser, and follow running sessions."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, positional
from medvqa.cli.common import known_and_named
from medvqa.items import UsageError


class ViewArguments(Arguments):
    """Serve a folder of runs to a browser on this machine.

    It shows their list, each run's page, comparisons, and the progress of running sessions. Of a study folder (medvqa
    read), it serves each reader's page at an address of its own, and keeps the readings. Ctrl-C ends it. It writes
    nothing but reviews and readings. It needs pip install 'pytest-medvqa[view]'.
    """

    folder: Path = positional(
        "a folder of runs, one run folder, or a study folder (default: reports)",
        "FOLDER",
        least=0,
        default=Path("reports"),
    )
    port: int = option(
        "the port on 127.0.0.1 (default: a free one)",
        "N",
        default=0,
        low=0,
        high=65535,
        hint="; leave --port out for a free one",
    )
    no_browser: bool = option("print the address, and open no browser")


def run(typed: ViewArguments) -> str:
    """Serve until Ctrl-C."""
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"medvqa view needs {' and '.join(missing)}: pip install 'pytest-medvqa[view]'")
    if not typed.folder.is_dir():
        raise UsageError(
            f"{typed.folder} is no folder: start a run by `medvqa run --model=...` or pytest, or type "
            "`medvqa view FOLDER` with the folder of your runs"
        )
    from medvqa.readings import study_plan
    from medvqa.view.serve import serve, serve_study
    from medvqa.view.sources import Sources

    if (record := study_plan.stored(typed.folder)) is not None:
        serve_study(typed.folder, record, port=typed.port)
        return ""

    options = typed.options()
    sources = Sources(
        None if options.data is None else str(options.data.resolve()),
        tuple(str(path.resolve()) for path in typed.plugin),
        typed.noconftest,
        options.benchmarks,
    )
    registry, _ = known_and_named(typed, options.benchmarks)
    serve(typed.folder, sources, registry, port=typed.port, browser=not typed.no_browser)
    return ""


COMMAND = Command(
    ViewArguments,
    run,
    {
        "data": "the folder of the data sets, for images (default: MEDVQA_DATA)",
        "benchmark": "a benchmark of the runs, or the file that declares it, for images (repeatable)",
    },
)
