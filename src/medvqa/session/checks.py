"""What can be found wrong with a run before its first question: files, consent, upload, cost, places."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from medvqa import scoring
from medvqa.configs import ModelConfig
from medvqa.items import UsageError
from medvqa.session import places, uploads
from medvqa.session.chosen import Chosen
from medvqa.session.plan import Plan


def check(plan: Plan, *, answered: Callable[[ModelConfig], bool]) -> tuple[str, ...] | None:
    """Load the data, and ask backends about their models (UsageError, DataError).

    Return the devices that can each hold one copy of the model and the judge; None if they take none, or if nothing
    will be asked. `answered` tells whether answers of a model may be stored: a server is then not needed.
    """
    held = None if plan.setting.collects_only else _check_models(plan, answered)
    if plan.options.answers_from_category and not plan.recovers:
        raise UsageError("--answers-from-category: only gmai-mmbench-test has a key to recover; add --benchmark")
    for name in plan.benchmarks:
        plan.items(name)
        if plan.ablation == "shuffle":
            plan.shuffled(name)
    scoring.rules.check(plan.extraction, {name: plan.items(name) for name in plan.benchmarks}, plan.benchmarks)
    return held


def _check_models(plan: Plan, answered: Callable[[ModelConfig], bool]) -> tuple[str, ...] | None:
    options, model, judge = plan.options, plan.model, None if plan.judge is None else plan.judge.chosen
    model.check_consent(trust_remote_code=options.trust_remote_code)
    model.check()
    _check_recorded(plan)
    if judge is not None:
        judge.check_consent(trust_remote_code=options.trust_remote_code)
        judge.check()
    check_cost(options.max_cost, [model] if judge is None else [model, judge])
    if not options.allow_upload:
        uploads.check(plan)
    # After consent to upload, and before places, for which some backends import much.
    _preflight(plan, answered)
    held = places.places([model] if judge is None else [model, judge])
    if held is not None and plan.setting.workers > len(held):
        raise places.too_many(plan.setting.workers, held, options.model)
    return held


def _check_recorded(plan: Plan) -> None:
    """UsageError if answers were recorded as samples, and are asked for without a number."""
    if not plan.samples and (number := plan.model.backend.samples()):
        raise UsageError(
            f"'{plan.options.model}' was recorded with --repeat={number}, several samples of each answer; add "
            f"--repeat={number}"
        )


def check_cost(limit: float | None, models: Sequence[Chosen]) -> None:
    """UsageError for --max-cost if no model tells what its answers cost, or one that is asked elsewhere does not."""
    if limit is None:
        return
    if not limit > 0:
        raise UsageError(f"--max-cost={limit:g}: a sum of money is more than 0")
    priced = {model.spec for model in models if model.backend.priced}
    # A model that runs here costs no money beside one that is paid for elsewhere.
    unknown = [m.spec for m in models if m.spec not in priced and (m.backend.sends_to is not None or not priced)]
    if unknown:
        raise UsageError(
            f"--max-cost={limit:g}: '{unknown[0]}' does not tell what its answers cost; give price_input "
            "and price_output in the [options] of a config of the backend openai"
        )


def _preflight(plan: Plan, answered: Callable[[ModelConfig], bool]) -> None:
    """UsageError for a model that cannot run now, unless it is elsewhere and its answers may all be stored."""
    if plan.model.backend.looks and plan.ablation != "text-only":
        _check_images(plan)
    for chosen in [plan.model] if plan.judge is None else [plan.model, plan.judge.chosen]:
        if not (chosen.backend.sends_to is not None and answered(chosen.config)):
            chosen.preflight()


def _check_images(plan: Plan) -> None:
    """UsageError for a benchmark whose images are all missing; a few missing ones are errors of their items."""
    for name in plan.benchmarks:
        shown = {image.path for item in plan.items(name) for image in item.images}
        if shown and not any(map(os.path.exists, shown)):
            raise UsageError(
                f"{name}: none of its {len(shown)} image files is there, the first: {min(shown)}. Put them there "
                "(docs/data.md says from where), name another folder with --data=DIR, or ask without images: "
                "--ablate=text-only"
            )
