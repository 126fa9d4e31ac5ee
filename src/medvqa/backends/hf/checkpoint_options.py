"""The table [options] of a checkpoint's config."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from medvqa.backend import PATHS

OFFICIAL_TOKENS = 32
"""New tokens in the published setting of MediConfusion's multiple choice; decoding is greedy."""

RESERVED = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "documents",
        "load_audio_from_video",
        "messages",
        "processor_kwargs",
        "raise_exception",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "sanitize_control_tokens",
        "strftime_now",
        "tokenize",
        "tools",
    }
)
"""Arguments of `apply_chat_template`, and names of a template, that a config may not set."""

Positive = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """What the tables [options] of all ways of running a checkpoint in this process have.

    `form`: the checkpoint's chat template ("chat"), or `raw`; "auto" uses the template if there is one. `raw` has the
    fields {image} (replaced by one `image_token` per image, "" for the processor's own), {system} and {text}.
    `system` replaces the benchmark's system prompt. `lead`: the text between a prompt and a scored option; None: a
    space, unless the prompt ends in white space or a control token. `max_new_tokens`: the limit for prompts without one
    (None: 32). `gpus`: GPUs per copy. `revision`: a branch, tag or commit of a hub repository. `trust_remote_code` runs
    Python code of the checkpoint. `seed`: for sampling. `adapters`: LoRA adapters over the checkpoint, in this order:
    folders, or repositories on the hub.
    """

    form: Literal["auto", "chat", "raw"] = "auto"
    raw: str = "{image}{text}"
    image_token: str = ""
    system: str | None = None
    lead: str | None = None
    max_new_tokens: Positive | None = None
    gpus: Positive = 1
    revision: str = ""
    trust_remote_code: bool = False
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    adapters: tuple[str, ...] = field(default=(), metadata=PATHS)

    @property
    def own_tokens(self) -> int:
        """The default limit of new tokens."""
        return OFFICIAL_TOKENS if self.max_new_tokens is None else self.max_new_tokens

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other."""
        if "{text}" not in self.raw:
            raise ValueError("`raw` has no {text}, so no question would be asked")


@dataclass(frozen=True, kw_only=True)
class HFOptions(CheckpointOptions):
    """The table [options] of a config.

    `processor`: settings for each call of the processor, for instance size. `generation`: settings of the generation
    config. `ff_generation`: those of technique `ff`, in addition, as MediConfusion's owners sample only there. `dtype`:
    "auto" is bfloat16 on a GPU that supports it, else float32. `attention`: "auto" is transformers' choice. `device`:
    "auto" is a GPU if there is one, "map" all visible GPUs together. `merge`: whether adapters are merged into the
    weights in memory (None: unless these are quantised). `quantization`: bits of the language and vision model's linear
    layers, by bitsandbytes ("4bit" is NF4); None: as the checkpoint is. `chat_template`: arguments of the checkpoint's
    chat template, for instance enable_thinking.
    """

    processor: dict[str, Any] = field(default_factory=dict)
    generation: dict[str, Any] = field(default_factory=dict)
    ff_generation: dict[str, Any] = field(default_factory=dict)
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    attention: str = "auto"
    device: Literal["auto", "cpu", "cuda", "mps", "map"] = "auto"
    batch_size: Positive | None = None
    merge: bool | None = None
    quantization: Literal["4bit", "8bit"] | None = None
    chat_template: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other."""
        super().__post_init__()
        if taken := sorted({"text", "images", "videos", "return_tensors", "padding"} & self.processor.keys()):
            raise ValueError(f"`processor` has {', '.join(taken)}, which the backend sets")
        if self.chat_template and self.form == "raw":
            raise ValueError("`chat_template` has arguments, and `form` is 'raw', which uses no template")
        if taken := sorted(name for name in self.chat_template if name in RESERVED or name.endswith("_token")):
            raise ValueError(f"`chat_template` has {', '.join(taken)}, which the backend sets")
        for name, settings in (("generation", self.generation), ("ff_generation", self.ff_generation)):
            if taken := sorted({"max_new_tokens", "max_length", "num_return_sequences"} & settings.keys()):
                raise ValueError(f"`{name}` has {', '.join(taken)}; the length is set by `max_new_tokens`")
        if self.gpus > 1 and self.device not in ("auto", "cuda", "map"):
            raise ValueError(f"`gpus` is {self.gpus} and `device` {self.device!r}: leave one of them out")
