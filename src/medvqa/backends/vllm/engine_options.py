"""The table [options] of a model that vLLM's engine runs in this process."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

import msgspec

from medvqa.backends.hf.checkpoint_options import CheckpointOptions, HFOptions, Positive

SET_HERE = frozenset(
    {
        "n",
        "max_tokens",
        "seed",
        "logprobs",
        "prompt_logprobs",
        "logprob_token_ids",
        "output_kind",
        "detokenize",
        "skip_special_tokens",
    }
)
"""Sampling parameters that the backend sets."""
HAVE_OPTIONS = {
    "tensor_parallel_size": "gpus",
    "limit_mm_per_prompt": "images",
    "max_loras": "adapters",
    "enable_lora": "adapters",
    **{
        name: name
        for name in (
            *("dtype", "quantization", "kv_cache_dtype", "gpu_memory_utilization", "max_model_len", "max_num_seqs"),
            *("mm_processor_kwargs", "revision", "trust_remote_code", "seed", "enable_prefix_caching"),
        )
    },
}
"""Arguments of the engine that are options of their own."""


@dataclass(frozen=True, kw_only=True)
class VLLMOptions(CheckpointOptions):
    """The table [options] of a config.

    Prompts are written by the options of all checkpoints, as for `hf`. `generation`: vLLM's sampling parameters, such
    as temperature (default: 0); `ff_generation`: those of technique `ff`, in addition. The `gpus` of a copy are tensor
    parallel. `dtype`: "auto" is what the checkpoint says. `quantization`: vLLM's method, "" for what the checkpoint
    says.
    `images`: the most images of a prompt (None: vLLM's default, for which it may reserve much memory). `adapters`: at
    most one LoRA adapter. `batch_invariant`: answers that do not depend on what else is in the batch
    (VLLM_BATCH_INVARIANT; GPUs of compute capability 8.0 or more). `engine`: further arguments of vLLM's LLM class.
    `concurrency`: prompts in the engine at once.
    """

    generation: dict[str, Any] = field(default_factory=dict)
    ff_generation: dict[str, Any] = field(default_factory=dict)
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    quantization: str = ""
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.9
    max_model_len: Positive | None = None
    max_num_seqs: Positive = 256
    images: Positive | None = None
    mm_processor_kwargs: dict[str, Any] = field(default_factory=dict)
    enable_prefix_caching: bool = True
    batch_invariant: bool = False
    concurrency: Positive = 256
    engine: dict[str, Any] = field(default_factory=dict)

    @property
    def of_prompts(self) -> HFOptions:
        """The options by which a checkpoint is found and its prompts are written."""
        return HFOptions(**{field.name: getattr(self, field.name) for field in fields(CheckpointOptions)})

    def sampling(self, technique: str) -> dict[str, Any]:
        """The sampling parameters of a technique that generates."""
        return {"temperature": 0.0, **self.generation, **(self.ff_generation if technique == "ff" else {})}

    def samples(self, technique: str) -> bool:
        """Whether answers by a technique that generates are drawn at random."""
        return bool(self.sampling(technique)["temperature"])

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other."""
        super().__post_init__()
        for name, settings in (("generation", self.generation), ("ff_generation", self.ff_generation)):
            if taken := sorted(SET_HERE & settings.keys()):
                raise ValueError(f"`{name}` has {', '.join(taken)}, which the backend sets (`max_new_tokens`, `seed`)")
        for name in self.engine:
            if name in HAVE_OPTIONS:
                raise ValueError(f"`engine` has {name}: it is the option `{HAVE_OPTIONS[name]}`")
            if name.startswith("data_parallel"):
                raise ValueError(f"`engine` has {name}: copies come from -n, one for each place of `gpus` GPUs")
            if name in ("model", "tokenizer", "logprobs_mode"):
                raise ValueError(f"`engine` has {name}, which the backend sets")
        if len(self.adapters) > 1:
            raise ValueError("`adapters` has several: vLLM applies one to a prompt. Merge them by peft first")
