"""Checks of solved examples before the first question: enough of them, their prompts, their images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from medvqa import printing
from medvqa.items import Item, Query, QuestionKey, UsageError
from medvqa.session.plan import Plan


def check(plan: Plan, name: str) -> None:
    """UsageError if the questions of a benchmark cannot have solved examples.

    If a part of the questions is selected: only if none can; `check_selected` checks that part.
    """
    count, chooser = plan.protocol.shots, plan.chooser(name)
    if chooser.pool.forms and plan.protocol.prompts:
        raise UsageError(f"--shot-pool={chooser.pool.name} has its own prompt, which replaces --prompt: leave one out")
    items = [item for item in plan.items(name) if any(plan.applies(Query(item, how)) for how in plan.techniques)]
    short = _short(plan, items)
    if short and not (plan.selects and len(short) < len(items)):
        raise _too_few(plan, name, short, len(items))
    for technique in plan.techniques:
        first = [item for item in items if plan.applies(Query(item, technique))][:1]
        for asked in (plan.asks(name, prompt)(item, technique) for prompt in plan.prompts(name) for item in first):
            if asked.then or asked.turns:
                raise UsageError(f"--shots={count}: the prompt {asked.template} asks in several turns; leave one out")
    if plan.ablation == "shuffle":
        lacking = {item.id for item in short}
        for item in items:
            if item.id not in lacking:
                chooser.exchanged(item, count)


def check_selected(plan: Plan, keys: Iterable[QuestionKey]) -> None:
    """UsageError if a selected question has too few solved examples."""
    if not plan.protocol.shots:
        return
    selected = {(key.benchmark, key.item) for key in keys}
    for name in plan.benchmarks:
        items = [item for item in plan.items(name) if (name, item.id) in selected]
        if short := _short(plan, items):
            raise _too_few(plan, name, short, len(items))


def check_images(plan: Plan) -> None:
    """UsageError if images of solved examples are missing: each may belong to several questions."""
    for name in plan.benchmarks:
        pool = plan.chooser(name).pool
        images = {image for item in pool.items if item.answers for image in item.images}
        absent = sorted({image.name for image in images if not image.is_there})
        if absent:
            raise UsageError(
                f"--shots={plan.protocol.shots}: {len(images) - len(absent)} of {len(images)} images of the pool "
                f"{pool.name} are there, the first that is missing: {printing.line(absent[0])}. "
                f"{pool.obtain or 'Put them there'}, or ask without images: --ablate=text-only"
            )


def _short(plan: Plan, items: Iterable[Item]) -> list[Item]:
    """The questions with fewer solved examples than --shots."""
    count = plan.protocol.shots
    return [item for item in items if len(plan.chooser(item.benchmark).choose(item, count)) < count]


def _too_few(plan: Plan, name: str, short: Sequence[Item], of: int) -> UsageError:
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(Counter(item.kind for item in short).items()))
    return UsageError(
        f"--shots={plan.protocol.shots}: the pool {plan.chooser(name).pool.name} has fewer solved examples than that "
        f"for {len(short):,} of {of:,} questions of {name} ({kinds}). An example has the question's kind, an answer "
        "key, and no image, pair, patient or case in common with the question. Lower --shots, or name a larger pool "
        "with --shot-pool=FILE or --shot-pool=BENCHMARK"
    )
