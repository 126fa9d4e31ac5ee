r"""Variance components of a mean over questions, prompts and samples, from mean squares.

Model, with random and independent effects: the score of question i, asked by prompt p, in sample s of that prompt is

    y_ips = mean + item_i + prompt_p + sample_s(p) + (item prompt)_ip + rest_ips.

Questions are crossed with prompts and with samples; samples are nested in prompts, because sample 1 of one prompt and
sample 1 of another are separate draws. `sample` is the part of a sample that all its questions share, such as a server
that answered otherwise on that day. `rest` is the draw of a single answer. In a complete design of I questions, P
prompts and S samples of each, the mean squares have these expectations (Searle, Casella and McCulloch 1992, Variance
Components, chapter 4):

    MS item          P S item + S (item prompt) + rest
    MS prompt        I S prompt + I sample + S (item prompt) + rest
    MS sample        I sample + rest
    MS item prompt   S (item prompt) + rest
    MS rest          rest

The estimates solve these equations. A negative estimate is set to 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from medvqa.figures import number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of one score, in squared units of the score: for scores from 0 to 1, their sum is at most about 1/4.

    `item`: between questions. `prompt`, `sample`: between prompts, and between samples of a prompt, of the part that
    all questions share. `item_by_prompt`: between prompts, of one question. `rest`: between samples of one question.
    With one prompt, `prompt` and `item_by_prompt` are None and part of the others. With one sample of each prompt,
    `sample` and `item_by_prompt` are None: `sample` is part of `prompt`, and `item_by_prompt` part of `rest`.
    `items`, `prompts` and `samples` are the sizes of the design. `negative` names the components that were estimated
    below 0 and set to 0.
    """

    item: float
    prompt: float | None
    sample: float | None
    item_by_prompt: float | None
    rest: float
    items: int
    prompts: int
    samples: int
    negative: tuple[str, ...] = ()

    def interval(self, items: float = 1, prompts: float = 1, samples: float = 1) -> float:
        """Return the variance of the mean over new questions, for these prompts and samples, as intervals estimate it.

        `items`, `prompts` and `samples` multiply the sizes of the design; infinity is allowed. The parts that all
        questions share (`prompt`, `sample`) are left out: intervals over questions do not hold them.
        """
        by_prompt = (self.item_by_prompt or 0.0) / (self.prompts * prompts)
        rest = self.rest / (self.prompts * prompts * self.samples * samples)
        return (self.item + by_prompt + rest) / (self.items * items)

    def narrowed(self, items: float = 1, prompts: float = 1, samples: float = 1) -> float | None:
        """Return by which share the interval narrows, from 0 to 1, if the sizes are multiplied so.

        None if every answer scored the same, or if samples cannot be told from prompts.
        """
        now = self.interval()
        if now <= 0 or (samples != 1 and self.samples == 1):
            return None
        return 1 - sqrt(self.interval(items, prompts, samples) / now)


def components(scores: NDArray[np.float64]) -> Components:
    """Return the variance components of scores, (items, prompts, samples), all finite.

    ValueError for fewer than two items, or for one prompt with one sample.
    """
    import numpy as np

    y = np.asarray(scores, float)
    if y.ndim != 3 or y.shape[0] < 2 or y.shape[1] < 1 or y.shape[1] * y.shape[2] < 2 or not np.isfinite(y).all():
        raise ValueError(f"scores of 2 or more items, by 2 or more prompts or samples, are needed, not {y.shape}")
    I, P, S = y.shape  # noqa: E741 - as in the formulas
    whole, by_item, by_prompt = y.mean(), y.mean(axis=(1, 2)), y.mean(axis=(0, 2))
    by_sample, by_cell = y.mean(axis=0), y.mean(axis=2)
    item = P * S * _squares(by_item - whole) / (I - 1)
    crossed = S * _squares(by_cell - by_item[:, None] - by_prompt + whole)
    shared = I * _squares(by_sample - by_prompt[:, None])
    rest = _squares(y - by_cell[:, :, None] - by_sample + by_prompt[:, None])
    estimates: dict[str, float | None] = {"prompt": None, "sample": None, "item_by_prompt": None}
    if S == 1:
        # The mean squares of samples have no degrees of freedom: one answer of each question and prompt.
        rest = crossed / ((I - 1) * (P - 1))
        prompt = I * _squares(by_prompt - whole) / (P - 1)
        estimates |= {"item": (item - rest) / P, "prompt": (prompt - rest) / I, "rest": rest}
    else:
        rest /= (I - 1) * P * (S - 1)
        shared /= P * (S - 1)
        estimates |= {"sample": (shared - rest) / I, "rest": rest}
        if P == 1:
            estimates["item"] = (item - rest) / S
        else:
            crossed /= (I - 1) * (P - 1)
            prompt = I * S * _squares(by_prompt - whole) / (P - 1)
            estimates |= {
                "item": (item - crossed) / (P * S),
                "item_by_prompt": (crossed - rest) / S,
                "prompt": (prompt - shared - crossed + rest) / (I * S),
            }
    # Differences of rounding errors are no negative estimates.
    tiny = 1e-12 * max(float(np.abs(y).max()) ** 2, 1e-300)
    negative = tuple(name for name, value in estimates.items() if value is not None and value < -tiny)
    cut = {name: None if value is None else 0.0 if value <= tiny else float(value) for name, value in estimates.items()}
    return Components(**cut, items=I, prompts=P, samples=S, negative=negative)  # type: ignore[arg-type]


def _squares(values: NDArray[np.float64]) -> float:
    return float((values**2).sum())


LEVER = 0.5
"""Samples limit an interval if twice as many narrow it by at least this share of what twice as many questions do."""


def advice(parts: Components, unit: str = "question") -> str:
    """Return one sentence: by how much twice as many questions, prompts or samples would narrow the interval.

    `unit` is the singular name of an item. "" if every answer scored the same.
    """
    questions = parts.narrowed(items=2)
    if questions is None:
        return ""
    said = [f"twice as many {unit}s would narrow the interval by {_whole(questions)}"]
    levers: list[tuple[str, float]] = []
    for name, times in (("sample", {"samples": 2.0}), ("prompt", {"prompts": 2.0})):
        if getattr(parts, f"{name}s") < 2:
            continue
        twice, most = parts.narrowed(**times), parts.narrowed(**{f"{name}s": float("inf")})
        if twice is not None and most is not None:
            said.append(f"twice as many {name}s by {_whole(twice)} (any number: at most {_whole(most)})")
            levers.append((name, twice))
    if not levers:
        return ""
    name, best = max(levers, key=lambda lever: lever[1])
    limit = f"more {name}s help too" if best >= LEVER * questions else f"more {name}s hardly help"
    return f"{', '.join(said)}; {limit}."


def _whole(share: float) -> str:
    return f"{number(share, digits=0)} %"
