"""A checkpoint with LoRA adapters over it: where each comes from, and how peft (extra `adapters`) applies them.

`hf:ADAPTER` names its base itself; option `adapters` names adapters over the checkpoint of the argument.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medvqa import printing
from medvqa.backends import adapters as lora
from medvqa.backends.adapters import Adapter
from medvqa.backends.hf import checkpoint
from medvqa.backends.hf.checkpoint import Checkpoint
from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.backends.weights import digest
from medvqa.items import UsageError

PROCESSORS = ("processor_config.json", "preprocessor_config.json")
"""Files of which a folder with a processor has one."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """A checkpoint and the adapters over it, in the order in which they are applied."""

    base: Checkpoint
    adapters: tuple[Adapter, ...] = ()

    @property
    def processor(self) -> Path:
        """The folder of the processor: the first adapter's that has one, else the base's."""
        folders = (adapter.folder for adapter in self.adapters)
        return next((folder for folder in folders if _has_processor(folder)), self.base.folder)

    def digests(self, *, code: bool = False) -> dict[str, str]:
        """SHA-256 (hex) by file: those of the base, and config, weights and processor of adapter N as `adapters/N/`."""
        digests = self.base.digests(code=code)
        for number, adapter in enumerate(self.adapters, 1):
            own = adapter.digests()
            if adapter.folder == self.processor:
                own |= _settings_of(adapter.folder, code)
            digests |= {f"adapters/{number}/{name}": value for name, value in own.items()}
        return digests


def check(argument: str, options: HFOptions) -> None:
    """Raise UsageError for problems of the base and the adapters that are visible without torch and network."""
    flag = f"--model=hf:{argument}"
    own = _local(argument)
    if own is None:
        checkpoint.check(argument, options)
    else:
        with _about_base(flag):
            checkpoint.check(*_base(own, options))
    for name in options.adapters:
        folder = checkpoint.local(name)
        if folder is not None:
            lora.read(folder.folder)
        elif not checkpoint.is_hub_name(name):
            raise UsageError(f"{flag}: `adapters` in the options: no such folder: {Path(name).absolute()}")
    if own is not None or options.adapters:
        _check_peft(flag)


def preflight(argument: str, options: HFOptions) -> None:
    """Raise UsageError if `obtain` would fail in every process; downloads at most the configs of adapters."""
    own = _local(argument) if checkpoint.local(argument) else _on_hub(argument, options)
    if own is not None:
        flag = f"--model=hf:{argument}"
        _check_peft(flag)
        with _about_base(flag):
            checkpoint.preflight(*_base(own, options))
    for name in options.adapters:
        if checkpoint.local(name) is None and _cached(name, _main(options)) is None:
            checkpoint.preflight(name, _main(options), lora.CONFIG)


def obtain(argument: str, options: HFOptions) -> Adapted:
    """The checkpoint and its adapters, downloaded from the hub if not cached. UsageError if one cannot be used."""
    flag = f"--model=hf:{argument}"
    base = checkpoint.download(argument, options)
    adapters: list[Adapter] = []
    if lora.is_adapter(base.folder):
        adapters.append(lora.read(base.folder))
        _check_peft(flag)
        with _about_base(flag):
            base = checkpoint.download(*_base(adapters[0], options))
    checkpoint.check_folder(base, options, flag)
    adapters += [lora.read(checkpoint.download(name, _main(options)).folder) for name in options.adapters]
    return Adapted(base, tuple(adapters))


def size(argument: str, options: HFOptions, *, gpu: bool) -> int | None:
    """Bytes of the weights once loaded, adapters in folders included; None if the base is on the hub."""
    own = _local(argument)
    base, of_base = (argument, options) if own is None else _base(own, options)
    loaded = checkpoint.size(base, of_base, gpu=gpu)
    folders = [checkpoint.local(name) for name in options.adapters]
    weights = [folder.folder / lora.WEIGHTS for folder in folders if folder is not None]
    if own is not None:
        weights.append(own.folder / lora.WEIGHTS)
    return None if loaded is None else loaded + sum(path.stat().st_size for path in weights)


def applied(model: Any, adapted: Adapted, options: HFOptions) -> Any:
    """The model with all weights of all adapters, merged if `merges`. UsageError if peft leaves a weight out."""
    if not adapted.adapters:
        return model
    if options.merge and _is_quantised(model):
        raise UsageError(
            "merge = true in the options, and the base is quantised: merged weights would be rounded to its few bits. "
            "Leave `merge` out, and the adapter is applied beside the base"
        )
    if len(adapted.adapters) > 1 and any(adapter.config.use_dora for adapter in adapted.adapters):
        raise UsageError("`adapters` in the options: one of them uses DoRA, which does not add up with others")
    import peft
    import safetensors

    names = [f"adapter_{number}" for number in range(len(adapted.adapters))]
    wrapped: Any = None
    for name, adapter in zip(names, adapted.adapters, strict=True):
        try:
            with warnings.catch_warnings(action="ignore"):
                config = peft.LoraConfig.from_pretrained(str(adapter.folder))
                config.inference_mode = True
                if wrapped is None:
                    wrapped = peft.PeftModel(model, config, adapter_name=name)
                else:
                    wrapped.add_adapter(name, config)
                _apply(wrapped, name, adapter)
        except (ValueError, RuntimeError, OSError, ImportError, LookupError, TypeError, AttributeError) as error:
            raise _not_applied(adapter, error) from error
        except (re.error, safetensors.SafetensorError) as error:
            raise _not_applied(adapter, error) from error
    if merges(model, options):
        return wrapped.merge_and_unload(adapter_names=names)
    wrapped.base_model.set_adapter(names, inference_mode=True)
    return wrapped.get_base_model()


def merges(model: Any, options: HFOptions) -> bool:
    """Whether adapters are merged into the weights of a loaded model."""
    return not _is_quantised(model) if options.merge is None else options.merge


def settings(model: Any, options: HFOptions) -> dict[str, Any]:
    """The effective settings, besides files, of a model with adapters."""
    import peft

    return {"peft": peft.__version__, "merged": merges(model, options)}


def _apply(wrapped: Any, name: str, adapter: Adapter) -> None:
    """Load an adapter's weights into its modules. UsageError if a weight or a module is left over."""
    import peft
    from safetensors.torch import load_file

    weights = load_file(adapter.folder / lora.WEIGHTS)
    result = peft.set_peft_model_state_dict(wrapped, weights, adapter_name=name)
    if result.unexpected_keys:
        weights = _renamed(wrapped.get_base_model(), weights)
        result = peft.set_peft_model_state_dict(wrapped, weights, adapter_name=name)
    left_out = [weight.replace(f".{name}", "") for weight in result.unexpected_keys]
    lora.check_applied(adapter, left_out, f"peft {peft.__version__}", f". {lora.ANOTHER_BASE}")
    empty = [weight.replace(f".{name}", "") for weight in result.missing_keys if f".{name}" in weight]
    if empty:
        raise UsageError(
            f"{adapter.folder / lora.CONFIG} changes {len(empty)} weights that {lora.WEIGHTS} does not hold, such as "
            f"{lora.shown(min(empty))}"
        )


def _renamed(model: Any, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights with the names that transformers now gives to modules of the base; older versions named some otherwise.

    transformers renames a checkpoint's weights by this table. peft uses it for some models only, not for Qwen2.5-VL.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    table = [entry for entry in get_model_conversion_mapping(model) if isinstance(entry, WeightRenaming)]
    return {
        lora.PREFIX + rename_source_key(name.removeprefix(lora.PREFIX), table, [])[0]: tensor
        for name, tensor in weights.items()
    }


def _not_applied(adapter: Adapter, error: Exception) -> UsageError:
    import peft

    reason = printing.clipped(str(error), 600)
    return UsageError(
        printing.line(
            f"{adapter.folder}: peft {peft.__version__} cannot apply the adapter: {type(error).__name__}: {reason}"
        )
    )


def _is_quantised(model: Any) -> bool:
    return getattr(model.config, "quantization_config", None) is not None


def _local(argument: str) -> Adapter | None:
    """The adapter in a folder; None for a checkpoint, and for a repository on the hub."""
    found = checkpoint.local(argument) if argument else None
    return lora.read(found.folder) if found is not None and lora.is_adapter(found.folder) else None


def _cached(argument: str, options: HFOptions) -> Adapter | None:
    """The adapter in the hub's cache; None if it is not there, or incomplete."""
    found = checkpoint.cached(argument, options)
    if found is None or not lora.is_adapter(found.folder) or not (found.folder / lora.WEIGHTS).is_file():
        return None
    return lora.read(found.folder)


def _on_hub(argument: str, options: HFOptions) -> Adapter | None:
    """An adapter on the hub, of which the weights may not be downloaded yet; None if the repository is a checkpoint.

    UsageError as for `preflight`.
    """
    if (found := _cached(argument, options)) is not None:
        return found
    try:
        checkpoint.preflight(argument, options)
    except checkpoint.LacksFileError as error:
        try:
            checkpoint.preflight(argument, options, lora.CONFIG)
        except UsageError:
            raise error from None
        path = checkpoint.download_file(argument, lora.CONFIG, options)
        return Adapter(path.parent, lora.read_config(path), ())
    return None


def _base(adapter: Adapter, options: HFOptions) -> tuple[str, HFOptions]:
    """Argument and options of an adapter's base: a folder, maybe relative to the adapter's, or a name on the hub."""
    name = adapter.config.base_model_name_or_path
    if not name:
        raise UsageError(f"{adapter.folder / lora.CONFIG} names no base_model_name_or_path. {lora.ANOTHER_BASE}")
    of_base = replace(options, revision=adapter.config.revision or "")
    try:
        folder = (adapter.folder / name).resolve()
        if folder.is_dir():
            return str(folder), of_base
    except (OSError, ValueError, RuntimeError):
        pass  # too long, a zero, or a circle of links
    if not checkpoint.is_hub_name(name):
        raise UsageError(
            f"{adapter.folder / lora.CONFIG} names the base {lora.shown(name)}, which is no folder and no ORG/NAME "
            f"of the hub. {lora.ANOTHER_BASE}"
        )
    return name, of_base


@contextmanager
def _about_base(flag: str) -> Iterator[None]:
    """Say of an error that it concerns the base of an adapter."""
    try:
        yield
    except UsageError as error:
        raise UsageError(printing.line(f"{flag} is an adapter, and its base cannot be used: {error}")) from None


def _check_peft(flag: str) -> None:
    if find_spec("peft") is None:
        raise UsageError(f"{flag}: an adapter needs peft: pip install 'pytest-medvqa[hf,adapters]'")


def _main(options: HFOptions) -> HFOptions:
    """Options for a repository of which no revision was named."""
    return replace(options, revision="")


def _has_processor(folder: Path) -> bool:
    return any((folder / name).is_file() for name in PROCESSORS)


def _settings_of(folder: Path, code: bool) -> dict[str, str]:
    """SHA-256 (hex) by file of a processor's folder."""
    patterns = (*checkpoint.SETTINGS, "*.py") if code else checkpoint.SETTINGS
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    return {path.relative_to(folder).as_posix(): digest(path) for path in paths}
