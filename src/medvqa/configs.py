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
from typing import Any

import msgspec

from medvqa import answers
from medvqa.items import BackendFactory, Model, UsageError

UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A named model: which backend runs it, with which argument. All but `name` are the fields of a TOML file.

    `techniques` are those by which it is asked where the user names none; () leaves that to the plugin.
    """

    name: str
    backend: str
    argument: str = ""
    description: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    techniques: tuple[str, ...] = ()


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
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
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
