"""Select the answers that need a judge, and write the judge's prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from medvqa.items import CHOICE_KINDS, OPTION_TECHNIQUES, Answer, Benchmark, Extractor, Item, Prompt, Score, Technique
from medvqa.judging import fences, rules
from medvqa.judging.settings import Settings
from medvqa.judging.templates import NONE, Task, filled
from medvqa.scoring import cut_off, of_people, read_term, without_reasoning

_LETTERS = {
    "single_choice": f"You should output a single capital letter, such as A or {NONE}.",
    "multiple_response": f"You should output single or multiple capital letters, such as ABCD or {NONE}.",
}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Case:
    """One answer for a judge.

    `template` is the prompt file's name@digest. `prompts` are texts without images; `Prompt.benchmark` and
    `Prompt.item` are the item's, `Prompt.options` the options to compare. `prompts` is () if a rule decides: then
    `score` without readings returns `otherwise`, and the result has no judgement. `otherwise` is the score by rule, or
    the score if the judge finds no answer. `again` is added to a prompt after a complaint. `choose` is the benchmark's
    scorer for chosen letters. `extractor` is set if replies are read by the rule of the benchmark's owners; the score
    by rule then stands if a reply is unreadable. `kinds` are the names that a reply may give, for the task "kind" of
    `medvqa.judging.taxonomy`, which gives no score.
    """

    task: Task | Literal["kind"]
    template: str
    prompts: tuple[Prompt, ...]
    otherwise: Score
    again: str = ""
    choose: Callable[[Item, Answer], Score] | None = field(default=None, repr=False, compare=False)
    extractor: Extractor | None = field(default=None, repr=False, compare=False)
    kinds: tuple[str, ...] = ()


def may_ask(benchmark: Benchmark, item: Item, technique: Technique, settings: Settings) -> bool:
    """Return whether any answer to an item could need a judge."""
    if not item.answers or technique in OPTION_TECHNIQUES:
        return False
    if item.kind in CHOICE_KINDS:
        return settings.extract or (technique == "ff" and bool(item.options))
    return item.kind in benchmark.judged or (technique == "ff" and bool(item.options))


def case_of(
    benchmark: Benchmark, item: Item, technique: Technique, answer: Answer, score: Score, settings: Settings
) -> Case | None:
    """Return the judge's case for an answer; None if `score`, by rule, stands.

    A judge reads free-form (FF) answers to questions with options, and answers to open questions of the kinds in
    `Benchmark.judged`. With `settings.extract` it also reads answers to choice questions that the rules left
    `unparsed`. No prompt is sent for an item without an answer key, likelihoods of options, a refusal reported by the
    server, or an empty answer; nor for an answer that people scored.
    """
    if not item.answers or score.outcome == "error" or technique in OPTION_TECHNIQUES:
        return None
    if answer.noted is not None and of_people(answer.noted) is not None:
        return None
    if technique == "ff" and item.options:
        task: Task = "closeness"
    elif item.kind in benchmark.judged and item.kind not in CHOICE_KINDS:
        task = "score"
    elif settings.extract and item.kind in CHOICE_KINDS and score.outcome == "unparsed" and NONE not in item.options:
        task = "options"
    else:
        return None
    extractor = benchmark.owners.extractor if task == "options" and "options" not in settings.prompts else None
    if extractor is not None and item.kind not in extractor.kinds:
        extractor = None
    template = settings.template(task, extractor)
    if (by_rule := _score_without_judge(item, answer, settings)) is not None:
        return None if task == "options" else Case(task, template.label, (), by_rule)
    values = _fenced(task, item, answer)
    prompt = Prompt(
        text=filled(template.prompt, values),
        system=filled(template.system, values),
        benchmark=item.benchmark,
        item=item.id,
        kind=item.kind,
        options=item.options if task != "score" else {},
        template=template.label,
    )
    otherwise = score if task == "options" else _score_without_option(answer)
    again = filled(template.again, values)
    return Case(task, template.label, (prompt,), otherwise, again, benchmark.score, extractor)


def _score_without_judge(item: Item, answer: Answer, settings: Settings) -> Score | None:
    if answer.finish == "refusal":
        return Score(0.0, "refused", (), "the server reports a refusal")
    if fences.is_blank(without_reasoning(answer.text)):
        why = "the response is empty" if fences.is_blank(answer.text) else "nothing but reasoning"
        if not answer.text and answer.whole:
            why = "the reply has no line that holds the answer"
        return Score(0.0, "unparsed", (), why)
    return rules.decide(item, answer.text) if settings.rules_first and not cut_off(answer) else None


def _score_without_option(answer: Answer) -> Score:
    """Return refused or abstained if the answer has such a phrase, else unparsed."""
    reading = read_term(answer.text, {}, finished=not cut_off(answer))
    return Score(0.0, reading.status if reading.status != "read" else "unparsed", (), reading.why)


def as_shown(response: str) -> str:
    """Return the response in the form shown to a judge, within its fence."""
    return fences.shortened(_neutral_response(response))[0]


def _neutral_response(response: str) -> str:
    return fences.neutral(without_reasoning(response).strip())


def _fenced(task: Task, item: Item, answer: Answer) -> dict[str, str]:
    """Return the fields of a task's prompt, with untrusted texts fenced."""
    question = fences.neutral(item.question)
    response = _neutral_response(answer.text)
    references = [fences.neutral(text) for text in item.answers] if task == "score" else []
    options = {letter: fences.neutral(text) for letter, text in item.options.items()} if task != "score" else {}
    fence = fences.fence_of([question, response, *references, *options.values()])
    values = {
        "fence": fence,
        "question": fences.fenced(question, fence),
        "response": fences.fenced(response, fence),
        "reference": "\nor\n".join(fences.fenced(text, fence) for text in references),
    }
    if task == "closeness":
        names = [f"[Answer {letter}]" for letter in options]
        values["options"] = "\n\n".join(
            f"[Answer {letter}]\n{fences.fenced(text, fence)}" for letter, text in options.items()
        )
        values["number"] = _NUMBERS[len(options)] if len(options) < len(_NUMBERS) else str(len(options))
        values["names"] = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
        values["format"] = "\n".join(f"{letter}: <SCORE>" for letter in options)
    if task == "options":
        listed = "\n".join(f"{letter}. {text}" for letter, text in options.items())
        values["options"] = fences.fenced(listed, fence)
        values["letters"] = _LETTERS["single_choice" if item.kind == "single_choice" else "multiple_response"]
    return values
