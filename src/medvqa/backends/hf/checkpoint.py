"""A checkpoint's files, inspected without torch: presence, size, and digests."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medvqa.backends import adapters, reaching
from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.backends.weights import digest, header, hub_name
from medvqa.items import UsageError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SETTINGS = ("*.json", "*.jinja", "*.txt", "*.model", "additional_chat_templates/*.jinja")
"""Patterns of a checkpoint's files besides weights, relative to its folder."""
CONFIG = "config.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

TELEMETRY = "HF_HUB_DISABLE_TELEMETRY"
"""Environment variable that the hub's library reads at import."""
BITS = {"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16}

MAX_METHOD = 40
"""Maximum characters of a quantisation method in a message."""
QUANTISERS = {
    "bitsandbytes": ("bitsandbytes", "'pytest-medvqa[hf,quantization]'"),
    "awq": ("gptqmodel", "gptqmodel"),
    "gptq": ("gptqmodel", "gptqmodel optimum"),
    "compressed-tensors": ("compressed_tensors", "compressed-tensors"),
    "torchao": ("torchao", "torchao"),
    "auto-round": ("auto_round", "auto-round"),
    "aqlm": ("aqlm", "aqlm"),
    "hqq": ("hqq", "hqq"),
}
"""The module that runs weights of each method of quantisation, and its name for pip."""
QUANTISED_BITS = {"4bit": 4.5, "8bit": 8}
"""Bits of a weight that bitsandbytes quantises; with 4, 64 weights share a scale of 32."""

_KEPT_WIDE = re.compile(r"embed|lm_head|\bwte\b|\bshared\.")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


class LacksFileError(UsageError):
    """A repository on the hub has no file of this name."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """A kind of quantised weights: transformers' name of the method, and "4bit" or "8bit" for bitsandbytes."""

    method: str
    bits: str = ""

    def __str__(self) -> str:
        """Both, for a message."""
        return f"{self.method} {self.bits}".strip()

    @property
    def missing(self) -> str | None:
        """What pip must install for it; None if it is there, or only transformers knows."""
        module, package = QUANTISERS.get(self.method, ("", ""))
        return package if module and find_spec(module) is None else None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder in the format of `save_pretrained`; `revision` is the commit of a hub repository, "" for a folder."""

    folder: Path
    revision: str = ""

    def weights(self) -> list[Path]:
        """The weight files; UsageError if they are no safetensors, or incomplete."""
        index = self.folder / INDEX
        if index.is_file():
            try:
                names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UsageError(f"{index}: no index of weight files: {type(error).__name__}: {error}") from None
            paths = [self.folder / str(name) for name in names]
            if missing := [path.name for path in paths if path.parent != self.folder or not path.is_file()]:
                raise UsageError(f"{index} names files that are not there: {', '.join(missing)[:300]}")
            return paths
        if (self.folder / WEIGHTS).is_file():
            return [self.folder / WEIGHTS]
        pickles = sorted(path.name for pattern in PICKLES for path in self.folder.glob(pattern))
        if pickles:
            raise UsageError(
                f"{self.folder}: no {WEIGHTS}, and {pickles[0]} is a pickle, which can run code when it is loaded. "
                "Where you trust it, convert it once, in Python: AutoModelForImageTextToText.from_pretrained(FOLDER)"
                ".save_pretrained(FOLDER)"
            )
        raise UsageError(f"{self.folder}: no weights; {WEIGHTS} or {INDEX} is expected")

    def config(self) -> Mapping[str, Any]:
        """The content of config.json; UsageError if it cannot be read."""
        path = self.folder / CONFIG
        try:
            content = json.loads(path.read_bytes())
        except OSError as error:
            why = f"{error.strerror}; a checkpoint is a folder as save_pretrained writes it"
            raise UsageError(f"{path}: no model config: {why}") from None
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}: no model config: {error}") from None
        if not isinstance(content, dict):
            raise UsageError(f"{path}: no model config")
        return content

    def quantised(self) -> Quantised | None:
        """How its weights are quantised already, by its config.json; None if they are not."""
        stored = self.config().get("quantization_config")
        if not isinstance(stored, dict):
            return None
        bits = next((f"{bits}bit" for bits in (4, 8) if stored.get(f"load_in_{bits}bit") is True), "")
        return Quantised("bitsandbytes" if bits else str(stored.get("quant_method", "unknown"))[:MAX_METHOD], bits)

    def hub_names(self) -> list[str]:
        """The files whose digests are the names of the hub's cache, so that they were not read."""
        return sorted(path.name for path in self.weights() if hub_name(path))

    def parameters(self) -> dict[str, int]:
        """The number of stored parameters by type (F32, BF16 ...), read from the headers of the weight files."""
        return self._counted(lambda name, shape: True)

    def linear(self) -> dict[str, int]:
        """Those of linear layers, which bitsandbytes quantises: no embedding, and not the language model's output."""
        return self._counted(
            lambda name, shape: len(shape) == 2 and name.endswith(".weight") and not _KEPT_WIDE.search(name)
        )

    def _counted(self, counts_in: Callable[[str, Sequence[int]], bool]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for path in self.weights():
            for name, tensor in header(path).items():
                if name != "__metadata__" and counts_in(name, tensor["shape"]):
                    counts[tensor["dtype"]] = counts.get(tensor["dtype"], 0) + math.prod(tensor["shape"])
        return counts

    def digests(self, *, code: bool = False) -> dict[str, str]:
        """SHA-256 (hex) by file: weights, settings and, with `code`, the checkpoint's Python files."""
        patterns = (*SETTINGS, "*.py") if code else SETTINGS
        settings = [path for pattern in patterns for path in self.folder.glob(pattern)]
        paths = sorted({*self.weights(), *settings})
        with ThreadPoolExecutor(max_workers=4) as pool:
            names = [path.relative_to(self.folder).as_posix() for path in paths]
            return dict(zip(names, pool.map(digest, paths), strict=True))


def check(argument: str, options: HFOptions) -> None:
    """Raise UsageError for problems visible without torch and network."""
    flag = f"--model=hf:{argument}"
    if not argument:
        raise UsageError(f"{flag}: hf needs a folder with a checkpoint, or ORG/NAME on the hub: --model=hf:FOLDER")
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise UsageError(f"{flag} needs torch and transformers: pip install 'pytest-medvqa[hf]'")
    if (options.gpus > 1 or options.device == "map") and find_spec("accelerate") is None:
        raise UsageError(f"{flag} over several GPUs needs accelerate: pip install 'pytest-medvqa[hf]'")
    if options.quantization and (package := Quantised("bitsandbytes").missing):
        raise UsageError(f"{flag}: quantization = {options.quantization!r} in the options: pip install {package}")
    if folder := local(argument):
        check_folder(folder, options, flag)
    elif not is_hub_name(argument):
        raise UsageError(f"{flag}: no such folder: {Path(argument).absolute()}. A repository on the hub is ORG/NAME")


def check_folder(checkpoint: Checkpoint, options: HFOptions, flag: str) -> None:
    """Raise UsageError for a folder that cannot be used, or only by running its own code."""
    if adapters.is_adapter(checkpoint.folder):
        # transformers would load that adapter, and its base, of its own accord.
        raise UsageError(f"{checkpoint.folder} is an adapter itself. {adapters.ANOTHER_BASE}")
    config = checkpoint.config()
    checkpoint.weights()
    stored = checkpoint.quantised()
    if stored is not None and options.quantization not in (None, stored.bits):
        raise UsageError(
            f"{flag}: quantization = {options.quantization!r} in the options, and the checkpoint is quantised already "
            f"({stored}): leave `quantization` out, or name a checkpoint that is not quantised"
        )
    if stored is not None and stored.missing:
        raise UsageError(f"{flag}: the checkpoint is quantised ({stored}): pip install {stored.missing}")
    if "auto_map" in config and not options.trust_remote_code and not _known(str(config.get("model_type"))):
        raise UsageError(
            f"{flag}: {config.get('model_type')!r} is no model of transformers, but of Python code in the checkpoint. "
            "Read that code; then set trust_remote_code = true in a config's [options], and add --trust-remote-code"
        )


def is_hub_name(argument: str) -> bool:
    """Whether an argument could be a repository on the hub."""
    return _HUB_ID.fullmatch(argument) is not None


def local(argument: str) -> Checkpoint | None:
    """The checkpoint in this folder, None if there is no such folder."""
    folder = Path(argument).expanduser()
    return Checkpoint(folder.resolve()) if folder.is_dir() else None


def download(argument: str, options: HFOptions) -> Checkpoint:
    """The files of a checkpoint or an adapter, from the hub if not cached. UsageError if they are not available."""
    if checkpoint := local(argument):
        return checkpoint
    os.environ.setdefault(TELEMETRY, "1")
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(argument, **_wanted(options))
    except (huggingface_hub.errors.HfHubHTTPError, huggingface_hub.errors.LocalEntryNotFoundError, OSError) as error:
        raise UsageError(f"--model=hf:{argument}: {' '.join(str(error).split())[:500]}") from None
    return Checkpoint(Path(folder), Path(folder).name)


def cached(argument: str, options: HFOptions) -> Checkpoint | None:
    """A repository as the hub's cache holds it, complete or not; None if it is not there."""
    os.environ.setdefault(TELEMETRY, "1")
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(argument, local_files_only=True, **_wanted(options))
    except (OSError, ValueError):
        return None
    return Checkpoint(Path(folder), Path(folder).name)


def download_file(argument: str, name: str, options: HFOptions) -> Path:
    """One file of a repository on the hub. UsageError if it is not available."""
    os.environ.setdefault(TELEMETRY, "1")
    import huggingface_hub

    try:
        return Path(huggingface_hub.hf_hub_download(argument, name, revision=options.revision or None))
    except (huggingface_hub.errors.HfHubHTTPError, huggingface_hub.errors.LocalEntryNotFoundError, OSError) as error:
        raise UsageError(f"--model=hf:{argument}: {' '.join(str(error).split())[:500]}") from None


def preflight(argument: str, options: HFOptions, config: str = CONFIG) -> None:
    """Raise UsageError if `download` would fail in every process; downloads nothing.

    Requests one file, `config`: the hub lists repositories whose licence was not accepted, but gives no file of them.
    A hub error or timeout is accepted here: the download tries again.
    """
    if local(argument) is not None:
        return
    os.environ.setdefault(TELEMETRY, "1")
    import huggingface_hub
    from huggingface_hub import constants, errors

    flag = f"--model=hf:{argument}"
    if _cached(argument, options):
        return
    option = f" --revision {options.revision}" if options.revision else ""
    remedy = f"Type `hf download {argument}{option}` where the hub can be reached, or name a folder: --model=hf:FOLDER"
    lacking = f"{flag}: its weights are not in the cache, and"
    if constants.HF_HUB_OFFLINE:
        raise UsageError(f"{lacking} HF_HUB_OFFLINE forbids to download them. {remedy}")
    hub = constants.ENDPOINT
    if reaching.proxy(hub) is None and (error := reaching.refusal(hub)) is not None:
        raise UsageError(f"{lacking} {hub} cannot be reached ({reaching.reason(error)}). {remedy}")
    try:
        url = huggingface_hub.hf_hub_url(argument, config, revision=options.revision or None)
        huggingface_hub.get_hf_file_metadata(url, timeout=reaching.SECONDS)
    except errors.HfHubHTTPError as error:
        if error.response.status_code in (401, 403, 404):
            kind = LacksFileError if isinstance(error, errors.EntryNotFoundError) else UsageError
            raise kind(f"{flag}: {hub} does not give it: {' '.join(str(error).split())[:500]}") from None
    except (OSError, errors.HTTPError):
        pass  # slow, or reached by a proxy: see the docstring


def _wanted(options: HFOptions) -> dict[str, Any]:
    """The files to download from a repository, as arguments of `snapshot_download`."""
    patterns = [*SETTINGS, "*.safetensors", *(["*.py"] if options.trust_remote_code else [])]
    return {"revision": options.revision or None, "allow_patterns": patterns}


def _cached(argument: str, options: HFOptions) -> bool:
    """Whether the cache holds the config and all weights of a repository."""
    checkpoint = cached(argument, options)
    if checkpoint is None:
        return False
    try:
        checkpoint.config()
        checkpoint.weights()
    except UsageError:
        return False
    return True


def size(argument: str, options: HFOptions, *, gpu: bool) -> int | None:
    """Bytes of the weights once loaded; None for a repository on the hub."""
    checkpoint = local(argument)
    if checkpoint is None:
        return None
    stored = checkpoint.parameters()
    wide = {"auto": 16 if gpu else 32, "float32": 32}.get(options.dtype, 16)
    floating = {"F64", "F32", "F16", "BF16"}
    loaded = sum(number * (wide if kind in floating else BITS.get(kind, 8)) // 8 for kind, number in stored.items())
    if options.quantization is None or checkpoint.quantised() is not None:
        return loaded
    linear = sum(number for kind, number in checkpoint.linear().items() if kind in floating)
    return loaded - int(linear * (wide - QUANTISED_BITS[options.quantization]) / 8)


def _known(model_type: str) -> bool:
    """Whether transformers has a model of this type; looks at its folders without importing it."""
    spec = find_spec("transformers")
    folders: Iterator[str] = iter(spec.submodule_search_locations or ()) if spec else iter(())
    name = model_type.replace("-", "_")
    return name.isidentifier() and any(Path(folder, "models", name).is_dir() for folder in folders)


def places(devices: Sequence[str], options: HFOptions) -> tuple[str, ...]:
    """The devices of each copy of a model, as values of CUDA_VISIBLE_DEVICES."""
    return in_groups(devices, len(devices) if options.device == "map" and options.gpus == 1 else options.gpus)


def in_groups(devices: Sequence[str], size: int) -> tuple[str, ...]:
    """Groups of so many devices, as values of CUDA_VISIBLE_DEVICES; those that are left belong to none."""
    return tuple(",".join(devices[start : start + size]) for start in range(0, len(devices) - size + 1, size))
