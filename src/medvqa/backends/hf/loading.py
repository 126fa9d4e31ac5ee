"""Load a checkpoint's model and processor."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from medvqa.backends.hf import adapting
from medvqa.backends.hf.adapting import Adapted
from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.decode import did_you_mean
from medvqa.items import UsageError


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded model on `device`, and its processor. `backend` reads pixels: "torchvision" or "pil"."""

    model: Any
    processor: Any
    device: str
    backend: str

    @property
    def encodes(self) -> bool:
        """Whether its language model has its own encoder, so that an answer does not directly follow the prompt."""
        return bool(getattr(self.model.config.get_text_config(), "is_encoder_decoder", False))

    @property
    def tokenizer(self) -> Any:
        """The processor's."""
        return self.processor.tokenizer


def load(adapted: Adapted, options: HFOptions) -> Loaded:
    """Load weights (safetensors only) and processor. UsageError if transformers or peft cannot load them."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import torch
    import transformers

    checkpoint = adapted.base
    device = _device(options)
    several = options.device == "map" or options.gpus > 1
    how: dict[str, Any] = {"trust_remote_code": options.trust_remote_code, "local_files_only": True}
    wanted: dict[str, Any] = {"dtype": dtype(options, device), "use_safetensors": True}
    if options.attention != "auto":
        wanted["attn_implementation"] = options.attention
    if several:
        wanted["device_map"] = "auto"
    try:
        with _quiet(), _without_videos():
            processor = transformers.AutoProcessor.from_pretrained(adapted.processor, **how)
            model: Any = transformers.AutoModelForImageTextToText.from_pretrained(checkpoint.folder, **how, **wanted)
    except (ValueError, OSError, ImportError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{checkpoint.folder}: transformers {transformers.__version__} cannot load it: "
            f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
        ) from error
    if not hasattr(processor, "tokenizer"):
        raise UsageError(f"{checkpoint.folder}: no processor for images and text, but a {type(processor).__name__}")
    _check_settings("processor", options.processor, _settings(processor))
    known = frozenset(transformers.GenerationConfig().to_dict())
    _check_settings("generation", options.generation, known)
    _check_settings("ff_generation", options.ff_generation, known)
    if not several:
        model.to(device)
    model = adapting.applied(model, adapted, options)
    model.eval()
    tokenizer = processor.tokenizer
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    model.generation_config = _generation(model.generation_config, tokenizer, options)
    torch.manual_seed(options.seed)
    return Loaded(model, processor, device, _pixels(processor))


def dtype(options: HFOptions, device: str) -> Any:
    """The torch dtype of the weights."""
    import torch

    if options.dtype != "auto":
        return getattr(torch, options.dtype)
    return torch.bfloat16 if device == "cuda" and torch.cuda.is_bf16_supported() else torch.float32


def visible() -> list[str]:
    """The GPUs of this process, by their names in CUDA_VISIBLE_DEVICES."""
    import torch

    count = torch.cuda.device_count()
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    return named[:count] if named[0] else [str(number) for number in range(count)]


def _device(options: HFOptions) -> str:
    import torch

    cuda = torch.cuda.is_available()
    if options.device in ("cuda", "map") and not cuda:
        raise UsageError(f"device = {options.device!r} in the options, and torch sees no GPU here")
    if options.gpus > 1 and torch.cuda.device_count() < options.gpus:
        raise UsageError(f"gpus = {options.gpus} in the options, and torch sees {torch.cuda.device_count()}")
    if options.device in ("cpu", "mps"):
        return options.device
    return "cuda" if cuda else "cpu"


def _settings(processor: Any) -> frozenset[str]:
    """Names of the settings of the processor and its image processor."""
    tables = processor.valid_processor_kwargs.__annotations__
    kinds = [*tables.values(), getattr(processor.image_processor, "valid_kwargs", None)]
    return frozenset(tables).union(*(getattr(kind, "__annotations__", ()) for kind in kinds))


def _check_settings(option: str, settings: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise UsageError for a setting that transformers would ignore."""
    for name in settings:
        if name not in names:
            raise UsageError(
                f"`{option}` in the options has {name!r}, which the checkpoint's {option} does not know"
                f"{did_you_mean(name, sorted(names))}"
            )


def _generation(generation: Any, tokenizer: Any, options: HFOptions) -> Any:
    """Greedy decoding; keeps only the begin, end and padding tokens of the checkpoint's own settings."""
    import transformers

    ends = generation.eos_token_id if generation.eos_token_id is not None else tokenizer.eos_token_id
    settings = {
        "do_sample": False,
        "num_beams": 1,
        "max_new_tokens": options.own_tokens,
        "bos_token_id": generation.bos_token_id,
        "eos_token_id": ends,
        "pad_token_id": generation.pad_token_id if generation.pad_token_id is not None else tokenizer.pad_token_id,
        "decoder_start_token_id": generation.decoder_start_token_id,
    }
    return transformers.GenerationConfig(**{**settings, **options.generation})


def _pixels(processor: Any) -> str:
    if find_spec("torchvision") is None:
        return "pil"
    from transformers.image_processing_backends import TorchvisionBackend

    return "torchvision" if isinstance(processor.image_processor, TorchvisionBackend) else "pil"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence progress bars and messages below errors; run.json has the important facts."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


class NoVideos:
    """Stands in for AutoVideoProcessor."""

    @staticmethod
    def from_pretrained(*_: Any, **__: Any) -> Any:
        """Something that is no video processor, but that a processor takes for one."""
        import transformers

        return transformers.ImageProcessingMixin(num_frames=None, fps=None)


@contextmanager
def _without_videos() -> Iterator[None]:
    """Let processors that also read videos load without torchvision.

    They get a video processor that does nothing; it never gets a video.
    """
    if find_spec("torchvision") is not None:
        yield
        return
    from transformers import processing_utils

    loaders, kinds = (
        processing_utils._LazyAutoProcessorMapping._MAPPING_NAMES,
        processing_utils.MODALITY_TO_BASE_CLASS_MAPPING,
    )
    before = loaders["video_processor"], kinds["video_processor"]
    loaders["video_processor"] = (__name__, NoVideos.__name__)
    kinds["video_processor"] = "ImageProcessingMixin"
    try:
        yield
    finally:
        loaders["video_processor"], kinds["video_processor"] = before
