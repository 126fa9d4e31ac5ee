"""Assemble the whole prompt of a question: its options rotated, instructions added, its images ablated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from medvqa.items import Ablation, Image, Item, Prompt, Query, Shot, Technique
from medvqa.protocols import ablation, rotation
from medvqa.protocols.protocol import Protocol

Asks = Callable[[Item, Technique], Prompt]
"""A benchmark's prompt function."""


def assembled(
    query: Query,
    asks: Asks,
    protocol: Protocol,
    ablated: Ablation | None = None,
    *,
    images: tuple[Image, ...] | None = None,
    shots: tuple[Shot, ...] = (),
) -> Prompt:
    """Return the prompt of a question as a run sends it, but for the limit of tokens.

    `images` replace those of the item, for --ablate=shuffle. `shots` are its solved examples, before their images are
    ablated.
    """
    item = rotation.rotated(query.item, query.variant.rotation)
    if images is not None:
        item = replace(item, images=images)
    prompt = asks(item, query.technique)
    if protocol.instruction is not None:
        prompt = protocol.instruction.added(prompt)
    if protocol.shots:
        prompt = replace(prompt, shots=shots)
    if query.sample or query.variant.name:
        prompt = replace(prompt, sample=query.sample, variant=query.variant.name)
    if ablated == "text-only":
        return ablation.withhold(prompt)
    return ablation.blank(prompt) if ablated == "blank" else prompt
