"""What is practised in training, as prompts of the benchmarks and the answers to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.random import Generator

from medvqa.benchmarks import gmai_mmbench, mediconfusion, medlesionvqa
from medvqa.items import CHOICE_KINDS, Item, Prompt
from tools.questions import LETTERS
from tools.vlm.architecture import IMAGE, IMAGE_TOKENS
from tools.vlm.data import Asked

_PROMPTS = {
    "phantom-gmai-mmbench": gmai_mmbench.PROMPT,
    "phantom-mediconfusion": mediconfusion.ORIGINAL,
    "phantom-medlesionvqa": medlesionvqa.PROMPT,
}
QUESTION_ONLY = "Question: {question} Answer:"
"""What precedes an option's text when its likelihood is asked for (PS)."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """A prompt and its answer; `picture` as in `Asked`.

    `lines` holds for each option the letter, whether it is right, and where in the prompt's text its line ends.
    """

    prompt: Prompt
    answer: str
    picture: int | None
    lines: tuple[tuple[str, bool, int], ...] = ()


def by_text(asked: Asked, rng: Generator) -> Exercise:
    """The question without its options, answered in words; ValueError where several answers are right."""
    item = asked.item
    if len(item.answers) != 1:
        raise ValueError(f"{item.id} has {len(item.answers)} right answers")
    [answer] = item.answers
    system = mediconfusion.ORIGINAL.by_technique["mc"].system if rng.random() < 0.3 else ""
    text = QUESTION_ONLY.format(question=item.question)
    return Exercise(Prompt(text, system=system), item.options.get(answer, answer), asked.picture)


def as_benchmark(asked: Asked) -> Exercise:
    """The question as the benchmark asks it, answered by letters or, where it is open, in words."""
    item = asked.item
    prompt = _PROMPTS[item.benchmark](item, "mc")
    answer = ",".join(item.answers)
    if item.kind not in CHOICE_KINDS:
        return Exercise(prompt, answer, asked.picture)
    lines, end = [], 0
    for letter, text in item.options.items():
        end = prompt.text.index(f" {text}\n", end) + len(text) + 1
        lines.append((letter, letter in item.answers, end))
    return Exercise(prompt, answer, asked.picture, tuple(lines))


def rearranged(asked: Asked, pools: Mapping[str, Sequence[str]], rng: Generator) -> Asked:
    """The question with its options in another order, the wrong ones chosen anew from the question's pool."""
    item = asked.item
    right = [item.options[letter] for letter in item.answers]
    wrong = [text for text in pools[item.question] if text not in right]
    wrong = rng.permutation(wrong).tolist()[: len(item.options) - len(right)]
    return Asked(_with_options(item, rng.permutation(right + wrong).tolist(), right), asked.picture)


def pools_of(asked: Iterable[Asked]) -> dict[str, list[str]]:
    """For each choice question all options that it has anywhere."""
    pools: dict[str, dict[str, None]] = {}
    for one in asked:
        pools.setdefault(one.item.question, {}).update(dict.fromkeys(one.item.options.values()))
    return {question: list(texts) for question, texts in pools.items() if texts}


def copying(asked: Sequence[Asked], texts: Sequence[str], rng: Generator) -> Exercise:
    """A question without picture that says which options are right: it teaches what a letter stands for."""
    like = asked[int(rng.integers(len(asked)))].item
    options = rng.choice(len(texts), len(like.options), replace=False)
    chosen = [texts[number] for number in options]
    right = chosen[: len(like.answers)]
    question = f"Which option says {' and '.join(right)}?"
    item = replace(like, question=question, images=())
    return as_benchmark(Asked(_with_options(item, rng.permutation(chosen).tolist(), right), None))


def _with_options(item: Item, texts: Sequence[str], right: Sequence[str]) -> Item:
    options = dict(zip(LETTERS, texts, strict=False))
    return replace(item, options=options, answers=tuple(letter for letter in options if options[letter] in right))


def texts(asked: Iterable[Asked]) -> list[str]:
    """All that is said in exercises, for the tokenizer."""
    said = []
    for one in asked:
        exercise = as_benchmark(one)
        said += [exercise.prompt.system, exercise.prompt.text]
        question = QUESTION_ONLY.format(question=one.item.question)
        said += [question, *(one.item.options.values() or one.item.answers)]
    return said


def chat(processor: Any, prompt: Prompt, *, picture: bool) -> str:
    """The prompt in the chat template, with as many image tokens as the processor would put."""
    content: list[dict[str, Any]] = [{"type": "image"}] if picture else []
    messages: list[dict[str, Any]] = [{"role": "user", "content": [*content, {"type": "text", "text": prompt.text}]}]
    if prompt.system:
        messages.insert(0, {"role": "system", "content": [{"type": "text", "text": prompt.system}]})
    text = str(processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
    return text.replace(IMAGE, IMAGE * IMAGE_TOKENS)
