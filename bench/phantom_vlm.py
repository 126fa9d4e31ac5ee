"""What phantom-vlm can: `python bench/phantom_vlm.py [CHECKPOINT]`, by transformers alone.

The shipped phantom's questions about images, asked with their images, with grey ones of the same size, and with none:
by option likelihood (PS), by the letter that is most likely next (GD), and by what is generated (MC).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image

from medvqa.benchmarks import folders, load, phantom
from medvqa.items import CHOICE_KINDS, Answer, Item
from medvqa.statistics import wilson

BATCH = 16
GREY = (128, 128, 128)
QUESTION_ONLY = "Question: {question} Answer:"
BENCHMARKS = {benchmark.name: benchmark for benchmark in phantom.BENCHMARKS}


@dataclass(frozen=True)
class Model:
    """A checkpoint, and what its questions are shown: "image", "grey" or "none"."""

    model: Any
    processor: Any
    shown: str

    def inputs(self, asked: Sequence[tuple[Item, str, str]], replies: Sequence[str] | None = None) -> Any:
        """Items, system prompts and texts (and the beginning of the reply) as the model's inputs, left-padded."""
        texts, pictures = [], []
        for item, system, text in asked:
            picture = [] if self.shown == "none" else [self._picture(item)]
            content = [{"type": "image"} for _ in picture] + [{"type": "text", "text": text}]
            messages = [{"role": "user", "content": content}]
            if system:
                messages.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
            texts.append(self.processor.apply_chat_template(messages, add_generation_prompt=True))
            pictures += picture
        if replies is not None:
            texts = [text + reply for text, reply in zip(texts, replies, strict=True)]
        return self.processor(text=texts, images=pictures or None, padding=True, return_tensors="pt")

    def _picture(self, item: Item) -> PIL.Image.Image:
        picture = item.images[0].pil()
        return PIL.Image.new("RGB", picture.size, GREY) if self.shown == "grey" else picture

    def letters(self, items: Sequence[Item]) -> Iterator[str]:
        """GD: for each item the option letter that is most likely next."""
        ids = {letter: self.processor.tokenizer.encode(letter, add_special_tokens=False) for letter in "ABCDE"}
        assert all(len(tokens) == 1 for tokens in ids.values()), "each letter is one token"
        for batch in batches(items):
            scores = self.model(**self.inputs([asked(item) for item in batch]), logits_to_keep=1).logits[:, -1]
            for item, row in zip(batch, scores, strict=True):
                yield max(item.options, key=lambda letter: row[ids[letter][0]].item())

    def likeliest(self, items: Sequence[Item]) -> Iterator[str]:
        """PS: for each item the letter of the option whose tokens have the greatest mean log-probability."""
        for item in items:
            texts = list(item.options.values())
            question = (item, "", QUESTION_ONLY.format(question=item.question))
            inputs = self.inputs([question] * len(texts), texts)
            scores = self.model(**inputs).logits.log_softmax(-1)
            means = []
            for row, text in enumerate(texts):
                length = len(self.processor.tokenizer.encode(text, add_special_tokens=False))
                tokens = inputs["input_ids"][row, -length:]
                means.append(scores[row, -length - 1 : -1].gather(1, tokens[:, None]).mean().item())
            yield list(item.options)[means.index(max(means))]

    def replies(self, items: Sequence[Item]) -> Iterator[str]:
        """MC and open questions: what is generated greedily."""
        for batch in batches(items):
            inputs = self.inputs([asked(item) for item in batch])
            out = self.model.generate(**inputs, max_new_tokens=16, do_sample=False)
            yield from self.processor.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def asked(item: Item) -> tuple[Item, str, str]:
    prompt = BENCHMARKS[item.benchmark].prompt(item, "mc")
    return item, prompt.system, prompt.text


def show(name: str, technique: str, shown: str, right: Sequence[float], chance: float | None) -> None:
    count, n = sum(right), len(right)
    low, high = wilson(count, n)
    level = "" if chance is None else f"{100 * chance:6.1f}"
    print(
        f"{name:36} {technique:4} {shown:6} {100 * count / n:6.1f}  {100 * low:5.1f}-{100 * high:5.1f}  {n:4} {level}"
    )


def set_accuracy(items: Sequence[Item], right: Sequence[bool]) -> list[bool]:
    pairs: dict[str, list[bool]] = {}
    for item, hit in zip(items, right, strict=True):
        pairs.setdefault(str(item.pair_id), []).append(hit)
    return [all(hits) for hits in pairs.values()]


def main() -> None:
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, nargs="?", default=folders.bundled("models") / "phantom-vlm")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    model = AutoModelForImageTextToText.from_pretrained(options.checkpoint).eval()
    processor = AutoProcessor.from_pretrained(options.checkpoint)
    start = time.monotonic()
    items = [item for benchmark in BENCHMARKS.values() for item in load(benchmark, Path()) if item.images]
    single = [item for item in items if item.kind == "single_choice"]
    paired = [item for item in single if item.pair_id is not None]
    several = [item for item in items if item.kind == "multiple_response" and "gmai" in item.benchmark]
    lesions = [item for item in items if item.benchmark == "phantom-medlesionvqa"]
    opened = [item for item in lesions if item.kind not in CHOICE_KINDS]

    print(f"{'questions':36} {'by':4} {'shown':6} {'%':>6}  {'95 % interval':11}  {'n':>4} {'chance':>6}")
    for shown in ("image", "grey", "none"):
        asker = Model(model, processor, shown)
        techniques: dict[str, Callable[[Sequence[Item]], Iterator[str]]]
        techniques = {"PS": asker.likeliest, "GD": asker.letters, "MC": asker.replies}
        for technique, ask in techniques.items():
            answers = list(ask(single))
            right = [answer.strip() == item.answers[0] for item, answer in zip(single, answers, strict=True)]
            for name in ("phantom-gmai-mmbench", "phantom-mediconfusion", ""):
                chosen = [(item, hit) for item, hit in zip(single, right, strict=True) if name in item.benchmark]
                chance = sum(1 / len(item.options) for item, _ in chosen) / len(chosen)
                show(f"{name or 'both'}, single choice", technique, shown, [hit for _, hit in chosen], chance)
            hits = [hit for item, hit in zip(single, right, strict=True) if item.pair_id is not None]
            show("phantom-mediconfusion, pairs", technique, shown, set_accuracy(paired, hits), None)
        exact = [
            set(reply.split(",")) == set(item.answers)
            for item, reply in zip(several, asker.replies(several), strict=True)
        ]
        show("phantom-gmai-mmbench, multiple, exact", "MC", shown, exact, 0.1)
        scored = {
            item.id: BENCHMARKS[item.benchmark].score(item, Answer(reply)).value or 0.0
            for item, reply in zip(lesions, asker.replies(lesions), strict=True)
        }
        show(
            "phantom-medlesionvqa, open",
            "MC",
            shown,
            [scored[item.id] for item in opened],
            sum(1 / len(item.extra["vocabulary"]) for item in opened) / len(opened),
        )
        show("phantom-medlesionvqa, mean score", "MC", shown, list(scored.values()), None)
    print(f"{time.monotonic() - start:.0f} s, threads: {options.threads}")


if __name__ == "__main__":
    main()
