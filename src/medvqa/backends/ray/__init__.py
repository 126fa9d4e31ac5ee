"""`ray:MODEL`: copies of a model on a Ray cluster, each in a process of its own, fed by one run.

Needs the extra `ray`. Ray places the copies and starts dead ones again; the stream of the run asks lost batches again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from medvqa.backend import BATCH_SIZE, Backend, ModelFacts, chain, said
from medvqa.items import Answer, AnswerError, Item, Prompt, UsageError

if TYPE_CHECKING:
    from medvqa.backends.ray.pool import RayPool

__all__ = ["Ray", "RayOptions"]


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """The table [options] of a config.

    `address`: HOST:PORT of a cluster, or "auto" for the one that Ray finds; "" starts a local one for the run.
    `replicas`: the number of copies; "auto" for as many as fit, also on nodes that join during the run.
    """

    address: str = ""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | Literal["auto"] = "auto"


class Ray(Backend):
    """`ray:MODEL`: a pool of copies of a model on a Ray cluster."""

    Options = RayOptions
    options: RayOptions
    wraps = True
    pools = True
    _pool: RayPool | None = None
    _facts: ModelFacts | None = None
    """What the copies say about themselves."""
    _opened: ExitStack | None = None
    """What `close()` closes: the pool and the connection to its cluster."""
    _most: int | None = None

    @property
    def title(self) -> str:
        """The title of the model that it wraps: the answers are that model's."""
        return self.inner.title

    @property
    def sends_to(self) -> str | Sequence[str] | None:
        """The cluster's address; for a local cluster, the origin that the model itself sends to."""
        return f"ray://{self.options.address}" if self.options.address else self.inner.sends_to

    @property
    def batch_size(self) -> int | None:
        """The model's own number; else 1 for a model that takes several calls at once, and the engine's default."""
        own = (self._facts or self.inner).batch_size
        return own or (BATCH_SIZE if self.inner.concurrency is None else 1)

    @property
    def concurrency(self) -> int:
        """The batches in flight now, for all copies together; it grows with the copies."""
        number = 2 if self._pool is None else self._pool.concurrency
        return number if self._most is None else min(self._most, number)

    @concurrency.setter
    def concurrency(self, value: int) -> None:
        self._most = value

    def check(self) -> None:
        """Raise UsageError without the package, for a wrong address, and for a model that wraps another pool.

        A model of another machine is checked there.
        """
        from medvqa.backends.ray import cluster

        cluster.check(self.options.address)
        if any(model.pools for model in chain(self.inner)):
            raise UsageError(f"--model=ray:{self.argument}: a pool of pools; type --model={self.argument}")
        if not self.options.address:
            self.inner.check()

    def preflight(self) -> None:
        """Raise UsageError if no cluster answers; the model's own check, if copies run on this machine."""
        from medvqa.backends.ray import cluster

        cluster.preflight(self.options.address)
        if not self.options.address:
            self.inner.preflight()

    def places(self) -> None:
        """Return None: Ray assigns the GPUs."""

    def load(self) -> None:
        """Connect to the cluster, or start one, and load the copies (UsageError)."""
        self.check()
        from medvqa.backends.ray.cluster import Cluster

        with ExitStack() as stack:
            cluster = stack.enter_context(closing(Cluster(self.options.address)))
            # It imports ray, which reads what `Cluster` has set.
            from medvqa.backends.ray.pool import RayPool

            wanted = None if self.options.replicas == "auto" else self.options.replicas
            pool = stack.enter_context(closing(RayPool(cluster, self.inner, self._needs(cluster.nodes()), wanted)))
            facts = pool.open()
            self._pool, self._facts, self._opened = pool, facts, stack.pop_all()
        self.capabilities = facts.capabilities  # type: ignore[misc]  # mypy takes it for a property
        self.patience = facts.patience  # type: ignore[misc]

    def _needs(self, nodes: Sequence[Mapping[str, Any]] = ()) -> dict[str, float]:
        """The resources of a copy, by Ray's names.

        Without [resources] in a config, a copy takes no GPU in a cluster that has none; a copy on the CPU takes the
        memory of its weights.
        """
        from medvqa.backends.ray import cluster

        needs = cluster.demand(self.resources)
        if any(vars(model).keys() & {"resources", "_resources"} for model in (self, self.inner)):
            return needs
        if not any(node["Resources"].get("GPU") for node in nodes):
            needs.pop("GPU", None)
        if "GPU" not in needs and not self.options.address and (size := self.inner.size()):
            needs.setdefault("memory", float(size))
        return needs

    def fingerprint(self) -> str | None:
        """The copies' fingerprint: a pool changes no answer."""
        return None if self._facts is None else self._facts.fingerprint

    def identified(self) -> str | None:
        """The copies' proof."""
        return None if self._facts is None else self._facts.identified

    def about(self) -> Mapping[str, Any]:
        """The copies' settings."""
        return {} if self._facts is None else self._facts.about

    def fit(self, items: Sequence[Item]) -> None:
        """Fit each copy to the items, if the model takes them."""
        if self._pool is not None and said(self.inner, "fit"):
            self._pool.fit(items)

    def prepare(self, prompts: Sequence[Prompt]) -> None:
        """Do nothing: a copy prepares the batch that waits there."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Return the answers of a copy; BatchLost if its process or node is lost."""
        if self._pool is None:
            raise RuntimeError(f"model '{self.title}' is asked before load()")
        return self._pool.ask(prompts)

    def status(self) -> Mapping[str, Any]:
        """Return the copies, their nodes, restarts and rate."""
        return {} if self._pool is None else self._pool.status()

    def close(self) -> None:
        """End the copies, and the cluster if it was started for the run."""
        if self._opened is not None:
            self._opened.close()
