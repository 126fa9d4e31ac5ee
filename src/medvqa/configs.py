"""models/*.toml and what follows `--model=` -> ModelConfig -> Backend.

A config is data: it names a backend, its argument, and what the backend lets one set. Its name is the file's
name without `.toml`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import msgspec

from medvqa import backend, files
from medvqa.backend import Backend
from medvqa.items import OPTION_TECHNIQUES, TECHNIQUES, Benchmark, Prompt, TokenLimits, UsageError

Backends = Mapping[str, type[Backend]]
"""The known ways of running a model, by name."""

MAX_BYTES = 2**16
"""Bytes of a config. Python's parser takes quadratic time for a key of many parts: ten seconds here at most."""

UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
DEFAULT_TOKENS = 512
"""The limit of new tokens where neither user, config nor benchmark names one: room for a short explanation."""

Limit = Annotated[int, msgspec.Meta(ge=0)]
"""New tokens of an answer; 0: no limit."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A named model: which backend runs it, with which argument. All but `name` and `inner` are fields of a TOML file.

    `techniques` are those by which it is asked where the user names none; () leaves that to the plugin. `max_tokens`
    holds the limits of new tokens by which owners of benchmarks ask this model: by name or group of the benchmark, one
    for all techniques or one for each. `inner` is the config that the argument names, if the backend wraps a model; it
    says what the other does not.
    """

    name: str
    backend: str
    argument: str = ""
    description: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    techniques: tuple[str, ...] = ()
    max_tokens: Mapping[str, Limit | Mapping[str, Limit]] = field(default_factory=dict)
    inner: ModelConfig | None = None


def resolve(spec: str, *, folders: Sequence[Path], backends: Backends) -> ModelConfig:
    """Find what `--model=SPEC` names: a config of the folders (the first one wins), or `BACKEND[:ARGUMENT]`.

    Raises UsageError when there is no such config or backend, with what exists and what to type, and for a
    config that cannot be used.
    """
    return _resolve(spec, folders, backends, ())


def _resolve(spec: str, folders: Sequence[Path], backends: Backends, outer: tuple[str, ...]) -> ModelConfig:
    """The config of a spec; `outer` are the specs of the models that wrap it."""
    if spec in outer:
        raise UsageError(f"--model={outer[0]}: '{spec}' wraps itself")
    return _with_inner(_named(spec, folders, backends), folders, backends, (*outer, spec))


def _with_inner(
    config: ModelConfig, folders: Sequence[Path], backends: Backends, outer: tuple[str, ...]
) -> ModelConfig:
    """The config with that of the model which its argument names, if its backend wraps one."""
    kind = backends.get(config.backend)
    if kind is None or not kind.wraps:
        return config
    if not config.argument:
        raise UsageError(f"{config.name}: '{config.backend}' wraps another model: --model={config.backend}:MODEL")
    inner = _resolve(config.argument, folders, backends, outer)
    techniques, max_tokens = config.techniques or inner.techniques, config.max_tokens or inner.max_tokens
    return replace(config, inner=inner, techniques=techniques, max_tokens=max_tokens)


def _named(spec: str, folders: Sequence[Path], backends: Backends) -> ModelConfig:
    kind, colon, argument = spec.partition(":")
    if colon:
        _check_backend(kind, backends, asked=f"--model={spec}")
        return ModelConfig(spec, kind, argument)
    # The name is looked up among the files that are there and never made into a path, so that it cannot
    # leave the folders.
    found = _files(folders)
    if spec in found:
        config = _read(found[spec])
        _check_backend(config.backend, backends, asked=str(found[spec]))
        config = _beside(found[spec], config, backends)
        _options(config, backends, asked=str(found[spec]))
        return config
    if spec in backends:
        return ModelConfig(spec, spec)
    raise UsageError(
        f"no model {spec!r}; found: {_listing(found)}.{_suggestion(spec, [*found, *backends])} "
        f"Or name a backend ({_listing(backends)}): --model=BACKEND:ARGUMENT, such as --model=echo:A"
    )


def available(folders: Sequence[Path], backends: Backends | None = None) -> list[ModelConfig]:
    """Return the configs of the folders, sorted by name; of two with one name, that of the earlier folder.

    Arguments are as written; with `backends`, a folder beside the file is named from the root, as by `resolve`.
    Raises UsageError for a config that cannot be used.
    """
    written = [_beside(path, _read(path), backends or {}) for _, path in sorted(_files(folders).items())]
    return [_with_inner(config, folders, backends or {}, (config.name,)) for config in written]


def make(config: ModelConfig, backends: Backends) -> Backend:
    """Make the backend of a config, which is cheap: nothing is loaded. A wrapper gets the backend of its inner config.

    In an argument that may be a path, ~ is the home folder.
    UsageError if there is no such backend, if its class cannot run a model, and for options that it does not have.
    """
    _check_backend(config.backend, backends, asked=config.name)
    kind = backend.usable(backends[config.backend], config.name)
    inner = None if config.inner is None else make(config.inner, backends)
    argument = os.path.expanduser(config.argument) if kind.argument_is_path else config.argument
    return kind(argument, _options(config, backends, asked=config.name), inner)


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
    return ModelConfig(name, kind.name, model.argument, options=changed, inner=inner)


def as_judge(config: ModelConfig, backends: Backends) -> ModelConfig:
    """Return the config with the options that suit a judge, its inner config as well (UsageError)."""
    inner = None if config.inner is None else as_judge(config.inner, backends)
    return replace(config, options=make(config, backends).as_judge(config.options), inner=inner)


def _options(config: ModelConfig, backends: Backends, *, asked: str) -> Any:
    """The table [options] as the backend declares it, None if it has none (UsageError, which begins with `asked`)."""
    kind = backends[config.backend].Options
    known = [] if kind is None else [field.name for field in fields(kind)]
    for name in config.options:
        if name not in known:
            raise UsageError(
                f"{asked}: backend {config.backend!r} has no option {name!r}; it has: {_listing(known)}."
                f"{_suggestion(name, known)}"
            )
    if kind is None:
        return None
    try:
        return msgspec.convert(config.options, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{asked}: [options]: {error}") from None


def check_token_limits(config: ModelConfig, limits: TokenLimits | None, benchmarks: Mapping[str, Benchmark]) -> None:
    """UsageError for limits of a config that name no benchmark or technique, or that the backend cannot keep."""
    names = {*benchmarks, *(benchmark.group for benchmark in benchmarks.values() if benchmark.group)}
    writing = [technique for technique in TECHNIQUES if technique not in OPTION_TECHNIQUES]
    if config.max_tokens and limits is None:
        raise UsageError(f"{config.name}: [max_tokens]: backend {config.backend!r} takes no limit")
    for name, said in config.max_tokens.items():
        if name not in names:
            raise UsageError(
                f"{config.name}: [max_tokens]: no benchmark {name!r}; known: {_listing(names)}."
                f"{_suggestion(name, names)}"
            )
        by_technique = said if isinstance(said, Mapping) else {writing[0]: said}
        for technique, number in by_technique.items():
            if technique not in writing:
                raise UsageError(
                    f"{config.name}: [max_tokens]: no technique {technique!r}; those that write text: "
                    f"{', '.join(writing)}"
                )
            check_token_limit(number, limits, f"{config.name}: [max_tokens]: {name} = {number}")


def check_token_limit(number: int, limits: TokenLimits | None, asked: str) -> None:
    """UsageError, which begins with `asked`, for no limit (0) where the backend needs one."""
    if number == 0 and limits is not None and limits.required:
        raise UsageError(f"{asked}: a checkpoint needs a limit, lest it writes for ever; name a number")


def token_limit(
    typed: int | None, config: ModelConfig, limits: TokenLimits, benchmark: Benchmark | None, prompt: Prompt
) -> int:
    """The limit of new tokens of an answer to a prompt of a benchmark, or of none; 0: no limit.

    The first that is named: by the user (`typed`), by the config for the benchmark, by the config's options, by the
    benchmark; else `DEFAULT_TOKENS`.
    """
    names = () if benchmark is None else (benchmark.name, benchmark.group)
    named = (
        typed,
        *(_for_technique(config.max_tokens.get(name), prompt.technique) for name in names),
        limits.own if limits.configured else None,
        prompt.max_tokens,
    )
    return next((number for number in named if number is not None), DEFAULT_TOKENS)


def _for_technique(said: int | Mapping[str, int] | None, technique: str) -> int | None:
    return said.get(technique) if isinstance(said, Mapping) else said


def in_units(count: int | None) -> str:
    """Bytes in decimal units, as memory and downloads are sold; a dash where unknown."""
    if count is None:
        return "–"
    unit, factor = next(((unit, factor) for unit, factor in UNITS if count >= factor), UNITS[-1])
    return f"{count / factor:.1f} {unit}"


def read_toml(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """The content of a TOML file; UsageError for what is none, OSError for what cannot be read or is too large."""
    try:
        return tomllib.loads(files.read(path, limit).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: not TOML: nested too deep") from None


PROJECT_KEYS = ("allowed_hosts", "gate")
"""What [tool.medvqa] of a pyproject.toml may hold: a gate or a list whose name is misspelt would be none."""


def project_table(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """[tool.medvqa] of a pyproject.toml, {} where there is none or no file.

    UsageError for a key that there is not, and for a file that cannot be read.
    """
    try:
        table: Any = read_toml(path, limit)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    for name in ("tool", "medvqa"):
        table = table.get(name, {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        return {}
    for name in table:
        if name not in PROJECT_KEYS:
            close = get_close_matches(name, PROJECT_KEYS, n=1)
            what = f"did you mean {close[0]}?" if close else f"there are: {', '.join(PROJECT_KEYS)}"
            raise UsageError(f"{path}: [tool.medvqa] has no key '{name}'; {what}")
    return table


def _files(folders: Sequence[Path]) -> dict[str, Path]:
    return {path.stem: path for folder in reversed(folders) for path in folder.glob("*.toml")}


def _read(path: Path) -> ModelConfig:
    try:
        content = read_toml(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    known = [field.name for field in fields(ModelConfig) if field.name not in ("name", "inner")]
    for name in content:
        if name not in known:
            raise UsageError(f"{path}: unknown field {name!r}; known: {_listing(known)}.{_suggestion(name, known)}")
    try:
        return msgspec.convert({**content, "name": path.stem}, ModelConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; known fields: {_listing(known)}") from None


def _beside(path: Path, config: ModelConfig, backends: Backends) -> ModelConfig:
    """The config with a folder that lies beside its file named from the root, so that it is found from anywhere."""
    folder = path.parent / config.argument
    kind = backends.get(config.backend)
    if config.argument and kind is not None and kind.argument_is_path and folder.is_dir():
        return replace(config, argument=str(folder.resolve()))
    return config


def path_name(config: ModelConfig, model: Backend) -> str | None:
    """The last part of an argument that names a file or folder here, None for any other: a slash makes no path."""
    path = os.path.expanduser(config.argument)
    if model.argument_is_path and os.path.exists(path):
        return Path(path).absolute().name
    return None


def _check_backend(name: str, backends: Backends, *, asked: str) -> None:
    if name not in backends:
        raise UsageError(f"{asked}: no backend {name!r}; found: {_listing(backends)}.{_suggestion(name, backends)}")


def _suggestion(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _listing(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
