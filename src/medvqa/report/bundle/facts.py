"""The run's set-up, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from medvqa.protocols import combining
from medvqa.protocols.protocol import ALL, Protocol
from medvqa.report.build import Report
from medvqa.report.bundle.texts import label

_DIGEST = re.compile("[0-9a-f]{40,128}")
NAMES: Mapping[str, str] = {
    "mc": "multiple choice, in words",
    "gd": "greedy decoding: the likeliest letter",
    "ps": "prefix-based score: the likeliest option text",
    "ff": "free form: a judge rates the closeness to each option",
}
"""The techniques, for readers of the page."""
REASONING: Mapping[str, str] = {
    "": "",
    "cot": "cot: asked to reason first, then to give the final answer",
    "cot-2": "cot-2: asked to reason first; a second turn asks for the final answer",
    "explain": "explain: asked to answer first, then to explain",
}
"""What a prompt asks for beside the answer."""
CLASSES: Mapping[str, str] = {"model": "Model class", "processor": "Processor class"}
"""Terms for Python classes: "Model" alone is the model's name."""
FROM_CATEGORY = "--answers-from-category"
"""An option that applies only to benchmarks with a recoverable key."""


def command(run: Mapping[str, Any]) -> list[str]:
    """The command that would start a similar run of the same model."""
    options = run.get("options", {})
    model = options.get("model") or run.get("model", {}).get("name", "MODEL")
    typed = ["pytest", f"--model={model}"]
    protocol = Protocol.of(run)
    if protocol.prompts:
        typed.append(f"--prompt={','.join(protocol.prompts)}")
    if run.get("ablation"):
        typed.append(f"--ablate={run['ablation']}")
    if protocol.samples is not None:
        typed.append(f"--samples={protocol.samples}")
    if protocol.combine != "mean":
        typed.append(f"--combine={protocol.combine}")
    if protocol.thresholds:
        typed.append(f"--threshold={','.join(f'{share:g}' for share in protocol.thresholds)}")
    if protocol.shots:
        typed.append(f"--shots={protocol.shots}")
    if protocol.pool:
        typed.append(f"--shot-pool={protocol.pool}")
    if protocol.reasoning:
        typed.append(f"--reasoning={protocol.reasoning}")
    if protocol.explain:
        typed.append("--explain")
    if protocol.rotations != 0:
        typed.append(f"--rotate={ALL if protocol.rotations is None else protocol.rotations}")
    if run.get("extraction", "sound") != "sound":
        typed.append(f"--extraction={run['extraction']}")
    if options.get("answers_from_category"):
        typed.append(FROM_CATEGORY)
    return typed


def declaring_files(run: Mapping[str, Any]) -> dict[str, str]:
    """The files that declare benchmarks of a run, by benchmark: `--benchmark` takes the file in place of the name."""
    declared = {name: fields.get("declared") or {} for name, fields in run.get("benchmarks", {}).items()}
    return {name: fields["file"] for name, fields in declared.items() if fields.get("file")}


def facts(report: Report) -> list[tuple[str, str]]:
    """The run's set-up as (term, description) pairs, in display order."""
    run = report.run
    model: Mapping[str, Any] = run.get("model", {})
    rows = [("Model", str(model.get("name", "unknown")))]
    if model.get("fingerprint"):
        rows.append(("Fingerprint", str(model["fingerprint"])))
    rows += [
        # A page is sent to others: do not show folders of this machine.
        (
            CLASSES.get(name) or label(name).capitalize(),
            PurePath(str(value)).name if name == "checkpoint" else _plain(value),
        )
        for name, value in model.items()
        if name not in ("name", "fingerprint")
    ]
    rows += [
        ("Technique", ", ".join(f"{name} ({NAMES[name]})" for name in report.techniques)),
        ("Extraction", report.extraction),
    ]
    rows += _judge(report)
    if report.ablation:
        rows.append(("Ablation", report.ablation))
    rows += [(f"Solved examples of {name}", words) for name, words in _shots(run)]
    rows += _protocol(Protocol.of(run))
    for name, about in run.get("benchmarks", {}).items():
        prompts = [f"{technique}: {names.replace('+', ', ')}" for technique, names in about.get("prompts", {}).items()]
        if len(named := about.get("asked_by", ())) > 1:
            prompts = [", ".join(named)]
        rows.append((f"Prompts of {name}", "; ".join(prompts)))
        rows.append((f"Token limits of {name}", _limits(about.get("max_tokens", {}))))
        rows += _declared(name, about.get("declared") or {})
        rows.append(
            (f"Data of {name}", f"{about.get('items', 0):,} items, SHA-256 {about.get('data_sha256', '')[:16]}…")
        )
    if cut := [part for part in report.parts if part.truncated]:
        rows.append(("Truncated answers", ", ".join(f"{part.name}: {len(part.truncated):,}" for part in cut)))
    # For runs of an earlier version; later ones show the selection beside their measures.
    if not report.selection.benchmarks and run.get("options", {}).get("limit"):
        rows.append(("Limit", f"{run['options']['limit']} items of each benchmark"))
    started = _time(run.get("started"))
    if started is not None:
        rows.append(("Started", started.strftime("%Y-%m-%d %H:%M %Z")))
    rows.append(("Took", _took(report)))
    if waits := sorted(
        result.answer.seconds
        for part in report.parts
        for result in part.results
        if result.answer is not None and result.answer.seconds is not None
    ):
        rows.append(("Time of an answer", f"median {_wait(waits[len(waits) // 2])}, longest {_wait(waits[-1])}"))
    usage = run.get("usage") or {}
    rows += [(f"Tokens {name}", f"{usage[name]:,.0f}") for name in ("input", "output") if name in usage]
    if "cost" in usage:
        rows.append(("Cost", f"{usage['cost']:,.4g} by the prices of the config"))
    versions = run.get("versions", {})
    if versions:
        names = [name for name in ("pytest-medvqa", "python", "torch", "transformers", "openai") if name in versions]
        rows.append(("Versions", ", ".join(f"{name} {versions[name]}" for name in names)))
    return [(name, value) for name, value in rows if value]


def _declared(name: str, declared: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The file that declares a benchmark, its language and its licence."""
    file = f"{PurePath(declared['file']).name}, " if declared.get("file") else ""
    digest = f"{file}SHA-256 {declared['sha256'][:16]}…" if declared.get("sha256") else ""
    return [
        (f"Declaration of {name}", digest),
        (f"Language of {name}", declared.get("language", "")),
        (f"Licence of {name}", declared.get("licence", "")),
    ]


def _protocol(protocol: Protocol) -> list[tuple[str, str]]:
    """Reasoning, samples and rotations, in whole words."""
    of = f"{protocol.samples} answers"
    combined: Mapping[str, str] = {
        "mean": f"mean of {of}",
        "vote": f"majority vote of {of}",
        "best-oracle": f"oracle: right if {combining.thresholds(protocol)[0]:g} % of {of} are right",
        "best-self": f"the model selects one of its {of}",
    }
    orders = "every cyclic order" if protocol.rotations is None else f"{protocol.rotations} cyclic orders"
    return [
        ("Reasoning", REASONING["explain" if protocol.explain else protocol.reasoning]),
        ("Answers to a question", combined[protocol.combine] if protocol.samples is not None else ""),
        ("Order of options", f"{orders}; right only if right in each" if protocol.rotations != 0 else ""),
    ]


def _shots(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The number of solved examples and their pool, by benchmark."""
    number = Protocol.of(run).shots
    signatures = {name: about.get("signature", {}) for name, about in run.get("benchmarks", {}).items()}
    return [(name, f"{number}, from {signed.get('pool', '')}") for name, signed in signatures.items()] if number else []


def meanings(report: Report) -> list[tuple[str, str]]:
    """The definitions of the headline measures, and of image slots if a slice counts them, as (name, text) pairs."""
    rows = {}
    for part in report.parts:
        shown = {measure.name for measure in part.headline}
        for metric in part.benchmark.metrics:
            if metric.name in shown:
                macro = f"Mean over the values of {label(metric.mean_over)}, of: " if metric.mean_over else ""
                rows[metric.name] = macro + metric.definition
        if any(measure.unit == "image slots" for measure in part.measures):
            rows["image_slots"] = "Unit of pair measures in slices: a pair counts once for each of its images there."
    return list(rows.items())


def _limits(limits: Mapping[str, Mapping[str, int]]) -> str:
    """The token limits by technique, and by kind of question if they differ."""
    return "; ".join(
        f"{technique}: " + (_limit(*numbers) if len(numbers := set(kinds.values())) == 1 else _by_kind(kinds))
        for technique, kinds in limits.items()
    )


def _by_kind(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{label(kind)} {_limit(number)}" for kind, number in kinds.items())


def _limit(number: int) -> str:
    return f"{number:,}" if number else "none"


def _judge(report: Report) -> list[tuple[str, str]]:
    """The judge's name, number of answers, times and usage."""
    judgements = [result.judgement for part in report.parts for result in part.results if result.judgement is not None]
    about = report.run.get("judge") or {}
    names = sorted({judgement.judge for judgement in judgements}) or ([str(about["name"])] if "name" in about else [])
    if not names:
        return []
    rows = [("Judge", f"{', '.join(names)}: {len(judgements):,} answers")]
    if waits := sorted(judgement.seconds for judgement in judgements if judgement.seconds is not None):
        rows.append(("Time of a judgement", f"median {_wait(waits[len(waits) // 2])}, longest {_wait(waits[-1])}"))
    usage = report.run.get("judge_usage") or {}
    used = [f"{usage[name]:,.0f} tokens {name}" for name in ("input", "output") if name in usage]
    used += [f"cost {usage['cost']:,.4g} by the prices of its config"] if "cost" in usage else []
    return [*rows, ("Judging used", ", ".join(used))]


def _took(report: Report) -> str:
    """The total time of the run's sessions, and their rate of new answers."""
    whole = {**report.run, "asked": sum(len(part.results) for part in report.parts)}
    sessions: list[Mapping[str, Any]] = report.run.get("sessions") or [whole]
    ended = [
        (finished - started, session.get("asked", 0))
        for session in sessions
        if (started := _time(session.get("started"))) and (finished := _time(session.get("finished")))
    ]
    if not ended:
        return ""
    seconds = sum(time.total_seconds() for time, _ in ended)
    answered = sum(count for _, count in ended)
    rate = f", {answered / seconds:,.3g} answers a second" if answered and seconds > 0 else ""
    unknown = len(sessions) - len(ended)
    return f"{_duration(seconds)}{rate}" + (f"; without {unknown} of its sessions, not ended" if unknown else "")


def _wait(seconds: float) -> str:
    return "under 1 ms" if seconds < 0.001 else f"{seconds:.3g} s"


def _plain(value: object) -> str:
    """A setting in words: without empty values, digests shortened."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {words}" for name, entry in value.items() if (words := _plain(entry)))
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    if value is None:
        return ""
    text = str(value)
    return f"{text[:12]}…" if _DIGEST.fullmatch(text) else text


def _time(text: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    # Naive and aware times cannot be subtracted from each other.
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
