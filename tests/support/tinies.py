"""Tiny checkpoints of real families (about a million parameters), made on the spot and saved as a user would find them.

Shapes of vision towers, token names and chat templates follow the families' published checkpoints; the weights are
random, and wide enough for answers that depend on the text and on the image.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# Modules of tests that import this one are skipped where the extra is missing.
torch = pytest.importorskip("torch", reason="needs torch: pip install 'pytest-medvqa[hf]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'pytest-medvqa[hf]'")

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedTokenizerFast  # noqa: E402

SENTENCES = (
    "Question: What is shown in this image of the chest? Answer with the option's letter from the given choices.",
    "Based on the image, choose the correct option for the following question. Options: A. a red circle B. none",
    "Is the lesion in the left lung benign or malignant? The picture shows a fracture of the distal radius.",
    "You are a helpful assistant. USER: ASSISTANT: User: Assistant: user assistant system model answer en",
    "yes no A B C D E blue square green triangle retina optic disc cup haemorrhage oedema normal abnormal",
)
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}{% if c.type == 'image' %}IMAGE"
    "{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VICUNA = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content[0].text }} {% else %}{{ m.role.upper() }}: "
    "{% for c in m.content %}{% if c.type == 'image' %}<image>\n{% endif %}{% endfor %}"
    "{% for c in m.content %}{% if c.type == 'text' %}{{ c.text }} {% endif %}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
IDEFICS = (
    "<|im_start|>{% for m in messages %}{{ m.role.capitalize() }}:{% for c in m.content %}"
    "{% if c.type == 'image' %}<image>{% else %} {{ c.text }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% set first = messages[0] %}{% for m in messages %}{% if m.role != 'system' %}<start_of_turn>"
    "{{ 'model' if m.role == 'assistant' else m.role }}\n{% if loop.index0 == 1 and first.role == 'system' %}"
    "{{ first.content[0].text }}\n\n{% endif %}{% for c in m.content %}{% if c.type == 'image' %}<start_of_image>"
    "{% else %}{{ c.text | trim }}{% endif %}{% endfor %}<end_of_turn>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{% for c in m.content %}"
    "{% if c.type == 'image' %}<|image|>{% else %}{{ c.text }}{% endif %}{% endfor %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)


@cache
def _trained(special: tuple[str, ...]) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 4, trainer)
    return tokenizer.to_str()


def tokenizer(eos: str, pad: str, *more: str, bos: str | None = None, **named: str) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer; `named` are tokens that a processor looks up by attribute."""
    special = tuple(dict.fromkeys([token for token in (pad, bos, eos, *more, *named.values()) if token]))
    kwargs: dict[str, Any] = {"extra_special_tokens": named} if named else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained(special)),
        eos_token=eos,
        pad_token=pad,
        bos_token=bos,
        additional_special_tokens=list(more),
        **kwargs,
    )


def save(
    folder: Path,
    config: Mapping[str, Any],
    tokens: PreTrainedTokenizerFast,
    image_processor: Any,
    template: str | None,
    processor: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Path:
    """Write a checkpoint: config, random weights, tokenizer, image processor, template, processor settings."""
    torch.manual_seed(seed)
    model: Any = AutoModelForImageTextToText.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            # Wider than an untrained model's, and nothing left at zero: gates and projections of images begin there.
            if parameter.dim() > 1:
                parameter.normal_(0, 1.5 / parameter[0].numel() ** 0.5)
            elif not parameter.any():
                parameter.normal_(0, 0.5)
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=tokens.eos_token_id, pad_token_id=tokens.pad_token_id, bos_token_id=tokens.bos_token_id
    )
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    image_processor.save_pretrained(folder)
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    if processor is not None:
        (folder / "processor_config.json").write_text(json.dumps(processor))
    return folder


def _llama(tokens: PreTrainedTokenizerFast, model_type: str = "llama", **more: Any) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "vocab_size": len(tokens),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": tokens.bos_token_id,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad_token_id,
        **more,
    }


def _vision(model_type: str, size: int, patch: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": size,
        "patch_size": patch,
        **more,
    }


def _qwen_tokens() -> PreTrainedTokenizerFast:
    return tokenizer(
        "<|im_end|>",
        "<|endoftext|>",
        "<|im_start|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
    )


def _qwen_vl(folder: Path, model_type: str, vision: Mapping[str, Any], processor: Any, **text: Any) -> Path:
    tokens = _qwen_tokens()
    number = tokens.convert_tokens_to_ids
    config = {
        "model_type": model_type,
        "text_config": _llama(tokens, f"{model_type}_text", **text),
        "vision_config": vision,
        "image_token_id": number("<|image_pad|>"),
        "video_token_id": number("<|video_pad|>"),
        "vision_start_token_id": number("<|vision_start|>"),
        "vision_end_token_id": number("<|vision_end|>"),
    }
    template = CHATML.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    return save(folder, config, tokens, processor, template)


def _mrope(*section: int, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(section), **more}}


def _qwen2_pixels(patch: int) -> Any:
    kind = transformers.models.qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil
    side = 2 * patch
    return kind(patch_size=patch, merge_size=2, size={"shortest_edge": side**2, "longest_edge": 9 * side**2})


def qwen2_vl(folder: Path, width: int = 32) -> Path:
    vision = {"depth": 2, "embed_dim": width, "hidden_size": 64, "mlp_ratio": 2, "num_heads": 2, "patch_size": 14}
    return _qwen_vl(folder, "qwen2_vl", vision, _qwen2_pixels(14), **_mrope(2, 3, 3))


def qwen2_5_vl(folder: Path, hidden: int = 32, sections: tuple[int, int, int] = (2, 3, 3), **text: int) -> Path:
    vision = {
        "depth": 2,
        "hidden_size": hidden,
        "intermediate_size": 64,
        "num_heads": 2,
        "patch_size": 14,
        "out_hidden_size": 64,
        "window_size": 56,
        "fullatt_block_indexes": [1],
    }
    return _qwen_vl(folder, "qwen2_5_vl", vision, _qwen2_pixels(14), **_mrope(*sections), **text)


def qwen2_5_vl_wide(folder: Path) -> Path:
    """Not among FAMILIES: heads of 32 numbers, the least that vLLM's attention on CPUs takes."""
    return qwen2_5_vl(folder, 64, (4, 6, 6), num_attention_heads=2, num_key_value_heads=1)


def qwen3_vl(folder: Path) -> Path:
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "patch_size": 16,
        "out_hidden_size": 64,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }
    return _qwen_vl(
        folder, "qwen3_vl", vision, _qwen2_pixels(16), head_dim=16, **_mrope(4, 2, 2, mrope_interleaved=True)
    )


def _clip_pixels(size: int) -> Any:
    return transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil(
        size={"shortest_edge": size}, crop_size={"height": size, "width": size}
    )


def llava(folder: Path) -> Path:
    tokens = tokenizer("</s>", "<pad>", "<image>", bos="<s>")
    config = {
        "model_type": "llava",
        "text_config": _llama(tokens),
        "vision_config": _vision("clip_vision_model", 28, 7, projection_dim=32),
        "image_token_index": tokens.convert_tokens_to_ids("<image>"),
        "image_seq_length": 16,
    }
    processor = {
        "processor_class": "LlavaProcessor",
        "patch_size": 7,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
    }
    return save(folder, config, tokens, _clip_pixels(28), VICUNA, processor)


GRID = [[28, 56], [56, 28], [56, 56]]


def llava_next(folder: Path) -> Path:
    tokens = tokenizer("</s>", "<pad>", "<image>", bos="<s>")
    config = {
        "model_type": "llava_next",
        "text_config": _llama(tokens),
        "vision_config": _vision("clip_vision_model", 28, 7, projection_dim=32),
        "image_token_index": tokens.convert_tokens_to_ids("<image>"),
        "image_grid_pinpoints": GRID,
        "image_seq_length": 16,
    }
    pixels = transformers.models.llava_next.image_processing_pil_llava_next.LlavaNextImageProcessorPil(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}, image_grid_pinpoints=GRID
    )
    processor = {
        "processor_class": "LlavaNextProcessor",
        "patch_size": 7,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
    }
    return save(folder, config, tokens, pixels, VICUNA, processor)


def llava_onevision(folder: Path) -> Path:
    tokens = tokenizer("<|im_end|>", "<|endoftext|>", "<|im_start|>", "<image>", "<video>")
    config = {
        "model_type": "llava_onevision",
        "text_config": _llama(tokens, "qwen2"),
        "vision_config": _vision("siglip_vision_model", 28, 7, vision_use_head=False),
        "image_token_index": tokens.convert_tokens_to_ids("<image>"),
        "video_token_index": tokens.convert_tokens_to_ids("<video>"),
        "image_grid_pinpoints": GRID,
        "vision_feature_select_strategy": "full",
        "vision_feature_layer": -1,
        "vision_aspect_ratio": "anyres_max_9",
    }
    module = transformers.models.llava_onevision.image_processing_pil_llava_onevision
    pixels = module.LlavaOnevisionImageProcessorPil(size={"height": 28, "width": 28}, image_grid_pinpoints=GRID)
    processor = {
        "processor_class": "LlavaOnevisionProcessor",
        "num_image_tokens": 16,
        "vision_feature_select_strategy": "full",
    }
    return save(folder, config, tokens, pixels, CHATML.replace("IMAGE", "<image>\n"), processor)


def internvl(folder: Path) -> Path:
    tokens = tokenizer(
        "<|im_end|>",
        "<|endoftext|>",
        "<|im_start|>",
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    config = {
        "model_type": "internvl",
        "text_config": _llama(tokens, "qwen2"),
        "vision_config": _vision("internvl_vision", 28, 7),
        "image_token_id": tokens.convert_tokens_to_ids("<IMG_CONTEXT>"),
        "image_seq_length": 4,
    }
    pixels = transformers.models.got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil(
        size={"height": 28, "width": 28}, crop_to_patches=True, min_patches=1, max_patches=4
    )
    template = CHATML.replace("IMAGE", "<IMG_CONTEXT>\n")
    return save(
        folder, config, tokens, pixels, template, {"processor_class": "InternVLProcessor", "image_seq_length": 4}
    )


def _idefics(folder: Path, model_type: str, processor: str, pixels: Any) -> Path:
    cells = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokens = tokenizer(
        "<end_of_utterance>",
        "<pad>",
        "<fake_token_around_image>",
        "<image>",
        "<global-img>",
        *cells,
        bos="<|im_start|>",
    )
    config = {
        "model_type": model_type,
        "text_config": _llama(tokens),
        "vision_config": _vision(f"{model_type}_vision", 28, 7),
        "image_token_id": tokens.convert_tokens_to_ids("<image>"),
        "pad_token_id": tokens.pad_token_id,
        "scale_factor": 2,
    }
    return save(folder, config, tokens, pixels, IDEFICS, {"processor_class": processor, "image_seq_len": 4})


def idefics3(folder: Path) -> Path:
    pixels = transformers.models.idefics3.image_processing_pil_idefics3.Idefics3ImageProcessorPil(
        size={"longest_edge": 56}, max_image_size={"longest_edge": 28}
    )
    return _idefics(folder, "idefics3", "Idefics3Processor", pixels)


def smolvlm(folder: Path) -> Path:
    pixels = transformers.models.smolvlm.image_processing_pil_smolvlm.SmolVLMImageProcessorPil(
        size={"longest_edge": 56}, max_image_size={"longest_edge": 28}
    )
    return _idefics(folder, "smolvlm", "SmolVLMProcessor", pixels)


def _siglip_pixels(kind: Any, size: int, **more: Any) -> Any:
    return kind(size={"height": size, "width": size}, **more)


def gemma3(folder: Path) -> Path:
    tokens = tokenizer(
        "<eos>",
        "<pad>",
        "<start_of_turn>",
        "<end_of_turn>",
        bos="<bos>",
        boi_token="<start_of_image>",
        eoi_token="<end_of_image>",
        image_token="<image_soft_token>",
    )
    number = tokens.convert_tokens_to_ids
    config = {
        "model_type": "gemma3",
        "text_config": _llama(
            tokens,
            "gemma3_text",
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=16,
            layer_types=["sliding_attention", "full_attention"],
        ),
        "vision_config": _vision("siglip_vision_model", 28, 7, vision_use_head=False),
        "mm_tokens_per_image": 4,
        "tie_word_embeddings": False,  # tied, a random model repeats the last token
        "boi_token_index": number("<start_of_image>"),
        "eoi_token_index": number("<end_of_image>"),
        "image_token_index": number("<image_soft_token>"),
    }
    pixels = _siglip_pixels(transformers.models.gemma3.image_processing_pil_gemma3.Gemma3ImageProcessorPil, 28)
    return save(folder, config, tokens, pixels, GEMMA, {"processor_class": "Gemma3Processor", "image_seq_length": 4})


def paligemma(folder: Path) -> Path:
    tokens = tokenizer("<eos>", "<pad>", bos="<bos>", image_token="<image>")
    config = {
        "model_type": "paligemma",
        "text_config": _llama(tokens, "gemma", head_dim=16),
        "vision_config": _vision("siglip_vision_model", 28, 7, vision_use_head=False, projection_dim=64),
        "image_token_index": tokens.convert_tokens_to_ids("<image>"),
        "projection_dim": 64,
        "hidden_size": 64,
        "tie_word_embeddings": False,
    }
    module = transformers.models.siglip.image_processing_pil_siglip
    pixels = _siglip_pixels(module.SiglipImageProcessorPil, 28, image_seq_length=16)
    return save(folder, config, tokens, pixels, None, {"processor_class": "PaliGemmaProcessor"})


def _qformer(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": 700,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "encoder_hidden_size": 32,
        **more,
    }


def blip_2(folder: Path) -> Path:
    tokens = tokenizer("</s>", "<pad>", "<image>", bos="<s>")
    text = {
        "model_type": "opt",
        "vocab_size": len(tokens),
        "hidden_size": 64,
        "ffn_dim": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "word_embed_proj_dim": 64,
        "max_position_embeddings": 512,
        "bos_token_id": tokens.bos_token_id,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad_token_id,
    }
    config = {
        "model_type": "blip-2",
        "text_config": text,
        "vision_config": _vision("blip_2_vision_model", 28, 7),
        "qformer_config": _qformer(model_type="blip_2_qformer"),
        "num_query_tokens": 4,
        "image_token_index": tokens.convert_tokens_to_ids("<image>"),
    }
    module = transformers.models.blip.image_processing_pil_blip
    processor = {"processor_class": "Blip2Processor", "num_query_tokens": 4}
    return save(folder, config, tokens, _siglip_pixels(module.BlipImageProcessorPil, 28), None, processor)


def blip_2_t5(folder: Path) -> Path:
    """Not among FAMILIES: its language model has an encoder and a decoder."""
    blip_2(folder)
    tokens = tokenizer("</s>", "<pad>", "<image>", bos="<s>")
    text = {
        "model_type": "t5",
        "vocab_size": len(tokens),
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 128,
        "num_layers": 2,
        "num_heads": 4,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad_token_id,
        "decoder_start_token_id": tokens.pad_token_id,
    }
    config = {**json.loads((folder / "config.json").read_text()), "text_config": text}
    del config["use_decoder_only_language_model"]
    module = transformers.models.blip.image_processing_pil_blip
    processor = {"processor_class": "Blip2Processor", "num_query_tokens": 4}
    return save(folder, config, tokens, _siglip_pixels(module.BlipImageProcessorPil, 28), None, processor)


def instructblip(folder: Path) -> Path:
    tokens = tokenizer("</s>", "<pad>", "<image>", bos="<s>")
    config = {
        "model_type": "instructblip",
        "text_config": _llama(tokens),
        "vision_config": _vision("instructblip_vision_model", 28, 7),
        "qformer_config": _qformer(model_type="instructblip_qformer"),
        "num_query_tokens": 4,
        "image_token_index": tokens.convert_tokens_to_ids("<image>"),
    }
    module = transformers.models.blip.image_processing_pil_blip
    processor = {"processor_class": "InstructBlipProcessor", "num_query_tokens": 4}
    save(folder, config, tokens, _siglip_pixels(module.BlipImageProcessorPil, 28), None, processor)
    tokens.save_pretrained(folder / "qformer_tokenizer")
    return folder


def mllama(folder: Path) -> Path:
    tokens = tokenizer(
        "<|eot_id|>",
        "<|finetune_right_pad_id|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|python_tag|>",
        "<|image|>",
        bos="<|begin_of_text|>",
    )
    image = tokens.convert_tokens_to_ids("<|image|>")
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_global_layers": 1,
        "attention_heads": 2,
        "image_size": 28,
        "patch_size": 7,
        "intermediate_layers_indices": [0, 1],
        "vision_output_dim": 96,
    }
    config = {
        "model_type": "mllama",
        "text_config": _llama(tokens, "mllama_text_model", num_hidden_layers=3, cross_attention_layers=[1]),
        "vision_config": vision,
        "image_token_index": image,
    }
    pixels = transformers.models.mllama.image_processing_pil_mllama.MllamaImageProcessorPil(
        size={"height": 28, "width": 28}, max_image_tiles=4
    )
    return save(folder, config, tokens, pixels, LLAMA, {"processor_class": "MllamaProcessor"})


FAMILIES: dict[str, Callable[[Path], Path]] = {
    build.__name__: build
    for build in (
        qwen2_vl,
        qwen2_5_vl,
        qwen3_vl,
        llava,
        llava_next,
        llava_onevision,
        internvl,
        idefics3,
        smolvlm,
        gemma3,
        paligemma,
        blip_2,
        instructblip,
        mllama,
    )
}
