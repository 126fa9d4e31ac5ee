"""The connection of this process to a Ray cluster, and the room on its nodes."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from math import floor
from typing import Any, ClassVar
from unittest import mock

from medvqa import answers, printing
from medvqa.backends import reaching
from medvqa.items import UsageError

AUTO = "auto"
"""The address that means: the cluster that Ray finds, by RAY_ADDRESS or on this machine."""
CONNECTING = 10.0
"""Seconds within which a cluster must answer."""
PROBE = 2.0
"""Seconds within which a node must answer."""
EXACT = 1e-6
"""Ray counts resources in steps of 1/10,000; sums of floats are inexact."""
_NAMES: Mapping[str, str] = {"gpus": "GPU", "cpus": "CPU", "memory": "memory"}
"""Names of resources in configs, and Ray's own."""
_LOCAL = "leave --ray-address out: a local one is then started for the run"

Amounts = Mapping[str, float]
"""Amounts of resources, by Ray's names."""


class Cluster:
    """This process's connection to Ray. Several pools of a process share one."""

    _open: ClassVar[set[Cluster]] = set()
    _started: ClassVar[bool] = False
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, address: str) -> None:
        """Connect to HOST:PORT or "auto", or start a local cluster if `address` is empty (UsageError)."""
        with Cluster._lock:
            if not address:
                _set_up_local()
            import ray

            if not ray.is_initialized():
                _connect(address)
                Cluster._started = True
            Cluster._open.add(self)

    def close(self) -> None:
        """Disconnect, and end a local cluster, unless another pool or the user's own code has it."""
        import ray

        with Cluster._lock:
            Cluster._open.discard(self)
            if Cluster._started and not Cluster._open:
                Cluster._started = False
                ray.shutdown()

    def nodes(self) -> list[Mapping[str, Any]]:
        """Return the living nodes, as `ray.nodes()` describes them."""
        import ray

        return [node for node in ray.nodes() if node["Alive"]]

    def died(self, node: str) -> bool:
        """Return whether a node has died: Ray says so, or its raylet does not answer."""
        for living in self.nodes():
            if living["NodeID"] == node:
                with suppress(OSError):
                    socket.create_connection((living["NodeManagerAddress"], living["NodeManagerPort"]), PROBE).close()
                    return False
        return True


def check(address: str) -> None:
    """Raise UsageError if the package is missing, or for an address of another form."""
    if find_spec("ray") is None:
        raise UsageError("--model=ray:... needs a package: pip install 'pytest-medvqa[ray]'")
    if not address or address == AUTO:
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isascii() or not port.isdecimal() or not 0 < int(port[:9]) < 65536:
        raise UsageError(
            f"--ray-address={printing.line(address)}: type HOST:PORT, the address that `ray start --head` prints "
            f"(without a scheme such as ray://), or {AUTO}"
        )


def preflight(address: str) -> None:
    """Raise UsageError if nothing answers at an address. Of "auto", only Ray may know it."""
    where = os.environ.get("RAY_ADDRESS", "") if address == AUTO else address
    if "://" in where or ":" not in where:
        return
    error = reaching.refusal(f"tcp://{where}", seconds=CONNECTING / 4)
    if error is not None:
        raise UsageError(
            f"ray: no cluster answers at {printing.line(where)} ({reaching.reason(error)}); start one by `ray start "
            f"--head`, or {_LOCAL}"
        )


def demand(resources: Mapping[str, float]) -> dict[str, float]:
    """Return the resources of a copy by Ray's names; one CPU if nothing else is said. UsageError for a near miss."""
    for name in resources:
        if (meant := f"{name.lower().removesuffix('s')}s") in _NAMES and name != meant:
            raise UsageError(f"ray: [resources] of the config: '{printing.line(name)}' is written {meant}")
    return {"CPU": 1.0} | {_NAMES.get(name, name): float(amount) for name, amount in resources.items()}


def actor_options(needs: Amounts) -> dict[str, Any]:
    """Return the arguments of `ray.remote` that ask for these resources."""
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {named[name]: amount for name, amount in needs.items() if name in named}
    custom = {name: amount for name, amount in needs.items() if name not in named and amount}
    return {"num_gpus": 0, "resources": custom} | options


def room(there: Amounts, needs: Amounts) -> int:
    """Return how many copies fit into amounts of resources; at least one resource must be needed."""
    counts = [floor(there.get(name, 0.0) / amount + EXACT) for name, amount in needs.items() if amount]
    return max(min(counts), 0) if counts else 1


def shown(amounts: Amounts) -> str:
    """Return amounts for people, such as "CPU 8, GPU 1, memory 32.0 GB"; names of nodes are left out."""
    hidden = ("node:", "object_store_memory", "accelerator_type:")
    parts = [
        f"memory {amount / 1e9:.1f} GB" if name == "memory" else f"{printing.line(name)} {amount:g}"
        for name, amount in sorted(amounts.items())
        if not name.startswith(hidden)
    ]
    return ", ".join(parts) or "nothing"


def none_fits(title: str, needs: Amounts, nodes: Sequence[Mapping[str, Any]]) -> UsageError:
    """Return the error for a copy that fits on no node: what is asked, and what each node has."""
    there = "; ".join(f"{node['NodeManagerAddress']} has {shown(node['Resources'])}" for node in nodes[:8])
    more = f"; and {len(nodes) - 8} more nodes" if len(nodes) > 8 else ""
    return UsageError(
        f"ray: a copy of '{title}' fits on no node: it takes {shown(needs)}, and {there or 'there is no node'}{more}. "
        "[resources] of its config sets what a copy takes"
    )


def _set_up_local() -> None:
    """Set what Ray reads when it is imported: no telemetry, and a key for a local cluster."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:
        # A local cluster may listen on all interfaces: only this process and its actors have the key.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}


def _connect(address: str) -> None:
    """Call `ray.init`, quietly and within a bounded time (UsageError)."""
    import ray

    preflight(address)
    options = {"address": address} if address else {"address": "local", "include_dashboard": False}
    ended: Future[None] = Future()

    def init() -> None:
        try:
            ray.init(**options, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
            ended.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised again below
            ended.set_exception(error)

    with _quiet():
        if address:
            # It may wait long for an answer.
            thread = threading.Thread(target=init, daemon=True, name="medvqa-ray")
            thread.start()
            thread.join(CONNECTING)
        else:
            # The processes of a local cluster end with the thread that started them.
            init()
    where = printing.line(address) or "this machine"
    if not ended.done():
        place = "that Ray finds (--ray-address=auto)" if address == AUTO else f"at {where}"
        raise UsageError(
            f"ray: the cluster {place} does not answer within {CONNECTING:g} s; name a running one by "
            f"--ray-address=HOST:PORT, or {_LOCAL}"
        )
    error = ended.exception()
    if error is None:
        return
    if not address:
        with suppress(Exception):
            ray.shutdown()
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, SystemExit):
        # Ray's own handler of SIGTERM, which is there until `ray.init` returns.
        raise KeyboardInterrupt("ended by SIGTERM")
    line = printing.line(" ".join(answers.line_of(error).split()))[:500]
    raise UsageError(f"ray: cannot use the cluster at {where}: {line}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray from handling signals and from printing the errors of nodes and actors on standard output."""
    import ray._private.worker as worker

    # It prints whatever `log_to_driver` says. The pool tells of lost actors itself.
    unheard = mock.patch.object(worker, "listen_error_messages", create=True)
    handler, logger = signal.getsignal(signal.SIGTERM), logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with unheard:
            yield
    finally:
        logger.setLevel(level)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
