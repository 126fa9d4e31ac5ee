"""What was run, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from medvqa.report.build import Report
from medvqa.report.html.texts import label

_DIGEST = re.compile("[0-9a-f]{40,128}")
FROM_CATEGORY = "--answers-from-category"
"""What only benchmarks with a key to recover may be asked with."""


def command(run: Mapping[str, Any]) -> list[str]:
    """What was typed, as far as another run of the same model needs it."""
    options = run.get("options", {})
    model = options.get("model") or run.get("model", {}).get("name", "MODEL")
    typed = ["pytest", f"--model={model}"]
    if run.get("ablation"):
        typed.append(f"--ablate={run['ablation']}")
    if run.get("extraction", "sound") != "sound":
        typed.append(f"--extraction={run['extraction']}")
    if options.get("answers_from_category"):
        typed.append(FROM_CATEGORY)
    return typed


def facts(report: Report) -> list[tuple[str, str]]:
    """What was run, as terms and their descriptions, in the order in which they are shown."""
    run = report.run
    model: Mapping[str, Any] = run.get("model", {})
    told = [("Model", str(model.get("name", "unknown")))]
    if model.get("fingerprint"):
        told.append(("Fingerprint", str(model["fingerprint"])))
    told += [
        # Whom a page is sent to has no use for the folders of this machine.
        (label(name).capitalize(), PurePath(str(value)).name if name == "checkpoint" else _plain(value))
        for name, value in model.items()
        if name not in ("name", "fingerprint")
    ]
    told += [
        ("Technique", ", ".join(report.techniques)),
        ("Reading of answers", str(run.get("extraction", "sound"))),
    ]
    told += _judge(report)
    if report.ablation:
        told.append(("Ablation", report.ablation))
    for name, about in run.get("benchmarks", {}).items():
        prompts = [f"{technique}: {names.replace('+', ', ')}" for technique, names in about.get("prompts", {}).items()]
        told.append((f"Prompts of {name}", "; ".join(prompts)))
        told.append((f"Token limits of {name}", _limits(about.get("max_tokens", {}))))
        told.append(
            (f"Data of {name}", f"{about.get('items', 0):,} items, SHA-256 {about.get('data_sha256', '')[:16]}…")
        )
    if cut := [part for part in report.parts if part.truncated]:
        told.append(("Truncated answers", ", ".join(f"{part.name}: {len(part.truncated):,}" for part in cut)))
    # Of a run of an earlier version; others tell what they selected beside their measures.
    if not report.selection.benchmarks and run.get("options", {}).get("limit"):
        told.append(("Limit", f"{run['options']['limit']} items of each benchmark"))
    started = _time(run.get("started"))
    if started is not None:
        told.append(("Started", started.strftime("%Y-%m-%d %H:%M %Z")))
    told.append(("Took", _took(report)))
    if waits := sorted(
        result.answer.seconds
        for part in report.parts
        for result in part.results
        if result.answer is not None and result.answer.seconds is not None
    ):
        told.append(("Time of an answer", f"median {_wait(waits[len(waits) // 2])}, longest {_wait(waits[-1])}"))
    usage = run.get("usage") or {}
    told += [(f"Tokens {name}", f"{usage[name]:,.0f}") for name in ("input", "output") if name in usage]
    if "cost" in usage:
        told.append(("Cost", f"{usage['cost']:,.4g} by the prices of the config"))
    versions = run.get("versions", {})
    if versions:
        names = [name for name in ("pytest-medvqa", "python", "torch", "transformers", "openai") if name in versions]
        told.append(("Versions", ", ".join(f"{name} {versions[name]}" for name in names)))
    return [(name, value) for name, value in told if value]


def _limits(limits: Mapping[str, Mapping[str, int]]) -> str:
    """The limits of tokens by technique, and by kind of question where these differ."""
    return "; ".join(
        f"{technique}: " + (_limit(*numbers) if len(numbers := set(kinds.values())) == 1 else _by_kind(kinds))
        for technique, kinds in limits.items()
    )


def _by_kind(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{label(kind)} {_limit(number)}" for kind, number in kinds.items())


def _limit(number: int) -> str:
    return f"{number:,}" if number else "none"


def _judge(report: Report) -> list[tuple[str, str]]:
    """Who judged, how many answers, how long that took, and what it used."""
    judgements = [each.judgement for part in report.parts for each in part.results if each.judgement is not None]
    about = report.run.get("judge") or {}
    names = sorted({each.judge for each in judgements}) or ([str(about["name"])] if "name" in about else [])
    if not names:
        return []
    told = [("Judge", f"{', '.join(names)}: {len(judgements):,} answers")]
    if waits := sorted(each.seconds for each in judgements if each.seconds is not None):
        told.append(("Time of a judgement", f"median {_wait(waits[len(waits) // 2])}, longest {_wait(waits[-1])}"))
    usage = report.run.get("judge_usage") or {}
    used = [f"{usage[name]:,.0f} tokens {name}" for name in ("input", "output") if name in usage]
    used += [f"cost {usage['cost']:,.4g} by the prices of its config"] if "cost" in usage else []
    return [*told, ("Judging used", ", ".join(used))]


def _took(report: Report) -> str:
    """How long the sessions of the run took together, and their rate of the answers that they asked for."""
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
    asked = sum(count for _, count in ended)
    rate = f", {asked / seconds:,.3g} answers a second" if asked and seconds > 0 else ""
    unknown = len(sessions) - len(ended)
    return f"{_duration(seconds)}{rate}" + (f"; without {unknown} of its sessions, not ended" if unknown else "")


def _wait(seconds: float) -> str:
    return "under 1 ms" if seconds < 0.001 else f"{seconds:.3g} s"


def _plain(value: object) -> str:
    """A setting in words: what is empty is left out, digests by their first digits."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {told}" for name, each in value.items() if (told := _plain(each)))
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
    # Without an offset it cannot be subtracted from one that has it.
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
