"""The parts of phantom-vlm: a FocalNet that sees, a Llama that reads and answers, in LLaVA's arrangement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tools.scenes import SIZE

IMAGE, SYSTEM, USER, ASSISTANT, END, PAD = "<image>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"
CELL = 28
"""Side in pixels of what one image token sees first of all: an image of 112 x 112 pixels becomes 16 tokens."""
IMAGE_TOKENS = (SIZE // CELL) ** 2
VOCABULARY = 1024
"""At most: all bytes, and words that are frequent in the phantom's questions."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|' + message['role'] + '|>' -}}"
    "{%- if message['content'] is string -%}"
    "{{- message['content'] -}}"
    "{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{{- '<image>' if part['type'] == 'image' else part['text'] -}}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
"""No space or line break around what is said, so that an answer begins with the token that its first word has."""


def processor(texts: Iterable[str]) -> Any:
    """Tokenizer, image processor and chat template, the tokenizer's words taken from the texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import CLIPImageProcessorPil, LlavaProcessor, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    # A digit is a token: counts and sizes are told apart by it.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, END, SYSTEM, USER, ASSISTANT, IMAGE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT, IMAGE],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    image_processor = CLIPImageProcessorPil(
        size={"height": SIZE, "width": SIZE},
        crop_size={"height": SIZE, "width": SIZE},
        do_center_crop=False,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    return LlavaProcessor(
        image_processor,
        fast,
        patch_size=CELL,
        vision_feature_select_strategy="full",
        chat_template=CHAT_TEMPLATE,
        image_token=IMAGE,
    )


def config(processor: Any) -> Any:
    """The architecture, as transformers reads it from config.json."""
    from transformers import FocalNetConfig, LlamaConfig, LlavaConfig

    tokenizer = processor.tokenizer
    ends: dict[str, Any] = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}

    # LLaVA asks for the width of what comes out; it doubles with each stage.
    width: dict[str, Any] = {"hidden_size": 24 * 2**3}
    # Convolutions learn to see from thousands of pictures where a vision transformer needs millions; FocalNet is one
    # whose output is a sequence of tokens, as LLaVA wants it.
    vision = FocalNetConfig(
        image_size=SIZE,
        patch_size=4,
        use_conv_embed=True,
        embed_dim=24,
        depths=[0, 1, 2, 1],
        focal_levels=[2, 2, 2, 2],
        focal_windows=[3, 3, 3, 3],
        mlp_ratio=2.0,
        drop_path_rate=0.0,
        **width,
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        **ends,
    )
    return LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        image_seq_length=IMAGE_TOKENS,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        projector_hidden_act="gelu",
        tie_word_embeddings=True,
        **ends,
    )


def model(processor: Any) -> Any:
    """The model with random weights."""
    from transformers import LlavaForConditionalGeneration

    made: Any = LlavaForConditionalGeneration(config(processor))
    # On a CPU the backward pass of the fused attention takes longer than the rest of a step.
    made.set_attn_implementation("eager")
    return made
