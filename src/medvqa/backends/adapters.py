"""LoRA adapters in the format of peft, read without torch and peft: their config, the names of their weights, digests.

An adapter's folder is untrusted: its config and the header of its weights are read within limits, and no pickle is.
Source of the format: https://github.com/huggingface/peft (`LoraConfig`, `save_pretrained`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from medvqa import decode, printing
from medvqa.backends.weights import digest, header
from medvqa.items import DataError, UsageError

CONFIG = "adapter_config.json"
"""File that peft writes beside an adapter's weights."""
WEIGHTS = "adapter_model.safetensors"
PICKLE = "adapter_model.bin"
ANOTHER_BASE = "To choose the base yourself, write a config with argument = BASE, and adapters = [ADAPTER] in [options]"
MERGE = (
    "Merge it into its model once, in Python, by peft's merge_and_unload() and save_pretrained('merged'), and evaluate "
    "that folder"
)
"""What to do with an adapter that is not applied here."""
MAX_CONFIG = 2**20
"""Largest config, in bytes."""
MAX_SHOWN = 200
"""Most characters of a name from an adapter in a message."""
PREFIX = "base_model.model."
"""What the name of a weight has before the name of the base's module."""

_WEIGHT = re.compile(rf"(?:{re.escape(PREFIX)})?(.+)\.lora_[A-Za-z]+(?:_[A-Za-z]+)*(?:\.(?:weight|bias))?")

Name = Annotated[str, msgspec.Meta(max_length=4096)]
Rank = Annotated[int, msgspec.Meta(ge=1, le=2**16)]


class AdapterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of adapter_config.json that are looked at; peft writes many others, and reads them itself.

    The keys after `init_lora_weights` change the model in ways that plain LoRA does not; they must be unset.
    """

    peft_type: Name
    base_model_name_or_path: Name | None = None
    revision: Name | None = None
    r: Rank = 8
    lora_alpha: float = 8
    rank_pattern: dict[str, Rank] | None = None
    alpha_pattern: dict[str, float] | None = None
    target_modules: list[Name] | Name | None = None
    modules_to_save: list[Name] | None = None
    use_rslora: bool | None = False
    use_dora: bool | None = False
    bias: Name | None = "none"
    init_lora_weights: bool | Name | None = True
    megatron_config: Any = None
    layer_replication: Any = None
    trainable_token_indices: Any = None
    alora_invocation_tokens: Any = None
    arrow_config: Any = None
    kasa_config: Any = None
    monteclora_config: Any = None
    use_bdlora: Any = None
    use_qalora: Any = None

    @property
    def max_rank(self) -> int:
        """The largest rank of any module."""
        return max([self.r, *(self.rank_pattern or {}).values()])


BEYOND = AdapterConfig.__struct_fields__[AdapterConfig.__struct_fields__.index("megatron_config") :]
"""Keys whose modules plain LoRA does not have."""
HARMLESS_STARTS = frozenset({True, False, None, "gaussian", "orthogonal", "eva"})
"""Values of `init_lora_weights` that leave the base's own weights as they are."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter in a folder. `weights`: the names of its tensors, sorted."""

    folder: Path
    config: AdapterConfig
    weights: tuple[str, ...]

    def modules(self) -> Mapping[str, str]:
        """Return the name of each module of the base that it changes -> the name of its first weight there."""
        first: dict[str, str] = {}
        for name in self.weights:
            if (match := _WEIGHT.fullmatch(name)) is not None:
                first.setdefault(match[1], name)
        return first

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 (hex) of its config and its weights, by file."""
        return {name: digest(self.folder / name) for name in (CONFIG, WEIGHTS)}


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter."""
    return (folder / CONFIG).is_file()


def read(folder: Path) -> Adapter:
    """Read an adapter. UsageError, in one line, if it is damaged, a pickle, or other than plain LoRA."""
    config = read_config(folder / CONFIG)
    if not (folder / WEIGHTS).is_file():
        if (folder / PICKLE).is_file():
            raise UsageError(
                f"{folder}: no {WEIGHTS}, and {PICKLE} is a pickle, which can run code when it is loaded. "
                "Where you trust it, load it once in Python by peft, and save it by save_pretrained(FOLDER)"
            )
        raise UsageError(f"{folder}: an adapter without weights; {WEIGHTS} is expected")
    try:
        weights = tuple(sorted(name for name in header(folder / WEIGHTS) if name != "__metadata__"))
    except DataError as error:
        raise UsageError(printing.line(str(error))) from None
    if not weights:
        raise UsageError(f"{folder / WEIGHTS}: no weights")
    if whole := next((name for name in weights if not _WEIGHT.fullmatch(name)), None):
        raise UsageError(
            f"{folder / WEIGHTS}: {shown(whole)} is no weight of LoRA, but replaces one of the base; "
            f"{merge_first('such weights are not applied')}"
        )
    return Adapter(folder, config, weights)


def read_config(path: Path) -> AdapterConfig:
    """Read an adapter's config. UsageError, in one line, if it is damaged or describes other than plain LoRA."""
    content = decode.parsed(decode.read(path, str(path), MAX_CONFIG), str(path), "JSON")
    if not isinstance(content, dict):
        raise UsageError(f"{path}: no adapter's config")
    known = {name: content[name] for name in AdapterConfig.__struct_fields__ if name in content}
    config = decode.converted(known, AdapterConfig, str(path))
    if (problem := _beyond_lora(config)) is not None:
        raise UsageError(f"{path}: {problem}")
    return config


def _beyond_lora(config: AdapterConfig) -> str | None:
    """Return the first part of an adapter that is not plain LoRA, as a sentence; None if there is none."""
    if config.peft_type.upper() != "LORA":
        return merge_first(f"peft_type is {shown(config.peft_type)}, and only LORA is applied")
    if config.modules_to_save:
        names = f"modules_to_save holds {shown(config.modules_to_save[0])}"
        return merge_first(f"{names}: whole modules of the base were trained, which are not applied")
    if config.bias not in ("none", None):
        return merge_first(f"bias is {shown(config.bias)}: biases of the base were trained, which are not applied")
    if config.init_lora_weights not in HARMLESS_STARTS:
        start = f"init_lora_weights is {shown(str(config.init_lora_weights))}"
        return merge_first(f"{start}, which changes the base's own weights; save it by peft as plain LoRA")
    for key in BEYOND:
        if getattr(config, key):
            return merge_first(f"{key} is set, which is no part of plain LoRA, and only that is applied")
    return None


def merge_first(problem: str) -> str:
    """Return the problem of an adapter that is not applied here, with what to do instead."""
    return f"{problem}. {MERGE}"


def not_applied(adapter: Adapter, modules: Collection[str]) -> list[str]:
    """Return the weights of an adapter whose modules a loaded model does not have, by the names of the base's modules.

    `modules`: names as the adapter has them, such as `model.language_model.layers.0.self_attn.q_proj`.
    """
    lacking = adapter.modules().keys() - set(modules)
    return [name for name in adapter.weights if (match := _WEIGHT.fullmatch(name)) and match[1] in lacking]


def check_applied(adapter: Adapter, left_out: Collection[str], where: str, hint: str = "") -> None:
    """Raise UsageError, in one line, if weights of an adapter were left out: another model would be evaluated."""
    if left_out:
        raise UsageError(
            f"{where}: {len(left_out)} of {len(adapter.weights)} weights of the adapter {adapter.folder} fit no module "
            f"of its base, such as {shown(min(left_out))}: another model would be evaluated{hint}"
        )


def shown(name: str) -> str:
    """Return a name from an adapter for a message."""
    return ascii(name[:MAX_SHOWN])
