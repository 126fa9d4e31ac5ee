"""`medvqa models`: list the models that `--model` may name."""

from __future__ import annotations

import argparse
from pathlib import Path

from medvqa.cli.common import Commands, known_from


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    models = commands.add_parser(
        "models",
        parents=[common],
        description="List models with their capabilities: the configs of models/ here and those that ship, or the "
        "models that you name.",
    )
    models.add_argument(
        "names", nargs="*", metavar="MODEL", help="a config of models/, or BACKEND:ARGUMENT (default: all configs)"
    )
    models.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Return a table of configs."""
    from medvqa import configs
    from medvqa.data import folders
    from medvqa.figures import Table, numbers, terminal, texts

    backends = known_from(options).backends
    places = [Path("models"), folders.bundled("models")]
    named = [configs.resolve(name, folders=places, backends=backends) for name in options.names]
    # Resolve a folder relative to its config, but show it as written.
    as_written = named or configs.available(places)
    rows = []
    for written, config in zip(as_written, named or configs.available(places, backends), strict=True):
        model = configs.make(config, backends) if config.backend in backends else None
        able = ["unknown: --plugin=FILE"] if model is None else sorted(model.capabilities or ())
        size = configs.in_units(None if model is None else model.size())
        rows.append((config.name, config.backend, written.argument, ", ".join(able), size, config.description))
    columns = (*texts("model", "backend", "argument", "capabilities"), *numbers("size"), *texts("description"))
    return terminal(Table("", columns, tuple(rows))).removesuffix("\n")
