"""`medvqa view`: show run folders in the browser, and follow running sessions."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from medvqa.cli.common import Commands, data_of, known_from
from medvqa.items import UsageError


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    view = commands.add_parser(
        "view",
        parents=[common],
        description="Serve a folder of runs to a browser on this machine: their list, each run's page, comparisons, "
        "and the progress of running sessions. Ctrl-C ends it. It writes nothing but reviews. It needs pip install "
        "'pytest-medvqa[view]'.",
    )
    view.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("reports"),
        metavar="FOLDER",
        help="a folder of runs, or one run folder (default: reports)",
    )
    view.add_argument("--port", type=int, default=0, metavar="N", help="the port on 127.0.0.1 (default: a free one)")
    view.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")
    view.add_argument("--data", metavar="DIR", help="the folder of the data sets, for images (default: MEDVQA_DATA)")
    view.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="FILE",
        help="a file such as klinik.toml that declares a benchmark of the runs, for images (repeatable)",
    )
    view.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Serve until Ctrl-C."""
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"medvqa view needs {' and '.join(missing)}: pip install 'pytest-medvqa[view]'")
    folder: Path = options.folder
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder: start a run by `medvqa run --model=...` or pytest, or type `medvqa view FOLDER` "
            "with the folder of your runs"
        )
    if not 0 <= options.port <= 65535:
        raise UsageError(f"--port={options.port}: ports go from 1 to 65535; leave --port out for a free one")
    from medvqa.view.serve import serve
    from medvqa.view.sources import Sources

    data, _ = data_of(options)
    sources = Sources(
        None if data is None else str(data.resolve()),
        tuple(str(Path(name).resolve()) for name in options.plugin),
        options.noconftest,
        tuple(options.benchmark),
    )
    serve(folder, sources, known_from(options), port=options.port, browser=not options.no_browser)
    return ""
