"""Places on GPUs, one for each process that runs a model.

The controller hands them out: a worker that replaces another has a new id (gw2 with -n 2), so that no rule from
id to GPU would keep two workers apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest

from medvqa import configs
from medvqa.backend import Backend
from medvqa.configs import ModelConfig
from medvqa.data import folders
from medvqa.items import UsageError
from medvqa.plugin.process import VISIBLE
from medvqa.session import options
from medvqa.session.registry import gather

AUTO = "PYTEST_XDIST_AUTO_NUM_WORKERS"
"""Environment variable by which a user tells xdist what -n auto is."""


class Leases:
    """Places of one run's model, each held by at most one worker at a time."""

    def __init__(self, places: Sequence[str], model: str) -> None:
        """All are free. `model` is what the user typed, for messages."""
        self._places = tuple(places)
        self._model = model
        self._free = list(places)
        self._held: dict[str, str] = {}

    def take(self, worker: str) -> str:
        """A place for a worker; UsageError when none is free."""
        if not self._free:
            raise too_many(len(self._held) + 1, self._places, self._model)
        self._held[worker] = self._free.pop(0)
        return self._held[worker]

    def give_back(self, worker: str) -> None:
        """A worker has ended; of one that holds nothing (xdist may tell twice) there is nothing to do."""
        if worker in self._held:
            self._free.insert(0, self._held.pop(worker))


def places(models: Sequence[tuple[ModelConfig, Backend]]) -> tuple[str, ...] | None:
    """The devices that can each hold one copy of all the models, None when these take none.

    The first of the models that takes GPUs says which devices make a place. UsageError where they fit none.
    """
    taking = [(config, model, told) for config, model in models if (told := model.places()) is not None]
    if not taking:
        return None
    config, model, told = taking[0]
    if not told:
        raise UsageError(f"'{config.name}' takes more GPUs than are here: choose a model that runs on the CPU")
    sizes = [size for _, each, _ in taking if (size := each.size()) is not None]
    size = sum(sizes) if sizes else None
    found = {place: model.memory(place) for place in told}
    fitting = [place for place, memory in found.items() if size is None or memory is None or memory >= size]
    if not fitting:
        largest = max(memory for memory in found.values() if memory is not None)
        names = "' and '".join(config.name for config, *_ in taking)
        have = "has" if len(taking) == 1 else "have together"
        raise UsageError(
            f"'{names}' {have} {configs.in_units(size)} of weights, and the largest place on the GPUs here "
            f"{configs.in_units(largest)}: spread a copy over several, or choose a smaller model or one on the CPU"
        )
    return tuple(place for place in told if place in fitting)


def too_many(workers: int, places: Sequence[str], model: str) -> UsageError:
    """The error of more workers than places."""
    copies = "1 copy" if len(places) == 1 else f"{len(places)} copies"
    return UsageError(
        f"-n {workers}, and '{model}' finds GPUs for {copies} ({VISIBLE}={' and '.join(places)}): "
        f"type -n {len(places)}, or choose a model that runs on the CPU"
    )


def workers_asked(config: pytest.Config) -> int:
    """How many workers xdist was asked for, 0 for a serial run. What --tx multiplies ("3*popen") counts once."""
    if config.getoption("dist", "no") == "no" or config.option.collectonly:
        return 0
    return len(config.getoption("tx", None) or ())


def auto(config: pytest.Config) -> int | None:
    """What -n auto means for a model that takes GPUs; None leaves it to xdist, as does what is wrong with the model.

    xdist asks before plugins are configured, so nothing is kept of what is found here.
    """
    asked = options.read(config)
    if not asked.typed or os.environ.get(AUTO):
        return None
    try:
        backends = gather(config.pluginmanager).backends
        named = [asked.model] if asked.judge is None else [asked.model, asked.judge]
        models = [
            (found, configs.make(found, backends)) for found in (resolve(config, spec, backends) for spec in named)
        ]
        for _, model in models:
            model.check()  # without what the backend needs, it need not know any places
        told = places(models)
    except UsageError:
        return None  # told by `Controller.check`
    return None if told is None else len(told)


def resolve(config: pytest.Config, model: str, backends: Mapping[str, type[Backend]]) -> ModelConfig:
    """The config that `--model=MODEL` names: of the rootdir's, or of those that ship (UsageError)."""
    return configs.resolve(model, folders=[config.rootpath / "models", folders.bundled("models")], backends=backends)
