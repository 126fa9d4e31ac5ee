"""A model whose robustness is known: simulated runs on changed images and questions, and the truth about them.

A question is answered rightly if t + patient + question + rest is above 0: normal numbers of the variances PATIENT,
QUESTION and the rest of 1, of which only the rest differs between runs; so the share of right answers is Phi(t). A
wrong answer is always the same letter.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from medvqa import metrics
from medvqa.comparing import Side
from medvqa.items import Answer, Benchmark, Image, Item, Prompt, Result, Score
from support.runs import record

PATIENT, QUESTION = 0.2, 0.5
CLEAN = 0.8
CURVE: Mapping[str, float] = {f"gaussian_noise:{k}": right for k, right in enumerate((0.79, 0.75, 0.68, 0.6, 0.5), 1)}
"""The share of right answers by level; that of the clean run is CLEAN."""
FORMS: Mapping[str, float] = {"typos:3": 0.76, "irrelevant_context:3": 0.8, "false_premise": 0.72}
MEAN = float(np.mean(list(CURVE.values())))


def score(item: Item, answer: Answer) -> Score:
    right = answer.text in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text,))


WARD = Benchmark(
    name="ward",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
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
    return float(np.trapezoid((chance.prod(axis=0) + (1 - chance).prod(axis=0)) * norm.pdf(nodes), nodes))


def items(number: int, each: int) -> list[Item]:
    """Questions of patients, `each` of a patient."""
    return [
        Item(
            f"q{n:04}", "ward", "single_choice", f"Which? {n}", {"A": "a", "B": "b"}, ("A",),
            (Image(f"{n}.png", digest=f"{n}"),), cluster_id=f"p{n // each}",
        )
        for n in range(number)
    ]  # fmt: skip


def side(name: str, results: list[Result], perturb: str = "", ablation: str = "", **protocol: bool) -> Side:
    """A run of one model with these results."""
    signature = {
        "data": "1",
        **({"perturb": perturb} if perturb else {}),
        **({"ablation": ablation} if ablation else {}),
    }
    run = {
        "model": {"name": "known", "fingerprint": "known"},
        "benchmarks": {"ward": {"signature": signature, "prompts": {"mc": "plain@1"}}},
        "protocol": {**({"perturb": perturb} if perturb else {}), **protocol},
        **({"ablation": ablation} if ablation else {}),
    }
    return Side(name, record(run), tuple(metrics.latest(results)))


def result(item: Item, text: str) -> Result:
    """A result by its answer: another letter than those of the options is an outcome."""
    if text in item.options:
        return Result("run", item, "", Answer(text), score(item, Answer(text)))
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
