"""The record of a run before its model is made: what is planned, and what earlier sessions left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import convert, structs

from medvqa import answers, metrics, scoring
from medvqa.configs import ModelConfig
from medvqa.items import Benchmark, DataError, Item, Kind, Prompt, Query, Technique
from medvqa.protocols.prompts import Templates
from medvqa.records import recall, run_folder
from medvqa.records.run_record import (
    SCHEMA,
    AnsweringConfig,
    RecordedBenchmark,
    RecordedOptions,
    RecordedProtocol,
    RecordedReaders,
    RecordedSession,
    RecordedTags,
    RunRecord,
    carrying,
    part_of,
)
from medvqa.session import surroundings
from medvqa.session.delivery import used
from medvqa.session.options import OPTIONS
from medvqa.session.plan import Plan


def about(plan: Plan) -> RunRecord:
    """The record of a run as far as it is known before the model is made; without keys of servers."""
    options, judge, people = plan.options, plan.judge, plan.readers
    recorded = {
        name: getattr(options, OPTIONS[name.replace("_", "-")].field)
        for name in RecordedOptions.__struct_fields__
        if name != "stored"
    }
    record = RunRecord(
        schema=SCHEMA,
        options=RecordedOptions(**recorded),
        config=_config(plan),
        techniques=tuple(plan.techniques),
        # A sample's number is its seed, or part of it.
        repeat=options.samples,
        tags=part_of(RecordedTags, plan.tags.about) if plan.options.tags else None,
        asking=part_of(RecordedProtocol, plan.protocol.about()),
        judge=None if judge is None else judge.recorded(),
        extraction=plan.extraction,
        reading_rules=scoring.rules.EDITION,
        metric_like=tuple(options.metric_like),
        wrong_costs=options.wrong_costs,
        ablation=plan.ablation,
        benchmarks={name: _of_benchmark(plan, benchmark) for name, benchmark in plan.benchmarks.items()},
        versions=dict(run_folder.versions()),
        readers=None if people is None else convert(people, RecordedReaders, from_attributes=True),
    )
    # A config may hold a key that the environment has too.
    return part_of(RunRecord, answers.redacted_value(record.as_json(), plan.secrets))


def now() -> str:
    """Return the time as run.json has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def begun(plan: Plan, before: RunRecord | None, name: str, session: str, workers: int) -> RunRecord:
    """Return the record of a run whose session begins, behind those of `before`."""
    started, planned = now(), about(plan)
    begins = RecordedSession(
        session=session,
        started=started,
        workers=workers,
        options=planned.options,
        shard_source=plan.options.shard_source,
        commit=surroundings.commit(Path.cwd()),
        ci=surroundings.ci(),
        hardware=surroundings.hardware(),
    )
    if before is None:
        return structs.replace(planned, name=name, started=started, sessions=(begins,))
    # The results have the earlier names of a renamed run.
    names = {*before.names, *([before.name] if before.name else [])} - {name}
    anew = plan.reads_anew(before)
    planned = carrying(planned, before)
    return structs.replace(
        planned,
        name=name,
        names=tuple(sorted(names)),
        started=before.started or started,
        model=before.model,
        # A session without open questions needs no judge.
        judge=planned.judge or before.judge,
        benchmarks={**before.benchmarks, **planned.benchmarks},
        sessions=(*before.sessions, begins),
        # Results of earlier sessions keep their edition of the rules, and the run is called after the oldest.
        reading_rules=planned.reading_rules if anew else before.reading_rules,
        usage=before.usage,
        judge_usage=before.judge_usage,
        left_out=before.left_out,
        # Rules stored before the first answer, and the parts of a merged run.
        gate=before.gate,
        merged=before.merged,
        kind=before.kind,
    )


def with_killed(before: RunRecord, folder: Path) -> RunRecord:
    """Return the record of a run with the stored answers of killed sessions counted: they were paid for."""
    sessions = [_made_up(session, folder) if session.killed else session for session in before.sessions]
    usage, judge_usage = Counter(before.usage), Counter(before.judge_usage)
    for session, was in zip(sessions, before.sessions, strict=True):
        if session is not was:
            usage.update(session.usage)
            judge_usage.update(session.judge_usage)
    return structs.replace(before, sessions=tuple(sessions), usage=dict(usage), judge_usage=dict(judge_usage))


def _made_up(killed: RecordedSession, folder: Path) -> RecordedSession:
    numbers, usage = Counter[str](), {"candidate": Counter[str](), "judge": Counter[str]()}
    for role, stored in recall.asked(folder, {killed.session}):
        numbers[role] += len(stored)
        usage[role].update(used(stored))
    made_up = {"asked": numbers["candidate"], "usage": dict(usage["candidate"])}
    if numbers["judge"]:
        made_up |= {"judge_asked": numbers["judge"], "judge_usage": dict(usage["judge"])}
    # Keep an empty usage: it says that the session was counted.
    return part_of(RecordedSession, killed.as_json() | made_up)


def _config(plan: Plan) -> AnsweringConfig:
    config = plan.model.answering
    limits = {name: dict(limit) if isinstance(limit, Mapping) else limit for name, limit in config.max_tokens.items()}
    return AnsweringConfig(
        name=config.name,
        backend=config.backend,
        argument=config.argument,
        options=_options(config),
        max_tokens=limits,
        prompts=dict(config.prompts),
        own_max_tokens=None if plan.token_limits is None else plan.token_limits.own,
        path=plan.model.path_name,
        inner=None if config.inner is None else _inner(config.inner),
    )


def _inner(config: ModelConfig) -> dict[str, Any]:
    """The config of a wrapped model, without resources: they change no answer."""
    inner = None if config.inner is None else _inner(config.inner)
    kept = {name: value for name, value in asdict(config).items() if name not in ("resources", "server")}
    return kept | {"options": _options(config), "inner": inner}


def _options(config: ModelConfig) -> dict[str, Any]:
    """The options of a config, with the command of its server: the rest of [server] changes no answer."""
    own = {} if config.server is None else {"command": config.server.command}
    return {**config.options, **own}


def _of_benchmark(plan: Plan, benchmark: Benchmark) -> RecordedBenchmark:
    items = plan.items(benchmark.name)
    kinds = {item.kind for item in items}
    templates: dict[str, set[str]] = {}
    questions: dict[str, int] = {}
    limits: dict[str, dict[str, int]] = {}
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
        if limited := {str(kind): limit for kind, limit in in_force.items() if limit is not None}:
            limits[technique] = limited
    key = "category" if benchmark.name in plan.recovers else "given"
    digest = run_folder.data_digest(items)
    judged = plan.judged(benchmark.name)
    declared = None if benchmark.declared is None else benchmark.declared.about(items, plan.project.root)
    read_by = scoring.rules.read_by(benchmark, plan.extraction, kinds)
    signature = {
        "data": digest[:12],
        "extraction": metrics.reading(read_by),
        "answers": key,
        **({"words": declared.words} if declared is not None and declared.words and "judgment" in kinds else {}),
        **({"ablation": plan.ablation} if plan.ablation else {}),
        **plan.protocol.signature(),
        **plan.signed_pool(benchmark.name),
        **(plan.judge.settings.signature(benchmark) if plan.judge is not None and judged else {}),
    }
    names, texts = _named(plan, benchmark)
    rule_of = {str(kind): rule for kind, rule in read_by.items()}
    return RecordedBenchmark(
        items=len(items),
        release=benchmark.origin.release if benchmark.origin is not None else None,
        declared=declared,
        kinds=tuple(sorted(kinds)),
        questions=questions,
        data_sha256=digest,
        answers=key,
        judged=judged,
        judged_by=tuple(name for name in plan.techniques if plan.judged(benchmark.name, name)),
        signature=signature,
        read_by=rule_of if scoring.rules.is_official(plan.extraction) else {},
        prompts={technique: "+".join(sorted(labels)) for technique, labels in templates.items()},
        asked_by=names,
        templates=texts,
        max_tokens=limits,
    )


def _named(plan: Plan, benchmark: Benchmark) -> tuple[tuple[str, ...], dict[str, dict[str, str]]]:
    """Return the prompts if they are not the benchmark's own: names in order, and templates with their texts."""
    names = tuple(plan.prompts(benchmark.name))
    if names == ("",):
        return (), {}
    texts: dict[str, dict[str, str]] = {}
    for name in names:
        prompt = benchmark.prompts.get(name)
        if isinstance(prompt, Templates):
            for technique in set(plan.techniques) & set(benchmark.techniques):
                texts |= prompt.about(technique)
    return names, dict(sorted(texts.items()))


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
