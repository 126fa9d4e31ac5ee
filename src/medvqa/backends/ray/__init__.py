"""`ray:MODEL`: copies of a model on a Ray cluster, each in a process of its own, fed by one run.

Needs the extra `ray`. Ray places the copies and starts dead ones again; the stream of the run asks lost batches again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from medvqa.backend import BATCH_SIZE, Backend
from medvqa.items import Answer, AnswerError, BatchLost, Item, Prompt, UsageError

if TYPE_CHECKING:
    from medvqa.backends.ray.cluster import Cluster
    from medvqa.backends.ray.pool import RayPool

__all__ = ["Ray", "RayOptions"]

PREPARED = 3
"""Batches in flight for each copy of a model that prepares the next batch while it computes one."""


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
    _opening: RayPool | None = None
    """The pool from the start of `load()`; `_pool` is the same one once its copies are loaded."""
    _pool: RayPool | None = None
    _cluster: Cluster | None = None
    _most: int | None = None

    @property
    def title(self) -> str:
        """The title of the model that it wraps: the answers are that model's."""
        return self.inner.title

    @property
    def capabilities(self) -> Collection[str] | None:
        """Those of the copies once they are loaded."""
        return self.inner.capabilities if self._pool is None else self._pool.loaded.capabilities

    @property
    def sends_to(self) -> str | Sequence[str] | None:
        """The cluster's address; for a local cluster, the origin that the model itself sends to."""
        from medvqa.backends.ray import cluster

        return cluster.origin(self.options.address) or self.inner.sends_to

    @property
    def batch_size(self) -> int | None:
        """The model's own number; else 1 for a model that takes several calls at once, and the engine's default."""
        own = self.inner.batch_size if self._pool is None else self._pool.loaded.batch_size
        return own or (BATCH_SIZE if self.inner.concurrency is None else 1)

    @property
    def concurrency(self) -> int:
        """The batches in flight now, for all copies together; it grows with the copies."""
        number = 2 if self._pool is None else self._pool.concurrency
        return number if self._most is None else min(self._most, number)

    @concurrency.setter
    def concurrency(self, value: int) -> None:
        self._most = value

    @property
    def patience(self) -> float:
        """The seconds that one prompt may take in a copy."""
        return self.inner.patience if self._pool is None else self._pool.loaded.patience

    def check(self) -> None:
        """Raise UsageError without the package, for a wrong address, and for a model that wraps another pool.

        A model of another machine is checked there.
        """
        from medvqa.backends.ray import cluster

        cluster.check(self.options.address)
        inner = self.inner
        while True:
            if inner.pools:
                raise UsageError(f"--model=ray:{self.argument}: a pool of pools; type --model={self.argument}")
            if not inner.wraps:
                break
            inner = inner.inner
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
        from medvqa.backends.ray import cluster, parcels
        from medvqa.backends.ray.pool import IN_FLIGHT, RayPool

        options = self.options
        depth = PREPARED if parcels.prepares(self.inner) else IN_FLIGHT
        try:
            self._cluster = cluster.Cluster(options.address)
            pool = RayPool(
                self._cluster,
                parcels.pickled(parcels.Blueprint.of(self.inner)),
                self.title,
                self._needs(),
                None if options.replicas == "auto" else options.replicas,
                depth=depth,
                threads=max(depth, self.inner.concurrency or 0) + 2,
            )
            self._opening = pool
            pool.open()
        except BaseException:
            self.close()
            raise
        self._pool = pool

    def _needs(self) -> dict[str, float]:
        """The resources of a copy, by Ray's names.

        Without [resources] in a config, a copy takes no GPU in a cluster that has none; a copy on the CPU takes the
        memory of its weights.
        """
        from medvqa.backends.ray import cluster

        needs = cluster.demand(self.resources)
        configured = any(vars(model).keys() & {"resources", "_resources"} for model in (self, self.inner))
        nodes = [] if self._cluster is None else self._cluster.nodes()
        if not configured and not any(node["Resources"].get("GPU") for node in nodes):
            needs.pop("GPU", None)
        if not configured and "GPU" not in needs and not self.options.address and (size := self.inner.size()):
            needs.setdefault("memory", float(size))
        return needs

    def fingerprint(self) -> str | None:
        """The copies' fingerprint: a pool changes no answer."""
        return None if self._pool is None else self._pool.loaded.fingerprint

    def identified(self) -> str | None:
        """The copies' proof."""
        return None if self._pool is None else self._pool.loaded.identified

    def about(self) -> Mapping[str, Any]:
        """The copies' settings."""
        return {} if self._pool is None else self._pool.loaded.about

    def fit(self, items: Sequence[Item]) -> None:
        """Fit each copy to the items, if the model takes them."""
        from medvqa.backends.ray import parcels

        if self._pool is not None and parcels.fits(self.inner):
            self._pool.fit(items)

    def prepare(self, prompts: Sequence[Prompt]) -> None:
        """Do nothing: a copy prepares the batch that waits there."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Return the answers of a copy; BatchLost if its process or node is lost."""
        from medvqa.backends.ray import parcels

        if self._pool is None:
            raise RuntimeError(f"model '{self.title}' is asked before load()")
        try:
            return self._pool.ask(prompts, parcels.packed(prompts, looks=self.inner.looks))
        except BatchLost as lost:
            if lost.suspect:
                self._pool.mark(prompts)
            raise

    def status(self) -> Mapping[str, Any]:
        """Return the copies, their nodes, restarts and rate."""
        return {} if self._pool is None else self._pool.status()

    def close(self) -> None:
        """End the copies, and the cluster if it was started for the run."""
        pool, cluster = self._opening, self._cluster
        self._opening = self._cluster = None
        if pool is not None:
            pool.close()
        if cluster is not None:
            cluster.close()
