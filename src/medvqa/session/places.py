"""Places on GPUs, one for each process that runs a model.

The controller assigns them. A worker that replaces another has a new id (gw2 with -n 2), so the id cannot name a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from medvqa.figures import data_size
from medvqa.items import UsageError
from medvqa.session.chosen import Chosen, choose
from medvqa.session.options import VISIBLE
from medvqa.session.project import Project


class Leases:
    """The places of one run. At most one worker holds a place."""

    def __init__(self, places: Sequence[str], model: str) -> None:
        """Start with all places free. `model`: the value of --model, for messages."""
        self._places = tuple(places)
        self._model = model
        self._free = list(places)
        self._held: dict[str, str] = {}

    def take(self, worker: str) -> str:
        """Assign a place to a worker; UsageError if none is free."""
        if not self._free:
            raise too_many(len(self._held) + 1, self._places, self._model)
        self._held[worker] = self._free.pop(0)
        return self._held[worker]

    def give_back(self, worker: str) -> None:
        """Release the worker's place. Idempotent: xdist may report the same exit twice."""
        if worker in self._held:
            self._free.insert(0, self._held.pop(worker))


def places(models: Sequence[Chosen]) -> tuple[str, ...] | None:
    """Return the places that can hold one copy of all models; None if no model takes GPUs.

    The first model that takes GPUs defines the places. UsageError if the models fit on none of them.
    """
    taking = [(model, devices) for model in models if (devices := model.backend.places()) is not None]
    if not taking:
        return None
    first, devices = taking[0]
    if not devices:
        raise UsageError(f"'{first.config.name}' takes more GPUs than are here: choose a model that runs on the CPU")
    sizes = [size for model, _ in taking if (size := model.backend.size()) is not None]
    size = sum(sizes) if sizes else None
    held = {place: first.backend.memory(place) for place in devices}
    fitting = [place for place, memory in held.items() if size is None or memory is None or memory >= size]
    if not fitting:
        largest = max(memory for memory in held.values() if memory is not None)
        names = "' and '".join(model.config.name for model, _ in taking)
        have = "has" if len(taking) == 1 else "have together"
        raise UsageError(
            f"'{names}' {have} {data_size(size)} of weights, and the largest place on the GPUs here "
            f"{data_size(largest)}: spread a copy over several, or choose a smaller model or one on the CPU"
        )
    return tuple(place for place in devices if place in fitting)


def too_many(workers: int, places: Sequence[str], model: str) -> UsageError:
    """Return the error for more workers than places."""
    copies = "1 copy" if len(places) == 1 else f"{len(places)} copies"
    return UsageError(
        f"-n {workers}, and '{model}' finds GPUs for {copies} ({VISIBLE}={' and '.join(places)}): "
        f"type -n {len(places)}, or choose a model that runs on the CPU"
    )


def auto(project: Project) -> int | None:
    """Return the number of copies of the model that fit on GPUs, for `-n auto`; None without GPUs or with an error.

    xdist calls this before plugins are configured; `checks.check` reports the error later.
    """
    try:
        named: list[tuple[str, Literal["model", "judge"]]] = [(project.options.model, "model")]
        if project.options.judge is not None:
            named.append((project.options.judge, "judge"))
        models = [choose(spec, role, project) for spec, role in named]
        for model in models:
            model.check()  # first: a backend that lacks a package may not know its places
        held = places(models)
    except UsageError:
        return None
    return None if held is None else len(held)
