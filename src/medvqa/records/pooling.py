"""Pool the answers of several recorded runs as samples of one run, for votes and for spreads over runs."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from medvqa.items import QuestionKey, UsageError
from medvqa.protocols import combining
from medvqa.protocols.protocol import Protocol
from medvqa.records.coverage import Selection, select_from
from medvqa.records.folder import RESULTS, RUN, encode, write_atomic, write_json
from medvqa.records.identity import of_sessions
from medvqa.records.merging import Merged, RunPart, add_usage_and_times, configuration
from medvqa.records.private import make_private
from medvqa.records.selected import store_selected

_RECORDED = "replay"
"""The backend of recordings, which do not tell their models."""
_OF_MODELS = ("the model's ", "the config's ")
_COMBINED = frozenset({"combine", "thresholds", "samples", "repeat"})
"""Parts of a protocol and of signatures that combining replaces."""


def pool(runs: Sequence[RunPart], name: str, protocol: Protocol) -> Merged:
    """Return one run whose samples are the answers of these runs, numbered from 1 in their order.

    `protocol` says how to combine them; its other fields are those of the runs. The runs must have asked the same
    questions and be alike in data, prompt, extraction and judge. Only a vote takes answers of different models.
    UsageError names the first difference, and runs that share stored answers.
    """
    for run in runs:
        if Protocol.of(run.about).combine == "best-self":
            raise UsageError(
                f"these runs cannot be combined: in {run.name} the model selected one of its answers (best-self); "
                "combine runs whose answers all count"
            )
    notes = _check_alike(runs, protocol)
    _check_questions(runs)
    _check_apart(runs)
    numbers = _numbers(runs)
    results = [
        replace(result, sample=number[result.sample])
        for run, number in zip(runs, numbers, strict=True)
        for result in run.results
    ]
    keys = {key for run, number in zip(runs, numbers, strict=True) for key in _keys(run, number)}
    lacking = keys - {result.key for result in results}
    about = _about(runs, name, protocol, numbers, keys)
    if len(runs) > 1 and _equal_texts(runs):
        notes.append(
            "these runs gave equal answers to every question: with one seed, a model's samples are copies of each other"
        )
    several = len(about.get("techniques", ())) > 1
    missing = tuple(sorted(key.name(technique=several) for key in lacking))
    complete = not missing and not any(result.score.outcome == "error" for result in results)
    return Merged(about, tuple(sorted(results, key=lambda result: result.key)), missing, tuple(notes), complete)


def write(pooled: Merged, folder: Path, keys: Sequence[QuestionKey] | None = None) -> None:
    """Write a run folder (UsageError). Results keep the names of their runs."""
    try:
        if folder.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
        make_private(folder)
        store_selected(folder, keys or [result.key for result in pooled.results])
        write_atomic(folder / RESULTS, (encode(result) + b"\n" for result in pooled.results))
        write_json(folder / RUN, {**pooled.about, "missing": pooled.missing})
    except OSError as error:
        raise UsageError(f"run folder {folder} cannot be written: {error.strerror}") from error


def _check_alike(runs: Sequence[RunPart], protocol: Protocol) -> list[str]:
    """Return notes about models; UsageError for the first difference that is not allowed."""
    first, *others = runs
    before = _configuration(first)
    models = {_model(run) for run in runs}
    notes: list[str] = []
    for run in others:
        now = _configuration(run)
        same = _model(first) == _model(run)
        for name in [*before, *(name for name in now if name not in before)]:
            if before.get(name) == now.get(name):
                continue
            of_model = name.startswith(_OF_MODELS) or "'s token limit (" in name
            if of_model and not same and (protocol.combine == "vote" or _recorded(runs)):
                continue
            advice = "; only --combine=vote takes answers of several models" if of_model and not same else ""
            raise UsageError(
                f"these runs cannot be combined: {name} is {_said(before.get(name))} in {first.name} and "
                f"{_said(now.get(name))} in {run.name}{advice}"
            )
    if len(models) > 1 and _recorded(runs):
        notes.append("these answers are recordings: they do not tell whether one model gave them")
    elif len(models) > 1:
        notes.append(
            f"these answers are those of {len(models)} models: {', '.join(sorted(name for name, _ in models))}"
        )
    return notes


def _said(value: object) -> str:
    return "not set" if value is None else repr(value)


def _recorded(runs: Sequence[RunPart]) -> bool:
    return all(run.about.get("config", {}).get("backend") == _RECORDED for run in runs)


def _model(run: RunPart) -> tuple[str, str]:
    """The name of a run's model and its fingerprint, or the options of its config without one."""
    model = run.about.get("model") or {}
    config = run.about.get("config", {})
    known = model.get("fingerprint")
    return model.get("name", ""), repr(known if known is not None else (config.get("argument"), config.get("options")))


def _configuration(run: RunPart) -> dict[str, Any]:
    """The configuration of a run, without its way to combine answers."""
    about = combining.under(run.about, Protocol())
    signed = configuration(about)
    signed.pop("protocol", None)
    signed |= {name: value for name, value in run.about.get("protocol", {}).items() if name not in _COMBINED}
    # `under` leaves out the other settings of a protocol, which must be alike.
    of_protocol = {field.name for field in fields(Protocol)} - _COMBINED
    for name, benchmark in run.about.get("benchmarks", {}).items():
        signature = benchmark.get("signature", {})
        signed |= {f"{name}'s {part}": signature[part] for part in signature.keys() & of_protocol}
    return signed


def _keys(run: RunPart, number: Mapping[int, int]) -> set[QuestionKey]:
    """The selected questions of a run, with the numbers of their samples here."""
    keys = run.keys or [result.key for result in run.results]
    return {key._replace(sample=number[key.sample]) for key in keys}


def _check_questions(runs: Sequence[RunPart]) -> None:
    """UsageError if two runs asked different questions."""
    first, *others = runs
    asked = {key._replace(sample=0) for key in _keys(first, _every(first))}
    for run in others:
        other = {key._replace(sample=0) for key in _keys(run, _every(run))}
        for more, here, there in ((asked - other, first, run), (other - asked, run, first)):
            if more:
                raise UsageError(
                    f"these runs cannot be combined: {len(more):,} of the questions of {here.name} are not in "
                    f"{there.name}; medvqa compare --json=FILE names them"
                )


def _every(run: RunPart) -> dict[int, int]:
    return {key.sample: key.sample for key in (*run.keys, *(result.key for result in run.results))}


def _check_apart(runs: Sequence[RunPart]) -> None:
    """UsageError if two runs hold the same stored answers: one draw of a model must not count twice."""
    for place, run in enumerate(runs):
        answers = {result.key: result.answer for result in run.results if result.answer is not None}
        for other in runs[:place]:
            if run.name == other.name:
                raise UsageError(f"these runs cannot be combined: {run.name} is named twice")
            # An answer knows how long it took, to the last bit: a copy of it comes from the store.
            copies = [
                result.key
                for result in other.results
                if result.answer is not None and result.answer.seconds and result.answer == answers.get(result.key)
            ]
            if copies and _model(run) == _model(other):
                raise UsageError(
                    f"these runs cannot be combined: {len(copies):,} answers of {run.name} are stored answers that "
                    f"{other.name} has, too, so they are no further samples. Ask anew with --fresh, or for more with "
                    "--samples=N"
                )


def _equal_texts(runs: Sequence[RunPart]) -> bool:
    """Whether every run has the same texts."""
    texts = [sorted((r.key._replace(sample=0), r.answer.text) for r in run.results if r.answer) for run in runs]
    return bool(texts[0]) and all(text == texts[0] for text in texts)


def _numbers(runs: Sequence[RunPart]) -> list[dict[int, int]]:
    """The new number of each sample, run by run."""
    numbers, last = [], 0
    for run in runs:
        own = sorted(_every(run))
        numbers.append({sample: last + place for place, sample in enumerate(own, 1)})
        last += len(own)
    return numbers


def _has_every_sample(keys: Collection[QuestionKey], about: Mapping[str, Any], selections: Iterable[Selection]) -> bool:
    """Whether runs that selected some of their samples hold all samples of the pooled run."""
    if any(selection.ranked_by_outcome for selection in selections) or any(key.variant for key in keys):
        return False
    return len(keys) == len({key.question for key in keys}) * (Protocol.of(about).samples or 1)


def _origin(run: RunPart, numbers: Mapping[int, int]) -> dict[str, Any]:
    """Return what the pooled run's run.json says of one run; `numbers`: its samples -> those of the pooled run."""
    kept = ("started", "finished", "versions", "usage", "judge_usage", "merged")
    identities = of_sessions(run.about, len(run.results))
    return {
        "name": run.name,
        "model": (run.about.get("model") or {}).get("name", ""),
        "fingerprint": (run.about.get("model") or {}).get("fingerprint"),
        "samples": {str(sample): new for sample, new in numbers.items()},
        **{field: run.about[field] for field in kept if run.about.get(field)},
        **({"identity": identities} if identities else {}),
    }


def _about(
    runs: Sequence[RunPart],
    name: str,
    protocol: Protocol,
    numbers: Sequence[Mapping[int, int]],
    keys: set[QuestionKey],
) -> dict[str, Any]:
    """run.json of the pooled run: the first run's, with the origin of each sample in `merged`."""
    abouts = [run.about for run in runs]
    whole = replace(
        Protocol.of(abouts[0]),
        samples=sum(map(len, numbers)),
        combine=protocol.combine,
        thresholds=protocol.thresholds,
    )
    about = {**combining.under(abouts[0], whole), "name": name}
    for field in ("sessions", "gate", "names", "missing", "options"):
        about.pop(field, None)
    models = list(dict.fromkeys(map(_model, runs)))
    if len(models) > 1:
        names = [model_name for model_name, _ in models]
        known = [(about.get("model") or {}).get("fingerprint") for about in abouts]
        joined = None if None in known else sha256("\0".join(map(str, known)).encode()).hexdigest()
        config = {"backend": _RECORDED} if _recorded(runs) else {}
        about |= {"model": {"name": " + ".join(names), "fingerprint": joined}, "config": config}
        for benchmark in about["benchmarks"].values():
            benchmark["signature"] = {**benchmark["signature"], "models": "+".join(names)}
    about["options"] = {
        **abouts[0].get("options", {}),
        "shard": None,
        "model": None if len(models) > 1 else abouts[0].get("options", {}).get("model"),
    }
    how = [typed for run in abouts for typed in Selection.of(run).how]
    selections = [Selection.of(run) for run in abouts]
    about["selection"] = select_from(
        keys,
        about,
        how,
        by_outcome=any(selection.ranked_by_outcome for selection in selections),
        every=all(selection.every for selection in selections) or _has_every_sample(keys, about, selections),
    ).as_json()
    add_usage_and_times(about, abouts)
    about["merged"] = [_origin(run, number) for run, number in zip(runs, numbers, strict=True)]
    return about
