"""How phantom-vlm learns: first to see, then to answer in words, then by letters."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from medvqa.items import CHOICE_KINDS
from tools.questions import LETTERS
from tools.vlm import lessons
from tools.vlm.architecture import END, IMAGE_TOKENS
from tools.vlm.data import Asked, Lesson, Pixels

if TYPE_CHECKING:
    from torch import Tensor, nn

Say = Callable[[str], None]
BATCH = 32
IGNORED = -100
"""Label of a token whose prediction is not practised."""


def pixels(images: Pixels) -> Tensor:
    """What the image processor makes of images of the right size: (N, 3, H, W), in [-1, 1]."""
    import torch

    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def see(model: Any, lesson: Lesson, *, steps: int, rate: float, seed: int, say: Say) -> None:
    """Teach the vision tower alone, by a head that is thrown away.

    For each question the head has four queries that gather from the image tokens what matters to it, and a linear
    classifier over all answers that it ever has. No language has to be learned on the way, and no text is computed.
    """
    import torch
    from torch.nn import functional

    asked = [one for one in lesson.asked if one.picture is not None]
    questions = {question: number for number, question in enumerate(sorted({one.item.question for one in asked}))}
    texts = {(one.item.question, text) for one in asked for text in _answers(one)}
    answers = {pair: number for number, pair in enumerate(sorted(texts))}
    of_question = torch.tensor([questions[question] for question, _ in answers])
    head = _head(model.config.vision_config.hidden_size, len(questions), len(answers))

    def loss(batch: Sequence[Asked]) -> Tensor:
        which = torch.tensor([questions[one.item.question] for one in batch])
        right = torch.zeros(len(batch), len(answers))
        for row, one in enumerate(batch):
            for text in _answers(one):
                right[row, answers[one.item.question, text]] = 1
        seen = model.model.vision_tower(
            pixels(lesson.images[_pictures(batch)]), output_hidden_states=True
        ).hidden_states[-1]
        scores = head(seen, which).float()
        own = of_question[None] == which[:, None]
        single = -(functional.log_softmax(scores.masked_fill(~own, -1e4), 1) * right).sum(1)
        each = functional.binary_cross_entropy_with_logits(scores, right, reduction="none")
        several = 2 * (each * own).sum(1) / own.sum(1)
        return torch.where(right.sum(1) > 1, several, single).mean()

    def batches() -> Iterator[Sequence[Asked]]:
        rng = np.random.default_rng((seed, 1))
        while True:
            yield [asked[number] for number in rng.integers(len(asked), size=4 * BATCH)]

    _optimize([model.model.vision_tower, head], loss, batches(), steps=steps, rate=rate, say=say)


def _pictures(batch: Sequence[Asked | lessons.Exercise]) -> list[int]:
    return [one.picture for one in batch if one.picture is not None]


def _answers(asked: Asked) -> list[str]:
    item = asked.item
    return [item.options.get(answer, answer) for answer in item.answers]


def look(model: Any, images: Pixels) -> Tensor:
    """What the vision tower makes of the images: (N, 16, C), in bfloat16."""
    import torch

    model.eval()
    seen = []
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        for start in range(0, len(images), 8 * BATCH):
            output = model.model.vision_tower(pixels(images[start : start + 8 * BATCH]), output_hidden_states=True)
            seen.append(output.hidden_states[-1].bfloat16())
    return torch.cat(seen).clone()


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of a batch: answers in words, prompts of the benchmarks, letters copied from the question."""

    words: float
    benchmark: float
    copying: float


WORDS = Mix(words=0.7, benchmark=0.0, copying=0.3)
"""At first no picture is asked about by letters; what a letter is for shows in copying, at less expense."""
LETTERS_TOO = Mix(words=0.25, benchmark=0.6, copying=0.15)
LAST = Mix(words=0.7, benchmark=0.3, copying=0.0)


def answer(
    model: Any,
    processor: Any,
    asked: Sequence[Asked],
    seen: Tensor,
    mix: Mix,
    *,
    steps: int,
    rate: float,
    seed: int,
    say: Say,
) -> None:
    """Teach the language model to answer about what the vision tower has `seen`, which is left as it is.

    Where options stand in the prompt, the end of each option's line has two more things to tell, through heads that
    are thrown away: its letter, and whether it is right. A model that knows both there has only to look them up.
    (In half an hour it does not come to that: see the card of the checkpoint.)
    """
    import torch
    from torch import nn
    from torch.nn import functional

    width, depth = model.config.text_config.hidden_size, model.config.text_config.num_hidden_layers
    letter_head, right_head = nn.Linear(width, len(LETTERS)), nn.Linear(width, 1)

    def loss(batch: Sequence[lessons.Exercise]) -> Tensor:
        ready = collate(processor, batch)
        pictures = _pictures(batch)
        words = model.get_input_embeddings()(ready.tokens)
        if pictures:
            images = model.model.multi_modal_projector(seen[pictures])
            here = (ready.tokens == model.config.image_token_id)[..., None]
            words = words.masked_scatter(here, images.to(words.dtype))
        output = model.model.language_model(inputs_embeds=words, output_hidden_states=True)
        practised = ready.labels != IGNORED
        # What stands before a token predicts it; only those positions go through the large matrix of words.
        before = torch.roll(practised, -1, 1)
        scores = model.lm_head(output.last_hidden_state[before]).float()
        total = functional.cross_entropy(scores, ready.labels[practised])
        if len(ready.rows):
            at = ready.rows, ready.columns
            letters = letter_head(output.hidden_states[depth - 2][at]).float()
            rights = right_head(output.hidden_states[depth - 1][at]).float()[:, 0]
            total = total + 0.2 * functional.cross_entropy(letters, ready.letters)
            total = total + functional.binary_cross_entropy_with_logits(rights, ready.rights)
        return total

    def batches() -> Iterator[Sequence[lessons.Exercise]]:
        rng = np.random.default_rng((seed, 2))
        stock = _Stock.of(asked)
        for number in range(steps):
            # Exercises of like length share a batch: less padding.
            if number % 8 == 0:
                window = stock.draw(mix, 8 * BATCH, rng)
                window.sort(key=lambda one: len(one.prompt.text) + 1000 * (one.picture is not None))
                order = iter(rng.permutation(8).tolist())
            start = next(order) * BATCH
            yield window[start : start + BATCH]

    learning = [model.model.multi_modal_projector, model.model.language_model, letter_head, right_head]
    _optimize(learning, loss, batches(), steps=steps, rate=rate, say=say)


@dataclass(frozen=True, slots=True)
class _Stock:
    """The questions of a lesson by what can be practised with them."""

    asked: tuple[Asked, ...]
    single: tuple[Asked, ...]
    choices: tuple[Asked, ...]
    pools: dict[str, list[str]]
    texts: list[str]

    @classmethod
    def of(cls, asked: Sequence[Asked]) -> _Stock:
        single = tuple(one for one in asked if len(one.item.answers) == 1)
        choices = tuple(one for one in asked if one.item.kind in CHOICE_KINDS)
        pools = lessons.pools_of(choices)
        texts = sorted({text for pool in pools.values() for text in pool})
        return cls(tuple(asked), single, choices, pools, texts)

    def draw(self, mix: Mix, count: int, rng: Generator) -> list[lessons.Exercise]:
        shares = np.array([mix.words, mix.benchmark, mix.copying])
        return [self._one(int(kind), rng) for kind in rng.choice(3, count, p=shares / shares.sum())]

    def _one(self, kind: int, rng: Generator) -> lessons.Exercise:
        if kind == 0:
            return lessons.by_text(self.single[int(rng.integers(len(self.single)))], rng)
        if kind == 2:
            return lessons.copying(self.choices, self.texts, rng)
        asked = self.asked[int(rng.integers(len(self.asked)))]
        return lessons.as_benchmark(
            lessons.rearranged(asked, self.pools, rng) if asked.item.kind in CHOICE_KINDS else asked
        )


@dataclass(frozen=True, slots=True)
class Ready:
    """A batch for the model, padded on the right: `tokens` and `labels` (N, L); for each line of options where it
    ends (`rows`, `columns`), its letter's number and whether it is right."""

    tokens: Tensor
    labels: Tensor
    rows: Tensor
    columns: Tensor
    letters: Tensor
    rights: Tensor


def collate(processor: Any, batch: Sequence[lessons.Exercise]) -> Ready:
    """Tokens of prompts and answers."""
    import torch

    tokenizer = processor.tokenizer
    asked = [lessons.chat(processor, one.prompt, picture=one.picture is not None) for one in batch]
    prompts = tokenizer(asked, add_special_tokens=False)
    replies = tokenizer([one.answer + END for one in batch], add_special_tokens=False)["input_ids"]
    length = max(len(a) + len(b) for a, b in zip(prompts["input_ids"], replies, strict=True))
    tokens = torch.full((len(batch), length), tokenizer.pad_token_id)
    labels = torch.full((len(batch), length), IGNORED)
    rows, columns, letters, rights = [], [], [], []
    for row, (one, text, reply) in enumerate(zip(batch, asked, replies, strict=True)):
        ids = prompts["input_ids"][row]
        tokens[row, : len(ids) + len(reply)] = torch.tensor(ids + reply)
        labels[row, len(ids) : len(ids) + len(reply)] = torch.tensor(reply)
        offset = text.index(one.prompt.text)
        for letter, right, end in one.lines:
            rows.append(row)
            columns.append(prompts.char_to_token(row, offset + end))
            letters.append(LETTERS.index(letter))
            rights.append(float(right))
    return Ready(tokens, labels, *map(torch.tensor, (rows, columns, letters, rights)))


def _head(width: int, questions: int, answers: int) -> Any:
    import torch
    from torch import nn
    from torch.nn import functional

    class Head(nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.queries = nn.Parameter(0.5 * torch.randn(questions, 4, width // 4))
            self.places = nn.Parameter(0.02 * torch.randn(IMAGE_TOKENS, width))
            self.norm = nn.LayerNorm(width)
            self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)
            self.more = nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
            )
            self.last = nn.LayerNorm(width)
            self.out = nn.Linear(width, answers)

        def forward(self, seen: Tensor, which: Tensor) -> Tensor:
            seen = self.norm(seen + self.places)
            keys, values = (part(seen).unflatten(2, (4, -1)).transpose(1, 2) for part in (self.key, self.value))
            queries = self.queries[which][:, :, None].to(keys.dtype)
            found = functional.scaled_dot_product_attention(queries, keys, values)[:, :, 0].flatten(1)
            scores: Tensor = self.out(self.last(found + self.more(found)))
            return scores

    return Head()


def _optimize(
    modules: Sequence[nn.Module],
    loss: Callable[[Any], Tensor],
    batches: Iterator[Any],
    *,
    steps: int,
    rate: float,
    say: Say,
) -> None:
    """AdamW with a linear warm-up and a cosine decay, matrix products in bfloat16."""
    import torch

    parameters = [parameter for module in modules for parameter in module.parameters()]
    matrices = [parameter for parameter in parameters if parameter.ndim > 1]
    vectors = [parameter for parameter in parameters if parameter.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    for module in modules:
        module.train()
    start, losses = time.process_time(), []
    for step in range(steps):
        now = min(1.0, (step + 1) / 100) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate * now
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(next(batches))
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(value.item())
        if (step + 1) % 100 == 0 or step + 1 == steps:
            seconds = time.process_time() - start
            say(f"step {step + 1}/{steps}, loss {np.mean(losses[-100:]):.3f}, {seconds:.0f} s of CPU time")
