"""Make vLLM's engine for a checkpoint, with its processor and adapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medvqa.backends import adapters
from medvqa.backends.hf import loading
from medvqa.backends.hf.adapting import Adapted
from medvqa.backends.vllm.engine_options import VLLMOptions
from medvqa.backends.vllm.stepping import shown
from medvqa.items import UsageError

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The largest ranks of adapters for which vLLM can make room."""


def processor(adapted: Adapted, options: VLLMOptions) -> Any:
    """The checkpoint's processor, whose chat template and tokenizer prompts are written by."""
    import transformers

    try:
        with loading.quiet(), loading.without_videos():
            processor: Any = transformers.AutoProcessor.from_pretrained(
                adapted.processor, trust_remote_code=options.trust_remote_code, local_files_only=True
            )
    except (ValueError, OSError, ImportError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{adapted.processor}: transformers cannot load its processor: {shown(error)}") from error
    if not hasattr(processor, "tokenizer"):
        raise UsageError(f"{adapted.processor}: no processor for images and text, but a {type(processor).__name__}")
    return processor


def engine(adapted: Adapted, options: VLLMOptions) -> Any:
    """The engine. UsageError if vLLM cannot make it, or does not apply all weights of the adapter."""
    import vllm

    wanted: dict[str, Any] = {
        "model": str(adapted.base.folder),
        "tokenizer": str(adapted.processor),
        "tensor_parallel_size": options.gpus,
        "dtype": options.dtype,
        "kv_cache_dtype": options.kv_cache_dtype,
        "gpu_memory_utilization": options.gpu_memory_utilization,
        "max_model_len": options.max_model_len,
        "max_num_seqs": options.max_num_seqs,
        "trust_remote_code": options.trust_remote_code,
        "seed": options.seed,
        "enable_prefix_caching": options.enable_prefix_caching,
        "mm_processor_kwargs": options.mm_processor_kwargs or None,
        **({"quantization": options.quantization} if options.quantization else {}),
        **({"limit_mm_per_prompt": {"image": options.images}} if options.images else {}),
        **_for_adapter(adapted),
        **options.engine,
    }
    try:
        made: Any = vllm.LLM(**wanted).llm_engine
    except (ValueError, OSError, ImportError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise UsageError(f"{adapted.base.folder}: vLLM {vllm.__version__} cannot load it: {shown(error)}") from error
    try:
        _check_adapter(made, adapted)
    except BaseException:
        made.engine_core.shutdown()
        raise
    return made


def refusals() -> tuple[type[Exception], ...]:
    """The exceptions by which vLLM refuses one prompt, before it computes."""
    from vllm.exceptions import VLLMValidationError

    return VLLMValidationError, ValueError, TypeError, LookupError, AssertionError, RuntimeError, OSError


def lora(adapted: Adapted) -> Any:
    """The adapter of each request; None without one."""
    if not adapted.adapters:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest("adapter", 1, str(adapted.adapters[0].folder))


def facts(engine: Any) -> Mapping[str, Any]:
    """The engine's versions and effective settings that may change an answer."""
    import torch
    import transformers
    import vllm
    from vllm.platforms import current_platform

    model = engine.model_config
    return {
        "vllm": vllm.__version__,
        "torch": torch.__version__.partition("+")[0],
        "transformers": transformers.__version__,
        "device": current_platform.device_type,
        "dtype": str(model.dtype).removeprefix("torch."),
        "quantization": model.quantization,
        "kv_cache_dtype": engine.vllm_config.cache_config.cache_dtype,
        "max_model_len": model.max_model_len,
    }


def _for_adapter(adapted: Adapted) -> dict[str, Any]:
    """The engine's arguments for an adapter."""
    if not adapted.adapters:
        return {}
    (adapter,) = adapted.adapters
    largest = adapter.config.max_rank
    rank = next((rank for rank in RANKS if rank >= largest), largest)
    # Without this, vLLM drops weights of the vision tower with a warning.
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": rank, "enable_tower_connector_lora": True}


def _check_adapter(engine: Any, adapted: Adapted) -> None:
    """Load the adapter. UsageError unless all of its weights are applied: another model would be evaluated."""
    if not adapted.adapters:
        return
    (adapter,) = adapted.adapters
    if adapter.config.use_dora:
        raise UsageError(f"{adapter.folder}: vLLM applies no DoRA. {_MERGE}")
    try:
        engine.add_lora(lora(adapted))
    except (ValueError, RuntimeError, OSError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"{adapter.folder}: vLLM cannot apply the adapter: {shown(error)}. {_MERGE}") from error
    left_out = {name for names in engine.collective_rpc(_left_out) for name in names}
    adapters.check_applied(adapter, left_out, "vLLM", f". {_MERGE}")


_MERGE = f"{adapters.MERGE}; or ask by --model=hf"


def _left_out(worker: Any) -> list[str]:
    """Return the modules of an adapter that a worker's model does not apply, by vLLM's names. Runs in the worker."""
    manager = worker.model_runner.lora_manager._adapter_manager
    skipped = getattr(manager.model, "lora_skip_prefixes", None) or []
    named = [name for lora in manager._registered_adapters.values() for name in lora.loras]
    return [name for name in named if name not in manager.modules or name.startswith(tuple(skipped))]
