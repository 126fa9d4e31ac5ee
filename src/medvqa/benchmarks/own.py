"""Defaults for a benchmark of one's own: how each kind of question is asked, scored and measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from string import Formatter

from medvqa import metrics, scoring
from medvqa.items import (
    TECHNIQUES,
    Answer,
    Benchmark,
    Item,
    Kind,
    Metric,
    Prompt,
    Score,
    Technique,
    UsageError,
    usual,
)
from medvqa.protocols.prompts import Template

TOKENS = 512
"""New tokens of an answer, unless the model's config or --max-tokens says otherwise; as for MedLesionVQA."""

OPTION = "{letter}. {text}\n"
"""One line of {options}."""

FIELDS = ("question", "options")
"""The fields of a prompt of one's own."""

BY_KIND: Mapping[Kind, Template] = {
    "single_choice": Template(
        "own/single-choice", "{question}\n{options}Answer with the letter of the correct option only.", OPTION
    ),
    "multiple_response": Template(
        "own/multiple-response",
        "{question}\n{options}One or more options are correct. "
        "Answer with the letters of all correct options, separated by commas.",
        OPTION,
    ),
    "judgment": Template("own/judgment", "{question}\nAnswer with yes or no only."),
    "fill_in_the_blank": Template(
        "own/fill-in-the-blank", "{question}\nAnswer with the words that fill the blank only."
    ),
    "short_answer": Template("own/short-answer", "{question}\nAnswer briefly."),
}
"""The default prompts of MC and GD."""

PREFIX = Template("own/ps", "Question: {question} Answer:")
"""The default prompt of PS, which an option continues."""

FREE = Template("own/ff", "{question}\nAnswer briefly.")
"""The default prompt of FF, which names no options."""

METRICS: tuple[Metric, ...] = (
    metrics.accuracy,
    metrics.exact_match,
    metrics.precision_mcls,
    metrics.recall_mcls,
    metrics.open_score,
    metrics.set_accuracy,
    metrics.confusion,
    *metrics.rates,
)
"""The default metrics. Reports leave out those that apply to none of the questions."""

HEADLINE = ("accuracy", "exact_match", "open_score", "set_accuracy")
JUDGED: frozenset[Kind] = frozenset({"fill_in_the_blank", "short_answer"})
"""Kinds that no rule scores."""

YES_OR_NO: Mapping[str, tuple[str, ...]] = {"yes": ("true",), "no": ("false",)}
"""The answers to judgments, and another way to write each."""

_JUDGMENTS = frozenset({*YES_OR_NO, *(text for texts in YES_OR_NO.values() for text in texts)})


def completed(benchmark: Benchmark) -> Benchmark:
    """Fill in the defaults of a benchmark (UsageError for a prompt with other fields than {question} and {options})."""
    changes: dict[str, object] = {}
    if benchmark.prompt is usual or isinstance(benchmark.prompt, str):
        changes |= {"prompt": prompts_of(benchmark), "techniques": TECHNIQUES}
    if benchmark.score is usual:
        changes |= {"score": score, "judged": benchmark.judged or JUDGED}
    if not benchmark.metrics:
        changes |= {"metrics": METRICS, "headline": HEADLINE}
    return replace(benchmark, **changes) if changes else benchmark  # type: ignore[arg-type]


def prompts_of(benchmark: Benchmark) -> Callable[[Item, Technique], Prompt]:
    """Return the function that asks the questions of a benchmark, whichever way it declares its prompt (UsageError)."""
    if isinstance(benchmark.prompt, str):
        return partial(prompt, own=template(benchmark.name, benchmark.prompt))
    return prompt if benchmark.prompt is usual else benchmark.prompt


def template(name: str, text: str) -> Template:
    """Return the template of a prompt of one's own; UsageError for other fields than {question} and {options}.

    {options} stands for one line for each option, such as `A. liver`; the digest of the text enters `Prompt.template`.
    """
    try:
        fields = [(field, form, how) for _, field, form, how in Formatter().parse(text) if field is not None]
    except ValueError as error:
        raise _wrong(name, text, f"cannot be read: {error}") from None
    for field, form, how in fields:
        if field not in FIELDS or form or how:
            written = f"{field}{'!' + how if how else ''}{':' + form if form else ''}"
            raise _wrong(name, text, f"has the field {{{written}}}")
    if "question" not in [field for field, _, _ in fields]:
        raise _wrong(name, text, "has no field {question}")
    # The lines of {options} have their line ends.
    return Template(f"{name}/own", text.replace("{options}\n", "{options}"), OPTION)


def _wrong(name: str, text: str, why: str) -> UsageError:
    return UsageError(
        f"benchmark '{name}': the prompt {scoring.clipped(text)!r} {why}. Its fields are {{question}} and {{options}}; "
        "a brace that stands for itself is written twice: {{ or }}"
    )


def prompt(item: Item, technique: Technique, own: Template | None = None) -> Prompt:
    """Return the prompt of a question; `own` takes the place of the default ones of MC and GD."""
    if technique == "ps":
        return PREFIX.prompt(item, technique)
    asked = FREE if technique == "ff" else own or BY_KIND[item.kind]
    return replace(asked.prompt(item, technique), max_tokens=None if technique == "gd" else TOKENS)


def is_judgment(text: str) -> bool:
    """Whether an answer key says yes or no."""
    return scoring.normalise(text) in _JUDGMENTS


def score(item: Item, answer: Answer) -> Score:
    """Score options and yes or no by rule; leave any other answer to a judge.

    With several right options, one wrong option chosen scores 0, else the share of the right options that were chosen.
    """
    if item.kind == "single_choice":
        return scoring.score_single_choice(item, answer)
    if item.kind == "multiple_response":
        return scoring.score_partial_credit(item, answer)
    if item.kind == "judgment" and all(map(is_judgment, item.answers)):
        return scoring.score_closed_vocabulary(item, answer, YES_OR_NO)
    return scoring.unscored(item, answer)
