"""`serve:ENGINE:NAME`: servers of a model that are started for a run, asked as by the backend `openai`, and ended.

Needs the extra `openai`, and the program of the server. One server runs on each group of GPUs. They listen on this
machine alone, and what reaches them are the prompts of the run.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from medvqa.backends.hf import checkpoint
from medvqa.backends.openai import OpenAI
from medvqa.backends.openai.addresses import ServerAddress
from medvqa.backends.openai.server_options import OpenAIOptions
from medvqa.backends.serve.engine_commands import HOST, ServerCommand, command_of, program
from medvqa.backends.serve.running import RunningServers, groups_of, visible_gpus
from medvqa.configs import ServerConfig
from medvqa.items import DataError, UsageError

__all__ = ["Serve", "ServeOptions"]


@dataclass(frozen=True, kw_only=True)
class ServeOptions(OpenAIOptions):
    """The table [options] of a config: those of `openai`, without an address and a key.

    `server` is the table [server] of the config.
    """

    server: ServerConfig = field(default_factory=ServerConfig)

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other."""
        super().__post_init__()
        if self.base_url or self.key_env:
            raise ValueError("`base_url` and `key_env` belong to backend 'openai': this server is started for the run")


class Serve(OpenAI):
    """`serve:ENGINE:NAME`, or a config with a table [server]: the model of that name on servers of this run.

    `start` starts them in the process that conducts the run, and `join` tells their addresses to those that ask. A
    model that is loaded without that starts servers of its own, which `close` ends.
    """

    Options = ServeOptions
    options: ServeOptions
    argument_is_path = True
    _key = cached_property(lambda self: secrets.token_hex(16))
    _own: RunningServers | None = None
    """Servers that `load` started, and the folder of their logs."""
    _own_folder = ""
    _joined: tuple[str, ...] = ()
    """The URLs of the servers, once they are known."""

    @cached_property
    def _command(self) -> ServerCommand:
        return command_of(self.argument, self.options.server)

    @cached_property
    def _groups(self) -> list[str | None]:
        return groups_of(visible_gpus(), self.options.server.gpus)

    @property
    def _addresses(self) -> tuple[ServerAddress, ...]:  # type: ignore[override]
        """The servers' addresses; before their start, as many without a port."""
        urls = self._joined or (f"http://{HOST}/v1",) * max(len(self._groups), 1)
        return tuple(ServerAddress(url, url.removesuffix("/v1"), remote=False) for url in urls)

    @property
    def _model(self) -> str:
        return self._command.model

    @property
    def sends_to(self) -> str:
        """This machine: the port is chosen at the start."""
        return f"http://{HOST}"

    def check(self) -> None:
        """Raise UsageError for an unknown engine, a wrong command, and a package, program or GPU that is missing."""
        where = f"--model=serve:{self.argument}"
        name = self._command.words[0]
        if find_spec("openai") is None:
            raise UsageError(f"{where} needs a package: pip install 'pytest-medvqa[openai]'")
        if program(name) is None:
            raise UsageError(
                f"{where}: no program {name!r} is on PATH or beside {Path(sys.executable).name}; install it, or name "
                "its path in the command of a config's table [server]"
            )
        if not self._groups:
            raise UsageError(
                f"{where}: a server takes {self.options.server.gpus} GPUs ([server] gpus), and here are "
                f"{len(visible_gpus())}"
            )

    def preflight(self) -> None:
        """Do nothing: the server is not there before the run."""

    def start(self, folder: Path) -> RunningServers:
        """Start the servers, with logs in the folder `servers` of a run folder (UsageError, OSError)."""
        self.check()
        server = self.options.server
        started = RunningServers(self._command, self._groups, server.gpus, server.wait, title=self.title)
        try:
            started.start(folder, self._key)
        except BaseException:
            started.close()
            raise
        return started

    def join(self, told: Mapping[str, Any]) -> None:
        """Ask the servers that the run has started."""
        self._joined, self._key = tuple(told["urls"]), told["key"]

    def load(self) -> None:
        """Prepare the clients; start servers if the run has started none (UsageError)."""
        if not self._joined:
            self._own_folder = tempfile.mkdtemp(prefix="medvqa-server-")
            self._own = self.start(Path(self._own_folder))
            try:
                self._own.wait(lambda line: None)
            except BaseException:
                self.close()
                raise
            self.join(self._own.told)
        _ = self._weights
        super().load()

    def close(self) -> None:
        """Close the connections, and end the servers that `load` started."""
        super().close()
        if self._own is not None:
            self._own.close()
            self._own, self._joined = None, ()
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def about(self) -> dict[str, Any]:
        """The command, the number of servers, their weights and options; no port and no key."""
        return {
            "command": list(self._command.words),
            "servers": len(self._addresses),
            "weights": self._weights,
            "options": asdict(self.options),
            "deviations": self.options.deviations(),
        }

    @cached_property
    def _weights(self) -> Mapping[str, str] | None:
        """What identifies the weights: a declared revision, digests of a folder, a commit of the hub; None: nothing."""
        if self.options.revision:
            return {"revision": self.options.revision}
        if (local := checkpoint.local(self._model)) is not None:
            try:
                return local.digests(code=True)
            except (UsageError, DataError, OSError):
                return None
        # Of the user's own command it is not known where it takes weights from.
        commit = _cached_commit(self._model) if self._command.shipped else None
        return None if commit is None else {"commit": commit}

    @property
    def _revision(self) -> str:
        """A digest of the weights' identity and of the command without port and GPUs; "" for unknown weights."""
        if self._weights is None:
            return ""
        what = msgspec.json.encode((self._weights, self._command.words), order="sorted")
        return hashlib.sha256(what).hexdigest()

    def _where(self) -> str:
        """The part of the fingerprint that names the server: its port says nothing."""
        return "served"

    def identified(self) -> str | None:
        """Name the evidence: the declared revision, or the weights; None without any."""
        if self.options.revision:
            return super().identified()
        return (
            None
            if self._weights is None
            else "digests of its weights"
            if "commit" not in self._weights
            else "its commit"
        )


def _cached_commit(name: str) -> str | None:
    """Return the commit that the hub's cache holds as `main` of a repository, which its server has just loaded."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return None
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
    try:
        commit = (cache / f"models--{name.replace('/', '--')}" / "refs" / "main").read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return commit if re.fullmatch("[0-9a-f]{40}", commit) else None
