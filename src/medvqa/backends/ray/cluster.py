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
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from math import floor
from typing import Any
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

Amounts = Mapping[str, float]
"""Amounts of resources, by Ray's names."""


class Cluster:
    """This process's connection to Ray. Several pools of a process share one."""

    _users = 0
    _started = False
    _lock = threading.Lock()

    def __init__(self, address: str) -> None:
        """Connect to HOST:PORT or "auto", or start a local cluster if `address` is empty (UsageError)."""
        self.address = address
        self._open = False
        with Cluster._lock:
            _set_environment(local=not address)
            import ray

            if not ray.is_initialized():
                _connect(address)
                Cluster._started = True
            Cluster._users += 1
            self._open = True

    def close(self) -> None:
        """Disconnect, and end a local cluster, unless another pool or the user's own code has it."""
        import ray

        with Cluster._lock:
            if not self._open:
                return
            self._open = False
            Cluster._users -= 1
            if Cluster._users == 0 and Cluster._started:
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
                return not _answers(living["NodeManagerAddress"], living["NodeManagerPort"])
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
    """Raise UsageError if nothing answers at an address."""
    where = _location(address) if address else ""
    if not where:
        return
    error = reaching.refusal(f"tcp://{where}", seconds=CONNECTING / 4)
    if error is not None:
        raise UsageError(
            f"ray: no cluster answers at {printing.line(where)} ({reaching.reason(error)}); start one by `ray start "
            "--head`, or leave --ray-address out: a local one is then started for the run"
        )


def origin(address: str) -> str | None:
    """Return the cluster as the origin that gets prompts; None for a local cluster."""
    return f"ray://{address}" if address else None


def demand(resources: Mapping[str, float]) -> dict[str, float]:
    """Return the resources of a copy by Ray's names; one CPU if nothing else is said. UsageError for a near miss."""
    for name in resources:
        if (meant := f"{name.lower().removesuffix('s')}s") in _NAMES and name != meant:
            raise UsageError(f"ray: [resources] of the config: '{printing.line(name)}' is written {meant}")
    return {"CPU": 1.0} | {_NAMES.get(name, name): float(amount) for name, amount in resources.items()}


def actor_options(needs: Amounts) -> dict[str, Any]:
    """Return the arguments of `ray.remote` that ask for these resources."""
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {named[name]: needs[name] for name in named if name in needs}
    custom = {name: amount for name, amount in needs.items() if name not in named and amount}
    return {"num_gpus": 0, **options, **({"resources": custom} if custom else {})}


def room(there: Amounts, needs: Amounts) -> int:
    """Return how many copies fit into amounts of resources; at least one resource must be needed."""
    counts = [floor(there.get(name, 0.0) / amount + EXACT) for name, amount in needs.items() if amount]
    return max(min(counts), 0) if counts else 1


def shown(amounts: Amounts) -> str:
    """Return amounts for people, such as "CPU 8, GPU 1, memory 32.0 GB"; names of nodes are left out."""
    parts = []
    for name, amount in sorted(amounts.items()):
        if name.startswith(("node:", "object_store_memory", "accelerator_type:")):
            continue
        parts.append(f"memory {amount / 1e9:.1f} GB" if name == "memory" else f"{printing.line(name)} {amount:g}")
    return ", ".join(parts) or "nothing"


def none_fits(title: str, needs: Amounts, nodes: Sequence[Mapping[str, Any]]) -> UsageError:
    """Return the error for a copy that fits on no node: what is asked, and what each node has."""
    there = "; ".join(f"{node['NodeManagerAddress']} has {shown(node['Resources'])}" for node in nodes[:8])
    more = f"; and {len(nodes) - 8} more nodes" if len(nodes) > 8 else ""
    return UsageError(
        f"ray: a copy of '{title}' fits on no node: it takes {shown(needs)}, and {there or 'there is no node'}{more}. "
        "[resources] of its config sets what a copy takes"
    )


def _answers(host: str, port: int) -> bool:
    """Return whether a port of a node answers."""
    with suppress(OSError):
        socket.create_connection((host, port), PROBE).close()
        return True
    return False


def _connect(address: str) -> None:
    """Call `ray.init`, quietly and within a bounded time (UsageError)."""
    preflight(address)
    options: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "configure_logging": False,
    }
    if address:
        options["address"] = address
    else:
        options |= {"address": "local", "include_dashboard": False}
    with _quiet():
        _init(options, address)


def _set_environment(*, local: bool) -> None:
    """Set what Ray reads when it is imported: no telemetry, and a key for a local cluster."""
    if local:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        if "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:
            # A local cluster may listen on all interfaces: only this process and its actors have the key.
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}


def _location(address: str) -> str:
    """Return HOST:PORT of an address; "" if only Ray knows it."""
    known = os.environ.get("RAY_ADDRESS", "") if address == AUTO else address
    return known if known and "://" not in known and ":" in known else ""


def _init(options: dict[str, Any], address: str) -> None:
    """Call `ray.init`; in a thread for an address, where it may wait long for an answer (UsageError)."""
    import ray

    ended: list[BaseException | None] = []

    def init() -> None:
        try:
            ray.init(**options)
            ended.append(None)
        except BaseException as error:  # noqa: BLE001 - raised again below
            ended.append(error)

    if address:
        thread = threading.Thread(target=init, daemon=True, name="medvqa-ray")
        thread.start()
        thread.join(CONNECTING)
    else:
        # The processes of a local cluster end with the thread that started them.
        init()
    if not ended:
        place = "that Ray finds (--ray-address=auto)" if address == AUTO else f"at {printing.line(address)}"
        raise UsageError(
            f"ray: the cluster {place} does not answer within {CONNECTING:g} s; name a running one by "
            "--ray-address=HOST:PORT, or leave --ray-address out: a local one is then started for the run"
        )
    if (error := ended[0]) is not None:
        if not address:
            with suppress(Exception):
                ray.shutdown()
        if isinstance(error, KeyboardInterrupt):
            raise error
        if isinstance(error, SystemExit):
            # Ray's own handler of SIGTERM, which is there until `ray.init` returns.
            raise KeyboardInterrupt("ended by SIGTERM")
        line = printing.line(" ".join(answers.line_of(error).split()))[:500]
        where = printing.line(address) or "this machine"
        raise UsageError(f"ray: cannot use the cluster at {where}: {line}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray from handling signals and from printing the errors of nodes and actors on standard output."""
    import ray._private.worker as worker

    with ExitStack() as stack:
        if hasattr(worker, "listen_error_messages"):
            # It prints whatever `log_to_driver` says. The pool tells of lost actors itself.
            stack.enter_context(mock.patch.object(worker, "listen_error_messages", _ignore))
        main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGTERM)
        logger = logging.getLogger("ray")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)
            if main:
                signal.signal(signal.SIGTERM, handler)


def _ignore(*arguments: object) -> None:
    """Do nothing."""
