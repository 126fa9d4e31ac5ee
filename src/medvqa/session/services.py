"""What the model and the judge of a run share between processes, such as servers: started, awaited, and ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from medvqa.backend import Service, said
from medvqa.items import MedVQAError
from medvqa.session.chosen import Chosen
from medvqa.session.plan import Plan

Told = Mapping[str, Mapping[str, Any]]
"""What `Service.told` says, by the spec of the model."""


class Services:
    """The services of a run, in the process that conducts it. A judge of the model's spec shares those of the model."""

    def __init__(self, plan: Plan) -> None:
        """Start nothing yet."""
        self._plan = plan
        self._running: dict[str, Service] = {}

    @property
    def needed(self) -> bool:
        """Whether a model may start some."""
        return bool(_starting(self._plan))

    @property
    def told(self) -> Told:
        """What the processes that ask must know."""
        return {spec: service.told for spec, service in self._running.items()}

    def start(self, folder: Path) -> None:
        """Start the services, and return at once; logs go into the run's folder (UsageError, OSError)."""
        for chosen in _starting(self._plan):
            if chosen.spec not in self._running and (service := chosen.backend.start(folder)) is not None:
                self._running[chosen.spec] = service
        join(self._plan, self.told)

    def wait(self, say: Callable[[str], None]) -> None:
        """Return once all are ready (UsageError)."""
        for service in self._running.values():
            service.wait(say)

    def stop(self) -> list[str]:
        """Tell all to end; lines for those that had ended by themselves."""
        return [line for service in self._running.values() for line in service.stop()]

    def close(self) -> None:
        """End all, and wait for their end."""
        for service in self._running.values():
            with suppress(MedVQAError):
                service.close()


def join(plan: Plan, told: Told) -> None:
    """Tell the models of a process about the services of their run."""
    for chosen in _starting(plan):
        if chosen.spec in told:
            chosen.backend.join(told[chosen.spec])


def _starting(plan: Plan) -> list[Chosen]:
    """Return the models that start services. The copies of a pool start their own."""
    models = [plan.model] if plan.judge is None else [plan.model, plan.judge.chosen]
    return [chosen for chosen in models if said(chosen.backend, "start") and not chosen.backend.pools]
