"""A model whose robustness is known: simulated runs on changed images and questions, and the truth about them.

A question is answered rightly if t + patient + question + rest is above 0: normal numbers of the variances PATIENT,
QUESTION and the rest of 1, of which only the rest differs between runs; so the share of right answers is Phi(t). A
wrong answer is always the same letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from math import sqrt
from pathlib import Path
from statistics import NormalDist

import numpy as np
import PIL.Image
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from medvqa import metrics
from medvqa.backend import Backend
from medvqa.comparing import Side
from medvqa.items import Answer, Benchmark, Image, Item, Prompt, Result, Score
from support.runs import record

PATIENT, QUESTION = 0.2, 0.5
CLEAN = 0.8
CURVE: Mapping[str, float] = {f"gaussian_noise:{k}": right for k, right in enumerate((0.79, 0.75, 0.68, 0.6, 0.5), 1)}
"""The share of right answers by level; that of the clean run is CLEAN."""
FORMS: Mapping[str, float] = {"typos:3": 0.76, "irrelevant_context:3@cacc6f92": 0.8, "false_premise@ab12cd34": 0.72}
MEAN = float(np.mean(list(CURVE.values())))


def score(item: Item, answer: Answer) -> Score:
    right = answer.text in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text,))


WARD = Benchmark(
    name="ward",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question, item.images, item=item.id),
    score=score,
    metrics=(metrics.accuracy, metrics.invalid_rate),
    headline=("accuracy",),
    dimensions=(),
)


def consistency(*right: float) -> float:
    """The share of questions with the same answer in runs with these shares of right answers."""
    nodes = np.linspace(-8, 8, 4001)
    inside = ndtri(np.array(right))[:, None] + sqrt(PATIENT + QUESTION) * nodes
    chance = ndtr(inside / sqrt(1 - PATIENT - QUESTION))
    return float(np.average(chance.prod(axis=0) + (1 - chance).prod(axis=0), weights=norm.pdf(nodes)))


def items(number: int, each: int) -> list[Item]:
    """Questions of patients, `each` of a patient."""
    return [
        Item(
            f"q{n:04}", "ward", "single_choice", f"Which? {n}", {"A": "a", "B": "b"}, ("A",),
            (Image(f"{n}.png", digest=f"{n}"),), cluster_id=f"p{n // each}",
        )
        for n in range(number)
    ]  # fmt: skip


def side(
    name: str, results: list[Result], perturb: str = "", ablation: str = "", model: str = "known", **protocol: bool
) -> Side:
    """A run of a model with these results."""
    changed = {name: text for name, text in (("perturb", perturb), ("ablation", ablation)) if text}
    run = {
        "model": {"name": model, "fingerprint": model},
        "benchmarks": {"ward": {"signature": {"data": "1", **changed}, "prompts": {"mc": "plain@1"}}},
        "protocol": {"perturb": perturb, **protocol},
        "ablation": ablation or None,
    }
    return Side(name, record(run), tuple(metrics.latest(results)))


def result(item: Item, text: str) -> Result:
    """A result by its answer: another letter than those of the options is an outcome."""
    if text in item.options:
        return Result("run", item, "", Answer(text), score(item, Answer(text)))
    if text == "E":
        return Result("run", item, "", None, Score(None, "error"))
    return Result("run", item, "", Answer(text), Score(0.0, {"R": "refused", "T": "abstained"}.get(text, "unparsed")))


def runs(right: Mapping[str, float], number: int, each: int, draw: np.random.Generator) -> list[Side]:
    """Simulated runs by their perturbation, "" for the clean one, on `number` questions, `each` of a patient."""
    asked = items(number, each)
    patient = draw.standard_normal(-(-number // each))[np.arange(number) // each]
    common = sqrt(PATIENT) * patient + sqrt(QUESTION) * draw.standard_normal(number)
    sides = []
    for perturb, share in right.items():
        rest = sqrt(1 - PATIENT - QUESTION) * draw.standard_normal(number)
        correct = ndtri(share) + common + rest > 0
        answers = [result(item, "A" if own else "B") for item, own in zip(asked, correct.tolist(), strict=True)]
        sides.append(side(perturb or "clean", answers, perturb))
    return sides


def _chance(*names: object) -> float:
    """A normal number that follows from the names."""
    digest = sha256(repr(names).encode()).digest()
    return NormalDist().inv_cdf((int.from_bytes(digest[:8]) + 0.5) / 2**64)


class KnownModel(Backend):
    """Answers rightly with the chances of CLEAN and CURVE, by the alteration of the image; a grey image is a guess."""

    sends_to = None

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer("A" if self._right(prompt) else "B") for prompt in prompts]

    def _right(self, prompt: Prompt) -> bool:
        (image,) = prompt.images
        changed = "" if image.alteration is None else f"{image.alteration.name}:{image.alteration.level}"
        share = 0.5 if image.blank else CURVE.get(changed, CLEAN)
        rest = sqrt(1 - PATIENT - QUESTION) * _chance(prompt.item, changed, image.blank)
        return bool(ndtri(share) + sqrt(PATIENT + QUESTION) * _chance(prompt.item) + rest > 0)


def pictured(folder: Path, number: int) -> Benchmark:
    """WARD with questions about images of their own."""
    asked = []
    for n, item in enumerate(items(number, 1)):
        path = folder / item.images[0].name
        PIL.Image.new("L", (8, 8), n % 256).save(path)
        asked.append(replace(item, images=(Image(path.name, str(path)),)))
    return replace(WARD, items=lambda data: asked)
