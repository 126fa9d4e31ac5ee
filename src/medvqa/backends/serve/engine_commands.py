"""The commands that start the servers of known engines, and the words of a command with its values filled in."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medvqa.configs import ServerConfig
from medvqa.decode import did_you_mean, shown
from medvqa.items import UsageError

HOST = "127.0.0.1"
READY = "/v1/models"
"""The path that a server of OpenAI's API answers once it can be asked."""
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")
"""Other braces, such as those of a JSON argument, stay as they are."""
_VALUES = ("model", "port", "gpus")


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """The command of an engine, and the path that answers once its server is ready."""

    command: tuple[str, ...]
    ready: str = "/health"


_WHERE = ("--host", HOST, "--port", "{port}")
ENGINES: Mapping[str, EngineCommand] = {
    # https://docs.vllm.ai/en/latest/cli/serve.html; its key is read from VLLM_API_KEY
    "vllm": EngineCommand(("vllm", "serve", "{model}", *_WHERE, "--tensor-parallel-size", "{gpus}")),
    # https://docs.sglang.io/advanced_features/server_arguments.html
    "sglang": EngineCommand(
        ("python", "-m", "sglang.launch_server", "--model-path", "{model}", *_WHERE, "--tensor-parallel-size", "{gpus}")
    ),
    # `transformers serve --help` of 5.23
    "transformers": EngineCommand(("transformers", "serve", "{model}", *_WHERE)),
}


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How to start a server of a model: its `words` with placeholders, and the path that tells when it is `ready`.

    `shipped`: it is the command of a known engine.
    """

    model: str
    words: tuple[str, ...]
    ready: str
    shipped: bool

    def filled(self, port: int, gpus: int) -> list[str]:
        """Return the words with the values of one server; the program as a path, if it is found."""
        values = {"model": self.model, "port": str(port), "gpus": str(gpus)}
        words = [_PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in self.words]
        return [program(words[0]) or words[0], *words[1:]]


def command_of(argument: str, server: ServerConfig) -> ServerCommand:
    """Return the command of a config's [server], else that of the engine in an argument ENGINE:NAME (UsageError)."""
    where = f"--model=serve:{argument}"
    if server.command:
        try:
            words = shlex.split(server.command) if isinstance(server.command, str) else server.command
        except ValueError as error:
            raise UsageError(f"{where}: [server]: command: {error}") from None
        _check(words, where)
        return ServerCommand(_expanded(argument), tuple(words), server.ready or READY, shipped=False)
    name, _, model = argument.partition(":")
    if not model:
        raise UsageError(
            f"{where}: type --model=serve:ENGINE:NAME, such as serve:vllm:ORG/NAME, or write a config with a table "
            "[server] that has a command"
        )
    if name not in ENGINES:
        raise UsageError(
            f"{where}: no engine {shown(name)}{did_you_mean(name, list(ENGINES))} Another server is started by the "
            "command in the table [server] of a config"
        )
    engine = ENGINES[name]
    return ServerCommand(_expanded(model), engine.command, server.ready or engine.ready, shipped=True)


def _expanded(model: str) -> str:
    return os.path.expanduser(model) if model.startswith("~") else model


def _check(words: tuple[str, ...] | list[str], where: str) -> None:
    named = [name for word in words for name in _PLACEHOLDER.findall(word)]
    for name in named:
        if name not in _VALUES:
            raise UsageError(f"{where}: [server]: command has {{{name}}}{did_you_mean(name, _VALUES)}")
    if "port" not in named:
        raise UsageError(
            f"{where}: [server]: command has no {{port}}: write it where the server takes its port, as each "
            "server of each run gets a free one"
        )
    if not words[0] or _PLACEHOLDER.search(words[0]):
        raise UsageError(f"{where}: [server]: command names no program first")


def program(name: str) -> str | None:
    """Return the path of a program: in the environment of this Python, else on PATH; None if it is in neither."""
    own = str(Path(sys.executable).parent)
    return shutil.which(name, path=os.pathsep.join([own, os.environ.get("PATH", os.defpath)]))
