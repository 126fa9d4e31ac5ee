"""The table [options] of a model that vLLM's engine runs in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from medvqa.backend import PATHS
from medvqa.backends.hf.checkpoint_options import OFFICIAL_TOKENS, HFOptions, Positive

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
class VLLMOptions:
    """The table [options] of a config.

    `form`, `raw`, `image_token`, `system`, `lead`, `max_new_tokens`, `revision`, `trust_remote_code` and `seed` are
    those of `HFOptions`: the prompts are the same. `generation`: vLLM's sampling parameters, such as temperature
    (default: 0); `ff_generation`: those of technique `ff`, in addition. `gpus`: GPUs of one copy (tensor parallel).
    `dtype`: "auto" is what the checkpoint says. `quantization`: vLLM's method, "" for what the checkpoint says.
    `images`: the most images of a prompt (None: vLLM's default, for which it may reserve much memory). `adapters`: at
    most one LoRA adapter. `batch_invariant`: answers that do not depend on what else is in the batch
    (VLLM_BATCH_INVARIANT; GPUs of compute capability 8.0 or more). `engine`: further arguments of vLLM's LLM class.
    `concurrency`: prompts in the engine at once.
    """

    form: Literal["auto", "chat", "raw"] = "auto"
    raw: str = "{image}{text}"
    image_token: str = ""
    system: str | None = None
    lead: str | None = None
    generation: dict[str, Any] = field(default_factory=dict)
    ff_generation: dict[str, Any] = field(default_factory=dict)
    max_new_tokens: Positive | None = None
    gpus: Positive = 1
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    quantization: str = ""
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.9
    max_model_len: Positive | None = None
    max_num_seqs: Positive = 256
    images: Positive | None = None
    mm_processor_kwargs: dict[str, Any] = field(default_factory=dict)
    adapters: tuple[str, ...] = field(default=(), metadata=PATHS)
    revision: str = ""
    trust_remote_code: bool = False
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    enable_prefix_caching: bool = True
    batch_invariant: bool = False
    concurrency: Positive = 256
    engine: dict[str, Any] = field(default_factory=dict)

    @property
    def own_tokens(self) -> int:
        """The default limit of new tokens."""
        return OFFICIAL_TOKENS if self.max_new_tokens is None else self.max_new_tokens

    @property
    def of_prompts(self) -> HFOptions:
        """The options by which a checkpoint is found and its prompts are written."""
        return HFOptions(
            form=self.form,
            raw=self.raw,
            image_token=self.image_token,
            system=self.system,
            lead=self.lead,
            revision=self.revision,
            trust_remote_code=self.trust_remote_code,
            adapters=self.adapters,
        )

    def sampling(self, technique: str) -> dict[str, Any]:
        """The sampling parameters of a technique that generates."""
        return {"temperature": 0.0, **self.generation, **(self.ff_generation if technique == "ff" else {})}

    def samples(self, technique: str) -> bool:
        """Whether answers by a technique that generates are drawn at random."""
        return bool(self.sampling(technique)["temperature"])

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other."""
        if "{text}" not in self.raw:
            raise ValueError("`raw` has no {text}, so no question would be asked")
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
