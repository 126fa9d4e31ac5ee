"""Resolve the options of a run to a plan: names to a model, a judge, benchmarks, techniques and a protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from medvqa import benchmarks, configs, printing, scoring
from medvqa.backend import says
from medvqa.decode import did_you_mean
from medvqa.items import (
    ABLATIONS,
    OPTION_TECHNIQUES,
    TECHNIQUES,
    Benchmark,
    Technique,
    UsageError,
)
from medvqa.protocols import naming, perturbation, prompt_files, protocol, question_forms, rotation
from medvqa.protocols.prompts import Templates
from medvqa.protocols.protocol import ALL, COMBINES, REASONINGS, Protocol
from medvqa.session import judging, pools, tracking
from medvqa.session.chosen import POOL, Chosen, choose
from medvqa.session.judging import Judging
from medvqa.session.options import Options
from medvqa.session.plan import Plan, beside_phantom
from medvqa.session.project import Project
from medvqa.tags.selection import Shard

MAX_REPLICAS = 100_000
"""Copies of a model in a pool."""
MAX_ROTATIONS = 26
"""Options have the letters A to Z."""


def resolve(project: Project, uncaptured: Callable[[], AbstractContextManager[None]] = nullcontext) -> Plan:
    """Resolve names, without reading data. UsageError if a name does not exist or options contradict each other."""
    project.options.check()
    registry, names_typed = project.registry.with_files(project.options.benchmarks, project.cwd)
    options = replace(project.options, benchmarks=tuple(names_typed))
    registry = replace(registry, finished=(*registry.finished, *tracking.chosen(options.track)))
    project = replace(project, registry=registry, options=options)
    shard = Shard.parse(options.shard) if options.shard is not None else None
    typed_pool = _pool(options)
    model = choose(options.model, "model", project, typed_pool)
    project = replace(project, options=(options := _of_readers(options, model)))
    judged_by = replace(options, judge=options.judge or _recorded_judge(options, model))
    judge = judging.resolve(replace(project, options=judged_by), typed_pool)
    _check_pool(project, [model] if judge is None else [model, judge.chosen])
    ablated = None if options.ablate is None else _one_of("ablation", options.ablate, ABLATIONS)
    for name, value in (("ablate", ablated), ("perturb", options.perturb)):
        if value and model.backend.recorded:
            raise UsageError(
                f"--{name}={printing.line(value)}: the answers of '{options.model}' were given to the questions and "
                f"images as they are; {name} with a model that can be asked"
            )
    chosen = benchmarks.choose(options.benchmarks, registry.benchmarks, options.data, options.data_typed)
    of_files = _prompt_files(project)
    chosen = [_with_prompts(benchmark, of_files) for benchmark in chosen]
    by_name = {benchmark.name: benchmark for benchmark in chosen}
    extraction = scoring.rules.resolve(options.extraction, chosen)
    benchmarks.check_kits(options.metric_like, chosen, registry.benchmarks)
    techniques = _techniques(options, model, judge, chosen, registry.benchmarks.values())
    _check_benchmarks(options, techniques, chosen)
    pool = "" if options.shot_pool is None else pools.find(options.shot_pool, registry.benchmarks, project.cwd).name
    asked = replace(_protocol(project, chosen, techniques, pool), readers=model.backend.readers() is not None)
    plan = Plan(project, model, judge, by_name, techniques, asked, ablated, extraction, shard, uncaptured)
    if plan.lacks_model:
        return plan
    _check_able(plan)
    if not (options.typed or project.collects_only):
        try:
            model.check()
        except UsageError as error:
            raise UsageError(f"{error}; or choose another model, such as --model=random") from None
    return plan


def _of_readers(options: Options, model: Chosen) -> Options:
    """Return the options with the number of readers as that of samples, if people answered (UsageError)."""
    readers = model.backend.readers()
    if readers is None:
        return options
    # Workers get the options with the number.
    samples = options.samples if options.samples != len(readers.codes) else None
    typed = {"samples": samples, "rotate": options.rotate, "prompt": options.prompts}
    typed |= {name: getattr(options, name) for name in ("reasoning", "explain", "abstain", "confidence", "perturb")}
    if name := next((name for name, value in typed.items() if value), None):
        raise UsageError(
            f"--{name}: people answered the questions as they are, and the {len(readers.codes)} readers of "
            f"'{options.model}' are its samples; leave it out"
        )
    return replace(options, samples=len(readers.codes))


def _check_able(plan: Plan) -> None:
    """UsageError if the model cannot be asked in the way that the options say."""
    _check_token_limits(plan)
    _check_samples(plan)
    if plan.protocol.shots and plan.model.backend.recorded:
        raise UsageError(
            f"--shots={plan.protocol.shots}: the answers of '{plan.options.model}' were recorded, and do not depend on "
            "solved examples; use a model that can be asked"
        )
    configs.check_prompts(plan.model.config, plan.registry.benchmarks)
    for benchmark in plan.benchmarks.values():
        _check_asked_prompts(plan, benchmark)
    _check_instruction(plan)


def _check_asked_prompts(plan: Plan, benchmark: Benchmark) -> None:
    """UsageError for a prompt that a benchmark or the model cannot be asked with."""
    names = plan.prompts(benchmark.name)
    naming.check(names, plan.techniques, benchmark)
    for name in names:
        prompt = benchmark.prompts.get(name, benchmark.prompt)
        if isinstance(prompt, Templates) and prompt.converses:
            subject = f"--prompt={name}" if name in benchmark.prompts else f"benchmark '{benchmark.name}'"
            _check_turns(subject, plan, naming.of_one_turn(benchmark))
            if typed := _instructions(plan.protocol):
                raise UsageError(f"{subject}: it has turns of its own; leave {' and '.join(typed)} out")


def _pool(options: Options) -> dict[str, Any]:
    """Return the typed options of a pool of models (UsageError for a wrong number)."""
    pool: dict[str, Any] = {}
    if options.ray_address is not None:
        pool["address"] = options.ray_address
    if options.replicas is not None:
        typed = options.replicas
        if typed != "auto" and not (typed.isascii() and typed.isdecimal() and 1 <= int(typed[:9]) <= MAX_REPLICAS):
            raise UsageError(
                f"--replicas={printing.line(typed)}: a number of copies from 1 to {MAX_REPLICAS:,}, or auto for as "
                "many as fit"
            )
        pool["replicas"] = typed if typed == "auto" else int(typed)
    return pool


def _check_pool(project: Project, models: Sequence[Chosen]) -> None:
    """UsageError for options of a pool without one, and for a pool with workers."""
    options = project.options
    pools = [chosen for chosen in models if POOL in configs.names(chosen.config)]
    for name, value in (("ray-address", options.ray_address), ("replicas", options.replicas)):
        if value is not None and not pools:
            raise UsageError(
                f"--{name}={printing.line(value)}: '{options.model}' is no pool; type --model={POOL}:{options.model}"
            )
    if pools and project.workers:
        spec = pools[0].spec
        raise UsageError(
            f"--{pools[0].role}={spec} with -n {project.workers}: one process feeds the whole pool, and each worker "
            f"would start a pool of its own. Leave -n out, and type --replicas={project.workers} for "
            f"{project.workers} copies"
        )


def _recorded_judge(options: Options, model: Chosen) -> str | None:
    """Return the model's own spec if it replays free-form answers recorded with a judge's scores.

    UsageError if it is asked by another technique.
    """
    if not model.backend.judged():
        return None
    config = model.config
    if set(options.techniques or config.techniques or ("mc",)) != {"ff"}:
        raise UsageError(
            f"'{config.argument}' holds free-form answers (ff) with the closeness scores of a judge, and no "
            "others: type --technique=ff"
        )
    return f"{config.backend}:{config.argument}"


def _techniques(
    options: Options,
    model: Chosen,
    judge: Judging | None,
    chosen: Sequence[Benchmark],
    known: Iterable[Benchmark],
) -> tuple[Technique, ...]:
    """Return the typed techniques, else the config's, else MC; UsageError for one that cannot be used.

    Where a model must still be named, the default one and its config do not count.
    """
    lacks_model = not options.model_typed and bool(beside_phantom(chosen))
    wanted = options.techniques or (() if lacks_model else model.config.techniques) or ("mc",)
    if "ff" in wanted and judge is None:
        raise UsageError(
            "technique 'ff' needs a judge, which compares free answers with the options: add --judge=MODEL, a "
            "config of models/ or BACKEND:ARGUMENT"
        )
    names = sorted({technique for benchmark in known for technique in benchmark.techniques}, key=TECHNIQUES.index)
    where = "" if options.techniques else f" (from the config of '{options.model}')"
    techniques: tuple[Technique, ...] = tuple(
        _one_of("technique", name, names, where) for name in dict.fromkeys(wanted)
    )
    if model.backend.capabilities is not None and not lacks_model:
        protocol.check_able(techniques, model.backend.capabilities, options.model)
    return techniques


def _check_benchmarks(options: Options, techniques: Sequence[Technique], chosen: Sequence[Benchmark]) -> None:
    """UsageError if no technique is defined for a benchmark that was named, or for any benchmark."""
    lacking = [benchmark for benchmark in chosen if not set(techniques) & set(benchmark.techniques)]
    named = [benchmark for benchmark in lacking if benchmark.name in options.benchmarks]
    if lacking and (named or len(lacking) == len(chosen)):
        benchmark = (named or lacking)[0]
        why = "" if options.techniques else f". Name one of them: --technique={benchmark.techniques[0]}"
        raise UsageError(
            f"benchmark '{benchmark.name}' has no technique '{', '.join(techniques)}'; it has: "
            f"{', '.join(benchmark.techniques)}{why}"
        )


def _check_token_limits(plan: Plan) -> None:
    """UsageError for limits of tokens that would have no effect, or that the model cannot keep."""
    options, model, registry, limits = plan.options, plan.model, plan.registry, plan.token_limits
    configs.check_token_limits(model.config, limits, registry.benchmarks)
    typed = options.max_tokens
    if typed is None:
        return
    if limits is None:
        able = sorted(name for name, kind in registry.backends.items() if says(kind, "token_limits"))
        raise UsageError(
            f"--max-tokens={typed}: backend '{model.config.backend}' takes no limit; those that do: {', '.join(able)}"
        )
    if OPTION_TECHNIQUES.issuperset(plan.techniques):
        raise UsageError(
            f"--max-tokens={typed}: technique '{', '.join(plan.techniques)}' writes no text that could be limited"
        )
    configs.check_token_limit(typed, limits, f"--max-tokens={typed}")


def _protocol(project: Project, chosen: Sequence[Benchmark], techniques: Sequence[Technique], pool: str) -> Protocol:
    """Return the protocol that the options name (UsageError); `pool`: the name of the pool of solved examples."""
    options = project.options
    asked = Protocol(
        prompts=_prompts(options, chosen),
        samples=options.samples,
        combine=_one_of("way to combine", options.combine or "mean", COMBINES),
        shots=options.shots or 0,
        pool=pool,
        reasoning="" if options.reasoning is None else _one_of("reasoning", options.reasoning, REASONINGS),
        explain=options.explain,
        rotations=0 if options.rotate is None else _rotations(options.rotate),
        perturb=_perturb(options.perturb or "", project.cwd),
        abstain=options.abstain,
        confidence=options.confidence,
    )
    protocol.check(asked)
    if options.wrong_costs is not None and not asked.abstain:
        raise UsageError(
            f"--wrong-costs={options.wrong_costs:g}: it weighs wrong answers against none, and none is offered; add "
            "--abstain"
        )
    if asked.rotations != 0:
        rotation.check(techniques)
    return asked


def _perturb(typed: str, cwd: Path) -> str:
    """Return the change of questions or images that --perturb names as `Protocol.perturb` has it (UsageError)."""
    if question_forms.is_form(typed):
        return question_forms.parse(typed, cwd).canonical
    return perturbation.parse(typed).text if typed else ""


def _prompt_files(project: Project) -> Mapping[str, Templates]:
    """Return the prompts of the files that --prompt names, by name (UsageError)."""
    read: dict[str, Templates] = {}
    for typed in dict.fromkeys(filter(prompt_files.is_file, project.options.prompts)):
        prompt = prompt_files.read(Path(project.cwd, typed), typed)
        if prompt.name in read:
            raise UsageError(f"--prompt={typed}: two files are called '{prompt.name}'; rename one of them")
        read[prompt.name] = prompt
    return read


def _with_prompts(benchmark: Benchmark, prompts: Mapping[str, Templates]) -> Benchmark:
    """The benchmark with further named prompts (UsageError for a name that it has)."""
    for name in prompts:
        if name in benchmark.prompts:
            raise UsageError(
                f"--prompt: benchmark '{benchmark.name}' has a prompt '{name}' already; rename the file, or type "
                f"--prompt={name} for the benchmark's"
            )
    return replace(benchmark, prompts={**benchmark.prompts, **prompts}) if prompts else benchmark


def _prompts(options: Options, chosen: Sequence[Benchmark]) -> tuple[str, ...]:
    """Return the typed prompts by name: a file by its own, a number by the name that begins with it (UsageError)."""
    names: dict[str, None] = {}
    for typed in options.prompts:
        name = Path(typed).stem if prompt_files.is_file(typed) else typed
        resolved = [found for benchmark in chosen for found in naming.asked([name], benchmark)]
        names |= {ALL: None} if name == ALL else dict.fromkeys(resolved)
    return tuple(names)


def _instructions(asked: Protocol) -> list[str]:
    """Return the options that add an instruction to the prompt, as they are typed."""
    return [f"--reasoning={asked.reasoning}" if name == "reasoning" else f"--{name}" for name in asked.instructions]


def _check_instruction(plan: Plan) -> None:
    """UsageError for an instruction, such as to reason or to explain, that cannot be followed."""
    instruction = plan.protocol.instruction
    silent = [name for name in plan.techniques if name in OPTION_TECHNIQUES]
    typed = _instructions(plan.protocol)
    if silent and typed:
        raise UsageError(
            f"{typed[0]}: technique '{silent[0]}' compares probabilities of the options, and the model writes nothing; "
            "type --technique=mc"
        )
    if instruction is not None and instruction.then:
        _check_turns(typed[0], plan)


def _check_turns(typed: str, plan: Plan, prompts: Sequence[str] = ()) -> None:
    """UsageError if the model cannot be sent the earlier turns of a conversation; `prompts` are those of one turn."""
    model = plan.model
    if not (model.backend.converses or model.backend.recorded):
        able = sorted(name for name, kind in plan.registry.backends.items() if says(kind, "converses"))
        raise UsageError(
            f"{typed}: backend '{model.config.backend}' takes one turn alone, and this needs two; those that take "
            f"several: {', '.join(able)}. A class of your own that sends Prompt.turns before the text declares "
            f"converses = True{f'. Or ask in one turn: --prompt={prompts[0]}' if prompts else ''}"
        )


def _rotations(typed: str) -> int | None:
    if typed == ALL:
        return None
    if not typed.isascii() or not typed.isdecimal() or not 2 <= int(typed[:9]) <= MAX_ROTATIONS:
        raise UsageError(f"--rotate={typed}: a number of orders from 2 to {MAX_ROTATIONS}, or {ALL}")
    return int(typed)


def _check_samples(plan: Plan) -> None:
    """UsageError if all samples of an answer would be the same."""
    options, model, techniques = plan.options, plan.model, plan.techniques
    if options.samples is None:
        return
    scoring = [name for name in techniques if name in OPTION_TECHNIQUES]
    if scoring:
        raise UsageError(
            f"--samples={options.samples}: technique '{scoring[0]}' does not sample: all samples of an answer "
            "would be the same; sample with --technique=mc"
        )
    if not model.backend.draws():
        raise UsageError(
            f"--samples={options.samples}: '{options.model}' answers the same question always alike. "
            "Sample a model whose config samples: temperature above 0 (openai), generation.do_sample (hf)"
        )
    unsampled = model.backend.unsampled()
    if alike := [name for name in techniques if name in unsampled]:
        raise UsageError(
            f"--samples={options.samples}: '{options.model}' samples, but not for technique '{alike[0]}'. Copy its "
            "config with temperature above 0 (openai), generation.do_sample (hf), or choose another --technique"
        )


def _one_of(option: str, value: str, allowed: Iterable[Any], where: str = "") -> Any:
    names = list(allowed)
    if value not in names:
        raise UsageError(f"no {option} '{value}'{where}{did_you_mean(value, names)}")
    return value
