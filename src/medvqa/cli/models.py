"""`medvqa models`: list the models that `--model` may name."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, positional
from medvqa.cli.common import known_from


class ModelsArguments(Arguments):
    """List models with their capabilities: the configs of models/ here and those that ship, or those that you name."""

    names: list[str] = positional("a config of models/, or BACKEND:ARGUMENT (default: all configs)", "MODEL", least=0)


def run(typed: ModelsArguments) -> str:
    """Return a table of configs."""
    from medvqa import configs
    from medvqa.benchmarks import folders
    from medvqa.figures import Table, data_size, numbers, terminal, texts

    backends = known_from(typed).backends
    places = [Path("models"), folders.bundled("models")]
    named = [configs.resolve(name, folders=places, backends=backends) for name in typed.names]
    # Resolve a folder relative to its config, but show it as written.
    as_written = named or configs.available(places)
    rows = []
    for written, config in zip(as_written, named or configs.available(places, backends), strict=True):
        model = configs.make(config, backends) if config.backend in backends else None
        able = ["unknown: --plugin=FILE"] if model is None else sorted(model.capabilities or ())
        size = data_size(None if model is None else model.size())
        rows.append((config.name, config.backend, written.argument, ", ".join(able), size, config.description))
    columns = (*texts("model", "backend", "argument", "capabilities"), *numbers("size"), *texts("description"))
    return terminal(Table("", columns, tuple(rows))).removesuffix("\n")


COMMAND = Command(ModelsArguments, run)
