"""A Ray cluster on this machine, in a network namespace with the loopback device alone.

Ray listens on all interfaces, which nobody else may reach: `RayCluster.start` starts a supervisor in namespaces of its
own, which starts the nodes there. Processes that use the cluster are started there too (`popen`). The folder of the
cluster is its HOME; nothing is left behind at the end, also if the process that started it is killed.
"""

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

NODES = 3
STORE = 80 * 1024**2
"""Bytes of the object store of a node; Ray takes no less than 75 MiB."""
PATIENCE = 90.0
"""Seconds for whatever takes a moment on an idle machine."""
QUIET: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "10",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
"""No telemetry and no reports, a key, no process killed because others of the machine use its memory."""


class NoNamespace(Exception):
    """This machine permits no network namespace."""


# --- for tests ----------------------------------------------------------------------------------------------


@dataclass
class RayCluster:
    """A running cluster. `address` is HOST:PORT within the namespace; `nodes` holds the pids of each node's raylet."""

    folder: Path
    environment: dict[str, str]
    supervisor: subprocess.Popen[str]
    address: str = ""
    nodes: list[int] = field(default_factory=list)

    @classmethod
    def start(cls, nodes: Sequence[Mapping[str, Any]] = ({"num_cpus": 1},) * NODES) -> "RayCluster":
        """Start a cluster; `nodes` are arguments of `ray.cluster_utils.Cluster.add_node` (NoNamespace)."""
        command = [*_unshared(), sys.executable, str(Path(__file__).resolve())]
        # Paths of sockets have 107 bytes at most.
        folder = Path(tempfile.mkdtemp(prefix="mv", dir="/tmp"))
        for name in ("home", "ray"):
            folder.joinpath(name).mkdir()
        alone = ("PYTEST_", "MEDVQA_", "RAY_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(alone)}
        environment |= QUIET | {
            "HOME": str(folder / "home"),
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_TMPDIR": str(folder),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]),
        }
        supervisor = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "supervisor.err").open("w"),
            text=True,
            start_new_session=True,
        )
        cluster = cls(folder, environment, supervisor)
        try:
            for node in nodes:
                cluster.add_node(**node)
            cluster._tell("wait", {})
        except BaseException:
            cluster.close()
            raise
        return cluster

    def add_node(self, **arguments: Any) -> int:
        """Add a node and return the pid of its raylet."""
        told = self._tell("add", arguments)
        self.address = told["address"]
        self.nodes.append(told["raylet"])
        return self.nodes[-1]

    def kill_node(self, raylet: int) -> None:
        """Kill the processes of a node, and its workers, as a power cut would."""
        self._tell("kill", {"raylet": raylet})
        self.nodes.remove(raylet)

    def popen(self, command: Sequence[str], **how: Any) -> subprocess.Popen[Any]:
        """`subprocess.Popen` within the namespace and environment of the cluster; `environment` is added to the latter.

        The pid is that of the command itself, which ends with the cluster at the latest.
        """
        within = ["nsenter", "--preserve-credentials", "-U", "-n", "-t", str(self.supervisor.pid), "--"]
        environment = self.environment | how.pop("environment", {})
        return subprocess.Popen([*within, *command], env=environment, start_new_session=True, **how)

    def run(self, command: Sequence[str], **how: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, and return what it printed."""
        with self.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how) as process:
            try:
                output, errors = process.communicate(timeout=PATIENCE)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def processes(self) -> dict[int, str]:
        """Return the command lines of all processes in the namespace, by pid."""
        return namespaced(self.supervisor.pid)

    def actors(self) -> list[int]:
        """Return the pids of the actors that hold a copy of a model."""
        return [pid for pid, command in self.processes().items() if command.startswith("ray::ModelActor")]

    def close(self) -> None:
        """End all processes and delete the folder; AssertionError if a process is left."""
        inode = _namespace(self.supervisor.pid)
        with suppress(BrokenPipeError):
            self.supervisor.stdin.close()  # type: ignore[union-attr]
        try:
            self.supervisor.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.supervisor.kill()
            self.supervisor.wait()
        left = _of(inode) if inode is not None and inode != _namespace(os.getpid()) else {}
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for stream in (self.supervisor.stdin, self.supervisor.stdout):
            stream.close()  # type: ignore[union-attr]
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not left, f"left behind: {left}"
        assert not self.folder.exists(), f"left behind: {self.folder}"

    def _tell(self, what: str, arguments: Mapping[str, Any]) -> Any:
        commands, replies = self.supervisor.stdin, self.supervisor.stdout
        assert commands is not None
        assert replies is not None
        with suppress(BrokenPipeError):
            commands.write(json.dumps([what, arguments]) + "\n")
            commands.flush()
        line = replies.readline()
        if not line:
            errors = (self.folder / "supervisor.err").read_text()[-4000:]
            raise RuntimeError(f"the supervisor of the cluster ended: {errors}")
        return json.loads(line)


@contextmanager
def cluster(*nodes: Mapping[str, Any]) -> Iterator[RayCluster]:
    """A cluster for a `with` block; three nodes of a CPU each unless said otherwise (NoNamespace)."""
    started = RayCluster.start(nodes) if nodes else RayCluster.start()
    try:
        yield started
    finally:
        started.close()


def wait_until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Wait until a condition holds and return its value; AssertionError, which names it, if it never does."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
    return value


def _unshared() -> list[str]:
    """Return the beginning of a command that runs in a network namespace of its own (NoNamespace)."""
    command = ["unshare", "--map-root-user", "--net", "--"]
    for tool in ("unshare", "nsenter"):
        if shutil.which(tool) is None:
            raise NoNamespace(f"needs {tool} (util-linux)")
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise NoNamespace(f"this machine permits no network namespace: {tried.stderr.strip()}")
    return command


def namespaced(pid: int) -> dict[int, str]:
    """Return the command lines of all processes in the network namespace of a process, by pid."""
    inode = _namespace(pid)
    return {} if inode is None else _of(inode)


def _of(inode: int) -> dict[int, str]:
    commands = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and _namespace(int(folder.name)) == inode:
            with suppress(OSError):
                if command := folder.joinpath("cmdline").read_bytes():
                    commands[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return commands


def _namespace(pid: int) -> int | None:
    """Return the inode of a process's network namespace; None if it has ended, or belongs to others."""
    with suppress(OSError):
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    return None


# --- the supervisor, within the namespaces --------------------------------------------------------------------


def supervise(commands: TextIO, replies: TextIO) -> None:
    """Start nodes and kill them on request, until the commands end; then end every process of the namespace."""
    _raise_loopback()
    from ray import cluster_utils
    from ray._private import ray_constants

    made = cluster_utils.Cluster(shutdown_at_exit=False)
    nodes = {}
    try:
        for line in commands:
            what, arguments = json.loads(line)
            told: dict[str, Any] = {}
            if what == "add":
                head = {"include_dashboard": False, "include_log_monitor": False} if made.head_node is None else {}
                folder = os.environ["RAY_TMPDIR"]
                # Later nodes start at the same time; a run takes those that are there.
                wait = made.head_node is None
                arguments = {"object_store_memory": STORE, "temp_dir": f"{folder}/ray"} | head | arguments
                node = made.add_node(wait=wait, **arguments)
                (raylet,) = node.all_processes[ray_constants.PROCESS_TYPE_RAYLET]
                nodes[raylet.process.pid] = node
                told = {"address": made.address, "raylet": raylet.process.pid}
            elif what == "wait":
                made.wait_for_nodes()
            elif what == "kill":
                made.remove_node(nodes.pop(arguments["raylet"]), allow_graceful=False)
            print(json.dumps(told), file=replies, flush=True)
    finally:
        _end_all()
    shutil.rmtree(os.environ["RAY_TMPDIR"], ignore_errors=True)


def _end_all() -> None:
    """Kill every other process of this namespace, and wait until they are gone."""
    inode = _namespace(os.getpid())
    assert inode is not None
    end = time.monotonic() + PATIENCE / 2
    while (left := {pid: command for pid, command in _of(inode).items() if pid != os.getpid()}) and (
        time.monotonic() < end
    ):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


def _raise_loopback() -> None:
    """Do what `ip link set lo up` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(control, 0x8914, request)  # SIOCSIFFLAGS


if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints
    supervise(sys.stdin, channel)
