"""Checks before the first question: files, consent, upload, cost, places."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from medvqa import benchmarks, engine, medical, printing, scoring
from medvqa.benchmarks import origins
from medvqa.configs import ModelConfig
from medvqa.items import DataError, Query, QuestionKey, UsageError, of_data, withholding
from medvqa.protocols import naming, perturbation, voting
from medvqa.protocols.protocol import ALL, Protocol
from medvqa.records import run_record
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import REPLAY, RUN
from medvqa.session import places, shot_checks, uploads
from medvqa.session.chosen import Chosen
from medvqa.session.plan import Plan
from medvqa.tags import own_tags

MAX_PLACES = 10
"""Rows of missing images that a message names."""
MAX_HEADERS = 2000
"""DICOM headers of a benchmark that are read before a run, about a millisecond each."""


def check(plan: Plan, *, answered: Callable[[ModelConfig], bool]) -> tuple[str, ...] | None:
    """Load the data, and ask backends about their models (UsageError, DataError).

    Return the devices that can each hold one copy of the model and the judge; None if they take none, or if nothing
    will be asked. `answered` returns True if answers of a model may be stored, so that its server is not needed.
    """
    # A model that must still be named is not asked: the session ends before.
    held = None if plan.project.collects_only or plan.lacks_model else _check_models(plan, answered)
    if plan.options.answers_from_category and not plan.recovers:
        raise UsageError(
            f"--answers-from-category: only gmai-mmbench-test has a key to recover, and this run asks "
            f"{', '.join(plan.benchmarks)}; leave the option out, or add gmai-mmbench-test"
        )
    for name in plan.benchmarks:
        plan.items(name)
        if plan.ablation == "shuffle":
            plan.shuffled(name)
        if plan.protocol.shots:
            shot_checks.check(plan, name)
        _check_prompts(plan, name)
    _check_read(plan)
    if plan.protocol.rotations != 0 and not any(map(plan.rotates, plan.benchmarks)):
        raise UsageError(
            f"--rotate: {', '.join(plan.benchmarks)} has no question whose options technique "
            f"'{', '.join(plan.techniques)}' shows under letters; leave --rotate out"
        )
    _check_votes(plan)
    with withholding(not all(benchmark.public for benchmark in plan.benchmarks.values())):
        plan.tags.check({name: plan.items(name) for name in plan.benchmarks}, plan.registry.benchmarks)
        _check_perturbed(plan)
    scoring.rules.check(plan.extraction, {name: plan.items(name) for name in plan.benchmarks}, plan.benchmarks)
    return held


def _check_read(plan: Plan) -> None:
    """Raise DataError if no reader has read any question, or an id without a benchmark is that of two questions."""
    if plan.readers is None:
        return
    read = frozenset[tuple[str, str]]().union(*plan.readers.read)
    named = Counter(item.id for name in plan.benchmarks for item in plan.items(name) if ("", item.id) in read)
    if twice := sorted(name for name, number in named.items() if number > 1):
        raise DataError(
            f"'{plan.options.model}': {of_data(twice[0])} is the id of questions of several benchmarks, and its "
            "readings do not tell of which. Ask one benchmark, or type --set benchmark=COLUMN"
        )
    if not named and read.isdisjoint((name, item.id) for name in plan.benchmarks for item in plan.items(name)):
        first = of_data(min(name for _, name in read))
        raise DataError(
            f"'{plan.options.model}' has readings of {len(read):,} questions, and none of "
            f"{', '.join(plan.benchmarks)}; one is of {first}. Type --benchmark=NAME, or the column of the ids: "
            "--set id=COLUMN"
        )


def _check_prompts(plan: Plan, name: str) -> None:
    """Make each named prompt for a question of each kind (UsageError). Questions whose data are bad end in errors."""
    for prompt in filter(None, plan.prompts(name)):
        for technique in plan.techniques:
            kinds = {item.kind: item for item in plan.items(name) if plan.applies(Query(item, technique))}
            for item in kinds.values():
                with suppress(DataError):
                    plan.asks(name, prompt)(item, technique)


def _check_votes(plan: Plan) -> None:
    """UsageError for a named benchmark whose answers cannot be voted on; if a part is selected, only if none can."""
    if plan.protocol.combine != "vote":
        return
    for name, benchmark in plan.benchmarks.items():
        if name not in plan.options.benchmarks:
            # No test may ask its questions: `check_selected_votes` checks those that are asked.
            continue
        items = plan.items(name)
        mute = [item for item in items if not voting.can_vote(item, benchmark)]
        if mute and not (plan.selects and len(mute) < len(items)):
            raise voting.undefined(mute[0])


def _check_perturbed(plan: Plan) -> None:
    """UsageError if --perturb changes no question, or shows in no image; also for ids of its file that none has."""
    if not (perturb := plan.protocol.perturb):
        return
    shown, items_of = f"--perturb={perturb}", {name: plan.items(name) for name in plan.benchmarks}
    if (change := perturbation.of(perturb)) is not None and plan.ablation in ("text-only", "blank"):
        raise UsageError(
            f"{shown} with --ablate={plan.ablation}: the model would see nothing of the change; leave one of them out"
        )
    if change is not None and change.is_mask and plan.ablation == "shuffle":
        raise UsageError(f"--ablate=shuffle {shown}: a region is that of the question's own image")
    if plan.form is not None:
        own_tags.check_ids(shown, plan.form.rows.values(), items_of, plan.registry.benchmarks)
    if not any(plan.can_change(item, how) for items in items_of.values() for how in plan.techniques for item in items):
        raise UsageError(
            f"{shown}: it changes no question of {printing.some(list(items_of), 3)}. {perturbation.needs(perturb)}"
        )


def check_selected_votes(plan: Plan, keys: Iterable[QuestionKey]) -> None:
    """UsageError if answers to a selected question cannot be voted on."""
    if plan.protocol.combine != "vote":
        return
    selected = {(key.benchmark, key.item) for key in keys}
    for name, benchmark in plan.benchmarks.items():
        for item in plan.items(name):
            if (name, item.id) in selected and not voting.can_vote(item, benchmark):
                raise voting.undefined(item)


def perturbed_notices(plan: Plan, keys: Iterable[QuestionKey]) -> list[str]:
    """Return a line for each benchmark about the parameters of changed images, of its selected questions."""
    selected = {(key.benchmark, key.item) for key in keys}
    asked = {name: [item for item in plan.items(name) if (name, item.id) in selected] for name in plan.benchmarks}
    told = {name: perturbation.parameters_used(items, plan.protocol.perturb) for name, items in asked.items() if items}
    return [f"medvqa: {name}: {used}" for name, used in told.items() if used]


def _check_models(plan: Plan, answered: Callable[[ModelConfig], bool]) -> tuple[str, ...] | None:
    options, model, judge = plan.options, plan.model, None if plan.judge is None else plan.judge.chosen
    model.check_consent(trust_remote_code=options.trust_remote_code)
    model.check()
    if options.concurrency is not None:
        engine.Limits.of(model.backend, concurrency=options.concurrency)
    _check_recorded(plan)
    if judge is not None:
        judge.check_consent(trust_remote_code=options.trust_remote_code)
        judge.check()
    check_cost(options.max_cost, [model] if judge is None else [model, judge])
    if not options.allow_upload:
        uploads.check(plan)
    # After consent to upload, and before places: some backends import much for these.
    _preflight(plan, answered)
    held = places.places([model] if judge is None else [model, judge])
    if held is not None and plan.project.workers > len(held):
        raise places.too_many(plan.project.workers, held, options.model)
    return held


def _check_recorded(plan: Plan) -> None:
    """Raise UsageError if answers were recorded as samples, or by another technique."""
    if not plan.samples and (number := plan.model.backend.samples()):
        raise UsageError(
            f"'{plan.options.model}' was recorded with --samples={number}, several samples of each answer; add "
            f"--samples={number}"
        )
    _check_technique(plan)
    _check_protocol(plan)


def _check_protocol(plan: Plan) -> None:
    """Raise UsageError if a run's results.jsonl is replayed whose answers were asked for in another way."""
    config = plan.model.config
    path = Path(config.argument)
    if config.backend != REPLAY or path.name != RESULTS or not (path.parent / RUN).is_file():
        return
    recorded = run_record.read_run(path.parent)
    asked, now = recorded.protocol, plan.protocol
    cannot = [f"--ablate={recorded.ablation}"] if recorded.ablation else []
    cannot += [f"--shots={asked.shots}"] if asked.shots else []
    cannot += [f"--perturb={asked.perturb}"] if asked.perturb else []
    if cannot:
        raise UsageError(
            f"'{plan.options.model}' was recorded with {' '.join(cannot)}, which replayed answers cannot repeat: their "
            f"numbers would pass for those of another run. Show that run: medvqa report {shlex.quote(str(path.parent))}"
        )
    was, typed = _words(asked), _words(now)
    if len(asked.prompts) > 1 or ALL in asked.prompts:
        # Answers to several prompts are found by their variants.
        was, typed = ({word for word in words if not word.startswith("--prompt")} for words in (was, typed))
    if was != typed:
        advice = [f"add {word}" for word in sorted(was - typed)]
        advice += [f"leave out {word}" for word in sorted(typed - was)]
        raise UsageError(
            f"'{plan.options.model}' was recorded {'with' if was else 'without'} "
            f"{' '.join(sorted(was or typed))}: {', '.join(advice)}, so that its numbers are named after what was asked"
        )


def _words(protocol: Protocol) -> set[str]:
    """The options that change the text of a prompt, as they are typed."""
    words = {f"--prompt={name}" for name in protocol.prompts if name != naming.OWN}
    words |= {f"--reasoning={protocol.reasoning}"} if protocol.reasoning else set()
    return words | {f"--{name}" for name in ("explain", "abstain", "confidence") if getattr(protocol, name)}


def _check_technique(plan: Plan) -> None:
    """Raise UsageError if a benchmark's answers were recorded, but none by a wanted technique."""
    for name, benchmark in plan.benchmarks.items():
        recorded = plan.model.backend.recorded_by(name)
        lacking = [name for name in plan.techniques if name in benchmark.techniques and name not in recorded]
        if recorded and lacking:
            raise UsageError(
                f"'{plan.options.model}' holds no answers to {name} by technique '{lacking[0]}'; they were recorded by "
                f"{', '.join(recorded)}: type --technique={','.join(recorded)}"
            )


def check_cost(limit: float | None, models: Sequence[Chosen]) -> None:
    """UsageError for --max-cost if no model reports costs, or if one on another machine does not."""
    if limit is None:
        return
    if not limit > 0:
        raise UsageError(f"--max-cost={limit:g}: a sum of money is more than 0")
    priced = {model.spec for model in models if model.backend.priced}
    # A local model costs nothing beside a paid one.
    unknown = [m.spec for m in models if m.spec not in priced and (m.backend.sends_to is not None or not priced)]
    if unknown:
        raise UsageError(
            f"--max-cost={limit:g}: '{unknown[0]}' does not tell what its answers cost; give price_input "
            "and price_output in the [options] of a config of the backend openai"
        )


def _preflight(plan: Plan, answered: Callable[[ModelConfig], bool]) -> None:
    """UsageError for a model that cannot run now, unless it is a server and all its answers may be stored."""
    for name in plan.benchmarks:
        check_images(plan, name)
    if plan.protocol.shots and _needs_images(plan):
        shot_checks.check_images(plan)
    for chosen in [plan.model] if plan.judge is None else [plan.model, plan.judge.chosen]:
        if not (chosen.backend.sends_to is not None and answered(chosen.answering)):
            chosen.preflight()


def _needs_images(plan: Plan) -> bool:
    return plan.model.backend.looks and plan.ablation != "text-only"


def check_images(plan: Plan, name: str) -> None:
    """UsageError for a benchmark with missing images; if a part of its questions is selected, only if all are missing.

    A model that looks at no image needs none.
    """
    if not _needs_images(plan):
        return
    _check_readers(plan, name)
    number, absent = plan.missing_images(name)
    if not absent or (plan.selects and len(absent) < number):
        return
    part = (
        "" if len(absent) == number else "; or select questions, as by -k: those whose image is missing end in errors"
    )
    # Without files in the data folder, another data folder does not help: the full path does.
    benchmark = plan.benchmarks[name]
    own = not origins.needs_files(benchmark)
    if benchmark.public:
        missing = f"the first that is missing: {printing.line(plan.missing_path(name) if own else absent[0])}"
    else:
        # A path may name a patient; the data have it.
        missing = f"missing are those of {printing.some(plan.missing_places(name), MAX_PLACES)}"
    how = "medvqa help data says from where"
    if benchmark.origin and benchmark.origin.files:
        how = f"medvqa fetch {name} {shlex.quote(f'--data={plan.folder(name)}')}"
    advice = (
        "Put them there, correct the names," if own else f"Put them there ({how}), name another folder with --data=DIR,"
    )
    raise UsageError(
        f"{name}: {number - len(absent)} of {number} images are there, {missing}. "
        f"{advice} or ask without images: --ablate=text-only{part}"
    )


def _check_readers(plan: Plan, name: str) -> None:
    """UsageError if images need a reader that is not installed. If questions are selected, theirs end in errors."""
    needs = medical.lacking()
    if plan.selects or not needs:
        return
    images = [image for item in plan.items(name) for image in item.images if image.may_be_medical]
    for image in images[:MAX_HEADERS]:
        if (kind := image.medical_kind) in needs:
            raise UsageError(f"{name}: {needs[kind]}; or ask without images: --ablate=text-only")


def notices(plan: Plan) -> list[str]:
    """Lines that the user reads before the first question: folders of data, missing images, and uploads."""
    return [
        *_sources(plan),
        *_unread(plan),
        *_missing_notices(plan),
        *_burnt_in_notices(plan),
        *uploads.notices(plan),
    ]


def _sources(plan: Plan) -> list[str]:
    """A line for each data folder that was found without --data."""
    if plan.options.data is not None:
        return []
    names = [name for name, benchmark in plan.benchmarks.items() if origins.needs_files(benchmark)]
    return [
        f"medvqa: {name} is read from {printing.line(str(plan.folder(name)))}, as no --data=DIR was given"
        for name in names
    ]


def _unread(plan: Plan) -> list[str]:
    """Return a line for each folder of a data set without its files; none if benchmarks were named."""
    options = plan.options
    if options.data is None or options.benchmarks:
        return []
    return benchmarks.unread(plan.benchmarks.keys(), plan.registry.benchmarks, options.data)


def _missing_notices(plan: Plan) -> list[str]:
    """Return a line for each benchmark with missing images; `check` refuses a run of all questions."""
    if not _needs_images(plan):
        return []
    missing = [(name, *plan.missing_images(name)) for name in plan.benchmarks]
    return [
        f"medvqa: {name}: {len(absent)} of {number} images are missing; questions about them end in errors"
        for name, number, absent in missing
        if absent
    ]


def _burnt_in_notices(plan: Plan) -> list[str]:
    """Return lines for each benchmark with DICOM files that say, or may be suspected, to show burnt-in text.

    The header decides (`Image.burnt_in`); no pixel is looked at. At most MAX_HEADERS files of a benchmark are opened.
    """
    if not _needs_images(plan):
        return []
    lines = []
    for name in plan.benchmarks:
        images = {image.path: image for item in plan.items(name) for image in item.images if image.may_be_medical}
        looked_at = [images[path] for path in sorted(images)[:MAX_HEADERS]]
        signs = [(*image.burnt_in(), image.allow_burned_in) for image in looked_at]
        refused = sum(declared and not allowed for declared, _, allowed in signs)
        suspected = sum(suspected for _, suspected, _ in signs)
        of = f"{len(images):,}" if len(looked_at) == len(images) else f"the first {len(looked_at):,}"
        if refused:
            lines.append(
                f"medvqa: {name}: {refused:,} of {of} medical files say that annotation is burnt into their pixels "
                "(BurnedInAnnotation = YES); questions about them end in errors. If nobody is named there: "
                "allow_burned_in"
            )
        if suspected:
            lines.append(
                f"medvqa: {name}: {suspected:,} of {of} medical files are ultrasound, secondary captures or the like, "
                "and do not say BurnedInAnnotation = NO: names may be burnt into their pixels. Look at some"
            )
    return lines
