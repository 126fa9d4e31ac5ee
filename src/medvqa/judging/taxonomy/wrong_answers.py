"""Select the wrong answers of a run; give those with a certain kind their kind; write the judge's prompt for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources

from medvqa.items import CHOICE_KINDS, OPTION_TECHNIQUES, Item, Prompt, Result, Score
from medvqa.judging import fences, templates
from medvqa.judging.cases import Case
from medvqa.judging.taxonomy.trees import Rule, Taxonomy
from medvqa.protocols import rotation
from medvqa.scoring import cut_off, without_reasoning
from medvqa.tags import selection

VERSION = "1"
"""Version of the rules and of reading replies, part of every signature."""
STRATA = ("ability", "task")
"""Dimensions that a sample is stratified by, the first that the questions have; else the benchmark's first."""
BARE = 5
"""A response with fewer words explains nothing."""
NO_OPTIONS = "(none: an open question)"


@lru_cache(maxsize=1)
def template() -> templates.JudgePrompt:
    """Return the judge's prompt."""
    return templates.parse("kind", (resources.files(__package__) / "prompt.txt").read_text(encoding="utf-8"))


def wrong_answers(results: Iterable[Result], *, partial: bool = False) -> tuple[list[Result], dict[str, int]]:
    """Return the wrong answers, and the numbers of answers left out by reason. Right answers are neither.

    `partial`: partly right answers count as wrong.
    """
    wrong, left_out = [], Counter[str]()
    for result in results:
        reason = _left_out(result, partial=partial)
        if reason:
            left_out[reason] += 1
        elif result.score.outcome != "correct":
            wrong.append(result)
    return wrong, dict(left_out)


def _left_out(result: Result, *, partial: bool) -> str:
    """Return the reason why an answer that is not right is not classified, else ""."""
    outcome = result.score.outcome
    if outcome == "error" or result.answer is None:
        return "without an answer or a score (error)"
    if outcome == "unscored":
        return "unscored"
    if outcome == "correct" or (outcome == "partial" and partial):
        return ""
    if outcome == "partial":
        return "partly right"
    if result.technique in OPTION_TECHNIQUES:
        return "chosen by likelihood, without a response in words"
    if outcome == "unparsed" and cut_off(result.answer):
        return "cut off at a limit of tokens before an answer"
    return ""


def by_rule(result: Result, tree: Taxonomy) -> tuple[str, str] | None:
    """Return the kind of a wrong answer and the reason, if a rule of the tree is certain; else None."""
    outcome, answer = result.score.outcome, result.answer
    rule: Rule
    if answer is not None and outcome == "unparsed" and fences.is_blank(without_reasoning(answer.reply)):
        rule, why = "empty", "the response is empty"
    elif outcome == "refused" or outcome == "abstained":
        rule, why = outcome, f"the answer was scored as {outcome}"
    else:
        return None
    return (tree.rules[rule], why) if rule in tree.rules else None


def is_bare(result: Result) -> bool:
    """Return whether a response has too few words to explain anything."""
    return result.answer is not None and len(without_reasoning(result.answer.reply).split()) < BARE


def dimension_of(results: Sequence[Result], dimensions: Sequence[str]) -> str:
    """Return the dimension that a sample is stratified by; "" if the questions have none. `dimensions`: see STRATA."""
    present = {name for result in results for name in result.item.tags}
    return next((name for name in (*STRATA, *dimensions) if name in present), "")


def drawn(results: Sequence[Result], limit: int | None, dimension: str, seed: int = 0) -> list[Result]:
    """Draw at most `limit` answers, stratified by a dimension; None: all.

    The draw depends on the questions and `seed` alone, and a smaller draw is a part of a larger one: what was asked
    about the smaller one is not asked again (`selection.stratified`).
    """
    if limit is None:
        return list(results)
    stand_ins = {
        "\0".join(map(str, result.key)): Item(
            "\0".join(map(str, result.key)),
            result.item.benchmark,
            tags={"": result.item.tags.get(dimension, ())},
        )
        for result in results
    }
    chosen = {item.id for item in selection.stratified(list(stand_ins.values()), limit, dimension="", seed=seed)}
    return [result for name, result in zip(stand_ins, results, strict=True) if name in chosen]


def case_of(result: Result, tree: Taxonomy, *, sees: bool) -> Case:
    """Return the judge's case for a wrong answer; `sees`: the judge gets the images of `result.item`."""
    item, prompt = result.item, template()
    values = _fenced(result, tree, sees=sees)
    text = Prompt(
        text=templates.filled(prompt.prompt, values),
        images=item.images if sees else (),
        system=prompt.system,
        benchmark=item.benchmark,
        item=item.id,
        kind=item.kind,
        template=prompt.label,
    )
    otherwise = Score(None, "unscored")
    return Case("kind", prompt.label, (text,), otherwise, templates.filled(prompt.again, values), kinds=(*tree.kinds,))


def _fenced(result: Result, tree: Taxonomy, *, sees: bool) -> dict[str, str]:
    """Return the fields of the prompt, with untrusted texts fenced; options under the letters that the model saw."""
    item = rotation.as_shown(result.item, result.variant)
    question = fences.neutral(item.question)
    response = fences.neutral(without_reasoning(result.answer.reply).strip()) if result.answer is not None else ""
    options = {letter: fences.neutral(text) for letter, text in item.options.items()}
    if item.kind in CHOICE_KINDS:
        references = ["\n".join(f"{letter}. {options.get(letter, '')}" for letter in item.answers)]
    else:
        references = [fences.neutral(text) for text in item.answers]
    listed = "\n".join(f"{letter}. {text}" for letter, text in options.items())
    fence = fences.fence_of([question, response, listed, *references])
    return {
        "fence": fence,
        "question": fences.fenced(question, fence),
        "options": fences.fenced(listed, fence) if listed else NO_OPTIONS,
        "reference": "\nor\n".join(fences.fenced(text, fence) for text in references),
        "response": fences.fenced(response, fence),
        "kinds": "\n".join(f"{kind} = {fences.neutral(definition)}" for kind, definition in tree.kinds.items()),
        "image": _about_images(item, sees=sees),
    }


def _about_images(item: Item, *, sees: bool) -> str:
    if not item.images:
        return "The question has no image."
    if not sees:
        return "You are not shown the image: do not guess what it shows; judge by the texts below."
    count = len(item.images)
    return (
        "The image of the question is attached." if count == 1 else f"The {count} images of the question are attached."
    )


def with_images(result: Result, item: Item) -> Result:
    """Return the result with the images of `item`, whose files are known."""
    return replace(result, item=replace(result.item, images=item.images))
