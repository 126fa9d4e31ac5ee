"""phantom-vlm: a tiny vision-language model, trained on phantoms of other seeds than the one that ships.

    python -m tools.vlm models/phantom-vlm

It needs torch and transformers, and is written so that it can be read as a small course: `data` draws the images,
`lessons` makes prompts of them, `architecture` puts the model together, `training` teaches it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.questions import SHIPPED_SEED
from tools.vlm import architecture, data, lessons, training

__all__ = ["Recipe", "save", "train"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How many phantoms are drawn, and how many steps each part of the training has."""

    phantoms: int = 300
    see: int = 1500
    words: int = 500
    letters: int = 500
    last: int = 250
    seed: int = 1

    @property
    def seeds(self) -> range:
        """Those of the phantoms: the ones that follow the shipped one."""
        return range(SHIPPED_SEED + 1, SHIPPED_SEED + 1 + self.phantoms)


def train(folder: Path, recipe: Recipe, *, threads: int = 1, say: Callable[[str], None] = print) -> None:
    """Train a model by the recipe and write its checkpoint, and what made it, into the folder.

    `minutes` of what made it is CPU time, without that of other processes that draw. The same recipe gives the same
    weights on the same kind of machine with the same versions, not on others.
    """
    import torch
    import transformers

    torch.set_num_threads(threads)
    torch.manual_seed(recipe.seed)
    start = time.process_time()
    lesson = data.phantoms(recipe.seeds, threads)
    say(f"{len(lesson.images)} images, {len(lesson.asked)} questions")
    processor = architecture.processor(lessons.texts(lesson.asked))
    model = architecture.model(processor)
    say(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters")
    training.see(model, lesson, steps=recipe.see, rate=2e-3, seed=recipe.seed, say=say)
    seen = training.look(model, lesson.images)
    parts = (
        (training.WORDS, recipe.words, 2e-3),
        (training.LETTERS_TOO, recipe.letters, 2e-3),
        (training.LAST, recipe.last, 1.5e-3),
    )
    for number, (mix, steps, rate) in enumerate(parts):
        say(str(mix))
        seed = recipe.seed + number
        training.answer(model, processor, lesson.asked, seen, mix, steps=steps, rate=rate, seed=seed, say=say)
    save(model, processor, folder)
    made = {
        "recipe": asdict(recipe),
        "minutes": round((time.process_time() - start) / 60, 1),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (folder / "training.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    say(f"{made['minutes']} minutes of CPU time")


def save(model: Any, processor: Any, folder: Path) -> None:
    """Write the checkpoint: weights in bfloat16, to be computed with in float32 as the config says."""
    folder.mkdir(parents=True, exist_ok=True)
    model.eval()
    weights = {name: weight.bfloat16() for name, weight in model.state_dict().items()}
    del weights["lm_head.weight"]  # tied to the words' embeddings
    model.save_pretrained(folder, state_dict=weights)
    processor.save_pretrained(folder)
