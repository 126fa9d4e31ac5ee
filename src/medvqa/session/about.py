"""The part of run.json that is known before the model is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import msgspec

from medvqa import answers, metrics, records, scoring
from medvqa.configs import ModelConfig
from medvqa.items import Benchmark, DataError, Item, Kind, Prompt, Query, Technique
from medvqa.judging import ranking
from medvqa.protocols.prompts import Templates
from medvqa.session.plan import Plan


def about(plan: Plan) -> dict[str, Any]:
    """The fields of run.json that are known before the model is made, as JSON values without keys."""
    options, config = plan.options, plan.model.answering
    path = plan.model.path_name
    fields = {
        "options": {
            "model": options.model,
            "benchmark": options.benchmarks,
            "technique": options.techniques,
            "judge": options.judge,
            "ablate": options.ablate,
            "limit": options.limit,
            "shard": options.shard,
            "fresh": options.fresh,
            "batch_size": options.batch_size,
            "concurrency": options.concurrency,
            "max_tokens": options.max_tokens,
            "deadline": options.deadline,
            "max_errors": options.max_errors,
            "answers_from_category": options.answers_from_category,
        },
        "config": {
            "name": config.name,
            "backend": config.backend,
            "argument": config.argument,
            "options": config.options,
            "max_tokens": config.max_tokens,
            **({"prompts": config.prompts} if config.prompts else {}),
            "own_max_tokens": None if plan.token_limits is None else plan.token_limits.own,
            **({} if path is None else {"path": path}),
            **({} if config.inner is None else {"inner": _inner(config.inner)}),
        },
        "techniques": plan.techniques,
        # A sample's number is its seed, or part of it.
        "repeat": options.samples,
        **({"tags": plan.tags.about} if plan.options.tags else {}),
        **({"protocol": about} if (about := plan.protocol.about()) else {}),
        "judge": None if plan.judge is None else plan.judge.about(),
        "extraction": plan.extraction,
        "reading_rules": scoring.rules.EDITION,
        **({"metric_like": options.metric_like} if options.metric_like else {}),
        "ablation": plan.ablation,
        "benchmarks": {name: _of_benchmark(plan, benchmark) for name, benchmark in plan.benchmarks.items()},
        "versions": records.versions(),
    }
    # A config may hold a key that the environment has too.
    return {name: answers.redacted_value(value, plan.secrets) for name, value in fields.items()}


def _inner(config: ModelConfig) -> dict[str, Any]:
    """The config of a wrapped model, without resources: they change no answer."""
    inner = None if config.inner is None else _inner(config.inner)
    return {name: value for name, value in asdict(config).items() if name != "resources"} | {"inner": inner}


def _of_benchmark(plan: Plan, benchmark: Benchmark) -> dict[str, Any]:
    items = plan.items(benchmark.name)
    kinds = {item.kind for item in items}
    templates: dict[Technique, set[str]] = {}
    questions: dict[Technique, int] = {}
    limits: dict[Technique, dict[Kind, int]] = {}
    for technique in plan.techniques:
        defined = [item for item in items if plan.applies(Query(item, technique))]
        if defined:
            questions[technique] = len(defined)
        asks = [plan.asks(benchmark.name, name) for name in plan.prompts(benchmark.name)]
        named = [_prompts(plan, ask, defined, technique) for ask in asks]
        if used := {prompt.template for prompts in named for prompt in prompts.values()}:
            templates[technique] = used
        in_force = {
            kind: plan.limit(prompt, benchmark.name) for prompts in named for kind, prompt in sorted(prompts.items())
        }
        if limited := {kind: limit for kind, limit in in_force.items() if limit is not None}:
            limits[technique] = limited
    key = "category" if benchmark.name in plan.recovers else "given"
    digest = records.data_digest(items)
    judged = plan.judged(benchmark.name)
    declared = None if benchmark.declared is None else benchmark.declared.about(items, plan.setting.root)
    read_by = scoring.rules.read_by(benchmark, plan.extraction, kinds)
    signature = {
        "data": digest[:12],
        "extraction": metrics.reading(read_by),
        "answers": key,
        **({"words": declared.words} if declared is not None and declared.words and "judgment" in kinds else {}),
        **({"ablation": plan.ablation} if plan.ablation else {}),
        **plan.protocol.signature(),
        **plan.signed_pool(benchmark.name),
        **({"ranking": ranking.TEMPLATE.label} if plan.ranks else {}),
        **(plan.judge.settings.signature(benchmark) if plan.judge is not None and judged else {}),
    }
    return {
        "items": len(items),
        **({} if benchmark.release is None else {"release": benchmark.release}),
        **({} if declared is None else {"declared": msgspec.to_builtins(declared)}),
        "kinds": sorted(kinds),
        # The number of items that each technique is defined for, selected or not.
        "questions": questions,
        "data_sha256": digest,
        "answers": key,
        "judged": judged,
        "judged_by": [name for name in plan.techniques if plan.judged(benchmark.name, name)],
        "signature": signature,
        **({"read_by": read_by} if scoring.rules.is_official(plan.extraction) else {}),
        "prompts": {technique: "+".join(sorted(names)) for technique, names in templates.items()},
        **_named(plan, benchmark),
        # New tokens of an answer in words, by technique and kind of question; 0: no limit.
        "max_tokens": limits,
    }


def _named(plan: Plan, benchmark: Benchmark) -> dict[str, Any]:
    """Return the prompts if they are not the benchmark's own: names in order, and templates with their texts."""
    names = plan.prompts(benchmark.name)
    if names == ("",):
        return {}
    texts: dict[str, dict[str, str]] = {}
    for name in names:
        prompt = benchmark.prompts.get(name)
        if isinstance(prompt, Templates):
            for technique in set(plan.techniques) & set(benchmark.techniques):
                texts |= prompt.about(technique)
    return {"asked_by": names, **({"templates": dict(sorted(texts.items()))} if texts else {})}


def _prompts(
    plan: Plan, ask: Callable[[Item, Technique], Prompt], items: Sequence[Item], technique: Technique
) -> dict[Kind, Prompt]:
    """Return the prompt of the first item of each kind. Items whose prompt cannot be made are skipped."""
    prompts = dict[Kind, Prompt]()
    for item in items:
        if item.kind not in prompts:
            with suppress(DataError):
                prompts[item.kind] = plan.instructed(ask(item, technique))
    return prompts
