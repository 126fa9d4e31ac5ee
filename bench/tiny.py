"""The backend `hf` against a bare loop over transformers, and against asking one prompt at a time.

    OMP_NUM_THREADS=1 python bench/tiny.py --items 128 --rounds 5

A checkpoint of about a quarter of a million parameters (tests/tinies.py) answers questions of four lengths about
images of `--pixels` squared. The bare loop is what one would write: batches in the order of the items, decode,
process, then `generate` (mc), one forward pass (gd), or a forward pass for each option over prompt and option (ps).
The backend gets the same batches and is told of each next one, as the engine does. All are timed in turn; the ratios
are of the medians of `--rounds`, by the clock and by CPU time, which other work on the machine disturbs less.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
import PIL.Image
import torch
import transformers

from medvqa.backend import loaded
from medvqa.backends.hf import HF, HFOptions
from medvqa.items import Answer, Image, Prompt, Technique
from support import tinies

OPTIONS = {"A": "a red circle", "B": "a blue square with a hole", "C": "none", "D": "cannot be determined from it"}
TOKENS = 8


def questions(folder: Path, count: int, side: int, technique: Technique) -> list[Prompt]:
    """Prompts about `count` noisy JPEG images, written into the folder."""
    random = np.random.default_rng(0)
    prompts = []
    for number in range(count):
        path = folder / f"{number}.jpg"
        if not path.exists():
            PIL.Image.fromarray(random.integers(0, 255, (side, side, 3), np.uint8)).save(path)
        text = "Is the lesion in the left lung benign? " * (1 + number % 4)
        prompts.append(Prompt(text, (Image(path.name, str(path)),), options=OPTIONS, technique=technique))
    return prompts


def backend(model: HF, batches: Sequence[Sequence[Prompt]]) -> list[Any]:
    """What the backend says, told of each next batch."""
    said: list[Any] = []
    for number, batch in enumerate(batches):
        if number + 1 < len(batches):
            model.prepare(batches[number + 1])
        answers = [answer for answer in model.generate(batch) if isinstance(answer, Answer)]
        assert len(answers) == len(batch)
        said += [answer.text if answer.option_logprobs is None else best(answer.option_logprobs) for answer in answers]
    return said


def best(scores: Mapping[str, float]) -> str:
    """The letter with the highest score."""
    return max(scores, key=scores.__getitem__)


def bare(model: Any, processor: Any, batches: Sequence[Sequence[Prompt]]) -> list[Any]:
    """What a plain loop over transformers says."""
    tokenizer = processor.tokenizer

    def written(prompt: Prompt) -> str:
        turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt.text}]}
        text: str = processor.apply_chat_template([turn], add_generation_prompt=True)
        return text

    def processed(texts: list[str], pictures: list[Any]) -> Any:
        return processor(text=texts, images=pictures, padding=True, padding_side="left", return_tensors="pt")

    said: list[Any] = []
    for batch in batches:
        pictures = [[PIL.Image.open(prompt.images[0].path).convert("RGB")] for prompt in batch]
        texts = [written(prompt) for prompt in batch]
        letters = list(batch[0].options)
        if batch[0].technique == "ps":
            scores = []
            for option in batch[0].options.values():
                inputs = processed([text + option for text in texts], pictures)
                count = len(tokenizer(option)["input_ids"])
                steps = model(**inputs, logits_to_keep=count + 1).logits[:, :-1].log_softmax(-1)
                scores.append(steps.gather(2, inputs["input_ids"][:, -count:, None])[..., 0].mean(1))
            said += [letters[best] for best in torch.stack(scores).argmax(0).tolist()]
            continue
        inputs = processed(texts, pictures)
        if batch[0].technique == "gd":
            ids = [tokenizer(letter)["input_ids"][0] for letter in letters]
            said += [letters[best] for best in model(**inputs, logits_to_keep=1).logits[:, -1, ids].argmax(-1).tolist()]
        else:
            new = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)[:, inputs["input_ids"].shape[1] :]
            said += tokenizer.batch_decode(new, skip_special_tokens=True)
    return said


def main() -> None:
    """Print a table."""
    asked = harness.options(__doc__, items=128, batch=16, rounds=5, pixels=256)
    print("technique   bare / backend: clock, CPU   one at a time / backend: clock, CPU")
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        path = Path(folder, "tiny")
        tinies.qwen3_vl(path)
        model = loaded(HF(str(path), HFOptions(max_new_tokens=TOKENS)))
        plain = transformers.AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32).eval()
        processor = model._loaded.processor
        techniques: tuple[Technique, ...] = ("mc", "gd", "ps")
        for technique in techniques:
            prompts = questions(Path(folder), asked.items, asked.pixels, technique)
            batches = [prompts[start : start + asked.batch] for start in range(0, len(prompts), asked.batch)]
            ways: list[Callable[[], list[Any]]] = [
                lambda batches=batches: backend(model, batches),  # type: ignore[misc]
                lambda batches=batches: bare(plain, processor, batches),  # type: ignore[misc]
                lambda prompts=prompts: backend(model, [[prompt] for prompt in prompts]),  # type: ignore[misc]
            ]
            (said, *ours), *others = harness.in_turn(ways, asked.rounds)
            assert all(other[0] == said for other in others)
            ratios = [theirs / own for other in others for theirs, own in zip(other[1:], ours, strict=True)]
            print("{:12}{:19.2f}{:9.2f}{:26.2f}{:9.2f}".format(technique, *ratios), flush=True)
        model.close()


if __name__ == "__main__":
    main()
