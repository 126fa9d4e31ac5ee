"""The set-up of a run, in groups of named facts: what to name in a paper, and what to repeat the run with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PureWindowsPath

from medvqa.benchmarks.recorded import RecordedFile
from medvqa.protocols import perturbation, question_forms
from medvqa.protocols.protocol import Protocol
from medvqa.records.run_record import RecordedBenchmark, RecordedJudge, RecordedSession, RunRecord
from medvqa.report.build import Report
from medvqa.report.bundle.facts import declaring_files
from medvqa.report.bundle.page_blocks import NamedFact as Fact
from medvqa.report.bundle.page_blocks import PageSection, TextBlock, section
from medvqa.report.bundle.texts import label
from medvqa.report.notes import used

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
TOLD: Mapping[str, str] = {
    "text": "Text",
    "option": "Line of an option",
    "system": "System prompt",
    "order": "Order of images and text",
    "then": "Further turns",
}
"""The parts of a recorded template, and how they are named."""
FIRST_VERSIONS = ("pytest-medvqa", "python", "torch", "transformers", "openai")
MOST_FACTS, MOST_CHARACTERS, MOST_OF_NAME, DEPTH = 200, 2000, 200, 8
"""Bounds of a group, of a value, of its name, and of nested settings: a run folder may hold anything."""
_PATH = re.compile(r"(~?(/[^/\n]+){2,}/?|([A-Za-z]:[\\/]|\\\\)[^\n]+)")
"""A path to a folder of a machine; not a word such as /no_think."""


def method_section(report: Report, commands: Sequence[str]) -> PageSection:
    """The set-up of a run, with the commands that ask its questions again; empty facts and groups are left out."""
    unknown = report.run.model.unknown
    groups = {
        "Model": _model(report),
        "Settings of the model": leaves(unknown.get("settings")),
        "Options of the model": leaves(unknown.get("options")),
        "Files of the model (SHA-256)": leaves(unknown.get("digests")),
        "Asking": _asking(report),
        **{f"Benchmark {name}": _benchmark(report, name, part) for name, part in _benchmarks(report.run)},
        **_templates(report.run),
        "Judge": _judge(report),
        "Machine and time": _machine(report),
        "Versions": _versions(report.run),
    }
    kept = {name: _bounded([fact for fact in facts if fact.value]) for name, facts in groups.items()}
    again = "\n".join(commands)
    blocks = [
        TextBlock(lines=(_line(report),)),
        *([TextBlock("Commands, one for each benchmark", verbatim=again)] if again else []),
        *(TextBlock(name, facts=tuple(facts)) for name, facts in kept.items() if facts),
    ]
    return section("method", "Method", blocks, folded=True)


def _line(report: Report) -> str:
    names = list(dict.fromkeys(part.benchmark.name for part in report.parts))
    version = report.run.versions.get("pytest-medvqa", "")
    told = (
        _text(report.run.model.name),
        ", ".join(names),
        f"technique {', '.join(report.techniques)}" if report.techniques else "",
        report.label,
        f"pytest-medvqa {version}" if version else "",
    )
    return " · ".join(filter(None, told))


def _model(report: Report) -> list[Fact]:
    model = report.run.model
    rows = [Fact("Model", _text(model.name or "unknown")), Fact("Fingerprint", _text(model.fingerprint))]
    for name, value in model.unknown.items():
        if name in ("settings", "options", "digests"):
            continue
        told = CLASSES.get(name) or label(name).capitalize()
        if name == "checkpoint":
            rows.append(Fact(told, _last(_text(value))))
        elif isinstance(value, Mapping):
            rows += [Fact(f"{told}: {fact.name}", fact.value) for fact in leaves(value)]
        else:
            rows.append(Fact(told, f"{value:,}" if type(value) is int else _text(value)))
    return rows


def _asking(report: Report) -> list[Fact]:
    rows = [
        Fact("Technique", ", ".join(f"{name} ({NAMES[name]})" for name in report.techniques)),
        Fact("Extraction", report.extraction),
        Fact("Ablation", report.ablation),
        Fact("Changed images", _changed_images(report)),
        *_protocol(report.run.protocol),
    ]
    if cut := [part for part in report.parts if part.truncated]:
        rows.append(Fact("Truncated answers", ", ".join(f"{part.name}: {len(part.truncated):,}" for part in cut)))
    # For runs of an earlier version; later ones show the selection beside their measures.
    if not report.selection.benchmarks and (limit := report.run.options.limit):
        rows.append(Fact("Limit", f"{limit} questions of each benchmark"))
    return rows


def _changed_images(report: Report) -> str:
    """The change of images by --perturb, and how many questions got which parameters."""
    items = {(result.item.benchmark, result.item.id): result.item for part in report.parts for result in part.results}
    return perturbation.parameters_used(items.values(), report.run.protocol.perturb)


def _benchmark(report: Report, name: str, recorded: RecordedBenchmark) -> list[Fact]:
    """The data of a benchmark, and its prompts."""
    files = declaring_files(report.run)
    own = next((part.benchmark for part in report.parts if part.benchmark.name == name), None)
    licence = own.origin.licence if own is not None and own.origin is not None else ""
    declared, shots = recorded.declared or RecordedFile(), report.run.protocol.shots
    file = f"{_last(_text(files[name]))}, " if name in files else ""
    items, release = recorded.items, recorded.release
    of = f" of {release:,} released" if release is not None and release != items else ""
    of += "".join(f", {number:,} for {key}" for key, number in recorded.questions.items() if number != items)
    prompts = [f"{key}: {names.replace('+', ', ')}" for key, names in recorded.prompts.items()]
    if len(recorded.asked_by) > 1:
        prompts = [", ".join(recorded.asked_by)]
    return [
        Fact("Questions", f"{items:,}{of}"),
        Fact("Language", _text(declared.language)),
        Fact("Licence", _text(declared.licence) or licence),
        Fact("Answer key", "recovered from the column category" if recorded.answers == "category" else ""),
        Fact("Data", _sha256(recorded.data_sha256)),
        Fact("Declaration", f"{file}{digest}" if (digest := _sha256(declared.sha256)) else ""),
        Fact("Prompts", "; ".join(prompts)),
        Fact("Token limits", _limits(recorded.max_tokens or {})),
        Fact("Solved examples", f"{shots}, from {_text(recorded.signature.get('pool'))}" if shots else ""),
    ]


def _sha256(digest: object) -> str:
    return f"SHA-256 {_text(digest)}" if digest else ""


def _templates(run: RunRecord) -> dict[str, list[Fact]]:
    """The texts of prompts that are not a benchmark's own; those are in the source, under their names and digests."""
    return {
        f"Template {_text(name)}": [
            Fact(TOLD.get(part, label(part)), text[:MOST_CHARACTERS]) for part, text in parts.items()
        ]
        for _, recorded in _benchmarks(run)
        for name, parts in list(recorded.templates.items())[:MOST_FACTS]
    }


def _machine(report: Report) -> list[Fact]:
    run, rows = report.run, list[Fact]()
    if (started := _time(run.started)) is not None:
        rows.append(Fact("Started", started.strftime("%Y-%m-%d %H:%M %Z")))
    rows.append(Fact("Took", _took(report)))
    if waits := sorted(
        result.answer.seconds
        for part in report.parts
        for result in part.results
        if result.answer is not None and result.answer.seconds is not None
    ):
        rows.append(Fact("Time of an answer", f"median {_wait(waits[len(waits) // 2])}, longest {_wait(waits[-1])}"))
    rows.append(Fact("Used", used(run.usage)))
    workers = [session.workers for session in run.sessions]
    if any(workers):
        rows.append(Fact("Workers", ", ".join(_text(number or "none") for number in dict.fromkeys(workers))))
    return [*rows, *(Fact(label(f.name).capitalize(), f.value) for f in leaves(run.engine.as_json()))]


def _versions(run: RunRecord) -> list[Fact]:
    versions = run.versions
    names = [*(name for name in FIRST_VERSIONS if name in versions), *(n for n in versions if n not in FIRST_VERSIONS)]
    return [Fact(_text(name), _text(versions[name])) for name in names]


def _judge(report: Report) -> list[Fact]:
    """The judge's name, number of answers, times, usage and set-up."""
    judgements = [result.judgement for part in report.parts for result in part.results if result.judgement is not None]
    judge = report.run.judge or RecordedJudge()
    names = sorted({judgement.judge for judgement in judgements}) or ([_text(judge.name)] if judge.name else [])
    if not names:
        return []
    rows = [Fact("Judge", f"{', '.join(names)}: {len(judgements):,} answers")]
    if waits := sorted(judgement.seconds for judgement in judgements if judgement.seconds is not None):
        rows.append(Fact("Time of a judgement", f"median {_wait(waits[len(waits) // 2])}, longest {_wait(waits[-1])}"))
    rows.append(Fact("Judging used", used(report.run.judge_usage)))
    others = {name: value for name, value in judge.as_json().items() if name not in ("name", "signature")}
    return [*rows, *leaves(others)]


def _protocol(protocol: Protocol) -> list[Fact]:
    """Reasoning, abstention, confidence, samples and rotations, in whole words."""
    of = f"{protocol.samples} answers"
    combined: Mapping[str, str] = {"mean": f"mean of {of}", "vote": f"majority vote of {of}"}
    orders = "every cyclic order" if protocol.rotations is None else f"{protocol.rotations} cyclic orders"
    return [
        Fact("Reasoning", REASONING["explain" if protocol.explain else protocol.reasoning]),
        Fact("Form of questions", question_forms.described(protocol.perturb)),
        Fact("Offered", 'the answer "Cannot be determined"' if protocol.abstain else ""),
        Fact("Confidence", "asked for, in percent, in the last line of the reply" if protocol.confidence else ""),
        Fact("Answers to a question", combined[protocol.combine] if protocol.samples is not None else ""),
        Fact("Order of options", f"{orders}; right only if right in each" if protocol.rotations != 0 else ""),
    ]


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


def _took(report: Report) -> str:
    """The total time of the run's sessions, and their rate of new answers."""
    run = report.run
    whole = RecordedSession(
        started=run.started, finished=run.finished, asked=sum(len(part.results) for part in report.parts)
    )
    sessions = run.sessions or (whole,)
    ended = [
        (finished - started, session.asked)
        for session in sessions
        if (started := _time(session.started)) and (finished := _time(session.finished))
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


# ---- values of a run folder, which may be anything -------------------------------------------------------------------


def _benchmarks(run: RunRecord) -> list[tuple[str, RecordedBenchmark]]:
    return list(run.benchmarks.items())[:MOST_FACTS]


def leaves(value: object, path: Sequence[str] = ()) -> list[Fact]:
    """The values inside nested settings, named by their paths; empty ones and folders of this machine are left out."""
    if isinstance(value, Mapping) and len(path) < DEPTH:
        return [fact for name, inner in value.items() for fact in leaves(inner, (*path, str(name)))]
    return [Fact(".".join(path), _text(value))] if path else []


def _text(value: object) -> str:
    """A value in words: lists joined, folders of this machine cut off, bounded."""
    if value is None or value == {}:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(_text, value[:MOST_FACTS])))
    text = str(value)
    # A page is sent to others: do not show folders of this machine.
    text = _last(text) if _PATH.fullmatch(text) else text
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters)"


def _last(path: str) -> str:
    return PureWindowsPath(path).name


def _bounded(facts: list[Fact]) -> list[Fact]:
    left = len(facts) - MOST_FACTS
    kept = [Fact(fact.name[:MOST_OF_NAME], fact.value) for fact in facts[:MOST_FACTS]]
    return kept if left <= 0 else [*kept, Fact("Not shown", f"{left:,} more, in run.json")]


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
