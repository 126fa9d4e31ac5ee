"""models/*.toml and what follows `--model=` -> ModelConfig -> Model.

A config is data: it names a backend, its argument, and what the backend lets one set. Its name is the file's
name without `.toml`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import msgspec

from medvqa import answers, files
from medvqa.items import (
    OPTION_TECHNIQUES,
    TECHNIQUES,
    BackendFactory,
    Benchmark,
    Model,
    Prompt,
    TokenLimits,
    UsageError,
)

MAX_BYTES = 2**16
"""Bytes of a config. Python's parser takes quadratic time for a key of many parts: ten seconds here at most."""

UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
DEFAULT_TOKENS = 512
"""The limit of new tokens where neither user, config nor benchmark names one: room for a short explanation."""

Limit = Annotated[int, msgspec.Meta(ge=0)]
"""New tokens of an answer; 0: no limit."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A named model: which backend runs it, with which argument. All but `name` are the fields of a TOML file.

    `techniques` are those by which it is asked where the user names none; () leaves that to the plugin. `max_tokens`
    holds the limits of new tokens by which owners of benchmarks ask this model: by name or group of the benchmark, one
    for all techniques or one for each.
    """

    name: str
    backend: str
    argument: str = ""
    description: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    techniques: tuple[str, ...] = ()
    max_tokens: Mapping[str, Limit | Mapping[str, Limit]] = field(default_factory=dict)


def resolve(spec: str, *, folders: Sequence[Path], backends: Mapping[str, BackendFactory]) -> ModelConfig:
    """Find what `--model=SPEC` names: a config of the folders (the first one wins), or `BACKEND[:ARGUMENT]`.

    Raises UsageError when there is no such config or backend, with what exists and what to type, and for a
    config that cannot be used.
    """
    backend, colon, argument = spec.partition(":")
    if colon:
        _check_backend(backend, backends, asked=f"--model={spec}")
        return ModelConfig(spec, backend, argument)
    # The name is looked up among the files that are there and never made into a path, so that it cannot
    # leave the folders.
    found = _files(folders)
    if spec in found:
        config = _read(found[spec])
        _check_backend(config.backend, backends, asked=str(found[spec]))
        config = _beside(found[spec], config, backends)
        arguments(config, backends, asked=str(found[spec]))
        return config
    if spec in backends:
        return ModelConfig(spec, spec)
    raise UsageError(
        f"no model {spec!r}; found: {_listing(found)}.{_suggestion(spec, [*found, *backends])} "
        f"Or name a backend ({_listing(backends)}): --model=BACKEND:ARGUMENT, such as --model=echo:A"
    )


def available(folders: Sequence[Path], backends: Mapping[str, BackendFactory] | None = None) -> list[ModelConfig]:
    """Return the configs of the folders, sorted by name; of two with one name, that of the earlier folder.

    Arguments are as written; with `backends`, a folder beside the file is named from the root, as by `resolve`.
    Raises UsageError for a config that cannot be used.
    """
    return [_beside(path, _read(path), backends or {}) for _, path in sorted(_files(folders).items())]


def arguments(config: ModelConfig, backends: Mapping[str, BackendFactory], *, asked: str = "") -> tuple[Any, ...]:
    """What the backend's factory, `check` and `service` are called with: the argument, and options if it has any.

    Raises UsageError, which begins with `asked` (the config's name if ""), for options that the backend does not have.
    """
    asked = asked or config.name
    kind = getattr(backends[config.backend], "Options", None)
    known = [] if kind is None else [field.name for field in fields(kind)]
    for name in config.options:
        if name not in known:
            raise UsageError(
                f"{asked}: backend {config.backend!r} has no option {name!r}; it has: {_listing(known)}."
                f"{_suggestion(name, known)}"
            )
    if kind is None:
        return (config.argument,)
    try:
        return config.argument, msgspec.convert(config.options, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{asked}: [options]: {error}") from None


def size(config: ModelConfig, backends: Mapping[str, BackendFactory]) -> int | None:
    """The bytes of the model's weights, None where they are not here or there are none. Nothing is loaded."""
    tell: Callable[..., int | None] = getattr(backends[config.backend], "size", lambda *_: None)
    return tell(*arguments(config, backends))


def token_limits(config: ModelConfig, backends: Mapping[str, BackendFactory]) -> TokenLimits | None:
    """How the backend limits answers in words, None where it takes no limit from a prompt."""
    tell = getattr(backends[config.backend], "token_limits", None)
    told: TokenLimits | None = tell(*arguments(config, backends)) if tell is not None else None
    return told


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


def build(config: ModelConfig, backends: Mapping[str, BackendFactory]) -> Model:
    """Make the model; UsageError when there is no such backend or when what it makes is no Model."""
    _check_backend(config.backend, backends, asked=config.name)
    model = backends[config.backend](*arguments(config, backends))
    missing = [name for name in ("name", "capabilities", "generate") if not hasattr(model, name)]
    if missing:
        raise UsageError(
            f"{config.name}: backend {config.backend!r} made a {type(model).__name__} "
            f"without {', '.join(missing)}; a model has name, capabilities and generate"
        )
    where = f"{config.name}: backend {config.backend!r} made a model"
    _check_text(where, model.name)
    _check_capabilities(where, model.capabilities)
    return model


def read_toml(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """The content of a TOML file; UsageError for what is none, OSError for what cannot be read or is too large."""
    try:
        return tomllib.loads(files.read(path, limit).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: not TOML: nested too deep") from None


def capabilities(config: ModelConfig, backends: Mapping[str, BackendFactory]) -> frozenset[str] | None:
    """What models of a backend can do, None where that is known once one was made (UsageError for wrong types)."""
    found = getattr(backends[config.backend], "capabilities", None)
    if found is None or hasattr(found, "__get__"):
        # A property, as the protocol has it.
        return None
    return _check_capabilities(f"{config.name}: backend {config.backend!r}", found)


def _check_capabilities(where: str, value: Any) -> frozenset[str]:
    kinds = (set, frozenset, list, tuple)
    if not isinstance(value, kinds):
        raise UsageError(
            f"{where}: capabilities is of type {type(value).__name__}; a set of texts "
            'is expected, such as {"generate"}'
        )
    for each in value:
        if not isinstance(each, str):
            raise UsageError(
                f"{where}: capabilities has a value of type {type(each).__name__}; a "
                'set of texts is expected, such as {"generate"}'
            )
    return frozenset(value)


def _check_text(where: str, value: object) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{where}: name is of type {type(value).__name__}; a text is expected")
    if not value:
        raise UsageError(f"{where}: name is an empty text; tables and records call the model by it")
    if not answers.is_unicode(value):
        raise UsageError(f"{where}: name has half a surrogate pair, which is no Unicode text")


def secrets(config: ModelConfig, backends: Mapping[str, BackendFactory]) -> frozenset[str]:
    """What must be in nothing that is kept or shown: the keys that the backend sends (UsageError for wrong types)."""
    tell: Callable[..., Iterable[str]] = getattr(backends[config.backend], "secrets", lambda *_: ())
    found = tell(*arguments(config, backends))
    if isinstance(found, str) or not all(isinstance(each, str) for each in found):
        raise UsageError(f"{config.name}: backend {config.backend!r}: secrets() gave no sequence of texts")
    return frozenset(found)


def _files(folders: Sequence[Path]) -> dict[str, Path]:
    return {path.stem: path for folder in reversed(folders) for path in folder.glob("*.toml")}


def _read(path: Path) -> ModelConfig:
    try:
        content = read_toml(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    known = [field.name for field in fields(ModelConfig) if field.name != "name"]
    for name in content:
        if name not in known:
            raise UsageError(f"{path}: unknown field {name!r}; known: {_listing(known)}.{_suggestion(name, known)}")
    try:
        return msgspec.convert({**content, "name": path.stem}, ModelConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; known fields: {_listing(known)}") from None


def _beside(path: Path, config: ModelConfig, backends: Mapping[str, BackendFactory]) -> ModelConfig:
    """The config with a folder that lies beside its file named from the root, so that it is found from anywhere."""
    folder = path.parent / config.argument
    if config.argument and getattr(backends.get(config.backend), "argument_is_path", False) and folder.is_dir():
        return replace(config, argument=str(folder.resolve()))
    return config


def path_name(config: ModelConfig, backends: Mapping[str, BackendFactory]) -> str | None:
    """The last part of an argument that names a file or folder here, None for any other: a slash makes no path."""
    if getattr(backends[config.backend], "argument_is_path", False) and os.path.exists(config.argument):
        return Path(config.argument).absolute().name
    return None


def _check_backend(name: str, backends: Mapping[str, BackendFactory], *, asked: str) -> None:
    if name not in backends:
        raise UsageError(f"{asked}: no backend {name!r}; found: {_listing(backends)}.{_suggestion(name, backends)}")


def _suggestion(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _listing(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
