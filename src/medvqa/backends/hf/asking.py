"""Ask a loaded model by each technique: tensors in, texts and log-probabilities out.

The hooks that `generate` itself calls between two tokens (`prepare_inputs_for_generation` and the like) continue a
prefix (the prompt with its images). Models override them for their positions, masks or token types, so nothing here
depends on the model.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medvqa.backends.hf.loading import Loaded


@dataclass(frozen=True, slots=True)
class Generated:
    """New text of one prompt; `tokens`: their number, with the end token; `ended`: whether there is an end token."""

    text: str
    tokens: int
    ended: bool


@dataclass(frozen=True, slots=True)
class Continued:
    """New tokens of each prompt on the host, and what ends a text."""

    rows: list[list[int]]
    ends: frozenset[int | None]


@dataclass(slots=True)
class _Prefix:
    """The state of a model after its prompts, for continuing them more than once."""

    state: dict[str, Any]
    lengths: dict[int, int] = field(default_factory=dict)
    """Length of each layer's cache that is cut back after an option, by the layer's number."""
    copies: dict[int, Any] = field(default_factory=dict)
    """The other layers, of which each option gets a copy."""

    @property
    def cache(self) -> Any:
        """The layers' keys and values."""
        return self.state["past_key_values"]


class CheckpointAsker:
    """Asks one model. Keeps state between the passes of a call, so only one thread at a time may use it."""

    def __init__(self, loaded: Loaded) -> None:
        """Take the model."""
        self._model = loaded.model
        # Two threads cannot share a Rust tokenizer: this copy decodes while the other encodes the next batch.
        self._tokenizer = copy.deepcopy(loaded.tokenizer)
        self._encodes = loaded.encodes
        self._device = loaded.device
        taken = inspect.signature(loaded.model.forward).parameters
        self._takes_positions = "position_ids" in taken or any(p.kind is p.VAR_KEYWORD for p in taken.values())
        self._trims_logits = "logits_to_keep" in taken

    def staged(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs as they are copied to the device, made ahead: pixels in the model's type, and pinned for a GPU."""
        dtype = self._model.dtype
        typed = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
        return {name: value.pin_memory() for name, value in typed.items()} if self._device == "cuda" else typed

    def generate(self, inputs: Mapping[str, Any], config: Any, max_tokens: int | None = None) -> Continued:
        """Continue each prompt until its end token, or by `max_tokens`; None: the config's limit."""
        import torch

        if max_tokens is not None:
            config = copy.deepcopy(config)
            config.max_new_tokens = max_tokens
        with torch.inference_mode():
            output = self._model.generate(**self._placed(inputs), generation_config=config).cpu()
        prompts = inputs["input_ids"]
        width = prompts.shape[1]
        if self._encodes:
            output = output[:, 1:]  # the decoder's start
        elif output.shape[1] >= width and bool((output[:, :width] == prompts).all()):
            output = output[:, width:]
        ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        return Continued(output.tolist(), frozenset(ends))

    def decoded(self, continued: Continued) -> list[Generated]:
        """The texts of continued prompts; needs no device."""
        answers = []
        for row in continued.rows:
            end = next((number for number, token in enumerate(row) if token in continued.ends), None)
            tokens = row if end is None else row[:end]
            text = self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            answers.append(Generated(text, len(tokens) + (end is not None), end is not None))
        return answers

    def next_token(self, inputs: Mapping[str, Any], tokens: Sequence[Sequence[int]]) -> list[list[float]]:
        """Natural log-probabilities, over the whole vocabulary, of `tokens[row]` as next tokens of each prompt."""
        import torch

        with torch.inference_mode():
            logits, _ = self._prefix(self._placed(inputs))
            scores = torch.log_softmax(logits, dim=-1)
            return [scores[row, list(wanted)].tolist() for row, wanted in enumerate(tokens)]

    def likelihoods(self, inputs: Mapping[str, Any], options: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        """The mean natural log-probability of the tokens of each option, `options[row][option]`, after its prompt.

        The prompts run once, and each option continues their cache, which is then cut back to the prompts. For models
        without a cache, prompt and option run together.
        """
        import torch

        with torch.inference_mode():
            placed = self._placed(inputs)
            logits, kept = self._prefix(placed)
            first = torch.log_softmax(logits, dim=-1)
            scores: list[list[float]] = [[] for _ in options]
            for number in range(max(map(len, options))):
                rows = [option[number] if number < len(option) else () for option in options]
                following = self._continued(placed, kept, rows) if max(map(len, rows)) > 1 else None
                for row, tokens in enumerate(rows):
                    if tokens:
                        total = first[row, tokens[0]].double()
                        if following is not None and len(tokens) > 1:
                            steps = torch.log_softmax(following[row, : len(tokens) - 1].float(), dim=-1)
                            rest = torch.tensor(tokens[1:], device=steps.device)
                            total = total + steps.gather(1, rest[:, None]).double().sum()
                        scores[row].append(total.item() / len(tokens))
            return scores

    def _placed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Staged inputs on the model's device; the host does not wait for a copy from pinned memory."""
        device = self._model.device
        return {name: value.to(device, non_blocking=True) for name, value in inputs.items()}

    def _prefix(self, inputs: Mapping[str, Any]) -> tuple[Any, _Prefix | None]:
        """Logits (rows, vocabulary) after each prompt, and its state for continuing; None without a cache."""
        state = dict(inputs)
        ids = state.pop("input_ids")
        if self._takes_positions:
            state["position_ids"] = self._model._prepare_position_ids_for_generation(ids, {**state, "input_ids": ids})
        if self._trims_logits:
            state["logits_to_keep"] = 1
        ready = self._model.prepare_inputs_for_generation(ids, is_first_iteration=True, use_cache=True, **state)
        output = self._model(**ready, return_dict=True)
        state.pop("logits_to_keep", None)
        cache = output.get("past_key_values")
        return output.logits[:, -1].float(), None if cache is None else _Prefix({**state, "past_key_values": cache})

    def _continued(self, inputs: Mapping[str, Any], kept: _Prefix | None, rows: Sequence[Sequence[int]]) -> Any:
        """Logits (rows, longest - 1, vocabulary) after each token of `rows` but the last; `rows` follow the prompts."""
        import torch

        ids = inputs["input_ids"]
        width = max(map(len, rows)) - 1
        new = torch.zeros((len(rows), width), dtype=ids.dtype)
        real = torch.zeros_like(new)
        for row, tokens in enumerate(rows):
            count = max(len(tokens) - 1, 0)
            new[row, :count] = torch.tensor(tokens[:count], dtype=ids.dtype)
            real[row, :count] = 1
        whole = torch.cat([ids, new.to(ids.device)], dim=1)
        state = dict(inputs) if kept is None else dict(kept.state)
        state.pop("input_ids", None)
        if kept is None and self._takes_positions:
            state["position_ids"] = self._model._prepare_position_ids_for_generation(ids, {**state, "input_ids": ids})
        state = self._model._update_model_kwargs_for_generation(
            {}, state, is_encoder_decoder=False, num_new_tokens=width
        )
        state["attention_mask"][:, -width:] = real.to(ids.device)
        if self._trims_logits:
            state["logits_to_keep"] = width
        if kept is None:
            ready = self._model.prepare_inputs_for_generation(whole, is_first_iteration=True, use_cache=False, **state)
        else:
            state["past_key_values"] = _continuable(kept, width)
            ready = self._model.prepare_inputs_for_generation(
                whole, next_sequence_length=width, is_first_iteration=False, use_cache=True, **state
            )
        logits = self._model(**ready, return_dict=True).logits[:, -width:]
        if kept is not None:
            _cut_back(kept)
        return logits


def _continuable(prefix: _Prefix, width: int) -> Any:
    """The cache of the prompts, ready for `width` more tokens and `_cut_back`.

    A layer with all past keys grows by joining tensors, and can be cut back. Others forget or overwrite what they held
    (sliding windows that are full, states of linear attention, layers of the checkpoint's own code), so that they are
    copied; so is a cache of another kind as a whole.
    """
    from transformers import cache_utils

    cache = prefix.cache
    if type(cache) is not cache_utils.DynamicCache:
        return copy.deepcopy(cache)
    prefix.lengths, prefix.copies = {}, {}
    for number, layer in enumerate(cache.layers):
        kind = type(layer)
        slides = kind is cache_utils.DynamicSlidingWindowLayer
        if kind is cache_utils.DynamicLayer or (slides and layer.get_seq_length() + width < layer.sliding_window):
            prefix.lengths[number] = layer.get_seq_length()
        else:
            prefix.copies[number] = copy.deepcopy(layer)
    return cache


def _cut_back(prefix: _Prefix) -> None:
    """Make the cache what it was before an option, without a copy of what could be cut."""
    for number, length in prefix.lengths.items():
        layer = prefix.cache.layers[number]
        # Layers of cross-attention, which hold an image, do not grow.
        if added := layer.get_seq_length() - length:
            layer.crop(-added)
    for number, layer in prefix.copies.items():
        prefix.cache.layers[number] = layer
