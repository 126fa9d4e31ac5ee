"""Defaults for users' benchmarks: the prompts, scores and metrics of each kind of question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from medvqa import metrics, scoring
from medvqa.benchmarks import languages
from medvqa.items import (
    KINDS,
    TECHNIQUES,
    Answer,
    Benchmark,
    Item,
    Kind,
    Metric,
    OfficialRule,
    Origin,
    Owners,
    Prompt,
    PromptSource,
    Score,
    Technique,
    UsageError,
    usual,
)
from medvqa.printing import clipped
from medvqa.protocols.naming import is_name
from medvqa.protocols.prompts import (
    FIELDS,
    FIELDS_HELP,
    OPTION_FIELDS,
    TURN_FIELDS,
    Template,
    Templates,
    wrong_field,
)
from medvqa.scoring.closed import YES_OR_NO

TOKENS = 512
"""New tokens of an answer, unless the model's config or --max-tokens says otherwise; as for MedLesionVQA."""

OPTION = languages.OPTION
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

MAX_NAME = 100
"""Characters of a benchmark's name."""

_Rule = tuple[Callable[[object], bool], str]


def check(benchmark: Benchmark, where: str = "") -> None:
    """UsageError, which begins with `where`, for a field of another type than `Benchmark` says."""
    name = benchmark.name
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or not 0 < len(name) <= MAX_NAME:
        shown = clipped(repr(name))
        raise UsageError(f"{where}benchmark {shown}: name must be printable text of 1 to {MAX_NAME} characters")
    for field, (fits, expected) in _FIELDS.items():
        if not fits(value := _value(benchmark, field)):
            shown = clipped(repr(value))
            raise UsageError(f"{where}benchmark '{name}': {field} is {shown}; expected: {expected}")
    for prompt in (benchmark.prompt, *benchmark.prompts.values()):
        for template in prompt.all if isinstance(prompt, Templates) else ():
            if (problem := _problem(template)) is not None:
                raise UsageError(f"{where}benchmark '{name}': {problem}")


def _problem(template: object) -> str | None:
    """Return what is wrong with a template of `Templates`; None if nothing is."""
    if not isinstance(template, Template):
        return f"a prompt has the template {clipped(repr(template))}; expected: a Template(name, text)"
    further = [(text, TURN_FIELDS) for text in template.then]
    for text, fields in ((template.text, FIELDS), (template.option, OPTION_FIELDS), *further):
        if (wrong := wrong_field(text, fields, None)) is not None:
            known = " and ".join(f"{{{field}}}" for field in fields)
            shown = clipped(repr(text))
            return f"the text {shown} of template '{template.name}' {wrong[1]}. Its fields are {known}"
    return None


def _value(benchmark: Benchmark, field: str) -> object:
    """Return the value of a field, or of a field of its field, such as "origin.find"; None if there is none."""
    value: object = benchmark
    for name in field.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _holds(kind: type) -> Callable[[object], bool]:
    return lambda values: isinstance(values, tuple | list) and all(isinstance(value, kind) for value in values)


def _among(known: Collection[str]) -> Callable[[object], bool]:
    return lambda values: (
        isinstance(values, Collection) and not isinstance(values, str) and all(value in known for value in values)
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_FUNCTION: _Rule = (lambda value: callable(value), "a function")
_FUNCTION_OR_NONE: _Rule = (lambda value: value is None or callable(value), "a function or None")
_FIELDS: Mapping[str, _Rule] = {
    **dict.fromkeys(("items", "score", "applies"), _FUNCTION),
    "prompt": (lambda value: callable(value) or isinstance(value, str), "a function, or a text with {question}"),
    "title": (_is_text, "a text"),
    "origin": (lambda value: value is None or isinstance(value, Origin), "an Origin or None"),
    "owners": (lambda value: isinstance(value, Owners), "an Owners"),
    "owners.rule": (lambda value: value is None or isinstance(value, OfficialRule), "an OfficialRule or None"),
    **dict.fromkeys(("origin.find", "origin.elsewhere", "owners.rule.score"), _FUNCTION_OR_NONE),
    **dict.fromkeys(("owners.recover", "owners.submission", "owners.published"), _FUNCTION_OR_NONE),
    "prompts": (
        lambda value: (
            isinstance(value, Mapping)
            and all(isinstance(name, str) and is_name(name) for name in value)
            and all(callable(prompt) or isinstance(prompt, str) for prompt in value.values())
        ),
        "a dict of names to functions or texts; a name has letters, digits, '.', '-' and '_', and is no number",
    ),
    "metrics": (_holds(Metric), "a tuple of metrics, such as (medvqa.metrics.accuracy,)"),
    "headline": (_holds(str), "a tuple of names of metrics, such as ('accuracy',)"),
    "dimensions": (_holds(str), "a tuple of names of tags, such as ('modality',)"),
    "techniques": (_among(TECHNIQUES), f"a tuple of techniques, which are {', '.join(TECHNIQUES)}"),
    "judged": (_among(KINDS), f"a set of kinds, which are {', '.join(KINDS)}"),
    "public": (lambda value: isinstance(value, bool), "True or False"),
}
"""A check of each field's value, and the expected value in words."""


def completed(benchmark: Benchmark) -> Benchmark:
    """Fill in the defaults of a benchmark (UsageError for a prompt with other fields than {question} and {options})."""
    changes: dict[str, object] = {}
    if benchmark.prompt is usual or isinstance(benchmark.prompt, str):
        changes["prompt"] = prompts_of(benchmark)
    if benchmark.score is usual:
        changes |= {"score": score, "judged": benchmark.judged or JUDGED}
    if any(isinstance(prompt, str) for prompt in benchmark.prompts.values()):
        changes["prompts"] = {name: _named(benchmark, name) for name in benchmark.prompts}
    if not benchmark.metrics:
        changes |= {"metrics": METRICS, "headline": HEADLINE}
    return replace(benchmark, **changes) if changes else benchmark  # type: ignore[arg-type]


def _named(benchmark: Benchmark, name: str) -> Callable[[Item, Technique], Prompt]:
    """The prompt of that name as a function; a text is one for MC and GD (UsageError)."""
    prompt = benchmark.prompts[name]
    if not isinstance(prompt, str):
        return prompt
    made = replace(template(benchmark.name, prompt), name=f"{benchmark.name}/{name}")
    return Templates(name, {"mc": replace(made, max_tokens=TOKENS), "gd": made})


def prompts_of(benchmark: Benchmark) -> Callable[[Item, Technique], Prompt]:
    """Return the function that makes the prompts of a benchmark, declared in any way (UsageError)."""
    if isinstance(benchmark.prompt, str):
        return OwnPrompt(template(benchmark.name, benchmark.prompt))
    return OwnPrompt() if benchmark.prompt is usual else benchmark.prompt


def template(name: str, text: str) -> Template:
    """Return the template of a user's prompt; UsageError for other fields than {question} and {options}.

    {options} stands for one line for each option, such as `A. liver`; the digest of the text enters `Prompt.template`.
    """
    if (wrong := wrong_field(text)) is not None:
        raise UsageError(f"benchmark '{name}': the prompt {clipped(text)!r} {wrong[1]}. {FIELDS_HELP}")
    # The lines of {options} have their line ends.
    return Template(f"{name}/own", text.replace("{options}\n", "{options}"), OPTION)


@dataclass(frozen=True, slots=True)
class OwnPrompt(PromptSource):
    """Asks by the default prompts in a language, else in English; `template` replaces those of MC and GD."""

    template: Template | None = None
    language: str = ""

    @property
    def techniques(self) -> tuple[Technique, ...]:
        """All techniques."""
        return TECHNIQUES

    def __call__(self, item: Item, technique: Technique) -> Prompt:
        """Return the prompt of a question."""
        if technique == "ps":
            return languages.PREFIX.get(self.language, PREFIX).prompt(item, technique)
        free = languages.FREE.get(self.language, FREE)
        by_kind = languages.BY_KIND.get(self.language, BY_KIND)
        chosen = free if technique == "ff" else self.template or by_kind[item.kind]
        return replace(chosen.prompt(item, technique), max_tokens=None if technique == "gd" else TOKENS)


def is_judgment(text: str, words: Mapping[str, tuple[str, ...]] = YES_OR_NO) -> bool:
    """Whether an answer key says yes or no, by these words."""
    return bool(side(text, words))


def side(text: str, words: Mapping[str, tuple[str, ...]]) -> str:
    """Return "yes" or "no" for an answer key that says so by these words, "" for any other."""
    plain = scoring.normalise(text)
    return next((side for side, others in words.items() if plain in map(scoring.normalise, (side, *others))), "")


def score(item: Item, answer: Answer) -> Score:
    """Score options and yes or no by rule; leave any other answer to a judge.

    With several right options, one wrong option chosen scores 0, else the share of the right options that were chosen.
    """
    return scored(item, answer, YES_OR_NO)


def scored(item: Item, answer: Answer, words: Mapping[str, tuple[str, ...]]) -> Score:
    """Score an answer as `score` does, with these words for yes and no."""
    if item.kind == "single_choice":
        return scoring.score_single_choice(item, answer)
    if item.kind == "multiple_response":
        return scoring.score_partial_credit(item, answer)
    if item.kind == "judgment" and all(is_judgment(text, words) for text in item.answers):
        return scoring.score_closed_vocabulary(item, answer, words, common=words is not YES_OR_NO)
    return scoring.unscored(item, answer)
