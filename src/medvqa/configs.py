"""models/*.toml or the value of `--model` -> ModelConfig -> Backend.

A config is data: a backend, its argument and its options. The config's name is the file name without `.toml`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from medvqa import backend, decode
from medvqa.backend import Backend
from medvqa.decode import did_you_mean, shown
from medvqa.items import OPTION_TECHNIQUES, TECHNIQUES, Benchmark, Prompt, TokenLimits, UsageError
from medvqa.protocols.reasoning import INSTRUCTIONS

Backends = Mapping[str, type[Backend]]
"""The known backends, by name."""

DEFAULT_TOKENS = 512
"""The limit of new tokens if user, config and benchmark set none: room for a short explanation."""

Limit = Annotated[int, msgspec.Meta(ge=0)]
"""Most new tokens of an answer; 0: no limit."""

SERVER = "server"
"""The option that a backend has if a config may hold the table [server]."""

Resource = Annotated[float, msgspec.Meta(ge=0)]
"""An amount of a resource that one copy of a model takes."""

CHECKPOINT_FILES = ("config.json", "adapter_config.json")
"""Files that tell the folder of a checkpoint or of an adapter."""
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
"""A repository of the Hugging Face hub: ORG/NAME."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The table [server] of a config of backend `serve`: the server that is started for the time of a run.

    `command`: its words, or one text that is split as a shell does, with {model}, {port} and {gpus}; () for that of the
    engine in the argument. `ready`: the path that is answered once it can be asked, "" for the engine's own, else
    /v1/models. `wait`: seconds until it must be ready. `gpus`: GPUs of one server; each group gets a server.
    """

    command: str | tuple[str, ...] = ()
    ready: Annotated[str, msgspec.Meta(pattern=r"^(/[\x21-\x7e]*)?$")] = ""
    wait: Annotated[float, msgspec.Meta(gt=0)] = 1800
    gpus: Annotated[int, msgspec.Meta(ge=1)] = 1


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A named model: its backend, argument and settings. All fields but `name` and `inner` are keys of a TOML file.

    `techniques` are the default techniques; () leaves the choice to the plugin. `max_tokens` holds the limits of new
    tokens of the benchmarks' owners for this model, by name or group of the benchmark: one limit, or one per
    technique. `prompts` names the prompt of a benchmark or group, by which this model is asked without --prompt.
    `resources` are those of one copy in a cluster (`medvqa.Backend.resources`). `server` is the server that backend
    `serve` starts.
    `inner` is the config named by the argument, if the backend wraps a model; its settings are defaults.
    """

    name: str
    backend: str
    argument: str = ""
    description: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    techniques: tuple[str, ...] = ()
    max_tokens: Mapping[str, Limit | Mapping[str, Limit]] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Resource] = field(default_factory=dict)
    server: ServerConfig | None = None
    inner: ModelConfig | None = None


def resolve(spec: str, *, folders: Sequence[Path], backends: Backends) -> ModelConfig:
    """Return the config for `--model=SPEC`: a file in the folders (the first folder wins), or `BACKEND[:ARGUMENT]`.

    Raises UsageError for an unknown config or backend, with a list of the known ones, and for an invalid config.
    """
    return _resolve(spec, folders, backends, ())


def _resolve(spec: str, folders: Sequence[Path], backends: Backends, outer: tuple[str, ...]) -> ModelConfig:
    """Resolve a spec; `outer` are the specs of the models that wrap it."""
    if spec in outer:
        raise UsageError(f"--model={outer[0]}: '{spec}' wraps itself")
    return _with_inner(_named(spec, folders, backends), folders, backends, (*outer, spec))


def _with_inner(
    config: ModelConfig, folders: Sequence[Path], backends: Backends, outer: tuple[str, ...]
) -> ModelConfig:
    """Add the inner config, named by the argument, if the backend wraps a model."""
    kind = backends.get(config.backend)
    if kind is None or not kind.wraps:
        return config
    if not config.argument:
        raise UsageError(f"{config.name}: '{config.backend}' wraps another model: --model={config.backend}:MODEL")
    inner = _resolve(config.argument, folders, backends, outer)
    techniques, max_tokens = config.techniques or inner.techniques, config.max_tokens or inner.max_tokens
    prompts = config.prompts or inner.prompts
    return replace(config, inner=inner, techniques=techniques, max_tokens=max_tokens, prompts=prompts)


def _named(spec: str, folders: Sequence[Path], backends: Backends) -> ModelConfig:
    kind, colon, argument = spec.partition(":")
    if argument.startswith("//"):
        raise UsageError(
            f"--model={spec}: an address; a server's model is named by a config of models/ with its base_url, see "
            "`medvqa help gpus-and-servers`"
        )
    if colon:
        _check_backend(kind, backends, where=f"--model={spec}")
        return ModelConfig(spec, kind, argument)
    # Look the name up among existing files; a path built from it could leave the folders.
    paths = _files(folders)
    if spec in paths:
        config = _read(paths[spec])
        _check_backend(config.backend, backends, where=str(paths[spec]))
        config = _with_absolute_argument(paths[spec], config, backends)
        _options(config, backends, where=str(paths[spec]))
        return config
    if spec in backends:
        return ModelConfig(spec, spec)
    meant = _meant(spec, paths)
    known = did_you_mean(spec, [*sorted(paths), *sorted(backends)], meant=meant and f"--model={meant}")
    if not meant and "/" in spec and not os.path.exists(os.path.expanduser(spec)):
        known += " There is no such file or folder, either."
    example = "" if meant else " A backend takes an argument: --model=BACKEND:ARGUMENT, such as --model=echo:A"
    raise UsageError(f"no model {shown(spec)}{known}{example}")


def _meant(spec: str, configs: Collection[str]) -> str:
    """Return the model that a path or a repository without its backend may mean; "" for none."""
    from medvqa.records.run_folder import RESULTS

    path = Path(os.path.expanduser(spec))
    if os.path.isdir(path):
        if (path / RESULTS).is_file():
            return f"replay:{path / RESULTS}"
        weights = any((path / name).is_file() for name in CHECKPOINT_FILES) or any(path.glob("*.safetensors"))
        return f"hf:{spec}" if weights else ""
    if os.path.isfile(path):
        if path.suffix == ".toml":
            return path.stem if path.stem in configs else ""
        return f"hf:{path.parent}" if path.suffix == ".safetensors" else f"replay:{path}"
    return f"hf:{spec}" if _REPOSITORY.fullmatch(spec) else ""


def available(folders: Sequence[Path], backends: Backends | None = None) -> list[ModelConfig]:
    """Return the configs in the folders, sorted by name; if two share a name, the one in the earlier folder.

    Arguments are as written; with `backends`, a folder beside the file becomes an absolute path, as by `resolve`.
    Raises UsageError for an invalid config.
    """
    paths = [path for _, path in sorted(_files(folders).items())]
    configs = [_with_absolute_argument(path, _read(path), backends or {}) for path in paths]
    return [_with_inner(config, folders, backends or {}, (config.name,)) for config in configs]


def make(config: ModelConfig, backends: Backends) -> Backend:
    """Create the backend of a config without loading a model; a wrapper gets the backend of its inner config.

    In an argument that may be a path, ~ is expanded. Raises UsageError for an unknown backend, a class that cannot run
    a model, and unknown options.
    """
    _check_backend(config.backend, backends, where=config.name)
    kind = backend.usable(backends[config.backend], config.name)
    inner = None if config.inner is None else make(config.inner, backends)
    argument = os.path.expanduser(config.argument) if kind.argument_is_path else config.argument
    model = kind(argument, _options(config, backends, where=config.name), inner)
    if config.resources:
        try:
            model.resources = config.resources  # type: ignore[misc]  # a subclass may declare a property
        except UsageError as error:
            raise UsageError(f"{config.name}: [resources]: {error}") from None
    return model


def config_of(model: Backend, name: str) -> ModelConfig:
    """The config that makes such a model: its backend, its argument, and the options that are no defaults."""
    kind, options = type(model), model.options
    defaults = None if kind.Options is None else kind.Options()
    changed = {
        field.name: msgspec.to_builtins(getattr(options, field.name))
        for field in (() if kind.Options is None else fields(kind.Options))
        if getattr(options, field.name) != getattr(defaults, field.name)
    }
    inner = None if not kind.wraps else config_of(model.inner, model.argument)
    resources = vars(model).get("resources", {})
    return ModelConfig(name, kind.name, model.argument, options=changed, resources=resources, inner=inner)


def with_options(config: ModelConfig, backend: str, options: Mapping[str, Any]) -> ModelConfig:
    """Return the config with further options of a wrapper, wherever that stands among the wrapped models."""
    inner = None if config.inner is None else with_options(config.inner, backend, options)
    own = {**config.options, **options} if config.backend == backend else config.options
    return replace(config, options=own, inner=inner)


def names(config: ModelConfig | None) -> list[str]:
    """Return the names of the backends of a config: its own, and those of the models that it wraps."""
    return [] if config is None else [config.backend, *names(config.inner)]


def as_judge(config: ModelConfig, backends: Backends) -> ModelConfig:
    """Return the config with options that suit a judge, also in its inner config; raises UsageError as `make`."""
    inner = None if config.inner is None else as_judge(config.inner, backends)
    return replace(config, options=make(config, backends).as_judge(config.options), inner=inner)


def _options(config: ModelConfig, backends: Backends, *, where: str) -> Any:
    """Convert [options] to the backend's Options, None if it declares none; UsageError, starting with `where`."""
    kind = backends[config.backend].Options
    where = f"{where}: backend {config.backend!r}"
    given = dict(config.options)
    if config.server is not None:
        if kind is None or SERVER not in (each.name for each in fields(kind)):
            raise UsageError(f'{where} starts no server: a config with the table [server] has backend = "serve"')
        given[SERVER] = msgspec.to_builtins(config.server)
    options = decode.converted(given, _NoOptions if kind is None else kind, where, table=("options",))
    return None if kind is None else options


@dataclass(frozen=True, slots=True)
class _NoOptions:
    """Options of a backend that has none."""


def prompt_of(config: ModelConfig, benchmark: Benchmark) -> tuple[str, ...]:
    """Return the prompt that the config names for a benchmark or its group; () if it names none."""
    names = (config.prompts.get(name) for name in (benchmark.name, benchmark.group))
    return tuple(name for name in names if name is not None)[:1]


def check_prompts(config: ModelConfig, benchmarks: Mapping[str, Benchmark]) -> None:
    """Raise UsageError for the prompt of an unknown benchmark."""
    _check_benchmarks(config.prompts, benchmarks, f"{config.name}: [prompts]")


def _check_benchmarks(names: Iterable[str], benchmarks: Mapping[str, Benchmark], where: str) -> None:
    known = sorted({*benchmarks, *(benchmark.group for benchmark in benchmarks.values() if benchmark.group)})
    for name in names:
        if name not in known:
            raise UsageError(f"{where}: no benchmark {shown(name)}{did_you_mean(name, known, 'known')}")


def check_token_limits(config: ModelConfig, limits: TokenLimits | None, benchmarks: Mapping[str, Benchmark]) -> None:
    """Raise UsageError for limits of unknown benchmarks or techniques, and for limits that the backend cannot keep."""
    text_techniques = [technique for technique in TECHNIQUES if technique not in OPTION_TECHNIQUES]
    if config.max_tokens and limits is None:
        raise UsageError(f"{config.name}: [max_tokens]: backend {config.backend!r} takes no limit")
    _check_benchmarks(config.max_tokens.keys() - BUDGETS, benchmarks, f"{config.name}: [max_tokens]")
    for name, limit in config.max_tokens.items():
        by_technique = limit if isinstance(limit, Mapping) else {text_techniques[0]: limit}
        for technique, number in by_technique.items():
            if technique not in text_techniques:
                raise UsageError(
                    f"{config.name}: [max_tokens]: no technique {technique!r}; those that write text: "
                    f"{', '.join(text_techniques)}"
                )
            check_token_limit(number, limits, f"{config.name}: [max_tokens]: {name} = {number}")


def check_token_limit(number: int, limits: TokenLimits | None, where: str) -> None:
    """Raise UsageError, starting with `where`, if the limit is 0 (none) but the backend needs one."""
    if number == 0 and limits is not None and limits.required:
        raise UsageError(f"{where}: a checkpoint without a limit may write for ever; set a number of 1 or more")


BUDGETS = frozenset(INSTRUCTIONS)
"""Names in [max_tokens] of limits that belong to a protocol, and to no benchmark."""


def token_budget(typed: int | None, config: ModelConfig, limits: TokenLimits, name: str, prompt: Prompt) -> int:
    """Return the limit of new tokens for a protocol with a limit of its own; 0: no limit.

    The first one set by: the user (`typed`), the config under the protocol's `name`; else the protocol's own
    (`prompt.max_tokens`), or the config's options if these allow more.
    """
    candidates = (typed, _for_technique(config.max_tokens.get(name), prompt.technique))
    chosen = next((number for number in candidates if number is not None), None)
    if chosen is not None:
        return chosen
    own = prompt.max_tokens or DEFAULT_TOKENS
    return limits.own if limits.configured and (limits.own == 0 or limits.own > own) else own


def token_limit(
    typed: int | None, config: ModelConfig, limits: TokenLimits, benchmark: Benchmark | None, prompt: Prompt
) -> int:
    """Return the limit of new tokens for a prompt, with or without a benchmark; 0: no limit.

    The first one set by: the user (`typed`), the config for this benchmark, the config's options, the benchmark;
    else `DEFAULT_TOKENS`.
    """
    names = () if benchmark is None else (benchmark.name, benchmark.group)
    candidates = (
        typed,
        *(_for_technique(config.max_tokens.get(name), prompt.technique) for name in names),
        limits.own if limits.configured else None,
        prompt.max_tokens,
    )
    return next((number for number in candidates if number is not None), DEFAULT_TOKENS)


def _for_technique(limit: int | Mapping[str, int] | None, technique: str) -> int | None:
    return limit.get(technique) if isinstance(limit, Mapping) else limit


PROJECT_KEYS = ("allowed_hosts", "gate")
"""Keys of [tool.medvqa] in pyproject.toml; others are refused, since a misspelt gate would pass unnoticed."""


def project_table(path: Path, limit: int = decode.MAX_BYTES) -> dict[str, Any]:
    """Return [tool.medvqa] of a pyproject.toml, {} without the table or the file.

    Raises UsageError for an unknown key or an unreadable file.
    """
    table: Any = decode.decode(path, dict[str, Any], limit=limit, missing=b"")
    for name in ("tool", "medvqa"):
        table = table.get(name, {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.medvqa is not a table: write [tool.medvqa], in single brackets")
    for name in table:
        if name not in PROJECT_KEYS:
            meant = decode.nearest(name, PROJECT_KEYS)
            hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(PROJECT_KEYS)}"
            raise UsageError(f"{path}: [tool.medvqa] has no key {shown(name)}; {hint}")
    return table


def _files(folders: Sequence[Path]) -> dict[str, Path]:
    return {path.stem: path for folder in reversed(folders) for path in folder.glob("*.toml")}


def _read(path: Path) -> ModelConfig:
    return decode.decode(path, ModelConfig, given={"name": path.stem, "inner": None})


def _with_absolute_argument(path: Path, config: ModelConfig, backends: Backends) -> ModelConfig:
    """Make the argument, and options with paths, absolute where they name a folder beside the config's file."""
    kind = backends.get(config.backend)
    if kind is None or not kind.argument_is_path:
        return config
    known = () if kind.Options is None else fields(kind.Options)
    named = [option.name for option in known if option.metadata == backend.PATHS]
    options = {
        name: [_absolute(path, folder) for folder in value]
        for name, value in config.options.items()
        if name in named and isinstance(value, list)
    }
    return replace(config, argument=_absolute(path, config.argument), options={**config.options, **options})


def _absolute(path: Path, name: Any) -> Any:
    """Return the folder of this name beside a file as an absolute path; any other value as it is."""
    folder = path.parent / name if isinstance(name, str) and name else None
    return name if folder is None or not folder.is_dir() else str(folder.resolve())


def path_name(config: ModelConfig, model: Backend) -> str | None:
    """Return the last part of an argument that is an existing path; None for others, such as ORG/NAME."""
    path = os.path.expanduser(config.argument)
    if model.argument_is_path and os.path.exists(path):
        return Path(path).absolute().name
    return None


def _check_backend(name: str, backends: Backends, *, where: str) -> None:
    if name not in backends:
        raise UsageError(f"{where}: no backend {shown(name)}{did_you_mean(name, sorted(backends))}")
